"""Bounds tenants whose questions are heavy while other tenants ask as well: their places, and their begun questions.

``server`` asks it for a tenant's places, ``turns`` whether one more of its questions may begin, and whose is next.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HEAVY_S: Final = 0.1
"""Processor seconds above which a question is heavy: some five times an ordinary one."""
HEAVY_FOR_S: Final = 60.0
"""For how long after a heavy question its tenant counts as heavy."""
ACTIVE_S: Final = 10.0
"""For how long after a request its tenant counts as active."""


@dataclass
class _Tenant:
    asked_at: float
    used_s: float
    """Processor seconds of its questions, since it became active."""
    heavy_until: float = float("-inf")
    present: int = 0
    """Requests that wait or are begun."""
    running: int = 0
    """Questions that are begun and not ended."""


class Shares:
    """Which tenants are active and which are heavy, and whether a heavy one may begin another question.

    A tenant that is active alone may use everything. Of several, a heavy one has at most its equal share of the worker
    processes at once, and all heavy ones together leave one worker to those that are not heavy.

    Parameters
    ----------
    workers
        Processes that answer.
    clock
        Returns seconds, of which only differences count.
    """

    def __init__(self, workers: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._workers, self._clock = workers, clock
        self._tenants: dict[str, _Tenant] = {}

    def asked(self, tenant_id: str) -> None:
        """Note that a tenant asks now, until :meth:`left`; forget those that no longer count."""
        now = self._clock()
        self._tenants = {
            name: one
            for name, one in self._tenants.items()
            if one.present or now < max(one.heavy_until, one.asked_at + ACTIVE_S)
        }
        if tenant_id not in self._tenants:  # it has no claim on what it did not use while it was away
            least = min((one.used_s for one in self._tenants.values()), default=0.0)
            self._tenants[tenant_id] = _Tenant(now, least)
        self._tenants[tenant_id].asked_at = now
        self._tenants[tenant_id].present += 1

    def left(self, tenant_id: str) -> None:
        """Note that a request has ended, or waits no more."""
        one = self._tenants[tenant_id]
        one.present -= 1
        one.asked_at = self._clock()

    def began(self, tenant_id: str) -> None:
        """Note that a question begins."""
        self._tenants[tenant_id].running += 1

    def ended(self, tenant_id: str, seconds: float) -> None:
        """Note that a question has ended that took some processor seconds."""
        one, now = self._tenants[tenant_id], self._clock()
        one.running -= 1
        one.used_s += seconds
        if seconds > HEAVY_S:
            one.heavy_until = now + HEAVY_FOR_S

    def order(self, tenant_id: str) -> float:
        """Return a number that is least for the tenant whose turn is next: heavy ones come last, by what they used."""
        return self._tenants[tenant_id].used_s if self._is_heavy(tenant_id) else float("-inf")

    def may_begin(self, tenant_id: str) -> bool:
        """Whether a tenant may begin another question now."""
        active = self._active()
        if len(active | {tenant_id}) == 1 or not self._is_heavy(tenant_id):
            return True
        if self._tenants[tenant_id].running >= max(1, self._workers // len(active)):
            return False
        running = sum(one.running for name, one in self._tenants.items() if self._is_heavy(name))
        kept_free = any(not self._is_heavy(name) for name in active)
        return running < max(1, self._workers - kept_free)

    def places(self, tenant_id: str, at_once: int) -> int:
        """Return how many of all places a tenant may have, running or waiting."""
        active = self._active() | {tenant_id}
        if len(active) == 1 or not self._is_heavy(tenant_id):
            return at_once
        return max(1, at_once // (2 * len(active)))

    def _active(self) -> set[str]:
        now = self._clock()
        return {name for name, one in self._tenants.items() if one.present or now < one.asked_at + ACTIVE_S}

    def _is_heavy(self, tenant_id: str) -> bool:
        return tenant_id in self._tenants and self._clock() < self._tenants[tenant_id].heavy_until


@dataclass
class Spent:
    """Processor seconds of one request."""

    seconds: float = 0.0


@dataclass(eq=False)
class _Measured:
    """A request that runs, and what the clock of its thread said last."""

    spent: Spent
    clock: Callable[[], float]
    seen: float


def thread_clock() -> Callable[[], float]:
    """Return what tells the processor seconds of the calling thread, to any thread; 0 where the system does not."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return lambda: 0.0
    clock = time.pthread_getcpuclockid(threading.get_ident())
    return lambda: time.clock_gettime(clock)


class ProcessorTime:
    """Divides the processor time of this process among the requests that run at each moment.

    Each has that of its own thread, and an equal part of what other threads took, which work for any of them. So
    unlike the time that passes, this hardly grows by waiting: for a hosted model, the disk, or other requests.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.process_time,
        clock_of_thread: Callable[[], Callable[[], float]] = thread_clock,
    ) -> None:
        self._clock, self._clock_of_thread = clock, clock_of_thread
        self._lock = threading.Lock()
        self._running: list[_Measured] = []
        self._since = 0.0

    @contextmanager
    def measured(self) -> Iterator[Spent]:
        """Measure a request on its own thread while the block runs; what is yielded is complete after it."""
        clock = self._clock_of_thread()
        with self._lock:
            self._divide()
            one = _Measured(Spent(), clock, clock())
            self._running.append(one)
        try:
            yield one.spent
        finally:
            with self._lock:
                self._divide()
                self._running.remove(one)

    def _divide(self) -> None:
        now = self._clock()
        others = now - self._since
        for one in self._running:
            seen = one.clock()
            one.spent.seconds += seen - one.seen
            others -= seen - one.seen
            one.seen = seen
        for one in self._running:
            one.spent.seconds += max(0.0, others) / len(self._running)
        self._since = now
