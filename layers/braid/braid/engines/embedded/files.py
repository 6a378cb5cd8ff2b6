"""The files of an embedded store: private to their owner, and checked for loss before every use.

SQLite notices neither a log that lost its newest commits nor a database that was emptied, and goes on writing to files
that were removed or replaced. So a small file beside the database notes, after each commit, the store's
identity and how many commits it has; and each connection remembers which files it opened and how long they were.
"""

from __future__ import annotations

import logging
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from braid.engines.embedded.failures import explain_file_system
from braid.errors import StoreCorrupt

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping
    from pathlib import Path

_LOG = logging.getLogger(__name__)

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
_OTHERS = 0o077
_FOLDERS = ("vectors", "objects")
_OURS = {*_FOLDERS, "models", "fitted.json", "eval", "audit.jsonl"}
_LINE_BYTES = 128
"""Length of the note: one line, so that it is replaced by a single write."""


class Noted(NamedTuple):
    """What was true of the database after some commit."""

    store: str
    commits: int
    size: int
    """Bytes of the database, which never gets shorter."""


class Opened(NamedTuple):
    """A file as a connection last saw it."""

    inode: int
    size: int


class StoreFiles:
    """The database, SQLite's files beside it, and the note of its commits.

    Parameters
    ----------
    path
        The database.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.note_path = path.with_name(f"{path.name}-commits")
        self._memory = path.with_name(f"{path.name}-shm")
        self._all = (path, path.with_name(f"{path.name}-wal"), self._memory)

    # --- private ------------------------------------------------------------------------------------------------------

    def create(self) -> None:
        """Make the folder and an empty database, for their owner alone; both may be there already.

        Raises
        ------
        StoreError
            If they cannot be made.
        """
        try:
            self.path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE))  # SQLite gives its other files this mode
        except OSError as error:
            raise explain_file_system(error, self.path.parent) from error

    def make_private(self) -> None:
        """Take away from others what an older Braid, or a copy, let them read; warn of what stays open to them."""
        for path in self._private():
            with suppress(FileNotFoundError):
                mode = stat.S_IMODE(path.stat().st_mode)
                if mode & _OTHERS:
                    try:
                        path.chmod(mode & ~_OTHERS)
                    except OSError as error:
                        _LOG.warning("%s can be read by other users of this machine: %s", path, error)

    def _private(self) -> Iterator[Path]:
        yield from (*self._all, self.note_path)
        folder = self.path.parent
        yield from (folder / name for name in _FOLDERS)
        names = {path.name for path in folder.iterdir()}
        if all(name in _OURS or name.startswith(self.path.name) for name in names):
            yield folder  # where there is anything else, the folder may be meant for others too

    # --- lost commits -------------------------------------------------------------------------------------------------

    def noted(self) -> Noted | None:
        """Return what the note says; None when there is none that can be read."""
        with suppress(OSError, ValueError):
            store, commits, size = self.note_path.read_text(encoding="ascii").split()
            return Noted(store, int(commits), int(size))
        return None

    def require_database(self, noted: Noted | None) -> None:
        """Refuse a database that is missing or shorter than it was, before SQLite takes it for a new one.

        Raises
        ------
        StoreCorrupt
            If it is.
        """
        if noted is None:
            return
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            raise self._lost(f"{self.path} is missing", noted) from None
        if size < noted.size:
            raise self._lost(f"{self.path} was cut from {noted.size} to {size} bytes", noted)

    def require_commits(self, noted: Noted | None, store: str, commits: int) -> None:
        """Refuse a database that is another one, or lacks commits that were acknowledged.

        Raises
        ------
        StoreCorrupt
            If it is, or does.
        """
        if noted is None:
            return
        if store != noted.store:
            raise self._lost(f"{self.path} is not the database that was written here", noted)
        if commits < noted.commits:
            lost = noted.commits - commits
            raise self._lost(f"{self.path} lacks its newest {lost} commits, or its log with them", noted)

    def _lost(self, what: str, noted: Noted) -> StoreCorrupt:
        return StoreCorrupt(
            f"{what}; restore a copy of the whole folder, as it was after {noted.commits} commits, "
            f"or remove {self.note_path} to go on with what is there"
        )

    def note(self, store: str, commits: int) -> None:
        """Note a commit that is on the disk; that it cannot be noted costs a later check, and nothing else."""
        try:
            line = f"{store} {commits:d} {self.path.stat().st_size:d}".ljust(_LINE_BYTES - 1) + "\n"
            descriptor = os.open(self.note_path, os.O_WRONLY | os.O_CREAT, PRIVATE_FILE)
            try:
                os.pwrite(descriptor, line.encode("ascii"), 0)
            finally:
                os.close(descriptor)
        except OSError as error:
            _LOG.warning("%s cannot be written: %s", self.note_path, error)

    # --- files that change under an open store ------------------------------------------------------------------------

    def opened(self) -> dict[Path, Opened]:
        """Return which files a connection that was just opened has."""
        found: dict[Path, Opened] = {}
        for path in self._all:
            with suppress(FileNotFoundError):
                status = path.stat()
                found[path] = Opened(status.st_ino, status.st_size)
        return found

    def require_unchanged(self, opened: MutableMapping[Path, Opened]) -> None:
        """Refuse to go on with files that were removed, replaced or cut since they were opened.

        SQLite's shared memory is given its length again when it was cut: whoever touches a missing part of a mapped
        file is killed, and from zeros SQLite makes it anew.

        Raises
        ------
        StoreCorrupt
            If one was.
        """
        for path, before in opened.items():
            status = None
            with suppress(OSError):
                status = path.stat()
            if status is None or status.st_ino != before.inode:
                message = (
                    f"{path} was removed or replaced while it was open; stop this process, put it back, start again"
                )
                raise StoreCorrupt(message)
            if status.st_size < before.size:
                if path != self._memory:
                    message = (
                        f"{path} was cut from {before.size} to {status.st_size} bytes while it was open; "
                        "stop this process, restore a copy of the whole folder, start again"
                    )
                    raise StoreCorrupt(message)
                os.truncate(path, before.size)
            elif status.st_size > before.size:
                opened[path] = Opened(before.inode, status.st_size)
