"""Creates the tables of a new store, and migrates those of a store of an older format.

An older store has to be opened once with write access.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from braid.engines.embedded import graph_change_log, tables
from braid.engines.embedded.tables import FORMAT, UNTRUSTED
from braid.models.metadata_terms import terms_of
from braid.understanding.misspelling_keys import MISSPELT, misspelling_number
from braid.understanding.tokens import has_ideographs

if TYPE_CHECKING:
    import sqlite3

_IDEOGRAPHS = 4
"""First format in which each ideograph is indexed by itself; before, runs of them were."""
_COUNTS = 14
"""First format whose stored counts of graphs include untrusted items; the previous format stored the other counts."""
_METADATA_OF_RECORDS = (
    "SELECT r.number AS record, r.tenant AS tenant, t.value AS term"
    " FROM records AS r, json_each(metadata_terms(r.body)) AS t"
)
_MISSPELLINGS_AMONG_NAMES = (
    f"SELECT tenant, misspelling_number(phrase), vertex FROM names WHERE substr(phrase, 1, 1) = '{MISSPELT}'"  # noqa: S608 - a mark from the code
)
_STEPS = {
    2: tables.CACHE_QUEUE_AND_OBJECTS,
    3: tables.NOTES,
    5: f"CREATE INDEX untrusted_records ON records (tenant, number) WHERE {UNTRUSTED};",
    6: f"""
ALTER TABLE vertices ADD COLUMN trusted INTEGER NOT NULL DEFAULT 1;
UPDATE vertices SET trusted = 0 WHERE (tenant, id) IN (SELECT tenant, id FROM records WHERE {UNTRUSTED});
""",  # noqa: S608 - a condition from the code
    7: f"""
ALTER TABLE edges ADD COLUMN trusted INTEGER NOT NULL DEFAULT 1;
CREATE INDEX edges_by_evidence ON edges (tenant, evidence) WHERE evidence IS NOT NULL;
UPDATE edges SET trusted = 0 WHERE (tenant, evidence) IN (SELECT tenant, id FROM records WHERE {UNTRUSTED});
""",  # noqa: S608 - a condition from the code
    8: """
ALTER TABLE vectors ADD COLUMN start INTEGER NOT NULL DEFAULT 0;
DROP INDEX vectors_by_record;
CREATE UNIQUE INDEX vectors_by_record ON vectors (record, space, start);
""",
    9: """
ALTER TABLE vertices ADD COLUMN found INTEGER NOT NULL DEFAULT 0;
ALTER TABLE edges ADD COLUMN position INTEGER;
""",
    10: f"{tables.METADATA}INSERT INTO metadata {_METADATA_OF_RECORDS};",
    11: f"""{tables.MISSPELLINGS}
INSERT INTO misspellings {_MISSPELLINGS_AMONG_NAMES};
DELETE FROM names WHERE substr(phrase, 1, 1) = '{MISSPELT}';
""",  # noqa: S608 - a mark from the code
    12: tables.REMOVALS,
    13: tables.GRAPH_CHANGES,
    15: f"""{tables.FILTER_INDEXES}{tables.VECTOR_LOG}
INSERT INTO record_generations SELECT number, record_generation, lower(hex(randomblob(8))) FROM tenants;
""",  # noqa: S608 - tables of the code
    16: """
DROP INDEX edges_by_evidence;
CREATE INDEX edges_by_evidence ON edges (tenant, evidence, trusted) WHERE evidence IS NOT NULL;
""",
}
"""SQL of the changes of each format; the tables of a new store have all of them."""


def bring_up_to_date(connection: sqlite3.Connection) -> None:
    """Create the tables of a new store or migrate an older one, inside a transaction; a newer one is left unchanged."""
    # Read under the write lock: another process may have migrated the store meanwhile.
    found: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if found == 0:
        tables.create_tables(connection)
    if found not in range(1, FORMAT):
        return
    connection.create_function("metadata_terms", 1, _terms, deterministic=True)
    connection.create_function("misspelling_number", 1, misspelling_number, deterministic=True)
    for added in range(found + 1, FORMAT + 1):
        for statement in _STEPS.get(added, "").split(";"):
            connection.execute(statement)
        if added == _IDEOGRAPHS:
            _reindex_ideographs(connection)
        if added == _COUNTS:
            for (tenant,) in connection.execute("SELECT number FROM tenants").fetchall():
                graph_change_log.write_counts(connection, tenant, graph_change_log.count(connection, tenant))
    connection.execute(f"PRAGMA user_version = {FORMAT:d}")


def _terms(body: str) -> str:
    """Return the terms of a record's metadata as a JSON list, from its stored body."""
    return json.dumps(terms_of(json.loads(body).get("metadata") or {}))


def _reindex_ideographs(connection: sqlite3.Connection) -> None:
    for (tenant,) in connection.execute("SELECT number FROM tenants").fetchall():
        table = tables.words_table(tenant)
        rows = connection.execute("SELECT number, title, aliases, content FROM records WHERE tenant = ?", (tenant,))
        for row in rows:
            if any(map(has_ideographs, row[1:])):
                tables.delete_words(connection, table, [row])
                tables.write_words(connection, table, row)
