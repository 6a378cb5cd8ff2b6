"""Which end of a relationship a question names, how one is said, and which kinds of answers are asked for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from braid.models import Asked, GraphHit, Intent, Path
from braid.ports.knowledge_graph import GraphStats
from braid.understanding.fact_questions import MAX_LABELS, MAX_OF_A_KIND, MAX_VERTICES, read_fact_question
from braid.understanding.intent import detect_intent
from braid.understanding.multi_hop import label_words
from braid.understanding.question_relations import Anchor, QuestionWords, Side, explain, sentence, without_kind
from braid.understanding.tokens import words

STATS = GraphStats(
    vertices=30,
    records=20,
    edges=40,
    by_entity_type={"Person": 9, "Organization": 4, "Service": 8, "Event": 5},
    by_relationship_type={"OWNS": 8, "DEPENDS_ON": 9, "PART_OF": 5, "CAUSES": 7, "RELATED_TO": 4, "MENTIONS": 90},
)


@pytest.mark.parametrize(
    ("question", "name", "said", "inward"),
    [
        ("Who owns Atlas?", "atlas", "OWNS", True),
        ("What does Atlas own?", "atlas", "OWNS", False),
        ("What is owned by Atlas?", "atlas", "OWNS", False),
        ("By whom is Atlas owned?", "atlas", "OWNS", True),
        ("Who is the owner of Atlas?", "atlas", "OWNS", True),
        ("Atlas's owner", "atlas", "OWNS", True),
        ("Which services belong to Atlas?", "atlas", "OWNS", False),
        ("What depends on Atlas?", "atlas", "DEPENDS_ON", True),
        ("What does Atlas rely on?", "atlas", "DEPENDS_ON", False),
        ("What are the dependencies of Atlas?", "atlas", "DEPENDS_ON", False),
        ("How many dependencies does Atlas have?", "atlas", "DEPENDS_ON", False),
        ("Does Atlas have dependencies?", "atlas", "DEPENDS_ON", False),
        ("Does Atlas have any dependents?", "atlas", "DEPENDS_ON", True),
        ("How many dependents does Atlas have?", "atlas", "DEPENDS_ON", True),
        ("How many employees does Atlas have?", "atlas", "WORKS_FOR", True),
        ("What is Atlas dependent on?", "atlas", "DEPENDS_ON", False),
        ("Which services are dependent on Atlas?", "atlas", "DEPENDS_ON", True),
        ("Which services have a dependency on Atlas?", "atlas", "DEPENDS_ON", True),
        ("Which services have Atlas as a dependency?", "atlas", "DEPENDS_ON", True),
        ("Which services have Atlas as owner?", "atlas", "OWNS", False),
        ("Who acts as the owner of Atlas?", "atlas", "OWNS", True),
        ("Whose owner is Atlas?", "atlas", "OWNS", False),
        ("Whose manager is Atlas?", "atlas", "REPORTS_TO", True),
        ("Whose boss is Atlas?", "atlas", "REPORTS_TO", True),
        ("Does Atlas have a boss?", "atlas", "REPORTS_TO", False),
        ("What has Atlas as one of its dependencies?", "atlas", "DEPENDS_ON", True),
        ("What is Atlas a dependency of?", "atlas", "DEPENDS_ON", True),
        ("Which services is Atlas the owner of?", "atlas", "OWNS", False),
        ("Of which team is Atlas a member?", "atlas", "PART_OF", False),
        ("Where is Atlas used?", "atlas", "DEPENDS_ON", True),
        ("Which services are needed for Atlas?", "atlas", "DEPENDS_ON", False),
        ("Who is the boss of Atlas?", "atlas", "REPORTS_TO", False),
        ("Which parts does Atlas contain?", "atlas", "PART_OF", True),
        ("What is Atlas part of?", "atlas", "PART_OF", False),
        ("Who are the members of Atlas?", "atlas", "MEMBER_OF", True),
        ("Who wrote Atlas?", "atlas", "WRITTEN_BY", False),
        ("What did Atlas write?", "atlas", "WRITTEN_BY", True),
        ("Who is the director of Atlas?", "atlas", "DIRECTOR", False),
        ("Who directed Atlas?", "atlas", "DIRECTOR", False),
        ("Which films did Atlas direct?", "atlas", "DIRECTOR", True),
        ("Atlas's mother", "atlas", "MOTHER", False),
        ("Who employs Atlas?", "atlas", "WORKS_FOR", False),
        ("the Atlas owner", "atlas", "OWNS", True),
    ],
)
def test_a_question_says_a_relationship_from_one_of_its_ends(
    question: str, name: str, said: str, *, inward: bool
) -> None:
    place = words(question).index(name)
    assert {one.inward(place) for one in QuestionWords(question).said(label_words(said), {place})} == {inward}


@pytest.mark.parametrize(
    ("question", "word", "agent"),
    [
        ("Who owns Atlas?", "owns", Side.BEFORE),
        ("What is owned by Atlas?", "owned", Side.AFTER),
        ("By whom is Atlas owned?", "owned", Side.AFTER),
        ("Who is the owner of Atlas?", "owner", Side.NEITHER),
        ("the Atlas owner", "owner", Side.NEITHER),
        ("Atlas's owner", "owner", Side.NEITHER),
        ("the ownees of Atlas", "ownees", Side.BOTH),
        ("Which ownees has Atlas?", "ownees", Side.BOTH),
        ("How many ownees does Atlas have?", "ownees", Side.BOTH),
        ("Does Atlas have any owners?", "owners", Side.NEITHER),
        ("Which ownees like Atlas?", "ownees", Side.BEFORE),
    ],
)
def test_the_agent_of_a_word_is_on_one_side_both_or_neither(question: str, word: str, agent: Side) -> None:
    place = words(question).index(word)
    named = words(question)[place - 1 : place] == ["atlas"]
    assert QuestionWords(question).agent(("owns",), place, named=named) is agent


def test_a_word_that_a_predicate_repeats_counts_once() -> None:
    assert QuestionWords("Who owns Atlas?").said(words("owns" + " dearly" * 30), ())
    assert not QuestionWords("Who owns Atlas?").said(words("owns and keeps dearly and well"), ())


@pytest.mark.parametrize(
    "question", ["Who painted Atlas?", "Which city is Atlas in?", "Tell me about Atlas", "What is Atlas used for?"]
)
def test_other_words_say_no_relationship(question: str) -> None:
    assert not any(QuestionWords(question).said(label_words(label), ()) for label in STATS.by_relationship_type)


def test_what_used_to_be_is_not_what_is() -> None:
    question = QuestionWords("Who used to own Atlas?")
    assert not question.said(("depends", "on"), ())
    assert question.content({4}) == {1, 3}


@pytest.mark.parametrize(
    ("label", "predicate", "expected"),
    [
        ("OWNS", "", "Ada owns Atlas"),
        ("OWNS", "as keeper", "Ada owns Atlas (as keeper)"),
        ("DEPENDS_ON", "", "Ada depends on Atlas"),
        ("DEPENDS_ON", "depends on", "Ada depends on Atlas"),
        ("MEMBER_OF", "Member of", "Ada is member of Atlas"),
        ("PART_OF", "", "Ada is part of Atlas"),
        ("WRITTEN_BY", "", "Ada written by Atlas"),
        ("LOCATED_IN", "", "Ada is located in Atlas"),
        ("LOCATED_IN_CITY", "", "Ada is located in city Atlas"),
        ("ACQUIRED", "", "Ada acquired Atlas"),
        ("ACTED_IN", "acted in", "Ada acted in Atlas"),
        ("PLAYED_FOR", "", "Ada played for Atlas"),
        ("OPENED_TICKET", "", "Ada opened ticket Atlas"),
        ("ASSIGNED_TO", "", "Ada is assigned to Atlas"),
        ("RELATED", "", "Ada is related to Atlas"),
        ("RELATED_TO", "", "Ada is related to Atlas"),
        ("RELATED_TO", "is the sister of", "Ada is the sister of Atlas"),
        ("DIRECTOR", "", "Ada has director Atlas"),
        ("MENTIONS", "", "Atlas mentions Ada"),
    ],
)
def test_a_relationship_is_said_from_its_source_to_its_target(label: str, predicate: str, expected: str) -> None:
    assert sentence("Ada", label, "Atlas", predicate) == expected


@pytest.mark.parametrize(
    ("question", "asked", "kinds", "types"),
    [
        ("Who owns Atlas?", Asked.ONE, ("Organization", "Person"), ("OWNS",)),
        ("Which team owns Atlas?", Asked.ONE, ("Organization",), ("OWNS",)),
        ("Which services depend on Atlas?", Asked.ONE, ("Service",), ("DEPENDS_ON",)),
        ("List all services that depend on Atlas", Asked.ALL, ("Service",), ("DEPENDS_ON",)),
        ("How many people belong to Atlas?", Asked.COUNT, ("Person",), ("OWNS", "PART_OF")),
        ("How many people are in Atlas?", Asked.COUNT, ("Person",), ("PART_OF",)),
        ("Which services don't depend on Atlas?", Asked.NOT, ("Service",), ("DEPENDS_ON",)),
        ("Who owns Atlas today?", Asked.ONE, ("Organization", "Person"), ("OWNS",)),
    ],
)
def test_kinds_sets_and_relationships_are_read_from_the_words(
    question: str, asked: Asked, kinds: tuple[str, ...], types: tuple[str, ...]
) -> None:
    facts, reason = read_fact_question(question, STATS, detect_intent(question))
    assert facts is not None
    assert (facts.asked, facts.kinds, facts.types) == (asked, kinds, types)
    assert reason == f"facts: the question says {' or '.join(types)}"


@pytest.mark.parametrize(
    ("question", "of_type"),
    [
        ("List all services", Asked.ALL),
        ("Which services are there?", Asked.ALL),
        ("What services do we have?", Asked.ALL),
        ("Are there any services?", Asked.ALL),
        ("How many services are there?", Asked.COUNT),
        ("Which services have no owner?", Asked.NOT),
        ("Which services are not owned by anyone?", Asked.NOT),
        ("How many services does nobody own?", Asked.NOT),
        ("Services without an owner", Asked.NOT),
        ("Are there services with no owner?", Asked.NOT),
        ("Which services do not depend on Atlas?", None),
        ("List all services that have an owner", None),
        ("How many services have no certificate?", None),
        ("Which services have no owner in Lisbon?", None),
        ("How many outages are there?", None),
        ("Who owns nothing?", Asked.NOT),
        ("Who has no owner?", Asked.NOT),
        ("Who is there?", None),
        ("What are our services?", Asked.ALL),
        ("Please show me all the services", Asked.ALL),
        ("What is the number of services?", Asked.COUNT),
        ("What are the services of Atlas?", None),
        ("Which services?", None),
    ],
)
def test_a_set_of_a_type_is_asked_for_only_if_all_words_say_so(question: str, of_type: Asked | None) -> None:
    facts, _ = read_fact_question(question, STATS, Intent.LOOKUP)
    assert facts is not None
    assert facts.of_type is of_type


@pytest.mark.parametrize(
    "counts",
    [{"by_entity_type": {"Service": MAX_OF_A_KIND + 1}}, {"vertices": MAX_VERTICES + 1}],
    ids=["type", "graph"],
)
def test_a_set_of_a_type_is_looked_up_only_among_few(counts: dict[str, Any]) -> None:
    facts, _ = read_fact_question("List all services", STATS.model_copy(update=counts), Intent.LOOKUP)
    assert facts is not None
    assert facts.of_type is None


SUPPLIES = STATS.model_copy(
    update={
        "by_entity_type": {"Person": 9, "Supplier": 4, "Service": 8},
        "by_relationship_type": {"SUPPLIES": 8, "WORKS_ON": 9, "OWNS": 5},
    }
)


@pytest.mark.parametrize(
    ("question", "kinds", "noun"),
    [
        ("Which supplier supplies Atlas?", ("Supplier",), True),
        ("Which suppliers do not supply Atlas?", ("Supplier",), True),
        ("Which employees work on Atlas?", ("Person",), True),
        ("Which developers work on Atlas?", ("Person",), True),
        ("List all suppliers", ("Supplier",), True),
        ("How many suppliers are there?", ("Supplier",), True),
        ("What suppliers does Atlas have?", (), False),
        ("List all suppliers of Atlas", (), False),
        ("List the suppliers of what Atlas owns", (), False),
        ("List all owners", (), False),
    ],
)
def test_a_noun_that_also_says_the_relationship_is_what_is_asked_for_if_other_words_say_it_or_none_do(
    question: str, kinds: tuple[str, ...], *, noun: bool
) -> None:
    facts, _ = read_fact_question(question, SUPPLIES, Intent.LOOKUP)
    assert facts is not None
    at = next(place for place, word in enumerate(words(question)) if word.rstrip("s").endswith(("er", "ee")))
    assert (facts.kinds, at in facts.explained) == (kinds, noun)


@pytest.mark.parametrize(
    ("question", "of_type"),
    [
        ("List all suppliers", Asked.ALL),
        ("How many suppliers do we have?", Asked.COUNT),
        ("Which suppliers supply nothing?", Asked.NOT),
        ("List all suppliers of Atlas", None),
    ],
)
def test_a_set_may_be_of_a_type_whose_name_also_says_a_relationship(question: str, of_type: Asked | None) -> None:
    facts, _ = read_fact_question(question, SUPPLIES, Intent.LOOKUP)
    assert facts is not None
    assert facts.of_type is of_type


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("AFFECTS_SERVICE", "affects"),
        ("OWN_SERVICE", "own"),
        ("MADE_CODE_ENTITY", "made"),
        ("MEMBER_OF_TEAM", "member of"),
        ("SIGNED_WITH_SUPPLIER", "signed with"),
        ("MAIN_SUPPLIER", "main supplier"),
        ("HAS_MAIN_SUPPLIER", "has main supplier"),
        ("HAS_SERVICE", "has service"),
        ("IN_SERVICE", "in service"),
        ("SERVICE", "service"),
        ("SUPPLIER_OF", "supplier of"),
        ("SERVICE_OWNER", "service owner"),
    ],
)
def test_a_label_is_said_without_the_noun_of_a_kind_behind_its_verb(label: str, expected: str) -> None:
    nouns = frozenset({"service", "team", "supplier", "code entity", "entity"})
    assert " ".join(without_kind(label_words(label), nouns)) == expected


def test_nouns_of_kinds_are_those_of_the_graphs_types_and_of_their_groups() -> None:
    labels = dict.fromkeys(("AFFECTS_SERVICE", "WORKS_FOR_COMPANY", "LIVES_IN_CITY", "LEADS_TEAM", "HEAD_OF_FIRM"), 1)
    stats = STATS.model_copy(update={"by_relationship_type": labels})
    facts, _ = read_fact_question("Who leads Atlas?", stats, Intent.LOOKUP)
    assert facts is not None
    assert facts.kind_words == ("company", "service", "team")
    assert facts.types == ("HEAD_OF_FIRM", "LEADS_TEAM")


def test_a_verb_behind_what_is_no_kind_of_thing() -> None:
    facts, _ = read_fact_question("What happened to Atlas's owner?", STATS, Intent.EXPLORATORY)
    assert facts is not None
    assert 1 not in facts.explained
    facts, _ = read_fact_question("What club does Atlas belong to?", STATS, Intent.EXPLORATORY)
    assert facts is not None
    assert 1 in facts.explained


@pytest.mark.parametrize("question", ["Why did Atlas fail?", "Who owned Atlas in 2023?", "What happened before Atlas?"])
def test_causes_and_other_times_are_left_to_walks(question: str) -> None:
    assert read_fact_question(question, STATS, detect_intent(question)) == (None, None)


JUNE = datetime(2023, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize("moment", ["in 2023", "on 2023-05-01", "last year", "in March 2023"])
def test_a_question_as_of_a_moment_may_name_it(moment: str) -> None:
    asked = f"Who owned Atlas {moment}?"
    facts, reason = read_fact_question(asked, STATS, detect_intent(asked), as_of=JUNE)
    assert facts is not None
    assert (facts.types, reason) == (("OWNS",), "facts: the question says OWNS")
    for walked in ("Who owned Atlas before 2023?", "Why did Atlas fail in 2023?", "Who owned Atlas in 2019?"):
        assert read_fact_question(walked, STATS, detect_intent(walked), as_of=JUNE) == (None, None)
    facts, _ = read_fact_question(f"Which services had no owner {moment}?", STATS, Intent.TEMPORAL, as_of=JUNE)
    assert facts is not None
    assert facts.of_type is Asked.NOT


def test_what_does_not_stand_in_a_relation_is_sought_among_few_things_of_a_kind() -> None:
    many = STATS.model_copy(update={"by_entity_type": {"Service": MAX_OF_A_KIND + 1}})
    facts, reason = read_fact_question("Which services do not depend on Atlas?", many, Intent.LOOKUP)
    assert facts is not None
    assert (facts.asked, facts.types) == (Asked.NOT, ())
    assert reason == "facts: what does not stand in a relation was not looked up, as 200 are more than 199"


def test_of_very_many_types_a_question_is_compared_with_those_that_the_graph_has_most_of() -> None:
    rare = {f"AA_{number}": 1 for number in range(MAX_LABELS)}
    counts = {"by_relationship_type": STATS.by_relationship_type | rare, "by_entity_type": STATS.by_entity_type | rare}
    question = "Which services depend on Atlas?"
    facts, _ = read_fact_question(question, STATS.model_copy(update=counts), Intent.LOOKUP)
    assert facts is not None
    assert (facts.kinds, facts.types) == (("Service",), ("DEPENDS_ON",))


def test_a_long_question_is_not_read_for_facts() -> None:
    assert read_fact_question("Who owns Atlas " * 50, STATS, Intent.LOOKUP) == (None, None)


def test_of_a_long_predicate_its_first_words_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with each word of the question, for two hundred relationships."""
    compared: list[str] = []
    whole = QuestionWords._matches
    monkeypatch.setattr(
        QuestionWords, "_matches", lambda asked, part, passed: (compared.append(part), whole(asked, part, passed))[1]
    )
    predicate = "was polished by " + " ".join(f"w{number}" for number in range(90))
    path = Path(ids=("atlas", "ada"), types=("RELATED_TO",), predicates=(predicate,), inward=(False,))
    hit = GraphHit(id="ada", score=1.0, rank=1, path=path)
    explain(QuestionWords("Who polished Atlas?"), set(), {"atlas": Anchor("atlas", frozenset({2}), 1.0)}, hit)
    assert "polished" in compared
    assert len(compared) < 40
