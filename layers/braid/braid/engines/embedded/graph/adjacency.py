"""A tenant's graph in memory: NumPy arrays of vertices, edges and their adjacency.

Vertices and relationship types are numbered in the order of their ids and names, so that comparing numbers is
comparing ids, and ties do not depend on the order of writing.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from braid.engines.embedded.tables import from_microseconds, to_microseconds
from braid.models import Direction
from braid.ranking.graph_walks import Node

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from braid.models import TimeRange

    Numbers = NDArray[np.int64]
    Scores = NDArray[np.float64]
    Mask = NDArray[np.bool_]

ALWAYS_FROM = np.iinfo(np.int64).min
ALWAYS_UNTIL = np.iinfo(np.int64).max
NO_TIME = np.iinfo(np.int64).min


class Neighbours(NamedTuple):
    """Edges grouped by the vertex they are walked from: highest confidence first, then by identity."""

    starts: Numbers
    """Shape (vertices + 1,): where each vertex's edges begin."""
    edges: Numbers
    targets: Numbers


@dataclass(frozen=True, eq=False)
class Adjacency:
    """The graph of one tenant at one write generation; arrays have one value a vertex or an edge."""

    generation: int
    ids: list[str]
    numbers: dict[str, int]
    names: list[str | None]
    entity_types: list[str]
    type_of: Numbers
    """Each vertex's place in ``entity_types``."""
    has_record: NDArray[np.bool_]
    timestamps: Numbers
    trusted: NDArray[np.bool_]
    valid_from: Numbers
    valid_until: Numbers
    relationship_types: list[str]
    sources: Numbers
    targets: Numbers
    edge_types: Numbers
    """Each edge's place in ``relationship_types``."""
    confidence: Scores
    edge_from: Numbers
    edge_until: Numbers
    evidence: list[str | None]
    """Each edge's evidence."""
    predicates: list[str]
    """Each edge's predicate; empty where it has none."""
    found: Mask
    """Whether each edge was found in a text."""
    edge_trusted: NDArray[np.bool_]
    _neighbours: dict[Direction, Neighbours] = field(default_factory=dict)

    def neighbours(self, direction: Direction) -> Neighbours:
        """Return the edges to walk in a direction, sorted when first asked for."""
        if direction not in self._neighbours:
            self._neighbours[direction] = self._sort(direction)
        return self._neighbours[direction]

    def node(self, vertex: int) -> Node:
        """Return a vertex as what graph queries and PageRank read."""
        time = int(self.timestamps[vertex])
        return Node(
            id=self.ids[vertex],
            entity_type=self.entity_types[int(self.type_of[vertex])],
            has_record=bool(self.has_record[vertex]),
            timestamp=None if time == NO_TIME else from_microseconds(time),
            name=self.names[vertex],
            trusted=bool(self.trusted[vertex]),
            invalid_at=moment_of(self.valid_until, vertex),
        )

    def vertices_in_force(self, vertices: Numbers | slice, as_of: int, *, trusted_only: bool) -> Mask:
        """Return which of some vertices may be walked at a moment in microseconds since 1970."""
        keep: Mask = (self.valid_from[vertices] <= as_of) & (self.valid_until[vertices] > as_of)
        return keep & self.trusted[vertices] if trusted_only else keep

    def edges_in_force(self, edges: Numbers, as_of: int, *, trusted_only: bool) -> Mask:
        """Return which of some edges may be walked at a moment in microseconds since 1970."""
        keep: Mask = (self.edge_from[edges] <= as_of) & (self.edge_until[edges] > as_of)
        return keep & self.edge_trusted[edges] if trusted_only else keep

    def is_type(self, *types: str) -> Mask:
        """Return which of ``relationship_types`` are among some."""
        return np.array([name in types for name in self.relationship_types], dtype=np.bool_)

    def matching(self, entity_types: Sequence[str], time_range: TimeRange | None) -> Mask:
        """Return which vertices are of one of the types, any if there are none, and have a time in the range."""
        keep = np.ones(len(self.ids), dtype=np.bool_)
        if entity_types:
            wanted = np.array([name in entity_types for name in self.entity_types], dtype=np.bool_)
            keep &= wanted[self.type_of]
        if time_range is not None:
            start, end = to_microseconds(time_range.start), to_microseconds(time_range.end)
            keep &= self.timestamps != NO_TIME
            if start is not None:
                keep &= self.timestamps >= start
            if end is not None:
                keep &= self.timestamps < end
        return keep

    def _sort(self, direction: Direction) -> Neighbours:
        every = np.arange(len(self.sources))
        if direction is Direction.OUT:
            edges, nearer, farther = every, self.sources, self.targets
        elif direction is Direction.IN:
            edges, nearer, farther = every, self.targets, self.sources
        else:
            back = every[self.sources != self.targets]  # a loop is one edge, not two
            edges = np.concatenate([every, back])
            nearer = np.concatenate([self.sources, self.targets[back]])
            farther = np.concatenate([self.targets, self.sources[back]])
        # Edges are numbered by identity.
        order = np.lexsort((edges, -self.confidence[edges], nearer))
        starts = np.searchsorted(nearer[order], np.arange(len(self.ids) + 1))
        return Neighbours(starts, edges[order], farther[order])


def load(connection: sqlite3.Connection, tenant: int, generation: int) -> Adjacency:
    """Read a tenant's graph from its rows."""
    vertices = connection.execute(
        "SELECT number, id, name, entity_type, has_record, timestamp, valid_at, invalid_at, trusted"
        " FROM vertices WHERE tenant = ? ORDER BY id",
        (tenant,),
    ).fetchall()
    place = {row[0]: number for number, row in enumerate(vertices)}
    entity_types = sorted({row[3] for row in vertices})
    type_place = {name: number for number, name in enumerate(entity_types)}
    edges = connection.execute(
        "SELECT source, type, target, predicate, confidence, valid_at, invalid_at, evidence, trusted,"
        " position IS NOT NULL FROM edges"
        " WHERE tenant = ?",
        (tenant,),
    ).fetchall()
    relationship_types = sorted({row[1] for row in edges})
    relationship_place = {name: number for number, name in enumerate(relationship_types)}
    edges.sort(key=lambda row: (place[row[0]], row[1], place[row[2]], row[3]))
    return Adjacency(
        generation=generation,
        ids=[row[1] for row in vertices],
        numbers={row[1]: number for number, row in enumerate(vertices)},
        names=[row[2] for row in vertices],
        entity_types=entity_types,
        type_of=_numbers([type_place[row[3]] for row in vertices]),
        has_record=np.array([row[4] for row in vertices], dtype=np.bool_),
        timestamps=_moments([row[5] for row in vertices], NO_TIME),
        trusted=np.array([row[8] for row in vertices], dtype=np.bool_),
        valid_from=_moments([row[6] for row in vertices], ALWAYS_FROM),
        valid_until=_moments([row[7] for row in vertices], ALWAYS_UNTIL),
        relationship_types=relationship_types,
        sources=_numbers([place[row[0]] for row in edges]),
        targets=_numbers([place[row[2]] for row in edges]),
        edge_types=_numbers([relationship_place[row[1]] for row in edges]),
        confidence=np.array([row[4] for row in edges], dtype=np.float64),
        edge_from=_moments([row[5] for row in edges], ALWAYS_FROM),
        edge_until=_moments([row[6] for row in edges], ALWAYS_UNTIL),
        evidence=[row[7] for row in edges],
        predicates=[sys.intern(row[3] or "") for row in edges],
        edge_trusted=np.array([row[8] for row in edges], dtype=np.bool_),
        found=np.array([row[9] for row in edges], dtype=np.bool_),
    )


def _numbers(values: list[int]) -> Numbers:
    return np.array(values, dtype=np.int64)


def _moments(values: list[int | None], missing: int) -> Numbers:
    return np.array([missing if value is None else value for value in values], dtype=np.int64)


def moment_of(until: Numbers, place: int) -> datetime | None:
    """Return the end of a vertex's or an edge's validity; None where there is none."""
    end = int(until[place])
    return None if end == ALWAYS_UNTIL else from_microseconds(end)


def begin_of(begins: Numbers, place: int) -> datetime | None:
    """Return the beginning of an edge's validity; None where there is none."""
    begin = int(begins[place])
    return None if begin == ALWAYS_FROM else from_microseconds(begin)


def edges_of(neighbours: Neighbours, vertices: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return all edges of some vertices: the vertex's place in ``vertices``, the edge, its target."""
    begins = neighbours.starts[vertices]
    counts = neighbours.starts[vertices + 1] - begins
    parents = np.repeat(np.arange(len(vertices)), counts)
    offsets = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
    places = begins[parents] + offsets
    return parents, neighbours.edges[places], neighbours.targets[places]


def place_in_group(groups: Numbers) -> Numbers:
    """Return each value's place in its group of equal values, which are adjacent."""
    if not len(groups):
        return groups
    begins = np.flatnonzero(np.diff(groups, prepend=-1))
    counts = np.diff(begins, append=len(groups))
    return np.arange(len(groups)) - np.repeat(begins, counts)
