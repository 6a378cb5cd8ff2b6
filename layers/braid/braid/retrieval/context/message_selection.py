"""Schemas of contexts; makes messages of retrieved texts, scores and selects them. Pure: no I/O.

Untrusted items are removed earlier, by :mod:`braid.retrieval.context.building`.
The three sources share one scale: the last messages (working state), search results (semantic) and earlier decisions
and tool calls (episodic) are compared by relevance, recency and final score.
"""

from __future__ import annotations

import math
import unicodedata
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import FailFast, Field, PlainSerializer, PlainValidator, WithJsonSchema

from braid.models import ContextRole, Frozen, Fusion, Name, QueryText, Ranking, Record, Score, TenantId
from braid.models.enums_and_scalars import AskedTime
from braid.models.metadata_filters import Conditions
from braid.ranking.scoring import (
    EPISODIC_SHARES,
    RECENCY_FLOOR,
    SEMANTIC_SHARES,
    SHARES_BY_KIND,
    clamp,
    closeness,
    final_score,
    recency,
    relevance_share,
)
from braid.understanding.tokens import MIN_HAN, composed, count_han, terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from braid.models import Answer, Result
    from braid.retrieval.context.text_fences import Wrapping

WORD_CHARACTERS = 4
"""Shortest word that an episodic search looks for."""
LEAST_CONFIDENCE = 0.1
"""Chance that a search answers the question, below which nothing of it is shown."""


class ContextSource(StrEnum):
    """Where a message of a context comes from."""

    WORKING_STATE = "working_state"
    SEMANTIC = "semantic"
    EPISODIC = "episodic"


SHARES = {
    ContextSource.WORKING_STATE: SHARES_BY_KIND["message"],
    ContextSource.SEMANTIC: SEMANTIC_SHARES,
    ContextSource.EPISODIC: EPISODIC_SHARES,
}
"""Relevance and recency weights of the ranking profile ``recency``, by source."""


def _checked_object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        message = "is not a JSON object, as a chat message is"
        raise ValueError(message)  # noqa: TRY004 - pydantic reports a ValueError as the field's, and raises a TypeError
    return value


Message = Annotated[
    dict[str, Any],
    PlainValidator(_checked_object),
    PlainSerializer(lambda message: message),
    WithJsonSchema(
        {
            "type": "object",
            "description": "A chat message with any fields, of which only the text is read: "
            "content, or the text of its parts.",
        }
    ),
]
"""A chat message with any fields, of which only the text is read; it is passed on unchanged."""


class ContextQuestion(Frozen):
    """The next question, and the conversation so far."""

    query: QueryText
    messages: Annotated[tuple[Message, ...], Field(max_length=10_000), FailFast()] = ()
    """Oldest first."""
    task_id: Name | None = None
    """Only episodes of this task."""
    tool_name: Name | None = None
    """Only episodes of this tool."""
    metadata: Conditions = ()
    """Conditions on the metadata of records and episodes, as of a search's ``filters``."""
    working_state: Annotated[bool, Field(strict=True)] = True
    semantic: Annotated[bool, Field(strict=True)] = True
    episodic: Annotated[bool, Field(strict=True)] = True
    ranking: Ranking = Ranking.RECENCY
    role: ContextRole | None = None
    """Role of the messages with retrieved text; the settings' when not given."""
    untrusted: Annotated[bool, Field(strict=True)] = False
    """Whether records that are marked as not trusted may be shown."""
    as_of: AskedTime | None = None
    """Stored records, facts and episodes that were valid at this time, as of a search; now when not given."""
    min_score: Score | None = None
    """Final score below which nothing is shown; the settings' when not given, 0 shows all that is found."""


class ContextRequest(ContextQuestion):
    """A context question of one tenant."""

    tenant_id: TenantId


class ContextScores(Frozen):
    """A message's source, and the scores that decide whether it is shown."""

    source: ContextSource
    relevance: Score
    recency: Score
    final: Score


class ContextItem(ContextScores):
    """A message with its scores."""

    message: Message


class ContextMetrics(Frozen):
    """Counts and mean scores of one context."""

    found: int = 0
    """Items of all sources together, before selection."""
    kept: int = 0
    found_by_source: dict[ContextSource, int] = Field(default_factory=dict)
    kept_by_source: dict[ContextSource, int] = Field(default_factory=dict)
    mean_relevance: Score | None = None
    """Mean over the items kept; None without any."""
    mean_recency: Score | None = None
    mean_final: Score | None = None


class Context(Frozen):
    """Chat messages for a model, best first."""

    messages: tuple[Message, ...]
    scores: tuple[ContextScores, ...] = ()
    """Scores of each message, in their order. Empty when the feature is off."""
    degraded: tuple[str, ...] = ()
    """Sources that failed, and as ``semantic.<stage>`` stages of the search that failed."""
    enabled: bool = True
    """Whether the feature is on; when off, the messages are the conversation unchanged."""
    metrics: ContextMetrics = ContextMetrics()

    def __str__(self) -> str:
        """Return the messages as text, each under its role."""
        said = (f"{message.get('role', 'message')}:\n{message_text(message)}" for message in self.messages)
        found = self.metrics.found
        below = f"; {found} found, all below the lowest score that is shown; min_score=0 shows them" if found else ""
        return "\n\n".join(said) or f"(no messages{below})"


def share_of_words(asked: Iterable[str], text: str) -> float:
    """Return the share of distinct query words that a text contains; 0 for an empty query."""
    wanted = set(asked)
    return len(wanted & set(terms(text))) / len(wanted) if wanted else 0.0


def episode_words(query: str) -> list[str]:
    """Return the distinct words of more than 3 characters, in order, with case and accents, which an index folds.

    Words of two or more Han characters are included too.
    """
    spaced = "".join(character if unicodedata.category(character)[0] in "LNM" else " " for character in composed(query))
    return [word for word in dict.fromkeys(spaced.split()) if _is_sought(word)]


def _is_sought(word: str) -> bool:
    return len(word) >= WORD_CHARACTERS or count_han(word) >= MIN_HAN


def message_text(message: Mapping[str, Any]) -> str:
    """Return the text of a chat message: its ``content``, or the ``text`` of its content's parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [part.get("text") if isinstance(part, dict) else part for part in content]
    return "\n".join(text for text in texts if isinstance(text, str))


def position_recency(place: int, count: int) -> float:
    """Return the recency of one of ``count`` messages: from 1 for the newest linearly down to .1 for the oldest.

    Parameters
    ----------
    place
        Number of messages that are newer.
    """
    if count < 2:  # noqa: PLR2004 - one message is the newest
        return 1.0
    return clamp(1.0 - (1.0 - RECENCY_FLOOR) * place / (count - 1))


def working_state(
    query: str, messages: Sequence[dict[str, Any]], *, window: int, ranking: Ranking, now: datetime
) -> list[ContextItem]:
    """Return the newest ``window`` messages, newest first; relevance is the share of the query's words in them."""
    asked = terms(query)
    newest = list(reversed(messages[-window:]))
    items = []
    for place, message in enumerate(newest):
        relevance = share_of_words(asked, message_text(message))
        fresh = position_recency(place, len(newest))
        other = final_score(ranking, relevance=relevance, kind="message", now=now)
        scores = _scores(ContextSource.WORKING_STATE, ranking, relevance, fresh, other)
        items.append(ContextItem(source=ContextSource.WORKING_STATE, message=message, **scores))
    return items


def most_relevant(answer: Answer) -> float:
    """Return the upper bound on the relevance of an answer's results; 0 if they hardly answer the question.

    Propagation scores are relative to the best record, so they are bounded by how close that one is to the question
    (:func:`~braid.ranking.scoring.closeness`), or by the root of the answer's confidence, whichever is greater. With
    less confidence than :data:`LEAST_CONFIDENCE` they are not relevant, however close: a name of the question alone
    makes a text close. Other fusion methods and rerankers score each result absolutely.
    """
    reranked = any(result.rerank_score is not None for result in answer.results)
    if answer.fusion is not Fusion.PROPAGATE or reranked:
        return 1.0
    if answer.confidence < LEAST_CONFIDENCE:
        return 0.0
    return max(closeness(answer.results, answer.related_entities), math.sqrt(answer.confidence))


def semantic(
    results: Sequence[Result], *, ranking: Ranking, wrapping: Wrapping, at_most: float = 1.0
) -> list[ContextItem]:
    """Return the results of a search that have a text or title, as messages.

    Parameters
    ----------
    wrapping
        Role, tenant and fence of the messages.
    at_most
        Upper bound of their relevance, as of :func:`most_relevant`.
    """
    items = []
    shown = [result for result in results if result.content or result.title]
    for result, scores in zip(shown, _bounded(shown, ranking, at_most), strict=True):
        about = {
            "id": result.id,
            "kind": result.kind.value,
            "title": result.title,
            "timestamp": result.timestamp.isoformat() if result.timestamp else None,
            "trusted": result.trusted,
        }
        item = _item(ContextSource.SEMANTIC, result.content or result.title or "", about, scores, wrapping)
        item.message["metadata"]["excerpt"] = result.citation.excerpt
        items.append(item)
    return items


def _bounded(results: Sequence[Result], ranking: Ranking, at_most: float) -> list[dict[str, float]]:
    """Return the scores of results whose relevance is bounded, in their order.

    The bound makes the best results equally relevant, so that their recency alone would order them. Each is therefore
    raised to the final score of all that score less without the bound.
    """
    bounded, free = [], []
    for result in results:
        relevance = min(result.relevance, at_most)
        less = (result.relevance - relevance) * relevance_share(ranking)
        other = clamp(result.final - less)
        bounded.append(_scores(ContextSource.SEMANTIC, ranking, relevance, result.recency, other))
        free.append(_scores(ContextSource.SEMANTIC, ranking, result.relevance, result.recency, result.final)["final"])
    least = 0.0
    for place in sorted(range(len(results)), key=lambda place: (free[place], -place)):
        least = bounded[place]["final"] = max(least, bounded[place]["final"])
    return bounded


def episodic(
    query: str, records: Sequence[Record], *, ranking: Ranking, wrapping: Wrapping, now: datetime
) -> list[ContextItem]:
    """Return decisions and tool calls as messages, in their order.

    Relevance is the share of the query's words of more than 3 characters in the text. Each record counts as having at
    least one of them, since an index matches inflected forms too.
    """
    asked = {word for word in terms(" ".join(episode_words(query))) if _is_sought(word) or " " in word}
    items = []
    for record in records:
        text = record.text()
        if not text:
            continue
        at = record.timestamp or record.updated_at or record.created_at
        relevance = max(share_of_words(asked, text), 1.0 / len(asked) if asked else 0.0)
        other = final_score(ranking, relevance=relevance, at=at, now=now, importance=record.importance)
        scores = _scores(ContextSource.EPISODIC, ranking, relevance, recency(at, now), other)
        about = {
            **{name: value for name, value in record.metadata.items() if name.endswith("_id")},
            "id": record.id,
            "kind": record.kind.value,
            "task_id": record.task_id,
            "tool_name": record.tool_name,
            "action_type": record.metadata.get("action_type"),
            "status": record.status,
            "timestamp": at.isoformat() if at else None,
            "trusted": record.trusted,
        }
        items.append(_item(ContextSource.EPISODIC, text, about, scores, wrapping))
    return items


def _scores(source: ContextSource, ranking: Ranking, relevance: float, fresh: float, other: float) -> dict[str, float]:
    """Return the three scores; the final one by the source's weights in the profile ``recency``, else ``other``."""
    of_relevance, of_recency = SHARES[source]
    by_recency = clamp(of_relevance * relevance + of_recency * fresh)
    return {
        "relevance": relevance,
        "recency": fresh,
        "final": by_recency if ranking is Ranking.RECENCY else other,
    }


def _item(
    source: ContextSource, text: str, about: dict[str, Any], scores: dict[str, float], wrapping: Wrapping
) -> ContextItem:
    message = wrapping.message(text, {"source": source.value, **about}, scores)
    return ContextItem(source=source, message=message, **scores)


def select(items: Iterable[ContextItem], *, min_final: float, limit: int) -> list[ContextItem]:
    """Return at most ``limit`` items whose final score is at least ``min_final``, best first, ties in their order."""
    kept = [item for item in items if item.final >= min_final]
    return sorted(kept, key=lambda item: -item.final)[:limit]


def scores_of(item: ContextItem) -> ContextScores:
    """Return the scores of an item."""
    return ContextScores(source=item.source, relevance=item.relevance, recency=item.recency, final=item.final)


def measured(found: Sequence[ContextItem], kept: Sequence[ContextItem]) -> ContextMetrics:
    """Return counts by source, and the mean scores of the items kept."""

    def mean(values: list[float]) -> float | None:
        return clamp(sum(values) / len(values)) if values else None

    def by_source(items: Sequence[ContextItem]) -> dict[ContextSource, int]:
        return {source: sum(item.source is source for item in items) for source in ContextSource}

    return ContextMetrics(
        found=len(found),
        kept=len(kept),
        found_by_source=by_source(found),
        kept_by_source=by_source(kept),
        mean_relevance=mean([item.relevance for item in kept]),
        mean_recency=mean([item.recency for item in kept]),
        mean_final=mean([item.final for item in kept]),
    )
