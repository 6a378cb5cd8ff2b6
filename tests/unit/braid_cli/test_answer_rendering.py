"""An answer on a terminal: what a reader is told, and that no text that was ingested steers the terminal."""

from __future__ import annotations

from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from braid.models import (
    Answer,
    Citation,
    EmbeddingType,
    Fusion,
    Intent,
    Kind,
    Mode,
    Path,
    Plan,
    RelatedEntity,
    Result,
    Source,
    SourceType,
    Strategy,
    Weights,
)
from braid.retrieval.context.message_selection import Context
from rich.console import Console

from braid_cli.answer_rendering import LOSSES, show_answer
from braid_cli.commands.context import show as show_context


def result(**changed: Any) -> Result:
    fields: dict[str, Any] = {
        "id": "manual.pdf#chunk-7",
        "rank": 1,
        "kind": Kind.CHUNK,
        "entity_type": None,
        "title": "The valve sticks",
        "content": "The valve sticks in winter.",
        "relevance": 0.81,
        "recency": 0.1,
        "final": 0.81,
        "combined_score": 0.9,
        "vector_score": 0.6,
        "lexical_score": 0.5,
        "graph_score": 0.97,
        "rerank_score": 0.7,
        "fused_rank": 2,
        "ranks": {Source.VECTOR: 28, Source.LEXICAL: 18, Source.GRAPH: 1},
        "sources": (Source.VECTOR, Source.LEXICAL, Source.GRAPH),
        "reasons": ("graph path: CAUSES",),
        "paths": (Path(ids=("event:stop", "manual.pdf#chunk-7"), types=("CAUSES",), names=("The stop", "The valve")),),
        "citation": Citation(
            type=SourceType.DOCUMENT,
            title="Manual",
            page=5,
            chunk_index=7,
            excerpt="The valve sticks in winter.",
            reliability=0.85,
        ),
        "schema_version": 1,
    }
    return Result(**(fields | changed))


def answer(*results: Result, **changed: Any) -> Answer:
    fields: dict[str, Any] = {
        "trace_id": "trace-1",
        "results": results,
        "sources": (),
        "related_entities": (),
        "plan": Plan(
            strategy=Strategy.HYBRID,
            mode=Mode.HYBRID,
            intent=Intent.CAUSAL,
            embedding_type=EmbeddingType.CAUSAL,
            model_id="all-minilm-l6-v2",
            reasons=("hybrid: text and names are searched together", "intent causal: [bold]read[/bold]"),
        ),
        "weights": Weights(vector=0.25, lexical=0.1, graph=0.65),
        "counts": {"vector": 50, "lexical": 23, "knowledge": 6, "graph": 8, "fused": 64, "read": 60},
        "superseded": 0,
        "truncated": False,
        "degraded": (),
        "latency_ms": {"plan": 0.5, "embed": 8.0, "total": 12.25},
        "answered_at": "2026-01-15T09:30:00Z",
    }
    return Answer(**(fields | changed))


def shown(given: Answer, *, width: int = 100, **options: Any) -> str:
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        show_answer(console, given, **options)
    return capture.get()


def test_a_result_has_title_score_strands_text_path_and_where_to_read_it() -> None:
    lines = [line.strip() for line in shown(answer(result())).splitlines()]
    assert lines[0] == "1 result in 12 ms · intent: causal · strategy: hybrid"
    assert lines[1] == "likely answered (1.00 of 1)"
    assert lines[2] == "1. The valve sticks  score 0.81  vectors words graph"
    assert lines[3] == "The valve sticks in winter."
    assert lines[4].split() == ["path", "The", "stop", "─CAUSES→", "The", "valve"]
    assert lines[5] == "read document “Manual”, page 5, chunk 7 · manual.pdf#chunk-7"


@pytest.mark.parametrize("explain", [False, True])
def test_no_line_of_a_result_ends_with_blanks(explain: bool) -> None:
    lines = shown(answer(result(), result(id="b", rank=2, copies=("c",), title="x")), explain=explain).splitlines()
    assert [line for line in lines if line.rstrip() != line] == []


def test_the_sentence_that_fits_the_question_best_is_bold() -> None:
    citation = Citation(
        type=SourceType.QA, title="Valve", excerpt="…It\tsticks. Mind [it].", marked=(1, 11), reliability=0.9
    )
    console = Console(width=100, force_terminal=True, highlight=False)
    with console.capture() as capture:
        show_answer(console, answer(result(citation=citation)))
    assert "…\x1b[1mIt sticks.\x1b[0m Mind [it]." in capture.get()


def test_how_likely_a_question_is_answered_is_said_in_words() -> None:
    assert "probably not answered (0.21 of 1)" in shown(answer(result(), confidence=0.21))
    assert "unsure whether these answer it (0.30 of 1)" in shown(answer(result(), confidence=0.3))
    assert "likely answered (0.60 of 1)" in shown(answer(result(), confidence=0.6))
    assert "of 1)" not in shown(answer(confidence=0.0))


def test_a_title_is_not_said_twice() -> None:
    citation = Citation(type=SourceType.QA, title="The valve sticks", excerpt="It does.", reliability=0.95)
    assert "read qa · manual.pdf#chunk-7" in shown(answer(result(citation=citation)))


def test_the_date_of_a_text_is_shown_so_that_a_reader_tells_its_versions_apart() -> None:
    told = shown(answer(result(timestamp=datetime(2024, 4, 18, 23, tzinfo=UTC))))
    assert "page 5, chunk 7, 2024-04-18 · manual.pdf" in " ".join(told.split())


def test_the_heading_above_a_chunk_is_shown_where_it_is_cited() -> None:
    told = shown(answer(result(metadata={"heading": "Printer on fire"})))
    assert "document “Manual”, “Printer on fire”, page 5, chunk 7" in " ".join(told.split())


def test_copies_are_named_below_where_a_result_is_read() -> None:
    assert "also copy.pdf#chunk-7, [old].pdf#chunk-3" in shown(
        answer(result(copies=("copy.pdf#chunk-7", "[old].pdf#chunk-3")))
    )
    assert "also" not in shown(answer(result()))


def test_the_legend_says_what_the_score_and_the_strands_found_mean() -> None:
    text = shown(answer(result(sources=(Source.VECTOR,))))
    assert "from 0 to 1, higher is better" in text
    assert "vectors similar in meaning" in text
    assert "the question names it" not in text
    assert "higher is better" not in shown(answer(result()), legend=False)
    assert "higher is better" not in shown(answer())


def test_explain_shows_plan_reasons_origin_ranks_before_and_after_and_timings() -> None:
    text = shown(answer(result()), explain=True)
    assert "hybrid: text and names are searched together" in text
    assert "intent causal: [bold]read[/bold]" in text
    assert "all-minilm-l6-v2 (causal)" in text
    assert "vectors 0.25 · words 0.10 · graph 0.65" in text
    assert "vectors 50 · words 23 · names 6 · graph 8 · fused 64 · read 60" in text
    assert (
        "vectors #28 (0.600), words #18 (0.500), graph #1 (0.970) → fused #2 (0.900) → reranked (0.700) → "
        "final #1 (0.810)"
    ) in " ".join(text.split())
    assert "graph path: CAUSES" in text
    assert "trace-1" in text
    assert [line.split()[:3] for line in text.splitlines() if " ms" in line][1:] == [
        ["plan", "0.5", "ms"],
        ["embed", "8.0", "ms"],
        ["total", "12.2", "ms"],
    ]


@pytest.mark.parametrize("fusion", list(Fusion))
def test_explain_says_how_the_strands_became_one_list(fusion: Fusion) -> None:
    text = " ".join(shown(answer(result(), fusion=fusion), explain=True).split())
    assert f"combined {fusion.value}: " in text


def test_explain_says_which_names_were_read_and_how_surely() -> None:
    named = RelatedEntity(id="e1", name="Valve", entity_type="Part", linked=True, certainty=0.4)
    passed = RelatedEntity(id="e2", name="Pump", entity_type="Part", linked=False)
    text = shown(answer(result(), related_entities=(named, passed)), explain=True)
    assert "names     Valve (40% sure)\n" in "\n".join(f"{line.rstrip()}" for line in text.splitlines()) + "\n"
    assert "sure)" not in shown(answer(result(), related_entities=(passed,)), explain=True)


def test_an_answer_from_the_cache_says_so() -> None:
    assert shown(answer(result(), cached=True)).startswith("1 result in 12 ms from the cache · intent")


def test_without_explain_none_of_that_is_shown() -> None:
    text = shown(answer(result()))
    for hidden in ("fused #2", "weights", "trace-1", "graph path", "embed"):
        assert hidden not in text


@pytest.mark.parametrize("stage", sorted(LOSSES))
def test_each_lost_stage_is_named_with_what_the_answer_lacks(stage: str) -> None:
    text = " ".join(shown(answer(result(), degraded=(stage,)), width=80).split())
    assert f"degraded: {LOSSES[stage]} ({stage})" in text


def test_a_lost_stage_that_is_not_known_here_is_still_named() -> None:
    assert "degraded: this stage was lost (novel)" in shown(answer(result(), degraded=("novel",)))


def test_no_result_is_said_in_words() -> None:
    text = shown(answer())
    assert text.startswith("0 results")
    assert "Nothing found." in text


def test_what_was_left_out_is_said() -> None:
    assert "searched without 1 record that is not valid now" in shown(answer(result(), superseded=1))
    assert "searched without 3 records that are not valid now" in shown(answer(result(), superseded=3))
    assert "3 records that are not valid at the time asked about" in shown(answer(superseded=3), as_of=True)
    assert "left out: all records without a timestamp" in shown(answer(), dated=True)
    assert "more may be reachable" in shown(answer(result(), truncated=True))
    assert "left out" not in shown(answer(result()))
    assert "without" not in shown(answer(result()))


def test_a_question_that_names_a_moment_is_told_how_to_ask_for_it() -> None:
    told = (
        "the question names a date and is answered by what is valid now: "
        "--as-of, with a day such as 2024-05-31, asks what held then"
    )
    assert told in " ".join(shown(answer(result()), moment=True).split())
    assert "--as-of" not in shown(answer(result(), superseded=1))


def test_the_whole_text_and_metadata_are_shown_where_asked() -> None:
    long = f"First line. {'x' * 400}\n\nLast\x1b line."
    told = shown(answer(result(content=long, metadata={"team": "gates", "fee": 5})), full=True)
    for said in ("First line.", "Last� line.", "team gates", "fee  5"):
        assert said in told
    assert "\x1b" not in told
    assert "Last" not in shown(answer(result(content=long)))
    assert "team" not in shown(answer(result(metadata={"team": "gates"})))


def test_the_dates_of_a_result_are_shown_with_its_metadata() -> None:
    dated = result(timestamp="2025-05-14T07:30:00Z", valid_at="2025-01-01T00:00:00Z")
    told = " ".join(shown(answer(dated), full=True).split())
    assert "timestamp 2025-05-14 07:30:00 UTC valid_at 2025-01-01" in told
    assert "invalid_at" not in told
    assert "timestamp" not in shown(answer(dated))


def test_who_asks_for_a_field_called_date_is_told_how_dates_are_asked_for() -> None:
    told = {
        field: " ".join(shown(answer(plan=answer().plan.model_copy(update={"unknown_fields": (field,)}))).split())
        for field in ("date", "owner")
    }
    assert "no record has the field 'date' in its metadata; --since and --until are conditions" in told["date"]
    assert "no record has the field 'owner' in its metadata" in told["owner"]
    assert "--since" not in told["owner"]


def test_a_long_id_is_not_cut() -> None:
    told = shown(answer(result(id=f"handbook/{'deep/' * 30}gates.md#chunk-0")), width=60)
    assert "…" not in told
    assert "gates.md#chunk-0" in "".join(told.split())


def test_related_entities_are_named_once_and_the_many_are_counted() -> None:
    names = ["Valve", "Valve", *(f"Part {number}" for number in range(9))]
    related = tuple(
        RelatedEntity(id=f"e{number}", name=name, entity_type="Part", linked=False) for number, name in enumerate(names)
    )
    text = " ".join(shown(answer(result(), related_entities=related)).split())
    assert "related: Valve, Part 0, Part 1, Part 2, Part 3, Part 4, Part 5, Part 6 and 2 more" in text


def test_an_ingested_text_does_not_steer_the_terminal_and_is_no_markup() -> None:
    citation = Citation(
        type=SourceType.DOCUMENT,
        title="[red]Manual[/red]",
        excerpt="\x1b[2J\x9b31m[bold]gone[/bold]\r\nnext\x07",
        reliability=0.85,
    )
    text = shown(answer(result(citation=citation, title="[link]x")), explain=True)
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "�[2J�31m[bold]gone[/bold]  next�" in text
    assert "“[red]Manual[/red]”" in text
    assert "[link]x" in text


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_an_answer_fits_the_terminal(width: int) -> None:
    long = result(id="x" * 200, title="A title that is longer than a narrow terminal is wide", rank=2)
    text = shown(answer(result(), long, degraded=tuple(LOSSES)), width=width, explain=True)
    assert max(map(len, text.splitlines())) <= width


def test_a_context_keeps_what_words_need_and_sends_nothing_to_the_terminal() -> None:
    said = "नमस्\u200dते 👩\u200d🔧 \x1b[2J\u202e end"
    built = Context(messages=({"role": "user\x07", "content": said},), enabled=False)
    console = Console(width=120, record=True, file=StringIO())
    show_context(console, built, min_score=0.5)
    shown = console.export_text()
    assert "नमस्\u200dते 👩\u200d🔧 �[2J� end" in shown
    assert "user�" in shown
