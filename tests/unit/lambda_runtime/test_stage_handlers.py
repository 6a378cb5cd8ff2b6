"""What the five handlers share: parsing, logs, metrics and traces."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from braid.deadline import CircuitBreaker
from braid.errors import ConfigurationError, InvalidRequest, TransientStoreError
from braid.ingestion.bulk.step_messages import Task
from braid.lambda_runtime import stage_handlers
from braid.models import Frozen, Plan, Strategy
from braid.reembedding.running_jobs import Step
from braid.retrieval.stages.stage_messages import QuestionRequest
from braid.settings import load_settings
from braid.telemetry import exporting

from tests.fakes import NOW, fused, plan, record, searched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from braid.models import Answer

QUESTION = "why did the turbine at Osprey Bay stop"
EVENT = {
    "query": {"text": QUESTION, "tenant_id": "acme"},
    "plan": {
        "strategy": "hybrid",
        "mode": "hybrid",
        "intent": "causal",
        "embedding_type": "causal",
        "model_id": "m",
        "reasons": ["entity Osprey Bay"],
        "unknown_fields": ["bay of Osprey"],
    },
}


class Request(QuestionRequest):
    plan: Plan


class Response(Frozen):
    strategy: Strategy
    text: str


@dataclass(frozen=True)
class Context:
    function_name: str = "braid-test-plan"
    memory_limit_in_mb: int = 256
    invoked_function_arn: str = "arn:aws:lambda:eu-west-1:123456789012:function:braid-test-plan"
    aws_request_id: str = "c0ffee00-0000-0000-0000-000000000000"
    tenant_id: str | None = None


def answer(request: Request) -> Response:
    return Response(strategy=request.plan.strategy, text=request.query.text)


@pytest.fixture(autouse=True)
def _fresh_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (
        "AWS_LAMBDA_FUNCTION_NAME",
        "LAMBDA_TASK_ROOT",
        "BRAID_LOG_QUERIES",
        "BRAID_SLOW_STAGE_MS",
        "BRAID_SLOW_TOTAL_MS",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("POWERTOOLS_LOG_LEVEL", "INFO")
    load_settings.cache_clear()
    yield
    load_settings.cache_clear()


@pytest.fixture
def in_lambda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "braid-test-plan")


def call(run: Callable[[Request], Frozen] = answer, event: Any = EVENT, stage: str = "plan") -> dict[str, Any]:
    return stage_handlers.stage_handler(stage, Request, run)(event, Context())  # type: ignore[arg-type]


def lines(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def metrics(output: str) -> list[dict[str, Any]]:
    return [line for line in lines(output) if "_aws" in line]


def test_a_handler_returns_the_stage_result_as_json_values() -> None:
    returned = call()
    assert returned == {"strategy": "hybrid", "text": QUESTION}
    assert type(returned["strategy"]) is str


@pytest.mark.usefixtures("in_lambda")
def test_a_line_has_its_time_as_lambda_reads_it_which_else_takes_an_error_for_a_piece_of_information(
    capsys: pytest.CaptureFixture[str],
) -> None:
    call()
    logged = [line for line in lines(capsys.readouterr().out) if "_aws" not in line]
    assert logged
    for line in logged:
        # RFC 3339, and a level beside it.
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d)", line["timestamp"])
        assert line["level"] in {"DEBUG", "INFO", "WARNING", "ERROR"}


@pytest.mark.usefixtures("in_lambda")
def test_a_metric_line_is_emf_that_names_latency_and_service(capsys: pytest.CaptureFixture[str]) -> None:
    call()
    (line,) = metrics(capsys.readouterr().out)
    (directive,) = line["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "Braid"
    assert {"Name": "Latency", "Unit": "Milliseconds"} in directive["Metrics"]
    assert line["service"] == "plan"
    assert line["Latency"][0] >= 0


@pytest.mark.usefixtures("in_lambda")
def test_a_metric_line_says_whose_request_it_was_and_what_it_took_and_has_no_dimension_of_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "2048")
    call()
    (line,) = metrics(capsys.readouterr().out)
    assert line["tenant_id"] == "acme"
    assert line["GbSeconds"] == pytest.approx(2 * line["Latency"][0] / 1000, abs=1e-5)
    (directive,) = line["_aws"]["CloudWatchMetrics"]
    assert directive["Dimensions"] == [["service"]]


@pytest.mark.parametrize(
    "asked",
    [
        {"task": {"name": "write", "tenant_id": "acme", "body": {}}},
        {
            "task": {
                "name": "finish",
                "job": {"name": "j", "tenant_id": "acme", "object": {"key": "k", "size_bytes": 0, "version": "v"}},
            }
        },
    ],
)
def test_a_step_of_an_import_says_whose_it_is(asked: dict[str, Any]) -> None:
    assert Task.model_validate(asked).tenant_id == "acme"


def test_a_page_that_is_embedded_again_says_whose_it_is() -> None:
    page = {"step": "page", "job": "refresh", "run": 1, "page": {"tenant": "acme", "scan": "schema", "until": "r9"}}
    assert Step.model_validate(page).tenant_id == "acme"
    assert Step.model_validate({"step": "plan"}).tenant_id is None


@pytest.mark.usefixtures("in_lambda")
def test_a_cold_start_is_counted_once_a_container(capsys: pytest.CaptureFixture[str]) -> None:
    handler = stage_handlers.stage_handler("plan", Request, answer)
    handler(EVENT, Context())  # type: ignore[arg-type]
    handler(EVENT, Context())  # type: ignore[arg-type]
    first, second = metrics(capsys.readouterr().out)
    assert first["ColdStart"] == [1.0]
    assert "ColdStart" not in second


@pytest.mark.usefixtures("in_lambda")
def test_a_log_line_carries_the_request_id_and_the_plan_and_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    call()
    output = capsys.readouterr().out
    (line,) = [line for line in lines(output) if line.get("message") == "stage done"]
    assert line["function_request_id"] == Context.aws_request_id
    assert line["service"] == "plan"
    assert line["plan"]["strategy"] == "hybrid"
    assert "Osprey" not in output


@pytest.mark.usefixtures("in_lambda")
def test_a_question_is_logged_when_the_operator_asks_for_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRAID_LOG_QUERIES", "true")
    call()
    (line,) = [line for line in lines(capsys.readouterr().out) if line.get("message") == "stage done"]
    assert line["query"] == QUESTION
    assert line["plan"]["reasons"] == ["entity Osprey Bay"]
    assert line["plan"]["unknown_fields"] == ["bay of Osprey"]


@pytest.mark.usefixtures("in_lambda")
def test_a_malformed_event_is_refused_by_field_and_its_text_is_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    event = {"query": {"text": QUESTION, "tenant_id": "acme", "top_k": QUESTION}, "plan": EVENT["plan"]}
    with pytest.raises(InvalidRequest) as caught:
        call(event=event)
    assert caught.value.field == "query.top_k"
    assert "query.top_k" in str(caught.value)
    assert "Osprey" not in str(caught.value)
    assert caught.value.__suppress_context__
    output = capsys.readouterr().out
    assert "Osprey" not in output
    (line,) = [line for line in lines(output) if line.get("message") == "request refused"]
    assert line["field"] == "query.top_k"


@pytest.mark.parametrize("event", [None, [], "not json", 7, {}, {"query": {"text": "", "tenant_id": "acme"}}])
def test_an_event_of_the_wrong_shape_is_an_invalid_request(event: Any) -> None:
    with pytest.raises(InvalidRequest):
        call(event=event)


@pytest.mark.usefixtures("in_lambda")
def test_a_failing_stage_raises_its_own_error_and_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(_: Request) -> Response:
        message = "no answer within 800 ms"
        raise TransientStoreError(message)

    with pytest.raises(TransientStoreError, match="800 ms"):
        call(fail)
    output = capsys.readouterr().out
    (line,) = metrics(output)
    assert line["Errors"] == [1.0]
    assert line["error"] == "TransientStoreError"
    assert "Latency" in line
    (log,) = [line for line in lines(output) if line.get("message") == "stage failed"]
    assert log["reason"] == "no answer within 800 ms"


@pytest.mark.usefixtures("in_lambda")
def test_the_message_of_a_foreign_error_is_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(request: Request) -> Response:
        raise KeyError(request.query.text)

    with pytest.raises(RuntimeError) as caught:
        call(fail)
    # Lambda's runtime logs the message and the stack of what is raised, without what it was raised from.
    assert str(caught.value) == "KeyError"
    assert caught.value.__suppress_context__
    assert [frame.name for frame in caught.traceback][-1] == "fail"
    output = capsys.readouterr().out
    assert '"error":"KeyError"' in output
    assert "Osprey" not in output


@pytest.mark.usefixtures("in_lambda")
def test_no_level_of_logs_shows_what_libraries_send_and_receive(request: pytest.FixtureRequest) -> None:
    for logger in (logging.getLogger(), logging.getLogger("braid")):
        request.addfinalizer(partial(logger.setLevel, logger.level))
    logging.getLogger().setLevel(logging.DEBUG)  # as Lambda's runtime does
    stage_handlers.stage_logger("debugged")
    for library in ("botocore.endpoint", "botocore.parsers", "opensearch", "urllib3.connectionpool", "gremlinpython"):
        assert not logging.getLogger(library).isEnabledFor(logging.DEBUG)
        assert logging.getLogger(library).isEnabledFor(logging.INFO)
    assert logging.getLogger("braid.app").isEnabledFor(logging.DEBUG)


@pytest.mark.usefixtures("in_lambda")
def test_a_stage_over_its_threshold_is_logged_as_slow_with_its_plan(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRAID_SLOW_STAGE_MS", '{"vector_search": 0.000001}')
    call(stage="vector_search")
    call(stage="plan")
    logged = {line["service"]: line for line in lines(capsys.readouterr().out) if "level" in line}
    assert logged["vector_search"]["message"] == "slow stage"
    assert logged["vector_search"]["level"] == "WARNING"
    assert logged["vector_search"]["plan"]["intent"] == "causal"
    assert logged["plan"]["message"] == "stage done"


def test_outside_lambda_standard_output_stays_empty_and_logs_go_to_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    call()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "stage done" in captured.err


def test_a_wrong_setting_fails_while_the_handler_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAID_CANDIDATES", "many")
    with pytest.raises(ConfigurationError, match="BRAID_CANDIDATES"):
        stage_handlers.stage_handler("plan", Request, answer)


@pytest.mark.usefixtures("in_lambda")
def test_in_lambda_what_was_recorded_is_sent_before_the_invocation_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []
    monkeypatch.setattr(exporting, "_FLUSHES", [waited.append])
    call()
    assert waited == [exporting.FLUSH_MS]


@pytest.mark.usefixtures("in_lambda")
@pytest.mark.parametrize(("slow_ms", "sent"), [(60_000.0, 3), (-1.0, 1)])
def test_invocations_do_not_all_wait_for_a_collector_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, slow_ms: float, sent: int
) -> None:
    waited: list[int] = []
    now = [100.0]
    monkeypatch.setattr(exporting, "_FLUSHES", [waited.append])
    monkeypatch.setattr(stage_handlers, "SLOW_COLLECTOR_MS", slow_ms)
    breaker = CircuitBreaker(stage_handlers.COLLECTOR_REST_S, lambda: now[0])
    monkeypatch.setattr(stage_handlers, "_COLLECTOR", breaker)
    for _ in range(3):
        call()
    assert len(waited) == sent
    now[0] += stage_handlers.COLLECTOR_REST_S
    call()
    assert len(waited) == sent + 1


def test_a_handler_imports_no_client_no_sdk_of_telemetry_and_no_array_library() -> None:
    script = (
        "import sys\n"
        "from braid import models\nfrom braid.lambda_runtime import stage_handlers\n"
        "stage_handlers.stage_handler('plan', models.Query, lambda query: query)\n"
        "heavy = {'boto3', 'botocore.client', 'opentelemetry.sdk', 'numpy', 'opensearchpy', 'gremlin_python'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter and script
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


SLOW_S = 3.5


def slow_answer(_: Request) -> Answer:
    """Return an answer whose question came in a while before it was fused."""
    return fused(
        [record("a")],
        started_at=NOW - timedelta(seconds=SLOW_S),
        searched=searched(("a", 0.9)),
        plan=plan(reasons=("entity Osprey Bay",), unknown_fields=("bay of Osprey",)),
    )


@pytest.mark.usefixtures("in_lambda")
def test_an_answer_that_takes_more_than_three_seconds_is_warned_of_with_its_plan_and_no_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    call(slow_answer, stage="fuse_rerank")
    output = capsys.readouterr().out
    (line,) = [line for line in lines(output) if line.get("message") == "slow answer"]
    assert (line["level"], line["limit_ms"], line["trace_id"]) == ("WARNING", 3000, "t-1")
    assert line["total_ms"] == pytest.approx(SLOW_S * 1000, abs=1000)
    assert {"plan", "vector_search", "fuse", "rerank"} <= line["stages_ms"].keys()
    assert line["plan"]["strategy"] == "hybrid"
    assert "Osprey" not in output


@pytest.mark.usefixtures("in_lambda")
def test_a_slow_answers_question_is_logged_when_the_operator_asks_for_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRAID_LOG_QUERIES", "true")
    call(slow_answer, stage="fuse_rerank")
    (line,) = [line for line in lines(capsys.readouterr().out) if line.get("message") == "slow answer"]
    assert line["query"] == QUESTION
    assert line["plan"]["reasons"] == ["entity Osprey Bay"]


@pytest.mark.usefixtures("in_lambda")
def test_an_answer_within_its_time_is_not_warned_of(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRAID_SLOW_TOTAL_MS", "60000")
    call(slow_answer, stage="fuse_rerank")
    assert "slow answer" not in capsys.readouterr().out
