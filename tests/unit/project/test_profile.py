"""The profile of a question names functions that exist."""

from __future__ import annotations

import pytest

from bench.profile import STEPS, Spent, resolve


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
