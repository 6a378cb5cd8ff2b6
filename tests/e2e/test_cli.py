"""The command line as typed: answers, machines' output, progress, and errors that say what to change."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from braid_cli.demo.tour import FOUND_QUESTIONS
from braid_cli.model_export.from_safetensors import export_direct
from tests.e2e.conftest import DEMO, ROOT, environment, run
from tests.tiny_models import write_bert

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.e2e.conftest import Done

    Braid = Callable[..., Done]

CAUSE = "What was the root cause of the Lisbon label stoppage?"
ASK = ("search", CAUSE, "--tenant", "saltmarrow")


def one_line(done: Done) -> str:
    """Return what a failed command said, which is one line and no traceback."""
    assert done.out == ""
    assert "Traceback" not in done.err
    assert done.err.startswith("braid: ")
    assert done.err.count("\n") == 1
    return done.err


def comparable(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without what differs between two runs."""
    return {name: value for name, value in answer.items() if name not in {"trace_id", "latency_ms", "answered_at"}}


def test_the_demo_runs_from_an_empty_home_to_the_evaluation(tmp_path: Path) -> None:
    done = run(tmp_path / "home", "demo", COLUMNS="80")
    assert (done.status, done.err) == (0, "")
    text = " ".join(done.out.split())
    assert "ingested saltmarrow: 199 records, 651 relationships" in text
    assert re.search(r"path .* ─CAUSES→ |path .* ←CAUSES─ ", text)
    assert "degraded: the search index did not answer" in text
    assert "as of 2024-01-10" in text
    asked = text.split("? How long does Fairlead keep messages? as of 2024-01-10")
    assert "qa-response-fairlead-retention" in asked[0]
    assert "qa-response-fairlead-retention" not in asked[1].split("Another tenant")[0]
    assert "Phantom begonias" in text
    assert "ingested wrenfield: 16 documents" in text
    assert "read document, page 3" in text or "wrenfield/parts.xlsx#chunk-0" in text
    for _, file in FOUND_QUESTIONS:
        assert f"wrenfield/{file}#chunk-0" in text
    assert "make serve" in text
    assert "saltmarrow: 63 judged questions" in text
    for row in ("dense", "lexical", "hybrid-weighted", "graph", "braid"):
        assert re.search(rf"{row}( \.\d\d\d\*?| 1\.000\*?){{5}}", text)
    assert max(len(line) for line in done.out.splitlines() if not line.startswith("  braid ")) <= 80
    again = run(tmp_path / "home", "ingest", str(DEMO / "pellworth"), "--tenant", "pellworth", "--json")
    assert json.loads(again.out)["unchanged"] is True


def test_help_has_examples_for_every_command(braid: Braid) -> None:
    for command in ([], ["demo"], ["ingest"], ["search"], ["eval"], ["tune"]):
        done = braid(*command, "--help")
        assert done.status == 0
        assert f"braid {' '.join(command)}" in done.out.split("Examples")[1]


def test_the_state_machine_and_the_process_answer_alike(braid: Braid) -> None:
    deployed = braid(*ASK, "--json", "--state-machine")
    direct = braid(*ASK, "--json")
    assert (deployed.status, direct.status) == (0, 0)
    answer = json.loads(deployed.out)
    assert comparable(answer) == comparable(json.loads(direct.out))
    assert answer["degraded"] == []
    assert {"event:castellan-cert-lapse", "event:printers-refuse-jobs"} <= {row["id"] for row in answer["results"]}


def test_a_search_prints_the_answer_and_nothing_else(home: Path) -> None:
    done = run(home, *ASK, "--top-k", "2")
    assert (done.status, done.err) == (0, "")
    heading = r"2 results in \d+ ms · intent: causal · strategy: hybrid\nlikely answered \(0\.\d\d of 1\)\n 1\. "
    assert re.match(heading, done.out)
    assert "\x1b" not in done.out


def test_a_search_with_json_prints_one_object_and_nothing_else(home: Path) -> None:
    done = run(home, *ASK, "--json")
    assert (done.status, done.err) == (0, "")
    assert done.out.count("\n") == 1
    assert len(json.loads(done.out)["results"]) == 10


def test_explain_shows_plan_reason_origin_ranks_path_and_timings(braid: Braid) -> None:
    done = braid(*ASK, "--explain")
    text = " ".join(done.out.split())
    assert "intent causal: read from the question" in text
    assert re.search(r"rank .*graph #1 \(0\.\d+\).* → fused #1 \(0\.\d+\) → final #1 \(0\.\d+\)", text)
    assert re.search(r"path .*CAUSES", text)
    assert re.search(r"found vectors 50 · words \d+ · names \d+ · graph \d+", text)
    for stage in ("plan", "embed", "vector_search", "link", "graph_expand", "fuse", "rerank", "total"):
        assert re.search(rf"{stage} \d+\.\d ms", text)


def test_a_question_as_of_a_time_is_answered_with_what_held_then(braid: Braid) -> None:
    ask = ("search", "How long does Fairlead keep messages?", "-t", "saltmarrow", "--json")
    now = [row["id"] for row in json.loads(braid(*ask).out)["results"]]
    then = [row["id"] for row in json.loads(braid(*ask, "--as-of", "2024-01-10").out)["results"]]
    assert now[0] == "qa-response-fairlead-retention"
    assert now[0] not in then


def test_within_answers_only_from_what_the_entity_reaches(braid: Braid) -> None:
    done = braid("search", "What went wrong?", "-t", "saltmarrow", "--within", "Wharfinger", "--json")
    answer = json.loads(done.out)
    assert answer["plan"]["strategy"] == "graph_first"
    assert 0 < len(answer["results"]) < 50


def test_a_narrow_terminal_is_kept_to_and_no_colour_means_none(home: Path) -> None:
    done = run(home, *ASK, "--explain", COLUMNS="60", FORCE_COLOR="1", NO_COLOR="1")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", done.out)
    assert max(map(len, plain.splitlines())) <= 60
    assert not re.search(r"\x1b\[[0-9;]*(3|4|9)\d", done.out)
    coloured = run(home, *ASK, FORCE_COLOR="1")
    assert re.search(r"\x1b\[[0-9;]*3\d", coloured.out)


@pytest.mark.parametrize("options", [[], ["--json"], ["--json", "--top-k", "1"]], ids=["people", "machines", "short"])
def test_a_reader_that_goes_away_is_no_error_message(home: Path, options: list[str]) -> None:
    reading, writing = os.pipe()
    with subprocess.Popen(  # noqa: S603 - this interpreter and our own module
        [sys.executable, "-m", "braid_cli.main", *ASK, *options],
        cwd=ROOT,
        env=environment(home),
        stdout=writing,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(reading)
        os.close(writing)
        assert process.communicate()[1] == b""
    assert process.returncode == 1


def test_an_ingest_of_the_same_content_changes_nothing(braid: Braid) -> None:
    done = braid("ingest", str(DEMO / "saltmarrow"), "--tenant", "saltmarrow")
    assert (done.status, done.err) == (0, "")
    assert done.out == "saltmarrow: nothing has changed since it was ingested for saltmarrow\n"


def test_progress_is_drawn_on_the_terminal_that_is_standard_error(home: Path, tmp_path: Path) -> None:
    terminal, given = pty.openpty()
    with subprocess.Popen(  # noqa: S603 - this interpreter and our own module
        [sys.executable, "-m", "braid_cli.main", "ingest", str(DEMO / "pellworth"), "--tenant", "pellworth"],
        cwd=ROOT,
        env=environment(tmp_path / "home", BRAID_MODELS_DIR=str(home / "models"), TERM="xterm", COLUMNS="100"),
        stdout=subprocess.PIPE,
        stderr=given,
        encoding="utf-8",
    ) as process:
        os.close(given)
        drawn = b""
        while chunk := _read(terminal):
            drawn += chunk
        os.close(terminal)
        assert process.stdout is not None
        out = process.stdout.read()
    assert process.returncode == 0
    assert "Embedding pellworth" in drawn.decode()
    assert "101/101" in drawn.decode()
    told = " ".join(out.split())
    wrote = r"pellworth: 101 records, \d+ vertices and 234 relationships for pellworth in .*\)"
    assert re.fullmatch(wrote + r" found in the texts: \d+ new names, \d+ mentions best connected: .+", told)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # how Linux says that the other end is closed
        return b""


KILLED = """
import os, signal, sys
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid_cli import main
from braid_cli.datasets import ingest

ingest.RECORDS_AT_ONCE, written, upsert = 16, [], EmbeddedSearchIndex.upsert

def upsert_once(index, records):
    if written:
        os.kill(os.getpid(), signal.SIGKILL)
    upsert(index, records)
    written.extend(records)

EmbeddedSearchIndex.upsert = upsert_once
main.main()
"""


def test_a_killed_ingest_leaves_what_was_written_searchable_and_is_finished_by_the_next(
    braid: Braid, home: Path, tmp_path: Path
) -> None:
    own, models = tmp_path / "home", str(home / "models")
    folder = str(DEMO / "pellworth")
    killed = subprocess.run(  # noqa: S603 - this interpreter and the text above
        [sys.executable, "-c", KILLED, "ingest", folder],
        cwd=ROOT,
        env=environment(own, BRAID_MODELS_DIR=models),
        check=False,
        capture_output=True,
    )
    assert killed.returncode == -signal.SIGKILL
    ask = ("search", "Beacon begonias", "--json", "--top-k", "50")
    before = json.loads(braid(*ask, home=own, BRAID_MODELS_DIR=models).out)
    assert len(before["results"]) == 16
    assert not json.loads(braid("ingest", folder, "--json", home=own, BRAID_MODELS_DIR=models).out)["unchanged"]
    after = json.loads(braid(*ask, home=own, BRAID_MODELS_DIR=models).out)
    assert len(after["results"]) > 16
    assert json.loads(braid("ingest", folder, "--json", home=own, BRAID_MODELS_DIR=models).out)["unchanged"]


def test_a_folder_with_mistakes_is_not_ingested_at_all(braid: Braid, home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "corpus.jsonl").write_text('{"_id": "a", "text": "fine"}\n{"_id": "b"}\nnot json\n', encoding="utf-8")
    done = braid("ingest", str(folder), home=tmp_path / "home", BRAID_MODELS_DIR=str(home / "models"))
    assert (done.status, done.out) == (2, "")
    assert done.err == (
        f"braid: {folder}/corpus.jsonl:2: text: missing\n"
        f"{folder}/corpus.jsonl:3: not JSON: Expecting value at column 1\n"
    )
    asked = braid("search", "fine", home=tmp_path / "home", BRAID_MODELS_DIR=str(home / "models"))
    assert "nothing is ingested here yet" in one_line(asked)


def test_an_evaluation_for_machines_has_every_row_and_figure(braid: Braid, home: Path, tmp_path: Path) -> None:
    evaluate = ("eval", str(DEMO / "pellworth"), "--json")
    first = braid(*evaluate, home=tmp_path / "home", BRAID_MODELS_DIR=str(home / "models"))
    assert (first.status, first.err) == (0, "")
    figures = json.loads(first.out)
    assert {"dataset", "queries", "runs", "latency_ms"} <= set(figures)
    assert (figures["dataset"], figures["queries"], figures["degraded"]) == ("pellworth", 10, 0)
    assert list(figures["runs"])[:3] == ["dense", "lexical", "graph"]
    assert list(figures["runs"])[-1] == "braid"
    assert all(set(row) == {"recall@2", "recall@5", "recall@10", "ndcg@10", "mrr"} for row in figures["runs"].values())
    again = braid(*evaluate, home=tmp_path / "home", BRAID_MODELS_DIR=str(home / "models"))
    assert json.loads(again.out)["runs"] == figures["runs"]


def test_an_evaluation_can_be_broken_down_saved_and_shows_its_failures(
    braid: Braid, home: Path, tmp_path: Path
) -> None:
    evaluate = ("eval", str(DEMO / "pellworth"), "--by", "kind", "--failures", "2", "--save", str(tmp_path / "it.json"))
    done = braid(*evaluate, home=tmp_path / "home", BRAID_MODELS_DIR=str(home / "models"))
    assert (done.status, done.err) == (0, "")
    assert "pellworth: ndcg@10 by kind" in done.out
    saved = json.loads((tmp_path / "it.json").read_text(encoding="utf-8"))
    assert len(saved["failures"]) <= 2
    assert set(saved["by"]["kind"]) >= {"causal"}
    wrong = braid("eval", str(DEMO / "pellworth"), "--by", "colour", home=tmp_path / "home")
    assert wrong.status == 2


def test_fitted_weights_that_are_not_better_are_written_only_by_force_and_then_used(
    braid: Braid, home: Path, tmp_path: Path
) -> None:
    own: dict[str, Any] = {"home": tmp_path / "home", "BRAID_MODELS_DIR": str(home / "models")}
    refused = braid("tune", str(DEMO / "pellworth"), "--folds", "2", **own)
    assert refused.status == 1
    assert refused.err.startswith("braid: nothing written: ")
    assert not (tmp_path / "home" / "fitted.json").exists()
    before = json.loads(braid("eval", str(DEMO / "pellworth"), "--json", **own).out)["parameters"]
    forced = braid("tune", str(DEMO / "pellworth"), "--folds", "2", "--force", **own)
    assert (forced.status, forced.err) == (0, "")
    assert "held-out questions" in forced.out
    undo = f"`rm {tmp_path / 'home' / 'fitted.json'}` undoes it"
    assert f"it applies to all tenants of this store, once a running server is restarted; {undo}" in forced.out
    after = json.loads(braid("eval", str(DEMO / "pellworth"), "--json", **own).out)["parameters"]
    assert (before["fitted"], after["fitted"]) == (False, True)
    (tmp_path / "home" / "fitted.json").write_text('{"parameters": {"hit_share": 7}}', encoding="utf-8")
    broken = braid("search", "fine", "--tenant", "pellworth", **own)
    assert broken.status == 2
    assert "fitted.json: parameters.hit_share: " in one_line(broken)


def test_a_home_that_cannot_be_made_is_said_once(braid: Braid, tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("The gate opens at six.", encoding="utf-8")
    done = braid("ingest", str(tmp_path / "note.md"), home=tmp_path / "note.md" / "home")
    assert done.status == 1
    assert "note.md/home: Not a directory; BRAID_HOME names another folder" in one_line(done)


def test_an_evaluation_without_questions_says_which_file_is_missing(braid: Braid, tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "a", "text": "t"}\n', encoding="utf-8")
    done = braid("eval", str(tmp_path))
    assert done.status == 2
    assert "queries.jsonl: missing; evaluation needs questions" in one_line(done)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["search", ""], "TEXT: must be 1 to 10,000 characters"),
        (["search", " \n\t"], "TEXT: must be 1 to 10,000 characters"),
        (["search", "x" * 10_001], "TEXT: must be 1 to 10,000 characters"),
        (["search", "a\x00b"], "TEXT: must be"),
        (["search", "a\udcffb"], "TEXT: must be"),
        (["search", "q", "--top-k", "0"], "--top-k: must be a whole number from 1 to 50"),
        (["search", "q", "--top-k", "51"], "--top-k: must be a whole number from 1 to 50"),
        (["search", "q", "--tenant", "a b"], "--tenant: must be 1 to 64 of the letters"),
        (["search", "q", "--tenant", "á"], "--tenant: must be 1 to 64 of the letters"),
        (["search", "q", "--tenant", ""], "--tenant: must be 1 to 64 of the letters"),
        (["ingest", str(DEMO / "pellworth"), "--tenant", "../x"], "--tenant: must be 1 to 64 of the letters"),
        (["search", "q", "--as-of", "yesterday"], "--as-of: not a date or time such as 2024-05-01"),
        (["search", "q", "--as-of", "2024"], "--as-of: not a date or time such as 2024-05-01"),
        (["search", "q", "--as-of", "2024-13-01"], "--as-of: not a date or time such as 2024-05-01"),
        (["search", "q", "--within", ""], "--within: "),
        (["search", "q", "--strategy", "graph_first"], "--strategy: graph_first needs --within ENTITY"),
        (["search", "q", "-t", "saltmarrow", "--reranker", "onnx"], "--reranker: onnx needs BRAID_RERANKER_MODEL"),
        (["search", "q", "-t", "nobody"], "--tenant: nothing is known of 'nobody' in "),
        (["search", "q", "-t", "nobody"], "tenants here: saltmarrow. `braid ingest DIR --tenant nobody` makes it"),
        (["ingest", "nowhere"], "nowhere: no such file or folder"),
        (["stats", "-t", "nobody"], "--tenant: nothing is known of 'nobody' in "),
        (["list", "entities", "-t", "nobody"], "--tenant: nothing is known of 'nobody' in "),
        (["repair", "-t", "nobody"], "--tenant: nothing is known of 'nobody' in "),
        (["reembed", "--dry-run", "-t", "nobody"], "--tenant: nothing is known of 'nobody' in "),
        (["export", "archive", "-t", "nobody"], "--tenant: nothing is known of 'nobody' in "),
        (["eval", "nowhere"], "nowhere: no such folder"),
        (["serve", "--port", "0", "--tenant", "nobody"], "--tenant: nothing is known of 'nobody' in "),
        (["tune", "nowhere"], "nowhere: no such folder"),
        (["tune", "nowhere", "--metric", "beauty"], "--metric: 'beauty' is none of recall@2"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_input_that_cannot_be_used_is_one_line_that_names_what_to_change(
    braid: Braid, arguments: list[str], expected: str
) -> None:
    done = braid(*arguments)
    assert done.status == 2
    assert expected in one_line(done)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["search", "q", "--top-k", "5.5"], "--top-k"),
        (["search", "q", "--top-k", "nan"], "--top-k"),
        (["search", "q", "--intent", "curious"], "'lookup', 'exploratory', 'temporal', 'causal'"),
        (["search", "q", "--strategy", "luck"], "'graph_first', 'vector_first'"),
        (["search"], "TEXT"),
        (["serch", "q"], "No such command 'serch'. Did you mean 'search', 'serve'? `braid --help` shows what there is"),
        (["search", "q", "--topk", "3"], "--topk"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_a_command_that_cannot_be_read_names_the_option_and_what_it_may_be(
    braid: Braid, arguments: list[str], expected: str
) -> None:
    done = braid(*arguments)
    assert (done.status, done.out) == (2, "")
    assert expected in one_line(done)


@pytest.mark.parametrize(
    ("variable", "value"),
    [("BRAID_ENGINE", "mainframe"), ("BRAID_MODEL_PROFILE", "huge"), ("BRAID_ENCODER_THREADS", "0")],
)
def test_a_setting_that_cannot_be_used_is_named(braid: Braid, variable: str, value: str) -> None:
    done = braid(*ASK, **{variable: value})
    assert done.status == 2
    assert variable in one_line(done)


def test_without_its_model_a_question_is_answered_by_words_and_the_reason_said(braid: Braid, tmp_path: Path) -> None:
    done = braid(*ASK, "--json", BRAID_MODELS_DIR=str(tmp_path), BRAID_CACHE_EMBEDDING_S="0")
    assert done.status == 0
    answer = json.loads(done.out)
    assert answer["degraded"] == ["embed"]
    assert answer["results"]
    assert done.err.count("\n") == 1
    assert "answering without all-minilm-l6-v2" in done.err
    assert "make it with `braid models export all-minilm-l6-v2`" in done.err


@pytest.fixture
def models(home: Path, tmp_path: Path) -> Path:
    """Return a copy of the models that a test may damage."""
    folder = tmp_path / "models" / "all-minilm-l6-v2"
    folder.mkdir(parents=True)
    for file in (home / "models" / "all-minilm-l6-v2").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder.parent


def test_a_changed_byte_in_a_model_is_found_and_the_remedy_said(braid: Braid, models: Path, tmp_path: Path) -> None:
    path = models / "all-minilm-l6-v2" / "model.onnx"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    asked = braid(*ASK, "--json", BRAID_MODELS_DIR=str(models), BRAID_CACHE_EMBEDDING_S="0")
    assert json.loads(asked.out)["degraded"] == ["embed"]
    for done in (asked, braid("ingest", str(DEMO / "pellworth"), home=tmp_path / "h", BRAID_MODELS_DIR=str(models))):
        assert "model.onnx: SHA-256 is " in done.err
        assert "make the model again with `braid models export all-minilm-l6-v2 --force`" in done.err
        assert done.err.count("\n") == 1
    assert done.status == 1
    assert "nothing is ingested here yet" in braid("search", "q", home=tmp_path / "h").err


def test_a_model_of_another_dimension_is_refused_before_its_vectors_are_compared(braid: Braid, tmp_path: Path) -> None:
    write_bert(tmp_path / "source")
    export_direct(tmp_path / "source", tmp_path / "models" / "all-minilm-l6-v2", model_id="all-minilm-l6-v2")
    expected = "its vectors have 32 values, configured are 384"
    asked = braid(*ASK, "--json", BRAID_MODELS_DIR=str(tmp_path / "models"), BRAID_CACHE_EMBEDDING_S="0")
    assert json.loads(asked.out)["degraded"] == ["embed"]
    assert expected in asked.err
    changed = tmp_path / "data"
    changed.mkdir()
    (changed / "corpus.jsonl").write_text('{"_id": "a", "text": "t"}\n', encoding="utf-8")
    ingested = braid("ingest", str(changed), home=tmp_path / "home", BRAID_MODELS_DIR=str(tmp_path / "models"))
    assert ingested.status == 1
    assert expected in one_line(ingested)


def test_a_home_that_cannot_be_written_is_searched_and_refuses_an_ingest(
    braid: Braid, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))
    assert json.loads(braid(*ASK, "--json").out)["degraded"] == []
    done = braid("ingest", str(DEMO / "pellworth"), "--tenant", "pellworth")
    assert done.status == 1
    assert "braid.db is open for reading only; make the file and its folder writable or set BRAID_HOME" in one_line(
        done
    )


def test_a_home_that_is_a_file_is_named(braid: Braid, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("not a folder")
    for command in (("search", "q"), ("ingest", str(DEMO / "pellworth")), ("eval", str(DEMO / "pellworth"))):
        done = braid(*command, home=tmp_path / "home")
        assert done.status == 2
        assert one_line(done) == f"braid: BRAID_HOME: {tmp_path / 'home'} is not a folder\n"


def test_a_file_that_may_not_be_read_is_named(braid: Braid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "a", "text": "t"}\n', encoding="utf-8")

    really = os.open

    def refuse(path: Any, *given: Any, **named: Any) -> int:
        if str(path).endswith("corpus.jsonl"):
            raise PermissionError(13, "Permission denied", str(path))
        return really(path, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        done = braid("ingest", str(tmp_path))
    assert done.status == 1
    assert one_line(done) == f"braid: {tmp_path}/corpus.jsonl: Permission denied\n"
