"""Figures of the benchmarks of writing, and their tables."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

AIM = 1.15
"""Times embedding alone, at most, that writing may take."""


@dataclass(frozen=True)
class Took:
    """What one task took."""

    records: int
    s: float
    processor_s: float
    embedding_s: float
    """Of these seconds, those that the encoder was asked for."""
    own_mb: float
    """The most memory, without the parts of the store's file that are mapped."""
    all_mb: float
    """The most memory, with them."""
    before_mb: float | None = None
    """Of a move: the most of its own while it was filling, before the indexes were compared."""


@dataclass(frozen=True)
class Beside:
    """One way of writing, between two times of embedding alone."""

    took: Took
    alone_s: float
    """Embedding the same texts: the mean of before and after."""
    alone_processor_s: float
    besides_processor_s: float
    """Processor time of the same task with an encoder that costs next to nothing: of all that is not embedding."""


@dataclass(frozen=True)
class Figures:
    """All that was measured: real texts by name of task, and memory by engine, size and task."""

    dataset: str = ""
    texts: int = 0
    beside: dict[str, Beside] = field(default_factory=dict)
    growing: dict[str, dict[int, dict[str, Took]]] = field(default_factory=dict)


def as_markdown(figures: Figures) -> str:
    """Return the tables."""
    lines = ["# Writing", "", *_beside(figures)]
    for engine, sizes in figures.growing.items():
        lines += _growing(engine, sizes)
    return "\n".join(lines)


def _beside(figures: Figures) -> Iterator[str]:
    if not figures.beside:
        return
    yield f"## Beside embedding alone: {figures.texts:,} texts of {figures.dataset}, embedded engine"
    yield ""
    cores = f"{os.cpu_count()} cores, shared with other work."
    aim = f"Aim: what is not embedding takes at most {AIM - 1:.0%} of the processor time of embedding alone."
    yield f"{cores} {aim}"
    yield ""
    heads = (
        "not embedding ÷ embedding alone",
        "all ÷ alone, processor",
        "all ÷ alone, time",
        "records/s",
        "alone, records/s",
    )
    yield f"| | {' | '.join(heads)} | |"
    yield "|---|---:|---:|---:|---:|---:|---|"
    for name, beside in figures.beside.items():
        took = beside.took
        more = beside.besides_processor_s / beside.alone_processor_s
        yield (
            f"| {name} | {more:.1%} | {took.processor_s / beside.alone_processor_s:.2f} "
            f"| {took.s / beside.alone_s:.2f} | {took.records / took.s:.1f} | {figures.texts / beside.alone_s:.1f} "
            f"| {'met' if more <= AIM - 1 else 'missed'} |"
        )
    yield ""


def _growing(engine: str, sizes: dict[int, dict[str, Took]]) -> Iterator[str]:
    yield f"## {engine.capitalize()} engine, with an encoder that costs next to nothing"
    yield ""
    yield "Memory is the most that the process held, in MiB, without the mapped parts of files (and with them)."
    yield ""
    yield "| | " + " | ".join(f"{size:,} records | records/s" for size in sizes) + " | largest ÷ smallest |"
    yield "|---|" + "---:|" * (2 * len(sizes) + 1)
    for name in next(iter(sizes.values())):
        rows = {size: tasks[name] for size, tasks in sizes.items() if name in tasks}
        cells = [
            f"{rows[size].own_mb:,.0f} ({rows[size].all_mb:,.0f}) | {_rate(size, rows[size])}"
            if size in rows
            else "– | –"
            for size in sizes
        ]
        yield f"| {name} | {' | '.join(cells)} | {_growth([took.own_mb for took in rows.values()])} |"
        filled = {size: took.before_mb for size, took in rows.items() if took.before_mb is not None}
        if filled:
            cells = [f"{filled[size]:,.0f} | " if size in filled else "– | " for size in sizes]
            yield f"| – until the indexes are compared | {' | '.join(cells)} | {_growth(list(filled.values()))} |"
    yield ""


def _growth(values: Sequence[float]) -> str:
    return f"{values[-1] / values[0]:.2f}"


def _rate(size: int, took: Took) -> str:
    return f"{size / took.s:,.0f}"
