"""Whether a text is English."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid_cli.english_detection import is_english, mostly_foreign

ENGLISH = ["The crane was moved to the other quay, and nobody knows why.", "Who owns the archive that is in Oriel?"]
OTHER = [
    "Der Kran wurde auf die andere Seite gebracht, und niemand weiß warum.",
    "La grue est sur le quai et les bateaux ne sont pas là.",
    "El archivo está en la torre y los barcos no son del puerto.",
    "起重机被移到另一个码头 没有人知道原因。",
    "Кран перенесли на другой причал, и никто не знает почему.",
]


@pytest.mark.parametrize("text", ENGLISH)
def test_english_is_told_by_its_function_words(text: str) -> None:
    assert is_english(text) is True


@pytest.mark.parametrize("text", OTHER)
def test_other_languages_are_told_by_theirs_or_by_their_script(text: str) -> None:
    assert is_english(text) is False


@pytest.mark.parametrize("text", ["", "LX-400", "id, name, value", "Keelson API"])
def test_what_has_no_sentence_is_not_told(text: str) -> None:
    assert is_english(text) is None


def test_most_of_the_texts_decide() -> None:
    assert mostly_foreign([*OTHER, *ENGLISH, "LX-400"])
    assert not mostly_foreign([*ENGLISH, OTHER[0]])
    assert not mostly_foreign(["LX-400", ""])


@given(st.text())
def test_every_text_is_read(text: str) -> None:
    assert is_english(text) in {True, False, None}
