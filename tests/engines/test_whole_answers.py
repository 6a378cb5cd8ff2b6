"""Whole questions on the demo corpus: the deployed engines give the embedded ones' answers."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest
from braid.app import Application
from braid.engines.neptune.knowledge_graph import GremlinGraph
from braid.engines.opensearch.search_index import OpenSearchIndex
from braid.models import Direction, Hints, Query, Strategy
from braid.ports.knowledge_graph import ExpandRequest
from braid.retrieval.pipeline import answer
from braid.settings import EngineKind, Refresh, Settings
from braid.understanding.question_phrases import phrases
from moto import mock_aws

from braid_cli.datasets.dataset import Dataset, read_dataset
from braid_cli.datasets.ingest import ingest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from braid.models import Answer

DEMO = Path(__file__).resolve().parents[2] / "braid_cli" / "demo" / "saltmarrow"
TENANT = "demo"
NOW = datetime(2025, 6, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return read_dataset(DEMO, TENANT, judged=True)


@pytest.fixture(scope="module")
def both(
    dataset: Dataset, tmp_path_factory: pytest.TempPathFactory, opensearch_endpoint: str, gremlin_endpoint: str
) -> Iterator[tuple[Application, Application]]:
    home = tmp_path_factory.mktemp("home")
    embedded = Application(Settings(home=home))
    deployed = Application(
        Settings(
            home=home,
            engine=EngineKind.AWS,
            opensearch_endpoint=opensearch_endpoint,
            opensearch_index=f"test-{uuid.uuid4().hex}",
            opensearch_refresh=Refresh.NOW,
            neptune_endpoint=gremlin_endpoint,
            schema_table="schemas",
        )
    )
    embedded.make_models()
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        patch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
        boto3.client("dynamodb").create_table(
            TableName=deployed.settings.schema_table,
            KeySchema=[
                {"AttributeName": "tenant_id", "KeyType": "HASH"},
                {"AttributeName": "version", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": "tenant_id", "AttributeType": "S"},
                {"AttributeName": "version", "AttributeType": "N"},
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        index, graph = deployed.index, deployed.graph
        assert isinstance(index, OpenSearchIndex)
        assert isinstance(graph, GremlinGraph)
        graph._connection.submit(lambda g: g.V().drop())
        for application in (embedded, deployed):
            ingest(dataset, application)
        yield embedded, deployed
        index._client.indices.delete(index=f"{deployed.settings.opensearch_index}-*")
        index.close()
        graph.close()
    embedded.store.close()


def ids(found: Answer) -> list[str]:
    return [result.id for result in found.results]


@pytest.mark.parametrize(
    "strategy", [None, Strategy.SEMANTIC, Strategy.HYBRID, Strategy.VECTOR_FIRST, Strategy.GRAPH_ONLY]
)
def test_every_demo_question_has_the_same_answer(
    both: tuple[Application, Application], dataset: Dataset, strategy: Strategy | None
) -> None:
    embedded, deployed = both
    shared = first = results = 0
    surer = 0.0
    for judged in dataset.judged:
        query = Query(text=judged.query.text, tenant_id=TENANT, hints=Hints(strategy=strategy))
        expected, found = answer(query, embedded), answer(query, deployed)
        assert found.degraded == ()
        assert (found.plan, found.superseded, found.truncated) == (
            expected.plan,
            expected.superseded,
            expected.truncated,
        )
        shared += len(set(ids(expected)) & set(ids(found)))
        results += len(expected.results)
        first += ids(expected)[:1] == ids(found)[:1]
        surer += abs(found.confidence - expected.confidence)
    assert results > 0
    # Words are weighed a little differently by the two engines, and so is how far they stand out; walks are not.
    assert shared / results >= 0.94
    assert first / len(dataset.judged) >= 0.9
    assert surer / len(dataset.judged) <= 0.05


def test_links_and_walks_of_every_question_are_the_same_to_the_letter(
    both: tuple[Application, Application], dataset: Dataset
) -> None:
    embedded, deployed = both
    walked = 0
    for judged in dataset.judged:
        names = phrases(judged.query.text)
        links = embedded.graph.link(TENANT, names, as_of=NOW)
        assert deployed.graph.link(TENANT, names, as_of=NOW) == links
        for by_confidence, direction in product((True, False), Direction):
            request = ExpandRequest(
                tenant_id=TENANT,
                seeds=tuple(link.entity_id for link in links),
                direction=direction,
                max_hops=3,
                by_confidence=by_confidence,
                as_of=NOW,
            )
            expected = embedded.graph.expand(request)
            assert deployed.graph.expand(request) == expected
            walked += len(expected.hits)
    assert walked > 100
