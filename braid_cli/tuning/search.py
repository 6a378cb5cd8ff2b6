"""Searching parameters: one at a time over its values, until none helps; the same seed finds the same."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from braid.models import FusionParameters

    from braid_cli.tuning.captured import Captured

LEAST_GAIN = 5e-4
"""By how much a change must better the mean to be made: what helps one question of hundreds a little does not last."""
ROUNDING = 1e-12
ROUNDS = 4
SEED = 20_240_501


@dataclass(frozen=True)
class Knob:
    """One thing to turn: a parameter and the values that it may have."""

    name: str
    values: tuple[float, ...]
    also: Callable[[float], dict[str, float]] = lambda _: {}
    """Other parameters that follow from the value."""

    def turned(self, parameters: FusionParameters, value: float) -> FusionParameters:
        """Return the parameters with this one at a value."""
        return parameters.model_copy(update={self.name: value, **self.also(value)})


def _steps(low: float, high: float, step: float) -> tuple[float, ...]:
    count = round((high - low) / step)
    return tuple(round(low + number * step, 6) for number in range(count + 1))


KNOBS = (
    Knob("graph_weight", _steps(0.0, 1.0, 0.05), lambda graph: {"vector_weight": round(1.0 - graph, 6)}),
    Knob("lexical_share", _steps(0.0, 1.0, 0.1)),
    Knob("hit_share", _steps(0.0, 1.0, 0.05)),
    Knob("temporal_shift", _steps(-0.5, 0.5, 0.05)),
    Knob("causal_shift", _steps(-0.5, 0.5, 0.05)),
    Knob("lookup_shift", _steps(-0.5, 0.5, 0.05)),
    Knob("entity_shift", _steps(-0.5, 0.5, 0.05)),
    Knob("count_shift", _steps(0.0, 0.5, 0.05)),
    Knob("coherence", _steps(0.0, 1.0, 0.1)),
    Knob("name_weight", (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 10.0)),
    Knob("bridging", (0.0, 0.25, 0.5, 0.75, 1.0)),
    Knob("damping", (0.5, 0.6, 0.7, 0.8, 0.85, 0.9)),
)
"""``exploratory_shift`` is none of them: it would say again what the base weights say. Steps are coarser where the
graph is asked again for each."""
RANK_KNOBS = (Knob("rank_constant", (5, 10, 20, 40, 60, 80, 120)),)
"""Where fusion goes by ranks."""


def quality(questions: Sequence[Captured], parameters: FusionParameters, metric: str) -> float:
    """Return the mean of a metric over questions, 0 of none."""
    if not questions:
        return 0.0
    return sum(one.measure(parameters)[metric] for one in questions) / len(questions)


def search(
    questions: Sequence[Captured],
    start: FusionParameters,
    *,
    metric: str = "ndcg@10",
    knobs: Sequence[Knob] = KNOBS,
    seed: int = SEED,
) -> FusionParameters:
    """Return parameters that score better than ``start`` on the questions, or ``start``.

    Each knob in turn, in an order that the seed shuffles, is set to the value that scores best while all others stay,
    provided that it gains enough; of equals to the middle one, which is furthest from where others are better. Rounds
    follow one another until one changes nothing.
    """
    dice = random.Random(seed)  # noqa: S311 - not for secrets
    best, score = start, quality(questions, start, metric)
    for _ in range(ROUNDS):
        changed = False
        for knob in dice.sample(list(knobs), len(knobs)):
            scored = {value: quality(questions, knob.turned(best, value), metric) for value in knob.values}
            top = max(scored.values())
            if top >= score + LEAST_GAIN:
                equals = [value for value, reached in scored.items() if reached >= top - ROUNDING]
                best, score, changed = knob.turned(best, equals[(len(equals) - 1) // 2]), top, True
        if not changed:
            break
    return best
