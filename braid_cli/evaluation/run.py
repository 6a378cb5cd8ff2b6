"""Runs an evaluation: every judged question in every configuration."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from braid.app import Application
from braid.engines.embedded.sqlite_files import PRIVATE_FOLDER
from braid.errors import DatasetError, InvalidRequest
from braid.ports.batches import batches
from braid.settings import EngineKind

from braid_cli.datasets.dataset import read_dataset, read_judgements
from braid_cli.datasets.ingest import ingest
from braid_cli.evaluation.calibration import Reliability, ask
from braid_cli.evaluation.configurations import DEFAULT
from braid_cli.evaluation.configurations import configurations as all_configurations
from braid_cli.evaluation.metrics import METRICS, difference, mean, percentile, score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from braid_cli.datasets.dataset import Dataset, JudgedQuery
    from braid_cli.evaluation.configurations import Configuration
    from braid_cli.evaluation.metrics import Difference, Figures

TENANT = "eval"
FIELDS = ("kind", "type", "hops")
"""Metadata fields by which scores are grouped, if questions have them."""
INTENT = "intent"
"""Name of a further grouping: the intent that the planner recognised."""
NO_VALUE = "(none)"
_IDS_AT_ONCE = 500


@dataclass(frozen=True)
class Row:
    """Scores and latencies of one configuration."""

    name: str
    meaning: str
    figures: Figures
    latencies_ms: tuple[float, ...]
    against: Difference | None = None
    """Difference from the row before; None for the first."""

    def latency(self, share: int) -> float:
        """Return a percentile of one question's latency, in milliseconds."""
        return percentile(sorted(self.latencies_ms), share)


@dataclass(frozen=True)
class Evaluation:
    """Scores of all configurations on one dataset."""

    dataset: str
    questions: tuple[JudgedQuery, ...]
    rows: tuple[Row, ...]
    intents: dict[str, str]
    degraded: int
    """Number of questions with a degraded answer; should be 0 for valid figures."""
    parameters: str = ""
    """Digest of the fusion parameters."""
    against_best: Difference | None = None
    """Difference of the default from the single strand with the best nDCG@10."""
    fitted: bool = False
    """Whether the fusion parameters are from a file rather than the documented defaults."""
    confidence: Reliability | None = None
    """Reliability of the default's confidence; None if it was not measured."""
    not_stored: tuple[str, ...] = ()
    """Ids of relevant records that are not stored, so that no configuration can find them."""

    @property
    def file_name(self) -> str:
        """File name of its plots, without suffix."""
        return self.dataset.replace("/", "-")

    @property
    def default(self) -> Row:
        """The row of the default configuration."""
        return self.rows[-1]

    def row(self, name: str) -> Row:
        """Return a row by its name."""
        return next(row for row in self.rows if row.name == name)

    def fields(self) -> list[str]:
        """Return the fields by which the questions can be grouped."""
        stated = [field for field in FIELDS if any(field in question.metadata for question in self.questions)]
        return [*stated, *([INTENT] if self.intents else [])]

    def groups(self, field: str) -> dict[str, list[str]]:
        """Return the questions' ids, grouped by a field of their metadata or by ``intent``.

        Raises InvalidRequest if no question has the field; the message lists the known fields.
        """
        if field == INTENT and self.intents:
            said = dict(self.intents)
        else:
            said = {one.id: str(one.metadata[field]) for one in self.questions if field in one.metadata}
        if not said:
            known = ", ".join(self.fields()) or "none"
            raise InvalidRequest(f"no question of {self.dataset} says its {field!r}; known are {known}", field="by")
        grouped: dict[str, list[str]] = {}
        for question in self.questions:
            grouped.setdefault(said.get(question.id, NO_VALUE), []).append(question.id)
        return dict(sorted(grouped.items()))

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return {
            "dataset": self.dataset,
            "queries": len(self.questions),
            "parameters": {"digest": self.parameters, "fitted": self.fitted},
            "runs": {row.name: _rounded(row.figures.means) for row in self.rows},
            "confidence_95": {
                row.name: {name: [round(low, 4), round(high, 4)] for name, (low, high) in row.figures.intervals.items()}
                for row in self.rows
            },
            "against_row_before": {row.name: _difference(row.against) for row in self.rows if row.against},
            "against_best_strand": _difference(self.against_best) if self.against_best else None,
            "recall_curve": {row.name: [round(value, 4) for value in row.figures.curve] for row in self.rows},
            "latency_ms": {"p50": self.default.latency(50), "p95": self.default.latency(95)} if self.rows else {},
            "row_latency_ms": {row.name: {"p50": row.latency(50), "p95": row.latency(95)} for row in self.rows},
            "by": {field: dict(self._by(field)) for field in self.fields()},
            "degraded": self.degraded,
            "confidence": self.confidence.as_json() if self.confidence else None,
        } | ({"not_stored": list(self.not_stored)} if self.not_stored else {})

    def _by(self, field: str) -> Iterator[tuple[str, dict[str, Any]]]:
        for value, ids in self.groups(field).items():
            yield value, {"queries": len(ids), "runs": {row.name: _rounded(within(row, ids)) for row in self.rows}}


def within(row: Row, ids: Sequence[str]) -> dict[str, float]:
    """Return a row's means over some of the questions."""
    return {metric: mean(row.figures.per_query[metric][identity] for identity in ids) for metric in METRICS}


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in values.items()}


def _difference(against: Difference) -> dict[str, Any]:
    return {
        "row": against.against,
        **{
            metric: {
                "mean": round(against.means[metric], 4),
                "confidence_95": [round(bound, 4) for bound in against.intervals[metric]],
                "p": round(against.p[metric], 4),
            }
            for metric in METRICS
        },
    }


def evaluate(
    name: str,
    judged: Sequence[JudgedQuery],
    application: Application,
    *,
    configurations: Sequence[Configuration] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    with_confidence: bool = True,
) -> Evaluation:
    """Answer every question in every configuration and score the runs.

    Which configuration goes first rotates, so that no latency profits systematically from caches that others filled.

    Parameters
    ----------
    name
        The dataset's name.
    judged
        Questions with at least one relevant record each.
    application
        Engines with the dataset.
    configurations
        Configurations, the default last; all by default.
    on_progress
        Called with the number of questions answered and the number of all.
    with_confidence
        Whether to measure the reliability of confidence, which asks each question three times more.
    """
    ways = tuple(all_configurations(application.settings) if configurations is None else configurations)
    runs: dict[str, dict[str, dict[str, float]]] = {way.name: {} for way in ways}
    latencies: dict[str, list[float]] = {way.name: [] for way in ways}
    intents: dict[str, str] = {}
    degraded = 0
    if judged:
        for way in ways:
            way.answer(judged[0].query, application)  # warm-up: models and indexes are loaded by the first use
    for done, question in enumerate(judged, start=1):
        first = done % len(ways)
        for way in (*ways[first:], *ways[:first]):
            answered = way.timed(question.query, application)
            latencies[way.name].append(answered.took_ms)
            runs[way.name][question.id] = {identity: 1.0 / rank for rank, identity in enumerate(answered.ids, start=1)}
            if way.name == DEFAULT:
                degraded += answered.degraded
                intents |= {question.id: answered.intent} if answered.intent else {}
        if on_progress:
            on_progress(done, len(judged))
    qrels = {question.id: question.relevant for question in judged}
    scored: list[Row] = []
    for way in ways:
        figures = score(runs[way.name], qrels)
        before = scored[-1] if scored else None
        against = difference(figures, before.figures, against=before.name) if before else None
        scored.append(Row(way.name, way.meaning, figures, tuple(latencies[way.name]), against))
    alone = [row for row, way in zip(scored, ways, strict=True) if way.alone]
    best = max(alone, key=lambda row: row.figures.means["ndcg@10"], default=None)
    return Evaluation(
        dataset=name,
        questions=tuple(judged),
        rows=tuple(scored),
        intents=intents,
        degraded=degraded,
        parameters=application.fitted.digest,
        against_best=difference(scored[-1].figures, best.figures, against=best.name) if best else None,
        fitted=application.fitted.path is not None,
        confidence=Reliability(list(ask(name, judged, application))) if with_confidence and DEFAULT in runs else None,
        not_stored=_not_stored(judged, application),
    )


def _not_stored(judged: Sequence[JudgedQuery], application: Application) -> tuple[str, ...]:
    """Return the ids of relevant records that are not stored."""
    named: dict[str, set[str]] = {}
    for question in judged:
        named.setdefault(question.query.tenant_id, set()).update(question.relevant)
    return tuple(
        identity
        for tenant_id, ids in named.items()
        for some in batches(sorted(ids), _IDS_AT_ONCE)
        for stored in [application.index.written(tenant_id, some)]
        for identity in some
        if identity not in stored
    )


def evaluate_folder(
    folder: Path,
    application: Application,
    *,
    questions: str | None = None,
    split: str | None = None,
    configurations: Sequence[Configuration] | None = None,
    with_confidence: bool = True,
    on_ingest: Callable[[int, int], None] | None = None,
    on_question: Callable[[int, int], None] | None = None,
    on_evaluated: Callable[[Evaluation, Application], None] | None = None,
) -> Evaluation:
    """Ingest a dataset folder into stores of its own, once, and evaluate it there.

    Raises DatasetError if the folder is malformed or has no judged question.

    Parameters
    ----------
    folder
        Dataset folder with questions and judgements.
    application
        Application whose settings, models and fusion parameters are used.
    questions
        Name of a subfolder with the questions and judgements; the folder itself by default.
    split
        Name of the judgements, if there are several; see :func:`braid_cli.datasets.dataset.read_dataset`.
    configurations, with_confidence
        As in :func:`evaluate`.
    on_ingest, on_question
        Called with the numbers of records or questions done and in all.
    on_evaluated
        Called with the evaluation, and the engines, while they are open.
    """
    dataset = read_judged(folder, application, questions, split)
    with closing(isolated_engines(dataset, application)) as own:
        ingest(dataset, own, threads=os.cpu_count(), on_progress=on_ingest)
        name = "/".join(part for part in (dataset.name, questions, split) if part)
        evaluation = evaluate(
            name,
            dataset.judged,
            own,
            configurations=configurations,
            on_progress=on_question,
            with_confidence=with_confidence,
        )
        if on_evaluated:
            on_evaluated(evaluation, own)
        return evaluation


def evaluate_stored(
    judgements: Path,
    tenant_id: str,
    application: Application,
    *,
    on_question: Callable[[int, int], None] | None = None,
    on_evaluated: Callable[[Evaluation, Application], None] | None = None,
) -> Evaluation:
    """Evaluate a tenant's stored data by a file of judged questions; callbacks as in :func:`evaluate_folder`.

    Raises DatasetError if the file is malformed or has no judged question.
    """
    judged = read_judgements(judgements, tenant_id)
    with closing(uncached(application)) as own:
        evaluation = evaluate(judgements.stem, judged, own, on_progress=on_question)
        if on_evaluated:
            on_evaluated(evaluation, own)
        return evaluation


def read_judged(
    folder: Path, application: Application, questions: str | None = None, split: str | None = None
) -> Dataset:
    """Read a dataset folder for the tenant of its evaluation.

    In deployed stores each dataset has a tenant of its own, ``eval-`` and a hash of its content, which is kept and
    updated by each run. Raises DatasetError if the folder is malformed or has no judged question.
    """
    graph = application.settings.graph
    dataset = read_dataset(folder, TENANT, judged=True, questions=questions, split=split, graph=graph)
    if not dataset.judged:
        where = folder / questions if questions else folder
        raise DatasetError(f"{where}: no question of queries.jsonl has a relevant record in qrels")
    application.make_models()
    if application.settings.engine is EngineKind.AWS:
        tenant_id = f"{TENANT}-{dataset.content_hash[:12]}"
        dataset = read_dataset(folder, tenant_id, judged=True, questions=questions, split=split, graph=graph)
    return dataset


def uncached(application: Application) -> Application:
    """Return an application over the same stores with caches off, so that latencies are those of new questions."""
    return Application(application.settings.uncached())


def isolated_engines(dataset: Dataset, application: Application) -> Application:
    """Return an application over a dataset's own stores in ``home``/eval, which are kept for the next run.

    Caches are off, so that latencies are those of new questions.
    """
    copies = application.settings.home / TENANT
    copies.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    copies.chmod(PRIVATE_FOLDER)  # earlier versions made it readable by all users
    home = copies / f"{dataset.name}-{dataset.content_hash[:12]}"
    changes = {
        "home": home,
        "models_dir": application.settings.models_path(),
        "fitted_weights": application.fitted.path,
    }
    return Application(application.settings.uncached().model_copy(update=changes))
