"""Reorders hydrated candidates by their texts, without a model: path coherence, and the text that answers by itself.

Path coherence: "Where was the composer of Back in the U.S.A. born?" The song's page says "… written by Chuck Berry", so
of all the pages that it mentions, that of Chuck Berry is the next to read. It is measured by how many of the question's
words, names left out, are near the mention.

The text that answers by itself: the first one of vectors and words, if it has most of the question's words.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from braid.ranking.fusion import in_order, sum_of_texts
from braid.ranking.scoring import clamp
from braid.retrieval.stages.candidates import Ranked
from braid.understanding.name_keys import without_brackets
from braid.understanding.tokens import (
    STOP_WORDS,
    has_word,
    normalise,
    search_words,
    searchable,
    stem,
    without_marks,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from braid.models import EntityLink, Record, StoredRecord, Weights

COMPARED = 15
"""Number of best candidates whose mentions are searched for."""
SEARCHED_TEXTS = 5
"""Number of best candidates in whose texts they are searched."""
AROUND = 15
"""Words on either side of a mention."""
MAX_WORDS = 1_000
MAX_CHARACTERS = 20_000
"""Longest prefix of a text that is searched for mentions."""


def cohere(question: str, links: Sequence[EntityLink], ranked: Sequence[Ranked], *, weight: float) -> list[Ranked]:
    """Apply path coherence: prefer candidates that another's text mentions near the question's words, and reorder.

    A candidate's relevance becomes that of :func:`raised`. Its coherence is the largest share of the question's words,
    names left out, that are within :data:`AROUND` words of a mention of it in the text of one of the best candidates.
    """
    mentions = Mentions(question, links)
    if not mentions.asked or weight <= 0:
        return list(ranked)
    scores = mentions.coherences([item.stored for item in ranked])
    again: list[tuple[float, int, Ranked]] = []
    for item, score in zip(ranked, scores, strict=True):
        candidate, stored, fused_rank, drift, _, rerank_score, supplied = item
        relevance = raised(candidate.combined_score, score, weight, item.factor)
        raised_item = Ranked(candidate, stored, fused_rank, drift, relevance, rerank_score, supplied)
        again.append((-relevance, fused_rank, raised_item))
    return [item for *_, item in sorted(again)]  # no two have one rank


def raised(score: float, coherence: float, weight: float, factor: float) -> float:
    """Return a candidate's relevance: its fused score and coherence combined, times :attr:`Ranked.factor`."""
    return clamp((score + weight * coherence) / (1.0 + weight) * factor)


class Mentions:
    """Mentions of one question's candidates in one another's texts.

    Each pair of records is compared only once, so that further orders of the same candidates cost little.

    Attributes
    ----------
    asked
        Stems of the question's words, names left out.
    """

    def __init__(self, question: str, links: Iterable[EntityLink]) -> None:
        self.asked = _asked(question, links)
        self._shares: dict[tuple[str, str], float] = {}
        """By the ids of a text's record and of a mentioned one: the share of the words that is near the mention."""
        self._names_by_id: dict[str, list[list[str]]] = {}
        """The words of each name of a record."""

    def coherences(self, stored: Sequence[StoredRecord]) -> list[float]:
        """Return the coherence of each record, in [0, 1]; 0 after the first :data:`COMPARED`.

        Parameters
        ----------
        stored
            The candidates' records, best first.
        """
        scores = [0.0] * len(stored)
        if not self.asked:
            return scores
        first = [one.record for one in stored[:COMPARED]]
        for source in first[:SEARCHED_TEXTS]:
            others = [one for one in first if one is not source and (source.id, one.id) not in self._shares]
            self._search(source, others)
        for place, one in enumerate(first):
            shares = (self._shares[source.id, one.id] for source in first[:SEARCHED_TEXTS] if source is not one)
            scores[place] = max(shares, default=0.0)
        return scores

    def _search(self, source: Record, others: Sequence[Record]) -> None:
        """Search a record's text for mentions of others, and keep the share of each."""
        first_words = {name[0] for one in others for name in self._names_of(one)}
        # Splitting a text into words is most of the work, and most texts have none of the names.
        text = source.text()[:MAX_CHARACTERS]
        plain = without_marks(text).casefold()
        first_words = {word for word in first_words if word in plain}
        text_words = words(text)[:MAX_WORDS] if first_words else []
        starts: defaultdict[str, list[int]] = defaultdict(list)
        for place, word in enumerate(text_words):
            if word in first_words:
                starts[word].append(place)
        for one in others:
            shares = [
                _share(text_words, starts[name[0]], name, self.asked)
                for name in self._names_of(one)
                if name[0] in starts
            ]
            self._shares[source.id, one.id] = max(shares, default=0.0)

    def _names_of(self, record: Record) -> list[list[str]]:
        known = self._names_by_id.get(record.id)
        if known is None:
            known = self._names_by_id[record.id] = [name.split() for name in _names(record)]
        return known


def _asked(question: str, links: Iterable[EntityLink]) -> frozenset[str]:
    """Return the stems of the question's words, names left out."""
    left = f" {normalise(question)} "
    for phrase in sorted({link.phrase for link in links}, key=len, reverse=True):
        left = left.replace(f" {phrase} ", " ")
    return frozenset(stem(word) for word in search_words(left) if len(word) > 2)  # noqa: PLR2004 - "of", "by"


def _names(record: Record) -> set[str]:
    """Return the normalised names by which another text may mention a record."""
    names = [record.name, record.source.title, *record.aliases]
    plain = [without_brackets(name) for name in names if name]
    return {name for name in map(normalise, plain) if name}


def _share(text: Sequence[str], starts: Iterable[int], name: Sequence[str], asked: frozenset[str]) -> float:
    """Return the largest share of the asked words that are near one mention of a name.

    Parameters
    ----------
    starts
        Positions in the text of the name's first word.
    """
    best, size = 0, len(name)
    for start in starts:
        if text[start : start + size] == name:
            around = (
                *text[max(0, start - AROUND) : start],
                *text[start + size : start + size + AROUND],
            )
            best = max(best, len(asked.intersection(map(stem, around))))
    return best / len(asked)


TEXTS_WEIGHED: Final = 20
"""Number of best texts in which the question's words are counted."""
MOST_WORDS, MOST_WORDS_AGREED = 2 / 3, 1 / 2
"""Least weighted share of the question's words that a text must have to be put first; the second value holds where
vectors and words both rank it first."""


def keep_best_text(
    question: str,
    ranked: Sequence[Ranked],
    vector: Mapping[str, float],
    lexical: Mapping[str, float],
    weights: Weights,
    *,
    cut_off: bool,
) -> list[Ranked]:
    """Put the best text of vectors and words first, if it has most of the question's words by itself.

    Such a text answers the question alone; records that the graph adds come after it. It does not if it lacks a number
    of the question that the first candidate has.

    Parameters
    ----------
    ranked
        Candidates, best first.
    vector, lexical, weights, cut_off
        As of :func:`best_text`.
    """
    read = {item.candidate.id: item for item in ranked}
    first = ranked[0].candidate.id if ranked else None
    found = best_text(question, read, vector, lexical, weights, cut_off=cut_off, first=first)
    if found is None:
        return list(ranked)
    best = read[found]
    return [best._replace(relevance=ranked[0].relevance), *(item for item in ranked if item is not best)]


def best_text(
    question: str,
    read: Mapping[str, Ranked],
    vector: Mapping[str, float],
    lexical: Mapping[str, float],
    weights: Weights,
    *,
    cut_off: bool,
    first: str | None,
) -> str | None:
    """Return the id of the text to put first; None if the order stays.

    Parameters
    ----------
    read
        Records that can be results, by id.
    vector, lexical
        Scores of the text strands by id.
    weights, cut_off
        As of :func:`braid.ranking.fusion.fuse`.
    first
        Id of the best candidate.
    """
    summed = sum_of_texts(vector, lexical, weights.vector, weights.lexical, cut_off=cut_off)
    order, by_vector, by_words = (
        in_order({one: score * read[one].factor for one, score in scores.items() if one in read})
        for scores in (summed, vector, lexical)
    )
    if not order or order[0] == first:
        return None
    agreed = order[:1] == by_vector[:1] == by_words[:1]
    least = MOST_WORDS_AGREED if agreed else MOST_WORDS
    share = share_of_words(question, [read[one].record for one in order[:TEXTS_WEIGHED]])
    named = read.get(first) if first else None
    if share < least or (named and _lacks_number(question, read[order[0]].record, named.record)):
        return None
    return order[0]


def _lacks_number(question: str, record: Record, named: Record) -> bool:
    """Return whether a record is about another number than the question: about version 4.1 and not 4.2, as another is.

    A number of the question that the other record has not either may be in neither, such as a year.
    """
    numbers = [word for word in search_words(without_marks(question)) if word.isdecimal()]
    lacking = [number for number in numbers if not has_word(_searched(record), number)]
    return any(has_word(_searched(named), number) for number in lacking)


def share_of_words(question: str, records: Sequence[Record]) -> float:
    """Return the weighted share of a question's words that the first record's title and text have, in [0, 1].

    A word's weight is its inverse document frequency among the records; it is 0 if no record has the word.
    """
    searched = search_words(without_marks(question))
    asked = {stem(word) for word in searched if word not in STOP_WORDS} or set(searched)
    texts = list(map(_searched, records))
    weight: dict[str, float] = {}
    for word in asked:
        held = sum(has_word(text, word) for text in texts)
        weight[word] = math.log(1.0 + len(texts) / (held + 0.5)) if held else 0.0
    total = sum(weight.values())
    return sum(weight[word] for word in asked if has_word(texts[0], word)) / total if total else 0.0


def _searched(record: Record) -> str:
    """Return a record's title and text as :func:`has_word` searches them."""
    return searchable(f"{record.source.title or ''} {record.text()}")
