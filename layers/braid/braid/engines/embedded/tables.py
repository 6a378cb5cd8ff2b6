"""The tables of ``braid.db``, their formats and migrations.

Times are whole microseconds since 1970 in UTC, so that they compare as numbers and come back exactly. A tenant is its
number everywhere but in ``tenants``. Words are in one FTS5 table a tenant: BM25 depends on how often a word occurs
among the rows, and one tenant's rows must not move another's scores.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

from braid.models.metadata_filters import terms_of
from braid.models.scalars import microseconds, moment_of
from braid.understanding.names import MISSPELT, misspelling_number
from braid.understanding.tokens import has_ideographs, space_ideographs

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence
    from datetime import datetime

FORMAT = 12
"""Version of the tables, kept in ``PRAGMA user_version``."""
READABLE = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, FORMAT})
"""Formats whose records and graph are read as they are; opened for writing, such a store gets the tables it lacks."""

SCHEMA = """
CREATE TABLE tenants (
    number INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL UNIQUE,
    record_generation INTEGER NOT NULL DEFAULT 0,
    graph_generation INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE identity (store TEXT NOT NULL);
-- Nothing writes markers any more, and the table stays because the format does.
CREATE TABLE markers (
    tenant INTEGER NOT NULL,
    name TEXT NOT NULL,
    content TEXT NOT NULL,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

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

-- AUTOINCREMENT: a number is never used twice, so it tells what was written since an index file was saved.
-- key: the vector's hash. Equal vectors are one point of an index: many points in one place cut others off in HNSW.
CREATE TABLE vectors (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant INTEGER NOT NULL,
    space TEXT NOT NULL,
    record INTEGER NOT NULL,
    model_id TEXT NOT NULL,
    key INTEGER NOT NULL,
    vector BLOB NOT NULL
);
CREATE INDEX vectors_by_key ON vectors (space, tenant, key);
CREATE INDEX vectors_by_space ON vectors (space, tenant, number);
CREATE UNIQUE INDEX vectors_by_record ON vectors (record, space);

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
    PRIMARY KEY (tenant, source, type, target, predicate)
) WITHOUT ROWID;
CREATE INDEX edges_by_target ON edges (target);

CREATE TABLE schemas (
    tenant INTEGER NOT NULL,
    version INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (tenant, version)
) WITHOUT ROWID;
"""

ADDED_IN_2 = """
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
"""Tables of the cache, the queue and the objects."""

ADDED_IN_3 = """
-- What belongs to no tenant: which profile is served, and jobs.
CREATE TABLE notes (
    name TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,
    content TEXT NOT NULL
) WITHOUT ROWID;
"""

UNTRUSTED = "json_extract(body, '$.trusted') = 0"
"""Condition of the partial index of untrusted records. SQLite uses the index only for this exact expression."""
ADDED_IN_5 = f"""
CREATE INDEX untrusted_records ON records (tenant, number) WHERE {UNTRUSTED};
"""

ADDED_IN_6 = f"""
ALTER TABLE vertices ADD COLUMN trusted INTEGER NOT NULL DEFAULT 1;
UPDATE vertices SET trusted = 0 WHERE (tenant, id) IN (SELECT tenant, id FROM records WHERE {UNTRUSTED});
"""  # noqa: S608 - a condition from above
"""Which vertices walks of what is trusted leave out."""

ADDED_IN_7 = f"""
ALTER TABLE edges ADD COLUMN trusted INTEGER NOT NULL DEFAULT 1;
CREATE INDEX edges_by_evidence ON edges (tenant, evidence) WHERE evidence IS NOT NULL;
UPDATE edges SET trusted = 0 WHERE (tenant, evidence) IN (SELECT tenant, id FROM records WHERE {UNTRUSTED});
"""  # noqa: S608 - a condition from above
"""Which edges they do not follow. The index finds those of a record that ceases to be trusted."""

ADDED_IN_9 = """
ALTER TABLE vertices ADD COLUMN found INTEGER NOT NULL DEFAULT 0;
ALTER TABLE edges ADD COLUMN position INTEGER;
"""
"""Which vertices were found in texts, and where the edges were."""

_TRUST_SINCE = {"vertices": (6, "id"), "edges": (7, "evidence")}
"""By table: the format since which a row says whether it is trusted, and where it names the record that decides."""
_FOUND_SINCE, _FOUND = 9, {"vertices": "0 AS found", "edges": "NULL AS position"}
"""Format since which a row says whether it was found, and by table what it says before."""

ADDED_IN_8 = """
ALTER TABLE vectors ADD COLUMN start INTEGER NOT NULL DEFAULT 0;
DROP INDEX vectors_by_record;
CREATE UNIQUE INDEX vectors_by_record ON vectors (record, space, start);
"""
"""Where in its record's text the part begins that a vector is of: a long text has a vector for each part."""

ADDED_IN_10 = """
CREATE TABLE metadata (
    record INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    term TEXT NOT NULL,
    PRIMARY KEY (record, term)
) WITHOUT ROWID;
CREATE INDEX metadata_by_term ON metadata (tenant, term);
"""
"""The terms of each record's metadata, by which filters find it; see :mod:`braid.models.metadata_filters`."""
_METADATA_SINCE = 10
ADDED_IN_11 = """
CREATE TABLE misspellings (
    tenant INTEGER NOT NULL,
    key INTEGER NOT NULL,
    vertex INTEGER NOT NULL,
    PRIMARY KEY (tenant, key, vertex)
) WITHOUT ROWID;
"""
"""The keys by which misspelt names are found, before among ``names``: they are most of the rows of a write."""
_MISSPELLINGS_SINCE = 11
ADDED_IN_12 = """
CREATE TABLE IF NOT EXISTS removals (
    tenant INTEGER NOT NULL,
    target INTEGER NOT NULL,
    source INTEGER NOT NULL,
    PRIMARY KEY (tenant, target, source)
) WITHOUT ROWID;
"""
"""The mentions that are removed and whose rows are still there; see :mod:`braid.engines.embedded.graph.removals`."""
_REMOVALS_SINCE = 12
_MISSPELLINGS_IN_NAMES = (
    "SELECT tenant, misspelling_number(phrase) AS key, vertex FROM main.names"  # noqa: S608 - a mark from the code
    f" WHERE substr(phrase, 1, 1) = '{MISSPELT}'"
)
_METADATA_OF_RECORDS = (
    "SELECT r.number AS record, r.tenant AS tenant, t.value AS term"
    " FROM records AS r, json_each(metadata_terms(r.body)) AS t"
)

_VECTORS_BEFORE_8 = "CREATE TEMP VIEW vectors AS SELECT *, 0 AS start FROM main.vectors"
_PARTS_SINCE = 8
"""Format since which a long text has several vectors."""

_SINCE = (
    *(SCHEMA, ADDED_IN_2, ADDED_IN_3, "", ADDED_IN_5, ADDED_IN_6),
    *(ADDED_IN_7, ADDED_IN_8, ADDED_IN_9, ADDED_IN_10, ADDED_IN_11, ADDED_IN_12),
)
"""The tables and indexes that each format added."""

_IDEOGRAPHS_SINCE = 4
"""Format since which each ideograph is indexed by itself."""


def to_microseconds(moment: datetime | None) -> int | None:
    """Return a moment as whole microseconds since 1970, exactly."""
    return None if moment is None else microseconds(moment)


def from_microseconds(stored: int | None) -> datetime | None:
    """Read what :func:`to_microseconds` wrote."""
    return None if stored is None else moment_of(stored)


def words_table(tenant: int) -> str:
    """Return the name of a tenant's FTS5 table; a number, so that no tenant's name is ever part of a statement."""
    return f"words_{tenant:d}"


def read_global(connection: sqlite3.Connection, name: str) -> tuple[int, str] | None:
    """Return the revision and content of a value of no tenant; None when there is none, as in an older format."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'notes'").fetchone():
        return None
    row = connection.execute("SELECT revision, content FROM notes WHERE name = ?", (name,)).fetchone()
    return None if row is None else (int(row[0]), str(row[1]))


def write_global(connection: sqlite3.Connection, name: str, revision: int, content: str) -> None:
    """Write a value of no tenant into the table ``notes``, inside a transaction."""
    connection.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", (name, revision, content))


def bring_up_to_date(connection: sqlite3.Connection) -> None:
    """Migrate a store of an older format, inside a transaction; one of a newer format is left as it is."""
    # Read under the write lock: another process may have migrated the store meanwhile.
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if found not in range(FORMAT):
        return
    for statement in "".join(_SINCE[found:]).split(";"):
        connection.execute(statement)
    if found < _IDEOGRAPHS_SINCE:
        _reindex_ideographs(connection)
    _know_functions(connection)
    if found < _METADATA_SINCE:
        connection.execute(f"INSERT INTO metadata {_METADATA_OF_RECORDS}")
    if found < _MISSPELLINGS_SINCE:
        connection.execute(f"INSERT INTO misspellings {_MISSPELLINGS_IN_NAMES}")
        connection.execute("DELETE FROM names WHERE substr(phrase, 1, 1) = ?", (MISSPELT,))
    if found == 0:
        connection.execute("INSERT INTO identity (store) VALUES (?)", (uuid.uuid4().hex,))
    connection.execute(f"PRAGMA user_version = {FORMAT:d}")


def read_as_it_is(connection: sqlite3.Connection) -> None:
    """Let a connection that cannot write see an older store's vertices, edges and vectors as they are read today."""
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    for table, (since, record) in _TRUST_SINCE.items():
        if found in range(1, _FOUND_SINCE):
            trusted = (
                f" NOT EXISTS (SELECT 1 FROM records WHERE records.tenant = stored.tenant"  # noqa: S608 - names from above
                f" AND records.id = stored.{record} AND {UNTRUSTED}) AS trusted,"
            )
            connection.execute(
                f"CREATE TEMP VIEW {table} AS SELECT *,{trusted if found < since else ''} {_FOUND[table]}"  # noqa: S608
                f" FROM main.{table} AS stored"
            )
    if found in range(1, _PARTS_SINCE):
        connection.execute(_VECTORS_BEFORE_8)
    _know_functions(connection)
    if found in range(1, _METADATA_SINCE):
        connection.execute(f"CREATE TEMP VIEW metadata AS {_METADATA_OF_RECORDS}")
    if found in range(1, _MISSPELLINGS_SINCE):
        connection.execute(f"CREATE TEMP VIEW misspellings AS {_MISSPELLINGS_IN_NAMES}")
    if found in range(1, _REMOVALS_SINCE):
        connection.execute("CREATE TEMP VIEW removals AS SELECT 0 AS tenant, 0 AS target, 0 AS source WHERE 0")


def _know_functions(connection: sqlite3.Connection) -> None:
    """Give a connection the functions with which older formats are read.

    ``metadata_terms`` returns the terms of a record's body as JSON, ``misspelling_number`` the number of a key.
    """

    def terms(body: str) -> str:
        return json.dumps(list(dict.fromkeys(terms_of(json.loads(body).get("metadata") or {}))))

    connection.create_function("metadata_terms", 1, terms, deterministic=True)
    connection.create_function("misspelling_number", 1, misspelling_number, deterministic=True)


def create_words(connection: sqlite3.Connection, tenant: int) -> None:
    """Make a tenant's FTS5 table.

    It holds no text of its own (``content=''``): removing a row hands it the words that it was written with, which
    are the columns ``title``, ``aliases`` and ``content`` of ``records``.
    """
    connection.execute(
        f"CREATE VIRTUAL TABLE {words_table(tenant)} USING fts5("
        "title, aliases, content, content='', tokenize='porter unicode61 remove_diacritics 2')"
    )


def write_words(connection: sqlite3.Connection, table: str, row: tuple[int, str, str, str]) -> None:
    """Index the words of a row, its number, title, aliases and content, in an FTS5 table."""
    number, *texts = row
    connection.execute(
        f"INSERT INTO {table} (rowid, title, aliases, content) VALUES (?, ?, ?, ?)",  # noqa: S608 - a number's name
        (number, *map(space_ideographs, texts)),
    )


def forget_words(connection: sqlite3.Connection, table: str, rows: Iterable[tuple[int, str, str, str]]) -> None:
    """Remove the words of rows from an FTS5 table; they have to be the words that were written."""
    _delete_words(connection, table, [(number, *map(space_ideographs, texts)) for number, *texts in rows])


def _delete_words(connection: sqlite3.Connection, table: str, rows: Iterable[Sequence[int | str]]) -> None:
    connection.executemany(
        f"INSERT INTO {table} ({table}, rowid, title, aliases, content) VALUES ('delete', ?, ?, ?, ?)",  # noqa: S608
        rows,
    )


def _reindex_ideographs(connection: sqlite3.Connection) -> None:
    """Index the rows with ideographs again, each ideograph as a word: formats before 4 indexed runs of them."""
    for (tenant,) in connection.execute("SELECT number FROM tenants").fetchall():
        table = words_table(tenant)
        rows = connection.execute("SELECT number, title, aliases, content FROM records WHERE tenant = ?", (tenant,))
        for row in rows:
            if any(map(has_ideographs, row[1:])):
                _delete_words(connection, table, [row])
                write_words(connection, table, row)
