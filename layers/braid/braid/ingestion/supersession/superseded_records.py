"""Finds and checks the records that a request supersedes, by its ``SUPERSEDES`` edges (here *links*) and stored ones.

A record's ``supersedes`` states links as well. Links are refused if they close a cycle, if a record would end or be
ended by more than a thousand, if an untrusted record would end a trusted one, or if a record's ``supersedes`` would end
an entity. The ends are stored by ``ending_validity``.
"""

from __future__ import annotations

from collections import Counter
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from braid.models import SUPERSEDES, Kind, Relationship
from braid.ports.batches import batches

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from braid.models import EdgeId, Record
    from braid.ports.ingestion import WriteStore

MAX_WALKED = 1_000
"""Stored ``SUPERSEDES`` edges that are followed to look for a cycle; each may be a round trip to the graph."""
MAX_SUPERSESSIONS = 1_000
"""Most records that one record may supersede or be superseded by: each write that names it reads these edges."""
READ_AT_ONCE = 50
"""Stored records that are in memory together, with their texts."""
_SHOWN = 10
"""Most names of a cycle in a message."""
_Key = TypeVar("_Key", bound="Hashable")
_Node = TypeVar("_Node", bound="Hashable")


class RefusedRecord(NamedTuple):
    """A record whose supersession is invalid."""

    id: str
    message: str


class RefusedEdge(NamedTuple):
    """An edge whose supersession is invalid."""

    identity: EdgeId
    message: str


class SupersedingLinks(NamedTuple):
    """The links of a request, and the stored links that decide whether they are valid and which records they end."""

    stated: dict[EdgeId, Relationship]
    """Links of the request: its ``SUPERSEDES`` edges, and those implied by ``supersedes`` of records."""
    implied_by: dict[EdgeId, str]
    """For each stated link that a record implies, the id of that record."""
    undecided: Collection[EdgeId]
    """Stated links that may close a cycle: too many edges would have to be followed to know."""
    stored: dict[EdgeId, Relationship]
    """Links of the graph at records of the request or at endpoints of stated links, and older ones by which a stated
    link may close a cycle; without links to be deleted."""
    void: dict[EdgeId, Relationship]
    """Stored links without effect: the record that they would end is trusted, but they or their sources are not.
    One that would end a record of the request is to be deleted."""
    known_records: dict[str, Record]
    """Records of the request, and stored ones at endpoints of stated links, by id."""


def read_links(
    records: Mapping[str, Record],
    edges: Mapping[EdgeId, Relationship],
    in_graph: Collection[str],
    store: WriteStore,
    tenant_id: str,
    *,
    may_be_deleted: bool,
) -> SupersedingLinks:
    """Return the links of a request and the stored ones around them; parameters as of ``find_supersession``."""
    stated, implied_by = _stated_links(records, edges, tenant_id)
    endpoints = {endpoint for link in stated.values() for endpoint in (link.source, link.target)}
    looked_up = endpoints | {name for name in in_graph if name in records}
    stored = _stored_links(store, tenant_id, looked_up)
    known = {**stored_records(store, tenant_id, endpoints - set(records)), **records}
    for gone in _ended_and_deleted(stated, implied_by, known, store, tenant_id) if may_be_deleted else ():
        del stated[gone], implied_by[gone]
    void = void_links(stored.values(), known, store, tenant_id)
    stored = {identity: link for identity, link in stored.items() if identity not in void or link.target not in records}
    undecided = _add_older_links(stored, stated, looked_up, store, tenant_id)
    return SupersedingLinks(stated, implied_by, undecided, stored, void, known)


def _stated_links(
    records: Mapping[str, Record], edges: Mapping[EdgeId, Relationship], tenant_id: str
) -> tuple[dict[EdgeId, Relationship], dict[EdgeId, str]]:
    """Return the ``SUPERSEDES`` edges of a request, and for implied ones the id of the record that implies them.

    An explicit edge takes precedence over an implied one, unless only the record is trusted.
    """
    links = {identity: edge for identity, edge in edges.items() if edge.type == SUPERSEDES}
    implied_by: dict[EdgeId, str] = {}
    for record in records.values():
        for old in record.supersedes:
            link = Relationship(
                tenant_id=tenant_id, source=record.id, type=SUPERSEDES, target=old, trusted=record.trusted
            )
            stated = links.setdefault(link.identity(), link)
            if link.trusted and not stated.trusted:
                links[link.identity()] = link
            implied_by[link.identity()] = record.id
    return links, implied_by


def _ended_and_deleted(
    stated: Mapping[EdgeId, Relationship],
    implied_by: Mapping[EdgeId, str],
    known: Mapping[str, Record],
    store: WriteStore,
    tenant_id: str,
) -> list[EdgeId]:
    """Return the implied links to records that are gone and that the stored versions of their sources state as well.

    These records were deleted after they were superseded: repeating the write is no error.
    """
    gone = [name for name in implied_by if stated[name].target not in known]
    before = stored_records(store, tenant_id, {implied_by[name] for name in gone}) if gone else {}
    return [name for name in gone if (old := before.get(implied_by[name])) and stated[name].target in old.supersedes]


def _stored_links(store: WriteStore, tenant_id: str, ids: set[str]) -> dict[EdgeId, Relationship]:
    """Return the stored ``SUPERSEDES`` edges with an endpoint among these ids."""
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

    A link cannot be decided if more than :data:`MAX_WALKED` edges would have to be followed. A cycle enters the source
    of a new link along a stored edge, so a source that is not superseded needs no walk.
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


def void_links(
    links: Collection[Relationship], known: Mapping[str, Record], store: WriteStore, tenant_id: str
) -> dict[EdgeId, Relationship]:
    """Return the links that do not end their target, a known record: it is trusted; the link or its source is not.

    Such a link may have been written before its target was, or while its target was not trusted.
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


def link_problems(
    links: SupersedingLinks, *, refused: Collection[str], unwritten: Collection[str]
) -> Iterator[tuple[EdgeId, str]]:
    """Yield why stated links are invalid, apart from the cycles that they close."""
    for identity, link in links.stated.items():
        if identity in links.implied_by and (
            message := _target_problem(link, links.known_records.get(link.target), refused)
        ):
            yield identity, message
    for identity, link in links.stated.items():
        if message := _trust_problem(link, links.known_records, unwritten):
            yield identity, message
    for identity in links.undecided:
        yield identity, _walk_too_long(links.stated[identity])
    for identity, message in _too_many(links.stated, links.stored).items():
        if identity not in links.undecided:
            yield identity, message


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
        return unwritten_problem(f"{link.target!r}, which {link.source!r} supersedes,", link, unwritten)
    doubtful = repr(link.source) if new and not new.trusted else "the edge that says so"
    return (
        f"{link.target!r}, which {link.source!r} supersedes, is trusted and {doubtful} is not;"
        " only what is trusted ends it"
    )


def unwritten_problem(superseded: str, edge: Relationship, unwritten: Collection[str]) -> str | None:
    """Return why an edge must not end a trusted item: its evidence may turn out to be untrusted."""
    if edge.evidence not in unwritten:
        return None
    return (
        f"{superseded} is trusted and {edge.evidence!r}, the evidence of the edge that supersedes it, is not written;"
        f" write {edge.evidence!r} before the edge"
    )


def unwritten_evidence(
    edges: Iterable[Relationship], records: Collection[str], store: WriteStore, tenant_id: str
) -> set[str]:
    """Return the evidence of edges that is neither stored nor in the request."""
    evidence = {edge.evidence for edge in edges if edge.evidence}.difference(records)
    return evidence.difference(store.index.written(tenant_id, sorted(evidence)) if evidence else ())


def _walk_too_long(link: Relationship) -> str:
    return (
        f"{link.source!r} is superseded itself, and more than {MAX_WALKED:,} older versions would be followed to see"
        f" whether {link.target!r} ends it; supersede {link.target!r} with a record that nothing supersedes"
    )


def _too_many(links: Mapping[EdgeId, Relationship], stored: Mapping[EdgeId, Relationship]) -> dict[EdgeId, str]:
    """Return the error of each new link that exceeds :data:`MAX_SUPERSESSIONS` of a record.

    Trusted and untrusted links are counted separately, so that untrusted ones cannot use up the limit of trusted ones.
    """
    wrong: dict[EdgeId, str] = {}
    new_ones = Counter((edge.source, edge.trusted) for edge in stored.values())
    old_ones = Counter((edge.target, edge.trusted) for edge in stored.values())
    for identity, link in links.items():
        if identity in stored:
            continue
        new_ones[link.source, link.trusted] += 1
        old_ones[link.target, link.trusted] += 1
        if new_ones[link.source, link.trusted] > MAX_SUPERSESSIONS:
            wrong[identity] = (
                f"{link.source!r} supersedes {MAX_SUPERSESSIONS:,} records already; name the others in another one"
            )
        elif old_ones[link.target, link.trusted] > MAX_SUPERSESSIONS:
            wrong[identity] = f"{link.target!r} is superseded by {MAX_SUPERSESSIONS:,} records already; leave it out"
    return wrong


def all_in_cycles(
    links: Mapping[EdgeId, Relationship], implied_by: Mapping[EdgeId, str], stored: Mapping[EdgeId, Relationship]
) -> list[RefusedRecord | RefusedEdge]:
    """Return the items to refuse, so that the others close no cycle: all at once, as each new check walks the graph."""
    refused: list[RefusedRecord | RefusedEdge] = []
    left = dict(links)
    while item := _first_in_cycle(left, implied_by, stored):
        refused.append(item)
        if isinstance(item, RefusedRecord):
            left = {identity: link for identity, link in left.items() if implied_by.get(identity) != item.id}
        else:
            del left[item.identity]
    return refused


def _first_in_cycle(
    links: Mapping[EdgeId, Relationship], implied_by: Mapping[EdgeId, str], stored: Mapping[EdgeId, Relationship]
) -> RefusedRecord | RefusedEdge | None:
    """Return the refusal of one item that would close a cycle; None if none does."""
    cycle = one_cycle([(link.source, link.target) for link in (*stored.values(), *links.values())])
    for identity, link in links.items():
        if (link.source, link.target) in cycle:
            names = [link.source, *_cycle_from(cycle, link.target)]
            shown = names if len(names) <= _SHOWN else [*names[: _SHOWN - 2], "…", names[-1]]
            return refused_item(
                identity, implied_by, f"{link.source!r} would be superseded by itself: {' → '.join(shown)}"
            )
    return None


def one_cycle(pairs: Sequence[tuple[_Node, _Node]]) -> dict[tuple[_Node, _Node], None]:
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


def refused_item(identity: EdgeId, implied_by: Mapping[EdgeId, str], message: str) -> RefusedRecord | RefusedEdge:
    """Return the refusal of the record that implies a link, or of the edge that is one."""
    return RefusedRecord(implied_by[identity], message) if identity in implied_by else RefusedEdge(identity, message)


def dated(link: Relationship, links: SupersedingLinks, store: WriteStore) -> Relationship:
    """Return a stated link with the time from which it is valid: its own, its source's, the stored one's, or now."""
    if link.valid_at or link.timestamp:
        return link
    before = links.stored.get(link.identity())
    at = _begins(links.known_records.get(link.source)) or (before and before.valid_at) or store.now()
    return link.altered(valid_at=at)


def _begins(record: Record | None) -> datetime | None:
    return None if record is None else record.valid_at or record.timestamp


def begun_records(
    links: Iterable[Relationship], known: Mapping[str, Record], unwritten: Collection[str]
) -> dict[str, datetime]:
    """Return when the validity of superseding records begins: the earliest time that a link states.

    For a trusted record, links are ignored if they are untrusted, or if their evidence is ``unwritten`` and may turn
    out to be untrusted. A record that has ended before keeps its validity.
    """
    return earliest(
        (new.id, since)
        for link in links
        if (new := known.get(link.source)) and new.kind is not Kind.ENTITY
        if (since := link.valid_at or link.timestamp) and not (new.invalid_at and new.invalid_at <= since)
        if (link.trusted and link.evidence not in unwritten) or not new.trusted
    )


def ended_records(links: Iterable[Relationship], known: Mapping[str, Record]) -> dict[str, datetime]:
    """Return the ends of validity of known records: the earliest time that a link states."""
    return earliest(
        (old.id, since)
        for link in links
        if (old := known.get(link.target)) and old.kind is not Kind.ENTITY
        if (since := link.valid_at or link.timestamp)
    )


def earliest(moments: Iterable[tuple[_Key, datetime]]) -> dict[_Key, datetime]:
    """Return the earliest moment of each key."""
    found: dict[_Key, datetime] = {}
    for key, moment in moments:
        found[key] = min(found.get(key, moment), moment)
    return found


def ended_evidence(
    edges: Iterable[Relationship], records: Collection[str], store: WriteStore, tenant_id: str
) -> dict[str, datetime]:
    """Return the ends of validity of the stored records that are evidence of these edges."""
    return ended_as_stored({edge.evidence for edge in edges if edge.evidence}.difference(records), store, tenant_id)


def ended_as_stored(ids: Collection[str], store: WriteStore, tenant_id: str) -> dict[str, datetime]:
    """Return the ends of validity that stored links give to these stored records."""
    touching = store.graph.relationships(tenant_id, ids=ids, types=(SUPERSEDES,)) if ids else []
    links = [link for link in touching if link.target in ids]
    known = stored_records(store, tenant_id, {link.target for link in links})
    void = void_links(links, known, store, tenant_id)
    return ended_records([link for link in links if link.identity() not in void], known)


def stored_records(store: WriteStore, tenant_id: str, ids: Collection[str]) -> dict[str, Record]:
    """Return the records that exist, without their texts, which may be gigabytes for thousands of records."""
    present = sorted(store.index.written(tenant_id, sorted(ids))) if ids else []
    pages = (store.index.get_many(tenant_id, some) for some in batches(present, READ_AT_ONCE))
    return {record.id: record.altered(content="") for page in pages for record in page}
