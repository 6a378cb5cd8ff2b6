"""Validates a write request before anything is written, and resolves the ends of its edges."""

from __future__ import annotations

import sys
from array import array
from dataclasses import dataclass, field
from math import hypot, isfinite
from typing import TYPE_CHECKING, Final, TypeGuard, TypeVar

from braid.errors import InvalidRequest
from braid.ingestion.found_names import PREFIX, find_names, heirs_of_names, is_chunk_of_document, stale_mentions
from braid.ingestion.supersession import SUPERSEDES, RefusedRecord, Supersession, ended, find
from braid.models import MENTIONS, GraphSource, Kind, Record, Relationship, Vertex
from braid.models.records import MAX_TYPES, TooMuch, too_much
from braid.ports.ingestion import ItemError, MissingEnds
from braid.ports.knowledge_graph import GraphTypes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from braid.ingestion.supersession import Identity
    from braid.models import Embedding
    from braid.models.model_profiles import ModelConfig
    from braid.ports.ingestion import WriteRequest, WriteStore

DOCUMENT = "Document"
"""Entity type of the vertex of a record without one."""
_NOT_ALLOWED: Final = (
    "vectors are made here from the text; leave them out, or set BRAID_ALLOW_SUPPLIED_VECTORS where records are written"
)
OWN_ENTITY_TYPES: Final = frozenset({DOCUMENT, "Concept", "Identifier", "CodeEntity", "Address"})
"""Types that a graph has room for in any case: of records, of what has none, and of names that are found."""
OWN_RELATIONSHIP_TYPES: Final = frozenset({SUPERSEDES, MENTIONS})
_NORM_TOLERANCE: Final = 0.01
"""Allowed deviation of a vector's norm from 1: ten times that of rounding to 16 bits."""
_Named = TypeVar("_Named", Record, Vertex)


@dataclass
class Accepted:
    """The valid part of a request, which is to be written, and the errors of the rest."""

    records: list[Record] = field(default_factory=list)
    vertices: list[Vertex] = field(default_factory=list)
    """New vertices, and those that differ from the stored ones."""
    given_vertices: int = 0
    """How many of them are there not only for names that were found."""
    edges: list[Relationship] = field(default_factory=list)
    """Those that are new or differ from the stored ones."""
    stated: set[Identity] = field(default_factory=set)
    """All valid edges, including those that are stored unchanged."""
    stubs: int = 0
    names: int = 0
    """Found names that are new."""
    mentions: int = 0
    """Found mentions, stored or not."""
    stale: list[Relationship] = field(default_factory=list)
    """Stored mentions that were found in earlier versions of the records, and hold no longer."""
    heirs: dict[str, str] = field(default_factory=dict)
    """Given entities that come in the place of found names, by the ids of these names."""
    supersession: Supersession = field(default_factory=Supersession)
    errors: list[ItemError] = field(default_factory=list)


@dataclass
class Given:
    """The items of a request that no check has refused so far."""

    request: WriteRequest
    errors: list[ItemError]
    """Those of the items that were refused."""
    records: dict[str, Record] = field(default_factory=dict)
    vertices: dict[str, Vertex] = field(default_factory=dict)
    edges: dict[Identity, Relationship] = field(default_factory=dict)
    places: dict[tuple[str, str], str] = field(default_factory=dict)
    """Of records and vertices, by ``records`` or ``vertices`` and the id."""
    edge_places: dict[Identity, str] = field(default_factory=dict)
    in_graph: dict[str, Vertex] = field(default_factory=dict)
    """Stored vertices with the ids of these records and vertices."""
    for_mentions: set[str] = field(default_factory=set)
    """Ids of found names, and of records that need a vertex only because names were found in them."""

    def once(self, what: str, items: Sequence[_Named]) -> dict[str, _Named]:
        """Return items by id, with their places kept, refusing duplicates."""
        kept: dict[str, _Named] = {}
        for position, item in enumerate(items):
            place = self.request.place(what, position)
            first = self.places.setdefault((what, item.id), place)
            if item.id in kept:
                message = f"{item.id!r} stands already at {first}"
                self.errors.append(ItemError(place=place, id=item.id, field="id", message=message))
            else:
                kept[item.id] = item
        return kept

    def refuse(self, what: str, identity: str, field: str, message: str) -> None:
        """Leave a record or vertex out."""
        self.errors.append(ItemError(place=self.places[what, identity], id=identity, field=field, message=message))
        (self.records if what == "records" else self.vertices).pop(identity, None)

    def items(self) -> list[tuple[str, Record | Vertex]]:
        """Return the records and then the vertices, each with what it is."""
        return [
            *(("records", record) for record in self.records.values()),
            *(("vertices", vertex) for vertex in self.vertices.values()),
        ]


def vertex_of(record: Record, *, stored: Vertex | None = None) -> Vertex:
    """Return the vertex of a record; a name and aliases that only the stored vertex has are kept."""
    return Vertex(
        id=record.id,
        tenant_id=record.tenant_id,
        entity_type=record.entity_type or DOCUMENT,
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
    _own(request)
    accepted = Accepted()
    given = Given(request, accepted.errors)
    given.records = given.once("records", request.records)
    given.vertices = given.once("vertices", request.vertices)
    # Of equal edges the last counts, and one that is trusted more than any that is not.
    edges = sorted(_as_trusted_as_evidence(request, given.records, store), key=lambda edge: edge.trusted)
    given.edges = {edge.identity(): edge for edge in edges}
    given.edge_places = {
        edge.identity(): request.place("relationships", at) for at, edge in enumerate(request.relationships)
    }
    if not request.supersede_only:  # else an earlier request wrote these records
        _refuse_wrong(given)
        _refuse_vectors(given, store)
    _refuse_newer(given, store)
    named = sorted({*given.records, *given.vertices})
    given.in_graph = {vertex.id: vertex for vertex in store.graph.get_many(request.tenant_id, named)}
    if not request.supersede_only:
        _refuse_new_types(given, store)
    if request.partial and request.missing is MissingEnds.REFUSE:
        _refuse_astray(given, store)
    if request.supersede_only:
        _refuse_unwritten(given, store)
    _find_supersession(given, store, accepted)
    if request.supersede_only:
        given.records = {}
    if _are_names_found(given, store.graph_source):
        _find_names(given, store, accepted)
    else:
        accepted.stale = stale_mentions(request.tenant_id, given.in_graph, given.records, (), store)
    _join(given, store, accepted)
    return accepted


def _are_names_found(given: Given, graph_source: GraphSource) -> bool:
    if graph_source is GraphSource.AUTO:
        return given.request.texts_only or any(map(is_chunk_of_document, given.records.values()))
    return graph_source is not GraphSource.GIVEN


def _find_names(given: Given, store: WriteStore, accepted: Accepted) -> None:
    """Add the names found in the records and their mentions to what is given; what is given wins."""
    entities = [vertex for vertex in given.vertices.values() if _is_trusted(vertex, given)]
    accepted.heirs = heirs_of_names(given.request.tenant_id, entities, store)
    found = find_names(given.records, entities, given.in_graph, store)
    stated = {end for edge in given.edges.values() for end in (edge.source, edge.target)}
    accepted.stale = found.stale
    accepted.names = len(found.vertices.keys() - found.stored.keys())
    accepted.mentions = len(found.edges)
    given.for_mentions = {*found.vertices, *(edge.target for edge in found.edges.values())} - stated
    given.for_mentions -= {*given.vertices, *(one.id for one in given.records.values() if one.kind is Kind.ENTITY)}
    given.vertices |= found.vertices
    given.in_graph |= found.stored
    given.edges = found.edges | given.edges


def _is_trusted(vertex: Vertex, given: Given) -> bool:
    """Return whether a given vertex will be trusted: its record decides, in the request or stored, if it has one."""
    stored = given.in_graph.get(vertex.id)
    decides = given.records.get(vertex.id) or (stored if stored is not None and stored.has_record else vertex)
    return decides.trusted


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
        edge if trust.get(edge.evidence or "", True) else edge.model_copy(update={"trusted": False})
        for edge in request.relationships
    ]


def _refuse_astray(given: Given, store: WriteStore) -> None:
    """Refuse superseding edges with a missing end, so that an edge that is not written ends nothing."""
    tenant_id = given.request.tenant_id
    ending = {name: edge for name, edge in given.edges.items() if edge.supersedes or edge.type == SUPERSEDES}
    absent = {end for edge in ending.values() for end in (edge.source, edge.target)}
    absent -= {*given.records, *given.vertices}
    absent -= {vertex.id for vertex in store.graph.get_many(tenant_id, sorted(absent))} if absent else set()
    absent -= set(store.index.written(tenant_id, sorted(absent))) if absent else set()
    for identity, edge in ending.items():
        sides = (("source", edge.source), ("target", edge.target))
        if missing := [(side, end) for side, end in sides if end in absent]:
            given.errors += _dangling(edge, given.edge_places[identity], missing)
            del given.edges[identity]


def _refuse_unwritten(given: Given, store: WriteStore) -> None:
    """Refuse records that an earlier request should have written and did not: they supersede nothing."""
    names = sorted(given.records)
    present = store.index.written(given.request.tenant_id, names) if names else {}
    for name in [name for name in names if name not in present]:
        given.refuse("records", name, "id", f"there is no record {name!r}, which would supersede others")


def _find_supersession(given: Given, store: WriteStore, accepted: Accepted) -> None:
    """Find what the request supersedes, refusing wrong items until the rest is consistent."""
    later = given.request.supersede_later
    refused_ids: set[str] = set()
    while True:
        records = given.records
        if later:  # what supersedes them counts nevertheless
            records = {name: record.model_copy(update={"supersedes": ()}) for name, record in records.items()}
        found = find(records, given.edges, given.in_graph, store, given.request.tenant_id, refused=refused_ids)
        for refused in found.refused:
            if isinstance(refused, RefusedRecord):
                given.refuse("records", refused.id, "supersedes", refused.message)
                refused_ids.add(refused.id)
            else:
                place, name = given.edge_places[refused.identity], refused.identity[0]
                given.edges.pop(refused.identity, None)
                given.errors.append(ItemError(place=place, id=name, field="supersedes", message=refused.message))
        if not found.refused:
            break
    accepted.supersession = found.supersession
    given.edges |= {edge.identity(): edge for edge in found.made}


def _own(request: WriteRequest) -> None:
    tenants = {item.tenant_id for items in (request.records, request.vertices, request.relationships) for item in items}
    for other in sorted(tenants - {request.tenant_id}):
        raise InvalidRequest(
            f"tenant_id: an item is tenant {other!r}'s and the request {request.tenant_id!r}'s", field="tenant_id"
        )


def what_is_wrong(item: Record | Vertex) -> TooMuch | None:
    """Return the first field of a record or vertex that must not be written, and why; None if there is none."""
    # A vertex that was found is that of an interrupted write that is repaired.
    if item.id.startswith(PREFIX) and not getattr(item, "found", False):
        return TooMuch("id", f"begins with {PREFIX!r}, as the ids of names do that are found in texts; use another")
    return too_much(item)


def _refuse_wrong(given: Given) -> None:
    """Refuse records and vertices that are wrong whatever else is given or stored."""
    for what, item in given.items():
        if found := what_is_wrong(item):
            given.refuse(what, item.id, found.field, found.message)


def _refuse_new_types(given: Given, store: WriteStore) -> None:
    """Refuse items of types that a tenant's graph has no room for: it has a bounded number of them."""
    tenant_id, vertices, edges = given.request.tenant_id, given.vertices, given.edges
    joined = {end for edge in edges.values() for end in (edge.source, edge.target)}.union(given.in_graph)
    records = {one.id: one for one in given.records.values() if one.kind is Kind.ENTITY or one.id in joined}
    named: list[Record | Vertex] = [*vertices.values(), *records.values()]
    entities = {one.entity_type for one in named if one.entity_type}
    wanted = GraphTypes(frozenset(entities), frozenset(edge.type for edge in edges.values()))
    known = store.graph.types(tenant_id, wanted) if any(wanted) else wanted
    if wanted.are_among(known):
        return
    kinds = Types(known.entities | OWN_ENTITY_TYPES)
    for what, name, items in (("vertices", "type", vertices), ("records", "entity_type", records)):
        for one in [one for one in items.values() if one.entity_type and not kinds.admit(one.entity_type)]:
            given.refuse(what, one.id, name, no_room("entity"))
            for both in (vertices, records, given.records):
                both.pop(one.id, None)
    kinds = Types(known.relationships | OWN_RELATIONSHIP_TYPES)
    for identity, edge in [each for each in edges.items() if not kinds.admit(each[1].type)]:
        message = no_room("relationship") + ", and say the difference in `predicate`"
        given.errors.append(ItemError(place=given.edge_places[identity], id=edge.source, field="type", message=message))
        del edges[identity]


def _with_room(records: Sequence[Record], given: Given, store: WriteStore) -> list[Record]:
    """Return stored records that get their vertices now: without their types, where the graph has no room for these."""
    wanted = GraphTypes(entities=frozenset(one.entity_type for one in records if one.entity_type))
    if not wanted.entities:
        return list(records)
    known = store.graph.types(given.request.tenant_id, wanted).entities | OWN_ENTITY_TYPES
    named: list[Record | Vertex] = [*given.records.values(), *given.vertices.values()]
    kinds = Types(known | {one.entity_type for one in named if one.entity_type})
    return [
        one if one.entity_type is None or kinds.admit(one.entity_type) else one.model_copy(update={"entity_type": None})
        for one in records
    ]


def no_room(kind: str) -> str:
    """Return why a new type of entities or relationships is refused."""
    return f"is a new type, and the tenant's graph has {MAX_TYPES} {kind} types already; use one of them"


class Types:
    """The types of one kind that a tenant has, and those that a write adds while there is room."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = set(known)

    def add(self, stored: Iterable[str]) -> None:
        """Count types that are stored."""
        self._known.update(stored)

    def admit(self, kind: str) -> bool:
        """Return whether the tenant may have a type, which it has then."""
        if kind not in self._known and len(self._known) >= MAX_TYPES:
            return False
        self._known.add(kind)
        return True


def _refuse_newer(given: Given, store: WriteStore) -> None:
    newest = max((record.schema_version for record in given.records.values()), default=1)
    if newest == 1 or newest <= (current := store.schemas.current(given.request.tenant_id)):
        return
    for record in [record for record in given.records.values() if record.schema_version > current]:
        message = f"{record.schema_version} is newer than the current version {current} of tenant {record.tenant_id!r}"
        given.refuse("records", record.id, "schema_version", message)


def _refuse_vectors(given: Given, store: WriteStore) -> None:
    """Refuse records with supplied vectors that are not allowed, or that do not fit the model that they name."""
    for record in [record for record in given.records.values() if record.embeddings]:
        problems = (_supplied_vector_problem(one, store.spaces) for one in record.embeddings)
        message = next(filter(None, problems), None) if store.allow_supplied_vectors else _NOT_ALLOWED
        if message:
            given.refuse("records", record.id, "embeddings", message)


def _supplied_vector_problem(embedding: Embedding, spaces: Mapping[str, ModelConfig]) -> str | None:
    """Return why a supplied vector is refused; None if it is valid."""
    space, model = embedding.space, spaces.get(embedding.space)
    if model is None:
        return f"there is no embedding space {space!r}; the configured models have {', '.join(sorted(spaces))}"
    if embedding.model_id != model.id:
        return f"space {space} is that of the model {model.id}, not of {embedding.model_id!r}"
    if embedding.dimension != model.dimension:
        return f"space {space} holds vectors of {model.dimension} values, this has {embedding.dimension}"
    if embedding.further:
        return f"space {space} has vectors of further parts; supply one vector, of the whole text"
    return vector_problem(embedding)


def vector_problem(embedding: Embedding) -> str | None:
    """Return what is wrong with the vectors of a text themselves; None if they are of length 1."""
    where = f"the vector of space {embedding.space}"
    for vector in (embedding.vector, *(part.vector for part in embedding.further)):
        values = array("f", vector)
        if sys.byteorder == "big":  # pragma: no cover - vectors are little-endian everywhere
            values.byteswap()
        length = hypot(*values)
        if not isfinite(length):
            return f"{where} has a value that is not finite"
        if abs(length - 1.0) > _NORM_TOLERANCE:
            return f"{where} has the length {length:.4g}; divide it by that, so that it has length 1"
    return None


def _join(given: Given, store: WriteStore, accepted: Accepted) -> None:
    """Resolve the ends of edges, and give records their vertices."""
    tenant_id, records, vertices = given.request.tenant_id, given.records, given.vertices
    ends = {end for edge in given.edges.values() for end in (edge.source, edge.target)}
    outside = sorted(ends - set(records) - set(vertices))
    in_graph = {vertex.id: vertex for vertex in store.graph.get_many(tenant_id, outside)} | given.in_graph
    unsure = [name for name in outside if not _has_record(in_graph, name)]
    unsure += [name for name, vertex in vertices.items() if name not in records and not vertex.found]
    indexed = set(store.index.written(tenant_id, unsure)) if unsure else set()
    unjoined = sorted(indexed - set(in_graph))
    found = _with_room(store.index.get_many(tenant_id, unjoined), given, store) if unjoined else []
    trust = {name: in_graph[name].trusted for name in indexed.intersection(in_graph)}
    trust |= {record.id: record.trusted for record in (*found, *records.values())}
    wanted: dict[str, Vertex] = {}
    for name, vertex in vertices.items():
        has_record = name in records or name in indexed
        trusted = trust.get(name, vertex.trusted)
        wanted[name] = vertex.model_copy(update={"has_record": has_record, "trusted": trusted})
    for record in (*records.values(), *found):
        if record.id not in wanted and (record.kind is Kind.ENTITY or record.id in ends or record.id in in_graph):
            wanted[record.id] = vertex_of(record, stored=in_graph.get(record.id))
    stored = _edges_as_stored(given, store, in_graph)
    rewrite = given.request.rewrite
    for identity, edge in given.edges.items():
        if given.request.supersede_only and edge.supersedes and identity in stored:
            continue  # not written again: the same edge may since have been stated otherwise
        sides = (("source", edge.source), ("target", edge.target))
        missing = [(side, end) for side, end in sides if end not in wanted and end not in in_graph]
        reserved = any(end.startswith(PREFIX) for _, end in missing)
        if missing and (reserved or given.request.missing is MissingEnds.REFUSE):
            accepted.errors += _dangling(edge, given.edge_places.get(identity, edge.source), missing)
            continue
        accepted.stubs += len({end for _, end in missing})
        wanted.update((end, Vertex(id=end, tenant_id=tenant_id)) for _, end in missing)
        before = stored.get(identity)
        meant = accepted.supersession.edge(edge.model_copy(update={"supersedes": ()}))
        if before is not None and (identity in accepted.supersession.edges or identity in given.request.ended_apart):
            # Whatever ends the edge may have no date and would then end it now; the stored end is the first one.
            meant = ended(meant, before.invalid_at)
        accepted.stated.add(identity)
        if _kept(before, meant):
            meant = accepted.supersession.edge(before)
        if rewrite or meant != before:
            accepted.edges.append(meant)
    accepted.stated = {identity for identity in accepted.stated if not given.edges[identity].found}
    vertices_meant = [accepted.supersession.vertex(vertex) for vertex in wanted.values()]
    accepted.vertices = [vertex for vertex in vertices_meant if rewrite or vertex != in_graph.get(vertex.id)]
    accepted.given_vertices = sum(vertex.id not in given.for_mentions for vertex in accepted.vertices)
    accepted.records = list(records.values())


def _edges_as_stored(given: Given, store: WriteStore, in_graph: Mapping[str, Vertex]) -> dict[Identity, Relationship]:
    """Return the stored versions of a request's edges, as trusted as their evidence will be when it is written.

    An edge is stored only if both its ends are.
    """
    possible = [edge for edge in given.edges.values() if edge.source in in_graph and edge.target in in_graph]
    stored = store.graph.as_stored(given.request.tenant_id, possible) if possible else []
    untrusted = {record.id for record in given.records.values() if not record.trusted}
    return {
        edge.identity(): edge.model_copy(update={"trusted": False}) if edge.evidence in untrusted else edge
        for edge in stored
    }


def _kept(before: Relationship | None, meant: Relationship) -> TypeGuard[Relationship]:
    """Whether a stored edge stays: neither what is found nor a stranger's word replaces what is given and trusted."""
    if before is not None and meant.found and not before.found:
        return True
    if before is None or meant.trusted or not before.trusted or before.invalid_at is not None:
        return False
    return meant.evidence is not None and meant.evidence != before.evidence


def _has_record(in_graph: Mapping[str, Vertex], name: str) -> bool:
    return name in in_graph and in_graph[name].has_record


def _dangling(edge: Relationship, place: str, missing: Iterable[tuple[str, str]]) -> list[ItemError]:
    return [
        ItemError(
            place=place,
            id=edge.source,
            field=side,
            message=f"{end!r} is neither a vertex nor a record, in {edge.source!r} {edge.type} {edge.target!r}",
        )
        for side, end in missing
    ]
