"""Building a context: its sources, its format to the byte, its flags, its figures, and what is lost."""

from __future__ import annotations

import json
import logging
import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from braid.app import Application
from braid.engines.embedded.store import EmbeddedStore
from braid.errors import InvalidRequest, StoreError, StoresUnavailable, TransientStoreError
from braid.models import ContextRole, Kind, Ranking
from braid.retrieval.context.building import ContextLimits, build_context, measures, run
from braid.retrieval.context.episodes import record_tool_call
from braid.retrieval.context.message_selection import Context, ContextRequest, ContextSource
from braid.settings import Settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes import NOW, TENANT, FakeIndex, fused, record, searched
from tests.remembered import (
    EPISODIC,
    QUERY,
    SEMANTIC,
    WORKING,
    Remembered,
    answering,
    build,
    decide,
    failing,
    quoted,
    says,
    sources,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Remembered]:
    with EmbeddedStore(tmp_path) as store:
        yield Remembered(store)


def test_working_state_is_the_last_ten_messages_and_the_newest_of_more_are_kept(memory: Remembered) -> None:
    memory.context_limits = ContextLimits(min_final=0.0, limit=200)
    messages = [says(f"message {number}") for number in range(25)]
    built = build(memory, messages)
    assert list(built.messages) == list(reversed(messages[-10:]))
    assert built.metrics.found_by_source[WORKING] == 10


def test_the_three_sources_are_sorted_together_and_ten_are_kept(memory: Remembered) -> None:
    memory.reply = answering(*[record(f"r{number}", updated_at=NOW) for number in range(5)], score=0.97)
    for number in range(5):
        decide(memory, f"checkout gateway timeout {number}", hours_ago=number)
    messages = [says(f"checkout gateway timeout {number}") for number in range(10)]
    built = build(memory, messages)
    assert built.metrics.found == 20
    assert built.metrics.kept == len(built.messages) == 10
    assert set(sources(built)) == {"working_state", "semantic", "episodic"}
    assert built.messages[0] is messages[-1]
    assert [entry.source.value for entry in built.scores] == sources(built)
    finals = [entry.final for entry in built.scores]
    assert finals == sorted(finals, reverse=True)


@pytest.mark.parametrize(("ranking", "final"), [(Ranking.RELEVANCE, 1.0), (Ranking.MEMORY, 0.5 + 0.1 + 0.1 + 0.1)])
def test_the_caller_chooses_another_ranking_profile(memory: Remembered, ranking: Ranking, final: float) -> None:
    decide(memory, QUERY)
    (message,) = build(memory, ranking=ranking).messages
    assert message["metadata"]["final"] == pytest.approx(final)
    (asked,) = memory.asked
    assert asked.ranking is ranking


def test_the_semantic_source_is_a_hybrid_search_for_at_most_five(memory: Remembered) -> None:
    rows = [record(f"r{number}", updated_at=NOW) for number in range(8)]
    memory.reply = answering(*rows)
    built = build(memory)
    (asked,) = memory.asked
    assert (asked.text, asked.tenant_id, asked.top_k) == (QUERY, TENANT, 5)
    assert [message["metadata"]["id"] for message in built.messages] == ["r0", "r1", "r2", "r3", "r4"]
    assert set(sources(built)) == {"semantic"}


def test_episodes_are_left_to_their_own_source(memory: Remembered) -> None:
    build(memory)
    (asked,) = memory.asked
    assert set(Kind) - set(asked.filters.kinds) == {Kind.DECISION, Kind.TOOL_CALL}


def test_semantic_messages_are_of_the_assistant_with_source_and_the_three_scores(memory: Remembered) -> None:
    day_old = record("r", content="the gateway was slow", name="Gateway", updated_at=NOW - timedelta(hours=24))
    memory.reply = answering(day_old, score=0.8)
    (message,) = build(memory).messages
    assert (message["role"], quoted(message)) == ("assistant", "the gateway was slow")
    about = message["metadata"]
    assert (about["source"], about["id"], about["title"]) == ("semantic", "r", "Gateway")
    assert about["relevance"] == pytest.approx(0.8)
    assert about["recency"] == pytest.approx(math.exp(-1))
    assert about["final"] == pytest.approx(0.9 * 0.8 + 0.1 * math.exp(-1))
    json.dumps(message, allow_nan=False)


def test_a_stored_message_is_weighed_as_semantic_when_the_search_finds_it(memory: Remembered) -> None:
    memory.reply = answering(record("m", kind=Kind.MESSAGE, updated_at=NOW - timedelta(days=9)), score=0.8)
    (message,) = build(memory).messages
    assert message["metadata"]["final"] == pytest.approx(0.9 * 0.8 + 0.1 * 0.1)


def test_a_result_without_content_shows_its_title_and_one_without_either_is_no_message(memory: Remembered) -> None:
    memory.reply = answering(record("entity", content="", name="Osprey Bay"))
    assert [quoted(message) for message in build(memory).messages] == ["Osprey Bay"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
keys = st.sampled_from(["role", "content", "metadata", "name", "z", "a"]) | st.text()
any_message = st.dictionaries(keys, json_values)


@given(st.lists(any_message, min_size=1, max_size=10))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_working_state_messages_come_back_exactly_as_they_came_to_the_byte(
    memory: Remembered, messages: list[dict[str, Any]]
) -> None:
    memory.context_limits = ContextLimits(min_final=0.0, semantic=False, episodic=False)
    before = [json.dumps(message) for message in messages]
    built = build(memory, messages)
    assert all(one is other for one, other in zip(built.messages, reversed(messages), strict=True))
    through_json = run(ContextRequest.model_validate(_event(messages)), memory).model_dump(mode="json")["messages"]
    assert [json.dumps(message) for message in reversed(through_json)] == before


def _event(messages: list[dict[str, Any]]) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(json.dumps({"query": QUERY, "tenant_id": TENANT, "messages": messages}))
    return event


def test_a_context_is_printed_as_its_messages_each_below_its_role() -> None:
    parts = [{"type": "text", "text": "There."}]
    built = Context(messages=({"role": "user", "content": "Hello"}, {"role": "assistant", "content": parts}))
    assert str(built) == "user:\nHello\n\nassistant:\nThere."
    assert str(Context(messages=())) == "(no messages)"


def test_a_message_that_is_no_object_is_refused_by_its_place(memory: Remembered) -> None:
    with pytest.raises(InvalidRequest, match=r"messages\.1: is not a JSON object"):
        build(memory, [says("x"), "y"])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("fields", "name"), [({"query": " "}, "query"), ({"task_id": ""}, "task_id"), ({"tool_name": ""}, "tool_name")]
)
def test_a_wrong_argument_is_refused_by_name(memory: Remembered, fields: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        build(memory, **fields)
    assert caught.value.field == name


def test_conditions_on_the_metadata_hold_for_stored_records_and_for_episodes(memory: Remembered) -> None:
    decide(memory, f"{QUERY} for us", metadata={"floor": 3})
    decide(memory, f"{QUERY} for others", metadata={"floor": 4})
    built = build(memory, metadata=["floor=3"])
    (asked,) = memory.asked
    assert [condition.field for condition in asked.filters.metadata] == ["floor"]
    texts = [message["content"] for message in built.messages]
    assert len(texts) == 1
    assert "for us" in texts[0]
    with pytest.raises(InvalidRequest, match=r"^metadata: field 'floor'") as caught:
        build(memory, metadata={"floor": "third"})
    assert caught.value.field == "metadata"


@pytest.mark.parametrize("off", list(ContextSource))
@pytest.mark.parametrize("by", ["call", "setting"])
def test_each_source_can_be_switched_off(memory: Remembered, off: ContextSource, by: str) -> None:
    memory.reply = answering(record("r", updated_at=NOW))
    decide(memory, QUERY)
    if by == "setting":
        memory.context_limits = ContextLimits(**{off.value: False})
    built = build(memory, [says(QUERY)], **({off.value: False} if by == "call" else {}))
    assert set(sources(built)) == {source.value for source in ContextSource} - {off.value}
    assert built.degraded == ()
    assert bool(memory.asked) is (off is not SEMANTIC)


def test_a_source_that_the_settings_switch_off_cannot_be_switched_on(memory: Remembered) -> None:
    memory.context_limits = ContextLimits(semantic=False)
    build(memory, semantic=True)
    assert memory.asked == []


def test_the_whole_feature_has_a_flag_and_off_the_conversation_comes_back_as_it_came(memory: Remembered) -> None:
    memory.context_limits = ContextLimits(enabled=False)
    decide(memory, QUERY)
    messages = [says(f"message {number}") for number in range(25)]
    built = build(memory, messages)
    assert all(one is other for one, other in zip(built.messages, messages, strict=True))
    assert (built.enabled, built.degraded, memory.asked) == (False, (), [])


def test_every_number_and_flag_is_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Application(Settings(home=tmp_path)).context_limits == ContextLimits()
    for name, value in {
        "ENABLED": "false",
        "WORKING_STATE": "false",
        "SEMANTIC": "false",
        "EPISODIC": "false",
        "WINDOW": "3",
        "SEMANTIC_LIMIT": "2",
        "EPISODIC_LIMIT": "4",
        "MIN_FINAL": "0.25",
        "LIMIT": "7",
        "FENCE": "false",
        "ROLE": "tool",
    }.items():
        monkeypatch.setenv(f"BRAID_CONTEXT_{name}", value)
    expected = ContextLimits(False, False, False, False, 3, 2, 4, 0.25, 7, False, ContextRole.TOOL)
    assert Application(Settings(home=tmp_path)).context_limits == expected


@pytest.mark.parametrize("error", [StoresUnavailable("down"), RuntimeError("library")])
def test_if_retrieval_fails_the_working_state_messages_alone_are_returned_marked_degraded(
    memory: Remembered, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    memory.reply = failing(error)
    memory.replaced = FakeIndex(error=TransientStoreError("down"))
    messages = [says(f"message {number}") for number in range(12)]
    with caplog.at_level(logging.WARNING, logger="braid.retrieval.context.building"):
        built = build(memory, messages)
    assert all(one is other for one, other in zip(built.messages, messages[-10:], strict=True))
    assert built.degraded == ("semantic", "episodic")
    assert built.metrics.kept_by_source == {WORKING: 10, SEMANTIC: 0, EPISODIC: 0}
    assert "semantic" in caplog.text
    assert "library" not in caplog.text


def test_the_only_source_that_is_asked_and_lost_leaves_the_working_state(memory: Remembered) -> None:
    memory.reply = failing(StoresUnavailable("down"))
    messages = [says("a"), says("b"), says("c")]
    built = build(memory, messages, episodic=False)
    assert list(built.messages) == messages
    assert built.degraded == ("semantic",)


def test_one_lost_source_costs_only_itself(memory: Remembered) -> None:
    memory.reply = failing(StoresUnavailable("down"))
    decide(memory, QUERY)
    built = build(memory, [says("old"), says(QUERY)])
    assert sources(built) == ["working_state", "episodic"]
    assert built.degraded == ("semantic",)


def test_an_answer_without_text_is_a_lost_search_and_one_without_a_reranker_is_not(memory: Remembered) -> None:
    memory.reply = lambda query: fused(
        query=query, searched=searched(("r", 0.9)), index=FakeIndex(error=StoreError("unreadable"))
    )
    assert build(memory).degraded == ("semantic",)
    memory.reply = answering(record("r", updated_at=NOW), without_rerank=True)
    built = build(memory)
    assert sources(built) == ["semantic"]
    assert built.degraded == ("semantic.rerank",)


def test_each_call_is_measured_in_totals_counts_by_source_and_the_mean_of_each_score(memory: Remembered) -> None:
    memory.reply = answering(record("good", updated_at=NOW), record("poor", updated_at=NOW), score=0.505)
    decide(memory, QUERY, hours_ago=24)
    built = build(memory, [says("old"), says(QUERY)])
    figures = built.metrics
    assert (figures.found, figures.kept) == (5, 4)
    assert figures.found_by_source == {WORKING: 2, SEMANTIC: 2, EPISODIC: 1}
    assert figures.kept_by_source == {WORKING: 1, SEMANTIC: 2, EPISODIC: 1}
    scores = [message["metadata"] for message in built.messages if "metadata" in message]
    assert figures.mean_relevance == pytest.approx((1.0 + sum(score["relevance"] for score in scores)) / 4)
    assert figures.mean_recency == pytest.approx((1.0 + sum(score["recency"] for score in scores)) / 4)
    assert figures.mean_final == pytest.approx((1.0 + sum(score["final"] for score in scores)) / 4)


def test_nothing_kept_has_no_mean(memory: Remembered) -> None:
    built = build(memory)
    assert (built.metrics.kept, built.metrics.mean_final) == (0, None)
    assert "ContextFinal" not in measures(built)


def test_the_function_counts_its_figures_as_metrics(
    memory: Remembered, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from braid.lambda_runtime.stage_handlers import stage_handler

    from braid_cli.state_machine.invoke_endpoint import LocalContext

    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "context")
    decide(memory, QUERY)
    handler = stage_handler("context", ContextRequest, lambda request: run(request, memory), measure=measures)
    handler(_event([says("hello")]), LocalContext("context"))  # type: ignore[arg-type]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (line,) = [line for line in lines if "_aws" in line]
    assert line["ContextKept"] == [2.0]
    assert (line["ContextKeptWorkingState"], line["ContextKeptEpisodic"]) == ([1.0], [1.0])
    assert line["ContextKeptSemantic"] == [0.0]
    assert line["ContextDegraded"] == [0.0]
    assert 0.0 < line["ContextFinal"][0] <= 1.0
    assert {"Name": "ContextKept", "Unit": "Count"} in line["_aws"]["CloudWatchMetrics"][0]["Metrics"]
    assert QUERY not in json.dumps(lines)


def test_on_a_laptop_a_context_is_answered_by_the_stages_of_this_process(tmp_path: Path) -> None:
    application = Application(Settings(home=tmp_path))
    record_tool_call("grep", QUERY, tenant_id=TENANT, store=application)
    built = build_context(QUERY, [says("hello")], tenant_id=TENANT, memory=application)
    assert "episodic" in sources(built)
    assert "semantic" not in built.degraded
    assert datetime.now(UTC) - application.now() < timedelta(minutes=1)
    application.store.close()
