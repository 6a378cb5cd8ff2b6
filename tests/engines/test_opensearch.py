"""The search index contract on a real OpenSearch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from braid.engines.opensearch.index import OpenSearchIndex
from braid.errors import InvalidRequest

from tests.contract.search_index import SearchIndexContract
from tests.contract.shapes import ACME, AXIS, DIMENSIONS, embedding, record

if TYPE_CHECKING:
    from braid.settings import Settings
    from opensearchpy import OpenSearch


@pytest.fixture
def index(client: OpenSearch, settings: Settings) -> OpenSearchIndex:
    made = OpenSearchIndex(client, settings, DIMENSIONS)
    made.create()
    return made


class TestOpenSearchIndex(SearchIndexContract):
    pass


def test_no_record_gives_the_index_a_field_of_its_own(
    index: OpenSearchIndex, client: OpenSearch, settings: Settings
) -> None:
    def fields() -> set[str]:
        (found,) = client.indices.get_mapping(index=settings.opensearch_index).values()
        return set(found["mappings"]["properties"])

    before = fields()
    for number in range(50):
        with pytest.raises(InvalidRequest, match="unknown space"):
            index.upsert([record(f"r{number}", embeddings=(embedding(AXIS, f"made-up-{number}"),))])
    metadata = {f"key{number}.a.b": number for number in range(200)} | {"_id": "x", "vector_x": "y", "": 1}
    index.upsert([record("r", "turbine", cosine=0.5, metadata=metadata)])
    assert fields() - before == {"vector_small_space"}
    assert index.get_many(ACME, ["r"])[0].metadata == metadata
