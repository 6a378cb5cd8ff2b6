"""Decisions and tool calls: written to the search index, found by words, the newest first."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from braid.engines.embedded.store import EmbeddedStore
from braid.errors import InvalidRequest
from braid.models import Kind, Relationship, Vertex
from braid.ports.cache import NoCache
from braid.ports.schema_registry import SchemaVersion
from braid.ports.search_index import SearchHits
from braid.retrieval.context.building import ContextLimits
from braid.retrieval.context.episodes import record_decision, search_episodes

from tests.fakes import NOW, TENANT, FakeIndex, hits, record
from tests.remembered import (
    EPISODIC,
    QUERY,
    Remembered,
    build,
    call_tool,
    decide,
    quoted,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from braid.models import Record


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Remembered]:
    with EmbeddedStore(tmp_path) as store:
        yield Remembered(store)


def found_ids(memory: Remembered, query: str, **fields: Any) -> list[str]:
    return [row.content for row in search_episodes(memory.index, query, tenant_id=TENANT, as_of=NOW, **fields)]


def test_decisions_and_tool_calls_both_count_and_are_at_most_five(memory: Remembered) -> None:
    for number in range(4):
        decide(memory, f"checkout gateway timeout {number}", hours_ago=2 * number)
        call_tool(memory, "grep", f"checkout gateway timeout {number}", hours_ago=2 * number + 1)
    built = build(memory)
    assert built.metrics.found_by_source[EPISODIC] == 5
    assert {message["metadata"]["kind"] for message in built.messages} == {"decision", "tool_call"}


def test_nothing_but_decisions_and_tool_calls_is_an_episode(memory: Remembered) -> None:
    memory.index.upsert([record("chunk", content=QUERY), record("said", content=QUERY, kind=Kind.MESSAGE)])
    assert found_ids(memory, QUERY) == []


def test_episodes_are_searched_by_query_words_of_more_than_three_characters_of_which_any_may_match(
    memory: Remembered,
) -> None:
    decide(memory, "raise the limit", hours_ago=1)
    decide(memory, "raise api now", hours_ago=2)
    decide(memory, "api key", hours_ago=3)
    assert found_ids(memory, "raise api unheard") == ["raise the limit", "raise api now"]
    assert found_ids(memory, "api key now") == []


def test_two_han_characters_are_a_word_of_an_episode(memory: Remembered) -> None:
    decide(memory, "東京支社を閉じる", hours_ago=1)
    decide(memory, "大阪工場を閉じる", hours_ago=2)
    assert found_ids(memory, "東京") == ["東京支社を閉じる"]
    assert found_ids(memory, "東") == []
    found = build(memory, query="大阪工場").messages
    assert [(quoted(message), message["metadata"]["relevance"]) for message in found] == [("大阪工場を閉じる", 1.0)]


def test_episodes_come_newest_first(memory: Remembered) -> None:
    for text, hours in (("gateway b", 5), ("gateway gateway a", 50), ("gateway c and more", 1)):
        decide(memory, text, hours_ago=hours)
    assert found_ids(memory, "gateway") == ["gateway c and more", "gateway b", "gateway gateway a"]
    assert found_ids(memory, "gateway", limit=1) == ["gateway c and more"]


def test_episodes_are_of_exactly_the_task_and_the_tool_that_are_asked_for(memory: Remembered) -> None:
    decide(memory, "gateway one", task_id="t-1", hours_ago=1)
    decide(memory, "gateway two", task_id="t-10", hours_ago=2)
    call_tool(memory, "grep", "gateway three", task_id="t-1", hours_ago=3)
    call_tool(memory, "egrep", "gateway four", task_id="t-1", hours_ago=4)
    assert found_ids(memory, "gateway", task_id="t-1") == ["gateway one", "gateway three", "gateway four"]
    assert found_ids(memory, "gateway", tool_name="grep") == ["gateway three"]
    assert found_ids(memory, "gateway", task_id="t-10", tool_name="grep") == []
    ids = [message["metadata"]["task_id"] for message in build(memory, query="gateway", task_id="t-10").messages]
    assert ids == ["t-10"]
    built = build(memory, query="gateway", tool_name="egrep")
    assert [message["metadata"]["tool_name"] for message in built.messages] == ["egrep"]


def test_what_a_tool_read_from_strangers_is_written_as_not_trusted(memory: Remembered) -> None:
    call_tool(memory, "fetch", "gateway page", trusted=False)
    decide(memory, "gateway stays", trusted=True)
    assert [quoted(message) for message in build(memory, query="gateway").messages] == ["gateway stays"]
    assert len(build(memory, query="gateway", untrusted=True).messages) == 2


def test_episodes_are_served_by_an_index_and_not_a_scan(memory: Remembered) -> None:
    decide(memory, "gateway", task_id="t")
    statements: list[str] = []
    with memory.store.transaction() as connection:
        connection.set_trace_callback(statements.append)
        search_episodes(memory.index, QUERY, tenant_id=TENANT, as_of=NOW, task_id="t", trusted_only=True)
        connection.set_trace_callback(None)
        words = [statement for statement in statements if " MATCH " in statement]
        plans = [connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall() for statement in words]
        reads = [statement for statement in statements if "records AS r" in statement]
        rows = [[row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {read}")] for read in reads]
    assert words
    assert all(re.match(r"SCAN words_\d+ VIRTUAL TABLE INDEX \d+:M", plan[0][3]) for plan in plans)
    few, *by_number = rows
    assert any(re.match(r"SEARCH r USING (COVERING )?INDEX records_by_\w+ \(", step) for step in few)
    assert by_number
    assert all("SEARCH r USING INTEGER PRIMARY KEY (rowid=?)" in steps for steps in by_number)
    assert not any(re.match(r"SCAN (r|records)\b", step) for steps in rows for step in steps)


def test_the_metadata_of_an_episode_keeps_ids_task_action_type_status_and_timestamp(memory: Remembered) -> None:
    written = call_tool(
        memory,
        "rollback",
        "checkout gateway timeout: rolled back",
        task_id="t-7",
        action_type="deploy",
        status="succeeded",
        hours_ago=24,
        metadata={"session_id": "s-1", "cost": 3},
    )
    (message,) = build(memory).messages
    assert message["role"] == "assistant"
    assert quoted(message) == "rollback\ncheckout gateway timeout: rolled back"
    about = message["metadata"]
    assert about["id"] == written.id
    assert (about["session_id"], about["task_id"], about["tool_name"]) == ("s-1", "t-7", "rollback")
    assert (about["kind"], about["action_type"], about["status"]) == ("tool_call", "deploy", "succeeded")
    assert datetime.fromisoformat(about["timestamp"]) == NOW - timedelta(hours=24)
    assert about["source"] == "episodic"
    assert about["final"] == pytest.approx(0.7 * 1.0 + 0.3 * math.exp(-1))
    assert (about["relevance"], about["recency"]) == (1.0, pytest.approx(math.exp(-1)))


def test_an_episode_found_by_an_inflected_word_has_one_word_of_the_query_at_least(memory: Remembered) -> None:
    memory.context_limits = ContextLimits(min_final=0.0)
    decide(memory, "deploying gateways")
    (message,) = build(memory, query="deployed gateway today").messages
    assert message["metadata"]["relevance"] == pytest.approx(1 / 3)


def test_another_tenants_episodes_are_never_shown(memory: Remembered) -> None:
    record_decision(QUERY, tenant_id="globex", store=memory, timestamp=NOW)
    assert build(memory).messages == ()
    foreign = record("theirs", kind=Kind.DECISION, content=QUERY, tenant_id="globex")
    memory.replaced = FakeIndex([foreign], hits=SearchHits(lexical=hits(("theirs", 0.9))))
    assert build(memory).messages == ()


def test_a_recorded_decision_is_found_at_once_and_read_back_as_written(memory: Remembered) -> None:
    written = decide(memory, "raise the gateway timeout", task_id="t", status="done", metadata={"agent_id": "a"})
    assert search_episodes(memory.index, "gateway", tenant_id=TENANT, as_of=NOW) == [written]
    assert written.kind is Kind.DECISION
    assert written.metadata == {"agent_id": "a", "action_type": "decision"}
    assert written.timestamp == NOW


def test_a_repeated_record_is_written_once_and_another_is_another(memory: Remembered) -> None:
    first, again = decide(memory, "gateway"), decide(memory, "gateway")
    assert first.id == again.id
    assert decide(memory, "gateway", task_id="t").id != first.id
    assert decide(memory, "gateway", record_id="mine").id == "mine"
    assert memory.index.stats(TENANT).records == 3


def test_an_episode_is_written_in_the_tenants_schema_version_and_makes_cached_answers_old(
    memory: Remembered, monkeypatch: pytest.MonkeyPatch
) -> None:
    advanced: list[str] = []
    monkeypatch.setattr(NoCache, "advance", lambda _cache, tenant: advanced.append(tenant) or 1)
    for version in (2, 3, 4):
        memory.schemas.register(SchemaVersion(tenant_id=TENANT, version=version, created_at=NOW))
    assert decide(memory, "gateway").schema_version == 4
    assert advanced == [TENANT]


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"text": "  "}, "text"),
        ({"text": "a\x00b"}, "text"),
        ({"task_id": ""}, "task_id"),
        ({"tenant_id": "no spaces"}, "tenant_id"),
        ({"record_id": "x" * 300}, "record_id"),
        ({"metadata": {"x": [[]]}}, "metadata.x"),
    ],
)
def test_a_wrong_episode_is_refused_by_field_and_not_written(
    memory: Remembered, fields: dict[str, Any], name: str
) -> None:
    arguments: dict[str, Any] = {"text": "gateway", "tenant_id": TENANT} | fields
    with pytest.raises(InvalidRequest) as caught:
        record_decision(store=memory, **arguments)
    assert (caught.value.field or "").startswith(name)
    assert memory.index.stats(TENANT).records == 0


def test_an_episode_that_is_written_again_stays_ended(memory: Remembered) -> None:
    decide(memory, "the gateway stays closed", record_id="mine")
    (before,) = memory.index.get_many(TENANT, ["mine"])
    memory.index.upsert([before.model_copy(update={"invalid_at": NOW})])
    assert decide(memory, "the gateway stays closed", record_id="mine").invalid_at == NOW
    assert found_ids(memory, "gateway") == []


@pytest.mark.parametrize(
    ("before", "trusted", "field"),
    [
        (
            record("mine", content="the gateway", kind=Kind.ENTITY, entity_type="Gate", name="Gateway"),
            True,
            "record_id",
        ),
        (record("mine", content="the gateway is open", kind=Kind.DECISION), False, "trusted"),
    ],
)
def test_an_episode_takes_the_place_of_no_other_record_and_of_no_trusted_one_where_it_is_not(
    memory: Remembered, before: Record, trusted: bool, field: str
) -> None:
    memory.index.upsert([before])
    with pytest.raises(InvalidRequest) as error:
        decide(memory, "the gateway is shut", record_id="mine", trusted=trusted)
    assert error.value.field == field
    assert memory.index.get_many(TENANT, ["mine"])[0].content == before.content


def test_what_an_episode_that_is_not_trusted_is_the_evidence_of_is_not_either(memory: Remembered) -> None:
    said = Relationship(tenant_id=TENANT, source="anna", type="DECIDED", target="mine", evidence="mine")
    memory.graph.upsert([Vertex(id=name, tenant_id=TENANT) for name in ("anna", "mine")], [said])
    decide(memory, "the gateway is shut", record_id="mine", trusted=False)
    assert [one.trusted for one in memory.graph.relationships(TENANT, ids=["anna"])] == [False]
    assert [one.trusted for one in memory.graph.get_many(TENANT, ["mine"])] == [False]
