"""Every traversal against the lists of steps that Neptune executes natively.

From the first step that its engine cannot convert, everything runs in a slow layer above it. The lists are those of
"Native Gremlin step support in Amazon Neptune"
(https://docs.aws.amazon.com/neptune/latest/userguide/gremlin-step-support.html), as read on 2026-11-22.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from braid.engines.neptune import element_layout, graph_query, name_links, removals, stored_counts
from braid.engines.neptune.expansion import expansion_traversal
from braid.models import Direction, TimeRange
from braid.ports.graph_query import GraphQuery, QueryStart, QueryStep
from braid.ports.knowledge_graph import ExpandRequest
from gremlin_python.process.graph_traversal import GraphTraversalSource, __
from gremlin_python.process.traversal import Bytecode, Order, P, T, TextP, TraversalStrategies
from gremlin_python.structure.graph import Graph

from tests.contract.shapes import ACME, AS_OF, day, edge, vertex

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Instruction = list[Any]


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


ALWAYS = names(
    "and as count E emit explain group groupCount identity is key label limit local loops not or profile properties "
    "subgraph until V value valueMap values"
)
"""If what is before them, around them and inside them is converted."""
NEVER = names(
    "choose coin inject match math max mean min option optional path propertyMap sample skip tail timeLimit tree"
)
UNLISTED = names("out in both outE inE bothE outV inV bothV hasLabel hasId property by")
"""On no list: going along edges, which the vendor's explanations of plans show as one pattern; forms of ``has``;
and what belongs to the step before it."""
IN_SOME_CASES: dict[str, Callable[[Sequence[Instruction], int, bool], bool]] = {
    "aggregate": lambda _, __, nested: not nested,
    "cap": lambda steps, place, _: [step[0] for step in steps[place + 1 :]][:1] == ["unfold"],
    "drop": lambda _, __, nested: not nested,
    "fold": lambda _, __, nested: nested,
    "has": lambda steps, place, _: steps[place][1] is not T.id,
    "hasId": lambda steps, place, _: not isinstance(steps[place][1], P),
    "id": lambda steps, place, _: not place or steps[place - 1][0] != "properties",
    "mergeE": lambda steps, place, _: isinstance(steps[place][1], dict),
    "mergeV": lambda steps, place, _: isinstance(steps[place][1], dict),
    "order": lambda steps, place, nested: not nested and len(modulators(steps, place)) == 1,
    "project": lambda steps, place, _: len(modulators(steps, place)) == len(steps[place]) - 1,
    "where": lambda steps, place, _: not modulators(steps, place) and not isinstance(steps[place][1], P),
}
"""Whether a step is converted where it stands: among these steps, at this place, and nested in another or not."""


def modulators(steps: Sequence[Instruction], place: int) -> list[Instruction]:
    """Return the ``by`` that belong to a step."""
    end = next((at for at in range(place + 1, len(steps)) if steps[at][0] != "by"), len(steps))
    return list(steps[place + 1 : end])


def first_slow_step(steps: Sequence[Instruction], parent: str = "") -> str | None:
    """Return the first step that is not converted, and the step that it is nested in."""
    for place, step in enumerate(steps):
        name = step[0]
        is_native = name in ALWAYS or name in UNLISTED
        if name in IN_SOME_CASES:
            # Of `fold` the two cases are the upsert pattern, which none uses, and a `by` of a `group`.
            is_native = IN_SOME_CASES[name](steps, place, bool(parent)) and (name != "fold" or parent == "group")
        if not is_native:
            return f"{name} in {parent}" if parent else name
        owner = next(each[0] for each in reversed(steps[: place + 1]) if each[0] != "by")
        for argument in step[1:]:
            if isinstance(argument, Bytecode) and (slow := first_slow_step(argument.step_instructions, owner)):
                return slow
    return None


def slow_step_of(build: Callable[[GraphTraversalSource], Any]) -> str | None:
    return first_slow_step(build(GraphTraversalSource(Graph(), TraversalStrategies())).bytecode.step_instructions)


WALK = ExpandRequest(tenant_id=ACME, seeds=("a",), as_of=AS_OF, types=("CAUSES",), trusted_only=True)
STEP: dict[str, Any] = {
    "types": ("CAUSES", "OWNS"),
    "min_confidence": 0.5,
    "entity_types": ("Event",),
    "time_range": TimeRange(start=day(1), end=day(2)),
    "name": "heron",
}
QUERY = GraphQuery(
    tenant_id=ACME,
    start=QueryStart(ids=("a",), names=("heron",), entity_types=("Event",), time_range=TimeRange(start=day(1))),
    steps=tuple(QueryStep(direction=direction, **STEP) for direction in Direction),
    as_of=AS_OF,
    trusted_only=True,
)
OWN: dict[str, Any] = {"tenant_id": ACME, "keys": ["acme|a"]}
NAMES: dict[str, Any] = {"as_of": AS_OF, "trusted_only": True, "by": element_layout.LINK_KEY}
QUESTIONS: dict[str, Callable[[GraphTraversalSource], Any]] = {
    **{
        f"expand or propagate, {direction}": partial(
            expansion_traversal, request=WALK.model_copy(update={"direction": direction}), names=("a",)
        )
        for direction in Direction
    },
    **{
        f"query, step {place}": partial(graph_query.traversal, query=QUERY, place=place, names=("a",))
        for place in range(3)
    },
    "query without steps": partial(graph_query.traversal, query=QUERY.model_copy(update={"steps": ()}), place=0),
    "link": partial(name_links._bearers, **OWN, **NAMES),
    "vertices": partial(element_layout.fetch_vertices, **OWN),
    "whether there is a graph": partial(stored_counts._any_vertex, tenant_id=ACME),
}
"""Everything that a question asks."""
OTHERS: dict[str, tuple[Callable[[GraphTraversalSource], Any], str | None]] = {
    "edges": (partial(element_layout.fetch_edges, **OWN), None),
    "edges that lead out": (partial(element_layout.fetch_edges_out_of, **OWN), None),
    "edges of evidence": (partial(element_layout.fetch_edges_of_evidence, tenant_id=ACME, keys=["a"]), None),
    "edges to distrust": (partial(element_layout.fetch_edges_to_distrust, tenant_id=ACME, evidence=["a"]), None),
    "vertices without edges": (partial(element_layout.fetch_unmentioned, **OWN), None),
    "how many edges lead out": (partial(element_layout.count_edges_out_of, **OWN), None),
    "counts of vertices": (partial(stored_counts._vertices, **OWN), None),
    "counts of edges": (partial(stored_counts._edges, **OWN), None),
    "counts of endpoints": (partial(stored_counts._endpoints, **OWN, types=["CAUSES"]), None),
    "delete": (partial(removals._drop, ids=["acme|a"], tenant_id=ACME), None),
    "delete edges": (partial(removals._drop_edges, ids=["acme|e"], tenant_id=ACME), None),
    "write edges": (partial(element_layout.write_edges, edges=[edge("a", "b")]), None),
    "edges that lead out of one vertex, if very many": (
        partial(element_layout.fetch_edges_out_of, **OWN, after="", limit=10),
        "hasId",
    ),
    # What is gone must not come back, as by a merge: fifty are looked up by their ids.
    "end": (partial(element_layout.change, items=[edge("a", "b"), vertex("a")]), "inject"),
    # A vertex that is written again must not keep its former names, at no moment and not between two requests.
    "write vertices": (partial(element_layout.write_vertices, vertices=[vertex("a", name="Heron")]), "sideEffect"),
    # These read the vertices or edges that they name, or a page, and leave the slow layer a comparison of them.
    "vertices without other edges": (
        partial(element_layout.fetch_unmentioned, **OWN, leaving=["acme|e"]),
        "hasId in not",
    ),
    "edges at vertices": (partial(element_layout.fetch_edges_at, **OWN, types=["CAUSES"]), "dedup"),
    "found mentions": (partial(element_layout.fetch_found_mentions, **OWN), None),
    "edges to end": (partial(element_layout.fetch_edges_to_end, tenant_id=ACME, until={"a": day(1)}), "where"),
    "types that lead in": (partial(stored_counts._types_in, **OWN), "map"),
    "next page": (partial(element_layout.fetch_vertices_after, tenant_id=ACME, after="a", limit=10), "hasId"),
}
"""What writes, deletes, repairs and exports ask, and from which step on that is slow."""


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_a_question_reads_of_the_graph_it_reads_natively(name: str) -> None:
    # What was collected is handed over by a step that is not converted, and that reads nothing of the graph.
    assert slow_step_of(QUESTIONS[name]) in (None, "cap")
    steps = QUESTIONS[name](GraphTraversalSource(Graph(), TraversalStrategies())).bytecode.step_instructions
    assert "cap" not in [step[0] for step in steps[:-1]]


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_slow_of_writes_and_maintenance_is_known(name: str) -> None:
    build, slow = OTHERS[name]
    assert slow_step_of(build) == slow


@pytest.mark.parametrize(
    ("traversal", "slow"),
    [
        (lambda g: g.V().choose(__.out_e(), __.out(), __.in_()), "choose"),
        (lambda g: g.V().local(__.out_e().order().by("confidence")), "order in local"),
        (lambda g: g.V().order().by("confidence", Order.desc).by(T.id), "order"),
        (lambda g: g.V().local(__.out_e().aggregate("x")), "aggregate in local"),
        (lambda g: g.V().project("a", "b").by("name"), "project"),
        (lambda g: g.V().project("a").by(__.values("name").fold()), "fold in project"),
        (lambda g: g.V().has_id(P.gt("a")).limit(1), "hasId"),
        (lambda g: g.V().not_(__.out_e().skip(3)), "skip in not"),
        (lambda g: g.V().has("name", TextP.starting_with("a")).values("name"), None),
        (lambda g: g.V().aggregate("x").by("name").cap("x"), "cap"),
    ],
)
def test_what_the_lists_say_is_slow_is_found(
    traversal: Callable[[GraphTraversalSource], Any], slow: str | None
) -> None:
    assert slow_step_of(traversal) == slow


def test_no_step_is_both() -> None:
    assert not NEVER & (ALWAYS | UNLISTED | IN_SOME_CASES.keys())
