"""Verifies a move to another model profile and switches to it, rolls it back, and drops the previous index.

``job_pages`` has filled the next index before; the engine's migration manages both indexes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from braid.errors import InvalidRequest
from braid.ports.reembedding import MAX_IDS, move_job
from braid.reembedding import jobs
from braid.reembedding.job_pages import spaces_to_fill
from braid.reembedding.jobs import Phase, ReembeddingJob, Status, require_job, save
from braid.reembedding.planning import tenant_pages
from braid.reembedding.profile_recall import compare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from braid.ports.reembedding import MigrationState
    from braid.reembedding.job_services import Services
    from braid.reembedding.profile_recall import RecallQuestion

MAX_ROUNDS: Final = 5
"""Most further passes of a move; if records are left after them, they are written faster than the move embeds them."""
_LOOKS: Final = 10
"""Most times that records which differ are compared again before they count as left."""
_LOOK_AGAIN_S: Final = 3.0
"""Seconds before each of these times: a write to both indexes takes about two refreshes of them."""
_ROUNDING: Final = 1e-9
"""Difference of two recalls that is due to rounding."""


def verify(
    services: Services, name: str, run: int, *, questions: Sequence[RecallQuestion] = (), tolerance: float | None = None
) -> ReembeddingJob:
    """Verify that the next index is complete and has the recall of the active one.

    If records are missing, the move returns to filling. If recall is lower by more than the tolerance, the move fails,
    and the active index is unchanged.

    Raises TakenOver if another worker has taken the job over.

    Parameters
    ----------
    questions
        Judged questions; without any, they are derived from a sample of the records.
    tolerance
        Allowed loss of recall; by default that of the settings.
    """
    job = require_job(services.jobs, name, run)
    if job.status is not Status.RUNNING or job.phase is not Phase.VERIFY or not job.profile:
        return job
    services = services.moving(job.moves_tenant)
    # Else neither index would show records that were written just before the move began, and they would be left behind.
    services.index.show_writes()
    left = _count_pending(services, job)
    if left:
        if job.rounds >= MAX_ROUNDS:
            message = f"{left} records still lack vectors after {job.rounds} more rounds; " + (
                f"{job.set_aside[0].tenant}/{job.set_aside[0].record_id}: {job.set_aside[0].error}"
                if job.set_aside
                else "is something writing old ones?"
            )
            return save(services.jobs, job, now=services.now(), status=Status.FAILED, message=message)
        return save(services.jobs, job, now=services.now(), phase=Phase.FILL, rounds=job.rounds + 1)
    services.migration.prepare()
    check = compare(services, services.active_profile(), job.profile, questions)
    allowed = services.limits.tolerance if tolerance is None else tolerance
    if check.recall_after < check.recall_before - allowed - _ROUNDING:
        message = (
            f"recall of {check.asked} questions fell from {check.recall_before:.3f} to {check.recall_after:.3f}, "
            f"by more than {allowed:g}"
        )
        return save(services.jobs, job, now=services.now(), status=Status.FAILED, check=check, message=message)
    return save(services.jobs, job, now=services.now(), phase=Phase.SWITCH, check=check)


def _count_pending(services: Services, job: ReembeddingJob) -> int:
    """Return the number of records that the next index lacks, has beyond the active one, or has without a vector.

    While a tenant writes, some records differ at any moment. A record counts only if it still differs after a write of
    it has had time to reach both indexes.
    """
    migration, spaces = services.migration, spaces_to_fill(services, job)
    left: dict[str, list[str]] = {}
    for tenants in tenant_pages(services):
        if not migration.count_pending(tenants, spaces):
            continue
        for tenant in tenants:
            if migration.count_pending([tenant], spaces):
                left[tenant] = migration.differing(tenant, spaces)
            if (found := sum(map(len, left.values()))) >= MAX_IDS:
                return found
    for _ in range(_LOOKS):
        if not any(left.values()):
            break
        services.sleep(min(_LOOK_AGAIN_S, migration.grace_s))  # 0 where there is one index
        left = {tenant: migration.differing(tenant, spaces, ids) for tenant, ids in left.items() if ids}
    return sum(map(len, left.values()))


def switch(services: Services, name: str, run: int) -> ReembeddingJob:
    """Atomically make a verified move's profile the active one; a sweep of records that lack its vectors follows.

    Raises TakenOver if another worker has taken the job over.
    """
    job = require_job(services.jobs, name, run)
    if job.status is not Status.RUNNING or job.phase is not Phase.SWITCH:
        return job
    services = services.moving(job.moves_tenant)
    if services.migration.serving().next == job.profile:  # else an interrupted step has switched, without saving it
        services.migration.switch()
    _invalidate_answers(services)
    services.sleep(services.migration.grace_s)
    return save(services.jobs, job, now=services.now(), phase=Phase.SWEEP, tenant=None, cursor=None)


def _invalidate_answers(services: Services) -> None:
    for tenants in tenant_pages(services):
        for tenant in tenants:
            services.advance(tenant)


def rollback(services: Services, tenant: str | None = None) -> MigrationState:
    """Abandon the move that runs and has not switched yet; if none does, return to the profile before the last switch.

    With ``tenant``, that tenant returns to the index that it was in before its move.

    After a roll-back the index that was active is kept and written to as the next one: switching to it again needs only
    another verification, and rolling back once more removes it. An interrupted roll-back is completed by rolling back
    again.

    Raises InvalidRequest if there was no move, or for a tenant while all tenants can be rolled back.
    """
    services, name = _moving_alone(services, tenant), move_job(tenant)
    job = jobs.read(services.jobs, name)
    was_interrupted = job is not None and job.status is Status.ROLLING_BACK
    serving = services.migration.serving()
    # No alias tells whether a tenant's abandoned move has left records in the shared index: they are looked for.
    is_left = tenant is not None and job is not None and job.status is Status.ROLLED_BACK and serving.mirrored is None
    abandons_move = (serving.next is not None or is_left) and not was_interrupted
    if not abandons_move and not was_interrupted:
        serving.require_previous()
    # Saved first: workers on the move stop, and an interrupted roll-back is known as one.
    jobs.stop(services.jobs, name, Status.ROLLED_BACK if abandons_move else Status.ROLLING_BACK, now=services.now())
    if abandons_move:
        return _drop(services)
    if serving.next is None:  # else an interrupted call has rolled back, without saving it
        serving = services.migration.rollback()
    _invalidate_answers(services)
    jobs.stop(services.jobs, name, Status.ROLLED_BACK, now=services.now())
    return serving


def drop_previous(services: Services, tenant: str | None = None) -> MigrationState:
    """Delete the index from before the last switch, and the vectors that only its profile has; it cannot be undone.

    With ``tenant``, delete that tenant's previous index, or its records in the shared one. Repeating it completes an
    interrupted deletion.

    Raises InvalidRequest if there is none, a roll-back to it is running, or the tenant's move has not switched yet, and
    for a tenant while all tenants can be rolled back.
    """
    services = _moving_alone(services, tenant)
    serving = services.migration.serving()
    if tenant is None or serving.next is not None:
        serving.require_previous()
    job = jobs.read(services.jobs, move_job(tenant))
    if serving.previous is not None and job is not None and job.status is Status.ROLLING_BACK:
        raise InvalidRequest.of("rollback", "a roll-back is under way; finish it by rolling back again")
    return _drop(services)


def _moving_alone(services: Services, tenant: str | None) -> Services:
    """Return the services for the move of one tenant; the given ones if ``tenant`` is None.

    Raises InvalidRequest while a move of all tenants is open or can be rolled back: it moves a tenant's own index as
    well, which would be left with vectors of another profile than the one that embeds its questions.
    """
    moving = services.moving(tenant)
    if tenant is not None and (profile := services.migration.serving().mirrored) is not None:
        message = f"tenant: a move of all tenants is open, or {profile} is kept for a roll-back; end that first"
        raise InvalidRequest(message, field="tenant")
    return moving


def _drop(services: Services) -> MigrationState:
    serving = services.migration.serving()
    kept = set(services.spaces_of(services.active_profile()))
    beside = services.spaces_of(serving.mirrored) if serving.mirrored else []
    return services.migration.drop([space for space in beside if space not in kept])
