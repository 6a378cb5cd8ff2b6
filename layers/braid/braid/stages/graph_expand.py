"""Graph expand: link the question's names, and walk the graph from what was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from braid import linking
from braid.engines.ports import ExpandRequest
from braid.models import Direction, EntityLink, GraphHit, Intent, Path, Source
from braid.planning import CAUSAL_TYPES, TEMPORAL_TYPES
from braid.scoring import clamp
from braid.stages.states import GraphFound, GraphOperation, GraphRequest
from braid.stages.timing import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from braid.engines.ports import Expansion, KnowledgeGraph
    from braid.models import Plan, Query

MAX_LINKS = 10
MENTIONS = "MENTIONS"


@dataclass(frozen=True)
class Budget:
    """How far a walk may go."""

    seeds: int = 10
    limit: int = 50
    fan_out: int = 200


def run(request: GraphRequest, *, graph: KnowledgeGraph, now: datetime, budget: Budget) -> GraphFound:
    """Answer one graph operation. Each kind of call to the graph is made at most once, whatever the number of seeds."""
    watch = Stopwatch()
    walk = _Walk(graph, request.query, request.plan, request.query.as_of or now, budget)
    match request.operation:
        case GraphOperation.LINK:
            found = walk.link()
        case GraphOperation.EXPAND:
            found = walk.expand(_seeds(request, budget))
        case GraphOperation.CONSTRAIN:
            found = walk.constrain()
        case GraphOperation.WALK:
            found = walk.link_and_expand()
        case GraphOperation.STEP:
            found = walk.step(request)
    return found.model_copy(update={"took_ms": watch.ms()})


def expansion_for(
    plan: Plan, query: Query, seeds: Sequence[str], *, as_of: datetime, limit: int, fan_out: int
) -> ExpandRequest:
    """Return the walk that an intent asks for.

    Causal: CAUSES, ENABLES, PREVENTS, up to 3 hops, best product of confidence first. Temporal: BEFORE, AFTER,
    DURING, up to 3 hops, the best by confidence listed in order of time. Otherwise: any type, both ways, up to 2
    hops, nearest first.
    """
    base = ExpandRequest(tenant_id=query.tenant_id, seeds=tuple(seeds), limit=limit, fan_out=fan_out, as_of=as_of)
    context = query.temporal_context
    time_range = query.filters.time_range or (context.time_range if context else None)
    if plan.intent is Intent.CAUSAL:
        changes: dict[str, object] = {
            "types": CAUSAL_TYPES,
            "direction": plan.direction,
            "max_hops": 3,
            "by_confidence": True,
        }
    elif plan.intent is Intent.TEMPORAL:
        changes = {
            "types": TEMPORAL_TYPES,
            "direction": plan.direction,
            "max_hops": 3,
            "by_confidence": True,
            "by_time": True,
            "time_range": time_range,
        }
    else:
        changes = {"direction": Direction.BOTH, "max_hops": 2}
    return base.model_copy(update=changes)


class _Walk:
    """One tenant's graph, asked for one question."""

    def __init__(self, graph: KnowledgeGraph, query: Query, plan: Plan, as_of: datetime, budget: Budget) -> None:
        self.graph, self.query, self.plan, self.as_of, self.budget = graph, query, plan, as_of, budget

    def link(self) -> GraphFound:
        """Find the question's names and the records that mention them."""
        links = self._links()
        if not links:
            return GraphFound(took_ms=0)
        expansion = self.graph.expand(
            self._request(links, types=(MENTIONS,), direction=Direction.OUT, max_hops=1, by_confidence=True)
        )
        hits = [*_named(links), *_mentioning(expansion.hits, links)]
        return GraphFound(links=tuple(links), hits=_ranked(hits), truncated=expansion.truncated, took_ms=0)

    def expand(self, seeds: Sequence[str]) -> GraphFound:
        """Walk from the seeds, by intent."""
        if not seeds:
            return GraphFound(took_ms=0)
        return _found(self.graph.expand(self._by_intent(seeds)))

    def constrain(self) -> GraphFound:
        """Find what the caller's constraint allows."""
        constraint = self.query.graph_constraint
        if constraint is None:
            return GraphFound(took_ms=0)
        links = self.graph.link(self.query.tenant_id, [linking.normalise(constraint.entity)], as_of=self.as_of)
        seeds = [link.entity_id for link in links] or [constraint.entity]
        expansion = self.graph.expand(
            ExpandRequest(
                tenant_id=self.query.tenant_id,
                seeds=tuple(seeds),
                types=constraint.types,
                direction=constraint.direction,
                max_hops=constraint.depth,
                limit=200,
                fan_out=self.budget.fan_out,
                as_of=self.as_of,
            )
        )
        found = _found(expansion)
        return found.model_copy(update={"links": tuple(links)})

    def link_and_expand(self) -> GraphFound:
        """Answer from the graph alone: names, what mentions them, and what is reached from them."""
        linked = self.link()
        walked = self.expand([link.entity_id for link in linked.links])
        hits = _ranked([*linked.hits, *walked.hits])[: self.budget.limit]
        return GraphFound(
            links=linked.links,
            hits=hits,
            truncated=linked.truncated or walked.truncated,
            frontier=_ids(hits),
            took_ms=0,
        )

    def step(self, request: GraphRequest) -> GraphFound:
        """Take one step of a multi-hop plan from the step before, or from the question's names when it is the first."""
        step = request.step
        links: Sequence[EntityLink] = ()
        seeds = list(request.frontier or ())
        if request.frontier is None:
            links = self._links()
            seeds = [link.entity_id for link in links]
        if step is None or not seeds:
            return GraphFound(links=tuple(links), took_ms=0)
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
                fan_out=self.budget.fan_out,
                as_of=self.as_of,
            )
        )
        return _found(expansion).model_copy(update={"links": tuple(links)})

    def _links(self) -> list[EntityLink]:
        names = linking.phrases(self.query.text)
        if not names:
            return []
        links = self.graph.link(self.query.tenant_id, names, as_of=self.as_of)
        return linking.longest_match(self.query.text, links)[:MAX_LINKS]

    def _request(self, links: Sequence[EntityLink], **changes: object) -> ExpandRequest:
        base = ExpandRequest(
            tenant_id=self.query.tenant_id,
            seeds=tuple(dict.fromkeys(link.entity_id for link in links)),
            limit=self.budget.limit,
            fan_out=self.budget.fan_out,
            as_of=self.as_of,
        )
        return base.model_copy(update=changes)

    def _by_intent(self, seeds: Sequence[str]) -> ExpandRequest:
        return expansion_for(
            self.plan, self.query, seeds, as_of=self.as_of, limit=self.budget.limit, fan_out=self.budget.fan_out
        )


def _seeds(request: GraphRequest, budget: Budget) -> tuple[str, ...]:
    """Return the first hits of the text search, and the entities that the question names."""
    named = [link.entity_id for link in request.linked.links] if request.linked else []
    hits = list(request.searched.frontier[: budget.seeds]) if request.searched else []
    return tuple(dict.fromkeys([*named, *hits]))


def _named(links: Iterable[EntityLink]) -> list[GraphHit]:
    """Return the linked entities themselves: an entity that has a record can be an answer."""
    return [
        GraphHit(
            id=link.entity_id,
            score=link.score,
            rank=1,
            source=Source.KNOWLEDGE,
            path=Path(ids=(link.entity_id,), types=(), names=(link.name,)),
            name=link.name,
            entity_type=link.entity_type,
            reason=f"entity match: {link.name}",
        )
        for link in {link.entity_id: link for link in links}.values()
    ]


def _mentioning(hits: Iterable[GraphHit], links: Sequence[EntityLink]) -> list[GraphHit]:
    """Return what mentions a linked entity, scored by how well its name matched."""
    by_id = {link.entity_id: link for link in links}
    found = []
    for hit in hits:
        link = by_id[hit.path.ids[0]]
        changes = {
            "score": clamp(hit.score * link.score),
            "source": Source.KNOWLEDGE,
            "reason": f"entity match: {link.name}",
        }
        found.append(hit.model_copy(update=changes))
    return found


def _ranked(hits: Iterable[GraphHit]) -> tuple[GraphHit, ...]:
    """Keep one hit an id, the best, and number them."""
    best: dict[str, GraphHit] = {}
    for hit in hits:
        if hit.id not in best or hit.score > best[hit.id].score:
            best[hit.id] = hit
    ordered = sorted(best.values(), key=lambda hit: (-hit.score, hit.id))
    return tuple(hit.model_copy(update={"rank": rank}) for rank, hit in enumerate(ordered, start=1))


def _found(expansion: Expansion) -> GraphFound:
    hits = tuple(
        hit.model_copy(update={"reason": hit.reason or f"graph path: {' → '.join(hit.path.types)}"})
        for hit in expansion.hits
    )
    return GraphFound(hits=hits, truncated=expansion.truncated, frontier=_ids(hits), took_ms=0)


def _ids(hits: Iterable[GraphHit]) -> tuple[str, ...]:
    return tuple(hit.id for hit in hits)
