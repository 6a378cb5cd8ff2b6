"""What every knowledge graph must answer to a declarative query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from braid.models import Direction, TimeRange
from braid.ports.graph_query import (
    MAX_FRONTIER,
    MAX_STARTS,
    GraphQuery,
    GraphResult,
    QueryOrder,
    QueryReturn,
    QueryStart,
    QueryStep,
)

from tests.contract.knowledge_graph import build
from tests.contract.shapes import ACME, AS_OF, GLOBEX, day, edge, vertex

if TYPE_CHECKING:
    from braid.ports.knowledge_graph import KnowledgeGraph

OUT, IN, BOTH = Direction.OUT, Direction.IN, Direction.BOTH
HOSTILE = ["x').drop();g.V().drop() //", "${jndi:ldap://x}", '"; DROP TABLE vertices; --', "acme|a", "%", "* OR 1=1"]


def query(graph: KnowledgeGraph, *start: str, steps: tuple[QueryStep, ...] = (), **fields: Any) -> GraphResult:
    """Ask from the given ids, or from the start that ``fields`` hold."""
    fields = {"tenant_id": ACME, "as_of": AS_OF, "start": QueryStart(ids=start) if start else None, **fields}
    return graph.query(GraphQuery(steps=steps, **fields))


def ids(result: GraphResult) -> list[str]:
    return [hit.id for hit in result.hits]


def paths(result: GraphResult) -> list[tuple[str, ...]]:
    return [hit.path.ids for hit in result.hits]


def step(*types: str, **fields: Any) -> QueryStep:
    return QueryStep(types=types, **fields)


class GraphQueryContract:
    """Subclass this and provide the fixture ``graph``: a knowledge graph that is empty for every test."""

    # --- where it begins --------------------------------------------------------------------------------------------

    def test_an_empty_store_answers_nothing(self, graph: KnowledgeGraph) -> None:
        assert query(graph, "a") == GraphResult()
        assert query(graph, "a", steps=(step("CAUSES"), step())) == GraphResult()
        assert query(graph, start=QueryStart(names=("Atlas",))) == GraphResult()
        assert query(graph, start=QueryStart(entity_types=("Event",))) == GraphResult()

    def test_a_query_without_steps_answers_its_start(self, graph: KnowledgeGraph) -> None:
        graph.upsert(
            [vertex("b", name="Bee", entity_type="Event", timestamp=day(2), has_record=False), vertex("a")], []
        )
        found = query(graph, "b", "a", "unknown", "b")
        assert ids(found) == ["a", "b"]
        bee = found.hits[1]
        assert (bee.name, bee.entity_type, bee.timestamp, bee.has_record) == ("Bee", "Event", day(2), False)
        assert (bee.score, bee.rank, bee.path.ids, bee.path.types) == (1.0, 2, ("b",), ())
        assert not found.truncated

    def test_a_query_begins_at_names_aliases_or_types(self, graph: KnowledgeGraph) -> None:
        graph.upsert(
            [
                vertex("m", name="Müller & Söhne"),
                vertex("t", name="Other", aliases=("the Müller  Söhne", "Titan")),
                vertex("e", name="Titan", entity_type="Event", timestamp=day(4)),
                vertex("f", entity_type="Event", timestamp=day(9)),
                vertex("g", entity_type="Event"),
            ],
            [],
        )
        assert ids(query(graph, start=QueryStart(names=("MULLER söhne", "!?", "unknown")))) == ["m"]
        assert ids(query(graph, start=QueryStart(names=("titan",)))) == ["e", "t"]
        assert ids(query(graph, start=QueryStart(entity_types=("Event",)))) == ["e", "f", "g"]
        both = QueryStart(entity_types=("Event", "Place"), names=("titan",))
        assert ids(query(graph, start=both)) == ["e"]
        assert ids(query(graph, start=QueryStart(entity_types=("Event",), ids=("g", "m")))) == ["g"]
        span = TimeRange(start=day(4), end=day(9))
        assert ids(query(graph, start=QueryStart(entity_types=("Event",), time_range=span))) == ["e"]
        assert ids(query(graph, start=QueryStart(entity_types=("Event",), time_range=TimeRange()))) == ["e", "f"]

    # --- trust ------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("direction", list(Direction))
    @pytest.mark.parametrize("fan_out", [1, 50])
    def test_what_is_not_trusted_is_passed_by_where_that_is_asked(
        self, graph: KnowledgeGraph, direction: Direction, fan_out: int
    ) -> None:
        pairs = [("a", "mail", 1.0, True), ("a", "b", 0.5, True), ("a", "c", 1.0, False), ("mail", "d", 1.0, True)]
        graph.upsert([vertex(name, name="Atlas", trusted=name != "mail") for name in ("a", "b", "c", "d", "mail")], [])
        ends = [pair if direction is not IN else (pair[1], pair[0], *pair[2:]) for pair in pairs]
        graph.upsert([], [edge(one, other, confidence=sure, trusted=trust) for one, other, sure, trust in ends])
        steps = (step(direction=direction),)
        found = query(graph, "a", steps=steps, fan_out=fan_out, trusted_only=True)
        assert (ids(found), found.truncated) == (["b"], False)
        assert ids(query(graph, "mail", steps=steps, trusted_only=True)) == []
        assert ids(query(graph, start=QueryStart(names=("Atlas",)), trusted_only=True)) == ["a", "b", "c", "d"]
        assert ids(query(graph, "a", steps=steps * 2, trusted_only=True)) == []

    def test_what_is_reached_by_way_of_what_is_not_trusted_says_so(self, graph: KnowledgeGraph) -> None:
        vertices = [vertex("a"), vertex("b"), vertex("c"), vertex("mail", trusted=False), vertex("d")]
        edges = [edge("a", "b"), edge("a", "c", trusted=False), edge("a", "mail"), edge("mail", "d")]
        graph.upsert(vertices, edges)
        one = query(graph, "a", steps=(step(),))
        assert {hit.id: hit.trusted for hit in one.hits} == {"b": True, "c": False, "mail": False}
        assert [hit.trusted for hit in query(graph, "a", steps=(step(), step())).hits] == [False]
        assert [hit.trusted for hit in query(graph, "a", "mail").hits] == [True, False]

    # --- steps ------------------------------------------------------------------------------------------------------

    def test_every_step_is_taken_in_turn(self, graph: KnowledgeGraph) -> None:
        build(
            graph,
            edge("team", "service", "OWNS", confidence=0.8),
            edge("change", "service", "AFFECTS", confidence=0.5),
            edge("change", "outage", confidence=0.9),
            edge("service", "outage"),
            edge("outage", "call", "BEFORE"),
        )
        steps = (step("OWNS"), step("AFFECTS", direction=IN), step("CAUSES"))
        found = query(graph, "team", steps=steps)
        assert ids(found) == ["outage"]
        hit = found.hits[0]
        assert hit.score == pytest.approx(0.36)
        assert hit.path.ids == ("team", "service", "change", "outage")
        assert hit.path.types == ("OWNS", "AFFECTS", "CAUSES")
        assert hit.path.inward == (False, True, False)
        assert ids(query(graph, "team", steps=steps[:1])) == ["service"]
        assert ids(query(graph, "team", steps=(*steps, step("BEFORE"), step("BEFORE")))) == []

    def test_a_step_goes_out_in_or_both_ways_along_any_type(self, graph: KnowledgeGraph) -> None:
        build(graph, edge("a", "b"), edge("z", "a", "OWNS"), edge("a", "a"), edge("b", "z"))
        assert ids(query(graph, "a", steps=(step(),))) == ["b"]
        assert ids(query(graph, "a", steps=(step(direction=IN),))) == ["z"]
        assert ids(query(graph, "a", steps=(step(direction=BOTH),))) == ["b", "z"]
        around = query(graph, "a", steps=(step(direction=BOTH),) * 2, returns=QueryReturn.PATHS)
        assert paths(around) == [("a", "z", "b"), ("a", "b", "z")]

    def test_the_conditions_of_a_step_are_those_of_its_edge_and_of_where_it_leads(self, graph: KnowledgeGraph) -> None:
        graph.upsert(
            [
                vertex("a"),
                vertex("e", entity_type="Event", timestamp=day(5), name="Outage", aliases=("The  Blackout",)),
                vertex("f", entity_type="Event", timestamp=day(7)),
                vertex("p", entity_type="Person", name="Ada"),
                vertex("x", entity_type="Place", timestamp=day(5)),
                vertex("end"),
            ],
            [
                *(edge("a", name, confidence=score) for name, score in zip("efpx", (0.9, 0.5, 0.25, 0.1), strict=True)),
                *(edge(name, "end", "OWNS") for name in "efpx"),
            ],
        )

        def middle(**fields: Any) -> list[str]:
            reached = ids(query(graph, "a", steps=(step("CAUSES", **fields),)))
            through = query(graph, "a", steps=(step("CAUSES", **fields), step("OWNS")), returns=QueryReturn.PATHS)
            assert [path[1] for path in paths(through)] == reached
            return reached

        assert middle() == ["e", "f", "p", "x"]
        assert middle(min_confidence=0.25) == ["e", "f", "p"]
        assert middle(entity_types=("Event", "Place")) == ["e", "f", "x"]
        assert middle(time_range=TimeRange(start=day(5), end=day(7))) == ["e", "x"]
        assert middle(time_range=TimeRange(end=day(6)), entity_types=("Event",)) == ["e"]
        assert middle(time_range=TimeRange()) == ["e", "f", "x"]
        assert middle(name="OUTAGE") == middle(name="the blackout") == ["e"]
        assert middle(name="ada", entity_types=("Event",)) == []

    def test_a_path_never_passes_a_vertex_twice(self, graph: KnowledgeGraph) -> None:
        build(graph, edge("a", "whole", "PART_OF"), edge("b", "whole", "PART_OF"), edge("b", "b", "PART_OF"))
        siblings = (step("PART_OF"), step("PART_OF", direction=IN))
        assert paths(query(graph, "a", steps=siblings)) == [("a", "whole", "b")]
        around = (step(direction=BOTH),) * 5
        assert ids(query(graph, "a", steps=around)) == []

    def test_a_start_is_an_answer_where_another_leads_to_it(self, graph: KnowledgeGraph) -> None:
        build(graph, edge("a", "b", confidence=0.5), edge("b", "c", confidence=0.4))
        assert paths(query(graph, "a", "b", steps=(step(),))) == [("a", "b"), ("b", "c")]

    # --- what is returned -------------------------------------------------------------------------------------------

    def test_nodes_come_once_by_their_best_path_and_paths_each(self, graph: KnowledgeGraph) -> None:
        build(
            graph,
            edge("a", "b", confidence=0.9, evidence="report"),
            edge("a", "c", confidence=0.8),
            edge("b", "d", confidence=0.5),
            edge("c", "d", confidence=0.75),
            edge("c", "d", "ENABLES", confidence=0.75),
            edge("c", "d", "ENABLES", confidence=0.25, predicate="again"),
        )
        steps = (step(), step())
        nodes = query(graph, "a", steps=steps)
        assert [(hit.path.ids, hit.path.types) for hit in nodes.hits] == [(("a", "c", "d"), ("CAUSES", "CAUSES"))]
        found = query(graph, "a", steps=steps, returns=QueryReturn.PATHS)
        assert [(hit.path.ids, hit.path.types[1], hit.rank) for hit in found.hits] == [
            (("a", "c", "d"), "CAUSES", 1),
            (("a", "c", "d"), "ENABLES", 2),
            (("a", "b", "d"), "CAUSES", 3),
        ]
        assert [hit.score for hit in found.hits] == pytest.approx([0.6, 0.6, 0.45])
        assert [hit.path.evidence for hit in found.hits] == [(), (), ("report", None)]

    @pytest.mark.parametrize(
        ("order", "descending", "expected"),
        [
            (QueryOrder.SCORE, None, ["d", "b", "c", "a", "e"]),
            (QueryOrder.SCORE, False, ["a", "e", "c", "b", "d"]),
            (QueryOrder.TIMESTAMP, None, ["b", "c", "a", "d", "e"]),
            (QueryOrder.TIMESTAMP, True, ["a", "c", "b", "d", "e"]),
            (QueryOrder.NAME, None, ["e", "c", "b", "d", "a"]),
            (QueryOrder.NAME, True, ["b", "c", "e", "d", "a"]),
            (QueryOrder.ID, None, ["a", "b", "c", "d", "e"]),
            (QueryOrder.ID, True, ["e", "d", "c", "b", "a"]),
        ],
    )
    def test_an_answer_is_ordered_before_it_is_cut_and_ties_are_settled(
        self, graph: KnowledgeGraph, order: QueryOrder, descending: bool | None, expected: list[str]
    ) -> None:
        graph.upsert(
            [
                vertex("s"),
                vertex("a", timestamp=day(9)),
                vertex("b", timestamp=day(1), name="Zulu"),
                vertex("c", timestamp=day(5), name="Mike"),
                vertex("d"),
                vertex("e", name="Alpha"),
            ],
            [edge("s", name, confidence=score) for name, score in zip("abcde", (0.1, 0.7, 0.5, 0.9, 0.1), strict=True)],
        )
        asked: dict[str, Any] = {"steps": (step(),), "order_by": order, "descending": descending}
        assert ids(query(graph, "s", **asked)) == expected
        cut = query(graph, "s", **asked, limit=2)
        assert ids(cut) == expected[:2]
        assert [hit.rank for hit in cut.hits] == [1, 2]
        assert not cut.truncated

    def test_the_order_of_writing_does_not_matter(self, graph: KnowledgeGraph) -> None:
        edges = [edge("a", "c"), edge("a", "b"), edge("b", "d"), edge("c", "d"), edge("d", "e"), edge("d", "e", "OWNS")]
        asked: dict[str, Any] = {"steps": (step(), step(), step()), "returns": QueryReturn.PATHS}
        build(graph, *edges)
        before = query(graph, "a", **asked)
        assert len(before.hits) == 4
        graph.delete(ACME, ["a", "b", "c", "d", "e"])
        build(graph, *reversed(edges))
        assert query(graph, "a", **asked) == before

    # --- bounds -----------------------------------------------------------------------------------------------------

    def test_a_hub_is_walked_along_its_surest_edges_and_says_so(self, graph: KnowledgeGraph) -> None:
        build(graph, *[edge("hub", f"b{number:04}", confidence=number / 1_500) for number in range(1_500)])
        found = query(graph, "hub", steps=(step("CAUSES"),), fan_out=3)
        assert ids(found) == ["b1499", "b1498", "b1497"]
        assert found.truncated
        assert not query(graph, "b0007", steps=(step("CAUSES", direction=IN),), fan_out=1).truncated

    @pytest.mark.parametrize("direction", list(Direction))
    def test_only_edges_that_a_step_asks_for_count_against_the_budget(
        self, graph: KnowledgeGraph, direction: Direction
    ) -> None:
        graph.upsert(
            [
                vertex("hub"),
                *[vertex(f"e{number}", entity_type="Event", name="Atlas") for number in range(3)],
                *[vertex(f"p{number}", entity_type="Person") for number in range(9)],
                vertex("gone", entity_type="Event", name="Atlas", invalid_at=day(1)),
            ],
            [
                *(
                    edge(*((name, "hub") if direction is IN else ("hub", name)), confidence=0.5)
                    for name in ("e0", "e1", "e2", *(f"p{number}" for number in range(9)), "gone")
                ),
                edge("hub", "hub"),
            ],
        )
        for condition in ({"entity_types": ("Event",)}, {"name": "atlas"}):
            one = (step("CAUSES", direction=direction, **condition),)
            whole = query(graph, "hub", steps=one, fan_out=3)
            assert (ids(whole), whole.truncated) == (["e0", "e1", "e2"], False)
            cut = query(graph, "hub", steps=one, fan_out=2)
            assert (ids(cut), cut.truncated) == (["e0", "e1"], True)
        sure = query(graph, "hub", steps=(step(direction=direction, min_confidence=0.75),), fan_out=1)
        assert (ids(sure), sure.truncated) == ([], False)

    def test_a_step_is_walked_on_from_so_many_vertices_and_says_so(self, graph: KnowledgeGraph) -> None:
        names = [f"n{number:04}" for number in range(MAX_FRONTIER + 1)]
        graph.upsert(
            [vertex("end"), *(vertex(name, entity_type="Event") for name in names)],
            [edge(name, "end", confidence=place / len(names)) for place, name in enumerate(names)],
        )
        start = QueryStart(entity_types=("Event",))
        found = query(graph, start=start, steps=(step(),), returns=QueryReturn.PATHS, limit=1)
        assert (paths(found), found.truncated) == ([(names[-2], "end")], True)
        last = query(graph, start=start, order_by=QueryOrder.ID, descending=True, limit=1)
        assert (ids(last), last.truncated) == ([names[-1]], False)
        assert MAX_STARTS > MAX_FRONTIER

    # --- validity, tenants, data ------------------------------------------------------------------------------------

    def test_what_is_superseded_is_neither_walked_nor_returned(self, graph: KnowledgeGraph) -> None:
        graph.upsert(
            [
                vertex("a", name="Atlas"),
                vertex("old", name="Atlas", invalid_at=day(10)),
                vertex("new", valid_at=day(10)),
                vertex("b"),
            ],
            [
                edge("a", "old"),
                edge("old", "b"),
                edge("a", "new"),
                edge("new", "b", invalid_at=day(20)),
                edge("a", "b", "OWNS", valid_at=day(20)),
            ],
        )
        two = {"steps": (step("CAUSES"), step("CAUSES"))}
        assert paths(query(graph, "a", **two, as_of=day(5))) == [("a", "old", "b")]
        assert paths(query(graph, "a", **two, as_of=day(10))) == [("a", "new", "b")]
        assert paths(query(graph, "a", **two, as_of=day(20))) == []
        assert ids(query(graph, "a", steps=(step("OWNS"),), as_of=day(19))) == []
        assert ids(query(graph, "a", steps=(step("OWNS"),), as_of=day(20))) == ["b"]
        assert ids(query(graph, start=QueryStart(names=("atlas",)), as_of=day(5))) == ["a", "old"]
        assert ids(query(graph, start=QueryStart(names=("atlas",)), as_of=day(10))) == ["a"]
        assert ids(query(graph, "old", as_of=day(10))) == []

    def test_tenants_never_see_one_another(self, graph: KnowledgeGraph) -> None:
        build(graph, edge("a", "b"), edge("b", "c"), entity_type="Event", name="Atlas")
        build(graph, edge("a", "x", tenant_id=GLOBEX), tenant_id=GLOBEX, entity_type="Event", name="Atlas")
        for start in (QueryStart(ids=("a",)), QueryStart(names=("atlas",)), QueryStart(entity_types=("Event",))):
            ours = query(graph, start=start, steps=(step(direction=BOTH),))
            theirs = query(graph, start=start, steps=(step(direction=BOTH),), tenant_id=GLOBEX)
            assert set(ids(ours)) <= {"a", "b", "c"}
            assert set(ids(theirs)) <= {"a", "x"}
            assert ours.hits
            assert theirs.hits

    @pytest.mark.parametrize("text", HOSTILE)
    def test_what_a_caller_sends_is_data(self, graph: KnowledgeGraph, text: str) -> None:
        graph.upsert([vertex("a", name="Atlas"), vertex(text, name=text)], [edge("a", text)])
        before = graph.stats(ACME)
        assert ids(query(graph, text)) == [text]
        assert text in ids(query(graph, start=QueryStart(names=(text,)))) or not any(map(str.isalnum, text))
        assert ids(query(graph, "a", steps=(step(name="nothing " + text),))) == []
        assert ids(query(graph, "a", steps=(step(),))) == [text]
        assert graph.stats(ACME) == before

    # --- facts ------------------------------------------------------------------------------------------------------

    def test_as_facts_paths_say_predicates_and_since_when_they_are_valid(self, graph: KnowledgeGraph) -> None:
        build(
            graph,
            edge("a", "b", "OWNS", predicate="as keeper", valid_at=day(2), invalid_at=day(30), evidence="page"),
            edge("a", "b", "OWNS", confidence=0.5),
            edge("b", "c", "OWNS", valid_at=day(3), confidence=0.5),
        )
        asked = {"steps": (step("OWNS"), step("OWNS")), "returns": QueryReturn.PATHS, "as_of": day(20)}
        found = [hit.path for hit in query(graph, "a", as_facts=True, **asked).hits]
        assert [path.predicates for path in found] == [("as keeper", ""), ()]
        assert [path.valid_at for path in found] == [day(3), day(3)]
        assert [path.invalid_at for path in found] == [day(30), None]
        assert [path.evidence for path in found] == [("page", None), ()]
        (merged,) = query(graph, "a", **asked).hits
        assert (merged.path.predicates, merged.path.valid_at) == ((), None), "other queries read what they always did"
