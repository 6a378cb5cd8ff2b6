"""Personalised PageRank over the neighbourhood that an engine gathered, and the paths that explain it.

Equal neighbourhoods give equal answers on every engine. Page et al. (1999) with the teleport of Haveliwala (WWW 2002)
to the question's seeds.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from braid.deadline import checked
from braid.models import MENTIONS, GraphHit, Path, earliest
from braid.ports.knowledge_graph import Expansion
from braid.ranking.graph_walks import Node, StoredEdge
from braid.ranking.scoring import clamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from braid.ports.knowledge_graph import PropagateRequest


TOLERANCE = 1e-12
DIGITS = 9
"""Of shares and scores: what lies beyond differs between machines, and would order equals differently."""
MAX_ITERATIONS = 1_000


class _SeedPath(NamedTuple):
    """How a vertex was reached; the smaller of two is the better."""

    hops: int
    negative_confidence: float
    ids: tuple[str, ...]
    ties: tuple[StoredEdge, ...]


def personalised_pagerank(
    request: PropagateRequest, nodes: Mapping[str, Node], edges: Sequence[StoredEdge], *, truncated: bool
) -> Expansion:
    """Return the records that the walk visits most, seeds among them.

    An entity tied to many others is visited often whatever the question is, so its share is divided by the root of its
    number of ties; that a text mentions many things says nothing against it, and mentions of a record are not counted.
    A hit's score is the root of what remains relative to the best record's: shares fall steeply, and the root, which
    changes no order, keeps the tenth in sight of the first. What a bridge leads to is then raised
    (:mod:`braid.ranking.pagerank`).

    Parameters
    ----------
    nodes
        Every vertex of the neighbourhood, seeds included, by id.
    edges
        Edges between them in the order of their identities, walked both ways; of several between the same two the
        surest.
    truncated
        Whether a seed had more edges than the budget.
    """
    nodes = _with_hits(request, nodes)
    seeds = {identity: weight for identity, weight in request.seeds().items() if identity in nodes}
    if not seeds:
        return Expansion(truncated=truncated)
    ties = _strongest_edges(edges, nodes)
    shares = _shares(sorted(nodes), ties, seeds, request.damping)
    tied = _degrees(ties.values())
    visited = [
        (-round(share / math.sqrt(max(1, tied[identity])), DIGITS), identity)
        for identity, share in shares.items()
        if nodes[identity].has_record
    ]
    # What rounds to nothing was not reached: only an edge of no confidence leads there.
    visited = sorted(entry for entry in visited if entry[0] < 0)
    if not visited:
        return Expansion(truncated=truncated)
    most = -visited[0][0]
    scores = {identity: math.sqrt(-negative / most) for negative, identity in visited}
    raised = boost_shared_entities(scores, request, nodes, edges)
    chosen = sorted((-clamp(round(score, DIGITS)), identity) for identity, score in raised.items())[: request.limit]
    ways = _seed_paths(request, ties, {identity for _, identity in chosen}, nodes)
    hits = tuple(
        _hit(rank, nodes[identity], -negative, ways[identity], nodes)
        for rank, (negative, identity) in enumerate(chosen, start=1)
    )
    return Expansion(hits=hits, truncated=truncated)


def _with_hits(request: PropagateRequest, nodes: Mapping[str, Node]) -> dict[str, Node]:
    """Add the text search's hits of which the graph knows nothing: tied to nothing, they have what they begin with."""
    alone = {identity: Node(identity, "Concept", True, None, None) for identity, _ in request.hits}
    return alone | dict(nodes)


def _strongest_edges(edges: Iterable[StoredEdge], nodes: Mapping[str, Node]) -> dict[tuple[str, str], StoredEdge]:
    """Keep one edge between any two vertices: the surest, then the first; a loop leads nowhere."""
    best: dict[tuple[str, str], StoredEdge] = {}
    for edge in checked(edges):
        if edge.source == edge.target or edge.source not in nodes or edge.target not in nodes:
            continue
        pair = (edge.source, edge.target) if edge.source < edge.target else (edge.target, edge.source)
        known = best.get(pair)
        if known is None or edge.confidence > known.confidence:
            best[pair] = edge
    return dict(sorted(best.items()))


def _degrees(ties: Iterable[StoredEdge]) -> Counter[str]:
    """Count each vertex's ties in the neighbourhood, without those by which it is mentioned."""
    counts: Counter[str] = Counter()
    for tie in checked(ties):
        counts[tie.source] += 1
        if tie.type != MENTIONS:
            counts[tie.target] += 1
    return counts


def _shares(
    identities: Sequence[str], ties: Mapping[tuple[str, str], StoredEdge], seeds: Mapping[str, float], damping: float
) -> dict[str, float]:
    """Return the share of its time that the walk spends at each vertex; an edge is taken by its confidence."""
    import rustworkx

    number = {identity: place for place, identity in enumerate(identities)}
    graph: rustworkx.PyDiGraph[str, float] = rustworkx.PyDiGraph(multigraph=False)
    graph.add_nodes_from(identities)
    pairs = [
        (number[one], number[other], tie.confidence)
        for (one, other), tie in checked(ties.items())
        if tie.confidence > 0
    ]
    graph.add_edges_from(pairs)
    graph.add_edges_from([(other, one, confidence) for one, other, confidence in pairs])
    shares = rustworkx.pagerank(
        graph,
        alpha=damping,
        weight_fn=float,
        personalization={number[identity]: weight for identity, weight in seeds.items()},
        tol=TOLERANCE,
        max_iter=MAX_ITERATIONS,
    )
    return {identity: shares[place] for identity, place in number.items()}


def _seed_paths(
    request: PropagateRequest, ties: Mapping[tuple[str, str], StoredEdge], wanted: set[str], nodes: Mapping[str, Node]
) -> dict[str, _SeedPath]:
    """Return the best way to each wanted vertex: from a name of the question, else from another hit, else none.

    The fewest hops are best, then the surest product of confidence, then the ids.
    """
    neighbours: dict[str, list[tuple[str, StoredEdge]]] = {}
    for (one, other), tie in ties.items():
        neighbours.setdefault(one, []).append((other, tie))
        neighbours.setdefault(other, []).append((one, tie))
    ways = {identity: _SeedPath(0, -1.0, (identity,), ()) for identity in wanted}
    missing = set(wanted)
    for seeds in (request.names, request.hits):
        starts = {identity for identity, _ in seeds if identity in nodes}
        missing -= starts
        frontier = {identity: _SeedPath(0, -1.0, (identity,), ()) for identity in starts}
        reached = set(starts)
        for _ in range(request.max_hops):
            following: dict[str, _SeedPath] = {}
            for vertex, way in checked(frontier.items()):
                for target, tie in neighbours.get(vertex, ()):
                    if target in reached:
                        continue
                    found = _SeedPath(
                        way.hops + 1,
                        way.negative_confidence * tie.confidence,
                        (*way.ids, target),
                        (*way.ties, tie),
                    )
                    if target not in following or found < following[target]:
                        following[target] = found
            for target in missing & following.keys():
                ways[target] = following[target]
            missing -= following.keys()
            reached |= following.keys()
            frontier = following
            if not missing:
                break
    return ways


def _hit(rank: int, node: Node, score: float, way: _SeedPath, nodes: Mapping[str, Node]) -> GraphHit:
    evidence = tuple(tie.evidence or None for tie in way.ties)
    return GraphHit(
        id=node.id,
        score=score,
        rank=rank,
        path=Path(
            ids=way.ids,
            types=tuple(tie.type for tie in way.ties),
            names=tuple(nodes[identity].name or identity for identity in way.ids),
            inward=tuple(tie.source != near for tie, near in zip(way.ties, way.ids, strict=False)),
            evidence=evidence if any(evidence) else (),
            invalid_at=earliest((*(nodes[one].invalid_at for one in way.ids), *(tie.invalid_at for tie in way.ties))),
        ),
        has_record=node.has_record,
        name=node.name,
        entity_type=node.entity_type,
        timestamp=node.timestamp,
        trusted=all(tie.trusted for tie in way.ties) and all(nodes[identity].trusted for identity in way.ids),
    )


BOOSTING_RECORDS = 3
"""How many of the best records raise others."""


def boost_shared_entities(
    scores: Mapping[str, float], request: PropagateRequest, nodes: Mapping[str, Node], edges: Iterable[StoredEdge]
) -> dict[str, float]:
    """Return the scores of records, raised where a bridge leads to one.

    A score becomes ``score + (1 − score) × bridging × likeness × bridge``. Likeness is what the request's texts say,
    and a bridge counts the score of the record that it leads from over the root of how many others of the neighbourhood
    mention the entity. The best bridge counts. Names of the question are none, since what mentions them is reached from
    them, nor are entities with a record, which are reached themselves.

    Parameters
    ----------
    scores
        Of every record that was reached, best first, 0 to 1.
    nodes
        Every vertex of the neighbourhood by id.
    """
    if not request.bridging or not request.texts:
        return dict(scores)
    records = {identity for identity, node in nodes.items() if node.has_record}
    entities = nodes.keys() - records - {identity for identity, _ in request.names}
    shared: dict[str, set[str]] = {}
    counts: Counter[str] = Counter()
    for one, another in {(edge.source, edge.target) for edge in edges if edge.type == MENTIONS}:
        for entity, other in ((one, another), (another, one)):
            if entity in entities and other in records:
                shared.setdefault(other, set()).add(entity)
                counts[entity] += 1
    texts, first = dict(request.texts), [*scores.items()][:BOOSTING_RECORDS]
    raised = dict(scores)
    for record in shared.keys() & scores.keys() & texts.keys():
        bridges = [
            score / math.sqrt(counts[entity] - 1)
            for other, score in first
            if other != record
            for entity in shared[record] & shared.get(other, set())
        ]
        gain = request.bridging * texts[record] * max(bridges, default=0.0)
        raised[record] = scores[record] + (1 - scores[record]) * gain
    return raised
