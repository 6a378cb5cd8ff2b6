"""Traces of answers, how each came about, kept in the cache for a while by trace id and tenant.

OpenTelemetry's traces, of spans and their times, are recorded in :mod:`braid.telemetry`.

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
    trace = Trace.taken_from(
        answer,
        asked_at=library.now(),
        question=text if with_text else None,
        # Reasons quote names that the question mentions.
        plan=answer.plan if with_text else answer.plan.model_copy(update={"reasons": ()}),
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
    return TraceResult.taken_from(
        result,
        path_ids=tuple(path.ids for path in result.paths),
        path_types=tuple(path.types for path in result.paths),
    )
