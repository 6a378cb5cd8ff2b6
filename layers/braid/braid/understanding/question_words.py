"""The words of a question that are looked up, the same ones whatever the engine."""

from __future__ import annotations

import unicodedata
from typing import Final

from braid.understanding.ideographs import pairs
from braid.understanding.unicode_forms import composed

MAX_WORDS: Final = 256
"""Different words of one question that are searched, the first ones; bounds the work of a 10,000-character question."""
_KEPT = ("L", "N", "M", "Co")  # what FTS5's unicode61 makes tokens of
_FUNCTION_TEXT = """
    a an and are as at be been but by did do does for from had has have how if in into is it its of on
    or that the their then there these they this to was were what when where which who whom whose why
    will with
"""
_FUNCTION_WORDS = frozenset(_FUNCTION_TEXT.split())


def question_words(text: str) -> list[str]:
    """Return the different words of a question, in order, as FTS5's tokenizer splits them.

    Where no spaces are written between words, each two characters that stand together are one, with a space between.
    Words that carry no meaning are dropped unless there are no others: they cost most of the time and, being in most
    texts, move the score by next to nothing.
    """
    lowered = composed(text).lower()
    cut = "".join(
        character if character.isalnum() or unicodedata.category(character).startswith(_KEPT) else " "
        for character in lowered
    )
    found = list(dict.fromkeys(part for word in cut.split() for part in pairs(word)))
    return ([word for word in found if word not in _FUNCTION_WORDS] or found)[:MAX_WORDS]
