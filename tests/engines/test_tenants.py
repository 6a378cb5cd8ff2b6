"""Two tenants of random names on OpenSearch and Gremlin Server, asked through the front door."""

from __future__ import annotations

import os
import secrets
import uuid
from typing import TYPE_CHECKING

import pytest
from braid.engines.gremlin import GremlinGraph
from braid.engines.opensearch import OpenSearchIndex
from braid.settings import EngineKind, Refresh, Settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.tenants import NOUNS, TenantsContract, World, write_world
from tests.front_door import FrontDoor
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = int(os.environ.get("EXAMPLES", "60"))
"""Each asks two servers over a network, so that fewer are asked than of the embedded engines."""


@pytest.fixture(scope="module")
def door(
    tmp_path_factory: pytest.TempPathFactory, opensearch_endpoint: str, gremlin_endpoint: str
) -> Iterator[FrontDoor]:
    library = DemoStages(
        Settings(
            home=tmp_path_factory.mktemp("tenants"),
            engine=EngineKind.AWS,
            opensearch_endpoint=opensearch_endpoint,
            opensearch_index=f"test-{uuid.uuid4().hex}",
            opensearch_refresh=Refresh.NOW,
            neptune_endpoint=gremlin_endpoint,
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

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def test_nothing_of_another_tenant_is_in_any_answer(
        self, door: FrontDoor, world: World, data: st.DataObject
    ) -> None:
        self.asks_and_is_shown_nothing(door, world, data)
