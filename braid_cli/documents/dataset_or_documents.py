"""Distinguishes datasets and JSON Lines files from documents."""

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
    """Return whether a path is a dataset folder: it has a dataset's file, or does not exist or is not a folder."""
    return not folder.is_dir() or any((folder / name).is_file() for name in STORED)


def is_lines(file: Path) -> bool:
    """Return whether a file is a JSON Lines file of records, entities and relationships, by suffix and first line."""
    if file.suffix.lower() not in _LINE_SUFFIXES:
        return False
    with file.open("rb") as opened:
        first = next((line for line in opened.read(_FIRST_BYTES).splitlines() if line.strip()), b"")
    try:
        row = json.loads(first)
    except (ValueError, RecursionError):
        return True  # its reader reports the malformed line
    return not isinstance(row, dict) or bool(_LINE_FIELDS & row.keys() or {"source", "target"} <= row.keys())
