"""Measures ingesting a folder of mixed files, relative to embedding alone: ``python -m bench.documents [FILES]``."""

from __future__ import annotations

import email.message
import html
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from braid.app import Application
from braid.ingestion.documents.ingesting import Options, ingest_documents
from braid.ingestion.documents.progress import FolderDone
from braid.settings import Settings

from braid_cli.demo.wrenfield_files import pdf

if TYPE_CHECKING:
    from collections.abc import Callable

FILES = 1_000
WORDS = 320
"""Of each file."""
DOCUMENTATION = Path(__file__).resolve().parent.parent / "docs"


def make(folder: Path, count: int) -> None:
    """Write so many files, of eleven formats in turn."""
    folder.mkdir()
    words = " ".join(path.read_text(encoding="utf-8") for path in sorted(DOCUMENTATION.glob("*.md"))).split()
    chosen = random.Random(5)  # noqa: S311 - the same files each time
    for number in range(count):
        begin = chosen.randrange(len(words) - WORDS)
        parts = [" ".join(words[at : at + WORDS // 4]) for at in range(begin, begin + WORDS, WORDS // 4)]
        suffix, write = WRITERS[number % len(WRITERS)]
        write(folder / f"{number:04d}.{suffix}", parts)


def _markdown(path: Path, parts: list[str]) -> None:
    path.write_text("\n\n".join(f"## Part {number}\n\n{part}" for number, part in enumerate(parts)), encoding="utf-8")


def _text(path: Path, parts: list[str]) -> None:
    path.write_text("\n\n".join(parts), encoding="utf-8")


def _html(path: Path, parts: list[str]) -> None:
    body = "".join(f"<h2>Part {number}</h2><p>{html.escape(part)}</p>" for number, part in enumerate(parts))
    path.write_text(f"<html><body>{body}</body></html>", encoding="utf-8")


def _csv(path: Path, parts: list[str]) -> None:
    import csv

    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("part", "text"), *enumerate(parts)])


def _json(path: Path, parts: list[str]) -> None:
    path.write_text(json.dumps([{"part": number, "text": part} for number, part in enumerate(parts)]), encoding="utf-8")


def _mail(path: Path, parts: list[str]) -> None:
    message = email.message.EmailMessage()
    message["Subject"], message["From"] = "Parts", "ann@example.org"
    message.set_content("\n\n".join(parts))
    path.write_bytes(message.as_bytes())


def _code(path: Path, parts: list[str]) -> None:
    comments = [f"    # {part}".replace("\n", " ") for part in parts]
    path.write_text(
        "\n\n".join(f"def part_{number}():\n{comment}\n    return {number}" for number, comment in enumerate(comments)),
        encoding="utf-8",
    )


def _pdf(path: Path, parts: list[str]) -> None:
    plain = ["".join(one for one in part if one.isascii() and one not in "()\\") for part in parts]
    path.write_bytes(pdf(tuple(tuple(part[at : at + 80] for at in range(0, len(part), 80)) for part in plain)))


def _docx(path: Path, parts: list[str]) -> None:
    import docx

    file = docx.Document()
    for number, part in enumerate(parts):
        file.add_heading(f"Part {number}", 1)
        file.add_paragraph(part)
    file.save(str(path))


def _pptx(path: Path, parts: list[str]) -> None:
    import pptx

    file = pptx.Presentation()
    for number, part in enumerate(parts):
        slide = file.slides.add_slide(file.slide_layouts[1])
        for shape, text in zip(slide.placeholders, (f"Part {number}", part), strict=False):
            shape.text_frame.text = text
    file.save(str(path))


def _xlsx(path: Path, parts: list[str]) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    for row in (("part", "text"), *enumerate(parts)):
        book.worksheets[0].append(list(row))
    book.save(path)


WRITERS: tuple[tuple[str, Callable[[Path, list[str]], None]], ...] = (
    ("md", _markdown),
    ("txt", _text),
    ("html", _html),
    ("csv", _csv),
    ("json", _json),
    ("eml", _mail),
    ("py", _code),
    ("pdf", _pdf),
    ("docx", _docx),
    ("pptx", _pptx),
    ("xlsx", _xlsx),
)


def main(count: int) -> None:
    """Measure: everything, embedding alone, and an ingest of the same folder again."""
    with tempfile.TemporaryDirectory() as work:
        make(Path(work, "mixed"), count)
        application = Application(Settings(home=Path(work, "home")))
        application.make_models()
        for _ in range(2):
            began = time.perf_counter()
            *_, done = ingest_documents(Path(work, "mixed"), application, tenant_id="bench", options=Options(threads=2))
            seconds = time.perf_counter() - began
            if isinstance(done, FolderDone):
                share = f", {seconds / done.embed_seconds:.3f} of it" if done.embed_seconds else ""
                sys.stdout.write(
                    f"{done.documents} documents, {done.chunks} chunks, {len(done.skipped)} skipped: {seconds:.1f} s, "
                    f"embedding {done.embed_seconds:.1f} s{share}\n"
                )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else FILES)
