"""What several attacks are tried on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from braid.settings import Settings

from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def stages(tmp_path: Path) -> Iterator[DemoStages]:
    """Return what answers and writes over an empty store, with an encoder that needs no model."""
    stages = DemoStages(Settings(home=tmp_path))
    yield stages
    stages.close()
