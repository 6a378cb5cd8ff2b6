"""SQLite connections of an embedded store, and SQLite's errors as Braid's."""

from __future__ import annotations

import math
import sqlite3
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from braid.deadline import is_over, left
from braid.errors import StoreCorrupt, StoreError, StoreFull, StoreReadOnly, StoreTooSlow, TransientStoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from braid.engines.embedded.files import FileState, StoreFiles

_PRIMARY = 0xFF  # an extended result code carries its primary code in the low byte
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_CACHE_KIB = 16_384
_STEPS = 10_000
"""Steps of SQLite's virtual machine, less than a millisecond, between two checks of the deadline."""


class Connection(sqlite3.Connection):
    """A connection with the state of the files it opened."""

    files: dict[Path, FileState]


def connect(files: StoreFiles, *, read_only: bool, busy_timeout_ms: int) -> Connection:
    """Open a connection in autocommit mode to an existing database.

    The database is not mapped into memory: a mapped file that is cut kills the process.

    Raises
    ------
    StoreReadOnly
        If the write-ahead log has commits that cannot be read without write access.
    """
    connection = _read_only(files.path) if read_only else _open(files.path, "mode=rw")
    try:
        connection.execute(f"PRAGMA busy_timeout = {busy_timeout_ms:d}")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB:d}")
        connection.execute("PRAGMA mmap_size = 0")
        connection.set_progress_handler(is_over, _STEPS)
        if not read_only:
            connection.execute("PRAGMA synchronous = FULL")
        connection.execute("SELECT count(*) FROM sqlite_master")  # opens the log
        connection.files = files.file_states()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


@contextmanager
def interrupted_in_time(connection: sqlite3.Connection) -> Iterator[None]:
    """End statements when the deadline passes, however long each step of them takes.

    The progress handler counts steps, and FTS5 ranks a long text of nothing but the question's words in one.
    """
    seconds = left()
    if math.isinf(seconds):
        yield
        return
    timer = threading.Timer(seconds, connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # the connection is another request's next


def _read_only(path: Path) -> Connection:
    connection = _open(path, "mode=ro")
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError:
        connection.close()
        # In a folder that cannot be written SQLite can make no lock file. Without a log there is nothing to lock.
        log = path.with_name(f"{path.name}-wal")
        if log.exists() and log.stat().st_size:
            message = (
                f"{path} has an unfinished log and its folder cannot be written; "
                "make the folder writable once, or copy the folder to where it is"
            )
            raise StoreReadOnly(message) from None
        return _open(path, "mode=ro&immutable=1")
    return connection


def _open(path: Path, mode: str) -> Connection:
    uri = f"{path.absolute().as_uri()}?{mode}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, factory=Connection)


@contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Raise Braid's error for one that SQLite raises inside; other errors pass.

    Raises
    ------
    StoreFull, StoreReadOnly, StoreCorrupt, StoreTooSlow, TransientStoreError, StoreError
        As :func:`_store_error` chooses.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise _store_error(error, path) from error


def _store_error(error: sqlite3.Error, path: Path) -> StoreError:
    """Return the error to raise for one of SQLite, with the file and the remedy."""
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
