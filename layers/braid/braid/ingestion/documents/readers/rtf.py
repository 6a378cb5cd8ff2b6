"""Reader of RTF: its paragraphs, and the rows of its tables with bars between cells."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from braid.ingestion.documents.document import Document, Section, bounded
from braid.ingestion.documents.readers.text import tidied

if TYPE_CHECKING:
    from braid.ingestion.documents.document import Source

_CONTROL = re.compile(
    r"(?P<backslash>\\\\)|(?P<footnote>\\footnote\b ?)|(?P<destination>\\(?:pict|fldinst))"
    r"|\\bin(?P<bytes>\d{1,9}) ?|[0-9A-Fa-f\r\n]{1000,}+"
)
r"""What striprtf reads wrongly: it takes ``\bin`` in a text for binary data, and then ends pictures too early.

Also ``\footnote``, which makes a group a footnote: without it, its text is read where it is referred to; the addresses
of links, which it finds in quadratic time; the data of pictures, which is most of a file with any.
"""
_REPLACEMENTS = {"backslash": r"\'5c", "footnote": "", "destination": r"\objdata"}
_PARAGRAPHS = re.compile(r"\s*\n\s*")


def read_rtf(source: Source) -> Document:
    """Read an RTF, which has no headings; text that is formatted as hidden is read too."""
    from striprtf.striprtf import rtf_to_text

    content = _prepared(source.content.decode("latin-1"))
    text: str = rtf_to_text(content, errors="ignore")  # type: ignore[no-untyped-call]  # states no types
    # RTF states characters beyond 16 bits, such as emoji, as two halves.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "ignore")
    paragraphs = "\n\n".join(filter(None, _PARAGRAPHS.split(tidied(text))))
    return Document(source.stem, "rtf", bounded([Section(paragraphs)], source.limits))


def _prepared(content: str) -> str:
    """Return RTF without pictures and binary data, and with footnotes as text."""
    parts, at = list[str](), 0
    while found := _CONTROL.search(content, at):
        parts += [content[at : found.start()], _REPLACEMENTS.get(found.lastgroup or "", "")]
        at = found.end() + int(found["bytes"] or 0)
    return "".join(parts) + content[at:]
