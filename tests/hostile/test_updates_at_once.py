"""Updates of one record by several threads and processes at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from braid import Braid
from braid.client.in_process import InProcess
from braid.errors import InvalidRequest
from braid.ingestion import writing
from braid.settings import DEFAULT_TENANT, Settings

from tests.stages import DemoStages

if TYPE_CHECKING:
    from pathlib import Path


def opened(folder: Path) -> Braid:
    settings = Settings(home=folder, _env_file=None)
    return Braid._of(InProcess(settings, DemoStages(settings)), None)  # with an encoder that needs no model


def test_each_of_several_updates_at_once_keeps_what_the_others_change(tmp_path: Path) -> None:
    clients = [opened(tmp_path) for _ in range(2)]  # as two processes have them
    clients[0].add({"id": "note", "text": "The ledger is kept by the harbour."})
    begin = threading.Barrier(4)

    def update(number: int) -> None:
        begin.wait()
        for time in range(5):
            clients[number % 2].update("note", metadata={f"{number}-{time}": time})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(update, range(4)))
    note = clients[0].get("note")
    assert note is not None
    assert len(note.metadata) == 20
    for client in clients:
        client.close()


def test_a_record_that_is_deleted_while_it_is_updated_stays_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as first, opened(tmp_path) as second:
        first.add({"id": "note", "text": "The ledger is kept by the harbour."})
        read = InProcess.read

        def and_deleted(self: InProcess, *given: object) -> object:
            found = read(self, *given)  # type: ignore[arg-type]
            monkeypatch.setattr(InProcess, "read", read)
            second.delete("note")
            return found

        monkeypatch.setattr(InProcess, "read", and_deleted)
        with pytest.raises(InvalidRequest, match="no record is called 'note'"):
            first.update("note", importance=0.9)
        assert second.get("note") is None


@pytest.mark.parametrize("prepared_again", [0, writing.MAX_OVERTAKEN])
def test_what_another_process_commits_at_the_last_moment_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepared_again: int
) -> None:
    monkeypatch.setattr(writing, "MAX_OVERTAKEN", prepared_again)
    here, there = (DemoStages(Settings(home=tmp_path, _env_file=None)) for _ in range(2))
    client = Braid._of(InProcess(here.settings, here), None)
    client.add({"id": "note", "text": "The ledger is kept by the harbour."})
    doubt, left = here.graph.distrust_most_relationships, [1]

    def after_another(*given: object) -> None:
        if left and left.pop():
            (stored,) = there.index.get_many(DEFAULT_TENANT, ["note"], with_vectors=True)
            with there.transaction(DEFAULT_TENANT):
                there.index.upsert([stored.altered(metadata={"theirs": 1})])
        doubt(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(here.graph, "distrust_most_relationships", after_another)
    client.update("note", metadata={"ours": 2})
    note = client.get("note")
    assert note is not None
    assert note.metadata == {"theirs": 1, "ours": 2}
    here.close()
    there.close()
