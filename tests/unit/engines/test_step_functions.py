"""The deployed workflow as a context asks it: requests and answers of the documented shape, over botocore's stubber."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.stub import ANY, Stubber
from braid.app import Application
from braid.engines.aws.lambda_invocation import AnswerFunction, IngestFunction
from braid.engines.aws.step_functions import IngestWorkflow, RetrieveWorkflow
from braid.errors import BraidError, ConfigurationError, InvalidRequest, StoresUnavailable, TransientStoreError
from braid.ports.ingestion import ImportJob, JobReport, JobStatus, WriteReport, WriteRequest
from braid.ports.object_store import ObjectInfo
from braid.settings import EngineKind, Settings
from braid.telemetry.recording import TRACEPARENT, invocation_trace_headers, operation

from tests.fakes import fused, query, record, searched

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from braid.models import Frozen

ARN = "arn:aws:states:eu-west-1:123456789012:stateMachine:retrieve"
KEYS = ("aws_access_key_id", "aws_secret_access_key")
CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
STARTED = datetime(2026, 1, 15, 9, 30, tzinfo=UTC)


@pytest.fixture
def service() -> Iterator[Stubber]:
    # Never sent: the stubber answers in place of the service.
    client = boto3.client("stepfunctions", region_name="eu-west-1", **dict.fromkeys(KEYS, "test"))
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def ended(status: str, **fields: Any) -> dict[str, Any]:
    execution = {"executionArn": ARN.replace("stateMachine", "express"), "status": status}
    return execution | {"startDate": STARTED, "stopDate": STARTED} | fields


def test_a_question_is_the_input_and_the_answer_the_output(service: Stubber) -> None:
    asked = query("scanner lockout", top_k=3)
    answer = fused([record("r")], query=asked, searched=searched(("r", 0.9)))
    body = json.dumps({"query": asked.model_dump(mode="json")})
    service.add_response(
        "start_sync_execution",
        ended("SUCCEEDED", output=answer.model_dump_json()),
        {"stateMachineArn": ARN, "name": ANY, "input": body},
    )
    assert RetrieveWorkflow(service.client, ARN).answer(asked) == answer


def test_questions_of_one_trace_are_executions_of_their_own_and_so_have_traces_of_their_own(service: Stubber) -> None:
    names: list[str] = []
    service.client.meta.events.register(
        "provide-client-params.sfn.StartSyncExecution", lambda params, **_: names.append(params["name"])
    )
    for text in ("scanner lockout", "heron gate"):
        service.add_response(
            "start_sync_execution",
            ended("SUCCEEDED", output=fused(query=query(text)).model_dump_json()),
            {"stateMachineArn": ARN, "name": ANY, "input": ANY},
        )
        with operation("POST /search", {}, parent={TRACEPARENT: CALLER}):
            RetrieveWorkflow(service.client, ARN).answer(query(text))
    assert len(set(names)) == 2
    assert {name.split("-")[1] for name in names} == {CALLER.split("-")[1]}
    assert all(invocation_trace_headers(name) == {TRACEPARENT: name} for name in names)


@pytest.mark.parametrize(
    ("execution", "kind"),
    [
        (ended("FAILED", error="InvalidRequest", cause="{}"), InvalidRequest),
        (ended("FAILED", error="StoresUnavailable", cause="{}"), StoresUnavailable),
        (ended("FAILED", error="States.Runtime", cause="secret text"), BraidError),
        (ended("TIMED_OUT"), TransientStoreError),
    ],
)
def test_a_workflow_that_does_not_succeed_is_an_error_that_names_it_and_quotes_nothing(
    service: Stubber, execution: dict[str, Any], kind: type[BraidError]
) -> None:
    service.add_response("start_sync_execution", execution, {"stateMachineArn": ARN, "name": ANY, "input": ANY})
    with pytest.raises(kind, match="workflow retrieve: ") as caught:
        RetrieveWorkflow(service.client, ARN).answer(query())
    assert "secret" not in str(caught.value)


def test_a_refused_question_is_told_which_field_is_wrong(service: Stubber) -> None:
    cause = json.dumps({"errorType": "InvalidRequest", "errorMessage": "filters.metadata.floor: no number"})
    execution = ended("FAILED", error="InvalidRequest", cause=cause)
    service.add_response("start_sync_execution", execution, {"stateMachineArn": ARN, "name": ANY, "input": ANY})
    with pytest.raises(InvalidRequest, match=r"^filters\.metadata\.floor: no number$") as caught:
        RetrieveWorkflow(service.client, ARN).answer(query())
    assert caught.value.field == "filters.metadata.floor"


@pytest.mark.parametrize("code", ["ThrottlingException", "ExecutionLimitExceeded", "KmsThrottlingException"])
def test_a_throttled_start_is_transient(service: Stubber, code: str) -> None:
    service.add_client_error("start_sync_execution", code, http_status_code=400)
    with pytest.raises(TransientStoreError, match=f"workflow retrieve: {code}"):
        RetrieveWorkflow(service.client, ARN).answer(query())


@pytest.mark.parametrize(
    ("code", "status"),
    [("SnapStartNotReadyException", 409), ("SnapStartTimeoutException", 408), ("ResourceConflictException", 409)],
)
def test_a_function_that_is_being_made_ready_is_transient(code: str, status: int) -> None:
    client = boto3.client("lambda", region_name="eu-west-1", **dict.fromkeys(KEYS, "test"))
    with Stubber(client) as stub:
        stub.add_client_error("invoke", code, http_status_code=status)
        with pytest.raises(TransientStoreError, match=f"function answer: {code}"):
            AnswerFunction(client, "answer").answer(query())


def test_a_deployed_context_asks_the_workflow_that_the_settings_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"opensearch_endpoint": "http://127.0.0.1:9", "neptune_endpoint": "ws://127.0.0.1:9/gremlin"}
    application = Application(Settings(home=tmp_path, engine=EngineKind.AWS, retrieve_state_machine_arn=ARN, **fields))
    answer, opened = fused(), []

    class Workflow:
        def answer(self, _query: object) -> object:
            return answer

    def connect(settings: Settings) -> Workflow:
        opened.append(settings.retrieve_state_machine_arn)
        return Workflow()

    monkeypatch.setattr(RetrieveWorkflow, "connect", connect)
    assert application.answer(query()) is answer
    assert application.answer(query()) is answer
    assert opened == [ARN]


def test_no_workflow_is_connected_to_without_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="BRAID_RETRIEVE_STATE_MACHINE_ARN"):
        RetrieveWorkflow.connect(Settings(home=tmp_path))


def test_a_client_waits_as_long_as_the_settings_say_and_starts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    workflow = RetrieveWorkflow.connect(Settings(home=tmp_path, retrieve_state_machine_arn=ARN, retrieve_timeout_s=7.0))
    config = workflow._client.meta.config  # type: ignore[attr-defined]
    assert (config.read_timeout, config.retries["total_max_attempts"]) == (7.0, 1)


class Newer:
    """A Lambda client whose function is of a newer version, whose answers have a field more."""

    def __init__(self, answer: Frozen) -> None:
        self.answer = answer

    def invoke(self, **_: object) -> dict[str, Any]:
        return {"Payload": io.BytesIO(json.dumps(self.answer.model_dump(mode="json") | {"newer": 1}).encode())}


def test_while_a_deployment_is_upgraded_what_a_newer_function_or_workflow_adds_is_left_out(service: Stubber) -> None:
    answer, report = fused(), WriteReport(tenant_id="acme", written=1)
    assert AnswerFunction(Newer(answer), "answer").answer(query()) == answer  # type: ignore[arg-type]
    assert IngestFunction(Newer(report), "ingest").write(WriteRequest(tenant_id="acme")) == report  # type: ignore[arg-type]
    output = json.dumps(answer.model_dump(mode="json") | {"newer": 1})
    service.add_response("start_sync_execution", ended("SUCCEEDED", output=output))
    assert RetrieveWorkflow(service.client, ARN).answer(query()) == answer
    job = ImportJob(name="one", tenant_id="acme", object=ObjectInfo(key="inbox/one.jsonl", size_bytes=1, version="1"))
    done = JobReport(job=job, status=JobStatus.WRITTEN, written=1, report_key="ingest/one/errors.jsonl")
    fields = {"name": "one", "stateMachineArn": ARN, "input": json.dumps({"tenant_id": "acme"})}
    output = json.dumps(done.model_dump(mode="json") | {"newer": 1})
    service.add_response("describe_execution", ended("SUCCEEDED", output=output, **fields))
    found = IngestWorkflow(service.client, ARN).find("acme", "one")
    assert found is not None
    assert found.report == done
