"""The fuse_rerank stage: in which order, with what evidence, and what was lost on the way."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import RerankFailed, StoreError, StoresUnavailable, TransientStoreError
from braid.models import (
    Answer,
    FacetValue,
    Filters,
    Fusion,
    FusionParameters,
    GraphConstraint,
    Intent,
    Kind,
    Mode,
    Ranking,
    Source,
    Strategy,
)
from braid.retrieval.stages.fuse_rerank import FusionLimits
from braid.retrieval.stages.stage_messages import Embedded, Lost, Searched

from tests.fakes import (
    NOW,
    FakeIndex,
    FakeReranker,
    embedding,
    found,
    fused,
    hits,
    link,
    plan,
    query,
    record,
    searched,
    walked,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from braid.ports.search_index import SearchRequest

LATER, EARLIER = NOW + timedelta(days=1), NOW - timedelta(days=1)
LOST = Lost(error="TransientStoreError")


def ids(answer: Answer) -> list[str]:
    return [result.id for result in answer.results]


SIXTY = tuple((f"r{number:02}", 1 - number / 100) for number in range(60))


def test_a_reranker_orders_the_first_fifty_and_nothing_behind_overtakes_them() -> None:
    reranker = FakeReranker(lambda text: int(text[-2:]) / 100)
    records = [record(one) for one, _ in SIXTY]
    answer = fused(records, reranker=reranker, searched=searched(*SIXTY), query=query(top_k=50))
    ((asked, texts, timeout),) = reranker.asked
    assert (asked, len(texts), timeout) == ("scanner lockout", 50, 1.5)
    assert ids(answer) == [f"r{number:02}" for number in range(49, -1, -1)]
    assert (answer.results[0].fused_rank, answer.results[0].rank) == (50, 1)
    assert answer.results[0].rerank_score == pytest.approx(0.49)
    assert answer.degraded == ()


FIVE = SIXTY[:5]
FIVE_RECORDS = [record(one) for one, _ in FIVE]


@pytest.mark.parametrize("without", [{"reranker": FakeReranker(error=RerankFailed("late"))}, {"without_rerank": True}])
def test_a_lost_reranker_leaves_the_fused_order_with_placeholder_scores(without: dict[str, Any]) -> None:
    answer = fused(FIVE_RECORDS, searched=searched(*FIVE), **without)
    assert ids(answer) == [one for one, _ in FIVE]
    assert [one.relevance for one in answer.results] == pytest.approx([1.0, 0.99, 0.98, 0.97, 0.96])
    assert answer.results[0].rerank_score is None
    assert answer.degraded == ("rerank",)


def test_only_as_many_candidates_as_set_are_rescored() -> None:
    reranker = FakeReranker(lambda text: int(text[-2:]) / 100)
    answer = fused(FIVE_RECORDS, reranker=reranker, searched=searched(*FIVE), limits=FusionLimits(reranked=2))
    assert [len(texts) for _, texts, _ in reranker.asked] == [2]
    assert ids(answer) == ["r01", "r00", "r02", "r03", "r04"]


def test_what_a_reranker_costs_is_in_the_answer_and_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        answer = fused(FIVE_RECORDS, reranker=FakeReranker(cost_usd=0.00025), searched=searched(*FIVE))
    assert answer.rerank_cost_usd == 0.00025
    assert [one.message for one in caplog.records] == ["reranked 5 texts with fake (about $0.000250)"]
    assert fused(FIVE_RECORDS, searched=searched(*FIVE)).rerank_cost_usd == 0


def test_a_lost_reranker_is_logged_with_its_reason_and_with_what_it_may_cost(caplog: pytest.LogCaptureFixture) -> None:
    late = FakeReranker(error=RerankFailed("late", cost_usd=0.001))
    answer = fused(FIVE_RECORDS, reranker=late, searched=searched(*FIVE))
    assert (answer.degraded, answer.rerank_cost_usd) == (("rerank",), 0.001)
    (logged,) = caplog.records
    assert (logged.levelname, logged.message) == ("WARNING", "rerank lost: late (about $0.001000)")


def test_no_reranker_leaves_the_fused_scores_and_loses_nothing() -> None:
    answer = fused(FIVE_RECORDS, searched=searched(*FIVE))
    assert [one.relevance for one in answer.results] == pytest.approx([score for _, score in FIVE])
    assert answer.degraded == ()


def test_lost_text_leaves_results_without_it_unranked_by_a_reranker() -> None:
    index = FakeIndex(error=TransientStoreError("slow"))
    reranker = FakeReranker()
    reached = found(walked("s", "with-record", has_record=True), walked("s", "vertex-only"))
    pieces: dict[str, Any] = {"index": index, "searched": searched(("a", 0.9), ("b", 0.8)), "expanded": reached}
    answer = fused(**pieces, reranker=reranker)
    assert ids(answer) == ["a", "b", "with-record"]
    assert {one.content for one in answer.results} == {""}
    assert answer.degraded == ("text", "rerank")
    assert reranker.asked == []
    assert fused(**pieces).degraded == ("text",)
    asked = query(filters=Filters(kinds=(Kind.FACT,)))
    assert ids(fused(**pieces, query=asked)) == ["a", "b"]


@pytest.mark.parametrize(
    "pieces",
    [
        {"lost": {"vector_search": LOST, "link": LOST, "graph_expand": LOST}},
        {"lost": {"vector_search": LOST, "graph_expand": LOST}},
        {"lost": {"vector_search": LOST, "link": LOST}, "expanded": found()},
    ],
)
def test_an_answer_needs_one_of_the_stores(pieces: dict[str, Any]) -> None:
    with pytest.raises(StoresUnavailable, match="vector_search: TransientStoreError"):
        fused(**pieces, plan=plan(strategy=Strategy.HYBRID))


def test_one_store_is_enough_and_the_lost_one_is_marked() -> None:
    by_graph = fused([record("a")], lost={"vector_search": LOST}, linked=found(walked("e", "a")))
    assert (ids(by_graph), by_graph.degraded) == (["a"], ("vector_search",))
    by_text = fused([record("a")], lost={"link": LOST, "graph_expand": LOST}, searched=searched(("a", 0.4)))
    assert (ids(by_text), by_text.degraded) == (["a"], ("link", "graph_expand"))
    assert by_text.results[0].relevance == pytest.approx(0.4)


def test_a_default_model_that_stood_in_is_marked_once() -> None:
    embedded = Embedded(embedding=embedding(1.0), fallback=True, took_ms=4)
    answer = fused([record("a")], embedded=embedded, searched=searched(("a", 0.4)), lost={"embed": LOST})
    assert answer.degraded == ("embed",)


def test_nothing_found_is_an_empty_answer_and_no_error() -> None:
    answer = fused(searched=Searched(took_ms=1), reranker=FakeReranker())
    assert (answer.results, answer.sources, answer.degraded) == ((), (), ())


def test_the_answer_says_what_was_found_where_and_how_long_it_took() -> None:
    knowledge = walked("e", "b", source=Source.KNOWLEDGE, reason="entity match: E")
    answer = fused(
        [record("a"), record("b")],
        started_at=NOW - timedelta(milliseconds=40),
        embedded=Embedded(embedding=embedding(1.0), took_ms=4),
        searched=Searched(vector=hits(("a", 0.9)), lexical=hits(("a", 0.3), ("b", 0.2)), took_ms=2),
        linked=found(knowledge),
        expanded=found(walked("a", "b"), truncated=True),
        plan=(made := plan(Intent.LOOKUP, reasons=("because",))),
    )
    assert answer.counts == {
        "vector": 1,
        "lexical": 2,
        "knowledge": 1,
        "graph": 1,
        "fused": 2,
        "read": 2,
        "facts": 0,
        "outdated": 0,
    }
    latency = answer.latency_ms
    assert {name: latency[name] for name in ("plan", "embed", "vector_search", "link", "graph_expand")} == {
        "plan": 1,
        "embed": 4,
        "vector_search": 2,
        "link": 3,
        "graph_expand": 3,
    }
    assert latency["total"] == pytest.approx(40 + latency["fuse"] + latency["rerank"], abs=0.01)
    assert (answer.trace_id, answer.plan, answer.truncated) == ("t-1", made, True)
    by_id = {one.id: one for one in answer.results}
    assert by_id["b"].sources == (Source.LEXICAL, Source.KNOWLEDGE, Source.GRAPH)
    assert "entity match: E" in by_id["b"].reasons
    assert answer.sources == tuple(one.citation for one in answer.results)


def test_weights_follow_intent_and_an_entity_question_leans_on_the_graph() -> None:
    pieces: dict[str, Any] = {"searched": searched(("a", 0.9)), "expanded": found(walked("a", "b"))}
    even = fused(**pieces).weights
    assert (even.vector, even.graph) == pytest.approx((0.5, 0.5))
    causal = fused(**pieces, plan=plan(Intent.CAUSAL)).weights
    assert (causal.vector, causal.graph) == pytest.approx((0.35, 0.65))
    entity = fused(**pieces, plan=plan(mode=Mode.ENTITY)).weights
    assert (entity.vector, entity.graph) == pytest.approx((0.35, 0.65))


def test_reciprocal_ranks_can_be_asked_for() -> None:
    pieces: dict[str, Any] = {"searched": searched(("a", 0.9), ("b", 0.1))}
    answer = fused([record("a"), record("b")], **pieces, query=query(fusion=Fusion.RRF))
    assert [one.relevance for one in answer.results] == pytest.approx([1.0, 61 / 62])
    other = fused(
        [record("a")],
        **pieces,
        query=query(fusion=Fusion.RRF),
        limits=FusionLimits(parameters=FusionParameters(rank_constant=1)),
    )
    assert other.results[0].combined_score == pytest.approx(1.0)


def test_each_ranking_puts_another_first() -> None:
    records = [
        record("relevant", updated_at=NOW - timedelta(days=300), importance=0.0),
        record("used", updated_at=NOW - timedelta(days=300), importance=1.0, access_count=9),
        record("fresh", kind=Kind.MESSAGE, updated_at=NOW, importance=0.0),
    ]
    pieces = {"searched": searched(("relevant", 0.9), ("used", 0.6), ("fresh", 0.55))}
    first = {ranking: fused(records, **pieces, query=query(ranking=ranking)).results[0] for ranking in Ranking}
    assert {ranking: one.id for ranking, one in first.items()} == {
        Ranking.RELEVANCE: "relevant",
        Ranking.MEMORY: "used",
        Ranking.RECENCY: "fresh",
    }
    assert first[Ranking.RECENCY].final == pytest.approx(0.3 * 0.55 + 0.7)
    assert first[Ranking.RELEVANCE].recency == 0.1


def test_in_memory_ranking_a_direct_hit_is_nearer_than_a_walk() -> None:
    asked = query(ranking=Ranking.MEMORY)
    reached = found(walked("s", "m", "words", score=0.1), walked("s", "m", "walk", score=1.0))
    words = Searched(lexical=hits(("words", 1.0)), took_ms=1)
    answer = fused([record("words"), record("walk")], searched=words, expanded=reached, query=asked)
    distance = {one.id: one.final - (0.5 * one.relevance + 0.2 * 0.5 + 0.1 * 0.5) for one in answer.results}
    assert distance == pytest.approx({"words": 0.1, "walk": 0.1 / 3})


@pytest.mark.parametrize("top_k", [1, 3, 50])
def test_the_answer_is_as_long_as_asked_and_numbered(top_k: int) -> None:
    answer = fused([record(one) for one, _ in SIXTY], searched=searched(*SIXTY), query=query(top_k=top_k))
    assert [one.rank for one in answer.results] == list(range(1, top_k + 1))


def test_related_entities_are_those_named_then_those_that_paths_pass() -> None:
    reached = walked("e", "team", "a").model_copy(
        update={"path": walked("e", "team", "a").path.model_copy(update={"names": ("E", "Ledger team", "A")})}
    )
    team = walked("e", "team", entity_type="Team")
    answer = fused(
        [record("a")],
        linked=found(links=(link("e", "Vendor X"),)),
        expanded=found(reached, team),
    )
    assert [(one.id, one.name, one.entity_type, one.linked) for one in answer.related_entities] == [
        ("e", "Vendor X", "Service", True),
        ("team", "Ledger team", "Team", False),
    ]


def test_a_multi_hop_answer_is_what_its_last_step_reached() -> None:
    multi = plan(strategy=Strategy.MULTI_HOP)
    pieces: dict[str, Any] = {"searched": searched(("a", 0.9), ("b", 0.8)), "plan": multi}
    records = [record(one) for one in "abc"]
    assert set(ids(fused(records, **pieces, expanded=found(walked("a", "b"), walked("a", "c"))))) == {"b", "c"}
    assert ids(fused(records, **pieces, expanded=found())) == ["a", "b"]


def test_a_multi_hop_answer_ends_with_the_entities_that_its_steps_began_from_and_reached() -> None:
    reached = walked("e", "team")
    ending = reached.model_copy(update={"path": reached.path.model_copy(update={"invalid_at": LATER})})
    soon = LATER - timedelta(hours=1)
    multi = plan(strategy=Strategy.MULTI_HOP)
    named = fused(plan=multi, expanded=found(reached, links=(link("e", "E", invalid_at=soon),)))
    assert (named.holds_until, {one.id for one in named.related_entities}) == (soon, {"e", "team"})
    assert fused(plan=multi, expanded=found(ending)).holds_until == LATER


def test_a_graph_constraint_says_what_may_be_an_answer_and_nothing_of_how_good_it_is() -> None:
    reached = found(walked("e", "a"), walked("e", "b"), walked("e", "c"), frontier=("a", "b", "c"))
    asked = query(graph_constraint=GraphConstraint(entity="e"))
    answer = fused(
        [record(one) for one in "abcx"],
        query=asked,
        plan=plan(strategy=Strategy.GRAPH_FIRST),
        searched=searched(("x", 0.95), ("a", 0.9), ("b", 0.8)),
        linked=reached,
    )
    assert ids(answer) == ["a", "b"]
    assert [result.ranks[Source.VECTOR] for result in answer.results] == [1, 2], "ranked among what may be an answer"
    assert answer.results[0].paths
    alone = fused([record("c")], plan=plan(strategy=Strategy.GRAPH_FIRST), linked=reached, lost={"vector_search": LOST})
    assert ids(alone) == ["c"]


def test_an_index_that_refuses_the_read_is_lost_text_and_no_error() -> None:
    answer = fused(index=FakeIndex(error=StoreError("refused")), searched=searched(("a", 0.9)))
    assert answer.degraded == ("text",)


@pytest.mark.parametrize(("filters", "left"), [(Filters(trusted_only=True), ["a"]), (Filters(task_id="t"), [])])
def test_what_the_graph_found_stays_without_its_text_if_no_filter_but_trust_is_asked_for(
    filters: Filters, left: list[str]
) -> None:
    lost = FakeIndex(error=StoreError("refused"))
    walks = found(walked("seed", "a", has_record=True))
    assert ids(fused(index=lost, expanded=walks, query=query(filters=filters))) == left


def test_an_answer_without_vectors_because_none_are_stored_in_the_questions_space_says_so() -> None:
    assert fused([record("a")], searched=searched(("a", 0.9), space_empty=True)).degraded == ("space",)


def test_what_the_graph_found_outside_the_filters_neither_answers_nor_weighs() -> None:
    inside = [record(name, metadata={"team": "payments"}) for name in ("a", "in")]
    outside = [record(f"out{number}", metadata={"team": "gates"}) for number in range(30)]
    asked = query(filters=Filters(metadata={"team": "payments"}))
    walks = [walked("seed", one.id, has_record=True) for one in (inside[1], *outside)]
    answer = fused([*inside, *outside], searched=searched(("a", 0.9)), expanded=found(*walks), query=asked)
    alone = fused(inside, searched=searched(("a", 0.9)), expanded=found(walks[0]), query=asked)
    assert [result.id for result in answer.results] == ["a", "in"]
    assert (answer.weights, answer.counts["graph"]) == (alone.weights, 1)


def test_without_filters_the_index_is_not_asked_what_passes() -> None:
    index = FakeIndex([record("a")])
    fused(index=index, searched=searched(("a", 0.9)), expanded=found(walked("seed", "a", has_record=True)))
    assert index.searches == []


def test_values_are_counted_where_facets_are_asked_for_and_such_an_answer_is_not_kept() -> None:
    class Counting(FakeIndex):
        def count_values(self, request: SearchRequest, fields: Sequence[str]) -> dict[str, tuple[FacetValue, ...]]:
            assert request.filters == asked.filters
            return {field: (FacetValue(value="payments", count=2),) for field in fields}

    asked = query(filters=Filters(metadata={"team": "payments"}), facets=("team",))
    answer = fused(
        index=Counting([record("a", metadata={"team": "payments"})]), searched=searched(("a", 0.9)), query=asked
    )
    assert answer.facets == {"team": (FacetValue(value="payments", count=2),)}
    assert answer.holds_until is None


def test_values_that_could_not_be_counted_are_lost_and_the_answer_is_not() -> None:
    class Silent(FakeIndex):
        def count_values(self, *_: object) -> dict[str, tuple[FacetValue, ...]]:
            message = "down"
            raise StoreError(message)

    answer = fused(index=Silent([record("a")]), searched=searched(("a", 0.9)), query=query(facets=("team",)))
    assert (len(answer.results), answer.facets, answer.degraded) == (1, {}, ("facets",))


def test_values_are_not_counted_by_an_index_that_has_just_not_answered() -> None:
    index = FakeIndex(error=StoreError("down"))  # which would count nothing
    answer = fused(index=index, searched=searched(("a", 0.9)), query=query(facets=("team",)))
    assert (answer.facets, answer.degraded) == ({}, ("text", "facets"))
