"""The neighbourhood of a question's seeds, from a tenant's graph in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from braid.deadline import check, checked
from braid.engines.embedded.graph.adjacency import NO_TIME, edges_of, place_in_group
from braid.engines.embedded.tables import from_microseconds, to_microseconds
from braid.models import Direction
from braid.ranking.graph_walks import Node, StoredEdge

if TYPE_CHECKING:
    from braid.engines.embedded.graph.adjacency import Adjacency, Numbers
    from braid.ports.knowledge_graph import PropagateRequest


def gather(graph: Adjacency, request: PropagateRequest) -> tuple[dict[str, Node], list[StoredEdge], bool]:
    """Gather what lies around the seeds.

    Returns
    -------
    tuple
        The vertices by id, the edges in the order of their identities, and whether a seed had more edges than the
        budget.
    """
    as_of = to_microseconds(request.as_of) or 0
    open_vertex = graph.open_vertices(as_of, trusted_only=request.trusted_only)
    known = sorted(graph.numbers[seed] for seed in request.seeds() if seed in graph.numbers)
    frontier: Numbers = np.array(known, dtype=np.int64)
    frontier = frontier[open_vertex[frontier]]
    seen = np.zeros(len(graph.ids), dtype=np.bool_)
    seen[frontier] = True
    neighbours = graph.neighbours(Direction.BOTH)
    followed: list[Numbers] = []
    truncated = False
    for hop in range(1, request.max_hops + 1):
        check()
        parents, edges, targets = edges_of(neighbours, frontier)
        in_force = (graph.edge_from[edges] <= as_of) & (graph.edge_until[edges] > as_of)
        if request.trusted_only:  # else edges to what is not trusted would make a hub of anything
            in_force &= graph.trusted[targets]
        parents, edges, targets = parents[in_force], edges[in_force], targets[in_force]
        if hop > 1:
            passable = np.bincount(parents, minlength=len(frontier)) <= request.hub
            keep = passable[parents] & open_vertex[targets]
            edges, targets = edges[keep], targets[keep]
        else:
            keep = open_vertex[targets]
            parents, edges, targets = parents[keep], edges[keep], targets[keep]
            within = place_in_group(parents) < request.fan_out
            truncated = not bool(within.all())
            edges, targets = edges[within], targets[within]
        followed.append(edges)
        frontier = np.unique(targets)
        frontier = frontier[~seen[frontier]]
        seen[frontier] = True
    return (
        {graph.ids[vertex]: _node(graph, vertex) for vertex in checked(np.flatnonzero(seen).tolist())},
        [_tie(graph, edge) for edge in checked(np.unique(np.concatenate(followed)).tolist())],
        truncated,
    )


def _node(graph: Adjacency, vertex: int) -> Node:
    time = int(graph.timestamps[vertex])
    return Node(
        graph.ids[vertex],
        graph.entity_types[int(graph.type_of[vertex])],
        bool(graph.has_record[vertex]),
        None if time == NO_TIME else from_microseconds(time),
        graph.names[vertex],
    )


def _tie(graph: Adjacency, edge: int) -> StoredEdge:
    return StoredEdge(
        graph.ids[int(graph.sources[edge])],
        graph.relationship_types[int(graph.edge_types[edge])],
        graph.ids[int(graph.targets[edge])],
        float(graph.confidence[edge]),
        graph.evidence[edge],
    )
