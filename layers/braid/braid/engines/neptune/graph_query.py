"""Graph queries: one traversal that fetches the subgraph that a query may walk, and its parser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gremlin_python.process.graph_traversal import __
from gremlin_python.process.traversal import Order, P, T

from braid.engines.neptune import elements
from braid.engines.neptune.expansion import MOST_EDGES
from braid.models import Direction
from braid.ports.graph_query import MAX_FRONTIER
from braid.ranking.graph_walks import GatheredGraph, WalkEdge, max_starts
from braid.understanding.tokens import normalise

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gremlin_python.process.graph_traversal import GraphTraversal, GraphTraversalSource

    from braid.engines.neptune.elements import Reached, Step
    from braid.models import TimeRange
    from braid.ports.graph_query import GraphQuery, QueryStep
    from braid.ranking.graph_walks import Node

_VERTICES, _EDGES = "vertices", "edges"
_OUT_AND_BACK = {Direction.OUT: __.out_e, Direction.IN: __.in_e, Direction.BOTH: __.both_e}


def traversal(source: GraphTraversalSource, query: GraphQuery) -> GraphTraversal:
    """Return the traversal that collects, for each step, the edges that it follows and the vertices they lead to.

    Of a hub, a vertex with more edges than the fan-out budget, it collects the most confident ones, one more than the
    budget. There is no ``repeat``, and labels are always arguments.
    """
    bound = max_starts(query)
    steps = _starts(source, query).order().by(T.id, Order.asc).limit(bound + 1)
    steps = steps.aggregate(f"{_VERTICES}0").by(elements.ROW)
    keys = [f"{_VERTICES}0"]
    for place, step in enumerate(query.steps, start=1):
        steps = steps.order().by(T.id, Order.asc).limit(MAX_FRONTIER)
        is_hub = _edges(step).skip(query.fan_out)
        steps = steps.choose(is_hub, __.local(_surest(step, query)), _walked(step, query))
        steps = steps.aggregate(f"{_EDGES}{place}").by(elements.ROW)
        steps = _targets(_far_ends(steps, step.direction).dedup(), step, query)
        steps = steps.aggregate(f"{_VERTICES}{place}").by(elements.ROW)
        keys += [f"{_EDGES}{place}", f"{_VERTICES}{place}"]
    return steps.cap(*keys)


def gathered(collected: Mapping[str, Iterable[str]] | Iterable[str], query: GraphQuery) -> GatheredGraph:
    """Return the subgraph that the traversal collected; of a query without steps, its starts alone."""
    parts: Mapping[str, Any] = collected if query.steps else {f"{_VERTICES}0": collected}  # type: ignore[assignment]
    nodes: dict[str, Node] = {}
    found = _nodes(parts[f"{_VERTICES}0"], nodes)
    starts = found[: max_starts(query)]
    truncated = len(found) > len(starts)
    frontier = starts
    steps: list[Mapping[str, Sequence[WalkEdge]]] = []
    for place, step in enumerate(query.steps, start=1):
        reached = _nodes(parts[f"{_VERTICES}{place}"], nodes)
        edges = _by_vertex(parts[f"{_EDGES}{place}"], set(frontier), set(reached), step.direction)
        truncated = truncated or any(len(each) > query.fan_out for each in edges.values())
        steps.append({vertex: each[: query.fan_out] for vertex, each in edges.items()})
        frontier = reached[:MAX_FRONTIER]
        truncated = truncated or (len(reached) > len(frontier) and place < len(query.steps))
    return GatheredGraph(starts=starts, edges=steps, nodes=nodes, truncated=truncated)


def _starts(source: GraphTraversalSource, query: GraphQuery) -> GraphTraversal:
    start = query.start
    ids = [elements.vertex_id(query.tenant_id, name) for name in dict.fromkeys(start.ids)]
    steps = source.V(*ids)
    if start.names:
        keys = [elements.link_key(query.tenant_id, normalise(name)) for name in start.names]
        steps = steps.has(elements.LINK_KEY, P.within(keys))
    steps = _walkable(steps, query)
    return _filtered(steps, start.entity_types, start.time_range)


def _walkable(steps: GraphTraversal, query: GraphQuery) -> GraphTraversal:
    """Keep the vertices, or edges, of the query's tenant that it may walk."""
    own = steps.has(elements.TENANT, query.tenant_id)
    return elements.walkable(own, query.as_of, trusted_only=query.trusted_only)


def _filtered(steps: GraphTraversal, entity_types: Sequence[str], time_range: TimeRange | None) -> GraphTraversal:
    if entity_types:
        steps = steps.has(elements.ENTITY_TYPE, P.within(list(entity_types)))
    if time_range is not None:
        steps = steps.has(elements.TIMESTAMP, P.neq(elements.stored(None, elements.UNKNOWN_TIME)))
        if time_range.start is not None:
            steps = steps.has(elements.TIMESTAMP, P.gte(elements.stored(time_range.start, 0)))
        if time_range.end is not None:
            steps = steps.has(elements.TIMESTAMP, P.lt(elements.stored(time_range.end, 0)))
    return steps


def _targets(steps: GraphTraversal, step: QueryStep, query: GraphQuery) -> GraphTraversal:
    """Keep the vertices that meet a step's conditions."""
    steps = _walkable(steps, query)
    if step.name is not None:
        steps = steps.has(elements.LINK_KEY, elements.link_key(query.tenant_id, normalise(step.name)))
    return _filtered(steps, step.entity_types, step.time_range)


def _edges(step: QueryStep) -> GraphTraversal:
    return _OUT_AND_BACK[step.direction](*step.types)


def _walked(step: QueryStep, query: GraphQuery) -> GraphTraversal:
    """Return the edges that a step may follow, not filtered by their far ends."""
    steps = _walkable(_edges(step), query)
    return steps.has(elements.CONFIDENCE, P.gte(float(step.min_confidence))) if step.min_confidence > 0 else steps


def _surest(step: QueryStep, query: GraphQuery) -> GraphTraversal:
    """Return the edges of a hub to follow: those to matching vertices, by descending confidence, then by identity."""
    steps = _walked(step, query)
    if step.direction is Direction.BOTH:
        steps = steps.dedup()  # a loop is one edge, not two
    steps = steps.order().by(elements.CONFIDENCE, Order.desc).by(elements.IDENTITY, Order.asc).limit(MOST_EDGES)
    steps = steps.filter_(_targets(_far_ends(__.identity(), step.direction), step, query))
    return steps.limit(query.fan_out + 1)


def _far_ends(steps: GraphTraversal, direction: Direction) -> GraphTraversal:
    if direction is Direction.BOTH:
        return steps.other_v()
    return steps.in_v() if direction is Direction.OUT else steps.out_v()


def _nodes(rows: Iterable[str], nodes: dict[str, Node]) -> list[str]:
    """Read vertices into ``nodes`` and return their ids in order."""
    read: list[Reached] = [elements.read_vertex(row) for row in set(rows)]
    nodes.update((each.id, elements.node_of(each)) for each in read)
    return sorted(each.id for each in read)


def _by_vertex(
    rows: Iterable[str], frontier: set[str], reached: set[str], direction: Direction
) -> dict[str, list[WalkEdge]]:
    """Return each vertex's edges in the order of the fan-out budget.

    An edge of a hub may have been collected from its other end; it then comes after those collected from the hub.
    """
    edges: dict[str, list[WalkEdge]] = {}
    for edge in sorted(map(elements.read_edge, set(rows)), key=lambda edge: (-edge.confidence, edge)):
        if direction is not Direction.IN and edge.source in frontier and edge.target in reached:
            edges.setdefault(edge.source, []).append(_edge(edge, inward=False))
        # A loop, followed in both directions, is one edge.
        again = direction is Direction.BOTH and edge.source == edge.target
        if direction is not Direction.OUT and not again and edge.target in frontier and edge.source in reached:
            edges.setdefault(edge.target, []).append(_edge(edge, inward=edge.source != edge.target))
    return edges


def _edge(edge: Step, *, inward: bool) -> WalkEdge:
    target, evidence = edge.source if inward else edge.target, edge.evidence or None
    return WalkEdge(
        target,
        edge.type,
        edge.confidence,
        inward,
        evidence,
        edge.trusted,
        edge.invalid_at,
        edge.predicate,
        edge.valid_at,
    )
