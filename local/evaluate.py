"""Measuring retrieval on judged questions: one row a way of answering, with confidence intervals and latencies."""

from __future__ import annotations

import os
import statistics
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from braid import pipeline
from braid.engines.ports import SearchRequest
from braid.errors import DatasetError
from braid.models import Hints, Strategy
from braid.settings import EngineKind
from braid.stages.states import EmbedRequest, GraphOperation, GraphRequest, PlanRequest
from braid.wiring import Wired

from local.dataset import read_dataset
from local.ingest import ensure_models, ingest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from braid.models import Query
    from braid.stages.states import Planned

    from local.dataset import JudgedQuery

ROWS = ("dense", "lexical", "hybrid", "graph", "braid")
DEPTH = 10
"""What the product answers with by default; MRR is cut there as well."""
RESAMPLES = 1_000
SEED = 20_240_501
RESERVED = "eval"


@dataclass(frozen=True)
class Row:
    """One way of answering: means, 95 % confidence intervals and each question's values."""

    name: str
    means: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    per_query: dict[str, dict[str, float]]


@dataclass(frozen=True)
class Evaluation:
    """All rows of one dataset."""

    dataset: str
    queries: int
    rows: tuple[Row, ...]
    latencies_ms: tuple[float, ...]
    degraded: int
    """Questions whose answer lost a stage; not 0 means that the figures are not those of a healthy system."""

    def as_json(self) -> dict[str, Any]:
        """Return the figures for machines."""
        ordered = sorted(self.latencies_ms)
        return {
            "dataset": self.dataset,
            "queries": self.queries,
            "runs": {row.name: {name: round(value, 4) for name, value in row.means.items()} for row in self.rows},
            "confidence_95": {
                row.name: {name: [round(low, 4), round(high, 4)] for name, (low, high) in row.intervals.items()}
                for row in self.rows
            },
            "latency_ms": {"p50": percentile(ordered, 50), "p95": percentile(ordered, 95)},
            "degraded": self.degraded,
        }


def percentile(ordered: Sequence[float], share: int) -> float:
    """Return a percentile of sorted values, 0 when there are none; rounded to hundredths."""
    if not ordered:
        return 0.0
    if len(ordered) == 1:
        return round(ordered[0], 2)
    return round(statistics.quantiles(ordered, n=100, method="inclusive")[share - 1], 2)


def evaluate(
    name: str,
    judged: Sequence[JudgedQuery],
    wired: Wired,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Answer every question in every way and score the runs.

    Parameters
    ----------
    name
        The dataset's name.
    judged
        Questions with at least one relevant record each.
    wired
        Engines that hold the dataset.
    on_progress
        Called with the number of questions answered and the number of all.
    """
    runs: dict[str, dict[str, dict[str, float]]] = {row: {} for row in ROWS}
    latencies: list[float] = []
    degraded = 0
    if judged:
        pipeline.answer(judged[0].query, wired)  # models and indexes load on first use, which is not what is measured
    for done, question in enumerate(judged, start=1):
        answers = _strands(question.query, wired)
        began = time.perf_counter()
        answer = pipeline.answer(question.query, wired)
        latencies.append((time.perf_counter() - began) * 1000.0)
        degraded += bool(answer.degraded)
        answers["braid"] = [result.id for result in answer.results]
        for row, ids in answers.items():
            runs[row][question.id] = {identity: 1.0 / rank for rank, identity in enumerate(ids, start=1)}
        if on_progress:
            on_progress(done, len(judged))
    qrels = {question.id: question.relevant for question in judged}
    rows = tuple(score(row, run, qrels) for row, run in runs.items())
    return Evaluation(name, len(judged), rows, tuple(latencies), degraded)


def evaluate_folder(
    folder: Path,
    wired: Wired,
    *,
    on_ingest: Callable[[int, int], None] | None = None,
    on_question: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Ingest a dataset folder into engines of its own, once, and evaluate it there.

    They lie under ``home``/eval, apart from what users ingested, and are kept: the next run only asks. In deployed
    stores it is a tenant of its own, ``eval-`` and the content's hash, that stays and is written again by each run.

    Raises
    ------
    DatasetError
        If the folder is malformed or holds no judged question.
    """
    dataset = read_dataset(folder, RESERVED, judged=True)
    if not dataset.judged:
        raise DatasetError(f"{folder}: no question of queries.jsonl has a relevant record in qrels/test.tsv")
    ensure_models(wired)
    if wired.settings.engine is EngineKind.AWS:
        dataset = read_dataset(folder, f"{RESERVED}-{dataset.content_hash[:12]}", judged=True)
    home = wired.settings.home / "eval" / f"{dataset.name}-{dataset.content_hash[:12]}"
    own = Wired(wired.settings.uncached().model_copy(update={"home": home, "models_dir": wired.settings.models_path()}))
    with closing(own):
        ingest(dataset, own, threads=os.cpu_count(), on_progress=on_ingest)
        return evaluate(dataset.name, dataset.judged, own, on_progress=on_question)


def _strands(query: Query, wired: Wired) -> dict[str, list[str]]:
    """Return what each strand alone, and plain hybrid, put first."""
    planned: Planned = wired.plan(PlanRequest(query=query, trace_id=RESERVED, started_at=wired.now()))
    embedded = wired.embed(EmbedRequest(query=query, plan=planned.plan))
    found = wired.index.search(
        SearchRequest(
            tenant_id=query.tenant_id,
            text=query.text,
            embedding=embedded.embedding,
            k=DEPTH,
            filters=query.filters,
            as_of=query.as_of or wired.now(),
        )
    )
    walked = wired.graph_expand(GraphRequest(operation=GraphOperation.LINK, query=query, plan=planned.plan))
    semantic = query.model_copy(update={"hints": Hints(strategy=Strategy.SEMANTIC)})
    hybrid = pipeline.answer(semantic, wired)
    return {
        "dense": [hit.id for hit in found.vector],
        "lexical": [hit.id for hit in found.lexical],
        "hybrid": [result.id for result in hybrid.results],
        "graph": [hit.id for hit in walked.hits[:DEPTH]],
    }


def score(name: str, run: Mapping[str, Mapping[str, float]], qrels: Mapping[str, Mapping[str, int]]) -> Row:
    """Score one run with ir-measures: recall@2, @5, @10, nDCG@10 and MRR, with bootstrap intervals over questions."""
    import ir_measures
    from ir_measures import RR, R, nDCG

    measures = {"recall@2": R @ 2, "recall@5": R @ 5, "recall@10": R @ 10, "ndcg@10": nDCG @ 10, "mrr": RR}
    names = {str(measure): label for label, measure in measures.items()}
    per_query: dict[str, dict[str, float]] = {label: dict.fromkeys(qrels, 0.0) for label in measures}
    for metric in ir_measures.iter_calc(list(measures.values()), qrels, run):
        per_query[names[str(metric.measure)]][metric.query_id] = metric.value
    return Row(
        name=name,
        means={label: statistics.fmean(values.values()) if values else 0.0 for label, values in per_query.items()},
        intervals={label: bootstrap(list(values.values())) for label, values in per_query.items()},
        per_query=per_query,
    )


def bootstrap(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % percentile interval of the mean under resampling of questions; the seed is fixed."""
    import numpy as np

    if not values:
        return 0.0, 0.0
    sample = np.asarray(values, dtype=np.float64)
    draws = np.random.default_rng(SEED).integers(0, len(sample), size=(RESAMPLES, len(sample)))
    low, high = np.percentile(sample[draws].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)
