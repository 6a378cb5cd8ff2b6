"""What is long leaves the embedded store, changes there and ends there while others can write."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from braid.engines.embedded.graph import name_rows
from braid.engines.embedded.search import row_reads, row_writes
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.engines.embedded.tables import words_table
from braid.errors import StoreError
from braid.ingestion import deleting, item_refusals
from braid.ingestion.deleting import delete_records
from braid.ingestion.repair import repair
from braid.ingestion.supersession import ending_validity, superseded_records
from braid.ingestion.writing import WriteRequest, require_written, write
from braid.ports.search_index import SearchRequest
from braid.understanding.misspelling_keys import misspellings

from tests.contract.shapes import ACME, AS_OF, GLOBEX, record, vertex
from tests.front_door import FrontDoor

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from braid.models import Record, Vertex
    from braid.ports.knowledge_graph import NameKeys

    from tests.stages import DemoStages


def written(stages: DemoStages, *records: Record, tenant_id: str = ACME) -> None:
    require_written(write(WriteRequest(tenant_id=tenant_id, records=records), stages))


def found(stages: DemoStages, text: str, tenant_id: str = ACME) -> list[str]:
    request = SearchRequest(tenant_id=tenant_id, text=text, k=10, as_of=AS_OF)
    return sorted(hit.id for hit in stages.index.search(request).lexical)


def counted(monkeypatch: pytest.MonkeyPatch, name: str, module: ModuleType = row_writes) -> list[Any]:
    """Note what a function of the rows of records returns at each call."""
    really, returned = getattr(module, name), list[Any]()

    def noted(*given: Any, **named: Any) -> Any:
        returned.append(really(*given, **named))
        return returned[-1]

    monkeypatch.setattr(module, name, noted)
    return returned


def test_a_text_that_only_ends_or_is_described_otherwise_is_not_indexed_again(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = [record(f"old{number}", f"the turbine hums {number}") for number in range(5)]
    written(stages, *old)
    indexed, forgotten = counted(monkeypatch, "write_words"), counted(monkeypatch, "forget_words")
    written(stages, record("new", "the pump hums", supersedes=[one.id for one in old]))
    assert (len(indexed), len(forgotten)) == (1, 0)
    written(stages, old[0].model_copy(update={"metadata": {"floor": 3}}))
    assert (len(indexed), len(forgotten)) == (1, 0)
    assert found(stages, "turbine") == [one.id for one in old]
    written(stages, old[0].model_copy(update={"content": "the valve hums"}))
    assert (len(indexed), len(forgotten)) == (2, 1)
    assert (found(stages, "turbine"), found(stages, "valve")) == ([one.id for one in old[1:]], ["old0"])


def test_long_texts_are_deleted_a_few_at_a_time(stages: DemoStages, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = (10, 10, 10, 90, 10, 200, 10)
    written(stages, *(record(f"r{number}", "x" * length) for number, length in enumerate(lengths)))
    monkeypatch.setattr(deleting, "_CHARACTERS_AT_ONCE", 100)
    deleted = counted(monkeypatch, "delete")
    assert delete_records(ACME, [f"r{number}" for number in range(7)], stages).records == 7
    assert deleted == [3, 2, 1, 1]


def blocks(stages: DemoStages, tenant: int = 1) -> int:
    """Return how many blocks the table of a tenant's words has, apart from those that FTS5 keeps of an empty one."""
    with stages.store.read() as connection:
        counted = connection.execute(f"SELECT count(*) FROM {words_table(tenant)}_data WHERE id > 10")  # noqa: S608 - a number's name
        return int(counted.fetchone()[0])


def emptied(stages: DemoStages, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Write and delete texts of many words, two blocks a transaction; note each."""
    monkeypatch.setattr(row_writes, "BLOCKS_AT_ONCE", 2)
    written(stages, record("theirs", "the turbine hums", tenant_id=GLOBEX), tenant_id=GLOBEX)
    texts = [" ".join(f"w{number}x{word}" for word in range(3_000)) for number in range(6)]
    written(stages, *(record(f"r{number}", text) for number, text in enumerate(texts)))
    return counted(monkeypatch, "remove_some_words")


def test_the_words_of_a_tenant_that_has_no_record_left_go_a_few_blocks_at_a_time(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = emptied(stages, monkeypatch)
    delete_records(ACME, [f"r{number}" for number in range(5)], stages)
    assert not turns
    delete_records(ACME, ["r5"], stages)
    assert len(turns) > 5
    assert blocks(stages, tenant=2) == 0
    assert found(stages, "turbine", GLOBEX) == ["theirs"]
    before = len(turns)
    for number in range(2):
        written(stages, record(f"r{number}", "the turbine hums"))
    assert found(stages, "turbine") == ["r0", "r1"]
    assert found(stages, "w0x7") == []
    assert len(turns) == before


def test_words_of_which_a_stopped_process_left_any_number_of_blocks_harm_no_later_write(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    emptied(stages, monkeypatch)
    delete_records(ACME, [f"r{number}" for number in range(5)], stages)
    with monkeypatch.context() as patch:
        patch.setattr(row_writes, "remove_some_words", lambda *_: (_ for _ in ()).throw(StoreError("stopped")))
        with pytest.raises(StoreError, match="stopped"):
            delete_records(ACME, ["r5"], stages)
    left, really = blocks(stages, tenant=2), row_writes.clear_words
    assert left > 5
    monkeypatch.setattr(row_writes, "clear_words", lambda *_: (_ for _ in ()).throw(StoreError("stopped")))
    monkeypatch.setattr(row_writes, "BLOCKS_AT_ONCE", 1)
    for _ in range(left):
        with stages.store.transaction() as connection, suppress(StoreError):
            row_writes.remove_some_words(connection, 2)
    assert blocks(stages, tenant=2) == 1
    monkeypatch.setattr(row_writes, "clear_words", really)
    for number in range(20):
        text = " ".join(f"w{number}x{word}" for word in range(2_000))
        stages.index.upsert([record(f"r{number}", f"the turbine hums {text}")])
    assert len(found(stages, "turbine")) == 10
    assert found(stages, "w19x7") == ["r19"]


@pytest.mark.parametrize("then", ["write", "index", "delete", "repair"])
def test_words_that_a_stopped_process_left_are_removed_by_what_comes_next(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    emptied(stages, monkeypatch)
    delete_records(ACME, [f"r{number}" for number in range(5)], stages)
    turns = [0]
    really = row_writes.remove_some_words

    def stop(*given: Any) -> None:
        turns[0] += 1
        if turns[0] == 3:
            raise StoreError("stopped")
        really(*given)

    with monkeypatch.context() as patch:
        patch.setattr(row_writes, "remove_some_words", stop)
        with pytest.raises(StoreError, match="stopped"):
            delete_records(ACME, ["r5"], stages)
    assert blocks(stages, tenant=2) > 0
    assert stages.index.scan(ACME).records == ()
    assert found(stages, "w0x7") == []
    if then == "write":
        written(stages, record("r0", "the turbine hums"))
    elif then == "index":
        stages.index.upsert([record("r0", "the turbine hums")])
    elif then == "delete":
        delete_records(ACME, ["nobody"], stages)
    else:
        repair(ACME, stages)
    assert found(stages, "turbine") == (["r0"] if then in {"write", "index"} else [])
    assert found(stages, "w0x7") == []
    if then in {"delete", "repair"}:
        assert blocks(stages, tenant=2) == 0
    written(stages, record("r1", "the turbine hums"))
    assert "r1" in found(stages, "turbine")
    with stages.store.transaction() as connection:
        table = words_table(2)
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")  # noqa: S608 - as above


def test_another_process_may_write_while_words_are_removed(stages: DemoStages, monkeypatch: pytest.MonkeyPatch) -> None:
    emptied(stages, monkeypatch)
    delete_records(ACME, [f"r{number}" for number in range(5)], stages)
    really, other = row_writes.remove_some_words, [record("new", "the turbine hums")]
    assert isinstance(stages.index, EmbeddedSearchIndex)

    def remove(*given: Any) -> None:
        really(*given)
        stages.store.after_commit(lambda: stages.index.upsert([other.pop()]) if other else None)

    monkeypatch.setattr(row_writes, "remove_some_words", remove)
    delete_records(ACME, ["r5"], stages)
    assert not other
    assert found(stages, "turbine") == ["new"]
    assert found(stages, "w0x7") == []


def named(number: int, **fields: Any) -> Vertex:
    aliases = tuple(f"Keelson Harbour {number} {other}, West (Upper)" for other in range(20))
    return vertex(f"v{number}", **{"name": f"Harbour {number}", "aliases": aliases, **fields})


def test_what_names_are_found_by_is_worked_out_while_others_can_write(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, inside = name_rows.name_keys, list[bool]()

    def name_keys(given: Vertex) -> NameKeys:
        inside.append(stages.store.in_transaction)
        return really(given)

    monkeypatch.setattr(name_rows, "name_keys", name_keys)
    vertices = [named(number) for number in range(5)]
    require_written(write(WriteRequest(tenant_id=ACME, vertices=vertices), stages))
    assert inside == [False] * 5
    link = stages.graph.link(ACME, ["keelson harbour 3 7 west upper"], as_of=AS_OF)
    assert [one.entity_id for one in link] == ["v3"]
    again = [named(number, entity_type="Port") for number in range(5)]
    require_written(write(WriteRequest(tenant_id=ACME, vertices=again), stages))
    assert len(inside) == 5
    require_written(write(WriteRequest(tenant_id=ACME, vertices=again, rewrite=True), stages))
    assert inside == [False] * 10


def test_names_that_stay_are_not_written_again(stages: DemoStages) -> None:
    require_written(write(WriteRequest(tenant_id=ACME, vertices=[named(1), named(2)]), stages))

    def changes(*vertices: Vertex) -> int:
        with stages.store.transaction() as connection:
            before = connection.total_changes
            stages.graph.upsert(vertices, [])
            changed = connection.total_changes - before
            # Each change of a vertex is noted in memory besides, for the counts of the graph.
            return changed - connection.execute("SELECT count(*) FROM temp.changed_vertices").fetchone()[0]

    assert changes(named(1, entity_type="Port"), named(2, entity_type="Port")) <= 4
    assert changes(named(1, aliases=("Old Quay",))) > 20
    names = {"old quay": ["v1"], "harbour 1": ["v1"], "keelson harbour 2 7 west upper": ["v2"]}
    names |= {gone: [] for gone in ("keelson harbour 1 7 west upper", *misspellings("keelson harbour 1 7"))}
    for name, entities in names.items():
        assert [one.entity_id for one in stages.graph.link(ACME, [name], as_of=AS_OF)] == entities


def test_very_many_records_that_end_are_in_memory_a_few_at_a_time(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = [f"old{number}" for number in range(9)]
    written(stages, *(record(name, "the turbine hums") for name in old))
    for module in (superseded_records, ending_validity):
        monkeypatch.setattr(module, "READ_AT_ONCE", 2)
    read, ended = counted(monkeypatch, "read_many", row_reads), list[int]()
    really = stages.index.set_validity

    def end(records: Sequence[Record]) -> None:
        ended.append(len(records))
        really(records)

    monkeypatch.setattr(stages.index, "set_validity", end)
    request = WriteRequest(tenant_id=ACME, records=[record("new", "the pump hums", supersedes=old)])
    assert require_written(write(request, stages)).superseded == 9
    assert max(map(len, read)) == 2
    assert ended == [2, 2, 2, 2, 1]
    assert all(one.invalid_at and one.content for one in stages.index.get_many(ACME, old))


def test_one_request_supersedes_a_bounded_number(stages: DemoStages) -> None:
    door = FrontDoor(stages)
    old = [f"old{number}" for number in range(100)]
    records = [{"id": f"new{number}", "content": "x", "supersedes": old} for number in range(11)]
    answered = door.ask("POST", "/records", {"records": records})
    assert answered.status == 422
    assert "supersedes more than 1,000" in answered.text


def test_a_write_takes_the_place_of_a_bounded_amount_of_text(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_refusals, "MAX_SHORTENED", 110)
    written(stages, *(record(f"r{number}", "x" * 60) for number in range(4)))
    short = WriteRequest(tenant_id=ACME, records=[record(f"r{number}", "y" * 10) for number in range(4)])
    (error,) = write(short, stages).errors
    assert (error.id, error.field) == ("r3", "content")
    assert "a text of 60 characters" in error.message
    assert {len(one.content) for one in stages.index.scan(ACME).records} == {60}
    assert write(short.model_copy(update={"partial": True}), stages).written == 3
    require_written(write(short, stages))
    written(stages, *(record(f"r{number}", "z" * 300) for number in range(4)))
    written(stages, *(record(f"r{number}", "w" * 300) for number in range(4)))
    delete_records(ACME, [f"r{number}" for number in range(4)], stages)
    require_written(write(short, stages))
