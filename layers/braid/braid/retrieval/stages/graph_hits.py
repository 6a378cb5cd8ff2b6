"""Scores, reasons and ranks of the hits that walks found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.models import EntityLink, GraphHit, Path, Source
from braid.ranking.scoring import clamp
from braid.retrieval.stages.graph_constraint import with_reason

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

ONE_HOP = 0.5
"""Score of a record one hop from a name, as on every other walk: ``1 / (1 + hops)``."""
ONE_HOP_WITH_EVIDENCE = 0.6
"""The same where the mention has evidence: it was read in that record, not guessed."""
WHERE_IT_BEGAN, TOLD_OF_IT = 0.25, 0.5
"""Factors of an entity at which a causal or temporal walk began, and of a mention of it."""
AROUND_IT = 0.5
"""Factor of a neighbour of a walk's answers, times its share of what is propagated from them."""

MAX_HITS_BYTES = 56 * 1024
"""Largest hits as JSON. A state may have 256 KiB: names and walks this much each, the search's ids and the question."""


def fitting(hits: Sequence[GraphHit]) -> tuple[GraphHit, ...]:
    """Return the best hits that fit within :data:`MAX_HITS_BYTES`, in their order."""
    size, kept = 0, set[int]()
    for place in sorted(range(len(hits)), key=lambda place: hits[place].rank):
        size += len(hits[place].model_dump_json().encode()) + 1
        if size > MAX_HITS_BYTES:
            break
        kept.add(place)
    return tuple(hit for place, hit in enumerate(hits) if place in kept)


def weighted(hits: Iterable[GraphHit], weights: Mapping[str, float]) -> list[GraphHit]:
    """Scale each hit's score by the weight of its seed, so that nothing outranks the seed that led to it."""
    return [scaled(hit, weights[hit.path.ids[0]]) for hit in hits]


def as_link(hit: GraphHit) -> EntityLink:
    """Return a vertex that was reached as a link, as if the question had named it."""
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
    """Return a hit with its score multiplied."""
    return hit.model_copy(update={"score": clamp(hit.score * factor)})


def named(links: Iterable[EntityLink], begun: Collection[str]) -> list[GraphHit]:
    """Return the linked entities themselves: an entity that has a record can be an answer.

    One at which a causal or temporal walk began is the question's subject, and so less likely its answer.
    """
    return [
        GraphHit(
            id=link.entity_id,
            score=clamp(link.score * (WHERE_IT_BEGAN if link.entity_id in begun else 1.0)),
            rank=1,
            source=Source.KNOWLEDGE,
            path=Path(ids=(link.entity_id,), types=(), names=(link.name,), invalid_at=link.invalid_at),
            has_record=link.has_record,
            name=link.name,
            entity_type=link.entity_type,
            reason=f"entity match: {link.name}",
        )
        for link in links
    ]


def mentioning(hits: Iterable[GraphHit], links: Sequence[EntityLink], begun: Collection[str] = ()) -> list[GraphHit]:
    """Return the records that mention a linked entity, scored by name match and the mention's confidence.

    A mention with evidence counts more, one of the seed of a causal or temporal walk less.
    """
    by_id = {link.entity_id: link for link in links}
    found = []
    for hit in hits:
        link = by_id[hit.path.ids[0]]
        one_hop = ONE_HOP_WITH_EVIDENCE if any(hit.path.evidence) else ONE_HOP
        changes = {
            "score": clamp(one_hop * hit.score * link.score * (TOLD_OF_IT if link.entity_id in begun else 1.0)),
            "source": Source.KNOWLEDGE,
            "reason": f"entity match: {link.name}",
        }
        found.append(hit.model_copy(update=changes))
    return found


def evidence(hits: Iterable[GraphHit]) -> list[GraphHit]:
    """Return the record that is the evidence of each path's last edge; it counts half of the hit."""
    return [
        GraphHit(
            id=hit.path.evidence[-1],
            score=clamp(TOLD_OF_IT * hit.score),
            rank=1,
            path=hit.path,
            has_record=True,
            reason=f"evidence of: {' → '.join(hit.path.types)}",
        )
        for hit in hits
        if hit.path.evidence and hit.path.evidence[-1]
    ]


def ends_there(hit: GraphHit) -> bool:
    """Whether a hit is the end of its path, rather than evidence of its last edge."""
    return hit.path.ids[-1] == hit.id


def beyond(nearby: Iterable[GraphHit], answers: Iterable[GraphHit], known: Collection[str]) -> list[GraphHit]:
    """Return the neighbours of a walk's answers, each with the walk's path continued to it.

    Parameters
    ----------
    known
        Ids that the walks reached or began at, which have scores already.
    """
    ways = {hit.id: hit.path for hit in answers}
    return [
        hit.model_copy(update={"score": clamp(AROUND_IT * hit.score), "path": ways[begun].onwards(hit.path)})
        if (begun := hit.path.ids[0]) in ways
        else scaled(hit, AROUND_IT)
        for hit in nearby
        if hit.id not in known
    ]


def ranked(hits: Iterable[GraphHit]) -> tuple[GraphHit, ...]:
    """Return the best hit of each id, ranked."""
    best: dict[str, GraphHit] = {}
    for hit in hits:
        if hit.id not in best or hit.score > best[hit.id].score:
            best[hit.id] = hit
    ordered = sorted(best.values(), key=lambda hit: (-hit.score, hit.id))
    return tuple(with_reason(hit).model_copy(update={"rank": rank}) for rank, hit in enumerate(ordered, start=1))


def in_time(hits: Iterable[GraphHit]) -> tuple[GraphHit, ...]:
    """List hits by when they happened, those without a time last; their ranks stay those of their scores."""
    return tuple(
        sorted(hits, key=lambda hit: (hit.timestamp is None, hit.timestamp and hit.timestamp.timestamp(), hit.rank))
    )
