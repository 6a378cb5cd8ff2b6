"""Files of the vector index that are damaged, of another moment or made up: built again from the rows, and said so."""

from __future__ import annotations

import json
import logging
import os
import shutil
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from braid.engines.embedded.search import hnsw_files, hnsw_graph, hnsw_segments
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.engines.embedded.store import EmbeddedStore

from tests.contract.shapes import ACME, DIMENSIONS
from tests.unit.engines.test_embedded_vectors import exactly, opened, rows, through_graph

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DEEP = 100_000


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Give a folder with 400 vectors and their saved graph."""
    with EmbeddedStore(tmp_path / "home") as store:
        index = EmbeddedSearchIndex(store, DIMENSIONS)
        index.upsert(rows(400))
        index.optimise(ACME)
    return tmp_path / "home"


def description(home: Path) -> Path:
    (path,) = (home / "vectors").glob("*.json")
    return path


def says(**fields: Any) -> Callable[[Path], None]:
    """Return what makes the description say something else."""

    def change(home: Path) -> None:
        path = description(home)
        content = json.loads(path.read_text())
        path.write_text(json.dumps({**content, "crc32": None, **fields}))

    return change


def holds(text: str) -> Callable[[Path], None]:
    return lambda home: _write(description(home), text)


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def segment_says(**fields: Any) -> Callable[[Path], None]:
    def change(home: Path) -> None:
        (segment,) = json.loads(description(home).read_text())["segments"]
        says(segments=[{**segment, **fields}])(home)

    return change


def twice(home: Path) -> None:
    (segment,) = json.loads(description(home).read_text())["segments"]
    says(segments=[segment, segment])(home)


def in_nested_folders(home: Path) -> None:
    path = description(home)
    folder = home / "vectors" / f"{path.stem}-a"
    deepest = folder.joinpath(*["a"] * 50)
    deepest.mkdir(parents=True)
    (segment,) = json.loads(path.read_text())["segments"]
    shutil.move(home / "vectors" / segment["file"], deepest / "b.usearch")
    segment_says(file=str((deepest / "b.usearch").relative_to(home / "vectors")))(home)


def of_other_vectors(home: Path) -> None:
    """Put a whole and rightly described segment of longer vectors in the place of the real one."""
    (segment,) = json.loads(description(home).read_text())["segments"]
    other = hnsw_segments.Segment(16)
    other.add(np.arange(400, dtype=np.uint64), np.eye(16, dtype=np.float32)[np.arange(400) % 16])
    other.write(home / "elsewhere", "x", is_done=False)
    content = (home / "elsewhere" / str(other.file)).read_bytes()
    (home / "vectors" / segment["file"]).write_bytes(content)
    segment_says(crc32=zlib.crc32(content))(home)


def a_folder(home: Path) -> None:
    (segment,) = json.loads(description(home).read_text())["segments"]
    (home / "vectors" / segment["file"]).unlink()
    (home / "vectors" / segment["file"]).mkdir()


DAMAGE: dict[str, Callable[[Path], None]] = {
    "arrays in arrays": holds("[" * DEEP),
    "arrays in arrays that end": holds("[" * DEEP + "]" * DEEP),
    "objects in objects": holds('{"segments":' * DEEP + "1" + "}" * DEEP),
    "arrays in arrays inside": lambda home: _write(
        description(home), description(home).read_text()[:-1] + ', "x": ' + "[" * DEEP + "]" * DEEP + "}"
    ),
    "20 MB": holds('{"format": 2, "x": "' + "x" * 20_000_000 + '"}'),
    "a generation without end": holds('{"format": 2, "generation": Infinity}'),
    "a number beyond SQLite's": says(newest=2**70),
    "a number below all": says(newest=-1),
    "a generation that is text": says(generation="many"),
    "a generation far ahead": says(generation=10**15),
    "segments that are text": says(segments=["a", "b"]),
    "a segment twice": twice,
    "a segment of another size": segment_says(size=40_000),
    "a segment that is not there": segment_says(file="1-x.usearch"),
    "a segment in nested folders": in_nested_folders,
    "a segment of longer vectors": of_other_vectors,
    "a segment that is a folder": a_folder,
    "a segment with NUL in its name": segment_says(file="1-\0"),
    "a segment with a name of a megabyte": segment_says(file="1-" + "x" * 1_000_000),
}


@pytest.fixture(autouse=True)
def tidy_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every file that nothing speaks of for abandoned."""
    monkeypatch.setattr(hnsw_files, "_ABANDONED_S", -1)


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_said_and_mended_and_never_changes_an_answer(
    saved: Path, damage: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = exactly(saved)
    (saved / "elsewhere").mkdir()
    DAMAGE[damage](saved)
    index = opened(saved)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert through_graph(index) == expected
            index.optimise(ACME)
    assert "is built again" in caplog.text
    assert len(caplog.text) < 10_000
    caplog.clear()
    built: list[int] = []
    monkeypatch.setattr(hnsw_graph.HnswGraph, "_add_since", lambda _self, _connection, number, _: built.append(number))
    assert through_graph(opened(saved)) == expected
    assert 0 not in built
    assert caplog.text == ""


@pytest.mark.parametrize("what", ["a folder", "a pipe"])
def test_what_stands_in_the_place_of_the_description_is_said_and_costs_no_answer(
    saved: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    expected, path = exactly(saved), description(saved)
    path.unlink()
    path.mkdir() if what == "a folder" else os.mkfifo(path)
    with caplog.at_level(logging.WARNING):
        assert through_graph(opened(saved)) == expected
    assert "is built again" in caplog.text


def test_a_database_that_was_put_back_to_an_earlier_day_does_not_leave_its_index_behind(saved: Path) -> None:
    shutil.copy(saved / "braid.db", saved / "copy.db")
    later = opened(saved)
    for number in range(5):
        later.upsert(rows(300, seed=number, first=1_000))
    later.optimise(ACME)
    later._store.close()
    for path in saved.glob("braid.db*"):
        path.unlink()
    shutil.move(saved / "copy.db", saved / "braid.db")
    expected, index = exactly(saved), opened(saved)
    for _ in range(3):
        assert through_graph(index) == expected
    (graph,) = index._graphs.values()
    assert graph._size == 400


def test_a_database_that_was_put_back_and_written_to_again_does_not_lack_what_was_written_then(saved: Path) -> None:
    """As many other records were written meanwhile as were lost: their number alone tells nothing."""
    shutil.copy(saved / "braid.db", saved / "copy.db")
    later = opened(saved)
    later.upsert(rows(300, seed=1, first=1_000))
    later.optimise(ACME)
    later._store.close()
    for path in saved.glob("braid.db*"):
        path.unlink()
    shutil.move(saved / "copy.db", saved / "braid.db")
    again = opened(saved)
    again.upsert(rows(300, seed=2, first=1_000))
    again._store.close()
    expected = exactly(saved)
    assert any(name >= "r1000" for name in expected)
    assert through_graph(opened(saved)) == expected


def test_no_link_is_followed_where_a_description_is_written(tmp_path: Path) -> None:
    index, other = opened(tmp_path / "home"), tmp_path / "other"
    index.upsert(rows(400))
    other.write_text("mine")
    index.optimise(ACME)
    path = description(tmp_path / "home")
    path.with_suffix(f".{os.getpid()}.new").symlink_to(other)
    index.upsert(rows(400, seed=1, first=1_000))
    index.optimise(ACME)
    assert other.read_text() == "mine"
    assert description(tmp_path / "home").is_file()
