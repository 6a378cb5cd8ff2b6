"""Whatever changes or copies a store is killed at any call, and ends by being repeated as if it had not been killed.

``KILLS=200`` is the long form.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import random
import shutil
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from braid import reembedding
from braid.ingestion.archive_export import export_tenant
from braid.ingestion.archive_import import import_tenant
from braid.ingestion.deleting import delete_document
from braid.ingestion.repair import repair
from braid.ingestion.tenant_deletion import delete_tenant
from braid.ingestion.writing import WriteRequest, require_written, write
from braid.models import Query

from tests.contract import archive
from tests.contract.shapes import ACME, GLOBEX, day, edge, record, vertex
from tests.hostile.writers import stages

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from pathlib import Path

    from tests.stages import DemoStages

    Operation = Callable[[DemoStages, Path], object]

POINTS = max(1, int(os.environ.get("KILLS", "20")) // 5)
IMPORTED = "initech"
KILLED = 9
"""Exit code of a process that ended at a call."""
QUESTION = "the harbour fee at Quillon Bay"
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.hostile.test_kills_at_calls"])


def texts(first: int, told: str, **fields: Any) -> tuple[Any, ...]:
    """Return records of two documents in which names are found."""
    made = (record(f"bay{at % 2}.md#{at}", f"{told} {at} at Quillon Bay", **fields) for at in range(first, first + 12))
    return tuple(each.model_copy(update={"embeddings": ()}) for each in made)


def begin(store: DemoStages, home: Path) -> bool:
    """Fill a store for two tenants, ask so that there is something in its caches, and export one."""
    archive.fill(store)
    for tenant in (ACME, GLOBEX):
        own = tuple(each.model_copy(update={"tenant_id": tenant}) for each in texts(0, "the harbour fee"))
        require_written(write(WriteRequest(tenant_id=tenant, records=own), store))
        store.answer(Query(text=QUESTION, tenant_id=tenant))
    return not export_tenant(ACME, store, home / "given").changed


def supersede(store: DemoStages, _home: Path) -> None:
    """Write texts again that are other ones now and take the place of others, with a new entity and a cause."""
    records = texts(0, "the toll", supersedes=("doc.md#8",), valid_at=day(9))
    entity = vertex("bay", name="Quillon Bay", has_record=False)
    request = WriteRequest(
        tenant_id=ACME, records=records, vertices=(entity,), relationships=(edge("bay", "heron", "CAUSES"),)
    )
    require_written(write(request, store))


def move(store: DemoStages, _home: Path) -> None:
    """Move every tenant to the other model profile."""
    services = store.reembedding
    other = next(name for name in store.profiles.profiles if name != services.profile)
    if services.active_profile() != other:
        reembedding.run_to_end(services, reembedding.plan(services, profile=other))


OPERATIONS: dict[str, Operation] = {
    "delete a tenant": lambda store, _: delete_tenant(ACME, store),
    "delete a document": lambda store, _: delete_document(ACME, "bay1.md", store),
    "export": lambda store, home: export_tenant(ACME, store, home / "archive"),
    "import": lambda store, home: import_tenant(home / "given", store, tenant_id=IMPORTED),
    "supersede": supersede,
    "repair": lambda store, _: repair(ACME, store),
    "move": move,
}


def state(store: DemoStages, home: Path) -> dict[str, Any]:
    """Return all that is stored and answered, and what was exported, in plain values."""
    held = {tenant: archive.everything(store, tenant) for tenant in (ACME, GLOBEX, IMPORTED)}
    answers = {
        tenant: [result.id for result in store.answer(Query(text=QUESTION, tenant_id=tenant)).results]
        for tenant in (ACME, GLOBEX, IMPORTED)
    }
    exported = sorted((path.name, path.stat().st_size) for path in (home / "archive").glob("*.jsonl*"))
    found = {"held": held, "answers": answers, "exported": exported, "profile": store.reembedding.active_profile()}
    plain: dict[str, Any] = json.loads(json.dumps(found, default=str))
    return plain


def work(home: Path, do: str, last_call: int | None, done: Connection) -> None:
    """Do something with a store of this process, which ends at a call: of Python or of C, in any thread."""
    store = stages(home)
    calls = itertools.count(1)

    def count(_frame: object, _event: str, _of: object) -> None:
        if next(calls) == last_call:
            os._exit(KILLED)

    if do in OPERATIONS:
        threading.setprofile(count)
        sys.setprofile(count)
        OPERATIONS[do](store, home)
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type] - as the standard library documents it
        done.send(next(calls))
    else:
        done.send({"begin": begin, "state": state}[do](store, home))
    store.close()


def run(home: Path, do: str, last_call: int | None = None) -> Any:
    """Run that in a process, and return what it says; KILLED where it ended before."""
    reader, writer = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=work, args=(home, do, last_call, writer), daemon=True)
    process.start()
    writer.close()
    assert reader.poll(120), f"{do}: does not end"
    try:
        said = reader.recv()
    except EOFError:
        said = KILLED
    process.join(60)
    assert process.exitcode == (KILLED if said == KILLED else 0), f"{do}: failed"
    return said


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a store that was closed."""
    home: Path = tmp_path_factory.mktemp("begun") / "home"
    home.mkdir()
    run(home, "begin")
    return home


@pytest.mark.parametrize("do", OPERATIONS)
def test_what_is_killed_at_any_call_and_repeated_ends_as_if_it_had_not_been(
    begun: Path, tmp_path: Path, do: str
) -> None:
    before = run(begun, "state")
    whole = shutil.copytree(begun, tmp_path / "whole")
    calls = run(whole, do)
    after = run(whole, "state")
    assert (before != after) == (do != "repair")
    choose = random.Random(do)  # noqa: S311 - no secret
    for at in choose.sample(range(1, calls), POINTS):
        home = shutil.copytree(begun, tmp_path / f"{at}")
        if run(home, do, at) == KILLED:
            left = run(home, "state")
            if do != "move":
                assert left["held"][GLOBEX] == before["held"][GLOBEX], f"killed at call {at} of {calls}"
            if do == "supersede":
                assert left["held"] in (before["held"], after["held"]), f"killed at call {at} of {calls}"
            run(home, do)
        assert run(home, "state") == after, f"killed at call {at} of {calls}"
