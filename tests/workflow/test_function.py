"""The function that answers in one process answers as the deployed state machine does, and fails as it does."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from braid.app import Application
from braid.engines.aws.lambda_invocation import AnswerFunction
from braid.errors import BraidError, InvalidRequest, StoreError, StoresUnavailable, TransientStoreError
from braid.lambda_runtime.stage_handlers import stage_handler
from braid.models import Strategy
from braid.retrieval.stages.stage_messages import AnswerRequest
from braid.settings import EngineKind, Settings

from tests.workflow.test_retrieve import LOST, comparable, failing, failing_times, question

if TYPE_CHECKING:
    from braid.models import Query

    from braid_cli.state_machine.interpreter import Workflow
    from tests.stages import DemoStages


class Invoked:
    """A Lambda client whose function runs in this process: events and answers are JSON, errors their class names."""

    def __init__(self, stages: DemoStages) -> None:
        self.handler = stage_handler("answer", AnswerRequest, stages.answer_in_this_process)

    def invoke(self, **request: Any) -> dict[str, Any]:
        context: Any = SimpleNamespace(
            function_name="answer", memory_limit_in_mb=2048, aws_request_id="test", tenant_id=None,
            invoked_function_arn="arn:aws:lambda:eu-west-1:123456789012:function:answer",
        )  # fmt: skip
        try:
            answer = self.handler(json.loads(request["Payload"]), context)
        except BraidError as error:
            said = {"errorType": type(error).__name__, "errorMessage": str(error)}
            return {"FunctionError": "Unhandled", "Payload": io.BytesIO(json.dumps(said).encode())}
        return {"Payload": io.BytesIO(json.dumps(answer).encode())}


@pytest.fixture
def function(stages: DemoStages) -> AnswerFunction:
    client: Any = Invoked(stages)
    return AnswerFunction(client, "answer")


@pytest.mark.parametrize("strategy", list(Strategy))
def test_every_strategy_answers_alike_by_the_function_and_by_the_workflow(
    function: AnswerFunction, workflow: Workflow, strategy: Strategy
) -> None:
    answer = function.answer(question(strategy))
    assert answer.results
    assert comparable(answer) == comparable(workflow.answer(question(strategy)))


@pytest.mark.parametrize("stage", LOST)
def test_each_lost_stage_degrades_the_same_answer(
    stages: DemoStages, function: AnswerFunction, workflow: Workflow, stage: str
) -> None:
    stages.faults[stage] = failing(RuntimeError("lost"))
    asked = question(Strategy.GRAPH_ONLY if stage == "graph_expand:walk" else Strategy.HYBRID)
    answer = function.answer(asked)
    assert answer.degraded
    assert comparable(answer) == comparable(workflow.answer(asked))


def test_only_both_stores_down_fails_the_question_and_by_the_same_error(
    stages: DemoStages, function: AnswerFunction
) -> None:
    for stage in ("vector_search", "graph_expand"):
        stages.faults[stage] = failing(RuntimeError("down"))
    with pytest.raises(StoresUnavailable):
        function.answer(question())


def test_a_wrong_question_is_refused_and_names_the_field(function: AnswerFunction) -> None:
    wrong: Query = question().model_copy(update={"top_k": 51})
    with pytest.raises(InvalidRequest, match=r"^query\.top_k: ") as refused:
        function.answer(wrong)
    assert refused.value.field == "query.top_k"


def test_a_transient_store_error_is_retried_inside_the_function(stages: DemoStages, function: AnswerFunction) -> None:
    stages.faults["vector_search"] = failing_times(2, TransientStoreError("throttled"))
    assert function.answer(question(Strategy.SEMANTIC)).degraded == ()
    assert stages.calls["vector_search"] == 3


def test_a_function_that_ends_without_an_answer_is_said_by_its_kind_of_error() -> None:
    class Ended:
        def invoke(self, **_: Any) -> dict[str, Any]:
            said = {"errorType": "Sandbox.Timedout", "errorMessage": "Task timed out after 20.00 seconds"}
            return {"FunctionError": "Unhandled", "Payload": io.BytesIO(json.dumps(said).encode())}

    client: Any = Ended()
    with pytest.raises(StoreError, match=r"function answer failed: Sandbox\.Timedout"):
        AnswerFunction(client, "answer").answer(question())


def test_the_named_function_answers_in_place_of_the_workflow(
    stages: DemoStages, function: AnswerFunction, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AnswerFunction, "connect", lambda _settings: function)
    settings = Settings(
        engine=EngineKind.AWS,
        opensearch_endpoint="http://127.0.0.1:9",
        neptune_endpoint="ws://127.0.0.1:9/gremlin",
        answer_function="answer",
        retrieve_state_machine_arn="arn:aws:states:eu-west-1:123456789012:stateMachine:retrieve",
    )
    answer = Application(settings).retrieve(question())
    assert stages.calls["fuse_rerank"] == 1
    assert comparable(answer) == comparable(function.answer(question()))
