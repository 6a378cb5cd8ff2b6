"""Detects a question's mode, intent and embedding type, its dates, and the causal or temporal walks that answer it."""

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
    """Return a pattern that matches any alternative as a whole word or phrase, in any case."""
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
_DATES = (
    rf"{_YEAR}(?:s|-\d\d(?:-\d\d)?(?:t\d\d:\d\d\S*)?)?",
    r"\d{1,2}/\d{1,2}/\d{2,4}",
    rf"\d{{1,2}}\.\d{{1,2}}\.{_YEAR}",
    rf"(?:{_MONTHS}|may)\.?,? (?:the )?(?:{_DAY}|{_YEAR})",
    (
        rf"(?:in|early|late|mid|until|{_NEAR}|(?:end|start|beginning) of)[ -](?:early |late |mid[ -])?"
        rf"(?:{_MONTHS}|may)(?! (?-i:[A-Z]))"
    ),
    rf"{_DAY}(?: of)? (?:{_MONTHS}|may)",
    r"(?:on|until|last|next|this) (?:mon|tues|wednes|thurs|fri|satur|sun)day",
    rf"(?:{_YEAR}[- /]?)?q[1-4](?:[- /]?{_YEAR})?",
    rf"(?:{_NEAR}) (?:quarter|month|week|year|decade|century)",
    "yesterday|today|tomorrow|ago",
)
_MOMENT = _any_of(*_DATES)
_AFTER = r"(?<!look )(?<!looks )(?<!looked )(?<!looking )(?<!named )after(?!-| all\b(?! \w))"
"""Later than; not in "looks after", "named after", "after-sales", and "after all" without a word behind it."""
_TEMPORAL = _any_of(
    "when",
    "before",
    _AFTER,
    "during",
    "since",
    *_DATES,
    rf"(?:{_ORDINAL}) quarters?",
    rf"(?:the|that|which|what|each|every|per) (?-i:quarters?)(?!-| of (?!{_YEAR}))",
    r"(?:happen(?:s|ed|ing)?|occur(?:s|red|ring)?|(?:took|takes?) place) (?:\w+ ){0,2}between",
)
"""A quarter must be a part of a year, not of a town or an inch; "may" alone is a verb or a name as often as a month."""
_NUMBERED = _any_of(
    rf"(?:room|number|no\.?|nr\.?|part|port|gate|berth|flat|model|version|order|invoice|ticket|line|route|unit)"
    rf" #?{_YEAR}",
    rf"{_YEAR}(?=-[a-z]|[.,:]\d)",
    rf"(?:[a-z]+-)?{_YEAR}-(?!{_YEAR}(?!\d))\d{{3,}}",
    rf"(?!(?:{_MONTHS}|may|fy)-)(?-i:[A-Z]{{2,}})-{_YEAR}(?!-\d\d?(?!\d))",
    r"(?:19|20)00(?= \w+s\b)",
)
"""Numbers that look like years: names of things, parts of codes such as INC-2025-013, of longer numbers, and counts."""
_QUOTED = re.compile(r"\"[^\"]*\"|“[^“”]*”|(?<!\w)'[^']*'(?!\w)")
_NAME_WORD = re.compile(
    r"(?<=\w )(?:Before|After|During|Since|When|Why|Because|Causes?|Due|Prevents?|Enables?|Today|Tomorrow|Yesterday)\b"
)
"""Temporal and causal words with a capital inside a sentence, where they are parts of names."""
_SENTENCE_CASE = re.compile(
    r"(?<![\w'’])(?!(?:a|an|and|as|at|by|for|from|in|into|of|on|or|the|to|with)\b)[a-z]+\b",
)
"""A lower-case word that a headline would capitalise: a text with one is in sentence case, so capitals mark names."""
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
"""Asks for a measure, and names what it prevents, averts or enables."""
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
"""Names the cause and asks for its effects: "Who resigned because of the leak?"."""
_HELPING = "did|does|do|is|was|are|were|has|have|had|will|would|could|can|may|might|should"
_CAUSE_IS_SUBJECT = re.compile(
    rf"(?:\bwhat|^\s*(?:who|which))(?:\s+(?!(?:{_HELPING})\b)[\w'-]+){{0,4}}"
    r"(?:(?:\s+(?:has|have|had|will|would|could|can|may|might|should)(?:\s+have)?)?(?:\s+\w+ly)?"
    r"\s+(?:(?:prevent|avert)(?:s|ed)?|enabl(?:e|es|ed)|lea?ds?\s+to|results?\s+in|resulted\s+in|caus(?:e|es|ed))"
    r"|\s+(?:is|was|are|were)(?:\s+\w+ly)?\s+(?:preventing|averting|enabling|leading\s+to|resulting\s+in|causing))\b",
    re.IGNORECASE,
)
"""Asks for the cause, as the verb's subject: "What led to X?", but not "What did X lead to?"."""
_EFFECT_IS_OBJECT = re.compile(
    rf"\s*(?:what|which)(?:\s+(?!(?:{_HELPING})\b)\w+){{0,4}}\s+(?:{_HELPING})\s+[^?.!]{{1,120}}?"
    r"\s(?:caus(?:e|ed)|(?:prevent|avert)(?:ed)?|enabled?|le(?:a)?d\s+to|result(?:ed)?\s+in)(?!\w)",
    re.IGNORECASE,
)
"""Asks for the effect, as the verb's object: "What did X lead to?", even if X has a date."""
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
"""Classes other than of code: of mail, seats, hotels, people."""
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
    """Return the question's intent; temporal wins over causal, unless a cause or an effect is explicitly requested."""
    asked, text = text, _without_names(text)
    causal = bool(_CAUSE.search(text) or _EFFECT.search(text) or _PREVENTED.search(text))
    outright = (
        re.match(r"\s*why\b", text, re.IGNORECASE)
        or _CAUSE_IS_SUBJECT.match(text.strip())
        or _EFFECT_IS_OBJECT.match(text)
    )
    if _TEMPORAL.search(_NUMBERED.sub(" ", text)) and not (causal and outright):
        return Intent.TEMPORAL
    if causal:
        return Intent.CAUSAL
    return Intent.LOOKUP if _LOOKUP.search(asked) else Intent.EXPLORATORY


def names_moment(text: str) -> bool:
    """Return whether a question names a date, a month, a year or a time such as "last week"."""
    return bool(_MOMENT.search(_NUMBERED.sub(" ", _without_names(text))))


def moments(text: str) -> list[str]:
    """Return the words of the dates, months, years and times that a question names."""
    return [found.group() for found in _MOMENT.finditer(_NUMBERED.sub(" ", text))]


def _without_names(text: str) -> str:
    """Blank quotations, and capitalised temporal and causal words that are parts of names."""
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
    """Return a message for each negation, superlative and comparison in a question, which searches do not support.

    Parameters
    ----------
    negation_obeyed
        Whether the graph evaluates the negation, so that it is supported.
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
    """Return the direction in which causal edges are walked: towards causes, unless the question asks for effects.

    Temporal edges are walked both ways: ``earlier BEFORE later`` leads to later events forwards and to earlier ones
    backwards, and :func:`follows_relation` tells the two apart.
    """
    if intent is Intent.TEMPORAL:
        return Direction.BOTH
    if intent is Intent.CAUSAL and _seeks_causes(text):
        return Direction.IN
    return Direction.OUT


def _seeks_causes(text: str) -> bool:
    """Whether the question names an effect and asks for its cause."""
    text = _without_names(text)
    if _REASON.search(text) or _PREVENTED.search(text):
        return True
    if _EFFECT.search(text) is None:
        yes_or_no = re.match(rf"\s*(?:{_HELPING})\b", text, re.IGNORECASE)
        return bool(yes_or_no) or _NAMED_CAUSE.search(text) is None
    return bool(_CAUSE_IS_SUBJECT.search(text))


BETWEEN_FACTOR: Final = 0.5
"""Score factor of a vertex between the start of a walk and its end, if the question asks for the end."""


PREVENTED: Final = ("PREVENTS",)


class TimeRelation(StrEnum):
    """Temporal relation of the answer to the event that the question names."""

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
"""Score factor of causes of an event to be prevented, if a preventive measure is found."""
_FORWARDS: Final = {("BEFORE", False), ("AFTER", True)}
"""Type and inward flag of steps that lead to later events: along ``earlier BEFORE later``, against ``later AFTER
earlier``."""
_BACKWARDS: Final = {("BEFORE", True), ("AFTER", False)}


def time_relation(text: str, context: TemporalContext | None) -> TimeRelation | None:
    """Return the temporal relation of the answer to the event that the question names; None for none, or several.

    A caller's temporal context wins over the question's words.
    """
    if context is not None and context.relation is not None:
        stated = context.relation.lower()
        return TimeRelation(stated) if stated in set(TimeRelation) else None
    text = _SINCE_WHEN.sub("", text)
    found = [relation for relation, pattern in _RELATIONS.items() if pattern.search(text)]
    return found[0] if len(found) == 1 else None


def follows_relation(path: Path, relation: TimeRelation) -> bool:
    """Whether a path of temporal edges leads in the direction of a relation.

    For before and after, DURING edges are ignored: an event precedes and follows the same events as the one that it
    happens during.
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
    """Return the fields of the walk's request that a temporal relation restricts, with their values."""
    match relation:
        case TimeRelation.DURING:
            return {"types": ("DURING",), "direction": Direction.IN, "max_hops": 1}
        case TimeRelation.BEFORE | TimeRelation.AFTER:
            return {"types": ("BEFORE", "AFTER")}
    return {}


def wants_ends(text: str) -> bool:
    """Whether a question asks for an end of a causal chain, such as the root cause, rather than for all of it."""
    return _ENDS.search(text) is not None


@dataclass(frozen=True)
class WalkPreference:
    """Which causal or temporal walks answer one question, and which of their hits to prefer."""

    types: frozenset[str] | None
    """Relationship types of the walks; None if none answers: "When did X happen?" asks for X, not what preceded it."""
    relation: TimeRelation | None = None
    ends: bool = False
    prevention: bool = False

    def answers(self, hit: GraphHit) -> bool:
        """Whether a hit was reached along edges of :attr:`types` alone."""
        return self.types is not None and bool(hit.path.types) and self.types.issuperset(hit.path.types)

    def keep(self, hits: list[GraphHit]) -> list[GraphHit]:
        """Drop hits in the wrong temporal direction, and lower the scores of hits that answer less directly.

        If the question asks for the end of a chain, the vertices before it are lowered. If it asks for prevention and a
        measure was found, all other hits of causal walks are lowered.
        """
        if self.relation is not None:
            return [hit for hit in hits if follows_relation(hit.path, self.relation)]
        if self.prevention and any(hit.path.types == PREVENTED for hit in hits):
            return [
                hit.altered(score=hit.score * CAUSE_OF_PREVENTED_FACTOR)
                if self.answers(hit) and hit.path.types != PREVENTED
                else hit
                for hit in hits
            ]
        if not self.ends:
            return hits
        between = {identity for hit in hits for identity in hit.path.ids[1:-1]}
        return [hit.altered(score=hit.score * BETWEEN_FACTOR) if hit.id in between else hit for hit in hits]


def walk_preference(text: str, intent: Intent, context: TemporalContext | None) -> WalkPreference:
    """Return which causal or temporal walks answer a question."""
    if intent is Intent.CAUSAL:
        prevention = _MEASURES.search(text) is not None
        return WalkPreference(frozenset(CAUSAL_TYPES), ends=wants_ends(text), prevention=prevention)
    relation = time_relation(text, context) if intent is Intent.TEMPORAL else None
    return WalkPreference(frozenset(TEMPORAL_TYPES) if relation else None, relation)
