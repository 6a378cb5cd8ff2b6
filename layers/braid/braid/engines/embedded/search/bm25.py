"""Lexical search: BM25 over a tenant's FTS5 table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.engines.embedded.files import interrupted_in_time
from braid.engines.embedded.search.filters import VALID
from braid.engines.embedded.tables import words_table
from braid.ranking.scoring import from_bm25
from braid.understanding.tokens import search_words

if TYPE_CHECKING:
    import sqlite3

    from braid.engines.embedded.search.filters import RowFilter

TITLE_WEIGHT, ALIASES_WEIGHT, CONTENT_WEIGHT = 2.0, 1.0, 1.0


def match_expression(words: list[str]) -> str:
    """Return an FTS5 expression that matches rows with any of the words, each quoted as data."""
    return " OR ".join(f'"{word}"' for word in words)


def is_known(connection: sqlite3.Connection, tenant: int, word: str) -> bool:
    """Return whether any row of a tenant has a word, or one of the same stem."""
    asked = match_expression(search_words(word))
    found = f"SELECT 1 FROM {words_table(tenant)} WHERE {words_table(tenant)} MATCH ? LIMIT 1"  # noqa: S608 - a number's name
    return not asked or connection.execute(found, (asked,)).fetchone() is not None


def search(
    connection: sqlite3.Connection, tenant: int, text: str, row_filter: RowFilter, k: int, *, newest_first: bool = False
) -> tuple[list[tuple[float, str]], set[str]]:
    """Return the first ``k`` valid rows as (score, id), and the ids of superseded rows among the first ``k`` of all.

    First is best, or newest; a row without a time is the oldest.
    """
    words = search_words(text)
    if not words:
        return [], set()
    table = words_table(tenant)
    values = {
        **row_filter.values,
        "match": match_expression(words),
        "title": TITLE_WEIGHT,
        "aliases": ALIASES_WEIGHT,
        "content": CONTENT_WEIGHT,
        "k": k,
    }
    # CROSS JOIN keeps the word index outside: newer SQLite would otherwise begin at the tenant's rows.
    # FTS5's bm25() is negative, the better the lower.
    order = "r.timestamp DESC NULLS LAST" if newest_first else "score DESC"
    statement = (
        f"SELECT round(-bm25({table}, :title, :aliases, :content), 12) AS score, r.id, {VALID} AS valid"  # noqa: S608
        f" FROM {table} CROSS JOIN records AS r ON r.number = {table}.rowid"
        f" WHERE {table} MATCH :match AND {row_filter.where} {{valid}} ORDER BY {order}, r.id LIMIT :k"
    )
    with interrupted_in_time(connection):
        first = connection.execute(statement.format(valid=""), values).fetchall()
        superseded = {row[1] for row in first if not row[2]}
        if superseded:
            first = connection.execute(statement.format(valid=f"AND {VALID}"), values).fetchall()
    return [(from_bm25(score), record_id) for score, record_id, _ in first], superseded
