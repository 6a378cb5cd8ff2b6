"""SQL for the rows of records, their words and their vectors: upsert, delete, read by id, page and count."""

from __future__ import annotations

import json
import sys
from array import array
from datetime import datetime
from hashlib import blake2b
from itertools import groupby
from math import hypot, isfinite
from typing import TYPE_CHECKING, Any, Final

from braid.deadline import check, checked
from braid.engines.embedded.search.filters import VALID
from braid.engines.embedded.tables import (
    create_words,
    forget_words,
    from_microseconds,
    to_microseconds,
    words_table,
    write_words,
)
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
from braid.models.metadata_terms import MOMENT_KIND, span_of, terms_of, value_of
from braid.ports.search_index import WrittenRecord

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from braid.engines.embedded.search.filters import RowFilter
    from braid.ports.search_index import ScanConditions

_WRITE = """
INSERT INTO records (tenant, id, kind, entity_type, schema_version, valid_at, invalid_at, timestamp, task_id, tool_name,
                     title, aliases, body, content)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, id) DO UPDATE SET
    kind = excluded.kind, entity_type = excluded.entity_type, schema_version = excluded.schema_version,
    valid_at = excluded.valid_at, invalid_at = excluded.invalid_at, timestamp = excluded.timestamp,
    task_id = excluded.task_id, tool_name = excluded.tool_name, title = excluded.title, aliases = excluded.aliases,
    body = excluded.body, content = excluded.content
RETURNING number
"""
_FLOAT_BYTES = 4
BLOCKS_AT_ONCE: Final = 5_000
"""Blocks of 4 KB of a table of words that one transaction removes: a tenth of a second."""
_OWN_BLOCKS: Final = 10
"""The last number of a block in which FTS5 keeps something of its own, such as which segments there are."""
_CONDITIONS: Final[Mapping[str, str]] = {
    "schema_below": "r.schema_version < :schema_below",
    "space_missing": "NOT EXISTS (SELECT 1 FROM vectors WHERE record = r.number AND space = :space_missing)",
    "model_missing": "NOT EXISTS (SELECT 1 FROM vectors WHERE record = r.number AND model_id = :model_missing)",
    "document": "(r.id = :document OR substr(r.id, 1, length(:document) + 1) = :document || '#'"
    " OR json_extract(r.body, '$.source.title') = :document)",
}
"""Conditions of :class:`braid.ports.search_index.ScanConditions` in SQL."""


def upsert(connection: sqlite3.Connection, tenant: int, records: Iterable[Record]) -> None:
    """Insert or replace records of one tenant; unchanged rows are left as they are.

    Raises
    ------
    InvalidRequest
        If a vector is zero or not finite; the caller's transaction then undoes the rest.
    StoreError
        If a vector is not as long as those that the tenant has in its space.
    """
    if not has_any(connection, tenant):
        create_words(connection, tenant)
        if words_are_left(connection, tenant):  # of records that a process had deleted when it was stopped
            clear_words(connection, tenant)
    known_spaces: set[str] = set()
    for record in records:
        # Without defaults, which are nearly all of it: a question reads a hundred records.
        body = record.model_dump_json(exclude={"embeddings", "content", "id", "tenant_id"}, exclude_defaults=True)
        old = connection.execute(
            "SELECT number, title, aliases, content, body FROM records WHERE tenant = ? AND id = ?", (tenant, record.id)
        ).fetchone()
        if old is not None and (old[3], old[4]) == (record.content, body):
            number = old[0]
        else:
            number = _write(connection, tenant, record, body, old)
        for embedding in record.embeddings:
            if embedding.space not in known_spaces:
                check_stored_length(connection, tenant, embedding.space, embedding.dimension)
                known_spaces.add(embedding.space)
        _write_vectors(connection, tenant, number, record)


def _write(
    connection: sqlite3.Connection,
    tenant: int,
    record: Record,
    body: str,
    old: tuple[int, str, str, str, str] | None,
) -> int:
    words = words_table(tenant)
    title = record.name or ""
    if record.source.title and record.source.title != record.name:
        title = f"{title}\n{record.source.title}" if title else record.source.title
    aliases = "\n".join(record.aliases)
    # Indexing a text takes twenty times as long as storing it: what only ends keeps its words.
    reworded = old is None or old[1:4] != (title, aliases, record.content)
    if old is not None and reworded:
        forget_words(connection, words, [old[:4]])
    row = (
        tenant,
        record.id,
        record.kind,
        record.entity_type,
        record.schema_version,
        to_microseconds(record.valid_at),
        to_microseconds(record.invalid_at),
        to_microseconds(record.timestamp),
        record.task_id,
        record.tool_name,
        title,
        aliases,
        body,
        record.content,
    )
    # fetchall: a statement that returns rows has written only when it was read to its end.
    number = int(connection.execute(_WRITE, row).fetchall()[0][0])
    if reworded:
        write_words(connection, words, (number, title, aliases, record.content))
    if old is not None:
        connection.execute("DELETE FROM metadata WHERE record = ?", (number,))
    terms = dict.fromkeys(terms_of(record.metadata))
    connection.executemany(
        "INSERT INTO metadata (record, tenant, term) VALUES (?, ?, ?)", [(number, tenant, term) for term in terms]
    )
    return number


def _write_vectors(connection: sqlite3.Connection, tenant: int, number: int, record: Record) -> None:
    stored: dict[tuple[str, int], tuple[int, str, bytes]] = {
        (space, start): (vector_number, model_id, vector)
        for space, start, vector_number, model_id, vector in connection.execute(
            "SELECT space, start, number, model_id, vector FROM vectors WHERE record = ?", (number,)
        )
    }
    for embedding in record.embeddings:
        for start, given in ((0, embedding.vector), *((part.start, part.vector) for part in embedding.further)):
            vector = unit(given, embedding.space, record_id=record.id)
            old = stored.pop((embedding.space, start), None)
            if old is not None:
                if old[1:] == (embedding.model_id, vector):
                    continue
                # A new number rather than a new value: index files know what changed by number.
                connection.execute("DELETE FROM vectors WHERE number = ?", old[:1])
            connection.execute(
                "INSERT INTO vectors (tenant, space, record, start, model_id, key, vector)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (tenant, embedding.space, number, start, embedding.model_id, _key(vector), vector),
            )
    for old in stored.values():
        connection.execute("DELETE FROM vectors WHERE number = ?", old[:1])


def _key(vector: bytes) -> int:
    """Return a 63-bit hash: equal vectors have the same, and a collision of others is not to be expected."""
    return int.from_bytes(blake2b(vector, digest_size=8).digest(), "big") >> 1


def check_stored_length(connection: sqlite3.Connection, tenant: int, space: str, dimension: int) -> None:
    """Require that a tenant's stored vectors of a space are as long as the space's model makes them now.

    Raises StoreError if they are not: the model of this id was another one when they were written.
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
    """Return a vector scaled to length 1, so that a dot product is a cosine.

    Raises InvalidRequest if a value is NaN or infinite, or all are zero.
    """
    values = array("f", vector)
    if sys.byteorder == "big":  # pragma: no cover - vectors are little-endian everywhere
        values.byteswap()
    length = hypot(*values)
    if not isfinite(length) or length == 0.0:
        whose = "the question" if record_id is None else f"record {record_id}"
        raise InvalidRequest(
            f"embedding: {whose} has a vector in space {space} that is zero or not finite",
            field="embedding" if record_id is None else "embeddings",
        )
    if abs(length - 1.0) <= 1e-4:  # noqa: PLR2004 - as normalised as float32 rounding leaves it
        return vector
    scaled = array("f", (value / length for value in values))
    if sys.byteorder == "big":  # pragma: no cover
        scaled.byteswap()
    return scaled.tobytes()


def characters(connection: sqlite3.Connection, tenant: int, ids: Sequence[str]) -> dict[str, int]:
    """Return how long the texts are of the records that exist."""
    return dict(
        connection.execute(
            "SELECT id, length(content) FROM records WHERE tenant = ? AND id IN (SELECT value FROM json_each(?))",
            (tenant, json.dumps(list(ids))),
        ).fetchall()
    )


def delete(connection: sqlite3.Connection, tenant: int, ids: Sequence[str]) -> int:
    """Remove records of one tenant with their words and vectors and return how many there were."""
    rows = connection.execute(
        "SELECT number, title, aliases, content FROM records"
        " WHERE tenant = ? AND id IN (SELECT value FROM json_each(?))",
        (tenant, json.dumps(list(ids))),
    ).fetchall()
    if not rows:
        return 0
    forget_words(connection, words_table(tenant), rows)
    numbers = [(row[0],) for row in rows]
    connection.executemany("DELETE FROM vectors WHERE record = ?", numbers)
    connection.executemany("DELETE FROM metadata WHERE record = ?", numbers)
    connection.executemany("DELETE FROM records WHERE number = ?", numbers)
    return len(rows)


def words_are_left(connection: sqlite3.Connection, tenant: int) -> bool:
    """Return whether a tenant has no record, and its table of words is not empty.

    Rows that are removed one by one leave their words in the index until it is next merged.
    """
    blocks = f"{words_table(tenant)}_data"
    if has_any(connection, tenant):
        return False
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (blocks,)).fetchone():
        return False
    found = connection.execute(f"SELECT 1 FROM {blocks} WHERE id > ? LIMIT 1", (_OWN_BLOCKS,))  # noqa: S608 - a table of ours
    return found.fetchone() is not None


def remove_some_words(connection: sqlite3.Connection, tenant: int) -> None:
    """Remove some of what is left in the table of words of a tenant without records, which nobody reads."""
    blocks = f"{words_table(tenant)}_data"
    # The last one stays until FTS5 no longer refers to any of them: by it others see that something is left.
    removed = connection.execute(
        f"DELETE FROM {blocks} WHERE id IN"  # noqa: S608 - a table of ours
        f" (SELECT id FROM {blocks} WHERE id > ? AND id < (SELECT max(id) FROM {blocks}) LIMIT ?)",
        (_OWN_BLOCKS, BLOCKS_AT_ONCE),
    ).rowcount
    if removed < BLOCKS_AT_ONCE:
        clear_words(connection, tenant)


def clear_words(connection: sqlite3.Connection, tenant: int) -> None:
    """Empty a tenant's table of words, at once."""
    table = words_table(tenant)
    connection.execute(f"INSERT INTO {table} ({table}) VALUES ('delete-all')")  # noqa: S608 - a table of ours


def has_any(connection: sqlite3.Connection, tenant: int) -> bool:
    """Return whether a tenant has a record; without one it may have no table of words."""
    return connection.execute("SELECT 1 FROM records WHERE tenant = ? LIMIT 1", (tenant,)).fetchone() is not None


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
    """Return the records that exist by their ids, each made of its row when it is asked for."""
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
    """Return the hash, the models and the trust of the records that exist."""
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
    """Return which of some records have no vector in one of these spaces."""
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


def _where(tenant: int, conditions: ScanConditions) -> tuple[str, dict[str, object]]:
    """Return conditions in SQL, which holds names of columns and no value, and the values."""
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
    """Return a record of what was written of it, which was checked before."""
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
"""By field: what makes its value of the one in JSON."""


def _vectors(connection: sqlite3.Connection, numbers: list[int]) -> dict[int, list[Embedding]]:
    """Return the vectors of some records, by the record's number and in the order of their spaces."""
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


def field_kinds(connection: sqlite3.Connection, tenant: int, field: str) -> frozenset[ValueKind]:
    """Return the kinds of values that any record has in a field of its metadata."""
    statement = "SELECT EXISTS (SELECT 1 FROM metadata WHERE tenant = ? AND term >= ? AND term < ?)"
    return frozenset(
        kind for kind in ValueKind if connection.execute(statement, (tenant, *span_of(field, kind))).fetchone()[0]
    )


def count_values(
    connection: sqlite3.Connection, row_filter: RowFilter, fields: Sequence[str]
) -> dict[str, tuple[FacetValue, ...]]:
    """Return the most frequent values of fields among the valid records that pass a filter, which is asked once."""
    values: dict[str, str | int] = {**row_filter.values, "most": FACET_VALUES}
    passing = f"SELECT r.number AS number FROM records AS r WHERE {row_filter.where} AND {VALID}"  # noqa: S608 - bound values only
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
    """Return when the first of some records, those that are not valid yet, becomes valid; None when none does."""
    (begins,) = connection.execute(
        "SELECT min(valid_at) FROM records WHERE tenant = ? AND valid_at > ?"
        " AND id IN (SELECT value FROM json_each(?))",
        (tenant, to_microseconds(as_of), json.dumps(list(ids))),
    ).fetchone()
    return from_microseconds(begins)
