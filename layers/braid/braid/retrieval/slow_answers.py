"""What is said of an answer that took too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from braid.models import Answer


def described(answer: Answer, limit_ms: float, *, with_text: bool) -> dict[str, object] | None:
    """Return what explains a slow answer, as JSON values; None when it was not slow.

    Parameters
    ----------
    limit_ms
        Milliseconds in total, above which an answer is slow.
    with_text
        Whether the plan's reasons are part of it: they quote names that the question mentions.
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
