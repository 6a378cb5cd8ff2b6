"""Intent log of writes to stores that cannot commit together.

Before such a write its edges, its vertices and the hashes of its records are logged in the object store; after it the
entry is deleted. An entry that remains is that of an interrupted write: ``braid repair`` writes the edges that did not
reach the graph, for the records that did reach the index.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

from braid.ingestion.bulk.manifest import read_object
from braid.models import Frozen, RecordId, Relationship, TenantId, Vertex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from braid.ports.ingestion import WriteRequest
    from braid.ports.object_store import ObjectStore

_FOLDER = "ingest/unfinished/"  # the functions that write may write there


class UnfinishedWrite(Frozen):
    """A log entry: what a write is about to write to the graph."""

    tenant_id: TenantId
    records: dict[RecordId, str]
    """Content hashes of all records of the write, by id."""
    vertices: tuple[Vertex, ...]
    relationships: tuple[Relationship, ...]


@contextmanager
def logged(write: UnfinishedWrite, request: WriteRequest, objects: ObjectStore | None) -> Iterator[None]:
    """Log a write while it runs; the entry of an interrupted one stays until it is repeated or repaired."""
    if objects is None or not (write.vertices or write.relationships):
        yield
        return
    key = _key(request)
    objects.put(write.tenant_id, key, write.model_dump_json().encode())
    yield
    objects.delete(write.tenant_id, key)


def unfinished(tenant_id: str, objects: ObjectStore) -> Iterator[tuple[str, UnfinishedWrite]]:
    """Yield the interrupted and running writes of a tenant, with the keys of their log entries."""
    for info in list(objects.list(tenant_id, _FOLDER)):
        yield info.key, UnfinishedWrite.model_validate_json(read_object(objects, tenant_id, info.key))


def _key(request: WriteRequest) -> str:
    """Return the key of a write's log entry: the same if the write is repeated."""
    named = [[one.id for one in request.records], [one.id for one in request.vertices]]
    text = repr([*named, [edge.identity() for edge in request.relationships]])
    return _FOLDER + hashlib.sha256(text.encode()).hexdigest()[:32]
