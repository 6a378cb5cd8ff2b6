"""Metrics of answers: latency, lost parts, candidates by source, cost of reranking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.models import Source

if TYPE_CHECKING:
    from braid.models import Answer

LOST_PREFIX = "Lost"


def figures(answer: Answer) -> dict[str, int | float]:
    """Return the metrics of one answer by name.

    Returns
    -------
    dict
        ``AnswerLatency`` in ms, end to end; ``AnswerDegraded`` and ``AnswerEmpty``, 0 or 1, so
        that their means are shares; ``LostRerank`` and the like, 1 for each part that was lost and not there otherwise;
        ``CandidatesVector`` and the like, hits by source; ``Superseded`` and ``OutdatedMet``, records;
        ``RerankCostUsd``.
    """
    return {
        "AnswerLatency": answer.latency_ms["total"],
        "AnswerDegraded": int(bool(answer.degraded)),
        "AnswerEmpty": int(not answer.results),
        **{lost_metric(part): 1 for part in answer.degraded},
        **{f"Candidates{source.value.title()}": answer.counts[source.value] for source in Source},
        "Superseded": answer.superseded,
        "OutdatedMet": answer.counts["outdated"],
        "RerankCostUsd": answer.rerank_cost_usd,
    }


def lost_metric(part: str) -> str:
    """Return the metric name of a lost part: ``LostVectorSearch`` for ``vector_search``."""
    return LOST_PREFIX + part.title().replace("_", "")
