"""Measures name finding in texts: precision and recall on texts labelled by hand.

``finding_labels.json`` has the names in texts of datasets that are not included, and under ``also`` spans that count
neither way: other forms of the same name, nationalities, parts of names. A spaCy pipeline, if one is installed and
named, is compared with the rules; titles are found by the rules for both.
"""

from __future__ import annotations

import importlib
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from braid.ports.name_finder import FoundMention, FoundName, SourceText
from braid.understanding.name_finding import RuleNameFinder, title_names
from braid.understanding.name_patterns import name_key

from braid_cli.datasets.dataset import read_dataset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from braid.ports.name_finder import NameFinder

LABELS = Path(__file__).resolve().parent / "finding_labels.json"
RULES = "rules"
_Labels = dict[str, dict[str, list[str]]]
"""Names under ``meant`` and ``also``, by the text's id."""
_NAMED = frozenset({"PERSON", "ORG", "GPE", "LOC", "FAC", "PRODUCT", "WORK_OF_ART", "EVENT", "LAW"})


@dataclass(frozen=True)
class Found:
    """What one finder found in the labelled texts of one dataset; shares in [0, 1]."""

    finder: str
    dataset: str
    texts: int
    names: int
    precision: float
    recall: float
    f1: float
    missed: tuple[str, ...]
    wrong: tuple[str, ...]


class PipelineNameFinder:
    """Finds names by an installed spaCy pipeline, and titles; implements ``NameFinder``."""

    def __init__(self, package: str) -> None:
        """Load a pipeline by the name of its package."""
        self._read = importlib.import_module(package).load()

    def find(self, texts: Sequence[SourceText], given: Mapping[str, str]) -> list[FoundName]:
        """Return the names in some texts; given ones are not looked for."""
        del given
        names: dict[str, FoundName] = {}
        for text in texts:
            entities = [each.text for each in self._read(text.content).ents if each.label_ in _NAMED]
            for name in dict.fromkeys([*title_names(text.title), *(each.strip(" \"'.,") for each in entities)]):
                known = names.get(name_key(name), FoundName(name_key(name), name, "Concept", ()))
                names[known.meaning] = known._replace(mentions=(*known.mentions, FoundMention(text.id, 0, 1.0)))
        names.pop("", None)
        return list(names.values())


def measure(folders: Sequence[Path], package: str | None = None) -> list[Found]:
    """Look for names in the labelled texts of some datasets, each text a document of its own."""
    labels = json.loads(LABELS.read_text(encoding="utf-8"))
    finders: dict[str, NameFinder] = {RULES: RuleNameFinder()}
    if package:
        finders[package] = PipelineNameFinder(package)
    return [_measured(name, finder, folder, labels) for name, finder in finders.items() for folder in folders]


def _measured(called: str, finder: NameFinder, folder: Path, labels: Mapping[str, _Labels]) -> Found:
    labelled = labels[folder.resolve().name]
    records = [record for record in read_dataset(folder, folder.name).records if record.id in labelled]
    texts = [SourceText(each.id, each.name or each.source.title or "", each.content, each.id) for each in records]
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for name in finder.find(texts, {}):
        for mention in name.mentions:
            found[mention.text_id][name_key(name.name)] = name.name
    right, missed, wrong = 0, list[str](), list[str]()
    for text, label in labelled.items():
        meant = {name_key(name): name for name in label["meant"]}
        spared = {name_key(name) for name in label["also"]}
        right += len(meant.keys() & found[text].keys())
        missed += [name for key, name in meant.items() if key not in found[text]]
        wrong += [name for key, name in found[text].items() if key not in meant and key not in spared]
    names = right + len(missed)
    precision, recall = right / max(1, right + len(wrong)), right / max(1, names)
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return Found(called, folder.resolve().name, len(records), names, precision, recall, f1, tuple(missed), tuple(wrong))


def as_markdown(measured: Sequence[Found]) -> str:
    """Return the figures as one table."""
    rows = [
        f"| {each.finder} | {each.dataset} | {each.texts} | {each.names}"
        f" | {each.precision:.2f} / {each.recall:.2f} / {each.f1:.2f} |"
        for each in measured
    ]
    head = ["| by | texts of | | names | precision / recall / F1 |", "|---|---|---:|---:|---|"]
    return "\n".join(["# Finding names in texts", "", *head, *rows, ""])
