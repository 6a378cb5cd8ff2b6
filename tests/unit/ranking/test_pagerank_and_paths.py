"""Propagation's scores are those of personalised PageRank, worked out here as the linear system that defines it."""

from __future__ import annotations

import numpy as np
import pytest
from braid.ports.knowledge_graph import PropagateRequest
from braid.ranking.graph_queries_and_facts import Node, StoredEdge
from braid.ranking.neighbourhood_arrays import Neighbourhood
from braid.ranking.pagerank_and_paths import personalised_pagerank
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import NOW, TENANT

SIZE = 6
weights = st.floats(0.1, 1.0)


def shares(confidences: dict[tuple[int, int], float], seeds: dict[int, float], damping: float) -> np.ndarray:
    """Return the share of its time that a walk spends at each vertex: x = damping · P x + (1 - damping) · start."""
    matrix = np.zeros((SIZE, SIZE))
    for (one, other), confidence in confidences.items():
        matrix[one, other] = matrix[other, one] = confidence
    steps = matrix / matrix.sum(axis=0, keepdims=True)
    start = np.array([seeds.get(place, 0.0) for place in range(SIZE)])
    return np.linalg.solve(np.eye(SIZE) - damping * steps, (1 - damping) * start / start.sum())


@given(
    ring=st.lists(weights, min_size=SIZE, max_size=SIZE),
    chords=st.dictionaries(st.sampled_from([(0, 2), (1, 4), (0, 3), (2, 5)]), weights),
    seeds=st.dictionaries(st.integers(0, SIZE - 1), weights, min_size=1),
    damping=st.floats(0.1, 0.9),
)
def test_scores_are_shares_of_personalised_pagerank_over_the_root_of_ties(
    ring: list[float], chords: dict[tuple[int, int], float], seeds: dict[int, float], damping: float
) -> None:
    confidences = {(place, (place + 1) % SIZE): value for place, value in enumerate(ring)} | chords
    names = [f"v{place}" for place in range(SIZE)]
    nodes = {name: Node(name, "Part", has_record=True, timestamp=None, name=name) for name in names}
    request = PropagateRequest(
        tenant_id=TENANT,
        as_of=NOW,
        damping=damping,
        names=tuple((names[place], value) for place, value in seeds.items()),
    )
    ties = [StoredEdge(names[one], "FEEDS", names[other], value, None) for (one, other), value in confidences.items()]
    hits = {
        hit.id: hit.score for hit in personalised_pagerank(request, Neighbourhood.of(nodes, ties, truncated=False)).hits
    }
    tied = [sum(place in pair for pair in confidences) for place in range(SIZE)]
    expected = shares(confidences, seeds, damping) / np.sqrt(tied)
    assert [hits[name] for name in names] == pytest.approx(np.sqrt(expected / expected.max()).tolist(), abs=1e-4)


def test_a_share_that_rounds_to_nothing_is_none() -> None:
    nodes = {
        name: Node(name, "Part", has_record=name == "far", timestamp=None, name=name)
        for name in ("name", "near", "far")
    }
    request = PropagateRequest(tenant_id=TENANT, as_of=NOW, names=(("name", 1.0),))
    ties = [StoredEdge("name", "FEEDS", "far", 1e-12, None), StoredEdge("name", "FEEDS", "near", 1.0, None)]
    assert personalised_pagerank(request, Neighbourhood.of(nodes, ties, truncated=False)).hits == ()
