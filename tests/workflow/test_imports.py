"""Objects written because they were asked for, by the deployed workflow in moto's interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError
from braid.engines.aws.step_functions import IngestWorkflow, ReembedWorkflow
from braid.errors import StoreError, TransientStoreError
from braid.ingestion.bulk import import_steps
from braid.ingestion.bulk.step_messages import Task
from braid.lambda_runtime.stage_handlers import stage_handler
from braid.ports.ingestion import ImportAsked, ImportStatus
from braid.ports.object_store import read_object
from braid.settings import Settings

from braid_cli.state_machine.interpreter import INGEST_DEFINITION, Workflow, definition
from tests.contract.imports import ACME, ImportsContract
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from braid.ingestion.bulk.step_messages import TaskResult

ARN = "arn:aws:states:eu-west-1:123456789012:stateMachine:stack-ingest"


@pytest.fixture
def library(tmp_path: Path) -> Iterator[DemoStages]:
    library = DemoStages(Settings(home=tmp_path))
    yield library
    library.close()


@pytest.fixture
def imports(library: DemoStages) -> Iterator[IngestWorkflow]:
    def run(task: Task) -> TaskResult:
        return import_steps.run(task, library)

    def read(key: str) -> bytes:
        return read_object(library.objects, *key.split("/", 1))

    handlers = {"ingest": stage_handler("ingest", Task, run)}
    with Workflow(handlers, definition(INGEST_DEFINITION), read) as workflow:
        yield IngestWorkflow(workflow._client, workflow._arn)


class TestDeployed(ImportsContract):
    """The workflow."""

    def test_a_request_that_is_sent_twice_starts_once(self, imports: IngestWorkflow) -> None:
        for _ in range(2):
            imports.start(ACME, "twice", ImportAsked(key="late/none.jsonl"))
        listed = imports._client.list_executions(stateMachineArn=imports._arn)  # type: ignore[attr-defined]
        assert len(listed["executions"]) == 1


class Refusing:
    """A client that fails as Step Functions does."""

    def __init__(self, code: str, http_status: int = 400, execution: dict[str, str] | None = None) -> None:
        said: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": http_status}}
        self.error = ClientError(said, "any")
        self.execution = execution

    def start_execution(self, **_: object) -> dict[str, Any]:
        raise self.error

    def describe_execution(self, **_: object) -> dict[str, Any]:
        if self.execution:
            return self.execution
        raise self.error


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        ("ThrottlingException", 400, TransientStoreError),
        ("Oops", 500, TransientStoreError),
        ("Denied", 403, StoreError),
    ],
)
def test_a_workflow_that_does_not_answer_is_a_stores_error(code: str, status: int, expected: type[StoreError]) -> None:
    workflow = IngestWorkflow(Refusing(code, status), ARN)
    with pytest.raises(expected, match="stack-ingest"):
        workflow.start(ACME, "a", ImportAsked(key="k"))
    with pytest.raises(expected, match="stack-ingest"):
        workflow.find(ACME, "a")
    with pytest.raises(expected, match="stack-ingest"):
        ReembedWorkflow(Refusing(code, status), ARN).start(ACME)


def test_an_execution_that_a_files_arrival_started_is_nobodys_import() -> None:
    arrived = '{"detail": {"object": {"key": "acme/inbox/a.jsonl"}}}'
    assert IngestWorkflow(Refusing("", execution={"status": "RUNNING", "input": arrived}), ARN).find(ACME, "a") is None


@pytest.mark.parametrize(
    ("execution", "error"),
    [({"status": "FAILED", "error": "ObjectChanged"}, "ObjectChanged"), ({"status": "TIMED_OUT"}, "TIMED_OUT")],
)
def test_an_execution_that_ended_badly_says_how(execution: dict[str, str], error: str) -> None:
    given = '{"tenant_id": "acme", "key": "k"}'
    found = IngestWorkflow(Refusing("", execution={"input": given, **execution}), ARN).find(ACME, "a")
    assert found
    assert (found.status, found.error) == (ImportStatus.FAILED, error)
