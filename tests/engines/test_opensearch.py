"""The search index contract on a real OpenSearch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from braid.engines.opensearch.index import OpenSearchIndex

from tests.contract.search_index import SearchIndexContract

if TYPE_CHECKING:
    from braid.settings import Settings
    from opensearchpy import OpenSearch


@pytest.fixture
def index(client: OpenSearch, settings: Settings) -> OpenSearchIndex:
    made = OpenSearchIndex(client, settings)
    made.create()
    return made


class TestOpenSearchIndex(SearchIndexContract):
    pass
