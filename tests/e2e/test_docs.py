"""Whoever follows the README or a page of docs/ gets what it says: each block runs, in order, from what was there."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from braid import Braid

from tests.documented import DOCUMENTS, OUTPUT, ROOT, blocks, differences
from tests.e2e.conftest import environment
from tests.tiny_models import write_bert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.documented import Block
    from tests.e2e.conftest import Done

RUN = {"sh", "python"}
REASONS = {
    "needs AWS",
    "needs Docker",
    "needs a language model",
    "needs LangChain",
    "needs LlamaIndex",
    "installs packages",
    "run by other tests",
    "loads gigabytes",
}
SECONDS = 300
"""After which a block counts as stuck."""
# Text that a shell is given at once: commands end when nothing comes from standard input.
BLOCK = "{{\n{text}\n}} </dev/null; env -0 >.environment; printf '\\0\\n'\n"
# A server takes a free port; that it is the one of the document is no part of what is tested.
PREAMBLE = 'braid() { if [ "$1" = serve ]; then shift; set -- serve --port 0 "$@"; fi; command braid "$@"; }\n'
NOTES = {
    "notes/harbour.md": "The ledger is kept by the Harbour team.",
    "notes/depot.md": "Labels are printed at the depot.",
    "handbook/backups.md": "# Backups\n\nWe keep backups for ninety days, in two places.\n",
    "handbook/gates.md": "# Gates\n\nThe gates open at six. The Harbour team opens them.\n",
    "tickets.csv": "Subject,Body,Opened\nNo labels,The printer at gate two is out of ink.,2024-05-01\n",
}
SUBJECTS = ("gates", "labels", "backups", "ledger", "parking", "lunch", "badges", "printers", "visitors", "audits")


def write_files(folder: Path) -> None:
    """Write what the documents take to be there: a clone, folders of documents, a dataset, a model."""
    for name, text in NOTES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    data = folder / "my-data"
    (data / "qrels").mkdir(parents=True)
    texts = [{"_id": name, "text": f"Whom to ask about {name}: the {name} office."} for name in SUBJECTS]
    asked = [
        {"_id": f"q{name}", "text": f"Who answers for {name}?", "metadata": {"kind": "look-up"}} for name in SUBJECTS
    ]
    for file, lines in {"corpus": texts, "queries": asked}.items():
        (data / f"{file}.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    judged = "".join(f"q{name}\t{name}\t1\n" for name in SUBJECTS)
    (data / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}", encoding="utf-8")
    shutil.copytree(data, data / "held-back", ignore=shutil.ignore_patterns("corpus.jsonl"))
    write_bert(folder / "my-bert")
    (folder / "braid_cli").symlink_to(ROOT / "braid_cli")
    (folder / ".venv").symlink_to(sys.prefix)


class Reader:
    """Someone who types a document's blocks: one shell, one Python, one store."""

    def __init__(self, folder: Path, variables: dict[str, str], braid: Callable[..., Done]) -> None:
        self.folder, self.variables, self.braid = folder, variables, braid
        self.names: dict[str, Any] = {}
        self.shell = subprocess.Popen(
            ["/bin/bash", "-euo", "pipefail"],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            start_new_session=True,
        )
        self._type(PREAMBLE)

    def close(self) -> None:
        """End the shell and all that it started."""
        with self.shell:  # which closes its pipes and waits
            os.killpg(self.shell.pid, signal.SIGKILL)

    def run(self, text: str) -> str:
        """Run commands; return what they print."""
        lines = [line for line in text.splitlines() if line.partition("#")[0].strip()]
        if not all(line.startswith("braid ") and not re.search(r"[|>&\\$]", line) for line in lines):
            return self._type(text)
        return "".join(self._command(shlex.split(line, comments=True)[1:]) for line in lines)

    def _command(self, words: list[str]) -> str:
        if words[0] == "serve" or {"--watch", "--http"} & set(words):
            return self._until_it_speaks(words)
        if words[0] == "mcp":  # which reads standard input
            return self._type(shlex.join(["braid", *words]))
        settings = {name: value for name, value in self.variables.items() if name.startswith("BRAID_")}
        done = self.braid(*words, home=self.folder / "home", **settings)
        # `tune` says by its status that nothing is better than what is in force.
        assert done.status in ({0, 1} if words[0] == "tune" else {0}), (
            f"braid {shlex.join(words)}: {done.out}{done.err}"
        )
        return done.out

    def _until_it_speaks(self, words: list[str]) -> str:
        """Start what stays until Ctrl-C, and press that once it has said something."""
        port = [] if "--watch" in words else ["--port", "0"]
        with subprocess.Popen(  # noqa: S603 - this interpreter and our own module
            [sys.executable, "-m", "braid_cli.main", *words, *port],
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        ) as process:
            assert process.stdout is not None
            stuck = threading.Timer(SECONDS, process.kill)
            stuck.start()
            try:
                said = process.stdout.readline()
                process.send_signal(signal.SIGINT)
                said += process.stdout.read()
            finally:
                stuck.cancel()
                process.kill()
        assert said.strip(), words
        assert "Traceback" not in said, said
        return said

    def _type(self, text: str) -> str:
        assert self.shell.stdin is not None
        assert self.shell.stdout is not None
        stuck = threading.Timer(SECONDS, self.close)
        stuck.start()
        try:
            self.shell.stdin.write(BLOCK.format(text=text))
            self.shell.stdin.flush()
            said = ""
            for line in self.shell.stdout:
                if line.endswith("\0\n"):
                    said += line[:-2]
                    break
                said += line
            else:
                pytest.fail(f"ended at a command that failed:\n{text}\n{said}")
        finally:
            stuck.cancel()
        exported = (self.folder / ".environment").read_text(encoding="utf-8").split("\0")
        self.variables |= dict(pair.split("=", 1) for pair in exported if pair)
        return said


@pytest.fixture
def reader(home: Path, tmp_path: Path, braid: Callable[..., Done], monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """Return a reader with a store of the demo's first archive and the files that the documents speak of."""
    write_files(tmp_path)
    shutil.copytree(home, tmp_path / "home", ignore=shutil.ignore_patterns("models"))
    shutil.copytree(home / "models", tmp_path / "models", copy_function=os.link)
    monkeypatch.chdir(tmp_path)
    path = os.pathsep.join((os.path.join(sys.prefix, "bin"), os.environ["PATH"]))  # noqa: PTH118
    reader = Reader(tmp_path, environment(tmp_path / "home", BRAID_MODELS=str(tmp_path / "models"), PATH=path), braid)
    yield reader
    reader.close()


@pytest.mark.parametrize(
    "document",
    [path for path in DOCUMENTS if any(block.language in RUN and not block.reason for block in blocks(path))],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_every_block_of_a_document_does_what_the_document_says(
    document: Path, reader: Reader, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = ""
    for block in blocks(document):
        if block.name == OUTPUT:
            assert not differences(block.text, printed), f"{block.place}: {printed}"
        elif block.name and block.language not in RUN:
            (reader.folder / block.name).write_text(block.text, encoding="utf-8")
        elif block.language == "sh" and not block.reason:
            printed = reader.run(block.text)
        elif block.language == "python" and not block.reason:
            for name, value in reader.variables.items():
                monkeypatch.setenv(name, value)
            capfd.readouterr()
            code = compile(block.text, block.place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            if inspect.iscoroutine(awaited := eval(code, reader.names)):  # noqa: S307 - of our own documentation
                asyncio.run(awaited)
            printed = capfd.readouterr().out
    for held in reader.names.values():
        if isinstance(held, Braid):
            held.close()


def test_a_block_that_is_not_run_says_one_of_a_few_reasons(figures: list[str]) -> None:
    every: list[Block] = [block for path in DOCUMENTS for block in blocks(path) if block.language in RUN]
    left = Counter(block.reason for block in every if block.reason)
    assert set(left) <= REASONS, set(left) - REASONS
    figures.append(f"blocks of the documents: {len(every)}, of which not run: {dict(left)}")
    figures.extend(f"  {block.place}: {block.reason}" for block in every if block.reason)
