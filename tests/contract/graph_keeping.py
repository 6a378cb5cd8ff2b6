"""The part of a graph's port that those who write need: reading whole, in pages, by evidence; ending, removing."""

from __future__ import annotations

import pytest
from braid.errors import InvalidRequest
from braid.models import Relationship
from braid.ports import knowledge_graph as ports_of_graphs
from braid.ports.knowledge_graph import WritableGraph
from braid.retrieval.listing import best_connected, names

from tests.contract.knowledge_graph import walk
from tests.contract.shapes import ACME, AS_OF, GLOBEX, day, edge, vertex


class GraphKeepingContract:
    """Everything that :class:`braid.ports.knowledge_graph.WritableGraph` promises beside walking."""

    def test_the_writing_port_is_implemented(self, graph: WritableGraph) -> None:
        assert isinstance(graph, WritableGraph)

    def test_vertices_come_back_whole_in_the_order_asked(self, graph: WritableGraph) -> None:
        whole = vertex(
            "a|b", name="Ä é", aliases=("Zed", "Alias"), timestamp=day(1), valid_at=day(2), invalid_at=day(3)
        )
        bare = vertex("c", has_record=False)
        graph.upsert([whole, bare, vertex("c", tenant_id=GLOBEX, name="theirs")], [])
        assert graph.get_many(ACME, ["c", "nobody", "a|b", "c"]) == [bare, whole]
        assert graph.get_many("nobody", ["c"]) == []

    def test_edges_come_back_whole_by_their_ends(self, graph: WritableGraph) -> None:
        graph.upsert([vertex(name) for name in "abcd"], [])
        owns = edge("a", "b", "OWNS", confidence=0.3, timestamp=day(1), valid_at=day(2), evidence="r", predicate="p")
        ended = edge("b", "c", "OWNS", invalid_at=day(3))
        plain = edge("c", "d", "KNOWS", evidence="s")
        graph.upsert([], [owns, ended, plain])
        assert graph.relationships(ACME, ids=["b"]) == [owns, ended]
        assert graph.relationships(ACME, ids=["b"], types=["KNOWS"]) == []
        assert graph.relationships(ACME, ids=["a", "d"], types=["KNOWS", "OWNS"]) == [owns, plain]
        assert graph.relationships(ACME, ids=[]) == []
        assert graph.relationships(GLOBEX, ids=["b"]) == []

    def test_edges_are_removed_by_identity_and_counted(self, graph: WritableGraph) -> None:
        kept, gone = edge("a", "b", predicate="kept"), edge("a", "b", predicate="gone")
        graph.upsert([vertex("a"), vertex("b")], [kept, gone])
        again: list[Relationship] = [gone, gone, edge("a", "nobody")]
        assert graph.delete_relationships(ACME, again) == 1
        assert graph.delete_relationships(ACME, again) == 0
        assert graph.relationships(ACME, ids=["a"]) == [kept]
        assert graph.delete_relationships(GLOBEX, [edge("a", "b", predicate="kept", tenant_id=GLOBEX)]) == 0
        assert graph.stats(ACME).edges == 1

    def test_edges_are_removed_by_an_end_or_their_evidence_each_once(self, graph: WritableGraph) -> None:
        for tenant in (ACME, GLOBEX):
            vertices = [vertex(name, tenant_id=tenant) for name in "abcd"]
            edges = [("a", "b"), ("c", "a"), ("a", "a"), ("b", "c"), ("c", "d"), ("d", "b")]
            said = {("c", "d"): "a", ("a", "b"): "a", ("d", "b"): "note"}
            graph.upsert(vertices, [edge(*one, tenant_id=tenant, evidence=said.get(one)) for one in edges])
        assert graph.delete_relationships_of(ACME, []) == 0
        assert graph.delete_relationships_of(ACME, ["a", "note", "nobody"]) == 5
        assert [(one.source, one.target) for one in graph.scan(ACME).relationships] == [("b", "c")]
        assert [one.id for one in graph.scan(ACME).vertices] == ["a", "b", "c", "d"]
        assert len(graph.scan(GLOBEX).relationships) == 6

    def test_of_the_names_of_given_entities_those_are_read_that_are_asked_for(self, graph: WritableGraph) -> None:
        called = vertex("b", name="Bronwick Mill", aliases=("The Mill", "bronwick-mill", "Mill 7"), has_record=False)
        by_alias = vertex("a", name="Other", aliases=("bronwick mill",))
        others = [
            vertex("c", name="Bronwick"),  # no form of the name
            vertex("d", name="Bronwick Mill (Ohio)"),
            vertex("e", name="Bronwick Mill", trusted=False),
            vertex("f", name="Bronwick Mill", invalid_at=day(1)),
            vertex("found:1", name="Bronwick Mill", found=True),
            vertex("text", name="Bronwick Mill", entity_type="Document", has_record=True),
            vertex("b", tenant_id=GLOBEX, name="Bronwick Mill"),
        ]
        graph.upsert([called, by_alias, *others], [])
        asked = ["bronwick mill", "the mill", "nobody"]
        assert graph.given_names(ACME, asked, as_of=AS_OF, limit=9) == [
            ("a", "bronwick mill", True),
            ("b", "bronwick mill", False),
            ("b", "the mill", True),
        ]
        assert len(graph.given_names(ACME, asked, as_of=AS_OF, limit=1)) == 1
        assert graph.given_names(ACME, [], as_of=AS_OF, limit=9) == []
        assert graph.given_names("nobody", asked, as_of=AS_OF, limit=9) == []

    def test_mentions_that_were_found_in_texts_are_read_apart_from_all_others(self, graph: WritableGraph) -> None:
        found = [edge("n", "a", "MENTIONS", evidence="a", position=3), edge("m", "a", "MENTIONS", position=0)]
        others = [
            edge("b", "a", "MENTIONS", predicate="found7"),
            edge("a", "b", "MENTIONS", evidence="b", position=1),
            edge("n", "b", "MENTIONS", evidence="b", position=5),
            edge("n", "a", "KNOWS", position=2),
        ]
        for tenant in (ACME, GLOBEX):
            edges = [one.model_copy(update={"tenant_id": tenant}) for one in (*found, *others)]
            graph.upsert([vertex(name, tenant_id=tenant) for name in "abnm"], edges)
        assert graph.found_mentions(ACME, ["a", "nobody"]) == sorted(found, key=Relationship.identity)
        assert graph.found_mentions(ACME, []) == graph.found_mentions("nobody", ["a"]) == []

    def test_nobody_sees_removed_mentions_whether_or_not_the_removal_is_finished(self, graph: WritableGraph) -> None:
        mentions = [edge("n", name, "MENTIONS", evidence=name, position=1) for name in "ab"]
        others = [edge("m", "a", "MENTIONS"), edge("n", "a", "KNOWS")]
        for tenant in (ACME, GLOBEX):
            edges = [one.model_copy(update={"tenant_id": tenant}) for one in (*mentions, *others)]
            graph.upsert([vertex(name, tenant_id=tenant) for name in "abnm"], edges)
        graph.remove_mentions(ACME, mentions)
        graph.remove_mentions(ACME, [])
        for _ in range(2):
            assert graph.relationships(ACME, ids="abnm") == others
            assert list(graph.scan(ACME).relationships) == others
            assert graph.found_mentions(ACME, "ab") == graph.as_stored(ACME, mentions) == []
            assert (graph.stats(ACME).edges, graph.stats(GLOBEX).edges) == (2, 4)
            assert walk(graph, "b").hits == ()
            graph.finish_removals(ACME)
        graph.upsert([], mentions)
        graph.remove_mentions(ACME, mentions)
        graph.upsert([], mentions[:1])
        assert graph.found_mentions(ACME, "ab") == mentions[:1]
        graph.finish_removals("nobody")

    def test_found_names_go_with_the_last_of_their_removed_mentions(self, graph: WritableGraph) -> None:
        names = [vertex(name, found=True) for name in ("gone", "given", "said")]
        mentions = [edge(one.id, "a", "MENTIONS", evidence="a", position=1) for one in names]
        graph.upsert([vertex("a"), vertex("b"), *names], [*mentions, edge("said", "b", "MENTIONS", position=2)])
        graph.upsert([vertex("given")], [])
        graph.remove_mentions(ACME, mentions)
        graph.finish_removals(ACME)
        assert [one.id for one in graph.scan(ACME).vertices] == ["a", "b", "given", "said"]

    def test_mentions_are_passed_on_to_other_vertices(self, graph: WritableGraph) -> None:
        mention = edge("old", "a", "MENTIONS", evidence="a", position=3, confidence=0.3, valid_at=day(1), trusted=False)
        kept = edge("new", "b", "MENTIONS", confidence=0.4)
        edges = [mention, kept, *(edge("old", name, "MENTIONS", position=1) for name in ("b", "new"))]
        others = [edge("old", "a", "KNOWS"), edge("b", "old", "MENTIONS")]
        for tenant in (ACME, GLOBEX):
            graph.upsert(
                [vertex(name, tenant_id=tenant) for name in ("a", "b", "old", "new")],
                [one.model_copy(update={"tenant_id": tenant}) for one in (*edges, *others)],
            )
        assert graph.reassign_mentions(ACME, {}) == graph.reassign_mentions("nobody", {"old": "new"}) == 0
        assert graph.reassign_mentions(ACME, {"old": "new", "nobody": "new"}) == 1
        meant = [mention.model_copy(update={"source": "new"}), kept, *others]
        assert graph.relationships(ACME, ids=["a", "b", "new"]) == sorted(meant, key=Relationship.identity)
        assert len(graph.relationships(GLOBEX, ids=["old"])) == 5
        counted = graph.stats(ACME)
        assert counted.by_relationship_type == {"MENTIONS": 3, "KNOWS": 1}
        assert counted.sources_by_relationship_type == {"MENTIONS": 2, "KNOWS": 1}

    def test_edges_end_by_their_evidence_once_and_never_later_or_before_they_began(self, graph: WritableGraph) -> None:
        edges = {
            "open": edge("a", "b", "OPEN", evidence="r"),
            "later": edge("a", "b", "LATER", evidence="r", valid_at=day(1), invalid_at=day(9), predicate="p"),
            "sooner": edge("a", "b", "SOONER", evidence="r", invalid_at=day(2)),
            "begun after": edge("a", "b", "BEGUN", evidence="r", valid_at=day(7), invalid_at=day(9)),
            "of another": edge("a", "b", "ANOTHER", evidence="s", confidence=0.3, timestamp=day(1), trusted=False),
            "of a third": edge("a", "b", "THIRD", evidence="t"),
            "of nothing": edge("a", "b", "NOTHING"),
        }
        theirs = edge("a", "b", tenant_id=GLOBEX, evidence="r")
        for tenant, stored in ((ACME, list(edges.values())), (GLOBEX, [theirs])):
            graph.upsert([vertex(name, tenant_id=tenant) for name in "ab"], stored)
        assert {hit.id for hit in walk(graph, "a", types=("OPEN",)).hits} == {"b"}
        until = {"r": day(5), "s": day(3), "nobody": day(1)}
        assert graph.end_relationships(ACME, until) == 4
        assert graph.end_relationships(ACME, until) == graph.end_relationships(ACME, {}) == 0
        assert graph.end_relationships("nobody", until) == 0
        ends = {"open": day(5), "later": day(5), "begun after": day(7), "of another": day(3)}
        meant = [one.model_copy(update={"invalid_at": ends.get(name, one.invalid_at)}) for name, one in edges.items()]
        assert graph.relationships(ACME, ids=["a"]) == sorted(meant, key=Relationship.identity)
        assert graph.relationships(GLOBEX, ids=["a"]) == [theirs]
        assert not walk(graph, "a", types=("OPEN",)).hits
        assert graph.end_relationships(ACME, {"r": day(4)}) == 2

    def test_edges_cease_to_be_trusted_by_their_evidence_once(self, graph: WritableGraph) -> None:
        edges = [
            edge("a", "b", "KNOWS", evidence="r", predicate="p", confidence=0.3, timestamp=day(1), valid_at=day(2)),
            edge("a", "b", "KNEW", evidence="r", invalid_at=day(3)),
            edge("a", "b", "MET", evidence="r", trusted=False),
            edge("a", "b", "MENTIONS", evidence="s", position=7),
            edge("a", "b", "OWNS", evidence="t"),
            edge("a", "b", "HAS"),
        ]
        theirs = edge("a", "b", tenant_id=GLOBEX, evidence="r")
        for tenant, stored in ((ACME, edges), (GLOBEX, [theirs])):
            graph.upsert([vertex(name, tenant_id=tenant) for name in "ab"], stored)
        assert walk(graph, "a", types=("KNOWS",), trusted_only=True).hits
        assert graph.distrust_relationships(ACME, ["r", "s", "nobody"]) == 3
        assert graph.distrust_relationships(ACME, ["r", "s"]) == graph.distrust_relationships(ACME, []) == 0
        assert graph.distrust_relationships("nobody", ["r"]) == 0
        meant = [one.model_copy(update={"trusted": one.evidence not in {"r", "s"}}) for one in edges]
        assert graph.relationships(ACME, ids=["a"]) == sorted(meant, key=Relationship.identity)
        assert graph.relationships(GLOBEX, ids=["a"]) == [theirs]
        assert not walk(graph, "a", types=("KNOWS",), trusted_only=True).hits

    def test_edges_are_read_back_by_their_identities_whole_as_they_are_stored(self, graph: WritableGraph) -> None:
        stored = [
            edge("a", "b", confidence=0.25, timestamp=day(2), valid_at=day(1), invalid_at=day(9), evidence="r"),
            edge("a", "b", predicate='it\'s "said" to'),
            edge("b", "a", "ENABLES"),
        ]
        graph.upsert([vertex("a"), vertex("b")], stored)
        graph.upsert(
            [vertex(name, tenant_id=GLOBEX) for name in "ab"], [edge("a", "b", tenant_id=GLOBEX, confidence=0.9)]
        )
        asked = [stored[2], edge("a", "b"), edge("a", "b"), edge("a", "nobody"), edge("b", "a"), stored[1]]
        assert graph.as_stored(ACME, asked) == sorted(stored, key=Relationship.identity)
        assert graph.as_stored(ACME, []) == graph.as_stored("nobody", asked) == graph.as_stored(GLOBEX, asked) == []

    @pytest.mark.parametrize("limit", [1, 3, 1_000])
    def test_a_scan_shows_every_vertex_and_every_edge_once(self, graph: WritableGraph, limit: int) -> None:
        ids = [f"v{number}" for number in range(7)]
        edges = [edge(source, target) for source in ids[:3] for target in ids[2:5]]
        graph.upsert([vertex(name) for name in ids], edges)
        graph.upsert([vertex("theirs", tenant_id=GLOBEX)], [])
        vertices: list[str] = []
        found: list[tuple[str, str, str, str]] = []
        cursor = None
        while True:
            page = graph.scan(ACME, after=cursor, limit=limit)
            assert len(page.vertices) <= limit
            vertices += [one.id for one in page.vertices]
            found += [one.identity() for one in page.relationships]
            cursor = page.cursor
            if cursor is None:
                break
        assert vertices == ids
        assert sorted(found) == sorted(one.identity() for one in edges)

    def test_names_are_listed_page_by_page_the_best_connected_of_a_page_first(self, graph: WritableGraph) -> None:
        graph.upsert([vertex(name, name=name.upper()) for name in "abcde"], [])
        graph.upsert([vertex("bare"), vertex("theirs", tenant_id=GLOBEX, name="Theirs")], [])
        graph.upsert([], [edge(*ends) for ends in ("ba", "be", "cb", "db", "de")])
        whole = names(graph, ACME, after=None, limit=100)
        assert [(one.id, edges) for one, edges in whole.vertices] == [("b", 4), ("d", 2), ("e", 2), ("a", 1), ("c", 1)]
        first = names(graph, ACME, after=None, limit=3)
        rest = names(graph, ACME, after=first.cursor, limit=3)
        assert [one.id for one, _ in first.vertices] == ["b", "a"]
        assert ([one.id for one, _ in rest.vertices], whole.cursor, rest.cursor) == (["d", "c", "e"], None, None)

    def test_the_vertices_of_texts_are_no_entities_and_are_gone_past(self, graph: WritableGraph) -> None:
        graph.upsert([vertex(f"{at}", name="Title", entity_type="Document", has_record=True) for at in range(5)], [])
        described = vertex("c", name="C", entity_type="Document", has_record=False)
        graph.upsert([vertex("a", name="A"), vertex("b", name="B"), described], [])
        graph.upsert([], [edge("0", "b"), edge("1", "b"), edge("c", "a")])
        first = names(graph, ACME, after=None, limit=2)
        assert [one.id for one, _ in first.vertices] == ["a"]
        rest = names(graph, ACME, after=first.cursor, limit=2)
        assert ([one.id for one, _ in rest.vertices], rest.cursor) == (["c", "b"], None)
        whole = best_connected(graph, ACME, read=100)
        assert [(one.id, edges) for one, edges in whole.vertices] == [("b", 2), ("a", 1), ("c", 1)]
        assert whole.cursor is None
        assert best_connected(graph, ACME, read=6).cursor is not None

    def test_a_page_of_a_scan_ends_before_it_has_very_many_edges(
        self, graph: WritableGraph, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ports_of_graphs, "PAGE_EDGES", 3)
        ends = ["ab", "ac", "ad", "ae", "ba", "ca", "cb", "ea"]
        graph.upsert([vertex(name) for name in "abcde"], [edge(*pair) for pair in ends])
        pages, cursor = [], None
        while not pages or cursor:
            page = graph.scan(ACME, after=cursor)
            assert {one.source for one in page.relationships} <= {one.id for one in page.vertices}
            pages.append(("".join(one.id for one in page.vertices), len(page.relationships)))
            cursor = page.cursor
        assert pages == [("a", 4), ("bcd", 3), ("e", 1)]
        hub = graph.scan(ACME, hubs=False)
        assert ([one.id for one in hub.vertices], hub.relationships, hub.unread) == (["a"], (), 4)
        rest = graph.scan(ACME, after=hub.cursor, hubs=False)
        assert (len(rest.vertices), len(rest.relationships), rest.unread) == (3, 3, 0)
        graph.upsert([vertex("a", name="A")], [])
        assert [(one.id, edges) for one, edges in names(graph, ACME, after=None, limit=9).vertices] == [("a", 4)]

    def test_a_scan_refuses_a_cursor_that_is_none_and_another_tenants(self, graph: WritableGraph) -> None:
        graph.upsert([vertex("a"), vertex("b")], [])
        cursor = graph.scan(ACME, limit=1).cursor
        for tenant, after in ((GLOBEX, cursor), (ACME, "x")):
            with pytest.raises(InvalidRequest) as caught:
                graph.scan(tenant, after=after)
            assert caught.value.field == "after"
        with pytest.raises(InvalidRequest, match="limit"):
            graph.scan(ACME, limit=0)

    def test_an_end_that_was_written_is_seen_by_a_walk(self, graph: WritableGraph) -> None:
        graph.upsert([vertex("a"), vertex("b")], [edge("a", "b", invalid_at=AS_OF)])
        (read,) = graph.relationships(ACME, ids=["a"])
        graph.upsert([], [read.model_copy(update={"invalid_at": None})])
        assert graph.relationships(ACME, ids=["a"])[0].invalid_at is None
