"""The walk in memory against an oracle that enumerates every path."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from braid.engines.embedded import graph_change_log
from braid.engines.embedded.graph import adjacency, rows_around_seeds, tenant_graphs, write_overlay
from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph
from braid.engines.embedded.store import EmbeddedStore
from braid.models import Direction, Relationship
from braid.models.records import DEFAULT_ENTITY_TYPE
from braid.ports.graph_query import GraphQuery
from braid.ports.knowledge_graph import ExpandRequest, PropagateRequest
from braid.ranking import graph_queries_and_facts
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
        assert EmbeddedKnowledgeGraph(store, max_loaded_first=0).expand(request) == found
    last = {(each.source, each.type, each.target, each.predicate): each for each in edges}
    expected = every_path(list(last.values()), seeds, request)
    walked = {hit.id: (-hit.score, len(hit.path.types), hit.path.ids, hit.path.types) for hit in found.hits}
    assert walked == expected
    assert [hit.id for hit in found.hits] == sorted(walked, key=lambda name: (walked[name][0], name))


def _requests(seeds: set[str], fan_out: int, hub: int, trusted_only: bool) -> tuple[ExpandRequest, PropagateRequest]:
    """Return a walk from some names, and a propagation from the same."""
    bounds: dict[str, Any] = {"tenant_id": ACME, "fan_out": fan_out, "as_of": AS_OF, "trusted_only": trusted_only}
    names = tuple((seed, 1.0) for seed in sorted(seeds))
    return ExpandRequest(seeds=tuple(seeds), max_hops=3, **bounds), PropagateRequest(names=names, hub=hub, **bounds)


REQUESTS = st.builds(
    _requests,
    seeds=st.sets(st.sampled_from(NAMES), min_size=1, max_size=3),
    fan_out=st.integers(1, 3),
    hub=st.integers(1, 3),
    trusted_only=st.booleans(),
)


STEPS = st.fixed_dictionaries(
    {"direction": st.sampled_from(Direction), "types": st.sampled_from([(), ("CAUSES",), ("ENABLES",)])}
)
STARTS = st.one_of(
    st.fixed_dictionaries({"ids": st.sets(st.sampled_from(NAMES), min_size=1, max_size=3).map(sorted)}),
    st.just({"entity_types": [DEFAULT_ENTITY_TYPE]}),
)
QUERIES = st.builds(
    lambda start, steps, trusted_only: GraphQuery.model_validate(
        {
            "tenant_id": ACME,
            "as_of": AS_OF,
            "start": start,
            "steps": steps,
            "trusted_only": trusted_only,
            "returns": "paths",
            "limit": 200,
        }
    ),
    start=STARTS,
    steps=st.lists(STEPS, min_size=1, max_size=3),
    trusted_only=st.booleans(),
)


@settings(max_examples=100, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    edges=st.lists(EDGES, max_size=14),
    untrusted=st.sets(st.sampled_from(NAMES), max_size=2),
    asked=REQUESTS,
    query=QUERIES,
)
def test_what_a_walk_reads_around_its_seeds_answers_as_the_whole_graph_does(
    folder: Path,
    edges: list[Relationship],
    untrusted: set[str],
    asked: tuple[ExpandRequest, PropagateRequest],
    query: GraphQuery,
) -> None:
    walk, around = asked
    with EmbeddedStore(folder) as store:
        whole, part = EmbeddedKnowledgeGraph(store), EmbeddedKnowledgeGraph(store, max_loaded_first=0)
        whole.delete(ACME, list(NAMES))
        whole.upsert([vertex(name, trusted=name not in untrusted) for name in NAMES], edges)
        assert part.propagate(around) == whole.propagate(around)
        assert part.expand(walk) == whole.expand(walk)
        assert EmbeddedKnowledgeGraph(store, max_loaded_first=0).query(query) == whole.query(query)


CHANGES = st.one_of(
    st.tuples(st.just("write"), EDGES),
    st.tuples(st.just("rename"), st.sampled_from(NAMES), st.sampled_from([None, "A", "a", "B"]), st.booleans()),
    st.tuples(st.just("remove"), st.sampled_from(NAMES)),
    st.tuples(st.just("remove edge"), EDGES),
)


@settings(max_examples=100, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    edges=st.lists(EDGES, max_size=14),
    changes=st.lists(CHANGES, min_size=1, max_size=8),
    asked=REQUESTS,
    query=QUERIES,
)
def test_a_graph_in_memory_follows_writes_and_answers_as_one_that_is_read_after_them(
    folder: Path,
    edges: list[Relationship],
    changes: list[tuple[Any, ...]],
    asked: tuple[ExpandRequest, PropagateRequest],
    query: GraphQuery,
) -> None:
    walk, spread = asked
    typed = walk.model_copy(update={"types": ("CAUSES",), "direction": Direction.IN, "by_confidence": True})
    with EmbeddedStore(folder) as store:
        follows = EmbeddedKnowledgeGraph(store)
        follows.delete(ACME, [*NAMES, "new"])
        follows.upsert([vertex(name) for name in NAMES], edges)
        follows.expand(walk)
        for what, *given in changes:
            match what:
                case "write":
                    ends = {given[0].source, given[0].target}
                    missing = ends - {one.id for one in follows.get_many(ACME, sorted(ends))}
                    follows.upsert([vertex(name) for name in (*missing, "new")], [given[0], edge("new", min(ends))])
                case "rename":
                    follows.upsert([vertex(given[0], name=given[1], trusted=given[2])], [])
                case "remove":
                    follows.delete(ACME, given)
                case "remove edge":
                    follows.delete_relationships(ACME, given)
            after = EmbeddedKnowledgeGraph(store)
            for request in (walk, typed):
                assert follows.expand(request) == after.expand(request)
            assert follows.propagate(spread) == after.propagate(spread)
            assert follows.query(query) == after.query(query)
            with store.read_tenant(ACME) as (connection, tenant):
                assert tenant is not None
                counts = graph_change_log.count(connection, tenant)
            assert follows.stats(ACME) == counts


@pytest.mark.parametrize(
    ("start", "kinds", "expected"),
    [
        (["a", "b"], ["out", "in"], ("a", "b", "c")),  # the second step leaves from a start
        (["a"], ["out", "out", "in"], ("a", "d", "b", "c")),  # the third from what the first reached already
    ],
)
def test_a_query_whose_steps_differ_goes_on_from_what_it_reached_before(
    tmp_path: Path, start: list[str], kinds: list[str], expected: tuple[str, ...]
) -> None:
    steps = [{"direction": kind} for kind in kinds]
    query = GraphQuery.model_validate(
        {"tenant_id": ACME, "as_of": AS_OF, "start": {"ids": start}, "steps": steps, "returns": "paths"}
    )
    edges = [edge(*ends, "CAUSES") for ends in ("ab", "cb", "ad", "db")]
    with EmbeddedStore(tmp_path) as store:
        follows = EmbeddedKnowledgeGraph(store)
        follows.upsert([vertex(name) for name in "abcde"], edges[:1])
        follows.query(query)
        follows.upsert([], edges[1:])
        for graph in (follows, EmbeddedKnowledgeGraph(store, max_loaded_first=0), EmbeddedKnowledgeGraph(store)):
            assert expected in {hit.path.ids for hit in graph.query(query).hits}


def test_a_query_that_begins_at_types_reads_what_it_walks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_queries_and_facts, "MAX_FRONTIER", 2)
    monkeypatch.setattr(write_overlay, "EDGES_JOINED_PER_REQUEST", 0)
    time_range = {"start": AS_OF - timedelta(days=2), "end": AS_OF}
    query = GraphQuery.model_validate(
        {
            "tenant_id": ACME,
            "as_of": AS_OF,
            "start": {"entity_types": ["Person", "Team"], "time_range": time_range},
            "steps": [{"direction": "out"}],
            "trusted_only": True,
        }
    )
    before = AS_OF - timedelta(days=1)
    people = [
        vertex("a1", entity_type="Person", timestamp=before, trusted=False),
        vertex("a2", entity_type="Person", timestamp=before, invalid_at=before),
        vertex("a3", entity_type="Person", timestamp=AS_OF),
        vertex("a4", entity_type="Person"),
        *(vertex(f"b{number}", entity_type="Person", timestamp=before) for number in range(4)),
    ]
    loaded = graphs_loaded(monkeypatch)
    with EmbeddedStore(tmp_path) as store:
        graph = EmbeddedKnowledgeGraph(store, max_loaded_first=0)
        ends = [vertex(f"v{place:02}", entity_type="Thing") for place in range(41)]
        edges = [edge(one.id, f"v{place:02}") for place, one in enumerate(people)]
        graph.upsert([*people, *ends], [*CHAIN, *edges])
        found = graph.query(query)
        assert [hit.path.ids for hit in found.hits] == [("b0", "v04"), ("b1", "v05")]
        assert found.truncated
        assert not loaded
        follows = EmbeddedKnowledgeGraph(store)
        assert follows.query(query) == found
        follows.upsert([people[4].altered(trusted=False)], [])
        loaded.clear()
        assert [hit.path.ids for hit in follows.query(query).hits] == [("b1", "v05"), ("b2", "v06")]
        assert not loaded


def graphs_loaded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets an item for each graph that is loaded whole from now on."""
    loaded: list[int] = []
    load = adjacency.load
    monkeypatch.setattr(adjacency, "load", lambda *given: loaded.append(given[-1]) or load(*given))
    return loaded


CHAIN = [edge(f"v{place:02}", f"v{place + 1:02}", "CAUSES") for place in range(40)]


def test_a_question_after_a_write_reads_what_it_walks_and_many_questions_read_the_graph_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ExpandRequest(tenant_id=ACME, seeds=("v00",), direction=Direction.OUT, max_hops=2, as_of=AS_OF)
    whole = graphs_loaded(monkeypatch)
    with EmbeddedStore(tmp_path) as store:
        graph = EmbeddedKnowledgeGraph(store, max_loaded_first=0)
        graph.upsert([vertex(f"v{place:02}") for place in range(41)], CHAIN)
        first = graph.expand(request)
        assert [hit.id for hit in first.hits] == ["v01", "v02"]
        assert not whole
        assert all(graph.expand(request) == first for _ in range(8))
        assert len(whole) == 1
        graph.upsert([], [edge("v00", "v09", "CAUSES")])
        assert "v09" in {hit.id for hit in graph.expand(request).hits}
        assert len(whole) == 1


@pytest.mark.parametrize(("largest", "loads"), [(len(CHAIN), 1), (len(CHAIN) - 1, 0)])
def test_many_questions_read_the_largest_graph_that_a_question_loads_and_none_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, largest: int, loads: int
) -> None:
    monkeypatch.setattr(tenant_graphs, "_LARGE", largest)
    request = ExpandRequest(tenant_id=ACME, seeds=("v00",), direction=Direction.OUT, max_hops=2, as_of=AS_OF)
    whole = graphs_loaded(monkeypatch)
    with EmbeddedStore(tmp_path) as store:
        graph = EmbeddedKnowledgeGraph(store, max_loaded_first=0)
        graph.upsert([vertex(f"v{place:02}") for place in range(41)], CHAIN)
        first = graph.expand(request)
        assert all(graph.expand(request) == first for _ in range(20))
        assert len(whole) == loads


def test_where_too_much_lies_around_the_seeds_the_whole_graph_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_around_seeds, "MAX_EDGES", 3)
    request = ExpandRequest(tenant_id=ACME, seeds=("v00",), direction=Direction.OUT, max_hops=3, as_of=AS_OF)
    with EmbeddedStore(tmp_path) as store:
        graph = EmbeddedKnowledgeGraph(store, max_loaded_first=0)
        graph.upsert([vertex(f"v{place:02}") for place in range(41)], CHAIN)
        assert [hit.id for hit in graph.expand(request).hits] == ["v01", "v02", "v03"]
