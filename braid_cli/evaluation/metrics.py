"""Scores of a run: metrics by question, bootstrap intervals, paired differences with p-values."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

METRICS = ("recall@2", "recall@5", "recall@10", "ndcg@10", "mrr")
DEPTH = 10
"""Ranks that the metrics look at."""
CURVE = 20
"""Last rank of the recall curve."""
RESAMPLES = 1_000
FLIPS = 10_000
SEED = 20_240_501


@dataclass(frozen=True)
class Difference:
    """Paired difference of two runs over the same questions, by metric."""

    against: str
    means: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    """95 % bootstrap percentile interval of the mean difference."""
    p: dict[str, float]
    """Two-sided p-value, not corrected for multiple comparisons."""


@dataclass(frozen=True)
class Figures:
    """Scores of one run."""

    means: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    per_query: dict[str, dict[str, float]]
    """Scores by metric, then by question."""
    curve: tuple[float, ...] = ()
    """Mean recall at each rank from 1."""


def score(run: Mapping[str, Mapping[str, float]], qrels: Mapping[str, Mapping[str, int]]) -> Figures:
    """Score one run, with bootstrap intervals over questions.

    The metrics are recall at each rank, nDCG@10, and the reciprocal rank of the first relevant record among ten. A
    question that is missing in the run scores 0.

    Parameters
    ----------
    run
        Scores by question and record; higher is better. Of equal scores the greater id is first, as in trec_eval.
    qrels
        Grades above 0 by question and relevant record.
    """
    per_query: dict[str, dict[str, float]] = {label: {} for label in METRICS}
    recalls: list[tuple[float, ...]] = []
    for question, relevant in qrels.items():
        scores = run.get(question, {})
        ranking = sorted(scores, key=lambda identity: (scores[identity], identity), reverse=True)[:CURVE]
        for label, value in measures(ranking, relevant).items():
            per_query[label][question] = value
        recalls.append(tuple(_recall(ranking[:rank], relevant) for rank in range(1, CURVE + 1)))
    return Figures(
        means={label: mean(per_query[label].values()) for label in METRICS},
        intervals={label: bootstrap(list(per_query[label].values())) for label in METRICS},
        per_query=per_query,
        curve=tuple(mean(at) for at in zip(*recalls, strict=True)) or (0.0,) * CURVE,
    )


def measures(ranking: Sequence[str], relevant: Mapping[str, int]) -> dict[str, float]:
    """Return recall@2, @5 and @10, nDCG@10 and the reciprocal rank in the first ten of one ranking.

    Computed here and only compared with ir-measures in tests: it takes milliseconds a call, of which a fit makes a
    hundred thousand, and depends on SciPy, which would be a quarter of the installed size.
    """
    gains = [relevant.get(identity, 0) for identity in ranking[:DEPTH]]
    ideal = _discounted(sorted(relevant.values(), reverse=True)[:DEPTH])
    first = next((rank for rank, gain in enumerate(gains, start=1) if gain > 0), None)
    found = {f"recall@{rank}": _recall(ranking[:rank], relevant) for rank in (2, 5, 10)}
    return {**found, "ndcg@10": _discounted(gains) / ideal if ideal else 0.0, "mrr": 1.0 / first if first else 0.0}


def _recall(first: Sequence[str], relevant: Mapping[str, int]) -> float:
    return sum(identity in relevant for identity in first) / len(relevant) if relevant else 0.0


def _discounted(gains: Iterable[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def mean(values: Iterable[float]) -> float:
    """Return the mean; 0 if there are no values."""
    listed = list(values)
    return statistics.fmean(listed) if listed else 0.0


def bootstrap(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % percentile interval of the mean under resampling of questions; the seed is fixed."""
    import numpy as np

    if not values:
        return 0.0, 0.0
    sample = np.asarray(values, dtype=np.float64)
    draws = np.random.default_rng(SEED).integers(0, len(sample), size=(RESAMPLES, len(sample)))
    low, high = np.percentile(sample[draws].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def difference(run: Figures, other: Figures, *, against: str) -> Difference:
    """Compare two runs over the same questions, pair by pair."""
    means, intervals, chances = {}, {}, {}
    for metric in METRICS:
        theirs = other.per_query[metric]
        changes = [value - theirs[query] for query, value in run.per_query[metric].items()]
        means[metric], intervals[metric] = mean(changes), bootstrap(changes)
        chances[metric] = randomisation_p(changes)
    return Difference(against, means, intervals, chances)


def randomisation_p(changes: Sequence[float]) -> float:
    """Return the two-sided p-value of paired changes by Fisher's randomisation test.

    Under the null hypothesis each change could as well have the opposite sign: the p-value is the share of random sign
    assignments under which the mean change is at least as far from 0 (Smucker, Allan and Carterette, CIKM 2007). The
    seed is fixed.
    """
    import numpy as np

    observed = np.asarray([change for change in changes if change], dtype=np.float64)
    if not len(observed):
        return 1.0
    signs = np.random.default_rng(SEED).choice(np.array([-1.0, 1.0]), size=(FLIPS, len(observed)))
    extreme = np.abs(signs @ observed) >= abs(observed.sum()) - 1e-12
    return float((1 + extreme.sum()) / (1 + FLIPS))


def percentile(ordered: Sequence[float], share: int) -> float:
    """Return a percentile of sorted values, rounded to hundredths; 0 if there are none."""
    if not ordered:
        return 0.0
    if len(ordered) == 1:
        return round(ordered[0], 2)
    return round(statistics.quantiles(ordered, n=100, method="inclusive")[share - 1], 2)
