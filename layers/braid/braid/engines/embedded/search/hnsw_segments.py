"""Segments of a vector graph, usearch HNSW indexes of bounded size with their files, and the search in them.

Only a segment that vectors were added to is in memory; the others are memory-mapped, so that the memory of a graph does
not grow with its number of vectors. The newest vectors are in no segment yet, but in a *tail* in memory. The content of
files is not trusted: they may be damaged.
"""

from __future__ import annotations

import base64
import os
import secrets
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from braid.engines.embedded.search.hnsw_manifest import Damaged, SegmentFile
from braid.engines.embedded.sqlite_files import PRIVATE_FILE, FileVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Keys: TypeAlias = NDArray[np.uint64]
    Cosines: TypeAlias = NDArray[np.float32]

SIZE: Final = 131_072
"""Vectors of a full segment, 140 MB with 384 dimensions: fewer slow the search of many segments, more take memory."""
CONNECTIVITY: Final = 32
"""Edges per vector. On 5,000 random directions, the hardest case, 50 of 200 proposed: recall .987; with 16, .894."""
EXPANSION_ADD: Final = 128
COSINE_ERROR: Final = 0.001
"""Values are stored with 11 significant bits: each product of two has a relative error of at most 2 × 2**-11."""
EXACT_VECTORS: Final = 65_536
"""Most vectors that a search compares exhaustively: 2.2 ms for 32,768 of 384 dimensions. The result then depends only
on the vectors, whereas edges depend on the order in which vectors were added."""
EXPANSION_ALONE: Final = 128
EXPANSION_EACH: Final = 48
"""Search expansion for a single segment, and for each of several: no segment has the vectors that another misses."""
_LEAST_EACH: Final = 32
NO_KEYS: Final = np.empty(0, dtype=np.uint64)
_SUFFIX: Final = ".usearch"
_CHUNK: Final = 2**20


class Tail:
    """Unit vectors with their keys that are in no segment yet, and are all compared.

    As in a segment, some are *removed*: no row has them any more.
    """

    def __init__(self, dimension: int) -> None:
        self.removed: Keys = NO_KEYS
        self._keys: Keys = NO_KEYS
        self._vectors: NDArray[np.float32] = np.empty((0, dimension), dtype=np.float32)

    def __len__(self) -> int:
        """Return the number of vectors, removed or not."""
        return len(self._keys)

    @property
    def keys(self) -> Keys:
        """The keys of the vectors that are not removed, in the order of adding."""
        return self._keys[_found(self._keys, self.removed, NO_KEYS)]

    @property
    def vectors(self) -> NDArray[np.float32]:
        """The vectors of ``keys``, shape (keys, dimension)."""
        return self._vectors[_found(self._keys, self.removed, NO_KEYS)]

    def contains(self, keys: Keys) -> NDArray[np.bool_]:
        """Return which of the keys the tail has, removed or not, shape (keys,)."""
        return np.isin(keys, self._keys)

    def add(self, keys: Keys, vectors: NDArray[np.float32]) -> None:
        """Add vectors, shape (keys, dimension)."""
        self._keys = np.concatenate((self._keys, keys))
        self._vectors = np.concatenate((self._vectors, vectors))

    def remove(self, keys: Keys) -> None:
        """Mark the ``keys`` that are in the tail as removed."""
        self.removed = np.union1d(self.removed, np.intersect1d(keys, self._keys))

    def restore(self, keys: Keys) -> None:
        """Mark ``keys`` as not removed."""
        self.removed = np.setdiff1d(self.removed, keys)

    def nearest(self, query: NDArray[np.float32], count: int, but: Keys) -> tuple[Keys, Cosines]:
        """Return the keys of the ``count`` nearest vectors and their cosines, without removed ones not in ``but``."""
        kept = _found(self._keys, self.removed, but)
        keys, cosines = self._keys[kept], self._vectors[kept] @ query
        best = np.argsort(-cosines, kind="stable")[:count]
        return keys[best], cosines[best]


class Segment:
    """An HNSW index of unit vectors with their keys, some of which are *removed*: no row has them any more."""

    def __init__(self, dimension: int) -> None:
        self.removed: Keys = NO_KEYS
        self._index = _index(dimension)
        self._is_mapped = False
        self._file: str | None = None  # keeps a reference to the current index, if there is one
        self._crc32 = 0
        self._version: FileVersion | None = None

    @classmethod
    def read(cls, folder: Path, stem: str, entry: SegmentFile, dimension: int) -> Segment:
        """Map a segment from its file.

        Raises Damaged if the file is not the one of the manifest, and OSError if there is no such file.
        """
        name = entry.file
        if not name.startswith(f"{stem}-") or "/" in name or os.sep in name:
            raise Damaged(f"{name!r} is no file of this graph")
        path = folder / name
        version = FileVersion.of(path)
        # usearch does not validate what it reads, so a damaged file must not reach it.
        if _checksum(path) != entry.crc32:
            raise Damaged(name)
        segment = cls(dimension)
        segment._file, segment._crc32, segment._version, segment._is_mapped = name, entry.crc32, version, True
        _open(segment._index.view, path)
        if (segment.dimension, len(segment)) != (dimension, entry.size):
            raise Damaged(f"{name} holds other vectors than were described")
        return segment

    def __len__(self) -> int:
        """Return the number of vectors, removed or not."""
        return len(self._index)

    @property
    def is_full(self) -> bool:
        """Whether no vector is added to it any more."""
        return len(self) >= SIZE

    @property
    def dimension(self) -> int:
        """Length of the vectors."""
        return int(self._index.ndim)

    @property
    def file(self) -> str | None:
        """Name of the file with the segment's current content; None when it was changed since it was written."""
        return self._file

    def is_changed(self, folder: Path) -> bool:
        """Return whether the file that the segment is mapped from was truncated or overwritten.

        Reading it would then end the process: usearch follows edges without checking them.
        """
        if not self._is_mapped or self._file is None or self._version is None:
            return False
        return self._version.is_changed(folder / self._file)

    @property
    def keys(self) -> Keys:
        """The keys of the vectors that are not removed, in no particular order."""
        keys = np.asarray(self._index.keys, dtype=np.uint64)
        return keys[_found(keys, self.removed, NO_KEYS)]

    def contains(self, keys: Keys) -> NDArray[np.bool_]:
        """Return which of the keys the segment has, removed or not, shape (keys,)."""
        return np.asarray(self._index.contains(keys), dtype=np.bool_)

    def remove(self, keys: Keys) -> None:
        """Mark the ``keys`` that the segment has as removed."""
        self.removed = np.union1d(self.removed, keys[self.contains(keys)])

    def mark_removed(self, entry: SegmentFile) -> None:
        """Mark exactly the vectors as removed that the manifest lists as removed."""
        self.removed = NO_KEYS
        self.remove(np.frombuffer(base64.b64decode(entry.removed, validate=True), dtype="<u8"))

    def restore(self, keys: Keys) -> None:
        """Mark ``keys`` as not removed."""
        if len(self.removed):
            self.removed = np.setdiff1d(self.removed, keys)

    def add(self, keys: Keys, vectors: NDArray[np.float32]) -> None:
        """Add vectors, shape (keys, dimension), at most as many as fit into the segment, which is then in memory."""
        if self._is_mapped:
            self._index, self._is_mapped = self._index.copy(), False
        # One thread: the same vectors in the same order give the same graph.
        self._index.add(keys, vectors, threads=1)
        self._file = None

    def nearest(
        self, query: NDArray[np.float32], count: int, expansion: int | None, but: Keys
    ) -> tuple[Keys, Cosines, float]:
        """Search the ``count`` nearest vectors, approximately.

        Returns
        -------
        keys, cosines
            Of vectors that are not removed or are in ``but``, nearest first.
        least
            The last cosine, also of a removed one.

        Parameters
        ----------
        expansion
            Neighbours looked at; None compares all vectors, and finds the nearest exactly.
        """
        if expansion is not None:
            self._index.expansion_search = expansion
        found = self._index.search(query, min(count, len(self)), threads=1, exact=expansion is None)
        cosines = 1.0 - found.distances
        kept = _found(found.keys, self.removed, but)
        return found.keys[kept], cosines[kept], float(cosines[-1])

    def write(self, folder: Path, stem: str, *, is_done: bool) -> None:
        """Write the segment to a new file unless one has its content, and map it if nothing will be added to it.

        Raises OSError if it cannot be written; the segment then stays in memory.
        """
        if self._file and (folder / self._file).exists():
            return
        name = f"{stem}-{secrets.token_hex(8)}{_SUFFIX}"
        unfinished = folder / f"{name}.new"
        index = self._index
        try:
            _write(index, unfinished)
            unfinished.chmod(PRIVATE_FILE)
            version, checksum = FileVersion.of(unfinished), _checksum(unfinished)
            if is_done:
                index = _index(self.dimension)
                _open(index.view, unfinished)
            unfinished.replace(folder / name)
        except (OSError, Damaged) as error:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise OSError(str(error)) from error
        self._file, self._crc32, self._version, self._index = name, checksum, version, index
        self._is_mapped |= is_done  # one that was read stays mapped, even if its file was removed

    def manifest_entry(self) -> SegmentFile:
        """Return the manifest's entry for a segment that was written."""
        removed = base64.b64encode(self.removed.astype("<u8").tobytes()).decode()
        return SegmentFile(file=self._file or "", crc32=self._crc32, size=len(self), removed=removed)


def _found(keys: Keys, removed: Keys, but: Keys) -> NDArray[np.bool_] | slice:
    """Return which keys count as found: not removed, or in ``but``."""
    return ~np.isin(keys, np.setdiff1d(removed, but)) if len(removed) else slice(None)


def is_exact(segments: Sequence[Segment]) -> bool:
    """Return whether a search compares all vectors of the segments."""
    return sum(map(len, segments)) <= EXACT_VECTORS


def nearest(
    segments: Sequence[Segment], tail: Tail, query: NDArray[np.float32], count: int, but: Keys = NO_KEYS
) -> tuple[Keys, Cosines]:
    """Return the keys of about the ``count`` nearest vectors of the segments and the tail, nearest first.

    Removed vectors are left out, except those in ``but``.

    Up to :data:`EXACT_VECTORS` vectors, the result is exact by the graph's cosines. Beyond, each segment is first asked
    for its share. A segment whose hits are all among the best, or removed, is asked again for twice as many.
    """
    if is_exact(segments):
        expansion, share = None, count
    elif len(segments) == 1:
        expansion, share = EXPANSION_ALONE, count
    else:
        expansion, share = EXPANSION_EACH, max(_LEAST_EACH, 2 * count // len(segments))
    rest = tail.nearest(query, count, but)
    found: dict[int, tuple[Keys, Cosines, float]] = {}
    asked = [place for place, segment in enumerate(segments) if len(segment)]
    while True:
        for place in asked:
            found[place] = segments[place].nearest(query, share, expansion, but)
        keys = np.concatenate([rest[0], *(one[0] for one in found.values())])
        cosines = np.concatenate([rest[1], *(one[1] for one in found.values())])
        best = np.argsort(-cosines, kind="stable")[:count]
        last = cosines[best[-1]] if len(best) == count else -np.inf
        asked = [
            place
            for place, (own, _, least) in found.items()
            if len(own) < count and share < len(segments[place]) and least > last
        ]
        if not asked:
            return keys[best], cosines[best]
        share *= 2


def _index(dimension: int) -> Any:  # noqa: ANN401 - usearch is imported only where vectors are
    # usearch's wheel has its own C++ library: if ONNX Runtime is loaded after it, the process crashes.
    with suppress(ImportError):
        import onnxruntime  # noqa: F401
    from usearch.index import Index

    return Index(
        ndim=dimension,
        metric="ip",
        dtype="f16",
        connectivity=CONNECTIVITY,
        expansion_add=EXPANSION_ADD,
    )


def _open(read: Callable[[str], None], path: Path) -> None:
    try:
        read(str(path))
    except RuntimeError as error:
        if not path.exists():  # removed by another process a moment ago
            raise FileNotFoundError(path) from error
        raise Damaged(str(error)) from error


def _write(index: Any, path: Path) -> None:  # noqa: ANN401 - as above
    try:
        index.save(str(path))
    except RuntimeError as error:
        raise OSError(str(error)) from error
    # usearch does not report the last bytes that a full disk refuses.
    if path.stat().st_size != index.serialized_length:
        raise OSError(f"{path} could not be written whole")


def _checksum(path: Path) -> int:
    """Return the CRC-32 of a file, read in chunks."""
    if path.exists() and not path.is_file():
        raise Damaged(f"{path.name} is no file")
    checksum = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            checksum = zlib.crc32(chunk, checksum)
    return checksum
