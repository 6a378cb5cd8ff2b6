"""Objects written on a thread of this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from braid.deadline import within
from braid.engines.embedded.object_store import EmbeddedObjectStore
from braid.errors import InvalidRequest, ObjectChanged, QueueFull, TransientStoreError
from braid.ingestion.bulk import import_queue, import_steps
from braid.ingestion.bulk.import_queue import TURN_LINES, ImportQueue, ImportsAtOnce
from braid.ports.ingestion import INCOMPLETE, INTERRUPTED, ImportAsked, ImportStatus
from braid.settings import Settings

from tests.contract.imports import ACME, KEY, LINES, ImportsContract, ended, put
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from braid.ports.object_store import ObjectInfo

ASKED = ImportAsked(key=KEY)


@pytest.fixture
def library(tmp_path: Path) -> Iterator[DemoStages]:
    library = DemoStages(Settings(home=tmp_path))
    yield library
    library.close()


@pytest.fixture
def imports(library: DemoStages) -> ImportQueue:
    assert isinstance(library.imports, ImportQueue)
    return library.imports


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_queue, "THREADS", 1)


class TestHere(ImportsContract):
    """Over the embedded engines."""


class TestWithinTheRequest(ImportsContract):
    """In a function, which is frozen once it has answered."""

    @pytest.fixture
    def imports(self, library: DemoStages) -> ImportsAtOnce:
        return ImportsAtOnce(library)


def test_an_import_that_takes_longer_than_its_request_is_refused_and_says_so_when_it_is_asked_for(
    library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(library, LINES)
    imports = ImportsAtOnce(library)
    monkeypatch.setattr(import_queue, "STEP_S", 30.0)
    with within(20), pytest.raises(InvalidRequest, match="send it in smaller parts"):
        imports.start(ACME, "first", ASKED)
    found = imports.find(ACME, "first")
    assert found
    assert (found.status, found.error) == (ImportStatus.FAILED, INTERRUPTED)


def test_a_function_runs_imports_within_their_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "small")
    assert isinstance(DemoStages(Settings(home=tmp_path)).imports, ImportsAtOnce)


class Held:
    """Holds the first batch until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.go = threading.Event(), threading.Event()
        whole = import_steps.batch

        def batch(*arguments: Any) -> Any:
            self.reached.set()
            assert self.go.wait(10)
            return whole(*arguments)

        monkeypatch.setattr(import_steps, "batch", batch)


def test_it_can_be_asked_while_it_is_written_and_more_wait_for_their_turn(
    imports: ImportQueue, library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(library, LINES)
    held = Held(monkeypatch)
    imports.start(ACME, "first", ASKED)
    imports.start(ACME, "second", ASKED)
    assert held.reached.wait(10)
    for name in ("first", "second"):
        found = imports.find(ACME, name)
        assert found
        assert found.status is ImportStatus.RUNNING
    held.go.set()
    assert ended(imports, "first").status is ended(imports, "second").status is ImportStatus.WRITTEN


def test_whoever_asks_while_the_note_is_written_again_sees_one_whole_note(
    imports: ImportQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    imports._put_state(ACME, "first", ImportStatus.RUNNING)
    whole, replaced = EmbeddedObjectStore._parts, list[str]()

    def parts(objects: EmbeddedObjectStore, tenant_id: str, info: ObjectInfo) -> Iterator[bytes]:
        if not replaced:
            replaced.append(info.key)
            imports._put_state(ACME, "first", ImportStatus.FAILED, INCOMPLETE)
        yield from whole(objects, tenant_id, info)

    monkeypatch.setattr(EmbeddedObjectStore, "_parts", parts)
    found = imports.find(ACME, "first")
    assert replaced == ["ingest/first/import.json"]
    assert found
    assert (found.status, found.error) == (ImportStatus.FAILED, INCOMPLETE)


def test_a_note_that_changes_under_every_reading_is_given_up(
    imports: ImportQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    imports._put_state(ACME, "first", ImportStatus.RUNNING)

    def changed(*_: object) -> Iterator[bytes]:
        message = "changed"
        raise ObjectChanged(message)

    monkeypatch.setattr(EmbeddedObjectStore, "_parts", changed)
    with pytest.raises(ObjectChanged):
        imports.find(ACME, "first")


def test_no_more_wait_than_can_be_borne(
    imports: ImportQueue, library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_queue, "WAITING", 1)
    put(library, LINES)
    held = Held(monkeypatch)
    imports.start(ACME, "first", ASKED)
    with pytest.raises(QueueFull, match="wait already"):
        imports.start(ACME, "second", ASKED)
    assert imports.find(ACME, "second") is None
    held.go.set()
    ended(imports, "first")


@pytest.mark.usefixtures("one_thread")
def test_tenants_take_turns(imports: ImportQueue, library: DemoStages, monkeypatch: pytest.MonkeyPatch) -> None:
    for tenant in (ACME, "globex"):
        library.objects.put(tenant, KEY, json.dumps(LINES[1]).encode())
    held, order = Held(monkeypatch), list[str]()
    whole = import_steps.split
    monkeypatch.setattr(
        import_steps, "split", lambda task, store, **more: (order.append(task.job), whole(task, store, **more))[1]
    )
    for name in ("a1", "a2", "a3"):
        imports.start(ACME, name, ASKED)
    assert held.reached.wait(10)
    for name in ("g1", "g2"):
        imports.start("globex", name, ASKED)
    held.go.set()
    for name, tenant in (("a3", ACME), ("g2", "globex")):
        ended(imports, name, tenant=tenant)
    assert order == ["a1", "g1", "a2", "g2", "a3"]


@pytest.mark.usefixtures("one_thread")
def test_a_long_import_holds_up_no_other_tenants(
    imports: ImportQueue, library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_steps, "BATCH_LINES", 1)
    lines = [json.dumps({"record": {"id": f"r{number}", "content": "a pump"}}) for number in range(9)]
    library.objects.put(ACME, KEY, "\n".join(lines).encode())
    library.objects.put("globex", KEY, lines[0].encode())
    held, order = Held(monkeypatch), list[str]()
    whole = import_steps.batch
    monkeypatch.setattr(import_steps, "batch", lambda task, store: (order.append(task.job.name), whole(task, store))[1])
    imports.start(ACME, "long", ASKED)
    assert held.reached.wait(10)
    imports.start("globex", "short", ASKED)
    held.go.set()
    for name, tenant in (("long", ACME), ("short", "globex")):
        assert ended(imports, name, tenant=tenant).status is ImportStatus.WRITTEN
    assert order[-1] == "long"
    assert order.index("short") <= 3


def test_what_is_slow_to_read_holds_up_its_own_tenant_alone(
    imports: ImportQueue, library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tenant in (ACME, "globex"):
        library.objects.put(tenant, KEY, json.dumps(LINES[1]).encode())
    reached, go, whole = threading.Event(), threading.Event(), import_steps.split

    def split(task: Any, *arguments: Any, **more: Any) -> Any:
        if task.job == "slow":
            reached.set()
            go.wait(20)
        return whole(task, *arguments, **more)

    monkeypatch.setattr(import_steps, "split", split)
    try:
        for name in ("slow", "next"):
            imports.start(ACME, name, ASKED)
        assert reached.wait(10)
        imports.start("globex", "theirs", ASKED)
        assert ended(imports, "theirs", tenant="globex", within_s=10).status is ImportStatus.WRITTEN
        found = imports.find(ACME, "next")
        assert found
        assert found.status is ImportStatus.RUNNING
    finally:
        go.set()
    assert ended(imports, "slow").status is ended(imports, "next").status is ImportStatus.WRITTEN


def test_a_turn_is_so_short_that_the_next_tenant_waits_for_seconds(
    imports: ImportQueue, library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [json.dumps({"record": {"id": f"r{number}", "content": "a pump"}}) for number in range(TURN_LINES + 1)]
    library.objects.put(ACME, KEY, "\n".join(lines).encode())
    turns, whole = list[int](), import_steps.batch
    monkeypatch.setattr(
        import_steps, "batch", lambda task, store: (turns.append(task.batch.lines), whole(task, store))[1]
    )
    imports.start(ACME, "long", ASKED)
    assert ended(imports, "long").status is ImportStatus.WRITTEN
    assert set(turns) == {TURN_LINES, 1}


def test_an_import_whose_end_cannot_be_stored_holds_up_nobody(
    imports: ImportQueue, library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tenant in (ACME, "globex"):
        library.objects.put(tenant, KEY, json.dumps(LINES[1]).encode())
    whole = imports._put_state

    def put_state(tenant_id: str, import_id: str, status: ImportStatus, error: str | None = None) -> None:
        if (tenant_id, status) == (ACME, ImportStatus.WRITTEN):
            raise OSError
        whole(tenant_id, import_id, status, error)

    monkeypatch.setattr(imports, "_put_state", put_state)
    imports.start(ACME, "first", ASKED)
    imports.start("globex", "theirs", ASKED)
    assert ended(imports, "theirs", tenant="globex").status is ImportStatus.WRITTEN
    assert ended(imports, "first").error == INTERRUPTED


def test_what_a_process_did_not_finish_counts_as_interrupted_and_can_be_done_again(
    imports: ImportQueue, library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_steps, "BATCH_LINES", 1)
    put(library, LINES)
    held = Held(monkeypatch)
    imports.start(ACME, "first", ASKED)
    imports.start(ACME, "second", ASKED)
    assert held.reached.wait(10)
    closing = threading.Thread(target=imports.close)
    closing.start()
    assert imports._stopping.wait(10)
    held.go.set()
    closing.join(10)
    assert not closing.is_alive()
    after = ImportQueue(library)
    for name in ("first", "second"):
        found = after.find(ACME, name)
        assert found
        assert (found.status, found.error) == (ImportStatus.FAILED, INTERRUPTED)
    after.start(ACME, "again", ASKED)
    assert ended(after, "again").status is ImportStatus.WRITTEN
    after.close()


def test_another_process_that_lives_is_believed_and_one_that_was_killed_is_not(
    imports: ImportQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = SimpleNamespace(getpid=os.getppid, kill=os.kill)  # which lives; the store is this process's
    monkeypatch.setattr(import_queue, "os", beside)
    imports._put_state(ACME, "theirs", ImportStatus.RUNNING)
    monkeypatch.undo()
    found = imports.find(ACME, "theirs")
    assert found
    assert found.status is ImportStatus.RUNNING

    def gone(*_: int) -> None:
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", gone)
    found = imports.find(ACME, "theirs")
    assert found
    assert found.error == INTERRUPTED


def test_a_process_that_has_the_id_of_one_that_was_killed_is_not_taken_for_it(
    imports: ImportQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = SimpleNamespace(getpid=os.getppid, kill=os.kill)  # a process that lives
    monkeypatch.setattr(import_queue, "os", beside)
    monkeypatch.setattr(import_queue, "_start_time", lambda _: "12")
    imports._put_state(ACME, "theirs", ImportStatus.RUNNING)
    beside.getpid = lambda: -1
    found = imports.find(ACME, "theirs")
    assert found
    assert found.status is ImportStatus.RUNNING
    monkeypatch.setattr(import_queue, "_start_time", lambda _: "34")
    found = imports.find(ACME, "theirs")
    assert found
    assert (found.status, found.error) == (ImportStatus.FAILED, INTERRUPTED)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system does not say when a process started")
def test_when_a_process_started_is_read_whatever_its_name_is() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "open('/proc/self/comm', 'w').write('a) b (c'); print('named', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout
        assert other.stdout.readline() == b"named\n"
        started = import_queue._start_time(other.pid)
        other.kill()
    assert started
    assert int(started) >= int(import_queue._start_time(os.getpid()) or 0)
    assert import_queue._start_time(other.pid) is None


def test_a_batch_that_fails_leaves_the_others_and_says_so(
    imports: ImportQueue, library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_steps, "BATCH_LINES", 1)
    put(library, LINES)
    whole = import_steps.batch

    def batch(task: Any, store: Any) -> Any:
        if task.batch.number == 1:
            message = "no answer"
            raise TransientStoreError(message)
        return whole(task, store)

    monkeypatch.setattr(import_steps, "batch", batch)
    imports.start(ACME, "first", ASKED)
    found = ended(imports, "first")
    assert (found.status, found.error) == (ImportStatus.FAILED, INCOMPLETE)
    assert [record.id for record in library.index.get_many(ACME, ["a", "b"])] == ["b"]
