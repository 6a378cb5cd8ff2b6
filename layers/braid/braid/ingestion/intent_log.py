"""Intent log of writes to stores that cannot commit together.

Before such a write its edges, its vertices and the hashes of its records are logged in the object store; after it the
entry is deleted. An entry that remains is that of an interrupted write: ``braid repair`` writes the edges that did not
reach the graph, for the records that did reach the index. A delete first removes what it deletes from the entries, so
that no repair restores it.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from braid.errors import InvalidRequest, ObjectMissing, StoreError, StoreTooSlow, TransientStoreError
from braid.ingestion.bulk.manifest import retry_if_replaced
from braid.models import Frozen, RecordId, Relationship, TenantId, Vertex

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from braid.ports.ingestion import WriteRequest
    from braid.ports.object_store import ObjectStore

_FOLDER = "ingest/.unfinished/"  # the functions that write may write there, and no import is named so


class UnfinishedWrite(Frozen):
    """A log entry: what a write is about to write to the graph."""

    tenant_id: TenantId
    records: dict[RecordId, str]
    """Content hashes of all records of the write, by id."""
    vertices: tuple[Vertex, ...]
    relationships: tuple[Relationship, ...]


class _Line(Frozen):
    """A line of an entry: one item, so that no line grows with the number of the write's items."""

    record: tuple[RecordId, str] | None = None
    vertex: Vertex | None = None
    relationship: Relationship | None = None


class UnreadableEntry(NamedTuple):
    """An object that is not an entry, or that the store does not return."""

    why: str


@contextmanager
def logged(write: UnfinishedWrite, request: WriteRequest, objects: ObjectStore | None) -> Iterator[None]:
    """Log a write while it runs; the entry of an interrupted one stays until it is repeated or repaired."""
    if objects is None or not (write.vertices or write.relationships):
        yield
        return
    key = _key(request)
    _put(write, key, objects)
    yield
    objects.delete(write.tenant_id, key)


def unfinished(tenant_id: str, objects: ObjectStore) -> Iterator[tuple[str, UnfinishedWrite | UnreadableEntry]]:
    """Yield the interrupted and running writes of a tenant, with the keys of their log entries.

    Raises TransientStoreError or StoreTooSlow if the store does not answer now.
    """
    for info in list(objects.list(tenant_id, _FOLDER)):
        try:
            yield info.key, retry_if_replaced(partial(_read, objects, tenant_id, info.key))
        except ObjectMissing:
            continue  # the write is done
        except (TransientStoreError, StoreTooSlow):
            raise  # it may well be readable
        except (ValidationError, InvalidRequest, StoreError) as error:
            yield info.key, UnreadableEntry(type(error).__name__)


def _read(objects: ObjectStore, tenant_id: str, key: str) -> UnfinishedWrite:
    lines = [_Line.model_validate_json(line) for line in objects.open(tenant_id, key)]
    vertices = tuple(line.vertex for line in lines if line.vertex)
    relationships = tuple(line.relationship for line in lines if line.relationship)
    if ({one.tenant_id for one in vertices} | {one.tenant_id for one in relationships}) - {tenant_id}:
        raise InvalidRequest(f"{key}: is of another tenant")
    return UnfinishedWrite(
        tenant_id=tenant_id,
        records=dict(line.record for line in lines if line.record),
        vertices=vertices,
        relationships=relationships,
    )


def _put(write: UnfinishedWrite, key: str, objects: ObjectStore) -> None:
    lines = (
        *(_Line(record=record) for record in write.records.items()),
        *(_Line(vertex=vertex) for vertex in write.vertices),
        *(_Line(relationship=edge) for edge in write.relationships),
    )
    content = b"\n".join(line.model_dump_json(exclude_none=True).encode() for line in lines)
    objects.put(write.tenant_id, key, content)


def forget(
    tenant_id: str, objects: ObjectStore | None, *, ids: Collection[str] = (), edges: Collection[Relationship] = ()
) -> None:
    """Take records and vertices with the edges that hang on them, and further edges, out of a tenant's entries."""
    gone, named = set(ids), {edge.identity() for edge in edges}
    if objects is None or not (gone or named):
        return
    for key, write in unfinished(tenant_id, objects):
        if isinstance(write, UnreadableEntry):
            continue  # no repair reads it either
        left = UnfinishedWrite(
            tenant_id=tenant_id,
            records={name: given for name, given in write.records.items() if name not in gone},
            vertices=tuple(vertex for vertex in write.vertices if vertex.id not in gone),
            relationships=tuple(
                edge
                for edge in write.relationships
                if not gone & {edge.source, edge.target, edge.evidence} and edge.identity() not in named
            ),
        )
        if not (left.vertices or left.relationships):
            objects.delete(tenant_id, key)
        elif left != write:
            _put(left, key, objects)


def _key(request: WriteRequest) -> str:
    """Return the key of a write's log entry: the same if the write is repeated."""
    named = [[one.id for one in request.records], [one.id for one in request.vertices]]
    text = repr([*named, [edge.identity() for edge in request.relationships]])
    return _FOLDER + hashlib.sha256(text.encode()).hexdigest()[:32]
