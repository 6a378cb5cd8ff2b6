"""Fits fusion parameters with cross-validation, and writes them to the file that settings read."""

from __future__ import annotations

import hashlib
import json
import os
import random
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from braid.errors import InvalidRequest
from braid.models import Fusion, FusionParameters
from braid.retrieval.stages.fuse_rerank import fusion_method
from braid.settings import DEFAULT_TENANT
from braid.settings.configuration_files import FittedFile

from braid_cli.datasets.dataset import read_judgements
from braid_cli.datasets.ingest import ingest
from braid_cli.evaluation.metrics import METRICS, Figures, bootstrap, difference, mean
from braid_cli.evaluation.run import isolated_engines, read_judged, uncached
from braid_cli.tuning.captured_questions import capture
from braid_cli.tuning.coordinate_search import RANK_PARAMETERS, SEED, TUNED_PARAMETERS, TunedParameter, search

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from braid.app import Application

    from braid_cli.evaluation.metrics import Difference
    from braid_cli.tuning.captured_questions import CapturedQuestion

FOLDS = 5
MAX_LOSS = 0.01
"""Accepted loss of the held-out mean of a single dataset."""
ALL = "all"


@dataclass(frozen=True)
class Compared:
    """Scores on the held-out questions of one dataset, or of all, before and after the fit."""

    name: str
    questions: int
    before: Figures
    after: Figures
    change: Difference


@dataclass(frozen=True)
class Tuning:
    """Result of a fit."""

    metric: str
    folds: int
    seed: int
    before: FusionParameters
    """Parameters in use."""
    after: FusionParameters
    """Parameters fitted on all questions."""
    by_fold: tuple[FusionParameters, ...]
    """Parameters fitted without each fold; the questions do not determine a value that differs much between them."""
    compared: tuple[Compared, ...]
    """Scores on held-out questions: of each dataset, then of all together."""
    datasets: tuple[tuple[str, str, int], ...] = ()
    """Name, content hash and number of questions of each dataset."""

    def refusal(self) -> str | None:
        """Return why the fitted parameters should not be used; None if held-out questions improve."""
        if self.after == self.before:
            return "no other parameters are better on these questions than those in force"
        overall = self.compared[-1].change
        low, high = overall.intervals[self.metric]
        if low <= 0:
            return (
                f"not better on held-out questions: {self.metric} {overall.means[self.metric]:+.4f}, "
                f"95 % interval {low:+.4f} to {high:+.4f}"
            )
        for one in self.compared[:-1]:
            if one.change.means[self.metric] < -MAX_LOSS:
                return f"worse on held-out questions of {one.name}: {self.metric} {one.change.means[self.metric]:+.4f}"
        return None

    def evidence(self) -> dict[str, Any]:
        """Return the evidence that is written to the file: datasets, folds and held-out scores."""
        return {
            "fitted_on": [
                {"dataset": name, "content": content, "questions": questions}
                for name, content, questions in self.datasets
            ],
            "metric": self.metric,
            "folds": self.folds,
            "seed": self.seed,
            "held_out": {
                one.name: {
                    "questions": one.questions,
                    "before": _figure(one.before, self.metric),
                    "after": _figure(one.after, self.metric),
                    "difference": {
                        "mean": round(one.change.means[self.metric], 4),
                        "confidence_95": [round(bound, 4) for bound in one.change.intervals[self.metric]],
                        "p": round(one.change.p[self.metric], 4),
                    },
                }
                for one in self.compared
            },
        }

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "before": self.before.model_dump(mode="json"),
            "after": self.after.model_dump(mode="json"),
            "by_fold": [one.model_dump(mode="json") for one in self.by_fold],
            "refused": self.refusal(),
            **self.evidence(),
        }


def _figure(figures: Figures, metric: str) -> dict[str, Any]:
    return {
        "mean": round(figures.means[metric], 4),
        "confidence_95": [round(bound, 4) for bound in figures.intervals[metric]],
    }


def tune(
    questions: Sequence[CapturedQuestion],
    before: FusionParameters,
    *,
    metric: str = "ndcg@10",
    folds: int = FOLDS,
    seed: int = SEED,
    tuned: Sequence[TunedParameter] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Tuning:
    """Fit on all questions, and estimate the gain on unseen questions by cross-validation.

    Raises InvalidRequest if there are fewer questions than folds.

    Parameters
    ----------
    questions
        Judged questions with their captured hits.
    before
        The parameters in use: start of the search, and baseline.
    metric
        Metric to maximise.
    folds
        Number of folds; the questions of each dataset are shuffled into them.
    seed
        Seed of the shuffling and of the search.
    tuned
        Parameters to fit; by default :func:`tuned_parameters`.
    on_progress
        Called with the number of fits done and of all fits.
    """
    if len(questions) < folds:
        few = f"{len(questions)} judged questions make no {folds} folds"
        raise InvalidRequest(f"{few}: judge more, or take fewer by --folds", field="folds")
    if tuned is None:
        tuned = tuned_parameters(questions)
    fold_of = assign_folds(questions, folds, seed)
    fitted: list[FusionParameters] = []
    for fold in range(folds):
        seen = [one for one, dealt in zip(questions, fold_of, strict=True) if dealt != fold]
        fitted.append(search(seen, before, metric=metric, tuned=tuned, seed=seed))
        if on_progress:
            on_progress(fold + 1, folds + 1)
    after = search(questions, before, metric=metric, tuned=tuned, seed=seed)
    if on_progress:
        on_progress(folds + 1, folds + 1)
    names = list(dict.fromkeys(one.dataset for one in questions))
    pairs = [
        (one, one.measure(before), one.measure(fitted[fold])) for one, fold in zip(questions, fold_of, strict=True)
    ]
    compared = [_compare(name, [pair for pair in pairs if pair[0].dataset == name]) for name in names]
    return Tuning(metric, folds, seed, before, after, tuple(fitted), (*compared, _compare(ALL, pairs)))


def tuned_parameters(questions: Sequence[CapturedQuestion]) -> tuple[TunedParameter, ...]:
    """Return the parameters to fit; the rank constant only if a question is fused by ranks."""
    by_ranks = any(fusion_method(one.found.request) is Fusion.RRF for one in questions)
    return (*TUNED_PARAMETERS, *(RANK_PARAMETERS if by_ranks else ()))


def assign_folds(questions: Sequence[CapturedQuestion], folds: int, seed: int) -> list[int]:
    """Return the fold of each question. Each dataset's questions are shuffled and spread evenly over the folds."""
    dice = random.Random(seed)  # noqa: S311 - not for secrets
    fold_of = [0] * len(questions)
    dealt = 0
    for name in dict.fromkeys(one.dataset for one in questions):
        places = [place for place, one in enumerate(questions) if one.dataset == name]
        dice.shuffle(places)
        for place in places:
            fold_of[place] = dealt % folds
            dealt += 1
    return fold_of


def _compare(name: str, pairs: Sequence[tuple[CapturedQuestion, Mapping[str, float], Mapping[str, float]]]) -> Compared:
    ids = [f"{one.dataset}/{one.question.id}" for one, _, _ in pairs]
    before = _figures(ids, [values for _, values, _ in pairs])
    after = _figures(ids, [values for _, _, values in pairs])
    return Compared(name, len(pairs), before, after, difference(after, before, against="before"))


def _figures(ids: Sequence[str], values: Sequence[Mapping[str, float]]) -> Figures:
    per_query = {
        metric: {identity: of_one[metric] for identity, of_one in zip(ids, values, strict=True)} for metric in METRICS
    }
    means = {metric: mean(per_query[metric].values()) for metric in METRICS}
    return Figures(means, {metric: bootstrap(list(per_query[metric].values())) for metric in METRICS}, per_query)


def tune_folders(
    folders: Sequence[Path],
    application: Application,
    *,
    tenant_id: str = DEFAULT_TENANT,
    metric: str = "ndcg@10",
    folds: int = FOLDS,
    seed: int = SEED,
    on_ingest: Callable[[int, int], None] | None = None,
    on_question: Callable[[int, int], None] | None = None,
    on_fit: Callable[[int, int], None] | None = None,
) -> Tuning:
    """Ingest dataset folders as evaluation does, ask their questions once, and tune.

    A parameter that the environment sets is not fitted, as it takes precedence over the file. A file among
    ``folders`` has judged questions about the tenant's stored data.

    Raises
    ------
    DatasetError
        If a folder is malformed or has no judged question.
    InvalidRequest
        If there are fewer questions than folds.
    """
    captured: list[CapturedQuestion] = []
    datasets: list[tuple[str, str, int]] = []
    read = [read_judged(folder, application) for folder in folders if not folder.is_file()]
    stored = [(file, read_judgements(file, tenant_id)) for file in folders if file.is_file()]
    with ExitStack() as stack:
        for file, judged in stored:
            own = stack.enter_context(closing(uncached(application)))
            captured += capture(str(file), judged, own, on_progress=on_question)
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            datasets.append((str(file), content[:12], len(judged)))
        for dataset in read:
            own = stack.enter_context(closing(isolated_engines(dataset, application)))
            ingest(dataset, own, threads=os.cpu_count(), on_progress=on_ingest)
            name = dataset.name if dataset.name not in {one[0] for one in datasets} else str(dataset.folder)
            captured += capture(name, dataset.judged, own, on_progress=on_question)
            datasets.append((name, dataset.content_hash[:12], len(dataset.judged)))
        settings = application.settings
        stated = {name for name in ("lexical_share", "rank_constant") if getattr(settings, name) is not None}
        tuned = [parameter for parameter in tuned_parameters(captured) if parameter.name not in stated]
        made = tune(
            captured,
            application.fitted.parameters,
            metric=metric,
            folds=folds,
            seed=seed,
            tuned=tuned,
            on_progress=on_fit,
        )
    return replace(made, datasets=tuple(datasets))


def write(tuning: Tuning, path: Path) -> Path | None:
    """Write the file of fitted parameters, atomically; return the copy of the file it replaces, if there was one."""
    made = FittedFile(parameters=tuning.after, evidence=tuning.evidence())
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_text(
        json.dumps(made.model_dump(mode="json"), ensure_ascii=False, indent=2) + "\n", encoding="utf-8"
    )
    before = path.with_name(f"{path.name}.before") if path.exists() else None
    if before is not None:
        before.write_bytes(path.read_bytes())
    unfinished.replace(path)
    return before
