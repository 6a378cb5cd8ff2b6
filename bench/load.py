"""Load test of ``braid serve``: throughput, latency, refusals and memory, at growing numbers of concurrent users."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.load_memory import watched
from bench.load_server import serving
from braid_cli.demo.tour import CORPUS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psutil

HERE = Path(__file__).resolve().parent
COLUMNS = (
    *("users", "answered/s", "p50 ms", "p95 ms", "write p95 ms", "kept %"),
    *("refused", "refusal ms", "failed", "memory MB", "MB/min", "load"),
)
USERS = (1, 8, 32)
SECONDS = 25
WARMING_UP = (4, 10)
"""Users and seconds before the first step: what is opened and compiled once."""
REFUSED, KEPT, SEARCH = "refused", "POST /search, kept", "POST /search"
"""As load_users.py calls them, which only locust's own process imports: gevent patches the standard library."""


@dataclass(frozen=True)
class Step:
    """One number of users. Milliseconds are of answered requests, unless they say refused."""

    users: int
    seconds: int
    answered: int
    answered_per_s: float
    p50_ms: float
    p95_ms: float
    write_p95_ms: float
    kept_percent: float
    """Of the searches, those answered from what was kept of an equal one before."""
    refused: int
    refused_p95_ms: float
    failed: int
    failures: tuple[str, ...]
    memory_mb: tuple[float, ...]
    """Of the server itself, over the step."""
    files_mb: tuple[float, ...]
    """Of files that it maps into its memory."""
    growth_mb_per_min: float
    """Of its memory, over the second half of the step."""
    load_before: float
    """The machine's load average of the last minute, before the step."""


@dataclass(frozen=True)
class Run:
    """All steps on one engine."""

    engine: str
    seconds: int
    cores: int
    steps: tuple[Step, ...]

    @property
    def name(self) -> tuple[str, int]:
        """What tells runs apart: a later one of this name replaces it."""
        return self.engine, self.seconds


def measure(engine: str, users: Sequence[int] = USERS, seconds: int = SECONDS) -> Run:
    """Start a server over the demo's archives, and send it one number of users after another."""
    import psutil  # of the group `load`; other measurements of bench start the same servers without it

    with tempfile.TemporaryDirectory(prefix="braid-load-") as folder, serving(engine, Path(folder)) as (server, said):
        process = psutil.Process(server.pid)
        _run(said, *WARMING_UP)
        steps = tuple(_step(process, said, count, seconds) for count in users)
    return Run(engine, seconds, os.cpu_count() or 0, steps)


def _step(process: psutil.Process, said: dict[str, Any], users: int, seconds: int) -> Step:
    load = os.getloadavg()[0]
    with watched(process, seconds) as memory:
        stats = _run(said, users, seconds)
    times = {entry["name"]: _times(entry) for entry in stats}
    refused = times.pop(REFUSED, Counter())
    whole: Counter[float] = sum(times.values(), Counter())
    searches = sum(times.get(name, Counter()).total() for name in (SEARCH, KEPT))
    return Step(
        users=users,
        seconds=seconds,
        answered=whole.total(),
        answered_per_s=round(whole.total() / seconds, 1),
        p50_ms=_percentile(whole, 0.5),
        p95_ms=_percentile(whole, 0.95),
        write_p95_ms=_percentile(times.get("POST /records", Counter()), 0.95),
        kept_percent=round(100 * times.get(KEPT, Counter()).total() / max(searches, 1), 1),
        refused=refused.total(),
        refused_p95_ms=_percentile(refused, 0.95),
        failed=sum(entry["num_failures"] for entry in stats),
        failures=tuple(sorted(entry["name"] for entry in stats if entry["num_failures"])),
        memory_mb=tuple(memory.megabytes),
        files_mb=tuple(memory.files),
        growth_mb_per_min=memory.growth_mb_per_min(),
        load_before=round(load, 1),
    )


def _times(entry: dict[str, Any]) -> Counter[float]:
    return Counter({float(milliseconds): count for milliseconds, count in entry["response_times"].items()})


def _percentile(times: Counter[float], share: float) -> float:
    """Return the time that this share of requests did not exceed; 0 of none. Locust rounds to two digits."""
    left = share * times.total()
    for milliseconds in sorted(times):
        left -= times[milliseconds]
        if left <= 0:
            return milliseconds
    return 0.0


def _run(said: dict[str, Any], users: int, seconds: int) -> list[dict[str, Any]]:
    questions = [
        json.loads(line)["text"]
        for tenant in said["tokens"]
        for line in (CORPUS / tenant / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    given = {"BRAID_LOAD_QUESTIONS": json.dumps(questions), "BRAID_LOAD_TOKENS": json.dumps([*said["tokens"].values()])}
    command = [sys.executable, "-m", "locust", "-f", str(HERE / "load_users.py"), "--headless", "--json"]
    command += ["--only-summary", "--loglevel", "ERROR", "--exit-code-on-error", "0", "--host", said["url"]]
    command += ["--users", str(users), "--spawn-rate", str(users), "--run-time", f"{seconds}s"]
    done = subprocess.run(command, check=True, capture_output=True, env=os.environ | given, timeout=seconds + 60)  # noqa: S603 - our own
    stats: list[dict[str, Any]] = json.loads(done.stdout)
    return stats


def as_markdown(runs: Sequence[Run]) -> str:
    """Return a table for each run."""
    return "\n".join(line for run in runs for line in _table(run))


def _table(run: Run) -> list[str]:
    rows = [f"| {' | '.join(COLUMNS)} |", f"|{'---:|' * len(COLUMNS)}"]
    rows += [
        f"| {step.users} | {step.answered_per_s} | {step.p50_ms:.0f} | {step.p95_ms:.0f} | {step.write_p95_ms:.0f} "
        f"| {step.kept_percent:.0f} | {step.refused} | {step.refused_p95_ms:.0f} | {step.failed} "
        f"| {_first_and_last(step.memory_mb)} | {step.growth_mb_per_min:+.1f} | {step.load_before} |"
        for step in run.steps
    ]
    said = f"{run.cores} cores, shared with locust and other work: [README](README.md#load)."
    return [f"## {run.engine}, {run.seconds} s a step", "", *rows, "", said, ""]


def _first_and_last(memory_mb: Sequence[float]) -> str:
    return f"{memory_mb[0]:.0f} – {memory_mb[-1]:.0f}" if memory_mb else ""


def read(folder: Path) -> list[Run]:
    """Return the runs of ``load.json``; none where there is no such file."""
    file = folder / "load.json"
    if not file.exists():
        return []
    kept = json.loads(file.read_text(encoding="utf-8"))["runs"]
    return [Run(**run | {"steps": tuple(Step(**step) for step in run["steps"])}) for run in kept]


def write(run: Run, folder: Path) -> list[Run]:
    """Write ``load.json`` and ``load.md`` with this run in the place of one of its name; return all of them."""
    runs = sorted([*(other for other in read(folder) if other.name != run.name), run], key=lambda each: each.name[::-1])
    figures = {"runs": [asdict(each) for each in runs]}
    (folder / "load.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    (folder / "load.md").write_text("# Load\n\n" + as_markdown(runs), encoding="utf-8")
    return runs
