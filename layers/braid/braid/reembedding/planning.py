"""Plans, resumes and pauses re-embedding jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from braid.errors import ConfigurationError, InvalidRequest
from braid.models.embedding_models import AUTO, models_of, space_of
from braid.ports.reembedding import move_job, refresh_job
from braid.reembedding import jobs
from braid.reembedding.jobs import JobKind, Phase, Place, ReembeddingJob, Status, require_job, save
from braid.reembedding.outdated_conditions import outdated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from braid.reembedding.job_services import Services

COUNTED_S: Final = 60.0
"""Most seconds for counting a new job's records, tenant by tenant; well below the limit of the first step."""


def plan(
    services: Services,
    *,
    profile: str | None = None,
    tenant: str | None = None,
    move_tenant: Place | None = None,
    resume_paused: bool = True,
) -> ReembeddingJob:
    """Begin a job, or take over an open one and resume it where it stopped.

    Parameters
    ----------
    profile
        Model profile to move to; None re-embeds outdated records in place.
    tenant
        Only this tenant's records; a move to another profile is always of all tenants.
    move_tenant
        Index that the tenant is moved to, with the vectors that its records have.
    resume_paused
        Whether a paused job is resumed. The schedule does not.

    Raises
    ------
    InvalidRequest
        If the profile is active already, or another move is open.
    ConfigurationError
        If there is no such profile, or a setting forces one model.
    """
    if move_tenant is not None:
        if tenant is None or profile is not None:
            raise InvalidRequest.of("tenant", "name the tenant to move, and no profile")
        profile = services.active_profile()
        services = services.moving(tenant, back=move_tenant is Place.SHARED)
    elif profile and tenant:
        raise InvalidRequest.of("tenant", "a move to another profile moves all tenants")
    name = move_job(tenant) if profile else refresh_job(tenant)
    job = jobs.read(services.jobs, name)
    now = services.now()
    if job is not None and job.open and job.profile == profile:
        if job.index not in {None, move_tenant}:
            message = f"tenant: its move to the index {job.index} is open; finish it or roll it back first"
            raise InvalidRequest(message, field="tenant")
        if job.status is Status.PAUSED and not resume_paused:
            return job
        from_the_start = job.status is Status.FAILED or bool(job.set_aside)
        if profile and _is_gone(services, job):
            _begin_move(services, profile, tenant)
            from_the_start = True
        again: dict[str, object] = {"phase": Phase.FILL, "tenant": None, "cursor": None} if from_the_start else {}
        again |= {"message": "", "rounds": 0, "set_aside": ()}
        return save(services.jobs, job, now=now, run=job.run + 1, status=Status.RUNNING, **again)
    if profile:
        _begin_move(services, profile, tenant)
    started = ReembeddingJob(
        name=name,
        kind=JobKind.MOVE if profile else JobKind.REFRESH,
        profile=profile,
        only_tenant=tenant,
        index=move_tenant,
        started_at=now,
        updated_at=now,
    )
    # The numbers of a finished job of this name continue, so that workers still on that one stop.
    before = {"run": job.run + 1, "revision": job.revision} if job else {}
    return save(services.jobs, started.altered(**before), now=now, total=_total(services, started))


def _is_gone(services: Services, job: ReembeddingJob) -> bool:
    """Return whether the index that an open move was filling no longer exists."""
    serving = services.migration.serving()
    # While it switches, a tenant's move may have switched already: its profile is the active one all along.
    fills = job.phase in {Phase.FILL, Phase.RECONCILE, Phase.VERIFY}
    return job.profile not in {serving.active, serving.next} or (fills and serving.next is None)


def _begin_move(services: Services, profile: str, tenant: str | None) -> None:
    """Create the next index of a move. Raises InvalidRequest or ConfigurationError if the move is not possible."""
    if tenant is not None:
        services.migration.begin(profile, profile, {})
        return
    if services.forced_model != AUTO:
        raise ConfigurationError(
            f"BRAID_EMBEDDING_MODEL forces {services.forced_model}; a move needs {AUTO}, so that the profile chooses"
        )
    active = services.active_profile()
    if profile == active:
        raise InvalidRequest.of("profile", f"{profile} is the active profile already")
    models = [*models_of(services.profiles, active), *models_of(services.profiles, profile)]
    for model in models_of(services.profiles, profile):
        services.encoder_for(model)  # a missing model is found before an index is made for it
    services.migration.begin(active, profile, {space_of(model): model.dimension for model in models})


def _total(services: Services, job: ReembeddingJob) -> int:
    """Count the records to embed, for at most :data:`COUNTED_S`: the count only serves an estimate."""
    began, total = services.seconds(), 0
    for tenants in tenant_pages(services, job.only_tenant):
        for tenant in tenants:
            if services.seconds() - began > COUNTED_S:
                return total
            total += (
                services.index.stats(tenant).records
                if job.kind is JobKind.MOVE
                else sum(outdated(services, tenant).values())
            )
    return total


def tenant_pages(services: Services, only: str | None = None) -> Iterator[list[str]]:
    """Yield all tenants that have records, some hundred at a time; or ``only`` that one."""
    tenants = services.migration.tenants() if only is None else [only]
    while tenants:
        yield tenants
        tenants = services.migration.tenants(after=tenants[-1]) if only is None else []


def pause(services: Services, name: str) -> ReembeddingJob:
    """Pause a job until it is resumed by hand; its workers stop after their current page."""
    job = require_job(services.jobs, name)
    if job.status is not Status.RUNNING:
        raise InvalidRequest.of("job", f"{name} is {job.status.value}, not running")
    return save(services.jobs, job, now=services.now(), status=Status.PAUSED)


def status(services: Services) -> list[ReembeddingJob]:
    """Return every job, open or finished."""
    found = (jobs.read(services.jobs, name) for name in services.jobs.names())
    return [job for job in found if job is not None]
