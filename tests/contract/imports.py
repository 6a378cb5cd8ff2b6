"""What writes objects while nobody waits: a thread of this process, or the deployed workflow."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from braid.ingestion.documents.folder_state import stored_documents
from braid.ingestion.documents.ingesting import ingest_documents
from braid.ingestion.documents.progress import FolderDone
from braid.ingestion.documents.reader_process import ReaderProcess, Reading
from braid.models import Query
from braid.ports.ingestion import Import, ImportAsked, ImportStatus, MissingEnds
from braid.retrieval import pipeline

from tests.document_files import SENTENCE, every_format

if TYPE_CHECKING:
    from pathlib import Path

    from braid.app import Application
    from braid.ports.ingestion import Imports

    from tests.stages import DemoStages

ACME, OTHER = "acme", "acme-2"
KEY = "late/a.jsonl"
LINES: list[dict[str, Any]] = [
    {"relationship": {"source": "b", "type": "MENTIONS", "target": "a"}},
    {"record": {"id": "a", "content": "The valve stuck."}},
    {"record": {"id": "b", "content": "The turbine stood still."}},
]


def put(store: DemoStages, lines: list[dict[str, Any]], key: str = KEY) -> None:
    store.objects.put(ACME, key, "\n".join(map(json.dumps, lines)).encode())


def ended(imports: Imports, import_id: str, *, tenant: str = ACME, within_s: float = 30) -> Import:
    """Ask until it has ended."""
    until = time.monotonic() + within_s
    while True:
        found = imports.find(tenant, import_id)
        assert found is not None
        if found.status is not ImportStatus.RUNNING:
            return found
        assert time.monotonic() < until
        time.sleep(0.01)


STATED = {"valid_at": "2024-01-01", "team": "port"}
DOCUMENTS_QUESTION = "When does the gate open that Anna Berg keeps?"


def ingested_folder(folder: Path, library: Application, tenant: str) -> dict[str, bytes]:
    """Write files of several formats into a folder, ingest it as on a laptop, and return them by name."""
    files = {name: every_format()[name] for name in ("guide.md", "report.pdf", "manual.docx", "gates.csv", "mail.eml")}
    files["keeper.txt"] = b"Keepers\n=======\n\nThe heron gate is kept by Anna Berg, by order LX-400.\n"
    documents = folder / "documents"
    documents.mkdir()
    for name, content in files.items():
        (documents / name).write_bytes(content)
    *_, report = ingest_documents(documents, library, tenant_id=tenant)
    assert isinstance(report, FolderDone)
    assert report.documents == len(files)
    return files


@dataclass(frozen=True)
class Stored:
    """What stores hold of a tenant's documents, as far as it is the same wherever these were read."""

    chunks: list[dict[str, Any]]
    vectors: list[tuple[str, str, list[float]]]
    names: list[dict[str, Any]]
    mentions: list[dict[str, Any]]
    documents: set[str | None]

    @classmethod
    def of(cls, tenant: str, library: Application) -> Stored:
        """Read it."""
        apart = {"tenant_id", "updated_at", "content_hash"}
        records = library.index.scan(tenant, limit=1_000, with_vectors=True).records
        graph = library.graph.scan(tenant)
        assert graph.cursor is None
        return cls(
            chunks=[record.model_dump(exclude=apart | {"embeddings"}) for record in records],
            vectors=[
                (one.space, one.model_id, [round(value, 3) for value in np.frombuffer(one.vector, np.float32).tolist()])
                for record in records
                for one in record.embeddings
            ],
            names=[vertex.model_dump(exclude=apart) for vertex in graph.vertices],
            mentions=sorted((edge.model_dump(exclude=apart) for edge in graph.relationships), key=str),
            documents={file.document for _, file in stored_documents(library.objects, tenant)},
        )


class ImportsContract:
    """Subclass this and provide the fixtures ``imports`` and ``library``, whose objects the imports are of."""

    def test_an_object_is_written_and_its_lines_are_counted(self, imports: Imports, library: DemoStages) -> None:
        put(library, LINES)
        imports.start(ACME, "first", ImportAsked(key=KEY))
        found = ended(imports, "first")
        assert (found.status, found.error) == (ImportStatus.WRITTEN, None)
        assert found.report
        assert (found.report.job.lines, found.report.written, found.report.relationships) == (3, 2, 1)
        assert [record.id for record in library.index.get_many(ACME, ["a", "b"])] == ["a", "b"]

    def test_what_is_wrong_is_left_out_and_counted(self, imports: Imports, library: DemoStages) -> None:
        put(library, [*LINES, {"record": {"id": ""}}])
        imports.start(ACME, "wrong", ImportAsked(key=KEY))
        found = ended(imports, "wrong")
        assert found.report
        assert (found.status, found.report.written, found.report.errors) == (ImportStatus.WITH_ERRORS, 2, 1)
        (line,) = library.objects.open(ACME, found.report.report_key)
        assert json.loads(line)["place"] == "line 4"

    def test_ends_that_are_not_there_become_stubs_when_asked(self, imports: Imports, library: DemoStages) -> None:
        put(library, [{"relationship": {"source": "x", "type": "MENTIONS", "target": "y"}}])
        imports.start(ACME, "stub", ImportAsked(key=KEY, missing=MissingEnds.STUB))
        report = ended(imports, "stub").report
        assert report
        assert (report.relationships, report.errors) == (1, 0)

    def test_an_object_that_is_not_there_fails_by_that_name(self, imports: Imports) -> None:
        imports.start(ACME, "missing", ImportAsked(key="late/none.jsonl"))
        found = ended(imports, "missing")
        assert (found.status, found.error, found.report) == (ImportStatus.FAILED, "ObjectMissing", None)

    @pytest.mark.parametrize("name", ["never", "first-of-nobody"])
    def test_an_import_that_was_not_asked_for_is_none(self, imports: Imports, name: str) -> None:
        assert imports.find(ACME, name) is None

    def test_an_import_is_none_to_another_tenant(self, imports: Imports, library: DemoStages) -> None:
        put(library, LINES)
        imports.start(ACME, "mine", ImportAsked(key=KEY))
        assert imports.find(OTHER, "mine") is None
        ended(imports, "mine")
        assert imports.find(OTHER, "mine") is None

    def test_a_document_is_read_and_gives_the_chunks_that_a_folder_gives(
        self, imports: Imports, library: DemoStages, tmp_path: Path
    ) -> None:
        """Whether it arrived in the bucket or lies in a folder on a laptop."""
        files = ingested_folder(tmp_path, library, OTHER)
        for number, (name, content) in enumerate(files.items()):
            library.objects.put(ACME, f"documents/{name}", content)
            imports.start(ACME, f"document-{number}", ImportAsked(key=f"documents/{name}"))
            assert ended(imports, f"document-{number}").status is ImportStatus.WRITTEN, name
        here, there = (Stored.of(tenant, library) for tenant in (ACME, OTHER))
        assert here == there
        here_answers, there_answers = (
            pipeline.answer(Query(text=DOCUMENTS_QUESTION, tenant_id=tenant), library).results
            for tenant in (ACME, OTHER)
        )
        assert [one.id for one in here_answers] == [one.id for one in there_answers]

    @pytest.mark.parametrize("posted", [False, True])
    def test_a_document_and_the_file_beside_it_give_what_a_folder_gives_in_either_order(
        self, imports: Imports, library: DemoStages, tmp_path: Path, posted: bool
    ) -> None:
        files = ingested_folder(tmp_path, library, OTHER)
        for name in files:
            (tmp_path / "documents" / f"{name}.metadata.json").write_text(json.dumps(STATED), encoding="utf-8")
        *_, report = ingest_documents(tmp_path / "documents", library, tenant_id=OTHER)
        assert isinstance(report, FolderDone)
        assert (report.documents, report.read, report.embedded, report.skipped) == (len(files), len(files), 0, ())
        attributes = {"valid_at": STATED["valid_at"], "team": {"value": {"type": "STRING", "stringValue": "port"}}}
        for number, (name, content) in enumerate(files.items()):
            place = f"posted/{number}/={name}" if posted else f"documents/{name}"
            arriving = [(place, content), (f"{place}.metadata.json", json.dumps({"metadataAttributes": attributes}))]
            if number % 2 or posted:
                arriving.reverse()
            for order, (key, put) in enumerate(arriving):
                library.objects.put(ACME, key, put if isinstance(put, bytes) else put.encode())
                if posted and order == 0:
                    continue
                imports.start(ACME, f"pair-{number}-{order}", ImportAsked(key=key))
                found = ended(imports, f"pair-{number}-{order}")
                assert found.report
                if order == 0 and number % 2:
                    (line,) = library.objects.open(ACME, found.report.report_key)
                    assert json.loads(line)["message"] == f"is the metadata of {name!r}, which is not in the bucket"
                else:
                    assert found.status is ImportStatus.WRITTEN
                    assert not (order and not posted and not number % 2 and found.report.embedded)
        assert Stored.of(ACME, library) == Stored.of(OTHER, library)
        assert list(library.objects.list(ACME, "posted/")) == []

    def test_a_wrong_file_beside_a_document_is_named_and_what_is_stored_stays(
        self, imports: Imports, library: DemoStages
    ) -> None:
        library.objects.put(ACME, "documents/a/gates.txt", SENTENCE.encode())
        for number, stated in enumerate(('{"team": "a"}', '{"valid_at": "soon"}', '{"team": ', '{"team": "b"}')):
            key = "documents/a/gates.txt.metadata.json"
            library.objects.put(ACME, key, stated.encode())
            imports.start(ACME, f"stated-{number}", ImportAsked(key=key))
            found = ended(imports, f"stated-{number}")
            assert found.report
            reasons = [json.loads(line)["message"] for line in library.objects.open(ACME, found.report.report_key)]
            assert all(one.startswith("gates.txt.metadata.json: ") and one.endswith(" is kept") for one in reasons)
            assert ("valid_at: 'soon' is no date" in str(reasons)) == (number == 1)
            assert len(reasons) == (number in {1, 2})
            (record,) = library.index.scan(ACME).records
            assert (record.metadata["team"], record.valid_at) == ("b" if number == 3 else "a", None)

    def test_a_document_that_is_put_again_loses_the_chunks_that_it_no_longer_has(
        self, imports: Imports, library: DemoStages
    ) -> None:
        long = "".join(f"## Part {number}\n\n{'gate ' * 200}\n\n" for number in range(3))
        for number, text in enumerate((long, SENTENCE)):
            library.objects.put(ACME, f"posted/{number}/a/guide.md", text.encode())
            imports.start(ACME, f"again-{number}", ImportAsked(key=f"posted/{number}/a/guide.md"))
            assert ended(imports, f"again-{number}").status is ImportStatus.WRITTEN
        (record,) = library.index.scan(ACME).records
        assert (record.id, record.content) == ("documents/a/guide.md#chunk-0", SENTENCE)
        assert list(library.objects.list(ACME, "posted/")) == []

    def test_a_document_that_cannot_be_read_this_time_leaves_what_was_read_of_it(
        self, imports: Imports, library: DemoStages, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number, permanent in enumerate((None, False, True, None)):
            key = f"posted/now-{number}/gates.md"
            library.objects.put(ACME, key, SENTENCE.encode())
            with monkeypatch.context() as patched:
                if permanent is not None:
                    reading = Reading(unreadable="takes longer than 60 seconds to read", permanent=permanent)
                    patched.setattr(ReaderProcess, "read", lambda *_, reading=reading: reading)
                imports.start(ACME, f"now-{number}", ImportAsked(key=key))
                found = ended(imports, f"now-{number}")
            assert found.status is (ImportStatus.WRITTEN if permanent is None else ImportStatus.WITH_ERRORS)
            assert [record.content for record in library.index.scan(ACME).records] == [SENTENCE]
            if permanent is not None:
                assert found.report
                (line,) = library.objects.open(ACME, found.report.report_key)
                assert json.loads(line)["message"].endswith("; what was read of it before is kept")

    def test_a_document_that_is_empty_now_loses_what_was_read_of_it(
        self, imports: Imports, library: DemoStages
    ) -> None:
        for number, text in enumerate((SENTENCE, " ")):
            library.objects.put(ACME, "documents/gates.md", text.encode())
            imports.start(ACME, f"emptied-{number}", ImportAsked(key="documents/gates.md"))
            ended(imports, f"emptied-{number}")
        assert library.index.scan(ACME).records == ()

    def test_a_document_that_cannot_be_read_is_an_error_that_says_why(
        self, imports: Imports, library: DemoStages
    ) -> None:
        library.objects.put(ACME, "documents/a.pdf", b"%PDF-1.7 broken")
        imports.start(ACME, "broken", ImportAsked(key="documents/a.pdf"))
        found = ended(imports, "broken")
        assert found.report
        assert (found.status, found.report.written, found.report.errors) == (ImportStatus.WITH_ERRORS, 0, 1)
        (line,) = library.objects.open(ACME, found.report.report_key)
        assert "is broken, or no PDF" in json.loads(line)["message"]
