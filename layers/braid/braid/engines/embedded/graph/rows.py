"""SQL for the rows of vertices, their names and edges: upsert, end, delete and read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from braid.engines.embedded.graph.removals import edges_seen
from braid.engines.embedded.tables import from_microseconds, to_microseconds
from braid.errors import InvalidRequest
from braid.models import MENTIONS, EdgeId, EntityLink, Relationship, Vertex
from braid.ports.knowledge_graph import GraphTypes, NameKeys
from braid.understanding.names import (
    MISSPELT,
    is_form,
    match_score,
    misspelling_number,
    misspelling_numbers,
    other_forms,
)
from braid.understanding.tokens import normalise

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

_WRITE_VERTEX = """
INSERT INTO vertices
    (tenant, id, entity_type, name, aliases, has_record, timestamp, valid_at, invalid_at, trusted, found)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, id) DO UPDATE SET
    entity_type = excluded.entity_type, name = excluded.name, aliases = excluded.aliases,
    has_record = excluded.has_record, timestamp = excluded.timestamp, valid_at = excluded.valid_at,
    invalid_at = excluded.invalid_at, trusted = excluded.trusted, found = excluded.found
"""
_WRITE_EDGE = """
INSERT INTO edges
    (tenant, source, type, target, predicate, confidence, timestamp, valid_at, invalid_at, evidence, trusted, position)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, source, type, target, predicate) DO UPDATE SET
    confidence = excluded.confidence, timestamp = excluded.timestamp, valid_at = excluded.valid_at,
    invalid_at = excluded.invalid_at, evidence = excluded.evidence, trusted = excluded.trusted,
    position = excluded.position
"""
_VERTEX_COLUMNS = (
    "v.id, v.entity_type, v.name, v.aliases, v.has_record, v.timestamp, v.valid_at, v.invalid_at, v.trusted, v.found"
)
_EDGE_COLUMNS = (
    "s.id, e.type, t.id, e.predicate, e.confidence, e.timestamp, e.valid_at, e.invalid_at, e.evidence, e.trusted,"
    " e.position"
)


def upsert_vertices(
    connection: sqlite3.Connection, tenant: int, vertices: Sequence[Vertex], keys: Mapping[str, NameKeys]
) -> None:
    """Insert or replace vertices of one tenant, with the normalised names by which they are linked.

    Names that are stored already are left alone.

    Parameters
    ----------
    keys
        What :func:`name_keys` returns of those whose names are written in any case, by their ids.
    """
    stored = _stored_names(connection, tenant, [vertex.id for vertex in vertices])
    renamed = [
        vertex
        for vertex in vertices
        if vertex.id in keys or stored.get(vertex.id, ())[1:] != (vertex.name, _as_json(vertex))
    ]
    _delete_misspellings(connection, tenant, [stored[vertex.id] for vertex in renamed if vertex.id in stored])
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
    numbers = _numbers(connection, tenant, [vertex.id for vertex in renamed])
    replaced = [(number,) for identity, number in numbers.items() if identity in stored]
    connection.executemany("DELETE FROM names WHERE vertex = ?", replaced)
    named = [(numbers[vertex.id], keys.get(vertex.id) or name_keys(vertex)) for vertex in renamed]
    # Both in the order of their tables, whose pages are then written one after another.
    connection.executemany(
        f"INSERT INTO names (tenant, phrase, vertex, is_alias) VALUES ({tenant:d}, ?, ?, ?)",  # noqa: S608 - a number
        sorted((phrase, number, is_alias) for number, own in named for phrase, is_alias in own.phrases.items()),
    )
    connection.executemany(
        f"INSERT OR IGNORE INTO misspellings (tenant, key, vertex) VALUES ({tenant:d}, ?, ?)",  # noqa: S608 - a number
        sorted((key, number) for number, own in named for key in own.misspellings),
    )


def name_keys(vertex: Vertex) -> NameKeys:
    """Return what a vertex is linked by: of a hundred long aliases that takes a hundredth of a second."""
    return NameKeys(_phrases(vertex), tuple(misspelling_numbers(*_names(vertex))))


_NO_ALIASES = "[]"


def _as_json(vertex: Vertex) -> str:
    return json.dumps(vertex.aliases, ensure_ascii=False) if vertex.aliases else _NO_ALIASES


def _names(vertex: Vertex) -> list[str]:
    return [name for name in (vertex.name, *vertex.aliases) if name]


def _phrases(vertex: Vertex) -> dict[str, bool]:
    """Return what a vertex is linked by, and whether that is an alias or a form of a name."""
    # The name last: it wins over an alias that is normalised alike.
    phrases = {normalise(alias): True for alias in vertex.aliases}
    if vertex.name is not None:
        phrases[normalise(vertex.name)] = False
    phrases.pop("", None)
    return phrases | dict.fromkeys(other_forms(*_names(vertex)), True)


def _stored_names(
    connection: sqlite3.Connection, tenant: int, ids: Collection[str]
) -> dict[str, tuple[int, str | None, str]]:
    """Return the number, the name and the aliases, as JSON, of the vertices that exist, by their ids."""
    rows = connection.execute(
        "SELECT id, number, name, aliases FROM vertices WHERE tenant = ? AND id IN (SELECT value FROM json_each(?))",
        (tenant, json.dumps(list(ids))),
    )
    return {row[0]: (row[1], row[2], row[3]) for row in rows}


def _delete_misspellings(
    connection: sqlite3.Connection, tenant: int, stored: Collection[tuple[int, str | None, str]]
) -> None:
    """Remove the keys of the names of some vertices, given as :func:`_stored_names` returns them."""
    connection.executemany(
        f"DELETE FROM misspellings WHERE tenant = {tenant:d} AND key = ? AND vertex = ?",  # noqa: S608 - a number
        sorted(
            (key, number)
            for number, name, aliases in stored
            for key in misspelling_numbers(*filter(None, (name, *json.loads(aliases))))
        ),
    )


def _numbers(connection: sqlite3.Connection, tenant: int, ids: Collection[str]) -> dict[str, int]:
    """Return the numbers of the vertices that exist, by their ids."""
    return dict(
        connection.execute(
            "SELECT id, number FROM vertices WHERE tenant = ? AND id IN (SELECT value FROM json_each(?))",
            (tenant, json.dumps(sorted(ids))),
        ).fetchall()
    )


def upsert_edges(connection: sqlite3.Connection, tenant: int, relationships: Sequence[Relationship]) -> None:
    """Insert or replace edges of one tenant; no predicate and an empty one are the same identity.

    Raises InvalidRequest if an end is not stored; the caller's transaction then undoes the rest.
    """
    ends = {end for relationship in relationships for end in (relationship.source, relationship.target)}
    numbers = _numbers(connection, tenant, ends)
    for relationship in relationships:
        for end in (relationship.source, relationship.target):
            if end not in numbers:
                raise InvalidRequest(
                    f"relationships: {relationship.source} {relationship.type} {relationship.target}"
                    f" leads to {end}, which is no vertex; write that vertex first or in the same call",
                    field="relationships",
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


def ids_by_phrase(connection: sqlite3.Connection, tenant: int, phrases: Sequence[str]) -> dict[str, list[str]]:
    """Return the ids of the vertices that have a normalised name or alias, by that phrase."""
    found: dict[str, list[str]] = {}
    for phrase, vertex_id in connection.execute(
        "SELECT n.phrase, v.id FROM json_each(:phrases) AS asked"
        " CROSS JOIN names AS n ON n.tenant = :tenant AND n.phrase = asked.value"
        " CROSS JOIN vertices AS v ON v.number = n.vertex AND v.tenant = :tenant",
        {"tenant": tenant, "phrases": json.dumps(list(phrases))},
    ):
        found.setdefault(phrase, []).append(vertex_id)
    return found


def link(
    connection: sqlite3.Connection,
    tenant: int,
    names: Collection[str],
    *,
    as_of: int | None,
    limit: int,
    trusted_only: bool,
) -> list[EntityLink]:
    """Return the entities that the names are of and that hold then, each by its best match, the best ``limit``.

    However many and long their aliases are: only numbers are compared, and texts are read of the chosen alone.
    """
    # Of the hundreds of forms of a question's words a few are stored.
    stored = {name: misspelling_number(name) if name[:1] == MISSPELT else name for name in sorted(names)}
    asked_by = {key: name for name, key in stored.items()}
    known = connection.execute(
        "SELECT j.value FROM json_each(:keys) AS j WHERE CASE j.type WHEN 'integer'"
        " THEN EXISTS (SELECT 1 FROM misspellings AS m WHERE m.tenant = :tenant AND m.key = j.value)"
        " ELSE EXISTS (SELECT 1 FROM names AS n WHERE n.tenant = :tenant AND n.phrase = j.value) END",
        {"keys": json.dumps(list(asked_by)), "tenant": tenant},
    )
    matches = sorted(
        (-match_score(name, is_name=not is_alias), -len(name), name, is_alias)
        for name in (asked_by[key] for (key,) in known)
        for is_alias in {is_form(name), True}
    )
    classes: dict[tuple[float, int], int] = {}  # equally good ones, which the ids of the entities order
    asked = [
        (stored[name], is_alias, number, classes.setdefault((negative_score, negative_length), len(classes)))
        for number, (negative_score, negative_length, name, is_alias) in enumerate(matches)
    ]
    rows = connection.execute(
        "WITH asked AS MATERIALIZED (SELECT json_extract(value, '$[0]') AS phrase, json_extract(value, '$[1]') AS"
        " is_alias, json_extract(value, '$[2]') AS match, json_extract(value, '$[3]') AS class FROM json_each(:asked)),"
        " found AS (SELECT n.vertex, asked.match, asked.class FROM asked CROSS JOIN names AS n"
        " ON n.tenant = :tenant AND n.phrase = asked.phrase AND n.is_alias = asked.is_alias"
        " WHERE typeof(asked.phrase) = 'text'"
        " UNION ALL SELECT m.vertex, asked.match, asked.class FROM asked CROSS JOIN misspellings AS m"
        " ON m.tenant = :tenant AND m.key = asked.phrase WHERE typeof(asked.phrase) = 'integer'),"
        " matched AS MATERIALIZED (SELECT vertex AS number, min(match) AS match, min(class) AS class"
        " FROM found GROUP BY vertex),"
        " chosen AS MATERIALIZED (SELECT v.number, v.id, matched.match, matched.class"
        " FROM matched CROSS JOIN vertices AS v ON v.number = matched.number AND v.tenant = :tenant"
        " WHERE (v.valid_at IS NULL OR v.valid_at <= :as_of) AND (v.invalid_at IS NULL OR v.invalid_at > :as_of)"
        " AND v.trusted >= :trusted ORDER BY matched.class, v.id LIMIT :limit)"
        " SELECT chosen.id, coalesce(v.name, json_extract(v.aliases, '$[0]')), v.entity_type, v.has_record,"
        " v.invalid_at, chosen.match FROM chosen CROSS JOIN vertices AS v ON v.number = chosen.number"
        " ORDER BY chosen.class, chosen.id",
        {"asked": json.dumps(asked), "tenant": tenant, "as_of": as_of, "limit": limit, "trusted": trusted_only},
    )
    return [
        EntityLink.unchecked(
            entity_id=vertex_id,
            name=name,
            entity_type=entity_type,
            phrase=matches[match][2],
            score=-matches[match][0],
            has_record=bool(has_record),
            invalid_at=from_microseconds(invalid_at),
        )
        for vertex_id, name, entity_type, has_record, invalid_at, match in rows
    ]


def delete(connection: sqlite3.Connection, tenant: int, ids: Collection[str]) -> int:
    """Remove vertices of one tenant with their names and edges and return how many vertices there were."""
    stored = _stored_names(connection, tenant, ids).values()
    _delete_misspellings(connection, tenant, stored)
    numbers = [(number,) for number, _, _ in stored]
    connection.executemany("DELETE FROM names WHERE vertex = ?", numbers)
    connection.executemany("DELETE FROM edges WHERE tenant = ? AND source = ?", [(tenant, *row) for row in numbers])
    connection.executemany("DELETE FROM edges WHERE target = ?", numbers)
    connection.executemany("DELETE FROM vertices WHERE number = ?", numbers)
    return len(numbers)


def delete_unmentioned(connection: sqlite3.Connection, tenant: int, ids: Collection[str]) -> int:
    """Remove those of some vertices of one tenant that were found and have no edge; return how many there were."""
    unmentioned = connection.execute(
        "SELECT v.id FROM vertices AS v WHERE v.tenant = ? AND v.found AND v.id IN (SELECT value FROM json_each(?))"
        " AND NOT EXISTS (SELECT 1 FROM edges WHERE tenant = v.tenant AND source = v.number)"
        " AND NOT EXISTS (SELECT 1 FROM edges WHERE target = v.number)",
        (tenant, json.dumps(list(ids))),
    ).fetchall()
    return delete(connection, tenant, [row[0] for row in unmentioned])


def read_ids(connection: sqlite3.Connection, tenant: int, numbers: Collection[int]) -> list[str]:
    """Return the ids of vertices of one tenant by their numbers."""
    found = connection.execute(
        # By number: with the tenant first, SQLite goes through all of its vertices.
        "SELECT v.id FROM json_each(?) AS asked CROSS JOIN vertices AS v ON v.number = asked.value AND v.tenant = ?",
        (json.dumps(list(numbers)), tenant),
    )
    return [row[0] for row in found]


def delete_edges(connection: sqlite3.Connection, tenant: int, edges: Sequence[Relationship]) -> int:
    """Remove edges of one tenant by their identity and return how many there were."""
    numbers = _numbers(connection, tenant, {end for edge in edges for end in (edge.source, edge.target)})
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
    """Return the numbers of the mentions' targets and sources, where both are stored."""
    numbers = _numbers(connection, tenant, {end for edge in mentions for end in (edge.source, edge.target)})
    ends = ((numbers.get(edge.target), numbers.get(edge.source)) for edge in mentions)
    return [(target, source) for target, source in ends if target is not None and source is not None]


def delete_edges_of(connection: sqlite3.Connection, tenant: int, ids: Collection[str]) -> int:
    """Remove edges of one tenant with an end or their evidence among some ids, and return how many there were."""
    return sum(
        connection.execute(f"DELETE FROM edges WHERE {condition}", values).rowcount  # noqa: S608 - conditions of ours
        for condition, values in _edges_of(connection, tenant, ids)
    )


def delete_some_edges_of(connection: sqlite3.Connection, tenant: int, ids: Collection[str], *, at_most: int) -> int:
    """Remove as :func:`delete_edges_of` no more than some of each condition's edges, and return how many there were."""
    removed = 0
    for condition, values in _edges_of(connection, tenant, ids):
        identities = connection.execute(
            f"SELECT tenant, source, type, target, predicate FROM edges WHERE {condition} LIMIT ?",  # noqa: S608 - as above
            (*values, at_most),
        ).fetchall()
        removed += connection.executemany(
            "DELETE FROM edges WHERE tenant = ? AND source = ? AND type = ? AND target = ? AND predicate = ?",
            identities,
        ).rowcount
    return removed


def has_more_edges_of(connection: sqlite3.Connection, tenant: int, ids: Collection[str], *, than: int) -> bool:
    """Return whether more than some edges of one tenant have an end, or their evidence, among some ids."""
    return any(
        connection.execute(
            f"SELECT 1 FROM edges WHERE {condition} LIMIT 1 OFFSET ?",  # noqa: S608 - conditions of ours
            (*values, than),
        ).fetchone()
        for condition, values in _edges_of(connection, tenant, ids)
    )


def _edges_of(connection: sqlite3.Connection, tenant: int, ids: Collection[str]) -> list[tuple[str, tuple[int, str]]]:
    """Return the conditions in SQL, with their values, of edges with an end or their evidence among some ids."""
    numbers = json.dumps(sorted(_numbers(connection, tenant, ids).values()))
    wanted = (("source", numbers), ("target", numbers), ("evidence", json.dumps(list(ids))))
    return [
        (f"tenant = ? AND {column} IN (SELECT value FROM json_each(?))", (tenant, values))  # noqa: S608 - a column
        for column, values in wanted
    ]


def end_edges(connection: sqlite3.Connection, tenant: int, until: Mapping[str, datetime]) -> int:
    """End edges of one tenant by their evidence, where they do not end sooner; return how many there were."""
    # Left to itself, SQLite takes the primary key: it would read all edges of the tenant.
    return connection.executemany(
        "UPDATE edges INDEXED BY edges_by_evidence SET invalid_at = max(:at, coalesce(valid_at, :at))"
        " WHERE tenant = :tenant AND evidence = :record"
        " AND (invalid_at IS NULL OR invalid_at > max(:at, coalesce(valid_at, :at)))",
        [{"tenant": tenant, "record": record, "at": to_microseconds(at)} for record, at in until.items()],
    ).rowcount


def distrust_edges(connection: sqlite3.Connection, tenant: int, evidence: Collection[str]) -> int:
    """Mark trusted edges of one tenant as untrusted by their evidence, and return how many there were."""
    return connection.execute(
        "UPDATE edges INDEXED BY edges_by_evidence SET trusted = 0"
        " WHERE tenant = ? AND evidence IN (SELECT value FROM json_each(?)) AND trusted",
        (tenant, json.dumps(list(evidence))),
    ).rowcount


def pass_mentions(connection: sqlite3.Connection, tenant: int, heirs: Mapping[str, str]) -> int:
    """Lead the mentions of some vertices of one tenant out of others, and return how many were passed on."""
    numbers = _numbers(connection, tenant, {*heirs, *heirs.values()})
    mentions = [
        {"tenant": tenant, "source": numbers[source], "heir": numbers[heir], "type": MENTIONS}
        for source, heir in heirs.items()
        if source in numbers and heir in numbers
    ]
    of_these = "WHERE tenant = :tenant AND source = :source AND type = :type"
    passed = connection.executemany(
        f"UPDATE OR IGNORE edges SET source = :heir {of_these} AND target <> :heir",  # noqa: S608 - a condition from above
        mentions,
    ).rowcount
    connection.executemany(f"DELETE FROM edges {of_these}", mentions)  # noqa: S608 - as above
    return passed


def read_vertices(connection: sqlite3.Connection, tenant: int, tenant_id: str, ids: Sequence[str]) -> list[Vertex]:
    """Return the vertices that exist, in the order of ``ids``."""
    rows = connection.execute(
        f"SELECT {_VERTEX_COLUMNS} FROM vertices AS v WHERE v.tenant = ? AND v.id IN (SELECT value FROM json_each(?))",  # noqa: S608
        (tenant, json.dumps(list(ids))),
    )
    found = {row[0]: _vertex(tenant_id, row) for row in rows}
    return [found[vertex_id] for vertex_id in dict.fromkeys(ids) if vertex_id in found]


def read_types(connection: sqlite3.Connection, tenant: int) -> GraphTypes:
    """Return the types of a tenant's vertices and edges."""
    vertices = connection.execute("SELECT DISTINCT entity_type FROM vertices WHERE tenant = ?", (tenant,))
    edges = connection.execute("SELECT DISTINCT type FROM edges WHERE tenant = ?", (tenant,))
    return GraphTypes(frozenset(kind for (kind,) in vertices), frozenset(kind for (kind,) in edges))


def read_vertices_after(
    connection: sqlite3.Connection, tenant: int, tenant_id: str, *, after: str, limit: int
) -> list[Vertex]:
    """Return up to ``limit`` vertices whose ids are greater than ``after``, in the order of their ids."""
    rows = connection.execute(
        f"SELECT {_VERTEX_COLUMNS} FROM vertices AS v WHERE v.tenant = ? AND v.id > ? ORDER BY v.id LIMIT ?",  # noqa: S608
        (tenant, after, limit),
    )
    return [_vertex(tenant_id, row) for row in rows]


def read_edges_out_of(
    connection: sqlite3.Connection, tenant: int, tenant_id: str, ids: Collection[str]
) -> list[Relationship]:
    """Return the outgoing edges of some vertices."""
    numbers = sorted(_numbers(connection, tenant, ids).values())
    return _edges(connection, tenant_id, "source", numbers, tenant=tenant)


def count_edges_out_of(connection: sqlite3.Connection, tenant: int, vertices: Sequence[Vertex]) -> dict[str, int]:
    """Return how many edges lead out of each of some vertices, by their ids."""
    numbers = _numbers(connection, tenant, [vertex.id for vertex in vertices])
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
    """Return the edges of these identities that exist, in the order of the identities."""
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
    """Return the edges with an end among ``ids``, in the order of their identity."""
    found: dict[EdgeId, Relationship] = {}
    numbers = sorted(_numbers(connection, tenant, ids).values())
    for column in ("source", "target") if numbers else ():
        for edge in _edges(connection, tenant_id, column, numbers, tenant=tenant, types=types):
            found[edge.identity()] = edge
    return [found[identity] for identity in sorted(found)]


def read_found_mentions(
    connection: sqlite3.Connection, tenant: int, tenant_id: str, texts: Collection[str]
) -> list[Relationship]:
    """Return the mentions that were found in some texts, in the order of their identity."""
    numbers = sorted(_numbers(connection, tenant, texts).values())
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
        # Not after they are read: a hub has many edges of other types.
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
