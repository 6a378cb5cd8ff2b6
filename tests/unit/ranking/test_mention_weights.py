from __future__ import annotations

from datetime import UTC, datetime

import pytest
from braid.models import MENTIONS
from braid.models.records import DOCUMENT_TYPE
from braid.ports.knowledge_graph import PropagateRequest
from braid.ranking.graph_queries_and_facts import Node, StoredEdge
from braid.ranking.mention_weights import FoundMentions
from braid.ranking.neighbourhood_arrays import Neighbourhood
from braid.ranking.pagerank_and_paths import personalised_pagerank

REQUEST = PropagateRequest(
    tenant_id="acme", names=(("keelson", 3.0),), hits=(("a", 1.0),), as_of=datetime(2026, 1, 1, tzinfo=UTC)
)


def mention(name: str, text: str, *, title: bool = False) -> StoredEdge:
    return StoredEdge(name, MENTIONS, text, 1.0 if title else 0.8, text, found=True)


def nodes(*edges: StoredEdge) -> dict[str, Node]:
    ends = {edge.source: False for edge in edges} | {edge.target: True for edge in edges}
    return {
        name: Node(name, DOCUMENT_TYPE if has_record else "Concept", has_record, None, name)
        for name, has_record in ends.items()
    }


def ranked(*edges: StoredEdge, request: PropagateRequest = REQUEST) -> list[str]:
    return [
        hit.id for hit in personalised_pagerank(request, Neighbourhood.of(nodes(*edges), edges, truncated=False)).hits
    ]


def propagation_weight(*edges: StoredEdge, request: PropagateRequest = REQUEST) -> float:
    return personalised_pagerank(request, Neighbourhood.of(nodes(*edges), edges, truncated=False)).propagation_weight


def test_the_text_about_an_entity_comes_before_one_that_mentions_it() -> None:
    edges = (
        mention("keelson", "a"),
        mention("berg", "a"),
        mention("berg", "passing"),
        mention("berg", "zz", title=True),
    )
    order = ranked(*edges)
    assert order.index("zz") < order.index("passing")


def test_texts_of_which_none_is_named_by_another_are_left_to_vectors_and_words() -> None:
    assert propagation_weight(mention("keelson", "a"), mention("keelson", "b"), mention("c", "c", title=True)) == 0.0


def test_a_specific_name_among_texts_that_name_one_another_is_trusted() -> None:
    assert propagation_weight(mention("keelson", "a", title=True), mention("keelson", "b")) == 1.0


def test_one_text_about_what_the_question_names_is_enough_to_trust_the_graph() -> None:
    keelson = StoredEdge("keelson", MENTIONS, "Keelson", 1.0, "a", found=True)
    longer = StoredEdge("keelson", MENTIONS, "Keelson, a service", 1.0, "a", found=True)
    shortened = REQUEST.model_copy(update={"names": (("keelson", 2.4),)})
    assert propagation_weight(keelson) == 1.0
    assert propagation_weight(longer) == 0.0
    assert propagation_weight(keelson, request=shortened) == 0.0


def test_descriptions_of_entities_that_texts_name_are_no_texts_that_name_one_another() -> None:
    keelson = StoredEdge("keelson", MENTIONS, "Keelson", 1.0, "Keelson", found=True)
    edges = (keelson, mention("keelson", "a"), mention("keelson", "b"))
    described = nodes(*edges)
    assert propagation_weight(*edges) == 1.0
    described["Keelson"] = described["Keelson"]._replace(entity_type="Service")
    around = Neighbourhood.of(described, edges, truncated=False)
    assert personalised_pagerank(REQUEST, around).propagation_weight == 0.0


@pytest.mark.parametrize("texts", [10, 40])
def test_the_more_texts_mention_a_name_the_less_it_is_trusted(texts: int) -> None:
    edges = [mention("keelson", f"t{number}", title=number == 0) for number in range(texts)]
    linked = [mention(f"e{number}", f"t{number}", title=True) for number in range(1, texts)]
    further = [mention(f"e{number}", "t0") for number in range(1, texts)]
    assert propagation_weight(*edges, *linked, *further) == pytest.approx(3.0 / texts / 0.9)


def test_what_is_given_is_trusted() -> None:
    given = StoredEdge("keelson", "OWNS", "a", 1.0, None)
    assert propagation_weight(mention("keelson", "b"), given) == 1.0


def test_found_mentions_that_are_not_trusted_choose_no_seeds_where_a_graph_was_given() -> None:
    hits = tuple((f"t{number}", 1.0 - number / 10) for number in range(10))
    request = REQUEST.model_copy(update={"names": (("keelson", 1.0),), "hits": hits})
    given = [StoredEdge("keelson", "OWNS", name, 1.0, None) for name, _ in hits[5:]]
    found = [mention("keelson", "t0"), mention("keelson", "t1")]
    around = Neighbourhood.of(nodes(*given, *found), [*given, *found], truncated=False)
    assert FoundMentions(request, around).seeds() == request.seeds()
    titled = [mention("keelson", "t0", title=True), mention("keelson", "t1")]
    around = Neighbourhood.of(nodes(*given, *titled), [*given, *titled], truncated=False)
    assert sorted(FoundMentions(request, around).seeds()) == ["keelson", "t0", "t1", "t2"]
