"""``python -m braid_cli.evaluation.published_figures FOLDER …``: evaluate dataset folders and document the figures.

The figures are written between markers in README.md and docs/evaluation.md.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from braid.app import Application, application
from braid.models import GraphSource

from braid_cli.evaluation.configurations import DEFAULT, configurations
from braid_cli.evaluation.metrics import METRICS
from braid_cli.evaluation.plots import draw
from braid_cli.evaluation.run import INTENT, evaluate_folder, within
from braid_cli.evaluation.show import format_interval, format_p, format_score, reliability_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from braid_cli.evaluation.metrics import Difference
    from braid_cli.evaluation.run import Evaluation, Row

ROOT = Path(__file__).resolve().parents[2]
README, DETAILS = Path("README.md"), Path("docs/evaluation.md")
PICTURES = "evaluation"
"""Folder of the plots, beside the document."""
SHOWN = "recall at each rank, quality against latency, and confidence against what is answered"
PLAIN = "hybrid-weighted"
SUMMARY = {
    "dense": "vectors alone",
    "lexical": "words alone",
    PLAIN: "vectors and words",
    "graph": "graph alone, from names",
    DEFAULT: "**Braid, default**",
}
GRAPH_METRICS = ("recall@2", "recall@5", "ndcg@10")


def summary_table(evaluations: Sequence[Evaluation]) -> str:
    """Return a table of recall@5 and nDCG@10 of the main rows, one line for each dataset."""
    lines = [f"| recall@5 · nDCG@10 | {' | '.join(SUMMARY.values())} |", "|---|" + "---|" * len(SUMMARY)]
    for evaluation in evaluations:
        means = [evaluation.row(name).figures.means for name in SUMMARY]
        cells = [f"{format_score(values['recall@5'])} · {format_score(values['ndcg@10'])}" for values in means]
        lines.append(f"| {evaluation.dataset} ({len(evaluation.questions)}) | {' | '.join(cells)} |")
    return "\n".join(lines)


def graph_table(evaluations: Sequence[Evaluation], by_graph: Mapping[GraphSource, Sequence[Evaluation]]) -> str:
    """Return a table of the default's figures with each graph source, and of vectors and words without a graph."""
    heads = [f"graph {source}" for source in by_graph]
    lines = [
        f"| recall@2 · recall@5 · nDCG@10 | vectors and words | {' | '.join(heads)} |",
        "|---|---|" + "---|" * len(heads),
    ]
    for at, evaluation in enumerate(evaluations):
        rows = [evaluation.row(PLAIN), *(measured[at].default for measured in by_graph.values())]
        cells = [" · ".join(format_score(row.figures.means[metric]) for metric in GRAPH_METRICS) for row in rows]
        lines.append(f"| {evaluation.dataset} ({len(evaluation.questions)}) | {' | '.join(cells)} |")
    return "\n".join(lines)


def full_section(evaluation: Evaluation) -> str:
    """Return the section of one dataset: plot, ablation, breakdowns."""
    default = evaluation.default
    origin = "fitted" if evaluation.fitted else "the documented defaults"
    parts = [
        f"### {evaluation.dataset}",
        (
            f"{len(evaluation.questions)} questions; the default answers one in {default.latency(50):.0f} ms (p50), "
            f"{default.latency(95):.0f} ms (p95), in process; parameters of fusion: {origin}."
        ),
        f"![{SHOWN}]({PICTURES}/{evaluation.file_name}.svg)",
        _ablation(evaluation),
    ]
    if evaluation.against_best:
        parts.append(_best_strand(evaluation.against_best))
    if evaluation.confidence:
        parts.append(f"{reliability_line(evaluation.confidence)}.")
    parts += [_breakdown(evaluation, field) for field in evaluation.fields() if field != INTENT]
    return "\n\n".join(parts)


def _ablation(evaluation: Evaluation) -> str:
    lines = [
        "| | " + " | ".join(METRICS) + " | Δ ndcg@10 (p) | p50 ms |",
        "|---|" + "---|" * (len(METRICS) + 2),
    ]
    for row in evaluation.rows:
        cells = [
            f"{format_score(row.figures.means[metric])} [{format_score(row.figures.intervals[metric][0])}, "
            f"{format_score(row.figures.intervals[metric][1])}]"
            for metric in METRICS
        ]
        change = ""
        if row.against:
            change = f"{format_score(row.against.means['ndcg@10'], signed=True)} ({format_p(row.against.p['ndcg@10'])})"
        lines.append(f"| {_label(row)} | {' | '.join(cells)} | {change} | {row.latency(50):.0f} |")
    return "\n".join(lines)


def _label(row: Row) -> str:
    return f"**{row.name}**" if row.name == DEFAULT else row.name


def _best_strand(against: Difference) -> str:
    clauses = [
        f"{format_score(against.means[metric], signed=True)} {metric} "
        f"{format_interval(against.intervals[metric])}, p {format_p(against.p[metric])}"
        for metric in ("recall@5", "ndcg@10")
    ]
    return f"Default against the best strand alone, {against.against}: {'; '.join(clauses)}."


def _breakdown(evaluation: Evaluation, field: str) -> str:
    groups = evaluation.groups(field)
    heads = " | ".join(f"{value.replace('_', ' ')} ({len(ids)})" for value, ids in groups.items())
    lines = [f"| nDCG@10 by {field} | {heads} |", "|---|" + "---|" * len(groups)]
    for row in evaluation.rows:
        cells = [format_score(within(row, ids)["ndcg@10"]) for ids in groups.values()]
        lines.append(f"| {_label(row)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def fill(text: str, marker: str, content: str) -> str:
    """Return a document with the text between two markers replaced, if it has them."""
    begin, end = f"<!-- {marker} -->", f"<!-- end {marker} -->"
    pattern = re.compile(re.escape(begin) + r".*?" + re.escape(end), re.DOTALL)
    return pattern.sub(lambda _: f"{begin}\n{content}\n{end}", text)


def write(evaluations: Sequence[Evaluation], into: Path, *, graphs: str = "") -> list[Path]:
    """Fill the documents and draw the plots, under the root ``into``; return the written files."""
    written = []
    for document in (README, DETAILS):
        text = (ROOT / document).read_text(encoding="utf-8")
        text = fill(text, "evaluation-summary", summary_table(evaluations))
        text = fill(text, "evaluation-graphs", graphs)
        text = fill(text, "evaluation-full", "\n\n".join(full_section(one) for one in evaluations))
        (into / document).parent.mkdir(parents=True, exist_ok=True)
        (into / document).write_text(text, encoding="utf-8")
        written.append(into / document)
    for evaluation in evaluations:
        written += draw(evaluation, (into / DETAILS).parent / PICTURES)
    return written


def measured_by_graph(folders: Sequence[Path], engines: Application) -> dict[GraphSource, list[Evaluation]]:
    """Evaluate the default configuration with only the found and with only the given graph."""
    default = configurations(engines.settings)[-1:]
    measured: dict[GraphSource, list[Evaluation]] = {}
    for source in (GraphSource.FOUND, GraphSource.GIVEN):
        own = Application(engines.settings.model_copy(update={"graph": source}))
        measured[source] = [
            evaluate_folder(folder, own, configurations=default, with_confidence=False) for folder in folders
        ]
    return measured


def main(arguments: Sequence[str]) -> None:
    """Evaluate the folders and rewrite the documents."""
    parser = argparse.ArgumentParser(prog="python -m braid_cli.evaluation.published_figures", description=__doc__)
    parser.add_argument(
        "folders",
        nargs="+",
        type=Path,
        metavar="FOLDER",
        help="dataset folder with queries.jsonl and qrels/test.tsv; its subfolders may have further queries",
    )
    parser.add_argument(
        "--into", type=Path, default=ROOT, metavar="DIR", help="root to write to; default: this checkout"
    )
    chosen = parser.parse_args(arguments)
    engines = application()
    evaluations = [
        evaluate_folder(folder, engines, questions=questions)
        for folder in chosen.folders
        for questions in (None, *sorted(path.parent.name for path in folder.glob("*/queries.jsonl")))
    ]
    with_graph = [folder for folder in chosen.folders if (folder / "relationships.jsonl").is_file()]
    of_folders = [one for one in evaluations if one.dataset in {folder.name for folder in with_graph}]
    # The first evaluations used both graphs; in a folder ingested again, names are found with all texts known.
    by_graph = measured_by_graph(with_graph, engines) | {GraphSource.BOTH: of_folders}
    graphs = graph_table(of_folders, by_graph)
    for path in write(evaluations, chosen.into, graphs=graphs):
        sys.stdout.write(f"wrote {path}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
