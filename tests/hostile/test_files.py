"""Files of a store that are damaged, emptied, cut, replaced or removed: a clear error or all of it, no dead process."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import stat
from typing import TYPE_CHECKING, Any

import pytest
from braid.engines.embedded.cache_schemas_jobs_members import EmbeddedJobStore
from braid.engines.embedded.graph import tenant_graphs
from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph
from braid.engines.embedded.search import hnsw_segments
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.engines.embedded.store import EmbeddedStore
from braid.errors import StoreCorrupt, StoreError
from braid.ingestion.archive_export import export_tenant
from braid.models import EmbeddingType
from braid.ports.knowledge_graph import ExpandRequest
from braid.ports.reembedding import JobRecord

from tests.contract.shapes import ACME, AS_OF, edge, vertex
from tests.front_door import FrontDoor, claims
from tests.hostile.test_kills import found_by_meaning, found_by_words
from tests.hostile.writers import apply, everything, stages, word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection
    from pathlib import Path

    from tests.stages import DemoStages

    Damage = Callable[[Path], None]

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.hostile.writers"])
WRITES = 12


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def halved(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def removed(path: Path) -> None:
    path.unlink()


def replaced(path: Path) -> None:
    """Put a file of the same length and another content in its place."""
    other = path.with_name("other")
    other.write_bytes(bytes(random.Random(1).randbytes(path.stat().st_size)))  # noqa: S311 - no secret
    other.replace(path)


def flipped(path: Path) -> None:
    """Turn the bits of 64 bytes in a row, all over the file."""
    content = bytearray(path.read_bytes())
    for begin in range(0, len(content), 4_096):
        for at in range(begin, min(begin + 64, len(content))):
            content[at] ^= 0xFF
    path.write_bytes(content)


def overwritten(path: Path) -> None:
    """Write other content of the same length into the file itself."""
    with path.open("r+b") as file:
        file.write(random.Random(1).randbytes(path.stat().st_size))  # noqa: S311 - no secret


DAMAGE = [emptied, halved, removed, replaced, flipped]


def names(damage: Damage) -> str:
    return getattr(damage, "__name__", "")


def fill(store: DemoStages) -> None:
    for number in range(WRITES):
        apply(store, "a", ("write", number % 6, number))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Return a folder with a store as a killed process leaves it, with its log, and what it holds."""
    folder = tmp_path_factory.mktemp("filled")
    store = stages(folder / "open")
    fill(store)
    assert isinstance(store.index, EmbeddedSearchIndex)
    store.index.optimise(ACME)
    shutil.copytree(folder / "open", folder / "home")
    assert (folder / "home" / "braid.db-wal").stat().st_size > 100_000
    held = everything(store)
    store.close()
    return folder / "home", held


def require_all(home: Path, held: dict[str, Any]) -> None:
    """Require a store that holds all of it, finds it, and takes another write."""
    store = stages(home)
    try:
        assert everything(store) == held
        for group in range(6):
            text = word("a", group, group + 6)
            assert f"a{group}-e" in found_by_words(store, text)
            assert f"a{group}-e" in found_by_meaning(store, f"{text} hums", {f"a{group}-e"})
        apply(store, "b", ("write", 0, 0))
        assert len(found_by_words(store, word("b", 0, 0))) == 7
    finally:
        store.close()


@pytest.mark.parametrize("damage", DAMAGE, ids=names)
@pytest.mark.parametrize("name", ["braid.db", "braid.db-wal", "braid.db-shm", "braid.db-commits"])
def test_a_closed_store_with_a_damaged_file_is_refused_or_whole(
    tmp_path: Path, filled: tuple[Path, dict[str, Any]], name: str, damage: Damage
) -> None:
    source, held = filled
    home = tmp_path / "home"
    shutil.copytree(source, home)
    damage(home / name)
    # What is in the log is not needed in the database.
    whole = name in {"braid.db-shm", "braid.db-commits"} or (name == "braid.db" and damage in {replaced, flipped})
    if whole:
        require_all(home, held)
    else:
        with pytest.raises(StoreCorrupt, match="restore a copy of the whole folder"):
            require_all(home, held)


@pytest.mark.parametrize("damage", DAMAGE, ids=names)
def test_a_database_without_a_log_that_was_damaged_is_refused(
    tmp_path: Path, filled: tuple[Path, dict[str, Any]], damage: Damage
) -> None:
    source, held = filled
    shutil.copytree(source, tmp_path / "home")
    stages(tmp_path / "home").store.close()  # takes the log into the database
    assert not (tmp_path / "home/braid.db-wal").exists()
    damage(tmp_path / "home/braid.db")
    with pytest.raises(StoreError, match=r"restore a copy of the whole folder|damaged"):
        require_all(tmp_path / "home", held)


def test_what_is_left_of_a_store_is_used_once_its_owner_says_so(
    tmp_path: Path, filled: tuple[Path, dict[str, Any]]
) -> None:
    home = tmp_path / "home"
    shutil.copytree(filled[0], home)
    halved(home / "braid.db-wal")
    with pytest.raises(StoreCorrupt, match=r"lacks its newest \d+ commits.*remove .*braid\.db-commits to go on"):
        EmbeddedStore(home)
    (home / "braid.db-commits").unlink()
    store = stages(home)
    assert 0 < len(everything(store)) <= len(filled[1])
    store.close()


def test_another_database_in_its_place_is_refused(tmp_path: Path, filled: tuple[Path, dict[str, Any]]) -> None:
    home = tmp_path / "home"
    shutil.copytree(filled[0], home)
    with EmbeddedStore(tmp_path / "other") as other:
        EmbeddedJobStore(other).put(JobRecord(name="a", revision=1, body="b" * 4_000_000))
    (home / "braid.db-wal").unlink()
    shutil.copy(tmp_path / "other/braid.db", home / "braid.db")
    with pytest.raises(StoreCorrupt, match="is not the database that was written here"):
        EmbeddedStore(home)


@pytest.mark.parametrize("damage", DAMAGE, ids=names)
@pytest.mark.parametrize("kind", ["json", "usearch"])
def test_a_damaged_vector_graph_is_built_again(
    tmp_path: Path, filled: tuple[Path, dict[str, Any]], kind: str, damage: Damage
) -> None:
    source, held = filled
    shutil.copytree(source, tmp_path / "home")
    files = list((tmp_path / "home/vectors").glob(f"*.{kind}"))
    assert files
    for path in files:
        damage(path)
    require_all(tmp_path / "home", held)


def serve(home: Path, asked: Connection) -> None:
    """Answer requests as the function behind the HTTP interface does, with small segments searched by their edges."""
    hnsw_segments.SIZE, hnsw_segments.EXACT_VECTORS = 16, 0  # type: ignore[misc]
    store = stages(home)
    store.index = EmbeddedSearchIndex(store.store, store.profiles.dimensions(), exact_rows=0)  # type: ignore[assignment]
    fill(store)
    store.index.optimise(ACME)
    door = FrontDoor(store)
    asked.send("ready")
    while True:
        method, path, body = asked.recv()
        answered = door.ask(method, path, body, authorizer=claims(ACME))
        asked.send((answered.status, answered.text))


class Server:
    """A process that answers requests."""

    def __init__(self, home: Path) -> None:
        self._connection, theirs = PROCESSES.Pipe()
        self.process = PROCESSES.Process(target=serve, args=(home, theirs), daemon=True)
        self.process.start()
        theirs.close()
        assert self._connection.poll(60)
        assert self._connection.recv() == "ready"

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        self._connection.send((method, path, body))
        try:
            assert self._connection.poll(60)
            status, text = self._connection.recv()
        except EOFError:
            self.process.join()
            pytest.fail(f"the server died by {self.process.exitcode}")
        return status, text

    def search(self) -> tuple[int, str]:
        return self.ask("POST", "/search", {"text": f"machine a0 {word('a', 0, 6)} hums"})

    def write(self, name: str) -> int:
        body = {"records": [{"id": name, "content": f"zq{name} hums", "kind": "entity", "name": name}]}
        return self.ask("POST", "/records", body)[0]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path / "home")
    yield running
    running.process.kill()
    running.process.join()


@pytest.mark.parametrize("damage", DAMAGE, ids=names)
@pytest.mark.parametrize("name", ["braid.db", "braid.db-wal", "braid.db-shm"])
def test_a_server_whose_files_are_damaged_lives_and_loses_nothing_in_silence(
    tmp_path: Path, server: Server, name: str, damage: Damage
) -> None:
    home = tmp_path / "home"
    status, right = server.search()
    assert (status, server.write("w0")) == (200, 200)
    damage(home / name)
    acknowledged = ["w0"]
    for number in range(1, 4):
        status, text = server.search()
        assert status >= 500 or ("a0-e" in text) == ("a0-e" in right)
        status = server.write(f"w{number}")
        assert status == 200 or status >= 500
        acknowledged += [f"w{number}"] if status == 200 else []
    assert server.process.is_alive()
    server.process.kill()
    server.process.join()
    try:
        store = stages(home)
        held = everything(store)
        found = {one for one in acknowledged if found_by_words(store, f"zq{one}") == {one}}
        store.close()
    except StoreError:
        return  # it says so
    assert found == set(acknowledged)
    assert len(held) > 60
    assert {f"record {one}" for one in acknowledged} <= set(held)


@pytest.mark.parametrize("damage", [*DAMAGE, overwritten], ids=names)
def test_a_server_whose_mapped_vectors_are_damaged_finds_them_all_the_same(
    tmp_path: Path, server: Server, damage: Damage
) -> None:
    status, right = server.search()
    assert status == 200
    files = list((tmp_path / "home/vectors").glob("*.usearch"))
    assert len(files) > 1
    for path in files:
        damage(path)
    assert server.write("w0") == 200
    status, text = server.search()
    assert (status, "a0-e" in text) == (200, "a0-e" in right)
    assert server.process.is_alive()


def walk_a_graph_that_is_cut(folder: Path) -> None:
    """Walk a graph that is mapped from a file, and again once that is empty."""
    tenant_graphs._MIN_SAVED = 0  # as of a graph of 100,000 edges, which is still read whole
    with EmbeddedStore(folder) as store:
        graph = EmbeddedKnowledgeGraph(store, max_loaded_first=0)
        graph.upsert([vertex(name) for name in "abc"], [edge("a", "b"), edge("b", "c")])
        asked = ExpandRequest(tenant_id=ACME, seeds=("a",), max_hops=2, records_only=False, as_of=AS_OF)
        before = [graph.expand(asked) for _ in range(3)]
        (file,) = (folder / "graphs").iterdir()
        emptied(file)
        assert graph.expand(asked) == before[0] == before[2]


def test_a_process_whose_mapped_graph_is_cut_lives_and_reads_the_rows(tmp_path: Path) -> None:
    process = PROCESSES.Process(target=walk_a_graph_that_is_cut, args=(tmp_path,))
    process.start()
    process.join(60)
    assert process.exitcode == 0


def modes(home: Path) -> dict[str, int]:
    return {str(path.relative_to(home)): stat.S_IMODE(path.stat().st_mode) for path in (home, *home.rglob("*"))}


def require_private(home: Path) -> None:
    found = modes(home)
    assert {"braid.db", "braid.db-wal", "braid.db-shm", "braid.db-commits", "vectors", "objects"} <= set(found)
    assert len(found) > 8
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}


@pytest.fixture
def with_all_files(tmp_path: Path) -> Iterator[DemoStages]:
    before = os.umask(0o022)
    store = stages(tmp_path / "home")
    fill(store)
    assert isinstance(store.index, EmbeddedSearchIndex)
    store.index.optimise(ACME)
    store.objects.put(ACME, "a/b", b"content")
    assert store.encoder_for(store.model_for(EmbeddingType.GENERAL))
    yield store
    store.close()
    os.umask(before)


def test_only_its_owner_may_read_a_store(tmp_path: Path, with_all_files: DemoStages) -> None:
    assert with_all_files.store.folder == tmp_path / "home"
    require_private(tmp_path / "home")


def test_only_its_owner_may_read_an_archive(tmp_path: Path, with_all_files: DemoStages) -> None:
    export_tenant(ACME, with_all_files, tmp_path / "archive")
    found = modes(tmp_path / "archive")
    assert {".", "manifest.json", "records-000001.jsonl"} <= set(found)
    assert not [name for name, mode in found.items() if mode & 0o077]


def test_a_store_that_others_could_read_is_closed_to_them(tmp_path: Path, with_all_files: DemoStages) -> None:
    home = tmp_path / "home"
    for path in (home, *home.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    with EmbeddedStore(with_all_files.store.folder):
        found = modes(home)
    # A folder of their own that is closed hides what is in it, whatever its mode.
    assert {name: mode for name, mode in found.items() if mode & 0o077 and "/" not in name} == {}


def test_a_folder_with_other_things_in_it_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o755)
    (tmp_path / "home/notes.txt").write_text("mine")
    with EmbeddedStore(tmp_path / "home"):
        found = modes(tmp_path / "home")
    assert found["."] == 0o755
    assert found["braid.db"] == 0o600
