"""Ranks relationships as answers, in groups of those that answer a question in one way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from braid.ranking.scoring import clamp

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from braid.models import GraphHit

LEAST_SCORE: Final = 0.6
"""Least score of facts that are an answer: they explain more than half of the question's words."""
OTHER_KIND: Final = 0.6
"""Factor of an answer that is not of the kind that is asked for."""
WITHOUT_DOUBT: Final = 0.7
"""Share of the score that does not depend on the confidence of the relationships."""
BESIDE_BEST: Final = 0.75
"""Share of the best score below which another group is no answer beside it."""
MAX_GROUPS: Final = 3


@dataclass
class RankedFacts:
    """Paths that answer a question in one way: from one name, along the same types and the same way."""

    score: float
    hits: list[GraphHit] = field(default_factory=list)


def rank_facts(
    scored: Iterable[tuple[GraphHit, float, tuple[str, ...]]], *, weights: Mapping[str, float], kinds: Collection[str]
) -> list[RankedFacts]:
    """Return the paths that answer a question, in groups, the best first.

    In each group those of the best score are kept: what else leads the same way answers less of the question.

    Parameters
    ----------
    scored
        Each path with the share of the question that it explains, and what tells it from others of the same types.
    weights
        By the id of a path's start: how well the question's name matched.
    kinds
        Entity types that are asked for; empty means any.
    """
    found: dict[tuple[object, ...], list[tuple[float, GraphHit]]] = {}
    known: set[frozenset[tuple[str, str, str, str]]] = set()
    for hit, explained, wording in scored:
        edges = frozenset(hit.path.edges())
        if edges in known:
            continue
        known.add(edges)
        score = explained if not kinds or hit.entity_type in kinds else explained * OTHER_KIND
        found.setdefault((hit.path.ids[0], hit.path.types, hit.path.inward, wording), []).append((score, hit))
    groups = [_group(each, weights) for each in found.values()]
    groups.sort(key=lambda group: -group.score)
    least = max(LEAST_SCORE, BESIDE_BEST * groups[0].score) if groups else LEAST_SCORE
    return [group for group in groups if group.score >= least][:MAX_GROUPS]


def _group(scored: Sequence[tuple[float, GraphHit]], weights: Mapping[str, float]) -> RankedFacts:
    best = max(score for score, _ in scored)
    kept = [hit for score, hit in scored if score == best]
    doubt = WITHOUT_DOUBT + (1.0 - WITHOUT_DOUBT) * max(hit.score for hit in kept)
    return RankedFacts(clamp(best * weights[kept[0].path.ids[0]] * doubt), kept)
