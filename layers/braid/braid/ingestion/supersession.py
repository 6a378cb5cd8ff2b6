"""Finds, checks and applies supersession: the end of validity of records and edges, facts too, that newer ones replace.

What supersedes is not valid before what it replaces has ended, unless it states otherwise itself.

A record names what it supersedes, or a ``SUPERSEDES`` edge states it. The graph keeps that edge, so that a superseded
record stays ended when it is written again. When a record ends, so do its vertex and the edges that have it as their
only evidence, which ends the facts that these edges are, in whichever order they are written. Cycles are refused.
Entities are never ended, nor is what is trusted by what is not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeGuard, TypeVar

from braid.ingestion.superseding_links import (
    READ_AT_ONCE,
    RefusedEdge,
    RefusedRecord,
    all_in_cycles,
    link_problems,
    one_cycle,
    read_links,
    refused_item,
    stored_records,
    unwritten_evidence,
    unwritten_problem,
    void_links,
)
from braid.models import SUPERSEDES, Kind, Record, Relationship, Vertex
from braid.ports.batches import batches

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from braid.ingestion.superseding_links import SupersedingLinks
    from braid.models import EdgeId, RelationshipKey
    from braid.ports.ingestion import WriteStore

_Dated = TypeVar("_Dated", Record, Vertex)
_Valid = TypeVar("_Valid", Record, Vertex, Relationship)


@dataclass
class Supersession:
    """Beginnings and ends of validity that a request causes."""

    record_beginnings: dict[str, datetime] = field(default_factory=dict)
    """Of superseding records that state none, by id; a record's vertex begins and ends with it."""
    record_ends: dict[str, datetime] = field(default_factory=dict)
    """By id."""
    evidence_ends: dict[str, datetime] = field(default_factory=dict)
    """Ends of stored records that ended before and are the evidence of the request's edges."""
    edge_ends: dict[EdgeId, datetime] = field(default_factory=dict)
    """Ends of edges that other edges supersede."""

    def with_validity(self, one: _Dated) -> _Dated:
        """Return a record or a record's vertex with its beginning and its end, if it has them."""
        return ended(begun(one, self.record_beginnings.get(one.id)), self.record_ends.get(one.id))

    def edge_with_end(self, edge: Relationship) -> Relationship:
        """Return an edge with its end: the earliest of its own, its superseding edge's, and its evidence's."""
        if not (self.record_ends or self.evidence_ends or self.edge_ends):
            return edge
        name = edge.evidence
        evidence_end = (self.record_ends.get(name) or self.evidence_ends.get(name)) if name else None
        return ended(ended(edge, self.edge_ends.get(edge.identity())), evidence_end)

    def apply(self, store: WriteStore, tenant_id: str, *, records: set[str], edges: set[EdgeId]) -> int:
        """Store the validity of the records, vertices and edges of the request that were not written with it.

        Parameters
        ----------
        records
            Ids of the records that this write has stored. Records of the request that were stored unchanged before are
            not among them.
        edges
            Identities of all valid edges of the request: each is stored with its end, by this write or before it.

        Returns
        -------
        int
            Number of records and edges ended.
        """
        others = sorted({*self.record_beginnings, *self.record_ends} - records)
        present = sorted(store.index.written(tenant_id, others)) if others else []
        ended_records = 0
        for some in batches(present, READ_AT_ONCE):
            stored = store.index.get_many(tenant_id, some, with_vectors=True)
            if changed := _changed(stored, self.with_validity):
                store.index.set_validity(changed)
            ended_records += sum(record.id in self.record_ends for record in changed)
        vertices = store.graph.get_many(tenant_id, others) if others else []
        changed_vertices = _changed(vertices, self.with_validity)
        superseded = _edges_named(self.edge_ends.keys() - edges, store, tenant_id)
        ended_edges = _changed(superseded, self.edge_with_end)
        if changed_vertices or ended_edges:
            store.graph.set_validity(changed_vertices, ended_edges)
        # By the store itself, as a record may be the evidence of very many edges.
        ended_with_evidence = store.graph.end_relationships(tenant_id, self.record_ends)
        return ended_records + len(ended_edges) + ended_with_evidence


@dataclass
class StatedSupersession:
    """The supersession that a request's items state."""

    supersession: Supersession = field(default_factory=Supersession)
    dated_links: list[Relationship] = field(default_factory=list)
    """The ``SUPERSEDES`` edges, each with the time from which it holds."""
    void_links: list[Relationship] = field(default_factory=list)
    """Stored ``SUPERSEDES`` edges that end a record of the request no more, as that is trusted now and they are not."""
    refused: list[RefusedRecord | RefusedEdge] = field(default_factory=list)
    """Some invalid items; the others are to be checked again without them."""


def find_supersession(
    records: Mapping[str, Record],
    edges: Mapping[EdgeId, Relationship],
    in_graph: Collection[str],
    store: WriteStore,
    tenant_id: str,
    *,
    refused: Collection[str] = (),
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
    """
    links = read_links(records, edges, in_graph, store, tenant_id)
    found = StatedSupersession(
        void_links=[link for name, link in links.void.items() if link.target in records and name not in links.stated]
    )
    unwritten = unwritten_evidence(links.stated.values(), records, store, tenant_id)
    found.refused = [
        refused_item(identity, links.implied_by, message)
        for identity, message in link_problems(links, refused=refused, unwritten=unwritten)
    ] or all_in_cycles(links.stated, links.implied_by, links.stored)
    if found.refused:
        return found
    dated = {identity: _dated(link, links, store) for identity, link in links.stated.items()}
    found.dated_links = list(dated.values())
    ending = {name: link for name, link in links.stored.items() if name not in links.void} | dated
    found.supersession.record_beginnings = _begun_records(ending.values(), links.known_records)
    found.supersession.record_ends = _ended_records(ending.values(), links.known_records)
    found.supersession.evidence_ends = _ended_evidence(edges.values(), records, store, tenant_id)
    found.supersession.edge_ends, invalid = _ended_edges(edges, records, store, tenant_id)
    found.refused += invalid
    return found


def _dated(link: Relationship, links: SupersedingLinks, store: WriteStore) -> Relationship:
    """Return a stated link with the time from which it holds: its own, its source's, the stored one's, or now."""
    if link.valid_at or link.timestamp:
        return link
    before = links.stored.get(link.identity())
    at = _begins(links.known_records.get(link.source)) or (before and before.valid_at) or store.now()
    return link.model_copy(update={"valid_at": at})


def _begins(record: Record | None) -> datetime | None:
    return None if record is None else record.valid_at or record.timestamp


def _begun_records(links: Iterable[Relationship], known: Mapping[str, Record]) -> dict[str, datetime]:
    """Return when known records begin that supersede others: the earliest time that a link states.

    A link that is not trusted says nothing of a record that is. A record that has ended before keeps its validity.
    """
    beginnings: dict[str, datetime] = {}
    for link in links:
        new, since = known.get(link.source), link.valid_at or link.timestamp
        if new is None or new.kind is Kind.ENTITY or since is None:
            continue
        has_ended = new.invalid_at is not None and new.invalid_at <= since
        if not has_ended and (link.trusted or not new.trusted):
            beginnings[new.id] = min(beginnings.get(new.id, since), since)
    return beginnings


def _ended_records(links: Iterable[Relationship], known: Mapping[str, Record]) -> dict[str, datetime]:
    """Return the ends of known records: the earliest time that a link states."""
    until: dict[str, datetime] = {}
    for link in links:
        old, since = known.get(link.target), link.valid_at or link.timestamp
        if old is None or old.kind is Kind.ENTITY or since is None:
            continue
        until[old.id] = min(until.get(old.id, since), since)
    return until


def _ended_evidence(
    edges: Iterable[Relationship], records: Collection[str], store: WriteStore, tenant_id: str
) -> dict[str, datetime]:
    """Return the ends of the stored records that are evidence of these edges."""
    evidence = {edge.evidence for edge in edges if edge.evidence}.difference(records)
    links = store.graph.relationships(tenant_id, ids=evidence, types=(SUPERSEDES,)) if evidence else []
    known = stored_records(store, tenant_id, evidence & {link.target for link in links})
    void = void_links(links, known, store, tenant_id)
    return _ended_records([link for link in links if link.identity() not in void], known)


def _ended_edges(
    edges: Mapping[EdgeId, Relationship], records: Mapping[str, Record], store: WriteStore, tenant_id: str
) -> tuple[dict[EdgeId, datetime], list[RefusedEdge]]:
    """Return the ends of the edges that edges of a request supersede, and the invalid ones of these, if any."""
    pairs = [(edge, key) for edge in edges.values() for key in edge.supersedes]
    if not pairs:
        return {}, []
    stored = as_trusted_as_written(_edges_named({key.identity() for _, key in pairs}, store, tenant_id), records)
    known = dict(edges)
    for edge in stored:
        given = edges.get(edge.identity())
        if given is None or stored_edge_stays(edge, given, store.now()):
            known[edge.identity()] = edge
    unwritten = unwritten_evidence((edge for edge, _ in pairs), records, store, tenant_id)
    problems: dict[EdgeId, str] = {}
    ends: dict[EdgeId, datetime] = {}
    for edge, key in pairs:
        if message := _edge_problem(edge, key, known, unwritten):
            problems.setdefault(edge.identity(), message)
        at = edge.valid_at or edge.timestamp or store.now()
        ends[key.identity()] = min(ends.get(key.identity(), at), at)
    if not problems and (cycle := one_cycle([(edge.identity(), key.identity()) for edge, key in pairs])):
        identity, _ = next(iter(cycle))
        source, kind, target, _ = identity
        problems[identity] = f"{source!r} {kind} {target!r} would be superseded by itself"
    return {} if problems else ends, [RefusedEdge(identity, message) for identity, message in problems.items()]


def _edge_problem(
    edge: Relationship, key: RelationshipKey, known: Mapping[EdgeId, Relationship], unwritten: Collection[str]
) -> str | None:
    """Return why an edge must not supersede another; None if it may.

    Parameters
    ----------
    known
        Superseded edges by identity.
    unwritten
        Evidence of superseding edges that is not written yet.
    """
    if key.identity() not in known:
        return f"there is no edge {key.source!r} {key.type} {key.target!r}"
    if not known[key.identity()].trusted:
        return None
    superseded = f"{key.source!r} {key.type} {key.target!r}"
    if not edge.trusted:
        superseding = f"{edge.source!r} {edge.type} {edge.target!r}, which supersedes it,"
        return f"{superseded} is trusted and {superseding} is not; only what is trusted ends it"
    return unwritten_problem(superseded, edge, unwritten)


def superseding_edge(edge: Relationship) -> Relationship:
    """Return an edge that supersedes others as it is stored: it begins by its ``timestamp`` if it states nothing."""
    at = edge.timestamp
    has_ended = at is not None and edge.invalid_at is not None and edge.invalid_at <= at
    return (edge if has_ended else begun(edge, at)).altered(supersedes=())


def stored_edge_stays(stored: Relationship | None, new: Relationship, now: datetime) -> TypeGuard[Relationship]:
    """Return whether a stored edge stays as it is when a new one with its identity is written.

    The first case that applies:

    ===================================================  ==================================
    Nothing is stored                                    no
    The new edge was found in a text, the stored given   unless only the new one is trusted
    The new edge is trusted, or the stored one is not    no
    The stored edge has ended                            no
    Both have the same evidence                          no
    Both were given, and the new one has no evidence     no
    Otherwise                                            yes
    ===================================================  ==================================
    """
    if stored is None:
        return False
    if new.found and not stored.found:
        return stored.trusted or not new.trusted
    if new.trusted or not stored.trusted:
        return False
    has_ended = stored.invalid_at is not None and stored.invalid_at <= now
    if has_ended or new.evidence == stored.evidence:
        return False
    return stored.found or new.evidence is not None


def as_trusted_as_written(stored: Iterable[Relationship], records: Mapping[str, Record]) -> list[Relationship]:
    """Return stored edges; one whose evidence is an untrusted record of the request is untrusted.

    No edge becomes trusted by this.
    """
    untrusted = {record.id for record in records.values() if not record.trusted}
    return [edge.model_copy(update={"trusted": False}) if edge.evidence in untrusted else edge for edge in stored]


def _edges_named(identities: Collection[EdgeId], store: WriteStore, tenant_id: str) -> list[Relationship]:
    stated = [
        Relationship(tenant_id=tenant_id, source=source, type=kind, target=target, predicate=predicate or None)
        for source, kind, target, predicate in identities
    ]
    return store.graph.as_stored(tenant_id, stated) if stated else []


def begun(one: _Valid, at: datetime | None) -> _Valid:
    """Return an item that begins at ``at`` unless it states its beginning, and ends no earlier."""
    if at is None or one.valid_at is not None:
        return one
    return one.model_copy(update={"valid_at": at, "invalid_at": max(at, one.invalid_at) if one.invalid_at else None})


def ended(one: _Valid, at: datetime | None) -> _Valid:
    """Return an item that ends at ``at`` at the latest, but not before it began."""
    if at is None:
        return one
    at = max(at, one.valid_at) if one.valid_at else at
    return one if one.invalid_at is not None and one.invalid_at <= at else one.model_copy(update={"invalid_at": at})


def _changed(before: Sequence[_Valid], change: Callable[[_Valid], _Valid]) -> list[_Valid]:
    """Return the changed versions of the items that a change affects."""
    return [after for one in before if (after := change(one)) != one]
