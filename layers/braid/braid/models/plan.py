"""Plans: the strategy for one question, and the weights of the strands."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from braid.models.enums import Direction, EmbeddingType, Fusion, Intent, Mode, Strategy
from braid.models.query import PlanStep
from braid.models.scalars import Frozen, Name, Weight


class Weights(Frozen):
    """How much each strand counts; they sum to 1. Lexical is the words' share of the text strand."""

    vector: Weight
    lexical: Weight
    graph: Weight

    @model_validator(mode="after")
    def _sum_to_one(self) -> Weights:
        total = self.vector + self.lexical + self.graph
        if abs(total - 1.0) > 1e-6:  # noqa: PLR2004 - rounding of three floats
            message = f"weights sum to {total}, not 1"
            raise ValueError(message)
        return self


class Plan(Frozen):
    """How one question is answered, and why."""

    strategy: Strategy
    mode: Mode
    intent: Intent
    embedding_type: EmbeddingType
    model_id: Name | None = None
    """Model that embeds the question; None leaves the choice to the embed stage's own default."""
    direction: Direction = Direction.OUT
    """Which way causal and temporal edges are walked."""
    fusion: Fusion = Fusion.WEIGHTED
    """How the strands are combined. Propagation gives way to a weighted sum where a causal or temporal walk found
    something, unless the caller asked for it."""
    candidates: Annotated[int, Field(ge=1, le=200)] = 50
    steps: tuple[PlanStep, ...] = ()
    reasons: tuple[str, ...] = ()
