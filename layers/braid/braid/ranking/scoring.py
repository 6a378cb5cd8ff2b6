"""The scoring contract: every score is in [0, 1] and higher is better.

Each function here maps one engine's number onto that scale, or combines numbers that are on it already. All are
monotone, so that no order changes on the way.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from braid.models import Ranking

if TYPE_CHECKING:
    from datetime import datetime

BM25_HALF = 10.0
"""The BM25 score that becomes 0.5."""

RECENCY_HOURS = 24.0
RECENCY_FLOOR = 0.1
RECENCY_UNKNOWN = 0.5
PLACEHOLDER_STEP = 0.01
MAX_L2_DISTANCE = 0.3
"""The furthest Euclidean distance that counts as similar, where a threshold applies."""


def clamp(value: float) -> float:
    """Bring a number that rounding pushed just outside [0, 1] back in.

    Raises
    ------
    ValueError
        If the value is NaN or infinite, which no rounding explains.
    """
    if not math.isfinite(value):
        message = f"score {value} is not a number in [0, 1]"
        raise ValueError(message)
    return min(1.0, max(0.0, value))


def from_cosine(cosine: float) -> float:
    """Map a cosine in [-1, 1] to a score: opposed is no better than unrelated."""
    return clamp(cosine)


def from_lucene_cosine(score: float) -> float:
    """Map Lucene's ``cosinesimil`` score, which is ``(1 + cos) / 2``, to a score."""
    return from_cosine(2.0 * score - 1.0)


def from_l2(distance: float, *, furthest: float = math.inf) -> float:
    """Map a Euclidean distance in [0, ∞) to a score: ``1 / (1 + d)``, and 0 beyond ``furthest``."""
    distance = _measured(distance)
    return clamp(1.0 / (1.0 + distance)) if distance <= furthest else 0.0


def from_bm25(score: float) -> float:
    """Map a BM25 score in [0, ∞) into [0, 1): ``s / (s + 10)``.

    Monotone, so the order stands; the half-way point is a score that a good match of two rare words reaches.
    """
    score = _measured(score)
    return clamp(score / (score + BM25_HALF))


def _measured(value: float) -> float:
    """Refuse NaN and infinity before a comparison can hide them; what rounding pushed below 0 is 0."""
    if not math.isfinite(value):
        message = f"{value} is neither a distance nor a score"
        raise ValueError(message)
    return max(0.0, value)


def placeholder_score(index: int) -> float:
    """Score of the candidate at ``index`` (from 0) when the reranker is lost: ``1 - .01 * index``."""
    return clamp(1.0 - PLACEHOLDER_STEP * index)


def recency(at: datetime | None, now: datetime) -> float:
    """Return ``exp(-age_hours / 24)`` clamped to [.1, 1]; .5 when the time is missing."""
    if at is None:
        return RECENCY_UNKNOWN
    age_hours = max(0.0, (now - at).total_seconds() / 3600.0)
    return max(RECENCY_FLOOR, math.exp(-age_hours / RECENCY_HOURS))


MEMORY_DECAY_PER_DAY = 0.01
SEMANTIC_SHARE, EPISODIC_SHARE = (0.9, 0.1), (0.7, 0.3)
RECENCY_SHARE = {
    "message": (0.3, 0.7),
    "chunk": SEMANTIC_SHARE,
    "entity": SEMANTIC_SHARE,
    "fact": SEMANTIC_SHARE,
    "decision": EPISODIC_SHARE,
    "tool_call": EPISODIC_SHARE,
}
"""Relevance and recency weights by kind; working state is ``message``."""
OTHER_SHARE = (0.5, 0.5)
MEMORY_SHARE, MEMORY_RELEVANCE = 0.1, 0.5
"""Recency's share of the ranking profile ``memory``."""


def freshness(ranking: Ranking, at: datetime | None, now: datetime) -> float:
    """Return what age does to a score in a ranking profile, in [0, 1]; it never grows as time passes."""
    if ranking is not Ranking.MEMORY:
        return recency(at, now)
    if at is None:
        return RECENCY_UNKNOWN
    return math.exp(-MEMORY_DECAY_PER_DAY * max(0.0, (now - at).total_seconds() / 86_400.0))


def relevance_share(ranking: Ranking) -> float:
    """Return how much of the final score of a profile without shares by kind is relevance."""
    return MEMORY_RELEVANCE if ranking is Ranking.MEMORY else 1.0


def freshness_share(ranking: Ranking, kind: str) -> float:
    """Return how much of the final score is :func:`freshness`."""
    if ranking is Ranking.RELEVANCE:
        return 0.0
    return MEMORY_SHARE if ranking is Ranking.MEMORY else RECENCY_SHARE.get(kind, OTHER_SHARE)[1]


def final_score(
    ranking: Ranking,
    *,
    relevance: float,
    kind: str = "chunk",
    at: datetime | None = None,
    now: datetime,
    importance: float = 0.5,
    access: float = 0.0,
    hops: int = 0,
) -> float:
    """Combine one record's scores by a ranking profile.

    Parameters
    ----------
    ranking
        ``relevance``: relevance alone. ``memory``: .5 similarity + .2 importance + .1 recency + .1 access + .1
        distance. ``recency``: relevance and recency in shares that depend on the kind of record.
    relevance, importance
        In [0, 1].
    kind
        The record's kind.
    at
        When the record was last updated, or happened.
    now
        The moment of asking.
    access
        How often it was read, as a share of the most read candidate.
    hops
        Edges between it and the nearest seed; 0 for a direct hit.
    """
    if ranking is Ranking.RELEVANCE:
        return clamp(relevance)
    if ranking is Ranking.MEMORY:
        fresh = MEMORY_SHARE * freshness(ranking, at, now)
        return clamp(MEMORY_RELEVANCE * relevance + 0.2 * importance + fresh + 0.1 * access + 0.1 / (1 + hops))
    relevance_share, recency_share = RECENCY_SHARE.get(kind, OTHER_SHARE)
    return clamp(relevance_share * relevance + recency_share * recency(at, now))
