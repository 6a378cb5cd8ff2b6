"""What a question is, and so how it is answered. Pure: text and stored counts in, a plan with its reasons out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from braid.models import (
    Direction,
    EmbeddingType,
    Intent,
    Label,
    Mode,
    Plan,
    PlanStep,
    Query,
    StepOperation,
    Strategy,
    Weights,
)

if TYPE_CHECKING:
    from braid.engines.ports import GraphStats

CAUSAL_TYPES: Final[tuple[Label, ...]] = ("CAUSES", "ENABLES", "PREVENTS")
TEMPORAL_TYPES: Final[tuple[Label, ...]] = ("BEFORE", "AFTER", "DURING")


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


def choose_strategy(query: Query, mode: Mode, stats: GraphStats | None) -> tuple[Strategy, str]:
    """Return in which order the stores are asked, and why. A caller's hint wins; then structure; then counts."""
    hints = query.hints
    if hints.strategy is not None:
        return hints.strategy, f"{hints.strategy.value}: asked for by the caller"
    if hints.steps:
        return Strategy.MULTI_HOP, f"multi_hop: the caller gave {len(hints.steps)} steps"
    if query.graph_constraint is not None:
        return (
            Strategy.GRAPH_FIRST,
            f"graph_first: only what {query.graph_constraint.entity!r} reaches can be an answer",
        )
    if stats is not None and stats.edges == 0:
        return Strategy.SEMANTIC, "semantic: the tenant's graph has no edges"
    if mode is Mode.DOCUMENT:
        return Strategy.SEMANTIC, "semantic: the question asks for a document, page, section or summary"
    if hints.min_similarity is not None:
        return Strategy.VECTOR_FIRST, f"vector_first: similarity of at least {hints.min_similarity} is required"
    return Strategy.HYBRID, "hybrid: text and names are searched together, then the graph is walked from what they find"


DEFAULT_STEPS: Final = (
    PlanStep(operation=StepOperation.SEARCH, limit=10),
    PlanStep(operation=StepOperation.EXPAND, limit=20),
    PlanStep(operation=StepOperation.EXPAND, limit=50),
)


def make_plan(query: Query, *, model_ids: dict[EmbeddingType, str], candidates: int, stats: GraphStats | None) -> Plan:
    """Plan one question.

    Parameters
    ----------
    query
        The question.
    model_ids
        Model that embeds each type of question.
    candidates
        Smallest number of candidates fetched from a store; ``2 × top_k`` when that is more.
    stats
        Stored counts of the tenant's graph; None when they could not be read.
    """
    mode = detect_mode(query.text)
    intent = query.intent or detect_intent(query.text)
    embedding_type = detect_embedding_type(query.text, intent)
    strategy, why = choose_strategy(query, mode, stats)
    origin = "stated by the caller" if query.intent else "read from the question"
    reasons = [why, f"intent {intent.value}: {origin}", f"mode {mode.value}"]
    if stats is None:
        reasons.append("the graph's counts could not be read")
    direction = walk_direction(query.text, intent)
    if intent is Intent.CAUSAL:
        sought = "causes" if direction is Direction.IN else "effects"
        reasons.append(f"the question seeks {sought}")
    steps = (query.hints.steps or DEFAULT_STEPS) if strategy is Strategy.MULTI_HOP else ()
    return Plan(
        strategy=strategy,
        mode=mode,
        intent=intent,
        embedding_type=embedding_type,
        model_id=model_ids[embedding_type],
        direction=direction,
        candidates=min(200, max(candidates, 2 * query.top_k)),
        steps=steps,
        reasons=tuple(reasons),
    )


_SHIFT: Final = {Intent.TEMPORAL: -0.10, Intent.CAUSAL: -0.15, Intent.LOOKUP: 0.10, Intent.EXPLORATORY: 0.0}
FEW_HITS, MANY_HITS, COUNT_SHIFT = 5, 10, 0.1


def adaptive_weights(
    vector_weight: float,
    graph_weight: float,
    *,
    intent: Intent,
    vector_hits: int,
    graph_hits: int,
    lexical_hits: int | None = None,
    lexical_share: float = 0.0,
) -> Weights:
    """Return how much each strand counts, after what the question is and what was found.

    The intent shifts weight between text and graph; a strand that found much while the other found little gains a
    tenth; weights are clamped at 0 and normalised to 1. The text strand's weight is then split between vectors and
    words. A strand that found nothing is neutral: its weight goes to those that did.

    Parameters
    ----------
    vector_weight, graph_weight
        Base weights of text and graph, in [0, 1].
    intent
        What the question wants to know.
    vector_hits, graph_hits, lexical_hits
        Hits by strand; ``lexical_hits`` None means that words are no strand of their own.
    lexical_share
        Share of the words in the text strand, in [0, 1].
    """
    shift = _SHIFT[intent]
    text, graph = vector_weight + shift, graph_weight - shift
    text_hits = max(vector_hits, lexical_hits or 0)
    if text_hits < FEW_HITS and graph_hits > MANY_HITS:
        text, graph = text - COUNT_SHIFT, graph + COUNT_SHIFT
    elif graph_hits < FEW_HITS and text_hits > MANY_HITS:
        text, graph = text + COUNT_SHIFT, graph - COUNT_SHIFT
    text, graph = max(0.0, text), max(0.0, graph)
    lexical = text * lexical_share if lexical_hits is not None else 0.0
    strands = {
        "vector": (text - lexical, vector_hits),
        "lexical": (lexical, lexical_hits or 0),
        "graph": (graph, graph_hits),
    }
    if strands["vector"][1] == 0 and strands["lexical"][1] > 0:
        strands["lexical"] = (text, strands["lexical"][1])
    elif strands["lexical"][1] == 0 and strands["vector"][1] > 0:
        strands["vector"] = (text, strands["vector"][1])
    live = {name: weight for name, (weight, hits) in strands.items() if hits > 0}
    total = sum(live.values())
    if total <= 0:
        live = dict.fromkeys(live or strands, 1.0)
        total = float(len(live))
    return Weights(**{name: live.get(name, 0.0) / total for name in strands})
