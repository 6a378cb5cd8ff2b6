"""The deployed state machine answers as the in-process pipeline does: every strategy, every lost stage."""

from __future__ import annotations

import copy
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import InvalidRequest, StoresUnavailable, TransientStoreError
from braid.models import Answer, Direction, GraphConstraint, Hints, PlanStep, Query, StepOperation, Strategy
from braid.retrieval import pipeline
from braid.understanding import graph_constraint_cost

from braid_cli.state_machine.interpreter import Workflow, definition

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stages import DemoStages

STATE_LIMIT_BYTES = 256 * 1024
TENANT = "saltmarrow"


def question(strategy: Strategy | None = None, **changes: Any) -> Query:
    """Return a question whose words, names and graph all find something."""
    fields: dict[str, Any] = {
        "text": "Why did label printing fail at the Lisbon depot?",
        "tenant_id": TENANT,
        "hints": Hints(strategy=strategy),
    }
    if strategy is Strategy.GRAPH_FIRST:
        fields["graph_constraint"] = GraphConstraint(entity=entity_name(), depth=2)
    return Query(**fields | changes)


def entity_name() -> str:
    """Return the name of an entity of the demo corpus that has edges."""
    from tests.stages import DEMO

    first = (DEMO / TENANT / "entities.jsonl").read_text(encoding="utf-8").splitlines()[0]
    name: str = json.loads(first)["name"]
    return name


def comparable(answer: Answer) -> dict[str, Any]:
    """Return an answer without what differs from run to run."""
    return answer.model_dump(exclude={"trace_id", "latency_ms"})


def failing(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def failing_times(count: int, error: Exception) -> Callable[[], None]:
    left = [count]

    def fail() -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise error

    return fail


@pytest.mark.parametrize("strategy", list(Strategy))
def test_every_strategy_answers_alike_in_process_and_through_the_state_machine(
    stages: DemoStages, workflow: Workflow, strategy: Strategy
) -> None:
    query = question(strategy)
    through_states = workflow.answer(query)
    assert through_states.results
    assert through_states.degraded == ()
    assert through_states.plan.strategy is strategy
    assert comparable(through_states) == comparable(pipeline.answer(query, stages))


@pytest.mark.parametrize(
    "text",
    [
        "Who owns Keelson?",
        "How many services depend on Keelson?",
        "Which services do not depend on Keelson?",
        "Who works on the services that the Dock team owns?",
        "Who owns the services that depend on Foretop?",
    ],
)
def test_facts_answer_alike_in_process_and_through_the_state_machine(
    stages: DemoStages, workflow: Workflow, text: str
) -> None:
    query = question(text=text)
    answer = workflow.answer(query)
    assert answer.results[0].facts is not None
    assert comparable(answer) == comparable(pipeline.answer(query, stages))


GRAPH_MARKS = {"graph_expand:link": "link", "graph_expand:walk": "graph_expand", "graph_expand:expand": "graph_expand"}
LOST = ["plan", "embed", "vector_search", *GRAPH_MARKS, "graph_expand", "fuse_rerank"]


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("stage", LOST)
def test_each_lost_stage_degrades_the_same_answer_in_both_ways(
    stages: DemoStages, workflow: Workflow, strategy: Strategy, stage: str
) -> None:
    query = question(strategy)
    stages.faults[stage] = failing(RuntimeError("lost"))
    through_states = workflow.answer(query)
    stages.calls.clear()
    in_process = pipeline.answer(query, stages)
    assert comparable(through_states) == comparable(in_process)
    assert through_states.results, "another strand can answer"
    if stages.calls.get(stage):
        marks = {"fuse_rerank": {"rerank"}, "graph_expand": {"link", "graph_expand"}}
        marks |= {operation: {mark} for operation, mark in GRAPH_MARKS.items()}
        assert marks.get(stage, {stage}) & set(through_states.degraded)
    else:
        assert through_states.degraded == ()


@pytest.mark.parametrize("strategy", list(Strategy))
def test_only_both_stores_down_fails_the_question(stages: DemoStages, workflow: Workflow, strategy: Strategy) -> None:
    stages.faults["vector_search"] = failing(RuntimeError("index is down"))
    stages.faults["graph_expand"] = failing(RuntimeError("graph is down"))
    with pytest.raises(StoresUnavailable):
        workflow.answer(question(strategy))
    with pytest.raises(StoresUnavailable):
        pipeline.answer(question(strategy), stages)


def test_a_reranker_that_kills_its_function_is_left_out_of_the_second_try(
    stages: DemoStages, workflow: Workflow
) -> None:
    stages.faults["fuse_rerank"] = failing(MemoryError())
    answer = workflow.answer(question())
    assert answer.degraded == ("rerank",)
    assert [result.relevance for result in answer.results[:3]] == [1.0, 0.99, 0.98]


def test_a_schema_registry_that_is_down_costs_drift_and_not_the_answer(
    stages: DemoStages, workflow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy = workflow.answer(question())

    def down(tenant_id: str) -> int:
        raise TransientStoreError(f"no answer for {tenant_id}")

    monkeypatch.setattr(stages.schemas, "current", down)
    answer = workflow.answer(question())
    assert answer.degraded == ("schema",)
    assert {result.id for result in answer.results} == {result.id for result in healthy.results}
    assert comparable(answer) == comparable(pipeline.answer(question(), stages))


def test_a_fuse_stage_that_fails_twice_is_an_outage_in_both_ways(stages: DemoStages, workflow: Workflow) -> None:
    stages.faults["fuse_rerank"] = failing(MemoryError())
    stages.faults["fuse_rerank:second"] = failing(MemoryError())
    with pytest.raises(StoresUnavailable):
        workflow.answer(question())
    with pytest.raises(StoresUnavailable):
        pipeline.answer(question(), stages)


def test_a_transient_store_error_is_retried_and_leaves_no_mark(stages: DemoStages, workflow: Workflow) -> None:
    stages.faults["vector_search"] = failing_times(2, TransientStoreError("throttled"))
    answer = workflow.answer(question(Strategy.SEMANTIC))
    assert answer.degraded == ()
    assert stages.calls["vector_search"] == 3


def test_an_error_that_trying_again_will_not_help_is_not_retried(stages: DemoStages, workflow: Workflow) -> None:
    stages.faults["vector_search"] = failing(RuntimeError("malformed"))
    workflow.answer(question(Strategy.HYBRID))
    assert stages.calls["vector_search"] == 1


@pytest.mark.parametrize("stage", ["embed", "vector_search", "graph_expand:link", "graph_expand:expand", "fuse_rerank"])
def test_a_stage_that_hangs_is_lost_when_its_time_is_up(stages: DemoStages, stage: str) -> None:
    asl = copy.deepcopy(definition())
    for state in all_states(asl).values():
        if "TimeoutSeconds" in state and state["Type"] == "Task":
            state["TimeoutSeconds"] = 1
    released = threading.Event()
    stages.faults[stage] = lambda: released.wait(timeout=20) and None
    try:
        with Workflow(stages.handlers(), asl) as hurried:
            answer = hurried.answer(question())
    finally:
        released.set()
    marks = GRAPH_MARKS | {"fuse_rerank": "rerank"}
    assert marks.get(stage, stage) in answer.degraded
    assert answer.results


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"text": ""}, "query.text"),
        ({"text": "x" * 10_001}, "query.text"),
        ({"top_k": 0}, "query.top_k"),
        ({"top_k": 51}, "query.top_k"),
        ({"top_k": "5"}, "query.top_k"),
        ({"top_k": True}, "query.top_k"),
        ({"intent": "guess"}, "query.intent"),
        ({"tenant_id": "a b"}, "query.tenant_id"),
        ({"tenant_id": "tenànt"}, "query.tenant_id"),
        ({"surprise": 1}, "query.surprise"),
    ],
)
def test_a_wrong_question_is_refused_by_the_state_machine_and_names_the_field(
    stages: DemoStages, workflow: Workflow, changes: dict[str, Any], field: str
) -> None:
    body = question().model_dump(mode="json") | changes
    with pytest.raises(InvalidRequest, match=f"^{field}: "):
        workflow.execute(body)
    assert stages.calls == {}


def test_the_state_machine_visits_every_state(
    stages: DemoStages, workflow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_constraint_cost, "MAX_CANDIDATES", 20)  # of which few enough are inside a constraint
    seen: set[str] = set()

    def visit(query: Query | dict[str, Any], **faults: Callable[[], None]) -> None:
        stages.healthy()
        stages.faults = {name.replace("__", ":"): fault for name, fault in faults.items()}
        try:
            seen.update(workflow.execute(query).states())
        except (InvalidRequest, StoresUnavailable) as error:
            seen.add("Refused" if isinstance(error, InvalidRequest) else "Unavailable")

    lost = failing(RuntimeError("lost"))
    for strategy in Strategy:
        visit(question(strategy))
    constrained = {"graph_constraint": GraphConstraint(entity="Aldermoor")}
    visit(question(Strategy.VECTOR_FIRST, **constrained))
    visit(question(), plan=lost)
    visit(question(), vector_search=lost)
    visit(question(), graph_expand__link=lost)
    visit(question(Strategy.SEMANTIC), vector_search=lost)
    visit(question(), fuse_rerank=lost)
    visit(question(), vector_search=lost, graph_expand=lost)
    visit({"text": ""})
    assert seen == set(all_states(definition()))


def all_states(asl: dict[str, Any]) -> dict[str, Any]:
    """Return every state by name, those inside branches as well."""
    states: dict[str, Any] = {}
    for name, state in asl["States"].items():
        states[name] = state
        for branch in state.get("Branches", []):
            states |= all_states(branch)
    return states


def test_every_task_has_a_time_limit_retries_and_a_way_on(stages: DemoStages) -> None:
    del stages
    for name, state in all_states(definition()).items():
        if state["Type"] != "Task":
            continue
        assert state["TimeoutSeconds"] <= 10, name
        assert state["Catch"][-1]["ErrorEquals"] == ["States.ALL"], name
        (retry,) = state["Retry"]
        assert retry["JitterStrategy"] == "FULL", name
        assert {"Lambda.ServiceException", "Lambda.TooManyRequestsException", "TransientStoreError"} <= set(
            retry["ErrorEquals"]
        ), name


def test_the_default_plan_is_the_same_in_both_ways() -> None:
    stated = all_states(definition())["DefaultPlan"]["Parameters"]["plan"]
    assert stated == pipeline.DEFAULT_PLAN.model_dump(mode="json")


def test_the_state_that_flows_holds_no_text_and_stays_small(stages: DemoStages, workflow: Workflow) -> None:
    run = workflow.execute(question(top_k=50))
    contents = [result["content"] for result in run.output["results"]]
    assert len(contents) > 10
    entered = [
        event["stateEnteredEventDetails"]["input"] for event in run.events if "stateEnteredEventDetails" in event
    ]
    for text in entered:
        assert len(text.encode()) < STATE_LIMIT_BYTES / 2
        assert not any(content in text for content in contents)
    assert len(json.dumps(run.output).encode()) < STATE_LIMIT_BYTES
    assert stages.calls["vector_search"] == 1


def test_the_longest_question_lies_in_the_state_once(stages: DemoStages, workflow: Workflow) -> None:
    longest = question().text + "\N{MATHEMATICAL BOLD CAPITAL A}" * (10_000 - len(question().text))
    run = workflow.execute(question(text=longest))
    entered = [
        event["stateEnteredEventDetails"]["input"] for event in run.events if "stateEnteredEventDetails" in event
    ]
    assert {json.dumps(json.loads(text), ensure_ascii=False).count(longest) for text in entered} == {1}
    assert stages.calls["vector_search"] == 1


def test_multi_hop_steps_are_taken_in_order_and_the_last_is_the_answer(stages: DemoStages, workflow: Workflow) -> None:
    steps = (
        PlanStep(operation=StepOperation.SEARCH, limit=5),
        PlanStep(operation=StepOperation.EXPAND, types=("CAUSES",), direction=Direction.IN, limit=20),
    )
    query = question(hints=Hints(steps=steps))
    run = workflow.execute(query)
    answer = Answer.model_validate(run.output)
    assert [name for name in run.states() if name.startswith("Step")] == ["StepSearch", "StepExpand"]
    assert answer.plan.strategy is Strategy.MULTI_HOP
    assert comparable(answer) == comparable(pipeline.answer(query, stages))


def test_another_tenants_records_never_answer(stages: DemoStages, workflow: Workflow) -> None:
    del stages
    for strategy in (Strategy.HYBRID, Strategy.GRAPH_ONLY, Strategy.MULTI_HOP):
        ours = workflow.answer(question(strategy))
        theirs = workflow.answer(question(strategy, tenant_id="pellworth"))
        assert ours.results
        shared = {result.content for result in ours.results} & {result.content for result in theirs.results}
        assert shared == set()
