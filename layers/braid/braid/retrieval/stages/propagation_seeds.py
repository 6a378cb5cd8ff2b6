"""Where propagation begins: the question's names, and the first hits of the text search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from braid.ports.knowledge_graph import PropagateRequest
from braid.ranking.fusion import best_scores, weighted_sum
from braid.understanding.planning import DEFAULT_PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from braid.models import FusionParameters, GraphHit, Hit, Query
    from braid.retrieval.stages.states import GraphFound, Searched


@dataclass(frozen=True)
class Budget:
    """How far a walk may go."""

    seeds: int = 10
    limit: int = 50
    fan_out: int = 200
    hub: int = 20
    """Propagation does not go through what has more edges."""
    constraint_fan_out: int = 10_000
    """Of a constraint, which says what may be an answer, and so is not to be cut short by its surest edges."""
    parameters: FusionParameters = DEFAULT_PARAMETERS


def propagation_of(
    query: Query, searched: Searched | None, linked: GraphFound | None, *, as_of: datetime, budget: Budget
) -> PropagateRequest | None:
    """Return how names and hits are spread; None when there is nothing to begin at.

    All hits together count 1, each by the square of its score, so that those which stand out pull more; a name counts
    ``name_weight`` as it matched and as it is written.
    """
    parameters = budget.parameters
    links = linked.links if linked else ()
    names = [(link.entity_id, parameters.name_weight * link.score * link.certainty) for link in links]
    hits = _hits(searched, budget) if searched else []
    if not names and not hits:
        return None
    request = _request(query, names, hits, as_of=as_of, budget=budget)
    texts = _likeness(searched.vector or searched.lexical) if searched else ()
    return request.model_copy(update={"texts": texts, "bridging": parameters.bridging})


def around(
    query: Query, answers: Sequence[GraphHit], searched: Searched | None, *, as_of: datetime, budget: Budget
) -> PropagateRequest | None:
    """Return how what a walk found is spread; None when nothing was found.

    The best answers together count ``name_weight``, each by the square of its score, and all hits together 1.

    Parameters
    ----------
    answers
        What walks along the question's own relationship types reached, best first.
    """
    first = [(hit.id, hit.score * hit.score) for hit in answers[: budget.seeds]]
    total = sum(weight for _, weight in first)
    if not total:
        return None
    names = [(identity, budget.parameters.name_weight * weight / total) for identity, weight in first]
    return _request(query, names, _hits(searched, budget) if searched else [], as_of=as_of, budget=budget)


def _request(
    query: Query, names: list[tuple[str, float]], hits: list[tuple[str, float]], *, as_of: datetime, budget: Budget
) -> PropagateRequest:
    return PropagateRequest(
        tenant_id=query.tenant_id,
        names=tuple((identity, weight) for identity, weight in names if weight > 0),
        hits=tuple(hits),
        damping=budget.parameters.damping,
        fan_out=budget.fan_out,
        hub=budget.hub,
        limit=budget.limit,
        as_of=as_of,
        trusted_only=query.filters.trusted_only,
    )


def _hits(searched: Searched, budget: Budget) -> list[tuple[str, float]]:
    """Return the first hits of both text strands by their weighted sum, with their shares of 1."""
    share = budget.parameters.lexical_share
    scores = weighted_sum([(1.0 - share, best_scores(searched.vector)), (share, best_scores(searched.lexical))])
    first = sorted(((-score, identity) for identity, score in scores.items() if score > 0))[: budget.seeds]
    total = sum(score * score for score, _ in first)
    return [(identity, score * score / total) for score, identity in first]


def _likeness(hits: Sequence[Hit]) -> tuple[tuple[str, float], ...]:
    """Return how like the question each hit is, the best being 1."""
    scores = {identity: score for identity, score in best_scores(hits).items() if score > 0}
    best = max(scores.values(), default=1.0)
    return tuple((identity, score / best) for identity, score in scores.items())
