"""Walking from seeds: one traversal that brings the neighbourhood, and the choice of best paths in it.

The server widens the neighbourhood hop by hop, expands every vertex once and returns the edges it went along and the
vertices they lead to. Which path is best is decided here, where ties can be settled exactly and products of confidence
are rounded as everywhere else.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from gremlin_python.process.graph_traversal import __
from gremlin_python.process.traversal import Order, P

from braid.engines.neptune import elements
from braid.models import Direction, GraphHit, Path
from braid.ports.knowledge_graph import ExpandRequest, Expansion

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gremlin_python.process.graph_traversal import GraphTraversal, GraphTraversalSource

    from braid.engines.neptune.elements import Reached, Step

_EDGES, _VERTICES, _SEEN = "edges", "vertices", "seen"
MOST_EDGES = 1_000_000
"""More than any vertex has."""
_NEVER = datetime.max.replace(tzinfo=UTC)
"""Where what has no time is listed: last."""


class Best(NamedTuple):
    """The best way to a vertex; the smaller of two is the better."""

    negative_score: float
    length: int
    ids: tuple[str, ...]
    types: tuple[str, ...]
    inward: tuple[bool, ...]
    place: int
    """Where the last edge stands among those of its vertex: it differs where all else is equal."""
    evidence: tuple[str | None, ...]


def neighbourhood(source: GraphTraversalSource, request: ExpandRequest) -> GraphTraversal:
    """Return the traversal that collects the edges of each expanded vertex and all that they lead to.

    Of a vertex with more edges than the fan-out budget come its surest, one more than the budget: that tells a hub from
    a vertex that just fits. Only hubs are sorted. There is no ``repeat``: at most three hops are written out, because
    ``limit`` inside it means different things in different versions.
    """
    seeds = [elements.vertex_id(request.tenant_id, seed) for seed in dict.fromkeys(request.seeds)]
    own = source.V(*seeds).has(elements.TENANT, request.tenant_id)
    steps = elements.open_vertices(own, request.as_of, trusted_only=request.trusted_only)
    steps = steps.aggregate(_SEEN).aggregate(_VERTICES).by(elements.ROW)
    for _ in range(request.max_hops):
        is_hub = _edges(request).skip(request.fan_out)
        steps = steps.choose(is_hub, __.local(surest(request)), in_force(request)).aggregate(_EDGES).by(elements.ROW)
        steps = far_ends(steps, request.direction).dedup().where(P.without(_SEEN))
        steps = steps.has(elements.TENANT, request.tenant_id)
        steps = elements.open_vertices(steps, request.as_of, trusted_only=request.trusted_only)
        steps = steps.aggregate(_SEEN).aggregate(_VERTICES).by(elements.ROW)
    return steps.cap(_EDGES, _VERTICES)


def _edges(request: ExpandRequest) -> GraphTraversal:
    start = {Direction.OUT: __.out_e, Direction.IN: __.in_e, Direction.BOTH: __.both_e}[request.direction]
    return start(*request.types)


def in_force(request: ExpandRequest) -> GraphTraversal:
    """Return a vertex's edges that may be walked at that moment."""
    return elements.valid(_edges(request).has(elements.TENANT, request.tenant_id), request.as_of)


def surest(request: ExpandRequest) -> GraphTraversal:
    """Return a hub's edges to follow: those that lead to what is in force, the surest first, then by identity."""
    steps = in_force(request)
    if request.direction is Direction.BOTH:
        steps = steps.dedup()  # a loop is one edge, not two
    steps = steps.order().by(elements.CONFIDENCE, Order.desc).by(elements.IDENTITY, Order.asc)
    # Only the first few far ends need to be looked at. Without a step between, TinkerPop would filter before it sorts.
    steps = steps.limit(MOST_EDGES)
    if request.direction is not Direction.OUT:
        steps = steps.filter_(elements.open_vertices(__.out_v(), request.as_of, trusted_only=request.trusted_only))
    if request.direction is not Direction.IN:
        steps = steps.filter_(elements.open_vertices(__.in_v(), request.as_of, trusted_only=request.trusted_only))
    return steps.limit(request.fan_out + 1)


def far_ends(steps: GraphTraversal, direction: Direction) -> GraphTraversal:
    """Go from edges to the vertices that they lead to; both ways, the near ends come too."""
    if direction is Direction.OUT:
        return steps.in_v()
    # Both ways the near end comes too, and is dropped as seen: cheaper than remembering where each edge was entered.
    return steps.out_v() if direction is Direction.IN else steps.both_v()


def expansion(collected: Mapping[str, Any], request: ExpandRequest) -> Expansion:
    """Choose the best ``limit`` vertices from what the traversal brought."""
    vertices = map(elements.read_vertex, collected[_VERTICES])
    reached = {vertex.id: vertex for vertex in vertices}
    edges = map(elements.read_edge, set(collected[_EDGES]))
    best, truncated = best_paths(_adjacency(edges, reached, request.direction), request)
    chosen = sorted(
        (way.negative_score, target) for target, way in best.items() if _is_asked_for(reached[target], request)
    )[: request.limit]
    if request.by_time:
        chosen.sort(key=lambda entry: (reached[entry[1]].timestamp or _NEVER, entry[1]))
    return Expansion(
        hits=tuple(_hit(rank, best[target], reached) for rank, (_, target) in enumerate(chosen, 1)),
        truncated=truncated,
    )


def _adjacency(
    edges: Iterable[Step], reached: Mapping[str, Reached], direction: Direction
) -> dict[str, list[tuple[str, Step]]]:
    """Return (far end, edge) for each vertex's edges between vertices in force, in the order of the budget.

    A hub's edge may have been brought by its other end too; it then stands behind those that the hub itself brought.
    """
    adjacency: dict[str, list[tuple[str, Step]]] = {}
    for edge in sorted(edges, key=lambda edge: (-edge.confidence, edge)):
        if edge.source not in reached or edge.target not in reached:
            continue
        if direction is not Direction.IN:
            adjacency.setdefault(edge.source, []).append((edge.target, edge))
        if direction is Direction.IN or (direction is Direction.BOTH and edge.source != edge.target):
            adjacency.setdefault(edge.target, []).append((edge.source, edge))
    return adjacency


def best_paths(
    adjacency: Mapping[str, Sequence[tuple[str, Step]]], request: ExpandRequest
) -> tuple[dict[str, Best], bool]:
    """Return the best path to each vertex, and whether a vertex on the way had more edges than the budget.

    The best path to each vertex is kept at each hop; a vertex that is reached later and no surer is not walked again,
    because whatever lies behind it was reached sooner and no worse.
    """
    seeds = set(request.seeds)
    best: dict[str, Best] = {}
    frontier = {seed: Best(-1.0, 0, (seed,), (), (), 0, ()) for seed in seeds}
    truncated = False
    for hop in range(1, request.max_hops + 1):
        following: dict[str, Best] = {}
        for vertex, way in frontier.items():
            edges = adjacency.get(vertex, ())
            truncated = truncated or len(edges) > request.fan_out
            for place, (target, edge) in enumerate(edges[: request.fan_out]):
                if target in seeds:
                    continue
                score = way.negative_score * edge.confidence if request.by_confidence else -1.0 / (1.0 + hop)
                found = Best(
                    score,
                    hop,
                    (*way.ids, target),
                    (*way.types, edge.type),
                    (*way.inward, edge.source != vertex),
                    place,
                    (*way.evidence, edge.evidence or None),
                )
                if target not in following or found < following[target]:
                    following[target] = found
        frontier = {target: way for target, way in following.items() if target not in best or way < best[target]}
        best.update(frontier)
    return best, truncated


def _is_asked_for(vertex: Reached, request: ExpandRequest) -> bool:
    if request.records_only and not vertex.has_record:
        return False
    if request.among is not None and vertex.id not in request.among:
        return False
    if request.entity_types and vertex.entity_type not in request.entity_types:
        return False
    if request.time_range is None:
        return True
    start, end = request.time_range.start, request.time_range.end
    moment = vertex.timestamp
    return moment is not None and (start is None or moment >= start) and (end is None or moment < end)


def _hit(rank: int, way: Best, reached: Mapping[str, Reached]) -> GraphHit:
    vertex = reached[way.ids[-1]]
    names = tuple(reached[name].name or name for name in way.ids)
    return GraphHit(
        id=vertex.id,
        score=abs(way.negative_score),
        rank=rank,
        path=Path(
            ids=way.ids,
            types=way.types,
            names=names,
            inward=way.inward,
            evidence=way.evidence if any(way.evidence) else (),
        ),
        has_record=vertex.has_record,
        name=vertex.name or None,
        entity_type=vertex.entity_type,
        timestamp=vertex.timestamp,
    )
