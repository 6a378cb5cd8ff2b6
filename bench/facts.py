"""Measures fact answers: recall of the first result on the questions of ``facts_judged.jsonl``.

Each question has the ids of its answers, and the half that it belongs to: the second was held out until the end, and
decision 0210 has its figures of that time. The demo corpora are included; other datasets are given as folders.
"""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from braid.app import Application
from braid.models import Query
from braid.retrieval import pipeline
from braid.settings import Settings

from braid_cli.datasets.dataset import read_dataset
from braid_cli.datasets.ingest import ingest
from braid_cli.evaluation.run import TENANT, isolated_engines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from braid.models import Answer

HERE = Path(__file__).resolve().parent
QUESTIONS = HERE / "facts_judged.jsonl"
DEMO = HERE.parent / "braid_cli" / "demo"


@dataclass(frozen=True)
class Judged:
    """Figures of one group of questions."""

    group: str
    half: int
    questions: int
    recall: float
    """Mean share of the answers that the first result gives."""
    exact: float
    """Share of questions of which the first result gives just the answers, and their number."""


def measure(
    folders: Sequence[Path], say: Callable[[str], None] = print, halves: Sequence[int] = (1, 2)
) -> list[Judged]:
    """Ask every question of the demo corpora and of these datasets."""
    lines = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    known = {folder.name: folder for folder in (DEMO / "saltmarrow", DEMO / "pellworth", *folders)}
    scored: dict[tuple[int, str], list[tuple[float, bool]]] = defaultdict(list)
    application = Application(Settings())
    for name, folder in known.items():
        dataset = read_dataset(folder, TENANT, judged=True)
        with closing(isolated_engines(dataset, application)) as own:
            ingest(dataset, own)
            for line in lines:
                if line["corpus"] != name or line["half"] not in halves:
                    continue
                answer = pipeline.answer(Query(text=line["text"], tenant_id=TENANT), own)
                recall, exact = score(answer, set(line["answers"]))
                scored[line["half"], name].append((recall, exact))
                if recall < 1.0 or not exact:
                    first = str(answer.results[0]) if answer.results else "nothing"
                    say(f"{line['half']} {name} {recall:.2f} {line['text']} | {first}")
    everything = {half: [one for (own, _), found in scored.items() if own == half for one in found] for half in halves}
    groups = [(half, name, found) for (half, name), found in scored.items()]
    return [
        Judged(name, half, len(found), sum(one for one, _ in found) / len(found), sum(e for _, e in found) / len(found))
        for half, name, found in [*groups, *((half, "all", found) for half, found in everything.items())]
        if found
    ]


def score(answer: Answer, wanted: set[str]) -> tuple[float, bool]:
    """Return the share of the answers that the first result gives, and whether it gives just these."""
    if not answer.results:
        return 0.0, False
    first = answer.results[0]
    given = {fact.answer for fact in first.facts.facts} if first.facts else {first.id}
    count = first.facts.count if first.facts else 1
    return len(given & wanted) / len(wanted), given == wanted and count == len(wanted)


def as_markdown(measured: Sequence[Judged]) -> str:
    """Return the figures as a page."""
    rows = [
        f"| {one.group} | {one.half} | {one.questions} | {one.recall:.3f} | {one.exact:.3f} |"
        for one in sorted(measured, key=lambda one: (one.half, one.group))
    ]
    head = ["# Facts as answers", "", str(__doc__)]
    head += ["| corpus | half | questions | recall@1 | exact |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"
