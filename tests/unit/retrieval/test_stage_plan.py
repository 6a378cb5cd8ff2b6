"""The plan stage asks the graph for its counts, and plans without them when it does not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from braid.errors import InvalidRequest, StoreError, TransientStoreError
from braid.models import EmbeddingType, Filters, GraphConstraint, Strategy, ValueKind
from braid.ports.knowledge_graph import GraphStats
from braid.retrieval.stages import plan_and_search
from braid.retrieval.stages.stage_messages import Planned, PlanRequest

from tests.fakes import NOW, FakeGraph, FakeIndex, query

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from braid.retrieval.stages.plan_and_search import FieldKinds

MODEL_IDS = dict.fromkeys(EmbeddingType, "all-minilm-l6-v2")
REQUEST = PlanRequest(query=query("Tell me about Tollgate"), trace_id="t-1", started_at=NOW)


def run(
    graph: FakeGraph,
    request: PlanRequest = REQUEST,
    count_records: Callable[[str, bool], int] | None = None,
    field_kinds: FieldKinds | None = None,
) -> Planned:
    return plan_and_search.run_plan(
        request,
        graph=graph,
        model_ids=MODEL_IDS,
        candidates=50,
        count_records=count_records or (lambda *_: 0),
        field_kinds=field_kinds or FakeIndex().field_kinds,
    )


def test_a_plan_keeps_the_question_its_trace_and_its_beginning() -> None:
    planned = run(FakeGraph(stats=GraphStats(edges=3)))
    assert (planned.query, planned.trace_id, planned.started_at) == (REQUEST.query, "t-1", NOW)
    assert (planned.plan.strategy, planned.plan.candidates) == (Strategy.HYBRID, 50)
    assert planned.plan.model_id == "all-minilm-l6-v2"
    assert planned.plan_ms >= 0


def test_a_graph_without_edges_is_not_walked() -> None:
    planned = run(FakeGraph(stats=GraphStats(vertices=9)))
    assert planned.plan.strategy is Strategy.SEMANTIC


def test_fields_are_looked_at_only_where_some_are_named() -> None:
    assert run(FakeGraph()).plan.unknown_fields == ()


def test_conditions_are_typed_as_the_tenants_records_are_and_unknown_fields_are_named() -> None:
    asked: list[tuple[str, list[str], bool]] = []

    def kinds(tenant_id: str, fields: Sequence[str], trusted_only: bool) -> dict[str, frozenset[ValueKind]]:
        asked.append((tenant_id, list(fields), trusted_only))
        return {"floor": frozenset({ValueKind.NUMBER})}

    filters = Filters(metadata=["floor=3", "owner=x"])
    request = REQUEST.model_copy(update={"query": query(filters=filters, facets=("floor", "kind"))})
    planned = run(FakeGraph(), request, field_kinds=kinds)
    assert asked == [(planned.query.tenant_id, ["floor", "owner", "kind"], False)]
    assert planned.query.filters.metadata[0].any_of == (3, 3)
    assert planned.plan.unknown_fields == ("owner", "kind")
    assert "no record has the fields 'owner', 'kind'" in planned.plan.reasons


def test_a_condition_that_its_field_can_never_meet_ends_the_question() -> None:
    request = REQUEST.model_copy(update={"query": query(filters=Filters(metadata=["floor>3"]))})
    with pytest.raises(InvalidRequest, match="field 'floor': records have text there"):
        run(FakeGraph(), request, field_kinds=lambda *_: {"floor": frozenset({ValueKind.TEXT})})


def test_an_index_that_does_not_answer_costs_the_fields_kinds_and_not_the_plan() -> None:
    def down(*_: object) -> dict[str, frozenset[ValueKind]]:
        message = "down"
        raise StoreError(message)

    request = REQUEST.model_copy(update={"query": query(filters=Filters(metadata=["floor>3"]))})
    planned = run(FakeGraph(), request, field_kinds=down)
    assert planned.query == request.query
    assert "the fields' kinds could not be read" in planned.plan.reasons


@pytest.mark.parametrize("error", [StoreError("down"), TransientStoreError("slow")])
def test_a_graph_that_does_not_answer_costs_the_counts_and_not_the_plan(error: StoreError) -> None:
    planned = run(FakeGraph(error=error))
    assert planned.plan.strategy is Strategy.HYBRID
    assert "the graph's counts could not be read" in planned.plan.reasons


def test_only_a_question_with_a_graph_constraint_has_the_records_counted() -> None:
    graph = GraphStats(vertices=100, records=100, edges=5_000)
    asked: list[tuple[str, bool]] = []

    def index(tenant_id: str, trusted_only: bool) -> int:
        asked.append((tenant_id, trusted_only))
        return 100

    request = REQUEST.model_copy(update={"query": query(graph_constraint=GraphConstraint(entity="Keelson", depth=2))})
    run(FakeGraph(stats=graph), count_records=index)
    assert asked == []
    planned = run(FakeGraph(stats=graph), request, index)
    assert asked == [(REQUEST.query.tenant_id, False)]
    assert "about 100 of 100 records (100.0%)" in planned.plan.reasons[0]


def test_records_that_cannot_be_counted_leave_the_graphs_own_count() -> None:
    def index(*given: object) -> int:
        raise StoreError(*given)

    request = REQUEST.model_copy(update={"query": query(graph_constraint=GraphConstraint(entity="Keelson"))})
    graph = FakeGraph(stats=GraphStats(vertices=100, records=40, edges=100))
    planned = run(graph, request, index)
    assert "of 40 records" in planned.plan.reasons[0]
