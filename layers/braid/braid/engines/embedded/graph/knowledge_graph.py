"""The embedded knowledge graph."""

from __future__ import annotations

import json
import math
import threading
from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING

from braid.deadline import holding, suspended, within
from braid.engines.embedded.generations import Generation, Remembered, delete
from braid.engines.embedded.graph import reading
from braid.engines.embedded.graph import rows as graph_rows
from braid.engines.embedded.tables import from_microseconds, to_microseconds
from braid.engines.embedded.validity import Changes
from braid.models import EntityLink, GraphHit
from braid.ports.graph_query import GraphResult
from braid.ports.knowledge_graph import Expansion, GraphPage, GraphStats
from braid.ports.scan_cursor import check_limit, decode, encode
from braid.ranking.graph_walks import answer_query
from braid.ranking.scoring import clamp
from braid.understanding.name_forms import match_score

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from braid.engines.embedded.graph.adjacency import Adjacency, Reached
    from braid.engines.embedded.store import EmbeddedStore
    from braid.models import Relationship, Timestamp, Vertex
    from braid.ports.graph_query import GraphQuery
    from braid.ports.knowledge_graph import ExpandRequest, PropagateRequest

_TENANTS_IN_MEMORY = 32


class EmbeddedKnowledgeGraph:
    """Vertices and edges in SQLite, walked in memory; implements :class:`braid.ports.knowledge_graph.KnowledgeGraph`.

    A tenant's graph is read when it is first walked, and again after a write, whichever process wrote.

    Parameters
    ----------
    store
        Where the rows are.
    question_s
        Bound on one walk, query or look-up of names in seconds; :class:`~braid.errors.StoreTooSlow` beyond.
    """

    def __init__(self, store: EmbeddedStore, *, question_s: float = math.inf) -> None:
        self._store = store
        self._question_s = question_s
        self._lock = threading.Lock()
        self._loading: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)
        self._graphs: OrderedDict[int, Adjacency] = OrderedDict()
        self._stats: Remembered[GraphStats] = Remembered(store, Generation.GRAPH)
        self._changes = Changes(store, Generation.GRAPH, ("vertices", "edges"))

    def upsert(self, vertices: Sequence[Vertex], relationships: Sequence[Relationship]) -> None:
        """Write vertices, then edges; of one identity twice in a batch the last stands.

        Raises
        ------
        InvalidRequest
            If an edge's end is neither stored nor among ``vertices``; nothing is written.
        """
        last = {(vertex.tenant_id, vertex.id): vertex for vertex in vertices}
        tenants = sorted({tenant_id for tenant_id, _ in last} | {row.tenant_id for row in relationships})
        if not tenants:
            return
        with self._store.transaction() as connection:
            for tenant_id in tenants:
                tenant = self._store.make_number(connection, tenant_id)
                graph_rows.upsert_vertices(
                    connection, tenant, [vertex for vertex in last.values() if vertex.tenant_id == tenant_id]
                )
                graph_rows.upsert_edges(
                    connection, tenant, [row for row in relationships if row.tenant_id == tenant_id]
                )
                Generation.GRAPH.advance(connection, tenant)

    def delete(self, tenant_id: str, ids: Sequence[str]) -> int:
        """Remove vertices with their edges and return how many vertices there were."""
        return delete(self._store, Generation.GRAPH, tenant_id, ids, graph_rows.delete)

    def delete_relationships(self, tenant_id: str, relationships: Sequence[Relationship]) -> int:
        """Remove edges by their identity and return how many there were."""
        if not relationships:
            return 0
        with self._store.transaction() as connection:
            tenant = self._store.number(connection, tenant_id)
            if tenant is None:
                return 0
            removed = graph_rows.delete_edges(connection, tenant, relationships)
            if removed:
                Generation.GRAPH.advance(connection, tenant)
            return removed

    def get_many(self, tenant_id: str, ids: Sequence[str]) -> list[Vertex]:
        """Return the vertices that exist, in the order of ``ids``."""
        with self._store.read() as connection:
            tenant = self._store.number(connection, tenant_id)
            return [] if tenant is None else reading.read_vertices(connection, tenant, tenant_id, ids)

    def as_stored(self, tenant_id: str, relationships: Sequence[Relationship]) -> list[Relationship]:
        """Return what is stored under the identities of these edges, whole."""
        identities = [edge.identity() for edge in relationships if edge.tenant_id == tenant_id]
        with self._store.read() as connection:
            tenant = self._store.number(connection, tenant_id)
            return [] if tenant is None else reading.edges_of(connection, tenant, tenant_id, identities)

    def relationships(
        self, tenant_id: str, *, ids: Collection[str] = (), evidence: Collection[str] = (), types: Collection[str] = ()
    ) -> list[Relationship]:
        """Return the edges with an end among ``ids`` or their evidence among ``evidence``."""
        with self._store.read() as connection:
            tenant = self._store.number(connection, tenant_id)
            if tenant is None:
                return []
            return reading.read_edges(connection, tenant, tenant_id, ids=ids, evidence=evidence, types=types)

    def scan(self, tenant_id: str, *, after: str | None = None, limit: int = 500) -> GraphPage:
        """Return the next vertices in the order of their ids, each page as the store is then."""
        begin = decode(tenant_id, after)
        check_limit(limit)
        with self._store.read() as connection:
            tenant = self._store.number(connection, tenant_id)
            if tenant is None:
                return GraphPage()
            found = reading.vertices_after(connection, tenant, tenant_id, after=begin, limit=limit + 1)
            vertices = tuple(found[:limit])
            edges = reading.edges_out_of(connection, tenant, tenant_id, [vertex.id for vertex in vertices])
        more = len(found) > limit
        return GraphPage(
            vertices=vertices,
            relationships=tuple(edges),
            cursor=encode(tenant_id, vertices[-1].id) if more else None,
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
        """Return the entities of which a name, an alias or a form of one is asked for, each once, by its best match."""
        if not names:
            return []
        with within(self._question_s), self._store.read() as connection:
            tenant = self._store.number(connection, tenant_id)
            if tenant is None:
                return []
            found = connection.execute(
                "SELECT v.id, v.name, v.aliases, v.entity_type, v.has_record, n.phrase, n.is_alias"
                " FROM json_each(:names) AS asked"
                " CROSS JOIN names AS n ON n.tenant = :tenant AND n.phrase = asked.value"
                " CROSS JOIN vertices AS v ON v.number = n.vertex"
                " WHERE (v.valid_at IS NULL OR v.valid_at <= :as_of)"
                " AND (v.invalid_at IS NULL OR v.invalid_at > :as_of) AND v.trusted >= :trusted",
                {
                    "names": json.dumps(list(dict.fromkeys(names))),
                    "tenant": tenant,
                    "as_of": to_microseconds(as_of),
                    "trusted": trusted_only,
                },
            ).fetchall()
        links: dict[str, EntityLink] = {}
        for vertex_id, name, aliases, entity_type, has_record, phrase, is_alias in sorted(
            found, key=lambda row: (-match_score(row[5], is_name=not row[6]), -len(row[5]), row[0], row[5])
        ):
            if vertex_id not in links:
                links[vertex_id] = EntityLink(
                    entity_id=vertex_id,
                    name=name if name is not None else json.loads(aliases)[0],
                    entity_type=entity_type,
                    phrase=phrase,
                    score=match_score(phrase, is_name=not is_alias),
                    has_record=bool(has_record),
                )
        return list(links.values())[:limit]

    def expand(self, request: ExpandRequest) -> Expansion:
        """Walk from all seeds at once."""
        with within(self._question_s):
            return self._expand(request)

    def _expand(self, request: ExpandRequest) -> Expansion:
        if not request.seeds:
            return Expansion()
        with self._store.read() as connection:
            tenant = self._store.number(connection, request.tenant_id)
            if tenant is None:
                return Expansion()
            graph = self._adjacency(connection, tenant)
        import numpy as np

        from braid.engines.embedded.graph.adjacency import walk

        seeds = sorted({graph.numbers[seed] for seed in request.seeds if seed in graph.numbers})
        if not seeds or not len(graph.sources):
            return Expansion()
        wanted = None
        if request.types:
            wanted = np.array([name in request.types for name in graph.relationship_types], dtype=np.bool_)
        reached = walk(
            graph,
            np.array(seeds, dtype=np.int64),
            types=wanted,
            direction=request.direction,
            max_hops=request.max_hops,
            by_confidence=request.by_confidence,
            as_of=to_microseconds(request.as_of) or 0,
            fan_out=request.fan_out,
            trusted_only=request.trusted_only,
        )
        return Expansion(hits=_hits(graph, reached, _choose(graph, reached, request)), truncated=reached.truncated)

    def propagate(self, request: PropagateRequest) -> Expansion:
        """Spread names and hits over their neighbourhood."""
        with within(self._question_s):
            return self._propagate(request)

    def _propagate(self, request: PropagateRequest) -> Expansion:
        with self._store.read() as connection:
            tenant = self._store.number(connection, request.tenant_id)
            if tenant is None or not request.seeds():
                return Expansion()
            graph = self._adjacency(connection, tenant)
        from braid.engines.embedded.graph.neighbourhood import gather
        from braid.ranking.pagerank import personalised_pagerank

        nodes, edges, truncated = gather(graph, request)
        return personalised_pagerank(request, nodes, edges, truncated=truncated)

    def query(self, query: GraphQuery) -> GraphResult:
        """Answer a declarative query from one moment of the store."""
        with within(self._question_s):
            return self._query(query)

    def _query(self, query: GraphQuery) -> GraphResult:
        from braid.engines.embedded.graph import query as graph_query

        with self._store.read() as connection:
            tenant = self._store.number(connection, query.tenant_id)
            if tenant is None:
                return GraphResult()
            graph = self._adjacency(connection, tenant)
            named = graph_rows.named(connection, tenant, graph_query.phrases(query))
        return answer_query(query, graph_query.gather(graph, query, named))

    def stats(self, tenant_id: str) -> GraphStats:
        """Return stored counts, counted again only after a write."""
        with self._store.read() as connection:
            tenant = self._store.number(connection, tenant_id)
            return GraphStats() if tenant is None else self._stats.get(connection, tenant, _count)

    def next_change(self, tenant_id: str, *, after: datetime) -> datetime | None:
        """Return the first moment after ``after`` when validity changes something; None if there is none."""
        return self._changes.first_after(tenant_id, after)

    def _adjacency(self, connection: sqlite3.Connection, tenant: int) -> Adjacency:
        from braid.engines.embedded.graph.adjacency import load

        generation = Generation.GRAPH.read(connection, tenant)
        if self._store.in_transaction:  # may yet be undone
            return load(connection, tenant, generation)
        with self._lock:
            loading = self._loading[tenant]
        with holding(loading):  # other tenants do not wait for it
            with self._lock:
                known = self._graphs.get(tenant)
            if known is None or known.generation != generation:
                with suspended():  # half of a graph would be no use to the next walk either
                    loaded = load(connection, tenant, generation)
                if known is not None and known.generation > generation:
                    return loaded  # this reader's moment lies before another thread's
                known = loaded
            with self._lock:
                self._graphs[tenant] = known
                self._graphs.move_to_end(tenant)
                while len(self._graphs) > _TENANTS_IN_MEMORY:
                    self._graphs.popitem(last=False)
            return known


def _choose(graph: Adjacency, reached: Reached, request: ExpandRequest) -> list[int]:
    """Return the rows of the answer: what may be returned, the best by score, ties by id, then in the order asked."""
    import numpy as np

    from braid.engines.embedded.graph.adjacency import NO_TIME

    vertices = reached.vertices
    keep = np.ones(len(vertices), dtype=np.bool_)
    if request.records_only:
        keep &= graph.has_record[vertices]
    if request.entity_types:
        wanted = np.array([name in request.entity_types for name in graph.entity_types], dtype=np.bool_)
        keep &= wanted[graph.type_of[vertices]]
    if request.among is not None:
        numbers = [graph.numbers[identity] for identity in request.among if identity in graph.numbers]
        keep &= np.isin(vertices, np.array(numbers, dtype=np.int64))
    times = graph.timestamps[vertices]
    if request.time_range is not None:
        start, end = to_microseconds(request.time_range.start), to_microseconds(request.time_range.end)
        keep &= times != NO_TIME
        if start is not None:
            keep &= times >= start
        if end is not None:
            keep &= times < end
    rows = np.flatnonzero(keep)
    rows = rows[np.lexsort((vertices[rows], -reached.scores[rows]))][: request.limit]
    if request.by_time:
        rows = rows[np.lexsort((vertices[rows], times[rows], times[rows] == NO_TIME))]
    return [int(row) for row in rows]


def _hits(graph: Adjacency, reached: Reached, rows: list[int]) -> tuple[GraphHit, ...]:
    from braid.engines.embedded.graph.adjacency import NO_TIME, path

    hits: list[GraphHit] = []
    for rank, row in enumerate(rows, start=1):
        vertex = int(reached.vertices[row])
        time = int(graph.timestamps[vertex])
        hits.append(
            GraphHit(
                id=graph.ids[vertex],
                score=clamp(float(reached.scores[row])),
                rank=rank,
                path=path(graph, reached, row),
                has_record=bool(graph.has_record[vertex]),
                name=graph.names[vertex],
                entity_type=graph.entity_types[int(graph.type_of[vertex])],
                timestamp=None if time == NO_TIME else from_microseconds(time),
            )
        )
    return tuple(hits)


def _count(connection: sqlite3.Connection, tenant: int) -> GraphStats:
    vertices = connection.execute(
        "SELECT entity_type, count(*), sum(has_record) FROM vertices WHERE tenant = ? GROUP BY entity_type", (tenant,)
    ).fetchall()
    edges = connection.execute(
        "SELECT type, count(*), count(DISTINCT source), count(DISTINCT target) FROM edges WHERE tenant = ?"
        " GROUP BY type",
        (tenant,),
    ).fetchall()
    return GraphStats(
        vertices=sum(row[1] for row in vertices),
        records=sum(row[2] for row in vertices),
        edges=sum(row[1] for row in edges),
        by_entity_type={row[0]: row[1] for row in vertices},
        by_relationship_type={row[0]: row[1] for row in edges},
        sources_by_relationship_type={row[0]: row[2] for row in edges},
        targets_by_relationship_type={row[0]: row[3] for row in edges},
    )
