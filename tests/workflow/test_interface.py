"""The library's calls, over the demo corpus: each goes the one way of every question."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import InvalidRequest
from braid.models import Direction, GraphConstraint, Intent, Source, Strategy, TimeRange
from braid.retrieval.tenant_search import TenantQuestions

from tests.workflow.test_retrieve import TENANT

if TYPE_CHECKING:
    from braid.models import Answer, Query

    from tests.stages import DemoStages

ASKED = "Why did label printing fail at the Lisbon depot?"


@pytest.fixture
def ours(stages: DemoStages) -> TenantQuestions:
    return TenantQuestions(stages, TENANT)


def test_a_search_is_planned_and_takes_any_field_of_a_query(ours: TenantQuestions) -> None:
    assert len(ours.search(ASKED, limit=3).results) == 3
    assert ours.search(ASKED, intent=Intent.LOOKUP).plan.intent is Intent.LOOKUP


def test_a_semantic_search_leaves_the_graph_out_and_keeps_to_types_time_and_similarity(ours: TenantQuestions) -> None:
    span = TimeRange(start=datetime(2020, 1, 1, tzinfo=UTC))
    answer = ours.semantic_search(ASKED, ["Event"], span, limit=4, min_similarity=0.05)
    assert answer.plan.strategy is Strategy.SEMANTIC
    assert 0 < len(answer.results) <= 4
    for result in answer.results:
        assert (result.entity_type, result.sources) == ("Event", (Source.VECTOR,))
        assert result.timestamp is not None
        assert result.vector_score is not None
        assert result.timestamp >= datetime(2020, 1, 1, tzinfo=UTC)
        assert result.vector_score >= 0.05


def test_a_hybrid_search_asks_both_stores_and_keeps_to_a_constraint(ours: TenantQuestions) -> None:
    assert ours.hybrid_search(ASKED).plan.strategy is Strategy.HYBRID
    inside = ours.hybrid_search(ASKED, GraphConstraint(entity="Tollgate"), limit=2)
    assert inside.plan.strategy in {Strategy.GRAPH_FIRST, Strategy.VECTOR_FIRST}
    assert len(inside.results) == 2
    reached = {hit.id for hit in ours.related("Tollgate", limit=200).hits}
    everything = ours.hybrid_search(ASKED, GraphConstraint(entity="Tollgate"), limit=50)
    assert {result.id for result in everything.results} <= reached | {"service:tollgate"}


class Asked:
    """A library that keeps what it was asked."""

    def __init__(self, stages: DemoStages) -> None:
        self.graph, self.now = stages.graph, stages.now
        self.stages = stages
        self.query: Query | None = None

    def answer(self, query: Query) -> Answer:
        self.query = query
        return self.stages.answer(query)


@pytest.mark.parametrize(
    ("entity_type", "intent", "vector_weight", "graph_weight"),
    [
        ("Event", Intent.TEMPORAL, 0.4, 0.6),
        ("CodeEntity", Intent.LOOKUP, 0.7, 0.3),
        ("Document", Intent.EXPLORATORY, 0.6, 0.4),
        ("Organization", Intent.LOOKUP, 0.5, 0.5),
    ],
)
def test_each_entity_type_has_its_intent_and_weights_and_only_it_is_answered(
    stages: DemoStages, entity_type: str, intent: Intent, vector_weight: float, graph_weight: float
) -> None:
    library = Asked(stages)
    answer = TenantQuestions(library, TENANT).search_by_entity_type(ASKED, entity_type, limit=30)
    assert library.query is not None
    assert (library.query.vector_weight, library.query.graph_weight) == (vector_weight, graph_weight)
    assert (answer.plan.intent, answer.plan.candidates) == (intent, 60)
    stored = {record.entity_type for record in stages.index.scan(TENANT, limit=1000).records}
    assert {result.entity_type for result in answer.results} == {entity_type} & stored


def test_relations_are_found_by_name_alias_or_id_and_an_unknown_entity_is_refused(ours: TenantQuestions) -> None:
    by_name = ours.related("keelson", ["DEPENDS_ON"], Direction.IN)
    assert by_name.hits
    assert by_name == ours.related("service:keelson", ["DEPENDS_ON"], Direction.IN)
    assert {kind for hit in by_name.hits for kind in hit.path.types} == {"DEPENDS_ON"}
    assert len(ours.related("Keelson", depth=2, limit=200).hits) > len(ours.related("Keelson", limit=200).hits)
    with pytest.raises(InvalidRequest, match=r"^entity: nothing in the .* 'Kelson'; did you mean Keelson\?"):
        ours.related("Kelson")
    with pytest.raises(InvalidRequest, match=r"^entity: nothing in the graph is called 'N+'$"):
        ours.related("N" * 512)
    with pytest.raises(InvalidRequest, match=r"^depth: "):
        ours.related("Keelson", depth=4)


def test_a_moment_without_a_zone_is_one_in_utc_in_every_call(ours: TenantQuestions) -> None:
    at = datetime(2024, 5, 1, tzinfo=UTC)
    for ask in (
        lambda moment: ours.related("Keelson", as_of=moment),
        lambda moment: ours.graph_query({"start": {"names": ["Keelson"]}}, as_of=moment),
        lambda moment: ours.search(ASKED, as_of=moment).results,
    ):
        assert ask(at.replace(tzinfo=None)) == ask("2024-05-01") == ask(at) != ()


def test_a_graph_query_is_of_this_tenant_whatever_it_says(ours: TenantQuestions) -> None:
    steps = [{"direction": "in", "types": ["OWNS"]}]
    found = ours.graph_query({"start": {"names": ["Keelson"]}, "steps": steps})
    assert [hit.path.types for hit in found.hits] == [("OWNS",)]
    with pytest.raises(InvalidRequest, match="tenant_id: unknown field"):
        ours.graph_query({"start": {"names": ["Keelson"]}, "tenant_id": "pellworth"})


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda ours: ours.search(""), "text"),
        (lambda ours: ours.related("Keelson", as_of="last year"), "as_of"),
        (lambda ours: ours.graph_query({"start": {"names": ["Keelson"]}}, as_of=2024), "as_of"),
        (lambda ours: ours.search(ASKED, limit=51), "limit"),
        (lambda ours: ours.semantic_search(ASKED, min_similarity=1.5), "hints.min_similarity"),
        (lambda ours: ours.search_by_entity_type(ASKED, "no type"), "entity_type"),
        (lambda ours: ours.hybrid_search(ASKED, limit=0), "limit"),
    ],
)
def test_a_wrong_argument_is_named(ours: TenantQuestions, call: Any, field: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^{field}: "):
        call(ours)
