"""What a question is read as: mode, intent, kind of model, direction of the walk, strategy, weights."""

from __future__ import annotations

import pytest
from braid.engines.ports import GraphStats
from braid.models import (
    Direction,
    EmbeddingType,
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
from braid.planning import (
    DEFAULT_STEPS,
    adaptive_weights,
    choose_strategy,
    detect_embedding_type,
    detect_intent,
    detect_mode,
    make_plan,
    walk_direction,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import TENANT, query

L, X, T, C = Intent.LOOKUP, Intent.EXPLORATORY, Intent.TEMPORAL, Intent.CAUSAL
GENERAL, CODE, DOCUMENT = EmbeddingType.GENERAL, EmbeddingType.CODE, EmbeddingType.DOCUMENT
BY_INTENT = {T: EmbeddingType.TEMPORAL, C: EmbeddingType.CAUSAL}
STEP = PlanStep(operation=StepOperation.SEARCH)
SOME_EDGES = GraphStats(vertices=4, edges=3)
MODEL_IDS = {kind: f"model-of-{kind.value}" for kind in EmbeddingType}

QUESTIONS = [
    ("Summarise page 12 of the report", Mode.DOCUMENT, X, GENERAL),
    ("Which section covers retention?", Mode.DOCUMENT, L, GENERAL),
    ("a summary of the meeting", Mode.DOCUMENT, X, GENERAL),
    ("pages on onboarding", Mode.DOCUMENT, X, GENERAL),
    ("the paper plane page", Mode.DOCUMENT, X, DOCUMENT),
    ("relationship between Keelson and Bilge", Mode.ENTITY, X, GENERAL),
    ("relationships between the two vendors", Mode.ENTITY, X, GENERAL),
    ("How are Keelson and Bilge related?", Mode.ENTITY, X, GENERAL),
    ("how is Tollgate connected to the gateway", Mode.ENTITY, X, GENERAL),
    ("Compare silver and gold cover", Mode.ENTITY, X, GENERAL),
    ("a comparison of the two candidates", Mode.ENTITY, X, GENERAL),
    ("Compare page 3 with page 4", Mode.HYBRID, X, GENERAL),
    ("a homepage for the team", Mode.HYBRID, X, GENERAL),
    ("incomparable views", Mode.HYBRID, X, GENERAL),
    ("intersections near the depot", Mode.HYBRID, X, GENERAL),
    ("How long are logs kept? Something related to retention", Mode.HYBRID, X, GENERAL),
    ("Who owns the ledger?", Mode.HYBRID, L, GENERAL),
    ("Whose budget pays for it?", Mode.HYBRID, L, GENERAL),
    ("which team owns it", Mode.HYBRID, L, GENERAL),
    ("Find the on-call rota", Mode.HYBRID, L, GENERAL),
    ("Where is the depot?", Mode.HYBRID, L, GENERAL),
    ("What is the cut-off time?", Mode.HYBRID, L, GENERAL),
    ("findings of the audit", Mode.HYBRID, X, GENERAL),
    ("Tell me about Tollgate", Mode.HYBRID, X, GENERAL),
    ("nowhere to park", Mode.HYBRID, X, GENERAL),
    ("When did the lockout end?", Mode.HYBRID, T, None),
    ("What was decided before the freeze?", Mode.HYBRID, T, None),
    ("What happened after the sale", Mode.HYBRID, T, None),
    ("events during the freeze", Mode.HYBRID, T, None),
    ("Changes since the merger", Mode.HYBRID, T, None),
    ("outages of 2024", Mode.HYBRID, T, None),
    ("outages on 2024-05-17", Mode.HYBRID, T, None),
    ("releases in Q3", Mode.HYBRID, T, None),
    ("releases of the last quarter", Mode.HYBRID, T, None),
    ("what shipped in May?", Mode.HYBRID, T, None),
    ("the release of 3rd March", Mode.HYBRID, T, None),
    ("the outage of March 3", Mode.HYBRID, T, None),
    ("who may enter the depot", Mode.HYBRID, L, GENERAL),
    ("the aftermath", Mode.HYBRID, X, GENERAL),
    ("order 120243 of the customer", Mode.HYBRID, X, GENERAL),
    ("whenever needed", Mode.HYBRID, X, GENERAL),
    ("Why did the payouts fail?", Mode.HYBRID, C, None),
    ("Why did it fail after the upgrade?", Mode.HYBRID, C, None),
    ("the cause of the lockout", Mode.HYBRID, C, None),
    ("What led to the lockout?", Mode.HYBRID, C, None),
    ("failures because of frost", Mode.HYBRID, C, None),
    ("failures due to frost", Mode.HYBRID, C, None),
    ("What prevents a double payment?", Mode.HYBRID, C, None),
    ("What enabled the breach?", Mode.HYBRID, C, None),
    ("What caused the lockout in December 2024?", Mode.HYBRID, C, None),
    ("a causeway by the sea", Mode.HYBRID, X, GENERAL),
    ("Which classes hold the retry logic?", Mode.HYBRID, L, CODE),
    ("function that folds letters", Mode.HYBRID, X, CODE),
    ("Where is the delay implemented?", Mode.HYBRID, L, CODE),
    ("errors of the label printer", Mode.HYBRID, X, CODE),
    ("bugs in the parser", Mode.HYBRID, X, CODE),
    ("coding rules of the team", Mode.HYBRID, X, CODE),
    ("METHODS of the ledger", Mode.HYBRID, X, CODE),
    ("classical music", Mode.HYBRID, X, GENERAL),
    ("terror attack", Mode.HYBRID, X, GENERAL),
    ("a methodical, functional barcode", Mode.HYBRID, X, GENERAL),
    ("profiles of debugged people", Mode.HYBRID, X, GENERAL),
    ("documents about frost", Mode.HYBRID, X, DOCUMENT),
    ("signed delivery notes", Mode.HYBRID, X, DOCUMENT),
    ("an article or a file", Mode.HYBRID, X, DOCUMENT),
    ("wallpaper for the notebook", Mode.HYBRID, X, GENERAL),
    ("error in the document", Mode.HYBRID, X, CODE),
    ("When was the error fixed?", Mode.HYBRID, T, None),
]


@pytest.mark.parametrize(("text", "mode", "intent", "kind"), QUESTIONS)
def test_a_question_is_read_by_whole_words_and_their_inflections(
    text: str, mode: Mode, intent: Intent, kind: EmbeddingType | None
) -> None:
    assert detect_mode(text) is mode
    assert detect_intent(text) is intent
    assert detect_embedding_type(text, intent) is (kind or BY_INTENT[intent])


@pytest.mark.parametrize(
    ("text", "direction"),
    [
        ("Why did the lockout happen?", Direction.IN),
        ("Why did the patch lead to a lockout?", Direction.IN),
        ("What is the root cause of the lockout?", Direction.IN),
        ("the reason for the freeze, and what it led to", Direction.IN),
        ("the lockout happened because of what?", Direction.IN),
        ("What caused the lockout?", Direction.IN),
        ("What has caused the lockout?", Direction.IN),
        ("What could possibly cause a lockout?", Direction.IN),
        ("What led to the lockout?", Direction.IN),
        ("Tell me what led to the lockout", Direction.IN),
        ("What resulted in the lockout?", Direction.IN),
        ("What prevented the lockout?", Direction.IN),
        ("What has prevented the lockout?", Direction.IN),
        ("What is preventing the release?", Direction.IN),
        ("Which change enabled the breach?", Direction.IN),
        ("Who prevented the lockout?", Direction.IN),
        ("What did the patch cause?", Direction.OUT),
        ("What has the patch caused?", Direction.OUT),
        ("Which outage did the patch cause?", Direction.OUT),
        ("What was caused by the patch?", Direction.OUT),
        ("What did it lead to?", Direction.OUT),
        ("What did the long database migration lead to?", Direction.OUT),
        ("What did the patch prevent?", Direction.OUT),
        ("What was prevented by the patch?", Direction.OUT),
        ("What does the token enable?", Direction.OUT),
        ("the freeze led to lost orders", Direction.OUT),
        ("consequences of the freeze", Direction.OUT),
        ("effects of the freeze", Direction.OUT),
        ("the impact of the freeze", Direction.OUT),
    ],
)
def test_a_why_walks_towards_causes_and_what_it_led_to_walks_towards_effects(text: str, direction: Direction) -> None:
    assert detect_intent(text) is C
    assert walk_direction(text, C) is direction


def test_a_temporal_walk_goes_both_ways_and_any_other_walk_forwards() -> None:
    assert walk_direction("What came before the freeze?", T) is Direction.BOTH
    assert walk_direction("Who is Oyin?", L) is Direction.OUT


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
            0.5, 0.5, intent=X, vector_hits=vector, lexical_hits=lexical, graph_hits=graph, lexical_share=0.3
        )
        return made.vector, made.lexical, made.graph

    assert weigh(8, 8, 8) == pytest.approx((0.35, 0.15, 0.5))
    assert weigh(0, 8, 8) == pytest.approx((0.0, 0.5, 0.5))
    assert weigh(8, 0, 8) == pytest.approx((0.5, 0.0, 0.5))
    assert weigh(8, 8, 0) == pytest.approx((0.7, 0.3, 0.0))
    assert weigh(0, 0, 3) == (0.0, 0.0, 1.0)


@given(
    vector_weight=st.floats(0, 1),
    graph_weight=st.floats(0, 1),
    intent=st.sampled_from(Intent),
    vector_hits=st.integers(0, 60),
    graph_hits=st.integers(0, 60),
    lexical_hits=st.none() | st.integers(0, 60),
    lexical_share=st.floats(0, 1),
)
def test_weights_are_always_in_the_unit_interval_and_sum_to_one(**given_: object) -> None:
    weights: Weights = adaptive_weights(given_.pop("vector_weight"), given_.pop("graph_weight"), **given_)  # type: ignore[arg-type]
    parts = (weights.vector, weights.lexical, weights.graph)
    assert all(0.0 <= part <= 1.0 for part in parts)
    assert sum(parts) == pytest.approx(1.0)


def test_a_tenant_is_no_part_of_a_plan() -> None:
    one, other = (Query(text="who is Oyin", tenant_id=tenant) for tenant in (TENANT, "other"))
    assert make_plan(one, model_ids=MODEL_IDS, candidates=50, stats=None) == make_plan(
        other, model_ids=MODEL_IDS, candidates=50, stats=None
    )
