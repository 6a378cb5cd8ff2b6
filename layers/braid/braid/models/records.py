"""Records of the search index; vertices and relationships of the knowledge graph."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import AfterValidator, FailFast, Field, StringConstraints, model_validator

from braid.models.enums import Kind
from braid.models.scalars import (
    Frozen,
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
)

MENTIONS: Final = "MENTIONS"
"""Relationship type from what is mentioned to the record that mentions it; against its wording, so walked both ways."""


class SourceType(StrEnum):
    """Where a record's text comes from, for its citation."""

    DOCUMENT = "document"
    QA = "qa"
    CHAT = "chat"


class SourceRef(Frozen):
    """Where a record's text comes from. Explicit fields win over what its id or description says."""

    type: SourceType | None = None
    title: Name | None = None
    page: Annotated[int, Field(ge=0)] | None = None
    chunk_index: Annotated[int, Field(ge=0)] | None = None
    description: Annotated[str, StringConstraints(max_length=2_000)] | None = None


class Embedding(Frozen):
    """One vector and the model it belongs to."""

    space: Name
    model_id: Name
    vector: VectorBytes

    @property
    def dimension(self) -> int:
        """Number of float32 values."""
        return len(self.vector) // 4


class NewRecord(Frozen):
    """A record as its tenant gives it."""

    id: RecordId
    kind: Kind = Kind.CHUNK
    entity_type: Label | None = None
    name: Name | None = None
    aliases: Annotated[tuple[Name, ...], FailFast()] = ()
    content: Text = ""
    embeddings: Annotated[tuple[Embedding, ...], FailFast()] = ()
    """Vectors that the record brings, where the settings allow it; the models make the others."""
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
    """Whether a model may be shown it; of what is not, a context has nothing unless asked. Written where False only."""
    supersedes: Annotated[tuple[RecordId, ...], Field(max_length=100), FailFast()] = ()
    """Records that this one supersedes."""

    @model_validator(mode="after")
    def _interval_is_ordered(self) -> Self:
        if self.valid_at and self.invalid_at and self.invalid_at < self.valid_at:
            message = "invalid_at is before valid_at"
            raise ValueError(message)
        if len({embedding.space for embedding in self.embeddings}) != len(self.embeddings):
            message = "embeddings holds two vectors of one space"
            raise ValueError(message)
        return self

    def text(self) -> str:
        """Return what is embedded and matched: the name or title, then the content."""
        title = self.name or self.source.title
        return f"{title}\n{self.content}" if title and self.content else title or self.content


class Record(NewRecord):
    """One row of the search index."""

    tenant_id: TenantId
    access_count: Annotated[int, Field(ge=0)] = 0
    supplied_spaces: tuple[Name, ...] = Field(default=(), exclude_if=lambda spaces: not spaces)
    """Embedding spaces whose vector came with the record, and so was not made by the space's model."""
    content_hash: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Of the record as it was given to be written; see :func:`braid.ingestion.writing.content_hash`."""


class NewVertex(Frozen):
    """A vertex as its tenant gives it."""

    id: RecordId
    entity_type: Label = "Concept"
    name: Name | None = None
    aliases: Annotated[tuple[Name, ...], FailFast()] = ()
    timestamp: Timestamp | None = None
    valid_at: Timestamp | None = None
    invalid_at: Timestamp | None = None


class Vertex(NewVertex):
    """One vertex of the knowledge graph: an entity, or a record that edges lead to."""

    tenant_id: TenantId
    has_record: bool = False
    """Whether the search index holds a record of this id, so that it can be an answer."""
    trusted: Annotated[bool, Field(strict=True, exclude_if=lambda trusted: trusted)] = True
    """Whether the record is; walks of what is trusted alone neither go through the vertex nor reach it."""
    found: Annotated[bool, Field(strict=True, exclude_if=lambda found: not found)] = False
    """Whether it is a name that was found in texts, and not given; it is removed with the last text that has it."""


class RelationshipKey(Frozen):
    """What identifies an edge within its tenant; no predicate and an empty one are the same."""

    source: RecordId
    type: Label
    target: RecordId
    predicate: Annotated[str, StringConstraints(max_length=512), AfterValidator(no_controls)] | None = None

    def identity(self) -> tuple[str, str, str, str]:
        """Return the four as they are compared."""
        return (self.source, self.type, self.target, self.predicate or "")


class NewRelationship(Frozen):
    """An edge as its tenant gives it."""

    source: RecordId
    type: Label
    target: RecordId
    confidence: Score = 1.0
    timestamp: Timestamp | None = None
    valid_at: Timestamp | None = None
    invalid_at: Timestamp | None = None
    evidence: RecordId | None = None
    predicate: Annotated[str, StringConstraints(max_length=512), AfterValidator(no_controls)] | None = None
    trusted: Annotated[bool, Field(strict=True, exclude_if=lambda trusted: trusted)] = True
    """Whether walks of what is trusted alone follow it; an edge whose evidence is not trusted is stored as False."""
    supersedes: Annotated[tuple[RelationshipKey, ...], Field(max_length=100), FailFast()] = ()
    """Edges that this one supersedes. An instruction to the write; no graph stores it."""

    def identity(self) -> tuple[str, str, str, str]:
        """Return what it is identified by within its tenant: source, type, target and predicate."""
        return (self.source, self.type, self.target, self.predicate or "")


class Relationship(NewRelationship):
    """One edge. Its identity is (tenant, source, type, target, predicate), so that every write is an upsert."""

    tenant_id: TenantId
    position: Annotated[int, Field(ge=0)] | None = Field(default=None, exclude_if=lambda position: position is None)
    """Of an edge that was found in the text of its evidence: where the name stands, in characters. None if given."""

    @property
    def found(self) -> bool:
        """Whether the edge was found in a text, and not given."""
        return self.position is not None
