"""What every knowledge graph must do when names and hits are spread over their neighbourhood."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from braid.ports.knowledge_graph import PropagateRequest

from tests.contract.shapes import ACME, AS_OF, GLOBEX, day, edge, vertex

if TYPE_CHECKING:
    from braid.ports.knowledge_graph import Expansion, KnowledgeGraph


def propagate(graph: KnowledgeGraph, **fields: Any) -> Expansion:
    return graph.propagate(PropagateRequest(**{"tenant_id": ACME, "as_of": AS_OF, **fields}))


def film_graph(graph: KnowledgeGraph) -> None:
    """Write that a film's page names its director, whose page names a town; a pier stands apart."""
    pages = [vertex(name, has_record=True) for name in ("film-page", "director-page", "town-page", "pier-page")]
    things = [vertex(name, has_record=False) for name in ("film", "director", "town", "pier")]
    graph.upsert(
        [*pages, *things],
        [
            edge("film", "film-page", "MENTIONS", confidence=1.0, evidence="film-page"),
            edge("director", "film-page", "MENTIONS", confidence=1.0),
            edge("director", "director-page", "MENTIONS", confidence=1.0),
            edge("town", "director-page", "MENTIONS", confidence=1.0),
            edge("town", "town-page", "MENTIONS", confidence=1.0),
            edge("pier", "pier-page", "MENTIONS", confidence=1.0),
        ],
    )


class PropagationContract:
    """Subclass this and provide the fixture ``graph``: a knowledge graph that is empty for every test."""

    def test_nothing_to_begin_at_gives_nothing(self, graph: KnowledgeGraph) -> None:
        film_graph(graph)
        assert propagate(graph).hits == ()
        assert propagate(graph, names=(("nobody", 1.0),)).hits == ()

    def test_what_a_name_leads_to_is_found_nearest_first_with_the_path_that_led_there(
        self, graph: KnowledgeGraph
    ) -> None:
        film_graph(graph)
        found = propagate(graph, names=(("film", 1.0),))
        assert [hit.id for hit in found.hits] == ["film-page", "director-page"]
        assert [hit.rank for hit in found.hits] == [1, 2]
        assert found.hits[0].path.types == ("MENTIONS",)
        assert found.hits[0].path.evidence == ("film-page",)
        assert found.hits[1].path.ids == ("film", "film-page", "director", "director-page")
        assert found.hits[1].path.inward == (False, True, False)
        assert not found.truncated

    def test_scores_lie_between_zero_and_one_and_the_best_is_one(self, graph: KnowledgeGraph) -> None:
        film_graph(graph)
        scores = [hit.score for hit in propagate(graph, names=(("film", 1.0),), hits=(("pier-page", 0.5),)).hits]
        assert scores[0] == pytest.approx(1.0)
        assert all(0 < score <= 1 for score in scores)
        assert scores == sorted(scores, reverse=True)

    def test_a_hit_of_the_text_search_is_found_itself_and_leads_on(self, graph: KnowledgeGraph) -> None:
        film_graph(graph)
        found = propagate(graph, hits=(("director-page", 1.0),))
        by_id = {hit.id: hit for hit in found.hits}
        assert found.hits[0].id == "director-page"
        assert by_id["director-page"].path.types == ()
        assert by_id["town-page"].path.ids == ("director-page", "town", "town-page")
        assert "pier-page" not in by_id

    def test_what_counts_more_pulls_the_walk_to_its_side(self, graph: KnowledgeGraph) -> None:
        film_graph(graph)
        for heavy, light in (("film", "pier"), ("pier", "film")):
            found = propagate(graph, names=((heavy, 5.0), (light, 1.0)))
            assert found.hits[0].id == f"{heavy}-page"

    def test_a_surer_edge_is_taken_more_often(self, graph: KnowledgeGraph) -> None:
        graph.upsert(
            [vertex("name", has_record=False), vertex("sure", has_record=True), vertex("doubtful", has_record=True)],
            [edge("name", "doubtful", "MENTIONS", confidence=0.2), edge("name", "sure", "MENTIONS", confidence=0.9)],
        )
        assert [hit.id for hit in propagate(graph, names=(("name", 1.0),)).hits] == ["sure", "doubtful"]

    def test_a_hub_in_the_way_is_reached_but_not_walked_through(self, graph: KnowledgeGraph) -> None:
        behind = [vertex(f"behind-{number}", has_record=True) for number in range(3)]
        graph.upsert(
            [vertex("name", has_record=False), vertex("hub", has_record=True), *behind],
            [edge("name", "hub", "R"), *(edge("hub", each.id, "R") for each in behind)],
        )
        through = propagate(graph, names=(("name", 1.0),), hub=4)
        assert {hit.id for hit in through.hits} == {"hub", "behind-0", "behind-1", "behind-2"}
        stopped = propagate(graph, names=(("name", 1.0),), hub=3)
        assert [hit.id for hit in stopped.hits] == ["hub"]
        assert not stopped.truncated

    def test_a_seed_with_more_edges_than_the_budget_keeps_the_surest_and_says_so(self, graph: KnowledgeGraph) -> None:
        pages = [vertex(f"page-{number}", has_record=True) for number in range(5)]
        graph.upsert(
            [vertex("name", has_record=False), *pages],
            [edge("name", page.id, "MENTIONS", confidence=0.5 + number / 10) for number, page in enumerate(pages)],
        )
        found = propagate(graph, names=(("name", 1.0),), fan_out=2)
        assert [hit.id for hit in found.hits] == ["page-4", "page-3"]
        assert found.truncated
        assert not propagate(graph, names=(("name", 1.0),), fan_out=5).truncated

    def test_only_as_many_hops_as_asked_for_are_walked(self, graph: KnowledgeGraph) -> None:
        film_graph(graph)
        assert [hit.id for hit in propagate(graph, names=(("film", 1.0),), max_hops=1).hits] == ["film-page"]

    def test_superseded_edges_and_vertices_are_not_walked(self, graph: KnowledgeGraph) -> None:
        graph.upsert(
            [
                vertex("name", has_record=False),
                vertex("current", has_record=True),
                vertex("former", has_record=True),
                vertex("retired", has_record=True, invalid_at=day(1)),
            ],
            [
                edge("name", "current", "MENTIONS"),
                edge("name", "former", "MENTIONS", invalid_at=day(1)),
                edge("name", "retired", "MENTIONS"),
            ],
        )
        assert [hit.id for hit in propagate(graph, names=(("name", 1.0),)).hits] == ["current"]
        assert propagate(graph, names=(("retired", 1.0),)).hits == ()

    def test_another_tenants_graph_is_never_walked(self, graph: KnowledgeGraph) -> None:
        film_graph(graph)
        graph.upsert(
            [vertex("film", tenant_id=GLOBEX, has_record=False), vertex("theirs", tenant_id=GLOBEX, has_record=True)],
            [edge("film", "theirs", "MENTIONS", tenant_id=GLOBEX)],
        )
        assert "theirs" not in {hit.id for hit in propagate(graph, names=(("film", 1.0),)).hits}
        theirs = propagate(graph, names=(("film", 1.0),), tenant_id=GLOBEX)
        assert [hit.id for hit in theirs.hits] == ["theirs"]

    def test_a_loop_and_a_second_edge_between_the_same_two_change_nothing(self, graph: KnowledgeGraph) -> None:
        film_graph(graph)
        before = propagate(graph, names=(("film", 1.0),))
        graph.upsert(
            [],
            [
                edge("film", "film", "RELATED_TO", confidence=1.0),
                edge("film-page", "film", "RELATED_TO", confidence=0.3),
            ],
        )
        after = propagate(graph, names=(("film", 1.0),))
        assert [hit.id for hit in after.hits] == [hit.id for hit in before.hits]
        assert [hit.score for hit in after.hits] == pytest.approx([hit.score for hit in before.hits])

    def test_equal_shares_are_ordered_by_id_and_cut_at_the_limit(self, graph: KnowledgeGraph) -> None:
        pages = [vertex(f"page-{number}", has_record=True) for number in (3, 1, 2)]
        graph.upsert([vertex("name", has_record=False), *pages], [edge("name", each.id, "MENTIONS") for each in pages])
        assert [hit.id for hit in propagate(graph, names=(("name", 1.0),), limit=2).hits] == ["page-1", "page-2"]

    def test_an_entity_tied_to_everything_does_not_outrank_a_text_for_that_alone(self, graph: KnowledgeGraph) -> None:
        others = [vertex(f"other-{number}", has_record=False) for number in range(12)]
        graph.upsert(
            [
                vertex("name", has_record=False),
                vertex("hub", has_record=True),
                vertex("text", has_record=True),
                *others,
            ],
            [
                edge("name", "hub", "RELATED_TO", confidence=1.0),
                edge("name", "text", "MENTIONS", confidence=1.0),
                *(edge("hub", other.id, "RELATED_TO", confidence=1.0) for other in others),
                *(edge(other.id, "text", "MENTIONS", confidence=0.1) for other in others[:3]),
            ],
        )
        assert [hit.id for hit in propagate(graph, names=(("name", 1.0),)).hits] == ["text", "hub"]

    def test_a_hit_that_the_graph_does_not_know_is_found_by_what_it_began_with(self, graph: KnowledgeGraph) -> None:
        film_graph(graph)
        found = propagate(graph, hits=(("unheard-of", 0.8), ("pier-page", 0.2)))
        assert [hit.id for hit in found.hits] == ["unheard-of", "pier-page"]
        assert found.hits[0].path.types == ()
        assert "unheard-of" not in {hit.id for hit in propagate(graph, names=(("unheard-of", 1.0),)).hits}

    def test_a_text_like_the_question_is_raised_that_shares_an_entity_with_a_better_one(
        self, graph: KnowledgeGraph
    ) -> None:
        """The fewer others share it the more; what the question names is shared by all that is found for it."""
        pages = [vertex(name, has_record=True) for name in ("film-page", "port-page", "rain-page", "other-page")]
        graph.upsert(
            [*pages, *(vertex(name, has_record=False) for name in ("film", "port", "rain"))],
            [
                edge(entity, page, "MENTIONS", confidence=0.9)
                for entity, page in (
                    *(("film", page) for page in ("film-page", "port-page", "rain-page", "other-page")),
                    *(("port", page) for page in ("film-page", "port-page")),
                    *(("rain", page) for page in ("film-page", "rain-page", "other-page")),
                )
            ]
            # A surer edge beside it hides no mention.
            + [edge("port", "port-page", "DEPICTED_IN", confidence=1.0), edge("rain", "film", "RELATED_TO")],
        )
        hits = (("film-page", 1.0),)
        asked: dict[str, Any] = {"names": (("film", 1.0),), "hits": hits}
        plain = {hit.id: hit.score for hit in propagate(graph, **asked).hits}
        texts = (("film-page", 1.0), ("port-page", 0.5), ("rain-page", 0.5))
        raised = {hit.id: hit.score for hit in propagate(graph, **asked, texts=texts, bridging=0.8).hits}
        assert raised["film-page"] == plain["film-page"] == 1
        gain = {page: (raised[page] - plain[page]) / (1 - plain[page]) for page in ("port-page", "rain-page")}
        assert gain["port-page"] == pytest.approx(0.8 * 0.5, abs=1e-6)
        assert gain["rain-page"] == pytest.approx(0.8 * 0.5 / 2**0.5, abs=1e-6)
        assert raised["other-page"] == plain["other-page"]
        assert [hit.rank for hit in propagate(graph, **asked, texts=texts, bridging=0.8).hits] == [1, 2, 3, 4]

    def test_no_bridge_leads_over_an_entity_that_has_a_record_itself(self, graph: KnowledgeGraph) -> None:
        graph.upsert(
            [vertex(name, has_record=True) for name in ("film-page", "port-page", "port")],
            [edge("port", page, "MENTIONS", confidence=1.0) for page in ("film-page", "port-page")],
        )
        asked: dict[str, Any] = {"hits": (("film-page", 1.0),)}
        texts = (("film-page", 1.0), ("port-page", 1.0))
        assert propagate(graph, **asked, texts=texts, bridging=1.0) == propagate(graph, **asked)

    def test_what_is_not_trusted_is_passed_by_and_makes_no_hub_where_that_is_asked(self, graph: KnowledgeGraph) -> None:
        film_graph(graph)
        asked: dict[str, Any] = {"names": (("film", 1.0), ("gone", 1.0)), "fan_out": 5}
        before = propagate(graph, **asked)
        strangers = [f"mail{number}" for number in range(30)]
        graph.upsert([vertex(name, trusted=False) for name in ("gone", *strangers)], [])
        crowd = [edge(name, mail, "MENTIONS") for name in ("film", "director", "gone") for mail in strangers]
        graph.upsert([], [*crowd, edge("gone", "pier-page", "MENTIONS")])
        assert propagate(graph, **asked, trusted_only=True) == before
        assert propagate(graph, **asked) != before

    def test_an_edge_that_is_not_trusted_is_not_followed_and_makes_no_hub_where_that_is_asked(
        self, graph: KnowledgeGraph
    ) -> None:
        film_graph(graph)
        asked: dict[str, Any] = {"names": (("film", 1.0),), "fan_out": 5}
        before = propagate(graph, **asked)
        others = [f"other{number}" for number in range(30)]
        graph.upsert([vertex(name) for name in others], [])
        crowd = [edge(name, other, "MENTIONS", trusted=False) for name in ("film", "director") for other in others]
        graph.upsert([], crowd)
        assert propagate(graph, **asked, trusted_only=True) == before
        assert propagate(graph, **asked) != before
