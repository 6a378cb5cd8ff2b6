"""Graph queries: one traversal per step, which fetches the elements that the query may walk, and the result parser."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from gremlin_python.process.traversal import Order, P, T

from braid.engines.neptune import element_layout
from braid.engines.neptune.expansion import (
    EDGES,
    HOP_EDGES,
    HUB_EDGES,
    VERTICES,
    between_trusted,
    edges_of,
    hop,
)
from braid.models import Direction
from braid.ports.graph_query import MAX_FRONTIER
from braid.ranking.graph_queries_and_facts import GatheredGraph, WalkEdge, max_starts
from braid.understanding.tokens import normalise

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from gremlin_python.process.graph_traversal import GraphTraversal, GraphTraversalSource

    from braid.engines.neptune.element_layout import Reached, Step
    from braid.engines.neptune.expansion import Ask
    from braid.models import TimeRange
    from braid.ports.graph_query import GraphQuery, QueryStep
    from braid.ranking.graph_queries_and_facts import Node

_STARTS = "starts"


def traversal(
    source: GraphTraversalSource, query: GraphQuery, place: int, names: Collection[str] = ()
) -> GraphTraversal:
    """Return the traversal of one step, which collects the edges that it follows and the vertices that they lead to.

    Parameters
    ----------
    place
        Position of the step. The first traversal also collects the vertices where the query begins; for a query without
        steps it is the only one.
    names
        Ids of the vertices where a later step begins.
    """
    if place:
        keys = [element_layout.vertex_id(query.tenant_id, name) for name in names]
        steps = _walkable(source.V(*keys), query)
    else:
        steps = _starts(source, query).order().by(T.id, Order.asc).limit(max_starts(query) + 1)
        if not query.steps:
            return steps.values(element_layout.ROW)
        steps = steps.aggregate(_STARTS).by(element_layout.ROW)
    step = query.steps[place]
    steps = hop(steps, _followed(step, query), step.direction, at_most=HUB_EDGES)
    steps = _targets(steps, step, query).aggregate(VERTICES).by(element_layout.ROW)
    return steps.cap(EDGES, VERTICES) if place else steps.cap(_STARTS, EDGES, VERTICES)


def gather(ask: Ask, query: GraphQuery) -> GatheredGraph:
    """Return the subgraph that a query walks, with one traversal per step."""
    nodes: dict[str, Node] = {}
    if not query.steps:
        found = _nodes(ask(partial(traversal, query=query, place=0)), nodes)
        starts = found[: max_starts(query)]
        return GatheredGraph(starts=starts, edges=[], nodes=nodes, truncated=len(found) > len(starts))
    frontier: list[str] = []
    starts, truncated = frontier, False
    steps: list[Mapping[str, Sequence[WalkEdge]]] = []
    for place, step in enumerate(query.steps):
        if place and not frontier:
            steps.append({})
            continue
        (collected,) = ask(partial(traversal, query=query, place=place, names=frontier))
        if not place:
            found = _nodes(collected[_STARTS], nodes)
            frontier = starts = found[: max_starts(query)]
            truncated = len(found) > len(starts)
        reached = _nodes(collected[VERTICES], nodes)
        read = set(map(element_layout.read_edge, set(collected[EDGES])))
        edges = _by_vertex(read, set(frontier), set(reached), step.direction)
        truncated = truncated or _are_cut_off(read, step.direction)
        truncated = truncated or any(len(each) > query.fan_out for each in edges.values())
        steps.append({vertex: each[: query.fan_out] for vertex, each in edges.items()})
        targets = sorted({edge.target for each in edges.values() for edge in each[: query.fan_out + 1]})
        frontier = targets[:MAX_FRONTIER]
        truncated = truncated or (len(targets) > len(frontier) and place + 1 < len(query.steps))
    return GatheredGraph(starts=starts, edges=steps, nodes=nodes, truncated=truncated)


def _starts(source: GraphTraversalSource, query: GraphQuery) -> GraphTraversal:
    start = query.start
    ids = [element_layout.vertex_id(query.tenant_id, name) for name in dict.fromkeys(start.ids)]
    steps = source.V(*ids)
    if start.names:
        keys = [element_layout.link_key(query.tenant_id, normalise(name)) for name in start.names]
        steps = steps.has(element_layout.LINK_KEY, P.within(keys))
    steps = _walkable(steps, query)
    return _filtered(steps, start.entity_types, start.time_range)


def _walkable(steps: GraphTraversal, query: GraphQuery) -> GraphTraversal:
    """Keep the vertices or edges of the query's tenant that it may walk."""
    own = steps.has(element_layout.TENANT, query.tenant_id)
    return element_layout.walkable(own, query.as_of, trusted_only=query.trusted_only)


def _filtered(steps: GraphTraversal, entity_types: Sequence[str], time_range: TimeRange | None) -> GraphTraversal:
    if entity_types:
        steps = steps.has(element_layout.ENTITY_TYPE, P.within(list(entity_types)))
    if time_range is not None:
        steps = steps.has(element_layout.TIMESTAMP, P.neq(element_layout.stored(None, element_layout.UNKNOWN_TIME)))
        if time_range.start is not None:
            steps = steps.has(element_layout.TIMESTAMP, P.gte(element_layout.stored(time_range.start, 0)))
        if time_range.end is not None:
            steps = steps.has(element_layout.TIMESTAMP, P.lt(element_layout.stored(time_range.end, 0)))
    return steps


def _targets(steps: GraphTraversal, step: QueryStep, query: GraphQuery) -> GraphTraversal:
    """Keep the vertices that meet a step's conditions."""
    steps = _walkable(steps, query)
    if step.name is not None:
        steps = steps.has(element_layout.LINK_KEY, element_layout.link_key(query.tenant_id, normalise(step.name)))
    return _filtered(steps, step.entity_types, step.time_range)


def _followed(step: QueryStep, query: GraphQuery) -> GraphTraversal:
    """Return the traversal step to the edges that a query step may follow; of their far ends only the trust counts."""
    steps = _walkable(edges_of(step.direction, step.types), query)
    steps = between_trusted(steps) if query.trusted_only else steps
    return steps.has(element_layout.CONFIDENCE, P.gte(float(step.min_confidence))) if step.min_confidence > 0 else steps


def _nodes(rows: Iterable[str], nodes: dict[str, Node]) -> list[str]:
    """Read vertices into ``nodes`` and return their ids in order."""
    read: list[Reached] = [element_layout.read_vertex(row) for row in set(rows)]
    nodes.update((each.id, element_layout.node_of(each)) for each in read)
    return sorted(each.id for each in read)


def _are_cut_off(edges: Collection[Step], direction: Direction) -> bool:
    """Return whether a hop may have left out edges; their far ends are then unknown."""
    ends = Counter[str]()
    for edge in edges:
        ends.update([edge.source] if direction is not Direction.IN else ())
        ends.update([edge.target] if direction is not Direction.OUT else ())
    most = HUB_EDGES if direction is not Direction.BOTH else 2 * HUB_EDGES
    return len(edges) >= HOP_EDGES or max(ends.values(), default=0) >= most


def _by_vertex(
    edges_read: Iterable[Step], frontier: set[str], reached: set[str], direction: Direction
) -> dict[str, list[WalkEdge]]:
    """Return each vertex's edges in the order of the fan-out budget."""
    edges: dict[str, list[WalkEdge]] = {}
    for edge in sorted(edges_read, key=lambda edge: (-edge.confidence, edge)):
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
