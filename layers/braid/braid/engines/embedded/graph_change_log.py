"""Change capture of a tenant's graph: exact counts, and a log of changes by which graphs in memory are updated.

Triggers on the writing connection record each vertex and edge whose row changes, by any statement. The commit adds them
to the counts, which the planner reads at every question, and to a log of the changes of each write generation. So the
cost of counts and of updating graphs in memory does not grow with the graph.

A write may remove hundreds of thousands of mentions, whose rows take seconds to delete. Its commit records only their
endpoints, in a twentieth of the time; from then on no reader sees them. Their rows are deleted later in batches, in
separate transactions, between which others can write.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from braid.models import MENTIONS
from braid.ports.knowledge_graph import GraphStats

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

    from braid.engines.embedded.sqlite_files import Connection

GENERATIONS_KEPT: Final = 256
"""Number of write generations that the log keeps."""
MAX_LOGGED: Final = 2_000
"""Most changed vertices and edges that the log lists for one write; of more it records that they were too many."""
ROWS_AT_ONCE: Final = 20_000
"""Most rows that one transaction removes: a sixth of a second of processor time."""
NAMES_AT_ONCE: Final = 1_000
"""Most found names whose mentions one transaction removes, as it may remove the names too, with their many rows."""
_SEEN: Final = f"""(SELECT * FROM edges AS seen WHERE NOT (seen.type = '{MENTIONS}' AND seen.position IS NOT NULL
    AND EXISTS (SELECT 1 FROM removals AS r
        WHERE r.tenant = seen.tenant AND r.target = seen.target AND r.source = seen.source)))"""  # noqa: S608 - a constant
_HIDDEN: Final = f"""(OLD.type = '{MENTIONS}' AND OLD.position IS NOT NULL AND EXISTS (SELECT 1 FROM removals AS r
    WHERE r.tenant = OLD.tenant AND r.target = OLD.target AND r.source = OLD.source))"""  # noqa: S608 - a constant
_EDGE_GONE: Final = (
    "INSERT INTO changed_edges VALUES (OLD.tenant, OLD.source, OLD.type, OLD.target, -1, OLD.trusted - 1)"
)
_EDGE_HERE: Final = (
    "INSERT INTO changed_edges VALUES (NEW.tenant, NEW.source, NEW.type, NEW.target, 1, 1 - NEW.trusted)"
)
_VERTEX_GONE: Final = (
    "INSERT INTO changed_vertices VALUES (OLD.tenant, OLD.number, OLD.id, OLD.entity_type, -1, -OLD.has_record,"
    " OLD.trusted - 1, OLD.has_record * (OLD.trusted - 1))"
)
_VERTEX_HERE: Final = (
    "INSERT INTO changed_vertices VALUES (NEW.tenant, NEW.number, NEW.id, NEW.entity_type, 1, NEW.has_record,"
    " 1 - NEW.trusted, NEW.has_record * (1 - NEW.trusted))"
)
_MENTION_GONE: Final = f"""INSERT INTO changed_edges SELECT e.tenant, e.source, e.type, e.target, -1, e.trusted - 1
    FROM edges AS e WHERE e.tenant = NEW.tenant AND e.source = NEW.source AND e.type = '{MENTIONS}'
    AND e.target = NEW.target AND e.position IS NOT NULL"""  # noqa: S608 - as above
LOOKED_AT: Final = 1_000
"""Edges to a vertex that are looked at, for all types together, before all that lead to it are counted."""
_ASKED: Final = (
    "SELECT json_extract(value, '$[0]') AS vertex, json_extract(value, '$[1]') AS kind,"
    " json_extract(value, '$[2]') AS added FROM json_each(:asked)"
)
_ChangedEndpoint: TypeAlias = tuple[int, str, int]
"""The number of a vertex, a relationship type, and how many more such edges it has since the transaction began."""
_TRIGGERS: Final = (
    "CREATE TEMP TABLE changed_vertices (tenant, number, id, type, count, records, untrusted, untrusted_records)",
    "CREATE TEMP TABLE changed_edges (tenant, source, type, target, count, untrusted)",
    f"CREATE TEMP TRIGGER vertex_written AFTER INSERT ON main.vertices BEGIN {_VERTEX_HERE}; END",
    f"CREATE TEMP TRIGGER vertex_changed AFTER UPDATE ON main.vertices BEGIN {_VERTEX_GONE}; {_VERTEX_HERE}; END",
    f"CREATE TEMP TRIGGER vertex_removed AFTER DELETE ON main.vertices BEGIN {_VERTEX_GONE}; END",
    f"CREATE TEMP TRIGGER edge_written AFTER INSERT ON main.edges BEGIN {_EDGE_HERE}; END",
    f"CREATE TEMP TRIGGER edge_changed AFTER UPDATE ON main.edges BEGIN {_EDGE_GONE}; {_EDGE_HERE}; END",
    # The row of a removed mention is deleted later.
    f"CREATE TEMP TRIGGER edge_removed AFTER DELETE ON main.edges WHEN NOT {_HIDDEN} BEGIN {_EDGE_GONE}; END",
    f"CREATE TEMP TRIGGER mention_removed AFTER INSERT ON main.removals BEGIN {_MENTION_GONE}; END",
)


class Changes(NamedTuple):
    """The vertices and edges of a graph that writes changed: by id, and by the ids of the endpoints and the type."""

    vertices: frozenset[str]
    edges: frozenset[tuple[str, str, str]]
    """Source, type and target."""


def watch(connection: Connection) -> None:
    """Record the changes of a connection from now on; called outside a transaction."""
    if not connection.watched:
        for statement in _TRIGGERS:
            connection.execute(statement)
        connection.watched = True


def record(connection: sqlite3.Connection) -> None:
    """Add the changes of a transaction to the counts and the log of each tenant, before it is committed."""
    tenants = connection.execute(
        "SELECT tenant FROM temp.changed_vertices UNION SELECT tenant FROM temp.changed_edges ORDER BY tenant"
    ).fetchall()
    for (tenant,) in tenants:
        counts = _add_counts(connection, tenant)
        _log(connection, tenant)
        if not counts.vertices:
            _forget(connection, tenant)
    if tenants:
        connection.execute("DELETE FROM temp.changed_vertices")
        connection.execute("DELETE FROM temp.changed_edges")


def read_counts(connection: sqlite3.Connection, tenant: int) -> GraphStats:
    """Return the counts of a tenant's graph as of the last commit that the connection sees."""
    row = connection.execute("SELECT counts FROM graph_counts WHERE tenant = ?", (tenant,)).fetchone()
    return GraphStats() if row is None else GraphStats.model_validate_json(row[0])


def read_edge_count(connection: sqlite3.Connection, tenant: int) -> int:
    """Return the number of edges of :func:`read_counts`, in a fraction of its time."""
    row = connection.execute(
        "SELECT json_extract(counts, '$.edges') FROM graph_counts WHERE tenant = ?", (tenant,)
    ).fetchone()
    return 0 if row is None else row[0]


def count(connection: sqlite3.Connection, tenant: int) -> GraphStats:
    """Count a tenant's graph by reading all of its rows."""
    vertices = connection.execute(
        "SELECT entity_type, count(*), sum(has_record), sum(1 - trusted), sum(has_record * (1 - trusted))"
        " FROM vertices WHERE tenant = ? GROUP BY entity_type",
        (tenant,),
    ).fetchall()
    edges = connection.execute(
        "SELECT type, count(*), count(DISTINCT source), count(DISTINCT target), sum(1 - trusted)"  # noqa: S608 - a table
        f" FROM {edges_seen(connection, tenant)} WHERE tenant = ? GROUP BY type",
        (tenant,),
    ).fetchall()
    return GraphStats(
        vertices=sum(row[1] for row in vertices),
        records=sum(row[2] for row in vertices),
        edges=sum(row[1] for row in edges),
        by_entity_type={row[0]: row[1] for row in vertices},
        by_relationship_type={row[0]: row[1] for row in edges},
        sources_by_relationship_type={row[0]: row[2] for row in edges},
        targets_by_relationship_type={row[0]: row[3] for row in edges},
        untrusted_records=sum(row[4] for row in vertices),
        untrusted_by_entity_type={row[0]: row[3] for row in vertices if row[3]},
        untrusted_by_relationship_type={row[0]: row[4] for row in edges if row[4]},
    )


def write_counts(connection: sqlite3.Connection, tenant: int, counts: GraphStats) -> None:
    """Store the counts of a tenant's graph."""
    connection.execute("INSERT OR REPLACE INTO graph_counts VALUES (?, ?)", (tenant, counts.model_dump_json()))


def since(connection: sqlite3.Connection, tenant: int, generation: int) -> Changes | None:
    """Return the changes since a write generation, in the connection's snapshot; None if the log does not have them."""
    now = connection.execute("SELECT graph_generation FROM tenants WHERE number = ?", (tenant,)).fetchone()[0]
    if not 0 <= now - generation <= GENERATIONS_KEPT:
        return None
    vertices: set[str] = set()
    edges: set[tuple[str, str, str]] = set()
    for (changed,) in connection.execute(
        "SELECT changes FROM graph_changes WHERE tenant = ? AND generation > ?", (tenant, generation)
    ):
        if changed is None:
            return None
        some = json.loads(changed)
        vertices.update(some["vertices"])
        edges.update(map(tuple, some["edges"]))
    return Changes(frozenset(vertices), frozenset(edges))


def stamp(connection: sqlite3.Connection, tenant: int, generation: int) -> str | None:
    """Return the stamp of a write generation, unique even among copies of the store; None if it is unknown.

    It is stored in the log under the negative of the generation.
    """
    row = connection.execute(
        "SELECT changes FROM graph_changes WHERE tenant = ? AND generation = ?", (tenant, -generation)
    ).fetchone()
    return None if row is None else row[0]


def _forget(connection: sqlite3.Connection, tenant: int) -> None:
    """Remove all ids and types of a graph without vertices; graphs in memory are then loaded again."""
    connection.execute("UPDATE graph_changes SET changes = NULL WHERE tenant = ? AND generation > 0", (tenant,))
    connection.execute("DELETE FROM graph_counts WHERE tenant = ?", (tenant,))


def _add_counts(connection: sqlite3.Connection, tenant: int) -> GraphStats:
    """Add the changes of a transaction to the counts, and return the new counts."""
    known = read_counts(connection, tenant)
    vertices = connection.execute(
        "SELECT type, sum(count), sum(records), sum(untrusted), sum(untrusted_records)"
        " FROM temp.changed_vertices WHERE tenant = ? GROUP BY type",
        (tenant,),
    ).fetchall()
    edges = connection.execute(
        "SELECT type, sum(count), sum(untrusted) FROM temp.changed_edges WHERE tenant = ? GROUP BY type", (tenant,)
    ).fetchall()
    added = GraphStats.unchecked(
        vertices=known.vertices + sum(row[1] for row in vertices),
        records=known.records + sum(row[2] for row in vertices),
        edges=known.edges + sum(row[1] for row in edges),
        by_entity_type=_sum(known.by_entity_type, {row[0]: row[1] for row in vertices}),
        by_relationship_type=_sum(known.by_relationship_type, {row[0]: row[1] for row in edges}),
        sources_by_relationship_type=_sum(
            known.sources_by_relationship_type, _new_endpoints(connection, tenant, "source")
        ),
        targets_by_relationship_type=_sum(
            known.targets_by_relationship_type, _new_endpoints(connection, tenant, "target")
        ),
        untrusted_records=known.untrusted_records + sum(row[4] for row in vertices),
        untrusted_by_entity_type=_sum(known.untrusted_by_entity_type, {row[0]: row[3] for row in vertices}),
        untrusted_by_relationship_type=_sum(known.untrusted_by_relationship_type, {row[0]: row[2] for row in edges}),
    )
    if added != known:
        write_counts(connection, tenant, added)
    return added


def _sum(known: Mapping[str, int], added: Mapping[str, int]) -> dict[str, int]:
    """Return the sums that are not 0 by name, in the order of names."""
    both = {name: known.get(name, 0) + added.get(name, 0) for name in sorted({*known, *added})}
    return {name: number for name, number in both.items() if number}


def _new_endpoints(connection: sqlite3.Connection, tenant: int, side: str) -> dict[str, int]:
    """Return by relationship type the change in the number of distinct sources, or targets, in a transaction."""
    more: dict[str, int] = {}
    changed: list[_ChangedEndpoint] = connection.execute(
        f"SELECT {side}, type, sum(count) AS added FROM temp.changed_edges WHERE tenant = ?"  # noqa: S608 - a column
        " GROUP BY 1, 2 HAVING added <> 0 ORDER BY added",
        (tenant,),
    ).fetchall()
    without_others = _sources_without_others if side == "source" else _targets_without_others
    # A vertex counts if it has no edge beyond those added: it had none before or, after removals, has none now.
    for _, kind, added in without_others(connection, tenant, changed):
        more[kind] = more.get(kind, 0) + (1 if added > 0 else -1)
    return more


def _sources_without_others(
    connection: sqlite3.Connection, tenant: int, changed: Sequence[_ChangedEndpoint]
) -> list[_ChangedEndpoint]:
    """Return those of the vertices that no edge of the type leads out of beyond those added."""
    found: list[_ChangedEndpoint] = []
    another = f"SELECT 1 FROM {edges_seen(connection, tenant)} AS e WHERE e.tenant = :tenant AND e.source = vertex"  # noqa: S608 - a table
    for added, asked in groupby(changed, key=itemgetter(2)):
        found += connection.execute(
            f"SELECT * FROM ({_ASKED}) WHERE ({another} AND e.type = kind LIMIT 1 OFFSET :added) IS NULL",  # noqa: S608 - as above
            {"tenant": tenant, "asked": json.dumps(list(asked)), "added": max(0, added)},
        )
    return found


def _targets_without_others(
    connection: sqlite3.Connection, tenant: int, changed: Sequence[_ChangedEndpoint]
) -> list[_ChangedEndpoint]:
    """Return those of the vertices that no edge of the type leads to beyond those added.

    Edges are not stored by target and type. The first :data:`LOOKED_AT` edges that lead to a vertex are looked at, or
    fewer if several of its types changed. Where it has more of them, and these do not tell, all are counted.
    """
    seen = edges_seen(connection, tenant)
    first = f"SELECT e.type FROM {seen} AS e WHERE e.tenant = :tenant AND e.target = vertex LIMIT :most"  # noqa: S608 - a table
    found, unsure = list[_ChangedEndpoint](), list[_ChangedEndpoint]()
    types = Counter(vertex for vertex, _, _ in changed)

    def bounds(one: _ChangedEndpoint) -> tuple[int, int]:
        return max(0, one[2]), max(1, LOOKED_AT // types[one[0]])

    for (others, share), asked in groupby(sorted(changed, key=bounds), key=bounds):
        for *one, has_more in connection.execute(
            f"SELECT *, (SELECT 1 FROM ({first}) LIMIT 1 OFFSET :most - 1) FROM ({_ASKED})"  # noqa: S608 - as above
            f" WHERE (SELECT 1 FROM ({first}) WHERE type = kind LIMIT 1 OFFSET :others) IS NULL",
            {"tenant": tenant, "asked": json.dumps(list(asked)), "most": share + others, "others": others},
        ):
            vertex, kind, number = one
            (unsure if has_more else found).append((vertex, kind, number))
    counted = connection.execute(
        f"SELECT e.target, e.type, count(*) FROM {seen} AS e WHERE e.tenant = ?"  # noqa: S608 - as above
        " AND e.target IN (SELECT value FROM json_each(?)) GROUP BY 1, 2",
        (tenant, json.dumps(sorted({vertex for vertex, _, _ in unsure}))),
    )
    counts = {(vertex, kind): number for vertex, kind, number in counted}
    return [*found, *(one for one in unsure if counts.get(one[:2], 0) <= max(0, one[2]))]


def _log(connection: sqlite3.Connection, tenant: int) -> None:
    generation = connection.execute("SELECT graph_generation FROM tenants WHERE number = ?", (tenant,)).fetchone()[0]
    most = MAX_LOGGED + 1
    vertices = connection.execute(
        "SELECT DISTINCT number, id FROM temp.changed_vertices WHERE tenant = ? LIMIT ?", (tenant, most)
    ).fetchall()
    edges = connection.execute(
        "SELECT DISTINCT source, type, target FROM temp.changed_edges WHERE tenant = ? LIMIT ?", (tenant, most)
    ).fetchall()
    changes = None
    if len(vertices) + len(edges) < most:
        ids = dict(vertices)
        endpoints = json.dumps(
            sorted({endpoint for source, _, target in edges for endpoint in (source, target)} - ids.keys())
        )
        ids |= dict(
            connection.execute(
                "SELECT v.number, v.id FROM json_each(?) AS asked CROSS JOIN vertices AS v ON v.number = asked.value",
                (endpoints,),
            ).fetchall()
        )
        changed = [(ids[source], kind, ids[target]) for source, kind, target in edges]
        changes = json.dumps({"vertices": sorted(ids[number] for number, _ in vertices), "edges": changed})
    connection.execute(
        # A generation with an entry already must list the changes of all of its writes, or none.
        "INSERT INTO graph_changes VALUES (?, ?, ?) ON CONFLICT (tenant, generation) DO UPDATE SET changes = NULL",
        (tenant, generation, changes),
    )
    # After a restore from a backup, other writes may get the same number; the random stamp tells them apart.
    connection.execute(
        "INSERT OR REPLACE INTO graph_changes VALUES (?, ?, ?)", (tenant, -generation, secrets.token_hex(8))
    )
    old = generation - GENERATIONS_KEPT
    connection.execute("DELETE FROM graph_changes WHERE tenant = ? AND generation BETWEEN ? AND ?", (tenant, -old, old))


def edges_seen(connection: sqlite3.Connection, tenant: int) -> str:
    """Return the SQL of the table of a tenant's edges without removed mentions."""
    return _SEEN if are_left(connection, tenant) else "edges"


def remove_mentions(connection: sqlite3.Connection, tenant: int, mentions: Iterable[tuple[int, int]]) -> None:
    """Mark found mentions as removed, given by the numbers of their targets and sources; their rows stay."""
    connection.executemany(
        f"INSERT OR IGNORE INTO removals (tenant, target, source) VALUES ({tenant:d}, ?, ?)",  # noqa: S608 - a number
        sorted(mentions),  # in the order of the table
    )


def remove_rows(connection: sqlite3.Connection, tenant: int) -> list[int]:
    """Delete a batch of the rows of removed mentions, and return the numbers of their source vertices."""
    endpoints: list[tuple[int, int]] = []
    sources: dict[int, None] = {}
    for target, source in connection.execute(
        "SELECT target, source FROM removals WHERE tenant = ? ORDER BY target, source LIMIT ?", (tenant, ROWS_AT_ONCE)
    ):
        if source not in sources and len(sources) == NAMES_AT_ONCE:
            break
        sources[source] = None
        endpoints.append((target, source))
    if endpoints:
        # Target by target: two of the three trees that a row is in are ordered so.
        connection.executemany(
            f"DELETE FROM edges WHERE tenant = {tenant:d} AND target = ? AND source = ?"  # noqa: S608 - a number
            f" AND type = '{MENTIONS}' AND position IS NOT NULL",
            endpoints,
        )
        connection.execute(
            "DELETE FROM removals WHERE tenant = ? AND (target, source) <= (?, ?)", (tenant, *endpoints[-1])
        )
    return list(sources)


def are_left(connection: sqlite3.Connection, tenant: int) -> bool:
    """Return whether any rows of removed mentions are still stored."""
    return connection.execute("SELECT 1 FROM removals WHERE tenant = ? LIMIT 1", (tenant,)).fetchone() is not None
