"""What a graph constraint is expected to reach, and which order is expected to be the cheaper."""

from __future__ import annotations

import math

import pytest
from braid.models import Direction, GraphConstraint
from braid.ports.knowledge_graph import GraphStats
from braid.understanding.graph_constraint_cost import (
    MAX_CANDIDATES,
    MAX_REACH,
    Estimate,
    estimate_reach,
    graph_first_ms,
    vector_first_ms,
)
from hypothesis import given
from hypothesis import strategies as st

GRAPH = GraphStats(
    vertices=1_000,
    records=800,
    edges=3_000,
    by_relationship_type={"PART_OF": 900, "OWNS": 100, "CALLS": 2_000},
    sources_by_relationship_type={"PART_OF": 900, "OWNS": 20, "CALLS": 400},
    targets_by_relationship_type={"PART_OF": 10, "OWNS": 100, "CALLS": 400},
)
RECORDS = 2_000


def within(*types: str, direction: Direction = Direction.OUT, depth: int = 1) -> Estimate:
    constraint = GraphConstraint(entity="x", types=types, direction=direction, depth=depth)
    return estimate_reach(constraint, GRAPH, RECORDS)


@pytest.mark.parametrize(
    ("types", "direction", "depth", "degree", "reach"),
    [
        (("OWNS",), Direction.OUT, 1, 5.0, 4),
        (("OWNS",), Direction.IN, 1, 1.0, 1),
        (("PART_OF",), Direction.IN, 1, 90.0, 72),
        (("PART_OF",), Direction.OUT, 1, 1.0, 1),
        (("CALLS",), Direction.OUT, 2, 5.0, 24),
        (("CALLS",), Direction.OUT, 3, 5.0, 124),
        (("CALLS",), Direction.BOTH, 1, 10.0, 8),
        (("OWNS", "CALLS"), Direction.OUT, 1, 10.0, 8),
        (("UNHEARD_OF",), Direction.OUT, 3, 0.0, 0),
        ((), Direction.OUT, 1, 3.0, 2),
        ((), Direction.BOTH, 2, 6.0, 34),
    ],
)
def test_reach_is_the_mean_degree_by_hops_of_which_some_are_records(
    types: tuple[str, ...], direction: Direction, depth: int, degree: float, reach: int
) -> None:
    estimate = within(*types, direction=direction, depth=depth)
    assert (estimate.degree, estimate.reach) == (degree, reach)
    assert estimate.share == reach / 2_000


def test_no_more_is_reached_than_edges_lead_to() -> None:
    assert within("CALLS", depth=3, direction=Direction.BOTH).reach == 640, "of 400 sources and 400 targets, 8 in 10"
    assert within("OWNS", depth=3).reach == 80


def test_without_the_indexs_counts_the_graphs_records_stand_for_all() -> None:
    assert estimate_reach(GraphConstraint(entity="x", types=("OWNS",)), GRAPH, None).records == 800
    empty = estimate_reach(GraphConstraint(entity="x"), GraphStats(), None)
    assert (empty.reach, empty.share, empty.candidates(50)) == (0, 0.0, MAX_CANDIDATES)


@pytest.mark.parametrize(("share", "candidates"), [(1.0, 50), (0.5, 100), (0.26, 193), (0.25, 200), (0.01, 200)])
def test_as_many_hits_are_fetched_as_leave_enough_inside(share: float, candidates: int) -> None:
    assert Estimate(1.0, round(share * 10_000), 10_000).candidates(50) == candidates


def test_a_small_scope_is_walked_first_and_a_large_one_searched_first() -> None:
    small, large = Estimate(1.0, 10, 50_000), Estimate(1.0, 25_000, 50_000)
    assert graph_first_ms(small) < vector_first_ms(small, wanted=50, top_k=10)
    assert graph_first_ms(large) > vector_first_ms(large, wanted=50, top_k=10)


def test_what_cannot_be_listed_is_never_walked_first() -> None:
    assert graph_first_ms(Estimate(1.0, MAX_REACH + 1, 10_000_000)) == math.inf


@given(
    reach=st.integers(0, 200_000),
    records=st.integers(0, 200_000),
    wanted=st.integers(1, 100),
    top_k=st.integers(1, 50),
)
def test_an_estimate_is_always_a_plan(reach: int, records: int, wanted: int, top_k: int) -> None:
    estimate = Estimate(1.0, min(reach, records), records)
    assert 0.0 <= estimate.share <= 1.0
    assert min(wanted, MAX_CANDIDATES) <= estimate.candidates(wanted) <= MAX_CANDIDATES
    assert 0.0 < vector_first_ms(estimate, wanted=wanted, top_k=top_k) < math.inf
    assert graph_first_ms(estimate) > 0.0
