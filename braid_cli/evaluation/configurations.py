"""Configurations of retrieval that an evaluation compares: single strands, fusions and rerankers.

Each has a name, a meaning, and a function from a question to ranked ids. Most run the pipeline with changed fields of
the question: see :func:`configurations`.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from braid.errors import StoreError, StoresUnavailable
from braid.models import Fusion, Hints, Query, RerankerKind, Strategy
from braid.ports.search_index import SearchRequest
from braid.retrieval import pipeline
from braid.retrieval.stages.stage_messages import EmbedRequest, GraphOperation, GraphRequest, PlanRequest

from braid_cli.evaluation.metrics import CURVE

if TYPE_CHECKING:
    from collections.abc import Callable

    from braid.app import Application
    from braid.retrieval.stages.stage_messages import Planned
    from braid.settings import Settings

DEFAULT = "braid"
"""Name of the default configuration, used by `braid search`."""
TRACE = "evaluation"
_ATTEMPTS = 5
_ANSWER = TypeVar("_ANSWER", bound="_Answer")


@dataclass(frozen=True)
class RankedIds:
    """The ranked ids of one question."""

    ids: tuple[str, ...]
    degraded: bool = False
    intent: str | None = None
    took_ms: float = 0.0


@dataclass(frozen=True)
class Configuration:
    """A named configuration of retrieval."""

    name: str
    meaning: str
    answer: Callable[[Query, Application], RankedIds]
    alone: bool = False
    """Whether it is a single strand."""

    def timed(self, query: Query, application: Application) -> RankedIds:
        """Answer a question by :func:`undisturbed`, and measure its latency."""

        def once() -> RankedIds:
            began = time.perf_counter()
            found = self.answer(query, application)
            return replace(found, took_ms=(time.perf_counter() - began) * 1000.0)

        return undisturbed(once)


class _Answer(Protocol):
    @property
    def degraded(self) -> object: ...


def undisturbed(ask: Callable[[], _ANSWER]) -> _ANSWER:
    """Ask up to five times until no stage fails, as the load of the machine should not affect quality figures."""
    for _ in range(1, _ATTEMPTS):
        with suppress(StoreError, StoresUnavailable):
            answer = ask()
            if not answer.degraded:
                return answer
    return ask()


def pipeline_with(name: str, meaning: str, **changes: Any) -> Configuration:  # noqa: ANN401 - any field of a question
    """Return a configuration that runs the pipeline with changed fields of the question."""

    def answer(query: Query, application: Application) -> RankedIds:
        found = pipeline.answer(query.model_copy(update={"top_k": CURVE, **changes}), application)
        ids = tuple(one for result in found.results for one in (result.id, *result.copies))
        return RankedIds(ids, bool(found.degraded), found.plan.intent.value)

    return Configuration(name, meaning, answer)


def configurations(settings: Settings, *, brief: bool = False) -> tuple[Configuration, ...]:
    """Return every configuration, the default last.

    Parameters
    ----------
    settings
        Settings, by which rerankers are available or not.
    brief
        Return only the strands, ``hybrid-weighted`` and the default.
    """
    plain = {"hints": Hints(strategy=Strategy.SEMANTIC), "reranker": RerankerKind.NONE}
    strands = (
        Configuration("dense", "vectors alone", _dense, alone=True),
        Configuration("lexical", "words alone (BM25)", _lexical, alone=True),
        Configuration("graph", "names and relationships alone", _graph, alone=True),
    )
    by_ranks = pipeline_with("hybrid-rrf", "vectors and words, by ranks", fusion=Fusion.RRF, **plain)
    by_scores = pipeline_with("hybrid-weighted", "vectors and words, by scores", fusion=Fusion.WEIGHTED, **plain)
    default = pipeline_with(DEFAULT, "as `braid search` answers by default")
    if brief:
        return (*strands, by_scores, default)
    fusions = [
        pipeline_with(
            f"fusion-{fusion.value}", f"all strands, {fusion.value}", fusion=fusion, reranker=RerankerKind.NONE
        )
        for fusion in Fusion
    ]
    rerankers = [
        pipeline_with(f"rerank-{kind.value}", f"the default fusion, reranked by {kind.value}", reranker=kind)
        for kind in local_rerankers(settings)
    ]
    return (*strands, by_ranks, by_scores, *fusions, *rerankers, default)


def local_rerankers(settings: Settings) -> list[RerankerKind]:
    """Return the rerankers that are not hosted; a cross-encoder only if its model folder exists."""
    kinds = [kind for kind in RerankerKind if kind is not RerankerKind.NONE and not kind.is_hosted]
    folder = settings.models_path() / settings.reranker_model if settings.reranker_model else None
    return [kind for kind in kinds if kind is not RerankerKind.ONNX or (folder is not None and folder.is_dir())]


def _plan(query: Query, application: Application) -> Planned:
    return application.plan(PlanRequest(query=query, trace_id=TRACE, started_at=application.now()))


def _search(query: Query, application: Application, **conditions: Any) -> SearchRequest:  # noqa: ANN401 - text, or an embedding
    return SearchRequest(
        tenant_id=query.tenant_id, k=CURVE, filters=query.filters, as_of=query.as_of or application.now(), **conditions
    )


def _dense(query: Query, application: Application) -> RankedIds:
    embedded = application.embed(EmbedRequest(query=query, plan=_plan(query, application).plan))
    found = application.index.search(_search(query, application, embedding=embedded.embedding))
    return RankedIds(tuple(hit.id for hit in found.vector))


def _lexical(query: Query, application: Application) -> RankedIds:
    found = application.index.search(_search(query, application, text=query.text))
    return RankedIds(tuple(hit.id for hit in found.lexical))


def _graph(query: Query, application: Application) -> RankedIds:
    planned = _plan(query, application)
    found = application.graph_expand(GraphRequest(operation=GraphOperation.WALK, query=query, plan=planned.plan))
    # An entity without a record is not a result, only a start of walks.
    return RankedIds(tuple(hit.id for hit in found.hits if hit.has_record)[:CURVE])
