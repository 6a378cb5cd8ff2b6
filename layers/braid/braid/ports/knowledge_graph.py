"""Port of the knowledge graph: writes, linking of names, expansion, propagation, queries and scans.

Every request carries its tenant; an implementation filters by it inside the query itself. All raise
:class:`~braid.errors.TransientStoreError` for what is worth trying again and another
:class:`~braid.errors.StoreError` for what is not.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, NamedTuple, Protocol, runtime_checkable

from pydantic import Field, model_validator

from braid.models import (
    MAX_DAMPING,
    Direction,
    EntityLink,
    Frozen,
    GraphHit,
    Label,
    RecordId,
    Relationship,
    Score,
    TenantId,
    TimeRange,
    Timestamp,
    Vertex,
    Weight,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from braid.ports.graph_query import GraphQuery, GraphResult

MAX_SEEDS = 100
PAGE_EDGES = 10_000
"""Edges after which a page of a scan ends, which holds more only where its one vertex has them."""

Seed = tuple[RecordId, Annotated[float, Field(gt=0, allow_inf_nan=False)]]


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
    found_share: Score = 1.0
    """What an edge that was found in a text counts of what a given one does: a factor of the score for each of them."""
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
    trusted_only: bool = False
    """Vertices and edges that are not trusted are neither walked nor returned, nor do edges to such vertices count."""
    fan_out: int = Field(default=200, ge=1)
    """Edges followed from one vertex, the highest confidence first, then by the edge's identity."""


class PropagateRequest(Frozen):
    """Personalised PageRank over what lies around the seeds.

    The neighbourhood: the ``fan_out`` surest edges of each seed, then all edges of each vertex reached, up to
    ``max_hops`` from a seed. A vertex with more than ``hub`` edges in force is reached but not walked through: what
    everything is tied to tells nothing apart.
    """

    tenant_id: TenantId
    names: tuple[Seed, ...] = ()
    """Entities that the question names, with how much each counts; paths begin at them where they can."""
    hits: tuple[Seed, ...] = ()
    """First hits of the text search, with how much each counts."""
    texts: tuple[tuple[RecordId, Score], ...] = ()
    """All that the text search found, with how like the question each is, the best being 1."""
    damping: float = Field(default=0.7, gt=0, le=MAX_DAMPING)
    """Probability of walking on rather than beginning again at a seed."""
    bridging: Weight = 0.0
    """What one of the texts gains that shares an entity with one of the best records."""
    max_hops: int = Field(default=3, ge=1, le=3)
    fan_out: int = Field(default=100, ge=1)
    hub: int = Field(default=20, ge=1)
    limit: int = Field(default=50, ge=1, le=200)
    as_of: Timestamp
    """Superseded edges and vertices at this moment are neither walked nor returned."""
    trusted_only: bool = False
    """Vertices and edges that are not trusted are neither walked nor returned, nor do edges to such vertices count."""

    @model_validator(mode="after")
    def _is_bounded(self) -> PropagateRequest:
        if len(self.names) + len(self.hits) > MAX_SEEDS:
            raise ValueError(f"names and hits are more than {MAX_SEEDS}")
        return self

    def seeds(self) -> dict[str, float]:
        """Return how much each seed counts: one that is both a name and a hit counts as both."""
        weights: dict[str, float] = {}
        for identity, weight in (*self.names, *self.hits):
            weights[identity] = weights.get(identity, 0.0) + weight
        return weights


class Expansion(Frozen):
    """What a walk reached: best ``limit`` vertices, never a seed."""

    hits: tuple[GraphHit, ...] = ()
    truncated: bool = False
    """Whether a vertex had more edges than the fan-out budget."""
    propagation_weight: Score = 1.0
    """Share of propagation in the fused score, in [0, 1]; vectors and words have the rest."""


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


class GraphTypes(NamedTuple):
    """Types of vertices and of edges."""

    entities: frozenset[Label] = frozenset()
    relationships: frozenset[Label] = frozenset()

    def are_among(self, others: GraphTypes) -> bool:
        """Return whether others have all of these."""
        return self.entities <= others.entities and self.relationships <= others.relationships


@runtime_checkable
class StoredCounts(Protocol):
    """Counts of each tenant's graph, by name, beside a graph that cannot count without reading all of it.

    Writes add what they changed, in one step, so that concurrent writers lose nothing.
    """

    def read(self, tenant_id: TenantId) -> dict[str, int] | None:
        """Return a tenant's counts, read by one key; None when none are stored."""

    def add(self, tenant_id: TenantId, changes: Mapping[str, int]) -> bool:
        """Add to a tenant's counts; return False, and change nothing, when none are stored.

        A type of which none is left is not stored any more.
        """

    def replace(self, tenant_id: TenantId, counts: Mapping[str, int]) -> None:
        """Store these counts of a tenant, and no others."""


class GraphPage(Frozen):
    """Some of a tenant's vertices in the order of their ids, and the edges that lead out of them."""

    vertices: tuple[Vertex, ...] = ()
    relationships: tuple[Relationship, ...] = ()
    cursor: str | None = None
    """What the next page is asked with; None when there is none."""
    unread: int = 0
    """Edges that lead out of its only vertex, where these are more than a page may have and were not asked for."""


def page_of(vertices: Sequence[Vertex], edges: Mapping[str, int], limit: int) -> Sequence[Vertex]:
    """Return the vertices of a page: the first of some that have few enough edges together.

    Parameters
    ----------
    edges
        Number of edges that lead out of each, by its id; none of one that is missing.
    limit
        Most vertices of the page.
    """
    size = 0
    for place, vertex in enumerate(vertices[:limit]):
        size += edges.get(vertex.id, 0)
        if size > PAGE_EDGES:
            return vertices[: max(1, place)]
    return vertices[:limit]


def unread(vertices: Sequence[Vertex], edges: Mapping[str, int]) -> int:
    """Return how many edges lead out of a page's vertices if these are more than a page may have, else 0."""
    size = sum(edges.get(vertex.id, 0) for vertex in vertices)
    return size if size > PAGE_EDGES else 0


class NameKeys(NamedTuple):
    """What a vertex is linked by."""

    phrases: Mapping[str, bool]
    """Normalised names and their forms, and whether each is an alias or a form."""
    misspellings: tuple[int, ...]
    """See :func:`braid.understanding.name_forms.misspelling_numbers`."""


@runtime_checkable
class KnowledgeGraph(Protocol):
    """Entities and what relates them."""

    def link(
        self,
        tenant_id: TenantId,
        names: Sequence[str],
        *,
        as_of: Timestamp,
        limit: int = 50,
        trusted_only: bool = False,
    ) -> list[EntityLink]:
        """Return the entities of which a name or alias, normalised by ``tokens.normalise``, equals one of ``names``.

        ``phrase`` is the name that matched and ``score`` is 1.0 for a name, 0.9 for an alias. So are entities of which
        a name or alias has a form that is asked for behind its mark (``names.stored_forms``); their scores are
        lower. Each entity once, by its best match; ordered by score, then the longest phrase, then id. With
        ``trusted_only`` those that are not trusted are left out.
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
        """Return stored counts, without reading the graph."""


@runtime_checkable
class WritableGraph(KnowledgeGraph, Protocol):
    """The graph as writes and maintenance see it: whole vertices and edges, valid or not."""

    def name_keys(self, vertices: Sequence[Vertex]) -> Mapping[RecordId, NameKeys]:
        """Return what vertices are linked by, by their ids: worked out before the transaction that writes them.

        Of none where nobody waits for that transaction.
        """

    def upsert(
        self,
        vertices: Sequence[Vertex],
        relationships: Sequence[Relationship],
        keys: Mapping[RecordId, NameKeys] = MappingProxyType({}),
    ) -> None:
        """Write vertices, then edges; when it returns they are durable.

        Raises InvalidRequest if an edge's end is neither stored nor among ``vertices``; nothing is written.

        Parameters
        ----------
        keys
            What :meth:`name_keys` returned of those whose names are written; of the others they are if they differ from
            what is stored, and worked out then.
        """

    def delete(self, tenant_id: TenantId, ids: Sequence[RecordId]) -> int:
        """Remove vertices with their edges and return how many vertices there were."""

    def end(self, vertices: Sequence[Vertex], relationships: Sequence[Relationship]) -> None:
        """Write when stored vertices and edges cease to be valid; those that are gone meanwhile stay so."""

    def delete_unmentioned(self, tenant_id: TenantId, ids: Collection[RecordId]) -> int:
        """Remove those of some vertices that were found in texts and have no edge left; return how many there were."""

    def delete_relationships(self, tenant_id: TenantId, relationships: Sequence[Relationship]) -> int:
        """Remove edges by their identity and return how many there were."""

    def remove_mentions(self, tenant_id: TenantId, mentions: Sequence[Relationship]) -> None:
        """Remove mentions that were found in texts, however many: no reader sees them any more.

        In a transaction, the last change of the graph. The found names that have no edge left go when it is finished.
        """

    def finish_removals(self, tenant_id: TenantId) -> None:
        """Remove what is still stored of removed mentions, a part at a time; called outside of a transaction."""

    def delete_relationships_of(self, tenant_id: TenantId, ids: Collection[RecordId]) -> int:
        """Remove the edges with an end or their evidence among ``ids`` and return how many there were."""

    def remove_most_relationships_of(self, tenant_id: TenantId, ids: Collection[RecordId]) -> int:
        """Remove such edges a part at a time until few are left, and return how many; called outside of a transaction.

        So that no transaction removes very many; a store that nobody waits for removes none.
        """

    def end_relationships(self, tenant_id: TenantId, until: Mapping[RecordId, Timestamp]) -> int:
        """End edges by the record that is their evidence: at the time given for it, at the latest.

        No edge ends before it began. Returns how many were changed; those that ended in time already are not read.
        """

    def distrust_relationships(self, tenant_id: TenantId, evidence: Collection[RecordId]) -> int:
        """Mark edges as untrusted by the record that is their evidence.

        Returns how many were changed; those that were not trusted already are not read.
        """

    def given_entities(
        self, tenant_id: TenantId, names: Sequence[str], *, as_of: Timestamp, limit: int
    ) -> list[Vertex]:
        """Return the trusted vertices, not those of found names, that have one of these names, in the order of ids.

        A name or alias of theirs, normalised by ``tokens.normalise``, equals one of ``names``, and they hold at
        ``as_of``. At most ``limit``.
        """

    def found_mentions(self, tenant_id: TenantId, texts: Collection[RecordId]) -> list[Relationship]:
        """Return the mentions that were found in some texts, whole, in the order of their identity.

        Mentions that lead out of one of them, as those of an entity that very many texts name, are not read.
        """

    def reassign_mentions(self, tenant_id: TenantId, successors: Mapping[RecordId, RecordId]) -> int:
        """Make the mentions of some vertices those of their successors, by id; return how many mentions were moved.

        A mention that the successor has already stays as it is, and one in the successor's own text is removed: no
        vertex mentions itself.
        """

    def get_many(self, tenant_id: TenantId, ids: Sequence[RecordId]) -> list[Vertex]:
        """Return the vertices that exist, whole, in the order of ``ids``."""

    def as_stored(self, tenant_id: TenantId, relationships: Sequence[Relationship]) -> list[Relationship]:
        """Return the stored edges with the identities of these edges, whole, in the order of their identity."""

    def relationships(
        self,
        tenant_id: TenantId,
        *,
        ids: Collection[RecordId],
        types: Collection[Label] = (),
    ) -> list[Relationship]:
        """Return the edges with an end among ``ids``, whole, in the order of their identity, whatever their validity.

        Only edges of ``types``; empty means any.
        """

    def types(self, tenant_id: TenantId, wanted: GraphTypes) -> GraphTypes:
        """Return the types that a tenant's graph has, or had when it had all that are wanted; without reading it all.

        Empty where nothing counts them.
        """

    def prepare_walks(self, tenant_id: TenantId) -> None:
        """Prepare, at the end of an ingest, what the first walks of a large graph would otherwise wait for."""

    def recount(self, tenant_id: TenantId, *, dry_run: bool = False) -> bool:
        """Count a tenant's whole graph and return whether the stored counts differed.

        They are replaced unless it is a ``dry_run``. Meant for a tenant without concurrent writes.
        """

    def scan(self, tenant_id: TenantId, *, after: str | None = None, limit: int = 500, hubs: bool = True) -> GraphPage:
        """Return the next vertices in the order of their ids, with the edges that lead out of them.

        Each vertex that is there from the first page to the last comes exactly once, and so does each edge.

        Raises InvalidRequest if ``limit`` is out of bounds, or ``after`` is no cursor of this tenant.

        Parameters
        ----------
        after
            Cursor of the page before, of any process and age; None begins.
        limit
            Most vertices of the page, 1 to 1,000; there are fewer where they have very many edges.
        hubs
            Whether the edges of a vertex that alone has more than a page's are read, however many they are, rather than
            counted.
        """
