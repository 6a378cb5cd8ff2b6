"""The shapes that cross a boundary: requests, records, hits, candidates, results, plans.

All are frozen and refuse unknown fields. The shapes that stages hand to one another are in :mod:`braid.stages.states`.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    model_validator,
)


class Frozen(BaseModel):
    """Base of every shape: immutable, strict about its fields, no NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="constants")


# --- scalar types ---------------------------------------------------------------------------------------------------


def _assume_utc(value: object) -> object:
    """Read ISO 8601; a time without a zone is UTC, so that every stored time compares with every other.

    Numbers are refused: as seconds since 1970, which is how pydantic reads them, the year 2024 is a January evening.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            value = None
    if not isinstance(value, datetime):
        message = "not a date or time such as 2024-05-01 or 2024-05-01T09:30:00Z"
        raise ValueError(message)  # noqa: TRY004 - pydantic reports a ValueError as the field's, and raises a TypeError
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _to_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        message = "is before the year 1 or after the year 9999 in UTC"
        raise ValueError(message) from error


def _from_base64(value: object) -> object:
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            message = "vector is not base64"
            raise ValueError(message) from error
    return value


def _whole_floats(value: bytes) -> bytes:
    if not value or len(value) % 4:
        message = f"vector is {len(value)} bytes long, not a whole number of float32"
        raise ValueError(message)
    return value


_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Unicode's category Cc, whole. Every id of every hit is looked through."""


def _no_controls(value: str) -> str:
    if _CONTROLS.search(value):
        message = "holds a control character"
        raise ValueError(message)
    return _encodable(value)


def _encodable(value: str) -> str:
    if "\x00" in value:
        message = "holds a NUL character"
        raise ValueError(message)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        message = "holds a lone surrogate, which is not a character"
        raise ValueError(message) from error
    return value


TenantId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
"""Isolation boundary, from the verified token. ASCII only, so that no two spellings look alike."""


def _at_most_256_bytes(value: str) -> str:
    if len(value.encode()) > MAX_ID_BYTES:
        message = f"id is longer than {MAX_ID_BYTES} bytes"
        raise ValueError(message)
    return value


MAX_ID_BYTES = 256
"""Keeps the workflow's state, which carries ids and paths, well under its 256 KiB limit."""

RecordId = Annotated[
    str, StringConstraints(min_length=1), AfterValidator(_no_controls), AfterValidator(_at_most_256_bytes)
]

Label = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$")]
"""An entity type or relationship type: an identifier, never code."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=512), AfterValidator(_no_controls)]
Text = Annotated[str, AfterValidator(_encodable)]
QueryText = Annotated[
    str, StringConstraints(min_length=1, max_length=10_000, strip_whitespace=True), AfterValidator(_encodable)
]

Timestamp = Annotated[AwareDatetime, BeforeValidator(_assume_utc), AfterValidator(_to_utc)]
"""A moment in UTC. Input without a zone is read as UTC."""

Score = Annotated[float, Field(ge=0.0, le=1.0)]
"""The scoring contract: in [0, 1], higher is better; NaN and infinity are refused."""

Weight = Annotated[float, Field(ge=0.0, le=1.0)]

VectorBytes = Annotated[
    bytes,
    BeforeValidator(_from_base64),
    AfterValidator(_whole_floats),
    PlainSerializer(lambda value: base64.b64encode(value).decode("ascii"), return_type=str, when_used="json"),
]
"""Little-endian float32 values, L2-normalised; base64 in JSON."""


# --- vocabulary -----------------------------------------------------------------------------------------------------


class Mode(StrEnum):
    """What kind of answer the question asks for."""

    DOCUMENT = "document"
    ENTITY = "entity"
    HYBRID = "hybrid"


class Intent(StrEnum):
    """What the question wants to know; it decides how the graph is walked."""

    LOOKUP = "lookup"
    EXPLORATORY = "exploratory"
    TEMPORAL = "temporal"
    CAUSAL = "causal"


class EmbeddingType(StrEnum):
    """Which kind of model embeds the question."""

    GENERAL = "general"
    TEMPORAL = "temporal"
    CAUSAL = "causal"
    CODE = "code"
    DOCUMENT = "document"


class Strategy(StrEnum):
    """In which order the two stores are asked."""

    SEMANTIC = "semantic"
    GRAPH_ONLY = "graph_only"
    GRAPH_FIRST = "graph_first"
    VECTOR_FIRST = "vector_first"
    HYBRID = "hybrid"
    MULTI_HOP = "multi_hop"


class Ranking(StrEnum):
    """How relevance, recency and use make the final score."""

    RELEVANCE = "relevance"
    MEMORY = "memory"
    RECENCY = "recency"


class Fusion(StrEnum):
    """How ranked lists become one."""

    WEIGHTED = "weighted"
    RRF = "rrf"


class Source(StrEnum):
    """Which strand found a candidate."""

    VECTOR = "vector"
    LEXICAL = "lexical"
    KNOWLEDGE = "knowledge"
    GRAPH = "graph"


class Kind(StrEnum):
    """What a record is."""

    CHUNK = "chunk"
    ENTITY = "entity"
    FACT = "fact"
    DECISION = "decision"
    TOOL_CALL = "tool_call"
    MESSAGE = "message"


class Direction(StrEnum):
    """Which way an edge is walked."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


class RerankerKind(StrEnum):
    """Who rescores the first candidates."""

    NONE = "none"
    ONNX = "onnx"
    BEDROCK = "bedrock"
    VOYAGE = "voyage"


# --- what is stored -------------------------------------------------------------------------------------------------


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


class Record(Frozen):
    """One row of the search index."""

    id: RecordId
    tenant_id: TenantId
    kind: Kind = Kind.CHUNK
    entity_type: Label | None = None
    name: Name | None = None
    aliases: tuple[Name, ...] = ()
    content: Text = ""
    embeddings: tuple[Embedding, ...] = ()
    schema_version: Annotated[int, Field(ge=1)] = 1
    created_at: Timestamp | None = None
    updated_at: Timestamp | None = None
    valid_at: Timestamp | None = None
    invalid_at: Timestamp | None = None
    timestamp: Timestamp | None = None
    importance: Score = 0.5
    access_count: Annotated[int, Field(ge=0)] = 0
    confidence: Score | None = None
    source: SourceRef = SourceRef()
    task_id: Name | None = None
    tool_name: Name | None = None
    status: Name | None = None
    metadata: dict[str, str | int | float | bool | None] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _interval_is_ordered(self) -> Record:
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


class Vertex(Frozen):
    """One vertex of the knowledge graph: an entity, or a record that edges lead to."""

    id: RecordId
    tenant_id: TenantId
    entity_type: Label = "Concept"
    name: Name | None = None
    aliases: tuple[Name, ...] = ()
    has_record: bool = False
    """Whether the search index holds a record of this id, so that it can be an answer."""
    timestamp: Timestamp | None = None
    valid_at: Timestamp | None = None
    invalid_at: Timestamp | None = None


class Relationship(Frozen):
    """One edge. Its identity is (tenant, source, type, target, predicate), so that every write is an upsert."""

    tenant_id: TenantId
    source: RecordId
    type: Label
    target: RecordId
    confidence: Score = 1.0
    timestamp: Timestamp | None = None
    valid_at: Timestamp | None = None
    invalid_at: Timestamp | None = None
    evidence: RecordId | None = None
    predicate: Annotated[str, StringConstraints(max_length=512), AfterValidator(_no_controls)] | None = None


# --- what is asked --------------------------------------------------------------------------------------------------


class TimeRange(Frozen):
    """A half-open interval ``start <= t < end``; either end may be open."""

    start: Timestamp | None = None
    end: Timestamp | None = None

    @model_validator(mode="after")
    def _is_ordered(self) -> TimeRange:
        if self.start and self.end and self.end <= self.start:
            message = "end is not after start"
            raise ValueError(message)
        return self


class Filters(Frozen):
    """Conditions that every result meets. An empty tuple means no condition."""

    kinds: tuple[Kind, ...] = ()
    entity_types: tuple[Label, ...] = ()
    time_range: TimeRange | None = None
    task_id: Name | None = None
    tool_name: Name | None = None


class TemporalContext(Frozen):
    """What a temporal question is about; part of the embedded text."""

    time_range: TimeRange | None = None
    relation: Label | None = None


class GraphConstraint(Frozen):
    """Restrict the answer to what a walk from one entity reaches."""

    entity: Name
    types: Annotated[tuple[Label, ...], Field(max_length=32)] = ()
    direction: Direction = Direction.BOTH
    depth: Annotated[int, Field(strict=True, ge=1, le=3)] = 1


class StepOperation(StrEnum):
    """What one step of a multi-hop plan does."""

    SEARCH = "search"
    EXPAND = "expand"


class PlanStep(Frozen):
    """One step of a multi-hop plan: search, or walk from what the step before found."""

    operation: StepOperation
    entity_types: tuple[Label, ...] = ()
    types: tuple[Label, ...] = ()
    direction: Direction = Direction.BOTH
    limit: Annotated[int, Field(strict=True, ge=1, le=50)] = 10


class Hints(Frozen):
    """What the caller knows better than the planner."""

    strategy: Strategy | None = None
    steps: Annotated[tuple[PlanStep, ...], Field(max_length=6)] = ()
    min_similarity: Score | None = None


class Query(Frozen):
    """One question of one tenant."""

    text: QueryText
    tenant_id: TenantId
    intent: Intent | None = None
    top_k: Annotated[int, Field(strict=True, ge=1, le=50)] = 10
    vector_weight: Weight = 0.5
    graph_weight: Weight = 0.5
    fusion: Fusion = Fusion.WEIGHTED
    ranking: Ranking = Ranking.RELEVANCE
    reranker: RerankerKind | None = None
    temporal_context: TemporalContext | None = None
    filters: Filters = Filters()
    graph_constraint: GraphConstraint | None = None
    hints: Hints = Hints()
    as_of: Timestamp | None = None
    explain: bool = False

    @model_validator(mode="after")
    def _is_consistent(self) -> Query:
        if self.vector_weight + self.graph_weight <= 0:
            message = "vector_weight and graph_weight are both 0"
            raise ValueError(message)
        if self.hints.strategy is Strategy.GRAPH_FIRST and self.graph_constraint is None:
            message = "hints.strategy graph_first needs a graph_constraint"
            raise ValueError(message)
        return self


# --- what is planned ------------------------------------------------------------------------------------------------


class Weights(Frozen):
    """How much each strand counts; they sum to 1. Lexical is the words' share of the text strand."""

    vector: Weight
    lexical: Weight
    graph: Weight

    @model_validator(mode="after")
    def _sum_to_one(self) -> Weights:
        total = self.vector + self.lexical + self.graph
        if abs(total - 1.0) > 1e-6:  # noqa: PLR2004 - rounding of three floats
            message = f"weights sum to {total}, not 1"
            raise ValueError(message)
        return self


class Plan(Frozen):
    """How one question is answered, and why."""

    strategy: Strategy
    mode: Mode
    intent: Intent
    embedding_type: EmbeddingType
    model_id: Name | None = None
    """Model that embeds the question; None leaves the choice to the embed stage's own default."""
    direction: Direction = Direction.OUT
    """Which way causal and temporal edges are walked."""
    candidates: Annotated[int, Field(ge=1, le=200)] = 50
    steps: tuple[PlanStep, ...] = ()
    reasons: tuple[str, ...] = ()


# --- what is found --------------------------------------------------------------------------------------------------


class Hit(Frozen):
    """A ranked record from one source."""

    id: RecordId
    score: Score
    rank: Annotated[int, Field(ge=1)]


class EntityLink(Frozen):
    """A name in the question that is an entity's name or alias."""

    entity_id: RecordId
    name: Name
    entity_type: Label
    phrase: str
    """The words of the question that matched."""
    score: Score
    has_record: bool = False
    """Whether the search index holds a record of the entity, so that it can be an answer."""


class Path(Frozen):
    """How a walk reached a vertex: ids from the start to the end, and the relationship types between them."""

    ids: tuple[RecordId, ...]
    types: tuple[Label, ...]
    names: tuple[str, ...] = ()
    """What each id is called, for people; the id itself where a vertex has no name."""
    inward: tuple[bool, ...] = ()
    """Whether each edge was walked against its direction, from target to source."""
    evidence: tuple[RecordId | None, ...] = ()
    """The record that each edge is known from; empty where none of them names one."""

    @model_validator(mode="after")
    def _types_stand_between_ids(self) -> Path:
        if len(self.ids) != len(self.types) + 1:
            message = f"a path of {len(self.ids)} ids has {len(self.types)} types"
            raise ValueError(message)
        if self.names and len(self.names) != len(self.ids):
            message = f"a path of {len(self.ids)} ids has {len(self.names)} names"
            raise ValueError(message)
        if self.inward and len(self.inward) != len(self.types):
            message = f"a path of {len(self.types)} edges has {len(self.inward)} directions"
            raise ValueError(message)
        if self.evidence and len(self.evidence) != len(self.types):
            message = f"a path of {len(self.types)} edges has evidence of {len(self.evidence)}"
            raise ValueError(message)
        return self


class GraphHit(Frozen):
    """A vertex reached from a seed by its best path."""

    id: RecordId
    score: Score
    rank: Annotated[int, Field(ge=1)]
    source: Source = Source.GRAPH
    path: Path
    has_record: bool = False
    name: Name | None = None
    entity_type: Label = "Concept"
    timestamp: Timestamp | None = None
    reason: str | None = None


class Candidate(Frozen):
    """A hit that enters fusion and rerank, with what each strand said of it."""

    id: RecordId
    combined_score: Score
    vector_score: Score | None = None
    lexical_score: Score | None = None
    graph_score: Score | None = None
    ranks: dict[Source, int] = Field(default_factory=dict)
    """Rank in each source that found it, from 1."""
    sources: tuple[Source, ...] = ()
    reasons: tuple[str, ...] = ()
    paths: tuple[Path, ...] = ()


# --- what is answered -----------------------------------------------------------------------------------------------


class Citation(Frozen):
    """Where a result's text can be read."""

    type: SourceType
    title: str
    page: int | None = None
    chunk_index: int | None = None
    excerpt: str
    confidence: Score


class Result(Frozen):
    """One answer, with its evidence."""

    id: RecordId
    rank: Annotated[int, Field(ge=1)]
    kind: Kind
    entity_type: Label | None
    title: str
    content: str
    relevance: Score
    recency: Score
    final: Score
    combined_score: Score
    vector_score: Score | None
    lexical_score: Score | None
    graph_score: Score | None
    rerank_score: Score | None
    fused_rank: Annotated[int, Field(ge=1)]
    """Rank after fusion, before rerank, drift and ranking profile."""
    ranks: dict[Source, int]
    sources: tuple[Source, ...]
    reasons: tuple[str, ...]
    paths: tuple[Path, ...]
    citation: Citation
    schema_version: int
    needs_transformation: bool = False
    timestamp: datetime | None = None
    valid_at: datetime | None = None
    invalid_at: datetime | None = None
    metadata: dict[str, str | int | float | bool | None] = Field(default_factory=dict)


class RelatedEntity(Frozen):
    """An entity that the question names, or that a path to a result passes."""

    id: RecordId
    name: str
    entity_type: Label
    linked: bool
    """Whether the question itself names it."""


class Answer(Frozen):
    """One ranked, cited list and how it came about."""

    trace_id: str
    results: tuple[Result, ...]
    sources: tuple[Citation, ...]
    related_entities: tuple[RelatedEntity, ...]
    plan: Plan
    weights: Weights
    counts: dict[str, int]
    """Candidates by source, and after fusion."""
    superseded: int
    """Records that would have been among the candidates, had they still been valid."""
    truncated: bool
    """Whether a hub's fan-out budget cut the walk short."""
    degraded: tuple[str, ...]
    """Stages that were lost."""
    latency_ms: dict[str, float]
    """Per stage, and ``total``."""
    rerank_cost_usd: Annotated[float, Field(ge=0)] = 0.0
    """Estimated price of the reranker's call in US dollars; 0 for a model of one's own."""
