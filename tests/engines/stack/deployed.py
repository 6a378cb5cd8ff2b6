"""The template's stack on LocalStack, and stages in this process over the same stores."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from botocore.client import BaseClient
from braid.models import Answer, Query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from braid.app import Application

    from braid_cli.datasets.dataset import Dataset
    from tests.engines.stack.deployment import LocalStack
    from tests.engines.stack.issuer import Issuer

TENANT = "saltmarrow"
FUNCTIONS = ("Plan", "Embed", "VectorSearch", "GraphExpand", "FuseRerank")
"""Of the workflow that answers."""
Found = TypeVar("Found")


@dataclass(frozen=True)
class Deployed:
    """The stack, and stages in this process over the same stores."""

    localstack: LocalStack
    outputs: Mapping[str, str]
    stages: Application
    dataset: Dataset
    issuer: Issuer

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
        client, name = self.localstack.client("lambda"), self.name_of(f"{function}Function")
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
        refused = client.invoke(FunctionName=self.name_of(f"{function}Function"), Payload=b"{}")
        error: dict[str, Any] = json.load(refused["Payload"])
        return error

    def name_of(self, logical: str) -> str:
        """Return the name, ARN or address of a resource of the template, whichever its kind is known by."""
        found = self.localstack.client("cloudformation").describe_stack_resource(
            StackName="braid", LogicalResourceId=logical
        )
        name: str = found["StackResourceDetail"]["PhysicalResourceId"]
        return name

    def start(self, machine: str, state: Mapping[str, Any] | str) -> str:
        """Start a workflow and return the execution's ARN."""
        text = state if isinstance(state, str) else json.dumps(state)
        started = self.localstack.client("stepfunctions").start_execution(
            stateMachineArn=self.outputs[f"{machine}StateMachineArn"], input=text
        )
        arn: str = started["executionArn"]
        return arn

    def ended(self, execution: str) -> dict[str, Any]:
        """Wait for an execution to end and return what it ended with."""

        def described() -> dict[str, Any] | None:
            found: dict[str, Any] = self.localstack.client("stepfunctions").describe_execution(executionArn=execution)
            return None if found["status"] == "RUNNING" else found

        return until(described, f"{execution} ended")

    def output(self, execution: str) -> dict[str, Any]:
        """Wait for an execution to succeed and return its output."""
        found = self.ended(execution)
        assert found["status"] == "SUCCEEDED", (found["status"], found.get("error"), found.get("cause"))
        output: dict[str, Any] = json.loads(found["output"])
        return output


def until(look: Callable[[], Found | None], what: str, *, seconds: float = 90) -> Found:
    """Look again and again until there is something, and return it."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if found := look():
            return found
        time.sleep(0.1)
    pytest.fail(f"within {seconds:g} s not seen that {what}")


def question(text: str = "Why did label printing fail at the Lisbon depot?", **fields: Any) -> Query:
    """Return a question of the demo's tenant."""
    return Query(**{"text": text, "tenant_id": TENANT} | fields)


def close(stages: Application) -> None:
    """Close what stages have opened, the clients of AWS too."""
    for port in (*vars(stages).values(), getattr(vars(stages).get("cache"), "_cache", None)):
        client = vars(port).get("_client") if hasattr(port, "__dict__") else None
        if isinstance(client, BaseClient):
            client.close()
    stages.close()
