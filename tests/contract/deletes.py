"""What every pair of stores keeps when something is deleted from it, and when the two are compared."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import StoreError, TenantBeingDeleted
from braid.ingestion import deleting, writing
from braid.ingestion.deleting import delete_document, delete_records
from braid.ingestion.repair import Fault, repair
from braid.ingestion.tenant_deletion import delete_tenant
from braid.ingestion.writing import WriteRequest, write
from braid.models import Kind
from braid.ports.members import Membership
from braid.ports.reembedding import JobRecord
from braid.ports.schema_registry import SchemaVersion
from braid.reembedding.queue_from_answers import Reason, ReembedMessage

from tests.contract.shapes import ACME, AS_OF, GLOBEX, day, edge, record, vertex
from tests.contract.writes import found, stored, written

if TYPE_CHECKING:
    from braid.app import Application


class DeletesContract:
    """Deleting through :mod:`braid.ingestion.deleting`."""

    @pytest.fixture(autouse=True)
    def _filled(self, store: Application) -> None:
        written(
            store,
            record("guide.pdf#chunk-1", "the turbine hums", source={"title": "Guide"}),
            record("guide.pdf#chunk-2", "the turbine stops", source={"title": "Guide"}),
            record("guide.pdf-old", "the turbine of old"),
            record("note", "a note on the turbine", source={"title": "Guide"}),
            record("turbine", "the turbine itself", kind=Kind.ENTITY, name="Turbine"),
            vertex("hall", name="Hall"),
            edge("turbine", "guide.pdf#chunk-1", "MENTIONS"),
            edge("turbine", "hall", "STANDS_IN", evidence="guide.pdf#chunk-2"),
            edge("hall", "turbine", "HOUSES"),
        )
        theirs = record("note", "a note on their turbine", tenant_id=GLOBEX)
        write(WriteRequest(tenant_id=GLOBEX, records=(theirs,)), store)

    def test_a_record_goes_with_its_vertex_its_edges_and_those_that_it_was_evidence_of(
        self, store: Application
    ) -> None:
        report = delete_records(ACME, ["guide.pdf#chunk-2", "guide.pdf#chunk-1", "nobody"], store)
        assert (report.records, report.vertices, report.relationships) == (2, 1, 2)
        assert found(store, "turbine") == ["guide.pdf-old", "note", "turbine"]
        assert [one.type for one in store.graph.relationships(ACME, ids=["turbine", "hall"])] == ["HOUSES"]
        assert repair(ACME, store, dry_run=True).counts == {}

    def test_entities_without_a_record_are_counted_apart_from_the_vertices_of_records(self, store: Application) -> None:
        report = delete_records(ACME, ["turbine", "hall", "nobody"], store)
        assert (report.records, report.entities, report.vertices) == (1, 1, 2)

    def test_counts_that_a_repair_finds_wrong_are_replaced_unless_it_only_looks(
        self, store: Application, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[bool] = []

        def recount(tenant_id: str, *, dry_run: bool = False) -> bool:
            asked.append(dry_run)
            return tenant_id == ACME

        monkeypatch.setattr(store.graph, "recount", recount)
        assert repair(ACME, store, dry_run=True).counts == {Fault.OTHER_COUNTS: 1}
        assert repair(ACME, store).findings[0].fault is Fault.OTHER_COUNTS
        assert repair(GLOBEX, store).counts == {}
        assert asked == [True, False, False]

    def test_what_is_deleted_is_gone_for_the_next_write_too(self, store: Application) -> None:
        delete_records(ACME, ["note"], store)
        assert written(store, record("note", "a note on the turbine", source={"title": "Guide"})).written == 1

    @pytest.mark.parametrize(
        ("document", "gone"),
        [
            ("guide.pdf", ["guide.pdf#chunk-1", "guide.pdf#chunk-2"]),
            ("Guide", ["guide.pdf#chunk-1", "guide.pdf#chunk-2", "note"]),
            ("note", ["note"]),
            ("guide", []),
            ("%", []),
            ("*", []),
        ],
    )
    def test_a_document_goes_with_its_chunks_and_nothing_else(
        self, store: Application, document: str, gone: list[str]
    ) -> None:
        before = set(found(store, "turbine"))
        assert delete_document(ACME, document, store).records == len(gone)
        assert before - set(found(store, "turbine")) == set(gone)

    def test_deleting_begins_a_new_generation(self, store: Application) -> None:
        before = store.cache.generation(ACME) or 0
        delete_records(ACME, ["note"], store)
        assert (store.cache.generation(ACME) or 0) > before

    def test_a_delete_of_a_document_that_ended_before_earlier_answers_were_outdated_is_completed_by_repeating_it(
        self, store: Application, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def lost(_: str) -> int:
            raise StoreError("the cache does not answer")

        with monkeypatch.context() as broken:
            broken.setattr(store.cache, "advance", lost)
            with pytest.raises(StoreError):
                delete_document(ACME, "Guide", store)
        before = store.cache.generation(ACME) or 0
        delete_document(ACME, "Guide", store)
        assert (store.cache.generation(ACME) or 0) > before
        assert found(store, "turbine") == ["guide.pdf-old", "turbine"]

    def test_what_moved_a_tenant_to_another_index_is_stopped_and_the_index_named(self, store: Application) -> None:
        for tenant in (ACME, GLOBEX):
            store.jobs.put(JobRecord(name=f"move:{tenant}", revision=1, body="{}"))
        report = delete_tenant(ACME, store)
        assert report.jobs == 1
        assert ["--rollback" in what for what in report.left] == [True]
        assert store.jobs.names() == [f"move:{GLOBEX}"]

    def test_a_tenant_takes_no_writes_while_it_is_deleted(
        self, store: Application, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        refused: list[str] = []
        forget = store.schemas.forget

        def write_meanwhile(tenant_id: str) -> int:
            with pytest.raises(TenantBeingDeleted, match="delete the tenant once more") as caught:
                written(store, record("pump", "the pump", kind=Kind.ENTITY, name="Pump"))
            refused.append(str(caught.value))
            write(WriteRequest(tenant_id=GLOBEX, records=(record("gate", "their gate", tenant_id=GLOBEX),)), store)
            return forget(tenant_id)

        monkeypatch.setattr(store.schemas, "forget", write_meanwhile)
        delete_tenant(ACME, store)
        assert len(refused) == 1
        assert store.index.stats(ACME).records == store.graph.stats(ACME).vertices == 0
        assert store.index.stats(GLOBEX).records == 2
        assert written(store, record("pump", "the pump", kind=Kind.ENTITY, name="Pump")).written == 1

    def test_a_write_that_was_under_way_while_its_tenant_was_deleted_leaves_nothing(
        self, store: Application, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pump = record("pump", "the pump", kind=Kind.ENTITY, name="Pump")
        items = (pump, vertex("hall", name="Hall"), edge("pump", "hall", "STANDS_IN"))
        check = writing.check
        deletions = iter([lambda: delete_tenant(ACME, store)])

        def delete_first(request: WriteRequest, given: Application) -> Any:
            checked = check(request, given)
            for delete in deletions:
                delete()
            return checked

        monkeypatch.setattr(writing, "check", delete_first)
        with pytest.raises(TenantBeingDeleted, match="was kept"):
            written(store, *items)
        counts = store.index.stats(ACME).records, store.graph.stats(ACME).vertices, store.graph.stats(ACME).edges
        assert counts == (0, 0, 0)
        assert repair(ACME, store, dry_run=True).counts == {}
        assert found(store, "pump") == []

    @pytest.mark.parametrize("apart", [False, True])
    def test_what_is_written_after_a_deletion_stays_when_a_write_ends_that_had_begun_before_it(
        self, store: Application, monkeypatch: pytest.MonkeyPatch, *, apart: bool
    ) -> None:
        if apart:
            monkeypatch.setattr(store, "write_generation", lambda _: None)
            without_transactions(store, monkeypatch)
        pump = record("pump", "the pump", kind=Kind.ENTITY, name="Pump")
        items = (pump, vertex("hall", name="Hall"), edge("pump", "hall", "STANDS_IN"))
        check = writing.check
        meanwhile = iter([lambda: delete_tenant(ACME, store), lambda: written(store, *items)])

        def begun_before(request: WriteRequest, given: Application) -> Any:
            checked = check(request, given)
            for act in meanwhile:
                act()
            return checked

        monkeypatch.setattr(writing, "check", begun_before)
        with pytest.raises(TenantBeingDeleted, match="was kept"):
            written(store, *items)
        assert (store.index.stats(ACME).records, store.graph.stats(ACME).vertices) == (1, 2)
        assert store.graph.stats(ACME).edges == 1
        assert repair(ACME, store, dry_run=True).counts == {}
        assert found(store, "pump") == ["pump"]

    def test_a_tenant_takes_no_writes_after_its_deletion_until_writes_that_it_met_have_ended(
        self, store: Application, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(store, "write_generation", lambda _: None)
        without_transactions(store, monkeypatch)
        items = (record("pump", "the pump", kind=Kind.ENTITY, name="Pump"), vertex("hall", name="Hall"))
        upsert = store.graph.upsert
        left: list[str] = []

        def deleted_meanwhile(*given: Any) -> None:
            upsert(*given)
            with monkeypatch.context() as patch:  # by other processes, which this one's turns do not bind
                patch.setattr(store.graph, "upsert", upsert)
                patch.setattr(writing, "writing_turn", lambda *_: nullcontext())
                patch.setattr(deleting, "writing_turn", lambda *_: nullcontext())
                left.extend(delete_tenant(ACME, store).left)
                with pytest.raises(TenantBeingDeleted, match="delete the tenant once more"):
                    written(store, *items)

        with monkeypatch.context() as patch:
            patch.setattr(store.graph, "upsert", deleted_meanwhile)
            with pytest.raises(TenantBeingDeleted, match="was kept"):
                written(store, *items)
        assert ["takes no writes" in one for one in left] == [True]
        assert store.index.stats(ACME).records == store.graph.stats(ACME).vertices == 0
        assert delete_tenant(ACME, store).left == ()
        assert written(store, *items).written == 1

    def test_a_deletion_that_breaks_off_is_repeated_before_the_tenant_takes_writes(
        self, store: Application, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def stop(*_: Any, **__: Any) -> None:
            message = "stopped"
            raise StoreError(message)

        with monkeypatch.context() as patch:
            patch.setattr(store.schemas, "forget", stop)
            with pytest.raises(StoreError, match="stopped"):
                delete_tenant(ACME, store)
        with pytest.raises(TenantBeingDeleted):
            written(store, record("pump", "the pump"))
        delete_tenant(ACME, store)
        assert written(store, record("pump", "the pump")).written == 1

    def test_nothing_is_left_of_a_tenant_and_everything_of_the_others(self, store: Application) -> None:
        for tenant in (ACME, GLOBEX):
            store.schemas.register(SchemaVersion(tenant_id=tenant, version=1, created_at=AS_OF))
            store.schemas.register(SchemaVersion(tenant_id=tenant, version=2, created_at=AS_OF))
            store.objects.put(tenant, "inbox/a.jsonl", b"{}")
            store.members.add(Membership(subject="user:ada", tenant_id=tenant))
            store.jobs.put(JobRecord(name=f"refresh:{tenant}", revision=1, body="{}"))
            asked = ReembedMessage(
                tenant_id=tenant, record_ids=("note",), reason=Reason.SCHEMA, target_schema_version=2
            )
            store.queue.send([asked.message()])
            for key in ("answer", "once/0f"):
                store.cache.put(tenant, key, b"the turbine hums", 60)
        before = store.cache.generation(ACME) or 0
        report = delete_tenant(ACME, store)
        assert (report.records, report.schemas, report.objects) == (5, 2, 1)
        assert (report.vertices, report.relationships) == (3, 3)
        assert (report.members, report.jobs, report.messages, report.cached, report.left) == (1, 1, 1, 2, ())
        assert [one.tenant_id for one in store.members.of("user:ada")] == [GLOBEX]
        assert store.jobs.names() == [f"refresh:{GLOBEX}"]
        assert [one.message.tenant_id for one in store.queue.receive(10, 30)] == [GLOBEX]
        assert [store.cache.get(tenant, "answer") for tenant in (ACME, GLOBEX)] == [None, b"the turbine hums"]
        assert delete_tenant(ACME, store).model_dump(exclude_defaults=True) == {"tenant_id": ACME}
        assert store.index.stats(ACME).records == store.graph.stats(ACME).vertices == store.graph.stats(ACME).edges == 0
        assert store.schemas.current(ACME) == 1
        assert list(store.objects.list(ACME)) == []
        assert (store.cache.generation(ACME) or 0) > before
        assert found(store, "turbine", tenant=GLOBEX) == ["note"]
        assert store.schemas.current(GLOBEX) == 2
        assert len(list(store.objects.list(GLOBEX))) == 1

    @pytest.mark.parametrize("step", ["graph.delete", "index.delete", "cache.advance"])
    def test_a_delete_that_was_stopped_is_completed_by_repeating_it(
        self, store: Application, monkeypatch: pytest.MonkeyPatch, step: str
    ) -> None:
        part, name = step.split(".")

        def stop(*_: Any) -> None:
            message = "stopped"
            raise StoreError(message)

        with monkeypatch.context() as patch:
            patch.setattr(getattr(store, part), name, stop)
            with pytest.raises(StoreError, match="stopped"):
                delete_document(ACME, "guide.pdf", store)
        delete_document(ACME, "guide.pdf", store)
        assert found(store, "turbine") == ["guide.pdf-old", "note", "turbine"]
        assert [one.type for one in store.graph.relationships(ACME, ids=["turbine", "hall"])] == ["HOUSES"]


ITEMS = (
    record("newer", "ada sells the hall", kind=Kind.FACT, valid_at=day(9), supersedes=("fact",)),
    vertex("market", name="Market"),
    edge("ada", "market", "SELLS", evidence="newer"),
    edge("ada", "newer", "STATES"),
)


def without_transactions(store: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a pair of stores commit nothing together, and log their writes, as deployed ones do."""
    monkeypatch.setattr(type(store), "intent_log", store.objects)
    if store.write_generation(ACME) is not None:
        monkeypatch.setattr(store, "transaction", lambda _: nullcontext())


def broken_off(store: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """Break a write off between two stores that cannot commit together, as a process that ends does."""
    without_transactions(store, monkeypatch)

    def stop(*_: Any) -> None:
        message = "stopped"
        raise StoreError(message)

    with monkeypatch.context() as patch:
        patch.setattr(store.graph, "upsert", stop)
        with pytest.raises(StoreError, match="stopped"):
            written(store, *ITEMS)


class RepairContract:
    """Comparing through :mod:`braid.ingestion.repair`."""

    @pytest.fixture(autouse=True)
    def _filled(self, store: Application) -> None:
        written(
            store,
            record("ada", "ada works", kind=Kind.ENTITY, name="Ada"),
            record("fact", "ada owns the hall", kind=Kind.FACT),
            vertex("hall", name="Hall"),
            edge("ada", "hall", "OWNS", evidence="fact"),
            edge("ada", "fact", "MENTIONS"),
        )

    def faults(self, store: Application) -> dict[Fault, int]:
        """Return what a dry run finds; it must change nothing."""
        first = repair(ACME, store, dry_run=True)
        assert repair(ACME, store, dry_run=True) == first
        assert not first.repaired
        return first.counts

    def test_stores_that_agree_have_no_fault(self, store: Application) -> None:
        report = repair(ACME, store)
        assert (report.records, report.vertices, report.relationships, report.counts) == (2, 3, 2, {})

    def test_an_entitys_record_without_its_vertex_gets_one(self, store: Application) -> None:
        store.graph.delete(ACME, ["ada"])
        assert self.faults(store) == {Fault.NO_VERTEX: 1}
        repair(ACME, store)
        (ada,) = store.graph.get_many(ACME, ["ada"])
        assert (ada.name, ada.has_record) == ("Ada", True)
        assert self.faults(store) == {}

    def test_a_vertex_without_its_record_and_an_edge_without_its_evidence_no_longer_claim_them(
        self, store: Application
    ) -> None:
        store.index.delete(ACME, ["fact"])
        assert self.faults(store) == {Fault.NO_RECORD: 1, Fault.NO_EVIDENCE: 1}
        report = repair(ACME, store)
        assert {one.message for one in report.findings} == {
            "the vertex claims a record that is not there",
            "'ada' OWNS 'hall': there is no record 'fact'",
        }
        assert self.faults(store) == {}
        assert [one.has_record for one in store.graph.get_many(ACME, ["fact"])] == [False]

    def test_a_vertex_is_told_of_its_record_and_of_its_end(self, store: Application) -> None:
        store.graph.upsert([vertex("fact", has_record=False)], [])
        ended = stored(store, "fact").model_copy(update={"invalid_at": day(9)})
        store.index.upsert([ended])
        assert self.faults(store) == {Fault.NOT_MARKED: 1, Fault.OTHER_VALIDITY: 1}
        repair(ACME, store)
        (fact,) = store.graph.get_many(ACME, ["fact"])
        assert (fact.has_record, fact.invalid_at) == (True, day(9))
        assert self.faults(store) == {}

    def test_a_vertex_is_as_trusted_as_its_record_and_an_edge_no_more_than_its_evidence(
        self, store: Application
    ) -> None:
        store.index.upsert([stored(store, "fact").model_copy(update={"trusted": False})])
        assert self.faults(store) == {Fault.OTHER_TRUST: 2}
        repair(ACME, store)
        assert {one.type: one.trusted for one in store.graph.relationships(ACME, ids=["ada"])} == {
            "OWNS": False,
            "MENTIONS": True,
        }
        assert [one.trusted for one in store.graph.get_many(ACME, ["fact"])] == [False]
        assert self.faults(store) == {}

    def test_a_stub_of_an_edge_that_ceases_to_be_trusted_does_so_too(self, store: Application) -> None:
        store.graph.upsert([vertex("stub", has_record=False)], [edge("ada", "stub", "OWNS", evidence="fact")])
        store.index.upsert([stored(store, "fact").model_copy(update={"trusted": False})])
        assert self.faults(store) == {Fault.OTHER_TRUST: 3}
        repair(ACME, store)
        assert [one.trusted for one in store.graph.get_many(ACME, ["stub", "hall"])] == [False, True]

    def test_a_trusted_record_s_vertex_gets_no_name_that_was_not_trusted(self, store: Application) -> None:
        strange = vertex("fact", name="A stranger's name", aliases=("Mallory",), has_record=False, trusted=False)
        store.graph.upsert([strange], [])
        assert self.faults(store) == {Fault.NOT_MARKED: 1, Fault.OTHER_TRUST: 1}
        repair(ACME, store)
        (fact,) = store.graph.get_many(ACME, ["fact"])
        assert (fact.name, fact.aliases, fact.trusted, fact.has_record) == (None, (), True, True)
        assert self.faults(store) == {}

    def test_the_edges_of_a_write_that_broke_off_are_written_from_its_note(
        self, store: Application, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broken_off(store, monkeypatch)
        assert found(store, "ada") == ["ada", "fact", "newer"]
        assert self.faults(store) == {Fault.NO_EDGE: 3, Fault.NO_VERTEX: 1}
        repair(ACME, store)
        edges = {edge.type: edge for edge in store.graph.relationships(ACME, ids=["ada", "newer"])}
        assert set(edges) == {"OWNS", "MENTIONS", "SELLS", "SUPERSEDES", "STATES"}
        assert edges["SELLS"].evidence == "newer"
        assert [one.name for one in store.graph.get_many(ACME, ["market"])] == ["Market"]
        assert stored(store, "fact").invalid_at == day(9)
        assert self.faults(store) == {}
        assert list(store.objects.list(ACME)) == []

    def test_what_was_written_or_deleted_since_a_write_broke_off_stays_as_it_is(
        self, store: Application, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broken_off(store, monkeypatch)
        written(store, vertex("market", name="Bazaar"), edge("ada", "market", "SELLS", confidence=0.5))
        delete_records(ACME, ["newer"], store)
        repair(ACME, store)
        edges = store.graph.relationships(ACME, ids=["ada"])
        assert {edge.type: edge.confidence for edge in edges} == {"OWNS": 1.0, "MENTIONS": 1.0, "SELLS": 0.5}
        assert [one.name for one in store.graph.get_many(ACME, ["market"])] == ["Bazaar"]
        assert stored(store, "fact").invalid_at is None
        assert self.faults(store) == {}

    def test_a_write_that_broke_off_and_is_repeated_leaves_no_note(
        self, store: Application, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broken_off(store, monkeypatch)
        written(store, *ITEMS)
        assert list(store.objects.list(ACME)) == []
        assert self.faults(store) == {}

    def test_another_tenants_faults_are_not_touched(self, store: Application) -> None:
        store.graph.upsert([vertex("x", tenant_id=GLOBEX)], [])
        repair(ACME, store)
        assert repair(GLOBEX, store, dry_run=True).counts == {Fault.NO_RECORD: 1}
