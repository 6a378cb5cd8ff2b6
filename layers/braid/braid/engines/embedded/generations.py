"""Write generations: numbers in the database that tell a process when what it remembers of a tenant is out of date."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from braid.engines.embedded.store import EmbeddedStore

T = TypeVar("T")


class Generation(StrEnum):
    """What is counted: a column of ``tenants``."""

    RECORDS = "record_generation"
    GRAPH = "graph_generation"

    def read(self, connection: sqlite3.Connection, tenant: int) -> int:
        """Return a tenant's generation as the connection sees it."""
        row = connection.execute(f"SELECT {self} FROM tenants WHERE number = ?", (tenant,)).fetchone()  # noqa: S608
        return int(row[0])

    def advance(self, connection: sqlite3.Connection, tenant: int) -> None:
        """Begin a new generation, in the transaction that makes it one."""
        connection.execute(f"UPDATE tenants SET {self} = {self} + 1 WHERE number = ?", (tenant,))  # noqa: S608


class Remembered(Generic[T]):
    """Something of each tenant that is worked out again only after a write, whichever process wrote."""

    def __init__(self, store: EmbeddedStore, generation: Generation) -> None:
        self._store = store
        self._generation = generation
        self._known: dict[int, tuple[int, T]] = {}

    def get(self, connection: sqlite3.Connection, tenant: int, work_out: Callable[[sqlite3.Connection, int], T]) -> T:
        """Return what is remembered of a tenant, or what ``work_out`` now says of it."""
        if self._store.in_transaction:  # may yet be undone, and its number then given to something else
            return work_out(connection, tenant)
        generation = self._generation.read(connection, tenant)
        known = self._known.get(tenant)
        if known is None or known[0] != generation:
            known = self._known[tenant] = (generation, work_out(connection, tenant))
        return known[1]


def delete(
    store: EmbeddedStore,
    generation: Generation,
    tenant_id: str,
    ids: Sequence[str],
    remove: Callable[[sqlite3.Connection, int, Sequence[str]], int],
) -> int:
    """Remove what has these ids of one tenant in one transaction and return how much there was."""
    if not ids:
        return 0
    with store.transaction() as connection:
        tenant = store.number(connection, tenant_id)
        if tenant is None:
            return 0
        removed = remove(connection, tenant, ids)
        if removed:
            generation.advance(connection, tenant)
        return removed
