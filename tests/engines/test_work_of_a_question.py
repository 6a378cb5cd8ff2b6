"""What a question reads of the deployed stores does not grow with the tenant, and the counts it reads are right."""

from __future__ import annotations

import itertools
import json
import random
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from braid.engines.neptune.connection import GremlinConnection
from braid.engines.neptune.knowledge_graph import GremlinGraph
from braid.engines.opensearch.search_index import OpenSearchIndex
from braid.errors import StoreError
from braid.ports.keys import encode
from braid.ports.search_index import SearchRequest
from braid.understanding.graph_constraint_cost import MAX_COUNTED
from gremlin_python.driver.client import Client
from gremlin_python.driver.serializer import GraphBinarySerializersV1

from tests.contract.shapes import ACME, AS_OF, AXIS, DIMENSIONS, GLOBEX, edge, embedding, record, vertex
from tests.graph_questions import CORE, SIZES, TIED, TYPES, questions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from braid.engines.aws.dynamodb_graph_counts import DynamoCounts
    from braid.models import Relationship
    from braid.settings import Settings
    from opensearchpy import OpenSearch

SMALL, LARGE = 100, 2_000
"""Records of a tenant."""


@pytest.fixture
def connection(gremlin_endpoint: str) -> Iterator[GremlinConnection]:
    made = GremlinConnection(gremlin_endpoint)
    made.submit(lambda g: g.V().drop())
    yield made
    made.submit(lambda g: g.V().drop())
    made.close()


@pytest.fixture
def graph(connection: GremlinConnection, counts: DynamoCounts) -> GremlinGraph:
    return GremlinGraph(connection, counts=counts)


def passed(metrics: Mapping[str, Any]) -> int:
    """Return how many elements passed a step and the steps in it, of a profile."""
    own = int(metrics["counts"].get("traverserCount", 0))
    return own + sum(passed(nested) for nested in metrics["metrics"])


def work(graph: GremlinGraph, ask: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Return how many traversals answer a question, and how many elements pass through all their steps."""
    submit = graph._connection.submit
    profiles: list[Mapping[str, Any]] = []

    def profiled(build: Any, **within: Any) -> list[Any]:
        profiles.extend(submit(lambda g: build(g).profile()))
        return submit(build, **within)

    with monkeypatch.context() as patch:
        patch.setattr(graph._connection, "submit", profiled)
        ask()
    return len(profiles), sum(passed(each) for profile in profiles for each in profile["metrics"])


COPY = """
def read = { it.properties().toList().collect { [it.key(), it.value()] } }
def renamed = { text, number ->
  text.replace('thispattern', 'other' + number).replace('nextpattern', 'other' + (number + 1)) }
def copied = { stored, number ->
  stored.collectMany { name, value -> [name, value instanceof String ? renamed(value, number) : value] }.toArray() }
def pattern = g.V(tenant + '|thispattern').next(), tie = pattern.edges(Direction.OUT).next()
def ofVertex = read(pattern) + [[T.id, pattern.id()], [T.label, pattern.label()]], ofEdge = read(tie)
def last = g.V(renamed(pattern.id(), begin - 1)).tryNext().orElse(null)
for (number in begin..end - 1) {
  def added = graph.addVertex(copied(ofVertex, number))
  if (last) last.addEdge(tie.label(), added, *copied(ofEdge + [[T.id, tie.id() + number]], number - 1))
  last = added
}
"""
"""Groovy that copies a vertex and its edge, with all that is stored of them, as a chain of others: two writes of these
would take the server a minute for each ten thousand, and this takes a second."""


def fill(endpoint: str, start: int, end: int) -> None:
    """Add vertices that hang together, and on nothing that is asked about."""
    with closing(Client(endpoint, "g", message_serializer=GraphBinarySerializersV1())) as client:
        for begin in range(start, end, 20_000):
            names = {"tenant": ACME, "begin": begin, "end": min(begin + 20_000, end)}
            client.submit(COPY, names).all().result(timeout=60)


def test_a_question_reads_no_more_of_a_large_graph_than_of_a_small_one(
    connection: GremlinConnection, graph: GremlinGraph, gremlin_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern = [vertex(name, name=name) for name in ("thispattern", "nextpattern")]
    graph.upsert([*CORE, *pattern], [*TIED, edge("thispattern", "nextpattern")])
    worked = {}
    for before, size in itertools.pairwise((0, *SIZES)):
        fill(gremlin_endpoint, before, size)
        worked[size] = {name: work(graph, ask, monkeypatch) for name, ask in questions(graph).items()}
        if not before:
            assert work(graph, lambda: graph.recount(ACME), monkeypatch)[1] > size, "this measure sees a scan"
            (last,) = graph.scan(ACME, after=encode(ACME, f"other{size - 2}"), limit=1).vertices
            assert last == vertex(f"other{size - 1}", name=f"other{size - 1}"), "copied as it is written"
    least, *others = worked.values()
    assert others == [least] * len(others)
    assert connection.submit(lambda g: g.V().count()) == [SIZES[-1] + len(CORE) + len(pattern)]
    assert least["stats"] == (0, 0), "by one key of another store"
    assert {name: traversals for name, (traversals, _) in least.items()} == {
        "stats": 0,
        "link": 1,
        "expand": 3,  # one a hop
        "expand along types": 1,  # nothing lies behind the first
        "propagate": 3,
        "query": 1,
    }
    assert all(elements > 0 for name, (_, elements) in least.items() if name != "stats")


def test_a_graph_of_which_no_counts_are_stored_is_not_counted_by_a_question(
    connection: GremlinConnection, graph: GremlinGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    GremlinGraph(connection).upsert([vertex(f"v{number}") for number in range(40)], [])

    def refused() -> None:
        with pytest.raises(StoreError, match=r"'acme' are not stored; `braid repair`"):
            graph.stats(ACME)

    traversals, elements = work(graph, refused, monkeypatch)
    assert traversals == 1
    assert elements < 10
    assert graph.recount(ACME, dry_run=True)
    refused()
    assert graph.recount(ACME)
    assert graph.stats(ACME).vertices == 40


def test_a_first_write_beside_a_graph_that_was_never_counted_counts_it(
    connection: GremlinConnection, graph: GremlinGraph
) -> None:
    GremlinGraph(connection).upsert([vertex("a"), vertex("b")], [edge("a", "b")])
    graph.upsert([vertex("c")], [edge("c", "a", "OWNS")])
    assert (graph.stats(ACME).vertices, graph.stats(ACME).by_relationship_type) == (3, {"CAUSES": 1, "OWNS": 1})


def test_the_counts_stay_right_whatever_is_written_again_or_removed(graph: GremlinGraph) -> None:
    generator = random.Random(4)  # noqa: S311 - for a test
    names = [f"v{number}" for number in range(25)]

    def some_edges(number: int) -> list[Relationship]:
        return [edge(*generator.sample(names, 2), generator.choice(TYPES)) for _ in range(number)]

    graph.upsert([vertex("a", tenant_id=GLOBEX)], [])
    for _ in range(12):
        kinds = {"entity_type": generator.choice(("Event", "Person")), "found": generator.random() < 0.5}
        graph.upsert([vertex(name, has_record=generator.random() < 0.7, **kinds) for name in names], some_edges(20))
        graph.upsert([], some_edges(10))
        graph.delete_relationships(ACME, some_edges(20))
        graph.delete_relationships_of(ACME, generator.sample(names, 3))
        graph.delete_unmentioned(ACME, generator.sample(names, 10))
        graph.delete(ACME, generator.sample(names, 6))
        assert not graph.recount(ACME), "counting everything again finds what was kept"
    assert graph.stats(ACME).edges > 0
    assert graph.stats(GLOBEX).vertices == 1


def test_counts_that_are_wrong_are_found_and_mended(graph: GremlinGraph, counts: DynamoCounts) -> None:
    graph.upsert([vertex("a"), vertex("b")], [edge("a", "b")])
    right = graph.stats(ACME)
    counts.add(ACME, {"edges/CAUSES": 7, "edges/GONE": 3})
    assert graph.stats(ACME).edges == 11
    assert graph.recount(ACME, dry_run=True)
    assert graph.stats(ACME) != right
    assert graph.recount(ACME)
    assert graph.stats(ACME) == right
    assert not graph.recount(ACME)


def test_a_question_asks_the_index_for_no_count_or_page_that_grows_with_the_tenant(
    client: OpenSearch, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = settings.model_copy(update={"opensearch_timeout_s": 30.0})
    index = OpenSearchIndex(client, patient, DIMENSIONS)
    index.create()
    sent: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = []
    msearch = client.msearch

    def watched(body: str, **more: Any) -> Any:
        answer = msearch(body=body, **more)
        sent.extend(zip(map(json.loads, body.splitlines()[1::2]), answer["responses"], strict=True))
        return answer

    monkeypatch.setattr(client, "msearch", watched)
    asked = SearchRequest(tenant_id=ACME, text="heron turbine", embedding=embedding(AXIS), k=20, as_of=AS_OF)

    def ask() -> tuple[int, int]:
        sent.clear()
        index.search(asked)
        index.search(asked.model_copy(update={"newest_first": True, "embedding": None}))
        index.get_many(ACME, [f"r{number}" for number in range(10)])
        index.count(ACME, at_most=MAX_COUNTED)
        return len(sent), sum(len(answer["hits"]["hits"]) for _, answer in sent)

    index.upsert([record(f"r{number}", "heron turbine", cosine=number / SMALL) for number in range(SMALL)])
    small = ask()
    index.upsert([record(f"s{number}", "crane mast", cosine=-0.5) for number in range(LARGE)])
    assert ask() == small
    assert small[0] >= 8
    for body, _ in sent:
        assert "aggs" not in body
        assert body["size"] <= asked.k
        assert body["track_total_hits"] is False or body["terminate_after"] == body["track_total_hits"] <= MAX_COUNTED
