"""A memory over an embedded index, with a search that answers what a test says and a clock that stands still."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from braid.engines.embedded.cache_schemas_jobs_members import EmbeddedSchemaRegistry
from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.ports.cache import NoCache, ResilientCache
from braid.retrieval.context.building import ContextLimits, build_context
from braid.retrieval.context.episodes import record_decision, record_tool_call
from braid.retrieval.context.message_selection import Context, ContextSource
from braid.retrieval.context.text_fences import unfenced

from tests.fakes import NOW, TENANT, fused, searched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from braid.engines.embedded.store import EmbeddedStore
    from braid.models import Answer, Query, Record
    from braid.ports.search_index import SearchIndex
    from braid.retrieval.caches.answers import ContextCache

QUERY = "checkout gateway timeout"
WORKING, SEMANTIC, EPISODIC = ContextSource


def no_answer(_query: Query) -> Answer:
    return fused()


@dataclass
class Remembered:
    """A memory over given engines; the clock stands still unless it is moved."""

    store: EmbeddedStore
    reply: Callable[[Query], Answer] = no_answer
    context_limits: ContextLimits = field(default_factory=ContextLimits)
    moment: datetime = NOW
    replaced: SearchIndex | None = None
    asked: list[Query] = field(default_factory=list)

    @cached_property
    def _own(self) -> EmbeddedSearchIndex:
        return EmbeddedSearchIndex(self.store, {})

    @property
    def index(self) -> SearchIndex:
        return self.replaced or self._own

    @cached_property
    def graph(self) -> EmbeddedKnowledgeGraph:
        return EmbeddedKnowledgeGraph(self.store)

    @contextmanager
    def transaction(self, tenant_id: str) -> Iterator[None]:
        with self.store.transaction():
            yield
            self.cache.advance(tenant_id)

    @cached_property
    def schemas(self) -> EmbeddedSchemaRegistry:
        return EmbeddedSchemaRegistry(self.store)

    @cached_property
    def cache(self) -> ResilientCache:
        return ResilientCache(NoCache())

    context_cache: ContextCache | None = None

    def answer(self, query: Query) -> Answer:
        self.asked.append(query)
        return self.reply(query)

    def now(self) -> datetime:
        return self.moment


def decide(memory: Remembered, text: str, *, hours_ago: float = 0.0, **fields: Any) -> Record:
    at = NOW - timedelta(hours=hours_ago)
    return record_decision(text, tenant_id=TENANT, store=memory, timestamp=at, **fields)


def call_tool(memory: Remembered, tool: str, text: str, *, hours_ago: float = 0.0, **fields: Any) -> Record:
    at = NOW - timedelta(hours=hours_ago)
    return record_tool_call(tool, text, tenant_id=TENANT, store=memory, timestamp=at, **fields)


def build(
    memory: Remembered, messages: list[dict[str, Any]] | None = None, query: str = QUERY, **fields: Any
) -> Context:
    return build_context(query, messages or [], tenant_id=TENANT, memory=memory, **fields)


def says(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


def quoted(message: dict[str, Any]) -> str:
    """Return the text inside a retrieved message's fence."""
    return unfenced(message["content"], message["metadata"]["fence"])


def sources(built: Context) -> list[str]:
    return [message.get("metadata", {}).get("source", "working_state") for message in built.messages]


def answering(*records: Record, score: float = 0.9, **pieces: Any) -> Callable[[Query], Answer]:
    """Return a search that finds these records, the first with the score and each next with a little less."""

    def answer(query: Query) -> Answer:
        scored = [(item.id, score - place / 100) for place, item in enumerate(records)]
        return fused(records, query=query, searched=searched(*scored), **pieces)

    return answer


def failing(error: Exception) -> Callable[[Query], Answer]:
    def answer(_query: Query) -> Answer:
        raise error

    return answer
