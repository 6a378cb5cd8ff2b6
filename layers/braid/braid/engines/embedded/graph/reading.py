"""Vertices and relationships read back whole from their rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from braid.engines.embedded.graph.rows import numbers_of
from braid.engines.embedded.tables import from_microseconds
from braid.models import Relationship, Vertex

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Sequence

_VERTEX = "v.id, v.entity_type, v.name, v.aliases, v.has_record, v.timestamp, v.valid_at, v.invalid_at, v.trusted"
_EDGE = "s.id, e.type, t.id, e.predicate, e.confidence, e.timestamp, e.valid_at, e.invalid_at, e.evidence"


def read_vertices(connection: sqlite3.Connection, tenant: int, tenant_id: str, ids: Sequence[str]) -> list[Vertex]:
    """Return the vertices that exist, in the order of ``ids``."""
    rows = connection.execute(
        f"SELECT {_VERTEX} FROM vertices AS v WHERE v.tenant = ? AND v.id IN (SELECT value FROM json_each(?))",  # noqa: S608
        (tenant, json.dumps(list(ids))),
    )
    found = {row[0]: _vertex(tenant_id, row) for row in rows}
    return [found[vertex_id] for vertex_id in dict.fromkeys(ids) if vertex_id in found]


def vertices_after(
    connection: sqlite3.Connection, tenant: int, tenant_id: str, *, after: str, limit: int
) -> list[Vertex]:
    """Return up to ``limit`` vertices whose ids are greater than ``after``, in the order of their ids."""
    rows = connection.execute(
        f"SELECT {_VERTEX} FROM vertices AS v WHERE v.tenant = ? AND v.id > ? ORDER BY v.id LIMIT ?",  # noqa: S608
        (tenant, after, limit),
    )
    return [_vertex(tenant_id, row) for row in rows]


def edges_out_of(
    connection: sqlite3.Connection, tenant: int, tenant_id: str, ids: Collection[str]
) -> list[Relationship]:
    """Return the edges that lead out of some vertices."""
    numbers = sorted(numbers_of(connection, tenant, ids).values())
    return _edges(connection, tenant_id, "source", tenant, numbers)


def edges_of(
    connection: sqlite3.Connection, tenant: int, tenant_id: str, identities: Sequence[tuple[str, str, str, str]]
) -> list[Relationship]:
    """Return the edges that there are of these identities, in their order."""
    rows = connection.execute(
        f"SELECT {_EDGE} FROM json_each(:identities) AS asked"  # noqa: S608 - names of columns
        " CROSS JOIN vertices AS s ON s.tenant = :tenant AND s.id = json_extract(asked.value, '$[0]')"
        " CROSS JOIN vertices AS t ON t.tenant = :tenant AND t.id = json_extract(asked.value, '$[2]')"
        " CROSS JOIN edges AS e ON e.tenant = :tenant AND e.source = s.number AND e.target = t.number"
        " AND e.type = json_extract(asked.value, '$[1]') AND e.predicate = json_extract(asked.value, '$[3]')",
        {"tenant": tenant, "identities": json.dumps(sorted(set(identities)))},
    )
    return [_edge(tenant_id, row) for row in rows]


def read_edges(
    connection: sqlite3.Connection,
    tenant: int,
    tenant_id: str,
    *,
    ids: Collection[str],
    evidence: Collection[str],
    types: Collection[str],
) -> list[Relationship]:
    """Return the edges that touch some vertices or are said by some records, in the order of their identity."""
    found: dict[tuple[str, str, str, str], Relationship] = {}
    numbers = sorted(numbers_of(connection, tenant, ids).values())
    wanted: list[tuple[str, list[int] | list[str]]] = []
    if numbers:
        wanted += [("source", numbers), ("target", numbers)]
    if evidence:
        wanted.append(("evidence", sorted(evidence)))
    for column, values in wanted:
        for edge in _edges(connection, tenant_id, column, tenant, values):
            if not types or edge.type in types:
                found[edge.identity()] = edge
    return [found[identity] for identity in sorted(found)]


def _edges(
    connection: sqlite3.Connection, tenant_id: str, column: str, tenant: int, values: Sequence[int] | Sequence[str]
) -> list[Relationship]:
    rows = connection.execute(
        f"SELECT {_EDGE}"  # noqa: S608 - a column's name from above
        " FROM edges AS e CROSS JOIN vertices AS s ON s.number = e.source"
        " CROSS JOIN vertices AS t ON t.number = e.target"
        f" WHERE e.tenant = ? AND e.{column} IN (SELECT value FROM json_each(?))"
        " ORDER BY s.id, e.type, t.id, e.predicate",
        (tenant, json.dumps(values)),
    )
    return [_edge(tenant_id, row) for row in rows]


def _edge(tenant_id: str, row: Sequence[Any]) -> Relationship:
    return Relationship(
        tenant_id=tenant_id,
        source=row[0],
        type=row[1],
        target=row[2],
        predicate=row[3] or None,
        confidence=row[4],
        timestamp=from_microseconds(row[5]),
        valid_at=from_microseconds(row[6]),
        invalid_at=from_microseconds(row[7]),
        evidence=row[8],
    )


def _vertex(tenant_id: str, row: Sequence[Any]) -> Vertex:
    return Vertex(
        id=row[0],
        tenant_id=tenant_id,
        entity_type=row[1],
        name=row[2],
        aliases=json.loads(row[3]),
        has_record=bool(row[4]),
        timestamp=from_microseconds(row[5]),
        valid_at=from_microseconds(row[6]),
        invalid_at=from_microseconds(row[7]),
        trusted=bool(row[8]),
    )
