"""What a hosted reranker is sent is cut by tokens, and its scores come back on the contract."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from braid.engines.rerankers.hosted_calls import cut, prepare, tokens
from braid.errors import RerankFailed
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from braid_cli.model_export.default_model import default_weights

DEMO = Path(__file__).resolve().parents[3] / "braid_cli" / "demo"


def corpus() -> list[str]:
    """Return the texts of both demo tenants."""
    lines = [line for file in sorted(DEMO.glob("*/corpus.jsonl")) for line in file.read_text("utf-8").splitlines()]
    return [str(json.loads(line)["text"]) for line in lines]


def test_prose_is_never_estimated_shorter_than_a_tokenizer_finds_it_and_not_much_longer() -> None:
    tokenizer = Tokenizer.from_file(str(default_weights() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    found = [(len(tokenizer.encode(text, add_special_tokens=False).ids), tokens(text)) for text in corpus()]
    assert len(found) > 100
    assert all(real <= estimated for real, estimated in found)
    assert sum(estimated for _, estimated in found) < 1.8 * sum(real for real, _ in found)


@pytest.mark.parametrize(
    ("text", "estimated"),
    [
        ("", 0),
        ("owl", 1),
        ("owls", 2),
        ("an owl", 2),
        ("2024-05-01", 10),
        ("a\n\n\n\n\nb", 3),
        ("Ärger", 3),
        ("猫", 2),
        ("🦉", 2),
    ],
)
def test_tokens_are_estimated_by_letters_digits_signs_and_bytes(text: str, estimated: int) -> None:
    assert tokens(text) == estimated


@given(st.text(max_size=300), st.integers(0, 80))
def test_a_cut_text_is_a_beginning_that_fits_and_a_text_that_fits_is_whole(text: str, room: int) -> None:
    short = cut(text, room)
    assert text.startswith(short)
    assert tokens(short) <= room
    if tokens(text) <= room:
        assert short == text


def test_a_text_of_few_long_words_is_cut_by_tokens_and_not_by_characters() -> None:
    assert cut("lockout 1234", 4) == "lockout 1"
    assert len(cut("abc " * 100, 10)) > len(cut("1 " * 100, 10))


def test_question_and_text_fit_the_window_together() -> None:
    prepared = prepare("why " * 400, ["because " * 400, "short"], window=64)
    assert tokens(prepared.question) == 32
    assert tokens(prepared.question) + max(tokens(text) for text in prepared.texts) <= 64
    assert prepared.texts[1] == "short"
    asked = prepare("why", ["because " * 400], window=64)
    assert tokens(asked.texts[0]) == 63


def test_characters_are_bounded_too_where_a_service_counts_them() -> None:
    assert [len(text) for text in prepare("why", ["abc " * 90], window=1000, characters=50).texts] == [50]


def test_texts_without_a_word_are_not_sent_and_score_nothing() -> None:
    prepared = prepare("why", ["", "one", " \n", "two"], window=64)
    assert prepared.texts == ("one", "two")
    assert prepared.scores([(1, 0.25), (0, 0.75)], "it") == [0.0, 0.75, 0.0, 0.25]


def test_scores_a_rounding_outside_the_contract_are_brought_back() -> None:
    assert prepare("why", ["one", "two"], window=64).scores([(0, 1.0000002), (1, -1e-9)], "it") == [1.0, 0.0]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([(0, 0.5)], "1 scores for 2 texts"),
        ([], "0 scores for 2 texts"),
        ([(0, 0.5), (0, 0.5)], "two for one"),
        ([(0, 0.5), (2, 0.5)], "for no text"),
        ([(0, 0.5), (-1, 0.5)], "for no text"),
        ([(0, 0.5), (True, 0.5)], "for no text"),
        ([(0, 0.5), ("1", 0.5)], "for no text"),
        ([(0, 0.5), (None, 0.5)], "for no text"),
        ([(0, 0.5), (1, float("nan"))], "no finite number"),
        ([(0, 0.5), (1, float("inf"))], "no finite number"),
        ([(0, 0.5), (1, "0.5")], "no finite number"),
        ([(0, 0.5), (1, None)], "no finite number"),
        ([(0, 0.5), (1, True)], "no finite number"),
        ([(0, 0.5), (1, 7.25)], r"outside \[0, 1\]"),
        ([(0, 0.5), (1, -0.5)], r"outside \[0, 1\]"),
    ],
)
def test_an_answer_that_is_not_one_score_a_text_is_refused(found: list[tuple[object, object]], said: str) -> None:
    with pytest.raises(RerankFailed, match=f"reranker it: .*{said}"):
        prepare("why", ["one", "two"], window=64).scores(found, "it")
