"""Steps of the deployed re-embedding workflow, and the consumer of the low-priority queue."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from pydantic import ValidationError, model_validator

from braid.errors import InvalidRequest
from braid.models import Frozen, TenantId
from braid.ports.index_migration import ProfileName
from braid.ports.job_store import JobName
from braid.ports.message_queue import QueueMessage
from braid.reembedding.jobs import Check, JobKind, Phase, Status
from braid.reembedding.messages import Reembed
from braid.reembedding.migration import switch, verify
from braid.reembedding.planning import plan
from braid.reembedding.steps import batch
from braid.reembedding.tools import Budget
from braid.reembedding.writing import reembed

if TYPE_CHECKING:
    from braid.reembedding.jobs import Job
    from braid.reembedding.tools import Tools


class StepName(StrEnum):
    """What the workflow asks the function to do."""

    PLAN = "plan"
    BATCH = "batch"
    VERIFY = "verify"
    SWITCH = "switch"


class Asked(Frozen):
    """What an execution is started with; the schedule says only that it is the schedule."""

    profile: ProfileName | None = None
    """Model profile to move to; None embeds what is outdated."""
    tenant_id: TenantId | None = None
    scheduled: bool = False
    """Whether a job that was paused by hand is left alone."""


class Step(Frozen):
    """One step, of a job or the first one."""

    step: StepName
    asked: Asked | None = None
    job: JobName | None = None
    run: int | None = None

    @model_validator(mode="after")
    def _names_what_it_is_about(self) -> Step:
        if self.step is StepName.PLAN:
            return self
        if self.job is None or self.run is None:
            message = f"{self.step.value} needs job and run"
            raise ValueError(message)
        return self


class Progress(Frozen):
    """How far a job is: what flows through the workflow, and what it reports."""

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
    def of(cls, job: Job) -> Progress:
        """Return what is to be known of a job."""
        return cls(
            job=job.name,
            run=job.run,
            kind=job.kind,
            status=job.status,
            phase=job.phase,
            total=job.total,
            written=job.written,
            lost=job.lost,
            per_s=None if job.rate is None else round(job.rate, 2),
            eta_s=None if job.eta_s is None else round(job.eta_s, 1),
            check=job.check,
            message=job.message,
        )


def take(step: Step, tools: Tools, *, step_s: float) -> Progress:
    """Take one step of a job; taking it again is harmless.

    Parameters
    ----------
    step_s
        Seconds after which a batch ends, below the time that the function has.

    Raises
    ------
    TakenOver
        If another execution goes on with the job.
    InvalidRequest, ConfigurationError
        As :func:`braid.reembedding.plan`.
    """
    if step.job is None or step.run is None or step.step is StepName.PLAN:
        asked = step.asked or Asked()
        job = plan(tools, profile=asked.profile, tenant=asked.tenant_id, resume_paused=not asked.scheduled)
    elif step.step is StepName.VERIFY:
        job = verify(tools, step.job, step.run)
    elif step.step is StepName.SWITCH:
        job = switch(tools, step.job, step.run)
    else:
        job = batch(tools, step.job, step.run, Budget(seconds=step_s))
    return Progress.of(job)


def work_off(text: str, tools: Tools) -> None:
    """Embed again what a message of the low-priority queue asks for.

    Raises
    ------
    InvalidRequest
        If the message is none.
    StoreError, ModelError
        As :func:`braid.reembedding.writing.reembed`.
    """
    try:
        message = QueueMessage.model_validate_json(text)
    except ValidationError as error:
        raise InvalidRequest.from_validation(error) from None
    reembed(tools, Reembed.read(message))
