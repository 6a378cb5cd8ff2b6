"""Documents in the object store: converted to lines of records, which are imported like any other lines.

``POST /documents`` of :mod:`braid.api.record_routes` stores them there, :mod:`braid.ingestion.bulk.import_steps` writes
their lines.

An object that is put under ``documents/`` is imported when it arrives. A posted document is kept under ``posted/``, in
a folder of its own, until it is written; objects there start no import. The state of a document has the number of its
chunks, by which surplus chunks are removed once a newer version is written. It also names the import that began last to
write the document; all others stop.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import asdict, replace
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Final

from braid.errors import ObjectChanged, ObjectMissing
from braid.ingestion.deleting import delete_records
from braid.ingestion.documents.chunk_records import chunk_ids, document_id, records_of
from braid.ingestion.documents.document import Empty, ReadingLimits, Unreadable, too_long
from braid.ingestion.documents.folder_state import (
    COLLECTION,
    KEPT,
    FileState,
    FolderState,
    put_upload,
    read_upload,
    state_at,
)
from braid.ingestion.documents.ingesting import chunker_for
from braid.ingestion.documents.reader_process import ReaderProcess
from braid.ports.batches import batches
from braid.ports.ingestion import ARRIVING, POSTED, POSTED_PART
from braid.ports.object_store import delete_older, time_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from braid.ingestion.documents.document import Document
    from braid.ingestion.documents.ingesting import DocumentStore
    from braid.models import Record
    from braid.ports.object_store import ObjectInfo, ObjectLines


REMOVED_AT_ONCE: Final = 100
"""Chunks that a document no longer has and that are removed before it is looked whether another import has begun."""
_MEMORY_BYTES: Final = 1024 * 1024 * 1024
"""Memory limit of the reader process; it leaves room for the encoder in the smallest function."""
_ABANDONED_NS: Final = 7 * 24 * 3_600 * 1_000_000_000
"""Nanoseconds after its post in which a document is imported, tried again by hand, or never."""
_CLOCKS_DIFFER_NS: Final = 60_000_000_000
"""Nanoseconds by which the clocks of two machines may differ."""


def path_of(key: str) -> str | None:
    """Return the path of the document that a key names; None if the object is JSON Lines."""
    if key.startswith(ARRIVING):
        return key.removeprefix(ARRIVING) or None
    if key.startswith(POSTED):
        return "/".join(part.removeprefix(POSTED_PART) for part in key.removeprefix(POSTED).split("/")[1:]) or None
    return None


def as_lines(tenant_id: str, path: str, info: ObjectInfo, store: DocumentStore, *, lines_key: str) -> ObjectLines:
    """Read a document and store its chunks as lines under the key ``lines_key``; return them.

    Raises
    ------
    Unreadable
        If it cannot be read, with the reason, or a local folder has a document of the same id; its subclass Empty if it
        has no content.
    ObjectChanged
        If it is replaced while it is read, or another version that was posted later is stored by then.
    ObjectMissing
        If it is removed while it is read.
    """
    of_folder = FolderState(store.objects, tenant_id, COLLECTION).load().files.get(path)
    if of_folder is not None and of_folder.chunks:
        raise Unreadable(f"has the id of a document of the ingested folder {COLLECTION!r}; post it under another name")
    document, sha256 = _read(tenant_id, path, info, store)
    chunker, _ = chunker_for(store, threads=None)
    identity = document_id(COLLECTION, path)
    records = records_of(document, chunker.chunks(document), tenant_id=tenant_id, identity=identity, file=path)
    title, posted_ns = records[0].source.title or "", time_in(info.key, POSTED)
    state = FileState(path, identity, info.size_bytes, posted_ns, sha256, "", len(records), title, document.format)
    _begin(tenant_id, info, state, store, lines_key=lines_key)
    store.objects.put(tenant_id, lines_key, b"\n".join([json.dumps(line).encode() for line in _lines(records)]))
    return store.objects.open(tenant_id, lines_key)


def refused(
    tenant_id: str, path: str, info: ObjectInfo, reason: Unreadable, store: DocumentStore, *, lines_key: str
) -> tuple[ObjectLines, str]:
    """Store that a document cannot be read, and an empty object of lines; return that object, and the error's text.

    Chunks of an earlier version are kept, unless the document is empty now. Raises ObjectChanged and ObjectMissing as
    :func:`as_lines`.
    """
    before = None if isinstance(reason, Empty) else read_upload(store.objects, tenant_id, path)
    told = f"{reason}; {KEPT}" if before is not None and before.chunks else str(reason)
    state = before or FileState(path, document_id(COLLECTION, path))
    state = replace(state, modified_ns=time_in(info.key, POSTED), skipped=told)
    _begin(tenant_id, info, state, store, lines_key=lines_key)
    store.objects.put(tenant_id, lines_key, b"")
    return store.objects.open(tenant_id, lines_key), told


def require_newest(tenant_id: str, key: str, store: DocumentStore, *, lines_key: str) -> None:
    """Raise ObjectChanged if another import has begun to write the document since, or the tenant was deleted.

    Deployed imports run in parallel, and would leave some chunks of either version.
    """
    state = read_upload(store.objects, tenant_id, path_of(key) or "")
    if state is None:  # it is stored before anything is written
        raise ObjectChanged(f"document {key!r} was deleted while it was imported")
    if not _is_newest(state, lines_key):
        raise ObjectChanged(f"another import has begun to write document {key!r}, and continues")


def _is_newest(state: FileState | None, lines_key: str) -> bool:
    return state is None or state.written_by in {"", lines_key}


def settle(tenant_id: str, key: str, store: DocumentStore, *, lines_key: str, whole: bool) -> None:
    """Remove the chunks that the document no longer has, now that its new ones are written, and store its state.

    If another import has begun to write the document since, only the posted object is deleted. Otherwise nothing is
    done unless all chunks are written (``whole``).
    """
    try:
        state = state_at(store.objects, tenant_id, _pending(lines_key))
    except ObjectMissing:
        return
    before = read_upload(store.objects, tenant_id, state.path)
    if not _is_newest(before, lines_key):
        if key.startswith(POSTED):
            store.objects.delete(tenant_id, key)
        return
    if not whole:
        return
    stale = chunk_ids(state.document, state.chunks, before.chunks if before else 0)

    def is_newest_still() -> bool:
        return _is_newest(read_upload(store.objects, tenant_id, state.path), lines_key)

    # Asked each time: an import that began meanwhile takes stored chunks for its own unchanged ones, and stops unless
    # the state names it.
    for some in batches(stale, REMOVED_AT_ONCE):
        if not is_newest_still():
            break
        delete_records(tenant_id, some, store)
    else:
        if is_newest_still():
            put_upload(store.objects, tenant_id, state)
    if key.startswith(POSTED):
        store.objects.delete(tenant_id, key)
        # Of imports that were cut off long ago: nothing else would remove them, and they are texts.
        delete_older(store.objects, tenant_id, POSTED, _ABANDONED_NS)


def _read(tenant_id: str, path: str, info: ObjectInfo, store: DocumentStore) -> tuple[Document, str]:
    limits = ReadingLimits(memory_bytes=_MEMORY_BYTES)
    if info.size_bytes > limits.file_bytes:
        raise Unreadable(too_long(info.size_bytes, limits))
    content = store.objects.read(tenant_id, info, 0, info.size_bytes)
    with NamedTemporaryFile() as file, ReaderProcess(limits) as reader:
        file.write(content)
        file.flush()
        reading = reader.read(os.path.realpath(file.name), path)
    if reading.document is None:
        raise (Empty if reading.empty else Unreadable)(reading.unreadable)
    return reading.document, hashlib.sha256(content).hexdigest()


def _begin(tenant_id: str, info: ObjectInfo, state: FileState, store: DocumentStore, *, lines_key: str) -> None:
    """Store two states before a write: the final one next to the lines, and one with the most chunks until then.

    Raises ObjectChanged and ObjectMissing as :func:`as_lines`.
    """
    state = replace(state, written_by=lines_key)
    store.objects.put(tenant_id, _pending(lines_key), json.dumps(asdict(state)).encode())
    # Last, as to cut a document takes as long as to read it, and another import may begin at any moment until then.
    before = _state_of_older_version(tenant_id, state.path, info, store)
    most = max(state.chunks, before.chunks if before else 0)
    begun = replace(before or state, chunks=most, sha256="", written_by=lines_key, modified_ns=state.modified_ns)
    put_upload(store.objects, tenant_id, begun)


def _state_of_older_version(tenant_id: str, path: str, info: ObjectInfo, store: DocumentStore) -> FileState | None:
    """Return the state of the version that was stored or begun before this one; None if there is none.

    A version that is no longer the newest is refused: reading it may take minutes, and a later one less.

    A version that was posted later is another object; its import begins later as well, but may end first. An object
    that was removed meanwhile, as with its tenant, is not written either.

    Raises ObjectChanged if there is a newer version, and ObjectMissing if the object was removed.
    """
    is_newest = store.objects.open(tenant_id, info.key).info.version == info.version
    before = read_upload(store.objects, tenant_id, path)
    if is_newest and info.key.startswith(POSTED):
        newest = before.modified_ns if before else 0
        # A time in the future is from a wrong clock; otherwise nothing could replace that version until then.
        is_newest = newest <= time_in(info.key, POSTED) or newest > time.time_ns() + _CLOCKS_DIFFER_NS
        if not is_newest:
            store.objects.delete(tenant_id, info.key)  # nothing else would remove it
    if not is_newest:
        raise ObjectChanged(f"another version of document {info.key!r} was stored while this one was read")
    return before


def _pending(lines_key: str) -> str:
    return f"{lines_key}.state"


def _lines(records: Iterable[Record]) -> Iterable[dict[str, object]]:
    for record in records:
        yield {"record": record.model_dump(mode="json", exclude_defaults=True, exclude={"tenant_id"})}
