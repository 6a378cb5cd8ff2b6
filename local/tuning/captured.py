"""What the stages found for one question, kept so that it can be fused again and again without asking them."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from braid import pipeline, schema
from braid.fitted import Fitted
from braid.fusion import best_scores, combine, fuse
from braid.models import FusionParameters, RerankerKind, Source, Strategy
from braid.stages.combining import strands, weigh
from braid.stages.reading import read

from local.evaluation.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from braid.models import GraphHit, Hit, Weights
    from braid.stages.states import FuseRequest
    from braid.wiring import Wired

    from local.dataset import JudgedQuery

DEPTH = 10
WALKED_FROM_HITS = frozenset({Strategy.HYBRID, Strategy.VECTOR_FIRST})
"""Strategies whose second walk begins at hits of the text search, which count their share."""


@dataclass(frozen=True)
class Captured:
    """One judged question with everything that was found for it."""

    dataset: str
    question: JudgedQuery
    request: FuseRequest
    found: tuple[Sequence[Hit], Sequence[Hit], Sequence[GraphHit]]
    """Hits of the vector, lexical and graph strands."""
    texts: Mapping[Source, Mapping[str, float]]
    certain: Mapping[str, float]
    """Best graph score by id of what was reached from names, or is one."""
    guessed: Mapping[str, float]
    """The same of what was reached from hits of the text search, as if a hit were as certain as a name."""
    factors: Mapping[str, float]
    """By id of what may be an answer, what its schema's age leaves of its score."""
    _measured: dict[tuple[float, ...], dict[str, float]] = field(default_factory=dict)

    def ranking(self, parameters: FusionParameters) -> list[str]:
        """Return the ids that fusion with these parameters puts first, as the pipeline answers without a reranker."""
        return self._first(weigh(self.request, *self.found, parameters), parameters)

    def measure(self, parameters: FusionParameters) -> dict[str, float]:
        """Return what the ranking scores, by metric; remembered, because most changes concern few questions."""
        weights = weigh(self.request, *self.found, parameters)
        key = (weights.vector, weights.lexical, weights.graph, parameters.hit_share, float(parameters.rank_constant))
        if key not in self._measured:
            self._measured[key] = measures(self._first(weights, parameters), self.question.relevant)
        return self._measured[key]

    def _first(self, weights: Weights, parameters: FusionParameters) -> list[str]:
        graph = dict(self.certain)
        for identity, score in self.guessed.items():
            graph[identity] = max(parameters.hit_share * score, graph.get(identity, 0.0))
        scores = combine(
            {**self.texts, Source.GRAPH: graph},
            weights=weights,
            method=self.request.query.fusion,
            rank_constant=parameters.rank_constant,
        )
        relevances = ((-score * self.factors[one], one) for one, score in scores.items() if one in self.factors)
        return [identity for _, identity in heapq.nsmallest(DEPTH, relevances)]


def capture(
    dataset: str,
    judged: Sequence[JudgedQuery],
    wired: Wired,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Captured]:
    """Ask every question once, without a reranker, and keep what was found.

    Parameters
    ----------
    dataset
        The name that the questions are told apart by.
    judged
        Questions with at least one relevant record each.
    wired
        Engines that hold the dataset; from here on their parameters are those of capturing.
    on_progress
        Called with the number of questions asked and the number of all.
    """
    wired.fitted = Fitted(FusionParameters(hit_share=1.0))
    kept: list[Captured] = []
    for done, question in enumerate(judged, start=1):
        recording = Recording(wired)
        query = question.query.model_copy(update={"reranker": RerankerKind.NONE})
        pipeline.answer(query, recording)
        if recording.found is not None:
            kept.append(_keep(dataset, question, recording.found, wired))
        if on_progress:
            on_progress(done, len(judged))
    return kept


def _keep(dataset: str, question: JudgedQuery, request: FuseRequest, wired: Wired) -> Captured:
    found = strands(request)
    vector, lexical, graph = found
    walked = request.expanded.hits if request.expanded and request.plan.strategy in WALKED_FROM_HITS else ()
    of_hits = {id(hit) for hit in walked}
    anyhow = fuse(vector=vector, lexical=lexical, graph=graph, weights=weigh(request, *found, FusionParameters()))
    left = read(
        request.query,
        anyhow,
        wired.index,
        now=wired.now(),
        schema_version=wired.schemas.current(request.query.tenant_id),
        drift_threshold=wired.settings.schema_drift_threshold,
    )
    return Captured(
        dataset=dataset,
        question=question,
        request=request,
        found=found,
        texts={Source.VECTOR: best_scores(vector), Source.LEXICAL: best_scores(lexical)},
        certain=best_scores(hit for hit in graph if id(hit) not in of_hits),
        guessed=best_scores(hit for hit in graph if id(hit) in of_hits),
        factors={item.record.id: schema.FACTORS[item.drift] for item in left.ranked},
    )


def measures(ranking: Sequence[str], relevant: Mapping[str, int]) -> dict[str, float]:
    """Return recall@2, @5 and @10, nDCG@10 and the reciprocal rank of one ranking of at most ten.

    As ir-measures, which takes milliseconds a call where a fit makes a hundred thousand.
    """
    gains = [relevant.get(identity, 0) for identity in ranking[:DEPTH]]
    ideal = _discounted(sorted(relevant.values(), reverse=True)[:DEPTH])
    first = next((rank for rank, gain in enumerate(gains, start=1) if gain > 0), None)
    found = {f"recall@{k}": sum(gain > 0 for gain in gains[:k]) / len(relevant) for k in (2, 5, 10)}
    return {**found, "ndcg@10": _discounted(gains) / ideal if ideal else 0.0, "mrr": 1.0 / first if first else 0.0}


def _discounted(gains: Iterable[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))
