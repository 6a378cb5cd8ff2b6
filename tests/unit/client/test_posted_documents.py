"""Documents of a deployed Braid are posted file by file, and each import is waited for, not for ever."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from braid import ApiError
from braid.api.schemas import DocumentRequest, ImportSummary
from braid.client.posted_documents import POSTED_BYTES, post_documents
from braid.ports.ingestion import ImportStatus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Server:
    """Keeps what is posted; imports run until they were asked about a number of times."""

    def __init__(
        self, ended: ImportStatus = ImportStatus.WRITTEN, *, asks: int = 1, reasons: tuple[str, ...] = ()
    ) -> None:
        self.posted: dict[str, bytes] = {}
        self.running: dict[str, int] = {}
        self.most = 0
        self._ended, self._asks, self._reasons = ended, asks, reasons

    def start(self, document: DocumentRequest) -> ImportSummary:
        self.posted[document.name] = document.content
        name = f"import-{len(self.posted)}"
        self.running[name] = self._asks
        self.most = max(self.most, len(self.running))
        return ImportSummary(id=name, status=ImportStatus.RUNNING)

    def find(self, import_id: str) -> ImportSummary:
        self.running[import_id] -= 1
        if self.running[import_id] > 0:
            return ImportSummary(id=import_id, status=ImportStatus.RUNNING)
        del self.running[import_id]
        told = {"error": "ObjectChanged", "report_key": "r", "reasons": self._reasons}
        return ImportSummary(id=import_id, status=self._ended, written=3, **told)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(7):
        (folder / f"{number}.txt").write_bytes(b"text %d" % number)
    return folder


def test_no_more_imports_run_at_once_than_a_server_keeps_waiting(folder: Path) -> None:
    server = Server()
    added = post_documents(folder, server.start, server.find)
    assert (added.written, len(server.posted), server.running) == (21, 7, {})
    assert server.posted["notes/3.txt"] == b"text 3"
    assert 1 < server.most <= 5


def test_what_cannot_be_posted_is_skipped_with_the_reason(folder: Path) -> None:
    (folder / "1.txt").write_bytes(b"")
    with (folder / "2.txt").open("wb") as file:
        file.truncate(POSTED_BYTES + 1)
    server = Server()
    skipped = {file.path: file.reason for file in post_documents(folder, server.start, server.find).skipped}
    assert skipped.keys() == {"1.txt", "2.txt"}
    assert skipped["1.txt"] == "is empty"
    assert "put it into the bucket, under documents/" in skipped["2.txt"]
    assert len(server.posted) == 5


def test_what_the_server_cannot_read_is_skipped_with_its_reason(folder: Path) -> None:
    server = Server(ImportStatus.WITH_ERRORS, reasons=("is broken, or no PDF: no objects",))
    skipped = post_documents(folder / "1.txt", server.start, server.find).skipped
    assert [(file.path, file.reason) for file in skipped] == [("1.txt", "is broken, or no PDF: no objects")]
    silent = Server(ImportStatus.WITH_ERRORS)
    (without,) = post_documents(folder / "1.txt", silent.start, silent.find).skipped
    assert without.reason == "could not be read by the server; its object r says why"


def test_what_takes_the_place_of_a_file_meanwhile_is_not_posted(folder: Path) -> None:
    (folder.parent / "secret").write_bytes(b"secret")
    (folder / "8").mkdir()
    (folder / "8" / "a.txt").write_bytes(b"text")
    server = Server()

    def start(document: DocumentRequest) -> ImportSummary:
        if not server.posted:  # the others are listed by now
            (folder / "4.txt").unlink()
            (folder / "4.txt").symlink_to(folder.parent / "secret")
            (folder / "5.txt").unlink()
            os.mkfifo(folder / "5.txt")
            os.truncate(folder / "6.txt", 1 << 40)
            (folder / "8").rename(folder.parent / "private")
            (folder / "8").symlink_to(folder.parent / "private")
        return server.start(document)

    skipped = {file.path: file.reason for file in post_documents(folder, start, server.find).skipped}
    assert skipped.keys() == {"4.txt", "5.txt", "6.txt", "8/a.txt"}
    assert skipped["5.txt"] == "cannot be opened: is no regular file"
    assert server.posted.keys() == {f"notes/{number}.txt" for number in range(4)}


def test_an_import_that_fails_or_does_not_end_is_an_error_that_names_the_file(folder: Path) -> None:
    failing = Server(ImportStatus.FAILED)
    with pytest.raises(ApiError, match=r"^0\.txt: the import failed: ObjectChanged"):
        post_documents(folder, failing.start, failing.find)
    endless = Server(asks=1_000_000)
    with pytest.raises(ApiError, match=r"^0\.txt: not imported within 0 s; `GET /imports/import-1`"):
        post_documents(folder, endless.start, endless.find, within_s=0)
