"""Many users at once against ``braid serve``: throughput, waiting, refusals and memory, at growing numbers of users."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HERE = Path(__file__).resolve().parent
DEMO = HERE.parent / "local" / "demo"
USERS = (1, 8, 32)
SECONDS = 25
REFUSED = "refused"
"""As load_users.py calls it, which only locust's own process imports: gevent patches the standard library."""


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
    refused: int
    refused_p95_ms: float
    failed: int
    failures: tuple[str, ...]
    memory_mb: float
    """Of the server, after the step."""
    load_before: float
    """The machine's load average of the last minute, before the step."""


def measure(users: Sequence[int] = USERS, seconds: int = SECONDS) -> list[Step]:
    """Start a server over the demo's archives, and send it one number of users after another."""
    with tempfile.TemporaryDirectory() as home, _server(Path(home)) as (process, said):
        _run(said, 2, 5)  # what is opened and compiled once
        return [_step(process, said, count, seconds) for count in users]


def _step(process: psutil.Process, said: dict[str, Any], users: int, seconds: int) -> Step:
    load = os.getloadavg()[0]
    stats = _run(said, users, seconds)
    by_name = {entry["name"]: entry for entry in stats}
    answered = [entry for entry in stats if entry["name"] != REFUSED]
    whole = _times(answered)
    count = sum(whole.values())
    return Step(
        users=users,
        seconds=seconds,
        answered=count,
        answered_per_s=round(count / seconds, 1),
        p50_ms=_percentile(whole, 0.5),
        p95_ms=_percentile(whole, 0.95),
        write_p95_ms=_percentile(_times([by_name[name] for name in by_name if name == "POST /records"]), 0.95),
        refused=by_name[REFUSED]["num_requests"] if REFUSED in by_name else 0,
        refused_p95_ms=_percentile(_times([by_name[REFUSED]]) if REFUSED in by_name else Counter(), 0.95),
        failed=sum(entry["num_failures"] for entry in stats),
        failures=tuple(sorted(entry["name"] for entry in stats if entry["num_failures"])),
        memory_mb=round(process.memory_info().rss / 1e6, 1),
        load_before=round(load, 1),
    )


def _times(entries: Sequence[dict[str, Any]]) -> Counter[float]:
    times: Counter[float] = Counter()
    for entry in entries:
        for milliseconds, count in entry["response_times"].items():
            times[float(milliseconds)] += count
    return times


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
        for line in (DEMO / tenant / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    given = {"BRAID_LOAD_QUESTIONS": json.dumps(questions), "BRAID_LOAD_TOKENS": json.dumps([*said["tokens"].values()])}
    command = [sys.executable, "-m", "locust", "-f", str(HERE / "load_users.py"), "--headless", "--json"]
    command += ["--only-summary", "--loglevel", "ERROR", "--exit-code-on-error", "0", "--host", said["url"]]
    command += ["--users", str(users), "--spawn-rate", str(users), "--run-time", f"{seconds}s"]
    done = subprocess.run(command, check=True, capture_output=True, env=os.environ | given, timeout=seconds + 60)  # noqa: S603 - our own
    stats: list[dict[str, Any]] = json.loads(done.stdout)
    return stats


@contextmanager
def _server(home: Path) -> Iterator[tuple[psutil.Process, dict[str, Any]]]:
    """Run ``braid serve`` with its files in a folder; yields it, and what it said of itself."""
    command = [sys.executable, "-m", "local.cli", "serve", "--port", "0", "--json"]
    with subprocess.Popen(  # noqa: S603 - our own
        command, stdout=subprocess.PIPE, env=os.environ | {"BRAID_HOME": str(home)}, text=True
    ) as running:
        try:
            if running.stdout is None or not (line := running.stdout.readline()):
                message = "braid serve did not start"
                raise RuntimeError(message)
            yield psutil.Process(running.pid), json.loads(line)
        finally:
            running.terminate()


def as_markdown(steps: Sequence[Step]) -> str:
    """Return a table."""
    rows = [
        "| users | answered/s | p50 ms | p95 ms | write p95 ms | refused | refusal ms | failed | memory MB | load |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    rows += [
        f"| {step.users} | {step.answered_per_s} | {step.p50_ms:.0f} | {step.p95_ms:.0f} | {step.write_p95_ms:.0f} "
        f"| {step.refused} | {step.refused_p95_ms:.0f} | {step.failed} | {step.memory_mb} | {step.load_before} |"
        for step in steps
    ]
    seconds = steps[0].seconds if steps else 0
    said = f"{seconds} s a step; {os.cpu_count()} cores, shared with locust and other work: [README](README.md#load)."
    return "\n".join([*rows, "", said, ""])


def write(steps: Sequence[Step], folder: Path) -> None:
    """Write ``load.json`` and ``load.md``."""
    figures = {"cores": os.cpu_count(), "steps": [asdict(step) for step in steps]}
    (folder / "load.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    (folder / "load.md").write_text(as_markdown(steps), encoding="utf-8")
