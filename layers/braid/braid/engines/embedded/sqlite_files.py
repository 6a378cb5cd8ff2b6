"""The files of an embedded store, connections to them, and conversion of SQLite's errors to Braid's.

SQLite notices neither a log that lost its newest commits nor a database that was emptied, and continues to write to
files that were removed or replaced. So a small file beside the database records, after each commit, the store's
identity and its number of commits; and each connection keeps the inodes and sizes of the files that it opened.
"""

from __future__ import annotations

import errno
import logging
import mmap
import os
import sqlite3
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from braid.deadline import alarmed, is_over
from braid.errors import StoreCorrupt, StoreError, StoreFull, StoreReadOnly, StoreTooSlow, TransientStoreError
from braid.settings import Journal

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping
    from contextlib import AbstractContextManager
    from pathlib import Path


_LOG = logging.getLogger(__name__)

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
_FULL_DISK = {errno.ENOSPC, errno.EDQUOT}
_NOT_ALLOWED = {errno.EACCES, errno.EPERM, errno.EROFS}
_OTHERS = 0o077
GRAPHS: Final = "graphs"
_FOLDERS = ("vectors", GRAPHS, "objects")
_OURS = {*_FOLDERS, "models", "fitted.json", "eval"}
_AUDIT_LOGS = ("audit.", "audit-unknown.")
"""Name prefixes of audit logs, rotated ones included."""
_LINE_BYTES = 128
"""Length of the commit file: one line, so that a single write replaces it."""


class LastCommit(NamedTuple):
    """The content of the commit file: the database after its last recorded commit."""

    store: str
    commits: int
    size: int
    """Bytes of the database, which never shrinks."""


class FileState(NamedTuple):
    """Inode and size of a file as a connection last saw it."""

    inode: int
    size: int


class FileVersion(NamedTuple):
    """Inode, size and modification time of a memory-mapped file, by which a later change of it is detected."""

    inode: int
    size: int
    written_ns: int

    @classmethod
    def of(cls, path: Path) -> FileVersion:
        """Return the version of a file. Raises OSError if there is no such file."""
        status = path.stat()
        return cls(status.st_ino, status.st_size, status.st_mtime_ns)

    def is_changed(self, path: Path) -> bool:
        """Return whether the mapped file was modified; False if it was removed or replaced: its mapping stays valid."""
        try:
            now = self.of(path)
        except OSError:
            return False
        return now.inode == self.inode and now != self


class MappedFile(mmap.mmap):
    """A memory-mapped file that detects later changes of the file."""

    path: Path
    version: FileVersion

    def is_changed(self) -> bool:
        """Return whether the file was truncated, so that reading it would kill the process, or overwritten."""
        return self.size() < len(self) or self.version.is_changed(self.path)


class StoreFiles:
    """The database, SQLite's files beside it, and the commit file."""

    def __init__(self, path: Path, journal: Journal = Journal.WAL) -> None:
        self.path = path
        self.journal = journal
        self.commit_file = path.with_name(f"{path.name}-commits")
        self._memory = path.with_name(f"{path.name}-shm")
        self._journal_file = path.with_name(f"{path.name}-journal")
        self._all = (path, path.with_name(f"{path.name}-wal"), self._memory)

    def create(self) -> None:
        """Create the folder and an empty database if they are missing, accessible to their owner alone.

        Raises StoreError if they cannot be created.
        """
        try:
            self.path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE))  # SQLite gives its other files this mode
        except OSError as error:
            raise file_error(error, self.path.parent) from error

    def make_private(self) -> None:
        """Remove other users' permissions, which an older Braid or a copy may have left; a failure is logged."""
        for path in self._private():
            with suppress(FileNotFoundError):
                mode = stat.S_IMODE(path.stat().st_mode)
                if mode & _OTHERS:
                    try:
                        path.chmod(mode & ~_OTHERS)
                    except OSError as error:
                        _LOG.warning("%s can be read by other users of this machine: %s", path, error)

    def _private(self) -> Iterator[Path]:
        yield from (*self._all, self._journal_file, self.commit_file)
        folder = self.path.parent
        yield from (folder / name for name in _FOLDERS)
        names = {path.name for path in folder.iterdir()}
        if all(name in _OURS or name.startswith((self.path.name, *_AUDIT_LOGS)) for name in names):
            yield folder  # a folder with any other file may be used by others too

    def last_commit(self) -> LastCommit | None:
        """Return the content of the commit file; None when it is missing or unreadable."""
        with suppress(OSError, ValueError):
            store, commits, size = self.commit_file.read_text(encoding="ascii").split()
            return LastCommit(store, int(commits), int(size))
        return None

    def require_database(self, last: LastCommit | None) -> None:
        """Raise StoreCorrupt if the database is missing or shorter than recorded: SQLite may take it for a new one."""
        if last is None:
            return
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            raise self._lost(f"{self.path} is missing", last) from None
        if size < last.size:
            raise self._lost(f"{self.path} was cut from {last.size} to {size} bytes", last)

    def require_commits(self, last: LastCommit | None, store: str, commits: int) -> None:
        """Raise StoreCorrupt if the database is not the recorded one, or lacks acknowledged commits."""
        if last is None:
            return
        if store != last.store:
            raise self._lost(f"{self.path} is not the database that was written here", last)
        if commits < last.commits:
            lost = last.commits - commits
            raise self._lost(f"{self.path} lacks its newest {lost} commits, or its log with them", last)

    def _lost(self, what: str, last: LastCommit) -> StoreCorrupt:
        return StoreCorrupt(
            f"{what}; restore a copy of the whole folder, as it was after {last.commits} commits, "
            f"or remove {self.commit_file} to go on with what is there"
        )

    def committed_size(self, connection: sqlite3.Connection) -> int | None:
        """Return the size of the database in bytes after a connection's transaction; None with a write-ahead log.

        With a rollback journal the file may be longer during a transaction that is then rolled back.
        """
        if self.journal is Journal.WAL:
            return None
        pages, page_size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        return int(pages * page_size)

    def record_commit(self, store: str, commits: int, size: int | None) -> None:
        """Record a durable commit; a failure is logged, and only weakens later checks."""
        try:
            size = self.path.stat().st_size if size is None else size
            line = f"{store} {commits:d} {size:d}".ljust(_LINE_BYTES - 1) + "\n"
            descriptor = os.open(self.commit_file, os.O_WRONLY | os.O_CREAT, PRIVATE_FILE)
            try:
                os.pwrite(descriptor, line.encode("ascii"), 0)
            finally:
                os.close(descriptor)
        except OSError as error:
            _LOG.warning("%s cannot be written: %s", self.commit_file, error)

    def file_states(self) -> dict[Path, FileState]:
        """Return the states of the files of a connection that was just opened."""
        found: dict[Path, FileState] = {}
        for path in self._all:
            with suppress(FileNotFoundError):
                status = path.stat()
                found[path] = FileState(status.st_ino, status.st_size)
        return found

    def require_unchanged(self, opened: MutableMapping[Path, FileState]) -> None:
        """Raise StoreCorrupt if a file was removed, replaced or truncated since it was opened.

        SQLite's shared memory file, if truncated, is extended to its length again: reading a missing part of a mapped
        file kills the process, and SQLite rebuilds its content from zeros.
        """
        for path, before in opened.items():
            status = None
            with suppress(OSError):
                status = os.stat(path)  # noqa: PTH116 - three of each read, which pathlib makes twice as long
            if status is None or status.st_ino != before.inode:
                raise StoreCorrupt(
                    f"{path} was removed or replaced while it was open; stop this process, put it back, start again"
                )
            if status.st_size < before.size:
                if self.journal is not Journal.WAL:  # perhaps a rolled-back transaction had extended it
                    continue
                if path != self._memory:
                    raise StoreCorrupt(
                        f"{path} was cut from {before.size} to {status.st_size} bytes while it was open; "
                        "stop this process, restore a copy of the whole folder, start again"
                    )
                os.truncate(path, before.size)
            elif status.st_size > before.size:
                opened[path] = FileState(before.inode, status.st_size)


def remove_files(folder: Path, pattern: str) -> None:
    """Remove the files of a folder that match a pattern; failures are ignored."""
    for path in folder.glob(pattern):
        with suppress(OSError):
            path.unlink(missing_ok=True)


def file_error(error: OSError, path: Path) -> StoreError:
    """Return Braid's error for an OSError, with the path and the remedy."""
    if error.errno in _FULL_DISK:
        return StoreFull(f"{path}: no space left; free some space on its device or set BRAID_HOME to another one")
    if error.errno in _NOT_ALLOWED:
        return StoreReadOnly(f"{path} cannot be written; make its folder writable or set BRAID_HOME to another one")
    return StoreError(f"{path}: {error.strerror or error}; BRAID_HOME names another folder for the store")


_PRIMARY = 0xFF  # an extended result code carries its primary code in the low byte
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_CACHE_KIB = 16_384
_STEPS = 10_000
"""Steps of SQLite's virtual machine, less than a millisecond, between two checks of the deadline."""


class Connection(sqlite3.Connection):
    """A SQLite connection with the states of the files that it opened."""

    files: dict[Path, FileState]
    watched: bool = False
    """Whether triggers record its changes of graphs."""
    lasting: set[str]
    """Statements that create temporary tables, repeated after the reader's transaction, whose end undoes them."""


def connect(files: StoreFiles, *, read_only: bool, busy_timeout_ms: int) -> Connection:
    """Open a connection in autocommit mode to an existing database.

    The database is not mapped into memory: a mapped file that is cut kills the process.

    Raises StoreReadOnly if the write-ahead log has commits that cannot be read without write access.
    """
    connection = _read_only(files.path) if read_only else _open(files.path, "mode=rw")
    connection.lasting = set()
    try:
        connection.execute(f"PRAGMA busy_timeout = {busy_timeout_ms:d}")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB:d}")
        connection.execute("PRAGMA mmap_size = 0")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.set_progress_handler(is_over, _STEPS)
        if not read_only:
            connection.execute("PRAGMA synchronous = FULL")
            if files.journal is not Journal.WAL:  # which the database file records
                connection.execute(f"PRAGMA journal_mode = {files.journal}")
        connection.execute("SELECT count(*) FROM sqlite_master")  # opens the log
        connection.files = files.file_states()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def interrupted_in_time(connection: sqlite3.Connection) -> AbstractContextManager[None]:
    """Interrupt the connection's statements when the deadline passes, however long a single step takes.

    The progress handler counts steps, and FTS5 ranks in one step even a long text made of only the question's words.
    """
    return alarmed(connection.interrupt)


def _read_only(path: Path) -> Connection:
    connection = _open(path, "mode=ro")
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError:
        connection.close()
        # In a read-only folder SQLite cannot create a lock file. Without a log there is nothing to lock.
        if _is_unfinished(path):
            raise StoreReadOnly(
                f"{path} has an unfinished log and its folder cannot be written; "
                "make the folder writable once, or copy it to a place where it is writable"
            ) from None
        return _open(path, "mode=ro&immutable=1")
    return connection


def _is_unfinished(path: Path) -> bool:
    """Return whether a log has commits that the database lacks, or a journal has changes to roll back."""
    log, journal = path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-journal")
    if log.exists() and log.stat().st_size:
        return True
    with suppress(FileNotFoundError), journal.open("rb") as file:
        return file.read(1) not in (b"", b"\0")
    return False


def _open(path: Path, mode: str) -> Connection:
    uri = f"{path.absolute().as_uri()}?{mode}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, factory=Connection)


@contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Convert SQLite's errors in the block to Braid's; other errors pass.

    Raises StoreFull, StoreReadOnly, StoreCorrupt, StoreTooSlow, TransientStoreError or StoreError as
    :func:`_store_error` chooses.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise _store_error(error, path) from error


def _store_error(error: sqlite3.Error, path: Path) -> StoreError:
    """Return Braid's error for one of SQLite, with the file and the remedy."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & _PRIMARY if code is not None else None
    if primary == sqlite3.SQLITE_FULL:
        return StoreFull(f"{path}: no space left; free some space on its device or set BRAID_HOME to another one")
    if primary == sqlite3.SQLITE_READONLY:
        return StoreReadOnly(f"{path} cannot be written; make the file and its folder writable or set BRAID_HOME")
    if primary in _DAMAGED:
        return StoreCorrupt(f"{path} is damaged ({error}); move it away, then ingest again")
    if primary == sqlite3.SQLITE_INTERRUPT:
        return StoreTooSlow(f"{path}: the time limit of the request passed before all was read")
    if primary in _BUSY:
        return TransientStoreError(f"{path} is locked by another process that writes; try again")
    if primary == sqlite3.SQLITE_CANTOPEN:
        return StoreError(f"{path} cannot be opened; check that its folder exists and may be read and written")
    if primary == sqlite3.SQLITE_IOERR:
        return StoreError(f"{path}: reading or writing failed ({error}); check its device and the space left on it")
    return StoreError(f"{path}: {error}")
