"""Processes that write, delete, import and ingest are killed at any moment, and disks fill up: a write is whole or not.

``KILLS=200`` is the long form.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import subprocess
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.engines.embedded.store import EmbeddedStore
from braid.errors import StoreFull
from braid.ingestion.repair import repair
from braid.ingestion.writing import MissingEnds, WriteRequest, require_written, write
from braid.models import Embedding, EmbeddingType
from braid.ports.knowledge_graph import ExpandRequest
from braid.ports.search_index import SearchRequest

from braid_cli.datasets.ingest_file import ingest_file
from tests.contract.shapes import ACME, AS_OF, edge, record, vertex
from tests.hostile.writers import (
    CHUNKS,
    apply,
    everything,
    ingest_folder,
    keep_importing,
    keep_ingesting,
    keep_writing,
    operations,
    pages_of,
    stages,
    word,
    write_file,
    write_folder,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.stages import DemoStages

KILLS = int(os.environ.get("KILLS", "20"))
PAIRS = max(1, KILLS * 6 // 20)
FOLDERS = max(1, KILLS * 3 // 20)
IMPORTS = max(1, KILLS - 2 * PAIRS - FOLDERS)
FIRST = int(os.environ.get("KILLS_FROM", "0"))
"""Number of the first round, so that a long form may be run in parts."""
LATER = AS_OF + timedelta(days=365)
FILE_ITEMS = 500
RECORDS = CHUNKS + 3
"""Records of one write."""
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.hostile.writers"])


def killed(work: Callable[..., None], home: Path, tasks: list[Any], seed: int, longest_s: float) -> list[int]:
    """Start a process a task, kill all at a random moment after each began, and return how much each acknowledged."""
    moment = random.Random(seed).uniform(0, longest_s)  # noqa: S311 - no secret
    running = []
    for task in tasks:
        reader, writer = PROCESSES.Pipe(duplex=False)
        process = PROCESSES.Process(target=work, args=(home, task, seed, writer), daemon=True)
        process.start()
        writer.close()
        running.append((process, reader))
    counts = [0] * len(running)
    for at, (_, reader) in enumerate(running):
        assert reader.poll(60), "a process does nothing"
        reader.recv()
        counts[at] += 1
    running[0][0].join(moment)
    for process, _ in running:
        process.kill()
    for at, (process, reader) in enumerate(running):
        process.join()
        try:
            while True:
                reader.recv()
                counts[at] += 1
        except (EOFError, OSError):  # nothing more, or the half of a message
            reader.close()
    return counts


def found_by_words(store: DemoStages, text: str) -> set[str]:
    request = SearchRequest(tenant_id=ACME, text=text, k=50, as_of=LATER)
    return {hit.id for hit in store.index.search(request).lexical}


def found_by_meaning(store: DemoStages, text: str, ids: set[str]) -> set[str]:
    """Return what is nearest to a text, by the saved vector graph rather than row by row."""
    encoder = store.encoder_for(store.model_for(EmbeddingType.GENERAL))
    (vector,) = encoder.encode([text])
    asked = Embedding(space=encoder.space, model_id=encoder.model_id, vector=vector)
    request = SearchRequest(tenant_id=ACME, embedding=asked, k=50, as_of=LATER)
    hits = EmbeddedSearchIndex(store.store, store.profiles.dimensions(), exact_rows=0).search(request).vector
    return {hit.id for hit in hits} & ids


def require_whole(store: DemoStages, name: str, held: dict[str, Any]) -> None:
    """Require that what is stored of a writer's last write to each group is found in every way."""
    groups = {key.removeprefix("record ")[:-2] for key in held if key.startswith("record ") and key.endswith("-e")}
    for own in groups:
        records = {key.removeprefix("record ") for key in held if key.startswith(f"record {own}-")}
        text = held[f"record {own}-e"].content.split()[0]
        valid = {one for one in records if held[f"record {one}"].invalid_at is None}
        assert found_by_words(store, text) == valid
        assert f"{own}-e" in found_by_meaning(store, f"{text} hums", records)
        (link,) = store.graph.link(ACME, [f"machine {own}"], as_of=LATER)
        assert link.entity_id == f"{own}-e"
        reached = store.graph.expand(ExpandRequest(tenant_id=ACME, seeds=(link.entity_id,), max_hops=1, as_of=LATER))
        assert {hit.id for hit in reached.hits} <= valid
        told = {f"{own}-d", *(f"{own}-c{at}" for at in range(CHUNKS))}
        assert told <= {hit.id for hit in reached.hits} or f"{own}-f" not in valid
    assert all(word(name, 0, 0)[:3] in one.content for key, one in held.items() if key.startswith("record"))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + PAIRS))
def test_two_killed_writers_leave_all_that_they_acknowledged_and_no_half_of_a_write(tmp_path: Path, seed: int) -> None:
    home = tmp_path / "home"
    names = ["a", "b"]
    counts = killed(keep_writing, home, names, seed, 0.8)
    store = stages(home)
    assert repair(ACME, store, dry_run=True).counts == {}
    for name, count in zip(names, counts, strict=True):
        held = everything(store, name)
        reference = stages(tmp_path / f"reference-{name}")
        for operation in islice(operations(name, seed), count):
            apply(reference, name, operation)
        if held != everything(reference, name):  # what was on its way may be there too, but then whole
            apply(reference, name, next(islice(operations(name, seed), count, None)))
            assert held == everything(reference, name), f"{name}: {count} operations were acknowledged"
        require_whole(store, name, held)
        reference.close()
    apply(store, "c", ("write", 0, 0))
    assert len(found_by_words(store, word("c", 0, 0))) == RECORDS
    store.close()


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Return a file, and all that is stored when its import was not disturbed."""
    folder = tmp_path_factory.mktemp("import")
    file = write_file(folder / "items.jsonl", FILE_ITEMS)
    store = stages(folder / "home")
    ingest_file(file, ACME, store, missing=MissingEnds.REFUSE)
    yield file, everything(store)
    store.close()


@pytest.mark.parametrize("seed", range(FIRST, FIRST + IMPORTS))
def test_a_killed_import_leaves_whole_pages_and_is_finished_by_the_next(
    tmp_path: Path, imported: tuple[Path, dict[str, Any]], seed: int
) -> None:
    file, whole = imported
    acknowledged = killed(keep_importing, tmp_path / "home", [file], seed, 1.5) == [2]
    store = stages(tmp_path / "home")
    held = everything(store)
    assert repair(ACME, store, dry_run=True).counts == {}
    if acknowledged:
        assert held == whole
    records = {key.removeprefix("record ") for key in held if key.startswith("record ")}
    assert records in pages_of(FILE_ITEMS)
    for identity in sorted(records)[:10]:
        assert found_by_words(store, f"zq{identity}") == {identity}
    assert all(len(held[f"record {identity}"].embeddings) == len(store.models()) for identity in records)
    assert all(f"vertex {identity}" in held for identity in records if identity.startswith("e"))
    ingest_file(file, ACME, store, missing=MissingEnds.REFUSE)
    assert everything(store) == whole
    store.close()


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, Any], dict[str, Any]]:
    """Return a folder of documents, a home in which its first version is ingested, and all that either version is."""
    folder, home = (tmp_path_factory.mktemp("folder") / name for name in ("papers", "home"))
    write_folder(folder, 1)
    store = stages(home)
    ingest_folder(store, folder)
    first = everything(store)
    store.close()
    write_folder(folder, 2)
    store = stages(shutil.copytree(home, home.with_name("whole")))
    ingest_folder(store, folder)
    second = everything(store)
    store.close()
    return folder, home, first, second


@pytest.mark.parametrize("seed", range(FIRST, FIRST + FOLDERS))
def test_a_killed_ingest_of_a_folder_leaves_whole_records_and_is_finished_by_the_next(
    tmp_path: Path, ingested: tuple[Path, Path, dict[str, Any], dict[str, Any]], seed: int
) -> None:
    folder, before, first, second = ingested
    home = shutil.copytree(before, tmp_path / "home")
    acknowledged = killed(keep_ingesting, home, [folder], seed, 3.0) == [2]
    store = stages(home)
    held = everything(store)
    assert repair(ACME, store, dry_run=True).counts == {}
    if acknowledged:
        assert not unlike(held, second)
    assert not unlike({key: one for key, one in held.items() if key not in first or unlike({key: one}, first)}, second)
    ingest_folder(store, folder)
    after = everything(store)
    assert after.keys() == second.keys()
    assert not unlike(after, second)
    store.close()


def unlike(held: dict[str, Any], meant: dict[str, Any]) -> list[str]:
    """Return what is held and differs from what is meant, apart from when it was written."""

    def plain(one: Any) -> Any:
        return None if one is None else one.model_dump(exclude={"updated_at", "created_at"})

    return [key for key, one in held.items() if plain(one) != plain(meant.get(key))]


def test_whatever_page_a_full_disk_refuses_nothing_of_that_write_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit goes up by a page until the write succeeds, so that it is refused in each of its parts."""
    first = stages(tmp_path / "home")
    apply(first, "a", ("write", 0, 0))
    edges = first.graph.stats(ACME).edges
    names = [f"zq{at}" for at in range(30)]
    request = WriteRequest(
        tenant_id=ACME,
        records=tuple(record(name, f"turbine {name}") for name in names),
        vertices=tuple(vertex(f"v{name}", name=f"Hall {name} " * 20) for name in names),
        relationships=tuple(edge(f"v{name}", other, predicate="long " * 20) for name in names for other in names[:10]),
    )
    connect, limits = EmbeddedStore._connect, [1_000_000]

    def nearly_full(store: EmbeddedStore) -> Any:
        connection = connect(store)
        connection.execute(f"PRAGMA max_page_count = {limits[-1]}")
        return connection

    monkeypatch.setattr(EmbeddedStore, "_connect", nearly_full)
    store = stages(tmp_path / "home")
    before = everything(store)
    with store.store.read() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
    store.close()
    for limit in range(pages, pages + 500, 5):
        limits.append(limit)
        store = stages(tmp_path / "home")
        try:
            require_written(write(request, store))
            break
        except StoreFull:
            assert everything(store) == before
            assert found_by_words(store, "turbine") == set()
        finally:
            store.close()
    assert len(limits) > 10
    limits.append(1_000_000)
    store = stages(tmp_path / "home")
    assert found_by_words(store, "turbine") == set(names)
    assert store.graph.stats(ACME).edges == len(request.relationships) + edges
    store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder on a device of two megabytes."""
    folder, mount = tmp_path / "disk", shutil.which("mount")
    folder.mkdir()
    if (
        mount is None
        or subprocess.run(  # noqa: S603 - a constant command
            [mount, "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], check=False, capture_output=True
        ).returncode
    ):
        pytest.skip("a file system can be mounted only by root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S603, S607 - as above


def test_a_device_that_fills_up_keeps_what_was_acknowledged_and_goes_on_when_there_is_space(small_disk: Path) -> None:
    store = stages(small_disk / "home")
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"\0" * 400_000)
    done = 0

    def fill() -> None:
        nonlocal done
        while True:
            apply(store, f"a{done}n", ("write", 0, done))
            done += 1

    with pytest.raises(StoreFull, match="no space left"):
        fill()
    assert done > 0
    held = everything(store)
    assert len([key for key in held if key.startswith("record")]) == RECORDS * done
    assert repair(ACME, store, dry_run=True).counts == {}
    store.close()
    ballast.unlink()
    store = stages(small_disk / "home")
    assert everything(store) == held
    apply(store, f"a{done}n", ("write", 0, done))
    assert len(everything(store)) > len(held)
    store.close()
