"""The tables of ``braid.db``.

Times are whole microseconds since 1970 in UTC, so that they compare as numbers and are read back exactly. Outside of
``tenants`` a tenant is identified by its number. Words are in one FTS5 table per tenant: BM25 depends on how often a
word occurs among the rows, and one tenant's rows must not affect another's scores.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from braid.models.enums_and_scalars import microseconds, moment_of
from braid.understanding.tokens import space_ideographs

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence
    from datetime import datetime

FORMAT = 16
"""Version of the tables, in ``PRAGMA user_version``; :mod:`.table_creation_and_upgrades` migrates older ones to it."""
TOKENIZER = "porter unicode61 remove_diacritics 2"
"""FTS5's tokenizer."""
UNTRUSTED = "json_extract(body, '$.trusted') = 0"
"""Condition of the partial index of untrusted records. SQLite uses the index only for this exact expression."""


def is_trusted(number: str) -> str:
    """Return the SQL condition that a tenant's record is trusted, by the column of its number: one look into the index.

    The statement's values name the tenant's number ``tenant``.
    """
    return f"NOT EXISTS (SELECT 1 FROM records WHERE tenant = :tenant AND number = {number} AND {UNTRUSTED})"  # noqa: S608 - a column of the code


def is_valid(row: str) -> str:
    """Return the SQL condition that a row is valid at the statement's value ``as_of``, by its table's name or alias."""
    begun, not_ended = (f"{row}.{column} IS NULL OR {row}.{column}" for column in ("valid_at", "invalid_at"))
    return f"(({begun} <= :as_of) AND ({not_ended} > :as_of))"


SCHEMA = f"""
CREATE TABLE tenants (
    number INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL UNIQUE,
    record_generation INTEGER NOT NULL DEFAULT 0,
    graph_generation INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE identity (store TEXT NOT NULL);

-- What is filtered comes first: a condition then never reads the pages of a long text.
CREATE TABLE records (
    number INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    entity_type TEXT,
    schema_version INTEGER NOT NULL,
    valid_at INTEGER,
    invalid_at INTEGER,
    timestamp INTEGER,
    task_id TEXT,
    tool_name TEXT,
    title TEXT NOT NULL,
    aliases TEXT NOT NULL,
    body TEXT NOT NULL,
    content TEXT NOT NULL,
    UNIQUE (tenant, id)
);
CREATE INDEX records_by_type ON records (tenant, kind, entity_type, schema_version);
CREATE INDEX untrusted_records ON records (tenant, number) WHERE {UNTRUSTED};

-- AUTOINCREMENT: a number is never used twice, so it tells what was written since an index file was saved.
-- key: the vector's hash. Equal vectors are one point of an index: many points in one place cut others off in HNSW.
-- start: where in its record's text the part begins that a vector is of. A long text has a vector for each part.
CREATE TABLE vectors (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant INTEGER NOT NULL,
    space TEXT NOT NULL,
    record INTEGER NOT NULL,
    model_id TEXT NOT NULL,
    key INTEGER NOT NULL,
    vector BLOB NOT NULL,
    start INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX vectors_by_key ON vectors (space, tenant, key);
CREATE INDEX vectors_by_space ON vectors (space, tenant, number);
CREATE UNIQUE INDEX vectors_by_record ON vectors (record, space, start);

-- trusted: walks of what is trusted leave out the others. found: in texts, rather than given.
CREATE TABLE vertices (
    number INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL,
    id TEXT NOT NULL,
    entity_type TEXT NOT NULL,
    name TEXT,
    aliases TEXT NOT NULL,
    has_record INTEGER NOT NULL,
    timestamp INTEGER,
    valid_at INTEGER,
    invalid_at INTEGER,
    trusted INTEGER NOT NULL DEFAULT 1,
    found INTEGER NOT NULL DEFAULT 0,
    UNIQUE (tenant, id)
);
CREATE TABLE names (
    tenant INTEGER NOT NULL,
    phrase TEXT NOT NULL,
    vertex INTEGER NOT NULL,
    is_alias INTEGER NOT NULL,
    PRIMARY KEY (tenant, phrase, vertex)
) WITHOUT ROWID;
CREATE INDEX names_by_vertex ON names (vertex);

-- evidence: the record that says so. An edge is as trusted as it. position: where in a text a mention was found.
CREATE TABLE edges (
    tenant INTEGER NOT NULL,
    source INTEGER NOT NULL,
    type TEXT NOT NULL,
    target INTEGER NOT NULL,
    predicate TEXT NOT NULL,
    confidence REAL NOT NULL,
    timestamp INTEGER,
    valid_at INTEGER,
    invalid_at INTEGER,
    evidence TEXT,
    trusted INTEGER NOT NULL DEFAULT 1,
    position INTEGER,
    PRIMARY KEY (tenant, source, type, target, predicate)
) WITHOUT ROWID;
CREATE INDEX edges_by_target ON edges (target);
CREATE INDEX edges_by_evidence ON edges (tenant, evidence, trusted) WHERE evidence IS NOT NULL;

CREATE TABLE schemas (
    tenant INTEGER NOT NULL,
    version INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (tenant, version)
) WITHOUT ROWID;
"""
"""Tenants, records with their vectors, and the graph."""
CACHE_QUEUE_AND_OBJECTS = """
CREATE TABLE cache (
    tenant INTEGER NOT NULL,
    key TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX cache_by_expiry ON cache (expires_at);

-- receipt: of the last time that it was handed out. A set-aside message is kept and never handed out again.
CREATE TABLE messages (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    body TEXT NOT NULL,
    visible_at INTEGER NOT NULL,
    receives INTEGER NOT NULL DEFAULT 0,
    receipt TEXT,
    set_aside INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX messages_by_time ON messages (set_aside, visible_at, number);
CREATE UNIQUE INDEX messages_by_receipt ON messages (receipt);
CREATE TABLE messages_sent (
    deduplication_id TEXT PRIMARY KEY,
    sent_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX messages_sent_by_time ON messages_sent (sent_at);

-- file: a name in the folder "objects", never used twice.
CREATE TABLE objects (
    tenant INTEGER NOT NULL,
    key TEXT NOT NULL,
    version TEXT NOT NULL,
    size INTEGER NOT NULL,
    file TEXT NOT NULL,
    PRIMARY KEY (tenant, key)
) WITHOUT ROWID;
"""
"""The cache, the queue, and the objects."""
NOTES = """
-- What belongs to no tenant: which profile is served, and jobs.
CREATE TABLE notes (
    name TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,
    content TEXT NOT NULL
) WITHOUT ROWID;
"""
METADATA = """
-- The terms of each record's metadata, by which filters find it: see braid.models.metadata_terms.
CREATE TABLE metadata (
    record INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    term TEXT NOT NULL,
    PRIMARY KEY (record, term)
) WITHOUT ROWID;
CREATE INDEX metadata_by_term ON metadata (tenant, term);
"""
MISSPELLINGS = """
-- The keys by which misspelt names are found: most of the rows of a write.
CREATE TABLE misspellings (
    tenant INTEGER NOT NULL,
    key INTEGER NOT NULL,
    vertex INTEGER NOT NULL,
    PRIMARY KEY (tenant, key, vertex)
) WITHOUT ROWID;
"""
REMOVALS = """
-- The mentions that are removed and whose rows are still there.
CREATE TABLE removals (
    tenant INTEGER NOT NULL,
    target INTEGER NOT NULL,
    source INTEGER NOT NULL,
    PRIMARY KEY (tenant, target, source)
) WITHOUT ROWID;
"""
GRAPH_CHANGES = """
-- counts: of each tenant's graph, as JSON. changes: what the write to a generation changed, as JSON, of the last ones.
CREATE TABLE graph_counts (
    tenant INTEGER PRIMARY KEY,
    counts TEXT NOT NULL
);
CREATE TABLE graph_changes (
    tenant INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    changes TEXT,
    PRIMARY KEY (tenant, generation)
) WITHOUT ROWID;
"""
FILTER_INDEXES = """
-- By conditions that few records meet: so no question reads them all.
CREATE INDEX records_by_time ON records (tenant, timestamp) WHERE timestamp IS NOT NULL;
CREATE INDEX records_by_task ON records (tenant, task_id) WHERE task_id IS NOT NULL;
CREATE INDEX records_by_tool ON records (tenant, tool_name) WHERE tool_name IS NOT NULL;
CREATE INDEX records_by_schema ON records (tenant, schema_version);
"""
VECTOR_LOG = """
-- Which vectors the last writes removed (key: as in vectors): see braid.engines.embedded.search.removed_vectors_log.
CREATE TABLE record_generations (
    tenant INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    stamp TEXT NOT NULL,
    PRIMARY KEY (tenant, generation)
) WITHOUT ROWID;
CREATE TABLE removed_vectors (
    tenant INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    space TEXT NOT NULL,
    key INTEGER NOT NULL,
    PRIMARY KEY (tenant, generation, space, key)
) WITHOUT ROWID;
"""
ALL = "".join(
    (
        SCHEMA,
        CACHE_QUEUE_AND_OBJECTS,
        NOTES,
        METADATA,
        MISSPELLINGS,
        REMOVALS,
        GRAPH_CHANGES,
        FILTER_INDEXES,
        VECTOR_LOG,
    )
)
"""Every table but the words of each tenant."""


def to_microseconds(moment: datetime | None) -> int | None:
    """Return a moment as whole microseconds since 1970; None for None."""
    return None if moment is None else microseconds(moment)


def from_microseconds(stored: int | None) -> datetime | None:
    """Return the moment of :func:`to_microseconds`; None for None."""
    return None if stored is None else moment_of(stored)


def words_table(tenant: int) -> str:
    """Return the name of a tenant's FTS5 table; it has the tenant's number, so that no tenant's name enters SQL."""
    return f"words_{tenant:d}"


def read_global(connection: sqlite3.Connection, name: str) -> tuple[int, str] | None:
    """Return the revision and content of a store-wide value; None when there is none."""
    row = connection.execute("SELECT revision, content FROM notes WHERE name = ?", (name,)).fetchone()
    return None if row is None else (int(row[0]), str(row[1]))


def write_global(connection: sqlite3.Connection, name: str, revision: int, content: str) -> None:
    """Write a store-wide value to the table ``notes``, inside a transaction."""
    connection.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", (name, revision, content))


def create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables of a new store, inside a transaction."""
    for statement in ALL.split(";"):
        connection.execute(statement)
    connection.execute("INSERT INTO identity (store) VALUES (?)", (uuid.uuid4().hex,))
    connection.execute(f"PRAGMA user_version = {FORMAT:d}")


def create_words(connection: sqlite3.Connection, tenant: int) -> None:
    """Create a tenant's FTS5 table, unless it exists; called only for its first record.

    The time to open a connection grows with the square of the number of such tables. The table stores no text
    (``content=''``): to remove a row, it must be given the words that were indexed, which are the columns ``title``,
    ``aliases`` and ``content`` of ``records``.
    """
    connection.execute(
        f"CREATE VIRTUAL TABLE IF NOT EXISTS {words_table(tenant)} USING fts5("
        f"title, aliases, content, content='', tokenize='{TOKENIZER}')"
    )


def write_words(connection: sqlite3.Connection, table: str, row: tuple[int, str, str, str]) -> None:
    """Index a row (number, title, aliases, content) in an FTS5 table."""
    number, *texts = row
    connection.execute(
        f"INSERT INTO {table} (rowid, title, aliases, content) VALUES (?, ?, ?, ?)",  # noqa: S608 - a number's name
        (number, *map(space_ideographs, texts)),
    )


def forget_words(connection: sqlite3.Connection, table: str, rows: Iterable[tuple[int, str, str, str]]) -> None:
    """Remove rows (number, title, aliases, content) from an FTS5 table; their texts must be the indexed ones."""
    delete_words(connection, table, [(number, *map(space_ideographs, texts)) for number, *texts in rows])


def delete_words(connection: sqlite3.Connection, table: str, rows: Iterable[Sequence[int | str]]) -> None:
    """Remove rows from an FTS5 table, given with the texts exactly as they were indexed."""
    connection.executemany(
        f"INSERT INTO {table} ({table}, rowid, title, aliases, content) VALUES ('delete', ?, ?, ?, ?)",  # noqa: S608
        rows,
    )
