"""Hydration: candidates that may be answers are valid, of the tenant, inside the filters and the schema window."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from braid.models import Answer, Filters, Kind
from braid.retrieval.stages.fuse_rerank import FusionLimits

from tests.fakes import NOW, TENANT, FakeIndex, FakeReranker, found, fused, query, record, searched, walked

LATER, EARLIER = NOW + timedelta(days=1), NOW - timedelta(days=1)


def ids(answer: Answer) -> list[str]:
    return [result.id for result in answer.results]


SIXTY = tuple((f"r{number:02}", 1 - number / 100) for number in range(60))


def test_superseded_facts_are_removed_before_rerank_and_the_answer_is_still_full() -> None:
    records = [record(one, invalid_at=EARLIER if number < 30 else None) for number, (one, _) in enumerate(SIXTY)]
    reranker = FakeReranker()
    answer = fused(records, reranker=reranker, searched=searched(*SIXTY, superseded=2), query=query(top_k=10))
    ((_, texts, _),) = reranker.asked
    assert texts == tuple(f"text of r{number}" for number in range(30, 60))
    assert ids(answer) == [f"r{number}" for number in range(30, 40)]
    assert answer.superseded == 32


def test_a_question_as_of_a_time_sees_what_was_valid_then() -> None:
    records = [
        record("now", valid_at=EARLIER),
        record("then", invalid_at=EARLIER),
        record("both"),
        record("future", valid_at=LATER),
    ]
    pieces = {"searched": searched(*((one.id, 0.5) for one in records))}
    assert set(ids(fused(records, **pieces))) == {"now", "both"}
    assert set(ids(fused(records, **pieces, query=query(as_of=EARLIER - timedelta(hours=1))))) == {"then", "both"}
    assert set(ids(fused(records, **pieces, query=query(as_of=EARLIER)))) == {"now", "both"}


def test_drift_lowers_marks_and_excludes() -> None:
    records = [record(f"v{version}", schema_version=version) for version in (1, 2, 3, 4, 5)]
    answer = fused(records, schema_version=5, searched=searched(*((one.id, 0.8) for one in records)))
    assert {one.id: one.relevance for one in answer.results} == pytest.approx(
        {"v5": 0.8, "v4": 0.8 * 0.95, "v3": 0.8 * 0.85, "v2": 0.8 * 0.85}
    )
    assert {one.id for one in answer.results if one.needs_transformation} == {"v2", "v3"}
    assert ids(answer) == ["v5", "v4", "v2", "v3"]
    strict = fused(
        records,
        schema_version=5,
        limits=FusionLimits(drift_threshold=1, max_versions_behind=1),
        searched=searched(("v3", 0.8), ("v4", 0.8)),
    )
    assert ids(strict) == ["v4"]


def test_drift_also_lowers_what_the_reranker_says() -> None:
    records = [record("old", schema_version=1), record("new", schema_version=2)]
    answer = fused(records, schema_version=2, reranker=FakeReranker(), searched=searched(("old", 0.9), ("new", 0.1)))
    assert [(one.id, one.relevance, one.rerank_score) for one in answer.results] == [
        ("new", 0.5, 0.5),
        ("old", pytest.approx(0.475), 0.5),
    ]


def test_a_record_of_another_tenant_is_dropped_whatever_the_index_returns() -> None:
    records = [record("ours"), record("theirs", tenant_id="other"), record("shared", tenant_id="other")]
    index = FakeIndex([*records, record("shared")])
    answer = fused(index=index, searched=searched(("theirs", 0.9), ("shared", 0.8), ("ours", 0.5)))
    assert {one.id: one.content for one in answer.results} == {"shared": "text of shared", "ours": "text of ours"}
    assert index.reads == [(TENANT, ("theirs", "shared", "ours"))]


@pytest.mark.parametrize(
    "filters",
    [
        {"kinds": ["fact"]},
        {"entity_types": ["Service"]},
        {"task_id": "t"},
        {"tool_name": "grep"},
        {"time_range": {"start": NOW}},
        {"time_range": {"start": EARLIER, "end": LATER}},
    ],
)
def test_what_the_graph_found_meets_the_questions_conditions_too(filters: dict[str, Any]) -> None:
    good = record("good", kind=Kind.FACT, entity_type="Service", task_id="t", tool_name="grep", timestamp=NOW)
    wrong = [
        record("plain"),
        record("late", kind=Kind.CHUNK, entity_type="Event", task_id="u", tool_name="sed", timestamp=LATER),
        record("early", kind=Kind.CHUNK, timestamp=EARLIER - timedelta(days=1)),
    ]
    reached = found(*(walked("s", one.id) for one in (good, *wrong)))
    answer = fused([good, *wrong], expanded=reached, query=query(filters=Filters(**filters)))
    expected = ["good", "late"] if filters == {"time_range": {"start": NOW}} else ["good"]
    assert ids(answer) == expected


def test_a_vertex_without_a_record_is_no_answer() -> None:
    answer = fused([record("a")], expanded=found(walked("s", "a"), walked("s", "vertex-only")))
    assert ids(answer) == ["a"]
    assert (answer.counts["fused"], answer.counts["read"]) == (2, 1)


def test_outside_a_strict_window_nothing_is_an_answer_however_it_was_found() -> None:
    records = [record(f"v{version}", schema_version=version) for version in (3, 4, 5)]
    answer = fused(
        records,
        schema_version=5,
        limits=FusionLimits(max_versions_behind=1),
        searched=searched(("v5", 0.8), ("v4", 0.8)),
        expanded=found(walked("v5", "v3")),
    )
    assert ids(answer) == ["v5", "v4"]
    assert answer.counts["outdated"] == 1
