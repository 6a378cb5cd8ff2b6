"""Expansion and propagation from seeds: one traversal per hop, which fetches adjacent elements, and its evaluation.

The frontier of the next hop and the best paths are computed here, so that Neptune executes every step of a traversal
natively, ties are broken exactly, and products of confidence are rounded as in other engines.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from gremlin_python.process.graph_traversal import __

from braid.engines.neptune import element_layout
from braid.models import Direction, GraphHit, Path, earliest
from braid.ports.knowledge_graph import ExpandRequest, Expansion
from braid.ranking.graph_queries_and_facts import StoredEdge

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from gremlin_python.process.graph_traversal import GraphTraversal, GraphTraversalSource

    from braid.engines.neptune.element_layout import Reached, Step
    from braid.ports.knowledge_graph import PropagateRequest
    from braid.ranking.graph_queries_and_facts import Node

    Ask = Callable[[Callable[[GraphTraversalSource], GraphTraversal]], list[Any]]
    """Runs one traversal and returns its results."""

EDGES, VERTICES = "edges", "vertices"
HUB_EDGES = 5_000
"""Most edges of one vertex that a hop reads, in the store's order; the fan-out budget selects among them."""
HOP_EDGES = 50_000
"""Most edges that one hop reads in total."""
_EDGES_OF = {Direction.OUT: __.out_e, Direction.IN: __.in_e, Direction.BOTH: __.both_e}
_NEVER = datetime.max.replace(tzinfo=UTC)
"""Sort key of vertices without a timestamp: last."""


class Best(NamedTuple):
    """The best path to a vertex; of two, the smaller tuple is better."""

    negative_score: float
    length: int
    ids: tuple[str, ...]
    types: tuple[str, ...]
    inward: tuple[bool, ...]
    place: int
    """Position of the last edge among those of its vertex; breaks ties."""
    evidence: tuple[str | None, ...]
    trusted: bool
    """Whether all of its edges are trusted."""
    invalid_at: datetime | None = None
    """The earliest end of validity of its edges."""


def hop(steps: GraphTraversal, edges: GraphTraversal, direction: Direction, *, at_most: int) -> GraphTraversal:
    """Collect up to ``at_most`` edges of each vertex, and continue to the vertices that they lead to.

    The edges are not sorted first: sorting inside ``local`` is not native, and reads all of them.
    """
    # In both directions a loop is returned twice, and so is the vertex that a hop begins at: callers drop them, which
    # is cheaper than a traversal that remembers where each edge was entered.
    bound = at_most if direction is not Direction.BOTH else 2 * at_most
    steps = steps.local(edges.limit(bound)).limit(HOP_EDGES).aggregate(EDGES).by(element_layout.ROW)
    if direction is Direction.BOTH:
        return steps.both_v()
    return steps.in_v() if direction is Direction.OUT else steps.out_v()


def edges_of(direction: Direction, types: Sequence[str]) -> GraphTraversal:
    """Return the step to a vertex's edges of these types; none means any."""
    return _EDGES_OF[direction](*types)


def between_trusted(edges: GraphTraversal) -> GraphTraversal:
    """Keep the edges of which no endpoint is untrusted.

    Otherwise untrusted vertices could hide a vertex's own edges: of very many edges only some are read.
    """
    return edges.not_(__.both_v().has(element_layout.UNTRUSTED, True))


def expansion_traversal(
    source: GraphTraversalSource, request: ExpandRequest, names: Collection[str], *, at_most: int = HUB_EDGES
) -> GraphTraversal:
    """Return the traversal of one hop, which collects vertices, their edges, and the vertices that these lead to."""

    def walkable(steps: GraphTraversal) -> GraphTraversal:
        own = steps.has(element_layout.TENANT, request.tenant_id)
        return element_layout.walkable(own, request.as_of, trusted_only=request.trusted_only)

    keys = [element_layout.vertex_id(request.tenant_id, name) for name in names]
    steps = walkable(source.V(*keys)).aggregate(VERTICES).by(element_layout.ROW)
    edges = walkable(edges_of(request.direction, request.types))
    edges = between_trusted(edges) if request.trusted_only else edges
    steps = hop(steps, edges, request.direction, at_most=at_most)
    return walkable(steps).aggregate(VERTICES).by(element_layout.ROW).cap(EDGES, VERTICES)


def expand(ask: Ask, request: ExpandRequest) -> Expansion:
    """Return the best ``limit`` vertices of an expansion, with one traversal per hop."""
    reached: dict[str, Reached] = {}
    adjacency: dict[str, list[tuple[str, Step]]] = {}
    frontier: Collection[str] = list(dict.fromkeys(request.seeds))
    for _ in range(request.max_hops):
        if not frontier:
            break
        vertices, edges = _collected(ask, request, frontier)
        reached.update(vertices)
        found = _adjacency(edges, reached, request.direction)
        adjacency.update((name, found.get(name, [])) for name in frontier)
        ways = (way for name in frontier for way in adjacency[name][: request.fan_out])
        frontier = sorted({target for target, _ in ways} - adjacency.keys())
    return _expansion(adjacency, reached, request)


def _collected(
    ask: Ask, request: ExpandRequest, names: Collection[str], *, at_most: int = HUB_EDGES
) -> tuple[dict[str, Reached], set[Step]]:
    """Return the vertices and edges that one hop collects."""
    (collected,) = ask(partial(expansion_traversal, request=request, names=names, at_most=at_most))
    vertices = map(element_layout.read_vertex, set(collected[VERTICES]))
    return {vertex.id: vertex for vertex in vertices}, set(map(element_layout.read_edge, set(collected[EDGES])))


def _expansion(
    adjacency: Mapping[str, Sequence[tuple[str, Step]]], reached: Mapping[str, Reached], request: ExpandRequest
) -> Expansion:
    best, truncated = best_paths(adjacency, request)
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
    """Return (far end, edge) pairs by vertex, in the order of the fan-out budget; both ends are valid."""
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

    A vertex that is reached again by a path that is no better is not expanded again: everything beyond it was reached
    by paths at least as good.
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
                score = way.negative_score * (1.0 if edge.position is None else request.found_share)
                score = score * edge.confidence if request.by_confidence else score * hop / (1.0 + hop)
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


def gather(ask: Ask, request: PropagateRequest) -> tuple[dict[str, Node], list[StoredEdge], bool]:
    """Return the neighbourhood of the seeds for propagation, with one traversal per hop.

    Returns
    -------
    tuple
        The vertices by id, the edges ordered by identity, and whether the fan-out budget left out edges of a seed.
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
    brought: dict[str, Reached] = {}
    followed: set[Step] = set()
    seen: set[str] = set()
    frontier: Collection[str] = walk.seeds
    truncated = False
    for number in range(1, request.max_hops + 1):
        if not frontier:
            break
        is_first = number == 1
        # Beyond the seeds, one edge more than ``hub`` suffices to recognise a hub.
        vertices, edges = _collected(ask, walk, frontier, at_most=HUB_EDGES if is_first else request.hub + 1)
        brought.update(vertices)
        if is_first:
            frontier = [seed for seed in walk.seeds if seed in brought]
            seen.update(frontier)
        incident: dict[str, list[Step]] = {}
        for edge in edges:
            for endpoint in {edge.source, edge.target}:
                incident.setdefault(endpoint, []).append(edge)
        reached: set[str] = set()
        for vertex in frontier:
            own = incident.get(vertex, [])
            if not is_first and len(own) > request.hub:
                continue
            own = [edge for edge in own if edge.source in brought and edge.target in brought]
            if is_first:
                truncated = truncated or len(own) > request.fan_out
                own = sorted(own, key=lambda edge: (-edge.confidence, edge))[: request.fan_out]
            followed.update(own)
            reached.update(endpoint for edge in own for endpoint in (edge.source, edge.target))
        frontier = sorted(reached - seen)
        seen |= reached
    nodes = {name: element_layout.node_of(brought[name]) for name in seen}
    return nodes, [_stored_edge(edge) for edge in sorted(followed)], truncated


def _stored_edge(edge: Step) -> StoredEdge:
    evidence, found = edge.evidence or None, edge.position is not None
    return StoredEdge(
        edge.source, edge.type, edge.target, edge.confidence, evidence, edge.trusted, edge.invalid_at, found
    )
