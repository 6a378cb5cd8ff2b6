"""State machines of Step Functions: retrieval (synchronous), imports and re-embedding (asynchronous)."""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from botocore.exceptions import ClientError
from opentelemetry.trace import SpanKind

from braid.engines.aws.clients import as_braid_errors, code_of, open_client
from braid.engines.aws.lambda_invocation import refused_request
from braid.errors import ConfigurationError, InvalidRequest, StoreError, StoresUnavailable, TransientStoreError
from braid.models import Answer
from braid.ports.ingestion import Import, ImportStatus, JobReport
from braid.telemetry.recording import operation, own_traceparent

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions import SFNClient

    from braid.models import Query
    from braid.ports.ingestion import ImportAsked
    from braid.settings import Settings


_ERRORS = {"InvalidRequest": InvalidRequest, "StoresUnavailable": StoresUnavailable}
"""Errors that the retrieval workflow raises, by name."""
_RUNNING: Final = frozenset({"RUNNING", "PENDING_REDRIVE"})


class _StateMachine:
    """A state machine; its functions may be of another version, whose output has fields that are not known here."""

    def __init__(self, client: SFNClient, arn: str) -> None:
        self._client = client
        self._arn = arn
        self._name = f"workflow {arn.rsplit(':', 1)[-1]}"

    @classmethod
    def _open(cls, arn: str, *, timeout_s: float, attempts: int) -> Self:
        return cls(open_client("stepfunctions", timeout_s=timeout_s, attempts=attempts), arn)

    def _start(self, execution: str, event: dict[str, str]) -> None:
        """Start a named execution; repeating the request starts no second one."""
        with as_braid_errors(self._name):
            self._client.start_execution(stateMachineArn=self._arn, name=execution, input=json.dumps(event))


class RetrieveWorkflow(_StateMachine):
    """The Express workflow that answers a question synchronously."""

    @classmethod
    def connect(cls, settings: Settings) -> RetrieveWorkflow:
        """Return the workflow that the settings name. No request is sent yet.

        Raises ConfigurationError if the settings name no state machine.
        """
        if not settings.retrieve_state_machine_arn:
            raise ConfigurationError("BRAID_RETRIEVE_STATE_MACHINE_ARN: names no state machine")
        # One attempt: the workflow retries its own stages.
        return cls._open(settings.retrieve_state_machine_arn, timeout_s=settings.retrieve_timeout_s, attempts=1)

    def answer(self, query: Query) -> Answer:
        """Answer one question.

        Raises
        ------
        InvalidRequest, StoresUnavailable
            If the workflow failed with that error.
        TransientStoreError
            If it was throttled, unreachable or timed out.
        StoreError
            If it failed in another way.
        """
        body = json.dumps({"query": query.model_dump(mode="json")})
        with operation(f"start {self._name}", {}, kind=SpanKind.CLIENT), as_braid_errors(self._name):
            # By its name an execution carries the trace context to its functions, without a field in its state.
            # The answer's trace id is that name, so no two questions have the same.
            name = own_traceparent() or str(uuid.uuid4())
            execution = self._client.start_sync_execution(stateMachineArn=self._arn, name=name, input=body)
        status = execution["status"]
        if status == "SUCCEEDED":
            return Answer.model_validate_json(execution["output"], extra="ignore")
        error = execution.get("error", "")
        message = f"{self._name}: {status} {error}".rstrip()
        if status == "TIMED_OUT":
            raise TransientStoreError(message)
        if error == InvalidRequest.__name__ and (refused := _message(execution.get("cause", ""))):
            raise refused_request(refused)
        raise _ERRORS.get(error, StoreError)(message)


def _message(cause: str) -> str:
    """Return the message of the error that a function raised, from the cause that Lambda makes of it."""
    with suppress(ValueError, AttributeError):
        return str(json.loads(cause).get("errorMessage", ""))
    return ""


class IngestWorkflow(_StateMachine):
    """The Standard workflow that imports one object per run; implements :class:`braid.ports.ingestion.Imports`."""

    @classmethod
    def connect(cls, settings: Settings) -> IngestWorkflow:
        """Return the workflow that the settings name. No request is sent yet."""
        arn = settings.ingest_state_machine_arn
        return cls._open(arn, timeout_s=settings.states_timeout_s, attempts=settings.states_attempts)

    def start(self, tenant_id: str, import_id: str, asked: ImportAsked) -> None:
        """Start an import; repeating the call starts no second execution."""
        self._start(import_id, {"tenant_id": tenant_id, "key": asked.key, "missing": asked.missing.value})

    def find(self, tenant_id: str, import_id: str) -> Import | None:
        """Return the status of an import; None if there is none of this id, or it is another tenant's."""
        arn = f"{self._arn.replace(':stateMachine:', ':execution:')}:{import_id}"
        with as_braid_errors(self._name):
            try:
                execution = self._client.describe_execution(executionArn=arn)
            except ClientError as error:
                if code_of(error) in {"ExecutionDoesNotExist", "InvalidArn"}:
                    return None
                raise
        # An execution that an object's arrival started has another input, and is not the import of a request.
        if json.loads(execution.get("input") or "{}").get("tenant_id") != tenant_id:
            return None
        if execution["status"] == "SUCCEEDED" and "output" in execution:
            report = JobReport.model_validate_json(execution["output"], extra="ignore")
            return Import(id=import_id, status=ImportStatus(report.status.value), report=report)
        # The status may be seen a moment before the output or the error is.
        if execution["status"] in _RUNNING or execution["status"] == "SUCCEEDED":
            return Import(id=import_id, status=ImportStatus.RUNNING)
        return Import(id=import_id, status=ImportStatus.FAILED, error=execution.get("error") or execution["status"])


class ReembedWorkflow(_StateMachine):
    """The Standard workflow that re-embeds outdated records."""

    @classmethod
    def connect(cls, settings: Settings) -> ReembedWorkflow:
        """Return the workflow that the settings name. No request is sent yet."""
        arn = settings.reembed_state_machine_arn
        return cls._open(arn, timeout_s=settings.states_timeout_s, attempts=settings.states_attempts)

    def start(self, tenant_id: str) -> None:
        """Start a re-embedding of one tenant, which resumes the tenant's job if one is open.

        Raises TransientStoreError if Step Functions was throttled, unreachable or failed internally, and StoreError if
        it refused the request.
        """
        self._start(str(uuid.uuid4()), {"tenant_id": tenant_id})
