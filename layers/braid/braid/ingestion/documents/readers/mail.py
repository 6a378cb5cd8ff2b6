"""Reader of e-mail messages."""

from __future__ import annotations

import codecs
import email
from collections import deque
from dataclasses import replace
from email.policy import EmailPolicy
from email.utils import parseaddr, parsedate_to_datetime
from itertools import chain
from typing import TYPE_CHECKING, cast

from braid.ingestion.documents.document import Document, Section, Unreadable, bounded
from braid.ingestion.documents.readers.html import html_document
from braid.ingestion.documents.readers.text import decode, one_line, tidied

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from email.message import EmailMessage

    from braid.ingestion.documents.document import Plain, Source

_HEADERS = {"from": "From", "to": "To", "cc": "Cc"}
_BODIES = {"text/plain", "text/html"}
"""Content types that may be a message's text."""
_PARTS = 1_000
_HEADER_CHARACTERS, _NAME_CHARACTERS = 10_000, 200


class _ShortHeaders(EmailPolicy):
    """The default policy, with very long headers cut: parsing takes time quadratic in their length."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        """Return the name and the value of a header."""
        name, value = super().header_source_parse(sourcelines)
        return name, value[:_HEADER_CHARACTERS]


def read_mail(source: Source) -> Document:
    """Read a message and those attached to it: subject, text, sender, recipients, date, and names of other attachments.

    The text of an attached message stands below its subject and sender. Recipients and date are those of the message.
    """
    message = cast("EmailMessage", email.message_from_bytes(source.content, policy=_ShortHeaders()))
    sender, sections, attached = _sender(message), list[Section](), list[str]()
    for one, parts in _messages(message):
        headings = [sender] if one is message else [sender, _line(one, "Subject")[:_NAME_CHARACTERS], _sender(one)]
        attached += [one_line(tidied(str(part.get_filename()))) for part in parts if part.get_filename()]
        texts = [part for part in parts if not part.get_filename() and part.get_content_type() in _BODIES]
        sections += _below(headings, chain.from_iterable(_body(part, source) for part in texts))
    subject = _line(message, "Subject")
    metadata: dict[str, Plain] = {key: value for key, name in _HEADERS.items() if (value := _line(message, name))}
    if attached:
        metadata["attachments"] = ", ".join(attached)
    return Document(subject or source.stem, "email", bounded(tuple(sections), source.limits), metadata, _date(message))


def _sender(message: EmailMessage) -> str:
    """Return a heading with the sender's name, or the address if there is none; empty if neither is given.

    A name with ``@`` is left out: it may claim another address than the sender's own.
    """
    name, address = parseaddr(_header(message, "From"))
    sender = one_line(tidied(address if not name or "@" in name else name))[:_NAME_CHARACTERS].strip()
    return sender and f"From: {sender}"


def _below(headings: Sequence[str], sections: Iterable[Section]) -> list[Section]:
    """Return the sections below the headings that are not empty, so that each chunk is found by who wrote it."""
    return [replace(one, heading=(*filter(None, headings), *one.heading)) for one in sections]


def _messages(message: EmailMessage) -> Iterator[tuple[EmailMessage, list[EmailMessage]]]:
    """Yield a message and the ones attached to it, as mail programs forward them, each with its own parts.

    Of a text that is there plain and as HTML too, only the plain one is yielded, unless it is empty.
    """
    waiting, count = deque([message]), 0
    while waiting:
        one = waiting.popleft()
        own: list[EmailMessage] = []
        inside = [(one, False)]
        while inside:
            part, is_there_plain = inside.pop()
            count += 1
            if count > _PARTS:
                raise Unreadable(f"has more than {_PARTS:,} parts")
            if not part.is_multipart():
                if not (is_there_plain and part.get_content_type() == "text/html" and not part.get_filename()):
                    own.append(part)
            elif part.get_content_type() == "message/rfc822":
                waiting.extend(cast("list[EmailMessage]", part.get_payload()))
            else:
                parts = cast("list[EmailMessage]", part.get_payload())
                if part.get_content_type() == "multipart/alternative":
                    is_there_plain = is_there_plain or any(map(_is_plain_text, parts))
                inside.extend((each, is_there_plain) for each in reversed(parts))
        yield one, own


def _is_plain_text(part: EmailMessage) -> bool:
    """Return whether a part is plain text that is not empty."""
    if part.get_content_type() != "text/plain" or part.is_multipart() or part.get_filename():
        return False
    content = part.get_payload(decode=True)
    return isinstance(content, bytes) and bool(content.strip())


def _line(message: EmailMessage, name: str) -> str:
    return one_line(tidied(_header(message, name)))


def _header(message: EmailMessage, name: str) -> str:
    try:
        return str(message.get(name) or "")
    except Exception:  # noqa: BLE001 - the standard library's parser fails on some malformed headers in its own ways
        return ""


def _body(part: EmailMessage, source: Source) -> tuple[Section, ...]:
    content = part.get_payload(decode=True)
    content = content if isinstance(content, bytes) else str(content).encode()
    try:
        text = content.decode(_charset(part))
    except (LookupError, UnicodeError):  # the charset is unknown, not a text's, or another one
        text = decode(content)
    if part.get_content_type() == "text/html":
        return html_document(text, source).sections
    return (Section(tidied(text)),) if text.strip() else ()


def _charset(part: EmailMessage) -> str:
    """Return the charset of a part: for Latin-1 that of Windows, as web pages and mail programs read it.

    They differ only in control characters, where that of Windows has the euro sign, dashes and quotation marks.
    Raises LookupError if the charset is unknown.
    """
    stated = codecs.lookup(part.get_content_charset() or "utf-8").name
    return "cp1252" if stated == "iso8859-1" else stated


def _date(message: EmailMessage) -> str | None:
    try:
        return parsedate_to_datetime(_header(message, "Date")).isoformat()
    except (ValueError, TypeError):
        return None
