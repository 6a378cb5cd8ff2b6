"""What a stage may ask of a store or a model. Stages know these protocols and no engine.

Every request carries its tenant; an implementation filters by it inside the query itself. All raise
:class:`~braid.errors.TransientStoreError` for what is worth trying again and another
:class:`~braid.errors.StoreError` for what is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pydantic import Field

from braid.models import (
    Direction,
    Embedding,
    EntityLink,
    Filters,
    Frozen,
    GraphHit,
    Hit,
    Kind,
    Label,
    Record,
    RecordId,
    TenantId,
    TimeRange,
    Timestamp,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from braid.models import Relationship, Vertex
    from braid.ports.graph_query import GraphQuery, GraphResult
    from braid.ports.propagation import PropagateRequest
    from braid.ports.writing import Written


MAX_OUTDATED = 10
"""Records outside the schema window that one search tells of."""


class SearchRequest(Frozen):
    """Vector and word search of one tenant, answered in one round trip."""

    tenant_id: TenantId
    text: str | None = None
    """Words for BM25; None leaves the lexical strand out."""
    embedding: Embedding | None = None
    """Vector for k-NN in its own space; None leaves the vector strand out."""
    k: int = Field(ge=1, le=200)
    filters: Filters = Filters()
    ids: tuple[RecordId, ...] | None = None
    """Only these records; None means no such condition, empty means none at all."""
    as_of: Timestamp
    """Only what is valid then: ``valid_at <= as_of < invalid_at``, where a missing bound is open."""
    min_schema_version: int = 1
    """Begin of the schema window: what was written with an older schema is no hit."""
    newest_first: bool = False
    """Order of the lexical strand: True, the newest ``timestamp`` first (missing last), ties by id; False, by score."""


class SearchHits(Frozen):
    """At most ``k`` hits of each strand, best first unless the request asks for another order, ties by id."""

    vector: tuple[Hit, ...] = ()
    """Score: ``max(0, cosine)``."""
    lexical: tuple[Hit, ...] = ()
    """Score: ``scoring.from_bm25`` of the engine's BM25."""
    superseded: int = 0
    """Distinct records, outside their validity at ``as_of``, that would have been among the first ``k`` of a strand."""
    outdated: tuple[RecordId, ...] = ()
    """The best records that only the schema window kept out, at most :data:`MAX_OUTDATED` a strand, each id once."""
    space_empty: bool = False
    """Whether the tenant has vectors but none in the question's space, so that the vector strand cannot find any."""


class IndexStats(Frozen):
    """Stored counts of one tenant, for the planner."""

    records: int = 0
    by_kind: dict[Kind, int] = Field(default_factory=dict)
    by_entity_type: dict[Label, int] = Field(default_factory=dict)
    newest_schema_version: int = 1


class ScanPage(Frozen):
    """Some of the records that a scan goes through, in the order of their ids."""

    records: tuple[Record, ...] = ()
    cursor: str | None = None
    """What the next page is asked with; None when there is none."""


@runtime_checkable
class SearchIndex(Protocol):
    """Records with their vectors and words."""

    def upsert(self, records: Sequence[Record]) -> None:
        """Write records whole; when it returns they are durable and searchable.

        Raises
        ------
        DimensionMismatch
            If a vector's length is not that of the vectors already in its space; nothing is written.
        """

    def delete(self, tenant_id: TenantId, ids: Sequence[RecordId]) -> int:
        """Remove records and return how many there were."""

    def search(self, request: SearchRequest) -> SearchHits:
        """Answer both strands in one round trip."""

    def get_many(self, tenant_id: TenantId, ids: Sequence[RecordId], *, with_vectors: bool = False) -> list[Record]:
        """Return the records that exist, in the order of ``ids``, without their vectors unless asked."""

    def written(self, tenant_id: TenantId, ids: Sequence[RecordId]) -> dict[RecordId, Written]:
        """Return what a writer has to know of the records that exist; those not yet searchable are among them."""

    def scan(
        self,
        tenant_id: TenantId,
        *,
        schema_below: int | None = None,
        space_missing: str | None = None,
        model_missing: str | None = None,
        document: str | None = None,
        after: str | None = None,
        limit: int = 500,
        with_vectors: bool = False,
    ) -> ScanPage:
        """Return the next records that meet every condition given; without one, of all records.

        Each record that is there from the first page to the last comes exactly once, whatever else is written or
        removed meanwhile; each page shows what is there by then. Whoever writes a record back must know that it was not
        changed since.

        Parameters
        ----------
        schema_below
            Only records written with an older schema than this version.
        space_missing
            Only records without a vector in this embedding space.
        model_missing
            Only records without a vector of this model.
        document
            Only records of this document: of which it is the id, the id up to a ``#``, or the source's title.
        after
            Cursor of the page before, which may be of another process and any age; None begins. The conditions are
            given again, and the limit may differ.
        limit
            Most records of the page, 1 to 1,000.
        with_vectors
            Whether records come with their vectors; re-embedding needs their text only.

        Raises
        ------
        InvalidRequest
            If ``limit`` is out of bounds, or ``after`` is no cursor of this tenant.
        """

    def stats(self, tenant_id: TenantId) -> IndexStats:
        """Return stored counts."""

    def next_change(self, tenant_id: TenantId, *, after: datetime) -> datetime | None:
        """Return the first moment after ``after`` when a record becomes or ceases to be valid; None if there is none.

        Searches as of two moments with the same next change, and no write between them, find the same.
        """


class ExpandRequest(Frozen):
    """A bounded walk from seeds; each vertex is reached once, by its best path."""

    tenant_id: TenantId
    seeds: tuple[RecordId, ...]
    types: tuple[Label, ...] = ()
    """Only these relationship types; empty means any."""
    direction: Direction = Direction.BOTH
    max_hops: int = Field(default=2, ge=1, le=3)
    by_confidence: bool = False
    """Score: True, the product of the edges' confidence; False, ``1 / (1 + hops)``."""
    by_time: bool = False
    """Order: True lists the chosen by timestamp ascending (missing last); False by score."""
    limit: int = Field(default=50, ge=1, le=1_000)
    among: tuple[RecordId, ...] | None = None
    """Return only these vertices; others are still walked through. None means no such condition."""
    records_only: bool = True
    """Return only vertices that have a record; others are still walked through."""
    entity_types: tuple[Label, ...] = ()
    """Return only vertices of these types; others are still walked through."""
    time_range: TimeRange | None = None
    """Return only vertices whose timestamp is inside."""
    as_of: Timestamp
    """Superseded edges and vertices at this moment are neither walked nor returned."""
    fan_out: int = Field(default=200, ge=1)
    """Edges followed from one vertex, the highest confidence first, then by the edge's identity."""


class Expansion(Frozen):
    """What a walk reached: best ``limit`` vertices, never a seed."""

    hits: tuple[GraphHit, ...] = ()
    truncated: bool = False
    """Whether a vertex had more edges than the fan-out budget."""


class GraphStats(Frozen):
    """Stored counts of one tenant, for the planner."""

    vertices: int = 0
    records: int = 0
    """Vertices that have a record."""
    edges: int = 0
    by_entity_type: dict[Label, int] = Field(default_factory=dict)
    by_relationship_type: dict[Label, int] = Field(default_factory=dict)
    sources_by_relationship_type: dict[Label, int] = Field(default_factory=dict)
    """Different vertices that edges of each type lead from."""
    targets_by_relationship_type: dict[Label, int] = Field(default_factory=dict)
    """Different vertices that edges of each type lead to."""


@runtime_checkable
class KnowledgeGraph(Protocol):
    """Entities and what relates them."""

    def upsert(self, vertices: Sequence[Vertex], relationships: Sequence[Relationship]) -> None:
        """Write vertices, then edges; when it returns they are durable.

        Raises
        ------
        InvalidRequest
            If an edge's end is neither stored nor among ``vertices``; nothing is written.
        """

    def delete(self, tenant_id: TenantId, ids: Sequence[RecordId]) -> int:
        """Remove vertices with their edges and return how many vertices there were."""

    def link(self, tenant_id: TenantId, names: Sequence[str], *, as_of: Timestamp, limit: int = 50) -> list[EntityLink]:
        """Return the entities of which a name or alias, normalised by ``linking.normalise``, equals one of ``names``.

        ``phrase`` is the name that matched and ``score`` is 1.0 for a name, 0.9 for an alias. So are entities of which
        a name or alias has a form that is asked for behind its mark (``name_forms.stored_forms``); their scores are
        lower. Each entity once, by its best match; ordered by score, then the longest phrase, then id.
        """

    def expand(self, request: ExpandRequest) -> Expansion:
        """Walk from the seeds. One traversal whatever the number of seeds."""

    def propagate(self, request: PropagateRequest) -> Expansion:
        """Spread names and hits over their neighbourhood; the records visited most, seeds among them, best first.

        One traversal whatever the number of seeds. Ties by id.
        """

    def query(self, query: GraphQuery) -> GraphResult:
        """Answer a declarative query. One traversal whatever its number of steps and starts."""

    def stats(self, tenant_id: TenantId) -> GraphStats:
        """Return stored counts."""

    def next_change(self, tenant_id: TenantId, *, after: datetime) -> datetime | None:
        """Return the first moment after ``after`` when a vertex or an edge becomes or ceases to be valid.

        None if there is none. Walks as of two moments with the same next change, and no write between them, are equal.
        """


@runtime_checkable
class Encoder(Protocol):
    """A model that makes vectors."""

    model_id: str
    space: str
    dimension: int

    def encode(self, texts: Sequence[str], *, instruction: str = "") -> list[bytes]:
        """Return one L2-normalised vector a text, as little-endian float32 bytes, in the order of ``texts``."""


@runtime_checkable
class Reranker(Protocol):
    """A model that reads question and text together."""

    name: str

    def cost_usd(self, query: str, texts: Sequence[str]) -> float:
        """Return the estimated price in US dollars of one such call; 0 for a model of one's own."""

    def rerank(self, query: str, texts: Sequence[str], *, timeout_s: float) -> list[float]:
        """Return one score in [0, 1] a text, in the order of ``texts``.

        Raises
        ------
        RerankFailed
            If it fails or needs more than ``timeout_s`` seconds.
        """


class SchemaVersion(Frozen):
    """One version of a tenant's schema."""

    tenant_id: TenantId
    version: int = Field(ge=1)
    created_at: Timestamp
    entity_types: tuple[Label, ...] = ()
    relationship_types: tuple[Label, ...] = ()
    changes: str = ""


@runtime_checkable
class SchemaRegistry(Protocol):
    """The schema versions of each tenant."""

    def register(self, schema: SchemaVersion) -> None:
        """Write the next version; writing one again with the same content does nothing.

        A tenant without versions may begin with 1 or, because its records count as of version 1, with 2.

        Raises
        ------
        InvalidRequest
            If the version is registered with other content, or is not the next one: a version left out would make all
            records look further behind than they are.
        """

    def current(self, tenant_id: TenantId) -> int:
        """Return the newest version, 1 when none is registered."""

    def versions(self, tenant_id: TenantId) -> list[SchemaVersion]:
        """Return all versions, oldest first."""

    def forget(self, tenant_id: TenantId) -> int:
        """Remove all versions of a tenant of which nothing else is left, and return how many there were."""
