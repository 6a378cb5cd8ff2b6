"""Selectivity of a graph constraint: its expected reach in records, and the cost of graph first and of vector first.

The graph's counts give a mean degree for each relationship type. It is multiplied at each hop, up to the total number
of vertices. Costs are in milliseconds of the embedded engine on one core, measured in ``bench/planner.md``; only their
crossing point matters. A wrong estimate costs time but never an answer: if one order returns too few hits, the stages
continue with the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from braid.models import Direction

if TYPE_CHECKING:
    from braid.models import GraphConstraint, Label
    from braid.ports.knowledge_graph import GraphStats

MAX_REACH: Final = 1_000
"""Most records of a constraint whose ids are given to the search index; beyond it, the text search comes first."""
MAX_COUNTED: Final = 100_000
"""Most records that are counted for an estimate, which bounds the time of the count. :data:`MAX_REACH` is a hundredth
of it, so that more records would not change the plan."""
MAX_CANDIDATES: Final = 200
"""Most hits of one strand that a search returns."""

_CALL_MS: Final = 1.5
_MS_PER_REACHED: Final = 0.045
"""Listing one record that the constraint reaches, and scoring it."""
_SEARCH_MS: Final = 4.0
_MS_PER_CANDIDATE: Final = 0.03
_MS_PER_WALKED: Final = 0.0004
"""Cost of walking past one record on the way to the checked ones."""


@dataclass(frozen=True)
class Estimate:
    """Expected selectivity of one constraint."""

    degree: float
    """Edges walked from one vertex, on average."""
    reach: int
    """Records reached."""
    records: int
    """Records of the tenant."""

    @property
    def share(self) -> float:
        """Part of the tenant's records that is reached, in [0, 1]."""
        return min(1.0, self.reach / self.records) if self.records else 0.0

    def candidates(self, wanted: int) -> int:
        """Return how many hits to fetch so that ``wanted`` are expected inside; at most :data:`MAX_CANDIDATES`."""
        if self.share <= 0:
            return MAX_CANDIDATES
        return min(MAX_CANDIDATES, max(wanted, math.ceil(wanted / self.share)))


def estimate_reach(constraint: GraphConstraint, graph: GraphStats, records: int | None) -> Estimate:
    """Return the expected number of records that a constraint reaches.

    Parameters
    ----------
    constraint
        The walk. Its entity is assumed to have edges of the relationship types that it names; without types, to be an
        average vertex.
    graph
        Stored counts of the tenant.
    records
        Number of the tenant's records in the index, counted up to :data:`MAX_COUNTED`; None for the graph's number.
    """
    degree = _degree(constraint.types, constraint.direction, graph)
    reached, layer = 0.0, 1.0
    for _ in range(constraint.depth):
        layer = min(layer * degree, float(graph.vertices))
        reached += layer
    reached = min(reached, float(_ends(constraint.types, constraint.direction, graph)))
    with_record = graph.records / graph.vertices if graph.vertices else 0.0
    known = records if records is not None else graph.records
    return Estimate(degree=degree, reach=min(known, round(reached * with_record)), records=known)


def graph_first_ms(estimate: Estimate) -> float:
    """Return the expected milliseconds of walking first and then searching inside the reach; infinity if too large."""
    if estimate.reach > MAX_REACH:
        return math.inf
    return 2 * _CALL_MS + estimate.reach * _MS_PER_REACHED


def vector_first_ms(estimate: Estimate, *, wanted: int, top_k: int) -> float:
    """Return the expected milliseconds of searching first and then checking the hits against the constraint.

    Where too few hits are expected inside, they include a second search, inside the constraint's reach.
    """
    candidates = estimate.candidates(wanted)
    cost = 2 * _CALL_MS + _SEARCH_MS + candidates * _MS_PER_CANDIDATE + estimate.reach * _MS_PER_WALKED
    # Each of the two text strands returns that many.
    if 2 * candidates * estimate.share < top_k:
        cost += 2 * _CALL_MS + min(estimate.reach, MAX_REACH) * _MS_PER_REACHED
    return cost


def _degree(types: tuple[Label, ...], direction: Direction, graph: GraphStats) -> float:
    """Return how many edges one vertex has, on average, of these types and in this direction."""
    if not types:
        per_way = graph.edges / graph.vertices if graph.vertices else 0.0
        return 2 * per_way if direction is Direction.BOTH else per_way
    total = 0.0
    for kind in types:
        edges = graph.by_relationship_type.get(kind, 0)
        near = (graph.sources_by_relationship_type, graph.targets_by_relationship_type)
        for way, ends in zip((Direction.OUT, Direction.IN), near, strict=True):
            if edges and direction in {way, Direction.BOTH}:
                total += edges / max(1, ends.get(kind) or graph.vertices)
    return total


def _ends(types: tuple[Label, ...], direction: Direction, graph: GraphStats) -> int:
    """Return an upper bound of the vertices that edges of these types lead to in this direction."""
    if not types:
        return graph.vertices
    ends = 0
    for kind in types:
        if kind not in graph.by_relationship_type:
            continue
        if direction is not Direction.IN:
            ends += graph.targets_by_relationship_type.get(kind, graph.vertices)
        if direction is not Direction.OUT:
            ends += graph.sources_by_relationship_type.get(kind, graph.vertices)
    return min(ends, graph.vertices)
