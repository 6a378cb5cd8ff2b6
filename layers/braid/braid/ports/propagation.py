"""What a graph is asked when a question's names and hits are spread over their neighbourhood."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from braid.models import MAX_DAMPING, Frozen, RecordId, Score, TenantId, Timestamp, Weight

MAX_SEEDS = 100

Seed = tuple[RecordId, Annotated[float, Field(gt=0, allow_inf_nan=False)]]


class PropagateRequest(Frozen):
    """Personalised PageRank over what lies around the seeds.

    The neighbourhood: the ``fan_out`` surest edges of each seed, then all edges of each vertex reached, up to
    ``max_hops`` from a seed. A vertex with more than ``hub`` edges in force is reached but not walked through: what
    everything is tied to tells nothing apart.
    """

    tenant_id: TenantId
    names: tuple[Seed, ...] = ()
    """Entities that the question names, with how much each counts; paths begin at them where they can."""
    hits: tuple[Seed, ...] = ()
    """First hits of the text search, with how much each counts."""
    texts: tuple[tuple[RecordId, Score], ...] = ()
    """All that the text search found, with how like the question each is, the best being 1."""
    damping: float = Field(default=0.7, gt=0, le=MAX_DAMPING)
    """Probability of walking on rather than beginning again at a seed."""
    bridging: Weight = 0.0
    """What one of the texts gains that shares an entity with one of the best records."""
    max_hops: int = Field(default=3, ge=1, le=3)
    fan_out: int = Field(default=100, ge=1)
    hub: int = Field(default=20, ge=1)
    limit: int = Field(default=50, ge=1, le=200)
    as_of: Timestamp
    """Superseded edges and vertices at this moment are neither walked nor returned."""

    @model_validator(mode="after")
    def _is_bounded(self) -> PropagateRequest:
        if len(self.names) + len(self.hits) > MAX_SEEDS:
            message = f"names and hits are more than {MAX_SEEDS}"
            raise ValueError(message)
        return self

    def seeds(self) -> dict[str, float]:
        """Return how much each seed counts: one that is both a name and a hit counts as both."""
        weights: dict[str, float] = {}
        for identity, weight in (*self.names, *self.hits):
            weights[identity] = weights.get(identity, 0.0) + weight
        return weights
