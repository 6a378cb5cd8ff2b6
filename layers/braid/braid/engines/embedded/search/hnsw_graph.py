"""The HNSW graph of one tenant and embedding space, kept in step with the rows and saved beside the database.

The rows are the truth: a graph returns keys of near vectors, whose rows are then read and scored as stored. A graph
that is missing, damaged or another store's is rebuilt from the rows, and one that is behind adds the rows whose
numbers are newer. It consists of segments; a vector that no row has any more stays in its segment as a tombstone,
until so many have gone that the segment's others are moved to another one.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from braid.deadline import holding, suspended
from braid.engines.embedded.files import PRIVATE_FILE, PRIVATE_FOLDER
from braid.engines.embedded.generations import Generation
from braid.engines.embedded.search import hnsw_segments
from braid.engines.embedded.search.hnsw_segments import Description, Segment
from braid.engines.embedded.store import VECTORS

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from braid.engines.embedded.search.hnsw_segments import Keys
    from braid.engines.embedded.store import EmbeddedStore

_LOG = logging.getLogger(__name__)

DEAD_SHARE = 0.2
"""Share of removed vectors at which a segment is given up: removed ones still cost memory and reachability."""
_BATCH = 1_024
_FORMAT = 2
_MIN_UNSAVED = 256
_UNSAVED_SHARE = 0.05
_READS = 3
_READS_AHEAD = 2
"""Searches that wait for the rows to catch up with a saved graph: both of one snapshot may be older than it."""
_ABANDONED_S = 600.0
"""Age of a file that nothing speaks of, at which whoever wrote it has died or has had it taken away."""
_SINCE = "SELECT number, key, vector FROM vectors WHERE space = ? AND tenant = ? AND number > ? ORDER BY number"
_OF_KEYS = (
    "SELECT number, key, vector FROM vectors WHERE space = ? AND tenant = ?"
    " AND key IN (SELECT value FROM json_each(?)) ORDER BY number"
)


class Proposed(NamedTuple):
    """What a graph proposes."""

    keys: list[int]
    cosines: list[float]
    """Within ``hnsw_segments.COSINE_ERROR`` of those of the stored vectors."""
    size: int
    """How many different vectors there are."""


class VectorGraph:
    """The HNSW graph of one tenant and space; safe to use from several threads.

    Parameters
    ----------
    store
        Whose rows it follows.
    tenant
        The tenant's number.
    space
        The embedding space.
    """

    def __init__(self, store: EmbeddedStore, tenant: int, space: str) -> None:
        self._store = store
        self._tenant = tenant
        self._space = space
        self._lock = threading.Lock()
        self._dimension = 0
        self._segments: list[Segment] = []
        self._dead: Keys | None = None  # not known before the rows were compared
        self._generation = -1
        self._newest = 0
        self._unsaved = 0
        self._written: set[str] = set()
        self._ahead = 0
        digest = hashlib.sha256(space.encode()).hexdigest()[:16]
        self._folder = store.folder / VECTORS
        self._stem = f"{tenant:d}-{digest}"

    def nearest(self, connection: sqlite3.Connection, query: NDArray[np.float32], count: int) -> Proposed | None:
        """Return about the ``count`` nearest vectors, nearest first.

        None when the graph follows a later moment than the connection sees: it may lack what was replaced since.

        Parameters
        ----------
        query
            Shape (dimension,), of length 1.
        """
        import numpy as np

        with holding(self._lock):
            # Half of an index would be no use to the next search either.
            with suspended():
                followed = self._catch_up(connection, len(query))
            if not followed:
                return None
            size = self._size - len(self._gone)
            parts = [segment for segment in self._segments if len(segment)]
            if not parts:
                return Proposed([], [], 0)
            keys, cosines = hnsw_segments.nearest(parts, query, count)
            if len(self._gone):
                live = ~np.isin(keys, self._gone)
                keys, cosines = keys[live], cosines[live]
            return Proposed(keys.tolist(), cosines.tolist(), size)

    def bring_up_to_date(self, connection: sqlite3.Connection, dimension: int) -> None:
        """Catch up with the rows and save what is not saved yet."""
        with self._lock:
            if self._catch_up(connection, dimension) and self._unsaved:
                self._save()

    # --- following the rows -----------------------------------------------------------------------------------------

    @property
    def _size(self) -> int:
        return sum(len(segment) for segment in self._segments)

    @property
    def _gone(self) -> Keys:
        import numpy as np

        return np.empty(0, dtype=np.uint64) if self._dead is None else self._dead

    def _catch_up(self, connection: sqlite3.Connection, dimension: int) -> bool:
        """Follow the rows to the moment that the connection sees, False when the graph is beyond it."""
        generation = Generation.RECORDS.read(connection, self._tenant)
        if any(segment.is_cut(self._folder) for segment in self._segments):
            _LOG.warning("a file of vector index %s was cut while it was open; it is built again", self._description)
            self._start_again(dimension)
        if self._dimension != dimension:
            self._start_again(dimension)
            self._load()
        if generation < self._generation and not self._is_beyond_all_rows():
            return False
        if generation == self._generation and self._dead is not None:
            return True
        if generation > self._generation:
            self._add_since(connection, self._newest)
        live = connection.execute(
            "SELECT count(DISTINCT key) FROM vectors WHERE space = ? AND tenant = ?", (self._space, self._tenant)
        ).fetchone()[0]
        if live != self._size - len(self._gone):
            self._bury(connection)
        self._dead = self._gone
        self._generation = generation
        growing = len(self._segments[-1]) if self._segments else 0
        if self._unsaved >= max(_MIN_UNSAVED, int(_UNSAVED_SHARE * growing)):
            self._save()
        return True

    def _is_beyond_all_rows(self) -> bool:
        """Whether the graph follows rows that the database never had, and so begins anew: one was replaced by a copy.

        A graph that was just read may also be newer than the moment that the connection sees, which then passes.
        """
        if self._dead is not None:
            return False
        dimension, self._dimension = self._dimension, 0  # read again the next time
        self._ahead += 1
        if self._ahead <= _READS_AHEAD:
            return False
        _LOG.warning("vector index %s is newer than the rows and is built again", self._description)
        self._start_again(dimension)
        return True

    def _start_again(self, dimension: int) -> None:
        self._dimension = dimension
        self._segments = []
        self._dead = None
        self._generation = -1
        self._newest = self._unsaved = 0

    def _add_since(self, connection: sqlite3.Connection, number: int) -> None:
        """Take in the rows after one."""
        self._newest = max(self._newest, self._add(connection, _SINCE, number))

    def _add(self, connection: sqlite3.Connection, statement: str, asked: int | str) -> int:
        """Take in rows whose vectors are not there yet, and return the last row's number."""
        import numpy as np

        newest = 0
        rows = connection.execute(statement, (self._space, self._tenant, asked))
        while batch := rows.fetchmany(_BATCH):
            keys, first = np.unique(np.array([row[1] for row in batch], dtype=np.uint64), return_index=True)
            if len(self._gone):
                self._dead = np.setdiff1d(self._gone, keys)
            new = np.ones(len(keys), dtype=np.bool_)
            for segment in self._segments:
                new &= ~segment.contains(keys)
            places = np.sort(first[new])
            while len(places):
                segment = self._growing()
                taken, places = np.split(places, [hnsw_segments.SIZE - len(segment)])
                values = np.frombuffer(b"".join(batch[place][2] for place in taken), dtype="<f4")
                segment.add(
                    np.array([batch[place][1] for place in taken], dtype=np.uint64), values.reshape(len(taken), -1)
                )
                self._unsaved += len(taken)
            newest = int(batch[-1][0])
        return newest

    def _growing(self) -> Segment:
        """Return the segment that takes in what comes; one that is full leaves the memory."""
        if self._segments and len(self._segments[-1]) < hnsw_segments.SIZE:
            return self._segments[-1]
        if self._segments and not self._store.read_only:
            try:
                self._write(self._segments[-1])
            except OSError as error:
                self._not_saved(error)
        self._segments.append(Segment(self._dimension))
        return self._segments[-1]

    def _bury(self, connection: sqlite3.Connection) -> None:
        """Find out which vectors no row has any more; a segment of which too many went is given up."""
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
            if gone.mean() > DEAD_SHARE:
                again.append(keys[~gone])
            else:
                kept.append(segment)
                dead.append(keys[gone])
        if held < len(live):  # the graph lacks what it should have taken in: it followed other rows
            self._start_again(self._dimension)
            self._add_since(connection, 0)
            return
        self._segments, self._dead = kept, np.concatenate(dead)
        for keys in again:
            self._add(connection, _OF_KEYS, json.dumps(keys.tolist()))

    # --- the files --------------------------------------------------------------------------------------------------

    @property
    def _description(self) -> Path:
        return self._folder / f"{self._stem}.json"

    def _load(self) -> None:
        """Read the saved graph if there is one that fits: it is a copy, and is made again."""
        for _ in range(_READS):
            try:
                self._read()
            except FileNotFoundError:
                continue  # another process may just have saved it under other names
            except (OSError, ValueError, RuntimeError) as error:
                kind = type(error).__name__  # a message may quote the whole of the file
                _LOG.warning("vector index %s is damaged and is built again: %s", self._description, kind)
            return
        if self._description.exists():
            _LOG.warning("vector index %s lacks a file and is built again", self._description)

    def _read(self) -> None:
        said = Description.read(self._description)
        found = (said.format, said.store, said.tenant, said.space, said.dimension)
        if found != (_FORMAT, self._store.identity, self._tenant, self._space, self._dimension):
            return
        last = len(said.segments) - 1
        self._segments = [
            Segment.read(self._folder, self._stem, each, self._dimension, grows=place == last)
            for place, each in enumerate(said.segments)
        ]
        self._generation, self._newest = said.generation, said.newest

    def _save(self) -> None:
        """Write what is not written under new names, then the description: a reader sees the old or the new.

        A disk that is full or cannot be written costs the next process the time to build the graph, nothing else.
        """
        if self._store.read_only:
            return
        unfinished = self._description.with_suffix(f".{os.getpid()}.new")
        replaced: set[str] = set()
        with suppress(OSError, ValueError):
            replaced = {segment.file for segment in Description.read(self._description).segments}
        try:
            for segment in self._segments:
                self._write(segment)
            said = Description(
                format=_FORMAT,
                store=self._store.identity,
                tenant=self._tenant,
                space=self._space,
                dimension=self._dimension,
                generation=self._generation,
                newest=self._newest,
                segments=tuple(segment.describe() for segment in self._segments),
            )
            unfinished.write_text(said.model_dump_json(), encoding="utf-8")
            unfinished.chmod(PRIVATE_FILE)
            unfinished.replace(self._description)
        except OSError as error:
            self._not_saved(error)
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            return
        self._unsaved = 0
        self._tidy(replaced)

    def _write(self, segment: Segment) -> None:
        self._folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        segment.write(self._folder, self._stem)
        self._written.add(segment.file or "")

    def _tidy(self, replaced: set[str]) -> None:
        """Remove the files that nothing speaks of any more; what another process is about to speak of is new."""
        kept = {segment.file or "" for segment in self._segments}
        gone = (replaced | self._written) - kept
        self._written &= kept
        long_ago = time.time() - _ABANDONED_S
        for path in self._folder.glob(f"{self._stem}-*"):
            with suppress(OSError):
                if path.name in gone or (path.name not in kept and path.stat().st_mtime < long_ago):
                    path.unlink(missing_ok=True)

    def _not_saved(self, error: OSError) -> None:
        _LOG.warning("vector index %s was not saved: %s", self._description, error)
