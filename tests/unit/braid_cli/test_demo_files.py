"""The demo's folder of files says what the script says that wrote them, and its questions are answered by them."""

from __future__ import annotations

import shutil
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from braid.ingestion.documents.document import Document, Source
from braid.ingestion.documents.folder_listing import find
from braid.ingestion.documents.progress import FolderDone
from braid.ingestion.documents.reader_selection import read
from braid.models import Fusion, Hints, Query, RerankerKind, Strategy
from braid.retrieval import pipeline
from braid.settings import Settings

from braid_cli.demo import wrenfield_files
from braid_cli.demo.tour import FILES_QUESTIONS, FILES_SHOWN, FOUND_QUESTIONS, ingest_files
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ANSWERS = ("jammed-gate.eml", "parts.xlsx", "minutes.docx")
PLAIN = {"hints": Hints(strategy=Strategy.SEMANTIC), "reranker": RerankerKind.NONE, "fusion": Fusion.WEIGHTED}
"""Vectors and words, without the graph."""


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


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoStages]:
    with closing(DemoStages(Settings(home=tmp_path_factory.mktemp("home")))) as store:
        ingest_files(wrenfield_files.FOLDER, store)
        yield store


@pytest.mark.parametrize(("question", "file"), FOUND_QUESTIONS)
def test_only_the_found_graph_answers_what_no_file_says_in_the_question_s_words(
    files: DemoStages, question: str, file: str
) -> None:
    def found(top_k: int, **changes: Any) -> list[str]:
        answer = pipeline.answer(Query(text=question, tenant_id="wrenfield", top_k=top_k, **changes), files)
        return [result.metadata["file"] for result in answer.results]

    assert file not in found(5, **PLAIN)
    assert file in found(FILES_SHOWN)
