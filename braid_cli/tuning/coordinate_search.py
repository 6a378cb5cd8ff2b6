"""Coordinate search over fusion parameters, deterministic for a given seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from braid.models import FusionParameters

    from braid_cli.tuning.captured_questions import CapturedQuestion

MIN_GAIN = 5e-4
"""Minimum gain of the mean for a change to be accepted; smaller gains are noise of single questions."""
ROUNDING = 1e-12
ROUNDS = 4
SEED = 20_240_501


@dataclass(frozen=True)
class TunedParameter:
    """A fusion parameter and its candidate values."""

    name: str
    values: tuple[float, ...]
    also: Callable[[float], dict[str, float]] = lambda _: {}
    """Returns the values of other parameters that depend on this one's."""

    def with_value(self, parameters: FusionParameters, value: float) -> FusionParameters:
        """Return the parameters with this one set to a value."""
        return parameters.model_copy(update={self.name: value, **self.also(value)})


def _steps(low: float, high: float, step: float) -> tuple[float, ...]:
    count = round((high - low) / step)
    return tuple(round(low + number * step, 6) for number in range(count + 1))


TUNED_PARAMETERS = (
    TunedParameter("graph_weight", _steps(0.0, 1.0, 0.05), lambda graph: {"vector_weight": round(1.0 - graph, 6)}),
    TunedParameter("lexical_share", _steps(0.0, 1.0, 0.1)),
    TunedParameter("hit_share", _steps(0.0, 1.0, 0.05)),
    TunedParameter("temporal_shift", _steps(-0.5, 0.5, 0.05)),
    TunedParameter("causal_shift", _steps(-0.5, 0.5, 0.05)),
    TunedParameter("lookup_shift", _steps(-0.5, 0.5, 0.05)),
    TunedParameter("entity_shift", _steps(-0.5, 0.5, 0.05)),
    TunedParameter("count_shift", _steps(0.0, 0.5, 0.05)),
    TunedParameter("coherence", _steps(0.0, 1.0, 0.1)),
    TunedParameter("name_weight", (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 10.0)),
    TunedParameter("bridging", (0.0, 0.25, 0.5, 0.75, 1.0)),
    TunedParameter("damping", (0.5, 0.6, 0.7, 0.8, 0.85, 0.9)),
)
"""Parameters to fit. ``exploratory_shift`` is left out, as it has the effect of the base weights. The steps are coarse,
as some parameters query the graph again for each value."""
RANK_PARAMETERS = (TunedParameter("rank_constant", (5, 10, 20, 40, 60, 80, 120)),)
"""Parameters of reciprocal rank fusion."""


def quality(questions: Sequence[CapturedQuestion], parameters: FusionParameters, metric: str) -> float:
    """Return the mean of a metric over questions; 0 if there are none."""
    if not questions:
        return 0.0
    return sum(one.measure(parameters)[metric] for one in questions) / len(questions)


def search(
    questions: Sequence[CapturedQuestion],
    start: FusionParameters,
    *,
    metric: str = "ndcg@10",
    tuned: Sequence[TunedParameter] = TUNED_PARAMETERS,
    seed: int = SEED,
) -> FusionParameters:
    """Return parameters that score better than ``start`` on the questions; ``start`` if none are found.

    Each parameter in turn, in an order shuffled by the seed, is set to its best value while all others stay fixed, if
    that gains at least ``MIN_GAIN``; of several best values the middle one is chosen. Rounds are repeated, at most
    ``ROUNDS`` times, until one changes nothing.
    """
    dice = random.Random(seed)  # noqa: S311 - not for secrets
    best, score = start, quality(questions, start, metric)
    for _ in range(ROUNDS):
        changed = False
        for parameter in dice.sample(list(tuned), len(tuned)):
            scored = {
                value: quality(questions, parameter.with_value(best, value), metric) for value in parameter.values
            }
            top = max(scored.values())
            if top >= score + MIN_GAIN:
                equals = [value for value, reached in scored.items() if reached >= top - ROUNDING]
                best, score, changed = parameter.with_value(best, equals[(len(equals) - 1) // 2]), top, True
        if not changed:
            break
    return best
