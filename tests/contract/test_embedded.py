"""The embedded engines keep the contracts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from braid.engines.embedded.cache_schemas_jobs_members import EmbeddedCache, EmbeddedSchemaRegistry
from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph
from braid.engines.embedded.message_queue import MAX_RECEIVES, EmbeddedQueue
from braid.engines.embedded.object_store import PART_BYTES, EmbeddedObjectStore
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.engines.embedded.store import EmbeddedStore
from braid.settings import Journal

from tests.contract import queue as queue_contract
from tests.contract.cache import CacheContract
from tests.contract.graph_query import GraphQueryContract
from tests.contract.knowledge_graph import KnowledgeGraphContract
from tests.contract.object_store import ObjectStoreContract
from tests.contract.propagation import PropagationContract
from tests.contract.queue import QueueContract
from tests.contract.schema_registry import SchemaRegistryContract
from tests.contract.search_index import SearchIndexContract
from tests.contract.shapes import ACME, DIMENSIONS, Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(params=Journal)
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[EmbeddedStore]:
    with EmbeddedStore(tmp_path, journal=request.param) as opened:
        yield opened


@pytest.fixture
def clock() -> Clock:
    return Clock()


class TestExactSearchIndex(SearchIndexContract):
    @pytest.fixture
    def index(self, store: EmbeddedStore) -> EmbeddedSearchIndex:
        return EmbeddedSearchIndex(store, DIMENSIONS)


class TestApproximateSearchIndex(SearchIndexContract):
    @pytest.fixture
    def index(self, store: EmbeddedStore) -> EmbeddedSearchIndex:
        return EmbeddedSearchIndex(store, DIMENSIONS, exact_rows=0)


class TestKnowledgeGraph(KnowledgeGraphContract, GraphQueryContract, PropagationContract):
    @pytest.fixture
    def graph(self, store: EmbeddedStore) -> EmbeddedKnowledgeGraph:
        return EmbeddedKnowledgeGraph(store)


class TestGraphReadAroundSeeds(KnowledgeGraphContract, GraphQueryContract, PropagationContract):
    @pytest.fixture
    def graph(self, store: EmbeddedStore) -> EmbeddedKnowledgeGraph:
        return EmbeddedKnowledgeGraph(store, max_loaded_first=0)


class TestSchemaRegistry(SchemaRegistryContract):
    @pytest.fixture
    def registry(self, store: EmbeddedStore) -> EmbeddedSchemaRegistry:
        return EmbeddedSchemaRegistry(store)


class TestCache(CacheContract):
    @pytest.fixture
    def cache(self, store: EmbeddedStore, clock: Clock) -> EmbeddedCache:
        return EmbeddedCache(store, clock=clock.now)


class TestQueue(QueueContract):
    @pytest.fixture
    def queue(self, store: EmbeddedStore, clock: Clock) -> EmbeddedQueue:
        assert queue_contract.MAX_RECEIVES == MAX_RECEIVES
        return EmbeddedQueue(store, clock=clock.now)

    @pytest.fixture
    def send_raw(self, store: EmbeddedStore) -> Callable[[str], None]:
        def send(text: str) -> None:
            with store.transaction() as connection:
                connection.execute("INSERT INTO messages (body, visible_at) VALUES (?, 0)", (text,))

        return send

    @pytest.fixture
    def set_aside(self, store: EmbeddedStore) -> Callable[[], int]:
        def count() -> int:
            with store.read() as connection:
                return int(connection.execute("SELECT count(*) FROM messages WHERE set_aside = 1").fetchone()[0])

        return count


class TestObjectStore(ObjectStoreContract):
    @pytest.fixture
    def part_bytes(self) -> int:
        return PART_BYTES

    @pytest.fixture
    def objects(self, store: EmbeddedStore) -> EmbeddedObjectStore:
        return EmbeddedObjectStore(store)

    @pytest.fixture
    def put_many(self, store: EmbeddedStore, objects: EmbeddedObjectStore) -> Callable[[list[str]], None]:
        def put(keys: list[str]) -> None:
            with store.transaction():
                for key in keys:
                    objects.put(ACME, key, b"")

        return put
