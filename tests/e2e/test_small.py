"""The function of the small mode: it writes, answers and deletes as ``braid serve`` does, one process after another."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest
from braid.app import Application
from braid.settings import Settings

from tests.front_door import Answered, FrontDoor, claims, event

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = """
import json, sys
sys.path.insert(0, "functions/small")
import app
from braid_cli.state_machine.invoke_endpoint import LocalContext
for line in sys.stdin:
    answer = app.handler(json.loads(line), LocalContext("small"))
    print(json.dumps({"answer": answer}), flush=True)
"""
QUESTION = {"text": "Who keeps the ledger of the harbour?"}
RECORDS = {
    "records": [
        {"id": "r1", "kind": "chunk", "content": "Ada Quist keeps the ledger of the harbour at Tollgate."},
        {"id": "r2", "kind": "chunk", "content": "The bakery opens at six and sells rye bread."},
    ],
    "vertices": [{"id": "ada", "name": "Ada Quist"}, {"id": "harbour", "name": "Harbour Office"}],
    "relationships": [{"source": "ada", "type": "WORKS_FOR", "target": "harbour", "evidence": "r1"}],
}


class Environment:
    """An execution environment of Lambda: one process, asked one event at a time."""

    def __init__(self, files: Path, models: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("BRAID_", "AWS_"))}
        self.process = subprocess.Popen(  # noqa: S603 - this interpreter and the text above
            [sys.executable, "-c", RUNTIME],
            cwd=ROOT,
            env=kept
            | {
                "BRAID_HOME": str(files),
                "BRAID_STORE_JOURNAL": "persist",
                "BRAID_MODELS": str(models),
                "AWS_LAMBDA_FUNCTION_NAME": "small",
                "AWS_XRAY_SDK_ENABLED": "false",
                "POWERTOOLS_TRACE_DISABLED": "1",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def invoke(self, event: dict[str, Any]) -> dict[str, Any]:
        into, out = self.process.stdin, self.process.stdout
        assert into is not None
        assert out is not None
        into.write(json.dumps(event) + "\n")
        into.flush()
        return self._answer(out)

    def _answer(self, out: IO[str]) -> dict[str, Any]:
        for line in out:  # logs and metrics are lines of their own
            if line.startswith('{"answer": '):
                answer: dict[str, Any] = json.loads(line)["answer"]
                return answer
        raise AssertionError("the process ended")

    def ask(self, method: str, path: str, body: Any = None) -> Answered:
        answer = self.invoke(event(method, path, body, authorizer=claims()))
        return Answered(answer["statusCode"], dict(answer["headers"]), answer["body"])

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def function(tmp_path: Path, home: Path) -> Iterator[Environment]:
    environment = Environment(tmp_path / "efs", home / "models")
    yield environment
    environment.end()


def found(answered: Answered) -> Any:
    """Return what an answer says, but for its moments and its trace."""
    assert answered.status == 200, answered.text
    answer = answered.json()
    return {name: answer[name] for name in ("results", "confidence", "related_entities", "degraded", "cached")}


def test_it_answers_as_the_server_on_a_laptop_does_and_the_next_process_goes_on(
    tmp_path: Path, home: Path, function: Environment
) -> None:
    laptop = FrontDoor(Application(Settings(home=tmp_path / "laptop", models_dir=home / "models")))
    for method, path, body in (
        ("POST", "/records", RECORDS),
        ("GET", "/stats", None),
        ("GET", "/records/r1", None),
        ("POST", "/search", {"text": ""}),
        ("GET", "/nowhere", None),
    ):
        ours, theirs = function.ask(method, path, body), laptop.ask(method, path, body)
        assert (ours.status, ours.text) == (theirs.status, theirs.text), path
    answer = found(function.ask("POST", "/search", QUESTION))
    assert answer == found(laptop.ask("POST", "/search", QUESTION))
    assert "r1" in {result["id"] for result in answer["results"]}
    after = Environment(tmp_path / "efs", home / "models")
    try:
        assert found(after.ask("POST", "/search", QUESTION)) == answer | {"cached": True}
        assert after.ask("DELETE", "/records/r1").status == 200
    finally:
        after.end()
    assert "r1" not in {result["id"] for result in found(function.ask("POST", "/search", QUESTION))["results"]}


def test_a_document_is_read_before_its_request_is_answered(function: Environment) -> None:
    content = base64.b64encode(b"# Locks\n\nThe north lock opens at noon.").decode()
    posted = function.ask("POST", "/documents", {"name": "notes.md", "content": content})
    assert posted.status == 202, posted.text
    done = function.ask("GET", f"/imports/{posted.json()['id']}").json()
    assert (done["status"], done["errors"]) == ("written", 0)
    (first, *_) = found(function.ask("POST", "/search", {"text": "When does the north lock open?"}))["results"]
    assert "noon" in first["content"]


def test_the_schedule_embeds_again_what_is_outdated(function: Environment) -> None:
    assert function.ask("POST", "/records", RECORDS).status == 200
    assert function.invoke({"scheduled": True})["status"] == "finished"


def test_an_operator_deletes_a_tenant_and_the_others_stay(function: Environment) -> None:
    others = claims(tenant="globex")
    assert function.ask("POST", "/records", RECORDS).status == 200
    assert function.invoke(event("POST", "/records", RECORDS, authorizer=others))["statusCode"] == 200
    report = function.invoke({"delete_tenant": claims()["jwt"]["claims"]["tenant_id"]})
    assert (report["records"], report["left"]) == (2, [])
    assert function.ask("GET", "/stats").json()["records"] == 0
    assert json.loads(function.invoke(event("GET", "/stats", authorizer=others))["body"])["records"] == 2


@pytest.mark.parametrize("sound", [True, False], ids=["restored", "damaged"])
def test_a_process_whose_store_was_replaced_ends_and_the_next_one_opens_what_is_there(
    sound: bool, tmp_path: Path, home: Path, function: Environment
) -> None:
    assert function.ask("POST", "/records", RECORDS).status == 200
    store = tmp_path / "efs"
    shutil.copytree(store, tmp_path / "copy")
    store.rename(tmp_path / "away")
    (tmp_path / "copy").rename(store)
    if not sound:
        database = store / "braid.db"
        database.write_bytes(b"x" * database.stat().st_size)
    with pytest.raises(AssertionError, match="the process ended"):
        function.ask("POST", "/search", QUESTION)
    after = Environment(store, home / "models")
    try:
        if sound:
            assert found(after.ask("POST", "/search", QUESTION))["degraded"] == []
        else:
            with pytest.raises((AssertionError, BrokenPipeError)):
                after.ask("POST", "/search", QUESTION)
    finally:
        after.end()
