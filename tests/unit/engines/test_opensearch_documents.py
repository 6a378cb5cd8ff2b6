"""How records lie in OpenSearch, looked at without a server."""

from __future__ import annotations

import contextlib
import itertools
import json
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from braid.engines.opensearch import mapping, question_searches
from braid.engines.opensearch import reads_and_counts as query
from braid.engines.opensearch.bulk import MAX_BYTES, MAX_ITEMS, write_items
from braid.engines.opensearch.client import (
    IndexMissing,
    ShardUnavailable,
    error_of_status,
    open_client,
    require_complete,
)
from braid.engines.opensearch.dual_write import dual_write
from braid.engines.opensearch.embedding_spaces import EmbeddingSpaces
from braid.engines.opensearch.migration import OpenSearchMigration
from braid.engines.opensearch.search_index import OpenSearchIndex
from braid.errors import ConfigurationError, StoreError, TransientStoreError
from braid.models import Filters, TimeRange
from braid.ports.search_index import SearchRequest
from braid.settings import OpenSearchService, Settings, VectorEngine
from pydantic import ValidationError

from tests.contract.shapes import ACME, AS_OF, AXIS, DIMENSIONS, WIDE_SPACE, at_cosine, day, embedding, in_parts, record

if TYPE_CHECKING:
    from pathlib import Path

SERVERLESS = OpenSearchService.SERVERLESS


def request(**fields: Any) -> SearchRequest:
    return SearchRequest(**{"tenant_id": ACME, "k": 10, "as_of": AS_OF, **fields})


def test_a_record_comes_back_from_its_document() -> None:
    row = record("a", "text", cosine=0.5, valid_at=day(1).replace(microsecond=1), metadata={"n": None, "x": 1.5})
    source = json.loads(json.dumps(mapping.document(row)))
    assert mapping.record_of(source) == row
    del source["vector_small_space"]
    assert mapping.record_of(source) == row.model_copy(update={"embeddings": ()})


def test_a_document_is_told_from_another_by_its_digest() -> None:
    rows = [record("a", "x", cosine=0.5), record("a", "y", cosine=0.5), record("a", "x", cosine=0.6)]
    digests = [mapping.document(row)[mapping.DIGEST] for row in rows]
    assert len(set(digests)) == 3
    assert mapping.document(rows[0].model_copy())[mapping.DIGEST] == digests[0]


def test_ids_carry_the_tenant_and_stay_within_what_the_server_takes() -> None:
    assert mapping.document_id("acme", "a") == "acme|a"
    long = [mapping.document_id("acme", "é" * 500 + end) for end in "ab"]
    assert long[0] != long[1]
    assert all(len(name.encode()) <= 512 and name.startswith("acme|") for name in long)


def test_every_space_has_a_field_of_its_own() -> None:
    spaces = ["a-b", "a_b", "A-b", "a.b", "a b", "ä" * 500]
    fields = [mapping.vector_field(space) for space in spaces]
    assert fields[0] == "vector_a_b"
    assert len(set(fields)) == len(spaces)
    assert all(field.startswith("vector_") and field.replace("_", "").isalnum() for field in fields)


def test_a_vector_of_zeros_has_no_cosine_and_is_not_indexed() -> None:
    row = record("a", embeddings=(embedding(bytes(32)),))
    assert "vector_small_space" not in mapping.document(row)
    assert not mapping.has_direction(b"\x00\x00\x00\x80" * 8)
    assert mapping.has_direction(AXIS)


def test_the_further_parts_of_a_long_text_are_nested_documents_that_come_back() -> None:
    long = record("a", embeddings=(in_parts(0.1, 0.2, 0.3), embedding(at_cosine(1.0, 16), WIDE_SPACE)))
    body = mapping.document(long)
    assert [(part["start"], set(part)) for part in body["parts"]] == [
        (100, {"start", "vector_small_space"}),
        (200, {"start", "vector_small_space"}),
    ]
    assert mapping.record_of(json.loads(json.dumps(body))) == long
    assert "parts" not in mapping.document(record("a", embeddings=(in_parts(0.1),)))


def test_an_index_that_was_made_before_there_were_parts_gets_their_fields_with_the_next_write() -> None:
    declared = mapping.vector_properties({"vector_a": {"type": "knn_vector", "dimension": 8}})
    assert set(declared) == {"vector_a"}
    both = {name: {"type": "knn_vector", "dimension": 8} for name in ("vector_a", "parts.vector_a")}
    declared = mapping.vector_properties(both)
    assert set(declared["parts"]["properties"]) == {"start", "vector_a"}
    assert mapping.dimensions_of({"properties": declared}) == {"vector_a": 8, "parts.vector_a": 8}


def test_the_filter_is_inside_the_vector_clause_and_names_the_tenant() -> None:
    clause = question_searches.filter_clause(request(filters=Filters(entity_types=("Event",))), valid=True)
    body = question_searches.knn(embedding(AXIS), 5, clause)
    first, further = body["query"]["dis_max"]["queries"]
    of_parts = further["nested"]["query"]
    for inner in (first["knn"]["vector_small_space"], of_parts["knn"]["parts.vector_small_space"]):
        assert inner["filter"] == clause
        assert inner["k"] >= 5
    assert {"term": {"tenant_id": ACME}} in clause["bool"]["filter"]
    assert body["size"] == 5


def test_a_scan_names_its_tenant_and_every_condition() -> None:
    clause = query.scan_clause(ACME, schema_below=3, space_missing="s", model_missing=None, document=None)
    assert clause == {
        "bool": {
            "filter": [{"term": {"tenant_id": ACME}}, {"range": {"schema_version": {"lt": 3}}}],
            "must_not": [{"term": {"spaces": "s"}}],
        }
    }


def test_a_time_range_without_bounds_asks_for_a_time() -> None:
    clause = question_searches.filter_clause(request(filters=Filters(time_range=TimeRange())), valid=True)
    assert {"exists": {"field": "timestamp_us"}} in clause["bool"]["filter"]


def test_words_are_never_query_syntax() -> None:
    body = question_searches.match(["a", "b"], 5, {"match_all": {}}, with_pairs=True)
    assert body["query"]["bool"]["must"] == [{"match": {"words": {"query": "a b"}}}]
    assert "query_string" not in json.dumps(body)


def test_no_question_has_places_of_characters_read_in_texts() -> None:
    """A phrase reads them, in the longest text between two looks at the clock."""
    characters = [chr(0x4E00 + number) for number in range(16)]
    asked = request(text="".join(a + b for a in characters for b in characters), min_schema_version=2)
    bodies = question_searches.strands(asked, with_vector=False).bodies()
    assert len(bodies) == 3
    assert all("words.pairs" in json.dumps(body) and "phrase" not in json.dumps(body) for body in bodies)


def vectors(**fields: Any) -> Any:
    return mapping.vector_mapping(3, Settings(**{f"opensearch_{name}": value for name, value in fields.items()}))


def test_vectors_are_held_by_the_engine_that_the_settings_name() -> None:
    assert vectors(engine=VectorEngine.FAISS)["method"]["engine"] == "faiss"
    assert vectors(compression="32x") == {
        "type": "knn_vector",
        "dimension": 3,
        "space_type": "cosinesimil",
        "mode": "on_disk",
        "compression_level": "32x",
    }


def test_the_measure_stands_in_the_method_as_versions_before_2_17_know_it_nowhere_else() -> None:
    assert vectors()["method"]["space_type"] == "cosinesimil"
    assert set(vectors()) == {"type", "dimension", "method"}


def test_a_serverless_collection_chooses_engine_and_method_itself_and_keeps_vectors_exact_unless_told_not_to() -> None:
    own = {"type": "knn_vector", "dimension": 3, "space_type": "cosinesimil"}
    assert vectors(service=SERVERLESS) == {**own, "compression_level": "1x"}
    assert vectors(service=SERVERLESS, compression="16x") == {**own, "compression_level": "16x"}


def test_how_many_copies_there_are_is_left_to_the_domain_which_in_three_zones_refuses_one_beside_the_first() -> None:
    index = mapping.index_body(Settings())["settings"]["index"]
    assert not {"number_of_replicas", "auto_expand_replicas"} & set(index)


def test_an_index_is_made_with_the_shards_and_further_settings_that_are_named() -> None:
    further: dict[str, str | int] = {"number_of_replicas": 2, "refresh_interval": "30s"}
    shape = Settings(opensearch_shards=17, opensearch_tenant_shards=4, opensearch_index_settings=further)
    index = mapping.index_body(shape)["settings"]["index"]
    assert index == {"knn": True, "number_of_shards": 17, "routing_partition_size": 4, **further}
    with pytest.raises(ValidationError, match="opensearch_tenant_shards must be below opensearch_shards"):
        Settings(opensearch_shards=4, opensearch_tenant_shards=4)


def test_documents_go_to_the_shards_of_their_tenant_and_a_serverless_collection_takes_no_routing() -> None:
    key = mapping.document_id(ACME, "a|b")
    assert mapping.all_of([key], Settings()) == {"docs": [{"_id": key, "routing": ACME}]}
    assert mapping.all_of([key], Settings(opensearch_service=SERVERLESS)) == {"docs": [{"_id": key}]}


def test_the_index_template_is_read_from_the_shared_folder(tmp_path: Path) -> None:
    own = mapping.index_body(Settings())
    assert own["mappings"]["dynamic"] is False
    assert own["mappings"]["properties"]["tenant_id"] == {"type": "keyword"}
    assert mapping.index_body(Settings(opensearch_service=SERVERLESS))["settings"]["index"] == {"knn": True}
    with pytest.raises(ConfigurationError, match=r"records\.json"):
        mapping.index_body(Settings(shared_dir=tmp_path))


def test_a_write_that_a_move_overtakes_again_and_again_is_not_taken_for_done() -> None:
    numbers = itertools.count()
    written: list[str] = []
    with pytest.raises(TransientStoreError, match="write again"):
        dual_write(lambda: {"records": f"index-{next(numbers)}"}, written.append)
    assert set(written) == {"records"}
    switched = iter(["index-1", "index-2", "index-2", "index-2"])
    assert dual_write(lambda: {"records": next(switched)}, str.upper) == ["RECORDS", "RECORDS"]


def test_the_active_index_of_a_move_is_written_last() -> None:
    aliases = {"records": "index-1", "records_next": "index-2"}
    assert dual_write(lambda: aliases, str.upper) == ["RECORDS_NEXT", "RECORDS"]


def test_a_bulk_request_is_bounded_in_items_and_bytes() -> None:
    sent: list[str] = []

    class Client:
        def bulk(self, body: str, **_: Any) -> dict[str, Any]:
            sent.append(body)
            return {"items": [{"index": {"status": 201, "result": "created"}}] * (body.count("\n") // 2)}

    def requests(*texts: str) -> list[int]:
        sent.clear()
        operations = [({"index": {"_id": "acme|a"}}, {"text": text}) for text in texts]
        outcomes = write_items(Client(), "records", operations, Settings())  # type: ignore[arg-type]
        assert [outcome.result for outcome in outcomes] == ["created"] * len(texts)
        return [body.count("\n") // 2 for body in sent]

    assert requests(*["x"] * (2 * MAX_ITEMS + 1)) == [MAX_ITEMS, MAX_ITEMS, 1]
    assert requests(*["x" * (MAX_BYTES // 2 + 1)] * 3) == [1, 1, 1]
    assert requests("x" * (2 * MAX_BYTES)) == [1]
    assert requests() == []


@pytest.mark.parametrize(
    ("status", "kind"), [(429, TransientStoreError), (503, TransientStoreError), (400, StoreError)]
)
def test_what_passes_by_itself_is_told_from_what_does_not(status: int, kind: type[StoreError]) -> None:
    assert type(error_of_status(status, {"type": "some", "reason": "why"})) is kind


def test_a_shard_that_does_not_serve_yet_passes_by_itself_though_an_item_has_no_status() -> None:
    assert (
        type(error_of_status(0, {"type": "no_shard_available_action_exception", "reason": "why"})) is ShardUnavailable
    )
    assert issubclass(ShardUnavailable, TransientStoreError)


@pytest.mark.parametrize("service", list(OpenSearchService))
def test_requests_are_signed_for_the_service_that_the_settings_name(
    monkeypatch: pytest.MonkeyPatch, service: OpenSearchService
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    client = open_client(Settings(opensearch_endpoint="https://search.example", opensearch_service=service))
    signer = client.transport.hosts and client.transport.get_connection().http_auth
    signed = signer("GET", "https://search.example/_search", None, {"host": "search.example"})
    assert f"/eu-west-1/{service}/aws4_request" in signed["Authorization"]
    client.close()


def test_signing_without_credentials_is_refused_when_connecting(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(ConfigurationError, match="no AWS credentials"):
        OpenSearchIndex.connect(Settings(opensearch_endpoint="https://search.example"), {})


@pytest.mark.parametrize("shared", [True, False])
def test_of_indexes_that_are_removed_while_a_write_declares_a_space_only_the_shared_one_is_created(
    *, shared: bool
) -> None:
    fields: dict[str, Any] = {"properties": {mapping.TERMS: {}}}
    answers: list[Any] = [{"an-index": {"mappings": fields}}, IndexMissing("gone"), {"an-index": {"mappings": fields}}]
    client, create = Mock(), Mock()
    client.indices.get_mapping.side_effect = answers
    spaces = EmbeddingSpaces(client, Settings(), DIMENSIONS, alias="an-alias", create=create if shared else None)
    with contextlib.nullcontext() if shared else pytest.raises(IndexMissing):
        spaces.prepare([record("a", cosine=0.5)])
    assert create.called == client.indices.put_mapping.called == shared


def test_the_newest_texts_are_sorted_by_time_within_the_filter_and_keep_their_scores() -> None:
    clause = question_searches.filter_clause(request(filters=Filters(task_id="t1")), valid=True)
    body = question_searches.newest(["gearbox"], 5, clause, with_pairs=True)
    assert body["sort"] == [{"timestamp_us": {"order": "desc", "missing": "_last"}}, {"id": "asc"}]
    assert body["track_scores"] is True
    assert body["query"]["bool"]["filter"] == [clause]
    assert {"term": {"task_id": "t1"}} in clause["bool"]["filter"]


def test_retired_texts_that_are_newer_are_counted_and_take_no_place() -> None:
    def answer(*found: tuple[int, str, float]) -> dict[str, Any]:
        return {"hits": {"hits": [{"sort": [time, name], "_score": score} for time, name, score in found]}}

    valid = answer((30, "a", 1.0), (30, "b", 9.0), (-(2**63), "timeless", 2.0))
    hits, retired = question_searches.newest_strand(valid, answer((40, "old", 1.0), (20, "older", 1.0)), k=3)
    assert [hit.id for hit in hits] == ["a", "b", "timeless"]
    assert [hit.rank for hit in hits] == [1, 2, 3]
    assert hits[1].score == question_searches.from_lucene_bm25(9.0)
    assert retired == {"old"}


class Counting:
    """A client that counts what is asked of it, and has ten records a tenant, two of which lack a vector."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.indices = self

    def refresh(self, **_: Any) -> None:
        self.calls.append("refresh")

    def get_alias(self, **_: Any) -> dict[str, Any]:
        self.calls.append("aliases")
        return {"braid-records-000001": {"aliases": {"braid-records": {}}}}

    def search(self, *, index: str, body: dict[str, Any]) -> dict[str, Any]:
        self.calls.append("search")
        terms = body["aggs"]["tenants"]["terms"]
        (asked,) = body["query"]["bool"]["filter"]
        assert terms["size"] == len(asked["terms"]["tenant_id"])
        there = asked["terms"]["tenant_id"][1:] if index.endswith("_next") else asked["terms"]["tenant_id"]
        buckets = [{"key": tenant, "doc_count": 10, "space_0": {"doc_count": 2}} for tenant in there]
        return {"aggregations": {"tenants": {"buckets": buckets}}}


def test_what_is_left_of_a_move_is_counted_by_two_searches_however_many_tenants_there_are() -> None:
    client = Counting()
    moves = OpenSearchMigration(client, Settings(), {})  # type: ignore[arg-type]
    tenants = [f"tenant-{number:03}" for number in range(500)]
    assert moves.count_pending(tenants, ("wide",)) == 10 + 499 * 2  # the first is missing as a whole
    assert client.calls == ["refresh", "aliases", "search", "search"]


LOST_SHARDS = [
    {"timed_out": True},
    {"_shards": {"total": 3, "successful": 2, "skipped": 0, "failed": 1}},
    # As OpenSearch says it of a shard that no node holds.
    {"_shards": {"total": 3, "successful": 2, "skipped": 0, "failed": 0}},
]


@pytest.mark.parametrize("lost", LOST_SHARDS)
def test_an_answer_of_a_part_of_the_shards_is_none(lost: dict[str, Any]) -> None:
    with pytest.raises(TransientStoreError, match="in part"):
        require_complete({"hits": {"hits": []}, **lost})
    whole = {"timed_out": False, "_shards": {"total": 3, "successful": 3, "skipped": 1, "failed": 0}}
    assert require_complete(whole) is whole
    assert require_complete({"_shards": {"total": 0, "successful": 0, "failed": 0}}), "a collection has no shards"


@pytest.mark.parametrize("lost", LOST_SHARDS)
def test_a_move_is_not_told_of_a_part_of_the_tenants_and_records(lost: dict[str, Any]) -> None:
    """Tenants of the shard that did not answer would be left behind, and go with the index that they are in."""
    client = Mock()
    client.indices.get_alias.return_value = {"braid-records-000001": {"aliases": {"braid-records": {}}}}
    client.search.return_value = {"aggregations": {"tenants": {"buckets": []}}, "hits": {"hits": []}, **lost}
    client.count.return_value = {"count": 0, **lost}
    moves = OpenSearchMigration(client, Settings(opensearch_attempts=1), {})
    for ask in (
        moves.tenants,
        lambda: moves.count(ACME),
        lambda: moves.count_pending([ACME], ()),
        lambda: moves.ids(ACME),
    ):
        with pytest.raises(TransientStoreError, match="in part"):
            ask()
