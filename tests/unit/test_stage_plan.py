"""The plan stage asks the graph for its counts, and plans without them when it does not answer."""

from __future__ import annotations

import pytest
from braid.engines.ports import GraphStats
from braid.errors import StoreError, TransientStoreError
from braid.models import EmbeddingType, Strategy
from braid.stages import plan
from braid.stages.states import PlanRequest

from tests.fakes import NOW, FakeGraph, query

MODEL_IDS = dict.fromkeys(EmbeddingType, "all-minilm-l6-v2")
REQUEST = PlanRequest(query=query("Tell me about Tollgate"), trace_id="t-1", started_at=NOW)


def test_a_plan_keeps_the_question_its_trace_and_its_beginning() -> None:
    planned = plan.run(REQUEST, graph=FakeGraph(stats=GraphStats(edges=3)), model_ids=MODEL_IDS, candidates=50)
    assert (planned.query, planned.trace_id, planned.started_at) == (REQUEST.query, "t-1", NOW)
    assert (planned.plan.strategy, planned.plan.candidates) == (Strategy.HYBRID, 50)
    assert planned.plan.model_id == "all-minilm-l6-v2"
    assert planned.plan_ms >= 0


def test_a_graph_without_edges_is_not_walked() -> None:
    planned = plan.run(REQUEST, graph=FakeGraph(stats=GraphStats(vertices=9)), model_ids=MODEL_IDS, candidates=50)
    assert planned.plan.strategy is Strategy.SEMANTIC


@pytest.mark.parametrize("error", [StoreError("down"), TransientStoreError("slow")])
def test_a_graph_that_does_not_answer_costs_the_counts_and_not_the_plan(error: StoreError) -> None:
    planned = plan.run(REQUEST, graph=FakeGraph(error=error), model_ids=MODEL_IDS, candidates=50)
    assert planned.plan.strategy is Strategy.HYBRID
    assert "the graph's counts could not be read" in planned.plan.reasons
