"""Calls to hosted rerankers: prepared texts, deadline, retries and concurrency limit.

A call runs on a thread of its own, because HTTP clients cannot be interrupted: at the deadline the caller continues,
and the abandoned thread ends with its connection. The number of threads is limited.
"""

from __future__ import annotations

import math
import random
import re
import threading
import time
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from braid.engines.retries_and_deadlines import CallDeadline
from braid.errors import RerankFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


MAX_CONCURRENT_CALLS = 16
"""Most concurrent calls of one reranker, abandoned ones included."""
_PAUSE_S = 0.1
_T = TypeVar("_T")


class TryAgain(Exception):
    """A transient failure: the service was throttled, unreachable or failed internally.

    Parameters
    ----------
    after_s
        Seconds of pause that the service asked for; 0 if none.
    """

    def __init__(self, message: str, *, after_s: float = 0.0) -> None:
        super().__init__(message)
        self.after_s = after_s


class CallBudget:
    """Runs the calls of one reranker within a deadline and a concurrency limit.

    Parameters
    ----------
    concurrency
        Most concurrent calls; a further one waits for one of them to end, until its own deadline.
    """

    def __init__(self, name: str, *, attempts: int, concurrency: int = MAX_CONCURRENT_CALLS) -> None:
        self._name = name
        self._attempts = attempts
        self._slots = threading.BoundedSemaphore(concurrency)

    def run(self, call: Callable[[CallDeadline], _T], *, timeout_s: float, cost_usd: float = 0.0) -> _T:
        """Return what ``call`` returns.

        Raises RerankFailed if ``call`` raised it, if no attempt succeeded, or at the deadline.

        Parameters
        ----------
        call
            Given the deadline; raises :class:`TryAgain` for transient failures.
        timeout_s
            Seconds from now, attempts and the pauses between them included.
        cost_usd
            Estimated price of the call, charged also when it times out, since the service may bill it.
        """
        deadline = CallDeadline.after(timeout_s)
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
            # Only the kind: a client's message may quote its input.
            raise RerankFailed(f"reranker {self._name}: {type(error).__name__}") from error

    def _attempt(self, call: Callable[[CallDeadline], _T], deadline: CallDeadline) -> _T:
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


_PIECE = re.compile(r"[A-Za-z]+|[0-9]+|\s+|.", re.DOTALL)
_LETTERS_A_TOKEN = 3
_SPACES_A_TOKEN = 4
_ROUNDING = 1e-3
"""Rounding error by which a score may lie outside [0, 1]."""


@dataclass(frozen=True)
class Prepared:
    """A question and its candidate texts, cut to a model's token window.

    Attributes
    ----------
    question
        The question, cut at half of the window.
    texts
        The texts that are not blank, each cut to fit the window with the question.
    places
        Index of each of ``texts`` among all given.
    count
        Number of texts given.
    """

    question: str
    texts: tuple[str, ...]
    places: tuple[int, ...]
    count: int

    def scores(self, found: Iterable[tuple[object, object]], reranker: str) -> list[float]:
        """Return one score per given text, from (index among ``texts``, score) pairs; 0 for a blank text.

        Raises RerankFailed if an index is unknown or repeated, a text has no score, or a score is no number in [0, 1].
        """
        scores = [0.0] * self.count
        missing = set(range(len(self.texts)))
        for place, score in found:
            if not isinstance(place, int) or isinstance(place, bool) or place not in missing:
                raise RerankFailed(f"reranker {reranker}: the answer has a score for no text, or two for one")
            if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
                raise RerankFailed(f"reranker {reranker}: the answer has a score that is no finite number")
            if not -_ROUNDING <= score <= 1.0 + _ROUNDING:
                raise RerankFailed(f"reranker {reranker}: the answer has a score outside [0, 1]")
            missing.remove(place)
            scores[self.places[place]] = min(1.0, max(0.0, float(score)))
        if missing:
            found_for = len(self.texts) - len(missing)
            raise RerankFailed(f"reranker {reranker}: the answer has {found_for} scores for {len(self.texts)} texts")
        return scores


def prepare(query: str, texts: Sequence[str], *, window: int, characters: int | None = None) -> Prepared:
    """Cut a question to half of a model's token window, and each text to the rest of the window.

    ``characters`` are the service's limits of question and text in characters, if it has any.
    """
    question = cut(query, window // 2)[:characters]
    room = window - tokens(question)
    kept = [(place, cut(text, room)[:characters]) for place, text in enumerate(texts)]
    kept = [(place, text) for place, text in kept if text.strip()]
    return Prepared(question, tuple(text for _, text in kept), tuple(place for place, _ in kept), len(texts))


def tokens(text: str) -> int:
    """Return the estimated number of tokens of a text, on the high side."""
    return sum(_cost(match[0]) for match in _PIECE.finditer(text))


def cut(text: str, room: int) -> str:
    """Return the longest prefix of a text of at most ``room`` estimated tokens."""
    if len(text) <= room and text.isascii():
        return text
    for match in _PIECE.finditer(text):
        cost = _cost(match[0])
        if cost > room:
            # A run of letters or digits may be cut anywhere; white space at the end is dropped.
            width = _LETTERS_A_TOKEN if match[0].isalpha() else 1
            inside = room * width if match[0].isascii() and match[0].isalnum() else 0
            return text[: match.start() + inside].rstrip()
        room -= cost
    return text


def _cost(piece: str) -> int:
    if not piece.isascii():
        return 0 if piece.isspace() and len(piece) == 1 else (len(piece.encode()) + 1) // 2
    if piece.isalpha():
        return -(-len(piece) // _LETTERS_A_TOKEN)
    if piece.isspace():
        return -(-(len(piece) - 1) // _SPACES_A_TOKEN)
    return len(piece)
