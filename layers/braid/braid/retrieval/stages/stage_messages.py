"""Requests and results of the stages: ids, scores, paths and timings, but no record's text or vectors.

Each stage takes a request and returns its result; the state machine (or the pipeline) collects the results. A result is
None if the stage did not run, or failed: then ``lost`` has the error under the stage's name.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import ConfigDict, Field

from braid.models import Embedding, EntityLink, Frozen, GraphHit, Hit, Plan, PlanStep, Query, RecordId, Score, Timestamp

Milliseconds = Annotated[float, Field(ge=0)]


class Lost(Frozen):
    """Error of a failed stage, as a state machine's Catch reports it."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    error: Annotated[str, Field(validation_alias="Error")]
    cause: Annotated[str, Field(validation_alias="Cause")] = ""


class QuestionRequest(Frozen):
    """Request of a stage, which has the question."""

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
    """Whether the default model replaced the one that the plan chose."""
    took_ms: Milliseconds


class SearchStageRequest(QuestionRequest):
    """A search by vector and words; without a vector, by words alone."""

    plan: Plan
    embedded: Embedded | None = None
    frontier: tuple[RecordId, ...] | None = None
    """Ids of the only records to search: a graph constraint's reach, or the frontier of the step before."""
    step: PlanStep | None = None


class Searched(Frozen):
    """Hits of both text strands."""

    vector: tuple[Hit, ...] = ()
    lexical: tuple[Hit, ...] = ()
    superseded: int = 0
    begins_at: Timestamp | None = None
    """When the first record that was excluded as not valid yet becomes valid."""
    outdated: tuple[RecordId, ...] = ()
    """The best records that the schema window alone excluded."""
    space_empty: bool = False
    """Whether the tenant has vectors in other embedding spaces, but none in that of the question."""
    frontier: tuple[RecordId, ...] = ()
    """Ids of the best hits of both strands, for the next step or as seeds of a walk."""
    took_ms: Milliseconds


class GraphOperation(StrEnum):
    """An operation of the graph_expand stage."""

    LINK = "link"
    """Link the question's names, find their mentions and walk from them, in parallel to the text search."""
    WALK = "walk"
    """The same instead of the text search: with ``graph_only``, and with ``semantic`` if the search fails."""
    EXPAND = "expand"
    """Walk or propagate from the text search's first hits and the linked names, by intent."""
    CONSTRAIN = "constrain"
    """Find the reach of the caller's graph constraint."""
    CHECK = "check"
    """Check which of the text search's hits are inside the caller's graph constraint."""
    STEP = "step"
    """Take one step of a multi-hop plan."""


RECORDED_AS: Final = {
    GraphOperation.LINK: "link",
    GraphOperation.CONSTRAIN: "link",
    GraphOperation.CHECK: "link",
    GraphOperation.WALK: "graph_expand",
    GraphOperation.EXPAND: "graph_expand",
    GraphOperation.STEP: "graph_expand",
}
"""Name of an operation in an answer's timings and ``degraded``, and of its span in an in-process trace: ``link`` for
look-ups in parallel to or before the walk. In a deployment all are spans of one function."""


class FactGroup(Frozen):
    """Relationships that answer a question in one way."""

    score: Score
    count: Annotated[int, Field(ge=0)]
    """Number of distinct answers, of which ``hits`` may have fewer; 0 if every entity of the type that is asked for has
    the relationship that the answers are to lack."""
    complete: bool
    """Whether no bound of the look-up left any out."""
    hits: tuple[GraphHit, ...]
    """The answers, each with the path to it from an entity that the question names. None if there are relationships
    that the question says, but that are of other types than it asks for, or too uncertain."""


class GraphFound(Frozen):
    """Hits of the graph, and the links of the question's names that they were reached from."""

    links: tuple[EntityLink, ...] = ()
    hits: tuple[GraphHit, ...] = ()
    facts: tuple[FactGroup, ...] = ()
    """Relationships that answer the question, the best first."""
    truncated: bool = False
    propagated: bool = False
    """Whether the hits come from propagation, the text hits among them."""
    propagation_weight: Score = 1.0
    """Share of propagation in the fused score; vectors and words have the rest."""
    frontier: tuple[RecordId, ...] = ()
    """Ids for the next step; of a constraint, all ids that may be answers."""
    wide: bool = False
    """Whether a constraint reached more than ``hits`` has, so that text hits are checked to get their paths."""
    overflow: bool = False
    """Whether a constraint reached more than ``frontier`` has, so that the search is not limited to it."""
    short: bool = False
    """Whether a check left too few hits while more may be inside, so that ``frontier`` is searched next."""
    unknown: bool = False
    """Whether the constraint's entity is neither a name nor an id in the graph."""
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
    """The results of all previous stages."""

    plan: Plan
    trace_id: str
    started_at: Timestamp
    plan_ms: Milliseconds = 0.0
    embedded: Embedded | None = None
    searched: Searched | None = None
    linked: GraphFound | None = None
    """Result of linking the question's names; with a graph constraint, of its reach or check."""
    expanded: GraphFound | None = None
    """Result of walks or propagation from names and text hits; of ``graph_only`` from names; of steps, the last's."""
    lost: dict[str, Lost] = Field(default_factory=dict)
    without_rerank: bool = False
    """Set on the second try, after the first one failed."""
