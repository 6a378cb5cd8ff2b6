"""The profile of a question names functions that exist."""

from __future__ import annotations

import pytest

from bench.profile import AIMS, BEYOND, SHARES, STEPS, Spent, as_markdown, resolve


@pytest.mark.parametrize("step", STEPS)
def test_each_step_of_the_profile_is_a_function(step: str) -> None:
    owner, name = resolve(STEPS[step])

    assert callable(getattr(owner, name))


def test_a_step_counts_its_calls_and_a_question_starts_anew() -> None:
    spent = Spent()
    double = spent.timed("double", lambda value: 2 * value)

    assert [double(1), double(2)] == [2, 4]
    assert spent.take().calls == {"double": 2}
    assert spent.take().calls == {}


def test_a_missed_time_of_a_question_is_explained_by_the_shares_of_its_own_run() -> None:
    steps = {BEYOND: 20.0, "propagate": 12.0, "plan": 3.0, "words": 0.2}
    timed = {name: {"cpu_ms": taken, "wall_ms": taken, "calls": 1} for name, taken in steps.items()}
    run = {"dataset": "2wiki-dev", "way": "default", "records": 1, "questions": 1, "steps": timed}
    memory = {"resident_mb": 1.0, "own_mb": 1.0, "peak_mb": 1.0}
    page = as_markdown({"processes": {}, "runs": [run | memory]})

    assert "| 20.00 | ≤ 7 | propagation 60 %, plan 15 %, the rest 25 % (" in page


def test_shares_are_of_steps_that_are_timed() -> None:
    assert set(SHARES.values()) - {"plan"} <= set(STEPS)
    assert all(aim.why_not for aim in AIMS if aim.what.endswith("encoder, ms"))
