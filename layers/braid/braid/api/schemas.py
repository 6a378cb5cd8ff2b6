"""Request and response schemas of the HTTP API that differ from the library's own models."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from pydantic import (
    BeforeValidator,
    FailFast,
    Field,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from braid.ingestion.inline_writes import MAX_INLINE
from braid.models import (
    Citation,
    Frozen,
    GraphHit,
    Kind,
    Label,
    NewRecord,
    NewRelationship,
    NewVertex,
    Plan,
    QueryText,
    Record,
    RecordId,
    Score,
    Source,
    TenantId,
    Text,
    TimeRange,
    Timestamp,
    Weights,
)
from braid.models.enums_and_scalars import AskedTime, MetadataValue, on_one_line
from braid.models.metadata_filters import Conditions
from braid.ports.graph_query import GraphQuestion
from braid.ports.ingestion import Import, ImportAsked, ImportName, ImportStatus, MissingEnds
from braid.ports.members import Role
from braid.ports.schema_registry import SchemaVersion
from braid.reembedding.jobs import Phase, ReembeddingJob, Status
from braid.retrieval.stages.answer_size import beginning

if TYPE_CHECKING:
    from collections.abc import Iterable

    from braid.ports.knowledge_graph import GraphStats
    from braid.ports.search_index import IndexStats

MAX_RECORD_BYTES: Final = 5_900_000
"""Size limit of a single record in a response, by :func:`sent_bytes`; the longest accepted text and metadata fit."""
MAX_RECORDS_BYTES: Final = 5_200_000
"""Size limit of several records in a response together; the rest of the response holds stubs of further records."""
MAX_SUPERSEDED: Final = 1_000
"""Limit of superseded records and relationships that one request may name; each of them is rewritten."""
_MAX_LISTED_CHARACTERS: Final = 512
"""Limit of a document's file name and format in a list, so that any page of documents fits into a response."""


class SemanticQuestion(Frozen):
    """A search by vectors and BM25 only, without the graph."""

    text: QueryText
    entity_types: Annotated[tuple[Label, ...], Field(max_length=100), FailFast()] = ()
    time_range: TimeRange | None = None
    metadata: Conditions = ()
    """Conditions on metadata fields, as in ``filters.metadata`` of a search."""
    limit: Annotated[int, Field(strict=True, ge=1, le=50)] = 10
    min_similarity: Score | None = None
    as_of: AskedTime | None = None


class GraphRequest(GraphQuestion):
    """A graph traversal, on the graph as it is now or as of a moment."""

    as_of: AskedTime | None = None


class EntityId(Frozen):
    """Id of the entity or record to read."""

    id: RecordId


class Entity(Frozen):
    """A record, or for a vertex without a record its name and type."""

    id: RecordId
    kind: Kind | None
    """Kind of the record; null for a vertex without one."""
    entity_type: Label | None
    name: str | None
    aliases: tuple[str, ...] = ()
    found: bool = False
    """Whether the entity was extracted from texts, not given by a writer."""
    content: str = ""
    schema_version: int | None = None
    timestamp: Timestamp | None = None
    valid_at: Timestamp | None = None
    invalid_at: Timestamp | None = None
    citation: Citation | None = None
    metadata: dict[str, MetadataValue] = Field(default_factory=dict)
    trusted: bool = True
    """False if its writer marked it as untrusted: its text should not reach a model that acts on what it reads."""
    shortened: bool = False
    """Whether metadata, aliases and the end of the content were left out to fit the response."""

    def fitting(self) -> Self:
        """Return the entity, shortened if it does not fit into a response."""
        if sent_bytes(self) <= MAX_RECORD_BYTES:
            return self
        shorter = {"content": beginning(self.content, MAX_RECORDS_BYTES // 2), "aliases": (), "metadata": {}}
        return self.altered(**shorter, shortened=True)


class EntitySummary(Frozen):
    """A named entity of the graph, in a list."""

    id: RecordId
    name: str
    entity_type: Label
    found: bool = False
    """Whether the entity was extracted from texts, not given by a writer."""
    trusted: bool = True
    relations: int = 0
    """Number of its edges, except edges whose source vertex is on another page."""


class EntityPage(Frozen):
    """A page of named entities of the graph, those with most edges first."""

    entities: tuple[EntitySummary, ...]
    next: str | None = None
    """Cursor of the next page, for ``after``; null on the last page."""


class Related(Frozen):
    """Entities related to one entity, fewest hops first."""

    hits: tuple[GraphHit, ...]
    truncated: bool = False
    """Whether a vertex had more edges than the fan-out budget, so that further entities may be related."""

    def __repr__(self) -> str:
        """Return a line for each: score, path and id."""
        lines = [on_one_line(f"{hit.score:.2f} · {hit.path} · [{hit.id}]") for hit in self.hits]
        return "\n".join([*lines, *(["(and more)"] if self.truncated else [])]) or "(nothing related)"

    __str__ = __repr__


class Writes(Frozen):
    """Items to write in one request: all of them, or none if one is invalid."""

    records: Annotated[tuple[NewRecord, ...], Field(max_length=100)] = ()
    vertices: Annotated[tuple[NewVertex, ...], Field(max_length=100)] = ()
    relationships: Annotated[tuple[NewRelationship, ...], Field(max_length=100)] = ()
    stub_missing_ends: Annotated[bool, Field(strict=True)] = False
    """Whether a missing end of an edge is created as a vertex without a name; otherwise such an edge is invalid."""

    @model_validator(mode="after")
    def _is_something(self) -> Self:
        if not 1 <= self.size() <= MAX_INLINE:
            message = (
                f"holds {self.size()} records, vertices and relationships together; 1 to {MAX_INLINE} can be written"
            )
            raise ValueError(message)
        superseded = [*(one.supersedes for one in self.records), *(one.supersedes for one in self.relationships)]
        if sum(map(len, superseded)) > MAX_SUPERSEDED:
            raise ValueError(f"supersedes more than {MAX_SUPERSEDED:,} records and relationships; write it in parts")
        return self

    def size(self) -> int:
        """Return the number of its items."""
        return len(self.records) + len(self.vertices) + len(self.relationships)


class WriteSummary(Frozen):
    """Counts of a write; see :class:`braid.ports.ingestion.WriteReport`."""

    written: int
    unchanged: int
    embedded: int
    vertices: int
    relationships: int
    superseded: int
    stubs: int


class Deletes(Frozen):
    """Ids of records, or of vertices without a record, to delete permanently."""

    ids: Annotated[tuple[RecordId, ...], Field(min_length=1, max_length=100), FailFast()]


class ImportRequest(Frozen):
    """An object of the tenant to import: JSON Lines, one record, entity or relationship a line."""

    key: Annotated[Text, Field(min_length=1, max_length=1_024)]
    """Its key in the object store, without the tenant's prefix."""
    stub_missing_ends: Annotated[bool, Field(strict=True)] = False
    """Whether a missing end of an edge is created as a vertex without a name; otherwise such an edge is invalid."""

    def asked(self) -> ImportAsked:
        """Return the request as the library's own type."""
        return ImportAsked(key=self.key, missing=MissingEnds.STUB if self.stub_missing_ends else MissingEnds.REFUSE)


def sent_bytes(summary: Frozen) -> int:
    """Return the size of a model as doubly encoded JSON, in bytes: Lambda returns a response body as a JSON string."""
    return len(json.dumps(json.dumps(summary.model_dump(mode="json"))))


def _decoded(value: object) -> object:
    """Decode base64; raise ValueError if it is malformed. A value that is not a string is returned as it is."""
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise ValueError("is not base64") from None


FileContent = Annotated[
    bytes,
    BeforeValidator(_decoded),
    PlainSerializer(lambda content: base64.b64encode(content).decode(), return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "contentEncoding": "base64", "minLength": 1}),
]
"""A file's bytes; base64 in JSON."""


class DocumentRequest(Frozen):
    """A document to read, cut into chunks and write."""

    name: Annotated[Text, Field(min_length=1, max_length=512)]
    """Its path, such as ``handbook/gates.pdf``, by which it is cited. Posting the same name again replaces it."""
    content: Annotated[FileContent, Field(min_length=1)]
    """The file, in base64."""
    metadata: dict[str, Any] | None = None
    """What a metadata file beside it would have: the fields of front matter, or ``metadataAttributes`` as Amazon
    Bedrock Knowledge Bases have them."""


class DocumentSummary(Frozen):
    """A document in a list, described by its first record."""

    id: RecordId
    """The part of its records' ids before the ``#``; the parameter ``document`` of ``GET /records``."""
    title: str
    file: str | None = None
    format: str | None = None
    updated_at: Timestamp | None = None
    """Last modification of its file."""
    timestamp: Timestamp | None = None
    """The time that it is about."""
    trusted: bool = True

    @classmethod
    def of(cls, record: Record) -> Self:
        """Return the document of a record."""
        values = ((name, record.metadata.get(name)) for name in ("file", "format"))
        said = {name: value[:_MAX_LISTED_CHARACTERS] for name, value in values if isinstance(value, str)}
        identity = record.document_id
        return cls(
            id=identity,
            title=record.source.title or record.name or identity,
            updated_at=record.updated_at,
            timestamp=record.timestamp,
            trusted=record.trusted,
            **said,
        )


class DocumentPage(Frozen):
    """A page of a tenant's documents, in the order of their ids."""

    documents: tuple[DocumentSummary, ...]
    next: str | None = None
    """Cursor of the next page, for ``after``; null on the last page."""


class ImportSummary(Frozen):
    """Status of an import, and its counts once it has ended."""

    id: ImportName
    status: ImportStatus
    error: str | None = None
    """Name of the error with which it failed, such as ``ObjectMissing``; starting it again is safe."""
    lines: int = 0
    written: int = 0
    unchanged: int = 0
    embedded: int = 0
    relationships: int = 0
    superseded: int = 0
    errors: int = 0
    """Number of invalid lines, which were left out."""
    report_key: str | None = None
    """Key of the object with a line of JSON for each invalid line."""
    reasons: tuple[str, ...] = ()
    """Error messages of the first invalid lines."""

    @classmethod
    def of(cls, found: Import, reasons: Iterable[str] = ()) -> Self:
        """Return the fields of an import that its tenant may see."""
        told = {"id": found.id, "status": found.status, "error": found.error, "reasons": tuple(reasons)}
        return cls.taken_from(found.report, **told, lines=found.report.job.lines) if found.report else cls(**told)


class RecordSummary(NewRecord):
    """A stored record, without its vectors."""

    content_hash: str | None = None
    supplied_spaces: tuple[str, ...] = ()
    """Embedding spaces whose vector was supplied with the record, not made by the space's model."""
    shortened: bool = False
    """Whether content, aliases and metadata were left out, because the record does not fit into a response."""

    def stub(self) -> Self:
        """Return the record without its long fields."""
        left_out = {"content": "", "aliases": (), "metadata": {}, "supersedes": (), "shortened": True}
        return self.altered(**left_out)

    @classmethod
    def of(cls, record: Record) -> Self:
        """Return the summary of a record; the tenant, which the caller knows, is left out."""
        return cls.taken_from(record, embeddings=())


class RecordPage(Frozen):
    """A page of a tenant's records, in the order of their ids."""

    records: tuple[RecordSummary, ...]
    next: str | None = None
    """Cursor of the next page, for ``after``; null on the last page."""


class RecordIds(Frozen):
    """Ids of records to read."""

    ids: Annotated[tuple[RecordId, ...], Field(min_length=1, max_length=20), FailFast()]


class Stats(Frozen):
    """Counts of a tenant's records, vertices and relationships."""

    records: int
    vertices: int
    """Number of the graph's vertices: entities, and records with edges."""
    relationships: int
    by_kind: dict[Kind, int] = Field(default_factory=dict)
    by_entity_type: dict[Label, int] = Field(default_factory=dict)
    """Number of records of each entity type."""
    by_vertex_type: dict[Label, int] = Field(default_factory=dict)
    """Number of the graph's vertices of each entity type, with a record or without one."""
    by_relationship_type: dict[Label, int] = Field(default_factory=dict)

    @classmethod
    def of(cls, index: IndexStats, graph: GraphStats) -> Self:
        """Return the counts of both stores."""
        return cls(
            records=index.records,
            vertices=graph.vertices,
            relationships=graph.edges,
            by_kind=index.by_kind,
            by_entity_type=index.by_entity_type,
            by_vertex_type=graph.by_entity_type,
            by_relationship_type=graph.by_relationship_type,
        )


class NewSchema(Frozen):
    """The next version of a tenant's schema."""

    version: Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
    entity_types: Annotated[tuple[Label, ...], Field(max_length=1_000), FailFast()] = ()
    relationship_types: Annotated[tuple[Label, ...], Field(max_length=1_000), FailFast()] = ()
    changes: Annotated[Text, StringConstraints(max_length=10_000)] = ""

    def same_as(self, known: SchemaVersion) -> bool:
        """Return whether a registered version has the same content."""
        return all(getattr(known, name) == value for name, value in self)


class Schemas(Frozen):
    """Every version of a tenant's schema."""

    current: int
    """The version against which the drift of records is measured; 1 if none is registered."""
    versions: tuple[SchemaVersion, ...]


class Reembed(Frozen):
    """Request to re-embed the outdated records of the caller's tenant; it has no parameters."""


class ReembedJob(Frozen):
    """A job that re-embeds a tenant's outdated records in steps; a repeated request resumes the same job."""

    name: str
    status: Status
    phase: Phase
    written: int
    total: int
    """Number of outdated records when it began."""

    @classmethod
    def of(cls, job: ReembeddingJob) -> Self:
        """Return the fields of a job that its tenant may see."""
        return cls.taken_from(job)


class TraceResult(Frozen):
    """Ranks and scores of one result at each stage, without its text."""

    id: RecordId
    rank: int
    fused_rank: int
    final: Score
    relevance: Score
    combined_score: Score
    vector_score: Score | None
    vector_supplied: bool = False
    """Whether the vector that found it was supplied with the record."""
    lexical_score: Score | None
    graph_score: Score | None
    rerank_score: Score | None
    ranks: dict[Source, int]
    sources: tuple[Source, ...]
    path_ids: tuple[tuple[RecordId, ...], ...]
    path_types: tuple[tuple[Label, ...], ...]


class Trace(Frozen):
    """The explanation of one answer, stage by stage. It has no text unless the operator allows questions in logs."""

    trace_id: str
    asked_at: Timestamp
    question: str | None = None
    plan: Plan
    weights: Weights
    counts: dict[str, int]
    superseded: int
    truncated: bool
    degraded: tuple[str, ...]
    latency_ms: dict[str, float]
    rerank_cost_usd: float
    results: tuple[TraceResult, ...]


class TenantAccess(Frozen):
    """A tenant that the caller belongs to, and the caller's role in it."""

    tenant_id: TenantId
    role: Role


class Access(Frozen):
    """Tenant and role of the caller in this request, all tenants of the caller, and the size limit of requests."""

    tenant_id: TenantId
    """The tenant of this request."""
    role: Role
    tenants: tuple[TenantAccess, ...]
    """All tenants that the caller may name, in the order of their names."""
    max_body_bytes: int
    """Size limit of a request's body, in bytes."""


class Health(Frozen):
    """Health check of the function. No store is queried, so that frequent checks cost nothing."""

    status: str
    version: str
