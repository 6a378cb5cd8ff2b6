"""Events of an ingest of documents, and the estimate of how long it still takes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from braid.ingestion.documents.folder_listing import FoundFile

_BYTES_OF_CHUNK = {".pdf": 8_000, ".docx": 3_000, ".pptx": 8_000, ".xlsx": 700, ".html": 2_000, ".htm": 2_000}
"""Assumed bytes of a file per chunk, by suffix, until files of that suffix were read."""
_BYTES_OF_TEXT = 700
"""The same for any other suffix."""
_PRIOR_CHUNKS = 4
"""Weight of the assumed size, in chunks, relative to the chunks of files that were read."""


@dataclass(frozen=True, slots=True)
class FolderBegun:
    """A folder was listed."""

    name: str
    files: int
    changed: int
    """Files that are to be opened."""
    hidden: int


@dataclass(frozen=True, slots=True)
class FileSkipped:
    """A file, or a folder inside the folder, was skipped; the reason says if its stored chunks are kept."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"skipped: {self.path} {self.reason}"


@dataclass(frozen=True, slots=True)
class EncodingGuessed:
    """A text file was read in an encoding although others are nearly as likely."""

    path: str
    encoding: str

    def __str__(self) -> str:
        return f"{self.path} was read as {self.encoding}, which is a guess; if it reads wrongly, save it as UTF-8"


@dataclass(frozen=True, slots=True)
class Progress:
    """A page of files was written, and stays if the ingest is interrupted."""

    name: str
    path: str
    """The last file of the page."""
    files: int
    """Number of finished files, of those to be opened."""
    all_files: int
    chunks: int
    """Chunks that are done."""
    all_chunks: int
    """Estimate of all of them."""
    seconds: float
    seconds_left: float


@dataclass(frozen=True, slots=True)
class FolderDone:
    """A folder is ingested."""

    name: str
    documents: int = 0
    """Documents of the folder that are stored now."""
    chunks: int = 0
    read: int = 0
    """Documents that were new or had changed."""
    written: int = 0
    """Chunks that were new or had changed."""
    embedded: int = 0
    """Chunks that a model embedded."""
    unchanged: int = 0
    """Files that have not changed, without the skipped ones."""
    removed: int = 0
    """Documents that were removed, because their files are gone."""
    names: int = 0
    """New names that were found in the documents read."""
    mentions: int = 0
    """Mentions of names that were found in them."""
    unmentioned: int = 0
    """Stored mentions that were removed, as the text has changed or names are no longer found."""
    hidden: int = 0
    skipped: tuple[FileSkipped, ...] = ()
    guessed: tuple[EncodingGuessed, ...] = ()
    """Files that were read in an encoding that is uncertain."""
    seconds: float = 0.0
    embed_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RunFailed:
    """A run of a watched folder ended early, for a reason that may pass; the next run goes on from there."""

    reason: str


Event = FolderBegun | FileSkipped | EncodingGuessed | Progress | FolderDone | RunFailed


class Estimate:
    """Estimates the time left, and the chunks of unread files from the chunks of read files of the same suffix."""

    def __init__(self, files: Sequence[FoundFile], seconds: Callable[[], float]) -> None:
        self._seconds, self._begun, self._files = seconds, seconds(), len(files)
        self._left = Counter[str]()
        for file in files:
            self._left[_suffix(file)] += file.size
        self._bytes = Counter({suffix: _assumed(suffix) * _PRIOR_CHUNKS for suffix in self._left})
        self._chunks = Counter(dict.fromkeys(self._left, _PRIOR_CHUNKS))
        self._read_files = self._read_chunks = self._written = 0

    def read(self, file: FoundFile, chunks: int) -> None:
        """Count a file that was read."""
        suffix = _suffix(file)
        self._left[suffix] -= file.size
        self._bytes[suffix] += file.size
        self._chunks[suffix] += chunks
        self._read_files += 1
        self._read_chunks += chunks

    def wrote(self, chunks: int) -> None:
        """Count chunks that were written."""
        self._written += chunks

    def progress(self, name: str, path: str) -> Progress:
        """Return the progress of the ingest."""
        waiting = sum(size * self._chunks[suffix] / self._bytes[suffix] for suffix, size in self._left.items())
        left = round(waiting) + self._read_chunks - self._written
        passed = self._seconds() - self._begun
        return Progress(
            name=name,
            path=path,
            files=self._read_files,
            all_files=self._files,
            chunks=self._written,
            all_chunks=self._written + left,
            seconds=passed,
            seconds_left=passed * left / max(1, self._written),
        )


def _suffix(file: FoundFile) -> str:
    return PurePosixPath(file.path or file.location).suffix.lower()


def _assumed(suffix: str) -> int:
    return _BYTES_OF_CHUNK.get(suffix, _BYTES_OF_TEXT)
