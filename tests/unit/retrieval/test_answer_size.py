"""No answer is too long for a workflow to hand on, whatever the records hold."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from braid.retrieval.stages.answer_size import MAX_WORKFLOW_ANSWER_BYTES, beginning, shortened
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import fused, query, record, searched

if TYPE_CHECKING:
    from braid.models import Answer

STATE_BYTES = 256 * 1024
ENVELOPE_BYTES = 4 * 1024
"""Of what Lambda says beside what a function returns, generously."""
FIFTY = tuple((f"r{number:02}", 1 - number / 100) for number in range(50))


def answered(contents: list[str], *, metadata: dict[str, str] | None = None, explain: bool = False) -> Answer:
    records = [
        record(name, content=content, metadata=metadata or {})
        for (name, _), content in zip(FIFTY, contents, strict=False)
    ]
    return fused(records, searched=searched(*FIFTY[: len(contents)]), query=query(top_k=50, explain=explain))


def written(answer: Answer) -> int:
    """Return how long Lambda may write it: with spaces, and everything beyond ASCII escaped."""
    return len(json.dumps(answer.model_dump(mode="json")))


@pytest.mark.parametrize(
    "letter", ["word ", "ü", "語", "fire 🜂 ", '"'], ids=["ascii", "latin", "cjk", "beyond", "quotes"]
)
def test_fifty_long_texts_are_shortened_until_a_workflow_can_hand_them_on(letter: str) -> None:
    answer = answered([f"{letter * 20_000}{place}" for place in range(50)])
    assert written(answer) + ENVELOPE_BYTES < STATE_BYTES
    assert [result.id for result in answer.results] == [name for name, _ in FIFTY]
    assert all(result.shortened and result.content.startswith(letter) for result in answer.results)
    assert written(answer) > 0.9 * MAX_WORKFLOW_ANSWER_BYTES  # and no shorter than they have to be


def test_the_longest_are_shortened_first_and_to_one_length() -> None:
    answer = answered(["short " * 10, "long " * 60_000, "middling " * 500, "longer " * 90_000])
    assert [result.shortened for result in answer.results] == [False, True, False, True]
    one, other = (len(answer.results[place].content) for place in (1, 3))
    assert abs(one - other) < 20
    assert answer.results[1].content.endswith("long…")


def test_what_fits_is_left_as_it_is() -> None:
    answer = answered(["a text of two thousand letters " * 64] * 50)
    assert not any(result.shortened for result in answer.results)
    assert shortened(answer) is answer


def test_long_metadata_goes_before_any_result_does() -> None:
    answer = answered(["text"] * 50, metadata={"raw": "m" * 10_000}, explain=True)
    assert written(answer) + ENVELOPE_BYTES < STATE_BYTES
    assert len(answer.results) == 50
    assert all(result.shortened and result.metadata == {} and result.content == "text" for result in answer.results)


def test_results_are_left_out_from_the_last_where_nothing_else_helps() -> None:
    answer = shortened(answered(["text " * 1_000] * 50), most_bytes=20_000)
    assert 0 < len(answer.results) < 50
    assert [result.rank for result in answer.results] == list(range(1, len(answer.results) + 1))
    assert {source.title for source in answer.sources} <= {result.citation.title for result in answer.results}


@given(text=st.text(max_size=300), most=st.integers(10, 400))
def test_a_beginning_is_one_and_fits(text: str, most: int) -> None:
    found = beginning(text, most)
    assert len(json.dumps(found)) <= most
    assert text.startswith(found.removesuffix("…"))
