"""Measures engines at growing numbers of records: latency of the default question, memory, and cost of a write.

Corpora are those of :mod:`bench.synthetic`, written in slices that can be resumed: a million records take the better
part of an hour, 300,000 on OpenSearch and Gremlin Server an hour. These servers are started by it and keep running
between slices. Embedding is not measured, and caches are off. *CPU* is the processor time of the process; *after one
write* is the latency of the first question after writing a record, a vertex and an edge, *after one removal* that after
deleting them; *in part* counts questions that lost a stage in three attempts.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

from braid.app import Application
from braid.engines.embedded.sqlite_files import GRAPHS
from braid.errors import StoresUnavailable
from braid.models import Embedding, Query, Record, Relationship, Vertex
from braid.ports.search_index import SearchRequest
from braid.retrieval import pipeline
from braid.retrieval.stages.stage_messages import Embedded
from braid.settings import EngineKind, Settings

from bench.engine_process import resident_mb
from bench.engines import DEPLOYED, EMBEDDED, PATIENCE
from bench.fairness import counters
from bench.plot import Chart, as_svg
from bench.profile import Spent, figures_of, memory
from braid_cli.evaluation.metrics import percentile
from braid_cli.local_servers import gremlin_server
from braid_cli.local_servers.__main__ import STORES, VARIABLES, down, up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

HERE = Path(__file__).resolve().parent
SIZES = "1000,10000,100000"
SLICE_S = 540.0
AT_ONCE = 512
WARM, COUNTED, WRITES, K = 5, 40, 5, 50
ATTEMPTS = 3
_DONE = "growth.json"
"""In the store's folder: how many records, vertices and relationships are written, and to which servers."""


def fill(home: Path, size: int, until: float) -> bool:
    """Write a corpus until it is whole or the time is over, going on where that was the last time."""
    from bench.synthetic import TENANT, Synthetic

    file = home / _DONE
    done: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    stores = [os.environ.get(VARIABLES[name], "") for name in STORES]
    if done.get("stores") != stores:  # servers that were started anew are empty
        done = {"stores": stores, **dict.fromkeys(("records", "vertices", "relationships"), 0), "seconds": {}}
    # An earlier measurement wrote to it, which questions would follow beside the saved graph.
    shutil.rmtree(home / GRAPHS, ignore_errors=True)
    corpus = Synthetic(size)
    with closing(Application(Settings(home=home))) as application:
        if not done.get("whole") and not _write(corpus, application, done, file, until):
            return False
        application.graph.prepare_walks(TENANT)
        if application.settings.engine is EngineKind.EMBEDDED:
            _ask(application, _task_of(corpus, home, 1)["questions"][0])  # builds the graph of vectors, and saves it
    file.write_text(json.dumps({**done, "whole": True}))
    return True


def _write(corpus: Any, application: Application, done: dict[str, Any], file: Path, until: float) -> bool:  # noqa: ANN401 - Synthetic, which needs NumPy
    """Write what is not yet done of a corpus; False if the time is over before."""
    parts: dict[str, tuple[Iterable[Any], Callable[[list[Any]], None], int]] = {
        "records": (corpus.records(), application.index.upsert, AT_ONCE),
        "vertices": (corpus.vertices(), lambda some: application.graph.upsert(some, []), AT_ONCE * 4),
        "relationships": (corpus.relationships(), lambda some: application.graph.upsert([], some), AT_ONCE * 32),
    }
    for part, (items, write, at_once) in parts.items():
        rest = islice(items, done[part], None)
        while batch := list(islice(rest, at_once)):
            began = time.monotonic()
            if began > until:
                return False
            write(batch)
            done[part] += len(batch)
            done["seconds"][part] = done["seconds"].get(part, 0.0) + time.monotonic() - began
            file.write_text(json.dumps(done))
    return True


def _task_of(corpus: Any, home: Path, count: int) -> dict[str, Any]:  # noqa: ANN401 - Synthetic, which needs NumPy
    ask = corpus.ask(count)
    questions = [
        {
            "text": f"What links {corpus.name(int(named[0][1:]))} and {corpus.name(int(named[-1][1:]))} with {text}?",
            "vector": base64.b64encode(vector.tobytes()).decode(),
            "nearest": corpus.exact(vector, K),
        }
        for named, text, vector in zip(ask.named, ask.texts, ask.vectors, strict=True)
    ]
    return {"home": str(home), "questions": questions, "counts": _counts(corpus)}


def _counts(corpus: Any) -> Counter[str]:  # noqa: ANN401 - Synthetic, which needs NumPy
    """Return the counts that a deployment keeps of the tenant's graph.

    The local graph server had not counted 100,000 vertices after a quarter of an hour.
    """
    from bench.synthetic import TENANT

    vertices = [vertex for vertex in corpus.vertices() if vertex.tenant_id == TENANT]
    edges = [edge for edge in corpus.relationships() if edge.tenant_id == TENANT]
    counts = Counter({"records": sum(vertex.has_record for vertex in vertices)})
    counts.update(f"vertices/{vertex.entity_type}" for vertex in vertices)
    counts.update(f"edges/{edge.type}" for edge in edges)
    counts.update(f"sources/{kind}" for _, kind in {(edge.source, edge.type) for edge in edges})
    counts.update(f"targets/{kind}" for _, kind in {(edge.target, edge.type) for edge in edges})
    return counts


class _Took(NamedTuple):
    """What an answer took, and whether a store did not answer in time: a figure of it is of half a question."""

    cpu_ms: float
    ms: float
    in_part: bool


def _ask(application: Application, question: dict[str, Any], attempts: int = ATTEMPTS) -> _Took:
    """Answer a question whose vector is given, again where only a part was answered.

    Or nothing: of a million records that are read from the disk for the first time, no strand may answer in time.
    """
    from bench.synthetic import MODEL, SPACE, TENANT

    embedding = Embedding(space=SPACE, model_id=MODEL, vector=base64.b64decode(question["vector"]))
    with patch.object(application, "embed", lambda _: Embedded(embedding=embedding, took_ms=0.0)):
        cpu, wall = time.process_time(), time.perf_counter()
        try:
            in_part = bool(pipeline.answer(Query(text=question["text"], tenant_id=TENANT), application).degraded)
        except StoresUnavailable:
            in_part = True
        took = (time.process_time() - cpu) * 1_000, (time.perf_counter() - wall) * 1_000
    if in_part and attempts > 1:
        return _ask(application, question, attempts - 1)
    return _Took(*took, in_part=in_part)


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of one size, in a process that does nothing else."""
    from bench.synthetic import MODEL, NOW, SPACE, TENANT

    home, questions = Path(task["home"]), task["questions"]
    with closing(Application(Settings(home=home).uncached())) as application:
        if counts := application.graph_counts:
            counts.replace(TENANT, task["counts"])  # as its writes would have
        _ask(application, questions[0])
        first_s = time.process_time()
        took = [_ask(application, question) for question in questions]
        recall = []
        for question in questions:
            embedding = Embedding(space=SPACE, model_id=MODEL, vector=base64.b64decode(question["vector"]))
            found = application.index.search(SearchRequest(tenant_id=TENANT, k=K, embedding=embedding, as_of=NOW))
            recall.append(len({hit.id for hit in found.vector} & set(question["nearest"])) / K)
        held = memory()
        steps = _steps(application, questions)
        after, after_removal = [], []
        for number in range(WRITES):
            identity, vector = f"new{number}", base64.b64decode(questions[number]["vector"])
            embedding = Embedding(space=SPACE, model_id=MODEL, vector=vector)
            record = {"id": identity, "tenant_id": TENANT, "kind": "chunk", "content": f"new {number}"}
            application.index.upsert([Record.model_validate(record | {"embeddings": (embedding,)})])
            edge = Relationship(tenant_id=TENANT, source=identity, type="CAUSES", target=f"r{number + 9:07d}")
            application.graph.upsert([Vertex(id=identity, tenant_id=TENANT, name=f"New {number}")], [edge])
            after.append(_ask(application, questions[number]))
        for number in range(WRITES):
            application.index.delete(TENANT, [f"new{number}"])
            application.graph.delete(TENANT, [f"new{number}"])
            after_removal.append(_ask(application, questions[number]))

    def p50(values: Iterable[float]) -> float:
        return round(percentile(sorted(values), 50), 2)

    return {
        "question_cpu_ms": p50(each.cpu_ms for each in took[WARM:]),
        "question_ms": p50(each.ms for each in took[WARM:]),
        "in_part_percent": 100 * sum(each.in_part for each in took) / len(took),
        "recall": round(sum(recall) / len(recall), 4),
        "after_write_cpu_ms": p50(each.cpu_ms for each in after),
        "after_write_ms": p50(each.ms for each in after),
        "after_removal_ms": p50(each.ms for each in after_removal),
        "first_answer_cpu_s": round(first_s, 2),
        "memory_mb": held["resident_mb"],
        "own_memory_mb": held["own_mb"],
        "load": round(os.getloadavg()[0], 1),
        "steps": steps,
    }


def _steps(application: Application, questions: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the processor time of each step of a question in ms, of the embedded engine."""
    if application.settings.engine is EngineKind.AWS:
        return {}
    spent, asked = Spent(), []
    with ExitStack() as stack:
        ask = spent.timed_steps(lambda question: _ask(application, question, 1), application, stack)
        for question in questions[WARM:]:
            ask(question)
            asked.append(spent.take())
    return {name: one["cpu_ms"] for name, one in figures_of(asked).items()}


def _child(environment: dict[str, str], *arguments: str, given: str = "") -> str:
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-m", "bench.growth", *arguments],
        env=os.environ | environment,
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


_ROWS = {
    "question_cpu_ms": "default question beyond the encoder, CPU ms",
    "question_ms": "the same, ms",
    "in_part_percent": "answered in part, %",
    "after_write_cpu_ms": "the first one after one write, CPU ms",
    "after_write_ms": "the same, ms",
    "after_removal_ms": "the first one after one removal, ms",
    "first_answer_cpu_s": "new process to its first answer, CPU s",
    "memory_mb": "memory, MiB",
    "own_memory_mb": "of it no file's, MiB",
    "opensearch_mb": "memory of OpenSearch, MiB",
    "gremlin_mb": "memory of Gremlin Server, MiB",
    "recall": "recall of the index of vectors at 50",
    **{f"{part}_per_s": f"{part} written a second" for part in ("records", "vertices", "relationships")},
    "load": "load of the machine",
}


def as_markdown(figures: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Return one table an engine, a column a size; what was not measured of it is left out."""
    lines = ["# Growth", "", (__doc__ or "").strip(), "", "![the figures by the number of records](growth.svg)", ""]
    for engine, by_size in figures.items():
        sizes = sorted(by_size, key=int)
        lines += [f"## {engine.capitalize()}", "", f"| records | {' | '.join(f'{int(size):,}' for size in sizes)} |"]
        lines += ["|---|" + "---:|" * len(sizes)]
        for row, title in _ROWS.items():
            cells = [f"{by_size[size][row]:g}" if row in by_size[size] else "–" for size in sizes]
            if set(cells) != {"–"}:
                lines.append(f"| {title} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


_DRAWN = {
    "question_ms": "question beyond encoder, ms",
    "question_cpu_ms": "the same, CPU ms",
    "after_write_ms": "first after a write, ms",
    "memory_mb": "memory, MiB",
    "own_memory_mb": "of it no file's, MiB",
    "records_per_s": "records written a second",
}
"""Titles of what is drawn."""


def charts(figures: dict[str, dict[str, dict[str, Any]]]) -> list[Chart]:
    """Return a chart of each figure that is drawn, a line an engine."""
    found = []
    for row, title in _DRAWN.items():
        lines = {
            engine: [(int(size), each[row]) for size, each in by_size.items() if each.get(row)]
            for engine, by_size in figures.items()
        }
        found.append(Chart(title, {engine: line for engine, line in lines.items() if line}, {}))
    return found


def write(figures: dict[str, dict[str, dict[str, Any]]], folder: Path) -> None:
    """Write the figures for machines and for people, and draw them."""
    (folder / "growth.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    (folder / "growth.md").write_text(as_markdown(figures), encoding="utf-8")
    note = "Against the number of records. Both axes are logarithmic."
    (folder / "growth.svg").write_text(as_svg("Growth", note, charts(figures)), encoding="utf-8")


def _stores(engine: str, folder: Path, size: int) -> tuple[dict[str, str], dict[str, int]]:
    """Return the settings that name an engine's stores, and the process ids of its servers, which run on."""
    if engine == EMBEDDED:
        return {"BRAID_ENGINE": "embedded"}, {}
    os.environ[gremlin_server.HEAP_VARIABLE] = f"{max(4, 3 * size // 100_000)}g"
    os.environ[gremlin_server.INDEX_VARIABLE] = "1"
    running = up(folder / "servers", STORES)
    addresses = {VARIABLES[name]: running[name].endpoint for name in STORES}
    return {"BRAID_ENGINE": "aws", **PATIENCE, **addresses}, {name: running[name].pid for name in STORES}


def command(arguments: Sequence[str]) -> None:
    """Run ``python -m bench growth``: what is measured replaces what stands of the same engine and size."""
    parser = argparse.ArgumentParser(prog="python -m bench growth", description=__doc__)
    parser.add_argument("--sizes", default=SIZES, help="numbers of records, with commas between (%(default)s)")
    parser.add_argument("--engine", choices=[EMBEDDED, DEPLOYED], default=EMBEDDED, help="(%(default)s)")
    parser.add_argument("--stores", type=Path, required=True, help="folder of the stores, which stay, one a size")
    parser.add_argument("--slice", type=float, default=SLICE_S, help="seconds after which writing stops (%(default)s)")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for growth.json and growth.md")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    kept = options.out / "growth.json"
    until = time.monotonic() + options.slice
    for size in options.sizes.split(","):
        home = options.stores / (size if options.engine == EMBEDDED else f"{size}-{options.engine}")
        home.mkdir(parents=True, exist_ok=True)
        named, servers = _stores(options.engine, home, int(size))
        if _child(named, "fill", str(home), size, str(until - time.monotonic())) != "whole":
            running = f"; until then {' and '.join(servers)} run on" if servers else ""
            raise SystemExit(f"{size} records: the slice is over, the same command goes on{running}")
        kept_counts: AbstractContextManager[dict[str, str]] = counters() if servers else nullcontext({})
        with kept_counts as tables:
            found = json.loads(_child(named | tables, "measure", given=_child(named, "task", str(home), size)))
        found |= {f"{name}_mb": resident_mb(pid) for name, pid in servers.items()}
        done = json.loads((home / _DONE).read_text(encoding="utf-8"))
        found |= {f"{part}_per_s": round(done[part] / took) for part, took in done["seconds"].items() if took}
        down(home / "servers", list(servers))
        figures = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
        figures.setdefault(options.engine, {})[size] = found
        write(figures, options.out)
    sys.stdout.write((options.out / "growth.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["fill", folder, size, seconds]:
            sys.stdout.write("whole" if fill(Path(folder), int(size), time.monotonic() + float(seconds)) else "")
        case ["task", folder, size]:
            from bench.synthetic import Synthetic

            sys.stdout.write(json.dumps(_task_of(Synthetic(int(size)), Path(folder), WARM + COUNTED)))
        case _:
            sys.stdout.write(json.dumps(measure(json.load(sys.stdin))))
