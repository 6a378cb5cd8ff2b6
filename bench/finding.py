"""How well the names in texts are found: precision and recall on texts labelled by hand.

``finding_labels.json`` holds, for texts of datasets that are not shipped, the names that stand in them, and under
``also`` what is neither right nor wrong: other forms of the same name, nationalities, parts.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from braid.ports.name_finder import SourceText
from braid.understanding.name_finding import RuleNameFinder, name_key

from braid_cli.datasets.dataset import read_dataset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from braid.ports.name_finder import NameFinder

LABELS = Path(__file__).resolve().parent / "finding_labels.json"


@dataclass(frozen=True)
class Found:
    """What was found in the labelled texts of one dataset; shares in [0, 1]."""

    dataset: str
    texts: int
    names: int
    precision: float
    recall: float
    f1: float
    missed: tuple[str, ...]
    wrong: tuple[str, ...]


def measure(folders: Sequence[Path], finder: NameFinder | None = None) -> list[Found]:
    """Look for names in the labelled texts of some datasets, each a document of its own."""
    labels = json.loads(LABELS.read_text(encoding="utf-8"))
    return [_measured(folder, labels[folder.name], finder or RuleNameFinder()) for folder in folders]


def _measured(folder: Path, labels: dict[str, dict[str, list[str]]], finder: NameFinder) -> Found:
    records = [record for record in read_dataset(folder, folder.name).records if record.id in labels]
    texts = [SourceText(each.id, each.name or each.source.title or "", each.content, each.id) for each in records]
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for name in finder.find(texts, {}):
        for mention in name.mentions:
            found[mention.text_id][name_key(name.name)] = name.name
    right, missed, wrong = 0, [], []
    for text, label in labels.items():
        meant = {name_key(name): name for name in label["meant"]}
        spared = {name_key(name) for name in label["also"]}
        right += len(meant.keys() & found[text].keys())
        missed += [name for key, name in meant.items() if key not in found[text]]
        wrong += [name for key, name in found[text].items() if key not in meant and key not in spared]
    names = right + len(missed)
    precision, recall = right / max(1, right + len(wrong)), right / max(1, names)
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return Found(folder.name, len(records), names, precision, recall, f1, tuple(missed), tuple(wrong))


def as_markdown(measured: Sequence[Found]) -> str:
    """Return the figures as one table."""
    rows = [f"| {x.dataset} | {x.texts} | {x.names} | {x.precision:.2f} / {x.recall:.2f} / {x.f1:.2f} |" for x in measured]
    return "\n".join(["# Finding names in texts", "", "| texts of | | names | precision / recall / F1 |", "|---|---:|---:|---|", *rows, ""])


def write(measured: Sequence[Found], folder: Path) -> None:
    """Write ``finding.md`` and ``finding.json`` into a folder."""
    (folder / "finding.md").write_text(as_markdown(measured), encoding="utf-8")
    (folder / "finding.json").write_text(json.dumps([asdict(x) for x in measured], indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
