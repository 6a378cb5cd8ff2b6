"""The walk in memory against an oracle that enumerates every path."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph
from braid.engines.embedded.store import EmbeddedStore
from braid.models import Direction, Relationship
from braid.ports.knowledge_graph import ExpandRequest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.shapes import ACME, AS_OF, edge, vertex

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES = "abcdefg"
# Powers of two multiply exactly, so that equal scores are equal whatever the order of multiplying.
EDGES = st.builds(
    edge,
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
    st.sampled_from(["CAUSES", "ENABLES", "MENTIONS"]),
    confidence=st.sampled_from([1.0, 0.5, 0.25, 0.0]),
    invalid_at=st.sampled_from([None, None, AS_OF - timedelta(days=1), AS_OF + timedelta(days=1)]),
    predicate=st.sampled_from([None, "p"]),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    return tmp_path_factory.mktemp("walk")


def every_path(edges: list[Relationship], seeds: set[str], request: ExpandRequest) -> dict[str, tuple[object, ...]]:
    """Return (-score, hops, ids, types) of each vertex's best simple path, found by trying all."""
    best: dict[str, tuple[object, ...]] = {}

    def go(ids: tuple[str, ...], types: tuple[str, ...], product: float) -> None:
        if len(types) == request.max_hops:
            return
        for each in edges:
            if (each.invalid_at and each.invalid_at <= AS_OF) or (request.types and each.type not in request.types):
                continue
            for here, there, way in (
                (each.source, each.target, Direction.OUT),
                (each.target, each.source, Direction.IN),
            ):
                if here != ids[-1] or request.direction not in {way, Direction.BOTH}:
                    continue
                if there in ids or there in seeds:
                    continue
                further = (*ids, there)
                score = product * each.confidence if request.by_confidence else 1.0 / (1.0 + len(types) + 1)
                found = (-score, len(types) + 1, further, (*types, each.type))
                if there not in best or found < best[there]:
                    best[there] = found
                go(further, (*types, each.type), product * each.confidence)

    for seed in seeds:
        go((seed,), (), 1.0)
    return best


@settings(max_examples=150, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    edges=st.lists(EDGES, max_size=14),
    seeds=st.sets(st.sampled_from(NAMES), min_size=1, max_size=3),
    direction=st.sampled_from(Direction),
    types=st.sampled_from([(), ("CAUSES",), ("CAUSES", "ENABLES")]),
    max_hops=st.integers(1, 3),
    by_confidence=st.booleans(),
)
def test_each_vertex_is_reached_by_the_best_of_all_its_paths(  # noqa: PLR0917 - Hypothesis gives them by name
    folder: Path,
    edges: list[Relationship],
    seeds: set[str],
    direction: Direction,
    types: tuple[str, ...],
    max_hops: int,
    by_confidence: bool,
) -> None:
    request = ExpandRequest(
        tenant_id=ACME,
        seeds=tuple(seeds),
        types=types,
        direction=direction,
        max_hops=max_hops,
        by_confidence=by_confidence,
        as_of=AS_OF,
    )
    with EmbeddedStore(folder) as store:
        graph = EmbeddedKnowledgeGraph(store)
        graph.delete(ACME, list(NAMES))
        graph.upsert([vertex(name) for name in NAMES], edges)
        found = graph.expand(request)
    last = {(each.source, each.type, each.target, each.predicate): each for each in edges}
    expected = every_path(list(last.values()), seeds, request)
    walked = {hit.id: (-hit.score, len(hit.path.types), hit.path.ids, hit.path.types) for hit in found.hits}
    assert walked == expected
    assert [hit.id for hit in found.hits] == sorted(walked, key=lambda name: (walked[name][0], name))
