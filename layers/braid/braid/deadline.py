"""Deadline of the current request: set by ``within``, tested by ``check``; ``alarmed`` interrupts native code at it.

``api/handler.py`` sets the deadline to ``request_timeout_s`` of :mod:`braid.settings`, ``app.py`` to the limits of
a whole question and of each stage.
Loops, scans and calls to stores check it and raise once it has passed. It applies to the calls of its thread, and to
those of another thread that runs in a copy of the context. A single call to a store has its own time limit:
:class:`braid.engines.retries_and_deadlines.CallDeadline`.

:class:`CircuitBreaker` is here too: a service that failed is not called for a while, so that nobody waits for it.
"""

from __future__ import annotations

import heapq
import itertools
import math
import os
import threading
import time
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Generic, TypeVar
from weakref import WeakValueDictionary

from braid.errors import StoreTooSlow

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

_T = TypeVar("_T")
_Lock = TypeVar("_Lock", threading.Lock, threading.BoundedSemaphore)
_EVERY: Final = 512
"""Items of a loop between two checks of the clock."""
_LEAST_S: Final = 0.001
"""Least value of :func:`left`, in seconds."""
_DEADLINE: ContextVar[float] = ContextVar("braid_deadline", default=math.inf)


class CircuitBreaker:
    """After a failure, a service is not called for ``rest_s`` seconds: each call would wait for its time limit."""

    def __init__(self, rest_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rest_s = rest_s
        self._clock = clock
        self._until = float("-inf")

    def is_open(self) -> bool:
        """Return whether the service is not to be called."""
        return self._clock() < self._until

    def open(self) -> None:
        """Note a failure."""
        self._until = self._clock() + self.rest_s


@contextmanager
def within(seconds: float, *, share: float = 1.0) -> Iterator[None]:
    """Set the deadline of a block, never later than the enclosing one.

    Raises StoreTooSlow if the enclosing deadline has passed.

    Parameters
    ----------
    share
        Largest share of the enclosing time left, so that some remains to answer without the block.
    """
    check()
    now = time.monotonic()
    token = _DEADLINE.set(now + min(seconds, share * (_DEADLINE.get() - now)))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


@contextmanager
def suspended() -> Iterator[None]:
    """Run a block without a deadline: a write that has begun, or shared work that later requests need too."""
    token = _DEADLINE.set(math.inf)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def left() -> float:
    """Return the seconds left, at least a thousandth; infinite without a deadline."""
    return max(_LEAST_S, _DEADLINE.get() - time.monotonic())


def is_over() -> bool:
    """Return whether the deadline has passed."""
    return time.monotonic() >= _DEADLINE.get()


def check() -> None:
    """Raise StoreTooSlow if the deadline has passed."""
    if is_over():
        raise StoreTooSlow("the time limit of the request has passed")


def checked(items: Iterable[_T], *, every: int = _EVERY) -> Iterator[_T]:
    """Yield items, checking the deadline every few hundred of them. Raises StoreTooSlow if the deadline has passed."""
    for place, item in enumerate(items):
        if not place % every:
            check()
        yield item


@contextmanager
def holding(lock: threading.Lock | threading.BoundedSemaphore) -> Iterator[None]:
    """Hold a lock, waiting for it until the deadline at most.

    Raises StoreTooSlow if others held it until the deadline.
    """
    if not lock.acquire(timeout=min(left(), threading.TIMEOUT_MAX)):
        raise StoreTooSlow("the time limit of the request passed while it waited for others")
    try:
        yield
    finally:
        lock.release()


@contextmanager
def alarmed(action: Callable[[], object], *, seconds: float | None = None) -> Iterator[None]:
    """Run an action, such as one that interrupts native code, if the deadline passes while the block runs.

    Once the block has ended, the action is neither running nor started any more. It must neither raise nor block.

    Parameters
    ----------
    seconds
        Time after which it runs, instead of the deadline.
    """
    after_s = left() if seconds is None else max(_LEAST_S, seconds)
    if math.isinf(after_s):
        yield
        return
    alarm = _ALARMS.set(time.monotonic() + after_s, action)
    try:
        yield
    finally:
        alarm.end()


class _Alarm:
    """An action that runs at most once, and not after :meth:`end`."""

    def __init__(self, action: Callable[[], object]) -> None:
        self._action: Callable[[], object] | None = action
        self._lock = threading.Lock()

    @property
    def ended(self) -> bool:
        return self._action is None

    def run(self) -> None:
        """Run the action, unless the alarm has ended; it has afterwards."""
        with self._lock:
            if self._action is not None:
                with suppress(Exception):  # the thread has to run the other alarms
                    self._action()
                self._action = None

    def end(self) -> None:
        """Wait for the action if it is running, and prevent it from running later."""
        with self._lock:
            self._action = None


class _Alarms:
    """Runs all alarms on one thread: starting one for each would wait for the interpreter's lock each time."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Drop all alarms and the thread, which a forked process does not have."""
        self._changed = threading.Condition()
        self._set: list[tuple[float, int, _Alarm]] = []
        self._numbers = itertools.count()
        self._wakes_at = math.inf
        self._watched = False

    def set(self, at: float, action: Callable[[], object]) -> _Alarm:
        """Return an alarm that runs an action at a time of :func:`time.monotonic`."""
        alarm = _Alarm(action)
        with self._changed:
            heapq.heappush(self._set, (at, next(self._numbers), alarm))
            if not self._watched:
                self._watched = True
                threading.Thread(target=self._watch, name="braid-alarms", daemon=True).start()
            elif at < self._wakes_at:
                self._wakes_at = at
                self._changed.notify()
        return alarm

    def _watch(self) -> None:
        with self._changed:
            while True:
                while self._set and (self._set[0][2].ended or self._set[0][0] <= time.monotonic()):
                    heapq.heappop(self._set)[2].run()
                self._wakes_at = self._set[0][0] if self._set else math.inf
                left_s = self._wakes_at - time.monotonic()
                self._changed.wait(None if math.isinf(left_s) else left_s)


_ALARMS: Final = _Alarms()
os.register_at_fork(after_in_child=_ALARMS.reset)


class Locks(Generic[_Lock]):
    """One lock per key, such as a tenant, which is dropped once no thread refers to it."""

    def __init__(self, make: Callable[[], _Lock]) -> None:
        self._make: Callable[[], _Lock] = make
        self.reset()

    def reset(self) -> None:
        """Drop all locks; for a forked process, where those that other threads held would never be released."""
        self._finding = threading.Lock()
        self._locks: WeakValueDictionary[Hashable, _Lock] = WeakValueDictionary()

    def of(self, key: Hashable) -> _Lock:
        """Return the lock of a key: the same object for every thread that has it at the same time."""
        with self._finding:
            lock = self._locks.get(key)
            if lock is None:
                lock = self._locks[key] = self._make()
        return lock


class Stopwatch:
    """Monotonic elapsed time in milliseconds."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def ms(self) -> float:
        """Return elapsed milliseconds, to the microsecond."""
        return round((time.perf_counter() - self._start) * 1000.0, 3)

    def lap(self) -> float:
        """Return elapsed milliseconds and start again."""
        elapsed, self._start = self.ms(), time.perf_counter()
        return elapsed
