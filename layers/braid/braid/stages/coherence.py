"""Path coherence: of the texts that were found, those stand out that a better one mentions in the question's own words.

"Where was the composer of Back in the U.S.A. born?": the song's page says "… written by Chuck Berry", and so of all
the pages that it mentions that of Chuck Berry is the one to read next. No model is needed: what counts is how many of
the question's words, without the names in it, stand beside the mention.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from braid.linking import normalise, words
from braid.question_words import question_words
from braid.schema import FACTORS
from braid.scoring import clamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from braid.models import EntityLink
    from braid.stages.reading import Ranked

READ = 15
"""Candidates that are looked at, best first."""
LED_FROM = 5
"""The best of them, in which mentions of the others are looked for."""
WINDOW = 15
"""Words on either side of a mention."""
MOST_WORDS = 1_000
"""Of a text; mentions further on are not found."""
SHORTEST_STEM = 4
_ENDINGS = ("ations", "ation", "ings", "ing", "ers", "ors", "er", "or", "ed", "es", "s", "ion", "e")
_PARENTHESIS = re.compile(r"\s*\([^)]*\)\s*$")


def cohere(question: str, links: Sequence[EntityLink], ranked: Sequence[Ranked], *, weight: float) -> list[Ranked]:
    """Raise what is mentioned in the question's words, and order the candidates anew.

    A candidate's relevance becomes ``(score + weight × coherence) / (1 + weight)``, where coherence is the largest
    share of the question's words, names left out, that stand within :data:`WINDOW` words of a mention of it.
    """
    asked = _asked(question, links)
    if not asked or weight <= 0:
        return list(ranked)
    first = ranked[:READ]
    texts = [words(item.record.text())[:MOST_WORDS] for item in first]
    scores = [0.0] * len(first)
    for place, item in enumerate(first):
        called = [name.split() for name in _names(item)]
        for source in range(min(LED_FROM, len(first))):
            if source != place:
                shares = (_share(texts[source], name, asked) for name in called)
                scores[place] = max(scores[place], *shares, 0.0)
    raised = [
        replace(item, relevance=_raised(item, scores[place] if place < len(scores) else 0.0, weight))
        for place, item in enumerate(ranked)
    ]
    return sorted(raised, key=lambda item: (-item.relevance, item.fused_rank, item.candidate.id))


def _raised(item: Ranked, coherence: float, weight: float) -> float:
    score = item.candidate.combined_score
    return clamp((score + weight * coherence) / (1.0 + weight) * FACTORS[item.drift])


def _asked(question: str, links: Iterable[EntityLink]) -> frozenset[str]:
    """Return the stems of what is asked, without the names in the question."""
    left = f" {normalise(question)} "
    for phrase in sorted({link.phrase for link in links}, key=len, reverse=True):
        left = left.replace(f" {phrase} ", " ")
    return frozenset(_stem(word) for word in question_words(left) if len(word) > 2)  # noqa: PLR2004 - "of", "by"


def _names(item: Ranked) -> set[str]:
    """Return what a candidate may be called in another's text."""
    record = item.record
    names = [record.name, record.source.title, *record.aliases]
    plain = [_PARENTHESIS.sub("", name) for name in names if name]
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
