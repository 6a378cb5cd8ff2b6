"""Caches of answers and of contexts' retrievals, and the set of caches that the settings switch on.

A write invalidates them: it advances the tenant's write generation (:mod:`braid.ports.cache`; usually in
``transaction`` of :mod:`braid.opened_engines`), which is a part of each key. A value expires when something in it
ceases to be valid, or when ageing could change its order. Recency scores are recomputed at each hit.
"""

from __future__ import annotations

import uuid
import zlib
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Protocol, TypeVar

from pydantic import Field, ValidationError

from braid.deadline import Stopwatch
from braid.models import Answer, Frozen, Record, Timestamp
from braid.ranking.scoring import refreshed
from braid.retrieval.caches.graph import GraphCache
from braid.retrieval.caches.keys_and_generations import (
    CacheCounts,
    CacheName,
    CacheNamespace,
    EmbeddingCache,
    WriteGenerations,
    key_of,
)
from braid.settings import EngineKind
from braid.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from braid.models import Query, Ranking
    from braid.models.embedding_models import Profiles
    from braid.ports.cache import ResilientCache
    from braid.ports.knowledge_graph import KnowledgeGraph
    from braid.settings import Settings
    from braid.settings.configuration_files import Fitted

    _Span = tuple[datetime, datetime | None]


FORMAT = 1
"""Version of the stored format; a part of every key."""
MAX_UNPACKED_BYTES = 8 * 1024 * 1024
_Kept = TypeVar("_Kept", bound=Frozen)


class Retrieved(Frozen):
    """Retrieval for a context without its conversation; cached if no source failed."""

    answer: Answer | None = None
    """Answer of the semantic search; None when it was left out, or failed."""
    episodes: tuple[Record, ...] = ()
    degraded: Annotated[tuple[str, ...], Field(exclude=True)] = ()
    """Sources that failed, and stages of the search that did."""
    anything_left: Annotated[bool, Field(exclude=True)] = True
    """Whether any source answered, or none was needed."""
    retrieved_at: Timestamp
    holds_until: Timestamp | None = None
    """Expiry: when it may change without a write, as of an answer; None when that is not known, or a source failed."""


class _GenerationCache:
    """Cache of values that are valid under one write generation.

    Parameters
    ----------
    namespace
        Where the values are stored.
    generations
        Write generations of the tenants.
    fingerprint
        Returns a digest of everything else that a value depends on: settings and models.
    now
        Returns the present moment, in UTC.
    """

    def __init__(
        self,
        namespace: CacheNamespace,
        generations: WriteGenerations,
        *,
        fingerprint: Callable[[], str],
        now: Callable[[], datetime],
    ) -> None:
        self._namespace = namespace
        self._generations = generations
        self._fingerprint = fingerprint
        self._now = now

    def _kept_or_made(
        self,
        tenant_id: str,
        request: str,
        kind: type[_Kept],
        *,
        span: Callable[[_Kept], _Span],
        refresh: Callable[[_Kept], _Kept],
        make: Callable[[], _Kept],
    ) -> _Kept:
        """Return the cached value of an equal request as ``refresh`` returns it; else make one, and cache it.

        It is not cached if the write generation is not known, not settled, or over by then: the value would not be
        found again, and the tenant may have been deleted meanwhile, with all that was cached of it.

        Parameters
        ----------
        request
            All inputs of the value besides stored items.
        span
            Returns since when a value is valid, and when it expires: never valid, and not cached, if None.
        """

        def read(value: bytes) -> _Kept | None:
            kept = _unpack(value, kind)
            if kept is None:
                return None
            since, until = span(kept)
            return kept if until is not None and since <= self._now() < until else None

        generation = self._generations.read(tenant_id)
        if generation is None:
            self._namespace.missed()
            return make()
        key = key_of(FORMAT, self._fingerprint(), generation.number, request)
        kept = self._namespace.find(tenant_id, key, read)
        if kept is not None:
            return refresh(kept)
        made = make()
        _, until = span(made)
        if generation.settled and until is not None:
            now = self._generations.read(tenant_id)
            if now is not None and now.number == generation.number:
                left = (until - self._now()).total_seconds()
                self._namespace.keep(tenant_id, key, _pack(made), at_most_s=left)
        return made


class AnswerCache(_GenerationCache):
    """Whole answers, by question."""

    def answer(self, query: Query, retrieve: Callable[[Query], Answer]) -> Answer:
        """Return the cached answer to an equal question, with a new trace id and latency; else retrieve one.

        Degraded answers, whose expiry is not known, are not cached.
        """
        watch = Stopwatch()

        def refresh(kept: Answer) -> Answer:
            took_ms = watch.ms()
            return refreshed(kept, query.ranking, self._now()).altered(
                trace_id=str(uuid.uuid4()),
                latency_ms={"cache": took_ms, "total": took_ms},
                cached=True,
                rerank_cost_usd=0.0,
            )

        return self._kept_or_made(
            query.tenant_id,
            query.model_dump_json(),
            Answer,
            span=lambda answer: (answer.answered_at, answer.holds_until),
            refresh=refresh,
            make=lambda: retrieve(query),
        )


class ContextCache(_GenerationCache):
    """Retrievals for contexts, by question.

    The conversation and its scores are not cached: they are cheap to compute, and the same retrieval serves the next
    turn.
    """

    def retrieved(self, tenant_id: str, request: str, ranking: Ranking, retrieve: Callable[[], Retrieved]) -> Retrieved:
        """Return the cached retrieval of an equal request, with recency as of now; else ``retrieve()``.

        ``request`` has all inputs of the retrieval besides stored items.
        """

        def refresh(kept: Retrieved) -> Retrieved:
            answer = refreshed(kept.answer, ranking, self._now()) if kept.answer else None
            return kept.altered(answer=answer)

        return self._kept_or_made(
            tenant_id,
            request,
            Retrieved,
            span=lambda found: (found.retrieved_at, found.holds_until),
            refresh=refresh,
            make=retrieve,
        )


def _pack(kept: Frozen) -> bytes:
    return zlib.compress(kept.model_dump_json().encode(), zlib.Z_BEST_SPEED)


def _unpack(value: bytes, kind: type[_Kept]) -> _Kept | None:
    """Return the value that :func:`_pack` packed; None if it is damaged or of another version."""
    try:
        return kind.model_validate_json(zlib.decompressobj().decompress(value, MAX_UNPACKED_BYTES))
    except (zlib.error, ValidationError):
        return None


class CacheSource(Protocol):
    """The settings, stores and clock that caches work with."""

    @property
    def settings(self) -> Settings:
        """Settings, among them the time to live of each cache; 0 switches it off."""

    @property
    def cache(self) -> ResilientCache:
        """The store of cached values."""

    @property
    def graph(self) -> KnowledgeGraph:
        """The knowledge graph."""

    @property
    def graph_reader(self) -> KnowledgeGraph:
        """The knowledge graph as read replicas have it, a little behind the writes."""

    @property
    def fitted(self) -> Fitted:
        """The parameters of fusion, on which answers depend."""

    @property
    def profiles(self) -> Profiles:
        """The model profiles, on which answers depend."""

    @property
    def now(self) -> Callable[[], datetime]:
        """Returns the present moment, in UTC."""


class Caches:
    """The caches; each is None where it is switched off or no store for it is configured.

    Parameters
    ----------
    source
        The application whose answers are cached.
    """

    def __init__(self, source: CacheSource) -> None:
        self._source = source
        self._settings = source.settings
        self.counts = CacheCounts()
        self._has_store = self._settings.engine is EngineKind.EMBEDDED or bool(self._settings.cache_table)

    @cached_property
    def embeddings(self) -> EmbeddingCache | None:
        """Vectors of questions."""
        namespace = self._namespace(CacheName.EMBEDDING, self._settings.cache_embedding_s)
        return EmbeddingCache(namespace) if namespace else None

    @cached_property
    def answers(self) -> AnswerCache | None:
        """Answers to questions."""
        namespace = self._namespace(CacheName.ANSWER, self._settings.cache_result_s)
        if namespace is None:
            return None
        return AnswerCache(namespace, self._generations, fingerprint=self.fingerprint, now=self._source.now)

    @cached_property
    def contexts(self) -> ContextCache | None:
        """Retrievals for contexts."""
        namespace = self._namespace(CacheName.CONTEXT, self._settings.cache_context_s)
        if namespace is None:
            return None
        return ContextCache(namespace, self._generations, fingerprint=self.fingerprint, now=self._source.now)

    def graph(self, tenant_id: str) -> KnowledgeGraph:
        """Return the graph behind this process's cache, for one stage.

        Read replicas are used only once they have every acknowledged write.
        """
        cache = self._graph_cache
        generation = self._generations.read(tenant_id) if cache else None
        graph = self._source.graph_reader if generation and generation.settled else self._source.graph
        return cache.of(graph, tenant_id, generation) if cache else graph

    def fingerprint(self) -> str:
        """Return a digest of all that an answer depends on besides question and store: settings, models, fusion."""
        return self._fingerprint

    @cached_property
    def _graph_cache(self) -> GraphCache | None:
        entries = self._settings.cache_graph_entries
        return GraphCache(entries, self.counts) if entries and self._has_store else None

    @cached_property
    def _generations(self) -> WriteGenerations:
        return WriteGenerations(self._source.cache, settle_s=self._settings.settle_s())

    @cached_property
    def _fingerprint(self) -> str:
        # An irrelevant setting in the key only costs misses; a missing one would return wrong answers.
        settings = self._settings.model_dump_json(exclude={"voyage_api_key", "cursor_key"})
        return key_of(__version__, settings, self._source.profiles.model_dump_json(), self._source.fitted.digest)

    def _namespace(self, name: CacheName, ttl_s: int) -> CacheNamespace | None:
        if not (ttl_s and self._has_store):
            return None
        return CacheNamespace(name, self._source.cache, ttl_s=ttl_s, counts=self.counts)
