"""Expansion from a question's seeds: breadth-first search from all of them at once, with the best path to each vertex.

Declarative graph queries are walked in :mod:`braid.ranking.graph_queries_and_facts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from braid.deadline import check
from braid.engines.embedded.graph.adjacency import NO_TIME, edges_of, place_in_group
from braid.engines.embedded.tables import to_microseconds
from braid.ports.knowledge_graph import Expansion
from braid.ranking.neighbourhood_arrays import group_begins
from braid.ranking.pagerank_and_paths import Way, hits_of_ways

if TYPE_CHECKING:
    from braid.engines.embedded.graph.adjacency import Adjacency, Numbers, Scores
    from braid.ports.knowledge_graph import ExpandRequest


class Hop(NamedTuple):
    """The vertices that one hop reached: parallel arrays, one value per vertex, in the order of their paths."""

    vertices: Numbers
    scores: Scores
    parents: Numbers
    """Index in the previous hop."""
    edges: Numbers
    """The last edge."""


class WalkResult(NamedTuple):
    """The vertices that a walk reached, each with its best path; parallel arrays."""

    vertices: Numbers
    scores: Scores
    hops: Numbers
    places: Numbers
    """Index in that hop."""
    steps: list[Hop]
    truncated: bool


def expand(graph: Adjacency, request: ExpandRequest) -> Expansion:
    """Walk from all seeds at once and return the best vertices with the path to each."""
    seeds = graph.numbers_of(request.seeds)
    if not len(seeds) or not len(graph.sources):
        return Expansion()
    reached = _walk(graph, seeds, request)
    ways = [_way(reached, row) for row in _choose(graph, reached, request)]
    hits = hits_of_ways(ways, graph.nodes, graph.stored_edges)
    return Expansion.unchecked(hits=hits, truncated=reached.truncated)


def _walk(graph: Adjacency, seeds: Numbers, request: ExpandRequest) -> WalkResult:
    """Walk from all seeds at once, keeping the best path to each vertex at each hop.

    A later hop walks on from a vertex only if it reached that vertex with a better score than any hop before:
    otherwise the shorter path reaches everything beyond it at least as well. So the work is bounded by hops times
    edges, whereas enumerating paths grows with the product of degrees.
    """
    as_of, trusted_only = to_microseconds(request.as_of) or 0, request.trusted_only
    types = graph.is_type(*request.types) if request.types else None
    seeds = seeds[graph.walkable_vertices(seeds, as_of, trusted_only=trusted_only)]
    nothing = np.zeros(len(seeds), dtype=np.int64)
    steps = [Hop(seeds, np.ones(len(seeds)), nothing, nothing)]
    neighbours = graph.neighbours(request.direction)
    truncated = False
    for hop in range(1, request.max_hops + 1):
        check()
        parents, edges, targets = edges_of(neighbours, steps[-1].vertices)
        keep = graph.walkable_edges(edges, as_of, trusted_only=trusted_only)
        keep &= graph.walkable_vertices(targets, as_of, trusted_only=trusted_only)
        if types is not None:
            keep &= types[graph.edge_types[edges]]
        parents, edges, targets = parents[keep], edges[keep], targets[keep]
        within = place_in_group(parents) < request.fan_out
        if not within.all():
            truncated = True
            parents, edges, targets = parents[within], edges[within], targets[within]
        scores = steps[-1].scores[parents] * np.where(graph.found[edges], request.found_share, 1.0)
        scores = scores * graph.confidence[edges] if request.by_confidence else scores * hop / (1.0 + hop)
        known, best, _, _ = _reached(steps)
        places = np.minimum(np.searchsorted(known, targets), len(known) - 1)
        # No score is better than a seed's, which is 1: seeds are never reached, so never returned or walked through.
        better = scores > np.where(known[places] == targets, best[places], -1.0)
        parents, edges, targets, scores = parents[better], edges[better], targets[better], scores[better]
        kinds = graph.edge_types[edges]
        inward = graph.sources[edges] != steps[-1].vertices[parents]
        # Parents are sorted by path, so that comparing their indexes breaks ties of scores as comparing paths would.
        order = np.lexsort((inward, kinds, parents, -scores, targets))
        first = order[group_begins(targets[order])]
        first = first[np.lexsort((targets[first], parents[first]))]
        step = Hop(targets[first], scores[first], parents[first], edges[first])
        if not len(step.vertices):
            break
        steps.append(step)
    vertices, scores, hops, places = _reached(steps)
    found = hops > 0
    return WalkResult(vertices[found], scores[found], hops[found], places[found], steps, truncated)


def _reached(steps: list[Hop]) -> tuple[Numbers, Scores, Numbers, Numbers]:
    """Return the vertices of all hops so far, sorted, with their best scores, and the hop and index of each score.

    The best score is that of the last hop that reached the vertex. The vertices are sorted at each hop, as arrays with
    a value for every vertex would grow with the graph.
    """
    vertices = np.concatenate([step.vertices for step in steps])
    lengths = [len(step.vertices) for step in steps]
    hops = np.repeat(np.arange(len(steps)), lengths)
    order = np.lexsort((-hops, vertices))
    last = order[group_begins(vertices[order])]
    begins = np.cumsum([0, *lengths])[hops[last]]
    return vertices[last], np.concatenate([step.scores for step in steps])[last], hops[last], last - begins


def _choose(graph: Adjacency, reached: WalkResult, request: ExpandRequest) -> list[int]:
    """Return indexes into ``reached``: the best by score after filters, ties by id, in the order of the request."""
    vertices = reached.vertices
    keep = graph.matching(request.entity_types, request.time_range, vertices)
    if request.records_only:
        keep &= graph.has_record[vertices]
    if request.among is not None:
        keep &= np.isin(vertices, graph.numbers_of(request.among))
    rows = np.flatnonzero(keep)
    rows = rows[np.lexsort((vertices[rows], -reached.scores[rows]))][: request.limit]
    if request.by_time:
        times = graph.timestamps[vertices[rows]]
        rows = rows[np.lexsort((vertices[rows], times, times == NO_TIME))]
    return rows.tolist()


def _way(reached: WalkResult, row: int) -> Way:
    """Return the best path to a row of ``reached``."""
    vertices, edges = list[int](), list[int]()
    place = reached.places.item(row)
    for step in reached.steps[reached.hops.item(row) : 0 : -1]:
        vertices.append(step.vertices.item(place))
        edges.append(step.edges.item(place))
        place = step.parents.item(place)
    vertices.append(reached.steps[0].vertices.item(place))
    return Way(reached.scores.item(row), vertices[::-1], edges[::-1])
