"""Reader of Jupyter notebooks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from braid.ingestion.documents.document import Document, Section, Unreadable, bounded, take_times
from braid.ingestion.documents.readers.markdown import markdown_sections
from braid.ingestion.documents.readers.text import decode, tidied

if TYPE_CHECKING:
    from collections.abc import Iterator

    from braid.ingestion.documents.document import Plain, Source

_OUTPUT_CHARACTERS = 2_000
"""Most characters of a cell's output: nobody searches for whole tables and logs."""


def read_notebook(source: Source) -> Document:
    """Read a notebook: text, code and output, under the headings of its text."""
    try:
        value = json.loads(decode(source.content))
        cells, about = value["cells"], value.get("metadata", {})
        language = about.get("kernelspec", {}).get("language")
        sections = list(_sections(cells))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise Unreadable("is no notebook of Jupyter's version 4") from None
    title = next((section.heading[0] for section in sections if section.heading), source.stem)
    metadata: dict[str, Plain] = {"language": str(language)} if language else {}
    times = take_times({name: value for name, value in about.items() if isinstance(value, str)})
    return Document(title, "notebook", bounded(sections, source.limits), metadata, *times)


def _sections(cells: list[dict[str, Any]]) -> Iterator[Section]:
    path: tuple[str, ...] = ()
    for cell in cells:
        text = tidied(_joined(cell.get("source", "")))
        if cell.get("cell_type") == "markdown":
            for section in markdown_sections(text):
                path = section.heading or path
                yield Section(section.text, path)
        elif cell.get("cell_type") == "code":
            printed = "\n".join(_printed(cell.get("outputs", ())))[:_OUTPUT_CHARACTERS]
            yield Section(f"{text}\n\n{tidied(printed)}".strip(), path)


def _printed(outputs: list[dict[str, Any]]) -> Iterator[str]:
    for output in outputs:
        yield _joined(output.get("text") or output.get("data", {}).get("text/plain", ""))


def _joined(value: object) -> str:
    return "".join(map(str, value)) if isinstance(value, list) else str(value)
