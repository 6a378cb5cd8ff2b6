"""The search index contract on a real OpenSearch."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
from braid.engines.opensearch import mapping, reads_and_counts
from braid.engines.opensearch.search_index import OpenSearchIndex
from braid.errors import InvalidRequest
from braid.ports.search_index import SearchRequest

from tests.contract.search_index import SearchIndexContract
from tests.contract.shapes import ACME, AS_OF, AXIS, DIMENSIONS, GLOBEX, embedding, record

if TYPE_CHECKING:
    from braid.settings import Settings
    from opensearchpy import OpenSearch


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


def test_values_of_one_tenant_are_counted_without_a_number_for_each_term_of_all(
    index: OpenSearchIndex, client: OpenSearch, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = SearchRequest(tenant_id=ACME, k=1, as_of=AS_OF)

    def numbered() -> int:
        stats = client.indices.stats(index=settings.opensearch_index, metric="fielddata")
        return int(stats["_all"]["total"]["fielddata"]["memory_size_in_bytes"])

    def plain() -> dict[str, list[tuple[object, int]]]:
        counted = index.count_values(asked, ["team", "floor"])
        return {field: [(one.value, one.count) for one in values] for field, values in counted.items()}

    own = [record(f"r{n}", "x", metadata={"team": f"t{n % 3}", "floor": n % 2}) for n in range(10)]
    index.upsert(own[:5])
    index.upsert(own[5:])  # of two segments alone terms are numbered together
    index.upsert([record("o", "x", tenant_id=GLOBEX, metadata={f"k{n}": f"v{n}" for n in range(200)})])
    one_by_one = plain()
    assert one_by_one == {"team": [("t0", 4), ("t1", 3), ("t2", 3)], "floor": [(0, 5), (1, 5)]}
    assert numbered() == 0
    # Where they are many: 20 values of the records, once for each field.
    monkeypatch.setattr(reads_and_counts, "_FEW_VALUES", 39)
    assert plain() == one_by_one
    assert numbered() > 0


SHAPES: dict[str, dict[str, Any]] = {
    "several shards": {"shards": 3},
    "tenants in several shards": {"shards": 5, "tenant_shards": 3, "index_settings": {"number_of_replicas": 0}},
    "compressed vectors": {"compression": "4x", "index_settings": {"merge.policy.max_merged_segment": "2gb"}},
}
WORDS = ("turbine", "spray", "harbour", "frost", "ledger", "captain")


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_an_index_of_another_shape_answers_as_that_of_one_shard(
    index: OpenSearchIndex, client: OpenSearch, settings: Settings, shape: dict[str, Any]
) -> None:
    changed = {f"opensearch_{name}": value for name, value in (shape | {"index": f"test-{uuid.uuid4().hex}"}).items()}
    other = OpenSearchIndex(client, settings.model_copy(update=changed), DIMENSIONS)
    other.create()
    texts = [" ".join(word for place, word in enumerate(WORDS) if number >> place & 1) for number in range(1, 60)]
    records = [record(f"r{place}", text, cosine=place / 60) for place, text in enumerate(texts)]
    for each in (index, other):
        each.upsert(records)
    for text in ("turbine", "frost captain", "spray harbour ledger"):
        asked = SearchRequest(tenant_id=ACME, text=text, embedding=embedding(AXIS), k=10, as_of=AS_OF)
        expected, found = index.search(asked), other.search(asked)
        assert [hit.id for hit in found.vector] == [hit.id for hit in expected.vector]
        assert [hit.id for hit in found.lexical] == [hit.id for hit in expected.lexical]
    other.upsert([record(f"r{place}", "another's", tenant_id=GLOBEX) for place in range(9)])
    other.upsert([record("r0", "changed")])
    assert other.delete(ACME, ["r1", "r2", "none"]) == 2
    for tenant, count in ((ACME, 57), (GLOBEX, 9)):
        assert other.stats(tenant).records == other.count(tenant, at_most=100) == count
        ids = [each.id for each in other.scan(tenant, limit=100).records]
        assert len(other.get_many(tenant, ids)) == len(other.written(tenant, ids)) == count


def test_ideographs_are_found_in_an_index_that_was_made_before_it_had_pairs_of_them(
    client: OpenSearch, settings: Settings
) -> None:
    body = mapping.index_body(settings)
    del body["mappings"]["properties"]["words"]["fields"]
    client.indices.create(
        index=f"{settings.opensearch_index}-000001", body=body | {"aliases": {settings.opensearch_index: {}}}
    )
    index = OpenSearchIndex(client, settings, DIMENSIONS)
    index.upsert([record("tokyo", "東京支社", cosine=0.5), record("kyoto", "京都の東", cosine=0.5)])
    asked = SearchRequest(tenant_id=ACME, text="東京", embedding=embedding(AXIS), k=10, as_of=AS_OF)
    assert [hit.id for hit in index.search(asked).lexical] == ["tokyo"]
