"""A store with a rollback journal, as a function keeps it on a network's file system: one process after another."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.engines.embedded.store import EmbeddedStore
from braid.errors import StoreError, StoreReadOnly, TransientStoreError
from braid.ports.search_index import SearchRequest
from braid.settings import Journal

from tests.contract.shapes import ACME, AS_OF, DIMENSIONS, record

if TYPE_CHECKING:
    import sqlite3

ROOT = Path(__file__).parents[3]
ENVIRONMENT = """
import sys, threading, time
from pathlib import Path
from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph
from braid.engines.embedded.cache_schemas_jobs_members import EmbeddedCache
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.engines.embedded.store import EmbeddedStore
from braid.ports.search_index import SearchRequest
from braid.settings import Journal
from tests.contract.shapes import ACME, AS_OF, AXIS, DIMENSIONS, edge, embedding, record, vertex

store = EmbeddedStore(Path(sys.argv[1]), journal=Journal.PERSIST)
index = EmbeddedSearchIndex(store, DIMENSIONS, exact_rows=0)
graph, cache = EmbeddedKnowledgeGraph(store), EmbeddedCache(store)

def behind():  # as what adds the uses of records, whenever it comes
    number = 0
    while True:
        cache.put(ACME, f"behind{number % 7}", b"x" * 20_000, 60)
        number += 1
        time.sleep(0.02)

store.pause(wait_s=5)
threading.Thread(target=behind, daemon=True).start()
print("open", flush=True)
for number in map(int, sys.stdin):
    store.resume()
    found = index.search(SearchRequest(tenant_id=ACME, text="turbine", k=100, as_of=AS_OF)).lexical
    near = index.search(SearchRequest(tenant_id=ACME, embedding=embedding(AXIS), k=100, as_of=AS_OF)).vector
    vertices = graph.stats(ACME).vertices
    with store.transaction():
        index.upsert([record(f"r{number}", "turbine " + "text " * 500, cosine=0.5 + number / 1000)])
        graph.upsert([vertex(f"r{number}")], [])
    assert store.pause(wait_s=10)
    print(len(found), len(near), vertices, flush=True)
"""


def store_of(folder: Path) -> EmbeddedStore:
    return EmbeddedStore(folder, journal=Journal.PERSIST)


def fill(connection: sqlite3.Connection) -> None:
    """Write more than is kept in memory, so that the file is changed before the commit."""
    connection.execute("PRAGMA cache_size = 10")
    connection.executemany("INSERT INTO notes VALUES (?, 1, ?)", [(f"n{at}", "x" * 5_000) for at in range(200)])


class Environment:
    """A process that answers one request at a time, and is frozen between two."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(  # noqa: S603 - this interpreter and the text above
            [sys.executable, "-c", ENVIRONMENT, str(folder)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._said() == "open"
        self.freeze()

    def _said(self) -> str:
        out: IO[str] | None = self.process.stdout
        assert out is not None
        return out.readline().strip()

    def freeze(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def begin(self, number: int) -> None:
        os.kill(self.process.pid, signal.SIGCONT)
        assert self.process.stdin is not None
        self.process.stdin.write(f"{number}\n")
        self.process.stdin.flush()

    def ask(self, number: int) -> set[int]:
        """Have it read, then write a record, and return how many records, vectors and vertices it read."""
        self.begin(number)
        counts = {int(count) for count in self._said().split()}
        self.freeze()
        return counts

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def test_two_environments_that_take_turns_read_one_anothers_writes_and_damage_nothing(tmp_path: Path) -> None:
    """As around a deployment: one is frozen while the other answers, and some are killed while they write."""
    chance = random.Random(20)  # noqa: S311 - no secret
    environments = [Environment(tmp_path), Environment(tmp_path)]
    written, begun = 0, 0
    try:
        for number in range(30):
            at = chance.randrange(2)
            if chance.random() < 0.25:
                environments[at].begin(number)
                begun += 1
                with suppress(subprocess.TimeoutExpired):
                    environments[at].process.wait(chance.uniform(0, 0.08))
                environments[at].kill()
                environments[at] = Environment(tmp_path)
                continue
            (found,) = environments[at].ask(number)
            assert written <= found <= written + begun
            written, begun = found + 1, 0
    finally:
        for environment in environments:
            environment.kill()
    with store_of(tmp_path) as store, store.read() as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert written <= EmbeddedSearchIndex(store, DIMENSIONS).stats(ACME).records <= written + begun


def test_a_paused_store_holds_no_lock_and_lends_to_nobody(tmp_path: Path) -> None:
    with store_of(tmp_path) as store:
        index = EmbeddedSearchIndex(store, DIMENSIONS)
        assert store.pause(wait_s=0)
        late = threading.Thread(target=lambda: index.upsert([record("late", "turbine")]))
        late.start()
        with store_of(tmp_path) as other, other.transaction(wait_ms=0):
            EmbeddedSearchIndex(other, DIMENSIONS).upsert([record("first", "turbine")])
        assert late.is_alive()
        store.resume()
        late.join()
        assert [one.id for one in index.get_many(ACME, ["first", "late"])] == ["first", "late"]


def test_a_pause_says_when_a_connection_is_not_given_back(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path) as store:
        with store.read():
            assert not store.pause(wait_s=0)
        assert store.pause(wait_s=0)


def test_a_closed_store_lets_those_go_who_wait_for_a_connection(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path)
    store.pause(wait_s=0)
    threading.Timer(0.05, store.close).start()
    with pytest.raises(StoreError, match="was closed"), store.read():
        pass


def test_an_undone_write_that_had_made_the_file_longer_is_no_damage(tmp_path: Path) -> None:
    def broken_off(store: EmbeddedStore, other: EmbeddedStore) -> None:
        with store.transaction() as connection:
            fill(connection)
            with suppress(TransientStoreError), other.transaction(wait_ms=0):  # sees the longer file
                pass
            raise RuntimeError(store.path.stat().st_size)

    with store_of(tmp_path) as store, store_of(tmp_path) as other:
        with pytest.raises(RuntimeError) as longer:
            broken_off(store, other)
        assert store.path.stat().st_size < longer.value.args[0]
        for one in (store, other):
            EmbeddedSearchIndex(one, DIMENSIONS).upsert([record("after", "turbine")])
    with store_of(tmp_path) as store:
        assert EmbeddedSearchIndex(store, DIMENSIONS).stats(ACME).records == 1


def test_a_store_changes_its_journal_when_it_is_opened(tmp_path: Path) -> None:
    for journal in (Journal.WAL, Journal.PERSIST, Journal.WAL):
        with EmbeddedStore(tmp_path, journal=journal) as store:
            EmbeddedSearchIndex(store, DIMENSIONS).upsert([record(journal, "turbine")])
            with store.read() as connection:
                assert connection.execute("PRAGMA journal_mode").fetchone() == (journal.value,)
            found = EmbeddedSearchIndex(store, DIMENSIONS).search(
                SearchRequest(tenant_id=ACME, text="turbine", k=5, as_of=AS_OF)
            )
            assert journal in {hit.id for hit in found.lexical}


def test_a_write_that_broke_off_is_not_read_as_it_is_where_it_cannot_be_undone(tmp_path: Path) -> None:
    home, copy = tmp_path / "home", tmp_path / "copy"
    with store_of(home) as store, store.transaction() as connection:
        fill(connection)
        shutil.copytree(home, copy)
    with pytest.raises(StoreReadOnly, match="unfinished log"):
        EmbeddedStore(copy, read_only=True)
    with store_of(copy) as store, store.read() as connection:
        assert connection.execute("SELECT count(*) FROM notes WHERE name = 'n7'").fetchone() == (0,)
    EmbeddedStore(copy, read_only=True).close()
