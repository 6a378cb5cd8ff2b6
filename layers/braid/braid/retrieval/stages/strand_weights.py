"""What each strand brings to fusion, and how much it counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.models import Fusion, Mode, Strategy
from braid.ranking.scoring import clamp
from braid.understanding.planning import adaptive_weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from braid.models import FusionParameters, GraphHit, Hit, Weights
    from braid.retrieval.stages.states import FuseRequest


def strands(request: FuseRequest) -> tuple[Sequence[Hit], Sequence[Hit], Sequence[GraphHit]]:
    """Return the hits of each strand. The last step of a multi-hop plan alone is its answer, when it found any."""
    searched, expanded = request.searched, request.expanded
    if (
        request.plan.strategy is Strategy.MULTI_HOP
        and request.linked is None  # names are looked up only when the steps led nowhere
        and expanded
        and expanded.hits
        and "graph_expand" not in request.lost
    ):
        reached = {hit.id for hit in expanded.hits}
        vector = [hit for hit in searched.vector if hit.id in reached] if searched else []
        lexical = [hit for hit in searched.lexical if hit.id in reached] if searched else []
        return vector, lexical, expanded.hits
    graph = [hit for found in (request.linked, expanded) if found for hit in found.hits]
    if searched is None:
        return (), (), graph
    if request.query.graph_constraint is None or request.linked is None:
        return searched.vector, searched.lexical, graph
    # The constraint decides what may be an answer; being inside it says nothing of relevance.
    allowed = set(request.linked.frontier)
    vector, lexical = (_inside(hits, allowed) for hits in (searched.vector, searched.lexical))
    found = {hit.id for hit in (*vector, *lexical)}
    return vector, lexical, [hit for hit in graph if hit.id in found]


def _inside(hits: Sequence[Hit], allowed: set[str]) -> list[Hit]:
    """Return the hits that a constraint allows, ranked among themselves."""
    kept = [hit for hit in hits if hit.id in allowed]
    return [hit.model_copy(update={"rank": rank}) for rank, hit in enumerate(kept, start=1)]


def unknown_entity(request: FuseRequest) -> str | None:
    """Return the graph constraint's entity when the graph knows none of that name or id."""
    constraint, linked = request.query.graph_constraint, request.linked
    return constraint.entity if constraint and linked and linked.unknown else None


def method(request: FuseRequest) -> Fusion:
    """Return how the strands are combined: as planned, unless there is nothing to propagate from."""
    if request.expanded is not None and request.expanded.propagated:
        return Fusion.PROPAGATE
    planned = request.query.fusion or request.plan.fusion
    return Fusion.WEIGHTED if planned is Fusion.PROPAGATE else planned


def weigh(
    request: FuseRequest,
    vector: Sequence[Hit],
    lexical: Sequence[Hit],
    graph: Sequence[GraphHit],
    parameters: FusionParameters,
) -> Weights:
    """Return how much each strand counts for this question."""
    query, shift = request.query, parameters.entity_shift if request.plan.mode is Mode.ENTITY else 0.0
    text_weight = parameters.vector_weight if query.vector_weight is None else query.vector_weight
    graph_weight = parameters.graph_weight if query.graph_weight is None else query.graph_weight
    return adaptive_weights(
        clamp(text_weight + shift),
        clamp(graph_weight - shift),
        intent=request.plan.intent,
        vector_hits=len(vector),
        lexical_hits=len(lexical),
        graph_hits=len({hit.id for hit in graph}),
        parameters=parameters,
    )
