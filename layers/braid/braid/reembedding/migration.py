"""Completes a move to another model profile: verification, switch, rollback, and removal of the previous index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from braid.errors import InvalidRequest
from braid.reembedding import jobs, verification
from braid.reembedding.jobs import Job, Phase, Status, require, save
from braid.reembedding.planning import MOVE
from braid.reembedding.services import Budget
from braid.reembedding.steps import batch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from braid.ports.index_migration import MigrationState
    from braid.reembedding.services import Services
    from braid.reembedding.verification import Question

MAX_ROUNDS: Final = 5
"""Most further passes of a move; if records are left after them, they change faster than they are embedded."""
_ROUNDING: Final = 1e-9


def verify(
    services: Services, name: str, run: int, *, questions: Sequence[Question] = (), tolerance: float | None = None
) -> Job:
    """Verify that the next index is complete and has the recall of the active one.

    If records are left, the move returns to filling. If recall is lower by more than the tolerance, it fails, and what
    is served does not change.

    Parameters
    ----------
    questions
        Judged questions; without any, they are derived from a sample of the records.
    tolerance
        Allowed loss of recall; by default that of the settings.

    Raises
    ------
    TakenOver
        If another worker has taken the job over.
    """
    job = require(services.jobs, name, run)
    if job.status is not Status.RUNNING or job.phase is not Phase.VERIFY or not job.profile:
        return job
    left = _left(services, job)
    if left:
        if job.rounds >= MAX_ROUNDS:
            message = (
                f"{left} records still lack vectors after {job.rounds} more rounds; is something writing old ones?"
            )
            return save(services.jobs, job, now=services.now(), status=Status.FAILED, message=message)
        return save(services.jobs, job, now=services.now(), phase=Phase.FILL, rounds=job.rounds + 1)
    services.migration.prepare()
    check = verification.compare(services, services.active_profile(), job.profile, questions)
    allowed = services.limits.tolerance if tolerance is None else tolerance
    if check.recall_after < check.recall_before - allowed - _ROUNDING:
        message = (
            f"recall of {check.asked} questions fell from {check.recall_before:.3f} to {check.recall_after:.3f}, "
            f"by more than {allowed:g}"
        )
        return save(services.jobs, job, now=services.now(), status=Status.FAILED, check=check, message=message)
    return save(services.jobs, job, now=services.now(), phase=Phase.SWITCH, check=check)


def _left(services: Services, job: Job) -> int:
    left, after = 0, None
    spaces = services.spaces_of(job.profile or "")
    while tenants := services.migration.tenants(after=after):
        left += services.migration.count_pending(tenants, spaces)
        after = tenants[-1]
    return left


def switch(services: Services, name: str, run: int) -> Job:
    """Atomically make a verified move's profile the active one; a sweep of records without its vectors follows.

    Raises
    ------
    TakenOver
        If another worker has taken the job over.
    """
    job = require(services.jobs, name, run)
    if job.status is not Status.RUNNING or job.phase is not Phase.SWITCH:
        return job
    if services.migration.serving().active != job.profile:  # else it happened before an interruption, and is only saved
        services.migration.switch()
    _outdate_answers(services)
    services.sleep(services.migration.grace_s)
    return save(services.jobs, job, now=services.now(), phase=Phase.SWEEP, tenant=None, cursor=None)


def _outdate_answers(services: Services) -> None:
    after = None
    while tenants := services.migration.tenants(after=after):
        for tenant in tenants:
            services.advance(tenant)
        after = tenants[-1]


def run_to_end(
    services: Services,
    job: Job,
    *,
    budget: Budget | None = None,
    on_progress: Callable[[Job], None] | None = None,
    questions: Sequence[Question] = (),
    tolerance: float | None = None,
) -> Job:
    """Run the remaining steps of a job in this process; the deployed workflow runs the same ones.

    Parameters
    ----------
    budget
        Bounds of the work before this returns; the job stays open if they are reached.
    on_progress
        Called with the job after every page.
    questions, tolerance
        As :func:`verify`.
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


def rollback(services: Services) -> MigrationState:
    """Return to the profile before the last switch; or, before the switch of a move, abandon the move.

    After a roll-back the index that was active is kept and written to as the next one: returning to it needs another
    verification only, and rolling back once more removes it. An interrupted roll-back is completed by rolling back
    again.

    Raises
    ------
    InvalidRequest
        If there was no move.
    """
    job = jobs.read(services.jobs, MOVE)
    begun = job is not None and job.status is Status.ROLLING_BACK
    serving = services.migration.serving()
    giving_up = serving.next is not None and not begun
    if not giving_up and not begun:
        serving.rolled_back()  # raises where there is nothing to go back to
    # Saved first: workers on the move stop, and an interrupted roll-back is known as one.
    jobs.stop(services.jobs, MOVE, Status.ROLLED_BACK if giving_up else Status.ROLLING_BACK, now=services.now())
    if giving_up:
        return _drop(services)
    if serving.next is None:  # else it happened before an interruption, and is only saved
        serving = services.migration.rollback()
    _outdate_answers(services)
    jobs.stop(services.jobs, MOVE, Status.ROLLED_BACK, now=services.now())
    return serving


def drop_previous(services: Services) -> MigrationState:
    """Delete the index from before the last switch, and the vectors of its profile alone; it cannot be undone.

    Raises
    ------
    InvalidRequest
        If there is none, or a roll-back to it is running.
    """
    services.migration.serving().rolled_back()  # raises where there is no previous one
    job = jobs.read(services.jobs, MOVE)
    if job is not None and job.status is Status.ROLLING_BACK:
        message = "rollback: a roll-back is under way; finish it by rolling back again"
        raise InvalidRequest(message, field="rollback")
    return _drop(services)


def _drop(services: Services) -> MigrationState:
    serving = services.migration.serving()
    kept = set(services.spaces_of(services.active_profile()))
    beside = services.spaces_of(serving.mirrored) if serving.mirrored else []
    return services.migration.drop([space for space in beside if space not in kept])
