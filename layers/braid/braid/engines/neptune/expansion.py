"""Expansion and propagation from seeds: one traversal that fetches the neighbourhood, and its evaluation.

The server expands every vertex once, hop by hop, and returns the edges it followed and the vertices they lead to. The
best paths are chosen here, where ties are broken exactly and products of confidence are rounded as in other engines.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from gremlin_python.process.graph_traversal import __
from gremlin_python.process.traversal import Order, P

from braid.engines.neptune import elements
from braid.models import Direction, GraphHit, Path, earliest
from braid.ports.knowledge_graph import ExpandRequest, Expansion
from braid.ranking.graph_walks import StoredEdge

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gremlin_python.process.graph_traversal import GraphTraversal, GraphTraversalSource

    from braid.engines.neptune.elements import Reached, Step
    from braid.ports.knowledge_graph import PropagateRequest
    from braid.ranking.graph_walks import Node

_EDGES, _VERTICES, _SEEN, _WALKED = "edges", "vertices", "seen", "walked"
MOST_EDGES = 1_000_000
"""More edges than any vertex has."""
_NEVER = datetime.max.replace(tzinfo=UTC)
"""Sort key of vertices without a time: last."""


class Best(NamedTuple):
    """The best path to a vertex; the smaller of two is the better."""

    negative_score: float
    length: int
    ids: tuple[str, ...]
    types: tuple[str, ...]
    inward: tuple[bool, ...]
    place: int
    """Position of the last edge among those of its vertex; breaks ties."""
    evidence: tuple[str | None, ...]
    trusted: bool
    """Whether all its edges are."""
    invalid_at: datetime | None = None
    """When the first of its edges ceases to be valid."""


def expansion_traversal(source: GraphTraversalSource, request: ExpandRequest) -> GraphTraversal:
    """Return the traversal that collects the edges of each expanded vertex and the vertices they lead to.

    Of a hub, a vertex with more edges than the fan-out budget, it collects the most confident ones, one more than the
    budget, so that hubs are recognised. Only hubs are sorted. Hops are written out instead of a ``repeat``, in which
    the meaning of ``limit`` depends on the version.
    """
    seeds = [elements.vertex_id(request.tenant_id, seed) for seed in dict.fromkeys(request.seeds)]
    own = source.V(*seeds).has(elements.TENANT, request.tenant_id)
    steps = elements.walkable(own, request.as_of, trusted_only=request.trusted_only)
    steps = steps.aggregate(_SEEN).aggregate(_VERTICES).by(elements.ROW)
    for _ in range(request.max_hops):
        is_hub = _edges(request).skip(request.fan_out)
        steps = steps.choose(is_hub, __.local(surest(request)), in_force(request)).aggregate(_EDGES).by(elements.ROW)
        steps = far_ends(steps, request.direction).dedup().where(P.without(_SEEN))
        steps = steps.has(elements.TENANT, request.tenant_id)
        steps = elements.walkable(steps, request.as_of, trusted_only=request.trusted_only)
        steps = steps.aggregate(_SEEN).aggregate(_VERTICES).by(elements.ROW)
    return steps.cap(_EDGES, _VERTICES)


def _edges(request: ExpandRequest) -> GraphTraversal:
    start = {Direction.OUT: __.out_e, Direction.IN: __.in_e, Direction.BOTH: __.both_e}[request.direction]
    return start(*request.types)


def in_force(request: ExpandRequest) -> GraphTraversal:
    """Return a vertex's edges that the request may walk."""
    own = _edges(request).has(elements.TENANT, request.tenant_id)
    return elements.walkable(own, request.as_of, trusted_only=request.trusted_only)


def surest(request: ExpandRequest) -> GraphTraversal:
    """Return the edges of a hub to follow: those to valid vertices, by descending confidence, then by identity."""
    steps = in_force(request)
    if request.direction is Direction.BOTH:
        steps = steps.dedup()  # a loop is one edge, not two
    steps = steps.order().by(elements.CONFIDENCE, Order.desc).by(elements.IDENTITY, Order.asc)
    # Filters only as many edges as are needed. Without the limit, TinkerPop would filter before it sorts.
    steps = steps.limit(MOST_EDGES)
    if request.direction is not Direction.OUT:
        steps = steps.filter_(elements.walkable(__.out_v(), request.as_of, trusted_only=request.trusted_only))
    if request.direction is not Direction.IN:
        steps = steps.filter_(elements.walkable(__.in_v(), request.as_of, trusted_only=request.trusted_only))
    return steps.limit(request.fan_out + 1)


def far_ends(steps: GraphTraversal, direction: Direction) -> GraphTraversal:
    """Go from edges to the vertices that they lead to; in both directions, to the near ends too."""
    if direction is Direction.OUT:
        return steps.in_v()
    # In both directions the near end is included, and dropped as seen: cheaper than tracking each edge's origin.
    return steps.out_v() if direction is Direction.IN else steps.both_v()


def read_expansion(collected: Mapping[str, Any], request: ExpandRequest) -> Expansion:
    """Return the best ``limit`` vertices of what :func:`expansion_traversal` collected."""
    vertices = map(elements.read_vertex, collected[_VERTICES])
    reached = {vertex.id: vertex for vertex in vertices}
    edges = map(elements.read_edge, set(collected[_EDGES]))
    best, truncated = best_paths(_adjacency(edges, reached, request.direction), request)
    chosen = sorted((way.negative_score, target) for target, way in best.items() if _meets(reached[target], request))[
        : request.limit
    ]
    if request.by_time:
        chosen.sort(key=lambda entry: (reached[entry[1]].timestamp or _NEVER, entry[1]))
    return Expansion(
        hits=tuple(_hit(rank, best[target], reached) for rank, (_, target) in enumerate(chosen, 1)),
        truncated=truncated,
    )


def _adjacency(
    edges: Iterable[Step], reached: Mapping[str, Reached], direction: Direction
) -> dict[str, list[tuple[str, Step]]]:
    """Return (far end, edge) pairs by vertex, in the order of the fan-out budget; both ends are valid.

    An edge of a hub may have been collected from its other end; it then comes after those collected from the hub.
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
    """Return the best path to each vertex, and whether the fan-out budget truncated the walk.

    A vertex that is reached again on a path no better is not expanded again: all beyond it was reached by a path as
    good.
    """
    seeds = set(request.seeds)
    best: dict[str, Best] = {}
    frontier = {seed: Best(-1.0, 0, (seed,), (), (), 0, (), trusted=True) for seed in seeds}
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
                    way.trusted and edge.trusted,
                    earliest((way.invalid_at, edge.invalid_at)),
                )
                if target not in following or found < following[target]:
                    following[target] = found
        frontier = {target: way for target, way in following.items() if target not in best or way < best[target]}
        best.update(frontier)
    return best, truncated


def _meets(vertex: Reached, request: ExpandRequest) -> bool:
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
            invalid_at=earliest((way.invalid_at, *(reached[name].invalid_at for name in way.ids))),
        ),
        has_record=vertex.has_record,
        name=vertex.name or None,
        entity_type=vertex.entity_type,
        timestamp=vertex.timestamp,
        trusted=way.trusted and all(reached[name].trusted for name in way.ids),
    )


def propagation_traversal(source: GraphTraversalSource, request: PropagateRequest) -> GraphTraversal:
    """Return the traversal that collects the edges of the seeds, then those of every vertex that is no hub.

    Of a seed with more edges than the fan-out budget it collects the most confident ones, one more than the budget.
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
    steps = elements.walkable(own, request.as_of, trusted_only=request.trusted_only)
    steps = steps.aggregate(_SEEN).aggregate(_VERTICES).by(elements.ROW)
    for hop in range(1, request.max_hops + 1):
        if hop == 1:
            has_more = __.both_e().skip(request.fan_out)
            steps = steps.choose(has_more, __.local(surest(walk)), in_force(walk))
        else:
            is_hub = _hub_edges(walk).dedup().skip(request.hub)
            steps = steps.filter_(__.not_(is_hub)).aggregate(_WALKED).by(__.id_())
            steps = steps.flat_map(_hub_edges(walk))
        steps = steps.aggregate(_EDGES).by(elements.ROW)
        steps = far_ends(steps, Direction.BOTH).dedup().where(P.without(_SEEN))
        steps = steps.has(elements.TENANT, request.tenant_id)
        steps = elements.walkable(steps, request.as_of, trusted_only=request.trusted_only)
        steps = steps.aggregate(_SEEN).aggregate(_VERTICES).by(elements.ROW)
    return steps.cap(_EDGES, _VERTICES, _WALKED) if request.max_hops > 1 else steps.cap(_EDGES, _VERTICES)


def _hub_edges(walk: ExpandRequest) -> GraphTraversal:
    """Return the edges that count towards a hub; edges to untrusted vertices would make a hub of any vertex."""
    edges = in_force(walk)
    return edges.not_(__.both_v().has(elements.UNTRUSTED, True)) if walk.trusted_only else edges


def read_propagation(
    collected: Mapping[str, Any], request: PropagateRequest
) -> tuple[dict[str, Node], list[StoredEdge], bool]:
    """Return the vertices by id, the edges in the order of their identities, and whether the budget truncated them.

    The server also follows the one edge beyond a seed's budget; here it is dropped.
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
    nodes = {name: elements.node_of(brought[name]) for name in seen}
    return nodes, [_stored_edge(edge) for edge in sorted(followed)], truncated


def _stored_edge(edge: Step) -> StoredEdge:
    evidence = edge.evidence or None
    return StoredEdge(edge.source, edge.type, edge.target, edge.confidence, evidence, edge.trusted, edge.invalid_at)
