"""Answers and figures on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.models import Source
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from braid.models import Answer, Citation, Path, Result
    from rich.console import Console

    from local.evaluate import Evaluation

STRANDS = {Source.VECTOR: "vector", Source.LEXICAL: "words", Source.KNOWLEDGE: "names", Source.GRAPH: "graph"}
COLOURS = {Source.VECTOR: "cyan", Source.LEXICAL: "green", Source.KNOWLEDGE: "yellow", Source.GRAPH: "magenta"}
WIDE = 100


def show_answer(console: Console, answer: Answer, *, explain: bool = False, limit: int | None = None) -> None:
    """Print the ranked and cited list; with ``explain`` also how it came about."""
    plan, total = answer.plan, answer.latency_ms.get("total", 0.0)
    line = f"{plan.strategy.value} · {plan.intent.value} · {len(answer.results)} results · {total:.0f} ms"
    console.print(Text(line, style="dim"))
    if answer.degraded:
        console.print(Text(f"degraded: {', '.join(answer.degraded)} did not answer", style="bold yellow"))
    if explain:
        _show_plan(console, answer)
    if not answer.results:
        console.print(Text("Nothing found.", style="yellow"))
    for result in answer.results[:limit]:
        _show_result(console, result, explain=explain)
    if answer.superseded:
        console.print(Text(f"{answer.superseded} superseded left out", style="dim"))
    if answer.truncated:
        console.print(Text("a hub was cut at its fan-out budget: more may be reachable", style="dim"))
    if answer.related_entities:
        names = list(dict.fromkeys(entity.name for entity in answer.related_entities))
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")  # noqa: PLR2004
        console.print(Text(f"related: {shown}", style="dim"))
    if explain:
        _show_latencies(console, answer)


def _show_result(console: Console, result: Result, *, explain: bool) -> None:
    head = Text()
    head.append(f"{result.rank:>2}. ", style="bold")
    head.append(result.title, style="bold")
    head.append(f"  {result.final:.2f} ", style="dim")
    for source in result.sources:
        head.append(f" {STRANDS[source]}", style=COLOURS[source])
    console.print(head)
    console.print(Padding(Text(result.citation.excerpt), (0, 0, 0, 4)))
    for path in result.paths[:1]:
        console.print(Padding(path_text(path), (0, 0, 0, 4)))
    console.print(Padding(Text(f"[{describe(result.citation)}] {result.id}", style="dim"), (0, 0, 0, 4)))
    if explain:
        console.print(Padding(_origin(result), (0, 0, 0, 4)))


def path_text(path: Path) -> Text:
    """Draw a walk: names, and the relationship types between them."""
    names = path.names or path.ids
    text = Text(names[0], style="magenta")
    inward = path.inward or (False,) * len(path.types)
    for kind, against, name in zip(path.types, inward, names[1:], strict=True):
        text.append(f" ←{kind}─ " if against else f" ─{kind}→ ", style="dim")
        text.append(name, style="magenta")
    return text


def describe(citation: Citation) -> str:
    """Say in a few words where a text can be read."""
    parts = [citation.type.value, citation.title]
    if citation.page is not None:
        parts.append(f"page {citation.page}")
    if citation.chunk_index is not None:
        parts.append(f"chunk {citation.chunk_index}")
    return ", ".join(parts)


def _origin(result: Result) -> Text:
    """Say which strand put the result where, and what fusion and rerank made of it."""
    scores = {
        Source.VECTOR: result.vector_score,
        Source.LEXICAL: result.lexical_score,
        Source.KNOWLEDGE: result.graph_score,
        Source.GRAPH: result.graph_score,
    }
    parts = []
    for source, rank in result.ranks.items():
        score = scores[source]
        parts.append(f"{STRANDS[source]} #{rank}" + (f" ({score:.3f})" if score is not None else ""))
    parts.append(f"fused #{result.fused_rank} ({result.combined_score:.3f})")
    if result.rerank_score is not None:
        parts.append(f"reranked {result.rerank_score:.3f}")
    parts.append(f"final #{result.rank}")
    text = " → ".join(parts)
    if result.reasons:
        text += f"; {'; '.join(result.reasons)}"
    return Text(text, style="dim")


def _show_plan(console: Console, answer: Answer) -> None:
    plan, weights = answer.plan, answer.weights
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    for number, reason in enumerate(plan.reasons):
        table.add_row("plan" if number == 0 else "", escape(reason))
    table.add_row("model", f"{plan.model_id or 'default'} ({plan.embedding_type.value})")
    table.add_row("weights", f"vector {weights.vector:.2f} · words {weights.lexical:.2f} · graph {weights.graph:.2f}")
    table.add_row("found", " · ".join(f"{name} {count}" for name, count in answer.counts.items()))
    table.add_row("trace", answer.trace_id)
    console.print(table)


def _show_latencies(console: Console, answer: Answer) -> None:
    stages = {name: value for name, value in answer.latency_ms.items() if name != "total"}
    longest = max(stages.values(), default=0.0) or 1.0
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(justify="right")
    table.add_column(style="cyan")
    for name, value in stages.items():
        table.add_row(name, f"{value:.1f} ms", "▇" * max(1, round(24 * value / longest)))
    table.add_row("total", f"{answer.latency_ms.get('total', 0.0):.1f} ms", "")
    console.print(table)


def show_evaluation(console: Console, evaluation: Evaluation) -> None:
    """Print one row a way of answering, with 95 % confidence intervals where the terminal is wide enough."""
    table = Table(title=f"{evaluation.dataset}: {evaluation.queries} judged questions", title_justify="left")
    table.add_column("row")
    metrics = list(evaluation.rows[0].means) if evaluation.rows else []
    for metric in metrics:
        table.add_column(metric, justify="right")
    best = {metric: max(row.means[metric] for row in evaluation.rows) for metric in metrics}
    wide = console.width >= WIDE
    for row in evaluation.rows:
        cells = [_cell(row.means[metric], row.intervals[metric], best[metric], wide=wide) for metric in metrics]
        table.add_row(row.name, *cells, style="bold" if row.name == "braid" else "")
    console.print(table)
    figures = evaluation.as_json()["latency_ms"]
    console.print(Text(f"braid, one question: p50 {figures['p50']:.0f} ms, p95 {figures['p95']:.0f} ms", style="dim"))
    if evaluation.degraded:
        console.print(Text(f"{evaluation.degraded} answers lost a stage: do not trust these figures", style="yellow"))


def _cell(mean: float, interval: tuple[float, float], best: float, *, wide: bool) -> Text:
    text = Text(f"{mean:.3f}".removeprefix("0") if mean < 1 else "1.00", style="green" if mean == best else "")
    if wide:
        text.append(f" ±{(interval[1] - interval[0]) / 2:.3f}".replace("±0", "±"), style="dim")
    return text


def show_citations(console: Console, citations: Sequence[Citation]) -> None:
    """Print where the answer can be read, once each."""
    for citation in citations:
        console.print(Text(f"  {describe(citation)}", style="dim"))
