"""Phrases of a question that may be names, each with the certainty, by its spelling, that it is one."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from braid.understanding.tokens import (
    MIN_HAN,
    STOP_WORDS,
    cased_words,
    count_han,
    occurrences,
    split_ideographs,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from braid.models import EntityLink


MAX_PHRASE_WORDS = 8
MAX_PHRASE_IDEOGRAPHS = 12
MIN_WORD_CHARACTERS = 3
MAX_QUESTION_WORDS = 200
FIRST_WORD, IN_PLAIN_WRITING, SEVERAL_COMMON_WORDS, COMMON_WORD = 0.5, 0.1, 0.2, 0.05
"""Certainties of a phrase whose spelling does not distinguish it from common words."""
_JOINED_WORDS = re.compile(r"(?<![\w./-])\w+(?:[./-]\w+)+")
"""Words joined without a space, such as "TH-12" and "4.1.7"; with a digit among them an identifier."""


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


@lru_cache(maxsize=1_024)
def _folded(text: str) -> tuple[str, ...]:
    # Cached, since each phrase of a question is split several times.
    return tuple(piece.text.casefold() for piece in tokenize(text))


def phrases(question: str) -> list[str]:
    """Return every run of 1 to 8 words of a question that could be a name, the longest first.

    A phrase needs one word of more than two characters that is not a function word, two Han characters, or three
    letters of another script without case, or it is an identifier such as "TH-12" or "4.1.7", or two capitals such as
    "HR" in a question that is not all in capitals; a question is read up to its 200th word, which bounds the look-up.
    In scripts without spaces, runs have up to 12 characters.
    """
    return list(_runs(question))


@lru_cache(maxsize=8)
def _runs(question: str) -> dict[str, tuple[tuple[str, ...], list[int]]]:
    """Return the words, without case, of each of a question's :func:`phrases`, and the positions where they begin."""
    tokens = tokenize(question)[:MAX_QUESTION_WORDS]
    folded = [piece.text.casefold() for piece in tokens]
    capitals_tell = any(piece.text.islower() for piece in tokens)
    telling = [is_content_word(piece.text) for piece in tokens]
    glued = any(piece.glued for piece in tokens)
    identifiers = {_folded(word) for word in _JOINED_WORDS.findall(question) if any(map(str.isdecimal, word))}
    found: dict[str, tuple[tuple[str, ...], list[int]]] = {}
    for size in range(min(MAX_PHRASE_IDEOGRAPHS if glued else MAX_PHRASE_WORDS, len(tokens)), 0, -1):
        for start in range(len(tokens) - size + 1):
            run = tokens[start : start + size]
            if size > MAX_PHRASE_WORDS and not all(piece.glued for piece in run[1:]):
                continue
            words_of_run = folded[start : start + size]
            if (
                True in telling[start : start + size]
                or (identifiers and tuple(words_of_run) in identifiers)
                or (capitals_tell and size == 1 and run[0].text.isupper() and is_two_letters(run[0].text))
                or _is_name_without_case([piece.text for piece in run])
            ):
                phrase = _written(run, words_of_run) if glued else " ".join(words_of_run)
                if glued:
                    found[phrase] = (tuple(words_of_run), occurrences(words_of_run, folded))
                else:
                    found.setdefault(phrase, (tuple(words_of_run), []))[1].append(start)
    return found


def _written(run: Sequence[Token], words_of_run: Sequence[str]) -> str:
    """Return a run as text, with a space before each word that is not glued."""
    return "".join(f"{'' if piece.glued else ' '}{word}" for piece, word in zip(run, words_of_run, strict=True)).strip()


def run_of(question: str, phrase: str) -> tuple[tuple[str, ...], list[int]]:
    """Return the words of a phrase, without case, and the positions where they begin in a question."""
    known = _runs(question).get(phrase)
    if known is not None:
        return known
    run = _folded(phrase)
    return run, occurrences(run, written_words(question).folded)


def _is_name_without_case(run: Sequence[str]) -> bool:
    whole = "".join(run)
    if whole.isascii():
        return False
    letters = sum(len(word) for word in run if word.isalpha() and not _has_case(word))
    return letters >= MIN_WORD_CHARACTERS or count_han(whole) >= MIN_HAN


def name_certainty(question: str, phrase: str) -> float:
    """Return the certainty, in [0, 1], that a phrase of a question is a name, by its spelling there.

    "Which country is Aristarete from?" certainly names Aristarete, but hardly an entity called "Country". A name has a
    capital, a digit or a script without case. If all words or none have a capital, several words together count as a
    name. An identifier such as "K2017" is a name wherever it stands, also alone and in lower case.

    Parameters
    ----------
    phrase
        Normalised phrase, as it was linked.
    """
    written = written_words(question)
    if not written.has_case:
        # In a script without case, spelling does not distinguish names, and a word with case is a foreign name.
        return 1.0
    run, starts = run_of(question, phrase)
    if any(_is_identifier(word) for word in run):
        return 1.0
    standing = written.like_names
    capitals_tell = len(set(standing[1:])) > 1
    if capitals_tell:
        for start in starts:
            if True in standing[max(start, 1) : start + len(run)]:
                return 1.0
    several = sum(word not in STOP_WORDS for word in run) > 1
    if run and starts[:1] == [0] and standing[0] and not all(standing):
        # The first word of a sentence is capitalised even if it is no name.
        return 1.0 if several else FIRST_WORD
    if not capitals_tell:
        return 1.0 if several else IN_PLAIN_WRITING
    return SEVERAL_COMMON_WORDS if several else COMMON_WORD


def is_whole_name(question: str, phrase: str) -> bool:
    """Return whether a phrase is, somewhere in a question, a complete run of words written like a name.

    "Sex" in "A Whirl Of Sex And Politics" is not. The capital of a stop word that begins the question is ignored.
    """
    written = written_words(question)
    standing = written.like_names
    run, starts = run_of(question, phrase)
    for start in starts:
        before = standing[max(start - 1, 0) : start] if start > 1 or is_content_word(written.words[0]) else ()
        if True not in before and True not in standing[start + len(run) : start + len(run) + 1]:
            return True
    return False


def looks_like_name(word: str) -> bool:
    """Return whether a word is written as names are: with a capital, a digit, or in a script without case."""
    return not word[0].islower()


def _is_identifier(word: str) -> bool:
    """Return whether a word is a letter with a digit somewhere after it, as no common word is."""
    return word[0].isalpha() and any(map(str.isdecimal, word))


def is_two_letters(phrase: str) -> bool:
    """Return whether a phrase is a name of two letters, such as "HR", of a script with case."""
    return len(phrase) == MIN_WORD_CHARACTERS - 1 and phrase.isalpha() and phrase.lower() != phrase.upper()


def is_content_word(word: str) -> bool:
    """Return whether a word has at least three characters and is no stop word."""
    return len(word) >= MIN_WORD_CHARACTERS and word.casefold() not in STOP_WORDS


class WrittenWords(NamedTuple):
    """The words of a question as they are written."""

    words: tuple[str, ...]
    folded: tuple[str, ...]
    """The words without case."""
    like_names: list[bool]
    """Whether each looks like a name."""
    has_case: bool
    """Whether most are of a script with case."""


@lru_cache(maxsize=8)
def written_words(question: str) -> WrittenWords:
    """Return the first :data:`MAX_QUESTION_WORDS` words of a question; cached, as each of its phrases asks for them."""
    words = tuple(piece.text for piece in tokenize(question)[:MAX_QUESTION_WORDS])
    return WrittenWords(
        words,
        folded=tuple(word.casefold() for word in words),
        like_names=[looks_like_name(word) for word in words],
        has_case=sum(map(str.isalpha, words)) < 2 * sum(map(_has_case, words)),
    )


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
        starts = [start for start in occurrences(run, tokens) if not any(taken[start : start + len(run)])]
        if starts:
            kept.append(phrase)
            for start in starts:
                taken[start : start + len(run)] = [True] * len(run)
    return [link for link in links if link.phrase in kept]
