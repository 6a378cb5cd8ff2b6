"""What every pair of stores holds after a file or a folder, whatever its order and however few lines are seen at once.

An engine's own test file gives the fixture ``store``: empty stores of its own, with
:class:`tests.stages.WordEncoder` as the model.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from braid.ingestion.bulk import import_steps
from braid.ingestion.documents.ingesting import ingest_documents
from braid.ingestion.documents.progress import FolderDone
from braid.ingestion.inline_writes import write_items
from braid.ingestion.item_parsing import Items
from braid.ingestion.writing import MissingEnds
from braid.models import Query
from braid.retrieval import pipeline

from braid_cli.datasets import ingest, ingest_file
from braid_cli.datasets.dataset import read_dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from braid.models import Relationship

    from braid_cli.datasets.ingest_file import FileReport
    from tests.stages import DemoStages

LEVEL = {"type": "NUMBER", "numberValue": 2}
_COSTS = {"source": "fee", "type": "COSTS", "target": "fee-3"}
FACTS: tuple[dict[str, Any], ...] = (
    {"record": {"id": "fee-2", "kind": "fact", "content": "The fee is two.", "supersedes": ["fee-1"]}},
    {"record": {"id": "fee-1", "kind": "fact", "content": "The fee is one.", "valid_at": "2001-01-01"}},
    {"record": {"id": "fee-3", "kind": "fact", "content": "The fee is three."}},
    {"relationship": {"source": "fee-3", "type": "SUPERSEDES", "target": "fee-2", "valid_at": "2003-01-01"}},
    {"relationship": {"source": "fee", "type": "MENTIONS", "target": "fee-1", "evidence": "fee-1"}},
    {"relationship": {"source": "fee", "type": "MENTIONS", "target": "fee-2", "evidence": "fee-2"}},
    {"relationship": {"source": "fee", "type": "MENTIONS", "target": "fee-3", "evidence": "fee-3"}},
    {"relationship": {**_COSTS, "predicate": "now", "supersedes": [{**_COSTS, "predicate": "then"}]}},
    {
        "relationship": {
            **_COSTS,
            "predicate": "then",
            "valid_at": "2002-01-01",
            "supersedes": [{**_COSTS, "predicate": "once"}],
        }
    },
    {"relationship": {**_COSTS, "predicate": "once", "valid_at": "2001-01-01"}},
    {"entity": {"id": "fee", "name": "Fee"}},
)
"""Lines of which most have to do with another: what is superseded, and what had it as evidence or is ended in turn."""


def escaped(line: dict[str, Any]) -> str:
    r"""Return a line as JSON that has a letter of every word as its number, such as ``"sup\u0065rsedes"``."""
    letters = {"e": "\\u0065", "E": "\\u0045"}
    return "".join(letters.get(letter, letter) for letter in json.dumps(line))


def state(store: DemoStages, tenant_id: str) -> tuple[dict[str, Any], ...]:
    """Return from when until when which records, vertices and edges hold."""
    records, page = store.index.scan(tenant_id).records, store.graph.scan(tenant_id)
    return (
        {record.id: (record.valid_at, record.invalid_at) for record in records},
        {vertex.id: (vertex.valid_at, vertex.invalid_at) for vertex in page.vertices},
        {edge.identity(): (edge.valid_at, edge.invalid_at) for edge in page.relationships},
    )


def at_once(store: DemoStages, tenant_id: str, lines: Iterable[dict[str, Any]]) -> None:
    """Write lines in one request."""
    items = Items(tenant_id)
    for number, line in enumerate(lines):
        items.add(f"line {number}", line)
    assert not write_items(items, store).errors


def by_line(
    store: DemoStages,
    tenant_id: str,
    path: Path,
    lines: Iterable[dict[str, Any]],
    spelt: Callable[[dict[str, Any]], str] = json.dumps,
) -> FileReport:
    """Write lines as a file."""
    path.write_text("".join(spelt(line) + "\n" for line in lines), encoding="utf-8")
    return ingest_file.ingest_file(path, tenant_id, store, missing=MissingEnds.REFUSE)


def watched(store: DemoStages, monkeypatch: pytest.MonkeyPatch) -> list[Relationship]:
    """Return the edges that are written from now on, as they are."""
    upsert = store.graph.upsert
    sent: list[Relationship] = []

    def upserted(vertices: Any, relationships: Any, *keys: Any) -> None:
        sent.extend(relationships)
        upsert(vertices, relationships, *keys)

    monkeypatch.setattr(store.graph, "upsert", upserted)
    return sent


class FilesContract:
    """Writing a file or a folder of which one line at a time is seen."""

    @pytest.fixture(autouse=True)
    def single_lines(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(import_steps, "BATCH_LINES", 1)

    def test_in_the_end_the_same_holds_as_if_all_lines_were_written_at_once_whatever_their_order(
        self, store: DemoStages, tmp_path: Path
    ) -> None:
        at_once(store, "once", FACTS)
        for tenant_id, lines, spelt in (
            ("forwards", FACTS, json.dumps),
            ("backwards", FACTS[::-1], json.dumps),
            ("escaped", FACTS, escaped),
        ):
            done = by_line(store, tenant_id, tmp_path / "a.jsonl", lines, spelt)
            assert (done.written, done.relationships, done.errors) == (3, 8, 0)
            assert state(store, tenant_id) == state(store, "once")
        assert sum(end is not None for _, end in state(store, "once")[2].values()) == 4

    def test_a_folder_of_which_one_item_at_a_time_is_seen_ends_as_one_write_does(
        self, store: DemoStages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ingest, "RECORDS_AT_ONCE", 1)
        monkeypatch.setattr(ingest, "ENTITIES_AT_ONCE", 1)
        monkeypatch.setattr(ingest, "EDGES_AT_ONCE", 1)
        at_once(store, "once", FACTS)
        of = {kind: [row[kind] for row in FACTS if kind in row] for kind in ("record", "entity", "relationship")}
        corpus = [{"_id": row["id"], "text": row["content"], **row} for row in of["record"]]
        for row in corpus:
            del row["id"], row["content"]
        for name, rows in (("corpus", corpus), ("entities", of["entity"]), ("relationships", of["relationship"])):
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (tmp_path / f"{name}.jsonl").write_text(text, encoding="utf-8")
        ingest.ingest(read_dataset(tmp_path, "acme"), store)
        assert state(store, "acme") == state(store, "once")

    def test_written_again_no_edge_changes_in_between_and_none_ends_later(
        self, store: DemoStages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        by_line(store, "acme", tmp_path / "a.jsonl", FACTS)
        before = state(store, "acme")
        later = store.now() + timedelta(days=30)
        monkeypatch.setattr(store, "now", lambda: later)
        sent = watched(store, monkeypatch)
        for lines in (FACTS, FACTS[::-1]):
            assert by_line(store, "acme", tmp_path / "a.jsonl", lines).relationships == 8
        assert (sent, state(store, "acme")) == ([], before)

    def test_an_edge_that_the_file_ends_no_longer_holds_again(self, store: DemoStages, tmp_path: Path) -> None:
        lines = [row if "relationship" not in row else {"relationship": dict(row["relationship"])} for row in FACTS]
        by_line(store, "acme", tmp_path / "a.jsonl", lines)
        now = next(row["relationship"] for row in lines if row.get("relationship", {}).get("predicate") == "now")
        now["supersedes"] = []
        by_line(store, "acme", tmp_path / "a.jsonl", lines)
        ends = state(store, "acme")[2]
        held = {predicate: end is None for (_, kind, _, predicate), (_, end) in ends.items() if kind == "COSTS"}
        assert held == {"now": True, "then": True, "once": False}

    def test_a_document_is_valid_and_filtered_by_what_the_file_beside_it_states(
        self, store: DemoStages, tmp_path: Path
    ) -> None:
        folder = tmp_path / "fees"
        folder.mkdir()
        stated = {
            "old.txt": {"valid_at": "2023-01-01", "invalid_at": "2024-03-01", "tags": ["fees", "hr"]},
            "new.txt": {"metadataAttributes": {"valid_at": "2024-03-01", "level": {"value": LEVEL}}},
        }
        for name, fields in stated.items():
            (folder / name).write_text(f"The fee of the {name}.", encoding="utf-8")
            (folder / f"{name}.metadata.json").write_text(json.dumps(fields), encoding="utf-8")

        def found(as_of: str | None, *conditions: str) -> set[str]:
            asked = Query(text="What is the fee?", tenant_id="acme", as_of=as_of, filters={"metadata": conditions})
            return {str(result.metadata["file"]) for result in pipeline.answer(asked, store).results}

        for end, ended in (("2024-03-01", True), ("2100-01-01", False)):
            stated["old.txt"]["invalid_at"] = end
            (folder / "old.txt.metadata.json").write_text(json.dumps(stated["old.txt"]), encoding="utf-8")
            *_, report = ingest_documents(folder, store, tenant_id="acme")
            assert isinstance(report, FolderDone)
            assert (report.documents, report.embedded, report.skipped) == (2, 2 if ended else 0, ())
            assert found("2023-06-01") == found("2023-06-01", "tags=hr") == {"old.txt"}
            assert found(None) == ({"new.txt"} if ended else {"old.txt", "new.txt"})
            assert (found(None, "level>=2"), found(None, "level<2")) == ({"new.txt"}, set())
