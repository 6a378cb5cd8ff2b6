"""The manifest of a saved vector graph: a JSON file that lists its segments and the range of rows in them.

Its content is not trusted: it may be damaged, outdated, or of another store.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Annotated, Final, Self

from pydantic import Field, field_validator

from braid.engines.embedded.search.removed_vectors_log import Position
from braid.models import Frozen

if TYPE_CHECKING:
    from pathlib import Path

_MOST_BYTES: Final = 64 * 1024 * 1024
"""Most bytes of a manifest; a segment takes about a hundred, and eleven more for each removed vector."""


class Damaged(ValueError):
    """A file of a saved graph is damaged or another one."""


class SegmentFile(Frozen):
    """A segment's entry in the manifest."""

    file: Annotated[str, Field(min_length=1, max_length=255)]
    crc32: int
    size: Annotated[int, Field(ge=0)]
    """Number of vectors in the file."""
    removed: str = ""
    """Keys of vectors that no row has any more: little-endian integers of 8 bytes, in base64."""


class GraphManifest(Frozen):
    """Tenant, space and rows of a saved graph, and its files."""

    format: int
    store: str
    tenant: int
    space: str
    dimension: int
    generation: Annotated[int, Field(ge=0)]
    position: Position = Position()
    """Up to where the graph followed the log of removed vectors."""
    newest: Annotated[int, Field(ge=0, lt=2**63)]
    """Number of the newest row whose vector is in a segment."""
    segments: tuple[SegmentFile, ...]
    crc32: int | None = None
    """Checksum of the rest; None in the manifest of an older version, which has no position."""

    @field_validator("segments")
    @classmethod
    def _each_once(cls, segments: tuple[SegmentFile, ...]) -> tuple[SegmentFile, ...]:
        if len({segment.file for segment in segments}) != len(segments):
            raise ValueError("two have the same file")
        return segments

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a manifest.

        Raises
        ------
        ValueError
            If the file is not a manifest, or damaged.
        OSError
            If there is no such file, or it cannot be read.
        """
        if path.exists() and not path.is_file():
            raise Damaged("it is no file")
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise Damaged("it is too long")
        found = cls.model_validate_json(content)
        if found.crc32 is None:
            return found.model_copy(update={"position": Position()})
        if found.crc32 != found.checksum():
            raise Damaged("its checksum is another")
        return found

    def content(self) -> bytes:
        """Return the content of its file."""
        return self.model_copy(update={"crc32": self.checksum()}).model_dump_json().encode()

    def checksum(self) -> int:
        """Return the checksum of all but ``crc32``."""
        return zlib.crc32(self.model_dump_json(exclude={"crc32"}).encode())
