"""A vector graph of several segments: the full ones lie in files, and any of them may go, grow old or be taken away."""

from __future__ import annotations

import logging
import resource
from typing import TYPE_CHECKING

import numpy as np
import pytest
from braid.engines.embedded.search import hnsw_files, hnsw_segments
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.engines.embedded.store import EmbeddedStore

from tests.contract.shapes import ACME, DIMENSIONS
from tests.unit.engines.test_embedded_vectors import QUESTION, exactly, opened, rows, through_graph

if TYPE_CHECKING:
    from pathlib import Path

    from braid.engines.embedded.search.hnsw_graph import HnswGraph

FULL = 64


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hnsw_segments, "SIZE", FULL)
    monkeypatch.setattr(hnsw_segments, "EXACT_VECTORS", FULL)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Give a folder with 400 vectors: six full segments and one that grows."""
    index = opened(tmp_path / "home")
    index.upsert(rows(400))
    index.optimise(ACME)
    assert len(files(tmp_path / "home")) == 7
    return tmp_path / "home"


def files(home: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in (home / "vectors").glob("*.usearch")}


def graph(index: EmbeddedSearchIndex) -> HnswGraph:
    (graph,) = index._graphs.values()
    return graph


def in_memory(index: EmbeddedSearchIndex) -> int:
    """Return how many vectors the process holds itself, rather than mapped."""
    return sum(len(segment) for segment in graph(index)._segments if segment._index.memory_usage > 200_000)


def test_all_that_is_near_is_found_across_segments(saved: Path) -> None:
    for k in (1, 20, 100):
        assert through_graph(opened(saved), k) == exactly(saved, k)


def test_a_segment_that_has_all_that_is_near_is_asked_for_more_than_its_share() -> None:
    generator = np.random.default_rng(0)
    parts = [hnsw_segments.Segment(8) for _ in range(4)]
    for place, part in enumerate(parts):
        vectors = generator.normal(size=(FULL, 8)).astype("<f4")
        vectors[:, 0] = np.abs(vectors[:, 0]) * (10 if place == 0 else -10)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        part.add(np.arange(place * FULL, (place + 1) * FULL, dtype=np.uint64), vectors)
    keys, cosines = hnsw_segments.nearest(parts, hnsw_segments.Tail(8), np.eye(8, dtype="<f4")[0], FULL)
    assert sorted(keys.tolist()) == list(range(FULL))
    assert sorted(cosines.tolist(), reverse=True) == cosines.tolist()


def test_up_to_a_bound_all_vectors_of_all_segments_are_compared(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = opened(saved)
    question = np.frombuffer(QUESTION, dtype="<f4")
    for bound, exact in ((399, False), (400, True)):
        monkeypatch.setattr(hnsw_segments, "EXACT_VECTORS", bound)
        through_graph(index)
        with index._store.read() as connection:
            nearest = graph(index).nearest(connection, question, 400)
        assert nearest is not None
        assert nearest.exact is exact
    assert len(nearest.keys) == 400


def test_only_the_segment_that_grows_is_written_again(saved: Path) -> None:
    before = files(saved)
    index = opened(saved)
    index.upsert(rows(10, seed=3, first=1_000))
    index.optimise(ACME)
    assert len(before.items() & files(saved).items()) == 6
    assert through_graph(opened(saved)) == exactly(saved)


def test_only_the_segment_that_grows_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hnsw_segments, "SIZE", 1_000)
    index = opened(tmp_path)
    index.upsert(rows(2_500))
    index.optimise(ACME)
    assert in_memory(index) == 500
    again = opened(tmp_path)
    through_graph(again)
    assert in_memory(again) == 0
    again.upsert(rows(10, seed=3, first=2_500))
    through_graph(again)
    assert in_memory(again) == 0
    again.optimise(ACME)
    assert in_memory(again) == 510


def test_a_mapped_segment_grows_even_if_its_file_was_removed(saved: Path) -> None:
    index = opened(saved)
    through_graph(index)
    for file in files(saved):
        (saved / "vectors" / file).unlink()
    index.upsert(rows(10, seed=3, first=1_000))
    assert through_graph(index) == exactly(saved)


def test_full_segments_leave_the_memory_while_a_graph_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hnsw_segments, "SIZE", 1_000)
    index = opened(tmp_path)
    held: list[int] = []
    add = hnsw_segments.Segment.add

    def watched(segment: hnsw_segments.Segment, *vectors: object) -> None:
        add(segment, *vectors)  # type: ignore[arg-type] - passed on as it came
        held.append(in_memory(index))

    monkeypatch.setattr(hnsw_segments.Segment, "add", watched)
    index.upsert(rows(5_000))
    assert max(held) == 1_000


def test_a_segment_is_rebuilt_by_itself(saved: Path) -> None:
    before = files(saved)
    index = opened(saved)
    index.delete(ACME, [f"r{number:04}" for number in range(FULL, FULL + FULL // 2)])
    index.optimise(ACME)
    assert through_graph(index, 100) == exactly(saved, 100)
    assert through_graph(opened(saved), 100) == exactly(saved, 100)
    assert len(before.items() & files(saved).items()) == 6


def test_removed_vectors_are_not_found_and_come_back(saved: Path) -> None:
    index = opened(saved)
    best = exactly(saved, 5)
    kept = [record for record in rows(400) if record.id in best]
    index.delete(ACME, best)
    assert not set(best) & set(through_graph(index))
    assert not set(best) & set(through_graph(opened(saved)))
    index.upsert(kept)
    assert through_graph(index)[:5] == best
    assert through_graph(opened(saved))[:5] == best
    assert graph(index)._size == 400


def test_one_that_comes_back_while_another_goes_are_told_apart(saved: Path) -> None:
    index = opened(saved)
    first, second, *_ = exactly(saved, 5)
    both = {record.id: record for record in rows(400) if record.id in (first, second)}
    index.delete(ACME, [first])
    assert through_graph(index)[0] == second
    index.upsert([both[first]])
    index.delete(ACME, [second])
    assert through_graph(index) == exactly(saved)
    assert first in through_graph(index)
    assert second not in through_graph(index)


def test_files_that_another_process_took_away_are_written_again(saved: Path) -> None:
    index = opened(saved)
    through_graph(index)
    for path in (saved / "vectors").iterdir():
        path.unlink()
    index.upsert(rows(10, seed=3, first=1_000))
    index.optimise(ACME)
    assert len(files(saved)) == 7
    assert through_graph(opened(saved)) == exactly(saved)


def test_two_processes_that_save_in_turn_leave_what_can_be_read(saved: Path, caplog: pytest.LogCaptureFixture) -> None:
    one, other = opened(saved), opened(saved)
    with caplog.at_level(logging.WARNING):
        for turn in range(4):
            for index in (one, other):
                index.upsert(rows(70, seed=turn, first=1_000 * turn))
                index.optimise(ACME)
        assert through_graph(one) == through_graph(other) == through_graph(opened(saved)) == exactly(saved)
    assert caplog.text == ""
    assert len(files(saved)) == len(graph(other)._segments)


def test_what_another_process_is_about_to_speak_of_is_left(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (description,) = (saved / "vectors").glob("*.json")
    other = saved / "vectors" / f"{description.stem}-0123456789abcdef.usearch"
    other.write_bytes(b"written a moment ago")
    index = opened(saved)
    index.upsert(rows(10, seed=3, first=1_000))
    index.optimise(ACME)
    assert other.exists()
    monkeypatch.setattr(hnsw_files, "_ABANDONED_S", -1)
    index.upsert(rows(10, seed=4, first=2_000))
    index.optimise(ACME)
    assert not other.exists()


def test_a_segment_that_is_taken_away_before_it_can_be_mapped_stays_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    index = opened(tmp_path)
    index.upsert(rows(400))
    written = hnsw_segments._write

    def taken_away(index: object, path: Path) -> None:
        written(index, path)
        path.unlink()

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(hnsw_segments, "_write", taken_away)
        index.optimise(ACME)
        assert through_graph(index) == exactly(tmp_path)
    assert "was not saved" in caplog.text
    index.optimise(ACME)
    assert through_graph(opened(tmp_path)) == exactly(tmp_path)


def test_a_damaged_segment_is_built_again(saved: Path) -> None:
    path = sorted((saved / "vectors").glob("*.usearch"))[3]
    path.write_bytes(path.read_bytes()[:-1])
    assert through_graph(opened(saved)) == exactly(saved)


def test_a_store_that_is_only_read_writes_no_segment(tmp_path: Path) -> None:
    opened(tmp_path).upsert(rows(400))
    with EmbeddedStore(tmp_path, read_only=True) as store:
        index = EmbeddedSearchIndex(store, DIMENSIONS, exact_rows=0)
        assert through_graph(index) == exactly(tmp_path)
    assert not (tmp_path / "vectors").exists()


def test_a_disk_that_takes_half_a_segment_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hnsw_segments, "SIZE", 150)
    index = opened(tmp_path)
    index.upsert(rows(400))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))  # what a full disk does, for files of this length
    try:
        with caplog.at_level(logging.WARNING):
            index.optimise(ACME)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "was not saved" in caplog.text
    assert through_graph(index) == exactly(tmp_path)
    assert list((tmp_path / "vectors").iterdir()) == []
    index.upsert(rows(10, seed=3, first=1_000))
    index.optimise(ACME)
    assert len(files(tmp_path)) == 3
    assert through_graph(opened(tmp_path)) == exactly(tmp_path)
