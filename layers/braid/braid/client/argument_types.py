"""Keyword arguments of :meth:`braid.client.Braid.search` and others, for editors and type checkers.

The names are the fields of the models that validate the arguments, which a test compares. The types include those that
a model converts, such as text for a date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from braid.models import (
        ContextRole,
        FieldCondition,
        Filters,
        Fusion,
        GraphConstraint,
        Hints,
        Intent,
        Ranking,
        RerankerKind,
        TemporalContext,
    )

    Moment: TypeAlias = str | date
    """ISO 8601, a date, or a datetime, which is a date as well."""
    Stated: TypeAlias = Mapping[str, Any]
    """The fields of a model as a dict."""
    MetadataConditions: TypeAlias = Mapping[str, Any] | Sequence[str] | Sequence[FieldCondition | Stated]


class QuestionFields(TypedDict, total=False):
    """Fields of :class:`braid.models.Question` besides its text."""

    intent: Intent | str | None
    top_k: int
    vector_weight: float | None
    graph_weight: float | None
    fusion: Fusion | str | None
    ranking: Ranking | str
    reranker: RerankerKind | str | None
    temporal_context: TemporalContext | Stated | None
    filters: Filters | Stated
    graph_constraint: GraphConstraint | Stated | None
    hints: Hints | Stated
    as_of: Moment | None
    facets: Sequence[str]
    explain: bool


class ContextFields(TypedDict, total=False):
    """Fields of :class:`braid.retrieval.context.message_selection.ContextQuestion` but question and messages."""

    task_id: str | None
    tool_name: str | None
    metadata: MetadataConditions
    working_state: bool
    semantic: bool
    episodic: bool
    ranking: Ranking | str
    role: ContextRole | str | None
    untrusted: bool
    as_of: Moment | None
    min_score: float | None


class RelatedFields(TypedDict, total=False):
    """Arguments of :meth:`braid.client.Braid.related` besides the entity."""

    types: Sequence[str]
    direction: str
    depth: int
    limit: int
    as_of: Moment | None
    trusted_only: bool
