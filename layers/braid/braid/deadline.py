"""Deadline of the current request, as a context variable.

The entry point of a request sets it; loops, scans and calls to stores check it and raise once it has passed. It applies
to the calls of its thread, and to those of another thread that runs in a copy of the context.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, TypeVar

from braid.errors import StoreTooSlow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_T = TypeVar("_T")
_EVERY: Final = 512
"""Items of a loop between two looks at the clock."""
_LEAST_S: Final = 0.001
"""A request may not have no time at all."""
_ENDS: ContextVar[float] = ContextVar("braid_deadline", default=math.inf)


@contextmanager
def within(seconds: float, *, share: float = 1.0) -> Iterator[None]:
    """Let what is inside end after some time, and never later than what is around it has to.

    Parameters
    ----------
    share
        Most of the time left to what is around it, so that there may be some left to answer without what is inside.

    Raises
    ------
    StoreTooSlow
        If the time of what is around it is over already.
    """
    check()
    now = time.monotonic()
    token = _ENDS.set(now + min(seconds, share * (_ENDS.get() - now)))
    try:
        yield
    finally:
        _ENDS.reset(token)


@contextmanager
def suspended() -> Iterator[None]:
    """Let what is inside be done whole: a write that has begun, or what the next request needs as well."""
    token = _ENDS.set(math.inf)
    try:
        yield
    finally:
        _ENDS.reset(token)


def left() -> float:
    """Return how many seconds are left, at least a thousandth; infinite where nobody waits."""
    return max(_LEAST_S, _ENDS.get() - time.monotonic())


def is_over() -> bool:
    """Return whether the time is over."""
    return time.monotonic() >= _ENDS.get()


def check() -> None:
    """Go on while there is time.

    Raises
    ------
    StoreTooSlow
        If the time is over.
    """
    if is_over():
        message = "the time that a request has is over"
        raise StoreTooSlow(message)


def checked(items: Iterable[_T], *, every: int = _EVERY) -> Iterator[_T]:
    """Yield items while there is time, which is looked at once in so many items.

    Raises
    ------
    StoreTooSlow
        If the time is over.
    """
    for place, item in enumerate(items):
        if not place % every:
            check()
        yield item


@contextmanager
def holding(lock: threading.Lock) -> Iterator[None]:
    """Hold a lock, and wait for it no longer than there is time.

    Raises
    ------
    StoreTooSlow
        If others held it until the time was over.
    """
    if not lock.acquire(timeout=min(left(), threading.TIMEOUT_MAX)):
        message = "others held what a request needs until its time was over"
        raise StoreTooSlow(message)
    try:
        yield
    finally:
        lock.release()
