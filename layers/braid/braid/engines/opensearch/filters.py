"""The filters of a search request as OpenSearch queries: conditions, validity at ``as_of``, metadata terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from braid.engines.opensearch.mapping import IS_UNTRUSTED, TERMS, VALID_FROM, VALID_UNTIL
from braid.models.enums_and_scalars import microseconds
from braid.models.metadata_filters import term_tests

if TYPE_CHECKING:
    from braid.models.metadata_terms import TermTest
    from braid.ports.search_index import SearchRequest


def _conditions(request: SearchRequest, *, outdated: bool) -> list[dict[str, Any]]:
    """Return the conditions that a hit must meet, validity aside, as filter clauses."""
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
        # Also without bounds: a time range selects records that have a time.
        clauses.append({"range": {"timestamp_us": bounds}} if bounds else {"exists": {"field": "timestamp_us"}})
    clauses += [_by_terms(test) for test in term_tests(filters.metadata, request.tenant_id) if test.wanted]
    return clauses


def _by_terms(test: TermTest) -> dict[str, Any]:
    """Return the filter of records with one of a test's terms, or with a term in its range."""
    if test.span is None:
        return {"terms": {TERMS: list(test.terms)}}
    return {"range": {TERMS: {"gte": test.span.start, "lt": test.span.end}}}


def _unwanted(request: SearchRequest) -> list[dict[str, Any]]:
    """Return the conditions that no hit may meet, validity aside."""
    untrusted = [IS_UNTRUSTED] if request.filters.trusted_only else []
    tests = term_tests(request.filters.metadata, request.tenant_id)
    return untrusted + [_by_terms(test) for test in tests if not test.wanted]


def conditions_clause(request: SearchRequest) -> dict[str, Any]:
    """Return the filter of records that meet the request's conditions, valid or not."""
    return {"bool": {"filter": _conditions(request, outdated=False), "must_not": _unwanted(request)}}


def filter_clause(request: SearchRequest, *, valid: bool, outdated: bool = False) -> dict[str, Any]:
    """Return the filter of records that meet the request's conditions and are, or are not, valid at its moment.

    With ``outdated`` they are older than the schema window instead of inside.
    """
    moment = microseconds(request.as_of)
    validity = [{"range": {VALID_FROM: {"lte": moment}}}, {"range": {VALID_UNTIL: {"gt": moment}}}]
    clauses = _conditions(request, outdated=outdated)
    unwanted = _unwanted(request)
    if not valid:
        return {"bool": {"filter": clauses, "must_not": [*unwanted, {"bool": {"filter": validity}}]}}
    within: dict[str, Any] = {"filter": [*clauses, *validity]}
    return {"bool": within | {"must_not": unwanted} if unwanted else within}
