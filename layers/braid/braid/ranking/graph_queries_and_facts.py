"""Evaluates declarative graph queries, and groups and ranks relationships that answer a question (facts).

A query is evaluated on the vertices and edges that an engine gathered, so that all engines agree. The expansion from a
question's seeds is another walk, which each engine implements: ``engines.embedded.graph.expansion`` and
``engines.neptune.expansion``.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from braid.deadline import checked
from braid.models import GraphHit, Path, earliest
from braid.ports.graph_query import MAX_FRONTIER, MAX_STARTS, MAX_WALKS, GraphResult, QueryOrder, QueryReturn
from braid.ranking.scoring import clamp

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from braid.ports.graph_query import GraphQuery


class Node(NamedTuple):
    """A vertex."""

    id: str
    entity_type: str
    has_record: bool
    timestamp: datetime | None
    name: str | None
    trusted: bool = True
    invalid_at: datetime | None = None


class WalkEdge(NamedTuple):
    """An edge, seen from the vertex that it is walked from."""

    target: str
    type: str
    confidence: float
    inward: bool
    evidence: str | None
    trusted: bool = True
    invalid_at: datetime | None = None
    predicate: str = ""
    valid_at: datetime | None = None


class StoredEdge(NamedTuple):
    """An edge as it is stored."""

    source: str
    type: str
    target: str
    confidence: float
    evidence: str | None
    trusted: bool = True
    invalid_at: datetime | None = None
    found: bool = False
    """Whether it was found in the text of its evidence, and not given."""


class GatheredGraph(NamedTuple):
    """Vertices and edges that a query may walk, gathered by an engine within the query's bounds."""

    starts: Sequence[str]
    edges: Sequence[Mapping[str, Sequence[WalkEdge]]]
    """For each step, the edges to follow by vertex: at most the fan-out, in its order."""
    nodes: Mapping[str, Node]
    truncated: bool


class _Walk(NamedTuple):
    """A path with its score; of two paths to the same vertex the better one compares as the smaller."""

    negative_score: float
    ids: tuple[str, ...]
    types: tuple[str, ...]
    inward: tuple[bool, ...]
    evidence: tuple[str | None, ...]
    trusted: bool
    """Whether all its edges are trusted."""
    invalid_at: datetime | None = None
    """When the first of its edges ceases to be valid."""
    predicates: tuple[str, ...] = ()
    """Predicates of its edges, for facts; else empty."""
    valid_at: datetime | None = None
    """Since when all its edges are valid, for facts; else None."""


def max_starts(query: GraphQuery) -> int:
    """Return the most vertices at which a query begins."""
    return MAX_FRONTIER if query.steps else MAX_STARTS


def answer_query(query: GraphQuery, gathered: GatheredGraph) -> GraphResult:
    """Evaluate a query on the gathered graph and return its hits, in the query's order."""
    walks = [_Walk(-1.0, (start,), (), (), (), trusted=True) for start in gathered.starts]
    truncated = gathered.truncated
    for place, edges in enumerate(gathered.edges, start=1):
        extended = _extend(walks, edges, as_facts=query.as_facts)
        if place == len(gathered.edges) and query.returns is QueryReturn.NODES:
            walks = _best_to_each(extended)
        else:
            walks = heapq.nsmallest(MAX_WALKS + 1, extended, key=_order_key)
            truncated = truncated or len(walks) > MAX_WALKS
            walks = walks[:MAX_WALKS]
    chosen = _ordered(walks, query, gathered.nodes)[: query.limit]
    return GraphResult(
        hits=tuple(_hit(walk, rank, gathered.nodes) for rank, walk in enumerate(chosen, start=1)), truncated=truncated
    )


def _extend(walks: Iterable[_Walk], edges: Mapping[str, Sequence[WalkEdge]], *, as_facts: bool) -> Iterable[_Walk]:
    for walk in checked(walks):
        seen: set[tuple[str | bool, ...]] = set()
        for edge in edges.get(walk.ids[-1], ()):
            way = (edge.target, edge.type, edge.inward, edge.predicate if as_facts else "")
            # Parallel edges that differ only in predicate count as one, except for facts; the most confident is first.
            if edge.target in walk.ids or way in seen:
                continue
            seen.add(way)
            yield _Walk(
                walk.negative_score * edge.confidence,
                (*walk.ids, edge.target),
                (*walk.types, edge.type),
                (*walk.inward, edge.inward),
                (*walk.evidence, edge.evidence),
                walk.trusted and edge.trusted,
                earliest((walk.invalid_at, edge.invalid_at)),
                *(((*walk.predicates, edge.predicate), _latest(walk.valid_at, edge.valid_at)) if as_facts else ()),
            )


def _latest(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((moment for moment in (one, other) if moment is not None), default=None)


def _best_to_each(walks: Iterable[_Walk]) -> list[_Walk]:
    """Return the best walk to each vertex."""
    best: dict[str, _Walk] = {}
    for walk in walks:
        known = best.get(walk.ids[-1])
        if known is None or _order_key(walk) < _order_key(known):
            best[walk.ids[-1]] = walk
    return list(best.values())


def _order_key(walk: _Walk) -> tuple[float, tuple[str, ...], tuple[str, ...], tuple[bool, ...]]:
    return walk[:4]


def _ordered(walks: list[_Walk], query: GraphQuery, nodes: Mapping[str, Node]) -> list[_Walk]:
    """Order walks as the query asks; sorts are stable, so the least significant keys are sorted by first."""
    walks = sorted(walks, key=lambda walk: (walk.negative_score, walk.ids[-1], walk.ids, walk.types, walk.inward))
    if query.order_by is QueryOrder.SCORE:
        return sorted(walks, key=lambda walk: walk.negative_score, reverse=query.descending is False)
    values = {walk.ids[-1]: _value(nodes[walk.ids[-1]], query.order_by) for walk in walks}
    known = [walk for walk in walks if values[walk.ids[-1]] is not None]
    known.sort(key=lambda walk: values[walk.ids[-1]], reverse=bool(query.descending))
    return known + [walk for walk in walks if values[walk.ids[-1]] is None]


def _value(node: Node, order: QueryOrder) -> Any:  # noqa: ANN401 - str or datetime, compared only with its own type
    if order is QueryOrder.TIMESTAMP:
        return node.timestamp
    return node.name if order is QueryOrder.NAME else node.id


def _hit(walk: _Walk, rank: int, nodes: Mapping[str, Node]) -> GraphHit:
    node = nodes[walk.ids[-1]]
    return GraphHit(
        id=node.id,
        score=clamp(abs(walk.negative_score)),
        rank=rank,
        path=Path(
            ids=walk.ids,
            types=walk.types,
            names=tuple(nodes[name].name or name for name in walk.ids),
            inward=walk.inward,
            evidence=walk.evidence if any(walk.evidence) else (),
            predicates=walk.predicates if any(walk.predicates) else (),
            valid_at=walk.valid_at,
            invalid_at=earliest((walk.invalid_at, *(nodes[name].invalid_at for name in walk.ids))),
        ),
        has_record=node.has_record,
        name=node.name,
        entity_type=node.entity_type,
        timestamp=node.timestamp,
        trusted=walk.trusted and all(nodes[name].trusted for name in walk.ids),
    )


LEAST_FACT_SCORE: Final = 0.6
"""Lowest score of a group of facts that is an answer: it explains more than half of the question's words."""
OTHER_KIND: Final = 0.6
"""Score factor of an answer whose entity type is not one that the question asks for."""
CERTAIN_SHARE: Final = 0.7
"""Share of a group's score that does not depend on the confidence of its relationships."""
BESIDE_BEST: Final = 0.81
"""Share of the best group's score below which another group is dropped: a predicate that is read against the grammar
counts .8, and is none beside one that is not."""
MAX_GROUPS: Final = 3


@dataclass
class RankedFacts:
    """Paths that answer a question alike, with their common score: see :func:`rank_facts`."""

    score: float
    hits: list[GraphHit] = field(default_factory=list)


def rank_facts(
    scored: Iterable[tuple[GraphHit, float, tuple[str, ...]]], *, weights: Mapping[str, float], kinds: Collection[str]
) -> list[RankedFacts]:
    """Group the paths that answer a question; return the best groups, at most :data:`MAX_GROUPS`, best first.

    A path's score is how well it answers the question (:class:`~braid.understanding.question_relations.Explained`:
    quality of the match times share of the words explained), times :data:`OTHER_KIND` if it ends at an entity of a type
    that is not asked for. A group has the paths from one entity along the same types, directions and predicates;
    it keeps those of its highest score. Its own score, in [0, 1], is::

        score of its paths x weight of its start x (CERTAIN_SHARE + (1 - CERTAIN_SHARE) x confidence)

    with the confidence of its surest path. A path over the same edges as an earlier one is left out. Groups are dropped
    below :data:`LEAST_FACT_SCORE`, and below :data:`BESIDE_BEST` of the best group's score.

    Parameters
    ----------
    scored
        Each path, whose own score is the product of its edges' confidences; how well it answers, in [0, 1]; and its
        predicates, which distinguish it from other paths of the same types.
    weights
        How well the question's name matched, in (0, 1], by the id of the path's start.
    kinds
        Entity types that are asked for; empty means any.
    """
    found: dict[tuple[object, ...], list[tuple[float, GraphHit]]] = {}
    known: set[frozenset[tuple[str, str, str, str]]] = set()
    for hit, answering, wording in scored:
        edges = frozenset(hit.path.edges())
        if edges in known:
            continue
        known.add(edges)
        score = answering if not kinds or hit.entity_type in kinds else answering * OTHER_KIND
        found.setdefault((hit.path.ids[0], hit.path.types, hit.path.inward, wording), []).append((score, hit))
    groups = [_group(each, weights) for each in found.values()]
    groups.sort(key=lambda group: -group.score)
    least = max(LEAST_FACT_SCORE, BESIDE_BEST * groups[0].score) if groups else LEAST_FACT_SCORE
    return [group for group in groups if group.score >= least][:MAX_GROUPS]


def _group(scored: Sequence[tuple[float, GraphHit]], weights: Mapping[str, float]) -> RankedFacts:
    best = max(score for score, _ in scored)
    kept = [hit for score, hit in scored if score == best]
    confidence = CERTAIN_SHARE + (1.0 - CERTAIN_SHARE) * max(hit.score for hit in kept)
    return RankedFacts(clamp(best * weights[kept[0].path.ids[0]] * confidence), kept)
