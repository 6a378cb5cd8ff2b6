"""The stages over a deployed index and graph; what DynamoDB and S3 keep is kept here, and has contracts of its own."""

from __future__ import annotations

from functools import cached_property

from braid.engines.embedded.cache_schemas_jobs_members import EmbeddedCache
from braid.engines.embedded.message_queue import EmbeddedQueue
from braid.engines.embedded.object_store import EmbeddedObjectStore
from braid.ports.cache import ResilientCache

from tests.contract.stored_counts import MemoryCounts
from tests.stages import DemoStages


class DeployedStages(DemoStages):
    """Asks the index and the graph that the settings name."""

    @cached_property
    def cache(self) -> ResilientCache:
        """A cache that only :meth:`advance` begins a generation of."""
        return ResilientCache(EmbeddedCache(self.store))

    @cached_property
    def graph_counts(self) -> MemoryCounts:
        """Counts of graphs, of which none are stored yet."""
        return MemoryCounts()

    @cached_property
    def objects(self) -> EmbeddedObjectStore:
        """Files in a folder."""
        return EmbeddedObjectStore(self.store)

    @cached_property
    def queue(self) -> EmbeddedQueue:
        """Messages in a table."""
        return EmbeddedQueue(self.store)
