"""The embedded engines keep what is written to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from braid.settings import Settings

from tests.contract.bad_input import BadInputContract
from tests.contract.deletes import DeletesContract, RepairContract
from tests.contract.graph_keeping import GraphKeepingContract
from tests.contract.writes import WritesContract
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from braid.engines.ports_written import WritableGraph


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DemoStages]:
    stages = DemoStages(Settings(home=tmp_path))
    yield stages
    stages.close()


class TestWrites(WritesContract):
    pass


class TestBadInput(BadInputContract):
    pass


class TestDeletes(DeletesContract):
    pass


class TestRepair(RepairContract):
    pass


class TestGraphKeeping(GraphKeepingContract):
    @pytest.fixture
    def graph(self, store: DemoStages) -> WritableGraph:
        return store.graph
