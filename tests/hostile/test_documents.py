"""Documents that are made to hurt: bombs, cycles, links, endless texts: a plain line each, in bounded time."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import time
import zipfile
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pytest
from braid.client.added_items import DATASET, Item, items_of
from braid.errors import DatasetError, InvalidRequest, ObjectChanged, ObjectMissing
from braid.ingestion.bulk import import_queue, import_steps, manifest
from braid.ingestion.bulk.step_messages import Batch, Cursor, Finish, Lost, PageRequest, Split
from braid.ingestion.documents import reader_process, reader_selection, uploads
from braid.ingestion.documents.chunk_records import document_id, records_of
from braid.ingestion.documents.chunking import Chunker
from braid.ingestion.documents.document import Document, ReadingLimits, Section, Source, Unreadable
from braid.ingestion.documents.folder_listing import find
from braid.ingestion.documents.ingesting import Options, ingest_documents
from braid.ingestion.documents.progress import FolderDone
from braid.ingestion.documents.reader_process import ReaderProcess, Reading
from braid.ingestion.regular_files import open_regular
from braid.ingestion.tenant_deletion import delete_tenant
from braid.models import MAX_ID_BYTES
from braid.models.records import MAX_METADATA_VALUE_BYTES
from braid.ports.ingestion import ImportJob, ImportStatus, JobStatus
from braid.settings import Settings

from braid_cli.datasets.dataset import read_dataset
from braid_cli.datasets.streaming import open_dataset
from tests.contract.imports import ended
from tests.document_files import SENTENCE, docx, pdf, xlsx
from tests.front_door import FrontDoor, claims
from tests.stages import DemoStages, WordEncoder

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Sequence
    from pathlib import Path

TENANT = "acme"
SHEET = "xl/worksheets/sheet1.xml"
MEBIBYTE = 1024 * 1024


def refused(name: str, content: bytes, limits: ReadingLimits | None = None) -> str:
    with pytest.raises(Unreadable) as error:
        reader_selection.read(Source(name, content, limits or ReadingLimits()))
    return str(error.value)


def packed(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


@pytest.mark.parametrize("inside", ["word/document.xml", "ppt/presentation.xml", "xl/workbook.xml"])
def test_an_archive_that_would_grow_beyond_measure_is_not_unpacked(
    inside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = packed({inside: b"<a/>", "media/a": bytes(40 * MEBIBYTE)})
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("it was unpacked"))
    assert "as a bomb does" in refused("a.docx", bomb)


def test_an_archive_of_too_many_files_and_one_within_an_archive_are_refused() -> None:
    many = packed({f"{number}": b"" for number in range(10_001)} | {"word/document.xml": b""})
    assert "10,002 files" in refused("a.docx", many)
    assert refused("a.docx", packed({"inner.zip": packed({"a": b"b"})})) == "is an archive; unpack it"


def test_an_archive_that_states_smaller_files_than_it_holds_ends_in_a_line() -> None:
    content = bytearray(docx())
    directory = content.rindex(b"PK\x01\x02")
    content[directory + 24 : directory + 28] = (5).to_bytes(4, "little")
    refusal = refused("a.docx", bytes(content)) if b"word" in content[directory : directory + 80] else ""
    assert "\n" not in refusal


def test_entities_of_xml_do_not_multiply() -> None:
    parts = {name: _part(docx(), name) for name in zipfile.ZipFile(io.BytesIO(docx())).namelist()}
    lol = b'<!DOCTYPE l [<!ENTITY a "aaaaaaaaaa">' + b"".join(
        b'<!ENTITY %c "%s">' % (letter, b"&%c;" % (letter - 1) * 10) for letter in range(ord("b"), ord("l"))
    )
    xml = parts["word/document.xml"]
    begin = xml.index(b"?>") + 2
    parts["word/document.xml"] = xml[:begin] + lol + b"]>" + xml[begin:].replace(SENTENCE.encode(), b"&k;")
    try:
        found = reader_selection.read(Source("a.docx", packed(parts)))
    except Unreadable:
        return
    assert sum(len(section.text) for section in found.sections) < 10_000


def _part(content: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.read(name)


def changed(content: bytes, part: str, old: bytes, new: bytes) -> bytes:
    """Return an archive in one part of which something stands for something else."""
    parts = {name: _part(content, name) for name in zipfile.ZipFile(io.BytesIO(content)).namelist()}
    assert old in parts[part]
    parts[part] = parts[part].replace(old, new, 1)
    return packed(parts)


def test_a_file_of_the_system_is_not_read_into_a_document_by_its_xml(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("very-secret")
    parts = {name: _part(docx(), name) for name in zipfile.ZipFile(io.BytesIO(docx())).namelist()}
    xml = parts["word/document.xml"]
    begin = xml.index(b"?>") + 2
    outside = f'<!DOCTYPE l [<!ENTITY s SYSTEM "file://{secret}">]>'.encode()
    parts["word/document.xml"] = xml[:begin] + outside + xml[begin:].replace(SENTENCE.encode(), b"&s;")
    try:
        found = reader_selection.read(Source("a.docx", packed(parts)))
    except Unreadable:
        return
    assert "very-secret" not in str(found)


def test_a_pdf_of_ten_thousand_pages_is_refused_by_their_number() -> None:
    assert "has 10,000 pages" in refused("a.pdf", pdf(["x"] * 10_000))


def test_a_stream_of_a_pdf_that_unpacks_to_gigabytes_ends_in_a_line() -> None:
    bomb = pdf([SENTENCE])
    import zlib

    packer = zlib.compressobj(9)
    stream = b"".join([packer.compress(bytes(MEBIBYTE)) for _ in range(300)]) + packer.flush()
    begin = bomb.index(b"<< /Length", bomb.index(b"/Helvetica"))
    end = bomb.index(b"endstream", begin)
    bomb = bomb[:begin] + b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\n" % (len(stream), stream) + bomb[end:]
    with pytest.raises(Unreadable):
        reader_selection.read(Source("a.pdf", bomb))


def test_a_document_of_more_text_or_sections_than_one_may_hold_is_refused() -> None:
    limits = ReadingLimits(characters=1_000, sections=10)
    assert "1,000 characters" in refused("a.txt", b"gate " * 1_000, limits)
    assert "10 sections" in refused("a.md", b"# gate\n\ntext\n\n" * 20, limits)
    assert "1,000 characters" in refused("a.csv", b"a,b\n" + b"gate,opens\n" * 1_000, limits)


def test_a_heading_above_very_many_sections_counts_as_often_as_it_is_stored() -> None:
    html = b"<h1>" + b"gate " * 1_000 + b"</h1>" + b"<h2>a</h2>b" * 300
    assert "1,000 characters" in refused("a.html", html, ReadingLimits(characters=1_000))
    book = json.dumps({"cells": [cell("markdown", f"# {'gate ' * 1_000}\n\nx"), *[cell("code", "x")] * 60]})
    found = reader_selection.read(Source("a.ipynb", book.encode()))
    assert max(len(part) for section in found.sections for part in section.heading) <= 500
    assert len(found.title) <= 500


def test_a_long_name_of_a_column_is_not_repeated_whole_in_every_row() -> None:
    (section,) = reader_selection.read(Source("a.csv", b"n" * 100_000 + b",b\n" + b"x,y\n" * 1_000)).sections
    assert len(section.text) < 300_000
    limits = ReadingLimits(characters=10_000)
    assert "names of columns included" in refused("a.csv", b"n" * 200 + b",b\n" + b"x,y\n" * 1_000, limits)


def cell(kind: str, source: str) -> dict[str, object]:
    return {"cell_type": kind, "source": source}


def test_what_a_file_says_of_itself_is_stored_with_each_of_very_many_chunks_as_far_as_it_fits() -> None:
    front = "".join(f"field{number}: {'x' * 2_000}\n" for number in range(24))
    text = f"---\nauthor: Anna Berg\n{front}owner: Heron\n---\n" + "# a\nx\n# b\ny\n" * 5_000
    document = reader_selection.read(Source("a.md", text.encode()))
    chunks = Chunker(len, 64).chunks(document)
    records = records_of(document, chunks, tenant_id=TENANT, identity="documents/a.md", file="a.md")
    assert len(records) > 2_000
    assert {(record.metadata["author"], record.metadata["owner"]) for record in records} == {("Anna Berg", "Heron")}
    assert sum(len(record.model_dump_json()) for record in records) < 40 * MEBIBYTE
    few = records_of(document, chunks[:100], tenant_id=TENANT, identity="documents/a.md", file="a.md")
    assert all("field23" in record.metadata for record in few)


def test_values_of_front_matter_that_each_chunk_has_take_a_bounded_part_of_the_index() -> None:
    lists = "\n".join(f"l{number}: [{', '.join(map(str, range(100)))}]" for number in range(10))
    content = f"---\n{lists}\n---\n" + "\n\n".join(f"# {number}\n\nx" for number in range(1000))
    document = reader_selection.read(Source("a.md", content.encode()))
    chunks = Chunker(len, 64).chunks(document)
    records = records_of(document, chunks, tenant_id=TENANT, identity="documents/a.md", file="a.md")
    values = [len(value) for value in records[0].metadata.values() if isinstance(value, list)]
    assert len(records) > 300
    assert 1 <= sum(values) * len(records) <= 320_000, "what 32 MiB index"


def test_what_a_file_says_of_itself_is_no_longer_than_a_record_holds() -> None:
    html = b'<meta name="author" content="' + b"a" * MEBIBYTE + b'"><p>' + SENTENCE.encode()
    found = reader_selection.read(Source("a.html", html))
    assert len(str(found.metadata["author"])) == MAX_METADATA_VALUE_BYTES
    lines = b"".join(b"%d: 0x%s\n" % (number, b"f" * 20) for number in range(1_000))
    assert not reader_selection.read(Source("a.md", b"---\n" + lines + b"---\n" + SENTENCE.encode())).metadata
    lines = b"".join(b"%d: 1\n" % number for number in range(5_000))
    assert len(reader_selection.read(Source("a.md", b"---\n" + lines + b"---\n" + SENTENCE.encode())).metadata) <= 256


class CountedTokens:
    """Counts a text's words, and the characters of all texts that it was asked for."""

    characters = 0

    def __call__(self, text: str) -> int:
        self.characters += len(text)
        return len(text.split())


def test_a_text_of_one_word_a_million_times_is_cut_in_linear_time() -> None:
    tokens = CountedTokens()
    text = "word " * 1_000_000
    chunks = Chunker(tokens, 256).chunks(Document("a", "text", (Section(text),)))
    assert sum(len(chunk.text.split()) for chunk in chunks) >= 1_000_000
    assert tokens.characters < 6 * len(text)


def test_headings_that_are_left_out_of_a_path_are_not_counted_for_each_section_below_them() -> None:
    tokens = CountedTokens()
    above = tuple("w " * 100 + str(level) for level in range(15))
    sections = tuple(Section("x", (*above, f"h{number}")) for number in range(1_000))
    assert Chunker(tokens, 256).chunks(Document("a", "text", sections))
    assert tokens.characters < 2_000 * len(sections)


def test_html_of_a_hundred_thousand_open_elements_is_refused_before_it_is_parsed() -> None:
    assert "2,000 deep" in refused("a.html", b"<div>" * 100_000 + SENTENCE.encode())
    assert "2,000 deep" in refused("a.md", b"<div>" * 100_000 + SENTENCE.encode())
    # 50 KB, of which a parser makes seven million elements, in 2.8 GB: each <i> again in each paragraph.
    left_open = "<p>" + "".join(f"<i a={number}>" for number in range(1_900)) + "</p>" + "<p>x</p>" * 4_000
    assert "over too many blocks" in refused("a.html", left_open.encode())
    assert reader_selection.read(Source("a.html", b"<p><b>x</p>" * 1_900)).sections
    listed = b"<ul>" + b"<li>one<p>two" * 10_000 + b"</ul><div></div>" * 10_000
    assert reader_selection.read(Source("a.html", listed)).sections


def test_yaml_that_multiplies_in_front_matter_is_left_out() -> None:
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    lines += [
        f"{after}: &{after} [{','.join(['*' + before] * 9)}]"
        for before, after in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    found = reader_selection.read(Source("a.md", ("---\n" + "\n".join(lines) + f"\n---\n{SENTENCE}\n").encode()))
    assert found.metadata == {"a": ["x"] * 9}


@pytest.mark.parametrize(
    "name", ["x" * 10_000, "a#b", "tab\tname", "\udcff\udcfe", "ж" * 300, "a" * 250 + "/b", "\u202etxt.exe"]
)
def test_any_name_of_a_file_is_an_id_and_two_names_are_two(name: str) -> None:
    made = document_id("docs", name)
    assert len(f"{made}#chunk-99999999".encode()) <= MAX_ID_BYTES
    assert made.isprintable()
    assert "#" not in made
    assert made != document_id("docs", name + "x")


def test_no_name_of_a_file_is_made_to_have_the_id_of_another() -> None:
    for name in ("a#b.md", "x" * 600, "a\nb.md"):
        made = document_id("docs", name)
        assert document_id("docs", made.removeprefix("docs/")) != made


def test_links_out_of_the_folder_cycles_and_what_is_no_file_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret")
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.md").write_text(SENTENCE)
    (folder / "sub" / "up").symlink_to(folder)
    (folder / "self").symlink_to(folder / "self")
    (folder / "out").symlink_to(outside)
    (folder / "secret.md").symlink_to(outside / "secret.md")
    (folder / "again.md").symlink_to(folder / "a.md")
    (folder / "endless.md").symlink_to("x" * 300)
    os.mkfifo(folder / "pipe.md")
    found = find(folder)
    assert list(found.files) == ["a.md"]
    assert found.refused["out"] == found.refused["secret.md"] == "is a link that leads out of the folder"
    assert found.refused["endless.md"] == "is a link that leads nowhere"
    assert found.refused["pipe.md"] == "is no regular file"


def test_a_folder_of_folders_without_end_is_bounded(tmp_path: Path) -> None:
    deep = tmp_path / "docs"
    for _ in range(80):
        deep /= "d"
    deep.mkdir(parents=True)
    (deep / "a.md").write_text(SENTENCE)
    found = find(tmp_path / "docs")
    assert not found.files
    assert any("folders deep" in reason for reason in found.refused.values())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DemoStages]:
    stages = DemoStages(Settings(home=tmp_path / "home"))
    yield stages
    stages.close()


def test_a_link_that_takes_the_place_of_a_file_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "a.md").symlink_to(tmp_path / "secret")
    with ReaderProcess() as reader:
        found = reader.read(str(tmp_path / "a.md"), "a.md")
    assert found.document is None
    assert found.unreadable.startswith("cannot be opened")


@pytest.mark.parametrize("name", ["corpus.jsonl", "relationships.jsonl", "graph.json"])
def test_a_file_of_a_dataset_that_is_a_link_out_of_its_folder_is_not_read(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "dataset"
    folder.mkdir()
    line = '{"_id": "1", "text": "My diary."}'
    (folder / "corpus.jsonl").write_text(line)
    (tmp_path / "elsewhere").write_text(line)
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DatasetError, match=f"{name}: is a link that leads out of the folder"):
        open_dataset(folder, TENANT)
    if name in DATASET:
        with pytest.raises(InvalidRequest, match=f"{name}: is a link that leads out of the folder"):
            list(items_of(folder, "content"))


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """Return a dataset folder with a judged question."""
    folder = tmp_path / "dataset"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text('{"_id": "1", "text": "The quay."}')
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "Which quay?"}')
    (folder / "qrels" / "test.tsv").write_text("q\t1\t1\n")
    return folder


@pytest.mark.parametrize("name", ["queries.jsonl", "qrels/test.tsv", "qrels"])
def test_questions_and_judgements_are_not_read_through_a_link_out_of_their_folder(judged: Path, name: str) -> None:
    (judged / name).rename(elsewhere := judged.parent / "elsewhere")
    (judged / name).symlink_to(elsewhere)
    with pytest.raises(DatasetError, match=f"{name}.*: is a link that leads out of the folder"):
        read_dataset(judged, TENANT, judged=True)
    elsewhere.rename(inside := judged / "other")
    (judged / name).unlink()
    (judged / name).symlink_to(inside)
    assert [one.relevant for one in read_dataset(judged, TENANT, judged=True).judged] == [{"1": 1}]


def test_judgements_that_are_a_pipe_are_refused_and_not_waited_for(judged: Path) -> None:
    (judged / "qrels" / "test.tsv").unlink()
    os.mkfifo(judged / "qrels" / "test.tsv")
    with pytest.raises(DatasetError, match="is no regular file"):
        read_dataset(judged, TENANT, judged=True)


def test_a_file_of_a_dataset_may_be_a_link_within_its_folder(tmp_path: Path) -> None:
    (tmp_path / "first.jsonl").write_text('{"_id": "1", "text": "The quay."}')
    (tmp_path / "corpus.jsonl").symlink_to("first.jsonl")
    with open_dataset(tmp_path, TENANT) as dataset:
        assert [item.record.content for item in dataset.record_items() if item.record] == ["The quay."]
    assert [item.row["text"] for item in items_of(tmp_path, "content") if isinstance(item, Item)] == ["The quay."]


def test_a_link_that_takes_the_place_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    private = tmp_path / "private"
    (folder := tmp_path / "docs" / "sub").mkdir(parents=True)
    (folder / "a.md").write_text(SENTENCE)
    (location,) = (file.location for file in find(tmp_path / "docs").files.values())
    folder.rename(private)
    folder.symlink_to(private)
    with ReaderProcess() as reader:
        found = reader.read(location, "sub/a.md")
    assert found.document is None
    assert found.unreadable == "cannot be opened: Not a directory"


def test_a_system_without_handles_of_folders_follows_no_link_to_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "O_PATH")
    (tmp_path / "a.md").write_text(SENTENCE)
    (tmp_path / "b.md").symlink_to(tmp_path / "a.md")
    with open_regular(tmp_path / "a.md", follow_links=False) as file:
        assert file.read() == SENTENCE.encode()
    with pytest.raises(OSError, match="symbolic links"):
        open_regular(tmp_path / "b.md", follow_links=False)


def test_a_folder_is_read_by_a_path_on_which_there_are_links(tmp_path: Path, store: DemoStages) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(SENTENCE)
    (tmp_path / "by-link").symlink_to(tmp_path)
    for named in (tmp_path / "by-link" / "docs", tmp_path / "by-link" / "docs" / "a.md"):
        *_, done = ingest_documents(named, store, tenant_id="acme")
        assert isinstance(done, FolderDone)
        assert (done.documents, done.skipped) == (1, ())


def test_a_small_file_may_take_less_time_than_a_large_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    def late(_: object, until: float, most: int) -> dict[str, object]:
        given.append(until)
        assert most
        raise TimeoutError

    monkeypatch.setattr(ReaderProcess, "_answer", staticmethod(late))
    monkeypatch.setattr(reader_process.time, "monotonic", lambda: 0.0)
    for size in (208, 1_000_000, 5_000_000):
        (tmp_path / "a.md").write_bytes(b"x" * size)
        with ReaderProcess() as reader:
            assert "takes longer than" in reader.read(str(tmp_path / "a.md"), "a.md").unreadable
    assert given == [pytest.approx(15.0, abs=0.1), 30.0, 60.0]


def test_a_file_that_takes_too_long_is_given_up_and_the_next_one_read(tmp_path: Path) -> None:
    slow, good = tmp_path / "slow.csv", tmp_path / "good.md"
    slow.write_bytes(b"a,b\n" + b"x,y\n" * 2_000_000)
    good.write_text(SENTENCE)
    with ReaderProcess(ReadingLimits(seconds=0.0)) as reader:
        late = reader.read(str(slow), "slow.csv")
        assert (late.document, late.permanent) == (None, False)
        assert "takes longer" in late.unreadable
        reader.limits = ReadingLimits()
        assert reader.read(str(good), "good.md").document is not None


def test_a_reader_whose_parent_was_killed_ends_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, ended = tmp_path / "slow.csv", []
    slow.write_bytes(b"a,b\n" + b"x,y\n" * 2_000_000)

    def never(process: subprocess.Popen[bytes], *_: object) -> dict[str, object]:
        ended.append(process.wait(30))
        raise OSError

    monkeypatch.setattr(ReaderProcess, "_answer", staticmethod(never))
    monkeypatch.setattr(reader_process, "_AFTER_PARENT_S", 0.0)
    with ReaderProcess(ReadingLimits(seconds=0.5)) as reader:
        reader.read(str(slow), "slow.csv")
    assert ended == [-signal.SIGALRM]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits a process's memory so")
def test_small_files_that_are_made_to_be_slow_are_read_in_time(tmp_path: Path) -> None:
    cell = b"<w:tc><w:tcPr>%s</w:tcPr><w:p/></w:tc>"
    goes_on = (b"<w:tr>" + cell % b"<w:vMerge/>" + b"</w:tr>") * 20_000
    spans = b"<w:tr>" + cell % b'<w:gridSpan w:val="2000000000"/>' + b"</w:tr>"
    far = b'<row r="%d"><c t="inlineStr"><is><t>gate</t></is></c></row>'
    files = {
        "comments.txt": b"<!---->" * 140 + b"x",
        "comments and spaces.md": b"<!-- --> \n" * 90 + b"x",
        "merged.docx": changed(docx(), "word/document.xml", b"</w:tbl>", goes_on + spans + b"</w:tbl>"),
        "paragraphs.docx": changed(docx(), "word/document.xml", b"<w:sectPr", b"<w:p/>" * 60_000 + b"<w:sectPr"),
        "empty.xlsx": changed(
            changed(xlsx(), SHEET, b"</sheetData>", far % 1_048_576 + far % 10**12 + b"</sheetData>"),
            SHEET,
            b'<dimension ref="A1:B2"',
            b'<dimension ref="A1:XFD1048576"',
        ),
        "addresses.eml": b"Subject: a\nTo: " + b"a@b.c, " * 300_000 + b"\n\nx",
        "parameters.eml": b"Subject: a\nContent-Type: text/plain" + b";a=b" * 200_000 + b"\n\nx",
    }
    with ReaderProcess(ReadingLimits(seconds=30)) as reader:
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
            assert reader.read(str(tmp_path / name), name).document is not None, name


def test_a_file_that_takes_too_much_memory_is_given_up_and_the_next_one_read(tmp_path: Path) -> None:
    large, good = tmp_path / "large.json", tmp_path / "good.md"
    large.write_bytes(b"[" + b'{"a":1},' * 3_000_000 + b"0]")
    good.write_text(SENTENCE)
    with ReaderProcess(ReadingLimits(memory_bytes=400 * MEBIBYTE)) as reader:
        assert "memory" in reader.read(str(large), "large.json").unreadable
        assert reader.read(str(good), "good.md").document is not None


def test_of_a_folder_of_hostile_files_the_good_ones_go_in(store: DemoStages, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "good.md").write_text(SENTENCE)
    (folder / ("x" * 250 + ".md")).write_text(SENTENCE)
    (folder / "bomb.docx").write_bytes(packed({"word/document.xml": bytes(40 * MEBIBYTE)}))
    (folder / "noise.txt").write_bytes(os.urandom(4_096) + b"\x00")
    with (folder / "huge.txt").open("wb") as huge:
        huge.truncate(500 * MEBIBYTE)
    *_, report = ingest_documents(folder, store, tenant_id=TENANT, options=Options())
    assert isinstance(report, FolderDone)
    assert report.documents == 2
    assert {one.path for one in report.skipped} == {"bomb.docx", "noise.txt", "huge.txt"}


def post(door: FrontDoor, text: str) -> str:
    """Post a text as the document a.md and return the id of its import."""
    body = {"name": "a.md", "content": b64encode(text.encode()).decode()}
    answered = door.ask("POST", "/documents", body, authorizer=claims(TENANT))
    assert answered.status == 202, answered.text
    return str(answered.json()["id"])


def test_a_document_that_is_posted_while_its_former_version_is_written_is_not_lost(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    door, posted, settle = FrontDoor(store), list[str](), uploads.settle

    def settled(*given: Any, **named: Any) -> None:
        if len(posted) == 1:
            posted.append(post(door, "It closes at nine."))
        settle(*given, **named)

    monkeypatch.setattr(uploads, "settle", settled)
    posted.append(post(door, "It closes at eight."))
    assert ended(store.imports, posted[0]).status is ImportStatus.WRITTEN
    assert ended(store.imports, posted[1]).status is ImportStatus.WRITTEN
    assert [record.content for record in store.index.scan(TENANT).records] == ["It closes at nine."]
    assert list(store.objects.list(TENANT, "posted/")) == []


def test_a_posted_document_whose_import_was_cut_off_is_removed_a_week_later_with_the_next_one(
    store: DemoStages,
) -> None:
    old, recent = time.time_ns() - 8 * 24 * 3_600 * 10**9, time.time_ns() - 10**9
    for when in (old, recent):
        store.objects.put(TENANT, f"posted/{when:020d}-ab/=a.md", b"It closes at seven.")
    store.objects.put("globex", f"posted/{old:020d}-ab/=a.md", b"It closes at six.")
    assert ended(store.imports, post(FrontDoor(store), "It closes at eight.")).status is ImportStatus.WRITTEN
    assert [info.key for info in store.objects.list(TENANT, "posted/")] == [f"posted/{recent:020d}-ab/=a.md"]
    assert len(list(store.objects.list("globex", "posted/"))) == 1


def test_what_an_import_reported_is_removed_after_90_days_with_the_next_one(store: DemoStages) -> None:
    old, recent = time.time_ns() - 91 * 24 * 3_600 * 10**9, time.time_ns() - 89 * 24 * 3_600 * 10**9
    for when in (old, recent):
        for name in ("import", "report"):
            store.objects.put(TENANT, f"ingest/api-{when:020d}-ab/{name}.json", b"{}")
    store.objects.put("globex", f"ingest/api-{old:020d}-ab/import.json", b"{}")
    begun = post(FrontDoor(store), "It closes at eight.")
    assert ended(store.imports, begun).status is ImportStatus.WRITTEN
    left = {info.key.split("/")[1] for info in store.objects.list(TENANT, "ingest/")}
    assert left == {f"api-{recent:020d}-ab", begun}
    assert len(list(store.objects.list("globex", "ingest/"))) == 1


def test_imports_of_arriving_files_are_kept_and_keep_no_reports_of_others(store: DemoStages) -> None:
    for number in range(40):  # a file that arrives in the bucket is imported under the id of an event
        store.objects.put(TENANT, f"ingest/00{number:06d}-4c1e-4d0a-9d5e-1b2c3d4e5f60/report.json", b"{}")
    old = ended(store.imports, post(FrontDoor(store), "It closes at seven.")).id
    in_91_days = time.time_ns() + 91 * 24 * 3_600 * 10**9
    with pytest.MonkeyPatch.context() as later:
        later.setattr(time, "time_ns", lambda: in_91_days)
        begun = post(FrontDoor(store), "It closes at eight.")
        assert ended(store.imports, begun).status is ImportStatus.WRITTEN
    left = {info.key.split("/")[1] for info in store.objects.list(TENANT, "ingest/")}
    assert (begun in left, old in left, len(left)) == (True, False, 41)


def test_what_is_posted_and_what_a_folder_has_under_the_same_id_are_not_mixed(
    store: DemoStages, tmp_path: Path
) -> None:
    folder, door = tmp_path / "documents", FrontDoor(store)
    folder.mkdir()
    (folder / "a.md").write_text(SENTENCE)
    list(ingest_documents(folder, store, tenant_id=TENANT))
    refused = ended(store.imports, post(door, "It closes at nine."))
    assert refused.status is ImportStatus.WITH_ERRORS
    assert [record.content for record in store.index.scan(TENANT).records] == [SENTENCE]
    (folder / "a.md").rename(folder / "b.md")
    list(ingest_documents(folder, store, tenant_id=TENANT))
    assert ended(store.imports, post(door, "It closes at nine.")).status is ImportStatus.WRITTEN
    (folder / "a.md").write_text(SENTENCE)
    *_, report = ingest_documents(folder, store, tenant_id=TENANT)
    assert isinstance(report, FolderDone)
    assert [one.path for one in report.skipped] == ["a.md"]
    assert {record.content for record in store.index.scan(TENANT).records} == {"It closes at nine.", SENTENCE}


def test_of_two_versions_that_are_written_beside_each_other_the_later_one_is_stored_whole(store: DemoStages) -> None:
    def begun(name: str, sections: int) -> tuple[ImportJob, list[Batch]]:
        text = "\n\n".join(f"# Part {number}\n\n" + f"{name} of part {number}. " * 60 for number in range(sections))
        store.objects.put(TENANT, f"posted/{name}/=a.md", text.encode())
        event = {"tenant_id": TENANT, "key": f"posted/{name}/=a.md"}
        job = import_steps.split(Split(job=name, event=event), store, batch_lines=2)
        page = import_steps.page(PageRequest(job=job, cursor=Cursor()), store)
        assert page.items is not None
        places = manifest.items(job, page.items, store.objects)
        return job, [Batch(job=job, phase=page.phase, batch=place) for place in places]

    (first, first_batches), (second, second_batches) = begun("old", 6), begun("new", 3)
    for batch in second_batches:
        import_steps.batch(batch, store)
    assert import_steps.finish(Finish(job=second), store).status is JobStatus.WRITTEN
    for batch in first_batches:
        with pytest.raises(ObjectChanged):
            import_steps.batch(batch, store)
        import_steps.lost(Lost(job=first, phase=batch.phase, batch=batch.batch, error="ObjectChanged"), store)
    assert import_steps.finish(Finish(job=first), store).status is JobStatus.CHANGED
    stored = store.index.scan(TENANT).records
    assert [record.id for record in stored] == [f"documents/a.md#chunk-{number}" for number in range(3)]
    assert all("new of part" in record.content for record in stored)
    assert list(store.objects.list(TENANT, "posted/")) == []


def written_whole(name: str, event: dict[str, Any], store: DemoStages) -> JobStatus:
    """Run the steps of an import as the workflow does, and return how it ended."""
    job = import_steps.split(Split(job=name, event=event), store)
    page = import_steps.page(PageRequest(job=job, cursor=Cursor()), store)
    for place in manifest.items(job, page.items, store.objects) if page.items else ():
        import_steps.batch(Batch(job=job, phase=page.phase, batch=place), store)
    return import_steps.finish(Finish(job=job), store).status


_NOW = time.time_ns()
VERSIONS = [
    pytest.param("documents/a.md", "documents/a.md", id="arriving"),
    pytest.param(f"posted/{_NOW:020d}-f/=a.md", f"posted/{_NOW + 1:020d}-0/=a.md", id="posted"),
]


@pytest.mark.parametrize(("old", "new"), VERSIONS)
def test_a_version_that_takes_long_to_cut_is_not_stored_over_a_newer_one(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    cut = records_of

    def slowly(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(uploads, "records_of", cut)
        found = cut(*given, **named)
        store.objects.put(TENANT, new, b"It closes at nine.")
        assert written_whole("new", {"tenant_id": TENANT, "key": new}, store) is JobStatus.WRITTEN
        return found

    monkeypatch.setattr(uploads, "records_of", slowly)
    store.objects.put(TENANT, old, b"It closes at eight.")
    with pytest.raises(ObjectChanged):
        written_whole("old", {"tenant_id": TENANT, "key": old}, store)
    assert [record.content for record in store.index.scan(TENANT).records] == ["It closes at nine."]


def test_a_version_that_was_posted_while_the_clock_was_ahead_is_replaced_by_a_newer_one(store: DemoStages) -> None:
    now = time.time_ns()
    for name, posted in (("eight", now + 2 * 3_600 * 10**9), ("nine", now), ("ten", now + 1)):
        key = f"posted/{posted:020d}-f/=a.md"
        store.objects.put(TENANT, key, f"The seal opens at {name}.".encode())
        assert written_whole(name, {"tenant_id": TENANT, "key": key}, store) is JobStatus.WRITTEN
        (record,) = store.index.scan(TENANT).records
        assert name in record.content


@pytest.mark.parametrize("is_readable", [True, False])
@pytest.mark.parametrize(("old", "new"), VERSIONS)
def test_a_version_that_takes_long_to_read_is_not_stored_over_a_newer_one(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch, old: str, new: str, is_readable: bool
) -> None:
    read = ReaderProcess.read

    def slowly(self: ReaderProcess, place: str, path: str) -> Reading:
        monkeypatch.setattr(ReaderProcess, "read", read)
        found = self.read(place, path)
        store.objects.put(TENANT, new, b"It closes at nine.")
        assert written_whole("new", {"tenant_id": TENANT, "key": new}, store) is JobStatus.WRITTEN
        return found if is_readable else Reading(unreadable="is broken", permanent=True)

    monkeypatch.setattr(ReaderProcess, "read", slowly)
    store.objects.put(TENANT, old, b"It closes at eight.")
    with pytest.raises(ObjectChanged):
        written_whole("old", {"tenant_id": TENANT, "key": old}, store)
    assert [record.content for record in store.index.scan(TENANT).records] == ["It closes at nine."]
    assert list(store.objects.list(TENANT, "posted/")) == []
    # And what comes next is written as before.
    again = new.replace("10-0", "11-0")
    store.objects.put(TENANT, again, b"It closes at ten.")
    assert written_whole("next", {"tenant_id": TENANT, "key": again}, store) is JobStatus.WRITTEN
    assert [record.content for record in store.index.scan(TENANT).records] == ["It closes at ten."]


def test_a_version_that_takes_long_to_embed_is_not_stored_over_a_newer_one(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = WordEncoder.encode

    def slowly(self: WordEncoder, texts: Sequence[str], **how: Any) -> list[bytes]:
        monkeypatch.setattr(WordEncoder, "encode", encode)
        store.objects.put(TENANT, "documents/a.md", b"It closes at nine.")
        assert written_whole("new", {"tenant_id": TENANT, "key": "documents/a.md"}, store) is JobStatus.WRITTEN
        return self.encode(texts, **how)

    store.objects.put(TENANT, "documents/a.md", b"It closes at eight.")
    monkeypatch.setattr(WordEncoder, "encode", slowly)
    with pytest.raises(ObjectChanged):
        written_whole("old", {"tenant_id": TENANT, "key": "documents/a.md"}, store)
    assert [record.content for record in store.index.scan(TENANT).records] == ["It closes at nine."]


@pytest.mark.parametrize(("owner", "step"), [(ReaderProcess, "read"), (uploads, "records_of"), (WordEncoder, "encode")])
@pytest.mark.parametrize("key", ["documents/a.md", f"posted/{_NOW:020d}-f/=a.md"], ids=["arriving", "posted"])
def test_a_document_is_not_stored_after_its_tenant_was_deleted_while_it_was_imported(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch, key: str, owner: Any, step: str
) -> None:
    done = getattr(owner, step)

    def slowly(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(owner, step, done)
        found = done(*given, **named)
        delete_tenant(TENANT, store)
        return found

    monkeypatch.setattr(owner, step, slowly)
    store.objects.put(TENANT, key, b"It closes at eight.")
    with pytest.raises((ObjectMissing, ObjectChanged)):
        written_whole("job", {"tenant_id": TENANT, "key": key}, store)
    assert list(store.index.scan(TENANT).records) == []
    assert list(store.objects.list(TENANT)) == []


def test_a_document_that_is_cut_off_and_put_again_loses_nothing_while_the_rest_of_it_is_removed(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "REMOVED_AT_ONCE", 2)
    event = {"tenant_id": TENANT, "key": "documents/a.md"}
    whole = "\n\n".join(f"# Part {number}\n\n" + f"It is part {number}. " * 60 for number in range(9)).encode()
    store.objects.put(TENANT, "documents/a.md", whole)
    assert written_whole("first", event, store) is JobStatus.WRITTEN
    remove = uploads.delete_records

    def put_again(*given: Any) -> Any:
        monkeypatch.setattr(uploads, "delete_records", remove)
        removed = remove(*given)
        store.objects.put(TENANT, "documents/a.md", whole)
        assert written_whole("again", event, store) is JobStatus.WRITTEN
        return removed

    monkeypatch.setattr(uploads, "delete_records", put_again)
    store.objects.put(TENANT, "documents/a.md", b"It is cut off.")
    assert written_whole("cut-off", event, store) is JobStatus.WRITTEN
    assert len(store.index.scan(TENANT).records) == 9
    # And the next version is known to be shorter.
    store.objects.put(TENANT, "documents/a.md", b"It is cut off.")
    assert written_whole("cut-off-again", event, store) is JobStatus.WRITTEN
    assert [record.content for record in store.index.scan(TENANT).records] == ["It is cut off."]


@pytest.mark.parametrize("stale", [0, 5])
def test_a_version_that_begins_while_the_former_one_ends_is_stored(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch, stale: int
) -> None:
    event = {"tenant_id": TENANT, "key": "documents/a.md"}
    parts = "\n\n".join(f"# Part {number}\n\n" + f"It is part {number}. " * 60 for number in range(stale + 1))
    store.objects.put(TENANT, "documents/a.md", parts.encode())
    assert written_whole("first", event, store) is JobStatus.WRITTEN
    owner, name = (uploads, "delete_records") if stale else (uploads, "chunk_ids")
    do, begun = getattr(owner, name), list[ImportJob]()

    def meanwhile(*given: Any) -> Any:
        if not begun:
            store.objects.put(TENANT, "documents/a.md", b"It closes at nine.")
            begun.append(import_steps.split(Split(job="new", event=event), store))
        return do(*given)

    monkeypatch.setattr(owner, name, meanwhile)
    store.objects.put(TENANT, "documents/a.md", b"It closes at eight.")
    assert written_whole("old", event, store) is JobStatus.WRITTEN
    page = import_steps.page(PageRequest(job=begun[0], cursor=Cursor()), store)
    for place in manifest.items(begun[0], page.items or "", store.objects):
        import_steps.batch(Batch(job=begun[0], phase=page.phase, batch=place), store)
    assert import_steps.finish(Finish(job=begun[0]), store).status is JobStatus.WRITTEN
    assert [record.content for record in store.index.scan(TENANT).records] == ["It closes at nine."]


def test_a_version_is_not_stored_over_one_that_begins_when_it_does(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = f"posted/{_NOW:020d}-f/=a.md", f"posted/{_NOW + 1:020d}-0/=a.md"
    put = store.objects.put

    def overtaken(tenant_id: str, key: str, content: Any) -> Any:
        if key.endswith(".state"):  # what an import stores first of a document
            monkeypatch.undo()
            store.objects.put(TENANT, new, b"It closes at nine.")
            assert written_whole("new", {"tenant_id": TENANT, "key": new}, store) is JobStatus.WRITTEN
        return put(tenant_id, key, content)

    store.objects.put(TENANT, old, b"It closes at eight.")
    monkeypatch.setattr(store.objects, "put", overtaken)
    with pytest.raises(ObjectChanged):
        written_whole("old", {"tenant_id": TENANT, "key": old}, store)
    assert [record.content for record in store.index.scan(TENANT).records] == ["It closes at nine."]


METADATA = "documents/a.md.metadata.json"


def test_metadata_that_arrives_while_its_document_is_read_is_not_lost(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut, teams = records_of, ["b", "a"]

    def slowly(*given: Any, **named: Any) -> Any:
        if teams:
            store.objects.put(TENANT, METADATA, json.dumps({"team": teams.pop()}).encode())
        return cut(*given, **named)

    monkeypatch.setattr(uploads, "records_of", slowly)
    store.objects.put(TENANT, "documents/a.md", b"It closes at eight.")
    assert written_whole("slow", {"tenant_id": TENANT, "key": "documents/a.md"}, store) is JobStatus.WRITTEN
    assert [record.metadata["team"] for record in store.index.scan(TENANT).records] == ["b"]


def test_metadata_that_never_rests_ends_the_import_that_reads_it(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut, read = records_of, list[int]()

    def slowly(*given: Any, **named: Any) -> Any:
        read.append(1)
        store.objects.put(TENANT, METADATA, json.dumps({"team": len(read)}).encode())
        return cut(*given, **named)

    monkeypatch.setattr(uploads, "records_of", slowly)
    store.objects.put(TENANT, "documents/a.md", b"It closes at eight.")
    with pytest.raises(ObjectChanged):
        written_whole("slow", {"tenant_id": TENANT, "key": "documents/a.md"}, store)
    assert 1 < len(read) < 10
    assert store.index.scan(TENANT).records == ()


def begun_whole(name: str, key: str, store: DemoStages) -> tuple[ImportJob, list[Batch]]:
    """Begin an import and return it with its batches."""
    job = import_steps.split(Split(job=name, event={"tenant_id": TENANT, "key": key}), store)
    page = import_steps.page(PageRequest(job=job, cursor=Cursor()), store)
    assert page.items is not None
    places = manifest.items(job, page.items, store.objects)
    return job, [Batch(job=job, phase=page.phase, batch=place) for place in places]


@pytest.mark.parametrize("replaced", [False, True])
def test_an_import_that_leaves_its_document_to_that_of_the_metadata_has_not_failed(
    store: DemoStages, replaced: bool
) -> None:
    """Both start by themselves when the pair is put into the bucket. A newer document is another thing."""
    store.objects.put(TENANT, "documents/a.md", b"It closes at eight.")
    first, batches = begun_whole("first", "documents/a.md", store)
    if replaced:
        store.objects.put(TENANT, "documents/a.md", b"It closes at nine.")
    store.objects.put(TENANT, METADATA, b'{"team": "a"}')
    second, later = begun_whole("second", METADATA, store)
    for batch in batches:
        with pytest.raises(ObjectChanged):
            import_steps.batch(batch, store)
        import_steps.lost(Lost(job=first, phase=batch.phase, batch=batch.batch, error="ObjectChanged"), store)
    report = import_steps.finish(Finish(job=first), store)
    expected = (JobStatus.CHANGED, 1, 1) if replaced else (JobStatus.WRITTEN, 0, 0)
    assert (report.status, report.errors, report.lost_batches) == expected
    for batch in later:
        import_steps.batch(batch, store)
    assert import_steps.finish(Finish(job=second), store).status is JobStatus.WRITTEN
    (record,) = store.index.scan(TENANT).records
    assert (record.metadata["team"], "nine" in record.content) == ("a", replaced)


def test_wrong_metadata_does_not_stop_the_import_of_its_document(store: DemoStages) -> None:
    store.objects.put(TENANT, "documents/a.md", b"It closes at eight.")
    job, batches = begun_whole("begun", "documents/a.md", store)
    for name, stated in {"wrong": b"{", "again": b"[]"}.items():
        store.objects.put(TENANT, METADATA, stated)
        assert written_whole(name, {"tenant_id": TENANT, "key": METADATA}, store) is JobStatus.WITH_ERRORS
    for batch in batches:
        import_steps.batch(batch, store)
    assert import_steps.finish(Finish(job=job), store).status is JobStatus.WRITTEN
    assert [record.content for record in store.index.scan(TENANT).records] == ["It closes at eight."]


def test_a_state_that_another_import_stores_while_it_is_read_fails_no_import(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, met = store.objects.open, set[str]()

    def replaced_once(tenant_id: str, key: str) -> Any:
        if "uploads" in key and key not in met:
            met.add(key)
            raise ObjectChanged("replaced")
        return opened(tenant_id, key)

    event = {"tenant_id": TENANT, "key": "documents/a.md"}
    for text in (b"It closes at eight.", b"It closes at nine."):
        store.objects.put(TENANT, "documents/a.md", text)
        assert written_whole("import", event, store) is JobStatus.WRITTEN
        monkeypatch.setattr(store.objects, "open", replaced_once)
    assert met


def test_of_what_is_posted_the_key_says_when(store: DemoStages, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(type(store.imports), "start", lambda *given: asked.append(given[3].key))
    for _ in range(3):
        post(FrontDoor(store), "It closes at eight.")
    assert asked == sorted(asked)


def test_a_document_whose_import_is_refused_takes_no_space(store: DemoStages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_queue, "WAITING_PER_TENANT", 0)
    body = {"name": "a.md", "content": b64encode(b"It closes at eight.").decode()}
    assert FrontDoor(store).ask("POST", "/documents", body, authorizer=claims(TENANT)).status == 429
    assert list(store.objects.list(TENANT, "posted/")) == []


NO_CHARACTERS = {
    "key.json": b'{"\\ud800key": "value"}',
    "inner.json": b'{"a": {"\\ud800key": "value"}}',
    "mapped.jsonl": b'{"title": "a", "\\udfff": {"\\ud800": "value"}}',
    "title.md": b'---\ntitle: "\\uD800"\n"\\uD800": "\\uD800"\n---\nThe gate opens.\n',
    "date.md": b'---\ndate: "spring \\uD800"\n---\nThe gate opens.\n',
    **({os.fsdecode(b"\xff.txt"): b"The gate opens."} if sys.platform == "linux" else {}),
    "language.ipynb": b'{"metadata": {"kernelspec": {"language": "\\ud800"}},'
    b' "cells": [{"cell_type": "code", "source": "x"}]}',
    "number.md": b"---\nnumber: 0x" + b"f" * 5_000 + b"\n---\nThe gate opens.\n",
    "controls.md": "It was E42\x80 and Alph\x9ba Beta, \x85 \x01 \x1c \x9f of Gates.".encode(),
    "quoted.txt": b'They read "Heron\tGates" and "Heron\x1cGates" and "Heron\xc2\x85Gates" aloud.',
    "latin.txt": b"The gate\x92s keeper, E42\x81, and Ren\xe9 Hero\x8dn were there.",
}


@pytest.mark.parametrize("name", NO_CHARACTERS)
def test_what_is_no_character_stops_neither_its_file_nor_the_folder(
    store: DemoStages, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / name).write_bytes(NO_CHARACTERS[name])
    (folder / "zebra.md").write_text(SENTENCE)
    *_, report = ingest_documents(folder, store, tenant_id=TENANT)
    assert isinstance(report, FolderDone)
    assert (report.documents, report.skipped) == (2, ())


@pytest.mark.parametrize("why", ["takes longer than 60 seconds to read", "needs the package pypdf"])
def test_what_was_read_of_a_file_is_kept_while_it_cannot_be_read_for_reasons_outside_of_it(
    store: DemoStages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text(SENTENCE)
    list(ingest_documents(folder, store, tenant_id=TENANT))
    (folder / "a.md").write_text("The gate is closed.")
    with monkeypatch.context() as patched:
        patched.setattr(ReaderProcess, "read", lambda *_: Reading(unreadable=why, permanent=False))
        *_, report = ingest_documents(folder, store, tenant_id=TENANT)
    assert isinstance(report, FolderDone)
    assert (report.documents, report.unchanged, [one.path for one in report.skipped]) == (1, 0, ["a.md"])
    assert [record.content for record in store.index.scan(TENANT).records] == [SENTENCE]
    list(ingest_documents(folder, store, tenant_id=TENANT))
    assert [record.content for record in store.index.scan(TENANT).records] == ["The gate is closed."]


def test_a_reader_that_fails_unforeseen_ends_the_ingest_rather_than_have_it_wait(
    store: DemoStages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.md").write_text(SENTENCE)

    def fail(*_: object) -> Reading:
        raise MemoryError

    monkeypatch.setattr(ReaderProcess, "read", fail)
    with pytest.raises(MemoryError):
        list(ingest_documents(tmp_path / "a.md", store, tenant_id=TENANT))
