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
from braid.reembedding.drifted_records import Reembed
from braid.reembedding.jobs import Check, JobKind, Phase, Status
from braid.reembedding.migration import switch, verify
from braid.reembedding.planning import plan
from braid.reembedding.services import Budget
from braid.reembedding.steps import batch
from braid.reembedding.writing import reembed

if TYPE_CHECKING:
    from braid.reembedding.jobs import Job
    from braid.reembedding.services import Services


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
            message = f"{self.step.value} needs job and run"
            raise ValueError(message)
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
    def of(cls, job: Job) -> Progress:
        """Return the progress of a job."""
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


def take(step: Step, services: Services, *, step_s: float) -> Progress:
    """Run one step of a job; repeating it is harmless.

    Parameters
    ----------
    step_s
        Seconds after which a batch ends; below the function's timeout.

    Raises
    ------
    TakenOver
        If another execution has taken the job over.
    InvalidRequest, ConfigurationError
        As :func:`braid.reembedding.plan`.
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

    Raises
    ------
    InvalidRequest
        If the message is malformed.
    StoreError, ModelError
        As :func:`braid.reembedding.writing.reembed`.
    """
    try:
        message = QueueMessage.model_validate_json(text)
    except ValidationError as error:
        raise InvalidRequest.from_validation(error) from None
    reembed(services, Reembed.read(message))
