"""A file ``gates.pdf.metadata.json`` beside ``gates.pdf`` states what front matter would, for every format."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from errno import EACCES
from typing import TYPE_CHECKING, Any

import pytest
from braid.ingestion.documents import metadata_files
from braid.ingestion.documents.document import Unreadable
from braid.ingestion.documents.ingesting import Options, ingest_documents
from braid.ingestion.documents.metadata_files import MAX_BYTES, parsed, stated_fields
from braid.ingestion.documents.progress import FolderBegun, FolderDone
from braid.ingestion.documents.reader_process import ReaderProcess, read_file
from braid.models import Query
from braid.retrieval import pipeline
from braid.settings import Settings

from tests.document_files import SENTENCE, every_format
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from braid.models import Record

TENANT = "acme"
FILE = "gates.txt.metadata.json"
KEPT = "; what was read of it before is kept"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DemoStages]:
    """Return stores whose documents are read in this process."""
    monkeypatch.setattr(
        ReaderProcess,
        "read",
        lambda reader, path, name, known="": read_file(path, name, known, reader.limits, reader.mapping),
    )
    stages = DemoStages(Settings(home=tmp_path / "home"))
    yield stages
    stages.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "handbook"
    path.mkdir()
    (path / "gates.txt").write_text(SENTENCE, encoding="utf-8")
    return path


def ingest(store: DemoStages, path: Path, **options: Any) -> FolderDone:
    *_, last = ingest_documents(path, store, tenant_id=TENANT, options=Options(**options))
    assert isinstance(last, FolderDone)
    return last


def records(store: DemoStages) -> dict[str, Record]:
    return {record.id: record for record in store.index.scan(TENANT, limit=1_000).records}


def put(folder: Path, content: object, name: str = FILE) -> None:
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def test_a_file_of_any_format_takes_its_dates_and_fields_from_the_file_beside_it(
    store: DemoStages, tmp_path: Path
) -> None:
    files = tmp_path / "harbour"
    files.mkdir()
    stated = {
        "valid_at": "2024-02-01",
        "invalid_at": "2025-02-01",
        "date": "2024-01-31",
        "team": "port",
        "tags": ["a", "b"],
    }
    for name, content in every_format().items():
        (files / name).write_bytes(content)
        put(files, stated, f"{name}.metadata.json")
    events = list(ingest_documents(files, store, tenant_id=TENANT))
    assert isinstance(events[0], FolderBegun)
    assert isinstance(events[-1], FolderDone)
    assert (events[0].files, events[-1].documents, events[-1].skipped) == (len(every_format()), len(every_format()), ())
    assert {record.metadata["file"] for record in records(store).values()} == set(every_format())
    for record in records(store).values():
        assert (record.valid_at, record.invalid_at) == (
            datetime(2024, 2, 1, tzinfo=UTC),
            datetime(2025, 2, 1, tzinfo=UTC),
        )
        assert record.timestamp == datetime(2024, 1, 31, tzinfo=UTC)
        assert (record.metadata["team"], record.metadata["tags"]) == ("port", ["a", "b"])
    asked = Query(text="When does the heron gate open?", tenant_id=TENANT, as_of=datetime(2024, 6, 1, tzinfo=UTC))
    assert pipeline.answer(asked, store).results
    assert not pipeline.answer(asked.model_copy(update={"as_of": None}), store).results


def test_the_file_beside_a_document_takes_precedence_over_it_and_an_option_over_both(
    store: DemoStages, tmp_path: Path
) -> None:
    document = tmp_path / "gates.md"
    document.write_text(f"---\ntitle: Old\nvalid_at: 2020-01-01\nteam: a\nsite: a\narea: a\n---\n{SENTENCE}", "utf-8")
    put(tmp_path, {"title": "New", "valid_at": "2021-01-01", "team": "b", "site": "b"}, "gates.md.metadata.json")
    ingest(store, document, metadata={"site": "c"})
    (record,) = records(store).values()
    assert (record.source.title, record.valid_at) == ("New", datetime(2021, 1, 1, tzinfo=UTC))
    assert [record.metadata[name] for name in ("team", "site", "area")] == ["b", "c", "a"]


def test_a_changed_added_or_removed_metadata_file_is_seen_and_nothing_is_embedded_again(
    store: DemoStages, folder: Path
) -> None:
    assert ingest(store, folder).embedded == 1
    teams = []
    for stated in ({"team": "a"}, {"team": "bb"}, None):
        if stated is None:
            (folder / FILE).unlink()
        else:
            put(folder, stated)
        report = ingest(store, folder)
        assert (report.read, report.written, report.embedded, report.documents) == (1, 1, 0, 1)
        again = ingest(store, folder)
        assert (again.read, again.unchanged) == (0, 1)
        teams.append(records(store)["handbook/gates.txt#chunk-0"].metadata.get("team"))
    assert teams == ["a", "bb", None]


def test_a_metadata_file_without_its_document_is_reported_and_is_no_document(store: DemoStages, folder: Path) -> None:
    put(folder, {"team": "a"}, "tides.pdf.metadata.json")
    report = ingest(store, folder)
    assert [str(one) for one in report.skipped] == [
        "skipped: tides.pdf.metadata.json is the metadata of 'tides.pdf', which is not among the files"
    ]
    assert (report.documents, len(records(store))) == (1, 1)
    alone = ingest(store, folder / "tides.pdf.metadata.json")
    assert [str(one) for one in alone.skipped] == [
        "skipped: tides.pdf.metadata.json is the metadata of 'tides.pdf', and no document; ingest that"
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "is not JSON: Expecting property name enclosed in double quotes at character 1"),
        (b"", "is not JSON: Expecting value at character 0"),
        (b"[]", "is not a JSON object"),
        (b'{"team": "\xff"}', "is not UTF-8"),
        (b'{"team": "a", "team": "b"}', "holds a key twice in one object"),
        (b'{"team": NaN}', "holds NaN, which JSON has not"),
        (b'{"team": 1e999}', "holds a number that is out of range"),
        (b'{"team": ' + b"9" * 5_000 + b"}", "holds a number that is too long"),
        (b'{"a": ' + b"[" * 30_000 + b"]" * 30_000 + b"}", "is more than 32 levels deep"),
        (b'{"team": "\\ud800"}', "holds a lone surrogate, which is not a character"),
        (b" " * MAX_BYTES + b"{}", "is longer than 65,536 bytes"),
        (b'{"valid_at": "soon"}', "valid_at: 'soon' is no date or time such as 2024-05-01"),
        (b'{"invalid_at": {"value": "2024-05-01"}}', "invalid_at: 'a nested value' is no date or time such as"),
        (b'{"invalid_at": 7e9}', "invalid_at: '7000000000.0' is no date or time such as 2024-05-01"),
        (b'{"metadataAttributes": []}', "metadataAttributes: is not a JSON object"),
        (b'{"metadataAttributes": {"team": {"value": {"type": "STRING"}}}}', "team: is neither a plain value nor"),
    ],
)
def test_a_metadata_file_that_is_wrong_is_named_and_what_is_stored_stays(
    store: DemoStages, folder: Path, content: bytes, reason: str
) -> None:
    put(folder, {"team": "a"})
    ingest(store, folder)
    before = records(store)
    (folder / FILE).write_bytes(content)
    for _ in range(2):
        report = ingest(store, folder)
        (skipped,) = report.skipped
        assert skipped.path == "gates.txt"
        assert skipped.reason.startswith(f"{FILE}: {reason}")
        assert skipped.reason.endswith(KEPT)
        assert (report.documents, records(store)) == (1, before)
    put(folder, {"team": "c"})
    assert ingest(store, folder).skipped == ()
    assert records(store)["handbook/gates.txt#chunk-0"].metadata["team"] == "c"


def test_an_end_before_a_beginning_names_both_files(store: DemoStages, tmp_path: Path) -> None:
    (tmp_path / "gates.md").write_text(f"---\nvalid_at: 2020-01-01\n---\n{SENTENCE}", "utf-8")
    put(tmp_path, {"invalid_at": "2019-01-01"}, "gates.md.metadata.json")
    (skipped,) = ingest(store, tmp_path / "gates.md").skipped
    assert skipped.reason.startswith("cannot be stored with gates.md.metadata.json: ")
    assert "invalid_at is before valid_at" in skipped.reason


@pytest.mark.parametrize("kind", ["link", "link out", "pipe", "folder", "unreadable"])
def test_what_is_no_readable_file_is_not_followed_or_waited_for(
    store: DemoStages, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(EACCES, "Permission denied")

    put(tmp_path, {"team": "secret"}, "secret")
    place = folder / FILE
    match kind:
        case "link":
            put(folder, {"team": "secret"}, "other.json")
            place.symlink_to(folder / "other.json")
        case "link out":
            place.symlink_to(tmp_path / "secret")
        case "pipe":
            os.mkfifo(place)
        case "folder":
            place.mkdir()
        case _:
            put(folder, {"team": "secret"})
            monkeypatch.setattr(metadata_files, "open_regular", denied)
    report = ingest(store, folder)
    assert [one.path for one in report.skipped] == ["gates.txt"]
    assert report.skipped[0].reason.startswith(f"{FILE}: ")
    assert "secret" not in str([record.metadata for name, record in records(store).items() if "gates" in name])


def test_a_document_whose_name_leaves_no_room_for_a_metadata_file_is_read(store: DemoStages, tmp_path: Path) -> None:
    (tmp_path / "long").mkdir()
    (tmp_path / "long" / ("a" * 250 + ".txt")).write_text(SENTENCE, "utf-8")
    assert ingest(store, tmp_path / "long").documents == 1


def test_bedrocks_form_gives_the_same_fields_as_the_plain_one() -> None:
    attributes = {
        "team": {"value": {"type": "STRING", "stringValue": "port"}, "includeForEmbedding": True},
        "floor": {"value": {"type": "NUMBER", "numberValue": 2.5}},
        "open": {"value": {"type": "BOOLEAN", "booleanValue": False}, "includeForEmbedding": False},
        "tags": {"value": {"type": "STRING_LIST", "stringListValue": ["a", "b"]}},
        "site": "north",
        "places": ["c", "d"],
        "none": None,
    }
    fields = {"team": "port", "floor": 2.5, "open": False, "tags": ["a", "b"], "site": "north", "places": ["c", "d"]}
    ignored = {"documentStructureConfiguration": {"type": "RECORD_BASED_STRUCTURE_METADATA"}}
    assert stated_fields({"metadataAttributes": attributes, **ignored}, FILE) == fields
    assert stated_fields({**fields, "none": None, "nested": {"a": 1}}, FILE) == fields
    assert parsed(b'\xef\xbb\xbf{"team": "a"}', FILE) == {"team": "a"}


@pytest.mark.parametrize(
    "value",
    [
        {"value": {"type": "NUMBER", "numberValue": True}},
        {"value": {"type": "STRING_LIST", "stringListValue": ["a", 1]}},
        {"value": {"type": "DATE", "stringValue": "a"}},
        {"value": "a"},
        [["a"]],
    ],
)
def test_a_value_that_is_not_of_bedrocks_form_is_named(value: object) -> None:
    with pytest.raises(Unreadable, match=rf"^{FILE}: team: is neither a plain value nor "):
        stated_fields({"metadataAttributes": {"team": value}}, FILE)
