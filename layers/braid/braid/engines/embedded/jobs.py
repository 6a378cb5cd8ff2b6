"""Jobs in the embedded engines' file, and a note that belongs to no tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.ports.job_store import JobRecord

if TYPE_CHECKING:
    import sqlite3

    from braid.engines.embedded.store import EmbeddedStore

_JOB = "job:"


def read_note(connection: sqlite3.Connection, name: str) -> tuple[int, str] | None:
    """Return a note's revision and content; None when there is none, as in a file of an older format."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'notes'").fetchone():
        return None
    row = connection.execute("SELECT revision, content FROM notes WHERE name = ?", (name,)).fetchone()
    return None if row is None else (int(row[0]), str(row[1]))


def write_note(connection: sqlite3.Connection, name: str, revision: int, content: str) -> None:
    """Write a note, inside a transaction."""
    connection.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", (name, revision, content))


class EmbeddedJobStore:
    """Job records in SQLite; implements :class:`braid.ports.job_store.JobStore`."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store

    def get(self, name: str) -> JobRecord | None:
        """Return a job as last written, None when there is none."""
        with self._store.read() as connection:
            found = read_note(connection, _JOB + name)
        return None if found is None else JobRecord(name=name, revision=found[0], body=found[1])

    def put(self, record: JobRecord) -> bool:
        """Write a job if its revision is the next one."""
        with self._store.transaction() as connection:
            found = read_note(connection, _JOB + record.name)
            if record.revision != (found[0] if found else 0) + 1:
                return False
            write_note(connection, _JOB + record.name, record.revision, record.body)
            return True

    def names(self) -> list[str]:
        """Return the names of all jobs, in order."""
        with self._store.read() as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'notes'").fetchone():
                return []
            rows = connection.execute("SELECT name FROM notes WHERE name >= ? AND name < ?", (_JOB, "job;"))
            return sorted(str(row[0]).removeprefix(_JOB) for row in rows)

    def remove(self, name: str) -> bool:
        """Remove a job and return whether there was one."""
        with self._store.transaction() as connection:
            return connection.execute("DELETE FROM notes WHERE name = ?", (_JOB + name,)).rowcount > 0
