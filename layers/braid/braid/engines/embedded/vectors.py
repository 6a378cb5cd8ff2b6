"""One HNSW graph a tenant and embedding space, kept in step with the rows and saved beside the database.

The rows are the truth: a graph only proposes vectors by key, whose rows are then looked up and scored as stored. A
graph that is missing, damaged or another store's is built again from the rows, and one that is behind catches up with
the numbers written since.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from braid.engines.embedded.generations import Generation
from braid.engines.embedded.store import VECTORS

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray
    from usearch.index import Index

    from braid.engines.embedded.store import EmbeddedStore

_LOG = logging.getLogger(__name__)

CONNECTIVITY = 32
"""Edges a vector. On 5,000 random directions, the hardest case, 50 of 200 proposed: recall .987; with 16, .894."""
EXPANSION_ADD = 128
EXPANSION_SEARCH = 128
COSINE_ERROR = 0.001
"""A graph keeps 11 significant bits: of two unit vectors each product is off by at most 2 × 2**-11 of itself."""
DEAD_SHARE = 0.2
"""Share of removed vectors at which a graph is built again: removed ones still cost memory and reachability."""
_CHUNK = 2**20
_BATCH = 4_096
_FORMAT = 1
_MIN_UNSAVED = 256
_UNSAVED_SHARE = 0.05


class Proposed(NamedTuple):
    """What a graph proposes."""

    keys: list[int]
    cosines: list[float]
    """Within ``COSINE_ERROR`` of those of the stored vectors."""
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
        self._index: Any = None  # an Index, once asked
        self._generation = -1
        self._newest = 0
        self._removed = 0
        self._unsaved = 0
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
        with self._lock:
            if not self._catch_up(connection, len(query)):
                return None
            size = len(self._index)
            if not size:
                return Proposed([], [], 0)
            found = self._index.search(query, min(count, size), threads=1)
            return Proposed(found.keys.tolist(), (1.0 - found.distances).tolist(), size)

    def bring_up_to_date(self, connection: sqlite3.Connection, dimension: int) -> None:
        """Catch up with the rows and save what is not saved yet."""
        with self._lock:
            if self._catch_up(connection, dimension) and self._unsaved:
                self._save()

    # --- following the rows -----------------------------------------------------------------------------------------

    def _catch_up(self, connection: sqlite3.Connection, dimension: int) -> bool:
        """Follow the rows to the moment that the connection sees, False when the graph is beyond it."""
        generation = Generation.RECORDS.read(connection, self._tenant)
        if self._index is None:
            self._load(dimension)
        if self._index is None or self._index.ndim != dimension:
            self._start_again(dimension)
        if generation <= self._generation:
            return generation == self._generation
        self._add_since(connection, self._newest)
        live = connection.execute(
            "SELECT count(DISTINCT key) FROM vectors WHERE space = ? AND tenant = ?", (self._space, self._tenant)
        ).fetchone()[0]
        if live != len(self._index):
            self._remove_dead(connection, dimension)
        self._generation = generation
        if self._unsaved >= max(_MIN_UNSAVED, int(_UNSAVED_SHARE * len(self._index))):
            self._save()
        return True

    @staticmethod
    def _new(dimension: int) -> Index:
        from usearch.index import Index

        return Index(
            ndim=dimension,
            metric="ip",
            dtype="f16",
            connectivity=CONNECTIVITY,
            expansion_add=EXPANSION_ADD,
            expansion_search=EXPANSION_SEARCH,
        )

    def _start_again(self, dimension: int) -> None:
        self._index = self._new(dimension)
        self._generation = -1
        self._newest = self._removed = self._unsaved = 0

    def _add_since(self, connection: sqlite3.Connection, number: int) -> None:
        import numpy as np

        rows = connection.execute(
            "SELECT number, key, vector FROM vectors WHERE space = ? AND tenant = ? AND number > ? ORDER BY number",
            (self._space, self._tenant, number),
        )
        while batch := rows.fetchmany(_BATCH):
            keys, first = np.unique(np.array([row[1] for row in batch], dtype=np.uint64), return_index=True)
            new = ~np.asarray(self._index.contains(keys), dtype=np.bool_)
            places = np.sort(first[new])
            if len(places):
                values = np.frombuffer(b"".join(batch[place][2] for place in places), dtype="<f4")
                # One thread: the same rows in the same order make the same graph.
                self._index.add(
                    np.array([batch[place][1] for place in places], dtype=np.uint64),
                    values.reshape(len(places), -1),
                    threads=1,
                )
            self._newest = int(batch[-1][0])
            self._unsaved += len(places)

    def _remove_dead(self, connection: sqlite3.Connection, dimension: int) -> None:
        import numpy as np

        live = [
            row[0]
            for row in connection.execute(
                "SELECT DISTINCT key FROM vectors WHERE space = ? AND tenant = ?", (self._space, self._tenant)
            )
        ]
        held = np.asarray(self._index.keys, dtype=np.uint64)
        dead = np.setdiff1d(held, np.array(live, dtype=np.uint64))
        missing = len(live) - (len(held) - len(dead))
        if missing > 0 or self._removed + len(dead) > DEAD_SHARE * len(held):
            self._start_again(dimension)
            self._add_since(connection, 0)
            return
        if len(dead):
            self._index.remove(dead, threads=1)
            self._removed += len(dead)
            self._unsaved += len(dead)

    # --- the file ---------------------------------------------------------------------------------------------------

    @property
    def _description(self) -> Path:
        return self._folder / f"{self._stem}.json"

    def _load(self, dimension: int) -> None:
        """Read the saved graph if there is one that fits: it is a copy, and is made again."""
        try:
            said = json.loads(self._description.read_text(encoding="utf-8"))
            expected = (_FORMAT, self._store.identity, self._tenant, self._space, dimension)
            found = tuple(said[name] for name in ("format", "store", "tenant", "space", "dimension"))
            if found != expected:
                return
            file = self._folder / str(said["file"])
            # usearch believes what it reads, so that a damaged file must not reach it.
            if _checksum(file) != said["crc32"]:
                _LOG.warning("vector index %s is damaged and is built again", self._description)
                return
            generation, newest, removed = (int(said[name]) for name in ("generation", "newest", "removed"))
            index = self._new(dimension)
            index.load(str(file))
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
            _LOG.warning("vector index %s cannot be read and is built again: %s", self._description, error)
            return
        self._index = index
        self._generation, self._newest, self._removed, self._unsaved = generation, newest, removed, 0

    def _save(self) -> None:
        """Write the graph under a new name, then point the description at it: a reader sees the old or the new.

        A disk that is full or cannot be written costs the next process the time to build the graph, nothing else.
        """
        if self._store.read_only:
            return
        # To memory first: writing to a full disk by itself, usearch says that all went well.
        content = bytes(self._index.save())
        name = f"{self._stem}-{os.getpid()}-{self._generation}.usearch"
        said = {
            "format": _FORMAT,
            "store": self._store.identity,
            "tenant": self._tenant,
            "space": self._space,
            "dimension": int(self._index.ndim),
            "file": name,
            "crc32": zlib.crc32(content),
            "generation": self._generation,
            "newest": self._newest,
            "removed": self._removed,
        }
        written = [self._folder / f"{name}.new", self._description.with_suffix(f".{os.getpid()}.new")]
        try:
            self._folder.mkdir(exist_ok=True)
            written[0].write_bytes(content)
            written[0].replace(self._folder / name)
            written[1].write_text(json.dumps(said), encoding="utf-8")
            written[1].replace(self._description)
        except OSError as error:
            _LOG.warning("vector index %s was not saved: %s", self._description, error)
            for path in written:
                with suppress(OSError):
                    path.unlink(missing_ok=True)
            return
        self._unsaved = 0
        for other in self._folder.glob(f"{self._stem}-*"):
            if other.name != name:
                with suppress(OSError):
                    other.unlink(missing_ok=True)


def _checksum(path: Path) -> int:
    """Return the CRC-32 of a file, which may be larger than what ought to be in memory twice."""
    checksum = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            checksum = zlib.crc32(chunk, checksum)
    return checksum
