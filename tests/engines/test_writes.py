"""Writes, deletes and repair over a real OpenSearch and Gremlin Server keep the contracts of the embedded stores."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from braid.engines.neptune import element_layout
from braid.errors import TenantBeingDeleted
from braid.ingestion.archive_export import export_tenant
from braid.ingestion.archive_import import import_tenant
from braid.ingestion.bulk import import_steps
from braid.ingestion.bulk.step_messages import Phase
from braid.ingestion.tenant_deletion import delete_tenant
from braid.models import GraphSource, RelationshipKey
from braid.settings import Settings

from tests.contract.archive import ArchiveContract, fill
from tests.contract.bad_input import BadInputContract
from tests.contract.deletes import DeletesContract, RepairContract
from tests.contract.files import FilesContract
from tests.contract.filters import FiltersContract
from tests.contract.found_names import FoundNamesContract
from tests.contract.graph_keeping import GraphKeepingContract
from tests.contract.long_texts import LongTextsContract
from tests.contract.shapes import ACME, day, edge, record, vertex
from tests.contract.supplied_vectors import SuppliedVectorsContract
from tests.contract.writes import WritesContract, stored, written
from tests.file_steps import batches, begun, finished, put_lines
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from braid.models import Record
    from braid.ports.knowledge_graph import WritableGraph

    from tests.deployed_stages import DeployedStages


@pytest.fixture
def graph_source() -> GraphSource:
    return GraphSource.GIVEN


@pytest.fixture
def store(make_deployed: Callable[..., DeployedStages], graph_source: GraphSource) -> DeployedStages:
    return make_deployed(graph=graph_source)


class TestFoundNames(FoundNamesContract):
    @pytest.fixture
    def graph_source(self) -> GraphSource:
        return GraphSource.BOTH

    def test_batches_of_an_import_that_are_written_at_the_same_moment_take_nothing_from_each_other(
        self, store: DeployedStages, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(import_steps, "BATCH_LINES", 1)
        entity = {"entity": {"id": "ada", "name": "Ada Lovelace", "type": "Person"}}
        ada = {"record": {"id": "ada", "kind": "entity", "content": "She writes of engines."}}
        put_lines(store, [ada, {"record": {"id": "text", "content": "They met Ada Lovelace."}}, entity])
        job = begun(store)
        left, upsert = list(batches(store, job, Phase.ITEMS)), store.graph.upsert

        def meanwhile(*given: Any) -> None:
            if left:
                import_steps.batch(left.pop(), store)
            upsert(*given)

        monkeypatch.setattr(store.graph, "upsert", meanwhile)
        # Within a process writes of a tenant take turns.
        monkeypatch.setattr("braid.ingestion.writing.writing_turn", lambda *_: nullcontext())
        import_steps.batch(left.pop(0), store)
        for task in (*left, *batches(store, job, Phase.EDGES)):
            import_steps.batch(task, store)
        finished(store, job)
        assert [one.source for one in store.graph.found_mentions(ACME, ["text"])] == ["ada"]
        vertices = {(one.id, one.name, one.entity_type, one.has_record) for one in store.graph.scan(ACME).vertices}
        assert vertices == {("ada", "Ada Lovelace", "Person", True), ("text", None, "Document", True)}


class TestWrites(WritesContract):
    pass


class TestSuppliedVectors(SuppliedVectorsContract):
    pass


class TestLongTexts(LongTextsContract):
    pass


class TestFiles(FilesContract):
    pass


class TestFilters(FiltersContract):
    pass


class TestBadInput(BadInputContract):
    pass


class TestDeletes(DeletesContract):
    pass


class TestRepair(RepairContract):
    pass


class TestArchives(ArchiveContract):
    """From here to the embedded engine, and back."""

    @pytest.fixture
    def other(self, tmp_path: Path) -> Iterator[Callable[[], DemoStages]]:
        stages = DemoStages(Settings(home=tmp_path / "other"))
        yield lambda: stages
        stages.close()

    @pytest.mark.parametrize("place", ["index", "graph"])
    @pytest.mark.parametrize("before", [True, False])
    def test_of_what_is_imported_nothing_comes_back_after_its_tenant_was_deleted_meanwhile(
        self, store: DeployedStages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, before: bool
    ) -> None:
        fill(store)
        export_tenant(ACME, store, tmp_path / "archive")
        delete_tenant(ACME, store)
        changed, left = getattr(store, place), [ACME]
        upsert = changed.upsert

        def meanwhile(*given: Any) -> None:
            if left and before:
                delete_tenant(left.pop(), store)
            upsert(*given)
            if left:
                delete_tenant(left.pop(), store)

        monkeypatch.setattr(changed, "upsert", meanwhile)
        with pytest.raises(TenantBeingDeleted):
            import_tenant(tmp_path / "archive", store)
        assert not left
        assert store.index.scan(ACME).records == store.graph.scan(ACME).vertices == ()

    def test_an_export_that_cannot_know_whether_the_tenant_was_written_to_says_that_it_may_have_been(
        self, store: DeployedStages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(store.cache, "generation", lambda _tenant_id: None)
        assert export_tenant(ACME, store, tmp_path / "archive").changed


class TestTwoAtOnce:
    """What another process writes or removes between what a write reads and what it writes."""

    @pytest.fixture(autouse=True)
    def _filled(self, store: DeployedStages) -> None:
        written(store, record("old", "the first words"), record("heard", "they said"), vertex("a"), vertex("b"))
        written(store, edge("a", "b", "OWNS"), edge("a", "b", "CAUSES", evidence="heard"))

    def between(self, store: DeployedStages, monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
        """Have something done once, before a write ends what it has read."""
        for each in (store.index, store.graph):
            end = each.set_validity

            def meanwhile(*items: Any, end: Any = end) -> None:
                if left:
                    left.pop()()
                end(*items)

            monkeypatch.setattr(each, "set_validity", meanwhile)
        left = [do]

    def test_what_is_written_meanwhile_is_kept(self, store: DeployedStages, monkeypatch: pytest.MonkeyPatch) -> None:
        newer = stored(store, "old").model_copy(update={"content": "the second words"})
        self.between(store, monkeypatch, lambda: store.index.upsert([newer]))
        written(store, record("new", "the last words", supersedes=("old",), valid_at=day(3)))
        assert (stored(store, "old").content, stored(store, "old").invalid_at) == ("the second words", day(3))
        store.index.upsert([newer])
        assert stored(store, "old").invalid_at is None, "written whole, it is what was written"

    def test_what_is_removed_meanwhile_stays_so(self, store: DeployedStages, monkeypatch: pytest.MonkeyPatch) -> None:
        def remove() -> None:
            store.graph.delete(ACME, ["old"])
            store.graph.delete_relationships(ACME, [edge("a", "b", "OWNS")])
            store.index.delete(ACME, ["old"])

        self.between(store, monkeypatch, remove)
        ends = RelationshipKey(source="a", type="OWNS", target="b")
        written(
            store,
            record("new", "the last words", supersedes=("old",), valid_at=day(3)),
            edge("b", "a", "OWNS", supersedes=(ends,)),
        )
        assert store.index.get_many(ACME, ["old"]) == []
        assert [one.id for one in store.graph.get_many(ACME, ["old", "new"])] == ["new"]
        assert [one.source for one in store.graph.relationships(ACME, ids=["a"], types=["OWNS"])] == ["b"]

    @pytest.mark.parametrize("place", ["index", "graph"])
    def test_what_is_superseded_while_it_is_written_again_ends(
        self, store: DeployedStages, monkeypatch: pytest.MonkeyPatch, place: str
    ) -> None:
        changed, other = getattr(store, place), type(store)(store.settings)
        upsert, left = changed.upsert, [record("new", "the last words", supersedes=("heard",), valid_at=day(3))]

        def meanwhile(*given: Any) -> None:
            if left:
                written(other, left.pop())
            upsert(*given)

        monkeypatch.setattr(changed, "upsert", meanwhile)
        # Within a process writes of a tenant take turns.
        monkeypatch.setattr("braid.ingestion.writing.writing_turn", lambda *_: nullcontext())
        written(store, record("heard", "they said more"), edge("b", "a", "CAUSES", evidence="heard"))
        assert (stored(store, "heard").content, stored(store, "heard").invalid_at) == ("they said more", day(3))
        assert [one.invalid_at for one in store.graph.get_many(ACME, ["heard"])] == [day(3)]
        edges = store.graph.relationships(ACME, ids=["a"], types=["CAUSES"])
        assert [(one.source, one.invalid_at) for one in edges] == [("a", day(3)), ("b", day(3))]
        other.close()

    def test_to_end_what_is_written_again_no_text_of_what_supersedes_it_is_read(
        self, store: DeployedStages, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        written(store, record("new", "the last words", supersedes=("heard",), valid_at=day(3)))
        read: list[str] = []
        get_many = store.index.get_many

        def noted(tenant_id: str, ids: Sequence[str], **fields: Any) -> list[Record]:
            read.extend(ids)
            return get_many(tenant_id, ids, **fields)

        monkeypatch.setattr(store.index, "get_many", noted)
        written(store, record("heard", "they said more"))
        assert set(read) == {"heard"}
        assert stored(store, "heard").invalid_at == day(3)

    def test_an_edge_is_no_more_trusted_than_its_evidence_if_that_is_doubted_meanwhile(
        self, store: DeployedStages, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        upsert, left = store.graph.upsert, ["heard"]

        def meanwhile(*given: Any) -> None:
            if left:
                heard = stored(store, left.pop()).model_copy(update={"trusted": False})
                store.index.upsert([heard])
                store.graph.distrust_relationships(ACME, [heard.id])
            upsert(*given)

        monkeypatch.setattr(store.graph, "upsert", meanwhile)
        written(store, edge("b", "a", "CAUSES", evidence="heard"))
        found = store.graph.relationships(ACME, ids=["a"], types=["CAUSES"])
        assert [(one.source, one.trusted) for one in found] == [("a", False), ("b", False)]

    def test_an_edge_that_is_removed_while_its_evidence_is_doubted_stays_so(self, store: DeployedStages) -> None:
        submit, graph = store.graph._connection.submit, store.graph
        removed: list[int] = []

        def meanwhile(build: Any, **within: Any) -> list[Any]:
            found = submit(build, **within)
            if getattr(build, "func", None) is element_layout.fetch_edges_to_distrust and not removed:
                removed.append(graph.delete_relationships(ACME, [edge("a", "b", "CAUSES")]))
            return found

        graph._connection.submit = meanwhile
        assert graph.distrust_relationships(ACME, ["heard"]) == 1
        assert removed == [1]
        assert graph.relationships(ACME, ids=["a"], types=["CAUSES"]) == []


class TestGraphKeeping(GraphKeepingContract):
    @pytest.fixture
    def graph(self, store: DeployedStages) -> WritableGraph:
        return store.graph
