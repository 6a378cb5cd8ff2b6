"""The caches that the settings switch on, over the engines' own cache."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from braid import __version__
from braid.retrieval.caches.answers import AnswerCache, ContextCache
from braid.retrieval.caches.graph import GraphCache
from braid.retrieval.caches.namespace import (
    CacheCounts,
    CacheName,
    CacheNamespace,
    EmbeddingCache,
    WriteGenerations,
    key_of,
)
from braid.settings import EngineKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from braid.models.model_profiles import Profiles
    from braid.ports.cache import ResilientCache
    from braid.ports.knowledge_graph import KnowledgeGraph
    from braid.settings import Settings
    from braid.settings.fusion_parameters import Fitted


class CacheSource(Protocol):
    """The settings, stores and clock that caches work with."""

    @property
    def settings(self) -> Settings:
        """Which caches are on, and for how long they keep values."""

    @property
    def cache(self) -> ResilientCache:
        """The store of cached values."""

    @property
    def graph(self) -> KnowledgeGraph:
        """The knowledge graph."""

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
    """Each cache, or None where it is switched off or there is nothing to keep it in.

    Parameters
    ----------
    source
        The application whose answers are cached.
    """

    def __init__(self, source: CacheSource) -> None:
        self._source = source
        self._settings = source.settings
        self.counts = CacheCounts()
        self._somewhere = self._settings.engine is EngineKind.EMBEDDED or bool(self._settings.cache_table)

    @cached_property
    def embeddings(self) -> EmbeddingCache | None:
        """Vectors of questions."""
        namespace = self._namespace(CacheName.EMBEDDING, self._settings.cache_embedding_s)
        return EmbeddingCache(namespace) if namespace else None

    @cached_property
    def answers(self) -> AnswerCache | None:
        """Answers to questions."""
        namespace = self._namespace(CacheName.RESULT, self._settings.cache_result_s)
        if namespace is None:
            return None
        return AnswerCache(namespace, self._generations, fingerprint=self.fingerprint, now=self._source.now)

    @cached_property
    def contexts(self) -> ContextCache | None:
        """What was retrieved for contexts."""
        namespace = self._namespace(CacheName.CONTEXT, self._settings.cache_context_s)
        if namespace is None:
            return None
        return ContextCache(namespace, self._generations, fingerprint=self.fingerprint, now=self._source.now)

    def graph(self, tenant_id: str) -> KnowledgeGraph:
        """Return the graph as one stage asks it, behind this process's cache of its answers."""
        graph, cache = self._source.graph, self._graph_cache
        return cache.of(graph, tenant_id, self._generations.read(tenant_id)) if cache else graph

    def fingerprint(self) -> str:
        """Return what an answer depends on besides question and store: settings, models, fitted parameters."""
        return self._fingerprint

    @cached_property
    def _graph_cache(self) -> GraphCache | None:
        entries = self._settings.cache_graph_entries
        return GraphCache(entries, self.counts) if entries and self._somewhere else None

    @cached_property
    def _generations(self) -> WriteGenerations:
        return WriteGenerations(self._source.cache, settle_s=self._settings.settle_s())

    @cached_property
    def _fingerprint(self) -> str:
        # A setting too many only costs misses; one too few would return wrong answers.
        settings = self._settings.model_dump_json(exclude={"voyage_api_key"})
        return key_of(__version__, settings, self._source.profiles.model_dump_json(), self._source.fitted.digest)

    def _namespace(self, name: CacheName, ttl_s: int) -> CacheNamespace | None:
        if not (ttl_s and self._somewhere):
            return None
        return CacheNamespace(name, self._source.cache, ttl_s=ttl_s, counts=self.counts)
