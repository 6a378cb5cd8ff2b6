"""Inputs of hosted rerankers, cut to a token window, and validation of their scores.

The services' tokenizers are not available here, so tokens are estimated, on the high side: three letters, one digit and
one sign are a token each, single white space is free, and a character beyond ASCII is half as many tokens as it has
bytes in UTF-8, rounded up. Texts are therefore cut slightly early, never late.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from braid.errors import RerankFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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

        Raises
        ------
        RerankFailed
            If an index is unknown or repeated, a text has no score, or a score is no number in [0, 1].
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
    """Cut a question and its texts to a token window.

    Parameters
    ----------
    query
        The question; cut at half of the window.
    texts
        Any number, of any length.
    window
        Most tokens of the question and one text together.
    characters
        Most characters of the question and of a text, where a service limits those too.
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
            # A run of letters or digits may end anywhere; white space at the end is worth nothing.
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
