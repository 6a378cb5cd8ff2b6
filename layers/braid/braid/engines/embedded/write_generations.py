"""Write generations of a tenant, and a cache of values that are valid for one generation.

A generation is a counter in the database, by which a process notices the writes of others. There is one for records and
one for the graph. Cached answers are invalidated by the sum of the two, which the embedded cache returns as its own
(``cache_schemas_jobs_members``).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sized

    from braid.engines.embedded.store import EmbeddedStore

    Given = TypeVar("Given", bound=Sized)

T = TypeVar("T")


class Generation(StrEnum):
    """A counter of the writes to a tenant's records or graph: a column of ``tenants``."""

    RECORDS = "record_generation"
    GRAPH = "graph_generation"

    def read(self, connection: sqlite3.Connection, tenant: int) -> int:
        """Return a tenant's generation in the connection's snapshot."""
        row = connection.execute(f"SELECT {self} FROM tenants WHERE number = ?", (tenant,)).fetchone()  # noqa: S608
        return int(row[0])

    def advance(self, connection: sqlite3.Connection, tenant: int) -> None:
        """Begin a new generation, inside the transaction of the write."""
        connection.execute(f"UPDATE tenants SET {self} = {self} + 1 WHERE number = ?", (tenant,))  # noqa: S608


class GenerationCache(Generic[T]):
    """Caches one value per tenant in memory, computed again only after a write of any process."""

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


def change(
    store: EmbeddedStore,
    generation: Generation,
    tenant_id: str,
    given: Given,
    work: Callable[[sqlite3.Connection, int, Given], int],
) -> int:
    """Run ``work`` on one tenant's rows in a transaction and return how many rows it changed.

    The generation is advanced if there were any. Returns 0, without a transaction, if ``given`` is empty.
    """
    if not given:
        return 0
    with store.transaction() as connection:
        tenant = store.tenant_number(connection, tenant_id)
        if tenant is None:
            return 0
        changed = work(connection, tenant, given)
        if changed:
            generation.advance(connection, tenant)
        return changed
