"""What the lines of a file end, however many are seen at once, by the command and by the steps of the workflow."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from braid.ingestion.bulk import import_steps
from braid.ingestion.bulk.step_messages import Lost, Phase
from braid.ingestion.inline_writes import write_items
from braid.ingestion.item_parsing import Items
from braid.ingestion.writing import MissingEnds
from braid.ports.ingestion import JobStatus
from braid.settings import Settings

from braid_cli.datasets import ingest_file
from tests.contract.files import at_once, state, watched
from tests.contract.shapes import ACME
from tests.file_steps import all_phases, batches, begun, finished, put_lines
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WHOLE, SINGLE = 500, 1
Lines = list[dict[str, Any]]
RECORDS: Lines = [{"id": name, "content": f"turbine {name}"} for name in "abc"]
PRICE = {"source": "a", "type": "COSTS", "target": "b"}


@dataclass
class Done:
    """What became of a file."""

    written: int
    relationships: int
    superseded: int
    errors: list[str]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DemoStages]:
    stages = DemoStages(Settings(home=tmp_path / "home"))
    yield stages
    stages.close()


@pytest.fixture(params=["command", "steps"])
def write_file(request: pytest.FixtureRequest, store: DemoStages, tmp_path: Path) -> Callable[..., Done]:
    """Write lines as a file, so many of them seen at once."""

    def by_command(lines: Lines, missing: MissingEnds) -> Done:
        path = tmp_path / "a.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        told: list[str] = []
        done = ingest_file.ingest_file(
            path, ACME, store, missing=missing, on_error=lambda error: told.append(str(error))
        )
        told = [line.removeprefix(f"{path}:") for line in told]
        return Done(done.written, done.relationships, done.superseded, told)

    def by_steps(lines: Lines, missing: MissingEnds) -> Done:
        put_lines(store, lines)
        report = all_phases(store, begun(store, missing=missing.value))
        told = [json.loads(line) for line in store.objects.open(ACME, report.report_key)]
        errors = [": ".join([one["place"].removeprefix("line "), one["field"], one["message"]]) for one in told]
        store.objects.delete(ACME, "ingest/j/report.json")  # the next file's job has the same name
        return Done(report.written, report.relationships, report.superseded, errors)

    def write(lines: Lines, at_a_time: int, missing: MissingEnds = MissingEnds.REFUSE) -> Done:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(import_steps, "BATCH_LINES", at_a_time)
            return (by_command if request.param == "command" else by_steps)(lines, missing)

    return write


def edge(predicate: str, **fields: Any) -> dict[str, Any]:
    return {"relationship": {**PRICE, "predicate": predicate, **fields}}


def ends(predicate: str) -> list[dict[str, str]]:
    return [{**PRICE, "predicate": predicate}]


def held(store: DemoStages) -> dict[str | None, tuple[float, bool]]:
    """Return, by predicate, how sure the edges are and whether they have ended."""
    found = store.graph.relationships(ACME, ids=["a"])
    return {one.predicate: (one.confidence, one.invalid_at is not None) for one in found}


REPEATED: Lines = [
    *RECORDS,
    edge("old", valid_at="2001-01-01"),
    edge("new", confidence=0.25, valid_at="2005-01-01", supersedes=ends("old")),
    edge("new", confidence=0.75),
]


def test_of_an_edge_that_stands_twice_in_a_batch_the_last_holds_as_it_does_in_one_call(
    store: DemoStages, write_file: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once(store, "once", REPEATED)
    assert write_file(REPEATED, WHOLE).relationships == 2
    assert held(store) == {"old": (1.0, False), "new": (0.75, False)}
    assert state(store, ACME) == state(store, "once")
    sent = watched(store, monkeypatch)
    write_file(REPEATED, WHOLE)
    assert sent == []


def test_of_an_edge_that_stands_in_two_batches_the_last_holds_and_what_the_first_ends_has_ended(
    store: DemoStages, write_file: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(REPEATED, SINGLE)
    assert held(store) == {"old": (1.0, True), "new": (0.75, False)}
    sent = watched(store, monkeypatch)
    write_file(REPEATED, SINGLE)
    assert [one.confidence for one in sent] == [0.25, 0.75]
    assert held(store) == {"old": (1.0, True), "new": (0.75, False)}


def link(new: str, old: str, **fields: Any) -> dict[str, Any]:
    return {"relationship": {"source": new, "type": "SUPERSEDES", "target": old, **fields}}


@pytest.mark.parametrize("at_a_time", [WHOLE, SINGLE])
@pytest.mark.parametrize("year", [2003, 2015])
@pytest.mark.parametrize("turned", [False, True])
def test_an_edge_that_says_what_a_record_supersedes_stands_whatever_the_record_makes_of_it(
    store: DemoStages, write_file: Callable[..., Done], at_a_time: int, year: int, *, turned: bool
) -> None:
    lines = [
        link("b", "a", valid_at=f"{year}-01-01", confidence=0.5),
        {**RECORDS[0], "valid_at": "2001-01-01"},
        {**RECORDS[1], "valid_at": "2010-01-01", "supersedes": ["a"]},
    ]
    at_once(store, "once", lines)
    done = write_file(lines[::-1] if turned else lines, at_a_time)
    assert (done.written, done.relationships, done.errors) == (2, 1, [])
    (one,) = store.graph.relationships(ACME, ids=["a"])
    assert one.valid_at is not None
    assert (one.confidence, one.valid_at.year) == (0.5, year)
    assert state(store, ACME) == state(store, "once")


@pytest.mark.parametrize("at_a_time", [WHOLE, SINGLE])
def test_what_a_record_supersedes_ends_earlier_when_its_file_says_so_anew(
    store: DemoStages, write_file: Callable[..., Done], at_a_time: int
) -> None:
    for year in (2010, 2005):
        write_file([RECORDS[0], {**RECORDS[1], "valid_at": f"{year}-01-01", "supersedes": ["a"]}], at_a_time)
    (old,) = store.index.get_many(ACME, ["a"])
    (one,) = store.graph.relationships(ACME, ids=["a"])
    assert old.invalid_at is not None
    assert one.valid_at == old.invalid_at
    assert old.invalid_at.year == 2005


@pytest.mark.parametrize("missing", list(MissingEnds))
@pytest.mark.parametrize("at_a_time", [WHOLE, SINGLE])
def test_a_record_that_supersedes_an_entity_nothing_or_itself_is_told_of_as_in_a_call_and_ends_nothing(
    store: DemoStages, write_file: Callable[..., Done], at_a_time: int, missing: MissingEnds
) -> None:
    lines = [
        {"entity": {"id": "e", "name": "E", "content": "turbine"}},
        {**RECORDS[0], "supersedes": ["e"]},
        {**RECORDS[1], "supersedes": ["nobody", "c"]},
        {**RECORDS[2], "supersedes": ["c"]},
    ]
    items = Items("once")
    for number, line in enumerate(lines, start=1):
        items.add(str(number), line)
    refused = write_items(items, store, partial=True, missing=missing).errors
    done = write_file(lines, at_a_time, missing)
    assert (done.written, done.relationships) == (4, 0)
    assert sorted(done.errors) == sorted(str(error) for error in refused)
    assert [vertex.id for vertex in store.graph.scan(ACME).vertices] == ["e"]
    assert not any(record.invalid_at for record in store.index.scan(ACME).records)


def test_a_record_that_was_not_written_ends_nothing(store: DemoStages) -> None:
    put_lines(store, [RECORDS[0], {**RECORDS[1], "supersedes": ["a"]}])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_steps, "BATCH_LINES", 1)
        job = begun(store)
    first, second = batches(store, job, Phase.ITEMS)
    import_steps.batch(first, store)
    import_steps.lost(Lost(job=job, phase=second.phase, batch=second.batch, error="StoreError"), store)
    for task in batches(store, job, Phase.LINKS):
        import_steps.batch(task, store)
    assert finished(store, job).status is JobStatus.INCOMPLETE
    assert state(store, ACME) == ({"a": (None, None)}, {}, {})


@pytest.mark.parametrize(("at_a_time", "ended"), [(WHOLE, ["p"]), (SINGLE, ["p", "q"])])
def test_edges_that_end_each_other_are_told_of_where_both_are_seen_at_once(
    store: DemoStages, write_file: Callable[..., Done], at_a_time: int, ended: list[str]
) -> None:
    circle = [edge("p", valid_at="2005-01-01", supersedes=ends("q")), edge("q", supersedes=ends("p"))]
    done = write_file([*RECORDS, *circle], at_a_time)
    assert [predicate for predicate, (_, has_ended) in sorted(held(store).items()) if has_ended] == ended
    assert [error.split(": ")[1:] for error in done.errors] == [
        ["supersedes", "'a' COSTS 'b' would be superseded by itself"]
    ] * (2 - len(ended))
