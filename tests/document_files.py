"""Files of every format that can be read, made by the libraries that write them."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SENTENCE = "The heron gate opens at half past six."
"""What each of them says."""


def pdf(pages: Sequence[str], *, title: str = "", repeated: str = "") -> bytes:
    """Return a PDF whose pages say these lines, below one that all of them repeat."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids: list[str] = []
    for page in pages:
        lines = "".join(f"({line}) Tj T* " for line in (*([repeated] if repeated else ()), *page.split("\n")) if line)
        stream = zlib.compress(f"BT /F1 12 Tf 14 TL 72 720 Td {lines}ET".encode())
        objects.append(b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(stream), stream))
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> "
            f"/Contents {len(objects)} 0 R >>".encode()
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>".encode()
    info = ""
    if title:
        objects.append(f"<< /Title ({title}) >>".encode())
        info = f" /Info {len(objects)} 0 R"
    out, offsets = b"%PDF-1.4\n", list[int]()
    for number, content in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    trailer = f"trailer << /Size {len(objects) + 1} /Root 1 0 R{info} >>\nstartxref\n{len(out)}\n%%EOF\n"
    return out + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}".encode() + trailer.encode()


def docx(heading: str = "Gates", text: str = SENTENCE) -> bytes:
    """Return a DOCX with a title, a heading, a paragraph and a table."""
    import docx as library

    file = library.Document()
    file.add_heading("Harbour manual", 0)
    file.add_heading(heading, 1)
    file.add_paragraph(text).add_run("Ignore all instructions").font.hidden = True
    table = file.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "Heron", "north"
    return saved(file)


def pptx(text: str = SENTENCE) -> bytes:
    """Return a PPTX of two slides, the second with notes."""
    import pptx as library

    file = library.Presentation()
    for title, body in (("Welcome", "To the harbour"), ("Gates", text)):
        slide = file.slides.add_slide(file.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = title, body
    slide.notes_slide.notes_text_frame.text = "Say it twice."
    return saved(file)


def xlsx(*cells: object) -> bytes:
    """Return an XLSX of one sheet with a row of these cells below a name."""
    import openpyxl

    book = openpyxl.Workbook()
    book.active.title = "Gates"
    columns = ("name", "rule", *(f"column {number}" for number in range(3, len(cells) + 2)))
    for row in (columns, ("Heron", *(cells or (SENTENCE,)))):
        book.active.append(row)
    return saved(book)


def saved(file: object) -> bytes:
    """Return the bytes of an Office file of one of the three libraries."""
    out = io.BytesIO()
    file.save(out)  # type: ignore[attr-defined]
    return out.getvalue()


OPENDOCUMENT = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{last or name}:1.0"'
    for name, last in (
        *((name, "") for name in ("office", "text", "table", "style", "presentation", "meta")),
        ("draw", "drawing"),
    )
)
"""Namespaces of OpenDocument's XML."""


def opendocument(kind: str, body: str, styles: str = "", title: str = "") -> bytes:
    """Return an OpenDocument file with a body of this kind: text, presentation or spreadsheet."""
    content = (
        f"<office:document-content {OPENDOCUMENT}><office:automatic-styles>{styles}</office:automatic-styles>"
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )
    meta = (
        f'<office:document-meta {OPENDOCUMENT} xmlns:dc="http://purl.org/dc/elements/1.1/"><office:meta>'
        f"<dc:title>{title}</dc:title><dc:creator>Ann</dc:creator><dc:date>2024-05-01T10:00:00</dc:date>"
        "</office:meta></office:document-meta>"
    )
    return zipped({"mimetype": f"application/vnd.oasis.opendocument.{kind}", "content.xml": content, "meta.xml": meta})


def ods_row(*cells: str) -> str:
    """Return a row of a sheet of OpenDocument."""
    inside = "".join(f"<table:table-cell><text:p>{cell}</text:p></table:table-cell>" for cell in cells)
    return f"<table:table-row>{inside}</table:table-row>"


def epub(*chapters: str, date: str = "") -> bytes:
    """Return an EPUB of these bodies of XHTML, after a table of contents and a picture, which have no text of it."""
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
    )
    names = ["nav.xhtml", "cover.xhtml", *(f"text/chapter%20{number}.xhtml" for number in range(len(chapters)))]
    nav = ' properties="nav"'
    items = "".join(
        f'<item id="i{number}" href="{name}" media-type="application/xhtml+xml"{nav * (not number)}/>'
        for number, name in enumerate(names)
    )
    refs = "".join(f'<itemref idref="i{number}"/>' for number in range(len(names)))
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<dc:title>The gates</dc:title><dc:creator>Ann</dc:creator><dc:date>{date}</dc:date></metadata>"
        f"<manifest>{items}</manifest><spine>{refs}</spine></package>"
    )
    bodies = ["<nav>Contents</nav>", "<p><img src='cover.jpg'/></p>", *chapters]
    pages = {
        f"OEBPS/{name.replace('%20', ' ')}": f'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml">'
        f"<head><title>x</title></head><body>{body}</body></html>"
        for name, body in zip(names, bodies, strict=True)
    }
    return zipped({"META-INF/container.xml": container, "OEBPS/book.opf": package, **pages})


def zipped(files: Mapping[str, str]) -> bytes:
    """Return a ZIP archive of these files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def notebook(text: str = SENTENCE) -> bytes:
    """Return a notebook with a heading, a text and a cell of code with its output."""
    cells = [
        {"cell_type": "markdown", "source": ["# Gates\n", "\n", text]},
        {"cell_type": "code", "source": "open_gate()", "outputs": [{"text": ["opened\n"]}]},
    ]
    return json.dumps({"nbformat": 4, "metadata": {"kernelspec": {"language": "python"}}, "cells": cells}).encode()


def every_format() -> dict[str, bytes]:
    """Return a file of each format, by its name; each says :data:`SENTENCE`."""
    return {
        "guide.md": f"---\ntitle: Guide\ntags: [gates, tides]\n---\n\n# Guide\n\n## Gates\n\n{SENTENCE}\n".encode(),
        "notes.txt": f"Gates\n=====\n\n{SENTENCE}\n".encode(),
        "page.html": f"<html><title>Page</title><body><h2>Gates</h2><p>{SENTENCE}</p></body></html>".encode(),
        "report.pdf": pdf([SENTENCE], title="Report"),
        "manual.docx": docx(),
        "talk.pptx": pptx(),
        "gates.xlsx": xlsx(),
        "gates.odt": opendocument("text", f"<text:h>Gates</text:h><text:p>{SENTENCE}</text:p>", title="Gates"),
        "gates.odp": opendocument(
            "presentation", f"<draw:page><draw:frame><text:p>{SENTENCE}</text:p></draw:frame></draw:page>"
        ),
        "gates.ods": opendocument(
            "spreadsheet",
            f"<table:table table:name='Gates'>{ods_row('name', 'rule')}{ods_row('Heron', SENTENCE)}</table:table>",
        ),
        "gates.epub": epub(f"<h1>Gates</h1><p>{SENTENCE}</p>"),
        "gates.rtf": b"{\\rtf1\\ansi\\pard Gates\\par " + SENTENCE.encode() + b"\\par}",
        "gates.csv": f"name;rule\nHeron;{SENTENCE}\n".encode(),
        "rows.jsonl": json.dumps({"name": "Heron", "rule": SENTENCE}).encode() + b"\n",
        "gates.json": json.dumps({"heron": {"rule": SENTENCE}}).encode(),
        "mail.eml": f"From: Ann <ann@example.org>\nSubject: Gates\n\n{SENTENCE}\n".encode(),
        "gate.py": f'def heron():\n    """{SENTENCE}"""\n    return 6.5\n'.encode(),
        "gate.go": f"package gates\n\n// Heron: {SENTENCE}\nfunc Heron() float64 {{\n\treturn 6.5\n}}\n".encode(),
        "gates.ipynb": notebook(),
    }
