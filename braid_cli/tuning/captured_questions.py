"""Judged questions with the captured hits of all stages, whose fusion can be repeated with other parameters."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from braid.models import Candidate, Fusion, FusionParameters, RerankerKind, Source, Strategy
from braid.ports.batches import batches
from braid.ranking import scoring
from braid.ranking.fusion import best_scores, combine
from braid.retrieval import pipeline
from braid.retrieval.caches.graph import GraphCache
from braid.retrieval.caches.keys_and_generations import CacheCounts, WriteGeneration
from braid.retrieval.stages import graph_expand, reordering_by_text
from braid.retrieval.stages.candidates import MAX_HYDRATED, hydrate
from braid.retrieval.stages.fuse_rerank import fusion_method, hits_by_strand, strand_weights
from braid.retrieval.stages.reordering_by_text import Mentions
from braid.retrieval.stages.stage_messages import GraphFound, GraphOperation, GraphRequest
from braid.settings.configuration_files import Fitted

from braid_cli.evaluation.metrics import DEPTH, measures
from braid_cli.evaluation.recording_stages import RecordingStages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from braid.app import Application
    from braid.models import GraphHit, Hit, Weights
    from braid.retrieval.stages.candidates import Ranked
    from braid.retrieval.stages.stage_messages import FuseRequest

    from braid_cli.datasets.dataset import JudgedQuery

COHERENCE_CANDIDATES = 25
"""Number of candidates that path coherence reorders; enough for the first ten to be exact."""
WALKED_FROM_HITS = frozenset({Strategy.HYBRID, Strategy.VECTOR_FIRST})
"""Strategies whose second expansion starts at hits of the text search."""

GRAPH_CACHE_SIZE = 1_024
"""Number of cached graph responses: several for each of some hundred questions, which are asked in turn."""
UNCHANGED = WriteGeneration(number=0, settled=True)
"""Write generation during a fit, in which nothing is written."""


@dataclass(frozen=True)
class Found:
    """Hits of a question by strand, with the records that can be results."""

    request: FuseRequest
    hits: tuple[Sequence[Hit], Sequence[Hit], Sequence[GraphHit]]
    """Hits of the vector, lexical and graph strands; for the graph one hit per id."""
    texts: Mapping[Source, Mapping[str, float]]
    graph: Mapping[str, float]
    """Best graph score by id."""
    propagated: Mapping[str, float]
    read: Mapping[str, Ranked]
    """Records that can be results."""
    mentions: Mentions
    """Mentions of entities in their texts."""

    @cached_property
    def propagates(self) -> bool:
        """Whether the fusion is by propagation."""
        return fusion_method(self.request) is Fusion.PROPAGATE

    @property
    def propagation_weight(self) -> float:
        """Share of propagation in the score."""
        return self.request.expanded.propagation_weight if self.request.expanded else 1.0

    @cached_property
    def propagation_suffices(self) -> bool:
        """Whether propagation alone reaches and scores all candidates.

        Of the strand weights, only the ratio of vectors and words then has an effect, by which the best text is found.
        """
        return (
            self.propagates
            and self.propagation_weight >= 1.0
            and len(self.propagated.keys() & self.read.keys()) >= COHERENCE_CANDIDATES
        )


@dataclass(frozen=True)
class ReadCache:
    """Cache of one question's records and hits."""

    mentions: Mentions
    records: dict[str, Ranked | None] = field(default_factory=dict)
    """Records by id; None for one that cannot be a result, such as a filtered one."""
    hits: dict[str, GraphHit] = field(default_factory=dict)
    """One graph hit per id."""
    found: dict[tuple[bool, tuple[tuple[str, float], ...]], Found] = field(default_factory=dict)
    """Keys are whether the hits are of propagation, and their ids and scores."""


@dataclass(frozen=True)
class CapturedQuestion:
    """A judged question with its captured hits."""

    dataset: str
    question: JudgedQuery
    found: Found
    spread: Callable[[FusionParameters], Found] | None = None
    """Repeats the graph expansion with other parameters; None if the expansion does not depend on them."""
    _spread: dict[tuple[float, ...], Found] = field(default_factory=dict)
    _measured: dict[tuple[float, ...], dict[str, float]] = field(default_factory=dict)

    def ranking(self, parameters: FusionParameters) -> list[str]:
        """Return the first ids after fusion with these parameters, as the pipeline does without a reranker."""
        found = self._with(parameters)
        return _first(found, strand_weights(found.request, *found.hits, parameters), parameters)

    def measure(self, parameters: FusionParameters) -> dict[str, float]:
        """Return the ranking's scores by metric; memoised, because most parameter changes affect few questions."""
        found = self._with(parameters)
        weights = strand_weights(found.request, *found.hits, parameters)
        if found.propagation_suffices:
            # Other ids only rank behind the propagated ones.
            words = weights.lexical / ((weights.vector + weights.lexical) or 1.0)
            key: tuple[float, ...] = (id(found), parameters.coherence, round(words, 9))
        else:
            fixed = (float(parameters.rank_constant), parameters.coherence)
            key = (id(found), weights.vector, weights.lexical, weights.graph, *fixed)
        if key not in self._measured:
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
    """Return the values of the parameters on which the graph expansion depends."""
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
        found.propagated,
        weights=weights,
        method=fusion_method(found.request),
        rank_constant=parameters.rank_constant,
        propagation_weight=found.propagation_weight,
        cut_off=found.request.query.graph_constraint is None,
    )
    read = found.read
    if not found.propagates:
        relevances = ((-score * read[one].factor, one) for one, score in scores.items() if one in read)
        return [identity for _, identity in heapq.nsmallest(DEPTH, relevances)]
    order = heapq.nsmallest(2 * COHERENCE_CANDIDATES, ((-score, one) for one, score in scores.items() if one in read))
    ranked = sorted((negative * read[one].factor, one, rank) for rank, (negative, one) in enumerate(order, start=1))
    first = ranked[:COHERENCE_CANDIDATES]
    ids = [one for _, one, _ in first]
    weight = found.propagation_weight * parameters.coherence
    if found.mentions.asked and weight > 0:
        coherences = found.mentions.coherences([read[one].stored for one in ids])
        cohered = sorted(
            (-reordering_by_text.raised(scores[one], extra, weight, read[one].factor), rank, one)
            for (_, one, rank), extra in zip(first, coherences, strict=True)
        )
        ids = [one for _, _, one in cohered]
    if found.propagation_weight > 0 and ids:
        query = found.request.query
        vector, lexical = found.texts[Source.VECTOR], found.texts[Source.LEXICAL]
        cut_off = query.graph_constraint is None
        best = reordering_by_text.best_text(query.text, read, vector, lexical, weights, cut_off=cut_off, first=ids[0])
        if best is not None:
            ids = [best, *(one for one in ids if one != best)]
    return ids[:DEPTH]


def capture(
    dataset: str,
    judged: Sequence[JudgedQuery],
    application: Application,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[CapturedQuestion]:
    """Ask every question once, without a reranker, and capture its hits.

    Parameters
    ----------
    dataset
        Name of the dataset, which distinguishes its questions from other datasets'.
    judged
        Questions with at least one relevant record each.
    application
        Engines with the dataset. They must stay open during the fit, which queries the graph again. Their fusion
        parameters are set to the documented defaults.
    on_progress
        Called with the number of questions asked and of all questions.
    """
    kept: list[CapturedQuestion] = []
    cache = GraphCache(GRAPH_CACHE_SIZE, CacheCounts())
    for done, question in enumerate(judged, start=1):
        application.fitted = Fitted(FusionParameters())
        recording = RecordingStages(application)
        query = question.query.model_copy(update={"reranker": RerankerKind.NONE})
        pipeline.answer(query, recording)
        request = recording.fuse_request
        if request is not None:
            links = request.linked.links if request.linked else ()
            known = ReadCache(Mentions(query.text, links))
            found = by_strand(request, application, known)
            again = _expand_again(request, application, cache, known) if _starts_at_hits(request) else None
            kept.append(CapturedQuestion(dataset, question, found, again))
        if on_progress:
            on_progress(done, len(judged))
    return kept


def _starts_at_hits(request: FuseRequest) -> bool:
    """Return whether the graph expansion starts at hits of the text search, and so depends on parameters."""
    return request.expanded is not None and request.plan.strategy in WALKED_FROM_HITS


def _expand_again(
    request: FuseRequest, application: Application, cache: GraphCache, known: ReadCache
) -> Callable[[FusionParameters], Found]:
    """Return a function that repeats the graph expansion with other parameters.

    Responses of the graph that do not depend on the parameters are cached.
    """
    asked = GraphRequest(
        operation=GraphOperation.EXPAND,
        query=request.query,
        plan=request.plan,
        searched=request.searched,
        linked=request.linked,
    )
    graph = cache.of(application.graph, request.query.tenant_id, UNCHANGED)
    now = application.now()

    def spread(parameters: FusionParameters) -> Found:
        expanded = graph_expand.run(asked, graph=graph, now=now, limits=application.graph_limits(parameters))
        return by_strand(request.model_copy(update={"expanded": expanded}), application, known)

    return spread


def by_strand(request: FuseRequest, application: Application, known: ReadCache) -> Found:
    """Return the hits by strand, and the records that can be results.

    Parameters
    ----------
    request
        Request of the fuse and rerank stage.
    application
        Engines with the records.
    known
        Cache of this question, to which newly read records are added.
    """
    vector, lexical, graph = hits_by_strand(request)
    propagates = request.expanded is not None and request.expanded.propagated
    key = (propagates, tuple((hit.id, hit.score) for hit in graph))
    if key in known.found:
        return known.found[key]
    ids = list(dict.fromkeys(hit.id for hits in (vector, lexical, graph) for hit in hits))
    texts = {Source.VECTOR: best_scores(vector), Source.LEXICAL: best_scores(lexical)}
    unread = [
        Candidate(id=one, combined_score=0.0, vector_score=texts[Source.VECTOR].get(one))
        for one in ids
        if one not in known.records
    ]
    _read_new(unread, request, application, known.records)
    for hit in graph:
        known.hits.setdefault(hit.id, hit)
    known.found[key] = Found(
        # Without paths and reasons, which fusion does not use and which take memory.
        request=request.model_copy(update={"expanded": request.expanded and _bare(request.expanded)}),
        hits=(vector, lexical, tuple(known.hits[one] for one in dict.fromkeys(hit.id for hit in graph))),
        texts=texts,
        graph=best_scores(graph),
        propagated=best_scores(request.expanded.hits) if request.expanded and propagates else {},
        read={one: item for one in ids if (item := known.records[one]) is not None},
        mentions=known.mentions,
    )
    return known.found[key]


def _bare(expanded: GraphFound) -> GraphFound:
    return expanded.model_copy(update={"hits": (), "frontier": ()})


def _read_new(
    unread: Sequence[Candidate], request: FuseRequest, application: Application, known: dict[str, Ranked | None]
) -> None:
    """Read the records of candidates into the cache; None for those that cannot be results."""
    known |= dict.fromkeys(one.id for one in unread)
    settings = application.settings
    for some in batches(unread, MAX_HYDRATED):
        left = hydrate(
            request.query,
            some,
            application.index,
            now=application.now(),
            schema_version=application.schemas.current(request.query.tenant_id),
            drift_threshold=settings.schema_drift_threshold,
            max_versions_behind=scoring.max_versions_behind(settings.schema_drift_threshold, settings.schema_window),
            space=request.embedded.embedding.space if request.embedded else None,
        )
        known |= {item.record.id: item for item in left.ranked}
