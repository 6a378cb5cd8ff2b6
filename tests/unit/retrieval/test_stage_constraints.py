"""A graph constraint in the graph_expand stage: what it reaches, and which hits of a search are inside it."""

from __future__ import annotations

from typing import Any

import pytest
from braid.models import Filters, GraphConstraint, Strategy
from braid.ports.knowledge_graph import ExpandRequest, Expansion
from braid.retrieval.stages import graph_expand
from braid.retrieval.stages.graph_constraint import CARRIED, MAX_FRONTIER_BYTES
from braid.retrieval.stages.stage_messages import GraphFound, GraphOperation, GraphRequest, Searched
from braid.retrieval.stages.walk_seeds_and_scores import GraphLimits

from tests.fakes import NOW, TENANT, FakeGraph, hits, link, plan, query, walked

CONSTRAIN, CHECK = GraphOperation.CONSTRAIN, GraphOperation.CHECK
WITHIN = query(graph_constraint=GraphConstraint(entity="Keelson"), top_k=2)
SEARCHED = Searched(vector=hits(("a", 0.9), ("b", 0.8), ("c", 0.7)), lexical=hits(("c", 0.5)), took_ms=1)


class Reaching(FakeGraph):
    """A graph in which Keelson leads to given ids, whatever the walk, and honours what it is asked among."""

    def __init__(self, *ids: str, truncated: bool = False, **fields: Any) -> None:
        super().__init__(links=[link("e", "Keelson")], walk=self._reach, **fields)
        self.ids, self.truncated = ids, truncated

    def _reach(self, request: ExpandRequest) -> Expansion:
        kept = [name for name in self.ids if request.among is None or name in request.among][: request.limit]
        return Expansion(hits=tuple(walked("e", name, types=("OWNS",)) for name in kept), truncated=self.truncated)


def run(graph: FakeGraph, operation: GraphOperation, *, candidates: int = 3, **fields: Any) -> GraphFound:
    made = plan(strategy=Strategy.VECTOR_FIRST, candidates=candidates)
    request = GraphRequest(**{"operation": operation, "query": WITHIN, "plan": made} | fields)
    return graph_expand.run(request, graph=graph, now=NOW, limits=GraphLimits(constraint_fan_out=77))


def test_few_that_a_constraint_reaches_come_with_their_paths() -> None:
    found = run(Reaching("a", "b"), CONSTRAIN)
    assert (found.frontier, [hit.id for hit in found.hits]) == (("a", "b"), ["a", "b"])
    assert (found.wide, found.overflow, found.short, found.unknown) == (False, False, False, False)
    assert found.hits[0].reason == "graph path: OWNS"


def test_many_come_as_ids_with_the_first_paths_and_say_so() -> None:
    found = run(Reaching(*(f"r{number:04}" for number in range(CARRIED + 1))), CONSTRAIN)
    assert (len(found.frontier), len(found.hits)) == (CARRIED + 1, CARRIED)
    assert (found.wide, found.overflow) == (True, False)


def test_more_than_can_be_listed_overflow_and_so_do_ids_that_are_too_long_together() -> None:
    found = run(Reaching(*(f"r{number:04}" for number in range(5_000))), CONSTRAIN)
    assert (len(found.frontier), found.wide, found.overflow) == (1_000, True, True)
    long = run(Reaching(*(f"{number:0256}" for number in range(300))), CONSTRAIN)
    assert sum(len(name) for name in long.frontier) <= MAX_FRONTIER_BYTES
    assert long.overflow


@pytest.mark.parametrize("operation", [CONSTRAIN, CHECK])
def test_an_entity_that_is_neither_a_name_nor_an_id_is_unknown(operation: GraphOperation) -> None:
    assert run(FakeGraph(), operation, searched=SEARCHED).unknown
    assert not run(FakeGraph(known=["Keelson"]), operation, searched=SEARCHED).unknown, "a vertex without edges"
    assert not run(FakeGraph(links=[link("e", "Keelson")]), operation, searched=SEARCHED).unknown


@pytest.mark.parametrize("operation", [CONSTRAIN, CHECK])
def test_whether_an_entity_is_known_is_asked_of_what_the_filters_trust(operation: GraphOperation) -> None:
    graph = FakeGraph(known=["Keelson"])
    run(graph, operation, searched=SEARCHED, query=WITHIN.model_copy(update={"filters": Filters(trusted_only=True)}))
    assert [asked.trusted_only for asked in graph.queries] == [True]


def test_a_check_keeps_what_is_inside_in_the_order_of_the_search_by_one_walk() -> None:
    graph = Reaching("z", "b", "c")
    found = run(graph, CHECK, searched=SEARCHED)
    assert found.frontier == ("c", "b")
    assert [hit.path.ids for hit in found.hits] == [("e", "c"), ("e", "b")]
    assert (found.short, found.wide, found.overflow) == (False, False, False)
    (asked,) = graph.expanded
    assert (asked.tenant_id, asked.seeds, asked.fan_out) == (TENANT, ("e",), 77)
    assert asked.among is not None
    assert set(asked.among) == {"a", "b", "c"}


def test_too_few_inside_bring_what_else_the_constraint_reaches_where_the_search_had_more_to_give() -> None:
    found = run(Reaching("y", "z", "b"), CHECK, searched=SEARCHED)
    assert (found.short, found.wide, found.frontier) == (True, True, ("b", "y", "z"))
    assert [hit.id for hit in found.hits] == ["b"]


def test_too_few_inside_are_all_there_is_when_the_search_gave_everything_or_was_inside_already() -> None:
    graph = Reaching("y", "z", "b")
    assert not run(graph, CHECK, searched=SEARCHED, candidates=4).short
    assert not run(graph, CHECK, searched=SEARCHED, frontier=("b", "y")).short


def test_a_reach_that_is_cut_where_the_search_goes_on_is_said_to_be_truncated() -> None:
    assert not run(Reaching("y", "z"), CHECK, searched=SEARCHED).truncated
    assert run(Reaching(*(f"r{number:04}" for number in range(1_000))), CHECK, searched=SEARCHED).truncated
    assert run(Reaching("y", truncated=True), CHECK, searched=SEARCHED).truncated


def test_a_check_without_a_search_returns_what_the_constraint_reaches() -> None:
    found = run(Reaching("y", "z"), CHECK)
    assert ([hit.id for hit in found.hits], found.short) == (["y", "z"], False)
