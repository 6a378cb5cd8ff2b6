"""The embedded cache, queue and objects share one file with records and graph, and its transactions."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from braid.app import Application
from braid.engines.embedded import message_queue
from braid.engines.embedded.cache_schemas_jobs_members import NO_WAIT_S, PUT_WAIT_MS, EmbeddedCache
from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph
from braid.engines.embedded.message_queue import DEAD_LETTERS_S, MAX_RECEIVES, EmbeddedQueue
from braid.engines.embedded.object_store import EmbeddedObjectStore
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.engines.embedded.store import BUSY_TIMEOUT_MS, EmbeddedStore
from braid.engines.embedded.tables import FORMAT, forget_words, words_table
from braid.errors import ObjectMissing, StoreCorrupt, StoreError, StoreReadOnly, TransientStoreError
from braid.models import ValueKind
from braid.ports.knowledge_graph import ExpandRequest
from braid.ports.message_queue import DEDUPLICATION_S, QueueMessage
from braid.settings import Settings
from braid.understanding.misspelling_keys import misspellings

from tests.contract.search_index import ask
from tests.contract.shapes import (
    ACME,
    AS_OF,
    AXIS,
    DIMENSIONS,
    GLOBEX,
    Clock,
    edge,
    in_parts,
    record,
    to_format,
    vertex,
)

NORMAL, FULL = 1, 2
"""Of SQLite's ``synchronous``."""

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    with EmbeddedStore(tmp_path) as opened:
        yield opened


@contextmanager
def undone(store: EmbeddedStore) -> Iterator[None]:
    """Undo what is written inside."""
    with suppress(RuntimeError), store.transaction():
        yield
        raise RuntimeError


def message(name: str) -> QueueMessage:
    return QueueMessage(tenant_id=ACME, deduplication_id=name)


@pytest.mark.parametrize(
    "write",
    [
        lambda store: EmbeddedSearchIndex(store, DIMENSIONS).upsert([record("b", "turbine")]),
        lambda store: EmbeddedSearchIndex(store, DIMENSIONS).delete(ACME, ["a"]),
        lambda store: EmbeddedKnowledgeGraph(store).upsert([vertex("b")], [edge("a", "b")]),
        lambda store: EmbeddedKnowledgeGraph(store).delete(ACME, ["a"]),
    ],
    ids=["records", "no record", "graph", "no vertex"],
)
def test_a_write_that_nobody_announced_begins_a_generation(
    store: EmbeddedStore, write: Callable[[EmbeddedStore], object]
) -> None:
    EmbeddedSearchIndex(store, DIMENSIONS).upsert([record("a", "turbine"), record("a", "turbine", tenant_id=GLOBEX)])
    EmbeddedKnowledgeGraph(store).upsert([vertex("a")], [])
    cache = EmbeddedCache(store)
    before, others = cache.generation(ACME), cache.generation(GLOBEX)
    write(store)
    assert cache.generation(ACME) > before
    assert cache.generation(GLOBEX) == others


def test_a_write_that_is_undone_begins_no_generation(store: EmbeddedStore) -> None:
    cache = EmbeddedCache(store)
    cache.advance(ACME)
    before = cache.generation(ACME)
    with undone(store):
        cache.advance(ACME)
    assert cache.generation(ACME) == before


def test_expired_values_take_no_room_for_long(store: EmbeddedStore) -> None:
    clock = Clock()
    cache = EmbeddedCache(store, clock=clock.now)
    cache.put(ACME, "a", b"1", 60)
    clock.advance(60)
    cache.put(GLOBEX, "b", b"2", 60)
    with store.read() as connection:
        assert connection.execute("SELECT key FROM cache").fetchall() == [("b",)]


def test_keeping_a_value_does_not_wait_for_another_process_that_writes(store: EmbeddedStore) -> None:
    cache = EmbeddedCache(store)
    cache.put(ACME, "a", b"1", 60)
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        cache.put(ACME, "b", b"2", 60)
        assert cache.get(ACME, "a") == b"1"
        assert cache.get(ACME, "b") is None
    finally:
        other.close()
    cache.put(ACME, "b", b"2", 60)
    assert cache.get(ACME, "b") == b"2"


def test_keeping_a_value_does_not_wait_for_another_thread_that_writes(store: EmbeddedStore) -> None:
    cache = EmbeddedCache(store)
    writing, done = threading.Event(), threading.Event()

    def write() -> None:
        with store.transaction():
            writing.set()
            done.wait(timeout=30)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert writing.wait(timeout=30)
        cache.put(ACME, "a", b"1", 60)
        assert cache.get(ACME, "a") is None
    finally:
        done.set()
        thread.join()
    cache.put(ACME, "a", b"1", 60)
    assert cache.get(ACME, "a") == b"1"


def test_after_a_wait_in_vain_keeping_a_value_waits_no_more_for_a_second(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[int | None] = []
    transaction = store.transaction

    def noted(*, wait_ms: int, durable: bool) -> AbstractContextManager[sqlite3.Connection]:
        waited.append(wait_ms)
        return transaction(wait_ms=wait_ms, durable=durable)

    monkeypatch.setattr(store, "transaction", noted)
    seconds = 0.0
    cache = EmbeddedCache(store, stopwatch=lambda: seconds)
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        cache.put(ACME, "a", b"1", 60)
        cache.put(ACME, "a", b"1", 60)
    finally:
        other.close()
    cache.put(ACME, "a", b"1", 60)
    assert cache.get(ACME, "a") == b"1"
    seconds = NO_WAIT_S
    cache.put(ACME, "a", b"1", 60)
    assert waited == [PUT_WAIT_MS, 0, 0, PUT_WAIT_MS]


def test_only_the_cache_is_impatient_and_does_not_wait_for_the_disk(store: EmbeddedStore) -> None:
    EmbeddedCache(store).put(ACME, "a", b"1", 60)
    with store.transaction() as connection:
        assert connection.execute("PRAGMA busy_timeout").fetchone() == (BUSY_TIMEOUT_MS,)
        assert connection.execute("PRAGMA synchronous").fetchone() == (FULL,)
    with store.transaction(durable=False) as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (NORMAL,)


def test_what_a_power_cut_may_take_is_not_missed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with EmbeddedStore(home) as store:
        EmbeddedCache(store).advance(ACME)
        counted = (home / "braid.db-commits").read_bytes()
        EmbeddedCache(store).put(ACME, "a", b"1", 60)
        assert (home / "braid.db-commits").read_bytes() == counted


def test_what_was_done_is_not_sent_again_within_its_time(store: EmbeddedStore) -> None:
    clock = Clock()
    queue = EmbeddedQueue(store, clock=clock.now)
    queue.send([message("a")])
    queue.delete([queue.receive(1, 30)[0].receipt])
    clock.advance(DEDUPLICATION_S - 1)
    queue.send([message("a")])
    assert queue.depth() == 0
    clock.advance(1)
    queue.send([message("a")])
    assert queue.depth() == 1


def test_questions_fill_the_queue_up_to_a_bound(store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_queue, "MAX_MESSAGES", 3)
    queue = EmbeddedQueue(store)
    queue.send([message(name) for name in "abc"])
    with pytest.raises(TransientStoreError, match="has 3 messages; run braid reembed --queue"):
        queue.send([message("d")])
    queue.delete([queue.receive(1, 30)[0].receipt])
    queue.send([message("d")])
    assert queue.depth() == 3


def test_dead_letters_make_room_after_a_fortnight(store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_queue, "MAX_MESSAGES", 1)
    clock = Clock()
    queue = EmbeddedQueue(store, clock=clock.now)
    queue.send([message("a")])
    for _ in range(MAX_RECEIVES + 1):
        queue.receive(1, 30)
        clock.advance(31)
    with pytest.raises(TransientStoreError):
        queue.send([message("b")])
    clock.advance(DEAD_LETTERS_S)
    queue.send([message("b")])
    assert [delivery.message.deduplication_id for delivery in queue.receive(9, 30)] == [message("b").deduplication_id]


def test_a_receipt_counts_until_the_message_is_handed_out_again(store: EmbeddedStore) -> None:
    clock = Clock()
    queue = EmbeddedQueue(store, clock=clock.now)
    queue.send([message("a")])
    (first,) = queue.receive(1, 30)
    clock.advance(31)
    (second,) = queue.receive(1, 30)
    queue.delete([first.receipt])
    assert queue.depth() == 1
    clock.advance(31)
    queue.delete([second.receipt])
    assert queue.depth() == 0


def test_what_is_sent_in_a_transaction_that_is_undone_was_never_sent(store: EmbeddedStore) -> None:
    queue = EmbeddedQueue(store)
    with undone(store):
        queue.send([message("a")])
    assert queue.depth() == 0
    queue.send([message("a")])
    assert queue.depth() == 1


def test_two_receivers_never_get_the_same_message(store: EmbeddedStore, tmp_path: Path) -> None:
    EmbeddedQueue(store).send([message(f"m{number}") for number in range(60)])
    got: list[str] = []

    def receive() -> None:
        with EmbeddedStore(tmp_path) as own:
            queue = EmbeddedQueue(own)
            while deliveries := queue.receive(3, 600):
                got.extend(delivery.message.deduplication_id for delivery in deliveries)

    threads = [threading.Thread(target=receive) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted(f"m{number}" for number in range(60))


def test_messages_survive_the_process(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path) as store:
        EmbeddedQueue(store).send([message("a")])
    with EmbeddedStore(tmp_path) as store:
        assert [found.message for found in EmbeddedQueue(store).receive(1, 30)] == [message("a")]


def files(store: EmbeddedStore) -> list[Path]:
    return list((store.folder / "objects").iterdir())


def test_what_is_replaced_or_deleted_leaves_no_file(store: EmbeddedStore) -> None:
    objects = EmbeddedObjectStore(store)
    objects.put(ACME, "a", b"one")
    objects.put(ACME, "a", b"two")
    assert len(files(store)) == 1
    objects.delete(ACME, "a")
    assert files(store) == []


def test_an_object_that_is_written_again_as_it_was_has_not_changed(store: EmbeddedStore) -> None:
    objects = EmbeddedObjectStore(store)
    objects.put(ACME, "a", b"one\ntwo")
    reading = iter(objects.open(ACME, "a"))
    assert next(reading) == b"one"
    objects.put(ACME, "a", b"one\ntwo")
    assert list(reading) == [b"two"]


def test_a_put_that_is_undone_leaves_what_was_there(store: EmbeddedStore) -> None:
    objects = EmbeddedObjectStore(store)
    objects.put(ACME, "a", b"one")
    objects.put(ACME, "b", b"one")
    with undone(store):
        objects.put(ACME, "a", b"two")
        objects.delete(ACME, "b")
    assert list(objects.open(ACME, "a")) == list(objects.open(ACME, "b")) == [b"one"]


def test_a_file_that_somebody_removed_is_named(store: EmbeddedStore) -> None:
    objects = EmbeddedObjectStore(store)
    objects.put(ACME, "a", b"one")
    files(store)[0].unlink()
    with pytest.raises(StoreCorrupt, match=r"objects.*'a', is gone"):
        list(objects.open(ACME, "a"))


def test_a_store_opened_for_reading_gives_objects_and_takes_none(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path) as store:
        EmbeddedObjectStore(store).put(ACME, "a", b"one")
    with EmbeddedStore(tmp_path, read_only=True) as store:
        objects = EmbeddedObjectStore(store)
        assert list(objects.open(ACME, "a")) == [b"one"]
        with pytest.raises(StoreReadOnly):
            objects.put(ACME, "a", b"two")
        assert len(files(store)) == 1


def test_a_folder_that_cannot_be_made_is_named(store: EmbeddedStore) -> None:
    (store.folder / "objects").write_text("not a folder")
    with pytest.raises(StoreError, match="objects"):
        EmbeddedObjectStore(store).put(ACME, "a", b"one")
    with pytest.raises(ObjectMissing):
        EmbeddedObjectStore(store).open(ACME, "a")


def test_what_a_transaction_replaces_goes_with_its_commit_and_stays_without(store: EmbeddedStore) -> None:
    objects = EmbeddedObjectStore(store)
    objects.put(ACME, "a", b"one")

    def replace_and_fail() -> None:
        with store.transaction():
            objects.put(ACME, "a", b"two")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace_and_fail()
    assert list(objects.open(ACME, "a")) == [b"one"]
    with store.transaction():
        objects.put(ACME, "a", b"three")
        assert len(list((store.folder / "objects").iterdir())) == 3
    assert list(objects.open(ACME, "a")) == [b"three"]
    # The file of what was undone is named by nothing, and only takes room.
    assert len(list((store.folder / "objects").iterdir())) == 2


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Make a store as it was before it held a cache, a queue and objects."""
    with EmbeddedStore(tmp_path) as store:
        EmbeddedSearchIndex(store, DIMENSIONS).upsert([record("a", "turbine")])
    connection = sqlite3.connect(tmp_path / "braid.db", isolation_level=None)
    to_format(connection, 1)
    connection.close()
    (tmp_path / "braid.db-commits").unlink()
    return tmp_path


def test_an_older_store_keeps_what_it_holds_and_gets_what_it_lacks(old: Path) -> None:
    for _ in range(2):
        with EmbeddedStore(old) as store:
            assert [found.id for found in EmbeddedSearchIndex(store, DIMENSIONS).get_many(ACME, ["a"])] == ["a"]
            EmbeddedCache(store).put(ACME, "a", b"1", 60)
            EmbeddedQueue(store).send([message("a")])
            EmbeddedObjectStore(store).put(ACME, "a", b"1")
            assert EmbeddedQueue(store).depth() == 1


def test_an_older_store_finds_words_that_no_spaces_set_apart(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path) as store:
        EmbeddedSearchIndex(store, DIMENSIONS).upsert(
            [record("a", "東京支社の責任者", name="東京"), record("b", "turbine")]
        )
        with store.transaction() as connection:
            table, row = words_table(1), (1, "東京", "", "東京支社の責任者")
            forget_words(connection, table, [row])
            # as it was written then
            connection.execute(f"INSERT INTO {table} (rowid, title, aliases, content) VALUES (?, ?, ?, ?)", row)  # noqa: S608
            to_format(connection, 3)
    for _ in range(2):
        with EmbeddedStore(tmp_path) as store:
            index = EmbeddedSearchIndex(store, DIMENSIONS)
            assert [hit.id for hit in ask(index, "支社").lexical] == ["a"]
            assert [hit.id for hit in ask(index, "turbine").lexical] == ["b"]
    with EmbeddedStore(tmp_path) as store:
        index = EmbeddedSearchIndex(store, DIMENSIONS)
        index.upsert([record("a", "大阪工場")])
        assert [hit.id for hit in ask(index, "支社 東京 大阪").lexical] == ["a"]
        assert ask(index, "支社").lexical == ()


def test_an_older_store_that_cannot_be_written_says_what_to_do(old: Path) -> None:
    with pytest.raises(StoreError, match=rf"has format 1; open it once where it can be written, .* {FORMAT}"):
        EmbeddedStore(old, read_only=True)
    EmbeddedStore(old).close()
    with EmbeddedStore(old, read_only=True) as store:
        assert [found.id for found in EmbeddedSearchIndex(store, DIMENSIONS).get_many(ACME, ["a"])] == ["a"]


def test_an_older_store_has_the_tables_of_a_new_one(old: Path, tmp_path: Path) -> None:
    def columns(folder: Path) -> set[tuple[str, ...]]:
        with EmbeddedStore(folder) as store, store.read() as connection:
            rows = connection.execute(
                'SELECT m.type, m.name, c.cid, c.name, c.type, c."notnull", c.dflt_value, c.pk FROM sqlite_master AS m,'
                " pragma_table_info(m.name) AS c WHERE m.tbl_name NOT LIKE 'words%' AND m.name <> 'sqlite_sequence'"
                " UNION ALL SELECT 'index of ' || m.tbl_name, m.name, i.seqno, i.name, '', '', '', ''"
                " FROM sqlite_master AS m, pragma_index_info(m.name) AS i WHERE m.type = 'index'"
            )
            return set(rows)

    assert columns(old) == columns(tmp_path / "new")


def test_the_misspelt_names_of_an_older_store_are_found(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path) as store:
        EmbeddedKnowledgeGraph(store).upsert([vertex("api", name="Keelson")], [])
        with store.transaction() as connection:
            to_format(connection, 10)
    with EmbeddedStore(tmp_path) as store:
        graph = EmbeddedKnowledgeGraph(store)
        assert [link.entity_id for link in graph.link(ACME, misspellings("keelsn"), as_of=AS_OF)] == ["api"]


def test_a_key_of_a_name_leads_to_no_vertex_of_another_tenant(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path) as store:
        graph = EmbeddedKnowledgeGraph(store)
        graph.upsert([vertex("api", name="Keelson"), vertex("theirs", tenant_id=GLOBEX, name="Secret")], [])
        with store.transaction() as connection:  # as if keys were left behind whose number was given again
            for table in ("names", "misspellings"):
                connection.execute(f"UPDATE {table} SET vertex = 2 WHERE tenant = 1")  # noqa: S608 - a table
        assert graph.link(ACME, ["keelson", *misspellings("keelsn")], as_of=AS_OF) == []


def test_the_metadata_of_an_older_store_is_filtered(tmp_path: Path) -> None:
    rows = [record("a", "turbine", metadata={"floor": 3}), record("b", "turbine", metadata={"floor": None})]
    with EmbeddedStore(tmp_path) as store:
        EmbeddedSearchIndex(store, DIMENSIONS).upsert([*rows, record("c", "turbine")])
        with store.transaction() as connection:
            to_format(connection, 9)
    for _ in range(2):
        with EmbeddedStore(tmp_path) as store:
            index = EmbeddedSearchIndex(store, DIMENSIONS)
            found = ask(index, "turbine", filters={"metadata": {"floor": {"gte": 1}}}).lexical
            assert [hit.id for hit in found] == ["a"]
            assert index.field_kinds(ACME, ["floor"]) == {"floor": {ValueKind.NUMBER}}


def test_an_edge_of_an_older_store_is_as_trusted_as_its_evidence(tmp_path: Path) -> None:
    ends = {"own": "near", "mail": "far", None: "next"}
    with EmbeddedStore(tmp_path) as store:
        EmbeddedSearchIndex(store, DIMENSIONS).upsert([record("own", "x"), record("mail", "x", trusted=False)])
        edges = [edge("a", target, evidence=evidence) for evidence, target in ends.items()]
        EmbeddedKnowledgeGraph(store).upsert([vertex(name) for name in ("a", *ends.values())], edges)
        with store.transaction() as connection:
            to_format(connection, 6)
    with EmbeddedStore(tmp_path) as store:
        graph = EmbeddedKnowledgeGraph(store)
        assert {one.evidence: one.trusted for one in graph.relationships(ACME, ids=["a"])} == {
            "own": True,
            "mail": False,
            None: True,
        }
        found = graph.expand(ExpandRequest(tenant_id=ACME, seeds=("a",), as_of=AS_OF, trusted_only=True))
        assert {hit.id for hit in found.hits} == {"near", "next"}


def test_a_vertex_of_an_older_store_is_as_trusted_as_its_record(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path) as store:
        EmbeddedSearchIndex(store, DIMENSIONS).upsert([record("own", "x"), record("mail", "x", trusted=False)])
        EmbeddedKnowledgeGraph(store).upsert([vertex(name, name="Keelson") for name in ("own", "mail")], [])
        with store.transaction() as connection:
            to_format(connection, 5)
    with EmbeddedStore(tmp_path) as store:
        graph = EmbeddedKnowledgeGraph(store)
        assert [each.trusted for each in graph.get_many(ACME, ["own", "mail"])] == [True, False]
        links = graph.link(ACME, ["keelson"], as_of=AS_OF, trusted_only=True)
        assert [link.entity_id for link in links] == ["own"]


def test_the_vector_of_an_older_store_is_of_the_whole_text(tmp_path: Path) -> None:
    stored = record("a", "turbine", cosine=0.5)
    with EmbeddedStore(tmp_path) as store:
        EmbeddedSearchIndex(store, DIMENSIONS).upsert([stored])
        with store.transaction() as connection:
            to_format(connection, 7)
    with EmbeddedStore(tmp_path) as store:
        index = EmbeddedSearchIndex(store, DIMENSIONS)
        assert [(hit.id, hit.part_start) for hit in ask(index, vector=AXIS).vector] == [("a", 0)]
        assert index.get_many(ACME, ["a"], with_vectors=True) == [stored]


def test_a_long_text_of_an_older_store_gets_the_vectors_of_its_parts(tmp_path: Path) -> None:
    long = record("a", "turbine", embeddings=(in_parts(0.1, 0.9),))
    with EmbeddedStore(tmp_path) as store:
        EmbeddedSearchIndex(store, DIMENSIONS).upsert([record("a", "turbine", cosine=0.1)])
        with store.transaction() as connection:
            to_format(connection, 7)
    with EmbeddedStore(tmp_path) as store:
        index = EmbeddedSearchIndex(store, DIMENSIONS)
        index.upsert([long])
        assert index.get_many(ACME, ["a"], with_vectors=True) == [long]


def test_several_threads_may_open_an_older_store_at_once(old: Path) -> None:
    failures: list[Exception] = []

    def open_and_use() -> None:
        try:
            with EmbeddedStore(old) as store:
                EmbeddedQueue(store).send([message("a")])
        except Exception as error:  # noqa: BLE001 - told to the test
            failures.append(error)

    threads = [threading.Thread(target=open_and_use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_the_laptop_has_all_three_in_one_folder(tmp_path: Path) -> None:
    application = Application(Settings(home=tmp_path))
    with application.store:
        application.cache.put(ACME, "a", b"1", 60)
        assert application.cache.get(ACME, "a") == b"1"
        application.queue.send([message("a")])
        assert application.queue.depth() == 1
        application.objects.put(ACME, "a", b"1")
        assert [found.key for found in application.objects.list(ACME)] == ["a"]


def test_a_deployment_without_a_table_has_no_cache_and_needs_none() -> None:
    settings = Settings(
        engine="aws", opensearch_endpoint="http://127.0.0.1:9", neptune_endpoint="ws://127.0.0.1:9/gremlin"
    )
    cache = Application(settings).cache
    cache.put(ACME, "a", b"1", 60)
    assert cache.get(ACME, "a") is None
    assert cache.advance(ACME) == 0
