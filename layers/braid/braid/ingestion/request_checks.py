"""Validates a write request before anything is written, and resolves the endpoints of its edges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from braid.ingestion.entities_found_in_texts import find_names, stale_mentions, successors_of_names
from braid.ingestion.given_entity_linking import NamedEntities, named_entities, stored_entities
from braid.ingestion.item_refusals import (
    OWN_ENTITY_TYPES,
    Given,
    Types,
    dangling,
    refuse_long_replacements,
    refuse_new_types,
    refuse_newer,
    refuse_other_tenants,
    refuse_superseding_nothing,
    refuse_unwritten,
    refuse_vectors,
    refuse_wrong,
    replacing_too_soon,
)
from braid.ingestion.supersession.ending_validity import Supersession, begun, ended, find_supersession
from braid.ingestion.supersession.superseded_edges import as_trusted_as_written, edge_to_store, stored_edge_stays
from braid.ingestion.supersession.superseded_records import RefusedRecord, stored_records, unwritten_evidence
from braid.models import GraphSource, Kind, Record, Relationship, Vertex
from braid.models.records import DEFAULT_ENTITY_TYPE, DOCUMENT_TYPE, FOUND_PREFIX
from braid.ports.ingestion import ItemError, MissingEnds
from braid.ports.knowledge_graph import GraphTypes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from braid.models import EdgeId
    from braid.ports.ingestion import WriteRequest, WriteStore
    from braid.ports.knowledge_graph import NameKeys


@dataclass
class Accepted:
    """The valid part of a request, which is to be written, and the errors of the rest."""

    records: list[Record] = field(default_factory=list)
    vertices: list[Vertex] = field(default_factory=list)
    """Vertices that are new or differ from the stored ones."""
    name_keys: Mapping[str, NameKeys] = field(default_factory=dict)
    """Name keys, for entity linking, of the vertices whose names are new or have changed, by id."""
    given_vertices: int = 0
    """Number of ``vertices``, except vertices of found names."""
    edges: list[Relationship] = field(default_factory=list)
    """Edges that are new or differ from the stored ones."""
    stated: set[EdgeId] = field(default_factory=set)
    """All valid edges, including those that are stored unchanged."""
    stubs: set[str] = field(default_factory=set)
    """Ids of ``vertices`` that are made only because an endpoint of an edge is missing."""
    names: int = 0
    """Found names that are new."""
    mentions: int = 0
    """Found mentions, stored or not."""
    doubtful: set[str] = field(default_factory=set)
    """Ids of found names, stored as trusted, that a text mentions which is not, and perhaps was until now; and of stubs
    with an edge that was trusted until now."""
    stale: list[Relationship] = field(default_factory=list)
    """Stored mentions that were found in earlier versions of the records, and are no longer in them."""
    successors: dict[str, str] = field(default_factory=dict)
    """Given entities that replace found names of the same name, by the ids of these found names."""
    without_old_names: list[Vertex] = field(default_factory=list)
    """Stored vertices of records without the names that only the stored versions of these records gave."""
    supersession: Supersession = field(default_factory=Supersession)
    to_widen: set[str] = field(default_factory=set)
    """Ids of ``records`` that are stored with a later beginning or an earlier end of validity than they have now, as
    what they superseded, or what superseded them, was deleted."""
    void_links: list[Relationship] = field(default_factory=list)
    """Stored ``SUPERSEDES`` edges to delete: untrusted ones whose target is now trusted."""
    errors: list[ItemError] = field(default_factory=list)


def vertex_of(record: Record, *, stored: Vertex | None = None) -> Vertex:
    """Return the vertex of a record; a name and aliases that only the stored vertex has are kept.

    A trusted record keeps none of an untrusted stored vertex.
    """
    if stored and record.trusted and not stored.trusted:
        stored = None
    return Vertex(
        id=record.id,
        tenant_id=record.tenant_id,
        entity_type=record.entity_type or (DEFAULT_ENTITY_TYPE if record.kind is Kind.ENTITY else DOCUMENT_TYPE),
        name=record.name or record.source.title or (stored.name if stored else None),
        aliases=record.aliases or (stored.aliases if stored else ()),
        has_record=True,
        timestamp=record.timestamp,
        valid_at=record.valid_at,
        invalid_at=record.invalid_at,
        trusted=record.trusted,
    )


def check(request: WriteRequest, store: WriteStore) -> Accepted:
    """Return the valid items of a request and the errors of the rest; nothing is written here.

    Raises InvalidRequest if an item belongs to another tenant.
    """
    refuse_other_tenants(request)
    accepted = Accepted()
    given = Given(request, accepted.errors)
    given.records = given.by_id("records", request.records)
    given.vertices = given.by_id("vertices", request.vertices)
    # Of edges with one identity the last trusted one counts, or the last if none is trusted.
    edges = sorted(_as_trusted_as_evidence(request, given.records, store), key=lambda edge: edge.trusted)
    given.edges = {edge.identity(): edge for edge in edges}
    given.edge_places = {
        edge.identity(): request.place("relationships", at) for at, edge in enumerate(request.relationships)
    }
    if not request.supersede_only:  # else an earlier request wrote these records
        refuse_wrong(given)
        refuse_long_replacements(given, store)
        refuse_vectors(given, store)
    refuse_newer(given, store)
    named = sorted({*given.records, *given.vertices, *request.entities})
    given.in_graph = {vertex.id: vertex for vertex in store.graph.get_many(request.tenant_id, named)}
    given.without_old_names = _without_old_names(given, store)
    if not request.supersede_only:
        refuse_new_types(given, store)
    if request.partial and request.missing is MissingEnds.REFUSE:
        refuse_superseding_nothing(given, store)
    if request.supersede_only:
        refuse_unwritten(given, store)
    _find_supersession(given, store, accepted)
    if request.supersede_only:
        given.records = {}
    _leave_out_strangers_names(given, store)  # when no check refuses a record any more
    if store.graph_source is GraphSource.GIVEN:
        accepted.stale = stale_mentions(request.tenant_id, given.in_graph, given.records, (), store)
    else:
        _find_names(given, store, accepted)
    _resolve_endpoints(given, store, accepted)
    return accepted


def _without_old_names(given: Given, store: WriteStore) -> dict[str, Vertex]:
    """Return stored vertices as :attr:`Given.without_old_names` has them."""
    named = {
        record.id: stored
        for record in given.records.values()
        if (stored := given.in_graph.get(record.id)) is not None
        if (stored.name and not record.heading()) or (stored.aliases and not record.aliases)
    }
    before = stored_records(store, given.request.tenant_id, named) if named else {}
    changed: dict[str, Vertex] = {}
    for record in before.values():
        stored = named[record.id]
        name = None if stored.name == record.heading() else stored.name
        aliases = () if stored.aliases == record.aliases else stored.aliases
        changed[record.id] = stored.altered(name=name, aliases=aliases)
    return changed


def _leave_out_strangers_names(given: Given, store: WriteStore) -> None:
    """Leave out vertices that are not trusted where their records are: these keep the names that they have."""
    doubtful = [vertex.id for vertex in given.vertices.values() if not vertex.trusted]
    stored = sorted(set(doubtful) - set(given.records))
    written = store.index.written(given.request.tenant_id, stored) if stored else {}
    for name in doubtful:
        record = given.records.get(name) or written.get(name)
        if record is not None and record.trusted:
            del given.vertices[name]


def _find_names(given: Given, store: WriteStore, accepted: Accepted) -> None:
    """Add the names found in the records, and their mentions, to the given items.

    A given edge takes precedence, unless only the found one is trusted.
    """
    tenant_id = given.request.tenant_id
    entities = named_entities(given.vertices.values(), given.records, given.in_graph | given.without_old_names)
    entities += stored_entities(set(given.request.entities) - set(given.vertices), given.in_graph)
    named = NamedEntities(tenant_id, entities, {*given.vertices, *given.records, *given.request.entities}, store)
    accepted.successors = successors_of_names(tenant_id, named, store)
    found = find_names(given.records, named, given.in_graph, store)
    stated = {endpoint for edge in given.edges.values() for endpoint in (edge.source, edge.target)}
    accepted.stale = found.stale
    accepted.names = len(found.vertices.keys() - found.stored.keys())
    accepted.mentions = len(found.edges)
    accepted.doubtful |= {
        edge.source
        for edge in found.edges.values()
        if not edge.trusted and edge.source in found.stored and found.stored[edge.source].trusted
    }
    given.for_mentions = {*found.vertices, *(edge.target for edge in found.edges.values())} - stated
    given.for_mentions -= {*given.vertices, *(one.id for one in given.records.values() if one.kind is Kind.ENTITY)}
    given.vertices |= found.vertices
    given.in_graph |= found.stored
    trusted = {name for name, edge in found.edges.items() if edge.trusted}
    given.edges = found.edges | {
        name: edge for name, edge in given.edges.items() if edge.trusted or name not in trusted
    }


def _as_trusted_as_evidence(
    request: WriteRequest, records: Mapping[str, Record], store: WriteStore
) -> list[Relationship]:
    """Return the edges of a request; one whose evidence is not trusted is not trusted either."""
    named = {edge.evidence for edge in request.relationships if edge.evidence and edge.trusted}
    stored = named - set(records)
    written = store.index.written(request.tenant_id, sorted(stored)) if stored else {}
    trust = {name: one.trusted for name, one in written.items()}
    trust |= {name: record.trusted for name, record in records.items()}
    return [
        edge if trust.get(edge.evidence or "", True) else edge.altered(trusted=False) for edge in request.relationships
    ]


def _find_supersession(given: Given, store: WriteStore, accepted: Accepted) -> None:
    """Find the supersession of a request, refusing invalid items until the rest is consistent."""
    later = given.request.supersede_later
    refused_ids: set[str] = set()
    while True:
        records = given.records
        if later:  # stored supersession of these records counts nevertheless
            records = {
                name: record.altered(supersedes=()) if record.supersedes else record for name, record in records.items()
            }
        found = find_supersession(
            records,
            given.edges,
            given.in_graph,
            store,
            given.request.tenant_id,
            refused=refused_ids,
            may_be_deleted=not given.request.supersede_only,
        )
        for refused in found.refused:
            if isinstance(refused, RefusedRecord):
                given.refuse("records", refused.id, "supersedes", refused.message)
                refused_ids.add(refused.id)
            else:
                place, name = given.edge_places[refused.identity], refused.identity[0]
                given.edges.pop(refused.identity, None)
                given.errors.append(ItemError(place=place, id=name, field="supersedes", message=refused.message))
        if not (found.refused and given.request.partial):  # if nothing is written, the first errors suffice
            break
    accepted.supersession, accepted.void_links = found.supersession, found.void_links
    given.edges |= {edge.identity(): edge for edge in found.dated_links}


def _without_types_over_limit(records: Sequence[Record], given: Given, store: WriteStore) -> list[Record]:
    """Return stored records that need a vertex because an edge names them.

    A new entity type is dropped if the tenant has the maximum number of types.
    """
    wanted = GraphTypes(entities=frozenset(one.entity_type for one in records if one.entity_type))
    if not wanted.entities:
        return list(records)
    known = store.graph.types(given.request.tenant_id, wanted).entities | OWN_ENTITY_TYPES
    named: list[Record | Vertex] = [*given.records.values(), *given.vertices.values()]
    kinds = Types(known | {one.entity_type for one in named if one.entity_type})
    return [
        one if one.entity_type is None or kinds.admit(one.entity_type) else one.altered(entity_type=None)
        for one in records
    ]


def _resolve_endpoints(given: Given, store: WriteStore, accepted: Accepted) -> None:
    """Make the records' vertices, resolve endpoints of edges, and accept the items that differ from the stored ones."""
    endpoints = {endpoint for edge in given.edges.values() for endpoint in (edge.source, edge.target)}
    outside = sorted(endpoints - set(given.records) - set(given.vertices))
    in_graph = {vertex.id: vertex for vertex in store.graph.get_many(given.request.tenant_id, outside)} | given.in_graph
    wanted = _wanted_vertices(given, store, endpoints, in_graph)
    accepted.edges = _wanted_edges(given, store, accepted, wanted, in_graph)
    meant = [accepted.supersession.with_validity(vertex) for vertex in wanted.values()]
    accepted.vertices = [
        vertex
        for vertex in meant
        if given.request.rewrite or (stored := in_graph.get(vertex.id)) is None or vertex != stored
    ]
    accepted.to_widen = {
        vertex.id
        for vertex in accepted.vertices
        if vertex.id in given.records and (stored := in_graph.get(vertex.id)) is not None
        if ended(begun(vertex, stored.valid_at), stored.invalid_at) != vertex
    }
    renamed = [one for one in accepted.vertices if given.request.rewrite or not _same_names(one, in_graph.get(one.id))]
    accepted.name_keys = store.graph.name_keys(renamed)
    accepted.given_vertices = sum(vertex.id not in given.for_mentions for vertex in accepted.vertices)
    accepted.records = list(given.records.values())
    accepted.without_old_names = [
        vertex
        for name, vertex in given.without_old_names.items()
        if name in given.records and name not in given.vertices and not _same_names(vertex, in_graph[name])
    ]


def _same_names(vertex: Vertex, stored: Vertex | None) -> bool:
    return stored is not None and (vertex.name, vertex.aliases) == (stored.name, stored.aliases)


def _wanted_vertices(
    given: Given, store: WriteStore, endpoints: set[str], in_graph: Mapping[str, Vertex]
) -> dict[str, Vertex]:
    """Return the vertices to store: given ones, and vertices of records that have an edge."""
    tenant_id, records, vertices = given.request.tenant_id, given.records, given.vertices
    # A vertex may have a record that this request does not write, and a record may have no vertex yet.
    unsure = [
        endpoint for endpoint in sorted(endpoints - set(records) - set(vertices)) if not _has_record(in_graph, endpoint)
    ]
    unsure += [name for name, vertex in vertices.items() if name not in records and not vertex.found]
    indexed = set(store.index.written(tenant_id, unsure)) if unsure else set()
    # Also for an episode that was written after an edge named it: its vertex is still a stub.
    unjoined = sorted(name for name in indexed if name not in vertices or not _has_record(in_graph, name))
    stored = stored_records(store, tenant_id, unjoined) if unjoined else {}
    found = _without_types_over_limit(list(stored.values()), given, store) if unjoined else []
    known: dict[str, Record | Vertex] = {name: in_graph[name] for name in indexed.intersection(in_graph)}
    known |= {record.id: record for record in (*found, *records.values())}
    wanted: dict[str, Vertex] = {}
    for name, vertex in vertices.items():
        wanted[name] = vertex
        has_record, one = name in records or name in indexed, known.get(name)
        if one is not None:  # a vertex is trusted and valid as its record is
            valid = {"valid_at": one.valid_at, "invalid_at": one.invalid_at}
            wanted[name] = vertex.altered(has_record=has_record, trusted=one.trusted, **valid)
        elif has_record != vertex.has_record:
            wanted[name] = vertex.altered(has_record=has_record)
    for record in (*records.values(), *found):
        if record.id not in wanted and (record.kind is Kind.ENTITY or record.id in endpoints or record.id in in_graph):
            wanted[record.id] = vertex_of(
                record, stored=given.without_old_names.get(record.id) or in_graph.get(record.id)
            )
    return wanted


def _wanted_edges(
    given: Given, store: WriteStore, accepted: Accepted, wanted: dict[str, Vertex], in_graph: Mapping[str, Vertex]
) -> list[Relationship]:
    """Return the edges to write; edges with a missing endpoint are refused, or get a vertex without a name there."""
    request, stored = given.request, _edges_as_stored(given, store, in_graph)
    types = GraphTypes(relationships=frozenset(edge.type for edge in stored.values()))
    counted = store.graph.types(request.tenant_id, types).relationships if stored else frozenset()
    edges: list[Relationship] = []
    doubtful = _doubtful_replacements(given, stored, store)
    for identity, edge in given.edges.items():
        if request.supersede_only and edge.supersedes and identity in stored:
            continue  # not written again: a later item may have changed the same edge since
        if identity in doubtful:
            accepted.errors.append(replacing_too_soon(edge, given.edge_places.get(identity, edge.source)))
            continue
        sides = (("source", edge.source), ("target", edge.target))
        missing = [(side, endpoint) for side, endpoint in sides if endpoint not in wanted and endpoint not in in_graph]
        if missing:
            reserved = any(endpoint.startswith(FOUND_PREFIX) for _, endpoint in missing)
            if reserved or request.missing is MissingEnds.REFUSE:
                accepted.errors += dangling(edge, given.edge_places.get(identity, edge.source), missing)
                continue
            accepted.stubs.update(endpoint for _, endpoint in missing)
            wanted.update(
                (endpoint, Vertex(id=endpoint, tenant_id=request.tenant_id, trusted=False)) for _, endpoint in missing
            )
        if edge.trusted:
            wanted.update(_trusted_stubs((edge.source, edge.target), wanted, in_graph))
        if not edge.found:
            accepted.stated.add(identity)
        before = stored.get(identity)
        meant = _edge_meant(edge, before, request, accepted.supersession)
        if before is not None and before.trusted and not meant.trusted:
            ends = (in_graph[end] for end in (edge.source, edge.target) if end not in wanted)
            accepted.doubtful.update(vertex.id for vertex in ends if vertex.is_stub)
        # An interrupted write may have stored an edge without counting its type, which questions would not look for.
        if request.rewrite or before is None or meant != before or meant.type not in counted:
            edges.append(meant)
    return edges


def _doubtful_replacements(given: Given, stored: Mapping[EdgeId, Relationship], store: WriteStore) -> set[EdgeId]:
    """Return the edges that would replace a trusted one while their evidence, which may not be trusted, is not written.

    An edge whose own evidence is not written either may be replaced.
    """
    pairs = [(edge, stored[identity]) for identity, edge in given.edges.items() if identity in stored]
    replaced = [
        (edge, before)
        for edge, before in pairs
        if edge.trusted and before.trusted and stored_edge_stays(before, edge.altered(trusted=False))
    ]
    named = [edge for pair in replaced for edge in pair]
    unwritten = unwritten_evidence(named, given.records, store, given.request.tenant_id)
    return {
        edge.identity() for edge, before in replaced if edge.evidence in unwritten and before.evidence not in unwritten
    }


def _trusted_stubs(
    endpoints: tuple[str, str], wanted: Mapping[str, Vertex], in_graph: Mapping[str, Vertex]
) -> Iterator[tuple[str, Vertex]]:
    """Yield the endpoints that only untrusted edges named before, as trusted, by id."""
    for endpoint in endpoints:
        vertex = wanted.get(endpoint) or in_graph[endpoint]
        if vertex.is_stub and not vertex.trusted:
            yield endpoint, vertex.altered(trusted=True)


def _edge_meant(
    edge: Relationship,
    before: Relationship | None,
    request: WriteRequest,
    supersession: Supersession,
) -> Relationship:
    """Return the edge to store, given its stored version."""
    meant = supersession.edge_with_end(edge_to_store(edge))
    is_ended = edge.identity() in supersession.edge_ends or edge.identity() in request.ended_apart
    if before is not None and is_ended and (before.trusted or not meant.trusted):
        # If the superseding edge has no date, each repetition would move the end of validity: the stored one stays.
        meant = ended(meant, before.invalid_at)
    return supersession.edge_with_end(before) if stored_edge_stays(before, meant) else meant


def _edges_as_stored(given: Given, store: WriteStore, in_graph: Mapping[str, Vertex]) -> dict[EdgeId, Relationship]:
    """Return the stored versions of a request's edges, as trusted as their evidence will be when it is written.

    An edge is stored only if both its endpoints are.
    """
    possible = [edge for edge in given.edges.values() if edge.source in in_graph and edge.target in in_graph]
    stored = store.graph.as_stored(given.request.tenant_id, possible) if possible else []
    return {edge.identity(): edge for edge in as_trusted_as_written(stored, given.records)}


def _has_record(in_graph: Mapping[str, Vertex], name: str) -> bool:
    return name in in_graph and in_graph[name].has_record
