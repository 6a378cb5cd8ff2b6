"""Questions of several relations become steps in the words of the tenant's graph, or stay as they are."""

from __future__ import annotations

import time

import pytest
from braid.models import Direction, PlanStep, StepOperation
from braid.ports.knowledge_graph import GraphStats
from braid.understanding.multi_hop import describe_steps, label_stem, parse_steps

OUT, IN, BOTH = Direction.OUT, Direction.IN, Direction.BOTH
CODE = GraphStats(
    by_entity_type=dict.fromkeys(["Function", "Pattern", "Service", "CodeEntity", "Vendor", "Document", "Person"], 9),
    by_relationship_type=dict.fromkeys(
        ["USES", "IMPLEMENTS", "DEPENDS_ON", "OWNS", "SUPPLIES", "MENTIONS", "WORKS_ON", "PART_OF", "CALLS"], 9
    ),
)


def search(*types: str) -> PlanStep:
    return PlanStep(operation=StepOperation.SEARCH, entity_types=types, limit=10)


def walk(label: str, direction: Direction, *types: str) -> PlanStep:
    return PlanStep(operation=StepOperation.EXPAND, types=(label,), direction=direction, entity_types=types, limit=50)


CHAINS = [
    (
        "patterns used by implementations of functions similar to X",
        (search("Function"), walk("IMPLEMENTS", IN), walk("USES", OUT, "Pattern")),
    ),
    ("Who owns the services that depend on Keelson?", (walk("DEPENDS_ON", IN, "Service"), walk("OWNS", IN))),
    ("documents that mention suppliers of Vendor X", (walk("SUPPLIES", IN), walk("MENTIONS", BOTH, "Document"))),
    (
        "Which persons work on services used by Tollgate?",
        (walk("USES", OUT, "Service"), walk("WORKS_ON", IN, "Person")),
    ),
    ("Who works on code entities that call Purser?", (walk("CALLS", IN, "CodeEntity"), walk("WORKS_ON", IN))),
    (
        "functions that implement patterns used by Tollgate",
        (walk("USES", OUT, "Pattern"), walk("IMPLEMENTS", IN, "Function")),
    ),
    ("owners of dependencies of Keelson", (walk("DEPENDS_ON", OUT), walk("OWNS", IN))),
    ("List the services depended on by services that are owned by Oyin Adelaja",
     (walk("OWNS", OUT, "Service"), walk("DEPENDS_ON", OUT, "Service"))),
    ("functions implementing patterns like a token bucket", (search("Pattern"), walk("IMPLEMENTS", IN, "Function"))),
    ("services that are part of services owned by the person Ada",
     (walk("OWNS", OUT, "Service"), walk("PART_OF", IN, "Service"))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "steps"), CHAINS)
def test_a_chain_of_relations_becomes_steps_from_its_end(text: str, steps: tuple[PlanStep, ...]) -> None:
    assert parse_steps(text, CODE) == steps


@pytest.mark.parametrize(
    "text",
    [
        "Who owns Keelson?",
        "Which people work on services used by Tollgate?",
        "Why do services that depend on Keelson call services owned by Ada?",
        "services that depend on services",
        "services that depend on services in Lisbon",
        "services that depend on services that were slow yesterday",
        "functions similar to X",
        "Who owns the cheap services that depend on Keelson?",
        "Who owns the services that Keelson depends on?",
        "What is used by the man who owns and calls Keelson?",
        "owners",
        "the owner and the users of Keelson",
        "",
        "用 了 什么",
        "Explain the reasoning of Ledgerkeep",
        "Tell me how chilled consignments are protected at the border",
    ],
)
def test_a_question_that_is_not_understood_whole_is_no_chain(text: str) -> None:
    assert parse_steps(text, CODE) == ()


def test_a_chain_is_read_in_the_words_of_the_tenants_own_graph_only() -> None:
    text = "Who owns the services that depend on Keelson?"
    assert parse_steps(text, GraphStats()) == ()
    lacking = CODE.model_copy(update={"by_relationship_type": {"OWNS": 1}})
    assert parse_steps(text, lacking) == ()
    other = GraphStats(by_entity_type={"RailwayLine": 2}, by_relationship_type={"ENDS_AT": 1, "MAINTAINED_BY": 1})
    steps = parse_steps("Which railway lines end at railway lines maintained by Ada Company?", other)
    assert steps == (walk("MAINTAINED_BY", IN, "RailwayLine"), walk("ENDS_AT", IN, "RailwayLine"))


def test_a_word_of_two_relationships_is_no_relation() -> None:
    two = CODE.model_copy(update={"by_relationship_type": {"OWNS": 1, "OWNER_OF": 1, "DEPENDS_ON": 1}})
    assert parse_steps("Who owns the services that depend on Keelson?", two) == ()


@pytest.mark.parametrize(
    "family",
    [
        ["implements", "implement", "implemented", "implementing", "implementation", "implementations", "implementers"],
        ["depends", "depend", "dependency", "dependencies", "dependents", "depending"],
        ["supplies", "supply", "supplier", "suppliers", "supplied", "supplying"],
        ["uses", "use", "used", "users", "using"],
        ["owns", "own", "owner", "owners", "owned"],
    ],
)
def test_inflections_have_one_stem(family: list[str]) -> None:
    assert len({label_stem(word) for word in family}) == 1


def test_steps_are_told_in_a_few_words() -> None:
    steps = parse_steps("patterns used by implementations of functions similar to X", CODE)
    assert describe_steps(steps) == "search Function, then ←IMPLEMENTS anything, then USES→ Pattern"


@pytest.mark.parametrize("letters", ["e", "s", "es", "ations", "ß"])
def test_a_word_as_long_as_a_question_may_be_is_read_at_once(letters: str) -> None:
    word = (letters * 10_000)[:10_000]

    started = time.process_time()

    assert label_stem(word) == word
    assert parse_steps(f"{word} of the services that {word} {word}", CODE) == ()
    assert time.process_time() - started < 0.5
