"""Personalised PageRank over the neighbourhood that an engine gathered, and the paths that explain it.

Page et al. (1999) with the teleport of Haveliwala (WWW 2002) to the question's seeds. Paths of walks are found by the
``expansion`` of both engines, those of facts by :mod:`braid.ranking.graph_queries_and_facts`;
:mod:`braid.ranking.fusion` selects the paths to show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from braid.deadline import check
from braid.models import GraphHit, Path, earliest
from braid.ports.knowledge_graph import Expansion
from braid.ranking.mention_weights import FoundMentions
from braid.ranking.neighbourhood_arrays import distinct, group_begins
from braid.ranking.scoring import clamp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from braid.ports.knowledge_graph import PropagateRequest
    from braid.ranking.graph_queries_and_facts import Node, StoredEdge
    from braid.ranking.neighbourhood_arrays import Mask, Neighbourhood, Numbers, Scores

TOLERANCE = 1e-12
"""Sum of the changes of all shares in an iteration, below which they have converged."""
DIGITS = 9
"""Decimal places of shares and scores: further ones differ between machines, and would order equal ones differently."""
MAX_ITERATIONS = 1_000
CHECKED_EVERY = 4
"""Iterations between two checks of convergence and of the deadline."""


class _Ties(NamedTuple):
    """The neighbourhood as a simple graph: at most one edge, a tie, between two vertices, ordered by their ids.

    Arrays have one value a tie.
    """

    edges: Numbers
    """Indices of the edges in the neighbourhood."""
    sources: Numbers
    targets: Numbers
    confidence: Scores


class _SearchTree(NamedTuple):
    """Breadth-first search tree: the best paths from some starts; arrays have one value a vertex."""

    came_from: Numbers
    """Index of the vertex before; -1 for a start."""
    along: Numbers
    """Index of the tie from that vertex."""
    reached: Mask


def personalised_pagerank(request: PropagateRequest, around: Neighbourhood) -> Expansion:
    """Return the records that the walk visits most, seeds among them.

    A vertex of high degree is visited often for any question, so each share is divided by the square root of the
    degree, in which a text's mentions do not count: a text that mentions many entities is not less relevant. A
    hit's score is the square root of this relative to the best record's: shares fall steeply, and the root keeps their
    order but narrows the distances. Records that share an entity with the best ones are then raised
    (:func:`boost_shared_entities`). Text hits that the graph does not have are vertices without edges, and are visited
    as restarts only.
    """
    around = around.with_records(identity for identity, _ in request.hits)
    mentions = FoundMentions(request, around)
    weights = mentions.seeds()
    seeds = {place: weight for one, weight in weights.items() if (place := around.place(one)) is not None}
    if not seeds:
        return Expansion(truncated=around.truncated)
    ties = _strongest_edges(around)
    shares = _shares(around, ties, seeds, request.damping, mentions)
    # A share that rounds to 0 counts as not reached: only edges of confidence 0 lead there.
    visits = np.where(around.has_record, np.round(shares / np.sqrt(np.maximum(1, _degrees(around, ties))), DIGITS), 0.0)
    most = float(visits.max())
    if most <= 0:
        return Expansion(truncated=around.truncated)
    raised = boost_shared_entities(np.sqrt(visits / most), request, around)
    scores = np.minimum(1.0, np.round(raised, DIGITS))
    reached = np.flatnonzero(visits)
    chosen = reached[np.argsort(-scores[reached], kind="stable")][: request.limit].tolist()
    paths = _seed_paths(request, around, ties, chosen)
    ways = [Way(scores.item(one), *paths[one]) for one in chosen]
    return Expansion.unchecked(
        hits=hits_of_ways(ways, around.nodes, around.edges),
        truncated=around.truncated,
        propagation_weight=round(mentions.propagation_weight(), DIGITS),
    )


def _strongest_edges(around: Neighbourhood) -> _Ties:
    """Keep one edge between any two vertices: the most confident, of equal ones the first; loops are dropped."""
    edges = np.flatnonzero(around.sources != around.targets)
    sources, targets, confidence = around.sources[edges], around.targets[edges], around.confidence[edges]
    pairs = np.minimum(sources, targets) * len(around.ids) + np.maximum(sources, targets)
    order = np.argsort(pairs, kind="stable")
    first = order[group_begins(pairs[order])]
    if len(first) < len(order):
        order = np.lexsort((-confidence, pairs))
        first = order[group_begins(pairs[order])]
    return _Ties(edges[first], sources[first], targets[first], confidence[first])


def _degrees(around: Neighbourhood, ties: _Ties) -> Numbers:
    """Return each vertex's number of ties in the neighbourhood, without mentions of the vertex."""
    size = len(around.ids)
    mentioned = ties.targets[~around.mentions[ties.edges]]
    return np.bincount(ties.sources, minlength=size) + np.bincount(mentioned, minlength=size)


def _shares(
    around: Neighbourhood, ties: _Ties, seeds: Mapping[int, float], damping: float, mentions: FoundMentions
) -> Scores:
    """Return the walk's stationary distribution, one share a vertex; a given edge is weighted by its confidence.

    The shares solve ``x = damping · P x + (1 − damping) · start``; restarts from vertices without edges only scale
    them, and they are normalised. Weights that are equal in both directions make the walk reversible, and Chebyshev's
    semi-iterative method (Golub and Varga, 1961) then needs less than half of the iterations.
    """
    size = len(around.ids)
    there, back = mentions.weights(ties.edges)
    weights = np.concatenate([there, back])
    sources, targets = np.concatenate([ties.sources, ties.targets]), np.concatenate([ties.targets, ties.sources])
    out = np.bincount(sources, weights, minlength=size)
    steps = damping * weights / np.where(out > 0, out, 1.0)[sources]
    start = np.zeros(size)
    start[list(seeds)] = list(seeds.values())
    start *= (1.0 - damping) / start.sum()
    is_reversible = there is back
    shares = _solved_without_leaves(sources, targets, steps, start, damping=damping if is_reversible else None)
    total: float = shares.sum()
    return shares / total


def _solved_without_leaves(
    sources: Numbers, targets: Numbers, steps: Scores, start: Scores, *, damping: float | None
) -> Scores:
    """Solve the equation of :func:`_solved` with its leaves eliminated.

    A leaf is a vertex with one tie that is no seed; most vertices are leaves. Its share is its neighbour's share times
    the step to it, and it returns a part of that. A vertex therefore gets a fixed part ``r`` of its own share back from
    its leaves, the sum over them of step there times step back: ``x = … + r x`` becomes ``x = … / (1 − r)``.

    Parameters
    ----------
    sources, targets, steps
        One value a tie, and after them one a tie in the other direction.
    """
    size = len(start)
    is_leaf = (np.bincount(sources, minlength=size) == 1) & (start == 0)
    from_leaf, to_leaf = is_leaf[sources], is_leaf[targets]
    steps_back = np.roll(steps, len(steps) // 2)  # the step of each tie in the other direction
    returned = np.bincount(targets[from_leaf], (steps * steps_back)[from_leaf], minlength=size)
    grown = 1.0 / (1.0 - returned)
    kept, between_kept = np.flatnonzero(~is_leaf), np.flatnonzero(~(from_leaf | to_leaf))
    place = np.cumsum(~is_leaf) - 1
    shares = np.zeros(size)
    shares[kept] = _solved(
        place[sources[between_kept]],
        place[targets[between_kept]],
        (steps * grown[targets])[between_kept],
        (start * grown)[kept],
        damping=damping,
    )
    shares[targets[to_leaf]] = (steps * shares[sources])[to_leaf]
    return shares


def _solved(sources: Numbers, targets: Numbers, steps: Scores, start: Scores, *, damping: float | None) -> Scores:
    """Solve ``x = P x + start`` iteratively; ``P`` has the probabilities of the steps between vertices.

    Parameters
    ----------
    damping
        Bound of the eigenvalues of ``P`` where these are real, as with weights that are equal in both directions:
        Chebyshev's method is used. None where they may not be.
    """
    before, shares, relaxation = start, start, 1.0
    for iteration in range(MAX_ITERATIONS):
        following = np.bincount(targets, steps * shares[sources], minlength=len(start)) + start
        if damping is not None and iteration:
            square = damping * damping * (relaxation if iteration > 1 else 2.0)
            relaxation = 1.0 / (1.0 - square / 4.0)
            following = before + relaxation * (following - before)
        before, shares = shares, following
        if iteration % CHECKED_EVERY == 0:
            check()
            if float(np.abs(shares - before).sum()) < TOLERANCE:
                break
    return shares


def _seed_paths(
    request: PropagateRequest, around: Neighbourhood, ties: _Ties, wanted: Sequence[int]
) -> dict[int, tuple[list[int], list[int]]]:
    """Return the best path to each wanted vertex: from a name of the question, else from a hit, else the vertex alone.

    The fewest hops are best, then the highest product of confidences, then the ids. A path is the indices of its
    vertices and of its edges.
    """
    found: dict[int, tuple[list[int], list[int]]] = {}
    missing = list(wanted)
    for seeds in (request.names, request.hits):
        if not missing:
            break
        starts = [place for identity, _ in seeds if (place := around.place(identity)) is not None]
        tree = _breadth_first(around, ties, starts, missing, request.max_hops)
        for vertex in missing:
            if tree.reached[vertex]:
                found[vertex] = _path_to(tree, ties, vertex)
        missing = [vertex for vertex in missing if vertex not in found]
    return found | {vertex: ([vertex], []) for vertex in missing}


def _breadth_first(
    around: Neighbourhood, ties: _Ties, starts: Sequence[int], wanted: Sequence[int], max_hops: int
) -> _SearchTree:
    """Search breadth-first until all wanted vertices are reached, keeping the best path to each vertex."""
    size, count = len(around.ids), len(ties.edges)
    reached = np.zeros(size, dtype=np.bool_)
    reached[list(starts)] = True
    near, far = np.concatenate([ties.sources, ties.targets]), np.concatenate([ties.targets, ties.sources])
    came_from, along = np.full(size, -1), np.full(size, -1)
    certainty = np.where(reached, 1.0, 0.0)
    order_of = np.where(reached, np.arange(size), -1)
    """Rank of each vertex that the last hop reached, by its path; -1 for the others."""
    for _ in range(max_hops):
        if reached[list(wanted)].all():
            break
        check()
        taken = np.flatnonzero((order_of[near] >= 0) & ~reached[far])
        nearer, targets, tie = near[taken], far[taken], taken % count
        product = certainty[nearer] * ties.confidence[tie]
        order = np.lexsort((order_of[nearer], -product, targets))
        best = order[group_begins(targets[order])]
        nearer, targets, tie, product = nearer[best], targets[best], tie[best], product[best]
        came_from[targets], along[targets], certainty[targets] = nearer, tie, product
        reached[targets] = True
        in_order = targets[np.lexsort((targets, order_of[nearer]))]
        order_of = np.full(size, -1)
        order_of[in_order] = np.arange(len(in_order))
    return _SearchTree(came_from, along, reached)


def _path_to(tree: _SearchTree, ties: _Ties, vertex: int) -> tuple[list[int], list[int]]:
    vertices, edges = [vertex], []
    while (before := int(tree.came_from[vertices[-1]])) >= 0:
        edges.append(int(ties.edges[tree.along[vertices[-1]]]))
        vertices.append(before)
    return vertices[::-1], edges[::-1]


class Way(NamedTuple):
    """A path that an engine found, by the numbers that it gives to vertices and edges."""

    score: float
    vertices: Sequence[int]
    """From a seed to the vertex that was reached."""
    edges: Sequence[int]


def hits_of_ways(
    ways: Sequence[Way],
    nodes: Callable[[Sequence[int]], Sequence[Node]],
    edges: Callable[[Sequence[int]], Sequence[StoredEdge]],
) -> tuple[GraphHit, ...]:
    """Return a hit for each way, in their order, which is that of their ranks.

    Parameters
    ----------
    nodes, edges
        Return vertices and edges by their numbers. Each is called once: reading them one by one takes longer.
    """
    vertices_seen = list({vertex for way in ways for vertex in way.vertices})
    edges_seen = list({edge for way in ways for edge in way.edges})
    node_of = dict(zip(vertices_seen, nodes(vertices_seen), strict=True))
    edge_of = dict(zip(edges_seen, edges(edges_seen), strict=True))
    return tuple(
        [
            _hit(rank, way.score, [node_of[vertex] for vertex in way.vertices], [edge_of[edge] for edge in way.edges])
            for rank, way in enumerate(ways, start=1)
        ]
    )


def _hit(rank: int, score: float, nodes: Sequence[Node], edges: Sequence[StoredEdge]) -> GraphHit:
    evidence = [edge.evidence or None for edge in edges]
    last = nodes[-1]
    return GraphHit.unchecked(
        id=last.id,
        score=clamp(score),
        rank=rank,
        path=Path.unchecked(
            ids=tuple([node.id for node in nodes]),
            types=tuple([edge.type for edge in edges]),
            names=tuple([node.name or node.id for node in nodes]),
            inward=tuple([edge.source != near.id for edge, near in zip(edges, nodes, strict=False)]),
            evidence=tuple(evidence) if any(evidence) else (),
            invalid_at=earliest([node.invalid_at for node in nodes] + [edge.invalid_at for edge in edges]),
        ),
        has_record=last.has_record,
        name=last.name,
        entity_type=last.entity_type,
        timestamp=last.timestamp,
        trusted=False not in [*[node.trusted for node in nodes], *[edge.trusted for edge in edges]],
    )


BOOSTING_RECORDS: Final = 3
"""Best records whose entities raise other records."""


def boost_shared_entities(scores: Scores, request: PropagateRequest, around: Neighbourhood) -> Scores:
    """Return the records' scores, raised where a record shares an entity, a bridge, with one of the best records.

    A score becomes ``score + (1 − score) × bridging × likeness × bridge``. ``likeness`` is the similarity to the
    question in the request's ``texts``. ``bridge`` is the best record's score over the square root of how many others
    in the neighbourhood mention the entity; the largest counts. Names of the question are no bridges, since propagation
    already reaches the records that mention them, nor are entities with a record, which it reaches themselves.

    Parameters
    ----------
    scores
        Scores of all vertices, in [0, 1]; 0 for a vertex that was not reached or has no record.
    """
    if not request.bridging or not request.texts:
        return scores
    size = len(around.ids)
    is_bridge = ~around.has_record
    is_bridge[[place for identity, _ in request.names if (place := around.place(identity)) is not None]] = False
    pairs = distinct(around.sources[around.mentions] * size + around.targets[around.mentions])
    sources, targets = pairs // size, pairs % size
    entities, records = np.concatenate([sources, targets]), np.concatenate([targets, sources])
    between = is_bridge[entities] & around.has_record[records]
    entities, records = entities[between], records[between]
    other_records = np.maximum(1, np.bincount(entities, minlength=size) - 1)
    bridge = np.zeros(size)
    for best in np.argsort(-scores, kind="stable")[:BOOSTING_RECORDS].tolist():
        is_shared = np.zeros(size, dtype=np.bool_)
        is_shared[entities[records == best]] = True
        crossed = is_shared[entities] & (records != best)
        np.maximum.at(bridge, records[crossed], scores[best] / np.sqrt(other_records[entities[crossed]]))
    likeness = np.zeros(size)
    for identity, value in request.texts:
        place = around.place(identity)
        if place is not None and scores[place]:
            likeness[place] = value
    gain = request.bridging * likeness * bridge
    return np.where(gain > 0, scores + (1 - scores) * gain, scores)
