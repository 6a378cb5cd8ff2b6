"""What the wheel brings, tried in an empty environment outside of any clone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tarfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
MAX_MEGABYTES = 300
"""Without compiled files and pip."""
NOT_BROUGHT = {"torch", "sentence_transformers", "opensearchpy", "gremlin_python"} | {
    "boto3",
    "botocore",
    "moto",
    "docker",
    "werkzeug",
    "cryptography",
    "scipy",
}
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
    (folder / "work" / "user").mkdir(parents=True)
    return Installed(environment_of(request.param, folder), folder / "work")


@pytest.fixture(scope="session")
def with_workflow(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Return another environment, which has the extra ``workflow`` as well, and works in the same folder."""
    folder = tmp_path_factory.mktemp("with_workflow")
    python = str((installed.environment / "bin" / "python").resolve())
    return Installed(environment_of(python, folder, "workflow"), installed.folder)


def environment_of(python: str, folder: Path, extra: str = "") -> Path:
    """Make an environment of one Python with the wheel, and an extra of it, in the versions of the lock."""
    environment = folder / "environment"

    def uv(*arguments: str) -> None:
        subprocess.run([os.environ["UV"], *arguments], check=True, cwd=folder)  # noqa: S603 - as make names it

    uv("venv", "--quiet", "--python", python, str(environment))
    into = ("pip", "install", "--quiet", "--python", str(environment))
    requirements = DIST / f"requirements{extra and f'-{extra}'}.txt"
    uv(*into, "--require-hashes", "--only-binary", ":all:", "--requirement", str(requirements))
    uv(*into, "--offline", f"{wheel()}{extra and f'[{extra}]'}")  # which declares nothing that is not there
    return environment


def wheel() -> Path:
    """Return the wheel, of which there is one."""
    (built,) = DIST.glob("braid_retrieval-*.whl")
    return built


def test_the_wheel_says_what_it_is_called_and_what_it_brings() -> None:
    with zipfile.ZipFile(wheel()) as opened:
        (name,) = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
        said = opened.read(name).decode().partition("\n\n")[0]
        scripts = opened.read(name.replace("METADATA", "entry_points.txt")).decode()
    assert "\nName: braid-retrieval\n" in said
    assert "\nbraid = braid_cli.main:main\n" in scripts
    default = [line for line in re.findall(r"(?m)^Requires-Dist: (.+)$", said) if "extra ==" not in line]
    names = {re.split(r"[^\w.-]", line)[0] for line in default}
    assert len(names) > 10
    assert not names & (NOT_BROUGHT | {"braid", "braid-retrieval", "ir-measures"})


def test_it_is_small_and_has_no_pytorch_and_no_client_of_deployed_stores(
    installed: Installed, figures: list[str]
) -> None:
    size = sum(path.stat().st_size for path in installed.environment.rglob("*") if path.is_file()) / 1e6
    figures.append(f"installed: {size:.0f} MB")
    assert size < MAX_MEGABYTES
    names = {path.name for path in installed.environment.glob("lib/*/site-packages/*")}
    assert not names & NOT_BROUGHT
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


def test_the_demo_is_the_same_by_the_stages_and_by_the_deployed_state_machine(
    installed: Installed, with_workflow: Installed
) -> None:
    shown, by_workflow = (each.run("braid", "demo") for each in (installed, with_workflow))
    assert "needs the extra workflow" in shown
    assert "needs the extra workflow" not in by_workflow
    for said in ("Eleven inboxes closed", "degraded: the search index did not answer", "saltmarrow: 63 judged"):
        assert said in shown
        assert said in by_workflow
    titles = re.compile(r"(?m)^ *\d+\. .+$")
    assert len(titles.findall(shown)) > 30
    assert titles.findall(shown) == titles.findall(by_workflow)


def test_the_state_machine_answers_where_the_extra_workflow_is(installed: Installed, with_workflow: Installed) -> None:
    ask = ("braid", "search", QUESTION, "-t", "saltmarrow", "--json")
    found, by_workflow = (
        json.loads(each) for each in (installed.run(*ask), with_workflow.run(*ask, "--state-machine"))
    )
    assert not found["degraded"]
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
    commands = {
        "mcp": ["mcp"],
        "aws": ["repair", "--engine", "aws"],
        "workflow": ["search", QUESTION, "-t", "acme", "--state-machine"],
    }
    named, where = wheel().name, "docs/library.md#installing"
    for extra, command in commands.items():
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
            f"braid: this needs the extra {extra}: install Braid's wheel as '{named}[{extra}]' ({where})",
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
            another = json.dumps({"records": [{"id": "b", "kind": "fact", "content": "Gates are painted."}]}).encode()
            ask("/records", data=another, headers=headers)
            assert json.loads(ask("/records?limit=1", headers=headers))["next"]
            assert b"<html" in ask("/explorer")
            assert json.loads(ask("/openapi.json"))["info"]["title"] == "Braid"
        finally:
            server.terminate()


def test_it_says_its_version_and_where_things_lie(installed: Installed) -> None:
    version = installed.run("braid", "--version").split()[1]
    assert wheel().name == f"braid_retrieval-{version}-py3-none-any.whl"
    places = json.loads(installed.run("braid", "home", "--json"))
    assert places["home"] == str(installed.folder / "user" / ".local" / "share" / "braid")
    assert places["store"]


def test_the_source_distribution_has_what_the_wheel_is_built_of_and_no_tests() -> None:
    (archive,) = DIST.glob("braid_retrieval-*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {"LICENSE", "CHANGELOG.md", "shared/models/profiles.json", "layers/braid/braid/py.typed"} <= names
    assert not [name for name in names if name.startswith(("tests/", "bench/", ".ci", "uv.lock"))]
