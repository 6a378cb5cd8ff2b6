"""What `pip install braid` brings, tried in an empty environment outside of any clone."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
MAX_MEGABYTES = 700
QUESTION = "What was the root cause of the Lisbon label stoppage?"
THREE_LINES = """
from braid import Braid
b = Braid("./store")
b.add("notes/")
for r in b.search("Who keeps the ledger?"):
    print(r)
"""


@dataclass(frozen=True)
class Installed:
    """An environment with the package, and a folder to work in that is in no clone."""

    environment: Path
    folder: Path

    def run(self, *command: str, input: str | None = None) -> str:  # noqa: A002 - as subprocess calls it
        """Run a command of the environment; return what it prints."""
        done = subprocess.run(  # noqa: S603 - of the environment that was made here
            [str(self.environment / "bin" / command[0]), *command[1:]],
            cwd=self.folder,
            env=self.variables(),
            input=input,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def variables(self) -> dict[str, str]:
        """Return an environment of a user who has nothing yet; uv fetches the encoder, by hash."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("BRAID_", "XDG_", "PYTHON"))}
        return kept | {"HOME": str(self.folder / "user"), "UV_CACHE_DIR": str(cache())}


def cache() -> Path:
    """Return uv's cache, which is that of whoever runs this."""
    done = subprocess.run([os.environ["UV"], "cache", "dir"], capture_output=True, text=True, check=True)  # noqa: S603 - as make names it
    return Path(done.stdout.strip())


@pytest.fixture(scope="session", params=os.environ["PYTHONS"].split())
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Return an environment of one Python, with what the lock says of the default install, and the wheel."""
    folder = tmp_path_factory.mktemp("installed")
    (wheel,) = DIST.glob("braid-*.whl")
    environment = folder / "environment"

    def uv(*arguments: str) -> None:
        subprocess.run([os.environ["UV"], *arguments], check=True, cwd=folder)  # noqa: S603 - as make names it

    uv("venv", "--quiet", "--python", request.param, str(environment))
    into = ("pip", "install", "--quiet", "--python", str(environment))
    uv(*into, "--require-hashes", "--only-binary", ":all:", "--requirement", str(DIST / "requirements.txt"))
    uv(*into, "--offline", str(wheel))  # which declares nothing that is not there
    (folder / "work" / "user").mkdir(parents=True)
    return Installed(environment, folder / "work")


def test_it_is_small_and_has_no_pytorch_and_no_client_of_deployed_stores(
    installed: Installed, figures: list[str]
) -> None:
    size = sum(path.stat().st_size for path in installed.environment.rglob("*") if path.is_file()) / 1e6
    figures.append(f"installed: {size:.0f} MB")
    assert size < MAX_MEGABYTES
    names = {path.name for path in installed.environment.glob("lib/*/site-packages/*")}
    assert not names & {"torch", "sentence_transformers", "opensearchpy", "gremlin_python"}
    assert not list(installed.environment.glob("lib/*/site-packages/braid_cli/local_servers"))


def test_importing_it_pays_for_nothing_that_is_not_used(installed: Installed) -> None:
    script = (
        "import braid, json, sys; print(json.dumps(sorted(name for name in sys.modules if name.startswith('braid'))))"
    )
    assert json.loads(installed.run("python", "-c", script)) == ["braid", "braid.version"]
    said = installed.run("python", "-c", "import braid; print([getattr(braid, name) for name in braid.__all__])")
    assert "braid.client.braid.Braid" in said


def test_the_first_three_lines_answer_from_a_folder_of_notes(installed: Installed, figures: list[str]) -> None:
    (installed.folder / "notes").mkdir()
    (installed.folder / "notes" / "harbour.md").write_text("The ledger is kept by the Harbour team.", encoding="utf-8")
    for when in ("first", "again"):
        began = time.perf_counter()
        assert "[notes/harbour.md#chunk-0]" in installed.run("python", "-c", THREE_LINES)
        figures.append(f"three lines, {when}: {time.perf_counter() - began:.1f} s")


def test_the_demo_runs_by_the_deployed_state_machine(installed: Installed) -> None:
    shown = installed.run("braid", "demo")
    assert "Eleven inboxes closed" in shown
    found = json.loads(installed.run("braid", "search", QUESTION, "-t", "saltmarrow", "--json"))
    assert not found["degraded"]
    by_workflow = json.loads(
        installed.run("braid", "search", QUESTION, "-t", "saltmarrow", "--json", "--state-machine")
    )
    assert [one["id"] for one in by_workflow["results"]] == [one["id"] for one in found["results"]]


def test_a_folder_is_ingested_and_asked(installed: Installed) -> None:
    (installed.folder / "data").mkdir()
    line = json.dumps({"_id": "a", "text": "Labels are printed at the depot in Lisbon."})
    (installed.folder / "data" / "corpus.jsonl").write_text(f"{line}\n", encoding="utf-8")
    installed.run("braid", "ingest", "data", "--tenant", "acme")
    answer = json.loads(installed.run("braid", "search", "Where are labels printed?", "-t", "acme", "--json"))
    assert [result["id"] for result in answer["results"]] == ["a"]


def test_a_command_that_needs_an_extra_names_it(installed: Installed) -> None:
    aws = ("BRAID_OPENSEARCH_ENDPOINT=http://127.0.0.1:9", "BRAID_NEPTUNE_ENDPOINT=ws://127.0.0.1:9/gremlin")
    braid = str(installed.environment / "bin" / "braid")
    for extra, command in {"mcp": ["mcp"], "aws": ["repair", "--engine", "aws"]}.items():
        done = subprocess.run(  # noqa: S603 - of the environment that was made here
            ["/usr/bin/env", *aws, braid, *command],
            cwd=installed.folder,
            env=installed.variables(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr.strip()) == (
            2,
            f"braid: this needs the extra {extra}: pip install 'braid[{extra}]'",
        )


def test_it_is_served(installed: Installed) -> None:
    command = [str(installed.environment / "bin" / "braid"), "serve", "--port", "0", "--json", "-t", "acme"]
    with subprocess.Popen(  # noqa: S603 - of the environment that was made here
        command, cwd=installed.folder, env=installed.variables(), stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            said = json.loads(server.stdout.readline())
            headers = {"Authorization": f"Bearer {said['tokens']['acme']}", "Content-Type": "application/json"}
            body = json.dumps({"text": "Where are labels printed?"}).encode()
            ask: Callable[..., bytes] = lambda path, **how: urlopen(Request(f"{said['url']}{path}", **how)).read()  # noqa: E731, S310 - a loopback address
            assert json.loads(ask("/search", data=body, headers=headers))["results"][0]["id"] == "a"
            assert b"<html" in ask("/explorer")
            assert json.loads(ask("/openapi.json"))["info"]["title"] == "Braid"
        finally:
            server.terminate()


def test_it_says_its_version_and_where_things_lie(installed: Installed) -> None:
    version = installed.run("braid", "--version").split()[1]
    assert (DIST / f"braid-{version}-py3-none-any.whl").exists()
    places = json.loads(installed.run("braid", "home", "--json"))
    assert places["home"] == str(installed.folder / "user" / ".local" / "share" / "braid")
    assert places["store"]


def test_the_source_distribution_has_what_the_wheel_is_built_of_and_no_tests() -> None:
    (archive,) = DIST.glob("braid-*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {"LICENSE", "CHANGELOG.md", "shared/models/profiles.json", "layers/braid/braid/py.typed"} <= names
    assert not [name for name in names if name.startswith(("tests/", "bench/", ".ci", "uv.lock"))]
