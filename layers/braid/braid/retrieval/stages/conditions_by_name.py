"""Reads the conditions that a question sets by several names: "Which services owned by Ledger depend on Keelson?".

And tells which it sets that no relationship of its names expresses, so that their facts are no answer, or only a part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from braid.understanding.fact_questions import ASKING
from braid.understanding.multi_hop import label_words
from braid.understanding.tokens import word_set

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from braid.models import Label
    from braid.understanding.question_relations import Occurrence

MAX_CONDITIONS: Final = 3
ARTICLES: Final = word_set("a an the")
DENYING: Final = word_set("not never t")
"""Words that deny; "t" of "don't"."""
_NARROWING: Final = word_set("in of at for from by with")
_BEHIND: Final = word_set("of from by with")
"""Those of them that belong to the word before: "is a part *of*", "is used *by*", but not "no owner *in*"."""
_ALL: Final = word_set("all every everything everyone everybody")
_NONE: Final = word_set("no nobody none nothing lack lacks")
_HAVING: Final = word_set("have has having with")
_EXCEPT: Final = word_set("except excepting excluding besides than minus unlike")
_BEFORE: Final = {"but": _ALL | word_set("any anyone anything anybody"), "from": word_set("apart aside")}
"""Words that leave a name out behind certain others: "anything *but* Atlas"."""
_CONJUNCTIONS: Final = word_set("and or nor but than")
_BEFORE_NAME: Final = ARTICLES | {"our"}
_MEMBERSHIP: Final = word_set("in of at from")
_DENYING: Final = DENYING | {"without"}
"""What stands before a relationship that is denied."""
_BEFORE_SAID: Final = word_set("a an the be being been")
_ALTERNATIVE: Final = word_set("or nor either neither unless if whether than")
"""Words by which not all conditions have to be met."""


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
    named = frozenset().union(*names)
    rest = [token for place, token in enumerate(tokens) if place not in named]
    if len(names) > MAX_CONDITIONS or not _ALTERNATIVE.isdisjoint(rest):
        return ()
    waiting = sorted(said)
    beside = frozenset().union(*said.values())
    conditions = []
    for name in sorted(names, key=min):
        before = _place_before(tokens, name, _BEFORE_NAME)
        if before > 0 and tokens[before] in _MEMBERSHIP and beside.isdisjoint((before, before - 1)):
            conditions.append(Condition(name, frozenset(), denied=False))
        elif waiting:
            place = waiting.pop(0)
            conditions.append(Condition(name, said[place], denied=_is_denied(tokens, place)))
    denied = sum(condition.denied for condition in conditions)
    is_clear = len(conditions) == len(names) and not waiting and denied == sum(word in _DENYING for word in rest)
    return tuple(conditions) if is_clear and denied < len(conditions) else ()


def _place_before(tokens: Sequence[str], name: Collection[int], passed: Collection[str]) -> int:
    """Return the position of the last word before a name and the ``passed`` words; 0 or less if there is none."""
    place = min(name) - 1
    while place > 0 and tokens[place] in passed:
        place -= 1
    return place


def _is_denied(tokens: Sequence[str], place: int) -> bool:
    """Return whether a relationship is denied: "do *not* own", "*without* being a member"."""
    while place > 1 and tokens[place - 1] in _BEFORE_SAID:
        place -= 1
    return place > 0 and tokens[place - 1] in _DENYING


def is_end(tokens: Sequence[str], name: Collection[int], relations: Iterable[tuple[Label, Occurrence]]) -> bool:
    """Return whether a name is one end of a relationship, and not what narrows the set: "no owner in Beacon".

    Parameters
    ----------
    name
        The positions of its words.
    relations
        The relationships that the question expresses, and where.
    """
    place = _place_before(tokens, name, ARTICLES)
    before = tokens[place] if place > 0 else ""
    return before not in _NARROWING or any(
        before in label_words(label) or place in one.places or (before in _BEHIND and place - 1 in one.places)
        for label, one in relations
    )


def has_conjunction(tokens: Sequence[str], names: Collection[int]) -> bool:
    """Return whether a question joins several things: names, relationships, or two questions.

    Parameters
    ----------
    names
        The positions of the words of its names.
    """
    return any(token in _CONJUNCTIONS for place, token in enumerate(tokens) if place not in names)


def says_more(
    tokens: Sequence[str],
    names: Collection[Collection[int]],
    said: Collection[int],
    nouns: Collection[int],
    *,
    denied: bool,
) -> bool:
    """Return whether a question says what no relationship of its names expresses, or is two questions.

    That something is not there ("… have no tickets"), or is there ("… have tickets"), that it is so with all of
    something ("Who owns all services that …"), or that a name is left out ("… other than Atlas").

    Parameters
    ----------
    names
        The positions of the words of each name.
    said
        The positions of the words for its relationships.
    nouns
        Those of the words for types.
    denied
        Whether it asks for what is not related.
    """
    named = {place for name in names for place in name}
    rest = [place for place in range(len(tokens)) if place not in named]
    asks = not ASKING.isdisjoint(tokens[:2])
    return (
        (not denied and any(tokens[place] in _NONE for place in rest))
        or any(tokens[place] in _ALL and place > min(said, default=place) for place in rest)
        or any(tokens[place] in _HAVING and place + 1 in nouns and place + 1 not in said for place in rest)
        or (asks and any(tokens[place] in {"and", "or"} and _asks(tokens[place + 1 : place + 3]) for place in rest))
        or any(_is_left_out(tokens, min(name)) for name in names)
    )


def _asks(following: Sequence[str]) -> bool:
    """Return whether words begin a question: "who …", "in which …"."""
    return not ASKING.isdisjoint(following[:2] if _NARROWING.issuperset(following[:1]) else following[:1])


def _is_left_out(tokens: Sequence[str], name: int) -> bool:
    """Return whether the words before a name leave it out: "other than Atlas", "anything but Atlas"."""
    before = list(tokens[:name])
    while before and before[-1] in ARTICLES | _NARROWING - {"from"}:
        before.pop()
    last, further = before[-1:], before[-2:-1]
    return not _EXCEPT.isdisjoint(last) or any(
        last == [word] and not _BEFORE[word].isdisjoint(further) for word in _BEFORE
    )


def who_is_in(tokens: Sequence[str]) -> frozenset[str]:
    """Return the nouns for what those are in who are asked for: "Who is on the *team* that …?" asks for no team."""
    if tokens[:1] != ["who"]:
        return frozenset()
    return frozenset(
        noun
        for before, article, noun in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if article in ARTICLES and before in {"in", "on", "at", "for", "from"}
    )
