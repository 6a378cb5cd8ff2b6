"""Counts of the embedded graph that writes keep, and the log of what they changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from braid.engines.embedded import graph_change_log
from braid.engines.embedded.graph import adjacency, write_overlay
from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph
from braid.engines.embedded.store import EmbeddedStore
from braid.engines.embedded.write_generations import Generation
from braid.ports.knowledge_graph import ExpandRequest, PropagateRequest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.shapes import ACME, AS_OF, edge, to_format, vertex

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from braid.models import Relationship
    from braid.ports.knowledge_graph import GraphStats

WALK = ExpandRequest(tenant_id=ACME, seeds=("a",), max_hops=2, as_of=AS_OF)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    with EmbeddedStore(tmp_path) as store:
        yield store


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the write generations at which a whole graph was read."""
    whole: list[int] = []
    load = adjacency.load
    monkeypatch.setattr(adjacency, "load", lambda *given: whole.append(given[-1]) or load(*given))
    return whole


def counted(store: EmbeddedStore) -> GraphStats:
    with store.read_tenant(ACME) as (connection, tenant):
        assert tenant is not None
        return graph_change_log.count(connection, tenant)


def test_removed_mentions_are_counted_once_though_their_rows_go_later(store: EmbeddedStore) -> None:
    graph = EmbeddedKnowledgeGraph(store)
    found = [edge("name", text, "MENTIONS", position=3) for text in ("a", "b")]
    graph.upsert([vertex("name", has_record=False, found=True), vertex("a"), vertex("b")], found)
    for remove in (lambda: graph.remove_mentions(ACME, found[:1]), lambda: graph.finish_removals(ACME)):
        remove()
        stats = graph.stats(ACME)
        assert stats == counted(store)
        assert (stats.edges, stats.targets_by_relationship_type) == (1, {"MENTIONS": 1})
    graph.remove_mentions(ACME, found[1:])
    graph.finish_removals(ACME)
    assert graph.stats(ACME) == counted(store)
    assert graph.stats(ACME).vertices == 2


def test_counts_of_a_write_that_fails_are_those_of_before(store: EmbeddedStore) -> None:
    graph = EmbeddedKnowledgeGraph(store)
    graph.upsert([vertex("a"), vertex("b")], [edge("a", "b")])

    def fail() -> None:
        with store.transaction():
            graph.upsert([vertex("c")], [edge("b", "c")])
            assert graph.stats(ACME).vertices == 3
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert graph.stats(ACME) == counted(store)
    graph.upsert([vertex("d")], [])
    assert graph.stats(ACME) == counted(store)


def test_what_one_transaction_writes_twice_is_followed_whole(store: EmbeddedStore, reads: list[int]) -> None:
    graph = EmbeddedKnowledgeGraph(store)
    graph.upsert([vertex("a"), vertex("b")], [edge("a", "b")])
    graph.expand(WALK)
    with store.transaction():
        graph.upsert([vertex("c")], [edge("b", "c")])
        graph.upsert([vertex("d")], [edge("a", "d")])
    assert {hit.id for hit in graph.expand(WALK).hits} == {"b", "c", "d"}
    assert len(reads) == 1


def test_a_graph_is_read_again_when_a_write_changes_more_than_the_log_names(
    store: EmbeddedStore, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_change_log, "MAX_LOGGED", 2)
    graph = EmbeddedKnowledgeGraph(store)
    graph.upsert([vertex("a")], [])
    graph.expand(WALK)
    graph.upsert([vertex("b"), vertex("c")], [edge("a", "b")])
    assert [hit.id for hit in graph.expand(WALK).hits] == ["b"]
    assert len(reads) == 2


def test_a_graph_is_read_again_when_much_was_written_since(
    store: EmbeddedStore, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_overlay, "MAX_FOLLOWED", 4)
    monkeypatch.setattr(write_overlay, "EDGES_JOINED_PER_REQUEST", 0)
    graph = EmbeddedKnowledgeGraph(store)
    graph.upsert([vertex("a")], [])
    for name in "bcd":
        graph.expand(WALK)
        graph.upsert([vertex(name)], [edge("a", name)])
    assert {hit.id for hit in graph.expand(WALK).hits} == {"b", "c", "d"}
    assert len(reads) == 2


def known_at(graph: EmbeddedKnowledgeGraph) -> list[int]:
    """Return the write generations of the graphs that are in memory."""
    return [known.generation for known in graph._graphs._graphs.values()]


def test_a_graph_is_joined_with_its_changes_once_as_many_questions_follow_as_that_costs(
    store: EmbeddedStore, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_overlay, "EDGES_JOINED_PER_REQUEST", 1)
    graph = EmbeddedKnowledgeGraph(store)
    graph.upsert([vertex(name) for name in "abcd"], [edge("a", "b"), edge("b", "c")])
    graph.expand(WALK)
    begin = known_at(graph)
    graph.upsert([], [edge("a", "d")])
    found = [graph.expand(WALK)]
    assert known_at(graph) == begin
    found += [graph.expand(WALK), graph.expand(WALK)]
    assert known_at(graph) > begin
    assert found == [EmbeddedKnowledgeGraph(store).expand(WALK)] * 3
    graph.upsert([], [edge("c", "d")])
    assert {hit.id for hit in graph.expand(WALK).hits} == {"b", "c", "d"}
    assert len(reads) == 2  # the second by the graph that it is compared with


@pytest.mark.parametrize(("degree", "passed"), [(3, True), (4, False)])
def test_a_hub_is_none_until_a_later_write_gives_it_an_edge_too_many(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch, degree: int, *, passed: bool
) -> None:
    monkeypatch.setattr(write_overlay, "EDGES_JOINED_PER_REQUEST", 0)  # the overlay stays
    graph = EmbeddedKnowledgeGraph(store)
    spokes = [f"spoke{number}" for number in range(degree - 1)]
    graph.upsert([vertex(name, has_record=True) for name in ("a", "hub", *spokes)], [edge("a", "hub")])
    request = PropagateRequest(tenant_id=ACME, names=(("a", 1.0),), hub=3, max_hops=3, as_of=AS_OF)
    graph.propagate(request)
    graph.upsert([], [edge("hub", name, confidence=0.5) for name in spokes])
    found = graph.propagate(request)
    assert {hit.id for hit in found.hits} == {"a", "hub", *(spokes if passed else ())}
    assert found == EmbeddedKnowledgeGraph(store).propagate(request)


@pytest.mark.parametrize("later", [0.9, 0.5, 0.1])
def test_the_surest_edges_are_walked_whether_written_before_or_later(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch, later: float
) -> None:
    monkeypatch.setattr(write_overlay, "EDGES_JOINED_PER_REQUEST", 0)
    graph = EmbeddedKnowledgeGraph(store)
    sure = {"b": 0.8, "c": 0.5, "d": 0.2}
    graph.upsert([vertex(name) for name in "abcde"], [edge("a", end, confidence=sure[end]) for end in sure])
    walk = WALK.model_copy(update={"fan_out": 2})
    graph.expand(walk)
    graph.upsert([], [edge("a", "e", confidence=later)])
    assert graph.expand(walk) == EmbeddedKnowledgeGraph(store).expand(walk)


def parts(graph: adjacency.Adjacency) -> dict[str, list[object]]:
    """Return what each vertex and each edge of a graph has."""
    apart = {"generation", "numbers", "entity_types", "type_of", "relationship_types", "edge_types", "_neighbours"}
    values = {name: list(value) for name, value in vars(graph).items() if name not in apart and value is not None}
    values["entity types"] = [graph.entity_types[code] for code in graph.type_of]
    values["relationship types"] = [graph.relationship_types[code] for code in graph.edge_types]
    return values


NAMES = st.sampled_from("aBcdä")
EDGES = st.lists(
    st.builds(
        edge,
        NAMES,
        NAMES,
        st.sampled_from(["CAUSES", "MENTIONS"]),
        predicate=st.sampled_from([None, "p", "q"]),
        evidence=st.sampled_from([None, "a", "elsewhere"]),
        confidence=st.sampled_from([1.0, 0.5]),
    ),
    max_size=6,
)


@settings(max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=EDGES,
    writes=st.lists(st.tuples(EDGES, st.sets(NAMES, max_size=2)), min_size=1, max_size=3),
    renamed=st.dictionaries(NAMES, st.sampled_from([None, "A", "a"])),
)
def test_a_graph_joined_with_its_changes_equals_the_rows(
    tmp_path: Path,
    before: list[Relationship],
    writes: list[tuple[list[Relationship], set[str]]],
    renamed: dict[str, str | None],
) -> None:
    with EmbeddedStore(tmp_path / "joined") as store:
        graph = EmbeddedKnowledgeGraph(store)
        graph.delete(ACME, "aBcdä")
        graph.upsert([vertex(name) for name in "aBcdä"], before)
        with store.read_tenant(ACME) as (connection, tenant):
            assert tenant is not None
            read = adjacency.load(connection, tenant, Generation.GRAPH.read(connection, tenant))
        for edges, removed in writes:
            graph.delete(ACME, sorted(removed))
            ends = {end for one in edges for end in (one.source, one.target)} | {*renamed}
            graph.upsert([vertex(end, name=renamed.get(end, end)) for end in sorted(ends)], edges)
        with store.read_tenant(ACME) as (connection, tenant):
            assert tenant is not None
            generation = Generation.GRAPH.read(connection, tenant)
            since = graph_change_log.since(connection, tenant, read.generation)
            assert since is not None
            nothing = write_overlay.ChangedRows(read.generation, {}, {})
            changed = write_overlay.read_changed(connection, tenant, generation, since, nothing)
            joined = write_overlay.FollowedGraph(read, changed).joined()
            assert joined is not None
            assert joined.generation == generation
            assert parts(joined) == parts(adjacency.load(connection, tenant, generation))


@pytest.mark.parametrize("older", [12, 13])
def test_the_counts_of_an_older_store_are_taken_when_it_is_opened(tmp_path: Path, older: int) -> None:
    with EmbeddedStore(tmp_path) as store:
        EmbeddedKnowledgeGraph(store).upsert([vertex("a"), vertex("b", trusted=False)], [edge("a", "b")])
        with store.transaction() as connection:
            to_format(connection, older)
            if older == 13:  # which counted, but not what is trusted
                connection.execute("UPDATE graph_counts SET counts = json_remove(counts, '$.untrusted_by_entity_type')")
    with EmbeddedStore(tmp_path) as store:
        graph = EmbeddedKnowledgeGraph(store)
        assert graph.stats(ACME) == counted(store)
        assert graph.stats(ACME).untrusted_by_entity_type == {"Concept": 1}
        graph.upsert([vertex("c")], [edge("a", "c")])
        assert graph.stats(ACME).sources_by_relationship_type == {"CAUSES": 1}


def test_the_log_keeps_the_last_generations(store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_change_log, "GENERATIONS_KEPT", 2)
    graph = EmbeddedKnowledgeGraph(store)
    for name in "abcd":
        graph.upsert([vertex(name)], [])
    with store.read_tenant(ACME) as (connection, tenant):
        assert tenant is not None
        now = Generation.GRAPH.read(connection, tenant)
        assert graph_change_log.since(connection, tenant, now - 3) is None
        assert graph_change_log.since(connection, tenant, now - 2) == graph_change_log.Changes(
            frozenset("cd"), frozenset()
        )
        kept = [generation for (generation,) in connection.execute("SELECT generation FROM graph_changes ORDER BY 1")]
        assert kept == [-now, 1 - now, now - 1, now]  # each with its stamp


def test_a_process_follows_the_writes_of_another(store: EmbeddedStore, reads: list[int], tmp_path: Path) -> None:
    graph = EmbeddedKnowledgeGraph(store)
    graph.upsert([vertex("a")], [])
    graph.expand(WALK)
    with EmbeddedStore(tmp_path) as other:
        EmbeddedKnowledgeGraph(other).upsert([vertex("b")], [edge("a", "b")])
    assert [hit.id for hit in graph.expand(WALK).hits] == ["b"]
    assert len(reads) == 1
    assert graph.stats(ACME).edges == 1
