"""The chance that a question is answered: which signs raise it, and what is not known of lost strands."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from braid.models import Answer, Asked, FactSet, Filters, Fusion, Kind, in_words
from braid.retrieval.stages.confidence import (
    BACKGROUND,
    INTERCEPT,
    MAX_TITLES,
    MODEL,
    UNRELATED,
    Features,
    chance,
    features,
)
from braid.retrieval.stages.stage_messages import Lost, Searched

from tests.fakes import fused, hits, query, record, searched

SEVERAL = (("a", 0.7), ("b", 0.3), ("c", 0.28), ("d", 0.27), ("e", 0.25), ("f", 0.2))
MEAN = Features(*(one.mean for one in MODEL))
LOST = Lost(error="TransientStoreError")


def answered(question: str, *contents: str, **pieces: Any) -> Answer:
    records = [record(f"r{number}", content=content) for number, content in enumerate(contents)]
    found = searched(*((one.id, 0.5) for one in records))
    return fused(records, query=query(question), **({"searched": found} | pieces))


def coverage(question: str, *contents: str) -> float | None:
    return features(query(question), None, answered(question, *contents).results).coverage


def test_the_model_is_the_one_that_was_fitted() -> None:
    fitted = json.loads((Path(__file__).resolve().parents[3] / "bench" / "confidence.json").read_text(encoding="utf-8"))
    assert fitted["intercept"] == INTERCEPT
    assert [tuple(sign) for sign in fitted["model"].values()] == [tuple(sign) for sign in MODEL]
    held_out = fitted["held_out"].values()
    assert min(figures["auroc"] for figures in held_out) >= 0.78
    assert max(figures["calibration_error"] for figures in held_out) <= 0.11


@pytest.mark.parametrize("place", range(len(MODEL)), ids=Features._fields)
def test_each_sign_raises_the_chance(place: int) -> None:
    mean, deviation, _ = MODEL[place]
    chances = [chance(Features(*MEAN[:place], value, *MEAN[place + 1 :])) for value in (0.0, mean, mean + deviation)]
    assert 0.0 < chances[0] < chances[1] < chances[2] < 1.0


def test_a_sign_that_is_not_known_counts_as_the_mean_one() -> None:
    assert chance(Features(None, None, None, MEAN.titles, MEAN.fact)) == pytest.approx(chance(MEAN))
    assert chance(MEAN) == pytest.approx(1 / (1 + math.exp(-INTERCEPT)))


def test_a_text_covers_a_question_that_has_its_names_and_its_other_words() -> None:
    text = "The platform team owns Keelson."
    assert coverage("Who owns Keelson?", text) == 1.0
    assert coverage("Who painted Keelson in 1632?", text) == 0.0  # the name in it answers nothing
    assert coverage("Who owns Halyard?", text) == 0.0
    assert coverage("Which people own the Keelson?", text) == 0.5


def test_words_in_different_texts_cover_less_than_those_in_one() -> None:
    apart = coverage("When was the pump valve painted?", "The pump is old.", "A valve was painted.")
    assert apart == pytest.approx((2 / 3 + 1) / 2)
    assert coverage("Was Keelson painted in 1632?", "Keelson is ours.", "It is old.") == 0.0
    assert coverage("When was the pump valve painted?", "The pump valve was painted.") == 1.0


def test_texts_about_what_the_question_names_cover_its_names_and_say_how_many_there_are() -> None:
    question = "Who built the ship that Mara Voss and Keelson (ship) share with a harbour?"
    texts = [("Mara Voss", "She built."), ("Keelson", "A ship."), ("harbour", "Boats."), ("Mara", "Another one.")]
    results = [answered(question, content).results[0].model_copy(update={"title": title}) for title, content in texts]
    of_all = features(query(question), None, results)
    assert of_all.titles == MAX_TITLES
    assert of_all.coverage == 3 / 4
    assert features(query(question), None, results[:1]).titles == 1.0
    assert features(query(question), None, results[2:3]).titles < 0.1
    assert features(query("Who built it?"), None, results).titles == 0.0
    for title in ("INC-131: Outage of the harbour", "INC-131 – Outage of the harbour"):
        incident = results[0].model_copy(update={"title": title})
        assert features(query("What happened in INC-131?"), None, [incident]).titles == 1.0
    assert features(query("What happened in INC-132?"), None, [incident]).titles == 0.0


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("who directed it", "Its director."),
        ("Who owns it?", "It is owned."),
        ("Who uses it?", "Its user."),
        ("où est le château", "Le CHATEAU est ici, où il était."),
        ("东京在哪里", "去东京旅行, 京在哪里"),
        ("LX-400 alarms", "The alarm of LX 400."),
        ("Who is who?", "Who is who."),
    ],
)
def test_words_are_met_in_other_forms_and_scripts(question: str, text: str) -> None:
    assert coverage(question, text) == 1.0


@pytest.mark.parametrize(
    ("question", "text", "of_it"),
    [
        ("What is the penalty of contract C-2207?", "The penalty of contract C-2206 is 4 %.", 0.0),
        ("What is the penalty of contract C-2207?", "The penalty of contract C-2207 is 4 %.", 1.0),
        ("What is the penalty of contract C-2207?", "The penalty of contract c2207 is 4 %.", 0.5),
        ("What is the penalty of C-2207's owner?", "The penalty of the owner of C-22071.", 0.0),
        ("Was INC-2024-131 an outage?", "The outage INC 2024 132.", 0.0),
        ("Which outages were in 2024?", "The outages of 2024.", 1.0),
    ],
)
def test_what_has_none_of_the_questions_identifiers_covers_nothing(question: str, text: str, of_it: float) -> None:
    assert coverage(question, text) == of_it


def test_a_word_is_met_at_its_beginning_only() -> None:
    assert coverage("which art", "The cart started.") == 0.0
    assert coverage("which cats", "A category.") == 0.0


def test_the_nearest_text_is_measured_from_the_background() -> None:
    near = features(query("x"), searched(*SEVERAL), ()).nearness
    assert near == pytest.approx((0.7 - 0.2) / (1 - 0.2))
    # A model that finds everything alike is read the same way.
    alike = searched(*((one, 0.8 + score / 5) for one, score in SEVERAL))
    assert features(query("x"), alike, ()).nearness == pytest.approx(0.1 / (1 - 0.84))


def test_a_few_vectors_are_as_near_as_they_stand_above_unrelated_texts() -> None:
    assert features(query("x"), searched(), ()).nearness is None
    near = [features(query("x"), searched(*SEVERAL[:count]), ()).nearness for count in (1, 4)]
    assert near == pytest.approx([(0.7 - UNRELATED) / (1 - UNRELATED)] * 2)
    assert features(query("x"), searched(*((str(number), 1.0) for number in range(9))), ()).nearness == 0.0


def test_a_fact_among_the_first_results_is_a_sign() -> None:
    results = answered("x", "one", "two").results
    facts = FactSet(asked=Asked.ONE, count=1, complete=True, facts=())
    assert features(query("x"), None, results).fact == 0.0
    said = results[1].model_copy(update={"facts": facts, "relevance": 0.9})
    assert features(query("x"), None, (results[0], said)).fact == 0.9
    assert features(query("x"), None, (*[results[0]] * 5, said)).fact == 0.0


def test_the_best_text_by_words_leads_the_sixth() -> None:
    found = Searched(lexical=hits(*((str(number), 0.5) for number in range(5)), ("sixth", 0.2)), took_ms=1)
    assert features(query("x"), found, ()).lead == pytest.approx(10 - 2.5)
    assert features(query("x"), Searched(lexical=hits(("a", 0.5)), took_ms=1), ()).lead == pytest.approx(10)
    assert features(query("x"), Searched(lexical=hits(("a", 1.0)), took_ms=1), ()).lead == pytest.approx(1000)
    assert features(query("x"), searched(*SEVERAL), ()).lead == 0.0


def test_a_vector_that_came_with_its_record_is_no_sign() -> None:
    results = answered("x", "one").results
    (supplied,) = (result.model_copy(update={"id": "a", "vector_supplied": True}) for result in results)
    near = features(query("x"), searched(*SEVERAL, ("g", 0.2)), (supplied,)).nearness
    assert near == pytest.approx((0.3 - 0.2) / (1 - 0.2))


@pytest.mark.parametrize("fusion", [Fusion.WEIGHTED, Fusion.RRF])
def test_a_question_that_a_text_answers_is_surer_than_one_about_something_else(fusion: Fusion) -> None:
    texts = ("The platform team owns Keelson.", "Bread is baked.", "It rained.", "Boats.", "Glue.", "Paper.")
    near, far = ([(f"r{n}", top if n == 0 else 0.2) for n in range(len(texts))] for top in (0.8, 0.25))
    likely = answered("Who owns Keelson?", *texts, searched=searched(*near))
    unlikely = answered("Who painted Keelson in 1632?", *texts, searched=searched(*far))
    assert (in_words(likely.confidence), in_words(unlikely.confidence)) == (
        "likely answered",
        "probably not answered",
    )
    again = fused([record("a")], query=query(fusion=fusion), searched=searched(("a", 0.4)))
    assert 0.0 < again.confidence < 1.0


def test_lost_strands_and_lost_texts_leave_a_chance_and_nothing_found_has_none() -> None:
    words = Searched(lexical=hits(("r0", 0.5)), took_ms=1)
    for pieces in ({"lost": {"embed": LOST}, "searched": words}, {"lost": {"link": LOST, "graph_expand": LOST}}):
        assert 0.0 < answered("the pump", "A pump.", **pieces).confidence < 1.0
    assert features(query("the pump"), None, answered("the pump", "").results) == Features(None, None, None, 0.0, 0.0)
    assert fused(searched=Searched(took_ms=1)).confidence == 0.0


def test_words_are_as_rare_in_a_small_index_as_in_one_of_the_usual_size() -> None:
    def lead(vectors: int, **asked: Any) -> float | None:
        found = searched(*((str(number), 0.5) for number in range(vectors)), lexical=hits(("a", 0.5)))
        return features(query("x", **asked), found, ()).lead

    as_it_is = lead(BACKGROUND)
    assert as_it_is is not None
    assert lead(3) == pytest.approx(as_it_is * math.log(201 / 1.5) / math.log(4 / 1.5))
    assert lead(BACKGROUND - 1) > as_it_is  # type: ignore[operator] - as asserted before
    assert lead(2) is None
    # Of a narrowed search the hits say nothing of how many records there are.
    assert lead(3, filters=Filters(kinds=(Kind.CHUNK,))) == as_it_is
    assert lead(0) == as_it_is
