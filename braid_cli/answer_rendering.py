"""Renders answers on a terminal."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from braid.client.results import STRANDS
from braid.models import LIKELY, Asked, Fusion, Source, in_words
from braid.models.enums_and_scalars import on_one_line, values_in
from braid.models.query import NONE_WITH, NONE_WITHOUT, NOT_RELATED, NOTHING_PASSES
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from braid_cli.terminal import counted, out

if TYPE_CHECKING:
    from braid.app import Application
    from braid.ingestion.documents.progress import FolderDone
    from braid.models import Answer, Citation, FactSet, Path, RelatedEntity, Result
    from rich.console import Console

    from braid_cli.datasets.ingest import IngestReport

_COUNTED_VERTICES, _BEST_NAMES = 1_000, 5
COLOURS = {Source.VECTOR: "cyan", Source.LEXICAL: "green", Source.KNOWLEDGE: "yellow", Source.GRAPH: "magenta"}
MEANINGS = {
    Source.VECTOR: "similar in meaning",
    Source.LEXICAL: "has the question's words",
    Source.KNOWLEDGE: "the question names it, or it mentions what is named",
    Source.GRAPH: "reached from the others by the path shown",
}
ASKED = {
    Asked.ALL: "a whole list",
    Asked.COUNT: "a number",
    Asked.NOT: "what does not stand in a relation",
}
LOSSES = {
    "plan": "the question was not planned; a default plan was used",
    "embed": "the question was not embedded as planned; words and names count for more, vectors for less or nothing",
    "vector_search": "the search index did not answer; what is here was found by names and the graph",
    "space": "no vectors are stored for the model that embedded the question; words and the graph answered",
    "schema": "the schema registry did not answer; schema versions were not looked at",
    "link": "the knowledge graph did not look up the question's names",
    "graph_expand": "the knowledge graph was not walked",
    "text": "the records could not be read; ids stand for their texts",
    "facets": "the values of fields were not counted",
    "rerank": "the reranker did not answer; the order before it stands, with placeholder scores",
}
"""Message of each mark in an answer's ``degraded``."""
COMBINED = {
    Fusion.WEIGHTED: "weighted: each strand's score times its weight, added up",
    Fusion.RRF: "rrf: ranks and not scores, each strand by its weight",
    Fusion.PROPAGATE: "propagate: from the names and the best hits along the graph; the weights order what it missed",
}
"""Explanation of each fusion method."""
DATES = frozenset({"date", "timestamp"})
BY_DATE = "; --since and --until are conditions on the date of a document"
RELATED_SHOWN = 8


def show_answer(
    console: Console,
    answer: Answer,
    *,
    explain: bool = False,
    legend: bool = True,
    full: bool = False,
    moment: bool = False,
    as_of: bool = False,
    dated: bool = False,
) -> None:
    """Print an answer as a ranked and cited list.

    Parameters
    ----------
    explain
        Whether to print the plan and its reasons, the ranks and scores of each result, and timings.
    legend
        Whether to explain scores and strands.
    full
        Whether to print the whole text, dates and metadata of each result instead of an excerpt.
    moment
        Whether the question names a date, but was asked without ``--as-of``.
    as_of
        Whether it was asked for what was valid at another time than now.
    dated
        Whether it was asked for records of a period, which leaves out those without a timestamp.
    """
    plan, total, count = answer.plan, answer.latency_ms.get("total", 0.0), len(answer.results)
    line = f"{count} result{'' if count == 1 else 's'} in {total:.0f} ms"
    line += " from the cache" if answer.cached else ""
    console.print(Text(f"{line} · intent: {plan.intent.value} · strategy: {plan.strategy.value}", style="dim"))
    for stage in answer.degraded:
        console.print(Text(f"degraded: {LOSSES.get(stage, 'this stage was lost')} ({stage})", style="bold yellow"))
    if explain:
        _show_plan(console, answer)
    _show_confidence(console, answer)
    _show_remarks(console, answer)
    for result in answer.results:
        _show_result(console, result, explain=explain, full=full)
    _show_left_out(console, answer, moment=moment, as_of=as_of, dated=dated)
    if answer.related_entities:
        names = list(dict.fromkeys(entity.name for entity in answer.related_entities))
        more = len(names) - RELATED_SHOWN
        shown = ", ".join(names[:RELATED_SHOWN]) + (f" and {more} more" if more > 0 else "")
        console.print(Text(on_one_line(f"related: {shown}"), style="dim"))
    if explain:
        _show_latencies(console, answer)
    if legend and answer.results:
        _show_legend(console, answer)


def _show_left_out(console: Console, answer: Answer, *, moment: bool, as_of: bool, dated: bool) -> None:
    """Print what an answer leaves out, as :func:`show_answer` says."""
    if answer.superseded:
        left_out, verb = counted(answer.superseded, "record"), "is" if answer.superseded == 1 else "are"
        when = "at the time asked about" if as_of else "now"
        told = f"searched without {left_out} that {verb} not valid {when}"
        console.print(Text(told, style="dim"))
    if moment:
        told = (
            "the question names a date and is answered by what is valid now: "
            "--as-of, with a day such as 2024-05-31, asks what held then"
        )
        console.print(Text(told, style="dim"))
    if dated:
        console.print(Text("left out: all records without a timestamp, as of --since and --until", style="dim"))
    if answer.truncated:
        console.print(Text("the graph's part was cut short: more may be reachable", style="dim"))


def _show_remarks(console: Console, answer: Answer) -> None:
    """Print corrected names, an unanswered set, filter fields that no record has, and facet counts."""
    for phrase, name in answer.misspelt.items():
        console.print(Text(f"“{on_one_line(phrase)}” was read as {on_one_line(name)}", style="yellow"))
    if answer.set_not_answered:
        told = f"the question asks for {ASKED[answer.set_not_answered]}, which the graph did not answer"
        console.print(Text(told, style="yellow"))
    for field in answer.plan.unknown_fields:
        meant = BY_DATE if field in DATES else ""
        console.print(Text(f"no record has the field {on_one_line(field)!r} in its metadata{meant}", style="yellow"))
    if NOT_RELATED in answer.plan.reasons:
        console.print(Text(NOT_RELATED, style="yellow"))
    for reason in (NONE_WITH, NONE_WITHOUT):
        if reason in answer.plan.reasons:
            console.print(Text(f"none in the graph: {reason}", style="yellow"))
    if NOTHING_PASSES in answer.plan.reasons:
        told = "no record meets --where and the other filters; --facet FIELD without them shows the values"
        console.print(Text(told, style="yellow"))
    for field, values in answer.facets.items():
        told = ", ".join(f"{on_one_line(str(one.value))} ({one.count})" for one in values)
        told = told or f"no values{BY_DATE if field in DATES else ''}"
        console.print(Text(f"{on_one_line(field)}: {told}", style="dim"))


def _show_confidence(console: Console, answer: Answer) -> None:
    """Print the confidence, or that nothing was found."""
    if not answer.results:
        console.print(Text("Nothing found.", style="yellow"))
    else:
        told = f"{in_words(answer.confidence)} ({answer.confidence:.2f} of 1)"
        console.print(Text(told, style="dim" if answer.confidence >= LIKELY else "yellow"))


def _show_legend(console: Console, answer: Answer) -> None:
    """Print the meaning of the score and of the strands in this answer."""
    found = {source for result in answer.results for source in result.sources}
    table = Table.grid(padding=(0, 1))
    ranks = "from 0 to 1, higher is better; it ranks these results, and does not say that they answer"
    table.add_row(Text("score", style="bold"), Text(ranks, style="dim"))
    for source, meaning in MEANINGS.items():
        if source in found:
            table.add_row(Text(STRANDS[source], style=COLOURS[source]), Text(meaning, style="dim"))
    console.print()
    _print_trimmed(console, table, indent=0)


def _show_result(console: Console, result: Result, *, explain: bool, full: bool) -> None:
    head = Text()
    head.append(f"{result.rank:>2}. ", style="bold")
    head.append(on_one_line(result.title), style="bold")
    head.append(f"  score {result.final:.2f} ", style="dim")
    for source in result.sources:
        head.append(f" {STRANDS[source] if not result.facts else 'fact'}", style=COLOURS[source])
    console.print(head)
    lines = Table.grid(padding=(0, 1))
    lines.add_column()
    lines.add_column(overflow="fold")  # ids are not cut
    if result.facts:
        _show_facts(console, result.facts, title=result.title)
        return
    _print_trimmed(console, _whole_text(result) if full else _excerpt(result.citation))
    for path in result.paths[:1]:
        lines.add_row(Text("path", style="dim"), path_text(path))
    lines.add_row(Text("read", style="dim"), Text(where(result), style="dim"))
    if result.copies:
        lines.add_row(Text("also", style="dim"), Text(on_one_line(", ".join(result.copies)), style="dim"))
    for name, told in _dates(result) if full else ():
        lines.add_row(Text(name, style="dim"), Text(told))
    for name, value in result.metadata.items() if full else ():
        lines.add_row(Text(on_one_line(name), style="dim"), Text(on_one_line(", ".join(map(str, values_in(value))))))
    if explain:
        lines.add_row(Text("rank", style="dim"), _origin(result))
        if result.reasons:
            lines.add_row(Text("why", style="dim"), Text("; ".join(result.reasons), style="dim"))
    _print_trimmed(console, lines)


def _print_trimmed(console: Console, shown: Text | Table, *, indent: int = 4) -> None:
    """Print a text or table without the blanks that would fill up its lines."""
    for segments in console.render_lines(Padding(shown, (0, 0, 0, indent), expand=False), pad=False):
        line = Text.assemble(*((segment.text, segment.style or "") for segment in segments))
        line.rstrip()
        console.print(line, no_wrap=True, overflow="ignore", crop=False)


def _dates(result: Result) -> list[tuple[str, str]]:
    """Return the dates of a result that it has, in UTC, by the names of their fields; midnight is left out."""
    named = (("timestamp", result.timestamp), ("valid_at", result.valid_at), ("invalid_at", result.invalid_at))
    return [
        (name, f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC".removesuffix(" 00:00:00 UTC"))
        for name, when in named
        if when
    ]


def _show_facts(console: Console, facts: FactSet, *, title: str) -> None:
    """Print each fact with its validity and its evidence; its sentence only if the title does not say it."""
    for fact in facts.facts:
        path, cited = fact.path, fact.citation
        since = f"since {path.valid_at:%Y-%m-%d}" if path.valid_at else ""
        until = f"until {path.invalid_at:%Y-%m-%d}" if path.invalid_at else ""
        known = f"from {cited.title}{'' if cited.page is None else f', page {cited.page}'}" if cited else ""
        said = [] if fact.text == title or not path.types else [on_one_line(fact.text)]
        line = Text(" · ").join(
            [*map(Text, said), *(Text(on_one_line(part), style="dim") for part in (since, until, known) if part)]
        )
        if line:
            _print_trimmed(console, line)
    if len({fact.answer for fact in facts.facts}) < facts.count:
        _print_trimmed(console, Text(f"… of {facts.count}", style="dim"))


def _excerpt(citation: Citation) -> Text:
    """Return the excerpt, with the sentence closest to the question in bold."""
    said = citation.excerpt
    first, last = citation.marked or (0, 0)
    parts = (said[:first], ""), (said[first:last], "bold"), (said[last:], "")
    return Text.assemble(*((on_one_line(part), style) for part, style in parts))


def _whole_text(result: Result) -> Text:
    """Return a result's full text with its line breaks, the sentence that fits the question best in bold."""
    said = result.content or ""
    first, last = result.marked or (0, 0)
    shown = Text()
    for part, style in ((said[:first], ""), (said[first:last], "bold"), (said[last:], "")):
        shown.append("\n".join(map(on_one_line, part.split("\n"))), style=style)
    return shown


def path_text(path: Path) -> Text:
    """Render a path: names, and the relationship types between them."""
    names = path.names or path.ids
    text = Text(on_one_line(names[0]), style="magenta")
    inward = path.inward or (False,) * len(path.types)
    for kind, against, name in zip(path.types, inward, names[1:], strict=True):
        text.append(f" ←{kind}─ " if against else f" ─{kind}→ ", style="dim")
        text.append(on_one_line(name), style="magenta")
    return text


def where(result: Result) -> str:
    """Return the citation of a result in one line, with the headings above it in its document, and its date."""
    citation = result.citation
    parts = [citation.type.value if citation.title == result.title else f"{citation.type.value} “{citation.title}”"]
    if heading := result.metadata.get("heading"):
        parts.append(f"“{heading}”")
    if citation.page is not None:
        parts.append(f"page {citation.page}")
    if citation.chunk_index is not None:
        parts.append(f"chunk {citation.chunk_index}")
    if result.timestamp:
        parts.append(f"{result.timestamp.astimezone(UTC):%Y-%m-%d}")
    return on_one_line(f"{', '.join(parts)} · {result.id}")


def _origin(result: Result) -> Text:
    """Return a result's ranks and scores: in each strand, after fusion, after reranking, and final."""
    scores = {
        Source.VECTOR: result.vector_score,
        Source.LEXICAL: result.lexical_score,
        Source.KNOWLEDGE: result.graph_score,
        Source.GRAPH: result.graph_score,
    }
    found = []
    for source, rank in result.ranks.items():
        score = scores[source]
        found.append(f"{STRANDS[source]} #{rank}" + (f" ({score:.3f})" if score is not None else ""))
    parts = [", ".join(found), f"fused #{result.fused_rank} ({result.combined_score:.3f})"]
    if result.rerank_score is not None:
        parts.append(f"reranked ({result.rerank_score:.3f})")
    parts.append(f"final #{result.rank} ({result.final:.3f})")
    return Text(" → ".join(parts), style="dim")


def _show_plan(console: Console, answer: Answer) -> None:
    plan, weights = answer.plan, answer.weights
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    for number, reason in enumerate(plan.reasons):
        table.add_row("plan" if number == 0 else "", escape(reason))
    table.add_row("model", f"{plan.model_id or 'default'} ({plan.embedding_type.value})")
    if names := [entity for entity in answer.related_entities if entity.linked]:
        table.add_row("names", Text(", ".join(map(_named, names))))
    table.add_row("combined", COMBINED[answer.fusion])
    table.add_row("weights", f"vectors {weights.vector:.2f} · words {weights.lexical:.2f} · graph {weights.graph:.2f}")
    counts = {STRANDS[Source(name)] if name in set(Source) else name: count for name, count in answer.counts.items()}
    table.add_row("found", " · ".join(f"{name} {count}" for name, count in counts.items()))
    table.add_row("trace", answer.trace_id)
    _print_trimmed(console, table, indent=0)


def _named(entity: RelatedEntity) -> str:
    """Return the name of an entity that the question names, with the certainty of the link."""
    sure = "" if entity.certainty is None else f" ({entity.certainty:.0%} sure)"
    return f"{on_one_line(entity.name)}{sure}"


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
    _print_trimmed(console, table, indent=0)


def print_found_names(done: IngestReport | FolderDone, application: Application, tenant: str) -> None:
    """Print how many names and mentions an ingest found and removed; of a small graph also its best connected names."""
    from braid.retrieval.listing import best_connected

    if done.mentions:
        out.print(f"found in the texts: {counted(done.names, 'new name')}, {counted(done.mentions, 'mention')}")
        page = best_connected(application.graph, tenant, read=_COUNTED_VERTICES)
        best = [f"{vertex.name} ({ties:,})" for vertex, ties in page.vertices if ties]
        if best and page.cursor is None:
            told = ", ".join(best[:_BEST_NAMES])
            out.print(f"best connected: {on_one_line(told)}", markup=False, soft_wrap=True)
    if done.unmentioned:
        out.print(f"no longer found in them: {counted(done.unmentioned, 'mention')}, removed")
