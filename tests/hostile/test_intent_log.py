"""Notes of writes that broke off bring back what is missing, and nothing that was deleted since."""

from __future__ import annotations

import json
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from braid.ingestion import writing
from braid.ingestion.deleting import delete_records
from braid.ingestion.intent_log import forget, unfinished
from braid.ingestion.repair import Fault, repair
from braid.ingestion.writing import MissingEnds, WriteRequest, write
from braid.ports.object_store import MAX_LINE_BYTES
from braid.settings import Settings

from braid_cli.datasets.dataset import read_dataset
from braid_cli.datasets.ingest import ingest
from tests.contract.shapes import ACME, GLOBEX, day, edge, record, vertex
from tests.stages import DemoStages, WordEncoder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from braid.engines.embedded.object_store import EmbeddedObjectStore


class BrokeOff(Exception):
    """A process ended between two stores."""


class Apart(DemoStages):
    """Stores that do not commit together, and note what is being written."""

    @property
    def intent_log(self) -> EmbeddedObjectStore:
        """The intent log."""
        return self.objects  # type: ignore[return-value]

    @contextmanager
    def transaction(self, tenant_id: str) -> Iterator[None]:
        """Begin a new generation in any case."""
        try:
            yield
        finally:
            self.cache.advance(tenant_id)

    def write_generation(self, tenant_id: str) -> None:  # type: ignore[override]
        """Know of none."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Apart]:
    opened = Apart(Settings(home=tmp_path))
    yield opened
    opened.close()


def break_off(store: Apart, *items: Any, after: str = "graph") -> None:
    """Write, and end before the graph is written or right after."""
    request = WriteRequest(
        tenant_id=ACME,
        records=tuple(item for item in items if hasattr(item, "content")),
        vertices=tuple(item for item in items if hasattr(item, "aliases") and not hasattr(item, "content")),
        relationships=tuple(item for item in items if hasattr(item, "predicate")),
    )
    upsert = store.graph.upsert

    def end(*written: Any) -> None:
        if after == "graph":
            upsert(*written)
        raise BrokeOff

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.graph, "upsert", end)
        with pytest.raises(BrokeOff):
            write(request, store)
    assert list(unfinished(ACME, store.objects))


PEOPLE = (vertex("ada", name="Ada", has_record=False), vertex("hall", name="Hall", has_record=False))


def test_a_vertex_that_was_deleted_after_its_write_broke_off_stays_deleted(store: Apart) -> None:
    break_off(store, *PEOPLE, edge("ada", "hall", "KNOWS"))
    delete_records(ACME, ["ada"], store)
    assert repair(ACME, store).counts == {}
    page = store.graph.scan(ACME)
    assert ([one.id for one in page.vertices], page.relationships) == (["hall"], ())


@pytest.mark.parametrize("deleted", ["a", "b", "fact"])
def test_an_edge_that_went_with_a_record_stays_away_when_the_record_is_written_again(
    store: Apart, deleted: str
) -> None:
    records = [record("a", "alpha"), record("b", "beta"), record("fact", "alpha cites beta")]
    break_off(store, *records, edge("a", "b", "CITES", evidence="fact"))
    delete_records(ACME, [deleted], store)
    write(WriteRequest(tenant_id=ACME, records=tuple(records)), store)
    assert repair(ACME, store).counts == {}
    assert store.graph.scan(ACME).relationships == ()


def test_an_edge_that_was_removed_by_itself_stays_away_and_the_others_come_back(store: Apart) -> None:
    gone, kept = edge("ada", "hall", "KNOWS"), edge("hall", "ada", "HOUSES")
    break_off(store, *PEOPLE, gone, kept, after="index")
    forget(ACME, store.intent_log, edges=[gone])
    repair(ACME, store)
    assert [one.type for one in store.graph.scan(ACME).relationships] == ["HOUSES"]
    assert list(unfinished(ACME, store.objects)) == []


def test_what_was_not_deleted_comes_back_with_the_rest_of_the_note(store: Apart) -> None:
    break_off(store, *PEOPLE, vertex("mill", name="Mill"), edge("hall", "mill"), edge("ada", "mill"), after="index")
    store.objects.put(GLOBEX, next(unfinished(ACME, store.objects))[0], b"theirs")
    delete_records(ACME, ["ada"], store)
    repair(ACME, store)
    page = store.graph.scan(ACME)
    assert [one.id for one in page.vertices] == ["hall", "mill"]
    assert [one.source for one in page.relationships] == ["hall"]
    assert len(list(store.objects.list(GLOBEX))) == 1


def test_an_edge_that_a_dataset_no_longer_has_takes_kept_answers_and_notes_with_it(
    store: Apart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "halls"
    folder.mkdir()
    (folder / "corpus.jsonl").write_text(json.dumps({"_id": "hall", "text": "the hall"}) + "\n", encoding="utf-8")
    people = [{"id": "ada", "name": "Ada"}, {"id": "mill", "name": "Mill"}]
    (folder / "entities.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in people), encoding="utf-8")
    edges = [{"source": "ada", "type": name, "target": "mill"} for name in ("OWNS", "KNOWS")]
    (folder / "relationships.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in edges), encoding="utf-8")
    ingest(read_dataset(folder, ACME), store)
    (folder / "relationships.jsonl").write_text(json.dumps(edges[0]) + "\n", encoding="utf-8")
    remove, generations = store.graph.delete_relationships, list[int | None]()

    def removed(*asked: Any) -> int:
        count = remove(*asked)
        generations.append(store.cache.generation(ACME))
        return count

    monkeypatch.setattr(store.graph, "delete_relationships", removed)
    ingest(read_dataset(folder, ACME), store)
    assert [one.type for one in store.graph.scan(ACME).relationships] == ["OWNS"]
    assert generations != []
    assert (store.cache.generation(ACME) or 0) > (generations[-1] or 0)


def test_of_two_writes_of_the_same_records_beside_each_other_the_one_that_breaks_off_is_repaired(
    store: Apart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "writing_turn", lambda *_: nullcontext())  # as in two processes
    upsert = store.graph.upsert

    def meanwhile(*written: Any) -> None:
        monkeypatch.setattr(store.graph, "upsert", upsert)
        break_off(store, record("note", "a note on the Osprey Mill"), after="index")
        upsert(*written)

    monkeypatch.setattr(store.graph, "upsert", meanwhile)
    write(WriteRequest(tenant_id=ACME, records=(record("note", "a note on the Heron Hall"),)), store)
    assert store.index.get_many(ACME, ["note"])[0].content == "a note on the Osprey Mill"
    repair(ACME, store)
    page = store.graph.scan(ACME)
    mentions = {one.source for one in page.relationships if one.target == "note"}
    assert "Osprey Mill" in {vertex.name for vertex in page.vertices if vertex.id in mentions}
    assert list(unfinished(ACME, store.objects)) == []


def test_what_is_superseded_while_it_is_embedded_stays_so(store: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrote(*records: Any) -> None:
        assert not write(WriteRequest(tenant_id=ACME, records=records), store).errors

    encode, encoded = WordEncoder.encode, list[str]()

    def slowly(self: WordEncoder, texts: Sequence[str], **how: Any) -> list[bytes]:
        encoded.extend(texts)
        if len(encoded) == 1:
            wrote(record("fee-2", "The fee is three.", supersedes=("fee-1",), valid_at=day(3)))
        return encode(self, texts, **how)

    wrote(record("fee-1", "The fee is two."))
    monkeypatch.setattr(WordEncoder, "encode", slowly)
    wrote(record("fee-1", "The fee is two, as ever."))
    (now,) = store.index.get_many(ACME, ["fee-1"])
    assert (now.content, now.invalid_at) == ("The fee is two, as ever.", day(3))
    assert len(encoded) == 2, "no text is embedded again"
    assert repair(ACME, store, dry_run=True).findings == ()


def test_a_write_beside_others_that_never_pause_is_checked_twice_and_then_made(
    store: Apart, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, checked = writing.check, list[str]()

    def meanwhile(request: WriteRequest, among: Any) -> Any:
        checked.append(request.tenant_id)
        assert len(checked) <= 2
        accepted = check(request, among)
        store.cache.advance(ACME)
        return accepted

    monkeypatch.setattr(writing, "check", meanwhile)
    assert write(WriteRequest(tenant_id=ACME, records=(record("a", "alpha"),)), store).written == 1
    assert len(checked) == 2


def test_what_stands_for_a_missing_entity_does_not_replace_it_when_it_is_written_meanwhile(
    store: Apart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "writing_turn", lambda *_: nullcontext())  # as in two processes
    upsert = store.graph.upsert
    mill = vertex("x", name="Osprey Mill", aliases=("the mill",), has_record=False)

    def meanwhile(*written: Any) -> None:
        monkeypatch.setattr(store.graph, "upsert", upsert)
        write(WriteRequest(tenant_id=ACME, vertices=(mill,)), store)
        upsert(*written)

    write(WriteRequest(tenant_id=ACME, vertices=(vertex("a"),)), store)
    monkeypatch.setattr(store.graph, "upsert", meanwhile)
    stated = WriteRequest(tenant_id=ACME, relationships=(edge("a", "x"),), missing=MissingEnds.STUB)
    assert write(stated, store).stubs == 1
    assert store.graph.get_many(ACME, ["x"]) == [mill]


@pytest.mark.parametrize("after", ["index", "graph"])
def test_a_write_that_broke_off_and_is_repeated_leaves_no_note(store: Apart, after: str) -> None:
    items = (record("a", "alpha"), record("b", "beta"), edge("a", "b", "CITES"))
    break_off(store, *items, after=after)
    write(WriteRequest(tenant_id=ACME, records=items[:2], relationships=items[2:]), store)
    assert list(unfinished(ACME, store.objects)) == []


NOTE = b'{"tenant_id": "globex", "id": "x", "name": "X"}'


@pytest.mark.parametrize(
    "body",
    [b"no note", b"[]", b'{"unknown": 1}', b"\xff", b'{"vertex": ' + NOTE + b"}", b"x" * (MAX_LINE_BYTES + 1)],
    ids=["text", "list", "field", "bytes", "of another tenant", "long"],
)
def test_a_note_that_cannot_be_read_is_told_of_and_the_others_are_worked_off(store: Apart, body: bytes) -> None:
    break_off(store, *PEOPLE, after="index")
    store.objects.put(ACME, "ingest/.unfinished/0", body)
    store.objects.put(ACME, "ingest/unfinished/pages/begun", b"")  # of an import of that name
    report = repair(ACME, store)
    assert report.counts == {Fault.LOG_ENTRY_UNREADABLE: 1, Fault.NO_VERTEX: 2}
    assert report.findings[0].id == "ingest/.unfinished/0"
    assert {one.id for one in store.graph.scan(ACME).vertices} == {"ada", "hall"}
    assert repair(ACME, store, dry_run=True).counts == {Fault.LOG_ENTRY_UNREADABLE: 1}
    assert delete_records(ACME, ["ada"], store).vertices == 1


def test_a_note_that_is_longer_than_a_line_may_be_is_read(store: Apart) -> None:
    aliases = tuple(f"{number} " + "\u6f22" * 500 for number in range(60))
    break_off(store, *(vertex(f"v{number}", name="Hall", aliases=aliases) for number in range(130)), after="index")
    assert sum(info.size_bytes for info in store.objects.list(ACME)) > MAX_LINE_BYTES
    assert repair(ACME, store).vertices == 130
