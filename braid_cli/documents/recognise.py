"""Tells datasets and files of lines from documents."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from braid_cli.datasets.streaming import STORED

if TYPE_CHECKING:
    from pathlib import Path

_LINE_SUFFIXES = {".jsonl", ".ndjson"}
_LINE_FIELDS = {"_id", "id", "record", "entity", "relationship"}
_FIRST_BYTES = 1024 * 1024


def is_dataset(folder: Path) -> bool:
    """Tell whether a folder is a dataset: it holds one of the files that only datasets have, or is not there."""
    return not folder.is_dir() or any((folder / name).is_file() for name in STORED)


def is_lines(file: Path) -> bool:
    """Tell whether a file is one of records, entities and relationships: by its suffix and its first line."""
    if file.suffix.lower() not in _LINE_SUFFIXES:
        return False
    with file.open("rb") as opened:
        first = next((line for line in opened.read(_FIRST_BYTES).splitlines() if line.strip()), b"")
    try:
        row = json.loads(first)
    except (ValueError, RecursionError):
        return True  # whose reader names the line that is wrong
    return not isinstance(row, dict) or bool(_LINE_FIELDS & row.keys() or {"source", "target"} <= row.keys())
