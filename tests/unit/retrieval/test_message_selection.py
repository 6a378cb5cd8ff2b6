"""What of a conversation, a search and the past is shown: words, scores and their order."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from braid.models import ContextRole, Fusion, Query, Ranking
from braid.retrieval.context import message_selection
from braid.retrieval.context.message_selection import ContextItem, ContextSource, message_text, position_recency
from braid.retrieval.context.text_fences import Wrapping
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.fakes import NOW, TENANT, record
from tests.remembered import (
    QUERY,
    SEMANTIC,
    answering,
    says,
)

PLAIN = Wrapping(TENANT, ContextRole.ASSISTANT, nonce=None)
QUESTION = Query(text=QUERY, tenant_id=TENANT)


def item(final: float, name: str = "x", source: ContextSource = ContextSource.SEMANTIC) -> ContextItem:
    return ContextItem(source=source, message={"name": name}, relevance=final, recency=final, final=final)


def test_working_state_decays_by_position_from_1_for_the_newest_to_a_tenth_for_the_oldest() -> None:
    found = message_selection.working_state(QUERY, [says("x")] * 10, window=10, ranking=Ranking.RECENCY, now=NOW)
    assert [entry.recency for entry in found] == pytest.approx([1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])


@given(st.integers(1, 300))
def test_position_decays_evenly_whatever_the_number_of_messages(count: int) -> None:
    decay = [position_recency(place, count) for place in range(count)]
    assert decay[0] == 1.0
    assert count == 1 or decay[-1] == pytest.approx(0.1)
    assert decay == sorted(decay, reverse=True)
    assert len(set(decay)) == count


@pytest.mark.parametrize(
    ("text", "relevance"),
    [
        ("the checkout gateway saw a TIMEOUT", 1.0),
        ("checkout, gateway!", 2 / 3),
        ("gateways and checkouts", 0.0),
        ("Timeout timeout timeout", 1 / 3),
        ("", 0.0),
    ],
)
def test_the_relevance_of_working_state_is_the_share_of_query_words_present(text: str, relevance: float) -> None:
    (found,) = message_selection.working_state(QUERY, [says(text)], window=10, ranking=Ranking.RECENCY, now=NOW)
    assert found.relevance == pytest.approx(relevance)
    assert found.final == pytest.approx(0.3 * relevance + 0.7)


def test_where_no_spaces_are_written_two_characters_together_are_a_word() -> None:
    said, other = says("東京に行く"), says("大阪工場")
    found = message_selection.working_state("東京支社", [other, said], window=10, ranking=Ranking.RECENCY, now=NOW)
    assert [item.relevance for item in found] == pytest.approx([1 / 3, 0.0])


def test_a_query_without_words_makes_nothing_relevant() -> None:
    (found,) = message_selection.working_state("?!", [says("?!")], window=10, ranking=Ranking.RECENCY, now=NOW)
    assert found.relevance == 0.0


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"role": "user", "content": "plain"}, "plain"),
        ({"content": [{"type": "text", "text": "one"}, "two", {"type": "image", "url": "x"}, 3]}, "one\ntwo"),
        ({"role": "assistant", "content": None, "tool_calls": []}, ""),
        ({}, ""),
    ],
)
def test_any_chat_format_is_read(message: dict[str, Any], text: str) -> None:
    assert message_text(message) == text


def test_words_of_other_scripts_are_looked_for_as_they_are_written() -> None:
    assert message_selection.episode_words("Où sont les reçus déjà payés? авария tool_call checkout's") == [
        "sont",
        "reçus",
        "déjà",
        "payés",
        "авария",
        "tool",
        "call",
        "checkout",
    ]


def test_what_scores_below_a_half_is_dropped_and_a_half_is_kept() -> None:
    kept = message_selection.select([item(0.5), item(0.4999), item(0.9)], min_final=0.5, limit=10)
    assert [entry.final for entry in kept] == [0.9, 0.5]


@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from(ContextSource)), max_size=40))
def test_what_is_shown_is_sorted_and_at_most_ten_and_ties_stay_in_order(
    drawn: list[tuple[float, ContextSource]],
) -> None:
    items = [item(score, str(place), source) for place, (score, source) in enumerate(drawn)]
    kept = message_selection.select(items, min_final=0.5, limit=10)
    good = [entry for entry in items if entry.final >= 0.5]
    assert len(kept) == min(10, len(good))
    keys = [(-entry.final, int(entry.message["name"])) for entry in kept]
    assert keys == sorted(keys)
    dropped = [entry.final for entry in good if entry not in kept]
    assert not dropped or max(dropped) <= min(entry.final for entry in kept)


@pytest.mark.parametrize("score", [-0.1, 1.1, math.nan, math.inf])
def test_a_score_outside_0_to_1_is_refused_by_name(score: float) -> None:
    with pytest.raises(ValidationError, match="relevance"):
        ContextItem(source=SEMANTIC, message={}, relevance=score, recency=0.5, final=0.5)


def test_recency_is_a_half_when_the_time_is_missing_and_never_below_a_tenth() -> None:
    rows = [record("a", content=QUERY), record("b", content=QUERY, timestamp=NOW - timedelta(days=99))]
    found = message_selection.episodic(QUERY, rows, ranking=Ranking.RECENCY, wrapping=PLAIN, now=NOW)
    assert [entry.recency for entry in found] == [0.5, 0.1]


@pytest.mark.parametrize(
    ("confidence", "bound"),
    [(0.0, 0.0), (0.09, 0.0), (0.1, 0.4), (0.16, 0.4), (0.49, 0.7), (1.0, 1.0)],
)
def test_after_propagation_results_are_as_relevant_as_they_are_close_or_as_the_answer_is_sure(
    confidence: float, bound: float
) -> None:
    answer = answering(record("a"), score=0.4)(QUESTION)
    answer = answer.model_copy(update={"fusion": Fusion.PROPAGATE, "confidence": confidence})
    assert message_selection.most_relevant(answer) == pytest.approx(bound)


def test_nothing_is_held_against_results_that_a_reranker_or_a_weighted_sum_scored() -> None:
    answer = answering(record("a"), score=0.4)(QUESTION).model_copy(update={"fusion": Fusion.PROPAGATE})
    reranked = tuple(result.model_copy(update={"rerank_score": 0.1}) for result in answer.results)
    assert message_selection.most_relevant(answer.model_copy(update={"results": reranked})) == 1.0
    assert message_selection.most_relevant(answer.model_copy(update={"fusion": Fusion.WEIGHTED})) == 1.0


@pytest.mark.parametrize(
    ("ranking", "share"), [(Ranking.RELEVANCE, 1.0), (Ranking.MEMORY, 0.5), (Ranking.RECENCY, 0.9)]
)
def test_what_a_search_found_is_no_more_relevant_than_anything_can_be(ranking: Ranking, share: float) -> None:
    results = answering(record("a", content="one"), score=0.9)(QUESTION).results
    (before,) = message_selection.semantic(results, ranking=ranking, wrapping=PLAIN)
    (after,) = message_selection.semantic(results, ranking=ranking, wrapping=PLAIN, at_most=0.3)
    assert after.relevance == 0.3
    assert before.final - after.final == pytest.approx(share * (before.relevance - 0.3))
    assert after.message["metadata"]["relevance"] == 0.3


@pytest.mark.parametrize("ranking", list(Ranking))
def test_results_that_a_bound_makes_equally_relevant_stay_in_the_order_of_their_search(ranking: Ranking) -> None:
    day_old, new = NOW - timedelta(days=1), NOW
    rows = [record("best", updated_at=day_old), record("second", updated_at=new), record("undated")]
    results = answering(*rows, score=0.9)(QUESTION.model_copy(update={"ranking": ranking})).results
    found = message_selection.semantic(results, ranking=ranking, wrapping=PLAIN, at_most=0.6)
    kept = message_selection.select(found, min_final=0.0, limit=10)
    assert [entry.message["metadata"]["id"] for entry in kept] == [result.id for result in results]
    assert [entry.final for entry in kept] == [entry.message["metadata"]["final"] for entry in kept]


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 1)), max_size=5), st.floats(0, 1))
def test_a_bound_neither_raises_a_result_above_its_own_score_nor_changes_the_order(
    drawn: list[tuple[float, float]], at_most: float
) -> None:
    (model,) = answering(record("r"), score=0.9)(QUESTION).results
    results = [
        model.model_copy(update={"id": str(place), "relevance": relevance, "recency": fresh})
        for place, (relevance, fresh) in enumerate(sorted(drawn, key=lambda one: -(0.9 * one[0] + 0.1 * one[1])))
    ]
    free, bound = (
        message_selection.semantic(results, ranking=Ranking.RECENCY, wrapping=PLAIN, at_most=most)
        for most in (1.0, at_most)
    )
    assert all(one.final <= other.final for one, other in zip(bound, free, strict=True))
    kept = message_selection.select(bound, min_final=0.0, limit=10)
    assert [entry.message["metadata"]["id"] for entry in kept] == [result.id for result in results]
