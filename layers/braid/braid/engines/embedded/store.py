"""The SQLite store of the embedded engines: connections, transactions and tenants.

Index and graph of a write are one transaction of it: :mod:`braid.ingestion.writing` begins it, by ``transaction`` of
:mod:`braid.opened_engines`.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self

from braid.deadline import suspended
from braid.engines.embedded import graph_change_log
from braid.engines.embedded.sqlite_files import StoreFiles, connect, translated_errors
from braid.engines.embedded.table_creation_and_upgrades import bring_up_to_date
from braid.engines.embedded.tables import FORMAT, read_global, write_global
from braid.errors import StoreCorrupt, StoreError, StoreReadOnly, TransientStoreError
from braid.settings import Journal
from braid.settings.folders import DATABASE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from braid.engines.embedded.sqlite_files import Connection, LastCommit

VECTORS = "vectors"
"""Folder of the vector graphs' files, whose names begin with a tenant's number."""
BUSY_TIMEOUT_MS = 5_000
"""How long a writer waits for another process's transaction before ``TransientStoreError``."""
_COMMITS = "commits"
_FORK_S = 5.0
"""How long a fork waits for other threads' connections."""
_OPEN: weakref.WeakSet[EmbeddedStore] = weakref.WeakSet()
_FORK: Final = threading.Lock()
"""Held by the thread that forks, or changes which stores are open."""
_IN_USE_AT_FORK: set[Path] = set()
"""Databases of which this process inherited connections in use."""


class EmbeddedStore:
    """A folder with ``braid.db``, shared by the embedded engines; safe to use from several threads and processes.

    Each reader has a connection of its own and sees one snapshot. Writers queue: in this process behind a lock,
    between processes behind SQLite's. With ``synchronous=FULL`` a transaction is on the disk when it returns, so that
    neither ``kill -9`` nor a power cut loses what was acknowledged. A forked process opens a store of its own.

    Parameters
    ----------
    folder
        Folder of the store; created when missing.
    read_only
        True refuses every write. A folder without write permission is always opened read-only.
    journal
        Journal mode; the same for all processes that use the store at the same time.

    Raises
    ------
    StoreError
        If there is no store to read, or it was written by a newer Braid.
    StoreReadOnly
        If there is no store and none can be made.
    StoreCorrupt
        If the file is not a database, or lacks commits that were acknowledged.
    """

    def __init__(self, folder: Path, *, read_only: bool = False, journal: Journal = Journal.WAL) -> None:
        self.folder = folder
        self.path = folder / DATABASE
        self._files = StoreFiles(self.path, journal)
        self._idle: list[Connection] = []
        self._pool_lock = threading.Condition()
        self._lent = 0
        self._paused = self._forking = False
        self._write_lock = threading.RLock()
        self._local = threading.local()
        self._numbers: dict[str, int] = {}
        self._counted = 0
        self._closed = False
        self._process = os.getpid()
        weakref.finalize(self, _close_all, self._idle)
        if self.path.absolute() in _IN_USE_AT_FORK:
            raise StoreError(
                f"{self.path} was in use when this process was forked; fork while no other thread uses it, or start "
                "processes by multiprocessing.get_context('spawn')"
            )
        last = self._files.last_commit()  # before the database is read, whose commits only grow
        self._files.require_database(last)
        if not self.path.exists():
            if read_only:
                raise StoreError(f"{self.path} does not exist; ingest something first or set BRAID_HOME")
            self._files.create()
        self.read_only = read_only or not (os.access(folder, os.W_OK) and os.access(self.path, os.W_OK))
        with translated_errors(self.path):
            if not self.read_only:
                self._files.make_private()
                self._prepare(last)
            with self.read() as connection:
                self.identity: str = connection.execute("SELECT store FROM identity").fetchone()[0]
                commits, size = _stored_commits(connection), self._files.committed_size(connection)
            self._files.require_commits(last, self.identity, commits)
        self._counted = commits
        if not self.read_only:
            self._files.record_commit(self.identity, commits, size)
        with _FORK:
            _OPEN.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; one in use is closed when it is returned."""
        if self._process != os.getpid():
            return
        with self._pool_lock:
            self._closed = True
            self._pool_lock.notify_all()
            _close_all(self._idle)

    def pause(self, *, wait_s: float) -> bool:
        """Block threads that need a connection until :meth:`resume`, and wait for those in use to be returned.

        A process that is frozen while paused holds no lock of the database. Returns False if a connection was not
        returned within ``wait_s`` seconds.
        """
        with self._pool_lock:
            self._paused = True
            return self._pool_lock.wait_for(lambda: not self._lent, wait_s)

    def resume(self) -> None:
        """Lend connections again."""
        with self._pool_lock:
            self._paused = False
            self._pool_lock.notify_all()

    @property
    def in_transaction(self) -> bool:
        """Whether this thread is inside :meth:`transaction`, and so sees its uncommitted writes."""
        return getattr(self._local, "writing", None) is not None

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Lend a connection with a snapshot of the store; inside a transaction, that transaction's connection."""
        writing: Connection | None = getattr(self._local, "writing", None)
        if writing is not None:
            with translated_errors(self.path):
                yield writing
            return
        with translated_errors(self.path):
            connection = self._lend()
            try:
                connection.execute("BEGIN")
                self._require_format(connection)
                yield connection
            finally:
                self._give_back(connection)

    @contextmanager
    def read_tenant(self, tenant_id: str) -> Iterator[tuple[Connection, int | None]]:
        """Lend a connection as :meth:`read` does, with the tenant's number; None if nothing was ever stored for it."""
        with self.read() as connection:
            yield connection, self.tenant_number(connection, tenant_id)

    @contextmanager
    def transaction(self, *, wait_ms: int | None = None, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """Begin a write transaction, shared by all engines of this store.

        Transactions nest: if an inner one fails, the outer one is rolled back too, even if the error is caught, and
        later writes in it raise StoreError. Savepoints instead would cost more than the rows of a write: while one is
        open, SQLite keeps a copy of every page for each row whose triggers may fail.

        Raises StoreReadOnly if the store is read-only, and TransientStoreError if others write for longer.

        Parameters
        ----------
        wait_ms
            How long to wait for other writers. None waits without limit for writers of this process, and 5 s for other
            processes.
        durable
            False does not wait for the disk: a power cut may lose this transaction, but no earlier one. Not for writes
            to a graph: only durable transactions maintain its counts and its log.
        """
        if self.read_only:
            raise StoreReadOnly(
                f"{self.path} is open for reading only; make the file and its folder writable or set BRAID_HOME"
            )
        # A deadline does not interrupt a transaction that has begun.
        with suspended(), self._writer_lock(wait_ms), translated_errors(self.path):
            outer: sqlite3.Connection | None = getattr(self._local, "writing", None)
            if outer is not None:
                self._require_open(outer)
                with _undone_if_it_fails(outer):
                    yield outer
                return
            connection = self._lend()
            self._local.after_commit = []
            commits, size = None, None
            try:
                if wait_ms is not None:
                    connection.execute(f"PRAGMA busy_timeout = {wait_ms:d}")
                if not durable:
                    connection.execute("PRAGMA synchronous = NORMAL")
                else:
                    graph_change_log.watch(connection)
                connection.execute("BEGIN IMMEDIATE")
                self._require_format(connection)
                self._local.writing = connection
                before = connection.total_changes
                yield connection
                self._require_open(connection)
                if connection.total_changes > before:
                    commits, size = self._prepare_commit(connection, durable=durable)
                connection.execute("COMMIT")
            finally:
                self._local.writing = None
                if wait_ms is not None:
                    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS:d}")
                self._give_back(connection, durable=durable)
            if commits is not None:
                self._counted = commits
                self._files.record_commit(self.identity, commits, size)
            actions = self._local.after_commit
        with suspended():
            for action in actions:  # meanwhile others write
                action()

    def _require_open(self, connection: sqlite3.Connection) -> None:
        if not connection.in_transaction:
            raise StoreError(f"{self.path}: this transaction failed before and wrote nothing; begin another one")

    def after_commit(self, action: Callable[[], None]) -> None:
        """Run an action after the commit of this thread's open transaction, or at once if there is none."""
        if self.in_transaction:
            self._local.after_commit.append(action)
        else:
            action()

    def _prepare_commit(self, connection: Connection, *, durable: bool) -> tuple[int | None, int | None]:
        """Update counts and logs with the changes; return the number of commits and the size after this commit."""
        if not durable:
            return None, None
        graph_change_log.record(connection)
        # Only durable commits are counted: others may be lost in a power cut.
        return self._count_commit(connection), self._files.committed_size(connection)

    def _count_commit(self, connection: sqlite3.Connection) -> int:
        """Count this commit and return the number of commits; raise StoreCorrupt if commits were lost meanwhile."""
        commits = _stored_commits(connection) + 1
        if commits <= self._counted:
            raise StoreCorrupt(
                f"{self.path} lacks commits that it had while it was open; restore a copy of the whole folder"
            )
        write_global(connection, _COMMITS, commits, "")
        return commits

    @contextmanager
    def _writer_lock(self, wait_ms: int | None) -> Iterator[None]:
        """Hold the lock of this process's writers."""
        if not self._write_lock.acquire(timeout=-1 if wait_ms is None else wait_ms / 1000):
            raise TransientStoreError(f"{self.path} is being written; try again")
        try:
            yield
        finally:
            self._write_lock.release()

    def _let_go(self) -> None:
        """Close all connections before this process is forked: a child has them without their locks.

        SQLite would take the child for nobody, and remove its log when this process closes the store.
        """
        with self._pool_lock:
            self._forking = True
            self._pool_lock.wait_for(lambda: not self._lent, _FORK_S)
            _close_all(self._idle)

    def _go_on(self) -> None:
        """Lend connections again after a fork."""
        with self._pool_lock:
            self._forking = False
            self._pool_lock.notify_all()

    def _inherited(self) -> None:
        """Note in a forked process that connections in use were inherited."""
        if self._lent or self._idle:  # one was returned after the wait
            _IN_USE_AT_FORK.add(self.path.absolute())

    def _lend(self) -> Connection:
        if self._process != os.getpid():
            raise StoreError(f"{self.path} was opened before this process was forked; open it anew in this one")
        with self._pool_lock:
            self._pool_lock.wait_for(lambda: self._closed or not (self._paused or self._forking))
            if self._closed:
                raise StoreError(f"{self.path} was closed")
            if self._idle:
                self._files.require_unchanged(self._idle[-1].files)
            self._lent += 1
            if self._idle:
                return self._idle.pop()
        try:
            return self._connect()
        except BaseException:
            self._returned()
            raise

    def _returned(self) -> None:
        with self._pool_lock:
            self._lent -= 1
            self._pool_lock.notify_all()

    def _give_back(self, connection: Connection, *, durable: bool = True) -> None:
        # A transaction that is still open is a reader's snapshot or failed.
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            while connection.lasting:
                connection.execute(connection.lasting.pop())
            if not durable:
                connection.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error:
            connection.close()
            self._returned()
            return
        with self._pool_lock:
            if self._closed:
                connection.close()
            else:
                self._idle.append(connection)
        self._returned()

    def _connect(self) -> Connection:
        return connect(self._files, read_only=self.read_only, busy_timeout_ms=BUSY_TIMEOUT_MS)

    def _prepare(self, last: LastCommit | None) -> None:
        connection = self._lend()
        try:
            connection.execute(f"PRAGMA journal_mode = {self._files.journal}")
            if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                self._files.require_commits(last, "", 0)
            connection.files = self._files.file_states()
            if connection.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
                connection.execute("BEGIN IMMEDIATE")
                bring_up_to_date(connection)
                connection.execute("COMMIT")
        finally:
            self._give_back(connection)

    def _require_format(self, connection: Connection) -> None:
        """Refuse a store of another format; a newer Braid may have upgraded it since it was opened."""
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found in range(1, FORMAT):
            raise StoreError(
                f"{self.path} has format {found}; open it once where it can be written, to bring it to {FORMAT}"
            )
        if found != FORMAT:
            raise StoreError(
                f"{self.path} has format {found}, this version reads {FORMAT}; "
                "install the Braid that wrote it, and start again"
            )

    def tenant_number(self, connection: sqlite3.Connection, tenant: str) -> int | None:
        """Return a tenant's number; None if nothing was ever stored for it."""
        known = self._numbers.get(tenant)
        if known is not None:
            return known
        row = connection.execute("SELECT number FROM tenants WHERE tenant = ?", (tenant,)).fetchone()
        if row is None:
            return None
        if not self.in_transaction:  # an uncommitted number may be rolled back and given to another tenant
            self._numbers[tenant] = row[0]
        return int(row[0])

    def ensure_tenant_number(self, connection: sqlite3.Connection, tenant: str) -> int:
        """Return a tenant's number, assigning one if needed; called inside a transaction."""
        number = self.tenant_number(connection, tenant)
        if number is None:
            number = connection.execute("INSERT INTO tenants (tenant) VALUES (?)", (tenant,)).lastrowid
            if number is None:  # pragma: no cover - SQLite gives every row a number
                raise StoreError(f"{self.path}: no number for tenant {tenant}")
        return number

    def tenants(self) -> list[str]:
        """Return the tenants that have a record or a vertex, in order."""
        with self.read() as connection:
            rows = connection.execute(
                "SELECT tenant FROM tenants WHERE EXISTS (SELECT 1 FROM records WHERE records.tenant = tenants.number)"
                " OR EXISTS (SELECT 1 FROM vertices WHERE vertices.tenant = tenants.number) ORDER BY tenant"
            )
            return [row[0] for row in rows]


def _before_fork() -> None:
    _FORK.acquire()  # until the fork is over: threads may fork at once
    for store in list(_OPEN):
        store._let_go()  # noqa: SLF001 - of this module


def _after_fork() -> None:
    for store in list(_OPEN):
        store._go_on()  # noqa: SLF001
    _FORK.release()


def _in_child() -> None:
    for store in list(_OPEN):
        store._inherited()  # noqa: SLF001
    _OPEN.clear()  # a fork of this process would wait for threads that it does not have
    _FORK.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)


def _close_all(connections: list[Connection]) -> None:
    while connections:
        connections.pop().close()


def _stored_commits(connection: sqlite3.Connection) -> int:
    """Return the number of counted commits; 0 in a file of a format that did not count them."""
    found = read_global(connection, _COMMITS)
    return 0 if found is None else found[0]


@contextmanager
def _undone_if_it_fails(connection: sqlite3.Connection) -> Iterator[None]:
    """Roll the whole transaction back if the block fails."""
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # some errors, such as a full disk, end it themselves
            connection.execute("ROLLBACK")
        raise
