"""Records of a megabyte each make an answer little slower than short ones do."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from braid.retrieval.stages.answer_size import MAX_WORKFLOW_ANSWER_BYTES, shortened
from braid.retrieval.stages.excerpts import Excerpts, excerpt

from tests.fakes import fused, query, record, searched

if TYPE_CHECKING:
    from collections.abc import Callable

MEGABYTE = "word " * 200_000
NAMES = tuple((f"r{number:02}", 1 - number / 100) for number in range(19))


def taken(do: Callable[[], object]) -> float:
    """Return the least of three times of this thread, in seconds."""
    least = float("inf")
    for _ in range(3):
        began = time.thread_time()
        do()
        least = min(least, time.thread_time() - began)
    return least


def test_an_excerpt_reads_no_more_than_the_beginning() -> None:
    texts = (MEGABYTE, " " * 1_000_000, "x" * 1_000_000)
    assert taken(lambda: [excerpt(text) for text in texts * 6]) < 0.05


def test_the_sentences_of_a_long_text_are_compared_in_little_time() -> None:
    finder = Excerpts("What was said last?", results=10)
    before, last = MEGABYTE + "\n", "It was said last."
    read = record("a", content=before + last)
    assert finder.sentence(read) == (len(before), len(before + last))
    assert taken(lambda: finder.sentence(read)) < 0.1


@pytest.mark.parametrize("text", ["a b ", "\u6f22"], ids=["words", "ideographs"])
def test_long_names_that_a_text_nearly_has_are_looked_for_in_little_time(text: str) -> None:
    names = [f"{text * (480 // len(text))}{chr(0x4E00 + number)}" for number in range(60)]
    finder = Excerpts("Who keeps the freeze?", on_paths=names)
    read = record("a", content=f"{text * (40_000 // len(text))}. The freeze is kept.")
    assert taken(lambda: finder.sentence(read)) < 0.5  # it took 5 s, in which no other thread ran


def test_nineteen_long_texts_are_shortened_in_little_time() -> None:
    short = fused([record(name) for name, _ in NAMES], searched=searched(*NAMES), query=query(top_k=19))
    long = tuple(result.model_copy(update={"content": MEGABYTE}) for result in short.results)
    answer = short.model_copy(update={"results": long})
    shown = shortened(answer)
    assert len(shown.results) == 19
    assert all(result.shortened for result in shown.results)
    assert len(shown.model_dump_json()) < MAX_WORKFLOW_ANSWER_BYTES
    assert taken(lambda: shortened(answer)) < 0.06
