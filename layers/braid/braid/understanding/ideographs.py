"""Scripts that put no spaces between words: Han characters, and the hiragana that Japanese writes between them.

Each character is a word by itself in the index of words, as OpenSearch's ``standard`` tokenizer has it, and a question
asks for two that stand together: most words of these languages have two characters, and one alone is in every text.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

_HAN: Final = "\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_HIRAGANA: Final = "\u3041-\u3096\u309d-\u309f"
_HAN_CHARACTER: Final = re.compile(f"[{_HAN}]")
_IDEOGRAPH: Final = re.compile(f"[{_HAN}{_HIRAGANA}]")
_PART: Final = re.compile(f"[{_HAN}{_HIRAGANA}]+|[^{_HAN}{_HIRAGANA}]+")

MIN_HAN: Final = 2
"""Characters that are a word, where most words have two."""


def apart(text: str) -> str:
    """Return a text in which every ideograph stands by itself, between spaces."""
    return _IDEOGRAPH.sub(r" \g<0> ", text) if has_any(text) else text


def has_any(text: str) -> bool:
    """Return whether a text has an ideograph."""
    return not text.isascii() and _IDEOGRAPH.search(text) is not None


def pieces(word: str) -> list[str]:
    """Return a word's ideographs each by itself, and what is between them whole."""
    return apart(word).split() if has_any(word) else [word]


def pairs(word: str) -> list[str]:
    """Return each two ideographs of a word that stand together, with a space between; one that is alone; the rest."""
    if not has_any(word):
        return [word]
    found: list[str] = []
    for part in _PART.findall(word):
        if len(part) > 1 and has_any(part):
            found.extend(f"{first} {second}" for first, second in pairwise(part))
        else:
            found.append(part)
    return found


def count_han(text: str) -> int:
    """Return how many Han characters a text has."""
    return 0 if text.isascii() else len(_HAN_CHARACTER.findall(text))
