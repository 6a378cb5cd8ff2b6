"""Requests and results of the stages: ids, scores, paths and timings, no record's text or vectors.

Each stage takes a request and returns its result; the state machine (or the pipeline) collects the results. A result
that is None was not asked for, or was lost: then ``lost`` holds the error under the stage's name.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from braid.models import Embedding, EntityLink, Frozen, GraphHit, Hit, Plan, PlanStep, Query, RecordId, Score, Timestamp

Milliseconds = Annotated[float, Field(ge=0)]


class Lost(Frozen):
    """Error of a lost stage, as a state machine's Catch reports it."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    error: Annotated[str, Field(validation_alias="Error")]
    cause: Annotated[str, Field(validation_alias="Cause")] = ""


class QuestionRequest(Frozen):
    """Request of a stage, with the question."""

    query: Query

    @property
    def tenant_id(self) -> str:
        """Tenant of the question."""
        return self.query.tenant_id


class AnswerRequest(QuestionRequest):
    """A question as callers send it, to the workflow or to the function that answers in one process."""


class PlanRequest(QuestionRequest):
    """A question before planning."""

    trace_id: str
    started_at: Timestamp


class Planned(Frozen):
    """The question with its defaults filled in, and its plan; the workflow's first state."""

    query: Query
    plan: Plan
    trace_id: str
    started_at: Timestamp
    plan_ms: Milliseconds


class EmbedRequest(QuestionRequest):
    """A question to embed, with the plan that names the model."""

    plan: Plan


class Embedded(Frozen):
    """The question's vector."""

    embedding: Embedding
    fallback: bool = False
    """Whether the default model stood in for the one that the plan chose."""
    took_ms: Milliseconds


class SearchStageRequest(QuestionRequest):
    """A search by vector and words; without a vector, by words alone."""

    plan: Plan
    embedded: Embedded | None = None
    frontier: tuple[RecordId, ...] | None = None
    """Only these records: the reach of a graph constraint, or the frontier of the step before."""
    step: PlanStep | None = None


class Searched(Frozen):
    """Hits of both text strands."""

    vector: tuple[Hit, ...] = ()
    lexical: tuple[Hit, ...] = ()
    superseded: int = 0
    begins_at: Timestamp | None = None
    """When the first of those that are not valid yet becomes so."""
    outdated: tuple[RecordId, ...] = ()
    """The best records that only the schema window excluded."""
    space_empty: bool = False
    """Whether the tenant has vectors in other embedding spaces, but none in that of the question."""
    frontier: tuple[RecordId, ...] = ()
    """The best of both strands, for the next step."""
    took_ms: Milliseconds


class GraphOperation(StrEnum):
    """An operation of the graph_expand stage."""

    LINK = "link"
    """Link the question's names, and find their mentions and what is reached from them: the graph alone."""
    EXPAND = "expand"
    """Walk or propagate from the text search's first hits, by intent."""
    CONSTRAIN = "constrain"
    """Find the reach of the caller's graph constraint."""
    CHECK = "check"
    """Check which of the text search's hits are inside the caller's graph constraint."""
    STEP = "step"
    """Take one step of a multi-hop plan."""


class FactGroup(Frozen):
    """Relationships that answer a question in one way."""

    score: Score
    count: Annotated[int, Field(ge=1)]
    """Different answers, of which ``hits`` may hold fewer."""
    complete: bool
    """Whether no bound of the look-up kept any out."""
    hits: tuple[GraphHit, ...]
    """Their paths lead from what the question names to the answer."""


class GraphFound(Frozen):
    """Hits of the graph, and the links of the question's names that led there."""

    links: tuple[EntityLink, ...] = ()
    hits: tuple[GraphHit, ...] = ()
    facts: tuple[FactGroup, ...] = ()
    """Relationships that answer the question, the best first."""
    truncated: bool = False
    propagated: bool = False
    """Whether the hits are of propagation, which includes the text hits."""
    propagation_weight: Score = 1.0
    """Share of propagation in the fused score; vectors and words have the rest."""
    frontier: tuple[RecordId, ...] = ()
    """Ids for the next step; of a constraint, all ids that may be answers."""
    wide: bool = False
    """Whether a constraint reached more than ``hits`` holds, so that hits of the search are checked for their paths."""
    overflow: bool = False
    """Whether a constraint reached more than ``frontier`` holds, so that the search is not limited to it."""
    short: bool = False
    """Whether a check left too few hits while more may be inside, so that ``frontier`` is searched."""
    unknown: bool = False
    """Whether the constraint's entity is neither a name nor an id that the graph knows."""
    took_ms: Milliseconds = 0


class GraphRequest(QuestionRequest):
    """One operation on the graph."""

    operation: GraphOperation
    plan: Plan
    searched: Searched | None = None
    linked: GraphFound | None = None
    frontier: tuple[RecordId, ...] | None = None
    step: PlanStep | None = None


class FuseRequest(QuestionRequest):
    """The results of all stages before."""

    plan: Plan
    trace_id: str
    started_at: Timestamp
    plan_ms: Milliseconds = 0.0
    embedded: Embedded | None = None
    searched: Searched | None = None
    linked: GraphFound | None = None
    """What the graph has of the question's names; of one with a graph constraint, what that reaches."""
    expanded: GraphFound | None = None
    """What walks or propagation found from names and first hits; of ``graph_only`` from names, of steps the last's."""
    lost: dict[str, Lost] = Field(default_factory=dict)
    without_rerank: bool = False
    """Set by the second try, after the first failed."""
