"""A folder of documents on the command line: ingested, searched, listed, ingested again; what is said of bad files."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

from tests.document_files import SENTENCE, every_format
from tests.e2e.conftest import DEMO, run

if TYPE_CHECKING:
    from pathlib import Path


def folder(tmp_path: Path, files: dict[str, bytes] | None = None) -> Path:
    made = tmp_path / "harbour"
    made.mkdir()
    for name, content in (every_format() if files is None else files).items():
        (made / name).write_bytes(content)
    return made


def rows(done: Any) -> Any:
    return json.loads(done.out)


def test_a_folder_of_documents_is_ingested_searched_listed_and_kept_up_to_date(tmp_path: Path) -> None:
    home, files = tmp_path / "home", folder(tmp_path)
    first = run(home, "ingest", str(files), "--tenant", "acme", "--where", "team=port")
    assert first.status == 0, first.err
    assert f"harbour: {len(every_format())} documents" in first.out
    assert f"harbour: {len(every_format())} files, {len(every_format())} to read" in first.err
    found = rows(run(home, "search", "When does the heron gate open?", "--tenant", "acme", "--json"))
    assert SENTENCE in found["results"][0]["content"]
    assert found["results"][0]["metadata"]["team"] == "port"
    listed = rows(run(home, "list", "documents", "--tenant", "acme", "--json"))
    assert {one["document"] for one in listed["documents"]} == {f"harbour/{name}" for name in every_format()}
    entities = rows(run(home, "list", "entities", "--tenant", "acme", "--json"))["entities"]
    assert entities
    assert [one for one in entities if "#chunk-" in one["id"]] == []
    relations = [one["relations"] for one in entities]
    assert (relations, relations[0] > 0) == (sorted(relations, reverse=True), True)
    (files / "guide.md").unlink()
    again = run(home, "ingest", str(files), "--tenant", "acme", "--where", "team=port")
    assert (again.status, again.err) == (0, "")
    assert f"{len(every_format()) - 1} unchanged; 1 removed" in again.out
    assert f"documents  {len(every_format()) - 1}" in run(home, "stats", "--tenant", "acme").out


def test_tenants_are_listed_a_name_a_line(tmp_path: Path) -> None:
    home = tmp_path / "home"
    files = folder(tmp_path, {"guide.md": SENTENCE.encode()})
    for tenant in ("globex", "acme"):
        assert run(home, "ingest", str(files), "--tenant", tenant).status == 0
    assert run(home, "list", "tenants").out.splitlines() == ["acme", "globex"]
    assert rows(run(home, "list", "tenants", "--limit", "1", "--json")) == {"tenants": ["acme"], "more": True}


def test_files_that_cannot_be_read_are_named_and_the_status_says_so(tmp_path: Path) -> None:
    files = folder(
        tmp_path, {"good.md": SENTENCE.encode(), "bad.pdf": b"%PDF-1.7 bad", "photo.png": b"\x89PNG" + bytes(9)}
    )
    done = run(tmp_path / "home", "ingest", str(files), "--tenant", "acme")
    assert done.status == 2
    assert "braid: skipped: photo.png is a picture" in done.err
    assert "braid: skipped: bad.pdf is broken" in done.err
    assert "harbour: 1 document in 1 chunk for acme: 1 read (1 chunk new or changed); 2 skipped" in done.out
    (tmp_path / "late.jsonl").write_text('{"record": {"id": "late#2", "content": "It came late.", "name": "Late"}}\n')
    assert run(tmp_path / "home", "ingest", str(tmp_path / "late.jsonl"), "--tenant", "acme").status == 0
    listed = rows(run(tmp_path / "home", "list", "documents", "--tenant", "acme", "--json"))["documents"]
    assert [(one["document"], one["title"], one["chunks"]) for one in listed if not one["skipped"]] == [
        ("harbour/good.md", "good", 1),
        ("late", "Late", None),
    ]
    assert {one["document"] for one in listed if one["skipped"]} == {"harbour/bad.pdf", "harbour/photo.png"}
    assert "documents  2, 2 files skipped" in run(tmp_path / "home", "stats", "--tenant", "acme").out


def test_rows_of_a_table_are_mapped_and_a_wrong_mapping_names_the_columns(tmp_path: Path) -> None:
    table = tmp_path / "tickets.csv"
    table.write_text("Subject,Body\nStuck,The gate is stuck.\nWet,The keeper is wet.\n", encoding="utf-8")
    home = tmp_path / "home"
    done = rows(run(home, "ingest", str(table), "--map", "title=Subject", "--map", "text=Body", "--json"))
    assert (done["documents"], done["chunks"]) == (1, 2)
    wrong = run(home, "ingest", str(table), "--map", "text=Text")
    assert wrong.status == 2
    assert "tickets.csv has no column 'Text' for text; it has Subject, Body" in wrong.err
    assert "key=value" in run(home, "ingest", str(table), "--map", "text").err
    twice = run(home, "ingest", str(table), "--map", "text=Subject", "--map", "text=Body")
    assert "'text' is given twice; one column is the text. Without it, all columns that are not mapped" in twice.err


def test_options_of_documents_are_refused_for_a_dataset(tmp_path: Path) -> None:
    dataset = tmp_path / "pellworth"
    shutil.copytree(DEMO / "pellworth", dataset)
    done = run(tmp_path / "home", "ingest", str(dataset), "--where", "team=port")
    assert done.status == 2
    assert "are for documents, and this is a dataset" in done.err


def test_a_folder_does_not_take_the_name_of_another_one_unless_told_or_moved(tmp_path: Path) -> None:
    home, first, second = tmp_path / "home", tmp_path / "a" / "notes", tmp_path / "b" / "notes"
    for place, name in ((first, "gates.md"), (second, "quays.md")):
        place.mkdir(parents=True)
        (place / name).write_bytes(SENTENCE.encode())
    ingest = ("ingest", "--tenant", "acme", "--json")
    assert run(home, *ingest, str(first)).status == 0
    for named in (("--name", "notes"), ("--moved-from", str(second.parent))):
        refused = run(home, *ingest, str(second), *named)
        assert (refused.status, refused.out) == (2, "")
        assert f"'notes' was ingested from {first}" in refused.err
    told = run(home, *ingest, str(second), "--name", "notes").err
    assert "1 of its documents would be deleted and 0 replaced" in " ".join(told.split())
    assert rows(run(home, *ingest, str(first)))["documents"] == 1
    taken = run(home, *ingest, str(second), "--moved-from", str(first))
    assert (rows(taken)["documents"], rows(taken)["removed"]) == (1, 1)
    assert f"1 document that {second} has not will be deleted" in taken.err
    shutil.copytree(second, first, dirs_exist_ok=True)
    assert "0 of its documents would be deleted and 1 replaced" in run(home, *ingest, str(first), "--name", "notes").err
    moved = second.rename(tmp_path / "c")
    assert run(home, *ingest, str(moved), "--name", "notes").err == ""


def test_a_title_of_rows_is_their_heading(tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "tickets.csv"
    file.write_text("Subject,Body\nPrinter on fire,It smokes.\nDoor stuck,It jams.\n", encoding="utf-8")
    mapped = ("--map", "title=Subject", "--map", "text=Body")
    assert run(home, "ingest", str(file), "--tenant", "acme", *mapped).status == 0
    found = rows(run(home, "search", "Which printer is on fire?", "--tenant", "acme", "--json"))["results"][0]
    assert (found["title"], found["metadata"]["heading"]) == ("tickets", "Printer on fire")
    assert "“Printer on fire”" in run(home, "search", "Which printer is on fire?", "--tenant", "acme").out
