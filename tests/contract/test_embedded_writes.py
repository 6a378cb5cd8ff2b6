"""The embedded engines keep what is written to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from braid.settings import Settings

from tests.contract.writes import WritesContract
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DemoStages]:
    stages = DemoStages(Settings(home=tmp_path))
    yield stages
    stages.close()


class TestWrites(WritesContract):
    pass
