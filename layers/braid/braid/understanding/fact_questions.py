"""Detects which of the tenant's relationship types a question asks for, and the entity type and number of answers."""

from __future__ import annotations

import heapq
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from braid.models import MENTIONS, Asked, FactQuestion, Intent
from braid.models.records import DOCUMENT_TYPE
from braid.understanding.intent import CAUSAL_TYPES, TEMPORAL_TYPES, detect_intent, moments
from braid.understanding.multi_hop import label_words, singular
from braid.understanding.question_relations import (
    AUXILIARY,
    EMPTY,
    MAX_WORDS,
    NOW,
    QuestionWords,
    base_form,
    said_by_preposition,
)
from braid.understanding.tokens import STOP_WORDS, occurrences, word_set, words

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from braid.models import Label
    from braid.ports.knowledge_graph import GraphStats
    from braid.understanding.question_relations import Occurrence

MAX_TYPES: Final = 32
"""Relationship types that are looked up at once."""
MAX_LABELS: Final = 200
"""Number of relationship types, and of entity types, that a question is compared with: the most frequent ones."""
MAX_OF_A_KIND: Final = 199
"""Most entities of a type that are looked up as a set: all of them, or those *without* a relationship."""
MAX_VERTICES: Final = 100_000
"""Most vertices of a graph in which all entities of a type are looked up: an engine may read the type of each."""

_KINDS: Final = tuple(
    word_set(group)
    for group in (
        "person people man woman employee engineer colleague user human agent",
        "organization organisation company team group firm vendor supplier customer department squad club agency",
        "place location city country state region town site",
        "service system application app",
        "code function class method",
        "event incident outage",
        "document page",
    )
)
"""Groups of nouns for entities of one kind; an entity type belongs to the group that has a word of its name."""
_WHO: Final = _KINDS[0] | _KINDS[1]
_PERSON: Final = _KINDS[0]
_OF_A_PERSON: Final = ("er", "or", "ist", "ian")
"""Endings of nouns for persons: actor, pianist, librarian."""
_ANYTHING: Final = word_set("thing item one entity object element component part resource asset node neighbour kind")
"""Nouns for entities of any type."""
ASKING: Final = word_set("which what who whom whose where")
_SET_WORDS: Final = word_set(
    "please list show name give tell all every any each me us number count how many everything"
)
_COUNT: Final = re.compile(r"\b(?:how many|number of|count)\b", re.IGNORECASE)
_NOT: Final = re.compile(r"\b(?:not|never|neither)\b|n['’]t\b", re.IGNORECASE)
_EXIST: Final = re.compile(r"\b(?:are there|there are|do we have|exists?|what are)\b", re.IGNORECASE)
_WHOLE: Final = word_set("all every each show count number our")
"""Words before the noun of a set: "show me all the *services*"."""
_NONE: Final = word_set("no without nobody none nothing lack lacks")
_NAMELESS: Final = _NONE | word_set("anyone anybody anything one exist exists there have we our")
"""Words of questions for a set of entities that need no explanation by a relationship."""
_NOT_NARROWING: Final = word_set(
    "different distinct various individual single existing following total two three four five six seven eight nine ten"
)
"""Words before the noun of a set that leave nothing of it out."""
_NO_NOUNS: Final = ASKING | _SET_WORDS | _NAMELESS | STOP_WORDS
_PAST: Final = re.compile(r"\b(?:did|was|were)\b|\b(?:has|have)\b.*ed today\b", re.IGNORECASE)
_YEARS: Final = re.compile(r"(?<!\d)\d{4}(?!\d)")
_ALL: Final = re.compile(
    r"^\s*(?:please\s+)?(?:list|show|name|give)\b|\b(?:all|every|everything|each)\b", re.IGNORECASE
)


def read_fact_question(
    text: str, stats: GraphStats, intent: Intent, *, as_of: datetime | None = None
) -> tuple[FactQuestion | None, str | None]:
    """Return the relationships that a question asks for, and a reason for the plan; either may be None.

    Parameters
    ----------
    stats
        The tenant's counts, whose labels are the vocabulary.
    intent
        The question's intent: causal and temporal questions are answered by walks instead.
    as_of
        The question's ``as_of``: a question that is temporal only because of a date (of that year, if it has a
        year) is then about facts as well.
    """
    labels = [
        label
        for label in _commonest(stats.by_relationship_type)
        if label not in (MENTIONS, *CAUSAL_TYPES, *TEMPORAL_TYPES)
    ]
    kind_words = _kind_words(labels, stats)
    question = QuestionWords(text, kind_words)
    stated = _times_in_year_of(as_of, text) if as_of else []
    if not labels or len(question.tokens) > MAX_WORDS or _is_for_walks(text, intent, stated):
        return None, None
    said = {label: question.said(label_words(label), ()) for label in labels}
    kinds, explained, only_kinds, narrowed = _kinds(question, stats, said)
    dated = {
        begin + place
        for phrase in map(words, stated)
        for begin in occurrences(phrase, question.tokens)
        for place in range(len(phrase))
    }
    explained |= dated
    said = {label: question.said(label_words(label), explained) for label in labels}
    named = [label for label in labels if said[label]]
    if not named and kinds:
        named = [label for label in labels if said_by_preposition(question, label_words(label)) is not None]
    asked = _asked(text)
    if kinds and any(question.tokens[min(one.places) - 1] == "no" for label in named for one in said[label]):
        asked = Asked.NOT  # "Which services have no dependency on Atlas?"
    if asked is Asked.NOT:
        size = sum(stats.by_entity_type.get(kind, 0) for kind in kinds)
        if not kinds or not named or size > MAX_OF_A_KIND:
            why = f"{size:,} are more than {MAX_OF_A_KIND}" if kinds and named else "it names no kind and relationship"
            return FactQuestion(asked=asked), f"facts: what does not stand in a relation was not looked up, as {why}"
    by_count = sorted(labels, key=lambda label: (-stats.by_relationship_type[label], label))
    others = [label for label in by_count if label not in named]
    types = named[:MAX_TYPES]
    places = {place for label in types for one in said[label] for place in one.places}
    return FactQuestion(
        asked=asked,
        kinds=tuple(kinds),
        only_kinds=only_kinds,
        narrowed=narrowed,
        types=tuple(types),
        others=tuple(others[: MAX_TYPES - len(types)]),
        kind_words=tuple(sorted(kind_words)),
        explained=tuple(sorted(explained)),
        anything=stats.records == 0 and asked is Asked.ONE and not types,
        of_type=_of_type(question, asked, kinds, explained, places, dated=dated, types=stats.by_entity_type)
        if _are_few(kinds, stats)
        else None,
    ), (f"facts: the question says {' or '.join(types)}" if types else None)


def _kind_words(labels: Collection[Label], stats: GraphStats) -> frozenset[str]:
    """Return the words at the end of these relationship types that only name a kind of entity of the graph.

    They are the name of an entity type, its last word, or a noun of the same group of :data:`_KINDS`; the latter not
    after "of", as HEAD_OF_STATE is no relationship to a state.
    """
    types = [tuple(map(singular, label_words(label))) for label in _commonest(stats.by_entity_type)]
    known = {" ".join(parts) for parts in types} | {parts[-1] for parts in types if parts}
    loose = frozenset[str]().union(*(group for group in _KINDS if any(map(group.intersection, types))))
    found: set[str] = set()
    for label in labels:
        parts = label_words(label)
        ends = {" ".join(map(singular, parts[-size:])) for size in range(1, len(parts))}
        found |= ends & (known if "of" in parts[-2:-1] else known | loose)
    return frozenset(found)


def _heads(said: Mapping[Label, Sequence[Occurrence]]) -> dict[int, bool]:
    """Return the positions of words that express a relationship, each with whether others express all that it does.

    They do in "Which supplier supplies Tidewatch?", so that *supplier* only says what is asked for.
    """
    heads: dict[int, bool] = {}
    for found in said.values():
        places = {min(one.places) for one in found}
        heads |= {place: len(places) > 1 and heads.get(place, True) for place in places}
    return heads


def _commonest(counts: Mapping[Label, int]) -> list[Label]:
    """Return the :data:`MAX_LABELS` labels that the graph has most of, by name."""
    return sorted(heapq.nsmallest(MAX_LABELS, counts, key=lambda label: (-counts[label], label)))


def _times_in_year_of(as_of: datetime, text: str) -> list[str]:
    """Return the words for the times that a question names; none if it names years, and not that of its ``as_of``."""
    named = moments(text)
    years = set(_YEARS.findall(" ".join(named)))
    return named if not years or str(as_of.year) in years else []


def _is_for_walks(text: str, intent: Intent, stated: Sequence[str]) -> bool:
    """Return whether a question is causal or temporal; not if temporal only by a word for today or a stated moment.

    What somebody *did* or *has opened* today, or what *was* done, is another question than what holds today.
    """
    if intent is not Intent.TEMPORAL:
        return intent is Intent.CAUSAL
    for moment in stated:
        text = text.replace(moment, " ")
    if not _PAST.search(text):
        text = re.sub(rf"\b(?:{'|'.join(NOW)})\b", "", text, flags=re.IGNORECASE)
    return detect_intent(text) is Intent.TEMPORAL


def _are_few(kinds: Sequence[Label], stats: GraphStats) -> bool:
    """Return whether a question asks for types, other than that of texts, whose entities can be looked up."""
    if not kinds or DOCUMENT_TYPE in kinds or stats.vertices > MAX_VERTICES:
        return False
    return sum(stats.by_entity_type.get(kind, 0) for kind in kinds) <= MAX_OF_A_KIND


def _of_type(
    question: QuestionWords,
    asked: Asked,
    kinds: Sequence[Label],
    explained: Collection[int],
    places: Collection[int],
    *,
    dated: Collection[int],
    types: Collection[Label],
) -> Asked | None:
    """Return which set of all entities of a type a question asks for if it names none; None if it asks for no such set.

    "How many services are there?", "Which services have no owner?" and "Who has no manager?" do. Each of the question's
    words must be explained, and the noun must be the type's own name: incidents are not all of the type Event.

    Parameters
    ----------
    kinds
        The types.
    places
        Positions of the words that express the relationships.
    dated
        Positions, of those explained, of the words that repeat the question's ``as_of``.
    types
        All entity types.
    """
    tokens = question.tokens
    other = other_end(question, explained)
    if other is not None and not any(is_named_by(label, tokens[other]) for label in types):
        return None
    said = {tokens[place] for place in explained if place not in {*dated, other} and tokens[place] not in _NO_NOUNS}
    nouns = {singular(base_form(noun)) for noun in said}
    is_who = tokens[0] == "who" and not nouns
    if not is_who and not (len(kinds) == len(nouns) == 1 and is_named_by(kinds[0], *nouns)):
        return None
    if any(tokens[one] not in _NAMELESS for one in question.content({*explained, *places})):
        return None
    if asked is Asked.NOT or not _NONE.isdisjoint(tokens):
        return Asked.NOT if places else None
    if places or is_who:
        return None
    if asked is Asked.ONE:
        return Asked.ALL if _EXIST.search(question.text) else None
    return asked


def other_end(question: QuestionWords, explained: Collection[int]) -> int | None:
    """Return the position of the noun for what something is not related to: "no *team*" in "Which services does no …".

    None if there is no such noun, as in "Which services have no owner?", or if it is the only one of a question that
    does not ask who.

    Parameters
    ----------
    explained
        Positions of the words that name a type or that ask for a set.
    """
    tokens = question.tokens
    nouns = [place for place in sorted(explained) if tokens[place] not in _NO_NOUNS]
    if len(nouns) + (tokens[:1] == ["who"]) < 2:  # noqa: PLR2004 - what is asked for, and the other end
        return None
    return next((place for word in ("no", "any") for place in nouns if place and tokens[place - 1] == word), None)


def is_named_by(label: Label, noun: str) -> bool:
    """Return whether a noun is an entity type's own name, in the singular or plural."""
    return singular(base_form(noun)) == "".join(map(singular, label_words(label)))


def _asked(text: str) -> Asked:
    if _NOT.search(text):
        return Asked.NOT
    if _COUNT.search(text):
        return Asked.COUNT
    return Asked.ALL if _ALL.search(text) else Asked.ONE


class _Kinds(NamedTuple):
    """What a question says of the type of its answers."""

    kinds: list[Label]
    """The entity types; empty means any."""
    explained: set[int]
    """Positions of the words that say it, or that ask for a set."""
    only: bool = False
    """Whether no other type may answer."""
    narrowed: bool = False
    """Whether a word before the noun leaves some of them out: "*open* tickets"."""


def _kinds(question: QuestionWords, stats: GraphStats, said: Mapping[Label, Sequence[Occurrence]]) -> _Kinds:
    """Return what a question says of the type of its answers.

    A word that expresses a relationship is not read as a noun, unless other words express it too, the question says
    nothing else, or the noun only says what is related otherwise: "What calls Fairlead?" does not ask for calls, but
    "List all suppliers" and "Which suppliers depend on Atlas?" ask for suppliers.

    Parameters
    ----------
    said
        Where the question expresses each relationship type.
    """
    tokens, heads = question.tokens, _heads(said)
    types = {label: tuple(map(singular, label_words(label))) for label in _commonest(stats.by_entity_type)}
    explained = {
        place
        for place, token in enumerate(tokens)
        if token in ASKING or token in _SET_WORDS or (place not in heads and _of_kind(token, types))
    }
    noun = next((place for place in sorted(explained) if place and tokens[place - 1] in ASKING), None)
    noun = _noun(tokens) if noun is None or tokens[noun] in ASKING else noun
    noun = _noun_of_a_set(tokens, types) if noun is None else noun
    if noun is not None and tokens[noun] in NOW and heads.keys() & {noun + 1}:
        noun += 1  # the "current *owner*" is what holds now, but "current *services*" are not all that there are
    if noun is not None and noun in heads:
        others = {tokens[place] for place in question.content({*explained, noun})}
        alone = others <= _NAMELESS - _NONE
        is_end = _is_end(question, noun, said)
        if heads[noun] or (_exactly(tokens[noun], types) and (alone or is_end)):
            explained.add(noun)
        elif is_end and noun + 1 < len(tokens) and _exactly(tokens[noun + 1], types):
            explained |= {noun, noun + 1}  # "How many *opened tickets* are about Atlas?"
    if noun is not None and (noun in explained or noun not in heads):
        explained.add(noun)
        # "Which *service families* …" asks for families.
        is_compound = noun + 1 in explained and bool(_exactly(tokens[noun + 1], types))
        kinds = [] if is_compound else _of_kind(tokens[noun], types)
        if kinds or tokens[0] not in {"who", "whom"}:
            return _Kinds(kinds, explained) if kinds else _of_unknown(question, noun, types, explained, heads)
    if {"who", "whom"}.intersection(tokens):
        return _Kinds([label for label, parts in types.items() if _WHO.intersection(parts)], explained)
    return _Kinds([], explained)


def _is_end(question: QuestionWords, noun: int, said: Mapping[Label, Sequence[Occurrence]]) -> bool:
    """Return whether other words say how the noun's entities are related, so that it only names one end of that.

    In "Which suppliers does Atlas have?", "List all suppliers of what Atlas owns" and "Which suppliers are there for …"
    the noun is itself the relationship.
    """
    following = question.tokens[noun + 1 : noun + 3]
    if following[:1] == ["of"] or "there" in following or question.is_had(noun):
        return False
    return any(one.places != {noun} for found in said.values() for one in found)


def _of_unknown(
    question: QuestionWords,
    noun: int,
    types: Mapping[Label, tuple[str, ...]],
    explained: set[int],
    heads: Mapping[int, bool],
) -> _Kinds:
    """Return what :func:`_kinds` does for a noun that names no type of the graph, or for a word before the noun.

    "Which payment *services*" asks for some of the services, or for all of the type PaymentService; an *actor* is a
    person, an *item* may be anything, and *laptops* are nothing that the graph has a type for. Nouns of :data:`_KINDS`
    are used loosely: sites may be organisations.
    """
    tokens = question.tokens
    one = singular(base_form(tokens[noun]))
    if noun + 1 in explained and (kinds := _of_kind(tokens[noun + 1], types)):
        if named := [kind for kind in kinds if one in types[kind]]:
            return _Kinds(named, explained)
        # "Dependent" in "Which dependent services depend on Atlas?" says nothing more.
        return _Kinds(kinds, explained, narrowed=tokens[noun] not in _NOT_NARROWING and not heads.get(noun))
    if one in _ANYTHING or any(one in group for group in _KINDS):
        return _Kinds([], explained)
    persons = [label for label, parts in types.items() if one.endswith(_OF_A_PERSON) and _PERSON.intersection(parts)]
    return _Kinds(persons, explained, only=True)


def _noun(tokens: Sequence[str]) -> int | None:
    """Return the position of the noun that names the requested type: "which *services*", "how many *people*"."""
    start = next(
        (place for place, token in enumerate(tokens) if token in {"which", "what", "many", "list", "number"}), None
    )
    if start is None:
        if tokens[1:2] == ["without"] or tokens[1:3] == ["with", "no"]:  # "services without an owner"
            return 0
        if tokens[1:2] != ["there"]:  # "are there services …"
            return None
        start = 1
    place = start + 1
    while place < len(tokens) and (tokens[place] in _SET_WORDS or tokens[place] in {"the", "of", "a", "an"}):
        place += 1
    if place >= len(tokens) or tokens[place] in STOP_WORDS | EMPTY:
        return None
    # After "what" a word is a noun only before an auxiliary: "What club does …", but not "What happened to …".
    return place if tokens[start] != "what" or AUXILIARY.issuperset(tokens[place + 1 : place + 2]) else None


def _noun_of_a_set(tokens: Sequence[str], types: Mapping[Label, tuple[str, ...]]) -> int | None:
    """Return the position of a type's name behind a word of :data:`_WHOLE`, or in "What are the services?".

    Or at the beginning of "Services of the Till team" and "Services that nobody owns". Of a word before it, as in "all
    open tickets", that word's.
    """
    if tokens[1:2] in (["of"], ["that"]) and _exactly(tokens[0], types):
        return 0
    for start, token in enumerate(tokens):
        if token in _WHOLE or (start == 1 and list(tokens[:2]) == ["what", "are"]):
            place = start + 1
            while place < len(tokens) and (tokens[place] in _SET_WORDS or tokens[place] in {"the", "of", "our"}):
                place += 1
            if any(_exactly(token, types) for token in tokens[place : place + 2] if token not in STOP_WORDS):
                return place
    return None


def _of_kind(noun: str, types: Mapping[Label, tuple[str, ...]]) -> list[Label]:
    """Return the entity types that a noun names: the type of this name, else the types in its group of nouns."""
    one = singular(base_form(noun))
    group = next((group for group in _KINDS if one in group), frozenset())
    return _exactly(noun, types) or [label for label, parts in types.items() if group.intersection(parts)]


def _exactly(noun: str, types: Mapping[Label, tuple[str, ...]]) -> list[Label]:
    one = singular(base_form(noun))
    return [label for label, parts in types.items() if one == "".join(parts)]
