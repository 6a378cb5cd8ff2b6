"""Which walks along causes or along time answer a question: their direction in time, and their ends.

"What happened after the stoppage?" is answered by what a path leads to forwards in time, and "the root cause" by where
a chain begins, not by what lies between.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from braid.models import Direction, Intent
from braid.understanding.planning import CAUSAL_TYPES, TEMPORAL_TYPES

if TYPE_CHECKING:
    from braid.models import GraphHit, Path, TemporalContext


BETWEEN_FACTOR: Final = 0.5
"""Factor on the score of a vertex between the start of a walk and the end asked for."""


PREVENTED: Final = ("PREVENTS",)


class TimeRelation(StrEnum):
    """Relation in time of the answer to what the question names."""

    BEFORE = "before"
    AFTER = "after"
    DURING = "during"


def _any_of(*alternatives: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(alternatives)})(?!\w)", re.IGNORECASE)


_RELATIONS: Final = {
    TimeRelation.BEFORE: _any_of("before", "prior to", "preced(?:e|es|ed|ing)", "leading up to", "ahead of", "until"),
    TimeRelation.AFTER: _any_of(
        "after", "follow(?:s|ed|ing)", "(?<!ever )since(?! when)", "in the wake of", "later than"
    ),
    TimeRelation.DURING: _any_of("during", "while", "throughout", "in the course of", "at the time of"),
}
_SINCE_WHEN: Final = _any_of("since when", "how long since")
_ENDS: Final = _any_of(
    "root causes?",
    "in the first place",
    "origin(?:s|ally|ate|ated|ates)?",
    "ultimate(?:ly)?",
    "in the end",
    "eventually",
    "underlying",
    "first causes?",
)
_MEASURES: Final = _any_of("prevent(?:s|ed|ing)?", "avert(?:s|ed|ing)?")
CAUSE_OF_PREVENTED_FACTOR: Final = 0.25
"""Factor on the score of a cause of what is to be prevented, where a measure that prevents it is known."""
_FORWARDS: Final = {("BEFORE", False), ("AFTER", True)}
"""Edges that lead to what is later: ``earlier BEFORE later`` along it, ``later AFTER earlier`` against it."""
_BACKWARDS: Final = {("BEFORE", True), ("AFTER", False)}


def time_relation(text: str, context: TemporalContext | None) -> TimeRelation | None:
    """Return how the answer stands in time to what the question names; None where it says nothing, or two things.

    A caller's temporal context wins over the words.
    """
    if context is not None and context.relation is not None:
        stated = context.relation.lower()
        return TimeRelation(stated) if stated in set(TimeRelation) else None
    text = _SINCE_WHEN.sub("", text)
    found = [relation for relation, pattern in _RELATIONS.items() if pattern.search(text)]
    return found[0] if len(found) == 1 else None


def follows_relation(path: Path, relation: TimeRelation) -> bool:
    """Whether a path along time leads where the relation says.

    What happens during something is before or after whatever that is: an edge DURING on the way is neither.
    """
    inward = path.inward or (False,) * len(path.types)
    steps = set(zip(path.types, inward, strict=True))
    match relation:
        case TimeRelation.BEFORE:
            return bool(steps & _BACKWARDS) and not steps & _FORWARDS
        case TimeRelation.AFTER:
            return bool(steps & _FORWARDS) and not steps & _BACKWARDS
        case TimeRelation.DURING:
            return steps == {("DURING", True)}


def relation_bounds(relation: TimeRelation | None) -> dict[str, object]:
    """Return the fields of the walk's request that a relation narrows."""
    match relation:
        case TimeRelation.DURING:
            return {"types": ("DURING",), "direction": Direction.IN, "max_hops": 1}
        case TimeRelation.BEFORE | TimeRelation.AFTER:
            return {"types": ("BEFORE", "AFTER")}
    return {}


def wants_ends(text: str) -> bool:
    """Whether a question asks for where a chain begins or ends rather than for all of it."""
    return _ENDS.search(text) is not None


@dataclass(frozen=True)
class WalkPreference:
    """Which walks along its intent's relationship types answer one question."""

    types: frozenset[str] | None
    """None where the question asks for no such walk: "When did X happen?" asks for X, not for what came before it."""
    relation: TimeRelation | None = None
    ends: bool = False
    prevention: bool = False

    def answers(self, hit: GraphHit) -> bool:
        """Whether a hit was reached along those types alone."""
        return self.types is not None and bool(hit.path.types) and self.types.issuperset(hit.path.types)

    def keep(self, hits: list[GraphHit]) -> list[GraphHit]:
        """Keep what lies on the side in time that is asked for; count less what lies before the end asked for.

        Of what is prevented the causes are no answer once a measure is: they count less, and so does what led to it.
        """
        if self.relation is not None:
            return [hit for hit in hits if follows_relation(hit.path, self.relation)]
        if self.prevention and any(hit.path.types == PREVENTED for hit in hits):
            return [
                hit.model_copy(update={"score": hit.score * CAUSE_OF_PREVENTED_FACTOR})
                if self.answers(hit) and hit.path.types != PREVENTED
                else hit
                for hit in hits
            ]
        if not self.ends:
            return hits
        between = {identity for hit in hits for identity in hit.path.ids[1:-1]}
        return [
            hit.model_copy(update={"score": hit.score * BETWEEN_FACTOR}) if hit.id in between else hit for hit in hits
        ]


def walk_preference(text: str, intent: Intent, context: TemporalContext | None) -> WalkPreference:
    """Return what a question asks of walks along causes or time."""
    if intent is Intent.CAUSAL:
        prevention = _MEASURES.search(text) is not None
        return WalkPreference(frozenset(CAUSAL_TYPES), ends=wants_ends(text), prevention=prevention)
    relation = time_relation(text, context) if intent is Intent.TEMPORAL else None
    return WalkPreference(frozenset(TEMPORAL_TYPES) if relation else None, relation)
