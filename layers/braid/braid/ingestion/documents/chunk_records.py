"""Ids and records of a document's chunks."""

from __future__ import annotations

import hashlib
import math
import os
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from braid.errors import InvalidRequest
from braid.ingestion.documents.chunking import SEPARATOR
from braid.ingestion.documents.document import VALIDITY, Unreadable, moment_of, stated_date
from braid.models import MAX_ID_BYTES, Record, SourceRef, SourceType
from braid.models.enums_and_scalars import values_in
from braid.models.records import (
    MAX_METADATA_BYTES,
    MAX_METADATA_KEY_BYTES,
    MAX_METADATA_KEYS,
    MAX_METADATA_LISTED,
    MAX_METADATA_VALUE_BYTES,
    too_much,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from braid.ingestion.documents.chunking import Chunk
    from braid.ingestion.documents.document import Document, Plain

_TITLE_CHARACTERS: Final = 200
_ID_BYTES: Final = MAX_ID_BYTES - len("#chunk-999999999")
_REPEATED_BYTES: Final = 32 * 1024 * 1024
"""Most bytes of a file's own metadata in all of its chunks together: each chunk has it, and a small file may have very
many chunks."""
_TERM_BYTES: Final = 100
"""Bytes of a value in the index of metadata, as counted for these, whatever its length."""
_HASHED: Final = re.compile(r"~[0-9a-f]{16}\Z")
"""End of an id that was shortened, or in which characters were replaced."""


def document_id(collection: str, path: str) -> str:
    """Return the id of a document: the collection's name and the path in it, shortened by a hash where it is too long.

    Characters that an id cannot have, and ``#``, which begins a chunk's number, are replaced; a hash keeps such ids
    distinct, also from one that looks like them.
    """
    whole = f"{collection}/{path}" if path else collection
    plain = "".join(character if character.isprintable() and character != "#" else "_" for character in whole)
    encoded = plain.encode("utf-8", "replace")
    if plain == whole and len(encoded) <= _ID_BYTES and not _HASHED.search(plain):
        return plain
    digest = hashlib.sha256(os.fsencode(whole)).hexdigest()[:16]
    return encoded[: _ID_BYTES - 17].decode("utf-8", "ignore") + "~" + digest


def chunk_ids(document: str, first: int, end: int) -> list[str]:
    """Return the ids of a document's chunks from number ``first`` up to number ``end``, which is excluded."""
    return [f"{document}#chunk-{number}" for number in range(first, end)]


def records_of(
    document: Document,
    chunks: list[Chunk],
    *,
    tenant_id: str,
    identity: str,
    file: str,
    modified: datetime | None = None,
    extra_metadata: Mapping[str, Plain] | None = None,
) -> list[Record]:
    """Return the records of a document's chunks.

    Raises Unreadable if a size limit of records is exceeded, or a stated validity is not a date.

    Parameters
    ----------
    identity
        Id of the document; a chunk's is that and its number.
    file
        Path of the file, for the citation.
    modified
        When the file was last changed.
    extra_metadata
        Metadata that the caller adds; it takes precedence over the file's own.
    """
    title = _cut(" ".join(document.title.split()), _TITLE_CHARACTERS)
    stated = moment_of(document.timestamp)
    of_file = dict(document.metadata)
    if document.timestamp and stated is None:  # such as "spring 2024"
        of_file["date"] = document.timestamp
    of_file = _bounded(of_file, {}, _REPEATED_BYTES // max(1, len(chunks)), term_bytes=_TERM_BYTES)
    of_document = {name: stated_date(name, getattr(document, name)) for name in VALIDITY}
    refused = f"cannot be stored with {document.beside}" if document.beside else "cannot be stored"
    records: list[Record] = []
    for chunk, name in zip(chunks, chunk_ids(identity, 0, len(chunks)), strict=True):
        own: dict[str, Plain] = {"file": _bytes(file, MAX_METADATA_VALUE_BYTES), "format": document.format}
        if chunk.heading:
            own["heading"] = SEPARATOR.join(chunk.heading)
        own["position"] = chunk.position
        if chunk.line is not None:
            own["line"] = chunk.line
        place = "" if chunk.line is None else f"line {chunk.line}: "
        validity = {name: stated_date(name, getattr(chunk, name), place) or of_document[name] for name in VALIDITY}
        metadata = _bounded({**of_file, **chunk.metadata}, own | dict(extra_metadata or {}))
        try:
            record = Record(
                id=name,
                tenant_id=tenant_id,
                content=chunk.content,
                source=SourceRef(type=SourceType.DOCUMENT, title=title, page=chunk.page, chunk_index=chunk.index),
                updated_at=modified,
                timestamp=stated_date("timestamp", chunk.timestamp, place) or stated,
                **validity,
                metadata=metadata,
            )
        except ValidationError as error:
            raise Unreadable(f"{refused}: {InvalidRequest.from_validation(error)}") from None
        if found := too_much(record):
            raise Unreadable(f"{refused}: {found.field} {found.message}")
        records.append(record)
    return records


def modified_at(seconds: float) -> datetime | None:
    """Return a file's modification time, given in seconds since 1970; None if it is out of range."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def _bounded(
    found: Mapping[str, Plain], ours: Mapping[str, Plain], most: int = MAX_METADATA_BYTES, *, term_bytes: int = 0
) -> dict[str, Plain]:
    """Return metadata within a record's limits and ``most`` bytes: first ``ours``, then what fits of ``found``.

    Each value counts ``term_bytes`` more towards ``most``.
    """
    metadata = dict(ours)
    listed, left = MAX_METADATA_LISTED, MAX_METADATA_BYTES
    left -= sum(len(key.encode()) + len(str(value).encode()) for key, value in ours.items())
    for key, value in found.items():
        if key in metadata or len(key.encode()) > MAX_METADATA_KEY_BYTES or len(metadata) >= MAX_METADATA_KEYS:
            continue
        plain = _bytes(value, MAX_METADATA_VALUE_BYTES) if isinstance(value, str) else value
        if any(isinstance(one, float) and not math.isfinite(one) for one in values_in(plain)):
            continue
        items = plain if isinstance(plain, list) else ()
        value_bytes = len(str(plain).encode())
        size = len(key.encode()) + value_bytes
        stored = size + term_bytes * max(1, len(items))
        if size > left or stored > most or (items and (value_bytes > MAX_METADATA_VALUE_BYTES or len(items) > listed)):
            continue
        listed, left, most = listed - len(items), left - size, most - stored
        metadata[key] = plain
    return metadata


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1].rstrip() + "…"


def _bytes(text: str, most: int) -> str:
    return text.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")
