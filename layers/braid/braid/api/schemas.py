"""Request and response schemas of the HTTP API that differ from the library's own models."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Annotated, Final, Self

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
from braid.models.metadata_filters import Conditions
from braid.ports.graph_query import GraphQuestion
from braid.ports.ingestion import Import, ImportAsked, ImportName, ImportStatus, MissingEnds
from braid.ports.members import Role
from braid.ports.schema_registry import SchemaVersion
from braid.reembedding.jobs import Phase, ReembeddingJob, Status
from braid.retrieval.stages.results_and_citations import beginning

if TYPE_CHECKING:
    from collections.abc import Iterable

    from braid.ports.knowledge_graph import GraphStats
    from braid.ports.search_index import IndexStats

MAX_RECORD_BYTES: Final = 5_900_000
"""Of one record alone in an answer, as :func:`sent_bytes` counts it; the longest accepted text and metadata fit."""
MAX_RECORDS_BYTES: Final = 5_200_000
"""Of several records in an answer together, which leaves place for stubs of others."""
MAX_SUPERSEDED: Final = 1_000
"""Records and relationships that the items of one request may name as superseded: each is written again."""
_LISTED: Final = 512
"""Most characters that a list says of a document's file and format: a page of any documents fits into an answer."""


class SemanticQuestion(Frozen):
    """A search by meaning and words alone, without the graph."""

    text: QueryText
    entity_types: Annotated[tuple[Label, ...], Field(max_length=100), FailFast()] = ()
    time_range: TimeRange | None = None
    metadata: Conditions = ()
    """Conditions on fields of the metadata, as of a search's ``filters``."""
    limit: Annotated[int, Field(strict=True, ge=1, le=50)] = 10
    min_similarity: Score | None = None
    as_of: Timestamp | None = None


class GraphRequest(GraphQuestion):
    """A traversal, as the graph is now or was at a moment."""

    as_of: Timestamp | None = None


class EntityId(Frozen):
    """Which entity or record is read."""

    id: RecordId


class Entity(Frozen):
    """One record by its id; of a vertex that has no record, its name and type."""

    id: RecordId
    kind: Kind | None
    """What the record is; null of a vertex that has none."""
    entity_type: Label | None
    name: str | None
    aliases: tuple[str, ...] = ()
    found: bool = False
    """Whether it is a name that was found in texts, and not given."""
    content: str = ""
    schema_version: int | None = None
    timestamp: Timestamp | None = None
    valid_at: Timestamp | None = None
    invalid_at: Timestamp | None = None
    citation: Citation | None = None
    metadata: dict[str, str | int | float | bool | None] = Field(default_factory=dict)
    trusted: bool = True
    """False of a record that whoever wrote it marked so: its text is not for a model that acts on what it reads."""
    shortened: bool = False
    """Whether metadata, aliases and the end of the content were left out, as an answer may not hold them."""

    def fitting(self) -> Self:
        """Return the entity, shortened where it is too long to be answered."""
        if sent_bytes(self) <= MAX_RECORD_BYTES:
            return self
        shorter = {"content": beginning(self.content, MAX_RECORDS_BYTES // 2), "aliases": (), "metadata": {}}
        return self.model_copy(update={**shorter, "shortened": True})


class EntitySummary(Frozen):
    """A named entity of the graph, in a list."""

    id: RecordId
    name: str
    entity_type: Label
    found: bool = False
    """Whether it is a name that was found in texts, and not given."""
    trusted: bool = True
    relations: int = 0
    """Edges of the graph that it is an end of, those apart that lead to it from a vertex of another page."""


class EntityPage(Frozen):
    """The named entities among some vertices of the graph, the best connected first."""

    entities: tuple[EntitySummary, ...]
    next: str | None = None
    """Ask again with this as ``after``; none when these are the last."""


class Related(Frozen):
    """What stands in relation to an entity, the nearest first."""

    hits: tuple[GraphHit, ...]
    truncated: bool = False
    """Whether a hub's fan-out budget cut the walk short."""

    def __repr__(self) -> str:
        """Return a line for each: score, path and id."""
        lines = [f"{hit.score:.2f} · {hit.path} · [{hit.id}]" for hit in self.hits]
        return "\n".join([*lines, *(["(and more)"] if self.truncated else [])]) or "(nothing related)"

    __str__ = __repr__


class Writes(Frozen):
    """What is written at once; all of it, or nothing if an item is wrong."""

    records: Annotated[tuple[NewRecord, ...], Field(max_length=100)] = ()
    vertices: Annotated[tuple[NewVertex, ...], Field(max_length=100)] = ()
    relationships: Annotated[tuple[NewRelationship, ...], Field(max_length=100)] = ()
    stub_missing_ends: Annotated[bool, Field(strict=True)] = False
    """Whether a vertex without a name is made where an edge leads to nothing stored; else such an edge is wrong."""

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
    """What a write did; see :class:`braid.ports.ingestion.WriteReport`."""

    written: int
    unchanged: int
    embedded: int
    vertices: int
    relationships: int
    superseded: int
    stubs: int


class Deletes(Frozen):
    """Records to be removed for good, or vertices without one."""

    ids: Annotated[tuple[RecordId, ...], Field(min_length=1, max_length=100), FailFast()]


class ImportRequest(Frozen):
    """An object of the tenant's to be written, a line of JSON for each record, entity or relationship."""

    key: Annotated[Text, Field(min_length=1, max_length=1_024)]
    """Its key in the object store, without the tenant's name in front."""
    stub_missing_ends: Annotated[bool, Field(strict=True)] = False
    """Whether a vertex without a name is made where an edge leads to nothing stored; else such an edge is wrong."""

    def asked(self) -> ImportAsked:
        """Return the request as the library takes it."""
        return ImportAsked(key=self.key, missing=MissingEnds.STUB if self.stub_missing_ends else MissingEnds.REFUSE)


def sent_bytes(summary: Frozen) -> int:
    """Return the bytes of what an answer says, as JSON in a string of JSON: so Lambda returns the body of an answer."""
    return len(json.dumps(json.dumps(summary.model_dump(mode="json"))))


def _decoded(value: object) -> object:
    """Return the bytes of base64; raise ValueError if it is none."""
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
    """A document that is to be read, cut into chunks and written."""

    name: Annotated[Text, Field(min_length=1, max_length=512)]
    """Its path, such as ``handbook/gates.pdf``: what it is cited by. Posted again it replaces what it said before."""
    content: Annotated[FileContent, Field(min_length=1)]
    """The file, in base64."""


class DocumentSummary(Frozen):
    """A document in a list, described by its first record."""

    id: RecordId
    """Its records' ids up to a ``#``; ``GET /records`` gives them by it."""
    title: str
    file: str | None = None
    format: str | None = None
    updated_at: Timestamp | None = None
    """When its file was last changed."""
    timestamp: Timestamp | None = None
    """The moment that it is about."""
    trusted: bool = True

    @classmethod
    def of(cls, record: Record) -> Self:
        """Return the document that a record is of."""
        values = ((name, record.metadata.get(name)) for name in ("file", "format"))
        said = {name: value[:_LISTED] for name, value in values if isinstance(value, str)}
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
    """Some of a tenant's documents, in the order of their ids."""

    documents: tuple[DocumentSummary, ...]
    next: str | None = None
    """Ask again with this as ``after``; none when these are the last."""


class ImportSummary(Frozen):
    """How far writing an object is, and once it ended what became of its lines."""

    id: ImportName
    status: ImportStatus
    error: str | None = None
    """What it failed with, such as ``ObjectMissing``; starting it again is safe."""
    lines: int = 0
    written: int = 0
    unchanged: int = 0
    embedded: int = 0
    relationships: int = 0
    superseded: int = 0
    errors: int = 0
    """Lines that are wrong and were left out."""
    report_key: str | None = None
    """The object with a line of JSON for each of them."""
    reasons: tuple[str, ...] = ()
    """What is wrong with the first of them."""

    @classmethod
    def of(cls, found: Import, reasons: Iterable[str] = ()) -> Self:
        """Return the part of an import's state that its tenant may see."""
        told = {"id": found.id, "status": found.status, "error": found.error, "reasons": tuple(reasons)}
        return cls.taken_from(found.report, **told, lines=found.report.job.lines) if found.report else cls(**told)


class RecordSummary(NewRecord):
    """A record as it is stored, without its vectors."""

    content_hash: str | None = None
    supplied_spaces: tuple[str, ...] = ()
    """Embedding spaces whose vector came with the record, and so was not made by the space's model."""
    shortened: bool = False
    """Whether content, aliases and metadata were left out, as older versions wrote more than an answer may hold."""

    def stub(self) -> Self:
        """Return the record without what may be long."""
        left_out = {"content": "", "aliases": (), "metadata": {}, "supersedes": (), "shortened": True}
        return self.model_copy(update=left_out)

    @classmethod
    def of(cls, record: Record) -> Self:
        """Return a record without its tenant, which the caller knows."""
        return cls.taken_from(record, embeddings=())


class RecordPage(Frozen):
    """Some of a tenant's records, in the order of their ids."""

    records: tuple[RecordSummary, ...]
    next: str | None = None
    """Ask again with this as ``after``; none when these are the last."""


class RecordIds(Frozen):
    """Records to be read whole."""

    ids: Annotated[tuple[RecordId, ...], Field(min_length=1, max_length=20), FailFast()]


class Stats(Frozen):
    """How much is stored of a tenant."""

    records: int
    vertices: int
    """Of the graph: entities, and records that edges lead to."""
    relationships: int
    by_kind: dict[Kind, int] = Field(default_factory=dict)
    by_entity_type: dict[Label, int] = Field(default_factory=dict)
    """Records of each entity type."""
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
            by_relationship_type=graph.by_relationship_type,
        )


class NewSchema(Frozen):
    """The next version of a tenant's schema."""

    version: Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
    entity_types: Annotated[tuple[Label, ...], Field(max_length=1_000), FailFast()] = ()
    relationship_types: Annotated[tuple[Label, ...], Field(max_length=1_000), FailFast()] = ()
    changes: Annotated[Text, StringConstraints(max_length=10_000)] = ""

    def same_as(self, known: SchemaVersion) -> bool:
        """Whether a registered version says the same."""
        return all(getattr(known, name) == value for name, value in self)


class Schemas(Frozen):
    """Every version of a tenant's schema."""

    current: int
    """The version that records are measured against; 1 when none is registered."""
    versions: tuple[SchemaVersion, ...]


class Reembed(Frozen):
    """Embed again what is outdated of the caller's tenant; there is nothing to choose."""


class ReembedJob(Frozen):
    """A job that embeds a tenant's outdated records, a step at a time; asking again goes on with the same one."""

    name: str
    status: Status
    phase: Phase
    written: int
    total: int
    """Records that were outdated when it began."""

    @classmethod
    def of(cls, job: ReembeddingJob) -> Self:
        """Return the part of a job's state that its tenant may see."""
        return cls.taken_from(job)


class TraceResult(Frozen):
    """Where one result stood at each stage; no text of it."""

    id: RecordId
    rank: int
    fused_rank: int
    final: Score
    relevance: Score
    combined_score: Score
    vector_score: Score | None
    vector_supplied: bool = False
    """Whether the vector that found it came with the record."""
    lexical_score: Score | None
    graph_score: Score | None
    rerank_score: Score | None
    ranks: dict[Source, int]
    sources: tuple[Source, ...]
    path_ids: tuple[tuple[RecordId, ...], ...]
    path_types: tuple[tuple[Label, ...], ...]


class Trace(Frozen):
    """How one answer came about. It holds no text, unless an operator lets logs hold the text of questions."""

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
    """A tenant that the caller belongs to, and what may be done there."""

    tenant_id: TenantId
    role: Role


class Access(Frozen):
    """Who the caller is to the interface."""

    tenant_id: TenantId
    """The tenant that this request is of."""
    role: Role
    tenants: tuple[TenantAccess, ...]
    """All that the caller may name, in the order of their names."""
    max_body_bytes: int
    """Most bytes of a request's body."""


class Health(Frozen):
    """That the function runs. It asks no store: whoever checks health often must not cost a query each time."""

    status: str
    version: str
