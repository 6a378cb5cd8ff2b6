"""Plan: decide how one question is answered."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from braid.aging import FOREVER
from braid.errors import StoreError
from braid.planning import make_plan
from braid.stages.states import Planned, PlanRequest
from braid.stages.timing import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from braid.engines.ports import GraphStats, IndexStats, KnowledgeGraph
    from braid.models import EmbeddingType


def run(
    request: PlanRequest,
    *,
    graph: KnowledgeGraph,
    model_ids: dict[EmbeddingType, str],
    candidates: int,
    count_records: Callable[[str], IndexStats],
    holds_from: datetime | None = None,
) -> Planned:
    """Return the question with its plan. A store that does not answer costs its counts, not the plan.

    Parameters
    ----------
    count_records
        Returns the search index's counts of a tenant; asked only for a question with a graph constraint, as nothing
        else is weighed by them.
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
    records: IndexStats | None = None
    if request.query.graph_constraint:
        with suppress(StoreError):
            records = count_records(request.query.tenant_id)
    plan = make_plan(request.query, model_ids=model_ids, candidates=candidates, stats=stats, index_stats=records)
    return Planned(
        query=request.query,
        plan=plan,
        trace_id=request.trace_id,
        started_at=request.started_at,
        plan_ms=watch.ms(),
        graph_holds_until=holds_until,
    )
