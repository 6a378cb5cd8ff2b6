"""Excerpts stand around the words and names that matched, and the sentence that fits the question best is marked."""

from __future__ import annotations

import pytest
from braid.retrieval.stages.excerpts import EXCERPT_CHARACTERS, MAX_READ, Excerpt, Excerpts, excerpt
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fakes import fused, query, record, searched

FILLER = "The harbour lay quiet under the fog and nobody spoke of it. "
SPANS = st.tuples(st.integers(0, 2_000), st.integers(0, 2_000))
FREEZE = "A write freeze was ordered by Mirela Danko on 3 May."


def excerpt_of(
    question: str, content: str, *, title: str | None = None, names: tuple[tuple[str, str], ...] = ()
) -> Excerpt:
    excerpts = Excerpts(question, names)
    read = record("a", content=content, name=title)
    sentence = excerpts.sentence(read)
    return excerpt(content, sentence, excerpts.within(content, sentence) if sentence else ())


def marked(found: Excerpt) -> str:
    assert found.marked is not None
    return found.text[slice(*found.marked)]


@pytest.mark.parametrize("before", [0, 1, 3, 40, 500])
@pytest.mark.parametrize("after", [0, 1, 40])
def test_the_sentence_with_the_questions_words_is_shown_and_marked_wherever_it_stands(before: int, after: int) -> None:
    found = excerpt_of("Who ordered the write freeze?", FILLER * before + FREEZE + " " + FILLER * after)
    assert marked(found) == FREEZE
    assert found.text.startswith("…") == (before > 3)
    assert len(found.text) > EXCERPT_CHARACTERS / 2 or before + after < 4


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("When did Chuck Berry die?", "His death came in 2017."),
        ("Where was the composer of Maybellene born?", "He grew up where his birth had been, in St. Louis."),
        ("Which song did he record?", "With Chess he recorded the songs of that year."),
        ("Which prizes did he win?", "A prize was won by him only late."),
        ("What happened in Zürich?", "Nothing happened in Zu\u0308rich."),
        ("What happened in Zurich?", "Nothing happened in Zürich."),
        ("富士山の高さは？", "富士山の高さは三千七百七十六メートルである。"),
    ],
)
def test_other_forms_of_a_word_are_found(question: str, sentence: str) -> None:
    assert marked(excerpt_of(question, f"{FILLER * 9}{sentence} {FILLER * 9}")) == sentence


def test_a_name_counts_as_a_whole_and_as_its_entity_is_called() -> None:
    text = f"{FILLER * 9}The team was back on a platform. {FILLER}Keelson is owned by PT. {FILLER * 9}"
    names = (("platform team", "PT"),)
    assert marked(excerpt_of("What does the platform team have?", text, names=names)) == "Keelson is owned by PT."


def test_words_of_the_title_tell_little() -> None:
    text = f"Keelson is good. {FILLER * 9}Keelson Keelson Keelson. {FILLER}It depends on Ballast."
    assert marked(excerpt_of("What does Keelson depend on?", text, title="Keelson")) == "It depends on Ballast."


@pytest.mark.parametrize("row", ["berth: {0}; tons: {1}", "| {0} | {1} tons |", "{0} | {1} tons"])
def test_the_first_row_of_a_table_is_no_more_than_another(row: str) -> None:
    table = "\n".join(row.format(name, tons) for tons, name in enumerate(("Auk", "Gull", "Heron", "Tern"), start=70))
    assert "Heron" in marked(excerpt_of("How many tons has Heron?", table, title="Berths"))


def test_the_first_sentence_of_a_text_tells_more_than_another() -> None:
    text = f"Auk is a berth of 70 tons. {FILLER}Heron has 72 tons. Gull has 71 tons."
    assert marked(excerpt_of("How many tons has Heron?", text)).startswith("Auk")


def test_a_question_for_a_time_prefers_a_sentence_with_a_number() -> None:
    text = f"{FILLER * 9}A write freeze is a safeguard. {FREEZE} {FILLER * 9}"
    assert marked(excerpt_of("When was the write freeze?", text)) == FREEZE


def test_a_sentence_longer_than_the_excerpt_is_cut_to_where_its_words_are() -> None:
    text = f"{'on and on, ' * 60}until the write freeze was ordered, {'and further, ' * 60}"
    found = excerpt_of("Who ordered the write freeze?", text)
    assert "write freeze was ordered" in marked(found)
    assert found.text.startswith("…")


def test_without_any_of_the_words_it_begins_where_it_is_told_and_marks_nothing() -> None:
    found = excerpt(FILLER * 9, start=len(FILLER))
    assert found.text.startswith("…The harbour")
    assert found.marked is None
    assert excerpt("word " * 100).text.endswith("word…")
    assert excerpt("x" * 300).text == "x" * (EXCERPT_CHARACTERS - 1) + "…"


def test_of_a_text_too_long_to_compare_the_stretch_around_the_rarest_word_is_read() -> None:
    text = "The order of things. " * (MAX_READ // 10) + FREEZE + " The order of things." * 1_000
    assert marked(excerpt_of("Who gave the order of the write freeze?", text)) == FREEZE


@given(text=st.text(max_size=2_000), ends=SPANS, start=st.integers(0, 99))
@example(text="a" * 1_000, ends=(300, 900), start=0)
@example(text=" a" * 1_000, ends=(1, 1_900), start=0)
@example(text="a " * 120, ends=(0, 239), start=0)
def test_an_excerpt_is_one_line_of_the_text_no_longer_than_its_limit(
    text: str, ends: tuple[int, int], start: int
) -> None:
    first, last = sorted(min(end, len(text)) for end in ends)
    for found in (excerpt(text, (first, last), [(first, last)]), excerpt(text, start=start)):
        assert len(found.text) <= EXCERPT_CHARACTERS
        assert len(found.text.splitlines()) <= 1
        assert found.text.strip("…").strip() in " ".join(text.split())
        if found.marked:
            assert found.text[slice(*found.marked)].strip("…") in " ".join(text[first:last].split())


def test_an_answer_marks_the_sentence_in_the_citation_and_in_the_content() -> None:
    content = f"{FILLER * 20}{FREEZE} {FILLER * 20}"
    asked = query(text="Who ordered the write freeze?")
    (result,) = fused([record("a", content=content)], searched=searched(("a", 0.9)), query=asked).results
    assert result.marked is not None
    assert result.content[slice(*result.marked)] == FREEZE
    assert result.citation.marked is not None
    assert result.citation.excerpt[slice(*result.citation.marked)] == FREEZE
    assert FREEZE in str(result)


def test_a_text_that_is_shortened_still_shows_its_marked_sentence() -> None:
    contents = [f"{FILLER * 200}{FREEZE} {FILLER * 200}{place}" for place in range(50)]
    records = [record(f"r{place:02}", content=content) for place, content in enumerate(contents)]
    hits = searched(*((one.id, 0.9) for one in records))
    answer = fused(records, searched=hits, query=query(text="Who ordered the write freeze?", top_k=50))
    assert len(answer.results) == 50
    for result in answer.results:
        assert result.shortened
        assert result.marked is not None
        assert result.content[slice(*result.marked)] == FREEZE
