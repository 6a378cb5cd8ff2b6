"""Reader of e-mail messages."""

from __future__ import annotations

import email
from dataclasses import replace
from email.policy import EmailPolicy
from email.utils import parseaddr, parsedate_to_datetime
from typing import TYPE_CHECKING, cast

from braid.ingestion.documents.document import Document, Section, Unreadable, bounded
from braid.ingestion.documents.readers.html import html_document
from braid.ingestion.documents.readers.text import decode, one_line, tidied

if TYPE_CHECKING:
    from collections.abc import Sequence
    from email.message import EmailMessage

    from braid.ingestion.documents.document import Plain, Source

_HEADERS = {"from": "From", "to": "To", "cc": "Cc"}
_BODIES = {"text/plain": 0, "text/html": 1}
"""Content types that may be a message's text, with their rank; the lowest is taken."""
_PARTS = 1_000
_HEADER_CHARACTERS, _NAME_CHARACTERS = 10_000, 200


class _ShortHeaders(EmailPolicy):
    """The default policy, with very long headers cut: parsing takes time quadratic in their length."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        """Return the name and the value of a header."""
        name, value = super().header_source_parse(sourcelines)
        return name, value[:_HEADER_CHARACTERS]


def read_mail(source: Source) -> Document:
    """Read a message: subject, text, sender, recipients and date; attachments are named, but not read."""
    message = cast("EmailMessage", email.message_from_bytes(source.content, policy=_ShortHeaders()))
    subject = one_line(tidied(_header(message, "Subject")))
    body, best, attached, parts = None, len(_BODIES), list[str](), 0
    for part in message.walk():
        parts += 1
        if parts > _PARTS:
            raise Unreadable(f"has more than {_PARTS:,} parts")
        if part.is_multipart():
            continue
        if part.get_filename():
            attached.append(one_line(tidied(str(part.get_filename()))))
        elif (rank := _BODIES.get(part.get_content_type())) is not None and rank < best:
            body, best = part, rank
    sections = _below(_sender(message), _body(body, source))
    metadata: dict[str, Plain] = {
        key: value for key, name in _HEADERS.items() if (value := one_line(tidied(_header(message, name))))
    }
    if attached:
        metadata["attachments"] = ", ".join(attached)
    return Document(subject or source.stem, "email", bounded(sections, source.limits), metadata, _date(message))


def _sender(message: EmailMessage) -> str:
    """Return a heading with the sender's name, or the address if there is none; empty if neither is given.

    A name with ``@`` is left out: it may claim another address than the sender's own.
    """
    name, address = parseaddr(_header(message, "From"))
    sender = one_line(tidied(address if not name or "@" in name else name))[:_NAME_CHARACTERS].strip()
    return sender and f"From: {sender}"


def _below(sender: str, sections: Sequence[Section]) -> tuple[Section, ...]:
    """Return the sections below a heading with their sender, so that each chunk is found by who wrote it."""
    return tuple(replace(one, heading=(sender, *one.heading)) for one in sections) if sender else tuple(sections)


def _header(message: EmailMessage, name: str) -> str:
    try:
        return str(message.get(name) or "")
    except Exception:  # noqa: BLE001 - the standard library's parser fails on some malformed headers in its own ways
        return ""


def _body(part: EmailMessage | None, source: Source) -> tuple[Section, ...]:
    if part is None:
        return ()
    content = part.get_payload(decode=True)
    content = content if isinstance(content, bytes) else str(content).encode()
    try:
        text = content.decode(part.get_content_charset() or "utf-8")
    except (LookupError, UnicodeError):  # the charset is unknown, not a text's, or another one
        text = decode(content)
    if part.get_content_type() == "text/html":
        return html_document(text, source).sections
    return (Section(tidied(text)),)


def _date(message: EmailMessage) -> str | None:
    try:
        return parsedate_to_datetime(_header(message, "Date")).isoformat()
    except (ValueError, TypeError):
        return None
