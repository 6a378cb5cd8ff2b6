"""In-process cache of graph answers: entities and common traversals."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeVar, cast

from braid.ranking.scoring import FOREVER
from braid.retrieval.caches.namespace import CacheName

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from datetime import datetime

    from braid.models import EntityLink, Relationship, Vertex
    from braid.ports.graph_query import GraphQuery, GraphResult
    from braid.ports.knowledge_graph import ExpandRequest, Expansion, GraphStats, KnowledgeGraph, PropagateRequest
    from braid.retrieval.caches.namespace import CacheCounts, WriteGeneration

_SPANS = 16
_T = TypeVar("_T")


class GraphCache:
    """Answers of graphs, evicted least recently used first.

    Parameters
    ----------
    entries
        Most answers that are kept, of all tenants together.
    counts
        Where hits and misses are counted.
    """

    def __init__(self, entries: int, counts: CacheCounts) -> None:
        self._entries = entries
        self._counts = counts
        self._lock = threading.Lock()
        self._known: OrderedDict[Hashable, Any] = OrderedDict()

    def of(self, graph: KnowledgeGraph, tenant_id: str, generation: WriteGeneration | None) -> KnowledgeGraph:
        """Return a tenant's graph behind this cache, for one stage of one question; uncached without a generation."""
        return graph if generation is None else CachedGraph(graph, self, tenant_id, generation)

    def get_or_ask(self, key: Hashable, ask: Callable[[], _T], *, keep: bool) -> _T:
        """Return the value under a key, else what ``ask`` returns, which is kept if ``keep`` says so."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                self._counts.add(CacheName.GRAPH, hit=True)
                return cast("_T", self._known[key])
        self._counts.add(CacheName.GRAPH, hit=False)
        answer = ask()
        if keep:
            self.keep(key, answer)
        return answer

    def keep(self, key: Hashable, value: object) -> None:
        """Keep a value, and evict the least recently used beyond the limit."""
        with self._lock:
            self._known[key] = value
            self._known.move_to_end(key)
            while len(self._known) > self._entries:
                self._known.popitem(last=False)

    def peek(self, key: Hashable) -> object:
        """Return the value under a key without counting a hit or miss; None when there is none."""
        with self._lock:
            return self._known.get(key)


class CachedGraph:
    """A tenant's graph under one write generation; implements :class:`braid.ports.knowledge_graph.KnowledgeGraph`.

    Each question has a moment of its own, so that no two requests would be equal. Between two changes of validity all
    moments give the same answer: the key has the next change in place of the moment.
    """

    def __init__(self, graph: KnowledgeGraph, cache: GraphCache, tenant_id: str, generation: WriteGeneration) -> None:
        self._graph = graph
        self._cache = cache
        self._tenant_id = tenant_id
        self._generation = generation

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
        return self._cache.get_or_ask(
            self._key("stats"), lambda: self._graph.stats(tenant_id), keep=self._generation.settled
        )

    def next_change(self, tenant_id: str, *, after: datetime) -> datetime | None:
        """Return when validity next changes something, from a cached span around the moment if there is one."""
        if tenant_id != self._tenant_id:
            return self._graph.next_change(tenant_id, after=after)
        key = self._key("validity")
        spans = cast("tuple[tuple[datetime, datetime], ...]", self._cache.peek(key) or ())
        for start, end in spans:
            if start <= after < end:
                return None if end == FOREVER else end
        found = self._graph.next_change(tenant_id, after=after)
        if self._generation.settled:
            others = [span for span in spans if span[1] != (found or FOREVER)]
            self._cache.keep(key, ((after, found or FOREVER), *others)[:_SPANS])
        return found

    def _recall(self, kind: str, tenant_id: str, asked: Hashable, as_of: datetime, ask: Callable[[], _T]) -> _T:
        if tenant_id != self._tenant_id:
            return ask()
        key = self._key(kind, asked, self.next_change(tenant_id, after=as_of))
        return self._cache.get_or_ask(key, ask, keep=self._generation.settled)

    def _key(self, *parts: Hashable) -> Hashable:
        return (self._tenant_id, self._generation.number, *parts)
