"""Plan: decide how one question is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.aging import FOREVER
from braid.errors import StoreError
from braid.planning import make_plan
from braid.stages.states import Planned, PlanRequest
from braid.stages.timing import Stopwatch

if TYPE_CHECKING:
    from datetime import datetime

    from braid.engines.ports import GraphStats, KnowledgeGraph
    from braid.models import EmbeddingType


def run(
    request: PlanRequest,
    *,
    graph: KnowledgeGraph,
    model_ids: dict[EmbeddingType, str],
    candidates: int,
    holds_from: datetime | None = None,
) -> Planned:
    """Return the question with its plan. A graph that does not answer costs the counts, not the plan.

    Parameters
    ----------
    holds_from
        Ask as well when validity next changes something in the graph after this moment; None leaves it out.
    """
    watch = Stopwatch()
    stats: GraphStats | None
    holds_until: datetime | None = None
    try:
        stats = graph.stats(request.query.tenant_id)
        if holds_from is not None:
            holds_until = graph.next_change(request.query.tenant_id, after=holds_from) or FOREVER
    except StoreError:
        stats = None
    plan = make_plan(request.query, model_ids=model_ids, candidates=candidates, stats=stats)
    return Planned(
        query=request.query,
        plan=plan,
        trace_id=request.trace_id,
        started_at=request.started_at,
        plan_ms=watch.ms(),
        graph_holds_until=holds_until,
    )
