"""Reader of RTF: its paragraphs, and the rows of its tables with bars between cells."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from braid.ingestion.documents.document import Document, Section, bounded
from braid.ingestion.documents.readers.text import tidied

if TYPE_CHECKING:
    from braid.ingestion.documents.document import Source

_FOOTNOTE = re.compile(r"\\footnote\b ?")
"""What makes a group a footnote: without it, its text is read where it is referred to."""
_PARAGRAPHS = re.compile(r"\s*\n\s*")


def read_rtf(source: Source) -> Document:
    """Read an RTF, which has no headings; text that is formatted as hidden is read too."""
    from striprtf.striprtf import rtf_to_text

    content = _FOOTNOTE.sub("", source.content.decode("latin-1"))
    text: str = rtf_to_text(content, errors="ignore")  # type: ignore[no-untyped-call]  # states no types
    paragraphs = "\n\n".join(filter(None, _PARAGRAPHS.split(tidied(text))))
    return Document(source.stem, "rtf", bounded([Section(paragraphs)], source.limits))
