"""The embedded engines keep the contracts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from braid.engines.embedded.graph import EmbeddedKnowledgeGraph
from braid.engines.embedded.schemas import EmbeddedSchemaRegistry
from braid.engines.embedded.search import EmbeddedSearchIndex
from braid.engines.embedded.store import EmbeddedStore

from tests.contract.knowledge_graph import KnowledgeGraphContract
from tests.contract.schema_registry import SchemaRegistryContract
from tests.contract.search_index import SearchIndexContract

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    with EmbeddedStore(tmp_path) as opened:
        yield opened


class TestExactSearchIndex(SearchIndexContract):
    @pytest.fixture
    def index(self, store: EmbeddedStore) -> EmbeddedSearchIndex:
        return EmbeddedSearchIndex(store)


class TestApproximateSearchIndex(SearchIndexContract):
    @pytest.fixture
    def index(self, store: EmbeddedStore) -> EmbeddedSearchIndex:
        return EmbeddedSearchIndex(store, exact_rows=0)


class TestKnowledgeGraph(KnowledgeGraphContract):
    @pytest.fixture
    def graph(self, store: EmbeddedStore) -> EmbeddedKnowledgeGraph:
        return EmbeddedKnowledgeGraph(store)


class TestSchemaRegistry(SchemaRegistryContract):
    @pytest.fixture
    def registry(self, store: EmbeddedStore) -> EmbeddedSchemaRegistry:
        return EmbeddedSchemaRegistry(store)
