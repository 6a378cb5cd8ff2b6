"""Documents in the object store: converted to lines of records, which are imported like any other lines.

``POST /documents`` of :mod:`braid.api.record_routes` stores them there, :mod:`braid.ingestion.bulk.import_steps` writes
their lines.

An object that is put under ``documents/`` is imported when it arrives. A posted document is kept under ``posted/``, in
a folder of its own, until it is written; objects there start no import. The state of a document has the number of its
chunks, by which surplus chunks are removed once a newer version is written. It also names the import that began last to
write the document; all others stop.

The metadata file of a document is an object beside it, whose arrival has the document imported again.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

from braid.errors import InvalidRequest, ObjectChanged, ObjectMissing
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
from braid.ingestion.documents.metadata_files import MAX_BYTES, SUFFIX, document_of
from braid.ingestion.documents.reader_process import ReaderProcess
from braid.ports.batches import batches
from braid.ports.ingestion import ARRIVING, POSTED, POSTED_PART
from braid.ports.object_store import delete_older, retry_if_replaced, time_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from braid.ingestion.documents.document import Document
    from braid.ingestion.documents.ingesting import DocumentStore
    from braid.models import Record
    from braid.ports.object_store import ObjectInfo, ObjectLines


REMOVED_AT_ONCE: Final = 100
"""Chunks that a document no longer has and that are removed before it is looked whether another import has begun."""
_READ_ATTEMPTS: Final = 3
"""Times that a document is read whose metadata file is replaced meanwhile."""
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


class DocumentLines(NamedTuple):
    """The lines of a document."""

    key: str
    """Of the document; of a metadata file if that has none."""
    lines: ObjectLines
    refused: str = ""
    """Why there are none."""


class _Beside(NamedTuple):
    """One version of a metadata file."""

    version: str
    content: bytes


def as_lines(tenant_id: str, key: str, info: ObjectInfo, store: DocumentStore, *, lines_key: str) -> DocumentLines:
    """Read the document of a key, or of its metadata file, and store its chunks as lines under the key ``lines_key``.

    A document that cannot be read, or has the id of one of a local folder, has no lines. Its earlier chunks are kept,
    unless it is empty now.

    Raises
    ------
    ObjectChanged
        If it is replaced while it is read, or another version that was posted later is stored by then; or if its
        metadata file is replaced each time that it is read.
    ObjectMissing
        If it is removed while it is read.
    """
    if (document := document_of(key)) is not None:
        try:
            key, info = document, store.objects.open(tenant_id, document).info
        except ObjectMissing:
            name = (path_of(document) or document).rsplit("/", 1)[-1]
            store.objects.put(tenant_id, lines_key, b"")
            missing = f"is the metadata of {name!r}, which is not in the bucket"
            return DocumentLines(key, store.objects.open(tenant_id, lines_key), missing)
    path = path_of(key) or ""
    for _ in range(_READ_ATTEMPTS):
        beside = _read_beside(tenant_id, key, store)
        try:
            state, records = _cut(tenant_id, path, info, beside, store)
        except Unreadable as reason:
            state, records = _kept(tenant_id, path, info, reason, store), []
        if _begin(tenant_id, info, beside, state, store, lines_key=lines_key):
            break
    else:
        raise ObjectChanged(f"the metadata of document {key!r} was replaced each time that it was read")
    store.objects.put(tenant_id, lines_key, b"\n".join([json.dumps(line).encode() for line in _lines(records)]))
    return DocumentLines(key, store.objects.open(tenant_id, lines_key), state.skipped)


def _read_beside(tenant_id: str, key: str, store: DocumentStore) -> _Beside | None:
    """Read the metadata file of a document; None if there is none."""

    def read() -> _Beside:
        info = store.objects.open(tenant_id, key + SUFFIX).info
        size = min(info.size_bytes, MAX_BYTES + 1)
        return _Beside(info.version, store.objects.read(tenant_id, info, 0, size))

    try:
        return retry_if_replaced(read)
    except (ObjectMissing, InvalidRequest):  # a key may be too long for one beside it
        return None


def _cut(
    tenant_id: str, path: str, info: ObjectInfo, beside: _Beside | None, store: DocumentStore
) -> tuple[FileState, list[Record]]:
    """Read a document and return its state and its chunks. Raises Unreadable as its reader."""
    of_folder = FolderState(store.objects, tenant_id, COLLECTION).load().files.get(path)
    if of_folder is not None and of_folder.chunks:
        raise Unreadable(f"has the id of a document of the ingested folder {COLLECTION!r}; post it under another name")
    document, sha256 = _read(tenant_id, path, info, beside, store)
    chunker, _ = chunker_for(store, threads=None)
    identity = document_id(COLLECTION, path)
    records = records_of(document, chunker.chunks(document), tenant_id=tenant_id, identity=identity, file=path)
    state = FileState(
        path=path,
        document=identity,
        size=info.size_bytes,
        modified_ns=time_in(info.key, POSTED),
        sha256=sha256,
        options=info.version,
        chunks=len(records),
        title=records[0].source.title or "",
        format=document.format,
    )
    return state, records


def _kept(tenant_id: str, path: str, info: ObjectInfo, reason: Unreadable, store: DocumentStore) -> FileState:
    """Return the state of a document that cannot be read."""
    before = None if isinstance(reason, Empty) else read_upload(store.objects, tenant_id, path)
    told = f"{reason}; {KEPT}" if before is not None and before.chunks else str(reason)
    state = before or FileState(path, document_id(COLLECTION, path))
    return replace(state, modified_ns=time_in(info.key, POSTED), options=info.version, skipped=told)


def require_newest(tenant_id: str, key: str, store: DocumentStore, *, lines_key: str) -> None:
    """Raise ObjectChanged if another import has begun to write the document since, or the tenant was deleted.

    Deployed imports run in parallel, and would leave some chunks of either version.
    """
    state = read_upload(store.objects, tenant_id, path_of(key) or "")
    if state is None:  # it is stored before anything is written
        raise ObjectChanged(f"document {key!r} was deleted while it was imported")
    if not _is_newest(state, lines_key):
        raise ObjectChanged(f"another import has begun to write document {key!r}, and continues")


def is_continued(tenant_id: str, store: DocumentStore, *, lines_key: str) -> bool:
    """Return whether another import has begun to write the same version of a document as the import of these lines.

    The other one has looked at the metadata file later, so that this one need not be repeated. Documents and metadata
    files that are put into the bucket together start an import each.
    """
    try:
        mine = state_at(store.objects, tenant_id, _pending(lines_key))
    except ObjectMissing:
        return False
    newest = read_upload(store.objects, tenant_id, mine.path)
    if newest is None or newest.skipped or _is_newest(newest, lines_key):
        return False
    return newest.options == mine.options != ""


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
        _delete_posted(tenant_id, key, store)
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
        _delete_posted(tenant_id, key, store)
        # Of imports that were cut off long ago: nothing else would remove them, and they are texts.
        delete_older(store.objects, tenant_id, POSTED, _ABANDONED_NS)


def _delete_posted(tenant_id: str, key: str, store: DocumentStore) -> None:
    """Delete a posted document with its metadata file; do nothing for one that was put into the bucket."""
    if key.startswith(POSTED):
        store.objects.delete_many(tenant_id, [key, key + SUFFIX])


def _read(
    tenant_id: str, path: str, info: ObjectInfo, beside: _Beside | None, store: DocumentStore
) -> tuple[Document, str]:
    limits = ReadingLimits(memory_bytes=_MEMORY_BYTES)
    if info.size_bytes > limits.file_bytes:
        raise Unreadable(too_long(info.size_bytes, limits))
    content = store.objects.read(tenant_id, info, 0, info.size_bytes)
    with TemporaryDirectory() as folder, ReaderProcess(limits) as reader:
        file = os.path.join(os.path.realpath(folder), "document")  # noqa: PTH118 - a text, as readers take it
        Path(file).write_bytes(content)
        if beside is not None:
            Path(file + SUFFIX).write_bytes(beside.content)
        reading = reader.read(file, path)
    if reading.document is None:
        raise (Empty if reading.empty else Unreadable)(reading.unreadable)
    return reading.document, hashlib.sha256(content).hexdigest()


def _begin(
    tenant_id: str, info: ObjectInfo, beside: _Beside | None, state: FileState, store: DocumentStore, *, lines_key: str
) -> bool:
    """Store two states before a write: the final one next to the lines, and one with the most chunks until then.

    Return whether the metadata file is still the one that was read; if not, the document's state stays. A file that was
    removed meanwhile counts as still the same.

    Raises ObjectChanged and ObjectMissing as :func:`as_lines`.
    """
    state = replace(state, written_by=lines_key)
    store.objects.put(tenant_id, _pending(lines_key), json.dumps(asdict(state)).encode())
    # Last, as to cut a document takes as long as to read it, and another import may begin at any moment until then.
    before = _state_of_older_version(tenant_id, state.path, info, store)
    now = _read_beside(tenant_id, info.key, store)
    if now is not None and now != beside:
        return False
    most = max(state.chunks, before.chunks if before else 0)
    if state.skipped and before is not None and _is_being_written(before) and before.options == state.options:
        return True  # that import read the document before its metadata file was wrong
    begun = replace(before or state, chunks=most, sha256="", written_by=lines_key)
    begun = replace(begun, modified_ns=state.modified_ns, options=state.options, skipped=state.skipped)
    put_upload(store.objects, tenant_id, begun)
    return True


def _is_being_written(state: FileState) -> bool:
    """Return whether an import has begun to write a document, and not ended; it may have been cut off."""
    return bool(state.chunks) and not state.sha256 and not state.skipped


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
            _delete_posted(tenant_id, info.key, store)  # nothing else would remove it
    if not is_newest:
        raise ObjectChanged(f"another version of document {info.key!r} was stored while this one was read")
    return before


def _pending(lines_key: str) -> str:
    return f"{lines_key}.state"


def _lines(records: Iterable[Record]) -> Iterable[dict[str, object]]:
    for record in records:
        yield {"record": record.model_dump(mode="json", exclude_defaults=True, exclude={"tenant_id"})}
