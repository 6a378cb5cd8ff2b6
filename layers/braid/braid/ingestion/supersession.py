"""Finds, checks and applies supersession: the end of validity of records and edges, facts too, that newer ones replace.

A record names what it supersedes, or a ``SUPERSEDES`` edge states it. The graph keeps that edge, so that a superseded
record stays ended when it is written again. When a record ends, so do its vertex and the edges that have it as their
only evidence, which ends the facts that these edges are, in whichever order they are written. Cycles are refused.
Entities are never ended, nor is what is trusted by what is not.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeGuard, TypeVar

from braid.models import Kind, Record, Relationship, Vertex
from braid.ports.batches import batches

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from braid.models import EdgeId, RelationshipKey
    from braid.ports.ingestion import WriteStore

SUPERSEDES = "SUPERSEDES"
MAX_WALKED = 1_000
"""Stored ``SUPERSEDES`` edges that are followed to look for a cycle; each may be a round trip to the graph."""
MAX_SUPERSESSIONS = 1_000
"""Most records that one record may supersede or be superseded by: each write that names it reads these edges."""
_READ_AT_ONCE = 50
"""Stored records that are in memory together, with their texts."""
_SHOWN = 10
"""Most names of a cycle in a message."""
_Ending = TypeVar("_Ending", Record, Vertex, Relationship)


@dataclass
class Supersession:
    """Ends of validity that a request causes."""

    record_ends: dict[str, datetime] = field(default_factory=dict)
    """By id; a record's vertex ends with it."""
    evidence_ends: dict[str, datetime] = field(default_factory=dict)
    """Ends of stored records that ended before and are the evidence of the request's edges."""
    edge_ends: dict[EdgeId, datetime] = field(default_factory=dict)
    """Ends of edges that other edges supersede."""

    def record_with_end(self, record: Record) -> Record:
        """Return a record with its end, if it has one."""
        return ended(record, self.record_ends.get(record.id))

    def vertex_with_end(self, vertex: Vertex) -> Vertex:
        """Return a vertex with its end, if it has one."""
        return ended(vertex, self.record_ends.get(vertex.id))

    def edge_with_end(self, edge: Relationship) -> Relationship:
        """Return an edge with its end: the earlier of its own and that of its evidence."""
        if not (self.record_ends or self.evidence_ends or self.edge_ends):
            return edge
        name = edge.evidence
        evidence_end = (self.record_ends.get(name) or self.evidence_ends.get(name)) if name else None
        return ended(ended(edge, self.edge_ends.get(edge.identity())), evidence_end)

    def apply(self, store: WriteStore, tenant_id: str, *, records: set[str], edges: set[EdgeId]) -> int:
        """End the stored records, vertices and edges, except the records and edges that were just written.

        Returns
        -------
        int
            Number of records and edges ended.
        """
        others = sorted(set(self.record_ends) - records)
        present = sorted(store.index.written(tenant_id, others)) if others else []
        ended_records = 0
        for some in batches(present, _READ_AT_ONCE):
            stored = store.index.get_many(tenant_id, some, with_vectors=True)
            if changed := _changed(stored, self.record_with_end):
                store.index.end(changed)
            ended_records += len(changed)
        vertices = store.graph.get_many(tenant_id, others) if others else []
        ended_vertices = _changed(vertices, self.vertex_with_end)
        superseded = _edges_named(self.edge_ends.keys() - edges, store, tenant_id)
        ended_edges = _changed(superseded, self.edge_with_end)
        if ended_vertices or ended_edges:
            store.graph.end(ended_vertices, ended_edges)
        # By the store itself, as a record may be the evidence of very many edges.
        ended_with_evidence = store.graph.end_relationships(tenant_id, self.record_ends)
        return ended_records + len(ended_edges) + ended_with_evidence


class RefusedRecord(NamedTuple):
    """A record whose supersession is invalid."""

    id: str
    message: str


class RefusedEdge(NamedTuple):
    """An edge whose supersession is invalid."""

    identity: EdgeId
    message: str


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
    links = _read_links(records, edges, in_graph, store, tenant_id)
    found = StatedSupersession(void_links=[link for name, link in links.deleted.items() if name not in links.stated])
    unwritten = _unwritten_evidence(links.stated.values(), records, store, tenant_id)
    found.refused = [
        _refused(identity, links.named_by, message)
        for identity, message in _link_problems(links, refused=refused, unwritten=unwritten)
    ] or _all_in_cycles(links.stated, links.named_by, links.stored)
    if found.refused:
        return found
    dated = {identity: _dated(link, links, store) for identity, link in links.stated.items()}
    found.dated_links = list(dated.values())
    ending = {name: link for name, link in links.stored.items() if name not in links.void} | dated
    found.supersession.record_ends = _ended_records(ending.values(), links.known)
    found.supersession.evidence_ends = _ended_evidence(edges.values(), records, store, tenant_id)
    found.supersession.edge_ends, invalid = _ended_edges(edges, records, store, tenant_id)
    found.refused += invalid
    return found


class _Links(NamedTuple):
    """The ``SUPERSEDES`` edges that a request states, and the stored ones around them."""

    stated: dict[EdgeId, Relationship]
    named_by: dict[EdgeId, str]
    """Of the stated ones that a record implies, the id of that record."""
    known: dict[str, Record]
    """Records of the request, and stored ones that stated edges name, by id."""
    stored: dict[EdgeId, Relationship]
    """Those at records of the request or ends of stated ones, and older ones by which these may close a cycle."""
    void: dict[EdgeId, Relationship]
    """Stored ones that end nothing: the record that they would end is trusted, and they or their sources are not."""
    deleted: dict[EdgeId, Relationship]
    """Void ones that would end a record of the request."""
    undecided: Collection[EdgeId]
    """Stated ones that may close a cycle, which too many edges would have to be followed to know."""


def _read_links(
    records: Mapping[str, Record],
    edges: Mapping[EdgeId, Relationship],
    in_graph: Collection[str],
    store: WriteStore,
    tenant_id: str,
) -> _Links:
    stated, named_by = _stated_links(records, edges, tenant_id)
    ends = {end for link in stated.values() for end in (link.source, link.target)}
    looked_up = ends | {name for name in in_graph if name in records}
    stored = _stored_links(store, tenant_id, looked_up)
    known = {**stored_records(store, tenant_id, ends - set(records)), **records}
    void = _void_links(stored.values(), known, store, tenant_id)
    deleted = {identity: stored.pop(identity) for identity, link in void.items() if link.target in records}
    undecided = _add_older_links(stored, stated, looked_up, store, tenant_id)
    return _Links(stated, named_by, known, stored, void, deleted, undecided)


def _link_problems(
    links: _Links, *, refused: Collection[str], unwritten: Collection[str]
) -> Iterator[tuple[EdgeId, str]]:
    """Yield why stated links are invalid, apart from the cycles that they close."""
    for identity, link in links.stated.items():
        if identity in links.named_by and (message := _target_problem(link, links.known.get(link.target), refused)):
            yield identity, message
    for identity, link in links.stated.items():
        if message := _trust_problem(link, links.known, unwritten):
            yield identity, message
    for identity in links.undecided:
        yield identity, _walk_too_long(links.stated[identity])
    for identity, message in _too_many(links.stated, links.stored).items():
        if identity not in links.undecided:
            yield identity, message


def _dated(link: Relationship, links: _Links, store: WriteStore) -> Relationship:
    """Return a stated link with the time from which it holds: its own, its source's, the stored one's, or now."""
    if link.valid_at or link.timestamp:
        return link
    before = links.stored.get(link.identity())
    at = _begins(links.known.get(link.source)) or (before and before.valid_at) or store.now()
    return link.model_copy(update={"valid_at": at})


def _stated_links(
    records: Mapping[str, Record], edges: Mapping[EdgeId, Relationship], tenant_id: str
) -> tuple[dict[EdgeId, Relationship], dict[EdgeId, str]]:
    """Return the ``SUPERSEDES`` edges of a request, and for those that a record implies the id of that record."""
    links = {identity: edge for identity, edge in edges.items() if edge.type == SUPERSEDES}
    named_by: dict[EdgeId, str] = {}
    for record in records.values():
        for old in record.supersedes:
            link = Relationship(tenant_id=tenant_id, source=record.id, type=SUPERSEDES, target=old)
            links.setdefault(link.identity(), link)
            named_by[link.identity()] = record.id
    return links, named_by


def _all_in_cycles(
    links: Mapping[EdgeId, Relationship], named_by: Mapping[EdgeId, str], stored: Mapping[EdgeId, Relationship]
) -> list[RefusedRecord | RefusedEdge]:
    """Return the items to refuse, so that the others close no cycle: all at once, as each new check walks the graph."""
    refused: list[RefusedRecord | RefusedEdge] = []
    left = dict(links)
    while item := _first_in_cycle(left, named_by, stored):
        refused.append(item)
        if isinstance(item, RefusedRecord):
            left = {identity: link for identity, link in left.items() if named_by.get(identity) != item.id}
        else:
            del left[item.identity]
    return refused


def _first_in_cycle(
    links: Mapping[EdgeId, Relationship], named_by: Mapping[EdgeId, str], stored: Mapping[EdgeId, Relationship]
) -> RefusedRecord | RefusedEdge | None:
    """Return the refusal of one item that would close a cycle; None if none does."""
    cycle = _one_cycle([(link.source, link.target) for link in (*stored.values(), *links.values())])
    for identity, link in links.items():
        if (link.source, link.target) in cycle:
            names = [link.source, *_cycle_from(cycle, link.target)]
            shown = names if len(names) <= _SHOWN else [*names[: _SHOWN - 2], "…", names[-1]]
            return _refused(identity, named_by, f"{link.source!r} would be superseded by itself: {' → '.join(shown)}")
    return None


def _refused(identity: EdgeId, named_by: Mapping[EdgeId, str], message: str) -> RefusedRecord | RefusedEdge:
    return RefusedRecord(named_by[identity], message) if identity in named_by else RefusedEdge(identity, message)


def _walk_too_long(link: Relationship) -> str:
    return (
        f"{link.source!r} is superseded itself, and more than {MAX_WALKED:,} older versions would be followed to see"
        f" whether {link.target!r} ends it; supersede {link.target!r} with a record that nothing supersedes"
    )


def _too_many(links: Mapping[EdgeId, Relationship], stored: Mapping[EdgeId, Relationship]) -> dict[EdgeId, str]:
    """Return the error of each new link that exceeds :data:`MAX_SUPERSESSIONS` of a record."""
    wrong: dict[EdgeId, str] = {}
    new_ones, old_ones = (Counter(getattr(edge, end) for edge in stored.values()) for end in ("source", "target"))
    for identity, link in links.items():
        if identity in stored:
            continue
        new_ones[link.source] += 1
        old_ones[link.target] += 1
        if new_ones[link.source] > MAX_SUPERSESSIONS:
            wrong[identity] = (
                f"{link.source!r} supersedes {MAX_SUPERSESSIONS:,} records already; name the others in another one"
            )
        elif old_ones[link.target] > MAX_SUPERSESSIONS:
            wrong[identity] = f"{link.target!r} is superseded by {MAX_SUPERSESSIONS:,} records already; leave it out"
    return wrong


def _ended_evidence(
    edges: Iterable[Relationship], records: Collection[str], store: WriteStore, tenant_id: str
) -> dict[str, datetime]:
    """Return the ends of the stored records that are evidence of these edges."""
    evidence = {edge.evidence for edge in edges if edge.evidence}.difference(records)
    links = store.graph.relationships(tenant_id, ids=evidence, types=(SUPERSEDES,)) if evidence else []
    known = stored_records(store, tenant_id, evidence & {link.target for link in links})
    void = _void_links(links, known, store, tenant_id)
    return _ended_records([link for link in links if link.identity() not in void], known)


def _ended_records(links: Iterable[Relationship], known: Mapping[str, Record]) -> dict[str, datetime]:
    """Return the ends of known records: the earliest time that a link states."""
    until: dict[str, datetime] = {}
    for link in links:
        old, since = known.get(link.target), link.valid_at or link.timestamp
        if old is None or old.kind is Kind.ENTITY or since is None:
            continue
        until[old.id] = min(until.get(old.id, since), since)
    return until


def _void_links(
    links: Collection[Relationship], known: Mapping[str, Record], store: WriteStore, tenant_id: str
) -> dict[EdgeId, Relationship]:
    """Return the links that end no known record: it is trusted, and they or their sources are not.

    They may have been written before it was, or while it was not trusted itself.
    """
    ending_trusted = [link for link in links if link.target in known and known[link.target].trusted]
    sources = {link.source for link in ending_trusted if link.trusted}
    others = sorted(sources - set(known))
    doubtful = {name for name in sources & set(known) if not known[name].trusted}
    doubtful |= {
        vertex.id
        for vertex in (store.graph.get_many(tenant_id, others) if others else ())
        if vertex.has_record and not vertex.trusted
    }
    return {link.identity(): link for link in ending_trusted if not link.trusted or link.source in doubtful}


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
        if given is None or stored_stays(edge, given, store.now()):
            known[edge.identity()] = edge
    unwritten = _unwritten_evidence((edge for edge, _ in pairs), records, store, tenant_id)
    problems: dict[EdgeId, str] = {}
    ends: dict[EdgeId, datetime] = {}
    for edge, key in pairs:
        if message := _edge_problem(edge, key, known, unwritten):
            problems.setdefault(edge.identity(), message)
        at = edge.valid_at or edge.timestamp or store.now()
        ends[key.identity()] = min(ends.get(key.identity(), at), at)
    if not problems and (cycle := _one_cycle([(edge.identity(), key.identity()) for edge, key in pairs])):
        identity, _ = next(iter(cycle))
        source, kind, target, _ = identity
        problems[identity] = f"{source!r} {kind} {target!r} would be superseded by itself"
    return {} if problems else ends, [RefusedEdge(identity, message) for identity, message in problems.items()]


def stored_stays(before: Relationship | None, meant: Relationship, now: datetime) -> TypeGuard[Relationship]:
    """Whether a stored edge stays as it is.

    An edge that was found in a text replaces no given one, unless only the found one is trusted. One that is not
    trusted replaces no trusted one that is still in force, unless both have the same evidence.
    """
    if before is not None and meant.found and not before.found:
        return before.trusted or not meant.trusted
    if before is None or meant.trusted or not before.trusted:
        return False
    if before.invalid_at is not None and before.invalid_at <= now:
        return False
    return (before.found or meant.evidence is not None) and meant.evidence != before.evidence


def as_trusted_as_written(stored: Iterable[Relationship], records: Mapping[str, Record]) -> list[Relationship]:
    """Return stored edges, as trusted as their evidence will be once the records of a request are written."""
    untrusted = {record.id for record in records.values() if not record.trusted}
    return [edge.model_copy(update={"trusted": False}) if edge.evidence in untrusted else edge for edge in stored]


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
    return _unwritten_problem(superseded, edge, unwritten)


def _unwritten_problem(superseded: str, edge: Relationship, unwritten: Collection[str]) -> str | None:
    """Return why an edge must not end what is trusted: its evidence may turn out not to be."""
    if edge.evidence not in unwritten:
        return None
    return (
        f"{superseded} is trusted and {edge.evidence!r}, the evidence of the edge that supersedes it, is not written;"
        f" write {edge.evidence!r} before the edge"
    )


def _unwritten_evidence(
    edges: Iterable[Relationship], records: Collection[str], store: WriteStore, tenant_id: str
) -> set[str]:
    """Return the evidence of edges that is neither stored nor in the request."""
    evidence = {edge.evidence for edge in edges if edge.evidence}.difference(records)
    return evidence.difference(store.index.written(tenant_id, sorted(evidence)) if evidence else ())


def ended(one: _Ending, at: datetime | None) -> _Ending:
    """Return an item that ends at ``at`` at the latest, but not before it began."""
    if at is None:
        return one
    at = max(at, one.valid_at) if one.valid_at else at
    return one if one.invalid_at is not None and one.invalid_at <= at else one.model_copy(update={"invalid_at": at})


def _changed(before: Sequence[_Ending], change: Callable[[_Ending], _Ending]) -> list[_Ending]:
    """Return the changed versions of the items that a change affects."""
    return [after for one in before if (after := change(one)) != one]


def _begins(record: Record | None) -> datetime | None:
    return None if record is None else record.valid_at or record.timestamp


def _target_problem(link: Relationship, old: Record | None, refused: Collection[str]) -> str | None:
    if old is None and link.target in refused:
        return f"{link.target!r}, which {link.source!r} supersedes, is refused itself"
    if old is None:
        return f"there is no record {link.target!r}, which {link.source!r} supersedes"
    if old.kind is Kind.ENTITY:
        return f"{link.target!r}, which {link.source!r} supersedes, is an entity; only what is said ends"
    return None


def _trust_problem(link: Relationship, known: Mapping[str, Record], unwritten: Collection[str]) -> str | None:
    new, old = known.get(link.source), known.get(link.target)
    if old is None or not old.trusted:
        return None
    if link.trusted and (new is None or new.trusted):
        return _unwritten_problem(f"{link.target!r}, which {link.source!r} supersedes,", link, unwritten)
    doubtful = repr(link.source) if link.trusted else "the edge that says so"
    return (
        f"{link.target!r}, which {link.source!r} supersedes, is trusted and {doubtful} is not;"
        " only what is trusted ends it"
    )


def stored_records(store: WriteStore, tenant_id: str, ids: Collection[str]) -> dict[str, Record]:
    """Return the records that exist, without their texts, which may be gigabytes for thousands of records."""
    present = sorted(store.index.written(tenant_id, sorted(ids))) if ids else []
    pages = (store.index.get_many(tenant_id, some) for some in batches(present, _READ_AT_ONCE))
    return {record.id: record.model_copy(update={"content": ""}) for page in pages for record in page}


def _edges_named(identities: Collection[EdgeId], store: WriteStore, tenant_id: str) -> list[Relationship]:
    stated = [
        Relationship(tenant_id=tenant_id, source=source, type=kind, target=target, predicate=predicate or None)
        for source, kind, target, predicate in identities
    ]
    return store.graph.as_stored(tenant_id, stated) if stated else []


def _stored_links(store: WriteStore, tenant_id: str, ids: set[str]) -> dict[EdgeId, Relationship]:
    """Return the stored ``SUPERSEDES`` edges with an end among these ids."""
    touching = store.graph.relationships(tenant_id, ids=ids, types=(SUPERSEDES,)) if ids else ()
    return {edge.identity(): edge for edge in touching}


def _add_older_links(
    stored: dict[EdgeId, Relationship],
    links: Mapping[EdgeId, Relationship],
    looked_up: set[str],
    store: WriteStore,
    tenant_id: str,
) -> list[EdgeId]:
    """Add to ``stored`` the edges by which a new link could close a cycle; return the links that cannot be decided.

    Those are links for which more than :data:`MAX_WALKED` edges would be followed. A cycle enters the source of a new
    link along a stored edge; so a newest version, which nothing supersedes yet, needs no walk.
    """
    ended_before = {edge.target for edge in stored.values()}
    suspected = [name for name, link in links.items() if name not in stored and link.source in ended_before]
    seen, walked = set(looked_up), 0
    ids = ended_before - seen if suspected else set()
    while ids:
        touching = store.graph.relationships(tenant_id, ids=ids, types=(SUPERSEDES,))
        older = {edge.identity(): edge for edge in touching if edge.identity() not in stored}
        walked += len(older)
        if walked > MAX_WALKED:
            return suspected
        stored |= older
        seen |= ids
        ids = {edge.target for edge in older.values()} - seen
    return []


_Node = TypeVar("_Node", bound="Hashable")


def _one_cycle(pairs: Sequence[tuple[_Node, _Node]]) -> dict[tuple[_Node, _Node], None]:
    """Return the pairs of one cycle among pairs of new and old, in order; none if there is no cycle."""
    sorter: TopologicalSorter[_Node] = TopologicalSorter()
    for new, old in pairs:
        if new == old:
            return {(new, old): None}
        sorter.add(new, old)
    try:
        sorter.prepare()
    except CycleError as error:
        nodes: list[_Node] = list(reversed(error.args[1]))
        return dict.fromkeys(pairwise(nodes))
    return {}


def _cycle_from(cycle: Mapping[tuple[str, str], None], start: str) -> list[str]:
    """Return the nodes of a cycle in order, from one of them to the one before it."""
    after = dict(cycle.keys())
    way = [start]
    while after[way[-1]] != start:
        way.append(after[way[-1]])
    return way
