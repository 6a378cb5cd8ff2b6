"""Scores of a record: comparable scales, ranking profiles, schema drift and window, freshness, closeness of results."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from braid.models import Ranking, SchemaWindow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from braid.models import Answer, Hit, RelatedEntity, Result


BM25_HALF = 10.0
"""The BM25 score that becomes 0.5."""

RECENCY_HOURS = 24.0
RECENCY_FLOOR = 0.1
RECENCY_UNKNOWN = 0.5
PLACEHOLDER_STEP = 0.01
FURTHER_PART_FACTOR = 0.9
"""Factor of a vector hit by a further part of a long text: a text is mostly about what it begins with."""
MAX_L2_DISTANCE = 0.3
"""The furthest Euclidean distance that counts as similar, where a threshold applies."""


def clamp(value: float) -> float:
    """Bring a number that rounding pushed just outside [0, 1] back in.

    Raises ValueError if the value is NaN or infinite, which no rounding explains.
    """
    if 0.0 <= value <= 1.0:
        return value
    if not math.isfinite(value):
        raise ValueError(f"score {value} is not a number in [0, 1]")
    return min(1.0, max(0.0, value))


def from_cosine(cosine: float) -> float:
    """Map a cosine in [-1, 1] to a score: opposed is no better than unrelated."""
    return clamp(cosine)


def from_lucene_cosine(score: float) -> float:
    """Map Lucene's ``cosinesimil`` score, which is ``(1 + cos) / 2``, to a score."""
    return from_cosine(2.0 * score - 1.0)


def weigh_parts(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Return vector hits, those by a further part of their text times :data:`FURTHER_PART_FACTOR`, best first."""
    weighed = [hit.altered(score=hit.score * FURTHER_PART_FACTOR) if hit.part_start else hit for hit in hits]
    weighed.sort(key=lambda hit: (-hit.score, hit.id))
    return tuple([hit if hit.rank == rank else hit.altered(rank=rank) for rank, hit in enumerate(weighed, 1)])


def from_l2(distance: float, *, furthest: float = math.inf) -> float:
    """Map a Euclidean distance in [0, ∞) to a score: ``1 / (1 + d)``, and 0 beyond ``furthest``."""
    distance = _measured(distance)
    return clamp(1.0 / (1.0 + distance)) if distance <= furthest else 0.0


def from_bm25(score: float) -> float:
    """Map a BM25 score in [0, ∞) into [0, 1): ``s / (s + 10)``.

    Monotone, so the order stands; the half-way point is a score that a good match of two rare words reaches.
    """
    score = _measured(score)
    return score / (score + BM25_HALF)


def _measured(value: float) -> float:
    """Refuse NaN and infinity before a comparison can hide them; what rounding pushed below 0 is 0."""
    if not math.isfinite(value):
        raise ValueError(f"{value} is neither a distance nor a score")
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
SEMANTIC_SHARES, EPISODIC_SHARES = (0.9, 0.1), (0.7, 0.3)
SHARES_BY_KIND = {
    "message": (0.3, 0.7),
    "chunk": SEMANTIC_SHARES,
    "entity": SEMANTIC_SHARES,
    "fact": SEMANTIC_SHARES,
    "decision": EPISODIC_SHARES,
    "tool_call": EPISODIC_SHARES,
}
"""Shares of relevance and of recency, by kind; working state is ``message``."""
OTHER_SHARES = (0.5, 0.5)
MEMORY_RECENCY, MEMORY_RELEVANCE = 0.1, 0.5
"""Shares of the ranking profile ``memory``."""


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
    return MEMORY_RECENCY if ranking is Ranking.MEMORY else SHARES_BY_KIND.get(kind, OTHER_SHARES)[1]


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
    """Combine one record's scores, in [0, 1], by a ranking profile.

    ``relevance``: relevance alone. ``memory``: .5 similarity + .2 importance + .1 recency + .1 access + .1 distance.
    ``recency``: relevance and recency in shares that depend on the kind of record.

    Parameters
    ----------
    access
        How often it was read, as a share of the most read candidate.
    hops
        Edges between it and the nearest seed; 0 for a direct hit.
    """
    if ranking is Ranking.RELEVANCE:
        return clamp(relevance)
    if ranking is Ranking.MEMORY:
        fresh = MEMORY_RECENCY * freshness(ranking, at, now)
        return clamp(MEMORY_RELEVANCE * relevance + 0.2 * importance + fresh + 0.1 * access + 0.1 / (1 + hops))
    of_relevance, of_recency = SHARES_BY_KIND.get(kind, OTHER_SHARES)
    return clamp(of_relevance * relevance + of_recency * recency(at, now))


class Drift(StrEnum):
    """How far a record's schema is behind the tenant's current one."""

    NONE = "none"
    MINOR = "minor"
    MODERATE = "moderate"
    SEVERE = "severe"


DRIFT_FACTORS: Final = {Drift.NONE: 1.0, Drift.MINOR: 0.95, Drift.MODERATE: 0.85, Drift.SEVERE: 0.0}


def drift(record_version: int, current_version: int, threshold: int = 3) -> Drift:
    """Classify the difference: 0 none, 1 minor, up to ``threshold`` moderate, more severe.

    A record newer than the current version is not behind, and so has no drift; writing it is what gets refused.
    """
    behind = max(0, current_version - record_version)
    if behind > threshold:
        return Drift.SEVERE
    if behind == 0:
        return Drift.NONE
    return Drift.MINOR if behind == 1 else Drift.MODERATE


def max_versions_behind(threshold: int = 3, window: SchemaWindow = SchemaWindow.THRESHOLD) -> int:
    """Return how many versions behind the current one a record may be and still be found."""
    return min(1, threshold) if window is SchemaWindow.STRICT else threshold


def oldest_searched(current_version: int | None, max_versions_behind: int) -> int:
    """Return the lowest schema version inside the search window; the first where the current one is not known."""
    return 1 if current_version is None else max(1, current_version - max_versions_behind)


FOREVER = datetime(9999, 12, 31, tzinfo=UTC)
"""Expiry of what never expires."""
_ROUNDING = 1e-9
"""Scores closer than this count as equal: a tie is ordered by something other than age."""


@dataclass(frozen=True)
class ScoredCandidate:
    """What a ranking profile needs to know of one candidate."""

    final: float
    kind: str
    at: datetime | None


def order_stable_until(ordered: Iterable[ScoredCandidate], *, shown: int, ranking: Ranking, now: datetime) -> datetime:
    """Return until when age cannot change which candidates come first, or their order.

    Freshness only falls, and by at most ``f (1 - exp(-t / tau))`` in the time ``t``. So one candidate stays before
    another until its own share of that could eat up what is between them; two of the same age and share fall alike.

    Parameters
    ----------
    ordered
        All candidates, as they are ordered at ``now``.
    shown
        How many of them are the answer.
    """
    if ranking is Ranking.RELEVANCE:
        return FOREVER
    ordered = list(ordered)
    first = ordered[:shown]
    pairs = [*pairwise(first), *((first[-1], rest) for rest in ordered[shown:] if first)]
    lasting = min((_seconds_before_overtaken(one, other, ranking, now) for one, other in pairs), default=math.inf)
    if lasting >= (FOREVER - now).total_seconds():
        return FOREVER
    return now + timedelta(seconds=lasting)


def _seconds_before_overtaken(one: ScoredCandidate, other: ScoredCandidate, ranking: Ranking, now: datetime) -> float:
    """Return for how many seconds at least."""
    share = freshness_share(ranking, one.kind)
    if one.at is None or (one.at == other.at and share == freshness_share(ranking, other.kind)):
        return math.inf
    left = share * freshness(ranking, one.at, now)
    floor = 0.0 if ranking is Ranking.MEMORY else share * RECENCY_FLOOR
    between = one.final - other.final
    if left <= floor or between > left - floor + _ROUNDING:
        return math.inf  # even at the floor it stays before the other
    if between >= left:
        return math.inf
    tau_s = 86_400.0 / MEMORY_DECAY_PER_DAY if ranking is Ranking.MEMORY else 3_600.0 * RECENCY_HOURS
    return -tau_s * math.log1p(-max(0.0, between) / left)


def refreshed(answer: Answer, ranking: Ranking, now: datetime) -> Answer:
    """Return an answer as it is at a later moment before it ends: ages and final scores are of then."""
    return answer.model_copy(
        update={
            "results": tuple(_refreshed(result, ranking, answer.answered_at, now) for result in answer.results),
            "answered_at": now,
        }
    )


def _refreshed(result: Result, ranking: Ranking, before: datetime, now: datetime) -> Result:
    share = freshness_share(ranking, result.kind.value)
    lost = freshness(ranking, result.aged_from, before) - freshness(ranking, result.aged_from, now)
    return result.model_copy(
        update={"recency": recency(result.aged_from, now), "final": clamp(result.final - share * lost)}
    )


def closeness(results: Sequence[Result], related: Iterable[RelatedEntity]) -> float:
    """Return the strongest evidence that a question is about what is stored: similarity, words or a name in it.

    Fusion tells which record is the best of those there are, and not how good that is; what one strand says of one
    record by itself does.

    Returns
    -------
    float
        The best, in [0, 1], of the results' similarities and scores of words, and of the certainty with which the
        question names an entity; 0 without results, and 1 where they were reached from what the caller gave.
    """
    if not results:
        return 0.0
    named = [entity.certainty for entity in related]  # only what the question names has one
    # Of a vector that came with its record nobody knows that it is the text's.
    similar = [0.0 if result.vector_supplied else result.vector_score for result in results]
    found = [*similar, *(result.lexical_score for result in results)]
    return max((score for score in (*named, *found) if score is not None), default=1.0)
