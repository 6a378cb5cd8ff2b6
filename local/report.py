"""``python -m local.report FOLDER …``: evaluate dataset folders and write the figures into the documentation.

Figures in the documentation are never typed by hand: they stand between markers that this module fills.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from braid.wiring import wired

from local.evaluate import ROWS, evaluate_folder

if TYPE_CHECKING:
    from local.evaluate import Evaluation

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = (ROOT / "README.md", ROOT / "docs" / "evaluation.md")
METRICS = ("recall@2", "recall@5", "recall@10", "ndcg@10", "mrr")
LABELS = {
    "dense": "vectors alone",
    "lexical": "words alone",
    "hybrid": "vectors and words",
    "graph": "graph alone, from names",
    "braid": "**Braid, default**",
}


def summary_table(evaluations: list[Evaluation]) -> str:
    """Return recall@5 and nDCG@10 of every row, one pair of columns a dataset."""
    heads = " | ".join(f"{evaluation.dataset} ({evaluation.queries})" for evaluation in evaluations)
    lines = [f"| recall@5 · nDCG@10 | {heads} |", "|---|" + "---|" * len(evaluations)]
    for position, name in enumerate(ROWS):
        cells = []
        for evaluation in evaluations:
            means = evaluation.rows[position].means
            cells.append(f"{_short(means['recall@5'])} · {_short(means['ndcg@10'])}")
        lines.append(f"| {LABELS[name]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def full_tables(evaluations: list[Evaluation]) -> str:
    """Return every metric with its 95 % interval, one table a dataset."""
    parts = []
    for evaluation in evaluations:
        latency = evaluation.as_json()["latency_ms"]
        lines = [
            f"### {evaluation.dataset}",
            "",
            f"{evaluation.queries} questions; p50 {latency['p50']:.0f} ms, p95 {latency['p95']:.0f} ms in process.",
            "",
            "| | " + " | ".join(METRICS) + " |",
            "|---|" + "---|" * len(METRICS),
        ]
        for row in evaluation.rows:
            cells = [
                f"{_short(row.means[metric])} [{_short(row.intervals[metric][0])}, {_short(row.intervals[metric][1])}]"
                for metric in METRICS
            ]
            lines.append(f"| {LABELS[row.name]} | {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _short(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def fill(text: str, marker: str, content: str) -> str:
    """Replace what stands between a document's markers, if it has them."""
    begin, end = f"<!-- {marker} -->", f"<!-- end {marker} -->"
    pattern = re.compile(re.escape(begin) + r".*?" + re.escape(end), re.DOTALL)
    return pattern.sub(lambda _: f"{begin}\n{content}\n{end}", text)


def main(folders: list[str]) -> None:
    """Evaluate the folders and rewrite the documents."""
    if not folders:
        sys.exit("usage: python -m local.report FOLDER …   (each with queries.jsonl and qrels/test.tsv)")
    evaluations = [evaluate_folder(Path(folder), wired()) for folder in folders]
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        text = fill(text, "evaluation-summary", summary_table(evaluations))
        text = fill(text, "evaluation-full", full_tables(evaluations))
        document.write_text(text, encoding="utf-8")
        sys.stdout.write(f"wrote {document.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
