"""The embedded job store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.engines.embedded.tables import read_global, write_global
from braid.ports.job_store import JobRecord

if TYPE_CHECKING:
    from braid.engines.embedded.store import EmbeddedStore

_JOB = "job:"


class EmbeddedJobStore:
    """Job records in SQLite; implements :class:`braid.ports.job_store.JobStore`."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store

    def get(self, name: str) -> JobRecord | None:
        """Return a job as last written, None when there is none."""
        with self._store.read() as connection:
            found = read_global(connection, _JOB + name)
        return None if found is None else JobRecord(name=name, revision=found[0], body=found[1])

    def put(self, record: JobRecord) -> bool:
        """Write a job if its revision is the next one."""
        with self._store.transaction() as connection:
            found = read_global(connection, _JOB + record.name)
            if record.revision != (found[0] if found else 0) + 1:
                return False
            write_global(connection, _JOB + record.name, record.revision, record.body)
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
