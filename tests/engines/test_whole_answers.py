"""Whole questions on the demo corpus: the deployed engines give the embedded ones' answers."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
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
from opensearchpy import Urllib3HttpConnection

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


def test_a_question_takes_few_round_trips_and_bytes(
    both: tuple[Application, Application], dataset: Dataset, monkeypatch: pytest.MonkeyPatch, figures: list[str]
) -> None:
    deployed = both[1]
    requests: list[int] = []
    """Bytes there and back of each request to OpenSearch."""
    frames: list[tuple[bool, int]] = []
    """Of each frame of the socket to Gremlin Server: whether it was sent, and its bytes."""
    perform = Urllib3HttpConnection.perform_request
    send, receive = aiohttp.ClientWebSocketResponse.send_bytes, aiohttp.ClientWebSocketResponse.receive

    def performed(*given: Any, **named: Any) -> Any:
        found = perform(*given, **named)
        body = named.get("body") or (given[4] if len(given) > 4 else None) or b""
        requests.append(len(body) + len(found[2]))
        return found

    async def sent(socket: aiohttp.ClientWebSocketResponse, data: bytes, *rest: Any) -> None:
        frames.append((True, len(data)))
        await send(socket, data, *rest)

    async def received(socket: aiohttp.ClientWebSocketResponse, *rest: Any) -> aiohttp.WSMessage:
        message = await receive(socket, *rest)
        frames.append((False, len(message.data or b"")))
        return message

    monkeypatch.setattr(Urllib3HttpConnection, "perform_request", performed)
    monkeypatch.setattr(aiohttp.ClientWebSocketResponse, "send_bytes", sent)
    monkeypatch.setattr(aiohttp.ClientWebSocketResponse, "receive", received)
    counted = deployed.graph.stats(TENANT)  # in a deployment DynamoDB keeps it
    monkeypatch.setattr(deployed.graph, "stats", lambda _: counted)
    taken: list[tuple[int, int, int, int]] = []
    for judged in dataset.judged:
        requests.clear()
        frames.clear()
        found = answer(Query(text=judged.query.text, tenant_id=TENANT), deployed)
        assert not found.degraded
        traversals = sum(is_sent for is_sent, _ in frames)
        taken.append((len(requests), sum(requests), traversals, sum(size for _, size in frames)))
    for store, trips, size, most_trips, most_kb in (("OpenSearch", 0, 1, 3, 250), ("Gremlin", 2, 3, 12, 250)):
        each_trips = sorted(one[trips] for one in taken)
        each_kb = sorted(one[size] / 1024 for one in taken)
        middle = len(taken) // 2
        figures.append(
            f"{store}, a question: {each_trips[middle]} round trips (at most {each_trips[-1]}),"
            f" {each_kb[middle]:.0f} KiB there and back (at most {each_kb[-1]:.0f})"
        )
        assert each_trips[-1] <= most_trips
        assert each_kb[-1] <= most_kb


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
