"""Readers of CSV, JSON and JSON Lines, and the rows of tables of any format."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import datetime, time
from itertools import chain, islice, takewhile
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
_STATED_DELIMITER = re.compile(r"sep=([,;\t|])\r?\n")
"""A first line in which a program states the delimiter, as Excel reads it."""
_CAPTIONS, _COMPARED_ROWS = 5, 5
"""Most lines above the names of the columns, such as a title and a unit, and rows below them that are looked at."""
_NAME_CHARACTERS = 200
"""Most characters of a column's name, which is repeated in the text of each row."""
_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,17})")
_NUMBER = re.compile(rf"{_WHOLE.pattern}(?:\.\d{{1,15}})?")
"""A number without leading zeros or a plus, which are signs of a code or a telephone number."""
_DATE = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{1,4}(?:[ T]\d{1,2}:\d\d.*)?")
_AMOUNT = re.compile(r"[-+]\d+|[-+]?\d{1,18}(?:[.,' ]\d{3}){0,6}[.,]\d{1,15}")
"""A number with a sign or decimals; whole numbers also name columns, as those of years and days do."""
_FEWEST_ROWS = 3
"""Fewest rows of a table by which it is noticed that none names the columns."""
MOST_ROWS = 1_048_576
"""Rows of a sheet of Excel and of LibreOffice."""
Row = tuple[int, dict[str, str]]
"""A row's number in its file, and its cells by column."""


def read_csv(source: Source) -> Document:
    """Read a table with cells separated by commas, semicolons, tabs or bars; a row names the columns."""
    text = decode(source.content)
    csv.field_size_limit(source.limits.characters)
    stated = _STATED_DELIMITER.match(text)
    delimiter = stated[1] if stated else _delimiter(text, source.suffix)
    try:
        lines = csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True)
        if stated:
            next(lines)
        sections = sections_of_lines(lines, source, first_line=2 if stated else 1)
    except csv.Error as error:
        raise Unreadable(f"is no table: {error}") from None
    return Document(source.stem, "csv", bounded(sections, source.limits))


def _delimiter(text: str, suffix: str) -> str:
    """Return the delimiter with which most rows have as many cells as the first of them that has several.

    Of several delimiters, the one with the fewest lines above that row, then with most cells. Python's ``csv.Sniffer``
    is not used, as its time grows with the fourth power of the number of quotes.
    """
    usual = "\t" if suffix == ".tsv" else ","
    best, found = (0.0, 0, 1), usual
    for delimiter in dict.fromkeys((usual, *_DELIMITERS)):
        sample = io.StringIO(text[:_SAMPLE_CHARACTERS])
        rows = [row for row in csv.reader(sample, delimiter=delimiter, skipinitialspace=True) if row]
        whole = rows[:-1] if len(text) > _SAMPLE_CHARACTERS and len(rows) > 1 else rows
        above = sum(1 for _ in takewhile(lambda row: sum(map(bool, row)) <= 1, whole))
        table = whole[above:]
        if not table or (above and (above > _CAPTIONS or len(table) == 1)):
            continue
        width = len(table[0])
        alike = sum(len(row) == width for row in table)
        given = (alike / len(table), -above, width)
        if given > best and (not above or alike > len(table) - alike):
            best, found = given, delimiter
    return found


def sections_of_lines(
    lines: Iterable[Sequence[object]], source: Source, heading: tuple[str, ...] = (), *, first_line: int = 1
) -> list[Section]:
    """Return the rows of a table as :func:`table_sections` does, below the row that names the columns.

    Lines above that row are headings. Columns beyond those of it are named by their number, and all of them if no row
    names them; with a mapping one certainly does.
    """
    filled = _filled(lines, first_line)
    first = list(islice(filled, _CAPTIONS + 1 + _COMPARED_ROWS))
    above = _captions(first)
    captions = tuple(next(filter(None, cells)) for _, cells in first[:above])
    lacks_names = not source.mapping and _lacks_names([cells for _, cells in first[above:]])
    rows = _rows(chain(first[above:], filled), source.limits, lacks_names=lacks_names)
    return table_sections(rows, source.mapping, (*heading, *captions))


def _filled(lines: Iterable[Sequence[object]], first_line: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of each line that has any."""
    for number, line in enumerate(lines, start=first_line):
        cells = [tidied(_written(cell)).strip() for cell in line]
        if any(cells):
            yield number, cells


def _captions(first: Sequence[tuple[int, Sequence[str]]]) -> int:
    """Return how many of the first lines are above the table: those of one cell, such as a title.

    Of the lines below them, the first has several cells. It is below an empty line, or it has only text where others
    have numbers or dates; else the first line may be the name of the first column, and the others have none.
    """
    several = [place for place, (_, cells) in enumerate(first) if sum(map(bool, cells)) > 1]
    above = several[0] if several else 0
    if not 0 < above <= _CAPTIONS or above + 1 == len(first):
        return 0
    (before, _), (number, names), *rows = first[above - 1 :]
    apart = number - before > 1
    differs = all(map(_is_label, names)) and not all(_is_label(cell) for _, cells in rows for cell in cells)
    return above if apart or differs else 0


def _lacks_names(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first of a table's rows names no columns: a column has a date, or an amount, in each row.

    A date above other cells, as in a rota, is the name of their column. So is an amount, such as a size or share, in a
    row that begins with an empty cell above the names of the rows.
    """
    above_names_of_rows = all(rows) and [bool(row[0]) for row in rows] == [False] + [True] * (len(rows) - 1)
    if len(rows) < _FEWEST_ROWS or above_names_of_rows:
        return False
    columns = zip(*rows, strict=False)
    return any(all(map(kind.fullmatch, column)) for column in columns for kind in (_DATE, _AMOUNT))


def _is_label(cell: str) -> bool:
    """Return whether a cell is text, and neither a number nor a date or time in digits."""
    return not any(map(str.isdigit, cell)) or any(map(str.isalpha, cell))


def _rows(filled: Iterable[tuple[int, Sequence[str]]], limits: ReadingLimits, *, lacks_names: bool) -> Iterator[Row]:
    names: list[str] = []
    characters = 0
    for number, cells in filled:
        if not names and not lacks_names:
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
