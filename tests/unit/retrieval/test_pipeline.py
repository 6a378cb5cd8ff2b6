"""The pipeline: which stages a strategy calls, what one hands to the next, and what a lost one costs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import (
    InvalidRequest,
    StoresUnavailable,
    StoreTooSlow,
    TransientStoreError,
)
from braid.models import Answer, GraphConstraint, Hints, Plan, PlanStep, StepOperation, Strategy, Weights
from braid.retrieval import pipeline
from braid.retrieval.stages.stage_messages import (
    Embedded,
    EmbedRequest,
    FuseRequest,
    GraphFound,
    GraphRequest,
    Planned,
    PlanRequest,
    Searched,
    SearchStageRequest,
)

from tests.fakes import NOW, embedding, hits, plan, query, walked

if TYPE_CHECKING:
    from datetime import datetime

SEARCH, EXPAND = PlanStep(operation=StepOperation.SEARCH), PlanStep(operation=StepOperation.EXPAND)
EMBEDDED = Embedded(embedding=embedding(1.0), took_ms=1)
SEARCHED = Searched(vector=hits(("a", 0.9)), frontier=("a",), took_ms=1)
FOUND = GraphFound(hits=(walked("e", "b"),), frontier=("b",), took_ms=1)
NONE_FOUND = GraphFound(took_ms=1)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "LONGEST_WAIT_S", 0.0)


class FakeStages:
    """Stages that return what they are given, or raise it; keeps what each was asked, in order.

    A list holds one outcome a call, the last of which repeats. The graph's are by operation.
    """

    def __init__(
        self, strategy: Strategy = Strategy.HYBRID, *, steps: tuple[PlanStep, ...] = (), **outcomes: Any
    ) -> None:
        self.made = plan(strategy=strategy, steps=steps, reasons=("planned",))
        self.outcomes = {"embed": EMBEDDED, "search": SEARCHED, "fuse": None} | outcomes
        self.asked: list[tuple[str, Any]] = []

    def _give(self, name: str, request: Any, default: Any = FOUND) -> Any:
        self.asked.append((name, request))
        outcome = self.outcomes.get(name, default)
        if isinstance(outcome, list):
            outcome = outcome.pop(0) if len(outcome) > 1 else outcome[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def plan(self, request: PlanRequest) -> Planned:
        planned = Planned(
            query=request.query, plan=self.made, trace_id=request.trace_id, started_at=request.started_at, plan_ms=5
        )
        return self._give("plan", request, planned)  # type: ignore[no-any-return]

    def embed(self, request: EmbedRequest) -> Embedded:
        return self._give("embed", request)  # type: ignore[no-any-return]

    def vector_search(self, request: SearchStageRequest) -> Searched:
        return self._give("search", request)  # type: ignore[no-any-return]

    def graph_expand(self, request: GraphRequest) -> GraphFound:
        return self._give(request.operation.value, request)  # type: ignore[no-any-return]

    def fuse_rerank(self, request: FuseRequest) -> Answer:
        return self._give("fuse", request) or answer_to(request)

    def now(self) -> datetime:
        return NOW

    def names(self) -> list[str]:
        return [name for name, _ in self.asked]

    def request(self, name: str, call: int = -1) -> Any:
        return [request for asked, request in self.asked if asked == name][call]


def answer_to(request: FuseRequest) -> Answer:
    return Answer(
        trace_id=request.trace_id,
        results=(),
        sources=(),
        related_entities=(),
        plan=request.plan,
        weights=Weights(vector=1, lexical=0, graph=0),
        counts={},
        superseded=0,
        truncated=False,
        degraded=tuple(request.lost),
        latency_ms={},
        answered_at=NOW,
    )


def run(stages: FakeStages, **changes: Any) -> Answer:
    return pipeline.answer(query(**changes), stages, trace_id="t-1")


WITHIN = {"graph_constraint": GraphConstraint(entity="Keelson")}


def test_a_semantic_question_asks_no_graph() -> None:
    stages = FakeStages(Strategy.SEMANTIC)
    run(stages)
    assert stages.names() == ["plan", "embed", "search", "fuse"]
    assert stages.request("search").embedded == EMBEDDED
    fused = stages.request("fuse")
    assert (fused.searched, fused.linked, fused.expanded, fused.plan_ms) == (SEARCHED, None, None, 5)


@pytest.mark.parametrize("strategy", [Strategy.HYBRID, Strategy.VECTOR_FIRST])
def test_a_hybrid_question_links_beside_the_search_and_walks_from_what_it_found(strategy: Strategy) -> None:
    stages = FakeStages(strategy)
    run(stages)
    assert Counter(stages.names()) == Counter(["plan", "embed", "search", "link", "expand", "fuse"])
    assert stages.names()[-2:] == ["expand", "fuse"]
    assert stages.request("expand").searched == SEARCHED
    assert stages.request("link").searched is None
    assert (stages.request("fuse").linked, stages.request("fuse").expanded) == (FOUND, FOUND)


def test_a_constrained_question_searches_only_what_the_graph_allows() -> None:
    stages = FakeStages(Strategy.GRAPH_FIRST)
    run(stages, **WITHIN)
    assert stages.names() == ["plan", "constrain", "embed", "search", "fuse"]
    assert stages.request("search").frontier == ("b",)
    nothing = FakeStages(Strategy.GRAPH_FIRST, constrain=NONE_FOUND)
    run(nothing, **WITHIN)
    assert nothing.request("search").frontier == ()


def test_a_constraint_that_reaches_far_is_checked_after_the_search() -> None:
    stages = FakeStages(Strategy.VECTOR_FIRST)
    run(stages, **WITHIN)
    assert stages.names() == ["plan", "embed", "search", "check", "fuse"]
    assert stages.request("search").frontier is None
    assert (stages.request("check").searched, stages.request("check").frontier) == (SEARCHED, None)
    assert stages.request("fuse").linked == FOUND


def test_too_few_hits_inside_a_constraint_are_searched_for_inside_it() -> None:
    short = GraphFound(frontier=("b", "c"), wide=True, short=True, took_ms=1)
    stages = FakeStages(Strategy.VECTOR_FIRST, check=[short, FOUND])
    run(stages, **WITHIN)
    assert stages.names() == ["plan", "embed", "search", "check", "search", "check", "fuse"]
    assert stages.request("search").frontier == ("b", "c")
    assert stages.request("check").frontier == ("b", "c")
    assert stages.request("fuse").linked == FOUND


def test_a_constraint_that_overflows_is_searched_whole_and_then_checked() -> None:
    overflow = GraphFound(frontier=("b",), wide=True, overflow=True, took_ms=1)
    stages = FakeStages(Strategy.GRAPH_FIRST, constrain=overflow)
    run(stages, **WITHIN)
    assert stages.names() == ["plan", "constrain", "embed", "search", "check", "fuse"]
    assert stages.request("search").frontier is None


def test_a_constraint_too_wide_to_carry_its_paths_is_searched_inside_and_checked_for_them() -> None:
    wide = GraphFound(frontier=("b", "c"), wide=True, took_ms=1)
    stages = FakeStages(Strategy.GRAPH_FIRST, constrain=wide)
    run(stages, **WITHIN)
    assert stages.names() == ["plan", "constrain", "embed", "search", "check", "fuse"]
    assert (stages.request("search").frontier, stages.request("check").frontier) == (("b", "c"), ("b", "c"))


def test_a_constraint_holds_when_the_plan_is_lost() -> None:
    stages = FakeStages(Strategy.SEMANTIC, plan=RuntimeError("down"))
    assert run(stages, **WITHIN).degraded == ("plan",)
    assert stages.names() == ["plan", "constrain", "embed", "search", "fuse"]


def test_a_lost_search_leaves_a_constrained_question_to_what_the_constraint_reaches() -> None:
    stages = FakeStages(Strategy.VECTOR_FIRST, search=RuntimeError("down"))
    run(stages, **WITHIN)
    assert stages.names() == ["plan", "embed", "search", "check", "fuse"]
    assert (stages.request("check").searched, stages.request("fuse").linked) == (None, FOUND)


def test_the_graph_alone_answers_and_text_only_when_it_finds_nothing() -> None:
    stages = FakeStages(Strategy.GRAPH_ONLY)
    run(stages)
    assert stages.names() == ["plan", "walk", "fuse"]
    empty = FakeStages(Strategy.GRAPH_ONLY, walk=NONE_FOUND)
    run(empty)
    assert empty.names() == ["plan", "walk", "embed", "search", "fuse"]


def test_each_step_of_a_multi_hop_question_begins_where_the_last_ended() -> None:
    stages = FakeStages(Strategy.MULTI_HOP, steps=(SEARCH, EXPAND, SEARCH))
    run(stages)
    assert stages.names() == ["plan", "embed", "search", "step", "search", "fuse"]
    assert stages.request("search", 0).frontier is None
    assert stages.request("step").frontier == ("a",)
    assert stages.request("search", 1).frontier == ("b",)


def test_steps_that_lead_nowhere_leave_the_question_to_search_and_names_unless_the_caller_gave_them() -> None:
    stages = FakeStages(Strategy.MULTI_HOP, steps=(EXPAND,), step=NONE_FOUND)
    run(stages)
    assert stages.names()[:3] == ["plan", "embed", "step"]
    assert set(stages.names()[3:-2]) == {"link", "embed", "search"}
    assert stages.names()[-2:] == ["expand", "fuse"]
    given = FakeStages(Strategy.MULTI_HOP, steps=(EXPAND,), step=NONE_FOUND)
    run(given, hints=Hints(steps=(EXPAND,)))
    assert given.names() == ["plan", "embed", "step", "fuse"]


def test_a_lost_step_is_marked_and_the_next_begins_where_the_one_before_ended() -> None:
    stages = FakeStages(Strategy.MULTI_HOP, steps=(SEARCH, EXPAND, SEARCH), step=RuntimeError("down"))
    assert run(stages, hints=Hints(steps=(SEARCH, EXPAND, SEARCH))).degraded == ("graph_expand",)
    assert stages.request("search", 1).frontier == ("a",)


@pytest.mark.parametrize(
    ("lost", "mark"),
    [("plan", "plan"), ("embed", "embed"), ("search", "vector_search"), ("link", "link"), ("expand", "graph_expand")],
)
def test_a_lost_stage_is_marked_with_its_error_and_the_rest_goes_on(lost: str, mark: str) -> None:
    stages = FakeStages(Strategy.HYBRID, **{lost: RuntimeError("out of luck")})
    assert run(stages).degraded == (mark,)
    marked = stages.request("fuse").lost[mark]
    assert (marked.error, marked.cause) == ("RuntimeError", "out of luck")


def test_without_a_plan_the_default_one_answers() -> None:
    stages = FakeStages(Strategy.SEMANTIC, plan=TransientStoreError("slow"))
    made: Plan = run(stages).plan
    assert made == pipeline.DEFAULT_PLAN
    assert made.strategy is Strategy.HYBRID
    assert "lost" in made.reasons[0]


def test_a_lost_search_leaves_a_semantic_question_to_the_graph() -> None:
    stages = FakeStages(Strategy.SEMANTIC, search=RuntimeError("down"))
    run(stages)
    assert stages.names() == ["plan", "embed", "search", "walk", "fuse"]
    assert (stages.request("fuse").searched, stages.request("fuse").expanded) == (None, FOUND)


def test_a_graph_that_was_asked_already_is_not_asked_again() -> None:
    stages = FakeStages(Strategy.GRAPH_FIRST, search=RuntimeError("down"))
    run(stages, **WITHIN)
    assert stages.names() == ["plan", "constrain", "embed", "search", "fuse"]


@pytest.mark.parametrize("error", [InvalidRequest("top_k")])
def test_a_plan_that_refuses_the_question_ends_it(error: Exception) -> None:
    stages = FakeStages(plan=error)
    with pytest.raises(type(error)):
        run(stages)
    assert stages.names() == ["plan"]


def test_what_is_worth_trying_again_is_tried_three_times() -> None:
    error = TransientStoreError("slow")
    helped = FakeStages(Strategy.SEMANTIC, search=[error, error, SEARCHED])
    assert run(helped).degraded == ()
    assert helped.names().count("search") == 3
    hopeless = FakeStages(Strategy.SEMANTIC, search=error)
    assert run(hopeless).degraded == ("vector_search",)
    assert hopeless.names().count("search") == 3


@pytest.mark.parametrize("error", [RuntimeError("malformed"), StoreTooSlow("all the time is gone")])
def test_what_is_not_worth_it_is_tried_once(error: Exception) -> None:
    stages = FakeStages(Strategy.SEMANTIC, search=error)
    run(stages)
    assert stages.names().count("search") == 1


def test_a_fuse_that_fails_is_tried_again_without_its_reranker() -> None:
    stages = FakeStages(Strategy.SEMANTIC, fuse=[MemoryError("too big"), None])
    assert run(stages).degraded == ("rerank",)
    assert [stages.request("fuse", call).without_rerank for call in (0, 1)] == [False, True]


def test_a_fuse_that_fails_twice_is_an_outage() -> None:
    with pytest.raises(StoresUnavailable, match="too big"):
        run(FakeStages(fuse=MemoryError("too big")))


@pytest.mark.parametrize("error", [StoresUnavailable("both"), InvalidRequest("top_k")])
def test_a_fuse_that_refuses_is_not_tried_again(error: Exception) -> None:
    stages = FakeStages(fuse=error)
    with pytest.raises(type(error)):
        run(stages)
    assert stages.names().count("fuse") == 1


def test_a_question_keeps_its_trace_and_has_one_when_none_is_given() -> None:
    assert run(FakeStages()).trace_id == "t-1"
    first, second = (pipeline.answer(query(), FakeStages()).trace_id for _ in range(2))
    assert first != second
    assert len(first) == 36
