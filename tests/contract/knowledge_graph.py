"""What every knowledge graph must do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from braid import deadline
from braid.errors import InvalidRequest, StoreTooSlow
from braid.models import Direction, TimeRange
from braid.ports.graph_query import GraphQuery, QueryStart
from braid.ports.knowledge_graph import (
    ExpandRequest,
    Expansion,
    GraphStats,
    KnowledgeGraph,
    PropagateRequest,
    WritableGraph,
)
from braid.retrieval.stages.name_linking import linked_names
from braid.understanding.misspelling_keys import misspellings
from braid.understanding.question_phrases import phrases

from tests.contract.shapes import ACME, AS_OF, GLOBEX, day, edge, vertex

if TYPE_CHECKING:
    from collections.abc import Iterable

    from braid.models import GraphHit, Relationship


def build(graph: KnowledgeGraph, *edges: Relationship, **fields: Any) -> None:
    """Write edges and a plain vertex for each of their ends."""
    names = dict.fromkeys(name for each in edges for name in (each.source, each.target))
    graph.upsert([vertex(name, **fields) for name in names], edges)


def walk(graph: KnowledgeGraph, *seeds: str, **fields: Any) -> Expansion:
    return graph.expand(ExpandRequest(seeds=seeds, **{"tenant_id": ACME, "as_of": AS_OF, **fields}))


def causal(graph: KnowledgeGraph, *seeds: str, **fields: Any) -> Expansion:
    return walk(
        graph,
        *seeds,
        **{
            "types": ("CAUSES", "ENABLES", "PREVENTS"),
            "direction": Direction.OUT,
            "max_hops": 3,
            "by_confidence": True,
            **fields,
        },
    )


def temporal(graph: KnowledgeGraph, *seeds: str, **fields: Any) -> Expansion:
    return causal(graph, *seeds, **{"types": ("BEFORE", "AFTER", "DURING"), "by_time": True, **fields})


def ids(hits: Expansion | Iterable[GraphHit]) -> list[str]:
    return [hit.id for hit in (hits.hits if isinstance(hits, Expansion) else hits)]


def paths(expansion: Expansion) -> dict[str, tuple[str, ...]]:
    return {hit.id: hit.path.ids for hit in expansion.hits}


class KnowledgeGraphContract:
    """Subclass this and provide the fixture ``graph``: a knowledge graph that is empty for every test."""

    # --- deadlines --------------------------------------------------------------------------------------------------

    def test_what_is_asked_when_the_time_is_over_is_given_up_and_what_is_written_is_not(
        self, graph: KnowledgeGraph
    ) -> None:
        with deadline.within(1e-9), deadline.suspended():
            build(graph, edge("a", "b", "CAUSES"))
        asked = {"tenant_id": ACME, "as_of": AS_OF}
        for ask in (
            lambda: graph.expand(ExpandRequest(seeds=("a",), **asked)),
            lambda: graph.propagate(PropagateRequest(names=(("a", 1.0),), **asked)),
            lambda: graph.query(GraphQuery(start=QueryStart(ids=("a",)), **asked)),
            lambda: graph.link(ACME, ["a"], as_of=AS_OF),
        ):
            with deadline.within(1e-9), pytest.raises(StoreTooSlow):
                ask()
        assert ids(walk(graph, "a")) == ["b"]

    # --- an empty store ---------------------------------------------------------------------------------------------

    def test_the_port_is_implemented(self, graph: KnowledgeGraph) -> None:
        assert isinstance(graph, KnowledgeGraph)

    def test_an_empty_store_answers_with_nothing(self, graph: KnowledgeGraph) -> None:
        assert walk(graph, "nothing") == Expansion()
        assert walk(graph) == Expansion()
        assert graph.link(ACME, ["nothing"], as_of=AS_OF) == []
        assert graph.delete(ACME, ["nothing"]) == 0
        assert graph.stats(ACME) == GraphStats()

    def test_writing_nothing_is_allowed(self, graph: KnowledgeGraph) -> None:
        graph.upsert([], [])
        assert graph.delete(ACME, []) == 0
        assert graph.link(ACME, [], as_of=AS_OF) == []
        assert graph.stats(ACME) == GraphStats()

    def test_a_vertex_that_only_stands_for_a_missing_one_replaces_none(self, graph: WritableGraph) -> None:
        known = vertex("x", name="Osprey Mill", aliases=("the mill",), valid_at=day(2))
        graph.upsert([vertex("a"), known], [])
        graph.upsert([vertex("x", name=None), vertex("y", name=None)], [edge("a", "x"), edge("x", "y")], {}, {"x", "y"})
        assert graph.get_many(ACME, ["x"]) == [known]
        assert [link.entity_id for link in graph.link(ACME, ["the mill"], as_of=AS_OF)] == ["x"]
        assert graph.get_many(ACME, ["y"]) == [vertex("y", name=None)]
        assert ids(walk(graph, "a", max_hops=2)) == ["x", "y"]
        graph.upsert([vertex("y", name="Heron Hall")], [])
        assert [link.entity_id for link in graph.link(ACME, ["heron hall"], as_of=AS_OF)] == ["y"]

    # --- the three expansions ---------------------------------------------------------------------------------------

    def test_a_causal_walk_follows_causes_outwards_and_multiplies_confidence(self, graph: KnowledgeGraph) -> None:
        build(
            graph,
            edge("a", "b", "CAUSES", confidence=0.9),
            edge("b", "c", "ENABLES", confidence=0.8),
            edge("c", "d", "PREVENTS", confidence=0.5),
            edge("d", "e", "CAUSES", confidence=1.0),
            edge("a", "x", "MENTIONS", confidence=1.0),
            edge("y", "a", "CAUSES", confidence=1.0),
        )
        found = causal(graph, "a")
        assert ids(found) == ["b", "c", "d"]
        assert [hit.score for hit in found.hits] == pytest.approx([0.9, 0.72, 0.36])
        assert [hit.rank for hit in found.hits] == [1, 2, 3]
        assert found.hits[2].path.ids == ("a", "b", "c", "d")
        assert found.hits[2].path.types == ("CAUSES", "ENABLES", "PREVENTS")
        assert not found.truncated

    def test_the_best_path_wins_even_when_it_is_longer(self, graph: KnowledgeGraph) -> None:
        build(
            graph,
            edge("a", "goal", confidence=0.3),
            edge("a", "b", confidence=0.9),
            edge("b", "goal", confidence=0.9),
            edge("goal", "after", confidence=1.0),
        )
        found = causal(graph, "a")
        assert {hit.id: hit.score for hit in found.hits} == pytest.approx({"b": 0.9, "goal": 0.81, "after": 0.81})
        assert paths(found)["goal"] == ("a", "b", "goal")
        assert paths(found)["after"] == ("a", "b", "goal", "after")

    def test_a_worse_but_shorter_path_is_used_where_the_best_is_too_long(self, graph: KnowledgeGraph) -> None:
        build(
            graph,
            edge("a", "b", confidence=0.9),
            edge("b", "c", confidence=0.9),
            edge("a", "c", confidence=0.1),
            edge("c", "d", confidence=1.0),
        )
        found = causal(graph, "a", max_hops=2)
        assert paths(found)["c"] == ("a", "b", "c")
        assert paths(found)["d"] == ("a", "c", "d")

    def test_a_temporal_walk_chooses_by_score_and_lists_by_time(self, graph: KnowledgeGraph) -> None:
        graph.upsert(
            [
                vertex("start"),
                vertex("late", timestamp=day(9)),
                vertex("early", timestamp=day(1)),
                vertex("unlikely", timestamp=day(2)),
                vertex("timeless"),
                vertex("middle", timestamp=day(5)),
            ],
            [
                edge("start", "late", "BEFORE", confidence=0.9),
                edge("start", "early", "AFTER", confidence=0.7),
                edge("start", "unlikely", "DURING", confidence=0.1),
                edge("start", "timeless", "BEFORE", confidence=0.8),
                edge("late", "middle", "AFTER", confidence=0.9),
                edge("start", "unlikely", "CAUSES", confidence=1.0),
            ],
        )
        found = temporal(graph, "start", limit=4)
        assert ids(found) == ["early", "middle", "late", "timeless"]
        assert [hit.score for hit in found.hits] == pytest.approx([0.7, 0.81, 0.9, 0.8])

    def test_any_other_walk_goes_both_ways_and_scores_by_distance(self, graph: KnowledgeGraph) -> None:
        build(
            graph,
            edge("a", "b", "OWNS", confidence=0.1),
            edge("c", "b", "MENTIONS", confidence=0.9),
            edge("d", "c", "OWNS", confidence=1.0),
            edge("z", "a", "CAUSES", confidence=0.2),
        )
        found = walk(graph, "a")
        assert ids(found) == ["b", "z", "c"]
        assert [hit.score for hit in found.hits] == pytest.approx([1 / 2, 1 / 2, 1 / 3])
        assert found.hits[2].path.types == ("OWNS", "MENTIONS")
        assert ids(walk(graph, "a", max_hops=3)) == ["b", "z", "c", "d"]
        assert ids(walk(graph, "a", max_hops=1)) == ["b", "z"]

    def test_an_edge_that_was_found_in_a_text_counts_a_share_of_a_given_one(self, graph: KnowledgeGraph) -> None:
        found = edge("a", "b", "MENTIONS", position=3, confidence=0.8)
        build(graph, found, edge("a", "c", "OWNS"), edge("c", "d", "OWNS"))
        by_distance, by_confidence = (walk(graph, "a", found_share=0.5, by_confidence=way) for way in (False, True))
        assert [(hit.id, hit.score) for hit in by_distance.hits] == [("c", 1 / 2), ("d", 1 / 3), ("b", 1 / 4)]
        assert [(hit.id, hit.score) for hit in by_confidence.hits] == [("c", 1.0), ("d", 1.0), ("b", 0.4)]

    def test_a_longer_way_of_given_edges_may_be_better_than_one_that_was_found(self, graph: KnowledgeGraph) -> None:
        build(graph, edge("a", "b", "MENTIONS", position=3), edge("a", "c", "OWNS"), edge("c", "b", "OWNS"))
        assert [hit.path.ids for hit in walk(graph, "a", found_share=0.5).hits] == [("a", "c"), ("a", "c", "b")]

    @pytest.mark.parametrize(
        ("direction", "expected"), [(Direction.OUT, ["b"]), (Direction.IN, ["z"]), (Direction.BOTH, ["b", "z"])]
    )
    def test_edges_are_walked_in_the_direction_asked_for(
        self, graph: KnowledgeGraph, direction: Direction, expected: list[str]
    ) -> None:
        build(graph, edge("a", "b"), edge("z", "a"))
        assert ids(walk(graph, "a", direction=direction)) == expected

    # --- seeds, cycles, ties ----------------------------------------------------------------------------------------

    def test_seeds_are_never_returned(self, graph: KnowledgeGraph) -> None:
        build(graph, edge("a", "b"), edge("b", "c"), edge("c", "a"))
        found = causal(graph, "a", "b", "unknown")
        assert ids(found) == ["c"]
        assert found.hits[0].path.ids == ("b", "c")

    def test_cycles_and_self_loops_end(self, graph: KnowledgeGraph) -> None:
        build(graph, edge("a", "a"), edge("a", "b"), edge("b", "b"), edge("b", "a"), edge("b", "c"), edge("c", "a"))
        for direction in Direction:
            found = walk(graph, "a", direction=direction, max_hops=3)
            assert sorted(ids(found)) == ["b", "c"]
            assert all(len(set(hit.path.ids)) == len(hit.path.ids) for hit in found.hits)

    def test_each_vertex_is_reached_once_from_many_seeds(self, graph: KnowledgeGraph) -> None:
        build(
            graph,
            edge("s1", "goal", confidence=0.4),
            edge("s2", "goal", confidence=0.6),
            edge("s3", "goal", confidence=0.5),
        )
        found = causal(graph, "s1", "s2", "s3")
        assert paths(found) == {"goal": ("s2", "goal")}
        assert found.hits[0].score == pytest.approx(0.6)

    def test_equal_scores_are_ordered_by_id(self, graph: KnowledgeGraph) -> None:
        build(graph, *[edge("a", name, confidence=0.5) for name in ("m", "c", "z", "b")])
        assert ids(causal(graph, "a")) == ["b", "c", "m", "z"]
        assert ids(causal(graph, "a", limit=2)) == ["b", "c"]

    def test_of_equal_paths_the_shorter_then_the_smaller_is_kept(self, graph: KnowledgeGraph) -> None:
        build(
            graph,
            edge("a", "n"),
            edge("a", "m"),
            edge("n", "goal"),
            edge("m", "goal"),
            edge("m", "n2"),
            edge("n2", "near"),
            edge("n", "near"),
        )
        found = causal(graph, "a")
        assert paths(found)["goal"] == ("a", "m", "goal")
        assert paths(found)["near"] == ("a", "n", "near")

    def test_paths_are_compared_from_their_beginning(self, graph: KnowledgeGraph) -> None:
        build(
            graph, edge("a", "b"), edge("b", "y"), edge("y", "goal"), edge("a", "c"), edge("c", "x"), edge("x", "goal")
        )
        assert paths(causal(graph, "a"))["goal"] == ("a", "b", "y", "goal")

    def test_of_parallel_edges_the_surest_is_walked(self, graph: KnowledgeGraph) -> None:
        build(
            graph,
            edge("a", "b", "ENABLES", confidence=0.4),
            edge("a", "b", "PREVENTS", confidence=0.8),
            edge("a", "b", "CAUSES", confidence=0.8),
        )
        found = causal(graph, "a")
        assert len(found.hits) == 1
        assert found.hits[0].score == pytest.approx(0.8)
        assert found.hits[0].path.types == ("CAUSES",)

    def test_of_equal_edges_there_and_back_the_smaller_type_is_kept(self, graph: KnowledgeGraph) -> None:
        build(
            graph, edge("a", "b", "OWNS"), edge("b", "a", "CAUSES"), edge("c", "b", "OWNS"), edge("b", "c", "PART_OF")
        )
        found = walk(graph, "a")
        assert [hit.path.types for hit in found.hits] == [("CAUSES",), ("CAUSES", "OWNS")]

    def test_the_order_of_writing_does_not_matter(self, graph: KnowledgeGraph) -> None:
        edges = [edge("a", "c"), edge("a", "b"), edge("b", "d"), edge("c", "d"), edge("d", "e")]
        build(graph, *edges)
        before = causal(graph, "a")
        graph.delete(ACME, ["a", "b", "c", "d", "e"])
        build(graph, *reversed(edges))
        assert causal(graph, "a") == before

    # --- what is returned -------------------------------------------------------------------------------------------

    def test_a_hit_describes_its_vertex(self, graph: KnowledgeGraph) -> None:
        described = vertex("b", entity_type="Event", name="Outage", timestamp=day(3), has_record=True)
        graph.upsert([vertex("a"), described, vertex("c", has_record=False)], [edge("a", "b"), edge("a", "c")])
        event, other = walk(graph, "a", records_only=False).hits
        assert (event.name, event.entity_type, event.timestamp, event.has_record) == ("Outage", "Event", day(3), True)
        assert (other.name, other.entity_type, other.timestamp, other.has_record) == (None, "Concept", None, False)

    def test_a_path_names_the_evidence_of_its_edges(self, graph: KnowledgeGraph) -> None:
        build(
            graph,
            edge("a", "b", evidence="report.pdf#chunk-1"),
            edge("b", "c", confidence=0.5),
            edge("d", "b", confidence=0.4, evidence="chat-fact-é"),
            edge("a", "x", "OWNS"),
        )
        assert {hit.id: hit.path.evidence for hit in walk(graph, "a").hits} == {
            "b": ("report.pdf#chunk-1",),
            "c": ("report.pdf#chunk-1", None),
            "d": ("report.pdf#chunk-1", "chat-fact-é"),
            "x": (),
        }

    def test_of_edges_alike_the_evidence_is_that_of_the_one_walked(self, graph: KnowledgeGraph) -> None:
        build(
            graph,
            edge("a", "b", confidence=0.3, predicate="a", evidence="unsure"),
            edge("a", "b", confidence=0.9, predicate="z", evidence="sure"),
            edge("c", "d", predicate="a", evidence="first"),
            edge("c", "d", predicate="b", evidence="an even smaller name"),
            edge("e", "f", predicate="a"),
            edge("e", "f", predicate="b", evidence="not walked"),
        )
        for how in (walk, causal):
            evidence = {hit.id: hit.path.evidence for hit in how(graph, "a", "c", "e").hits}
            assert evidence == {"b": ("sure",), "d": ("first",), "f": ()}

    def test_evidence_is_replaced_with_its_edge(self, graph: KnowledgeGraph) -> None:
        build(graph, edge("a", "b", evidence="old"))
        build(graph, edge("a", "b"))
        assert walk(graph, "a").hits[0].path.evidence == ()

    def test_vertices_without_a_record_are_walked_through(self, graph: KnowledgeGraph) -> None:
        graph.upsert(
            [vertex("a"), vertex("bare", has_record=False), vertex("b")], [edge("a", "bare"), edge("bare", "b")]
        )
        assert paths(walk(graph, "a")) == {"b": ("a", "bare", "b")}
        assert ids(walk(graph, "a", records_only=False)) == ["bare", "b"]

    def test_vertices_of_other_types_are_walked_through(self, graph: KnowledgeGraph) -> None:
        graph.upsert(
            [vertex("a"), vertex("p", entity_type="Person"), vertex("e", entity_type="Event"), vertex("d")],
            [edge("a", "p"), edge("p", "e"), edge("p", "d")],
        )
        assert ids(walk(graph, "a", entity_types=("Event",))) == ["e"]
        assert sorted(ids(walk(graph, "a", entity_types=("Event", "Person")))) == ["e", "p"]

    def test_a_time_range_leaves_out_what_is_outside_but_walks_through_it(self, graph: KnowledgeGraph) -> None:
        graph.upsert(
            [
                vertex("a"),
                *[vertex(f"d{number}", timestamp=day(number)) for number in (1, 2, 3, 4)],
                vertex("timeless"),
            ],
            [edge("a", "d1"), edge("d1", "d2"), edge("d1", "d3"), edge("d1", "d4"), edge("a", "timeless")],
        )
        assert ids(walk(graph, "a", time_range=TimeRange(start=day(2), end=day(4)))) == ["d2", "d3"]
        assert ids(walk(graph, "a", time_range=TimeRange(end=day(2)))) == ["d1"]

    def test_only_vertices_asked_for_are_returned_and_the_others_still_walked_through(
        self, graph: KnowledgeGraph
    ) -> None:
        build(graph, edge("a", "b"), edge("b", "c"), edge("a", "d"), edge("x", "y"))
        found = walk(graph, "a", among=("c", "d", "y", "nothing", "a"))
        assert paths(found) == {"d": ("a", "d"), "c": ("a", "b", "c")}
        assert ids(walk(graph, "a", among=())) == []

    def test_a_limit_keeps_the_best(self, graph: KnowledgeGraph) -> None:
        build(graph, *[edge("a", f"b{number:03}", confidence=number / 100) for number in range(100)])
        assert ids(causal(graph, "a", limit=3)) == ["b099", "b098", "b097"]

    def test_edges_without_confidence_to_speak_of_are_still_walked(self, graph: KnowledgeGraph) -> None:
        build(graph, edge("a", "b", confidence=0.0), edge("b", "c", confidence=1.0))
        assert [(hit.id, hit.score) for hit in causal(graph, "a").hits] == [("b", 0.0), ("c", 0.0)]

    # --- fan-out ----------------------------------------------------------------------------------------------------

    def test_a_hub_is_walked_along_its_surest_edges_and_says_so(self, graph: KnowledgeGraph) -> None:
        build(graph, *[edge("hub", f"b{number:04}", confidence=number / 2_000) for number in range(2_000)])
        found = causal(graph, "hub", fan_out=5, limit=50)
        assert ids(found) == ["b1999", "b1998", "b1997", "b1996", "b1995"]
        assert found.truncated
        assert len(causal(graph, "hub", limit=200).hits) == 200

    def test_equally_sure_edges_are_followed_in_the_order_of_their_identity(self, graph: KnowledgeGraph) -> None:
        build(graph, *[edge("hub", name) for name in ("e", "b", "d", "a", "c")])
        found = causal(graph, "hub", fan_out=2)
        assert ids(found) == ["a", "b"]
        assert found.truncated

    def test_a_budget_that_is_not_exceeded_is_not_mentioned(self, graph: KnowledgeGraph) -> None:
        build(graph, *[edge("hub", name) for name in ("a", "b", "c")], edge("hub", "x", "MENTIONS"))
        assert not causal(graph, "hub", fan_out=3).truncated
        assert walk(graph, "hub", fan_out=3).truncated
        assert not walk(graph, "hub", fan_out=4).truncated

    def test_a_hub_in_the_middle_is_bounded_too(self, graph: KnowledgeGraph) -> None:
        build(
            graph,
            edge("a", "hub"),
            *[edge("hub", f"b{number:02}", confidence=1 - number / 100) for number in range(20)],
        )
        found = causal(graph, "a", fan_out=4)
        assert ids(found) == ["b00", "hub", "b01", "b02", "b03"]
        assert found.truncated

    # --- validity ---------------------------------------------------------------------------------------------------

    def test_superseded_edges_are_not_walked(self, graph: KnowledgeGraph) -> None:
        build(
            graph,
            edge("a", "past", invalid_at=day(10)),
            edge("a", "future", valid_at=day(20)),
            edge("a", "now", valid_at=day(10), invalid_at=day(20)),
            edge("past", "beyond"),
        )
        assert ids(causal(graph, "a", as_of=day(5))) == ["beyond", "past"]
        assert ids(causal(graph, "a", as_of=day(10))) == ["now"]
        assert ids(causal(graph, "a", as_of=day(19))) == ["now"]
        assert ids(causal(graph, "a", as_of=day(20))) == ["future"]

    def test_superseded_vertices_are_neither_walked_nor_returned(self, graph: KnowledgeGraph) -> None:
        graph.upsert(
            [vertex("a"), vertex("old", invalid_at=day(10)), vertex("new", valid_at=day(10)), vertex("b"), vertex("c")],
            [edge("a", "old"), edge("old", "b"), edge("a", "new"), edge("new", "c")],
        )
        assert sorted(ids(causal(graph, "a", as_of=day(5)))) == ["b", "old"]
        assert sorted(ids(causal(graph, "a", as_of=day(10)))) == ["c", "new"]

    def test_a_superseded_seed_leads_nowhere(self, graph: KnowledgeGraph) -> None:
        graph.upsert([vertex("a", invalid_at=day(10)), vertex("b")], [edge("a", "b")])
        assert ids(causal(graph, "a", as_of=day(5))) == ["b"]
        assert ids(causal(graph, "a", as_of=day(15))) == []

    # --- linking ----------------------------------------------------------------------------------------------------

    def test_names_and_aliases_are_linked(self, graph: KnowledgeGraph) -> None:
        graph.upsert(
            [
                vertex("api", name="Harbour Freight API", aliases=("HF-API", "the Freight"), entity_type="CodeEntity"),
                vertex("port", name="Harbour"),
                vertex("other", name="Harbourside"),
                vertex("nameless"),
            ],
            [],
        )
        links = graph.link(ACME, phrases("Why did the HARBOUR Freight API fail, and hf-api's twin?"), as_of=AS_OF)
        assert [(link.entity_id, link.phrase, link.score) for link in links] == [
            ("api", "harbour freight api", 1.0),
            ("port", "harbour", 1.0),
        ]
        assert (links[0].name, links[0].entity_type) == ("Harbour Freight API", "CodeEntity")

    def test_a_link_says_whether_the_entity_has_a_record(self, graph: KnowledgeGraph) -> None:
        graph.upsert([vertex("a", name="Atlas"), vertex("b", name="Other", aliases=("Atlas",), has_record=False)], [])
        links = graph.link(ACME, ["atlas"], as_of=AS_OF)
        assert [(link.entity_id, link.has_record) for link in links] == [("a", True), ("b", False)]
        graph.upsert([vertex("b", name="Atlas", has_record=True)], [])
        assert all(link.has_record for link in graph.link(ACME, ["atlas"], as_of=AS_OF))

    def test_an_entity_without_a_name_is_linked_by_its_aliases_and_called_by_the_first(
        self, graph: KnowledgeGraph
    ) -> None:
        graph.upsert([vertex("a", aliases=("Keelson", "Atlas")), vertex("b", name="Other", aliases=("Atlas",))], [])
        links = graph.link(ACME, ["atlas"], as_of=AS_OF)
        assert [(link.entity_id, link.name, link.phrase) for link in links] == [
            ("a", "Keelson", "atlas"),
            ("b", "Other", "atlas"),
        ]

    def test_an_alias_counts_less_than_a_name(self, graph: KnowledgeGraph) -> None:
        graph.upsert([vertex("z", name="Atlas"), vertex("a", name="Other", aliases=("Atlas",))], [])
        links = graph.link(ACME, ["atlas"], as_of=AS_OF)
        assert [(link.entity_id, link.score, link.name) for link in links] == [("z", 1.0, "Atlas"), ("a", 0.9, "Other")]

    def test_diacritics_case_and_punctuation_do_not_matter(self, graph: KnowledgeGraph) -> None:
        graph.upsert([vertex("m", name="Müller & Söhne"), vertex("c", name="C++"), vertex("ru", name="Авария")], [])
        links = graph.link(ACME, phrases("Did MULLER Sohne use C++ before авария?"), as_of=AS_OF)
        assert {"m", "ru"} <= {link.entity_id for link in links}
        assert [link.entity_id for link in graph.link(ACME, ["c++"], as_of=AS_OF)] == ["c"]

    def test_links_are_ordered_by_score_phrase_and_id_and_limited(self, graph: KnowledgeGraph) -> None:
        graph.upsert(
            [
                vertex("d", name="Blue Heron"),
                vertex("b", name="Heron"),
                vertex("a", name="Heron"),
                vertex("c", name="Bird", aliases=("Blue Heron",)),
            ],
            [],
        )
        names = ["heron", "blue heron", "blue"]
        assert [link.entity_id for link in graph.link(ACME, names, as_of=AS_OF)] == ["d", "a", "b", "c"]
        assert [link.entity_id for link in graph.link(ACME, names, as_of=AS_OF, limit=2)] == ["d", "a"]

    def test_other_forms_of_a_name_are_linked_when_they_are_asked_for(self, graph: KnowledgeGraph) -> None:
        graph.upsert(
            [
                vertex("peak", name="Humboldt Peak (Colorado)"),
                vertex("duke", name="Nicholas I, Duke of Leith", aliases=("Harbour Freight Office",)),
                vertex("firm", name="Fenwick & Lode"),
                vertex("name", name="Fenwick"),
            ],
            [],
        )
        asked = ["~humboldt peak", "~nicholas i", "@hfo", "^freight office", "^fenwick", "^lode", "peak", "^hfo"]
        assert [(link.entity_id, link.phrase, link.score) for link in graph.link(ACME, asked, as_of=AS_OF)] == [
            ("peak", "~humboldt peak", 0.8),
            ("duke", "~nicholas i", 0.8),
            ("firm", "^fenwick", 0.6),
        ]
        assert graph.link(ACME, ["humboldt peak", "nicholas i", "lode", "hfo"], as_of=AS_OF) == []
        assert [link.score for link in graph.link(ACME, ["@hfo"], as_of=AS_OF)] == [0.6]
        graph.upsert([vertex("firm", name="Lode Brothers")], [])
        assert graph.link(ACME, ["^fenwick"], as_of=AS_OF) == []
        assert [link.entity_id for link in graph.link(ACME, ["^lode"], as_of=AS_OF)] == ["firm"]

    def test_an_identifier_names_an_entity_and_none_of_the_chunks_with_it_in_their_title(
        self, graph: KnowledgeGraph
    ) -> None:
        title = "INC-322: Payout run skipped"
        chunk = vertex("chunk", name=title, entity_type="Document", has_record=True)
        graph.upsert([vertex("incident", name=title, entity_type="Incident"), chunk], [])
        assert [link.entity_id for link in graph.link(ACME, ["~inc 322"], as_of=AS_OF)] == ["incident"]

    def test_a_name_is_linked_by_the_keys_of_a_word_that_one_letter_tells_it_apart_from(
        self, graph: KnowledgeGraph
    ) -> None:
        graph.upsert([vertex("api", name="Keelson"), vertex("hold", name="Hold", aliases=("Write Freeze",))], [])
        graph.upsert([vertex("theirs", name="Keelson", tenant_id=GLOBEX), vertex("other", name="LX-400")], [])
        written = {"keelsn": "api", "keelsoon": "api", "keeslon": "api", "write freze": "hold", "lx 500": None}
        for phrase, entity in written.items():
            links = graph.link(ACME, misspellings(phrase), as_of=AS_OF)
            assert [(link.entity_id, link.score) for link in links] == ([(entity, 0.75)] if entity else [])
        both = graph.link(ACME, ["keelson", *misspellings("keelson")], as_of=AS_OF)
        assert [(link.phrase, link.score) for link in both] == [("keelson", 1.0)]
        questions = ["Who owns Keelsn?", "why was there a write freze"]
        linked = [linked_names(graph, ACME, question, as_of=AS_OF) for question in questions]
        assert [[(one.name, one.misspelt) for one in links] for links in linked] == [
            [("Keelson", True)],
            [("Hold", True)],
        ]

    def test_a_match_by_a_misspelling_has_the_names_of_which_one_is_meant(self, graph: KnowledgeGraph) -> None:
        aliases = ("Billing", "Invoices of 1999 and of many other years", "pay")
        graph.upsert(
            [vertex("orchid", name="Orchid", aliases=aliases), vertex("fern", name=None, aliases=("Ferns",))], []
        )
        linked = {
            phrase: graph.link(ACME, misspellings(phrase), as_of=AS_OF) for phrase in ("boiling", "orchit", "fernz")
        }
        found = {phrase: [(one.name, one.names) for one in links] for phrase, links in linked.items()}
        assert found == {
            "boiling": [("Orchid", ("orchid", "billing"))],
            "orchit": [("Orchid", ("orchid", "billing"))],
            "fernz": [("Ferns", ("ferns",))],
        }
        assert [one.names for one in graph.link(ACME, ["orchid", "billing"], as_of=AS_OF)] == [()]
        assert linked_names(graph, ACME, "What is the boiling point?", as_of=AS_OF) == []

    def test_two_capitals_name_what_is_given_and_nothing_that_was_found_in_texts(self, graph: KnowledgeGraph) -> None:
        graph.upsert([vertex("people", name="Human Resources", aliases=("HR",)), vertex("it", name="IT")], [])
        graph.upsert([vertex("found:us", name="US", found=True), vertex("states", name="United State Ships")], [])
        for question, named in (
            ("Who is in HR?", ["Human Resources"]),
            ("Who runs IT?", ["IT"]),
            ("Who runs it?", []),
            ("Which ships are from the US?", []),
            ("Does US need US?", []),
        ):
            links = linked_names(graph, ACME, question, as_of=AS_OF)
            assert [link.name for link in links] == named, question

    def test_superseded_entities_are_not_linked(self, graph: KnowledgeGraph) -> None:
        graph.upsert(
            [vertex("old", name="Atlas", invalid_at=day(10)), vertex("new", name="Atlas", valid_at=day(10))], []
        )
        assert [link.entity_id for link in graph.link(ACME, ["atlas"], as_of=day(9))] == ["old"]
        assert [link.entity_id for link in graph.link(ACME, ["atlas"], as_of=day(10))] == ["new"]

    # --- trust ------------------------------------------------------------------------------------------------------

    def test_a_vertex_is_trusted_as_it_was_last_written(self, graph: WritableGraph) -> None:
        graph.upsert([vertex("a"), vertex("b", trusted=False)], [])
        assert [each.trusted for each in graph.get_many(ACME, ["a", "b"])] == [True, False]
        graph.upsert([vertex("a", trusted=False), vertex("b")], [])
        assert [each.trusted for each in graph.get_many(ACME, ["a", "b"])] == [False, True]

    def test_entities_that_are_not_trusted_are_not_linked_where_that_is_asked(self, graph: KnowledgeGraph) -> None:
        strangers = [vertex(f"a{number:02}", name="Atlas", trusted=False) for number in range(60)]
        graph.upsert([*strangers, vertex("own", name="Atlas")], [])
        links = graph.link(ACME, ["atlas"], as_of=AS_OF, limit=50, trusted_only=True)
        assert [link.entity_id for link in links] == ["own"]
        assert len(graph.link(ACME, ["atlas"], as_of=AS_OF, limit=100)) == 61

    @pytest.mark.parametrize("direction", list(Direction))
    def test_a_walk_passes_by_what_is_not_trusted_where_that_is_asked(
        self, graph: KnowledgeGraph, direction: Direction
    ) -> None:
        strangers = [f"m{number}" for number in range(4)]
        graph.upsert([vertex(name) for name in ("a", "b", "far")], [])
        graph.upsert([vertex(name, trusted=False) for name in strangers], [])
        pairs = [*(("a", name) for name in strangers), ("m0", "far")]
        ends = [pair if direction is not Direction.IN else pair[::-1] for pair in pairs]
        surest = [edge(source, target, confidence=0.9) for source, target in ends]
        weaker = edge("b", "a", confidence=0.1) if direction is Direction.IN else edge("a", "b", confidence=0.1)
        graph.upsert([], [*surest, weaker])
        for fan_out in (2, 200):
            asked: dict[str, Any] = {"fan_out": fan_out, "direction": direction, "max_hops": 2}
            found = walk(graph, "a", **asked, trusted_only=True)
            assert (ids(found), found.truncated) == (["b"], False)
            assert walk(graph, "m0", **asked, trusted_only=True) == Expansion()
        assert "far" in ids(walk(graph, "a", direction=direction, max_hops=2))

    def test_an_edge_is_trusted_as_it_was_last_written(self, graph: WritableGraph) -> None:
        named = [edge("a", "b"), edge("b", "c")]
        for trusted in (True, False, True):
            one, other = named[0].model_copy(update={"trusted": trusted}), named[1]
            graph.upsert([vertex(name) for name in "abc"], [one, other])
            assert graph.as_stored(ACME, named) == [one, other]
            assert graph.relationships(ACME, ids=["b"]) == [one, other]
            assert graph.scan(ACME).relationships == (one, other)

    @pytest.mark.parametrize("direction", list(Direction))
    def test_a_walk_follows_no_edge_that_is_not_trusted_where_that_is_asked(
        self, graph: KnowledgeGraph, direction: Direction
    ) -> None:
        graph.upsert([vertex(name) for name in ("a", "b", "m0", "m1", "m2", "far")], [])
        pairs = [("a", "m0", 0.9), ("a", "m1", 0.9), ("a", "m2", 0.9), ("m0", "far", 1.0), ("a", "b", 0.1)]
        for one, other, sure in pairs:
            ends = (one, other) if direction is not Direction.IN else (other, one)
            graph.upsert([], [edge(*ends, confidence=sure, trusted=sure != 0.9)])
        for fan_out in (2, 200):
            asked: dict[str, Any] = {"fan_out": fan_out, "direction": direction, "max_hops": 2}
            found = walk(graph, "a", **asked, trusted_only=True)
            assert (ids(found), found.truncated) == (["b"], False)
        assert "far" in ids(walk(graph, "a", direction=direction, max_hops=2))

    def test_what_is_reached_by_way_of_what_is_not_trusted_says_so(self, graph: KnowledgeGraph) -> None:
        vertices = [vertex("a"), vertex("b"), vertex("c"), vertex("mail", trusted=False), vertex("d")]
        edges = [edge("a", "b"), edge("a", "c", trusted=False), edge("a", "mail"), edge("mail", "d")]
        graph.upsert(vertices, edges)
        found = {hit.id: hit.trusted for hit in walk(graph, "a", max_hops=2).hits}
        assert found == {"b": True, "c": False, "mail": False, "d": False}

    def test_a_renamed_entity_is_not_found_by_its_old_names(self, graph: KnowledgeGraph) -> None:
        graph.upsert([vertex("a", name="Old", aliases=("Elder",))], [])
        graph.upsert([vertex("a", name="New")], [])
        assert graph.link(ACME, ["old", "elder"], as_of=AS_OF) == []
        assert [link.name for link in graph.link(ACME, ["new"], as_of=AS_OF)] == ["New"]

    def test_thousands_of_phrases_may_be_asked_for(self, graph: KnowledgeGraph) -> None:
        graph.upsert([vertex("a", name='It\'s "Atlas"; DROP')], [])
        names = [*(f"unknown {number}" for number in range(1_600)), "its atlas drop", "it atlas drop"]
        assert [link.entity_id for link in graph.link(ACME, names, as_of=AS_OF)] == ["a"]

    # --- writing ----------------------------------------------------------------------------------------------------

    def test_writing_twice_is_writing_once(self, graph: KnowledgeGraph) -> None:
        rows = [edge("a", "b", confidence=0.9), edge("b", "c", confidence=0.8)]
        build(graph, *rows)
        once = (causal(graph, "a"), graph.stats(ACME))
        build(graph, *rows)
        assert (causal(graph, "a"), graph.stats(ACME)) == once

    def test_an_edge_is_identified_by_its_ends_type_and_predicate(self, graph: KnowledgeGraph) -> None:
        build(graph, edge("a", "b", confidence=0.2), edge("a", "b", confidence=0.4, predicate="because of"))
        build(graph, edge("a", "b", "ENABLES"), edge("b", "a"))
        assert graph.stats(ACME).edges == 4
        build(graph, edge("a", "b", confidence=0.9, predicate="because of", evidence="p1"))
        assert graph.stats(ACME).edges == 4
        assert causal(graph, "a", types=("CAUSES",)).hits[0].score == pytest.approx(0.9)

    def test_a_new_version_of_an_edge_replaces_the_old(self, graph: KnowledgeGraph) -> None:
        build(graph, edge("a", "b", confidence=0.9))
        build(graph, edge("a", "b", confidence=0.1))
        assert causal(graph, "a").hits[0].score == pytest.approx(0.1)

    def test_a_new_version_of_a_vertex_keeps_its_edges(self, graph: KnowledgeGraph) -> None:
        graph.upsert([vertex("a"), vertex("b", name="Old", timestamp=day(1))], [edge("a", "b")])
        graph.upsert([vertex("b", entity_type="Event")], [])
        hit = causal(graph, "a").hits[0]
        assert (hit.id, hit.name, hit.entity_type, hit.timestamp) == ("b", None, "Event", None)

    def test_the_last_of_one_identity_in_a_batch_stands(self, graph: KnowledgeGraph) -> None:
        graph.upsert(
            [vertex("a"), vertex("b", name="First", aliases=("Uno",)), vertex("b", name="Last")],
            [edge("a", "b", confidence=0.2), edge("a", "b", confidence=0.6)],
        )
        assert [(hit.name, hit.score) for hit in causal(graph, "a").hits] == [("Last", pytest.approx(0.6))]
        assert graph.link(ACME, ["first", "uno"], as_of=AS_OF) == []
        assert graph.stats(ACME).edges == 1

    @pytest.mark.parametrize(("source", "target"), [("a", "missing"), ("missing", "a")])
    def test_an_edge_to_nowhere_is_refused_and_nothing_is_written(
        self, graph: KnowledgeGraph, source: str, target: str
    ) -> None:
        graph.upsert([vertex("a")], [])
        before = graph.stats(ACME)
        with pytest.raises(InvalidRequest, match=f"{source}.*{target}") as caught:
            graph.upsert([vertex("b")], [edge("a", "b"), edge(source, target)])
        assert caught.value.field == "relationships"
        assert graph.stats(ACME) == before
        assert ids(walk(graph, "a")) == []

    def test_an_edge_may_lead_to_a_vertex_stored_before(self, graph: KnowledgeGraph) -> None:
        graph.upsert([vertex("a")], [])
        graph.upsert([vertex("b")], [edge("a", "b")])
        graph.upsert([], [edge("b", "a", "OWNS")])
        assert ids(walk(graph, "b", types=("OWNS",))) == ["a"]

    def test_a_deleted_vertex_takes_its_edges_and_names_with_it(self, graph: KnowledgeGraph) -> None:
        graph.upsert(
            [vertex("a"), vertex("b", name="Atlas", aliases=("Titan",)), vertex("c")],
            [edge("a", "b"), edge("b", "c"), edge("a", "c", "OWNS")],
        )
        assert graph.delete(ACME, ["b", "unknown", "b"]) == 1
        assert ids(walk(graph, "a")) == ["c"]
        assert walk(graph, "a").hits[0].path.types == ("OWNS",)
        assert graph.link(ACME, ["atlas", "titan"], as_of=AS_OF) == []
        assert graph.stats(ACME) == GraphStats(
            vertices=2,
            records=2,
            edges=1,
            by_entity_type={"Concept": 2},
            by_relationship_type={"OWNS": 1},
            sources_by_relationship_type={"OWNS": 1},
            targets_by_relationship_type={"OWNS": 1},
        )
        graph.upsert([vertex("b")], [])
        assert ids(causal(graph, "a")) == []

    def test_ids_are_data(self, graph: KnowledgeGraph) -> None:
        names = ["acme|a", "it's", '"quoted"', "naïve 🚀", "a b", "x" * 200, "g.V().drop()"]
        build(graph, *[edge(names[0], name) for name in names[1:]])
        assert sorted(ids(causal(graph, names[0]))) == sorted(names[1:])

    def test_stats_count_what_is_stored(self, graph: KnowledgeGraph) -> None:
        graph.upsert(
            [vertex("a", entity_type="Event"), vertex("b", entity_type="Event"), vertex("c", has_record=False)],
            [edge("a", "b"), edge("a", "c"), edge("b", "c", "OWNS")],
        )
        graph.upsert([vertex("a", tenant_id=GLOBEX)], [])
        assert graph.stats(ACME) == GraphStats(
            vertices=3,
            records=2,
            edges=3,
            by_entity_type={"Event": 2, "Concept": 1},
            by_relationship_type={"CAUSES": 2, "OWNS": 1},
            sources_by_relationship_type={"CAUSES": 1, "OWNS": 1},
            targets_by_relationship_type={"CAUSES": 2, "OWNS": 1},
        )

    def test_stats_say_how_much_is_not_trusted(self, graph: WritableGraph) -> None:
        graph.upsert(
            [
                vertex("a", entity_type="Event"),
                vertex("b", entity_type="Event", trusted=False),
                vertex("c", entity_type="Mail", has_record=False, trusted=False),
            ],
            [edge("a", "b"), edge("a", "c", trusted=False), edge("b", "c", "OWNS", trusted=False, evidence="mail")],
        )
        stats = graph.stats(ACME)
        assert (stats.vertices, stats.records, stats.edges, stats.untrusted_records) == (3, 2, 3, 1)
        assert stats.untrusted_by_entity_type == {"Event": 1, "Mail": 1}
        assert stats.untrusted_by_relationship_type == {"CAUSES": 1, "OWNS": 1}
        assert stats.trusted_part() == GraphStats(
            vertices=1,
            records=1,
            edges=1,
            by_entity_type={"Event": 1},
            by_relationship_type={"CAUSES": 1},
            sources_by_relationship_type={"CAUSES": 1},
            targets_by_relationship_type={"CAUSES": 1},
        )

    def test_stats_follow_what_is_trusted_now(self, graph: WritableGraph) -> None:
        graph.upsert([vertex("a"), vertex("b", trusted=False)], [edge("a", "b", evidence="memo")])
        graph.upsert([vertex("b")], [])
        assert graph.stats(ACME).untrusted_by_entity_type == {}
        assert graph.distrust_relationships(ACME, ["memo"]) == 1
        assert graph.stats(ACME).untrusted_by_relationship_type == {"CAUSES": 1}
        graph.delete_relationships(ACME, [edge("a", "b")])
        assert graph.stats(ACME).untrusted_by_relationship_type == {}

    def test_what_is_found_says_when_the_first_of_it_ceases_to_be_valid(self, graph: WritableGraph) -> None:
        graph.upsert(
            [vertex("a", name="Ada", invalid_at=day(9)), vertex("b", invalid_at=day(8)), vertex("c")],
            [edge("a", "b", invalid_at=day(7)), edge("b", "c", valid_at=day(2)), edge("c", "a", "OWNS")],
        )
        (link,) = graph.link(ACME, ["ada"], as_of=day(3))
        assert link.invalid_at == day(9)
        walks = graph.expand(ExpandRequest(tenant_id=ACME, seeds=("a",), direction=Direction.OUT, as_of=day(3)))
        assert {hit.id: hit.path.invalid_at for hit in walks.hits} == {"b": day(7), "c": day(7)}
        shares = graph.propagate(PropagateRequest(tenant_id=ACME, names=(("c", 1.0),), as_of=day(3)))
        assert {hit.id: hit.path.invalid_at for hit in shares.hits} == {"a": day(9), "b": day(8), "c": None}
        question = {"start": {"ids": ["b"]}, "steps": [{"direction": "out"}], "tenant_id": ACME, "as_of": day(3)}
        found = graph.query(GraphQuery.model_validate(question))
        assert [hit.path.invalid_at for hit in found.hits] == [day(8)]

    def test_several_writers_at_once_lose_nothing(self, graph: KnowledgeGraph) -> None:
        graph.upsert([vertex("hub")], [])

        def write(writer: int) -> None:
            for batch in range(5):
                names = [f"w{writer}b{batch}v{number}" for number in range(4)]
                graph.upsert([vertex(name) for name in names], [edge("hub", name) for name in names])

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(4)))
        assert (graph.stats(ACME).vertices, graph.stats(ACME).edges) == (81, 80)
        assert len(walk(graph, "hub", limit=200).hits) == 80

    # --- tenants ----------------------------------------------------------------------------------------------------

    def test_tenants_never_see_one_another(self, graph: KnowledgeGraph) -> None:
        graph.upsert([vertex("a", name="Atlas"), vertex("b"), vertex("c")], [edge("a", "b")])
        graph.upsert(
            [
                vertex("a", name="Their Atlas", tenant_id=GLOBEX),
                vertex("c", tenant_id=GLOBEX),
                vertex("t", name="Atlas", tenant_id=GLOBEX),
            ],
            [edge("a", "c", tenant_id=GLOBEX), edge("c", "t", tenant_id=GLOBEX)],
        )
        assert ids(walk(graph, "a")) == ["b"]
        assert ids(walk(graph, "a", tenant_id=GLOBEX)) == ["c", "t"]
        assert [link.entity_id for link in graph.link(ACME, ["atlas", "their atlas"], as_of=AS_OF)] == ["a"]
        assert graph.stats(ACME).edges == 1

    def test_an_edge_never_crosses_tenants(self, graph: KnowledgeGraph) -> None:
        graph.upsert([vertex("a"), vertex("b", tenant_id=GLOBEX)], [])
        with pytest.raises(InvalidRequest):
            graph.upsert([], [edge("a", "b")])
        assert ids(walk(graph, "a")) == []

    def test_deleting_leaves_other_tenants_alone(self, graph: KnowledgeGraph) -> None:
        for tenant in (ACME, GLOBEX):
            graph.upsert(
                [vertex("a", tenant_id=tenant), vertex("b", tenant_id=tenant)], [edge("a", "b", tenant_id=tenant)]
            )
        assert graph.delete(ACME, ["a", "b"]) == 2
        assert graph.stats(ACME) == GraphStats()
        assert ids(walk(graph, "a", tenant_id=GLOBEX)) == ["b"]
