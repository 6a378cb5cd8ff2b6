"""Vector graphs that follow the log of removed vectors: whatever was written, they find what is stored."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
import pytest
from braid.engines.embedded.search import hnsw_graph, hnsw_segments, removed_vectors_log
from braid.engines.embedded.search.hnsw_graph import HnswGraph
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.shapes import ACME, embedding, random_vector, record, to_format
from tests.unit.engines.test_embedded_vectors import QUESTION, exactly, opened, rows, through_graph

if TYPE_CHECKING:
    from collections.abc import Iterator

    from braid.engines.embedded.search.hnsw_manifest import SegmentFile
    from braid.engines.embedded.search.index import EmbeddedSearchIndex

VECTORS = [random_vector(random.Random(seed)) for seed in range(40)]  # noqa: S311 - fixed sequences
RECORDS = st.integers(0, 30)
STEPS = st.one_of(
    st.tuples(st.just("write"), st.dictionaries(RECORDS, st.integers(0, len(VECTORS) - 1), min_size=1, max_size=12)),
    st.tuples(st.just("delete"), st.sets(RECORDS, min_size=1, max_size=12)),
    st.tuples(st.sampled_from(["search", "search", "reopen", "optimise", "other"]), st.none()),
)


@pytest.fixture(autouse=True)
def few_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few vectors do what takes thousands."""
    monkeypatch.setattr(hnsw_segments, "SIZE", 8)
    monkeypatch.setattr(hnsw_graph, "MAX_TAIL", 6)
    monkeypatch.setattr(hnsw_graph, "ADDED_AT_ONCE", 3)
    monkeypatch.setattr(hnsw_graph, "_MIN_UNSAVED", 2)


@settings(max_examples=150)
@given(steps=st.lists(STEPS, min_size=1, max_size=14))
def test_a_graph_finds_what_is_stored_whatever_was_written(steps: list[tuple[str, object]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        index, other = opened(home), opened(home)
        for step, given_ in steps:
            match step, given_:
                case "write", dict(some):
                    index.upsert(
                        [record(f"r{one:04}", embeddings=(embedding(VECTORS[vector]),)) for one, vector in some.items()]
                    )
                case "delete", set(some):
                    index.delete(ACME, [f"r{one:04}" for one in some])
                case "optimise", _:
                    index.optimise(ACME)
                case "reopen", _:
                    index = opened(home)
                case "other", _:
                    assert through_graph(other, 50) == exactly(home, 50)
                case _:
                    assert through_graph(index, 50) == exactly(home, 50)
        for one in (index, other, opened(home)):
            assert through_graph(one, 50) == exactly(home, 50)


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Record each time that a graph is compared with all rows."""
    calls: list[str] = []
    for name in ("_differs", "_compare", "_rebuild_some"):
        really = getattr(HnswGraph, name)

        def watched(self: HnswGraph, connection: object, name: str = name, really: object = really) -> object:
            calls.append(name)
            return really(self, connection)  # type: ignore[operator] - the method of that name

        monkeypatch.setattr(HnswGraph, name, watched)
    return calls


def written(home: Path) -> EmbeddedSearchIndex:
    index = opened(home)
    index.upsert(rows(60))
    index.optimise(ACME)
    return index


def test_a_search_after_a_write_reads_what_was_written_alone(tmp_path: Path, compared: list[str]) -> None:
    index = written(tmp_path)
    other = opened(tmp_path)
    through_graph(other)
    compared.clear()
    for seed, number in enumerate((3, 70, 5, 3)):
        with patch.object(index, "_keep_up"):
            index.upsert(rows(1, seed=seed + 9, first=number))
            index.delete(ACME, [f"r{number + 1:04}"])
        assert through_graph(index) == through_graph(other) == exactly(tmp_path)
    assert through_graph(opened(tmp_path)) == exactly(tmp_path)
    assert compared == []


def test_a_search_rebuilds_no_segment(tmp_path: Path, compared: list[str]) -> None:
    index = written(tmp_path)
    compared.clear()
    with patch.object(index, "_keep_up"):
        index.delete(ACME, [f"r{number:04}" for number in range(40)])
    assert through_graph(index) == exactly(tmp_path)
    assert compared == []
    for number in range(100, 140):  # each write goes on with it
        index.upsert(rows(1, seed=number, first=number))
    (graph,) = index._graphs.values()
    assert graph._worn() == []
    assert through_graph(index, 60) == exactly(tmp_path, 60)


def test_what_is_removed_and_written_again_during_a_rebuild_is_found(tmp_path: Path) -> None:
    index = written(tmp_path)
    first = {each.id: each for each in rows(60)}
    index.delete(ACME, [f"r{number:04}" for number in range(20)])
    index.upsert(rows(1, seed=8, first=200))
    index.upsert([first["r0003"], first["r0004"]])
    index.delete(ACME, ["r0022"])
    for number in range(100, 130):
        index.upsert(rows(1, seed=number, first=number))
    assert through_graph(index, 60) == exactly(tmp_path, 60)
    assert through_graph(opened(tmp_path), 60) == exactly(tmp_path, 60)


def test_a_rebuild_that_a_write_overtakes_is_left_to_later_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its snapshot lacks what was written meanwhile."""
    index, other = written(tmp_path), opened(tmp_path)
    first = {each.id: each for each in rows(60)}
    with patch.object(index, "_keep_up"):
        index.delete(ACME, [f"r{number:04}" for number in range(40)])
    really = HnswGraph._rebuild_some
    steps: list[bool] = []

    def overtaken(self: HnswGraph, connection: object) -> bool:
        more = really(self, connection)  # type: ignore[arg-type] - passed on as it came
        steps.append(more)
        if len(steps) == 1:
            other.upsert([first["r0005"], first["r0006"]])
            with index._store.read() as later, monkeypatch.context() as patched:
                patched.setattr(HnswGraph, "_rebuild_some", really)
                self._follow(later, len(first["r0005"].embeddings[0].vector) // 4, 0)
        return more

    monkeypatch.setattr(HnswGraph, "_rebuild_some", overtaken)
    index.optimise(ACME)
    assert steps == [True]
    monkeypatch.setattr(HnswGraph, "_rebuild_some", really)
    index.optimise(ACME)
    assert through_graph(index, 60) == exactly(tmp_path, 60)
    assert through_graph(opened(tmp_path), 60) == exactly(tmp_path, 60)


def test_a_graph_beyond_the_log_is_compared_with_all_rows(
    tmp_path: Path, compared: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removed_vectors_log, "GENERATIONS_KEPT", 3)
    index = written(tmp_path)
    other = opened(tmp_path)
    through_graph(other)
    compared.clear()
    for number in range(5):
        index.delete(ACME, [f"r{number:04}"])
    assert through_graph(other) == exactly(tmp_path)
    assert "_compare" in compared
    compared.clear()
    assert through_graph(opened(tmp_path)) == exactly(tmp_path)
    assert compared == []
    with index._store.read() as connection:
        for table in ("record_generations", "removed_vectors"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] <= 3  # noqa: S608 - a table


def test_the_log_is_bounded_in_vectors_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few vectors that are replaced again and again would have a log that takes longer to read than they do."""
    monkeypatch.setattr(removed_vectors_log, "VECTORS_KEPT", 30)
    monkeypatch.setattr(removed_vectors_log, "_LOOKED_AFTER", 4)
    index = written(tmp_path)
    other = opened(tmp_path)
    for seed in range(25):
        if seed == 21:
            through_graph(other)
        index.upsert(rows(10, seed=seed + 5))
    with index._store.read() as connection:
        assert connection.execute("SELECT count(*) FROM removed_vectors").fetchone()[0] <= 30 + 4 * 10
    assert through_graph(other, 60) == through_graph(index, 60) == exactly(tmp_path, 60)


def test_a_tenant_without_records_has_no_log(tmp_path: Path) -> None:
    index = written(tmp_path)
    index.delete(ACME, [f"r{number:04}" for number in range(60)])
    with index._store.read() as connection:
        assert connection.execute("SELECT count(*) FROM removed_vectors").fetchone()[0] == 0
    index.upsert(rows(30, seed=5))
    assert through_graph(index, 60) == exactly(tmp_path, 60)


def test_of_many_removed_vectors_the_others_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where everything near a question was removed, the search goes on to what is farther away."""
    monkeypatch.setattr(hnsw_segments, "SIZE", 1_000)
    monkeypatch.setattr(hnsw_segments, "EXACT_VECTORS", 10)
    index = opened(tmp_path)
    index.upsert(rows(260))
    index.optimise(ACME)
    gone = exactly(tmp_path, 200)
    with patch.object(index, "_keep_up"):
        index.delete(ACME, gone)
    assert through_graph(index) == exactly(tmp_path)


def test_the_graph_of_an_older_store_is_compared_once(tmp_path: Path, compared: list[str]) -> None:
    index = written(tmp_path)
    index.delete(ACME, ["r0007"])
    with index._store.transaction() as connection:
        to_format(connection, 14)
    index._store.close()
    (manifest,) = (tmp_path / "vectors").glob("*.json")
    older = {name: part for name, part in json.loads(manifest.read_text()).items() if name not in {"crc32", "position"}}
    manifest.write_text(json.dumps(older))
    compared.clear()
    assert through_graph(opened(tmp_path)) == exactly(tmp_path)
    assert "_compare" in compared
    compared.clear()
    assert through_graph(opened(tmp_path)) == exactly(tmp_path)
    assert compared == []


def test_a_segment_whose_file_another_process_replaced_is_saved_and_then_added_to(tmp_path: Path) -> None:
    written(tmp_path)
    index, other = opened(tmp_path), opened(tmp_path)
    assert through_graph(index) == through_graph(other)
    other.upsert(rows(2, seed=3, first=100))
    other.optimise(ACME)
    index.delete(ACME, ["r0001", "r0009"])
    assert through_graph(index) == exactly(tmp_path)
    index.upsert(rows(9, seed=4, first=200))
    assert through_graph(index, 80) == exactly(tmp_path, 80)
    assert through_graph(opened(tmp_path), 80) == exactly(tmp_path, 80)


def test_rows_of_a_restored_database_are_found_whose_numbers_the_graph_had_for_others(tmp_path: Path) -> None:
    index = written(tmp_path)
    index._store.close()
    names = [path.name for path in tmp_path.glob("braid.db*")]
    copy = {name: (tmp_path / name).read_bytes() for name in names}
    index = opened(tmp_path)
    index.delete(ACME, [each.id for each in rows(60)])
    index.upsert(rows(60))  # equal vectors, in rows with greater numbers
    index.optimise(ACME)
    index._store.close()
    for name, content in copy.items():
        (tmp_path / name).write_bytes(content)
    index = opened(tmp_path)
    for number in range(4):
        index.upsert([record(f"without a vector {number}")])
    assert through_graph(index) == exactly(tmp_path)
    index.upsert(rows(5, seed=3, first=100))
    assert through_graph(index, 80) == exactly(tmp_path, 80)
    assert through_graph(opened(tmp_path), 80) == exactly(tmp_path, 80)


def test_a_process_that_only_searches_maps_what_writers_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And reads of the files only those that are new."""
    monkeypatch.setattr(hnsw_graph, "MAX_TAIL", 24)
    index, reader = written(tmp_path), opened(tmp_path)
    through_graph(reader)
    (graph,) = reader._graphs.values()
    read: list[str] = []
    added: list[int] = []
    really = hnsw_segments.Segment.read

    def watched(folder: Path, stem: str, entry: SegmentFile, dimension: int) -> hnsw_segments.Segment:
        read.append(entry.file)
        return really(folder, stem, entry, dimension)

    monkeypatch.setattr(hnsw_segments.Segment, "read", watched)
    monkeypatch.setattr(graph, "_flush", lambda: added.append(len(graph._tail)))
    for number in range(100, 160):
        index.upsert(rows(1, seed=number, first=number))
        index.delete(ACME, [f"r{number - 90:04}"])
        assert through_graph(reader) == exactly(tmp_path)
    assert added == []
    assert len(read) == len(set(read))
    assert read


def test_older_snapshots_now_and_then_have_no_graph_built_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Only one that stays newer than all snapshots is of a database that was restored."""
    index, other = written(tmp_path), opened(tmp_path)
    through_graph(other)
    (graph,) = other._graphs.values()
    for seed in range(4):
        with other._store.read() as connection:
            connection.execute("SELECT count(*) FROM records").fetchone()
            index.upsert(rows(10, seed=seed + 5, first=100 * seed))
            index.optimise(ACME)
            graph._reset(0)  # as when its file was changed
            assert graph.nearest(connection, np.frombuffer(QUESTION, "<f4"), 5) is None
        assert through_graph(other) == exactly(tmp_path)
    assert "built again" not in caplog.text
