"""A tenant in an index of its own on a real OpenSearch: every contract, the move there and back, and moves of all."""

from __future__ import annotations

import itertools
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from braid.engines.opensearch import mapping
from braid.engines.opensearch import search_index as opensearch_index
from braid.engines.opensearch.index_placement import indexes_by_alias, next_alias, previous_alias, tenant_alias
from braid.engines.opensearch.migration import OpenSearchMigration
from braid.engines.opensearch.one_index import SingleIndex
from braid.engines.opensearch.search_index import OpenSearchIndex
from braid.errors import InvalidRequest, StoreError, TransientStoreError
from braid.ports.reembedding import MigrationState, ReembeddedRecord
from braid.ports.search_index import SearchRequest
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_exponential

from tests.contract.index_moves import SPACES, IndexMovesContract, both, reconcile, with_wide
from tests.contract.index_moves import fill as fill_wide
from tests.contract.search_index import SearchIndexContract
from tests.contract.shapes import ACME, AS_OF, AXIS, DIMENSIONS, GLOBEX, embedding, in_parts, record

if TYPE_CHECKING:
    from collections.abc import Callable

    from braid.models import Record
    from braid.settings import Settings
    from opensearchpy import OpenSearch


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody be on the way when the shared index is emptied."""
    monkeypatch.setattr("braid.engines.opensearch.migration.time.sleep", lambda _seconds: None)


def fill(own: OpenSearchMigration, index: OpenSearchIndex, tenant: str = ACME) -> None:
    """Copy all of a tenant's records to the next index, as they are."""
    records = index.get_many(tenant, own.pending(tenant, own.ids(tenant), ()))
    own.fill(tenant, [ReembeddedRecord(read=each, write=each) for each in records])
    assert sum(own.reconcile(tenant, own.ids(tenant, following=following)) for following in (False, True)) == 0
    assert own.count_pending([tenant], ()) == 0


def move(moves: OpenSearchMigration, index: OpenSearchIndex, *, back: bool = False, drop: bool = True) -> None:
    own = moves.of_tenant(ACME, back=back)
    own.begin("old", "old", {})
    fill(own, index)
    own.switch()
    if drop:
        own.drop(())


def whole(index: OpenSearchIndex, tenant: str = ACME) -> dict[str, Record]:
    return {each.id: each for each in index.scan(tenant, with_vectors=True).records}


def names(client: OpenSearch, settings: Settings) -> dict[str, str]:
    return indexes_by_alias(client, settings.opensearch_index)


def documents(client: OpenSearch, index: str) -> set[str]:
    client.indices.refresh(index=index)
    return {hit["_id"] for hit in client.search(index=index, body={"size": 1000, "_source": False})["hits"]["hits"]}


# --- the same contracts -----------------------------------------------------------------------------------------------


@pytest.fixture
def apart(index: OpenSearchIndex, client: OpenSearch, settings: Settings) -> None:
    """Give acme an index of its own, as a move that ended did, before it has any records."""
    alias = tenant_alias(settings.opensearch_index, ACME)
    body = mapping.index_body(settings, own=True) | {"aliases": {alias: {"is_write_index": True}}}
    index.create()
    client.indices.create(index=f"{settings.opensearch_index}-000002", body=body)


@pytest.mark.usefixtures("apart")
class TestIndex(SearchIndexContract):
    """Of a tenant in an index of its own, beside others in the shared one."""


@pytest.mark.usefixtures("apart")
class TestMigration(IndexMovesContract):
    """To another profile, of the shared index and of a tenant's own."""


# --- the move ---------------------------------------------------------------------------------------------------------

RECORDS = [
    *(record(f"r{place}", f"turbine {place}", embeddings=both(place / 10)) for place in range(1, 6)),
    record("long", "harbour", embeddings=(in_parts(0.1, 0.9),)),
    record("bare", "frost"),
]


def test_a_write_that_did_not_reach_the_previous_index_is_no_unchanged_one_when_it_is_repeated(
    index: OpenSearchIndex, moves: OpenSearchMigration, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.upsert([record("seed", "frost")])
    own = moves.of_tenant(ACME)
    own.begin("default", "default", {})
    fill(own, index)
    written = record("r", "harbour").model_copy(update={"content_hash": "0" * 64})
    write = SingleIndex._write

    def stopped_by_the_switch(one: SingleIndex, operations: Any) -> list[str]:
        write(one, operations)
        own.switch()
        raise TransientStoreError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(SingleIndex, "_write", stopped_by_the_switch)
        with pytest.raises(TransientStoreError):
            index.upsert([written])
    assert index.written(ACME, ["r"])["r"].content_hash is None
    index.upsert([written])
    assert index.written(ACME, ["r"])["r"].content_hash == written.content_hash
    own.rollback()
    assert set(whole(OpenSearchIndex.connect(settings, DIMENSIONS))) == {"r", "seed"}


@pytest.mark.parametrize("switched", [False, True])
def test_what_did_not_reach_both_indexes_of_a_move_is_not_seen_as_done(
    index: OpenSearchIndex,
    moves: OpenSearchMigration,
    monkeypatch: pytest.MonkeyPatch,
    switched: bool,
) -> None:
    index.upsert([record("deleted", "frost")])
    own = moves.of_tenant(ACME)
    own.begin("default", "default", {})
    fill(own, index)
    if switched:
        own.switch()
    write, calls = SingleIndex._write, itertools.count()

    def second_is_throttled(one: SingleIndex, operations: Any) -> list[str]:
        if next(calls) % 2:
            raise TransientStoreError("throttled")
        return write(one, operations)

    with monkeypatch.context() as patch:
        patch.setattr(SingleIndex, "_write", second_is_throttled)
        with pytest.raises(TransientStoreError):
            index.upsert([record("written", "harbour")])
        with pytest.raises(TransientStoreError):
            index.delete(ACME, ["deleted"])
    assert set(index.written(ACME, ["written", "deleted"])) == {"deleted"}


@pytest.mark.parametrize("writers", [*itertools.product(["write", "end", "delete"], repeat=2)], ids="-then-".join)
def test_both_indexes_have_the_same_when_two_writers_of_a_record_reach_them_in_different_orders(
    index: OpenSearchIndex,
    moves: OpenSearchMigration,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    writers: tuple[str, str],
) -> None:
    first, second = writers
    index.upsert([record("r", "before", cosine=0.5)])
    move(moves, index, drop=False)
    late = OpenSearchIndex.connect(settings, DIMENSIONS)

    def do(what: str, by: OpenSearchIndex, word: str) -> None:
        written = record("r", word, cosine=0.5)
        if what == "write":
            by.upsert([written])
        elif what == "end":
            by.set_validity([written.model_copy(update={"invalid_at": AS_OF})])
        else:
            by.delete(ACME, ["r"])

    def overtaken(one: SingleIndex, operations: Any) -> list[str]:
        if one._alias == active_alias and not overtaking:
            overtaking.append(second)
            do(second, index, "second")
        return write(one, operations)

    overtaking: list[str] = []
    active_alias = tenant_alias(settings.opensearch_index, ACME)
    write = SingleIndex._write
    monkeypatch.setattr(SingleIndex, "_write", overtaken)
    do(first, late, "first")
    assert overtaking
    active = whole(index)
    moves.of_tenant(ACME).rollback()
    late.close()
    again = OpenSearchIndex.connect(settings, DIMENSIONS)
    assert whole(again) == active
    again.close()


def test_a_tenant_moves_with_all_that_it_has_and_the_others_stay(
    index: OpenSearchIndex, moves: OpenSearchMigration, client: OpenSearch, settings: Settings
) -> None:
    index.upsert([*RECORDS, record("theirs", tenant_id=GLOBEX, cosine=0.5)])
    before = whole(index)
    asked = SearchRequest(tenant_id=ACME, text="turbine", embedding=embedding(AXIS), k=10, as_of=AS_OF)
    answer = index.search(asked)
    move(moves, index)
    shared, own = settings.opensearch_index, tenant_alias(settings.opensearch_index, ACME)
    assert names(client, settings) == {shared: f"{shared}-000001", own: f"{shared}-000002"}
    later = OpenSearchIndex(client, settings, DIMENSIONS)
    assert whole(later) == before
    assert [hit.id for hit in later.search(asked).vector] == [hit.id for hit in answer.vector]
    assert later.search(asked).lexical == answer.lexical, "statistics of words were of this tenant alone, and are"
    assert documents(client, f"{shared}-000001") == {f"{GLOBEX}|theirs"}
    assert documents(client, f"{shared}-000002") == {f"{ACME}|{each.id}" for each in RECORDS}
    assert moves.tenants() == [ACME, GLOBEX]
    assert (later.stats(ACME).records, later.stats(GLOBEX).records, moves.count(ACME)) == (7, 1, 7)
    later.upsert([record("new", "ledger"), record("theirs too", tenant_id=GLOBEX)])
    assert later.delete(ACME, ["r1", "none"]) == 1
    assert later.delete(GLOBEX, ["theirs"]) == 1
    assert documents(client, f"{shared}-000001") == {f"{GLOBEX}|theirs too"}
    assert f"{ACME}|new" in documents(client, f"{shared}-000002")


def test_who_has_not_heard_of_the_switch_reads_and_writes_the_same(
    index: OpenSearchIndex, moves: OpenSearchMigration, client: OpenSearch, settings: Settings
) -> None:
    index.upsert(RECORDS)
    reader, own = OpenSearchIndex(client, settings, DIMENSIONS), moves.of_tenant(ACME)
    assert reader.count(ACME, at_most=100) == 7
    own.begin("old", "old", {})
    index.upsert([record("during", "ledger")])
    fill(own, index)
    own.switch()
    index.upsert([record("after", "ledger")])
    index.delete(ACME, ["r1"])
    assert set(whole(reader)) == set(whole(OpenSearchIndex(client, settings, DIMENSIONS)))
    assert {"during", "after"} <= set(whole(reader))
    own.rollback()
    index.upsert([record("later", "ledger")])
    for each in (reader, index, OpenSearchIndex(client, settings, DIMENSIONS)):
        assert {"during", "after", "later"} <= set(whole(each))
    assert own.drop(()).next is None
    for each in (reader, index, OpenSearchIndex(client, settings, DIMENSIONS)):
        each.upsert([record("last", "ledger")])
        assert {"during", "after", "later", "last"} <= set(whole(each))
    shared = settings.opensearch_index
    assert set(names(client, settings).values()) == {f"{shared}-000001"}


def test_who_read_the_aliases_a_minute_ago_reads_them_again(
    index: OpenSearchIndex, moves: OpenSearchMigration, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.upsert(RECORDS)
    move(moves, index)
    assert whole(index) == {}, "which is why what is kept is dropped no sooner"
    assert moves.of_tenant(ACME).grace_s == opensearch_index.ALIASES_KEPT_S
    now = opensearch_index.time.monotonic()
    monkeypatch.setattr(opensearch_index.time, "monotonic", lambda: now + opensearch_index.ALIASES_KEPT_S)
    assert len(whole(index)) == 7


@retry(
    retry=retry_if_exception_type(TransientStoreError),
    stop=stop_after_attempt(5),
    wait=wait_exponential(multiplier=0.05),
    reraise=True,
)
def again(change: Callable[..., object], *given: object) -> None:
    """Repeat a write, as whoever writes does: an index that is being removed has no shard that answers."""
    change(*given)


class Writer(threading.Thread):
    """Writes and removes records as a process of its own, and notes what is there when it ends."""

    def __init__(self, place: int, index: OpenSearchIndex) -> None:
        super().__init__()
        self.place, self.index = place, index
        self.there: list[str] = []
        self.error: Exception | None = None
        self.ends = threading.Event()

    def run(self) -> None:
        """Write until it is ended."""
        try:
            for number in itertools.takewhile(lambda _: not self.ends.is_set(), itertools.count()):
                name = f"w{self.place}-{number}"
                again(self.index.upsert, [record(name, "ledger", cosine=0.5)])
                self.there.append(name)
                if number % 5 == 4:
                    again(self.index.delete, ACME, [self.there.pop(0)])
        except Exception as error:  # noqa: BLE001 - it is shown by the test
            self.error = error


def test_writes_of_several_processes_during_moves_are_all_there_and_no_others(
    index: OpenSearchIndex, moves: OpenSearchMigration, client: OpenSearch, settings: Settings
) -> None:
    """Some write while the tenant is moved out, back and out again."""
    index.upsert(RECORDS)
    writers = [Writer(place, OpenSearchIndex(client, settings, DIMENSIONS)) for place in range(3)]
    for writer in writers:
        writer.start()
    try:
        for back in (False, True, False):
            own = moves.of_tenant(ACME, back=back)
            own.begin("old", "old", {})
            reader = OpenSearchIndex(client, settings, DIMENSIONS)
            for _ in range(20):
                records = reader.get_many(ACME, own.pending(ACME, own.ids(ACME), ()))
                own.fill(ACME, [ReembeddedRecord(read=each, write=each) for each in records])
            own.switch()
            own.drop(())
    finally:
        for writer in writers:
            writer.ends.set()
            writer.join()
    assert [writer.error for writer in writers] == [None] * 3
    expected = {each.id for each in RECORDS} | {name for writer in writers for name in writer.there}
    assert len(expected) > 20
    later = OpenSearchIndex(client, settings, DIMENSIONS)
    assert {each.id for each in later.scan(ACME, limit=1000).records} == expected
    assert documents(client, names(client, settings)[settings.opensearch_index]) == set()


def test_a_write_waits_for_the_shards_of_a_new_index(
    index: OpenSearchIndex, moves: OpenSearchMigration, client: OpenSearch, settings: Settings
) -> None:
    """The alias of an index is there before its shards have started, which take seconds on a busy cluster."""
    index.upsert(RECORDS)
    own = moves.of_tenant(ACME)
    own.begin("old", "old", {})
    following = names(client, settings)[next_alias(tenant_alias(settings.opensearch_index, ACME))]
    allocation = "index.routing.allocation.require._name"
    made = mapping.index_body(settings, own=True) | {
        part: client.indices.get(index=following)[following][part] for part in ("mappings", "aliases")
    }
    made["settings"][allocation] = "nobody"
    client.indices.delete(index=following)
    client.indices.create(index=following, body=made, params={"wait_for_active_shards": 0})
    starts = threading.Timer(2, client.indices.put_settings, kwargs={"index": following, "body": {allocation: None}})
    starts.start()
    try:
        index.upsert([record("new", "ledger", cosine=0.5)])
    finally:
        starts.join()
    assert documents(client, following) == {f"{ACME}|new"}


def test_a_tenant_moves_back_with_all_that_it_has(
    index: OpenSearchIndex, moves: OpenSearchMigration, client: OpenSearch, settings: Settings
) -> None:
    index.upsert([*RECORDS, record("theirs", tenant_id=GLOBEX, cosine=0.5)])
    before = whole(index)
    with pytest.raises(InvalidRequest, match="no index of its own"):
        moves.of_tenant(ACME, back=True).begin("old", "old", {})
    move(moves, index)
    moved = OpenSearchIndex(client, settings, DIMENSIONS)
    move(moves, moved, back=True)
    shared = settings.opensearch_index
    assert set(names(client, settings).values()) == {f"{shared}-000001"}
    assert client.indices.exists(index=f"{shared}-000002") is False
    assert whole(OpenSearchIndex(client, settings, DIMENSIONS)) == whole(moved) == before


def test_what_was_copied_back_is_removed_when_that_is_given_up(
    index: OpenSearchIndex, moves: OpenSearchMigration, client: OpenSearch, settings: Settings
) -> None:
    index.upsert([*RECORDS, record("theirs", tenant_id=GLOBEX, cosine=0.5)])
    move(moves, index)
    moved, own = OpenSearchIndex(client, settings, DIMENSIONS), moves.of_tenant(ACME, back=True)
    own.begin("old", "old", {})
    fill(own, moved)
    own.drop(())
    assert documents(client, f"{settings.opensearch_index}-000001") == {f"{GLOBEX}|theirs"}
    assert len(whole(moved)) == 7


def test_a_tenant_of_its_own_gets_the_shape_that_is_set_now_by_moving_again(
    index: OpenSearchIndex, moves: OpenSearchMigration, client: OpenSearch, settings: Settings
) -> None:
    index.upsert(RECORDS)
    before = whole(index)
    move(moves, index)
    larger = settings.model_copy(update={"opensearch_shards": 9, "opensearch_tenant_shards": 3})
    move(
        OpenSearchMigration(client, larger, DIMENSIONS),
        OpenSearchIndex(client, larger, DIMENSIONS),
    )
    shared = settings.opensearch_index
    shards = client.indices.get_settings(index=f"{shared}-000003")[f"{shared}-000003"]["settings"]["index"]
    assert (shards["number_of_shards"], shards["routing_partition_size"]) == ("4", "3")
    assert client.indices.exists(index=f"{shared}-000002") is False
    assert whole(OpenSearchIndex(client, settings, DIMENSIONS)) == before


def test_a_move_of_all_to_another_profile_switches_both_indexes_in_one_request(
    index: OpenSearchIndex, moves: OpenSearchMigration, client: OpenSearch, settings: Settings
) -> None:
    index.upsert([*RECORDS, record("theirs", tenant_id=GLOBEX, cosine=0.5)])
    move(moves, index)
    moves.of_tenant("idle").begin("old", "old", {})
    moves.of_tenant("idle").drop(())
    shared, own, idle = (
        settings.opensearch_index,
        *(tenant_alias(settings.opensearch_index, tenant) for tenant in (ACME, "idle")),
    )
    moved = OpenSearchIndex(client, settings, DIMENSIONS)
    assert moves.begin("old", "new", SPACES) == MigrationState(active="old", next="new")
    fill_wide(moved, moves)
    theirs = moves.pending(GLOBEX, moves.ids(GLOBEX), ("wide-space",))
    moves.fill(GLOBEX, [with_wide(each) for each in moved.get_many(GLOBEX, theirs)])
    moved.upsert([record("late", "ledger", embeddings=both(0.5))])
    assert reconcile(moves) == moves.count_pending([ACME, GLOBEX], ("wide-space",)) == 0
    assert moves.switch() == MigrationState(active="new", previous="old") == moves.serving()
    switched = names(client, settings)
    assert switched == {
        shared: switched[idle],
        idle: switched[shared],
        previous_alias(shared): f"{shared}-000001",
        own: switched[own],
        previous_alias(own): f"{shared}-000002",
    }
    assert {switched[shared], switched[own]} == {f"{shared}-000003", f"{shared}-000004"}
    assert len(whole(moved)) == 8
    moves.rollback()
    moves.switch()
    moves.drop(())
    assert names(client, settings) == {shared: switched[shared], idle: switched[shared], own: switched[own]}
    assert set(whole(moved)["r1"].embeddings) >= set(both(0.1)[:1])


def test_one_move_at_a_time(index: OpenSearchIndex, moves: OpenSearchMigration) -> None:
    index.upsert(RECORDS)
    own = moves.of_tenant(ACME)
    own.begin("old", "old", {})
    assert own.begin("old", "old", {}) == MigrationState(active="old", next="old"), "it goes on"
    for other in (moves, moves.of_tenant(GLOBEX)):
        with pytest.raises(InvalidRequest, match="another index migration is open"):
            other.begin("old", "old" if other is not moves else "new", SPACES)
    fill(own, index)
    own.switch()
    with pytest.raises(InvalidRequest, match="another index migration is open"):
        moves.begin("old", "new", SPACES)
    own.drop(())
    assert moves.begin("old", "new", SPACES).next == "new"
    with pytest.raises(InvalidRequest, match="another index migration is open"):
        moves.of_tenant(GLOBEX).begin("old", "old", {})


def test_of_moves_that_begin_in_one_instant_at_most_one_goes_on(
    index: OpenSearchIndex, moves: OpenSearchMigration, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.upsert([*RECORDS, record("theirs", tenant_id=GLOBEX)])
    together, refuse = threading.Barrier(3), OpenSearchMigration._refuse_others
    looked: set[OpenSearchMigration] = set()

    def look(move: OpenSearchMigration, target: str) -> None:
        refuse(move, target)
        if move not in looked:  # nobody has made anything yet
            looked.add(move)
            together.wait(30)

    monkeypatch.setattr(OpenSearchMigration, "_refuse_others", look)
    begun: list[OpenSearchMigration] = []

    def begin(move: OpenSearchMigration, target: str) -> None:
        with suppress(InvalidRequest):
            move.begin("old", target, SPACES)
            begun.append(move)

    one, other = moves.of_tenant(ACME), moves.of_tenant(GLOBEX)
    threads = [threading.Thread(target=begin, args=each) for each in ((one, "old"), (other, "old"), (moves, "new"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(looked) == 3
    assert len(begun) <= 1
    for move in {one, other, moves} - set(begun):
        assert move.serving().mirrored is None, "what it had made is gone"
    assert len(whole(index)) == len(RECORDS), "nothing that is served has changed"
    for move in begun:
        move.drop(())
    one.begin("old", "old", {})


def test_next_and_previous_are_no_tenants(settings: Settings) -> None:
    shared = settings.opensearch_index
    assert len({tenant_alias(shared, name) for name in ("next", "previous", "Acme", ACME)}) == 4
    assert next_alias(shared) not in {tenant_alias(shared, name) for name in ("next", "")}


@pytest.mark.parametrize("rolls_back", [False, True])
@pytest.mark.parametrize("at", ["begun", "read", "filled", "switched"])
def test_what_is_written_and_deleted_while_a_tenant_moves_back_stays_so_however_that_ends(
    index: OpenSearchIndex,
    moves: OpenSearchMigration,
    client: OpenSearch,
    settings: Settings,
    at: str,
    *,
    rolls_back: bool,
) -> None:
    """All records of the tenant but one that is written then, by a process that knows of no move."""
    index.upsert([*RECORDS, record("theirs", tenant_id=GLOBEX, cosine=0.5)])
    move(moves, index)
    other, reader = (OpenSearchIndex(client, settings, DIMENSIONS) for _ in range(2))
    assert len(whole(other)) == 7
    own = moves.of_tenant(ACME, back=True)

    def reached(step: str) -> None:
        if step == at:
            assert other.delete(ACME, [each.id for each in RECORDS]) == 7
            other.upsert([record("new", "ledger")])

    own.begin("old", "old", {})
    reached("begun")
    records = reader.get_many(ACME, own.pending(ACME, own.ids(ACME), ()))
    reached("read")
    own.fill(ACME, [ReembeddedRecord(read=each, write=each) for each in records])
    reached("filled")
    own.switch()
    reached("switched")
    if rolls_back:
        own.rollback()
    own.drop(())
    shared = settings.opensearch_index
    there = set().union(*(documents(client, found) for found in set(names(client, settings).values())))
    assert there == {f"{GLOBEX}|theirs", f"{ACME}|new"}
    assert names(client, settings)[shared] == f"{shared}-000001"
    assert set(whole(OpenSearchIndex(client, settings, DIMENSIONS))) == {"new"}
    assert set(whole(OpenSearchIndex(client, settings, DIMENSIONS), GLOBEX)) == {"theirs"}


@pytest.mark.parametrize("back", [False, True], ids=["rolled back", "moved back"])
@pytest.mark.parametrize("removed_first", [True, False])
def test_the_shared_index_that_a_switch_or_a_roll_back_makes_the_active_one_is_not_emptied(
    index: OpenSearchIndex,
    moves: OpenSearchMigration,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    *,
    removed_first: bool,
    back: bool,
) -> None:
    index.upsert(RECORDS)
    move(moves, index, drop=back)
    apart = OpenSearchIndex.connect(settings, DIMENSIONS)
    before, own = whole(apart), moves.of_tenant(ACME, back=back)
    activate = own.switch if back else own.rollback
    if back:
        own.begin("old", "old", {})
        fill(own, apart)
    last, first = (activate, partial(own.drop, ())) if removed_first else (partial(own.drop, ()), activate)
    change = own._change

    def overtaken(function: Callable[..., object], **how: object) -> None:
        monkeypatch.setattr(own, "_change", change)
        first()
        change(function, **how)

    monkeypatch.setattr(own, "_change", overtaken)  # between what the last one read and what it asks for
    with pytest.raises(StoreError):
        last()
    apart.close()
    again = OpenSearchIndex.connect(settings, DIMENSIONS)
    assert whole(again) == before
    again.close()
