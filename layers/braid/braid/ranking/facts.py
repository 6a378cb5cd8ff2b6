"""Ranks relationships as answers: how much of a question a path's types and predicates explain, in which direction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from braid.ranking.scoring import clamp
from braid.understanding.facts import is_symmetric, said_by
from braid.understanding.multi_hop import label_words
from braid.understanding.tokens import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from braid.models import FactQuestion, GraphHit, Label
    from braid.understanding.facts import Reading, Said

LEAST_SCORE: Final = 0.5
"""Least score of facts that are an answer: they explain half of the question's words."""
OTHER_KIND: Final = 0.6
"""Factor of an answer that is not of the kind that is asked for."""
AGAINST: Final = 0.8
"""Factor of a predicate in the writer's own words that is asked for from its other end, as far as grammar tells."""
WITHOUT_DOUBT: Final = 0.7
"""Share of the score that does not depend on the confidence of the relationships."""
BESIDE_BEST: Final = 0.75
"""Share of the best score below which another group is no answer beside it."""
MOST_GROUPS: Final = 3


@dataclass(frozen=True)
class Anchor:
    """An entity that the question names, and where."""

    id: str
    places: frozenset[int]
    weight: float
    """How well it matched."""


@dataclass
class RankedFacts:
    """Paths that answer a question in one way: from one name, along the same types and the same way."""

    score: float
    hits: list[GraphHit] = field(default_factory=list)


class _Match(NamedTuple):
    score: float
    places: frozenset[int]


def rank_facts(
    reading: Reading, asked: FactQuestion, anchors: Sequence[Anchor], hits: Iterable[GraphHit]
) -> list[RankedFacts]:
    """Return the paths that answer a question, in groups, the best first.

    A path counts the share of the question's words that its types and predicates explain, what else is named included,
    less where its end is of another kind than asked for, and less by its confidence. In each group those that explain
    as much as its best are kept.
    """
    by_id = {anchor.id: anchor for anchor in anchors}
    of_kind = set(asked.kinds)
    found: dict[tuple[object, ...], list[tuple[float, GraphHit]]] = {}
    known: set[frozenset[tuple[str, str, str, str]]] = set()
    for hit in hits:
        edges = frozenset(_edges(hit))
        score = _explained(reading, asked, by_id, hit)
        if score is None or edges in known:
            continue
        known.add(edges)
        if of_kind and hit.entity_type not in of_kind:
            score *= OTHER_KIND
        path = hit.path
        said = tuple(
            predicate if is_symmetric(label_words(label)) else ""
            for label, predicate in zip(path.types, path.predicates or ("",) * len(path.types), strict=True)
        )
        found.setdefault((path.ids[0], path.types, path.inward, said), []).append((score, hit))
    groups = []
    for (start, *_), scored in found.items():
        best = max(score for score, _ in scored)
        kept = [hit for score, hit in scored if score == best]
        doubt = WITHOUT_DOUBT + (1.0 - WITHOUT_DOUBT) * max(hit.score for hit in kept)
        groups.append(RankedFacts(clamp(best * by_id[str(start)].weight * doubt), kept))
    groups.sort(key=lambda group: -group.score)
    least = max(LEAST_SCORE, BESIDE_BEST * groups[0].score) if groups else LEAST_SCORE
    return [group for group in groups if group.score >= least][:MOST_GROUPS]


def _edges(hit: GraphHit) -> Iterable[tuple[str, str, str, str]]:
    path = hit.path
    predicates = path.predicates or ("",) * len(path.types)
    for place, (kind, inward, predicate) in enumerate(zip(path.types, path.inward, predicates, strict=True)):
        near, far = path.ids[place], path.ids[place + 1]
        yield (far, kind, near, predicate) if inward else (near, kind, far, predicate)


def _explained(
    reading: Reading, asked: FactQuestion, anchors: Mapping[str, Anchor], hit: GraphHit
) -> float | None:
    """Return how much of the question a path explains, 0 to 1; None where it does not say what is asked."""
    path = hit.path
    named = {place for anchor in anchors.values() for place in anchor.places}
    own = {place for identity in path.ids if identity in anchors for place in anchors[identity].places}
    reference = min(anchors[path.ids[0]].places)
    quality, explained = 1.0, frozenset[int]()
    predicates = path.predicates or ("",) * len(path.types)
    for label, predicate, inward in zip(path.types, predicates, path.inward, strict=True):
        match = _hop(reading, label, predicate, inward, reference, passed={*asked.explained, *named, *explained})
        if match is None:
            return LEAST_SCORE if asked.anything and len(path.types) == 1 else None
        quality *= match.score
        explained |= match.places
        reference = min(match.places)
    content = reading.content({*asked.explained, *own})
    return quality * len(content & explained) / len(content) if content else quality


def _hop(
    reading: Reading, label: Label, predicate: str, inward: bool, reference: int, *, passed: set[int]
) -> _Match | None:
    """Return the words that say one edge, in the right direction, and how well."""
    symmetric = is_symmetric(label_words(label))
    spoken = words(predicate)
    beside = reading.places_of(spoken, passed)
    best: _Match | None = None

    def offer(said: Said, factor: float) -> None:
        nonlocal best
        match = _Match(said.quality * factor, said.places | beside)
        if best is None or (len(match.places) * match.score, match.score) > (len(best.places) * best.score, best.score):
            best = match

    for said in reading.said(spoken, passed) if predicate else ():
        offer(said, 1.0 if said.inward(reference) is inward else AGAINST)
    if best is None or not symmetric:
        for said in said_by(reading, label, passed):
            if symmetric or said.inward(reference) is inward:
                offer(said, 1.0)
    return best
