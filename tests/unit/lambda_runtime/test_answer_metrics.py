"""What is counted of an answer, and where it is written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import RerankFailed
from braid.lambda_runtime import stage_handlers
from braid.lambda_runtime.stage_handlers import answer_metrics, lost_metric
from braid.models import Answer, Query
from braid.settings import load_settings

from braid_cli.state_machine.invoke_endpoint import LocalContext
from tests.fakes import FakeReranker, fused, record, searched
from tests.front_door import FrontDoor
from tests.stages import demo_stages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("in_lambda")


@pytest.fixture
def in_lambda(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "braid-test")
    monkeypatch.delenv("LAMBDA_TASK_ROOT", raising=False)
    load_settings.cache_clear()
    yield
    load_settings.cache_clear()


def answer(**changes: Any) -> Answer:
    return fused([record("a")], searched=searched(("a", 0.9))).model_copy(update=changes)


def metric_lines(output: str) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, output.splitlines()) if "_aws" in line]


def test_an_answer_is_counted_by_time_source_and_cost() -> None:
    counts = {"vector": 4, "lexical": 3, "knowledge": 2, "graph": 1, "fused": 8, "read": 7, "outdated": 5}
    counted = answer_metrics(answer(counts=counts, superseded=6, latency_ms={"total": 812.5}, rerank_cost_usd=0.0025))
    assert counted == {
        "AnswerLatency": 812.5,
        "AnswerDegraded": 0,
        "AnswerEmpty": 0,
        "CandidatesVector": 4,
        "CandidatesLexical": 3,
        "CandidatesKnowledge": 2,
        "CandidatesGraph": 1,
        "Superseded": 6,
        "OutdatedMet": 5,
        "RerankCostUsd": 0.0025,
    }


def test_an_answer_that_lost_something_is_counted_once_and_each_part_under_its_own_name() -> None:
    counted = answer_metrics(answer(degraded=("vector_search", "rerank"), results=()))
    assert (counted["AnswerDegraded"], counted["AnswerEmpty"]) == (1, 1)
    assert {name for name in counted if name.startswith("Lost")} == {"LostVectorSearch", "LostRerank"}


def test_a_lost_reranker_of_a_real_answer_is_counted() -> None:
    lost = fused([record("a")], searched=searched(("a", 0.9)), reranker=FakeReranker(error=RerankFailed("no answer")))
    assert answer_metrics(lost)[lost_metric("rerank")] == 1


def test_the_figures_are_written_with_their_units_in_the_namespace_of_the_deployment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Braid/braid-prod")
    handler = stage_handlers.stage_handler("fuse_rerank", Query, lambda _: answer(), measure=answer_metrics)
    handler({"text": "who", "tenant_id": "acme"}, LocalContext("fuse_rerank"))  # type: ignore[arg-type]
    (line,) = metric_lines(capsys.readouterr().out)
    (directive,) = line["_aws"]["CloudWatchMetrics"]
    units = {metric["Name"]: metric["Unit"] for metric in directive["Metrics"]}
    assert directive["Namespace"] == "Braid/braid-prod"
    assert directive["Dimensions"] == [["service"]]
    assert (units["AnswerLatency"], units["AnswerDegraded"], units["RerankCostUsd"]) == (
        "Milliseconds",
        "Count",
        "None",
    )


def test_the_front_door_writes_whether_an_answer_was_there_already(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stages = demo_stages(tmp_path)
    try:
        door = FrontDoor(stages)
        for _ in range(2):
            assert door.ask("POST", "/search", {"text": "Who audits the archive?"}).status == 200
    finally:
        stages.close()
    first, second = metric_lines(capsys.readouterr().out)
    assert first["ResultCacheMiss"] == [1.0]
    assert second["ResultCacheHit"] == [1.0]
    assert "ResultCacheMiss" not in second
