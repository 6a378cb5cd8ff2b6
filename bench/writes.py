"""Measures writing relative to embedding alone, and the memory of all ways of writing, at growing numbers of records.

Each task runs in a process of its own, one after another. Tasks with real texts take turns with only embedding these
texts, so that other load on the machine affects both. Tasks at growing sizes use a nearly free stub encoder, as
embedding is not measured there, and a hundred thousand texts would take an hour.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from braid.settings import Settings

from bench.engines import DEPLOYED, EMBEDDED, PATIENCE, servers
from bench.writes_corpus import write_corpus, write_sample
from bench.writes_process import CHEAP, REAL
from bench.writes_report import Beside, Figures, Took, as_markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

BESIDE_EMBEDDING = {
    "braid ingest DIR": ("a", "folder"),
    "braid ingest FILE": ("b", "lines"),
    "an object, by the workflow's steps": ("c", "object"),
    "braid reembed, after a change of schema": ("a", "refresh"),
    "braid reembed --model-profile": ("a", "move"),
}
"""What embeds, by the store that it works on and its task; in an order in which they can be done."""
GROWING = {
    "braid ingest DIR": ("a", "folder"),
    "the same again": ("a", "folder"),
    "braid ingest FILE": ("b", "lines"),
    "the same file again": ("b", "lines"),
    "an object, by the workflow's steps": ("c", "object"),
    "braid repair --dry-run": ("a", "compare"),
    "braid reembed, after a change of schema": ("a", "refresh"),
    "braid reembed --model-profile": ("a", "move"),
    "braid delete tenant": ("b", "forget"),
}
ON_SERVERS = {
    "braid ingest FILE": ("a", "lines"),
    "the same file again": ("a", "lines"),
    "braid delete tenant": ("a", "forget"),
    "braid ingest DIR": ("a", "folder"),
    "the same again": ("a", "folder"),
    "braid repair --dry-run": ("a", "compare"),
    "braid reembed, after a change of schema": ("a", "refresh"),
    "braid reembed --model-profile": ("a", "move"),
}
"""The same in another order: there is one store only, which is emptied between."""


def beside_embedding(dataset: Path, count: int, say: Callable[[str], None]) -> tuple[int, dict[str, Beside]]:
    """Write the first texts of a dataset in every way, each between two times of embedding them alone."""
    found: dict[str, Beside] = {}
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as temporary:
        folder = Path(temporary)
        texts = write_sample(dataset, count, folder / "source")
        models = Settings(home=folder / "a")
        environment = {"BRAID_MODELS_DIR": str(models.models_path())}
        besides = _besides(folder, say)
        say("embedding alone")
        before = _run("alone", folder / "alone", folder / "source", REAL, environment)
        for name, (home, task) in BESIDE_EMBEDDING.items():
            if task == "object":
                _run("put", folder / home, folder / "source", CHEAP, environment)
            say(name)
            took = _run(task, folder / home, folder / "source", REAL, environment)
            after = _run("alone", folder / "alone", folder / "source", REAL, environment)
            alone_s, alone_processor_s = (
                (one + other) / 2 for one, other in zip(_times(before), _times(after), strict=True)
            )
            found[name] = Beside(took, alone_s, alone_processor_s, besides[name].processor_s)
            before = after
    return texts, found


def _besides(folder: Path, say: Callable[[str], None]) -> dict[str, Took]:
    found: dict[str, Took] = {}
    for name, (home, task) in BESIDE_EMBEDDING.items():
        say(f"{name}, without embedding")
        if task == "object":
            _run("put", folder / f"{home}-besides", folder / "source", CHEAP, {})
        found[name] = _run(task, folder / f"{home}-besides", folder / "source", CHEAP, {})
    return found


def _times(took: Took) -> tuple[float, float]:
    return took.s, took.processor_s


def growing(size: int, say: Callable[[str], None], *, deployed: bool) -> Iterator[tuple[str, Took]]:
    """Do everything with a corpus of one size, over the embedded engine or over servers that are started for it.

    Yields the name of each task and what it took, as soon as that is known.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="braid-bench-")))
        write_corpus(size, folder / "source")
        environment: Mapping[str, str] = {"BRAID_ENGINE": "embedded"}
        tasks = GROWING
        if deployed:
            say(f"{size:,} records: starting the servers")
            addresses, _, _ = stack.enter_context(servers(folder / "servers"))
            # Schema versions and jobs lie on the laptop, where no table is named.
            environment, tasks = {"BRAID_ENGINE": "aws", **PATIENCE, **addresses}, ON_SERVERS
        for name, (home, task) in tasks.items():
            say(f"{size:,} records, {DEPLOYED if deployed else EMBEDDED}: {name}")
            if task == "object":
                _run("put", folder / home, folder / "source", CHEAP, environment)
            yield name, _run(task, folder / home, folder / "source", CHEAP, environment)


def _run(task: str, home: Path, source: Path, encoder: str, environment: Mapping[str, str]) -> Took:
    done = subprocess.run(  # noqa: S603 - our own module, in our own interpreter
        [sys.executable, "-m", "bench.writes_process", task, str(home), str(source), encoder],
        env={**os.environ, "POWERTOOLS_LOG_LEVEL": "CRITICAL", **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    figures = json.loads(done.stdout.splitlines()[-1])
    return Took(**{name: value if name == "records" else round(value, 2) for name, value in figures.items()})


def read(folder: Path) -> Figures:
    """Return what was measured before, so that a run may add to it."""
    path = folder / "writes.json"
    if not path.exists():
        return Figures()
    held = json.loads(path.read_text(encoding="utf-8"))
    return Figures(
        dataset=held["dataset"],
        texts=held["texts"],
        beside={name: Beside(**{**one, "took": Took(**one["took"])}) for name, one in held["beside"].items()},
        growing={
            engine: {
                int(size): {name: Took(**took) for name, took in tasks.items()}
                for size, tasks in sorted(sizes.items(), key=lambda entry: int(entry[0]))
            }
            for engine, sizes in held["growing"].items()
        },
    )


def write(figures: Figures, folder: Path) -> None:
    """Write the figures for machines, and for people."""
    (folder / "writes.json").write_text(json.dumps(asdict(figures), indent=1) + "\n", encoding="utf-8")
    (folder / "writes.md").write_text(as_markdown(figures), encoding="utf-8")
