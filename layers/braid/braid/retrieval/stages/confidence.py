"""Confidence: the chance that one of an answer's first results answers the question, by logistic regression.

Fused scores are relative to the best record and do not say how good that one is. The five features are how far the best
hit stands out in each text strand, whether the first texts are about what the question names and have its other words,
and whether a relationship answers it. They are computed from the input of the last stage, and are not specific to a
corpus or a form of question. ``in_words`` of :mod:`braid.models.answer` has the thresholds of *likely* and *unsure*.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from braid.models import Filters
from braid.ranking.scoring import BM25_HALF
from braid.understanding.name_keys import identifier_before_dash, without_brackets
from braid.understanding.question_phrases import name_certainty
from braid.understanding.tokens import (
    STOP_WORDS,
    cased_words,
    has_word,
    normalise,
    search_words,
    searchable,
    stem,
    without_marks,
)

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from braid.models import Hit, Query, Result
    from braid.retrieval.stages.stage_messages import Searched

FIRST: Final = 5
"""Number of first results that count: the chance is that one of them answers the question."""
BACKGROUND: Final = 40
"""Rank of the vector hit whose score is the background (of unrelated texts); the last hit if there are fewer."""
FEWEST: Final = 5
"""Fewest vector hits from which the background can be estimated."""
UNRELATED: Final = 0.15
"""Background where there are fewer: the mean one of the demo corpora, with the default model."""
FEWEST_TEXTS: Final = 3
"""Fewest records for which a word in one of them counts as rare, for BM25."""
USUAL: Final = 200
"""Records of the smallest index that the model was fitted on. BM25 grows with the logarithm of their number."""
MAX_TITLES: Final = 2.0
"""Most titles named in a question that count."""
_JOINED: Final = re.compile(r"[^\W_]+(?:[./_-][^\W_]+)*")
_PARTS: Final = re.compile(r"[^\W\d_]+|\d+")
FEWEST_DIGITS: Final = 3
"""Fewest digits of an identifier that a text must have to answer: "C-2207" is one, "Q3" and "COVID-19" are not."""


class Coefficient(NamedTuple):
    """Mean and standard deviation of a feature on judged questions, and its weight in the logistic model."""

    mean: float
    deviation: float
    weight: float


class Features(NamedTuple):
    """Features of the model. None if the strand failed, or has no hits or too few."""

    nearness: float | None
    """Vector score of the best hit less the background, relative to the same difference of an identical vector."""
    lead: float | None
    """BM25 score of the best lexical hit less that of the sixth, for an index of :data:`USUAL` records or more."""
    coverage: float | None
    """How much of the question the first texts contain, in [0, 1].

    With ``c(text)`` the share of the question's names in a text times the share of its other words, it is the mean of
    the highest ``c`` of one text and ``c`` of all together, since a question of several hops takes several texts. It is
    at least the share of the other words in all together, times :attr:`titles` or 1 if that is more. It is 0 if none of
    the texts has an identifier of the question: "C-2207" is not answered by what a text says of C-2206."""
    titles: float
    """Number of the question's names that are titles of the first texts, or the identifier that a title begins with;
    each weighted by its certainty as a name."""
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
"""Fitted by ``python -m bench confidence``; ``bench/confidence.md`` has the questions and results on other corpora."""


def chance(features: Features, intercept: float = INTERCEPT, model: Sequence[Coefficient] = MODEL) -> float:
    """Return the model's chance for some features; one that is None counts as its mean."""
    evidence = intercept + sum(
        coefficient.weight * (value - coefficient.mean) / coefficient.deviation
        for coefficient, value in zip(model, features, strict=True)
        if value is not None
    )
    return 1.0 / (1.0 + math.exp(-evidence))


def confidence(query: Query, searched: Searched | None, results: Sequence[Result]) -> float:
    """Return the chance in [0, 1] that one of the first results answers a question; 0 without results."""
    return chance(features(query, searched, results)) if results else 0.0


def features(query: Query, searched: Searched | None, results: Sequence[Result]) -> Features:
    """Return the features of one answer.

    Parameters
    ----------
    searched
        Hits of the text strands; None if they were not searched or failed.
    results
        The answer's, best first.
    """
    titles = _titles_named(query.text, results[:FIRST])
    coverage = _coverage(query.text, results[:FIRST], titles)
    fact = max((result.relevance for result in results[:FIRST] if result.facts), default=0.0)
    if searched is None:
        return Features(None, None, coverage, titles, fact)
    # A supplied vector may not represent the text.
    supplied = {result.id for result in results if result.vector_supplied}
    vector = [hit for hit in searched.vector if hit.id not in supplied]
    lead = _lead(searched.lexical, _records_if_few(query, searched))
    return Features(_nearness(vector), lead, coverage, titles, fact)


def _nearness(vector: Sequence[Hit]) -> float | None:
    if not vector:
        return None
    background = vector[:BACKGROUND][-1].score if len(vector) >= FEWEST else UNRELATED
    return (vector[0].score - background) / (1.0 - background) if background < 1.0 else 0.0


def _records_if_few(query: Query, searched: Searched) -> int | None:
    """Return the number of records in the index if the vector hits are all of them; None if there may be more."""
    is_narrowed = query.filters != Filters() or query.graph_constraint is not None or query.as_of is not None
    few = 0 < len(searched.vector) < BACKGROUND and not is_narrowed
    return len(searched.vector) if few else None


def _lead(lexical: Sequence[Hit], records: int | None) -> float | None:
    """Return the lead; None in an index of so few records that no word of them is rare."""
    best, sixth = (_bm25(lexical[place].score) if place < len(lexical) else 0.0 for place in (0, FIRST))
    if records is None:
        return best - sixth
    return (best - sixth) * _rarity(USUAL) / _rarity(records) if records >= FEWEST_TEXTS else None


def _rarity(records: int) -> float:
    """Return BM25's inverse document frequency of a word that one of ``records`` records has."""
    return math.log((records + 1.0) / 1.5)


def _bm25(score: float) -> float:
    """Return the BM25 score of a score in [0, 1): the inverse of :func:`~braid.ranking.scoring.from_bm25`."""
    return BM25_HALF * score / max(1.0 - score, 1e-2)


def _titles_named(question: str, results: Sequence[Result]) -> float:
    asked = f" {normalise(question)} "
    whole = [without_brackets(result.title) for result in results if result.title]
    titles = dict.fromkeys(normalise(identifier_before_dash(title) or title) for title in whole)
    return min(MAX_TITLES, sum(name_certainty(question, title) for title in titles if title and f" {title} " in asked))


def _coverage(question: str, results: Sequence[Result], titles: float) -> float | None:
    texts = [f"{result.title} {result.content[result.matched_from :]}" for result in results if result.content]
    if not texts:
        return None
    if not _has_identifiers(question, results):
        return 0.0
    plain = without_marks(question)
    searched = search_words(plain)
    asked = {stem(word) for word in searched if word not in STOP_WORDS} or set(searched)
    cased = cased_words(plain)
    # The first word of a question is capitalised even if it is no name.
    named = [word for word in cased[1:] if word[0].isupper()] + [word for word in cased if not word.isalpha()]
    names = asked & {stem(word.casefold()) for word in named}
    written = list(map(searchable, texts))
    shares = [(_share(names, text), _share(asked - names, text)) for text in (*written, "".join(written))]
    *each, together = (of_names * of_others for of_names, of_others in shares)
    return max((max(each) + together) / 2, min(1.0, titles) * shares[-1][1])


def _has_identifiers(question: str, results: Sequence[Result]) -> bool:
    """Return whether each identifier of a question is in one of the results; "C2207" is also "C-2207" and "C 2207"."""
    read = [place for result in results for place in (result.id, result.title, result.content)]
    return all(
        any(map(pattern.search, read))
        for word in _JOINED.findall(question)
        if (pattern := _pattern_of_identifier(word)) is not None
    )


def _pattern_of_identifier(word: str) -> re.Pattern[str] | None:
    if not (word[0].isalpha() and any(map(str.isupper, word)) and sum(map(str.isdecimal, word)) >= FEWEST_DIGITS):
        return None
    parts = r"[\W_]?".join(_PARTS.findall(word))
    return re.compile(rf"(?<![^\W_]){parts}(?!\d)", re.IGNORECASE)


def _share(beginnings: Set[str], text: str) -> float:
    """Return the share of some stems with which a word of the text begins; 1 if there are no stems."""
    return sum(has_word(text, word) for word in beginnings) / len(beginnings) if beginnings else 1.0
