"""The graph_expand stage: what the graph is asked by intent, in how many calls, and what its answer counts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from braid.models import (
    Direction,
    Filters,
    Fusion,
    GraphConstraint,
    Intent,
    Plan,
    PlanStep,
    Query,
    Source,
    StepOperation,
    TemporalContext,
    TimeRange,
)
from braid.ports.knowledge_graph import ExpandRequest, Expansion
from braid.retrieval.stages import graph_expand
from braid.retrieval.stages.graph_expand import MAX_REACHED, expansion_for
from braid.retrieval.stages.name_linking import MAX_LINKED_NAMES
from braid.retrieval.stages.stage_messages import GraphFound, GraphOperation, GraphRequest, Searched
from braid.retrieval.stages.walk_seeds_and_scores import GraphLimits

from tests.fakes import NOW, TENANT, FakeGraph, hits, link, plan, query, walked

if TYPE_CHECKING:
    from collections.abc import Callable

    from braid.models import GraphHit

SPAN = TimeRange(start="2024-01-01")
LINK, WALK, EXPAND, CONSTRAIN, CHECK, STEP = GraphOperation
SEARCHED = Searched(vector=hits(("a", 0.8), ("b", 0.4)), lexical=hits(("b", 0.9)), frontier=("b", "a"), took_ms=1)


def run(
    graph: FakeGraph,
    operation: GraphOperation,
    asked: Query | None = None,
    made: Plan | None = None,
    *,
    limits: GraphLimits | None = None,
    searched: Searched | None = None,
    frontier: tuple[str, ...] | None = None,
    step: PlanStep | None = None,
) -> GraphFound:
    request = GraphRequest(
        operation=operation,
        query=asked or query(),
        plan=made or plan(),
        searched=searched,
        frontier=frontier,
        step=step,
    )
    return graph_expand.run(request, graph=graph, now=NOW, limits=limits or GraphLimits())


def reaching(*found: GraphHit, truncated: bool = False) -> Callable[[ExpandRequest], Expansion]:
    """Return a walk that reaches the hits whose walks begin at a seed and are of the asked types."""

    def walk(request: ExpandRequest) -> Expansion:
        kept = [
            hit
            for hit in found
            if hit.path.ids[0] in request.seeds and (not request.types or set(hit.path.types) <= set(request.types))
        ]
        return Expansion(hits=tuple(kept), truncated=truncated)

    return walk


def expansion(made: Plan, asked: Query | None = None) -> ExpandRequest:
    return expansion_for(made, asked or query(), ("s",), as_of=NOW, limit=50, fan_out=200)


@pytest.mark.parametrize("direction", [Direction.IN, Direction.OUT])
def test_a_causal_walk_follows_causes_up_to_3_hops_by_confidence(direction: Direction) -> None:
    asked = expansion(plan(Intent.CAUSAL, direction=direction), query(filters=Filters(time_range=SPAN)))
    assert asked.types == ("CAUSES", "ENABLES", "PREVENTS")
    assert (asked.direction, asked.max_hops, asked.by_confidence, asked.by_time) == (direction, 3, True, False)
    assert asked.time_range is None


def test_a_temporal_walk_follows_time_up_to_3_hops_and_is_listed_by_time() -> None:
    asked = expansion(plan(Intent.TEMPORAL, direction=Direction.BOTH))
    assert asked.types == ("BEFORE", "AFTER", "DURING")
    assert (asked.direction, asked.max_hops, asked.by_confidence, asked.by_time) == (Direction.BOTH, 3, True, True)
    assert asked.time_range is None


def test_a_temporal_walk_is_inside_the_time_that_is_asked_for() -> None:
    context = TemporalContext(time_range=SPAN)
    filters = Filters(time_range=TimeRange(start="2025-01-01"))
    temporal = plan(Intent.TEMPORAL)
    assert expansion(temporal, query(temporal_context=context)).time_range == SPAN
    assert expansion(temporal, query(temporal_context=context, filters=filters)).time_range == filters.time_range


@pytest.mark.parametrize("intent", [Intent.LOOKUP, Intent.EXPLORATORY])
def test_any_other_walk_follows_every_type_both_ways_up_to_2_hops(intent: Intent) -> None:
    asked = expansion(plan(intent, direction=Direction.OUT))
    assert (asked.types, asked.direction, asked.max_hops) == ((), Direction.BOTH, 2)
    assert (asked.by_confidence, asked.by_time) == (False, False)


def test_every_walk_has_its_tenant_its_moment_and_its_bounds() -> None:
    graph = FakeGraph(links=[link("e", "Keelson")])
    limits = GraphLimits(seeds=1, limit=7, fan_out=3)
    asked = query("who owns Keelson", as_of="2024-05-17", graph_constraint=GraphConstraint(entity="Keelson"))
    run(graph, LINK, asked, limits=limits)
    run(graph, EXPAND, asked, limits=limits, searched=SEARCHED)
    run(graph, CONSTRAIN, asked, limits=limits)
    run(graph, STEP, asked, limits=limits, step=PlanStep(operation=StepOperation.EXPAND, limit=7))
    then = datetime(2024, 5, 17, tzinfo=UTC)
    assert len(graph.expanded) == 5
    assert all((one.tenant_id, one.as_of) == (TENANT, then) for one in graph.expanded)
    assert [one.fan_out for one in graph.expanded] == [3, 3, 3, 10_000, 3]
    assert all((tenant, as_of) == (TENANT, then) for tenant, _, as_of in graph.linked)
    assert [one.limit for one in graph.expanded] == [7, 7, 7, 1_000, 7]


def test_one_walk_leaves_from_the_first_hits_whatever_their_number() -> None:
    graph = FakeGraph()
    many = tuple(f"r{number}" for number in range(40))
    searched = Searched(vector=hits(*((one, 0.5) for one in many)), frontier=many, took_ms=1)
    run(graph, EXPAND, searched=searched)
    assert [one.seeds for one in graph.expanded] == [many[:10]]
    assert graph.linked == []


def test_a_walk_counts_as_the_hit_that_it_left_from_and_less_the_further_that_is_behind_the_best() -> None:
    graph = FakeGraph(walk=reaching(walked("a", "x", score=0.5), walked("b", "y", score=0.5)))
    found = run(graph, EXPAND, searched=SEARCHED)
    assert {hit.id: hit.score for hit in found.hits} == pytest.approx({"x": 0.4 * (0.8 / 0.9) ** 2, "y": 0.45})
    assert [(hit.id, hit.rank) for hit in found.hits] == [("y", 1), ("x", 2)]
    assert found.hits[0].reason == "graph path: RELATED_TO"


def test_where_a_walk_from_a_name_answers_hits_count_half() -> None:
    causal, asked = plan(Intent.CAUSAL), query("why did Keelson stop")
    answer = walked("e", "z", types=("CAUSES",))
    graph = FakeGraph(walk=reaching(walked("b", "y", score=0.5, types=("CAUSES",))))
    for hits_of_names, expected in (((answer,), 0.225), ((), 0.45)):
        linked = GraphFound(links=(link("e", "Keelson"),), hits=hits_of_names, took_ms=1)
        request = GraphRequest(operation=EXPAND, query=asked, plan=causal, searched=SEARCHED, linked=linked)
        (hit,) = graph_expand.run(request, graph=graph, now=NOW, limits=GraphLimits()).hits
        assert hit.score == pytest.approx(expected)


def test_what_a_temporal_walk_reached_is_listed_by_time_and_ranked_by_score() -> None:
    graph = FakeGraph(
        walk=reaching(
            walked("b", "late", score=0.9, types=("AFTER",), timestamp="2024-03-01"),
            walked("b", "early", score=0.5, types=("AFTER",), timestamp="2024-01-01"),
            walked("b", "never", score=0.7, types=("AFTER",)),
        )
    )
    found = run(graph, EXPAND, made=plan(Intent.TEMPORAL), searched=SEARCHED)
    assert [(hit.id, hit.rank) for hit in found.hits] == [("early", 3), ("late", 1), ("never", 2)]


def test_without_seeds_or_names_the_graph_is_not_walked() -> None:
    graph = FakeGraph()
    assert run(graph, EXPAND, searched=None).hits == ()
    assert run(graph, EXPAND, searched=Searched(took_ms=1)).hits == ()
    assert run(graph, LINK, query("who owns Keelson")).hits == ()
    assert run(graph, LINK, query("is it so?")).hits == ()
    assert run(graph, CONSTRAIN).hits == ()
    assert run(graph, STEP, frontier=(), step=PlanStep(operation=StepOperation.EXPAND)).hits == ()
    assert graph.expanded == []


def test_a_name_in_the_question_finds_its_entity_what_mentions_it_and_what_is_reached_from_it() -> None:
    graph = FakeGraph(
        links=[link("e", "Vendor X"), link("f", "Keelson", phrase="the keel", score=0.9)],
        walk=reaching(
            walked("e", "chunk", score=0.8, types=("MENTIONS",)),
            walked("f", "note", score=1.0, types=("MENTIONS",)),
            walked("f", "owner", score=0.5, types=("OWNS",)),
        ),
    )
    found = run(graph, LINK, query("Who sold the keel to Vendor X?"))
    by_id = {hit.id: hit for hit in found.hits}
    assert {one: hit.score for one, hit in by_id.items()} == pytest.approx(
        {"e": 1.0, "f": 0.9, "chunk": 0.5 * 0.8, "note": 0.5 * 0.9, "owner": 0.9 * 0.5}
    )
    assert by_id["e"].reason == by_id["chunk"].reason == "entity match: Vendor X"
    assert by_id["e"].source is Source.KNOWLEDGE
    assert (by_id["owner"].source, by_id["owner"].reason) == (Source.GRAPH, "graph path: OWNS")
    assert [one.entity_id for one in found.links] == ["e", "f"]
    assert found.frontier == tuple(hit.id for hit in found.hits)


def test_a_mention_that_carries_evidence_counts_more() -> None:
    graph = FakeGraph(
        links=[link("e", "Keelson", score=0.9)],
        walk=reaching(
            walked("e", "guessed", score=0.5, types=("MENTIONS",)),
            walked("e", "read", score=0.5, types=("MENTIONS",), evidence=("read",)),
            walked("e", "owner", score=0.5, types=("OWNS",), evidence=("read",)),
        ),
    )
    found = run(graph, LINK, query("Keelson"))
    assert {hit.id: hit.score for hit in found.hits} == pytest.approx(
        {"e": 0.9, "guessed": 0.5 * 0.5 * 0.9, "read": 0.6 * 0.5 * 0.9, "owner": 0.5 * 0.9}
    )


def test_a_named_entity_is_an_answer_where_it_has_a_record() -> None:
    graph = FakeGraph(links=[link("e", "Keelson", has_record=True), link("f", "Vendor X")])
    found = run(graph, LINK, query("Keelson and Vendor X"))
    assert {hit.id: hit.has_record for hit in found.hits} == {"e": True, "f": False}


def test_each_kind_of_call_is_made_once_whatever_the_number_of_names() -> None:
    links = [link(f"e{number}", f"Name{number}") for number in range(30)]
    graph = FakeGraph(links=links)
    found = run(graph, LINK, query(" ".join(one.name for one in links)))
    assert len(found.links) == MAX_LINKED_NAMES
    assert len(graph.linked) == 1
    mentions, by_intent = graph.expanded
    assert (mentions.types, mentions.direction, mentions.max_hops) == (("MENTIONS",), Direction.OUT, 1)
    assert mentions.seeds == by_intent.seeds == tuple(one.entity_id for one in found.links)


def test_an_entity_named_twice_is_linked_once_by_its_better_match() -> None:
    graph = FakeGraph(links=[link("e", "Keelson"), link("e", "Keelson", phrase="ledger", score=0.9)])
    found = run(graph, LINK, query("Is Keelson the ledger?"))
    assert [(one.entity_id, one.score) for one in found.links] == [("e", 1.0)]
    assert found.hits[0].score == 1.0


def test_a_constraint_walks_from_the_entity_of_that_name_or_id() -> None:
    constraint = GraphConstraint(entity="The Keel's", types=("OWNS",), direction=Direction.IN, depth=3)
    graph = FakeGraph(
        links=[link("e", "Keelson", phrase="the keel")],
        walk=reaching(walked("e", "x", "y", types=("OWNS", "OWNS")), truncated=True),
    )
    found = run(graph, CONSTRAIN, query(graph_constraint=constraint))
    (asked,) = graph.expanded
    assert (asked.seeds, asked.types, asked.direction, asked.max_hops) == (("e",), ("OWNS",), Direction.IN, 3)
    assert found.frontier == ("y",)
    assert found.truncated
    run(unnamed := FakeGraph(), CONSTRAIN, query(graph_constraint=GraphConstraint(entity="service:keelson")))
    assert unnamed.expanded[0].seeds == ("service:keelson",)


def test_a_step_walks_one_hop_from_the_step_before_or_from_the_names() -> None:
    step = PlanStep(
        operation=StepOperation.EXPAND, types=("CALLS",), entity_types=("CodeEntity",), direction=Direction.OUT, limit=4
    )
    graph = FakeGraph(links=[link("e", "Keelson")])
    run(graph, STEP, query("what calls Keelson"), frontier=("x", "y"), step=step)
    found = run(graph, STEP, query("what calls Keelson"), step=step)
    before, named = graph.expanded
    assert (before.seeds, named.seeds) == (("x", "y"), ("e",))
    assert (before.types, before.entity_types, before.direction) == (("CALLS",), ("CodeEntity",), Direction.OUT)
    assert (before.max_hops, before.limit, before.records_only) == (1, 4, False)
    assert [one.entity_id for one in found.links] == ["e"]


def test_a_step_whose_hits_are_cut_to_fit_goes_on_from_what_it_reached_alone() -> None:
    """What mentions the things that were reached answers; it is no place to go on from."""

    def walk(request: ExpandRequest) -> Expansion:
        told = request.types == ("MENTIONS",)
        return Expansion(
            hits=tuple(
                walked(seed, f"{'page' if told else 'part'}{place:0200}", types=request.types, has_record=told)
                for place, seed in enumerate(request.seeds * 50 if not told else request.seeds)
            )
        )

    step = PlanStep(operation=StepOperation.EXPAND, types=("CALLS",))
    found = run(FakeGraph(walk=walk), STEP, query("what calls it"), frontier=("x",), step=step)
    assert found.truncated
    assert any(hit.id.startswith("page") for hit in found.hits)
    assert found.frontier
    assert all(one.startswith("part") for one in found.frontier)


@pytest.mark.parametrize("operation", [LINK, WALK, EXPAND, STEP])
def test_a_walk_that_a_hub_cut_short_says_so(operation: GraphOperation) -> None:
    graph = FakeGraph(links=[link("e", "Keelson")], walk=reaching(truncated=True))
    step = PlanStep(operation=StepOperation.EXPAND)
    assert run(graph, operation, query("Keelson"), searched=SEARCHED, frontier=("a",), step=step).truncated


def test_what_a_causal_walk_is_known_from_is_found_with_it_and_counts_half() -> None:
    caused = walked("e", "cause", score=0.8, types=("CAUSES",), evidence=("postmortem",), has_record=True)
    graph = FakeGraph(
        links=(link("e", "Lockout", has_record=True),),
        walk=lambda request: Expansion(hits=(caused,) if "CAUSES" in request.types else ()),
    )
    answer = run(graph, LINK, query("why was there a lockout"), plan(Intent.CAUSAL))
    scores = {hit.id: hit.score for hit in answer.hits}
    assert scores == pytest.approx({"cause": 0.8, "postmortem": 0.4, "e": 0.25})


def test_a_question_for_what_happened_during_something_walks_only_there() -> None:
    during = expansion_for(
        plan(Intent.TEMPORAL), query("what happened during the freeze"), ["x"], as_of=NOW, limit=5, fan_out=5
    )
    assert (during.types, during.direction, during.max_hops) == (("DURING",), Direction.IN, 1)
    before = expansion_for(
        plan(Intent.TEMPORAL), query("what happened before the freeze"), ["x"], as_of=NOW, limit=5, fan_out=5
    )
    assert before.types == ("BEFORE", "AFTER")


def test_a_question_with_filters_walks_further_as_a_part_is_left_out_afterwards() -> None:
    asked = {"plain": query(), "filtered": query(filters=Filters(metadata={"team": "payments"}))}
    limits = {}
    for name, one in asked.items():
        graph = FakeGraph(walk=lambda _: Expansion())
        run(graph, EXPAND, one, plan(fusion=Fusion.WEIGHTED), searched=SEARCHED)
        run(graph, EXPAND, one, plan(fusion=Fusion.PROPAGATE), searched=SEARCHED)
        limits[name] = {request.limit for request in (*graph.expanded, *graph.propagated)}
    assert limits == {"plain": {GraphLimits().limit}, "filtered": {MAX_REACHED}}
