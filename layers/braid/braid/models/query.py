"""Questions, with their filters, graph constraint and hints."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import FailFast, Field, model_validator

from braid.models.enums import Direction, Fusion, Intent, Kind, Ranking, RerankerKind, Strategy
from braid.models.scalars import Frozen, Label, Name, QueryText, Score, TenantId, Timestamp, Weight

MAX_TYPES = 100
"""Entity types that one condition may name; bounded because the question travels in the workflow's state."""


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

    kinds: Annotated[tuple[Kind, ...], Field(max_length=32), FailFast()] = ()
    entity_types: Annotated[tuple[Label, ...], Field(max_length=MAX_TYPES), FailFast()] = ()
    time_range: TimeRange | None = None
    task_id: Name | None = None
    tool_name: Name | None = None
    trusted_only: Annotated[bool, Field(strict=True)] = False
    """Whether records that are marked as not trusted are left out."""


class TemporalContext(Frozen):
    """What a temporal question is about; part of the embedded text."""

    time_range: TimeRange | None = None
    relation: Label | None = None


class GraphConstraint(Frozen):
    """Restrict the answer to what a walk from one entity reaches."""

    entity: Name
    types: Annotated[tuple[Label, ...], Field(max_length=32), FailFast()] = ()
    direction: Direction = Direction.BOTH
    depth: Annotated[int, Field(strict=True, ge=1, le=3)] = 1


class StepOperation(StrEnum):
    """What one step of a multi-hop plan does."""

    SEARCH = "search"
    EXPAND = "expand"


class PlanStep(Frozen):
    """One step of a multi-hop plan: search, or walk from what the step before found."""

    operation: StepOperation
    entity_types: Annotated[tuple[Label, ...], Field(max_length=MAX_TYPES), FailFast()] = ()
    types: Annotated[tuple[Label, ...], Field(max_length=32), FailFast()] = ()
    direction: Direction = Direction.BOTH
    limit: Annotated[int, Field(strict=True, ge=1, le=50)] = 10


class Hints(Frozen):
    """Choices of the caller that override the planner's."""

    strategy: Strategy | None = None
    steps: Annotated[tuple[PlanStep, ...], Field(max_length=6)] = ()
    min_similarity: Score | None = None


class Question(Frozen):
    """One question, without its tenant."""

    text: QueryText
    intent: Intent | None = None
    top_k: Annotated[int, Field(strict=True, ge=1, le=50)] = 10
    vector_weight: Weight | None = None
    graph_weight: Weight | None = None
    """Base weights of text and graph; those of the fusion parameters when not given."""
    fusion: Fusion | None = None
    """How the strands are combined; the plan chooses when not given."""
    ranking: Ranking = Ranking.RELEVANCE
    reranker: RerankerKind | None = None
    temporal_context: TemporalContext | None = None
    filters: Filters = Filters()
    graph_constraint: GraphConstraint | None = None
    hints: Hints = Hints()
    as_of: Timestamp | None = None
    explain: Annotated[bool, Field(strict=True)] = False

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.vector_weight == 0 and self.graph_weight == 0:
            message = "vector_weight and graph_weight are both 0"
            raise ValueError(message)
        hinted = Strategy.MULTI_HOP if self.hints.steps and self.hints.strategy is None else self.hints.strategy
        if hinted is Strategy.GRAPH_FIRST and self.graph_constraint is None:
            message = "hints.strategy graph_first needs a graph_constraint"
            raise ValueError(message)
        if self.graph_constraint and hinted not in {None, Strategy.GRAPH_FIRST, Strategy.VECTOR_FIRST}:
            message = f"hints.strategy {hinted} does not keep to a graph_constraint; graph_first and vector_first do"
            raise ValueError(message)
        return self


class Query(Question):
    """One question of one tenant."""

    tenant_id: TenantId
