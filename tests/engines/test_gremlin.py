"""The knowledge graph contract on a real Gremlin Server, and what only several connections show."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from braid.engines.neptune import element_layout, graph_query, knowledge_graph
from braid.engines.neptune.connection import GremlinConnection
from braid.engines.neptune.knowledge_graph import GremlinGraph
from braid.errors import InvalidRequest
from braid.models import Direction
from braid.ports.graph_query import QueryStep
from braid.settings import Settings

from tests.contract.graph_query import GraphQueryContract, query
from tests.contract.knowledge_graph import KnowledgeGraphContract, walk
from tests.contract.propagation import PropagationContract
from tests.contract.shapes import ACME, day, edge, vertex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from braid.engines.aws.dynamodb_graph_counts import DynamoCounts
    from braid.models import Relationship


@pytest.fixture(scope="module")
def connected(gremlin_endpoint: str) -> Iterator[GremlinGraph]:
    graph = GremlinGraph.connect(Settings(neptune_endpoint=gremlin_endpoint))
    yield graph
    graph.close()


@pytest.fixture
def graph(connected: GremlinGraph, counts: DynamoCounts) -> GremlinGraph:
    connected._connection.submit(lambda g: g.V().drop())
    return GremlinGraph(connected._connection, counts=counts)


class TestGremlinGraph(KnowledgeGraphContract, GraphQueryContract, PropagationContract):
    pass


def test_writers_on_connections_of_their_own_write_the_same_once(graph: GremlinGraph, gremlin_endpoint: str) -> None:
    def write(writer: int) -> None:
        own = GremlinGraph.connect(Settings(neptune_endpoint=gremlin_endpoint))
        try:
            for batch in range(5):
                names = [f"b{batch}v{number}" for number in range(4)]
                graph_edges = [edge("hub", name, confidence=writer / 10) for name in names]
                own.upsert([vertex(name) for name in ("hub", *names)], graph_edges)
        finally:
            own.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    graph.recount(ACME)
    assert (graph.stats(ACME).vertices, graph.stats(ACME).edges) == (21, 20)
    assert len(walk(graph, "hub", limit=200).hits) == 20


def test_a_write_of_more_than_one_batch_is_whole(graph: GremlinGraph) -> None:
    names = [f"v{number:04}" for number in range(450)]
    graph.upsert([vertex("hub"), *(vertex(name) for name in names)], [edge("hub", name) for name in names])
    assert (graph.stats(ACME).vertices, graph.stats(ACME).edges) == (451, 450)


def test_an_end_that_another_write_removes_before_its_edge_is_written_is_named(
    graph: GremlinGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.upsert([vertex("a"), vertex("b")], [])
    write_edges = element_layout.write_edges

    def late(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(element_layout, "write_edges", write_edges)
        graph.delete(ACME, ["b"])
        return write_edges(*given, **named)

    monkeypatch.setattr(element_layout, "write_edges", late)
    with pytest.raises(InvalidRequest, match="there is no vertex 'b'"):
        graph.upsert([], [edge("a", "b")])
    assert graph.stats(ACME).edges == 0


def test_a_vertex_of_any_number_of_edges_is_listed_and_removed_a_part_at_a_time(
    graph: GremlinGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(element_layout, "EDGES_AT_ONCE", 10)
    monkeypatch.setattr(knowledge_graph, "PAGE_EDGES", 10, raising=False)
    names = [f"v{number:02}" for number in range(25)]
    vertices = [vertex("a-hub"), vertex("b-hub"), *map(vertex, names)]
    out, into = [edge("a-hub", name) for name in names], [edge(name, "b-hub", evidence="said") for name in names]
    graph.upsert(vertices, [*out, *into])
    submit, longest = graph._connection.submit, [0]

    def measured(build: Any, **within: Any) -> list[Any]:
        found = submit(build, **within)
        longest.append(len(found))
        return found

    monkeypatch.setattr(graph._connection, "submit", measured)
    page = graph.scan(ACME, limit=1)
    assert ([one.id for one in page.vertices], len(page.relationships)) == (["a-hub"], 25)
    assert graph.delete_relationships_of(ACME, ["said"]) == 25
    assert graph.delete(ACME, ["a-hub"]) == 1
    assert max(longest) == 11, "the ends of ten edges"
    assert (graph.stats(ACME).vertices, graph.stats(ACME).edges) == (26, 0)


def test_a_loop_is_one_edge_of_the_budget(graph: GremlinGraph) -> None:
    graph.upsert([vertex("hub"), vertex("a"), vertex("b")], [edge("hub", "hub"), edge("hub", "a"), edge("b", "hub")])
    assert not walk(graph, "hub", fan_out=3).truncated
    assert walk(graph, "hub", fan_out=2).truncated


@pytest.mark.parametrize("direction", list(Direction))
def test_of_a_hub_a_query_says_that_edges_are_left_out_and_what_is_not_trusted_is_no_part_of_it(
    graph: GremlinGraph, monkeypatch: pytest.MonkeyPatch, direction: Direction
) -> None:
    monkeypatch.setattr(graph_query, "HUB_EDGES", 5)

    def edges(names: list[str]) -> list[Relationship]:
        pairs = [(name, "a") if direction is Direction.IN else ("a", name) for name in names]
        return [edge(one, other) for one, other in pairs]

    mails, others = [f"mail{n}" for n in range(20)], [f"other{n}" for n in range(20)]
    graph.upsert([vertex("a"), vertex("b"), *(vertex(name, trusted=False) for name in mails)], edges([*mails, "b"]))
    asked: dict[str, Any] = {"steps": (QueryStep(direction=direction),), "limit": 50}
    found = query(graph, "a", **asked, trusted_only=True)
    assert ([hit.id for hit in found.hits], found.truncated) == (["b"], False)
    graph.upsert([vertex(name, invalid_at=day(1)) for name in others], edges(others))
    for trusted_only in (True, False):  # edges to what no longer holds are read like the others, and some are not
        assert query(graph, "a", **asked, trusted_only=trusted_only).truncated


def test_a_walk_or_a_query_is_one_round_trip_a_hop_whatever_the_number_of_seeds(graph: GremlinGraph) -> None:
    names = [f"v{number}" for number in range(30)]
    graph.upsert([vertex(name) for name in names], [edge(a, b) for a, b in itertools.pairwise(names)])
    sent: list[object] = []
    submit = graph._connection.submit

    def counted(build: Any, **within: Any) -> list[Any]:
        sent.append(build)
        return submit(build, **within)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph._connection, "submit", counted)
        assert len(walk(graph, *names[::3], max_hops=3, limit=200).hits) == 20
        assert len(query(graph, *names[::3], steps=(QueryStep(),) * 5, limit=200).hits) == 9
    assert len(sent) == 3 + 5


class Killed(BaseException):
    """The process ended."""


@pytest.mark.parametrize("change", [GremlinGraph.delete_relationships_of, GremlinGraph.distrust_relationships])
def test_what_a_change_that_was_killed_and_repeated_leaves_to_strangers_is_trusted_no_more(
    graph: GremlinGraph, monkeypatch: pytest.MonkeyPatch, change: Callable[[GremlinGraph, str, list[str]], int]
) -> None:
    """A stub and a name to which only a stranger's edges lead, once those of a trusted text are gone."""
    vertices = [vertex("text"), vertex("mail"), vertex("stub", has_record=False), vertex("found:x", found=True)]
    edges = [
        edge(source, target, kind, position=position, trusted=text == "text", evidence=text)
        for text in ("text", "mail")
        for source, target, kind, position in ((text, "stub", "CAUSES", None), ("found:x", text, "MENTIONS", 0))
    ]
    submit = GremlinConnection.submit

    def after(last: int) -> bool:
        """Change what is stored anew, but end after so many requests; return whether there were more."""
        requests = itertools.count(1)

        def send(*given: Any, **named: Any) -> list[Any]:
            answer = submit(*given, **named)
            if next(requests) == last:
                raise Killed
            return answer

        graph._connection.submit(lambda g: g.V().drop())
        graph.upsert(vertices, edges)
        with monkeypatch.context() as patch, suppress(Killed):
            patch.setattr(GremlinConnection, "submit", send)
            change(graph, ACME, ["text"])
            return False
        change(graph, ACME, ["text"])
        return True

    for last in itertools.count(1):
        more = after(last)
        trusted = {one.id for one in graph.scan(ACME).vertices if one.trusted}
        assert trusted == {"text", "mail"}, f"killed after {last}"
        if not more:
            break
    assert last > 3
