"""Reads a question's words: mode, intent, embedding type, and which walks along causes or time answer it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from braid.models import Direction, EmbeddingType, Intent, Mode

if TYPE_CHECKING:
    from braid.models import GraphHit, Label, Path, TemporalContext


CAUSAL_TYPES: Final[tuple[Label, ...]] = ("CAUSES", "ENABLES", "PREVENTS")
TEMPORAL_TYPES: Final[tuple[Label, ...]] = ("BEFORE", "AFTER", "DURING")


def _any_of(*alternatives: str) -> re.Pattern[str]:
    """Match any alternative as a whole word or phrase, never inside another word."""
    return re.compile(rf"(?<!\w)(?:{'|'.join(alternatives)})(?!\w)", re.IGNORECASE)


_DOCUMENT_MODE = _any_of("pages?", "sections?", "summar(?:y|ies)", "summari[sz](?:e|es|ed|ing)")
_ENTITY_MODE = _any_of(
    "relationships? between", r"how\b[^?.!]{0,80}\b(?:relate[ds]?|connected|linked)", "compar(?:e|es|ed|ing|ison|isons)"
)

_MONTHS = (
    "january|february|march|april|june|july|august|september|october|november|december|"
    "jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
)
_YEAR = r"(?:19|20)\d\d"
_DAY = r"(?:[12]?\d|3[01])(?:st|nd|rd|th)?(?!-)"
_ORDINAL = "first|second|third|fourth|1st|2nd|3rd|4th"
_NEAR = "last|next|this|previous"
_TEMPORAL = _any_of(
    "when",
    "before",
    "after",
    "during",
    "since",
    rf"{_YEAR}(?:s|-\d\d(?:-\d\d)?(?:t\d\d:\d\d\S*)?)?",
    r"\d{1,2}/\d{1,2}/\d{2,4}",
    rf"\d{{1,2}}\.\d{{1,2}}\.{_YEAR}",
    rf"(?:{_MONTHS}|may)\.?,? (?:the )?(?:{_DAY}|{_YEAR})",
    rf"(?:in|early|late|mid|until|{_NEAR}|(?:end|start|beginning) of)[ -](?:early |late |mid[ -])?"
    rf"(?:{_MONTHS}|may)(?! (?-i:[A-Z]))",
    rf"{_DAY}(?: of)? (?:{_MONTHS}|may)",
    r"(?:on|until|last|next|this) (?:mon|tues|wednes|thurs|fri|satur|sun)days?",
    rf"(?:{_YEAR}[- /]?)?q[1-4](?:[- /]?{_YEAR})?",
    rf"(?:{_ORDINAL}) quarters?",
    rf"(?:{_NEAR}) (?:quarter|month|week|year|decade|century)",
    rf"(?:the|that|which|what|each|every|per) (?-i:quarters?)(?!-| of (?!{_YEAR}))",
    r"(?:happen(?:s|ed|ing)?|occur(?:s|red|ring)?|(?:took|takes?) place) (?:\w+ ){0,2}between",
    "yesterday|today|tomorrow|ago",
)
"""A quarter is a part of a year, but no part of a town or an inch. "May" is a verb or a name as often as a month."""
_NUMBERED = _any_of(
    rf"(?:room|number|no\.?|nr\.?|part|port|gate|berth|flat|model|version|order|invoice|ticket|line|route|unit)"
    rf" #?{_YEAR}",
    rf"{_YEAR}(?=-[a-z]|[.,:]\d)",
    r"(?:19|20)00(?= \w+s\b)",
)
"""Numbers that look like years: names of things, parts of codes and of longer numbers, and round counts."""
_QUOTED = re.compile(r"\"[^\"]*\"|“[^“”]*”|(?<!\w)'[^']*'(?!\w)")
_NAME_WORD = re.compile(
    r"(?<=\w )(?:Before|After|During|Since|When|Why|Because|Causes?|Due|Prevents?|Enables?|Today|Tomorrow|Yesterday)\b"
)
"""Words that tell of times and causes, with a capital inside a sentence: there they are parts of names."""
_SENTENCE_CASE = re.compile(
    r"(?<![\w'’])(?!(?:a|an|and|as|at|by|for|from|in|into|of|on|or|the|to|with)\b)[a-z]+\b",
)
"""A word without a capital that has one in headlines: where there is any, capitals tell names."""
_EFFECT = _any_of(
    "le(?:a)?ds? to",
    "prevent(?:s|ed|ing)?",
    "avert(?:s|ed|ing)?",
    "avoided by",
    "enabl(?:e|es|ed|ing)",
    "result(?:s|ed|ing)? in",
    r"(?:what|which)(?: \w+){0,2} result(?:s|ed) from",
    "consequences?",
    "effects? of",
    "impact of",
    r"(?:what|which)(?: \w+){0,2} (?:did|does|do|has|have|will|would|could) [^?.!]{1,120}?(?<!that )caus(?:e|ed)",
    r"(?:what|which)(?: \w+){0,3} (?:is|was|are|were|been)(?: \w+ly)? caused by",
)
_PREVENTED = _any_of(
    r"how\b[^?.!]{0,120}\b(?:prevent(?:ed)?|avert(?:ed)?|enabled?)(?! by\b)",
    r"(?:could|can|might|may|would|should) (?!have\b|be\b)[^?.!]{1,120}\bbe(?:en)?"
    r" (?:prevented|averted|avoided)(?! by\b)",
    r"(?:done|do|doing|taken|taking|change[ds]?|introduced?|built|put in place|measures?|steps?|ways?)\b[^?.!]{0,60}"
    r"\bto (?:prevent|avert|avoid|enable)",
    r"ma(?:de|kes?) [^?.!]{1,80} possible",
)
"""What was done is asked for, and what it prevents, averts or enables is named."""
_CAUSE = _any_of(
    "why",
    "caus(?:e|es|ed|ing)",
    "because",
    "due to",
    "result(?:s|ed|ing)? from",
    "root causes?",
    "reasons?(?: for| behind)?",
)
_REASON = _any_of("why", "causes? of", "root causes?", "reasons? (?:for|behind)")
_NAMED_CAUSE = _any_of(r"(?:because|due to) (?!(?:of )?(?:what|which|whom)\b)\w+")
"""The cause is given: "Who resigned because of the leak?" asks for its effects."""
_HELPING = "did|does|do|is|was|are|were|has|have|had|will|would|could|can|may|might|should"
_CAUSE_IS_SUBJECT = re.compile(
    rf"(?:\bwhat|^\s*(?:who|which))(?:\s+(?!(?:{_HELPING})\b)[\w'-]+){{0,4}}"
    r"(?:(?:\s+(?:has|have|had|will|would|could|can|may|might|should)(?:\s+have)?)?(?:\s+\w+ly)?"
    r"\s+(?:(?:prevent|avert)(?:s|ed)?|enabl(?:e|es|ed)|lea?ds?\s+to|results?\s+in|resulted\s+in|caus(?:e|es|ed))"
    r"|\s+(?:is|was|are|were)(?:\s+\w+ly)?\s+(?:preventing|averting|enabling|leading\s+to|resulting\s+in|causing))\b",
    re.IGNORECASE,
)
"""What brought it about is the subject of the verb: "What led to X?", but not "What did X lead to?"."""
_CAUSE_IS_OBJECT = re.compile(
    rf"\s*(?:what|which)(?:\s+(?!(?:{_HELPING})\b)\w+){{0,4}}\s+(?:{_HELPING})\s+[^?.!]{{1,120}}?"
    r"\s(?:caus(?:e|ed)|(?:prevent|avert)(?:ed)?|enabled?|le(?:a)?d\s+to|result(?:ed)?\s+in)(?!\w)",
    re.IGNORECASE,
)
"""What is asked for is what the verb brings about: "What did X lead to?", whatever date X has."""
_LOOKUP = _any_of("who", "whose", "which", "find", "where", r"what(?: is| are| was| were|['’](?:s|re))")

_CODE = _any_of(
    "cod(?:es?|ed|ing)",
    "functions?",
    "class(?:es)?",
    "methods?",
    "implement(?:s|ed|ing|ation|ations|er|ers)?",
    "bugs?",
    "buggy",
    "errors?",
)
_GRADE = _any_of(
    rf"(?:{_ORDINAL}|business|economy|world|working|middle|upper|lower|ruling|social)[ -]class(?:es)?(?! functions?)"
)
"""A class that is no code: of mail, seats, hotels, people."""
_DOCUMENT = _any_of(
    "document(?:s|ed|ing)?", r"files?(?! an?\b)", r"notes?(?! that\b)", "articles?", r"papers?(?! over\b)"
)
"""Not "file a complaint" or "note that": there the word is a verb."""


def detect_mode(text: str) -> Mode:
    """Return document or entity when exactly that pattern matches, hybrid when both or neither do."""
    document, entity = bool(_DOCUMENT_MODE.search(text)), bool(_ENTITY_MODE.search(text))
    if document == entity:
        return Mode.HYBRID
    return Mode.DOCUMENT if document else Mode.ENTITY


def detect_intent(text: str) -> Intent:
    """Return what the question wants to know; causal wins over temporal where it is asked outright."""
    asked, text = text, _without_names(text)
    causal = bool(_CAUSE.search(text) or _EFFECT.search(text) or _PREVENTED.search(text))
    outright = (
        re.match(r"\s*why\b", text, re.IGNORECASE)
        or _CAUSE_IS_SUBJECT.match(text.strip())
        or _CAUSE_IS_OBJECT.match(text)
    )
    if _TEMPORAL.search(_NUMBERED.sub(" ", text)) and not (causal and outright):
        return Intent.TEMPORAL
    if causal:
        return Intent.CAUSAL
    return Intent.LOOKUP if _LOOKUP.search(asked) else Intent.EXPLORATORY


def _without_names(text: str) -> str:
    """Blank what stands in quotation marks, and words with a capital that are parts of names."""
    unquoted = _QUOTED.sub(" _ ", text)
    if not unquoted.strip(" _?.!"):
        return text
    return _NAME_WORD.sub("_", unquoted) if _SENTENCE_CASE.search(unquoted) else unquoted


_NEGATION: Final = re.compile(r"\b(?:not|never|without|except|excluding)\b|\b\w+n['’]t\b", re.IGNORECASE)
_GRADED: Final = (
    "(?:old|new|young|larg|bigg|small|long|short|high|low|deep|fast|slow|cheap|near|clos|strong|weak|heavi|busi)"
)
_SUPERLATIVE: Final = _any_of("(?<!at )(?:most|least|fewest)(?! of)", f"(?:{_GRADED}|lat|earli)est")
_COMPARATIVE: Final = _any_of(
    rf"(?<!no )(?:{_GRADED}er|better|worse)\b(?=[^?.!]{{0,80}}\b(?:than|or)\b)",
    r"(?:more|less|fewer)\b(?=[^?.!]{0,80}\bthan\b)",
)


def unsupported_operators(text: str, *, negation_obeyed: bool = False) -> list[str]:
    """Return what a question excludes, puts first or compares that no search obeys, each said with its word.

    Parameters
    ----------
    negation_obeyed
        Whether what is negated is looked up in the graph.
    """
    text = _without_names(text)
    negated = None if negation_obeyed else _NEGATION.search(text)
    first, compared = _SUPERLATIVE.search(text), _COMPARATIVE.search(text)
    return [
        *([f"not obeyed: nothing is left out because of {negated.group()!r}"] if negated else []),
        *([f"not obeyed: nothing is put in order by {first.group()!r}"] if first else []),
        *([f"not obeyed: nothing is measured against another by {compared.group()!r}"] if compared else []),
    ]


def detect_embedding_type(text: str, intent: Intent) -> EmbeddingType:
    """Return which kind of model embeds the question: by intent first, then by whole words and their inflections."""
    if intent is Intent.TEMPORAL:
        return EmbeddingType.TEMPORAL
    if intent is Intent.CAUSAL:
        return EmbeddingType.CAUSAL
    if _CODE.search(_GRADE.sub(" ", text)):
        return EmbeddingType.CODE
    return EmbeddingType.DOCUMENT if _DOCUMENT.search(text) else EmbeddingType.GENERAL


def walk_direction(text: str, intent: Intent) -> Direction:
    """Return which way causal edges are walked: towards causes for "why", towards effects otherwise.

    Temporal questions read ``earlier BEFORE later`` forwards, so "before X" walks BEFORE edges backwards; both ways
    are walked, and the order in time tells them apart.
    """
    if intent is Intent.TEMPORAL:
        return Direction.BOTH
    if intent is Intent.CAUSAL and _seeks_causes(text):
        return Direction.IN
    return Direction.OUT


def _seeks_causes(text: str) -> bool:
    """Whether the question names an effect and asks what brought it about."""
    text = _without_names(text)
    if _REASON.search(text) or _PREVENTED.search(text):
        return True
    if _EFFECT.search(text) is None:
        yes_or_no = re.match(rf"\s*(?:{_HELPING})\b", text, re.IGNORECASE)
        return bool(yes_or_no) or _NAMED_CAUSE.search(text) is None
    return bool(_CAUSE_IS_SUBJECT.search(text))


BETWEEN_FACTOR: Final = 0.5
"""Factor on the score of a vertex between the start of a walk and the end asked for."""


PREVENTED: Final = ("PREVENTS",)


class TimeRelation(StrEnum):
    """Relation in time of the answer to what the question names."""

    BEFORE = "before"
    AFTER = "after"
    DURING = "during"


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
_MEASURES: Final = _any_of("prevent(?:s|ed|ing)?", "avert(?:s|ed|ing)?", "avoid(?:s|ed|ing)?")
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
