from __future__ import annotations

import pytest
from braid.ports.name_finder import SourceText
from braid.understanding.given_names_in_texts import phrases_in
from braid.understanding.name_finding import RuleNameFinder
from braid.understanding.name_patterns import name_key
from braid.understanding.tokens import normalise


def found(*contents: str, title: str = "", given: dict[str, str] | None = None) -> dict[str, list[float]]:
    """Return the confidences of the mentions of each name; the texts are one document."""
    texts = [SourceText(str(number), title, content, "document") for number, content in enumerate(contents)]
    names = RuleNameFinder().find(texts, given or {})
    return {name.meaning: [mention.confidence for mention in name.mentions] for name in names}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("It was Anna Berg who came.", {"anna berg"}),
        ("It was Anna\x9b Berg and E42\x80 who came.", {"anna berg", "e42"}),
        ('It was in "Heron\tGates" and "Heron\x1cGates".', {"heron gates"}),
        ("He works at the University of Copenhagen.", {"university of copenhagen"}),
        ("Sie kam um 14:30 Uhr, 9.15 Uhr oder 18 Uhr und zahlte 30 Euro, also 20 Prozent.", set()),
        ("Es war am 01.10.2022, am 3. Juni, im März 2025 und am Freitag bei Anna Berg.", {"anna berg"}),
        ("We saw Guy Montag in March.", {"guy montag"}),
        (
            "We saw Juli Zeh in Chiang Mai with version 1.10.2 and 31.12.99.",
            {"juli zeh", "chiang mai", "1 10 2", "31 12 99"},
        ),
        ("We asked Lothair II of Lotharingia.", {"lothair ii of lotharingia", "lothair ii"}),
        ("The pump failed with E42 on LX-400.", {"e42", "lx 400"}),
        ("It calls should_notify() and TokenBucket.", {"should notify", "tokenbucket"}),
        ("Write to help@example.org or see https://example.org/a now.", {"help example org", "https example org a"}),
        ("Since version 2.4.1 it is called “The Long Way Home” here.", {"2 4 1", "long way home"}),
        ('It was in "The Pale Horse and His Rider" that he sang of Rome.', {"pale horse and his rider", "rome"}),
        ('She said "Paul went to Oslo" and left.', {"paul went to oslo", "paul", "oslo"}),
        ("It stars Roddy McDowall here.", {"roddy mcdowall"}),
        ("A band, Sweat & Tears, and the Hindi-language Oct4-transduced ones.", {"sweat tears", "hindi", "oct4"}),
        ("METHODS Patients were asked. RESULTS were good.", set()),
        ("It was P=.001 here, on Fridays. Competing for the Eagle Club he won.", {"eagle club"}),
        ("Yesterday we met. However, nothing happened in March 2024.", set()),
        ("THE WHOLE OF THIS NOTICE IS WRITTEN IN CAPITALS AND SAYS VERY LITTLE", set()),
    ],
)
def test_names_are_told_by_their_form(text: str, names: set[str]) -> None:
    assert set(found(text)) == names


def test_a_word_that_only_begins_a_sentence_is_no_name_unless_it_is_one_elsewhere() -> None:
    assert found("Turbines hum. We saw them.") == {}
    assert set(found("Keelson hums. We saw Keelson.")) == {"keelson"}


QUILLBACK = "Quillback issues invoices. It depends on Norbank.\n\nOwner\n\nQuillback is owned by Finance."


def test_a_word_that_heads_its_document_and_begins_its_sentences_is_what_the_document_is_about() -> None:
    assert "quillback" in found(QUILLBACK, title="Quillback billing")
    assert "quillback" in found(f"Quillback\n\n{QUILLBACK}", title="Billing")
    assert "quillback" in found("Quillback\n\nIt issues invoices.", title="Quillback billing")
    assert "quillback" not in found(QUILLBACK, title="Billing")


def test_a_word_that_its_document_has_in_small_letters_is_not_its_subject() -> None:
    text = "Invoices are sent monthly. Invoices go by post. We keep each invoice."
    assert "invoices" not in found(text, title="Invoices of customers")
    assert "owner" not in found("Owner\n\nIt is Finance.", title="Billing")


def test_a_word_alone_in_the_cell_of_a_table_is_no_name_unless_it_is_one_elsewhere() -> None:
    table = "| Data | Kept for |\n|---|---|\n| Invoices | ten years |\n| We met Anna Berg | Forever |"
    assert set(found(table)) == {"anna berg"}
    assert found("Plan | Price\nSprout | 49 EUR") == {}
    assert "sprout" in found("Plan | Price\nSprout | 49 EUR\n\nMost farms take Sprout.")


def test_prose_and_lists_full_of_names_are_told_from_title_case() -> None:
    people = {"bob tanaka", "ines duarte", "maria gonzalez", "john smith"}
    prose = "Bob Tanaka works with Ines Duarte. Maria Gonzalez reports to John Smith."
    assert set(found(prose)) == people
    assert set(found("Came: Bob Tanaka, Ines Duarte, Maria Gonzalez, John Smith, Anna Berg and Joost Mol.")) == {
        *people,
        "anna berg",
        "joost mol",
    }
    assert found("How The Quick Brown Fox Jumps Over The Lazy Dog And Sleeps Until Noon") == {}
    table = "Year Winner Country Venue Runner-up to par " + "2018 Matt Wallace England two strokes India " * 8
    assert found(table) == {}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Ask Marguerite Oyelaran about it", {"marguerite oyelaran"}),
        ("We met. Call Bob Tanaka", {"bob tanaka"}),
        ("1. Call Bob Tanaka\n2. Restart Keelson", {"bob tanaka", "keelson"}),
        ("Fragen Sie Bob Tanaka.", {"bob tanaka"}),
        ("After 15 minutes Bob Tanaka leaves. Over 9000 parcels came.", {"bob tanaka"}),
        ("It is after 15. The band After 7 sang. Because of Keelson it rains.", {"after 7", "keelson"}),
        ("Der Umzug", set()),
        ("Die Deutsche Bank ist in der Stadt von Bob Tanaka.", {"deutsche bank", "stadt von bob tanaka"}),
        ("El Banco de España es de todos.", {"banco de espana"}),
        ("Die Hard is a film of Los Angeles. Los Angeles is a city.", {"die hard", "los angeles"}),
        ("El alcalde de La Paz es mayor. La Paz es grande.", {"la paz"}),
    ],
)
def test_a_verb_or_an_article_that_begins_a_sentence_is_no_part_of_the_name_after_it(
    text: str, names: set[str]
) -> None:
    assert set(found(text)) == names


def test_a_name_that_begins_with_a_verb_is_whole_if_text_or_title_has_it_elsewhere() -> None:
    assert "call me" in found("Call Me is a song. She sang Call Me.")
    assert "call me" in found("Here it is: the song.\nCall Me is by her.", title="Songs such as Call Me (single)")
    assert "call me" not in found("Call Me is a song.")


def test_a_unit_behind_a_number_is_no_name_unless_it_is_one_elsewhere() -> None:
    assert found("It costs 450 EUR or 38,000 USD, at 14:03 UTC.") == {}
    assert set(found("In 1999 NASA paid 12 EUR. We pay in EUR.")) == {"nasa", "eur"}


def test_the_columns_of_a_tables_rows_are_no_names() -> None:
    rows = "plan: Sprout; account_manager: Anna Berg\nplan: Meadow; account_manager: Joost Mol"
    assert "account manager" not in found(rows)
    assert "daily limit" in found("daily_limit: 12\nquiet_hours: 3")


def test_a_column_is_no_name_in_a_single_row_but_its_value_is() -> None:
    assert set(found("Ticket: 12; Assignee: Bob; Account Manager: Anna Berg")) == {"bob", "anna berg"}
    rows = "Ticket: E12; Assignee: Bob Tanaka; Customer: Heron\nTicket: E13; Assignee: Ines Duarte; Customer: Sprout"
    assert "greek" in found("A song of Oslo (in Greek: one; Latin: two) is the last."), "a line of prose"
    assert set(found(f"{rows}\n{rows}")) == {"e12", "e13", "bob tanaka", "ines duarte", "heron", "sprout"}


def test_speakers_are_names_though_a_colon_follows_them() -> None:
    assert set(found("Bob Tanaka: I will do it.\nInes Duarte: Thanks.\nBob Tanaka: It is; see you.")) == {
        "bob tanaka",
        "ines duarte",
    }


@pytest.mark.parametrize(
    ("title", "names"),
    [
        ("INC-131: Stratum read outage", {"inc 131 stratum read outage", "inc 131"}),
        ("INC-131 – Stratum read outage", {"inc 131 stratum read outage", "inc 131"}),
        ("INC-131 and what followed", {"inc 131 and what followed"}),
        ("Cause: a lock", {"cause a lock"}),
    ],
)
def test_the_identifier_that_a_title_begins_with_is_a_name(title: str, names: set[str]) -> None:
    assert found("It was slow.", title=title) == {key: [1.0] for key in names}


def test_a_title_is_a_name_with_and_without_its_brackets_and_says_what_the_text_is_about() -> None:
    names = found("A peak. It is near Denver.", title="Humboldt Peak (Colorado)")
    assert names == {"humboldt peak colorado": [1.0], "humboldt peak": [1.0], "denver": [0.8]}


def test_a_title_is_one_name_where_it_stands_in_its_text() -> None:
    names = found("The Heron in the White House is a film of Heron.", title="The Heron in the White House (film)")
    assert names.keys() == {"heron in the white house film", "heron in the white house", "heron"}


def test_a_surname_and_an_abbreviation_mean_what_the_document_names_in_full() -> None:
    names = found("We met Anna Berg, of the World Health Organization (WHO).", "Later Berg left the WHO.")
    assert set(names) == {"anna berg", "world health organization"}
    assert all(len(mentions) == 2 for mentions in names.values())


def test_what_is_given_is_found_wherever_it_stands() -> None:
    assert found("the night shift left, and the Boss too", given={"night shift": "=1", "boss": "=2"}).keys() == {
        "=1",
        "=2",
    }


def test_a_documents_names_do_not_depend_on_other_documents() -> None:
    one, other = SourceText("a", "", "We met Anna Berg.", "a"), SourceText("b", "", "It was Berg.", "b")
    finder = RuleNameFinder()
    assert finder.find([one, other], {}) == finder.find([one], {}) + finder.find([other], {})


def test_spellings_of_one_name_meet() -> None:
    assert {name_key(name) for name in ("The Harbour-Freight", "harbour freight's", "HARBOUR FREIGHT")} == {
        "harbour freight"
    }


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("他在北京大学工作。", "北京大学"),
        ("彼は東京大学で働く。", "東京大学"),
        ("عمل في جامعة القاهرة سنة", "جامعة القاهرة"),
        ("она жила в нижнем новгороде", "нижнем новгороде"),
    ],
)
def test_given_names_of_any_script_are_found_whether_or_not_words_are_set_apart(text: str, name: str) -> None:
    assert found(text, given={normalise(name): "=1"}).keys() == {"=1"}
    assert normalise(name) in set(phrases_in(text))


def test_a_given_name_of_several_words_is_looked_for_however_it_is_written_and_a_single_word_is_not() -> None:
    assert set(phrases_in("The night shift left in red.")) == {"night shift", "night shift left", "shift left"} | {
        "left in red",
        "shift left in red",
    }
