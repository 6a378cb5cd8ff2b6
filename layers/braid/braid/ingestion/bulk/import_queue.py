"""The queue of imports of this process, bounded per tenant and in all, round-robin over tenants.

Imports run on its threads, by the same steps as the deployed workflow, which has no queue. The queue of messages with
items is another: :mod:`braid.ingestion.inline_writes`.
The number that a tenant may start in a minute is a quota (:mod:`braid.api.quotas`).

The outcome is stored beside the job's manifest, so that it can be read after a restart.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from braid.deadline import left
from braid.errors import BraidError, InvalidRequest, ObjectMissing, QueueFull, QuotaExceeded, StoreError
from braid.ingestion.bulk import import_steps, manifest
from braid.ingestion.bulk.step_messages import Batch, Cursor, Finish, Lost, PageRequest, Split
from braid.models import Frozen
from braid.ports.ingestion import INCOMPLETE, INTERRUPTED, Import, ImportStatus, JobReport, JobStatus
from braid.ports.object_store import read_object

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from braid.ingestion.bulk.import_steps import FileStore
    from braid.ports.ingestion import ImportAsked

WAITING: Final = 20
"""Most imports that run or wait in one process."""
WAITING_PER_TENANT: Final = 5
"""Most of them of one tenant."""
RETRY_AFTER_S: Final = 10
"""Suggested delay after a refusal: an import takes seconds to minutes."""
TURN_LINES: Final = 50
"""Most lines of one tenant's turn: some seconds of embedding, for which the next tenant waits."""
STEP_S: Final = 5.0
"""Seconds that a step of :class:`ImportsAtOnce` may take: none is begun when the request has less left."""
THREADS: Final = 2
"""Tenants whose imports run a step at once: a document that is slow to read delays only its own tenant's imports."""


class _State(Frozen):
    """Stored state of an import."""

    process: int
    """Id of the process that runs it."""
    process_started: str | None = None
    """When that process started, as the system counts; None where it does not say."""
    status: ImportStatus
    error: str | None = None


class _Waiting(NamedTuple):
    """An import that waits for its next step."""

    import_id: str
    steps: Generator[None, None, JobReport]


class ImportQueue:
    """Runs imports on threads of this process: a batch of each tenant in turn, the imports of one in their order.

    Parameters
    ----------
    on_failure
        Called with the id and the error of an import that failed for another reason than its content.
    """

    def __init__(self, store: FileStore, on_failure: Callable[[str, Exception], None] = lambda *_: None) -> None:
        self._store = store
        self._on_failure = on_failure
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="braid-import")
        self._unfinished: set[tuple[str, str]] = set()
        self._turns: dict[str, deque[_Waiting]] = {}
        self._running: set[str] = set()
        """Tenants of whose imports a step is running."""
        self._lock = threading.Lock()
        self._stopping = threading.Event()

    def close(self) -> None:
        """Stop after the current batch; unfinished imports count as interrupted."""
        self._stopping.set()
        self._pool.shutdown(cancel_futures=True)
        for tenant_id, import_id in list(self._unfinished):
            with suppress(StoreError):
                self._put_state(tenant_id, import_id, ImportStatus.FAILED, INTERRUPTED)
            self._forget(tenant_id, import_id)

    def start(self, tenant_id: str, import_id: str, asked: ImportAsked) -> None:
        """Queue an import.

        Raises
        ------
        QuotaExceeded
            If too many imports of this tenant are waiting.
        QueueFull
            If too many imports are waiting.
        """
        with self._lock:
            if sum(tenant == tenant_id for tenant, _ in self._unfinished) >= WAITING_PER_TENANT:
                raise QuotaExceeded(
                    f"{WAITING_PER_TENANT} imports of this tenant wait already; begin another when one has ended",
                    retry_after_s=RETRY_AFTER_S,
                )
            if len(self._unfinished) >= WAITING:
                raise QueueFull(
                    f"{WAITING} imports wait already, of all tenants together; begin another when one has ended",
                    retry_after_s=RETRY_AFTER_S,
                )
            self._unfinished.add((tenant_id, import_id))
        try:
            self._put_state(tenant_id, import_id, ImportStatus.RUNNING)
            with self._lock:  # the lock is held while it is submitted, so that the thread finds it in the queue
                self._pool.submit(self._run_next)
                waiting = _Waiting(import_id, self._steps(tenant_id, import_id, asked))
                self._turns.setdefault(tenant_id, deque()).append(waiting)
        except BaseException:
            self._forget(tenant_id, import_id)
            raise

    def find(self, tenant_id: str, import_id: str) -> Import | None:
        """Return the state of an import; None if it is unknown."""
        with self._lock:
            mine = (tenant_id, import_id) in self._unfinished  # before the state is read: it is written first
        state = self._state(tenant_id, import_id)
        if state is None:
            return None
        if state.status is ImportStatus.RUNNING and not mine and not _runs_elsewhere(state):
            return Import(id=import_id, status=ImportStatus.FAILED, error=INTERRUPTED)
        report = None
        if state.status in {ImportStatus.WRITTEN, ImportStatus.WITH_ERRORS}:
            report = manifest.report(tenant_id, import_id, self._store.objects)
        return Import(id=import_id, status=state.status, error=state.error, report=report)

    def _run_next(self) -> None:
        """Run one step of a waiting import; do nothing if each waiting tenant already has one running."""
        with self._lock:
            tenant_id = next((tenant for tenant in self._turns if tenant not in self._running), None)
            if tenant_id is None:
                return  # a running step submits the next one when it ends
            self._running.add(tenant_id)
            waiting_import = self._turns[tenant_id][0]
        ended = True
        try:
            ended = self._step(tenant_id, waiting_import)
        finally:  # also after a failure, so that the other imports continue
            with self._lock:
                self._running.discard(tenant_id)
                waiting = self._turns.pop(tenant_id)
                if ended:
                    waiting.popleft()
                if waiting:
                    self._turns[tenant_id] = waiting  # at the end
                    with suppress(RuntimeError):  # this process stops
                        self._pool.submit(self._run_next)

    def _step(self, tenant_id: str, waiting_import: _Waiting) -> bool:
        """Run one step of an import, and return whether it has ended."""
        status, error = ImportStatus.FAILED, None
        try:
            next(waiting_import.steps)
            if not self._stopping.is_set():
                return False
            error = INTERRUPTED
        except StopIteration as last:
            report: JobReport = last.value
            if report.status in {JobStatus.WRITTEN, JobStatus.WITH_ERRORS}:
                status = ImportStatus(report.status.value)
            else:
                error = "ObjectChanged" if report.status is JobStatus.CHANGED else INCOMPLETE
        except Exception as failure:  # noqa: BLE001 - no caller waits for it: it is stored as the import's error
            error = type(failure).__name__
            self._on_failure(waiting_import.import_id, failure)
        try:
            with suppress(StoreError):
                self._put_state(tenant_id, waiting_import.import_id, status, error)
        finally:
            self._forget(tenant_id, waiting_import.import_id)
        return True

    def _steps(self, tenant_id: str, import_id: str, asked: ImportAsked) -> Generator[None, None, JobReport]:
        """Run the workflow's steps one after another, a step each time, and return the report."""
        event = {"tenant_id": tenant_id, "key": asked.key, "missing": asked.missing.value}
        job = import_steps.split(Split(job=import_id, event=event), self._store, batch_lines=TURN_LINES)
        cursor = Cursor()
        while True:
            page = import_steps.page(PageRequest(job=job, cursor=cursor), self._store)
            if page.items is None:
                return import_steps.finish(Finish(job=job), self._store)
            for batch_range in manifest.items(job, page.items, self._store.objects):
                yield
                try:
                    import_steps.batch(Batch(job=job, phase=page.phase, batch=batch_range), self._store)
                except BraidError as error:
                    lost = Lost(job=job, phase=page.phase, batch=batch_range, error=type(error).__name__)
                    import_steps.lost(lost, self._store)
            cursor = page.next

    def _forget(self, tenant_id: str, import_id: str) -> None:
        with self._lock:
            self._unfinished.discard((tenant_id, import_id))

    def _put_state(self, tenant_id: str, import_id: str, status: ImportStatus, error: str | None = None) -> None:
        process = os.getpid()
        state = _State(process=process, process_started=_start_time(process), status=status, error=error)
        self._store.objects.put(tenant_id, _state_key(import_id), state.model_dump_json().encode())

    def _state(self, tenant_id: str, import_id: str) -> _State | None:
        try:
            return _State.model_validate_json(read_object(self._store.objects, tenant_id, _state_key(import_id)))
        except ObjectMissing:
            return None


class ImportsAtOnce(ImportQueue):
    """Runs each import within the request for it, for a process that is frozen or ended between requests."""

    def start(self, tenant_id: str, import_id: str, asked: ImportAsked) -> None:
        """Run an import to its end.

        Raises
        ------
        InvalidRequest
            If it takes longer than a request may; batches written by then are kept.
        """
        self._put_state(tenant_id, import_id, ImportStatus.RUNNING)
        one = _Waiting(import_id, self._steps(tenant_id, import_id, asked))
        while not self._step(tenant_id, one):
            if left() < STEP_S:
                self._put_state(tenant_id, import_id, ImportStatus.FAILED, INTERRUPTED)
                raise InvalidRequest(
                    "it exceeds the time limit of one request, and a part of it is written; send it in smaller parts"
                )


def _state_key(import_id: str) -> str:
    return f"ingest/{import_id}/import.json"


def _runs_elsewhere(state: _State) -> bool:
    """Whether the process that ran an import is another one of this machine, and still runs.

    Its id alone does not tell: in a restarted container the processes have the ids of those before.
    """
    if state.process == os.getpid():
        return False
    try:
        os.kill(state.process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return state.process_started is None or _start_time(state.process) == state.process_started


def _start_time(process: int) -> str | None:
    """Return when a process started, in clock ticks since the machine did; None if the system does not say (macOS)."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[19]  # the name before may have blanks and brackets
