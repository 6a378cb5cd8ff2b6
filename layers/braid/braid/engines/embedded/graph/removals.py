"""Mentions that are removed before their rows are: no reader sees them, and their rows go a few at a time.

A write may remove hundreds of thousands of mentions, whose rows take seconds. It notes their ends, in a twentieth of
the time, and so removes them in its own commit; their rows go in transactions of their own, between which others write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from braid.models import MENTIONS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

ROWS_AT_ONCE: Final = 20_000
"""Rows that one transaction removes: a sixth of a second of processor time."""
NAMES_AT_ONCE: Final = 1_000
"""Names that one transaction takes mentions from, and may remove with their many rows."""
_SEEN: Final = f"""(SELECT * FROM edges AS seen WHERE NOT (seen.type = '{MENTIONS}' AND seen.position IS NOT NULL
    AND EXISTS (SELECT 1 FROM removals AS r
        WHERE r.tenant = seen.tenant AND r.target = seen.target AND r.source = seen.source)))"""  # noqa: S608 - a constant


def edges_seen(connection: sqlite3.Connection, tenant: int) -> str:
    """Return the table, in SQL, of the edges that readers of a tenant's graph see."""
    return _SEEN if are_left(connection, tenant) else "edges"


def note(connection: sqlite3.Connection, tenant: int, mentions: Iterable[tuple[int, int]]) -> None:
    """Remove found mentions, given by the numbers of their targets and sources; their rows stay."""
    connection.executemany(
        f"INSERT OR IGNORE INTO removals (tenant, target, source) VALUES ({tenant:d}, ?, ?)",  # noqa: S608 - a number
        sorted(mentions),  # in the order of the table
    )


def remove_rows(connection: sqlite3.Connection, tenant: int) -> list[int]:
    """Remove some rows of mentions that are removed, and return the numbers of the vertices that they led out of."""
    ends: list[tuple[int, int]] = []
    sources: dict[int, None] = {}
    for target, source in connection.execute(
        "SELECT target, source FROM removals WHERE tenant = ? ORDER BY target, source LIMIT ?", (tenant, ROWS_AT_ONCE)
    ):
        if source not in sources and len(sources) == NAMES_AT_ONCE:
            break
        sources[source] = None
        ends.append((target, source))
    if ends:
        # Target by target: two of the three trees that a row is in are ordered so.
        connection.executemany(
            f"DELETE FROM edges WHERE tenant = {tenant:d} AND target = ? AND source = ?"  # noqa: S608 - a number
            f" AND type = '{MENTIONS}' AND position IS NOT NULL",
            ends,
        )
        connection.execute("DELETE FROM removals WHERE tenant = ? AND (target, source) <= (?, ?)", (tenant, *ends[-1]))
    return list(sources)


def are_left(connection: sqlite3.Connection, tenant: int) -> bool:
    """Return whether rows of removed mentions are still there."""
    return connection.execute("SELECT 1 FROM removals WHERE tenant = ? LIMIT 1", (tenant,)).fetchone() is not None
