"""Deadlines and the retry policy of calls to stores and services."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from tenacity import Retrying, retry_if_exception_type, wait_random_exponential

from braid import deadline
from braid.errors import StoreTooSlow, TransientStoreError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Deadline(NamedTuple):
    """A moment of the monotonic clock, in seconds, by which a call is to end."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the deadline that many seconds from now."""
        return cls(time.monotonic() + seconds)

    @classmethod
    def of_request(cls) -> Deadline:
        """Return the deadline of the request that this thread works for; never, where there is none."""
        return cls.after(0.0 if deadline.is_over() else deadline.left())

    def left(self) -> float:
        """Return the remaining seconds, 0 after the deadline."""
        return max(0.0, self.at - time.monotonic())

    def is_over(self) -> bool:
        """Return whether the deadline has passed."""
        return time.monotonic() >= self.at


def retrying(
    attempts: int, *, until: Deadline | None = None, pause_s: float = 0.1, longest_pause_s: float = 2.0
) -> Retrying:
    """Return the retry policy for transient errors: bounded attempts, pauses with full jitter.

    Parameters
    ----------
    attempts
        Most attempts, the first included.
    until
        Deadline of further attempts and of the pauses between them; None for no deadline.
    pause_s, longest_pause_s
        Upper bound in seconds of the first pause, and of any; it doubles with each attempt.
    """
    end = until or Deadline(float("inf"))
    return Retrying(
        stop=lambda state: state.attempt_number >= attempts or end.is_over(),
        wait=wait_random_exponential(multiplier=pause_s, max=longest_pause_s),
        retry=retry_if_exception_type(TransientStoreError),
        sleep=lambda seconds: time.sleep(min(seconds, end.left())),
        reraise=True,
    )


@contextmanager
def too_slow_after(until: Deadline, message: str) -> Iterator[None]:
    """Convert transient errors after a deadline to StoreTooSlow.

    Raises StoreTooSlow with the message, if a transient error is raised after the deadline.
    """
    try:
        yield
    except TransientStoreError as error:
        if not until.is_over():
            raise
        raise StoreTooSlow(message) from error
