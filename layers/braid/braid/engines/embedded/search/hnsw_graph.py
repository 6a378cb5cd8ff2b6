"""The HNSW graph of one tenant and embedding space, kept consistent with the rows and saved beside the database.

Up to :data:`~braid.engines.embedded.search.hnsw_segments.EXACT_VECTORS` vectors, a search compares all of them and is
exact; beyond, it follows the edges of HNSW and is approximate.

The rows are authoritative: a graph returns keys of near vectors, whose rows are then read and scored as stored. A graph
that is missing, damaged or another store's is rebuilt from the rows, and one that is behind adds the newer rows. It
consists of segments; a vector that no row has any more stays in its segment as a tombstone, until a segment has so many
that its other vectors are moved to another one.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from braid.deadline import holding, suspended
from braid.engines.embedded.files import PRIVATE_FILE, PRIVATE_FOLDER, remove_files
from braid.engines.embedded.generations import Generation
from braid.engines.embedded.search import hnsw_segments
from braid.engines.embedded.search.hnsw_segments import GraphManifest, Segment
from braid.engines.embedded.search.row_reads import has_any
from braid.engines.embedded.store import VECTORS

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from braid.engines.embedded.search.hnsw_segments import Keys
    from braid.engines.embedded.store import EmbeddedStore

_LOG = logging.getLogger(__name__)

TOMBSTONE_SHARE = 0.2
"""Share of tombstones beyond which a segment is dissolved: they still cost memory and reachability."""
_LOW_BITS = 0xFFFF_FFFF
"""Bits of each key that are summed up as a checksum of the vectors; the sum of all bits could overflow in SQLite."""
_BATCH = 1_024
"""Rows that are read at once."""
_FORMAT = 2
_MIN_UNSAVED, _UNSAVED_SHARE = 256, 0.05
"""The graph is saved once so many vectors were added, and this share of the segment that they are added to."""
_READS = 3
"""Attempts to read a saved graph while another process saves it under other names."""
_MAX_READS_AHEAD = 2
"""Searches that scan the rows while a saved graph is newer: their snapshot may be older. Then the graph is rebuilt."""
_ABANDONED_S = 600.0
"""Age in seconds beyond which a file that no manifest lists is removed: its writer has died or has replaced it."""
_ROWS_AFTER = "SELECT number, key, vector FROM vectors WHERE space = ? AND tenant = ? AND number > ? ORDER BY number"
_ROWS_OF_KEYS = (
    "SELECT number, key, vector FROM vectors WHERE space = ? AND tenant = ?"
    " AND key IN (SELECT value FROM json_each(?)) ORDER BY number"
)


class NearestKeys(NamedTuple):
    """Keys of the nearest vectors, nearest first; approximate in a large graph."""

    keys: list[int]
    cosines: list[float]
    """Within ``hnsw_segments.COSINE_ERROR`` of those of the stored vectors."""
    size: int
    """Number of distinct vectors in the graph."""
    exact: bool
    """Whether no other vector is nearer, by these cosines."""


class HnswGraph:
    """The HNSW graph of one tenant and space; safe to use from several threads."""

    def __init__(self, store: EmbeddedStore, tenant: int, space: str) -> None:
        self._store = store
        self._tenant = tenant
        self._space = space
        self._lock = threading.Lock()
        self._dimension = 0
        """Length of the vectors; 0 until the saved graph is read."""
        self._segments: list[Segment] = []
        self._tombstones: Keys | None = None
        """Keys of vectors that no row has any more; None until the graph is compared with the rows."""
        self._generation = -1
        """Write generation of the rows that the graph has; -1 without any."""
        self._newest = 0
        """Number of the newest row that the graph has."""
        self._unsaved = 0
        """Vectors added since it was saved."""
        self._written: set[str] = set()
        self._reads_ahead = 0
        digest = hashlib.sha256(space.encode()).hexdigest()[:16]
        self._folder = store.folder / VECTORS
        self._stem = f"{tenant:d}-{digest}"

    def nearest(self, connection: sqlite3.Connection, query: NDArray[np.float32], count: int) -> NearestKeys | None:
        """Return about the ``count`` nearest vectors, nearest first.

        None when the graph is newer than the connection's snapshot: it may lack vectors that the snapshot still has.

        Parameters
        ----------
        query
            Shape (dimension,), of length 1.
        """
        import numpy as np

        with holding(self._lock):
            # A half-updated graph would be of no use to the next search either.
            with suspended():
                followed = self._catch_up(connection, len(query))
            if not followed:
                return None
            size = self._size - len(self._removed)
            parts = [segment for segment in self._segments if len(segment)]
            if not parts:
                return NearestKeys([], [], 0, exact=True)
            keys, cosines = hnsw_segments.nearest(parts, query, count)
            if len(self._removed):
                live = ~np.isin(keys, self._removed)
                keys, cosines = keys[live], cosines[live]
            return NearestKeys(keys.tolist(), cosines.tolist(), size, exact=hnsw_segments.is_exact(parts))

    def bring_up_to_date(self, connection: sqlite3.Connection, dimension: int) -> None:
        """Add missing rows and save changed segments."""
        with self._lock:
            if self._catch_up(connection, dimension) and self._unsaved:
                self._save()

    @property
    def _size(self) -> int:
        return sum(len(segment) for segment in self._segments)

    @property
    def _removed(self) -> Keys:
        import numpy as np

        return np.empty(0, dtype=np.uint64) if self._tombstones is None else self._tombstones

    def _catch_up(self, connection: sqlite3.Connection, dimension: int) -> bool:
        """Update the graph to the connection's snapshot; return False when the graph is newer.

        A graph whose files changed is read again first, or rebuilt. Then, by write generation:

        ==================================  ====================================================================
        graph newer than the snapshot       leave it and return False; if it was just read, see
                                            :meth:`_reset_if_ahead_of_rows`
        equal, and compared with the rows   nothing to do
        equal, just read                    compare it with the rows
        older                               add the newer rows, then compare it with the rows
        ==================================  ====================================================================

        Comparing finds the tombstones if the vectors differ. Last, the graph is saved if it has grown enough.
        """
        generation = Generation.RECORDS.read(connection, self._tenant)
        if any(segment.is_changed(self._folder) for segment in self._segments):
            _LOG.warning(
                "a file of vector index %s was changed while it was open; it is read again", self._manifest_path
            )
            self._reset(0)
        if self._dimension != dimension:
            self._reset(dimension)
            self._load()
        if generation < self._generation and not self._reset_if_ahead_of_rows():
            return False
        if generation == self._generation and self._tombstones is not None:
            return True
        if generation > self._generation:
            self._add_since(connection, self._newest)
        if self._differs(connection):
            self._find_tombstones(connection)
        self._tombstones = self._removed
        self._generation = generation
        growing = len(self._segments[-1]) if self._segments else 0
        if self._unsaved >= max(_MIN_UNSAVED, int(_UNSAVED_SHARE * growing)):
            self._save()
        return True

    def _differs(self, connection: sqlite3.Connection) -> bool:
        """Return whether the vectors of the graph are not those of the rows.

        For a graph that was updated in this process, comparing their numbers suffices. One that was just read from a
        file may have the same number of other vectors, if the database was restored and then written to again.
        """
        distinct = "SELECT DISTINCT key FROM vectors WHERE space = ? AND tenant = ?"
        was_read = bool(self._segments) and self._tombstones is None
        number, checksum = connection.execute(
            f"SELECT count(*), {f'sum(key & {_LOW_BITS:d})' if was_read else '0'} FROM ({distinct})",  # noqa: S608 - constants
            (self._space, self._tenant),
        ).fetchone()
        if number != self._size - len(self._removed):
            return True
        return was_read and checksum != sum(int((segment.keys & _LOW_BITS).sum()) for segment in self._segments)

    def _reset_if_ahead_of_rows(self) -> bool:
        """Reset a graph that was just read and is newer than the database, and return whether it was reset.

        A database that was restored from a copy is older than the graph. The graph may also be newer than this
        connection's snapshot alone, so it is read again at the next searches, and reset only if it stays newer.
        """
        if self._tombstones is not None:
            return False
        dimension, self._dimension = self._dimension, 0  # so that the next search reads the file again
        self._reads_ahead += 1
        if self._reads_ahead <= _MAX_READS_AHEAD:
            return False
        _LOG.warning("vector index %s is newer than the rows and is built again", self._manifest_path)
        self._reset(dimension)
        return True

    def _reset(self, dimension: int) -> None:
        self._dimension = dimension
        self._segments = []
        self._tombstones = None
        self._generation = -1
        self._newest = self._unsaved = 0

    def _add_since(self, connection: sqlite3.Connection, number: int) -> None:
        """Add the vectors of rows with a greater number."""
        self._newest = max(self._newest, self._add(connection, _ROWS_AFTER, number))

    def _add(self, connection: sqlite3.Connection, statement: str, parameter: int | str) -> int:
        """Add the missing vectors among the rows of a statement, and return the last row's number."""
        import numpy as np

        newest = 0
        rows = connection.execute(statement, (self._space, self._tenant, parameter))
        while batch := rows.fetchmany(_BATCH):
            keys, first = np.unique(np.array([row[1] for row in batch], dtype=np.uint64), return_index=True)
            if len(self._removed):
                self._tombstones = np.setdiff1d(self._removed, keys)
            new = np.ones(len(keys), dtype=np.bool_)
            for segment in self._segments:
                new &= ~segment.contains(keys)
            places = np.sort(first[new])
            while len(places):
                segment = self._growing_segment()
                taken, places = np.split(places, [hnsw_segments.SIZE - len(segment)])
                values = np.frombuffer(b"".join(batch[place][2] for place in taken), dtype="<f4")
                segment.add(
                    np.array([batch[place][1] for place in taken], dtype=np.uint64), values.reshape(len(taken), -1)
                )
                self._unsaved += len(taken)
            newest = int(batch[-1][0])
        return newest

    def _growing_segment(self) -> Segment:
        """Return the segment that vectors are added to; a full one is written and memory-mapped."""
        if self._segments and len(self._segments[-1]) < hnsw_segments.SIZE:
            return self._segments[-1]
        if self._segments and not self._store.read_only:
            try:
                self._write(self._segments[-1])
            except OSError as error:
                self._warn_not_saved(error)
        self._segments.append(Segment(self._dimension))
        return self._segments[-1]

    def _find_tombstones(self, connection: sqlite3.Connection) -> None:
        """Set the tombstones, vectors that no row has any more; a segment with too many of them is dissolved."""
        import numpy as np

        statement = "SELECT DISTINCT key FROM vectors WHERE space = ? AND tenant = ?"
        rows = connection.execute(statement, (self._space, self._tenant))
        live = np.fromiter((row[0] for row in rows), dtype=np.uint64)
        dead: list[Keys] = [np.empty(0, dtype=np.uint64)]
        kept: list[Segment] = []
        again: list[Keys] = []
        held = 0
        for segment in self._segments:
            keys = segment.keys
            gone = ~np.isin(keys, live)
            held += len(keys) - int(gone.sum())
            if gone.mean() > TOMBSTONE_SHARE:
                again.append(keys[~gone])
            else:
                kept.append(segment)
                dead.append(keys[gone])
        if held < len(live):  # vectors of rows are missing: the graph was built from other rows
            self._reset(self._dimension)
            self._add_since(connection, 0)
            return
        self._segments, self._tombstones = kept, np.concatenate(dead)
        for keys in again:
            self._add(connection, _ROWS_OF_KEYS, json.dumps(keys.tolist()))

    @property
    def _manifest_path(self) -> Path:
        return self._folder / f"{self._stem}.json"

    def _load(self) -> None:
        """Read the saved graph if it belongs to this tenant and space; if damaged, log it and rebuild from the rows."""
        for _ in range(_READS):
            try:
                self._read()
            except FileNotFoundError:
                continue  # another process may just have saved it under other names
            except (OSError, ValueError, RuntimeError) as error:
                kind = type(error).__name__  # a message may quote the whole file
                _LOG.warning("vector index %s is damaged and is built again: %s", self._manifest_path, kind)
            return
        if self._manifest_path.exists():
            _LOG.warning("vector index %s lacks a file and is built again", self._manifest_path)

    def _read(self) -> None:
        manifest = GraphManifest.read(self._manifest_path)
        found = (manifest.format, manifest.store, manifest.tenant, manifest.space, manifest.dimension)
        if found != (_FORMAT, self._store.identity, self._tenant, self._space, self._dimension):
            return
        self._segments = [Segment.read(self._folder, self._stem, each, self._dimension) for each in manifest.segments]
        self._generation, self._newest = manifest.generation, manifest.newest

    def _save(self) -> None:
        """Write changed segments to new files, then the manifest: a reader sees either the old graph or the new one.

        If writing fails, the only consequence is that the next process has to build the graph again.
        """
        if self._store.read_only:
            return
        unfinished = self._folder / f"{self._stem}-{secrets.token_hex(8)}.new"
        replaced: set[str] = set()
        with suppress(OSError, ValueError):
            replaced = {segment.file for segment in GraphManifest.read(self._manifest_path).segments}
        try:
            for segment in self._segments:
                self._write(segment)
            manifest = GraphManifest(
                format=_FORMAT,
                store=self._store.identity,
                tenant=self._tenant,
                space=self._space,
                dimension=self._dimension,
                generation=self._generation,
                newest=self._newest,
                segments=tuple(segment.manifest_entry() for segment in self._segments),
            )
            with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE), "wb") as file:  # noqa: PTH123 - with its mode
                file.write(manifest.model_dump_json().encode())
            unfinished.replace(self._manifest_path)
        except OSError as error:
            self._warn_not_saved(error)
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            return
        self._unsaved = 0
        self._remove_unused_files(replaced)
        with self._store.read() as connection:  # a later snapshot than the saver's own
            deleted = not has_any(connection, self._tenant)
        if deleted:  # by another process, which removed the files that existed then
            remove_files(self._folder, f"{self._stem}*")

    def _write(self, segment: Segment) -> None:
        self._folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        segment.write(self._folder, self._stem)
        self._written.add(segment.file or "")

    def _remove_unused_files(self, replaced: set[str]) -> None:
        """Remove files that no manifest lists, except recent ones, which another process may be about to list."""
        kept = {segment.file or "" for segment in self._segments}
        gone = (replaced | self._written) - kept
        self._written &= kept
        long_ago = time.time() - _ABANDONED_S
        for path in self._folder.glob(f"{self._stem}-*"):
            with suppress(OSError):
                if path.name in gone or (path.name not in kept and path.stat().st_mtime < long_ago):
                    path.unlink(missing_ok=True)

    def _warn_not_saved(self, error: OSError) -> None:
        _LOG.warning("vector index %s was not saved: %s", self._manifest_path, error)
