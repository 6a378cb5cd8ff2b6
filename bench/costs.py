"""Calculates the monthly cost of a deployment; ``python -m bench.costs`` writes the tables of docs/costs.md.

Prices are AWS's list prices for us-east-1 as of November 2026, in US dollars; the page says which were checked against
published ones. Quantities are those that the template deploys. Resources per question are assumed; those per record
are calculated from times measured in ``bench/writes.json`` and ``bench/engines.json``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from braid.engines.rerankers.bedrock import USD_PER_1000_QUERIES
from braid.engines.rerankers.voyage import USD_PER_1000_DOCUMENTS
from braid.ingestion.bulk.import_steps import BATCH_LINES

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PAGE = ROOT / "docs" / "costs.md"
HOURS = 730
MILLION = 1_000_000

LAMBDA_GB_S = 0.0000133334
LAMBDA_READY_GB_S = 0.0000033334
LAMBDA_REQUESTS = 0.20
EXPRESS_REQUESTS = 1.00
EXPRESS_GB_S = 0.00001667
STANDARD_TRANSITIONS = 25.00
HTTP_REQUESTS = 1.00
DYNAMODB_READS = 0.125
DYNAMODB_WRITES = 0.625
SQS_FIFO_REQUESTS = 0.50
LOGS_GB = 0.50
METRIC = 0.30
ALARM_METRIC = 0.10
DASHBOARD = 3.00
TRACES = 5.00
SECRET = 0.40
ENDPOINT_H = 0.01
FILES_GB, FILES_READ_GB, FILES_WRITTEN_GB, FILES_COPIED_GB = 0.30, 0.03, 0.06, 0.05
"""EFS with elastic throughput: a GB stored for a month, read, written, and kept by AWS Backup for a month."""

METRICS = 103
"""Metrics that the code can write, each counted once a service; paid for in the hours in which they are written."""
ALARM_METRICS = 53
"""Metrics that the alarms look at, each paid for."""
ENDPOINTS = 5
"""Interface endpoints: Step Functions has two, SQS, Secrets Manager, Lambda; S3 and DynamoDB have gateways, which are
free."""
ZONES = 2
CANDIDATES = 50


@dataclass(frozen=True)
class Stage:
    """One function as a question uses it."""

    name: str
    mb: int
    ms: float
    calls: int = 1


STAGES = (
    Stage("search_api", 1024, 700),
    Stage("plan", 512, 60),
    Stage("embed", 2048, 100),
    Stage("vector_search", 512, 80),
    Stage("graph_expand", 512, 80, calls=2),
    Stage("fuse_rerank", 2048, 150),
)
WORKFLOW_MS = 600
RERANK_WAIT_MS = 400
"""What a hosted reranker adds: three functions and the workflow wait for it."""
LOGS_KB = 16
TRACED = 0.05
FUNCTION_MB = 2048
"""Of the functions that carry a model."""
MB_A_PROCESSOR = 1769
"""Lambda gives so much memory a whole virtual processor."""
SLOWER = 2.0
"""Times that a virtual processor takes longer than a core of the machine that was measured; assumed, to be safe."""
MESSAGES_AT_ONCE = 10
LATE_WAIT_S = 0.08
"""That a late message waits for the stores: eight round trips of 10 ms, one after another; assumed."""
PAGE_RECORDS, PAGE_TRANSITIONS = 250, 3
"""Records of a page that is embedded again, by an execution of its own, and transitions of that."""
LINE_KB = 1
MEASURED = "10000"
"""Records in the stores whose times of writing are taken."""


@dataclass(frozen=True)
class Stores:
    """The stores that are assumed for a load; the smallest are those that ``stores.yaml`` makes by default."""

    search: str
    search_h: float
    graph: str
    graph_h: float
    disk_gb: int

    def usd(self) -> float:
        """Return what they cost a month; 0.122 and 0.10 are a GB of OpenSearch's and of Neptune's disk."""
        return HOURS * (self.search_h + self.graph_h) + self.disk_gb * (0.122 + 0.10)


LOADS = {
    1_000: Stores("1 × t3.small", 0.036, "Serverless, 1 unit", 0.1608, 10),
    100_000: Stores("2 × r6g.large", 2 * 0.167, "1 × db.r6g.large", 0.329, 50),
    10_000_000: Stores("3 × r6g.xlarge", 3 * 0.335, "2 × db.r6g.xlarge", 2 * 0.658, 200),
}
RERANKERS = {
    "amazon.rerank-v1:0 (Bedrock)": USD_PER_1000_QUERIES["amazon.rerank-v1:0"] / 1000,
    "cohere.rerank-v3-5:0 (Bedrock)": USD_PER_1000_QUERIES["cohere.rerank-v3-5:0"] / 1000,
    f"rerank-2.5 (Voyage), {CANDIDATES} texts": CANDIDATES * USD_PER_1000_DOCUMENTS / 1000,
}


def question() -> dict[str, float]:
    """Return what one question costs, in US dollars: over HTTP, nothing cached, not reranked."""
    seconds_gb = sum(stage.mb / 1024 * stage.ms / 1000 * stage.calls for stage in STAGES)
    calls = sum(stage.calls for stage in STAGES)
    return {
        "Lambda": seconds_gb * LAMBDA_GB_S + calls * LAMBDA_REQUESTS / MILLION,
        "Step Functions (Express)": EXPRESS_REQUESTS / MILLION + WORKFLOW_MS / 1000 * 64 / 1024 * EXPRESS_GB_S,
        "API Gateway (HTTP)": HTTP_REQUESTS / MILLION,
        "DynamoDB (caches, schema versions)": (8 * DYNAMODB_READS + 10 * DYNAMODB_WRITES) / MILLION,
        "Logs and traces": LOGS_KB / 1024**2 * LOGS_GB + TRACED * TRACES / MILLION,
    }


def standing() -> dict[str, float]:
    """Return what stands whether anybody asks or not, in US dollars a month, without the stores."""
    return {
        "Metrics, alarms, dashboard": METRICS * METRIC + ALARM_METRICS * ALARM_METRIC + DASHBOARD,
        "VPC endpoints, secret": ENDPOINTS * ZONES * ENDPOINT_H * HOURS + SECRET,
    }


def waiting() -> float:
    """Return what waiting for a hosted reranker adds to a question, in US dollars: the last stage, the front door."""
    gb = sum(stage.mb / 1024 for stage in STAGES if stage.name in ("search_api", "fuse_rerank"))
    return RERANK_WAIT_MS / 1000 * (gb * LAMBDA_GB_S + 64 / 1024 * EXPRESS_GB_S)


@dataclass(frozen=True)
class RecordTimes:
    """Seconds a record, of one core of the machine that was measured or of waiting."""

    written_s: float
    """Embedding a record and writing it from a file, of a core."""
    refreshed_s: float
    """Embedding it again where it stands."""
    moved_s: float
    """Embedding it with another model and writing it to a new index."""
    indexed_s: float
    """Waiting for OpenSearch to index it."""
    graphed_s: float
    """Waiting for the graph to write its vertex and four edges."""


def record_times() -> RecordTimes:
    """Read what was measured: processor time of real texts, and how long the stores took of one batch after another."""
    beside = json.loads((HERE / "writes.json").read_text(encoding="utf-8"))["beside"]
    runs = json.loads((HERE / "engines.json").read_text(encoding="utf-8"))["runs"]
    (run,) = (run for run in runs if str(run["records"]) == MEASURED)
    stores = run["engines"]["deployed"]

    def core(task: str) -> float:
        took = beside[task]["took"]
        return float(took["processor_s"] / took["records"])

    return RecordTimes(
        written_s=core("braid ingest FILE"),
        refreshed_s=core("braid reembed, after a change of schema"),
        moved_s=core("braid reembed --model-profile"),
        indexed_s=1 / stores["records_per_s"],
        graphed_s=1 / stores["vertices_per_s"] + run["relationships"] / run["records"] / stores["relationships_per_s"],
    )


def function_seconds() -> dict[str, float]:
    """Return for how many seconds a record keeps a function busy, by the way in which it is written."""
    times = record_times()
    slower = SLOWER * MB_A_PROCESSOR / FUNCTION_MB
    return {
        "as files": times.written_s * slower + times.indexed_s + times.graphed_s,
        "as late messages": times.written_s * slower + times.indexed_s + times.graphed_s + LATE_WAIT_S,
        "embedded again": times.refreshed_s * slower + times.indexed_s,
        "moved to another model": times.moved_s * slower + times.indexed_s,
    }


def million_records() -> dict[str, tuple[float, ...]]:
    """Return what a million records cost in US dollars, one amount for each way of :func:`function_seconds`."""
    seconds = function_seconds()
    gb_s = {name: MILLION * each * FUNCTION_MB / 1024 * LAMBDA_GB_S for name, each in seconds.items()}
    # An execution a batch and phase, of about six transitions each.
    pages = dict.fromkeys(("embedded again", "moved to another model"), MILLION / PAGE_RECORDS)
    transitions = {"as files": MILLION / BATCH_LINES * 2 * 6, "as late messages": 0.0}
    transitions |= {name: count * PAGE_TRANSITIONS for name, count in pages.items()}
    calls = {
        "as files": MILLION / BATCH_LINES * 2,
        "as late messages": MILLION / MESSAGES_AT_ONCE,
        **pages,
    }
    generations = {
        "as files": MILLION / BATCH_LINES * 2,
        "as late messages": MILLION,
        **{name: count * 2 for name, count in pages.items()},  # the generation and the job
    }
    logged_kb = {name: calls[name] * 4 for name in seconds} | {"as late messages": MILLION * LINE_KB}
    return {
        "Lambda": tuple(gb_s[name] + calls[name] * LAMBDA_REQUESTS / MILLION for name in seconds),
        "Step Functions (Standard)": tuple(transitions[name] * STANDARD_TRANSITIONS / MILLION for name in seconds),
        "SQS (FIFO): send, receive, delete": tuple(
            3 * SQS_FIFO_REQUESTS if name == "as late messages" else 0.0 for name in seconds
        ),
        "DynamoDB: write generations, jobs": tuple(generations[name] * DYNAMODB_WRITES / MILLION for name in seconds),
        "Logs": tuple(logged_kb[name] / 1024**2 * LOGS_GB for name in seconds),
    }


@dataclass(frozen=True)
class Small:
    """What ``small.yaml`` makes, and what decision 0470 measured of it with 100,000 records."""

    mb: int = 3008
    ms: float = 180
    """A question that is not cached, a slower processor and waiting for the files included."""
    calls: int = 90
    """Calls of the file system by a question, of which each counts as 4 KB read."""
    written_kb: float = 100
    """Written by a question: its answer's place in the cache, the trace, the journal."""
    start_s: float = 12
    start_gb: float = 0.19
    """Read of the files until a new process has answered."""
    gb: float = 0.5
    metrics: int = 16
    """Of the HTTP interface and of embedding again."""


SMALL = Small()
STARTS = {1_000: 300, 100_000: 600}
"""New processes in a month, by the questions in it: one for most of a few questions, some tens a day of many."""


def small(questions: int) -> float:
    """Return what the small mode costs a month, in US dollars."""
    seconds_gb = SMALL.mb / 1024 * (questions * SMALL.ms / 1000 + STARTS[questions] * SMALL.start_s)
    read_gb = questions * SMALL.calls * 4 / 1024**2 + STARTS[questions] * SMALL.start_gb
    a_question = question()
    return (
        seconds_gb * LAMBDA_GB_S
        + read_gb * FILES_READ_GB
        + questions * SMALL.written_kb / 1024**2 * FILES_WRITTEN_GB
        + SMALL.gb * (FILES_GB + FILES_COPIED_GB)
        + questions * (LAMBDA_REQUESTS / MILLION + a_question["API Gateway (HTTP)"] + a_question["Logs and traces"])
        + SMALL.metrics * METRIC
        + 2 * ALARM_METRIC
        + SECRET
    )


def usd(amount: float) -> str:
    """Write an amount: cents below ten dollars, whole dollars from there."""
    return f"{amount:,.2f}" if amount < 10 else f"{amount:,.0f}"


def rows(head: list[str], lines: list[list[str]]) -> str:
    """Return a Markdown table whose figures stand right."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, rule, *lines])


def tables() -> dict[str, str]:
    """Return each table of the page by its name."""
    names = [f"{load:,}" for load in LOADS]
    one = question()
    month = [[name, *(usd(amount * load) for load in LOADS)] for name, amount in one.items()]
    month += [[name, *(usd(amount) for _ in LOADS)] for name, amount in standing().items()]
    month += [
        ["OpenSearch and Neptune, as below", *(usd(stores.usd()) for stores in LOADS.values())],
        [
            "**Together, not reranked**",
            *(
                f"**{usd(sum(one.values()) * load + sum(standing().values()) + stores.usd())}**"
                for load, stores in LOADS.items()
            ),
        ],
    ]
    instead = (usd(small(load)) if load in STARTS else "–" for load in LOADS)
    month.append(["*`small.yaml` instead: questions, store, metrics*", *instead])
    month += [
        [f"*Reranking:* {name}", *(f"+ {usd((each + waiting()) * load)}" for load in LOADS)]
        for name, each in RERANKERS.items()
    ]
    month.append(["*Reranking:* `onnx`, 300 ms more of `fuse_rerank`", *(f"+ {usd(own() * load)}" for load in LOADS)])
    stores = [
        ["OpenSearch", *(stores.search for stores in LOADS.values())],
        ["Neptune", *(stores.graph for stores in LOADS.values())],
        ["GB on each's disk", *(str(stores.disk_gb) for stores in LOADS.values())],
    ]
    records = [[name, *map(usd, amounts)] for name, amounts in million_records().items()]
    ways = list(function_seconds())
    sums = [sum(amounts[column] for amounts in million_records().values()) for column in range(len(ways))]
    records.append(["**Together**", *(f"**{usd(amount)}**" for amount in sums)])
    busy = [f"{each * 1000:,.0f}" for each in function_seconds().values()]
    records.append(["*milliseconds of a function, each record*", *busy])
    return {
        "month": rows(["questions a month", *names], month),
        "stores": rows(["questions a month", *names], stores),
        "records": rows(["a million records", *ways], records),
    }


def own() -> float:
    """Return what a cross-encoder of one's own adds to a question, in US dollars: 300 ms of two functions."""
    return 0.3 * ((2 + 1) * LAMBDA_GB_S + 64 / 1024 * EXPRESS_GB_S)


def ready() -> float:
    """Return what one container of each image costs a month that is kept ready, in US dollars."""
    return 2 * 2 * HOURS * 3600 * LAMBDA_READY_GB_S


def written(page: str) -> str:
    """Return the page with the tables as they are worked out now."""
    for name, table in tables().items():
        opening, closing = f"<!-- {name} -->", "<!-- end -->"
        before, _, rest = page.partition(opening)
        page = f"{before}{opening}\n{table}\n{closing}{rest.partition(closing)[2]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
