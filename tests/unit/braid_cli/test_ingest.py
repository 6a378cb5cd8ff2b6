"""Ingesting: once for the same content, all or nothing when it is wrong, and finished after it was killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from braid.app import Application
from braid.engines.embedded.store import EmbeddedStore
from braid.errors import DatasetError, ModelMissing, NewerSchema, StoreFull, TenantBeingDeleted
from braid.ingestion.bulk import import_steps
from braid.ingestion.deleting import delete_records
from braid.ingestion.tenant_deletion import delete_tenant
from braid.ingestion.writing import MissingEnds
from braid.models import GraphSource
from braid.ports.knowledge_graph import GraphStats
from braid.ports.search_index import IndexStats, SearchRequest
from braid.settings import Settings

from braid_cli.datasets import ingest as ingesting
from braid_cli.datasets import ingest_file
from braid_cli.datasets.dataset import read_dataset
from braid_cli.datasets.ingest import ingest
from tests.ended_later import ENDED_LATER, ENDS
from tests.stages import NOW, DemoStages, WordEncoder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ROWS = 20
TENANT = "acme"


def write(folder: Path, *, rows: int = ROWS, word: str = "turbine", schemas: Sequence[int] = ()) -> Path:
    """Write a chain of records, each mentioned by the entity before it."""
    folder.mkdir(exist_ok=True)
    files: dict[str, list[dict[str, Any]]] = {
        "corpus": [{"_id": f"r{row}", "text": f"{word} number {row}"} for row in range(rows)],
        "entities": [{"id": f"e{row}", "name": f"Part {row}"} for row in range(rows)],
        "relationships": [{"source": f"e{row}", "type": "MENTIONS", "target": f"r{row}"} for row in range(rows)],
        "schemas": [{"version": version, "created_at": "2024-01-01"} for version in schemas],
    }
    for name, lines in files.items():
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DemoStages]:
    """Return empty embedded engines, written to in pages of eight."""
    monkeypatch.setattr(ingesting, "RECORDS_AT_ONCE", 8)
    monkeypatch.setattr(ingesting, "ENTITIES_AT_ONCE", 8)
    opened = DemoStages(Settings(home=tmp_path / "home"))
    yield opened
    opened.store.close()


def found(application: Application, word: str, tenant: str = TENANT) -> list[str]:
    request = SearchRequest(tenant_id=tenant, text=word, k=50, as_of=NOW)
    return sorted(hit.id for hit in application.index.search(request).lexical)


def test_records_vertices_and_relationships_are_written_and_counted(stages: DemoStages, tmp_path: Path) -> None:
    done = ingest(read_dataset(write(tmp_path / "data"), TENANT), stages)
    assert (done.records, done.vertices, done.relationships, done.unchanged) == (ROWS, 2 * ROWS, ROWS, False)
    assert stages.index.stats(TENANT).records == ROWS
    assert stages.graph.stats(TENANT).edges == ROWS
    assert len(found(stages, "turbine")) == ROWS


@pytest.mark.parametrize("given", [True, False])
def test_names_are_found_in_texts_with_a_given_graph_and_without_one(
    stages: DemoStages, tmp_path: Path, given: bool
) -> None:
    folder = write(tmp_path / "data", word="It was Anna Berg who wrote")
    if not given:
        for name in ("entities", "relationships"):
            (folder / f"{name}.jsonl").unlink()
    done = ingest(read_dataset(folder, TENANT), stages)
    assert (done.names, done.mentions, done.unchanged) == (1, ROWS, False)


def test_the_same_folder_with_the_given_graph_alone_loses_the_names_that_were_found(
    stages: DemoStages, tmp_path: Path
) -> None:
    folder = write(tmp_path / "data", word="It was Anna Berg who wrote")
    ingest(read_dataset(folder, TENANT), stages)
    stages.settings = stages.settings.model_copy(update={"graph": GraphSource.GIVEN})
    done = ingest(read_dataset(folder, TENANT), stages)
    assert (done.unmentioned, done.written, done.unchanged) == (ROWS, 0, False)
    assert stages.graph.stats(TENANT).edges == ROWS
    assert ingest(read_dataset(folder, TENANT), stages).unchanged


def test_progress_counts_records_up_to_all(stages: DemoStages, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    ingest(
        read_dataset(write(tmp_path / "data"), TENANT), stages, on_progress=lambda done, all_: told.append((done, all_))
    )
    assert list(dict.fromkeys(told)) == [(8, ROWS), (16, ROWS), (20, ROWS)]


def test_the_same_content_is_embedded_once(stages: DemoStages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "data")
    ingest(read_dataset(folder, TENANT), stages)
    monkeypatch.setattr(WordEncoder, "encode", None)  # embedding again would fail
    assert ingest(read_dataset(folder, TENANT), stages).unchanged


def test_schemas_that_were_removed_while_the_folder_was_written_are_registered_by_the_next_ingest(
    stages: DemoStages, tmp_path: Path
) -> None:
    folder = write(tmp_path / "data")
    version = {"version": 2, "created_at": "2024-01-01", "entity_types": ["Part"], "relationship_types": []}
    (folder / "schemas.jsonl").write_text(json.dumps({**version, "version": 1}) + "\n" + json.dumps(version) + "\n")
    dataset = read_dataset(folder, TENANT)
    ingest(dataset, stages, on_progress=lambda *_: stages.schemas.forget(TENANT))
    assert stages.schemas.current(TENANT) == 1
    ingest(dataset, stages)
    assert stages.schemas.current(TENANT) == 2
    assert ingest(dataset, stages).unchanged


def test_changed_content_another_tenant_and_another_model_are_ingested_anew(stages: DemoStages, tmp_path: Path) -> None:
    folder = write(tmp_path / "data")
    ingest(read_dataset(folder, TENANT), stages)
    assert not ingest(read_dataset(folder, "globex"), stages).unchanged
    write(folder, word="pump")
    assert not ingest(read_dataset(folder, TENANT), stages).unchanged
    assert found(stages, "turbine") == []
    assert len(found(stages, "pump")) == len(found(stages, "turbine", "globex")) == ROWS
    other = DemoStages(stages.settings.model_copy(update={"embedding_model": "codebert-code"}))
    assert not ingest(read_dataset(folder, TENANT), other).unchanged
    other.store.close()


def test_a_folder_that_was_written_otherwise_has_its_names_written_again(
    stages: DemoStages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = read_dataset(write(tmp_path / "data"), TENANT)
    ingest(dataset, stages)
    with stages.store.transaction() as connection:
        connection.execute("DELETE FROM names")
    assert stages.graph.link(TENANT, ["part 3"], as_of=NOW) == []
    assert ingest(dataset, stages).unchanged
    assert stages.graph.link(TENANT, ["part 3"], as_of=NOW) == []
    monkeypatch.setattr(ingesting, "STORED_FORM", "names another way")
    again = ingest(dataset, stages)
    assert (again.unchanged, again.written) == (False, 0)
    assert [link.entity_id for link in stages.graph.link(TENANT, ["part 3"], as_of=NOW)] == ["e3"]
    assert ingest(dataset, stages).unchanged


def test_a_record_newer_than_the_tenants_schema_is_named_and_nothing_is_written(
    stages: DemoStages, tmp_path: Path
) -> None:
    folder = write(tmp_path / "data")
    with (folder / "corpus.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"_id": "new", "text": "from tomorrow", "schema_version": 4}\n')
    with pytest.raises(NewerSchema, match=rf"corpus\.jsonl:{ROWS + 1}: schema_version: 4 is newer .* 1 .*'acme'"):
        ingest(read_dataset(folder, TENANT), stages)
    assert stages.store.tenants() == []
    write(tmp_path / "first", rows=1, schemas=[1, 2, 3, 4])
    ingest(read_dataset(tmp_path / "first", TENANT), stages)
    assert ingest(read_dataset(folder, TENANT), stages).records == ROWS + 1


def test_a_missing_model_is_found_before_anything_is_written(tmp_path: Path) -> None:
    application = Application(Settings(home=tmp_path / "home", models_dir=tmp_path / "none"))
    dataset = read_dataset(write(tmp_path / "data", schemas=[1, 2]), TENANT)
    with pytest.raises(ModelMissing, match="braid models export all-minilm-l6-v2"):
        ingest(dataset, application)
    assert application.index.stats(TENANT) == IndexStats()
    assert application.graph.stats(TENANT) == GraphStats()
    assert application.schemas.current(TENANT) == 1
    application.store.close()


def test_a_full_disk_is_named_and_the_ingest_is_finished_when_there_is_space(
    stages: DemoStages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = read_dataset(write(tmp_path / "data", rows=200), TENANT)
    connect = EmbeddedStore._connect
    limit = 120  # pages

    def nearly_full(store: EmbeddedStore) -> Any:
        connection = connect(store)
        connection.execute(f"PRAGMA max_page_count = {limit}")
        return connection

    assert stages.store.tenants() == []
    stages.store.close()
    small = DemoStages(stages.settings)
    monkeypatch.setattr(EmbeddedStore, "_connect", nearly_full)
    with pytest.raises(StoreFull, match=r"no space left.*BRAID_HOME"):
        ingest(dataset, small)
    kept = small.index.stats(TENANT).records
    assert 0 < kept < 200
    assert kept % 8 == 0
    assert len(found(small, "turbine")) == min(kept, 50)
    limit = 1_000_000
    small.store.close()
    larger = DemoStages(stages.settings)
    assert ingest(dataset, larger).records == 200
    assert larger.index.stats(TENANT).records == 200
    assert larger.graph.stats(TENANT).edges == 200
    larger.store.close()


KILLED = """
import os, signal, sys
from pathlib import Path
from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.engines.embedded.object_store import EmbeddedObjectStore
from braid.settings import Settings
from braid_cli.datasets import ingest
from braid_cli.datasets.dataset import read_dataset
from tests.stages import DemoStages

home, folder, where, count = sys.argv[1:]

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def after(function):
    def counted(*arguments, **named):
        result = function(*arguments, **named)
        counted.calls += 1
        if counted.calls == int(count):
            die()
        return result
    counted.calls = 0
    return counted

ingest.RECORDS_AT_ONCE = 8
target, name = {
    "encoder": (DemoStages, "encoder_for"),
    "index": (EmbeddedSearchIndex, "upsert"),
    "graph": (EmbeddedKnowledgeGraph, "upsert"),
    "manifest": (EmbeddedObjectStore, "put"),
}[where]
setattr(target, name, after(getattr(target, name)))
ingest.ingest(read_dataset(Path(folder), "acme"), DemoStages(Settings(home=home)))
"""


@pytest.mark.parametrize(
    ("where", "count", "kept"),
    [("encoder", 1, 0), ("manifest", 1, 0), ("index", 1, 0), ("index", 2, 8), ("index", 3, 16), ("graph", 1, 0)],
)
def test_a_killed_ingest_keeps_what_was_acknowledged_and_is_finished_by_the_next(
    tmp_path: Path, where: str, count: int, kept: int
) -> None:
    folder = write(tmp_path / "data")
    killed = subprocess.run(  # noqa: S603 - this interpreter and the text above
        [sys.executable, "-c", KILLED, str(tmp_path / "home"), str(folder), where, str(count)],
        cwd=Path(__file__).parents[3],
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    stages = DemoStages(Settings(home=tmp_path / "home"))
    assert len(found(stages, "turbine")) == kept
    assert not ingest(read_dataset(folder, TENANT), stages).unchanged
    assert len(found(stages, "turbine")) == ROWS
    assert stages.graph.stats(TENANT).edges == ROWS
    assert ingest(read_dataset(folder, TENANT), stages).unchanged
    stages.store.close()


def test_an_interrupted_change_is_not_taken_for_the_content_before_it(stages: DemoStages, tmp_path: Path) -> None:
    """The store then holds some of both: going back to the first content has to write it again."""
    folder = write(tmp_path / "data")
    ingest(read_dataset(folder, TENANT), stages)
    write(folder, word="pump")

    def interrupt(done: int, _: int) -> None:
        if done > 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest(read_dataset(folder, TENANT), stages, on_progress=interrupt)
    assert len(found(stages, "pump")) == 8
    write(folder)
    assert not ingest(read_dataset(folder, TENANT), stages).unchanged
    assert found(stages, "pump") == []
    assert len(found(stages, "turbine")) == ROWS


def drop(folder: Path, name: str, *rows: int) -> None:
    """Remove lines of a file by their position."""
    path = folder / f"{name}.jsonl"
    kept = [line for at, line in enumerate(path.read_text(encoding="utf-8").splitlines()) if at not in rows]
    path.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")


def test_what_a_folder_no_longer_holds_is_removed_from_both_stores(stages: DemoStages, tmp_path: Path) -> None:
    folder = write(tmp_path / "data")
    ingest(read_dataset(folder, TENANT), stages)
    drop(folder, "relationships", 3, 4)
    drop(folder, "corpus", 3)
    drop(folder, "entities", 3)
    done = ingest(read_dataset(folder, TENANT), stages)
    assert (done.written, done.removed, done.unchanged) == (0, 1, False)
    assert "r3" not in found(stages, "turbine")
    assert len(found(stages, "turbine")) == ROWS - 1
    assert stages.graph.get_many(TENANT, ["r3", "e3"]) == []
    assert stages.graph.stats(TENANT).edges == ROWS - 2
    assert ingest(read_dataset(folder, TENANT), stages).unchanged


def test_what_is_not_pruned_stays_and_goes_with_a_later_ingest(stages: DemoStages, tmp_path: Path) -> None:
    folder = write(tmp_path / "data")
    ingest(read_dataset(folder, TENANT), stages)
    drop(folder, "relationships", 0)
    drop(folder, "corpus", 0)
    assert ingest(read_dataset(folder, TENANT), stages, prune=False).removed == 0
    assert len(found(stages, "turbine")) == ROWS
    drop(folder, "relationships", 0)
    assert ingest(read_dataset(folder, TENANT), stages).removed == 1
    assert len(found(stages, "turbine")) == ROWS - 1


def test_what_another_folder_holds_as_well_stays(stages: DemoStages, tmp_path: Path) -> None:
    folder = write(tmp_path / "data")
    ingest(read_dataset(folder, TENANT), stages)
    ingest(read_dataset(write(tmp_path / "more", rows=2), TENANT), stages)
    for name in ("relationships", "corpus"):
        drop(folder, name, 0, 1, 2)
    assert ingest(read_dataset(folder, TENANT), stages).removed == 1
    assert {"r0", "r1"} <= set(found(stages, "turbine"))


def superseding(folder: Path, name: str, row: int, old: object) -> None:
    """Let a line supersede something."""
    path = folder / f"{name}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[row] = json.dumps({**json.loads(lines[row]), "supersedes": [old]})
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "old", "told"),
    [
        ("corpus", "r0", r"corpus\.jsonl:1: supersedes: 'r0' is no longer in the folder and would be removed"),
        (
            "relationships",
            {"source": "e0", "type": "MENTIONS", "target": "r0"},
            r"supersedes: 'e0' MENTIONS 'r0' is no longer in the folder and would be removed",
        ),
    ],
)
def test_what_a_folder_supersedes_may_not_leave_it_unless_it_stays_in_the_stores(
    stages: DemoStages, tmp_path: Path, name: str, old: Any, told: str
) -> None:
    folder = write(tmp_path / "data")
    ingest(read_dataset(folder, TENANT), stages)
    drop(folder, "relationships", 0)
    drop(folder, "corpus", 0)
    superseding(folder, name, 0, old)
    before = stages.index.scan(TENANT), stages.graph.scan(TENANT)
    for _ in range(2):
        with pytest.raises(DatasetError, match=told):
            ingest(read_dataset(folder, TENANT), stages)
    assert (stages.index.scan(TENANT), stages.graph.scan(TENANT)) == before
    assert ingest(read_dataset(folder, TENANT), stages, prune=False).removed == 0
    ingest(read_dataset(write(tmp_path / "more", rows=1), TENANT), stages)  # which holds it now
    assert ingest(read_dataset(folder, TENANT), stages).removed == 0


def test_an_entity_that_loses_its_text_stays_as_a_vertex_without_a_record(stages: DemoStages, tmp_path: Path) -> None:
    folder = write(tmp_path / "data")
    path = folder / "entities.jsonl"
    bare = path.read_text(encoding="utf-8")
    path.write_text(bare.replace('"name": "Part 0"', '"name": "Part 0", "content": "a turbine part"'), encoding="utf-8")
    ingest(read_dataset(folder, TENANT), stages)
    assert "e0" in found(stages, "turbine")
    path.write_text(bare, encoding="utf-8")
    assert ingest(read_dataset(folder, TENANT), stages).removed == 1
    (part,) = stages.graph.get_many(TENANT, ["e0"])
    assert (part.name, part.has_record) == ("Part 0", False)
    assert "e0" not in found(stages, "turbine")


def test_of_an_entity_that_loses_its_text_nothing_is_left_of_that_text(stages: DemoStages, tmp_path: Path) -> None:
    text = '"content": "It was Anna Berg who wrote it.", "trusted": false, "valid_at": "2024-01-01"'
    folder = write(tmp_path / "data")
    (folder / "relationships.jsonl").write_text(
        json.dumps({"source": "e1", "type": "OWNS", "target": "e0", "evidence": "e0"}), encoding="utf-8"
    )
    ingest(read_dataset(folder, "another"), stages)
    path = folder / "entities.jsonl"
    bare = path.read_text(encoding="utf-8")
    path.write_text(bare.replace('"name": "Part 0"', f'"name": "Part 0", {text}'), encoding="utf-8")
    assert ingest(read_dataset(folder, TENANT), stages).names
    path.write_text(bare, encoding="utf-8")
    assert ingest(read_dataset(folder, TENANT), stages).removed == 1
    graph, as_if_never = stages.graph.scan(TENANT), stages.graph.scan("another")
    for now, then in ((graph.vertices, as_if_never.vertices), (graph.relationships, as_if_never.relationships)):
        assert [one.model_copy(update={"tenant_id": "another"}) for one in now] == list(then)


def test_an_entity_that_another_folder_has_without_a_text_stays_with_its_edges(
    stages: DemoStages, tmp_path: Path
) -> None:
    folder, other = write(tmp_path / "data", rows=1), write(tmp_path / "more", rows=2)
    path = folder / "entities.jsonl"
    path.write_text('{"id": "e1", "name": "Part 1", "content": "a turbine of Anna Berg"}', encoding="utf-8")
    (folder / "relationships.jsonl").unlink()
    ingest(read_dataset(other, TENANT), stages)
    alone = stages.graph.scan(TENANT)
    ingest(read_dataset(folder, TENANT), stages)
    path.unlink()
    assert ingest(read_dataset(folder, TENANT), stages).removed == 1
    assert stages.graph.scan(TENANT) == alone
    assert "e1" not in found(stages, "turbine")


def test_what_somebody_else_wrote_or_deleted_meanwhile_is_noticed(stages: DemoStages, tmp_path: Path) -> None:
    dataset = read_dataset(write(tmp_path / "data"), TENANT)
    ingest(dataset, stages)
    delete_records(TENANT, ["r1"], stages)
    done = ingest(dataset, stages)
    assert (done.written, done.unchanged) == (1, False)
    assert len(found(stages, "turbine")) == ROWS
    delete_tenant(TENANT, stages)
    assert ingest(dataset, stages).written == ROWS


@pytest.mark.parametrize("others", [range(4, 12), range(8)], ids=["other content", "the same content"])
def test_of_two_ingests_of_a_name_beside_each_other_nothing_is_left_or_missing(
    stages: DemoStages, tmp_path: Path, others: range
) -> None:
    def corpus(folder: Path, rows: Iterable[int]) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        lines_file(folder / "corpus.jsonl", *({"_id": f"r{row}", "text": f"turbine number {row}"} for row in rows))
        return folder

    ours, theirs = corpus(tmp_path / "ours" / "data", range(8)), corpus(tmp_path / "theirs" / "data", others)
    beside: list[object] = []

    def ingest_theirs(done: int, _of: int) -> None:
        if done and not beside:
            beside.append(ingest(read_dataset(theirs, TENANT), stages))

    refused = others != range(8)
    with pytest.raises(DatasetError, match="another ingest of this name") if refused else nullcontext():
        ingest(read_dataset(ours, TENANT), stages, on_progress=ingest_theirs)
    assert beside
    assert ingest(read_dataset(ours, TENANT), stages).unchanged is not refused
    assert found(stages, "turbine") == [f"r{row}" for row in range(8)]


@pytest.mark.parametrize("in_a_write", [True, False])
def test_an_ingest_whose_tenant_was_deleted_meanwhile_says_so_and_is_finished_by_the_next(
    stages: DemoStages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_a_write: bool
) -> None:
    folder = write(tmp_path / "data")
    (folder / "relationships.jsonl").unlink()
    meanwhile = iter([lambda: delete_tenant(TENANT, stages)])
    prune = ingesting._prune

    def delete(*_: object) -> None:
        for act in meanwhile:
            act()

    def delete_after_the_writes(*given: Any) -> int:
        delete()
        return prune(*given)

    monkeypatch.setattr(ingesting, "_prune", delete_after_the_writes)
    error = TenantBeingDeleted if in_a_write else DatasetError
    with pytest.raises(error, match=r"tenant .*was deleted"):
        ingest(read_dataset(folder, TENANT), stages, on_progress=delete if in_a_write else None)
    assert not ingest(read_dataset(folder, TENANT), stages).unchanged
    assert len(found(stages, "turbine")) == ROWS


def test_a_dataset_that_contradicts_itself_is_refused_whole(stages: DemoStages, tmp_path: Path) -> None:
    folder = write(tmp_path / "data")
    with (folder / "corpus.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"_id": "a", "text": "one", "supersedes": ["b"]}\n')
        file.write('{"_id": "b", "text": "two", "supersedes": ["a"]}\n')
    with pytest.raises(DatasetError, match=rf"corpus\.jsonl:{ROWS + 1}: supersedes: 'a' would be superseded by itself"):
        ingest(read_dataset(folder, TENANT), stages)
    assert stages.store.tenants() == []


def lines_file(path: Path, *rows: Any) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def test_a_file_of_lines_is_written_in_batches_whatever_the_order_of_its_lines(
    stages: DemoStages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_steps, "BATCH_LINES", 3)
    edges = [{"relationship": {"source": "hub", "type": "MENTIONS", "target": f"r{row}"}} for row in range(7)]
    records = [{"_id": f"r{row}", "text": f"turbine {row}"} for row in range(7)]
    path = lines_file(tmp_path / "a.jsonl", *edges, *records, "", {"entity": {"id": "hub", "name": "Hub"}})
    told: list[tuple[int, int]] = []
    done = ingest_file.ingest_file(
        path, TENANT, stages, missing=MissingEnds.REFUSE, on_progress=lambda at, all_: told.append((at, all_))
    )
    assert (done.lines, done.written, done.relationships, done.errors) == (16, 7, 7, 0)
    assert told[-1] == (path.stat().st_size, path.stat().st_size)
    again = ingest_file.ingest_file(path, TENANT, stages, missing=MissingEnds.REFUSE)
    assert (again.written, again.unchanged, again.embedded) == (0, 7, 0)


def test_an_edge_of_a_file_ends_another_wherever_that_stands_and_is_told_once_where_it_cannot(
    stages: DemoStages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_steps, "BATCH_LINES", 3)
    path = lines_file(tmp_path / "a.jsonl", *ENDED_LATER)
    told: list[str] = []
    for _ in range(2):
        done = ingest_file.ingest_file(
            path, TENANT, stages, missing=MissingEnds.REFUSE, on_error=lambda error: told.append(str(error))
        )
        assert (done.written + done.unchanged, done.relationships, done.errors) == (9, 3, 2)
        assert {edge.predicate: edge.invalid_at for edge in stages.graph.relationships(TENANT, ids=["r0"])} == ENDS
    assert [line.removeprefix(f"{path}:").split(":")[0] for line in told] == ["2", "3"] * 2


def test_every_line_that_is_wrong_is_named_and_the_others_are_written(stages: DemoStages, tmp_path: Path) -> None:
    path = lines_file(
        tmp_path / "a.jsonl",
        {"_id": "long", "text": "turbine " + "word " * 200_000},
        {"_id": "huge", "text": "x" * 10_000_001},
        "[1]",
        {"id": "n", "content": "turbine", "confidence": float("nan")},
        {"id": "z", "content": "a\x00b"},
        {"id": "twice", "content": "turbine"},
        {"id": "twice", "content": "another"},
        {"id": "new", "content": "turbine", "schema_version": 2},
        {"relationship": {"source": "long", "type": "CAUSES", "target": "nobody"}},
    )
    told: list[str] = []
    done = ingest_file.ingest_file(
        path, TENANT, stages, missing=MissingEnds.REFUSE, on_error=lambda error: told.append(str(error))
    )
    assert (done.written, done.errors) == (2, 7)
    assert sorted(line.removeprefix(f"{path}:").split(":")[0] for line in told) == ["2", "3", "4", "5", "7", "8", "9"]
    assert found(stages, "turbine") == ["long", "twice"]


def test_a_file_that_changes_while_it_is_read_is_noticed(
    stages: DemoStages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = lines_file(tmp_path / "a.jsonl", {"_id": "r", "text": "turbine"})
    encode = WordEncoder.encode

    def change(encoder: WordEncoder, texts: Any, *, instruction: str = "") -> list[bytes]:
        lines_file(path, {"_id": "s", "text": "another file"})
        return encode(encoder, texts, instruction=instruction)

    monkeypatch.setattr(WordEncoder, "encode", change)
    with pytest.raises(DatasetError, match=r"a\.jsonl changed while it was read"):
        ingest_file.ingest_file(path, TENANT, stages, missing=MissingEnds.REFUSE)


@pytest.mark.parametrize("content", [b"", b'{"id": "r", "content": "turbine"}\n', b"{}\n" * 4], ids=len)
def test_a_file_that_is_cut_or_grows_between_two_phases_is_noticed(
    stages: DemoStages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setattr(import_steps, "BATCH_LINES", 1)
    edge = {"relationship": {"source": "r", "type": "MENTIONS", "target": "s"}}
    path = lines_file(tmp_path / "a.jsonl", {"_id": "r", "text": "turbine"}, {"_id": "s", "text": "blade"}, edge)
    batches = count(1)

    def change(*_: int) -> None:
        if next(batches) == 3:  # the last one of the first phase is written
            path.write_bytes(content)

    with pytest.raises(DatasetError, match=r"a\.jsonl changed while it was read"):
        ingest_file.ingest_file(path, TENANT, stages, missing=MissingEnds.REFUSE, on_progress=change)


def test_a_file_that_grows_while_its_edges_are_written_is_noticed(stages: DemoStages, tmp_path: Path) -> None:
    edge = {"relationship": {"source": "r", "type": "MENTIONS", "target": "nobody"}}
    path = lines_file(tmp_path / "a.jsonl", {"_id": "r", "text": "turbine"}, edge)

    def grow(_: Any) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write('{"id": "s", "content": "blade"}\n' * import_steps.BATCH_LINES)

    with pytest.raises(DatasetError, match=r"a\.jsonl changed while it was read"):
        ingest_file.ingest_file(path, TENANT, stages, missing=MissingEnds.REFUSE, on_error=grow)
