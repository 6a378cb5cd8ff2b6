"""SECURITY.md promises nothing that no test holds, and names standards' parts that there are."""

from __future__ import annotations

import re

import pytest

from tests.behaviour_map import ROOT, Section, Sentence, Source, problems

PAGE = ROOT / "SECURITY.md"
TEST = re.compile(r"`(tests/[^`]+)`")


def promises() -> list[list[str]]:
    """Return the rows of the tables of promises: promise, tests, chapters of the ASVS, entries of the LLM top ten."""
    part = PAGE.read_text(encoding="utf-8").partition("\n## Promises\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")]
    return [row for row in rows if row[0] != "promise" and set(row[0]) != {"-"}]


def missing(tests: list[str]) -> list[str]:
    sentences = (Sentence(id="1.1", says="promised", tests=tuple(tests)),)
    return problems(Source(section=(Section(title="Promises", sentence=sentences),)))


@pytest.mark.parametrize("row", promises(), ids=lambda row: row[0][:60])
def test_every_promise_names_tests_that_there_are(row: list[str]) -> None:
    tests = TEST.findall(row[1])
    assert tests
    assert missing(tests) == []


def test_every_test_that_the_page_names_anywhere_is_there() -> None:
    named = {name for name in TEST.findall(PAGE.read_text(encoding="utf-8")) if "::" in name}
    assert len(named) > 50
    assert missing(sorted(named)) == []


def test_a_test_that_is_not_there_would_be_told() -> None:
    assert missing(["tests/hostile/test_network.py::test_nothing_of_the_kind"])


@pytest.mark.parametrize("row", promises(), ids=lambda row: row[0][:60])
def test_every_promise_belongs_to_a_part_of_a_standard(row: list[str]) -> None:
    chapters = [chapter for chapter in re.split(r",\s*", row[2]) if chapter]
    entries = [entry for entry in re.split(r",\s*", row[3]) if entry]
    assert chapters or entries
    assert all(re.fullmatch(r"V([1-9]|1[0-7])", chapter) for chapter in chapters)
    assert all(re.fullmatch(r"LLM(0[1-9]|10)", entry) for entry in entries)


def test_the_page_says_how_to_report_and_what_is_not_promised() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for heading in ("Reporting a vulnerability", "What is protected", "From whom", "Promises", "Not promised"):
        assert f"\n## {heading}\n" in text
