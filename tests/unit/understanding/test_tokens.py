"""The words of a question that are searched: all but the function words of its language."""

from __future__ import annotations

import pytest
from braid.understanding.tokens import has_word, search_words, searchable, without_marks


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Who is the head of the harbour?", ["head", "harbour"]),
        ("Wer ist die Leiterin des Hafens?", ["leiterin", "hafens"]),
        ("Für wen gilt das Verbot?", ["gilt", "verbot"]),
        ("Quel est le prix du repas ?", ["prix", "repas"]),
        ("¿Cuándo es la reunión del consejo?", ["reunión", "consejo"]),
        ("Quando è la riunione del consiglio?", ["riunione", "consiglio"]),
        ("Wanneer is de vergadering van het bestuur?", ["vergadering", "bestuur"]),
    ],
)
def test_function_words_of_the_questions_language_are_not_searched(question: str, words: list[str]) -> None:
    assert search_words(question) == words
    assert search_words(without_marks(question)) == [without_marks(word) for word in words]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("La La Land", ["la", "land"]),
        ("Die Hard release", ["die", "hard", "release"]),
        ("What did Las Vegas do in the war?", ["las", "vegas", "war"]),
        ("What is the name of the El Niño of the Los Angeles area?", ["name", "el", "niño", "los", "angeles", "area"]),
        ("Wer ist das?", ["wer", "ist", "das"]),
        ("NAS vs. DAS", ["nas", "vs", "das"]),
        ("SAN NAS DAS", ["san", "nas", "das"]),
    ],
)
def test_foreign_words_are_searched_in_a_question_that_is_not_foreign_or_has_no_others(
    question: str, words: list[str]
) -> None:
    assert search_words(question) == words


@pytest.mark.parametrize(("number", "held"), [("2", False), ("20", False), ("2024", True), ("10", True), ("40", True)])
def test_a_number_is_no_beginning_of_a_longer_one(number: str, held: bool) -> None:
    assert has_word(searchable("Released on 2024-10-02, with 40mm screws."), number) is held
