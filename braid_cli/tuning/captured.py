"""What the stages found for one question, kept so that it can be fused again and again without asking them."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from braid.models import Candidate, Fusion, FusionParameters, RerankerKind, Source, Strategy
from braid.ranking import schema_drift
from braid.ranking.fusion import append_below, best_scores, combine
from braid.retrieval import pipeline
from braid.retrieval.caches.graph import GraphMemory
from braid.retrieval.caches.namespace import CacheCounts, Standing
from braid.retrieval.stages import graph_expand, path_coherence
from braid.retrieval.stages.hydration import READ_AT_MOST, read
from braid.retrieval.stages.path_coherence import Mentions
from braid.retrieval.stages.states import GraphFound, GraphOperation, GraphRequest
from braid.retrieval.stages.strand_weights import method, strands, weigh
from braid.settings.fusion_parameters import Fitted

from braid_cli.evaluation.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from braid.app import Wired
    from braid.models import GraphHit, Hit, Weights
    from braid.retrieval.stages.hydration import Ranked
    from braid.retrieval.stages.states import FuseRequest

    from braid_cli.datasets.dataset import JudgedQuery

DEPTH = 10
AT_HAND = 25
"""Candidates that path coherence orders anew: more than it looks at, so that the first ten are all of them."""
WALKED_FROM_HITS = frozenset({Strategy.HYBRID, Strategy.VECTOR_FIRST})
"""Strategies whose second walk begins at hits of the text search."""

REMEMBERED = 1_024
"""Answers of the graph: several for each of some hundred questions, which are asked in turn."""
UNCHANGED = Standing(number=0, settled=True)
"""Nothing is written while parameters are fitted."""


@dataclass(frozen=True)
class Found:
    """What was found for a question, taken apart for fusion."""

    request: FuseRequest
    hits: tuple[Sequence[Hit], Sequence[Hit], Sequence[GraphHit]]
    """Of the vector, lexical and graph strands; of the last, one an id."""
    texts: Mapping[Source, Mapping[str, float]]
    graph: Mapping[str, float]
    """Best graph score by id."""
    propagated: Mapping[str, float]
    read: Mapping[str, Ranked]
    """What may be an answer, with its record."""
    mentions: Mentions
    """What they say of one another."""

    @cached_property
    def spreads(self) -> bool:
        """Whether fusion goes by propagation."""
        return method(self.request) is Fusion.PROPAGATE

    @cached_property
    def enough(self) -> bool:
        """Whether propagation alone reaches all that is ranked, so that the strands' weights change nothing."""
        return self.spreads and len(self.propagated.keys() & self.read.keys()) >= AT_HAND


@dataclass(frozen=True)
class Known:
    """What was read for a question before."""

    mentions: Mentions
    records: dict[str, Ranked | None] = field(default_factory=dict)
    """None for what may be no answer."""
    hits: dict[str, GraphHit] = field(default_factory=dict)
    """One of the graph's hits an id."""
    found: dict[tuple[bool, tuple[tuple[str, float], ...]], Found] = field(default_factory=dict)
    """By whether it was propagated, and ids and scores."""


@dataclass(frozen=True)
class Captured:
    """One judged question and what was found for it."""

    dataset: str
    question: JudgedQuery
    found: Found
    spread: Callable[[FusionParameters], Found] | None = None
    """Asks the graph again for what other parameters spread or walk to; None where the plan begins at no hits."""
    _spread: dict[tuple[float, ...], Found] = field(default_factory=dict)
    _measured: dict[tuple[float, ...], dict[str, float]] = field(default_factory=dict)

    def ranking(self, parameters: FusionParameters) -> list[str]:
        """Return the ids that fusion with these parameters puts first, as the pipeline answers without a reranker."""
        found = self._with(parameters)
        return _first(found, weigh(found.request, *found.hits, parameters), parameters)

    def measure(self, parameters: FusionParameters) -> dict[str, float]:
        """Return what the ranking scores, by metric; remembered, because most changes concern few questions."""
        found = self._with(parameters)
        weights = None
        if found.enough:
            key: tuple[float, ...] = (id(found), parameters.coherence)  # what is not propagated comes far behind
        else:
            weights = weigh(found.request, *found.hits, parameters)
            fixed = (float(parameters.rank_constant), parameters.coherence)
            key = (id(found), weights.vector, weights.lexical, weights.graph, *fixed)
        if key not in self._measured:
            weights = weights or weigh(found.request, *found.hits, parameters)
            self._measured[key] = measures(_first(found, weights, parameters), self.question.relevant)
        return self._measured[key]

    def _with(self, parameters: FusionParameters) -> Found:
        if self.spread is None:
            return self.found
        key = _spread_by(parameters)
        if key not in self._spread:
            self._spread[key] = self.spread(parameters)
        return self._spread[key]


def _spread_by(parameters: FusionParameters) -> tuple[float, ...]:
    """Return the parameters of what the graph is asked, rather than of what is made of it."""
    return (
        parameters.name_weight,
        parameters.damping,
        parameters.bridging,
        parameters.lexical_share,
        parameters.hit_share,
    )


def _first(found: Found, weights: Weights, parameters: FusionParameters) -> list[str]:
    scores = combine(
        {**found.texts, Source.GRAPH: found.graph},
        weights=weights,
        method=method(found.request),
        rank_constant=parameters.rank_constant,
    )
    if not found.spreads:
        relevances = ((-score * _factor(found, one), one) for one, score in scores.items() if one in found.read)
        return [identity for _, identity in heapq.nsmallest(DEPTH, relevances)]
    scores = append_below(found.propagated, scores)
    order = heapq.nsmallest(2 * AT_HAND, ((-score, one) for one, score in scores.items() if one in found.read))
    ranked = sorted((negative * _factor(found, one), one, rank) for rank, (negative, one) in enumerate(order, start=1))
    first = ranked[:AT_HAND]
    if not found.mentions.asked or parameters.coherence <= 0:
        return [one for _, one, _ in first[:DEPTH]]
    coherences = found.mentions.coherences([found.read[one].record for _, one, _ in first])
    cohered = sorted(
        (-path_coherence.raised(scores[one], extra, parameters.coherence, found.read[one].drift), rank, one)
        for (_, one, rank), extra in zip(first, coherences, strict=True)
    )
    return [one for _, _, one in cohered[:DEPTH]]


def _factor(found: Found, identity: str) -> float:
    return schema_drift.FACTORS[found.read[identity].drift]


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
        Engines that hold the dataset; their graph is asked again while parameters are fitted, and their parameters are
        from here on the documented defaults.
    on_progress
        Called with the number of questions asked and the number of all.
    """
    kept: list[Captured] = []
    memory = GraphMemory(REMEMBERED, CacheCounts())
    for done, question in enumerate(judged, start=1):
        wired.fitted = Fitted(FusionParameters())
        recording = Recording(wired)
        query = question.query.model_copy(update={"reranker": RerankerKind.NONE})
        pipeline.answer(query, recording)
        if recording.found is not None:
            links = recording.found.linked.links if recording.found.linked else ()
            known = Known(Mentions(query.text, links))
            found = take_apart(recording.found, wired, known)
            again = _spreading(recording.found, wired, memory, known) if _begins_at_hits(recording.found) else None
            kept.append(Captured(dataset, question, found, again))
        if on_progress:
            on_progress(done, len(judged))
    return kept


def _begins_at_hits(request: FuseRequest) -> bool:
    """Whether what the graph is asked depends on hits of the text search, and so on parameters."""
    return request.expanded is not None and request.plan.strategy in WALKED_FROM_HITS


def _spreading(
    request: FuseRequest, wired: Wired, memory: GraphMemory, known: Known
) -> Callable[[FusionParameters], Found]:
    """Return what asks the graph again, as the workflow asked it, with other parameters.

    What these do not change is remembered, and asked once: walks, which begin at the same hits whatever these count,
    and what is spread whenever only a walk's numbers differ.
    """
    asked = GraphRequest(
        operation=GraphOperation.EXPAND,
        query=request.query,
        plan=request.plan,
        searched=request.searched,
        linked=request.linked,
    )
    graph = memory.of(wired.graph, request.query.tenant_id, UNCHANGED)
    now = wired.now()

    def spread(parameters: FusionParameters) -> Found:
        expanded = graph_expand.run(asked, graph=graph, now=now, budget=wired.budget(parameters))
        return take_apart(request.model_copy(update={"expanded": expanded}), wired, known)

    return spread


def take_apart(request: FuseRequest, wired: Wired, known: Known) -> Found:
    """Return what was found, in the parts that parameters weigh, and the records of what may be an answer.

    Parameters
    ----------
    request
        What the last stage was given.
    wired
        Engines that hold the records.
    known
        What was read for this question before; what is read now is added.
    """
    vector, lexical, graph = strands(request)
    propagates = request.expanded is not None and request.expanded.propagated
    key = (propagates, tuple((hit.id, hit.score) for hit in graph))
    if key in known.found:
        return known.found[key]
    ids = list(dict.fromkeys(hit.id for hits in (vector, lexical, graph) for hit in hits))
    _read_new([one for one in ids if one not in known.records], request, wired, known.records)
    for hit in graph:
        known.hits.setdefault(hit.id, hit)
    known.found[key] = Found(
        # Paths and reasons are not fused, and there are hundreds of sets of them.
        request=request.model_copy(update={"expanded": request.expanded and _bare(request.expanded)}),
        hits=(vector, lexical, tuple(known.hits[one] for one in dict.fromkeys(hit.id for hit in graph))),
        texts={Source.VECTOR: best_scores(vector), Source.LEXICAL: best_scores(lexical)},
        graph=best_scores(graph),
        propagated=best_scores(request.expanded.hits) if request.expanded and propagates else {},
        read={one: item for one in ids if (item := known.records[one]) is not None},
        mentions=known.mentions,
    )
    return known.found[key]


def _bare(expanded: GraphFound) -> GraphFound:
    return expanded.model_copy(update={"hits": (), "frontier": ()})


def _read_new(ids: Sequence[str], request: FuseRequest, wired: Wired, known: dict[str, Ranked | None]) -> None:
    """Read the records of ids, and note under each whether it may be an answer."""
    known |= dict.fromkeys(ids)
    for start in range(0, len(ids), READ_AT_MOST):
        left = read(
            request.query,
            [Candidate(id=one, combined_score=0.0) for one in ids[start : start + READ_AT_MOST]],
            wired.index,
            now=wired.now(),
            schema_version=wired.schemas.current(request.query.tenant_id),
            drift_threshold=wired.settings.schema_drift_threshold,
        )
        known |= {item.record.id: item for item in left.ranked}


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
