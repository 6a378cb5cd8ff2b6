"""Walking from seeds: one traversal that brings the neighbourhood, and the choice of best paths in it.

The server widens the neighbourhood hop by hop, expands every vertex once, along its surest edges, and returns those
edges and the vertices they lead to. Which path is best is decided here, where ties can be settled exactly and products
of confidence are rounded as everywhere else.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from gremlin_python.process.graph_traversal import __
from gremlin_python.process.traversal import Order, P

from braid.engines import gremlin_elements as elements
from braid.engines.ports import ExpandRequest, Expansion
from braid.models import Direction, GraphHit, Path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gremlin_python.process.graph_traversal import GraphTraversal, GraphTraversalSource

_EDGES, _VERTICES, _SEEN = "edges", "vertices", "seen"
_NEVER = datetime.max.replace(tzinfo=UTC)
"""Where what has no time is listed: last."""


class Reached(NamedTuple):
    """A vertex that the walk may return or pass."""

    entity_type: str
    name: str
    has_record: bool
    timestamp: datetime | None


class Edge(NamedTuple):
    """One step of a walk."""

    type: str
    target: str
    confidence: float


class Best(NamedTuple):
    """The best way to a vertex; the smaller of two is the better."""

    negative_score: float
    length: int
    ids: tuple[str, ...]
    types: tuple[str, ...]


def neighbourhood(source: GraphTraversalSource, request: ExpandRequest) -> GraphTraversal:
    """Return the traversal that collects each expanded vertex's edges and all that they lead to.

    One edge more than the fan-out budget is brought of each vertex, which tells a hub from a vertex that just fits.
    There is no ``repeat``: at most three hops are written out, because ``limit`` inside it means different things in
    different versions.
    """
    seeds = [elements.vertex_id(request.tenant_id, seed) for seed in dict.fromkeys(request.seeds)]
    steps = elements.valid(source.V(*seeds).has(elements.TENANT, request.tenant_id), request.as_of).aggregate(_SEEN)
    for _ in range(request.max_hops):
        steps = steps.local(_edges(request)).aggregate(_EDGES).by(_edge_row(request.direction))
        steps = _far_end(steps, request.direction).where(P.without(_SEEN)).dedup()
        steps = steps.aggregate(_SEEN).aggregate(_VERTICES).by(_vertex_row())
    return steps.cap(_EDGES, _VERTICES)


def _edges(request: ExpandRequest) -> GraphTraversal:
    """Return the edges to follow from one vertex: in force, between vertices in force, the surest first."""
    start = {Direction.OUT: __.out_e, Direction.IN: __.in_e, Direction.BOTH: __.both_e}[request.direction]
    steps = elements.valid(start(*request.types).has(elements.TENANT, request.tenant_id), request.as_of)
    if request.direction is not Direction.OUT:
        steps = steps.filter_(elements.valid(__.out_v(), request.as_of))
    if request.direction is not Direction.IN:
        steps = steps.filter_(elements.valid(__.in_v(), request.as_of))
    if request.direction is Direction.BOTH:
        steps = steps.dedup()  # a loop is one edge, not two
    return steps.order().by(elements.CONFIDENCE, Order.desc).by(elements.IDENTITY, Order.asc).limit(request.fan_out + 1)


def _far_end(steps: GraphTraversal, direction: Direction) -> GraphTraversal:
    if direction is Direction.OUT:
        return steps.in_v()
    return steps.out_v() if direction is Direction.IN else steps.other_v()


def _edge_row(direction: Direction) -> GraphTraversal:
    """Return [near end, far end, type, confidence]; both ways, the far end stands behind the two ends of the edge."""
    ends = {
        Direction.OUT: (__.out_v().id_(), __.in_v().id_()),
        Direction.IN: (__.in_v().id_(), __.out_v().id_()),
        Direction.BOTH: (__.out_v().id_(), __.in_v().id_(), __.other_v().id_()),
    }[direction]
    return __.union(*ends, __.label(), __.values(elements.CONFIDENCE)).fold()


def _vertex_row() -> GraphTraversal:
    keys = (elements.ENTITY_TYPE, elements.NAME, elements.HAS_RECORD, elements.TIMESTAMP)
    return __.union(__.id_(), *(__.values(key) for key in keys)).fold()


def expansion(collected: Mapping[str, Any], request: ExpandRequest) -> Expansion:
    """Choose the best ``limit`` vertices from what the traversal brought."""
    reached = {
        elements.record_id(row[0]): Reached(row[1], row[2], bool(row[3]), elements.moment_of(row[4]))
        for row in collected[_VERTICES]
    }
    best, truncated = best_paths(_adjacency(collected[_EDGES], request.direction), reached, request)
    chosen = sorted(
        (way.negative_score, target) for target, way in best.items() if _is_asked_for(reached[target], request)
    )[: request.limit]
    if request.by_time:
        chosen.sort(key=lambda entry: (reached[entry[1]].timestamp or _NEVER, entry[1]))
    return Expansion(
        hits=tuple(_hit(target, rank, best[target], reached[target]) for rank, (_, target) in enumerate(chosen, 1)),
        truncated=truncated,
    )


def _adjacency(rows: Iterable[Sequence[Any]], direction: Direction) -> dict[str, list[Edge]]:
    """Group the edges by the vertex that they were followed from, in the order of the budget."""
    edges: dict[str, list[Edge]] = {}
    for row in rows:
        near, far = row[0], row[1]
        if direction is Direction.BOTH and row[2] == near:
            near, far = far, near
        edge = Edge(type=row[-2], target=elements.record_id(far), confidence=float(row[-1]))
        edges.setdefault(elements.record_id(near), []).append(edge)
    return edges


def best_paths(
    adjacency: Mapping[str, Sequence[Edge]], reached: Mapping[str, Reached], request: ExpandRequest
) -> tuple[dict[str, Best], bool]:
    """Return the best path to each vertex, and whether a vertex on the way had more edges than the budget.

    The best path to each vertex is kept at each hop; a vertex that is reached later and no surer is not walked again,
    because whatever lies behind it was reached sooner and no worse.
    """
    seeds = set(request.seeds)
    best: dict[str, Best] = {}
    frontier = {seed: Best(-1.0, 0, (seed,), ()) for seed in seeds}
    truncated = False
    for hop in range(1, request.max_hops + 1):
        following: dict[str, Best] = {}
        for vertex, way in frontier.items():
            edges = adjacency.get(vertex, ())
            truncated = truncated or len(edges) > request.fan_out
            for edge in edges[: request.fan_out]:
                if edge.target in seeds or edge.target not in reached:
                    continue
                score = way.negative_score * edge.confidence if request.by_confidence else -1.0 / (1.0 + hop)
                found = Best(score, hop, (*way.ids, edge.target), (*way.types, edge.type))
                if edge.target not in following or found < following[edge.target]:
                    following[edge.target] = found
        frontier = {target: way for target, way in following.items() if target not in best or way < best[target]}
        best.update(frontier)
    return best, truncated


def _is_asked_for(vertex: Reached, request: ExpandRequest) -> bool:
    if request.records_only and not vertex.has_record:
        return False
    if request.entity_types and vertex.entity_type not in request.entity_types:
        return False
    if request.time_range is None:
        return True
    start, end = request.time_range.start, request.time_range.end
    moment = vertex.timestamp
    return moment is not None and (start is None or moment >= start) and (end is None or moment < end)


def _hit(target: str, rank: int, way: Best, vertex: Reached) -> GraphHit:
    return GraphHit(
        id=target,
        score=-way.negative_score,
        rank=rank,
        path=Path(ids=way.ids, types=way.types),
        has_record=vertex.has_record,
        name=vertex.name or None,
        entity_type=vertex.entity_type,
        timestamp=vertex.timestamp,
    )
