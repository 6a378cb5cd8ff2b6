"""Log fields of slow answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from braid.models import Answer


def described(answer: Answer, limit_ms: float, *, with_text: bool) -> dict[str, object] | None:
    """Return the trace, stage times and plan of a slow answer as JSON values; None when it was not slow.

    Parameters
    ----------
    limit_ms
        Total milliseconds above which an answer is slow.
    with_text
        Whether the plan's reasons are included: they quote names from the question.
    """
    if answer.latency_ms["total"] <= limit_ms:
        return None
    return {
        "trace_id": answer.trace_id,
        "total_ms": answer.latency_ms["total"],
        "limit_ms": limit_ms,
        "stages_ms": {stage: took for stage, took in answer.latency_ms.items() if stage != "total"},
        "degraded": list(answer.degraded),
        "plan": answer.plan.model_dump(mode="json", exclude=None if with_text else {"reasons"}),
    }
