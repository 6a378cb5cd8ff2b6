"""What breaks between the search index's client and its server. Then: the right answer, or an error that says so."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from braid import deadline
from braid.engines.opensearch.client import IndexMissing, open_client
from braid.engines.opensearch.search_index import OpenSearchIndex
from braid.errors import DimensionMismatch, StoreError, StoreTooSlow, TransientStoreError
from braid.ports.search_index import SearchRequest
from braid.settings import Refresh

from tests.contract.shapes import ACME, AS_OF, AXIS, DIMENSIONS, SPACE, at_cosine, embedding, record
from tests.engines.http_proxy import Answer, Drip, HalfAnswer, HttpProxy, RefuseItems, Stall, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from braid.settings import Settings
    from opensearchpy import OpenSearch

ASKED = SearchRequest(tenant_id=ACME, text="turbine", embedding=embedding(AXIS), k=10, as_of=AS_OF)


@pytest.fixture
def proxy(opensearch_endpoint: str) -> Iterator[HttpProxy]:
    with HttpProxy(opensearch_endpoint).running() as made:
        yield made


@pytest.fixture
def settings(proxy: HttpProxy, make_settings: Callable[..., Settings]) -> Settings:
    return make_settings(
        opensearch_endpoint=proxy.url,
        opensearch_index=f"test-{uuid.uuid4().hex}",
        opensearch_refresh=Refresh.NOW,
        opensearch_attempts=3,
    )


@pytest.fixture
def client(opensearch_endpoint: str, settings: Settings) -> Iterator[OpenSearch]:
    """Yield a client that goes past the proxy."""
    direct = open_client(settings.model_copy(update={"opensearch_endpoint": opensearch_endpoint}))
    yield direct
    direct.indices.delete(index=f"{settings.opensearch_index}-*", ignore_unavailable=True)
    direct.close()


@pytest.fixture
def index(client: OpenSearch, proxy: HttpProxy, settings: Settings) -> Iterator[OpenSearchIndex]:
    """Yield an index of two records behind the proxy, whose faults befall what comes next."""
    assert client.ping()
    made = OpenSearchIndex.connect(settings, DIMENSIONS)
    made.upsert([record("a", "turbine", cosine=0.9), record("b", "turbine pump", cosine=0.5)])
    proxy.paths.clear()
    proxy.bulk_items.clear()
    yield made
    made.close()


def answer(index: OpenSearchIndex) -> tuple[list[str], list[str]]:
    hits = index.search(ASKED)
    return [hit.id for hit in hits.vector], [hit.id for hit in hits.lexical]


RIGHT = (["a", "b"], ["a", "b"])


def test_one_search_is_one_request(index: OpenSearchIndex, proxy: HttpProxy) -> None:
    assert answer(index) == RIGHT
    assert len(proxy.paths) == 1


@pytest.mark.parametrize("code", [429, 503, 502])
def test_a_throttled_search_is_asked_again(index: OpenSearchIndex, proxy: HttpProxy, code: int) -> None:
    proxy.faults.extend([Status(code), Status(code)])
    assert answer(index) == RIGHT
    assert proxy.count("_msearch") == 3


def test_a_search_that_stays_throttled_is_a_transient_error(index: OpenSearchIndex, proxy: HttpProxy) -> None:
    proxy.faults.extend([Status(503)] * 3)
    with pytest.raises(TransientStoreError, match="503"):
        index.search(ASKED)
    assert answer(index) == RIGHT


def test_a_refused_search_is_not_asked_again(index: OpenSearchIndex, proxy: HttpProxy) -> None:
    proxy.faults.append(Status(403))
    with pytest.raises(StoreError, match="403") as caught:
        index.search(ASKED)
    assert not isinstance(caught.value, TransientStoreError)
    assert proxy.count("_msearch") == 1


@pytest.mark.usefixtures("index")
def test_a_server_that_does_not_answer_costs_no_more_than_its_time_outs(proxy: HttpProxy, settings: Settings) -> None:
    hasty = OpenSearchIndex.connect(
        settings.model_copy(update={"opensearch_timeout_s": 0.2, "opensearch_attempts": 2}), DIMENSIONS
    )
    assert answer(hasty) == RIGHT
    proxy.faults.extend([Stall(), Stall()])
    begun = time.monotonic()
    with pytest.raises(TransientStoreError, match="too slow"):
        hasty.search(ASKED)
    assert time.monotonic() - begun < 1.5
    assert answer(hasty) == RIGHT
    hasty.close()


@pytest.mark.usefixtures("index")
def test_an_answer_that_never_ends_costs_no_more_than_the_question_has(proxy: HttpProxy, settings: Settings) -> None:
    hasty = OpenSearchIndex.connect(
        settings.model_copy(update={"opensearch_timeout_s": 0.4, "opensearch_question_s": 1.0}), DIMENSIONS
    )
    assert answer(hasty) == RIGHT
    proxy.faults.extend([Drip()] * 3)
    begun = time.monotonic()
    with pytest.raises((StoreTooSlow, TransientStoreError)):
        hasty.search(ASKED)
    assert time.monotonic() - begun < 2.5
    proxy.faults.clear()
    assert answer(hasty) == RIGHT
    proxy.faults.append(Drip())
    with deadline.within(0.5), pytest.raises((StoreTooSlow, TransientStoreError)):
        hasty.written(ACME, ["a"])
    proxy.faults.clear()
    assert set(hasty.written(ACME, ["a"])) == {"a"}
    hasty.close()


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (lambda index: index.get_many(ACME, ["a", "b"]), "responses"),
        (lambda index: index.written(ACME, ["a", "b"]), "docs"),
        (lambda index: index.delete(ACME, ["c"]), "items"),
    ],
)
def test_an_answer_with_less_than_was_asked_for_is_not_taken_for_nothing_stored(
    index: OpenSearchIndex, proxy: HttpProxy, read: Callable[[OpenSearchIndex], Any], name: str
) -> None:
    right = read(index)
    for body in (f'{{"{name}": []}}', "{}", "[]", "null"):
        proxy.only = {"responses": "_msearch", "docs": "_mget", "items": "_bulk"}[name]
        proxy.faults.append(Answer(body.encode()))
        assert read(index) == right, "asked again"
        proxy.faults.extend([Answer(body.encode())] * 3)
        with pytest.raises(TransientStoreError, match="in part"):
            read(index)


def test_nobody_listening_is_a_transient_error(settings: Settings) -> None:
    nowhere = OpenSearchIndex.connect(
        settings.model_copy(update={"opensearch_endpoint": "http://127.0.0.1:9", "opensearch_attempts": 2}),
        DIMENSIONS,
    )
    with pytest.raises(TransientStoreError, match="unreachable"):
        nowhere.get_many(ACME, ["a"])
    nowhere.close()


def test_half_an_answer_is_not_taken_for_a_whole_one(index: OpenSearchIndex, proxy: HttpProxy) -> None:
    proxy.faults.append(HalfAnswer())
    assert answer(index) == RIGHT
    assert proxy.count("_msearch") == 2
    proxy.faults.extend([HalfAnswer()] * 3)
    with pytest.raises(TransientStoreError, match="in part"):
        index.search(ASKED)


def test_throttled_items_of_a_bulk_write_are_sent_again_alone(index: OpenSearchIndex, proxy: HttpProxy) -> None:
    proxy.only = "_bulk"
    proxy.faults.append(RefuseItems(frozenset({0, 250, 499}), 429, "rejected_execution_exception"))
    index.upsert([record(f"r{number:03}", "gearbox") for number in range(500)])
    assert proxy.bulk_items == [500, 3]
    assert index.stats(ACME).records == 502


def test_items_that_stay_throttled_are_counted_in_the_error(index: OpenSearchIndex, proxy: HttpProxy) -> None:
    proxy.only = "_bulk"
    proxy.faults.append(RefuseItems(frozenset({1, 2, 3}), 429, "rejected_execution_exception"))
    proxy.faults.extend([RefuseItems(frozenset({0, 1, 2}), 429, "rejected_execution_exception")] * 2)
    with pytest.raises(TransientStoreError, match="3 of 3"):
        index.upsert([record(f"r{number}", "gearbox") for number in range(10)])
    assert proxy.bulk_items == [10, 3, 3]


def test_items_that_are_refused_for_good_are_an_error_that_names_them(index: OpenSearchIndex, proxy: HttpProxy) -> None:
    proxy.only = "_bulk"
    proxy.faults.append(RefuseItems(frozenset({7, 8, 9}), 400, "mapper_parsing_exception"))
    with pytest.raises(StoreError, match=r"3 of 500.*mapper_parsing_exception") as caught:
        index.upsert([record(f"r{number:03}", "gearbox") for number in range(500)])
    assert not isinstance(caught.value, TransientStoreError)
    assert len(proxy.bulk_items) == 1


def test_a_throttled_bulk_request_is_sent_again_whole(index: OpenSearchIndex, proxy: HttpProxy) -> None:
    proxy.only = "_bulk"
    proxy.faults.extend([Status(429), Status(429)])
    index.upsert([record("c", "gearbox")])
    assert proxy.bulk_items == [1, 1, 1]
    assert [row.id for row in index.get_many(ACME, ["c"])] == ["c"]


def test_large_writes_are_split(index: OpenSearchIndex, proxy: HttpProxy) -> None:
    index.upsert([record(f"small{number}", "gearbox") for number in range(1_001)])
    assert proxy.bulk_items == [500, 500, 1]
    proxy.bulk_items.clear()
    index.upsert([record(f"large{number}", "gearbox " * 300_000) for number in range(3)])
    assert proxy.bulk_items == [2, 1]


def test_what_is_stored_just_so_is_not_written_again(index: OpenSearchIndex, proxy: HttpProxy) -> None:
    index.upsert([record("a", "turbine", cosine=0.9), record("b", "turbine changed", cosine=0.5)])
    assert proxy.bulk_items == [1]


def test_a_missing_index_is_an_error_and_not_an_empty_answer(
    index: OpenSearchIndex, client: OpenSearch, settings: Settings
) -> None:
    client.indices.delete(index=f"{settings.opensearch_index}-*")
    for ask in (
        lambda: index.search(ASKED),
        lambda: index.get_many(ACME, ["a"]),
        lambda: index.stats(ACME),
        lambda: index.delete(ACME, ["a"]),
    ):
        with pytest.raises(IndexMissing):
            ask()


def test_a_write_after_the_index_was_removed_makes_it_anew_with_its_mapping(
    index: OpenSearchIndex, client: OpenSearch, settings: Settings
) -> None:
    client.indices.delete(index=f"{settings.opensearch_index}-*")
    index.upsert([record("c", "turbine", cosine=0.3)])
    assert answer(index) == (["c"], ["c"])


def test_the_alias_may_be_switched_under_a_reader(
    index: OpenSearchIndex, client: OpenSearch, settings: Settings, opensearch_endpoint: str
) -> None:
    assert answer(index) == RIGHT
    alias = settings.opensearch_index
    other = OpenSearchIndex.connect(
        settings.model_copy(update={"opensearch_endpoint": opensearch_endpoint, "opensearch_index": f"{alias}-next"}),
        DIMENSIONS,
    )
    other.upsert([record("a", "turbine", cosine=0.2), record("new", "turbine", cosine=0.8)])
    other.close()
    actions = [
        {"remove": {"index": f"{alias}-000001", "alias": alias}},
        {"add": {"index": f"{alias}-next-000001", "alias": alias, "is_write_index": True}},
    ]
    client.indices.update_aliases(body={"actions": actions})
    assert answer(index) == (["new", "a"], ["a", "new"])
    assert [row.id for row in index.get_many(ACME, ["new", "b"])] == ["new"]
    index.upsert([record("later", "turbine", cosine=0.1)])
    assert answer(index)[0] == ["new", "a", "later"]


def test_a_rebuilt_index_with_vectors_of_another_length_is_noticed(
    index: OpenSearchIndex, client: OpenSearch, settings: Settings
) -> None:
    assert answer(index) == RIGHT
    client.indices.delete(index=f"{settings.opensearch_index}-*")
    other = OpenSearchIndex.connect(settings, {SPACE: 16})
    other.upsert([record("wide", "turbine", embeddings=(embedding(at_cosine(1.0, 16), SPACE),))])
    other.close()
    with pytest.raises(StoreError):
        index.search(ASKED)
    with pytest.raises(DimensionMismatch):
        index.search(ASKED)
    with pytest.raises(StoreError, match=r"vector_small_space.*16.*8.*runbook"):
        index.upsert([record("a", cosine=0.5)])


def test_a_question_is_never_a_query_of_its_own(index: OpenSearchIndex, proxy: HttpProxy) -> None:
    hostile: list[Any] = ['{"match_all": {}}', '"}}\n{"index": "*"}\n{"query": {"match_all": {}}}']
    for text in hostile:
        hits = index.search(ASKED.model_copy(update={"text": text, "embedding": None}))
        assert hits.lexical == ()
    assert proxy.count("_msearch") == len(hostile)
