"""What a deployment costs a month, from prices and quantities that stand here, as docs/costs.md has it.

Prices are AWS's list prices for us-east-1 as remembered in November 2026, in US dollars. They were not looked up:
compare them with AWS's pages before you rely on them. Quantities are what the template deploys; times are assumed.
``python -m bench.costs`` writes the tables of the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from braid.engines.bedrock import USD_PER_1000_QUERIES
from braid.engines.voyage import USD_PER_1000_DOCUMENTS

ROOT = Path(__file__).resolve().parent.parent
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

METRICS = 102
"""Metrics that the code can write, each counted once a service; paid for in the hours in which they are written."""
ALARM_METRICS = 46
"""Metrics that the alarms look at, each paid for."""
ENDPOINTS = 4
"""Interface endpoints: Step Functions, SQS, Secrets Manager, Lambda; S3 and DynamoDB have gateways, which are free."""
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
RECORDS_A_SECOND = 25
"""Passages of 130 tokens that a function of 2,048 MB embeds and writes in a second."""


@dataclass(frozen=True)
class Stores:
    """The stores that are assumed for a load; they are no part of the template."""

    search: str
    search_h: float
    graph: str
    graph_h: float
    disk_gb: int

    def usd(self) -> float:
        """Return what they cost a month; 0.122 and 0.10 are a GB of OpenSearch's and of Neptune's disk."""
        return HOURS * (self.search_h + self.graph_h) + self.disk_gb * (0.122 + 0.10)


LOADS = {
    1_000: Stores("1 × t3.small", 0.036, "1 × db.t4g.medium", 0.094, 10),
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
        "DynamoDB (caches, schema versions)": (8 * DYNAMODB_READS + 8 * DYNAMODB_WRITES) / MILLION,
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


def million_records() -> dict[str, tuple[float, float, float]]:
    """Return what a million records cost in US dollars: written as files, as late messages, embedded again."""
    encoding = MILLION / RECORDS_A_SECOND * 2 * LAMBDA_GB_S
    transitions = MILLION / 500 * 2 * 6 * STANDARD_TRANSITIONS / MILLION
    again = MILLION / RECORDS_A_SECOND / 480 * 2 * STANDARD_TRANSITIONS / MILLION
    calls = MILLION / 10 * LAMBDA_REQUESTS / MILLION
    return {
        "Lambda": (encoding, encoding + calls, encoding),
        "Step Functions (Standard)": (transitions, 0.0, again),
        "SQS (FIFO): send, receive, delete": (0.0, 3 * SQS_FIFO_REQUESTS, 0.0),
        "DynamoDB: write generations": (
            MILLION / 500 * 2 * DYNAMODB_WRITES / MILLION,
            DYNAMODB_WRITES,
            MILLION / 100 * DYNAMODB_WRITES / MILLION,
        ),
        "Logs": (0.05, MILLION * 1 / 1024**2 * LOGS_GB, 0.05),
    }


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
    sums = [sum(amounts[column] for amounts in million_records().values()) for column in range(3)]
    records.append(["**Together**", *(f"**{usd(amount)}**" for amount in sums)])
    return {
        "month": rows(["questions a month", *names], month),
        "stores": rows(["questions a month", *names], stores),
        "records": rows(["a million records", "as files", "as late messages", "embedded again"], records),
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
