"""Citations: a record's own source fields first, then what its name, id and source description say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from braid.models import Citation, SourceType

if TYPE_CHECKING:
    from braid.models import Record

EXCERPT_CHARACTERS = 240
CONFIDENCE: Final = {SourceType.QA: 0.95, SourceType.CHAT: 0.90, SourceType.DOCUMENT: 0.85}

_CHUNK = re.compile(r"^(?P<file>.+?)#chunk-(?P<index>\d{1,9})$")
_PAGE = re.compile(r"\bpage (?P<page>\d{1,9})\b", re.IGNORECASE)
_QA = re.compile(r"^qa-response-")
_CHAT = re.compile(r"^chat-fact-")


def cite(record: Record, start: int = 0) -> Citation:
    """Say where a record's text can be read; the excerpt begins at a character of its content.

    Names and ids of the forms ``file.pdf#chunk-7``, ``qa-response-…`` and ``chat-fact-…`` and descriptions that
    contain ``Page 5`` are read; fields that the record states itself win, and its name wins over its id.
    """
    source, name = record.source, record.name or ""
    named_chunk = _CHUNK.match(name)
    chunk = named_chunk or _CHUNK.match(record.id)
    page = _PAGE.search(source.description or "")
    kind = source.type or _type_of(name) or _type_of(record.id) or SourceType.DOCUMENT
    title = source.title or (named_chunk["file"] if named_chunk else name) or (chunk["file"] if chunk else record.id)
    chunk_index = source.chunk_index
    if chunk_index is None and chunk:
        chunk_index = int(chunk["index"])
    page_number = source.page
    if page_number is None and page:
        page_number = int(page["page"])
    return Citation(
        type=kind,
        title=title,
        page=page_number,
        chunk_index=chunk_index,
        excerpt=excerpt(record.content[start:] or title, cut=start > 0),
        confidence=CONFIDENCE[kind] if record.confidence is None else record.confidence,
    )


def _type_of(identity: str) -> SourceType | None:
    if _QA.match(identity):
        return SourceType.QA
    return SourceType.CHAT if _CHAT.match(identity) else None


def excerpt(text: str, limit: int = EXCERPT_CHARACTERS, *, cut: bool = False) -> str:
    """Return the beginning of a text on one line, cut between words.

    Parameters
    ----------
    cut
        Whether the text is itself the end of a longer one, which an ellipsis then says.
    """
    # So many words are longer than the limit: of a megabyte no more is taken apart.
    line = ("…" if cut else "") + " ".join(text.split(maxsplit=limit))
    if len(line) <= limit:
        return line
    head = line[: limit - 1]
    return f"{head[: head.rfind(' ')] if ' ' in head else head}…"
