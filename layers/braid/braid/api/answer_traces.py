"""Traces: explanations of answers, stage by stage, stored in the cache by tenant and trace id.

A trace has ids, scores, timings and the plan. It has the question's text only if the operator allows that in logs, and
never a record's text. Without a cache no traces are stored.

OpenTelemetry's traces of spans are recorded in :mod:`braid.telemetry`.
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
        plan=answer.plan if with_text else answer.plan.without_quotes(),
        results=tuple(_result(result) for result in answer.results),
    )
    library.cache.put(tenant_id, _key(answer.trace_id), trace.model_dump_json().encode(), library.settings.trace_ttl_s)


def find(library: Library, tenant_id: str, trace_id: str) -> Trace | None:
    """Return a tenant's trace; None if it is not stored, has expired, or is another tenant's."""
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
