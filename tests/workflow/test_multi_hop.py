"""Questions that name a chain of relations are answered by its steps, both ways alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from braid.models import Answer, Direction, Fusion, Hints, PlanStep, Query, StepOperation, Strategy
from braid.ports.knowledge_graph import ExpandRequest
from braid.retrieval import pipeline

from tests.stages import NOW
from tests.workflow.test_retrieve import TENANT, comparable, failing

if TYPE_CHECKING:
    from braid_cli.state_machine.interpreter import Workflow
    from tests.stages import DemoStages


def walk(query: Query, *seeds: str, kind: str) -> ExpandRequest:
    return ExpandRequest(
        tenant_id=query.tenant_id,
        seeds=seeds,
        types=(kind,),
        direction=Direction.IN,
        max_hops=1,
        records_only=False,
        limit=200,
        as_of=NOW,
    )


def test_who_owns_what_depends_on_something_is_answered_with_its_path(stages: DemoStages, workflow: Workflow) -> None:
    asked = Query(text="Who owns the services that depend on Keelson?", tenant_id=TENANT)
    run = workflow.execute(asked)
    answer = Answer.model_validate(run.output)
    assert comparable(answer) == comparable(pipeline.answer(asked, stages))
    assert answer.plan.strategy is Strategy.MULTI_HOP
    assert [name for name in run.states() if name.startswith("Step")] == ["StepExpand", "StepExpand"]
    depending = {hit.id for hit in stages.graph.expand(walk(asked, "service:keelson", kind="DEPENDS_ON")).hits}
    owners = {hit.id for hit in stages.graph.expand(walk(asked, *depending, kind="OWNS")).hits}
    assert {entity.id for entity in answer.related_entities if not entity.linked} >= owners
    assert owners
    facts, *others = answer.results
    assert facts.facts
    answers = {fact.answer for fact in facts.facts.facts}
    assert answers >= owners, "and a team that depends on Keelson itself, where the walk began"
    for result in others:
        assert result.id in answers or result.paths[0].ids[0] in answers, "an owner, or what mentions one"


@pytest.mark.parametrize("stage", [None, "plan", "embed", "vector_search", "graph_expand"])
def test_a_chain_from_a_name_that_nothing_has_is_answered_as_any_other_question(
    stages: DemoStages, workflow: Workflow, stage: str | None
) -> None:
    if stage:
        stages.faults[stage] = failing(RuntimeError("lost"))
    asked = Query(text="Who owns the services that depend on Nonesuch Nowhere?", tenant_id=TENANT)
    run = workflow.execute(asked)
    assert comparable(Answer.model_validate(run.output)) == comparable(pipeline.answer(asked, stages))
    assert "FindTogether" in run.states()
    if stage is None:
        plainly = asked.model_copy(update={"hints": Hints(strategy=Strategy.HYBRID), "fusion": Fusion.WEIGHTED})
        found, expected = pipeline.answer(asked, stages), pipeline.answer(plainly, stages)
        assert [result.id for result in found.results] == [result.id for result in expected.results]


def test_a_callers_walks_of_a_lost_graph_leave_the_index_to_answer(stages: DemoStages, workflow: Workflow) -> None:
    stages.faults["graph_expand"] = failing(RuntimeError("lost"))
    walks = tuple(PlanStep(operation=StepOperation.EXPAND) for _ in range(2))
    asked = Query(text="Who owns Keelson?", tenant_id=TENANT, hints=Hints(steps=walks))
    answer = Answer.model_validate(workflow.execute(asked).output)
    assert comparable(answer) == comparable(pipeline.answer(asked, stages))
    assert answer.results
    assert "graph_expand" in answer.degraded


def test_no_judged_question_of_the_demo_is_taken_for_a_chain(stages: DemoStages) -> None:
    from braid.understanding.multi_hop import parse_steps

    from braid_cli.datasets.dataset import read_dataset
    from tests.stages import DEMO

    counts = stages.graph.stats(TENANT)
    texts = [question.query.text for question in read_dataset(DEMO / TENANT, TENANT, judged=True).judged]
    assert len(texts) > 50
    assert [text for text in texts if parse_steps(text, counts)] == []
