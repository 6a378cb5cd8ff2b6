"""Fuse and rerank stage: fuses the strands into one list, hydrates, reranks and scores it, and makes the answer.

A strand is one source of hits: vectors, words, or the graph. Failed stages, this one included, are listed in the
answer's ``degraded``. If texts cannot be read, the answer has none; if both stores fail, there is no answer.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from braid.deadline import Stopwatch
from braid.errors import RerankFailed, StoreError, StoresUnavailable
from braid.models import Answer, Asked, Filters, Fusion, Mode, Ranking, Result, Source, Strategy, earliest
from braid.models.query import NONE_WITH, NONE_WITHOUT, NOT_RELATED, NOTHING_PASSES
from braid.ports.search_index import SearchRequest
from braid.ranking import scoring
from braid.ranking.fusion import DEFAULT_PARAMETERS, adaptive_lexical_share, adaptive_weights, best_scores, fuse
from braid.ranking.scoring import ScoredCandidate, clamp, final_score, order_stable_until, placeholder_score, recency
from braid.retrieval.stages.answer_size import shortened
from braid.retrieval.stages.candidates import Hydrated, Ranked, hydrate, without_text
from braid.retrieval.stages.confidence import confidence
from braid.retrieval.stages.excerpts import Excerpts
from braid.retrieval.stages.fact_results import evidence_of, fact_results, none_of_a_set, not_related, set_not_answered
from braid.retrieval.stages.reordering_by_text import cohere, keep_best_text
from braid.retrieval.stages.results_and_citations import first_distinct, related_entities, result_of, runners_up
from braid.telemetry import names
from braid.telemetry.recording import operation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from braid.models import Candidate, Considered, FacetValue, FusionParameters, GraphHit, Hit, Plan, Query, Weights
    from braid.ports.encoder import Reranker
    from braid.ports.reembedding import OutdatedRecords
    from braid.ports.search_index import SearchIndex
    from braid.retrieval.stages.stage_messages import FactGroup, FuseRequest

PERMANENT = frozenset({"StoreError", "StoreReadOnly", "StoreFull", "StoreCorrupt", "ConfigurationError"})
"""Store errors that are not retriable, by class name."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class FusionLimits:
    """Limits and parameters of the stage."""

    parameters: FusionParameters = DEFAULT_PARAMETERS
    drift_threshold: int = 3
    max_versions_behind: int = 3
    """Most schema versions behind the current one that are inside the search window."""
    rerank_timeout_s: float = 1.5
    reranked: int = 50
    """Number of best candidates that a reranker rescores."""


class Strands(NamedTuple):
    """Hits of each strand."""

    vector: Sequence[Hit]
    lexical: Sequence[Hit]
    graph: Sequence[GraphHit]

    def counts(self) -> dict[str, int]:
        """Return the number of hits of each strand; hits of the graph are counted by source."""
        return {
            "vector": len(self.vector),
            "lexical": len(self.lexical),
            "knowledge": sum([hit.source is Source.KNOWLEDGE for hit in self.graph]),
            "graph": sum([hit.source is Source.GRAPH for hit in self.graph]),
        }


class Fused(NamedTuple):
    """The fused list of candidates, best first, with the fusion method and weights."""

    candidates: Sequence[Candidate]
    method: Fusion
    weights: Weights
    propagation_weight: float


def run(
    request: FuseRequest,
    *,
    index: SearchIndex,
    reranker: Reranker | None,
    now: datetime,
    schema_version: int | None,
    limits: FusionLimits,
    outdated_sender: OutdatedRecords | None = None,
    uses: Callable[[str], Mapping[str, float]] | None = None,
) -> Answer:
    """Make the answer from the results of the other stages.

    1. :func:`within_filters` drops graph hits outside of the question's filters.
    2. :func:`fuse_strands` fuses the strands into one list of distinct records.
    3. ``hydrate`` reads the records, and ``cohere`` raises those that the best texts mention.
    4. :func:`rerank` rescores the first candidates.
    5. :func:`make_results` scores by the ranking profile, and cuts to ``top_k``.
    6. ``confidence`` estimates the chance that the first results answer the question.

    Meanwhile ``outdated_sender`` sends records of an older schema version to the re-embedding queue.

    Parameters
    ----------
    schema_version
        The tenant's current schema version; None if it is not known.
    uses
        Returns the number of uses of a tenant's records by id; called for the ranking profile ``memory`` only.

    Raises
    ------
    StoresUnavailable
        If both stores failed.
    """
    watch = Stopwatch()
    _require_a_store(request)
    request = within_filters(request, index, now)
    query, searched, linked, expanded = request.query, request.searched, request.linked, request.expanded
    strands = hits_by_strand(request)
    fused = fuse_strands(request, strands, limits.parameters)
    groups = next((found.facts for found in (linked, expanded) if found and found.facts), ())
    try:
        hydrated = hydrate(
            query,
            fused.candidates,
            index,
            now=now,
            schema_version=schema_version,
            drift_threshold=limits.drift_threshold,
            max_versions_behind=limits.max_versions_behind,
            space=request.embedded.embedding.space if request.embedded else None,
            evidence=evidence_of(groups),
        )
    except StoreError:
        has_record = {hit.id for hit in strands.graph if hit.has_record}
        hydrated = Hydrated(without_text(query, fused.candidates, has_record=has_record), text_lost=True)
    outdated = dict.fromkeys([*(searched.outdated if searched else ()), *hydrated.outdated, *hydrated.moderate])
    wait_for_sending = None
    if outdated_sender and schema_version and outdated:
        wait_for_sending = outdated_sender.send(query.tenant_id, tuple(outdated), schema_version)
    ranked = hydrated.ranked
    if fused.method is Fusion.PROPAGATE and not hydrated.text_lost:
        weight = fused.propagation_weight * limits.parameters.coherence
        ranked = cohere(query.text, linked.links if linked else (), ranked, weight=weight)
        if fused.propagation_weight > 0:
            vector, lexical = best_scores(strands.vector), best_scores(strands.lexical)
            cut_off = query.graph_constraint is None
            ranked = keep_best_text(query.text, ranked, vector, lexical, fused.weights, cut_off=cut_off)
    fuse_ms = watch.lap()
    ranked, rerank_lost, cost_usd = rerank(request, ranked, reranker, limits, text_lost=hydrated.text_lost)
    if wait_for_sending:
        wait_for_sending()
    rerank_ms = watch.ms()
    facts = fact_results(groups, query, request.plan.facts, hydrated.evidence, now=now)
    use_counts = uses(query.tenant_id) if uses and query.ranking is Ranking.MEMORY else {}
    results, considered, order_until = make_results(request, ranked, facts, now, use_counts)
    facets, facets_lost = count_facets(
        request, None if hydrated.text_lost else index, now=now, schema_version=schema_version, limits=limits
    )
    lost_here = {"text": hydrated.text_lost, "rerank": rerank_lost, "facets": facets_lost}
    degraded = tuple(
        dict.fromkeys([*_lost_before(request, schema_version), *(name for name, lost in lost_here.items() if lost)])
    )
    # Facet counts change when records become valid or cease to be, at times that are not known here.
    may_be_cached = not degraded and not facets
    holds_until = earliest((order_until, *_validity_changes(request, hydrated, results))) if may_be_cached else None
    return shortened(
        Answer(
            trace_id=request.trace_id,
            results=tuple(results),
            sources=tuple(dict.fromkeys(result.citation for result in results)),
            related_entities=related_entities(request, results),
            considered=considered,
            plan=_plan_with_reasons(request, groups),
            weights=fused.weights,
            fusion=fused.method,
            confidence=confidence(query, searched, results),
            counts={
                **strands.counts(),
                "fused": len(fused.candidates),
                "read": len(ranked),
                "facts": sum(fact.facts.count for fact in facts if fact.facts),
                "outdated": len(outdated),
            },
            set_not_answered=set_not_answered(request.plan.facts, groups, results),
            superseded=(searched.superseded if searched else 0) + hydrated.superseded,
            facets=facets,
            unknown_entity=unknown_entity(request),
            truncated=any(found.truncated for found in (linked, expanded) if found),
            degraded=degraded,
            answered_at=now,
            holds_until=holds_until,
            latency_ms=_latencies(request, now, fuse_ms, rerank_ms),
            rerank_cost_usd=cost_usd,
        )
    )


def _plan_with_reasons(request: FuseRequest, groups: Sequence[FactGroup]) -> Plan:
    """Return the plan, with the reasons of an empty answer: no record passes the filters, or no fact answers.

    The vector search finds any record that passes, so no hits mean no such record.
    """
    query, plan, searched = request.query, request.plan, request.searched
    found = searched is None or searched.vector or searched.lexical or searched.superseded or searched.space_empty
    narrowed = plan.unknown_fields or query.graph_constraint or query.hints.min_similarity
    if request.lost:
        return plan
    unfiltered = query.filters == Filters(trusted_only=query.filters.trusted_only)
    reasons = [NOT_RELATED] if unfiltered and not_related(query.text, plan.facts, request.linked) else []
    if unfiltered and none_of_a_set(groups):
        of_those_without = plan.facts is not None and Asked.NOT in (plan.facts.asked, plan.facts.of_type)
        reasons.append(NONE_WITHOUT if of_those_without else NONE_WITH)
    if (query.filters.metadata or query.filters.entity_types) and not (found or narrowed or groups):
        reasons.append(NOTHING_PASSES)
    return plan.altered(reasons=(*plan.reasons, *reasons)) if reasons else plan


def _require_a_store(request: FuseRequest) -> None:
    """Raise StoresUnavailable if stages failed and no call to a store succeeded."""
    if not request.lost or request.searched or request.linked:
        return
    # If search and linking both failed, the walk had no seeds, and its success does not show that the graph works.
    if request.expanded is None or "link" in request.lost:
        stores = {lost.error for stage, lost in request.lost.items() if stage != "embed"}
        why = "; ".join(f"{stage}: {lost.error}" for stage, lost in request.lost.items())
        raise StoresUnavailable(why, permanent=stores <= PERMANENT)


def _lost_before(request: FuseRequest, schema_version: int | None) -> Iterator[str]:
    """Yield the stages and parts that failed before this stage, by their names in ``degraded``."""
    yield from request.lost
    if request.embedded and request.embedded.fallback:
        yield "embed"
    if request.searched and request.searched.space_empty:
        yield "space"  # no record has a vector of the model that embedded the question
    if schema_version is None:
        yield "schema"


def within_filters(request: FuseRequest, index: SearchIndex, now: datetime) -> FuseRequest:
    """Drop graph hits that do not meet the question's filters, as the index did with its own hits.

    Vertices without records are kept: they are no answers. If the index does not answer, hydration drops the hits.
    """
    query, found = request.query, [part for part in (request.linked, request.expanded) if part]
    ids = dict.fromkeys(hit.id for part in found for hit in part.hits if hit.has_record)
    if not ids or not query.filters.restrict:
        return request
    filtered = SearchRequest(
        tenant_id=query.tenant_id, k=1, filters=query.filters, ids=tuple(ids), as_of=query.as_of or now
    )
    try:
        excluded = ids.keys() - index.passing(filtered)
    except StoreError:
        return request
    passing = {
        name: part.altered(hits=tuple(hit for hit in part.hits if hit.id not in excluded))
        for name, part in (("linked", request.linked), ("expanded", request.expanded))
        if part
    }
    return request.altered(**passing)


def fuse_strands(request: FuseRequest, strands: Strands, parameters: FusionParameters) -> Fused:
    """Fuse the strands into one list, in which each record is one candidate."""
    expanded = request.expanded
    weights, method = strand_weights(request, *strands, parameters), fusion_method(request)
    propagation_weight = expanded.propagation_weight if expanded else 1.0
    candidates = fuse(
        vector=strands.vector,
        lexical=strands.lexical,
        graph=strands.graph,
        weights=weights,
        method=method,
        rank_constant=parameters.rank_constant,
        propagated=expanded.hits if expanded and expanded.propagated else (),
        propagation_weight=propagation_weight,
        cut_off=request.query.graph_constraint is None,
    )
    return Fused(candidates, method, weights, propagation_weight)


def count_facets(
    request: FuseRequest, index: SearchIndex | None, *, now: datetime, schema_version: int | None, limits: FusionLimits
) -> tuple[dict[str, tuple[FacetValue, ...]], bool]:
    """Return each facet field's value counts over the records that meet the filters, and whether counting failed.

    An index that has just not answered is None: it is not asked again, and counting has failed.
    """
    query = request.query
    if not query.facets or index is None:
        return {}, bool(query.facets)
    counted = SearchRequest(
        tenant_id=query.tenant_id,
        k=1,
        filters=query.filters,
        as_of=query.as_of or now,
        min_schema_version=scoring.oldest_searched(schema_version, limits.max_versions_behind),
    )
    try:
        return index.count_values(counted, query.facets), False
    except StoreError:
        return {}, True


def _validity_changes(request: FuseRequest, hydrated: Hydrated, results: Sequence[Result]) -> Iterator[datetime | None]:
    """Yield the times at which a part of an answer ceases to be valid, or a dropped record becomes valid."""
    if request.query.as_of:
        return
    yield hydrated.begins_at
    yield from [item.stored.invalid_at for item in hydrated.ranked if item.stored.invalid_at]
    yield from (path.invalid_at for result in results for path in result.paths)
    yield from (fact.path.invalid_at for result in results if result.facts for fact in result.facts.facts)
    yield from (record.invalid_at for record in hydrated.evidence.values())
    if request.searched:
        yield request.searched.begins_at
    for found in (request.linked, request.expanded):
        yield from (link.invalid_at for link in (found.links if found else ()))
    if request.plan.strategy is Strategy.MULTI_HOP and request.expanded:
        # Vertices that the steps reached are related entities even without a record.
        yield from (hit.path.invalid_at for hit in request.expanded.hits)


def hits_by_strand(request: FuseRequest) -> Strands:
    """Return the vector, lexical and graph hits; of a multi-hop plan only its last step's hits, if it found any."""
    searched, expanded = request.searched, request.expanded
    if (
        request.plan.strategy is Strategy.MULTI_HOP
        and request.linked is None  # names are linked only if the steps found nothing
        and expanded
        and expanded.hits
        and "graph_expand" not in request.lost
    ):
        reached = {hit.id for hit in expanded.hits}
        vector = [hit for hit in searched.vector if hit.id in reached] if searched else []
        lexical = [hit for hit in searched.lexical if hit.id in reached] if searched else []
        return Strands(vector, lexical, expanded.hits)
    graph = [hit for found in (request.linked, expanded) if found for hit in found.hits]
    if searched is None:
        return Strands((), (), graph)
    if request.query.graph_constraint is None or request.linked is None:
        return Strands(searched.vector, searched.lexical, graph)
    # The constraint only restricts the answers: a graph hit inside it is not more relevant.
    allowed = set(request.linked.frontier)
    vector, lexical = (_inside(hits, allowed) for hits in (searched.vector, searched.lexical))
    found = {hit.id for hit in (*vector, *lexical)}
    return Strands(vector, lexical, [hit for hit in graph if hit.id in found])


def _inside(hits: Sequence[Hit], allowed: set[str]) -> list[Hit]:
    """Return the hits whose ids are allowed, ranked anew."""
    kept = [hit for hit in hits if hit.id in allowed]
    return [hit.altered(rank=rank) for rank, hit in enumerate(kept, start=1)]


def unknown_entity(request: FuseRequest) -> str | None:
    """Return the graph constraint's entity if the graph has none of that name or id; else None."""
    constraint, linked = request.query.graph_constraint, request.linked
    return constraint.entity if constraint and linked and linked.unknown else None


def fusion_method(request: FuseRequest) -> Fusion:
    """Return the fusion method: propagation if it found hits; else as asked or planned, weighted for propagation."""
    if request.expanded is not None and request.expanded.propagated:
        return Fusion.PROPAGATE
    planned = request.query.fusion or request.plan.fusion
    return Fusion.WEIGHTED if planned is Fusion.PROPAGATE else planned


def strand_weights(
    request: FuseRequest,
    vector: Sequence[Hit],
    lexical: Sequence[Hit],
    graph: Sequence[GraphHit],
    parameters: FusionParameters,
) -> Weights:
    """Return the fusion weights of the three strands for this question.

    With propagation, the graph's weight orders only records that propagation did not reach; the weight of found
    mentions is ``propagation_weight``.
    """
    query, shift = request.query, parameters.entity_shift if request.plan.mode is Mode.ENTITY else 0.0
    text_weight = parameters.vector_weight if query.vector_weight is None else query.vector_weight
    graph_weight = parameters.graph_weight if query.graph_weight is None else query.graph_weight
    lexical_share = parameters.lexical_share
    # Inside a constraint, the lists' lowest scores depend on whether the graph or the text was searched first.
    if not query.graph_constraint:
        lexical_share = adaptive_lexical_share(best_scores(vector), best_scores(lexical), lexical_share)
    return adaptive_weights(
        clamp(text_weight + shift),
        clamp(graph_weight - shift),
        intent=request.plan.intent,
        vector_hits=len(vector),
        lexical_hits=len(lexical),
        graph_hits=len({hit.id for hit in graph}),
        lexical_share=lexical_share,
        parameters=parameters,
    )


def rerank(
    request: FuseRequest, ranked: list[Ranked], reranker: Reranker | None, limits: FusionLimits, *, text_lost: bool
) -> tuple[list[Ranked], bool, float]:
    """Rescore the first candidates with the reranker; if it fails, keep the fused order with placeholder scores.

    Returns
    -------
    tuple
        The candidates, best first; whether the reranker failed; the estimated price of the call in US dollars.
    """
    if request.without_rerank:
        return _placeholders(ranked), True, 0.0
    if reranker is None or not ranked:
        return ranked, False, 0.0
    if text_lost:
        # Scores of empty texts would reorder the candidates arbitrarily.
        return _placeholders(ranked), True, 0.0
    first, rest = ranked[: limits.reranked], ranked[limits.reranked :]
    texts = [item.record.text_from(item.candidate.part_start) for item in first]
    try:
        with operation(
            f"{names.RERANK} {reranker.name}",
            {names.OPERATION: names.RERANK, names.MODEL: reranker.name, names.TEXTS: len(texts)},
            duration=names.OPERATION_DURATION,
        ):
            scores = reranker.rerank(request.query.text, texts, timeout_s=limits.rerank_timeout_s)
    except RerankFailed as error:
        _LOG.warning("rerank lost: %s (about $%.6f)", error, error.cost_usd)
        return _placeholders(ranked), True, error.cost_usd
    cost_usd = reranker.cost_usd(request.query.text, texts)
    _LOG.info("reranked %d texts with %s (about $%.6f)", len(texts), reranker.name, cost_usd)
    rescored = [item.rescored(score) for item, score in zip(first, scores, strict=True)]
    rescored.sort(key=lambda item: (-item.relevance, item.fused_rank, item.candidate.id))
    least = rescored[-1].relevance
    return [*rescored, *(item._replace(relevance=min(item.relevance, least)) for item in rest)], False, cost_usd


def _placeholders(ranked: Sequence[Ranked]) -> list[Ranked]:
    return [item._replace(relevance=placeholder_score(position)) for position, item in enumerate(ranked)]


def make_results(
    request: FuseRequest, ranked: Sequence[Ranked], facts: Sequence[Result], now: datetime, uses: Mapping[str, float]
) -> tuple[list[Result], tuple[Considered, ...], datetime]:
    """Score candidates and facts by the ranking profile, and make results of the first ``top_k`` distinct ones.

    A fact is ranked before records of the same score. Copies of a text take no place of their own.

    Returns
    -------
    tuple
        The results; the runners-up, if the question asks for an explanation; and the time until which ageing cannot
        change the order.
    """
    query = request.query
    scored: list[tuple[float, Ranked | Result]] = [(fact.final, fact) for fact in facts]
    scored += zip(_final_scores(query, ranked, now, uses), ranked, strict=True)
    scored.sort(key=itemgetter(0), reverse=True)  # stable: facts stay before records of the same score
    shown, copies, cut = first_distinct(scored, query.top_k)
    order_until = order_stable_until(
        (ScoredCandidate(final, item.kind, item.aged_from) for final, item in scored),
        shown=cut,
        ranking=query.ranking,
        now=now,
    )
    links = [link for found in (request.linked, request.expanded) if found for link in found.links]
    excerpts = Excerpts(
        query.text,
        names=((link.phrase, link.name) for link in links),
        on_paths=(name for _, item in shown for path in item.paths for name in path.names),
        results=len(shown),
    )
    results = [
        item.altered(rank=rank)
        if isinstance(item, Result)
        else result_of(
            item,
            excerpts,
            rank=rank,
            fresh=recency(item.aged_from, now),
            final=final,
            copies=copies.get(item.record.id, ()),
        )
        for rank, (final, item) in enumerate(shown, start=1)
    ]
    left = ((final, item) for final, item in scored[cut:] if isinstance(item, Ranked))
    return results, runners_up(left, shown=len(results)) if query.explain else (), order_until


def _final_scores(query: Query, ranked: Sequence[Ranked], now: datetime, uses: Mapping[str, float]) -> list[float]:
    """Return each candidate's score by the ranking profile."""
    if query.ranking is Ranking.RELEVANCE:
        return [item.relevance for item in ranked]
    used = [item.record.access_count + uses.get(item.record.id, 0.0) for item in ranked]
    most_used = max(used, default=0.0)
    return [
        final_score(
            query.ranking,
            relevance=item.relevance,
            kind=item.kind,
            at=item.aged_from,
            now=now,
            importance=item.record.importance,
            access=use / most_used if most_used else 0.0,
            hops=0
            if item.candidate.vector_score is not None or item.candidate.lexical_score is not None
            else min((len(path.types) for path in item.paths), default=0),
        )
        for item, use in zip(ranked, used, strict=True)
    ]


def _latencies(request: FuseRequest, now: datetime, fuse_ms: float, rerank_ms: float) -> dict[str, float]:
    stages = {
        "embed": request.embedded,
        "vector_search": request.searched,
        "link": request.linked,
        "graph_expand": request.expanded,
    }
    before = {name: found.took_ms for name, found in stages.items() if found is not None}
    total = max(0.0, (now - request.started_at).total_seconds() * 1000.0) + fuse_ms + rerank_ms
    return {"plan": request.plan_ms, **before, "fuse": fuse_ms, "rerank": rerank_ms, "total": round(total, 3)}
