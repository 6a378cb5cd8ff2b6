"""Vertices and relationships as rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from braid.engines.embedded.tables import to_microseconds
from braid.errors import InvalidRequest
from braid.understanding.name_forms import stored_forms
from braid.understanding.tokens import normalise

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Sequence

    from braid.models import Relationship, Vertex

_WRITE_VERTEX = """
INSERT INTO vertices (tenant, id, entity_type, name, aliases, has_record, timestamp, valid_at, invalid_at, trusted)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, id) DO UPDATE SET
    entity_type = excluded.entity_type, name = excluded.name, aliases = excluded.aliases,
    has_record = excluded.has_record, timestamp = excluded.timestamp, valid_at = excluded.valid_at,
    invalid_at = excluded.invalid_at, trusted = excluded.trusted
RETURNING number
"""


def upsert_vertices(connection: sqlite3.Connection, tenant: int, vertices: Iterable[Vertex]) -> None:
    """Write vertices of one tenant whole, with the names they are linked by."""
    for vertex in vertices:
        row = (
            tenant,
            vertex.id,
            vertex.entity_type,
            vertex.name,
            json.dumps(vertex.aliases, ensure_ascii=False),
            vertex.has_record,
            to_microseconds(vertex.timestamp),
            to_microseconds(vertex.valid_at),
            to_microseconds(vertex.invalid_at),
            vertex.trusted,
        )
        number = connection.execute(_WRITE_VERTEX, row).fetchall()[0][0]
        connection.execute("DELETE FROM names WHERE vertex = ?", (number,))
        # The name last: it wins over an alias that is normalised alike.
        phrases = {normalise(alias): True for alias in vertex.aliases}
        if vertex.name is not None:
            phrases[normalise(vertex.name)] = False
        phrases.pop("", None)
        phrases.update(dict.fromkeys((form for name in _names(vertex) for form in stored_forms(name)), True))
        connection.executemany(
            "INSERT INTO names (tenant, phrase, vertex, is_alias) VALUES (?, ?, ?, ?)",
            [(tenant, phrase, number, is_alias) for phrase, is_alias in phrases.items()],
        )


def _names(vertex: Vertex) -> list[str]:
    return [*([vertex.name] if vertex.name else []), *vertex.aliases]


def numbers_of(connection: sqlite3.Connection, tenant: int, ids: Collection[str]) -> dict[str, int]:
    """Return the numbers of the vertices that exist, by their ids."""
    return dict(
        connection.execute(
            "SELECT id, number FROM vertices WHERE tenant = ? AND id IN (SELECT value FROM json_each(?))",
            (tenant, json.dumps(sorted(ids))),
        ).fetchall()
    )


def upsert_edges(connection: sqlite3.Connection, tenant: int, relationships: Sequence[Relationship]) -> None:
    """Write relationships of one tenant; no predicate and an empty one are the same identity.

    Raises
    ------
    InvalidRequest
        If an end is not stored; the caller's transaction then undoes the rest.
    """
    ends = {end for relationship in relationships for end in (relationship.source, relationship.target)}
    numbers = numbers_of(connection, tenant, ends)
    for relationship in relationships:
        for end in (relationship.source, relationship.target):
            if end not in numbers:
                message = (
                    f"relationships: {relationship.source} {relationship.type} {relationship.target}"
                    f" leads to {end}, which is no vertex; write that vertex first or in the same call"
                )
                raise InvalidRequest(message, field="relationships")
    connection.executemany(
        "INSERT OR REPLACE INTO edges (tenant, source, type, target, predicate, confidence, timestamp, valid_at,"
        " invalid_at, evidence) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                tenant,
                numbers[relationship.source],
                relationship.type,
                numbers[relationship.target],
                relationship.predicate or "",
                relationship.confidence,
                to_microseconds(relationship.timestamp),
                to_microseconds(relationship.valid_at),
                to_microseconds(relationship.invalid_at),
                relationship.evidence,
            )
            for relationship in relationships
        ],
    )


def named(connection: sqlite3.Connection, tenant: int, phrases: Sequence[str]) -> dict[str, list[str]]:
    """Return the ids of the vertices that have a normalised name or alias, by that phrase."""
    found: dict[str, list[str]] = {}
    for phrase, vertex_id in connection.execute(
        "SELECT n.phrase, v.id FROM json_each(:phrases) AS asked"
        " CROSS JOIN names AS n ON n.tenant = :tenant AND n.phrase = asked.value"
        " CROSS JOIN vertices AS v ON v.number = n.vertex",
        {"tenant": tenant, "phrases": json.dumps(list(phrases))},
    ):
        found.setdefault(phrase, []).append(vertex_id)
    return found


def delete(connection: sqlite3.Connection, tenant: int, ids: Sequence[str]) -> int:
    """Remove vertices of one tenant with their names and edges and return how many vertices there were."""
    numbers = connection.execute(
        "SELECT number FROM vertices WHERE tenant = ? AND id IN (SELECT value FROM json_each(?))",
        (tenant, json.dumps(list(ids))),
    ).fetchall()
    connection.executemany("DELETE FROM names WHERE vertex = ?", numbers)
    connection.executemany("DELETE FROM edges WHERE tenant = ? AND source = ?", [(tenant, row[0]) for row in numbers])
    connection.executemany("DELETE FROM edges WHERE target = ?", numbers)
    connection.executemany("DELETE FROM vertices WHERE number = ?", numbers)
    return len(numbers)


def delete_edges(connection: sqlite3.Connection, tenant: int, edges: Sequence[Relationship]) -> int:
    """Remove edges of one tenant by their identity and return how many there were."""
    numbers = numbers_of(connection, tenant, {end for edge in edges for end in (edge.source, edge.target)})
    return sum(
        connection.execute(
            "DELETE FROM edges WHERE tenant = ? AND source = ? AND type = ? AND target = ? AND predicate = ?",
            (tenant, numbers[source], kind, numbers[target], predicate),
        ).rowcount
        for source, kind, target, predicate in dict.fromkeys(edge.identity() for edge in edges)
        if source in numbers and target in numbers
    )
