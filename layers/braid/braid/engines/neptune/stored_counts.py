"""Stored counts of a tenant's graph: their update by writes, and recounting.

A question reads them by one key instead of counting. A write counts its stored vertices and edges before and after, and
adds the difference, which is 0 for a repeated write.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gremlin_python.process.graph_traversal import __

from braid.engines.neptune import element_layout
from braid.engines.neptune.element_layout import vertex_ids
from braid.errors import StoreError
from braid.ports.batches import batches
from braid.ports.keys import pages
from braid.ports.knowledge_graph import GraphStats, GraphTypes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from gremlin_python.process.graph_traversal import GraphTraversal, GraphTraversalSource

    from braid.engines.neptune.connection import GremlinConnection
    from braid.models import Relationship
    from braid.ports.knowledge_graph import GraphPage, StoredCounts

_VERTICES, _EDGES, _SOURCES, _TARGETS = "vertices/", "edges/", "sources/", "targets/"
"""Prefixes of the names of counts; the entity or relationship type follows."""
_RECORDS: Final = "records"
_UNTRUSTED: Final = "untrusted/"
"""Prefix of the names of counts of untrusted vertices, edges and records."""
_IDS_AT_ONCE: Final = 500
_ENDPOINTS_AT_ONCE: Final = 200


class GraphCounts:
    """The stored counts of each tenant's graph, and their update by writes.

    Parameters
    ----------
    stored
        Where they are stored; when None, the graph is counted at each request for them.
    scan
        Returns the pages of a tenant's graph.
    """

    def __init__(
        self, connection: GremlinConnection, stored: StoredCounts | None, scan: Callable[..., GraphPage]
    ) -> None:
        self._connection, self._stored, self._scan = connection, stored, scan

    def read(self, tenant_id: str) -> GraphStats:
        """Return the stored counts.

        Raises StoreError if a tenant has a graph but no stored counts: a question does not wait for it to be counted.
        """
        if self._stored is None:
            return _stats(self._count(tenant_id))
        counts = self._stored.read(tenant_id)
        if counts is None and self._connection.submit(partial(_any_vertex, tenant_id=tenant_id)):
            raise StoreError(f"the counts of tenant {tenant_id!r} are not stored; `braid repair` counts its graph")
        return _stats(counts or {})

    def types(self, tenant_id: str, wanted: GraphTypes) -> GraphTypes:
        """Return the types in the stored counts, none of a graph that was not counted; ``wanted`` if none are kept."""
        if self._stored is None:
            return wanted
        counts = self._stored.read(tenant_id) or {}

        def of(prefix: str) -> frozenset[str]:
            return frozenset(name.removeprefix(prefix) for name in counts if name.startswith(prefix))

        return GraphTypes(of(_VERTICES), of(_EDGES))

    def recount(self, tenant_id: str, *, dry_run: bool) -> bool:
        """Count everything, and return whether the stored counts differed; they are replaced unless ``dry_run``."""
        if self._stored is None:
            return False
        counted, stored = self._count(tenant_id), self._stored.read(tenant_id)
        if _stats(counted) == _stats(stored or {}) and (stored is not None or not counted):
            return False
        if not dry_run:
            self._stored.replace(tenant_id, counted)
        return True

    @contextmanager
    def changing(self, tenant_id: str, ids: Sequence[str], edges: Sequence[Relationship]) -> Iterator[None]:
        """Count the block's vertices and edges before and after it, and add the difference to the stored counts.

        The addition is a request of its own, so the counts may be wrong until ``braid repair`` recounts:

        - a change is lost if the process ends between the write and the addition;
        - it is added twice if two processes write the same new items at the same time, or if the answer of the store is
          lost and another process adds its change before this one is sent again.

        If a write whose change was lost is repeated, it adds the number of its items of each type that has no count at
        all, so that the planner knows every type.
        """
        stored = self._stored
        if stored is None:
            yield
            return
        count = partial(_count_among, self._connection, tenant_id, ids, edges)
        before = count()
        try:
            yield
        except StoreError:
            with suppress(StoreError):  # the error of the write is raised; a repair recounts
                self._add(stored, tenant_id, before, count())
            raise
        self._add(stored, tenant_id, before, count())

    def _add(self, stored: StoredCounts, tenant_id: str, before: Counter[str], after: Counter[str]) -> None:
        """Add the difference to the stored counts; where none are stored, count the whole graph."""
        changes = Counter(after)
        changes.subtract(before)
        if not stored.add(tenant_id, changes):
            stored.replace(tenant_id, self._count(tenant_id))
            return
        counted = stored.read(tenant_id) or {}
        if missing := {name: number for name, number in after.items() if number and not counted.get(name)}:
            stored.add(tenant_id, missing)

    def _count(self, tenant_id: str) -> Counter[str]:
        """Count a tenant's whole graph, page by page."""
        counts: Counter[str] = Counter()
        for page in pages(self._scan, tenant_id, limit=_IDS_AT_ONCE):
            counts += _count_page(self._connection, tenant_id, page)
        return counts


def _stats(counts: Mapping[str, int]) -> GraphStats:
    """Return stored counts in the form that the planner reads."""

    def by_type(prefix: str) -> dict[str, int]:
        return {name.removeprefix(prefix): n for name, n in counts.items() if name.startswith(prefix) and n > 0}

    vertices, edges = by_type(_VERTICES), by_type(_EDGES)
    return GraphStats(
        vertices=sum(vertices.values()),
        records=max(0, counts.get(_RECORDS, 0)),
        edges=sum(edges.values()),
        by_entity_type=vertices,
        by_relationship_type=edges,
        sources_by_relationship_type=by_type(_SOURCES),
        targets_by_relationship_type=by_type(_TARGETS),
        untrusted_records=max(0, counts.get(_UNTRUSTED + _RECORDS, 0)),
        untrusted_by_entity_type=by_type(_UNTRUSTED + _VERTICES),
        untrusted_by_relationship_type=by_type(_UNTRUSTED + _EDGES),
    )


def _count_among(
    connection: GremlinConnection, tenant_id: str, ids: Collection[str], edges: Sequence[Relationship]
) -> Counter[str]:
    """Count the vertices and edges that are stored, and by type the edges' endpoints that have an edge."""
    counts: Counter[str] = Counter()
    for keys in batches(vertex_ids(tenant_id, sorted(ids)), _IDS_AT_ONCE):
        for row in connection.submit(partial(_vertices, tenant_id=tenant_id, keys=keys)):
            counted = (_VERTICES + row["type"], *([_RECORDS] if row["record"] else []))
            _count(counts, counted, trusted=not row.get("untrusted"))
    for keys in batches(sorted({element_layout.edge_id(edge) for edge in edges}), _IDS_AT_ONCE):
        for row in connection.submit(partial(_edges, tenant_id=tenant_id, keys=keys)):
            _count(counts, (_EDGES + row["type"],), trusted=not row.get("untrusted"))
    types = sorted({edge.type for edge in edges})
    endpoints = vertex_ids(tenant_id, sorted({endpoint for edge in edges for endpoint in (edge.source, edge.target)}))
    for keys in batches(endpoints, max(1, _ENDPOINTS_AT_ONCE // max(1, len(types)))):
        for row in connection.submit(partial(_endpoints, tenant_id=tenant_id, keys=keys, types=types)):
            counts.update(row)
    return counts


def _count_page(connection: GremlinConnection, tenant_id: str, page: GraphPage) -> Counter[str]:
    """Count a page's vertices, their outgoing edges, and the types of which they are sources or targets."""
    counts: Counter[str] = Counter()
    for vertex in page.vertices:
        counted = (_VERTICES + vertex.entity_type, *([_RECORDS] if vertex.has_record else []))
        _count(counts, counted, trusted=vertex.trusted)
    for edge in page.relationships:
        _count(counts, (_EDGES + edge.type,), trusted=edge.trusted)
    counts.update(_SOURCES + kind for _, kind in {(edge.source, edge.type) for edge in page.relationships})
    keys = vertex_ids(tenant_id, (vertex.id for vertex in page.vertices))
    for kinds in connection.submit(partial(_types_in, tenant_id=tenant_id, keys=keys)) if keys else ():
        counts.update(_TARGETS + str(kind) for kind in kinds)
    return counts


def _count(counts: Counter[str], names: Sequence[str], *, trusted: bool) -> None:
    """Count an element under some names, and also as untrusted if it is."""
    counts.update(names)
    if not trusted:
        counts.update(_UNTRUSTED + name for name in names)


def _any_vertex(source: GraphTraversalSource, *, tenant_id: str) -> GraphTraversal:
    return source.V().has(element_layout.TENANT, tenant_id).limit(1).id_()


def _vertices(source: GraphTraversalSource, *, tenant_id: str, keys: Sequence[str]) -> GraphTraversal:
    own = source.V(*keys).has(element_layout.TENANT, tenant_id)
    steps = own.project("type", "record", "untrusted")
    return steps.by(element_layout.ENTITY_TYPE).by(element_layout.HAS_RECORD).by(element_layout.UNTRUSTED)


def _edges(source: GraphTraversalSource, *, tenant_id: str, keys: Sequence[str]) -> GraphTraversal:
    own = source.E(*keys).has(element_layout.TENANT, tenant_id)
    return own.project("type", "untrusted").by(__.label()).by(element_layout.UNTRUSTED)


def _endpoints(
    source: GraphTraversalSource, *, tenant_id: str, keys: Sequence[str], types: Sequence[str]
) -> GraphTraversal:
    """Return for each vertex, per type, 1 or 0 for an outgoing edge, and likewise for an incoming one.

    At most one edge of each is read, however many there are.
    """
    names = [prefix + kind for kind in types for prefix in (_SOURCES, _TARGETS)]
    steps: Any = source.V(*keys).has(element_layout.TENANT, tenant_id).project(*names)
    for kind in types:
        steps = steps.by(__.out_e(kind).limit(1).count()).by(__.in_e(kind).limit(1).count())
    return steps


def _types_in(source: GraphTraversalSource, *, tenant_id: str, keys: Sequence[str]) -> GraphTraversal:
    return source.V(*keys).has(element_layout.TENANT, tenant_id).map(__.in_e().label().dedup().fold())
