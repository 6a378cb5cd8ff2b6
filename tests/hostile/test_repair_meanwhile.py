"""What is deleted or written while a repair runs stays deleted, and stays as it was written."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from braid.errors import TenantBeingDeleted
from braid.ingestion.deleting import delete_records
from braid.ingestion.repair import Fault, repair
from braid.ingestion.tenant_deletion import delete_tenant
from braid.ingestion.writing import WriteRequest, require_written, write
from braid.models import Kind
from braid.ports.deletion_marks import DeletionMark

from tests.contract.shapes import ACME, day, edge, record, vertex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.stages import DemoStages


@pytest.fixture
def store(stages: DemoStages) -> DemoStages:
    """Return a store with an entity, a fact that is the evidence of an edge, and a vertex without a record."""
    records = (
        record("ada", "the canary of Ada", kind=Kind.ENTITY, name="Ada Canary"),
        record("fact", "ada owns the hall", kind=Kind.FACT),
    )
    request = WriteRequest(
        tenant_id=ACME,
        records=tuple(one.model_copy(update={"embeddings": ()}) for one in records),
        vertices=(vertex("hall", name="Hall"),),
        relationships=(edge("ada", "hall", "OWNS", evidence="fact"),),
    )
    require_written(write(request, stages))
    return stages


def meanwhile(store: DemoStages, action: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have something done once, after the repair has read what differs and before it changes that."""
    begin = store.transaction

    @contextmanager
    def transaction(tenant_id: str) -> Iterator[None]:
        monkeypatch.setattr(store, "transaction", begin)
        action()
        with begin(tenant_id):
            yield

    monkeypatch.setattr(store, "transaction", transaction)


def no_vertex(store: DemoStages) -> None:
    store.graph.delete(ACME, ["ada"])


def not_marked(store: DemoStages) -> None:
    store.graph.upsert([vertex("ada", name="Ada Canary", has_record=False)], [])


def no_record(store: DemoStages) -> None:
    store.index.delete(ACME, ["ada"])


@pytest.mark.parametrize("damage", [no_vertex, not_marked, no_record])
def test_a_record_that_is_deleted_while_its_vertex_is_repaired_stays_deleted(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch, damage: Callable[[DemoStages], None]
) -> None:
    damage(store)
    meanwhile(store, lambda: delete_records(ACME, ["ada"], store), monkeypatch)
    repair(ACME, store)
    assert store.graph.get_many(ACME, ["ada"]) == []
    assert repair(ACME, store, dry_run=True).counts == {}


@pytest.mark.parametrize("damage", [no_vertex, not_marked, no_record])
def test_a_tenant_that_is_deleted_while_it_is_repaired_stays_deleted(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch, damage: Callable[[DemoStages], None]
) -> None:
    damage(store)
    meanwhile(store, lambda: delete_tenant(ACME, store), monkeypatch)
    assert repair(ACME, store).counts == {}
    assert store.graph.scan(ACME).vertices == ()


def test_a_vertex_that_is_written_while_it_is_repaired_stays_as_it_was_written(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    not_marked(store)
    newer = record("ada", "the ledger", kind=Kind.ENTITY, name="Ada Wren", invalid_at=day(9))
    request = WriteRequest(tenant_id=ACME, records=(newer.model_copy(update={"embeddings": ()}),))
    meanwhile(store, lambda: require_written(write(request, store)), monkeypatch)
    repair(ACME, store)
    (ada,) = store.graph.get_many(ACME, ["ada"])
    assert (ada.name, ada.invalid_at, ada.has_record) == ("Ada Wren", day(9), True)
    assert repair(ACME, store, dry_run=True).counts == {}


def test_an_edge_whose_end_is_deleted_while_it_is_repaired_stays_deleted(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.index.delete(ACME, ["fact"])
    store.graph.delete(ACME, ["fact"])
    meanwhile(store, lambda: delete_records(ACME, ["hall"], store), monkeypatch)
    assert repair(ACME, store).counts == {}
    assert [one.type for one in store.graph.scan(ACME).relationships if not one.found] == []


def test_a_tenant_that_is_being_deleted_is_not_repaired(store: DemoStages) -> None:
    no_vertex(store)
    DeletionMark(ACME, store.cache).renew()
    with pytest.raises(TenantBeingDeleted):
        repair(ACME, store)
    assert Fault.NO_VERTEX in repair(ACME, store, dry_run=True).counts
