"""Compares both stores of one tenant and repairs the graph to match the index.

The index is authoritative, as it holds the text. Edges and vertices that interrupted writes left out of the graph are
written from the intent log (:mod:`braid.ingestion.intent_log`). Edges without an endpoint do not occur: both
graphs delete a vertex with its edges. A delete that broke off is completed by repeating it
(:mod:`braid.ingestion.deleting`): its records are in the index until the end, so that a repair keeps them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from braid.errors import InvalidRequest
from braid.ingestion.entities_found_in_texts import find_names
from braid.ingestion.given_entity_linking import NamedEntities, named_entities
from braid.ingestion.intent_log import UnreadableEntry, unfinished
from braid.ingestion.request_checks import vertex_of
from braid.ingestion.writing import WriteRequest, write
from braid.models import Frozen, GraphSource, Kind, RecordId, Relationship, TenantId, Vertex
from braid.models.enums_and_scalars import printable
from braid.ports.batches import batches
from braid.ports.deletion_marks import refuse_while_deleted
from braid.ports.keys import pages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from braid.ingestion.intent_log import UnfinishedWrite
    from braid.ingestion.writing import WriteStore
    from braid.models import EdgeId, Record
    from braid.ports.knowledge_graph import GraphPage

SHOWN = 100
"""Most findings that a report lists."""
_PAGE = 500
_KEY_CHARACTERS = 64
"""Most characters of an entry's key in a finding; others than Braid may put objects into a bucket."""


class Fault(StrEnum):
    """A kind of difference between the stores, and its repair."""

    NO_VERTEX = "no_vertex"
    """The record of an entity has no vertex, or a vertex of an interrupted write is missing: it is created."""
    NOT_MARKED = "not_marked"
    """A vertex lacks the mark that it has a record: it is set, so that the vertex can be an answer."""
    OTHER_VALIDITY = "other_validity"
    """A vertex has another validity than its record: it gets the record's."""
    OTHER_TRUST = "other_trust"
    """A vertex is trusted and its record is not, or the reverse: it gets the record's trust. Or an edge is trusted and
    its evidence is not: it becomes untrusted."""
    NO_RECORD = "no_record"
    """A vertex is marked as having a record that does not exist: the mark is removed."""
    NO_EDGE = "no_edge"
    """An edge of an interrupted write is missing, and its records are stored as in that write: it is written.

    Found only where the intent log is kept."""
    NO_EVIDENCE = "no_evidence"
    """An edge has as evidence a record that does not exist: the evidence is removed, and the edge if it was found."""
    NO_MENTION = "no_mention"
    """A name that was found in texts has no edge left: its vertex is removed."""
    OLD_MENTION = "old_mention"
    """A found name is still linked to a text that no longer has it, after an interrupted write: the edge is removed.

    Found only where the intent log is kept."""
    OTHER_COUNTS = "other_counts"
    """The stored counts differ from the graph: it is counted again. Only the planning of questions depends on them."""
    LOG_ENTRY_UNREADABLE = "note_unreadable"
    """The log entry of an interrupted write cannot be read or completed: it is kept, and the rest is repaired.

    The finding has its key, so that it can be inspected and removed; repeat the write."""


class Finding(Frozen):
    """One difference between the stores."""

    fault: Fault
    id: RecordId
    message: str


class RepairReport(Frozen):
    """Numbers of compared items, and the differences found."""

    tenant_id: TenantId
    records: int = 0
    vertices: int = 0
    relationships: int = 0
    counts: dict[Fault, int] = Field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    """The first :data:`SHOWN`."""
    repaired: bool = False
    """Whether the differences were repaired."""


def repair(tenant_id: str, store: WriteStore, *, dry_run: bool = False) -> RepairReport:
    """Compare every record, vertex and edge of a tenant, and repair the graph where it differs.

    Meant for a tenant without concurrent writes: in stores that cannot commit together, a record that is being deleted
    looks like a record without a vertex. Reads both stores page by page, in bounded memory.

    Raises StoreError as the engines do, and TenantBeingDeleted if there is something to repair in a tenant that is
    being deleted; repeating the repair completes it.
    """
    work = _Repair(tenant_id, store, dry_run=dry_run)
    records = vertices = relationships = 0
    work.finish_writes()
    if not dry_run:
        store.graph.finish_removals(tenant_id)
        store.index.finish_removals(tenant_id)
    for found in pages(store.index.scan, tenant_id, limit=_PAGE):
        work.compare_records(found.records)
        records += len(found.records)
    for page in pages(store.graph.scan, tenant_id, limit=_PAGE):
        work.compare_graph(page)
        vertices, relationships = vertices + len(page.vertices), relationships + len(page.relationships)
    work.compare_counts()
    return RepairReport(
        tenant_id=tenant_id,
        records=records,
        vertices=vertices,
        relationships=relationships,
        counts=work.counts,
        findings=tuple(work.findings),
        repaired=not dry_run,
    )


@dataclass
class _Differences:
    """Differences between some items of both stores, and their repairs."""

    findings: list[Finding] = field(default_factory=list)
    vertices: list[Vertex] = field(default_factory=list)
    """Vertices and ``edges`` as they should be."""
    edges: list[Relationship] = field(default_factory=list)
    doubtful: list[Relationship] = field(default_factory=list)
    """Trusted edges whose evidence is not."""
    gone: list[Relationship] = field(default_factory=list)
    """Found mentions of texts that do not exist."""
    alone: list[str] = field(default_factory=list)
    """Found names that no text mentions."""

    def add(self, fault: Fault, identity: str, message: str) -> None:
        self.findings.append(Finding(fault=fault, id=identity, message=message))


class _Repair:
    """The state of one repair: its findings so far."""

    def __init__(self, tenant_id: str, store: WriteStore, *, dry_run: bool) -> None:
        self.counts: dict[Fault, int] = {}
        self.findings: list[Finding] = []
        self._tenant_id, self._store, self._dry_run = tenant_id, store, dry_run

    def finish_writes(self) -> None:
        """Write missing edges and vertices of interrupted writes, and delete their log entries."""
        if self._store.intent_log is None:
            return
        for key, begun in unfinished(self._tenant_id, self._store.intent_log):
            shown = printable(key)[:_KEY_CHARACTERS]
            if isinstance(begun, UnreadableEntry):
                self._add(Fault.LOG_ENTRY_UNREADABLE, shown, f"the log entry of a write cannot be read: {begun.why}")
                continue
            try:
                self._finish(begun)
            except (ValidationError, InvalidRequest) as error:
                message = f"what the log entry of a write says cannot be written: {type(error).__name__}"
                self._add(Fault.LOG_ENTRY_UNREADABLE, shown, message)
                continue
            if not self._dry_run:
                self._store.intent_log.delete(self._tenant_id, key)

    def _finish(self, begun: UnfinishedWrite) -> None:
        """Complete one interrupted write: write its missing vertices and edges, and remove its stale mentions."""
        written = self._store.index.written(self._tenant_id, sorted(begun.records))
        absent = {
            name for name, given in begun.records.items() if name not in written or written[name].content_hash != given
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
                self._add(Fault.NO_EDGE, edge.source, message)
        vertices = self._missing(begun, absent)
        stale = self._stale(begun, absent, vertices)
        if not self._dry_run:
            finish = WriteRequest(
                tenant_id=self._tenant_id, vertices=vertices, relationships=tuple(edges), partial=True
            )
            write(finish, self._store)  # leaves out edges with an endpoint that was deleted since
            self._remove(stale, ())

    def _stale(self, begun: UnfinishedWrite, absent: set[str], missing: Sequence[Vertex]) -> list[Relationship]:
        """Return the stored mentions that a write was to remove, of texts that are stored as in that write."""
        named = [edge for edge in begun.stale if edge.evidence in begun.records and edge.evidence not in absent]
        stored = [edge for edge in self._store.graph.as_stored(self._tenant_id, named) if edge.found]
        if stored and self._store.graph_source is not GraphSource.GIVEN:
            gone = self._not_in_texts([name for name in begun.records if name not in absent], missing)
            stored = [edge for edge in stored if edge.identity() in gone]
        for edge in stored:
            message = f"{edge.source!r} is no longer in the text {edge.target!r}: the write that took it out broke off"
            self._add(Fault.OLD_MENTION, edge.target, message)
        return stored

    def _not_in_texts(self, ids: Sequence[str], missing: Sequence[Vertex]) -> set[EdgeId]:
        """Return the stored mentions that writing some records again, with the missing vertices, would remove.

        A mention that a write was to remove may be right again, if the entity that was to get it instead is deleted.
        """
        pages = (self._store.index.get_many(self._tenant_id, some) for some in batches(ids, _PAGE))
        records = {one.id: one for page in pages for one in page}
        in_graph = {one.id: one for one in self._store.graph.get_many(self._tenant_id, list(records))}
        entities = named_entities(missing, records, in_graph)
        named = NamedEntities(self._tenant_id, entities, {*records, *(one.id for one in missing)}, self._store)
        return {edge.identity() for edge in find_names(records, named, in_graph, self._store).stale}

    def _missing(self, begun: UnfinishedWrite, absent: set[str]) -> tuple[Vertex, ...]:
        """Return the vertices of a write that are not in the graph, except vertices of absent records."""
        named = [vertex.id for vertex in begun.vertices]
        there = {vertex.id for vertex in self._store.graph.get_many(self._tenant_id, named)}
        missing = tuple(vertex for vertex in begun.vertices if vertex.id not in there | absent)
        for vertex in missing:
            if not vertex.has_record:  # the others are found by their records
                self._add(Fault.NO_VERTEX, vertex.id, "the write of the vertex broke off")
        return missing

    def compare_records(self, records: Sequence[Record]) -> None:
        """Compare records with their vertices, and repair these."""
        found = self._of_records(records)
        ids = [vertex.id for vertex in found.vertices]
        self._settle(found, lambda: self._of_records(self._store.index.get_many(self._tenant_id, ids)))

    def _of_records(self, records: Sequence[Record]) -> _Differences:
        vertices = {
            vertex.id: vertex
            for vertex in self._store.graph.get_many(self._tenant_id, [record.id for record in records])
        }
        found = _Differences()
        for record in records:
            vertex = vertices.get(record.id)
            if vertex is None:
                if record.kind is Kind.ENTITY:
                    found.add(Fault.NO_VERTEX, record.id, "the record of an entity has no vertex")
                    found.vertices.append(vertex_of(record))
                continue
            # A trusted record's vertex keeps no name that an untrusted one had.
            better = vertex_of(record) if record.trusted and not vertex.trusted else vertex
            if not vertex.has_record:
                found.add(Fault.NOT_MARKED, record.id, "the vertex does not know that it has a record")
                better = better.altered(has_record=True)
            if (vertex.valid_at, vertex.invalid_at) != (record.valid_at, record.invalid_at):
                found.add(Fault.OTHER_VALIDITY, record.id, "the vertex does not begin or end when its record does")
                better = better.altered(valid_at=record.valid_at, invalid_at=record.invalid_at)
            if vertex.trusted != record.trusted:
                found.add(Fault.OTHER_TRUST, record.id, "the vertex is trusted and its record is not, or the reverse")
                better = better.altered(trusted=record.trusted)
            if better is not vertex:
                found.vertices.append(better)
        return found

    def compare_graph(self, page: GraphPage) -> None:
        """Compare a page of the graph with the records that it refers to, and repair its vertices and edges."""
        graph, found = self._store.graph, self._of_graph(page.vertices, page.relationships)
        ids = [*(vertex.id for vertex in found.vertices), *found.alone]
        edges = [*found.edges, *found.doubtful, *found.gone]
        self._settle(
            found,
            lambda: self._of_graph(graph.get_many(self._tenant_id, ids), graph.as_stored(self._tenant_id, edges)),
        )

    def _of_graph(self, vertices: Sequence[Vertex], edges: Sequence[Relationship]) -> _Differences:
        claimed = [vertex.id for vertex in vertices if vertex.has_record]
        named = {edge.evidence for edge in edges if edge.evidence}
        there = self._store.index.written(self._tenant_id, sorted({*claimed, *named}))
        found = _Differences()
        for vertex in vertices:
            if vertex.has_record and vertex.id not in there:
                found.add(Fault.NO_RECORD, vertex.id, "the vertex claims a record that is not there")
                found.vertices.append(vertex.altered(has_record=False))
        for edge in edges:
            if edge.evidence and edge.evidence not in there:
                message = f"{edge.source!r} {edge.type} {edge.target!r}: there is no record {edge.evidence!r}"
                found.add(Fault.NO_EVIDENCE, edge.source, message)
                if edge.found:
                    found.gone.append(edge)
                else:
                    found.edges.append(edge.altered(evidence=None))
            elif edge.evidence and edge.trusted and not there[edge.evidence].trusted:
                message = f"{edge.source!r} {edge.type} {edge.target!r}: its evidence {edge.evidence!r} is not trusted"
                found.add(Fault.OTHER_TRUST, edge.source, message)
                found.doubtful.append(edge)
        found.alone += self._alone(vertices, edges)
        for identity in found.alone:
            found.add(Fault.NO_MENTION, identity, "no text mentions the name that was found")
        return found

    def _settle(self, found: _Differences, look_again: Callable[[], _Differences]) -> None:
        """Repair differences, unless this is a dry run, and report them.

        They are checked again in the transaction that repairs them, so that deletes and writes since the comparison are
        kept. In stores that cannot commit together a short race remains.
        """
        if found.findings and not self._dry_run:
            with self._store.transaction(self._tenant_id):
                refuse_while_deleted(self._tenant_id, self._store.cache)
                found = look_again()
                if found.vertices or found.edges:
                    self._store.graph.upsert(found.vertices, found.edges)
                doubtful = {edge.evidence for edge in found.doubtful if edge.evidence}
                self._store.graph.distrust_relationships(self._tenant_id, doubtful)
                self._remove(found.gone, found.alone)
        for each in found.findings:
            self._add(each.fault, each.id, each.message)

    def compare_counts(self) -> None:
        """Compare the stored counts of the graph with the graph, after everything else is repaired."""
        if self._store.graph.recount(self._tenant_id, dry_run=self._dry_run):
            self._add(Fault.OTHER_COUNTS, self._tenant_id, "the stored counts of the graph are not what is there")

    def _alone(self, vertices: Sequence[Vertex], edges: Sequence[Relationship]) -> list[str]:
        """Return the found names among vertices that have no edge, as an interrupted write did not remove them."""
        names = {vertex.id for vertex in vertices if vertex.found} - {edge.source for edge in edges}
        led_to = self._store.graph.relationships(self._tenant_id, ids=names) if names else []
        return sorted(names - {edge.target for edge in led_to})

    def _remove(self, gone: Sequence[Relationship], alone: Sequence[str]) -> None:
        """Remove found mentions, then the found names without mentions, including ``alone``."""
        if (gone or alone) and not self._dry_run:
            with self._store.transaction(self._tenant_id):
                self._store.graph.delete_relationships(self._tenant_id, gone)
                names = sorted({*alone, *(edge.source for edge in gone)})
                self._store.graph.delete_unmentioned(self._tenant_id, names)
                self._store.graph.distrust_unmentioned(self._tenant_id, names)

    def _add(self, fault: Fault, identity: str, message: str) -> None:
        self.counts[fault] = self.counts.get(fault, 0) + 1
        if len(self.findings) < SHOWN:
            self.findings.append(Finding(fault=fault, id=identity, message=message))
