"""Measures the latency of tenants beside a noisy neighbour on ``braid serve``: many questions, or heavy ones.

One of ten tenants asks twenty times as often as each other, in an open loop: questions arrive at random times whether
earlier ones are answered or not, and refused ones are not delayed. Two servers over the same stores take turns, one
with the defaults and one with a limit of concurrent requests per tenant, and each is measured with and without the busy
tenant, on either engine. A second comparison has one tenant's heavy questions beside another's ordinary ones, on a
server with and one without limits of heavy tenants.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.load_server import BRAID, DEPLOYED, ENGINES, prepared, serve
from braid_cli.demo.tour import CORPUS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

BUSY, OTHERS = "busy", tuple(f"calm-{number}" for number in range(1, 10))
ARCHIVE = CORPUS / "pellworth"
TIMES_AS_OFTEN = 20
AT_ONCE = 2
CASES = {"defaults": "0", f"{AT_ONCE} requests at once": str(AT_ONCE)}
"""Names of the servers, and their ``BRAID_QUOTA_REQUESTS_AT_ONCE``."""
ROUNDS = 2
"""How often all phases are gone through."""
RATES = {"embedded": (0.4, 15), DEPLOYED: (0.15, 25)}
"""Questions a second of each calm tenant, and seconds of a phase; two cores answer them all in a quiet hour."""
HEAVY = "heavy"
"""Name of the measurement beside heavy questions."""
WITHOUT_SHARES = """
from braid_cli.http_server import fair_shares
fair_shares.HEAVY_S = float("inf")
from braid_cli.main import main
main()
"""
"""``braid`` for which no question is heavy."""
PROGRAMS = {"with shares": BRAID, "without shares": ("-c", WITHOUT_SHARES)}
NAMES = " ".join(f"Harbour{number}" for number in range(800))
"""A heavy question."""
HEAVY_AT_ONCE, CALM_EVERY_S, HEAVY_PHASE_S = 12, 0.2, 6
"""Heavy questions that one tenant keeps asked, seconds between the other's questions, and of a phase."""
THREADS = 64
OK = 200
COLUMNS = ("tenants", "p50 ms", "p95 ms", "refused", "busy one: asked", "answered", "refused")
NO_CACHES = {f"BRAID_CACHE_{name}": "0" for name in ("EMBEDDING_S", "RESULT_S", "CONTEXT_S", "GRAPH_ENTRIES")}
DYNAMODB = """
import sys
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=False)
print(server.port, flush=True)
server.serve_forever()
"""
"""moto's DynamoDB, one request at a time: counters of several threads are not atomic there."""


@dataclass(frozen=True)
class Phase:
    """What came of all rounds of one server, with the busy tenant or without. Milliseconds are the nine's."""

    case: str
    busy: bool
    p50_ms: float
    p95_ms: float
    refused: int
    busy_asked: int = 0
    busy_answered: int = 0
    busy_refused: int = 0


@dataclass(frozen=True)
class Asked:
    """One question: whose it was, its answer's status, and milliseconds from when it was due."""

    tenant: str
    status: int
    ms: float


def measure(engine: str, say: Callable[[str], None]) -> list[Phase]:
    """Serve one engine twice and ask it by turns."""
    rate, seconds = RATES[engine]
    asked: dict[tuple[str, bool], list[Asked]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="braid-fairness-")))
        tenants = dict.fromkeys((BUSY, *OTHERS), ARCHIVE)
        given = stack.enter_context(prepared(engine, folder, tenants)) | NO_CACHES
        if engine == DEPLOYED:
            given |= stack.enter_context(counters())
        servers = {
            case: stack.enter_context(serve(given | {"BRAID_QUOTA_REQUESTS_AT_ONCE": limit}, tenants))[1]
            for case, limit in CASES.items()
        }
        for said in servers.values():
            _phase(said, rate, 5, busy=True, seed=0)
        for number in range(ROUNDS):
            for case, said in servers.items():
                for busy in (False, True):
                    say(f"{engine}, round {number + 1} of {ROUNDS}: {case}{', with the busy one' if busy else ''}")
                    asked.setdefault((case, busy), []).extend(_phase(said, rate, seconds, busy=busy, seed=number))
    return [_outcome(case, busy, found) for (case, busy), found in asked.items()]


@contextmanager
def counters() -> Iterator[dict[str, str]]:
    """Start what keeps the counters of a deployment; yield the settings that name it."""
    import boto3

    with subprocess.Popen([sys.executable, "-c", DYNAMODB], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as run:  # noqa: S603 - our own
        try:
            port = int(run.stdout.readline()) if run.stdout else 0
            keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "eu-west-1"}
            os.environ.update(keys)
            url = f"http://127.0.0.1:{port}"
            boto3.client("dynamodb", endpoint_url=url).create_table(
                TableName="cache",
                KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
                BillingMode="PAY_PER_REQUEST",
            )
            yield keys | {"AWS_ENDPOINT_URL_DYNAMODB": url, "BRAID_CACHE_TABLE": "cache"}
        finally:
            run.terminate()


def measure_heavy(say: Callable[[str], None]) -> list[Phase]:
    """Serve the embedded engine twice, and ask one tenant's questions by turns, alone and beside heavy ones."""
    asked: dict[tuple[str, bool], list[Asked]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="braid-fairness-")))
        tenants = dict.fromkeys((BUSY, OTHERS[0]), ARCHIVE)
        given = stack.enter_context(prepared("embedded", folder, tenants)) | NO_CACHES
        servers = {
            case: stack.enter_context(serve(given, tenants, "--workers", "2", program=program))[1]
            for case, program in PROGRAMS.items()
        }
        for said in servers.values():
            _beside_heavy(said, 3, busy=True)
        for number in range(ROUNDS):
            for case, said in servers.items():
                for busy in (False, True):
                    say(f"{HEAVY}, round {number + 1} of {ROUNDS}: {case}{', beside heavy ones' if busy else ''}")
                    asked.setdefault((case, busy), []).extend(_beside_heavy(said, HEAVY_PHASE_S, busy=busy))
    return [_outcome(case, busy, found) for (case, busy), found in asked.items()]


def _beside_heavy(said: Mapping[str, Any], seconds: float, *, busy: bool) -> list[Asked]:
    """Ask one tenant's questions as they are due, while another keeps heavy ones asked if it is busy."""
    questions = _questions()
    began = time.perf_counter()

    def keep_asking() -> list[Asked]:
        own: list[Asked] = []
        while time.perf_counter() - began < seconds:
            own.append(_ask(said, BUSY, NAMES, time.perf_counter()))
            if own[-1].status != OK:
                time.sleep(1)  # as the answer's Retry-After says
        return own

    with ThreadPoolExecutor(HEAVY_AT_ONCE) as busy_ones, ThreadPoolExecutor(THREADS) as calm_ones:
        heavy = [busy_ones.submit(keep_asking) for _ in range(HEAVY_AT_ONCE if busy else 0)]
        running = []
        for place in range(int(seconds / CALM_EVERY_S)):
            due = began + place * CALM_EVERY_S
            time.sleep(max(0.0, due - time.perf_counter()))
            running.append(calm_ones.submit(_ask, said, OTHERS[0], questions[place % len(questions)], due))
        return [each.result() for each in running] + [one for each in heavy for one in each.result()]


def _questions() -> list[str]:
    return [json.loads(line)["text"] for line in (ARCHIVE / "queries.jsonl").read_text("utf-8").splitlines()]


def _ask(said: Mapping[str, Any], tenant: str, question: str, due: float) -> Asked:
    """Ask one question, which was due at a moment of the clock."""
    body = json.dumps({"text": question, "top_k": 10}).encode()
    headers = {"Authorization": f"Bearer {said['tokens'][tenant]}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{said['url']}/search", body, headers)  # noqa: S310 - our own server
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            answer.read()
            status = answer.status
    except urllib.error.HTTPError as error:
        with error:
            status = error.code
    return Asked(tenant, status, 1_000 * (time.perf_counter() - due))


def _phase(said: Mapping[str, Any], rate: float, seconds: float, *, busy: bool, seed: int) -> list[Asked]:
    """Send every tenant's questions as they are due, and wait for all answers."""
    questions = _questions()
    rates = dict.fromkeys(OTHERS, rate) | ({BUSY: TIMES_AS_OFTEN * rate} if busy else {})
    due = []
    for tenant, often in rates.items():
        chance = random.Random(f"{tenant} {seed}")  # noqa: S311 - a simulation; the nine's questions are the same
        moment = chance.expovariate(often)
        while moment < seconds:
            due.append((moment, tenant, chance.choice(questions)))
            moment += chance.expovariate(often)
    began = time.perf_counter()
    # Each tenant has threads of its own, so that the busy one's requests do not wait for threads before the others'.
    with ExitStack() as stack:
        pools = {tenant: stack.enter_context(ThreadPoolExecutor(THREADS if tenant == BUSY else 8)) for tenant in rates}
        running = []
        for moment, tenant, question in sorted(due):
            time.sleep(max(0.0, moment - (time.perf_counter() - began)))
            running.append(pools[tenant].submit(_ask, said, tenant, question, began + moment))
        return [each.result() for each in running]


def _outcome(case: str, busy: bool, asked: Sequence[Asked]) -> Phase:
    others = [each for each in asked if each.tenant != BUSY]
    times = sorted(each.ms for each in others if each.status == OK)
    own = [each for each in asked if each.tenant == BUSY]
    return Phase(
        case=case,
        busy=busy,
        p50_ms=round(times[len(times) // 2], 1),
        p95_ms=round(times[int(0.95 * len(times))], 1),
        refused=sum(each.status != OK for each in others),
        busy_asked=len(own),
        busy_answered=sum(each.status == OK for each in own),
        busy_refused=sum(each.status in (429, 503) for each in own),
    )


# --- figures ----------------------------------------------------------------------------------------------------------


def as_markdown(runs: Mapping[str, Sequence[Phase]]) -> str:
    """Return a table for each engine, with the factors by which the nine wait longer."""
    lines = [
        "# Fairness",
        "",
        "What tenants wait beside a busy one: [README](README.md#fairness).",
    ]
    for engine, phases in runs.items():
        said, others = _said(engine)
        lines += [
            "",
            f"## {engine}",
            "",
            said,
            "",
            f"| {' | '.join(COLUMNS)} |",
            f"|---|{'---:|' * (len(COLUMNS) - 1)}",
        ]
        for phase in phases:
            who = f"the busy one and {others}" if phase.busy else f"{others} alone"
            shown = (f"{phase.p50_ms:,.0f}", f"{phase.p95_ms:,.0f}", phase.refused, phase.busy_asked)
            row = (f"{who}, {phase.case}", *shown, phase.busy_answered, phase.busy_refused)
            lines.append(f"| {' | '.join(map(str, row))} |")
        for case in dict.fromkeys(phase.case for phase in phases):
            alone, crowded = (next(p for p in phases if (p.case, p.busy) == (case, busy)) for busy in (False, True))
            p50, p95 = crowded.p50_ms / alone.p50_ms, crowded.p95_ms / alone.p95_ms
            times = f"{p50:.1f} times as long beside the busy one at the median, {p95:.1f} at the 95th"
            lines += ["", f"{case.capitalize()}: {times}."]
    return "\n".join(lines) + "\n"


def _said(name: str) -> tuple[str, str]:
    """Return what was done in a measurement, and who is measured."""
    if name == HEAVY:
        done = (
            f"One tenant asks a question each {CALM_EVERY_S} s, the busy one keeps {HEAVY_AT_ONCE} searches of 800 "
            f"names asked; embedded, two workers, {HEAVY_PHASE_S} s of each case, by turns, several times."
        )
        return done, "one"
    rate, seconds = RATES[name]
    done = (
        f"One of ten tenants asks {TIMES_AS_OFTEN} times as often as each of the others. The nine ask {rate} questions "
        f"a second each; {seconds} s of each case, by turns, several times."
    )
    return done, "nine"


def command(engines: Sequence[str], folder: Path, say: Callable[[str], None]) -> str:
    """Measure engines, or beside heavy questions; write ``fairness.json`` and ``fairness.md``, return the latter."""
    file = folder / "fairness.json"
    runs = json.loads(file.read_text("utf-8")) if file.exists() else {}
    for engine in engines or (*ENGINES, HEAVY):
        measured = measure_heavy(say) if engine == HEAVY else measure(engine, say)
        runs[engine] = [asdict(phase) for phase in measured]
        file.write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
    shown = as_markdown({engine: [Phase(**phase) for phase in phases] for engine, phases in sorted(runs.items())})
    (folder / "fairness.md").write_text(shown, encoding="utf-8")
    return shown
