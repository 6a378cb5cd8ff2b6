"""Small tables of the embedded store: the cache, schema versions, memberships and jobs."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from braid.engines.embedded.tables import read_global, to_microseconds, write_global
from braid.engines.embedded.write_generations import Generation
from braid.errors import TransientStoreError
from braid.ports.cache import MAX_CACHE_VALUE_BYTES, check_ttl, check_value_key, counter_key
from braid.ports.keys import check_tenant
from braid.ports.members import Membership, Role
from braid.ports.reembedding import JobRecord
from braid.ports.schema_registry import SchemaVersion, check_next
from braid.telemetry.recording import store_calls

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from braid.engines.embedded.store import EmbeddedStore


PUT_WAIT_MS = 100
"""How long :meth:`EmbeddedCache.put` waits for another writer, as an answer must not wait for an ingest."""
COUNT_WAIT_MS = 2_000
"""How long :meth:`EmbeddedCache.count` waits for another writer."""
NO_WAIT_S = 1.0
"""How long after waiting in vain :meth:`EmbeddedCache.put` does not wait at all."""
REMOVED_AT_ONCE = 50
"""Most values that one transaction removes (a fifth of a second for the largest ones), so that no single caller waits
for the removal of all expired values."""


def _now() -> datetime:
    return datetime.now(UTC)


@store_calls("sqlite")
class EmbeddedCache:
    """Values in SQLite; implements :class:`braid.ports.cache.Cache`.

    The generation counts every write to the tenant's records, graph and schema, inside the transaction of the write.
    """

    def __init__(
        self,
        store: EmbeddedStore,
        *,
        clock: Callable[[], datetime] = _now,
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._clock = clock
        self._stopwatch = stopwatch
        self._no_wait_until = float("-inf")

    def get(self, tenant_id: str, key: str, *, consistent: bool = False) -> bytes | None:  # noqa: ARG002 - always is
        """Return the cached value; None when there is none, or it has expired."""
        check_tenant(tenant_id)
        check_value_key(key)
        with self._store.read() as connection:
            row = connection.execute(
                "SELECT content FROM cache JOIN tenants ON tenants.number = cache.tenant"
                " WHERE tenants.tenant = ? AND cache.key = ? AND cache.expires_at > ?",
                (tenant_id, key, to_microseconds(self._clock())),
            ).fetchone()
            return _bytes(row)

    def put(self, tenant_id: str, key: str, value: bytes, ttl_s: int) -> None:
        """Cache a value for ``ttl_s`` seconds; one that is too large is not cached and removes the old one.

        A value is not cached either while another writer takes longer than :data:`PUT_WAIT_MS`. That is no error:
        the cache can still be read, and an error would make callers stop using it whenever much is written.
        """
        check_tenant(tenant_id)
        check_value_key(key)
        expires_at = self._clock() + timedelta(seconds=check_ttl(ttl_s))
        wait_ms = 0 if self._stopwatch() < self._no_wait_until else PUT_WAIT_MS
        try:
            # Not durable: a value lost in a power cut is computed again, and a question does not wait for the disk.
            with self._store.transaction(wait_ms=wait_ms, durable=False) as connection:
                tenant = self._store.ensure_tenant_number(connection, tenant_id)
                _remove(connection, "expires_at <= ?", to_microseconds(self._clock()))
                connection.execute("DELETE FROM cache WHERE tenant = ? AND key = ?", (tenant, key))
                if len(value) <= MAX_CACHE_VALUE_BYTES:
                    row = (tenant, key, to_microseconds(expires_at), value)
                    connection.execute("INSERT INTO cache VALUES (?, ?, ?, ?)", row)
        except TransientStoreError:
            self._no_wait_until = self._stopwatch() + NO_WAIT_S

    def exchange(
        self, tenant_id: str, key: str, expected: bytes | None, value: bytes | None, ttl_s: int
    ) -> bytes | None:
        """Compare and set: cache ``value`` if the cached one equals ``expected``, and return the previous one."""
        check_tenant(tenant_id)
        check_value_key(key)
        now = to_microseconds(self._clock())
        expires_at = to_microseconds(self._clock() + timedelta(seconds=check_ttl(ttl_s)))
        with self._store.transaction() as connection:
            tenant = self._store.ensure_tenant_number(connection, tenant_id)
            row = connection.execute(
                "SELECT content FROM cache WHERE tenant = ? AND key = ? AND expires_at > ?", (tenant, key, now)
            ).fetchone()
            kept = _bytes(row)
            if kept == expected:
                _remove(connection, "expires_at <= ?", now)
                connection.execute("DELETE FROM cache WHERE tenant = ? AND key = ?", (tenant, key))
                if value is not None and len(value) <= MAX_CACHE_VALUE_BYTES:
                    connection.execute("INSERT INTO cache VALUES (?, ?, ?, ?)", (tenant, key, expires_at, value))
            return kept

    def count(self, tenant_id: str, key: str, amount: int, window_s: int, *, ago: int = 0) -> int:
        """Add to a counter of a window and return its sum."""
        check_tenant(tenant_id)
        now = self._clock()
        name = counter_key(key, window_s, now.timestamp(), ago)
        expires_at = to_microseconds(now + timedelta(seconds=2 * window_s))
        with self._store.transaction(wait_ms=COUNT_WAIT_MS, durable=False) as connection:
            tenant = self._store.ensure_tenant_number(connection, tenant_id)
            _remove(connection, "expires_at <= ?", to_microseconds(now))
            row = connection.execute(
                "INSERT INTO cache VALUES (?, ?, ?, ?) ON CONFLICT (tenant, key)"
                " DO UPDATE SET content = content + excluded.content RETURNING content",
                (tenant, name, expires_at, amount),
            ).fetchone()
            return int(row[0])

    def generation(self, tenant_id: str) -> int:
        """Return the tenant's write generation, which every write increases."""
        check_tenant(tenant_id)
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            return 0 if tenant is None else _generation(connection, tenant)

    def advance(self, tenant_id: str) -> int:
        """Begin a new generation and return it, inside the transaction of a write if there is one."""
        check_tenant(tenant_id)
        with self._store.transaction() as connection:
            tenant = self._store.ensure_tenant_number(connection, tenant_id)
            Generation.RECORDS.advance(connection, tenant)
            return _generation(connection, tenant)

    def forget(self, tenant_id: str) -> int:
        """Remove every value of a tenant and return how many there were."""
        check_tenant(tenant_id)
        removed, some = 0, REMOVED_AT_ONCE
        while some == REMOVED_AT_ONCE:
            with self._store.transaction() as connection:
                some = _remove(connection, "tenant = ?", self._store.tenant_number(connection, tenant_id))
            removed += some
        return removed


def _bytes(row: tuple[object] | None) -> bytes | None:
    """Return a value that was read; None if it is not one that a cache wrote."""
    return row[0] if row is not None and isinstance(row[0], bytes) else None


def _remove(connection: sqlite3.Connection, condition: str, value: int | None) -> int:
    """Remove a batch of the values that meet a condition, and return how many there were."""
    return connection.execute(
        f"DELETE FROM cache WHERE rowid IN (SELECT rowid FROM cache WHERE {condition} LIMIT ?)",  # noqa: S608 - of ours
        (value, REMOVED_AT_ONCE),
    ).rowcount


def _generation(connection: sqlite3.Connection, tenant: int) -> int:
    """Return the sum of both counters of a tenant, which increases when either does."""
    return Generation.RECORDS.read(connection, tenant) + Generation.GRAPH.read(connection, tenant)


@store_calls("sqlite")
class EmbeddedSchemaRegistry:
    """Schema versions in SQLite; implements :class:`braid.ports.schema_registry.SchemaRegistry`."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store

    def register(self, schema: SchemaVersion) -> None:
        """Write the next version; writing one again with the same content does nothing."""
        with self._store.transaction() as connection:
            tenant = self._store.ensure_tenant_number(connection, schema.tenant_id)
            if check_next(schema, _versions(connection, tenant)):
                connection.execute(
                    "INSERT INTO schemas VALUES (?, ?, ?)", (tenant, schema.version, schema.model_dump_json())
                )
                # Cached answers depend on the current version.
                Generation.RECORDS.advance(connection, tenant)

    def current(self, tenant_id: str) -> int:
        """Return the newest version, 1 when none is registered."""
        with self._store.read() as connection:
            row = connection.execute(
                "SELECT coalesce(max(version), 1) FROM schemas JOIN tenants ON tenants.number = schemas.tenant"
                " WHERE tenants.tenant = ?",
                (tenant_id,),
            ).fetchone()
            return int(row[0])

    def versions(self, tenant_id: str) -> list[SchemaVersion]:
        """Return all versions, oldest first."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            return [] if tenant is None else _versions(connection, tenant)

    def forget(self, tenant_id: str) -> int:
        """Remove all versions of a tenant and return how many there were."""
        with self._store.transaction() as connection:
            tenant = self._store.tenant_number(connection, tenant_id)
            if tenant is None:
                return 0
            removed = connection.execute("DELETE FROM schemas WHERE tenant = ?", (tenant,)).rowcount
            Generation.RECORDS.advance(connection, tenant)
            return removed


def _versions(connection: sqlite3.Connection, tenant: int) -> list[SchemaVersion]:
    rows = connection.execute("SELECT body FROM schemas WHERE tenant = ? ORDER BY version", (tenant,))
    return [SchemaVersion.model_validate_json(row[0]) for row in rows]


_MEMBERS = """
CREATE TABLE IF NOT EXISTS members (
    subject TEXT NOT NULL,
    tenant TEXT NOT NULL,
    role TEXT NOT NULL,
    PRIMARY KEY (subject, tenant)
) WITHOUT ROWID
"""


class EmbeddedMembers:
    """Memberships in SQLite; implements :class:`braid.ports.members.MembershipStore`.

    Most stores have none, so the table is made with the first membership.
    """

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store

    def role(self, subject: str, tenant_id: str) -> Role | None:
        """Return a subject's role in a tenant; None when it is no member."""
        return next((found.role for found in self.of(subject) if found.tenant_id == tenant_id), None)

    def of(self, subject: str) -> list[Membership]:
        """Return a subject's memberships, in the order of the tenants' names."""
        with self._store.read() as connection:
            if not _has_members(connection):
                return []
            rows = connection.execute(
                "SELECT tenant, role FROM members WHERE subject = ? ORDER BY tenant", (subject,)
            ).fetchall()
        return [Membership(subject=subject, tenant_id=tenant, role=Role(role)) for tenant, role in rows]

    def add(self, membership: Membership) -> None:
        """Write a membership, which replaces the subject's role in that tenant."""
        with self._store.transaction() as connection:
            connection.execute(_MEMBERS)
            connection.execute(
                "INSERT INTO members VALUES (?, ?, ?) ON CONFLICT (subject, tenant) DO UPDATE SET role = excluded.role",
                (membership.subject, membership.tenant_id, membership.role.value),
            )

    def remove(self, subject: str, tenant_id: str) -> bool:
        """Remove a membership and return whether there was one."""
        with self._store.transaction() as connection:
            if not _has_members(connection):
                return False
            done = connection.execute("DELETE FROM members WHERE subject = ? AND tenant = ?", (subject, tenant_id))
            return done.rowcount > 0

    def forget(self, tenant_id: str) -> int:
        """Remove every membership in a tenant and return how many there were."""
        with self._store.transaction() as connection:
            if not _has_members(connection):
                return 0
            return connection.execute("DELETE FROM members WHERE tenant = ?", (tenant_id,)).rowcount


def _has_members(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'members'").fetchone() is not None


_JOB = "job:"


class EmbeddedJobStore:
    """Job records in SQLite; implements :class:`braid.ports.reembedding.JobStore`."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store

    def get(self, name: str) -> JobRecord | None:
        """Return a job as last written; None when there is none."""
        with self._store.read() as connection:
            found = read_global(connection, _JOB + name)
        return None if found is None else JobRecord(name=name, revision=found[0], body=found[1])

    def put(self, record: JobRecord) -> bool:
        """Write a job if its revision is the next one, and return whether it was."""
        with self._store.transaction() as connection:
            found = read_global(connection, _JOB + record.name)
            if record.revision != (found[0] if found else 0) + 1:
                return False
            write_global(connection, _JOB + record.name, record.revision, record.body)
            return True

    def names(self) -> list[str]:
        """Return the names of all jobs, in order."""
        with self._store.read() as connection:
            rows = connection.execute("SELECT name FROM notes WHERE name >= ? AND name < ?", (_JOB, "job;"))
            return sorted(str(row[0]).removeprefix(_JOB) for row in rows)

    def remove(self, name: str) -> bool:
        """Remove a job and return whether there was one."""
        with self._store.transaction() as connection:
            return connection.execute("DELETE FROM notes WHERE name = ?", (_JOB + name,)).rowcount > 0
