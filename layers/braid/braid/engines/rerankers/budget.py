"""Deadline, retries and concurrency limit of calls to a hosted reranker.

A call runs on a thread of its own, because HTTP clients cannot be interrupted: at the deadline the caller continues,
and the abandoned thread ends with its connection. The number of threads is limited.
"""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, TypeVar

from braid.engines.retrying import Deadline
from braid.errors import RerankFailed

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_CONCURRENT_CALLS = 16
"""Most concurrent calls of one reranker, abandoned ones included."""
_PAUSE_S = 0.1
_T = TypeVar("_T")


class TryAgain(Exception):
    """A transient failure: the service was throttled, unreachable or failed internally.

    Parameters
    ----------
    message
        The failure, without any part of the request.
    after_s
        Seconds of pause that the service asked for; 0 if none.
    """

    def __init__(self, message: str, *, after_s: float = 0.0) -> None:
        super().__init__(message)
        self.after_s = after_s


class Budget:
    """Runs the calls of one reranker within a deadline and a concurrency limit.

    Parameters
    ----------
    name
        Name of the reranker, for error messages.
    attempts
        Most attempts at one call before its deadline.
    concurrency
        Most concurrent calls; a further one waits for one of them to end, until its own deadline.
    """

    def __init__(self, name: str, *, attempts: int, concurrency: int = MAX_CONCURRENT_CALLS) -> None:
        self._name = name
        self._attempts = attempts
        self._slots = threading.BoundedSemaphore(concurrency)

    def run(self, call: Callable[[Deadline], _T], *, timeout_s: float, cost_usd: float = 0.0) -> _T:
        """Return what ``call`` returns.

        Parameters
        ----------
        call
            Given the deadline; raises :class:`TryAgain` for transient failures.
        timeout_s
            Seconds from now, attempts and the pauses between them included.
        cost_usd
            Estimated price of the call, charged also when it times out, since the service may bill it.

        Raises
        ------
        RerankFailed
            If ``call`` raised it, if no attempt succeeded, or at the deadline.
        """
        deadline = Deadline.after(timeout_s)
        too_slow = RerankFailed(f"reranker {self._name}: needs more than its {timeout_s:.3g} s", cost_usd=cost_usd)
        if not self._slots.acquire(timeout=timeout_s):
            raise RerankFailed(f"reranker {self._name}: too many calls are under way")
        future: Future[_T] = Future()

        def work() -> None:
            try:
                future.set_result(self._attempt(call, deadline))
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is waited for
                future.set_exception(error)
            finally:
                self._slots.release()

        # A daemon thread: process exit does not wait for a service that does not answer.
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

    def _attempt(self, call: Callable[[Deadline], _T], deadline: Deadline) -> _T:
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
