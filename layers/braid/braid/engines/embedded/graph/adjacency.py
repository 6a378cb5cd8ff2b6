"""A tenant's graph in memory, and the walk over it: arrays of numbers, a handful of NumPy operations a hop.

Vertices and relationship types are numbered in the order of their ids and names, so that comparing numbers is
comparing ids, and every tie is broken the same way whatever the order of writing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from braid.deadline import check
from braid.models import Direction, Path

if TYPE_CHECKING:
    import sqlite3

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]
    Scores = NDArray[np.float64]

ALWAYS_FROM = np.iinfo(np.int64).min
ALWAYS_UNTIL = np.iinfo(np.int64).max
NO_TIME = np.iinfo(np.int64).min


class Neighbours(NamedTuple):
    """Edges by the vertex they are walked from: the surest first, then by identity."""

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
    _neighbours: dict[Direction, Neighbours] = field(default_factory=dict)

    def open_vertices(self, as_of: int, *, trusted_only: bool) -> NDArray[np.bool_]:
        """Return which vertices may be walked at a moment, in microseconds since 1970."""
        in_force: NDArray[np.bool_] = (self.valid_from <= as_of) & (self.valid_until > as_of)
        return in_force & self.trusted if trusted_only else in_force

    def neighbours(self, direction: Direction) -> Neighbours:
        """Return the edges to walk in a direction, sorted when first asked for."""
        if direction not in self._neighbours:
            self._neighbours[direction] = self._sort(direction)
        return self._neighbours[direction]

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
    """Read a tenant's graph."""
    vertices = connection.execute(
        "SELECT number, id, name, entity_type, has_record, timestamp, valid_at, invalid_at, trusted"
        " FROM vertices WHERE tenant = ? ORDER BY id",
        (tenant,),
    ).fetchall()
    place = {row[0]: number for number, row in enumerate(vertices)}
    entity_types = sorted({row[3] for row in vertices})
    type_place = {name: number for number, name in enumerate(entity_types)}
    edges = connection.execute(
        "SELECT source, type, target, predicate, confidence, valid_at, invalid_at, evidence FROM edges"
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
    )


def _numbers(values: list[int]) -> Numbers:
    return np.array(values, dtype=np.int64)


def _moments(values: list[int | None], missing: int) -> Numbers:
    return np.array([missing if value is None else value for value in values], dtype=np.int64)


class Step(NamedTuple):
    """What one hop reached: parallel arrays, one value a vertex, in the order of their paths."""

    vertices: Numbers
    scores: Scores
    parents: Numbers
    """Place in the step before."""
    edges: Numbers
    """The last edge."""
    inward: NDArray[np.bool_]
    """Whether the last edge was walked against its direction."""


class Reached(NamedTuple):
    """All that a walk reached, each vertex by its best path; parallel arrays."""

    vertices: Numbers
    scores: Scores
    hops: Numbers
    places: Numbers
    """Place in the step of that hop."""
    steps: list[Step]
    truncated: bool


def walk(
    graph: Adjacency,
    seeds: Numbers,
    *,
    types: NDArray[np.bool_] | None,
    direction: Direction,
    max_hops: int,
    by_confidence: bool,
    as_of: int,
    fan_out: int,
    trusted_only: bool = False,
) -> Reached:
    """Walk from all seeds at once, keeping the best path to each vertex at each hop.

    A vertex is walked on from at a later hop only where it was then reached by a better score than at any hop
    before: otherwise all that lies behind it is reached at least as well by the shorter path. So the work is bounded
    by hops times edges, where enumerating walks grows with the product of degrees.

    Parameters
    ----------
    seeds
        Different vertices; those not valid at ``as_of`` are left out.
    types
        Shape (relationship types,): which ones are walked; None for all.
    as_of
        Microseconds since 1970.
    """
    open_vertex = graph.open_vertices(as_of, trusted_only=trusted_only)
    best = np.full(len(graph.ids), -1.0)
    hop_of = np.zeros(len(graph.ids), dtype=np.int64)
    place_of = np.full(len(graph.ids), -1, dtype=np.int64)
    seeds = np.sort(seeds)  # the order of their ids, which is that of their paths
    best[seeds] = 2.0  # better than any score: never reached, so never returned and never walked through
    seeds = seeds[open_vertex[seeds]]
    nothing = np.zeros(len(seeds), dtype=np.int64)
    steps = [Step(seeds, np.ones(len(seeds)), nothing, nothing, nothing.astype(np.bool_))]
    neighbours = graph.neighbours(direction)
    truncated = False
    for hop in range(1, max_hops + 1):
        check()
        parents, edges, targets = edges_of(neighbours, steps[-1].vertices)
        keep = (graph.edge_from[edges] <= as_of) & (graph.edge_until[edges] > as_of) & open_vertex[targets]
        if types is not None:
            keep &= types[graph.edge_types[edges]]
        parents, edges, targets = parents[keep], edges[keep], targets[keep]
        within = place_in_group(parents) < fan_out
        if not within.all():
            truncated = True
            parents, edges, targets = parents[within], edges[within], targets[within]
        scores = (
            steps[-1].scores[parents] * graph.confidence[edges]
            if by_confidence
            else np.full(len(edges), 1.0 / (1.0 + hop))
        )
        better = scores > best[targets]
        parents, edges, targets, scores = parents[better], edges[better], targets[better], scores[better]
        kinds = graph.edge_types[edges]
        inward = graph.sources[edges] != steps[-1].vertices[parents]
        # Parents are in the order of their paths, so their places decide between equal scores as the paths would.
        order = np.lexsort((inward, kinds, parents, -scores, targets))
        first = order[np.flatnonzero(np.diff(targets[order], prepend=-1))]
        first = first[np.lexsort((targets[first], parents[first]))]
        step = Step(targets[first], scores[first], parents[first], edges[first], inward[first])
        if not len(step.vertices):
            break
        steps.append(step)
        best[step.vertices] = step.scores
        hop_of[step.vertices] = hop
        place_of[step.vertices] = np.arange(len(step.vertices))
    reached = np.flatnonzero(place_of >= 0)
    return Reached(reached, best[reached], hop_of[reached], place_of[reached], steps, truncated)


def edges_of(neighbours: Neighbours, vertices: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return all edges of some vertices: the place of the vertex, the edge, where it leads."""
    begins = neighbours.starts[vertices]
    counts = neighbours.starts[vertices + 1] - begins
    parents = np.repeat(np.arange(len(vertices)), counts)
    offsets = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
    places = begins[parents] + offsets
    return parents, neighbours.edges[places], neighbours.targets[places]


def place_in_group(groups: Numbers) -> Numbers:
    """Return each value's place among its equals; equals stand together."""
    if not len(groups):
        return groups
    begins = np.flatnonzero(np.diff(groups, prepend=-1))
    counts = np.diff(begins, append=len(groups))
    return np.arange(len(groups)) - np.repeat(begins, counts)


def path(graph: Adjacency, reached: Reached, row: int) -> Path:
    """Return the path to one of the vertices reached."""
    vertices: list[int] = []
    types: list[str] = []
    inward: list[bool] = []
    evidence: list[str | None] = []
    place = int(reached.places[row])
    for hop in range(int(reached.hops[row]), 0, -1):
        step = reached.steps[hop]
        vertices.append(int(step.vertices[place]))
        edge = int(step.edges[place])
        types.append(graph.relationship_types[int(graph.edge_types[edge])])
        evidence.append(graph.evidence[edge])
        inward.append(bool(step.inward[place]))
        place = int(step.parents[place])
    vertices.append(int(reached.steps[0].vertices[place]))
    return Path(
        ids=tuple(graph.ids[vertex] for vertex in reversed(vertices)),
        types=tuple(reversed(types)),
        names=tuple(graph.names[vertex] or graph.ids[vertex] for vertex in reversed(vertices)),
        inward=tuple(reversed(inward)),
        evidence=tuple(reversed(evidence)) if any(evidence) else (),
    )
