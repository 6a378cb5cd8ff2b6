"""Nothing of a tenant is left in files that nobody knows of."""

from __future__ import annotations

import contextlib
import os
import random
import stat
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from braid.engines.embedded.graph import mapped_graph, tenant_graphs
from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph
from braid.engines.embedded.object_store import EmbeddedObjectStore
from braid.engines.embedded.search import index as index_module
from braid.engines.embedded.search.hnsw_graph import HnswGraph
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.engines.embedded.sqlite_files import StoreFiles
from braid.ingestion.tenant_deletion import delete_tenant
from braid.models import Query
from braid.ports.ingestion import WriteRequest
from braid.ports.knowledge_graph import ExpandRequest
from braid.retrieval.context.episodes import record_decision
from braid.retrieval.context.message_selection import ContextRequest
from braid.settings import Settings

from braid_cli.commands.delete import delete_tenant as run_delete
from braid_cli.evaluation.run import isolated_engines
from tests.contract.shapes import ACME, AS_OF, DIMENSIONS, GLOBEX, edge, embedding, random_vector, record, vertex
from tests.stages import DEMO, DemoStages, read_dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from braid.models import Answer, Record
    from braid.retrieval.stages.stage_messages import FuseRequest


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DemoStages]:
    """Give a store of one tenant with files of a graph and of vectors."""
    monkeypatch.setattr(tenant_graphs, "_MIN_SAVED", 0)  # every graph is large
    with contextlib.closing(DemoStages(Settings(home=tmp_path))) as stages:
        stages.graph.upsert([vertex("a", name="Orla Quill"), vertex("b")], [edge("a", "b")])
        generator = random.Random(1)  # noqa: S311 - a fixed sequence
        vectors = [embedding(random_vector(generator)) for _ in range(300)]
        records = [record(f"r{number}", embeddings=(each,)) for number, each in enumerate(vectors)]
        EmbeddedSearchIndex(stages.store, DIMENSIONS).upsert(records)
        yield stages


def save_graph(stages: DemoStages) -> None:
    """Save the graph as another process would."""
    EmbeddedKnowledgeGraph(stages.store, max_loaded_first=0).prepare_walks(ACME)


def save_vectors(stages: DemoStages) -> None:
    """Save the vectors as another process would."""
    EmbeddedSearchIndex(stages.store, DIMENSIONS).optimise(ACME)


def files(stages: DemoStages) -> list[str]:
    folders = ("graphs", "vectors")
    return [str(path) for name in folders for path in (stages.store.folder / name).glob("*")]


def test_an_answer_and_a_context_that_are_made_while_their_tenant_is_deleted_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(DemoStages(Settings(home=tmp_path))) as stages:
        fuse_rerank = stages.fuse_rerank

        def meanwhile(request: FuseRequest) -> Answer:
            answer = fuse_rerank(request)
            assert answer.results
            delete_tenant(ACME, stages)
            return answer

        def values() -> set[str]:
            with stages.store.read() as connection:
                return {key.partition("|")[0] for (key,) in connection.execute("SELECT key FROM cache")}

        for ask in (
            lambda: stages.answer(Query(text="heron", tenant_id=ACME)),
            lambda: stages.context(ContextRequest(query="heron", tenant_id=ACME)),
        ):
            stages.write(WriteRequest(tenant_id=ACME, records=(record("r", "the heron's secret"),)))
            ask()
            assert values() & {"result", "context"}
            with monkeypatch.context() as patch:
                patch.setattr(stages, "fuse_rerank", meanwhile)
                stages.write(WriteRequest(tenant_id=ACME, records=(record("r", "the heron's other secret"),)))
                ask()
            assert not values() & {"result", "context"}


def test_uses_that_are_added_after_their_records_or_their_tenant_were_deleted_are_left_out(tmp_path: Path) -> None:
    with contextlib.closing(DemoStages(Settings(home=tmp_path))) as stages:
        records = tuple(record(name, "the heron's secret") for name in ("kept", "gone", "last"))
        stages.write(WriteRequest(tenant_id=ACME, records=records))
        stages.uses.note(ACME, ["kept", "gone"])
        stages.uses.add_gathered()
        assert stages.uses.of(ACME) == {"kept": 1.0, "gone": 1.0}
        stages.uses.note(ACME, ["last", "kept"])
        stages.delete(ACME, ["gone", "last"])
        stages.uses.add_gathered()
        assert stages.uses.of(ACME) == {"kept": 2.0}
        stages.uses.note(ACME, ["kept"])
        delete_tenant(ACME, stages)
        stages.uses.add_gathered()
        assert stages.uses.of(ACME) == {}


def test_an_episode_that_is_written_while_its_tenant_is_deleted_goes_with_it(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    upsert = store.index.upsert
    deletion = threading.Thread(target=delete_tenant, args=(ACME, store))

    def deleted_meanwhile(records: list[Record]) -> None:
        deletion.start()
        deletion.join(0.5)  # it waits for the write that has begun
        upsert(records)

    monkeypatch.setattr(store.index, "upsert", deleted_meanwhile)
    record_decision("keep the canary", tenant_id=ACME, store=store)
    deletion.join()
    assert store.index.stats(ACME).records == 0


@pytest.mark.parametrize(
    ("save", "owner", "name"),
    [(save_graph, mapped_graph, "write"), (save_vectors, HnswGraph, "_save")],
    ids=["graph", "vectors"],
)
def test_what_a_process_saves_of_a_tenant_that_another_has_deleted_meanwhile_is_removed(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch, save: Callable[[DemoStages], None], owner: Any, name: str
) -> None:
    original = getattr(owner, name)

    def deleted_meanwhile(*given: Any) -> None:
        delete_tenant(ACME, store)
        original(*given)

    monkeypatch.setattr(owner, name, deleted_meanwhile)
    save(store)
    assert files(store) == []


def test_a_deletion_that_is_killed_before_it_removes_the_files_is_completed_by_repeating_it(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_graph(store)
    save_vectors(store)
    with monkeypatch.context() as killed:
        for module in (tenant_graphs, index_module):
            killed.setattr(module, "remove_files", lambda *_: None)
        delete_tenant(ACME, store)
    assert len(files(store)) == 3
    delete_tenant(ACME, store)
    assert files(store) == []


def test_no_table_has_an_id_or_a_type_of_a_tenant_that_was_deleted(store: DemoStages) -> None:
    other = EmbeddedKnowledgeGraph(store.store)
    asked = ExpandRequest(tenant_id=ACME, seeds=("zqb",), max_hops=2, direction="both", records_only=False, as_of=AS_OF)
    store.graph.upsert([vertex("zqa"), vertex("zqb", entity_type="Zqtype")], [edge("zqa", "zqb", "ZQ_KNOWS")])
    assert len(other.expand(asked).hits) == 1
    delete_tenant(ACME, store)
    with store.store.read() as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        kept = {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}  # noqa: S608 - ours
    assert "graph_changes" in kept
    assert [name for name, rows in kept.items() if "zq" in repr(rows).lower()] == []
    assert other.expand(asked).hits == ()
    store.graph.upsert([vertex("zqb"), vertex("zqc")], [edge("zqb", "zqc")])
    assert [hit.id for hit in other.expand(asked).hits] == ["zqc"]
    assert other.stats(ACME).vertices == 2


def test_a_half_written_graph_of_a_killed_process_goes_with_the_next_or_with_its_tenant(store: DemoStages) -> None:
    folder = store.store.folder / "graphs"
    folder.mkdir()
    old, new, another = folder / "1.old.new", folder / "1.new.new", folder / "2.old.new"
    for path in (old, new, another):
        path.write_bytes(b"Orla Quill")
    for path in (old, another):
        os.utime(path, (time.time() - 2 * 3_600,) * 2)
    save_graph(store)
    assert set(folder.iterdir()) == {new, another, folder / "1.graph"}
    store.graph.delete(ACME, ["a", "b"])
    assert set(folder.iterdir()) == {another}


def test_the_file_of_a_process_that_was_killed_goes_with_its_tenant(tmp_path: Path) -> None:
    stages = DemoStages(Settings(home=tmp_path))
    stages.objects.put(GLOBEX, "inbox/kept", b"theirs")
    folder = tmp_path / "objects"
    old, new, (kept,) = folder / ("0" * 32), folder / ("1" * 32), list(folder.iterdir())
    long_ago = time.time() - 2 * 3_600
    for path in (old, new, kept):
        path.write_bytes(b"theirs")
    for path in (old, kept):
        os.utime(path, (long_ago, long_ago))
    delete_tenant(ACME, stages)
    assert set(folder.iterdir()) == {new, kept}
    os.utime(new, (long_ago, long_ago))
    stages.close()
    again = DemoStages(Settings(home=tmp_path))
    again.objects.put(GLOBEX, "inbox/other", b"theirs")
    assert not new.exists()
    assert b"".join(again.objects.open(GLOBEX, "inbox/kept")) == b"theirs"
    again.close()


def test_the_files_of_all_tenants_are_looked_at_once_an_hour_and_not_for_each_import(store: DemoStages) -> None:
    seconds = [0.0]
    objects = EmbeddedObjectStore(store.store, stopwatch=lambda: seconds[0])
    objects.put(GLOBEX, "inbox/kept", b"theirs")
    folder, long_ago = store.store.folder / "objects", time.time() - 2 * 3_600

    def left_by_a_killed_process(name: str) -> Path:
        path = folder / (name * 32)
        path.write_bytes(b"theirs")
        os.utime(path, (long_ago, long_ago))
        return path

    first = left_by_a_killed_process("0")
    objects.delete_many(ACME, ["ingest/1/pages/begun"])
    assert not first.exists()
    second = left_by_a_killed_process("1")
    seconds[0] += 3_599
    objects.delete_many(ACME, ["ingest/2/pages/begun"])
    assert second.exists()
    seconds[0] += 1
    objects.delete_many(ACME, ["ingest/3/pages/begun"])
    assert not second.exists()
    assert b"".join(objects.open(GLOBEX, "inbox/kept")) == b"theirs"


def test_what_an_evaluation_keeps_is_its_owners_alone_and_named_when_a_tenant_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = DemoStages(Settings(home=tmp_path))
    (tmp_path / "eval").mkdir(mode=0o755)
    isolated_engines(read_dataset(DEMO / "saltmarrow", "eval"), stages)
    assert stat.S_IMODE((tmp_path / "eval").stat().st_mode) == 0o700
    monkeypatch.setattr("braid_cli.commands.delete.open_application", lambda _: stages)
    run_delete(tenant=ACME, yes=True, as_json=True)
    assert str(tmp_path / "eval") in capsys.readouterr().out
    for name in ("audit.jsonl", "audit.1.jsonl", "audit-unknown.jsonl"):
        (tmp_path / name).touch()
    assert tmp_path in list(StoreFiles(tmp_path / "braid.db")._private())
    stages.close()
