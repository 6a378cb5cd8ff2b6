"""What a question asks of a walk along causes or time: which side in time, and which end of a chain."""

from __future__ import annotations

import pytest
from braid.models import GraphHit, Intent, Path, TemporalContext
from braid.understanding.intent import (
    TimeRelation,
    follows_relation,
    time_relation,
    walk_preference,
    wants_ends,
)

BEFORE, AFTER, DURING = TimeRelation


@pytest.mark.parametrize(
    ("text", "relation"),
    [
        ("What had been rehearsed in the weeks before the payouts?", BEFORE),
        ("What was done prior to the audit?", BEFORE),
        ("What happened in the months after the stoppage?", AFTER),
        ("What has changed since the audit?", AFTER),
        ("What happened during the peak freeze?", DURING),
        ("Since when is the second phone called?", None),
        ("When did Labelsmith get a new owner?", None),
        ("What happened after the audit and before the freeze?", None),
        ("Who looks after Keelson's aftermath page, beforehand?", AFTER),
    ],
)
def test_the_words_of_a_question_say_on_which_side_in_time_its_answer_lies(
    text: str, relation: TimeRelation | None
) -> None:
    assert time_relation(text, None) is relation


def test_a_stated_relation_wins_over_the_words() -> None:
    assert time_relation("What came before?", TemporalContext(relation="AFTER")) is AFTER
    assert time_relation("What came before?", TemporalContext(relation="NEAR")) is None


@pytest.mark.parametrize(
    ("types", "inward", "agreeing"),
    [
        (("BEFORE",), (False,), AFTER),
        (("BEFORE", "BEFORE"), (False, False), AFTER),
        (("AFTER",), (True,), AFTER),
        (("BEFORE",), (True,), BEFORE),
        (("AFTER", "BEFORE"), (False, True), BEFORE),
        (("BEFORE", "DURING"), (False, True), AFTER),
        (("DURING",), (True,), DURING),
        (("DURING",), (False,), None),
        (("BEFORE", "BEFORE"), (False, True), None),
    ],
)
def test_a_path_leads_forwards_backwards_or_inside(
    types: tuple[str, ...], inward: tuple[bool, ...], agreeing: TimeRelation | None
) -> None:
    path = Path(ids=tuple(f"v{number}" for number in range(len(types) + 1)), types=types, inward=inward)
    assert [relation for relation in TimeRelation if follows_relation(path, relation)] == (
        [agreeing] if agreeing else []
    )


def reached(*ids: str, kind: str = "CAUSES") -> GraphHit:
    path = Path(ids=ids, types=(kind,) * (len(ids) - 1), inward=(True,) * (len(ids) - 1))
    return GraphHit(id=ids[-1], score=0.9, rank=1, path=path)


def test_where_a_root_cause_is_asked_for_what_lies_between_counts_less() -> None:
    chain = [reached("x", "direct"), reached("x", "direct", "root"), reached("x", "other")]
    kept = walk_preference("What was the root cause of x?", Intent.CAUSAL, None).keep(chain)
    assert {hit.id: hit.score for hit in kept} == {"direct": 0.45, "root": 0.9, "other": 0.9}
    assert walk_preference("Why did x happen?", Intent.CAUSAL, None).keep(chain) == chain


def prevention(text: str) -> dict[str, float]:
    hits = [reached("e", "measure", kind="PREVENTS"), reached("e", "cause"), reached("e", "told", kind="MENTIONS")]
    return {hit.id: hit.score for hit in walk_preference(text, Intent.CAUSAL, None).keep(hits)}


@pytest.mark.parametrize("text", ["What prevents a full disk?", "How was a second lapse averted?"])
def test_where_something_is_known_to_prevent_it_its_causes_are_no_answer(text: str) -> None:
    scores = prevention(text)
    assert scores == {"measure": 0.9, "cause": pytest.approx(0.225), "told": 0.9}


def test_where_nothing_is_its_causes_are_all_that_is_known() -> None:
    hits = [reached("e", "cause"), reached("e", "measure", kind="ENABLES")]
    assert walk_preference("What prevents a full disk?", Intent.CAUSAL, None).keep(hits) == hits
    assert set(prevention("Why was the disk full?").values()) == {0.9}


def test_what_lies_on_the_other_side_in_time_is_left_out() -> None:
    earlier = reached("x", "earlier", kind="BEFORE")
    assert walk_preference("What happened before x?", Intent.TEMPORAL, None).keep([earlier]) == [earlier]
    assert walk_preference("What happened after x?", Intent.TEMPORAL, None).keep([earlier]) == []


def test_only_walks_along_the_types_asked_for_are_answers() -> None:
    assert walk_preference("Why x?", Intent.CAUSAL, None).answers(reached("x", "y"))
    assert not walk_preference("Why x?", Intent.CAUSAL, None).answers(reached("x", "y", kind="MENTIONS"))
    assert not walk_preference("Why x?", Intent.CAUSAL, None).answers(reached("x"))
    assert walk_preference("When did x happen?", Intent.TEMPORAL, None).types is None
    assert walk_preference("Who is x?", Intent.LOOKUP, None).types is None


@pytest.mark.parametrize("text", ["the root cause of it", "what caused it in the first place", "ultimately led to"])
def test_ends_of_a_chain_can_be_asked_for(text: str) -> None:
    assert wants_ends(text)


def test_a_place_is_no_end() -> None:
    assert not wants_ends("which place came first in the race")
