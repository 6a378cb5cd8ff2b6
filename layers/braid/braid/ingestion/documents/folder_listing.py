"""Lists the files of a folder that may be documents, and those that are refused without being opened."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from braid.ingestion.documents.metadata_files import SUFFIX, document_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_LEFT_OUT = {"node_modules", "__pycache__", "site-packages", "thumbs.db", "desktop.ini"}
_OPENED_BY_OFFICE = "~$"
"""Begins the name of a file that Word, Excel or PowerPoint keeps beside one that is open."""
_DEPTH = 64


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A regular file."""

    path: str
    """Relative to the folder, with slashes; empty if the file itself was named."""
    location: str
    """Path by which it is opened; none of its folders is a link."""
    size: int
    modified_ns: int
    beside: str = ""
    """Size and time of its metadata file; empty if there is none."""

    def options(self, options_hash: str) -> str:
        """Return on what its chunks depend, besides its content: the hash of an ingest's options, and that file."""
        return f"{options_hash}/{self.beside}" if self.beside else options_hash


@dataclass
class FoundFiles:
    """The files of a folder, and those that are not read.

    Attributes
    ----------
    files
        Regular files, by their paths in the folder, in order; without metadata files.
    refused
        Reasons why nothing is read, by path: links that lead out of the folder or nowhere, folders that are too deep or
        cannot be listed, files that are not regular or cannot be opened, metadata files without a document.
    unlisted
        Folders that cannot be listed, and files whose status cannot be read.
    hidden
        Number of files and folders left out because their names begin with a dot, or are those of a package manager, of
        Windows, or of a document that is open.
    """

    files: dict[str, FoundFile] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    unlisted: list[str] = field(default_factory=list)
    hidden: int = 0

    def may_hold(self, path: str) -> bool:
        """Return whether a path may exist although it was not found, as it, or a folder above it, could not be read."""
        return any(path == unlisted or path.startswith(f"{unlisted}/") for unlisted in self.unlisted)


def find(root: Path) -> FoundFiles:
    """Return the files of a folder and of the folders in it, or a single file.

    A link into the folder is skipped, as its target is read itself; one that leads out of it is refused.

    Raises OSError if there is nothing at the path, or the folder cannot be listed.
    """
    found = FoundFiles()
    if root.is_file():
        status = root.stat()
        location = os.path.join(os.path.realpath(root.parent), root.name)  # noqa: PTH118 - a text, as the others
        if document := document_of(root.name):
            found.refused[""] = f"is the metadata of {document!r}, and no document; ingest that"
        else:
            found.files[""] = FoundFile("", location, status.st_size, status.st_mtime_ns, _version_beside(location))
        return found
    inside = Path(os.path.realpath(root))
    entries = list(_entries(str(inside)))
    waiting = [("", entries)]
    while waiting:
        folder, entries = waiting.pop()
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.name.startswith((".", _OPENED_BY_OFFICE)) or entry.name.lower() in _LEFT_OUT:
                found.hidden += 1
            elif entry.is_symlink():
                _refuse_link(path, entry, inside, found)
            elif entry.is_dir(follow_symlinks=False):
                if path.count("/") >= _DEPTH:
                    found.refused[path] = f"is more than {_DEPTH} folders deep"
                    continue
                try:
                    waiting.append((path, list(_entries(entry.path))))
                except OSError as error:
                    found.refused[path] = f"cannot be listed: {error.strerror}"
                    found.unlisted.append(path)
            else:
                _add(path, entry, found)
    _leave_out_metadata_files(found)
    found.files = dict(sorted(found.files.items()))
    return found


def _leave_out_metadata_files(found: FoundFiles) -> None:
    """Remove metadata files from what was found: they are read, or refused, with their documents."""
    for path in [*found.files, *found.refused]:
        if (document := document_of(path)) is not None:
            found.files.pop(path, None)
            found.refused.pop(path, None)
            if document not in found.files and document not in found.refused:
                name = document.rsplit("/", 1)[-1]
                found.refused[path] = f"is the metadata of {name!r}, which is not among the files"


def _version_beside(location: str) -> str:
    """Return the size and time of a document's metadata file; empty if there is none."""
    try:
        status = os.lstat(location + SUFFIX)
    except OSError:
        return ""
    return f"{status.st_size}-{status.st_mtime_ns}"


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from entries


def _refuse_link(path: str, entry: os.DirEntry[str], inside: Path, found: FoundFiles) -> None:
    target = os.path.realpath(entry.path)
    if not Path(target).is_relative_to(inside):
        found.refused[path] = "is a link that leads out of the folder"
    elif not os.path.exists(target):  # noqa: PTH110 - the one of pathlib raises where a name is too long
        found.refused[path] = "is a link that leads nowhere"
    # The target of a link into the folder is read itself.


def _add(path: str, entry: os.DirEntry[str], found: FoundFiles) -> None:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError as error:
        found.refused[path] = f"cannot be opened: {error.strerror}"
        found.unlisted.append(path)
        return
    if stat.S_ISREG(status.st_mode):
        found.files[path] = FoundFile(path, entry.path, status.st_size, status.st_mtime_ns, _version_beside(entry.path))
    else:
        found.refused[path] = "is no regular file"
