"""One list out of several: by weighted scores or by reciprocal ranks, the same input always in the same order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from braid.models import Candidate, Fusion, GraphHit, Hit, Intent, Source, Weights
from braid.ranking.fusion import (
    MAX_PATHS,
    MAX_STRAND_SHARE,
    MIN_FULL_LIST,
    adaptive_lexical_share,
    adaptive_weights,
    append_scaled_tail,
    combine,
    fuse,
    reciprocal_rank_fusion,
    sum_of_texts,
    weighted_sum,
)
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.fakes import hits, walked

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

THIRDS = Weights(vector=0.5, lexical=0.2, graph=0.3)


def strand(*scored: tuple[str, float], source: Source = Source.GRAPH) -> tuple[GraphHit, ...]:
    return tuple(
        walked("seed", identity, score=score, rank=rank, source=source)
        for rank, (identity, score) in enumerate(scored, start=1)
    )


def run_of(scores: dict[str, float]) -> tuple[Hit, ...]:
    return hits(*sorted(scores.items(), key=lambda item: (-item[1], item[0])))


def ids(candidates: Sequence[Candidate]) -> list[str]:
    return [candidate.id for candidate in candidates]


def test_reciprocal_ranks_are_weighted_and_added() -> None:
    found = reciprocal_rank_fusion([(0.75, {"a": 1, "b": 2}), (0.25, {"b": 1})])
    assert found == pytest.approx({"a": 0.75 / 61, "b": 0.75 / 62 + 0.25 / 61})
    assert reciprocal_rank_fusion([(1.0, {"a": 1})], rank_constant=9)["a"] == pytest.approx(0.1)


def test_weighted_fusion_adds_each_strands_score_times_its_weight() -> None:
    found = fuse(
        vector=hits(("a", 0.8), ("b", 0.4)), lexical=hits(("b", 0.9)), graph=strand(("c", 0.6)), weights=THIRDS
    )
    assert {one.id: one.combined_score for one in found} == pytest.approx(
        {"a": 0.5 * 0.8, "b": 0.5 * 0.4 + 0.2 * 0.9, "c": 0.3 * 0.6}
    )
    assert ids(found) == ["a", "b", "c"]
    assert weighted_sum([(0.5, {"a": 0.8}), (0.5, {"a": 0.4, "b": 1.0})]) == pytest.approx({"a": 0.6, "b": 0.5})


def falling(best: float, least: float, count: int = MIN_FULL_LIST, name: str = "r") -> dict[str, float]:
    return {f"{name}{place}": best - (best - least) * place / (count - 1) for place in range(count)}


def test_the_strand_whose_best_stands_further_above_its_tail_counts_more() -> None:
    even, steep = falling(0.6, 0.5), falling(0.6, 0.4)
    assert adaptive_lexical_share(even, even, 0.5) == 0.5
    assert adaptive_lexical_share(even, steep, 0.5) == pytest.approx(2 / 3)
    assert adaptive_lexical_share(steep, even, 0.5) == pytest.approx(1 / 3)
    assert adaptive_lexical_share(even, steep, 0.2) == pytest.approx(0.4 / (0.4 + 0.8))


def test_a_short_list_is_all_there_is_so_that_its_tail_is_nothing() -> None:
    one_rare_word = {"r0": 0.4}
    assert adaptive_lexical_share(falling(0.6, 0.4), one_rare_word, 0.5) == pytest.approx(0.4 / (0.2 + 0.4))


def test_neither_strand_is_silenced_and_what_an_operator_fixes_stays() -> None:
    flat, steep = falling(0.6, 0.6), falling(0.9, 0.1)
    assert adaptive_lexical_share(flat, steep, 0.5) == pytest.approx(MAX_STRAND_SHARE)
    assert adaptive_lexical_share(steep, flat, 0.5) == pytest.approx(1 - MAX_STRAND_SHARE)
    assert adaptive_lexical_share(flat, flat, 0.5) == 0.5
    assert [adaptive_lexical_share(flat, steep, share) for share in (0.0, 1.0)] == [0.0, 1.0]
    assert adaptive_lexical_share({}, steep, 0.3) == adaptive_lexical_share(flat, {}, 0.3) == 0.3


def test_what_a_full_list_lacks_is_no_worse_than_its_last() -> None:
    vector, lexical = falling(0.9, 0.6), falling(0.5, 0.3, name="w")
    found = sum_of_texts(vector, lexical, 0.75, 0.25)
    assert found["r0"] == pytest.approx(0.75 * 0.9 + 0.25 * 0.3)
    assert found["w0"] == pytest.approx(0.75 * 0.6 + 0.25 * 0.5)
    short = {"w0": 0.5}
    assert sum_of_texts(vector, short, 0.75, 0.25)["r0"] == pytest.approx(0.75 * 0.9)


def test_rrf_ends_on_the_same_scale_where_first_in_every_strand_is_one() -> None:
    found = fuse(
        vector=hits(("a", 0.3), ("b", 0.2)),
        lexical=hits(("a", 0.9)),
        graph=strand(("a", 0.1)),
        weights=THIRDS,
        method=Fusion.RRF,
    )
    assert found[0].combined_score == pytest.approx(1.0)
    assert found[1].combined_score == pytest.approx(0.5 * 61 / 62)


def test_a_candidate_says_which_strands_found_it_where_and_with_what_score() -> None:
    (found,) = fuse(
        vector=hits(("a", 0.8)),
        lexical=(Hit(id="a", score=0.5, rank=4),),
        graph=[
            walked("s", "a", score=0.2, rank=3, reason="graph path: RELATED_TO"),
            walked("n", "a", score=0.6, rank=2, source=Source.KNOWLEDGE, reason="entity match: N"),
        ],
        weights=THIRDS,
    )
    assert (found.vector_score, found.lexical_score, found.graph_score) == (0.8, 0.5, 0.6)
    assert found.sources == (Source.VECTOR, Source.LEXICAL, Source.KNOWLEDGE, Source.GRAPH)
    assert found.ranks == {Source.VECTOR: 1, Source.LEXICAL: 4, Source.KNOWLEDGE: 1, Source.GRAPH: 1}
    assert found.reasons == ("entity match: N", "graph path: RELATED_TO")
    assert [path.ids for path in found.paths] == [("n", "a"), ("s", "a")]


def test_names_and_walks_that_were_ranked_together_have_each_their_own_places() -> None:
    began_there = walked("walked-first", score=1.0, rank=1)
    found = fuse(
        vector=(),
        lexical=(),
        graph=[
            walked("s", "walked-first", score=0.9, rank=1),
            walked("n", "named-first", score=0.5, rank=2, source=Source.KNOWLEDGE),
            walked("n", "named-second", score=0.4, rank=3, source=Source.KNOWLEDGE),
            walked("s", "walked-third", score=0.3, rank=4),
            # of another run
            walked("h", "walked-second", score=0.6, rank=1),
            began_there,
        ],
        weights=THIRDS,
    )
    assert {one.id: one.ranks for one in found} == {
        "walked-first": {Source.GRAPH: 1},
        "walked-second": {Source.GRAPH: 2},
        "walked-third": {Source.GRAPH: 3},
        "named-first": {Source.KNOWLEDGE: 1},
        "named-second": {Source.KNOWLEDGE: 2},
    }


def test_a_strand_that_did_not_find_a_candidate_leaves_no_trace_on_it() -> None:
    (found,) = fuse(vector=hits(("a", 0.8)), lexical=(), graph=(), weights=THIRDS)
    assert (found.lexical_score, found.graph_score, found.paths, found.reasons) == (None, None, (), ())
    assert found.sources == (Source.VECTOR,)


def test_only_the_best_few_walks_are_kept_each_once() -> None:
    walks = [walked(f"s{number}", "a", score=number / 10) for number in range(1, 6)]
    (found,) = fuse(vector=(), lexical=(), graph=[*walks, *walks], weights=THIRDS)
    assert [path.ids[0] for path in found.paths] == ["s5", "s4", "s3"]
    assert len(found.paths) == MAX_PATHS


@pytest.mark.parametrize("method", list(Fusion))
def test_equal_scores_are_ordered_by_id(method: Fusion) -> None:
    found = fuse(
        vector=hits(("b", 0.5)),
        lexical=hits(("a", 0.5)),
        graph=(),
        weights=Weights(vector=0.5, lexical=0.5, graph=0.0),
        method=method,
    )
    assert ids(found) == ["a", "b"]
    assert found[0].combined_score == found[1].combined_score


def test_nothing_found_is_an_empty_list() -> None:
    assert fuse(vector=(), lexical=(), graph=(), weights=THIRDS) == []


scored = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 1), max_size=8)
weights = st.tuples(st.floats(0.01, 1), st.floats(0, 1), st.floats(0, 1)).map(
    lambda raw: Weights(vector=raw[0] / sum(raw), lexical=raw[1] / sum(raw), graph=raw[2] / sum(raw))
)


@given(vector=scored, lexical=scored, graph=scored, weighted=weights, method=st.sampled_from(Fusion))
def test_fused_scores_stay_in_range_and_every_hit_is_a_candidate_once(
    *,
    vector: dict[str, float],
    lexical: dict[str, float],
    graph: dict[str, float],
    weighted: Weights,
    method: Fusion,
) -> None:
    found = fuse(
        vector=run_of(vector),
        lexical=run_of(lexical),
        graph=strand(*graph.items()),
        weights=weighted,
        method=method,
    )
    assert sorted(ids(found)) == sorted({*vector, *lexical, *graph})
    assert all(0.0 <= one.combined_score <= 1.0 for one in found)
    assert found == sorted(found, key=lambda one: (-one.combined_score, one.id))


@given(vector=scored, lexical=scored, graph=scored, dice=st.randoms(use_true_random=False))
@pytest.mark.parametrize("method", list(Fusion))
def test_the_order_in_which_hits_come_makes_no_difference(
    method: Fusion, *, vector: dict[str, float], lexical: dict[str, float], graph: dict[str, float], dice: random.Random
) -> None:
    straight = (list(run_of(vector)), list(run_of(lexical)), list(strand(*graph.items())))
    shuffled = tuple(list(one) for one in straight)
    for one in shuffled:
        dice.shuffle(one)
    assert fuse(vector=straight[0], lexical=straight[1], graph=straight[2], weights=THIRDS, method=method) == fuse(
        vector=shuffled[0], lexical=shuffled[1], graph=shuffled[2], weights=THIRDS, method=method
    )


@given(
    runs=st.lists(st.permutations("abcde"), min_size=1, max_size=4),
    which=st.integers(0, 3),
    position=st.integers(1, 4),
)
def test_a_better_rank_in_one_run_never_lowers_the_fused_score(
    runs: list[list[str]], which: int, position: int
) -> None:
    which %= len(runs)
    before = [(1.0, {identity: rank for rank, identity in enumerate(run, start=1)}) for run in runs]
    raised = list(runs[which])
    risen = raised[position]
    raised[position - 1], raised[position] = raised[position], raised[position - 1]
    after = list(before)
    after[which] = (1.0, {identity: rank for rank, identity in enumerate(raised, start=1)})
    assert reciprocal_rank_fusion(after)[risen] > reciprocal_rank_fusion(before)[risen]


@given(vector=scored, method=st.sampled_from(Fusion))
def test_an_empty_run_changes_no_order(vector: dict[str, float], method: Fusion) -> None:
    alone = Weights(vector=1.0, lexical=0.0, graph=0.0)
    with_others = fuse(vector=run_of(vector), lexical=(), graph=(), weights=THIRDS, method=method)
    without = fuse(vector=run_of(vector), lexical=(), graph=(), weights=alone, method=method)
    positive = [identity for identity in ids(without) if vector[identity] > 1e-9]
    assert [identity for identity in ids(with_others) if vector[identity] > 1e-9] == positive


@given(vector=scored, lexical=scored, graph=scored, weighted=weights, method=st.sampled_from([*Fusion]))
def test_which_strand_is_named_first_makes_no_difference(
    *, vector: dict[str, float], lexical: dict[str, float], graph: dict[str, float], weighted: Weights, method: Fusion
) -> None:
    runs = {Source.VECTOR: vector, Source.LEXICAL: lexical, Source.GRAPH: graph}
    straight = combine(runs, {}, weights=weighted, method=method, rank_constant=60)
    swapped = combine(
        {Source.GRAPH: graph, Source.VECTOR: lexical, Source.LEXICAL: vector},
        {},
        weights=Weights(vector=weighted.lexical, lexical=weighted.vector, graph=weighted.graph),
        method=method,
        rank_constant=60,
    )
    assert straight == pytest.approx(swapped)


def place(scores: dict[str, float], identity: str) -> int:
    return sorted(scores, key=lambda one: (-scores[one], one)).index(identity)


@given(
    runs=st.tuples(scored, scored, scored),
    which=st.sampled_from([Source.VECTOR, Source.LEXICAL, Source.GRAPH]),
    risen=st.sampled_from("abcdefgh"),
    by=st.floats(0, 1),
    weighted=weights,
    method=st.sampled_from([*Fusion]),
)
def test_what_a_strand_scores_higher_never_ends_lower(
    *,
    runs: tuple[dict[str, float], dict[str, float], dict[str, float]],
    which: Source,
    risen: str,
    by: float,
    weighted: Weights,
    method: Fusion,
) -> None:
    strands = dict(zip((Source.VECTOR, Source.LEXICAL, Source.GRAPH), runs, strict=True))
    assume(risen in strands[which])
    better = strands | {which: strands[which] | {risen: min(1.0, strands[which][risen] + by)}}
    before, after = (combine(each, {}, weights=weighted, method=method, rank_constant=60) for each in (strands, better))
    assert after[risen] >= before[risen] - 1e-12
    others_fell = {one: min(after[one], before[one] + 1e-12) for one in after if one != risen}
    assert place({**others_fell, risen: after[risen] + 1e-12}, risen) <= place(before, risen)


@given(first=scored, rest=scored)
def test_what_propagation_did_not_reach_comes_behind_what_it_did_and_stays_in_range(
    first: dict[str, float], rest: dict[str, float]
) -> None:
    scores = append_scaled_tail(first, rest)
    assert set(scores) == {*first, *rest}
    assert all(0.0 <= score <= 1.0 for score in scores.values())
    assert {one: scores[one] for one in first} == first
    assert all(scores[one] <= least for one in rest.keys() - first.keys() for least in first.values())
    behind_in_order = sorted(rest.keys() - first.keys(), key=lambda one: rest[one])
    assert [scores[one] for one in behind_in_order] == sorted(scores[one] for one in behind_in_order)


def test_where_the_graph_does_not_help_the_order_is_that_of_vectors_and_words() -> None:
    reached = strand(("led-to", 1.0), ("alike", 0.2))
    ordered = {
        propagation_weight: ids(
            fuse(
                vector=hits(("alike", 0.9), ("word", 0.3)),
                lexical=hits(("word", 0.8)),
                graph=reached,
                weights=THIRDS,
                method=Fusion.PROPAGATE,
                propagated=reached,
                propagation_weight=propagation_weight,
            )
        )
        for propagation_weight in (1.0, 0.0)
    }
    assert ordered == {1.0: ["led-to", "alike", "word"], 0.0: ["alike", "word", "led-to"]}


@given(text=scored, graph=scored, method=st.sampled_from([*Fusion]))
def test_a_strand_that_found_nothing_weighs_nothing_and_changes_no_score(
    text: dict[str, float], graph: dict[str, float], method: Fusion
) -> None:
    assume(text or graph)
    made = adaptive_weights(
        0.5, 0.5, intent=Intent.EXPLORATORY, vector_hits=len(text), lexical_hits=0, graph_hits=len(graph)
    )
    assert (made.vector > 0, made.lexical > 0, made.graph > 0) == (bool(text), False, bool(graph))
    assert made.vector + made.graph == pytest.approx(1.0)
    strands = {Source.VECTOR: text, Source.LEXICAL: {}, Source.GRAPH: graph}
    if method is not Fusion.RRF and not (text and graph):
        assert combine(strands, {}, weights=made, method=method, rank_constant=60) == pytest.approx(text or graph)
