"""Records, vertices and relationships, and their size limits."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, Self, TypeAlias
from unicodedata import normalize

from pydantic import AfterValidator, FailFast, Field, StringConstraints, model_validator
from pydantic.json_schema import SkipJsonSchema

from braid.models.enums_and_scalars import (
    Frozen,
    Kind,
    Label,
    MetadataValue,
    Name,
    RecordId,
    Score,
    TenantId,
    Text,
    Timestamp,
    VectorBytes,
    no_controls,
    values_in,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


MENTIONS: Final = "MENTIONS"
"""Type of a mention's edge: from the entity to the record that mentions it. That is against the verb's direction, so
that "mentions" in a question is walked both ways."""
SUPERSEDES: Final = "SUPERSEDES"
"""Type of the edges from a record to the records that it supersedes."""
FOUND_PREFIX: Final = "found:"
"""Id prefix of the vertices of found names; no given id has it."""
DOCUMENT_TYPE: Final = "Document"
"""Entity type of the vertex of a record without one, unless that is an entity's."""
DEFAULT_ENTITY_TYPE: Final = "Concept"
"""Entity type of a vertex that is given without one, and of the vertex of an entity's record without one."""
MAX_WHOLE: Final = 2**63 - 1
"""Largest absolute value of an integer, so that it fits 64 bits in every store and in every reader of an answer."""
EdgeId: TypeAlias = tuple[str, str, str, str]
"""Identity of an edge within its tenant: source, type, target and predicate."""
Predicate = Annotated[
    Annotated[str, StringConstraints(max_length=512), AfterValidator(no_controls)] | None,
    AfterValidator(lambda text: text or None),
]
"""What an edge says beyond its type; an empty one is none."""


class SourceType(StrEnum):
    """Type of a record's source, for its citation."""

    DOCUMENT = "document"
    QA = "qa"
    CHAT = "chat"


class SourceRef(Frozen):
    """Source of a record's text. Its fields take precedence over the record's id and description."""

    type: SourceType | None = None
    title: Name | None = None
    page: Annotated[int, Field(ge=0)] | None = None
    chunk_index: Annotated[int, Field(ge=0)] | None = None
    description: Annotated[str, StringConstraints(max_length=2_000)] | None = None


class FurtherPart(Frozen):
    """The vector of a further part of a text that is longer than the encoder's window."""

    start: Annotated[int, Field(ge=1)]
    """Character offset of the part in the text."""
    vector: VectorBytes


class Embedding(Frozen):
    """A text's vector and the model it belongs to; of a long text, the vectors of its parts."""

    space: Name
    model_id: Name
    vector: VectorBytes
    """Vector of the text, or of its first part if it is longer than the encoder's window."""
    further: SkipJsonSchema[tuple[FurtherPart, ...]] = Field(default=(), exclude_if=lambda further: not further)
    """Vectors of the further parts (:mod:`braid.understanding.encoder_windows`), in order. Not for callers."""

    @property
    def dimension(self) -> int:
        """Number of float32 values."""
        return len(self.vector) // 4


class NewRecord(Frozen):
    """A record as a caller gives it."""

    id: RecordId
    kind: Kind = Kind.CHUNK
    entity_type: Label | None = None
    name: Name | None = None
    aliases: Annotated[tuple[Name, ...], FailFast()] = ()
    content: Text = ""
    embeddings: Annotated[tuple[Embedding, ...], FailFast()] = ()
    """Supplied vectors, where the settings allow them; the models make the others."""
    schema_version: Annotated[int, Field(ge=1)] = 1
    created_at: Timestamp | None = None
    updated_at: Timestamp | None = None
    valid_at: Timestamp | None = None
    invalid_at: Timestamp | None = None
    timestamp: Timestamp | None = None
    importance: Score = 0.5
    confidence: Score | None = None
    source: SourceRef = SourceRef()
    task_id: Name | None = None
    tool_name: Name | None = None
    status: Name | None = None
    metadata: dict[Text, MetadataValue] = Field(default_factory=dict)
    trusted: Annotated[bool, Field(strict=True, exclude_if=lambda trusted: trusted)] = True
    """Whether a language model may be shown it; contexts leave out untrusted records unless these are requested.
    Serialised only if False."""
    supersedes: Annotated[tuple[RecordId, ...], Field(max_length=100), FailFast()] = ()
    """Records that this one supersedes."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.valid_at and self.invalid_at and self.invalid_at < self.valid_at:
            raise ValueError("invalid_at is before valid_at")
        if len({embedding.space for embedding in self.embeddings}) != len(self.embeddings):
            raise ValueError("embeddings holds two vectors of one space")
        return self

    @property
    def document_id(self) -> str:
        """Id of the document that it is a chunk of: its own up to a ``#``."""
        return self.id.partition("#")[0] or self.id

    def heading(self) -> str:
        """Return the line that the text begins with: the name or title, or "" where the text is the content alone."""
        return self.name or self.source.title or ""

    def text(self) -> str:
        """Return the text that is embedded and matched: the name or title, then the content."""
        return "\n".join(filter(None, (self.heading(), self.content)))

    def text_from(self, start: int) -> str:
        """Return the heading and the text from a character offset on, at which a further part begins."""
        text, heading = self.text(), self.heading()
        return f"{heading}\n{text[start:]}" if start > len(heading) > 0 else text[start:]

    def content_from(self, start: int) -> int:
        """Convert a character offset in the text to one in the content; 0 for one in the heading."""
        heading = self.heading()
        return max(0, start - len(heading) - 1) if heading else start


class Record(NewRecord):
    """A record of a tenant, as the search index stores it."""

    tenant_id: TenantId
    access_count: Annotated[int, Field(ge=0)] = 0
    """Number of uses stated by its writer; later uses are counted separately, by :mod:`braid.retrieval.use_counts`."""
    supplied_spaces: tuple[Name, ...] = Field(default=(), exclude_if=lambda spaces: not spaces)
    """Embedding spaces whose vector came with the record, and so was not made by the space's model."""
    content_hash: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    """SHA-256 of the record as it was given; see :func:`braid.ingestion.record_vectors.content_hash`."""


class NewVertex(Frozen):
    """A vertex as a caller gives it."""

    id: RecordId
    entity_type: Label = DEFAULT_ENTITY_TYPE
    name: Name | None = None
    aliases: Annotated[tuple[Name, ...], FailFast()] = ()
    timestamp: Timestamp | None = None
    valid_at: Timestamp | None = None
    invalid_at: Timestamp | None = None


class Vertex(NewVertex):
    """One vertex of the knowledge graph: an entity, or a record with edges."""

    tenant_id: TenantId
    has_record: bool = False
    """Whether the search index holds a record of this id, so that it can be an answer."""
    trusted: Annotated[bool, Field(strict=True, exclude_if=lambda trusted: trusted)] = True
    """Whether its record is trusted; a walk with ``trusted_only`` neither passes nor reaches a vertex that is not."""
    found: Annotated[bool, Field(strict=True, exclude_if=lambda found: not found)] = False
    """Whether it is a name that was found in texts, not given; it is removed with the last text that mentions it."""

    @property
    def is_stub(self) -> bool:
        """Whether only its id is known, because only edges name it."""
        return self == Vertex(id=self.id, tenant_id=self.tenant_id, trusted=self.trusted)

    @property
    def is_text(self) -> bool:
        """Whether it is of a text: of a record without an entity type, whose name is its title."""
        return self.has_record and self.entity_type == DOCUMENT_TYPE


class RelationshipKey(Frozen):
    """Identity of an edge within its tenant; a missing predicate equals an empty one."""

    source: RecordId
    type: Label
    target: RecordId
    predicate: Predicate = None

    def identity(self) -> EdgeId:
        """Return the identity as a tuple."""
        return (self.source, self.type, self.target, self.predicate or "")


class NewRelationship(Frozen):
    """An edge as a caller gives it."""

    source: RecordId
    type: Label
    target: RecordId
    confidence: Score = 1.0
    timestamp: Timestamp | None = None
    valid_at: Timestamp | None = None
    invalid_at: Timestamp | None = None
    evidence: RecordId | None = None
    predicate: Predicate = None
    trusted: Annotated[bool, Field(strict=True, exclude_if=lambda trusted: trusted)] = True
    """Whether walks with ``trusted_only`` follow it; stored as False if the edge's evidence is not trusted."""
    supersedes: Annotated[tuple[RelationshipKey, ...], Field(max_length=100), FailFast()] = ()
    """Edges that this one supersedes. An instruction to the write; no graph stores it."""

    def identity(self) -> EdgeId:
        """Return its identity within its tenant."""
        return (self.source, self.type, self.target, self.predicate or "")


class Relationship(NewRelationship):
    """One edge. Its identity is (tenant, source, type, target, predicate), so that every write is an upsert."""

    tenant_id: TenantId
    position: Annotated[int, Field(ge=0, le=MAX_WHOLE)] | None = Field(
        default=None, exclude_if=lambda position: position is None
    )
    """Of an edge that was found in the text of its evidence: the character offset of the name. None of a given edge."""

    @property
    def found(self) -> bool:
        """Whether the edge was found in a text, and not given."""
        return self.position is not None


MAX_CONTENT_BYTES: Final = 1024 * 1024
"""Most bytes of a record's content in UTF-8."""
MAX_CONTENT_JSON: Final = 4_000_000
"""Most characters of a record's content as ASCII-only JSON, as answers have it."""
MAX_METADATA_KEYS: Final = 256
MAX_METADATA_KEY_BYTES: Final = 256
MAX_METADATA_VALUE_BYTES: Final = 16 * 1024
"""Most bytes of one value as text; nested values of an imported line are JSON text."""
MAX_METADATA_LISTED: Final = 1_000
"""Most values in all lists of a record's metadata together: each is an index term."""
MAX_METADATA_BYTES: Final = 64 * 1024
"""Most bytes of all keys and values together."""
MAX_ALIASES: Final = 100
MAX_WRITTEN_OUT: Final = 64
"""Most characters that NFKC normalisation, under which names are compared, may add to a name. One character may become
eighteen, so that a request full of them would hold up other tenants' writes."""
MAX_EMBEDDINGS: Final = 16
MAX_VECTOR_VALUES: Final = 8_192
MAX_TENANT_TYPES: Final = 500
"""Most distinct entity types of a tenant, and relationship types: each is part of the tenant's stored counts."""
WHOLE_TOO_LONG: Final = "must not hold a whole number of more than 64 bits"


class Refusal(NamedTuple):
    """A field that must not be written as it is, and why."""

    field: str
    message: str


def too_much(item: Record | Vertex) -> Refusal | None:
    """Return the first field of a record or vertex that exceeds a size limit; None if there is none."""
    if len(item.aliases) > MAX_ALIASES:
        return Refusal("aliases", f"must not hold more than {MAX_ALIASES} items")
    for field, names in (("name", filter(None, (item.name,))), ("aliases", item.aliases)):
        if any(len(normalize("NFKC", name)) > len(name) + MAX_WRITTEN_OUT for name in names if not name.isascii()):
            message = f"must not get more than {MAX_WRITTEN_OUT} characters longer when its ligatures are written out"
            return Refusal(field, message)
    return _too_much_in(item) if isinstance(item, Record) else None


_MAY_LACK_TEXT: Final = (Kind.ENTITY, Kind.TOOL_CALL)
"""Kinds whose records need no text: an entity has a name, a tool call its tool."""


def no_text(record: Record) -> Refusal | None:
    """Refuse a record without content, title and vector if its kind needs text: it would be near every question."""
    if record.kind in _MAY_LACK_TEXT or record.embeddings or record.text().strip():
        return None
    return Refusal("content", "must not be empty")


def _too_much_in(record: Record) -> Refusal | None:
    if len(record.content.encode()) > MAX_CONTENT_BYTES:
        return Refusal("content", f"must not be longer than {MAX_CONTENT_BYTES:,} bytes; write it in parts")
    if len(json.dumps(record.content)) > MAX_CONTENT_JSON:
        return Refusal("content", f"must not be longer than {MAX_CONTENT_JSON:,} characters as JSON of ASCII alone")
    if len(record.embeddings) > MAX_EMBEDDINGS:
        return Refusal("embeddings", f"must not hold more than {MAX_EMBEDDINGS} items")
    if any(embedding.dimension > MAX_VECTOR_VALUES for embedding in record.embeddings):
        return Refusal("embeddings", f"holds a vector of more than {MAX_VECTOR_VALUES:,} values")
    for field, number in (
        ("source.page", record.source.page),
        ("source.chunk_index", record.source.chunk_index),
        ("schema_version", record.schema_version),
        ("access_count", record.access_count),
    ):
        if number is not None and number > MAX_WHOLE:
            return Refusal(field, WHOLE_TOO_LONG)
    message = _too_much_metadata(record.metadata)
    return Refusal("metadata", message) if message else None


def _too_much_metadata(metadata: Mapping[str, object]) -> str | None:
    if len(metadata) > MAX_METADATA_KEYS:
        return f"must not hold more than {MAX_METADATA_KEYS} keys"
    if sum(len(value) for value in metadata.values() if isinstance(value, list)) > MAX_METADATA_LISTED:
        return f"must not hold more than {MAX_METADATA_LISTED:,} values in lists"
    total = 0
    for place, (key, value) in enumerate(metadata.items(), start=1):
        if any(isinstance(one, int) and abs(one) > MAX_WHOLE for one in values_in(value)):
            return f"key {place}: {WHOLE_TOO_LONG}"
        key_bytes, value_bytes = len(key.encode()), len(str(value).encode())
        if key_bytes > MAX_METADATA_KEY_BYTES:
            return f"key {place} is longer than {MAX_METADATA_KEY_BYTES} bytes"
        if value_bytes > MAX_METADATA_VALUE_BYTES:
            return f"the value of key {place} is longer than {MAX_METADATA_VALUE_BYTES:,} bytes"
        total += key_bytes + value_bytes
    return f"must not be longer than {MAX_METADATA_BYTES:,} bytes in all" if total > MAX_METADATA_BYTES else None
