"""The embedded knowledge graph: vertices and edges in SQLite, walked as NumPy arrays."""

from __future__ import annotations

import math
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from braid.deadline import within
from braid.engines.embedded import graph_change_log
from braid.engines.embedded.graph import edge_rows, name_rows, vertex_rows
from braid.engines.embedded.graph.tenant_graphs import MAX_LOADED_FIRST, TenantGraphs
from braid.engines.embedded.tables import to_microseconds
from braid.engines.embedded.write_generations import Generation, GenerationCache, change
from braid.ports.graph_query import GraphResult
from braid.ports.keys import check_limit, decode, encode
from braid.ports.knowledge_graph import (
    MAX_ENDS_MOVED,
    Expansion,
    GraphPage,
    GraphStats,
    GraphTypes,
    page_of,
    unread,
)
from braid.ranking.graph_queries_and_facts import answer_query
from braid.telemetry.recording import store_calls

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Mapping, Sequence

    from braid.engines.embedded.store import EmbeddedStore
    from braid.engines.embedded.write_generations import Given
    from braid.models import EntityLink, Relationship, Timestamp, Vertex
    from braid.ports.graph_query import GraphQuery
    from braid.ports.knowledge_graph import ExpandRequest, GivenName, NameKeys, PropagateRequest


@store_calls("sqlite")
class EmbeddedKnowledgeGraph:
    """Vertices and edges in SQLite, walked in memory; implements :class:`braid.ports.knowledge_graph.KnowledgeGraph`.

    Parameters
    ----------
    question_s
        Bound on one walk, query or look-up of names in seconds; :class:`~braid.errors.StoreTooSlow` beyond.
    max_loaded_first
        Most edges of a graph that is loaded whole by the first walk.
    """

    def __init__(
        self, store: EmbeddedStore, *, question_s: float = math.inf, max_loaded_first: int = MAX_LOADED_FIRST
    ) -> None:
        self._store = store
        self._question_s = question_s
        self._graphs = TenantGraphs(store, max_loaded_first=max_loaded_first)
        self._stats: GenerationCache[GraphStats] = GenerationCache(store, Generation.GRAPH)

    def set_validity(self, vertices: Sequence[Vertex], relationships: Sequence[Relationship]) -> None:
        """Write vertices and edges with their validity, in the transaction in which they were read."""
        self.upsert(vertices, relationships)

    def name_keys(self, vertices: Sequence[Vertex]) -> dict[str, NameKeys]:
        """Return the names by which vertices are linked, by vertex id."""
        return {vertex.id: name_rows.name_keys(vertex) for vertex in vertices}

    def upsert(
        self,
        vertices: Sequence[Vertex],
        relationships: Sequence[Relationship],
        keys: Mapping[str, NameKeys] = MappingProxyType({}),
        stubs: Collection[str] = (),
    ) -> None:
        """Insert or replace vertices, then edges; of duplicates in a batch the last one counts."""
        last = {(vertex.tenant_id, vertex.id): vertex for vertex in vertices}
        tenants = sorted({tenant_id for tenant_id, _ in last} | {edge.tenant_id for edge in relationships})
        if not tenants:
            return
        with self._store.transaction() as connection:
            for tenant_id in tenants:
                tenant = self._store.ensure_tenant_number(connection, tenant_id)
                _remove_all_rows(connection, tenant)
                stays = {vertex.id for vertex in self.get_many(tenant_id, sorted(stubs))} if stubs else ()
                own = [one for one in last.values() if one.tenant_id == tenant_id and one.id not in stays]
                vertex_rows.upsert_vertices(connection, tenant, own, keys)
                edges = [edge for edge in relationships if edge.tenant_id == tenant_id]
                edge_rows.upsert_edges(connection, tenant, edges)
                Generation.GRAPH.advance(connection, tenant)

    def delete(self, tenant_id: str, ids: Sequence[str]) -> int:
        """Remove vertices with their edges and return how many there were; a tenant's last takes its files along."""
        removed = self._change(tenant_id, ids, vertex_rows.delete)
        # Even if none were: a process that removed the last one may have been killed before it removed the files.
        self._store.after_commit(lambda: self._graphs.remove_saved_if_empty(tenant_id))
        return removed

    def delete_unmentioned(self, tenant_id: str, ids: Collection[str]) -> int:
        """Remove the found names among ``ids`` that have no edge; return their number."""
        return self._change(tenant_id, ids, vertex_rows.delete_unmentioned)

    def delete_only_mentioned(self, tenant_id: str, mentions: Sequence[Relationship]) -> tuple[int, int]:  # noqa: ARG002 - the port's
        """Remove nothing: names are removed in the transaction that removes their mentions."""
        return 0, 0

    def distrust_unmentioned(self, tenant_id: str, ids: Collection[str]) -> int:
        """Mark the found names and stubs among ``ids`` as untrusted that have no trusted edge."""
        return self._change(tenant_id, ids, vertex_rows.distrust_unmentioned)

    def delete_relationships(self, tenant_id: str, relationships: Sequence[Relationship]) -> int:
        """Remove edges by their identity and return how many there were."""
        return self._change(tenant_id, relationships, edge_rows.delete_edges)

    def remove_mentions(self, tenant_id: str, mentions: Sequence[Relationship]) -> None:
        """Mark found mentions as removed; :meth:`finish_removals` deletes their rows."""

        def note(connection: sqlite3.Connection, tenant: int, given: Sequence[Relationship]) -> int:
            endpoints = edge_rows.mentions_by_number(connection, tenant, given)
            graph_change_log.remove_mentions(connection, tenant, endpoints)
            return len(endpoints)

        self._change(tenant_id, mentions, note)

    def finish_removals(self, tenant_id: str) -> None:
        """Delete the rows of removed mentions, and found names without any left, in short transactions."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            more = tenant is not None and graph_change_log.are_left(connection, tenant)
        while more and tenant is not None:
            with self._store.transaction() as connection:
                names = vertex_rows.read_ids(connection, tenant, graph_change_log.remove_rows(connection, tenant))
                removed = vertex_rows.delete_unmentioned(connection, tenant, names)
                if vertex_rows.distrust_unmentioned(connection, tenant, names) or removed:
                    Generation.GRAPH.advance(connection, tenant)  # a write may have seen them
                more = graph_change_log.are_left(connection, tenant)
                if not more:
                    self._store.after_commit(lambda: self._graphs.remove_saved_if_empty(tenant_id))

    def delete_relationships_of(self, tenant_id: str, ids: Collection[str]) -> int:
        """Remove the edges with an endpoint or their evidence among ``ids`` and return how many there were."""
        return self._change(tenant_id, ids, edge_rows.delete_edges_of)

    def remove_most_relationships_of(self, tenant_id: str, ids: Collection[str]) -> int:
        """Remove edges with an endpoint or their evidence among ``ids`` in short transactions, until few are left."""
        return self._change_most(tenant_id, ids, edge_rows.has_more_edges_of, edge_rows.delete_some_edges_of)

    def end_relationships(self, tenant_id: str, until: Mapping[str, Timestamp]) -> int:
        """End the edges whose evidence these records are, and return the number of changed edges."""
        return self._change(tenant_id, until, edge_rows.end_edges)

    def ends_not_moved(self, tenant_id: str, until: Mapping[str, Timestamp]) -> Collection[str]:
        """Return the records with too many ended edges that would end earlier."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            if tenant is None:
                return ()
            return edge_rows.ends_not_moved(connection, tenant, until, at_most=MAX_ENDS_MOVED)

    def distrust_relationships(self, tenant_id: str, evidence: Collection[str]) -> int:
        """Mark the edges of these records' evidence as untrusted, and stubs; return how many edges were changed."""
        return self._change(tenant_id, evidence, edge_rows.distrust_edges)

    def distrust_most_relationships(self, tenant_id: str, evidence: Collection[str]) -> int:
        """Mark such edges in short transactions, until few trusted ones are left."""
        return self._change_most(tenant_id, evidence, edge_rows.has_more_trusted_edges_of, edge_rows.distrust_edges)

    def given_names(self, tenant_id: str, names: Sequence[str], *, as_of: Timestamp, limit: int) -> list[GivenName]:
        """Return those of these names that trusted entities have, found names excepted."""
        with within(self._question_s), self._store.read_tenant(tenant_id) as (connection, tenant):
            if tenant is None:
                return []
            at = to_microseconds(as_of)
            return name_rows.given_names(connection, tenant, names, as_of=at, limit=limit)

    def found_mentions(self, tenant_id: str, texts: Collection[str]) -> list[Relationship]:
        """Return the mentions that were found in ``texts``."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            return [] if tenant is None else edge_rows.read_found_mentions(connection, tenant, tenant_id, texts)

    def reassign_mentions(self, tenant_id: str, successors: Mapping[str, str]) -> int:
        """Move the mentions of vertices to their successors, and return how many were moved."""
        return self._change(tenant_id, successors, edge_rows.reassign_mentions)

    def get_many(self, tenant_id: str, ids: Sequence[str]) -> list[Vertex]:
        """Return the vertices that exist, in the order of ``ids``."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            return [] if tenant is None else vertex_rows.read_vertices(connection, tenant, tenant_id, ids)

    def as_stored(self, tenant_id: str, relationships: Sequence[Relationship]) -> list[Relationship]:
        """Return the stored edges with the identities of these edges."""
        identities = [edge.identity() for edge in relationships if edge.tenant_id == tenant_id]
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            return [] if tenant is None else edge_rows.read_edges_by_identity(connection, tenant, tenant_id, identities)

    def relationships(self, tenant_id: str, *, ids: Collection[str], types: Collection[str] = ()) -> list[Relationship]:
        """Return the edges with an endpoint among ``ids``."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            if tenant is None:
                return []
            return edge_rows.read_edges(connection, tenant, tenant_id, ids=ids, types=types)

    def types(self, tenant_id: str, wanted: GraphTypes) -> GraphTypes:  # noqa: ARG002 - the port's
        """Return the types in the stored counts, in a transaction those of the last commit."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            if tenant is None:
                return GraphTypes()
            counts = self._stats.get(connection, tenant, graph_change_log.read_counts)
        return GraphTypes(frozenset(counts.by_entity_type), frozenset(counts.by_relationship_type))

    def scan(self, tenant_id: str, *, after: str | None = None, limit: int = 500, hubs: bool = True) -> GraphPage:
        """Return the next page of vertices in the order of their ids; each page has the store's current state."""
        begin = decode(tenant_id, after)
        check_limit(limit)
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            if tenant is None:
                return GraphPage()
            found = vertex_rows.read_vertices_after(connection, tenant, tenant_id, after=begin, limit=limit + 1)
            counts = edge_rows.count_edges_out_of(connection, tenant, found)
            vertices = tuple(page_of(found, counts, limit))
            left = 0 if hubs else unread(vertices, counts)
            read = () if left else [vertex.id for vertex in vertices]
            edges = edge_rows.read_edges_out_of(connection, tenant, tenant_id, read)
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
            return name_rows.link(
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
                graph = self._graphs.seen_from(connection, tenant, request)
            from braid.engines.embedded.graph.expansion import expand

            return expand(graph, request)

    def propagate(self, request: PropagateRequest) -> Expansion:
        """Run personalised PageRank from the request's names and hits over their neighbourhood."""
        if not request.seeds():
            return Expansion()
        with within(self._question_s):
            with self._store.read_tenant(request.tenant_id) as (connection, tenant):
                if tenant is None:
                    return Expansion()
                graph = self._graphs.seen_from(connection, tenant, request)
            from braid.engines.embedded.graph.subgraphs import neighbourhood
            from braid.ranking.pagerank_and_paths import personalised_pagerank

            return personalised_pagerank(request, neighbourhood(graph, request))

    def query(self, query: GraphQuery) -> GraphResult:
        """Answer a declarative query from one snapshot of the store."""
        from braid.engines.embedded.graph.subgraphs import phrases, query_subgraph

        with within(self._question_s):
            with self._store.read_tenant(query.tenant_id) as (connection, tenant):
                if tenant is None:
                    return GraphResult()
                named = name_rows.ids_by_phrase(connection, tenant, phrases(query))
                starts = partial(vertex_rows.read_starts, connection, tenant, query, named)
                graph = self._graphs.seen_from(connection, tenant, query, starts)
            return answer_query(query, query_subgraph(graph, query, named))

    def prepare_walks(self, tenant_id: str) -> None:
        """Save a large graph, so that no question loads it whole."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            if tenant is not None:
                self._graphs.save_large(connection, tenant)

    def stats(self, tenant_id: str) -> GraphStats:
        """Return the counts of a tenant's graph, which writes maintain."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            if tenant is None:
                return GraphStats()
            # Uncommitted writes of this thread are added to the stored counts at the commit.
            counted = graph_change_log.count if self._store.in_transaction else graph_change_log.read_counts
            return self._stats.get(connection, tenant, counted)

    def recount(self, tenant_id: str, *, dry_run: bool = False) -> bool:  # noqa: ARG002 - the port's
        """Return False: the counts are maintained in the transactions of the writes, so never differ."""
        return False

    def _change(self, tenant_id: str, given: Given, work: Callable[[sqlite3.Connection, int, Given], int]) -> int:
        """Change rows of one tenant by :func:`change`, after deleting the remaining rows of removed mentions."""

        def done(connection: sqlite3.Connection, tenant: int, given: Given) -> int:
            _remove_all_rows(connection, tenant)
            return work(connection, tenant, given)

        return change(self._store, Generation.GRAPH, tenant_id, given, done)

    def _change_most(
        self, tenant_id: str, ids: Collection[str], are_more: Callable[..., bool], work: Callable[..., int]
    ) -> int:
        """Change rows of ``ids`` in short transactions, until few are left; return how many were changed."""
        changed, at_once = 0, graph_change_log.ROWS_AT_ONCE
        while ids:
            with self._store.read_tenant(tenant_id) as (connection, tenant):
                if tenant is None or not are_more(connection, tenant, ids, than=at_once):
                    break
            changed += self._change(tenant_id, ids, partial(work, at_most=at_once))
        return changed


def _remove_all_rows(connection: sqlite3.Connection, tenant: int) -> None:
    """Remove rows of removed mentions that an interrupted process left: this write may write the same mentions.

    The found names stay, as this write may rely on them.
    """
    while graph_change_log.are_left(connection, tenant):
        graph_change_log.remove_rows(connection, tenant)
