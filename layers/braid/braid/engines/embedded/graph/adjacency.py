"""A tenant's graph in memory: NumPy arrays of vertices, edges and their adjacency.

Vertices and relationship types are numbered in the order of their ids and names, so that comparing numbers is
comparing ids, and ties do not depend on the order of writing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from braid.deadline import checked
from braid.engines.embedded.graph_change_log import edges_seen
from braid.engines.embedded.tables import from_microseconds, to_microseconds
from braid.models import Direction
from braid.ranking.graph_queries_and_facts import Node, StoredEdge
from braid.ranking.neighbourhood_arrays import group_begins

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from braid.engines.embedded.sqlite_files import MappedFile
    from braid.models import TimeRange

    Numbers = NDArray[np.int64]
    Scores = NDArray[np.float64]
    Mask = NDArray[np.bool_]

ALWAYS_FROM = np.iinfo(np.int64).min
ALWAYS_UNTIL = np.iinfo(np.int64).max
NO_TIME = np.iinfo(np.int64).min
_ROWS_AT_ONCE = 4_096


class Neighbours(NamedTuple):
    """Edges grouped by the vertex they are walked from: highest confidence first, then by identity."""

    starts: Numbers
    """Shape (vertices + 1,): where each vertex's edges begin."""
    edges: Numbers
    targets: Numbers


@dataclass(frozen=True, eq=False)
class Adjacency:
    """The graph of one tenant at one write generation; arrays have one value per vertex or per edge."""

    generation: int
    ids: Sequence[str]
    numbers: Mapping[str, int]
    """The index of each id."""
    names: Sequence[str | None]
    entity_types: list[str]
    type_of: Numbers
    """Each vertex's index in ``entity_types``."""
    has_record: NDArray[np.bool_]
    timestamps: Numbers
    trusted: NDArray[np.bool_]
    valid_from: Numbers
    valid_until: Numbers
    relationship_types: list[str]
    sources: Numbers
    targets: Numbers
    edge_types: Numbers
    """Each edge's index in ``relationship_types``."""
    confidence: Scores
    edge_from: Numbers
    edge_until: Numbers
    evidence: Sequence[str | None]
    """Each edge's evidence."""
    predicates: Sequence[str]
    """Each edge's predicate; empty where it has none."""
    found: Mask
    """Whether each edge was found in a text."""
    same_name: Mask
    """Whether both endpoints of each edge have the same name, ignoring case."""
    edge_trusted: NDArray[np.bool_]
    mapped: MappedFile | None = None
    """The file that the arrays are mapped from; None for a graph that was not read from a file."""
    _neighbours: dict[Direction, Neighbours] = field(default_factory=dict)

    @property
    def is_changed(self) -> bool:
        """Whether the file that the arrays are mapped from was truncated or overwritten."""
        return self.mapped is not None and self.mapped.is_changed()

    def neighbours(self, direction: Direction) -> Neighbours:
        """Return the edges to walk in a direction, sorted on first use."""
        if direction not in self._neighbours:
            self._neighbours[direction] = self._sort(direction)
        return self._neighbours[direction]

    def numbers_of(self, ids: Iterable[str]) -> Numbers:
        """Return the sorted numbers of the vertices that exist."""
        return sorted_numbers(self.numbers.get, ids)

    def nodes(self, vertices: Sequence[int]) -> list[Node]:
        """Return vertices in the form that graph queries and PageRank use."""
        places = np.array(vertices, dtype=np.int64)
        columns = (self.type_of, self.has_record, self.timestamps, self.trusted, self.valid_until)
        return [
            Node(
                id=self.ids[vertex],
                entity_type=self.entity_types[kind],
                has_record=has_record,
                timestamp=None if time == NO_TIME else from_microseconds(time),
                name=self.names[vertex],
                trusted=trusted,
                invalid_at=moment_of(until),
            )
            for vertex, kind, has_record, time, trusted, until in checked(
                zip(vertices, *[column[places].tolist() for column in columns], strict=True)
            )
        ]

    def stored_edges(self, edges: Sequence[int]) -> list[StoredEdge]:
        """Return edges in the form that PageRank uses."""
        places = np.array(edges, dtype=np.int64)
        columns = (self.sources, self.targets, self.edge_types, self.confidence)
        others = (self.edge_trusted, self.edge_until, self.found)
        return [
            StoredEdge(
                self.ids[source],
                self.relationship_types[kind],
                self.ids[target],
                confidence,
                self.evidence[edge],
                trusted,
                moment_of(until),
                found,
            )
            for edge, source, target, kind, confidence, trusted, until, found in zip(
                edges, *[column[places].tolist() for column in (*columns, *others)], strict=True
            )
        ]

    def walkable_vertices(self, vertices: Numbers | slice, as_of: int, *, trusted_only: bool) -> Mask:
        """Return a mask of vertices: valid at ``as_of``, in microseconds since 1970, and trusted if required."""
        keep: Mask = (self.valid_from[vertices] <= as_of) & (self.valid_until[vertices] > as_of)
        return keep & self.trusted[vertices] if trusted_only else keep

    def walkable_edges(self, edges: Numbers, as_of: int, *, trusted_only: bool) -> Mask:
        """Return a mask of edges: valid at ``as_of``, in microseconds since 1970, and trusted if required."""
        keep: Mask = (self.edge_from[edges] <= as_of) & (self.edge_until[edges] > as_of)
        return keep & self.edge_trusted[edges] if trusted_only else keep

    def is_type(self, *types: str) -> Mask:
        """Return a mask of ``relationship_types``: which of them are among the given ones."""
        return np.array([name in types for name in self.relationship_types], dtype=np.bool_)

    def is_entity_type(self, *types: str) -> Mask:
        """Return a mask of ``entity_types``: which of them are among the given ones."""
        return np.array([name in types for name in self.entity_types], dtype=np.bool_)

    def matching(
        self, entity_types: Sequence[str], time_range: TimeRange | None, vertices: Numbers | slice = slice(None)
    ) -> Mask:
        """Return a mask of vertices: of one of the types, if any are given, and with a timestamp in the range."""
        keep = np.ones(len(self.type_of[vertices]), dtype=np.bool_)
        if entity_types:
            keep &= self.is_entity_type(*entity_types)[self.type_of[vertices]]
        if time_range is not None:
            start, end = to_microseconds(time_range.start), to_microseconds(time_range.end)
            timestamps = self.timestamps[vertices]
            keep &= timestamps != NO_TIME
            if start is not None:
                keep &= timestamps >= start
            if end is not None:
                keep &= timestamps < end
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


VERTEX_COLUMNS = (
    "v.number, v.id, v.name, v.entity_type, v.has_record, coalesce(v.timestamp, :never),"
    " coalesce(v.valid_at, :always_from), coalesce(v.invalid_at, :always_until), v.trusted"
)
EDGE_COLUMNS = (
    "e.source, e.target, e.type, e.predicate, e.evidence, e.confidence, coalesce(e.valid_at, :always_from),"
    " coalesce(e.invalid_at, :always_until), e.trusted, e.position IS NOT NULL"
)
BOUNDS = {"never": NO_TIME, "always_from": ALWAYS_FROM, "always_until": ALWAYS_UNTIL}
"""Bound values of :data:`VERTEX_COLUMNS` and :data:`EDGE_COLUMNS`."""


def load(connection: sqlite3.Connection, tenant: int, generation: int) -> Adjacency:
    """Load a tenant's graph from its rows, in batches: as Python objects all rows take ten times the arrays' memory."""
    bounds = BOUNDS | {"tenant": tenant}
    vertices = connection.execute(
        f"SELECT {VERTEX_COLUMNS} FROM vertices AS v WHERE v.tenant = :tenant ORDER BY v.id",  # noqa: S608 - columns
        bounds,
    )
    edges = connection.execute(
        f"SELECT {EDGE_COLUMNS} FROM {edges_seen(connection, tenant)} AS e WHERE e.tenant = :tenant",  # noqa: S608 - a table
        bounds,
    )
    return of_rows(_some(vertices), _some(edges), generation)


def of_rows(
    vertices: Iterable[Sequence[Sequence[Any]]], edges: Iterable[Sequence[Sequence[Any]]], generation: int
) -> Adjacency:
    """Return the graph of batches of rows: :data:`VERTEX_COLUMNS` sorted by id, :data:`EDGE_COLUMNS` in any order.

    Both endpoints of each edge must be among the vertices. In rows, vertices have the numbers of the database, and
    types and predicates are words; in the graph, all are indices, in the order of ids and words.
    """
    ids: list[str] = []
    names: list[str | None] = []
    entity_types, vertex_rows = _Codes(), [np.empty((7, 0), dtype=np.int64)]
    for rows in vertices:
        number, some_ids, some_names, types, *others = zip(*rows, strict=True)
        ids += some_ids
        names += some_names
        vertex_rows.append(np.array([number, [entity_types[one] for one in types], *others], dtype=np.int64))
    number, type_of, has_record, timestamps, valid_from, valid_until, trusted = np.concatenate(vertex_rows, axis=1)
    numbers = {identity: place for place, identity in enumerate(ids)}
    known_as: dict[str | None, str | None] = dict(zip(ids, ids, strict=True))
    relationship_types, predicates = _Codes(), _Codes()
    evidence: list[str | None] = []
    edge_rows, confidence_rows = [np.empty((8, 0), dtype=np.int64)], [np.empty(0)]
    for rows in edges:
        source, target, types, said, known, sure, *others = zip(*rows, strict=True)
        # Most evidence is a vertex too: its id string is shared.
        evidence += map(known_as.get, known, known)
        confidence_rows.append(np.array(sure, dtype=np.float64))
        codes = ([relationship_types[one] for one in types], [predicates[one] for one in said])
        edge_rows.append(np.array([source, target, *codes, *others], dtype=np.int64))
    columns = np.concatenate(edge_rows, axis=1)
    edge_rows.clear()  # for millions of edges each copy takes hundreds of megabytes
    # Views of the columns, which are changed in place.
    sources, targets, edge_types, predicate_of, edge_from, edge_until, edge_trusted, found = columns
    by_number = np.argsort(number)
    columns[:2] = by_number[np.searchsorted(number[by_number], columns[:2])]
    edge_types[:] = relationship_types.in_order()[edge_types]
    predicate_of[:] = predicates.in_order()[predicate_of]
    order = np.lexsort((predicate_of, targets, edge_types, sources))
    for column in columns:
        column[:] = column[order]
    words = sorted(predicates)
    return Adjacency(
        generation=generation,
        ids=ids,
        numbers=numbers,
        names=names,
        entity_types=sorted(entity_types),
        type_of=entity_types.in_order()[type_of],
        has_record=has_record.astype(np.bool_),
        timestamps=timestamps,
        trusted=trusted.astype(np.bool_),
        valid_from=valid_from,
        valid_until=valid_until,
        relationship_types=sorted(relationship_types),
        sources=sources,
        targets=targets,
        edge_types=edge_types,
        confidence=np.concatenate(confidence_rows)[order],
        edge_from=edge_from,
        edge_until=edge_until,
        evidence=[evidence[place] for place in order.tolist()],
        predicates=[words[place] for place in predicate_of.tolist()],
        edge_trusted=edge_trusted.astype(np.bool_),
        found=found.astype(np.bool_),
        same_name=same_names(names, sources, targets),
    )


def same_names(names: Sequence[str | None], sources: Numbers, targets: Numbers) -> Mask:
    """Return a mask of edges: whether both endpoints have the same name, ignoring case."""
    called = _Codes()
    name_of = np.array(
        [called[name.casefold()] if name else -place for place, name in enumerate(names, 1)], dtype=np.int64
    )
    alike: Mask = name_of[sources] == name_of[targets]
    return alike & (name_of[sources] >= 0)


class _Codes(dict[str, int]):
    """Assigns each distinct string a number, in the order of first appearance."""

    def __missing__(self, word: str) -> int:
        return self.setdefault(word, len(self))

    def in_order(self) -> Numbers:
        """Return, for each number, the rank of its string among all of them, sorted."""
        return np.argsort([self[word] for word in sorted(self)])


def _some(rows: sqlite3.Cursor) -> Iterator[list[Any]]:
    while some := rows.fetchmany(_ROWS_AT_ONCE):
        yield some


def moment_of(end: int) -> datetime | None:
    """Return the moment of an end of validity from an array; None if it is open."""
    return None if end == ALWAYS_UNTIL else from_microseconds(end)


def begin_of(begins: Numbers, place: int) -> datetime | None:
    """Return the moment at which the validity of an array's element begins; None if it is open."""
    begin = int(begins[place])
    return None if begin == ALWAYS_FROM else from_microseconds(begin)


def sorted_numbers(number_of: Callable[[str], int | None], ids: Iterable[str]) -> Numbers:
    """Return the sorted numbers of the vertices that exist; ``number_of`` returns None for an id that does not."""
    found = {number for number in map(number_of, ids) if number is not None}
    return np.array(sorted(found), dtype=np.int64)


def edges_of(neighbours: Neighbours, vertices: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return all edges of vertices as three arrays: index in ``vertices``, edge, target."""
    begins = neighbours.starts[vertices]
    counts = neighbours.starts[vertices + 1] - begins
    parents = np.repeat(np.arange(len(vertices)), counts)
    offsets = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
    places = begins[parents] + offsets
    # A mapped graph has 32-bit numbers, which arithmetic on many of them could overflow.
    return (
        parents,
        neighbours.edges[places].astype(np.int64, copy=False),
        neighbours.targets[places].astype(np.int64, copy=False),
    )


def place_in_group(groups: Numbers) -> Numbers:
    """Return each value's index within its group of equal values; equal values must be adjacent."""
    begins = group_begins(groups)
    counts = np.append(begins[1:], len(groups)) - begins
    return np.arange(len(groups)) - np.repeat(begins, counts)
