"""Traces of answers, kept in the cache for a while by trace id and tenant.

Ids, scores, timings and the plan; no text of the question or of a record, unless an operator lets logs hold the text of
questions. Without a cache no traces are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from braid.api.schemas import Trace, TraceResult

if TYPE_CHECKING:
    from braid.api.router import Library
    from braid.models import Answer, Result


def keep(library: Library, tenant_id: str, text: str, answer: Answer) -> None:
    """Store the trace of an answer for ``trace_ttl_s`` seconds."""
    if library.settings.trace_ttl_s == 0:
        return
    with_text = library.settings.log_queries
    trace = Trace(
        trace_id=answer.trace_id,
        asked_at=library.now(),
        question=text if with_text else None,
        # Reasons quote names that the question mentions.
        plan=answer.plan if with_text else answer.plan.model_copy(update={"reasons": ()}),
        weights=answer.weights,
        counts=answer.counts,
        superseded=answer.superseded,
        truncated=answer.truncated,
        degraded=answer.degraded,
        latency_ms=answer.latency_ms,
        rerank_cost_usd=answer.rerank_cost_usd,
        results=tuple(_result(result) for result in answer.results),
    )
    library.cache.put(tenant_id, _key(answer.trace_id), trace.model_dump_json().encode(), library.settings.trace_ttl_s)


def find(library: Library, tenant_id: str, trace_id: str) -> Trace | None:
    """Return a tenant's trace; None if it is not stored, or is another tenant's."""
    kept = library.cache.get(tenant_id, _key(trace_id))
    if kept is None:
        return None
    try:
        return Trace.model_validate_json(kept)
    except ValidationError:
        # Written by another version of Braid.
        return None


def _key(trace_id: str) -> str:
    return f"trace/{trace_id}"


def _result(result: Result) -> TraceResult:
    return TraceResult(
        id=result.id,
        rank=result.rank,
        fused_rank=result.fused_rank,
        final=result.final,
        relevance=result.relevance,
        combined_score=result.combined_score,
        vector_score=result.vector_score,
        vector_supplied=result.vector_supplied,
        lexical_score=result.lexical_score,
        graph_score=result.graph_score,
        rerank_score=result.rerank_score,
        ranks=result.ranks,
        sources=result.sources,
        path_ids=tuple(path.ids for path in result.paths),
        path_types=tuple(path.types for path in result.paths),
    )
