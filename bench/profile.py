"""Profiles a question: time of each stage and named step in a warm process, without caches, and memory.

The figures are medians over questions of the minimum of several passes, as only other load makes a pass slower. *CPU*
is the processor time of the thread that ran a step; for the whole question, that of the process. Steps are nested in
stages and in each other, so they do not add up. Start-up times are the minimum of several runs, with bytecode cached.
The demo is that of a person who looks at it again: the minimum of several runs after a first one.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

from braid.app import Application
from braid.models import Hints, Query, RerankerKind, Strategy
from braid.retrieval import pipeline
from braid.settings import Settings

from braid_cli.datasets.ingest import ingest
from braid_cli.evaluation.metrics import percentile
from braid_cli.evaluation.run import isolated_engines, read_judged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

HERE = Path(__file__).resolve().parent
PASSES = 3
RUNS = 5
"""Of each process, after one that writes the bytecode."""
DEMO_RUNS = 4
"""Of the demo, after a first one."""
WAYS: dict[str, dict[str, Any]] = {
    "default": {},
    "plain hybrid": {"hints": Hints(strategy=Strategy.SEMANTIC), "reranker": RerankerKind.NONE},
}
"""Ways of answering, with the fields of the question that choose each."""
QUESTION, EMBED, BEYOND = "question", "embed", "beyond the encoder"
STAGES = ("plan", EMBED, "vector_search", "graph_expand", "fuse_rerank")
_EMBEDDED, _STAGES = "braid.engines.embedded", "braid.retrieval.stages"
STEPS = {
    "tokenise": "tokenizers:Tokenizer.encode_batch",
    "run the encoder": "onnxruntime:InferenceSession.run",
    "search": f"{_EMBEDDED}.search.index:EmbeddedSearchIndex.search",
    "words": f"{_EMBEDDED}.search.bm25:search",
    "vectors": f"{_EMBEDDED}.search.knn:search",
    "compare vectors": f"{_EMBEDDED}.search.hnsw_graph:HnswGraph.nearest",
    "link names": f"{_STAGES}.graph_expand:linked_names",
    "look names up": f"{_EMBEDDED}.graph.knowledge_graph:EmbeddedKnowledgeGraph.link",
    "facts": f"{_STAGES}.graph_expand:find_facts",
    "walk": f"{_EMBEDDED}.graph.knowledge_graph:EmbeddedKnowledgeGraph.expand",
    "propagate": f"{_EMBEDDED}.graph.knowledge_graph:EmbeddedKnowledgeGraph.propagate",
    "PageRank, order, paths": "braid.ranking.pagerank_and_paths:personalised_pagerank",
    "fuse": f"{_STAGES}.fuse_rerank:fuse",
    "read candidates": f"{_STAGES}.fuse_rerank:hydrate",
    "read records": f"{_EMBEDDED}.search.index:EmbeddedSearchIndex.get_many",
    "coherence": f"{_STAGES}.fuse_rerank:cohere",
    "results, excerpts": f"{_STAGES}.fuse_rerank:make_results",
    "confidence": f"{_STAGES}.fuse_rerank:confidence",
}
"""By step: the module and the name in it of the function that is timed."""


@dataclass
class Spent:
    """Milliseconds of one question by step."""

    wall: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    cpu: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    calls: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def timed(
        self, name: str, call: Callable[..., Any], clock: Callable[[], float] = time.thread_time
    ) -> Callable[..., Any]:
        """Return a function that adds to this what a call takes."""

        @wraps(call)
        def run(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as the function
            began, began_cpu = time.perf_counter(), clock()
            try:
                return call(*arguments, **named)
            finally:
                self.cpu[name] += (clock() - began_cpu) * 1_000
                self.wall[name] += (time.perf_counter() - began) * 1_000
                self.calls[name] += 1

        return run

    def timed_steps(self, answer: Callable[..., Any], application: Application, stack: ExitStack) -> Callable[..., Any]:
        """Return a function that answers a question, in which each stage and step is timed until the stack is left."""
        for stage in STAGES:
            stack.enter_context(patch.object(application, stage, self.timed(stage, getattr(application, stage))))
        for step, where in STEPS.items():
            owner, name = resolve(where)
            stack.enter_context(patch.object(owner, name, self.timed(step, getattr(owner, name))))
        return self.timed(QUESTION, answer, time.process_time)

    def take(self) -> Spent:
        """Return what was added since the last time, with the time beyond the encoder."""
        taken = Spent(dict(self.wall), dict(self.cpu), dict(self.calls))
        for kept in (taken.wall, taken.cpu):
            kept[BEYOND] = kept.get(QUESTION, 0.0) - kept.get(EMBED, 0.0)
        for own in (self.wall, self.cpu, self.calls):
            own.clear()
        return taken


def measure(folder: Path, way: str, passes: int = PASSES) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ask a dataset's judged questions in a process of its own, and return the task of that and its figures.

    The dataset is ingested before where it is not yet.
    """
    application = Application(Settings())
    dataset = read_judged(folder, application)
    with closing(isolated_engines(dataset, application)) as own:
        ingest(dataset, own)
        task = {
            "home": str(own.settings.home),
            "models": str(own.settings.models_path()),
            "tenant": dataset.tenant_id,
            "texts": [judged.query.text for judged in dataset.judged],
            "way": way,
            "passes": passes,
        }
    done = subprocess.run(
        [sys.executable, "-m", "bench.profile"], input=json.dumps(task), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return task, {"dataset": dataset.name, "records": len(dataset.records), **json.loads(done.stdout)}


def profile(task: dict[str, Any]) -> dict[str, Any]:
    """Answer questions and return the figures of each step, in the order of :data:`STEPS`, and the memory in MiB."""
    settings = Settings(home=Path(task["home"]), models_dir=Path(task["models"])).uncached()
    queries = [Query(text=text, tenant_id=task["tenant"], **WAYS[task["way"]]) for text in task["texts"]]
    least: dict[int, Spent] = {}
    with closing(Application(settings)) as application, ExitStack() as stack:
        pipeline.answer(queries[0], application)
        spent = Spent()
        ask = spent.timed_steps(lambda query: pipeline.answer(query, application), application, stack)
        for _ in range(task["passes"]):
            for number, query in enumerate(queries):
                ask(query)
                taken = spent.take()
                known = least.setdefault(number, taken)
                for ours, theirs in ((known.wall, taken.wall), (known.cpu, taken.cpu)):
                    ours |= {name: min(theirs[name], ours.get(name, theirs[name])) for name in theirs}
    return {"way": task["way"], "questions": len(queries), "steps": figures_of(list(least.values())), **memory()}


def resolve(where: str) -> tuple[Any, str]:
    """Return the module or class that has a function of :data:`STEPS`, and its name there."""
    module, _, names = where.partition(":")
    owner: Any = importlib.import_module(module)
    *classes, name = names.split(".")
    for each in classes:
        owner = getattr(owner, each)
    getattr(owner, name)
    return owner, name


def figures_of(asked: Sequence[Spent]) -> dict[str, dict[str, float]]:
    """Return each step's medians over questions, in the order of :data:`STEPS`."""

    def p50(values: Iterator[float]) -> float:
        return round(percentile(sorted(values), 50), 2)

    return {
        name: {
            "cpu_ms": p50(one.cpu.get(name, 0.0) for one in asked),
            "wall_ms": p50(one.wall.get(name, 0.0) for one in asked),
            "calls": p50(one.calls.get(name, 0) for one in asked),
        }
        for name in (QUESTION, BEYOND, *STAGES, *STEPS)
        if any(name in one.wall for one in asked)
    }


def memory() -> dict[str, float]:
    """Return the memory of this process in MiB: resident, of it what is of no file, and the most there was."""
    found = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines())
    return {
        name: round(int(found[key].split()[0]) / 1_024, 1)
        for name, key in (("resident_mb", "VmRSS"), ("own_mb", "RssAnon"), ("peak_mb", "VmHWM"))
    }


DEMO = "make demo"
_CLI = "from braid_cli.main import main; main()"
_READY = "; import os; os._exit(0)"
"""Not the taking down of the process, which a library that is used comes to much later."""
PROCESSES: dict[str, tuple[str, ...]] = {
    "import braid": (f"import braid; braid.Braid{_READY}",),
    "a ready library": (f"import braid; braid.Braid(){_READY}",),
    "braid --help": (_CLI, "--help"),
    "braid search": (_CLI, "search"),
    "the machine: five million multiplications": ("sum(number * number for number in range(5_000_000))",),
}
"""What a new Python process runs, with its arguments; a search is given its question and tenant.

The last one tells a slow machine from slow code in figures of other days.
"""


def time_processes(home: Path, models: Path, question: str, tenant: str) -> dict[str, dict[str, float]]:
    """Return the seconds that each of :data:`PROCESSES` takes, over a store that questions were asked of."""
    timed: dict[str, dict[str, float]] = {}
    with _bytecode_cached() as kept:
        own = kept | {"BRAID_HOME": str(home), "BRAID_MODELS": str(models)}
        for name, arguments in PROCESSES.items():
            asked = (question, "--tenant", tenant) if name == "braid search" else ()
            runs = [_seconds((sys.executable, "-c", *arguments, *asked), own) for _ in range(RUNS + 1)][1:]
            cpu, wall = (round(min(each), 3) for each in zip(*runs, strict=True))
            timed[name] = {"cpu_s": cpu, "wall_s": wall}
    return timed


@contextmanager
def _bytecode_cached() -> Iterator[dict[str, str]]:
    """Yield an environment in which processes find the bytecode that others have written."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as bytecode:
        yield kept | {"PYTHONPYCACHEPREFIX": bytecode}


def time_demo() -> dict[str, float]:
    """Return the least seconds that ``make demo`` takes again, over a store of its own."""
    with tempfile.TemporaryDirectory() as home, _bytecode_cached() as kept:
        runs = [_seconds(("make", "demo"), kept | {"BRAID_HOME": home}) for _ in range(DEMO_RUNS + 1)][1:]
    cpu, wall = (round(min(each), 1) for each in zip(*runs, strict=True))
    return {"cpu_s": cpu, "wall_s": wall}


def _seconds(command: Sequence[str], environment: dict[str, str]) -> tuple[float, float]:
    """Return the seconds of the processor and of the clock that a command takes, run in the clone."""
    began = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, cwd=HERE.parent)  # noqa: S603 - our own
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit status {process.returncode}")
    return used.ru_utime + used.ru_stime, time.perf_counter() - began


class Aim(NamedTuple):
    """A figure that should be no greater than a bound."""

    what: str
    most: float
    where: tuple[str, ...]
    """Its place in the figures: dataset, way and step or memory; a process; or, in another measurement's, as below."""
    why_not: str = ""
    """The reason where it is missed. That of a question's time is preceded by the shares of its steps in that run."""
    bench: str = ""
    """Whose JSON file has it; empty: this one's."""
    least: bool = False
    """Whether it should be no less than the bound instead."""


SPREAD = "two thirds are CPython: [0643](../docs/decisions/0643-the-interpreter-takes-most-of-a-question.md)"
LARGE = "half to a third is CPython: [0643](../docs/decisions/0643-the-interpreter-takes-most-of-a-question.md)"
SHARES = {
    "plan": "plan",
    "vectors": "vectors",
    "words": "words",
    "names": "link names",
    "facts": "facts",
    "walks": "walk",
    "propagation": "propagate",
    "fusion": "fuse",
    "candidates read": "read candidates",
    "coherence": "coherence",
    "results and excerpts": "results, excerpts",
    "confidence": "confidence",
}
"""Steps that are not nested in one another, by the name under which a reason gives their share."""
LEAST_SHARE = 2
"""Percent of a question below which a step is not named."""
STARTS = "pydantic makes the models' classes and checks (.1 s), opentelemetry's API and regular expressions (.06)"
FOUND = "names and mentions found in the texts are kept beside the given graph: with that alone 255"
BOTH = (
    "beside the model are 21 % of its processor time, of it rows of the index and the graph a third, names a fifth"
    " ([0495](../docs/decisions/0495-what-an-ingest-costs-beside-the-model.md)), and some pages are"
    " written after the last vector ([0520](../docs/decisions/0520-batches-beside-one-another.md))"
)
MAPPED = "files of vectors and graph are mapped: their pages count while nobody else needs memory ([own](growth.md))"
DEMO_SLOW = (
    "on a machine that takes .23 s for the multiplications below, the other rows' .17; 11.4 s were seen there once"
)
AIMS = (
    Aim("plain hybrid, 2wiki-dev, beyond the encoder, ms", 2.0, ("2wiki-dev", "plain hybrid", BEYOND), SPREAD),
    Aim("default, 2wiki-dev, beyond the encoder, ms", 7.0, ("2wiki-dev", "default", BEYOND), SPREAD),
    Aim("default, musique-100, beyond the encoder, ms", 7.0, ("musique-100", "default", BEYOND), SPREAD),
    Aim(
        "default, 100,000 records, beyond the encoder, ms",
        12.0,
        ("100000", "question_ms"),
        LARGE,
        "growth",
    ),
    Aim("the same, 1,000,000 records", 30.0, ("1000000", "question_ms"), LARGE, "growth"),
    Aim("recall of the index at 1,000,000 records", 0.99, ("1000000", "recall"), "", "growth", least=True),
    Aim("memory of a searching process, 6,000 records, MiB", 260, ("2wiki-dev", "default", "resident_mb"), FOUND),
    Aim("the same, 100,000 records, MiB", 350, ("100000", "memory_mb"), "ids, names and arrays of the graph", "growth"),
    Aim("the same, 1,000,000 records, MiB", 900, ("1000000", "memory_mb"), MAPPED, "growth"),
    Aim("imports, CPU s", 0.25, ("import braid", "cpu_s"), STARTS),
    Aim("a ready library, CPU s", 0.25, ("a ready library", "cpu_s"), STARTS),
    Aim("braid --help, CPU s", 0.3, ("braid --help", "cpu_s")),
    Aim(
        "braid search, CPU s",
        0.8,
        ("braid search", "cpu_s"),
        "NumPy and ONNX Runtime .14 s, the model's session .09 and its SHA-256 .06, the tokenizer .04, models' classes",
    ),
    Aim(f"`{DEMO}` again, s", 12, (DEMO, "wall_s"), DEMO_SLOW),
    Aim(
        "answers a second, `braid serve`, 8 users",
        150,
        ("embedded", "8", "answered_per_s"),
        "one of the mix computes some 13 ms, and two cores have 2,000 ms a second, of which locust takes its part",
        "load",
        least=True,
    ),
    Aim(
        "state machine beyond the stages, ms",
        100,
        ("question_state_machine_p50_ms", "question_in_process_p50_ms"),
        "the interpreter and its server are moto's: a request to each of five stages and JSONPath in Python",
        "main_job",
    ),
    Aim(
        "ingest with a given graph and names found, over embedding alone",
        1.15,
        ("ingest_over_embedding",),
        BOTH,
        "main_job",
    ),
)


def as_markdown(figures: dict[str, Any]) -> str:
    """Return the aims with what was measured, and one table a dataset and way of answering."""
    head = ["# Aims of speed, and where a question's time goes", "", (__doc__ or "").strip(), ""]
    head += ["| | measured | aim | why not |", "|---|---:|---:|---|"]
    for aim in AIMS:
        taken = figures if not aim.bench else _others(aim.bench)
        found = _found(taken, aim)
        met = found is not None and (found >= aim.most if aim.least else found <= aim.most)
        bound = f"{'≥' if aim.least else '≤'} {aim.most:g}"
        source = f" ([{aim.bench}]({aim.bench}.md))" if aim.bench else ""
        shown = "–" if found is None else f"{found:.2f}"
        why_not = "" if met or found is None else _why_not(taken, aim)
        head.append(f"| {aim.what}{source} | {shown} | {bound} | {why_not} |")
    head += [
        "",
        "Rows with a link are of that measurement's last run. Other libraries: [peers](peers.md).",
        *_machine(figures),
        "",
        "| process | CPU s | wall s |",
        "|---|---:|---:|",
        *(f"| {name} | {one['cpu_s']:.2f} | {one['wall_s']:.2f} |" for name, one in figures["processes"].items()),
        "",
    ]
    return "\n".join([*head, *(line for run in figures["runs"] for line in (*_table(run), ""))])


ENCODER_MS = 7
"""What a question of 2wiki-dev took the encoder on the machine for which the aims were set."""


def _machine(figures: dict[str, Any]) -> list[str]:
    """Return a sentence by which the aims, set on another machine, compare with the figures."""
    found = [run["steps"].get(EMBED) for run in figures["runs"] if run["dataset"] == "2wiki-dev"]
    least = min((step["wall_ms"] for step in found if step), default=None)
    if least is None:
        return []
    return [f"The aims were set where a question took the encoder {ENCODER_MS} ms; here it took {least:.1f}."]


def _others(bench: str) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return the figures of another measurement; none where it was not taken."""
    file = HERE / f"{bench}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def _found(figures: Any, aim: Aim) -> float | None:  # noqa: ANN401 - as above
    match aim.bench, aim.where:
        case "", (process, seconds):
            timed = figures["processes"].get(process)
            return float(timed[seconds]) if timed else None
        case "", (dataset, way, what):
            run = next((run for run in figures["runs"] if (run["dataset"], run["way"]) == (dataset, way)), None)
            return None if run is None else float(run[what] if what in run else run["steps"][what]["wall_ms"])
        case "growth", (size, what):
            grown = figures.get("embedded", {}).get(size, {})
            return float(grown[what]) if what in grown else None
        case "load", (engine, users, what):
            steps = [step for run in figures.get("runs", ()) if run["engine"] == engine for step in run["steps"]]
            return max((float(step[what]) for step in steps if str(step["users"]) == users), default=None)
        case _, (what, *less):
            return float(figures[0][what] - sum(figures[0][each] for each in less)) if figures else None
    return None


def _why_not(figures: Any, aim: Aim) -> str:  # noqa: ANN401 - as above
    """Return the reason of a missed aim; where it is a question's time, with the shares of its steps.

    Those of growth are of the same questions asked again: the first time, what they read may not be in memory.
    """
    again = ""
    match aim.where:
        case (dataset, way, step) if step == BEYOND:
            run = next(run for run in figures["runs"] if (run["dataset"], run["way"]) == (dataset, way))
            steps = {name: one["cpu_ms"] for name, one in run["steps"].items()}
        case (size, "question_ms"):
            steps = figures["embedded"][size].get("steps", {})
            again = f"{steps[BEYOND]:.0f} ms of the processor when asked again, of that " if steps else ""
        case _:
            steps = {}
    if not steps:
        return aim.why_not
    percent = {name: round(100 * steps.get(step, 0.0) / steps[BEYOND]) for name, step in SHARES.items()}
    told = sorted((name for name in SHARES if percent[name] >= LEAST_SHARE), key=lambda name: -percent[name])
    rest = 100 - sum(percent[name] for name in told)
    return f"{again}{', '.join(f'{name} {percent[name]} %' for name in told)}, the rest {rest} % ({aim.why_not})"


def _table(run: dict[str, Any]) -> list[str]:
    head = f"{run['dataset']}, {run['way']}: {run['records']:,} records, {run['questions']} questions; resident"
    return [
        f"{head} {run['resident_mb']:.0f} MiB, of it no file's {run['own_mb']:.0f}, peak {run['peak_mb']:.0f}",
        "",
        "| p50 | CPU ms | wall ms | calls |",
        "|---|---:|---:|---:|",
        *(
            f"| {'' if name in {QUESTION, BEYOND} else '· ' if name in STAGES else '· · '}{name} |"
            f" {one['cpu_ms']:.2f} | {one['wall_ms']:.2f} | {one['calls']:.0f} |"
            for name, one in run["steps"].items()
        ),
    ]


def command(arguments: Sequence[str]) -> None:
    """Run ``python -m bench profile``: what is measured replaces what stands of the same dataset and way."""
    parser = argparse.ArgumentParser(prog="python -m bench profile", description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="a dataset with judged questions")
    parser.add_argument("--way", choices=WAYS, action="append", help="(both)")
    parser.add_argument("--passes", type=int, default=PASSES, help="over the questions (%(default)s)")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for profile.json and profile.md")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    kept = options.out / "profile.json"
    figures = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {"processes": {}, "runs": []}
    runs = {(run["dataset"], run["way"]): run for run in figures["runs"]}
    for folder in options.folders:
        for way in options.way or WAYS:
            task, run = measure(folder, way, options.passes)
            runs[run["dataset"], way] = run
        home, models = Path(task["home"]), Path(task["models"])
        figures["processes"] = time_processes(home, models, task["texts"][0], task["tenant"])
        figures["processes"][DEMO] = time_demo()
    figures["runs"] = list(runs.values())
    kept.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    page = as_markdown(figures)
    (options.out / "profile.md").write_text(page, encoding="utf-8")
    sys.stdout.write(page)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(profile(json.load(sys.stdin))))
