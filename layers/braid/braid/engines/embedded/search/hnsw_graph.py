"""The HNSW graph of one tenant and embedding space, kept consistent with the rows and saved beside the database.

Up to :data:`~braid.engines.embedded.search.hnsw_segments.EXACT_VECTORS` vectors, a search compares all of them and is
exact; beyond, it follows the edges of HNSW and is approximate.

The rows are authoritative: a graph returns keys of near vectors, whose rows are then read and scored as stored. A graph
that is missing, damaged or another store's is rebuilt from the rows. One that is behind reads the newer rows, and the
removed vectors from :mod:`~braid.engines.embedded.search.removed_vectors_log`, so that the cost of a search after a
write depends on the size of the write, not of the graph:

- newer vectors are compared with each question, and writers add them to a segment when there are enough;
- a removed vector stays in its segment, marked; when many are marked, writers rebuild the segment, a few vectors each.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from braid.deadline import holding, suspended
from braid.engines.embedded.search import hnsw_segments, removed_vectors_log
from braid.engines.embedded.search.hnsw_files import GraphFiles
from braid.engines.embedded.search.hnsw_segments import NO_KEYS, Segment, Tail
from braid.engines.embedded.search.removed_vectors_log import Position
from braid.engines.embedded.search.row_reads import has_more_vectors
from braid.engines.embedded.write_generations import Generation

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from braid.engines.embedded.search.hnsw_segments import Keys
    from braid.engines.embedded.store import EmbeddedStore

    _Rows = tuple[int, Keys, NDArray[np.float32]]

_LOG = logging.getLogger(__name__)

REMOVED_SHARE = 0.2
"""Share of removed vectors beyond which a segment is rebuilt: they still cost memory and reachability."""
MAX_TAIL = 16_384
"""Most vectors outside of segments that a search compares, .8 ms for 384 dimensions: more than writers leave unsaved.
If there are more, no writer maintains the graph, and the search adds them to a segment, .25 ms each."""
ADDED_AT_ONCE = 1_024
"""Vectors that a writer adds to a segment at once, and most of a segment that it rebuilds after one write."""
_LOW_BITS = 0xFFFF_FFFF
"""Bits of each key that are summed up as a checksum of the vectors; the sum of all bits could overflow in SQLite."""
_BATCH = 1_024
"""Rows that are read at once."""
_MIN_UNSAVED, _UNSAVED_SHARE = 256, 0.05
"""The graph is saved once this many vectors, and this share of their segment, were added."""
_REMOVALS_KEPT = 64
"""Number of latest updates whose removed vectors a search with an older snapshot still finds."""
_MAX_READS_AHEAD = 2
"""Searches in a row that scan the rows while a saved graph is newer: their snapshot may be older. Then the graph is
rebuilt."""
_ROWS_AFTER = "SELECT number, key, vector FROM vectors WHERE space = ? AND tenant = ? AND number > ? ORDER BY number"
_ROWS_OF_KEYS = (
    "SELECT number, key, vector FROM vectors WHERE space = ? AND tenant = ?"
    " AND key IN (SELECT value FROM json_each(?)) ORDER BY number"
)


class NearestKeys(NamedTuple):
    """Keys of the nearest vectors, nearest first; approximate in a large graph."""

    keys: list[int]
    cosines: list[float]
    """Within ``hnsw_segments.COSINE_ERROR`` of the cosines of the stored vectors."""
    size: int
    """Number of distinct vectors in the graph."""
    exact: bool
    """Whether no other vector is nearer, by these cosines."""


class _Rebuild:
    """A segment that is being replaced by one without its removed vectors."""

    def __init__(self, old: Segment) -> None:
        self.old, self.new = old, Segment(old.dimension)
        self.left = old.keys
        """Keys of the vectors that are not in the new segment yet."""


class HnswGraph:
    """The HNSW graph of one tenant and space; safe to use from several threads."""

    def __init__(self, store: EmbeddedStore, tenant: int, space: str) -> None:
        self._store = store
        self._tenant = tenant
        self._space = space
        self._lock = threading.Lock()
        self._reset(0)
        self._files = GraphFiles(store, tenant, space)
        self._reads_ahead = 0

    def _reset(self, dimension: int) -> None:
        self._dimension = dimension
        """Length of the vectors; 0 until the saved graph is read."""
        self._segments: list[Segment] = []
        self._tail = Tail(dimension)
        """The newest vectors, which are in no segment."""
        self._rebuild: _Rebuild | None = None
        self._generation = -1
        """Write generation of the rows that the graph has; -1 without any."""
        self._is_followed = False
        """Whether the graph was updated to that generation by this process."""
        self._position = Position()
        self._removals: deque[tuple[int, int, Keys]] = deque(maxlen=_REMOVALS_KEPT)
        """The last updates: from and to which generation, and the keys that were removed."""
        self._newest = self._newest_in_segment = 0
        """Number of the newest row that the graph has, and that its segments have."""
        self._unsaved = 0
        """Vectors added to segments since these were saved."""

    def nearest(self, connection: sqlite3.Connection, query: NDArray[np.float32], count: int) -> NearestKeys | None:
        """Return about the ``count`` nearest vectors, nearest first.

        None when the graph is much newer than the connection's snapshot: it may lack vectors that the snapshot has.

        Parameters
        ----------
        query
            Shape (dimension,), of length 1.
        """
        with holding(self._lock):
            # A half-updated graph would be of no use to the next search either.
            with suspended(), self._read_again_if_it_fails():
                newest = self._newest_in_segment
                followed = self._follow(connection, len(query), MAX_TAIL)
                if self._newest_in_segment != newest:  # else saving failed before, or there was nothing to save
                    self._save_if_grown(connection)
            since = NO_KEYS if followed else self._removed_since(Generation.RECORDS.read(connection, self._tenant))
            if since is None:
                return None
            size = self._size + len(since)
            if not size:
                return NearestKeys([], [], 0, exact=True)
            keys, cosines = hnsw_segments.nearest(self._segments, self._tail, query, count, since)
            return NearestKeys(keys.tolist(), cosines.tolist(), size, exact=hnsw_segments.is_exact(self._segments))

    def keep_up(self, connection: sqlite3.Connection, dimension: int) -> None:
        """After a write: add the newer vectors to a segment if they are many, and continue a rebuild."""
        with self._lock, self._read_again_if_it_fails():
            newest = self._newest_in_segment if self._dimension else self._files.saved_until()[0]
            is_behind = has_more_vectors(connection, self._tenant, self._space, than=ADDED_AT_ONCE, after=newest)
            if (is_behind or self._worn()) and self._follow(connection, dimension, ADDED_AT_ONCE):
                self._rebuild_some(connection)
                self._save_if_grown(connection)

    def bring_up_to_date(self, connection: sqlite3.Connection, dimension: int) -> None:
        """Add all newer vectors to segments, rebuild those with many removed ones, and save what changed."""
        more = True
        while more:  # between two steps others can search or write
            with self._lock, self._read_again_if_it_fails():
                more = self._follow(connection, dimension, 0) and self._rebuild_some(connection)
                if not more and self._unsaved:
                    self._save(connection)

    @contextmanager
    def _read_again_if_it_fails(self) -> Iterator[None]:
        """Reset the graph if the block fails, or Ctrl-C ends it: a half-updated graph lacks vectors for good."""
        try:
            yield
        except BaseException:
            self._reset(0)
            raise

    @property
    def _parts(self) -> list[Tail | Segment]:
        return [self._tail, *self._segments]

    @property
    def _size(self) -> int:
        return sum(len(part) - len(part.removed) for part in self._parts)

    def _follow(self, connection: sqlite3.Connection, dimension: int, most_in_tail: int) -> bool:
        """Update the graph to the connection's snapshot; return False when the graph is newer.

        A graph whose files changed is read again first, or rebuilt. Then, by write generation:

        ===================================  ===================================================================
        graph newer than the snapshot        leave it and return False; if it was just read, see
                                             :meth:`_reset_if_ahead_of_rows`
        equal, and updated before            nothing to do
        the log knows the graph's position   read the newer rows, and mark the vectors removed since
        otherwise                            read the newer rows, and compare the keys with all rows'
        ===================================  ===================================================================

        Parameters
        ----------
        most_in_tail
            If the tail has more vectors, they are added to a segment.
        """
        generation = Generation.RECORDS.read(connection, self._tenant)
        if any(segment.is_changed(self._files.folder) for segment in self._segments):
            _LOG.warning(
                "a file of vector index %s was changed while it was open; it is read again", self._files.manifest
            )
            self._reset(0)
        if self._dimension != dimension:
            self._load(dimension)
        elif generation > self._generation and self._is_overtaken(connection):
            self._load(dimension, self._segments)
        if generation < self._generation and not self._reset_if_ahead_of_rows():
            return False
        self._reads_ahead = 0
        if generation != self._generation or not self._is_followed:
            removed = removed_vectors_log.removed_since(connection, self._tenant, self._space, self._position)
            self._add_since(connection, self._newest, most_in_tail)
            if removed is None:
                self._removals.clear()
                if self._differs(connection):
                    self._compare(connection)
                # The graph may be of other rows, whose vectors are the same and whose numbers are greater.
                self._newest = self._newest_number(connection)
                self._newest_in_segment = min(self._newest_in_segment, self._newest)
            else:
                keys = np.array(removed, dtype=np.uint64)
                self._remove(keys)
                self._removals.append((self._generation, generation, keys))
            self._generation, self._is_followed = generation, True
            self._position = removed_vectors_log.position(connection, self._tenant)
            if removed is None and self._segments:
                self._save(connection)  # so that the next process need not compare it
        if len(self._tail) > most_in_tail:
            self._flush()
        return True

    def _is_overtaken(self, connection: sqlite3.Connection) -> bool:
        """Return whether the tail gets too long, and another process has saved some of it in segments."""
        room = max(0, MAX_TAIL - len(self._tail))
        is_full = has_more_vectors(connection, self._tenant, self._space, than=room, after=self._newest)
        return is_full and self._is_saved_later(connection)

    def _is_saved_later(self, connection: sqlite3.Connection) -> bool:
        """Return whether another process has saved a later state, of the same store."""
        newest, position = self._files.saved_until()
        return newest > self._newest_in_segment and removed_vectors_log.is_known(connection, self._tenant, position)

    def _load(self, dimension: int, held: Sequence[Segment] = ()) -> None:
        """Read the saved graph, if there is one; ``held`` segments that are still part of it are reused."""
        self._reset(dimension)
        saved = self._files.read(dimension, held)
        if saved is not None:
            manifest, self._segments = saved
            self._generation, self._position = manifest.generation, manifest.position
            self._newest = self._newest_in_segment = manifest.newest

    def _save(self, connection: sqlite3.Connection) -> None:
        """Save the segments, unless another process has saved a later state."""
        if self._is_saved_later(connection) or self._files.write(
            self._segments,
            self._dimension,
            generation=self._generation,
            position=self._position,
            newest=self._newest_in_segment,
        ):
            self._unsaved = 0

    def _newest_number(self, connection: sqlite3.Connection) -> int:
        statement = "SELECT max(number) FROM vectors WHERE space = ? AND tenant = ?"
        return connection.execute(statement, (self._space, self._tenant)).fetchone()[0] or 0

    def _differs(self, connection: sqlite3.Connection) -> bool:
        """Return whether the vectors of the graph differ from the rows', by their number and a checksum."""
        number, checksum = connection.execute(
            f"SELECT count(*), sum(key & {_LOW_BITS:d})"  # noqa: S608 - a constant
            " FROM (SELECT DISTINCT key FROM vectors WHERE space = ? AND tenant = ?)",
            (self._space, self._tenant),
        ).fetchone()
        sums = (int((part.keys & _LOW_BITS).sum()) for part in self._parts)
        return number != self._size or (checksum or 0) != sum(sums)

    def _reset_if_ahead_of_rows(self) -> bool:
        """Reset a graph that was just read and is newer than the database, and return whether it was reset.

        A database that was restored from a copy is older than the graph. The graph may also be newer than this
        connection's snapshot alone, so it is read again at the next searches, and reset only if it stays newer.
        """
        if self._is_followed:
            return False
        dimension, self._dimension = self._dimension, 0  # so that the next search reads the file again
        self._reads_ahead += 1
        if self._reads_ahead <= _MAX_READS_AHEAD:
            return False
        _LOG.warning("vector index %s is newer than the rows and is built again", self._files.manifest)
        self._reset(dimension)
        return True

    def _add_since(self, connection: sqlite3.Connection, number: int, most_in_tail: int) -> None:
        """Add the vectors of rows with a greater number to the tail, and beyond ``most_in_tail`` to segments."""
        for numbers, keys, vectors in self._rows(connection, _ROWS_AFTER, number):
            self._add(keys, vectors)
            self._newest = max(self._newest, numbers)
            if len(self._tail) > max(most_in_tail, _BATCH):
                self._flush()

    def _rows(self, connection: sqlite3.Connection, statement: str, parameter: int | str) -> Iterator[_Rows]:
        """Yield batches of a statement's rows: the last number, and the distinct keys with their vectors."""
        rows = connection.execute(statement, (self._space, self._tenant, parameter))
        while batch := rows.fetchmany(_BATCH):
            distinct = {key: vector for _, key, vector in reversed(batch)}  # in the order of the first of each
            keys = list(reversed(distinct))
            values = np.frombuffer(b"".join(distinct[key] for key in keys), dtype="<f4")
            yield int(batch[-1][0]), np.array(keys, dtype=np.uint64), values.reshape(len(keys), -1)

    def _add(self, keys: Keys, vectors: NDArray[np.float32]) -> None:
        """Add the vectors that the graph lacks to the tail."""
        new = np.ones(len(keys), dtype=np.bool_)
        for part in self._parts:
            part.restore(keys)
            new &= ~part.contains(keys)
        self._tail.add(keys[new], vectors[new])

    def _flush(self) -> None:
        """Add the tail to a segment; a full one is written and memory-mapped, and another begun."""
        keys, vectors = self._tail.keys, self._tail.vectors
        self._tail = Tail(self._dimension)
        while len(keys):
            segment = self._growing_segment()
            some = max(1, hnsw_segments.SIZE - len(segment))
            segment.add(keys[:some], vectors[:some])
            self._unsaved += len(keys[:some])
            keys, vectors = keys[some:], vectors[some:]
        self._newest_in_segment = self._newest

    def _growing_segment(self) -> Segment:
        """Return the segment that vectors are added to; a full one is written and memory-mapped."""
        if self._segments and not self._segments[-1].is_full:
            return self._segments[-1]
        if self._segments:
            self._files.map_full(self._segments[-1])
        self._segments.append(Segment(self._dimension))
        return self._segments[-1]

    def _remove(self, keys: Keys) -> None:
        """Mark vectors as removed."""
        for part in self._parts:
            before = len(part.removed)
            part.remove(keys)
            self._unsaved += len(part.removed) - before

    def _removed_since(self, generation: int) -> Keys | None:
        """Return the keys that were removed after an older generation; None if unknown."""
        later = [keys for _, until, keys in self._removals if until > generation]
        if not self._is_followed or not later or self._removals[-len(later)][0] > generation:
            return None
        keys = np.unique(np.concatenate(later))
        has = np.zeros(len(keys), dtype=np.bool_)
        for part in self._parts:
            has |= part.contains(keys)
        return keys if has.all() else None  # a removed one was not added to a segment

    def _compare(self, connection: sqlite3.Connection) -> None:
        """Mark the vectors that no row has any more; reset the graph and read all rows if it lacks others."""
        statement = "SELECT DISTINCT key FROM vectors WHERE space = ? AND tenant = ?"
        rows = connection.execute(statement, (self._space, self._tenant))
        live = np.fromiter((row[0] for row in rows), dtype=np.uint64)
        for part in self._parts:
            part.restore(live)
            self._remove(np.setdiff1d(part.keys, live))
        if self._size < len(live):  # the graph was built from other rows
            self._reset(self._dimension)
            self._add_since(connection, 0, MAX_TAIL)

    def _worn(self) -> list[Segment]:
        """Return the segments with many removed vectors."""
        return [one for one in self._segments if len(one.removed) > REMOVED_SHARE * len(one)]

    def _rebuild_some(self, connection: sqlite3.Connection) -> bool:
        """Continue or begin the rebuild of a segment; return whether there is more to do."""
        rebuild = self._rebuild
        if rebuild is None or rebuild.old not in self._segments:
            worn = self._worn()
            if not worn:
                return False
            rebuild = self._rebuild = _Rebuild(worn[0])
        some, rebuild.left = rebuild.left[:ADDED_AT_ONCE], rebuild.left[ADDED_AT_ONCE:]
        for _, keys, vectors in self._rows(connection, _ROWS_OF_KEYS, json.dumps(some.tolist())):
            new = ~rebuild.new.contains(keys)  # equal vectors may be of several batches
            rebuild.new.add(keys[new], vectors[new])
        if len(rebuild.left):
            return True
        self._rebuild = None
        self._replace(connection, rebuild.old, rebuild.new)
        return True

    def _replace(self, connection: sqlite3.Connection, old: Segment, new: Segment) -> None:
        """Put a rebuilt segment in the place of the old one."""
        new.remove(old.removed)  # meanwhile
        keys = old.keys
        lacking = keys[~new.contains(keys)]  # removed when it began, and written again
        place = self._segments.index(old)
        self._segments[place : place + 1] = [new] if len(new) else []
        self._unsaved += max(1, len(new))
        for _, some, vectors in self._rows(connection, _ROWS_OF_KEYS, json.dumps(lacking.tolist())):
            self._add(some, vectors)
        self._flush()  # these rows are no newer than the segments'

    def _save_if_grown(self, connection: sqlite3.Connection) -> None:
        growing = len(self._segments[-1]) if self._segments else 0
        if self._unsaved >= max(_MIN_UNSAVED, int(_UNSAVED_SHARE * growing)):
            self._save(connection)
