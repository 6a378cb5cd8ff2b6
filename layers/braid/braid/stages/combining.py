"""What each strand brings to fusion, and how much it counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.models import Mode, Strategy
from braid.planning import adaptive_weights
from braid.scoring import clamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from braid.models import FusionParameters, GraphHit, Hit, Weights
    from braid.stages.states import FuseRequest


def strands(request: FuseRequest) -> tuple[Sequence[Hit], Sequence[Hit], Sequence[GraphHit]]:
    """Return the hits of each strand. The last step of a multi-hop plan alone is its answer, when it found any."""
    searched, expanded = request.searched, request.expanded
    if (
        request.plan.strategy is Strategy.MULTI_HOP
        and expanded
        and expanded.hits
        and "graph_expand" not in request.lost
    ):
        reached = {hit.id for hit in expanded.hits}
        vector = [hit for hit in searched.vector if hit.id in reached] if searched else []
        lexical = [hit for hit in searched.lexical if hit.id in reached] if searched else []
        return vector, lexical, expanded.hits
    graph = [hit for found in (request.linked, expanded) if found for hit in found.hits]
    if request.plan.strategy is Strategy.GRAPH_FIRST and searched is not None:
        # The constraint decides what may be an answer; being inside it says nothing of relevance.
        found = {hit.id for hit in (*searched.vector, *searched.lexical)}
        graph = [hit for hit in graph if hit.id in found]
    return (searched.vector, searched.lexical, graph) if searched else ((), (), graph)


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
