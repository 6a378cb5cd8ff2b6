"""Scores of a run: metrics by question, bootstrap intervals, paired differences with p-values."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

METRICS = ("recall@2", "recall@5", "recall@10", "ndcg@10", "mrr")
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
    """Score one run with ir-measures, with bootstrap intervals over questions.

    The metrics are recall at each rank, nDCG@10, and the reciprocal rank of the first relevant record among ten. A
    question that is missing in the run scores 0.

    Parameters
    ----------
    run
        Scores by question and record; higher is better.
    qrels
        Grades above 0 by question and relevant record.
    """
    import ir_measures
    from ir_measures import RR, R, nDCG

    recalls = {f"recall@{rank}": R @ rank for rank in range(1, CURVE + 1)}
    measures = {**recalls, "ndcg@10": nDCG @ 10, "mrr": RR @ 10}
    names = {str(measure): label for label, measure in measures.items()}
    per_query: dict[str, dict[str, float]] = {label: dict.fromkeys(qrels, 0.0) for label in measures}
    for metric in ir_measures.iter_calc(list(measures.values()), qrels, run):
        per_query[names[str(metric.measure)]][metric.query_id] = metric.value
    return Figures(
        means={label: mean(per_query[label].values()) for label in METRICS},
        intervals={label: bootstrap(list(per_query[label].values())) for label in METRICS},
        per_query={label: per_query[label] for label in METRICS},
        curve=tuple(mean(per_query[label].values()) for label in recalls),
    )


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
