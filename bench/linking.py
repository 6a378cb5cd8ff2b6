"""Measures entity linking in questions: precision and recall on questions labelled by hand.

The questions over the demo corpora are in ``tests/linking_sample.jsonl``. For the judged datasets, which are not
included, ``linking_labels.json`` has only ids; their folders are given as arguments.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from braid.app import Application
from braid.retrieval.stages.name_linking import linked_names
from braid.settings import Settings
from braid.understanding.tokens import normalise

from braid_cli.datasets.dataset import read_dataset

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from braid.models import EntityLink

    from braid_cli.datasets.dataset import Dataset

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "braid_cli" / "demo"
SAMPLE = ROOT / "tests" / "linking_sample.jsonl"
LABELS = Path(__file__).resolve().parent / "linking_labels.json"
CERTAIN = 0.5
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Labelled:
    """A question, and the ids of what it names. What is in ``also`` counts neither way."""

    group: str
    text: str
    meant: frozenset[str]
    also: frozenset[str]


@dataclass(frozen=True)
class Judged:
    """What was linked of one group of questions; shares in [0, 1]."""

    group: str
    questions: int
    meant: int
    precision: float
    recall: float
    f1: float
    all_precision: float
    all_recall: float
    all_f1: float


def measure(folders: Sequence[Path]) -> list[Judged]:
    """Link the labelled questions over the demo corpora and over these datasets; no encoder is needed."""
    outcomes: dict[str, list[tuple[Labelled, list[EntityLink]]]] = defaultdict(list)
    for dataset, questions in _samples(folders):
        for question, links in _linked(dataset, questions):
            outcomes[question.group].append((question, links))
    return [_judged(group, answered) for group, answered in outcomes.items()]


def _samples(folders: Iterable[Path]) -> Iterable[tuple[Dataset, list[Labelled]]]:
    lines = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    for corpus in sorted({line["corpus"] for line in lines}, reverse=True):
        own = [line for line in lines if line["corpus"] == corpus]
        questions = [
            _labelled("demo" if line["kind"] == "demo" else f"by hand: {line['kind']}", line["text"], line)
            for line in own
        ]
        yield read_dataset(DEMO / corpus, corpus, judged=True), questions
    labels = json.loads(LABELS.read_text(encoding="utf-8"))
    for folder in folders:
        dataset = read_dataset(folder, folder.name, judged=True)
        judged = labels[dataset.name]
        asked = [question for question in dataset.judged if question.id in judged]
        yield dataset, [_labelled(dataset.name, each.query.text, judged[each.id]) for each in asked]


def _labelled(group: str, text: str, label: dict[str, list[str]]) -> Labelled:
    return Labelled(group=group, text=text, meant=frozenset(label["meant"]), also=frozenset(label["also"]))


def _linked(dataset: Dataset, questions: Iterable[Labelled]) -> Iterable[tuple[Labelled, list[EntityLink]]]:
    names = {vertex.id: normalise(vertex.name or "") for vertex in dataset.vertices}
    titled = {record.id for record in dataset.records}
    with tempfile.TemporaryDirectory() as home:
        graph = Application(Settings(home=Path(home))).graph
        graph.upsert(dataset.vertices, ())
        for question in questions:
            # A page that is named after what is meant ("Postmortem: Keelson write freeze") is neither right nor wrong.
            named = {f" {names[identity]} " for identity in question.meant if names[identity]}
            pages = {page for page in titled if any(name in f" {names.get(page, '')} " for name in named)}
            also = question.also | (pages - question.meant)
            links = linked_names(graph, dataset.tenant_id, question.text, as_of=NOW)
            yield question, [link for link in links if link.entity_id not in also]


def _judged(group: str, answered: Sequence[tuple[Labelled, list[EntityLink]]]) -> Judged:
    meant = sum(len(question.meant) for question, _ in answered)
    certain, everything = (
        _shares(
            meant, [(question, [link for link in links if link.certainty >= least]) for question, links in answered]
        )
        for least in (CERTAIN, 0.0)
    )
    return Judged(group, len(answered), meant, *certain, *everything)


def _shares(meant: int, answered: Sequence[tuple[Labelled, list[EntityLink]]]) -> tuple[float, float, float]:
    linked = sum(len(links) for _, links in answered)
    right = sum(link.entity_id in question.meant for question, links in answered for link in links)
    precision, recall = right / linked if linked else 1.0, right / meant if meant else 1.0
    return precision, recall, 2 * precision * recall / (precision + recall) if right else 0.0


def as_markdown(measured: Sequence[Judged]) -> str:
    """Return the figures as one table."""
    rows = [
        f"| {each.group} | {each.questions} | {each.meant}"
        f" | {_three(each.meant, each.precision, each.recall, each.f1)}"
        f" | {_three(each.meant, each.all_precision, each.all_recall, each.all_f1)} |"
        for each in measured
    ]
    return "\n".join(
        [
            "# Linking names",
            "",
            f"Precision / recall / F1, all links of a group together. Certain: a certainty of {CERTAIN} and more.",
            "",
            "| questions | | meant | certain links | all links |",
            "|---|---:|---:|---|---|",
            *rows,
            "",
        ]
    )


def _three(meant: int, precision: float, recall: float, f1: float) -> str:
    # Where nothing is meant, every link is wrong, and there is nothing to find.
    return f"{precision:.2f} / {recall:.2f} / {f1:.2f}" if meant else f"{precision:.2f} / – / –"
