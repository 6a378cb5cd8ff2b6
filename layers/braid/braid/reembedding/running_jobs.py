"""Runs a re-embedding job, or a move to another model: its steps, each persisted so that any process can resume it.

They are run here one after another, or by the state machine ``shared/statemachines/reembed.asl.yaml``, which
``ReembedNightly`` in ``template.yaml`` starts every night for outdated records (:class:`JobRequest`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, cast

from pydantic import model_validator

from braid.errors import StoreError, TakenOver, as_invalid_request
from braid.models import Frozen, TenantId
from braid.ports.message_queue import QueueMessage
from braid.ports.reembedding import JobName, ProfileName
from braid.reembedding.embed_and_write_back import reembed
from braid.reembedding.job_pages import PAGED, Done, IdRange, Listed, Position, list_pages, process_page, settle
from braid.reembedding.job_services import RunBudget
from braid.reembedding.jobs import Check, JobKind, Phase, Place, ReembeddingJob, Status, change, require_job
from braid.reembedding.planning import plan
from braid.reembedding.queue_from_answers import ReembedMessage
from braid.reembedding.switch_and_rollback import switch, verify

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from braid.reembedding.job_services import Services
    from braid.reembedding.profile_recall import RecallQuestion


def work_one_page(services: Services, name: str, run: int) -> ReembeddingJob:
    """Embed the next page of a job that is in one of the :data:`PAGED` phases, and save its progress.

    Raises TakenOver if another worker has taken the job over.
    """
    job = require_job(services.jobs, name, run)
    if job.status is not Status.RUNNING or job.phase not in PAGED:
        return job
    began = services.seconds()
    listed = list_pages(services, job, most=1)
    done = process_page(services, job, listed.pages[0]) if listed.pages else Done()
    elapsed = services.seconds() - began
    try:
        return settle(services, job, cast("Position", listed.position), busy_s=elapsed, done=done)
    except TakenOver:
        return require_job(services.jobs, name, run)  # only paused, or else this raises


def _list(services: Services, job: ReembeddingJob, step: Step, *, step_s: float) -> Progress:
    """Save the position up to which pages are done, and return the job's progress with its next pages."""
    if job.status is not Status.RUNNING or job.phase not in PAGED:
        return Progress.of(job)
    if failed := [each.error for each in step.outcomes if each.error]:
        raise StoreError(f"pages failed: {len(failed)}, the first with {failed[0]}; the next run lists them again")
    if (done := step.done) is not None:
        job = settle(services, job, done, busy_s=max(0.0, (services.now() - done.began).total_seconds()))
    if job.phase not in PAGED:
        return Progress.of(job)
    listed = list_pages(services, job, most=services.limits.pages, seconds=step_s)
    return Progress.of(job).altered(listed=listed)


def _embed(services: Services, job: ReembeddingJob, page: IdRange) -> Progress:
    """Embed a page, in parallel with others, and add its result to the job."""
    if job.status is Status.RUNNING:
        with services.writer(job.only_tenant):
            done = process_page(services, job, page)
        change(services.jobs, job.name, done.added_to, now=services.now())
    return Progress.of(job)


class StepName(StrEnum):
    """Name of a workflow step."""

    PLAN = "plan"
    LIST = "list"
    PAGE = "page"
    VERIFY = "verify"
    SWITCH = "switch"


class JobRequest(Frozen):
    """Input of an execution; the schedule sets ``scheduled`` only."""

    profile: ProfileName | None = None
    """Model profile to move to; None re-embeds outdated records in place."""
    tenant_id: TenantId | None = None
    index: Place | None = None
    """Index that the tenant is moved to; None moves it nowhere."""
    scheduled: bool = False
    """Whether a paused job stays paused."""


class Outcome(Frozen):
    """Outcome of a page of a workflow."""

    error: str | None = None
    """Name of the error; None if the page succeeded."""


class Step(Frozen):
    """Request of one step; every step but the first names its job and run."""

    step: StepName
    asked: JobRequest | None = None
    job: JobName | None = None
    run: int | None = None
    done: Position | None = None
    """For ``list``: the position up to which the pages of the previous list are done."""
    outcomes: tuple[Outcome, ...] = ()
    """For ``list``: the outcomes of those pages."""
    page: IdRange | None = None
    """For ``page``: the page to embed."""

    @property
    def tenant_id(self) -> str | None:
        """Tenant of the page; None of other steps, which are about a whole job."""
        return self.page.tenant if self.page else None

    @model_validator(mode="after")
    def _names_what_it_is_about(self) -> Step:
        if self.step is StepName.PLAN:
            return self
        if self.job is None or self.run is None:
            raise ValueError(f"{self.step.value} needs job and run")
        if self.step is StepName.PAGE and self.page is None:
            raise ValueError("page needs a page")
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
    set_aside: int
    per_s: float | None
    eta_s: float | None
    check: Check | None
    message: str
    listed: Listed = Listed()
    """The pages to embed next, of a step that lists them."""
    outcomes: tuple[Outcome, ...] = ()
    """Always empty here: the workflow sets it to how the pages ended, and the next list reads it."""

    @classmethod
    def of(cls, job: ReembeddingJob) -> Progress:
        """Return the progress of a job."""
        return cls.taken_from(
            job,
            job=job.name,
            set_aside=len(job.set_aside),
            per_s=None if job.rate is None else round(job.rate, 2),
            eta_s=None if job.eta_s is None else round(job.eta_s, 1),
        )


def run_step(step: Step, services: Services, *, step_s: float) -> Progress:
    """Run one step of a job; repeating it is harmless.

    Raises TakenOver if another execution has taken the job over, QueueFull if all slots of bulk writes are taken, and
    InvalidRequest or ConfigurationError as :func:`braid.reembedding.plan`.

    Parameters
    ----------
    step_s
        Seconds after which no more pages are listed; below the function's timeout.
    """
    if step.job is None or step.run is None or step.step is StepName.PLAN:
        job = begin(step.asked or JobRequest(), services)
    elif step.step is StepName.VERIFY:
        job = verify(services, step.job, step.run)
    elif step.step is StepName.SWITCH:
        job = switch(services, step.job, step.run)
    else:
        job = require_job(services.jobs, step.job, step.run)
        return _list(services, job, step, step_s=step_s) if step.page is None else _embed(services, job, step.page)
    return Progress.of(job)


def begin(asked: JobRequest, services: Services) -> ReembeddingJob:
    """Begin the requested job, or take it over. Raises as :func:`braid.reembedding.plan`."""
    return plan(
        services,
        profile=asked.profile,
        tenant=asked.tenant_id,
        move_tenant=asked.index,
        resume_paused=not asked.scheduled,
    )


def work_off(text: str, services: Services) -> None:
    """Re-embed the records of a message of the re-embedding queue.

    Raises InvalidRequest if the message is malformed, and StoreError or ModelError as
    :func:`braid.reembedding.embed_and_write_back.reembed`.
    """
    with as_invalid_request():
        message = QueueMessage.model_validate_json(text)
    reembed(services, ReembedMessage.read(message))


def run_to_end(
    services: Services,
    job: ReembeddingJob,
    *,
    budget: RunBudget | None = None,
    on_progress: Callable[[ReembeddingJob], None] | None = None,
    questions: Sequence[RecallQuestion] = (),
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
    budget = budget or RunBudget()
    began, seen = services.seconds(), job.seen
    while job.status is Status.RUNNING and job.phase is not Phase.DONE:
        if job.phase is Phase.VERIFY:
            job = verify(services, job.name, job.run, questions=questions, tolerance=tolerance)
        elif job.phase is Phase.SWITCH:
            job = switch(services, job.name, job.run)
        else:
            job = work_one_page(services, job.name, job.run)
        if on_progress:
            on_progress(job)
        if budget.spent(texts=job.seen - seen, seconds=services.seconds() - began):
            break
    return job
