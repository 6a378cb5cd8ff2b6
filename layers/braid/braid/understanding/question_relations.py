"""Matches a question's words with relationship types and predicates, and determines the direction of the walk.

"Who owns Keelson?" walks OWNS from its target; "What is owned by the Platform team?" from its source. Words are
compared by their stems and by a table of synonyms of everyday English, the same for all tenants. ``sentence`` writes an
edge as a sentence.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property, lru_cache
from itertools import starmap
from typing import TYPE_CHECKING, Final, NamedTuple

from braid.models import MENTIONS
from braid.understanding.multi_hop import BEING, label_stem, label_words, singular
from braid.understanding.tokens import STOP_WORDS, word_set, words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from braid.models import GraphHit, Label

MAX_WORDS: Final = 60
"""Most words of a question that facts can answer."""

MAX_PREDICATE_WORDS: Final = 32
"""Most words of a predicate that are compared with a question's, each with each."""


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
"""Groups of words that express one relationship from the same end, and words that express it from the other end."""
_IRREGULAR: Final = {
    "wrote": "write", "written": "write", "made": "make", "built": "build", "led": "lead", "held": "hold",
    "bought": "buy", "sold": "sell", "taught": "teach", "won": "win", "ran": "run", "born": "bear", "bore": "bear",
    "began": "begin", "begun": "begin", "gave": "give", "given": "give", "kept": "keep", "sent": "send", "got": "get",
    "lay": "lie", "lain": "lie", "stood": "stand", "wives": "wife", "children": "child", "people": "person",
}  # fmt: skip
AUXILIARY: Final = BEING | word_set("do does did has have had can could will would may might must should")
_HAVING: Final = word_set("have has had")
_PREPOSITIONS: Final = word_set("on upon of to in into at by for with from as")
EMPTY: Final = AUXILIARY | _PREPOSITIONS | {"a", "an", "the"}
"""Words of labels and questions that express no relationship by themselves."""
NOW: Final = word_set("today now currently presently nowadays current")
_DENYING: Final = word_set("no not never don doesn didn isn aren wasn weren hasn haven t")
_SOUGHT: Final = word_set("who whom whose which where many")
_TELLING: Final = word_set("most first last before after since until during between both without only new")
"""Stop words that change the meaning of a question about a relationship, and must be explained too."""
_LIMITING: Final = word_set("most without only")
"""Those of them without which more would be said than what is asked for."""
_AGENT: Final = ("er", "ers", "or", "ors", "ent", "ents", "ant", "ants")
_AGENTS: Final = word_set("boss bosses chief chiefs")
"""Nouns of the agent that its ending does not show."""
_BEFORE_ROLE: Final = word_set("a an the its their one of")
_NEEDED: Final = word_set("used needed required")
_ADJECTIVES: Final = word_set("open live complete clear correct direct separate empty free secure")
"""Adjectives that are verbs as well, in this form."""
_BEFORE_ADJECTIVE: Final = BEING | word_set("which what the a an all every each many show list count of any no")
_DOING: Final = word_set("""
    need acted appeared belonged competed contributed died graduated happened lived moved occurred participated
    performed played resided served starred studied travelled worked
""")
"""Words in "ed" that are not done to anything: those of ACTED_IN and PLAYED_FOR."""
_OBJECT: Final = ("ency", "encies", "ee", "ees")
_POSSESSED: Final = re.compile(r"['’]s?\s+(\w+)")
_NOUNS: Final = word_set("spouse wife husband child son sibling country capital city location place")


def base_form(word: str) -> str:
    """Return the base form of a word of irregular inflection; any other word as it is."""
    return _IRREGULAR.get(word, word)


@lru_cache(maxsize=4_096)
def _key(word: str) -> str:
    """Return the stem by which words are compared, with one of two equal letters at its end."""
    short = label_stem(_IRREGULAR.get(word, word))
    return short[:-1] if len(short) > 2 and short[-1] == short[-2] else short  # noqa: PLR2004 - "ee" stays


def _meanings() -> dict[str, frozenset[tuple[int, bool]]]:
    """Return the meanings of words by stem: the place in :data:`_SYNONYMS`, and whether it is from the other end."""
    found: defaultdict[str, set[tuple[int, bool]]] = defaultdict(set)
    for place, (same, converse) in enumerate(_SYNONYMS):
        for word in same.split():
            found[_key(word)].add((place, False))
        for word in converse.split():
            found[_key(word)].add((place, True))
    return {stem: frozenset(meanings) for stem, meanings in found.items()}


_MEANINGS: Final = _meanings()
_RELATED: Final = next(place for place, (same, _) in enumerate(_SYNONYMS) if same.startswith("relate"))
SYNONYM: Final = 0.95
"""Score factor of a relationship that is expressed by a synonym."""
OTHER_PREPOSITION: Final = 0.95
"""Score factor of a label whose preposition the question lacks: "Who played Hamlet?" and the label PLAYED_FOR."""


class Side(Enum):
    """The sides of a relationship's words on which a name has a role, such as that of the agent."""

    BEFORE = auto()
    AFTER = auto()
    BOTH = auto()
    NEITHER = auto()


_OTHER_ROLE: Final = {
    Side.BEFORE: Side.AFTER,
    Side.AFTER: Side.BEFORE,
    Side.BOTH: Side.NEITHER,
    Side.NEITHER: Side.BOTH,
}
"""The sides of the object by the sides of the agent, and the reverse."""


class Occurrence(NamedTuple):
    """One occurrence of a relationship in a question's words."""

    places: frozenset[int]
    """Positions of the words."""
    quality: float
    """How well the words match, in (0, 1]."""
    source: Side
    """The sides of the words on which a name is the edge's source."""

    def inward(self, place: int) -> bool:
        """Return whether the edge is walked against its direction from the name at a position of the question."""
        side = Side.BEFORE if place < min(self.places) else Side.AFTER
        return self.source is not side and self.source is not Side.BOTH


def is_symmetric(parts: Sequence[str]) -> bool:
    """Return whether a label means only that two entities are related, so that its direction has no meaning."""
    content = _content(parts)
    return bool(content) and all((_RELATED, False) in _MEANINGS.get(_key(part), ()) for part in content)


def without_kind(parts: Sequence[str], kind_words: Collection[str]) -> Sequence[str]:
    """Return a label's words without those at its end that only name a kind of entity: *affects* of AFFECTS_SERVICE.

    They are left out only behind a verb or a preposition. The noun of MAIN_SUPPLIER or HAS_SERVICE is the relationship.
    """
    for place in range(1, len(parts)):
        before = parts[:place]
        if " ".join(map(singular, parts[place:])) in kind_words and (_has_verb(before) or before[-1] in _PREPOSITIONS):
            return before if _content(before) else parts
    return parts


def _has_verb(parts: Sequence[str]) -> bool:
    """Return whether a label begins with a verb: an inflected one, or the base form of one of a known meaning."""
    first = next(iter(_content(parts)), "")
    known = _key(first) in _MEANINGS and not first.endswith((*_AGENT, *_OBJECT))
    return parts[0] not in _HAVING and (_is_inflected(first) or known)


def _is_inflected(word: str) -> bool:
    """Return whether a label's word is a verb by its form: *affects*, *signed*, *made*."""
    return word in _IRREGULAR or (word.endswith(("s", "ed")) and not word.endswith("ss"))


def tells_direction(parts: Sequence[str]) -> bool:
    """Return whether a label's words show which end is which: those of REPORTS_TO and OWNS do, of MAIN_SUPPLIER not."""
    if is_symmetric(parts) or parts[0] in _HAVING:
        return False
    return parts[-1] in _PREPOSITIONS or any(map(_is_inflected, _content(parts)[:1]))


@dataclass(frozen=True)
class QuestionWords:
    """The words of one question."""

    text: str
    kind_words: frozenset[str] = frozenset()
    """Words at the end of labels that only name a kind of entity, which :meth:`said` ignores: see ``FactQuestion``."""

    @cached_property
    def tokens(self) -> list[str]:
        """The words, normalised."""
        return words(self.text)[: MAX_WORDS + 1]

    @cached_property
    def keys(self) -> list[str]:
        """The stem of each word."""
        return [_key(token) for token in self.tokens]

    @cached_property
    def _possessed(self) -> frozenset[str]:
        return frozenset(word for found in _POSSESSED.findall(self.text) for word in words(found))

    def is_in_words(self, said: Occurrence) -> bool:
        """Return whether a relationship is expressed by more than "of", "in" or "have", which may mean another one."""
        return any(self.tokens[place] not in EMPTY for place in said.places)

    def is_possessed(self, place: int) -> bool:
        """Return whether a word is behind a possessive: "Ada's *services*"."""
        return self.tokens[place] in self._possessed

    def content(self, skipped: Collection[int]) -> set[int]:
        """Return the positions of the words that an answer has to explain.

        Parameters
        ----------
        skipped
            Positions of words that are explained already.
        """
        return {
            place
            for place, token in enumerate(self.tokens)
            if place not in skipped
            and token not in NOW | _DENYING
            and (token not in STOP_WORDS or token in _TELLING or self.tokens[place : place + 2] == ["used", "to"])
        }

    def share_of(self, places: Collection[int], skipped: Collection[int]) -> float:
        """Return the share of the words of :meth:`content` at these positions; 1 if there are no such words.

        0 if a word that limits the answers, such as *only*, is not at them.
        """
        to_explain = self.content(skipped)
        if any(self.tokens[place] in _LIMITING for place in to_explain.difference(places)):
            return 0.0
        return len(to_explain.intersection(places)) / len(to_explain) if to_explain else 1.0

    def places_of(self, parts: Iterable[str], skipped: Collection[int]) -> set[int]:
        """Return the positions of words, apart from those in ``skipped``, that have the stem of one of these."""
        wanted = {_key(part) for part in parts}
        return {place for place, key in enumerate(self.keys) if key in wanted and place not in skipped}

    def said(self, parts: Sequence[str], skipped: Collection[int]) -> list[Occurrence]:
        """Return the occurrences of a label or predicate, one for each place of the first of its words that occurs.

        Empty if the question has less than half of its words, without those that only name a kind of entity.

        Parameters
        ----------
        parts
            The words of the label or predicate.
        skipped
            Positions of words that are not compared.
        """
        parts = without_kind(parts, self.kind_words)
        content = _content(parts)
        matched = [self._matches(part, skipped) for part in content]
        found = [places for places in matched if places]
        if not found or 2 * len(found) < len(content):
            return []
        heads, *others = found
        beside = frozenset(place for places in others for place in places)
        loose = parts[-1] in _PREPOSITIONS and parts[-1] not in (*self.tokens, "by")
        said = []
        for place, (quality, converse) in heads.items():
            agent = self.agent(parts, place, named=place - 1 in skipped)
            # The agent is the edge's target for a passive label, such as DIRECTED_BY, or for a word from the other end.
            source = agent if converse is _is_passive(parts) else _OTHER_ROLE[agent]
            factor = OTHER_PREPOSITION if loose else 1.0
            said.append(Occurrence(beside | {place}, quality * factor, source))
        return said

    def _matches(self, part: str, skipped: Collection[int]) -> dict[int, tuple[float, bool]]:
        """Return the quality of each word that matches one of a label, and whether it matches from the other end."""
        key = _key(part)
        meanings = _MEANINGS.get(key, frozenset())
        found: dict[int, tuple[float, bool]] = {}
        for place, asked in enumerate(self.keys):
            if place in skipped or self.tokens[place] in EMPTY or self._is_purpose(place) or self._is_adjective(place):
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

    def _is_purpose(self, place: int) -> bool:
        """Return whether a word says a purpose or a habit, and no need: "What is Atlas used for?", "used to own"."""
        following = self.tokens[place + 1 :]
        return self.tokens[place] in _NEEDED and (following == ["for"] or following[:1] == ["to"])

    def _is_adjective(self, place: int) -> bool:
        """Return whether a word says how something is, and not what it does: "open tickets", "Is Atlas live?"."""
        is_last = place == len(self.tokens) - 1 and self.tokens[0] in BEING
        before = self.tokens[place - 1 : place]
        return self.tokens[place] in _ADJECTIVES and (is_last or not _BEFORE_ADJECTIVE.isdisjoint(before))

    def agent(self, parts: Sequence[str], place: int, *, named: bool) -> Side:
        """Return the sides of a word on which a name, if there is one, is its agent: the one that owns or depends.

        ``BOTH``: a name on either side is the agent. ``NEITHER``: a name on either side is the object.

        =======================================================  ================================================
        "Atlas owns …"                                           ``BEFORE``
        "… owned by Atlas", "Is Keelson owned?"                  ``AFTER``
        "the owner of Keelson", "Keelson's owner"                ``NEITHER``: the word itself is the agent's
        "the dependencies of Atlas", "Atlas's dependencies",     ``BOTH``: the word itself is that of the object
        "Which dependencies does Atlas have?"
        "Whose owner is Atlas?", "… have Atlas as owner"         ``BOTH``: Atlas is what the word says
        "… have Atlas as dependency"                             ``NEITHER``: the same
        "dependent on Atlas", "has a dependency on Atlas"        ``BEFORE``, as "depends on"
        =======================================================  ================================================

        Parameters
        ----------
        parts
            The words of the label or predicate.
        place
            Position of the word.
        named
            Whether the word before is a name, as in "the Atlas owner", or else not compared.
        """
        token, following = self.tokens[place], self.tokens[place + 1 : place + 3]
        previous = self.tokens[place - 1 : place]
        by_at_an_end = "by" in (self.tokens[0], self.tokens[-1]) and bool(BEING.intersection(self.tokens[:place]))
        if by_at_an_end or "by" in following or self._is_suffered(parts, place):
            return Side.AFTER
        nominal = token.endswith((*_AGENT, *_OBJECT)) or token in _AGENTS
        derived = nominal and singular(token) not in {singular(part) for part in parts}
        if derived and following[:1] in (["on"], ["upon"]) and not token.endswith(("er", "ers", "or", "ors")):
            return Side.BEFORE  # as "depends on"
        if token in _NEEDED and BEING.intersection(self.tokens[:place]):
            return Side.AFTER  # "Where is Atlas used?", but "… are needed for Atlas"
        if derived and self._is_role(place):
            return Side.NEITHER if token.endswith(_OBJECT) else Side.BOTH
        possessed = self.is_possessed(place) or (named and derived and not STOP_WORDS.issuperset(previous))
        introduced = following[:1] == ["of"] or previous in (["the"], ["an"], ["a"], ["no"], ["without"])
        as_noun = possessed or introduced or self.is_had(place)
        if as_noun and derived and token.endswith(_OBJECT):
            return Side.BOTH
        return Side.NEITHER if possessed or (as_noun and derived) else Side.BEFORE

    def _is_suffered(self, parts: Sequence[str], place: int) -> bool:
        """Return whether a question only asks if something was done to a name: "Has Atlas been replaced?".

        Not by the participle of a label that says what is done to its source: "Is Atlas based?" of BASED_IN.
        """
        token = self.tokens[place]
        is_question = self.tokens[0] in BEING or "been" in self.tokens[place - 1 : place]
        done = token.endswith("ed") or base_form(token) != token
        ends = all(token in STOP_WORDS and token not in _PREPOSITIONS for token in self.tokens[place + 1 :])
        is_of_source = token in parts and not _PREPOSITIONS.isdisjoint(parts)
        return is_question and done and ends and not is_of_source

    def _is_role(self, place: int) -> bool:
        """Return whether a word is what the named entity is: "Whose owner is Atlas?", "What is Atlas the owner of?"."""
        previous, following = self.tokens[place - 1 : place], self.tokens[place + 1 : place + 2]
        if previous == ["whose"]:  # "Whose owner is Atlas?", "Whose manager works on …?", but not "Whose owner does …"
            return AUXILIARY.difference(BEING).isdisjoint(following)
        if self.tokens[place + 1 :] == (["of"] if self.tokens[0] != "of" else []):
            return not BEING.isdisjoint(self.tokens[:place])
        while not _BEFORE_ROLE.isdisjoint(previous):
            place -= 1
            previous = self.tokens[place - 1 : place]
        return previous == ["as"] and _PREPOSITIONS.isdisjoint(following)

    def is_had(self, place: int) -> bool:
        """Return whether a word is what something has: "How many owners does Atlas have?", "Does it have owners?"."""
        before = [token for token in self.tokens[:place] if token not in {"any", "some"}]
        if _HAVING.intersection(before[-1:]):
            return True
        asked = bool(before) and before[-1] in {"which", "what", "many"}
        return asked and not _HAVING.isdisjoint((self.tokens[-1], *self.tokens[place + 1 : place + 2]))


def _content(parts: Sequence[str]) -> list[str]:
    return [part for part in dict.fromkeys(parts) if part not in EMPTY]


def _is_passive(parts: Sequence[str]) -> bool:
    """Return whether a label makes its source the object: DIRECTED_BY, HAS_PART, PLACE_OF_BIRTH or MOTHER."""
    if "by" in parts[1:] or parts[:1] in (["has"], ["have"], ["had"]):
        return True
    if "of" in parts[1:-1]:
        return True
    alone = len(parts) == 1 and not parts[0].endswith("s")
    return alone and (parts[0].endswith((*_AGENT, *_OBJECT, "place", "ship")) or parts[0] in _NOUNS)


_MEMBERSHIP: Final = frozenset(
    place for place, (same, _) in enumerate(_SYNONYMS) if same.split()[0] in {"part", "locate", "join"}
)
_OWNING: Final = frozenset(place for place, (same, _) in enumerate(_SYNONYMS) if same.startswith("own"))


def said_by_preposition(question: QuestionWords, parts: Sequence[str]) -> Occurrence | None:
    """Return where a preposition or "have" alone expresses a membership or who owns; None if neither does.

    "People in the Till team", "services of the Till team" and "How many services does the Till team have?" do.

    Parameters
    ----------
    parts
        The words of the label.
    """
    content = _content(parts)
    groups = {group for group, side in _MEANINGS.get(_key(content[0]), ()) if not side} if content else set()
    prepositions = {"in", "of", "at", "on", "from"} if groups & _MEMBERSHIP else {"of"} if groups & _OWNING else None
    if prepositions is None:
        return None
    last = len(question.tokens) - 1
    place = next((at for at, token in enumerate(question.tokens) if at and token in prepositions), None)
    if place is None and question.tokens[last:] != ["have"]:
        return None
    # The name, after a preposition and before "have", is the target of a membership and the source of who owns.
    before = (place is None) is bool(groups & _OWNING)
    return Occurrence(frozenset({last if place is None else place}), SYNONYM, Side.BEFORE if before else Side.AFTER)


def said_by(question: QuestionWords, label: Label, skipped: Collection[int]) -> list[Occurrence]:
    """Return the occurrences of a relationship type; without any, a membership that a preposition alone expresses.

    The latter only if no other word of the question is left to explain.
    """
    parts = label_words(label)
    found = question.said(parts, skipped)
    if found:
        return found
    by_preposition = said_by_preposition(question, parts)
    return [] if by_preposition is None or question.content(skipped) else [by_preposition]


class Anchor(NamedTuple):
    """An entity that the question names, with the positions of its words and the score of its match."""

    id: str
    places: frozenset[int]
    weight: float


class Explained(NamedTuple):
    """How well a path answers a question."""

    score: float
    """Quality of the match times the share of the question's words that it explains, in [0, 1]."""
    wording: tuple[str, ...]
    """The predicates that distinguish it from other paths of the same types; empty strings if the types suffice."""
    places: frozenset[int]
    """Positions of the words that its edges explain."""


class _Edge(NamedTuple):
    """An edge of a path."""

    label: Label
    predicate: str
    inward: bool
    """Whether the path walks it against its direction."""


AGAINST: Final = 0.8
"""Score factor of a free-text predicate where the question's grammar suggests that it is walked the other way."""


def explain(
    question: QuestionWords, skipped: Collection[int], anchors: Mapping[str, Anchor], hit: GraphHit
) -> Explained | None:
    """Return how well a path answers a question; None if the question does not express one of its edges.

    Each edge must match words of the question that matched no edge before it. The path's quality is the product of the
    qualities of these matches. The words to be explained are the content words of the question, including names that
    are not on the path, but not those on it. The score is the share of these words that the edges explain, times the
    quality.

    A path that ends at a name of the question is no answer to one that asks who, which or where, and gives None.

    Parameters
    ----------
    skipped
        Positions of words that express no relationship, such as the requested entity type.
    anchors
        Entities that the question names, by id; the path begins at one of them.
    """
    path = hit.path
    if path.ids[-1] in anchors and _SOUGHT.intersection(question.tokens):
        return None
    names = {place for anchor in anchors.values() for place in anchor.places}
    names_on_path = {place for identity in path.ids if identity in anchors for place in anchors[identity].places}
    start, quality, explaining = min(anchors[path.ids[0]].places), 1.0, frozenset[int]()
    wording = []
    predicates = path.predicates or ("",) * len(path.types)
    for edge in starmap(_Edge, zip(path.types, predicates, path.inward, strict=True)):
        said = _best_occurrence(question, edge, start, {*skipped, *names, *explaining})
        if said is None:
            return None
        quality *= said.quality
        explaining |= said.places
        start = min(said.places)
        wording.append(edge.predicate if is_symmetric(label_words(edge.label)) else "")
    return Explained(quality * question.share_of(explaining, {*skipped, *names_on_path}), tuple(wording), explaining)


def _best_occurrence(question: QuestionWords, edge: _Edge, start: int, skipped: set[int]) -> Occurrence | None:
    """Return the occurrence of an edge with the largest number of words times quality; None if there is none.

    ======================================  ==============================================================
    The words of its predicate              in either direction; in the wrong one, times :data:`AGAINST`, and only
                                            if its type does not say the same and tells the direction
    The words of its type, if symmetric     in either direction; only if its predicate's words do not occur
    The words of any other type             in the direction of the edge only
    ======================================  ==============================================================

    Parameters
    ----------
    start
        Position of the name or word that the edge is walked from; the side on which the edge is expressed determines
        the direction.
    skipped
        Positions of words that are not compared.
    """
    parts = label_words(edge.label)
    symmetric, told = is_symmetric(parts), tells_direction(without_kind(parts, question.kind_words))
    spoken = words(edge.predicate)[:MAX_PREDICATE_WORDS]
    if told and spoken == parts:
        spoken = []  # an imported graph's "depends on" of DEPENDS_ON
    by_predicate = question.said(spoken, skipped) if spoken else []
    by_type = [] if symmetric and by_predicate else said_by(question, edge.label, skipped)
    by_its_type = frozenset(place for said in by_type if told for place in said.places)
    found = [said for said in (*by_predicate, *by_type) if said.inward(start) is edge.inward]
    found += [
        said._replace(quality=said.quality * AGAINST)
        for said in by_predicate
        if said.inward(start) is not edge.inward and by_its_type.isdisjoint(said.places)
    ]
    if symmetric:
        found += by_type
    further = question.places_of(spoken, skipped)  # a word of the predicate may occur more than once
    found = [said._replace(places=said.places | further) for said in found]
    return max(found, key=lambda said: (len(said.places) * said.quality, said.quality), default=None)


def sentence(source: str, label: Label, target: str, predicate: str = "") -> str:
    """Return a relationship as a sentence without its full stop, source first: "Platform team owns Keelson".

    A mention leads from the entity to the text that has its name, and it is the text that mentions. A predicate of the
    label's own words, such as an imported graph's "depends on" of ``DEPENDS_ON``, is not said twice.
    """
    if label == MENTIONS:
        source, target = target, source
    parts = label_words(label)
    if predicate and is_symmetric(parts):
        return f"{source} {predicate} {target}"
    said = " ".join(parts)
    # LOCATED_IN says what is done to its source, ACQUIRED and ACTED_IN what that does.
    is_participle = parts[0].endswith("ed") and parts[0] not in _DOING
    is_done = is_participle and not _PREPOSITIONS.isdisjoint(parts[1:])
    if is_symmetric(parts) or parts[-1:] == ["of"] or is_done:
        said = f"is {said}{' to' if _PREPOSITIONS.isdisjoint(parts) else ''}" if parts[0] not in EMPTY else said
    elif _is_passive(parts) and parts[0] not in EMPTY and "by" not in parts:
        said = f"has {said}"
    further = predicate if words(predicate) != parts else ""
    return f"{source} {said} {target}{f' ({further})' if further else ''}"
