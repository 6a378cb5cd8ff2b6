"""Connections to the database of an embedded store."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from braid.deadline import is_over
from braid.errors import StoreReadOnly

if TYPE_CHECKING:
    from pathlib import Path

    from braid.engines.embedded.files import Opened, StoreFiles

_CACHE_KIB = 16_384
_STEPS = 10_000
"""Steps of SQLite's machine, less than a millisecond, between two looks at whether a statement's time is over."""


class Connection(sqlite3.Connection):
    """A connection that knows which files it opened."""

    files: dict[Path, Opened]


def connect(files: StoreFiles, *, read_only: bool, busy_timeout_ms: int) -> Connection:
    """Open a connection that commits nothing of itself, to a database that is there.

    The database is not mapped into memory: a mapped file that is cut kills the process.

    Raises
    ------
    StoreReadOnly
        If there is a log that is not in the database yet, and it cannot be read without writing.
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
        connection.files = files.opened()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


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
