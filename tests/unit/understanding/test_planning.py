"""How a question is answered: strategy, steps, weights, and the reasons."""

from __future__ import annotations

import pytest
from braid.models import (
    Direction,
    EmbeddingType,
    FusionParameters,
    GraphConstraint,
    Hints,
    Intent,
    Mode,
    PlanStep,
    Query,
    StepOperation,
    Strategy,
    Weights,
)
from braid.ports.knowledge_graph import GraphStats
from braid.ranking.fusion import adaptive_weights
from braid.understanding.planning import (
    DEFAULT_STEPS,
    choose_strategy,
    make_plan,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import TENANT, query

L, X, T, C = Intent.LOOKUP, Intent.EXPLORATORY, Intent.TEMPORAL, Intent.CAUSAL
GENERAL = EmbeddingType.GENERAL
STEP = PlanStep(operation=StepOperation.SEARCH)
SOME_EDGES = GraphStats(vertices=4, edges=3)
MODEL_IDS = {kind: f"model-of-{kind.value}" for kind in EmbeddingType}

CONSTRAINT = GraphConstraint(entity="Keelson")


@pytest.mark.parametrize(
    ("asked", "mode", "stats", "strategy", "because"),
    [
        (query(hints=Hints(strategy=Strategy.GRAPH_ONLY)), Mode.DOCUMENT, None, Strategy.GRAPH_ONLY, "by the caller"),
        (query(hints=Hints(strategy=Strategy.SEMANTIC, steps=(STEP,))), Mode.HYBRID, None, Strategy.SEMANTIC, "caller"),
        (query(hints=Hints(steps=(STEP, STEP))), Mode.DOCUMENT, None, Strategy.MULTI_HOP, "2 steps"),
        (query(graph_constraint=CONSTRAINT), Mode.DOCUMENT, None, Strategy.GRAPH_FIRST, "'Keelson'"),
        (query(), Mode.ENTITY, GraphStats(vertices=9), Strategy.SEMANTIC, "no edges"),
        (query(), Mode.DOCUMENT, SOME_EDGES, Strategy.SEMANTIC, "document, page, section or summary"),
        (query(hints=Hints(min_similarity=0.4)), Mode.HYBRID, SOME_EDGES, Strategy.VECTOR_FIRST, "0.4"),
        (query(), Mode.HYBRID, SOME_EDGES, Strategy.HYBRID, "together"),
        (query(), Mode.ENTITY, None, Strategy.HYBRID, "together"),
    ],
)
def test_a_strategy_is_chosen_by_hint_then_structure_then_counts_and_says_why(
    asked: Query, mode: Mode, stats: GraphStats | None, strategy: Strategy, because: str
) -> None:
    chosen, why = choose_strategy(asked, mode, stats)
    assert chosen is strategy
    assert why.startswith(f"{strategy.value}: ")
    assert because in why


def test_a_plan_carries_its_model_its_reasons_and_twice_top_k_candidates() -> None:
    made = make_plan(query("Why did it fail?", top_k=40), model_ids=MODEL_IDS, candidates=50, stats=None)
    assert (made.intent, made.embedding_type, made.model_id) == (C, EmbeddingType.CAUSAL, "model-of-causal")
    assert (made.candidates, made.direction, made.steps) == (80, Direction.IN, ())
    assert "intent causal: read from the question" in made.reasons
    assert "the question seeks causes" in made.reasons
    assert "the graph's counts could not be read" in made.reasons
    few = make_plan(query(top_k=10), model_ids=MODEL_IDS, candidates=50, stats=SOME_EDGES)
    assert few.candidates == 50
    assert "the graph's counts could not be read" not in few.reasons


def test_the_callers_intent_stands_whatever_the_words_say() -> None:
    made = make_plan(query("Why did it fail?", intent=L), model_ids=MODEL_IDS, candidates=50, stats=SOME_EDGES)
    assert (made.intent, made.embedding_type) == (L, GENERAL)
    assert "intent lookup: stated by the caller" in made.reasons


def test_a_multi_hop_plan_has_the_callers_steps_or_search_and_two_walks() -> None:
    asked = query(hints=Hints(strategy=Strategy.MULTI_HOP))
    assert make_plan(asked, model_ids=MODEL_IDS, candidates=50, stats=None).steps == DEFAULT_STEPS
    asked = query(hints=Hints(steps=(STEP,)))
    assert make_plan(asked, model_ids=MODEL_IDS, candidates=50, stats=None).steps == (STEP,)


@pytest.mark.parametrize(
    ("intent", "vector_hits", "graph_hits", "vector", "graph"),
    [
        (X, 8, 8, 0.5, 0.5),
        (T, 8, 8, 0.4, 0.6),
        (C, 8, 8, 0.35, 0.65),
        (L, 8, 8, 0.6, 0.4),
        (X, 4, 11, 0.4, 0.6),
        (X, 5, 11, 0.5, 0.5),
        (X, 4, 10, 0.5, 0.5),
        (X, 11, 4, 0.6, 0.4),
        (C, 1, 30, 0.25, 0.75),
        (L, 30, 1, 0.7, 0.3),
    ],
)
def test_weights_shift_by_intent_and_by_what_was_found(
    intent: Intent, vector_hits: int, graph_hits: int, vector: float, graph: float
) -> None:
    weights = adaptive_weights(0.5, 0.5, intent=intent, vector_hits=vector_hits, graph_hits=graph_hits)
    assert (weights.vector, weights.lexical, weights.graph) == pytest.approx((vector, 0.0, graph))


def test_weights_are_clamped_at_zero_and_normalised_to_one() -> None:
    weights = adaptive_weights(0.1, 0.9, intent=C, vector_hits=8, graph_hits=8)
    assert (weights.vector, weights.graph) == (0.0, 1.0)
    weights = adaptive_weights(0.2, 0.2, intent=T, vector_hits=8, graph_hits=8)
    assert (weights.vector, weights.graph) == pytest.approx((0.25, 0.75))


def test_words_have_their_share_of_the_text_and_what_found_nothing_gives_its_weight_away() -> None:
    def weigh(vector: int, lexical: int, graph: int) -> tuple[float, float, float]:
        made = adaptive_weights(
            0.5,
            0.5,
            intent=X,
            vector_hits=vector,
            lexical_hits=lexical,
            graph_hits=graph,
            lexical_share=0.3,
        )
        return made.vector, made.lexical, made.graph

    assert weigh(8, 8, 8) == pytest.approx((0.35, 0.15, 0.5))
    assert weigh(0, 8, 8) == pytest.approx((0.0, 0.5, 0.5))
    assert weigh(8, 0, 8) == pytest.approx((0.5, 0.0, 0.5))
    assert weigh(8, 8, 0) == pytest.approx((0.7, 0.3, 0.0))
    assert weigh(0, 0, 3) == (0.0, 0.0, 1.0)


shifts = st.floats(-1, 1)
fusion_parameters = st.builds(
    FusionParameters,
    lexical_share=st.floats(0, 1),
    temporal_shift=shifts,
    causal_shift=shifts,
    lookup_shift=shifts,
    exploratory_shift=shifts,
    count_shift=st.floats(0, 1),
)


@given(
    vector_weight=st.floats(0, 1),
    graph_weight=st.floats(0, 1),
    intent=st.sampled_from(Intent),
    vector_hits=st.integers(0, 60),
    graph_hits=st.integers(0, 60),
    lexical_hits=st.none() | st.integers(0, 60),
    parameters=fusion_parameters,
)
def test_weights_are_always_in_the_unit_interval_and_sum_to_one(**given_: object) -> None:
    weights: Weights = adaptive_weights(given_.pop("vector_weight"), given_.pop("graph_weight"), **given_)  # type: ignore[arg-type]
    parts = (weights.vector, weights.lexical, weights.graph)
    assert all(0.0 <= part <= 1.0 for part in parts)
    assert sum(parts) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Which parcels were not delivered?", ["not obeyed: nothing is left out because of 'not'"]),
        ("Which harbours don't freeze?", ['not obeyed: nothing is left out because of "don\'t"']),
        ("Is Beacon bigger than Keelson?", ["not obeyed: nothing is measured against another by 'bigger'"]),
        ("Which runs longer, Beacon or Keelson?", ["not obeyed: nothing is measured against another by 'longer'"]),
        ("Which quay has more cranes than Oriel?", ["not obeyed: nothing is measured against another by 'more'"]),
        ("Tell me more about the newer quay that is no longer used", []),
        ("Which is the oldest quay?", ["not obeyed: nothing is put in order by 'oldest'"]),
        (
            "Who has the most berths without a crane?",
            ["not obeyed: nothing is left out because of 'without'", "not obeyed: nothing is put in order by 'most'"],
        ),
        ("Who has at least two of the berths?", []),
        ("Who wrote 'Never the Oldest'?", []),
        ("What is the best test of interest in the west?", []),
    ],
)
def test_a_plan_names_what_is_negated_or_put_first_and_not_obeyed(text: str, said: list[str]) -> None:
    plan = make_plan(Query(text=text, tenant_id=TENANT), model_ids=MODEL_IDS, candidates=50, stats=None)
    assert [reason for reason in plan.reasons if reason.startswith("not obeyed")] == said


def test_a_tenant_is_no_part_of_a_plan() -> None:
    one, other = (Query(text="who is Oyin", tenant_id=tenant) for tenant in (TENANT, "other"))
    assert make_plan(one, model_ids=MODEL_IDS, candidates=50, stats=None) == make_plan(
        other, model_ids=MODEL_IDS, candidates=50, stats=None
    )


GRAPH = GraphStats(
    vertices=40,
    edges=90,
    by_entity_type={"Service": 20, "Team": 20},
    by_relationship_type={"OWNS": 40, "DEPENDS_ON": 50},
)
CHAIN = "Who owns the services that depend on Keelson?"


def test_a_question_that_names_a_chain_of_relations_is_planned_in_its_steps() -> None:
    made = make_plan(query(CHAIN), model_ids=MODEL_IDS, candidates=50, stats=GRAPH)
    assert made.strategy is Strategy.MULTI_HOP
    assert [step.types for step in made.steps] == [("DEPENDS_ON",), ("OWNS",)]
    assert made.reasons[0] == ("multi_hop: the question names 2 steps: ←DEPENDS_ON Service, then ←OWNS anything")


@pytest.mark.parametrize(
    ("asked", "strategy"),
    [
        (query(CHAIN, intent=C), Strategy.HYBRID),
        (query(CHAIN, hints=Hints(min_similarity=0.5)), Strategy.VECTOR_FIRST),
        (query(CHAIN, graph_constraint=CONSTRAINT), Strategy.GRAPH_FIRST),
        (query(CHAIN, hints=Hints(strategy=Strategy.SEMANTIC)), Strategy.SEMANTIC),
        (query("Who owns the services?"), Strategy.HYBRID),
    ],
)
def test_what_the_caller_or_the_intent_says_comes_before_a_chain(asked: Query, strategy: Strategy) -> None:
    assert make_plan(asked, model_ids=MODEL_IDS, candidates=50, stats=GRAPH).strategy is strategy
    assert make_plan(query(CHAIN), model_ids=MODEL_IDS, candidates=50, stats=None).strategy is Strategy.HYBRID


COUNTED = 20_000
STARS = GraphStats(
    vertices=20_000,
    records=20_000,
    edges=19_000,
    by_relationship_type={"HAS": 9_000, "OWNS": 10_000},
    sources_by_relationship_type={"HAS": 1, "OWNS": 1_000},
    targets_by_relationship_type={"HAS": 9_000, "OWNS": 10_000},
)


@pytest.mark.parametrize(
    ("types", "strategy", "because"),
    [
        (("OWNS",), Strategy.GRAPH_FIRST, "about 10 of 20,000 records (0.1%) at 10 edges a vertex and 1 hop: "),
        (("HAS",), Strategy.VECTOR_FIRST, "about 9,000 of 20,000 records (45.0%) at 9e+03 edges a vertex and 1 hop: "),
    ],
)
def test_a_constraint_is_answered_in_the_cheaper_order_and_the_reason_has_the_numbers(
    types: tuple[str, ...], strategy: Strategy, because: str
) -> None:
    asked = query(graph_constraint=GraphConstraint(entity="Keelson", types=types, direction=Direction.OUT))
    made = make_plan(asked, model_ids=MODEL_IDS, candidates=50, stats=STARS, records=COUNTED)
    assert made.strategy is strategy
    assert because in made.reasons[0]
    assert made.candidates == (112 if strategy is Strategy.VECTOR_FIRST else 50)
