"""The embedded cache."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from braid.engines.embedded.generations import Generation
from braid.engines.embedded.tables import to_microseconds
from braid.errors import TransientStoreError
from braid.ports.cache import MAX_CACHE_VALUE_BYTES, check_ttl, check_value_key, counter_key
from braid.ports.keys import check_tenant

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from braid.engines.embedded.store import EmbeddedStore

PATIENCE_MS = 100
"""How long keeping a value may wait for another writer: an answer must not wait for an ingest."""
COUNTING_MS = 2_000
"""How long counting may wait for another writer."""
IMPATIENT_S = 1.0
"""For so long after a wait that was in vain, values are kept only where that needs none."""


def _now() -> datetime:
    return datetime.now(UTC)


class EmbeddedCache:
    """Values in SQLite; implements :class:`braid.ports.cache.Cache`.

    The generation counts the writes to the tenant's records, graph and schema themselves, in the transaction of each,
    so that a write that nobody announced outdates what is kept as well.

    Parameters
    ----------
    store
        Where values lie.
    clock
        Returns the present moment, in UTC.
    stopwatch
        Seconds of a clock that never goes back.
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
        self._impatient_until = float("-inf")

    def get(self, tenant_id: str, key: str) -> bytes | None:
        """Return what is kept; None when nothing is, or it has expired."""
        check_tenant(tenant_id)
        check_value_key(key)
        with self._store.read() as connection:
            row = connection.execute(
                "SELECT content FROM cache JOIN tenants ON tenants.number = cache.tenant"
                " WHERE tenants.tenant = ? AND cache.key = ? AND cache.expires_at > ?",
                (tenant_id, key, to_microseconds(self._clock())),
            ).fetchone()
            return None if row is None else bytes(row[0])

    def put(self, tenant_id: str, key: str, value: bytes, ttl_s: int) -> None:
        """Keep a value for ``ttl_s`` seconds instead of what was there; one that is too large is not kept.

        Neither is one while somebody else writes for longer than :data:`PATIENCE_MS`. That is no failure: values can
        be read all the same, and whoever takes it for one would leave the cache alone whenever much is written.
        """
        check_tenant(tenant_id)
        check_value_key(key)
        expires_at = self._clock() + timedelta(seconds=check_ttl(ttl_s))
        patience_ms = 0 if self._stopwatch() < self._impatient_until else PATIENCE_MS
        try:
            self._put(tenant_id, key, value, expires_at, patience_ms)
        except TransientStoreError:
            self._impatient_until = self._stopwatch() + IMPATIENT_S

    def exchange(
        self, tenant_id: str, key: str, expected: bytes | None, value: bytes | None, ttl_s: int
    ) -> bytes | None:
        """Keep ``value`` if what is kept equals ``expected``, and return what was kept; waits for other writers."""
        check_tenant(tenant_id)
        check_value_key(key)
        now = to_microseconds(self._clock())
        expires_at = to_microseconds(self._clock() + timedelta(seconds=check_ttl(ttl_s)))
        with self._store.transaction() as connection:
            tenant = self._store.ensure_tenant_number(connection, tenant_id)
            row = connection.execute(
                "SELECT content FROM cache WHERE tenant = ? AND key = ? AND expires_at > ?", (tenant, key, now)
            ).fetchone()
            kept = None if row is None else bytes(row[0])
            if kept == expected:
                connection.execute(
                    "DELETE FROM cache WHERE (tenant = ? AND key = ?) OR expires_at <= ?", (tenant, key, now)
                )
                if value is not None and len(value) <= MAX_CACHE_VALUE_BYTES:
                    connection.execute("INSERT INTO cache VALUES (?, ?, ?, ?)", (tenant, key, expires_at, value))
            return kept

    def count(self, tenant_id: str, key: str, amount: int, window_s: int) -> int:
        """Add to a counter of the present window and return its sum.

        Raises
        ------
        TransientStoreError
            If others write for longer than :data:`COUNTING_MS`.
        """
        check_tenant(tenant_id)
        now = self._clock()
        name = counter_key(key, window_s, now.timestamp())
        expires_at = to_microseconds(now + timedelta(seconds=window_s))
        with self._store.transaction(patience_ms=COUNTING_MS) as connection:
            tenant = self._store.ensure_tenant_number(connection, tenant_id)
            connection.execute("DELETE FROM cache WHERE expires_at <= ?", (to_microseconds(now),))
            row = connection.execute(
                "INSERT INTO cache VALUES (?, ?, ?, ?) ON CONFLICT (tenant, key)"
                " DO UPDATE SET content = content + excluded.content RETURNING content",
                (tenant, name, expires_at, amount),
            ).fetchone()
            return int(row[0])

    def _put(self, tenant_id: str, key: str, value: bytes, expires_at: datetime, patience_ms: int) -> None:
        with self._store.transaction(patience_ms=patience_ms) as connection:
            tenant = self._store.ensure_tenant_number(connection, tenant_id)
            connection.execute("DELETE FROM cache WHERE expires_at <= ?", (to_microseconds(self._clock()),))
            if len(value) > MAX_CACHE_VALUE_BYTES:
                connection.execute("DELETE FROM cache WHERE tenant = ? AND key = ?", (tenant, key))
                return
            connection.execute(
                "INSERT OR REPLACE INTO cache VALUES (?, ?, ?, ?)", (tenant, key, to_microseconds(expires_at), value)
            )

    def generation(self, tenant_id: str) -> int:
        """Return a number that every write to the tenant has made greater."""
        check_tenant(tenant_id)
        with self._store.read() as connection:
            tenant = self._store.tenant_number(connection, tenant_id)
            return 0 if tenant is None else _generation(connection, tenant)

    def advance(self, tenant_id: str) -> int:
        """Begin a new generation and return it; needed only for what is no record, schema or part of the graph."""
        check_tenant(tenant_id)
        with self._store.transaction() as connection:
            tenant = self._store.ensure_tenant_number(connection, tenant_id)
            Generation.RECORDS.advance(connection, tenant)
            return _generation(connection, tenant)

    def forget(self, tenant_id: str) -> int:
        """Remove every value of a tenant and return how many there were."""
        check_tenant(tenant_id)
        with self._store.transaction() as connection:
            tenant = self._store.tenant_number(connection, tenant_id)
            return connection.execute("DELETE FROM cache WHERE tenant = ?", (tenant,)).rowcount


def _generation(connection: sqlite3.Connection, tenant: int) -> int:
    """Return the sum of what counts: it grows when either does, and neither ever shrinks."""
    return Generation.RECORDS.read(connection, tenant) + Generation.GRAPH.read(connection, tenant)
