"""The caller's graph constraint: the ids that it reaches, and a check of text hits against it.

The workflow's state is bounded, so at most a thousand ids are listed, and paths to the first hundred. If a constraint
reaches more, all records are searched, and the hits are checked afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, Final

from braid.models.enums_and_scalars import can_be_id
from braid.ports.graph_query import GraphQuery, QueryStart
from braid.ports.knowledge_graph import ExpandRequest, Expansion
from braid.retrieval.stages.plan_and_search import best_ids
from braid.retrieval.stages.stage_messages import GraphFound
from braid.retrieval.stages.walk_seeds_and_scores import MAX_HITS_BYTES, with_reason
from braid.understanding.graph_constraint_cost import MAX_REACH
from braid.understanding.tokens import normalise

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from braid.models import EntityLink, GraphConstraint, GraphHit
    from braid.ports.knowledge_graph import KnowledgeGraph
    from braid.retrieval.stages.stage_messages import GraphRequest

CARRIED: Final = 100
"""Most hits with their paths in the workflow's state."""
CARRIED_MEANWHILE: Final = 10
"""The same while a constraint's whole reach is searched, which is in the state twice then."""
MAX_FRONTIER_BYTES: Final = 48_000
"""Largest total size of a frontier's ids, however long each is. A state has at most 256 KiB: these, hits with their
paths, up to 112,000 bytes of text hits with the longest ids, and the question."""
MAX_CHECKED_BYTES: Final = 24_000
"""The same of the text hits that were found to be inside: more than an answer has results."""


@dataclass(frozen=True)
class ConstrainedGraph:
    """One tenant's graph under one constraint."""

    graph: KnowledgeGraph
    tenant_id: str
    constraint: GraphConstraint
    as_of: datetime
    fan_out: int
    trusted_only: bool = False

    def links(self) -> list[EntityLink]:
        """Return the entities that have the constraint's entity as a name or alias; empty for an id or unknown name."""
        names = [normalise(self.constraint.entity)]
        return self.graph.link(self.tenant_id, names, as_of=self.as_of, trusted_only=self.trusted_only)

    def walk(self, links: Sequence[EntityLink], *, among: tuple[str, ...] | None = None) -> Expansion:
        """Return the vertices inside the constraint, nearest first, at most :data:`MAX_REACH`.

        Parameters
        ----------
        among
            Only these ids; None for any.
        """
        if not (links or can_be_id(self.constraint.entity)):
            return Expansion()
        return self.graph.expand(
            ExpandRequest(
                tenant_id=self.tenant_id,
                seeds=tuple(link.entity_id for link in links) or (self.constraint.entity,),
                types=self.constraint.types,
                direction=self.constraint.direction,
                max_hops=self.constraint.depth,
                limit=MAX_REACH,
                among=among,
                fan_out=self.fan_out,
                as_of=self.as_of,
                trusted_only=self.trusted_only,
            )
        )

    def is_unknown(self) -> bool:
        """Whether no vertex has the constraint's entity as its id."""
        if not can_be_id(self.constraint.entity):
            return True
        start = QueryStart(ids=(self.constraint.entity,))
        asked = GraphQuery(
            tenant_id=self.tenant_id, start=start, as_of=self.as_of, limit=1, trusted_only=self.trusted_only
        )
        return not self.graph.query(asked).hits


def reach(inside: ConstrainedGraph) -> GraphFound:
    """Return the vertices that a constraint reaches, nearest first, and flags of parts that did not fit the state."""
    links = inside.links()
    expansion = inside.walk(links)
    frontier, hits = _within_bytes([hit.id for hit in expansion.hits], MAX_FRONTIER_BYTES), _with_paths(expansion.hits)
    return GraphFound(
        links=tuple(links),
        hits=hits,
        truncated=expansion.truncated,
        frontier=frontier,
        wide=len(expansion.hits) > len(hits),
        overflow=len(expansion.hits) >= MAX_REACH or len(frontier) < len(expansion.hits),
        unknown=not links and not expansion.hits and inside.is_unknown(),
    )


def check(inside: ConstrainedGraph, request: GraphRequest) -> GraphFound:
    """Return the hits of the text search that are inside a constraint, in the order of the search.

    If they are too few and the search had more hits, ``frontier`` is the constraint's whole reach, to be searched next.
    """
    if request.searched is None:
        return reach(inside).altered(wide=False, overflow=False)
    searched, most = request.searched, request.plan.candidates
    asked = best_ids(searched.vector, searched.lexical, limit=2 * most)
    links = inside.links()
    expansion = inside.walk(links, among=asked)
    held = {hit.id: hit for hit in expansion.hits}
    ordered = [held[identity] for identity in asked if identity in held]
    found = GraphFound(
        links=tuple(links),
        hits=_with_paths(ordered),
        truncated=expansion.truncated,
        frontier=_within_bytes([hit.id for hit in ordered], MAX_CHECKED_BYTES),
        unknown=not links and not ordered and inside.is_unknown(),
    )
    more = max(len(searched.vector), len(searched.lexical)) >= most
    if request.frontier is not None or not more or len(ordered) >= request.query.top_k:
        return found
    everything = inside.walk(links)
    inside_first = list(dict.fromkeys([*found.frontier, *(hit.id for hit in everything.hits)]))
    nearest = _within_bytes(inside_first, MAX_FRONTIER_BYTES)
    cut = len(everything.hits) >= MAX_REACH or everything.truncated
    hits = found.hits[:CARRIED_MEANWHILE]
    return found.altered(hits=hits, frontier=nearest, short=True, wide=True, truncated=cut)


def _with_paths(hits: Sequence[GraphHit]) -> tuple[GraphHit, ...]:
    """Return the first hits, each with the reason that is its path, as many as fit into the state."""
    carried = tuple(map(with_reason, hits[:CARRIED]))
    return carried[: _fitting((len(hit.model_dump_json().encode()) for hit in carried), MAX_HITS_BYTES)]


def _within_bytes(ids: Sequence[str], most: int) -> tuple[str, ...]:
    return tuple(ids[: _fitting((len(identity.encode()) for identity in ids), most)])


def _fitting(sizes: Iterable[int], most: int) -> int:
    """Return how many of the first items are no larger than ``most`` together."""
    return sum(1 for _ in takewhile(lambda total: total <= most, accumulate(sizes)))
