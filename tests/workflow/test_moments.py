"""Questions as of a day and of a span of time are exact, end to end over both demo corpora."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from braid.models import Filters, Hints, Query, Strategy, TimeRange
from braid.retrieval import pipeline

from braid_cli.datasets.dataset import Dataset, JudgedQuery, read_dataset
from tests.stages import DEMO, NOW, TENANTS
from tests.times import in_span, valid_at

if TYPE_CHECKING:
    from braid.models import Record

    from tests.stages import DemoStages

TOP_K = 50
FREE = [strategy for strategy in Strategy if strategy is not Strategy.GRAPH_FIRST]
"""Strategies that need no graph constraint."""
both_tenants = pytest.mark.parametrize("tenant", TENANTS)


@cache
def dataset(tenant: str) -> Dataset:
    return read_dataset(DEMO / tenant, tenant, judged=True, questions="judged")


def records(tenant: str) -> dict[str, Record]:
    return {record.id: record for record in dataset(tenant).records}


def judged(kind: str) -> list[JudgedQuery]:
    return [one for tenant in TENANTS for one in dataset(tenant).judged if one.metadata.get("type") == kind]


def found(query: Query, stages: DemoStages, **changes: object) -> list[str]:
    answer = pipeline.answer(query.model_copy(update={"top_k": TOP_K, **changes}), stages)
    assert answer.degraded == ()
    return [result.id for result in answer.results]


@pytest.mark.parametrize("question", judged("as-of"), ids=lambda one: one.id)
def test_a_question_as_of_a_day_finds_every_judged_record_and_nothing_that_did_not_hold(
    stages: DemoStages, question: JudgedQuery
) -> None:
    asked, known = question.query, records(question.query.tenant_id)
    assert asked.as_of is not None
    for strategy in FREE:
        ids = found(asked, stages, hints=Hints(strategy=strategy))
        assert all(valid_at(known[identity], asked.as_of) for identity in ids), strategy
    assert question.relevant.keys() <= set(found(asked, stages))


@both_tenants
def test_each_change_of_validity_is_seen_in_the_microsecond_it_comes_about(stages: DemoStages, tenant: str) -> None:
    known = records(tenant)
    changing = [record for record in known.values() if record.invalid_at is not None]
    assert len(changing) >= 6
    for record in changing:
        assert record.invalid_at is not None
        asked = Query(text=record.content[:200], tenant_id=tenant)
        for moment in (record.invalid_at - timedelta(microseconds=1), record.invalid_at):
            ids = found(asked, stages, as_of=moment)
            assert (record.id in ids) is valid_at(record, moment), (record.id, moment)
            assert all(valid_at(known[identity], moment) for identity in ids)


@pytest.mark.parametrize("question", judged("range"), ids=lambda one: one.id)
def test_a_question_of_a_span_finds_all_that_happened_in_it_and_nothing_else(
    stages: DemoStages, question: JudgedQuery
) -> None:
    asked, known = question.query, records(question.query.tenant_id)
    span = asked.filters.time_range
    assert span is not None
    inside = {one.id for one in known.values() if in_span(one, span) and valid_at(one, NOW)}
    assert question.relevant.keys() <= inside
    assert set(found(asked, stages)) == inside
    for strategy in FREE:
        assert set(found(asked, stages, hints=Hints(strategy=strategy))) <= inside, strategy


@both_tenants
@pytest.mark.parametrize("text", ["What happened then?", "Why did it happen?"])
def test_month_by_month_nothing_is_missed_and_nothing_told_twice(stages: DemoStages, tenant: str, text: str) -> None:
    starts = [datetime(2023 + month // 12, month % 12 + 1, 1, tzinfo=UTC) for month in range(37)]
    known, seen = records(tenant), []
    for start, end in pairwise(starts):
        span = TimeRange(start=start, end=end)
        ids = found(Query(text=text, tenant_id=tenant, filters=Filters(time_range=span)), stages)
        assert all(in_span(known[identity], span) for identity in ids)
        seen += ids
    happened = [one.id for one in known.values() if one.timestamp is not None and valid_at(one, NOW)]
    assert sorted(seen) == sorted(happened)


@both_tenants
def test_a_span_begins_with_its_start_and_ends_before_its_end(stages: DemoStages, tenant: str) -> None:
    stamped = sorted((one for one in records(tenant).values() if one.timestamp), key=lambda one: one.id)[::5]
    assert len(stamped) >= 10
    for record in stamped:
        at = record.timestamp
        assert at is not None
        asked = Query(text=record.content[:200], tenant_id=tenant)
        within = Filters(time_range=TimeRange(start=at, end=at + timedelta(microseconds=1)))
        before = Filters(time_range=TimeRange(start=at - timedelta(hours=1), end=at))
        assert record.id in found(asked, stages, filters=within)
        assert record.id not in found(asked, stages, filters=before)
