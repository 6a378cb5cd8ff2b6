"""Copies of a text take one place of an answer, with the ids of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from braid.models import Kind
from braid.retrieval.stages.results_and_citations import MAX_COPIES, TELLING_CHARACTERS

from tests.fakes import fused, query, record, searched

if TYPE_CHECKING:
    from braid.models import Record

LONG = "Leave is asked for in writing. " * (TELLING_CHARACTERS // 30 + 1)


def places(*records: Record, **asked: Any) -> list[tuple[str, tuple[str, ...]]]:
    """Return the ids of an answer's results, each with its copies; the records are found in the given order."""
    scored = [(one.id, 1 - number / 100) for number, one in enumerate(records)]
    answer = fused(list(records), searched=searched(*scored), query=query(**asked))
    assert [result.rank for result in answer.results] == list(range(1, len(answer.results) + 1))
    return [(result.id, result.copies) for result in answer.results]


def test_a_copy_takes_no_place_and_the_next_text_comes_in() -> None:
    records = [record("a", content=LONG), record("b"), record("copy", content=f" {LONG}\n"), record("c"), record("d")]
    assert places(*records, top_k=3) == [("a", ("copy",)), ("b", ()), ("c", ())]


@pytest.mark.parametrize(
    ("first", "second", "is_copy"),
    [
        ({"content": LONG}, {"content": LONG, "name": "Other"}, True),
        ({"content": LONG}, {"content": LONG, "trusted": False}, False),
        ({"content": LONG}, {"content": LONG, "kind": Kind.MESSAGE}, False),
        ({"content": "Ask Ada.", "name": "Printers"}, {"content": "Ask Ada.", "name": "Printers"}, True),
        ({"content": "Ask Ada.", "name": "Printers"}, {"content": "Ask Ada.", "name": "Doors"}, False),
        ({"content": "It stopped."}, {"content": "It stopped."}, False),
        ({"content": "", "name": "Ada"}, {"content": "", "name": "Ada"}, False),
    ],
)
def test_what_a_copy_is(first: dict[str, Any], second: dict[str, Any], *, is_copy: bool) -> None:
    assert len(places(record("a", **first), record("b", **second))) == (1 if is_copy else 2)


@pytest.mark.parametrize("heading", ["Windows", ["Windows"]])
def test_a_short_text_under_another_heading_is_no_copy(heading: Any) -> None:
    steps = {"name": "Printers", "content": "Run the set-up."}
    first, second = (record(f"under {of}", **steps, metadata={"heading": of}) for of in (heading, "Linux"))
    assert [identity for identity, _ in places(first, second)] == [first.id, second.id]
    again = record("again", **steps, metadata={"heading": heading})
    assert places(first, second, again) == [(first.id, ("again",)), (second.id, ())]


def test_few_of_many_copies_are_named_and_runners_up_are_none_of_them() -> None:
    copies = [record(f"r{number:02}", content=LONG) for number in range(30)]
    ((first, named),) = places(*copies)
    assert (first, named) == ("r00", tuple(f"r{number:02}" for number in range(1, MAX_COPIES + 1)))
    records = [*copies[:4], record("x"), record("y")]
    scored = [(one.id, 1 - number / 100) for number, one in enumerate(records)]
    answer = fused(records, searched=searched(*scored), query=query(top_k=2, explain=True))
    assert [result.id for result in answer.results] == ["r00", "x"]
    assert [one.id for one in answer.considered] == []
