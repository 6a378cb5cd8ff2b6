"""Limits and seeds of walks and propagation; scores, reasons and ranks of their hits, cut to a workflow's state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from braid.models import EntityLink, GraphHit, Path, Source
from braid.ports.knowledge_graph import PropagateRequest
from braid.ranking.fusion import DEFAULT_PARAMETERS, adaptive_lexical_share, best_scores, least_scores, sum_of_texts
from braid.ranking.scoring import clamp
from braid.retrieval.stages.stage_messages import GraphFound

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from braid.models import FusionParameters, Hit, Query
    from braid.retrieval.stages.stage_messages import Searched


@dataclass(frozen=True)
class GraphLimits:
    """Limits of walks and propagation: numbers of seeds, of hits, and of edges that are followed."""

    seeds: int = 10
    """Most text hits that are seeds."""
    limit: int = 50
    """Most hits of a walk or of propagation."""
    fan_out: int = 200
    """Most edges that are followed from one vertex."""
    hub: int = 20
    """Most edges of a vertex that propagation walks through."""
    constraint_fan_out: int = 10_000
    """Fan-out of a graph constraint, which must not be cut to the most confident edges as walks are."""
    parameters: FusionParameters = DEFAULT_PARAMETERS


def walk_seeds(searched: Searched, limits: GraphLimits, hit_weight: float) -> dict[str, float]:
    """Return the search's first hits, in the order of ``frontier``, with their weights.

    A weight is ``hit_weight`` times the better of vector and lexical score, times the square of that score relative to
    the best: outstanding hits count more.
    """
    scores = best_scores((*searched.vector, *searched.lexical))
    first = searched.frontier[: limits.seeds]
    best = max((scores[identity] for identity in first), default=0.0) or 1.0
    return {identity: hit_weight * scores[identity] * (scores[identity] / best) ** 2 for identity in first}


def propagation_of(
    query: Query, searched: Searched | None, linked: GraphFound | None, *, as_of: datetime, limits: GraphLimits
) -> PropagateRequest | None:
    """Return the propagation from names and text hits; None without any.

    All hits share the weight 1 by the squares of their scores, so that outstanding hits have more influence; a name has
    ``name_weight`` times the score of its match and its certainty.
    """
    parameters = limits.parameters
    links = linked.links if linked else ()
    names = [(link.entity_id, parameters.name_weight * link.score * link.certainty) for link in links]
    hits = _hit_seeds(searched, limits) if searched else []
    if not names and not hits:
        return None
    request = _request(query, names, hits, as_of=as_of, limits=limits)
    texts = _likeness(searched.vector or searched.lexical) if searched else ()
    return request.altered(texts=texts, bridging=parameters.bridging)


def propagation_around_answers(
    query: Query, answers: Sequence[GraphHit], searched: Searched | None, *, as_of: datetime, limits: GraphLimits
) -> PropagateRequest | None:
    """Return the propagation from a walk's answers and the text hits; None without answers.

    The best answers share ``name_weight`` by the squares of their scores; all hits share 1.

    Parameters
    ----------
    answers
        Vertices reached along the question's own relationship types, best first.
    """
    first = [(hit.id, hit.score * hit.score) for hit in answers[: limits.seeds]]
    total = sum(weight for _, weight in first)
    if not total:
        return None
    names = [(identity, limits.parameters.name_weight * weight / total) for identity, weight in first]
    return _request(query, names, _hit_seeds(searched, limits) if searched else [], as_of=as_of, limits=limits)


def _request(
    query: Query, names: list[tuple[str, float]], hits: list[tuple[str, float]], *, as_of: datetime, limits: GraphLimits
) -> PropagateRequest:
    return PropagateRequest(
        tenant_id=query.tenant_id,
        names=tuple((identity, weight) for identity, weight in names if weight > 0),
        hits=tuple(hits),
        damping=limits.parameters.damping,
        fan_out=limits.fan_out,
        hub=limits.hub,
        limit=limits.limit,
        as_of=as_of,
        trusted_only=query.filters.trusted_only,
    )


def _hit_seeds(searched: Searched, limits: GraphLimits) -> list[tuple[str, float]]:
    """Return the best text hits as seeds, with weights that add up to 1: the squares of their scores.

    A score is the weighted sum of vector and word score, less the same sum of the lowest scores of both lists.
    """
    vector, lexical = best_scores(searched.vector), best_scores(searched.lexical)
    lexical_share = adaptive_lexical_share(vector, lexical, limits.parameters.lexical_share)
    vector_least, lexical_least = least_scores(vector, lexical)
    least = (1.0 - lexical_share) * vector_least + lexical_share * lexical_least
    scores = {
        one: score - least for one, score in sum_of_texts(vector, lexical, 1.0 - lexical_share, lexical_share).items()
    }
    first = sorted(((-score, identity) for identity, score in scores.items() if score > 0))[: limits.seeds]
    total = sum(score * score for score, _ in first)
    return [(identity, score * score / total) for score, identity in first]


def _likeness(hits: Sequence[Hit]) -> tuple[tuple[str, float], ...]:
    """Return each hit's score relative to the best, as its similarity to the question, in (0, 1]."""
    scores = {identity: score for identity, score in best_scores(hits).items() if score > 0}
    best = max(scores.values(), default=1.0)
    return tuple((identity, score / best) for identity, score in scores.items())


ONE_HOP = 0.5
"""Score of a record one hop from a name: ``1 / (1 + hops)``, as in every other walk."""
ONE_HOP_WITH_EVIDENCE = 0.6
"""The same for a mention with evidence: it was read in that record."""
START_FACTOR = 0.25
"""Score factor of an entity at which a causal or temporal walk began: it is the question's subject, not its answer."""
MENTION_OF_START_FACTOR = 0.5
"""Score factor of a record that mentions such an entity."""
EVIDENCE_FACTOR = 0.5
"""Score factor of the record that is the evidence of a path's last edge."""
NEIGHBOUR_FACTOR = 0.5
"""Score factor of a neighbour of a walk's answers, which propagation from them reached."""

MAX_HITS_BYTES = 48 * 1024
"""Largest size of hits as JSON. A state has at most 256 KiB: this for names and for walks each, 50 text hits with the
longest ids, and a question of 10,000 characters of four bytes."""


def fit_to_state(hits: Sequence[GraphHit], taken: int = 0) -> tuple[GraphHit, ...]:
    """Return the best hits that fit within :data:`MAX_HITS_BYTES`, in their order.

    Parameters
    ----------
    taken
        Bytes that facts have already taken.
    """
    together = GraphFound.unchecked(hits=tuple(hits)).model_dump_json()
    if taken + len(together.encode()) <= MAX_HITS_BYTES:
        return tuple(hits)
    size, kept = taken, set[int]()
    for place in sorted(range(len(hits)), key=lambda place: hits[place].rank):
        size += len(hits[place].model_dump_json().encode()) + 1
        if size > MAX_HITS_BYTES:
            break
        kept.add(place)
    return tuple(hit for place, hit in enumerate(hits) if place in kept)


def scaled_by_seed(hits: Iterable[GraphHit], weights: Mapping[str, float]) -> list[GraphHit]:
    """Scale each hit's score by the weight of its path's seed, so that no hit outranks its seed."""
    return [scaled(hit, weights[hit.path.ids[0]]) for hit in hits]


def as_link(hit: GraphHit) -> EntityLink:
    """Return a reached vertex as a link, as if the question had named it."""
    name = hit.name or hit.id
    return EntityLink(
        entity_id=hit.id,
        name=name,
        entity_type=hit.entity_type,
        phrase=name,
        score=hit.score,
        invalid_at=hit.path.invalid_at,
    )


def scaled(hit: GraphHit, factor: float) -> GraphHit:
    """Return a hit with its score multiplied by a factor."""
    return hit if factor == 1.0 else hit.altered(score=clamp(hit.score * factor))


def entity_hits(links: Iterable[EntityLink], starts: Collection[str]) -> list[GraphHit]:
    """Return the linked entities themselves as hits: an entity that has a record can be an answer.

    Parameters
    ----------
    starts
        Ids of entities at which a causal or temporal walk began, which score less.
    """
    return [
        GraphHit.unchecked(
            id=link.entity_id,
            score=clamp(link.score * (START_FACTOR if link.entity_id in starts else 1.0)),
            rank=1,
            source=Source.KNOWLEDGE,
            path=Path.unchecked(ids=(link.entity_id,), types=(), names=(link.name,), invalid_at=link.invalid_at),
            has_record=link.has_record,
            name=link.name,
            entity_type=link.entity_type,
            reason=f"entity match: {link.name}",
        )
        for link in links
    ]


def mention_hits(hits: Iterable[GraphHit], links: Sequence[EntityLink], starts: Collection[str] = ()) -> list[GraphHit]:
    """Return the records that mention a linked entity, scored by name match and the mention's confidence.

    A mention with evidence scores more; a mention of an entity in ``starts``, at which a causal or temporal walk began,
    less.
    """
    by_id = {link.entity_id: link for link in links}
    found = []
    for hit in hits:
        link = by_id[hit.path.ids[0]]
        one_hop = ONE_HOP_WITH_EVIDENCE if any(hit.path.evidence) else ONE_HOP
        score = clamp(one_hop * hit.score * link.score * (MENTION_OF_START_FACTOR if link.entity_id in starts else 1.0))
        found.append(hit.altered(score=score, source=Source.KNOWLEDGE, reason=f"entity match: {link.name}"))
    return found


def evidence_hits(hits: Iterable[GraphHit]) -> list[GraphHit]:
    """Return the records that are evidence of a path's last edge; :data:`EVIDENCE_FACTOR` scales the hit's score."""
    return [
        GraphHit(
            id=hit.path.evidence[-1],
            score=clamp(EVIDENCE_FACTOR * hit.score),
            rank=1,
            path=hit.path,
            has_record=True,
            reason=f"evidence of: {' → '.join(hit.path.types)}",
        )
        for hit in hits
        if hit.path.evidence and hit.path.evidence[-1]
    ]


def ends_there(hit: GraphHit) -> bool:
    """Whether a hit is the end of its path, rather than the evidence of the last edge."""
    return hit.path.ids[-1] == hit.id


def neighbours_of_answers(
    nearby: Iterable[GraphHit], answers: Iterable[GraphHit], known: Collection[str]
) -> list[GraphHit]:
    """Return the neighbours of a walk's answers, each with the walk's path continued to it.

    Parameters
    ----------
    nearby
        Hits of the propagation from the answers.
    known
        Ids that the walks reached or began at, which have scores already.
    """
    ways = {hit.id: hit.path for hit in answers}
    return [
        hit.altered(score=clamp(NEIGHBOUR_FACTOR * hit.score), path=ways[start].onwards(hit.path))
        if (start := hit.path.ids[0]) in ways
        else scaled(hit, NEIGHBOUR_FACTOR)
        for hit in nearby
        if hit.id not in known
    ]


def with_reason(hit: GraphHit, **changes: object) -> GraphHit:
    """Return a hit with other changes and a reason: its own, else its path, or that a walk began at it."""
    path = f"graph path: {' → '.join(hit.path.types)}" if hit.path.types else "a walk began here"
    return hit.altered(reason=hit.reason or path, **changes)


def ranked(hits: Iterable[GraphHit]) -> tuple[GraphHit, ...]:
    """Return the best hit of each id, ranked by score, ties by id, each with a reason."""
    best: dict[str, GraphHit] = {}
    for hit in hits:
        if hit.id not in best or hit.score > best[hit.id].score:
            best[hit.id] = hit
    ordered = sorted(best.values(), key=lambda hit: (-hit.score, hit.id))
    return tuple(with_reason(hit, rank=rank) for rank, hit in enumerate(ordered, start=1))


def sorted_by_time(hits: Iterable[GraphHit]) -> tuple[GraphHit, ...]:
    """Order hits by timestamp, hits without one last; their ranks remain by score."""
    return tuple(
        sorted(hits, key=lambda hit: (hit.timestamp is None, hit.timestamp and hit.timestamp.timestamp(), hit.rank))
    )
