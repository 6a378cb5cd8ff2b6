"""SQL that reads the rows of records and their vectors: by id, by page, and counts for facets."""

from __future__ import annotations

import json
from array import array
from datetime import datetime
from itertools import groupby
from math import hypot, isfinite
from typing import TYPE_CHECKING, Any, Final

from braid.deadline import check, checked
from braid.engines.embedded.search.filters import VALID
from braid.engines.embedded.tables import UNTRUSTED, from_microseconds, is_trusted, to_microseconds
from braid.errors import InvalidRequest, StoreError
from braid.models import (
    Embedding,
    FacetValue,
    FurtherPart,
    Kind,
    Record,
    SourceRef,
    SourceType,
    StoredRecord,
    ValueKind,
)
from braid.models.metadata_filters import FACET_VALUES
from braid.models.metadata_terms import MOMENT_KIND, span_of, value_of
from braid.ports.search_index import WrittenRecord

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Mapping, Sequence

    from braid.engines.embedded.search.filters import RowFilter
    from braid.ports.search_index import ScanConditions

_FLOAT_BYTES = 4
_CONDITIONS: Final[Mapping[str, str]] = {
    "schema_below": "r.schema_version < :schema_below",
    "space_missing": "NOT EXISTS (SELECT 1 FROM vectors WHERE record = r.number AND space = :space_missing)",
    "model_missing": "NOT EXISTS (SELECT 1 FROM vectors WHERE record = r.number AND model_id = :model_missing)",
    "document": "(r.id = :document OR substr(r.id, 1, length(:document) + 1) = :document || '#'"
    " OR json_extract(r.body, '$.source.title') = :document)",
}
"""Conditions of :class:`braid.ports.search_index.ScanConditions` in SQL."""


def check_stored_length(connection: sqlite3.Connection, tenant: int, space: str, dimension: int) -> None:
    """Raise StoreError if a tenant's stored vectors of a space do not have the dimension of the space's model.

    Then they were written with another model of the same id.
    """
    row = connection.execute(
        "SELECT length(vector) FROM vectors WHERE space = ? AND tenant = ? LIMIT 1", (space, tenant)
    ).fetchone()
    if row is not None and row[0] != _FLOAT_BYTES * dimension:
        raise StoreError(
            f"this tenant's vectors of space {space} have {row[0] // _FLOAT_BYTES} values and its model makes"
            f" {dimension}; give the model a new id and embed again, or remove the records that have them"
        )


def unit(vector: bytes, space: str, *, record_id: str | None = None) -> bytes:
    """Return a vector scaled to length 1, so that dot products are cosines.

    Raises InvalidRequest if a value is NaN or infinite, or all are zero.
    """
    values = array("f", vector)
    length = hypot(*values)
    if not isfinite(length) or length == 0.0:
        whose = "the question" if record_id is None else f"record {record_id}"
        raise InvalidRequest(
            f"embedding: {whose} has a vector in space {space} that is zero or not finite",
            field="embedding" if record_id is None else "embeddings",
        )
    if abs(length - 1.0) <= 1e-4:  # noqa: PLR2004 - as normalised as float32 rounding leaves it
        return vector
    return array("f", (value / length for value in values)).tobytes()


def has_any(connection: sqlite3.Connection, tenant: int) -> bool:
    """Return whether a tenant has any record; without one it may have no FTS5 table."""
    return connection.execute("SELECT 1 FROM records WHERE tenant = ? LIMIT 1", (tenant,)).fetchone() is not None


def has_more_vectors(connection: sqlite3.Connection, tenant: int, space: str, *, than: int = 0, after: int = 0) -> bool:
    """Return whether a tenant has more vectors in a space, of rows with a number greater than ``after``."""
    found = connection.execute(
        "SELECT 1 FROM vectors WHERE space = ? AND tenant = ? AND number > ? LIMIT 1 OFFSET ?",
        (space, tenant, after, than),
    )
    return found.fetchone() is not None


def read_many(
    connection: sqlite3.Connection, tenant: int, tenant_id: str, ids: Sequence[str], *, with_vectors: bool
) -> list[Record]:
    """Return the records that exist, in the order of ``ids``."""
    rows = connection.execute(
        "SELECT number, id, content, body FROM records WHERE tenant = ? AND id IN (SELECT value FROM json_each(?))",
        (tenant, json.dumps(list(ids))),
    ).fetchall()
    found = {record.id: record for record in _records(connection, tenant_id, rows, with_vectors=with_vectors)}
    return [found[record_id] for record_id in dict.fromkeys(ids) if record_id in found]


def read_candidates(
    connection: sqlite3.Connection, tenant: int, tenant_id: str, ids: Sequence[str]
) -> dict[str, StoredRecord]:
    """Return the records that exist, by id, each parsed from its row on access."""
    rows = connection.execute(
        "SELECT id, schema_version, valid_at, invalid_at, content, body FROM records"
        " WHERE tenant = ? AND id IN (SELECT value FROM json_each(?))",
        (tenant, json.dumps(list(ids))),
    ).fetchall()
    check()
    return {row[0]: _candidate(tenant_id, row) for row in rows}


def _candidate(tenant_id: str, row: tuple[str, int, int | None, int | None, str, str]) -> StoredRecord:
    record_id, schema_version, valid_at, invalid_at, content, body = row

    def make() -> Record:
        return _record(tenant_id, record_id, content, (), _JSON.raw_decode(body)[0])

    return StoredRecord(
        make,
        tenant_id,
        record_id,
        schema_version=schema_version,
        valid_at=None if valid_at is None else from_microseconds(valid_at),
        invalid_at=None if invalid_at is None else from_microseconds(invalid_at),
        supplied_spaces=make().supplied_spaces if _SUPPLIED in body else (),  # hardly any has one
    )


def written(connection: sqlite3.Connection, tenant: int, ids: Sequence[str]) -> dict[str, WrittenRecord]:
    """Return content hash, models and trust of the records that exist, by id."""
    rows = connection.execute(
        "SELECT r.id, json_extract(r.body, '$.content_hash'), json_group_array(DISTINCT v.model_id),"
        " json_extract(r.body, '$.trusted')"
        " FROM json_each(?) AS asked CROSS JOIN records AS r ON r.tenant = ? AND r.id = asked.value"
        " LEFT JOIN vectors AS v ON v.record = r.number GROUP BY r.number",
        (json.dumps(list(dict.fromkeys(ids))), tenant),
    )
    return {
        record_id: WrittenRecord(
            id=record_id,
            content_hash=content_hash,
            model_ids=frozenset(json.loads(model_ids)) - {None},
            trusted=trusted != 0,  # None where it is trusted
        )
        for record_id, content_hash, model_ids, trusted in rows
    }


def page(
    connection: sqlite3.Connection,
    tenant: int,
    tenant_id: str,
    conditions: ScanConditions,
    *,
    after: str,
    limit: int,
    with_vectors: bool,
) -> list[Record]:
    """Return up to ``limit`` records whose ids are greater than ``after`` and that meet every condition given."""
    where, values = _where(tenant, conditions)
    rows = connection.execute(
        f"SELECT r.number, r.id, r.content, r.body FROM records AS r WHERE {where} AND r.id > :after"  # noqa: S608 - see below
        " ORDER BY r.id LIMIT :limit",
        {**values, "after": after, "limit": limit},
    ).fetchall()
    return _records(connection, tenant_id, rows, with_vectors=with_vectors)


def ids(
    connection: sqlite3.Connection, tenant: int, conditions: ScanConditions, *, after: str, limit: int
) -> list[str]:
    """Return up to ``limit`` ids greater than ``after`` of the records that meet every condition given, in order."""
    where, values = _where(tenant, conditions)
    statement = f"SELECT r.id FROM records AS r WHERE {where} AND r.id > :after ORDER BY r.id LIMIT :limit"  # noqa: S608 - see below
    return [str(row[0]) for row in connection.execute(statement, {**values, "after": after, "limit": limit})]


def lacking(connection: sqlite3.Connection, tenant: int, ids: Sequence[str], spaces: Sequence[str]) -> list[str]:
    """Return the ids of the records that lack a vector in any of these spaces."""
    found = connection.execute(
        "SELECT r.id FROM records AS r WHERE r.tenant = ? AND r.id IN (SELECT value FROM json_each(?))"
        " AND EXISTS (SELECT 1 FROM json_each(?) AS wanted WHERE NOT EXISTS"
        " (SELECT 1 FROM vectors WHERE record = r.number AND space = wanted.value)) ORDER BY r.id",
        (tenant, json.dumps(list(ids)), json.dumps(list(spaces))),
    )
    return [str(row[0]) for row in found]


def count(connection: sqlite3.Connection, tenant: int, conditions: ScanConditions) -> int:
    """Return how many records meet every condition given."""
    where, values = _where(tenant, conditions)
    statement = f"SELECT count(*) FROM records AS r WHERE {where}"  # noqa: S608 - see below
    return int(connection.execute(statement, values).fetchone()[0])


def count_up_to(connection: sqlite3.Connection, tenant: int, most: int, *, trusted_only: bool = False) -> int:
    """Return the number of a tenant's records, or of the trusted ones, at most ``most``."""
    counted = f"SELECT count(*) FROM records WHERE tenant = ? AND {UNTRUSTED}"  # noqa: S608 - a constant
    untrusted = int(connection.execute(counted, (tenant,)).fetchone()[0]) if trusted_only else 0
    up_to = "SELECT count(*) FROM (SELECT 1 FROM records WHERE tenant = ? LIMIT ?)"
    return int(connection.execute(up_to, (tenant, most + untrusted)).fetchone()[0]) - untrusted


def _where(tenant: int, conditions: ScanConditions) -> tuple[str, dict[str, object]]:
    """Return the SQL of conditions, with placeholders only, and their bound values."""
    values: dict[str, object] = {name: value for name, value in conditions.items() if value is not None}
    clauses = ["r.tenant = :tenant", *(_CONDITIONS[name] for name in values)]
    return " AND ".join(clauses), {**values, "tenant": tenant}


def _records(
    connection: sqlite3.Connection, tenant_id: str, rows: Sequence[tuple[int, str, str, str]], *, with_vectors: bool
) -> list[Record]:
    """Return records from their number, id, content and body."""
    vectors = _vectors(connection, [row[0] for row in rows]) if with_vectors else {}
    return [
        _record(tenant_id, record_id, content, tuple(vectors.get(number, ())), _JSON.raw_decode(body)[0])
        for number, record_id, content, body in checked(rows, every=16)
    ]


def _record(
    tenant_id: str, record_id: str, content: str, embeddings: tuple[Embedding, ...], body: dict[str, Any]
) -> Record:
    """Return the record of a row, without validating it again."""
    for name, read in _READ.items():
        if name in body:
            body[name] = read(body[name])
    body.setdefault("metadata", {})
    body |= {"id": record_id, "tenant_id": tenant_id, "content": content, "embeddings": embeddings}
    return Record.unchecked(**body)


def _moment(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value)


def _source(value: dict[str, Any]) -> SourceRef:
    if value.get("type"):
        value["type"] = SourceType(value["type"])
    return SourceRef.unchecked(**value)


_JSON: Final = json.JSONDecoder()
_SUPPLIED: Final = '"supplied_spaces"'
_READ: Final[Mapping[str, Callable[[Any], object]]] = {
    "kind": Kind,
    "source": _source,
    **dict.fromkeys(("created_at", "updated_at", "valid_at", "invalid_at", "timestamp"), _moment),
    **dict.fromkeys(("aliases", "supersedes", "supplied_spaces"), tuple),
}
"""By field: the function that converts its JSON value."""


def _vectors(connection: sqlite3.Connection, numbers: list[int]) -> dict[int, list[Embedding]]:
    """Return the vectors of records by record number, ordered by space."""
    found: dict[int, list[Embedding]] = {}
    rows = connection.execute(
        "SELECT record, space, start, model_id, vector FROM vectors WHERE record IN (SELECT value FROM json_each(?))"
        " ORDER BY record, space, start",
        (json.dumps(numbers),),
    )
    for (number, space), parts in groupby(rows, key=lambda row: (row[0], row[1])):
        (_, _, _, model_id, vector), *others = parts
        further = tuple(FurtherPart(start=part[2], vector=part[4]) for part in others)
        embedding = Embedding(space=space, model_id=model_id, vector=vector, further=further)
        found.setdefault(number, []).append(embedding)
    return found


def passing(connection: sqlite3.Connection, row_filter: RowFilter) -> frozenset[str]:
    """Return the ids of the records that pass a filter."""
    statement = f"SELECT r.id FROM records AS r WHERE {row_filter.where}"  # noqa: S608 - bound values only
    return frozenset(row[0] for row in connection.execute(statement, row_filter.values))


def field_kinds(
    connection: sqlite3.Connection, tenant: int, field: str, *, trusted_only: bool = False
) -> frozenset[ValueKind]:
    """Return the kinds of values that a metadata field has in any of the tenant's records, or of its trusted ones."""
    statement = "SELECT 1 FROM metadata WHERE tenant = :tenant AND term >= :start AND term < :end"
    statement += f" AND {is_trusted('metadata.record')}" if trusted_only else ""

    def has(kind: ValueKind) -> bool:
        values = {"tenant": tenant, **span_of(field, kind)._asdict()}
        return connection.execute(f"{statement} LIMIT 1", values).fetchone() is not None

    return frozenset(filter(has, ValueKind))


def count_values(
    connection: sqlite3.Connection, row_filter: RowFilter, fields: Sequence[str]
) -> dict[str, tuple[FacetValue, ...]]:
    """Return the most frequent values of fields among the valid records that pass a filter, evaluated once."""
    values: dict[str, str | int] = {**row_filter.values, "most": FACET_VALUES}
    passing = f"SELECT r.number AS number FROM {row_filter.rows} WHERE {row_filter.where} AND {VALID}"  # noqa: S608 - bound values only
    # Without conditions each record is looked up: reading all of them may cost more than the fields' values.
    passes = "m.record IN passing" if row_filter.narrow else f"EXISTS ({passing} AND r.number = m.record)"
    selects: list[str] = []
    for number, field in enumerate(fields):
        # No kind sorts between the terms that order dates: they are one range to leave out.
        spans = {"all": span_of(field), "moments": span_of(field, MOMENT_KIND)}
        for name, span in spans.items():
            values |= {f"{name}_from_{number}": span.start, f"{name}_until_{number}": span.end}
        selects.append(
            f"SELECT {number}, term, times FROM (SELECT m.term AS term, count(*) AS times FROM metadata AS m"  # noqa: S608 - bound values only
            f" WHERE m.tenant = :tenant AND m.term >= :all_from_{number} AND m.term < :all_until_{number}"
            f" AND NOT (m.term >= :moments_from_{number} AND m.term < :moments_until_{number}) AND {passes}"
            " GROUP BY m.term ORDER BY count(*) DESC, m.term LIMIT :most)"
        )
    counted = connection.execute(f"WITH passing AS MATERIALIZED ({passing}) {' UNION ALL '.join(selects)}", values)
    found: dict[str, list[FacetValue]] = {field: [] for field in fields}
    for number, term, times in counted:
        found[fields[number]].append(FacetValue(value=value_of(term), count=times))
    return {field: tuple(each) for field, each in found.items()}


def first_to_begin(
    connection: sqlite3.Connection, tenant: int, ids: Collection[str], as_of: datetime
) -> datetime | None:
    """Return the earliest moment after ``as_of`` at which one of the records becomes valid; None when none does."""
    (begins,) = connection.execute(
        "SELECT min(valid_at) FROM records WHERE tenant = ? AND valid_at > ?"
        " AND id IN (SELECT value FROM json_each(?))",
        (tenant, to_microseconds(as_of), json.dumps(list(ids))),
    ).fetchone()
    return from_microseconds(begins)
