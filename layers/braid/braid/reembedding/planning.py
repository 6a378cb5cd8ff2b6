"""Plans, resumes and pauses re-embedding jobs, and counts outdated records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from braid.errors import ConfigurationError, InvalidRequest
from braid.models.model_profiles import AUTO, models_of, space_of
from braid.ports.job_store import refresh_job
from braid.reembedding import jobs
from braid.reembedding.jobs import Job, JobKind, Phase, Status, require, save

if TYPE_CHECKING:
    from braid.reembedding.tools import Tools

COUNTED_S: Final = 60.0
"""Most seconds for counting a new job's records, tenant by tenant; well below the limit of the first step."""
MOVE: Final = "move"


def plan(tools: Tools, *, profile: str | None = None, tenant: str | None = None, resume_paused: bool = True) -> Job:
    """Begin a job, or take over an open one and resume it where it stopped.

    Parameters
    ----------
    profile
        Model profile to move to; None re-embeds outdated records in place.
    tenant
        Only this tenant's records; a move is always of all tenants.
    resume_paused
        Whether a paused job is resumed. The schedule does not.

    Raises
    ------
    InvalidRequest
        If the profile is active already, or another move is open.
    ConfigurationError
        If there is no such profile, or a setting forces one model.
    """
    name = MOVE if profile else refresh_job(tenant)
    job = jobs.read(tools.jobs, name)
    now = tools.now()
    if job is not None and job.open and job.profile == profile:
        if job.status is Status.PAUSED and not resume_paused:
            return job
        from_the_start = job.status is Status.FAILED
        if profile and profile not in _served(tools):
            _begin_move(tools, profile)  # the index that was filled is gone
            from_the_start = True
        again = {"phase": Phase.FILL, "tenant": None, "cursor": None} if from_the_start else {}
        return save(tools.jobs, job, now=now, run=job.run + 1, status=Status.RUNNING, message="", rounds=0, **again)
    if profile:
        if tenant:
            message = "tenant: a move to another profile is of all tenants"
            raise InvalidRequest(message, field="tenant")
        _begin_move(tools, profile)
    started = Job(
        name=name,
        kind=JobKind.MOVE if profile else JobKind.REFRESH,
        profile=profile,
        only_tenant=tenant,
        started_at=now,
        updated_at=now,
    )
    # The numbers of a finished job of this name continue, so that workers still on that one stop.
    before = {"run": job.run + 1, "revision": job.revision} if job else {}
    return save(tools.jobs, started.model_copy(update=before), now=now, total=_total(tools, started))


def _served(tools: Tools) -> set[str | None]:
    serving = tools.moves.serving()
    return {serving.active, serving.next}


def _begin_move(tools: Tools, profile: str) -> None:
    if tools.forced_model != AUTO:
        message = f"BRAID_EMBEDDING_MODEL forces {tools.forced_model}; a move needs {AUTO}, so that the profile chooses"
        raise ConfigurationError(message)
    active = tools.active_profile()
    if profile == active:
        message = f"profile: {profile} is the active profile already"
        raise InvalidRequest(message, field="profile")
    models = [*models_of(tools.profiles, active), *models_of(tools.profiles, profile)]
    for model in models_of(tools.profiles, profile):
        tools.encoder_for(model)  # a missing model is found before an index is made for it
    tools.moves.begin(active, profile, {space_of(model): model.dimension for model in models})


def _total(tools: Tools, job: Job) -> int:
    """Count the records to embed, for at most :data:`COUNTED_S`: the count only serves an estimate."""
    began, total, after = tools.seconds(), 0, None
    while tenants := tenants_of(tools, job, after):
        for tenant in tenants:
            if tools.seconds() - began > COUNTED_S:
                return total
            total += (
                tools.index.stats(tenant).records if job.kind is JobKind.MOVE else sum(outdated(tools, tenant).values())
            )
        after = tenants[-1]
    return total


def tenants_of(tools: Tools, job: Job, after: str | None, *, limit: int = 500) -> list[str]:
    """Return the next of a job's tenants."""
    if job.only_tenant is None:
        return tools.moves.tenants(after=after, limit=limit)
    return [job.only_tenant] if after is None else []


def outdated(tools: Tools, tenant: str) -> dict[str, int]:
    """Return the numbers of a tenant's outdated records by reason; one with two reasons counts twice.

    The reasons are ``schema`` and, for each model of the active profile, its id.
    """
    below = tools.schema_below(tenant)
    counts = {"schema": tools.moves.count(tenant, schema_below=below) if below else 0}
    for model in tools.active_models():
        counts[model.id] = tools.moves.count(tenant, model_missing=model.id)
    return counts


def pause(tools: Tools, name: str) -> Job:
    """Pause a job until it is resumed by hand; its workers stop after their current page."""
    job = require(tools.jobs, name)
    if job.status is not Status.RUNNING:
        message = f"job: {name} is {job.status.value}, not running"
        raise InvalidRequest(message, field="job")
    return save(tools.jobs, job, now=tools.now(), status=Status.PAUSED)


def status(tools: Tools) -> list[Job]:
    """Return every job, open or finished."""
    found = (jobs.read(tools.jobs, name) for name in tools.jobs.names())
    return [job for job in found if job is not None]
