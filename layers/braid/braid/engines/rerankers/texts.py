"""What a hosted reranker is sent, and what becomes of its scores.

Lengths are counted in tokens. The services' tokenizers are not at hand, so tokens are estimated, on the high side:
three letters, one digit and one sign are a token each, white space costs nothing while it is single, and a character
beyond ASCII is half as many tokens as it has bytes in UTF-8, rounded up. That cuts a text a little early, not late.
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
"""How far outside [0, 1] a score may be and still be meant to be inside."""


@dataclass(frozen=True)
class Prepared:
    """A question and the texts to compare it with, cut to a model's window.

    Attributes
    ----------
    question
        Cut at half of the window.
    texts
        Those with anything to read, each short enough to stand beside the question.
    places
        Where each of ``texts`` stood among all.
    count
        How many there were in all.
    """

    question: str
    texts: tuple[str, ...]
    places: tuple[int, ...]
    count: int

    def scores(self, found: Iterable[tuple[object, object]], reranker: str) -> list[float]:
        """Return one score a text as it was given, from (place among ``texts``, score); 0 for a text without words.

        Raises
        ------
        RerankFailed
            If a place is unknown or named twice, a text has no score, or a score is no number in [0, 1].
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
    """Cut a question and its texts.

    Parameters
    ----------
    query
        The question; what is beyond half of the window is not sent.
    texts
        Any number, of any length.
    window
        Tokens that a question and one text may have together.
    characters
        Most characters of the question and of a text, where a service counts those too.
    """
    question = cut(query, window // 2)[:characters]
    room = window - tokens(question)
    kept = [(place, cut(text, room)[:characters]) for place, text in enumerate(texts)]
    kept = [(place, text) for place, text in kept if text.strip()]
    return Prepared(question, tuple(text for _, text in kept), tuple(place for place, _ in kept), len(texts))


def tokens(text: str) -> int:
    """Return about how many tokens a text has, rather too many than too few."""
    return sum(_cost(match[0]) for match in _PIECE.finditer(text))


def cut(text: str, room: int) -> str:
    """Return the beginning of a text that has at most ``room`` tokens as estimated; all of it where that fits."""
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
