"""Chunks follow a document's structure, fit the window, and lose nothing."""

from __future__ import annotations

import re
from itertools import pairwise

from braid.ingestion.documents.chunking import Chunker
from braid.ingestion.documents.document import Document, Section
from hypothesis import given
from hypothesis import strategies as st

WINDOW = 64


def tokens(text: str) -> int:
    """Return words and marks, of long words a token for every six characters."""
    return sum(-(-len(word) // 6) for word in re.findall(r"\w+|[^\w\s]", text))


def chunks(*sections: Section, title: str = "Guide", window: int = WINDOW) -> list[str]:
    return [chunk.content for chunk in Chunker(tokens, window).chunks(Document(title, "text", sections))]


def words(count: int, word: str = "gate") -> str:
    return " ".join(f"{word}{number}" for number in range(count))


def test_a_section_that_fits_is_one_chunk_below_its_heading_path() -> None:
    assert chunks(Section("Opens at six.\n\nShuts at ten.", ("Gates", "Winter"))) == [
        "Gates › Winter\n\nOpens at six.\n\nShuts at ten."
    ]


def test_short_neighbours_below_one_heading_share_a_chunk_with_their_own_headings() -> None:
    assert chunks(
        Section("Before.", ("Gates",)),
        Section("Opens at six.", ("Gates", "Winter")),
        Section("Opens at four.", ("Gates", "Summer")),
        Section("Two coins.", ("Prices", "Adults")),
    ) == ["Gates\n\nBefore.\n\nWinter\n\nOpens at six.\n\nSummer\n\nOpens at four.", "Prices › Adults\n\nTwo coins."]


def test_pages_and_rows_of_a_mapped_table_are_never_put_together() -> None:
    assert chunks(Section("One.", page=1), Section("Two.", page=2)) == ["One.", "Two."]
    assert chunks(Section("One.", whole=True), Section("Two.", whole=True)) == ["One.", "Two."]


def test_a_long_section_is_cut_between_paragraphs_without_overlap_into_even_parts() -> None:
    paragraphs = [words(20, name) for name in ("a", "b", "c", "d")]
    found = chunks(Section("\n\n".join(paragraphs)))
    assert found == ["\n\n".join(paragraphs[:2]), "\n\n".join(paragraphs[2:])]


def test_a_paragraph_that_does_not_fit_is_cut_between_sentences_that_overlap_by_one() -> None:
    sentences = [f"{words(8, name)}." for name in "abcdefghij"]
    found = chunks(Section(" ".join(sentences)))
    assert len(found) > 1
    for before, after in pairwise(found):
        assert before.rsplit(". ", 1)[1] == after.split(". ", 1)[0] + "."


def test_rows_are_cut_between_rows() -> None:
    rows = [f"name: {words(4, name)}; tons: 5" for name in "abcdefghijklmnop"]
    found = chunks(Section("\n".join(rows), rows=True))
    assert [row for chunk in found for row in chunk.split("\n")] == rows


def test_a_text_without_any_structure_is_cut_between_words_and_overlaps() -> None:
    found = chunks(Section(words(400)))
    assert all(tokens(chunk) <= WINDOW for chunk in found)
    assert set(words(400).split()) == {word for chunk in found for word in chunk.split()}
    assert set(found[0].split()) & set(found[1].split())


def test_a_word_of_a_million_characters_is_cut_as_well() -> None:
    found = chunks(Section("x" * 100_000))
    assert all(tokens(chunk) <= WINDOW for chunk in found)
    assert sum(map(len, found)) >= 100_000


def test_a_long_text_is_counted_twice_at_most_and_never_much_of_it_at_once() -> None:
    """A tokenizer takes hundreds of bytes for each token, and words of one letter have the most."""
    counted: list[int] = []

    def count(text: str) -> int:
        counted.append(len(text))
        return tokens(text)

    text = "a b c d " * 50_000
    Chunker(count, WINDOW).chunks(Document("Guide", "text", (Section(text),)))
    assert max(counted) < len(text) / 10
    assert sum(counted) < 2.2 * len(text)


def test_a_title_and_headings_of_ten_thousand_characters_leave_room_for_the_text() -> None:
    long = words(2_000)
    found = chunks(Section(words(60, "text"), (long, long, "Gates")), title=long)
    assert all("text" in chunk and tokens(chunk) <= WINDOW for chunk in found)


def test_a_chunk_says_where_it_stands() -> None:
    text = "\n\n".join(words(20, name) for name in "abc")
    document = Document("Guide", "text", (Section("Before.", ("Intro",), line=1), Section(text, ("Gates",), line=5)))
    found = Chunker(tokens, WINDOW).chunks(document)
    assert [(chunk.index, chunk.heading, chunk.line) for chunk in found] == [
        (0, ("Intro",), 1),
        (1, ("Gates",), 5),
        (2, ("Gates",), 7 if len(found) == 4 else 9),
    ]
    whole = "Before.\n\n" + text
    assert all(whole[chunk.position :].startswith(chunk.text[:20]) for chunk in found)


TEXT = st.lists(
    st.lists(st.sampled_from(["gate", "opens.", "six", "\n", "\n\n", "x" * 50, "天門開く。", "a|b"]), max_size=80).map(
        " ".join
    ),
    min_size=1,
    max_size=6,
)


@given(TEXT, st.booleans(), st.lists(st.sampled_from(["Gates", "Winter", "x" * 300]), max_size=3))
def test_every_chunk_fits_and_every_word_is_in_one(texts: list[str], rows: bool, heading: list[str]) -> None:
    sections = tuple(Section(text, tuple(heading), rows=rows) for text in texts)
    found = Chunker(tokens, WINDOW).chunks(Document("Guide", "text", sections))
    for chunk in found:
        assert tokens(f"Guide\n{chunk.content}") <= WINDOW
    for word in {word for text in texts for word in text.split() if len(word) < 20}:
        assert any(word in chunk.text for chunk in found)
