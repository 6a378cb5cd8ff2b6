"""What the command line says."""

from __future__ import annotations

import pytest

from braid_cli.terminal import counted


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (1, ("record",), "1 record"),
        (0, ("record",), "0 records"),
        (1_200, ("record",), "1,200 records"),
        (1, ("vertex", "vertices"), "1 vertex"),
        (2, ("vertex", "vertices"), "2 vertices"),
    ],
)
def test_what_is_counted_agrees_with_its_number(number: int, words: tuple[str, ...], said: str) -> None:
    assert counted(number, *words) == said
