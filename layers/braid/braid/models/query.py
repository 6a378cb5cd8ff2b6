"""A question with its fields, such as ``as_of``, its plan, and its fusion parameters."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Final, Self

from pydantic import FailFast, Field, model_validator

from braid.errors import InvalidRequest
from braid.models.enums_and_scalars import (
    Asked,
    AskedTime,
    Direction,
    EmbeddingType,
    Frozen,
    Fusion,
    Intent,
    Kind,
    Label,
    Mode,
    Name,
    QueryText,
    Ranking,
    RerankerKind,
    Score,
    Strategy,
    TenantId,
    Weight,
)
from braid.models.metadata_filters import MAX_FACETS, Conditions, FieldName, term_tests

if TYPE_CHECKING:
    from collections.abc import Collection

    from braid.models.metadata_terms import TermTest

MAX_TYPES_ASKED = 100
"""Entity types that one condition may name; bounded because the question travels in the workflow's state."""


class TimeRange(Frozen):
    """A half-open interval ``start <= t < end``; either end may be open."""

    start: AskedTime | None = None
    end: AskedTime | None = None

    @model_validator(mode="after")
    def _is_ordered(self) -> TimeRange:
        if self.start and self.end and self.end <= self.start:
            raise ValueError("end is not after start")
        return self


class Filters(Frozen):
    """Conditions that every result meets. An empty tuple means no condition."""

    kinds: Annotated[tuple[Kind, ...], Field(max_length=32), FailFast()] = ()
    entity_types: Annotated[tuple[Label, ...], Field(max_length=MAX_TYPES_ASKED), FailFast()] = ()
    time_range: TimeRange | None = None
    task_id: Name | None = None
    tool_name: Name | None = None
    trusted_only: Annotated[bool, Field(strict=True)] = False
    """Whether records that are marked as not trusted are left out."""
    metadata: Conditions = ()
    """Conditions on fields of the metadata; may also be given as an object, by field."""

    @cached_property
    def metadata_tests(self) -> tuple[TermTest, ...]:
        """The term tests of the conditions on metadata, computed once for many records."""
        return tuple(term_tests(self.metadata))

    @property
    def restrict(self) -> bool:
        """Whether any filter besides ``trusted_only`` is set."""
        return self.altered(trusted_only=False) != Filters()


class TemporalContext(Frozen):
    """Time and relation of a temporal question; part of the embedded text."""

    time_range: TimeRange | None = None
    relation: Label | None = None


class GraphConstraint(Frozen):
    """Restricts the answer to records that a walk from one entity reaches."""

    entity: Name
    types: Annotated[tuple[Label, ...], Field(max_length=32), FailFast()] = ()
    direction: Direction = Direction.BOTH
    depth: Annotated[int, Field(strict=True, ge=1, le=3)] = 1


class StepOperation(StrEnum):
    """Operation of one step of a multi-hop plan."""

    SEARCH = "search"
    EXPAND = "expand"


class PlanStep(Frozen):
    """One step of a multi-hop plan: a search, or a walk from the hits of the previous step."""

    operation: StepOperation
    entity_types: Annotated[tuple[Label, ...], Field(max_length=MAX_TYPES_ASKED), FailFast()] = ()
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
    as_of: AskedTime | None = None
    """Time at which items must be valid; None means now, which the stages fill in. A date in the text never sets it."""
    facets: Annotated[tuple[FieldName, ...], Field(max_length=MAX_FACETS), FailFast()] = ()
    """Fields of the metadata whose values are counted among all records that meet the filters."""
    explain: Annotated[bool, Field(strict=True)] = False

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.vector_weight == 0 and self.graph_weight == 0:
            raise ValueError("vector_weight and graph_weight are both 0")
        hinted = Strategy.MULTI_HOP if self.hints.steps and self.hints.strategy is None else self.hints.strategy
        if hinted is Strategy.GRAPH_FIRST and self.graph_constraint is None:
            raise ValueError("hints.strategy graph_first needs a graph_constraint")
        if self.graph_constraint and hinted not in {None, Strategy.GRAPH_FIRST, Strategy.VECTOR_FIRST}:
            message = f"hints.strategy {hinted} does not keep to a graph_constraint; graph_first and vector_first do"
            raise ValueError(message)
        return self


class Query(Question):
    """One question of one tenant."""

    tenant_id: TenantId


MAX_DAMPING = 0.95
"""Above it PageRank hardly depends on its seeds, and needs thousands of iterations to converge."""
Shift = Annotated[float, Field(ge=-1.0, le=1.0)]
"""Added to the text's weight and taken from the graph's."""


class FusionParameters(Frozen):
    """Parameters of fusion, which ``braid tune`` fits; the documentation states the defaults."""

    vector_weight: Weight = 0.5
    """Base weight of text, vectors and words together, for a question that states none."""
    graph_weight: Weight = 0.5
    lexical_share: Weight = 0.5
    """Share of the words (BM25) in the text strand; the vectors have the rest."""
    temporal_shift: Shift = -0.10
    causal_shift: Shift = -0.15
    lookup_shift: Shift = 0.10
    exploratory_shift: Shift = 0.0
    entity_shift: Shift = -0.15
    """For questions in entity mode, in addition to the shift of their intent."""
    count_shift: Weight = 0.1
    """Added to the weight of a strand with many hits while the other has few."""
    hit_share: Weight = 0.5
    """Weight of a walk from a hit of the text search, where a walk from a name answers already."""
    name_weight: Annotated[float, Field(ge=0, le=100)] = 3.0
    """Seed weight, in propagation, of a name that is certain; all hits of the text search together have 1."""
    damping: Annotated[float, Field(gt=0, le=MAX_DAMPING)] = 0.7
    """Damping factor of PageRank: the probability of following an edge rather than returning to a seed."""
    bridging: Weight = 0.5
    """Boost of a record that shares an entity with a better one, scaled by its similarity to the question."""
    coherence: Weight = 0.4
    """Boost of a record that a better one mentions in the question's own words."""
    rank_constant: Annotated[int, Field(ge=1, le=10_000)] = 60
    """Constant of reciprocal rank fusion: a rank counts 1 / (constant + rank)."""

    @model_validator(mode="after")
    def _something_counts(self) -> Self:
        if self.vector_weight + self.graph_weight <= 0:
            raise ValueError("vector_weight and graph_weight are both 0")
        return self

    def intent_shift(self, intent: Intent) -> float:
        """Return the shift of an intent, which is added to the text's weight."""
        return {
            Intent.TEMPORAL: self.temporal_shift,
            Intent.CAUSAL: self.causal_shift,
            Intent.LOOKUP: self.lookup_shift,
            Intent.EXPLORATORY: self.exploratory_shift,
        }[intent]


class Weights(Frozen):
    """Weights of the strands, which sum to 1; vector and lexical together are the text strand."""

    vector: Weight
    lexical: Weight
    graph: Weight

    @model_validator(mode="after")
    def _sum_to_one(self) -> Weights:
        total = self.vector + self.lexical + self.graph
        if abs(total - 1.0) > 1e-6:  # noqa: PLR2004 - rounding of three floats
            raise ValueError(f"weights sum to {total}, not 1")
        return self


class FactQuestion(Frozen):
    """The relationships that a question asks for, by its words and the tenant's labels."""

    asked: Asked = Asked.ONE
    kinds: tuple[Label, ...] = ()
    """Entity types of the answers; empty means any."""
    only_kinds: bool = False
    """Whether an entity of any other given type is no answer, as the noun names no type of the graph: "laptops"."""
    narrowed: bool = False
    """Whether a word before the noun leaves some of the answers out, and no relationship says which: "open tickets"."""
    types: tuple[Label, ...] = ()
    """Relationship types that the question's words name."""
    others: tuple[Label, ...] = ()
    """Types whose edges' predicates may match the question; read if ``types`` leave words unexplained."""
    kind_words: tuple[str, ...] = ()
    """Words at the end of relationship types that only name a kind of entity: "service" of AFFECTS_SERVICE."""
    explained: tuple[int, ...] = ()
    """Positions of words that name the kind of the answers, or that ask for a set."""
    anything: bool = False
    """Whether any relationship of the named entity answers, as a graph without texts has no other answer."""
    of_type: Asked | None = None
    """Set of all entities of the type in ``kinds`` that answers if the question names no entity: ``all`` and ``count``
    have every one, ``not`` those without a relationship of ``types``. None if no such set is asked for."""


NOTHING_PASSES: Final = "no record meets the filters; facets without them count the values of a field"
"""Reason of a plan, where conditions on metadata and the other filters let no record pass."""

NOT_RELATED: Final = "the graph has no such relationship of what the question names; texts may say more"
"""Reason of a plan, of a question such as "Does A depend on B?" or "Who owns A?" that no fact answers."""

NONE_WITHOUT: Final = "every entity of the type that is asked for stands in that relation"
"""Reason of a plan, of a question such as "Which services have no owner?" if each of them has one."""

NONE_WITH: Final = "no entity stands in that relation"
"""Reason of a plan, of a question such as "How many services depend on A?" if nothing depends on it."""


class Plan(Frozen):
    """How one question is answered, and why."""

    strategy: Strategy
    mode: Mode
    intent: Intent
    embedding_type: EmbeddingType
    model_id: Name | None = None
    """Model that embeds the question; None leaves the choice to the embed stage's own default."""
    direction: Direction = Direction.OUT
    """Direction in which causal and temporal edges are walked."""
    fusion: Fusion = Fusion.WEIGHTED
    """How the strands are combined. Propagation is replaced by a weighted sum if a causal or temporal walk found
    something, unless the caller chose it."""
    candidates: Annotated[int, Field(ge=1, le=200)] = 50
    steps: tuple[PlanStep, ...] = ()
    facts: FactQuestion | None = None
    """Which relationships are looked up as answers; None where none are."""
    reasons: tuple[str, ...] = ()
    unknown_fields: tuple[FieldName, ...] = ()
    """Fields of the filters and facets that no record has."""

    def without_quotes(self) -> Self:
        """Return the plan without quotations of the question: names from its text, and fields that no record has."""
        return self.altered(reasons=(), unknown_fields=())


def check_reranker(asked: RerankerKind | None, enabled: Collection[RerankerKind]) -> None:
    """Refuse a hosted reranker that is not enabled. Raises InvalidRequest, which names the allowed ones."""
    if asked and asked.is_hosted and asked not in enabled:
        may = ", ".join(kind for kind in RerankerKind if not kind.is_hosted or kind in enabled)
        raise InvalidRequest.of("reranker", f"{asked.value} is not enabled here; use one of {may}")
