"""A tenant's graph in memory with an overlay of the writes since it was loaded.

The loaded arrays do not change. Vertices and edges that were changed since are read by their ids into separate arrays,
and the neighbourhood of a request's seeds is read from both. So the cost of a question after a write depends on its
walk and on the writes, not on the size of the graph. Both are merged once enough questions make that worthwhile.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from braid.deadline import check
from braid.engines.embedded.graph.adjacency import (
    BOUNDS,
    EDGE_COLUMNS,
    VERTEX_COLUMNS,
    Adjacency,
    edges_of,
    of_rows,
    place_in_group,
    same_names,
    sorted_numbers,
)
from braid.engines.embedded.graph.lazy_texts import OverlaidTexts, SubgraphIndices
from braid.engines.embedded.graph_change_log import edges_seen
from braid.engines.embedded.tables import to_microseconds
from braid.ranking.neighbourhood_arrays import are_among, distinct

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from braid.engines.embedded.graph.adjacency import Mask, Numbers
    from braid.engines.embedded.graph.rows_around_seeds import Hop, Walk
    from braid.engines.embedded.graph_change_log import Changes
    from braid.models import Direction

    Row = tuple[Any, ...]
    EdgeKey = tuple[str, str, str]

MAX_FOLLOWED = 4_000
"""Most vertices and edges in the overlay; beyond, a part is read or the graph is loaded again."""
EDGES_JOINED_PER_REQUEST = 2_000
"""Edges of a graph that are joined with its overlay in the time that one request takes."""


class ChangedRows(NamedTuple):
    """The rows, at a write generation, of vertices and edges changed since a graph was loaded; none if removed.

    The endpoints of changed edges are among the vertices, changed or not.
    """

    generation: int
    vertices: Mapping[str, Row | None]
    edges: Mapping[EdgeKey, tuple[Row, ...]]
    """By source id, type and target id."""

    def __len__(self) -> int:
        return len(self.vertices) + len(self.edges)


def read_changed(
    connection: sqlite3.Connection, tenant: int, generation: int, changes: Changes, before: ChangedRows
) -> ChangedRows:
    """Return the rows ``before`` updated with those of ``changes``, read at a generation."""
    vertices: dict[str, Row | None] = {**before.vertices, **dict.fromkeys(changes.vertices)}
    edges: dict[EdgeKey, tuple[Row, ...]] = {**before.edges, **dict.fromkeys(changes.edges, ())}
    values = BOUNDS | {"tenant": tenant, "given": json.dumps(sorted(changes.edges))}
    for source, target, *row in connection.execute(
        f"SELECT s.id, t.id, {EDGE_COLUMNS} FROM json_each(:given) AS asked"  # noqa: S608 - columns
        " CROSS JOIN vertices AS s ON s.tenant = :tenant AND s.id = json_extract(asked.value, '$[0]')"
        " CROSS JOIN vertices AS t ON t.tenant = :tenant AND t.id = json_extract(asked.value, '$[2]')"
        f" CROSS JOIN {edges_seen(connection, tenant)} AS e ON e.tenant = :tenant AND e.source = s.number"
        " AND e.type = json_extract(asked.value, '$[1]') AND e.target = t.number",
        values,
    ):
        edges[source, row[2], target] += (tuple(row),)
    # The endpoints of changed edges as well, whose rows may not have changed.
    wanted = {*changes.vertices, *(endpoint for source, _, target in changes.edges for endpoint in (source, target))}
    for row in connection.execute(
        f"SELECT {VERTEX_COLUMNS} FROM json_each(:given) AS asked"  # noqa: S608 - columns
        " CROSS JOIN vertices AS v ON v.tenant = :tenant AND v.id = asked.value",
        values | {"given": json.dumps(sorted(wanted))},
    ):
        vertices[row[1]] = tuple(row)
    return ChangedRows(generation, vertices, edges)


class FollowedGraph:
    """A loaded graph with an overlay of the rows that were changed since.

    The overlay is a small graph of its own, of the changed vertices, the changed edges and their endpoints. Both are
    numbered together:

    ========  ===================================  ==================================================================
    a vertex  of the loaded graph, changed or not  its number there; if changed, its values are those of the overlay
    a vertex  of the overlay alone                 number of loaded vertices + its index in the overlay
    an edge   of the loaded graph, not changed     its number there
    an edge   of the overlay                       number of loaded edges + its index in the overlay
    ========  ===================================  ==================================================================

    The numbers of removed vertices, and of edges that the overlay replaces, are not used. Returned parts and the joined
    graph are numbered anew in the order of ids, like every :class:`Adjacency`.
    """

    def __init__(self, loaded: Adjacency, changed: ChangedRows) -> None:
        self.changed = changed
        vertices = sorted((row for row in changed.vertices.values() if row is not None), key=lambda row: row[1])
        edges = [row for rows in changed.edges.values() for row in rows]
        self._loaded = loaded
        self._overlay = of_rows([vertices] if vertices else [], [edges] if edges else [], changed.generation)
        self._loaded_vertex_count, self._loaded_edge_count = len(loaded.ids), len(loaded.sources)
        numbers = [
            loaded.numbers.get(identity, self._loaded_vertex_count + index)
            for index, identity in enumerate(self._overlay.ids)
        ]
        self._overlay_numbers = np.array(numbers, dtype=np.int64)
        """The number of each vertex of the overlay."""
        self._overlay_order = np.argsort(self._overlay_numbers)
        self._sorted_numbers = self._overlay_numbers[self._overlay_order]
        self._asked = 0
        """Requests since the last write."""
        self._removed = {identity for identity, row in changed.vertices.items() if row is None}
        self._replaced_edges = np.array(sorted(self._find_replaced_edges()), dtype=np.int64)
        """Edges of the loaded graph that are changed or removed."""
        self._touched = {
            *changed.vertices,
            *(endpoint for source, _, target in changed.edges for endpoint in (source, target)),
        }
        """Ids of the vertices that are changed, new, removed or an end of a changed edge."""
        touched_numbers = sorted(loaded.numbers[one] for one in self._touched if one in loaded.numbers)
        self._touched_numbers = np.array(touched_numbers, dtype=np.int64)
        self._types, self._type_codes = _union(loaded.relationship_types, self._overlay.relationship_types)
        self._entity_types, self._entity_codes = _union(loaded.entity_types, self._overlay.entity_types)

    def part(self, walk: Walk) -> Adjacency:
        """Return the part of the graph that a walk sees, or the loaded graph if nothing is changed in that part."""
        as_of = to_microseconds(walk.as_of) or 0
        seeds = sorted_numbers(self._number_of, walk.seeds)
        frontier = self._walkable_among(seeds, as_of, trusted_only=walk.trusted_only)
        vertices, followed = frontier, [np.empty(0, dtype=np.int64)]
        meets_no_change = not (walk.by_condition and self._touched) and self._touched.isdisjoint(walk.seeds)
        for hop in walk.hops:
            check()
            found = self._edges_of(frontier, hop.direction)
            meets_no_change = meets_no_change and not are_among(found[2], self._touched_numbers).any()
            edges, frontier = self._take_hop(frontier, found, hop, as_of, trusted_only=walk.trusted_only)
            followed.append(edges)
            frontier = frontier if walk.goes_back else frontier[~np.isin(frontier, vertices)]
            vertices = np.concatenate((vertices, frontier))
        if meets_no_change:
            return self._loaded
        return self._subgraph(distinct(np.concatenate(followed)), vertices)

    def joined(self) -> Adjacency | None:
        """Return the whole graph merged with its overlay, once requests have cost about as much; None before.

        Equal to the result of :func:`~braid.engines.embedded.graph.adjacency.load`, except that the lists of types
        keep types that no longer occur. Always None for a graph that is mapped from a file.
        """
        self._asked += 1
        if self._loaded.mapped is not None or self._asked * EDGES_JOINED_PER_REQUEST < self._loaded_edge_count:
            return None
        edges = np.delete(np.arange(self._loaded_edge_count + len(self._overlay.sources)), self._replaced_edges)
        gone = [self._loaded.numbers[identity] for identity in self._removed if identity in self._loaded.numbers]
        kept = np.delete(np.arange(self._loaded_vertex_count), np.array(gone, dtype=np.int64))
        whole = self._subgraph(edges, distinct(np.concatenate((kept, self._overlay_numbers))))
        ids = list(whole.ids)
        return replace(
            whole,
            ids=ids,
            numbers={identity: place for place, identity in enumerate(ids)},
            names=list(whole.names),
            evidence=list(whole.evidence),
            predicates=list(whole.predicates),
        )

    def _take_hop(
        self, frontier: Numbers, found: tuple[Numbers, Numbers, Numbers], hop: Hop, as_of: int, *, trusted_only: bool
    ) -> tuple[Numbers, Numbers]:
        """Return the edges that a hop adds to the part, and the next frontier.

        Parameters
        ----------
        found
            All edges of the frontier, as :meth:`_edges_of` returns them.
        hop
            The rule; see :class:`~braid.engines.embedded.graph.rows_around_seeds.Hop`.
        """
        parents, edges, targets = found
        merged = self._merged_edges(edges)
        keep = (merged("edge_from") <= as_of) & (merged("edge_until") > as_of)
        if hop.types:
            wanted = np.array([name in hop.types for name in self._types], dtype=np.bool_)
            keep &= wanted[merged("edge_types", self._type_codes)]
        if trusted_only:
            keep &= merged("edge_trusted") & self._merged_vertices(targets)("trusted")
        confidence = merged("confidence")[keep]
        parents, edges, targets = parents[keep], edges[keep], targets[keep]
        onwards = np.ones(len(edges), dtype=np.bool_)
        if hop.hub is not None:
            onwards = np.bincount(parents, minlength=len(frontier))[parents] <= hop.hub
            added, of_hubs = onwards.copy(), np.flatnonzero(~onwards)
            added[of_hubs] = _ranks(parents[of_hubs], confidence[of_hubs]) <= hop.hub
            parents, edges, targets = parents[added], edges[added], targets[added]
            confidence, onwards = confidence[added], onwards[added]
        onwards &= self._walkable(targets, as_of, trusted_only=trusted_only)
        reached = targets[onwards]
        if hop.surest is not None:
            near, sure = parents[onwards], confidence[onwards]
            least = np.zeros(len(frontier))
            last = _ranks(near, sure) == hop.surest - 1
            least[near[last]] = sure[last]
            reached = reached[sure >= least[near]]
        return edges, distinct(reached)

    def _edges_of(self, frontier: Numbers, direction: Direction) -> tuple[Numbers, Numbers, Numbers]:
        """Return all edges of the frontier's vertices as arrays: index in ``frontier``, edge, far endpoint."""
        in_loaded = np.flatnonzero(frontier < self._loaded_vertex_count)
        parents, edges, targets = edges_of(self._loaded.neighbours(direction), frontier[in_loaded])
        if len(self._replaced_edges):
            kept = ~np.isin(edges, self._replaced_edges)
            parents, edges, targets = parents[kept], edges[kept], targets[kept]
        index, is_overlaid = self._overlay_index(frontier)
        in_overlay = np.flatnonzero(is_overlaid)
        new_parents, new_edges, new_targets = edges_of(self._overlay.neighbours(direction), index[in_overlay])
        return (
            np.concatenate((in_loaded[parents], in_overlay[new_parents])),
            np.concatenate((edges, new_edges + self._loaded_edge_count)),
            np.concatenate((targets, self._overlay_numbers[new_targets])),
        )

    def _subgraph(self, edges: Numbers, further: Numbers) -> Adjacency:
        """Return the subgraph of these edges, their endpoints and further vertices, numbered anew in the order of ids.

        Its texts are read on access: a question looks at few of them.
        """
        loaded, overlay = self._loaded, self._overlay
        is_new = edges >= self._loaded_edge_count
        old, new = edges[~is_new], edges[is_new] - self._loaded_edge_count
        sources = np.concatenate((loaded.sources[old], self._overlay_numbers[overlay.sources[new]]))
        targets = np.concatenate((loaded.targets[old], self._overlay_numbers[overlay.targets[new]]))
        vertices = self._in_order_of_ids(distinct(np.concatenate((further, sources, targets))))
        by_number = np.argsort(vertices)
        sources, targets = (
            by_number[np.searchsorted(vertices, endpoints, sorter=by_number)] for endpoints in (sources, targets)
        )
        kinds = self._merged_edges(edges)("edge_types", self._type_codes)
        if len(new):  # edges are in the order of their identities, as in the loaded graph
            # Edges of the same endpoints and type are all loaded ones or all new.
            order = np.lexsort((targets, kinds, sources))
            edges, kinds, sources, targets = edges[order], kinds[order], sources[order], targets[order]
        of_vertices, of_edges = self._merged_vertices(vertices), self._merged_edges(edges)
        is_overlaid = np.zeros(len(vertices), dtype=np.bool_)
        is_overlaid[of_vertices.overlaid] = True
        places = vertices.copy()  # as OverlaidTexts counts them
        places[of_vertices.overlaid] = self._loaded_vertex_count + of_vertices.in_overlay
        ids, names = OverlaidTexts(loaded.ids, overlay.ids, places), OverlaidTexts(loaded.names, overlay.names, places)
        return Adjacency(
            generation=self.changed.generation,
            ids=ids,
            numbers=SubgraphIndices(ids, self._number_of, vertices[by_number], by_number),
            names=names,
            entity_types=self._entity_types,
            type_of=of_vertices("type_of", self._entity_codes),
            relationship_types=self._types,
            sources=sources,
            targets=targets,
            edge_types=kinds,
            evidence=OverlaidTexts(loaded.evidence, overlay.evidence, edges),
            predicates=OverlaidTexts(loaded.predicates, overlay.predicates, edges),
            same_name=_same_names(of_edges("same_name"), names, is_overlaid, (sources, targets)),
            has_record=of_vertices("has_record"),
            timestamps=of_vertices("timestamps"),
            trusted=of_vertices("trusted"),
            valid_from=of_vertices("valid_from"),
            valid_until=of_vertices("valid_until"),
            confidence=of_edges("confidence"),
            edge_from=of_edges("edge_from"),
            edge_until=of_edges("edge_until"),
            edge_trusted=of_edges("edge_trusted"),
            found=of_edges("found"),
        )

    def _in_order_of_ids(self, vertices: Numbers) -> Numbers:
        """Return vertices, given in the order of their numbers, in the order of their ids."""
        # Those of the loaded graph are numbered in that order, and so are the new ones.
        loaded, new = np.split(vertices, np.searchsorted(vertices, [self._loaded_vertex_count]))
        ids = [self._overlay.ids[index] for index in (new - self._loaded_vertex_count).tolist()]
        first_after = np.array([bisect_left(self._loaded.ids, identity) for identity in ids], dtype=np.int64)
        return np.insert(loaded, np.searchsorted(loaded, first_after), new)

    def _number_of(self, identity: str) -> int | None:
        index = self._overlay.numbers.get(identity)
        if index is not None:
            return self._overlay_numbers.item(index)
        return None if identity in self._removed else self._loaded.numbers.get(identity)

    def _find_replaced_edges(self) -> Iterable[int]:
        """Yield the edges of the loaded graph that are changed or removed."""
        loaded, kinds = self._loaded, {name: code for code, name in enumerate(self._loaded.relationship_types)}
        for source, kind, target in self.changed.edges:
            begin, of_kind, end = loaded.numbers.get(source), kinds.get(kind), loaded.numbers.get(target)
            if begin is None or of_kind is None or end is None:
                continue
            # Edges are in the order of their identities.
            low, high = bisect_left(loaded.sources, begin), bisect_right(loaded.sources, begin)
            alike = (loaded.edge_types[low:high] == of_kind) & (loaded.targets[low:high] == end)
            yield from (low + np.flatnonzero(alike)).tolist()

    def _overlay_index(self, vertices: Numbers) -> tuple[Numbers, Mask]:
        """Return each vertex's index in the overlay, and a mask of the vertices that are in it; else any index."""
        if not len(self._sorted_numbers):
            return np.zeros(len(vertices), dtype=np.int64), np.zeros(len(vertices), dtype=np.bool_)
        at = np.minimum(np.searchsorted(self._sorted_numbers, vertices), len(self._sorted_numbers) - 1)
        return self._overlay_order[at], self._sorted_numbers[at] == vertices

    def _merged_vertices(self, vertices: Numbers) -> _Merged:
        """Return what reads the values of vertices."""
        index, is_overlaid = self._overlay_index(vertices)
        overlaid = np.flatnonzero(is_overlaid)
        return _Merged(self._loaded, self._overlay, vertices, overlaid, index[overlaid])

    def _merged_edges(self, edges: Numbers) -> _Merged:
        """Return what reads the values of edges."""
        overlaid = np.flatnonzero(edges >= self._loaded_edge_count)
        return _Merged(self._loaded, self._overlay, edges, overlaid, edges[overlaid] - self._loaded_edge_count)

    def _walkable(self, vertices: Numbers, as_of: int, *, trusted_only: bool) -> Mask:
        merged = self._merged_vertices(vertices)
        keep: Mask = (merged("valid_from") <= as_of) & (merged("valid_until") > as_of)
        return keep & merged("trusted") if trusted_only else keep

    def _walkable_among(self, vertices: Numbers, as_of: int, *, trusted_only: bool) -> Numbers:
        return vertices[self._walkable(vertices, as_of, trusted_only=trusted_only)]


class _Merged(NamedTuple):
    """Some vertices, or edges, of a graph with an overlay; reads their values by the name of an array."""

    loaded: Adjacency
    overlay: Adjacency
    numbers: Numbers
    overlaid: Numbers
    """Places, in ``numbers``, of those whose values are the overlay's."""
    in_overlay: Numbers
    """Their indices in the overlay."""

    def __call__(self, name: str, codes: tuple[Numbers, Numbers] | None = None) -> NDArray[Any]:
        """Return one value for each, of an array of :class:`Adjacency`.

        Parameters
        ----------
        codes
            Numbers that replace the array's values, which index them: of the loaded graph, and of the overlay.
        """
        there: NDArray[Any] = getattr(self.overlay, name)[self.in_overlay]
        there = codes[1][there] if codes else there
        if len(self.overlaid) == len(self.numbers):  # the loaded graph may be empty
            return there
        values: NDArray[Any] = getattr(self.loaded, name).take(self.numbers, mode="clip")
        values = codes[0][values] if codes else values
        values[self.overlaid] = there
        return values


def _same_names(
    loaded: Mask, names: Sequence[str | None], is_overlaid: Mask, endpoints: tuple[Numbers, Numbers]
) -> Mask:
    """Return a mask of edges: whether both endpoints have the same name.

    Only edges with an endpoint in the overlay are compared, as each new one has both there; others are as loaded.
    """
    same = loaded.copy()
    compared = is_overlaid[endpoints[0]] | is_overlaid[endpoints[1]]
    sources, targets = endpoints[0][compared], endpoints[1][compared]
    vertices = distinct(np.concatenate((sources, targets)))
    same[compared] = same_names(
        [names[vertex] for vertex in vertices.tolist()],
        np.searchsorted(vertices, sources),
        np.searchsorted(vertices, targets),
    )
    return same


def _ranks(parents: Numbers, confidence: NDArray[np.float64]) -> Numbers:
    """Return each edge's rank among those of its parent, from 0, by confidence; equal ones in their order."""
    order = np.lexsort((-confidence, parents))
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = place_in_group(parents[order])
    return ranks


def _union(one: list[str], other: list[str]) -> tuple[list[str], tuple[Numbers, Numbers]]:
    """Return the sorted union of two lists, and for each list the index of its words in the union."""
    words = sorted({*one, *other})
    codes = {word: code for code, word in enumerate(words)}
    in_one, in_other = (np.array([codes[word] for word in each], dtype=np.int64) for each in (one, other))
    return words, (in_one, in_other)
