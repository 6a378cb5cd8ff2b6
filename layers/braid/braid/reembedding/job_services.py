"""The services and limits of re-embedding, and the active model profile."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from braid.models import Frozen
from braid.models.embedding_models import AUTO, models_of, space_of
from braid.ports.batches import batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from datetime import datetime

    from braid.models import Record
    from braid.models.embedding_models import ModelConfig, Profiles
    from braid.ports.encoder import Encoder
    from braid.ports.reembedding import IndexMigration, JobStore
    from braid.ports.schema_registry import SchemaRegistry
    from braid.ports.search_index import SearchIndex


READ_AT_ONCE: Final = 25
"""Most records whose texts are read together: one of 1 MB takes up to 8 MB while it is read, and a tenant that has many
would end the process, and with it the job of all tenants."""


class RunBudget(Frozen):
    """Bounds of one run; None is no bound."""

    texts: int | None = None
    seconds: float | None = None

    def spent(self, *, texts: int, seconds: float) -> bool:
        """Return whether either bound is reached."""
        done = ((self.texts, texts), (self.seconds, seconds))
        return any(bound is not None and amount >= bound for bound, amount in done)


@dataclass(frozen=True)
class ReembeddingLimits:
    """Limits of re-embedding, from the settings."""

    page: int = 100
    """Records that are read, embedded and written together."""
    texts_per_s: float = 0.0
    """Most records embedded a second, to leave room for questions; 0 means as fast as it goes."""
    min_drift: int = 2
    """Records at least this many schema versions behind are re-embedded."""
    sample: int = 100
    """Number of questions that a switch is verified with."""
    tolerance: float = 0.01
    """Allowed loss of recall."""
    writers: int = 0
    """Most pages that a workflow embeds at once; 0 sets no limit."""
    writers_of_a_tenant: int = 0
    """The same for a job of one tenant, which leaves room to others."""
    pages: int = 800
    """Most pages that a step lists: an execution of a workflow has 25,000 events, and each step takes some fifteen."""


def raise_version(record: Record, current: int) -> Record:
    """Return a record with the current schema version and no other change."""
    return record.altered(schema_version=max(record.schema_version, current))


@dataclass(frozen=True)
class Services:
    """The services that re-embedding uses."""

    index: SearchIndex
    migration: IndexMigration
    jobs: JobStore
    schemas: SchemaRegistry
    advance: Callable[[str], int]
    """Begins a new write generation of a tenant, which invalidates its cached answers."""
    encoder_for: Callable[[ModelConfig], Encoder]
    profiles: Profiles
    profile: str
    """Active profile of an index that was never migrated."""
    now: Callable[[], datetime]
    seconds: Callable[[], float]
    """Monotonic clock, in seconds."""
    sleep: Callable[[float], None]
    writer: Callable[[str | None], AbstractContextManager[object]] = nullcontext
    """Holds a slot of bulk writes, for a tenant or, with None, for the operator; raises QueueFull if none is free."""
    forced_model: str = AUTO
    limits: ReembeddingLimits = field(default_factory=ReembeddingLimits)
    transform: Callable[[Record, int], Record] = raise_version
    """Converts a record of an older schema version to the current one, before it is embedded."""

    def moving(self, tenant_id: str | None, *, back: bool = False) -> Services:
        """Return the services that move one tenant to an index of its own, or ``back``; these services for None."""
        return self if tenant_id is None else replace(self, migration=self.migration.of_tenant(tenant_id, back=back))

    def read(self, tenant_id: str, ids: Iterable[str]) -> Iterator[Record]:
        """Yield the records of these ids that exist, in order and without vectors, :data:`READ_AT_ONCE` at a time."""
        for some in batches(ids, READ_AT_ONCE):
            yield from self.index.get_many(tenant_id, some)

    def active_profile(self) -> str:
        """Return the profile that embeds questions."""
        return self.migration.serving().active or self.profile

    def models(self) -> tuple[ModelConfig, ...]:
        """Return the models of every served profile: a record needs a vector of each."""
        served = self.migration.serving().served(self.profile)
        found = [model for name in served for model in models_of(self.profiles, name, self.forced_model)]
        return tuple({model.id: model for model in found}.values())

    def active_models(self) -> tuple[ModelConfig, ...]:
        """Return the models that embed questions now."""
        return models_of(self.profiles, self.active_profile(), self.forced_model)

    def spaces_of(self, profile: str) -> list[str]:
        """Return the embedding spaces of a profile's models."""
        return [space_of(model) for model in models_of(self.profiles, profile)]
