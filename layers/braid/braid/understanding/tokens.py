"""Tokens and Unicode normalisation of texts, in time linear in their length.

Normalising sorts each run of combining marks, which Python does by insertion: a text of nothing but marks takes time
with the square of its length.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LONGEST_RUN: Final = 30
"""Combining marks in a row, as of Unicode's Stream-Safe Text Format (UAX #15); no language writes ten."""


def composed(text: str) -> str:
    """Return a text in the form NFC; of a run of combining marks the first :data:`LONGEST_RUN`."""
    if text.isascii():
        return text
    kept: list[str] = []
    run = 0
    for character in text:
        run = run + 1 if unicodedata.combining(character) else 0
        if run <= LONGEST_RUN:
            kept.append(character)
    return unicodedata.normalize("NFC", "".join(kept))


def without_marks(text: str) -> str:
    """Return a text in the form NFKD, without combining marks such as accents."""
    if text.isascii():
        return text
    # Marks are dropped before as well: what is left decomposes into runs of a few.
    return _unmarked(unicodedata.normalize("NFKD", _unmarked(text)))


class Replaced(dict[int, int | None]):
    """What becomes of each character, by a function of it: a table for ``str.translate``."""

    def __init__(self, of: Callable[[str], int | None]) -> None:
        super().__init__()
        self._of = of

    def __missing__(self, code: int) -> int | None:
        kept = self._of(chr(code))
        if len(self) < _CHARACTERS_KNOWN:
            self[code] = kept
        return kept


_CHARACTERS_KNOWN: Final = 4_096
_MARKS: Final = Replaced(lambda character: None if unicodedata.combining(character) else ord(character))


def _unmarked(text: str) -> str:
    return text.translate(_MARKS)


_HAN: Final = "\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_HIRAGANA: Final = "\u3041-\u3096\u309d-\u309f"
_HAN_CHARACTER: Final = re.compile(f"[{_HAN}]")
_IDEOGRAPH: Final = re.compile(f"[{_HAN}{_HIRAGANA}]")
_PART: Final = re.compile(f"[{_HAN}{_HIRAGANA}]+|[^{_HAN}{_HIRAGANA}]+")

MIN_HAN: Final = 2
"""Han characters that make a word."""
MAX_WORDS: Final = 256
"""Different words of one question that are searched, the first ones; bounds the work of a 10,000-character question."""


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text between spaces."""
    return frozenset(text.split())


FUNCTION_WORDS: Final = word_set("""
    a an and are as at be been but by did do does for from had has have how if in into is it its of on
    or that the their then there these they this to was were what when where which who whom whose why
    will with
""")
"""Words without meaning of their own, which a search leaves out."""
STOP_WORDS: Final = FUNCTION_WORDS | word_set("""
    about after all also any because before between both can could during each find her his last list
    many me most much new not one other our out over show since some such tell than them those two under
    until use used without would you your
""")
"""Words that are no name by themselves."""

_WORD = re.compile(r"[^\W_]+(?:[.'’&+#-]+[^\W_]+)*[+#]*", re.UNICODE)
_POSSESSIVE = re.compile(r"['’]s?$", re.IGNORECASE)
_INNER = re.compile(r"[.'’&-][.'’&+#-]*")
_KEPT = ("L", "N", "M", "Co")  # what FTS5's unicode61 makes tokens of
_SEARCHED: Final = Replaced(
    lambda character: ord(character) if unicodedata.category(character).startswith(_KEPT) else ord(" ")
)
_NAME_CHARACTERS: Final = 256
_NAMES_KNOWN: Final = 4_096


def words(text: str) -> list[str]:
    """Split text into normalised words: lower case, no diacritics, no possessive, inner punctuation dropped."""
    return [word.casefold() for word in cased_words(text)]


def terms(text: str) -> list[str]:
    """Return the normalised words, and each two characters that stand together where no spaces are written."""
    return [term for word in words(text) for term in character_bigrams(word)]


def cased_words(text: str) -> list[str]:
    """Split text into the same words as :func:`words`, in the case in which they are written."""
    written: list[str] = _WORD.findall(without_marks(text))
    if all(map(str.isalnum, written)):  # most have nothing to cut off
        return written
    found: list[str] = []
    for word in written:
        if word.isalnum():
            found.append(word)
        else:
            found.extend(_INNER.sub(" ", _POSSESSIVE.sub("", word)).split())
    return found


def normalise(name: str) -> str:
    """Return the form in which a name is stored and looked up; empty when nothing of it is a word."""
    return _normalised(name) if len(name) <= _NAME_CHARACTERS else " ".join(words(name))


@lru_cache(maxsize=_NAMES_KNOWN)
def _normalised(name: str) -> str:
    # An answer asks for the same few names again and again: of links, of titles, of paths.
    return " ".join(words(name))


def occurrences(run: Sequence[str], words: Sequence[str]) -> list[int]:
    """Return the places in a sequence of words at which a run of them begins."""
    size, first = len(run), run[:1]
    starts = range(len(words) - size + 1)
    # Most places are ruled out by their first word, without a slice of each.
    return [start for start in starts if (not first or words[start] == first[0]) and words[start : start + size] == run]


def search_words(text: str) -> list[str]:
    """Return the different words of a question, in order, as FTS5's tokenizer splits them.

    Where no spaces are written between words, each two characters that stand together are one, with a space between.
    Words that carry no meaning are dropped unless there are no others: they cost most of the time and, being in most
    texts, move the score by next to nothing.
    """
    found = composed(text).lower().translate(_SEARCHED).split()
    if not text.isascii():
        found = [part for word in found for part in character_bigrams(word)]
    found = list(dict.fromkeys(found))
    return ([word for word in found if word not in FUNCTION_WORDS] or found)[:MAX_WORDS]


def space_ideographs(text: str) -> str:
    """Return a text in which every ideograph stands by itself, between spaces."""
    return _IDEOGRAPH.sub(r" \g<0> ", text) if has_ideographs(text) else text


def has_ideographs(text: str) -> bool:
    """Return whether a text has an ideograph."""
    return not text.isascii() and _IDEOGRAPH.search(text) is not None


def split_ideographs(word: str) -> list[str]:
    """Return a word's ideographs each by itself, and what is between them whole."""
    return space_ideographs(word).split() if has_ideographs(word) else [word]


def character_bigrams(word: str) -> list[str]:
    """Return each two ideographs of a word that stand together, with a space between; one that is alone; the rest."""
    if not has_ideographs(word):
        return [word]
    found: list[str] = []
    for part in _PART.findall(word):
        if len(part) > 1 and has_ideographs(part):
            found.extend(f"{first} {second}" for first, second in pairwise(part))
        else:
            found.append(part)
    return found


def count_han(text: str) -> int:
    """Return how many Han characters a text has."""
    return 0 if text.isascii() else len(_HAN_CHARACTER.findall(text))
