"""The searches of one request, and what their answers mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from braid.engines.opensearch.mapping import (
    DIGEST,
    DOCUMENT,
    LAST_MOMENT,
    MODEL_IDS,
    SOURCE_EXCLUDES,
    SPACES,
    WORDS,
    floats,
    microseconds,
    moment_of,
    vector_field,
)
from braid.models import Hit, Kind
from braid.ports.search_index import IndexStats
from braid.ranking import scoring

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from braid.models import Embedding
    from braid.ports.search_index import SearchRequest

_VALIDITY = ("valid_from_us", "valid_until_us")
_EXPLORED = 100
"""Fewest neighbours asked for: fewer right ones are missed, and ties at the k-th place are settled by id."""
_TYPES = 1_000
"""Most entity types that are counted."""
_BM25_SCALE = 2.2
"""Lucene leaves out the constant factor ``k1 + 1`` of BM25 as published, which SQLite keeps."""


def from_lucene_bm25(score: float) -> float:
    """Map Lucene's BM25 to a score, on the same scale as that of any other BM25."""
    return scoring.from_bm25(_BM25_SCALE * score)


def _conditions(request: SearchRequest, *, outdated: bool) -> list[dict[str, Any]]:
    """Return everything that a hit must be, validity aside, as filter clauses."""
    filters = request.filters
    window = "lt" if outdated else "gte"
    clauses: list[dict[str, Any]] = [
        {"term": {"tenant_id": request.tenant_id}},
        {"range": {"schema_version": {window: request.min_schema_version}}},
    ]
    if request.ids is not None:
        clauses.append({"terms": {"id": list(request.ids)}})
    if filters.kinds:
        clauses.append({"terms": {"kind": [str(kind) for kind in filters.kinds]}})
    if filters.entity_types:
        clauses.append({"terms": {"entity_type": list(filters.entity_types)}})
    if filters.task_id is not None:
        clauses.append({"term": {"task_id": filters.task_id}})
    if filters.tool_name is not None:
        clauses.append({"term": {"tool_name": filters.tool_name}})
    if filters.time_range:
        bounds: dict[str, int] = {}
        if filters.time_range.start:
            bounds["gte"] = microseconds(filters.time_range.start)
        if filters.time_range.end:
            bounds["lt"] = microseconds(filters.time_range.end)
        # Also without bounds: a time range asks for what has a time.
        clauses.append({"range": {"timestamp_us": bounds}} if bounds else {"exists": {"field": "timestamp_us"}})
    return clauses


def _unwanted(request: SearchRequest) -> list[dict[str, Any]]:
    """Return what no hit may be, validity aside."""
    return [{"term": {"trusted": False}}] if request.filters.trusted_only else []


def filter_clause(request: SearchRequest, *, valid: bool, outdated: bool = False) -> dict[str, Any]:
    """Return one filter: what meets the request's conditions and is, or is not, valid at its moment.

    With ``outdated`` it is older than the schema window instead of inside.
    """
    moment = microseconds(request.as_of)
    in_force = [{"range": {"valid_from_us": {"lte": moment}}}, {"range": {"valid_until_us": {"gt": moment}}}]
    clauses = _conditions(request, outdated=outdated)
    unwanted = _unwanted(request)
    if not valid:
        return {"bool": {"filter": clauses, "must_not": [*unwanted, {"bool": {"filter": in_force}}]}}
    within: dict[str, Any] = {"filter": [*clauses, *in_force]}
    return {"bool": within | {"must_not": unwanted} if unwanted else within}


def outdated_clause(
    tenant_id: str,
    *,
    schema_below: int | None,
    space_missing: str | None,
    model_missing: str | None,
    document: str | None,
) -> dict[str, Any]:
    """Return one filter: a tenant's records that meet every condition given."""
    clauses: list[dict[str, Any]] = [{"term": {"tenant_id": tenant_id}}]
    if schema_below is not None:
        clauses.append({"range": {"schema_version": {"lt": schema_below}}})
    if document is not None:
        names = [{"term": {"id": document}}, {"prefix": {"id": f"{document}#"}}, {"term": {DOCUMENT: document}}]
        clauses.append({"bool": {"should": names}})
    missing = [
        {"term": {field: wanted}}
        for field, wanted in ((SPACES, space_missing), (MODEL_IDS, model_missing))
        if wanted is not None
    ]
    # Each must be missing, not all at once: ``must_not`` refuses what meets any of them.
    return {"bool": {"filter": clauses, "must_not": missing}}


class TenantCounts(NamedTuple):
    """What there is of a tenant."""

    records: int
    missing: int
    """Records that lack a vector, counted once a space."""


def by_tenant(tenant_ids: Sequence[str], spaces: Sequence[str]) -> dict[str, Any]:
    """Return the search that counts the records of some tenants, and those of them that lack a space's vector."""
    lacking = {
        f"space_{number}": {"filter": {"bool": {"must_not": [{"term": {SPACES: space}}]}}}
        for number, space in enumerate(spaces)
    }
    # As many buckets as tenants: none is left out, and so no count is an estimate.
    tenants = {"terms": {"field": "tenant_id", "size": len(tenant_ids)}, "aggs": lacking}
    return {
        "size": 0,
        "track_total_hits": False,
        "query": {"bool": {"filter": [{"terms": {"tenant_id": list(tenant_ids)}}]}},
        "aggs": {"tenants": tenants},
    }


def tenant_counts(answer: Mapping[str, Any]) -> dict[str, TenantCounts]:
    """Return what :func:`by_tenant` counted, by tenant; one without records is not among them."""
    return {
        str(bucket["key"]): TenantCounts(
            records=int(bucket["doc_count"]),
            missing=sum(int(found["doc_count"]) for name, found in bucket.items() if name.startswith("space_")),
        )
        for bucket in answer["aggregations"]["tenants"]["buckets"]
    }


def any_vector(tenant_id: str, space: str | None = None) -> dict[str, Any]:
    """Return the search that finds whether a tenant has any vector, or any in one space."""
    held = {"exists": {"field": SPACES}} if space is None else {"term": {SPACES: space}}
    return {
        "size": 0,
        "track_total_hits": 1,
        "terminate_after": 1,
        "query": {"bool": {"filter": [{"term": {"tenant_id": tenant_id}}, held]}},
    }


def stats(tenant_id: str) -> dict[str, Any]:
    """Return the search that counts a tenant's records."""
    return {
        "size": 0,
        "track_total_hits": True,
        "query": {"bool": {"filter": [{"term": {"tenant_id": tenant_id}}]}},
        "aggs": {
            "kinds": {"terms": {"field": "kind", "size": len(Kind)}},
            "types": {"terms": {"field": "entity_type", "size": _TYPES}},
            "newest": {"max": {"field": "schema_version"}},
        },
    }


def stats_of(answer: Mapping[str, Any]) -> IndexStats:
    """Return the counts that :func:`stats` asked for."""
    aggregations = answer["aggregations"]
    return IndexStats(
        records=answer["hits"]["total"]["value"],
        by_kind={Kind(bucket["key"]): bucket["doc_count"] for bucket in aggregations["kinds"]["buckets"]},
        by_entity_type={bucket["key"]: bucket["doc_count"] for bucket in aggregations["types"]["buckets"]},
        newest_schema_version=int(aggregations["newest"]["value"] or 1),
    )


def next_change(tenant_id: str, after: datetime) -> dict[str, Any]:
    """Return the search for the first moment after another when a record becomes or ceases to be valid."""
    moment = microseconds(after)
    ahead = {field: {"range": {field: {"gt": moment, "lt": LAST_MOMENT}}} for field in _VALIDITY}
    return {
        "size": 0,
        "track_total_hits": False,
        "query": {"bool": {"filter": [{"term": {"tenant_id": tenant_id}}, {"bool": {"should": list(ahead.values())}}]}},
        "aggs": {
            field: {"filter": clause, "aggs": {"first": {"min": {"field": field}}}} for field, clause in ahead.items()
        },
    }


def next_change_of(answer: Mapping[str, Any]) -> datetime | None:
    """Return the moment that :func:`next_change` asked for; None when there is none."""
    found = [answer["aggregations"][field]["first"]["value"] for field in _VALIDITY]
    firsts = [value for value in found if value is not None]
    # Minima are floating-point numbers, which hold every microsecond up to the year 2255.
    return moment_of(int(min(firsts))) if firsts else None


def _body(query: dict[str, Any], k: int) -> dict[str, Any]:
    return {
        "size": k,
        "_source": False,
        "track_total_hits": False,
        "sort": [{"_score": "desc"}, {"id": "asc"}],
        "query": query,
    }


def knn(embedding: Embedding, k: int, clause: dict[str, Any]) -> dict[str, Any]:
    """Return the search for the ``k`` nearest vectors among what meets a filter."""
    field = vector_field(embedding.space)
    vector = {"vector": floats(embedding.vector), "k": max(_EXPLORED, 2 * k), "filter": clause}
    return _body({"knn": {field: vector}}, k)


def match(words: Sequence[str], k: int, clause: dict[str, Any]) -> dict[str, Any]:
    """Return the search for the ``k`` best texts with any of the words, among what meets a filter.

    A word with a space in it is found where its parts stand together.
    """
    single = [word for word in words if " " not in word]
    wanted: list[dict[str, Any]] = [{"match": {WORDS: {"query": " ".join(single)}}}] if single else []
    wanted += [{"match_phrase": {WORDS: word}} for word in words if " " in word]
    any_of_them = wanted[0] if len(wanted) == 1 else {"bool": {"should": wanted, "minimum_should_match": 1}}
    return _body({"bool": {"must": [any_of_them], "filter": [clause]}}, k)


def newest(words: Sequence[str], k: int, clause: dict[str, Any]) -> dict[str, Any]:
    """Return the search for the ``k`` newest texts with any of the words, among what meets a filter."""
    by_time = {"timestamp_us": {"order": "desc", "missing": "_last"}}
    return {**match(words, k, clause), "sort": [by_time, {"id": "asc"}], "track_scores": True}


def by_keys(tenant_id: str, keys: Sequence[str], *, with_vectors: bool = False) -> dict[str, Any]:
    """Return the search for documents by their ids, whole but for what :func:`record_of` leaves out.

    A search, because a get rebuilds each document's vectors from the index before it drops them: ten times as slow.
    """
    # An id carries the tenant; the document has the last word.
    conditions = [{"ids": {"values": list(keys)}}, {"term": {"tenant_id": tenant_id}}]
    return {
        "size": len(keys),
        "_source": {"excludes": [DIGEST] if with_vectors else SOURCE_EXCLUDES},
        "track_total_hits": False,
        "sort": ["_doc"],
        "query": {"bool": {"filter": conditions}},
    }


def hits_of(answer: Mapping[str, Any]) -> list[tuple[float, str]]:
    """Return (engine's score, record id), best first."""
    return [(float(hit["sort"][0]), str(hit["sort"][1])) for hit in answer["hits"]["hits"]]


def newest_strand(valid: Mapping[str, Any], retired: Mapping[str, Any], *, k: int) -> tuple[tuple[Hit, ...], set[str]]:
    """Return the hits of two answers to :func:`newest`, and the retired records that would have been among them."""
    found = [
        (-int(hit["sort"][0]), str(hit["sort"][1]), is_retired, float(hit["_score"]))
        for answer, is_retired in ((valid, False), (retired, True))
        for hit in answer["hits"]["hits"]
    ]
    found.sort()
    kept = [(name, score) for _, name, is_retired, score in found if not is_retired][:k]
    hits = tuple(Hit(id=name, score=from_lucene_bm25(score), rank=rank) for rank, (name, score) in enumerate(kept, 1))
    return hits, {name for _, name, is_retired, _ in found[:k] if is_retired}


def strand(
    valid: Sequence[tuple[float, str]],
    retired: Sequence[tuple[float, str]],
    *,
    k: int,
    score: Callable[[float], float],
) -> tuple[tuple[Hit, ...], set[str]]:
    """Return the hits of one strand, and the retired records that would have been among its first ``k``."""
    ranked = sorted((-score(raw), name, False) for raw, name in valid)
    hits = tuple(
        Hit(id=name, score=-negative, rank=rank) for rank, (negative, name, _) in enumerate(ranked[:k], start=1)
    )
    everything = sorted(ranked + [(-score(raw), name, True) for raw, name in retired])
    return hits, {name for _, name, is_retired in everything[:k] if is_retired}
