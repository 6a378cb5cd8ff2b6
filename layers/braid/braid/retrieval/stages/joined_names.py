"""Facts of several names that a question joins: "both Atlas and Fern", "Atlas or Fern", "Atlas but not Fern"."""

from __future__ import annotations

from enum import Enum, auto
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from braid.models import Asked
from braid.ranking.graph_queries_and_facts import RankedFacts
from braid.retrieval.stages.conditions_by_name import DENYING
from braid.understanding.fact_questions import ASKING
from braid.understanding.tokens import word_set

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from braid.models import GraphHit

MAX_NAMES: Final = 5
_CONJUNCTIONS: Final = word_set("and or nor but not")
_PREPOSITIONS: Final = word_set("on of in to for from by with at")
_BESIDE: Final = word_set("both either neither as well also a an the") | _PREPOSITIONS
"""Words that may stand between joined names beside a conjunction."""
_AROUND: Final = word_set("both either neither each")
_QUANTITIES: Final = {"all": "both", "any": "each"}
"""Words before "of Atlas and Fern", by others that mean the same."""
_OF_SOME: Final = word_set("one two three four some most half none")
"""Words there that make it unclear to which of the names an answer is related."""
_SINGLE: Final = 0.9
"""Score factor of the facts of one name where "and" joins it to others, and others are facts of all."""


class Join(Enum):
    """Which of the names an answer has to be related to."""

    BOTH = auto()
    """All of them."""
    AND = auto()
    """All of them, or each has answers of its own: "Who owns Atlas and Fern?"."""
    EACH = auto()
    """One of them, whose answers are not those of the others: "What do Atlas and Fern each depend on?"."""
    OR = auto()
    """One of them."""
    WITHOUT = auto()
    """The first, and none of the others."""
    NEITHER = auto()
    """None of them."""


class JoinedNames(NamedTuple):
    """Names that a question joins."""

    join: Join
    names: tuple[frozenset[int], ...]
    """The positions of the words of each, in their order."""
    places: frozenset[int]
    """The positions of the names and of the words that join them."""


def joined_names(tokens: Sequence[str], names: Collection[frozenset[int]], asked: Asked) -> JoinedNames | None:
    """Return how a question joins its names; None if it has one, or does not join all of them, or not clearly.

    None too if it asks how they are related to each other.

    Parameters
    ----------
    tokens
        The question's words.
    names
        The positions of the words of each name.
    """
    ordered = sorted(set(names), key=min)
    if not 1 < len(ordered) <= MAX_NAMES or "between" in tokens:
        return None
    if asked is Asked.ONE and ASKING.isdisjoint(tokens):
        return None
    gaps = [range(max(one) + 1, min(other)) for one, other in pairwise(ordered)]
    between = [{tokens[place] for place in gap} for gap in gaps]
    conjunctions = [words & _CONJUNCTIONS or ({"and"} if {"as", "well"} <= words else set()) for words in between]
    if not conjunctions[-1] or any(words - _CONJUNCTIONS - _BESIDE for words in between):
        return None
    if any(not (words & _PREPOSITIONS).issubset(tokens[: min(ordered[0])]) for words in between):
        return None  # "on Atlas but not in Leith" says two relationships
    first, named = min(ordered[0]), frozenset[int]().union(*ordered)
    quantity = tokens[first - 2] if first > 1 and tokens[first - 1] == "of" else ""
    is_denied_twice = not DENYING.isdisjoint(tokens[:first]) and any("not" in words for words in conjunctions)
    if quantity in _OF_SOME or is_denied_twice:
        return None
    around = {place for place, token in enumerate(tokens) if token in _AROUND and place not in named}
    rest = {token for place, token in enumerate(tokens) if place not in named}
    if quantity in _QUANTITIES:
        around.add(first - 2)
        rest.add(_QUANTITIES[quantity])
    join = _join(rest, conjunctions, denied=asked is Asked.NOT)
    return None if join is None else JoinedNames(join, tuple(ordered), named.union(around, *gaps))


def _join(rest: Collection[str], conjunctions: Sequence[Collection[str]], *, denied: bool) -> Join | None:
    """Return how names are joined by the conjunctions between each two of them; None if that is not clear.

    Parameters
    ----------
    rest
        The words of the question, without the names.
    """
    all_words = set[str]().union(*conjunctions)
    if "neither" in rest or "nor" in all_words:
        return Join.NEITHER if "and" not in all_words else None
    if "not" in all_words:
        is_first = "not" in conjunctions[0] and not any({"not", "but"} & set(words) for words in conjunctions[1:])
        return Join.WITHOUT if is_first and "both" not in rest else None
    if denied:
        return Join.NEITHER if all_words == {"or"} and "both" not in rest else None
    if all_words == {"or"}:
        return Join.OR
    if all_words == {"and"}:
        return Join.BOTH if "both" in rest else Join.EACH if "each" in rest else Join.AND
    return None


def facts_of_joined(
    join: Join, of_each: Sequence[Sequence[RankedFacts]], others: Collection[str], *, counted: bool = False
) -> list[RankedFacts]:
    """Return the groups of facts that answer a question about joined names, best first; for ``NEITHER`` all of each.

    Parameters
    ----------
    of_each
        The groups of each name, in the order of the names, best first.
    others
        Ids of entities that are related to any name but the first, however uncertainly.
    counted
        Whether the question asks how many they are: of several names, none or one number answers it.
    """
    best = [groups[0] for groups in of_each if groups]
    if join is Join.NEITHER or not best:
        return [group for groups in of_each for group in groups]
    if join is Join.EACH or (join is Join.OR and not counted):
        return best
    if join is Join.WITHOUT:
        left = [hit for hit in best[0].hits if hit.id not in others] if of_each[0] else []
        return [RankedFacts(best[0].score, left)] if left else []
    ids = [{hit.id for hit in group.hits} for group in best]
    if counted and join is not Join.BOTH and any(one != ids[0] for one in ids):
        together = RankedFacts(min(group.score for group in best), [hit for group in best for hit in group.hits])
        return [together] if sum(map(len, ids)) == len(set().union(*ids)) else []
    of_all = facts_of_all(best) if len(best) == len(of_each) else None
    if join is Join.BOTH or of_all is None:
        return [of_all] if of_all else [] if join is Join.BOTH else best
    shared = {hit.id for hit in of_all.hits}
    further = [group for group in best if not shared.issuperset(hit.id for hit in group.hits)]
    return [of_all, *(RankedFacts(group.score * _SINGLE, group.hits) for group in further)]


def facts_of_all(groups: Sequence[RankedFacts], left_out: Collection[str] = ()) -> RankedFacts | None:
    """Return the facts of the entities that are in all groups; None if there are none.

    Parameters
    ----------
    left_out
        Ids of entities that are no answers.
    """
    shared = set.intersection(*({hit.id for hit in group.hits} for group in groups)).difference(left_out)
    score = min(group.score for group in groups)
    hits = sorted((hit for group in groups for hit in group.hits if hit.id in shared), key=by_name)
    return RankedFacts(score, hits) if hits else None


def by_name(hit: GraphHit) -> tuple[str, str]:
    """Return the key by which entities of a set are sorted."""
    return hit.name or hit.id, hit.id
