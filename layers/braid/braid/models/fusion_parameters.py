"""What `braid tune` fits: how much each strand counts."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from braid.models.enums import Intent
from braid.models.scalars import Frozen, Weight

MAX_DAMPING = 0.95
"""Beyond it a walk hardly knows where it began, and takes thousands of steps to settle."""
Shift = Annotated[float, Field(ge=-1.0, le=1.0)]
"""Added to the text's weight and taken from the graph's."""


class FusionParameters(Frozen):
    """The numbers of fusion; the defaults are what the documentation states."""

    vector_weight: Weight = 0.5
    """Base weight of text, vectors and words together, for a question that states none."""
    graph_weight: Weight = 0.5
    lexical_share: Weight = 0.4
    """Share of the words in the text strand; the vectors have the rest."""
    temporal_shift: Shift = -0.10
    causal_shift: Shift = -0.15
    lookup_shift: Shift = 0.10
    exploratory_shift: Shift = 0.0
    entity_shift: Shift = -0.15
    """For questions about entities and how they are related, beside the shift of their intent."""
    count_shift: Weight = 0.1
    """What a strand gains that found much while the other found little."""
    hit_share: Weight = 0.5
    """What a hit of the text search counts as the beginning of a walk, where one from a name answers already."""
    name_weight: Annotated[float, Field(ge=0, le=100)] = 3.0
    """Where propagation begins: what a certain name counts, all hits of the text search together counting 1."""
    damping: Annotated[float, Field(gt=0, le=MAX_DAMPING)] = 0.7
    """Of propagation: the probability of walking on rather than beginning again."""
    bridging: Weight = 0.5
    """What a text gains, the more the more it is like the question, that shares an entity with a better one."""
    coherence: Weight = 0.4
    """What a text gains that a better one mentions in the question's own words."""
    rank_constant: Annotated[int, Field(ge=1, le=10_000)] = 60
    """Of reciprocal rank fusion."""

    @model_validator(mode="after")
    def _something_counts(self) -> Self:
        if self.vector_weight + self.graph_weight <= 0:
            message = "vector_weight and graph_weight are both 0"
            raise ValueError(message)
        return self

    def intent_shift(self, intent: Intent) -> float:
        """Return what an intent adds to the text's weight."""
        return {
            Intent.TEMPORAL: self.temporal_shift,
            Intent.CAUSAL: self.causal_shift,
            Intent.LOOKUP: self.lookup_shift,
            Intent.EXPLORATORY: self.exploratory_shift,
        }[intent]
