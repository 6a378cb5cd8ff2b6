"""One question is one trace: in process, through the state machine, over HTTP; and no trace holds what was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import urllib3
from braid import Braid
from braid.errors import TransientStoreError
from braid.models import Hints, Query, Strategy
from braid.telemetry import names, recording

from tests.served import served, token

if TYPE_CHECKING:
    import pytest

    from braid_cli.state_machine.interpreter import Workflow
    from tests.recorded import Recorded
    from tests.stages import DemoStages

TENANT = "saltmarrow"
TEXT = "Why did label printing fail at the Lisbon depot, and what did Keelson trace?"
"""That no other test asks: its vector and names are in no cache before the first test here."""
CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
STAGES = {"plan", "embed", "vector_search", "link", "graph_expand", "fuse_rerank"}


def query() -> Query:
    return Query(text=TEXT, tenant_id=TENANT, hints=Hints(strategy=Strategy.HYBRID))


def test_in_process_a_question_is_one_trace_with_a_span_for_each_stage_and_store_call(
    stages: DemoStages, recorded: Recorded
) -> None:
    answer = stages.retrieve(query())
    root = recorded.span("retrieval")
    assert len(recorded.traces()) == 1
    assert recorded.children(root) == STAGES
    assert "search sqlite" in recorded.children(recorded.span("vector_search"))
    assert "link sqlite" in recorded.children(recorded.span("link"))
    assert "propagate sqlite" in recorded.children(recorded.span("graph_expand"))
    assert "candidates sqlite" in recorded.children(recorded.span("fuse_rerank"))
    assert root.attributes
    assert dict(root.attributes) == {
        names.OPERATION: "retrieval",
        names.PROVIDER: "braid",
        names.TENANT: TENANT,
        names.TOP_K: 10,
        names.ANSWER: answer.trace_id,
        names.STRATEGY: "hybrid",
        names.MODE: answer.plan.mode.value,
        names.INTENT: answer.plan.intent.value,
        names.RESULTS: len(answer.results),
        names.DEGRADED: (),
    }


def test_through_the_state_machine_all_functions_belong_to_the_trace_of_who_started_it(
    stages: DemoStages, workflow: Workflow, recorded: Recorded
) -> None:
    del stages
    with recording.operation("caller", {}, parent={recording.TRACEPARENT: CALLER}):
        answer = workflow.answer(query())
    assert recorded.traces() == {int(CALLER.split("-")[1], 16)}
    (started,) = [span for span in recorded.spans if span.name.startswith("start ")]
    assert recorded.children(started) == STAGES - {"link"}  # one function links and expands
    assert answer.trace_id.split("-")[1] == CALLER.split("-")[1]


def test_over_http_the_servers_spans_belong_to_the_clients_trace(stages: DemoStages, recorded: Recorded) -> None:
    with served(stages) as address, Braid.deployed(address, token(TENANT)) as braid:
        braid.search(TEXT)
    client, server = recorded.span("POST"), recorded.span("POST /search")
    assert server.get_span_context().trace_id == client.get_span_context().trace_id
    assert server.parent
    assert server.parent.span_id == client.get_span_context().span_id
    assert "retrieval" in recorded.children(server)
    assert client.attributes
    assert client.attributes[names.HTTP_STATUS] == 200


def test_no_span_or_metric_holds_the_question_or_a_text_unless_the_operator_asks_for_questions(
    stages: DemoStages, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = stages.retrieve(query())
    exported = recorded.text()
    assert "Lisbon" not in exported
    assert not any(result.content[:40] in exported or result.id in exported for result in answer.results)
    monkeypatch.setattr(stages, "settings", stages.settings.model_copy(update={"log_queries": True}))
    stages.retrieve(query())
    assert f'"{names.QUERY_TEXT}": "{TEXT}"' in recorded.text()


def test_metrics_have_dimensions_of_few_values_and_none_that_a_tenant_or_caller_makes_up(
    stages: DemoStages, recorded: Recorded
) -> None:
    with served(stages) as address, Braid.deployed(address, token(TENANT)) as braid:
        braid.search(f"{TEXT} And when?")  # of which no answer is cached
        headers = {"Authorization": f"Bearer {token(TENANT)}"}
        urllib3.request("PROPFIND", f"{address}/nowhere/{TENANT}", headers=headers, retries=False)
    points = recorded.points()
    assert {name for name, _ in points} == set(names.DURATIONS)
    assert all(set(dimensions) <= names.DIMENSIONS for _, dimensions in points)
    assert TENANT not in str(points)
    unknown = {names.HTTP_METHOD: "_OTHER", names.HTTP_ROUTE: "unknown", names.HTTP_STATUS: 404}
    assert (names.REQUEST_DURATION, unknown) in points


def test_a_lost_stage_is_a_failed_span_with_the_errors_type_and_without_its_message(
    stages: DemoStages, recorded: Recorded
) -> None:
    def fail() -> None:
        message = f"refused {TEXT}"
        raise TransientStoreError(message)

    stages.faults["graph_expand:link"] = fail
    assert stages.retrieve(query()).degraded == ("link",)
    failed = [span for span in recorded.spans if span.name == "link"]
    assert len(failed) == 3  # once an attempt
    assert all(span.attributes and span.attributes[names.ERROR_TYPE] == "TransientStoreError" for span in failed)
    assert not any(span.status.is_ok or span.status.description or span.events for span in failed)
    assert (names.STAGE_DURATION, {names.STAGE: "link", names.ERROR_TYPE: "TransientStoreError"}) in recorded.points()
