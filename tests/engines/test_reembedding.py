"""Embedding again over a real OpenSearch and Gremlin Server: asked, killed and gone on with as the embedded stores."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from braid.settings import EngineKind, Refresh, Settings

from tests.contract.reembedding import JUDGED, Open, ReembeddingContract
from tests.deployed_stages import DeployedStages
from tests.second_profile import shared_with_a_second_profile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def open_stages(opensearch_endpoint: str, gremlin_endpoint: str, tmp_path: Path) -> Iterator[Open]:
    shared = shared_with_a_second_profile(tmp_path / "shared")
    prefix = f"test-{uuid.uuid4().hex}"
    opened: list[DeployedStages] = []

    def open_one(name: str = "store", *, page: int = 40) -> DeployedStages:
        stages = DeployedStages(
            Settings(
                home=tmp_path / name,
                shared_dir=shared,
                reembed_page=page,
                engine=EngineKind.AWS,
                opensearch_endpoint=opensearch_endpoint,
                opensearch_index=f"{prefix}-{name}",
                opensearch_refresh=Refresh.NOW,
                neptune_endpoint=gremlin_endpoint,
                profile_cache_s=0.2,
            )
        )
        if not opened:
            stages.graph._connection.submit(lambda g: g.V().drop())
        opened.append(stages)
        return stages

    yield open_one
    opened[0].index._client.indices.delete(index=f"{prefix}-*", ignore_unavailable=True)
    for stages in opened:
        stages.close()


class TestDeployed(ReembeddingContract):
    judged = JUDGED[::6]
