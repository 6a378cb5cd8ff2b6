"""Graph queries: what may be asked, what is sent to a Gremlin server, and what becomes of what it gathers."""

from __future__ import annotations

from typing import Any

import pytest
from braid.engines.neptune import element_layout, graph_query
from braid.models import Direction, TimeRange
from braid.ports.graph_query import MAX_STEPS, MAX_WALKS, GraphQuery, QueryOrder, QueryReturn, QueryStart, QueryStep
from braid.ranking import graph_queries_and_facts
from braid.ranking.graph_queries_and_facts import GatheredGraph, Node, WalkEdge
from pydantic import ValidationError

from tests.contract.shapes import ACME, AS_OF, day
from tests.unit.engines.test_gremlin_traversals import HOSTILE, instructions, source, steps_named

STEP: dict[str, Any] = {
    "types": ("CAUSES", "OWNS"),
    "min_confidence": 0.5,
    "entity_types": ("Event",),
    "time_range": TimeRange(start=day(1), end=day(2)),
    "name": HOSTILE,
}


def asked(**fields: Any) -> GraphQuery:
    return GraphQuery(**{"tenant_id": ACME, "start": QueryStart(ids=("a",)), "as_of": AS_OF, **fields})


@pytest.mark.parametrize(
    "wrong",
    [
        {"start": {}},
        {"start": {"time_range": {"start": "2025-01-01"}}},
        {"start": {"names": ("",)}},
        {"start": {"ids": ("a\x00",)}},
        {"start": {"entity_types": ("Event').drop()",)}},
        {"steps": ({},) * (MAX_STEPS + 1)},
        {"steps": ({"types": ("g.V()",)},)},
        {"steps": ({"direction": "sideways"},)},
        {"steps": ({"min_confidence": 1.5},)},
        {"steps": ({"code": "g.V()"},)},
        {"limit": 0},
        {"limit": 201},
        {"limit": "10"},
        {"fan_out": 0},
        {"fan_out": 201},
        {"order_by": "rank"},
        {"returns": "edges"},
        {"tenant_id": "a b"},
    ],
)
def test_what_is_out_of_bounds_or_no_label_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        asked(**wrong)


@pytest.mark.parametrize("direction", list(Direction))
def test_what_a_caller_sends_is_an_argument_and_never_a_step(direction: Direction) -> None:
    start = QueryStart(ids=(HOSTILE,), names=(HOSTILE,), entity_types=("Event",), time_range=TimeRange())
    query = asked(start=start, steps=(QueryStep(direction=direction, **STEP),) * MAX_STEPS)
    for place in range(MAX_STEPS):
        sent = graph_query.traversal(source(), query, place, (HOSTILE,))
        names = {step[0] for step in instructions(sent.bytecode)}
        assert not names & {"drop", "inject", "addV", "addE", "mergeV", "mergeE", "property", "repeat", "call", "map"}
        assert steps_named(sent, "V")[0] == ["V", f"{ACME}|{HOSTILE}"]


@pytest.mark.parametrize("direction", list(Direction))
def test_every_vertex_and_edge_that_is_read_is_the_tenants_and_in_force(direction: Direction) -> None:
    for place in range(2):
        query = asked(steps=(QueryStep(direction=direction, **STEP),) * 2)
        conditions = [step[1] for step in steps_named(graph_query.traversal(source(), query, place, ("a",)), "has")]
        # Where it begins, its edges, and where these lead.
        assert conditions.count(element_layout.TENANT) == 3
        assert conditions.count(element_layout.VALID_FROM) == conditions.count(element_layout.VALID_UNTIL) == 3


def gathered(edges: list[dict[str, list[WalkEdge]]]) -> GatheredGraph:
    names = {"a"} | {edge.target for each in edges for found in each.values() for edge in found}
    return GatheredGraph(
        ["a"], edges, {name: Node(name, "Concept", True, None, None) for name in names}, truncated=False
    )


def test_more_walks_than_are_kept_leave_the_best_and_a_mark() -> None:
    targets = [WalkEdge(f"b{number:05}", "CAUSES", number / 10_000, False, None) for number in range(MAX_WALKS + 1)]
    onwards = {edge.target: [WalkEdge(f"c-{edge.target}", "CAUSES", 1.0, False, None)] for edge in targets}
    for returns in QueryReturn:
        found = graph_queries_and_facts.answer_query(
            asked(steps=({}, {}), returns=returns, limit=1, order_by=QueryOrder.ID), gathered([{"a": targets}, onwards])
        )
        assert found.truncated
        assert found.hits[0].path.ids == ("a", "b00001", "c-b00001")
    one = asked(steps=({},), limit=1, order_by=QueryOrder.ID)
    nodes = graph_queries_and_facts.answer_query(one, gathered([{"a": targets}]))
    assert (nodes.hits[0].id, nodes.truncated) == ("b00000", False)
    paths = graph_queries_and_facts.answer_query(
        one.model_copy(update={"returns": QueryReturn.PATHS}), gathered([{"a": targets}])
    )
    assert (paths.hits[0].id, paths.truncated) == ("b00001", True)
