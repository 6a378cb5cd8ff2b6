"""Chooses and opens the engine of each port by the settings, and commits a write across them.

``transaction`` also begins a new write generation, which invalidates cached answers (:mod:`braid.ports.cache`).
Each engine is imported and opened on first use, so that a function pays only for the engines of its stage.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from braid.errors import ConfigurationError
from braid.settings import EngineKind
from braid.settings.configuration_files import load_profiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from braid.engines.embedded.store import EmbeddedStore
    from braid.models import GraphSource
    from braid.models.embedding_models import Profiles
    from braid.ports.cache import Cache, ResilientCache
    from braid.ports.knowledge_graph import StoredCounts, WritableGraph
    from braid.ports.members import MembershipStore
    from braid.ports.message_queue import Queue
    from braid.ports.name_finder import NameFinder
    from braid.ports.object_store import ObjectStore
    from braid.ports.reembedding import IndexMigration, JobStore
    from braid.ports.schema_registry import SchemaRegistry
    from braid.ports.search_index import SearchIndex
    from braid.settings import Settings


T = TypeVar("T")
_UNCONNECTED = frozenset({"profiles", "spaces", "_rerankers"})
"""Properties that ``reopen`` keeps: configuration, and the rerankers, of which hosted ones connect for each request."""


class opened_once(cached_property[T]):  # noqa: N801 - used as a decorator
    """A thread-safe cached property: the value is made once, under a lock.

    ``functools.cached_property`` has had no lock since Python 3.12, and a second store that is opened on one folder
    would wait for the first one.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...
    def __get__(self, instance: object, owner: type[Any] | None = None) -> Self | T:
        """Return the value, made under a lock of this property of the object."""
        if instance is None:
            return self
        values, name = vars(instance), self.attrname or ""
        locks: dict[str, threading.RLock] = values.setdefault("_opened_once", {})
        with locks.setdefault(name, threading.RLock()):
            if name not in values:
                values[name] = self.func(instance)
            made: T = values[name]
            return made


class OpenedEngines:
    """The engine of each port, opened on first use."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._opening = threading.RLock()

    def close(self) -> None:
        """Close the engines that are open; none may be used afterwards."""
        for name in ("imports", "uses", "index", "migration", "graph", "graph_reader", "store"):
            close = getattr(vars(self).get(name), "close", None)
            if close:
                close()

    def reopen(self) -> None:
        """Drop the connected engines, so that each is opened again on its next use; models and configuration stay.

        They are not closed: in a container that was restored from a snapshot, the other ends are gone.
        """
        for kind in type(self).__mro__:
            for name, value in vars(kind).items():
                if isinstance(value, cached_property) and name not in _UNCONNECTED:
                    vars(self).pop(name, None)

    def pause(self, *, wait_s: float) -> bool:
        """Pause the embedded store if it is open, as :meth:`EmbeddedStore.pause`; return whether nothing uses it."""
        store: EmbeddedStore | None = vars(self).get("store")
        return store is None or store.pause(wait_s=wait_s)

    def resume(self) -> None:
        """Resume the embedded store after :meth:`pause`."""
        store: EmbeddedStore | None = vars(self).get("store")
        if store is not None:
            store.resume()

    @opened_once
    def store(self) -> EmbeddedStore:
        """The embedded store: the SQLite file that all embedded engines share."""
        from braid.engines.embedded.store import EmbeddedStore

        return EmbeddedStore(self.settings.home, journal=self.settings.store_journal)

    @contextmanager
    def transaction(self, tenant_id: str) -> Iterator[None]:
        """Run the block's writes, and begin a new write generation of the tenant.

        They are one transaction of the embedded store, which all its engines share; deployed stores commit each write.
        """
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
    def intent_log(self) -> ObjectStore | None:
        """The store of the intent log; None where writes are one transaction, or no bucket is configured."""
        return self.objects if self.settings.engine is EngineKind.AWS and self.settings.objects_bucket else None

    def write_generation(self, tenant_id: str) -> int | None:
        """Return the tenant's write generation; None where stores do not commit in one transaction."""
        return self.cache.generation(tenant_id) if self.settings.engine is EngineKind.EMBEDDED else None

    @opened_once
    def index(self) -> SearchIndex:
        """The search index."""
        if self.settings.engine is EngineKind.EMBEDDED:
            with self._opening:
                _import_numpy()
                from braid.engines.embedded.search.index import EmbeddedSearchIndex

                return EmbeddedSearchIndex(
                    self.store, self.profiles.dimensions(), question_s=self.settings.embedded_question_s
                )
        from braid.engines.opensearch.search_index import OpenSearchIndex

        return OpenSearchIndex.connect(self.settings, self.profiles.dimensions())

    @opened_once
    def graph(self) -> WritableGraph:
        """The knowledge graph."""
        if self.settings.engine is EngineKind.EMBEDDED:
            with self._opening:
                _import_numpy()
                from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph

                return EmbeddedKnowledgeGraph(self.store, question_s=self.settings.embedded_question_s)
        from braid.engines.neptune.knowledge_graph import GremlinGraph

        return GremlinGraph.connect(self.settings, counts=self.graph_counts)

    @opened_once
    def graph_reader(self) -> WritableGraph:
        """The knowledge graph on its read replicas, which show a write a little later; else the graph itself."""
        if self.settings.engine is EngineKind.EMBEDDED or not self.settings.neptune_reader_endpoint:
            return self.graph
        from braid.engines.neptune.knowledge_graph import GremlinGraph

        return GremlinGraph.connect(self.settings, counts=self.graph_counts, to_reader=True)

    @opened_once
    def graph_counts(self) -> StoredCounts | None:
        """Stored counts of each tenant's deployed graph; None without a table, and then the graph itself is counted."""
        if not self.settings.cache_table:
            return None
        from braid.engines.aws.dynamodb_graph_counts import DynamoCounts

        return DynamoCounts.connect(self.settings)

    @opened_once
    def schemas(self) -> SchemaRegistry:
        """The schema versions of each tenant."""
        if self.settings.engine is EngineKind.EMBEDDED or not self.settings.schema_table:
            from braid.engines.embedded.cache_schemas_jobs_members import EmbeddedSchemaRegistry

            return EmbeddedSchemaRegistry(self.store)
        from braid.engines.aws.dynamodb_schemas_jobs_members import DynamoSchemaRegistry

        return DynamoSchemaRegistry.connect(self.settings)

    @opened_once
    def cursor_key(self) -> Callable[[], bytes]:
        """Returns the key that signs cursors."""
        from braid.engines.aws.secret_keys import signing_key

        return signing_key(
            self.settings.cursor_key,
            self.settings.cursor_key_secret,
            names=("BRAID_CURSOR_KEY", "BRAID_CURSOR_KEY_SECRET"),
            timeout_s=self.settings.dynamodb_timeout_s,
        )

    @opened_once
    def front_key(self) -> Callable[[], bytes] | None:
        """Returns the key that the firewall in front adds to requests; None without a firewall."""
        if not (self.settings.front_key.get_secret_value().strip() or self.settings.front_key_secret):
            return None
        from braid.engines.aws.secret_keys import signing_key

        return signing_key(
            self.settings.front_key,
            self.settings.front_key_secret,
            names=("BRAID_FRONT_KEY", "BRAID_FRONT_KEY_SECRET"),
            timeout_s=self.settings.dynamodb_timeout_s,
        )

    def _refuse_if_stores_are_shared(self, setting: str) -> None:
        """Raise ConfigurationError, which names the missing setting, if the stores are not only this machine's."""
        if self.settings.shared_stores():
            raise ConfigurationError(f"{setting}: is not set")

    @opened_once
    def members(self) -> MembershipStore:
        """Memberships: which caller belongs to which tenant.

        Raises ConfigurationError if the stores are shared, and the settings name no table.
        """
        if self.settings.members_table:
            from braid.engines.aws.dynamodb_schemas_jobs_members import DynamoMembers

            return DynamoMembers.connect(self.settings)
        self._refuse_if_stores_are_shared("BRAID_MEMBERS_TABLE")
        from braid.engines.embedded.cache_schemas_jobs_members import EmbeddedMembers

        return EmbeddedMembers(self.store)

    @opened_once
    def cache(self) -> ResilientCache:
        """The cache; a failure of it counts as a miss."""
        from braid.ports.cache import NoCache, ResilientCache

        cache: Cache
        if self.settings.engine is EngineKind.EMBEDDED:
            from braid.engines.embedded.cache_schemas_jobs_members import EmbeddedCache

            cache = EmbeddedCache(self.store)
        elif not self.settings.cache_table:
            cache = NoCache()
        else:
            from braid.engines.aws.dynamodb_cache import DynamoCache

            cache = DynamoCache.connect(self.settings)
        return ResilientCache(cache, rest_s=self.settings.cache_rest_s)

    @opened_once
    def queue(self) -> Queue:
        """The re-embedding queue."""
        if self.settings.engine is EngineKind.EMBEDDED:
            from braid.engines.embedded.message_queue import EmbeddedQueue

            return EmbeddedQueue(self.store)
        from braid.engines.aws.sqs import SqsQueue

        return SqsQueue.connect(self.settings)

    @opened_once
    def objects(self) -> ObjectStore:
        """The object store, with the files of each tenant."""
        if self.settings.engine is EngineKind.EMBEDDED:
            from braid.engines.embedded.object_store import EmbeddedObjectStore

            return EmbeddedObjectStore(self.store)
        from braid.engines.aws.s3 import S3ObjectStore

        return S3ObjectStore.connect(self.settings)

    @opened_once
    def profiles(self) -> Profiles:
        """Every configured model and profile."""
        return load_profiles(self.settings.shared_dir)

    @property
    def graph_source(self) -> GraphSource:
        """Where the graph of a write comes from: given, found in texts, or both."""
        return self.settings.graph

    @opened_once
    def name_finder(self) -> NameFinder:
        """Finds names in texts."""
        from braid.understanding.name_finding import RuleNameFinder

        return RuleNameFinder()

    @opened_once
    def migration(self) -> IndexMigration:
        """The index migration: the operations on the search index that re-embedding needs."""
        if self.settings.engine is EngineKind.EMBEDDED:
            from braid.engines.embedded.index_migration import EmbeddedIndexMigration
            from braid.engines.embedded.search.index import EmbeddedSearchIndex

            index = self.index
            if not isinstance(index, EmbeddedSearchIndex):
                index = EmbeddedSearchIndex(self.store, self.profiles.dimensions())
            return EmbeddedIndexMigration(self.store, index)
        from braid.engines.opensearch.migration import OpenSearchMigration

        return OpenSearchMigration.connect(self.settings, self.profiles.dimensions())

    @opened_once
    def jobs(self) -> JobStore:
        """Re-embedding jobs. Raises ConfigurationError if the stores are shared, and the settings name no table."""
        if self.settings.engine is EngineKind.EMBEDDED or not self.settings.reembed_table:
            self._refuse_if_stores_are_shared("BRAID_REEMBED_TABLE")
            from braid.engines.embedded.cache_schemas_jobs_members import EmbeddedJobStore

            return EmbeddedJobStore(self.store)
        from braid.engines.aws.dynamodb_schemas_jobs_members import DynamoJobStore

        return DynamoJobStore.connect(self.settings)


def _import_numpy() -> None:
    """Import NumPy under the lock that opens engines.

    The question is embedded on one thread while its names are looked up on another, and both need NumPy. Its modules
    import one another, so two threads that first import it at the same time may each see it partly initialised.
    """
    import numpy  # noqa: F401, ICN001 - the import is what is wanted
