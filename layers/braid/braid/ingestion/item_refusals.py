"""Checks of the items of a write request, before anything is written.

Each check removes the items that it refuses, and adds an error with the item, the field, and what to do instead. They
are called by ``check`` of :mod:`braid.ingestion.request_checks`; fields that no caller may set are refused by
:mod:`braid.ingestion.item_parsing`.
"""

from __future__ import annotations

import sys
from array import array
from dataclasses import dataclass, field
from math import hypot, isfinite
from typing import TYPE_CHECKING, Final, TypeVar

from braid.errors import InvalidRequest
from braid.models import MENTIONS, SUPERSEDES, Kind, Record, Relationship, Vertex
from braid.models.records import (
    DEFAULT_ENTITY_TYPE,
    DOCUMENT_TYPE,
    FOUND_PREFIX,
    MAX_TENANT_TYPES,
    Refusal,
    no_text,
    too_much,
)
from braid.ports.ingestion import ItemError
from braid.ports.knowledge_graph import GraphTypes
from braid.understanding.name_patterns import FOUND_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from braid.models import EdgeId, Embedding
    from braid.models.embedding_models import ModelConfig
    from braid.ports.ingestion import WriteRequest, WriteStore

OWN_ENTITY_TYPES: Final = frozenset({DOCUMENT_TYPE, DEFAULT_ENTITY_TYPE, *FOUND_TYPES})
"""Entity types that are admitted even if the tenant has the most types that it may."""
OWN_RELATIONSHIP_TYPES: Final = frozenset({SUPERSEDES, MENTIONS})
_NOT_ALLOWED: Final = (
    "vectors are made here from the text; leave them out, or set BRAID_ALLOW_SUPPLIED_VECTORS where records are written"
)
MAX_SHORTENED: Final = 4_000_000
"""Most characters of replaced texts in one write, beyond as many as it writes itself: SQLite tokenises the old texts to
remove their words, and so many hold up other writes for half a second."""
_NORM_TOLERANCE: Final = 0.01
"""Allowed deviation of a vector's norm from 1: ten times the error of rounding to 16 bits."""
_Named = TypeVar("_Named", Record, Vertex)


@dataclass
class Given:
    """The items of a request that no check has refused so far."""

    request: WriteRequest
    errors: list[ItemError]
    """Errors of the items that were refused."""
    records: dict[str, Record] = field(default_factory=dict)
    vertices: dict[str, Vertex] = field(default_factory=dict)
    edges: dict[EdgeId, Relationship] = field(default_factory=dict)
    places: dict[tuple[str, str], str] = field(default_factory=dict)
    """Source locations of records and vertices, by ``records`` or ``vertices`` and the id."""
    edge_places: dict[EdgeId, str] = field(default_factory=dict)
    in_graph: dict[str, Vertex] = field(default_factory=dict)
    """Stored vertices with the ids of these records and vertices."""
    without_old_names: dict[str, Vertex] = field(default_factory=dict)
    """Stored vertices of records that state fewer names than before, without the names that are no longer stated."""
    for_mentions: set[str] = field(default_factory=set)
    """Ids of found names, and of records that need a vertex only because names were found in them."""

    def by_id(self, what: str, items: Sequence[_Named]) -> dict[str, _Named]:
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
        """Return the records and then the vertices, each with ``records`` or ``vertices``."""
        return [
            *(("records", record) for record in self.records.values()),
            *(("vertices", vertex) for vertex in self.vertices.values()),
        ]


def refuse_other_tenants(request: WriteRequest) -> None:
    """Raise InvalidRequest if an item is not of the request's tenant."""
    tenants = {item.tenant_id for items in (request.records, request.vertices, request.relationships) for item in items}
    for other in sorted(tenants - {request.tenant_id}):
        raise InvalidRequest.of("tenant_id", f"an item is tenant {other!r}'s and the request {request.tenant_id!r}'s")


def what_is_wrong(item: Record | Vertex) -> Refusal | None:
    """Return the first field of a record or vertex that must not be written, and why; None if there is none."""
    # A request has found vertices only when an interrupted write is repaired.
    if item.id.startswith(FOUND_PREFIX) and not getattr(item, "found", False):
        message = f"begins with {FOUND_PREFIX!r}, as the ids of names do that are found in texts; use another"
        return Refusal("id", message)
    return too_much(item)


def refuse_wrong(given: Given) -> None:
    """Refuse records and vertices that are invalid in themselves."""
    for what, item in given.items():
        if found := what_is_wrong(item) or (no_text(item) if isinstance(item, Record) else None):
            given.refuse(what, item.id, found.field, found.message)


def refuse_long_replacements(given: Given, store: WriteStore) -> None:
    """Refuse records that replace very long stored texts, where the store's only writer has to tokenise these."""
    lengths = store.index.characters(given.request.tenant_id, list(given.records))
    room = MAX_SHORTENED + sum(len(record.content) for record in given.records.values())
    for record in list(given.records.values()):
        shorter_by = max(0, lengths.get(record.id, 0) - len(record.content))
        if shorter_by <= room:
            room -= shorter_by
        else:
            message = (
                f"takes the place of a text of {lengths[record.id]:,} characters, which is too much with what others of"
                " this write replace; write fewer of them at once, or delete them first"
            )
            given.refuse("records", record.id, "content", message)


def refuse_new_types(given: Given, store: WriteStore) -> None:
    """Refuse items of new types if the tenant's graph has the maximum number of types."""
    tenant_id, vertices, edges = given.request.tenant_id, given.vertices, given.edges
    joined = {endpoint for edge in edges.values() for endpoint in (edge.source, edge.target)}.union(given.in_graph)
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


def refuse_superseding_nothing(given: Given, store: WriteStore) -> None:
    """Refuse superseding edges with a missing endpoint, as an edge that is not written must not supersede anything."""
    tenant_id = given.request.tenant_id
    ending = {name: edge for name, edge in given.edges.items() if edge.supersedes or edge.type == SUPERSEDES}
    absent = {endpoint for edge in ending.values() for endpoint in (edge.source, edge.target)}
    absent -= {*given.records, *given.vertices}
    absent -= {vertex.id for vertex in store.graph.get_many(tenant_id, sorted(absent))} if absent else set()
    absent -= set(store.index.written(tenant_id, sorted(absent))) if absent else set()
    for identity, edge in ending.items():
        sides = (("source", edge.source), ("target", edge.target))
        if missing := [(side, endpoint) for side, endpoint in sides if endpoint in absent]:
            given.errors += dangling(edge, given.edge_places[identity], missing)
            del given.edges[identity]


def refuse_unwritten(given: Given, store: WriteStore) -> None:
    """Refuse records that an earlier request should have written but did not: they must not supersede anything."""
    names = sorted(given.records)
    present = store.index.written(given.request.tenant_id, names) if names else {}
    for name in [name for name in names if name not in present]:
        given.refuse("records", name, "id", f"there is no record {name!r}, which would supersede others")


def no_room(kind: str) -> str:
    """Return why a new type of entities or relationships is refused."""
    return f"is a new type, and the tenant's graph has {MAX_TENANT_TYPES} {kind} types already; use one of them"


class Types:
    """The types of one kind that a tenant has, and those that a write adds, up to the limit."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = set(known)

    def add(self, stored: Iterable[str]) -> None:
        """Count types that are stored."""
        self._known.update(stored)

    def admit(self, kind: str) -> bool:
        """Return whether the tenant may have a type, and count it if so."""
        if kind not in self._known and len(self._known) >= MAX_TENANT_TYPES:
            return False
        self._known.add(kind)
        return True


def refuse_newer(given: Given, store: WriteStore) -> None:
    """Refuse records of a schema version that is newer than the tenant's current one."""
    newest = max((record.schema_version for record in given.records.values()), default=1)
    if newest == 1 or newest <= (current := store.schemas.current(given.request.tenant_id)):
        return
    for record in [record for record in given.records.values() if record.schema_version > current]:
        message = f"{record.schema_version} is newer than the current version {current} of tenant {record.tenant_id!r}"
        given.refuse("records", record.id, "schema_version", message)


def refuse_vectors(given: Given, store: WriteStore) -> None:
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
    """Return the problem of the values of a text's vectors; None if all are finite and of norm 1."""
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


def dangling(edge: Relationship, place: str, missing: Iterable[tuple[str, str]]) -> list[ItemError]:
    """Return the errors of an edge with missing endpoints: ``missing`` has the side and the id of each."""
    return [
        ItemError(
            place=place,
            id=edge.source,
            field=side,
            message=f"{endpoint!r} is neither a vertex nor a record, in {edge.source!r} {edge.type} {edge.target!r}",
        )
        for side, endpoint in missing
    ]


def replacing_too_soon(edge: Relationship, place: str) -> ItemError:
    """Return the error of an edge that would replace a trusted one before its evidence is written."""
    message = (
        f"{edge.source!r} {edge.type} {edge.target!r} is stored as trusted and {edge.evidence!r}, the evidence of the"
        f" edge that would replace it, is not written; write {edge.evidence!r} before the edge"
    )
    return ItemError(place=place, id=edge.source, field="evidence", message=message)
