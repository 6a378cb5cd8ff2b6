"""A scan of a real OpenSearch: its one moment, and what becomes of it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from braid.engines import scan_cursor
from braid.engines.opensearch import OpenSearchIndex
from braid.engines.opensearch_client import IndexMissing
from braid.errors import StoreError, TransientStoreError
from braid.settings import OpenSearchService

from tests.contract.search_index import scanned
from tests.contract.shapes import ACME, embedding, random_vector, record
from tests.engines.http_proxy import HttpProxy, Status

if TYPE_CHECKING:
    from braid.engines.ports import ScanPage
    from braid.settings import Settings
    from opensearchpy import OpenSearch

NAMES = [f"r{number:02}" for number in range(10)]


@pytest.fixture
def index(client: OpenSearch, settings: Settings) -> OpenSearchIndex:
    """Return an index of ten records."""
    made = OpenSearchIndex(client, settings)
    made.upsert([record(name, "old text") for name in NAMES])
    return made


def ids(page: ScanPage) -> list[str]:
    return [each.id for each in page.records]


def point_in_time(page: ScanPage) -> str:
    point = scan_cursor.decode(ACME, page.cursor).point_in_time
    assert point is not None
    return point


def kept(client: OpenSearch) -> set[str]:
    return {each["pit_id"] for each in client.get_all_pits().get("pits", ())}


def test_a_scan_shows_the_index_as_it_was_when_it_began(index: OpenSearchIndex) -> None:
    first = index.scan(ACME, limit=4)
    index.upsert([record("r05", "new text"), record("r055", "new text")])
    index.delete(ACME, ["r06"])
    rest = index.scan(ACME, after=first.cursor)
    assert ids(rest) == NAMES[4:]
    assert {each.content for each in rest.records} == {"old text"}


def test_a_scan_whose_moment_expired_goes_on_after_the_last_record(index: OpenSearchIndex, client: OpenSearch) -> None:
    first = index.scan(ACME, limit=4)
    client.delete_pit(body={"pit_id": [point_in_time(first)]})
    index.upsert([record("r05", "new text")])
    second = index.scan(ACME, after=first.cursor, limit=4)
    assert ids(second) == NAMES[4:8]
    assert second.records[1].content == "new text"
    assert point_in_time(second) != point_in_time(first)
    assert ids(index.scan(ACME, after=second.cursor)) == NAMES[8:]


def test_a_moment_that_no_server_can_read_is_replaced(index: OpenSearchIndex) -> None:
    cursor = scan_cursor.encode(ACME, scan_cursor.Cursor("r03", "bm90IG9uZSBvZiB5b3Vycw=="))
    assert ids(index.scan(ACME, after=cursor)) == NAMES[4:]


def test_a_scan_that_ends_keeps_no_moment_open(index: OpenSearchIndex, client: OpenSearch) -> None:
    before = kept(client)
    first = index.scan(ACME, limit=5)
    assert kept(client) - before
    assert index.scan(ACME, after=first.cursor, limit=5).cursor is None
    assert index.scan(ACME).cursor is None
    assert kept(client) <= before


def test_a_scan_goes_on_in_the_index_that_took_over(
    index: OpenSearchIndex, client: OpenSearch, settings: Settings
) -> None:
    first = index.scan(ACME, limit=4)
    alias = settings.opensearch_index
    rebuilt = OpenSearchIndex(client, settings.model_copy(update={"opensearch_index": f"{alias}-next"}))
    rebuilt.upsert([record(name, "rebuilt") for name in NAMES])
    old, new = f"{alias}-000001", f"{alias}-next-000001"
    actions = [{"remove": {"index": old, "alias": alias}}, {"add": {"index": new, "alias": alias}}]
    client.indices.update_aliases(body={"actions": actions})
    client.indices.delete(index=old)
    rest = index.scan(ACME, after=first.cursor)
    assert ids(rest) == NAMES[4:]
    assert {each.content for each in rest.records} == {"rebuilt"}


def test_a_serverless_collection_is_scanned_without_a_moment(
    index: OpenSearchIndex, client: OpenSearch, settings: Settings
) -> None:
    serverless = settings.model_copy(update={"opensearch_service": OpenSearchService.SERVERLESS})
    before = kept(client)
    assert scanned(OpenSearchIndex(client, serverless), limit=3) == scanned(index) == NAMES
    assert kept(client) <= before


def test_vectors_come_back_bit_for_bit(index: OpenSearchIndex) -> None:
    generator = random.Random(3)  # noqa: S311 - data that is the same in every run
    rows = [record(f"v{number:03}", embeddings=(embedding(random_vector(generator)),)) for number in range(100)]
    index.upsert(rows)
    index.delete(ACME, NAMES)
    assert index.scan(ACME, with_vectors=True).records == tuple(rows)


def test_a_missing_index_is_named(client: OpenSearch, settings: Settings) -> None:
    with pytest.raises(IndexMissing):
        OpenSearchIndex(client, settings).scan(ACME)


@pytest.mark.usefixtures("index")
def test_a_throttled_page_is_asked_again_and_a_lost_one_is_transient(settings: Settings) -> None:
    with HttpProxy(settings.opensearch_endpoint).running() as proxy:
        behind = OpenSearchIndex.connect(settings.model_copy(update={"opensearch_endpoint": proxy.url}))
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
