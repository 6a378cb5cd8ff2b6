"""Plans a question: strategy, number of candidates and steps, with the reason for each.

The weights of vectors, words and graph are not planned: :mod:`braid.ranking.fusion` adapts them to the hits. How far a
walk goes and along which types is decided where it begins, by ``expansion_for`` in
:mod:`braid.retrieval.stages.graph_expand`.
A date in the question is only noted in the reasons; validity is decided by the request's ``as_of`` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from braid.models import (
    Direction,
    Fusion,
    Intent,
    Mode,
    Plan,
    PlanStep,
    Query,
    StepOperation,
    Strategy,
)
from braid.understanding.fact_questions import read_fact_question
from braid.understanding.graph_constraint_cost import (
    MAX_CANDIDATES,
    MAX_REACH,
    estimate_reach,
    graph_first_ms,
    vector_first_ms,
)
from braid.understanding.intent import (
    detect_embedding_type,
    detect_intent,
    detect_mode,
    names_moment,
    unsupported_operators,
    walk_direction,
)
from braid.understanding.multi_hop import describe_steps, parse_steps

if TYPE_CHECKING:
    from braid.models import EmbeddingType, GraphConstraint
    from braid.ports.knowledge_graph import GraphStats
    from braid.understanding.graph_constraint_cost import Estimate

MODES: Final = {
    Mode.DOCUMENT: "the question asks for a part of a document",
    Mode.ENTITY: "the question asks how things relate or compare; the graph counts for more",
    Mode.HYBRID: "text and graph together",
}
"""Reason that the plan states for each mode."""


def choose_strategy(
    query: Query,
    mode: Mode,
    stats: GraphStats | None,
    *,
    within: Estimate | None = None,
    candidates: int = 50,
    steps: tuple[PlanStep, ...] = (),
) -> tuple[Strategy, str]:
    """Return the strategy, that is the order in which the stores are asked, and the reason for it.

    The caller's hints win, then a graph constraint, then the graph's counts and the question's intent.

    Parameters
    ----------
    stats
        Stored counts of the tenant's graph; None when they are not known.
    within
        Estimated reach of the graph constraint; None when it is not known.
    candidates
        Hits fetched from a store.
    steps
        Steps that the question's words name.
    """
    hints = query.hints
    if hints.strategy is not None:
        return hints.strategy, f"{hints.strategy.value}: asked for by the caller"
    if hints.steps:
        return Strategy.MULTI_HOP, f"multi_hop: the caller gave {len(hints.steps)} steps"
    if query.graph_constraint is not None:
        return _constrained_strategy(query.graph_constraint, within, wanted=candidates, top_k=query.top_k)
    if stats is not None and stats.edges == 0:
        return Strategy.SEMANTIC, "semantic: the tenant's graph has no edges"
    if mode is Mode.DOCUMENT:
        return Strategy.SEMANTIC, "semantic: the question asks for a document, page, section or summary"
    if hints.min_similarity is not None:
        return (
            Strategy.VECTOR_FIRST,
            f"vector_first: the graph is walked from texts that are at least {hints.min_similarity} similar",
        )
    if steps:
        return Strategy.MULTI_HOP, f"multi_hop: the question names {len(steps)} steps: {describe_steps(steps)}"
    return Strategy.HYBRID, "hybrid: text and names are searched together, then the graph is walked from what they find"


def _constrained_strategy(
    constraint: GraphConstraint, estimate: Estimate | None, *, wanted: int, top_k: int
) -> tuple[Strategy, str]:
    """Return the cheaper strategy inside a graph constraint, and why; without an estimate, graph first."""
    only = f"only what {constraint.entity!r} reaches can be an answer"
    if estimate is None:
        return Strategy.GRAPH_FIRST, f"graph_first: {only}"
    walk = graph_first_ms(estimate)
    search = vector_first_ms(estimate, wanted=wanted, top_k=top_k)
    expected = (
        f"about {estimate.reach:,} of {estimate.records:,} records ({estimate.share:.1%}) at {estimate.degree:.3g} "
        f"edges a vertex and {constraint.depth} hop{'' if constraint.depth == 1 else 's'}"
    )
    if walk <= search:
        return Strategy.GRAPH_FIRST, f"graph_first: {only}, {expected}: {walk:.1f} ms against {search:.1f} ms"
    against = f"{walk:.1f} ms" if estimate.reach <= MAX_REACH else f"more than the {MAX_REACH:,} that can be listed"
    return Strategy.VECTOR_FIRST, f"vector_first: {only}, but that is {expected}: {search:.1f} ms against {against}"


DEFAULT_STEPS: Final = (
    PlanStep(operation=StepOperation.SEARCH, limit=10),
    PlanStep(operation=StepOperation.EXPAND, limit=20),
    PlanStep(operation=StepOperation.EXPAND, limit=50),
)


def make_plan(
    query: Query,
    *,
    model_ids: dict[EmbeddingType, str],
    candidates: int,
    stats: GraphStats | None,
    records: int | None = None,
) -> Plan:
    """Plan one question.

    Parameters
    ----------
    model_ids
        Ids of the models by the embedding type of the question.
    candidates
        Smallest number of candidates fetched from a store; ``2 × top_k`` when that is more.
    stats
        Stored counts of the tenant's graph; None when they could not be read.
    records
        Number of the tenant's records in the index; used only with a graph constraint.
    """
    mode = detect_mode(query.text)
    intent = query.intent or detect_intent(query.text)
    embedding_type = detect_embedding_type(query.text, intent)
    candidates = min(MAX_CANDIDATES, max(candidates, 2 * query.top_k))
    within = estimate_reach(query.graph_constraint, stats, records) if query.graph_constraint and stats else None
    read = parse_steps(query.text, stats) if stats and intent in {Intent.LOOKUP, Intent.EXPLORATORY} else ()
    strategy, why = choose_strategy(query, mode, stats, within=within, candidates=candidates, steps=read)
    origin = "stated by the caller" if query.intent else "read from the question"
    reasons = [why, f"intent {intent.value}: {origin}", f"mode {mode.value}: {MODES[mode]}"]
    facts, named = None, None
    if stats and not query.hints.steps:
        facts, named = read_fact_question(query.text, stats, intent, as_of=query.as_of)
    if named:
        reasons.append(named)
    reasons += unsupported_operators(query.text, negation_obeyed=facts is not None)
    if query.as_of is None and names_moment(query.text):
        reasons.append("the question names a date and is answered by what is valid now: as_of asks for what held then")
    if stats is None:
        reasons.append("the graph's counts could not be read")
    direction = walk_direction(query.text, intent)
    if intent is Intent.CAUSAL:
        sought = "causes" if direction is Direction.IN else "effects"
        reasons.append(f"the question seeks {sought}")
    if strategy is Strategy.VECTOR_FIRST and query.graph_constraint:
        candidates = within.candidates(candidates) if within else MAX_CANDIDATES
        reasons.append(f"{candidates} hits are checked against the constraint")
    spreads = strategy in (Strategy.HYBRID, Strategy.VECTOR_FIRST) and query.graph_constraint is None
    steps = (query.hints.steps or read or DEFAULT_STEPS) if strategy is Strategy.MULTI_HOP else ()
    return Plan(
        strategy=strategy,
        mode=mode,
        intent=intent,
        embedding_type=embedding_type,
        model_id=model_ids[embedding_type],
        direction=direction,
        fusion=query.fusion or (Fusion.PROPAGATE if spreads else Fusion.WEIGHTED),
        candidates=candidates,
        steps=steps,
        facts=facts,
        reasons=tuple(reasons),
    )
