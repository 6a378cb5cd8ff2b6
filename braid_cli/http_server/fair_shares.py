"""Limits tenants with heavy (expensive) questions, or very many light ones, while other tenants are active.

It limits their concurrent requests, for ``server``, and their running questions and their order, for
``request_scheduler``.
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
"""Processor seconds above which a question is heavy: about five times an ordinary one."""
HEAVY_TOGETHER_S: Final = 5.0
"""Processor seconds above which a tenant's questions of some :data:`TOGETHER_S` seconds are heavy: half a core."""
TOGETHER_S: Final = 10.0
"""Seconds whose questions are added up."""
HEAVY_FOR_S: Final = 60.0
"""Seconds for which a tenant counts as heavy after a heavy question."""
ACTIVE_S: Final = 10.0
"""Seconds for which a tenant counts as active after a request."""


@dataclass
class _Tenant:
    asked_at: float
    used_s: float
    """Processor seconds of its questions since it became active, on top of the least that another tenant had then."""
    heavy_until: float = float("-inf")
    added_since: float = float("-inf")
    added_s: float = 0.0
    """Processor seconds of its questions that ended since then."""
    present: int = 0
    """Number of requests that wait or run."""
    running: int = 0
    """Number of running questions."""


class Shares:
    """Fair shares of tenants: tracks which are active and heavy, and limits the heavy ones.

    A tenant that is active alone may use everything. If several are, a heavy one runs at most as many questions as its
    equal share of the worker processes, and all heavy ones together leave one worker to those that are not heavy.

    Parameters
    ----------
    workers
        Number of worker processes.
    clock
        Returns seconds of a monotonic clock.
    """

    def __init__(self, workers: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._workers, self._clock = workers, clock
        self._tenants: dict[str, _Tenant] = {}

    def asked(self, tenant_id: str) -> None:
        """Register a request of a tenant, until :meth:`left`; drop tenants that are no longer active or heavy."""
        now = self._clock()
        self._tenants = {
            name: one
            for name, one in self._tenants.items()
            if one.present or now < max(one.heavy_until, one.asked_at + ACTIVE_S)
        }
        if tenant_id not in self._tenants:  # no credit for time in which it was inactive
            least = min((one.used_s for one in self._tenants.values()), default=0.0)
            self._tenants[tenant_id] = _Tenant(now, least)
        self._tenants[tenant_id].asked_at = now
        self._tenants[tenant_id].present += 1

    def left(self, tenant_id: str) -> None:
        """Unregister a request that has ended or given up waiting."""
        one = self._tenants[tenant_id]
        one.present -= 1
        one.asked_at = self._clock()

    def began(self, tenant_id: str) -> None:
        """Register the start of a question."""
        self._tenants[tenant_id].running += 1

    def ended(self, tenant_id: str, seconds: float) -> None:
        """Register the end of a question, with its processor seconds."""
        one, now = self._tenants[tenant_id], self._clock()
        one.running -= 1
        one.used_s += seconds
        if now - one.added_since > TOGETHER_S:
            one.added_since, one.added_s = now, 0.0
        one.added_s += seconds
        if seconds > HEAVY_S or one.added_s > HEAVY_TOGETHER_S:
            one.heavy_until = now + HEAVY_FOR_S

    def order(self, tenant_id: str) -> float:
        """Return a tenant's sort key, lowest first: heavy tenants come last, by the processor time that they used."""
        return self._tenants[tenant_id].used_s if self._is_heavy(tenant_id) else float("-inf")

    def may_begin(self, tenant_id: str) -> bool:
        """Return whether a tenant may start another question now."""
        active = self._active()
        if len(active | {tenant_id}) == 1 or not self._is_heavy(tenant_id):
            return True
        if self._tenants[tenant_id].running >= max(1, self._workers // len(active)):
            return False
        running = sum(one.running for name, one in self._tenants.items() if self._is_heavy(name))
        kept_free = any(not self._is_heavy(name) for name in active)
        return running < max(1, self._workers - kept_free)

    def places(self, tenant_id: str, at_once: int) -> int:
        """Return the limit of a tenant's concurrent requests, waiting ones included, out of ``at_once`` for all."""
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
    """A running request, with its thread's clock and that clock's last reading."""

    spent: Spent
    clock: Callable[[], float]
    seen: float


def thread_clock() -> Callable[[], float]:
    """Return a clock of the calling thread's processor seconds, for any thread to call; always 0 if there is none."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return lambda: 0.0
    clock = time.pthread_getcpuclockid(threading.get_ident())
    return lambda: time.clock_gettime(clock)


class ProcessorTime:
    """Attributes this process's processor time to its running requests.

    Each request is charged the time of its own thread, and an equal part of all other threads' time. Unlike elapsed
    time, this hardly includes waiting for a hosted model, the disk, or other requests.
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
        """Measure the request that the block runs on this thread; the yielded object is complete after the block."""
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
