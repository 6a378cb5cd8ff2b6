"""The lexical strand: BM25 over a tenant's FTS5 table."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from braid.engines.embedded.conditions import VALID
from braid.engines.embedded.tables import words_table
from braid.scoring import from_bm25

if TYPE_CHECKING:
    import sqlite3

    from braid.engines.embedded.conditions import Conditions

TITLE_WEIGHT, ALIASES_WEIGHT, CONTENT_WEIGHT = 2.0, 1.0, 1.0
MAX_WORDS = 256
"""Different words of one question that are searched, the first ones; bounds the work of a 10,000-character question."""
_KEPT = ("L", "N", "M", "Co")  # what FTS5's unicode61 makes tokens of
_FUNCTION_TEXT = """
    a an and are as at be been but by did do does for from had has have how if in into is it its of on
    or that the their then there these they this to was were what when where which who whom whose why
    will with
"""
_FUNCTION_WORDS = frozenset(_FUNCTION_TEXT.split())


def question_words(text: str) -> list[str]:
    """Return the different words of a question, in order, as FTS5's tokenizer splits them.

    Words that carry no meaning are dropped unless there are no others: they cost most of the time and, being in most
    texts, move the score by next to nothing.
    """
    composed = unicodedata.normalize("NFC", text).lower()
    cut = "".join(
        character if character.isalnum() or unicodedata.category(character).startswith(_KEPT) else " "
        for character in composed
    )
    found = list(dict.fromkeys(cut.split()))
    return ([word for word in found if word not in _FUNCTION_WORDS] or found)[:MAX_WORDS]


def match_expression(words: list[str]) -> str:
    """Return an FTS5 expression that any of the words fulfils, each quoted as data."""
    return " OR ".join(f'"{word}"' for word in words)


def search(
    connection: sqlite3.Connection, tenant: int, text: str, asked: Conditions, k: int
) -> tuple[list[tuple[float, str]], set[str]]:
    """Return the best ``k`` valid rows as (score, id), and the ids of superseded rows among the first ``k`` of all."""
    words = question_words(text)
    if not words:
        return [], set()
    table = words_table(tenant)
    values = {
        **asked.values,
        "match": match_expression(words),
        "title": TITLE_WEIGHT,
        "aliases": ALIASES_WEIGHT,
        "content": CONTENT_WEIGHT,
        "k": k,
    }
    # CROSS JOIN keeps the word index outside: newer SQLite would otherwise begin at the tenant's rows.
    # FTS5's bm25() is negative, the better the lower.
    statement = (
        f"SELECT round(-bm25({table}, :title, :aliases, :content), 12) AS score, r.id, {VALID} AS valid"  # noqa: S608
        f" FROM {table} CROSS JOIN records AS r ON r.number = {table}.rowid"
        f" WHERE {table} MATCH :match AND {asked.where} {{valid}} ORDER BY score DESC, r.id LIMIT :k"
    )
    first = connection.execute(statement.format(valid=""), values).fetchall()
    superseded = {row[1] for row in first if not row[2]}
    if superseded:
        first = connection.execute(statement.format(valid=f"AND {VALID}"), values).fetchall()
    return [(from_bm25(score), record_id) for score, record_id, _ in first], superseded
