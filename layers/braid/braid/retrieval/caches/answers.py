"""Answers to questions that were asked before, and what was retrieved for contexts before.

What is kept is found again only while it is what would be worked out anew: under the tenant's write generation, until
validity next changes something that is stored, and until age could change the order. Ages themselves are worked out
again each time.
"""

from __future__ import annotations

import uuid
import zlib
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from braid.models import Answer, Frozen, Record, Timestamp
from braid.ranking.freshness import refreshed
from braid.retrieval.caches.namespace import key_of
from braid.retrieval.stages.states import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from braid.models import Query
    from braid.retrieval.caches.namespace import Generations, Shelf
    from braid.retrieval.context.selection import ContextRequest

FORMAT = 1
"""Changes when what is kept under the same key changes."""
MAX_UNPACKED_BYTES = 8 * 1024 * 1024
_Kept = TypeVar("_Kept", bound=Frozen)


class Retrieved(Frozen):
    """What a context was built from, the conversation aside; nothing of it was lost."""

    answer: Answer | None = None
    """Of the semantic search; None when it was left out."""
    episodes: tuple[Record, ...] = ()
    retrieved_at: Timestamp
    holds_until: Timestamp | None
    """As of an answer; None when it is not known."""


class AnswerCache:
    """Whole answers, by question.

    Parameters
    ----------
    shelf
        Where they lie.
    generations
        Of the tenants' writes.
    fingerprint
        Returns what else an answer depends on, settings and models, in one string.
    now
        Returns the present moment, in UTC.
    """

    def __init__(
        self,
        shelf: Shelf,
        generations: Generations,
        *,
        fingerprint: Callable[[], str],
        now: Callable[[], datetime],
    ) -> None:
        self._shelf = shelf
        self._generations = generations
        self._fingerprint = fingerprint
        self._now = now

    def answer(self, query: Query, retrieve: Callable[[Query], Answer]) -> Answer:
        """Return what is kept for an equal question, with a trace id and a latency of this call; else retrieve it anew.

        A degraded answer is not kept.
        """
        watch = Stopwatch()
        standing = self._generations.read(query.tenant_id)
        if standing is None:
            self._shelf.missed()
            return retrieve(query)
        key = key_of(FORMAT, self._fingerprint(), standing.number, query.model_dump_json())
        kept = self._shelf.find(query.tenant_id, key, self._read)
        if kept is not None:
            took_ms = watch.ms()
            return refreshed(kept, query.ranking, self._now()).model_copy(
                update={
                    "trace_id": str(uuid.uuid4()),
                    "latency_ms": {"cache": took_ms, "total": took_ms},
                    "cached": True,
                    "rerank_cost_usd": 0.0,
                }
            )
        answer = retrieve(query)
        if standing.settled and answer.holds_until is not None and not answer.degraded:
            left = (answer.holds_until - self._now()).total_seconds()
            self._shelf.keep(query.tenant_id, key, _pack(answer), at_most_s=left)
        return answer

    def _read(self, value: bytes) -> Answer | None:
        kept = _unpack(value, Answer)
        return kept if kept and _holds(kept.answered_at, self._now(), kept.holds_until) else None


class ContextCache:
    """What was retrieved for contexts, by question.

    Neither the conversation nor its scores are kept: they cost nothing to work out, and the same retrieval serves the
    next turn of it.
    """

    def __init__(
        self,
        shelf: Shelf,
        generations: Generations,
        *,
        fingerprint: Callable[[], str],
        now: Callable[[], datetime],
    ) -> None:
        self._shelf = shelf
        self._generations = generations
        self._fingerprint = fingerprint
        self._now = now

    def retrieved(
        self, request: ContextRequest, retrieve: Callable[[], tuple[_T, Retrieved | None]]
    ) -> tuple[_T | None, Retrieved | None]:
        """Return what is kept for an equal request, as of now, behind None; else what ``retrieve`` returns.

        Parameters
        ----------
        retrieve
            Returns whatever its caller wants, and what of it may be kept.
        """
        standing = self._generations.read(request.tenant_id)
        if standing is None:
            self._shelf.missed()
            return retrieve()
        asked = request.model_dump_json(exclude={"messages", "working_state", "role"})
        key = key_of(FORMAT, self._fingerprint(), standing.number, asked)
        kept = self._shelf.find(request.tenant_id, key, self._read)
        if kept is not None:
            if kept.answer is not None:
                answer = refreshed(kept.answer, request.ranking, self._now())
                kept = kept.model_copy(update={"answer": answer})
            return None, kept
        returned, found = retrieve()
        if standing.settled and found is not None and found.holds_until is not None:
            left = (found.holds_until - self._now()).total_seconds()
            self._shelf.keep(request.tenant_id, key, _pack(found), at_most_s=left)
        return returned, found

    def _read(self, value: bytes) -> Retrieved | None:
        kept = _unpack(value, Retrieved)
        return kept if kept and _holds(kept.retrieved_at, self._now(), kept.holds_until) else None


_T = TypeVar("_T")


def _holds(since: datetime, now: datetime, until: datetime | None) -> bool:
    return until is not None and since <= now < until


def _pack(kept: Frozen) -> bytes:
    return zlib.compress(kept.model_dump_json().encode())


def _unpack(value: bytes, kind: type[_Kept]) -> _Kept | None:
    """Read what was packed; what cannot be read, of another version or damaged, is nothing."""
    try:
        return kind.model_validate_json(zlib.decompressobj().decompress(value, MAX_UNPACKED_BYTES))
    except (zlib.error, ValidationError):
        return None
