"""The retrieval workflow as a deployed state machine, started and waited for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from braid.engines.aws import named_errors, open_client
from braid.errors import ConfigurationError, InvalidRequest, StoreError, StoresUnavailable, TransientStoreError
from braid.models import Answer

if TYPE_CHECKING:
    from braid.models import Query
    from braid.settings import Settings

_ERRORS = {"InvalidRequest": InvalidRequest, "StoresUnavailable": StoresUnavailable}
"""How the workflow fails on purpose."""


class _Client(Protocol):
    """The call of a Step Functions client that is made here."""

    def start_sync_execution(self, **request: object) -> dict[str, Any]: ...


class RetrieveWorkflow:
    """An Express workflow that takes a question and returns its answer.

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
    def connect(cls, settings: Settings) -> RetrieveWorkflow:
        """Return the workflow that the settings name. Nothing is asked yet.

        Raises
        ------
        ConfigurationError
            If they name none.
        """
        if not settings.retrieve_state_machine_arn:
            message = "BRAID_RETRIEVE_STATE_MACHINE_ARN: names no state machine"
            raise ConfigurationError(message)
        # One attempt: the workflow tries its own stages again.
        client = open_client("stepfunctions", timeout_s=settings.retrieve_timeout_s, attempts=1)
        return cls(client, settings.retrieve_state_machine_arn)

    def answer(self, query: Query) -> Answer:
        """Answer one question.

        Raises
        ------
        InvalidRequest, StoresUnavailable
            As the workflow says.
        TransientStoreError
            If it was throttled, unreachable or took too long.
        StoreError
            If it failed in another way.
        """
        body = json.dumps({"query": query.model_dump(mode="json")})
        with named_errors(self._name):
            execution = self._client.start_sync_execution(stateMachineArn=self._arn, input=body)
        status = execution["status"]
        if status == "SUCCEEDED":
            return Answer.model_validate_json(execution["output"])
        error = execution.get("error", "")
        message = f"{self._name}: {status} {error}".rstrip()
        if status == "TIMED_OUT":
            raise TransientStoreError(message)
        raise _ERRORS.get(error, StoreError)(message)
