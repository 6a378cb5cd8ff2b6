"""The page on scale says what its script works out, and the arithmetic behind it is right."""

from __future__ import annotations

import re

from bench import scale_simulation as scale


def test_the_page_has_the_sizes_and_times_that_the_script_works_out() -> None:
    page = scale.PAGE.read_text(encoding="utf-8")
    for rows in (scale.sizes(), scale.index_shapes(), scale.ingest()):
        for row in rows:
            assert f"| {' | '.join(row)} |" in page, "run make scale"
    for rate in scale.RATES:
        of = scale.stores(rate)
        assert f"| {rate:,} | {of.nodes} | {of.graph_cpus} | {of.usd:,.0f} |" in page, "run make scale"


def test_every_case_was_simulated_at_every_rate() -> None:
    page = scale.PAGE.read_text(encoding="utf-8")
    for case in scale.CASES:
        for rate in scale.RATES:
            (row,) = re.findall(rf"(?m)^\| {re.escape(case.name)}, {rate:,}/s \| (.*) \|$", page)
            assert len(row.split(" | ")) == 7


def test_vectors_take_the_memory_that_opensearch_says_they_do() -> None:
    # 1.1 x (4 x 384 + 8 x 16) bytes of each of a hundred million vectors.
    assert round(scale.vectors_gb(scale.VECTOR_BYTES["in memory"])) == round(1.1 * 1_664 * 100_000_000 / 1e9)
    assert scale.nodes(0.0) == 2
    assert scale.nodes(16.6 * 3) == 4, "each node of 64 GB has 16.5 for vectors"


def test_a_tenant_that_would_make_a_shard_too_full_is_spread_and_vectors_too_many_for_nodes_are_compressed() -> None:
    assert scale.index_shape(1_000_000, 1_000_000) == (1, 1, "", 2)
    assert scale.index_shape(100_000_000, 1_000_000) == (17, 1, "32x", 3), "5 GB beside 29 of the others"
    for largest, spread in ((6_000_000, 3), (10_000_000, 4), (20_000_000, 7)):
        assert scale.index_shape(100_000_000, largest).tenant_shards == spread
        assert scale.fullest_gb(100_000_000, largest, 17, spread) <= 40
    assert scale.index_shape(30_000_000, 30_000_000).tenant_shards == 4, "below the number of shards"


def test_more_writers_take_less_time_until_a_store_is_busy() -> None:
    few, more, most = (scale.writing(writers, 100, batches=400) for writers in (4, 40, 4_000))
    assert few[0] > 5 * more[0] > 15 * most[0]
    assert max(few[1:]) < max(more[1:]) < max(most[1:]) <= 1.0


def test_a_hundred_million_records_are_embedded_again_in_hours() -> None:
    page = scale.PAGE.read_text(encoding="utf-8")
    hours = [scale.embedding_again(writers, 100, lists=1) for writers in (24, 400)]
    assert hours[0][0] > 5 * hours[1][0]
    assert hours[1][0] < 24
    assert hours[0][1] < hours[1][1] <= 1.0
    for row in scale.embedded_again_at_once():
        assert f"| {' | '.join(row)} |" in page, "run make scale"


def test_stores_grow_with_the_rate_until_there_is_no_larger_one() -> None:
    sized = [scale.stores(rate) for rate in (10, 100, 1_000, 100_000)]
    assert [of.usd for of in sized] == sorted(of.usd for of in sized)
    assert sized[-1].graph_cpus == scale.LARGEST_GRAPH_CPUS


def test_a_table_is_put_into_its_own_place_alone() -> None:
    page = "a\n<!-- one -->\n<!-- end -->\nb\n<!-- two -->\nold\n<!-- end -->\nc\n"
    made = scale.written(page, iter([("two", "new"), ("one", "first")]))
    assert made == "a\n<!-- one -->\nfirst\n<!-- end -->\nb\n<!-- two -->\nnew\n<!-- end -->\nc\n"
    assert scale.written(made, iter([("one", "first")])) == made
