"""Links names in a question: which phrases are offered, how certain they are meant as names, which overlap.

Both sides are normalised by the same function: the store keeps each name and alias normalised, and a question
offers every run of its words, so that linking is one exact look-up whatever the number of entities.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from braid.understanding.tokens import MIN_HAN, STOP_WORDS, cased_words, count_han, split_ideographs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from braid.models import EntityLink

MAX_PHRASE_WORDS = 8
MAX_PHRASE_IDEOGRAPHS = 12
MIN_WORD_CHARACTERS = 3
MAX_QUESTION_WORDS = 200
FIRST_WORD, IN_PLAIN_WRITING, SEVERAL_COMMON_WORDS, COMMON_WORD = 0.5, 0.1, 0.2, 0.05
"""Certainty of a phrase whose spelling does not tell it from common words."""


class Token(NamedTuple):
    """A word of a question, or one character of a script that writes no spaces between words."""

    text: str
    glued: bool = False
    """Whether there is no space before it."""


def tokenize(text: str) -> list[Token]:
    """Return the words of a text as :func:`cased_words` does, with each ideograph by itself."""
    return [
        Token(part, glued=place > 0) for word in cased_words(text) for place, part in enumerate(split_ideographs(word))
    ]


def _folded(text: str) -> list[str]:
    return [piece.text.casefold() for piece in tokenize(text)]


def phrases(question: str) -> list[str]:
    """Return every run of 1 to 8 words of a question that could be a name, the longest first.

    A phrase needs one word of more than two characters that is not a function word, two Han characters, or three
    letters of another script without case; very long questions are read up to their 200th word, which bounds the
    look-up. Where no spaces are written, runs have up to 12 characters.
    """
    tokens = tokenize(question)[:MAX_QUESTION_WORDS]
    found: dict[str, None] = {}
    for size in range(min(MAX_PHRASE_IDEOGRAPHS, len(tokens)), 0, -1):
        for start in range(len(tokens) - size + 1):
            run = tokens[start : start + size]
            if size > MAX_PHRASE_WORDS and not all(piece.glued for piece in run[1:]):
                continue
            if _could_be_a_name([piece.text for piece in run]):
                found["".join(f"{'' if piece.glued else ' '}{piece.text.casefold()}" for piece in run).strip()] = None
    return list(found)


def _could_be_a_name(run: Sequence[str]) -> bool:
    if any(map(is_content_word, run)):
        return True
    whole = "".join(run)
    if whole.isascii():
        return False
    letters = sum(len(word) for word in run if word.isalpha() and not _has_case(word))
    return letters >= MIN_WORD_CHARACTERS or count_han(whole) >= MIN_HAN


def name_certainty(question: str, phrase: str) -> float:
    """Return how certain it is that a phrase of a question is meant as a name, by its spelling there, in [0, 1].

    "Which country is Aristarete from?" names Aristarete; that a page is called "Country" says little. A name has a
    capital, a digit or a script without case. Where capitals tell nothing, since all words or none have one, several
    words together are taken for a name.

    Parameters
    ----------
    phrase
        Normalised, as it was linked.
    """
    spelled, folded, standing = _read(question)
    run = _folded(phrase)
    starts = [start for start in range(len(folded) - len(run) + 1) if folded[start : start + len(run)] == run]
    several = sum(word not in STOP_WORDS for word in run) > 1
    cased = sum(map(_has_case, spelled))
    if sum(map(str.isalpha, spelled)) >= 2 * cased:
        # A script without case, in which what has one is the name of something foreign.
        return 1.0
    capitals_tell = len(set(standing[1:])) > 1
    if capitals_tell and any(any(standing[max(start, 1) : start + len(run)]) for start in starts):
        return 1.0
    if run and starts[:1] == [0] and standing[0] and not all(standing):
        # The first word has its capital whatever it is.
        return 1.0 if several else FIRST_WORD
    if not capitals_tell:
        return 1.0 if several else IN_PLAIN_WRITING
    return SEVERAL_COMMON_WORDS if several else COMMON_WORD


def is_whole_name(question: str, phrase: str) -> bool:
    """Return whether a phrase is, somewhere in a question, the whole of a run of words written as a name.

    "Sex" in "A Whirl Of Sex And Politics" is not. A function word at the beginning has its capital whatever it is.
    """
    spelled, folded, standing = _read(question)
    run = _folded(phrase)
    return any(
        not any(standing[max(start - 1, 0) : start] if start > 1 or is_content_word(spelled[0]) else ())
        and not any(standing[start + len(run) : start + len(run) + 1])
        for start in range(len(folded) - len(run) + 1)
        if folded[start : start + len(run)] == run
    )


def looks_like_name(word: str) -> bool:
    """Return whether a word is written as names are: with a capital, a digit, or in a script without case."""
    return not word[0].islower()


def is_content_word(word: str) -> bool:
    """Return whether a word is more than a function word or a syllable."""
    return len(word) >= MIN_WORD_CHARACTERS and word.casefold() not in STOP_WORDS


@lru_cache(maxsize=8)
def _read(question: str) -> tuple[tuple[str, ...], list[str], list[bool]]:
    """Return the words of a question as they are written, without case, and whether each stands out."""
    # Asked for every phrase of one question in turn.
    spelled = tuple(piece.text for piece in tokenize(question)[:MAX_QUESTION_WORDS])
    return spelled, [word.casefold() for word in spelled], [looks_like_name(word) for word in spelled]


def _has_case(word: str) -> bool:
    return word.lower() != word.upper()


def longest_match(question: str, links: Sequence[EntityLink]) -> list[EntityLink]:
    """Keep the links whose phrase is not inside a longer linked phrase of the same question.

    "Harbour Freight API" must not also link "Harbour". Two entities that share a name are both kept.
    """
    tokens = _folded(question)
    taken = [False] * len(tokens)
    kept: list[str] = []
    runs = {link.phrase: _folded(link.phrase) for link in links}
    for phrase in sorted(runs, key=lambda text: (-len(runs[text]), text)):
        run = runs[phrase]
        starts = [
            start
            for start in range(len(tokens) - len(run) + 1)
            if tokens[start : start + len(run)] == run and not any(taken[start : start + len(run)])
        ]
        if starts:
            kept.append(phrase)
            for start in starts:
                taken[start : start + len(run)] = [True] * len(run)
    return [link for link in links if link.phrase in kept]
