"""The files of a saved vector graph: segments, and the manifest that lists them.

They are written under new names, the manifest last, so that a reader sees either the old graph or the new one. If
writing fails, the only consequence is that the next process has to build the graph again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from braid.engines.embedded.search.hnsw_manifest import GraphManifest
from braid.engines.embedded.search.hnsw_segments import Segment
from braid.engines.embedded.search.removed_vectors_log import Position
from braid.engines.embedded.search.row_reads import has_any
from braid.engines.embedded.sqlite_files import PRIVATE_FILE, PRIVATE_FOLDER, remove_files
from braid.engines.embedded.store import VECTORS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from braid.engines.embedded.store import EmbeddedStore

_LOG = logging.getLogger(__name__)
_FORMAT: Final = 2
_READS: Final = 3
"""Attempts to read a saved graph while another process saves it under other names."""
_ABANDONED_S: Final = 600.0
"""Age in seconds beyond which a file that no manifest lists is removed: its writer has died or has replaced it."""


class GraphFiles:
    """The files of the graph of one tenant and space."""

    def __init__(self, store: EmbeddedStore, tenant: int, space: str) -> None:
        self._store = store
        self._tenant = tenant
        self._space = space
        self._written: set[str] = set()
        self._stem = f"{tenant:d}-{hashlib.sha256(space.encode()).hexdigest()[:16]}"
        self.folder = store.folder / VECTORS
        self.manifest = self.folder / f"{self._stem}.json"

    def read(self, dimension: int, held: Sequence[Segment]) -> tuple[GraphManifest, list[Segment]] | None:
        """Return the saved graph of vectors of a dimension; if it is damaged, log that and return None.

        Parameters
        ----------
        held
            Segments of an earlier state; those that are still listed are reused.
        """
        for _ in range(_READS):
            try:
                return self._read(dimension, held)
            except FileNotFoundError:
                continue  # another process may just have saved it under other names
            except (OSError, ValueError, RuntimeError) as error:
                kind = type(error).__name__  # a message may quote the whole file
                _LOG.warning("vector index %s is damaged and is built again: %s", self.manifest, kind)
                return None
        if self.manifest.exists():
            _LOG.warning("vector index %s lacks a file and is built again", self.manifest)
        return None

    def _read(self, dimension: int, held: Sequence[Segment]) -> tuple[GraphManifest, list[Segment]] | None:
        manifest = GraphManifest.read(self.manifest)
        found = (manifest.format, manifest.store, manifest.tenant, manifest.space, manifest.dimension)
        if found != (_FORMAT, self._store.identity, self._tenant, self._space, dimension):
            return None
        known = {segment.file: segment for segment in held}
        segments: list[Segment] = []
        for entry in manifest.segments:
            if entry.file not in known:
                known[entry.file] = Segment.read(self.folder, self._stem, entry, dimension)
            known[entry.file].mark_removed(entry)
            segments.append(known[entry.file])
        return manifest, segments

    def saved_until(self) -> tuple[int, Position]:
        """Return the number of the newest row in the segments of the saved graph, and its position; 0 without one."""
        with suppress(OSError, ValueError):
            manifest = GraphManifest.read(self.manifest)
            return manifest.newest, manifest.position
        return 0, Position()

    def write(
        self, segments: Sequence[Segment], dimension: int, *, generation: int, position: Position, newest: int
    ) -> bool:
        """Write changed segments, then the manifest, and return whether it succeeded; parameters as in the manifest."""
        if self._store.read_only:
            return False
        unfinished = self.folder / f"{self._stem}-{secrets.token_hex(8)}.new"
        replaced: set[str] = set()
        with suppress(OSError, ValueError):
            replaced = {segment.file for segment in GraphManifest.read(self.manifest).segments}
        try:
            for segment in segments:
                self._write_segment(segment, is_done=segment is not segments[-1] or segment.is_full)
            manifest = GraphManifest(
                format=_FORMAT,
                store=self._store.identity,
                tenant=self._tenant,
                space=self._space,
                dimension=dimension,
                generation=generation,
                position=position,
                newest=newest,
                segments=tuple(segment.manifest_entry() for segment in segments),
            )
            with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE), "wb") as file:  # noqa: PTH123 - with its mode
                file.write(manifest.content())
            unfinished.replace(self.manifest)
        except OSError as error:
            self._warn_not_saved(error)
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            return False
        self._remove_unused_files(segments, replaced)
        with self._store.read() as connection:  # a later snapshot than the saver's own
            deleted = not has_any(connection, self._tenant)
        if deleted:  # by another process, which removed the files that existed then
            remove_files(self.folder, f"{self._stem}*")
        return True

    def map_full(self, segment: Segment) -> None:
        """Write a full segment and map it; it stays in memory if that fails."""
        if self._store.read_only:
            return
        try:
            self._write_segment(segment, is_done=True)
        except OSError as error:
            self._warn_not_saved(error)

    def _write_segment(self, segment: Segment, *, is_done: bool) -> None:
        self.folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        segment.write(self.folder, self._stem, is_done=is_done)
        self._written.add(segment.file or "")

    def _remove_unused_files(self, segments: Sequence[Segment], replaced: set[str]) -> None:
        """Remove files that no manifest lists, except recent ones, which another process may be about to list."""
        kept = {segment.file or "" for segment in segments}
        gone = (replaced | self._written) - kept
        self._written &= kept
        long_ago = time.time() - _ABANDONED_S
        for path in self.folder.glob(f"{self._stem}-*"):
            with suppress(OSError):
                if path.name in gone or (path.name not in kept and path.stat().st_mtime < long_ago):
                    path.unlink(missing_ok=True)

    def _warn_not_saved(self, error: OSError) -> None:
        _LOG.warning("vector index %s was not saved: %s", self.manifest, error)
