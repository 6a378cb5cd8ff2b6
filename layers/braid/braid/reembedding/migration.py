"""Completes a move to another model profile: verification, switch, rollback, and removal of the previous index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from braid.reembedding import jobs, verification
from braid.reembedding.jobs import Job, Phase, Status, require, save
from braid.reembedding.planning import MOVE
from braid.reembedding.steps import batch
from braid.reembedding.tools import Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from braid.ports.index_migration import MigrationState
    from braid.reembedding.tools import Tools
    from braid.reembedding.verification import Question

MAX_ROUNDS: Final = 5
"""How often a move looks for what was left before it gives up: something then changes faster than it is embedded."""
_ROUNDING: Final = 1e-9


def verify(
    tools: Tools, name: str, run: int, *, questions: Sequence[Question] = (), tolerance: float | None = None
) -> Job:
    """Look whether the next index is whole and finds what the active one finds.

    A move of which something is left goes back to filling. One whose recall is lower by more than the tolerance fails,
    and nothing of what is served changes.

    Parameters
    ----------
    questions
        Judged questions; made from a sample of the records when there are none.
    tolerance
        By how much recall may be lower; the settings tell when not given.

    Raises
    ------
    TakenOver
        If somebody else goes on with the job.
    """
    job = require(tools.jobs, name, run)
    if job.status is not Status.RUNNING or job.phase is not Phase.VERIFY or not job.profile:
        return job
    left = _left(tools, job)
    if left:
        if job.rounds >= MAX_ROUNDS:
            message = (
                f"{left} records still lack vectors after {job.rounds} more rounds; is something writing old ones?"
            )
            return save(tools.jobs, job, now=tools.now(), status=Status.FAILED, message=message)
        return save(tools.jobs, job, now=tools.now(), phase=Phase.FILL, rounds=job.rounds + 1)
    tools.moves.prepare()
    check = verification.compare(tools, tools.active_profile(), job.profile, questions)
    allowed = tools.limits.tolerance if tolerance is None else tolerance
    if check.recall_after < check.recall_before - allowed - _ROUNDING:
        message = (
            f"recall of {check.asked} questions fell from {check.recall_before:.3f} to {check.recall_after:.3f}, "
            f"by more than {allowed:g}"
        )
        return save(tools.jobs, job, now=tools.now(), status=Status.FAILED, check=check, message=message)
    return save(tools.jobs, job, now=tools.now(), phase=Phase.SWITCH, check=check)


def _left(tools: Tools, job: Job) -> int:
    left, after = 0, None
    spaces = tools.spaces_of(job.profile or "")
    while tenants := tools.moves.tenants(after=after):
        left += tools.moves.count_pending(tenants, spaces)
        after = tenants[-1]
    return left


def switch(tools: Tools, name: str, run: int) -> Job:
    """Make a verified move's profile the active one, in one act; then comes a sweep of what was written past it.

    Raises
    ------
    TakenOver
        If somebody else goes on with the job.
    """
    job = require(tools.jobs, name, run)
    if job.status is not Status.RUNNING or job.phase is not Phase.SWITCH:
        return job
    if tools.moves.serving().active != job.profile:  # a switch that was cut off after the act is only noted
        tools.moves.switch()
    _outdate_answers(tools)
    tools.sleep(tools.moves.grace_s)
    return save(tools.jobs, job, now=tools.now(), phase=Phase.SWEEP, tenant=None, cursor=None)


def _outdate_answers(tools: Tools) -> None:
    after = None
    while tenants := tools.moves.tenants(after=after):
        for tenant in tenants:
            tools.advance(tenant)
        after = tenants[-1]


def run_to_end(
    tools: Tools,
    job: Job,
    *,
    budget: Budget | None = None,
    on_progress: Callable[[Job], None] | None = None,
    questions: Sequence[Question] = (),
    tolerance: float | None = None,
) -> Job:
    """Take every step of a job that is left, in this process; the deployed workflow takes the same ones.

    Parameters
    ----------
    budget
        How much is done before this returns; what is left is left.
    on_progress
        Called with the job after every page.
    questions, tolerance
        As :func:`verify`.
    """
    budget = budget or Budget()
    began, seen = tools.seconds(), job.seen
    while job.status is Status.RUNNING and job.phase is not Phase.DONE:
        if job.phase is Phase.VERIFY:
            job = verify(tools, job.name, job.run, questions=questions, tolerance=tolerance)
        elif job.phase is Phase.SWITCH:
            job = switch(tools, job.name, job.run)
        else:
            job = batch(tools, job.name, job.run, Budget(seconds=0))
        if on_progress:
            on_progress(job)
        if budget.spent(texts=job.seen - seen, seconds=tools.seconds() - began):
            break
    return job


def rollback(tools: Tools) -> MigrationState:
    """Go back to the profile before the last switch; or, when a move is not switched yet, give it up.

    After a roll-back the index that was active is kept and written to as the next one: going back to it needs another
    verification only, and rolling back once more removes it. A roll-back that was cut off is finished by rolling back
    again.

    Raises
    ------
    InvalidRequest
        If there was no move.
    """
    job = jobs.read(tools.jobs, MOVE)
    begun = job is not None and job.status is Status.ROLLING_BACK
    serving = tools.moves.serving()
    giving_up = serving.next is not None and not begun
    if not giving_up and not begun:
        serving.rolled_back()  # raises where there is nothing to go back to
    # Noted before anything is done: whoever works on the move stops, and a roll-back that is cut off is known as one.
    jobs.stop(tools.jobs, MOVE, Status.ROLLED_BACK if giving_up else Status.ROLLING_BACK, now=tools.now())
    if giving_up:
        return _drop(tools)
    if serving.next is None:  # else it was cut off after the act, which then is only noted
        tools.moves.announce_rollback()
        # Questions that were embedded by the profile that goes are still answered in full by the index that goes.
        tools.sleep(tools.moves.grace_s)
        serving = tools.moves.rollback()
    _outdate_answers(tools)
    jobs.stop(tools.jobs, MOVE, Status.ROLLED_BACK, now=tools.now())
    return serving


def drop_previous(tools: Tools) -> MigrationState:
    """Remove the index from before the last switch, and the vectors that only its profile has: no way back then.

    Raises
    ------
    InvalidRequest
        If there is none, or a roll-back to it is under way.
    """
    serving = tools.moves.serving()
    serving.rolled_back()  # raises where there is no previous one
    serving.stay()
    return _drop(tools)


def _drop(tools: Tools) -> MigrationState:
    serving = tools.moves.serving()
    kept = set(tools.spaces_of(tools.active_profile()))
    beside = tools.spaces_of(serving.mirrored) if serving.mirrored else []
    return tools.moves.drop([space for space in beside if space not in kept])
