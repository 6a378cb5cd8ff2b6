"""SQL for the rows of edges: upsert, end, delete and read. Those of a question's walk: ``rows_around_seeds``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from braid.engines.embedded.graph.vertex_rows import distrust_stubs, numbers_of
from braid.engines.embedded.graph_change_log import edges_seen
from braid.engines.embedded.tables import from_microseconds, to_microseconds
from braid.errors import InvalidRequest
from braid.models import MENTIONS, EdgeId, Relationship

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from braid.models import Vertex

_WRITE_EDGE = """
INSERT INTO edges
    (tenant, source, type, target, predicate, confidence, timestamp, valid_at, invalid_at, evidence, trusted, position)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, source, type, target, predicate) DO UPDATE SET
    confidence = excluded.confidence, timestamp = excluded.timestamp, valid_at = excluded.valid_at,
    invalid_at = excluded.invalid_at, evidence = excluded.evidence, trusted = excluded.trusted,
    position = excluded.position
"""
_EDGE_COLUMNS = (
    "s.id, e.type, t.id, e.predicate, e.confidence, e.timestamp, e.valid_at, e.invalid_at, e.evidence, e.trusted,"
    " e.position"
)

_TRUSTED_OF_EVIDENCE = (
    "edges INDEXED BY edges_by_evidence"
    " WHERE tenant = ? AND evidence IN (SELECT value FROM json_each(?)) AND trusted = 1"
)


def upsert_edges(connection: sqlite3.Connection, tenant: int, relationships: Sequence[Relationship]) -> None:
    """Insert or replace edges of one tenant; in an edge's identity no predicate equals an empty one.

    Raises InvalidRequest if an end is not stored; the caller's transaction then undoes the rest.
    """
    endpoints = {endpoint for relationship in relationships for endpoint in (relationship.source, relationship.target)}
    numbers = numbers_of(connection, tenant, endpoints)
    for relationship in relationships:
        for endpoint in (relationship.source, relationship.target):
            if endpoint not in numbers:
                raise InvalidRequest.of(
                    "relationships",
                    f"{relationship.source} {relationship.type} {relationship.target}"
                    f" leads to {endpoint}, which is no vertex; write that vertex first or in the same call",
                )
    connection.executemany(
        _WRITE_EDGE,
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
                relationship.trusted,
                relationship.position,
            )
            for relationship in relationships
        ],
    )


def delete_edges(connection: sqlite3.Connection, tenant: int, edges: Sequence[Relationship]) -> int:
    """Remove edges of one tenant by their identity and return how many there were."""
    numbers = numbers_of(connection, tenant, {endpoint for edge in edges for endpoint in (edge.source, edge.target)})
    return sum(
        connection.execute(
            "DELETE FROM edges WHERE tenant = ? AND source = ? AND type = ? AND target = ? AND predicate = ?",
            (tenant, numbers[source], kind, numbers[target], predicate),
        ).rowcount
        for source, kind, target, predicate in dict.fromkeys(edge.identity() for edge in edges)
        if source in numbers and target in numbers
    )


def mentions_by_number(
    connection: sqlite3.Connection, tenant: int, mentions: Sequence[Relationship]
) -> list[tuple[int, int]]:
    """Return (target, source) vertex numbers of the mentions whose endpoints are both stored."""
    numbers = numbers_of(connection, tenant, {endpoint for edge in mentions for endpoint in (edge.source, edge.target)})
    endpoints = ((numbers.get(edge.target), numbers.get(edge.source)) for edge in mentions)
    return [(target, source) for target, source in endpoints if target is not None and source is not None]


def delete_edges_of(connection: sqlite3.Connection, tenant: int, ids: Collection[str]) -> int:
    """Remove a tenant's edges with an endpoint or their evidence among ``ids``, and return how many there were.

    Stubs without a trusted edge left are marked as untrusted.
    """
    removed, ends = 0, set[int]()
    for condition, values in _edges_of(connection, tenant, ids):
        ends |= _ends_of_trusted(connection, f"edges WHERE {condition}", values)
        removed += connection.execute(f"DELETE FROM edges WHERE {condition}", values).rowcount  # noqa: S608 - conditions of ours
    distrust_stubs(connection, tenant, ends)
    return removed


def delete_some_edges_of(connection: sqlite3.Connection, tenant: int, ids: Collection[str], *, at_most: int) -> int:
    """Remove such edges, ``at_most`` each by source, target and evidence, and return how many were removed."""
    removed, ends = 0, set[int]()
    for condition, values in _edges_of(connection, tenant, ids):
        rows = connection.execute(
            f"SELECT tenant, source, type, target, predicate, trusted FROM edges WHERE {condition} LIMIT ?",  # noqa: S608 - as above
            (*values, at_most),
        ).fetchall()
        ends.update(end for row in rows if row[5] for end in (row[1], row[3]))
        removed += connection.executemany(
            "DELETE FROM edges WHERE tenant = ? AND source = ? AND type = ? AND target = ? AND predicate = ?",
            [row[:5] for row in rows],
        ).rowcount
    distrust_stubs(connection, tenant, ends)
    return removed


def _ends_of_trusted(connection: sqlite3.Connection, edges: str, values: tuple[object, ...]) -> set[int]:
    """Return the numbers of the vertices at both ends of trusted edges, given by the SQL after FROM and its values."""
    ends = f"SELECT source FROM {edges} AND trusted UNION SELECT target FROM {edges} AND trusted"  # noqa: S608 - SQL of ours
    return {number for (number,) in connection.execute(ends, (*values, *values))}


def has_more_edges_of(connection: sqlite3.Connection, tenant: int, ids: Collection[str], *, than: int) -> bool:
    """Return whether more than ``than`` edges have their source, target or evidence among ``ids``."""
    return any(
        connection.execute(
            f"SELECT 1 FROM edges WHERE {condition} LIMIT 1 OFFSET ?",  # noqa: S608 - conditions of ours
            (*values, than),
        ).fetchone()
        for condition, values in _edges_of(connection, tenant, ids)
    )


def _edges_of(connection: sqlite3.Connection, tenant: int, ids: Collection[str]) -> list[tuple[str, tuple[int, str]]]:
    """Return SQL conditions with their values: edges with their source, target or evidence among ``ids``."""
    numbers = json.dumps(sorted(numbers_of(connection, tenant, ids).values()))
    wanted = (("source", numbers), ("target", numbers), ("evidence", json.dumps(list(ids))))
    return [
        (f"tenant = ? AND {column} IN (SELECT value FROM json_each(?))", (tenant, values))  # noqa: S608 - a column
        for column, values in wanted
    ]


def end_edges(connection: sqlite3.Connection, tenant: int, until: Mapping[str, datetime]) -> int:
    """Set the end of validity of edges by their evidence, unless they end sooner; return how many were changed."""
    # By default SQLite uses the primary key and would read all edges of the tenant.
    return connection.executemany(
        "UPDATE edges INDEXED BY edges_by_evidence SET invalid_at = max(:at, coalesce(valid_at, :at))"
        " WHERE tenant = :tenant AND evidence = :record"
        " AND (invalid_at IS NULL OR invalid_at > max(:at, coalesce(valid_at, :at)))",
        [{"tenant": tenant, "record": record, "at": to_microseconds(at)} for record, at in until.items()],
    ).rowcount


def ends_not_moved(
    connection: sqlite3.Connection, tenant: int, until: Mapping[str, datetime], *, at_most: int
) -> list[str]:
    """Return the records by whose ends, with those before, more than ``at_most`` ended edges would end earlier."""
    refused: list[str] = []
    left = at_most
    for record, at in until.items():
        moved = connection.execute(
            "SELECT count(*) FROM (SELECT 1 FROM edges INDEXED BY edges_by_evidence"
            " WHERE tenant = :tenant AND evidence = :record AND invalid_at > max(:at, coalesce(valid_at, :at))"
            " LIMIT :left + 1)",
            {"tenant": tenant, "record": record, "at": to_microseconds(at), "left": left},
        ).fetchone()[0]
        if moved > left:
            refused.append(record)
        left = max(0, left - moved)
    return refused


def has_more_trusted_edges_of(
    connection: sqlite3.Connection, tenant: int, evidence: Collection[str], *, than: int
) -> bool:
    """Return whether more than ``than`` trusted edges have this evidence."""
    row = connection.execute(
        f"SELECT 1 FROM {_TRUSTED_OF_EVIDENCE} LIMIT 1 OFFSET ?",  # noqa: S608 - SQL of ours
        (tenant, json.dumps(list(evidence)), than),
    ).fetchone()
    return row is not None


def distrust_edges(connection: sqlite3.Connection, tenant: int, evidence: Collection[str], *, at_most: int = -1) -> int:
    """Mark the trusted edges with this evidence as untrusted, and stubs that have none left; return how many edges.

    All of them, unless ``at_most`` is stated.
    """
    edges = connection.execute(
        f"SELECT tenant, source, type, target, predicate FROM {_TRUSTED_OF_EVIDENCE} LIMIT ?",  # noqa: S608 - SQL of ours
        (tenant, json.dumps(list(evidence)), at_most),
    ).fetchall()
    connection.executemany(
        "UPDATE edges SET trusted = 0 WHERE tenant = ? AND source = ? AND type = ? AND target = ? AND predicate = ?",
        edges,
    )
    distrust_stubs(connection, tenant, {end for _, source, _, target, _ in edges for end in (source, target)})
    return len(edges)


def reassign_mentions(connection: sqlite3.Connection, tenant: int, successors: Mapping[str, str]) -> int:
    """Move the mentions of vertices to their successors, and return how many were moved."""
    numbers = numbers_of(connection, tenant, {*successors, *successors.values()})
    mentions = [
        {"tenant": tenant, "source": numbers[source], "successor": numbers[successor], "type": MENTIONS}
        for source, successor in successors.items()
        if source in numbers and successor in numbers
    ]
    of_these = "WHERE tenant = :tenant AND source = :source AND type = :type"
    passed = connection.executemany(
        f"UPDATE OR IGNORE edges SET source = :successor {of_these} AND target <> :successor",  # noqa: S608 - a condition from above
        mentions,
    ).rowcount
    connection.executemany(f"DELETE FROM edges {of_these}", mentions)  # noqa: S608 - as above
    return passed


def read_edges_out_of(
    connection: sqlite3.Connection, tenant: int, tenant_id: str, ids: Collection[str]
) -> list[Relationship]:
    """Return the outgoing edges of vertices."""
    numbers = sorted(numbers_of(connection, tenant, ids).values())
    return _edges(connection, tenant_id, "source", numbers, tenant=tenant)


def count_edges_out_of(connection: sqlite3.Connection, tenant: int, vertices: Sequence[Vertex]) -> dict[str, int]:
    """Return the number of outgoing edges of each vertex, by its id."""
    numbers = numbers_of(connection, tenant, [vertex.id for vertex in vertices])
    counts = dict(
        connection.execute(
            "SELECT source, count(*) FROM edges WHERE tenant = ? AND source IN (SELECT value FROM json_each(?))"
            " GROUP BY source",
            (tenant, json.dumps(sorted(numbers.values()))),
        ).fetchall()
    )
    return {identity: counts.get(number, 0) for identity, number in numbers.items()}


def read_edges_by_identity(
    connection: sqlite3.Connection, tenant: int, tenant_id: str, identities: Sequence[EdgeId]
) -> list[Relationship]:
    """Return the stored edges with these identities, ordered by identity."""
    rows = connection.execute(
        f"SELECT {_EDGE_COLUMNS} FROM json_each(:identities) AS asked"  # noqa: S608 - names of columns
        " CROSS JOIN vertices AS s ON s.tenant = :tenant AND s.id = json_extract(asked.value, '$[0]')"
        " CROSS JOIN vertices AS t ON t.tenant = :tenant AND t.id = json_extract(asked.value, '$[2]')"
        f" CROSS JOIN {edges_seen(connection, tenant)} AS e"
        " ON e.tenant = :tenant AND e.source = s.number AND e.target = t.number"
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
    types: Collection[str],
) -> list[Relationship]:
    """Return the edges with an endpoint among ``ids``, ordered by identity."""
    found: dict[EdgeId, Relationship] = {}
    numbers = sorted(numbers_of(connection, tenant, ids).values())
    for column in ("source", "target") if numbers else ():
        for edge in _edges(connection, tenant_id, column, numbers, tenant=tenant, types=types):
            found[edge.identity()] = edge
    return [found[identity] for identity in sorted(found)]


def read_found_mentions(
    connection: sqlite3.Connection, tenant: int, tenant_id: str, texts: Collection[str]
) -> list[Relationship]:
    """Return the mentions that were found in ``texts``, ordered by identity."""
    numbers = sorted(numbers_of(connection, tenant, texts).values())
    return _edges(connection, tenant_id, "target", numbers, tenant=tenant, types=(MENTIONS,), found_only=True)


def _edges(
    connection: sqlite3.Connection,
    tenant_id: str,
    column: str,
    values: Sequence[int] | Sequence[str],
    *,
    tenant: int,
    types: Collection[str] = (),
    found_only: bool = False,
) -> list[Relationship]:
    rows = connection.execute(
        f"SELECT {_EDGE_COLUMNS}"  # noqa: S608 - a column's name from above
        f" FROM {edges_seen(connection, tenant)} AS e CROSS JOIN vertices AS s ON s.number = e.source"
        " CROSS JOIN vertices AS t ON t.number = e.target"
        f" WHERE e.tenant = ? AND e.{column} IN (SELECT value FROM json_each(?))"
        # Filtered in SQL: a hub has many edges of other types.
        f"{' AND e.type IN (SELECT value FROM json_each(?))' if types else ''}"
        f"{' AND e.position IS NOT NULL' if found_only else ''}"
        " ORDER BY s.id, e.type, t.id, e.predicate",
        (tenant, json.dumps(values), *([json.dumps(sorted(types))] if types else [])),
    )
    return [_edge(tenant_id, row) for row in rows]


def _edge(tenant_id: str, row: Sequence[Any]) -> Relationship:
    return Relationship.unchecked(
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
        trusted=bool(row[9]),
        position=row[10],
    )
