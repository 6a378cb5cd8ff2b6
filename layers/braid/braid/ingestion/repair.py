"""Comparing the two stores of one tenant, and bringing the graph into line with the index.

The index has the last word: it holds the text. What writes that broke off had still to write to the graph is taken
from their notes. An edge without one of its ends cannot be; both graphs remove it with the vertex.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from pydantic import Field

from braid.ingestion.checks import vertex_of
from braid.ingestion.unfinished_writes import unfinished
from braid.ingestion.writing import WriteRequest, write
from braid.models import Frozen, Kind, RecordId, Relationship, TenantId, Vertex

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from braid.ingestion.unfinished_writes import UnfinishedWrite
    from braid.ingestion.writing import WriteStore
    from braid.models import Record
    from braid.ports.knowledge_graph import GraphPage

SHOWN = 100
"""Findings that a report names one by one."""
_PAGE = 500


class Fault(StrEnum):
    """How the stores can differ, and what repairing it does."""

    NO_VERTEX = "no_vertex"
    """An entity's record has no vertex: it is made of the record. Or a vertex of a write that broke off is missing."""
    NOT_MARKED = "not_marked"
    """A vertex does not know that it has a record: it is told, so that it can be an answer."""
    OTHER_VALIDITY = "other_validity"
    OTHER_TRUST = "other_trust"
    """A vertex does not begin or end when its record does: it gets the record's times."""
    NO_RECORD = "no_record"
    """A vertex claims a record that is not there: it no longer does."""
    NO_EDGE = "no_edge"
    """An edge of a write that broke off is missing, though its records are there as that write had them: it is written.

    Known only where writes are noted while they are done."""
    NO_EVIDENCE = "no_evidence"
    """An edge names as evidence a record that is not there: it no longer does."""


class Finding(Frozen):
    """One difference."""

    fault: Fault
    id: RecordId
    message: str


class RepairReport(Frozen):
    """What was compared and found."""

    tenant_id: TenantId
    records: int = 0
    vertices: int = 0
    relationships: int = 0
    counts: dict[Fault, int] = Field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    """The first :data:`SHOWN`."""
    repaired: bool = False
    """Whether what was found was repaired."""


def repair(
    tenant_id: str,
    store: WriteStore,
    *,
    dry_run: bool = False,
    on_progress: Callable[[int], None] | None = None,
) -> RepairReport:
    """Compare every record, vertex and edge of a tenant, and repair the graph where it differs.

    Meant for a tenant that nobody writes to at that moment: a record that is just being deleted looks like one that has
    lost its vertex. Reads both stores page by page, so that memory does not grow with them.

    Parameters
    ----------
    tenant_id
        Whose.
    store
        Both stores.
    dry_run
        Whether differences are only found.
    on_progress
        Called with the number of records and vertices compared.

    Raises
    ------
    StoreError
        As the engines; repairing again goes on.
    """
    work = _Repair(tenant_id, store, dry_run=dry_run)
    done = records = vertices = relationships = 0
    cursor: str | None = None
    work.finish_writes()
    while True:
        found = store.index.scan(tenant_id, after=cursor, limit=_PAGE)
        work.compare_records(found.records)
        records += len(found.records)
        done += len(found.records)
        if on_progress:
            on_progress(done)
        cursor = found.cursor
        if cursor is None:
            break
    while True:
        page = store.graph.scan(tenant_id, after=cursor, limit=_PAGE)
        work.compare_graph(page)
        vertices, relationships = vertices + len(page.vertices), relationships + len(page.relationships)
        done += len(page.vertices)
        if on_progress:
            on_progress(done)
        cursor = page.cursor
        if cursor is None:
            break
    return RepairReport(
        tenant_id=tenant_id,
        records=records,
        vertices=vertices,
        relationships=relationships,
        counts=work.counts,
        findings=tuple(work.findings),
        repaired=not dry_run,
    )


class _Repair:
    """What was found so far."""

    def __init__(self, tenant_id: str, store: WriteStore, *, dry_run: bool) -> None:
        self.counts: dict[Fault, int] = {}
        self.findings: list[Finding] = []
        self._tenant_id, self._store, self._dry_run = tenant_id, store, dry_run

    def finish_writes(self) -> None:
        """Write what is missing of the edges and vertices of writes that broke off, and remove the notes of these."""
        if self._store.notes is None:
            return
        for key, begun in unfinished(self._tenant_id, self._store.notes):
            written = self._store.index.written(self._tenant_id, sorted(begun.records))
            absent = {
                name
                for name, given in begun.records.items()
                if name not in written or written[name].content_hash != given
            }
            named = begun.relationships
            stored = {edge.identity(): edge for edge in self._store.graph.as_stored(self._tenant_id, named)}
            edges = [
                edge
                for edge in named
                if not absent & {edge.source, edge.target, edge.evidence}
                and stored.get(edge.identity(), edge) == edge  # one that was written otherwise since is newer
            ]
            for edge in edges:
                if edge.identity() not in stored:
                    message = f"{edge.source!r} {edge.type} {edge.target!r}: the write of it broke off"
                    self._note(Fault.NO_EDGE, edge.source, message)
            vertices = self._missing(begun, absent)
            if not self._dry_run:
                finish = WriteRequest(
                    tenant_id=self._tenant_id, vertices=vertices, relationships=tuple(edges), partial=True
                )
                write(finish, self._store)  # leaves out an edge of which an end was deleted since
                self._store.notes.delete(self._tenant_id, key)

    def _missing(self, begun: UnfinishedWrite, absent: set[str]) -> tuple[Vertex, ...]:
        """Return the vertices of a write that are not in the graph, but for those of absent records."""
        named = [vertex.id for vertex in begun.vertices]
        there = {vertex.id for vertex in self._store.graph.get_many(self._tenant_id, named)}
        missing = tuple(vertex for vertex in begun.vertices if vertex.id not in there | absent)
        for vertex in missing:
            if not vertex.has_record:  # of the others their records tell
                self._note(Fault.NO_VERTEX, vertex.id, "the write of the vertex broke off")
        return missing

    def compare_records(self, records: Sequence[Record]) -> None:
        vertices = {
            vertex.id: vertex
            for vertex in self._store.graph.get_many(self._tenant_id, [record.id for record in records])
        }
        mended: list[Vertex] = []
        for record in records:
            vertex = vertices.get(record.id)
            if vertex is None:
                if record.kind is Kind.ENTITY:
                    self._note(Fault.NO_VERTEX, record.id, "the record of an entity has no vertex")
                    mended.append(vertex_of(record))
                continue
            better = vertex
            if not vertex.has_record:
                self._note(Fault.NOT_MARKED, record.id, "the vertex does not know that it has a record")
                better = better.model_copy(update={"has_record": True})
            if (vertex.valid_at, vertex.invalid_at) != (record.valid_at, record.invalid_at):
                self._note(Fault.OTHER_VALIDITY, record.id, "the vertex does not begin or end when its record does")
                better = better.model_copy(update={"valid_at": record.valid_at, "invalid_at": record.invalid_at})
            if vertex.trusted != record.trusted:
                self._note(Fault.OTHER_TRUST, record.id, "the vertex is trusted and its record is not, or the reverse")
                better = better.model_copy(update={"trusted": record.trusted})
            if better is not vertex:
                mended.append(better)
        self._write(mended, [])

    def compare_graph(self, page: GraphPage) -> None:
        claimed = [vertex.id for vertex in page.vertices if vertex.has_record]
        named = {edge.evidence for edge in page.relationships if edge.evidence}
        there = set(self._store.index.written(self._tenant_id, sorted({*claimed, *named})))
        vertices: list[Vertex] = []
        edges: list[Relationship] = []
        for vertex in page.vertices:
            if vertex.has_record and vertex.id not in there:
                self._note(Fault.NO_RECORD, vertex.id, "the vertex claims a record that is not there")
                vertices.append(vertex.model_copy(update={"has_record": False}))
        for edge in page.relationships:
            if edge.evidence and edge.evidence not in there:
                message = f"{edge.source!r} {edge.type} {edge.target!r}: there is no record {edge.evidence!r}"
                self._note(Fault.NO_EVIDENCE, edge.source, message)
                edges.append(edge.model_copy(update={"evidence": None}))
        self._write(vertices, edges)

    def _note(self, fault: Fault, identity: str, message: str) -> None:
        self.counts[fault] = self.counts.get(fault, 0) + 1
        if len(self.findings) < SHOWN:
            self.findings.append(Finding(fault=fault, id=identity, message=message))

    def _write(self, vertices: Sequence[Vertex], edges: Sequence[Relationship]) -> None:
        if (vertices or edges) and not self._dry_run:
            with self._store.transaction(self._tenant_id):
                self._store.graph.upsert(vertices, edges)
