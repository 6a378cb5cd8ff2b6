"""What readers of ZIP archives share: the check before one is unpacked, its XML, and the metadata of Dublin Core."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING, Any

from braid.ingestion.documents.document import Unreadable
from braid.ingestion.documents.readers.text import one_line, tidied

if TYPE_CHECKING:
    from braid.ingestion.documents.document import Plain, ReadingLimits

_ARCHIVED_FILES = 10_000
_RATIO_FROM_BYTES = 16 * 1024 * 1024
"""Unpacked size above which the ratio is checked: a small file of blanks shrinks more than any real document."""


def check_archive(content: bytes, limits: ReadingLimits) -> list[str]:
    """Return the names inside of a ZIP archive.

    Raises Unreadable if it is no archive, or if unpacking it would take more than the limits allow.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        raise Unreadable("is broken: the archive inside of it cannot be read") from None
    if len(entries) > _ARCHIVED_FILES:
        raise Unreadable(f"holds {len(entries):,} files, of at most {_ARCHIVED_FILES:,}")
    if any(entry.flag_bits & 1 for entry in entries):
        raise Unreadable("is encrypted; save it without a password")
    unpacked = sum(entry.file_size for entry in entries)
    too_dense = unpacked > _RATIO_FROM_BYTES and unpacked > limits.unpacked_ratio * len(content)
    if unpacked > limits.unpacked_bytes or too_dense:
        raise Unreadable(f"would unpack to {unpacked:,} bytes from {len(content):,}, as a bomb does")
    return [entry.filename for entry in entries]


def parsed_xml(content: bytes) -> Any:  # noqa: ANN401 - lxml has no types
    """Return the root of XML without its comments, in which no entity is resolved and nothing is loaded."""
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
    return etree.fromstring(content, parser)


def dublin_core(element: Any) -> tuple[str, dict[str, Plain], str | None]:  # noqa: ANN401 - lxml has no types
    """Return title, metadata and date that an element states by Dublin Core, as OpenDocument and EPUB do."""
    title, author, date = (
        one_line(tidied(element.findtext(f".//{{http://purl.org/dc/elements/1.1/}}{name}") or ""))
        for name in ("title", "creator", "date")
    )
    return title, {"author": author} if author else {}, date or None
