"""Answers: results with their scores, paths and citations."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

from pydantic import Field

from braid.models.enums import Fusion, Kind, Source
from braid.models.hits import Path
from braid.models.plan import Plan, Weights
from braid.models.records import SourceType
from braid.models.scalars import Frozen, Label, Name, RecordId, Score, Timestamp


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
    vector_supplied: bool = False
    """Whether the vector that found it came with the record, and so was not made by the model of its space."""
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
    aged_from: datetime | None = None
    """Start of its age: when it was last updated, else when it happened, else when it was written."""
    valid_at: datetime | None = None
    invalid_at: datetime | None = None
    metadata: dict[str, str | int | float | bool | None] = Field(default_factory=dict)
    shortened: bool = False
    """Whether text or metadata were left out to keep the answer short enough to send; the record has them."""
    trusted: bool = True
    """False of a record that whoever wrote it marked so: its text is not for a model that acts on what it reads."""


class RelatedEntity(Frozen):
    """An entity that the question names, or that a path to a result passes."""

    id: RecordId
    name: str
    entity_type: Label
    linked: bool
    """Whether the question itself names it."""
    certainty: Score | None = None
    """For one that the question names: how certain it is, by their spelling, that its words are meant as a name."""


class Considered(Frozen):
    """A runner-up: a candidate among the first of a strand that was not returned."""

    id: RecordId
    title: str
    rank: Annotated[int, Field(ge=1)]
    """Its rank if more results had been asked for."""
    fused_rank: Annotated[int, Field(ge=1)]
    ranks: dict[Source, int]
    final: Score


LIKELY: Final = 0.5
"""A confidence below which most questions are about something that is not stored."""


class Answer(Frozen):
    """One ranked, cited list and how it came about."""

    trace_id: str
    results: tuple[Result, ...]
    sources: tuple[Citation, ...]
    related_entities: tuple[RelatedEntity, ...]
    considered: tuple[Considered, ...] = ()
    """With ``explain`` the runners-up; else empty."""
    plan: Plan
    weights: Weights
    fusion: Fusion = Fusion.WEIGHTED
    """How the strands were combined in the end."""
    confidence: Score = 1.0
    """How certain it is that the question is about anything stored; below ``LIKELY`` it probably is not."""
    counts: dict[str, int]
    """Candidates by source, after fusion, and read; outdated records met."""
    superseded: int
    """Records that would have been among the candidates, had they still been valid."""
    truncated: bool
    """Whether a hub's fan-out budget cut the walk short."""
    unknown_entity: Name | None = None
    """The graph constraint's entity, when nothing in the tenant's graph has this name or id."""
    degraded: tuple[str, ...]
    """Stages that failed, and what else the answer lacks."""
    latency_ms: dict[str, float]
    """Per stage, and ``total``."""
    answered_at: Timestamp
    """The time for which recency, and without ``as_of`` validity, was computed."""
    holds_until: Timestamp | None = None
    """Until when it may be given again if nothing is written: nothing in it ceases to be valid before, nor does age
    change its order; None if it may not."""
    cached: bool = False
    """Whether it comes from the cache of answers; recency is of this call nevertheless."""
    rerank_cost_usd: Annotated[float, Field(ge=0)] = 0.0
    """Estimated price of the reranker's call in US dollars; 0 for a local model."""
