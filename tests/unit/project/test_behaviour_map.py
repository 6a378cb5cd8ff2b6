"""docs/behaviour.md is what the list of sentences makes of it, and the list names tests that exist."""

from __future__ import annotations

from typing import Any

import pytest

from tests.behaviour_map import PAGE, Section, Sentence, Source, engines, page, problems, read

ON_BOTH = "tests/contract/search_index.py::SearchIndexContract::test_tenants_never_see_one_another"
ALONE = "tests/unit/project/test_behaviour_map.py::test_the_page_is_what_the_list_makes_of_it"


def test_the_page_is_what_the_list_makes_of_it() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(read()), "out of date: run make behaviour"


def test_every_sentence_has_tests_that_exist_and_run_where_they_must() -> None:
    assert problems(read()) == []


def test_every_part_of_the_behaviour_is_listed(figures: list[str]) -> None:
    source = read()
    sentences = [sentence for section in source.section for sentence in section.sentence]
    waiting = [sentence.id for sentence in sentences if sentence.pending]
    figures.append(f"behaviour: {len(sentences)} sentences, {len(waiting)} not held by a test yet")
    assert len(source.section) >= 8
    assert len(sentences) >= 100


def listed(**fields: Any) -> Source:
    sentence = Sentence(**{"id": "1.1", "says": "It does.", "tests": (ALONE,)} | fields)
    return Source(section=(Section(title="All", sentence=(sentence,)),))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"id": "1.2"}, "1.2: should be 1.1"),
        ({"tests": ()}, "1.1: no test, and nobody that will write one"),
        ({"tests": (f"{ALONE}_not",)}, f"1.1: no test {ALONE}_not"),
        ({"tests": ("tests/unit/absent.py::test_it",)}, "1.1: no test tests/unit/absent.py::test_it"),
        (
            {"tests": ("tests/unit/project/test_behaviour_map.py::listed",)},
            "1.1: no test tests/unit/project/test_behaviour_map.py::listed",
        ),
        (
            {"tests": ("tests/unit/project/test_behaviour_map.py",)},
            "1.1: no test tests/unit/project/test_behaviour_map.py",
        ),
        ({"store": True}, "1.1: no test of it runs on the embedded and on a deployed engine"),
    ],
)
def test_what_is_wrong_with_the_list_is_said(fields: dict[str, Any], problem: str) -> None:
    assert problems(listed(**fields)) == [problem]


def test_a_contract_runs_on_the_engines_that_subclass_it() -> None:
    source = listed(tests=(ON_BOTH,), store=True)
    assert problems(source) == []
    assert engines(ON_BOTH) == ["embedded", "OpenSearch"]
    assert "one another](../tests/contract/search_index.py) (embedded, OpenSearch)" in page(source)


def test_a_sentence_that_waits_for_its_test_says_so_on_the_page() -> None:
    source = listed(tests=(), pending="somebody")
    assert problems(source) == []
    assert "*not yet*" in page(source)
    assert "1 are not held by a test yet" in page(source)
