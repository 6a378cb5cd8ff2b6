"""Path coherence: raises candidates that a better one mentions in the question's own words.

"Where was the composer of Back in the U.S.A. born?": the song's page says "… written by Chuck Berry", and so of all
the pages that it mentions that of Chuck Berry is the one to read next. No model is needed: what counts is how many of
the question's words, without the names in it, stand beside the mention.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from braid.ranking.scoring import FACTORS, clamp
from braid.understanding.names import without_brackets
from braid.understanding.tokens import normalise, search_words, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from braid.models import EntityLink, Record
    from braid.ranking.scoring import Drift
    from braid.retrieval.stages.hydration import Ranked

READ = 15
"""Candidates compared, best first."""
LED_FROM = 5
"""The best of them, whose texts are searched for mentions of the others."""
WINDOW = 15
"""Words on either side of a mention."""
MOST_WORDS = 1_000
MOST_CHARACTERS = 20_000
"""Longest prefix of a text that is searched for mentions."""
SHORTEST_STEM = 4
_ENDINGS = ("ations", "ation", "ings", "ing", "ers", "ors", "er", "or", "ed", "es", "s", "ion", "e")


def cohere(question: str, links: Sequence[EntityLink], ranked: Sequence[Ranked], *, weight: float) -> list[Ranked]:
    """Raise candidates that are mentioned in the question's words, and reorder.

    A candidate's relevance becomes ``(score + weight × coherence) / (1 + weight)``, where coherence is the largest
    share of the question's words, names left out, that stand within :data:`WINDOW` words of a mention of it.
    """
    mentions = Mentions(question, links)
    if not mentions.asked or weight <= 0:
        return list(ranked)
    scores = mentions.coherences([item.record for item in ranked])
    again = [
        replace(item, relevance=raised(item.candidate.combined_score, score, weight, item.drift))
        for item, score in zip(ranked, scores, strict=True)
    ]
    return sorted(again, key=lambda item: (-item.relevance, item.fused_rank, item.candidate.id))


def raised(score: float, coherence: float, weight: float, drift: Drift) -> float:
    """Return a candidate's relevance after coherence."""
    return clamp((score + weight * coherence) / (1.0 + weight) * FACTORS[drift])


class Mentions:
    """Mentions of one question's candidates in one another's texts.

    Each pair of records is compared once, so that other orders of the same candidates cost little.

    Attributes
    ----------
    asked
        Stems of the question's words, names left out.
    """

    def __init__(self, question: str, links: Iterable[EntityLink]) -> None:
        self.asked = _asked(question, links)
        self._shares: dict[tuple[str, str], float] = {}

    def coherences(self, records: Sequence[Record]) -> list[float]:
        """Return the coherence of each record, best first; 0 of those beyond :data:`READ`."""
        scores = [0.0] * len(records)
        if not self.asked:
            return scores
        first = records[:READ]
        called: dict[str, list[list[str]]] = {}
        for source in first[:LED_FROM]:
            unknown = [one for one in first if one is not source and (source.id, one.id) not in self._shares]
            text = words(source.text()[:MOST_CHARACTERS])[:MOST_WORDS] if unknown else []
            for one in unknown:
                if one.id not in called:
                    called[one.id] = [name.split() for name in _names(one)]
                shares = (_share(text, name, self.asked) for name in called[one.id])
                self._shares[source.id, one.id] = max(shares, default=0.0)
        for place, one in enumerate(first):
            others = (self._shares[source.id, one.id] for source in first[:LED_FROM] if source is not one)
            scores[place] = max(others, default=0.0)
        return scores


def _asked(question: str, links: Iterable[EntityLink]) -> frozenset[str]:
    """Return the stems of what is asked, without the names in the question."""
    left = f" {normalise(question)} "
    for phrase in sorted({link.phrase for link in links}, key=len, reverse=True):
        left = left.replace(f" {phrase} ", " ")
    return frozenset(_stem(word) for word in search_words(left) if len(word) > 2)  # noqa: PLR2004 - "of", "by"


def _names(record: Record) -> set[str]:
    """Return what a record may be called in another's text."""
    names = [record.name, record.source.title, *record.aliases]
    plain = [without_brackets(name) for name in names if name]
    return {name for name in map(normalise, plain) if name}


def _share(text: Sequence[str], name: Sequence[str], asked: frozenset[str]) -> float:
    """Return the largest share of the words asked for that stand around one mention."""
    best, size = 0, len(name)
    for start in range(len(text) - size + 1):
        if text[start] == name[0] and list(text[start : start + size]) == name:
            around = (*text[max(0, start - WINDOW) : start], *text[start + size : start + size + WINDOW])
            best = max(best, len(asked.intersection(map(_stem, around))))
    return best / len(asked)


def _stem(word: str) -> str:
    """Cut an ending off, so that "directed" meets "director"; both sides are cut alike, which is all it is for."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= SHORTEST_STEM:
            return word[: -len(ending)]
    return word
