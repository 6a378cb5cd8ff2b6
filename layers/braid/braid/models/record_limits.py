"""How much one record or vertex may hold, whichever way it is written.

With these bounds a record fits into an answer, whatever characters it is made of.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from braid.models import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from braid.models import Vertex

MAX_CONTENT_BYTES: Final = 1024 * 1024
"""Of a record's text in UTF-8."""
MAX_CONTENT_JSON: Final = 4_000_000
"""Of the same as JSON of ASCII alone, as it stands in an answer."""
MAX_METADATA_KEYS: Final = 256
MAX_METADATA_KEY_BYTES: Final = 256
MAX_METADATA_VALUE_BYTES: Final = 16 * 1024
"""Of one value as text; nested values of an imported line are JSON text."""
MAX_METADATA_BYTES: Final = 64 * 1024
"""Of all keys and values together."""
MAX_ALIASES: Final = 100
MAX_EMBEDDINGS: Final = 16
MAX_VECTOR_VALUES: Final = 8_192
MAX_WHOLE: Final = 2**63 - 1
"""Greatest whole number, either side of zero: no reader of an answer, and no store, has to know longer ones."""
_TOO_LONG: Final = "must not hold a whole number of more than 64 bits"


class TooMuch(NamedTuple):
    """A field that holds more than may be written, and what its bound is."""

    field: str
    message: str


def too_much(item: Record | Vertex) -> TooMuch | None:
    """Return the first field of a record or vertex that holds more than may be written; None if there is none."""
    if len(item.aliases) > MAX_ALIASES:
        return TooMuch("aliases", f"must not hold more than {MAX_ALIASES} items")
    return _too_much_in(item) if isinstance(item, Record) else None


def _too_much_in(record: Record) -> TooMuch | None:
    if len(record.content.encode()) > MAX_CONTENT_BYTES:
        return TooMuch("content", f"must not be longer than {MAX_CONTENT_BYTES:,} bytes; write it in parts")
    if len(json.dumps(record.content)) > MAX_CONTENT_JSON:
        return TooMuch("content", f"must not be longer than {MAX_CONTENT_JSON:,} characters as JSON of ASCII alone")
    if len(record.embeddings) > MAX_EMBEDDINGS:
        return TooMuch("embeddings", f"must not hold more than {MAX_EMBEDDINGS} items")
    if any(embedding.dimension > MAX_VECTOR_VALUES for embedding in record.embeddings):
        return TooMuch("embeddings", f"holds a vector of more than {MAX_VECTOR_VALUES:,} values")
    for field, number in (
        ("source.page", record.source.page),
        ("source.chunk_index", record.source.chunk_index),
        ("schema_version", record.schema_version),
    ):
        if number is not None and number > MAX_WHOLE:
            return TooMuch(field, _TOO_LONG)
    message = _too_much_metadata(record.metadata)
    return TooMuch("metadata", message) if message else None


def _too_much_metadata(metadata: Mapping[str, object]) -> str | None:
    if len(metadata) > MAX_METADATA_KEYS:
        return f"must not hold more than {MAX_METADATA_KEYS} keys"
    total = 0
    for place, (key, value) in enumerate(metadata.items(), start=1):
        if isinstance(value, int) and abs(value) > MAX_WHOLE:
            return f"key {place}: {_TOO_LONG}"
        key_bytes, value_bytes = len(key.encode()), len(str(value).encode())
        if key_bytes > MAX_METADATA_KEY_BYTES:
            return f"key {place} is longer than {MAX_METADATA_KEY_BYTES} bytes"
        if value_bytes > MAX_METADATA_VALUE_BYTES:
            return f"the value of key {place} is longer than {MAX_METADATA_VALUE_BYTES:,} bytes"
        total += key_bytes + value_bytes
    return f"must not be longer than {MAX_METADATA_BYTES:,} bytes in all" if total > MAX_METADATA_BYTES else None
