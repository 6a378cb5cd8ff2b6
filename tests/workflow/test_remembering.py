"""The interpreter remembers what is the same of every execution, and nothing of one for another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3

from braid_cli.state_machine.interpreter import Workflow

if TYPE_CHECKING:
    import pytest

ARN = "arn:aws:lambda:us-east-1:123456789012:function:greet"
GREETING: dict[str, Any] = {
    "StartAt": "Greet",
    "States": {
        "Greet": {
            "Type": "Task",
            "Resource": "arn:aws:states:::lambda:invoke",
            "Parameters": {"FunctionName": ARN, "Payload": {"name.$": "$.name"}},
            "ResultSelector": {"said.$": "$.Payload.said"},
            "ResultPath": "$.greeting",
            "Retry": [{"ErrorEquals": ["Busy"], "MaxAttempts": 1, "IntervalSeconds": 1}],
            "End": True,
        }
    },
}


class Busy(Exception):
    """Worth trying again."""


def greeting(word: str) -> Any:
    return lambda event, _context: {"said": f"{word} {event['name']}"}


def test_each_calls_its_own_functions() -> None:
    for word in ("hello", "bye"):
        with Workflow({"greet": greeting(word)}, GREETING) as workflow:
            for name in ("Ada", "Ben"):
                assert workflow.run({"name": name}).output == {"name": name, "greeting": {"said": f"{word} {name}"}}


def test_every_execution_has_all_its_tries() -> None:
    calls: list[str] = []

    def busy_first(event: dict[str, Any], _context: object) -> dict[str, Any]:
        calls.append(event["name"])
        if calls.count(event["name"]) == 1:
            raise Busy
        return {"said": "hello"}

    with Workflow({"greet": busy_first}, GREETING) as workflow:
        for name in ("Ada", "Ben"):
            assert workflow.run({"name": name}).output["greeting"] == {"said": "hello"}
    assert calls == ["Ada", "Ada", "Ben", "Ben"]


def test_an_execution_makes_no_client_and_asks_the_interpreter_twice_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    with Workflow({"greet": greeting("hello")}, GREETING) as workflow:
        workflow.run({"name": "Ada"})
        made: list[str] = []
        make = boto3.client
        monkeypatch.setattr(boto3, "client", lambda *given, **named: (made.append("client"), make(*given, **named))[1])
        asked: list[str] = []
        workflow._client.meta.events.register("before-call", lambda model, **_: asked.append(model.name))
        workflow.run({"name": "Ben"})
    assert made == []
    assert asked == ["StartExecution", "GetExecutionHistory"]
