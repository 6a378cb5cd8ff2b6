"""Two tenants of random names on OpenSearch and Gremlin Server, asked through the front door."""

from __future__ import annotations

import secrets
import uuid
from typing import TYPE_CHECKING

import pytest
from braid.engines.neptune.knowledge_graph import GremlinGraph
from braid.engines.opensearch.search_index import OpenSearchIndex
from braid.settings import EngineKind, Refresh, Settings

from tests.contract.tenants import NOUNS, TenantsContract, World, write_world
from tests.deployed_stages import DeployedStages
from tests.front_door import FrontDoor

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def door(
    tmp_path_factory: pytest.TempPathFactory, opensearch_endpoint: str, gremlin_endpoint: str
) -> Iterator[FrontDoor]:
    library = DeployedStages(
        Settings(
            home=tmp_path_factory.mktemp("tenants"),
            engine=EngineKind.AWS,
            opensearch_endpoint=opensearch_endpoint,
            opensearch_index=f"test-{uuid.uuid4().hex}",
            opensearch_refresh=Refresh.NOW,
            opensearch_timeout_s=20,
            neptune_endpoint=gremlin_endpoint,
            # Named, so that answers are kept; where they are kept is DeployedStages' own.
            cache_table="cache",
            cache_settle_s=0,
        )
    )
    index, graph = library.index, library.graph
    assert isinstance(index, OpenSearchIndex)
    assert isinstance(graph, GremlinGraph)
    yield FrontDoor(library)
    index._client.indices.delete(index=f"{library.settings.opensearch_index}-*")
    library.close()


@pytest.fixture(scope="module")
def world(door: FrontDoor) -> World:
    name = f"t{secrets.token_hex(4)}"
    return write_world(door, (name, f"{name}-{NOUNS[0]}"))


class TestDeployed(TenantsContract):
    """Both in one index and one graph."""
