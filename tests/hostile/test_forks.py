"""Processes that are forked while a store is open, as by multiprocessing on Linux before Python 3.14."""

from __future__ import annotations

import os
import threading
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from braid import Braid
from braid.client.in_process import InProcess
from braid.engines.embedded import store as embedded_store
from braid.engines.embedded.store import EmbeddedStore
from braid.errors import StoreError
from braid.settings import Settings

from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def opened(folder: Path) -> Braid:
    settings = Settings(home=folder, _env_file=None)
    return Braid._of(InProcess(settings, DemoStages(settings)), None)


def forked(act: Callable[[], object]) -> int:
    """Run a call in a forked process, and return its process id."""
    child = os.fork()
    if not child:
        threading.Timer(30, lambda: os._exit(3)).start()
        try:
            act()
        except BaseException:  # noqa: BLE001 - nothing may pass into the tests
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return child


def ends_well(child: int) -> bool:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@contextmanager
def used_by_another_thread(store: EmbeddedStore, *, seconds: float = 60) -> Iterator[None]:
    """Let another thread read a store for some seconds, at most as long as the block."""
    reading, ended = threading.Event(), threading.Event()

    def read() -> None:
        with store.read():
            reading.set()
            ended.wait(seconds)

    reader = threading.Thread(target=read)
    reader.start()
    assert reading.wait(20)
    try:
        yield
    finally:
        ended.set()
        reader.join()


def test_what_a_forked_process_writes_stays_when_the_first_one_closes_the_store(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.add({"id": "before", "type": "Ship", "name": "Auk"})
    writing, written = os.pipe()
    closed, closing = os.pipe()

    def write() -> None:
        with opened(tmp_path) as own:
            own.add({"id": "during", "type": "Ship", "name": "Tern"})
            os.write(written, b".")
            os.read(closed, 1)
            own.add({"id": "after", "type": "Ship", "name": "Skua"})

    child = forked(write)
    os.read(writing, 1)
    first.close()
    os.write(closing, b".")
    assert ends_well(child)
    with opened(tmp_path) as again:
        assert again.stats().vertices == 3


def test_a_forked_process_is_answered_by_a_store_of_its_own(tmp_path: Path) -> None:
    with opened(tmp_path) as first:
        first.add([{"id": "auk", "text": "The Auk lies at the quay."}, {"id": "tern", "text": "The Tern is at sea."}])
        assert first.search("Where is the Auk?")[0].id == "auk"
        assert first.context("Where is the Auk?").messages

        def ask() -> None:
            with opened(tmp_path) as own:
                assert own.search("Where does the Tern lie?")[0].id == "tern"
                assert own.context("Where does the Tern lie?").messages

        assert ends_well(forked(ask))
        assert first.search("Who lies at the quay?")[0].id == "auk"


def test_a_forked_process_is_told_to_open_a_store_that_it_inherited(tmp_path: Path) -> None:
    with opened(tmp_path) as first:
        first.add({"id": "auk", "text": "The Auk lies at the quay."})

        def use() -> None:
            for call in (lambda: first.search("Auk?"), lambda: first.get("auk"), lambda: first.add("More.")):
                with pytest.raises(StoreError, match="open another Braid in this one"):
                    call()
            first.close()

        assert ends_well(forked(use))
        assert first.get("auk")


def test_a_client_that_was_not_used_before_the_fork_is_used_after_it(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, _env_file=None)
    unused = Braid(settings=settings)

    def use() -> None:
        unused.add({"id": "auk", "type": "Ship", "name": "Auk"})

    assert ends_well(forked(use))


def test_a_fork_waits_for_connections_that_other_threads_use(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path)

    def use() -> None:
        EmbeddedStore(tmp_path).close()

    with used_by_another_thread(store, seconds=0.5):
        assert ends_well(forked(use))


def test_what_begins_to_use_a_store_while_a_fork_waits_uses_it_afterwards(tmp_path: Path) -> None:
    store, ended = EmbeddedStore(tmp_path), threading.Event()

    def read() -> None:
        with store.read():
            ended.wait(60)

    later = threading.Timer(0.3, read)
    with used_by_another_thread(store, seconds=1.5):
        later.start()
        child = forked(lambda: EmbeddedStore(tmp_path).close())
    ended.set()
    later.join()
    assert ends_well(child)


def test_a_process_that_is_forked_while_another_thread_uses_a_store_for_long_does_not_open_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_store, "_FORK_S", 0.1)
    store = EmbeddedStore(tmp_path)

    def use() -> None:
        with pytest.raises(StoreError, match="was in use when this process was forked"):
            EmbeddedStore(tmp_path)
        with pytest.raises(StoreError, match="was opened before this process was forked"), store.read():
            pass

    with used_by_another_thread(store):
        assert ends_well(forked(use))
    with store.read() as connection:
        assert connection.execute("SELECT count(*) FROM identity").fetchone()[0] == 1


def test_threads_that_fork_at_once_leave_the_store_as_it_was(tmp_path: Path) -> None:
    store, children = EmbeddedStore(tmp_path), []

    def fork() -> None:
        children.append(forked(lambda: EmbeddedStore(tmp_path).close()))

    with used_by_another_thread(store, seconds=0.5):
        threads = [threading.Thread(target=fork) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [ends_well(child) for child in children] == [True, True]
    answered = threading.Event()

    def ask() -> None:
        with store.read():
            answered.set()

    threading.Thread(target=ask, daemon=True).start()
    assert answered.wait(20)


def test_a_forked_process_forks_again_without_waiting_for_threads_that_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = EmbeddedStore(tmp_path)
    monkeypatch.setattr(embedded_store, "_FORK_S", 0.1)

    def fork_again() -> None:
        monkeypatch.setattr(embedded_store, "_FORK_S", 60)
        assert ends_well(forked(lambda: None))

    with used_by_another_thread(store):
        assert ends_well(forked(fork_again))
