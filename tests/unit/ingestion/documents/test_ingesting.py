"""A folder of documents is kept ingested: what changed is read, what is gone is removed, and nothing else is opened."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import InvalidRequest, TransientStoreError
from braid.ingestion.deleting import delete_records
from braid.ingestion.documents import ingesting
from braid.ingestion.documents.document import ReadingLimits
from braid.ingestion.documents.folder_state import COLLECTION, FileState, put_upload, stored_documents
from braid.ingestion.documents.ingesting import Options, ingest_documents
from braid.ingestion.documents.progress import FileSkipped, FolderBegun, FolderDone, Progress
from braid.ingestion.documents.reader_process import Reading, read_file
from braid.models import GraphSource, Query, SourceType
from braid.retrieval import pipeline
from braid.retrieval.stages.results_and_citations import cite
from braid.settings import Settings

from braid_cli.documents.ingest import ingest as show_ingest
from braid_cli.documents.ingest import watch
from tests.document_files import SENTENCE, every_format
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from braid.ingestion.documents.progress import Event
    from braid.models import Record

TENANT = "acme"


class InThisProcess:
    """A reader without a process, which keeps what it opened."""

    opened: list[str]

    def __init__(self, limits: Any, mapping: Any) -> None:
        self.limits, self.mapping = limits, mapping

    def __enter__(self) -> InThisProcess:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        pass

    def read(self, path: str, name: str, known_sha256: str = "") -> Reading:
        InThisProcess.opened.append(name)
        return read_file(path, name, known_sha256, self.limits, self.mapping)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the files that are opened."""
    InThisProcess.opened = []
    monkeypatch.setattr(ingesting, "ReaderProcess", InThisProcess)
    return InThisProcess.opened


@pytest.fixture
def store(tmp_path: Path, opened: list[str]) -> Iterator[DemoStages]:  # noqa: ARG001 - nothing is read elsewhere
    stages = DemoStages(Settings(home=tmp_path / "home"))
    yield stages
    stages.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of three documents."""
    path = tmp_path / "handbook"
    (path / "north").mkdir(parents=True)
    for name in ("gates", "tides", "north/cranes"):
        write(path / f"{name}.md", name)
    return path


def write(path: Path, word: str, sections: int = 3) -> None:
    text = "".join(f"## Part {number}\n\n{f'{word} {number} ' * 60}\n\n" for number in range(sections))
    path.write_text(f"# About {word}\n\n{text}", encoding="utf-8")


def ingest(store: DemoStages, path: Path, **options: Any) -> FolderDone:
    return done(ingest_documents(path, store, tenant_id=TENANT, options=Options(**options)))


def done(events: Iterator[Event]) -> FolderDone:
    *_, last = events
    assert isinstance(last, FolderDone)
    return last


def records(store: DemoStages) -> dict[str, Record]:
    page = store.index.scan(TENANT, limit=1_000)
    return {record.id: record for record in page.records}


def test_a_folder_of_every_format_is_found_and_cited_by_file_and_heading(store: DemoStages, tmp_path: Path) -> None:
    files = tmp_path / "harbour"
    files.mkdir()
    for name, content in every_format().items():
        (files / name).write_bytes(content)
    report = ingest(store, files, metadata={"team": "port"})
    assert (report.documents, report.skipped) == (len(every_format()), ())
    stored = records(store)
    assert report.chunks == len(stored)
    for name in every_format():
        said = [one for one in stored.values() if one.metadata["file"] == name and SENTENCE in one.content]
        assert said, name
        assert said[0].metadata["team"] == "port"
        assert cite(said[0]).type is SourceType.DOCUMENT
    gates = stored["harbour/guide.md#chunk-0"]
    assert (gates.source.title, gates.source.chunk_index) == ("Guide", 0)
    assert gates.metadata["heading"] == "Gates"
    assert gates.metadata["line"] == 10
    assert gates.metadata["tags"] == ["gates", "tides"]
    asked = Query(text="gates", tenant_id=TENANT, filters={"metadata": ["tags=tides"]})
    assert {result.metadata["file"] for result in pipeline.answer(asked, store).results} == {gates.metadata["file"]}
    assert stored["harbour/report.pdf#chunk-0"].source.page == 1
    answer = pipeline.answer(Query(text="when does the heron gate open?", tenant_id=TENANT), store)
    assert SENTENCE in (answer.results[0].content or "")


def test_a_folder_that_has_not_changed_is_not_opened_again(store: DemoStages, folder: Path, opened: list[str]) -> None:
    first = ingest(store, folder)
    assert (first.documents, first.read, len(opened)) == (3, 3, 3)
    opened.clear()
    again = ingest(store, folder)
    assert (again.documents, again.read, again.unchanged, opened) == (3, 0, 3, [])


def test_only_what_has_changed_is_read_and_its_old_chunks_go(
    store: DemoStages, folder: Path, opened: list[str]
) -> None:
    ingest(store, folder)
    before = records(store)
    opened.clear()
    write(folder / "gates.md", "locks", sections=1)
    report = ingest(store, folder)
    assert (opened, report.read) == (["gates.md"], 1)
    after = records(store)
    assert {name for name in after if "gates" in name} == {"handbook/gates.md#chunk-0"}
    assert "locks" in after["handbook/gates.md#chunk-0"].content
    kept = {name: record for name, record in before.items() if "gates" not in name}
    assert {name: record for name, record in after.items() if "gates" not in name} == kept


def test_what_is_gone_is_removed_with_its_document(store: DemoStages, folder: Path) -> None:
    ingest(store, folder)
    (folder / "tides.md").unlink()
    report = ingest(store, folder)
    assert (report.documents, report.removed) == (2, 1)
    assert not any("tides" in name for name in records(store))
    assert store.graph.get_many(TENANT, ["handbook/tides.md"]) == []
    assert [file.path for _, file in stored_documents(store.objects, TENANT)] == ["gates.md", "north/cranes.md"]


def test_what_is_gone_is_removed_also_if_it_was_ingested_beside_another_ingest(store: DemoStages, folder: Path) -> None:
    ingest(store, folder)
    beside = ingest_documents(folder, store, tenant_id=TENANT)
    assert isinstance(next(beside), FolderBegun)
    write(folder / "locks.md", "locks")
    assert ingest(store, folder).documents == 4
    done(beside)
    assert "locks.md" in [file.path for _, file in stored_documents(store.objects, TENANT)]
    (folder / "locks.md").unlink()
    assert ingest(store, folder).removed == 1
    assert not any("locks" in name for name in records(store))


def test_a_file_whose_time_alone_has_changed_is_opened_and_not_written(
    store: DemoStages, folder: Path, opened: list[str]
) -> None:
    ingest(store, folder)
    before = records(store)
    os.utime(folder / "gates.md", (1, 1))
    opened.clear()
    report = ingest(store, folder)
    assert (opened, report.read, report.written, report.unchanged) == (["gates.md"], 0, 0, 3)
    assert records(store) == before
    opened.clear()
    ingest(store, folder)
    assert opened == []


def test_other_metadata_or_columns_read_everything_again(store: DemoStages, folder: Path) -> None:
    ingest(store, folder)
    assert ingest(store, folder, metadata={"team": "port"}).read == 3
    assert {record.metadata["team"] for record in records(store).values()} == {"port"}


def test_a_folder_whose_graph_is_now_the_given_one_is_read_again_and_loses_what_was_found(
    store: DemoStages, folder: Path
) -> None:
    found = ingest(store, folder)
    assert found.mentions
    store.settings = store.settings.model_copy(update={"graph": GraphSource.GIVEN})
    given = ingest(store, folder)
    assert (given.read, given.written, given.mentions, given.unmentioned) == (3, 0, 0, found.mentions)
    assert store.graph.stats(TENANT).edges == 0
    assert ingest(store, folder).unchanged == 3


def test_a_document_that_was_deleted_from_the_stores_comes_back(store: DemoStages, folder: Path) -> None:
    ingest(store, folder)
    delete_records(TENANT, [name for name in records(store) if "gates" in name], store)
    assert ingest(store, folder).read == 1
    assert any("gates" in name for name in records(store))


def test_an_ingest_that_was_stopped_keeps_what_it_wrote_and_goes_on(
    store: DemoStages, folder: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingesting, "_PAGE_CHUNKS", (1,))
    events = ingest_documents(folder, store, tenant_id=TENANT)
    next(event for event in events if isinstance(event, Progress))
    events.close()  # type: ignore[attr-defined]
    kept = records(store)
    assert {name.partition("#")[0] for name in kept} == {"handbook/gates.md"}
    opened.clear()
    report = ingest(store, folder)
    assert opened == ["north/cranes.md", "tides.md"]
    assert (report.documents, report.unchanged) == (3, 1)


def test_files_that_cannot_be_read_are_not_read_again_after_an_ingest_that_was_stopped(
    store: DemoStages, tmp_path: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingesting, "_PAGE_FILES", 10)
    (tmp_path / "pictures").mkdir()
    for number in range(100):
        (tmp_path / "pictures" / f"{number}.png").write_bytes(b"\x89PNG")
    for event in ingest_documents(tmp_path / "pictures", store, tenant_id=TENANT):
        if isinstance(event, Progress):
            break
    opened.clear()
    assert len(ingest(store, tmp_path / "pictures").skipped) == 100
    assert len(opened) == 90


def test_a_file_that_was_being_written_when_the_ingest_ended_is_repaired(
    store: DemoStages, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its chunks were stored and its state was not; then it was shortened, and another one removed."""
    with monkeypatch.context() as broken:
        broken.setattr(ingesting.FolderState, "finish", _fails)
        with pytest.raises(RuntimeError):
            ingest(store, folder)
    assert len(records(store)) > 3
    write(folder / "gates.md", "locks", sections=1)
    (folder / "tides.md").unlink()
    ingest(store, folder)
    documents = {name.partition("#")[0] for name in records(store)}
    assert documents == {"handbook/gates.md", "handbook/north/cranes.md"}
    assert [name for name in records(store) if "gates" in name] == ["handbook/gates.md#chunk-0"]


def _fails(*_: object) -> None:
    raise RuntimeError


def test_a_file_that_cannot_be_read_is_named_and_the_rest_goes_in(
    store: DemoStages, folder: Path, opened: list[str]
) -> None:
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 broken")
    (folder / "empty.txt").write_bytes(b"")
    events = list(ingest_documents(folder, store, tenant_id=TENANT))
    skipped = {event.path: event.reason for event in events if isinstance(event, FileSkipped)}
    assert skipped.keys() == {"broken.pdf", "empty.txt"}
    assert skipped["empty.txt"] == "is empty"
    assert done(iter(events)).documents == 3
    opened.clear()
    again = ingest(store, folder)
    assert ({one.path for one in again.skipped}, opened) == ({"broken.pdf", "empty.txt"}, [])


def test_a_text_whose_encoding_is_a_guess_is_written_and_the_report_says_so(
    store: DemoStages, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_bytes("Der Lagerplatz für Rückläufer ist Regal Süd 4.".encode("cp1252"))
    (folder / "b.txt").write_bytes("Zażółć gęślą jaźń w środę o szóstej.".encode("cp1250"))
    assert show_ingest(folder, store, TENANT, options=Options())  # type: ignore[arg-type]
    told = capsys.readouterr().err
    assert "b.txt was read as cp1250, which is a guess; if it reads wrongly, save it as UTF-8" in " ".join(told.split())
    assert "a.txt" not in told
    assert [record.content for record in records(store).values()] == [
        "Der Lagerplatz für Rückläufer ist Regal Süd 4.",
        "Zażółć gęślą jaźń w środę o szóstej.",
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"%PDF-1.7 broken", "is broken"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(64), "is an encrypted or old Office file"),
        (bytes(range(256)), "is a binary file"),
        (bytes(100), "holds nothing but NUL bytes"),
        (b"---\ntitle: Gates\n---\n", "holds no text"),
        (b"x" * 5_000, "is 5,000 bytes long"),
    ],
    ids=["broken", "password", "binary", "nul", "no text", "too large"],
)
def test_what_was_read_of_a_file_stays_while_the_file_cannot_be_read(
    store: DemoStages, folder: Path, content: bytes, reason: str
) -> None:
    limits = ReadingLimits(file_bytes=4_990)
    ingest(store, folder, limits=limits)
    before = records(store)
    assert any("gates" in name for name in before)
    (folder / "gates.md").write_bytes(content)
    for _ in range(2):
        report = ingest(store, folder, limits=limits)
        assert (report.documents, report.chunks, report.unchanged) == (3, len(before), 2)
        (skipped,) = report.skipped
        assert skipped.path == "gates.md"
        assert skipped.reason.startswith(reason)
        assert skipped.reason.endswith("; what was read of it before is kept")
        assert records(store) == before
    os.utime(folder / "gates.md", (1, 1))
    assert ingest(store, folder, limits=limits).skipped == (skipped,)
    write(folder / "gates.md", "locks", sections=1)
    assert ingest(store, folder).skipped == ()
    assert [name for name in records(store) if "gates" in name] == ["handbook/gates.md#chunk-0"]
    assert "locks" in records(store)["handbook/gates.md#chunk-0"].content


def test_a_wrong_column_keeps_the_rows_that_were_read_with_the_right_one(store: DemoStages, tmp_path: Path) -> None:
    table = tmp_path / "contracts.csv"
    table.write_text("customer,fee\nFulmar,2\nBluewire,3\n", encoding="utf-8")
    ingest(store, table, mapping={"title": "customer"})
    before = records(store)
    wrong = ingest(store, table, mapping={"title": "custmer"})
    assert (wrong.documents, wrong.chunks) == (1, 2)
    assert wrong.skipped[0].reason == (
        "has no column 'custmer' for title; it has customer, fee; what was read of it before is kept"
    )
    assert records(store) == before
    again = ingest(store, table, mapping={"title": "customer"})
    assert (again.written, again.embedded, again.skipped) == (0, 0, ())
    assert records(store) == before


@pytest.mark.parametrize("content", [b"", b" \n"])
def test_a_file_that_is_empty_now_loses_its_chunks(store: DemoStages, folder: Path, content: bytes) -> None:
    ingest(store, folder)
    (folder / "gates.md").write_bytes(content)
    report = ingest(store, folder)
    assert (report.documents, report.skipped) == (2, (FileSkipped("gates.md", "is empty"),))
    assert not any("gates" in name for name in records(store))


def test_nothing_is_said_to_be_kept_of_an_unreadable_file_whose_chunks_were_deleted(
    store: DemoStages, folder: Path
) -> None:
    ingest(store, folder)
    delete_records(TENANT, [name for name in records(store) if "gates" in name], store)
    (folder / "gates.md").write_bytes(bytes(range(256)))
    report = ingest(store, folder)
    assert (report.documents, report.skipped) == (2, (FileSkipped("gates.md", "is a binary file, not text"),))


def test_an_unreadable_file_that_is_gone_from_the_folder_loses_what_was_kept(store: DemoStages, folder: Path) -> None:
    ingest(store, folder)
    (folder / "gates.md").write_bytes(bytes(range(256)))
    ingest(store, folder)
    (folder / "gates.md").unlink()
    report = ingest(store, folder)
    assert (report.documents, report.removed, report.skipped) == (2, 1, ())
    assert not any("gates" in name for name in records(store))


def test_rows_are_filtered_by_the_numbers_and_dates_of_their_columns(store: DemoStages, tmp_path: Path) -> None:
    table = tmp_path / "contracts.csv"
    table.write_text("customer,fee,since\nFulmar,200,2023-01-01\nBluewire,9000,2024-06-01\n")
    ingest(store, table, mapping={"title": "customer"})
    for condition in ("fee>=5000", "since>2024-01-01"):
        asked = Query(text="customer", tenant_id=TENANT, filters={"metadata": [condition]})
        assert [result.id for result in pipeline.answer(asked, store).results] == ["contracts.csv#chunk-1"]


def test_a_document_that_states_when_it_holds_is_found_as_of_then(store: DemoStages, tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "old.md").write_text("---\ninvalid_at: 2024-03-01\n---\n# On call\n\nThe phone is carried for a week.\n")
    (folder / "new.md").write_text("---\nvalid_at: 2024-03-01\n---\n# On call\n\nThe phone is carried for a day.\n")
    ingest(store, folder)

    def found(as_of: str | None) -> set[str]:
        asked = Query(text="How long is the phone carried?", tenant_id=TENANT, as_of=as_of)
        return {result.id for result in pipeline.answer(asked, store).results}

    assert found("2024-02-01") == {"policies/old.md#chunk-0"}
    assert found("2024-03-01") == found(None) == {"policies/new.md#chunk-0"}
    (folder / "old.md").write_text("# On call\n\nThe phone is carried for a week.\n")
    ingest(store, folder)
    assert found(None) == {"policies/old.md#chunk-0", "policies/new.md#chunk-0"}


@pytest.mark.parametrize(
    ("file", "mapping", "reason"),
    [
        (("a.md", "---\ninvalid_at: soon\n---\nOpen."), {}, "invalid_at: 'soon' is no date or time such as"),
        (("a.md", "---\ninvalid_at: {on: 2024-05-01}\n---\nOpen."), {}, "invalid_at: 'a nested value' is no date"),
        (("a.md", "---\nvalid_at: 2024\n---\nOpen."), {}, "valid_at: '2024' is no date or time such as"),
        (
            ("a.csv", "gate,end\nHeron,2024-01-01\nAuk,never\n"),
            {"text": "gate", "invalid_at": "end"},
            "line 3: invalid_at: 'never' is no date",
        ),
        (
            ("a.csv", "gate,seen\nOpen.,2024-05-01\nShut.,01.05.2024\n"),
            {"text": "gate", "timestamp": "seen"},
            "line 3: timestamp: '01.05.2024' is no date",
        ),
        (("a.md", "---\ntitle: Gate: open\ninvalid_at: 2023-99-01\n---\nOpen."), {}, "invalid_at: '2023-99-01' is no"),
        (
            ("a.md", "---\nvalid_at: 2024-05-01\ninvalid_at: 2024-04-01\n---\nOpen."),
            {},
            "cannot be stored: request: invalid_at is before valid_at",
        ),
    ],
)
def test_a_file_that_states_no_date_for_when_it_holds_is_skipped(
    store: DemoStages, tmp_path: Path, file: tuple[str, str], mapping: dict[str, str], reason: str
) -> None:
    (tmp_path / file[0]).write_text(file[1])
    (skipped,) = ingest(store, tmp_path / file[0], mapping=mapping).skipped
    assert skipped.reason.startswith(reason)
    assert records(store) == {}


def test_a_date_that_is_none_is_still_metadata(store: DemoStages, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("---\ndate: spring 2024\n---\nOpen.\n")
    ingest(store, tmp_path / "a.md")
    (record,) = records(store).values()
    assert (record.timestamp, record.metadata["date"]) == (None, "spring 2024")


def test_a_folder_that_is_called_as_posted_documents_are_needs_another_name(store: DemoStages, tmp_path: Path) -> None:
    folder = tmp_path / COLLECTION
    folder.mkdir()
    (folder / "gates.md").write_text("The gates open at six.")
    put_upload(store.objects, TENANT, FileState("gates.md", "documents/gates.md", chunks=1))
    with pytest.raises(InvalidRequest, match="--name: ids of posted documents"):
        list(ingest_documents(folder, store, tenant_id=TENANT))
    list(ingest_documents(folder, store, tenant_id=TENANT, options=Options(name="shelf")))
    list(ingest_documents(folder, store, tenant_id="globex"))


def test_a_folder_of_that_name_may_hold_a_file_whose_name_is_not_utf8(store: DemoStages, tmp_path: Path) -> None:
    folder = tmp_path / COLLECTION
    folder.mkdir()
    try:
        (folder / os.fsdecode(b"caf\xe9.txt")).write_text("The gates open at six.")
    except OSError:
        pytest.skip("this file system has no such names")
    assert done(ingest_documents(folder, store, tenant_id=TENANT)).documents == 1


def test_two_folders_of_one_name_are_refused_until_one_is_given_another(store: DemoStages, tmp_path: Path) -> None:
    for parent in ("a", "b"):
        (tmp_path / parent / "docs").mkdir(parents=True)
        write(tmp_path / parent / "docs" / "gates.md", parent)
    ingest(store, tmp_path / "a" / "docs")
    with pytest.raises(InvalidRequest, match="--name"):
        ingest(store, tmp_path / "b" / "docs")
    ingest(store, tmp_path / "b" / "docs", name="other")
    assert {name.partition("#")[0] for name in records(store)} == {"docs/gates.md", "other/gates.md"}


def test_a_single_file_is_a_document_by_its_name(store: DemoStages, folder: Path) -> None:
    assert ingest(store, folder / "gates.md").documents == 1
    assert "gates.md#chunk-0" in records(store)


def test_another_tenant_has_a_folder_of_its_own(store: DemoStages, folder: Path) -> None:
    ingest(store, folder)
    assert list(stored_documents(store.objects, "globex")) == []
    assert done(ingest_documents(folder, store, tenant_id="globex")).read == 3


def test_progress_tells_files_chunks_and_the_time_that_is_left(store: DemoStages, folder: Path) -> None:
    ticks = iter(range(1_000))
    events = list(ingest_documents(folder, store, tenant_id=TENANT, seconds=lambda: float(next(ticks))))
    assert events[0] == FolderBegun("handbook", files=3, changed=3, hidden=0)
    told = [event for event in events if isinstance(event, Progress)]
    assert [event.files for event in told] == sorted(event.files for event in told)
    last = told[-1]
    assert (last.files, last.all_files, last.chunks, last.seconds_left) == (3, 3, last.all_chunks, 0.0)
    for event in told[:-1]:
        assert event.seconds_left == pytest.approx(event.seconds * (event.all_chunks - event.chunks) / event.chunks)


def test_what_office_and_windows_keep_beside_documents_is_left_out(store: DemoStages, folder: Path) -> None:
    for name in ("~$report.docx", "Thumbs.db", "Desktop.ini"):
        (folder / name).write_bytes(b"\x05Petra\x00\x00")
    events = list(ingest_documents(folder, store, tenant_id=TENANT))
    assert events[0] == FolderBegun("handbook", files=3, changed=3, hidden=3)


def test_a_watched_folder_is_ingested_again_after_each_wait(store: DemoStages, folder: Path) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        write(folder / "gates.md", f"word{len(waits)}")
        return len(waits) < 3

    events = watch(lambda: ingest_documents(folder, store, tenant_id=TENANT), interval_s=5.0, wait=wait)
    reports = [event for event in events if isinstance(event, FolderDone)]
    assert ([report.read for report in reports], waits) == ([3, 1, 1], [5.0, 5.0, 5.0])
    assert any("word2" in record.content for record in records(store).values())


def test_a_watched_folder_that_is_emptied_keeps_its_documents(store: DemoStages, folder: Path) -> None:
    ingest(store, folder)
    away = folder.rename(folder.with_name("away"))
    folder.mkdir()
    done = ingest(store, folder, keep_if_empty=True)
    assert (done.removed, done.documents, [skipped.path for skipped in done.skipped]) == (0, 3, ["handbook"])
    folder.rmdir()
    away.rename(folder)
    back = ingest(store, folder, keep_if_empty=True)
    assert (back.unchanged, back.read, back.removed) == (3, 0, 0)
    (folder / "gates.md").unlink()
    assert ingest(store, folder, keep_if_empty=True).removed == 1
    folder.rename(away)
    folder.mkdir()
    assert ingest(store, folder).removed == 2


def test_a_watched_folder_whose_place_a_file_takes_keeps_its_documents(store: DemoStages, folder: Path) -> None:
    ingest(store, folder)
    folder.rename(folder.with_name("away"))
    write(folder, "A file.")
    done = ingest(store, folder, keep_if_empty=True)
    assert (done.removed, done.documents, [skipped.path for skipped in done.skipped]) == (0, 4, ["handbook"])


def test_watching_goes_on_when_the_folder_was_away_or_the_store_was_locked(
    store: DemoStages, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []
    away = folder.with_name("away")

    def locked(*_: object, **__: object) -> None:
        raise TransientStoreError("the store is locked")

    def wait(seconds: float) -> bool:
        looks.append(seconds)
        match len(looks):
            case 1 | 2:
                folder.rename(away) if folder.exists() else None
            case 3:
                away.rename(folder)
                write(folder / "gates.md", "word3")
                patched.setattr(ingesting, "write", locked)
            case 4:
                patched.undo()
        return len(looks) < 5

    with monkeypatch.context() as patched:
        assert show_ingest(folder, store, TENANT, options=Options(), every_s=5.0, wait=wait)  # type: ignore[arg-type]
    told = " ".join(capsys.readouterr().err.split())
    assert told.count("No such file or directory; --watch goes on") == 1
    assert told.count("the store is locked; --watch goes on") == 1
    assert any("word3" in record.content for record in records(store).values())


def test_a_watched_folder_that_is_not_there_at_first_is_an_error(store: DemoStages, folder: Path) -> None:
    with pytest.raises(FileNotFoundError):
        show_ingest(folder / "x", store, TENANT, options=Options(), every_s=5.0, wait=lambda _: True)  # type: ignore[arg-type]


def test_a_file_that_took_long_to_no_avail_is_not_read_each_time_the_folder_is_looked_at(
    store: DemoStages, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def late(_: InThisProcess, _path: str, name: str, *__: object) -> Reading:
        read.append(name)
        return Reading(unreadable="takes longer than 15 seconds to read", permanent=False)

    monkeypatch.setattr(InThisProcess, "read", late)
    monkeypatch.setattr(ingesting, "_SLOW_S", 0.0)
    options = Options()
    for _ in range(2):
        report = done(ingest_documents(folder, store, tenant_id=TENANT, options=options))
        assert (len(read), len(report.skipped)) == (3, 3)
    monkeypatch.setattr(ingesting, "_SLOW_AGAIN_S", 0.0)
    for _ in range(2):
        write(folder / "gates.md", f"changed {len(read)}")
        done(ingest_documents(folder, store, tenant_id=TENANT, options=options))
    assert read[3:] == ["gates.md"] * 2
    done(ingest_documents(folder, store, tenant_id=TENANT, options=options))
    assert read[5:] == ["gates.md"]
    done(ingest_documents(folder, store, tenant_id=TENANT))
    assert len(read) == 9


def test_a_watched_file_that_becomes_unreadable_is_named_once(
    store: DemoStages, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        (folder / "gates.md").write_bytes(bytes(range(256)))
        return len(waits) < 3

    assert not show_ingest(folder, store, TENANT, options=Options(), every_s=5.0, wait=wait)  # type: ignore[arg-type]
    told = capsys.readouterr()
    named = "braid: skipped: gates.md is a binary file, not text; what was read of it before is kept"
    assert " ".join(told.err.split()).count(named) == 1


def test_watching_that_is_stopped_between_two_looks_says_that_all_is_stored(
    store: DemoStages, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def wait(_: float) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        show_ingest(folder, store, TENANT, options=Options(), every_s=5.0, wait=wait)  # type: ignore[arg-type]
    assert "stopped: all that was found is stored; the same command looks for changes" in capsys.readouterr().err


@pytest.mark.parametrize("interval", [0.0, 0.5, 1e6, float("nan")])
def test_the_interval_of_watching_is_bounded(interval: float) -> None:
    with pytest.raises(InvalidRequest, match="--every"):
        next(watch(lambda: iter(()), interval_s=interval, wait=lambda _: False))
