"""A working folder that is somebody else's, such as that of the documents that are read: no module in it is run."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import TYPE_CHECKING

import pytest
from braid.ingestion.documents.document import ReadingLimits
from braid.ingestion.documents.reader_process import ReaderProcess

from braid_cli.http_server import workers
from braid_cli.model_export import default_model

if TYPE_CHECKING:
    from pathlib import Path

MODULES = ("json", "logging", "selectors", "socket", "typing", "yaml")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder whose modules have names of those that Braid imports, and note in a file that they ran."""
    inside = tmp_path / "documents"
    inside.mkdir()
    for name in MODULES:
        (inside / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('{name} ')\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))  # one with "." would name the folder
    monkeypatch.chdir(inside)
    return inside


def ran(folder: Path) -> bool:
    return (folder.parent / "ran").exists()


def test_what_reads_documents_runs_no_module_of_their_folder(folder: Path) -> None:
    note = folder / "note.md"
    note.write_text("---\nauthor: Ada\n---\n\n# Quay\n\nThe crane is new.\n")
    with ReaderProcess(ReadingLimits()) as reader:
        reading = reader.read(str(note), "note.md")
    assert not ran(folder)
    assert reading.document is not None
    assert reading.document.metadata == {"author": "Ada"}


def test_what_answers_requests_runs_no_module_of_the_folder_that_it_was_started_in(folder: Path) -> None:
    process, ours = workers._process()
    ours.close()  # the server is gone, so that it ends
    assert process.wait(60) == 0
    assert not ran(folder)


def test_what_fetches_the_encoder_runs_no_module_of_the_working_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: object())
    assert default_model._installer()[:4] == [sys.executable, "-P", "-m", "pip"]
