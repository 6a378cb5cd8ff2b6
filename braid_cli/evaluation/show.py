"""Renders an evaluation on a terminal: scores by configuration, by group, and failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.client.results import STRANDS
from braid.models.enums_and_scalars import on_one_line
from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from braid_cli.answer_rendering import COLOURS, path_text
from braid_cli.evaluation.configurations import DEFAULT
from braid_cli.evaluation.metrics import METRICS
from braid_cli.evaluation.run import within
from braid_cli.evaluation.worst_questions import INSTEAD
from braid_cli.terminal import print_heading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from braid.models import Result, Source
    from rich.console import Console

    from braid_cli.evaluation.calibration import Reliability
    from braid_cli.evaluation.metrics import Difference
    from braid_cli.evaluation.run import Evaluation
    from braid_cli.evaluation.worst_questions import Failure, RelevantRecord

WIDE, NAMED, MIDDLE = 112, 82, 78
_NAMED = 5
"""Most records that are named as not stored."""
SIGNIFICANCE = 0.05
"""p-value below which a difference is significant."""
COMPARED = "ndcg@10"
_WORSE = (
    "{strand} alone ranks better than the default here: `--failures 20` shows where, `braid tune` fits the weights to "
    "these questions, and `braid ingest … --graph given` leaves out names that are found in texts"
)
"""Hint if the default configuration ranks worse than one strand."""


def format_score(value: float, *, signed: bool = False) -> str:
    """Format a score with three decimals and without the leading zero: .512 for 0.512."""
    value = round(value, 3) + 0.0  # turns -0.0 into 0.0
    text = f"{value:+.3f}" if signed else f"{value:.3f}"
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def format_interval(interval: tuple[float, float]) -> str:
    """Format the interval of a difference, with signs."""
    low, high = (format_score(bound, signed=True) for bound in interval)
    return f"[{low}, {high}]"


def show_evaluation(console: Console, evaluation: Evaluation) -> None:
    """Print one row for each configuration, with intervals, differences and latencies as far as the width allows."""
    console.print(
        Text(f"{on_one_line(evaluation.dataset)}: {len(evaluation.questions)} judged questions", style="bold")
    )
    wide, middle = console.width >= WIDE, console.width >= MIDDLE
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("row", no_wrap=True)
    for metric in METRICS:
        whole = console.width >= NAMED
        table.add_column(metric if whole else metric.replace("recall", "r"), justify="right", no_wrap=True)
    if middle:
        table.add_column("Δ ndcg", justify="right", no_wrap=True)
        table.add_column("p", justify="right", no_wrap=True)
    if wide:
        table.add_column("p50", justify="right", no_wrap=True)
        table.add_column("p95 ms", justify="right", no_wrap=True)
    best = {metric: max(row.figures.means[metric] for row in evaluation.rows) for metric in METRICS}
    for row in evaluation.rows:
        cells = [
            _cell(row.figures.means[metric], row.figures.intervals[metric], best[metric], wide=wide)
            for metric in METRICS
        ]
        if middle:
            cells += _change(row.against)
        if wide:
            cells += [Text(f"{row.latency(50):.0f}", style="dim"), Text(f"{row.latency(95):.0f}", style="dim")]
        table.add_row(row.name, *cells, style="bold" if row.name == DEFAULT else "")
    console.print(table)
    meanings = Table.grid(padding=(0, 1))
    for row in evaluation.rows:
        meanings.add_row(Text(row.name, style="dim bold"), Text(row.meaning, style="dim"))
    console.print(meanings)
    notes = ["1 is best; * is the best row"]
    notes += ["± half of the 95 % confidence interval"] if wide else []
    notes += ["Δ against the row before, and p, how often chance alone makes as large a difference"] if middle else []
    console.print(Text("; ".join(notes), style="dim"))
    _show_default(console, evaluation)


def _show_default(console: Console, evaluation: Evaluation) -> None:
    """Print further figures of the default configuration."""
    if evaluation.against_best:
        console.print(Text(_best_strand(evaluation.against_best), style="dim"))
        if evaluation.against_best.means[COMPARED] < 0:
            console.print(Text(_WORSE.format(strand=evaluation.against_best.against), style="yellow"))
    if evaluation.confidence:
        console.print(Text(reliability_line(evaluation.confidence), style="dim"))
    default = evaluation.default
    console.print(
        Text(f"braid, one question: p50 {default.latency(50):.0f} ms, p95 {default.latency(95):.0f} ms", style="dim")
    )
    origin = "a fitted file" if evaluation.fitted else "the documented defaults"
    console.print(Text(f"parameters of fusion: {origin} ({evaluation.parameters})", style="dim"))
    if evaluation.degraded:
        console.print(Text(f"{evaluation.degraded} answers lost a stage: do not trust these figures", style="yellow"))
    if evaluation.not_stored:
        console.print(Text(_not_stored(evaluation.not_stored), style="yellow"))


def _not_stored(ids: Sequence[str]) -> str:
    are = "judged record is not stored, and counts" if len(ids) == 1 else "judged records are not stored, and count"
    named = ", ".join([*map(on_one_line, ids[:_NAMED]), *(["…"] if len(ids) > _NAMED else [])])
    return f"{len(ids):,} {are} as not found: {named}"


def reliability_line(confidence: Reliability) -> str:
    """Return the AUROC and calibration error of confidence as a line of text."""
    auroc = confidence.auroc
    told = "none answered, or all" if auroc is None else f"AUROC {format_score(auroc)}"
    return f"Confidence: {told}, expected calibration error {format_score(confidence.calibration_error)}"


def _best_strand(against: Difference) -> str:
    parts = [
        f"{metric} {format_score(against.means[metric], signed=True)} "
        f"{format_interval(against.intervals[metric])} p {format_p(against.p[metric])}"
        for metric in ("recall@5", COMPARED)
    ]
    return f"{DEFAULT} against the best strand alone, {against.against}: {'; '.join(parts)}"


def _cell(mean: float, interval: tuple[float, float], best: float, *, wide: bool) -> Text:
    star = "*" if mean == best else "" if wide else " "  # visible without colours; the blank keeps columns aligned
    text = Text(f"{format_score(mean)}{star}", style="green" if mean == best else "")
    if wide:
        text.append(f" ±{(interval[1] - interval[0]) / 2:.3f}".replace("±0", "±"), style="dim")
    return text


def _change(against: Difference | None) -> list[Text]:
    if against is None:
        return [Text(), Text()]
    change, chance = against.means[COMPARED], against.p[COMPARED]
    sure = chance < SIGNIFICANCE
    style = ("green" if change > 0 else "red") if sure else "dim"
    return [Text(format_score(change, signed=True), style=style), Text(format_p(chance), style="" if sure else "dim")]


def format_p(p: float) -> str:
    """Format a p-value with three decimals, or as ``<.001``."""
    return "<.001" if p < 0.001 else format_score(p)  # noqa: PLR2004 - the last digit that is printed


def show_groups(console: Console, evaluation: Evaluation, field: str) -> None:
    """Print nDCG@10 of every row, grouped by a field of the questions.

    Raises InvalidRequest if no question has the field.
    """
    groups = evaluation.groups(field)
    console.print()
    console.print(Text(f"{on_one_line(evaluation.dataset)}: {COMPARED} by {on_one_line(field)}", style="bold"))
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("row", no_wrap=True)
    values: dict[str, Mapping[str, float]] = {
        value: {row.name: within(row, ids)[COMPARED] for row in evaluation.rows} for value, ids in groups.items()
    }
    for value, ids in groups.items():
        heading = Text(f"{on_one_line(value.replace('_', ' '))}\n{len(ids)}")
        table.add_column(heading, justify="right", min_width=5, overflow="fold")
    for row in evaluation.rows:
        cells = [_cell(scores[row.name], (0.0, 0.0), max(scores.values()), wide=False) for scores in values.values()]
        table.add_row(row.name, *cells, style="bold" if row.name == DEFAULT else "")
    console.print(table)
    console.print(Text("below each kind how many questions it has; * is its best row", style="dim"))


def show_failures(console: Console, failures: Sequence[Failure], *, at_most: int = 0) -> None:
    """Print each failure: the relevant records with their ranks, and the results instead, with reasons.

    ``at_most`` is the number of failures that were asked for; of fewer it is said that there are no others.
    """
    console.print()
    if not failures:
        console.print(Text("Every relevant record is among the first five of its question.", style="green"))
        return
    for number, failure in enumerate(failures, start=1):
        _show_failure(console, number, failure)
    if len(failures) < at_most:
        console.print(Text("Every relevant record of the other questions is among the first five.", style="green"))


def _show_failure(console: Console, number: int, failure: Failure) -> None:
    plan, weights = failure.answer.plan, failure.answer.weights
    said = [f"{name} {value}" for name, value in failure.question.metadata.items() if name in {"kind", "type", "hops"}]
    print_heading(console, Text(f"{number}. {on_one_line(failure.question.id)}"), style="dim")
    console.print(Text("? ", style="bold cyan").append(on_one_line(failure.question.query.text), style="bold"))
    parts = [
        *said,
        f"intent {plan.intent.value}",
        plan.strategy.value,
        f"weights: vectors {weights.vector:.2f}, words {weights.lexical:.2f}, graph {weights.graph:.2f}",
        f"ndcg@10 {format_score(failure.ndcg)}",
    ]
    console.print(Text(on_one_line(" · ".join(parts)), style="dim"))
    console.print(Text("should have come", style="bold"))
    for record in failure.relevant:
        console.print(Padding(_relevant(record), (0, 0, 0, 2), expand=False))
    console.print(Text(f"came instead, the first {INSTEAD}", style="bold"))
    for result in failure.answer.results[:INSTEAD]:
        console.print(
            Padding(_instead(result, relevant=result.id in failure.question.relevant), (0, 0, 0, 2), expand=False)
        )


def _relevant(record: RelevantRecord) -> Table:
    final = record.final_rank
    shown = Text(f"#{final}" if final else "–", style="green" if final and final <= INSTEAD else "red")
    head = Text(on_one_line(record.title), style="bold").append(f"  {on_one_line(record.id)}", style="dim")
    lines = Table.grid(padding=(0, 1))
    lines.add_column(width=4, justify="right")
    lines.add_column()
    lines.add_row(shown, head)
    if record.beginning:
        lines.add_row("", Text(on_one_line(record.beginning)))
    stood = Text(record.verdict, style="" if record.strands else "red")
    for source, rank in record.strands.items():
        stood.append(" · ").append(f"{STRANDS[source]} #{rank}", style=COLOURS[source])
    if record.fused_rank:
        stood.append(f" · fused #{record.fused_rank}", style="dim")
    lines.add_row("", stood)
    return lines


def _instead(result: Result, *, relevant: bool) -> Table:
    lines = Table.grid(padding=(0, 1))
    lines.add_column(width=4, justify="right")
    lines.add_column()
    head = Text(on_one_line(result.title), style="green" if relevant else "")
    head.append(f"  {result.final:.2f}", style="dim")
    for source, rank in result.ranks.items():
        head.append(f"  {STRANDS[source]} #{rank}", style=COLOURS[source]).append(_score(result, source), style="dim")
    lines.add_row(Text(f"{result.rank}.", style="green" if relevant else "dim"), head)
    if result.paths:
        lines.add_row("", path_text(result.paths[0]))
    elif result.reasons:
        lines.add_row("", Text(on_one_line(result.reasons[0]), style="dim"))
    return lines


def _score(result: Result, source: Source) -> str:
    scores = {"vector": result.vector_score, "lexical": result.lexical_score}
    value = scores.get(source.value, result.graph_score)
    return "" if value is None else f" ({value:.2f})"
