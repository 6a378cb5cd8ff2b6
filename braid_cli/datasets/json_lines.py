"""Reads JSON Lines files; collects all mistakes of a dataset, each with its file and line."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from braid.errors import DatasetError, InvalidRequest
from braid.ingestion.item_parsing import InvalidItem
from braid.ingestion.regular_files import open_regular
from braid.models.enums_and_scalars import printable
from braid.ports.object_store import MAX_LINE_BYTES
from braid.strict_json import NotJson, read_json
from pydantic import ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

MAX_SHOWN = 10
_T = TypeVar("_T")


@dataclass
class Mistakes:
    """Mistakes of one dataset; messages show the first ten."""

    found: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    """Ids of malformed lines, so that references to them are not reported as well."""

    def add(self, place: str, message: str) -> None:
        """Add a mistake with its file and line."""
        # A message may quote the file, which may have control characters.
        self.found.append(printable(f"{place}: {message}"))

    def raise_any(self) -> None:
        """Raise the mistakes, one a line.

        Raises DatasetError if there are any.
        """
        if not self.found:
            return
        raise DatasetError(first_of(self.found))


def first_of(messages: Sequence[str]) -> str:
    """Return the first ten messages, one a line, and the number of the others."""
    more = len(messages) - MAX_SHOWN
    return "\n".join([*messages[:MAX_SHOWN], *([f"and {more} more"] if more > 0 else [])])


def _lines(path: Path, errors: Mistakes) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, raw in enumerate(_raw_lines(path), start=1):
        place = f"{path}:{number}"
        if len(raw) > MAX_LINE_BYTES:
            errors.add(place, f"the line is longer than {MAX_LINE_BYTES:,} bytes")
            continue
        if not raw.strip():
            continue
        try:
            row = read_json(raw.rstrip(b"\r\n").decode("utf-8-sig"))
        except UnicodeDecodeError:
            errors.add(place, "not UTF-8")
        except json.JSONDecodeError as error:
            errors.add(place, f"not JSON: {error.msg.removesuffix(' at')} at column {error.colno}")
        except NotJson as error:
            errors.add(place, f"not JSON: the line {error}")
        else:
            if isinstance(row, dict):
                yield place, row
            else:
                errors.add(place, f"expected an object, found {type(row).__name__}")


def _raw_lines(path: Path) -> Iterator[bytes]:
    """Yield lines; only the beginning of one that is too long."""
    if not path.exists():
        return
    with open_regular(path) as file:
        while raw := file.readline(MAX_LINE_BYTES + 1):
            yield raw
            while len(raw) > MAX_LINE_BYTES and not raw.endswith(b"\n"):
                raw = file.readline(MAX_LINE_BYTES + 1)


def each_line(
    path: Path, parse: Callable[[dict[str, Any]], _T], errors: Mistakes, names: Mapping[str, str] | None = None
) -> Iterator[tuple[str, _T]]:
    """Parse a file line by line; malformed lines are collected and skipped, so that one run reports all mistakes.

    Parameters
    ----------
    path
        File with one JSON object a line; a missing file has no lines.
    parse
        Returns the value of an object, or raises ``ValidationError`` or :class:`InvalidItem`.
    errors
        Collects the mistakes.
    names
        This file's names of the models' fields, where they differ.

    Yields
    ------
    tuple
        File and line, with the parsed value.
    """
    for place, row in _lines(path, errors):
        try:
            parsed = parse(row)
        except ValidationError as error:
            problem = str(InvalidRequest.from_validation(error, names)).removeprefix("request: ")
        except InvalidItem as error:
            problem = str(error)
        else:
            yield place, parsed
            continue
        errors.add(place, problem)
        errors.ids.update(str(row[name]) for name in ("_id", "id") if name in row)


def read_lines(
    path: Path, parse: Callable[[dict[str, Any]], _T], errors: Mistakes, names: Mapping[str, str] | None = None
) -> list[tuple[str, _T]]:
    """Return :func:`each_line` as a list."""
    return list(each_line(path, parse, errors, names))
