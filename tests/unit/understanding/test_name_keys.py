"""Other forms of a name: what is stored beside it, what a question asks for, and what is linked in the end."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from braid.app import Application
from braid.models import Vertex
from braid.retrieval.stages.name_linking import MAX_LOOKED_UP, linked_names
from braid.settings import Settings
from braid.understanding.misspelling_keys import MISSPELT, misspellings
from braid.understanding.name_keys import FORM_SCORES, MAX_TRANSPOSED_WORDS, inflections, lookup_keys, stored_forms
from braid.understanding.question_phrases import is_whole_name
from braid.understanding.tokens import normalise
from hypothesis import given
from hypothesis import strategies as st

from braid_cli.datasets.dataset import read_dataset

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from braid.ports.knowledge_graph import KnowledgeGraph

ROOT = Path(__file__).parents[3]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def graph(tmp_path: Path) -> KnowledgeGraph:
    return Application(Settings(home=tmp_path)).graph


def named(graph: KnowledgeGraph, *names: str, **fields: Any) -> None:
    graph.upsert([Vertex(id=name, tenant_id="acme", entity_type="Concept", name=name, **fields) for name in names], [])


def found(graph: KnowledgeGraph, question: str) -> dict[str, float]:
    links = linked_names(graph, "acme", question, as_of=NOW)
    return {link.entity_id: round(link.score, 2) for link in links}


@pytest.mark.parametrize(
    ("name", "forms"),
    [
        ("Humboldt Peak (Colorado)", {"~humboldt peak", "^humboldt", "^peak"}),
        ("Nicholas I, Lord of Mecklenburg", {"~nicholas i", "^nicholas"}),
        ("Möller Akku GmbH", {"~moller akku", "^moller", "^akku"}),
        ("Hydra Cooling GmbH & Co. KG", {"~hydra cooling", "^hydra", "^cooling"}),
        ("Acme, Inc.", {"~acme"}),
        ("Telenett AS", {"~telenett"}),
        ("Hydra Cooling S.A.", {"~hydra cooling", "^hydra", "^cooling"}),
        ("Enel S.p.A.", {"~enel"}),
        ("S.A.", set()),
        ("AG", set()),
        ("Fenwick & Lode", {"^fenwick", "^lode"}),
        ("João Pinto Reis", {"^joao", "^reis", "^pinto reis", "@jpr"}),
        ("Oriel Customs Brokers", {"^oriel", "^brokers", "^customs brokers", "@ocb"}),
        ("Keelson", set()),
        ("INC-322: Payout run skipped", {"~inc 322"}),
        ("C2207 \u2013 the supply of the eastern gates fails", {"~c2207"}),
        ("Note: what the board has decided", set()),
        ("first wind farm in New Jersey", set()),
        ("", set()),
        ("(film)", set()),
    ],
)
def test_a_name_is_stored_in_these_forms(name: str, forms: set[str]) -> None:
    assert {form for form in stored_forms(name) if form[0] != MISSPELT} == forms


def test_names_share_a_key_if_one_letter_tells_them_apart_and_never_by_a_digit() -> None:
    def alike(one: str, other: str) -> bool:
        return not set(misspellings(one)).isdisjoint(misspellings(other))

    for written in ("keelsn", "keelsoon", "keelzon", "keeslon"):
        assert alike(written, "keelson")
    assert alike("write freze", "write freeze")
    assert alike("müllerr", "müller")
    for one, other in (("keesn", "keelson"), ("lx 400", "lx 500"), ("api", "apis"), ("the team", "the teem")):
        assert not alike(one, other)
    assert misspellings("long " * 7) == []


def test_an_entity_of_many_names_is_known_by_the_misspellings_of_the_first_alone() -> None:
    names = [*(f"keelson{letter}" for letter in "abcde"), "Write Freeze"]
    forms = stored_forms(*names)
    assert {form for form in forms if form[0] == MISSPELT} == {key for name in names[:5] for key in misspellings(name)}
    assert "^freeze" in forms


@given(st.text())
def test_no_form_can_be_taken_for_a_name(name: str) -> None:
    assert all(form[0] in FORM_SCORES and normalise(form) != form for form in stored_forms(name))


@given(st.text(max_size=80))
def test_whatever_is_asked_keys_stand_for_words_of_the_question(question: str) -> None:
    keys = lookup_keys(question)
    assert all(asked.phrase in keys and 0 < asked.score_factor <= 1 for asked in keys.values())


def test_only_words_written_as_a_name_are_asked_for_in_another_form() -> None:
    keys = lookup_keys("Did Fenwick leave the harbours to the OCB?")
    assert {"~fenwick", "^fenwick", "@ocb", "harbours"} <= set(keys)
    assert not {"~harbours", "^harbours", "harbour", "@fenwick"} & set(keys)


@pytest.mark.parametrize(
    ("phrase", "forms"),
    [
        ("text storms", ["text storm"]),
        ("text storm", ["text storms"]),
        ("parties", ["party"]),
        ("boxes", ["boxe", "box"]),
        ("glass", ["glasses"]),
        ("api", []),
    ],
)
def test_the_last_word_is_put_into_the_other_number(phrase: str, forms: list[str]) -> None:
    assert inflections(phrase) == forms


def test_a_part_of_what_is_written_as_a_name_does_not_stand_alone() -> None:
    assert not is_whole_name("Who made A Whirl Of Sex And Politics?", "sex")
    assert is_whole_name("Did Fenwick write?", "fenwick")
    assert not is_whole_name("Harbour Freight is late", "freight")


def test_entities_are_found_by_a_form_of_their_name_and_score_less(graph: KnowledgeGraph) -> None:
    named(graph, "Humboldt Peak (Colorado)", "Fenwick & Lode", "Oriel Customs Brokers", "Text Storm", "Saltmarrow")
    assert found(graph, "Is Humboldt Peak high?") == {"Humboldt Peak (Colorado)": 0.8}
    assert found(graph, "Why did Lode write?") == {"Fenwick & Lode": 0.6}
    assert found(graph, "Why did the OCB write?") == {"Oriel Customs Brokers": 0.6}
    assert found(graph, "Are Text Storms over?") == {"Text Storm": 0.8}
    assert found(graph, "Where is Salt Marrow?") == {"Saltmarrow": 0.8}
    assert found(graph, "where is the lode of the peak?") == {}


def test_names_are_found_however_their_words_are_joined_and_their_umlauts_written(graph: KnowledgeGraph) -> None:
    named(graph, "LX-400", "LX-500", "Keelson API", "Müller", "Jaeger")
    assert found(graph, "What does the LX500 cost?") == {"LX-500": 0.8}
    assert found(graph, "Who runs KeelsonApi now?") == {"Keelson API": 0.8}
    assert found(graph, "Where does Mueller work?") == {"Müller": 0.8}
    assert found(graph, "Where does Jäger work?") == {"Jaeger": 0.8}
    named(graph, "Mueller", "LX500")
    assert found(graph, "Where does Mueller work?") == {"Mueller": 1.0}
    assert found(graph, "What does the LX500 cost?") == {"LX500": 1.0}


def test_an_identifier_in_another_spelling_names_what_is_called_so_before_what_only_begins_with_it(
    graph: KnowledgeGraph,
) -> None:
    named(graph, "INC-131: Read outage")
    assert found(graph, "Who ended INC131?") == {"INC-131: Read outage": 0.64}
    named(graph, "INC-131")
    assert found(graph, "Who ended INC131?") == {"INC-131": 0.8}
    assert found(graph, "Who ended INC-131?") == {"INC-131": 1.0, "INC-131: Read outage": 0.8}


def test_the_words_that_matched_are_the_questions_own(graph: KnowledgeGraph) -> None:
    named(graph, "Saltmarrow")
    assert [link.phrase for link in linked_names(graph, "acme", "Where is Salt-Marrow?", as_of=NOW)] == ["salt marrow"]


def test_a_misspelt_name_is_read_as_the_one_that_a_letter_tells_it_apart_from(graph: KnowledgeGraph) -> None:
    named(graph, "Keelson", "Write Freeze", "Painter", "LX-400")
    assert found(graph, "Who owns Keelsn?") == {"Keelson": 0.75}
    assert found(graph, "why was there a write freze") == {"Write Freeze": 0.75}
    assert found(graph, "What does the LX-500 cost?") == {}
    (link,) = linked_names(graph, "acme", "Who owns Keelsn?", as_of=NOW)
    assert (link.phrase, link.misspelt) == ("keelsn", True)
    named(graph, "Keelsen")
    assert found(graph, "Who owns Keelsn?") == {}, "either could be meant"
    named(graph, "Keelsn")
    assert found(graph, "Who owns Keelsn?") == {"Keelsn": 1.0}


def test_a_common_word_beside_capitalised_names_is_no_misspelt_name(graph: KnowledgeGraph) -> None:
    named(graph, "contact", "Keelson")
    assert found(graph, "Which notice period has the contract of Keelson?") == {"Keelson": 1.0}
    assert found(graph, "What does the Contract of Keelson say?") == {"Keelson": 1.0, "contact": 0.75}
    assert found(graph, "which notice period has the contract?") == {"contact": 0.75}, "no capitals tell"


def test_a_name_from_which_two_letters_differ_is_not_meant(graph: KnowledgeGraph) -> None:
    named(graph, "Billing")
    assert found(graph, "What is the boiling point of mercury?") == {}, "without its o it is billing without an l"
    assert found(graph, "Who owns bilking?") == {"Billing": 0.75}, "a wrong letter"
    assert found(graph, "Who owns bililng?") == {"Billing": 0.75}, "a moved letter"
    named(graph, "Boilink")
    assert found(graph, "Who owns boiling?") == {"Boilink": 0.75}, "Billing does not make it ambiguous"


def test_an_alias_from_which_two_letters_differ_is_not_meant(graph: KnowledgeGraph) -> None:
    given = Vertex(tenant_id="acme", id="orchid", name="Orchid", aliases=("Invoices", "billing"))
    graph.upsert([given], [])
    assert found(graph, "What is the boiling point of mercury?") == {}
    (link,) = linked_names(graph, "acme", "Who owns bilking?", as_of=NOW)
    assert (link.name, link.misspelt, link.names) == ("Orchid", True, ())
    graph.upsert([given.model_copy(update={"name": "Boilink"})], [])
    assert found(graph, "Who owns boiling?") == {"orchid": 0.75}, "one of its names is a letter apart"
    graph.upsert([given.model_copy(update={"name": "Billing", "aliases": ("Boilink",)})], [])
    assert found(graph, "Who owns boiling?") == {"orchid": 0.75}


def test_a_part_of_a_name_may_have_two_adjacent_letters_swapped(graph: KnowledgeGraph) -> None:
    named(graph, "Bob Tanaka")
    assert found(graph, "Who works with Tankaa?") == {"Bob Tanaka": 0.45}
    (link,) = linked_names(graph, "acme", "Who works with Tankaa?", as_of=NOW)
    assert (link.phrase, link.misspelt) == ("tankaa", True)
    assert found(graph, "who works with tankaa?") == {}, "parts of names need a capital"
    assert linked_names(graph, "acme", "Is Tankaa in?", as_of=NOW, unknown_words=lambda *_: frozenset()) == []
    named(graph, "Ines Tanaka")
    assert found(graph, "Who works with Tankaa?") == {}, "either could be meant"


def test_the_work_for_swapped_letters_is_bounded() -> None:
    question = "who " + " and ".join(f"Tan{'abcdefghijklmnopqrstuvwxyz'[place]}kaly" for place in range(26))
    swapped = {key.phrase for key in lookup_keys(question).values() if key.misspelt}
    assert len(swapped) == MAX_TRANSPOSED_WORDS


def test_a_word_of_the_tenants_texts_is_no_misspelt_name(graph: KnowledgeGraph) -> None:
    named(graph, "Keelson", "Painter")

    def unknown(_: str, words: Sequence[str]) -> frozenset[str]:
        return frozenset(words) - {"painted"}

    links = linked_names(graph, "acme", "Who painted Keelsn?", as_of=NOW, unknown_words=unknown)
    assert [link.entity_id for link in links] == ["Keelson"]


def test_a_word_that_begins_sentences_is_no_misspelt_name(graph: KnowledgeGraph) -> None:
    named(graph, "Lease", "Contract", "Keelson")
    assert found(graph, "please tell me what it costs") == {}
    assert found(graph, "Please contact whoever owns it") == {}
    assert found(graph, "what does the leese cost") == {"Lease": 0.75}
    assert found(graph, "please tell me who owns keelsn") == {"Keelson": 0.75}


def test_a_form_that_several_names_share_is_left_out(graph: KnowledgeGraph) -> None:
    named(graph, "Ada Quill", "Brook Quill", "Mercury (planet)", "Mercury (metal)")
    assert found(graph, "Who is Quill?") == {}
    assert found(graph, "How far is Mercury?") == {}


def test_a_name_as_it_is_written_goes_before_any_form(graph: KnowledgeGraph) -> None:
    named(graph, "Fenwick", "Fenwick & Lode")
    assert found(graph, "Why did Fenwick write?") == {"Fenwick": 1.0}


def test_a_page_is_linked_beside_a_bare_mention_of_what_its_title_is_shortened_to(graph: KnowledgeGraph) -> None:
    named(graph, "Humboldt Peak", has_record=False)
    named(graph, "Humboldt Peak (Colorado)", has_record=True)
    assert found(graph, "Is Humboldt Peak high?") == {"Humboldt Peak": 1.0, "Humboldt Peak (Colorado)": 0.8}
    named(graph, "Humboldt Peak", has_record=True)
    assert found(graph, "Is Humboldt Peak high?") == {"Humboldt Peak": 1.0}


def test_where_not_all_matches_are_known_no_form_is_trusted(graph: KnowledgeGraph) -> None:
    named(graph, *(f"Quill {number:03}" for number in range(MAX_LOOKED_UP + 1)), "Keelson", "Beacon (lamp)")
    assert found(graph, "Did Quill see Keelson by Beacon?") == {"Keelson": 1.0}


def sample() -> Iterable[tuple[str, str, set[str], set[str]]]:
    for line in (ROOT / "tests" / "linking_sample.jsonl").read_text(encoding="utf-8").splitlines():
        label = json.loads(line)
        yield label["corpus"], label["text"], set(label["meant"]), set(label["also"])


def test_of_the_labelled_questions_nothing_wrong_is_linked_and_most_of_what_is_meant(graph: KnowledgeGraph) -> None:
    for corpus in ("saltmarrow", "pellworth"):
        graph.upsert(read_dataset(ROOT / "braid_cli" / "demo" / corpus, corpus).vertices, [])
    right = meant_in_all = 0
    for corpus, text, meant, also in sample():
        linked = {link.entity_id for link in linked_names(graph, corpus, text, as_of=NOW)}
        assert linked <= meant | also, text
        right += len(linked & meant)
        meant_in_all += len(meant)
    assert right / meant_in_all > 0.8
