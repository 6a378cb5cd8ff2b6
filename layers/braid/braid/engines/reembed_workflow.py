"""Embedding again by the deployed workflow: started for one tenant, and not waited for."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any, Protocol

from braid.engines.aws import named_errors, open_client

if TYPE_CHECKING:
    from braid.settings import Settings


class _Client(Protocol):
    """The call of a Step Functions client that is made here."""

    def start_execution(self, **request: object) -> dict[str, Any]: ...


class ReembedWorkflow:
    """A Standard workflow that embeds outdated records again.

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

    @classmethod
    def connect(cls, settings: Settings) -> ReembedWorkflow:
        """Return the workflow that the settings name. Nothing is asked yet."""
        client = open_client("stepfunctions", timeout_s=settings.states_timeout_s, attempts=settings.states_attempts)
        return cls(client, settings.reembed_state_machine_arn)

    def start(self, tenant_id: str) -> None:
        """Start an execution for one tenant. It takes over the tenant's job where one is open.

        Raises
        ------
        TransientStoreError
            If Step Functions was throttled, unreachable or failed in itself.
        StoreError
            If it refused.
        """
        asked = json.dumps({"tenant_id": tenant_id})
        with named_errors(f"workflow {self._arn.rsplit(':', 1)[-1]}"):
            # With a name of ours a request that is sent twice starts one execution.
            self._client.start_execution(stateMachineArn=self._arn, name=str(uuid.uuid4()), input=asked)
