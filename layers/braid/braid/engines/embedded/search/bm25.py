"""Lexical search: BM25 over a tenant's FTS5 table.

FTS5's ``bm25()`` spends most of its time looking up the length of every row with a word. For a large tenant, a word's
rows and counts are read from FTS5's vocabulary instead. They give upper bounds of the scores, and lengths are read only
of rows that may be among the best. The formula is FTS5's, operation by operation, so that results round alike.
The rows of a word are cached until the tenant's next write.
"""

from __future__ import annotations

import json
import math
import sqlite3
import threading
import weakref
from collections import OrderedDict
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from braid.engines.embedded.search.filters import VALID
from braid.engines.embedded.sqlite_files import interrupted_in_time
from braid.engines.embedded.tables import TOKENIZER, is_trusted, words_table
from braid.engines.embedded.write_generations import Generation
from braid.errors import StoreCorrupt
from braid.ranking.scoring import from_bm25
from braid.understanding.tokens import lexical_words, search_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from braid.engines.embedded.search.filters import RowFilter
    from braid.engines.embedded.sqlite_files import Connection
    from braid.engines.embedded.store import EmbeddedStore

    Numbers: TypeAlias = NDArray[np.int64]
    Scores: TypeAlias = NDArray[np.float64]

TITLE_WEIGHT, ALIASES_WEIGHT, CONTENT_WEIGHT = 2.0, 1.0, 1.0
"""Weight of an occurrence of a word, by column."""
KEPT_BYTES: Final = 32 * 1024 * 1024
"""Size of the cache of all tenants of a process: two to three million rows with a word."""
COUNTED_FROM: Final = 30_000
"""Fewest rows of a tenant whose words are counted. For a smaller one the scores of all words are soon in memory."""
OCCURRENCES_OF_A_ROW: Final = 8
"""Number of occurrences of a word that are counted in the time in which FTS5 scores one row."""
_K1, _B = 1.2, 0.75
"""Parameters of BM25 in FTS5."""
_LEAST_IDF: Final = 1e-6
_COLUMNS: Final = 3
_AVERAGES: Final = 1
"""Id of the FTS5 block that holds the number of rows and the number of tokens of each column."""

_REMEDY: Final = "restore a copy of the whole folder, or ingest again"
_DIGITS, _ROUNDING = 12, 1e-11
_ADDED_AT = 500_000
"""Rows of several words that are held in memory together before they are added up."""
_SPARE = 8
"""For every this many wanted rows, one more is read, as some may be superseded."""


class WordRows(NamedTuple):
    """The rows with a word, and the numbers from which their BM25 scores are computed."""

    numbers: Numbers
    """Row numbers, ascending."""
    values: NDArray[np.int32] | Scores
    """Occurrences of the word in each row, weighted by column; or the row's BM25 score."""
    idf: float | None
    """Inverse document frequency of the word; None where ``values`` are scores."""

    @property
    def size(self) -> int:
        """Memory in bytes."""
        return int(self.numbers.nbytes + self.values.nbytes)

    def bounds(self) -> Scores:
        """Return an upper bound of each row's score: the score at length 0, or the score itself if it is known."""
        return self._scores(self.values, _K1 * (1.0 - _B))

    def scores(self, numbers: Numbers, length_weights: Scores) -> Scores:
        """Return the scores of rows, shape (numbers,); 0 for those without the word."""
        if not len(self.numbers):
            return np.zeros(len(numbers))
        places = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
        return self._scores(np.where(self.numbers[places] == numbers, self.values[places], 0), length_weights)

    def _scores(self, values: NDArray[np.int32] | Scores, length_weights: Scores | float) -> Scores:
        if self.idf is None:
            return values.astype(np.float64, copy=False)
        return self.idf * (values * (_K1 + 1.0) / (values + length_weights))


class WordCache:
    """LRU cache of the rows of words, of all tenants. Safe to use from several threads."""

    def __init__(self, store: EmbeddedStore, *, kept_bytes: int = KEPT_BYTES, counted_from: int = COUNTED_FROM) -> None:
        self.counted_from = counted_from
        self._store = store
        self._most = self._room = kept_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, int, str], WordRows] = OrderedDict()
        self._tokenizer: sqlite3.Connection | None = None

    def reader(self, connection: Connection, tenant: int, words: Sequence[str]) -> WordReader:
        """Return a reader of words of a tenant that has records, in the connection's snapshot."""
        # Uncommitted rows may be rolled back, and their generation be given to another write.
        generation = None if self._store.in_transaction else Generation.RECORDS.read(connection, tenant)
        return WordReader(self, connection, tenant, generation, words)

    def find(self, key: tuple[int, int, str]) -> WordRows | None:
        """Return the cached rows of (tenant, generation, word); None if they are not cached."""
        with self._lock:
            known = self._kept.get(key)
            if known is not None:
                self._kept.move_to_end(key)
            return known

    def keep(self, key: tuple[int, int, str], rows: WordRows) -> None:
        """Cache the rows of (tenant, generation, word), evicting others if needed."""
        with self._lock:
            if key not in self._kept and rows.size <= self._most:
                self._kept[key] = rows
                self._room -= rows.size
                while self._room < 0:
                    self._room += self._kept.popitem(last=False)[1].size

    def tokens(self, words: Sequence[str]) -> dict[str, str]:
        """Return FTS5's token of each word; words that are not a single token, as in some scripts, are left out."""
        with self._lock:
            if self._tokenizer is None:
                self._tokenizer = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
                weakref.finalize(self, self._tokenizer.close)
                self._tokenizer.execute(f"CREATE VIRTUAL TABLE words USING fts5(word, tokenize='{TOKENIZER}')")
                self._tokenizer.execute("CREATE VIRTUAL TABLE tokens USING fts5vocab(words, instance)")
            self._tokenizer.execute("BEGIN")
            self._tokenizer.executemany("INSERT INTO words (rowid, word) VALUES (?, ?)", enumerate(words))
            found = self._tokenizer.execute("SELECT doc, term FROM tokens GROUP BY doc HAVING count(*) = 1").fetchall()
            self._tokenizer.execute("ROLLBACK")
        return {words[place]: token for place, token in found}


class WordReader:
    """Reads the rows of a question's words, of one tenant in one snapshot of the store.

    Parameters
    ----------
    generation
        Generation of the tenant's records; None inside a transaction, in which nothing is cached.
    """

    def __init__(
        self,
        cache: WordCache,
        connection: Connection,
        tenant: int,
        generation: int | None,
        words: Sequence[str],
    ) -> None:
        self._cache, self._connection = cache, connection
        self._tenant, self._generation = tenant, generation
        self._words = words
        self._table = words_table(tenant)
        self._vocabularies: dict[str, str] = {}
        if generation is not None:
            self._rows, self._mean_length = self._averages()

    def read(self, word: str) -> WordRows:
        """Return the rows with a word."""
        if self._generation is None:
            return self._scored_by_fts5(word)
        key = (self._tenant, self._generation, word)
        rows = self._cache.find(key)
        if rows is None:
            token = self._tokens.get(word) if self._rows >= self._cache.counted_from else None
            counted = token is not None and self._is_sooner_counted(token)
            rows = self._counted(token) if token is not None and counted else self._scored_by_fts5(word)
            self._cache.keep(key, rows)
        return rows

    @cached_property
    def _tokens(self) -> dict[str, str]:
        return self._cache.tokens(self._words)

    def _scored_by_fts5(self, word: str) -> WordRows:
        """Read the rows with a word, which may be a phrase, scored by FTS5."""
        # FTS5's bm25() is negative: lower is better. A word is quoted as data.
        statement = f"SELECT rowid, -bm25({self._table}, ?, ?, ?) FROM {self._table} WHERE {self._table} MATCH ?"  # noqa: S608 - a number's name
        weights = TITLE_WEIGHT, ALIASES_WEIGHT, CONTENT_WEIGHT
        with interrupted_in_time(self._connection):
            rows = self._connection.execute(statement, (*weights, f'"{word}"')).fetchall()
        numbers, scores = zip(*rows, strict=True) if rows else ((), ())
        return WordRows(np.array(numbers, dtype=np.int64), np.array(scores, dtype=np.float64), None)

    def _vocabulary_of(self, kind: Literal["row", "instance"]) -> str:
        """Return the name of the tenant's ``fts5vocab`` table of a kind, created if missing."""
        name = self._vocabularies.get(kind)
        if name is None:
            name = self._vocabularies[kind] = f"temp.vocabulary_{kind}_{self._tenant:d}"
            make = f"CREATE VIRTUAL TABLE IF NOT EXISTS {name} USING fts5vocab(main, {self._table}, {kind})"
            self._connection.execute(make)
            self._connection.lasting.add(make)  # creating it for each question would reprepare all statements
        return name

    def _is_sooner_counted(self, token: str) -> bool:
        """Return whether counting a token's occurrences is faster than having FTS5 score its rows.

        It may not be: a single long text may repeat a word half a million times.
        """
        row = self._connection.execute(
            f"SELECT doc, cnt FROM {self._vocabulary_of('row')} WHERE term = ?",  # noqa: S608 - a number's name
            (token,),
        ).fetchone()
        return row is None or row[1] <= OCCURRENCES_OF_A_ROW * row[0]

    def _counted(self, token: str) -> WordRows:
        """Read the rows with a token, and its weighted number of occurrences in each."""
        # One SQL row per occurrence, in order; joined to one text, as making Python tuples would take twice as long.
        (text,) = self._connection.execute(
            f"SELECT group_concat(2 * doc + (col = 'title')) FROM {self._vocabulary_of('instance')} WHERE term = ?",  # noqa: S608 - as above
            (token,),
        ).fetchone()
        occurrences = np.fromstring(text or "", dtype=np.int64, sep=",")
        in_title = occurrences & 1
        counted = distinct(occurrences >> 1, np.where(in_title, TITLE_WEIGHT, CONTENT_WEIGHT))
        having = len(counted.numbers)
        idf = math.log((max(0, self._rows - having) + 0.5) / (having + 0.5))
        return WordRows(counted.numbers, counted.sums.astype(np.int32), idf if idf > 0.0 else _LEAST_IDF)

    def length_weights(self, numbers: Numbers) -> Scores:
        """Return the length term of BM25's divisor for each row, shape (numbers,)."""
        if not len(numbers):
            return np.empty(0)
        rows = self._connection.execute(
            f"SELECT sz FROM json_each(?) AS n CROSS JOIN {self._table}_docsize AS d ON d.id = n.value",  # noqa: S608 - as above
            (json.dumps(numbers.tolist()),),
        ).fetchall()
        tokens = _varints(b"".join([row[0] for row in rows]))
        if len(tokens) != _COLUMNS * len(numbers):
            raise StoreCorrupt(f"the lengths of rows in {self._table} are damaged; {_REMEDY}")
        lengths = tokens.reshape(-1, _COLUMNS).sum(axis=1).astype(np.float64)
        weights: Scores = _K1 * (1.0 - _B + _B * lengths / self._mean_length)
        return weights

    def _averages(self) -> tuple[int, float]:
        """Return the tenant's number of rows and their mean length in tokens."""
        statement = f"SELECT block FROM {self._table}_data WHERE id = ?"  # noqa: S608 - as above
        row = self._connection.execute(statement, (_AVERAGES,)).fetchone()
        counts = _varints(row[0]).tolist() if row else []
        if len(counts) != 1 + _COLUMNS or not counts[0]:
            raise StoreCorrupt(f"the number of rows in {self._table} is damaged; {_REMEDY}")
        rows, *tokens = counts
        return rows, sum(tokens) / rows


class Summed(NamedTuple):
    """Distinct row numbers, ascending, with the sum of the values of each."""

    numbers: Numbers
    sums: Scores


def distinct(numbers: Numbers, values: Scores) -> Summed:
    """Sum the values of each row, in the given order."""
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    is_first = np.ones(len(numbers), dtype=np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=is_first[1:])
    sums: Scores = np.bincount(np.cumsum(is_first) - 1, weights=values[order]).astype(np.float64, copy=False)
    return Summed(numbers[is_first], sums)


def _varints(content: bytes) -> NDArray[np.int64]:
    """Decode SQLite's variable-length integers: seven bits per byte, highest first, bit 8 set in all but the last."""
    read = np.frombuffer(content, dtype=np.uint8).astype(np.int64)
    ends = np.flatnonzero(read < 0x80)  # noqa: PLR2004 - bit 8
    if len(ends) == len(read):
        return read
    sizes = np.diff(ends, prepend=-1)
    read = read[: sizes.sum()]  # without an incomplete last one
    places = np.repeat(ends, sizes) - np.arange(len(read))
    values: NDArray[np.int64] = np.add.reduceat((read & 0x7F) << (7 * places), ends - sizes + 1)
    return values


class Best(NamedTuple):
    """Rows with a score of at least ``least``, in the order of their numbers."""

    least: float
    numbers: list[int]
    scores: list[float]


class Matches:
    """The rows of a tenant, or some of them, with any of a question's words, and upper bounds of their scores."""

    def __init__(self, reader: WordReader, words: Sequence[str], among: Sequence[int] | None = None) -> None:
        self._reader, self._words = reader, words
        self._held: dict[str, WordRows] = {}
        exact = True
        together: list[Summed] = []
        size = 0
        for word in words:
            rows = reader.read(word)
            exact = exact and rows.idf is None
            together.append(Summed(rows.numbers, rows.bounds()))
            size += len(rows.numbers)
            if size <= _ADDED_AT:
                self._held[word] = rows
            else:  # all words together would take many times the memory
                together, size = [_added(together)], _ADDED_AT
        self._numbers, self._bounds = _added(together)
        if among is not None:
            kept = np.isin(self._numbers, np.array(among, dtype=np.int64))
            self._numbers, self._bounds = self._numbers[kept], self._bounds[kept]
        # NaN where only the bound is known.
        self._scores = self._bounds if exact else np.full(len(self._bounds), np.nan)

    def __len__(self) -> int:
        return len(self._numbers)

    def best(self, count: int, below: float = np.inf) -> Best:
        """Return the best ``count`` rows, and further rows with the same score as the last one.

        Parameters
        ----------
        below
            Rows with this score or more are left out.
        """
        least, places = 0.0, np.arange(len(self))
        if count < len(self):
            first = np.argpartition(-self._bounds, count)[:count]
            places = np.flatnonzero(self._bounds >= self._scores_at(np.sort(first)).min() - _ROUNDING)
        scores = self._scores_at(places)
        if count < len(self):
            least = max(0.0, -float(np.partition(-scores, count - 1)[count - 1]) - _ROUNDING)
        kept = (scores >= least) & (scores < below)
        return Best(least, self._numbers[places[kept]].tolist(), np.round(scores[kept], _DIGITS).tolist())

    def _scores_at(self, places: NDArray[np.int64]) -> Scores:
        """Return the scores of the rows at these indexes; where only a bound is known, the score is computed."""
        new = places[np.isnan(self._scores[places])]
        numbers = self._numbers[new]
        weights = self._reader.length_weights(numbers)
        scores = np.zeros(len(numbers))
        # Added in the order of the words, as FTS5 does, so that sums round alike.
        for word in self._words if len(new) else ():
            scores += (self._held.get(word) or self._reader.read(word)).scores(numbers, weights)
        self._scores[new] = scores
        return self._scores[places]


def _added(together: Sequence[Summed]) -> Summed:
    numbers, sums = zip(*together, strict=True)
    return distinct(np.concatenate(numbers), np.concatenate(sums))


def is_known(connection: sqlite3.Connection, tenant: int, word: str, *, trusted_only: bool) -> bool:
    """Return whether any row of a tenant, or any trusted one, has a word or another one with the same stem."""
    asked = " OR ".join(f'"{one}"' for one in search_words(word))  # each quoted as data
    table = words_table(tenant)
    found = f"SELECT 1 FROM {table} WHERE {table} MATCH :asked"  # noqa: S608 - a number's name
    found += f" AND {is_trusted(f'{table}.rowid')}" if trusted_only else ""
    values = {"asked": asked, "tenant": tenant}
    return not asked or connection.execute(f"{found} LIMIT 1", values).fetchone() is not None


def search(
    connection: Connection,
    known: WordCache,
    tenant: int,
    text: str,
    row_filter: RowFilter,
    *,
    k: int,
    newest_first: bool = False,
) -> tuple[list[tuple[float, str]], set[str]]:
    """Return the first ``k`` valid rows as (score, id), and the ids of superseded rows among the first ``k`` of all.

    Sorted best first or newest first; a row without a timestamp is the oldest.
    """
    words = lexical_words(text)
    if not words or row_filter.few == []:
        return [], set()
    matches = Matches(known.reader(connection, tenant, words), words, row_filter.few)
    ranked: list[tuple[float, str, int]] = []
    if newest_first:
        best = matches.best(len(matches))
        ranked = _read(connection, row_filter, best, order="r.timestamp DESC NULLS LAST, r.id")
    else:
        # Most of the rows with a word are never read.
        count, below, found = k + k // _SPARE, np.inf, 0
        while below > 0.0 and found < k:
            best = matches.best(count, below)
            read = _read(connection, row_filter, best)
            ranked += sorted(read, key=lambda row: (-row[0], row[1]))
            found, below = sum([valid for _, _, valid in ranked]), best.least
            # Assumes that the next rows pass the filter as often as those that were read.
            count += max(count, (k - found) * count // max(1, found))
    superseded = {record_id for _, record_id, valid in ranked[:k] if not valid}
    first = [row for row in ranked if row[2]][:k]
    return [(from_bm25(score), record_id) for score, record_id, _ in first], superseded


def _read(
    connection: sqlite3.Connection, row_filter: RowFilter, best: Best, *, order: str = "n.key"
) -> list[tuple[float, str, int]]:
    """Return the rows that pass the filter as (score, id, 1 if valid else 0)."""
    statement = (
        f"SELECT n.key, r.id, {VALID} FROM json_each(:numbers) AS n CROSS JOIN records AS r ON r.number = n.value"  # noqa: S608
        f" WHERE {row_filter.where} ORDER BY {order}"
    )
    rows = connection.execute(statement, {**row_filter.values, "numbers": json.dumps(best.numbers)})
    return [(best.scores[place], record_id, valid) for place, record_id, valid in rows]
