"""The file that describes a saved vector graph, read as damaged files have to be: it may hold anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, field_validator

from braid.engines.embedded.search.segments import Damaged, SegmentFile
from braid.models import Frozen

if TYPE_CHECKING:
    from pathlib import Path

_MOST_BYTES = 16 * 1024 * 1024
"""Most that is read of a description, of which a segment has about a hundred bytes."""


class Description(Frozen):
    """Whose graph was saved, what it follows, and in which files it is."""

    format: int
    store: str
    tenant: int
    space: str
    dimension: int
    generation: Annotated[int, Field(ge=0)]
    newest: Annotated[int, Field(ge=0, lt=2**63)]
    segments: tuple[SegmentFile, ...]

    @field_validator("segments")
    @classmethod
    def _each_once(cls, segments: tuple[SegmentFile, ...]) -> tuple[SegmentFile, ...]:
        if len({segment.file for segment in segments}) != len(segments):
            message = "two have the same file"
            raise ValueError(message)
        return segments

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return what a file describes.

        Raises
        ------
        ValueError
            If it describes nothing, whatever it holds instead.
        OSError
            If there is no such file, or it cannot be read.
        """
        if path.exists() and not path.is_file():
            message = "it is no file"
            raise Damaged(message)
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            message = "it is too long"
            raise Damaged(message)
        return cls.model_validate_json(content)
