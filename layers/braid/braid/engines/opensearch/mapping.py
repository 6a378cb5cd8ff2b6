"""Conversion of records to OpenSearch documents and back, and the index's field mappings.

The fields and analyzers are in ``shared/index/records.json``; this module adds the vector fields.
A document is the record's JSON with additional fields: times in microseconds, because OpenSearch's dates have
milliseconds, and one ``knn_vector`` field per embedding space. The vectors of a long text's further parts are in nested
documents, which OpenSearch writes and deletes together with their document.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from datetime import datetime
from typing import TYPE_CHECKING, Any

from braid.errors import ConfigurationError
from braid.models import Embedding, FurtherPart, Record, StoredRecord
from braid.models.enums_and_scalars import microseconds
from braid.models.metadata_terms import terms_of
from braid.settings import OpenSearchService

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from braid.settings import Settings

FIRST_MOMENT = -(2**62)
"""``valid_from_us`` of a record without a beginning."""
LAST_MOMENT = 2**62
"""End in microseconds of a record without one."""
WORDS = "words"
PAIRS = f"{WORDS}.pairs"
"""Each pair of adjacent ideographs as one term: searching for a pair needs no positions of characters in texts."""
_VECTOR = "vector_"
_COSINE = "cosinesimil"
DIGEST = "digest"
"""Hash of the rest of a document, so that an unchanged one is not written again."""
SPACES, MODEL_IDS = "spaces", "model_ids"
"""Embedding spaces and models of a record's vectors."""
CONTENT_HASH = "content_hash"
TRUSTED = "trusted"
"""Written where it is false only."""
IS_UNTRUSTED = {"term": {TRUSTED: False}}
"""The query that only records which are not trusted match."""
VALID_FROM = "valid_from_us"
"""Beginning of the record's validity in microseconds; without one :data:`FIRST_MOMENT`."""
VALID_UNTIL = "valid_until_us"
"""End of the record's validity in microseconds; without one :data:`LAST_MOMENT`."""
DOCUMENT = "document"
"""Title of the source, as a keyword."""
TERMS = "metadata_terms"
"""Terms of the metadata, by which filters find a record; see :mod:`braid.models.metadata_terms`."""
TERMS_PROPERTY = {TERMS: {"type": "keyword"}}
PARTS = "parts"
"""Further parts of a long text: each a nested document with its ``start`` and its vector of one space."""
PART_START = f"{PARTS}.start"
_ADDED = (
    DOCUMENT,
    "timestamp_us",
    VALID_FROM,
    VALID_UNTIL,
    "models",
    SPACES,
    MODEL_IDS,
    TERMS,
    PARTS,
    DIGEST,
)
_PLAIN_SPACE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def document_id(tenant_id: str, record_id: str) -> str:
    """Return the document's id, which begins with the tenant, by which it is routed to a shard.

    OpenSearch limits ids to 512 bytes: a longer record id is replaced by its hash, and stays whole in a field.
    """
    plain = f"{tenant_id}|{record_id}"
    if len(plain.encode()) <= 512:  # noqa: PLR2004 - OpenSearch's own limit
        return plain
    return f"{tenant_id}|sha256|{hashlib.sha256(record_id.encode()).hexdigest()}"


def routing(key: str, settings: Settings) -> dict[str, str]:
    """Return the parameter that sends a document to the shards of its tenant; a serverless collection takes none.

    Parameters
    ----------
    key
        The document's id, or the tenant.
    """
    if settings.opensearch_service is OpenSearchService.SERVERLESS:
        return {}
    return {"routing": key.partition("|")[0]}


def all_of(keys: Iterable[str], settings: Settings) -> dict[str, Any]:
    """Return the body of a request for several documents."""
    return {"docs": [{"_id": key, **routing(key, settings)} for key in keys]}


def vector_field(space: str) -> str:
    """Return the name of an embedding space's field."""
    if _PLAIN_SPACE.fullmatch(space):
        return _VECTOR + space.replace("-", "_")
    return f"{_VECTOR}x_{hashlib.sha256(space.encode()).hexdigest()[:24]}"


def part_field(field: str) -> str:
    """Return the name of the field with the vectors of further parts beside a vector field."""
    return f"{PARTS}.{field}"


def floats(vector: bytes) -> tuple[float, ...]:
    """Read little-endian float32 values."""
    return struct.unpack(f"<{len(vector) // 4}f", vector)


def _short_floats(vector: bytes) -> list[float]:
    """Return float32 values in the fewest digits that distinguish them: they are most of a long text's document."""
    return [float(f"{value:.9g}") for value in floats(vector)]


def packed(values: Sequence[float]) -> bytes:
    """Return values as little-endian float32, which :func:`floats` reads."""
    return struct.pack(f"<{len(values)}f", *values)


def has_direction(vector: bytes) -> bool:
    """Return whether a vector is not all zeros, and so has a cosine with others."""
    return any(vector) and any(floats(vector))


def document(record: Record) -> dict[str, Any]:
    """Return the document of a record."""
    body = record.model_dump(mode="json", exclude={"embeddings"}, exclude_none=False)
    if record.timestamp:
        body["timestamp_us"] = microseconds(record.timestamp)
    body[VALID_FROM] = microseconds(record.valid_at) if record.valid_at else FIRST_MOMENT
    body[VALID_UNTIL] = microseconds(record.invalid_at) if record.invalid_at else LAST_MOMENT
    if record.source.title:
        body[DOCUMENT] = record.source.title
    if terms := terms_of(record.metadata, record.tenant_id):
        body[TERMS] = terms
    body["models"] = {embedding.space: embedding.model_id for embedding in record.embeddings}
    body[SPACES] = sorted(body["models"])
    body[MODEL_IDS] = sorted(set(body["models"].values()))
    for embedding in record.embeddings:
        if has_direction(embedding.vector):
            body[vector_field(embedding.space)] = floats(embedding.vector)
    further = [
        {"start": part.start, vector_field(embedding.space): _short_floats(part.vector)}
        for embedding in record.embeddings
        for part in embedding.further
        if has_direction(part.vector)
    ]
    if further:
        body[PARTS] = further
    body[DIGEST] = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return body


def validity_of(record: Record) -> dict[str, Any]:
    """Return the fields that update a document's validity, with an empty digest."""
    whole = document(record.altered(embeddings=()))
    return {name: whole[name] for name in ("valid_at", "invalid_at", VALID_FROM, VALID_UNTIL)} | {DIGEST: ""}


SOURCE_EXCLUDES = [f"{_VECTOR}*", *_ADDED]


def record_of(source: Mapping[str, Any]) -> Record:
    """Return the record of a document's source, with the vectors that the source includes."""
    own = {name: value for name, value in source.items() if name not in _ADDED and not name.startswith(_VECTOR)}
    own["embeddings"] = [
        Embedding(
            space=space,
            model_id=model_id,
            vector=packed(source[vector_field(space)]),
            further=tuple(
                FurtherPart(start=part["start"], vector=packed(part[vector_field(space)]))
                for part in source.get(PARTS, ())
                if vector_field(space) in part
            ),
        )
        for space, model_id in sorted(source.get("models", {}).items())
        if vector_field(space) in source
    ]
    return Record.model_validate(own)


def stored_record_of(source: Mapping[str, Any]) -> StoredRecord:
    """Return the record of a document's source, parsed on access."""
    valid_at, invalid_at = (source.get(name) for name in ("valid_at", "invalid_at"))
    return StoredRecord(
        lambda: record_of(source),
        source["tenant_id"],
        source["id"],
        schema_version=source["schema_version"],
        valid_at=datetime.fromisoformat(valid_at) if valid_at else None,
        invalid_at=datetime.fromisoformat(invalid_at) if invalid_at else None,
        supplied_spaces=source.get("supplied_spaces", ()),
    )


def index_body(settings: Settings, *, own: bool = False) -> dict[str, Any]:
    """Return the body of an index's creation, from ``index/records.json`` in the shared folder and the settings.

    Raises ConfigurationError if the file is missing or not JSON.

    Parameters
    ----------
    own
        Whether it is for one tenant. Then it has that tenant's shards, and if they are several, one more that stays
        empty: OpenSearch spreads one routing value over fewer shards than there are.
    """
    file = settings.shared_dir / "index" / "records.json"
    try:
        body: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"the index template {file} cannot be read: {error}") from error
    if settings.opensearch_service is OpenSearchService.SERVERLESS:
        # A serverless collection manages shards, replicas and refreshes itself, and refuses settings for them.
        body["settings"]["index"] = {"knn": True}
        del body["mappings"]["_routing"]
        return body
    spread = settings.opensearch_tenant_shards
    shards = (spread + 1 if spread > 1 else 1) if own else settings.opensearch_shards
    body["settings"]["index"] |= settings.opensearch_index_settings | {"number_of_shards": shards}
    if spread > 1:
        body["settings"]["index"]["routing_partition_size"] = spread
    return body


def vector_mapping(dimension: int, settings: Settings) -> dict[str, Any]:
    """Return the mapping of one embedding space's field."""
    mapping: dict[str, Any] = {"type": "knn_vector", "dimension": dimension}
    if settings.opensearch_service is OpenSearchService.SERVERLESS:
        # It chooses engine and method itself (never Lucene's), and compresses vectors by default.
        return {**mapping, "space_type": _COSINE, "compression_level": settings.opensearch_compression or "1x"}
    if settings.opensearch_compression:
        # Compressed vectors in memory, exact ones on disk for rescoring. OpenSearch chooses the engine.
        how = {"mode": "on_disk", "compression_level": settings.opensearch_compression}
        return {**mapping, "space_type": _COSINE, **how}
    parameters = {"m": 16, "ef_construction": 128}
    method = {"name": "hnsw", "engine": str(settings.opensearch_engine), "parameters": parameters}
    # Inside the method: versions before 2.17 refuse it as a sibling.
    return {**mapping, "method": {**method, "space_type": _COSINE}}


def vector_properties(fields: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the properties that declare vector fields, including fields of further parts, from their mappings."""
    within = f"{PARTS}."
    own = {name: field for name, field in fields.items() if not name.startswith(within)}
    nested = {name.removeprefix(within): field for name, field in fields.items() if name.startswith(within)}
    parts = {"type": "nested", "properties": {"start": {"type": "integer"}, **nested}}
    return {**own, PARTS: parts} if nested else own


def dimensions_of(mappings: Mapping[str, Any]) -> dict[str, int]:
    """Return each vector field's dimension from an index's mappings, including fields of further parts."""
    properties = mappings.get("properties", {})
    nested = properties.get(PARTS, {}).get("properties", {})
    return {
        name: int(field["dimension"])
        for name, field in (*properties.items(), *((f"{PARTS}.{name}", field) for name, field in nested.items()))
        if field.get("type") == "knn_vector"
    }
