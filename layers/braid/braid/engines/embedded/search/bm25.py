"""Lexical search: BM25 over a tenant's FTS5 table.

FTS5 takes most of its time to score every row of a frequent word, at each question anew. So each word is asked for
alone, its scores are kept until the tenant's next write, and a question's are added up here: to the same sums.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from braid.engines.embedded.files import interrupted_in_time
from braid.engines.embedded.generations import Generation
from braid.engines.embedded.search.filters import VALID
from braid.engines.embedded.tables import words_table
from braid.ranking.scoring import from_bm25
from braid.understanding.tokens import search_words

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from braid.engines.embedded.search.filters import RowFilter
    from braid.engines.embedded.store import EmbeddedStore

TITLE_WEIGHT, ALIASES_WEIGHT, CONTENT_WEIGHT = 2.0, 1.0, 1.0
KEPT_BYTES: Final = 32 * 1024 * 1024
"""Memory for scores of words, of all tenants of a process: of two million rows with a word."""
_DIGITS, _ROUNDING = 12, 1e-11
_SPARSE = 64
"""Range of row numbers, as a multiple of the rows with a word, above which rows are sorted rather than counted."""
_BEST = 512
_ADDED_AT = 500_000
"""Rows of several words that are in memory together."""
_READ_MORE = 8


class WordRows(NamedTuple):
    """The rows with a word."""

    numbers: NDArray[np.int64]
    scores: NDArray[np.float64]
    best: NDArray[np.float64]
    """The best scores, at most :data:`_BEST`, best first."""

    @property
    def size(self) -> int:
        """Memory in bytes."""
        return int(self.numbers.nbytes + self.scores.nbytes + self.best.nbytes)


class Sums(NamedTuple):
    """The rows of a range, by place: those with any of a question's words have a sum of their scores above 0."""

    sums: NDArray[np.float64]
    first: int
    numbers: NDArray[np.int64] | None
    """Numbers of the rows; None where they are consecutive from ``first`` on."""
    best: Sequence[NDArray[np.float64]]
    """The best scores of each word."""

    def among_best(self, count: int) -> float:
        """Return a sum that at least ``count`` rows reach, or one that all rows with a word reach."""
        # A row has the score of each of its words at least.
        least = max((float(best[count - 1]) for best in self.best if count <= len(best)), default=0.0)
        places = np.flatnonzero(self.sums >= least) if least else np.flatnonzero(self.sums)
        if count < len(places):
            least = -float(np.partition(-self.sums[places], count - 1)[count - 1])
        return max(0.0, least - _ROUNDING)

    def as_rows(self) -> WordRows:
        """Return the sums as those of one word."""
        places = np.flatnonzero(self.sums)
        numbers = places + self.first if self.numbers is None else self.numbers[places]
        return WordRows(numbers, self.sums[places], np.empty(0))

    def between(self, least: float, below: float) -> tuple[list[int], list[float]]:
        """Return the numbers of the rows with such a sum, and the sums."""
        places = np.flatnonzero((self.sums > 0.0) & (self.sums >= least) & (self.sums < below))
        numbers = places + self.first if self.numbers is None else self.numbers[places]
        return numbers.tolist(), np.round(self.sums[places], _DIGITS).tolist()


class WordScores:
    """BM25 scores of rows by word; those that were asked for last are kept. Safe to use from several threads."""

    def __init__(self, store: EmbeddedStore, *, kept_bytes: int = KEPT_BYTES) -> None:
        self._store = store
        self._room = kept_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, int, str], WordRows] = OrderedDict()

    def sums(self, connection: sqlite3.Connection, tenant: int, words: Sequence[str]) -> Sums:
        """Return the rows of a tenant that have any of the words, with the sums of the words' scores."""
        generation = Generation.RECORDS.read(connection, tenant)
        best: list[NDArray[np.float64]] = []
        found: list[WordRows] = []
        for word in words:
            rows = self._of(connection, (tenant, generation, word))
            best.append(rows.best)
            found.append(rows)
            if sum(len(each.numbers) for each in found) > _ADDED_AT:  # memory for all words would be many times this
                found = [_added(found, best).as_rows()]
        return _added(found, best)

    def _of(self, connection: sqlite3.Connection, key: tuple[int, int, str]) -> WordRows:
        # What is not committed may be undone, and its generation then be another write's.
        keep = not self._store.in_transaction
        with self._lock:
            known = self._kept.get(key) if keep else None
            if known is not None:
                self._kept.move_to_end(key)
                return known
        tenant, _, word = key
        rows = _score(connection, words_table(tenant), word)
        with self._lock:
            if keep and key not in self._kept and rows.size <= self._room:
                self._kept[key] = rows
                self._room -= rows.size
                while self._room < 0:
                    self._room += self._kept.popitem(last=False)[1].size
        return rows


def _added(found: Sequence[WordRows], best: Sequence[NDArray[np.float64]]) -> Sums:
    numbers = np.concatenate([rows.numbers for rows in found])
    scores = np.concatenate([rows.scores for rows in found])
    first = int(numbers.min(initial=2**62))
    # Added in the order of the words, as FTS5 does, so that sums round alike.
    if int(numbers.max(initial=0)) - first < _SPARSE * len(numbers):
        return Sums(np.bincount(numbers - first, weights=scores).astype(np.float64, copy=False), first, None, best)
    numbers, places = np.unique(numbers, return_inverse=True)
    return Sums(np.bincount(places, weights=scores).astype(np.float64, copy=False), 0, numbers, best)


def _score(connection: sqlite3.Connection, table: str, word: str) -> WordRows:
    # FTS5's bm25() is negative, the better the lower. A word is quoted as data.
    statement = f"SELECT rowid, -bm25({table}, ?, ?, ?) FROM {table} WHERE {table} MATCH ?"  # noqa: S608 - a number's name
    with interrupted_in_time(connection):
        rows = connection.execute(statement, (TITLE_WEIGHT, ALIASES_WEIGHT, CONTENT_WEIGHT, f'"{word}"')).fetchall()
    numbers, scores = (np.array(each) for each in zip(*rows, strict=True)) if rows else (np.empty(0, int), np.empty(0))
    return WordRows(numbers, scores, -np.sort(-scores)[:_BEST])


def is_known(connection: sqlite3.Connection, tenant: int, word: str) -> bool:
    """Return whether any row of a tenant has a word, or one of the same stem."""
    asked = " OR ".join(f'"{one}"' for one in search_words(word))  # each quoted as data
    found = f"SELECT 1 FROM {words_table(tenant)} WHERE {words_table(tenant)} MATCH ? LIMIT 1"  # noqa: S608 - a number's name
    return not asked or connection.execute(found, (asked,)).fetchone() is not None


def search(
    connection: sqlite3.Connection,
    known: WordScores,
    tenant: int,
    text: str,
    row_filter: RowFilter,
    *,
    k: int,
    newest_first: bool = False,
) -> tuple[list[tuple[float, str]], set[str]]:
    """Return the first ``k`` valid rows as (score, id), and the ids of superseded rows among the first ``k`` of all.

    First is best, or newest; a row without a time is the oldest.
    """
    words = search_words(text)
    if not words:
        return [], set()
    sums = known.sums(connection, tenant, words)
    ranked: list[tuple[float, str, int]] = []
    if newest_first:
        ranked = _read(connection, row_filter, sums.between(0.0, np.inf), order="r.timestamp DESC NULLS LAST, r.id")
    else:
        # Most of the rows with a word are never read.
        count, below = 2 * k, np.inf
        while below > 0.0 and sum([valid for _, _, valid in ranked]) < k:
            least = sums.among_best(count)
            read = _read(connection, row_filter, sums.between(least, below))
            ranked += sorted(read, key=lambda row: (-row[0], row[1]))
            count, below = count * _READ_MORE, least
    superseded = {record_id for _, record_id, valid in ranked[:k] if not valid}
    first = [row for row in ranked if row[2]][:k]
    return [(from_bm25(score), record_id) for score, record_id, _ in first], superseded


def _read(
    connection: sqlite3.Connection,
    row_filter: RowFilter,
    scored: tuple[list[int], list[float]],
    *,
    order: str = "n.key",
) -> list[tuple[float, str, int]]:
    """Return the rows that pass the filter as (score, id, whether valid)."""
    numbers, scores = scored
    statement = (
        f"SELECT n.key, r.id, {VALID} FROM json_each(:numbers) AS n CROSS JOIN records AS r ON r.number = n.value"  # noqa: S608
        f" WHERE {row_filter.where} ORDER BY {order}"
    )
    rows = connection.execute(statement, {**row_filter.values, "numbers": json.dumps(numbers)})
    return [(scores[place], record_id, valid) for place, record_id, valid in rows]
