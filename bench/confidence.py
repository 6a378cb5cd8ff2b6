"""Fits the model of an answer's confidence, with leave-one-corpus-out cross-validation.

``python -m bench confidence FOLDER …`` asks the questions of the demo's archives and of the folders; without folders it
fits on the features of the last run, which are in ``confidence.json``.
"""

from __future__ import annotations

import json
import os
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from braid.app import application
from braid.models import Query
from braid.retrieval.stages.confidence import Coefficient, Features, chance

from bench.facts import QUESTIONS as FACTS
from braid_cli.datasets.dataset import JudgedQuery
from braid_cli.datasets.ingest import ingest
from braid_cli.evaluation.calibration import ARCHIVES, DEMO, Asked, Reliability, ask
from braid_cli.evaluation.run import isolated_engines, read_judged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

PULL: Final = 0.003
"""How far weights are pulled to 0, in units of the mean question's evidence."""
STEPS: Final = 50
Model = tuple[float, tuple[Coefficient, ...]]


def fit_and_report(folders: Sequence[Path], into: Path) -> str:
    """Ask, fit and write ``confidence.json`` and ``confidence.md``; return the latter."""
    file = into / "confidence.json"
    if folders:
        corpora = {}
        for folder in (*(DEMO / name for name in ARCHIVES), *folders):
            corpora[folder.name] = _asked(folder, "judged" if folder.parent == DEMO else None)
    else:
        corpora = _read(json.loads(file.read_text(encoding="utf-8"))["asked"])
    intercept, model = fit(list(corpora.values()))
    held_out = {name: Reliability(_sure(asked, _without(name, corpora))) for name, asked in corpora.items()}
    document = {
        "intercept": round(intercept, 3),
        "model": {
            name: [round(value, 3) for value in coefficient]
            for name, coefficient in zip(Features._fields, model, strict=True)
        },
        "held_out": {name: reliability.as_json() for name, reliability in held_out.items()},
        "asked": {name: [[one.kind, one.answered, *one.features] for one in asked] for name, asked in corpora.items()},
    }
    file.write_text(_as_lines(document), encoding="utf-8")
    told = as_markdown(corpora, held_out, document)
    (into / "confidence.md").write_text(told, encoding="utf-8")
    return told


def _asked(folder: Path, questions: str | None) -> list[Asked]:
    """Ask the judged questions of a folder, and those that relationships answer."""
    base = application()
    dataset = read_judged(folder, base, questions)
    lines = map(json.loads, FACTS.read_text(encoding="utf-8").splitlines())
    facts = [
        JudgedQuery(
            id=line["text"],
            query=Query(text=line["text"], tenant_id=dataset.tenant_id),
            relevant=dict.fromkeys(line["answers"], 1),
            metadata={},
        )
        for line in lines
        if line["corpus"] == folder.name
    ]
    with closing(isolated_engines(dataset, base)) as own:
        ingest(dataset, own, threads=os.cpu_count())
        return list(ask(dataset.name, [*dataset.judged, *facts], own))


def _read(asked: Mapping[str, Sequence[Sequence[Any]]]) -> dict[str, list[Asked]]:
    return {
        name: [Asked(kind, 0.0, answered, Features(*values)) for kind, answered, *values in rows]
        for name, rows in asked.items()
    }


def fit(corpora: Sequence[Sequence[Asked]]) -> Model:
    """Fit by Newton's method on all corpora, each of the same weight; what is not known is the mean."""
    asked = [one for corpus in corpora for one in corpus]
    weights = np.array([one.weight / sum(each.weight for each in corpus) for corpus in corpora for one in corpus])
    weights /= weights.sum()
    values = np.array([[np.nan if value is None else value for value in one.features] for one in asked])
    known = ~np.isnan(values)
    shares = np.where(known, weights[:, None], 0.0)
    means = np.nansum(shares * np.nan_to_num(values), axis=0) / shares.sum(axis=0)
    values = np.where(known, values, means)
    deviations = np.sqrt(weights @ (values - means) ** 2)
    rows = np.column_stack([np.ones(len(asked)), (values - means) / deviations])
    answered = np.array([float(one.answered) for one in asked])
    pull = np.diag([0.0] + [PULL] * len(means))
    found = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        chances = 1.0 / (1.0 + np.exp(-rows @ found))
        slope = rows.T @ (weights * (answered - chances)) - pull @ found
        curve = (rows * (weights * chances * (1.0 - chances))[:, None]).T @ rows + pull
        found = found + np.linalg.solve(curve, slope)
    coefficients = (Coefficient(*map(float, one)) for one in zip(means, deviations, found[1:], strict=True))
    return float(found[0]), tuple(coefficients)


def _without(name: str, corpora: Mapping[str, Sequence[Asked]]) -> Model:
    return fit([asked for other, asked in corpora.items() if other != name])


def _sure(asked: Sequence[Asked], model: Model) -> list[Asked]:
    return [replace(one, confidence=chance(one.features, *model)) for one in asked]


def _as_lines(document: Mapping[str, Any]) -> str:
    """Return the document with a line for each question."""
    rows = document["asked"]
    head = json.dumps({key: value for key, value in document.items() if key != "asked"}, indent=1)
    lines = [
        f"  {json.dumps(name)}: [\n   " + ",\n   ".join(map(json.dumps, _rounded(asked))) + "\n  ]"
        for name, asked in rows.items()
    ]
    return head[: head.rindex("\n}")] + ',\n "asked": {\n' + ",\n".join(lines) + "\n }\n}\n"


def _rounded(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [[round(value, 4) if isinstance(value, float) else value for value in row] for row in rows]


def as_markdown(
    corpora: Mapping[str, Sequence[Asked]], held_out: Mapping[str, Reliability], document: Mapping[str, Any]
) -> str:
    """Return the figures of each corpus by the fit on the others, and the model that was fitted on all."""
    kinds = ("left out", "known name", "other archive")
    lines = [
        "# Confidence of answers",
        "",
        "Each row by a model that was fitted on the other rows. Half of what is asked is the judged questions, of",
        "which the share *answered* has a judged record among the first five; the other half cannot be answered.",
        "AUROC also against each kind of those alone.",
        "",
        "| | questions | answered | AUROC | calibration error | " + " | ".join(kinds) + " |",
        "|---|" + "---|" * (4 + len(kinds)),
    ]
    for name, reliability in held_out.items():
        own = [one for one in reliability.asked if one.kind == "as it is"]
        against = [
            Reliability([one for one in reliability.asked if one.kind in {"as it is", kind}]).auroc for kind in kinds
        ]
        lines.append(
            f"| {name} | {len(corpora[name])} | {sum(one.answered for one in own) / len(own):.2f} | "
            f"{reliability.auroc or 0:.3f} | {reliability.calibration_error:.3f} | "
            + " | ".join("" if value is None else f"{value:.3f}" for value in against)
            + " |"
        )
    lines += [
        "",
        f"Fitted on all rows, intercept {document['intercept']}:",
        "",
        "| feature | mean | deviation | weight |",
    ]
    lines += ["|---|---|---|---|"]
    lines += [f"| {name} | {' | '.join(map(str, coefficient))} |" for name, coefficient in document["model"].items()]
    return "\n".join(lines) + "\n"
