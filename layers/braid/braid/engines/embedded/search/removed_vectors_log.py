"""The log of removed vectors, by which the vector graphs of all processes are kept consistent with a tenant's rows.

Without it, a graph would have to be compared with all rows after each write. Each write generation of records has a
random stamp, because after a store is restored from a backup, other writes may have the same generation number.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Final, NamedTuple

from braid.engines.embedded.write_generations import Generation

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

GENERATIONS_KEPT: Final = 10_000
"""Number of write generations that the log keeps; a graph that is further behind is compared with all rows."""
VECTORS_KEPT: Final = 500_000
"""About the number of removed vectors that the log of a tenant keeps, 30 MB: a search reads them in a second."""
_LOOKED_AFTER: Final = 100
"""Write generations after which the log's vectors are counted again."""
_TABLES: Final = ("record_generations", "removed_vectors")


class Position(NamedTuple):
    """A write generation up to which a graph has followed the log."""

    generation: int = -1
    stamp: str = ""


def begin_write(connection: sqlite3.Connection, tenant: int) -> None:
    """Stamp the generation that a write will begin, and remove the oldest ones from the log."""
    generation = 1 + Generation.RECORDS.read(connection, tenant)
    connection.execute(
        "INSERT OR IGNORE INTO record_generations (tenant, generation, stamp) VALUES (?, ?, ?)",
        (tenant, generation, secrets.token_hex(8)),
    )
    last_removed = generation - GENERATIONS_KEPT
    if generation % _LOOKED_AFTER == 0:
        beyond = connection.execute(
            "SELECT generation FROM removed_vectors WHERE tenant = ? ORDER BY generation DESC LIMIT 1 OFFSET ?",
            (tenant, VECTORS_KEPT),
        ).fetchone()
        last_removed = max(last_removed, beyond[0] if beyond else 0)
    for table in _TABLES:
        connection.execute(
            f"DELETE FROM {table} WHERE tenant = ? AND generation <= ?",  # noqa: S608 - a table of ours
            (tenant, last_removed),
        )


def remove_vectors(connection: sqlite3.Connection, tenant: int, numbers: Iterable[int]) -> None:
    """Remove the rows of vectors, after :func:`begin_write`, and log their keys."""
    values = {"tenant": tenant, "numbers": json.dumps(list(numbers))}
    connection.execute(
        "INSERT OR IGNORE INTO removed_vectors (tenant, generation, space, key)"
        " SELECT t.number, t.record_generation + 1, v.space, v.key FROM json_each(:numbers) AS n"
        " CROSS JOIN vectors AS v ON v.number = n.value CROSS JOIN tenants AS t ON t.number = :tenant",
        values,
    )
    connection.execute("DELETE FROM vectors WHERE number IN (SELECT value FROM json_each(:numbers))", values)


def forget(connection: sqlite3.Connection, tenant: int | None = None) -> None:
    """Remove the log of a tenant, or of all: their graphs are then compared with all rows once."""
    for table in _TABLES:
        connection.execute(f"DELETE FROM {table} WHERE :tenant IS NULL OR tenant = :tenant", {"tenant": tenant})  # noqa: S608 - a table of ours


def position(connection: sqlite3.Connection, tenant: int) -> Position:
    """Return the newest write generation of vectors in the connection's snapshot; one that is never known before it."""
    row = connection.execute(
        "SELECT g.generation, g.stamp FROM tenants AS t JOIN record_generations AS g ON g.tenant = t.number"
        " AND g.generation <= t.record_generation WHERE t.number = ? ORDER BY g.generation DESC LIMIT 1",
        (tenant,),
    ).fetchone()
    return Position() if row is None else Position(*row)


def is_known(connection: sqlite3.Connection, tenant: int, known: Position) -> bool:
    """Return whether the log reaches back to a position, which is of this store and not of a copy of it."""
    stamp = connection.execute(
        "SELECT stamp FROM record_generations WHERE tenant = ? AND generation = ?", (tenant, known.generation)
    ).fetchone()
    return stamp is not None and stamp[0] == known.stamp


def removed_since(connection: sqlite3.Connection, tenant: int, space: str, known: Position) -> list[int] | None:
    """Return the keys of a space's vectors that were removed since a position and are in no row; None if unknown."""
    if not is_known(connection, tenant, known):
        return None
    removed = connection.execute(
        "SELECT DISTINCT key FROM removed_vectors AS r WHERE tenant = :tenant AND generation > :generation"
        " AND space = :space AND NOT EXISTS"
        " (SELECT 1 FROM vectors AS v WHERE v.space = r.space AND v.tenant = r.tenant AND v.key = r.key)",
        {"tenant": tenant, "generation": known.generation, "space": space},
    )
    return [row[0] for row in removed]
