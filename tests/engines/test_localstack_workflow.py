"""The whole deployment on LocalStack: the template's stack answers as the pipeline does in this process.

CloudFormation, Lambda, Step Functions, S3 and IAM are LocalStack's; OpenSearch and Gremlin Server are real; the schema
table is a moto server's. The functions run from their zips, with their layers, each in a process of its own, on Python
3.13 with nothing else installed. ``deployment`` says what differs from AWS.
"""

from __future__ import annotations

import json
import socket
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import boto3
import pytest
import yaml
from braid import pipeline
from braid.engines.dynamodb import DynamoSchemaRegistry
from braid.engines.gremlin import GremlinGraph
from braid.engines.opensearch import OpenSearchIndex
from braid.models import Answer, GraphConstraint, Hints, Query, Strategy
from braid.settings import EngineKind, Refresh, Settings
from braid.wiring import Wired
from moto.server import ThreadedMotoServer

from local.dataset import read_dataset
from local.ingest import ensure_models, ingest
from tests.engines.deployment import REGION, ROOT, LocalStack, deploy, localstack

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from botocore.client import BaseClient

    from local.dataset import Dataset

DEMO = ROOT / "local" / "demo" / "saltmarrow"
PARENT = ROOT / "docs" / "examples" / "ask-from-a-workflow.asl.yaml"
TENANT = "saltmarrow"
FUNCTIONS = ("Plan", "Embed", "VectorSearch", "GraphExpand", "FuseRerank")


@dataclass(frozen=True)
class Deployed:
    """The stack, and stages in this process over the same stores."""

    localstack: LocalStack
    outputs: Mapping[str, str]
    stages: Wired
    dataset: Dataset

    def execute(self, query: Query | Mapping[str, Any]) -> dict[str, Any]:
        """Run the workflow to its end."""
        body = query.model_dump(mode="json") if isinstance(query, Query) else query
        execution: dict[str, Any] = self.localstack.client("stepfunctions").start_sync_execution(
            stateMachineArn=self.outputs["RetrieveStateMachineArn"], input=json.dumps({"query": body})
        )
        return execution

    def answer(self, query: Query) -> Answer:
        """Return the workflow's answer."""
        execution = self.execute(query)
        assert execution["status"] == "SUCCEEDED", execution
        return Answer.model_validate_json(execution["output"])

    @contextmanager
    def changed(self, function: str, **variables: str) -> Iterator[None]:
        """Give a function other environment variables for the time of a context."""
        client, name = self.localstack.client("lambda"), self.outputs[f"{function}FunctionArn"]
        before = client.get_function_configuration(FunctionName=name)["Environment"]["Variables"]

        def put(values: Mapping[str, str]) -> None:
            client.update_function_configuration(FunctionName=name, Environment={"Variables": dict(values)})
            client.get_waiter("function_updated_v2").wait(FunctionName=name, WaiterConfig={"Delay": 1})
            self.wake(function)

        put(before | variables)
        try:
            yield
        finally:
            put(before)

    def wake(self, function: str) -> dict[str, Any]:
        """Have a function import what it needs, and return its refusal of a request with nothing in it."""
        client = self.localstack.client("lambda")
        refused = client.invoke(FunctionName=self.outputs[f"{function}FunctionArn"], Payload=b"{}")
        error: dict[str, Any] = json.load(refused["Payload"])
        return error


@pytest.fixture(scope="module")
def schema_endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture(scope="module")
def deployed(
    tmp_path_factory: pytest.TempPathFactory, opensearch_endpoint: str, gremlin_endpoint: str, schema_endpoint: str
) -> Iterator[Deployed]:
    stages = Wired(
        Settings(
            home=tmp_path_factory.mktemp("home"),
            engine=EngineKind.AWS,
            opensearch_endpoint=opensearch_endpoint,
            opensearch_index=f"test-{uuid.uuid4().hex}",
            opensearch_refresh=Refresh.NOW,
            neptune_endpoint=gremlin_endpoint,
            schema_table=f"schemas-{uuid.uuid4().hex}",
            cache_table=f"cache-{uuid.uuid4().hex}",
        )
    )
    ensure_models(stages)
    dataset = read_dataset(DEMO, TENANT, judged=True)
    aws = {
        "AWS_ENDPOINT_URL_DYNAMODB": schema_endpoint,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    parameters = {
        "OpenSearchEndpoint": opensearch_endpoint,
        "OpenSearchIndex": stages.settings.opensearch_index,
        "NeptuneEndpoint": gremlin_endpoint,
        "SchemaTable": stages.settings.schema_table,
        "CacheTable": stages.settings.cache_table,
    }
    functions = {
        "AWS_ENDPOINT_URL_DYNAMODB": schema_endpoint,
        "BRAID_MODELS_DIR": str(stages.settings.models_path()),
        # Found by itself only where /opt is /opt.
        "BRAID_SHARED_DIR": "/opt",
    }
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(prefix="braid-localstack-", ignore_cleanup_errors=True) as folder,
        localstack(Path(folder)) as running,
    ):
        for name, value in aws.items():
            patch.setenv(name, value)
        _create_table(stages.settings.schema_table, tenant_id="S", version="N")
        _create_table(stages.settings.cache_table, id="S")
        ingest(dataset, stages)
        # Rows that were replaced count towards BM25 until their segments are merged, whenever that is.
        cast("OpenSearchIndex", stages.index)._client.indices.forcemerge(
            index=stages.settings.opensearch_index, params={"max_num_segments": 1}
        )
        outputs = deploy(running, parameters, functions)
        stack = Deployed(running, outputs, stages, dataset)
        # A machine with two cores and five Pythons that begin at once may need longer than a stage is given.
        for function in FUNCTIONS:
            stack.wake(function)
        stack.execute(question("warm"))
        yield stack
        index, graph, schemas = stages.index, stages.graph, stages.schemas
        assert isinstance(index, OpenSearchIndex)
        assert isinstance(graph, GremlinGraph)
        assert isinstance(schemas, DynamoSchemaRegistry)
        cast("BaseClient", schemas._client).close()
        graph._connection.submit(lambda g: g.V().drop())
        index._client.indices.delete(index=f"{stages.settings.opensearch_index}-*")
        stages.close()


def _create_table(name: str, **keys: str) -> None:
    roles = zip(keys, ("HASH", "RANGE"), strict=False)
    with closing(boto3.client("dynamodb")) as client:
        client.create_table(
            TableName=name,
            KeySchema=[{"AttributeName": key, "KeyType": role} for key, role in roles],
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": kind} for key, kind in keys.items()],
            BillingMode="PAY_PER_REQUEST",
        )


def question(text: str = "Why did label printing fail at the Lisbon depot?", **fields: Any) -> Query:
    """Return a question of the demo's tenant."""
    return Query(text=text, tenant_id=TENANT, **fields)


def comparable(answer: Answer) -> dict[str, Any]:
    """Return an answer without what differs from run to run."""
    return answer.model_dump(exclude={"trace_id", "latency_ms", "answered_at"})


@pytest.mark.parametrize("strategy", list(Strategy))
def test_every_strategy_answers_as_the_pipeline_does(deployed: Deployed, strategy: Strategy) -> None:
    fields: dict[str, Any] = {"hints": Hints(strategy=strategy), "explain": True}
    if strategy is Strategy.GRAPH_FIRST:
        fields["graph_constraint"] = GraphConstraint(entity=deployed.dataset.vertices[0].name, depth=2)
    query = question(**fields)
    answer = deployed.answer(query)
    assert answer.results
    assert answer.degraded == ()
    assert answer.plan.strategy is strategy
    assert comparable(answer) == comparable(pipeline.answer(query, deployed.stages))


def test_questions_as_people_ask_them_are_answered_as_by_the_pipeline_even_at_once(deployed: Deployed) -> None:
    queries = [judged.query.model_copy(update={"tenant_id": TENANT}) for judged in deployed.dataset.judged[:8]]
    with ThreadPoolExecutor(max_workers=2) as pool:
        answers = list(pool.map(deployed.answer, queries))
    for query, answer in zip(queries, answers, strict=True):
        assert answer.degraded == ()
        assert comparable(answer) == comparable(pipeline.answer(query, deployed.stages))
    assert len({answer.trace_id for answer in answers}) == len(queries)


def test_a_graph_that_is_not_there_costs_its_strand_and_not_the_answer(deployed: Deployed) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with deployed.changed("GraphExpand", BRAID_NEPTUNE_ENDPOINT=f"ws://127.0.0.1:{port}/gremlin"):
        answer = deployed.answer(question(hints=Hints(strategy=Strategy.HYBRID)))
    assert answer.degraded == ("link", "graph_expand")
    assert answer.results
    assert not any(result.paths for result in answer.results)


def test_a_function_that_cannot_start_is_a_lost_stage(deployed: Deployed) -> None:
    with deployed.changed("Embed", BRAID_CANDIDATES="many"):
        assert deployed.wake("Embed")["errorType"] == "ConfigurationError"
        answer = deployed.answer(question(hints=Hints(strategy=Strategy.SEMANTIC)))
    assert answer.degraded == ("embed",)
    assert answer.results


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"text": ""}, "query.text"), ({"top_k": 51}, "query.top_k"), ({"surprise": 1}, "query.surprise")],
)
def test_a_wrong_question_is_refused_and_names_the_field(
    deployed: Deployed, changes: dict[str, Any], field: str
) -> None:
    execution = deployed.execute(question().model_dump(mode="json") | changes)
    assert (execution["status"], execution["error"]) == ("FAILED", "InvalidRequest")
    assert json.loads(execution["cause"])["errorMessage"].startswith(f"{field}: ")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_starts_from_its_package_and_refuses_nothing_by_name(deployed: Deployed, function: str) -> None:
    refused = deployed.wake(function)
    assert refused["errorType"] == "InvalidRequest"
    assert "query: missing" in refused["errorMessage"]


def test_neither_question_nor_answer_is_in_the_functions_logs(deployed: Deployed) -> None:
    text = "Which unmistakable xylophone shipped to Lisbon?"
    answer = deployed.answer(question(text))
    logs = deployed.localstack.client("logs")
    lines = [
        event["message"]
        for group in logs.describe_log_groups()["logGroups"]
        for event in logs.filter_log_events(logGroupName=group["logGroupName"])["events"]
    ]
    assert any("stage done" in line for line in lines)
    assert not any("xylophone" in line or answer.results[0].content in line for line in lines)


@pytest.fixture
def parent(deployed: Deployed) -> Iterator[str]:
    """Create the workflow of the documentation that asks, and return its ARN."""
    client = deployed.localstack.client("stepfunctions")
    text = PARENT.read_text(encoding="utf-8")
    arn = deployed.outputs["RetrieveStateMachineArn"]
    created = client.create_state_machine(
        name="parent",
        type="EXPRESS",
        definition=json.dumps(yaml.safe_load(text.replace("${RetrieveStateMachineArn}", arn))),
        roleArn="arn:aws:iam::000000000000:role/parent",
    )
    yield created["stateMachineArn"]
    client.delete_state_machine(stateMachineArn=created["stateMachineArn"])


def test_another_workflow_asks_and_goes_on_with_the_answer(deployed: Deployed, parent: str) -> None:
    query = question()
    asked = {"ask": {"query": query.model_dump(mode="json")}}
    execution = deployed.localstack.client("stepfunctions").start_sync_execution(
        stateMachineArn=parent, input=json.dumps(asked)
    )
    assert execution["status"] == "SUCCEEDED", execution
    answer = Answer.model_validate(json.loads(execution["output"])["answer"])
    assert comparable(answer) == comparable(pipeline.answer(query, deployed.stages))


def test_another_workflow_is_told_which_field_was_wrong(deployed: Deployed, parent: str) -> None:
    asked = {"ask": {"query": {"text": "", "tenant_id": TENANT}}}
    execution = deployed.localstack.client("stepfunctions").start_sync_execution(
        stateMachineArn=parent, input=json.dumps(asked)
    )
    assert (execution["status"], execution["error"]) == ("FAILED", "InvalidRequest")
    assert "query.text" in execution["cause"]
