"""Names in a question: normalised as stored, every run of words, the longest match."""

from __future__ import annotations

import pytest
from braid.understanding.question_phrases import (
    MAX_PHRASE_IDEOGRAPHS,
    MAX_PHRASE_WORDS,
    MAX_QUESTION_WORDS,
    longest_match,
    name_certainty,
    phrases,
)
from braid.understanding.tokens import normalise, words
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import link


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("Harbour Freight API", "harbour freight api"),
        ("  Fenwick & Lode ", "fenwick lode"),
        ("Zoë Müller", "zoe muller"),
        ("Keelson's", "keelson"),
        ("the engineers’ rota", "the engineers rota"),
        ("R&D", "r d"),
        ("C++", "c++"),
        ("C#", "c#"),
        ("next_settlement_day", "next settlement day"),
        ("Node.js", "node js"),
        ("STRASSE", "strasse"),
        ("Straße", "strasse"),
        ("\uff12\uff10\uff12\uff14", "2024"),
        ("…?!", ""),
    ],
)
def test_a_name_is_stored_without_case_marks_and_punctuation(written: str, stored: str) -> None:
    assert normalise(written) == stored


@given(st.text())
def test_normalising_twice_is_normalising_once(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


def test_every_run_of_words_is_offered_the_longest_first() -> None:
    assert phrases("Who runs Harbour Freight?") == [
        "who runs harbour freight",
        "who runs harbour",
        "runs harbour freight",
        "who runs",
        "runs harbour",
        "harbour freight",
        "runs",
        "harbour",
        "freight",
    ]


def test_a_name_needs_one_word_of_more_than_two_characters_that_says_something() -> None:
    assert phrases("who is at it") == []
    assert "is it" not in phrases("is it Bilge")
    assert "it bilge" in phrases("is it Bilge")
    assert phrases("ab cd") == []
    assert phrases("ab-cd 12 e.g. 4") == []
    assert phrases("") == []


@pytest.mark.parametrize(
    ("question", "phrase"),
    [("Who owns TH-12?", "th 12"), ("is it th-12", "th 12"), ("4.1.7", "4 1 7"), ("gx/40 is up", "gx 40")],
)
def test_an_identifier_of_short_parts_is_a_name(question: str, phrase: str) -> None:
    assert phrase in phrases(question)
    assert name_certainty(question, phrase) == 1.0


def test_two_capitals_are_a_name_where_not_all_is_in_capitals() -> None:
    assert {"qp", "it"} <= {*phrases("Does IT own QP?")}
    assert name_certainty("Does IT own QP?", "qp") == 1.0
    for question in ("WHO OWNS QP", "who owns qp", "Up in It", "A1 b"):
        assert not {"qp", "up", "in", "it", "a1"} & {*phrases(question)}


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("東京支社の責任者は誰ですか", "東京支社"),
        ("北京办事处的负责人是谁。", "北京办事处"),
        ("東京", "東京"),
        ("Keelsonを作ったのは誰", "Keelson"),
        ("グーグル・ジャパンの社長は。", "グーグル・ジャパン"),
        ("東京 支社の責任者", "東京 支社"),
        ("中華人民共和国国務院とは", "中華人民共和国国務院"),
        ("दिल्ली कार्यालय के प्रमुख कौन हैं?", "दिल्ली कार्यालय"),
    ],
)
def test_a_name_is_found_whatever_its_script_sets_apart(question: str, name: str) -> None:
    phrase = normalise(name)
    assert phrase in phrases(question)
    assert longest_match(question, [link("e", phrase)]) == [link("e", phrase)]
    assert name_certainty(question, phrase) == 1.0


def test_where_nothing_is_set_apart_a_name_inside_a_longer_one_is_not_linked_and_one_character_is_none() -> None:
    inner, longer = link("e:1", "東京"), link("e:2", "東京支社")
    assert longest_match("東京支社の責任者は。", [inner, longer]) == [longer]
    assert longest_match("東京支社は東京にある", [inner, longer]) == [inner, longer]
    assert not {"東", "の", "は"} & set(phrases("東京の支社は"))


def test_a_foreign_name_is_certain_among_words_without_case() -> None:
    assert name_certainty("ما هو Keelson", "keelson") == 1.0
    assert name_certainty("Keelsonと東京支社の関係", "keelson") == 1.0
    assert name_certainty("Who runs 東京 and the country office", "country") < 0.5


def test_a_very_long_question_without_spaces_offers_a_bounded_number_of_names() -> None:
    assert len(phrases("東京支社" * 2_500)) <= MAX_PHRASE_IDEOGRAPHS * MAX_QUESTION_WORDS


def test_a_very_long_question_offers_a_bounded_number_of_names() -> None:
    offered = phrases(" ".join(f"word{number}" for number in range(5_000)))
    assert len(offered) <= MAX_QUESTION_WORDS * MAX_PHRASE_WORDS
    assert f"word{MAX_QUESTION_WORDS - 1}" in offered
    assert f"word{MAX_QUESTION_WORDS}" not in offered


def test_a_name_inside_a_longer_name_is_not_linked() -> None:
    longer, inner = link("e:api", "Harbour Freight API"), link("e:harbour", "Harbour")
    assert longest_match("Who runs the Harbour Freight API?", [inner, longer]) == [longer]


def test_a_name_that_also_stands_alone_is_linked() -> None:
    longer, inner = link("e:api", "Harbour API"), link("e:harbour", "Harbour")
    assert longest_match("Does the Harbour API serve Harbour?", [inner, longer]) == [inner, longer]


def test_two_entities_of_one_name_are_both_linked() -> None:
    both = [link("e:1", "Mercury"), link("e:2", "Mercury")]
    assert longest_match("Who is Mercury?", both) == both


def test_a_link_that_the_question_does_not_hold_is_dropped() -> None:
    assert longest_match("Who is Oyin?", [link("e:1", "Mercury")]) == []


@given(st.text())
def test_whatever_is_asked_names_are_runs_of_its_words(text: str) -> None:
    tokens = " ".join(words(text))
    assert all(phrase in tokens for phrase in phrases(text))


@pytest.mark.parametrize(
    ("question", "phrase", "expected"),
    [
        ("Where was the composer of Back in the U.S.A. born?", "back in the u s a", 1.0),
        ("Which country is Aristarete's father from?", "aristarete", 1.0),
        ("Who owns the 24-hour desk?", "24 hour desk", 1.0),
        ("Wem gehört der Kai in Überlingen?", "uberlingen", 1.0),
        ("仓库 在 哪里", "在", 1.0),
        ("What is the place of birth of Ada Quill?", "place of birth", 0.2),
        ("Which state borders Vermont?", "state", 0.05),
        ("Keelson outage in Leith", "keelson", 0.5),
        ("Harbour freight of Leith", "harbour freight", 1.0),
        ("who owns the harbour freight api", "harbour freight api", 1.0),
        ("who owns keelson", "keelson", 0.1),
        ("WHO OWNS KEELSON", "keelson", 0.1),
        ("WHO OWNS THE HARBOUR FREIGHT API", "harbour freight api", 1.0),
        ("Keelson", "keelson", 0.1),
        ("Keelson outage", "keelson", 0.5),
        ("K2017", "k2017", 1.0),
        ("K2017 monthly fee", "k2017", 1.0),
        ("who owns k2017", "k2017", 1.0),
        ("24h", "24h", 0.1),
    ],
)
def test_a_name_is_as_certain_as_it_is_written(question: str, phrase: str, expected: float) -> None:
    assert name_certainty(question, phrase) == expected


@given(st.text(max_size=60), st.text(max_size=20))
def test_certainty_lies_between_zero_and_one(question: str, phrase: str) -> None:
    assert 0 <= name_certainty(question, normalise(phrase)) <= 1
