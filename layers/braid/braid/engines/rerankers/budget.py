"""A hosted reranker's time: so many seconds for a question, whatever the service does.

The call runs on a thread of its own, so that a client which only knows how to wait holds up nobody: when the time is
over the caller goes on, and the thread ends by itself when its connection does. Threads that nobody waits for any more
are bounded in number.
"""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from braid.errors import RerankFailed

if TYPE_CHECKING:
    from collections.abc import Callable

LANES = 16
"""Calls of one reranker that may be under way at once, those that nobody waits for included."""
_PAUSE_S = 0.1
_T = TypeVar("_T")


class TryAgain(Exception):
    """A service was throttled, unreachable or failed in itself.

    Parameters
    ----------
    message
        What happened, without anything that was sent.
    after_s
        Seconds after which it asked to be called again; 0 where it named none.
    """

    def __init__(self, message: str, *, after_s: float = 0.0) -> None:
        super().__init__(message)
        self.after_s = after_s


class Deadline(NamedTuple):
    """A moment of the monotonic clock, in seconds."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the moment that many seconds from now."""
        return cls(time.monotonic() + seconds)

    def left(self) -> float:
        """Return the seconds that are left, 0 when it has passed."""
        return max(0.0, self.at - time.monotonic())


class Budget:
    """Runs one reranker's calls within their time.

    Parameters
    ----------
    name
        The reranker, for messages.
    attempts
        How often a call is made at most, while its time lasts.
    lanes
        Calls under way at once; the next waits for one to end, within its own time.
    """

    def __init__(self, name: str, *, attempts: int, lanes: int = LANES) -> None:
        self._name = name
        self._attempts = attempts
        self._lanes = threading.BoundedSemaphore(lanes)

    def run(self, call: Callable[[Deadline], _T], *, timeout_s: float, cost_usd: float = 0.0) -> _T:
        """Return what ``call`` returns.

        Parameters
        ----------
        call
            Told until when; raises :class:`TryAgain` where trying again may help.
        timeout_s
            Seconds from now, tries and the pauses between them included.
        cost_usd
            Estimated price of the call, charged to a failure that the service may bill nevertheless.

        Raises
        ------
        RerankFailed
            If ``call`` raised it, if no try succeeded, or if the time is over.
        """
        deadline = Deadline.after(timeout_s)
        too_slow = RerankFailed(f"reranker {self._name}: needs more than its {timeout_s:.3g} s", cost_usd=cost_usd)
        if not self._lanes.acquire(timeout=timeout_s):
            raise RerankFailed(f"reranker {self._name}: too many calls are under way")
        future: Future[_T] = Future()

        def work() -> None:
            try:
                future.set_result(self._tries(call, deadline))
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is waited for
                future.set_exception(error)
            finally:
                self._lanes.release()

        # A daemon: a process that ends does not wait for a service that does not answer.
        threading.Thread(target=work, name=f"rerank-{self._name}", daemon=True).start()
        wait((future,), timeout=deadline.left())
        if not future.done():
            raise too_slow
        try:
            return future.result()
        except TryAgain as error:
            if not deadline.left():
                raise too_slow from error
            raise RerankFailed(f"reranker {self._name}: {error}") from error
        except RerankFailed:
            raise
        except Exception as error:
            # Only the kind: a client's message may quote what it was given.
            raise RerankFailed(f"reranker {self._name}: {type(error).__name__}") from error

    def _tries(self, call: Callable[[Deadline], _T], deadline: Deadline) -> _T:
        made = 0
        while True:
            made += 1
            try:
                return call(deadline)
            except TryAgain as error:
                pause = error.after_s or random.uniform(0, _PAUSE_S * made)  # noqa: S311 - spreads load, hides nothing
                if made >= self._attempts or pause >= deadline.left():
                    raise
                time.sleep(pause)
