"""What is answered: results with their evidence."""

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
    """What ``recency`` counts from: when it was last updated, else when it happened, else when it was written."""
    valid_at: datetime | None = None
    invalid_at: datetime | None = None
    metadata: dict[str, str | int | float | bool | None] = Field(default_factory=dict)
    shortened: bool = False
    """Whether text or metadata were left out, so that the answer is not too long to be sent; the record has them."""


class RelatedEntity(Frozen):
    """An entity that the question names, or that a path to a result passes."""

    id: RecordId
    name: str
    entity_type: Label
    linked: bool
    """Whether the question itself names it."""
    certainty: Score | None = None
    """Of one that the question names, how surely its words are meant as a name, by how they are written."""


class Considered(Frozen):
    """A candidate that a strand put among its first, and that did not come among the results."""

    id: RecordId
    title: str
    rank: Annotated[int, Field(ge=1)]
    """Where it would stand if more results had been asked for."""
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
    """With ``explain``: what each strand had among its first, and what became of it; else nothing."""
    plan: Plan
    weights: Weights
    fusion: Fusion = Fusion.WEIGHTED
    """How the strands were combined in the end."""
    confidence: Score = 1.0
    """How surely the question is about anything that is stored, whatever its best result is; below ``LIKELY`` it
    probably is not."""
    counts: dict[str, int]
    """Candidates by source, after fusion, and read; outdated records met."""
    superseded: int
    """Records that would have been among the candidates, had they still been valid."""
    truncated: bool
    """Whether a hub's fan-out budget cut the walk short."""
    unknown_entity: Name | None = None
    """The graph constraint's entity, when nothing in the tenant's graph has this name or id."""
    degraded: tuple[str, ...]
    """Stages that were lost, and what else was missing: the answer is less than it could be."""
    latency_ms: dict[str, float]
    """Per stage, and ``total``."""
    answered_at: Timestamp
    """The moment that ages, and without ``as_of`` validity, are as of."""
    holds_until: Timestamp | None = None
    """Until when the same question finds the same in the same order if nothing is written; None, it is not known."""
    cached: bool = False
    """Whether it was worked out for an earlier question that was equal; ages are of this call nevertheless."""
    rerank_cost_usd: Annotated[float, Field(ge=0)] = 0.0
    """Estimated price of the reranker's call in US dollars; 0 for a model of one's own."""
