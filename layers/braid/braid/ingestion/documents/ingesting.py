"""Ingests folders and files of documents: reads new and changed files, and removes the chunks of deleted ones.

Files are read in a process of their own, and their chunks embedded on a thread of their own, ahead of the writing. A
page of whole files is written at a time. :mod:`braid.ingestion.documents.folder_state` stores the progress, so that an
ingest can be interrupted at any moment and resumed. Files of unchanged size and modification time are not opened.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from braid.errors import InvalidRequest
from braid.ingestion.deleting import delete_records
from braid.ingestion.documents.chunk_records import chunk_ids, document_id, modified_at, records_of
from braid.ingestion.documents.chunking import Chunker
from braid.ingestion.documents.document import ReadingLimits, Unreadable, too_long
from braid.ingestion.documents.folder_listing import FoundFile, find
from braid.ingestion.documents.folder_state import COLLECTION, KEPT, FileState, FolderState, has_uploads, read_upload
from braid.ingestion.documents.progress import (
    EncodingGuessed,
    Estimate,
    Event,
    FileSkipped,
    FolderBegun,
    FolderDone,
)
from braid.ingestion.documents.reader_process import ReaderProcess, Reading
from braid.ingestion.record_vectors import EmbeddingAhead
from braid.ingestion.writing import require_written, write
from braid.models import GraphSource
from braid.ports.batches import batches
from braid.ports.ingestion import WriteRequest, WriteStore
from braid.ports.keys import check_tenant

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from braid.ingestion.documents.document import Plain
    from braid.ingestion.record_vectors import RecordVectors
    from braid.models import Record
    from braid.ports.encoder import Encoder
    from braid.ports.object_store import ObjectStore

READING_VERSION = 10
"""Version of readers and chunker: documents that were read under another are read again."""
_PAGE_CHUNKS = (8, 16, 32, 64, 128)
"""Least chunks of each page, the last number for all further ones: short first pages soon show progress and pace."""
_PAGE_FILES = 500
"""Most files of a page: those that cannot be read have no chunks."""
_AHEAD = 16
"""Files that are read before they are written."""
_PAGES_AHEAD = 2
"""Pages whose embedding is begun before the one that is written."""
_IDS_PER_CALL = 500
_SLOW_S = 1.0
"""Seconds after which a file that could not be read took long."""
_SLOW_AGAIN_S = 3_600.0
"""Seconds after which such a file is read again, if it has not changed."""
_EMPTIED = "is {}; its documents are kept, until it has files again or is ingested without --watch"


class DocumentStore(WriteStore, Protocol):
    """The stores that documents are written to, such as :func:`braid.app.application` returns."""

    @property
    def objects(self) -> ObjectStore:
        """The object store that keeps the state of folders."""


@dataclass(frozen=True)
class Options:
    """Options of an ingest of documents.

    Attributes
    ----------
    metadata
        Metadata that every chunk gets; it takes precedence over the file's own.
    mapping
        Columns of tables by their role: ``title``, ``text``, ``timestamp``, ``valid_at``, ``invalid_at``, or a key of
        metadata.
    name
        Name of the folder in the ids of its documents; its own name when not given.
    limits
        Limits of reading one file.
    threads
        Threads of the encoder.
    keep_if_empty
        Whether a folder's documents are kept if the folder is empty now, as one is whose volume is not mounted, or if
        a file has taken its place.
    slow
        Files that took long and could not be read, with the time until which ingests with the same options do not read
        them again: a watched folder would be read no further than a few such files, again and again.
    """

    metadata: Mapping[str, Plain] = field(default_factory=dict)
    mapping: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    limits: ReadingLimits = field(default_factory=ReadingLimits)
    threads: int | None = None
    keep_if_empty: bool = False
    slow: dict[FoundFile, tuple[float, Reading]] = field(default_factory=dict, repr=False, compare=False)


def ingest_documents(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    store: DocumentStore,
    *,
    tenant_id: str,
    options: Options | None = None,
    seconds: Callable[[], float] = time.monotonic,
    on_embedded: Callable[[int, int], None] | None = None,
) -> Iterator[Event]:
    """Ingest folders and files; yield progress events, the last of each path being its :class:`FolderDone`.

    The work is done as the events are consumed. Stopping in between keeps written documents; a repeated call resumes.

    Parameters
    ----------
    seconds
        Monotonic clock, in seconds.
    on_embedded
        Called with the numbers of chunks of the current page: those embedded so far, and all.

    Raises
    ------
    InvalidRequest
        If two folders of one name are ingested for a tenant, or an option is wrong.
    OSError
        If a path cannot be read.
    StoreError, ModelError
        As the engines and the encoder; written documents are kept.
    """
    check_tenant(tenant_id)
    chosen = options or Options()
    for path in [paths] if isinstance(paths, str | os.PathLike) else paths:
        folder = _Folder(
            Path(path),
            store,
            tenant_id=tenant_id,
            options=chosen,
            seconds=seconds,
            on_embedded=on_embedded,
        )
        yield from folder.events()


class _PreparedFile(NamedTuple):
    """A file that was read: its new state, and the records to write."""

    state: FileState
    records: list[Record]
    before: FileState | None
    """Its state until then."""
    skipped: str = ""
    """Why it could not be read this time."""


class _Page(NamedTuple):
    """Files that are written together."""

    files: Sequence[_PreparedFile]
    records: tuple[Record, ...]
    vectors: RecordVectors


def _begin_page(files: Sequence[_PreparedFile], ahead: EmbeddingAhead) -> _Page:
    """Begin to embed the records of some files, and return these as a page."""
    records = tuple(record for one in files for record in one.records)
    return _Page(files, records, ahead.begin(records))


class _Folder:
    """One ingest of one folder or file."""

    def __init__(
        self,
        root: Path,
        store: DocumentStore,
        *,
        tenant_id: str,
        options: Options,
        seconds: Callable[[], float],
        on_embedded: Callable[[int, int], None] | None,
    ) -> None:
        self._root, self._store, self._tenant, self._options = root, store, tenant_id, options
        self._seconds, self._on_embedded = seconds, on_embedded
        self._root_path = os.path.realpath(root)
        name = options.name or Path(self._root_path).name
        self._state = FolderState(store.objects, tenant_id, name).load()
        if not options.name and self._state.place and self._state.place != self._root_path:
            raise InvalidRequest(
                f"--name: {name!r} was ingested from {self._state.place}; give {self._root_path} a name of its own, "
                f"or the same name if it has moved",
                field="name",
            )
        if name == COLLECTION and not self._state.place and has_uploads(store.objects, tenant_id):
            raise InvalidRequest(
                f"--name: ids of posted documents begin with {name!r}, and there are some; choose another name",
                field="name",
            )
        self._report = FolderDone(name=name)
        self._skips, self._guesses = list[FileSkipped](), list[EncodingGuessed]()

    def events(self) -> Iterator[Event]:
        """Ingest, and yield the events."""
        begun = self._seconds()
        found = find(self._root)
        self._state.place = self._root_path
        self._state.compact()
        known = dict(self._state.files)
        chunker, options_hash = self._chunker()
        unchanged = self._unchanged(found.files, options_hash)
        changed = [file for path, file in found.files.items() if path not in unchanged]
        estimate = Estimate(changed, self._seconds)
        yield FolderBegun(self._report.name, files=len(found.files), changed=len(changed), hidden=found.hidden)
        for path, reason in found.refused.items():
            below = (file for known, file in self._state.files.items() if known == path or known.startswith(f"{path}/"))
            kept = path in found.unlisted and any(file.chunks for file in below)
            yield self._skipped(path, f"{reason}; {KEPT}" if kept else reason)
        for path in unchanged:
            if reason := self._state.files[path].skipped:
                yield self._skipped(path, reason)
        self._report = replace(
            self._report,
            unchanged=sum(not self._state.files[path].skipped for path in unchanged),
            hidden=found.hidden,
        )
        yield from self._write_all(changed, chunker, options_hash, estimate)
        gone = [file for path, file in known.items() if path not in found.files and not found.may_hold(path)]
        is_file = "" in found.files
        if self._options.keep_if_empty and (is_file or not found.files) and any(file.chunks for file in gone):
            yield self._skipped("", _EMPTIED.format("a file now" if is_file else "empty"))
        else:
            self._remove_gone(gone)
        self._state.compact()
        stored = [file for file in self._state.files.values() if file.chunks]
        yield replace(
            self._report,
            documents=len(stored),
            chunks=sum(file.chunks for file in stored),
            skipped=tuple(self._skips),
            guessed=tuple(self._guesses),
            seconds=self._seconds() - begun,
        )

    def _chunker(self) -> tuple[Chunker, str]:
        """Return the chunker, and a hash of the options on which chunks depend, besides the content."""
        chunker, encoder = chunker_for(self._store, threads=self._options.threads)
        options = [
            READING_VERSION,
            dict(self._options.metadata),
            dict(self._options.mapping),
            encoder.model_id,
            encoder.max_tokens,
        ]
        if self._store.graph_source is not GraphSource.BOTH:  # the default has the hash that it had before this option
            options.append(self._store.graph_source)
        options_json = json.dumps(options, sort_keys=True)
        return chunker, hashlib.sha256(options_json.encode()).hexdigest()[:16]

    def _unchanged(self, files: Mapping[str, FoundFile], options_hash: str) -> list[str]:
        """Return the paths of files that have not changed, and whose chunks are still stored."""
        same = [
            path
            for path, file in files.items()
            if self._state.is_unchanged(
                path, size=file.size, modified_ns=file.modified_ns, options=file.options(options_hash)
            )
        ]
        kept: list[str] = []
        for part in batches(same, _IDS_PER_CALL):
            first = {path: chunk_ids(self._state.files[path].document, 0, 1)[0] for path in part}
            asked = [first[path] for path in part if self._state.files[path].chunks]
            stored = self._store.index.written(self._tenant, asked) if asked else {}
            for path in part:
                if not self._state.files[path].chunks or first[path] in stored:
                    kept.append(path)
                else:  # removed from the stores: to be written again although the content has not changed
                    self._state.files[path] = replace(self._state.files[path], sha256="")
        return kept

    def _write_all(
        self, files: Sequence[FoundFile], chunker: Chunker, options_hash: str, estimate: Estimate
    ) -> Iterator[Event]:
        """Read files, embed them page by page ahead of the writing, write the pages, and yield the events."""
        page: list[_PreparedFile] = []
        chunks = pages = 0
        begun: deque[_Page] = deque()
        known = self._state.known_hashes({file.path: file.options(options_hash) for file in files})
        with (
            EmbeddingAhead(self._store, self._options.threads) as ahead,
            closing(_read_ahead(files, known, self._options)) as readings,
        ):
            for file, reading in readings:
                prepared = self._prepare(file, reading, chunker, options_hash)
                estimate.read(file, len(prepared.records))
                if prepared.skipped:
                    yield self._skipped(file.path, prepared.skipped)
                elif reading.document is not None and reading.document.guessed_encoding:
                    yield self._guessed(file.path, reading.document.guessed_encoding)
                page.append(prepared)
                chunks += len(prepared.records)
                if len(page) == _PAGE_FILES or chunks >= _PAGE_CHUNKS[min(pages, len(_PAGE_CHUNKS) - 1)]:
                    begun.append(_begin_page(page, ahead))
                    pages, page, chunks = pages + 1, [], 0
                    if len(begun) > _PAGES_AHEAD:
                        yield self._written(begun.popleft(), estimate)
            if page:
                begun.append(_begin_page(page, ahead))
            for one in begun:
                yield self._written(one, estimate)

    def _prepare(self, file: FoundFile, reading: Reading, chunker: Chunker, options_hash: str) -> _PreparedFile:
        """Return the state and the records to write for a file that was read, or the reason why there are none."""
        document_name = document_id(self._report.name, file.path)
        state = FileState(
            path=file.path,
            document=document_name,
            size=file.size,
            modified_ns=file.modified_ns,
            sha256=reading.sha256 if reading.permanent else "",
            options=file.options(options_hash),
        )
        before = self._state.files.get(file.path)
        if reading.document is None and not reading.unreadable and before is not None:  # only its time has changed
            same = replace(before, modified_ns=file.modified_ns, size=file.size)
            return _PreparedFile(same, [], before, before.skipped)
        reason, document = reading.unreadable, reading.document
        if self._report.name == COLLECTION and not (before and before.chunks) and self._is_posted(file.path):
            reason, document = "has the id of a document that was posted; ingest the folder with another --name", None
        if document is not None:
            try:
                records = records_of(
                    document,
                    chunker.chunks(document),
                    tenant_id=self._tenant,
                    identity=document_name,
                    file=file.path or self._report.name,
                    modified=modified_at(file.modified_ns / 1e9),
                    extra_metadata=self._options.metadata,
                )
            except Unreadable as error:
                reason = str(error)
            else:
                title = records[0].source.title or ""
                state = replace(state, chunks=len(records), title=title, format=document.format)
                return _PreparedFile(state, records, before)
        if before is not None and not reading.empty and self._is_stored(before):
            # The stored chunks are kept whatever the reason: the file still exists, and an option may be wrong.
            reason = f"{reason}; {KEPT}"
            state = replace(state, chunks=before.chunks, title=before.title, format=before.format)
        return _PreparedFile(replace(state, skipped=reason), [], before, reason)

    def _is_posted(self, path: str) -> bool:
        posted = read_upload(self._store.objects, self._tenant, path)
        return posted is not None and posted.chunks > 0

    def _is_stored(self, file: FileState) -> bool:
        """Return whether the chunks of a file are still stored: they may have been deleted."""
        return bool(file.chunks) and bool(self._store.index.written(self._tenant, chunk_ids(file.document, 0, 1)))

    def _written(self, page: _Page, estimate: Estimate) -> Event:
        """Write a page, and return the progress of the ingest."""
        self._write(page)
        estimate.wrote(len(page.records))
        return estimate.progress(self._report.name, page.files[-1].state.path)

    def _write(self, whole: _Page) -> None:
        """Write the chunks of whole files, and remove chunks that they no longer have.

        Another process may have written the same files meanwhile: files that this process does not change are left to
        it.
        """
        self._state.follow()
        page = [one for one in whole.files if one.records or self._state.files.get(one.state.path) == one.before]
        before = {one.state.path: self._state.files.get(one.state.path) for one in page}
        key = self._state.begin(one.state for one in page)
        report = require_written(
            write(
                WriteRequest(tenant_id=self._tenant, records=whole.records),
                self._store,
                threads=self._options.threads,
                batch=_PAGE_CHUNKS[-1],
                on_progress=self._on_embedded,
                ahead=whole.vectors,
            )
        )
        stale: list[str] = []
        for one in page:
            old = before[one.state.path]
            if old is not None:
                stale += chunk_ids(old.document, one.state.chunks, old.chunks)
        if stale:
            delete_records(self._tenant, stale, self._store)
        self._state.finish(key, (one.state for one in page))
        new = [one for one in page if one.records]
        self._report = replace(
            self._report,
            read=self._report.read + len(new),
            written=self._report.written + report.written,
            embedded=self._report.embedded + report.embedded,
            embed_seconds=self._report.embed_seconds + report.embed_seconds,
            names=self._report.names + report.names,
            mentions=self._report.mentions + report.mentions,
            unmentioned=self._report.unmentioned + report.unmentioned,
            unchanged=self._report.unchanged + sum(not one.records and not one.skipped for one in page),
        )

    def _remove_gone(self, files: Iterable[FileState]) -> None:
        """Delete the chunks of files that no longer exist, and mark the files as removed.

        A file that another process has written meanwhile is left to it: the file may exist again.
        """
        self._state.follow()
        gone = [file for file in files if self._state.files.get(file.path) == file]
        for part in batches(gone, _IDS_PER_CALL):
            ids = [name for file in part for name in chunk_ids(file.document, 0, file.chunks)]
            delete_records(self._tenant, ids, self._store)
            key = self._state.begin(part)
            self._state.finish(key, [replace(file, gone=True) for file in part])
        self._report = replace(self._report, removed=sum(bool(file.chunks) for file in gone))

    def _skipped(self, path: str, reason: str) -> FileSkipped:
        self._skips.append(FileSkipped(path or self._report.name, reason))
        return self._skips[-1]

    def _guessed(self, path: str, encoding: str) -> EncodingGuessed:
        self._guesses.append(EncodingGuessed(path or self._report.name, encoding))
        return self._guesses[-1]


def chunker_for(store: WriteStore, *, threads: int | None) -> tuple[Chunker, Encoder]:
    """Return the chunker for the served model with the shortest window, and the encoder of that model."""
    encoders = [store.encoder_for(model, threads=threads) for model in store.models()]
    narrowest = min(encoders, key=lambda encoder: (encoder.max_tokens, encoder.model_id))
    return Chunker(lambda text: len(narrowest.token_ends(text)), narrowest.max_tokens), narrowest


def _read_ahead(
    files: Sequence[FoundFile], known: Mapping[str, str], options: Options
) -> Generator[tuple[FoundFile, Reading], None, None]:
    """Yield each file with the outcome of reading it; up to :data:`_AHEAD` files are read ahead."""
    ahead: deque[tuple[FoundFile, Future[Reading]]] = deque()
    with ReaderProcess(options.limits, options.mapping) as reader:
        pool = ThreadPoolExecutor(1, "braid-documents")
        try:
            for file in files:
                ahead.append((file, pool.submit(_read_file, file, reader, known.get(file.path, ""), options.slow)))
                if len(ahead) > _AHEAD:
                    first, reading = ahead.popleft()
                    yield first, reading.result()
            for file, reading in ahead:
                yield file, reading.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            reader.close()  # kills the subprocess, and with it the current read
            pool.shutdown()


def _read_file(
    file: FoundFile, reader: ReaderProcess, known_sha256: str, slow: dict[FoundFile, tuple[float, Reading]]
) -> Reading:
    if file.size > reader.limits.file_bytes:
        return Reading(unreadable=too_long(file.size, reader.limits))
    begun = time.monotonic()
    until, reading = slow.get(file, (begun, Reading()))
    if begun < until:
        return reading
    reading = reader.read(file.location, file.path or Path(file.location).name, known_sha256)
    ended = time.monotonic()
    if not reading.permanent and ended > begun + _SLOW_S:
        slow[file] = ended + _SLOW_AGAIN_S, reading
    return reading
