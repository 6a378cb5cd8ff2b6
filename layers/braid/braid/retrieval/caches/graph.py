"""Entities and common traversals, remembered by a warm process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeVar, cast

from braid.ranking.freshness import FOREVER
from braid.retrieval.caches.namespace import CacheName

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from datetime import datetime

    from braid.models import EntityLink, Relationship, Vertex
    from braid.ports.graph_query import GraphQuery, GraphResult
    from braid.ports.knowledge_graph import ExpandRequest, Expansion, GraphStats, KnowledgeGraph, PropagateRequest
    from braid.retrieval.caches.namespace import CacheCounts, Standing

_SPANS = 16
_T = TypeVar("_T")


class GraphMemory:
    """What graphs answered, the least recently used forgotten first.

    Parameters
    ----------
    entries
        How many answers are remembered, of all tenants together.
    counts
        Where hits and misses are counted.
    """

    def __init__(self, entries: int, counts: CacheCounts) -> None:
        self._entries = entries
        self._counts = counts
        self._lock = threading.Lock()
        self._known: OrderedDict[Hashable, Any] = OrderedDict()

    def of(self, graph: KnowledgeGraph, tenant_id: str, standing: Standing | None) -> KnowledgeGraph:
        """Return the graph as one stage of one question of a tenant asks it, under a generation read once."""
        return graph if standing is None else RememberedGraph(graph, self, tenant_id, standing)

    def recall(self, key: Hashable, ask: Callable[[], _T], *, keep: bool) -> _T:
        """Return what is remembered under a key, else what ``ask`` returns, which is remembered then."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                self._counts.add(CacheName.GRAPH, hit=True)
                return cast("_T", self._known[key])
        self._counts.add(CacheName.GRAPH, hit=False)
        answered = ask()
        if keep:
            self.remember(key, answered)
        return answered

    def remember(self, key: Hashable, value: object) -> None:
        """Remember a value, and forget what was not asked for longest."""
        with self._lock:
            self._known[key] = value
            self._known.move_to_end(key)
            while len(self._known) > self._entries:
                self._known.popitem(last=False)

    def look(self, key: Hashable) -> object:
        """Return what is remembered under a key without counting it; None when nothing is."""
        with self._lock:
            return self._known.get(key)


class RememberedGraph:
    """A tenant's graph under one write generation; implements :class:`braid.ports.knowledge_graph.KnowledgeGraph`.

    A question is asked as of its own moment, so that no two would ever be equal. But between two moments at which
    validity changes something all moments are alike: the next such moment stands in the key instead.
    """

    def __init__(self, graph: KnowledgeGraph, memory: GraphMemory, tenant_id: str, standing: Standing) -> None:
        self._graph = graph
        self._memory = memory
        self._tenant_id = tenant_id
        self._standing = standing

    def upsert(self, vertices: Sequence[Vertex], relationships: Sequence[Relationship]) -> None:
        """Write to the graph itself."""
        self._graph.upsert(vertices, relationships)

    def delete(self, tenant_id: str, ids: Sequence[str]) -> int:
        """Delete from the graph itself."""
        return self._graph.delete(tenant_id, ids)

    def link(
        self,
        tenant_id: str,
        names: Sequence[str],
        *,
        as_of: datetime,
        limit: int = 50,
        trusted_only: bool = False,
    ) -> list[EntityLink]:
        """Return entities by name."""

        def ask() -> tuple[EntityLink, ...]:
            return tuple(self._graph.link(tenant_id, names, as_of=as_of, limit=limit, trusted_only=trusted_only))

        return list(self._recall("link", tenant_id, (tuple(names), limit, trusted_only), as_of, ask))

    def expand(self, request: ExpandRequest) -> Expansion:
        """Walk from the seeds."""
        asked = request.model_dump_json(exclude={"as_of"})
        return self._recall("expand", request.tenant_id, asked, request.as_of, lambda: self._graph.expand(request))

    def propagate(self, request: PropagateRequest) -> Expansion:
        """Spread names and hits over their neighbourhood."""
        asked = request.model_dump_json(exclude={"as_of"})
        return self._recall(
            "propagate", request.tenant_id, asked, request.as_of, lambda: self._graph.propagate(request)
        )

    def query(self, query: GraphQuery) -> GraphResult:
        """Answer a declarative query."""
        asked = query.model_dump_json(exclude={"as_of"})
        return self._recall("query", query.tenant_id, asked, query.as_of, lambda: self._graph.query(query))

    def stats(self, tenant_id: str) -> GraphStats:
        """Return stored counts."""
        if tenant_id != self._tenant_id:
            return self._graph.stats(tenant_id)
        return self._memory.recall(
            self._key("stats"), lambda: self._graph.stats(tenant_id), keep=self._standing.settled
        )

    def next_change(self, tenant_id: str, *, after: datetime) -> datetime | None:
        """Return when validity next changes something, from what is known of the moments around it if anything is."""
        if tenant_id != self._tenant_id:
            return self._graph.next_change(tenant_id, after=after)
        key = self._key("validity")
        spans = cast("tuple[tuple[datetime, datetime], ...]", self._memory.look(key) or ())
        for start, end in spans:
            if start <= after < end:
                return None if end == FOREVER else end
        found = self._graph.next_change(tenant_id, after=after)
        if self._standing.settled:
            others = [span for span in spans if span[1] != (found or FOREVER)]
            self._memory.remember(key, ((after, found or FOREVER), *others)[:_SPANS])
        return found

    def _recall(self, kind: str, tenant_id: str, asked: Hashable, as_of: datetime, ask: Callable[[], _T]) -> _T:
        if tenant_id != self._tenant_id:
            return ask()
        key = self._key(kind, asked, self.next_change(tenant_id, after=as_of))
        return self._memory.recall(key, ask, keep=self._standing.settled)

    def _key(self, *parts: Hashable) -> Hashable:
        return (self._tenant_id, self._standing.number, *parts)
