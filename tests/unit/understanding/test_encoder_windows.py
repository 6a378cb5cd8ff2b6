"""Cutting long texts into parts that an encoder reads whole."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from braid.models import Embedding, Record
from braid.understanding.encoder_windows import MAX_PARTS, Part, embed, has_all_parts, parts
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import FakeEncoder

MOST = 20
SENTENCES = " ".join(f"Sentence number {number} says that pump {number} runs." for number in range(30))


def ends(text: str) -> list[int]:
    """Return where words and signs end, as a tokenizer has them."""
    return [token.end() for token in re.finditer(r"\w+|[^\w\s]", text)]


def cut(text: str, heading: str = "", most: int = MOST) -> list[Part]:
    return list(parts(text, heading, ends(text), most))


def test_a_text_that_fits_is_one_part() -> None:
    assert cut("") == [Part(0, "")]
    assert cut("A pump runs.") == [Part(0, "A pump runs.")]
    assert len(cut("word " * MOST)) == 1
    assert len(cut("word " * (MOST + 1))) == 2


def test_the_first_part_is_what_the_encoder_reads_of_the_text() -> None:
    first = cut(SENTENCES)[0]
    assert first.start == 0
    assert SENTENCES.startswith(first.text)
    assert len(ends(first.text)) == MOST


def test_a_further_part_begins_with_the_sentence_that_the_one_before_cut() -> None:
    for part in cut(SENTENCES)[1:]:
        assert part.text.startswith("Sentence number")


def test_every_sentence_stands_whole_in_a_part() -> None:
    for sentence in re.findall(r"Sentence[^.]*\.", SENTENCES):
        assert any(sentence in part.text for part in cut(SENTENCES)), sentence


@pytest.mark.parametrize(
    "text",
    [
        "word " * 500,
        "東京支社の責任者は、来週の会議に出席します。" * 50,
        "one line\nanother line\n" * 100,
        "." * 1_000,
        "x" * 5_000,
    ],
)
def test_a_text_without_sentences_is_cut_at_words_or_anywhere(text: str) -> None:
    tokens = ends(text) if len(ends(text)) > 1 else list(range(1, len(text) + 1))
    found = list(parts(text, "", tokens, MOST))
    assert found[-1].start + len(found[-1].text) == tokens[-1]
    for part, following in pairwise(found):
        assert part.start < following.start <= part.start + len(part.text) + 1


@given(
    st.text(alphabet=st.sampled_from("ab. \n!?。京é"), max_size=600),
    st.text(alphabet="ab ", max_size=30),
    st.integers(min_value=4, max_value=30),
)
def test_nothing_is_left_out_and_no_part_is_too_long(content: str, heading: str, most: int) -> None:
    text = f"{heading}\n{content}" if heading else content
    found = cut(text, heading, most)
    assert [part.start for part in found] == sorted({part.start for part in found})
    assert all(len(ends(part.text)) <= most for part in found)
    covered: set[int] = set()
    for part in found:
        own = part.text if text.startswith(part.text, part.start) else part.text.removeprefix(f"{heading}\n")
        assert text.startswith(own, part.start)
        covered |= set(range(part.start, part.start + len(own)))
    assert all(place in covered for place, letter in enumerate(text) if not letter.isspace())


def test_further_parts_carry_the_heading_unless_it_fills_half_of_the_window() -> None:
    found = cut(f"Pump manual\n{SENTENCES}", "Pump manual")
    assert all(part.text.startswith("Pump manual\n") for part in found)
    assert all(len(ends(part.text)) <= MOST for part in found)
    long = "pump " * MOST
    assert not any("pump pump" in part.text for part in cut(f"{long}\n{SENTENCES}", long)[2:])


def test_even_a_text_of_signs_alone_has_a_bounded_number_of_parts() -> None:
    assert len(cut("!" * (2 * MOST * MAX_PARTS))) == MAX_PARTS


def test_records_get_a_vector_for_each_part_from_one_call_of_the_encoder() -> None:
    encoder = FakeEncoder()  # reads 256 characters
    records = [
        Record(id="long", tenant_id="acme", name="Pump", content=SENTENCES),
        Record(id="short", tenant_id="acme", content="A pump."),
    ]
    long, short = embed(records, encoder)
    assert (short.further, len(encoder.encoded)) == ((), 1)
    (texts, _) = encoder.encoded[0]
    assert len(texts) == 2 + len(long.further)
    starts = [part.start for part in long.further]
    assert starts == sorted(starts)
    assert all(records[0].text()[start:].startswith("Sentence") for start in starts)


def test_a_long_text_with_one_vector_lacks_parts() -> None:
    encoder = FakeEncoder()
    record = Record(id="long", tenant_id="acme", content=SENTENCES)
    (whole,) = embed([record], encoder)
    assert has_all_parts(record, whole, encoder)
    before = Embedding(space=whole.space, model_id=whole.model_id, vector=whole.vector)
    assert not has_all_parts(record, before, encoder)
    assert has_all_parts(record.model_copy(update={"content": "A pump."}), before, encoder)
