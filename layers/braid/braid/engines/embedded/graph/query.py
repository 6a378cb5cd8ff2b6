"""What a graph query may walk, from a tenant's graph in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from braid.deadline import checked
from braid.engines.embedded.graph.adjacency import NO_TIME, edges_of, place_in_group
from braid.engines.embedded.tables import from_microseconds, to_microseconds
from braid.ports.graph_query import MAX_FRONTIER
from braid.ranking.graph_walks import GatheredGraph, Node, WalkEdge, max_starts
from braid.understanding.tokens import normalise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from braid.engines.embedded.graph.adjacency import Adjacency, Numbers
    from braid.models import TimeRange
    from braid.ports.graph_query import GraphQuery, QueryStep

    Mask = NDArray[np.bool_]


def phrases(query: GraphQuery) -> list[str]:
    """Return every name that a query asks for, as names are stored."""
    asked = [*query.start.names, *(step.name for step in query.steps if step.name is not None)]
    return list(dict.fromkeys(map(normalise, asked)))


def gather(graph: Adjacency, query: GraphQuery, named: Mapping[str, Sequence[str]]) -> GatheredGraph:
    """Gather the vertices and edges of a query, hop by hop.

    A hub contributes one vertex more than its budget of edges, which tells it from a vertex that just fits; what is
    beyond the budget is not walked.

    Parameters
    ----------
    named
        Ids of the vertices that have a name or alias, for each of :func:`phrases`.
    """
    as_of = to_microseconds(query.as_of) or 0
    in_force = (graph.valid_from <= as_of) & (graph.valid_until > as_of)
    edge_in_force = (graph.edge_from <= as_of) & (graph.edge_until > as_of)
    start = query.start
    keep = in_force & _meets(graph, start.entity_types, start.time_range)
    if start.ids:
        keep &= _among(graph, start.ids)
    if start.names:
        keep &= _among(graph, [name for asked in start.names for name in named.get(normalise(asked), ())])
    # Vertices are numbered in the order of their ids.
    frontier = np.flatnonzero(keep)
    starts = frontier[: max_starts(query)]
    truncated = len(frontier) > len(starts)
    frontier = starts
    seen = {*starts.tolist()}
    steps: list[dict[str, list[WalkEdge]]] = []
    for place, step in enumerate(query.steps, start=1):
        wanted = in_force & _meets(graph, step.entity_types, step.time_range)
        if step.name is not None:
            wanted &= _among(graph, named.get(normalise(step.name), ()))
        parents, edges, targets = edges_of(graph.neighbours(step.direction), frontier)
        kept = edge_in_force[edges] & wanted[targets] & _walked(graph, step)[edges]
        parents, edges, targets = parents[kept], edges[kept], targets[kept]
        places = place_in_group(parents)
        followed = places < query.fan_out
        truncated = truncated or not bool(followed.all())
        steps.append(_edges(graph, frontier[parents[followed]], edges[followed], targets[followed]))
        reached = np.unique(targets[places <= query.fan_out])
        seen.update(reached.tolist())
        frontier = reached[:MAX_FRONTIER]
        truncated = truncated or (len(reached) > len(frontier) and place < len(query.steps))
    return GatheredGraph(
        starts=[graph.ids[vertex] for vertex in starts.tolist()],
        edges=steps,
        nodes={graph.ids[vertex]: _node(graph, vertex) for vertex in checked(seen)},
        truncated=truncated,
    )


def _meets(graph: Adjacency, entity_types: Sequence[str], time_range: TimeRange | None) -> Mask:
    keep = np.ones(len(graph.ids), dtype=np.bool_)
    if entity_types:
        wanted = np.array([name in entity_types for name in graph.entity_types], dtype=np.bool_)
        keep &= wanted[graph.type_of]
    if time_range is not None:
        start, end = to_microseconds(time_range.start), to_microseconds(time_range.end)
        keep &= graph.timestamps != NO_TIME
        if start is not None:
            keep &= graph.timestamps >= start
        if end is not None:
            keep &= graph.timestamps < end
    return keep


def _among(graph: Adjacency, ids: Sequence[str]) -> Mask:
    keep = np.zeros(len(graph.ids), dtype=np.bool_)
    keep[[graph.numbers[name] for name in ids if name in graph.numbers]] = True
    return keep


def _walked(graph: Adjacency, step: QueryStep) -> Mask:
    """Return which edges a step may go along."""
    keep: Mask = graph.confidence >= step.min_confidence
    if step.types:
        wanted = np.array([name in step.types for name in graph.relationship_types], dtype=np.bool_)
        keep &= wanted[graph.edge_types]
    return keep


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
            )
        )
    return found


def _node(graph: Adjacency, vertex: int) -> Node:
    time = int(graph.timestamps[vertex])
    return Node(
        id=graph.ids[vertex],
        entity_type=graph.entity_types[int(graph.type_of[vertex])],
        has_record=bool(graph.has_record[vertex]),
        timestamp=None if time == NO_TIME else from_microseconds(time),
        name=graph.names[vertex],
    )
