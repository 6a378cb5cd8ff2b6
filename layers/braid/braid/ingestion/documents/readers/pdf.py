"""Reader of PDF: text by pages, with the headings of its outline."""

from __future__ import annotations

import io
import logging
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from braid.ingestion.documents.document import Document, Section, Unreadable, bounded
from braid.ingestion.documents.readers.text import one_line, tidied

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pypdf import PdfReader

    from braid.ingestion.documents.document import Plain, Source

_HYPHENATED = re.compile(r"(\w)[-\u00ad]\n(?=[a-z\u00df-\u00ff])")
_ITEM = re.compile(r"^\s*(?:[-•▪◦–*]|\(?\d{1,3}[.)]|[a-z]\))\s")
_DIGITS = re.compile(r"\d+")
_REPEATED_PAGES = 4
"""Least number of pages for which a first or last line that most of them share is taken for a header or footer."""
_SHORT = 0.6
"""Share of the longest line below which a line ends its paragraph."""
_MADE_BY_A_PROGRAM = re.compile(
    r"microsoft (word|excel|powerpoint) -|(untitled|unbenannt|document|dokument|slide|presentation)[ -]?\d*$"
    r"|[^\n]{1,200}\.(docx?|xlsx?|pptx?|odt|ods|odp|rtf|pdf|indd|tex|dvi|html?|txt|pages|key)$",
    re.IGNORECASE,
)
"""Titles that are no title: a program's own words, or the name of a file that is mostly another one."""


def read_pdf(source: Source) -> Document:
    """Read a PDF. Raises Unreadable if it is encrypted, has no text, or has more pages than the limits allow."""
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, FileNotDecryptedError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it warns of every small fault that it repairs
    try:
        reader = PdfReader(io.BytesIO(source.content))
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("is encrypted; save it without a password")
        count = len(reader.pages)
        if count > source.limits.pages:
            raise Unreadable(f"has {count:,} pages, of at most {source.limits.pages:,}; split it")
        pages = _pages(reader, source.limits.characters)
        headings = _outline(reader)
        stated = reader.metadata
    except (DependencyError, FileNotDecryptedError):
        raise Unreadable("is encrypted; save it without a password") from None
    if not count:
        raise Unreadable("has no pages")
    if not any(page.strip() for page in pages):
        raise Unreadable("is scanned: it has pages and no text; make its text searchable first")
    metadata: dict[str, Plain] = {"pages": count}
    title, date = "", None
    if stated is not None:
        title = one_line(tidied(str(stated.title or "")))
        title = "" if _MADE_BY_A_PROGRAM.match(title) else title
        if stated.author:
            metadata["author"] = tidied(str(stated.author))
        date = _date(stated)
    return Document(title or source.stem, "pdf", bounded(_sections(pages, headings), source.limits), metadata, date)


def _date(stated: Any) -> str | None:  # noqa: ANN401 - pypdf's information dictionary
    try:
        at = stated.modification_date or stated.creation_date
    except ValueError:
        return None
    return at.isoformat() if at else None


def _pages(reader: PdfReader, characters: int) -> list[str]:
    pages: list[str] = []
    for page in reader.pages:
        pages.append(tidied(page.extract_text()))
        characters -= len(pages[-1])
        if characters < 0:
            raise Unreadable("holds more text than is read of one file; split it")
    return _without_headers(pages)


def _without_headers(pages: Sequence[str]) -> list[str]:
    """Return pages without the first and last lines that more than half of them share.

    Digits aside in the outermost line, as of a date; in the next one the page's own number aside.
    """
    if len(pages) < _REPEATED_PAGES:
        return list(pages)
    split = [[line for line in page.split("\n") if line.strip()] for page in pages]
    for outermost in (True, False):
        for end in (0, -1):
            lines = [
                _alike(page[end].strip(), number, outermost=outermost) if page else ""
                for number, page in enumerate(split, start=1)
            ]
            counted = Counter(lines)
            for page, line in zip(split, lines, strict=True):
                if len(page) > 1 and counted[line] * 2 > len(pages):
                    del page[end]
    return ["\n".join(page) for page in split]


def _alike(line: str, page: int, *, outermost: bool) -> str:
    """Return a line with zeros for what differs from page to page."""
    return _DIGITS.sub("0", line) if outermost else re.sub(rf"(?<!\d){page}(?!\d)", "0", line, count=1)


def _outline(reader: PdfReader) -> dict[int, tuple[str, ...]]:
    """Return the path of the last heading that begins on a page, by the page's index."""
    found: dict[int, tuple[str, ...]] = {}

    def add(items: Sequence[Any], path: tuple[str, ...]) -> None:
        last = path
        for item in items:
            if isinstance(item, list):
                add(item, last)
                continue
            last = (*path, one_line(tidied(str(item.title))))
            number = reader.get_destination_page_number(item)
            if number is not None:
                found[number] = last

    try:
        add(reader.outline, ())
    except Exception:  # noqa: BLE001 - an outline that is broken is no reason to lose the text
        return {}
    return found


def _sections(pages: Sequence[str], headings: dict[int, tuple[str, ...]]) -> Iterator[Section]:
    path: tuple[str, ...] = ()
    for number, page in enumerate(pages):
        path = headings.get(number, path)
        yield Section(_paragraphs(page), path, page=number + 1)


def _paragraphs(page: str) -> str:
    """Return a page's lines as paragraphs: a short line, or one before an item of a list, ends one."""
    lines = [line.strip() for line in _HYPHENATED.sub(r"\1", page).split("\n")]
    longest = max(map(len, lines), default=0)
    out: list[str] = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        ends = not following or len(line) < longest * _SHORT or bool(_ITEM.match(following))
        out.append(line + ("\n\n" if ends else " "))
    return "".join(out).strip()
