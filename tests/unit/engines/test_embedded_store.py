"""The embedded store's one file: transactions, several readers and writers, and disks that misbehave."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from braid.engines.embedded import store as store_module
from braid.engines.embedded.cache_schemas_jobs_members import EmbeddedJobStore, EmbeddedSchemaRegistry
from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph
from braid.engines.embedded.search import row_reads
from braid.engines.embedded.search.filters import to_sql
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.engines.embedded.store import EmbeddedStore
from braid.errors import (
    InvalidRequest,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    TransientStoreError,
)
from braid.models import Filters
from braid.ports.knowledge_graph import ExpandRequest, GraphStats
from braid.ports.reembedding import JobRecord
from braid.ports.schema_registry import SchemaVersion
from braid.ports.search_index import IndexStats, SearchRequest

from tests.contract.shapes import ACME, AS_OF, AXIS, DIMENSIONS, GLOBEX, day, edge, embedding, record, vertex

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = 65_534


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    with EmbeddedStore(tmp_path / "home") as opened:
        yield opened


def found(store: EmbeddedStore, word: str = "turbine") -> list[str]:
    request = SearchRequest(tenant_id=ACME, text=word, embedding=embedding(AXIS), k=10, as_of=AS_OF)
    hits = EmbeddedSearchIndex(store, DIMENSIONS).search(request)
    assert {hit.id for hit in hits.vector} == {hit.id for hit in hits.lexical}
    return sorted(hit.id for hit in hits.vector)


def reached(graph: EmbeddedKnowledgeGraph, seed: str = "a") -> list[str]:
    hits = graph.expand(ExpandRequest(tenant_id=ACME, seeds=(seed,), as_of=AS_OF)).hits
    return [hit.id for hit in hits]


def test_records_graph_and_job_are_written_together(store: EmbeddedStore) -> None:
    index, graph = EmbeddedSearchIndex(store, DIMENSIONS), EmbeddedKnowledgeGraph(store)
    with store.transaction():
        index.upsert([record("a", "turbine", cosine=0.5)])
        graph.upsert([vertex("a"), vertex("b")], [edge("a", "b")])
        EmbeddedJobStore(store).put(JobRecord(name="corpus", revision=1, body="sha256"))
    assert found(store) == ["a"]
    assert reached(graph) == ["b"]
    assert EmbeddedJobStore(store).get("corpus") == JobRecord(name="corpus", revision=1, body="sha256")


def test_a_transaction_that_fails_leaves_nothing(store: EmbeddedStore) -> None:
    index, graph = EmbeddedSearchIndex(store, DIMENSIONS), EmbeddedKnowledgeGraph(store)

    def ingest() -> None:
        with store.transaction():
            index.upsert([record("a", "turbine", cosine=0.5)])
            EmbeddedJobStore(store).put(JobRecord(name="corpus", revision=1, body="sha256"))
            graph.upsert([vertex("a")], [edge("a", "missing")])

    with pytest.raises(InvalidRequest):
        ingest()
    assert index.stats(ACME) == IndexStats()
    assert graph.stats(ACME) == GraphStats()
    assert EmbeddedJobStore(store).get("corpus") is None
    assert store.tenants() == []
    index.upsert([record("a", "turbine", cosine=0.5)])
    assert found(store) == ["a"]


def test_an_inner_failure_that_is_caught_undoes_the_whole_transaction(store: EmbeddedStore) -> None:
    index, graph = EmbeddedSearchIndex(store, DIMENSIONS), EmbeddedKnowledgeGraph(store)

    def go_on(*, write: bool) -> None:
        with store.transaction():
            index.upsert([record("a", "turbine", cosine=0.5)])
            with pytest.raises(InvalidRequest):
                graph.upsert([vertex("a")], [edge("a", "missing")])
            if write:
                EmbeddedJobStore(store).put(JobRecord(name="state", revision=1, body="lost"))

    for write in (True, False):
        with pytest.raises(StoreError, match="failed before"):
            go_on(write=write)
    assert index.stats(ACME) == IndexStats()
    assert graph.stats(ACME) == GraphStats()
    assert EmbeddedJobStore(store).get("state") is None
    index.upsert([record("a", "turbine", cosine=0.5)])
    assert found(store) == ["a"]


def test_a_transaction_sees_what_it_wrote_and_others_do_not(store: EmbeddedStore) -> None:
    index, graph = EmbeddedSearchIndex(store, DIMENSIONS, exact_rows=0), EmbeddedKnowledgeGraph(store)
    with EmbeddedStore(store.folder) as other, store.transaction():
        index.upsert([record("a", "turbine", cosine=0.5)])
        graph.upsert([vertex("a"), vertex("b")], [edge("a", "b")])
        assert found(store) == ["a"]
        assert reached(graph) == ["b"]
        assert index.stats(ACME).records == 1
        assert found(other) == []
        assert EmbeddedSearchIndex(other, DIMENSIONS).stats(ACME) == IndexStats()


def test_what_was_undone_is_not_remembered(store: EmbeddedStore) -> None:
    index, graph = EmbeddedSearchIndex(store, DIMENSIONS, exact_rows=0), EmbeddedKnowledgeGraph(store)
    index.upsert([record("a", "turbine", cosine=0.1)])
    graph.upsert([vertex("a"), vertex("b"), vertex("c")], [])
    request = SearchRequest(tenant_id=ACME, embedding=embedding(AXIS), k=1, as_of=AS_OF)

    def write_and_fail() -> None:
        with store.transaction():
            index.upsert([record("undone", "turbine", cosine=1.0)])
            graph.upsert([], [edge("a", "b")])
            assert [hit.id for hit in index.search(request).vector] == ["undone"]
            assert reached(graph) == ["b"]
            assert index.stats(ACME).records == 2
            message = "stop"
            raise RuntimeError(message)

    with pytest.raises(RuntimeError, match="stop"):
        write_and_fail()
    # The same numbers and generations are now used for other content.
    index.upsert([record("z", "turbine", cosine=0.9)])
    graph.upsert([], [edge("a", "c")])
    assert [hit.id for hit in index.search(request).vector] == ["z"]
    assert reached(graph) == ["c"]
    assert index.stats(ACME).records == 2


def test_another_process_s_writes_are_seen(store: EmbeddedStore) -> None:
    """Two opened stores share nothing but the file, as two processes would."""
    with EmbeddedStore(store.folder) as other:
        index, theirs = (
            EmbeddedSearchIndex(store, DIMENSIONS, exact_rows=0),
            EmbeddedSearchIndex(other, DIMENSIONS, exact_rows=0),
        )
        graph, their_graph = EmbeddedKnowledgeGraph(store), EmbeddedKnowledgeGraph(other)
        request = SearchRequest(tenant_id=ACME, embedding=embedding(AXIS), k=10, as_of=AS_OF)
        graph.upsert([vertex("a"), vertex("b"), vertex("c")], [edge("a", "b")])
        index.upsert([record("a", cosine=0.5)])
        assert (reached(graph), reached(their_graph)) == (["b"], ["b"])
        assert [hit.id for hit in theirs.search(request).vector] == ["a"]
        graph.upsert([], [edge("a", "c")])
        index.upsert([record("b", cosine=0.9)])
        index.delete(ACME, ["a"])
        assert reached(their_graph) == ["b", "c"]
        assert [hit.id for hit in theirs.search(request).vector] == ["b"]
        assert theirs.stats(ACME).records == 1
        assert their_graph.stats(ACME).edges == 2


def test_a_writer_that_waits_too_long_may_try_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "BUSY_TIMEOUT_MS", 20)
    with EmbeddedStore(tmp_path) as mine, EmbeddedStore(tmp_path) as theirs:
        index = EmbeddedSearchIndex(mine, DIMENSIONS)
        with theirs.transaction(), pytest.raises(TransientStoreError, match="locked"):
            index.upsert([record("a", "turbine", cosine=0.5)])
        index.upsert([record("a", "turbine", cosine=0.5)])
        assert found(theirs) == ["a"]


def test_tenants_are_those_with_a_record_or_a_vertex(store: EmbeddedStore) -> None:
    assert store.tenants() == []
    EmbeddedKnowledgeGraph(store).upsert([vertex("a", tenant_id=GLOBEX)], [])
    EmbeddedSearchIndex(store, DIMENSIONS).upsert([record("a")])
    assert store.tenants() == [ACME, GLOBEX]
    EmbeddedSearchIndex(store, DIMENSIONS).delete(ACME, ["a"])
    assert store.tenants() == [GLOBEX]


def test_everything_is_there_after_opening_again(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path) as first:
        EmbeddedSearchIndex(first, DIMENSIONS).upsert([record("a", "turbine", cosine=0.5)])
        EmbeddedKnowledgeGraph(first).upsert([vertex("a"), vertex("b")], [edge("a", "b")])
        EmbeddedSchemaRegistry(first).register(SchemaVersion(tenant_id=ACME, version=2, created_at=day(1)))
    with EmbeddedStore(tmp_path) as second:
        assert found(second) == ["a"]
        assert reached(EmbeddedKnowledgeGraph(second)) == ["b"]
        assert EmbeddedSchemaRegistry(second).current(ACME) == 2


def test_a_store_that_several_make_at_once_is_one(tmp_path: Path) -> None:
    def make_and_write(number: int) -> str:
        with EmbeddedStore(tmp_path / "home") as store:
            EmbeddedSearchIndex(store, DIMENSIONS).upsert([record(f"r{number}", "turbine", cosine=0.5)])
            return store.identity

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(make_and_write, range(8)))) == 1
    with EmbeddedStore(tmp_path / "home") as store:
        assert found(store) == [f"r{number}" for number in range(8)]


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path)
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.tenants()


def test_a_vector_without_a_direction_is_refused(store: EmbeddedStore) -> None:
    for vector in (bytes(32), b"\x00\x00\xc0\x7f" * 8, b"\x00\x00\x80\x7f" * 8):
        with pytest.raises(InvalidRequest, match=r"record bad .*small-space") as caught:
            EmbeddedSearchIndex(store, DIMENSIONS).upsert(
                [record("good"), record("bad", embeddings=(embedding(vector),))]
            )
        assert caught.value.field == "embeddings"
    assert store.tenants() == []


def test_a_full_disk_is_named_and_nothing_is_half_written(store: EmbeddedStore) -> None:
    index = EmbeddedSearchIndex(store, DIMENSIONS)
    index.upsert([record("old", "turbine", cosine=0.5)])
    with store.transaction() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 20}")
    big = [record(f"new{number}", "turbine " + "x" * 100_000, cosine=0.9) for number in range(10)]
    with pytest.raises(StoreFull, match=r"no space left.*BRAID_HOME"):
        index.upsert(big)
    assert found(store) == ["old"]
    assert index.stats(ACME).records == 1
    with store.transaction() as connection:
        connection.execute("PRAGMA max_page_count = 1000000")
    index.upsert(big)
    assert index.stats(ACME).records == 11


def test_a_write_that_fills_the_disk_inside_a_transaction_undoes_all_of_it(store: EmbeddedStore) -> None:
    index = EmbeddedSearchIndex(store, DIMENSIONS)
    index.upsert([record("first", "turbine", cosine=0.5)])

    def fill() -> None:
        with store.transaction() as connection:
            index.upsert([record("second", "turbine", cosine=0.5)])
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages + 5}")
            index.upsert([record("small", "turbine", cosine=0.5), record("big", "turbine " + "x" * 1_000_000)])

    with pytest.raises(StoreFull):
        fill()
    assert found(store) == ["first"]
    assert [row.id for row in index.get_many(ACME, ["first", "second", "small", "big"])] == ["first"]


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "braid.db").write_bytes(b"this is no database, and long enough to be looked at" * 100)
    with pytest.raises(StoreCorrupt, match=r"braid\.db is damaged"):
        EmbeddedStore(tmp_path)


def test_a_damaged_page_is_named(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path) as store:
        rows = [record(f"r{number}", f"turbine {number} " + "x" * 3_000) for number in range(50)]
        EmbeddedSearchIndex(store, DIMENSIONS).upsert(rows)
    path = tmp_path / "braid.db"
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)

    def read() -> None:
        with EmbeddedStore(tmp_path) as store:
            EmbeddedSearchIndex(store, DIMENSIONS).get_many(ACME, [row.id for row in rows])

    with pytest.raises(StoreCorrupt, match="ingest again"):
        read()


def test_a_store_that_a_newer_braid_upgrades_while_it_is_open_is_left_alone(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path) as store:
        connection = sqlite3.connect(tmp_path / "braid.db")
        connection.execute("PRAGMA user_version = 99")
        connection.close()
        with pytest.raises(StoreError, match=r"format 99, .* and start again"), store.transaction():
            pass
        with pytest.raises(StoreError, match=r"format 99, .* and start again"), store.read():
            pass


def test_a_store_of_a_newer_format_is_left_alone(tmp_path: Path) -> None:
    EmbeddedStore(tmp_path).close()
    connection = sqlite3.connect(tmp_path / "braid.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="format 99"):
        EmbeddedStore(tmp_path)


def test_reading_where_nothing_was_stored_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"braid\.db does not exist"):
        EmbeddedStore(tmp_path / "nowhere", read_only=True)
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("not a folder")
    with pytest.raises(StoreError, match="home"):
        EmbeddedStore(tmp_path / "home")


def test_a_store_opened_for_reading_is_searched_but_not_written(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path) as store:
        EmbeddedSearchIndex(store, DIMENSIONS).upsert([record("a", "turbine", cosine=0.5)])
    with EmbeddedStore(tmp_path, read_only=True) as store:
        assert found(store) == ["a"]
        with pytest.raises(StoreReadOnly, match=r"braid\.db.*reading only"):
            EmbeddedSearchIndex(store, DIMENSIONS).upsert([record("b")])
        with pytest.raises(StoreReadOnly):
            EmbeddedKnowledgeGraph(store).upsert([vertex("b")], [])
        with pytest.raises(StoreReadOnly):
            EmbeddedJobStore(store).put(JobRecord(name="key", revision=1, body="value"))


@pytest.fixture
def ordinary_folder() -> Iterator[Path]:
    """Give a folder outside of pytest's own, which another user may not enter, and drop root's rights for the test."""
    folder = Path(tempfile.mkdtemp(prefix="braid-test-"))
    folder.chmod(0o777)
    root = os.geteuid() == 0
    if root:
        os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield folder
    finally:
        if root:
            os.setresuid(0, 0, 0)
        folder.chmod(0o777)
        shutil.rmtree(folder)


def test_a_folder_that_cannot_be_written_is_still_searched(ordinary_folder: Path) -> None:
    home = ordinary_folder / "home"
    with EmbeddedStore(home) as store:
        EmbeddedSearchIndex(store, DIMENSIONS).upsert([record("a", "turbine", cosine=0.5)])
        EmbeddedKnowledgeGraph(store).upsert([vertex("a"), vertex("b")], [edge("a", "b")])
        assert found(store) == ["a"]
        assert reached(EmbeddedKnowledgeGraph(store)) == ["b"]
    (home / "braid.db").chmod(0o444)
    home.chmod(0o555)
    try:
        with EmbeddedStore(home) as store:
            assert store.read_only
            assert found(store) == ["a"]
            assert reached(EmbeddedKnowledgeGraph(store)) == ["b"]
            with pytest.raises(StoreReadOnly, match="writable"):
                EmbeddedSearchIndex(store, DIMENSIONS).upsert([record("b")])
    finally:
        home.chmod(0o755)


def test_a_store_cannot_be_made_in_a_folder_that_cannot_be_written(ordinary_folder: Path) -> None:
    home = ordinary_folder / "home"
    home.mkdir()
    home.chmod(0o555)
    for folder in (home, home / "deeper"):
        with pytest.raises(StoreReadOnly, match="cannot be written"):
            EmbeddedStore(folder)
    home.chmod(0o755)


def test_a_log_that_cannot_be_replayed_is_not_ignored(ordinary_folder: Path) -> None:
    """What is acknowledged may stand in the log alone; reading past it would lose that."""
    home, copy = ordinary_folder / "home", ordinary_folder / "copy"
    with EmbeddedStore(home) as store:
        EmbeddedSearchIndex(store, DIMENSIONS).upsert([record("a", "turbine", cosine=0.5)])
        copy.mkdir()
        for name in ("braid.db", "braid.db-wal"):  # as a process that was killed leaves them
            shutil.copy(home / name, copy / name)
    copy.chmod(0o555)
    try:
        with pytest.raises(StoreReadOnly, match="unfinished log"):
            EmbeddedStore(copy)
    finally:
        copy.chmod(0o755)
    with EmbeddedStore(copy) as store:
        assert found(store) == ["a"]


def test_conditions_are_asked_once_however_many_fields_values_are_counted_of(store: EmbeddedStore) -> None:
    """In instructions of SQLite's machine, which are the same on every machine."""
    fields = {f"field {number}": 1 for number in range(8)}
    EmbeddedSearchIndex(store, DIMENSIONS).upsert([record(f"r{at}", metadata={**fields, "n": at}) for at in range(300)])
    conditions = Filters(metadata={"n": {"none_of": list(range(100, 200)), "gte": 3, "lt": 298}})

    def steps(counted: list[str]) -> int:
        done: list[int] = []
        with store.read() as connection:
            tenant = store.tenant_number(connection, ACME)
            assert tenant is not None
            row_filter = to_sql(SearchRequest(tenant_id=ACME, k=1, as_of=AS_OF, filters=conditions), tenant)
            connection.set_progress_handler(lambda: done.append(1), 20)
            try:
                values = row_reads.count_values(connection, row_filter, counted)
            finally:
                connection.set_progress_handler(None, 0)
        assert [[one.count for one in each] for each in values.values()] == [[195]] * len(counted)
        return len(done)

    assert steps(list(fields)) < 5 * steps(list(fields)[:1])
