"""The knowledge graph contract on a real Gremlin Server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from braid.engines.gremlin import GremlinGraph

from tests.contract.knowledge_graph import KnowledgeGraphContract

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def connected(gremlin_endpoint: str) -> Iterator[GremlinGraph]:
    from braid.settings import Settings

    graph = GremlinGraph.connect(Settings(neptune_endpoint=gremlin_endpoint))
    yield graph
    graph.close()


@pytest.fixture
def graph(connected: GremlinGraph) -> GremlinGraph:
    connected._connection.submit(lambda g: g.V().drop())
    return connected


class TestGremlinGraph(KnowledgeGraphContract):
    pass
