"""A dataset folder is written a page at a time, and ends as if it had been written at once."""

from __future__ import annotations

import json
import threading
import tracemalloc
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import DatasetError
from braid.ingestion.repair import repair
from braid.settings import Settings

from braid_cli.datasets import ingest as ingesting
from braid_cli.datasets import streaming
from braid_cli.datasets.dataset import read_dataset
from braid_cli.datasets.ingest import IngestReport, ingest
from braid_cli.datasets.streaming import open_dataset
from tests.contract.files import watched
from tests.stages import DEMO, NOW, DemoStages, WordEncoder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from braid.models import Record, Relationship, Vertex

TENANT = "acme"


def lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder in which every page has to do with another."""
    folder = tmp_path / "data"
    folder.mkdir()
    corpus = [
        {"_id": f"fee-{year}", "text": f"The fee is {year}.", "kind": "fact", "valid_at": f"{year}-01-01"}
        | ({"supersedes": [f"fee-{year - 1}"]} if year > 2001 else {})
        for year in range(2001, 2011)
    ]
    corpus += [{"_id": "guide", "text": "A guide, which is an entity's record as well."}]
    # Not in the order in which they can be written: an entity of a corpus' record, and an end before its edge.
    entities = [
        {"id": "guide", "name": "The Guide", "type": "Book", "aliases": ["Handbook"]},
        *({"id": f"e{number}", "name": f"Part {number}", "content": f"part {number}"} for number in range(7)),
        {"id": "bare", "name": "Bare"},
    ]
    price = {"source": "bare", "type": "COSTS", "target": "fee-2010"}
    relationships = [
        # It ends one of the page and others of the first and the last, and is ended in turn.
        {**price, "predicate": "newest", "supersedes": [{**price, "predicate": "new"}]},
        {**price, "predicate": "older", "valid_at": "2001-01-01"},
        {**price, "predicate": "old", "valid_at": "2001-01-01"},
        {
            **price,
            "predicate": "new",
            "valid_at": "2010-01-01",
            "supersedes": [{**price, "predicate": name} for name in ("old", "older", "oldest")],
        },
        {"source": "e1", "type": "SUPERSEDES", "target": "fee-2010", "valid_at": "2012-01-01"},
        *(
            {"source": "bare", "type": "MENTIONS", "target": f"e{number}", "evidence": f"fee-{2001 + number}"}
            for number in range(7)
        ),
        {**price, "predicate": "oldest", "valid_at": "2001-01-01"},
    ]
    lines(folder / "corpus.jsonl", corpus)
    lines(folder / "entities.jsonl", entities)
    lines(folder / "relationships.jsonl", relationships)
    return folder


@pytest.fixture
def paged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingesting, "RECORDS_AT_ONCE", 3)
    monkeypatch.setattr(ingesting, "ENTITIES_AT_ONCE", 3)
    monkeypatch.setattr(ingesting, "EDGES_AT_ONCE", 2)


@pytest.fixture
def stages(tmp_path: Path) -> Iterator[DemoStages]:
    opened = DemoStages(Settings(home=tmp_path / "home"))
    yield opened
    opened.close()


def write(folder: Path, stages: DemoStages) -> IngestReport:
    with open_dataset(folder, TENANT) as files:
        return ingest(files, stages)


def stored(stages: DemoStages) -> tuple[tuple[Record, ...], tuple[Vertex, ...], tuple[Relationship, ...]]:
    records = stages.index.scan(TENANT, with_vectors=True).records
    page = stages.graph.scan(TENANT)
    return records, page.vertices, page.relationships


@pytest.mark.usefixtures("paged")
def test_pages_end_as_one_write_of_everything_does(
    folder: Path, stages: DemoStages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = write(folder, stages)
    with monkeypatch.context() as patch:
        patch.setattr(ingesting, "RECORDS_AT_ONCE", 1_000)
        patch.setattr(ingesting, "ENTITIES_AT_ONCE", 1_000)
        patch.setattr(ingesting, "EDGES_AT_ONCE", 1_000)
        whole = DemoStages(Settings(home=tmp_path / "whole"))
        of_memory = ingest(read_dataset(folder, TENANT), whole)
    assert stored(stages) == stored(whole)
    assert (done.records, done.vertices, done.relationships) == (18, 10, 13)
    assert (of_memory.records, of_memory.vertices, of_memory.relationships) == (18, 10, 13)
    assert not repair(TENANT, stages, dry_run=True).counts
    whole.close()


@pytest.mark.usefixtures("paged")
def test_what_is_superseded_from_another_page_holds_no_longer(folder: Path, stages: DemoStages) -> None:
    write(folder, stages)
    records, vertices, edges = stored(stages)
    ended = {record.id: record.invalid_at for record in records if record.invalid_at}
    assert [f"{ended[f'fee-{year}']:%Y}" for year in range(2001, 2011)] == [
        *(f"{year}" for year in range(2002, 2011)),
        "2012",
    ]
    assert {edge.predicate: edge.invalid_at is not None for edge in edges if edge.type == "COSTS"} == {
        "newest": False,
        **dict.fromkeys(("new", "old", "older", "oldest"), True),
    }
    assert all(edge.invalid_at for edge in edges if edge.type == "MENTIONS")
    guide = next(vertex for vertex in vertices if vertex.id == "guide")
    assert (guide.entity_type, guide.aliases, guide.has_record) == ("Book", ("Handbook",), True)
    assert stages.graph.link(TENANT, ["handbook"], as_of=NOW)


@pytest.mark.usefixtures("paged")
def test_written_again_later_nothing_is_written_in_between_either(
    folder: Path, stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, stages)
    before = stored(stages)
    stages.cache.advance(TENANT)  # as if somebody else had written, so that everything is compared
    monkeypatch.setattr(stages, "now", lambda: NOW + timedelta(days=30))
    sent = watched(stages, monkeypatch)
    again = write(folder, stages)
    assert (again.written, again.unchanged) == (0, True)
    assert (sent, stored(stages)) == ([], before)


@pytest.mark.usefixtures("paged")
def test_what_a_page_contradicts_is_known_before_the_first_is_written(folder: Path, stages: DemoStages) -> None:
    rows = (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    rows[0] = rows[0].removesuffix("}") + ', "supersedes": ["fee-2010"]}'
    (folder / "corpus.jsonl").write_text("\n".join(rows), encoding="utf-8")
    with pytest.raises(DatasetError, match=r"corpus\.jsonl:\d+: supersedes: .* would be superseded by itself"):
        write(folder, stages)
    assert stages.store.tenants() == []


@pytest.mark.usefixtures("paged")
def test_an_edge_that_ends_none_is_named_by_its_line(folder: Path, stages: DemoStages) -> None:
    with (folder / "relationships.jsonl").open("a", encoding="utf-8") as file:
        edge = {"source": "bare", "type": "COSTS", "target": "e1"}
        file.write(json.dumps({**edge, "supersedes": [{**edge, "target": "e2"}]}) + "\n")
    with pytest.raises(DatasetError, match=r"relationships\.jsonl:14: supersedes: there is no edge 'bare' COSTS 'e2'"):
        write(folder, stages)
    assert stages.store.tenants() == []


@pytest.mark.usefixtures("paged")
def test_a_folder_that_changes_while_it_is_read_is_noticed(folder: Path, stages: DemoStages) -> None:
    with open_dataset(folder, TENANT) as files:
        (folder / "corpus.jsonl").write_text('{"_id": "other", "text": "another file"}\n', encoding="utf-8")
        with pytest.raises(DatasetError, match="changed while it was read"):
            ingest(files, stages)


def test_a_folder_is_checked_in_no_more_memory_the_longer_it_is(tmp_path: Path) -> None:
    peaks = []
    for size in (200, 4_000):
        folder = tmp_path / str(size)
        folder.mkdir()
        lines(folder / "corpus.jsonl", [{"_id": f"r{row}", "text": "word " * 50} for row in range(size)])
        tracemalloc.start()
        open_dataset(folder, TENANT).close()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0] + 100_000


@pytest.mark.usefixtures("paged")
def test_of_an_edge_that_stands_there_twice_the_last_holds_and_what_the_first_would_have_ended_goes_on(
    tmp_path: Path, stages: DemoStages
) -> None:
    price = {"source": "a", "type": "COSTS", "target": "b"}
    old, new = {**price, "predicate": "old"}, {**price, "predicate": "new"}
    fill = [{"source": "b", "type": "COSTS", "target": name} for name in "abc"]
    edges = [old, {**new, "confidence": 0.1, "supersedes": [old]}, *fill, {**new, "confidence": 0.9}]
    lines(tmp_path / "corpus.jsonl", [{"_id": name, "text": name} for name in "abc"])
    lines(tmp_path / "relationships.jsonl", edges)
    write(tmp_path, stages)
    held = {edge.predicate: (edge.confidence, edge.invalid_at) for edge in stored(stages)[2] if edge.predicate}
    assert held == {"old": (1.0, None), "new": (0.9, None)}


@pytest.mark.usefixtures("paged")
def test_the_demo_archive_is_the_same_by_pages(stages: DemoStages) -> None:
    with open_dataset(DEMO / "saltmarrow", TENANT) as files:
        ingest(files, stages)
    assert not repair(TENANT, stages, dry_run=True).counts
    again = read_dataset(DEMO / "saltmarrow", TENANT)
    assert ingest(again, stages).unchanged


def test_records_are_embedded_while_entities_are_written(
    folder: Path, stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedding, upsert, encode = threading.Event(), stages.graph.upsert, WordEncoder.encode
    waited: list[bool] = []

    def begun(encoder: WordEncoder, given: Sequence[str], **options: Any) -> list[bytes]:
        embedding.set()
        return encode(encoder, given, **options)

    def after_it(*given: Any) -> None:
        waited.append(embedding.wait(60))
        upsert(*given)

    monkeypatch.setattr(WordEncoder, "encode", begun)
    monkeypatch.setattr(stages.graph, "upsert", after_it)
    write(folder, stages)
    assert waited[0]


def test_texts_are_read_once_to_be_checked_and_once_to_be_written(
    folder: Path, stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    parse = streaming.corpus_record

    def noted(row: dict[str, Any], tenant_id: str) -> Record:
        read.append(row["_id"])
        return parse(row, tenant_id)

    monkeypatch.setattr(streaming, "corpus_record", noted)
    write(folder, stages)
    assert sorted(read) == sorted(["guide", *(f"fee-{year}" for year in range(2001, 2011))] * 2)


@pytest.mark.usefixtures("paged")
def test_edges_are_written_between_the_texts_once_their_ends_and_evidence_are(
    folder: Path, stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines(folder / "corpus.jsonl", [{"_id": f"t{number}", "text": f"text {number}"} for number in range(9)])
    lines(folder / "entities.jsonl", [{"id": "one", "name": "One"}, {"id": "two", "name": "Two"}])
    edges = [("one", "two", None), ("one", "t0", None), ("two", "t1", None), ("two", "t2", None)]
    edges += [("two", "one", "t8"), ("one", "t3", None)]
    lines(
        folder / "relationships.jsonl",
        [{"source": head, "type": "TELLS", "target": tail, "evidence": said} for head, tail, said in edges],
    )
    order: list[list[str]] = []
    write_page = ingesting.write

    def noted(request: Any, *given: Any, **options: Any) -> Any:
        of_edges = [f"{edge.source}-{edge.target}" for edge in request.relationships]
        order.append(of_edges or [one.id for one in (*request.records, *request.vertices)])
        return write_page(request, *given, **options)

    monkeypatch.setattr(ingesting, "write", noted)
    write(folder, stages)
    assert order == [
        ["one", "two"],
        ["t0", "t1", "t2"],
        ["one-two", "one-t0"],
        ["two-t1", "two-t2"],
        ["t3", "t4", "t5"],
        ["t6", "t7", "t8"],
        ["two-one", "one-t3"],
    ]
