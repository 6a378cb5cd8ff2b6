"""Facts as answers, over embedded engines: which relationships are results, and what they say of themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import StoreError
from braid.models import Answer, Asked, FactSet, Filters, Kind, Query, Record, Relationship, Result, Source, Vertex
from braid.models.query import NONE_WITH, NONE_WITHOUT, NOT_RELATED
from braid.retrieval.stages import graph_expand
from braid.retrieval.stages.answer_size import MAX_WORKFLOW_ANSWER_BYTES
from braid.settings import Settings

from tests.fakes import NOW, TENANT
from tests.stages import TENANTS, DemoStages, demo_stages

if TYPE_CHECKING:
    from collections.abc import Iterator

JUDGED = Path(__file__).resolve().parents[3] / "bench" / "facts_judged.jsonl"
BEFORE, AFTER = "2025-01-01", "2027-01-01"


@pytest.fixture
def stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DemoStages]:
    monkeypatch.setattr(graph_expand, "FACTS_UNTIL_S", 600.0)  # facts are not given up on a busy machine
    opened = DemoStages(Settings(home=tmp_path))
    yield opened
    opened.close()


def write(stages: DemoStages, *edges: tuple[Any, ...], tenant: str = TENANT, **kinds: str) -> None:
    """Write edges of source, type, target and other fields; names are ids with a capital, kinds are by id."""
    relationships = [
        Relationship(tenant_id=tenant, source=source, type=kind, target=target, **(more[0] if more else {}))
        for source, kind, target, *more in edges
    ]
    ids = dict.fromkeys(end for edge in relationships for end in (edge.source, edge.target)) | kinds
    stages.graph.upsert(
        [
            Vertex(tenant_id=tenant, id=one, name=one.title(), entity_type=kinds.get(one, "Service"), has_record=False)
            for one in ids
        ],
        relationships,
    )


def ask(stages: DemoStages, text: str, **fields: Any) -> Answer:
    return stages.answer(Query(**{"text": text, "tenant_id": TENANT, **fields}))


def stated(answer: Answer) -> FactSet:
    """Return the facts of the first result."""
    facts = answer.results[0].facts
    assert facts is not None
    return facts


def texts(result: Result) -> list[str]:
    return [fact.text for fact in result.facts.facts] if result.facts else []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Who is the current owner of Atlas?", ["Bob owns Atlas"]),
        ("Which current owner does Atlas have?", ["Bob owns Atlas"]),
        ("What are the current dependencies of Atlas?", ["Atlas depends on Boats"]),
        ("Which current services does Bob own?", ["Bob owns Atlas"]),
        ("How many current services does Bob own?", []),
    ],
)
def test_what_is_current_is_what_holds_now(stages: DemoStages, text: str, expected: list[str]) -> None:
    edges = [("ada", "OWNS", "atlas", {"invalid_at": BEFORE}), ("atlas", "DEPENDS_ON", "boats")]
    write(stages, *edges, ("bob", "OWNS", "atlas"), ada="Person", bob="Person")
    stages.graph.upsert([Vertex(tenant_id=TENANT, id="page", entity_type="Document", has_record=True)], [])
    answer = ask(stages, text)
    assert [one for result in answer.results for one in texts(result)] == expected
    assert NOT_RELATED not in answer.plan.reasons


def test_a_relationship_is_a_result_with_its_direction_validity_and_evidence(stages: DemoStages) -> None:
    stages.index.upsert([Record(id="page", tenant_id=TENANT, name="Minutes", content="Ada took over Atlas.")])
    holds = {"evidence": "page", "valid_at": BEFORE, "invalid_at": AFTER, "confidence": 0.9}
    write(stages, ("ada", "OWNS", "atlas", holds), ("atlas", "OWNS", "boats"), ada="Person")
    first = ask(stages, "Who owns Atlas?").results[0]
    assert (first.kind, first.title, first.content) == (Kind.FACT, "Ada owns Atlas", "Ada owns Atlas.")
    assert (first.sources, first.entity_type, first.citation.title) == ((Source.GRAPH,), "Person", "Minutes")
    assert (f"{first.valid_at:%F}", f"{first.invalid_at:%F}") == (BEFORE, AFTER)
    assert texts(ask(stages, "What does Atlas own?").results[0]) == ["Atlas owns Boats"]


def test_two_entities_that_no_relationship_joins_as_asked_are_said_to_be_so(stages: DemoStages) -> None:
    write(stages, ("moss", "DEPENDS_ON", "quillon"), ("fern", "PART_OF", "moss"), ("fern", "OWNS", "quillon"))
    told = {
        text: NOT_RELATED in ask(stages, text).plan.reasons
        for text in (
            "Does Fern depend on Quillon?",
            "Is Quillon part of Moss?",
            "Does Moss depend on Quillon?",
            "Is Fern part of Moss?",
            "Does Fern depend on anything?",
            "Does Fern like Quillon?",
            "What does Fern depend on?",
        )
    }
    assert list(told.values()) == [True, True, False, False, False, False, True], told
    for filters, expected in (({"trusted_only": True}, True), ({"entity_types": ("Team",)}, False)):
        reasons = ask(stages, "Does Fern depend on Quillon?", filters=filters).plan.reasons
        assert (NOT_RELATED in reasons) is expected


@pytest.mark.parametrize(
    "text",
    [
        "Do Alder and Briar both depend on Moss?",
        "Does Alder depend on Moss or Fern?",
        "Do Alder and Briar depend on the same service?",
        "Does anyone in Oak work on Alder?",
        "Does somebody who works on Alder belong to Oak?",
        "Does Bob work with Ada on Alder?",
        "Does Ada work on a service of Oak?",
        "Who works on services in Oak?",
        "Who owns Alder and which services depend on it?",
        "Who owns Alder or works on it?",
        "Who owns Alder and its dependencies?",
        "Who reports to the manager of Ada?",
    ],
)
def test_what_a_question_asks_otherwise_than_of_its_names_alone_is_not_denied(stages: DemoStages, text: str) -> None:
    depends = [("alder", "DEPENDS_ON", "moss"), ("briar", "DEPENDS_ON", "moss"), ("fern", "DEPENDS_ON", "moss")]
    write(stages, *depends, ("oak", "OWNS", "alder"), oak="Team")
    works = [("ada", "PART_OF", "oak"), ("ada", "WORKS_ON", "alder"), ("bob", "PART_OF", "oak")]
    reports = [("ada", "REPORTS_TO", "cyd"), ("bob", "REPORTS_TO", "cyd")]
    write(stages, *works, *reports, ada="Person", bob="Person", cyd="Person", oak="Team")
    assert NOT_RELATED not in ask(stages, text).plan.reasons


MOSS = ["Alder depends on Moss", "Briar depends on Moss", "Fern depends on Moss"]
FERN = ["Briar depends on Fern", "Cedar depends on Fern"]
OF_BOTH = ["Briar depends on Moss", "Briar depends on Fern"]


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("Which services depend on both Moss and Fern?", [OF_BOTH]),
        ("Which services depend on both Fern and Moss?", [OF_BOTH[::-1]]),
        ("How many services depend on both Moss and Fern?", [OF_BOTH]),
        ("What do Briar and Cedar both depend on?", [["Briar depends on Fern", "Cedar depends on Fern"]]),
        ("Which services depend on Moss and Fern?", [OF_BOTH, MOSS, FERN]),
        ("List the services that depend on Moss and on the Fern", [OF_BOTH, MOSS, FERN]),
        ("Who owns Moss and Fern?", [["Ada owns Moss"], ["Bob owns Fern"]]),
        ("Who owns Moss and Alder?", [["Ada owns Moss", "Ada owns Alder"]]),
        ("Who owns Moss, Alder and Fern?", [["Ada owns Moss"], ["Ada owns Alder"], ["Bob owns Fern"]]),
        ("Which services depend on either Moss or Fern?", [MOSS, FERN]),
        ("Which services depend on Fern but not on Moss?", [["Cedar depends on Fern"]]),
        ("How many services depend on Fern and not on Moss?", [["Cedar depends on Fern"]]),
        ("Which services depend on neither Moss nor Fern?", [["Dogwood", "Elder"]]),
        ("Which services do not depend on Moss or Fern?", [["Dogwood", "Elder"]]),
        ("Which services do not depend on Moss and Fern?", []),
        ("Which services depend on Moss but not on Fern but on Alder?", []),
        ("Which services depend on Moss or Fern but not both?", []),
        ("Which services depend on either Moss or Fern, but not on both?", []),
        ("Which services do not depend on Moss and not on Fern?", []),
        ("Which services depend on all of Moss and Fern?", [OF_BOTH]),
        ("Which services depend on any of Moss and Fern?", [MOSS, FERN]),
        ("Which services depend on one of Moss and Fern?", []),
        ("Which services depend on two of Moss, Fern and Alder?", []),
        ("Which services depend on Moss as well as on Fern?", [OF_BOTH, MOSS, FERN]),
        ("How many services depend on Moss or Fern?", []),
        ("How many services does Ada or Bob own?", [["Ada owns Alder", "Ada owns Moss", "Bob owns Fern"]]),
        ("How many services depend on Moss and Fern?", []),
        ("How many services do Ada and Bob own?", [["Ada owns Alder", "Ada owns Moss", "Bob owns Fern"]]),
        ("How many services do Briar and Cedar need?", []),
        ("How many services do Alder and Fern need?", [["Alder depends on Moss", "Fern depends on Moss"]]),
        ("How many services do Ada and Bob each own?", [["Ada owns Alder", "Ada owns Moss"], ["Bob owns Fern"]]),
        ("Who owns both Moss and Fern?", []),
        ("What is the dependency between Moss and Fern?", []),
    ],
)
def test_one_relationship_of_joined_names(stages: DemoStages, text: str, groups: list[list[str]]) -> None:
    depends = [("alder", "moss"), ("briar", "moss"), ("fern", "moss"), ("briar", "fern"), ("cedar", "fern")]
    write(stages, *((one, "DEPENDS_ON", other) for one, other in depends), dogwood="Service", elder="Service")
    owns = [("ada", "moss"), ("ada", "alder"), ("bob", "fern")]
    write(stages, *((one, "OWNS", other) for one, other in owns), ada="Person", bob="Person")
    results = [texts(result) for result in ask(stages, text).results if result.facts]
    assert results == groups


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("Which services owned by Oak depend on Moss?", [["Oak owns Alder", "Alder depends on Moss"]]),
        ("Which services does Oak own that depend on Moss?", [["Oak owns Alder", "Alder depends on Moss"]]),
        ("How many services that depend on Moss are owned by Oak?", [["Alder depends on Moss", "Oak owns Alder"]]),
        ("Which services of Oak depend on Moss?", [["Oak owns Alder", "Alder depends on Moss"]]),
        ("Which services owned by Oak do not depend on Moss?", [["Oak owns Cedar"]]),
        ("Which services that don't depend on Moss are owned by Oak?", [["Oak owns Cedar"]]),
        ("Who in Oak works on Cedar?", [["Ada is part of Oak", "Ada works on Cedar"]]),
        ("Who from Oak works on Cedar?", [["Ada is part of Oak", "Ada works on Cedar"]]),
        ("Who works on Cedar and is part of Oak?", [["Ada works on Cedar", "Ada is part of Oak"]]),
        ("Who works on Cedar without being part of Oak?", [["Bob works on Cedar"]]),
        ("Which services depend on Moss or are owned by Oak?", []),
        ("Which services are either owned by Oak or depend on Moss?", []),
        ("Which services depend on Moss unless owned by Oak?", []),
        ("Which services depend on Moss, and which are owned by Oak?", []),
        ("Who works on Alder and who works on Cedar?", []),
        ("Who works outside Cedar and is part of Oak?", []),
        ("Who both works on Cedar and is part of Oak?", [["Ada works on Cedar", "Ada is part of Oak"]]),
        ("Is anyone who works on Cedar part of Oak?", [["Ada works on Cedar", "Ada is part of Oak"]]),
        ("Who works on Cedar but not in Oak?", []),
        ("Which services owned by Oak depend on anything but Moss?", []),
        ("Which services does only Oak own that depend on Moss?", []),
        ("Which services owned by Oak depend on Cedar?", []),
        ("Which services owned by Oak call Moss?", []),
        ("Which old services owned by Oak and Elm depend on Moss?", []),
        ("Who works on the services owned by Oak that depend on Moss?", []),
        ("Which services owned by Oak do not depend on Moss and are not live?", []),
    ],
)
def test_a_condition_by_each_name(stages: DemoStages, text: str, groups: list[list[str]]) -> None:
    depends = [("alder", "moss"), ("briar", "moss"), ("cedar", "fern")]
    write(stages, *((one, "DEPENDS_ON", other) for one, other in depends))
    teams = {"oak": "Team", "elm": "Team"}
    write(stages, ("oak", "OWNS", "alder"), ("oak", "OWNS", "cedar"), ("elm", "OWNS", "briar"), **teams)
    people = {"ada": "Person", "bob": "Person", "cyd": "Person", **teams}
    write(stages, ("ada", "PART_OF", "oak"), ("bob", "PART_OF", "elm"), ("cyd", "PART_OF", "oak"), **people)
    write(stages, ("ada", "WORKS_ON", "cedar"), ("bob", "WORKS_ON", "cedar"), ("cyd", "WORKS_ON", "alder"), **people)
    stages.index.upsert([Record(id="page", tenant_id=TENANT, content="Oak and Moss are old")])
    assert [texts(result) for result in ask(stages, text).results if result.facts] == groups


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("Which services owned by Oak have tickets?", []),
        ("Which services owned by Oak have no tickets?", []),
        ("Services owned by Oak without tickets", []),
        ("Which services of Oak does nobody work on?", []),
        ("Services owned by Oak other than Alder", []),
        ("Who works on all but Alder?", []),
        ("Who works on everything that Ada works on?", []),
        ("Which team owns all services that depend on Moss?", []),
        ("Which team owns the most services that depend on Moss?", []),
        ("Which services depend on Moss and what it depends on?", []),
        ("Who are all the owners of Alder?", ["Oak"]),
        ("What are all the services that Oak owns?", ["Alder", "Cedar"]),
        ("Which services does Oak own, but not those of Elm?", []),
        ("Who is in the team that owns Alder?", []),
        ("Which services depend on services owned by Elm?", ["Cedar"]),
        ("Which services depend on services not owned by Elm?", []),
        ("Which services do not depend on services owned by Elm?", ["Alder", "Briar", "Fern", "Moss"]),
        ("Whose manager works on Briar?", ["Bob"]),
        ("Which managers work on Briar?", []),
        ("Which people outside Oak work on Alder?", []),
        ("Who is on the team that owns Alder?", []),
        ("Which people that work on Alder opened tickets?", []),
    ],
)
def test_what_a_question_says_beside_its_relationships_is_not_ignored(
    stages: DemoStages, text: str, answers: list[str]
) -> None:
    kinds = {"oak": "Team", "elm": "Team", "ada": "Person", "bob": "Person", "t1": "Ticket"}
    owns = [("oak", "OWNS", "alder"), ("oak", "OWNS", "cedar"), ("elm", "OWNS", "briar")]
    depends = [("alder", "DEPENDS_ON", "moss"), ("briar", "DEPENDS_ON", "moss"), ("moss", "DEPENDS_ON", "fern")]
    works = [("ada", "WORKS_ON", "alder"), ("bob", "WORKS_ON", "alder"), ("ada", "WORKS_ON", "briar")]
    tickets = [("t1", "AFFECTS", "alder"), ("ada", "OPENED", "t1"), ("ada", "PART_OF", "oak")]
    tickets += [("bob", "REPORTS_TO", "ada"), ("cedar", "DEPENDS_ON", "briar")]
    write(stages, *owns, *depends, *works, *tickets, **kinds)
    stages.index.upsert([Record(id="page", tenant_id=TENANT, content="Oak and Moss are old")])
    answer = ask(stages, text)
    found = [fact.name for result in answer.results if result.facts for fact in result.facts.facts]
    assert found == answers
    assert NOT_RELATED not in answer.plan.reasons


def test_of_names_to_choose_from_others_are_no_answer(stages: DemoStages) -> None:
    people = {"ada": "Person", "bob": "Person", "cyd": "Person"}
    write(stages, ("ada", "OWNS", "moss"), ("cyd", "OWNS", "moss"), ("ada", "OWNS", "fern"), **people)
    for text, owners in (("Who owns Moss, Ada or Bob?", []), ("Who owns Fern: Ada or Bob?", ["Ada"])):
        assert [fact.name for one in ask(stages, text).results if one.facts for fact in one.facts.facts] == owners


def test_a_predicate_the_other_way_round_is_no_fact_beside_one_the_right_way_round(stages: DemoStages) -> None:
    beat = {"predicate": "beat"}
    write(stages, ("turin", "RELATED_TO", "leith", beat), ("bruges", "RELATED_TO", "turin", beat))
    stages.index.upsert([Record(id="page", tenant_id=TENANT, content="Turin and Leith are clubs")])
    found = ask(stages, "What did Turin beat?").results
    assert [texts(result) for result in found if result.facts] == [["Turin beat Leith"]]
    found = ask(stages, "What did Leith beat?").results
    assert [texts(result) for result in found if result.facts] == [["Turin beat Leith"]]


def test_none_is_related_to_both_of_two_names(stages: DemoStages) -> None:
    write(stages, ("alder", "DEPENDS_ON", "moss"), ("briar", "DEPENDS_ON", "fern"))
    stages.index.upsert([Record(id="page", tenant_id=TENANT, content="Moss and Fern are old")])
    answer = ask(stages, "How many services depend on both Moss and Fern?")
    assert NONE_WITH in answer.plan.reasons
    assert not any(result.facts for result in answer.results)


def test_what_is_related_to_one_of_two_names_by_a_record_that_is_left_out_is_not_related_to_both(
    stages: DemoStages,
) -> None:
    stages.index.upsert([Record(id="page", tenant_id=TENANT, content="Minutes", task_id="t")])
    shown = {"evidence": "page"}
    write(
        stages,
        *(("alder", "DEPENDS_ON", "moss", shown), ("alder", "DEPENDS_ON", "fern", shown)),
        *(("briar", "DEPENDS_ON", "moss", shown), ("briar", "DEPENDS_ON", "fern")),
    )
    text = "Which services depend on both Moss and Fern?"
    (all_of_both,) = [texts(result) for result in ask(stages, text).results if result.facts]
    assert len(all_of_both) == 4
    (of_the_task,) = [texts(one) for one in ask(stages, text, filters=Filters(task_id="t")).results if one.facts]
    assert of_the_task == ["Alder depends on Moss", "Alder depends on Fern"]


def test_a_part_of_a_name_answers_with_a_synonym_too(stages: DemoStages) -> None:
    kinds = {"dele okonjo": "Person", "yuki tanabe": "Person", "foundry": "Team"}
    write(stages, ("dele okonjo", "REPORTS_TO", "yuki tanabe"), ("dele okonjo", "PART_OF", "foundry"), **kinds)
    stages.index.upsert([Record(id="page", tenant_id=TENANT, content="Boats are blue")])
    for text, expected in (
        ("Who is the manager of Dele?", "Dele Okonjo reports to Yuki Tanabe"),
        ("Who manages Dele Okonjo?", "Dele Okonjo reports to Yuki Tanabe"),
        ("Which team does Dele belong to?", "Dele Okonjo is part of Foundry"),
    ):
        assert texts(ask(stages, text).results[0]) == [expected], text
    for text in ("Who is the manager of dele?", "Who is the manager of Dela?"):
        assert not any(result.facts for result in ask(stages, text).results), text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Who owns Fern?", True),
        ("What is Fern owned by?", True),
        ("Which team owns Fern?", True),
        ("Who owns Moss?", False),
        ("Who owns Fern in Lisbon?", False),
        ("Why does Fern have no owner?", False),
        ("What is Fern?", False),
        ("Who owns it?", False),
    ],
)
def test_that_nobody_is_so_related_to_what_a_question_names_is_said(
    stages: DemoStages, text: str, expected: bool
) -> None:
    write(stages, ("ada", "OWNS", "moss"), ada="Person", fern="Service", till="Team")
    assert (NOT_RELATED in ask(stages, text).plan.reasons) is expected


@pytest.mark.parametrize(
    "text",
    ["Which services of Ada have been replaced?", "Which of Ada's services are replaced?"],
)
def test_what_is_asked_of_something_that_belongs_to_a_name_is_not_denied_of_the_name(
    stages: DemoStages, text: str
) -> None:
    write(stages, ("ada", "OWNS", "moss"), ("fern", "REPLACES", "moss"), ("moss", "DEPENDS_ON", "oak"), ada="Person")
    assert NOT_RELATED not in ask(stages, text).plan.reasons


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Which agent handles Tarn?", ["Ada handles Tarn"]),
        ("Which quokka handles Tarn?", []),
        ("Which service holds Tarn?", []),
        ("Which service family does Moss belong to?", ["Moss belongs to Reeds"]),
        ("How many service families does Ada own?", []),
        ("Which families does Ada own?", ["Ada owns Reeds", "Ada owns Sedges"]),
        ("Is Tarn open?", []),
        ("Is Moss live?", []),
    ],
)
def test_a_relationship_that_the_graph_has_is_not_denied(stages: DemoStages, text: str, expected: list[str]) -> None:
    kinds = {"ada": "Person", "bob": "Person", "tarn": "Ticket", "reeds": "Family", "sedges": "Family", "ely": "Town"}
    edges = [("ada", "HANDLES", "tarn"), ("bob", "OPENED", "tarn"), ("moss", "BELONGS_TO", "reeds")]
    edges += [("ada", "OWNS", one) for one in ("reeds", "sedges", "tarn")]
    write(stages, *edges, ("moss", "LIVES_IN", "ely"), **kinds)
    stages.graph.upsert([Vertex(tenant_id=TENANT, id="page", entity_type="Document", has_record=True)], [])
    answer = ask(stages, text)
    assert [one for result in answer.results for one in texts(result)] == expected
    assert not {NOT_RELATED, NONE_WITH}.intersection(answer.plan.reasons)


@pytest.mark.parametrize(
    "text",
    ["How many services does Bob have?", "Which services does Bob have?", "Services of Bob", "All services of Bob"],
)
def test_a_relationship_that_of_or_have_alone_may_mean_is_not_denied(stages: DemoStages, text: str) -> None:
    write(stages, ("ada", "OWNS", "moss"), ("bob", "MAINTAINS", "fern"), ada="Person", bob="Person")
    assert not {NOT_RELATED, NONE_WITH}.intersection(ask(stages, text).plan.reasons)
    assert NONE_WITH in ask(stages, "How many services does Bob own?").plan.reasons


def test_what_was_done_today_is_not_all_that_holds_today(stages: DemoStages) -> None:
    write(stages, ("bob", "OPENED", "t1"), ("bob", "OWNS", "moss"), bob="Person", t1="Ticket")
    for text in (
        "How many tickets did Bob open today?",
        "Which tickets were opened by Bob today?",
        "Which tickets has Bob opened today?",
    ):
        assert not any(result.facts for result in ask(stages, text).results)
    assert texts(ask(stages, "What does Bob own today?").results[0]) == ["Bob owns Moss"]


def test_facts_stand_among_the_texts_and_share_their_places(stages: DemoStages) -> None:
    write(stages, ("ada", "OWNS", "atlas"), ada="Person")
    stages.index.upsert([Record(id=f"r{n}", tenant_id=TENANT, content="Who owns Atlas is unknown") for n in range(3)])
    answer = ask(stages, "Who owns Atlas?", top_k=3)
    assert [result.rank for result in answer.results] == [1, 2, 3]
    assert [result.kind for result in answer.results] == [Kind.FACT, Kind.CHUNK, Kind.CHUNK]
    assert answer.counts["facts"] == 1


def test_a_set_is_answered_whole_with_its_count(stages: DemoStages) -> None:
    write(stages, *((f"part {number}", "DEPENDS_ON", "atlas") for number in range(60)))
    facts = stated(ask(stages, "How many services depend on Atlas?"))
    assert (facts.asked, facts.count, facts.complete, len(facts.facts)) == (Asked.COUNT, 60, True, 50)


def test_a_hub_is_counted_as_far_as_it_is_read_and_says_so(stages: DemoStages) -> None:
    write(stages, *((f"part {number}", "DEPENDS_ON", "atlas") for number in range(250)))
    answer = ask(stages, "How many services depend on Atlas?")
    assert (stated(answer).count, stated(answer).complete) == (200, False)
    assert answer.results[0].title.startswith("at least 200 in the graph")


def test_facts_whose_evidence_is_not_read_are_not_counted_among_those_that_meet_a_condition(stages: DemoStages) -> None:
    write(stages, *((f"part {number}", "DEPENDS_ON", "atlas", {"evidence": f"r{number}"}) for number in range(80)))
    notes = [Record(id=f"r{n}", tenant_id=TENANT, content="x", metadata={"even": n % 2 == 0}) for n in range(80)]
    stages.index.upsert(notes)
    filters = Filters.model_validate({"metadata": {"even": True}})
    found = ask(stages, "How many services depend on Atlas?", filters=filters).results[0]
    assert found.facts
    assert (found.facts.count, found.facts.complete) == (len(found.facts.facts), False)
    assert found.title.startswith(f"at least {found.facts.count} in the graph")
    assert stated(ask(stages, "How many services depend on Atlas?")).count == 80


def test_what_stands_in_no_relation_is_the_rest_of_its_kind(stages: DemoStages) -> None:
    write(stages, ("boats", "DEPENDS_ON", "atlas"), cars="Service", carts="Service", ada="Person")
    facts = stated(ask(stages, "Which services do not depend on Atlas?"))
    assert ([fact.answer for fact in facts.facts], facts.count) == (["cars", "carts"], 2)


def test_what_the_rest_lacks_is_said_by_the_relationship_that_the_question_says_best(stages: DemoStages) -> None:
    write(stages, ("ada", "OWNS", "boats"), ("boats", "BELONGS_TO", "fleet"), ada="Person", bob="Person", fleet="Fleet")
    title = ask(stages, "Who does not own Boats?").results[0].title
    assert title == "1 without a relationship “owns” in the graph: Bob"


def test_the_rest_is_of_the_types_that_the_filters_leave(stages: DemoStages) -> None:
    write(stages, ("boats", "DEPENDS_ON", "atlas"), cars="Service", ada="Person")
    text = "Which services do not depend on Atlas?"
    for types, expected in ((("Service", "Person"), ["cars"]), (("Person",), [])):
        answer = ask(stages, text, filters=Filters(entity_types=types))
        found = [fact.answer for result in answer.results if result.facts for fact in result.facts.facts]
        assert found == expected


def test_no_before_a_relationship_asks_for_those_without_it(stages: DemoStages) -> None:
    write(stages, ("boats", "DEPENDS_ON", "atlas"), cars="Service", carts="Service")
    for text in ("Which services have no dependency on Atlas?", "How many services have no dependency on Atlas?"):
        assert names(ask(stages, text)) == ["Cars", "Carts"]
    assert texts(ask(stages, "Which services have a dependency on Atlas?").results[0]) == ["Boats depends on Atlas"]
    assert texts(ask(stages, "What are the dependencies of Boats?").results[0]) == ["Boats depends on Atlas"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Which services have no owner in Till?", []),
        ("How many services of Till have no owner?", []),
        ("Which services are not owned by the Till?", ["Atlas"]),
        ("Which people are not part of Till?", ["Ben"]),
        ("Which people are not in Till?", ["Ben"]),
    ],
)
def test_a_name_that_narrows_the_set_is_no_end_of_the_relationship(
    stages: DemoStages, text: str, expected: list[str]
) -> None:
    kinds = {"till": "Team", "ada": "Person", "ben": "Person", "atlas": "Service"}
    write(stages, ("till", "OWNS", "boats"), ("ada", "PART_OF", "till"), **kinds)
    assert names(ask(stages, text)) == expected


@pytest.mark.parametrize("text", ["Who does not supply Atlas?", "Which companies do not supply Atlas?"])
def test_the_rest_is_of_the_types_that_stand_in_the_relation_if_the_noun_means_several(
    stages: DemoStages, text: str
) -> None:
    kinds = {"boats": "Supplier", "cars": "Supplier", "till": "Team", "ada": "Person"}
    write(stages, ("boats", "SUPPLIES", "atlas"), ("till", "OWNS", "quillon"), **kinds)
    assert names(ask(stages, text)) == ["Cars"]
    answer = ask(stages, text.replace("Atlas", "Quillon"))
    assert (names(answer), answer.set_not_answered) == ([], Asked.NOT)


@pytest.mark.parametrize("text", ["Which services do not depend on Atlas?", "Which services do not depend on Atlsa?"])
def test_what_stands_in_a_relation_of_little_confidence_is_not_among_the_rest(stages: DemoStages, text: str) -> None:
    write(stages, ("boats", "DEPENDS_ON", "atlas", {"confidence": 0.01}), cars="Service")
    assert [fact.answer for fact in stated(ask(stages, text)).facts] == ["cars"]


def test_the_rest_is_no_answer_where_the_question_says_more_than_the_relation(stages: DemoStages) -> None:
    write(stages, ("boats", "DEPENDS_ON", "atlas"), ("cars", "CALLS", "boats"), carts="Service")
    for said in (
        "depend on Atlas in production",
        "really need Atlas for the nightly exports",
        "depend on Atlas and Cars",
    ):
        answer = ask(stages, f"Which services do not {said}?")
        assert not [result for result in answer.results if result.facts], said
        assert answer.set_not_answered is Asked.NOT


def names(answer: Answer) -> list[str]:
    """Return the names of the first result's entities; empty if it is no fact."""
    facts = answer.results[0].facts if answer.results else None
    return [fact.name for fact in facts.facts] if facts else []


def test_a_set_of_a_type_is_answered_where_no_entity_is_named(stages: DemoStages) -> None:
    write(stages, ("boats", "DEPENDS_ON", "atlas"), ("ada", "OWNS", "boats"), ada="Person", ben="Person")
    found = Vertex(tenant_id=TENANT, id="found:zed", name="Zed", entity_type="Person", has_record=False, found=True)
    stages.graph.upsert([found], [])
    counted = stated(ask(stages, "How many people are there?"))
    assert (counted.asked, counted.count, counted.complete) == (Asked.COUNT, 2, True)
    assert ask(stages, "List all services").results[0].title == "2 in the graph: Atlas, Boats"
    first = ask(stages, "Which services have no owner?").results[0]
    assert (first.title, first.reasons) == (
        "1 without a relationship “owns” in the graph: Atlas",
        ("fact: without OWNS",),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Which services have no owner?", ["Atlas"]),
        ("Which services are not owned?", ["Atlas"]),
        ("Which services are owned by nobody?", ["Atlas"]),
        ("Which services does nobody own?", ["Atlas"]),
        ("Which people own nothing?", ["Ben"]),
        ("Which people do not own anything?", ["Ben"]),
        ("Which services depend on nothing?", ["Atlas"]),
        ("Which services have no dependents?", ["Boats"]),
        ("Which services does nothing depend on?", ["Boats"]),
        ("Which services lack an owner?", ["Atlas"]),
        ("Services that nobody owns", ["Atlas"]),
        ("Services that no person owns", ["Atlas"]),
        ("Services that have no owner", ["Atlas"]),
        ("Which services does no service depend on?", ["Boats"]),
        ("How many services does no service depend on?", ["Boats"]),
        ("On which services does no service depend?", ["Boats"]),
        ("No service depends on which services?", ["Boats"]),
        ("Are there any services that no service depends on?", ["Boats"]),
        ("Which services depend on no service?", ["Atlas"]),
        ("Which services do not depend on any service?", ["Atlas"]),
        ("Which services does no person own?", ["Atlas"]),
        ("Which services are owned by no person?", ["Atlas"]),
        ("Which services are not owned by any person?", ["Atlas"]),
        ("Which people own no service?", ["Ben"]),
        ("Who owns no service?", ["Ben"]),
        ("Which people own no person?", []),
        ("Which services does no outage depend on?", []),
    ],
)
def test_those_without_a_relationship_are_found_on_the_side_that_the_question_says(
    stages: DemoStages, text: str, expected: list[str]
) -> None:
    write(stages, ("boats", "DEPENDS_ON", "atlas"), ("ada", "OWNS", "boats"), ada="Person", ben="Person")
    assert names(ask(stages, text)) == expected


def test_the_rest_is_not_of_a_type_that_never_stands_in_the_relation(stages: DemoStages) -> None:
    kinds = {"dr amsel": "Doctor", "dr bruun": "Doctor", "medco": "Supplier", "paul": "Patient"}
    write(stages, ("dr amsel", "TREATS", "paul"), **kinds)
    assert not any(result.facts for result in ask(stages, "Who does not treat Paul?").results)
    assert names(ask(stages, "Which doctors do not treat Paul?")) == ["Dr Bruun"]


def test_those_that_nothing_of_a_type_is_related_to_may_be_related_to_others(stages: DemoStages) -> None:
    edges = [("boats", "DEPENDS_ON", "atlas"), ("till", "DEPENDS_ON", "boats"), ("atlas", "OWNED_BY", "till")]
    write(stages, *edges, till="Team", ada="Person")
    assert names(ask(stages, "Which services does no service depend on?")) == ["Boats"]
    assert names(ask(stages, "Which services does no team depend on?")) == ["Atlas"]
    for text in ("Which services does no team own?", "Which services does nobody own?"):
        assert names(ask(stages, text)) == ["Boats"], text
    assert not names(ask(stages, "Which services does no person own?"))


def test_who_without_a_relationship_is_of_the_types_that_others_with_it_are_of(stages: DemoStages) -> None:
    kinds = {"ada": "Person", "ben": "Person", "till": "Organization", "gate": "Organization"}
    write(stages, ("ada", "WORKS_ON", "boats"), ("till", "OWNS", "boats"), **kinds)
    assert names(ask(stages, "Who works on nothing?")) == ["Ben"]
    assert names(ask(stages, "Who owns nothing?")) == ["Gate"]
    assert not names(ask(stages, "Who supplies nothing?"))


def test_no_set_is_answered_from_the_side_of_a_relationship_on_which_the_type_never_stands(stages: DemoStages) -> None:
    write(stages, ("ada", "OWNS", "boats"), ada="Person", cars="Service")
    assert not names(ask(stages, "Which services own nothing?"))


@pytest.mark.parametrize("text", ["Which services are there?", "Which services do not depend on Atlas?"])
@pytest.mark.parametrize("letter", ["x", "\U00020000"])
def test_of_a_set_with_very_long_names_a_part_is_shown_and_all_are_counted(
    stages: DemoStages, text: str, letter: str
) -> None:
    write(stages, ("boats", "DEPENDS_ON", "atlas"))
    long = [
        Vertex(tenant_id=TENANT, id=f"s{n}", name=f"{letter * 500} {n}", entity_type="Service", has_record=False)
        for n in range(60)
    ]
    stages.graph.upsert(long, [])
    answer = ask(stages, text)
    facts = stated(answer)
    assert facts.complete
    assert facts.count >= 60
    assert 1 <= len(facts.facts) < 50
    assert "more" in answer.results[0].content
    assert len(json.dumps(answer.model_dump(mode="json"))) <= MAX_WORKFLOW_ANSWER_BYTES


def test_of_facts_whose_evidence_has_very_long_titles_a_part_is_shown_and_all_are_counted(stages: DemoStages) -> None:
    ids = [f"s{number}" for number in range(40)]
    title = "\U00020000" * 500
    stages.index.upsert([Record(id=f"of {one}", tenant_id=TENANT, name=title, content="A text.") for one in ids])
    write(stages, *((one, "DEPENDS_ON", "atlas", {"evidence": f"of {one}"}) for one in ids))
    answer = ask(stages, "Which services depend on Atlas?")
    facts = stated(answer)
    assert facts.count == 40
    assert 1 <= len(facts.facts) < 40
    assert answer.results[0].shortened
    assert len(json.dumps(answer.model_dump(mode="json"))) <= MAX_WORKFLOW_ANSWER_BYTES


@pytest.mark.parametrize("text", ["Which services have no owner?", "Which services do not depend on Atlas?"])
def test_that_every_entity_of_the_type_is_in_the_relationship_is_said(stages: DemoStages, text: str) -> None:
    edges = [("ada", "OWNS", "boats"), ("ada", "OWNS", "atlas"), ("boats", "DEPENDS_ON", "atlas")]
    write(stages, *edges, ada="Person")
    answer = ask(stages, text)
    assert not names(answer)
    assert NONE_WITHOUT in answer.plan.reasons
    assert answer.set_not_answered is None


@pytest.mark.parametrize(
    ("text", "is_none"),
    [
        ("How many services depend on Boats?", True),
        ("List all services that depend on Boats", True),
        ("How many services does Atlas depend on?", True),
        ("How many people own Atlas?", True),
        ("How many services depend on Atlas?", False),
        ("How many people depend on Atlas?", False),
        ("How many laptops does Atlas own?", False),
        ("How many services depend on Boats in Lisbon at night?", False),
        ("How many services depend on what Boats owns?", False),
        ("Which services depend on Boats?", False),
    ],
)
def test_that_nothing_stands_in_the_relation_is_said_of_a_set(stages: DemoStages, text: str, *, is_none: bool) -> None:
    write(stages, ("boats", "DEPENDS_ON", "atlas"), ("ada", "OWNS", "boats"), ada="Person")
    answer = ask(stages, text)
    assert (NONE_WITH in answer.plan.reasons) is is_none
    assert not (is_none and (answer.set_not_answered or names(answer)))


def test_a_set_of_a_type_is_of_what_is_trusted_valid_and_not_filtered_out(stages: DemoStages) -> None:
    ended = {"invalid_at": "2020-01-01"}
    write(stages, ("ada", "OWNS", "boats", ended), ("ada", "OWNS", "cars"), ada="Person")
    stages.graph.upsert(
        [Vertex(tenant_id=TENANT, id="doubt", name="Doubt", entity_type="Service", has_record=True, trusted=False)], []
    )
    assert names(ask(stages, "Which services have no owner?")) == ["Boats", "Doubt"]
    assert names(ask(stages, "Which services have no owner?", filters={"trusted_only": True})) == ["Boats"]
    for filters in ({"entity_types": ("Person",)}, {"metadata": {"team": "a"}}):
        assert not names(ask(stages, "Which services have no owner?", filters=filters))


def test_a_set_counts_only_what_is_of_the_kind_that_is_asked_for(stages: DemoStages) -> None:
    edges = [("boats", "OWNS", "atlas"), ("cars", "OWNS", "atlas"), ("ada", "OWNS", "boats")]
    write(stages, *edges, ada="Person")
    for text in ("How many persons own Atlas?", "List all persons that own Atlas"):
        answer = ask(stages, text)
        assert not [result for result in answer.results if result.facts]
        assert answer.set_not_answered
    assert stated(ask(stages, "How many services own Atlas?")).count == 2
    assert texts(ask(stages, "Which person owns Atlas?").results[0]) == ["Boats owns Atlas", "Cars owns Atlas"]


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("How many laptops does Ada own?", []),
        ("Which cars does Ada own?", []),
        ("Which things does Ada own?", ["Boats"]),
        ("Which payment services does Ada own?", ["Boats"]),
        ("Which sites does Ada own?", ["Boats"]),
        ("Which pianists own Boats?", ["Ada"]),
        ("Which pianists does Ada own?", []),
        ("What laptops does Bob own?", ["Tarn"]),
        ("How many laptops does Ada have?", []),
    ],
)
def test_a_noun_that_names_no_type_of_the_graph_is_not_ignored(
    stages: DemoStages, text: str, answers: list[str]
) -> None:
    write(stages, ("ada", "OWNS", "boats"), ("bob", "OWNS", "tarn"), ada="Person", bob="Person", tarn="Concept")
    answer = ask(stages, text)
    assert [fact.name for result in answer.results if result.facts for fact in result.facts.facts] == answers


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("How many tickets does Ada handle?", ["T1", "T2"]),
        ("How many urgent tickets does Ada handle?", []),
        ("How many open tickets does Ada handle?", []),
        ("Which closed tickets does Ada handle?", []),
        ("List the urgent tickets that Ada handles", []),
        ("Which urgent tickets does Ada not handle?", []),
        ("How many open tickets are about Boats?", []),
        ("How many closed tickets did Bob open?", []),
        ("How many open tickets does Bob have?", []),
        ("What are the open tickets of Bob?", []),
        ("Show all urgent tickets that Bob opened", []),
        ("Which of the tickets of Bob are open?", []),
        ("How many tickets of Bob are open?", []),
        ("How many tickets did Bob open?", ["T1", "T2"]),
        ("Which tickets did Bob open?", ["T1", "T2"]),
        ("How many different tickets did Bob open?", ["T1", "T2"]),
        ("Which two tickets did Bob open?", ["T1", "T2"]),
        ("Which urgent ticket is about Cars?", ["T2"]),
        ("How many support teams does Ada lead?", ["Till"]),
        ("How many night teams does Ada lead?", []),
        ("How many dependent services does Cars have?", ["Boats"]),
        ("How many dependent services depend on Cars?", ["Boats"]),
    ],
)
def test_a_word_that_narrows_the_set_is_not_ignored(stages: DemoStages, text: str, answers: list[str]) -> None:
    kinds = {"ada": "Person", "bob": "Person", "till": "SupportTeam", "t1": "Ticket", "t2": "Ticket", "t3": "Ticket"}
    edges = [(who, kind, one) for who, kind in (("ada", "HANDLES"), ("bob", "OPENED")) for one in ("t1", "t2")]
    edges += [("t1", "ABOUT", "boats"), ("t2", "ABOUT", "boats"), ("t2", "ABOUT", "cars"), ("ada", "LEADS", "till")]
    write(stages, *edges, ("boats", "DEPENDS_ON", "cars"), **kinds)
    stages.graph.upsert([Vertex(tenant_id=TENANT, id="page", entity_type="Document", has_record=True)], [])
    answer = ask(stages, text)
    found = [fact.name for result in answer.results if result.facts for fact in result.facts.facts]
    assert found == answers
    asks_for_a_set = text.startswith(("How many", "List", "Show")) or " not " in text
    assert bool(answer.set_not_answered) is (asks_for_a_set and not answers)
    assert not {NOT_RELATED, NONE_WITH, NONE_WITHOUT}.intersection(answer.plan.reasons)


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("How many people does Till have?", ["Ada"]),
        ("How many services does Till have?", ["Boats"]),
        ("Services of Till", ["Boats"]),
        ("What are the services of Till?", ["Boats"]),
        ("Which services does Ada have?", []),
        ("Which services are in Till?", []),
        ("How many teams does Till have?", []),
    ],
)
def test_what_belongs_to_something_is_what_it_has(stages: DemoStages, text: str, answers: list[str]) -> None:
    write(stages, ("ada", "PART_OF", "till"), ("till", "OWNS", "boats"), ada="Person", till="Team")
    answer = ask(stages, text)
    assert [fact.name for result in answer.results if result.facts for fact in result.facts.facts] == answers


@pytest.mark.parametrize("affects", ["AFFECTS_SERVICE", "AFFECT_SERVICE", "AFFECTS"])
@pytest.mark.parametrize("owns", ["OWNS_SERVICE", "HAS_SERVICE", "OWNS"])
def test_a_noun_of_a_label_that_only_names_a_kind_neither_says_the_relationship_nor_must_be_said(
    stages: DemoStages, affects: str, owns: str
) -> None:
    kinds = {"flood": "Incident", "storm": "Incident", "till": "Team", "ada": "Person", "pact 7": "Contract"}
    edges = [("boats", "DEPENDS_ON", "atlas"), ("flood", affects, "boats"), ("storm", affects, "atlas")]
    edges += [("till", owns, "boats"), ("till", owns, "atlas"), ("ada", "MANAGES_CONTRACT", "pact 7")]
    write(stages, *edges, ("ada", "MEMBER_OF_TEAM", "till"), **kinds)
    asked = {
        "How many services depend on Atlas?": ["Boats"],
        "Which services depend on Atlas?": ["Boats"],
        f"Which services does Till {'have' if owns == 'HAS_SERVICE' else 'own'}?": ["Atlas", "Boats"],
        "Which services does Flood affect?": ["Boats"],
        "Which services are affected by Storm?": ["Atlas"],
        "Which incident affects Boats?": ["Flood"],
        "Who manages Pact 7?": ["Ada"],
        "Which contract does Ada manage?": ["Pact 7"],
        "Who is a member of Till?": ["Ada"],
        "Which team is Ada a member of?": ["Till"],
    }
    assert {text: sorted(names(ask(stages, text))) for text in asked} == asked


def test_a_noun_that_is_a_type_is_the_relationship_where_nothing_else_says_one(stages: DemoStages) -> None:
    edges = [("zed", "SUPPLIES", "boats"), ("boats", "DEPENDS_ON", "atlas"), ("atlas", "USES", "zed")]
    write(stages, *edges, zed="Supplier")
    asked = {
        "Which suppliers does Boats have?": ["Zed"],
        "List all suppliers of the service that depends on Atlas": ["Zed"],
        "Which suppliers does Atlas use?": ["Zed"],
    }
    assert {text: names(ask(stages, text)) for text in asked} == asked


def test_a_set_that_the_graph_does_not_answer_is_marked(stages: DemoStages) -> None:
    write(stages, ("boats", "DEPENDS_ON", "atlas"))
    stages.index.upsert([Record(id="r", tenant_id=TENANT, content="Atlas has forty wheels")])
    answer = ask(stages, "How many wheels does Atlas have?")
    assert answer.set_not_answered is Asked.COUNT
    assert ask(stages, "How many services depend on Atlas?").set_not_answered is None


def test_two_relationships_are_followed_from_the_name(stages: DemoStages) -> None:
    write(
        stages,
        ("ada", "OWNS", "boats"),
        ("bob", "OWNS", "cars"),
        ("boats", "DEPENDS_ON", "atlas"),
        ("cars", "CALLS", "atlas"),
        ada="Person",
        bob="Person",
    )
    for text in ("Which person owns the service that depends on Atlas?", "Who does what depends on Atlas belong to?"):
        assert texts(ask(stages, text).results[0]) == ["Ada owns Boats, and Boats depends on Atlas"]


@pytest.mark.parametrize("predicates", [False, True], ids=["types", "imported"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Who leads the team that owns the service affected by Flood?", ["Ada"]),
        ("Who leads the team that owns the service that Flood affects?", ["Ada"]),
        ("Which customer uses the service that depends on Atlas?", ["Zed"]),
        ("Where does the leader of the team that owns Boats live?", ["Leith"]),
        ("To whom does the leader of the team that owns Boats report?", ["Bob"]),
        ("Who manages the leader of the team that owns Boats?", ["Bob"]),
        ("Who leads the team that owns Boats?", ["Ada"]),
        ("Which team owns the service affected by Flood?", ["Till"]),
        ("Who leads the team that owns the service affected by Storm?", []),
        ("Which customer uses the service that Flood affects?", []),
        ("Where does the leader of the team that owns the service affected by Flood live?", []),
    ],
)
def test_each_relationship_that_a_question_expresses_in_turn_is_followed(
    stages: DemoStages, text: str, expected: list[str], *, predicates: bool
) -> None:
    kinds = {"flood": "Incident", "storm": "Incident", "till": "Team", "ada": "Person", "bob": "Person"}
    edges = [("flood", "AFFECTS", "boats"), ("storm", "AFFECTS", "atlas"), ("till", "OWNS", "boats")]
    edges += [("ada", "LEADS", "till"), ("ada", "LIVES_IN", "leith"), ("ada", "REPORTS_TO", "bob")]
    edges += [("cars", "DEPENDS_ON", "atlas"), ("zed", "USES", "cars")]
    said = [(*edge, {"predicate": edge[1].lower().replace("_", " ") if predicates else None}) for edge in edges]
    write(stages, *said, zed="Customer", leith="City", **kinds)
    answer = ask(stages, text)
    found = [fact.name for result in answer.results if result.facts for fact in result.facts.facts]
    assert found == expected
    assert not (expected and NOT_RELATED in answer.plan.reasons)


def test_that_there_is_no_such_relationship_is_not_said_of_more_in_turn_than_are_followed(stages: DemoStages) -> None:
    edges = [("flood", "AFFECTS", "boats"), ("till", "OWNS", "boats"), ("ada", "LEADS", "till")]
    write(stages, *edges, ("ada", "LIVES_IN", "leith"), ada="Person")
    text = "Where does the leader of the team that owns the service affected by Flood live?"
    assert NOT_RELATED not in ask(stages, text).plan.reasons


def test_two_relationships_are_followed_from_a_name_that_a_text_has_as_its_title(stages: DemoStages) -> None:
    write(stages, ("ada", "OWNS", "boats"), ("boats", "DEPENDS_ON", "atlas"), ada="Person")
    stages.index.upsert([Record(id="page", tenant_id=TENANT, name="Atlas", content="Atlas is old.")])
    stages.graph.upsert(
        [Vertex(tenant_id=TENANT, id="page", name="Atlas", entity_type="Document", has_record=True)], []
    )
    answer = ask(stages, "Which person owns the service that depends on Atlas?")
    assert texts(answer.results[0]) == ["Ada owns Boats, and Boats depends on Atlas"]
    assert not any(result.facts for result in ask(stages, "Which person owns what depends on Atlas and Boats?").results)


def test_who_and_which_are_not_answered_by_what_the_question_names(stages: DemoStages) -> None:
    write(stages, ("boats", "CALLS", "atlas"))
    assert texts(ask(stages, "Does Boats call Atlas?").results[0]) == ["Boats calls Atlas"]
    assert not any(result.facts for result in ask(stages, "Where does Boats call Atlas?").results)


def test_half_of_what_is_asked_is_no_answer(stages: DemoStages) -> None:
    write(stages, ("ada", "OWNS", "atlas"), ada="Person")
    assert not any(result.facts for result in ask(stages, "Which garden has the owner of Atlas painted?").results)


def test_predicates_compete_where_the_type_says_nothing(stages: DemoStages) -> None:
    write(
        stages,
        ("atlas", "RELATED_TO", "ada", {"predicate": "founded by"}),
        ("atlas", "RELATED_TO", "bob", {"predicate": "sold by"}),
    )
    assert texts(ask(stages, "Who founded Atlas?").results[0]) == ["Atlas founded by Ada"]


def test_a_preposition_and_a_noun_alone_tell_predicates_apart(stages: DemoStages) -> None:
    write(
        stages,
        ("atlas", "RELATED_TO", "ada", {"predicate": "played as"}),
        ("atlas", "RELATED_TO", "bob", {"predicate": "played for"}),
        ("atlas", "RELATED_TO", "cyd", {"predicate": "has member"}),
    )
    assert texts(ask(stages, "Which club did Atlas play for?").results[0]) == ["Atlas played for Bob"]
    assert texts(ask(stages, "How many members does Atlas have?").results[0]) == ["Atlas has member Cyd"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Has Boats been replaced?", ["Atlas replaces Boats"]),
        ("Was Boats replaced?", ["Atlas replaces Boats"]),
        ("Is Cars owned?", ["Ada owns Cars"]),
        ("Has Atlas been replaced?", []),
        ("Was Atlas replaced?", []),
        ("Has Atlas replaced Boats?", ["Atlas replaces Boats"]),
        ("Was it Atlas that replaced Boats?", ["Atlas replaces Boats"]),
        ("Is Dock situated in Erith?", ["Dock lies in Erith"]),
        ("Has Foretop been acquired?", ["Garboard acquired Foretop"]),
        ("Has Garboard been acquired?", []),
        ("Has Garboard acquired Foretop?", ["Garboard acquired Foretop"]),
        ("Is Foretop based?", ["Foretop is based in Erith"]),
    ],
)
def test_what_is_done_to_a_name_is_not_what_it_does(stages: DemoStages, text: str, expected: list[str]) -> None:
    kinds = {"ada": "Person", "page": "Document"}
    edges = [("ada", "OWNS", "cars"), ("cars", "PART_OF", "dock"), ("dock", "LIES_IN", "erith")]
    edges += [("garboard", "ACQUIRED", "foretop"), ("foretop", "BASED_IN", "erith")]
    write(stages, ("atlas", "REPLACES", "boats"), *edges, **kinds)
    answer = ask(stages, text)
    assert [one for result in answer.results for one in texts(result)] == expected
    assert (NOT_RELATED in answer.plan.reasons) is (not expected)


def test_the_other_direction_is_no_answer(stages: DemoStages) -> None:
    write(stages, ("ada", "OWNS", "atlas"), ada="Person")
    assert not any(result.facts for result in ask(stages, "What does Atlas own?").results)


@pytest.mark.parametrize("predicate", [None, "reports to", "reports directly to"])
def test_a_predicate_in_the_words_of_its_type_does_not_turn_the_relationship(
    stages: DemoStages, predicate: str | None
) -> None:
    write(stages, ("ben", "REPORTS_TO", "ada", {"predicate": predicate}), ada="Person", ben="Person")
    for text in ("Whom does Ada report to?", "Who does Ada report to?", "To whom does Ada report?", "Who manages Ada?"):
        answer = ask(stages, text)
        assert not any(result.facts for result in answer.results), text
        assert NOT_RELATED in answer.plan.reasons
    for text in ("Who reports to Ada?", "Whom does Ada manage?"):
        assert names(ask(stages, text)) == ["Ben"], text
    for text in ("Whom does Ben report to?", "To whom does Ben report?", "Who is Ben's manager?"):
        assert names(ask(stages, text)) == ["Ada"], text


def test_a_predicate_in_other_words_than_its_type_may_be_meant_from_either_end(stages: DemoStages) -> None:
    write(stages, ("ada", "OWNS", "boats", {"predicate": "polished in the spring"}), ada="Person")
    assert names(ask(stages, "What did Ada polish in the spring?")) == ["Boats"]
    assert names(ask(stages, "Who was polished by Boats in the spring?")) == ["Ada"]
    write(stages, ("till", "MAIN_SUPPLIER", "zed", {"predicate": "main supplier"}), till="Team", zed="Organization")
    assert names(ask(stages, "Who is the main supplier of Till?")) == ["Zed"]


def test_a_graph_without_texts_answers(stages: DemoStages) -> None:
    write(stages, ("ada", "OWNS", "atlas"), ("boats", "CALLS", "atlas"), ada="Person")
    assert texts(ask(stages, "Who owns Atlas?").results[0]) == ["Ada owns Atlas"]
    anything = ask(stages, "Atlas")
    assert sorted(text for result in anything.results for text in texts(result)) == [
        "Ada owns Atlas",
        "Boats calls Atlas",
    ]


@pytest.mark.parametrize(
    ("fields", "answers"),
    [
        ({}, ["Ada owns Atlas", "Bob owns Atlas"]),
        ({"filters": Filters(trusted_only=True)}, ["Ada owns Atlas"]),
        ({"filters": Filters(entity_types=("Organization",))}, ["Bob owns Atlas"]),
        ({"filters": Filters(kinds=(Kind.FACT,))}, ["Ada owns Atlas", "Bob owns Atlas"]),
        ({"filters": Filters(kinds=(Kind.CHUNK,))}, []),
        ({"filters": Filters(task_id="t")}, ["Ada owns Atlas"]),
        ({"as_of": "2024-06-01"}, ["Ada owns Atlas"]),
        ({"as_of": "2019-06-01"}, []),
        ({"tenant_id": "another"}, []),
    ],
)
def test_filters_validity_and_tenants_apply_to_facts(
    stages: DemoStages, fields: dict[str, Any], answers: list[str]
) -> None:
    stages.index.upsert([Record(id="page", tenant_id=TENANT, content="Minutes", task_id="t")])
    write(
        stages,
        ("ada", "OWNS", "atlas", {"valid_at": "2020-01-01", "evidence": "page"}),
        ("bob", "OWNS", "atlas", {"valid_at": "2025-01-01", "trusted": False}),
        ("cyd", "OWNS", "atlas", {"invalid_at": "2019-01-01"}),
        ada="Person",
        bob="Organization",
        cyd="Person",
    )
    found = ask(stages, "Who owns Atlas?", **fields).results
    assert sorted(text for result in found for text in texts(result)) == answers


def test_an_untrusted_record_makes_its_facts_untrusted(stages: DemoStages) -> None:
    stages.index.upsert([Record(id="page", tenant_id=TENANT, content="Minutes", trusted=False)])
    write(stages, ("ada", "OWNS", "atlas", {"evidence": "page"}), ada="Person")
    assert ask(stages, "Who owns Atlas?").results[0].trusted is False
    assert ask(stages, "Who owns Atlas?", filters=Filters(trusted_only=True)).results == ()


def test_facts_that_are_lost_cost_no_other_result(stages: DemoStages, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_query: object) -> None:
        raise StoreError("the graph is busy")

    write(stages, ("ada", "OWNS", "atlas"), ada="Person")
    stages.index.upsert([Record(id="r", tenant_id=TENANT, content="Atlas is owned by Ada")])
    monkeypatch.setattr(type(stages.graph), "query", lambda _self, asked: fails(asked))
    answer = ask(stages, "Who owns Atlas?")
    assert ([result.id for result in answer.results], answer.truncated) == (["r"], True)


def test_an_answer_holds_no_longer_than_its_facts(stages: DemoStages) -> None:
    write(stages, ("ada", "OWNS", "atlas", {"invalid_at": AFTER}), ada="Person")
    holds_until = ask(stages, "Who owns Atlas?").holds_until
    assert holds_until is not None
    assert holds_until > NOW
    assert f"{holds_until:%F}" == AFTER


def test_most_judged_questions_are_answered_by_the_first_result(tmp_path: Path) -> None:
    stages = demo_stages(tmp_path)
    lines = [json.loads(line) for line in JUDGED.read_text(encoding="utf-8").splitlines()]
    recalls = {1: list[float](), 2: list[float]()}
    for line in lines:
        if line["corpus"] in TENANTS:
            first = ask(stages, line["text"], tenant_id=line["corpus"]).results[0]
            given = {fact.answer for fact in first.facts.facts} if first.facts else {first.id}
            recalls[line["half"]].append(len(given.intersection(line["answers"])) / len(line["answers"]))
    stages.close()
    assert min(sum(found) / len(found) for found in recalls.values()) >= 0.85
