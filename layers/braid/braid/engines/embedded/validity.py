"""When something becomes or ceases to be valid."""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from typing import TYPE_CHECKING

from braid.engines.embedded.generations import Generation, Remembered
from braid.engines.embedded.tables import from_microseconds, to_microseconds

if TYPE_CHECKING:
    import sqlite3
    from datetime import datetime

    from braid.engines.embedded.store import EmbeddedStore


class Changes:
    """The moments at which the rows of some tables become or cease to be valid, read again only after a write."""

    def __init__(self, store: EmbeddedStore, generation: Generation, tables: tuple[str, ...]) -> None:
        self._store = store
        self._read = partial(_moments, tables)
        self._known: Remembered[list[int]] = Remembered(store, generation)

    def first_after(self, tenant_id: str, moment: datetime) -> datetime | None:
        """Return the first of them after a moment, None when there is none."""
        with self._store.read() as connection:
            tenant = self._store.number(connection, tenant_id)
            if tenant is None:
                return None
            moments = self._known.get(connection, tenant, self._read)
        place = bisect_right(moments, to_microseconds(moment) or 0)
        return from_microseconds(moments[place]) if place < len(moments) else None


def _moments(tables: tuple[str, ...], connection: sqlite3.Connection, tenant: int) -> list[int]:
    selects = [
        f"SELECT {column} AS moment FROM {table} WHERE tenant = :tenant AND {column} IS NOT NULL"  # noqa: S608 - constants
        for table in tables
        for column in ("valid_at", "invalid_at")
    ]
    rows = connection.execute(" UNION ".join(selects) + " ORDER BY moment", {"tenant": tenant})
    return [int(row[0]) for row in rows]
