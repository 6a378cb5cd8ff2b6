"""Finds and applies supersession: ends the validity of records and edges, and thereby facts, that newer ones replace.

``superseded_records`` and ``superseded_edges`` find what is superseded; here the ends are combined, checked and stored.
Items are ended only by an explicit statement, never by age.

The statement is ``supersedes`` of a record, or a ``SUPERSEDES`` edge. The graph keeps the edge, so that a superseded
record stays ended when it is written again. When a record ends, so do its vertex and the edges whose only evidence it
is, in whichever order they are written. The superseding item becomes valid then, unless it states its ``valid_at``.
Cycles are refused. Entities are never ended, and trusted items not by untrusted ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from braid.ingestion.record_vectors import content_hash
from braid.ingestion.supersession.superseded_edges import edges_named, ended_edges
from braid.ingestion.supersession.superseded_records import (
    READ_AT_ONCE,
    RefusedEdge,
    RefusedRecord,
    all_in_cycles,
    begun_records,
    dated,
    ended_as_stored,
    ended_evidence,
    ended_records,
    link_problems,
    read_links,
    refused_item,
    unwritten_evidence,
)
from braid.models import Record, Relationship, Vertex
from braid.ports.batches import batches

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime

    from braid.ingestion.supersession.superseded_records import SupersedingLinks
    from braid.models import EdgeId
    from braid.ports.ingestion import WriteStore

_Dated = TypeVar("_Dated", Record, Vertex)
_Valid = TypeVar("_Valid", Record, Vertex, Relationship)


@dataclass
class Supersession:
    """Beginnings and ends of validity that a request causes."""

    record_beginnings: dict[str, datetime] = field(default_factory=dict)
    """When records that supersede others, and do not say from when they are valid, begin to be so: by id.

    A record's vertex begins and ends with it."""
    record_ends: dict[str, datetime] = field(default_factory=dict)
    """When superseded records end, by id."""
    evidence_ends: dict[str, datetime] = field(default_factory=dict)
    """Ends of validity of stored records that ended before and are the evidence of the request's edges."""
    edge_ends: dict[EdgeId, datetime] = field(default_factory=dict)
    """Ends of validity of edges that other edges supersede."""

    def with_validity(self, one: _Dated) -> _Dated:
        """Return a record or a record's vertex with its beginning and end of validity, if it has them."""
        return ended(begun(one, self.record_beginnings.get(one.id)), self.record_ends.get(one.id))

    def edge_with_end(self, edge: Relationship) -> Relationship:
        """Return an edge with the earliest end of validity of its own, its superseding edge's, and its evidence's."""
        if not (self.record_ends or self.evidence_ends or self.edge_ends):
            return edge
        name = edge.evidence
        evidence_end = (self.record_ends.get(name) or self.evidence_ends.get(name)) if name else None
        return ended(ended(edge, self.edge_ends.get(edge.identity())), evidence_end)

    def apply(self, store: WriteStore, tenant_id: str, *, records: set[str], edges: set[EdgeId]) -> int:
        """Store the end of validity of the superseded records, vertices and edges that were not written with it.

        Parameters
        ----------
        records
            Ids of the records that this write has stored. Records of the request that were stored unchanged before are
            not among them.
        edges
            Identities of all valid edges of the request. These are skipped: their ends of validity are stored with
            them, by this write or an earlier one.

        Returns
        -------
        int
            Number of records and edges ended.
        """
        others = sorted({*self.record_beginnings, *self.record_ends} - records)
        present = sorted(store.index.written(tenant_id, others)) if others else []
        ended_records = 0
        earlier: set[str] = set()

        def changed(one: _Dated) -> _Dated:
            return self.with_validity(one.altered(valid_at=None) if one.id in earlier else one)

        for some in batches(present, READ_AT_ONCE):
            stored = store.index.get_many(tenant_id, some)
            earlier |= {record.id for record in stored if self._begins_earlier(record)}
            if changed_records := _changed(stored, changed):
                store.index.set_validity(changed_records)
            ended_records += sum(record.id in self.record_ends for record in changed_records)
        vertices = store.graph.get_many(tenant_id, others) if others else []
        changed_vertices = _changed(vertices, changed)
        superseded = edges_named(self.edge_ends.keys() - edges, store, tenant_id)
        ended_edges = _changed(superseded, self.edge_with_end)
        if changed_vertices or ended_edges:
            store.graph.set_validity(changed_vertices, ended_edges)
        # By the store itself, as a record may be the evidence of very many edges.
        ended_with_evidence = store.graph.end_relationships(tenant_id, self.record_ends)
        return ended_records + len(ended_edges) + ended_with_evidence

    def _begins_earlier(self, stored: Record) -> bool:
        """Return whether a stored record is to begin earlier than an earlier write of a link made it begin.

        A beginning that the record itself states stays. A later one would leave a time in which neither it nor what it
        supersedes is valid, as an earlier end is kept.
        """
        at = self.record_beginnings.get(stored.id)
        if at is None or stored.valid_at is None or stored.valid_at <= at:
            return False
        without = stored.altered(valid_at=None, embeddings=())
        return stored.content_hash in {content_hash(without), content_hash(without.altered(invalid_at=None))}


@dataclass
class StatedSupersession:
    """The supersession that a request's items state."""

    supersession: Supersession = field(default_factory=Supersession)
    dated_links: list[Relationship] = field(default_factory=list)
    """The ``SUPERSEDES`` edges, each with the time from which it is valid."""
    void_links: list[Relationship] = field(default_factory=list)
    """Stored ``SUPERSEDES`` edges that are untrusted and end a record that the request makes trusted: to be deleted."""
    refused: list[RefusedRecord | RefusedEdge] = field(default_factory=list)
    """Invalid items, those found first. The rest is to be checked again without them, which may find more."""


def find_supersession(
    records: Mapping[str, Record],
    edges: Mapping[EdgeId, Relationship],
    in_graph: Collection[str],
    store: WriteStore,
    tenant_id: str,
    *,
    refused: Collection[str] = (),
    may_be_deleted: bool = False,
) -> StatedSupersession:
    """Return the supersession that records and edges of one request state.

    Parameters
    ----------
    records, edges
        Items of the request, by id and by identity.
    in_graph
        Records of the request that have a vertex already, and so may be superseded already.
    store
        Holds superseded items that are not in the request.
    refused
        Records of the request that were refused before.
    may_be_deleted
        Whether a record may be written again that supersedes a record which has been deleted since. Not in an import
        of several requests, of which an earlier one may have stored the superseding record.
    """
    links = read_links(records, edges, in_graph, store, tenant_id, may_be_deleted=may_be_deleted)
    found = StatedSupersession(
        void_links=[link for name, link in links.void.items() if link.target in records and name not in links.stated]
    )
    unwritten = unwritten_evidence((*links.stored.values(), *links.stated.values()), records, store, tenant_id)
    found.refused = [
        refused_item(identity, links.implied_by, message)
        for identity, message in link_problems(links, refused=refused, unwritten=unwritten)
    ] or all_in_cycles(links.stated, links.implied_by, links.stored)
    if found.refused:
        return found
    stated = {identity: dated(link, links, store) for identity, link in links.stated.items()}
    ending = {name: link for name, link in links.stored.items() if name not in links.void} | stated
    ends = ended_records(ending.values(), links.known_records)
    found.refused = _moving_too_many(ends, stated, links, store, tenant_id)
    if found.refused:
        return found
    found.dated_links = list(stated.values())
    found.supersession.record_beginnings = begun_records(ending.values(), links.known_records, unwritten)
    found.supersession.record_ends = ends
    found.supersession.evidence_ends = ended_evidence(edges.values(), records, store, tenant_id)
    found.supersession.edge_ends, invalid = ended_edges(edges, records, store, tenant_id)
    found.refused += invalid
    return found


def end_again(store: WriteStore, tenant_id: str, ids: Collection[str]) -> None:
    """End the records of these ids, and the edges whose evidence they are, by the links that are stored now.

    For a write to stores without transactions, once it has stored them: another write may have ended them since they
    were checked, and its ends were overwritten.
    """
    if ends := ended_as_stored(ids, store, tenant_id):
        Supersession(record_ends=ends).apply(store, tenant_id, records=set(), edges=set())


def _moving_too_many(
    ends: Mapping[str, datetime],
    stated: Mapping[EdgeId, Relationship],
    links: SupersedingLinks,
    store: WriteStore,
    tenant_id: str,
) -> list[RefusedRecord | RefusedEdge]:
    """Return the refusals of stated links that end a record earlier, for which too many edges would be rewritten."""
    named = {link.target for link in stated.values()}
    earlier = {name: end for name, end in ends.items() if name in named}
    crowded = set(store.graph.ends_not_moved(tenant_id, earlier)) if earlier else set()
    return [
        refused_item(
            identity,
            links.implied_by,
            f"{link.target!r}, which {link.source!r} supersedes, has ended already, and too many relationships of which"
            " it is the evidence would end earlier; supersede fewer at once, or delete it",
        )
        for identity, link in stated.items()
        if link.target in crowded
    ]


def begun(one: _Valid, at: datetime | None) -> _Valid:
    """Return an item that begins at ``at`` unless it states its beginning, and ends no earlier."""
    if at is None or one.valid_at is not None:
        return one
    return one.altered(valid_at=at, invalid_at=max(at, one.invalid_at) if one.invalid_at else None)


def ended(one: _Valid, at: datetime | None) -> _Valid:
    """Return an item that ends at ``at`` at the latest, but not before it began."""
    if at is None:
        return one
    at = max(at, one.valid_at) if one.valid_at else at
    return one if one.invalid_at is not None and one.invalid_at <= at else one.altered(invalid_at=at)


def _changed(before: Sequence[_Valid], change: Callable[[_Valid], _Valid]) -> list[_Valid]:
    """Return the changed versions of the items that a change affects."""
    return [after for one in before if (after := change(one)) != one]
