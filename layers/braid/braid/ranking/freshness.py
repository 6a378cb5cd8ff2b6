"""Recomputes the recency and final scores of a cached answer, and says how long its order cannot change."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from braid.models import Ranking
from braid.ranking.scoring import (
    MEMORY_DECAY_PER_DAY,
    RECENCY_FLOOR,
    RECENCY_HOURS,
    clamp,
    freshness,
    freshness_share,
    recency,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from braid.models import Answer, Result

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


def order_stable_until(ordered: Sequence[ScoredCandidate], *, shown: int, ranking: Ranking, now: datetime) -> datetime:
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
    first = list(ordered[:shown])
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
