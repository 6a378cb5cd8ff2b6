"""Chooses and opens the engine of each port by the settings.

Each is imported and opened on first use, so that a function pays only for the engines of its stage.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from braid.errors import ConfigurationError
from braid.models import RerankerKind
from braid.models.model_profiles import AUTO, Profiles, models_of, resolve
from braid.settings import EngineKind
from braid.settings.config_files import load_profiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from braid.engines.embedded.store import EmbeddedStore
    from braid.engines.rerankers.selection import Rerankers
    from braid.models import EmbeddingType
    from braid.models.model_profiles import ModelConfig
    from braid.ports.cache import Cache, ResilientCache
    from braid.ports.encoder import Encoder
    from braid.ports.index_migration import IndexMigration, MigrationState
    from braid.ports.job_store import JobStore
    from braid.ports.knowledge_graph import WritableGraph
    from braid.ports.members import MembershipStore
    from braid.ports.message_queue import Queue
    from braid.ports.object_store import ObjectStore
    from braid.ports.reranker import Reranker
    from braid.ports.schema_registry import SchemaRegistry
    from braid.ports.search_index import SearchIndex
    from braid.reembedding import Services
    from braid.reembedding.served_profiles import ServedProfiles
    from braid.models import GraphSource
    from braid.ports.name_finder import NameFinder
    from braid.settings import Settings


class Engines:
    """The engine of each port, and the models, opened on first use."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._encoders: dict[str, Encoder] = {}
        self._opening = threading.RLock()

    def close(self) -> None:
        """Close the engines that are open; none may be used afterwards."""
        for name in ("imports", "index", "moves", "graph", "store"):
            close = getattr(vars(self).get(name), "close", None)
            if close:
                close()

    @cached_property
    def store(self) -> EmbeddedStore:
        """The embedded engines' file."""
        from braid.engines.embedded.store import EmbeddedStore

        with self._opening:
            return EmbeddedStore(self.settings.home)

    @contextmanager
    def transaction(self, tenant_id: str) -> Iterator[None]:
        """Run writes under a new write generation: in one transaction if embedded, else one by one."""
        if self.settings.engine is EngineKind.EMBEDDED:
            with self.store.transaction():
                yield
                self.cache.advance(tenant_id)
            return
        try:
            yield
        finally:
            # Also after a write that failed: a part of it may be stored, and earlier answers are out of date.
            self.cache.advance(tenant_id)

    @property
    def notes(self) -> ObjectStore | None:
        """The store that notes writes in progress; None where writes are one transaction, or without a bucket."""
        return self.objects if self.settings.engine is EngineKind.AWS and self.settings.objects_bucket else None

    def version(self, tenant_id: str) -> int | None:
        """Return the tenant's write generation; None where stores do not commit in one transaction."""
        return self.cache.generation(tenant_id) if self.settings.engine is EngineKind.EMBEDDED else None

    @cached_property
    def index(self) -> SearchIndex:
        """The search index."""
        if self.settings.engine is EngineKind.EMBEDDED:
            with self._opening:
                _import_numpy()
                from braid.engines.embedded.search.index import EmbeddedSearchIndex

                return EmbeddedSearchIndex(
                    self.store, self.profiles.dimensions(), question_s=self.settings.embedded_question_s
                )
        from braid.engines.opensearch.index import OpenSearchIndex

        return OpenSearchIndex.connect(self.settings, self.profiles.dimensions())

    @cached_property
    def graph(self) -> WritableGraph:
        """The knowledge graph."""
        if self.settings.engine is EngineKind.EMBEDDED:
            with self._opening:
                _import_numpy()
                from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph

                return EmbeddedKnowledgeGraph(self.store, question_s=self.settings.embedded_question_s)
        from braid.engines.neptune.knowledge_graph import GremlinGraph

        return GremlinGraph.connect(self.settings)

    @cached_property
    def schemas(self) -> SchemaRegistry:
        """The schema versions of each tenant."""
        if self.settings.engine is EngineKind.EMBEDDED or not self.settings.schema_table:
            from braid.engines.embedded.schema_registry import EmbeddedSchemaRegistry

            return EmbeddedSchemaRegistry(self.store)
        from braid.engines.aws.dynamodb import DynamoSchemaRegistry

        return DynamoSchemaRegistry.connect(self.settings)

    @cached_property
    def cursor_key(self) -> Callable[[], bytes]:
        """Returns the key that signs cursors."""
        from braid.engines.aws.secrets import signing_key

        return signing_key(
            self.settings.cursor_key,
            self.settings.cursor_key_secret,
            names=("BRAID_CURSOR_KEY", "BRAID_CURSOR_KEY_SECRET"),
            timeout_s=self.settings.dynamodb_timeout_s,
        )

    @cached_property
    def front_key(self) -> Callable[[], bytes] | None:
        """Returns the key that the front door adds to requests; None where requests need none."""
        if not (self.settings.front_key.get_secret_value().strip() or self.settings.front_key_secret):
            return None
        from braid.engines.aws.secrets import signing_key

        return signing_key(
            self.settings.front_key,
            self.settings.front_key_secret,
            names=("BRAID_FRONT_KEY", "BRAID_FRONT_KEY_SECRET"),
            timeout_s=self.settings.dynamodb_timeout_s,
        )

    def _keep_here(self, setting: str) -> None:
        """Refuse to store on this machine what belongs to shared stores.

        Raises
        ------
        ConfigurationError
            If the settings name shared stores; names the setting that is missing.
        """
        if self.settings.shared_stores():
            message = f"{setting}: is not set"
            raise ConfigurationError(message)

    @cached_property
    def members(self) -> MembershipStore:
        """Memberships: which caller belongs to which tenant.

        Raises
        ------
        ConfigurationError
            If the stores are shared, and the settings name no table.
        """
        if self.settings.members_table:
            from braid.engines.aws.dynamodb import DynamoMembers

            return DynamoMembers.connect(self.settings)
        self._keep_here("BRAID_MEMBERS_TABLE")
        from braid.engines.embedded.members import EmbeddedMembers

        return EmbeddedMembers(self.store)

    @cached_property
    def cache(self) -> ResilientCache:
        """The cache; a failure of it counts as a miss."""
        from braid.ports.cache import NoCache, ResilientCache

        cache: Cache
        if self.settings.engine is EngineKind.EMBEDDED:
            from braid.engines.embedded.cache import EmbeddedCache

            cache = EmbeddedCache(self.store)
        elif not self.settings.cache_table:
            cache = NoCache()
        else:
            from braid.engines.aws.dynamodb_cache import DynamoCache

            cache = DynamoCache.connect(self.settings)
        return ResilientCache(cache, rest_s=self.settings.cache_rest_s)

    @cached_property
    def queue(self) -> Queue:
        """The re-embedding queue."""
        if self.settings.engine is EngineKind.EMBEDDED:
            from braid.engines.embedded.message_queue import EmbeddedQueue

            return EmbeddedQueue(self.store)
        from braid.engines.aws.sqs import SqsQueue

        return SqsQueue.connect(self.settings)

    @cached_property
    def objects(self) -> ObjectStore:
        """The files of each tenant."""
        if self.settings.engine is EngineKind.EMBEDDED:
            from braid.engines.embedded.object_store import EmbeddedObjectStore

            return EmbeddedObjectStore(self.store)
        from braid.engines.aws.s3 import S3ObjectStore

        return S3ObjectStore.connect(self.settings)

    @cached_property
    def profiles(self) -> Profiles:
        """Every configured model and profile."""
        return load_profiles(self.settings.shared_dir)

    @cached_property
    def spaces(self) -> dict[str, ModelConfig]:
        """Every embedding space that vectors may be stored in, with its model."""
        return self.profiles.spaces()

    @property
    def allow_supplied_vectors(self) -> bool:
        """Whether records may bring vectors of their own."""
        return self.settings.allow_supplied_vectors

    @property
    def graph_source(self) -> GraphSource:
        """Where the graph comes from."""
        return self.settings.graph

    @cached_property
    def name_finder(self) -> NameFinder:
        """What finds names in texts."""
        from braid.understanding.name_finding import RuleNameFinder

        return RuleNameFinder()

    @cached_property
    def moves(self) -> IndexMigration:
        """Index migration: the search index as re-embedding uses it."""
        if self.settings.engine is EngineKind.EMBEDDED:
            from braid.engines.embedded.index_migration import EmbeddedIndexMigration
            from braid.engines.embedded.search.index import EmbeddedSearchIndex

            index = self.index
            if not isinstance(index, EmbeddedSearchIndex):
                index = EmbeddedSearchIndex(self.store, self.profiles.dimensions())
            return EmbeddedIndexMigration(self.store, index)
        from braid.engines.opensearch.migration import OpenSearchMigration

        return OpenSearchMigration.connect(self.settings, self.profiles.dimensions())

    @cached_property
    def jobs(self) -> JobStore:
        """Re-embedding jobs.

        Raises
        ------
        ConfigurationError
            If the stores are shared, and the settings name no table.
        """
        if self.settings.engine is EngineKind.EMBEDDED or not self.settings.reembed_table:
            self._keep_here("BRAID_REEMBED_TABLE")
            from braid.engines.embedded.job_store import EmbeddedJobStore

            return EmbeddedJobStore(self.store)
        from braid.engines.aws.dynamodb import DynamoJobStore

        return DynamoJobStore.connect(self.settings)

    @cached_property
    def _served(self) -> ServedProfiles:
        from braid.reembedding.served_profiles import ServedProfiles

        # Embedded, reading is cheap, and an answer is never a moment out of date.
        keep_s = 0.0 if self.settings.engine is EngineKind.EMBEDDED else self.settings.profile_cache_s

        def read() -> MigrationState:
            return self.moves.serving()  # opened here, where a store that cannot be opened is tolerated

        return ServedProfiles(read, self.settings.model_profile, keep_s=keep_s)

    def active_profile(self) -> str:
        """Return the profile whose models embed questions: that of the last index migration, else the settings'."""
        if self.settings.embedding_model != AUTO:
            return self.settings.model_profile
        return self._served.active()

    def model_for(self, embedding_type: EmbeddingType, model_id: str | None = None) -> ModelConfig:
        """Return the model that embeds a type of question: the one named, or the active profile's."""
        forced = model_id or self.settings.embedding_model
        if forced != AUTO:
            return self.profiles.model(forced)
        return resolve(self.profiles, self.active_profile(), embedding_type)

    def models(self) -> tuple[ModelConfig, ...]:
        """Return the distinct models in whose spaces a record is embedded when it is written.

        Those of the active profile, and of a second one during a migration or while it can be undone. Ask per batch.
        """
        if self.settings.embedding_model != AUTO:
            return (self.profiles.model(self.settings.embedding_model),)
        found = [model for name in self._served.all() for model in models_of(self.profiles, name)]
        return tuple({model.id: model for model in found}.values())

    @cached_property
    def reembedding(self) -> Services:
        """What re-embedding works with."""
        from braid.reembedding import Limits, Services

        settings = self.settings
        return Services(
            index=self.index,
            moves=self.moves,
            jobs=self.jobs,
            schemas=self.schemas,
            advance=self.cache.advance,
            encoder_for=self.encoder_for,
            profiles=self.profiles,
            profile=settings.model_profile,
            now=lambda: datetime.now(UTC),
            seconds=time.monotonic,
            sleep=time.sleep,
            forced_model=settings.embedding_model,
            limits=Limits(
                page=settings.reembed_page,
                texts_per_s=settings.reembed_texts_per_s,
                min_drift=settings.reembed_min_drift,
                sample=settings.reembed_sample,
                tolerance=settings.reembed_tolerance,
            ),
        )

    def encoder_for(self, model: ModelConfig, *, threads: int | None = None) -> Encoder:
        """Return a model's encoder, loaded once a process.

        Raises
        ------
        ModelError
            If its folder is missing, tampered with or not a model, or its vectors are not as long as configured.
        """
        from braid.engines.onnx.encoder import OnnxEncoder
        from braid.engines.onnx.model_files import ModelKind, open_model

        threads = threads or self.settings.encoder_threads
        key = f"{model.id}/{threads}"
        with self._opening:
            if key not in self._encoders:
                folder = self.settings.models_path() / model.id
                open_model(folder, ModelKind.ENCODER, dimension=model.dimension)
                self._encoders[key] = OnnxEncoder.load(folder, threads=threads)
            return self._encoders[key]

    @cached_property
    def _rerankers(self) -> Rerankers:
        from braid.engines.rerankers.selection import Rerankers

        return Rerankers(self.settings)

    def open_reranker(self) -> None:
        """Open the reranker that the settings name, before the first question does.

        Raises
        ------
        ConfigurationError, ModelError
            If it cannot be opened.
        """
        if self.settings.reranker is not RerankerKind.NONE:
            self._rerankers.open(self.settings.reranker)

    def reranker_for(self, asked: RerankerKind | None) -> Reranker | None:
        """Return the reranker that the question asks for, or the settings; None leaves the fused order.

        Raises
        ------
        InvalidRequest
            If it is hosted and not allowed.
        """
        from braid.api.quotas import check_reranker

        check_reranker(asked, self.settings)
        kind = self.settings.reranker if asked is None else asked
        return None if kind is RerankerKind.NONE else self._rerankers.lazy(kind)


def _import_numpy() -> None:
    """Import NumPy under the lock that opens engines.

    The question is embedded on one thread while its names are looked up on another, and both need NumPy. Its modules
    import one another, so two threads that first import it at the same time may each see it half made.
    """
    import numpy  # noqa: F401, ICN001 - the import is what is wanted
