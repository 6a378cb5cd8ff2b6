"""Readers of CSV, JSON and JSON Lines, and the rows of tables of any format."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import datetime, time
from typing import TYPE_CHECKING, Any

from braid.ingestion.documents.document import Document, Section, Unreadable, bounded
from braid.ingestion.documents.readers.text import decode, one_line, tidied

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from braid.ingestion.documents.document import Plain, ReadingLimits, Source

_OWN = ("title", "text", "timestamp", "valid_at", "invalid_at")
"""Roles of a mapped column, besides keys of metadata."""
_DEPTH = 32
_DELIMITERS, _SAMPLE_CHARACTERS = ",;\t|", 8_192
_NAME_CHARACTERS = 200
"""Most characters of a column's name, which is repeated in the text of each row."""
_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,17})")
_NUMBER = re.compile(rf"{_WHOLE.pattern}(?:\.\d{{1,15}})?")
"""A number without leading zeros or a plus, which are signs of a code or a telephone number."""
Row = tuple[int, dict[str, str]]
"""A row's number in its file, and its cells by column."""


def read_csv(source: Source) -> Document:
    """Read a table with cells separated by commas, semicolons, tabs or bars; its first row names the columns."""
    text = decode(source.content)
    csv.field_size_limit(source.limits.characters)
    try:
        lines = csv.reader(io.StringIO(text), delimiter=_delimiter(text, source.suffix), skipinitialspace=True)
        rows = list(rows_of(lines, source.limits))
    except csv.Error as error:
        raise Unreadable(f"is no table: {error}") from None
    sections = table_sections(rows, source.mapping)
    return Document(source.stem, "csv", bounded(sections, source.limits))


def _delimiter(text: str, suffix: str) -> str:
    """Return the delimiter with which most rows have as many cells as the first; of several, the one with most cells.

    Python's ``csv.Sniffer`` is not used, as its time grows with the fourth power of the number of quotes.
    """
    usual = "\t" if suffix == ".tsv" else ","
    best, found = (0.0, 1), usual
    for delimiter in dict.fromkeys((usual, *_DELIMITERS)):
        sample = io.StringIO(text[:_SAMPLE_CHARACTERS])
        rows = [row for row in csv.reader(sample, delimiter=delimiter, skipinitialspace=True) if row]
        whole = rows[:-1] if len(text) > _SAMPLE_CHARACTERS and len(rows) > 1 else rows
        if not whole or len(whole[0]) == 1:
            continue
        width = len(whole[0])
        if (given := (sum(len(row) == width for row in whole) / len(whole), width)) > best:
            best, found = given, delimiter
    return found


def rows_of(lines: Iterable[Sequence[object]], limits: ReadingLimits) -> Iterator[Row]:
    """Yield the rows that are not empty, after the first of them, whose cells are the names of the columns.

    Columns beyond those of the first row are named by their number.
    """
    names: list[str] = []
    characters = 0
    for number, line in enumerate(lines, start=1):
        cells = [tidied(_written(cell)).strip() for cell in line]
        if not any(cells):
            continue
        if not names:
            names = _distinct(cells)
            continue
        if any(further := cells[len(names) :]):
            names += _distinct([""] * len(further), names)
        row = {name: cell for name, cell in zip(names, cells, strict=False) if cell}
        characters += sum(len(name) + len(cell) for name, cell in row.items())
        if characters > limits.characters:
            raise Unreadable(f"holds more than {limits.characters:,} characters, names of columns included; split it")
        yield number, row


def _written(cell: object) -> str:
    """Return a cell as a spreadsheet shows it: a day without a time of day, a number of 15 digits at most."""
    if isinstance(cell, datetime) and cell.time() == time.min:
        return cell.date().isoformat()
    if isinstance(cell, float):
        return f"{cell:.15g}"
    return "" if cell is None else str(cell)


def _distinct(cells: Sequence[str], before: Sequence[str] = ()) -> list[str]:
    """Return distinct names of columns after those before: long ones are cut, empty and repeated ones numbered."""
    names = dict.fromkeys(before)
    for number, cell in enumerate(cells, start=len(before) + 1):
        name = one_line(cell)[:_NAME_CHARACTERS] or f"column {number}"
        while name in names:
            name = f"{name} {number}"
        names[name] = None
    return list(names)[len(before) :]


def table_sections(rows: Iterable[Row], mapping: Mapping[str, str], heading: tuple[str, ...] = ()) -> list[Section]:
    """Return the rows as one section of lines ``column: value``, or, with a mapping, one section per row.

    Raises Unreadable if the mapping names a column that no row has.
    """
    rows = list(rows)
    if not mapping:
        lines = [_row_text(cells) for _, cells in rows]
        return [Section("\n".join(lines), heading, line=rows[0][0], rows=True)] if rows else []
    columns = dict.fromkeys(name for _, cells in rows for name in cells)
    for field, column in mapping.items():
        if rows and column not in columns:
            known = ", ".join(list(columns)[:12])
            raise Unreadable(f"has no column {column!r} for {field}; it has {known}")
    numbers = {name for name in columns if all(_NUMBER.fullmatch(cells[name]) for _, cells in rows if name in cells)}
    return [_mapped(number, cells, mapping, heading, numbers) for number, cells in rows]


def _row_text(cells: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {one_line(value)}" for name, value in cells.items())


def _mapped(
    number: int,
    cells: Mapping[str, str],
    mapping: Mapping[str, str],
    heading: tuple[str, ...],
    numbers: Container[str],
) -> Section:
    taken = {mapping[name] for name in _OWN if name in mapping}
    rest = {name: value for name, value in cells.items() if name not in taken}
    text = cells.get(mapping["text"], "") if "text" in mapping else _row_text(rest)
    title = one_line(cells.get(mapping["title"], "")) if "title" in mapping else ""
    named = {name: column for name, column in mapping.items() if name not in _OWN}
    columns = {**{name: name for name in rest if name not in named.values()}, **named}
    metadata: dict[str, Plain] = {
        name: _number(cells[column]) if column in numbers else cells[column]
        for name, column in columns.items()
        if column in cells
    }
    return Section(
        text or title,
        (*heading, title) if title else heading,
        line=number,
        whole=True,
        timestamp=cells.get(mapping.get("timestamp", "")),
        valid_at=cells.get(mapping.get("valid_at", "")),
        invalid_at=cells.get(mapping.get("invalid_at", "")),
        metadata=metadata,
    )


def _number(text: str) -> int | float:
    return int(text) if _WHOLE.fullmatch(text) else float(text)


def _parsed(text: str, place: str = "") -> Any:  # noqa: ANN401 - any JSON
    try:
        return json.loads(text)
    except RecursionError:
        raise Unreadable(f"{place}is nested too deeply") from None
    except ValueError as error:
        raise Unreadable(f"{place}is not JSON: {error}") from None


def read_json(source: Source) -> Document:
    """Read JSON: a list of objects as a table, an object by its keys."""
    value = _parsed(decode(source.content))
    if isinstance(value, list):
        sections = table_sections(_numbered(value), source.mapping)
    elif isinstance(value, dict):
        sections = [Section("\n".join(_leaves(part)), (one_line(str(key)),), rows=True) for key, part in value.items()]
    else:
        sections = [Section(str(value))]
    return Document(source.stem, "json", bounded(sections, source.limits))


def read_json_lines(source: Source) -> Document:
    """Read JSON Lines as a table with one row a line."""
    lines = decode(source.content).split("\n")
    values = [(number, _parsed(line, f"line {number} ")) for number, line in enumerate(lines, start=1) if line.strip()]
    rows = [(number, _cells(value)) for number, value in values]
    return Document(source.stem, "jsonl", bounded(table_sections(rows, source.mapping), source.limits))


def _numbered(values: list[Any]) -> list[Row]:
    return [(number, _cells(value)) for number, value in enumerate(values, start=1)]


def _cells(value: object) -> dict[str, str]:
    """Return the leaves of a value by their paths."""
    if not isinstance(value, dict):
        return {"value": "; ".join(_leaves(value))}
    return {tidied(str(key)): cell for key, part in value.items() if (cell := "; ".join(_leaves(part)))}


def _leaves(value: object, depth: int = 0) -> Iterator[str]:
    """Yield the plain values inside of a value, with the keys that lead to them."""
    if depth > _DEPTH:
        raise Unreadable(f"is nested more than {_DEPTH} levels deep")
    if isinstance(value, dict):
        for key, part in value.items():
            for leaf in _leaves(part, depth + 1):
                yield f"{key}: {leaf}"
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part, depth + 1)
    elif isinstance(value, bool):
        yield str(value).lower()
    elif value is not None and value != "":
        yield tidied(str(value)).strip()
