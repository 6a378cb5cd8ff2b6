"""The embedded knowledge graph: vertices and edges in SQLite, walked as NumPy arrays in memory."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from braid.deadline import Locks, holding, suspended, within
from braid.engines.embedded.generations import Generation, GenerationCache, change
from braid.engines.embedded.graph import changes, removals, rows
from braid.engines.embedded.tables import to_microseconds
from braid.ports.graph_query import GraphResult
from braid.ports.keys import check_limit, decode, encode
from braid.ports.knowledge_graph import Expansion, GraphPage, GraphStats, GraphTypes, page_of, unread
from braid.ranking.graph_walks import answer_query
from braid.telemetry.recording import store_calls

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Mapping, Sequence

    from braid.engines.embedded.generations import Given
    from braid.engines.embedded.graph.adjacency import Adjacency
    from braid.engines.embedded.graph.following import FollowedGraph
    from braid.engines.embedded.graph.surroundings import Around
    from braid.engines.embedded.store import EmbeddedStore
    from braid.models import EntityLink, Relationship, Timestamp, Vertex
    from braid.ports.graph_query import GraphQuery
    from braid.ports.knowledge_graph import ExpandRequest, NameKeys, PropagateRequest

_TENANTS_IN_MEMORY = 32
SMALL = 5_000
"""Edges of a graph that is read whole at once."""
_DEARER = 5
"""How many edges of a whole graph are read in the time that one around a walk's seeds takes."""
_MOST_IN_MEMORY = 1_000_000
"""Edges of a graph that is never read whole to be walked: that takes longer than a question may, and 200 MB."""


@store_calls("sqlite")
class EmbeddedKnowledgeGraph:
    """Vertices and edges in SQLite, walked in memory; implements :class:`braid.ports.knowledge_graph.KnowledgeGraph`.

    A walk reads what it sees of a tenant's graph, until the walks since the last write, of any process, have cost about
    what reading all of it does: then it is read into memory, and walked there until the next write.

    Parameters
    ----------
    question_s
        Bound on one walk, query or look-up of names in seconds; :class:`~braid.errors.StoreTooSlow` beyond.
    small
        Most edges of a graph that is read whole at once.
    """

    def __init__(self, store: EmbeddedStore, *, question_s: float = math.inf, small: int = SMALL) -> None:
        self._store = store
        self._small = small
        self._question_s = question_s
        self._lock = threading.Lock()
        self._loading = Locks(threading.Lock)
        self._graphs: OrderedDict[int, Adjacency] = OrderedDict()
        self._followed: dict[int, tuple[Adjacency, FollowedGraph]] = {}
        """By tenant: a graph of those above, and the same with the writes since."""
        self._rows_read: dict[int, tuple[int, int]] = {}
        """By tenant: the generation, and the edges that walks read around their seeds at that."""
        self._types: OrderedDict[str, GraphTypes] = OrderedDict()
        self._stats: GenerationCache[GraphStats] = GenerationCache(store, Generation.GRAPH)

    def end(self, vertices: Sequence[Vertex], relationships: Sequence[Relationship]) -> None:
        """Write what ceases to be valid, in the transaction in which it was read."""
        self.upsert(vertices, relationships)

    def name_keys(self, vertices: Sequence[Vertex]) -> dict[str, NameKeys]:
        """Return what vertices are linked by, by their ids."""
        return {vertex.id: rows.name_keys(vertex) for vertex in vertices}

    def upsert(
        self,
        vertices: Sequence[Vertex],
        relationships: Sequence[Relationship],
        keys: Mapping[str, NameKeys] = MappingProxyType({}),
    ) -> None:
        """Insert or replace vertices, then edges; of two with one identity in a batch the last one counts."""
        last = {(vertex.tenant_id, vertex.id): vertex for vertex in vertices}
        tenants = sorted({tenant_id for tenant_id, _ in last} | {edge.tenant_id for edge in relationships})
        if not tenants:
            return
        with self._store.transaction() as connection:
            for tenant_id in tenants:
                tenant = self._store.ensure_tenant_number(connection, tenant_id)
                _remove_all_rows(connection, tenant)
                own = [vertex for vertex in last.values() if vertex.tenant_id == tenant_id]
                rows.upsert_vertices(connection, tenant, own, keys)
                rows.upsert_edges(connection, tenant, [edge for edge in relationships if edge.tenant_id == tenant_id])
                Generation.GRAPH.advance(connection, tenant)

    def delete(self, tenant_id: str, ids: Sequence[str]) -> int:
        """Remove vertices with their edges and return how many vertices there were."""
        return self._change(tenant_id, ids, rows.delete)

    def delete_unmentioned(self, tenant_id: str, ids: Collection[str]) -> int:
        """Remove those of some vertices that were found and have no edge, and return how many there were."""
        return self._change(tenant_id, ids, rows.delete_unmentioned)

    def delete_relationships(self, tenant_id: str, relationships: Sequence[Relationship]) -> int:
        """Remove edges by their identity and return how many there were."""
        return self._change(tenant_id, relationships, rows.delete_edges)

    def remove_mentions(self, tenant_id: str, mentions: Sequence[Relationship]) -> None:
        """Remove found mentions, whose rows go with :meth:`finish_removals`."""

        def note(connection: sqlite3.Connection, tenant: int, given: Sequence[Relationship]) -> int:
            ends = rows.mentions_by_number(connection, tenant, given)
            removals.note(connection, tenant, ends)
            return len(ends)

        self._change(tenant_id, mentions, note)

    def finish_removals(self, tenant_id: str) -> None:
        """Remove the rows of mentions that are removed, and the names that have none left, in short transactions."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            more = tenant is not None and removals.are_left(connection, tenant)
        while more and tenant is not None:
            with self._store.transaction() as connection:
                names = rows.read_ids(connection, tenant, removals.remove_rows(connection, tenant))
                if rows.delete_unmentioned(connection, tenant, names):
                    Generation.GRAPH.advance(connection, tenant)  # a write may have seen them
                more = removals.are_left(connection, tenant)

    def delete_relationships_of(self, tenant_id: str, ids: Collection[str]) -> int:
        """Remove the edges with an end or their evidence among ``ids`` and return how many there were."""
        return self._change(tenant_id, ids, rows.delete_edges_of)

    def remove_most_relationships_of(self, tenant_id: str, ids: Collection[str]) -> int:
        """Remove edges with an end or their evidence among ``ids`` in short transactions, until few are left."""
        removed = 0
        while True:
            with self._store.read_tenant(tenant_id) as (connection, tenant):
                if tenant is None or not rows.has_more_edges_of(connection, tenant, ids, than=removals.ROWS_AT_ONCE):
                    return removed
            removed += self._change(tenant_id, ids, partial(rows.delete_some_edges_of, at_most=removals.ROWS_AT_ONCE))

    def end_relationships(self, tenant_id: str, until: Mapping[str, Timestamp]) -> int:
        """End the edges of which these records are the evidence, and return how many there were."""
        return self._change(tenant_id, until, rows.end_edges)

    def distrust_relationships(self, tenant_id: str, evidence: Collection[str]) -> int:
        """Mark the edges of which these records are the evidence as untrusted, and return how many there were."""
        return self._change(tenant_id, evidence, rows.distrust_edges)

    def found_mentions(self, tenant_id: str, texts: Collection[str]) -> list[Relationship]:
        """Return the mentions that were found in some texts."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            return [] if tenant is None else rows.read_found_mentions(connection, tenant, tenant_id, texts)

    def pass_mentions(self, tenant_id: str, heirs: Mapping[str, str]) -> int:
        """Lead the mentions of some vertices out of others, and return how many were passed on."""
        return self._change(tenant_id, heirs, rows.pass_mentions)

    def get_many(self, tenant_id: str, ids: Sequence[str]) -> list[Vertex]:
        """Return the vertices that exist, in the order of ``ids``."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            return [] if tenant is None else rows.read_vertices(connection, tenant, tenant_id, ids)

    def as_stored(self, tenant_id: str, relationships: Sequence[Relationship]) -> list[Relationship]:
        """Return the stored edges that have the identities of these."""
        identities = [edge.identity() for edge in relationships if edge.tenant_id == tenant_id]
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            return [] if tenant is None else rows.read_edges_by_identity(connection, tenant, tenant_id, identities)

    def relationships(self, tenant_id: str, *, ids: Collection[str], types: Collection[str] = ()) -> list[Relationship]:
        """Return the edges with an end among ``ids``."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            if tenant is None:
                return []
            return rows.read_edges(connection, tenant, tenant_id, ids=ids, types=types)

    def types(self, tenant_id: str, wanted: GraphTypes) -> GraphTypes:
        """Return the types of the rows; those of an earlier look while these have all that are wanted."""
        with self._lock:
            known = self._types.get(tenant_id)
        if known is not None and wanted.are_among(known):
            return known
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            known = GraphTypes() if tenant is None else rows.read_types(connection, tenant)
        if not self._store.in_transaction:  # what it wrote may yet be rolled back
            with self._lock:
                self._types[tenant_id] = known
                while len(self._types) > _TENANTS_IN_MEMORY:
                    self._types.popitem(last=False)
        return known

    def scan(self, tenant_id: str, *, after: str | None = None, limit: int = 500, hubs: bool = True) -> GraphPage:
        """Return the next page of vertices in the order of their ids, each page of the store's present state."""
        begin = decode(tenant_id, after)
        check_limit(limit)
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            if tenant is None:
                return GraphPage()
            found = rows.read_vertices_after(connection, tenant, tenant_id, after=begin, limit=limit + 1)
            counts = rows.count_edges_out_of(connection, tenant, found)
            vertices = tuple(page_of(found, counts, limit))
            left = 0 if hubs else unread(vertices, counts)
            read = () if left else [vertex.id for vertex in vertices]
            edges = rows.read_edges_out_of(connection, tenant, tenant_id, read)
        more = len(found) > len(vertices)
        return GraphPage(
            vertices=vertices,
            relationships=tuple(edges),
            cursor=encode(tenant_id, vertices[-1].id) if more else None,
            unread=left,
        )

    def link(
        self,
        tenant_id: str,
        names: Sequence[str],
        *,
        as_of: Timestamp,
        limit: int = 50,
        trusted_only: bool = False,
    ) -> list[EntityLink]:
        """Return the entities with one of these names, as name, alias or variant form, each once by its best match."""
        if not names:
            return []
        with within(self._question_s), self._store.read_tenant(tenant_id) as (connection, tenant):
            if tenant is None:
                return []
            return rows.link(
                connection,
                tenant,
                names,
                as_of=to_microseconds(as_of),
                limit=limit,
                trusted_only=trusted_only,
            )

    def expand(self, request: ExpandRequest) -> Expansion:
        """Walk from all seeds at once."""
        if not request.seeds:
            return Expansion()
        with within(self._question_s):
            with self._store.read_tenant(request.tenant_id) as (connection, tenant):
                if tenant is None:
                    return Expansion()
                graph = self._seen_from(connection, tenant, request)
            from braid.engines.embedded.graph.walk import expand

            return expand(graph, request)

    def propagate(self, request: PropagateRequest) -> Expansion:
        """Run personalised PageRank from the request's names and hits over their neighbourhood."""
        if not request.seeds():
            return Expansion()
        with within(self._question_s):
            with self._store.read_tenant(request.tenant_id) as (connection, tenant):
                if tenant is None:
                    return Expansion()
                graph = self._seen_from(connection, tenant, request)
            from braid.engines.embedded.graph.subgraphs import neighbourhood
            from braid.ranking.pagerank import personalised_pagerank

            return personalised_pagerank(request, neighbourhood(graph, request))

    def query(self, query: GraphQuery) -> GraphResult:
        """Answer a declarative query from one snapshot of the store."""
        from braid.engines.embedded.graph.subgraphs import phrases, query_subgraph

        with within(self._question_s):
            with self._store.read_tenant(query.tenant_id) as (connection, tenant):
                if tenant is None:
                    return GraphResult()
                named = rows.ids_by_phrase(connection, tenant, phrases(query))
                graph = self._seen_from(connection, tenant, query, named)
            return answer_query(query, query_subgraph(graph, query, named))

    def stats(self, tenant_id: str) -> GraphStats:
        """Return counts of a tenant's graph, which writes keep."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            if tenant is None:
                return GraphStats()
            # What this thread writes is added at its commit.
            counted = changes.count if self._store.in_transaction else changes.read_counts
            return self._stats.get(connection, tenant, counted)

    def recount(self, tenant_id: str, *, dry_run: bool = False) -> bool:  # noqa: ARG002 - the port's
        """Return False: the counts are kept in the transactions of the writes."""
        return False

    def _change(self, tenant_id: str, given: Given, work: Callable[[sqlite3.Connection, int, Given], int]) -> int:
        """Change rows of one tenant as :func:`change` does, of which none are those of removed mentions."""

        def done(connection: sqlite3.Connection, tenant: int, given: Given) -> int:
            _remove_all_rows(connection, tenant)
            return work(connection, tenant, given)

        return change(self._store, Generation.GRAPH, tenant_id, given, done)

    def _seen_from(
        self,
        connection: sqlite3.Connection,
        tenant: int,
        request: ExpandRequest | PropagateRequest | GraphQuery,
        named: Mapping[str, Sequence[str]] | None = None,
    ) -> Adjacency:
        """Return what a request sees of a tenant's graph, or all of it; ``named`` as of :func:`query_subgraph`."""
        generation = Generation.GRAPH.read(connection, tenant)
        with self._lock:
            known = self._graphs.get(tenant)
            at, rows_read = self._rows_read.get(tenant, (generation, 0))
        if known is not None and known.generation == generation:
            return self._adjacency(connection, tenant, generation)
        if known is not None and not self._store.in_transaction and (around := _around(request, named)) is not None:
            followed = self._follow(connection, tenant, generation, known)
            if followed is not None:
                return followed.around(around)
        rows_read = rows_read if at == generation else 0
        worth = self._small + _DEARER * rows_read
        if worth < _MOST_IN_MEMORY and not _has_more_edges(connection, tenant, worth):
            return self._adjacency(connection, tenant, generation)
        from braid.engines.embedded.graph import surroundings

        graph, read = surroundings.read(connection, tenant, generation, _around(request, named))
        with self._lock:
            self._rows_read[tenant] = (generation, rows_read + read)
        return self._adjacency(connection, tenant, generation) if graph is None else graph

    def _follow(
        self, connection: sqlite3.Connection, tenant: int, generation: int, known: Adjacency
    ) -> FollowedGraph | None:
        """Return a graph that was read before with what was written since; None where that is not known, or much."""
        from braid.engines.embedded.graph.following import MOST_FOLLOWED, ChangedRows, FollowedGraph, read_changed

        with self._lock:
            base, followed = self._followed.get(tenant, (None, None))
        if base is not known or followed is None or followed.changed.generation > generation:
            followed = FollowedGraph(known, ChangedRows(known.generation, {}, {}))
        if followed.changed.generation == generation:
            return followed
        since = changes.since(connection, tenant, followed.changed.generation)
        if since is None or len(since.vertices) + len(since.edges) + len(followed.changed) > MOST_FOLLOWED:
            return None
        changed = read_changed(connection, tenant, generation, since, followed.changed)
        followed = FollowedGraph(known, changed)
        with self._lock:
            self._followed[tenant] = (known, followed)
        return followed

    def _adjacency(self, connection: sqlite3.Connection, tenant: int, generation: int) -> Adjacency:
        from braid.engines.embedded.graph.adjacency import load

        if self._store.in_transaction:  # what it wrote may yet be rolled back
            return load(connection, tenant, generation)
        with holding(self._loading.of(tenant)):  # other tenants do not wait for it
            with self._lock:
                known = self._graphs.get(tenant)
            if known is None or known.generation != generation:
                with suspended():  # half a graph would be of no use to the next walk either
                    loaded = load(connection, tenant, generation)
                if known is not None and known.generation > generation:
                    return loaded  # this reader's snapshot is older than another thread's
                known = loaded
            with self._lock:
                if self._graphs.get(tenant) is not known:
                    self._followed.pop(tenant, None)
                self._graphs[tenant] = known
                self._graphs.move_to_end(tenant)
                while len(self._graphs) > _TENANTS_IN_MEMORY:
                    gone, _ = self._graphs.popitem(last=False)
                    self._followed.pop(gone, None)
            return known


def _has_more_edges(connection: sqlite3.Connection, tenant: int, than: int) -> bool:
    row = connection.execute("SELECT 1 FROM edges WHERE tenant = ? LIMIT 1 OFFSET ?", (tenant, than)).fetchone()
    return row is not None


def _around(
    request: ExpandRequest | PropagateRequest | GraphQuery, named: Mapping[str, Sequence[str]] | None
) -> Around | None:
    from braid.engines.embedded.graph.surroundings import around  # only where the whole graph is not in memory

    return around(request, named or {})


def _remove_all_rows(connection: sqlite3.Connection, tenant: int) -> None:
    """Remove the rows of removed mentions that a process left behind: what is written now may be the same ones.

    The names stay, as this write may go by their being there.
    """
    while removals.are_left(connection, tenant):
        removals.remove_rows(connection, tenant)
