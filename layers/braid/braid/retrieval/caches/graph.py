"""In-process cache of graph look-ups: links, traversals, propagations, queries and counts."""

from __future__ import annotations

import threading
from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from braid.models import earliest
from braid.ranking.scoring import FOREVER
from braid.retrieval.caches.keys_and_generations import CacheName

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from braid.models import EntityLink
    from braid.ports.graph_query import GraphQuery, GraphResult
    from braid.ports.knowledge_graph import ExpandRequest, Expansion, GraphStats, KnowledgeGraph, PropagateRequest
    from braid.retrieval.caches.keys_and_generations import CacheCounts, WriteGeneration

KEPT_FOR = timedelta(minutes=5)
_ANY_MOMENT = datetime.min.replace(tzinfo=UTC)
_T = TypeVar("_T")


class _Entry(NamedTuple):
    """A cached value, the ``as_of`` of its request, and when the first part of it ceases to be valid."""

    since: datetime
    until: datetime
    value: object


class GraphCache:
    """LRU cache of graph look-ups.

    Parameters
    ----------
    entries
        Most entries, of all tenants together.
    counts
        Where hits and misses are counted.
    """

    def __init__(self, entries: int, counts: CacheCounts) -> None:
        self._entries = entries
        self._counts = counts
        self._lock = threading.Lock()
        self._known: OrderedDict[Hashable, _Entry] = OrderedDict()

    def of(self, graph: KnowledgeGraph, tenant_id: str, generation: WriteGeneration | None) -> KnowledgeGraph:
        """Return a tenant's graph behind this cache, for one stage of one question; uncached without a generation."""
        return graph if generation is None else CachedGraph(graph, self, tenant_id, generation)

    def get_or_ask(
        self,
        key: Hashable,
        ask: Callable[[], _T],
        *,
        keep: bool,
        as_of: datetime,
        ends: Callable[[_T], Iterable[datetime | None]],
    ) -> _T:
        """Return the cached value under a key that is valid at ``as_of``; else the result of ``ask``.

        A value is valid from the ``as_of`` of its request, for at most :data:`KEPT_FOR`.

        Parameters
        ----------
        keep
            Whether to cache the result of ``ask``.
        ends
            Returns the moments at which parts of a value cease to be valid; the first is its expiry.
        """
        with self._lock:
            known = self._known.get(key)
            if known is not None and known.since <= as_of < known.until and as_of - known.since < KEPT_FOR:
                self._known.move_to_end(key)
                self._counts.add(CacheName.GRAPH, hit=True)
                return cast("_T", known.value)
        self._counts.add(CacheName.GRAPH, hit=False)
        answer = ask()
        if keep:
            with self._lock:
                self._known[key] = _Entry(as_of, earliest(ends(answer)) or FOREVER, answer)
                self._known.move_to_end(key)
                while len(self._known) > self._entries:
                    self._known.popitem(last=False)
        return answer


class CachedGraph:
    """A tenant's graph under one write generation; implements :class:`braid.ports.knowledge_graph.KnowledgeGraph`.

    A request's ``as_of`` differs from question to question, so it is no part of the key: it is compared with the
    entry's validity instead.
    """

    def __init__(self, graph: KnowledgeGraph, cache: GraphCache, tenant_id: str, generation: WriteGeneration) -> None:
        self._graph = graph
        self._cache = cache
        self._tenant_id = tenant_id
        self._generation = generation

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

        asked = (tuple(names), limit, trusted_only)
        return list(
            self._recall("link", (tenant_id, asked, as_of), ask, lambda links: (one.invalid_at for one in links))
        )

    def expand(self, request: ExpandRequest) -> Expansion:
        """Walk from the seeds."""
        return self._recall("expand", _asked(request), lambda: self._graph.expand(request), _ends)

    def propagate(self, request: PropagateRequest) -> Expansion:
        """Spread names and hits over their neighbourhood."""
        return self._recall("propagate", _asked(request), lambda: self._graph.propagate(request), _ends)

    def query(self, query: GraphQuery) -> GraphResult:
        """Answer a declarative query."""
        return self._recall("query", _asked(query), lambda: self._graph.query(query), _ends)

    def stats(self, tenant_id: str) -> GraphStats:
        """Return stored counts."""
        return self._recall("stats", (tenant_id, None, _ANY_MOMENT), lambda: self._graph.stats(tenant_id), lambda _: ())

    def _recall(
        self,
        kind: str,
        request: tuple[str, Hashable, datetime],
        ask: Callable[[], _T],
        ends: Callable[[_T], Iterable[datetime | None]],
    ) -> _T:
        tenant_id, asked, as_of = request
        if tenant_id != self._tenant_id:
            return ask()
        key = (tenant_id, self._generation.number, kind, asked)
        return self._cache.get_or_ask(key, ask, keep=self._generation.settled, as_of=as_of, ends=ends)


def _asked(request: ExpandRequest | PropagateRequest | GraphQuery) -> tuple[str, Hashable, datetime]:
    """Return a request's tenant, its key without ``as_of``, and its ``as_of``."""
    return request.tenant_id, request.model_dump_json(exclude={"as_of"}), request.as_of


def _ends(found: Expansion | GraphResult) -> Iterable[datetime | None]:
    """Return when the paths of the hits cease to be valid."""
    return (hit.path.invalid_at for hit in found.hits)
