"""The deployed engines answer as the embedded ones do: same ids, same order, same paths, same marks."""

from __future__ import annotations

import random
import uuid
from itertools import product
from typing import TYPE_CHECKING

import pytest
from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.engines.embedded.store import EmbeddedStore
from braid.engines.neptune.knowledge_graph import GremlinGraph
from braid.engines.opensearch.search_index import OpenSearchIndex
from braid.ingestion.deleting import delete_records
from braid.ingestion.entities_found_in_texts import found_id
from braid.ingestion.tenant_deletion import delete_tenant
from braid.ingestion.writing import WriteRequest, write
from braid.models import Direction, Embedding, Filters, GraphSource, Intent, Query, SourceRef, TimeRange
from braid.ports.graph_query import GraphQuery, QueryOrder, QueryReturn, QueryStart, QueryStep
from braid.ports.knowledge_graph import ExpandRequest, PropagateRequest
from braid.ports.search_index import SearchRequest
from braid.retrieval.stages.fact_lookup import find_facts
from braid.retrieval.stages.name_linking import linked_names
from braid.settings import EngineKind, Refresh, Settings
from braid.understanding.fact_questions import read_fact_question

from braid_cli.datasets.dataset import read_dataset
from tests.contract.shapes import (
    ACME,
    AS_OF,
    DIMENSIONS,
    GLOBEX,
    WIDE_SPACE,
    day,
    edge,
    embedding,
    random_vector,
    record,
    vertex,
)
from tests.deployed_stages import DeployedStages
from tests.stages import DEMO, DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def seeded(number: int) -> random.Random:
    return random.Random(number)  # noqa: S311 - data that is the same in every run


TYPES = ("CAUSES", "ENABLES", "BEFORE", "OWNS")
NAMES = tuple(
    f"{first} {begin}{end}"
    for first in ("Arda", "Bole", "Cimo", "Dova")
    for begin, end in product(("Ven", "Mor", "Tas", "Ruh"), ("dal", "nick", "gar", "pel"))
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedStore]:
    home: Path = tmp_path_factory.mktemp("home")
    made = EmbeddedStore(home)
    yield made
    made.close()


@pytest.fixture(scope="module")
def graphs(store: EmbeddedStore, gremlin_endpoint: str) -> Iterator[tuple[EmbeddedKnowledgeGraph, GremlinGraph]]:
    """Yield both graphs with the same 300 vertices and 1,500 edges: hubs, loops, parallels, ties, validity."""
    generator = seeded(20250602)
    names = [f"n{number:03}" for number in range(300)]
    moments = [None, None, None, day(5), day(25)]
    vertices = [
        vertex(
            name,
            entity_type=generator.choice(("Event", "Person")),
            has_record=generator.random() < 0.8,
            name=f"Name {generator.randrange(250)}",
            aliases=tuple(f"Alias {generator.randrange(250)}" for _ in range(generator.randrange(3))),
            timestamp=generator.choice((None, day(generator.randrange(1, 28)))),
            invalid_at=generator.choice((None, None, None, None, None, None, day(20), AS_OF)),
        )
        for name in names
    ]
    edges = [
        edge(
            # The smaller, the more often: the first few are hubs.
            names[int(300 * generator.random() ** 3)],
            generator.choice(names),
            generator.choice(TYPES),
            confidence=generator.choice((0.0, 0.25, 0.5, 0.7, 0.9, 1.0)),
            valid_at=generator.choice(moments),
            predicate=generator.choice((None, None, "because")),
            evidence=generator.choice((None, "report", f"chunk {number}")),
        )
        for number in range(1_500)
    ]
    embedded = EmbeddedKnowledgeGraph(store)
    deployed = GremlinGraph.connect(Settings(neptune_endpoint=gremlin_endpoint))
    deployed._connection.submit(lambda g: g.V().drop())
    for each in (embedded, deployed):
        each.upsert(vertices, edges)
    yield embedded, deployed
    deployed.close()


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("by_confidence", [True, False])
def test_every_walk_is_the_same(
    graphs: tuple[EmbeddedKnowledgeGraph, GremlinGraph], direction: Direction, by_confidence: bool
) -> None:
    embedded, deployed = graphs
    generator = seeded(7)
    reached = 0
    for max_hops, types, fan_out, by_time in product((1, 2, 3), ((), TYPES[:2]), (3, 10, 200), (False, True)):
        request = ExpandRequest(
            tenant_id=ACME,
            seeds=tuple(f"n{generator.randrange(320):03}" for _ in range(5)),
            types=types,
            direction=direction,
            max_hops=max_hops,
            by_confidence=by_confidence,
            by_time=by_time,
            fan_out=fan_out,
            limit=generator.choice((10, 200)),
            records_only=generator.random() < 0.5,
            entity_types=generator.choice(((), ("Event",))),
            time_range=generator.choice((None, None, TimeRange(start=day(3), end=day(20)))),
            as_of=generator.choice((AS_OF, day(10))),
        )
        expected = embedded.expand(request)
        assert deployed.expand(request) == expected, request
        reached += len(expected.hits)
    assert reached > 200


def test_every_query_is_the_same(graphs: tuple[EmbeddedKnowledgeGraph, GremlinGraph]) -> None:
    embedded, deployed = graphs
    generator = seeded(17)
    hits = truncated = 0
    for number in range(120):
        starts = (
            QueryStart(ids=tuple(f"n{generator.randrange(320):03}" for _ in range(4))),
            QueryStart(names=tuple(f"{kind} {generator.randrange(250)}" for kind in ("Name", "alias", "NAME"))),
            QueryStart(entity_types=("Event",), time_range=TimeRange(start=day(10), end=day(14))),
        )
        steps = tuple(
            QueryStep(
                direction=generator.choice(list(Direction)),
                types=generator.choice(((), TYPES[:2], TYPES[2:])),
                min_confidence=generator.choice((0.0, 0.0, 0.5)),
                entity_types=generator.choice(((), (), ("Person",))),
                time_range=generator.choice((None, None, None, TimeRange(), TimeRange(start=day(3), end=day(20)))),
                name=generator.choice((None,) * 9 + (f"name {generator.randrange(250)}",)),
            )
            for _ in range(number % 4)
        )
        query = GraphQuery(
            tenant_id=ACME,
            start=generator.choice(starts),
            steps=steps,
            returns=generator.choice(list(QueryReturn)),
            order_by=generator.choice(list(QueryOrder)),
            descending=generator.choice((None, True, False)),
            limit=generator.choice((5, 200)),
            as_of=generator.choice((AS_OF, day(10))),
            fan_out=generator.choice((2, 5, 50)),
        )
        expected = embedded.query(query)
        assert deployed.query(query) == expected, query
        hits += len(expected.hits)
        truncated += expected.truncated
    assert hits > 500
    assert 10 < truncated < 110


def test_every_link_is_the_same(graphs: tuple[EmbeddedKnowledgeGraph, GremlinGraph]) -> None:
    embedded, deployed = graphs
    names = [f"{kind} {number}" for kind in ("name", "alias") for number in range(0, 250, 3)]
    expected = embedded.link(ACME, names, as_of=day(21), limit=200)
    assert len(expected) > 50
    assert deployed.link(ACME, names, as_of=day(21), limit=200) == expected


def test_the_stored_counts_are_the_same(graphs: tuple[EmbeddedKnowledgeGraph, GremlinGraph]) -> None:
    embedded, deployed = graphs
    assert deployed.stats(ACME) == embedded.stats(ACME)


@pytest.fixture
def pages(tmp_path: Path, opensearch_endpoint: str, gremlin_endpoint: str) -> Iterator[tuple[DemoStages, DemoStages]]:
    """Yield both pairs of stores with the same 60 pages, which mention one another and what has no page."""
    generator = seeded(20250604)
    records = [
        record(
            f"page-{number:02}",
            "It was late when we asked {} about {}; in that week {} wrote a long note of the Keelson Project.".format(
                *generator.choices(NAMES, k=3)
            ),
            tenant_id=GLOBEX,
            source=SourceRef(title=name),
            trusted=number % 9 > 0,
        )
        for number, name in enumerate(NAMES[:60])
    ]
    embedded = DemoStages(Settings(home=tmp_path, graph=GraphSource.BOTH))
    deployed = DeployedStages(
        Settings(
            home=tmp_path,
            graph=GraphSource.BOTH,
            engine=EngineKind.AWS,
            opensearch_endpoint=opensearch_endpoint,
            opensearch_index=f"test-{uuid.uuid4().hex}",
            opensearch_refresh=Refresh.NOW,
            neptune_endpoint=gremlin_endpoint,
        )
    )
    assert isinstance(deployed.index, OpenSearchIndex)
    assert isinstance(deployed.graph, GremlinGraph)
    deployed.index.create()
    given = vertex("keelson", name="Keelson Project", has_record=False, tenant_id=GLOBEX)
    for each in (embedded, deployed):
        write(WriteRequest(tenant_id=GLOBEX, records=tuple(records)), each)
        write(WriteRequest(tenant_id=GLOBEX, vertices=(given,)), each)
        delete_records(GLOBEX, [f"page-{number:02}" for number in range(55, 60)], each)
    yield embedded, deployed
    delete_tenant(GLOBEX, deployed)
    deployed.index._client.indices.delete(index=f"{deployed.settings.opensearch_index}-*")
    deployed.close()
    embedded.close()


def test_a_graph_that_is_found_in_texts_is_the_same_and_ranks_the_same(
    pages: tuple[DemoStages, DemoStages],
) -> None:
    embedded, deployed = (stages.graph for stages in pages)
    expected = embedded.scan(GLOBEX)
    assert deployed.scan(GLOBEX) == expected
    assert len(expected.relationships) > 200
    assert sum(one.found for one in expected.vertices) > 50
    generator = seeded(23)
    weights: set[float] = set()
    for number in range(40):
        request = PropagateRequest(
            tenant_id=GLOBEX,
            names=((found_id(generator.choice(NAMES).lower()), 3.0 if number % 2 else 0.4),) if number % 5 else (),
            hits=tuple((f"page-{generator.randrange(60):02}", 0.9 - place / 10) for place in range(4)),
            fan_out=generator.choice((2, 200)),
            as_of=AS_OF,
            trusted_only=generator.random() < 0.5,
        )
        walked = embedded.propagate(request)
        assert deployed.propagate(request) == walked, request
        weights.add(walked.propagation_weight)
    assert len(weights) > 3


@pytest.fixture(scope="module")
def indexes(store: EmbeddedStore, opensearch_endpoint: str) -> Iterator[tuple[EmbeddedSearchIndex, OpenSearchIndex]]:
    """Yield both indexes with the same 600 records."""
    generator = seeded(20250603)
    words = [f"word{number}" for number in range(80)]
    records = [
        record(
            f"r{number:03}",
            " ".join(generator.choices(words, k=12)),
            embeddings=(embedding(random_vector(generator, 16), WIDE_SPACE),),
            entity_type=generator.choice((None, "Event", "Person")),
            timestamp=generator.choice((None, day(generator.randrange(1, 28)))),
            invalid_at=generator.choice((None, None, None, day(10))),
            schema_version=generator.randrange(1, 4),
        )
        for number in range(600)
    ]
    embedded = EmbeddedSearchIndex(store, DIMENSIONS)
    settings = Settings(
        opensearch_endpoint=opensearch_endpoint,
        opensearch_index=f"test-{uuid.uuid4().hex}",
        opensearch_refresh=Refresh.NOW,
    )
    deployed = OpenSearchIndex.connect(settings, DIMENSIONS)
    for each in (embedded, deployed):
        each.upsert(records)
    yield embedded, deployed
    deployed._client.indices.delete(index=f"{settings.opensearch_index}-*")
    deployed.close()


def test_vector_search_finds_the_same(indexes: tuple[EmbeddedSearchIndex, OpenSearchIndex]) -> None:
    embedded, deployed = indexes
    generator = seeded(11)
    shared = asked = 0
    for number in range(30):
        request = SearchRequest(
            tenant_id=ACME,
            embedding=Embedding(space=WIDE_SPACE, model_id="m", vector=random_vector(generator, 16)),
            k=20,
            filters=Filters(entity_types=("Event",)) if number % 2 else Filters(),
            min_schema_version=1 + number % 3,
            as_of=AS_OF,
        )
        expected, found = embedded.search(request), deployed.search(request)
        assert found.superseded == pytest.approx(expected.superseded, abs=1)
        assert [hit.score for hit in found.vector] == pytest.approx([hit.score for hit in expected.vector], abs=0.02)
        shared += len({hit.id for hit in expected.vector} & {hit.id for hit in found.vector})
        asked += len(expected.vector)
    assert shared / asked >= 0.95


def test_word_search_finds_the_same(indexes: tuple[EmbeddedSearchIndex, OpenSearchIndex]) -> None:
    embedded, deployed = indexes
    generator = seeded(13)
    shared = asked = 0
    for _ in range(30):
        text = " ".join(f"word{generator.randrange(80)}" for _ in range(3))
        request = SearchRequest(tenant_id=ACME, text=f"What about the {text}?", k=20, as_of=AS_OF)
        expected, found = embedded.search(request), deployed.search(request)
        shared += len({hit.id for hit in expected.lexical} & {hit.id for hit in found.lexical})
        asked += len(expected.lexical)
        assert [hit.score for hit in found.lexical] == pytest.approx([hit.score for hit in expected.lexical], rel=0.1)
    assert shared / asked >= 0.95


def test_the_stored_counts_of_records_are_the_same(indexes: tuple[EmbeddedSearchIndex, OpenSearchIndex]) -> None:
    embedded, deployed = indexes
    assert deployed.stats(ACME) == embedded.stats(ACME)


FACTS = (
    "Who owns Keelson?",
    "How many services depend on Keelson?",
    "Who owns what calls Bilge?",
    "Which services do not depend on Keelson?",
    "How many services are there?",
    "Which services have no dependents?",
    "Which people work on nothing?",
    "Who supplies Beacon with text messages?",
    "Which services depend on both Keelson and Foretop?",
    "Which services depend on Foretop but not on Keelson?",
    "Which services owned by the Platform team depend on Foretop?",
)


def test_facts_are_the_same(store: EmbeddedStore, gremlin_endpoint: str) -> None:
    dataset = read_dataset(DEMO / "saltmarrow", f"facts-{uuid.uuid4().hex[:8]}")
    embedded = EmbeddedKnowledgeGraph(store)
    gremlin = GremlinGraph.connect(Settings(neptune_endpoint=gremlin_endpoint))
    tenant_id, asked = dataset.tenant_id, 0
    try:
        for graph in (embedded, gremlin):
            graph.upsert(dataset.vertices, dataset.relationships)
        for text in FACTS:
            query = Query(text=text, tenant_id=tenant_id)
            question, _ = read_fact_question(text, embedded.stats(tenant_id), Intent.LOOKUP)
            found = [
                find_facts(graph, query, question, linked_names(graph, tenant_id, text, as_of=AS_OF), as_of=AS_OF)
                for graph in (embedded, gremlin)
            ]
            assert found[0] == found[1], text
            asked += bool(found[0])
        assert asked == len(FACTS)
    finally:
        gremlin.delete(tenant_id, [one.id for one in dataset.vertices])
        gremlin.close()
