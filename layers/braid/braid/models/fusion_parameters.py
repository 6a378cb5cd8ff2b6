"""Fusion parameters, which `braid tune` fits: weights of the strands, propagation, boosts."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from braid.models.enums import Intent
from braid.models.scalars import Frozen, Weight

MAX_DAMPING = 0.95
"""Above it PageRank hardly depends on its seeds, and needs thousands of iterations to converge."""
Shift = Annotated[float, Field(ge=-1.0, le=1.0)]
"""Added to the text's weight and taken from the graph's."""


class FusionParameters(Frozen):
    """The numbers of fusion; the documentation states the defaults."""

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
    """Added to the weight of a strand with many hits while the other has few."""
    hit_share: Weight = 0.5
    """Weight of a walk from a hit of the text search, where a walk from a name answers already."""
    name_weight: Annotated[float, Field(ge=0, le=100)] = 3.0
    """Seeds of propagation: weight of a certain name; all hits of the text search together have 1."""
    damping: Annotated[float, Field(gt=0, le=MAX_DAMPING)] = 0.7
    """Damping factor of PageRank: the probability of following an edge rather than returning to a seed."""
    bridging: Weight = 0.5
    """Boost of a record that shares an entity with a better one, scaled by its similarity to the question."""
    coherence: Weight = 0.4
    """Boost of a record that a better one mentions in the question's own words."""
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
