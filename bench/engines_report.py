"""Report of the engine comparison: tables with ratios, targets, and charts of growth."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from bench.engine_process import FIRST_KINDS
from bench.engines import COUNTED, DEPLOYED, EMBEDDED, GREMLIN_HEAP, K, SizeFigures
from bench.plot import Chart, as_svg
from braid_cli.local_servers import gremlin_server, opensearch_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from bench.engines import EngineFigures


@dataclass(frozen=True)
class Aim:
    """What the project wants of one kind of question at its largest size, in milliseconds at the median."""

    engine: str
    kind: str
    below_ms: float


AIMS = (
    Aim(EMBEDDED, "vectors", 1.0),
    Aim(EMBEDDED, FIRST_KINDS[1], 5.0),
    Aim(DEPLOYED, FIRST_KINDS[0], 15.0),
    Aim(DEPLOYED, FIRST_KINDS[1], 30.0),
)
_WHOLE: tuple[tuple[str, Callable[[EngineFigures], float]], ...] = (
    ("records written a second", lambda engine: engine.records_per_s),
    ("vertices written a second", lambda engine: engine.vertices_per_s),
    ("relationships written a second", lambda engine: engine.relationships_per_s),
    ("time to write vertices with forms ÷ without", lambda engine: engine.forms_over_names),
    ("vertices around a question's seeds", lambda engine: engine.gathered[0]),
    ("edges around a question's seeds", lambda engine: engine.gathered[1]),
    ("process to first answers, s", lambda engine: engine.first_answer_s),
    ("memory of the process, MiB", lambda engine: engine.process_mb),
)


def machine() -> dict[str, str]:
    """Return what the figures depend on beyond the code; nothing that names the machine."""
    return {
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "opensearch": f"{opensearch_server.VERSION}, heap {opensearch_server.HEAP}",
        "gremlin server": f"{gremlin_server.VERSION}, heap {GREMLIN_HEAP}",
    }


def as_markdown(runs: Sequence[SizeFigures]) -> str:
    """Return one table a size, and the aims at the largest."""
    return "\n".join([*_head(), *(line for run in runs for line in _table(run)), *_aims(runs[-1])]) + "\n"


def _head() -> Iterator[str]:
    said = "; ".join(f"{name} {value}" for name, value in machine().items())
    yield "# Engines side by side"
    yield ""
    yield f"Milliseconds are p50 / p95 of {COUNTED} questions with {K} hits a strand, one after another. {said}."
    yield ""


def _table(run: SizeFigures) -> Iterator[str]:
    names = list(run.engines)
    both = len(names) > 1
    yield f"## {run.records:,} records, {run.relationships:,} relationships, three hubs of degree {run.hub_degree:,}"
    yield ""
    yield "| | " + " | ".join(names) + (" | deployed ÷ embedded | same ids |" if both else " |")
    yield "|---|" + "---:|" * (len(names) + 2 * both)
    for kind in next(iter(run.engines.values())).kinds:
        latencies = [engine.kinds[kind] for engine in run.engines.values()]
        cells = [
            f"{latency.p50:.2f} / {latency.p95:.2f}"
            + (f", recall {latency.recall:.3f}" if latency.recall is not None else "")
            for latency in latencies
        ]
        if both:
            cells += [f"{latencies[1].p50 / latencies[0].p50:.1f}", f"{run.same[kind]:.3f}"]
        yield f"| {kind}, ms | " + " | ".join(cells) + " |"
    for title, value in _WHOLE:
        values = [value(engine) for engine in run.engines.values()]
        if not all(values):
            continue  # that run did not measure it
        cells = [f"{number:,.10g}" for number in values]
        if both:
            cells += [f"{values[1] / values[0]:.2f}", ""]
        yield f"| {title} | " + " | ".join(cells) + " |"
    for engine in run.engines.values():
        for server, mebibytes in engine.servers_mb.items():
            yield f"| memory of {server}, MiB | – | {mebibytes:,} | | |"
    if both:
        yield f"| start of both servers, s | – | {run.engines[DEPLOYED].servers_start_s} | | |"
    yield ""


def _aims(run: SizeFigures) -> Iterator[str]:
    yield f"## Aims, at {run.records:,} records"
    yield ""
    yield "| engine | question | aim, p50 | found | |"
    yield "|---|---|---:|---:|---|"
    for aim in AIMS:
        if aim.engine in run.engines:
            found = run.engines[aim.engine].kinds[aim.kind].p50
            verdict = "met" if found < aim.below_ms else "missed"
            yield f"| {aim.engine} | {aim.kind} | < {aim.below_ms:g} ms | {found:.2f} ms | {verdict} |"


def charts(runs: Sequence[SizeFigures]) -> list[Chart]:
    """Return one chart a kind of question, then ingest and memory."""
    engines = [name for name in runs[-1].engines if all(name in run.engines for run in runs)]

    def lines(value: Callable[[EngineFigures], float]) -> dict[str, list[tuple[float, float]]]:
        return {name: [(run.records, value(run.engines[name])) for run in runs] for name in engines}

    kinds = [
        kind
        for kind in runs[-1].engines[engines[0]].kinds
        if all(kind in run.engines[engines[0]].kinds for run in runs)
    ]
    drawn = [
        Chart(
            f"{kind}, ms",
            lines(lambda engine, kind=kind: engine.kinds[kind].p50),  # type: ignore[misc]
            lines(lambda engine, kind=kind: engine.kinds[kind].p95),  # type: ignore[misc]
        )
        for kind in kinds
    ]
    drawn.append(Chart("records written a second", lines(lambda engine: engine.records_per_s), {}))
    drawn.append(Chart("relationships written a second", lines(lambda engine: engine.relationships_per_s), {}))
    drawn.append(
        Chart(
            "memory with servers, MiB",
            lines(lambda engine: engine.process_mb + sum(engine.servers_mb.values())),
            {},
        )
    )
    return drawn


def read(folder: Path) -> list[SizeFigures]:
    """Return what was measured before, so that one size can be measured again without the others."""
    path = folder / "engines.json"
    if not path.exists():
        return []
    return TypeAdapter(list[SizeFigures]).validate_python(json.loads(path.read_text(encoding="utf-8"))["runs"])


def add(run: SizeFigures, folder: Path) -> list[SizeFigures]:
    """Put a run in the place of the one of its size, write all of them and return them."""
    runs = sorted([*(held for held in read(folder) if held.records != run.records), run], key=lambda run: run.records)
    write(runs, folder)
    return runs


def write(runs: Sequence[SizeFigures], folder: Path) -> None:
    """Write the figures for people and for machines."""
    figures: dict[str, Any] = {"machine": machine(), "runs": [asdict(run) for run in runs]}
    (folder / "engines.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    (folder / "engines.md").write_text(as_markdown(runs), encoding="utf-8")
    note = "Against the number of records; solid p50, dashed p95. Both axes are logarithmic."
    (folder / "engines.svg").write_text(as_svg("Engines side by side", note, charts(runs)), encoding="utf-8")
