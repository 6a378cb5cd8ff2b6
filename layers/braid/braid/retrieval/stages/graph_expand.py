"""Graph expand stage: links the question's names, and walks or propagates from them and from the first text hits.

Walks, with the path to each hit, are made by the ``expansion`` of each engine, and propagation with its paths by
:mod:`braid.ranking.pagerank_and_paths`.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from braid.deadline import Stopwatch, within
from braid.errors import StoreError
from braid.models import MENTIONS, Direction, EntityLink, Fusion, GraphHit, Intent
from braid.ports.knowledge_graph import ExpandRequest
from braid.retrieval.stages import graph_constraint, walk_seeds_and_scores
from braid.retrieval.stages.fact_lookup import find_facts
from braid.retrieval.stages.name_linking import linked_names
from braid.retrieval.stages.stage_messages import GraphFound, GraphOperation, GraphRequest
from braid.retrieval.stages.walk_seeds_and_scores import (
    GraphLimits,
    propagation_around_answers,
    propagation_of,
    walk_seeds,
)
from braid.understanding import intent
from braid.understanding.intent import CAUSAL_TYPES, TEMPORAL_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from braid.models import Plan, Query
    from braid.ports.knowledge_graph import KnowledgeGraph
    from braid.retrieval.stages.name_linking import UnknownWords
    from braid.retrieval.stages.stage_messages import FactGroup, Searched

_LOG = logging.getLogger(__name__)

TIME_FOR_MORE_MS = 500
"""Milliseconds of the stage after which optional calls to the graph are left out: one that began before then, with its
own deadline (``BRAID_NEPTUNE_QUESTION_S``), ends within the workflow's time limit of the stage."""
FOUND_SHARE = 0.25
"""Weight in a walk of an edge that was found in a text, relative to a given one: the text may mean a namesake."""
MAX_REACHED = 200
"""Most hits of a walk or of propagation where the question has filters."""
FACTS_UNTIL_S = 4.0
"""Deadline for facts, in seconds since the stage began; the rest of its time is for returning the other results."""
_WALKS = frozenset({GraphOperation.LINK, GraphOperation.WALK, GraphOperation.EXPAND, GraphOperation.STEP})


def run(
    request: GraphRequest,
    *,
    graph: KnowledgeGraph,
    now: datetime,
    limits: GraphLimits,
    unknown_words: UnknownWords | None = None,
) -> GraphFound:
    """Run one graph operation. The number of calls to the graph does not depend on the number of seeds.

    Parameters
    ----------
    now
        The time used if the question has no ``as_of``.
    unknown_words
        Returns which words no text has; see :func:`~braid.retrieval.stages.name_linking.linked_names`.
    """
    stage = _GraphStage(graph, request, now, limits, unknown_words)
    match request.operation:
        case GraphOperation.LINK | GraphOperation.WALK:
            found = stage.walk_from_names()
        case GraphOperation.EXPAND:
            found = stage.expand(request.searched, request.linked)
        case GraphOperation.CONSTRAIN | GraphOperation.CHECK:
            found = stage.constrain(request)
        case GraphOperation.STEP:
            found = stage.step(request)
    taken = sum(len(group.model_dump_json().encode()) for group in found.facts)
    hits = walk_seeds_and_scores.fit_to_state(found.hits, taken) if request.operation in _WALKS else found.hits
    if len(hits) < len(found.hits):
        kept = {hit.id for hit in hits}
        frontier = tuple(one for one in found.frontier if one in kept)
        found = found.altered(hits=hits, frontier=frontier, truncated=True)
    return found.altered(took_ms=stage.watch.ms())


def expansion_for(
    plan: Plan, query: Query, seeds: Sequence[str], *, as_of: datetime, limit: int, fan_out: int
) -> ExpandRequest:
    """Return the walk for the plan's intent, which :mod:`braid.understanding.intent` detects with its direction.

    Causal: CAUSES, ENABLES, PREVENTS, up to 3 hops, highest product of confidences first. Temporal: BEFORE, AFTER,
    DURING, or only what the question states, up to 3 hops, the hits of highest confidence in order of time. Otherwise:
    any type, both ways, up to 2 hops, nearest first.
    """
    base = ExpandRequest(
        tenant_id=query.tenant_id,
        seeds=tuple(seeds),
        found_share=FOUND_SHARE,
        limit=limit,
        fan_out=fan_out,
        as_of=as_of,
        trusted_only=query.filters.trusted_only,
    )
    context = query.temporal_context
    time_range = query.filters.time_range or (context.time_range if context else None)
    if plan.intent is Intent.CAUSAL:
        return base.altered(types=CAUSAL_TYPES, direction=plan.direction, max_hops=3, by_confidence=True)
    if plan.intent is Intent.TEMPORAL:
        asked = base.altered(
            types=TEMPORAL_TYPES,
            direction=plan.direction,
            max_hops=3,
            by_confidence=True,
            by_time=True,
            time_range=time_range,
        )
        # A walk keeps one path to each vertex: a path along other edges would hide the requested relation's.
        return asked.altered(**intent.relation_bounds(intent.time_relation(query.text, context)))
    return base.altered(direction=Direction.BOTH, max_hops=2)


class _GraphStage:
    """Graph operations of one question."""

    def __init__(
        self,
        graph: KnowledgeGraph,
        request: GraphRequest,
        now: datetime,
        limits: GraphLimits,
        unknown_words: UnknownWords | None,
    ) -> None:
        query = request.query
        # Filters drop an unknown part of the hits, so more are asked for.
        self.limits = replace(limits, limit=MAX_REACHED) if query.filters.restrict else limits
        self.graph, self.query, self.plan, self.as_of = graph, query, request.plan, query.as_of or now
        self.watch, self._unknown_words = Stopwatch(), unknown_words

    def walk_from_names(self) -> GraphFound:
        """Link the question's names, and return their mentions, the hits of the walk by intent, and facts."""
        links = self._links()
        if not links:
            facts, lost = self._facts(links)
            return GraphFound(facts=facts, truncated=lost)
        names = tuple(link.entity_id for link in links)
        mentioned = self.graph.expand(self._mentions(names))
        walked = self.graph.expand(self._by_intent(names))
        weights = {link.entity_id: link.score for link in links}
        mentioning = {hit.id for hit in mentioned.hits}
        # A walk's hit along the same mention would only hide the name in the mention's reason.
        further = [hit for hit in walked.hits if hit.id not in mentioning or hit.path.types != (MENTIONS,)]
        further = self._preference.keep(walk_seeds_and_scores.scaled_by_seed(further, weights))
        answering = [hit for hit in further if self._preference.answers(hit)]
        # If a walk from any name answers a causal question, no name is the answer itself: all of them score less.
        starts = {hit.path.ids[0] for hit in answering}
        starts = set(names) if starts and self.plan.intent is Intent.CAUSAL else starts
        further += walk_seeds_and_scores.evidence_hits(answering)
        hits = [
            *walk_seeds_and_scores.entity_hits(links, starts),
            *walk_seeds_and_scores.mention_hits(mentioned.hits, links, starts),
            *further,
        ]
        ranked = walk_seeds_and_scores.ranked(hits)
        facts, lost = self._facts(links)
        truncated = mentioned.truncated or walked.truncated or lost
        return GraphFound.unchecked(
            links=tuple(links), hits=ranked, facts=facts, truncated=truncated, frontier=_ids(ranked)
        )

    def _facts(self, links: Sequence[EntityLink]) -> tuple[tuple[FactGroup, ...], bool]:
        """Return the relationships that answer the question, and whether their look-up failed or was too late."""
        try:
            with within(max(0.0, FACTS_UNTIL_S - self.watch.ms() / 1_000.0)):
                return find_facts(self.graph, self.query, self.plan.facts, links, as_of=self.as_of), False
        except StoreError as error:
            _LOG.warning("facts are lost: %s", error)
            return (), True

    def expand(self, searched: Searched | None, linked: GraphFound | None) -> GraphFound:
        """Walk from the first text hits by intent, or propagate from them and the names.

        For a causal or temporal question, hits of its walks, from a name or a text hit, are preferred to propagation.
        """
        propagates = self.plan.fusion is Fusion.PROPAGATE
        if propagates and (self._preference.types is None or self.query.fusion is Fusion.PROPAGATE):
            return self._propagate(searched, linked)
        of_names = [hit for hit in linked.hits if self._preference.answers(hit)] if linked else []
        found = self._from_hits(searched, named=bool(of_names))
        if not propagates:
            return found
        answers = [*filter(self._preference.answers, found.hits), *of_names]
        if not answers:
            return self._propagate(searched, linked)
        return self._with_surroundings(answers, found, searched) if self.plan.intent is Intent.CAUSAL else found

    def _from_hits(self, searched: Searched | None, *, named: bool) -> GraphFound:
        """Walk from the first text hits by intent; scores are multiplied by the weight of the hit that led there.

        Parameters
        ----------
        named
            Whether a walk from a name of the question answers it: hits then weigh ``hit_share``, otherwise 1.
        """
        hit_weight = self.limits.parameters.hit_share if named else 1.0
        weights = walk_seeds(searched, self.limits, hit_weight) if searched else {}
        if not weights:
            return GraphFound()
        expansion = self.graph.expand(self._by_intent(tuple(weights)))
        ranked = walk_seeds_and_scores.ranked(
            self._preference.keep(walk_seeds_and_scores.scaled_by_seed(expansion.hits, weights))
        )
        if self.plan.intent is Intent.TEMPORAL:
            ranked = walk_seeds_and_scores.sorted_by_time(ranked)
        return _found(ranked, truncated=expansion.truncated)

    def _with_surroundings(self, answers: list[GraphHit], found: GraphFound, searched: Searched | None) -> GraphFound:
        """Add the neighbourhood of a walk's answers and the first text hits, such as records about a cause."""
        reached = walk_seeds_and_scores.ranked(filter(walk_seeds_and_scores.ends_there, answers))
        request = propagation_around_answers(self.query, reached, searched, as_of=self.as_of, limits=self.limits)
        if request is None:
            return found
        if self.watch.ms() > TIME_FOR_MORE_MS:
            return found.altered(truncated=True)
        try:
            nearby = self.graph.propagate(request)
        except StoreError as error:
            # The hits of the walks are returned.
            _LOG.warning("the surroundings of a walk's answers are lost: %s", error)
            return found.altered(truncated=True)
        known = {hit.path.ids[0] for hit in answers} | {hit.id for hit in answers}
        hits = walk_seeds_and_scores.ranked(
            [*found.hits, *walk_seeds_and_scores.neighbours_of_answers(nearby.hits, reached, known)]
        )
        return _found(hits[: self.limits.limit], truncated=found.truncated or nearby.truncated)

    @cached_property
    def _preference(self) -> intent.WalkPreference:
        return intent.walk_preference(self.query.text, self.plan.intent, self.query.temporal_context)

    def _propagate(self, searched: Searched | None, linked: GraphFound | None) -> GraphFound:
        """Propagate from the names and the first text hits."""
        request = propagation_of(self.query, searched, linked, as_of=self.as_of, limits=self.limits)
        if request is None:
            return GraphFound()
        expansion = self.graph.propagate(request)
        found = _found(expansion.hits, truncated=expansion.truncated)
        return found.altered(propagated=bool(found.hits), propagation_weight=expansion.propagation_weight)

    def constrain(self, request: GraphRequest) -> GraphFound:
        """Return the ids that the caller's constraint reaches, or the text hits that are inside it."""
        constraint = self.query.graph_constraint
        if constraint is None:
            return GraphFound()
        inside = graph_constraint.ConstrainedGraph(
            self.graph,
            self.query.tenant_id,
            constraint,
            self.as_of,
            self.limits.constraint_fan_out,
            trusted_only=self.query.filters.trusted_only,
        )
        checked = request.operation is GraphOperation.CHECK
        return graph_constraint.check(inside, request) if checked else graph_constraint.reach(inside)

    def step(self, request: GraphRequest) -> GraphFound:
        """Take one step of a multi-hop plan, from the frontier of the step before or else from the question's names."""
        step = request.step
        links: Sequence[EntityLink] = ()
        seeds = list(request.frontier or ())
        if request.frontier is None:
            links = self._links()
            seeds = [link.entity_id for link in links]
        if step is None or not seeds:
            return GraphFound(links=tuple(links))
        expansion = self.graph.expand(
            ExpandRequest(
                tenant_id=self.query.tenant_id,
                seeds=tuple(seeds),
                types=step.types,
                direction=step.direction,
                max_hops=1,
                limit=step.limit,
                records_only=False,
                entity_types=step.entity_types,
                fan_out=self.limits.fan_out,
                as_of=self.as_of,
                trusted_only=self.query.filters.trusted_only,
            )
        )
        # A step's results replace those of the step before, so only the last one looks facts up.
        last = self.plan.facts is not None and self.plan.steps[-1:] == (step,)
        facts, lost = self._facts(links or self._links()) if last else ((), False)
        found = _found(expansion.hits, truncated=expansion.truncated or lost)
        found = found.altered(links=tuple(links), facts=facts)
        if not found.hits or any(hit.has_record for hit in found.hits):
            return found
        # No vertex has a record, so records that mention them are added as answers; they are not in the frontier.
        mentioned = self.graph.expand(self._mentions(found.frontier))
        reached = [walk_seeds_and_scores.as_link(hit) for hit in found.hits]
        mentions = map(walk_seeds_and_scores.with_reason, walk_seeds_and_scores.mention_hits(mentioned.hits, reached))
        truncated = found.truncated or mentioned.truncated
        return found.altered(hits=(*found.hits, *mentions), truncated=truncated)

    def _links(self) -> list[EntityLink]:
        return linked_names(
            self.graph,
            self.query.tenant_id,
            self.query.text,
            as_of=self.as_of,
            trusted_only=self.query.filters.trusted_only,
            unknown_words=self._unknown_words,
        )

    def _mentions(self, entities: tuple[str, ...]) -> ExpandRequest:
        return ExpandRequest(
            tenant_id=self.query.tenant_id,
            seeds=entities,
            types=(MENTIONS,),
            direction=Direction.OUT,
            max_hops=1,
            by_confidence=True,
            found_share=FOUND_SHARE,
            limit=self.limits.limit,
            fan_out=self.limits.fan_out,
            as_of=self.as_of,
            trusted_only=self.query.filters.trusted_only,
        )

    def _by_intent(self, seeds: Sequence[str]) -> ExpandRequest:
        return expansion_for(
            self.plan, self.query, seeds, as_of=self.as_of, limit=self.limits.limit, fan_out=self.limits.fan_out
        )


def _found(hits: Iterable[GraphHit], *, truncated: bool) -> GraphFound:
    found = tuple(walk_seeds_and_scores.with_reason(hit) for hit in hits)
    return GraphFound.unchecked(hits=found, truncated=truncated, frontier=_ids(found))


def _ids(hits: Iterable[GraphHit]) -> tuple[str, ...]:
    return tuple([hit.id for hit in hits])
