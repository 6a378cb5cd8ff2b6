"""Re-embedding jobs and their persistence: any process can resume a job, and one process at a time works on it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random

from braid.errors import InvalidRequest, TakenOver
from braid.models import Frozen, RecordId, TenantId, Timestamp
from braid.ports.reembedding import JobName, JobRecord, ProfileName

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from braid.ports.reembedding import JobStore


_ATTEMPTS: Final = 20
_WAIT_S: Final = 0.5
"""Most seconds between two attempts: some hundred workers save a job, each once in some seconds."""


class JobKind(StrEnum):
    """Kind of a re-embedding job."""

    REFRESH = "refresh"
    """Re-embeds outdated records in place."""
    MOVE = "move"
    """Moves all tenants to another model profile, or one tenant to another index, by filling a second index."""


class Place(StrEnum):
    """Index that a tenant is moved to."""

    OWN = "own"
    SHARED = "shared"


class Phase(StrEnum):
    """Phase of a re-embedding job."""

    FILL = "fill"
    """Embeds records: outdated ones in place, or all of them into the next index."""
    RECONCILE = "reconcile"
    """Compares the next index with the active one, and removes records that differ from it."""
    VERIFY = "verify"
    SWITCH = "switch"
    SWEEP = "sweep"
    """After the switch: embeds records that a writer with the previous profile wrote without the new vectors."""
    DONE = "done"


class Status(StrEnum):
    """Status of a re-embedding job."""

    RUNNING = "running"
    PAUSED = "paused"
    """By hand: the schedule leaves it alone until it is resumed by hand."""
    FAILED = "failed"
    """Verification refused the switch; the active index is still served."""
    FINISHED = "finished"
    ROLLING_BACK = "rolling_back"
    """A roll-back has begun; if it was interrupted, rolling back again completes it."""
    ROLLED_BACK = "rolled_back"


class Check(Frozen):
    """Result of the verification before a switch."""

    asked: int
    """Number of questions by which both profiles were compared."""
    recall_before: float
    """Recall at ten of the active profile's vectors: the mean share of known answers among the first ten."""
    recall_after: float
    """Recall at ten of the next profile's vectors."""
    overlap: float
    """Mean share of the first ten that both have in common: how much answers change, not how good they are."""
    judged: bool = False
    """Whether the questions were judged ones, rather than derived from the records."""


class SetAside(Frozen):
    """A record that could not be embedded or written, and was skipped so that the others are."""

    tenant: TenantId
    record_id: RecordId
    error: str


class ReembeddingJob(Frozen):
    """A job and its progress."""

    name: JobName
    kind: JobKind
    status: Status = Status.RUNNING
    phase: Phase = Phase.FILL
    run: int = 1
    """Fencing number: grows whenever a worker takes the job over; workers with an older one stop."""
    revision: int = 0
    profile: ProfileName | None = None
    """Target profile of a move; the active profile if a tenant moves to another index; None of a refresh."""
    only_tenant: TenantId | None = None
    """The only tenant of the job; of a move, the one that moves to an index of its own, or back. None: all tenants."""
    index: Place | None = None
    """Index that the only tenant moves to; None of other jobs."""
    tenant: TenantId | None = None
    """Tenant whose records are being processed; None before the first."""
    cursor: str | None = None
    """The scan of its records, and the id up to which every page is done."""
    rounds: Annotated[int, Field(ge=0)] = 0
    """Number of further passes of a move, each because records were left."""
    total: Annotated[int, Field(ge=0)] = 0
    """Records to be embedded, as counted for at most a minute when the job was planned."""
    seen: Annotated[int, Field(ge=0)] = 0
    written: Annotated[int, Field(ge=0)] = 0
    lost: Annotated[int, Field(ge=0)] = 0
    """Records that changed while they were embedded, and are left for the next pass."""
    repaired: Annotated[int, Field(ge=0)] = 0
    """Records in which the next index differed from the active one."""
    set_aside: tuple[SetAside, ...] = ()
    """Records set aside by the current run; the next run tries them again if they still need embedding."""
    busy_s: Annotated[float, Field(ge=0)] = 0.0
    """Wall-clock seconds of work, with parallel workers counted once and without pauses between steps."""
    started_at: Timestamp
    updated_at: Timestamp
    check: Check | None = None
    message: str = ""

    @property
    def open(self) -> bool:
        """Whether work is left."""
        return self.status in {Status.RUNNING, Status.PAUSED, Status.FAILED} and self.phase is not Phase.DONE

    @property
    def rate(self) -> float | None:
        """Records written per second of work."""
        return self.written / self.busy_s if self.busy_s > 0 and self.written else None

    @property
    def moves_tenant(self) -> str | None:
        """The tenant that this moves to another index; None of other jobs."""
        return self.only_tenant if self.kind is JobKind.MOVE else None

    @property
    def eta_s(self) -> float | None:
        """Estimated seconds of work left, by the count at the beginning."""
        return None if self.rate is None else max(0, self.total - self.written) / self.rate


def read(jobs: JobStore, name: str) -> ReembeddingJob | None:
    """Return a job as last saved; None if there is none."""
    record = jobs.get(name)
    return None if record is None else ReembeddingJob.model_validate_json(record.body)


def require_job(jobs: JobStore, name: str, run: int | None = None) -> ReembeddingJob:
    """Return a job as last saved.

    Raises InvalidRequest if there is none, and TakenOver if another worker took it over since ``run``.
    """
    job = read(jobs, name)
    if job is None:
        raise InvalidRequest.of("job", f"there is no job {name!r}")
    if run is not None and job.run != run:
        raise TakenOver(f"job {name}: run {job.run} has taken it over")
    return job


def save(jobs: JobStore, job: ReembeddingJob, *, now: datetime, **changes: object) -> ReembeddingJob:
    """Save a job with changes and return it. Raises TakenOver if another worker saved it since it was read."""
    following = ReembeddingJob.model_validate(
        {**job.model_dump(), **changes, "revision": job.revision + 1, "updated_at": now}
    )
    record = JobRecord(name=job.name, revision=following.revision, body=following.model_dump_json())
    if not jobs.put(record):
        raise TakenOver(f"job {job.name}: another worker has taken it over")
    return following


def change(jobs: JobStore, name: str, changed: Callable[[ReembeddingJob], dict[str, object]], *, now: datetime) -> None:
    """Save changes of the latest version of a job, also while others save it; no effect if there is no job.

    Raises TakenOver if others keep saving the job between its read and its write, and whatever ``changed`` raises.
    """
    for attempt in Retrying(
        stop=stop_after_attempt(_ATTEMPTS),
        wait=wait_random(0, _WAIT_S),
        retry=retry_if_exception_type(TakenOver),
        reraise=True,
    ):
        with attempt:
            if (job := read(jobs, name)) is not None:
                save(jobs, job, now=now, **changed(job))


def stop(jobs: JobStore, name: str, status: Status, *, now: datetime) -> None:
    """Save a status and a new run, so that workers on the job stop; no effect if there is no job."""
    change(jobs, name, lambda job: {"run": job.run + 1, "status": status}, now=now)
