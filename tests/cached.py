"""Stages over embedded engines with a clock that is moved by hand, once with every cache and once without any."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from braid.engines.embedded.cache_schemas_jobs_members import EmbeddedCache
from braid.models import Record, Relationship, Vertex
from braid.ports.cache import ResilientCache
from braid.settings import Settings

from tests.stages import NOW, DemoStages

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from braid.models import Answer
    from braid.ports.cache import Cache
    from braid.retrieval.context.message_selection import Context

DIFFERS = {"trace_id", "latency_ms", "cached", "rerank_cost_usd", "holds_until"}
"""Of an answer: what is of the call itself, and until when it holds, which is said more carefully when it is older."""


class Hands:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.moment: datetime = NOW

    def move(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)

    def now(self) -> datetime:
        return self.moment

    def seconds(self) -> float:
        return self.moment.timestamp()


class CachedStages(DemoStages):
    """Real stages, embedded engines, and a cache of the test's choice."""

    def __init__(self, settings: Settings, clock: Hands, kept_in: Cache | None = None) -> None:
        super().__init__(settings)
        self.clock = clock
        self.kept_in = kept_in

    @cached_property
    def cache(self) -> ResilientCache:
        return ResilientCache(self.kept_in or EmbeddedCache(self.store, clock=self.clock.now))

    def now(self) -> datetime:
        return self.clock.now()

    def without_caches(self) -> CachedStages:
        """Return the same engines and the same clock without any cache."""
        other = CachedStages(self.settings.uncached(), self.clock)
        vars(other).update(store=self.store, index=self.index, graph=self.graph)
        return other


def cached_stages(
    home: Path, kept_in: Cache | None = None, clock: Hands | None = None, **settings: Any
) -> CachedStages:
    return CachedStages(Settings(home=home, **settings), clock or Hands(), kept_in)


def said(answer: Answer) -> dict[str, Any]:
    """Return what an answer says, to the ninth decimal."""
    return rounded(answer.model_dump(mode="json", exclude=DIFFERS))


def shown(context: Context) -> dict[str, Any]:
    """Return what a context shows, to the ninth decimal."""
    return rounded(context.model_dump(mode="json"))


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 9)
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list | tuple) else value


def note(tenant: str, identity: str, text: str = "the pump of Harbour failed", **fields: Any) -> Record:
    return Record(id=identity, tenant_id=tenant, content=text, **fields)


def entity(tenant: str, identity: str, name: str, **fields: Any) -> Vertex:
    return Vertex(id=identity, tenant_id=tenant, name=name, has_record=True, **fields)


def edge(tenant: str, source: str, target: str, kind: str = "CAUSES", **fields: Any) -> Relationship:
    return Relationship(tenant_id=tenant, source=source, type=kind, target=target, **fields)
