"""Of two ingests of one folder that run beside each other nothing is left that the folder has not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from braid.ingestion.documents import ingesting
from braid.ingestion.documents.ingesting import ingest_documents
from braid.ingestion.documents.progress import FolderBegun

from tests.contract.shapes import ACME
from tests.hostile.writers import stages as opened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from braid.ingestion.documents.progress import Event

    from tests.stages import DemoStages


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DemoStages]:
    """Return one process's store."""
    stages = opened(tmp_path / "home")
    yield stages
    stages.close()


@pytest.fixture
def other(store: DemoStages) -> Iterator[DemoStages]:
    """Return the same store, as another process has it open."""
    stages = opened(store.store.folder)
    yield stages
    stages.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    return folder / "gates.md"


def write(file: Path, word: str, parts: int) -> None:
    file.write_text("\n\n".join(f"# Part {at}\n\n" + f"{word}{at} " * 300 for at in range(parts)), encoding="utf-8")


def ingest(store: DemoStages, file: Path) -> list[Event]:
    return list(ingest_documents(file.parent, store, tenant_id=ACME))


def begun(store: DemoStages, file: Path) -> Iterator[Event]:
    """Begin an ingest, which has listed the folder and read the state of its files."""
    events = ingest_documents(file.parent, store, tenant_id=ACME)
    assert isinstance(next(events), FolderBegun)
    return events


def stored(store: DemoStages) -> set[str]:
    """Return the last word of each chunk, such as ``long1``."""
    return {one.content.split()[-1] for one in store.index.scan(ACME, limit=1_000).records}


def test_a_file_that_is_shorter_than_another_ingest_has_written_it_meanwhile_loses_those_chunks(
    store: DemoStages, other: DemoStages, file: Path
) -> None:
    write(file, "first", 1)
    ingest(store, file)
    write(file, "second", 1)
    events = begun(store, file)
    write(file, "long", 5)
    ingest(other, file)
    write(file, "short", 1)
    list(events)
    assert stored(store) == {"short0"}


def test_a_file_that_is_gone_after_another_ingest_has_written_it_loses_all_chunks(
    store: DemoStages, other: DemoStages, file: Path
) -> None:
    write(file, "first", 1)
    ingest(store, file)
    write(file, "second", 1)
    events = begun(store, file)
    write(file, "long", 5)
    ingest(other, file)
    file.unlink()
    list(events)
    ingest(store, file)
    assert stored(store) == set()


def test_a_file_that_comes_back_and_is_written_by_another_ingest_is_not_removed(
    store: DemoStages, other: DemoStages, file: Path
) -> None:
    write(file, "first", 1)
    ingest(store, file)
    file.unlink()
    events = begun(store, file)
    write(file, "back", 2)
    ingest(other, file)
    list(events)
    assert stored(store) == {"back0", "back1"}


@pytest.mark.parametrize("parts", [1, 5])
def test_a_file_that_another_ingest_writes_at_the_same_time_is_read_again_by_the_next(
    store: DemoStages, other: DemoStages, file: Path, monkeypatch: pytest.MonkeyPatch, parts: int
) -> None:
    whole = ingesting.write

    def meanwhile(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(ingesting, "write", whole)
        write(file, "newer", parts)
        ingest(other, file)
        return whole(*args, **kwargs)

    write(file, "older", 3)
    monkeypatch.setattr(ingesting, "write", meanwhile)
    ingest(store, file)
    ingest(store, file)
    assert stored(store) == {f"newer{at}" for at in range(parts)}
    file.unlink()
    ingest(store, file)
    assert stored(store) == set()
