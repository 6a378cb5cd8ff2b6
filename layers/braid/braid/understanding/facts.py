"""Reads which relationships a question asks for, and from which end, in the words of the tenant's labels and predicates.

"Who owns Keelson?" names OWNS and asks from its target; "What is owned by the Platform team?" from its source. Words are
compared by their stems and by a table of synonyms of everyday English, which knows no tenant.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from braid.models import MENTIONS, Asked, FactQuestion, Intent
from braid.understanding.multi_hop import label_words, singular, stem
from braid.understanding.question import CAUSAL_TYPES, TEMPORAL_TYPES, detect_intent
from braid.understanding.tokens import STOP_WORDS, words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from braid.models import Label
    from braid.ports.knowledge_graph import GraphStats

MOST_WORDS: Final = 60
"""Words of a question that is read; facts answer short ones."""
MOST_TYPES: Final = 32
"""Relationship types that are looked up at once."""
MOST_LABELS: Final = 500
"""Labels that a question is compared with."""
MOST_OF_A_KIND: Final = 200
"""Things of a kind among which those are found that do not stand in a relation."""

_SYNONYMS: Final = (
    ("own owner possess hold responsible", "belong property"),
    ("depend dependency rely reliance require need use", ""),
    ("call invoke request", ""),
    ("supply provide deliver furnish sell ship", "receive buy get purchase obtain"),
    ("part belong member component", "contain include consist comprise"),
    ("work develop maintain contribute", ""),
    ("work", "employ hire"),
    ("define definition declare", ""),
    ("locate location situate lie base place stand", ""),
    ("write author", ""),
    ("bear birth birthplace", ""),
    ("die death", ""),
    ("marry marriage wife husband spouse", ""),
    ("mother father parent", "son daughter child"),
    ("found foundation establish create start", ""),
    ("manage lead head run supervise boss chief", "report"),
    ("acquire buy purchase", "sell"),
    ("make produce manufacture build", ""),
    ("implement implementation realise realize", ""),
    ("supersede replace", ""),
    ("relate relation relationship connect connection link associate association tie", ""),
    ("study attend educate graduate", "teach"),
    ("live reside dwell", ""),
    ("join member belong", ""),
    ("border adjoin neighbour surround", ""),
    ("star act appear feature", ""),
)
"""Stems that say a relationship from the same end, and those that say it from the other."""
_IRREGULAR: Final = {
    "wrote": "write", "written": "write", "made": "make", "built": "build", "led": "lead", "held": "hold",
    "bought": "buy", "sold": "sell", "taught": "teach", "won": "win", "ran": "run", "born": "bear", "bore": "bear",
    "began": "begin", "begun": "begin", "gave": "give", "given": "give", "kept": "keep", "sent": "send", "got": "get",
    "lay": "lie", "lain": "lie", "stood": "stand", "wives": "wife", "children": "child", "people": "person",
}  # fmt: skip
_KINDS: Final = tuple(
    frozenset(group.split())
    for group in (
        "person people man woman employee engineer colleague user human",
        "organization organisation company team group firm vendor supplier customer department squad club agency",
        "place location city country state region town site",
        "service system application app",
        "code function class method",
        "event incident outage",
        "document page",
    )
)
"""Nouns for things of one kind, one of which is an entity type's."""
_WHO: Final = _KINDS[0] | _KINDS[1]
_BEING: Final = frozenset("is are was were be been being".split())
_AUXILIARY: Final = _BEING | frozenset("do does did has have had can could will would may might must should".split())
_PREPOSITIONS: Final = frozenset("on upon of to in into at by for with from as".split())
_EMPTY: Final = _AUXILIARY | _PREPOSITIONS | {"a", "an", "the"}
_ASKING: Final = frozenset("which what who whom whose where".split())
_NOW: Final = frozenset("today now currently presently nowadays".split())
_SET_WORDS: Final = frozenset("list show name give tell all every any each me us number count how many everything".split())
_TELLING: Final = frozenset("most first last before after since until during between both without only new".split())
"""Stop words elsewhere that make another question of one about a relationship."""
_AGENT: Final = ("er", "ers", "or", "ors", "ent", "ents", "ant", "ants")
_OBJECT: Final = ("ency", "encies", "ee", "ees")
_COUNT: Final = re.compile(r"\b(?:how many|number of|count)\b", re.IGNORECASE)
_NOT: Final = re.compile(r"\b(?:not|never)\b|n['’]t\b", re.IGNORECASE)
_ALL: Final = re.compile(r"^\s*(?:list|show|name|give)\b|\b(?:all|every|everything|each)\b", re.IGNORECASE)
_POSSESSED: Final = re.compile(r"['’]s?\s+(\w+)")


def _key(word: str) -> str:
    """Return the stem by which words are compared, doubled consonants at its end made one."""
    short = stem(_IRREGULAR.get(word, word))
    return short[:-1] if len(short) > 2 and short[-1] == short[-2] else short  # noqa: PLR2004 - "ee" stays


_MEANINGS: Final[dict[str, frozenset[tuple[int, bool]]]] = {}
for _place, _sides in enumerate(_SYNONYMS):
    for _converse, _side in zip((False, True), _sides, strict=True):
        for _word in _side.split():
            _MEANINGS[_key(_word)] = _MEANINGS.get(_key(_word), frozenset()) | {(_place, _converse)}
_RELATED: Final = next(place for place, (same, _) in enumerate(_SYNONYMS) if same.startswith("relate"))
SYNONYM: Final = 0.95
"""Factor of a relationship that is said by a synonym."""


class Said(NamedTuple):
    """Words of a question that say a relationship."""

    places: frozenset[int]
    quality: float
    inward_before: bool
    """Whether the edge is walked against its direction from a name that stands before the words."""
    inward_after: bool

    def inward(self, place: int) -> bool:
        """Return which way the edge is walked from what stands at a place of the question."""
        return self.inward_before if place < min(self.places) else self.inward_after


def is_symmetric(parts: Sequence[str]) -> bool:
    """Return whether a label says no more than that two things are related, so that its direction says nothing."""
    content = _content(parts)
    return bool(content) and all((_RELATED, False) in _MEANINGS.get(_key(part), ()) for part in content)


@dataclass(frozen=True)
class Reading:
    """The words of one question."""

    text: str

    @cached_property
    def tokens(self) -> list[str]:
        """The words, normalised."""
        return words(self.text)[: MOST_WORDS + 1]

    @cached_property
    def keys(self) -> list[str]:
        """The stem of each word."""
        return [_key(token) for token in self.tokens]

    @cached_property
    def _possessed(self) -> frozenset[str]:
        return frozenset(word for found in _POSSESSED.findall(self.text) for word in words(found))

    def content(self, passed: Collection[int]) -> set[int]:
        """Return the places of the words that an answer has to explain, without those that are explained."""
        return {
            place
            for place, token in enumerate(self.tokens)
            if place not in passed and token not in _NOW and (token not in STOP_WORDS or token in _TELLING)
        } - {place for place, token in enumerate(self.tokens) if token in {"don", "doesn", "t", "not", "never"}}

    def places_of(self, parts: Iterable[str], passed: Collection[int]) -> set[int]:
        """Return the places of words that have the stem of one of these."""
        wanted = {_key(part) for part in parts}
        return {place for place, key in enumerate(self.keys) if key in wanted and place not in passed}

    def said(self, parts: Sequence[str], passed: Collection[int]) -> list[Said]:
        """Return where the words of a label or predicate are said, each occurrence of its first word by itself."""
        content = _content(parts)
        matched = [self._matches(part, passed) for part in content]
        found = [places for places in matched if places]
        if not found or 2 * len(found) < len(content):
            return []
        heads, *others = found
        beside = frozenset(place for places in others for place in places)
        return [self._said(parts, place, quality, converse, beside) for place, (quality, converse) in heads.items()]

    def _matches(self, part: str, passed: Collection[int]) -> dict[int, tuple[float, bool]]:
        key = _key(part)
        meanings = _MEANINGS.get(key, frozenset())
        found: dict[int, tuple[float, bool]] = {}
        for place, asked in enumerate(self.keys):
            if place in passed or self.tokens[place] in _EMPTY:
                continue
            if asked == key:
                found[place] = (1.0, False)
            elif shared := {
                side is not other
                for group, side in meanings
                for another, other in _MEANINGS.get(asked, ())
                if group == another
            }:
                found[place] = (SYNONYM, min(shared))
        return found

    def _said(
        self, parts: Sequence[str], place: int, quality: float, converse: bool, beside: frozenset[int]
    ) -> Said:
        """Tell a verb from its passive and from a noun, and so which end of the edge a name is."""
        token, following = self.tokens[place], self.tokens[place + 1 : place + 3]
        own = {singular(part) for part in parts}
        possessed = token in self._possessed
        as_noun = possessed or following[:1] == ["of"] or self.tokens[place - 1 : place] in (["the"], ["an"], ["a"])
        passive = "by" in following or (
            "by" in (self.tokens[0], self.tokens[-1]) and bool(_BEING.intersection(self.tokens[:place]))
        )
        if passive:
            acts_before, acts_after = False, True
        elif as_noun and token.endswith(_OBJECT) and singular(token) not in own:
            acts_before, acts_after = True, True
        elif possessed or (as_noun and token.endswith(_AGENT) and singular(token) not in own):
            acts_before, acts_after = False, False
        else:
            acts_before, acts_after = True, False
        # Of an edge that says what is done to its source, such as DIRECTED_BY, who acts is the target.
        turned = converse is not _is_passive(parts)
        return Said(beside | {place}, quality, acts_before is turned, acts_after is turned)


def _content(parts: Sequence[str]) -> list[str]:
    return [part for part in parts if part not in _EMPTY]


def _is_passive(parts: Sequence[str]) -> bool:
    """Return whether an edge says what is done to its source, or what something of its source is: MOTHER, HAS_PART."""
    if "by" in parts[1:] or parts[:1] in (["has"], ["have"], ["had"]):
        return True
    if "of" in parts[1:-1]:
        return True
    alone = len(parts) == 1 and not parts[0].endswith("s")
    return alone and (parts[0].endswith((*_AGENT, *_OBJECT, "place", "ship")) or parts[0] in _NOUNS)


_NOUNS: Final = frozenset("spouse wife husband child son sibling country capital city location place".split())


def read_facts(text: str, stats: GraphStats, intent: Intent) -> tuple[FactQuestion | None, str | None]:
    """Return which relationships a question asks for, None where none, and a reason for the plan.

    Parameters
    ----------
    stats
        The tenant's counts, whose labels are the vocabulary.
    intent
        What the question wants to know: causes and times are answered by walks.
    """
    reading = Reading(text)
    labels = [
        label
        for label in sorted(stats.by_relationship_type)[:MOST_LABELS]
        if label not in (MENTIONS, *CAUSAL_TYPES, *TEMPORAL_TYPES)
    ]
    if not labels or len(reading.tokens) > MOST_WORDS:
        return None, None
    asked = _asked(text)
    if intent is Intent.TEMPORAL:
        timeless = re.sub(rf"\b(?:{'|'.join(_NOW)})\b", "", text, flags=re.IGNORECASE)
        if detect_intent(timeless) is Intent.TEMPORAL:
            return None, None
    elif intent is Intent.CAUSAL:
        return None, None
    heads = {min(said.places) for label in labels for said in reading.said(label_words(label), ())}
    kinds, explained = _kinds(reading, stats, heads)
    named = [label for label in labels if reading.said(label_words(label), explained)]
    if not named:
        named = [label for label in labels if _loosely(reading, label_words(label)) is not None]
    by_count = sorted(labels, key=lambda label: (-stats.by_relationship_type[label], label))
    others = [label for label in by_count if label not in named]
    anything = stats.records == 0
    if asked is Asked.NOT:
        size = sum(stats.by_entity_type.get(kind, 0) for kind in kinds)
        if not kinds or not named or size > MOST_OF_A_KIND:
            why = f"{size:,} are more than {MOST_OF_A_KIND}" if kinds and named else "it names no kind and relationship"
            return FactQuestion(asked=asked), f"facts: what does not stand in a relation was not looked up, as {why}"
    return FactQuestion(
        asked=asked,
        kinds=tuple(kinds),
        types=tuple(named[:MOST_TYPES]),
        others=tuple(others[: MOST_TYPES - len(named[:MOST_TYPES])]),
        explained=tuple(sorted(explained)),
        anything=anything,
    ), (f"facts: the question says {' or '.join(named[:MOST_TYPES])}" if named else None)


def _asked(text: str) -> Asked:
    if _COUNT.search(text):
        return Asked.COUNT
    if _NOT.search(text):
        return Asked.NOT
    return Asked.ALL if _ALL.search(text) else Asked.ONE


def _kinds(reading: Reading, stats: GraphStats, heads: Collection[int]) -> tuple[list[Label], set[int]]:
    """Return the entity types that a question asks for, and the places of the words that say so.

    Parameters
    ----------
    heads
        Places of words that say a relationship: "What calls Fairlead?" asks for no calls.
    """
    tokens = reading.tokens
    types = sorted(stats.by_entity_type)
    explained = {
        place
        for place, token in enumerate(tokens)
        if token in _ASKING or token in _SET_WORDS or _of_kind({token}, types, exactly=True)
    }
    noun = _noun(tokens)
    if noun is not None and (noun in explained or noun not in heads):
        explained.add(noun)
        kinds = _of_kind({tokens[noun]}, types, exactly=True) or _of_kind({tokens[noun]}, types)
        if kinds or tokens[0] not in {"who", "whom"}:
            return kinds, explained
    if {"who", "whom"}.intersection(tokens):
        return [one for one in types if _WHO.intersection(map(singular, label_words(one)))], explained
    return [], explained


def _noun(tokens: Sequence[str]) -> int | None:
    """Return the place of the noun that is asked for: of "which services", "how many people", "list all teams"."""
    start = next(
        (place for place, token in enumerate(tokens) if token in {"which", "what", "many", "list", "number"}), None
    )
    if start is None:
        return None
    place = start + 1
    while place < len(tokens) and (tokens[place] in _SET_WORDS or tokens[place] in {"the", "of"}):
        place += 1
    return place if place < len(tokens) and tokens[place] not in STOP_WORDS | _EMPTY else None


def _of_kind(nouns: Collection[str], types: Sequence[Label], *, exactly: bool = False) -> list[Label]:
    """Return the entity types that nouns stand for: by a label's own words, else by a noun of the same kind."""
    singulars = {singular(_IRREGULAR.get(noun, noun)) for noun in nouns}
    if exactly:
        return [label for label in types if singulars & {singular("".join(label_words(label)))}]
    groups = [group for group in _KINDS if group & singulars]
    return [label for label in types if any(group.intersection(map(singular, label_words(label))) for group in groups)]


_MEMBERSHIP: Final = frozenset(
    place for place, (same, _) in enumerate(_SYNONYMS) if same.split()[0] in {"part", "locate", "join"}
)


def _loosely(reading: Reading, parts: Sequence[str]) -> Said | None:
    """Return where a membership is said by a preposition alone: "people in the Till team"."""
    content = _content(parts)
    if not content or not _MEMBERSHIP & {group for group, side in _MEANINGS.get(_key(content[0]), ()) if not side}:
        return None
    place = next((at for at, token in enumerate(reading.tokens) if at and token in {"in", "of", "at", "on"}), None)
    return None if place is None else Said(frozenset({place}), SYNONYM, inward_before=False, inward_after=True)


def said_by(reading: Reading, label: Label, passed: Collection[int]) -> list[Said]:
    """Return where a question says a relationship type; a membership by a preposition where by nothing else."""
    parts = label_words(label)
    found = reading.said(parts, passed)
    if found:
        return found
    loose = _loosely(reading, parts)
    return [] if loose is None or reading.content(passed) else [loose]


def sentence(source: str, label: Label, target: str, predicate: str = "") -> str:
    """Return a relationship as a sentence without its full stop, source first: "Platform team owns Keelson"."""
    parts = label_words(label)
    if predicate and is_symmetric(parts):
        return f"{source} {predicate} {target}"
    said = " ".join(parts)
    if is_symmetric(parts) or parts[-1:] == ["of"] or (parts[0].endswith("ed") and parts[0] != "need"):
        said = f"is {said if parts[-1] in _PREPOSITIONS else f'{said} to'}" if parts[0] not in _EMPTY else said
    elif _is_passive(parts) and parts[0] not in _EMPTY and "by" not in parts:
        said = f"has {said}"
    return f"{source} {said} {target}{f' ({predicate})' if predicate else ''}"
