"""The neighbourhood of a question's seeds: one traversal that brings it, and what of it is walked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gremlin_python.process.graph_traversal import __
from gremlin_python.process.traversal import P

from braid.engines.neptune import elements
from braid.engines.neptune.expansion import far_ends, in_force, surest
from braid.models import Direction
from braid.ports.knowledge_graph import ExpandRequest
from braid.ranking.graph_walks import Node, StoredEdge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gremlin_python.process.graph_traversal import GraphTraversal, GraphTraversalSource

    from braid.engines.neptune.elements import Reached, Step
    from braid.ports.knowledge_graph import PropagateRequest

_EDGES, _VERTICES, _SEEN, _WALKED = "edges", "vertices", "seen", "walked"


def traversal(source: GraphTraversalSource, request: PropagateRequest) -> GraphTraversal:
    """Return the traversal that collects the edges of the seeds, then those of every vertex that is no hub.

    Of a seed with more edges than its budget come the surest, one more than the budget, which tells the two apart.
    """
    walk = ExpandRequest(
        tenant_id=request.tenant_id,
        seeds=tuple(request.seeds()),
        direction=Direction.BOTH,
        max_hops=request.max_hops,
        fan_out=request.fan_out,
        as_of=request.as_of,
        trusted_only=request.trusted_only,
    )
    seeds = [elements.vertex_id(request.tenant_id, seed) for seed in walk.seeds]
    own = source.V(*seeds).has(elements.TENANT, request.tenant_id)
    steps = elements.open_vertices(own, request.as_of, trusted_only=request.trusted_only)
    steps = steps.aggregate(_SEEN).aggregate(_VERTICES).by(elements.ROW)
    for hop in range(1, request.max_hops + 1):
        if hop == 1:
            has_more = __.both_e().skip(request.fan_out)
            steps = steps.choose(has_more, __.local(surest(walk)), in_force(walk))
        else:
            is_hub = _counted(walk).dedup().skip(request.hub)
            steps = steps.filter_(__.not_(is_hub)).aggregate(_WALKED).by(__.id_())
            steps = steps.flat_map(_counted(walk))
        steps = steps.aggregate(_EDGES).by(elements.ROW)
        steps = far_ends(steps, Direction.BOTH).dedup().where(P.without(_SEEN))
        steps = steps.has(elements.TENANT, request.tenant_id)
        steps = elements.open_vertices(steps, request.as_of, trusted_only=request.trusted_only)
        steps = steps.aggregate(_SEEN).aggregate(_VERTICES).by(elements.ROW)
    return steps.cap(_EDGES, _VERTICES, _WALKED) if request.max_hops > 1 else steps.cap(_EDGES, _VERTICES)


def _counted(walk: ExpandRequest) -> GraphTraversal:
    """Return the edges that make a hub; those to what is not trusted would make one of anything."""
    edges = in_force(walk)
    return edges.not_(__.both_v().has(elements.UNTRUSTED, True)) if walk.trusted_only else edges


def gathered(collected: Mapping[str, Any], request: PropagateRequest) -> tuple[dict[str, Node], list[StoredEdge], bool]:
    """Return the vertices by id, the edges in the order of their identities, and whether a seed had too many.

    The server brings one edge beyond a seed's budget and goes on from where it leads; here it is not followed.
    """
    brought = {vertex.id: vertex for vertex in map(elements.read_vertex, set(collected[_VERTICES]))}
    walked = {elements.record_id(str(vertex)) for vertex in collected.get(_WALKED, ())}
    edges_of: dict[str, list[Step]] = {}
    for edge in map(elements.read_edge, set(collected[_EDGES])):
        if edge.source in brought and edge.target in brought:
            for end in {edge.source, edge.target}:
                edges_of.setdefault(end, []).append(edge)
    seen = {seed for seed in request.seeds() if seed in brought}
    followed: set[Step] = set()
    frontier, truncated = set(seen), False
    for hop in range(1, request.max_hops + 1):
        reached: set[str] = set()
        for vertex in frontier if hop == 1 else frontier & walked:
            own = edges_of.get(vertex, [])
            if hop == 1:
                truncated = truncated or len(own) > request.fan_out
                own = sorted(own, key=lambda edge: (-edge.confidence, edge))[: request.fan_out]
            followed.update(own)
            reached.update(end for edge in own for end in (edge.source, edge.target))
        frontier = reached - seen
        seen |= frontier
    nodes = {name: _node(brought[name]) for name in seen}
    return nodes, [_tie(edge) for edge in sorted(followed)], truncated


def _node(vertex: Reached) -> Node:
    return Node(vertex.id, vertex.entity_type, vertex.has_record, vertex.timestamp, vertex.name or None)


def _tie(edge: Step) -> StoredEdge:
    return StoredEdge(edge.source, edge.type, edge.target, edge.confidence, edge.evidence or None)
