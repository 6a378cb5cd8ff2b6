"""Propagation in the stages: when it is chosen, where it begins, how its hits are ranked and what coherence raises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from braid.errors import StoreError
from braid.models import Answer, Fusion, FusionParameters, GraphHit, Intent, Path, Plan, Query
from braid.ports.knowledge_graph import Expansion
from braid.retrieval.stages import graph_expand
from braid.retrieval.stages.candidates import SUPPLIED_FACTOR
from braid.retrieval.stages.fuse_rerank import FusionLimits
from braid.retrieval.stages.stage_messages import Embedded, GraphFound, GraphOperation, GraphRequest, Lost, Searched
from braid.retrieval.stages.walk_seeds_and_scores import GraphLimits, propagation_around_answers, propagation_of

from tests.fakes import (
    NOW,
    TENANT,
    FakeGraph,
    FakeIndex,
    embedding,
    found,
    fused,
    hits,
    link,
    plan,
    query,
    record,
    walked,
)

if TYPE_CHECKING:
    from braid.ports.knowledge_graph import PropagateRequest

SEARCHED = Searched(vector=hits(("a", 0.8), ("b", 0.4)), lexical=hits(("b", 0.9)), frontier=("b", "a"), took_ms=1)
LINKED = GraphFound(links=(link("e", "Keelson"),), took_ms=1)
SPREADING = plan(fusion=Fusion.PROPAGATE)


def reached(request: PropagateRequest) -> Expansion:
    assert request.tenant_id == TENANT
    return Expansion(hits=(walked("e", "a", score=1.0, has_record=True),))


def expand(
    graph: FakeGraph, made: Plan, asked: Query | None = None, *, linked: GraphFound | None = LINKED,
    searched: Searched | None = SEARCHED,
) -> GraphFound:  # fmt: skip
    request = GraphRequest(
        operation=GraphOperation.EXPAND, query=asked or query(), plan=made, searched=searched, linked=linked
    )
    return graph_expand.run(request, graph=graph, now=NOW, limits=GraphLimits())


def test_names_and_first_hits_are_spread_in_one_call() -> None:
    graph = FakeGraph(spread=reached)
    answer = expand(graph, SPREADING)
    assert answer.propagated
    assert [hit.id for hit in answer.hits] == ["a"]
    assert len(graph.propagated) == 1
    assert not graph.expanded


def test_all_texts_are_told_with_how_like_the_question_they_are_the_best_being_1() -> None:
    graph = FakeGraph(spread=reached)
    expand(graph, SPREADING)
    assert graph.propagated[0].texts == (("a", 1.0), ("b", 0.5))
    assert graph.propagated[0].bridging == FusionParameters().bridging


def test_words_tell_it_where_vectors_are_lost() -> None:
    graph = FakeGraph(spread=reached)
    expand(graph, SPREADING, searched=SEARCHED.model_copy(update={"vector": ()}))
    assert graph.propagated[0].texts == (("b", 1.0),)


@pytest.mark.parametrize(("intent", "kind"), [(Intent.CAUSAL, "CAUSES"), (Intent.TEMPORAL, "BEFORE")])
def test_a_causal_or_temporal_walk_that_found_something_is_preferred(intent: Intent, kind: str) -> None:
    graph = FakeGraph(walk=lambda _: Expansion(hits=(walked("a", "z", types=(kind,)),)), spread=reached)
    answer = expand(graph, plan(intent, fusion=Fusion.PROPAGATE), query("what came after the lockout"))
    assert not answer.propagated
    assert "z" in [hit.id for hit in answer.hits]


def test_such_a_walk_from_a_name_is_preferred_too() -> None:
    led = LINKED.model_copy(update={"hits": (walked("e", "z", types=("CAUSES",)),)})
    assert not expand(FakeGraph(spread=reached), plan(Intent.CAUSAL, fusion=Fusion.PROPAGATE), linked=led).propagated


def test_what_a_causal_walk_found_is_spread_over_what_lies_around_it() -> None:
    """What tells of a cause, or carries out a measure, need not be on the walk."""
    graph = FakeGraph(
        walk=lambda _: Expansion(hits=(walked("a", "z", score=0.9, types=("CAUSES",)),)),
        spread=lambda _: Expansion(
            hits=(walked("z", score=0.5), walked("z", "code", types=("IMPLEMENTS",), score=0.5))
        ),
    )
    led = LINKED.model_copy(update={"hits": (walked("e", "y", score=0.6, types=("PREVENTS",)),)})
    answer = expand(graph, plan(Intent.CAUSAL, fusion=Fusion.PROPAGATE), linked=led)
    (request,) = graph.propagated
    from_a = 0.9 * 0.5 * 0.8 * (0.8 / 0.9) ** 2  # half of the hit that the walk left from, which is behind the best
    together = from_a**2 + 0.6**2
    assert request.names == (
        ("y", pytest.approx(3 * 0.6**2 / together)),
        ("z", pytest.approx(3 * from_a**2 / together)),
    )
    assert [identity for identity, _ in request.hits] == ["b", "a"]
    assert [(hit.id, hit.score, hit.path.ids, hit.path.types) for hit in answer.hits] == [
        ("z", pytest.approx(from_a), ("a", "z"), ("CAUSES",)),
        ("code", pytest.approx(0.5 * 0.5), ("a", "z", "code"), ("CAUSES", "IMPLEMENTS")),
    ]


CAUSAL = plan(Intent.CAUSAL, fusion=Fusion.PROPAGATE)


def a_cause(_: object) -> Expansion:
    return Expansion(hits=(walked("a", "z", score=0.9, types=("CAUSES",)),))


def test_what_the_walks_know_keeps_their_score_and_path() -> None:
    """A name that a walk left from counts less than its share of what is spread would make of it."""
    graph = FakeGraph(
        walk=a_cause,
        spread=lambda _: Expansion(hits=(walked("z", "e", score=0.9), walked("z", "y", score=0.9))),
    )
    led = LINKED.model_copy(update={"hits": (walked("e", "y", score=0.6, types=("PREVENTS",)),)})
    assert [hit.id for hit in expand(graph, CAUSAL, linked=led).hits] == ["z"]


def test_a_record_that_tells_of_an_answer_is_no_place_to_go_on_from() -> None:
    """Its path leads to what it tells of, so that a way on from the record itself would be made up."""
    graph = FakeGraph(walk=a_cause, spread=lambda _: Expansion(hits=(walked("page", "code"),)))
    tells = walked("e", "y", score=0.9, types=("CAUSES",)).model_copy(update={"id": "page"})
    answer = expand(graph, CAUSAL, linked=LINKED.model_copy(update={"hits": (tells,)}))
    assert [name for name, _ in graph.propagated[0].names] == ["z"]
    assert [hit.path.ids for hit in answer.hits if hit.id == "code"] == [("page", "code")]


def test_what_the_walks_found_stands_when_the_graph_then_fails() -> None:
    def lost(_: object) -> Expansion:
        message = "the graph is gone"
        raise StoreError(message)

    answer = expand(FakeGraph(walk=a_cause, spread=lost), CAUSAL)
    assert [hit.id for hit in answer.hits] == ["z"]
    assert answer.truncated


def test_a_stage_that_has_taken_long_asks_for_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = FakeGraph(walk=a_cause, spread=reached)
    monkeypatch.setattr(graph_expand.Stopwatch, "ms", lambda _: graph_expand.TIME_FOR_MORE_MS + 1)
    answer = expand(graph, CAUSAL)
    assert [hit.id for hit in answer.hits] == ["z"]
    assert answer.truncated
    assert not graph.propagated


def test_a_path_goes_on_only_from_its_end() -> None:
    with pytest.raises(ValueError, match="a path to 'b' does not go on from 'c'"):
        Path(ids=("a", "b"), types=("T",)).onwards(Path(ids=("c", "d"), types=("T",)))


def test_what_is_found_fits_into_a_state_however_long_its_ids() -> None:
    """The best stay, in their order; the state of a workflow may have 256 KiB, and two such answers are in it."""
    there = tuple(walked("a", f"{number:0256}", score=1 - number / 1000) for number in range(200))
    answer = expand(FakeGraph(spread=lambda _: Expansion(hits=there)), SPREADING)
    assert 20 < len(answer.hits) < 200
    assert [hit.id for hit in answer.hits] == [hit.id for hit in there[: len(answer.hits)]]
    assert answer.frontier == tuple(hit.id for hit in answer.hits)
    assert answer.truncated
    assert len(answer.model_dump_json().encode()) < 120 * 1024


def test_a_temporal_walk_is_left_as_it_is() -> None:
    graph = FakeGraph(walk=lambda _: Expansion(hits=(walked("a", "z", types=("BEFORE",)),)), spread=reached)
    expand(graph, plan(Intent.TEMPORAL, fusion=Fusion.PROPAGATE), query("what came after the lockout"))
    assert not graph.propagated


def test_walks_that_count_nothing_are_not_spread() -> None:
    graph = FakeGraph(walk=lambda _: Expansion(hits=(walked("a", "z", score=0.0, types=("CAUSES",)),)), spread=reached)
    assert [hit.id for hit in expand(graph, plan(Intent.CAUSAL, fusion=Fusion.PROPAGATE)).hits] == ["z"]
    assert not graph.propagated


def test_a_question_of_when_is_spread_whatever_lies_before_and_after() -> None:
    graph = FakeGraph(walk=lambda _: Expansion(hits=(walked("a", "z", types=("BEFORE",)),)), spread=reached)
    asked = query("when was the lockout")
    assert expand(graph, plan(Intent.TEMPORAL, fusion=Fusion.PROPAGATE), asked).propagated


def test_a_causal_question_of_a_graph_without_causes_is_spread() -> None:
    graph = FakeGraph(spread=reached)
    assert expand(graph, plan(Intent.CAUSAL, fusion=Fusion.PROPAGATE)).propagated


def test_a_caller_who_asks_for_propagation_gets_it_whatever_the_intent() -> None:
    graph = FakeGraph(walk=lambda _: Expansion(hits=(walked("a", "z", types=("CAUSES",)),)), spread=reached)
    asked = query(fusion=Fusion.PROPAGATE)
    assert expand(graph, plan(Intent.CAUSAL, fusion=Fusion.PROPAGATE), asked).propagated


def test_another_fusion_asked_for_walks_as_before() -> None:
    graph = FakeGraph(walk=lambda _: Expansion(hits=(walked("a", "z"),)), spread=reached)
    assert not expand(graph, plan(fusion=Fusion.WEIGHTED)).propagated
    assert not graph.propagated


def test_without_hits_the_names_alone_are_spread_and_the_other_way_round() -> None:
    graph = FakeGraph(spread=reached)
    assert expand(graph, SPREADING, searched=None).propagated
    assert expand(graph, SPREADING, linked=None).propagated
    names, texts = graph.propagated
    assert (names.names, names.hits) == ((("e", 3.0),), ())
    assert texts.names == ()


def test_with_neither_the_graph_is_not_asked() -> None:
    graph = FakeGraph(spread=reached)
    assert expand(graph, SPREADING, linked=None, searched=None).hits == ()
    assert not graph.propagated


def test_hits_count_one_together_by_their_squares_and_names_by_how_they_are_written() -> None:
    linked = GraphFound(
        links=(link("sure", "Keelson"), link("doubtful", "state", certainty=0.05), link("alias", "Quay", score=0.9)),
        took_ms=1,
    )
    parameters = FusionParameters(name_weight=2.0, lexical_share=0.5)
    request = propagation_of(query(), SEARCHED, linked, as_of=NOW, limits=GraphLimits(parameters=parameters))
    assert request is not None
    assert dict(request.names) == pytest.approx({"sure": 2.0, "doubtful": 0.1, "alias": 1.8})
    words = 0.9 / (0.8 + 0.9)  # words stand out a little further
    a, b = (0.8 * (1 - words)) ** 2, (0.4 * (1 - words) + 0.9 * words) ** 2
    assert request.hits == (("b", pytest.approx(b / (a + b))), ("a", pytest.approx(a / (a + b))))


def test_hits_of_full_lists_count_by_what_is_above_the_tail() -> None:
    vector = hits(*((f"r{number}", 0.9 - number / 20) for number in range(10)))
    many = Searched(vector=vector, lexical=(), took_ms=1)
    request = propagation_of(query(), many, None, as_of=NOW, limits=GraphLimits())
    assert request is not None
    above = {f"r{number}": (9 - number) ** 2 for number in range(9)}
    assert dict(request.hits) == pytest.approx({one: square / sum(above.values()) for one, square in above.items()})


def test_only_the_first_hits_begin_a_walk() -> None:
    many = Searched(vector=hits(*((f"r{number:02}", 1 - number / 100) for number in range(30))), took_ms=1)
    request = propagation_of(query(), many, None, as_of=NOW, limits=GraphLimits(seeds=4))
    assert request is not None
    assert [identity for identity, _ in request.hits] == ["r00", "r01", "r02", "r03"]


def spread_hit(identity: str, score: float, rank: int) -> GraphHit:
    path = Path(ids=("e", identity), types=("MENTIONS",))
    return GraphHit(id=identity, score=score, rank=rank, path=path, has_record=True)


def answer_of(*spread: GraphHit, records: tuple[str, ...] = ("a", "b", "c"), **pieces: object) -> Answer:
    defaults = {
        "plan": SPREADING,
        "searched": SEARCHED,
        "linked": LINKED,
        "expanded": found(*spread, propagated=True) if spread else found(),
    }
    return fused([record(one) for one in records], **(defaults | pieces))


def test_what_propagation_reached_comes_first_and_the_rest_follows() -> None:
    answer = answer_of(spread_hit("c", 1.0, 1), spread_hit("b", 0.2, 2))
    assert answer.fusion is Fusion.PROPAGATE
    assert [result.id for result in answer.results] == ["c", "b", "a"]
    assert answer.results[2].combined_score < 0.2
    assert answer.results[0].paths[0].ids == ("e", "c")


def test_propagation_that_found_nothing_or_was_lost_leaves_the_weighted_sum() -> None:
    assert answer_of().fusion is Fusion.WEIGHTED
    lost = answer_of(expanded=None, lost={"graph_expand": Lost(error="TransientStoreError")})
    assert lost.fusion is Fusion.WEIGHTED
    assert lost.degraded == ("graph_expand",)
    assert [result.id for result in lost.results] == ["b", "a"]


def test_where_propagation_began_is_no_finding_of_the_graph() -> None:
    alone = GraphHit(id="a", score=1.0, rank=1, path=Path(ids=("a",), types=()), has_record=True)
    (first, *_) = answer_of(alone).results
    assert (first.id, first.graph_score) == ("a", 1.0)
    assert "graph" not in {source.value for source in first.sources}


SONG = (
    "Harbour Lights is a song composed by Ada Quill. It was first heard one evening in spring, when the new quay was "
    "opened and the whole town had come down to the water to see the first ship; it was performed there by Ben Marsh."
)
PEOPLE = {"song": ("Harbour Lights", SONG), "marsh": ("Ben Marsh", "A singer."), "quill": ("Ada Quill", "A writer.")}


def song_answer(text: str, **fields: object) -> list[str]:
    records = [record(one, name=name, content=content) for one, (name, content) in PEOPLE.items()]
    answer = fused(
        records,
        query=query(text),
        plan=SPREADING,
        linked=GraphFound(links=(link("e", "Harbour Lights"),), took_ms=1),
        expanded=found(
            spread_hit("song", 1.0, 1), spread_hit("marsh", 0.5, 2), spread_hit("quill", 0.45, 3), propagated=True
        ),
        **fields,
    )
    return [result.id for result in answer.results]


def test_what_a_better_text_mentions_in_the_questions_words_is_raised() -> None:
    assert song_answer("Where was the composer of Harbour Lights born?")[:2] == ["song", "quill"]
    assert song_answer("Where was the performer of Harbour Lights born?")[:2] == ["song", "marsh"]


def test_endings_do_not_matter() -> None:
    assert song_answer("Which performers sang Harbour Lights?")[1] == "marsh"


def test_a_question_of_nothing_but_names_changes_no_order() -> None:
    assert song_answer("Harbour Lights") == ["song", "marsh", "quill"]


def test_coherence_can_be_switched_off() -> None:
    off = FusionLimits(parameters=FusionParameters(coherence=0.0))
    asked = "Where was the composer of Harbour Lights born?"
    assert song_answer(asked, limits=off) == ["song", "marsh", "quill"]


OUTAGE = {
    "page": ("Stratum", "Stratum is our database, owned by the Data team."),
    "report": ("Stratum read outage", "The outage was caused by Wiebke Harms, who locked a table."),
    "owner": ("Data team", "The team is led by Hana Kobayashi."),
}


def outage_answer(
    text: str, vector: tuple[str, ...], lexical: tuple[str, ...], **changes: object
) -> tuple[list[str], Answer]:
    records = [record(one, name=name, content=content) for one, (name, content) in OUTAGE.items()]
    pieces: dict[str, object] = {
        "query": query(text),
        "plan": SPREADING,
        "searched": Searched(
            vector=hits(*((one, 0.9 - place / 10) for place, one in enumerate(vector))),
            lexical=hits(*((one, 0.9 - place / 10) for place, one in enumerate(lexical))),
            took_ms=1,
        ),
        "linked": GraphFound(links=(link("e", "Stratum"),), took_ms=1),
        "expanded": found(
            spread_hit("page", 1.0, 1), spread_hit("owner", 0.6, 2), spread_hit("report", 0.4, 3), propagated=True
        ),
    }
    answer = fused(records, **(pieces | changes))
    return [result.id for result in answer.results], answer


def test_the_best_text_that_has_most_of_the_questions_words_comes_before_the_page_about_what_it_names() -> None:
    vector, lexical = ("report", "owner", "page"), ("page", "report", "owner")
    order, answer = outage_answer("Who caused the Stratum outage?", vector, lexical)
    assert order == ["report", "page", "owner"]
    assert answer.results[0].relevance >= answer.results[1].relevance


def test_a_text_that_has_less_of_the_question_stays_where_the_graph_puts_it() -> None:
    asked = "Who leads the team that owns the database Stratum?"
    assert outage_answer(asked, ("report", "page"), ("owner", "report", "page"))[0][0] == "page"


def test_where_vectors_and_words_agree_on_the_best_text_half_of_the_question_is_enough() -> None:
    asked = "Who caused the costly Stratum harm of Hana Kobayashi?"
    first, second = ("report", "owner", "page"), ("page", "report", "owner")
    assert outage_answer(asked, first, first)[0][0] == "report"
    assert outage_answer(asked, first, second)[0][0] == "page"


def test_a_text_about_another_number_is_not_put_before_what_the_question_names() -> None:
    notes = {
        "page": ("Stratum 4.2", "Mends the lock of a table, which 4.1 had lost."),
        "report": ("Stratum 4.1", "Released on 2024-10-02."),
        "owner": OUTAGE["owner"],
    }
    records = FakeIndex([record(one, name=name, content=content) for one, (name, content) in notes.items()])
    agreed = ("report", "page", "owner")
    for asked, first in (("Was Stratum 4.2 released?", "page"), ("Was Stratum 4.1 released?", "report")):
        assert outage_answer(asked, agreed, agreed, index=records)[0][0] == first


def test_a_text_of_an_older_schema_is_not_put_first_for_its_words() -> None:
    asked, agreed = "Who caused the Stratum outage?", ("report", "page")
    records = [
        record(one, name=name, content=content, schema_version=1 if one == "report" else 3)
        for one, (name, content) in OUTAGE.items()
    ]
    assert outage_answer(asked, agreed, agreed, schema_version=3, index=FakeIndex(records))[0][0] == "page"


def test_a_weighted_answer_is_not_reordered() -> None:
    records = [record(one, name=name, content=content) for one, (name, content) in PEOPLE.items()]
    pieces = {"query": query("Which writer wrote Harbour Lights?"), "plan": plan()}
    answer = fused(records, searched=Searched(vector=hits(("song", 0.9), ("marsh", 0.5), ("quill", 0.4)), took_ms=1),
                   **pieces)  # fmt: skip
    assert [result.id for result in answer.results] == ["song", "marsh", "quill"]


def test_scores_stay_between_zero_and_one_and_drift_still_lowers_them() -> None:
    records = [record("a", schema_version=1), record("b", schema_version=2)]
    answer = fused(
        records,
        plan=SPREADING,
        schema_version=2,
        index=FakeIndex(records),
        expanded=found(spread_hit("a", 1.0, 1), spread_hit("b", 1.0, 2), propagated=True),
        linked=LINKED,
    )
    assert [result.id for result in answer.results] == ["b", "a"]
    assert all(0 < result.relevance <= 1 for result in answer.results)


def test_a_vector_that_a_caller_supplied_still_counts_less_after_coherence() -> None:
    records = [record("a", supplied_spaces=("fake_model",)), record("b")]
    answer = fused(
        records,
        plan=SPREADING,
        embedded=Embedded(embedding=embedding(1.0), took_ms=1),
        searched=Searched(vector=hits(("a", 0.9), ("b", 0.9)), took_ms=1),
        expanded=found(spread_hit("a", 1.0, 1), spread_hit("b", 1.0, 2), propagated=True),
        linked=LINKED,
    )
    supplied, own = sorted(answer.results, key=lambda result: result.id)
    assert supplied.vector_supplied
    assert supplied.relevance == pytest.approx(own.relevance * SUPPLIED_FACTOR)


def test_of_a_walks_answers_only_the_first_are_spread() -> None:
    answers = [walked("a", name, score=0.9) for name in ("x", "y", "z")]
    request = propagation_around_answers(query(), answers, None, as_of=NOW, limits=GraphLimits(seeds=2))
    assert request is not None
    assert [name for name, _ in request.names] == ["x", "y"]
    assert propagation_around_answers(query(), [], None, as_of=NOW, limits=GraphLimits()) is None
