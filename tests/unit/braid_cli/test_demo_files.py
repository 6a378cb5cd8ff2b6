"""The demo's folder of files says what the script says that wrote them, and its questions are answered by them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from braid.ingestion.documents.document import Document, Source
from braid.ingestion.documents.files import find
from braid.ingestion.documents.progress import FolderDone
from braid.ingestion.documents.reading import read
from braid.models import Query
from braid.retrieval import pipeline
from braid.settings import Settings

from braid_cli.demo import wrenfield_files
from braid_cli.demo.tour import FILES_QUESTIONS, ingest_files
from tests.stages import DemoStages

if TYPE_CHECKING:
    from pathlib import Path

ANSWERS = ("jammed-gate.eml", "parts.xlsx", "minutes.docx")


def document(name: str) -> Document:
    return read(Source(name, (wrenfield_files.FOLDER / name).read_bytes()))


def words(document: Document) -> str:
    return " ".join(" ".join((*section.heading, section.text)) for section in document.sections)


def test_the_files_that_are_not_text_say_what_the_script_says() -> None:
    inspection, minutes, parts = (
        words(document("inspection.pdf")),
        words(document("minutes.docx")),
        document("parts.xlsx"),
    )
    for line in (line for page in wrenfield_files.INSPECTION for line in page if line):
        assert line in inspection
    for level, text in wrenfield_files.MINUTES:
        assert text in minutes or level == 0
    for row in wrenfield_files.PARTS[1:]:
        assert all(str(cell) in words(parts) for cell in row)
    assert [section.page for section in document("inspection.pdf").sections] == [1, 2, 3]


def test_each_question_of_the_tour_is_answered_by_its_file(tmp_path: Path) -> None:
    store = DemoStages(Settings(home=tmp_path))
    elsewhere = tmp_path / "another-clone"
    shutil.copytree(wrenfield_files.FOLDER, elsewhere)
    ingest_files(elsewhere, store)
    report = ingest_files(wrenfield_files.FOLDER, store)
    assert isinstance(report, FolderDone)
    assert (report.skipped, report.documents) == ((), len(find(wrenfield_files.FOLDER).files))
    for question, file in zip(FILES_QUESTIONS, ANSWERS, strict=True):
        answer = pipeline.answer(Query(text=question, tenant_id="wrenfield", top_k=5), store)
        assert file in [result.metadata["file"] for result in answer.results], question
    store.close()
