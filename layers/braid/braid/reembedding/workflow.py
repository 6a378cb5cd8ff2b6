"""Steps of a re-embedding job: one page of records at a time, persisted after each, so that any process can resume."""

from __future__ import annotations

from enum import StrEnum
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError, model_validator

from braid.errors import InvalidRequest, TakenOver
from braid.models import Frozen, TenantId
from braid.ports.keys import decode_phase, next_phase
from braid.ports.message_queue import QueueMessage
from braid.ports.reembedding import JobName, ProfileName
from braid.ports.search_index import ScanPage
from braid.reembedding import writing
from braid.reembedding.drifted_records import Reembed
from braid.reembedding.jobs import Check, JobKind, Phase, ReembeddingJob, Status, require, save
from braid.reembedding.migration import switch, verify
from braid.reembedding.planning import plan, tenants_of
from braid.reembedding.services import Budget
from braid.reembedding.writing import reembed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from braid.models import Record
    from braid.models.model_profiles import ModelConfig
    from braid.reembedding.migration import Question
    from braid.reembedding.services import Services


_CHARACTERS_A_TOKEN: Final = 4
_PAGE_CHARACTERS: Final = 1_000_000
"""Text after which a page ends: a page of long texts is as soon embedded as one of many short ones."""


def batch(services: Services, name: str, run: int, budget: Budget | None = None) -> ReembeddingJob:
    """Work on a job until the budget is spent or its phase is over, saving its progress after every page.

    Raises TakenOver if another worker has taken the job over.
    """
    budget = budget or Budget()
    began = services.seconds()
    texts = tokens = 0
    job = require(services.jobs, name, run)
    while job.status is Status.RUNNING and job.phase in {Phase.FILL, Phase.RECONCILE, Phase.SWEEP}:
        try:
            job, records = _page(services, job)
        except TakenOver:
            return require(services.jobs, name, run)  # only paused, or else this raises
        texts += len(records)
        tokens += sum(len(record.text()) // _CHARACTERS_A_TOKEN + 1 for record in records)
        if budget.spent(texts=texts, tokens=tokens, seconds=services.seconds() - began):
            break
        job = require(services.jobs, name, run)  # it may have been paused
    return job


def _page(services: Services, job: ReembeddingJob) -> tuple[ReembeddingJob, Sequence[Record]]:
    """Process one page of one tenant, and advance to the next tenant or phase after its last."""
    if job.tenant is None:
        tenants = tenants_of(services, job, None, limit=1)
        if not tenants:
            return _phase_over(services, job), ()
        job = job.model_copy(update={"tenant": tenants[0], "cursor": None})
    tenant = job.tenant or ""
    began = services.seconds()
    counts = {"repaired": job.repaired, "seen": job.seen, "written": job.written, "lost": job.lost}
    records: Sequence[Record] = ()
    if job.phase is Phase.RECONCILE:
        compared = services.migration.reconcile(tenant, after=job.cursor)
        counts["repaired"] += compared.repaired
        cursor = compared.cursor
    else:
        page = _pending(services, job, tenant, services.limits.page)
        if (fitting := _fitting(page.records)) < len(page.records):
            page = _pending(services, job, tenant, fitting)
        records, cursor = page.records, page.cursor
        if job.phase is Phase.FILL and job.profile:
            settled = writing.fill(services, tenant, records, job.profile)
        else:
            settled = writing.refresh(services, tenant, records, _lacking(services, job))
        counts["seen"] += len(records)
        counts["written"] += settled.written
        counts["lost"] += len(settled.lost)
    elapsed = services.seconds() - began
    changes: dict[str, object] = {**counts, "cursor": cursor, "busy_s": job.busy_s + elapsed}
    if cursor is None:
        following = tenants_of(services, job, tenant, limit=1)
        if not following:
            return _phase_over(services, job.model_copy(update=changes)), records
        changes["tenant"] = following[0]
    job = save(services.jobs, job, now=services.now(), **changes)
    _throttle(services, len(records), elapsed)
    return job, records


def _throttle(services: Services, texts: int, elapsed: float) -> None:
    if services.limits.texts_per_s and texts:
        services.sleep(max(0.0, texts / services.limits.texts_per_s - elapsed))


def _fitting(records: Sequence[Record]) -> int:
    """Return how many of the first records a page's text has room for, one at least."""
    ends = accumulate(len(record.text()) for record in records)
    return max(1, sum(end <= _PAGE_CHARACTERS for end in ends))


def _pending(services: Services, job: ReembeddingJob, tenant: str, limit: int) -> ScanPage:
    """Return the next page of records to embed."""
    if job.phase is Phase.FILL and job.profile:
        return services.migration.pending(tenant, services.spaces_of(job.profile), after=job.cursor, limit=limit)
    # First records of an old schema version, then those without a vector, model by model.
    models = services.active_models()
    number, after = decode_phase(job.cursor)
    if number == 0:
        # A sweep follows a switch, and concerns vectors only.
        below = None if job.phase is Phase.SWEEP else services.schema_below(tenant)
        page = services.index.scan(tenant, schema_below=below, after=after, limit=limit) if below else ScanPage()
    else:
        page = services.index.scan(tenant, model_missing=models[number - 1].id, after=after, limit=limit)
    return ScanPage(records=page.records, cursor=next_phase(number, page.cursor, last=len(models)))


def _lacking(services: Services, job: ReembeddingJob) -> Sequence[ModelConfig] | None:
    """Return the model whose vectors the records of the next page lack; None for records of an old schema version."""
    number, _ = decode_phase(job.cursor)
    return None if number == 0 else [services.active_models()[number - 1]]


def _phase_over(services: Services, job: ReembeddingJob) -> ReembeddingJob:
    """Save that the phase has finished for every tenant, and the phase that follows."""
    following = {
        (JobKind.MOVE, Phase.FILL): Phase.RECONCILE,
        (JobKind.MOVE, Phase.RECONCILE): Phase.VERIFY,
    }.get((job.kind, job.phase), Phase.DONE)
    done = {"status": Status.FINISHED} if following is Phase.DONE else {}
    return save(services.jobs, job, now=services.now(), phase=following, tenant=None, cursor=None, **done)


class StepName(StrEnum):
    """Name of a workflow step."""

    PLAN = "plan"
    BATCH = "batch"
    VERIFY = "verify"
    SWITCH = "switch"


class Asked(Frozen):
    """Input of an execution; the schedule sets ``scheduled`` only."""

    profile: ProfileName | None = None
    """Model profile to move to; None re-embeds outdated records in place."""
    tenant_id: TenantId | None = None
    scheduled: bool = False
    """Whether a paused job stays paused."""


class Step(Frozen):
    """Request of one step; every step but the first names its job and run."""

    step: StepName
    asked: Asked | None = None
    job: JobName | None = None
    run: int | None = None

    @model_validator(mode="after")
    def _names_what_it_is_about(self) -> Step:
        if self.step is StepName.PLAN:
            return self
        if self.job is None or self.run is None:
            raise ValueError(f"{self.step.value} needs job and run")
        return self


class Progress(Frozen):
    """Progress of a job: the response of each step, and the output of the workflow."""

    job: JobName
    run: int
    kind: JobKind
    status: Status
    phase: Phase
    total: int
    written: int
    lost: int
    per_s: float | None
    eta_s: float | None
    check: Check | None
    message: str

    @classmethod
    def of(cls, job: ReembeddingJob) -> Progress:
        """Return the progress of a job."""
        same = ("run", "kind", "status", "phase", "total", "written", "lost", "check", "message")
        return cls(
            job=job.name,
            per_s=None if job.rate is None else round(job.rate, 2),
            eta_s=None if job.eta_s is None else round(job.eta_s, 1),
            **{name: getattr(job, name) for name in same},
        )


def take(step: Step, services: Services, *, step_s: float) -> Progress:
    """Run one step of a job; repeating it is harmless.

    Raises TakenOver if another execution has taken the job over, and InvalidRequest or ConfigurationError as
    :func:`braid.reembedding.plan`.

    Parameters
    ----------
    step_s
        Seconds after which a batch ends; below the function's timeout.
    """
    if step.job is None or step.run is None or step.step is StepName.PLAN:
        asked = step.asked or Asked()
        job = plan(services, profile=asked.profile, tenant=asked.tenant_id, resume_paused=not asked.scheduled)
    elif step.step is StepName.VERIFY:
        job = verify(services, step.job, step.run)
    elif step.step is StepName.SWITCH:
        job = switch(services, step.job, step.run)
    else:
        job = batch(services, step.job, step.run, Budget(seconds=step_s))
    return Progress.of(job)


def work_off(text: str, services: Services) -> None:
    """Re-embed the records of a message of the low-priority queue.

    Raises InvalidRequest if the message is malformed, and StoreError or ModelError as
    :func:`braid.reembedding.writing.reembed`.
    """
    try:
        message = QueueMessage.model_validate_json(text)
    except ValidationError as error:
        raise InvalidRequest.from_validation(error) from None
    reembed(services, Reembed.read(message))


def run_to_end(
    services: Services,
    job: ReembeddingJob,
    *,
    budget: Budget | None = None,
    on_progress: Callable[[ReembeddingJob], None] | None = None,
    questions: Sequence[Question] = (),
    tolerance: float | None = None,
) -> ReembeddingJob:
    """Run the remaining steps of a job in this process; the deployed workflow runs the same ones.

    Parameters
    ----------
    budget
        Bounds of the work before this returns; the job stays open if they are reached.
    on_progress
        Called with the job after every page.
    """
    budget = budget or Budget()
    began, seen = services.seconds(), job.seen
    while job.status is Status.RUNNING and job.phase is not Phase.DONE:
        if job.phase is Phase.VERIFY:
            job = verify(services, job.name, job.run, questions=questions, tolerance=tolerance)
        elif job.phase is Phase.SWITCH:
            job = switch(services, job.name, job.run)
        else:
            job = batch(services, job.name, job.run, Budget(seconds=0))
        if on_progress:
            on_progress(job)
        if budget.spent(texts=job.seen - seen, seconds=services.seconds() - began):
            break
    return job
