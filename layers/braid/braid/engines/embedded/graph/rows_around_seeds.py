"""The part of a tenant's graph that one walk or query can see, read from its rows hop by hop.

Answers are the same as from the whole graph, and the time does not depend on its size: a question after a write, or the
first of a process, does not wait until a graph of a million edges is loaded.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from braid.deadline import check
from braid.engines.embedded.graph.adjacency import BOUNDS, EDGE_COLUMNS, VERTEX_COLUMNS, of_rows
from braid.engines.embedded.graph_change_log import edges_seen
from braid.engines.embedded.tables import to_microseconds
from braid.models import Direction
from braid.ports.knowledge_graph import ExpandRequest, PropagateRequest

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from datetime import datetime

    from braid.engines.embedded.graph.adjacency import Adjacency
    from braid.ports.graph_query import GraphQuery

    Row = tuple[Any, ...]

MAX_EDGES = 30_000
"""Most rows of edges that are read around seeds; more are most of the graph, or edges of hubs, and reading stops."""
_ID, _VALID_FROM, _VALID_UNTIL, _TRUSTED = 1, 6, 7, 8
_CONFIDENCE = 5
_VALID = "coalesce(e.valid_at, :always_from) <= :as_of AND coalesce(e.invalid_at, :always_until) > :as_of"
_WAYS = {Direction.OUT: ("source",), Direction.IN: ("target",), Direction.BOTH: ("source", "target")}
_FAR = {"source": "target", "target": "source"}


class Hop(NamedTuple):
    """One hop from a walk's frontier, the vertices that the hop before reached.

    The part gets the frontier's edges of the hop's direction and types that are valid at the walk's time; with
    ``trusted_only``, only trusted edges to trusted vertices. Of a hub it gets ``hub`` + 1 edges, enough to recognise
    it. The next frontier has the ends of these edges that are valid, trusted if required, and, unless the walk goes
    back, not reached before: none beyond a hub, and of each other vertex only the ends of its ``surest`` edges.

    :mod:`~braid.engines.embedded.graph.write_overlay` takes the same hops in a graph in memory. The part may be larger
    than what the request walks: :mod:`~braid.engines.embedded.graph.expansion` and ``subgraphs`` apply the request's
    own bounds.
    """

    direction: Direction = Direction.BOTH
    types: Sequence[str] = ()
    surest: int | None = None
    """Number of a vertex's edges that the walk follows, by highest confidence, plus ties; None means all."""
    hub: int | None = None
    """A vertex with more such edges than this is a hub; None means that none is."""


class Walk(NamedTuple):
    """The part of a graph that a request can see: its seeds, and the vertices within some hops of them."""

    seeds: Collection[str]
    hops: Sequence[Hop]
    as_of: datetime
    trusted_only: bool
    goes_back: bool = False
    """Whether hops ask for different edges, so that they are also taken from vertices that an earlier one reached."""
    by_condition: bool = False
    """Whether it begins at the vertices that meet a condition: one that was changed may have met it before."""


def walk_of(request: ExpandRequest | PropagateRequest | GraphQuery, starts: Collection[str]) -> Walk:
    """Return the walk of a request.

    Parameters
    ----------
    starts
        Ids of the vertices at which a graph query may begin; all of them, and others do no harm.
    """
    goes_back = by_condition = False
    if isinstance(request, ExpandRequest):
        seeds: Collection[str] = request.seeds
        hops = [Hop(request.direction, request.types, surest=request.fan_out)] * request.max_hops
    elif isinstance(request, PropagateRequest):
        seeds = request.seeds()
        hops = [Hop(surest=request.fan_out), *[Hop(hub=request.hub)] * (request.max_hops - 1)]
    else:
        seeds = starts
        hops = [Hop(step.direction, step.types) for step in request.steps]
        goes_back = any(hop != hops[0] for hop in hops)
        by_condition = not (request.start.ids or request.start.names)
    return Walk(seeds, hops, request.as_of, request.trusted_only, goes_back=goes_back, by_condition=by_condition)


def read(connection: sqlite3.Connection, tenant: int, generation: int, walk: Walk) -> tuple[Adjacency | None, int]:
    """Return the part of a graph, None if it is too large, and the number of edge rows read."""
    reader = _Reader(connection, tenant, walk)
    for hop in walk.hops:
        check()
        if not reader.follow(hop):
            return None, reader.rows
    vertices = sorted(reader.vertices.values(), key=lambda row: row[_ID])
    edges = list(reader.edges.values())
    graph = of_rows([vertices] if vertices else [], [edges] if edges else [], generation)
    return graph, reader.rows


class _Reader:
    """Reads hop by hop: the rows so far, by identity, and the frontier of the next hop."""

    def __init__(self, connection: sqlite3.Connection, tenant: int, walk: Walk) -> None:
        self._connection = connection
        self._edges_seen = edges_seen(connection, tenant)
        self._as_of, self._trusted_only = to_microseconds(walk.as_of) or 0, walk.trusted_only
        self._goes_back = walk.goes_back
        self._values = {**BOUNDS, "tenant": tenant, "as_of": self._as_of}
        self.vertices: dict[int, Row] = {}
        self.edges: dict[Row, Row] = {}
        self.rows = 0
        self._read_vertices("id", walk.seeds)
        self._frontier = {number for number in self.vertices if self._is_walkable(number)}
        self._seen = set(self._frontier)

    def follow(self, hop: Hop) -> bool:
        """Read the edges of the frontier and their far endpoints; return False if there are too many."""
        reached: list[list[tuple[float, int]]] = []
        statements = [self._edges_of(way, hop) for way in _WAYS[hop.direction]]
        for vertex in self._frontier:
            most = MAX_EDGES - self.rows if hop.hub is None else hop.hub + 1
            values = {**self._values, "vertex": vertex, "most": most, "types": json.dumps(hop.types)}
            found = [row for statement in statements for row in self._connection.execute(statement, values)]
            self.rows += len(found)
            if self.rows >= MAX_EDGES:
                return False
            edges = {row[:4]: row for row in found}
            self.edges |= edges
            if hop.hub is None or len(edges) <= hop.hub:
                reached.append([(row[_CONFIDENCE], row[1] if row[0] == vertex else row[0]) for row in edges.values()])
        endpoints = {number for source, target, *_ in self.edges for number in (source, target)}
        self._read_vertices("number", sorted(endpoints - self.vertices.keys()))
        self._frontier = {number for some in reached for number in self._surest(some, hop.surest)}
        if not self._goes_back:
            self._frontier -= self._seen
            self._seen |= self._frontier
        return True

    def _edges_of(self, way: str, hop: Hop) -> str:
        where = f"e.{way} = :vertex AND e.tenant = :tenant AND {_VALID}"
        if hop.types:
            where += " AND e.type IN (SELECT value FROM json_each(:types))"
        if self._trusted_only:
            far = f"SELECT 1 FROM vertices AS o WHERE o.number = e.{_FAR[way]} AND o.tenant = :tenant AND o.trusted"  # noqa: S608 - columns
            where += f" AND e.trusted AND EXISTS ({far})"
        return f"SELECT {EDGE_COLUMNS} FROM {self._edges_seen} AS e WHERE {where} LIMIT :most"  # noqa: S608 - columns

    def _surest(self, endpoints: list[tuple[float, int]], most: int | None) -> Iterator[int]:
        """Yield walkable endpoints of a vertex's edges; at most ``most`` by highest confidence, plus ties."""
        walkable = [(sure, number) for sure, number in endpoints if self._is_walkable(number)]
        least = 0.0
        if most is not None and len(walkable) > most:
            least = sorted((sure for sure, _ in walkable), reverse=True)[most - 1]
        return (number for sure, number in walkable if sure >= least)

    def _is_walkable(self, number: int) -> bool:
        row = self.vertices[number]
        valid = row[_VALID_FROM] <= self._as_of < row[_VALID_UNTIL]
        return valid and (row[_TRUSTED] or not self._trusted_only)

    def _read_vertices(self, column: str, given: Iterable[object]) -> None:
        rows = self._connection.execute(
            # CROSS JOIN starts from the given ids: SQLite's own plan reads all vertices of the tenant.
            f"SELECT {VERTEX_COLUMNS} FROM json_each(:given) AS asked"  # noqa: S608 - columns
            f" CROSS JOIN vertices AS v ON v.tenant = :tenant AND v.{column} = asked.value",
            self._values | {"given": json.dumps(list(given))},
        )
        self.vertices |= {row[0]: row for row in rows}
