"""Archives of whole tenants: a folder of JSON lines with a manifest, written from one deployment and read into another.

What is stored is copied as it is, past the checks and the embedding of a write: records with their vectors, times,
trust and metadata, vertices, relationships, what was found in texts, schema versions. So an archive is a backup, and
the way from one engine to the other. Not in it: files, memberships, jobs, the audit log and cached answers.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
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
"""Name under which a manifest is written, before it takes the place of the last one."""
FORMAT: Final = 1
PART_BYTES: Final = 64 * 1024 * 1024
"""After which a part ends; an export that was interrupted goes on behind its last whole part."""
PAGE: Final = 200
"""Items that are in memory together."""
_MAX_MANIFEST_BYTES: Final = 64 * 1024 * 1024
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700
"""An archive is its owner's alone, as the store is."""
Item = Record | Vertex | Relationship
Told = Callable[[int, int], None]
"""Called with the number of items done and the number of all, as far as that is known."""


class PartKind(StrEnum):
    """What a part holds, in the order of an import: relationships need their ends."""

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
        """What it holds."""
        return PartKind(self.name.partition("-")[0])


class Manifest(Frozen):
    """What an archive holds, and how far its export is."""

    format: int = FORMAT
    braid: str = __version__
    tenant_id: TenantId
    vectors: bool
    begun_at: Timestamp
    generation: int | None
    """The tenant's write generation at the begin; None where none is kept."""
    schemas: tuple[SchemaVersion, ...] = ()
    parts: tuple[Part, ...] = ()
    after: str | None = None
    """Cursor behind the last part, of the store whose turn it is."""
    stage: Annotated[int, Field(ge=0, le=2)] = 0
    """0 while records are written, 1 while the graph is, 2 at the end."""
    changed: bool = False
    """Whether the tenant was written to meanwhile, so that it is not the copy of one moment."""

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
    tenant_id: str, store: WriteStore, folder: Path, *, vectors: bool = True, tell: Told | None = None
) -> Manifest:
    """Write a tenant's archive into a folder that is empty, or holds one whose export was interrupted.

    Raises
    ------
    DatasetError
        If the folder holds something else, or a whole archive.
    StoreError
        As the engines; repeating the export goes on.
    """
    folder.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
    manifest = _begun(tenant_id, store, folder, vectors=vectors)
    total = store.index.stats(tenant_id).records

    def keep(changes: Mapping[str, object], parts: Iterable[Part] = ()) -> None:
        nonlocal manifest
        manifest = manifest.model_copy(update={**changes, "parts": (*manifest.parts, *parts)})
        _write_whole(folder / MANIFEST, manifest.model_dump_json(indent=1).encode())
        if tell:
            counts = manifest.counts()
            tell(sum(counts.values()), total + counts[PartKind.VERTICES] + counts[PartKind.RELATIONSHIPS])

    keep({})  # before there is any part, so that an export that is interrupted in the first one can go on
    while manifest.stage < len(_STAGES):
        parts, after = _write_parts(folder, manifest, _STAGES[manifest.stage](tenant_id, store, manifest))
        stage = manifest.stage if after else manifest.stage + 1
        changed = stage == len(_STAGES) and manifest.generation != store.cache.generation(tenant_id)
        keep({"after": after, "stage": stage, "changed": changed}, parts)
    return manifest


_Page = tuple[dict[PartKind, "Sequence[Item]"], "str | None"]
"""Some items of each kind, and the cursor behind them."""


def _records(tenant_id: str, store: WriteStore, manifest: Manifest) -> Iterator[_Page]:
    for page in pages(store.index.scan, tenant_id, after=manifest.after, limit=PAGE, with_vectors=manifest.vectors):
        yield {PartKind.RECORDS: page.records}, page.cursor


def _graph(tenant_id: str, store: WriteStore, manifest: Manifest) -> Iterator[_Page]:
    for page in pages(store.graph.scan, tenant_id, after=manifest.after, limit=PAGE):
        yield {PartKind.VERTICES: page.vertices, PartKind.RELATIONSHIPS: page.relationships}, page.cursor


_STAGES: Final = (_records, _graph)


def _begun(tenant_id: str, store: WriteStore, folder: Path, *, vectors: bool) -> Manifest:
    """Return the manifest to go on with."""
    if (folder / MANIFEST).exists():
        manifest = read_manifest(folder)
        if manifest.stage == len(_STAGES):
            raise DatasetError(f"{folder}: holds a whole archive already; export into another folder")
        if (manifest.tenant_id, manifest.vectors) != (tenant_id, vectors):
            other = f"{manifest.tenant_id!r} with{'' if manifest.vectors else 'out'} vectors"
            raise DatasetError(f"{folder}: holds the begin of an archive of {other}; export into another folder")
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
    """Write the next part of each kind, and return them and the cursor behind them."""
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
    """Open a file that is made here, for its owner alone.

    What has its name goes: a part that an interrupted export left, which is in no manifest. In a folder that others may
    write to it may be a link of theirs, which would lead into another file, or a file of theirs, which they could read.
    """
    path.unlink(missing_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags, _PRIVATE_FILE), "w+b")


def _line(item: Item) -> bytes:
    return item.model_dump_json(exclude={"tenant_id"}).encode() + b"\n"


def _write_whole(path: Path, content: bytes) -> None:
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
    """Return the manifest of a whole archive, of which every file is as it was written.

    Raises DatasetError if it is not: which file is damaged, or missing.
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
