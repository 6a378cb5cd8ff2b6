"""SQLite's errors as Braid's, each with what to change."""

from __future__ import annotations

import errno
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from braid.errors import StoreCorrupt, StoreError, StoreFull, StoreReadOnly, StoreTooSlow, TransientStoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PRIMARY = 0xFF  # an extended result code carries its primary code in the low byte
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_FULL_DISK = {errno.ENOSPC, errno.EDQUOT}
_NOT_ALLOWED = {errno.EACCES, errno.EPERM, errno.EROFS}


@contextmanager
def mapped(path: Path) -> Iterator[None]:
    """Raise Braid's error for whatever SQLite raises inside; errors of other things pass, as a caller's own files may.

    Raises
    ------
    StoreFull, StoreReadOnly, StoreCorrupt, StoreTooSlow, TransientStoreError, StoreError
        As :func:`explain` chooses.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise explain(error, path) from error


def explain(error: sqlite3.Error, path: Path) -> StoreError:
    """Return the error to raise for one of SQLite's, naming the file and the remedy."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & _PRIMARY if code is not None else None
    if primary == sqlite3.SQLITE_FULL:
        return StoreFull(f"{path}: no space left; free some space on its device or set BRAID_HOME to another one")
    if primary == sqlite3.SQLITE_READONLY:
        return StoreReadOnly(f"{path} cannot be written; make the file and its folder writable or set BRAID_HOME")
    if primary in _DAMAGED:
        return StoreCorrupt(f"{path} is damaged ({error}); move it away, then ingest again")
    if primary == sqlite3.SQLITE_INTERRUPT:
        return StoreTooSlow(f"{path}: the time that a request has was over before all was read")
    if primary in _BUSY:
        return TransientStoreError(f"{path} is locked by another process that writes; try again")
    if primary == sqlite3.SQLITE_CANTOPEN:
        return StoreError(f"{path} cannot be opened; check that its folder exists and may be read and written")
    if primary == sqlite3.SQLITE_IOERR:
        return StoreError(f"{path}: reading or writing failed ({error}); check its device and the space left on it")
    return StoreError(f"{path}: {error}")


def explain_file_system(error: OSError, path: Path) -> StoreError:
    """Return the error to raise for one of the file system's, naming the path and the remedy."""
    if error.errno in _FULL_DISK:
        return StoreFull(f"{path}: no space left; free some space on its device or set BRAID_HOME to another one")
    if error.errno in _NOT_ALLOWED:
        return StoreReadOnly(f"{path} cannot be written; make its folder writable or set BRAID_HOME to another one")
    return StoreError(f"{path}: {error.strerror or error}")
