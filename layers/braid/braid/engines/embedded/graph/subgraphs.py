"""Subgraphs of a tenant's graph: the neighbourhood of seeds for PageRank, and the part that a graph query may walk."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, overload

import numpy as np

from braid.deadline import check, checked
from braid.engines.embedded.graph.adjacency import begin_of, edges_of, moment_of, place_in_group
from braid.engines.embedded.tables import to_microseconds
from braid.models import MENTIONS, Direction
from braid.models.records import DOCUMENT_TYPE
from braid.ports.graph_query import MAX_FRONTIER
from braid.ranking.graph_queries_and_facts import GatheredGraph, WalkEdge, max_starts
from braid.ranking.neighbourhood_arrays import Neighbourhood, distinct
from braid.understanding.tokens import normalise

if TYPE_CHECKING:
    from collections.abc import Mapping

    from braid.engines.embedded.graph.adjacency import Adjacency, Mask, Numbers
    from braid.ports.graph_query import GraphQuery, QueryStart, QueryStep
    from braid.ports.knowledge_graph import PropagateRequest


def neighbourhood(graph: Adjacency, request: PropagateRequest) -> Neighbourhood:
    """Return the vertices and edges around a request's seeds, by the rule of :class:`PropagateRequest`."""
    as_of = to_microseconds(request.as_of) or 0
    frontier = graph.numbers_of(request.seeds())
    frontier = frontier[graph.walkable_vertices(frontier, as_of, trusted_only=request.trusted_only)]
    vertices = frontier
    neighbours = graph.neighbours(Direction.BOTH)
    followed: list[Numbers] = []
    truncated = False
    for hop in range(1, request.max_hops + 1):
        check()
        parents, edges, targets = edges_of(neighbours, frontier)
        walkable = graph.walkable_edges(edges, as_of, trusted_only=request.trusted_only)
        if request.trusted_only:  # otherwise edges to untrusted vertices could make any vertex a hub
            walkable &= graph.trusted[targets]
        parents, edges, targets = parents[walkable], edges[walkable], targets[walkable]
        keep = graph.walkable_vertices(targets, as_of, trusted_only=request.trusted_only)
        if hop > 1:
            passable = np.bincount(parents, minlength=len(frontier)) <= request.hub
            keep &= passable[parents]
            edges, targets = edges[keep], targets[keep]
        else:
            parents, edges, targets = parents[keep], edges[keep], targets[keep]
            within = place_in_group(parents) < request.fan_out
            truncated = not bool(within.all())
            edges, targets = edges[within], targets[within]
        followed.append(edges)
        reached = distinct(targets)
        seen = np.searchsorted(vertices, reached, "right") > np.searchsorted(vertices, reached, "left")
        frontier = reached[~seen]
        vertices = np.sort(np.concatenate((vertices, frontier)))
    edges = distinct(np.concatenate(followed))
    has_record = graph.has_record[vertices]
    numbers = vertices.tolist()
    return Neighbourhood(
        ids=_Ids(graph.ids, numbers),
        place=cache(partial(_place, graph.numbers, numbers)),  # seeds are looked up again and again
        has_record=has_record,
        is_page=has_record & graph.is_entity_type(DOCUMENT_TYPE)[graph.type_of[vertices]],
        sources=np.searchsorted(vertices, graph.sources[edges]),
        targets=np.searchsorted(vertices, graph.targets[edges]),
        confidence=graph.confidence[edges],
        mentions=graph.is_type(MENTIONS)[graph.edge_types[edges]],
        found=graph.found[edges],
        same_name=graph.same_name[edges],
        nodes=lambda places: graph.nodes([numbers[place] for place in places]),
        edges=lambda places: graph.stored_edges(edges[list(places)].tolist()),
        truncated=truncated,
    )


class _Ids(Sequence[str]):
    """A sequence of the ids of some vertices of a graph, read on access."""

    def __init__(self, ids: Sequence[str], numbers: list[int]) -> None:
        self._ids, self._numbers = ids, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> list[str]: ...

    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self._ids[number] for number in self._numbers[place]]
        return self._ids[self._numbers[place]]


def _place(places: Mapping[str, int], numbers: list[int], identity: str) -> int | None:
    """Return the index of a vertex in the sorted ``numbers``, by its id; None if it is not among them."""
    number = places.get(identity, -1)
    place = bisect_left(numbers, number)
    return place if place < len(numbers) and numbers[place] == number else None


def phrases(query: GraphQuery) -> list[str]:
    """Return every name in a query, normalised as stored names are."""
    asked = [*query.start.names, *(step.name for step in query.steps if step.name is not None)]
    return list(dict.fromkeys(map(normalise, asked)))


def query_subgraph(graph: Adjacency, query: GraphQuery, named: Mapping[str, Sequence[str]]) -> GatheredGraph:
    """Return the vertices and edges that a graph query may walk, gathered hop by hop.

    At most ``fan_out`` edges of a vertex are walked. The end of one more is in the next frontier, as on Neptune, so
    that both engines bound the frontier in the same way.

    Parameters
    ----------
    named
        Ids of the vertices that have a name or alias, for each of :func:`phrases`.
    """
    as_of = to_microseconds(query.as_of) or 0
    start = query.start

    def meeting(vertices: Numbers, conditions: QueryStart | QueryStep) -> Mask:
        walkable = graph.walkable_vertices(vertices, as_of, trusted_only=query.trusted_only)
        return walkable & graph.matching(conditions.entity_types, conditions.time_range, vertices)

    # Vertices are numbered in the order of their ids.
    frontier = graph.numbers_of(start.ids) if start.ids else np.arange(0 if start.names else len(graph.ids))
    if start.names:
        called = graph.numbers_of([name for asked in start.names for name in named.get(normalise(asked), ())])
        frontier = np.intersect1d(frontier, called) if start.ids else called
    frontier = frontier[meeting(frontier, start)]
    starts = frontier[: max_starts(query)]
    truncated = len(frontier) > len(starts)
    frontier = starts
    seen = {*starts.tolist()}
    steps: list[dict[str, list[WalkEdge]]] = []
    for place, step in enumerate(query.steps, start=1):
        parents, edges, targets = edges_of(graph.neighbours(step.direction), frontier)
        walkable = graph.walkable_edges(edges, as_of, trusted_only=query.trusted_only)
        kept = walkable & meeting(targets, step) & _followed(graph, step, edges)
        if step.name is not None:
            kept &= np.isin(targets, graph.numbers_of(named.get(normalise(step.name), ())))
        parents, edges, targets = parents[kept], edges[kept], targets[kept]
        places = place_in_group(parents)
        followed = places < query.fan_out
        truncated = truncated or not bool(followed.all())
        steps.append(_edges(graph, frontier[parents[followed]], edges[followed], targets[followed]))
        reached = distinct(targets[places <= query.fan_out])
        seen.update(reached.tolist())
        frontier = reached[:MAX_FRONTIER]
        truncated = truncated or (len(reached) > len(frontier) and place < len(query.steps))
    return GatheredGraph(
        starts=[graph.ids[vertex] for vertex in starts.tolist()],
        edges=steps,
        nodes={node.id: node for node in graph.nodes(list(seen))},
        truncated=truncated,
    )


def _followed(graph: Adjacency, step: QueryStep, edges: Numbers) -> Mask:
    """Return a mask of the edges that meet a step's conditions on edges."""
    keep: Mask = graph.confidence[edges] >= step.min_confidence
    return keep & graph.is_type(*step.types)[graph.edge_types[edges]] if step.types else keep


def _edges(graph: Adjacency, vertices: Numbers, edges: Numbers, targets: Numbers) -> dict[str, list[WalkEdge]]:
    found: dict[str, list[WalkEdge]] = {}
    for vertex, edge, target in checked(zip(vertices.tolist(), edges.tolist(), targets.tolist(), strict=True)):
        found.setdefault(graph.ids[vertex], []).append(
            WalkEdge(
                target=graph.ids[target],
                type=graph.relationship_types[int(graph.edge_types[edge])],
                confidence=float(graph.confidence[edge]),
                inward=int(graph.sources[edge]) != vertex,
                evidence=graph.evidence[edge],
                trusted=bool(graph.edge_trusted[edge]),
                invalid_at=moment_of(graph.edge_until.item(edge)),
                predicate=graph.predicates[edge],
                valid_at=begin_of(graph.edge_from, edge),
            )
        )
    return found
