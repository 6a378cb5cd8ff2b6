"""The embedded engines keep what is written to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.engines.embedded.store import VECTORS
from braid.ingestion.deleting import delete_records
from braid.ingestion.tenant_deletion import delete_tenant
from braid.ingestion.writing import MissingEnds, WriteRequest, write
from braid.models import GraphSource
from braid.settings import Settings

from tests.contract.archive import ArchiveContract, DamagedArchiveContract
from tests.contract.bad_input import BadInputContract
from tests.contract.deletes import DeletesContract, RepairContract
from tests.contract.files import FilesContract
from tests.contract.filters import FiltersContract
from tests.contract.found_names import FoundNamesContract
from tests.contract.graph_keeping import GraphKeepingContract
from tests.contract.long_texts import LongTextsContract
from tests.contract.shapes import ACME, GLOBEX, edge, record, vertex
from tests.contract.supplied_vectors import SuppliedVectorsContract
from tests.contract.writes import WritesContract, found, written
from tests.stages import DemoStages, WordEncoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from braid.ports.knowledge_graph import WritableGraph


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DemoStages]:
    stages = DemoStages(Settings(home=tmp_path, graph=GraphSource.GIVEN))
    yield stages
    stages.close()


class TestFoundNames(FoundNamesContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[DemoStages]:
        stages = DemoStages(Settings(home=tmp_path, graph=GraphSource.BOTH))
        yield stages
        stages.close()


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


class TestArchives(ArchiveContract, DamagedArchiveContract):
    @pytest.fixture
    def other(self, tmp_path: Path) -> Iterator[Callable[[], DemoStages]]:
        stages = DemoStages(Settings(home=tmp_path / "other"))
        yield lambda: stages
        stages.close()


class TestGraphKeeping(GraphKeepingContract):
    @pytest.fixture
    def graph(self, store: DemoStages) -> WritableGraph:
        return store.graph


def test_with_its_last_record_go_a_tenants_vector_graphs_and_words(store: DemoStages) -> None:
    for tenant in (ACME, GLOBEX):
        records = tuple(record(f"r{number}", f"zyx turbine {number}", tenant_id=tenant) for number in range(3))
        write(WriteRequest(tenant_id=tenant, records=records), store)
        assert isinstance(store.index, EmbeddedSearchIndex)
        store.index.optimise(tenant)
    with store.store.read() as connection:
        numbers = {tenant: store.store.tenant_number(connection, tenant) for tenant in (ACME, GLOBEX)}
    files = {path.name.partition("-")[0] for path in (store.store.folder / VECTORS).iterdir()}
    assert files == {str(number) for number in numbers.values()}
    delete_records(ACME, ["r0", "r1"], store)
    assert delete_tenant(ACME, store).records == 1
    files = {path.name.partition("-")[0] for path in (store.store.folder / VECTORS).iterdir()}
    assert files == {str(numbers[GLOBEX])}
    with store.store.read() as connection:
        words = {
            tenant: b"".join(row[0] for row in connection.execute(f"SELECT block FROM words_{number}_data"))  # noqa: S608 - a number
            for tenant, number in numbers.items()
        }
    assert (b"zyx" in words[ACME], b"zyx" in words[GLOBEX]) == (False, True)
    assert found(store, "zyx", tenant=GLOBEX) == ["r0", "r1", "r2"]
    write(WriteRequest(tenant_id=ACME, records=(record("r0", "zyx again"),)), store)
    assert found(store, "zyx") == ["r0"]


def test_what_others_write_while_the_models_work_is_seen_by_a_write(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = WordEncoder.encode

    def overtaken(encoder: WordEncoder, texts: list[str], *, instruction: str = "") -> list[bytes]:
        monkeypatch.setattr(WordEncoder, "encode", encode)
        written(store, vertex("pump", name="Pump", has_record=False))
        return encode(encoder, texts, instruction=instruction)

    monkeypatch.setattr(WordEncoder, "encode", overtaken)
    report = written(store, record("r", "a pump drips"), edge("r", "pump"), missing=MissingEnds.STUB)
    assert (report.written, report.stubs, report.relationships) == (1, 0, 1)
    assert [one.name for one in store.graph.get_many(ACME, ["pump"])] == ["Pump"]


def test_a_write_whose_end_others_delete_while_the_models_work_is_refused_whole(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(store, vertex("pump", name="Pump", has_record=False))
    encode = WordEncoder.encode

    def overtaken(encoder: WordEncoder, texts: list[str], *, instruction: str = "") -> list[bytes]:
        delete_records(ACME, ["pump"], store)
        return encode(encoder, texts, instruction=instruction)

    monkeypatch.setattr(WordEncoder, "encode", overtaken)
    report = written(store, record("r", "a pump drips"), edge("r", "pump"))
    assert [error.field for error in report.errors] == ["target"]
    assert found(store, "pump") == []
