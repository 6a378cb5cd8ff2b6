"""A scan of a real OpenSearch: what it needs, and what becomes of it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from braid.engines.opensearch.client import IndexMissing
from braid.engines.opensearch.search_index import OpenSearchIndex
from braid.errors import StoreError, TransientStoreError

from tests.contract.shapes import ACME, DIMENSIONS, embedding, random_vector, record
from tests.engines.http_proxy import HttpProxy, Status

if TYPE_CHECKING:
    from braid.ports.search_index import ScanPage
    from braid.settings import Settings
    from opensearchpy import OpenSearch

NAMES = [f"r{number:02}" for number in range(10)]


@pytest.fixture
def index(client: OpenSearch, settings: Settings) -> OpenSearchIndex:
    """Return an index of ten records."""
    made = OpenSearchIndex(client, settings, DIMENSIONS)
    made.upsert([record(name, "old text") for name in NAMES])
    return made


def ids(page: ScanPage) -> list[str]:
    return [each.id for each in page.records]


def test_a_scan_keeps_nothing_open_whether_it_ends_or_not(index: OpenSearchIndex, client: OpenSearch) -> None:
    """A domain keeps a few hundred points in time for everybody: lists that nobody reads on would use them up."""
    before = client.get_all_pits().get("pits", ())
    first = index.scan(ACME, limit=4)
    index.scan(ACME, after=first.cursor, limit=4)
    assert client.get_all_pits().get("pits", ()) == before


def test_a_scan_goes_on_in_the_index_that_took_over(
    index: OpenSearchIndex, client: OpenSearch, settings: Settings
) -> None:
    first = index.scan(ACME, limit=4)
    alias = settings.opensearch_index
    rebuilt = OpenSearchIndex(client, settings.model_copy(update={"opensearch_index": f"{alias}-next"}), DIMENSIONS)
    rebuilt.upsert([record(name, "rebuilt") for name in NAMES])
    old, new = f"{alias}-000001", f"{alias}-next-000001"
    actions = [{"remove": {"index": old, "alias": alias}}, {"add": {"index": new, "alias": alias}}]
    client.indices.update_aliases(body={"actions": actions})
    client.indices.delete(index=old)
    rest = index.scan(ACME, after=first.cursor)
    assert ids(rest) == NAMES[4:]
    assert {each.content for each in rest.records} == {"rebuilt"}


def test_vectors_come_back_bit_for_bit(index: OpenSearchIndex) -> None:
    generator = random.Random(3)  # noqa: S311 - data that is the same in every run
    rows = [record(f"v{number:03}", embeddings=(embedding(random_vector(generator)),)) for number in range(100)]
    index.upsert(rows)
    index.delete(ACME, NAMES)
    assert index.scan(ACME, with_vectors=True).records == tuple(rows)


def test_a_missing_index_is_named(client: OpenSearch, settings: Settings) -> None:
    with pytest.raises(IndexMissing):
        OpenSearchIndex(client, settings, DIMENSIONS).scan(ACME)


@pytest.mark.usefixtures("index")
def test_a_throttled_page_is_asked_again_and_a_lost_one_is_transient(settings: Settings) -> None:
    with HttpProxy(settings.opensearch_endpoint).running() as proxy:
        behind = OpenSearchIndex.connect(settings.model_copy(update={"opensearch_endpoint": proxy.url}), DIMENSIONS)
        proxy.faults.extend([Status(429), Status(503)])
        first = behind.scan(ACME, limit=4)
        proxy.faults.extend([Status(429), Status(503)])
        assert ids(behind.scan(ACME, after=first.cursor, limit=4)) == NAMES[4:8]
        proxy.faults.extend([Status(503)] * settings.opensearch_attempts)
        with pytest.raises(TransientStoreError, match="503"):
            behind.scan(ACME, after=first.cursor)
        proxy.faults.append(Status(403))
        with pytest.raises(StoreError, match="403"):
            behind.scan(ACME, after=first.cursor)
        assert ids(behind.scan(ACME, after=first.cursor)) == NAMES[4:]
        behind.close()
