"""The chance that one of an answer's first results answers its question: a logistic model of five features.

Fusion tells which record is the best of those there are, and not how good that is. What tells it is how far the best
stands out in each strand, whether the first texts are about what the question names and have all that it speaks of, and
whether a relationship says it. The features need nothing but what the last stage has, and neither a corpus nor a
form of question is known to them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from braid.ranking.scoring import BM25_HALF
from braid.retrieval.stages.candidates import stem
from braid.understanding.name_forms import name_certainty, without_brackets
from braid.understanding.tokens import (
    STOP_WORDS,
    TranslationTable,
    cased_words,
    has_ideographs,
    normalise,
    search_words,
    without_marks,
)

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from braid.models import Hit, Result
    from braid.retrieval.stages.states import Searched

FIRST: Final = 5
"""Results that count: the chance is that one of them answers the question."""
READ_CHARACTERS: Final = 6_000
"""Longest prefix of a text that is searched for the question's words."""
BACKGROUND: Final = 40
"""Rank of the hit that stands for what is found whatever is asked; the last one in a small corpus."""
FEWEST: Final = 5
"""Vector hits without which it is not known how near a text is to any question."""
MAX_TITLES: Final = 2.0
"""Titles named in a question beyond which further ones say nothing more."""
_OF_WORDS: Final = TranslationTable(lambda character: ord(character if character.isalnum() else " "))


class Coefficient(NamedTuple):
    """Mean and standard deviation of a feature on judged questions, and its weight in the logistic model."""

    mean: float
    deviation: float
    weight: float


class Features(NamedTuple):
    """What tells whether a question is answered. None where the strand was lost or is too small to tell."""

    nearness: float | None
    """How far the nearest vector stands above the background, as a share of the way to an equal one."""
    lead: float | None
    """BM25 score of the best text by words, less that of the sixth."""
    coverage: float | None
    """Share of the question's names times share of its other words: the mean of that in one of the first texts, and of
    that in all of them, as it takes several to answer a question of several hops. Or, where that is more, the share of
    its other words in all of them, as far as one is about a name of the question."""
    titles: float
    """How many names of the question the first texts have as their titles, each by how surely it is meant as a name."""
    fact: float
    """Relevance of the best fact among the first results; 0 without one."""


INTERCEPT: Final = -0.039
MODEL: Final = (
    Coefficient(0.343, 0.17, 0.845),  # nearness
    Coefficient(7.579, 8.006, 0.67),  # lead
    Coefficient(0.563, 0.31, 0.589),  # coverage
    Coefficient(0.356, 0.609, 0.632),  # titles
    Coefficient(0.057, 0.229, 0.856),  # fact
)
"""Fitted by ``python -m bench confidence``; ``bench/confidence.md`` says on what, and how it does on other corpora."""


def chance(features: Features, intercept: float = INTERCEPT, model: Sequence[Coefficient] = MODEL) -> float:
    """Return the chance that follows from some features; one that is not known counts as the mean one."""
    evidence = intercept + sum(
        coefficient.weight * (value - coefficient.mean) / coefficient.deviation
        for coefficient, value in zip(model, features, strict=True)
        if value is not None
    )
    return 1.0 / (1.0 + math.exp(-evidence))


def confidence(question: str, searched: Searched | None, results: Sequence[Result]) -> float:
    """Return the chance in [0, 1] that one of the first results answers a question; 0 without results."""
    return chance(features(question, searched, results)) if results else 0.0


def features(question: str, searched: Searched | None, results: Sequence[Result]) -> Features:
    """Return the features of one answer.

    Parameters
    ----------
    question
        Its text.
    searched
        Hits of the text strands; None where they were not asked or were lost.
    results
        The answer's, best first.
    """
    titles = _titles_named(question, results[:FIRST])
    coverage = _coverage(question, results[:FIRST], titles)
    fact = max((result.relevance for result in results[:FIRST] if result.facts), default=0.0)
    if searched is None:
        return Features(None, None, coverage, titles, fact)
    # Of a vector that came with its record nobody knows that it is the text's.
    supplied = {result.id for result in results if result.vector_supplied}
    vector = [hit for hit in searched.vector if hit.id not in supplied]
    return Features(_nearness(vector), _lead(searched.lexical), coverage, titles, fact)


def _nearness(vector: Sequence[Hit]) -> float | None:
    if len(vector) < FEWEST:
        return None
    background = vector[:BACKGROUND][-1].score
    return (vector[0].score - background) / (1.0 - background) if background < 1.0 else 0.0


def _lead(lexical: Sequence[Hit]) -> float:
    best, sixth = (_bm25(lexical[place].score) if place < len(lexical) else 0.0 for place in (0, FIRST))
    return best - sixth


def _bm25(score: float) -> float:
    """Return the BM25 score that became a score in [0, 1)."""
    return BM25_HALF * score / max(1.0 - score, 1e-2)


def _titles_named(question: str, results: Sequence[Result]) -> float:
    asked = f" {normalise(question)} "
    titles = dict.fromkeys(normalise(without_brackets(result.title)) for result in results if result.title)
    return min(MAX_TITLES, sum(name_certainty(question, title) for title in titles if title and f" {title} " in asked))


def _coverage(question: str, results: Sequence[Result], titles: float) -> float | None:
    texts = [f"{result.title} {result.content[result.matched_from :]}" for result in results if result.content]
    if not texts:
        return None
    plain = without_marks(question)
    searched = search_words(plain)
    asked = {stem(word) for word in searched if word not in STOP_WORDS} or set(searched)
    cased = cased_words(plain)
    # A question begins with a capital letter whatever it begins with.
    named = [word for word in cased[1:] if word[0].isupper()] + [word for word in cased if not word.isalpha()]
    names = asked & {stem(word.casefold()) for word in named}
    written = list(map(_searchable, texts))
    shares = [(_share(names, text), _share(asked - names, text)) for text in (*written, "".join(written))]
    *each, together = (of_names * of_others for of_names, of_others in shares)
    return max((max(each) + together) / 2, min(1.0, titles) * shares[-1][1])


def _searchable(text: str) -> str:
    """Return the beginning of a text with one space before each word."""
    words = without_marks(text[:READ_CHARACTERS]).lower().translate(_OF_WORDS).split()
    return f" {' '.join(words)}"


def _share(beginnings: Set[str], text: str) -> float:
    """Return the share of some words, cut to their stems, with which a word of the text begins; 1 of none."""
    held = sum(word.replace(" ", "") in text if has_ideographs(word) else f" {word}" in text for word in beginnings)
    return held / len(beginnings) if beginnings else 1.0
