"""Requests and results of the stages: ids, scores, paths and timings, never text or raw vectors.

Each stage takes a request and returns its result; the state machine (or the pipeline) collects the results. A result
that is None was not asked for, or was lost: then ``lost`` holds the error under the stage's name.
"""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from braid.models import Embedding, EntityLink, Frozen, GraphHit, Hit, Plan, PlanStep, Query, RecordId, Timestamp

Milliseconds = Annotated[float, Field(ge=0)]


class Lost(Frozen):
    """Why a stage was lost, as a state machine's Catch reports it."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    error: Annotated[str, Field(validation_alias="Error")]
    cause: Annotated[str, Field(validation_alias="Cause")] = ""


class PlanRequest(Frozen):
    """A question as it came."""

    query: Query
    trace_id: str
    started_at: Timestamp


class Planned(Frozen):
    """The question with its defaults filled in, and how it will be answered; the workflow's first state."""

    query: Query
    plan: Plan
    trace_id: str
    started_at: Timestamp
    plan_ms: Milliseconds
    graph_holds_until: Timestamp | None = None
    """When validity next changes something in the tenant's graph; None when it was not asked for or is not known."""


class EmbedRequest(Frozen):
    """Which question to embed, and as the plan says with which model."""

    query: Query
    plan: Plan


class Embedded(Frozen):
    """The question's vector."""

    embedding: Embedding
    fallback: bool = False
    """Whether the default model stood in for the one that the plan chose."""
    took_ms: Milliseconds


class SearchStageRequest(Frozen):
    """Search by vector and words; without a vector, by words alone."""

    query: Query
    plan: Plan
    embedded: Embedded | None = None
    frontier: tuple[RecordId, ...] | None = None
    """Only these records: what a graph constraint or the step before found."""
    step: PlanStep | None = None


class Searched(Frozen):
    """Hits of both text strands."""

    vector: tuple[Hit, ...] = ()
    lexical: tuple[Hit, ...] = ()
    superseded: int = 0
    outdated: tuple[RecordId, ...] = ()
    """The best of what only the schema window kept out."""
    space_empty: bool = False
    """Whether nothing of the tenant is stored in the embedding space of the question, though in others."""
    frontier: tuple[RecordId, ...] = ()
    """The best of both strands, for the next step."""
    took_ms: Milliseconds


class GraphOperation(StrEnum):
    """What the graph is asked."""

    LINK = "link"
    """Names in the question, what mentions them, and what is reached from them: the graph alone."""
    EXPAND = "expand"
    """What is reached from the text search's first hits, by intent."""
    CONSTRAIN = "constrain"
    """What the caller's graph constraint allows."""
    CHECK = "check"
    """Which of the text search's hits the caller's graph constraint allows."""
    STEP = "step"
    """One step of a multi-hop plan."""


class GraphFound(Frozen):
    """Vertices that the graph gave, and the names of the question that led there."""

    links: tuple[EntityLink, ...] = ()
    hits: tuple[GraphHit, ...] = ()
    truncated: bool = False
    propagated: bool = False
    """Whether the hits are those of propagation, which has the text's hits in it already."""
    frontier: tuple[RecordId, ...] = ()
    """Ids for the next step; of a constraint, all that may be an answer."""
    wide: bool = False
    """Whether a constraint reached more than ``hits`` carries: what is found inside is to be checked for its paths."""
    overflow: bool = False
    """Whether a constraint reached more than ``frontier`` carries: the search begins with everything instead."""
    short: bool = False
    """Whether a check left too few, while more may be inside: the search goes on inside ``frontier``."""
    unknown: bool = False
    """Whether the constraint's entity is neither a name nor an id that the graph knows."""
    took_ms: Milliseconds


class GraphRequest(Frozen):
    """One question to the graph."""

    operation: GraphOperation
    query: Query
    plan: Plan
    searched: Searched | None = None
    linked: GraphFound | None = None
    frontier: tuple[RecordId, ...] | None = None
    step: PlanStep | None = None


class FuseRequest(Frozen):
    """Everything that was found."""

    query: Query
    plan: Plan
    trace_id: str
    started_at: Timestamp
    plan_ms: Milliseconds = 0.0
    graph_holds_until: Timestamp | None = None
    embedded: Embedded | None = None
    searched: Searched | None = None
    linked: GraphFound | None = None
    expanded: GraphFound | None = None
    lost: dict[str, Lost] = Field(default_factory=dict)
    without_rerank: bool = False
    """Set by the state machine's second try, when the first did not come back."""


class Stopwatch:
    """Milliseconds since it was made, from a clock that never goes back."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def ms(self) -> float:
        """Return elapsed milliseconds, to the microsecond."""
        return round((time.perf_counter() - self._start) * 1000.0, 3)

    def lap(self) -> float:
        """Return elapsed milliseconds and start again."""
        elapsed, self._start = self.ms(), time.perf_counter()
        return elapsed
