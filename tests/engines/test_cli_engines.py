"""The command line over the deployed engines: ingested, asked and measured as over the embedded ones."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from contextlib import closing
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from braid import Braid
from braid.engines.neptune.knowledge_graph import GremlinGraph
from braid.engines.opensearch.search_index import OpenSearchIndex
from braid.errors import ConfigurationError
from braid.settings import EngineKind, Settings
from gremlin_python.process.traversal import TextP
from moto.server import ThreadedMotoServer

from braid_cli.datasets.dataset import read_dataset
from braid_cli.main import main
from tests.e2e.conftest import DEMO, Done, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

TENANT = f"cli-{uuid.uuid4().hex[:8]}"
QUESTION = "Why did label printing fail at the Lisbon depot?"
SALTMARROW = DEMO / "saltmarrow"


@pytest.fixture(scope="module")
def stores(opensearch_endpoint: str, gremlin_endpoint: str) -> Iterator[Mapping[str, str]]:
    """Return the variables that name the stores, and empty those afterwards."""
    settings = Settings(
        engine=EngineKind.AWS,
        opensearch_endpoint=opensearch_endpoint,
        opensearch_index=f"test-{uuid.uuid4().hex}",
        neptune_endpoint=gremlin_endpoint,
    )
    yield {
        "BRAID_OPENSEARCH_ENDPOINT": opensearch_endpoint,
        "BRAID_OPENSEARCH_INDEX": settings.opensearch_index,
        "BRAID_NEPTUNE_ENDPOINT": gremlin_endpoint,
    }
    index, graph = OpenSearchIndex.connect(settings, {}), GremlinGraph.connect(settings)
    index._client.indices.delete(index=f"{settings.opensearch_index}-*")
    for prefix in (f"{TENANT}|", "eval-"):
        graph._connection.submit(lambda g, prefix=prefix: g.V().has_id(TextP.starting_with(prefix)).drop())
    index.close()
    graph.close()


@pytest.fixture(scope="module")
def braid(stores: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Done]:
    """Run ``braid`` in a process of its own, over the deployed engines, with the demo's tenant ingested."""
    home = tmp_path_factory.mktemp("home")

    def call(*arguments: str, **more: str) -> Done:
        return run(home, *arguments, **(stores | more))

    done = call("ingest", str(SALTMARROW), "--tenant", TENANT, "--engine", "aws", "--json")
    assert (done.status, done.err) == (0, "")
    written = json.loads(done.out)
    dataset = read_dataset(SALTMARROW, TENANT)
    assert written["records"] == len(dataset.records)
    assert written["relationships"] == len(dataset.relationships)
    return call


def answered(done: Done) -> dict[str, Any]:
    """Return an answer without what differs from run to run."""
    assert (done.status, done.err) == (0, "")
    answer: dict[str, Any] = json.loads(done.out)
    for field in ("trace_id", "latency_ms", "answered_at"):
        del answer[field]
    return answer


def test_the_state_machine_answers_from_the_deployed_engines_as_the_pipeline_does(braid: Callable[..., Done]) -> None:
    asked = ("search", QUESTION, "--tenant", TENANT, "--engine", "aws", "--json")
    through_states = answered(braid(*asked, "--state-machine"))
    assert through_states["results"]
    assert through_states["degraded"] == []
    assert through_states == answered(braid(*asked))


def test_the_environment_chooses_the_engine_and_the_option_has_the_last_word(braid: Callable[..., Done]) -> None:
    asked = ("search", QUESTION, "--tenant", TENANT, "--json")
    assert answered(braid(*asked, BRAID_ENGINE="aws"))["results"]
    embedded = braid(*asked, "--engine", "embedded", BRAID_ENGINE="aws")
    assert embedded.status == 2
    assert f"nothing is known of '{TENANT}'" in embedded.err


def test_the_deployed_engines_are_measured_apart_from_what_was_ingested(
    braid: Callable[..., Done], tmp_path: Path
) -> None:
    few = shutil.copytree(SALTMARROW, tmp_path / "few")
    for judged, header in (("queries.jsonl", 0), ("qrels/test.tsv", 1)):
        lines = (few / judged).read_text(encoding="utf-8").splitlines(keepends=True)
        (few / judged).write_text("".join(lines[: header + 8]), encoding="utf-8")
    done = braid("eval", str(few), "--engine", "aws", "--json")
    assert (done.status, done.err) == (0, "")
    measured = json.loads(done.out)
    assert measured["degraded"] == 0
    assert measured["runs"]["braid"]["recall@10"] > 0.8
    asked = ("search", QUESTION, "--tenant", TENANT, "--engine", "aws", "--json")
    ids = [result["id"] for result in answered(braid(*asked))["results"]]
    assert len(ids) == len(set(ids))


@pytest.fixture
def aws() -> Iterator[Mapping[str, str]]:
    """Return the variables of an AWS on loopback, which has a schema table."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    variables = {
        "AWS_ENDPOINT_URL": "http://{}:{}".format(*server.get_host_and_port()),
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    client = boto3.client(
        "dynamodb",
        endpoint_url=variables["AWS_ENDPOINT_URL"],
        region_name="eu-west-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106 - nobody checks it
    )
    with closing(client):
        client.create_table(
            TableName="schemas",
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
    yield variables
    server.stop()


def test_the_state_machine_is_run_here_while_its_stages_ask_aws(
    braid: Callable[..., Done], aws: Mapping[str, str]
) -> None:
    asked = ("search", QUESTION, "--tenant", TENANT, "--engine", "aws", "--json")
    assert answered(braid(*asked, BRAID_SCHEMA_TABLE="schemas", **aws))["degraded"] == []
    assert answered(braid(*asked, BRAID_SCHEMA_TABLE="absent", **aws))["degraded"] == ["schema"]


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that ends before it has asked any store, in this process, and return what it complains of."""

    def call(*arguments: str) -> str:
        monkeypatch.setattr("sys.argv", ["braid", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        return capsys.readouterr().err

    monkeypatch.setenv("BRAID_HOME", str(tmp_path))
    monkeypatch.setenv("BRAID_ENGINE", "embedded")  # which --engine sets, and the test takes back
    return call


@pytest.mark.parametrize("command", [("ingest", str(SALTMARROW)), ("search", "Why?"), ("eval", str(SALTMARROW))])
def test_a_missing_address_is_named_by_its_variable(refused: Callable[..., str], command: tuple[str, ...]) -> None:
    said = refused(*command, "--engine", "aws")
    assert said == "braid: engine aws needs BRAID_OPENSEARCH_ENDPOINT and BRAID_NEPTUNE_ENDPOINT\n"


def test_stores_of_aws_need_the_schema_table_that_others_read_too(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRAID_OPENSEARCH_ENDPOINT", "https://search.example")
    monkeypatch.setenv("BRAID_NEPTUNE_ENDPOINT", "wss://graph.example:8182/gremlin")
    assert refused("search", "Why?", "--engine", "aws") == "braid: engine aws needs BRAID_SCHEMA_TABLE\n"


NOBODY = {"BRAID_OPENSEARCH_ENDPOINT": "http://127.0.0.1:9", "BRAID_NEPTUNE_ENDPOINT": "ws://127.0.0.1:9/gremlin"}


@pytest.mark.parametrize("way", [(), ("--state-machine",)])
def test_addresses_where_nobody_answers_are_an_outage_and_not_an_empty_answer(
    braid: Callable[..., Done], way: tuple[str, ...]
) -> None:
    done = braid("search", QUESTION, "--tenant", TENANT, "--engine", "aws", *way, **NOBODY)
    assert done.status == 1
    assert done.out == ""
    assert "neither" in done.err


def test_nothing_is_ingested_where_nobody_answers(braid: Callable[..., Done]) -> None:
    done = braid("ingest", str(SALTMARROW), "--tenant", TENANT, "--engine", "aws", **NOBODY)
    assert done.status == 1
    assert done.err.splitlines()[-1].startswith(
        ("braid: the search index is unreachable", "braid: the knowledge graph is unreachable")
    )


def test_a_graph_where_nobody_answers_degrades_and_says_so(braid: Callable[..., Done]) -> None:
    lost = {"BRAID_NEPTUNE_ENDPOINT": NOBODY["BRAID_NEPTUNE_ENDPOINT"]}
    asked = ("search", QUESTION, "--tenant", TENANT, "--engine", "aws", "--json")
    answer = answered(braid(*asked, **lost))
    assert answer["results"]
    assert set(answer["degraded"]) == {"link", "graph_expand"}


def test_the_library_writes_and_asks_the_stores_that_its_settings_name(
    stores: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (name for name in os.environ if name.startswith("BRAID_")):
        monkeypatch.delenv(name)
    with pytest.raises(ConfigurationError, match="BRAID_OPENSEARCH_ENDPOINT and BRAID_NEPTUNE_ENDPOINT"):
        Braid.aws().stats()
    for name, value in stores.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "models").mkdir()
    settings = Settings(engine=EngineKind.AWS, home=tmp_path)
    with Braid.aws(settings, tenant=f"{TENANT}-library") as braid:
        assert repr(braid) == f"Braid('{stores['BRAID_OPENSEARCH_ENDPOINT']}', tenant='{TENANT}-library')"
        braid.add(
            [
                {"id": "svc", "type": "Service", "name": "Ledger"},
                {"id": "team", "type": "Team", "name": "Harbour team"},
                {"source": "team", "type": "OWNS", "target": "svc"},
                {"id": "note", "text": "Labels are printed at the depot in Lisbon.", "title": "Labels"},
            ]
        )
        braid.update("note", title="Depots")
        found = braid.search("Where are labels printed?")
        assert [(result.id, result.title) for result in found] == [("note", "Depots")]
        assert found.degraded == ()
        assert [str(fact) for fact in braid.facts("Ledger")] == ["Harbour team owns Ledger."]
        assert braid.tenant(f"{TENANT}-other").stats().records == 0
        assert braid.delete(["note", "svc", "team"]) == 3
        assert braid.stats().vertices == 0
