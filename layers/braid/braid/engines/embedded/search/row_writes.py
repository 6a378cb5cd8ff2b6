"""SQL that writes the rows of records, with their words and their vectors: upsert and delete."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from braid.engines.embedded.search import removed_vectors_log
from braid.engines.embedded.search.row_reads import check_stored_length, has_any, unit
from braid.engines.embedded.tables import create_words, forget_words, to_microseconds, words_table, write_words
from braid.models.metadata_terms import terms_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from braid.models import Record

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
BLOCKS_AT_ONCE: Final = 5_000
"""Most 4 KB blocks of an FTS5 table that one transaction removes: a tenth of a second."""
_OWN_BLOCKS: Final = 10
"""Highest id of the blocks that FTS5 reserves for its own metadata, such as the list of segments."""


def upsert(connection: sqlite3.Connection, tenant: int, records: Iterable[Record]) -> None:
    """Insert or replace records of one tenant; unchanged rows are left as they are.

    Raises
    ------
    InvalidRequest
        If a vector is zero or not finite; the caller's transaction then undoes the rest.
    StoreError
        If a vector's length is not that of the tenant's stored vectors of its space.
    """
    if not has_any(connection, tenant):
        create_words(connection, tenant)
        if words_are_left(connection, tenant):  # a process was stopped before it removed the vectors of deleted records
            clear_words(connection, tenant)
    removed_vectors_log.begin_write(connection, tenant)
    known_spaces: set[str] = set()
    for record in records:
        body = _body(record)
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


def set_validity(connection: sqlite3.Connection, tenant: int, records: Sequence[Record]) -> int:
    """Update the validity of stored records, and return how many there were; words, terms and vectors stay."""
    removed_vectors_log.begin_write(connection, tenant)
    return connection.executemany(
        "UPDATE records SET valid_at = ?, invalid_at = ?, body = ? WHERE tenant = ? AND id = ?",
        [
            (to_microseconds(one.valid_at), to_microseconds(one.invalid_at), _body(one), tenant, one.id)
            for one in records
        ],
    ).rowcount


def _body(record: Record) -> str:
    """Return a record as JSON, without defaults, which would be nearly all of it: a question reads a hundred."""
    return record.model_dump_json(exclude={"embeddings", "content", "id", "tenant_id"}, exclude_defaults=True)


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
    # Indexing a text takes twenty times as long as storing it, so a record with unchanged texts keeps its words.
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
    # fetchall: a statement with RETURNING completes only when all of its rows are read.
    number = int(connection.execute(_WRITE, row).fetchall()[0][0])
    if reworded:
        write_words(connection, words, (number, title, aliases, record.content))
    if old is not None:
        connection.execute("DELETE FROM metadata WHERE record = ?", (number,))
    connection.executemany(
        "INSERT INTO metadata (record, tenant, term) VALUES (?, ?, ?)",
        [(number, tenant, term) for term in terms_of(record.metadata)],
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
                # Inserted with a new number instead of updated: index files find changes by number.
                removed_vectors_log.remove_vectors(connection, tenant, old[:1])
            connection.execute(
                "INSERT INTO vectors (tenant, space, record, start, model_id, key, vector)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (tenant, embedding.space, number, start, embedding.model_id, _key(vector), vector),
            )
    if stored:
        removed_vectors_log.remove_vectors(connection, tenant, [old[0] for old in stored.values()])


def _key(vector: bytes) -> int:
    """Return a 63-bit hash of a vector; collisions are negligible."""
    return int.from_bytes(blake2b(vector, digest_size=8).digest(), "big") >> 1


def characters(connection: sqlite3.Connection, tenant: int, ids: Sequence[str]) -> dict[str, int]:
    """Return the text length in characters of the records that exist, by id."""
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
    removed_vectors_log.begin_write(connection, tenant)
    vectors = connection.execute(
        "SELECT v.number FROM json_each(?) AS n CROSS JOIN vectors AS v ON v.record = n.value",
        (json.dumps([row[0] for row in rows]),),
    ).fetchall()
    removed_vectors_log.remove_vectors(connection, tenant, [row[0] for row in vectors])
    connection.executemany("DELETE FROM metadata WHERE record = ?", numbers)
    connection.executemany("DELETE FROM records WHERE number = ?", numbers)
    if not has_any(connection, tenant):
        removed_vectors_log.forget(connection, tenant)
    return len(rows)


def words_are_left(connection: sqlite3.Connection, tenant: int) -> bool:
    """Return whether a tenant has no records, but its FTS5 table still has words.

    Words of rows that are removed one by one stay in the index until its next merge.
    """
    blocks = f"{words_table(tenant)}_data"
    if has_any(connection, tenant):
        return False
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (blocks,)).fetchone():
        return False
    found = connection.execute(f"SELECT 1 FROM {blocks} WHERE id > ? LIMIT 1", (_OWN_BLOCKS,))  # noqa: S608 - a table of ours
    return found.fetchone() is not None


def remove_some_words(connection: sqlite3.Connection, tenant: int) -> None:
    """Remove a batch of blocks from the FTS5 table of a tenant without records, which no search reads."""
    blocks = f"{words_table(tenant)}_data"
    # The last block stays until FTS5 refers to none of them: it shows other processes that blocks are left.
    removed = connection.execute(
        f"DELETE FROM {blocks} WHERE id IN"  # noqa: S608 - a table of ours
        f" (SELECT id FROM {blocks} WHERE id > ? AND id < (SELECT max(id) FROM {blocks}) LIMIT ?)",
        (_OWN_BLOCKS, BLOCKS_AT_ONCE),
    ).rowcount
    if removed < BLOCKS_AT_ONCE:
        clear_words(connection, tenant)


def clear_words(connection: sqlite3.Connection, tenant: int) -> None:
    """Empty a tenant's FTS5 table."""
    table = words_table(tenant)
    connection.execute(f"INSERT INTO {table} ({table}) VALUES ('delete-all')")  # noqa: S608 - a table of ours
