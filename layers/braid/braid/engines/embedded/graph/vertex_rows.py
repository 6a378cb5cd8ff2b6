"""SQL for the rows of vertices: upsert, delete and read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from braid.engines.embedded.graph import name_rows
from braid.engines.embedded.tables import from_microseconds, is_valid, to_microseconds
from braid.models import Vertex
from braid.models.records import DEFAULT_ENTITY_TYPE
from braid.ports.knowledge_graph import MAX_TRUST_EDGES
from braid.ranking.graph_queries_and_facts import max_starts

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Mapping, Sequence

    from braid.engines.embedded.graph.name_rows import StoredNames
    from braid.ports.graph_query import GraphQuery
    from braid.ports.knowledge_graph import NameKeys

_WRITE_VERTEX = """
INSERT INTO vertices
    (tenant, id, entity_type, name, aliases, has_record, timestamp, valid_at, invalid_at, trusted, found)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, id) DO UPDATE SET
    entity_type = excluded.entity_type, name = excluded.name, aliases = excluded.aliases,
    has_record = excluded.has_record, timestamp = excluded.timestamp, valid_at = excluded.valid_at,
    invalid_at = excluded.invalid_at, trusted = excluded.trusted, found = excluded.found
"""
_VERTEX_COLUMNS = (
    "v.id, v.entity_type, v.name, v.aliases, v.has_record, v.timestamp, v.valid_at, v.invalid_at, v.trusted, v.found"
)
_NO_ALIASES = "[]"


def upsert_vertices(
    connection: sqlite3.Connection, tenant: int, vertices: Sequence[Vertex], keys: Mapping[str, NameKeys]
) -> None:
    """Insert or replace vertices of one tenant, with the normalised names by which they are linked.

    Names that are unchanged are not written again.

    Parameters
    ----------
    keys
        Results of :func:`~braid.engines.embedded.graph.name_rows.name_keys` by vertex id: the names of these are always
        written.
    """
    stored = _stored_names(connection, tenant, [vertex.id for vertex in vertices])
    renamed = [
        vertex
        for vertex in vertices
        if vertex.id in keys or stored.get(vertex.id, ())[1:] != (vertex.name, _as_json(vertex))
    ]
    name_rows.delete_names(connection, tenant, [stored[vertex.id] for vertex in renamed if vertex.id in stored])
    connection.executemany(
        _WRITE_VERTEX,
        [
            (
                tenant,
                vertex.id,
                vertex.entity_type,
                vertex.name,
                _as_json(vertex),
                vertex.has_record,
                to_microseconds(vertex.timestamp),
                to_microseconds(vertex.valid_at),
                to_microseconds(vertex.invalid_at),
                vertex.trusted,
                vertex.found,
            )
            for vertex in vertices
        ],
    )
    numbers = numbers_of(connection, tenant, [vertex.id for vertex in renamed])
    named = [(numbers[vertex.id], keys.get(vertex.id) or name_rows.name_keys(vertex)) for vertex in renamed]
    name_rows.insert_names(connection, tenant, named)


def _as_json(vertex: Vertex) -> str:
    return json.dumps(vertex.aliases, ensure_ascii=False) if vertex.aliases else _NO_ALIASES


def _stored_names(connection: sqlite3.Connection, tenant: int, ids: Collection[str]) -> dict[str, StoredNames]:
    """Return the number, the name and the aliases of the vertices that exist, by their ids."""
    rows = connection.execute(
        "SELECT id, number, name, aliases FROM vertices WHERE tenant = ? AND id IN (SELECT value FROM json_each(?))",
        (tenant, json.dumps(list(ids))),
    )
    return {row[0]: (row[1], row[2], row[3]) for row in rows}


def numbers_of(connection: sqlite3.Connection, tenant: int, ids: Collection[str]) -> dict[str, int]:
    """Return the numbers of the vertices that exist, by their ids."""
    return dict(
        connection.execute(
            "SELECT id, number FROM vertices WHERE tenant = ? AND id IN (SELECT value FROM json_each(?))",
            (tenant, json.dumps(sorted(ids))),
        ).fetchall()
    )


def delete(connection: sqlite3.Connection, tenant: int, ids: Collection[str]) -> int:
    """Remove vertices of one tenant with their names and edges and return how many vertices there were."""
    stored = _stored_names(connection, tenant, ids).values()
    name_rows.delete_names(connection, tenant, stored)
    numbers = [(number,) for number, _, _ in stored]
    connection.executemany("DELETE FROM edges WHERE tenant = ? AND source = ?", [(tenant, *row) for row in numbers])
    connection.executemany("DELETE FROM edges WHERE target = ?", numbers)
    connection.executemany("DELETE FROM vertices WHERE number = ?", numbers)
    return len(numbers)


def delete_unmentioned(connection: sqlite3.Connection, tenant: int, ids: Collection[str]) -> int:
    """Remove the found names among ``ids`` that have no edge; return their number."""
    unmentioned = connection.execute(
        "SELECT v.id FROM vertices AS v WHERE v.tenant = ? AND v.found AND v.id IN (SELECT value FROM json_each(?))"
        " AND NOT EXISTS (SELECT 1 FROM edges WHERE tenant = v.tenant AND source = v.number)"
        " AND NOT EXISTS (SELECT 1 FROM edges WHERE target = v.number)",
        (tenant, json.dumps(list(ids))),
    ).fetchall()
    return delete(connection, tenant, [row[0] for row in unmentioned])


_EDGES = (
    "(SELECT trusted FROM edges WHERE tenant = v.tenant AND source = v.number"
    " UNION ALL SELECT trusted FROM edges WHERE target = v.number LIMIT :most + 1)"
)
_DISTRUST = (
    "UPDATE vertices AS v SET trusted = 0 WHERE v.tenant = :tenant AND v.trusted"  # noqa: S608 - constants
    f" AND NOT EXISTS (SELECT 1 FROM {_EDGES} WHERE trusted) AND (SELECT count(*) FROM {_EDGES}) <= :most"
)
_STUB = (
    "(NOT v.has_record AND v.name IS NULL AND v.aliases = '[]' AND v.timestamp IS NULL AND v.valid_at IS NULL"
    f" AND v.invalid_at IS NULL AND v.entity_type = '{DEFAULT_ENTITY_TYPE}')"
)
"""SQL expression: whether a vertex is a stub, unless it was found, as :attr:`braid.models.Vertex.is_stub` says."""


def distrust_unmentioned(connection: sqlite3.Connection, tenant: int, ids: Collection[str]) -> int:
    """Mark the found names and stubs among ``ids`` as untrusted that have no trusted edge.

    Returns how many.
    """
    return connection.execute(
        f"{_DISTRUST} AND (v.found OR {_STUB}) AND v.id IN (SELECT value FROM json_each(:among))",  # noqa: S608 - constants
        {"tenant": tenant, "among": json.dumps(list(ids)), "most": MAX_TRUST_EDGES},
    ).rowcount


def distrust_stubs(connection: sqlite3.Connection, tenant: int, numbers: Collection[int]) -> None:
    """Mark the stubs among some vertices as untrusted that have no trusted edge."""
    if numbers:
        connection.execute(
            f"{_DISTRUST} AND {_STUB} AND NOT v.found AND v.number IN (SELECT value FROM json_each(:among))",  # noqa: S608 - constants
            {"tenant": tenant, "among": json.dumps(sorted(numbers)), "most": MAX_TRUST_EDGES},
        )


def read_ids(connection: sqlite3.Connection, tenant: int, numbers: Collection[int]) -> list[str]:
    """Return the ids of vertices of one tenant by their numbers."""
    found = connection.execute(
        # CROSS JOIN by number: with the tenant first, SQLite reads all of its vertices.
        "SELECT v.id FROM json_each(?) AS asked CROSS JOIN vertices AS v ON v.number = asked.value AND v.tenant = ?",
        (json.dumps(list(numbers)), tenant),
    )
    return [row[0] for row in found]


def read_vertices(connection: sqlite3.Connection, tenant: int, tenant_id: str, ids: Sequence[str]) -> list[Vertex]:
    """Return the vertices that exist, in the order of ``ids``."""
    rows = connection.execute(
        f"SELECT {_VERTEX_COLUMNS} FROM vertices AS v WHERE v.tenant = ? AND v.id IN (SELECT value FROM json_each(?))",  # noqa: S608
        (tenant, json.dumps(list(ids))),
    )
    found = {row[0]: _vertex(tenant_id, row) for row in rows}
    return [found[vertex_id] for vertex_id in dict.fromkeys(ids) if vertex_id in found]


def read_starts(
    connection: sqlite3.Connection, tenant: int, query: GraphQuery, named: Mapping[str, Sequence[str]]
) -> Collection[str]:
    """Return the ids of the vertices at which a query may begin.

    If it states no ids and names, these are the first vertices that meet its conditions, by id: one more than it may
    begin at.

    Parameters
    ----------
    named
        Ids of the vertices that have each name that the query asks for.
    """
    start, during = query.start, query.start.time_range
    if start.ids or start.names:
        return start.ids or {identity for ids in named.values() for identity in ids}
    conditions = is_valid("vertices")
    conditions += " AND trusted" if query.trusted_only else ""
    if during is not None:
        conditions += (
            " AND timestamp IS NOT NULL AND coalesce(timestamp >= :since, 1) AND coalesce(timestamp < :end, 1)"
        )
    rows = connection.execute(
        "SELECT id FROM vertices WHERE tenant = :tenant AND entity_type IN (SELECT value FROM json_each(:types))"  # noqa: S608 - conditions of the code
        f" AND {conditions} ORDER BY id LIMIT :most",
        {
            "tenant": tenant,
            "types": json.dumps(start.entity_types),
            "as_of": to_microseconds(query.as_of) or 0,
            "since": to_microseconds(during.start if during else None),
            "end": to_microseconds(during.end if during else None),
            "most": max_starts(query) + 1,
        },
    )
    return [row[0] for row in rows]


def read_vertices_after(
    connection: sqlite3.Connection, tenant: int, tenant_id: str, *, after: str, limit: int
) -> list[Vertex]:
    """Return up to ``limit`` vertices whose ids are greater than ``after``, in the order of their ids."""
    rows = connection.execute(
        f"SELECT {_VERTEX_COLUMNS} FROM vertices AS v WHERE v.tenant = ? AND v.id > ? ORDER BY v.id LIMIT ?",  # noqa: S608
        (tenant, after, limit),
    )
    return [_vertex(tenant_id, row) for row in rows]


def _vertex(tenant_id: str, row: Sequence[Any]) -> Vertex:
    return Vertex.unchecked(
        id=row[0],
        tenant_id=tenant_id,
        entity_type=row[1],
        name=row[2],
        aliases=tuple(json.loads(row[3])) if row[3] != _NO_ALIASES else (),
        has_record=bool(row[4]),
        timestamp=from_microseconds(row[5]),
        valid_at=from_microseconds(row[6]),
        invalid_at=from_microseconds(row[7]),
        trusted=bool(row[8]),
        found=bool(row[9]),
    )
