"""What one tenant writes takes bounded time, and what it does again it does while other tenants can write."""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager
from itertools import count, islice, product
from typing import TYPE_CHECKING, Any

import pytest
from braid.deadline import Locks
from braid.engines.embedded import graph_change_log
from braid.engines.embedded.graph import vertex_rows
from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph
from braid.errors import StoreError
from braid.ingestion import deleting, entities_found_in_texts, tenant_locks, writing
from braid.ingestion.deleting import delete_records
from braid.ingestion.record_vectors import RecordVectors
from braid.ingestion.repair import repair
from braid.ingestion.supersession import superseded_records
from braid.ingestion.tenant_locks import EMBEDDING_AT_ONCE, writing_turn
from braid.ingestion.writing import WriteRequest, require_written, write
from braid.models import SUPERSEDES
from braid.understanding.misspelling_keys import misspellings

from tests.contract.shapes import ACME, GLOBEX, day, edge, record
from tests.stages import DemoStages

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from braid.ingestion.request_checks import Accepted
    from braid.models import Relationship
    from braid.ports.knowledge_graph import WritableGraph
    from braid.ports.search_index import SearchIndex

VERSIONS = 40
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprst" for vowel in "ae"]


@pytest.fixture
def library(tmp_path: Path) -> Iterator[DemoStages]:
    from braid.settings import Settings

    stages = DemoStages(Settings(home=tmp_path))
    yield stages
    stages.close()


def version(number: int) -> str:
    return f"v{number:03}"


def successions(*pairs: tuple[int, int]) -> list[Relationship]:
    return [edge(version(new), version(old), SUPERSEDES) for new, old in pairs]


def write_versions(library: DemoStages, count: int = VERSIONS) -> None:
    """Write a record and its newer versions, each of which supersedes the one before."""
    records = [record(version(number), f"state {number}", valid_at=day(1)) for number in range(count)]
    edges = successions(*((number, number - 1) for number in range(1, count)))
    require_written(write(WriteRequest(tenant_id=ACME, records=records, relationships=edges), library))


@pytest.fixture
def reads(library: DemoStages, monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """Collect the ids whose edges a write reads, call by call."""
    read: list[set[str]] = []
    relationships = library.graph.relationships

    def counted(tenant_id: str, *, ids: Sequence[str] = (), **others: Any) -> list[Relationship]:
        read.append(set(ids))
        return relationships(tenant_id, ids=ids, **others)

    write_versions(library)
    monkeypatch.setattr(library.graph, "relationships", counted)
    return read


def test_the_newest_of_many_versions_is_written_without_following_the_others(
    library: DemoStages, reads: list[set[str]]
) -> None:
    newest = record(version(VERSIONS), "newest", supersedes=[version(VERSIONS - 1)], valid_at=day(2))
    require_written(write(WriteRequest(tenant_id=ACME, records=[newest]), library))
    assert set().union(*reads) <= {version(VERSIONS), version(VERSIONS - 1), version(VERSIONS - 2)}


def test_versions_that_are_written_again_are_not_followed_either(library: DemoStages, reads: list[set[str]]) -> None:
    middle = record(version(20), "state 20, said better", supersedes=[version(19)], valid_at=day(1))
    require_written(write(WriteRequest(tenant_id=ACME, records=[middle]), library))
    assert set().union(*reads) <= {version(20), version(19)}


@pytest.mark.parametrize("between", [0, 1, 2, VERSIONS - 2])
def test_a_circle_through_stored_versions_is_refused(library: DemoStages, between: int) -> None:
    write_versions(library)
    closing = successions((0, between + 1))
    report = write(WriteRequest(tenant_id=ACME, relationships=closing), library)
    assert "superseded by itself" in report.errors[0].message


def test_a_circle_through_two_stored_chains_is_refused(library: DemoStages) -> None:
    write_versions(library)
    others = [record(f"w{number}", "other") for number in range(4)]
    chain = [edge(f"w{number}", f"w{number - 1}", SUPERSEDES) for number in range(1, 4)]
    require_written(write(WriteRequest(tenant_id=ACME, records=others, relationships=chain), library))
    closing = [edge(version(0), "w3", SUPERSEDES), edge("w0", version(5), SUPERSEDES)]
    report = write(WriteRequest(tenant_id=ACME, relationships=closing), library)
    assert "superseded by itself" in report.errors[0].message


def test_a_record_that_would_need_a_long_walk_is_refused_with_the_way_out(
    library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_versions(library)
    require_written(write(WriteRequest(tenant_id=ACME, records=[record("a", "a"), record("b", "b")]), library))
    require_written(write(WriteRequest(tenant_id=ACME, relationships=[edge("a", "b", SUPERSEDES)]), library))
    monkeypatch.setattr(superseded_records, "MAX_WALKED", VERSIONS // 2)
    named = record("b", "b", supersedes=[version(VERSIONS - 1)])
    stated = [edge("b", version(VERSIONS - 1), SUPERSEDES)]
    for wrong in ({"records": [named]}, {"relationships": stated}):
        (error,) = write(WriteRequest(tenant_id=ACME, **wrong), library).errors
        assert error.field == "supersedes"
        assert "with a record that nothing supersedes" in error.message
    monkeypatch.setattr(superseded_records, "MAX_WALKED", VERSIONS)
    require_written(write(WriteRequest(tenant_id=ACME, relationships=stated), library))


def test_a_record_supersedes_a_bounded_number_of_others_and_is_superseded_by_as_many(
    library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every write that names it reads them all."""
    monkeypatch.setattr(superseded_records, "MAX_SUPERSESSIONS", 3)
    require_written(write(WriteRequest(tenant_id=ACME, records=[record(name, name) for name in "abcdefg"]), library))
    for hub in ([edge("a", other, SUPERSEDES) for other in "bcd"], [edge(other, "g", SUPERSEDES) for other in "bcd"]):
        for _ in range(2):  # again changes nothing
            require_written(write(WriteRequest(tenant_id=ACME, relationships=hub), library))
    for beyond, said in (
        (("a", "e"), "'a' supersedes 3 records already"),
        (("e", "g"), "'g' is superseded by 3 records"),
    ):
        for wrong in (
            {"relationships": [edge(*beyond, SUPERSEDES)]},
            {"records": [record(beyond[0], beyond[0], supersedes=[beyond[1]])]},
        ):
            (error,) = write(WriteRequest(tenant_id=ACME, **wrong), library).errors
            assert error.field == "supersedes"
            assert said in error.message


class Interrupted:
    """Runs something else between the check of a write and its transaction, as often as it is given."""

    def __init__(self, library: DemoStages, meanwhile: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
        self.library, self.meanwhile = library, meanwhile
        self.inside: list[bool] = []
        self.threads: list[threading.Thread] = []
        self.check, encode = writing.check, RecordVectors._encode
        monkeypatch.setattr(writing, "check", self)

        def encoded(*given: Any) -> None:
            self.inside.append(library.store.in_transaction)
            encode(*given)

        monkeypatch.setattr(RecordVectors, "_encode", encoded)

    def __call__(self, *given: Any) -> Accepted:
        self.inside.append(self.library.store.in_transaction)
        accepted = self.check(*given)
        if self.meanwhile and threading.current_thread() is threading.main_thread():
            self.threads.append(threading.Thread(target=self.meanwhile.pop(0)))
            self.threads[-1].start()
            self.threads[-1].join(0.5)  # one that has to wait for this write goes on after it
        return accepted

    def ended(self) -> None:
        for thread in self.threads:
            thread.join()


def test_what_a_tenant_changes_meanwhile_is_embedded_while_others_can_write(
    library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = WriteRequest(tenant_id=ACME, records=[record(f"r{number}", "as it was") for number in range(3)])
    require_written(write(request, library))

    def change(text: str) -> Any:
        records = [record(f"r{number}", text) for number in range(3)]
        return lambda: write(WriteRequest(tenant_id=ACME, records=records), library)

    between = Interrupted(library, [change("changed"), change("changed again")], monkeypatch)
    assert write(request, library).written == 3
    between.ended()
    assert len(between.threads) == 2
    assert not any(between.inside)
    assert {found.content for found in library.index.get_many(ACME, ["r0", "r1", "r2"])} == {"changed again"}


def test_what_another_process_changes_meanwhile_is_embedded_while_others_can_write(
    library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Once in the transaction: with two processes that serve, other tenants waited while a long text was embedded.
    request = WriteRequest(tenant_id=ACME, records=[record(f"r{number}", "as it was") for number in range(3)])
    require_written(write(request, library))
    texts = [f"changed {number}" for number in range(3)]

    with closing(DemoStages(library.settings)) as other:
        transaction = library.transaction

        @contextmanager
        def overtaken(tenant_id: str) -> Iterator[None]:
            if texts:
                text = texts.pop()
                records = [record(f"r{number}", text) for number in range(3)]
                with monkeypatch.context() as patch:  # what orders writes of one process, another has for itself
                    patch.setattr(tenant_locks, "_TURNS", Locks(threading.Lock))
                    require_written(write(WriteRequest(tenant_id=ACME, records=records), other))
            with transaction(tenant_id):
                yield

        monkeypatch.setattr(library, "transaction", overtaken)
        between = Interrupted(library, [], monkeypatch)
        assert write(request, library).written == 3
    assert between.inside
    assert not any(between.inside)
    assert {found.content for found in library.index.get_many(ACME, ["r0", "r1", "r2"])} == {"as it was"}


def test_a_write_that_another_process_overtakes_again_and_again_is_written(
    library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "MAX_OVERTAKEN", 2)
    numbers, transaction = count(), library.transaction

    @contextmanager
    def overtaken(tenant_id: str) -> Iterator[None]:
        library.cache.advance(tenant_id)
        next(numbers)
        with transaction(tenant_id):
            yield

    monkeypatch.setattr(library, "transaction", overtaken)
    assert write(WriteRequest(tenant_id=ACME, records=[record("a", "a")]), library).written == 1
    assert next(numbers) == 3


def test_what_a_tenant_deletes_meanwhile_is_checked_while_others_can_write(
    library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = WriteRequest(tenant_id=ACME, records=[record("kept", "kept")])
    require_written(write(WriteRequest(tenant_id=ACME, records=[record("a", "a"), record("b", "b")]), library))
    deletes = [lambda name=name: delete_records(ACME, [name], library) for name in ("a", "b")]
    between = Interrupted(library, deletes, monkeypatch)
    require_written(write(request, library))
    between.ended()
    assert len(between.threads) == 2
    assert not any(between.inside)
    assert [found.id for found in library.index.get_many(ACME, ["kept", "a", "b"])] == ["kept"]


def test_of_one_tenant_s_writes_few_embed_at_once_and_no_neighbour_waits_for_them(
    library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, go, encode = threading.Semaphore(0), threading.Event(), RecordVectors._encode
    inside: list[str] = []

    def held(vectors: Any, encoder: Any, new: Sequence[Any]) -> None:
        if new and new[0].tenant_id == ACME:
            inside.append(new[0].id)
            entered.release()
            go.wait(60)
        encode(vectors, encoder, new)

    monkeypatch.setattr(RecordVectors, "_encode", held)
    requests = [WriteRequest(tenant_id=ACME, records=[record(f"r{number}", "x")]) for number in range(5)]
    threads = [threading.Thread(target=write, args=(request, library), daemon=True) for request in requests]
    try:
        for thread in threads:
            thread.start()
        assert all(entered.acquire(timeout=60) for _ in range(EMBEDDING_AT_ONCE))
        theirs = WriteRequest(tenant_id=GLOBEX, records=[record("g", "x", tenant_id=GLOBEX)])
        assert write(theirs, library).written == 1
        assert len(inside) == EMBEDDING_AT_ONCE
    finally:
        go.set()
        for thread in threads:
            thread.join(60)
    assert len(library.index.get_many(ACME, [f"r{number}" for number in range(5)])) == 5


def test_of_the_names_found_in_one_write_only_so_many_are_written(
    library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entities_found_in_texts, "_MAX_NAMES", 3)
    records = [record(f"r{at}", f"Here Aba{at}a met Cec{at}c and so did Dod{at}d.") for at in range(5)]
    report = write(WriteRequest(tenant_id=ACME, records=records), library)
    require_written(report)
    assert report.names == report.mentions == 3


def test_a_body_of_ten_thousand_names_changes_few_rows(library: DemoStages) -> None:
    # Once 300,000, for which the one writer of all tenants was held for three seconds.
    made = ("".join(syllables).capitalize() for syllables in product(SYLLABLES, repeat=4))
    names = [f"{first} {second}" for first, second in islice(zip(made, made, strict=False), 10_000)]
    said = [f"Then {name} met us, and so we went." for name in names]
    records = [record(f"r{at}", " ".join(said[at : at + 200])) for at in range(0, 10_000, 200)]
    request = WriteRequest(tenant_id=ACME, records=records)
    assert isinstance(library.graph, EmbeddedKnowledgeGraph)
    with library.graph._store.transaction() as connection:
        before = connection.total_changes
        report = write(request, library)
        changed = connection.total_changes - before
    require_written(report)
    assert report.names == entities_found_in_texts._MAX_NAMES
    assert changed < 90_000
    (link,) = library.graph.link(ACME, misspellings(names[0].casefold().replace("a", "", 1)), as_of=day(1))
    assert link.name == names[0]


@pytest.fixture
def removed_names(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many names each removal was given, of which one transaction has few."""
    for module in (deleting, writing, graph_change_log):
        monkeypatch.setattr(module, "NAMES_AT_ONCE", 2)
    given: list[int] = []
    really = vertex_rows.delete_unmentioned

    def delete_unmentioned(connection: sqlite3.Connection, tenant: int, ids: Collection[str]) -> int:
        given.append(len(ids))
        return really(connection, tenant, ids)

    monkeypatch.setattr(vertex_rows, "delete_unmentioned", delete_unmentioned)
    return given


def test_names_that_no_text_has_any_more_are_removed_few_at_a_time(
    library: DemoStages, removed_names: list[int]
) -> None:
    request = WriteRequest(tenant_id=ACME, records=[record("r", "Here Aba met Cec, Dod, Eve and Fif.")])
    assert require_written(write(request, library)).names == 5
    require_written(write(request.model_copy(update={"records": (record("r", "Nobody."),)}), library))
    assert removed_names == [2, 2, 1]
    assert not [vertex for vertex in library.graph.scan(ACME).vertices if vertex.found]


def test_a_delete_that_breaks_off_between_its_transactions_leaves_no_name_of_a_deleted_text(
    library: DemoStages, removed_names: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"a": "Here Aba met Cec.", "b": "Here Aba met Cec.", "c": "Here Dod met Eve and Fif.", "d": "Here Gog sat."}
    records = [record(identity, text) for identity, text in texts.items()]
    require_written(write(WriteRequest(tenant_id=ACME, records=records), library))
    began = count()

    def breaks_off(tenant_id: str, *stores: SearchIndex | WritableGraph) -> AbstractContextManager[None]:
        if next(began) == 1:
            raise StoreError("stopped")
        return writing_turn(tenant_id, *stores)

    monkeypatch.setattr(deleting, "writing_turn", breaks_off)
    with pytest.raises(StoreError, match="stopped"):
        delete_records(ACME, list(texts), library)
    assert {one.id for one in library.index.scan(ACME).records} == {"c", "d"}
    assert repair(ACME, library, dry_run=True).counts == {}
    delete_records(ACME, ["c", "d"], library)
    assert removed_names == [2, 3, 1]
    assert not library.graph.scan(ACME).vertices


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let more than two mentions leave after the write, two at a time."""
    monkeypatch.setattr(writing, "MENTIONS_AT_ONCE", 2)
    monkeypatch.setattr(graph_change_log, "ROWS_AT_ONCE", 2)


def of_names(*texts: str) -> WriteRequest:
    records = [record(f"r{number}", text) for number, text in enumerate(texts)]
    return WriteRequest(tenant_id=ACME, records=records)


def edges_and_rows(library: DemoStages) -> tuple[int, int, int]:
    """Return how many edges readers of the graph see, find in its counts, and how many rows there are."""
    assert isinstance(library.graph, EmbeddedKnowledgeGraph)
    with library.graph._store.read() as connection:
        (rows,) = connection.execute("SELECT count(*) FROM edges").fetchone()
    return len(library.graph.scan(ACME).relationships), library.graph.stats(ACME).edges, rows


@pytest.mark.usefixtures("few")
def test_mentions_that_very_many_texts_lose_leave_few_at_a_time_and_nobody_sees_them_meanwhile(
    library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_written(write(of_names("Here Aba met Cec, Dod, Eve and Fif.", "So Gig met Hah."), library))
    really, seen = graph_change_log.remove_rows, []

    def remove_rows(*given: Any) -> list[int]:
        seen.append(edges_and_rows(library))
        return really(*given)

    monkeypatch.setattr(graph_change_log, "remove_rows", remove_rows)
    require_written(write(of_names("Here Aba met nobody.", "So Gig met Hah."), library))
    assert seen == [(3, 3, 7), (3, 3, 5)]
    assert edges_and_rows(library) == (3, 3, 3)
    assert sum(vertex.found for vertex in library.graph.scan(ACME).vertices) == 3


@pytest.mark.parametrize("then", ["the same", "another", "as before", "delete", "repair"])
@pytest.mark.usefixtures("few")
def test_mentions_that_a_stopped_process_left_are_seen_by_nobody_and_removed_by_what_comes_next(
    library: DemoStages, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    before, after = of_names("Here Aba met Cec, Dod, Eve and Fif."), of_names("Here Aba met nobody.")
    require_written(write(before, library))

    def stop(*_: object) -> bool:
        raise StoreError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(graph_change_log, "remove_rows", stop)
        with pytest.raises(StoreError, match="stopped"):
            write(after, library)
    with closing(DemoStages(library.settings)) as next_process:
        assert edges_and_rows(next_process) == (1, 1, 5)
        begin, begun = next_process.transaction, []

        @contextmanager
        def transaction(tenant_id: str) -> Iterator[None]:
            begun.append(edges_and_rows(next_process))  # others can write while the rows go
            with begin(tenant_id):
                yield

        monkeypatch.setattr(next_process, "transaction", transaction)
        assert [found.content for found in next_process.index.get_many(ACME, ["r0"])] == ["Here Aba met nobody."]
        if then == "delete":
            delete_records(ACME, ["nobody"], next_process)
        elif then == "repair":
            repair(ACME, next_process)
        else:
            another = WriteRequest(tenant_id=ACME, records=[record("other", "plain")])
            require_written(write({"the same": after, "as before": before}.get(then, another), next_process))
        assert set(begun) == (set() if then == "repair" else {(1, 1, 1)})
        left = 5 if then == "as before" else 1
        assert edges_and_rows(next_process) == (left, left, left)
        assert sum(vertex.found for vertex in next_process.graph.scan(ACME).vertices) == left
