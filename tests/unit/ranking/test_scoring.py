"""The scoring contract: in [0, 1], higher is better, no order changed on the way, NaN and infinity refused."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from braid.models import Hit, Ranking
from braid.ranking.scoring import (
    MAX_L2_DISTANCE,
    clamp,
    final_score,
    from_bm25,
    from_cosine,
    from_l2,
    from_lucene_cosine,
    placeholder_score,
    recency,
    weigh_parts,
)
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.fakes import NOW

if TYPE_CHECKING:
    from collections.abc import Callable

RISING: dict[Callable[[float], float], st.SearchStrategy[float]] = {
    clamp: st.floats(-2, 2),
    from_cosine: st.floats(-1, 1),
    from_lucene_cosine: st.floats(0, 1),
    from_bm25: st.floats(0, 1e6),
}
BROKEN = [math.nan, math.inf, -math.inf]


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("to_score", [*RISING, from_l2], ids=lambda to_score: to_score.__name__)
def test_a_number_that_is_none_is_refused_by_value(to_score: Callable[[float], float], broken: float) -> None:
    with pytest.raises(ValueError, match=r"nan|inf"):
        to_score(broken)


@pytest.mark.parametrize("broken", [*BROKEN, -0.01, 1.01])
def test_no_shape_holds_a_score_outside_the_contract(broken: float) -> None:
    with pytest.raises(ValidationError):
        Hit(id="a", score=broken, rank=1)


@pytest.mark.parametrize("to_score", RISING, ids=lambda to_score: to_score.__name__)
@given(data=st.data())
def test_a_normalisation_stays_in_range_and_keeps_the_order(
    to_score: Callable[[float], float], data: st.DataObject
) -> None:
    low, high = sorted((data.draw(RISING[to_score]), data.draw(RISING[to_score])))
    assert 0.0 <= to_score(low) <= to_score(high) <= 1.0


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_what_is_further_away_never_scores_more(one: float, other: float) -> None:
    near, far = sorted((one, other))
    assert 1.0 >= from_l2(near) >= from_l2(far) >= 0.0


def test_beyond_the_furthest_distance_nothing_is_similar_where_a_threshold_applies() -> None:
    assert MAX_L2_DISTANCE == 0.3
    assert from_l2(0.3, furthest=MAX_L2_DISTANCE) == pytest.approx(1 / 1.3)
    assert from_l2(0.31, furthest=MAX_L2_DISTANCE) == 0.0
    with pytest.raises(ValueError, match="nan"):
        from_l2(math.nan, furthest=MAX_L2_DISTANCE)


def test_a_normalisation_gives_what_its_formula_says() -> None:
    assert (from_cosine(-0.4), from_cosine(0.0), from_cosine(0.4), from_cosine(1.0000001)) == (0, 0, 0.4, 1)
    assert (from_lucene_cosine(0.3), from_lucene_cosine(1.0)) == (0.0, 1.0)
    assert from_lucene_cosine(0.9) == pytest.approx(0.8)
    assert (from_l2(0.0), from_l2(1.0), from_l2(3.0)) == (1.0, 0.5, 0.25)
    assert (from_bm25(0.0), from_bm25(10.0), from_bm25(30.0)) == (0.0, 0.5, 0.75)
    assert from_bm25(1e6) < 1.0


def test_a_negative_bm25_or_distance_is_no_better_than_none() -> None:
    assert from_bm25(-3.0) == 0.0
    assert from_l2(-1.0) == 1.0


def test_placeholders_fall_by_a_hundredth_and_not_below_zero() -> None:
    assert [placeholder_score(index) for index in range(3)] == [1.0, 0.99, 0.98]
    assert placeholder_score(49) == pytest.approx(0.51)
    assert placeholder_score(200) == 0.0


@pytest.mark.parametrize(
    ("hours", "expected"),
    [(0, 1.0), (12, math.exp(-0.5)), (24, math.exp(-1)), (55, math.exp(-55 / 24)), (56, 0.1), (10_000, 0.1), (-5, 1.0)],
)
def test_recency_decays_by_e_a_day_and_stops_at_a_tenth(hours: float, expected: float) -> None:
    assert recency(NOW - timedelta(hours=hours), NOW) == pytest.approx(expected)


def test_a_missing_time_is_half_recent() -> None:
    assert recency(None, NOW) == 0.5


DAY_OLD = NOW - timedelta(hours=24)


def test_the_relevance_profile_is_relevance_alone() -> None:
    value = final_score(
        Ranking.RELEVANCE, relevance=0.37, kind="message", at=DAY_OLD, now=NOW, importance=1.0, access=1.0, hops=3
    )
    assert value == 0.37


@pytest.mark.parametrize(
    ("days", "importance", "access", "hops", "expected"),
    [
        (0, 0.5, 0.0, 0, 0.5 * 0.8 + 0.2 * 0.5 + 0.1 + 0.0 + 0.1),
        (100, 1.0, 0.5, 1, 0.5 * 0.8 + 0.2 * 1.0 + 0.1 * math.exp(-1) + 0.1 * 0.5 + 0.1 / 2),
        (None, 0.0, 1.0, 3, 0.5 * 0.8 + 0.0 + 0.1 * 0.5 + 0.1 + 0.1 / 4),
    ],
)
def test_the_memory_profile_adds_five_factors(
    days: float | None, importance: float, access: float, hops: int, expected: float
) -> None:
    at = None if days is None else NOW - timedelta(days=days)
    value = final_score(Ranking.MEMORY, relevance=0.8, at=at, now=NOW, importance=importance, access=access, hops=hops)
    assert value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("kind", "relevance_share"),
    [
        ("message", 0.3),
        ("chunk", 0.9),
        ("entity", 0.9),
        ("fact", 0.9),
        ("decision", 0.7),
        ("tool_call", 0.7),
        ("something else", 0.5),
    ],
)
def test_the_recency_profile_shares_by_kind(kind: str, relevance_share: float) -> None:
    expected = relevance_share * 0.8 + (1 - relevance_share) * math.exp(-1)
    assert final_score(Ranking.RECENCY, relevance=0.8, kind=kind, at=DAY_OLD, now=NOW) == pytest.approx(expected)


@given(
    ranking=st.sampled_from(Ranking),
    relevance=st.floats(0, 1),
    kind=st.sampled_from(["message", "chunk", "decision", "other"]),
    age_hours=st.none() | st.floats(-1e4, 1e5),
    importance=st.floats(0, 1),
    access=st.floats(0, 1),
    hops=st.integers(0, 6),
)
def test_every_profile_stays_in_range(
    *,
    ranking: Ranking,
    relevance: float,
    kind: str,
    age_hours: float | None,
    importance: float,
    access: float,
    hops: int,
) -> None:
    at = None if age_hours is None else NOW - timedelta(hours=age_hours)
    value = final_score(
        ranking, relevance=relevance, kind=kind, at=at, now=NOW, importance=importance, access=access, hops=hops
    )
    assert 0.0 <= value <= 1.0


@pytest.mark.parametrize("ranking", list(Ranking))
def test_no_profile_passes_a_relevance_that_is_no_number(ranking: Ranking) -> None:
    with pytest.raises(ValueError, match="nan"):
        final_score(ranking, relevance=math.nan, now=NOW)


@given(
    ranking=st.sampled_from(Ranking),
    relevances=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    kind=st.sampled_from(["message", "chunk", "decision", "other"]),
    age_hours=st.none() | st.floats(0, 1e5),
    importance=st.floats(0, 1),
)
def test_what_is_more_relevant_never_ranks_lower_for_it_in_any_profile(
    *,
    ranking: Ranking,
    relevances: tuple[float, float],
    kind: str,
    age_hours: float | None,
    importance: float,
) -> None:
    at = None if age_hours is None else NOW - timedelta(hours=age_hours)
    low, high = (
        final_score(ranking, relevance=relevance, kind=kind, at=at, now=NOW, importance=importance)
        for relevance in sorted(relevances)
    )
    assert low <= high


def test_a_hit_by_a_further_part_counts_less_than_one_by_the_beginning_of_its_text() -> None:
    hits = (Hit(id="far", score=0.8, rank=1, part_start=900), Hit(id="near", score=0.78, rank=2))
    weighed = weigh_parts(hits)
    assert [(hit.id, hit.rank) for hit in weighed] == [("near", 1), ("far", 2)]
    assert [hit.score for hit in weighed] == pytest.approx([0.78, 0.72])
    assert weighed[1].part_start == 900
