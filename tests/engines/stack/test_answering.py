"""The whole deployment on LocalStack: the template's stack answers as the pipeline does in this process.

CloudFormation, Lambda, Step Functions, S3 and IAM are LocalStack's; OpenSearch and Gremlin Server are real; the schema
table is a moto server's. The functions run from their zips, with their layers, each in a process of its own, on Python
3.13 with nothing else installed. ``deployment`` says what differs from AWS.
"""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from braid.models import Answer, GraphConstraint, Hints, Strategy
from braid.retrieval import pipeline

from tests.engines.stack.deployed import FUNCTIONS, TENANT, question
from tests.engines.stack.deployment import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.engines.stack.deployed import Deployed

PARENT = ROOT / "docs" / "examples" / "ask-from-a-workflow.asl.yaml"


def comparable(answer: Answer) -> dict[str, Any]:
    """Return an answer without what differs from run to run."""
    return answer.model_dump(exclude={"trace_id", "latency_ms", "answered_at"})


def almost(value: Any) -> Any:
    """Return a tree of values that equals another whose numbers differ by no more than a millionth.

    Scores of vectors differ in the eighth place: OpenSearch adds in another order once it has merged its segments.
    """
    match value:
        case float():
            return pytest.approx(value, abs=1e-6)
        case dict():
            return {key: almost(inner) for key, inner in value.items()}
        case tuple():
            return tuple(map(almost, value))
    return value


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
    assert comparable(answer) == almost(comparable(pipeline.answer(query, deployed.stages)))


def test_questions_as_people_ask_them_are_answered_as_by_the_pipeline_even_at_once(deployed: Deployed) -> None:
    queries = [judged.query.model_copy(update={"tenant_id": TENANT}) for judged in deployed.dataset.judged[:8]]
    with ThreadPoolExecutor(max_workers=2) as pool:
        answers = list(pool.map(deployed.answer, queries))
    for query, answer in zip(queries, answers, strict=True):
        assert answer.degraded == ()
        assert comparable(answer) == almost(comparable(pipeline.answer(query, deployed.stages)))
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
    assert comparable(answer) == almost(comparable(pipeline.answer(query, deployed.stages)))


def test_another_workflow_is_told_which_field_was_wrong(deployed: Deployed, parent: str) -> None:
    asked = {"ask": {"query": {"text": "", "tenant_id": TENANT}}}
    execution = deployed.localstack.client("stepfunctions").start_sync_execution(
        stateMachineArn=parent, input=json.dumps(asked)
    )
    assert (execution["status"], execution["error"]) == ("FAILED", "InvalidRequest")
    assert "query.text" in execution["cause"]
