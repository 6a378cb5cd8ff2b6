"""Embedding again over the embedded engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from braid.models import GraphSource
from braid.settings import Settings

from tests.contract.reembedding import Open, ReembeddingContract
from tests.second_profile import shared_with_a_second_profile
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def open_stages(tmp_path: Path) -> Iterator[Open]:
    shared = shared_with_a_second_profile(tmp_path / "shared")
    opened: list[DemoStages] = []

    def open_one(name: str = "store", *, page: int = 40) -> DemoStages:
        # The given graph, as of records that were written before: what names are found in texts is another matter.
        settings = Settings(home=tmp_path / name, shared_dir=shared, reembed_page=page, graph=GraphSource.GIVEN)
        opened.append(DemoStages(settings))
        return opened[-1]

    yield open_one
    for stages in opened:
        stages.close()


class TestEmbedded(ReembeddingContract):
    pass
