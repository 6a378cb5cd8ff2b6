"""Reads the conditions that a question sets by several names: "Which services owned by Ledger depend on Keelson?"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from braid.understanding.tokens import word_set

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

MAX_CONDITIONS: Final = 3
_ARTICLES: Final = word_set("a an the our")
_MEMBERSHIP: Final = word_set("in of at from")
_DENYING: Final = word_set("not never t")
"""What stands before a relationship that is denied; "t" of "don't"."""


class Condition(NamedTuple):
    """One relationship to one of the names that an answer has, or has not."""

    name: frozenset[int]
    """The positions of the words of the name."""
    said: frozenset[int]
    """Those of the words for the relationship; empty if it is said by a preposition alone: "people *in* Dock"."""
    denied: bool


def read_conditions(
    tokens: Sequence[str], names: Collection[frozenset[int]], said: Mapping[int, frozenset[int]]
) -> tuple[Condition, ...]:
    """Return a condition for each name of a question, in their order; empty unless it clearly sets one by each.

    The relationships and the names that they are said of come in the same order. At least one is not denied.

    Parameters
    ----------
    tokens
        The question's words.
    names
        The positions of the words of each name.
    said
        The positions of the words for each relationship, by the first of them.
    """
    if len(names) > MAX_CONDITIONS:
        return ()
    waiting = sorted(said)
    beside = frozenset().union(*said.values())
    conditions = []
    for name in sorted(names, key=min):
        before = min(name) - 1
        while before > 0 and tokens[before] in _ARTICLES:
            before -= 1
        if before > 0 and tokens[before] in _MEMBERSHIP and beside.isdisjoint((before, before - 1)):
            conditions.append(Condition(name, frozenset(), denied=False))
        elif waiting:
            place = waiting.pop(0)
            conditions.append(Condition(name, said[place], denied=place > 0 and tokens[place - 1] in _DENYING))
    denied = sum(condition.denied for condition in conditions)
    is_clear = len(conditions) == len(names) and not waiting and denied == sum(word in _DENYING for word in tokens)
    return tuple(conditions) if is_clear and denied < len(conditions) else ()
