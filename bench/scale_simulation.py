"""Calculates store sizes at scale, and simulates the question path by discrete events: the tables of docs/scale.md.

Measured values are read from ``bench/engines.json`` and ``bench/writes.json``; assumptions are in this module, with
reasons. Questions arrive at random, wait for containers and for the processors of the stores, and are throttled,
retried and degraded as in the deployed workflow. ``make scale`` runs it, with SimPy. With ``RECORDS=10000000`` and
``LARGEST=1000000``, the records of the largest tenant, it only prints the required size of the index.
"""

from __future__ import annotations

import json
import math
import random
import re
import sys
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from braid.ingestion.bulk.import_steps import BATCH_LINES
from braid.reembedding import ReembeddingLimits
from braid.settings import Settings

from bench import costs

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    import simpy

    Steps = Generator[Any, Any, None]

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "scale.md"
TENANTS, RECORDS, RELATIONSHIPS, DIMENSIONS = 1_000, 100_000_000, 1_000_000_000, 384
RATES: Final = (10, 100, 1_000)
MAX_QUESTIONS = 12_000
"""Questions that one run simulates at most, after as many seconds of warming up as they take divided by ten."""
LEAST_S = 60.0
LIMITS: Final = Settings()
"""Time limits as deployed."""

HNSW_LINKS = 16
WRITERS: Final = (24, 100, 400)
IDS_S, READ_S = 24_000, 0.06
"""Ids listed a second in pages of 10,000, and seconds of reading 250 records, by OpenSearch on two busy cores."""
READS_TO_FILL, READS_TO_COMPARE = 5, 2
"""Reads of a page's records: of the text, of both indexes before and of one after writing; and of both indexes."""
LEAST_NODES = 3
"""Nodes that a deployment of some size has in any case, one a zone."""
COMPRESSIONS = {"": 1, "4x": 4, "32x": 32}
VECTOR_BYTES = {"in memory": 4 * DIMENSIONS, "on disk, 1 bit a value in memory": DIMENSIONS // 8}
"""Bytes of a vector that the k-NN index holds in memory; OpenSearch's formula adds 8 a link and a tenth."""
RECORD_KB, REPLICAS, SHARD_GB, FULLEST_GB = 5.0, 1, 30, 40
"""A record with text, vector and postings on disk: 5 KB in the embedded store, measured; the vendor's advice for a
shard; and for one that holds a part of the largest tenant, short of the vendor's limit of 50."""
NODE_GB, HEAP_GB, KNN_SHARE, NODE_CPUS, NODE_H = 64, 31, 0.5, 8, 4 * 0.335
"""A node of 64 GB (r6g.2xlarge), of whose memory beside the heap the k-NN index may take half."""
STATEMENTS_AN_EDGE, STATEMENTS_A_VERTEX, STATEMENT_BYTES = 11, 18, 100
"""Properties and the element itself; bytes of a statement in three indexes, with their dictionary."""
GRAPH_CPU_H = 0.329 / 2
"""An hour of a virtual processor of Neptune, by its smallest memory-optimised instance, with 8 GB each."""
LARGEST_GRAPH_CPUS = 96
BUSY = 0.6
"""Share of the stores' processors that is planned for."""
LINK_MS = 8.0
"""An indexed look-up of names: TinkerGraph, which was measured, had no index for it."""
INVOKE_MS = 12.0
"""From one stage to the next: Step Functions, Lambda and the network."""
MEMORY_GB = {name: stage.mb / 1024 for stage in costs.STAGES for name in (stage.name,)} | {"answer": 2.0}
COLD_CPU_S = {"search_api": 2.7, "plan": 2.6, "embed": 2.4, "vector_search": 2.5, "graph_expand": 2.5}
"""Processor seconds of a start (docs/decisions/0193-one-function-that-answers.md)."""
COLD_CPU_S |= {"fuse_rerank": 2.5, "answer": 0.6}
"""Of the function that answers, its restore from a snapshot, assumed: nothing of it was measured."""
CPU_MS = {"search_api": 6.0, "plan": 3.0, "embed": 6.4, "vector_search": 3.0, "link": 2.0, "fuse_rerank": 5.0}
"""Milliseconds of a measured core in the stage itself; of the walk, PageRank's, as measured."""


def measured(name: str) -> tuple[float, float]:
    """Return p50 and p95 in ms of one kind of request to the deployed engines at their largest measured size."""
    runs = json.loads((HERE / "engines.json").read_text(encoding="utf-8"))["runs"]
    kinds = [run["engines"]["deployed"]["kinds"] for run in runs if "deployed" in run["engines"]]
    found = [each[name] for each in kinds if name in each][-1]
    return float(found["p50"]), float(found["p95"])


SEARCH_MS = measured("both strands, filtered")
READ_MS = measured("get 50 records")
PAGERANK_MS = measured("of it PageRank")
WALK_MS = tuple(whole - own for whole, own in zip(measured("propagation, 3 hops"), PAGERANK_MS, strict=True))


def sizes() -> list[tuple[str, str, str]]:
    """Return what each part of the stores holds and takes: what, how much, and what follows."""
    disk_gb = RECORDS * RECORD_KB / 1e6
    rows = [
        (
            "records on disk, with a replica",
            f"{(1 + REPLICAS) * disk_gb:,.0f} GB",
            f"{shards(RECORDS)} shards of {SHARD_GB} GB",
        ),
    ]
    for kind, each in VECTOR_BYTES.items():
        gb = (1 + REPLICAS) * vectors_gb(each)
        rows.append((f"vectors {kind}", f"{gb:,.0f} GB", f"{nodes(gb)} nodes of {NODE_GB} GB"))
    graph_gb = (RELATIONSHIPS * STATEMENTS_AN_EDGE + RECORDS * STATEMENTS_A_VERTEX) * STATEMENT_BYTES / 1e9
    rows.append(("graph on disk", f"{graph_gb:,.0f} GB", f"${graph_gb * 0.10:,.0f} a month; a cluster holds 128 TiB"))
    counts_kb = TENANTS * 2
    rows.append(("stored counts of the tenants", f"{counts_kb / 1000:,.0f} MB", "one read of 1 KB or so a question"))
    return rows


def vectors_gb(bytes_a_vector: float, records: int = RECORDS) -> float:
    """Return the memory of all vectors once, by OpenSearch's formula."""
    return 1.1 * (bytes_a_vector + 8 * HNSW_LINKS) * records / 1e9


def shards(records: int) -> int:
    """Return the number of primary shards."""
    return math.ceil(records * RECORD_KB / 1e6 / SHARD_GB)


class IndexShape(NamedTuple):
    """Parameters of the template for an index, and the nodes that hold it."""

    shards: int
    tenant_shards: int
    compression: str
    nodes: int


def index_shape(records: int, largest: int) -> IndexShape:
    """Return the shape of an index of so many records, of which the largest tenant has some.

    The largest tenant is spread over so many shards that none of them, with its part of the others, is too full.
    Vectors are compressed as little as three nodes allow.
    """
    count_of = shards(records)
    most = max(1, count_of - 1)
    spread = next((each for each in range(1, most) if fullest_gb(records, largest, count_of, each) <= FULLEST_GB), most)
    needed = {
        level: nodes((1 + REPLICAS) * vectors_gb(4 * DIMENSIONS / by, records)) for level, by in COMPRESSIONS.items()
    }
    level = next((level for level, many in needed.items() if many <= LEAST_NODES), list(COMPRESSIONS)[-1])
    return IndexShape(count_of, spread, level, needed[level])


def fullest_gb(records: int, largest: int, shards: int, spread: int) -> float:
    """Return the size of a shard that holds a part of the largest tenant."""
    return ((records - largest) / shards + largest / spread) * RECORD_KB / 1e6


def index_shapes() -> list[tuple[str, ...]]:
    """Return a row for each number of records, with a tenant that has a tenth of them."""
    rows: list[tuple[str, ...]] = []
    for records in (1_000_000, 10_000_000, RECORDS, 10 * RECORDS):
        shape = index_shape(records, records // 10)
        level = f"`{shape.compression}`" if shape.compression else "whole vectors"
        fullest = f"{fullest_gb(records, records // 10, shape.shards, shape.tenant_shards):.0f} GB"
        rows.append((f"{records:,}", f"{shape.shards:,}", str(shape.tenant_shards), fullest, level, str(shape.nodes)))
    return rows


def nodes(vectors: float) -> int:
    """Return the nodes whose share for vectors holds so many GB, two at least."""
    return max(2, math.ceil(vectors / ((NODE_GB - HEAP_GB) * KNN_SHARE)))


class Stores(NamedTuple):
    """The stores of one rate: virtual processors of both, and dollars a month."""

    nodes: int
    search_cpus: int
    graph_cpus: int
    usd: float


def stores(rate: int) -> Stores:
    """Return stores that are busy to :data:`BUSY` at a rate, and hold everything, vectors on disk."""
    held = nodes((1 + REPLICAS) * vectors_gb(VECTOR_BYTES["on disk, 1 bit a value in memory"]))
    busy_s = (SEARCH_MS[0] + 2 * READ_MS[0]) / 1_000
    machines = max(held, math.ceil(rate * busy_s / BUSY / NODE_CPUS))
    walked_s = (LINK_MS + WALK_MS[0]) / 1_000
    wanted = 2 ** max(2, math.ceil(math.log2(rate * walked_s / BUSY)))
    cpus = min(LARGEST_GRAPH_CPUS, wanted)
    disk_gb = (1 + REPLICAS) * RECORDS * RECORD_KB / 1e6
    graph_gb = (RELATIONSHIPS * STATEMENTS_AN_EDGE + RECORDS * STATEMENTS_A_VERTEX) * STATEMENT_BYTES / 1e9
    usd = costs.HOURS * (machines * NODE_H + cpus * GRAPH_CPU_H) + disk_gb * 0.122 + graph_gb * 0.10
    return Stores(machines, machines * NODE_CPUS, cpus, usd)


@dataclass(frozen=True)
class Case:
    """One simulated situation."""

    name: str
    mode: str = "workflow"
    warm: bool = True
    concurrency: int = 10_000
    """Most containers of each function."""
    graph_slower: float = 1.0


CASES: Final = (
    Case("as sized"),
    Case("as sized, one function", mode="function"),
    Case("after a silence: no container is warm", warm=False),
    Case("the same, one function", mode="function", warm=False),
    Case("`ReservedConcurrency=90`", concurrency=90),
    Case("the graph is ten times as slow", graph_slower=10.0),
)


@dataclass
class Outcome:
    """What a run came to."""

    times: list[float] = field(default_factory=list)
    degraded: int = 0
    failed: int = 0
    throttled: int = 0
    containers: int = 0
    graph_busy: float = 0.0

    @property
    def asked(self) -> int:
        """Questions after warming up."""
        return len(self.times) + self.failed

    def percentile(self, share: float) -> float:
        """Return a percentile of the answers' times in ms."""
        ordered = sorted(self.times)
        return 1_000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else math.nan


class LostStage(Exception):
    """A stage was throttled too often or gave its store up."""


class Simulation:
    """One case at one rate."""

    def __init__(self, case: Case, rate: int, *, seed: int = 7, questions: int = MAX_QUESTIONS) -> None:
        import simpy

        self.case, self.rate = case, rate
        self.world = simpy.Environment()
        self.random = random.Random(seed)  # noqa: S311 - a simulation
        self.sized = stores(rate)
        self.search = simpy.Resource(self.world, self.sized.search_cpus)
        self.graph = simpy.Resource(self.world, self.sized.graph_cpus)
        self.idle: dict[str, int] = dict.fromkeys(COLD_CPU_S, 1_000_000 if case.warm else 0)
        self.running: dict[str, int] = dict.fromkeys(COLD_CPU_S, 0)
        self.most: dict[str, int] = dict.fromkeys(COLD_CPU_S, 0)
        self.lasts_s = min(max(LEAST_S, 1_000 / rate), max(2.0, questions / rate))
        self.begins_s = self.lasts_s / 10 if case.warm else 0.0
        self.out = Outcome()
        self.graph_s = 0.0

    def run(self) -> Outcome:
        """Simulate, and return what came of it."""
        self.world.process(self._arrivals())
        self.world.run()
        self.out.containers = sum(self.most.values())
        self.out.graph_busy = self.graph_s / self.sized.graph_cpus / self.world.now
        return self.out

    def _arrivals(self) -> Steps:
        while self.world.now < self.lasts_s:
            self.world.process(self._question())
            yield self.world.timeout(self.random.expovariate(self.rate))

    def _question(self) -> Steps:
        begun = self.world.now
        counted = begun >= self.begins_s
        lost: set[str] = set()
        try:
            yield from self._invoked("search_api", self._answered(lost), attempts=1)
        except LostStage:
            self.out.failed += counted
            return
        took = self.world.now - begun
        if took > LIMITS.request_timeout_s or {"vector_search", "graph_expand"} <= lost:
            self.out.failed += counted
        elif counted:
            self.out.times.append(took)
            self.out.degraded += bool(lost)

    def _answered(self, lost: set[str]) -> Steps:
        yield self._cpu("search_api", CPU_MS["search_api"])
        if self.case.mode == "function":
            yield from self._invoked("answer", self._stages(lost, self._inside), attempts=1)
        else:
            yield from self._stages(lost, self._invoked)

    def _stages(self, lost: set[str], through: Callable[[str, Steps], Steps]) -> Steps:
        """Run the stages in the workflow's order; ``through`` is how one is reached."""

        def stage(name: str, work: Steps) -> Steps:
            try:
                yield from through(name, work)
            except LostStage:
                lost.add(name)

        def vectors() -> Steps:
            yield from stage("embed", self._work("embed"))
            yield from stage("vector_search", self._work("vector_search", self.search, *SEARCH_MS))

        yield from stage("plan", self._work("plan", self.search, *READ_MS))
        names = self._work("link", self.graph, LINK_MS, 2 * LINK_MS, at="graph_expand")
        both = [self.world.process(vectors()), self.world.process(stage("graph_expand", names))]
        yield self.world.all_of(both)
        walk = self._work("walk", self.graph, *WALK_MS, at="graph_expand")
        yield from stage("graph_expand", walk)
        yield from stage("fuse_rerank", self._work("fuse_rerank", self.search, *READ_MS))

    def _work(
        self, what: str, store: simpy.Resource | None = None, p50: float = 0.0, p95: float = 0.0, *, at: str = ""
    ) -> Steps:
        if store is not None:
            yield from self._ask(store, p50, p95)
        function = "answer" if self.case.mode == "function" else at or what
        yield self._cpu(function, PAGERANK_MS[0] if what == "walk" else CPU_MS[what])

    def _ask(self, store: simpy.Resource, p50: float, p95: float) -> Steps:
        """Wait for a processor of a store and for its work, at most as long as a question does."""
        of_graph = store is self.graph
        spread = math.log(max(p95 / p50, 1.01)) / 1.645
        needs_s = self.random.lognormvariate(math.log(p50 / 1_000), spread)
        needs_s *= self.case.graph_slower if of_graph else 1.0
        limit_s = LIMITS.neptune_question_s if of_graph else LIMITS.opensearch_question_s
        until = self.world.now + limit_s
        with store.request() as turn:
            yield turn | self.world.timeout(limit_s)
            left_s = max(0.0, until - self.world.now)
            works_s = min(needs_s, left_s) if turn.triggered else 0.0
            self.graph_s += works_s if of_graph else 0.0
            yield self.world.timeout(works_s)
        if not turn.triggered or needs_s > left_s:
            raise LostStage

    def _cpu(self, function: str, ms: float) -> simpy.Timeout:
        """Return the time that milliseconds of a measured core take in a function."""
        processors = min(1.0, 1_024 * MEMORY_GB[function] / costs.MB_A_PROCESSOR)
        return self.world.timeout(ms / 1_000 * costs.SLOWER / processors)

    def _inside(self, _name: str, work: Steps) -> Steps:
        yield from work

    def _invoked(self, name: str, work: Steps, *, attempts: int = 3) -> Steps:
        """Invoke a function: in a warm container, a cold one, or after being throttled again with jitter."""
        for attempt in count(1):
            yield self.world.timeout(INVOKE_MS / 1_000)
            if self.running[name] < self.case.concurrency:
                break
            self.out.throttled += 1
            if attempt >= attempts:
                raise LostStage
            yield self.world.timeout(self.random.uniform(0, 0.5 * 2**attempt))
        self.running[name] += 1
        self.most[name] = max(self.most[name], self.running[name])
        try:
            if self.idle[name] > 0:
                self.idle[name] -= 1
            else:
                yield self._cpu(name, 1_000 * COLD_CPU_S[name] / costs.SLOWER)
            yield from work
        finally:
            self.running[name] -= 1
            self.idle[name] += 1


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table in Markdown, numbers to the right."""
    rule = ("---", *("---:" for _ in head[1:]))
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def simulated(questions: int = MAX_QUESTIONS) -> list[tuple[str, ...]]:
    """Return a row for each case and rate."""
    rows = []
    for case in CASES:
        for rate in RATES:
            out = Simulation(case, rate, questions=questions).run()
            of = max(1, out.asked)
            shown = [f"{out.percentile(share):,.0f}" for share in (0.5, 0.95, 0.99)]
            shares = [f"{100 * part / of:.1f}" for part in (out.degraded, out.failed)]
            busy = f"{100 * out.graph_busy:.0f} %"
            rows.append((f"{case.name}, {rate:,}/s", *shown, *shares, f"{out.containers:,}", busy))
    return rows


class WriteTimes(NamedTuple):
    """Seconds of one processor that a record takes, with its share of all relationships."""

    embedding: float
    indexing: float
    vertices: float
    relationships: float


def write_times() -> WriteTimes:
    """Return the times at the measured rates."""
    runs = json.loads((HERE / "engines.json").read_text(encoding="utf-8"))["runs"]
    engine = [run["engines"]["deployed"] for run in runs if "deployed" in run["engines"]][-1]
    return WriteTimes(
        costs.record_times().written_s * costs.SLOWER,
        1 / engine["records_per_s"],
        1 / engine["vertices_per_s"],
        RELATIONSHIPS / RECORDS / engine["relationships_per_s"],
    )


def ingest() -> list[tuple[str, ...]]:
    """Return how long everything takes to write at the measured rates, and what would be needed for a day."""
    names = (
        "embedding, one virtual processor",
        "records into the index, one writer",
        "vertices, one writer",
        "relationships, one writer",
    )
    days = [RECORDS * each / 86_400 for each in write_times()]
    return [(name, f"{each:,.1f}", f"{math.ceil(each):,}") for name, each in zip(names, days, strict=True)]


def writing(writers: int, rate: int, *, batches: int = 4_000) -> tuple[float, float, float]:
    """Simulate imports by so many writers, with the stores of a rate of questions.

    A writer embeds a batch of records, then has the index and then the graph write it, each on one processor.

    Returns
    -------
    tuple of float
        Hours for all records, and the shares of time that the processors of index and graph are busy.
    """
    import simpy

    world, sized, times = simpy.Environment(), stores(rate), write_times()
    chance = random.Random(7)  # noqa: S311 - a simulation
    index, graph = simpy.Resource(world, sized.search_cpus), simpy.Resource(world, sized.graph_cpus)
    left = iter(range(batches))

    def writer() -> Steps:
        for _ in left:
            yield world.timeout(chance.uniform(0.8, 1.2) * BATCH_LINES * times.embedding)
            for store, each in ((index, times.indexing), (graph, times.vertices + times.relationships)):
                with store.request() as turn:
                    yield turn
                    yield world.timeout(chance.uniform(0.8, 1.2) * BATCH_LINES * each)

    for _ in range(writers):
        world.process(writer())
    world.run()
    written = batches * BATCH_LINES
    graph_each = times.vertices + times.relationships
    busy = times.indexing / sized.search_cpus, graph_each / sized.graph_cpus
    return world.now * RECORDS / written / 3_600, busy[0] * written / world.now, busy[1] * written / world.now


def embedding_again(writers: int, rate: int, *, lists: int = 5) -> tuple[float, float]:
    """Simulate a move to other models by so many writers, with the stores of a rate of questions.

    The pages of a list are embedded and written beside each other, the next list waits for the last of them, and a
    second pass compares both indexes.

    Returns
    -------
    tuple of float
        Hours for all records, and the share of time that the processors of the index are busy.
    """
    import simpy

    world, sized, times = simpy.Environment(), stores(rate), write_times()
    chance = random.Random(7)  # noqa: S311 - a simulation
    index, pages = simpy.Resource(world, sized.search_cpus), ReembeddingLimits().pages
    busy = 0.0

    def writer(left: Iterator[int], embedding: float, storing: float) -> Steps:
        nonlocal busy
        for _ in left:
            yield world.timeout(chance.uniform(0.8, 1.2) * embedding)
            with index.request() as turn:
                yield turn
                taken = chance.uniform(0.8, 1.2) * storing
                busy += taken
                yield world.timeout(taken)

    def job() -> Steps:
        fill = BATCH_LINES * times.embedding, BATCH_LINES * times.indexing + READS_TO_FILL * READ_S
        for embedding, storing in (fill, (0.0, READS_TO_COMPARE * READ_S), (0.0, READS_TO_COMPARE * READ_S)):
            for _ in range(lists):
                yield world.timeout(pages * BATCH_LINES / IDS_S)
                left = iter(range(pages))
                yield world.all_of([world.process(writer(left, embedding, storing)) for _ in range(writers)])

    world.run(world.process(job()))
    written = lists * pages * BATCH_LINES
    return world.now * RECORDS / written / 3_600, busy / sized.search_cpus / world.now


def embedded_again_at_once() -> list[tuple[str, ...]]:
    """Return a row for each number of writers and size of the stores."""
    rows: list[tuple[str, ...]] = []
    for writers in WRITERS:
        for rate in RATES[1:]:
            hours, busy = embedding_again(writers, rate)
            shown = f"{busy:.0%}".replace("%", " %")
            rows.append((f"{writers}, stores for {rate:,} questions a second", f"{hours:,.0f}", shown))
    return rows


def written_at_once() -> list[tuple[str, ...]]:
    """Return a row for each number of writers and size of the stores."""
    rows = []
    for writers in WRITERS:
        for rate in RATES[1:]:
            hours, *busy = writing(writers, rate)
            shown = (f"{share:.0%}".replace("%", " %") for share in busy)
            rows.append((f"{writers}, stores for {rate:,} questions a second", f"{hours:,.0f}", *shown))
    return rows


def tables(questions: int = MAX_QUESTIONS) -> Iterator[tuple[str, str]]:
    """Yield the tables of the page, by name."""
    yield "sizes", table(("what", "how much", "so"), sizes())
    parameters = (
        "records",
        "`OpenSearchShards`",
        "`OpenSearchTenantShards`",
        "fullest shard",
        "`OpenSearchCompression`",
        "nodes",
    )
    yield "index", table(parameters, index_shapes())
    rates = (
        "questions a second",
        "nodes of OpenSearch",
        "processors of Neptune",
        "stores, $ a month",
        "Lambda and the rest",
    )
    month = costs.HOURS * 3_600
    each = sum(costs.question().values())
    sized = {rate: stores(rate) for rate in RATES}
    yield (
        "stores",
        table(
            rates,
            [
                (f"{rate:,}", str(of.nodes), str(of.graph_cpus), f"{of.usd:,.0f}", f"{each * rate * month:,.0f}")
                for rate, of in sized.items()
            ],
        ),
    )
    head = ("case", "p50 ms", "p95 ms", "p99 ms", "degraded %", "failed %", "containers", "graph busy")
    yield "simulation", table(head, simulated(questions))
    yield "ingest", table(("writing all of it", "days", "of them at once for one day"), ingest())
    yield "writing", table(("writers (`ImportWriters`)", "hours", "index busy", "graph busy"), written_at_once())
    yield "again", table(("writers (`ImportWriters`)", "hours", "index busy"), embedded_again_at_once())


def written(page: str, made: Iterator[tuple[str, str]]) -> str:
    """Return the page with these tables in their places."""
    for name, text in made:
        pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        place = re.search(pattern, page, flags=re.DOTALL)
        if place is None:
            raise ValueError(f"{PAGE.name} has no place for the table {name!r}")
        page = f"{page[: place.end(1)]}{text}\n{page[place.start(2) :]}"
    return page


if __name__ == "__main__":
    if sys.argv[1:]:
        wanted = index_shape(*map(int, sys.argv[1:]))
        print(f"OpenSearchShards={wanted.shards}", f"OpenSearchTenantShards={wanted.tenant_shards}", end=" ")
        print(f"OpenSearchCompression={wanted.compression}, on {wanted.nodes} nodes of {NODE_GB} GB")
        sys.exit()
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), tables()), encoding="utf-8")
