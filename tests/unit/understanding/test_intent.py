"""What a question is read as: mode, intent, kind of model, direction of the walk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from braid.models import Direction, EmbeddingType, Intent, Mode
from braid.understanding.intent import detect_embedding_type, detect_intent, detect_mode, names_moment, walk_direction

L, X, T, C = Intent.LOOKUP, Intent.EXPLORATORY, Intent.TEMPORAL, Intent.CAUSAL
GENERAL, CODE, DOCUMENT = EmbeddingType.GENERAL, EmbeddingType.CODE, EmbeddingType.DOCUMENT
BY_INTENT = {T: EmbeddingType.TEMPORAL, C: EmbeddingType.CAUSAL}

QUESTIONS = [
    ("Summarise page 12 of the report", Mode.DOCUMENT, X, GENERAL),
    ("Which section covers retention?", Mode.DOCUMENT, L, GENERAL),
    ("a summary of the meeting", Mode.DOCUMENT, X, GENERAL),
    ("pages on onboarding", Mode.DOCUMENT, X, GENERAL),
    ("the paper plane page", Mode.DOCUMENT, X, DOCUMENT),
    ("relationship between Keelson and Bilge", Mode.ENTITY, X, GENERAL),
    ("relationships between the two vendors", Mode.ENTITY, X, GENERAL),
    ("How are Keelson and Bilge related?", Mode.ENTITY, X, GENERAL),
    ("how is Tollgate connected to the gateway", Mode.ENTITY, X, GENERAL),
    ("Compare silver and gold cover", Mode.ENTITY, X, GENERAL),
    ("a comparison of the two candidates", Mode.ENTITY, X, GENERAL),
    ("Compare page 3 with page 4", Mode.HYBRID, X, GENERAL),
    ("a homepage for the team", Mode.HYBRID, X, GENERAL),
    ("incomparable views", Mode.HYBRID, X, GENERAL),
    ("intersections near the depot", Mode.HYBRID, X, GENERAL),
    ("How long are logs kept? Something related to retention", Mode.HYBRID, X, GENERAL),
    ("Who owns the ledger?", Mode.HYBRID, L, GENERAL),
    ("Whose budget pays for it?", Mode.HYBRID, L, GENERAL),
    ("which team owns it", Mode.HYBRID, L, GENERAL),
    ("Find the on-call rota", Mode.HYBRID, L, GENERAL),
    ("Where is the depot?", Mode.HYBRID, L, GENERAL),
    ("What is the cut-off time?", Mode.HYBRID, L, GENERAL),
    ("findings of the audit", Mode.HYBRID, X, GENERAL),
    ("Tell me about Tollgate", Mode.HYBRID, X, GENERAL),
    ("nowhere to park", Mode.HYBRID, X, GENERAL),
    ("When did the lockout end?", Mode.HYBRID, T, None),
    ("What was decided before the freeze?", Mode.HYBRID, T, None),
    ("What happened after the sale", Mode.HYBRID, T, None),
    ("events during the freeze", Mode.HYBRID, T, None),
    ("Changes since the merger", Mode.HYBRID, T, None),
    ("outages of 2024", Mode.HYBRID, T, None),
    ("outages on 2024-05-17", Mode.HYBRID, T, None),
    ("releases in Q3", Mode.HYBRID, T, None),
    ("releases of the last quarter", Mode.HYBRID, T, None),
    ("what shipped in May?", Mode.HYBRID, T, None),
    ("the release of 3rd March", Mode.HYBRID, T, None),
    ("the outage of March 3", Mode.HYBRID, T, None),
    ("who may enter the depot", Mode.HYBRID, L, GENERAL),
    ("the aftermath", Mode.HYBRID, X, GENERAL),
    ("order 120243 of the customer", Mode.HYBRID, X, GENERAL),
    ("whenever needed", Mode.HYBRID, X, GENERAL),
    ("Why did the payouts fail?", Mode.HYBRID, C, None),
    ("Why did it fail after the upgrade?", Mode.HYBRID, C, None),
    ("the cause of the lockout", Mode.HYBRID, C, None),
    ("What led to the lockout?", Mode.HYBRID, C, None),
    ("failures because of frost", Mode.HYBRID, C, None),
    ("failures due to frost", Mode.HYBRID, C, None),
    ("What prevents a double payment?", Mode.HYBRID, C, None),
    ("What enabled the breach?", Mode.HYBRID, C, None),
    ("What caused the lockout in December 2024?", Mode.HYBRID, C, None),
    ("a causeway by the sea", Mode.HYBRID, X, GENERAL),
    ("Which classes hold the retry logic?", Mode.HYBRID, L, CODE),
    ("function that folds letters", Mode.HYBRID, X, CODE),
    ("Where is the delay implemented?", Mode.HYBRID, L, CODE),
    ("errors of the label printer", Mode.HYBRID, X, CODE),
    ("bugs in the parser", Mode.HYBRID, X, CODE),
    ("coding rules of the team", Mode.HYBRID, X, CODE),
    ("METHODS of the ledger", Mode.HYBRID, X, CODE),
    ("classical music", Mode.HYBRID, X, GENERAL),
    ("terror attack", Mode.HYBRID, X, GENERAL),
    ("a methodical, functional barcode", Mode.HYBRID, X, GENERAL),
    ("profiles of debugged people", Mode.HYBRID, X, GENERAL),
    ("documents about frost", Mode.HYBRID, X, DOCUMENT),
    ("signed delivery notes", Mode.HYBRID, X, DOCUMENT),
    ("an article or a file", Mode.HYBRID, X, DOCUMENT),
    ("wallpaper for the notebook", Mode.HYBRID, X, GENERAL),
    ("error in the document", Mode.HYBRID, X, CODE),
    ("When was the error fixed?", Mode.HYBRID, T, None),
]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Who was on call in May 2024?", True),
        ("What did the fee cost last year?", True),
        ("How long did we keep backups on 3 June?", True),
        ("When was the fee raised?", False),
        ("What happened before the freeze?", False),
        ("Who owns invoice 2024?", False),
        ("Who wrote 'Spring 2024'?", False),
        ("Who resolved INC-2025-013?", False),
        ("what about inc-2025-013", False),
        ("Is CVE-2024-3094 fixed?", False),
        ("Who signed offer 2025-117?", False),
        ("Who signed CONTRACT-2025?", False),
        ("Do we work on Fridays?", False),
        ("Do we work on Friday?", True),
        ("What was planned for 2024-2025?", True),
        ("What was planned for mid-2024?", True),
        ("What was spent in FY-2025?", True),
        ("What was spent in MAY-2025?", True),
        ("What held on 2025-03-11?", True),
        ("What held in 2025-03?", True),
    ],
)
def test_a_moment_is_a_date_and_no_question_for_one(text: str, named: bool) -> None:
    assert names_moment(text) is named


@pytest.mark.parametrize(("text", "mode", "intent", "kind"), QUESTIONS)
def test_a_question_is_read_by_whole_words_and_their_inflections(
    text: str, mode: Mode, intent: Intent, kind: EmbeddingType | None
) -> None:
    assert detect_mode(text) is mode
    assert detect_intent(text) is intent
    assert detect_embedding_type(text, intent) is (kind or BY_INTENT[intent])


@pytest.mark.parametrize(
    ("text", "direction"),
    [
        ("Why did the lockout happen?", Direction.IN),
        ("Why did the patch lead to a lockout?", Direction.IN),
        ("What is the root cause of the lockout?", Direction.IN),
        ("the reason for the freeze, and what it led to", Direction.IN),
        ("the lockout happened because of what?", Direction.IN),
        ("What caused the lockout?", Direction.IN),
        ("What has caused the lockout?", Direction.IN),
        ("What could possibly cause a lockout?", Direction.IN),
        ("What led to the lockout?", Direction.IN),
        ("Tell me what led to the lockout", Direction.IN),
        ("What resulted in the lockout?", Direction.IN),
        ("What prevented the lockout?", Direction.IN),
        ("What has prevented the lockout?", Direction.IN),
        ("What is preventing the release?", Direction.IN),
        ("Which change enabled the breach?", Direction.IN),
        ("Who prevented the lockout?", Direction.IN),
        ("What averted the lockout?", Direction.IN),
        ("How was the lockout averted?", Direction.IN),
        ("How are lockouts prevented?", Direction.IN),
        ("How can we prevent another lockout?", Direction.IN),
        ("What has been done to prevent a lockout?", Direction.IN),
        ("Which steps were taken to prevent a lockout?", Direction.IN),
        ("What could have prevented the lockout?", Direction.IN),
        ("Which check might have averted the lockout?", Direction.IN),
        ("How could the lockout have been avoided?", Direction.IN),
        ("Could the lockout have been prevented?", Direction.IN),
        ("How can another lockout be avoided?", Direction.IN),
        ("What can we do to avoid a lockout?", Direction.IN),
        ("What made the quick recovery possible?", Direction.IN),
        ("What did the patch cause?", Direction.OUT),
        ("What has the patch caused?", Direction.OUT),
        ("Which outage did the patch cause?", Direction.OUT),
        ("What was caused by the patch?", Direction.OUT),
        ("What did it lead to?", Direction.OUT),
        ("What did the long database migration lead to?", Direction.OUT),
        ("What did the patch prevent?", Direction.OUT),
        ("What did the patch avert?", Direction.OUT),
        ("Which lockouts were averted by the patch?", Direction.OUT),
        ("What was prevented by the patch?", Direction.OUT),
        ("What could the patch have prevented?", Direction.OUT),
        ("Which lockouts could have been avoided by the patch?", Direction.OUT),
        ("What does the token enable?", Direction.OUT),
        ("the freeze led to lost orders", Direction.OUT),
        ("consequences of the freeze", Direction.OUT),
        ("effects of the freeze", Direction.OUT),
        ("the impact of the freeze", Direction.OUT),
    ],
)
def test_a_why_walks_towards_causes_and_what_it_led_to_walks_towards_effects(text: str, direction: Direction) -> None:
    assert detect_intent(text) is C
    assert walk_direction(text, C) is direction


@pytest.mark.parametrize("text", ["How do I avoid the toll road?", "Who avoided the party?"])
def test_avoiding_something_is_no_question_of_causes(text: str) -> None:
    assert detect_intent(text) is not C


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("Who looks after the harbour lights?", L),
        ("Who leads the after-sales team?", L),
        ("Which ship is named after Ada Quill?", L),
        ("Who is the owner of Fern after all?", L),
        ("Which ship looked for it after the storm?", T),
        ("What was closed after all tickets were paid?", T),
        ("Who left after all the storms?", T),
        ("What happened after?", T),
    ],
)
def test_after_is_not_always_later(text: str, intent: Intent) -> None:
    assert detect_intent(text) is intent


def test_a_temporal_walk_goes_both_ways_and_any_other_walk_forwards() -> None:
    assert walk_direction("What came before the freeze?", T) is Direction.BOTH
    assert walk_direction("Who is Oyin?", L) is Direction.OUT


LABELLED = Path(__file__).parents[1] / "data" / "understanding.jsonl"
"""Questions with what a reader makes of them, written down before the detection was run on them."""
FLOOR = 0.97
KINDS = {"factual", "comparative", "entity", "exploratory", "temporal", "causal", "code", "document", "trap"}


def _read(text: str) -> dict[str, str]:
    intent = detect_intent(text)
    return {
        "mode": detect_mode(text),
        "intent": intent,
        "embedding_type": detect_embedding_type(text, intent),
        "direction": walk_direction(text, intent),
    }


def test_labelled_questions_of_every_kind_and_trap_are_read_as_a_reader_does(figures: list[str]) -> None:
    rows = [json.loads(line) for line in LABELLED.read_text(encoding="utf-8").splitlines()]
    assert len({row["query"] for row in rows}) == len(rows) >= 120
    assert {row["kind"] for row in rows} == KINDS
    wrong: dict[str, list[str]] = {"mode": [], "intent": [], "embedding_type": [], "direction": []}
    labelled = dict.fromkeys(wrong, 0)
    for row in rows:
        read = _read(row["query"])
        for column in wrong.keys() & row.keys():
            labelled[column] += 1
            if read[column] != row[column]:
                wrong[column].append(f"{row['query']} {row[column]}, not {read[column]}")
    accuracy = {column: 1 - len(wrong[column]) / labelled[column] for column in wrong}
    figures.append(f"understanding, {len(rows)} questions: " + ", ".join(f"{k} {v:.3f}" for k, v in accuracy.items()))
    assert min(accuracy.values()) >= FLOOR, wrong


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ('"When will it end?"', T),
        ("What Happened Before The Merger?", T),
        ("WHO OWNED IT BEFORE THE MERGER?", T),
        ("It stopped. Before that, who ran it?", T),
        ("Who sang 'Because the Night'?", L),
    ],
)
def test_names_and_quotations_hide_no_question(text: str, intent: Intent) -> None:
    assert detect_intent(text) is intent
