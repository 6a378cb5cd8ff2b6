"""The part of a tenant's graph that one walk can see, read from its rows hop by hop.

It answers a walk as the whole graph does, and takes as long however large that is: a question after a write, or the
only one that a process asks, does not wait until a graph of a million edges is in memory.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from braid.deadline import check
from braid.engines.embedded.graph.adjacency import BOUNDS, EDGE_COLUMNS, VERTEX_COLUMNS, of_rows
from braid.engines.embedded.graph.removals import edges_seen
from braid.engines.embedded.tables import to_microseconds
from braid.models import Direction
from braid.ports.knowledge_graph import ExpandRequest

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from braid.engines.embedded.graph.adjacency import Adjacency
    from braid.ports.knowledge_graph import PropagateRequest

    Row = tuple[Any, ...]

MOST_EDGES = 30_000
"""Rows of edges beyond which reading the surroundings is given up: they are most of a graph, or lie around hubs."""
_ID, _VALID_FROM, _VALID_UNTIL, _TRUSTED = 1, 6, 7, 8
_CONFIDENCE = 5
_IN_FORCE = "coalesce(e.valid_at, :always_from) <= :as_of AND coalesce(e.invalid_at, :always_until) > :as_of"


def read(
    connection: sqlite3.Connection, tenant: int, generation: int, request: ExpandRequest | PropagateRequest
) -> tuple[Adjacency | None, int]:
    """Return the graph that a walk sees, None where that is too much, and how many rows of edges were read for it."""
    reader = _Reader(connection, tenant, request)
    for hop in range(1, request.max_hops + 1):
        check()
        if not reader.follow(first=hop == 1):
            return None, reader.rows
    vertices = sorted(reader.vertices.values(), key=lambda row: row[_ID])
    edges = list(reader.edges.values())
    graph = of_rows(*([rows] if rows else [] for rows in (vertices, edges)), generation)
    return graph, reader.rows


class _Reader:
    """What was read of the surroundings of a request's seeds, by identity, and where the next hop goes on from."""

    def __init__(
        self, connection: sqlite3.Connection, tenant: int, request: ExpandRequest | PropagateRequest
    ) -> None:
        self._connection = connection
        self._as_of = to_microseconds(request.as_of) or 0
        self._trusted_only, self._fan_out = request.trusted_only, request.fan_out
        self._values = {**BOUNDS, "tenant": tenant, "as_of": self._as_of}
        where = f"e.tenant = :tenant AND {_IN_FORCE}"
        self._hub: int | None = None
        self._ways: tuple[str, ...] = ("source", "target")
        if isinstance(request, ExpandRequest):
            seeds = request.seeds
            self._ways = {Direction.OUT: ("source",), Direction.IN: ("target",)}.get(request.direction, self._ways)
            if request.types:
                where += " AND e.type IN (SELECT value FROM json_each(:types))"
                self._values["types"] = json.dumps(request.types)
        else:
            seeds, self._hub = tuple(request.seeds()), request.hub
        if request.trusted_only:
            where += " AND e.trusted"
        ends = {"source": "target", "target": "source"}
        self._edges_of = {
            way: f"SELECT {EDGE_COLUMNS} FROM {edges_seen(connection, tenant)} AS e WHERE e.{way} = :vertex AND {where}"  # noqa: S608 - columns
            + (
                f" AND EXISTS (SELECT 1 FROM vertices AS o WHERE o.number = e.{ends[way]} AND o.trusted)"  # noqa: S608 - a column
                if request.trusted_only
                else ""
            )
            + " LIMIT :most"
            for way in self._ways
        }
        self.vertices: dict[int, Row] = {}
        self.edges: dict[Row, Row] = {}
        self.rows = 0
        self._read_vertices("id", seeds)
        self._frontier = {number for number in self.vertices if self._is_in_force(number)}
        self._seen = set(self._frontier)

    def follow(self, *, first: bool) -> bool:
        """Read the edges of the frontier and their far ends, which are the next one; False if there are too many."""
        reached: dict[int, list[tuple[float, int]]] = {}
        hub = None if first else self._hub
        for vertex in sorted(self._frontier):
            # Of a vertex that has more than propagation goes on from, as many as tell so.
            most = MOST_EDGES - self.rows if hub is None else hub + 1
            edges = {row[:4]: row for way in self._ways for row in self._some_edges(way, vertex, most)}
            if self.rows >= MOST_EDGES:
                return False
            self.edges |= edges
            if hub is None or len(edges) <= hub:
                reached[vertex] = [
                    (row[_CONFIDENCE], row[1] if row[0] == vertex else row[0]) for row in edges.values()
                ]
        known = {number for source, target, *_ in self.edges for number in (source, target)} - self.vertices.keys()
        self._read_vertices("number", sorted(known))
        fan_out = self._fan_out if hub is None else hub
        self._frontier = {number for ends in reached.values() for number in self._surest(ends, fan_out)} - self._seen
        self._seen |= self._frontier
        return True

    def _some_edges(self, way: str, vertex: int, most: int) -> list[Row]:
        rows = self._connection.execute(self._edges_of[way], self._values | {"vertex": vertex, "most": most}).fetchall()
        self.rows += len(rows)
        return rows

    def _surest(self, ends: list[tuple[float, int]], most: int) -> Iterator[int]:
        """Yield the ends in force of a vertex's edges, of more than ``most`` the surest and their equals."""
        in_force = [(sure, number) for sure, number in ends if self._is_in_force(number)]
        least = sorted((sure for sure, _ in in_force), reverse=True)[most - 1] if len(in_force) > most else 0.0
        return (number for sure, number in in_force if sure >= least)

    def _is_in_force(self, number: int) -> bool:
        row = self.vertices[number]
        in_force = row[_VALID_FROM] <= self._as_of < row[_VALID_UNTIL]
        return in_force and (row[_TRUSTED] or not self._trusted_only)

    def _read_vertices(self, column: str, given: object) -> None:
        rows = self._connection.execute(
            # From what is asked: left to itself, SQLite goes through all vertices of the tenant.
            f"SELECT {VERTEX_COLUMNS} FROM json_each(:given) AS asked"  # noqa: S608 - columns
            f" CROSS JOIN vertices AS v ON v.tenant = :tenant AND v.{column} = asked.value",
            self._values | {"given": json.dumps(given)},
        )
        self.vertices |= {row[0]: row for row in rows}
