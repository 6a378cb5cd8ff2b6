"""``braid context`` as typed: what it shows, what it prints for machines, and what it refuses."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.e2e.conftest import Done

    Braid = Callable[..., Done]

EVENT = json.loads((ROOT / "events" / "context.json").read_text(encoding="utf-8"))
ASK = ("context", EVENT["query"], "--tenant", "saltmarrow")


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    file = tmp_path / "chat.json"
    file.write_text(json.dumps(EVENT["messages"]), encoding="utf-8")
    return file


def test_a_context_holds_the_last_message_as_it_came_and_what_is_stored(braid: Braid, chat: Path) -> None:
    done = braid(*ASK, "--messages", str(chat), "--json")
    assert (done.status, done.err) == (0, "")
    built = json.loads(done.out)
    assert json.dumps(built["messages"][0]) == json.dumps(EVENT["messages"][-1])
    about = [message["metadata"]["id"] for message in built["messages"] if "metadata" in message]
    assert "event:tokens-rejected" in about
    assert built["degraded"] == []
    assert len(built["scores"]) == len(built["messages"]) == built["metrics"]["kept"]


def test_what_the_question_is_not_about_is_not_shown(braid: Braid) -> None:
    for text in ("How do I bake sourdough bread?", "Which beaches of Thailand are the best in March?"):
        built = json.loads(braid("context", text, "--tenant", "saltmarrow", "--json").out)
        assert (built["messages"], built["degraded"]) == ([], [])
        assert built["metrics"]["found"] > 0


def test_a_context_is_of_a_day_that_is_asked_for(braid: Braid) -> None:
    shown = {day: braid(*ASK, "--min-score", "0", "--as-of", day, "--json") for day in ("1900-01-01", "2999-01-01")}
    assert [done.status for done in shown.values()] == [0, 0]
    assert shown["1900-01-01"].out != shown["2999-01-01"].out
    refused = braid(*ASK, "--as-of", "soon")
    assert (refused.status, "--as-of: not a date or time" in refused.err) == (2, True)


def test_how_many_were_found_below_the_least_score_is_said_and_a_flag_shows_them(braid: Braid) -> None:
    ask = ("context", "How do I bake sourdough bread?", "--tenant", "saltmarrow")
    told = " ".join(braid(*ask).out.split())
    found = json.loads(braid(*ask, "--json").out)["metrics"]["found"]
    assert told == f"Nothing to show. {found} found, all below the score 0.5: --min-score 0 shows them."
    assert len(json.loads(braid(*ask, "--min-score", "0", "--json").out)["messages"]) == found
    nothing = braid(*ask, "--no-semantic", "--no-episodic").out
    assert nothing.strip() == "Nothing to show."


def test_people_are_shown_score_source_and_text(braid: Braid, chat: Path) -> None:
    done = braid(*ASK, "-m", str(chat))
    assert done.status == 0
    text = " ".join(done.out.split())
    assert "1.000 working_state user Why was there a scanner lockout" in text
    assert "semantic assistant" in text
    assert "RETRIEVED" not in text
    assert "semantic tool" in " ".join(braid(*ASK, "--role", "tool").out.split())
    assert text.endswith("found")


def test_of_facts_all_sentences_are_shown(braid: Braid) -> None:
    said = " ".join(braid("context", "How many services depend on Keelson?", "--tenant", "saltmarrow").out.split())
    assert said.count("depends on Keelson.") > 1


def test_json_lines_are_read_from_standard_input_and_half_a_surrogate_pair_comes_back(
    braid: Braid, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = b'{"role": "user", "content": "old"}\n\n{"role": "user", "content": "x\\ud800y"}\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    done = braid(*ASK, "-m", "-", "--no-semantic", "--no-episodic", "--json")
    assert json.loads(done.out)["messages"] == [{"role": "user", "content": "x\ud800y"}]


def test_a_source_that_is_switched_off_is_not_asked(braid: Braid, chat: Path) -> None:
    done = braid(*ASK, "-m", str(chat), "--no-working-state", "--no-episodic", "--json")
    assert {scores["source"] for scores in json.loads(done.out)["scores"]} == {"semantic"}


def test_with_the_feature_off_the_conversation_comes_back_as_it_came(braid: Braid, chat: Path) -> None:
    done = braid(*ASK, "-m", str(chat), "--json", BRAID_CONTEXT_ENABLED="false")
    built: dict[str, Any] = json.loads(done.out)
    assert (built["messages"], built["enabled"]) == (EVENT["messages"], False)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'[{"role": "user"}, "x"]', "message 2 is not a JSON object"),
        (b'{"role": "user"}\n[]\n', ":2 is not a JSON object"),
        (b"[{", " is not JSON: "),
        (b'{"a": "\xff"}', ":1 is not UTF-8"),
    ],
)
def test_a_conversation_that_cannot_be_read_is_refused_by_file_and_place(
    braid: Braid, tmp_path: Path, content: bytes, said: str
) -> None:
    file = tmp_path / "chat.json"
    file.write_bytes(content)
    done = braid(*ASK, "-m", str(file))
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"braid: --messages: {file}")
    assert said in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "status", "option"),
    [
        (("context", " ", "-t", "saltmarrow"), 2, "TEXT"),
        (("context", "q", "-t", "nobody"), 2, "--tenant"),
        ((*ASK, "--task", ""), 2, "--task"),
        ((*ASK, "--tool", ""), 2, "--tool"),
        ((*ASK, "-m", "no-such-file"), 1, "no-such-file"),
    ],
)
def test_what_is_wrong_is_named_in_one_line(braid: Braid, arguments: tuple[str, ...], status: int, option: str) -> None:
    done = braid(*arguments)
    assert (done.status, done.out) == (status, "")
    assert done.err.startswith(f"braid: {option}: ")
    assert done.err.count("\n") == 1
