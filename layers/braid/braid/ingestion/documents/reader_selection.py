"""Selects the reader of a file, by its first bytes and then by its suffix, and runs it.

:mod:`braid.ingestion.documents.readers` says what a new format needs.
"""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from braid.errors import how_to_install
from braid.ingestion.documents.document import Empty, Unreadable, UnreadableNow, bounded, too_long
from braid.ingestion.documents.metadata_files import with_metadata
from braid.ingestion.documents.readers.archives import check_archive
from braid.ingestion.documents.readers.code import LANGUAGES, read_code, read_python
from braid.ingestion.documents.readers.epub import CONTAINER, read_epub
from braid.ingestion.documents.readers.html import read_html
from braid.ingestion.documents.readers.mail import read_mail
from braid.ingestion.documents.readers.markdown import read_markdown
from braid.ingestion.documents.readers.notebook import read_notebook
from braid.ingestion.documents.readers.office import read_pptx, read_xlsx
from braid.ingestion.documents.readers.opendocument import read_opendocument
from braid.ingestion.documents.readers.pdf import read_pdf
from braid.ingestion.documents.readers.rtf import read_rtf
from braid.ingestion.documents.readers.tables import read_csv, read_json, read_json_lines
from braid.ingestion.documents.readers.text import guessed_encoding, one_line, read_text, tidied
from braid.ingestion.documents.readers.word import read_docx
from braid.models.enums_and_scalars import MAX_METADATA_LIST, printable, values_in
from braid.models.records import MAX_METADATA_KEY_BYTES, MAX_METADATA_KEYS, MAX_METADATA_VALUE_BYTES, MAX_WHOLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from braid.ingestion.documents.document import Document, Plain, Section, Source

_HEADING_CHARACTERS: Final = 500
"""Most characters of a title, and of each heading."""
_HEADINGS: Final = 16
"""Most headings above a text, the innermost ones."""

_TIMES: Final = ("timestamp", "valid_at", "invalid_at")

READERS: Final[dict[str, Callable[[Source], Document]]] = {
    **dict.fromkeys((".md", ".markdown", ".mdx"), read_markdown),
    **dict.fromkeys((".txt", ".text", ".rst", ".log", ".adoc"), read_text),
    **dict.fromkeys((".html", ".htm", ".xhtml"), read_html),
    **dict.fromkeys((".csv", ".tsv"), read_csv),
    **dict.fromkeys((".jsonl", ".ndjson"), read_json_lines),
    **dict.fromkeys((".py", ".pyi"), read_python),
    **dict.fromkeys(LANGUAGES, read_code),
    ".json": read_json,
    ".ipynb": read_notebook,
    ".eml": read_mail,
    ".pdf": read_pdf,
    ".docx": read_docx,
    ".pptx": read_pptx,
    ".xlsx": read_xlsx,
    **dict.fromkeys((".odt", ".odp", ".ods"), read_opendocument),
    ".epub": read_epub,
    ".rtf": read_rtf,
}
"""Readers by suffix. Text without a known suffix is read as text."""
_ARCHIVE_READERS: Final = {
    "word/document.xml": read_docx,
    "ppt/presentation.xml": read_pptx,
    "xl/workbook.xml": read_xlsx,
    CONTAINER: read_epub,
    "content.xml": read_opendocument,
}
"""Readers of ZIP archives, by a name that the archive contains."""
_BINARY_READERS: Final = {read_pdf, read_docx, read_pptx, read_xlsx, read_opendocument, read_epub, read_rtf}
"""Readers of formats that are recognised by their content; a text file with such a suffix is read as text."""
# Possessive: backtracking over many comments would take exponential time.
_HTML = re.compile(rb"\A(?>\s+|<!--.*?-->)*+<(?:!doctype html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
_MAIL = re.compile(
    rb"\A(?:Return-Path|Received|Delivered-To|MIME-Version|Message-ID|From|Date|Subject): [^\n]+\n"
    rb"(?:[A-Z][\w-]*: |[ \t])"
)
_OLE = rb"\xd0\xcf\x11\xe0"
_OUTLOOK = "__substg1.0_".encode("utf-16-le")
"""The beginning of the names of the parts of an MSG, which is an OLE file as old Office files are."""
_REFUSED = (
    (_OLE, "is an encrypted or old Office file; save it as DOCX, PPTX or XLSX without a password"),
    (rb"\x89PNG|\xff\xd8\xff|GIF8|II\*\x00|MM\x00\*|RIFF.{4}WEBP", "is a picture"),
    (rb"(?>\s+|<\?xml[^>]*>|<!--.*?-->|<!DOCTYPE svg[^>]*>)*+<svg\b", "is a picture"),
)
"""Patterns of the first bytes of formats that are refused, with the reasons."""


def read(source: Source) -> Document:
    """Read a file with the reader of its content's format, or else of its suffix.

    Raises Unreadable, with the reason, if it is no document, or is broken, encrypted, scanned or beyond the limits, or
    its metadata file is wrong, and Empty if it has no content.
    """
    if not source.content.strip():
        raise Empty("is empty")
    if not source.content.strip(b" \t\r\n\x00"):
        raise Unreadable("holds nothing but NUL bytes")
    if len(source.content) > source.limits.file_bytes:
        raise Unreadable(too_long(len(source.content), source.limits))
    reader = reader_of(source)
    try:
        document = with_metadata(reader(source), source)
        sections = bounded(map(_plain_section, document.sections), source.limits)
        title, metadata = _plain_heading(document.title), _plain_metadata(document.metadata)
        times = {name: tidied(date) for name in _TIMES if (date := getattr(document, name))}
        title = title or _plain_heading(source.stem) or document.format  # a name may have no character at all
        guessed = "" if reader in {*_BINARY_READERS, read_mail} else guessed_encoding(source.content)
        return replace(document, title=title, sections=sections, metadata=metadata, guessed_encoding=guessed, **times)
    except Unreadable:
        raise
    except ModuleNotFoundError as error:
        raise UnreadableNow(f"needs the package {error.name}: {how_to_install('documents')}") from None
    except MemoryError:
        raise Unreadable("needs more memory than one file may take") from None
    except RecursionError:
        raise Unreadable("is nested too deeply") from None
    except (zlib.error, struct.error, EOFError):
        raise Unreadable("is broken: it ends early or was damaged") from None
    except Exception as error:  # noqa: BLE001 - what the libraries raise about broken files has no common base
        raise Unreadable(f"is broken, or no {reader.__name__.removeprefix('read_').upper()}: {_line(error)}") from None


def _plain_section(section: Section) -> Section:
    return replace(
        section,
        text=tidied(section.text),
        heading=tuple(filter(None, map(_plain_heading, section.heading[-_HEADINGS:]))),
        metadata=_plain_metadata(section.metadata),
    )


def _plain_heading(text: str) -> str:
    return one_line(tidied(text[:_HEADING_CHARACTERS]))


def _plain_metadata(found: Mapping[str, Plain]) -> dict[str, Plain]:
    """Return the metadata that a record can store, cut to its limits."""
    plain = ((tidied(name), value) for name, value in found.items() if len(name) <= MAX_METADATA_KEY_BYTES)
    return {
        name: [_plain_value(one) for one in value[:MAX_METADATA_LIST]]
        if isinstance(value, list)
        else _plain_value(value)
        for name, value in islice(plain, MAX_METADATA_KEYS)
        if not any(isinstance(one, int) and abs(one) > MAX_WHOLE for one in values_in(value))
    }


def _plain_value(value: Any) -> Any:  # noqa: ANN401 - text is tidied, other values stay as they are
    return tidied(value[:MAX_METADATA_VALUE_BYTES]) if isinstance(value, str) else value


def reader_of(source: Source) -> Callable[[Source], Document]:
    """Return the reader of a file. Raises Unreadable if none reads it."""
    start = source.content[:1_024]
    if b"%PDF-" in start:
        return read_pdf
    if re.match(_OLE, start) and _OUTLOOK in source.content:
        raise Unreadable("is a message of Outlook (MSG); save it as EML, HTML or text")
    for pattern, reason in _REFUSED:
        if re.match(pattern, start, re.DOTALL):
            raise Unreadable(reason)
    if start.startswith(b"PK\x03\x04"):
        names = set(check_archive(source.content, source.limits))
        reader = next((reader for name, reader in _ARCHIVE_READERS.items() if name in names), None)
        if reader is None:
            if "encrypted-package" in names:  # of LibreOffice
                raise Unreadable("is encrypted; save it without a password")
            is_iwork = "Index/Document.iwa" in names
            raise Unreadable(
                "is of Pages, Numbers or Keynote; export it as PDF" if is_iwork else "is an archive; unpack it"
            )
        return reader
    if start.startswith(b"{\\rtf"):
        return read_rtf
    if b"\x00" in start and not start.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")):
        raise Unreadable("is a binary file, not text")
    return _reader_of_text(source.suffix, start)


def _reader_of_text(suffix: str, start: bytes) -> Callable[[Source], Document]:
    """Return the reader of a file that is text, by its suffix, or by its first bytes if the suffix tells no format."""
    by_suffix = READERS.get(suffix)
    if by_suffix is not None and by_suffix not in {read_text, *_BINARY_READERS}:
        return by_suffix
    if _HTML.match(start):
        return read_html
    return read_mail if _MAIL.match(start) else read_text


def _line(error: BaseException) -> str:
    """Return the first line of an error's message, or its class."""
    return printable((str(error).strip().splitlines() or [type(error).__name__])[0][:160])
