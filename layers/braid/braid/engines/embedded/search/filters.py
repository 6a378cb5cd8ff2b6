"""The filters of a search request as a SQL condition on the table ``records``, aliased ``r``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from braid.engines.embedded.tables import is_trusted, to_microseconds
from braid.models.metadata_filters import term_tests

if TYPE_CHECKING:
    from braid.models.metadata_filters import FieldCondition
    from braid.models.metadata_terms import TermTest
    from braid.ports.search_index import SearchRequest

VALID = "((r.valid_at IS NULL OR r.valid_at <= :as_of) AND (r.invalid_at IS NULL OR r.invalid_at > :as_of))"
"""SQL expression: 1 if a row is valid at ``as_of``, else 0."""


class RowFilter(NamedTuple):
    """A SQL condition and its bound values; validity is left out, so that superseded rows can be counted."""

    where: str
    values: dict[str, str | int]
    narrow: bool
    """Whether there is any condition beyond tenant and schema version, so that few rows may pass."""


def to_sql(request: SearchRequest, tenant: int, *, outdated: bool = False) -> RowFilter:
    """Translate a request's filters; a caller's values are bound, never part of the statement.

    Parameters
    ----------
    outdated
        Select only rows with a schema version below ``min_schema_version`` instead of the others.
    """
    clauses = ["r.tenant = :tenant"]
    values: dict[str, str | int] = {"tenant": tenant, "as_of": to_microseconds(request.as_of) or 0}
    filters = request.filters
    # A subquery is evaluated once and looked up by hash; it takes any number of values.
    for column, wanted in (("id", request.ids), ("kind", filters.kinds), ("entity_type", filters.entity_types)):
        if wanted or (column == "id" and wanted is not None):
            clauses.append(f"r.{column} IN (SELECT value FROM json_each(:{column}))")  # noqa: S608 - a column's name from above
            values[column] = json.dumps(list(wanted or ()))
    for column, exactly in (("task_id", filters.task_id), ("tool_name", filters.tool_name)):
        if exactly is not None:
            clauses.append(f"r.{column} = :{column}")
            values[column] = exactly
    if filters.trusted_only:
        clauses.append(is_trusted("r.number"))
    if filters.time_range is not None:
        clauses.append("r.timestamp IS NOT NULL")
        for bound, comparison in (("start", ">="), ("end", "<")):
            moment = to_microseconds(getattr(filters.time_range, bound))
            if moment is not None:
                clauses.append(f"r.timestamp {comparison} :{bound}")
                values[bound] = moment
    clauses += _by_metadata(filters.metadata, values)
    narrow = len(clauses) > 1
    if request.min_schema_version > 1:
        clauses.append(f"r.schema_version {'<' if outdated else '>='} :min_schema_version")
        values["min_schema_version"] = request.min_schema_version
    return RowFilter(" AND ".join(clauses), values, narrow or outdated)


def _by_metadata(conditions: tuple[FieldCondition, ...], values: dict[str, str | int]) -> list[str]:
    tests = term_tests(conditions) if conditions else ()
    return [_by_terms(test, number, values) for number, test in enumerate(tests)]


def _by_terms(test: TermTest, number: int, values: dict[str, str | int]) -> str:
    """Return the SQL condition of a test on a row's metadata, and add its bound values to ``values``."""
    if test.span is None:
        values[f"terms_{number}"] = json.dumps(test.terms)
        held = f"m.term IN (SELECT value FROM json_each(:terms_{number}))"  # noqa: S608 - a number
    else:
        values |= {f"term_from_{number}": test.span.start, f"term_until_{number}": test.span.end}
        held = f"m.term >= :term_from_{number} AND m.term < :term_until_{number}"
    which = "IN" if test.wanted else "NOT IN"
    return f"r.number {which} (SELECT m.record FROM metadata AS m WHERE m.tenant = :tenant AND {held})"  # noqa: S608 - as above
