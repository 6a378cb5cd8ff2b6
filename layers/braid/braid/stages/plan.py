"""Plan: decide how one question is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.errors import StoreError
from braid.planning import make_plan
from braid.stages.states import Planned, PlanRequest
from braid.stages.timing import Stopwatch

if TYPE_CHECKING:
    from braid.engines.ports import GraphStats, KnowledgeGraph
    from braid.models import EmbeddingType


def run(
    request: PlanRequest, *, graph: KnowledgeGraph, model_ids: dict[EmbeddingType, str], candidates: int
) -> Planned:
    """Return the question with its plan. A graph that does not answer costs the counts, not the plan."""
    watch = Stopwatch()
    stats: GraphStats | None
    try:
        stats = graph.stats(request.query.tenant_id)
    except StoreError:
        stats = None
    plan = make_plan(request.query, model_ids=model_ids, candidates=candidates, stats=stats)
    return Planned(
        query=request.query,
        plan=plan,
        trace_id=request.trace_id,
        started_at=request.started_at,
        plan_ms=watch.ms(),
    )
