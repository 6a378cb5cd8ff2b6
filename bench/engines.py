"""Compares the embedded and the deployed engines: the same corpora and questions, in one run, at several sizes.

Each engine runs in a process of its own. They take turns, so that other load on the machine affects both.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from braid.models import Direction, Embedding, Filters, Kind
from braid.ports.knowledge_graph import ExpandRequest, PropagateRequest
from braid.ports.search_index import SearchRequest
from braid.retrieval.stages.walk_seeds_and_scores import GraphLimits
from braid.understanding.intent import CAUSAL_TYPES, TEMPORAL_TYPES

from bench.engine_process import FIRST_KINDS, PAGERANK, WARMING_UP, resident_mb
from bench.synthetic import MODEL, NOW, SPACE, TENANT, Synthetic
from braid_cli.evaluation.metrics import percentile
from braid_cli.local_servers import gremlin_server
from braid_cli.local_servers.__main__ import STORES, VARIABLES, down, up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pydantic import BaseModel

    from bench.synthetic import Ask

COUNTED = 100
SMALLEST = 500
"""Records, below which there is no hub worth the name."""
K = 50
"""Hits of each strand, as many as the pipeline asks for."""
FILTERS = Filters(kinds=(Kind.CHUNK,))
"""Half of the records."""
DEFAULTS = GraphLimits()
EMBEDDED, DEPLOYED = "embedded", "deployed"
# Patient: what is measured is how long an answer takes, not whether a busy machine gives it in time.
PATIENCE = {
    "BRAID_OPENSEARCH_TIMEOUT_S": "30",
    "BRAID_NEPTUNE_EVALUATION_TIMEOUT_S": "60",
    "BRAID_NEPTUNE_READ_TIMEOUT_S": "90",
}
GREMLIN_HEAP = "2g"


@dataclass(frozen=True)
class Latency:
    """Milliseconds of one kind of question."""

    p50: float
    p95: float
    recall: float | None = None
    """Of the exact nearest neighbours; None where there is nothing approximate."""


@dataclass(frozen=True)
class EngineFigures:
    """One engine at one size."""

    records_per_s: float
    vertices_per_s: float
    relationships_per_s: float
    servers_start_s: float
    """From nothing to an answer of each server; 0 for the embedded engine."""
    first_answer_s: float
    """From the start of a Python process to its first search and first walk."""
    process_mb: float
    forms_over_names: float = 0.0
    """Seconds to write vertices with the forms of their names, over seconds without; 0 if not measured."""
    gathered: tuple[int, int] = (0, 0)
    """Vertices and edges around a question's seeds, at the median."""
    servers_mb: dict[str, float] = field(default_factory=dict)
    kinds: dict[str, Latency] = field(default_factory=dict)


@dataclass(frozen=True)
class SizeFigures:
    """Both engines at one size."""

    records: int
    relationships: int
    hub_degree: int
    engines: dict[str, EngineFigures]
    same: dict[str, float]
    """Share of the one engine's ids that are the other's too, by kind."""


def questions(ask: Ask) -> dict[str, list[dict[str, Any]]]:
    """Return the questions of each kind, as :func:`bench.engine_process.question` reads them."""

    def search(**fields: object) -> dict[str, Any]:
        return _body("search", SearchRequest.model_validate({"tenant_id": TENANT, "k": K, "as_of": NOW, **fields}))

    def walks(**fields: object) -> list[dict[str, Any]]:
        base = {"tenant_id": TENANT, "as_of": NOW, **fields}
        return [_body("expand", ExpandRequest.model_validate({**base, "seeds": seeds})) for seeds in ask.seeds]

    # As a question does whose two names are linked and whose first ten hits count 1 together.
    around = [
        PropagateRequest(
            tenant_id=TENANT,
            names=tuple((identity, 3.0) for identity in named),
            hits=tuple((seed, 0.1) for seed in seeds),
            fan_out=DEFAULTS.fan_out,
            hub=DEFAULTS.hub,
            as_of=NOW,
        ).model_dump(mode="json")
        for named, seeds in zip(ask.named, ask.seeds, strict=True)
    ]
    vectors = [Embedding(space=SPACE, model_id=MODEL, vector=vector.tobytes()) for vector in ask.vectors]
    by_confidence = {"direction": Direction.OUT, "max_hops": 3, "by_confidence": True}
    tenant = {"tenant_id": TENANT}
    asked = {
        "vectors": [search(embedding=vector) for vector in vectors],
        "vectors, filtered": [search(embedding=vector, filters=FILTERS) for vector in vectors],
        "words, filtered": [search(text=text, filters=FILTERS) for text in ask.texts],
        FIRST_KINDS[0]: [
            search(embedding=vector, text=text, filters=FILTERS)
            for vector, text in zip(vectors, ask.texts, strict=True)
        ],
        "get 50 records": [{"get_many": list(ids), **tenant} for ids in ask.ids],
        "link names": [{"link": names, "as_of": NOW.isoformat(), **tenant} for names in ask.names],
        "link names and forms": [{"link": keys, "as_of": NOW.isoformat(), **tenant} for keys in ask.keys],
        FIRST_KINDS[1]: walks(types=CAUSAL_TYPES, **by_confidence),
        "temporal, 3 hops": walks(types=TEMPORAL_TYPES, by_time=True, **by_confidence),
        "both ways, 2 hops": walks(max_hops=2),
        "propagation, 3 hops": [{"propagate": body} for body in around],
        PAGERANK: [{"spread": body} for body in around],
    }
    assert all(len(lines) == len(ask.texts) for lines in asked.values())
    return asked


def _body(name: str, request: BaseModel) -> dict[str, Any]:
    return {name: request.model_dump(mode="json")}


def exact_ids(corpus: Synthetic, ask: Ask) -> dict[str, list[list[str]]]:
    """Return the true nearest neighbours of the counted questions, by kind."""
    vectors = ask.vectors[WARMING_UP:]
    everything = [corpus.exact(vector, K) for vector in vectors]
    filtered = [corpus.exact(vector, K, FILTERS.kinds) for vector in vectors]
    return {"vectors": everything, "vectors, filtered": filtered, FIRST_KINDS[0]: filtered}


@dataclass(frozen=True)
class Child:
    """An engine that answers in a process of its own."""

    process: subprocess.Popen[str]
    first_answer_s: float

    def ask(self, kind: str) -> dict[str, Any]:
        """Return the milliseconds and ids of the counted questions of a kind."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{kind}\n")
        self.process.stdin.flush()
        return dict(_read(self.process))


def _read(process: subprocess.Popen[str]) -> Any:  # noqa: ANN401 - whatever JSON holds
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"the engine's process ended with status {process.wait()}; what it said is above")
    return json.loads(line)


def _start(arguments: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - our own module, in our own interpreter
        [sys.executable, "-m", "bench.engine_process", *arguments],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@contextmanager
def answering(file: Path, environment: Mapping[str, str]) -> Iterator[Child]:
    """Start an engine's process, and end it."""
    began = time.perf_counter()
    process = _start(["answer", str(file)], environment)
    try:
        _read(process)
        yield Child(process, time.perf_counter() - began)
    finally:
        process.kill()
        process.wait()


def _ingest(size: int, environment: Mapping[str, str]) -> dict[str, float]:
    process = _start(["ingest", str(size)], environment)
    try:
        return dict(_read(process))
    finally:
        process.kill()
        process.wait()


@contextmanager
def servers(folder: Path) -> Iterator[tuple[dict[str, str], dict[str, int], float]]:
    """Start new servers; yield the settings that name them, their process ids, and the seconds that it took."""
    os.environ[gremlin_server.HEAP_VARIABLE] = GREMLIN_HEAP
    began = time.perf_counter()
    try:
        running = up(folder, STORES)
        took = time.perf_counter() - began
        yield (
            {VARIABLES[name]: server.endpoint for name, server in running.items()},
            {name: server.pid for name, server in running.items()},
            took,
        )
    finally:
        down(folder, STORES)


def measure(size: int, say: Callable[[str], None], *, deployed: bool = True) -> SizeFigures:
    """Measure both engines, or the embedded one alone, at one size."""
    corpus = Synthetic(size)
    ask = corpus.ask(WARMING_UP + COUNTED)
    asked = questions(ask)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="braid-bench-")))
        file = folder / "questions.jsonl"
        file.write_text("\n".join(json.dumps(entry) for entry in asked.items()) + "\n", encoding="utf-8")
        environments = {EMBEDDED: {"BRAID_ENGINE": "embedded", "BRAID_HOME": str(folder / "home")}}
        pids: dict[str, int] = {}
        start_s = 0.0
        if deployed:
            say(f"{size:,} records: starting the servers")
            addresses, pids, start_s = stack.enter_context(servers(folder / "servers"))
            environments[DEPLOYED] = {"BRAID_ENGINE": "aws", **PATIENCE, **addresses}
        seconds = {}
        for name, environment in environments.items():
            say(f"{size:,} records: writing them, {name}")
            seconds[name] = _ingest(size, environment)
        children = {
            name: stack.enter_context(answering(file, environment)) for name, environment in environments.items()
        }
        answers: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in children}
        for kind in asked:
            say(f"{size:,} records: {kind}")
            for name, child in children.items():
                answers[name][kind] = child.ask(kind)
        exact = exact_ids(corpus, ask)
        edges = len(corpus.relationships())
        engines = {
            name: EngineFigures(
                records_per_s=round(size / seconds[name]["records_s"]),
                vertices_per_s=round(size / seconds[name]["vertices_s"]),
                relationships_per_s=round(edges / seconds[name]["relationships_s"]),
                servers_start_s=round(start_s, 1) if name == DEPLOYED else 0.0,
                first_answer_s=round(child.first_answer_s, 2),
                process_mb=resident_mb(child.process.pid),
                forms_over_names=round(seconds[name]["forms_over_names"], 2),
                gathered=tuple(answers[name][PAGERANK]["gathered"]),
                servers_mb={server: resident_mb(pid) for server, pid in pids.items()} if name == DEPLOYED else {},
                kinds={kind: _latency(answers[name][kind], exact.get(kind)) for kind in asked},
            )
            for name, child in children.items()
        }
    same = {kind: _same(*(answers[name][kind]["ids"] for name in answers)) for kind in asked} if deployed else {}
    return SizeFigures(size, edges, corpus.hub_degree, engines, same)


def _latency(answer: Mapping[str, Any], exact: Sequence[Sequence[str]] | None) -> Latency:
    milliseconds = sorted(answer["ms"])
    recall = None
    if exact is not None:
        found = [len(set(ids[0]) & set(true)) / len(true) for ids, true in zip(answer["ids"], exact, strict=True)]
        recall = round(sum(found) / len(found), 4)
    return Latency(percentile(milliseconds, 50), percentile(milliseconds, 95), recall)


def _same(first: Sequence[list[list[str]]], second: Sequence[list[list[str]]]) -> float:
    pairs = [
        (set(one), set(other))
        for lists, others in zip(first, second, strict=True)
        for one, other in zip(lists, others, strict=True)
    ]
    total = sum(max(len(one), len(other)) for one, other in pairs)
    return round(sum(len(one & other) for one, other in pairs) / total, 4) if total else 1.0
