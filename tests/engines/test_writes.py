"""Writes, deletes and repair over a real OpenSearch and Gremlin Server keep the contracts of the embedded stores."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from braid.models import GraphSource
from braid.settings import EngineKind, Refresh, Settings

from tests.contract.archive import ArchiveContract
from tests.contract.bad_input import BadInputContract
from tests.contract.deletes import DeletesContract, RepairContract
from tests.contract.files import FilesContract
from tests.contract.filters import FiltersContract
from tests.contract.found_names import FoundNamesContract
from tests.contract.graph_keeping import GraphKeepingContract
from tests.contract.long_texts import LongTextsContract
from tests.contract.supplied_vectors import SuppliedVectorsContract
from tests.contract.writes import WritesContract
from tests.deployed_stages import DeployedStages
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from braid.ports.knowledge_graph import WritableGraph


@pytest.fixture
def graph_source() -> GraphSource:
    return GraphSource.GIVEN


@pytest.fixture
def store(
    opensearch_endpoint: str, gremlin_endpoint: str, make_settings: Callable[..., Settings], graph_source: GraphSource
) -> Iterator[DeployedStages]:
    stages = DeployedStages(
        make_settings(
            engine=EngineKind.AWS,
            opensearch_endpoint=opensearch_endpoint,
            opensearch_index=f"test-{uuid.uuid4().hex}",
            opensearch_refresh=Refresh.NOW,
            neptune_endpoint=gremlin_endpoint,
            graph=graph_source,
        )
    )
    stages.index.create()
    stages.graph._connection.submit(lambda g: g.V().drop())
    yield stages
    stages.index._client.indices.delete(index=f"{stages.settings.opensearch_index}-*")
    stages.close()


class TestFoundNames(FoundNamesContract):
    @pytest.fixture
    def graph_source(self) -> GraphSource:
        return GraphSource.BOTH


class TestWrites(WritesContract):
    pass


class TestSuppliedVectors(SuppliedVectorsContract):
    pass


class TestLongTexts(LongTextsContract):
    pass


class TestFiles(FilesContract):
    pass


class TestFilters(FiltersContract):
    pass


class TestBadInput(BadInputContract):
    pass


class TestDeletes(DeletesContract):
    pass


class TestRepair(RepairContract):
    pass


class TestArchives(ArchiveContract):
    """From here to the embedded engine, and back."""

    @pytest.fixture
    def other(self, tmp_path: Path) -> Iterator[Callable[[], DemoStages]]:
        stages = DemoStages(Settings(home=tmp_path / "other"))
        yield lambda: stages
        stages.close()


class TestGraphKeeping(GraphKeepingContract):
    @pytest.fixture
    def graph(self, store: DeployedStages) -> WritableGraph:
        return store.graph
