"""Selects the part of a batch that each phase writes, so that the order of a file's lines does not matter.

Each phase goes through all batches of the file before the next one begins:

======  ========================================================================================
items   records and entities, without their supersessions
edges   edges other than ``SUPERSEDES``, without their supersessions, and what entities lack since the phase before
links   ``SUPERSEDES`` edges, and supersessions by records
ends    supersessions by edges; the superseding edges are not written again
======  ========================================================================================

An edge that the file itself ends keeps its stored end of validity, if the file was imported before. Fingerprints of all
edges of the file tell whether an edge is one of these, or is stated by a line of another batch.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from braid.ingestion.bulk.fingerprints import contains, fingerprint_of
from braid.ingestion.bulk.step_messages import Phase
from braid.ingestion.request_checks import vertex_of
from braid.ingestion.supersession.superseded_edges import edge_to_store
from braid.ingestion.supersession.superseded_records import stored_records
from braid.ingestion.writing import Places, WriteRequest
from braid.models import SUPERSEDES, Kind
from braid.models.records import DOCUMENT_TYPE
from braid.ports.batches import batches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from braid.models import EdgeId, Record, Relationship, Vertex
    from braid.ports.ingestion import ItemError, WriteStore

_EDGE, _ENDING, _LINK = b'"relationship"', b'"supersedes"', f'"{SUPERSEDES}"'.encode()
_ENTITY = b'"entity"'
_ENDED, _STATED = "ended", "stated"
_IDS_AT_ONCE = 500
_ESCAPED = re.compile(rb"\\u00[4-7]")
"""An ASCII letter as a JSON escape, which may hide a keyword; no common writer escapes letters."""


def phases_of(line: bytes) -> set[Phase]:
    """Return the phases in which a line may write something, without parsing it; all of them if escapes may hide it."""
    if _ESCAPED.search(line):
        return set(Phase)
    edge, ending = _EDGE in line, _ENDING in line
    may = {
        Phase.ITEMS: True,
        Phase.EDGES: edge or _ENTITY in line,
        Phase.LINKS: ending or (edge and _LINK in line),
        Phase.ENDS: edge and ending,
    }
    return {phase for phase, holds in may.items() if holds}


def has_fingerprints(line: bytes) -> bool:
    """Whether :func:`fingerprints_of` may yield anything for a line, without parsing it."""
    phases = phases_of(line)
    return Phase.EDGES in phases and bool(phases & {Phase.LINKS, Phase.ENDS})


def fingerprints_of(request: WriteRequest) -> Iterator[bytes]:
    """Yield the fingerprints of the edges that a request's edges supersede, and of its ``SUPERSEDES`` edges.

    Of the latter only edges that are as trusted as a record which may imply the same edge: an edge with other evidence,
    which may be untrusted, replaces no statement of a record.
    """
    for _, edge in _last(request):
        yield from (fingerprint_of(_ENDED, key.identity()) for key in edge.supersedes)
        if edge.type == SUPERSEDES and edge.trusted and edge.evidence in {None, edge.source}:
            yield fingerprint_of(_STATED, edge.identity())


def part_of(request: WriteRequest, phase: Phase, refused: Collection[str], fingerprints: bytes) -> WriteRequest:
    """Return the part of a batch that is written in a phase.

    Parameters
    ----------
    refused
        Places of items that an earlier phase refused; nothing more of them is written.
    fingerprints
        Sorted :func:`fingerprints_of` all lines of the file; the last phase needs none.
    """
    if phase is Phase.ITEMS:
        places = Places(records=request.places.records, vertices=request.places.vertices)
        return request.altered(relationships=(), places=places, supersede_later=True)
    chosen = [(place, edge) for place, edge in _edges(request, phase) if place not in refused]
    superseding = _superseding(request, refused, fingerprints) if phase is Phase.LINKS else []
    return WriteRequest(
        tenant_id=request.tenant_id,
        ended_apart=frozenset(
            edge.identity() for _, edge in chosen if contains(fingerprints, fingerprint_of(_ENDED, edge.identity()))
        ),
        records=tuple(record for _, record in superseding),
        relationships=tuple(edge for _, edge in chosen),
        places=Places(
            records=tuple(place for place, _ in superseding), relationships=tuple(place for place, _ in chosen)
        ),
        missing=request.missing,
        partial=True,
        supersede_only=phase in (Phase.LINKS, Phase.ENDS),
    )


def with_entities(
    part: WriteRequest, request: WriteRequest, refused: Collection[str], store: WriteStore
) -> WriteRequest:
    """Return a part of a batch with the batch's entities, when the records and entities of all batches are written.

    Batches that were written at the same moment have not seen each other: a text may not be linked to an entity that it
    names, and an entity may have lost to its record, which gives none, the name and type that its own line gives.
    """
    placed = zip(request.places.vertices, request.vertices, strict=True)
    given = [(place, vertex) for place, vertex in placed if place not in refused]
    lost = _made_of_records([vertex for _, vertex in given], request.tenant_id, store)
    again = [(place, vertex) for place, vertex in given if vertex.id in lost]
    described = zip(request.places.records, request.records, strict=True)
    entities: list[Record | Vertex] = [vertex for _, vertex in given]
    entities += [record for place, record in described if record.kind is Kind.ENTITY and place not in refused]
    return part.altered(
        vertices=tuple(vertex for _, vertex in again),
        places=part.places.altered(vertices=tuple(place for place, _ in again)),
        entities=tuple(one.id for one in entities if one.entity_type != DOCUMENT_TYPE),
    )


def _made_of_records(given: Sequence[Vertex], tenant_id: str, store: WriteStore) -> set[str]:
    """Return the ids of the vertices that are stored as their records alone make them, other than given."""
    stored = {vertex.id: vertex for vertex in store.graph.get_many(tenant_id, [vertex.id for vertex in given])}
    other = {
        vertex.id: vertex
        for vertex in given
        if vertex.id in stored and stored[vertex.id].has_record and _told(vertex) != _told(stored[vertex.id])
    }
    records = stored_records(store, tenant_id, other) if other else {}
    return {
        name
        for name, record in records.items()
        if _told(stored[name]) in (_told(vertex_of(record)), _told(vertex_of(record, stored=other[name])))
    }


def _told(vertex: Vertex) -> tuple[object, ...]:
    return (vertex.entity_type, vertex.name, vertex.aliases)


def _edges(request: WriteRequest, phase: Phase) -> Iterator[tuple[str, Relationship]]:
    """Yield the edges of a phase with their places.

    Before the last phase their ``supersedes`` is left out, as another batch may be writing those edges meanwhile.
    """
    for place, edge in _last(request):
        if phase is Phase.ENDS:
            if edge.supersedes:
                yield place, edge
        elif (edge.type == SUPERSEDES) is (phase is Phase.LINKS):
            yield place, edge_to_store(edge)


def _last(request: WriteRequest) -> Iterable[tuple[str, Relationship]]:
    """Return edges with their places; of several with one identity and evidence, only the last.

    Of several with different evidence the last trusted one counts, which is decided by the check of the write.
    """
    placed = zip(request.places.relationships, request.relationships, strict=True)
    return {(edge.identity(), edge.evidence, edge.trusted): (place, edge) for place, edge in placed}.values()


def _superseding(request: WriteRequest, refused: Collection[str], fingerprints: bytes) -> list[tuple[str, Record]]:
    """Return the superseding records with their places, without supersession that an edge of the file states as well.

    The stated edge takes precedence over the one that a record implies.
    """
    found: list[tuple[str, Record]] = []
    for place, record in zip(request.places.records, request.records, strict=True):
        left = tuple(
            old
            for old in record.supersedes
            if not contains(fingerprints, fingerprint_of(_STATED, _link(record.id, old)))
        )
        if left and place not in refused:
            found.append((place, record.altered(supersedes=left)))
    return found


def _link(new: str, old: str) -> EdgeId:
    return (new, SUPERSEDES, old, "")


def refused_records(request: WriteRequest, errors: Iterable[ItemError], unread: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of a batch's refused lines that may be untrusted records.

    The trust of a line that cannot be parsed is unknown; ``unread`` are the ids in such lines.
    """
    trusted = {record.id for record in request.records if record.trusted}
    refused = dict.fromkeys([*(error.id for error in errors if error.id), *unread])
    return tuple(name for name in refused if name not in trusted)


def distrust_edges_of(unwritten: Iterable[str], tenant_id: str, store: WriteStore) -> None:
    """Mark edges as untrusted whose evidence is one of these unwritten records, unless a version of it is stored.

    Called when all edges of a file are written: until then they count as trusted, as their evidence is not stored.
    """
    for ids in batches(unwritten, _IDS_AT_ONCE):
        stored = store.index.written(tenant_id, ids)
        if absent := [each for each in ids if each not in stored]:
            store.graph.distrust_most_relationships(tenant_id, absent)
            with store.transaction(tenant_id):
                store.graph.distrust_relationships(tenant_id, absent)
