"""The fenced blocks of the documentation, and the cells of its notebook, as tests read them.

A fence says the language and, after it, what the block is besides: the name of a file that a reader writes it to, or
`output`, which the block before prints. A comment before the fence, which no page shows, says why tests do not run it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted(path for pattern in ("README.md", "docs/*.md", "docs/*.ipynb") for path in ROOT.glob(pattern))
OUTPUT = "output"
_BLOCK = re.compile(
    r"(?ms)^(?:<!-- not run: (?P<reason>[^\n]+?) -->\n)?```(?P<language>\w*) ?(?P<name>[^\n]*)\n(?P<text>.*?)^```$"
)


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    place: str
    language: str
    name: str
    """Of the file that it is, or `output`."""
    text: str
    reason: str
    """Why it is not run; empty if it is."""


def blocks(document: Path) -> list[Block]:
    """Return the blocks of a document in their order; each cell that prints is followed by what it printed."""
    if document.suffix == ".ipynb":
        cells = json.loads(document.read_text(encoding="utf-8"))["cells"]
        return [block for cell in cells if cell["cell_type"] == "code" for block in _of_cell(document.name, cell)]
    text = document.read_text(encoding="utf-8")
    return [
        Block(
            f"{document.relative_to(ROOT)}:{text.count(chr(10), 0, found.start('language')) + 1}",
            found["language"],
            found["name"],
            found["text"],
            found["reason"] or "",
        )
        for found in _BLOCK.finditer(text)
    ]


def _of_cell(name: str, cell: dict[str, Any]) -> Iterator[Block]:
    source = "".join(cell["source"])
    magic, _, rest = source.partition("\n")
    in_shell = magic == "%%bash"
    reason = cell["metadata"].get("braid", {}).get("not run", "")
    place = f"{name}:{cell['id']}"
    yield Block(place, "sh" if in_shell else "python", "", rest if in_shell else source, reason)
    for output in cell["outputs"]:
        yield Block(place, "text", OUTPUT, "".join(output["text"]), "")


def differences(shown: str, printed: str) -> list[str]:
    """Return what a document shows as output and was not printed.

    An ellipsis stands for anything; decimals and how lines are broken may differ.
    """
    rest = _plain(printed)
    missing = []
    for piece in filter(None, map(_plain, shown.split("…"))):
        before, found, after = rest.partition(piece)
        missing += [] if found else [piece]
        rest = after if found else before
    return missing


def _plain(text: str) -> str:
    return re.sub(r"\d*\.\d+|\d+ ms", "#", " ".join(text.split()))
