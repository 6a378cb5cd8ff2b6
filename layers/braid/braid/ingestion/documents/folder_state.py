"""State of an ingested folder: the version of each file that was read, so that a later ingest opens only changed ones.

It is stored in the tenant's object store as a log: a list of all files, and a page for each write since that list
(:meth:`FolderState.compact` makes a new list of them). A page is stored twice: before its documents are written,
without hashes and with the most chunks that may then be stored of each, and again when they are written. So a file
without a hash may be written in part, and the next ingest reads it again.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from braid.errors import ObjectMissing
from braid.ports.object_store import read_object, retry_if_replaced

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from braid.ports.object_store import ObjectStore

PREFIX = "folders/"
UPLOADS = "uploads/"
COLLECTION = "documents"
"""Name of the folder under which documents of the object store are listed."""
KEPT = "what was read of it before is kept"
"""Follows the reason why a file was skipped, if it has chunks from an earlier version."""
_LIST = "files.jsonl"


@dataclass(frozen=True, slots=True)
class FileState:
    """State of one file: the version that was read, and its stored chunks."""

    path: str
    document: str
    """Id of the document."""
    size: int = 0
    modified_ns: int = 0
    sha256: str = ""
    """Of the content; empty while the file is being written."""
    options: str = ""
    """On what its chunks depend, besides the content: a hash of options, and the version of its metadata file. Of a
    document of the object store: its version there."""
    chunks: int = 0
    """Chunks that are stored; while the file is being written, the most that may be."""
    title: str = ""
    format: str = ""
    skipped: str = ""
    """Reason why it was skipped; empty if it was not. Its chunks, if it has any, are of an earlier version."""
    gone: bool = False
    """Whether the file was removed, with its chunks."""
    written_by: str = ""
    """Of a document of the object store: key of the lines of the import that began to write it last."""


@dataclass
class FolderState:
    """The files of one folder of one tenant, as they were last ingested."""

    objects: ObjectStore
    tenant_id: str
    name: str
    place: str = ""
    """Path of the folder when it was last ingested."""
    files: dict[str, FileState] = field(default_factory=dict)
    _versions: dict[str, str] = field(default_factory=dict)
    """Versions of the stored objects when they were last loaded or stored, by key."""

    @property
    def _folder(self) -> str:
        return f"{PREFIX}{hashlib.sha256(self.name.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"

    def load(self) -> FolderState:
        """Load the stored state, and return it."""
        header, files = _read(self.objects, self.tenant_id, self._folder)
        self.place, self.files = header.get("place", ""), files
        return self

    def is_unchanged(self, path: str, *, size: int, modified_ns: int, options: str) -> bool:
        """Return whether a file was read with the same options, and still has the size and time that it had then."""
        known = self.files.get(path)
        if known is None or not known.sha256:
            return False
        return (known.size, known.modified_ns, known.options) == (size, modified_ns, options)

    def known_hashes(self, options: Mapping[str, str]) -> dict[str, str]:
        """Return the hashes of contents read with the options of each path: a touched file may have the same one."""
        return {path: file.sha256 for path, file in self.files.items() if file.options == options.get(path)}

    def follow(self) -> None:
        """Load the state again if another process has stored any of it since it was last loaded or stored."""
        stored = {info.key: info.version for info in self.objects.list(self.tenant_id, f"{self._folder}/")}
        if not stored.items() <= self._versions.items():
            _, self.files = _read(self.objects, self.tenant_id, self._folder)
            self._versions = stored

    def begin(self, files: Iterable[FileState]) -> str:
        """Store that documents are about to be written; return the key of the page."""
        page = [replace(file, sha256="", chunks=max(file.chunks, self._chunks(file.path))) for file in files]
        return self._put_page(page)

    def _chunks(self, path: str) -> int:
        known = self.files.get(path)
        return known.chunks if known else 0

    def finish(self, key: str, files: Iterable[FileState]) -> None:
        """Store that the documents of a page are written.

        One that another process has begun to write since is stored in either version or in a part of each: it gets no
        hash, so that the next ingest reads it again, and the most chunks that it may have.
        """
        begun = dict(self.files)
        self.follow()
        page, shared = list[FileState](), list[FileState]()
        for file in files:
            known = begun.get(file.path)
            if self.files.get(file.path) == known:
                page.append(file)
            else:
                most = max(file.chunks, known.chunks if known else 0, self._chunks(file.path))
                shared.append(replace(file, sha256="", chunks=most, gone=False))
        self._put_page(page, key)
        if shared:
            self._put_page(shared)

    def _put_page(self, page: Sequence[FileState], key: str | None = None) -> str:
        """Store a page, under a new key that follows all others if none is given; return its key."""
        key = key or f"{self._folder}/page-{time.time_ns():020d}.jsonl"
        self._put(key, page)
        self.files |= {file.path: file for file in page}
        return key

    def compact(self) -> None:
        """Store the list of all files, and delete the pages that it replaces.

        The list also has the files that another process has written since this one loaded the state: the chunks of a
        file that is in no list would never be removed.
        """
        pages = [info.key for info in self.objects.list(self.tenant_id, f"{self._folder}/page-")]
        _, files = _read(self.objects, self.tenant_id, self._folder)
        self.files = {path: file for path, file in self.files.items() if not file.gone}
        self._put(f"{self._folder}/{_LIST}", files.values(), header=True)
        self.objects.delete_many(self.tenant_id, pages)

    def _put(self, key: str, files: Iterable[FileState], *, header: bool = False) -> None:
        headers = [{"name": self.name, "place": self.place}] if header else []
        lines = [json.dumps(one) for one in (*headers, *map(asdict, files))]
        stored = self.objects.put(self.tenant_id, key, "\n".join([*lines, ""]).encode())
        self._versions[key] = stored.version


def _read(objects: ObjectStore, tenant_id: str, folder: str) -> tuple[dict[str, str], dict[str, FileState]]:
    """Return the list's header and the files, read again while another process puts a list in the place of pages."""
    return retry_if_replaced(partial(_read_once, objects, tenant_id, folder), ObjectMissing)


def _read_once(objects: ObjectStore, tenant_id: str, folder: str) -> tuple[dict[str, str], dict[str, FileState]]:
    header: dict[str, str] = {}
    files: dict[str, FileState] = {}
    pages = list(objects.list(tenant_id, f"{folder}/page-"))  # before the list, which has those that vanish meanwhile
    try:
        lines = iter(objects.open(tenant_id, f"{folder}/{_LIST}"))
        header = json.loads(next(lines))
        files = {file.path: file for file in map(_file, lines)}
    except (ObjectMissing, StopIteration):
        pass
    for info in pages:
        for file in map(_file, objects.open(tenant_id, info.key)):
            files[file.path] = file
    return header, {path: file for path, file in files.items() if not file.gone}


def _file(line: bytes) -> FileState:
    return FileState(**json.loads(line))


def read_upload(objects: ObjectStore, tenant_id: str, path: str) -> FileState | None:
    """Return the state of a document of the object store; None of one that was never read."""
    try:
        return state_at(objects, tenant_id, _upload_key(path))
    except ObjectMissing:
        return None


def state_at(objects: ObjectStore, tenant_id: str, key: str) -> FileState:
    """Return the state of one file that is stored under a key. Raises ObjectMissing if there is none."""
    return _file(read_object(objects, tenant_id, key))


def put_upload(objects: ObjectStore, tenant_id: str, state: FileState) -> None:
    """Store the state of a document of the object store."""
    objects.put(tenant_id, _upload_key(state.path), json.dumps(asdict(state)).encode())


def _upload_key(path: str) -> str:
    return f"{UPLOADS}{hashlib.sha256(path.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"


def has_uploads(objects: ObjectStore, tenant_id: str) -> bool:
    """Return whether any document of the object store was read."""
    return any(True for _ in objects.list(tenant_id, UPLOADS))


def stored_documents(objects: ObjectStore, tenant_id: str) -> Iterator[tuple[str, FileState]]:
    """Yield the documents of a tenant, each with the name of its folder, ordered by folder and path.

    Documents that were put into the object store come last.
    """
    folders = sorted({info.key.split("/")[1] for info in objects.list(tenant_id, PREFIX)})
    read = [_read(objects, tenant_id, f"{PREFIX}{folder}") for folder in folders]
    for header, files in sorted(read, key=lambda one: one[0].get("name", "")):
        for path in sorted(files):
            yield header.get("name", ""), files[path]
    uploads = [state_at(objects, tenant_id, info.key) for info in objects.list(tenant_id, UPLOADS)]
    for state in sorted(uploads, key=lambda state: state.path):
        yield COLLECTION, state
