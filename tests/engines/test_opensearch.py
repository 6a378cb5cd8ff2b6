"""The search index contract on a real OpenSearch."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from braid.engines.opensearch import OpenSearchIndex
from braid.engines.opensearch_client import open_client
from braid.settings import Refresh

from tests.contract.search_index import SearchIndexContract

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from braid.settings import Settings


@pytest.fixture
def settings(opensearch_endpoint: str, make_settings: Callable[..., Settings]) -> Settings:
    return make_settings(
        opensearch_endpoint=opensearch_endpoint,
        opensearch_index=f"test-{uuid.uuid4().hex}",
        opensearch_refresh=Refresh.NOW,
    )


@pytest.fixture
def index(settings: Settings) -> Iterator[OpenSearchIndex]:
    client = open_client(settings)
    made = OpenSearchIndex(client, settings)
    made.create()
    yield made
    client.indices.delete(index=f"{settings.opensearch_index}-*")
    made.close()


class TestOpenSearchIndex(SearchIndexContract):
    pass
