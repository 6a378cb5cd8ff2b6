"""The embedded object store."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
import uuid
from typing import TYPE_CHECKING, BinaryIO

from braid.engines.embedded.sqlite_files import PRIVATE_FILE, PRIVATE_FOLDER, file_error
from braid.errors import ObjectChanged, ObjectMissing, StoreCorrupt
from braid.ports.keys import MAX_KEY_BYTES, check_object_key, check_prefix, check_tenant
from braid.ports.object_store import ObjectInfo, ObjectLines, check_range, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from io import RawIOBase
    from pathlib import Path

    from braid.engines.embedded.store import EmbeddedStore

FOLDER = "objects"
PART_BYTES = 1024 * 1024
_PAGE = 1_000
_ABANDONED_S = 3_600
_LAST_CHARACTERS = "\U0010ffff" * (MAX_KEY_BYTES // 4)
"""Appended to a prefix: sorts after all keys that begin with it."""
_RANDOM_NAME = re.compile("[0-9a-f]{32}")


class EmbeddedObjectStore:
    """Files in a folder, with their keys in SQLite; implements :class:`braid.ports.object_store.ObjectStore`.

    A file's name is random and never reused: keys are not paths, so ``a`` and ``a/b`` may both exist, and a reader
    keeps its file open while the object is replaced. A process that is killed while writing, or a put inside a
    transaction that is rolled back, leaves a file without a key. The first put of a process and :meth:`delete_many`
    remove such files once they are an hour old, at most once an hour: they look at the files of all tenants.
    """

    def __init__(self, store: EmbeddedStore, *, stopwatch: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._folder = store.folder / FOLDER
        self._stopwatch = stopwatch
        self._swept_at: float | None = None

    def put(self, tenant_id: str, key: str, content: bytes | BinaryIO) -> ObjectInfo:
        """Write an object atomically; its version is the SHA-256 of its content."""
        check_tenant(tenant_id)
        check_object_key(key)
        if self._swept_at is None:
            self._sweep()
        path = self._folder / uuid.uuid4().hex
        try:
            size, version = self._write(path, content)
            with self._store.transaction() as connection:
                tenant = self._store.ensure_tenant_number(connection, tenant_id)
                row = connection.execute(
                    "SELECT file FROM objects WHERE tenant = ? AND key = ?", (tenant, key)
                ).fetchone()
                connection.execute(
                    "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)", (tenant, key, version, size, path.name)
                )
        except BaseException:
            _unlink(path)
            raise
        if row is not None:
            self._discard(row[0])
        return ObjectInfo(key=key, size_bytes=size, version=version)

    def open(self, tenant_id: str, key: str) -> ObjectLines:
        """Open an object for reading."""
        check_tenant(tenant_id)
        check_object_key(key)
        found = self._find(tenant_id, key)
        if found is None:
            raise ObjectMissing(f"there is no object {key!r} of tenant {tenant_id}")
        return ObjectLines(found[0], lambda: self._parts(tenant_id, found[0]))

    def read(self, tenant_id: str, info: ObjectInfo, start: int, end: int) -> bytes:
        """Return a part of one version of an object."""
        check_tenant(tenant_id)
        check_object_key(info.key)
        check_range(info, start, end)
        with self._open_file(tenant_id, info) as file, _translated_errors(self._folder):
            file.seek(start)
            return file.read(end - start)

    def list(self, tenant_id: str, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield the tenant's objects whose key begins with ``prefix``, ordered by key."""
        check_tenant(tenant_id)
        check_prefix(prefix)
        begin, last = prefix, prefix + _LAST_CHARACTERS
        while True:
            with self._store.read() as connection:
                rows = connection.execute(
                    "SELECT key, size, version FROM objects JOIN tenants ON tenants.number = objects.tenant"
                    " WHERE tenants.tenant = ? AND key BETWEEN ? AND ? ORDER BY key LIMIT ?",
                    (tenant_id, begin, last, _PAGE),
                ).fetchall()
            for key, size, version in rows:
                yield ObjectInfo(key=key, size_bytes=size, version=version)
            if len(rows) < _PAGE:
                return
            begin = f"{rows[-1][0]}\0"  # the next text: no key has this character

    def delete(self, tenant_id: str, key: str) -> None:
        """Remove an object; one that does not exist is no error."""
        self._delete(tenant_id, [check_object_key(key)])

    def delete_many(self, tenant_id: str, keys: Sequence[str]) -> None:
        """Remove objects in one transaction."""
        if self._swept_at is None or self._stopwatch() - self._swept_at >= _ABANDONED_S:
            self._sweep()
        self._delete(tenant_id, keys)

    def _delete(self, tenant_id: str, keys: Sequence[str]) -> None:
        check_tenant(tenant_id)
        files: list[str] = []
        with self._store.transaction() as connection:
            for key in keys:
                row = connection.execute(
                    "DELETE FROM objects WHERE key = ? AND tenant = (SELECT number FROM tenants WHERE tenant = ?)"
                    " RETURNING file",
                    (key, tenant_id),
                ).fetchone()
                if row is not None:
                    files.append(row[0])
        for name in files:
            self._discard(name)

    def _sweep(self) -> None:
        """Remove files without a key, except recent ones, which may still be being written."""
        if not self._folder.is_dir():
            return
        self._swept_at = self._stopwatch()
        before = time.time() - _ABANDONED_S
        old: list[Path] = []
        for path in self._folder.iterdir():
            with contextlib.suppress(OSError):  # somebody else removed it
                if path.lstat().st_mtime < before:
                    old.append(path)
        if not old:
            return
        with self._store.read() as connection:
            named = {row[0] for row in connection.execute("SELECT file FROM objects")}
        for path in old:
            if path.name not in named and _RANDOM_NAME.fullmatch(path.name):
                _unlink(path)

    def _find(self, tenant_id: str, key: str) -> tuple[ObjectInfo, str] | None:
        with self._store.read() as connection:
            row = connection.execute(
                "SELECT size, version, file FROM objects JOIN tenants ON tenants.number = objects.tenant"
                " WHERE tenants.tenant = ? AND objects.key = ?",
                (tenant_id, key),
            ).fetchone()
        return None if row is None else (ObjectInfo(key=key, size_bytes=row[0], version=row[1]), row[2])

    def _discard(self, name: str) -> None:
        # If the transaction is rolled back, the file is still needed.
        self._store.after_commit(lambda: _unlink(self._folder / name))

    def _parts(self, tenant_id: str, info: ObjectInfo) -> Iterator[bytes]:
        """Yield one version of an object in parts, checking after each that it is still the stored one."""
        with self._open_file(tenant_id, info) as file:
            while True:
                with _translated_errors(self._folder):
                    part = file.read(PART_BYTES)
                found = self._find(tenant_id, info.key)
                if found is None or found[0].version != info.version:
                    raise _changed(info.key)
                if not part:
                    return
                yield part

    def _open_file(self, tenant_id: str, info: ObjectInfo) -> BinaryIO:
        missed = ""
        while True:
            found = self._find(tenant_id, info.key)
            if found is None or found[0].version != info.version:
                raise _changed(info.key)
            path = self._folder / found[1]
            try:
                with _translated_errors(path):
                    return path.open("rb")
            except ObjectMissing as error:
                # The object was written again with the same content since the look-up: another one finds the new file.
                if missed == path.name:
                    raise StoreCorrupt(
                        f"{path}, the file of object {info.key!r}, is gone; put the object again"
                    ) from error
                missed = path.name

    def _write(self, path: Path, content: bytes | BinaryIO) -> tuple[int, str]:
        """Write a file durably and return its size and SHA-256."""
        size, digest = 0, hashlib.sha256()
        with _translated_errors(path):
            path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
            file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE), "wb", buffering=0)
        with file:
            for part in parts_of(content, PART_BYTES):  # an error of the caller's stream stays the caller's
                size += len(part)
                digest.update(part)
                with _translated_errors(path):
                    _write_whole(file, part)
            with _translated_errors(path):
                os.fsync(file.fileno())
                _sync_folder(path.parent)
        return size, digest.hexdigest()


def _changed(key: str) -> ObjectChanged:
    return ObjectChanged(f"object {key!r} changed while it was read; read it again from its beginning")


def _write_whole(file: RawIOBase, part: bytes) -> None:
    left = memoryview(part)
    while left:
        left = left[file.write(left) or 0 :]


def _sync_folder(folder: Path) -> None:
    """Flush the folder to the disk: it holds a new file's name."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unlink(path: Path) -> None:
    with contextlib.suppress(OSError):  # no key refers to it: it only takes space
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _translated_errors(path: Path) -> Iterator[None]:
    """Convert OSErrors in the block to Braid's errors."""
    try:
        yield
    except FileNotFoundError as error:
        raise ObjectMissing(f"{path} does not exist") from error
    except OSError as error:
        raise file_error(error, path) from error
