"""Finds the names of a tenant's given entities in the texts of a write, regardless of case; for ``name_finding``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from braid.understanding.tokens import STOP_WORDS, cased_words, has_ideographs, split_ideographs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LONGEST_PIECE: Final = 200
"""Most characters without white space that are read as one piece; the rest of a longer piece is skipped."""
LONGEST_TEXT: Final = 200_000
"""Longest prefix of a text that is read, in characters."""
MAX_NAME_WORDS: Final = 8
MAX_PHRASE_WORDS, MAX_PHRASE_IDEOGRAPHS = 4, 8
"""Most words, and most ideographs, of a phrase that is looked up as a given name, regardless of case."""
PIECE = re.compile(r"\S+")
_ENDS_WORD = frozenset(",;:.!?)")
"""Punctuation that is not part of the word before it."""


class _FoldedWord(NamedTuple):
    """A word of a text in lower case, or one ideograph."""

    text: str
    joined: bool
    """Whether there is no space before it."""
    start: int


def _folded_words(content: str) -> Iterator[_FoldedWord]:
    for piece in PIECE.finditer(content):
        raw = piece[0][:LONGEST_PIECE]
        word = raw[:-1] if raw[-1] in _ENDS_WORD else raw
        if word.isalnum() and word.isascii():  # a fast path for most words; the code below does the same
            yield _FoldedWord(word.lower(), False, piece.start())
            continue
        for word in cased_words(raw):
            if word.isascii():
                yield _FoldedWord(word.lower(), joined=False, start=piece.start())
                continue
            for place, part in enumerate(split_ideographs(word)):
                yield _FoldedWord(part.casefold(), place > 0, piece.start())


def _growing(words: Sequence[_FoldedWord], start: int, most: int) -> list[str]:
    """Return the runs of 1 to ``most`` words that begin at ``start``, the shortest first."""
    phrase = words[start].text
    runs = [phrase]
    for word in words[start + 1 : start + most]:
        phrase = f"{phrase}{word.text}" if word.joined else f"{phrase} {word.text}"
        runs.append(phrase)
    return runs


def phrases_in(content: str) -> Iterator[str]:
    """Yield the phrases of a text that may be given names, normalised for the look-up.

    Two to :data:`MAX_PHRASE_WORDS` words that neither begin nor end with a stop word, up to
    :data:`MAX_PHRASE_IDEOGRAPHS` ideographs, and single words of other scripts without case. A single word of a script
    with case is left out: it is a name only if it is capitalised.
    """
    words = list(_folded_words(content[:LONGEST_TEXT]))
    common = [word.text in STOP_WORDS for word in words]
    for start, (phrase, _, _) in enumerate(words):
        if common[start]:
            continue
        ideographs = has_ideographs(phrase)
        if not ideographs and not phrase.isascii() and phrase.isalpha() and phrase.upper() == phrase:
            yield phrase
        most = MAX_PHRASE_IDEOGRAPHS if ideographs else MAX_PHRASE_WORDS
        for end in range(start + 1, min(start + most, len(words))):
            text, joined, _ = words[end]
            if ideographs and not joined:
                break
            phrase = f"{phrase}{text}" if joined else f"{phrase} {text}"  # noqa: PLW2901 - the phrase grows
            if not common[end]:
                yield phrase


def longest_by_first_word(given: Mapping[str, str]) -> dict[str, int]:
    """Return the number of words of the longest given name that begins with each word; names too long are left out."""
    longest: dict[str, int] = {}
    for phrase in given:
        words = [part for word in phrase.split() for part in split_ideographs(word)]
        if words and len(words) <= (MAX_PHRASE_IDEOGRAPHS if has_ideographs(phrase) else MAX_NAME_WORDS):
            longest[words[0]] = max(longest.get(words[0], 0), len(words))
    return longest


def given_in(
    content: str, given: Mapping[str, str], longest_by_first_word: Mapping[str, int]
) -> Iterator[tuple[str, str, int]]:
    """Yield meaning, normalised name and character position of the given names in a text, the longest at each position.

    A stop word alone is no name.

    Parameters
    ----------
    given
        Meanings of the given names, as of :class:`~braid.ports.name_finder.FoundName`, by their normalised form.
    """
    folded = list(_folded_words(content))
    place = 0
    while place < len(folded):
        most = longest_by_first_word.get(folded[place].text, 0)
        runs = _growing(folded, place, most) if most else []
        for size in range(len(runs), 0, -1):
            phrase = runs[size - 1]
            if phrase in given and phrase not in STOP_WORDS:
                yield given[phrase], phrase, folded[place].start
                place += size
                break
        else:
            place += 1
