"""Declarative graph queries: start, steps and order as values, never as code, and their result.

They are read-only and of one tenant. Every part is bounded; results that were cut at a bound are marked.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import FailFast, Field, model_validator

from braid.models import Direction, Frozen, GraphHit, Label, Name, RecordId, Score, TenantId, TimeRange, Timestamp

MAX_STEPS: Final = 5
MAX_LIMIT: Final = 200
MAX_FAN_OUT: Final = 200
MAX_FRONTIER: Final = 1_000
"""Vertices that one step is walked on from; of more, the first by id."""
MAX_STARTS: Final = 10_000
"""Vertices among which a query without steps chooses; of more, the first by id."""
MAX_WALKS: Final = 5_000
"""Walks kept after a step: the best by score. In an answer of nodes, the best walk to each vertex is always kept."""

Types = Annotated[tuple[Label, ...], Field(max_length=32), FailFast()]


class QueryStart(Frozen):
    """Where a query begins: at the vertices that meet every condition; at least one of the first three is required."""

    ids: Annotated[tuple[RecordId, ...], Field(max_length=200), FailFast()] = ()
    names: Annotated[tuple[Name, ...], Field(max_length=50), FailFast()] = ()
    """Names or aliases, compared as the graph links them: case, accents and punctuation do not matter."""
    entity_types: Types = ()
    time_range: TimeRange | None = None
    """The vertex has a timestamp within the bounds, if any."""

    @model_validator(mode="after")
    def _begins_somewhere(self) -> QueryStart:
        if not (self.ids or self.names or self.entity_types):
            raise ValueError("needs ids, names or entity_types")
        return self


class QueryStep(Frozen):
    """One hop: conditions on the edges that it follows and on the vertices that it leads to, all of which must hold."""

    direction: Direction = Direction.OUT
    types: Types = ()
    """Relationship types; empty means any."""
    min_confidence: Score = 0.0
    """Of the edge."""
    entity_types: Types = ()
    """Entity types of the vertex that it leads to; empty means any."""
    time_range: TimeRange | None = None
    """That vertex has a timestamp within the bounds, if any."""
    name: Name | None = None
    """A name or alias of that vertex, compared as in :class:`QueryStart`."""


class QueryOrder(StrEnum):
    """The sort key of the answer, applied before the limit."""

    SCORE = "score"
    TIMESTAMP = "timestamp"
    NAME = "name"
    ID = "id"


class QueryReturn(StrEnum):
    """What each hit of the answer is: a vertex or a path."""

    NODES = "nodes"
    """A vertex that the last step leads to, once, with the best path to it."""
    PATHS = "paths"
    """A path to such a vertex; every one of them is a hit."""


class GraphQuestion(Frozen):
    """A traversal: from the start along each step in turn. A path never passes a vertex twice."""

    start: QueryStart
    steps: Annotated[tuple[QueryStep, ...], Field(max_length=MAX_STEPS)] = ()
    """Without steps the answer is the start itself."""
    returns: QueryReturn = QueryReturn.NODES
    order_by: QueryOrder = QueryOrder.SCORE
    descending: Annotated[bool, Field(strict=True)] | None = None
    """None: scores descending, everything else ascending. Hits without a timestamp or name are last either way."""
    limit: Annotated[int, Field(strict=True, ge=1, le=MAX_LIMIT)] = 50
    fan_out: Annotated[int, Field(strict=True, ge=1, le=MAX_FAN_OUT)] = 50
    """Most matching edges followed from one vertex, by highest confidence, then by identity."""
    trusted_only: Annotated[bool, Field(strict=True)] = False
    """Whether vertices and edges that are not trusted are neither walked nor returned."""


class GraphQuery(GraphQuestion):
    """A traversal of one tenant's graph, as it was at one moment."""

    tenant_id: TenantId
    as_of: Timestamp
    """Superseded edges and vertices at this moment are neither walked nor returned."""
    as_facts: bool = False
    """Whether paths have predicates and the beginning of their validity, and paths that differ only in a predicate
    are kept apart."""


class GraphResult(Frozen):
    """The hits of a query, in the order asked for; ties by score, then id, then path."""

    hits: tuple[GraphHit, ...] = ()
    """Score: the product of the edges' confidence; 1 for a start itself."""
    truncated: bool = False
    """Whether a bound other than the limit left something out."""
