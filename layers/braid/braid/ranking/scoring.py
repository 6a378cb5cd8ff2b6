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
"""Factor of a vector hit on a further part of a long text: the beginning of a text mostly states its topic."""
MAX_L2_DISTANCE = 0.3
"""The furthest Euclidean distance that counts as similar, where a threshold applies."""


def clamp(value: float) -> float:
    """Clamp to [0, 1] a score that rounding errors may have moved outside.

    Raises ValueError if the value is NaN or infinite.
    """
    if 0.0 <= value <= 1.0:
        return value
    if not math.isfinite(value):
        raise ValueError(f"score {value} is not a number in [0, 1]")
    return min(1.0, max(0.0, value))


def from_cosine(cosine: float) -> float:
    """Map a cosine in [-1, 1] to a score in [0, 1]; a negative one to 0."""
    return clamp(cosine)


def from_lucene_cosine(score: float) -> float:
    """Map Lucene's ``cosinesimil`` score, which is ``(1 + cos) / 2``, to a score."""
    return from_cosine(2.0 * score - 1.0)


def weigh_parts(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Return vector hits ranked anew, ties by id: hits on a further part count :data:`FURTHER_PART_FACTOR` times."""
    weighed = [hit.altered(score=hit.score * FURTHER_PART_FACTOR) if hit.part_start else hit for hit in hits]
    weighed.sort(key=lambda hit: (-hit.score, hit.id))
    return tuple([hit if hit.rank == rank else hit.altered(rank=rank) for rank, hit in enumerate(weighed, 1)])


def from_l2(distance: float, *, furthest: float = math.inf) -> float:
    """Map a Euclidean distance in [0, ∞) to a score: ``1 / (1 + d)``, and 0 beyond ``furthest``."""
    distance = _measured(distance)
    return clamp(1.0 / (1.0 + distance)) if distance <= furthest else 0.0


def from_bm25(score: float) -> float:
    """Map a BM25 score in [0, ∞) into [0, 1): ``s / (s + 10)``.

    Monotone, so it keeps the order; the half-way point is the BM25 score of a good match of two rare words.
    """
    score = _measured(score)
    return score / (score + BM25_HALF)


def _measured(value: float) -> float:
    """Return a distance or BM25 score, at least 0. Raises ValueError for NaN and infinity."""
    if not math.isfinite(value):
        raise ValueError(f"{value} is neither a distance nor a score")
    return max(0.0, value)


def placeholder_score(index: int) -> float:
    """Return the score of the candidate at ``index``, from 0, when the reranker fails: ``1 - .01 * index``."""
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
"""Weights of relevance and of recency in the profile ``recency``, by kind; ``message`` is of a conversation."""
OTHER_SHARES = (0.5, 0.5)
MEMORY_RECENCY, MEMORY_RELEVANCE = 0.1, 0.5
"""Weights of recency and of relevance in the ranking profile ``memory``."""


def freshness(ranking: Ranking, at: datetime | None, now: datetime) -> float:
    """Return a record's freshness in a ranking profile, in [0, 1]; it never grows as time passes."""
    if ranking is not Ranking.MEMORY:
        return recency(at, now)
    if at is None:
        return RECENCY_UNKNOWN
    return math.exp(-MEMORY_DECAY_PER_DAY * max(0.0, (now - at).total_seconds() / 86_400.0))


def relevance_share(ranking: Ranking) -> float:
    """Return the weight of relevance in the final score of the profiles ``memory`` and ``relevance``."""
    return MEMORY_RELEVANCE if ranking is Ranking.MEMORY else 1.0


def freshness_share(ranking: Ranking, kind: str) -> float:
    """Return the weight of :func:`freshness` in the final score of a record of this kind."""
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

    ``relevance``: relevance alone. ``memory``: .5 relevance + .2 importance + .1 recency + .1 access + .1 nearness.
    ``recency``: relevance and recency in shares that depend on the kind of record.

    Parameters
    ----------
    access
        Number of uses relative to the most used candidate's, in [0, 1].
    hops
        Edges between the record and the nearest seed; 0 for a direct hit.
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

    A record newer than the current version has no drift; writes refuse such records.
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
    """Return the lowest schema version inside the search window; 1 where the current version is not known."""
    return 1 if current_version is None else max(1, current_version - max_versions_behind)


FOREVER = datetime(9999, 12, 31, tzinfo=UTC)
"""Expiry of a value that never expires."""
_ROUNDING = 1e-9
"""Scores closer than this count as equal: ties are not ordered by age."""


@dataclass(frozen=True)
class ScoredCandidate:
    """A candidate's final score, its kind, and the time from which its age counts."""

    final: float
    kind: str
    at: datetime | None


def order_stable_until(ordered: Iterable[ScoredCandidate], *, shown: int, ranking: Ranking, now: datetime) -> datetime:
    """Return the time until which ageing cannot change the first ``shown`` candidates or their order.

    Freshness ``f`` only falls, and by at most ``f (1 - exp(-t / tau))`` in the time ``t``. So a candidate stays before
    another at least until its own loss can exceed the difference of their scores; two of the same age and weight lose
    alike.

    Parameters
    ----------
    ordered
        All candidates, best first at ``now``.
    shown
        Number of candidates that the answer shows.
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
    """Return a lower bound of the seconds until ageing puts the other before the one; infinity if it never does."""
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
    """Return a cached answer that has not expired, with recency and final scores as of ``now``."""
    return answer.altered(
        results=tuple(_refreshed(result, ranking, answer.answered_at, now) for result in answer.results),
        answered_at=now,
    )


def _refreshed(result: Result, ranking: Ranking, before: datetime, now: datetime) -> Result:
    share = freshness_share(ranking, result.kind.value)
    lost = freshness(ranking, result.aged_from, before) - freshness(ranking, result.aged_from, now)
    return result.altered(recency=recency(result.aged_from, now), final=clamp(result.final - share * lost))


def closeness(results: Sequence[Result], related: Iterable[RelatedEntity]) -> float:
    """Return how close the results are to the question, by the best absolute score among them.

    Fused scores are relative to the best record and do not say how good that one is; a single strand's scores do.

    Returns
    -------
    float
        The highest, in [0, 1], of the results' vector and lexical scores, and of the certainty with which the question
        names an entity; 0 without results, and 1 where there is no such score, as where the caller gave the seeds.
    """
    if not results:
        return 0.0
    named = [entity.certainty for entity in related]  # None for all but the question's names
    # A supplied vector may not represent the text.
    similar = [0.0 if result.vector_supplied else result.vector_score for result in results]
    found = [*similar, *(result.lexical_score for result in results)]
    return max((score for score in (*named, *found) if score is not None), default=1.0)
