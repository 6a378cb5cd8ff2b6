"""Vector search stage: queries the search index by vector and by words, in one round trip."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.ports.search_index import SearchRequest
from braid.ranking import schema_drift
from braid.ranking.fusion import reciprocal_rank_fusion
from braid.retrieval.stages.states import Searched, SearchStageRequest, Stopwatch

if TYPE_CHECKING:
    from datetime import datetime

    from braid.models import Filters, Hit, PlanStep
    from braid.ports.search_index import SearchIndex


def run(
    request: SearchStageRequest, *, index: SearchIndex, now: datetime, schema_version: int | None, reach: int
) -> Searched:
    """Return hits of both text strands, inside the tenant, the filters, the schema window and what is valid.

    Parameters
    ----------
    reach
        How many schema versions the window goes back.
    """
    watch = Stopwatch()
    query, plan, step = request.query, request.plan, request.step
    found = index.search(
        SearchRequest(
            tenant_id=query.tenant_id,
            text=query.text,
            embedding=request.embedded.embedding if request.embedded else None,
            k=plan.candidates,
            filters=_filters(query.filters, step),
            ids=request.frontier,
            as_of=query.as_of or now,
            min_schema_version=1 if schema_version is None else schema_drift.oldest_searched(schema_version, reach),
        )
    )
    least = query.hints.min_similarity
    vector = found.vector if least is None else tuple(hit for hit in found.vector if hit.score >= least)
    lexical = found.lexical if least is None else ()
    return Searched(
        vector=vector,
        lexical=lexical,
        superseded=found.superseded,
        begins_at=found.begins_at,
        outdated=found.outdated,
        space_empty=found.space_empty,
        frontier=best_ids(vector, lexical, limit=step.limit if step else plan.candidates),
        took_ms=watch.ms(),
    )


def best_ids(vector: tuple[Hit, ...], lexical: tuple[Hit, ...], *, limit: int) -> tuple[str, ...]:
    """Return the best ids by reciprocal rank fusion of both text strands, ties by id."""
    runs = [(1.0, {hit.id: hit.rank for hit in hits}) for hits in (vector, lexical)]
    scores = reciprocal_rank_fusion(runs)
    return tuple(sorted(scores, key=lambda identity: (-scores[identity], identity))[:limit])


def _filters(filters: Filters, step: PlanStep | None) -> Filters:
    if step is None or not step.entity_types:
        return filters
    return filters.model_copy(update={"entity_types": step.entity_types})
