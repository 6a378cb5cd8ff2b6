"""Builds requests that read by id, count and scan a tenant's records, and parses their answers; sends nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from braid.engines.opensearch.mapping import (
    DIGEST,
    DOCUMENT,
    IS_UNTRUSTED,
    MODEL_IDS,
    SOURCE_EXCLUDES,
    SPACES,
    TERMS,
    WORDS,
)
from braid.models import FacetValue, Kind, ValueKind
from braid.models.metadata_filters import FACET_VALUES
from braid.models.metadata_terms import key_of, span_of, value_of
from braid.ports.search_index import IndexStats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from braid.ports.search_index import ScanConditions


_TYPES = 1_000
"""Most entity types counted."""
_KINDS = "".join(ValueKind)
_FEW_VALUES = 100_000
"""Most values, once for each field that is counted, that are read one by one: some tenths of a second."""


def scan_clause(tenant_id: str, **conditions: Unpack[ScanConditions]) -> dict[str, Any]:
    """Return the filter of a tenant's records that meet every condition given."""
    clauses: list[dict[str, Any]] = [{"term": {"tenant_id": tenant_id}}]
    if (schema_below := conditions.get("schema_below")) is not None:
        clauses.append({"range": {"schema_version": {"lt": schema_below}}})
    if (document := conditions.get("document")) is not None:
        names = [{"term": {"id": document}}, {"prefix": {"id": f"{document}#"}}, {"term": {DOCUMENT: document}}]
        clauses.append({"bool": {"should": names}})
    missing = [
        {"term": {field: wanted}}
        for field, wanted in ((SPACES, conditions.get("space_missing")), (MODEL_IDS, conditions.get("model_missing")))
        if wanted is not None
    ]
    # A record must lack both: ``must_not`` excludes documents that match any of its clauses.
    return {"bool": {"filter": clauses, "must_not": missing}}


class TenantCounts(NamedTuple):
    """Counts of one tenant's records."""

    records: int
    missing: int
    """Records that lack a vector, counted once per space."""


def by_tenant(tenant_ids: Sequence[str], spaces: Sequence[str]) -> dict[str, Any]:
    """Return the search that counts the records of some tenants, and how many of them lack a space's vector."""
    lacking = {
        f"space_{number}": {"filter": {"bool": {"must_not": [{"term": {SPACES: space}}]}}}
        for number, space in enumerate(spaces)
    }
    # As many buckets as tenants: every count is exact.
    tenants = {"terms": {"field": "tenant_id", "size": len(tenant_ids)}, "aggs": lacking}
    return {
        "size": 0,
        "track_total_hits": False,
        "query": {"bool": {"filter": [{"terms": {"tenant_id": list(tenant_ids)}}]}},
        "aggs": {"tenants": tenants},
    }


def tenant_counts(answer: Mapping[str, Any]) -> dict[str, TenantCounts]:
    """Return the counts of :func:`by_tenant`, by tenant; a tenant without records is absent."""
    return {
        str(bucket["key"]): TenantCounts(
            records=int(bucket["doc_count"]),
            missing=sum(int(found["doc_count"]) for name, found in bucket.items() if name.startswith("space_")),
        )
        for bucket in answer["aggregations"]["tenants"]["buckets"]
    }


def any_vector(tenant_id: str, space: str | None = None) -> dict[str, Any]:
    """Return the search for whether a tenant has any vector, or any in one space."""
    condition = {"exists": {"field": SPACES}} if space is None else {"term": {SPACES: space}}
    return _up_to(1, _among(tenant_id, condition))


def any_with(tenant_id: str, word: str, *, trusted_only: bool) -> dict[str, Any]:
    """Return the search for whether any of a tenant's records, or of the trusted ones, has a word in its texts."""
    return _up_to(1, _among(tenant_id, {"match": {WORDS: {"query": word}}}, trusted_only=trusted_only))


def count(tenant_id: str, at_most: int, *, trusted_only: bool = False) -> dict[str, Any]:
    """Return the search that counts a tenant's records, or trusted ones, and ends in each shard at ``at_most``."""
    return _up_to(at_most, _among(tenant_id, trusted_only=trusted_only))


def _among(tenant_id: str, *conditions: dict[str, Any], trusted_only: bool = False) -> dict[str, Any]:
    """Return the query for a tenant's records that meet all conditions; optionally only trusted ones."""
    filters = [{"term": {"tenant_id": tenant_id}}, *conditions]
    return {"bool": {"filter": filters, "must_not": [IS_UNTRUSTED] if trusted_only else []}}


def _up_to(most: int, query: dict[str, Any]) -> dict[str, Any]:
    return {"size": 0, "track_total_hits": most, "terminate_after": most, "query": query}


def stats(tenant_id: str) -> dict[str, Any]:
    """Return the search that counts a tenant's records."""
    return {
        "size": 0,
        "track_total_hits": True,
        "query": {"bool": {"filter": [{"term": {"tenant_id": tenant_id}}]}},
        "aggs": {
            "kinds": {"terms": {"field": "kind", "size": len(Kind)}},
            "types": {"terms": {"field": "entity_type", "size": _TYPES}},
        },
    }


def stats_of(answer: Mapping[str, Any]) -> IndexStats:
    """Return the counts in a response to :func:`stats`."""
    aggregations = answer["aggregations"]
    return IndexStats(
        records=answer["hits"]["total"]["value"],
        by_kind={Kind(bucket["key"]): bucket["doc_count"] for bucket in aggregations["kinds"]["buckets"]},
        by_entity_type={bucket["key"]: bucket["doc_count"] for bucket in aggregations["types"]["buckets"]},
    )


def ids_of(clause: dict[str, Any], *, most: int) -> dict[str, Any]:
    """Return the search for the ids of the records that a filter lets pass."""
    return {"size": most, "_source": False, "track_total_hits": False, "sort": [{"id": "asc"}], "query": clause}


def field_kinds(tenant_id: str, fields: Sequence[str], *, trusted_only: bool) -> dict[str, Any]:
    """Return the search that counts a tenant's records, or trusted ones, by the kinds of values in metadata fields."""
    spans = {
        f"{place}{kind}": span_of(field, kind, tenant_id) for place, field in enumerate(fields) for kind in ValueKind
    }
    counted = {name: {"range": {TERMS: {"gte": span.start, "lt": span.end}}} for name, span in spans.items()}
    return {
        "size": 0,
        "track_total_hits": False,
        "query": _among(tenant_id, trusted_only=trusted_only),
        "aggs": {"kinds": {"filters": {"filters": counted}}},
    }


def field_kinds_of(answer: Mapping[str, Any], fields: Sequence[str]) -> dict[str, frozenset[ValueKind]]:
    """Return the kinds in a response to :func:`field_kinds`, of the fields that any record has."""
    counted = answer["aggregations"]["kinds"]["buckets"]
    kinds = {
        field: frozenset(kind for kind in ValueKind if counted[f"{place}{kind}"]["doc_count"])
        for place, field in enumerate(fields)
    }
    return {field: found for field, found in kinds.items() if found}


def number_of_values(clause: dict[str, Any]) -> dict[str, Any]:
    """Return the search that counts all values of the records that a filter lets pass, and ends where they are many."""
    counted = {"values": {"value_count": {"field": TERMS}}}
    return {**_up_to(_FEW_VALUES, clause), "track_total_hits": False, "aggs": counted}


def are_few_values(answer: Mapping[str, Any], fields: Sequence[str]) -> bool:
    """Return whether, by a response to :func:`number_of_values`, the values of fields may be read one by one."""
    values = int(answer["aggregations"]["values"]["value"])
    return not answer.get("terminated_early", False) and values * len(fields) <= _FEW_VALUES


def count_values(
    clause: dict[str, Any], fields: Sequence[str], *, tenant_id: str, one_by_one: bool = False
) -> dict[str, Any]:
    """Return the search that counts the values of a tenant's fields among the records that a filter lets pass.

    With ``one_by_one`` each record's values are read directly. Otherwise OpenSearch counts by global ordinals, which
    after each refresh it rebuilds for the terms of all tenants before it counts.
    """
    # The prefix of a field's terms is hexadecimal, so it contains no pattern; terms that order dates are left out.
    included = [f"{key_of(field, tenant_id)}[{_KINDS}].*" for field in fields]
    how = {"execution_hint": "map"} if one_by_one else {}
    counted = {
        f"field_{place}": {"terms": {"field": TERMS, "size": FACET_VALUES, "include": pattern, **how}}
        for place, pattern in enumerate(included)
    }
    return {"size": 0, "track_total_hits": False, "query": clause, "aggs": counted}


def values_of(answer: Mapping[str, Any], fields: Sequence[str]) -> dict[str, tuple[FacetValue, ...]]:
    """Return the values in a response to :func:`count_values`."""
    return {
        field: tuple(
            FacetValue(value=value_of(bucket["key"]), count=bucket["doc_count"])
            for bucket in answer["aggregations"][f"field_{place}"]["buckets"]
        )
        for place, field in enumerate(fields)
    }


def by_keys(tenant_id: str, keys: Sequence[str], *, with_vectors: bool = False) -> dict[str, Any]:
    """Return the search for documents by their ids.

    A search is ten times as fast as a get, which rebuilds each document's vectors before it drops them.
    """
    # The ids carry the tenant already; the document's own field decides.
    conditions = [{"ids": {"values": list(keys)}}, {"term": {"tenant_id": tenant_id}}]
    return {
        "size": len(keys),
        "_source": {"excludes": [DIGEST] if with_vectors else SOURCE_EXCLUDES},
        "track_total_hits": False,
        "sort": ["_doc"],
        "query": {"bool": {"filter": conditions}},
    }


def ids_page(query: dict[str, Any], *, after: str, limit: int) -> dict[str, Any]:
    """Return the search for the next ids of records, without the records."""
    return {
        "size": limit,
        "track_total_hits": False,
        "sort": [{"id": "asc"}],
        "query": query,
        "search_after": [after],
        "_source": False,
    }


def scan_page(query: dict[str, Any], *, after: str, limit: int, with_vectors: bool) -> dict[str, Any]:
    """Return the search for one record more than a page of a scan, in the order of their ids.

    It uses no point in time (PIT): ids never change, so that no record is missed or repeated without one, and a domain
    has only 300 of them, which unfinished scans would occupy for minutes.

    Parameters
    ----------
    after
        Id of the last record of the page before.
    """
    return {
        "size": limit + 1,
        "track_total_hits": False,
        "sort": [{"id": "asc"}],
        "query": query,
        "search_after": [after],
        "_source": {"excludes": [DIGEST] if with_vectors else SOURCE_EXCLUDES},
    }
