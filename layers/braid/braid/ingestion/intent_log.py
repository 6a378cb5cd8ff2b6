"""The intent log: unfinished writes to stores that cannot commit together.

Before such a write its edges, its vertices, the mentions that it removes and the hashes of its records are logged in
the object store; after it the entry is deleted. In between, :mod:`braid.ingestion.writing` writes the index, then the
graph. An entry that remains is that of an interrupted write: for the records that did reach the index, ``braid repair``
(:mod:`braid.ingestion.repair`) writes the vertices and edges that did not reach the graph, and removes the mentions
that their texts no longer have. A delete first removes its records from the entries, so that no repair restores them.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from braid.errors import InvalidRequest, ObjectMissing, StoreError, StoreTooSlow, TransientStoreError
from braid.models import Frozen, RecordId, Relationship, TenantId, Vertex
from braid.ports.object_store import retry_if_replaced

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from braid.ports.ingestion import WriteRequest
    from braid.ports.object_store import ObjectStore

_FOLDER = "ingest/.unfinished/"  # the functions that write may write there, and no import is named so


class UnfinishedWrite(Frozen):
    """A log entry: the changes that a write is about to make in the graph."""

    tenant_id: TenantId
    records: dict[RecordId, str]
    """Content hashes of all records of the write, by id."""
    vertices: tuple[Vertex, ...]
    relationships: tuple[Relationship, ...]
    stale: tuple[Relationship, ...] = ()
    """Mentions that were found in earlier versions of the records, and are no longer in them."""


class _Line(Frozen):
    """A line of an entry: one item, so that no line grows with the number of the write's items."""

    record: tuple[RecordId, str] | None = None
    vertex: Vertex | None = None
    relationship: Relationship | None = None
    stale: Relationship | None = None


class UnreadableEntry(NamedTuple):
    """An object that is not an entry, or that the store does not return."""

    why: str


def entries(tenant_id: str, objects: ObjectStore) -> list[str]:
    """Return the keys of the entries of a tenant's interrupted and running writes."""
    return [info.key for info in objects.list(tenant_id, _FOLDER)]


@contextmanager
def logged(write: UnfinishedWrite, request: WriteRequest, objects: ObjectStore | None) -> Iterator[None]:
    """Log a write while it runs; the entry of an interrupted one stays until it is repeated or repaired.

    A write without changes of the graph is not logged. If it repeats an interrupted write that had made all its
    changes, the entry of that one is deleted: a repair would write again what others have removed from the graph since.
    """
    if objects is None:
        yield
        return
    key = _key(write, request)
    if write.vertices or write.relationships or write.stale:
        _put(write, key, objects)
    yield
    objects.delete(write.tenant_id, key)


def unfinished(tenant_id: str, objects: ObjectStore) -> Iterator[tuple[str, UnfinishedWrite | UnreadableEntry]]:
    """Yield the interrupted and running writes of a tenant, with the keys of their log entries.

    Raises TransientStoreError or StoreTooSlow if the store does not answer now.
    """
    for key in entries(tenant_id, objects):
        try:
            yield key, retry_if_replaced(partial(_read, objects, tenant_id, key))
        except ObjectMissing:
            continue  # the write is done
        except (TransientStoreError, StoreTooSlow):
            raise  # it may well be readable
        except (ValidationError, InvalidRequest, StoreError) as error:
            yield key, UnreadableEntry(type(error).__name__)


def _read(objects: ObjectStore, tenant_id: str, key: str) -> UnfinishedWrite:
    lines = [_Line.model_validate_json(line) for line in objects.open(tenant_id, key)]
    vertices = tuple(line.vertex for line in lines if line.vertex)
    relationships = tuple(line.relationship for line in lines if line.relationship)
    stale = tuple(line.stale for line in lines if line.stale)
    if ({one.tenant_id for one in vertices} | {one.tenant_id for one in (*relationships, *stale)}) - {tenant_id}:
        raise InvalidRequest(f"{key}: is of another tenant")
    return UnfinishedWrite(
        tenant_id=tenant_id,
        records=dict(line.record for line in lines if line.record),
        vertices=vertices,
        relationships=relationships,
        stale=stale,
    )


def _put(write: UnfinishedWrite, key: str, objects: ObjectStore) -> None:
    lines = (
        *(_Line(record=record) for record in write.records.items()),
        *(_Line(vertex=vertex) for vertex in write.vertices),
        *(_Line(relationship=edge) for edge in write.relationships),
        *(_Line(stale=edge) for edge in write.stale),
    )
    content = b"\n".join(line.model_dump_json(exclude_none=True).encode() for line in lines)
    objects.put(write.tenant_id, key, content)


def forget(
    tenant_id: str, objects: ObjectStore | None, *, ids: Collection[str] = (), edges: Collection[Relationship] = ()
) -> None:
    """Remove records and vertices, with edges that depend on them, and further edges from a tenant's entries."""
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
            stale=tuple(edge for edge in write.stale if not gone & {edge.source, edge.target}),
        )
        if not (left.vertices or left.relationships or left.stale):
            objects.delete(tenant_id, key)
        elif left != write:
            _put(left, key, objects)


def _key(write: UnfinishedWrite, request: WriteRequest) -> str:
    """Return the key of a write's log entry: the same if the write is repeated.

    Another write of the same ids has a separate entry: otherwise the first of two concurrent writes would remove it
    when it completes, and the second could not be repaired.
    """
    digest = hashlib.sha256(repr(sorted(write.records.items())).encode())
    for item in (*request.vertices, *request.relationships):
        digest.update(item.model_dump_json().encode() + b"\n")
    return _FOLDER + digest.hexdigest()[:32]
