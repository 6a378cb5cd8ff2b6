"""Exports whole tenants as archives: folders of JSON Lines with a manifest, to be imported into another deployment.

Stored items are copied as they are, without the checks and the embedding of a write: records with their vectors, times,
trust and metadata, vertices, relationships, found names and mentions, schema versions. So an archive is a backup, and
the way from one engine to the other. Not in it: files, memberships, jobs, the audit log and cached answers.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field, StringConstraints, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from braid.errors import DatasetError
from braid.ingestion.regular_files import open_regular
from braid.models import Frozen, Record, Relationship, TenantId, Timestamp, Vertex
from braid.ports.keys import pages
from braid.ports.schema_registry import SchemaVersion
from braid.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from io import BufferedRandom
    from pathlib import Path

    from braid.ports.ingestion import WriteStore


MANIFEST: Final = "manifest.json"
_UNFINISHED: Final = "manifest.new"
"""Name under which a manifest is written, before it replaces the last one."""
FORMAT: Final = 1
PART_BYTES: Final = 64 * 1024 * 1024
"""Bytes after which a part ends; an interrupted export resumes after its last whole part."""
PAGE: Final = 200
"""Items that are in memory together."""
_MAX_MANIFEST_BYTES: Final = 64 * 1024 * 1024
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700
"""File modes: only its owner can read an archive, as with the store."""
Item = Record | Vertex | Relationship
OnProgress = Callable[[int, int], None]
"""Called with the number of items done and the number of all, as far as that is known."""


class PartKind(StrEnum):
    """Kind of a part's items, in the order of an import: relationships need their endpoints."""

    RECORDS = "records"
    VERTICES = "vertices"
    RELATIONSHIPS = "relationships"


class Part(Frozen):
    """One file of an archive."""

    name: Annotated[str, StringConstraints(pattern=r"^(records|vertices|relationships)-[0-9]{6}\.jsonl$")]
    items: Annotated[int, Field(ge=1)]
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]

    @property
    def kind(self) -> PartKind:
        """Kind of its items."""
        return PartKind(self.name.partition("-")[0])


class Manifest(Frozen):
    """Manifest of an archive: its contents, and the progress of its export."""

    format: int = FORMAT
    braid: str = __version__
    tenant_id: TenantId
    vectors: bool
    begun_at: Timestamp
    generation: int | None
    """The tenant's write generation when the export began; None if it was not known."""
    schemas: tuple[SchemaVersion, ...] = ()
    parts: tuple[Part, ...] = ()
    after: str | None = None
    """Cursor after the last part, in the store that the stage reads."""
    stage: Annotated[int, Field(ge=0, le=2)] = 0
    """0 while records are written, 1 while the graph is, 2 at the end."""
    changed: bool = False
    """Whether the tenant was, or may have been, written to during the export: the archive is no consistent snapshot."""

    @field_validator("parts")
    @classmethod
    def _each_once(cls, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        names = Counter(part.name for part in parts)
        if twice := [name for name, times in names.items() if times > 1]:
            raise PydanticCustomError("twice", "{name} is listed more than once", {"name": twice[0]})
        return parts

    def counts(self) -> dict[PartKind, int]:
        """Return the number of items of each kind."""
        return {kind: sum(part.items for part in self.parts if part.kind is kind) for kind in PartKind}


def export_tenant(
    tenant_id: str, store: WriteStore, folder: Path, *, vectors: bool = True, on_progress: OnProgress | None = None
) -> Manifest:
    """Write a tenant's archive into a folder that is empty, or holds one whose export was interrupted.

    Parameters
    ----------
    vectors
        Whether the archive has the records' vectors; an import computes missing ones.

    Raises
    ------
    DatasetError
        If the folder holds something else, or a whole archive, or another export writes into it.
    StoreError
        As the engines; repeating the export resumes it.
    """
    folder.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
    with _locked(folder):
        return _export(tenant_id, store, folder, vectors=vectors, on_progress=on_progress)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder: two exports at once would replace each other's parts, and both would succeed.

    Raises DatasetError if another export holds it.
    """
    opened = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"{folder}: another export is writing into it; wait for its end, or export into another folder"
            raise DatasetError(message) from None
        except OSError:
            pass  # some network file systems have no locks
        yield
    finally:
        os.close(opened)


def _export(
    tenant_id: str, store: WriteStore, folder: Path, *, vectors: bool, on_progress: OnProgress | None
) -> Manifest:
    """Write a tenant's archive into a folder that this process has locked."""
    manifest = _begin_or_resume(tenant_id, store, folder, vectors=vectors)
    total = store.index.stats(tenant_id).records

    def keep(changes: Mapping[str, object], parts: Iterable[Part] = ()) -> None:
        nonlocal manifest
        manifest = manifest.altered(**changes, parts=(*manifest.parts, *parts))
        _replace_file(folder / MANIFEST, manifest.model_dump_json(indent=1).encode())
        if on_progress:
            counts = manifest.counts()
            on_progress(sum(counts.values()), total + counts[PartKind.VERTICES] + counts[PartKind.RELATIONSHIPS])

    keep({})  # before there is any part, so that an export that is interrupted in the first one can resume
    while manifest.stage < len(_STAGES):
        parts, after = _write_parts(folder, manifest, _STAGES[manifest.stage](tenant_id, store, manifest))
        stage = manifest.stage if after else manifest.stage + 1
        # What cannot be known, as the cache fails, may have changed.
        known = {manifest.generation, store.cache.generation(tenant_id)}
        changed = stage == len(_STAGES) and (len(known) > 1 or None in known)
        keep({"after": after, "stage": stage, "changed": changed}, parts)
    return manifest


_Page = tuple[dict[PartKind, "Sequence[Item]"], "str | None"]
"""Some items of each kind, and the cursor after them."""


def _records(tenant_id: str, store: WriteStore, manifest: Manifest) -> Iterator[_Page]:
    for page in pages(store.index.scan, tenant_id, after=manifest.after, limit=PAGE, with_vectors=manifest.vectors):
        yield {PartKind.RECORDS: page.records}, page.cursor


def _graph(tenant_id: str, store: WriteStore, manifest: Manifest) -> Iterator[_Page]:
    for page in pages(store.graph.scan, tenant_id, after=manifest.after, limit=PAGE):
        yield {PartKind.VERTICES: page.vertices, PartKind.RELATIONSHIPS: page.relationships}, page.cursor


_STAGES: Final = (_records, _graph)


def _begin_or_resume(tenant_id: str, store: WriteStore, folder: Path, *, vectors: bool) -> Manifest:
    """Return the manifest of an interrupted export, or a new one. Raises DatasetError if the folder holds others."""
    if (folder / MANIFEST).exists():
        manifest = read_manifest(folder)
        if manifest.stage == len(_STAGES):
            raise DatasetError(f"{folder}: holds a whole archive already; export into another folder")
        if (manifest.tenant_id, manifest.vectors) != (tenant_id, vectors):
            other = f"{manifest.tenant_id!r} with{'' if manifest.vectors else 'out'} vectors"
            raise DatasetError(f"{folder}: holds an unfinished archive of {other}; export into another folder")
        return manifest
    if any(path.name != _UNFINISHED for path in folder.iterdir()):
        raise DatasetError(f"{folder}: is not empty; export into a folder of its own")
    return Manifest(
        tenant_id=tenant_id,
        vectors=vectors,
        begun_at=store.now(),
        generation=store.cache.generation(tenant_id),
        schemas=tuple(store.schemas.versions(tenant_id)),
    )


def _write_parts(folder: Path, manifest: Manifest, pages: Iterator[_Page]) -> tuple[list[Part], str | None]:
    """Write the next part of each kind, and return them and the cursor after them."""
    number = 1 + max((int(part.name[-12:-6]) for part in manifest.parts), default=0)
    files: dict[PartKind, BufferedRandom] = {}
    counts: Counter[PartKind] = Counter()
    parts: list[Part] = []
    written, after = 0, None
    with ExitStack() as opened:
        for found, cursor in pages:
            after = cursor
            for kind, items in found.items():
                if items and kind not in files:
                    files[kind] = opened.enter_context(_created(folder / _part_name(kind, number)))
                counts[kind] += len(items)
                written += sum(files[kind].write(_line(item)) for item in items)
            if written >= PART_BYTES:
                break
        for kind, file in files.items():
            file.seek(0)
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
            parts.append(Part(name=_part_name(kind, number), items=counts[kind], sha256=sha256))
    return parts, after


def _part_name(kind: PartKind, number: int) -> str:
    return f"{kind.value}-{number:06}.jsonl"


def _created(path: Path) -> BufferedRandom:
    """Create a file that only its owner can read, in place of any file of this name.

    Such a file is a part that an interrupted export left, which no manifest lists. It is removed and not opened: in a
    folder that others may write to, it may be a link to another file, or a file that they can read.
    """
    path.unlink(missing_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags, _PRIVATE_FILE), "w+b")


def _line(item: Item) -> bytes:
    return item.model_dump_json(exclude={"tenant_id"}).encode() + b"\n"


def _replace_file(path: Path, content: bytes) -> None:
    beside = path.with_name(_UNFINISHED)
    with _created(beside) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def read_manifest(folder: Path) -> Manifest:
    """Return an archive's manifest. Raises DatasetError if there is none, or it cannot be read."""
    path = folder / MANIFEST
    try:
        with open_regular(path) as file:
            text = file.read(_MAX_MANIFEST_BYTES + 1)
    except OSError as error:
        raise DatasetError(f"{folder}: is no archive: {MANIFEST}: {error.strerror}") from error
    try:
        manifest = Manifest.model_validate_json(text if len(text) <= _MAX_MANIFEST_BYTES else b"")
    except ValidationError as error:
        first = error.errors()[0]
        wrong = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
        raise DatasetError(f"{path}: is damaged: {wrong}") from None
    if manifest.format != FORMAT:
        raise DatasetError(
            f"{path}: was written by Braid {manifest.braid} in format {manifest.format}; this one reads {FORMAT}"
        )
    return manifest


def verify(folder: Path) -> Manifest:
    """Check every file of a whole archive by its SHA-256, and return its manifest.

    Raises DatasetError if the export is not finished, or a file is missing or damaged; names the file.
    """
    manifest = read_manifest(folder)
    if manifest.stage < len(_STAGES):
        raise DatasetError(f"{folder}: its export was interrupted; run it again first")
    for part in manifest.parts:
        try:
            with open_regular(folder / part.name) as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise DatasetError(f"{folder / part.name}: {error.strerror}") from error
        if found != part.sha256:
            raise DatasetError(f"{folder / part.name}: is damaged: it is not what was exported; nothing was imported")
    return manifest
