"""Builds the context of a model's next answer from the conversation, stored records and episodes.

Untrusted items are left out, unless the request asks for them; ``message_selection`` then cuts the others to the
request's size. Like :mod:`braid.retrieval.pipeline`, this module uses ports and no engine.
"""

from __future__ import annotations

import logging
import secrets
from contextvars import copy_context
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from braid.errors import InvalidRequest, StoreError, as_invalid_request
from braid.kept_threads import KeptThreads
from braid.models import ContextRole, Filters, Kind, Query, Ranking, earliest
from braid.models.metadata_filters import typed
from braid.ranking.scoring import FOREVER
from braid.retrieval.caches.answers import Retrieved
from braid.retrieval.context import message_selection
from braid.retrieval.context.episodes import EPISODES, search_episodes
from braid.retrieval.context.message_selection import Context, ContextRequest, ContextSource
from braid.retrieval.context.text_fences import Wrapping

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date, datetime

    from braid.models import Answer, Record
    from braid.ports.search_index import SearchIndex
    from braid.retrieval.caches.answers import ContextCache
    from braid.retrieval.context.message_selection import ContextItem
    from braid.settings import Settings

SEMANTIC_KINDS = tuple(kind for kind in Kind if kind not in EPISODES)
"""Kinds of the semantic source: all but episodes, which have a source of their own."""
_LOG = logging.getLogger(__name__)
_POOL = KeptThreads(64, "braid-context")
"""Threads that search episodes while records are searched."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class ContextLimits:
    """Sources, sizes and thresholds of contexts, with the settings' documented defaults."""

    enabled: bool = True
    working_state: bool = True
    semantic: bool = True
    episodic: bool = True
    window: int = 10
    semantic_limit: int = 5
    episodic_limit: int = 5
    min_final: float = 0.5
    limit: int = 10
    fence: bool = True
    role: ContextRole = ContextRole.ASSISTANT

    @classmethod
    def of(cls, settings: Settings) -> ContextLimits:
        """Return the limits of the settings ``context_…``."""
        return cls(**{field.name: getattr(settings, f"context_{field.name}") for field in fields(cls)})


class Memory(Protocol):
    """Retrieval behind contexts; :class:`braid.app.Application` is one."""

    @property
    def index(self) -> SearchIndex:
        """The search index, which has the episodes."""

    @property
    def context_limits(self) -> ContextLimits:
        """Limits of contexts, by the settings."""

    @property
    def context_cache(self) -> ContextCache | None:
        """The cache of retrievals for contexts; None when it is off."""

    def answer(self, query: Query) -> Answer:
        """Answer a question by the retrieval workflow."""

    def now(self) -> datetime:
        """Return the present moment, in UTC."""


def build_context(
    query: str,
    messages: Sequence[dict[str, Any]],
    task_id: str | None = None,
    *,
    tenant_id: str,
    memory: Memory,
    tool_name: str | None = None,
    working_state: bool = True,
    semantic: bool = True,
    episodic: bool = True,
    ranking: Ranking = Ranking.RECENCY,
    role: ContextRole | None = None,
    untrusted: bool = False,
    metadata: object = (),
    as_of: str | date | None = None,
    min_score: float | None = None,
    nonce: str | None = None,
) -> Context:
    """Return messages to show a model before it answers, of the conversation, stored records and episodes.

    Raises InvalidRequest, naming the argument, if an argument is invalid. The failure of a source raises nothing.

    Parameters
    ----------
    query
        The next question, 1 to 10,000 characters.
    messages
        The conversation so far, oldest first, in any chat format; messages come back unchanged.
    task_id, tool_name
        Only episodes of this task, of this tool.
    tenant_id
        The tenant.
    memory
        Retrieval, such as :func:`braid.app.application` returns.
    working_state, semantic, episodic
        Whether to use this source; one that the settings switch off stays off.
    ranking
        Ranking profile, which combines relevance and recency to the final score.
    role
        Role of messages with retrieved text; the settings' when not given.
    untrusted
        Whether records that are marked as not trusted may be shown.
    metadata
        Conditions on the metadata of stored records and episodes, as :attr:`braid.models.Filters.metadata` takes them.
    as_of
        Only what was valid at this date or time, as of a search; now when not given.
    min_score
        Final score below which nothing is shown, 0 to 1; the settings' when not given.
    nonce
        Nonce of the keys of the fences around retrieved text, a secret from everyone who writes records; by default
        random. Equal texts have equal keys under equal nonces.
    """
    with as_invalid_request():
        request = ContextRequest(
            query=query,
            tenant_id=tenant_id,
            messages=tuple(messages),
            task_id=task_id,
            tool_name=tool_name,
            working_state=working_state,
            semantic=semantic,
            episodic=episodic,
            ranking=ranking,
            role=role,
            untrusted=untrusted,
            metadata=metadata,
            as_of=as_of,
            min_score=min_score,
        )
    return run(request, memory, nonce=nonce)


def run(request: ContextRequest, memory: Memory, *, nonce: str | None = None) -> Context:
    """Build one context; see :func:`build_context`.

    If all retrieval fails, the newest messages are returned in the conversation's order.
    """
    limits = memory.context_limits
    if not limits.enabled:
        return Context(messages=request.messages, enabled=False)
    now = memory.now()
    recent: list[ContextItem] = []
    if request.working_state and limits.working_state:
        recent = message_selection.working_state(
            request.query, request.messages, window=limits.window, ranking=request.ranking, now=now
        )
    retrieved = _retrieve(request, memory, limits, now)
    if retrieved.degraded and not retrieved.anything_left:
        found, kept = recent, list(reversed(recent))
    else:
        answer = retrieved.answer
        most = message_selection.most_relevant(answer) if answer else 1.0
        # An index that is older than the mark of trust does not filter by it.
        results = [result for result in answer.results if result.trusted or request.untrusted] if answer else []
        episodes = [episode for episode in retrieved.episodes if episode.trusted or request.untrusted]
        wrapping = Wrapping(
            tenant_id=request.tenant_id,
            role=request.role or limits.role,
            nonce=(nonce or secrets.token_hex(16)) if limits.fence else None,
        )
        found = [
            *recent,
            *message_selection.semantic(results, ranking=request.ranking, wrapping=wrapping, at_most=most),
            *message_selection.episodic(request.query, episodes, ranking=request.ranking, wrapping=wrapping, now=now),
        ]
        least = limits.min_final if request.min_score is None else request.min_score
        kept = message_selection.select(found, min_final=least, limit=limits.limit)
    return Context(
        messages=tuple(item.message for item in kept),
        scores=tuple(message_selection.scores_of(item) for item in kept),
        degraded=retrieved.degraded,
        metrics=message_selection.measured(found, kept),
    )


def measures(built: Context) -> dict[str, int | float]:
    """Return the metrics of one context, by name."""
    figures = built.metrics
    counts = {"ContextFound": figures.found, "ContextKept": figures.kept, "ContextDegraded": int(bool(built.degraded))}
    for source in ContextSource:
        name = source.value.title().replace("_", "")
        counts[f"ContextFound{name}"] = figures.found_by_source.get(source, 0)
        counts[f"ContextKept{name}"] = figures.kept_by_source.get(source, 0)
    means = {
        "ContextRelevance": figures.mean_relevance,
        "ContextRecency": figures.mean_recency,
        "ContextFinal": figures.mean_final,
    }
    return {**counts, **{name: mean for name, mean in means.items() if mean is not None}}


def _retrieve(request: ContextRequest, memory: Memory, limits: ContextLimits, now: datetime) -> Retrieved:
    """Return the cached retrieval of an equal request, or retrieve anew."""
    asked = request.altered(
        semantic=request.semantic and limits.semantic, episodic=request.episodic and limits.episodic
    )
    before = memory.context_cache
    anew = partial(_ask, asked, memory, limits, now)
    if before is None or not (asked.semantic or asked.episodic):
        return anew()
    without_conversation = asked.model_dump_json(exclude={"messages", "working_state", "role", "min_score"})
    return before.retrieved(asked.tenant_id, without_conversation, asked.ranking, anew)


def _ask(request: ContextRequest, memory: Memory, limits: ContextLimits, now: datetime) -> Retrieved:
    """Retrieve from the sources at the same time."""
    if not (request.semantic or request.episodic):
        return Retrieved(retrieved_at=now)
    _attempt("index", lambda: memory.index)  # opened before two threads use it
    request = _with_known_kinds(request, memory)
    answer: Answer | None = None
    episodes: list[Record] | None = None
    degraded: list[str] = []
    listing = None
    if request.episodic:
        find = partial(_episodic, request, memory, limits, now)
        listing = _POOL.submit(copy_context().run, _attempt, ContextSource.EPISODIC.value, find)
    if request.semantic:
        answer = _attempt(ContextSource.SEMANTIC.value, partial(_semantic, request, memory, limits))
        stages = [f"{ContextSource.SEMANTIC.value}.{stage}" for stage in answer.degraded] if answer else None
        degraded += [ContextSource.SEMANTIC.value] if stages is None else stages
    if listing is not None:
        episodes = listing.result()
        degraded += [ContextSource.EPISODIC.value] if episodes is None else []
    return Retrieved(
        answer=answer,
        episodes=tuple(episodes or ()),
        degraded=tuple(degraded),
        anything_left=answer is not None or episodes is not None,
        retrieved_at=now,
        holds_until=None if degraded else _holds_until(request, answer, episodes or ()),
    )


def _with_known_kinds(request: ContextRequest, memory: Memory) -> ContextRequest:
    """Return a request with its conditions' values as their fields' types. Raises InvalidRequest if one cannot be."""
    fields = list(dict.fromkeys(condition.field for condition in request.metadata))
    of = partial(memory.index.field_kinds, request.tenant_id, fields, trusted_only=not request.untrusted)
    kinds = _attempt("the fields' kinds", of) if fields else {}
    try:
        return request.altered(metadata=typed(request.metadata, kinds or {}))
    except InvalidRequest as error:
        raise InvalidRequest(str(error).removeprefix("filters."), field="metadata") from None


def _holds_until(request: ContextRequest, answer: Answer | None, episodes: Sequence[Record]) -> datetime | None:
    """Return the expiry of a retrieval without failures; None if its answer's is not known."""
    if answer is not None and answer.holds_until is None:
        return None
    # Validity at a given time does not change.
    ends = [] if request.as_of else [episode.invalid_at for episode in episodes]
    return earliest([FOREVER, *ends, answer.holds_until if answer else None])


def _attempt(name: str, ask: Callable[[], _T]) -> _T | None:
    try:
        return ask()
    except Exception as error:  # noqa: BLE001 - a lost source never fails the context
        # The type alone: a library's message may contain the question.
        _LOG.warning("a context without %s: %s", name, type(error).__name__)
        return None


def _semantic(request: ContextRequest, memory: Memory, limits: ContextLimits) -> Answer:
    """Search the stored records. Raises StoreError if their texts cannot be read: a context needs them."""
    answer = memory.answer(
        Query(
            text=request.query,
            tenant_id=request.tenant_id,
            top_k=limits.semantic_limit,
            ranking=request.ranking,
            as_of=request.as_of,
            filters=Filters(kinds=SEMANTIC_KINDS, trusted_only=not request.untrusted, metadata=request.metadata),
        )
    )
    if "text" in answer.degraded:
        raise StoreError("the records could not be read")
    return answer


def _episodic(request: ContextRequest, memory: Memory, limits: ContextLimits, now: datetime) -> list[Record]:
    return search_episodes(
        memory.index,
        request.query,
        tenant_id=request.tenant_id,
        as_of=request.as_of or now,
        limit=limits.episodic_limit,
        task_id=request.task_id,
        tool_name=request.tool_name,
        trusted_only=not request.untrusted,
        metadata=request.metadata,
    )
