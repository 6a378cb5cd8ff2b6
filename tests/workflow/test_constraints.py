"""A graph constraint holds in both ways of running, in either order, and when the order turns out to be wrong."""

from __future__ import annotations

import itertools
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from braid.ingestion.writing import WriteRequest, require_written, write
from braid.models import Answer, GraphConstraint, Hints, Query, Strategy
from braid.retrieval import pipeline
from braid.retrieval.stages import graph_constraint
from braid.settings import Settings
from braid.understanding import graph_constraint_cost

from braid_cli.state_machine.interpreter import Workflow
from tests.contract.shapes import edge, record, vertex
from tests.stages import DemoStages
from tests.workflow.test_retrieve import TENANT, comparable, failing

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST = (Strategy.GRAPH_FIRST, Strategy.VECTOR_FIRST)


def question(strategy: Strategy | None = None, *, entity: str = "Tollgate", **changes: Any) -> Query:
    return Query(
        **{
            "text": "Why did label printing fail at the Lisbon depot?",
            "tenant_id": TENANT,
            "graph_constraint": GraphConstraint(entity=entity, depth=2),
            "hints": Hints(strategy=strategy),
        }
        | changes
    )


def reached(stages: DemoStages, entity: str = "Tollgate") -> set[str]:
    """Return all records that the constraint reaches, found apart from the stages."""
    inside = graph_constraint.ConstrainedGraph(
        stages.graph, TENANT, GraphConstraint(entity=entity, depth=2), stages.now(), 10_000
    )
    return {hit.id for hit in inside.walk(inside.links()).hits}


def ids(answer: Answer) -> list[str]:
    return [result.id for result in answer.results]


def both(stages: DemoStages, workflow: Workflow, query: Query) -> tuple[Answer, list[str]]:
    """Return the answer, which must be the same both ways, and the states it went through."""
    run = workflow.execute(query)
    through_states = Answer.model_validate(run.output)
    assert comparable(through_states) == comparable(pipeline.answer(query, stages))
    return through_states, run.states()


@pytest.mark.parametrize("strategy", FIRST)
def test_nothing_outside_the_constraint_is_answered_whichever_store_is_asked_first(
    stages: DemoStages, workflow: Workflow, strategy: Strategy
) -> None:
    answer, _ = both(stages, workflow, question(strategy, top_k=50))
    assert ids(answer)
    assert set(ids(answer)) <= reached(stages)


def test_both_orders_give_the_same_answer(stages: DemoStages) -> None:
    walked, searched = (pipeline.answer(question(strategy), stages) for strategy in FIRST)
    assert ids(walked) == ids(searched)
    assert [result.paths for result in walked.results] == [result.paths for result in searched.results]


@pytest.fixture(scope="module")
def long_ids(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoStages]:
    """Return stages over records with the longest ids, which one entity and each other lead to."""
    stages = DemoStages(Settings(home=tmp_path_factory.mktemp("long")))
    names = [f"{number:0256}" for number in range(400)]
    edges = [edge("tollgate", name, "MENTIONS", tenant_id=TENANT, evidence=name) for name in names]
    edges += [edge(one, next_, "CAUSES", tenant_id=TENANT, evidence=one) for one, next_ in pairwise(names)]
    request = WriteRequest(
        tenant_id=TENANT,
        records=tuple(
            record(name, "label printing failed" + " again" * (at % 5), tenant_id=TENANT, embeddings=())
            for at, name in enumerate(names)
        ),
        vertices=(vertex("tollgate", name="Tollgate", tenant_id=TENANT, has_record=False),),
        relationships=tuple(edges),
    )
    require_written(write(request, stages))
    yield stages
    stages.close()


@pytest.mark.parametrize("characters", [50, 10_000])
@pytest.mark.parametrize("strategy", FIRST)
def test_the_state_has_room_for_the_longest_ids(long_ids: DemoStages, strategy: Strategy, characters: int) -> None:
    text = "Why did label printing fail?".ljust(characters, "?")
    query = question(strategy, top_k=50, text=text)
    with Workflow(long_ids.handlers()) as workflow:
        answer, _ = both(long_ids, workflow, query)
    assert len(ids(answer)) == 50
    assert answer.degraded == ()
    assert any(result.paths for result in answer.results)


@pytest.mark.parametrize(("most", "carried"), [(5, 0), (5, 100), (1_000, 0), (1_000, 100)])
@pytest.mark.parametrize("strategy", FIRST)
def test_the_constraint_holds_however_little_of_its_reach_can_be_carried(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch, strategy: Strategy, most: int, carried: int
) -> None:
    everything = reached(stages)
    monkeypatch.setattr(graph_constraint, "CARRIED", carried)
    monkeypatch.setattr(graph_constraint, "MAX_REACH", most)
    with Workflow(stages.handlers()) as workflow:
        answer, states = both(stages, workflow, question(strategy))
    assert ids(answer)
    assert set(ids(answer)) <= everything
    assert ("Check" in states) is (strategy is Strategy.VECTOR_FIRST or most == 5 or carried == 0)


def test_a_search_that_finds_too_little_inside_goes_on_inside(
    stages: DemoStages, workflow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_constraint_cost, "MAX_CANDIDATES", 20)
    narrow = question(Strategy.VECTOR_FIRST, graph_constraint=GraphConstraint(entity="Aldermoor"))
    answer, states = both(stages, workflow, narrow)
    assert states.count("Search") == 2
    assert "KeepChecked" in states
    first = narrow.model_copy(update={"hints": Hints(strategy=Strategy.GRAPH_FIRST)})
    assert ids(answer) == ids(pipeline.answer(first, stages))


@pytest.mark.parametrize("strategy", [None, *FIRST])
@pytest.mark.parametrize("stage", ["plan", "embed", "vector_search", "graph_expand", "fuse_rerank"])
def test_each_lost_stage_degrades_a_constrained_answer_the_same_in_both_ways(
    stages: DemoStages, workflow: Workflow, strategy: Strategy | None, stage: str
) -> None:
    stages.faults[stage] = failing(RuntimeError("lost"))
    answer, _ = both(stages, workflow, question(strategy))
    assert ids(answer)
    assert answer.degraded
    if stage != "graph_expand":
        assert set(ids(answer)) <= reached(stages), "whatever else is lost, the constraint holds"


def test_an_unknown_entity_finds_nothing_and_is_named(stages: DemoStages, workflow: Workflow) -> None:
    for strategy, entity in itertools.product(FIRST, ("Nobody Atall", "N" * 512)):
        answer, _ = both(stages, workflow, question(strategy, entity=entity))
        assert (ids(answer), answer.unknown_entity, answer.degraded) == ([], entity, ())
    known, _ = both(stages, workflow, question())
    assert known.unknown_entity is None


def test_the_plan_says_how_far_the_constraint_is_expected_to_reach(stages: DemoStages) -> None:
    answer = pipeline.answer(question(), stages)
    assert answer.plan.strategy in FIRST
    stored = stages.index.stats(TENANT).records
    assert f" of {stored} records (" in answer.plan.reasons[0]
