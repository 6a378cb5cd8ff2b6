"""Knowledge graph on Neptune, or another Gremlin endpoint of TinkerPop 3.7.

Traversals are sent as bytecode, so that values are never part of query text; the number of round trips is independent
of the number of seeds, names and hops. Those that write vertices and edges, and fetch them, are in ``element_layout``.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from braid import deadline
from braid.engines.neptune import element_layout, expansion, graph_query, name_links
from braid.engines.neptune.connection import GremlinConnection, iam_headers
from braid.engines.neptune.element_layout import CHARACTERS_AT_ONCE, characters_of_names, vertex_ids
from braid.engines.neptune.removals import BATCH, IDS_AT_ONCE, GremlinRemovals
from braid.engines.neptune.stored_counts import GraphCounts
from braid.errors import ConfigurationError, InvalidRequest, StoreError, TransientStoreError
from braid.models import EntityLink, Relationship
from braid.models.records import FOUND_PREFIX
from braid.ports.batches import batches
from braid.ports.keys import check_limit, decode, encode
from braid.ports.knowledge_graph import (
    PAGE_EDGES,
    ExpandRequest,
    Expansion,
    GivenName,
    GraphPage,
    GraphStats,
    page_of,
    unread,
)
from braid.ranking import graph_queries_and_facts
from braid.telemetry.recording import store_calls
from braid.understanding.tokens import normalise

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from gremlin_python.process.graph_traversal import GraphTraversal, GraphTraversalSource

    from braid.models import Vertex
    from braid.ports.graph_query import GraphQuery, GraphResult
    from braid.ports.knowledge_graph import GraphTypes, NameKeys, PropagateRequest, StoredCounts
    from braid.settings import Settings


@store_calls("gremlin")
class GremlinGraph(GremlinRemovals):
    """Entities and relationships over one connection; implements :class:`braid.ports.knowledge_graph.WritableGraph`.

    Parameters
    ----------
    question_s
        Time limit in seconds of all attempts of a question's traversal; the connection's limit when None.
    counts
        Where a tenant's counts are stored; when None, the tenant's whole graph is counted each time.
    """

    def __init__(
        self,
        connection: GremlinConnection,
        *,
        question_s: float | None = None,
        counts: StoredCounts | None = None,
    ) -> None:
        self._connection, self._question_s = connection, question_s
        self._counts = GraphCounts(connection, counts, self.scan)

    @classmethod
    def connect(
        cls, settings: Settings, *, counts: StoredCounts | None = None, to_reader: bool = False
    ) -> GremlinGraph:
        """Return the graph at the endpoint of the settings, or at its readers' endpoint, which lags behind writes.

        No request is sent yet. Raises ConfigurationError if the endpoint is no WebSocket address, or if requests must
        be signed and credentials or the region are missing.
        """
        name = "neptune_reader_endpoint" if to_reader else "neptune_endpoint"
        url: str = getattr(settings, name)
        if urlsplit(url).scheme not in ("ws", "wss"):
            raise ConfigurationError(f"BRAID_{name.upper()} {url!r} is not a ws:// or wss:// address")
        signed = settings.neptune_iam and url.startswith("wss://")
        return cls(
            GremlinConnection(
                url,
                connect_timeout_s=settings.neptune_connect_timeout_s,
                read_timeout_s=settings.neptune_read_timeout_s,
                evaluation_timeout_ms=int(settings.neptune_evaluation_timeout_s * 1_000),
                attempts=settings.neptune_attempts,
                headers=iam_headers() if signed else None,
            ),
            question_s=settings.neptune_question_s,
            counts=counts,
        )

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def name_keys(self, vertices: Sequence[Vertex]) -> dict[str, NameKeys]:  # noqa: ARG002 - the port's
        """Return an empty mapping: no other write waits for a write's transaction."""
        return {}

    def upsert(
        self,
        vertices: Sequence[Vertex],
        relationships: Sequence[Relationship],
        keys: Mapping[str, NameKeys] = MappingProxyType({}),  # noqa: ARG002 - the port's
        stubs: Collection[str] = (),
    ) -> None:
        """Write vertices, then edges; when it returns they are durable.

        Each batch is a transaction: after a failure earlier batches are written, and repeating the call writes the
        rest.
        """
        last_vertices = {element_layout.vertex_id(vertex.tenant_id, vertex.id): vertex for vertex in vertices}
        last_edges = {element_layout.edge_id(edge): edge for edge in relationships}
        self._require_endpoints(set(last_vertices), list(last_edges.values()))
        with ExitStack() as counting:
            for tenant in {vertex.tenant_id for vertex in vertices} | {edge.tenant_id for edge in relationships}:
                ids = [vertex.id for vertex in last_vertices.values() if vertex.tenant_id == tenant]
                own = [edge for edge in last_edges.values() if edge.tenant_id == tenant]
                counting.enter_context(self._counts.changing(tenant, ids, own))
            for batch in batches(last_vertices.values(), BATCH, size=CHARACTERS_AT_ONCE, size_of=characters_of_names):
                self._connection.submit(partial(element_layout.write_vertices, vertices=batch, stubs=stubs))
            for edges in batches(list(last_edges.values()), BATCH):
                try:
                    self._connection.submit(partial(element_layout.write_edges, edges=edges))
                except TransientStoreError:
                    raise
                except StoreError:
                    self._require_endpoints(set(), edges)  # another write may have removed one since
                    raise

    def set_validity(self, vertices: Sequence[Vertex], relationships: Sequence[Relationship]) -> None:
        """Update the validity of stored vertices and edges; items removed meanwhile are not restored."""
        items: list[Vertex | Relationship] = [*vertices, *relationships]
        for batch in batches(items, BATCH):
            self._connection.submit(partial(element_layout.change, items=batch))

    def found_mentions(self, tenant_id: str, texts: Collection[str]) -> list[Relationship]:
        """Return the mentions that were found in ``texts``."""
        rows = self._fetch(
            element_layout.fetch_found_mentions, vertex_ids(tenant_id, sorted(texts)), tenant_id=tenant_id
        )
        edges = (element_layout.edge_of(tenant_id, row) for row in rows)
        return sorted((edge for edge in edges if edge.found), key=Relationship.identity)

    def reassign_mentions(self, tenant_id: str, successors: Mapping[str, str]) -> int:
        """Move the mentions of vertices to their successors, in batches; return how many were moved."""
        passed = 0
        for source, successor in successors.items():
            fetch = partial(
                element_layout.fetch_mentions_out_of,
                key=element_layout.vertex_id(tenant_id, source),
                tenant_id=tenant_id,
            )
            while rows := self._connection.submit(fetch):
                edges = [element_layout.edge_of(tenant_id, row) for row in rows]
                new = [edge.altered(source=successor) for edge in edges if edge.target != successor]
                kept = {edge.identity() for edge in self.as_stored(tenant_id, new)}
                new = [edge for edge in new if edge.identity() not in kept]
                self.upsert([], new)
                self.delete_relationships(tenant_id, edges)
                passed += len(new)
        return passed

    def get_many(self, tenant_id: str, ids: Sequence[str]) -> list[Vertex]:
        """Return the vertices that exist, in the order of ``ids``."""
        rows = self._fetch(element_layout.fetch_vertices, vertex_ids(tenant_id, ids), tenant_id=tenant_id)
        found = {vertex.id: vertex for vertex in (element_layout.vertex_of(tenant_id, row) for row in rows)}
        return [found[name] for name in dict.fromkeys(ids) if name in found]

    def as_stored(self, tenant_id: str, relationships: Sequence[Relationship]) -> list[Relationship]:
        """Return the stored edges with the identities of these edges."""
        keys = dict.fromkeys(element_layout.edge_id(edge) for edge in relationships if edge.tenant_id == tenant_id)
        rows = self._fetch(element_layout.fetch_edges, list(keys), tenant_id=tenant_id)
        return sorted((element_layout.edge_of(tenant_id, row) for row in rows), key=Relationship.identity)

    def relationships(self, tenant_id: str, *, ids: Collection[str], types: Collection[str] = ()) -> list[Relationship]:
        """Return the edges with an endpoint among ``ids``."""
        rows = self._fetch(
            element_layout.fetch_edges_at, vertex_ids(tenant_id, sorted(ids)), tenant_id=tenant_id, types=types
        )
        found = {edge.identity(): edge for edge in (element_layout.edge_of(tenant_id, row) for row in rows)}
        return [found[identity] for identity in sorted(found)]

    def types(self, tenant_id: str, wanted: GraphTypes) -> GraphTypes:
        """Return the types in the stored counts, none of a graph that was not counted; ``wanted`` if none are kept."""
        return self._counts.types(tenant_id, wanted)

    def scan(self, tenant_id: str, *, after: str | None = None, limit: int = 500, hubs: bool = True) -> GraphPage:
        """Return the next page of vertices in the order of their stored ids, without a snapshot."""
        begin = decode(tenant_id, after)
        check_limit(limit)
        rows = self._connection.submit(
            partial(element_layout.fetch_vertices_after, tenant_id=tenant_id, after=begin, limit=limit + 1)
        )
        found = [element_layout.vertex_of(tenant_id, row) for row in rows]
        if not found:
            return GraphPage()
        keys = vertex_ids(tenant_id, (vertex.id for vertex in found))
        counted = self._connection.submit(partial(element_layout.count_edges_out_of, tenant_id=tenant_id, keys=keys))
        edges_of = {element_layout.record_id(row["id"]): int(row["edges"]) for row in counted}
        vertices = tuple(page_of(found, edges_of, limit))
        left = 0 if hubs else unread(vertices, edges_of)
        keys = vertex_ids(tenant_id, (vertex.id for vertex in vertices))
        count = sum(edges_of.get(vertex.id, 0) for vertex in vertices)
        edges: Iterable[Relationship] = () if left else self._edges_out_of(tenant_id, keys, count)
        relationships = sorted(edges, key=Relationship.identity)
        return GraphPage(
            vertices=vertices,
            relationships=tuple(relationships),
            cursor=encode(tenant_id, vertices[-1].id) if len(found) > len(vertices) else None,
            unread=left,
        )

    def _edges_out_of(self, tenant_id: str, keys: Sequence[str], count: int) -> Iterator[Relationship]:
        """Yield the outgoing edges of vertices, in pages if ``count`` is more than a reply can hold."""
        after = None if count <= PAGE_EDGES else ""
        while True:
            fetch = partial(
                element_layout.fetch_edges_out_of, tenant_id=tenant_id, keys=keys, after=after, limit=PAGE_EDGES
            )
            edges = [element_layout.edge_of(tenant_id, row) for row in self._connection.submit(fetch)]
            yield from edges
            if after is None or len(edges) < PAGE_EDGES:
                return
            after = element_layout.edge_id(edges[-1])

    def link(
        self,
        tenant_id: str,
        names: Sequence[str],
        *,
        as_of: datetime,
        limit: int = 50,
        trusted_only: bool = False,
    ) -> list[EntityLink]:
        """Return the entities with a name, an alias or a form of these among ``names``."""
        return name_links.link(self._ask, tenant_id, names, as_of=as_of, limit=limit, trusted_only=trusted_only)

    def given_names(self, tenant_id: str, names: Sequence[str], *, as_of: datetime, limit: int) -> list[GivenName]:
        """Return those of these names that trusted entities have, found names excepted."""
        links = self.link(tenant_id, names, as_of=as_of, limit=limit, trusted_only=True)
        given = sorted(link.entity_id for link in links if not link.entity_id.startswith(FOUND_PREFIX))
        asked, found = frozenset(names), list[GivenName]()
        for vertex in self.get_many(tenant_id, given) if given else ():
            if vertex.is_text:
                continue
            called = dict.fromkeys(map(normalise, vertex.aliases), True)
            called |= {normalise(vertex.name): False} if vertex.name else {}
            found += [GivenName(vertex.id, name, called[name]) for name in sorted(asked & called.keys())]
        return found[:limit]

    def expand(self, request: ExpandRequest) -> Expansion:
        """Expand the seeds, with one traversal per hop for all of them."""
        if not request.seeds:
            return Expansion()
        with self._bounded():
            return expansion.expand(self._ask, request)

    def propagate(self, request: PropagateRequest) -> Expansion:
        """Rank the neighbourhood of names and hits by personalised PageRank, with one traversal per hop."""
        if not request.seeds():
            return Expansion()
        from braid.ranking.neighbourhood_arrays import Neighbourhood
        from braid.ranking.pagerank_and_paths import personalised_pagerank

        with self._bounded():
            nodes, edges, truncated = expansion.gather(self._ask, request)
            return personalised_pagerank(request, Neighbourhood.of(nodes, edges, truncated=truncated))

    def query(self, query: GraphQuery) -> GraphResult:
        """Answer a declarative query, with one traversal per step."""
        with self._bounded():
            return graph_queries_and_facts.answer_query(query, graph_query.gather(self._ask, query))

    def stats(self, tenant_id: str) -> GraphStats:
        """Return the stored counts, read by one key."""
        with self._bounded():
            return self._counts.read(tenant_id)

    def prepare_walks(self, tenant_id: str) -> None:
        """Do nothing: the server walks the stored graph itself."""

    def recount(self, tenant_id: str, *, dry_run: bool = False) -> bool:
        """Count the whole graph page by page, and store the counts if the stored ones differ."""
        return self._counts.recount(tenant_id, dry_run=dry_run)

    def _bounded(self) -> AbstractContextManager[None]:
        """Limit the time of a walk, evaluation of the responses included."""
        return deadline.within(self._question_s or math.inf)

    def _ask(self, build: Callable[[GraphTraversalSource], GraphTraversal]) -> list[Any]:
        """Run a traversal within a question's deadline. Raises StoreTooSlow if that is over."""
        return self._connection.submit(build, within_s=self._question_s)

    def _require_endpoints(self, written: set[str], edges: Sequence[Relationship]) -> None:
        endpoints = {
            element_layout.vertex_id(edge.tenant_id, endpoint)
            for edge in edges
            for endpoint in (edge.source, edge.target)
        } - written
        missing = set(endpoints)
        for batch in batches(sorted(endpoints), IDS_AT_ONCE):
            missing.difference_update(self._stored(batch))
        for edge in edges:
            for endpoint in (edge.source, edge.target):
                if element_layout.vertex_id(edge.tenant_id, endpoint) in missing:
                    raise InvalidRequest.of(
                        "relationships",
                        f"{edge.source} {edge.type} {edge.target}: there is no vertex {endpoint!r}, "
                        "neither stored nor written with it",
                    )

    def _fetch(self, fetch: Callable[..., GraphTraversal], keys: Sequence[str], **how: Any) -> Iterator[Any]:  # noqa: ANN401
        """Yield the results of a traversal for many keys, in batches of keys."""
        for batch in batches(keys, IDS_AT_ONCE):
            yield from self._connection.submit(partial(fetch, keys=batch, **how))
