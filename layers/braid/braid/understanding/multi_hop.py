"""Parses a multi-hop question into steps, by the tenant's own labels.

"Patterns used by implementations of functions similar to X" is a chain of entity types with relationships between them.
Its words are compared with the labels of the graph, by their stems and without synonyms. A question with any word that
does not fit has no steps and is answered like any other, because a wrong chain is worse than none. Chains of two
relationships, also by synonyms, are answered as facts, by ``fact_lookup``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from braid.models import MENTIONS, Direction, Label, PlanStep, StepOperation
from braid.understanding.tokens import word_set, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from braid.ports.knowledge_graph import GraphStats

MAX_RELATIONS: Final = 4
MAX_NAME_WORDS: Final = 8
SEARCH_LIMIT: Final = 10
STEP_LIMIT: Final = 50
MAX_STEMMED: Final = 80
"""Longest word that is stemmed, in characters: a label has at most 64, and no inflection of its words is longer."""

_ARTICLES: Final = word_set("the a an all any")
BEING: Final = word_set("is are was were be been being")
_OPENERS: Final = _ARTICLES | BEING | word_set("which what who find list show tell give name me us")
_GLUE: Final = _ARTICLES | BEING | word_set("that which who have has had do does")
_DETERMINERS: Final = _ARTICLES | word_set("our these those its their")
_PREPOSITIONS: Final = word_set("on upon of to in at by for with from into")
_NO_NAME: Final = _GLUE | _PREPOSITIONS | word_set("and or not but when where why how than as")
_OBJECT_NOUN: Final = ("ency", "encies")
_SUBJECT_NOUN: Final = ("er", "ers", "or", "ors", "ation", "ations", "ent", "ents", "ant", "ants")
_SUFFIX: Final = re.compile(r"(?<=..)(?:ations?|enc(?:y|ies)|ents?|ants?|ers?|ors?|ings?|ies|ied|ed|es|s|e)$")
_CAMEL: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass(frozen=True)
class Vocabulary:
    """Labels of a graph by their words."""

    entity_types: dict[tuple[str, ...], Label]
    relationships: dict[tuple[str, ...], tuple[Label, ...]]
    """Keys are the stems of a label's words, without the prepositions at its end."""


@dataclass(frozen=True)
class _Relation:
    label: Label
    direction: Direction
    """Direction of the walk, from the phrase after the relationship's words to the phrase before them."""
    end: int


def parse_steps(text: str, stats: GraphStats) -> tuple[PlanStep, ...]:
    """Return the steps of the chain that a question names, first step first; empty if it names none.

    Parameters
    ----------
    text
        The question. Its chain ends in a name, from which the first step walks, or in "similar to …", for which the
        first step searches. It has at least two relationships, or one and the search.
    stats
        The tenant's counts, whose labels are the vocabulary.
    """
    tokens = words(text)
    if len(tokens) > MAX_RELATIONS * 2 * MAX_NAME_WORDS:
        return ()
    reader = _ChainParser(tokens, vocabulary(stats))
    return reader.steps() if reader.read() else ()


def vocabulary(stats: GraphStats) -> Vocabulary:
    """Return the labels of a graph by their words."""
    relationships: dict[tuple[str, ...], tuple[Label, ...]] = {}
    for label in sorted(stats.by_relationship_type):
        parts = label_words(label)
        while len(parts) > 1 and parts[-1] in _PREPOSITIONS:
            parts = parts[:-1]
        key = tuple(map(label_stem, parts))
        relationships[key] = (*relationships.get(key, ()), label)
    types = {tuple(map(singular, label_words(label))): label for label in sorted(stats.by_entity_type)}
    return Vocabulary(types, relationships)


def label_words(label: Label) -> list[str]:
    """Return the words of a label such as ``DEPENDS_ON`` or ``CodeEntity``, in lower case."""
    return [part.lower() for part in _CAMEL.findall(label)]


def singular(word: str) -> str:
    """Return a word without the ending of its plural."""
    if word.endswith("ies") and len(word) > 4:  # noqa: PLR2004 - "ties" and "dies" keep their e
        return f"{word[:-3]}y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def label_stem(word: str) -> str:
    """Return the stem that a verb's inflections and derived nouns share; a very long word as it is.

    It is for labels and questions, which have few words: texts are searched by :func:`braid.understanding.tokens.stem`,
    as words of one such stem would be too many there.
    """
    while len(word) <= MAX_STEMMED:
        shorter = _SUFFIX.sub(lambda found: "i" if found.group() in {"ies", "ied"} else "", word)
        if shorter == word:
            return f"{word[:-1]}i" if word.endswith("y") else word
        word = shorter
    return word


class _ChainParser:
    """Parses one question, from left to right."""

    def __init__(self, tokens: list[str], known: Vocabulary) -> None:
        self.tokens, self.known = tokens, known
        self.at = 0
        self.types: list[Label | None] = []
        """Entity types of the chain, None for any, from left to right; the last is that of the chain's end."""
        self.relations: list[_Relation] = []
        self.similar = False

    def read(self) -> bool:
        """Parse the whole question; return whether it is a chain that is long enough to be walked."""
        self._skip(_OPENERS)
        if not self._end_of_chain():
            return False
        return len(self.relations) + self.similar >= 2 and len(self.relations) in range(1, MAX_RELATIONS + 1)  # noqa: PLR2004 - a chain

    def _end_of_chain(self) -> bool:
        """Parse types and relations up to the end; return whether there is a name or a likeness to begin from."""
        while len(self.relations) <= MAX_RELATIONS:
            noun = self._relation(nouns_only=True)
            kind = self._type()
            self.types.append(kind[0] if kind else None)
            if noun is None and kind:
                self.at = kind[1]
            if noun is None and kind is None and self.relations:
                return self._is_name(self.tokens[self.at :])
            self._skip(_GLUE)
            if self._is_likeness():
                self.similar = True
                return True
            relation = noun or self._relation()
            if relation is None:
                # "the service Keelson": a type before its name
                return bool(self.relations and kind) and self._is_name(self.tokens[self.at :])
            self.relations.append(relation)
            self.at = relation.end
            self._skip(_DETERMINERS)
        return False

    def _skip(self, skipped: frozenset[str]) -> None:
        while self.at < len(self.tokens) and self.tokens[self.at] in skipped:
            self.at += 1

    def _type(self) -> tuple[Label, int] | None:
        for size in (3, 2, 1):
            run = tuple(map(singular, self.tokens[self.at : self.at + size]))
            if len(run) == size and run in self.known.entity_types:
                return self.known.entity_types[run], self.at + size
        return None

    def _relation(self, *, nouns_only: bool = False) -> _Relation | None:
        for size in (3, 2, 1):
            run = self.tokens[self.at : self.at + size]
            labels = self.known.relationships.get(tuple(map(label_stem, run)), ())
            if len(run) == size and len(labels) == 1:
                return self._form(labels[0], run[-1], self.at + size, nouns_only=nouns_only)
        return None

    def _form(self, label: Label, word: str, end: int, *, nouns_only: bool) -> _Relation | None:
        """Return the relation and its direction, as its word is an active verb, a passive or a noun; else None."""
        prepositions = [part for part in label_words(label) if part in _PREPOSITIONS]
        following = self.tokens[end : end + 2]
        if following[:1] == ["of"] and "of" not in prepositions:
            if word.endswith(_OBJECT_NOUN):
                return _Relation(label, _both_if_mentions(label, Direction.OUT), end + 1)
            if word.endswith(_SUBJECT_NOUN):
                return _Relation(label, _both_if_mentions(label, Direction.IN), end + 1)
            return None
        is_label = singular(word) in map(singular, label_words(label))
        if nouns_only or (word.endswith((*_OBJECT_NOUN, *_SUBJECT_NOUN)) and not is_label):
            return None
        if prepositions:
            if not following or following[0] not in _PREPOSITIONS or following[0] == "by" != prepositions[-1]:
                return None
            end, following = end + 1, following[1:]
        if following[:1] == ["by"] and "by" not in prepositions:
            return _Relation(label, _both_if_mentions(label, Direction.OUT), end + 1)
        return _Relation(label, _both_if_mentions(label, Direction.IN), end)

    def _is_likeness(self) -> bool:
        """Whether the rest begins with "similar to …" or "like …"."""
        rest = self.tokens[self.at :]
        if rest[:2] == ["similar", "to"]:
            return len(rest) > 2  # noqa: PLR2004 - something follows
        return rest[:1] == ["like"] and len(rest) > 1

    def _is_name(self, rest: Sequence[str]) -> bool:
        """Whether the rest can be a name: few words, none of which begins another clause."""
        return 0 < len(rest) <= MAX_NAME_WORDS and not _NO_NAME.intersection(rest)

    def steps(self) -> tuple[PlanStep, ...]:
        """Return the steps of the chain, from its end to its beginning."""
        steps = []
        if self.similar:
            steps.append(
                PlanStep(operation=StepOperation.SEARCH, entity_types=_one(self.types[-1]), limit=SEARCH_LIMIT)
            )
        for relation, kind in zip(reversed(self.relations), reversed(self.types[: len(self.relations)]), strict=True):
            steps.append(
                PlanStep(
                    operation=StepOperation.EXPAND,
                    entity_types=_one(kind),
                    types=(relation.label,),
                    direction=relation.direction,
                    limit=STEP_LIMIT,
                )
            )
        return tuple(steps)


def describe_steps(steps: Iterable[PlanStep]) -> str:
    """Return steps in a few words, for a plan's reasons."""
    parts = []
    for step in steps:
        kinds = " or ".join(step.entity_types) or "anything"
        if step.operation is StepOperation.SEARCH:
            parts.append(f"search {kinds}")
        else:
            arrow = {Direction.OUT: "{}→", Direction.IN: "←{}", Direction.BOTH: "{}"}[step.direction]
            parts.append(f"{arrow.format(' or '.join(step.types) or 'any')} {kinds}")
    return ", then ".join(parts)


def _one(label: Label | None) -> tuple[Label, ...]:
    return (label,) if label else ()


def _both_if_mentions(label: Label, direction: Direction) -> Direction:
    return Direction.BOTH if label == MENTIONS else direction
