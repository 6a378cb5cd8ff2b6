"""Engines are opened once, also where several threads are the first to ask for one."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from braid.app import Application
from braid.engines.embedded.store import EmbeddedStore
from braid.models import Record
from braid.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("store", "index", "graph", "cache", "store", "index", "migration", "jobs")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[EmbeddedStore]:
    """Return the stores that are opened, each of which takes its time."""
    stores, begin = list[EmbeddedStore](), EmbeddedStore.__init__

    def slow(store: EmbeddedStore, *given: Any, **options: Any) -> None:
        stores.append(store)
        time.sleep(0.05)
        begin(store, *given, **options)

    monkeypatch.setattr(EmbeddedStore, "__init__", slow)
    return stores


def test_threads_that_ask_first_at_the_same_time_share_one_store(tmp_path: Path, opened: list[EmbeddedStore]) -> None:
    application, together = Application(Settings(home=tmp_path)), threading.Barrier(len(NAMES))
    found: list[tuple[str, Any]] = []

    def ask(name: str) -> None:
        together.wait()
        found.append((name, getattr(application, name)))

    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in NAMES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    assert len(opened) == 1
    assert all(engine is getattr(application, name) for name, engine in found)
    assert len(found) == len(NAMES)
    with application.transaction("acme"):  # of two stores the second would wait for the first one's lock
        application.index.upsert([Record(id="one", tenant_id="acme", content="one")])
    application.close()


def test_what_is_reopened_is_opened_anew(tmp_path: Path, opened: list[EmbeddedStore]) -> None:
    application = Application(Settings(home=tmp_path))
    before = application.store
    application.close()
    application.reopen()
    assert application.store is not before
    assert application.store is application.store
    assert len(opened) == 2
    application.close()


def test_a_failure_to_open_is_raised_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    application, begin = Application(Settings(home=tmp_path)), EmbeddedStore.__init__
    monkeypatch.setattr(EmbeddedStore, "__init__", lambda *_, **__: (_ for _ in ()).throw(OSError("no disk")))
    with pytest.raises(OSError, match="no disk"):
        application.store  # noqa: B018 - the property is what is tried
    monkeypatch.setattr(EmbeddedStore, "__init__", begin)
    application.store.close()
