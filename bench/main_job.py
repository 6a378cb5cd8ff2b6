"""Measures Braid's overhead over its encoder: ingest, one question, and memory, each relative to embedding alone."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from braid.app import Application
from braid.retrieval import pipeline
from braid.settings import Settings

from braid_cli.datasets.dataset import read_dataset
from braid_cli.datasets.ingest import ingest
from braid_cli.evaluation.metrics import percentile
from braid_cli.state_machine.interpreter import Workflow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from braid_cli.datasets.dataset import Dataset, JudgedQuery

TENANT = "bench"
QUESTIONS = 50
WORKFLOW_QUESTIONS = 20


@dataclass(frozen=True)
class Figures:
    """One run on one dataset; seconds and milliseconds are sizes, the ratios are what counts."""

    dataset: str
    records: int
    questions: int
    embed_alone_s: float
    ingest_s: float
    ingest_over_embedding: float
    question_embed_p50_ms: float
    question_in_process_p50_ms: float
    question_in_process_p95_ms: float
    question_state_machine_p50_ms: float
    question_state_machine_p95_ms: float
    question_in_process_over_embedding: float
    memory_encoder_mb: float
    memory_search_mb: float
    memory_state_machine_mb: float
    memory_search_over_encoder: float


def measure(folders: Sequence[Path]) -> list[Figures]:
    """Measure dataset folders, each in a home of its own."""
    return [_measured(folder) for folder in folders]


def _measured(folder: Path) -> Figures:
    """Ingest a folder with questions, and ask the first of them."""
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        application = Application(Settings(home=home).uncached())
        dataset = read_dataset(folder, TENANT, judged=True)
        embed_s, ingest_s = _ingest_beside_embedding(dataset, application)
        judged = dataset.judged[:QUESTIONS]
        embedding = _embedding_times(judged, application)
        in_process = _times(judged, lambda question: pipeline.answer(question.query, application))
        application.store.close()
        with _workflow_home(home), Workflow() as workflow:
            through_states = _times(judged[:WORKFLOW_QUESTIONS], lambda question: workflow.answer(question.query))
        text = judged[0].query.text
        encoder_mb = _peak_mb(home, ENCODE, text)
        search_mb = _peak_mb(home, SEARCH, text)
        states_mb = _peak_mb(home, SEARCH, text, "--state-machine")
    embed_p50 = percentile(embedding, 50)
    in_process_p50 = percentile(in_process, 50)
    return Figures(
        dataset=dataset.name,
        records=len(dataset.records),
        questions=len(judged),
        embed_alone_s=round(embed_s, 1),
        ingest_s=round(ingest_s, 1),
        ingest_over_embedding=round(ingest_s / embed_s, 3),
        question_embed_p50_ms=embed_p50,
        question_in_process_p50_ms=in_process_p50,
        question_in_process_p95_ms=percentile(in_process, 95),
        question_state_machine_p50_ms=percentile(through_states, 50),
        question_state_machine_p95_ms=percentile(through_states, 95),
        question_in_process_over_embedding=round(in_process_p50 / embed_p50, 2),
        memory_encoder_mb=encoder_mb,
        memory_search_mb=search_mb,
        memory_state_machine_mb=states_mb,
        memory_search_over_encoder=round(search_mb / encoder_mb, 2),
    )


def _ingest_beside_embedding(dataset: Dataset, application: Application) -> tuple[float, float]:
    """Ingest all records between two times of embedding their texts alone, so that a busy machine slows both alike."""
    threads = os.cpu_count()
    (model,) = application.models()
    encoder = application.encoder_for(model, threads=threads)
    texts = sorted((record.text() for record in dataset.records), key=len)
    before = _seconds(lambda: encoder.encode(texts))
    ingest_s = _seconds(lambda: ingest(dataset, application, threads=threads))
    after = _seconds(lambda: encoder.encode(texts))
    return (before + after) / 2, ingest_s


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _embedding_times(judged: tuple[JudgedQuery, ...], application: Application) -> list[float]:
    (model,) = application.models()
    encoder = application.encoder_for(model)
    return _times(judged, lambda question: encoder.encode([question.query.text]))


def _times(judged: tuple[JudgedQuery, ...], ask: Callable[[JudgedQuery], object]) -> list[float]:
    """Return sorted milliseconds, one a question, after one that is not counted."""
    ask(judged[0])
    times = []
    for question in judged:
        began = time.perf_counter()
        ask(question)
        times.append((time.perf_counter() - began) * 1000.0)
    return sorted(times)


class _workflow_home:  # noqa: N801 - used as a function
    """Point the functions, which read the environment, at a home."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def __enter__(self) -> None:
        os.environ["BRAID_HOME"] = str(self._home)

    def __exit__(self, *_: object) -> None:
        del os.environ["BRAID_HOME"]


# Not getrusage: its maximum is inherited from the process that started this one.
PEAK = "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
ENCODE = f"""
import sys
from braid.models import EmbeddingType
from braid.app import application
application().encoder_for(application().model_for(EmbeddingType.GENERAL)).encode([sys.argv[1]])
{PEAK}
"""
SEARCH = f"""
import contextlib, io, sys
from braid_cli import main
text, *flags = sys.argv[1:]
with contextlib.redirect_stdout(io.StringIO()):
    main.command_line(["search"])(["search", text, "--tenant", "{TENANT}", "--json", *flags], standalone_mode=False)
{PEAK}
"""


def _peak_mb(home: Path, script: str, *arguments: str) -> float:
    """Return the peak resident memory, in MiB, of a process of its own."""
    environment = {**os.environ, "BRAID_HOME": str(home), "POWERTOOLS_LOG_LEVEL": "CRITICAL"}
    done = subprocess.run(  # noqa: S603 - our own script, in our own interpreter
        [sys.executable, "-c", script, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    return round(int(done.stdout.split()[-1]) / 1024, 1)


def as_markdown(runs: list[Figures]) -> str:
    """Return the figures as a table, one column a dataset."""
    names = list(asdict(runs[0]))[1:]
    lines = [
        "| | " + " | ".join(run.dataset for run in runs) + " |",
        "|---|" + "---:|" * len(runs),
    ]
    for name in names:
        values = " | ".join(f"{asdict(run)[name]:,}" for run in runs)
        lines.append(f"| {name.replace('_', ' ')} | {values} |")
    return "\n".join(lines) + "\n"
