"""Removal of vertices and edges, and the trust that vertices lose with their edges.

A found name or a stub is as trusted as its edges: when it keeps no trusted one, it is marked as untrusted.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from braid.engines.neptune import element_layout
from braid.engines.neptune.element_layout import vertex_ids
from braid.models.records import FOUND_PREFIX
from braid.ports.batches import batches
from braid.telemetry.recording import store_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime

    from gremlin_python.process.graph_traversal import GraphTraversal, GraphTraversalSource

    from braid.engines.neptune.connection import GremlinConnection
    from braid.engines.neptune.stored_counts import GraphCounts
    from braid.models import Relationship

BATCH = 50
"""Vertices or edges per write traversal: for 200, which are 2,000 steps, TinkerPop takes twice as long."""
IDS_AT_ONCE = 1_000


@store_calls("gremlin")
class GremlinRemovals:
    """The methods of :class:`~braid.engines.neptune.knowledge_graph.GremlinGraph` that remove, end and distrust."""

    _connection: GremlinConnection
    _counts: GraphCounts

    def delete(self, tenant_id: str, ids: Sequence[str]) -> int:
        """Remove vertices with their edges and return how many vertices existed."""
        removed = 0
        for batch in batches(vertex_ids(tenant_id, ids), IDS_AT_ONCE):
            present = self._stored(batch)
            if present:
                self._delete_edges(tenant_id, partial(element_layout.fetch_edges_at, keys=present))
                with self._counts.changing(tenant_id, [element_layout.record_id(key) for key in present], []):
                    self._connection.submit(partial(_drop, ids=present, tenant_id=tenant_id))
            removed += len(present)
        return removed

    def delete_unmentioned(self, tenant_id: str, ids: Collection[str]) -> int:
        """Remove the found names among ``ids`` that have no edge; return their number."""
        removed = 0
        for batch in batches(vertex_ids(tenant_id, ids), IDS_AT_ONCE):
            rows = self._connection.submit(partial(element_layout.fetch_unmentioned, tenant_id=tenant_id, keys=batch))
            vertices = (element_layout.vertex_of(tenant_id, row) for row in rows)
            found = [vertex.id for vertex in vertices if vertex.found]
            if found:
                keys = vertex_ids(tenant_id, found)
                with self._counts.changing(tenant_id, found, []):
                    self._connection.submit(partial(_drop_unmentioned, ids=keys, tenant_id=tenant_id))
            removed += len(found)
        return removed

    def delete_only_mentioned(self, tenant_id: str, mentions: Sequence[Relationship]) -> tuple[int, int]:
        """Remove the found names that have no edge besides these stored mentions, in one traversal with those.

        Returns the numbers of both.
        """
        edges_of: dict[str, list[Relationship]] = {}
        for mention in mentions:
            edges_of.setdefault(mention.source, []).append(mention)
        names = gone = 0
        for batch in batches(sorted(edges_of), IDS_AT_ONCE, size=IDS_AT_ONCE, size_of=lambda one: len(edges_of[one])):
            leaving = [element_layout.edge_id(mention) for one in batch for mention in edges_of[one]]
            fetch = partial(element_layout.fetch_unmentioned, tenant_id=tenant_id, leaving=leaving)
            rows = self._connection.submit(partial(fetch, keys=vertex_ids(tenant_id, batch)))
            vertices = (element_layout.vertex_of(tenant_id, row) for row in rows)
            if found := [vertex.id for vertex in vertices if vertex.found]:
                own, keys = [mention for one in found for mention in edges_of[one]], vertex_ids(tenant_id, found)
                with self._counts.changing(tenant_id, found, own):
                    self._connection.submit(partial(_drop_unmentioned, ids=keys, tenant_id=tenant_id, leaving=leaving))
                names, gone = names + len(found), gone + len(own)
        return names, gone

    def distrust_unmentioned(self, tenant_id: str, ids: Collection[str]) -> int:
        """Mark those of ``ids`` as untrusted that were found in texts, or are stubs, and have no trusted edge."""
        return self._distrust(tenant_id, ids)

    def _distrust(
        self,
        tenant_id: str,
        ids: Collection[str],
        leaving: Sequence[Relationship] = (),
        *,
        are_removed: bool = False,
    ) -> int:
        """Mark those of ``ids`` as untrusted that were found in texts, or are stubs, and keep no trusted edge.

        Parameters
        ----------
        leaving
            Edges that the caller will remove or distrust next. The vertices are marked first, so that a change that
            breaks off in between can be repeated: the edges are still there, and lead to the vertices.
        are_removed
            Whether these edges will be removed. A name that keeps none is not marked then, as it is removed too.
        """
        edges_of: dict[str, list[str]] = {}
        for edge in leaving:
            for end in set(_ends(edge)):
                edges_of.setdefault(end, []).append(element_layout.edge_id(edge))
        names = {one for one in ids if are_removed and one.startswith(FOUND_PREFIX)}
        return sum(
            self._distrust_batch(tenant_id, batch, edges_of, lone=lone)
            for some, lone in ((names, False), (set(ids) - names, True))
            for batch in batches(sorted(some), IDS_AT_ONCE)
        )

    def _distrust_batch(
        self, tenant_id: str, ids: Sequence[str], edges_of: Mapping[str, Sequence[str]], *, lone: bool
    ) -> int:
        """Mark some vertices as :meth:`_distrust`; without ``lone`` only those that keep an edge."""
        keys, leaving = vertex_ids(tenant_id, ids), sorted({edge for one in ids for edge in edges_of.get(one, ())})
        fetch = partial(element_layout.fetch_to_distrust, tenant_id=tenant_id, keys=keys, leaving=leaving, lone=lone)
        read = (element_layout.vertex_of(tenant_id, row) for row in self._connection.submit(fetch))
        found = [vertex for vertex in read if vertex.found or vertex.is_stub]
        for some in batches(found, BATCH, size=IDS_AT_ONCE, size_of=lambda one: len(edges_of.get(one.id, ()))):
            with self._counts.changing(tenant_id, [vertex.id for vertex in some], []):
                self._connection.submit(partial(element_layout.distrust, vertices=some, leaving=edges_of))
        return len(found)

    def delete_relationships(self, tenant_id: str, relationships: Sequence[Relationship]) -> int:
        """Remove edges by their identity and return how many existed."""
        return self._remove(tenant_id, relationships, lambda edge: (edge.source,) if edge.found else ())

    def _remove(
        self, tenant_id: str, relationships: Sequence[Relationship], ends_of: Callable[[Relationship], tuple[str, ...]]
    ) -> int:
        """Remove edges, and mark those of their ends before that are trusted for them alone."""
        edges = {element_layout.edge_id(edge): edge for edge in relationships if edge.tenant_id == tenant_id}
        removed = 0
        for batch in batches(list(edges), IDS_AT_ONCE):
            present = [str(found) for found in self._connection.submit(partial(_edge_ids, ids=batch))]
            if present:
                leaving = [edges[key] for key in present]
                ends = {end for edge in leaving if edge.trusted for end in ends_of(edge)}
                self._distrust(tenant_id, ends, leaving, are_removed=True)
                with self._counts.changing(tenant_id, [], leaving):
                    self._connection.submit(partial(_drop_edges, ids=present, tenant_id=tenant_id))
            removed += len(present)
        return removed

    def remove_mentions(self, tenant_id: str, mentions: Sequence[Relationship]) -> None:
        """Remove mentions like any other edges, and found names without any left: no other write waits for it."""
        self.delete_only_mentioned(tenant_id, mentions)
        self.delete_relationships(tenant_id, mentions)
        names = {edge.source for edge in mentions}
        self.delete_unmentioned(tenant_id, names)
        self.distrust_unmentioned(tenant_id, names)

    def finish_removals(self, tenant_id: str) -> None:
        """Do nothing: removed mentions are not stored any more."""

    def delete_relationships_of(self, tenant_id: str, ids: Collection[str]) -> int:
        """Remove the edges with an endpoint or their evidence among ``ids`` and return how many there were."""
        removed = 0
        for batch in batches(sorted(ids), IDS_AT_ONCE):
            keys = vertex_ids(tenant_id, batch)
            removed += self._delete_edges(tenant_id, partial(element_layout.fetch_edges_at, keys=keys))
            removed += self._delete_edges(tenant_id, partial(element_layout.fetch_edges_of_evidence, keys=batch))
        return removed

    def _delete_edges(self, tenant_id: str, fetch: Callable[..., GraphTraversal]) -> int:
        """Remove all edges that a traversal fetches, in batches, and return how many there were.

        A vertex may have more edges than one traversal can fetch in time, and an interrupted call has made progress.
        Stubs without a trusted edge left are marked as untrusted, and once more after their edges are gone: another
        write may have removed the others meanwhile.
        """
        removed = 0
        while True:
            rows = self._connection.submit(lambda g: fetch(g, tenant_id=tenant_id).limit(element_layout.EDGES_AT_ONCE))
            edges = [element_layout.edge_of(tenant_id, row) for row in rows]
            gone = self._remove(tenant_id, edges, _ends)
            removed += gone
            ends = {end for edge in edges if edge.trusted and not edge.found for end in _ends(edge)}
            self.distrust_unmentioned(tenant_id, sorted(ends))
            if len(rows) < element_layout.EDGES_AT_ONCE or not gone:
                return removed

    def remove_most_relationships_of(self, tenant_id: str, ids: Collection[str]) -> int:  # noqa: ARG002 - the port's
        """Return 0 and remove none: :meth:`delete_relationships_of` works in batches itself."""
        return 0

    def end_relationships(self, tenant_id: str, until: Mapping[str, datetime]) -> int:
        """End the edges whose evidence these records are, and return the number of changed edges."""

        def end(edges: Sequence[Relationship]) -> list[Relationship]:
            at = [until[edge.evidence or ""] for edge in edges]
            return [
                edge.altered(invalid_at=max(end, edge.valid_at or end)) for edge, end in zip(edges, at, strict=True)
            ]

        return sum(
            self._change(
                tenant_id, partial(element_layout.fetch_edges_to_end, tenant_id=tenant_id, until=dict(batch)), end
            )
            for batch in batches(sorted(until.items()), BATCH)
        )

    def ends_not_moved(self, tenant_id: str, until: Mapping[str, datetime]) -> Collection[str]:  # noqa: ARG002 - the port's
        """Return none: no other tenant waits for a write."""
        return ()

    def distrust_relationships(self, tenant_id: str, evidence: Collection[str]) -> int:
        """Mark the edges of these records' evidence as untrusted, and stubs; return how many edges were changed."""
        ends: set[str] = set()

        def distrust(edges: Sequence[Relationship]) -> list[Relationship]:
            own = {end for edge in edges for end in _ends(edge)}
            ends.update(own)
            self._distrust(tenant_id, own, edges)
            return [edge.altered(trusted=False) for edge in edges]

        changed = sum(
            self._change(
                tenant_id,
                partial(element_layout.fetch_edges_to_distrust, tenant_id=tenant_id, evidence=batch),
                distrust,
                counted=True,
            )
            for batch in batches(sorted(set(evidence)), IDS_AT_ONCE)
        )
        self.distrust_unmentioned(tenant_id, sorted(ends))
        return changed

    def distrust_most_relationships(self, tenant_id: str, evidence: Collection[str]) -> int:  # noqa: ARG002 - the port's
        """Return 0 and mark none: :meth:`distrust_relationships` works in batches itself."""
        return 0

    def _change(
        self,
        tenant_id: str,
        fetch: Callable[[GraphTraversalSource], GraphTraversal],
        change: Callable[[Sequence[Relationship]], list[Relationship]],
        *,
        counted: bool = False,
    ) -> int:
        """Change all edges of a traversal, which must not return changed ones, in batches; return how many.

        With ``counted`` the change is one of the stored counts too.
        """
        changed = 0
        while True:
            rows = self._connection.submit(fetch)
            for batch in batches(change([element_layout.edge_of(tenant_id, row) for row in rows]), BATCH):
                with self._counts.changing(tenant_id, [], batch) if counted else nullcontext():
                    self._connection.submit(partial(element_layout.change, items=batch))
            changed += len(rows)
            if len(rows) < element_layout.EDGES_AT_ONCE:
                return changed

    def _stored(self, ids: Sequence[str]) -> list[str]:
        return [str(found) for found in self._connection.submit(lambda g: g.V(*ids).id_())]


def _ends(edge: Relationship) -> tuple[str, str]:
    return edge.source, edge.target


def _drop(source: GraphTraversalSource, *, ids: Sequence[str], tenant_id: str) -> GraphTraversal:
    return source.V(*ids).has(element_layout.TENANT, tenant_id).drop()


def _drop_unmentioned(
    source: GraphTraversalSource, *, ids: Sequence[str], tenant_id: str, leaving: Sequence[str] = ()
) -> GraphTraversal:
    # Looks for edges once more: another write may have added one since.
    return source.V(*ids).has(element_layout.TENANT, tenant_id).not_(element_layout.edges_besides(leaving)).drop()


def _edge_ids(source: GraphTraversalSource, *, ids: Sequence[str]) -> GraphTraversal:
    return source.E(*ids).id_()


def _drop_edges(source: GraphTraversalSource, *, ids: Sequence[str], tenant_id: str) -> GraphTraversal:
    return source.E(*ids).has(element_layout.TENANT, tenant_id).drop()
