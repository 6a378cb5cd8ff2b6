"""Port of the knowledge graph: writes, linking of names, expansion, propagation, queries and scans.

Every request carries its tenant; an implementation filters by it inside the query itself. Implementations raise
:class:`~braid.errors.TransientStoreError` for errors that may pass if retried, else another
:class:`~braid.errors.StoreError`.
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
MAX_TRUST_EDGES = 500
"""Most edges of a found name that are checked for trust: a write may mention thousands of names."""
MAX_ENDS_MOVED = 200_000
"""Most edges that have ended already whose ends one write moves, by their evidence: a second of processor time of the
embedded store's only writer. A first end is not bounded, as it takes less time than the writing of the edge did."""
PAGE_EDGES = 10_000
"""Most edges of a page of a scan; only a page of a single vertex may have more."""

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
    """Factor of the score for each edge that was found in a text, relative to given edges."""
    by_time: bool = False
    """Order: True sorts the best ``limit`` vertices by timestamp, ascending (missing last); False by score."""
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
    """Personalised PageRank over the neighbourhood of the seeds.

    The neighbourhood: the ``fan_out`` edges of each seed with the highest confidence, then all edges of each vertex
    reached, up to ``max_hops`` from a seed. A vertex with more than ``hub`` valid edges is reached but not walked
    through: it is connected to nearly everything and so does not discriminate.
    """

    tenant_id: TenantId
    names: tuple[Seed, ...] = ()
    """Entities that the question names, with their weights as seeds; paths begin at them where possible."""
    hits: tuple[Seed, ...] = ()
    """First hits of the text search, with their weights as seeds."""
    texts: tuple[tuple[RecordId, Score], ...] = ()
    """All hits of the text search with their similarity to the question, scaled so that the best has 1."""
    damping: float = Field(default=0.7, gt=0, le=MAX_DAMPING)
    """Probability of walking on rather than restarting at a seed."""
    bridging: Weight = 0.0
    """Boost of one of the texts that shares an entity with one of the best records."""
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
        """Return the weight of each seed; one that is both a name and a hit has the sum of both weights."""
        weights: dict[str, float] = {}
        for identity, weight in (*self.names, *self.hits):
            weights[identity] = weights.get(identity, 0.0) + weight
        return weights


class Expansion(Frozen):
    """The best ``limit`` vertices that an expansion reached; never a seed."""

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
    """Distinct vertices that edges of each type lead from."""
    targets_by_relationship_type: dict[Label, int] = Field(default_factory=dict)
    """Distinct vertices that edges of each type lead to."""
    untrusted_records: int = 0
    """Vertices that have a record and are not trusted."""
    untrusted_by_entity_type: dict[Label, int] = Field(default_factory=dict)
    """Vertices that are not trusted; types without any are left out."""
    untrusted_by_relationship_type: dict[Label, int] = Field(default_factory=dict)
    """Edges that are not trusted themselves, whatever their endpoints are; types without any are left out."""

    def trusted_part(self) -> GraphStats:
        """Return the counts of trusted items, for planning a question about these alone.

        Distinct endpoints of trusted edges are not counted: the number of all edges' endpoints is used instead, at most
        the number of trusted edges.
        """
        if not (self.untrusted_by_entity_type or self.untrusted_by_relationship_type):
            return self
        entities = _less(self.by_entity_type, self.untrusted_by_entity_type)
        edges = _less(self.by_relationship_type, self.untrusted_by_relationship_type)

        def at_most(endpoints: Mapping[Label, int]) -> dict[Label, int]:
            return {label: min(count, endpoints.get(label, count)) for label, count in edges.items()}

        return GraphStats.unchecked(
            vertices=sum(entities.values()),
            records=self.records - self.untrusted_records,
            edges=sum(edges.values()),
            by_entity_type=entities,
            by_relationship_type=edges,
            sources_by_relationship_type=at_most(self.sources_by_relationship_type),
            targets_by_relationship_type=at_most(self.targets_by_relationship_type),
            untrusted_by_entity_type={},
            untrusted_by_relationship_type={},
        )


def _less(counts: Mapping[Label, int], untrusted: Mapping[Label, int]) -> dict[Label, int]:
    left = {label: count - untrusted.get(label, 0) for label, count in counts.items()}
    return {label: count for label, count in left.items() if count > 0}


class GraphTypes(NamedTuple):
    """A set of entity types and a set of relationship types."""

    entities: frozenset[Label] = frozenset()
    relationships: frozenset[Label] = frozenset()

    def are_among(self, others: GraphTypes) -> bool:
        """Return whether all of these types are among ``others``."""
        return self.entities <= others.entities and self.relationships <= others.relationships


@runtime_checkable
class StoredCounts(Protocol):
    """Counts of each tenant's graph by name, for a graph store that cannot count without reading all of it.

    Writes add their changes atomically, so that concurrent writers lose none.
    """

    def read(self, tenant_id: TenantId) -> dict[str, int] | None:
        """Return a tenant's counts, read by one key; None when none are stored."""

    def add(self, tenant_id: TenantId, changes: Mapping[str, int]) -> bool:
        """Add to a tenant's counts; return False, and change nothing, when none are stored.

        A count that becomes 0 is removed.
        """

    def replace(self, tenant_id: TenantId, counts: Mapping[str, int]) -> None:
        """Replace all counts of a tenant."""


class GraphPage(Frozen):
    """Some of a tenant's vertices in the order of their ids, and the edges that lead out of them."""

    vertices: tuple[Vertex, ...] = ()
    relationships: tuple[Relationship, ...] = ()
    cursor: str | None = None
    """Cursor of the next page; None when there is none."""
    unread: int = 0
    """Number of outgoing edges of its only vertex, if they are too many for a page and were not requested."""


def page_of(vertices: Sequence[Vertex], edges: Mapping[str, int], limit: int) -> Sequence[Vertex]:
    """Return the vertices of a page: the first ones, up to :data:`PAGE_EDGES` outgoing edges, but at least one.

    Parameters
    ----------
    edges
        Number of outgoing edges by vertex id; 0 for a vertex that is missing.
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
    """Return the number of outgoing edges of a page's vertices if it exceeds :data:`PAGE_EDGES`, else 0."""
    size = sum(edges.get(vertex.id, 0) for vertex in vertices)
    return size if size > PAGE_EDGES else 0


class NameKeys(NamedTuple):
    """The normalised names, aliases, forms and misspellings by which a vertex is linked."""

    phrases: Mapping[str, bool]
    """Normalised names, aliases and forms of them; False for the name itself, True for an alias or a form."""
    misspellings: tuple[int, ...]
    """See :func:`braid.understanding.misspelling_keys.misspelling_numbers`."""


class GivenName(NamedTuple):
    """A name of an entity that was given."""

    entity_id: str
    name: str
    """Normalised."""
    is_alias: bool


@runtime_checkable
class KnowledgeGraph(Protocol):
    """Reads of the knowledge graph: linking, expansion, propagation, queries and counts."""

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

        ``phrase`` is the name that matched and ``score`` is 1.0 for a name, 0.9 for an alias. Entities whose name or
        alias has one of the forms among ``names``, which begin with their mark (``name_keys.stored_forms``), are
        returned too, with lower scores. Each entity once, by its best match; ordered by score, then the longest phrase,
        then id. With ``trusted_only`` untrusted entities are left out.
        """

    def expand(self, request: ExpandRequest) -> Expansion:
        """Expand the seeds. One traversal, regardless of the number of seeds."""

    def propagate(self, request: PropagateRequest) -> Expansion:
        """Run personalised PageRank from names and hits; return the records with the highest rank, seeds included.

        Best first, ties by id. One traversal, regardless of the number of seeds.
        """

    def query(self, query: GraphQuery) -> GraphResult:
        """Answer a declarative query. One traversal, regardless of its number of steps and starts."""

    def stats(self, tenant_id: TenantId) -> GraphStats:
        """Return stored counts, without reading the graph."""


@runtime_checkable
class WritableGraph(KnowledgeGraph, Protocol):
    """The graph as writes and maintenance see it: whole vertices and edges, valid or not."""

    def name_keys(self, vertices: Sequence[Vertex]) -> Mapping[RecordId, NameKeys]:
        """Compute the names by which vertices are linked, by vertex id, ahead of the transaction that writes them.

        Empty where a write blocks no other one.
        """

    def upsert(
        self,
        vertices: Sequence[Vertex],
        relationships: Sequence[Relationship],
        keys: Mapping[RecordId, NameKeys] = MappingProxyType({}),
        stubs: Collection[RecordId] = (),
    ) -> None:
        """Write vertices, then edges; when it returns they are durable.

        Raises InvalidRequest if an edge's endpoint is neither stored nor among ``vertices``; nothing is written.

        Parameters
        ----------
        keys
            Results of :meth:`name_keys`: the names of these vertices are written. Those of the others are computed and
            written if they differ from the stored ones.
        stubs
            Ids of vertices that are written only where none is stored: another write may have stored a whole one.
        """

    def delete(self, tenant_id: TenantId, ids: Sequence[RecordId]) -> int:
        """Remove vertices with their edges and return how many vertices there were."""

    def set_validity(self, vertices: Sequence[Vertex], relationships: Sequence[Relationship]) -> None:
        """Update the validity of stored vertices and edges; items removed meanwhile are not restored."""

    def delete_unmentioned(self, tenant_id: TenantId, ids: Collection[RecordId]) -> int:
        """Remove the found names among ``ids`` that have no edge left; return their number."""

    def delete_only_mentioned(self, tenant_id: TenantId, mentions: Sequence[Relationship]) -> tuple[int, int]:
        """Remove the found names that have no edge besides these mentions, together with those.

        Called before the mentions are removed, and returns how many names and mentions were removed: none where a
        change is one transaction. Elsewhere one that breaks off between both would leave names that no text has, and
        repeating it would not find them.
        """

    def distrust_unmentioned(self, tenant_id: TenantId, ids: Collection[RecordId]) -> int:
        """Mark the found names and stubs among ``ids`` as untrusted that have no trusted edge.

        Returns how many. Those with more than :data:`MAX_TRUST_EDGES` edges stay as they are.
        """

    def delete_relationships(self, tenant_id: TenantId, relationships: Sequence[Relationship]) -> int:
        """Remove edges by their identity and return how many there were."""

    def remove_mentions(self, tenant_id: TenantId, mentions: Sequence[Relationship]) -> None:
        """Remove any number of mentions that were found in texts, so that no reader sees them any more.

        Called in a transaction, as its last change of the graph. Found names without any edge left are removed by
        :meth:`finish_removals`.
        """

    def finish_removals(self, tenant_id: TenantId) -> None:
        """Remove the remaining rows of removed mentions, in batches; called outside a transaction."""

    def delete_relationships_of(self, tenant_id: TenantId, ids: Collection[RecordId]) -> int:
        """Remove the edges with an endpoint or their evidence among ``ids`` and return how many there were.

        Stubs that have no trusted edge left are marked as :meth:`distrust_unmentioned` does.
        """

    def remove_most_relationships_of(self, tenant_id: TenantId, ids: Collection[RecordId]) -> int:
        """Remove such edges in batches until few are left, and return how many; called outside a transaction.

        So no single transaction removes very many. A store whose writes block no other ones removes none.
        """

    def end_relationships(self, tenant_id: TenantId, until: Mapping[RecordId, Timestamp]) -> int:
        """End the edges whose evidence these records are, at the latest at the record's time in ``until``.

        No edge ends before it begins. Returns how many were changed; edges that end early enough are not read.
        """

    def ends_not_moved(self, tenant_id: TenantId, until: Mapping[RecordId, Timestamp]) -> Collection[RecordId]:
        """Return the records whose edges :meth:`end_relationships` may not end at these times.

        Those of which, with the records before, more than :data:`MAX_ENDS_MOVED` edges have ended already and would end
        earlier: a write of a few bytes could be repeated with an earlier time each. None in a store whose writes block
        no other ones.
        """

    def distrust_relationships(self, tenant_id: TenantId, evidence: Collection[RecordId]) -> int:
        """Mark the edges whose evidence these records are as untrusted, and stubs at their ends.

        Returns how many edges were changed; those that are untrusted already are not read. A stub is marked as
        :meth:`distrust_unmentioned` does.
        """

    def distrust_most_relationships(self, tenant_id: TenantId, evidence: Collection[RecordId]) -> int:
        """Mark such edges in batches until few trusted ones are left, and return how many; outside a transaction.

        So no single transaction marks very many. They stay marked if the record itself is then not stored as untrusted.
        A store whose writes block no other ones marks none.
        """

    def given_names(
        self, tenant_id: TenantId, names: Sequence[str], *, as_of: Timestamp, limit: int
    ) -> list[GivenName]:
        """Return up to ``limit`` of the names and aliases that equal one of ``names``, ordered by vertex and name.

        ``names`` are normalised by ``tokens.normalise``. The vertices are trusted and valid at ``as_of``; found names
        and the vertices of texts are left out. Very many vertices may have a name in common: their other names are not
        read, and a graph may look at a bounded number of the vertices that are left out.
        """

    def found_mentions(self, tenant_id: TenantId, texts: Collection[RecordId]) -> list[Relationship]:
        """Return the mentions that lead to ``texts`` and were found there, complete, ordered by identity.

        Outgoing mentions of these ids are not read: very many texts may mention the same entity.
        """

    def reassign_mentions(self, tenant_id: TenantId, successors: Mapping[RecordId, RecordId]) -> int:
        """Move the mentions of vertices to their successors, given by id, and return how many were moved.

        A mention that the successor already has is left as it is, and one in the successor's own text is removed: no
        vertex mentions itself.
        """

    def get_many(self, tenant_id: TenantId, ids: Sequence[RecordId]) -> list[Vertex]:
        """Return the vertices that exist, complete, in the order of ``ids``."""

    def as_stored(self, tenant_id: TenantId, relationships: Sequence[Relationship]) -> list[Relationship]:
        """Return the stored edges with the identities of these edges, complete, ordered by identity."""

    def relationships(
        self,
        tenant_id: TenantId,
        *,
        ids: Collection[RecordId],
        types: Collection[Label] = (),
    ) -> list[Relationship]:
        """Return the edges with an endpoint among ``ids``, valid or not, complete, ordered by identity.

        Only edges of ``types``; empty means any.
        """

    def types(self, tenant_id: TenantId, wanted: GraphTypes) -> GraphTypes:
        """Return the types in a tenant's stored counts; the wanted types where no counts are stored."""

    def prepare_walks(self, tenant_id: TenantId) -> None:
        """Prepare, at the end of an ingest, the data that the first walks of a large graph would otherwise wait for."""

    def recount(self, tenant_id: TenantId, *, dry_run: bool = False) -> bool:
        """Count a tenant's whole graph and return whether the stored counts differed.

        They are replaced unless ``dry_run`` is set. Meant for a tenant without concurrent writes.
        """

    def scan(self, tenant_id: TenantId, *, after: str | None = None, limit: int = 500, hubs: bool = True) -> GraphPage:
        """Return the next vertices in the order of their ids, with their outgoing edges.

        Each vertex that exists throughout the scan is returned exactly once, and so is each such edge.

        Raises InvalidRequest if ``limit`` is out of bounds, or ``after`` is no cursor of this tenant.

        Parameters
        ----------
        after
            Cursor of the previous page, of any process and age; None begins.
        limit
            Most vertices of the page, 1 to 1,000; it has fewer where they have very many edges.
        hubs
            Whether the edges of a single vertex with more than :data:`PAGE_EDGES` are read, rather than only counted.
        """
