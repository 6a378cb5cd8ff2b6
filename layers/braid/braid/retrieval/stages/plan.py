"""Plan stage: chooses strategy, intent, models and weights of one question."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from braid.errors import StoreError
from braid.retrieval.stages.states import Planned, PlanRequest, Stopwatch
from braid.understanding.planning import make_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from braid.models import EmbeddingType
    from braid.ports.knowledge_graph import GraphStats, KnowledgeGraph
    from braid.ports.search_index import IndexStats


def run(
    request: PlanRequest,
    *,
    graph: KnowledgeGraph,
    model_ids: dict[EmbeddingType, str],
    candidates: int,
    count_records: Callable[[str], IndexStats],
) -> Planned:
    """Return the question with its plan. A store that does not answer costs its counts, not the plan.

    Parameters
    ----------
    count_records
        Returns the search index's counts of a tenant; called only for a question with a graph constraint, whose plan
        alone depends on them.
    """
    watch = Stopwatch()
    stats: GraphStats | None
    try:
        stats = graph.stats(request.query.tenant_id)
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
    )
