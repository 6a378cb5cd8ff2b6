"""Top candidates that were not returned."""

from __future__ import annotations

from braid.models import Source

from tests.fakes import found, fused, query, record, searched, walked

SIXTY = tuple((f"r{number:02}", 1 - number / 100) for number in range(60))


def test_whoever_asks_why_sees_what_a_strand_put_first_and_where_it_came_instead() -> None:
    records = [record(one) for one, _ in SIXTY] + [record("walked")]
    walk = found(walked("r00", "walked", score=0.1))
    answer = fused(records, searched=searched(*SIXTY), expanded=walk, query=query(top_k=3, explain=True))
    assert [result.id for result in answer.results] == ["r00", "r01", "r02"]
    assert [one.id for one in answer.considered] == ["r03", "r04", "walked"]
    last = answer.considered[-1]
    assert (last.ranks, last.title) == ({Source.GRAPH: 1}, "walked")
    assert last.rank == last.fused_rank > 3
    assert answer.considered[0].final <= answer.results[-1].final


def test_what_comes_after_a_strands_first_is_not_worth_a_line() -> None:
    records = [record(one) for one, _ in SIXTY]
    answer = fused(records, searched=searched(*SIXTY), query=query(top_k=5, explain=True))
    assert answer.considered == ()


def test_who_does_not_ask_why_is_not_told() -> None:
    records = [record(one) for one, _ in SIXTY]
    assert fused(records, searched=searched(*SIXTY), query=query(top_k=1)).considered == ()
