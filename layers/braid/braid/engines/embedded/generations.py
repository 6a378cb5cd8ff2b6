"""Write generations of a tenant, and values in memory that hold until the next one.

A generation is a counter in the database, so that a process notices the writes of others.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from braid.engines.embedded.tables import from_microseconds, to_microseconds

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from braid.engines.embedded.store import EmbeddedStore

T = TypeVar("T")


class Generation(StrEnum):
    """A counter of the writes to a tenant's records or graph: a column of ``tenants``."""

    RECORDS = "record_generation"
    GRAPH = "graph_generation"

    def read(self, connection: sqlite3.Connection, tenant: int) -> int:
        """Return a tenant's generation as the connection sees it."""
        row = connection.execute(f"SELECT {self} FROM tenants WHERE number = ?", (tenant,)).fetchone()  # noqa: S608
        return int(row[0])

    def advance(self, connection: sqlite3.Connection, tenant: int) -> None:
        """Begin a new generation, inside the transaction of the write."""
        connection.execute(f"UPDATE tenants SET {self} = {self} + 1 WHERE number = ?", (tenant,))  # noqa: S608


class GenerationCache(Generic[T]):
    """A value of each tenant in memory, computed again only after a write of any process."""

    def __init__(self, store: EmbeddedStore, generation: Generation) -> None:
        self._store = store
        self._generation = generation
        self._known: dict[int, tuple[int, T]] = {}

    def get(self, connection: sqlite3.Connection, tenant: int, compute: Callable[[sqlite3.Connection, int], T]) -> T:
        """Return the tenant's value at the connection's generation, from memory or from ``compute``."""
        if self._store.in_transaction:  # may be rolled back, and its number then given to another write
            return compute(connection, tenant)
        generation = self._generation.read(connection, tenant)
        known = self._known.get(tenant)
        if known is None or known[0] != generation:
            known = self._known[tenant] = (generation, compute(connection, tenant))
        return known[1]


class ValidityChanges:
    """The moments at which rows of some tables become or cease to be valid, read again only after a write."""

    def __init__(self, store: EmbeddedStore, generation: Generation, tables: tuple[str, ...]) -> None:
        self._store = store
        self._query = partial(_moments, tables)
        self._moments: GenerationCache[list[int]] = GenerationCache(store, generation)

    def first_after(self, tenant_id: str, moment: datetime) -> datetime | None:
        """Return the first such moment after another one, None when there is none."""
        with self._store.read() as connection:
            tenant = self._store.tenant_number(connection, tenant_id)
            if tenant is None:
                return None
            moments = self._moments.get(connection, tenant, self._query)
        place = bisect_right(moments, to_microseconds(moment) or 0)
        return from_microseconds(moments[place]) if place < len(moments) else None


def delete(
    store: EmbeddedStore,
    generation: Generation,
    tenant_id: str,
    ids: Sequence[str],
    remove: Callable[[sqlite3.Connection, int, Sequence[str]], int],
) -> int:
    """Remove rows of one tenant by id in one transaction, advance the generation, and return how many there were."""
    if not ids:
        return 0
    with store.transaction() as connection:
        tenant = store.tenant_number(connection, tenant_id)
        if tenant is None:
            return 0
        removed = remove(connection, tenant, ids)
        if removed:
            generation.advance(connection, tenant)
        return removed


def _moments(tables: tuple[str, ...], connection: sqlite3.Connection, tenant: int) -> list[int]:
    selects = [
        f"SELECT {column} AS moment FROM {table} WHERE tenant = :tenant AND {column} IS NOT NULL"  # noqa: S608 - constants
        for table in tables
        for column in ("valid_at", "invalid_at")
    ]
    rows = connection.execute(" UNION ".join(selects) + " ORDER BY moment", {"tenant": tenant})
    return [int(row[0]) for row in rows]
