"""What a question asks for, read from its words: mode, intent, kind of model, and whether causes or effects. Pure."""

from __future__ import annotations

import re

from braid.models import Direction, EmbeddingType, Intent, Mode


def _any_of(*alternatives: str) -> re.Pattern[str]:
    """Match any alternative as a whole word or phrase, never inside another word."""
    return re.compile(rf"(?<!\w)(?:{'|'.join(alternatives)})(?!\w)", re.IGNORECASE)


_DOCUMENT_MODE = _any_of("pages?", "sections?", "summar(?:y|ies)", "summari[sz](?:e|es|ed|ing)")
_ENTITY_MODE = _any_of(
    "relationships? between", r"how\b[^?.!]{0,80}\b(?:related|connected|linked)", "compar(?:e|es|ed|ing|ison|isons)"
)

_MONTHS = (
    "january|february|march|april|june|july|august|september|october|november|december|"
    "jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
)
_TEMPORAL = _any_of(
    "when",
    "before",
    "after",
    "during",
    "since",
    r"(?:19|20)\d\d(?:-\d\d(?:-\d\d)?)?",
    r"\d{1,2}/\d{1,2}/\d{2,4}",
    rf"(?:{_MONTHS})\.? \d{{1,4}}(?:st|nd|rd|th)?",
    rf"in (?:{_MONTHS}|may)",
    rf"\d{{1,2}}(?:st|nd|rd|th)? (?:{_MONTHS}|may)",
    r"q[1-4]",
    "(?:first|second|third|fourth|last|next|this|previous) (?:quarter|month|week|year)",
    "quarters?",
    "yesterday|today|tomorrow",
)
_EFFECT = _any_of(
    "le(?:a)?ds? to",
    "prevent(?:s|ed|ing)?",
    "enabl(?:e|es|ed|ing)",
    "result(?:s|ed)? in",
    "consequences?",
    "effects? of",
    "impact of",
    r"(?:what|which)(?: \w+){0,2} (?:did|does|do|has|have|will|would|could) [^?.!]{1,120}?(?<!that )caus(?:e|ed)",
    r"(?:what|which)(?: \w+){0,3} (?:is|was|are|were|been)(?: \w+ly)? caused by",
)
_CAUSE = _any_of("why", "caus(?:e|es|ed|ing)", "because", "due to", "root causes?", "reasons?(?: for| behind)?")
_REASON = _any_of("why", "causes? of", "root causes?", "reasons? (?:for|behind)")
_HELPING = "did|does|do|is|was|are|were|has|have|had|will|would|could|can|may|might|should"
_CAUSE_IS_SUBJECT = re.compile(
    rf"(?:\bwhat|^\s*(?:who|which))(?:\s+(?!(?:{_HELPING})\b)[\w'-]+){{0,4}}"
    r"(?:(?:\s+(?:has|have|had|will|would|could|can|may|might))?(?:\s+\w+ly)?"
    r"\s+(?:prevent(?:s|ed)?|enabl(?:e|es|ed)|lea?ds?\s+to|results?\s+in|resulted\s+in|caus(?:e|es|ed))"
    r"|\s+(?:is|was|are|were)(?:\s+\w+ly)?\s+(?:preventing|enabling|leading\s+to|resulting\s+in|causing))\b",
    re.IGNORECASE,
)
"""What brought it about is the subject of the verb: "What led to X?", but not "What did X lead to?"."""
_LOOKUP = _any_of("who", "whose", "which", "find", "where", "what is", "what are", "what was", "what were")

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
_DOCUMENT = _any_of("documents?", "files?", "notes?", "articles?", "papers?")


def detect_mode(text: str) -> Mode:
    """Return document or entity when exactly that pattern matches, hybrid when both or neither do."""
    document, entity = bool(_DOCUMENT_MODE.search(text)), bool(_ENTITY_MODE.search(text))
    if document == entity:
        return Mode.HYBRID
    return Mode.DOCUMENT if document else Mode.ENTITY


def detect_intent(text: str) -> Intent:
    """Return what the question wants to know; causal wins over temporal where a reason is asked for outright."""
    causal = bool(_CAUSE.search(text) or _EFFECT.search(text))
    outright = re.match(r"\s*why\b", text, re.IGNORECASE) or _CAUSE_IS_SUBJECT.match(text.strip())
    if _TEMPORAL.search(text) and not (causal and outright):
        return Intent.TEMPORAL
    if causal:
        return Intent.CAUSAL
    return Intent.LOOKUP if _LOOKUP.search(text) else Intent.EXPLORATORY


def detect_embedding_type(text: str, intent: Intent) -> EmbeddingType:
    """Return which kind of model embeds the question: by intent first, then by whole words and their inflections."""
    if intent is Intent.TEMPORAL:
        return EmbeddingType.TEMPORAL
    if intent is Intent.CAUSAL:
        return EmbeddingType.CAUSAL
    if _CODE.search(text):
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
    if _REASON.search(text) or _EFFECT.search(text) is None:
        return True
    return bool(_CAUSE_IS_SUBJECT.search(text))
