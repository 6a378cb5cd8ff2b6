"""Writing objects by the deployed workflow ``ingest``: started, asked after, and never waited for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Protocol

from botocore.exceptions import ClientError

from braid.engines.aws import code_of, named_errors, open_client
from braid.file_jobs import JobReport
from braid.imports import Import, ImportStatus

if TYPE_CHECKING:
    from braid.imports import ImportAsked
    from braid.settings import Settings

_RUNNING: Final = frozenset({"RUNNING", "PENDING_REDRIVE"})


class _Client(Protocol):
    """The calls of a Step Functions client that are made here."""

    def start_execution(self, **request: object) -> dict[str, Any]: ...

    def describe_execution(self, **request: object) -> dict[str, Any]: ...


class IngestWorkflow:
    """A Standard workflow, each execution of which writes one object; implements :class:`braid.imports.Imports`.

    Parameters
    ----------
    client
        A Step Functions client.
    arn
        The state machine's ARN.
    """

    def __init__(self, client: _Client, arn: str) -> None:
        self._client = client
        self._arn = arn
        self._name = f"workflow {arn.rsplit(':', 1)[-1]}"

    @classmethod
    def connect(cls, settings: Settings) -> IngestWorkflow:
        """Return the workflow that the settings name. Nothing is asked yet."""
        client = open_client("stepfunctions", timeout_s=settings.states_timeout_s, attempts=settings.states_attempts)
        return cls(client, settings.ingest_state_machine_arn)

    def start(self, tenant_id: str, import_id: str, asked: ImportAsked) -> None:
        """Start an execution of this name; sent twice, it is started once.

        Raises
        ------
        TransientStoreError
            If Step Functions was throttled, unreachable or failed in itself.
        StoreError
            If it refused.
        """
        event = {"tenant_id": tenant_id, "key": asked.key, "missing": asked.missing.value}
        with named_errors(self._name):
            self._client.start_execution(stateMachineArn=self._arn, name=import_id, input=json.dumps(event))

    def find(self, tenant_id: str, import_id: str) -> Import | None:
        """Return how far an execution is; None if there is none of this name, or it was started for another tenant."""
        arn = f"{self._arn.replace(':stateMachine:', ':execution:')}:{import_id}"
        with named_errors(self._name):
            try:
                execution = self._client.describe_execution(executionArn=arn)
            except ClientError as error:
                if code_of(error) in {"ExecutionDoesNotExist", "InvalidArn"}:
                    return None
                raise
        # One that an object's arrival started has another input, and none of them is a request's.
        if json.loads(execution.get("input") or "{}").get("tenant_id") != tenant_id:
            return None
        if execution["status"] == "SUCCEEDED" and "output" in execution:
            report = JobReport.model_validate_json(execution["output"])
            return Import(id=import_id, status=ImportStatus(report.status.value), report=report)
        # The status may be seen a moment before the output or the error is.
        if execution["status"] in _RUNNING or execution["status"] == "SUCCEEDED":
            return Import(id=import_id, status=ImportStatus.RUNNING)
        return Import(id=import_id, status=ImportStatus.FAILED, error=execution.get("error") or execution["status"])
