"""The filters of a search request as a SQL condition on the table ``records``, aliased ``r``.

Validity at ``as_of`` is a column of the result, ``VALID``: ``knn`` and ``bm25`` count and drop what is not valid. The
rule is ``is_valid`` of :mod:`braid.engines.embedded.tables`; edges and vertices are tested in ``graph.adjacency``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from braid.engines.embedded.tables import is_trusted, is_valid, to_microseconds
from braid.models import Kind
from braid.models.metadata_filters import term_tests

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from braid.models.metadata_terms import TermTest
    from braid.ports.search_index import SearchRequest

VALID = is_valid("r")
"""SQL expression: 1 if a row is valid at ``as_of``, else 0."""


class RowFilter(NamedTuple):
    """A SQL condition and its bound values; validity is left out, so that superseded rows can be counted."""

    where: str
    """The condition, which takes the same time for a row whatever the number of rows."""
    values: dict[str, str | int]
    narrow: bool
    """Whether there is any condition beyond tenant and schema version, so that few rows may pass."""
    by_index: tuple[str, ...]
    """For each condition that an index answers, the statement that selects the numbers of the rows that meet it."""
    few: list[int] | None = None
    """The numbers of the rows that pass; None if they are unknown, or many."""

    @property
    def rows(self) -> str:
        """The rows to read, as SQL for FROM: all records, or the few."""
        if self.few is None:
            return "records AS r"
        return "json_each(:few) AS n CROSS JOIN records AS r ON r.number = n.value"

    def with_few(self, connection: sqlite3.Connection, most: int) -> RowFilter:
        """Return the filter with ``few``, if one of its conditions is met by at most ``most`` rows."""
        for statement in self.by_index:
            found = connection.execute(f"{statement} LIMIT :most + 1", {**self.values, "most": most}).fetchall()
            if len(found) <= most:
                candidates = self._of([row[0] for row in found])
                passing = f"SELECT DISTINCT r.number FROM {candidates.rows} WHERE {candidates.where}"  # noqa: S608 - bound values only
                return self._of([row[0] for row in connection.execute(passing, candidates.values)])
        return self

    def _of(self, numbers: list[int]) -> RowFilter:
        return self._replace(few=numbers, values={**self.values, "few": json.dumps(numbers)})


class _Condition(NamedTuple):
    where: str
    by_index: str | None = None


def to_sql(request: SearchRequest, tenant: int, *, outdated: bool = False) -> RowFilter:
    """Translate a request's filters; a caller's values are bound, never part of the statement.

    Parameters
    ----------
    outdated
        Select only rows with a schema version below ``min_schema_version`` instead of the others.
    """
    values: dict[str, str | int] = {"tenant": tenant, "as_of": to_microseconds(request.as_of) or 0}
    conditions = [*_on_columns(request, values), *_on_time(request, values)]
    if request.filters.trusted_only:
        conditions.append(_Condition(is_trusted("r.number")))
    tests = term_tests(request.filters.metadata) if request.filters.metadata else ()
    conditions += [_on_terms(test, number, values) for number, test in enumerate(tests)]
    narrow = bool(conditions) or outdated
    if request.min_schema_version > 1:
        values["min_schema_version"] = request.min_schema_version
        conditions.append(
            _indexed("r.schema_version < :min_schema_version")
            if outdated
            else _Condition("r.schema_version >= :min_schema_version")
        )
    where = " AND ".join(["r.tenant = :tenant", *(condition.where for condition in conditions)])
    return RowFilter(where, values, narrow, tuple(one.by_index for one in conditions if one.by_index))


def _indexed(where: str, more: str = "") -> _Condition:
    """Return a condition that an index of ``records`` answers, with another one that all rows meet, if it needs it."""
    return _Condition(where, f"SELECT r.number FROM records AS r WHERE r.tenant = :tenant AND {where}{more}")  # noqa: S608 - conditions of ours


def _on_columns(request: SearchRequest, values: dict[str, str | int]) -> Iterator[_Condition]:
    filters = request.filters
    # A subquery is evaluated once and looked up by hash; it takes any number of values.
    among = "r.{0} IN (SELECT value FROM json_each(:{0}))".format
    if request.ids is not None:
        values["id"] = json.dumps(list(request.ids))
        yield _indexed(among("id"))
    if filters.kinds:
        values["kind"] = json.dumps(list(filters.kinds))
        yield _indexed(among("kind"))
    if filters.entity_types:
        values |= {"entity_type": json.dumps(list(filters.entity_types)), "any_kind": json.dumps(list(Kind))}
        yield _indexed(among("entity_type"), " AND r.kind IN (SELECT value FROM json_each(:any_kind))")
    for column, exactly in (("task_id", filters.task_id), ("tool_name", filters.tool_name)):
        if exactly is not None:
            values[column] = exactly
            yield _indexed(f"r.{column} = :{column}")


def _on_time(request: SearchRequest, values: dict[str, str | int]) -> Iterator[_Condition]:
    time_range = request.filters.time_range
    if time_range is None:
        return
    clauses = ["r.timestamp IS NOT NULL"]
    for bound, moment, comparison in (("start", time_range.start, ">="), ("end", time_range.end, "<")):
        if moment is not None:
            clauses.append(f"r.timestamp {comparison} :{bound}")
            values[bound] = to_microseconds(moment) or 0
    yield _indexed(" AND ".join(clauses))


def _on_terms(test: TermTest, number: int, values: dict[str, str | int]) -> _Condition:
    """Return the condition of a test on a row's metadata, and add its bound values to ``values``."""
    if test.span is None:
        values[f"terms_{number}"] = json.dumps(test.terms)
        held = f"m.term IN (SELECT value FROM json_each(:terms_{number}))"  # noqa: S608 - a number
    else:
        values |= {f"term_from_{number}": test.span.start, f"term_until_{number}": test.span.end}
        held = f"m.term >= :term_from_{number} AND m.term < :term_until_{number}"
    has = f"EXISTS (SELECT 1 FROM metadata AS m WHERE m.record = r.number AND {held})"  # noqa: S608 - as above
    if not test.wanted:
        return _Condition(f"NOT {has}")
    return _Condition(has, f"SELECT m.record FROM metadata AS m WHERE m.tenant = :tenant AND {held}")  # noqa: S608 - as above
