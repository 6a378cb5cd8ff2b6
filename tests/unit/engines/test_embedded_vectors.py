"""The saved vector indexes: copies of the rows that may be stale, damaged or gone without anyone noticing."""

from __future__ import annotations

import json
import logging
import random
import shutil
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest
from braid.engines.embedded.search import hnsw_files, knn
from braid.engines.embedded.search.hnsw_graph import HnswGraph
from braid.engines.embedded.search.hnsw_segments import Segment, Tail
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.engines.embedded.store import EmbeddedStore
from braid.models import Filters
from braid.ports.search_index import SearchRequest

from tests.contract.shapes import ACME, AS_OF, DIMENSIONS, SPACE, embedding, random_vector, record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from braid.engines.embedded.search.hnsw_segments import Keys
    from braid.models import Record

QUESTION = random_vector(random.Random(1))  # noqa: S311 - a fixed sequence, no secret


def rows(count: int, *, seed: int = 0, first: int = 0) -> list[Record]:
    generator = random.Random(seed)  # noqa: S311 - a fixed sequence
    return [
        record(f"r{number:04}", embeddings=(embedding(random_vector(generator)),))
        for number in range(first, first + count)
    ]


def opened(folder: Path) -> EmbeddedSearchIndex:
    """Open the store as another process would, always through the graph."""
    return EmbeddedSearchIndex(EmbeddedStore(folder), DIMENSIONS, exact_rows=0)


def through_graph(index: EmbeddedSearchIndex, k: int = 20) -> list[str]:
    request = SearchRequest(tenant_id=ACME, embedding=embedding(QUESTION), k=k, as_of=AS_OF)
    return [hit.id for hit in index.search(request).vector]


def exactly(folder: Path, k: int = 20) -> list[str]:
    with EmbeddedStore(folder) as store:
        return through_graph(EmbeddedSearchIndex(store, DIMENSIONS, exact_rows=1_000_000), k)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Give a folder with 400 vectors and their saved graph."""
    with EmbeddedStore(tmp_path / "home") as store:
        index = EmbeddedSearchIndex(store, DIMENSIONS)
        index.upsert(rows(400))
        index.optimise(ACME)
    assert len(list((tmp_path / "home" / "vectors").iterdir())) == 2
    return tmp_path / "home"


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Record from which vector number on rows are added to a graph; 0 is from the beginning."""
    since: list[int] = []
    really = HnswGraph._add_since

    def watched(self: HnswGraph, connection: object, number: int, most_in_tail: int) -> None:
        since.append(number)
        really(self, connection, number, most_in_tail)

    monkeypatch.setattr(HnswGraph, "_add_since", watched)
    return since


def test_a_saved_graph_is_read_rather_than_built(saved: Path, added: list[int]) -> None:
    assert through_graph(opened(saved)) == exactly(saved)
    assert 0 not in added


def test_a_graph_that_is_behind_catches_up(saved: Path, added: list[int]) -> None:
    writer = opened(saved)
    writer.upsert(rows(50, seed=7, first=1_000))
    writer.delete(ACME, through_graph(writer, 3))
    added.clear()
    assert through_graph(opened(saved)) == exactly(saved)
    assert added == [400]


@pytest.mark.parametrize("part", [Tail, Segment])
def test_a_graph_whose_update_was_interrupted_finds_everything(
    saved: Path, monkeypatch: pytest.MonkeyPatch, part: type[Tail] | type[Segment]
) -> None:
    def interrupted(self: Tail | Segment, keys: Keys, _vectors: object) -> None:
        if isinstance(self, Tail):
            self._keys = np.concatenate((self._keys, keys))
        raise KeyboardInterrupt

    index = opened(saved)
    through_graph(index)
    index.upsert(rows(50, seed=7, first=1_000))
    with monkeypatch.context() as patched:
        patched.setattr(part, "add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            index.optimise(ACME)
    assert through_graph(index) == exactly(saved)


def test_a_graph_that_only_lost_vectors_catches_up(saved: Path) -> None:
    best = exactly(saved, 5)
    opened(saved).delete(ACME, best)
    found = through_graph(opened(saved))
    assert found == exactly(saved)
    assert not set(best) & set(found)


def test_a_segment_of_mostly_removed_vectors_is_given_up(saved: Path) -> None:
    (path,) = (saved / "vectors").glob("*.usearch")
    before = path.stat().st_size
    index = opened(saved)
    index.delete(ACME, [f"r{number:04}" for number in range(200)])
    assert through_graph(index) == exactly(saved)
    index.optimise(ACME)
    (after,) = (saved / "vectors").glob("*.usearch")
    assert after.stat().st_size < before
    assert through_graph(opened(saved)) == exactly(saved)


def test_vectors_written_again_are_not_found_twice(saved: Path) -> None:
    index = opened(saved)
    for seed in (1, 2, 3):
        index.upsert(rows(400, seed=seed))
        found = through_graph(index, 100)
        assert len(set(found)) == 100
        assert found[:20] == exactly(saved)


def test_records_written_again_unchanged_leave_the_graph_alone(saved: Path, added: list[int]) -> None:
    index = opened(saved)
    index.upsert(rows(400))
    assert through_graph(index) == exactly(saved)
    assert added == [400]


def test_many_equal_vectors_do_not_hide_the_others(tmp_path: Path) -> None:
    same = [record(f"same{number:04}", cosine=0.5) for number in range(600)]
    with EmbeddedStore(tmp_path) as store:
        index = EmbeddedSearchIndex(store, DIMENSIONS, exact_rows=0)
        index.upsert([*same, *rows(50)])
        index.upsert([record("best", embeddings=(embedding(QUESTION),))])
        for k in (1, 20, 200):
            assert through_graph(index, k) == exactly(tmp_path, k)
        index.delete(ACME, [each.id for each in same[:300]])
        assert through_graph(index, 200) == exactly(tmp_path, 200)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1_000])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("damage", [flip, truncate, empty, remove])
@pytest.mark.parametrize("suffix", [".usearch", ".json"])
def test_a_damaged_file_is_built_again(
    saved: Path, damage: object, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hnsw_files, "_ABANDONED_S", -1)
    (path,) = (saved / "vectors").glob(f"*{suffix}")
    assert callable(damage)
    damage(path)
    index = opened(saved)
    assert through_graph(index) == exactly(saved)
    index.optimise(ACME)
    assert len(list((saved / "vectors").iterdir())) == 2


def test_damage_is_logged(saved: Path, caplog: pytest.LogCaptureFixture) -> None:
    (path,) = (saved / "vectors").glob("*.usearch")
    flip(path)
    with caplog.at_level(logging.WARNING):
        through_graph(opened(saved))
    assert "is damaged and is built again" in caplog.text


@pytest.mark.parametrize("content", ["[]", "null", '{"format": 1}', "{", '"x"'])
def test_a_description_of_another_shape_is_not_believed(saved: Path, content: str) -> None:
    (path,) = (saved / "vectors").glob("*.json")
    path.write_text(content)
    assert through_graph(opened(saved)) == exactly(saved)


def test_a_file_outside_the_folder_is_not_read(saved: Path, added: list[int]) -> None:
    (path,) = (saved / "vectors").glob("*.json")
    said = json.loads(path.read_text())
    (segment,) = said["segments"]
    stem = path.stem
    (saved / "vectors" / f"{stem}-x").mkdir()
    shutil.move(str(saved / "vectors" / segment["file"]), saved / "elsewhere")
    for name in ("../elsewhere", f"{stem}-x/../../elsewhere"):
        path.write_text(json.dumps({**said, "segments": [{**segment, "file": name}]}))
        added.clear()
        assert through_graph(opened(saved)) == exactly(saved)
        assert added == [0]


def test_another_store_s_graph_is_not_believed(saved: Path, tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path / "other") as store:
        EmbeddedSearchIndex(store, DIMENSIONS).upsert(rows(400, seed=99))
    shutil.copytree(saved / "vectors", tmp_path / "other" / "vectors")
    assert through_graph(opened(tmp_path / "other")) == exactly(tmp_path / "other")


def test_a_graph_that_cannot_be_saved_is_still_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedStore(tmp_path) as store:
        index = EmbeddedSearchIndex(store, DIMENSIONS, exact_rows=0)
        index.upsert(rows(300))
        (tmp_path / "vectors").write_text("in the way")
        with caplog.at_level(logging.WARNING):
            index.optimise(ACME)
        assert "was not saved" in caplog.text
        assert through_graph(index) == exactly(tmp_path)


def test_what_is_not_committed_does_not_enter_the_graph(saved: Path) -> None:
    index = opened(saved)
    store = index._store
    before = through_graph(index)
    with store.transaction():
        index.upsert([record("best", embeddings=(embedding(QUESTION),))])
        assert through_graph(index)[0] == "best"
        other = opened(saved)
        assert through_graph(other) == before
    assert through_graph(index)[0] == through_graph(other)[0] == "best"


def test_a_reader_of_an_earlier_moment_finds_what_was_there_then(saved: Path) -> None:
    """A reader whose snapshot is older than the graph must not lose rows that were replaced since."""
    index = opened(saved)
    store = index._store
    expected = through_graph(index)
    with store.read() as earlier:
        earlier.execute("SELECT count(*) FROM records").fetchone()  # the snapshot begins with the first read
        index.upsert([record(name) for name in expected[:10]])
        assert through_graph(index)[:10] == expected[10:20]
        graph = index._hnsw_graph(store.tenant_number(earlier, ACME) or 0, SPACE)
        nearest = graph.nearest(earlier, knn.np.frombuffer(QUESTION, dtype="<f4"), 20)
        assert nearest is not None
        found = earlier.execute(
            "SELECT r.id FROM json_each(?) AS n JOIN vectors AS v ON v.key = n.value JOIN records AS r"
            " ON r.number = v.record ORDER BY n.key",
            (json.dumps(nearest.keys),),
        )
        assert [row[0] for row in found] == expected
        graph._removals.clear()  # as after many more writes
        assert graph.nearest(earlier, knn.np.frombuffer(QUESTION, dtype="<f4"), 5) is None


def test_vectors_that_a_graph_s_rounding_mixes_up_are_ranked_as_stored(tmp_path: Path) -> None:
    """A graph keeps half the digits: of equally near proposals the later ones must be looked at as well."""
    question = knn.np.frombuffer(QUESTION, dtype="<f4").astype("f8")
    generator = knn.np.random.default_rng(5)
    records = []
    for number in range(90):
        aside = generator.normal(size=len(question))
        aside -= (aside @ question) * question
        cosine = 0.9 + 2e-6 * number
        vector = cosine * question + (1 - cosine**2) ** 0.5 * aside / knn.np.linalg.norm(aside)
        records.append(record(f"r{number:02}", embeddings=(embedding(vector.astype("<f4").tobytes()),)))
    opened(tmp_path).upsert(records)
    assert through_graph(opened(tmp_path)) == exactly(tmp_path)


def test_a_store_answers_the_same_whatever_order_and_threads_wrote_it(tmp_path: Path) -> None:
    """Near-copies, which the edges of a graph lose and its rounding mixes up."""
    generator = knn.np.random.default_rng(7)
    heads = generator.normal(size=(6, len(QUESTION) // 4))
    vectors = heads[generator.integers(6, size=1_500)] + 1e-4 * generator.normal(size=(1_500, heads.shape[1]))
    records = [
        record(f"r{number:04}", embeddings=(embedding(vector.astype("<f4").tobytes()),))
        for number, vector in enumerate(vectors)
    ]
    opened(tmp_path / "one").upsert(records)
    other = opened(tmp_path / "other")
    generator.shuffle(records)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(other.upsert, (records[start : start + 100] for start in range(0, 1_500, 100))))
    for head in (*heads, *generator.normal(size=heads.shape)):
        request = SearchRequest(tenant_id=ACME, embedding=embedding(head.astype("<f4").tobytes()), k=50, as_of=AS_OF)
        assert opened(tmp_path / "one").search(request) == other.search(request)


def test_all_vectors_of_a_tenant_are_compared_a_few_at_a_time() -> None:
    count, length = 20_000, 1_024
    tracemalloc.start()
    try:
        scored = knn._score(((f"r{number}", 1, 0, bytes(4 * length)) for number in range(count)), knn.np.ones(length))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (len(scored.ids), len(scored.cosines)) == (count, count)
    assert peak < count * 4 * length / 2


@pytest.mark.parametrize("exact_rows", [0, 50, 10_000])
def test_few_or_many_survivors_of_a_filter_are_all_found(tmp_path: Path, exact_rows: int) -> None:
    generator = random.Random(3)  # noqa: S311 - a fixed sequence
    records = [
        record(
            f"r{number:04}",
            entity_type="Rare" if number % 100 == 0 else "Common",
            embeddings=(embedding(random_vector(generator)),),
        )
        for number in range(1_000)
    ]
    with EmbeddedStore(tmp_path) as store:
        index = EmbeddedSearchIndex(store, DIMENSIONS, exact_rows=exact_rows)
        index.upsert(records)
        for entity_type, count in (("Rare", 10), ("Common", 50)):
            request = SearchRequest(
                tenant_id=ACME,
                embedding=embedding(QUESTION),
                k=50,
                as_of=AS_OF,
                filters=Filters(entity_types=(entity_type,)),
            )
            assert len(index.search(request).vector) == count
