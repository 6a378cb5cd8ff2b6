"""Runs the stages of one question in process, as the state machine does in AWS.

Order, retries and the handling of failed stages are those of ``shared/statemachines/retrieve.asl.yaml``. A test runs
every strategy and every single failure through both and requires equal answers.

A store that fails, or takes longer than :mod:`braid.app` lets the stage wait, degrades an answer here: a stage that
fails after its retries is recorded in ``lost`` (``_Run._attempt``), each strategy continues with the other stages
(``_Run._semantic`` and its neighbours), and ``fuse_rerank`` lists the failed stages in the answer's ``degraded``, or
raises an error if no store answered.
"""

from __future__ import annotations

import random
import time
import uuid
from contextvars import copy_context
from typing import TYPE_CHECKING, Protocol, TypeVar

from braid.errors import StoresUnavailable, TransientStoreError
from braid.kept_threads import KeptThreads
from braid.models import EmbeddingType, Fusion, Intent, Mode, Plan, StepOperation, Strategy
from braid.retrieval.stages.stage_messages import (
    RECORDED_AS,
    Embedded,
    EmbedRequest,
    FuseRequest,
    GraphFound,
    GraphOperation,
    GraphRequest,
    Lost,
    Planned,
    PlanRequest,
    Searched,
    SearchStageRequest,
)
from braid.telemetry import recording

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from braid.models import Answer, PlanStep, Query

ATTEMPTS = 3
LONGEST_WAIT_S = 0.2
"""Longest wait before a stage is tried again; the wait is uniformly random (full jitter)."""
REFUSED_BY_PLAN = frozenset({"InvalidRequest"})
REFUSED_BY_FUSE = frozenset({"InvalidRequest", "StoresUnavailable"})
"""Errors that end a question rather than degrade it, by exact class name, as the state machine matches them."""
_POOL = KeptThreads(64, "braid-link")
"""Threads that link names while the question is embedded; kept, since starting one takes longer than its task."""
_T = TypeVar("_T")
_Request = TypeVar("_Request")


class Stages(Protocol):
    """The five stages over their engines, and the clock."""

    def plan(self, request: PlanRequest) -> Planned:
        """Plan one question."""

    def embed(self, request: EmbedRequest) -> Embedded:
        """Embed the question."""

    def vector_search(self, request: SearchStageRequest) -> Searched:
        """Search the index by vector and words."""

    def graph_expand(self, request: GraphRequest) -> GraphFound:
        """Run one operation on the graph."""

    def fuse_rerank(self, request: FuseRequest) -> Answer:
        """Fuse, rerank and return the answer."""

    def now(self) -> datetime:
        """Return the present moment."""


DEFAULT_PLAN = Plan(
    strategy=Strategy.HYBRID,
    mode=Mode.HYBRID,
    intent=Intent.EXPLORATORY,
    embedding_type=EmbeddingType.GENERAL,
    fusion=Fusion.PROPAGATE,
    reasons=("default plan: the plan stage was lost",),
)
"""The plan if the plan stage fails; equal to the state machine's DefaultPlan state."""


def answer(query: Query, stages: Stages, *, trace_id: str | None = None) -> Answer:
    """Answer one question.

    Raises InvalidRequest if the question is not valid, and StoresUnavailable if neither store answered.
    """
    return _Run(stages, query, trace_id or str(uuid.uuid4())).answer()


class _Run:
    """Results of the stages of one question so far, and the order of the stages."""

    def __init__(self, stages: Stages, query: Query, trace_id: str) -> None:
        self.stages, self.query = stages, query
        self.trace_id, self.started_at = trace_id, stages.now()
        self.lost: dict[str, Lost] = {}
        self.plan = DEFAULT_PLAN
        self.plan_ms = 0.0
        self.embedded: Embedded | None = None
        self.searched: Searched | None = None
        self.linked: GraphFound | None = None
        """What was found by the names in the question, beside a search. With a graph constraint: what it reaches, then
        those of the search's hits that meet it. None with other strategies."""
        self.expanded: GraphFound | None = None
        """Of the walk: from names and the search's hits; from names alone with ``graph_only``, and with ``semantic`` if
        the search is lost; of the last step in the graph with ``multi_hop``. A graph constraint has none."""

    def answer(self) -> Answer:
        request = PlanRequest(query=self.query, trace_id=self.trace_id, started_at=self.started_at)
        planned = self._attempt("plan", self.stages.plan, request)
        if planned is not None:
            self.plan, self.query, self.plan_ms = planned.plan, planned.query, planned.plan_ms
        if self.query.graph_constraint:
            self._constrained()
            return self._fuse()
        match self.plan.strategy:
            case Strategy.SEMANTIC:
                self._semantic()
            case Strategy.GRAPH_ONLY:
                self._graph_only()
            case Strategy.MULTI_HOP:
                self._multi_hop()
            case _:
                self._hybrid()
        return self._fuse()

    def _hybrid(self) -> None:
        """Link names while the question is embedded and searched, then expand what both found."""
        linking = _POOL.submit(copy_context().run, self._graph, GraphOperation.LINK)
        self._embed()
        self._search(None)
        self.linked = linking.result()
        self.expanded = self._graph(GraphOperation.EXPAND)

    def _semantic(self) -> None:
        """Embed and search; if the search fails, walk from names instead."""
        self._embed()
        if self._search(None) is None:
            self._walk_from_names()

    def _graph_only(self) -> None:
        """Walk from names; if that finds nothing, embed and search instead."""
        self._walk_from_names()
        if not (self.expanded and self.expanded.hits):
            self._embed()
            self._search(None)

    def _walk_from_names(self) -> None:
        """Link the question's names and walk from them; the result is in ``expanded``, as that of EXPAND."""
        self.expanded = self._graph(GraphOperation.WALK)

    def _constrained(self) -> None:
        """Answer inside a graph constraint: graph or search first, as planned, then check hits or search again."""
        frontier: tuple[str, ...] | None = None
        if self.plan.strategy is not Strategy.VECTOR_FIRST:
            self.linked = self._graph(GraphOperation.CONSTRAIN)
            frontier = self.linked.frontier if self.linked and not self.linked.overflow else None
        self._embed()
        further = self._search_and_check(frontier)
        if further is not None:
            self._search_and_check(further)

    def _search_and_check(self, frontier: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Search, and check the hits that may be outside of the constraint; return the ids to search if few are left.

        Hits may be outside if the search was first, or if the graph's reach was cut.
        """
        found, linked = self._search(frontier), self.linked
        to_check = linked is None or (found is not None and (linked.wide or linked.overflow))
        if "link" in self.lost or not to_check:
            return None
        checked = self._graph(GraphOperation.CHECK, frontier=frontier)
        self.linked = checked or linked
        return checked.frontier if checked and checked.short else None

    def _embed(self) -> None:
        request = EmbedRequest(query=self.query, plan=self.plan)
        self.embedded = self._attempt("embed", self.stages.embed, request) or self.embedded

    def _search(self, frontier: tuple[str, ...] | None, step: PlanStep | None = None) -> Searched | None:
        request = SearchStageRequest(
            query=self.query, plan=self.plan, embedded=self.embedded, frontier=frontier, step=step
        )
        found = self._attempt("vector_search", self.stages.vector_search, request)
        self.searched = found or self.searched
        return found

    def _graph(
        self,
        operation: GraphOperation,
        *,
        frontier: tuple[str, ...] | None = None,
        step: PlanStep | None = None,
    ) -> GraphFound | None:
        request = GraphRequest(
            operation=operation,
            query=self.query,
            plan=self.plan,
            searched=self.searched if operation in {GraphOperation.EXPAND, GraphOperation.CHECK} else None,
            linked=self.linked if operation is GraphOperation.EXPAND else None,
            frontier=frontier,
            step=step,
        )
        return self._attempt(RECORDED_AS[operation], self.stages.graph_expand, request)

    def _multi_hop(self) -> None:
        """Run the plan's steps, each within the last one's hits; if the graph finds nothing, fall back to hybrid.

        It does not fall back from the caller's steps, unless the graph failed and the index was not searched.
        """
        self._embed()
        frontier: tuple[str, ...] | None = None
        for step in self.plan.steps:
            found: Searched | GraphFound | None
            if step.operation is StepOperation.SEARCH:
                found = self._search(frontier, step)
            else:
                found = self._graph(GraphOperation.STEP, frontier=frontier, step=step)
                self.expanded = found or self.expanded
            frontier = found.frontier if found is not None else frontier
        if self.expanded and self.expanded.hits:
            return
        asked_index = self.searched is not None or "vector_search" in self.lost
        # The planner's own steps found nothing, or the caller's are walks of a graph that failed.
        if not self.query.hints.steps or ("graph_expand" in self.lost and not asked_index):
            self._hybrid()

    def _fuse(self) -> Answer:
        request = FuseRequest(
            query=self.query,
            plan=self.plan,
            trace_id=self.trace_id,
            started_at=self.started_at,
            plan_ms=self.plan_ms,
            embedded=self.embedded,
            searched=self.searched,
            linked=self.linked,
            expanded=self.expanded,
            lost=self.lost,
        )
        try:
            return _retrying("fuse_rerank", self.stages.fuse_rerank, request)
        except Exception as error:
            # The reranker may be the cause, so the second try does without it.
            if type(error).__name__ in REFUSED_BY_FUSE:
                raise
            self.lost["rerank"] = Lost(error=type(error).__name__, cause=str(error))
            second = request.altered(without_rerank=True, lost=self.lost)
        try:
            return _retrying("fuse_rerank", self.stages.fuse_rerank, second)
        except Exception as error:
            raise StoresUnavailable(str(error)) from error

    def _attempt(self, name: str, stage: Callable[[_Request], _T], request: _Request) -> _T | None:
        """Run a stage with retries; if it fails, record it in ``lost`` and return None.

        Errors of the plan stage in :data:`REFUSED_BY_PLAN` are raised: the question is invalid.
        """
        try:
            return _retrying(name, stage, request)
        except Exception as error:
            # Like States.ALL in the state machine: a failed stage does not fail the answer.
            if name == "plan" and type(error).__name__ in REFUSED_BY_PLAN:
                raise
            self.lost[name] = Lost(error=type(error).__name__, cause=str(error))
            return None


def _retrying(name: str, stage: Callable[[_Request], _T], request: _Request) -> _T:
    recorded = recording.stage(name)(stage)  # a span for each attempt
    for _ in range(1, ATTEMPTS):
        try:
            return recorded(request)
        except TransientStoreError:
            time.sleep(random.uniform(0.0, LONGEST_WAIT_S))  # noqa: S311 - no secret
    return recorded(request)
