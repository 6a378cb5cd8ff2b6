"""Verifies a move to another model profile and switches to it, rolls it back, and drops the previous index.

``pages`` fills the index beside the active one before; the engine's migration has both indexes.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from braid.errors import InvalidRequest
from braid.models import Embedding, EmbeddingType, Frozen, RecordId, TenantId, Text
from braid.models.model_profiles import resolve
from braid.ports.reembedding import move_job
from braid.ports.search_index import SearchRequest
from braid.reembedding import jobs
from braid.reembedding.jobs import Check, Phase, ReembeddingJob, Status, require, save
from braid.reembedding.pages import spaces_to_fill
from braid.reembedding.planning import tenant_pages

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from braid.models import Record
    from braid.ports.reembedding import MigrationState
    from braid.ports.search_index import SearchHits
    from braid.reembedding.services import Services


MAX_ROUNDS: Final = 5
"""Most further passes of a move; if records are left after them, they change faster than they are embedded."""
_ROUNDING: Final = 1e-9


def verify(
    services: Services, name: str, run: int, *, questions: Sequence[RecallQuestion] = (), tolerance: float | None = None
) -> ReembeddingJob:
    """Verify that the next index is complete and has the recall of the active one.

    If records are left, the move returns to filling. If recall is lower by more than the tolerance, it fails, and what
    is served does not change.

    Raises TakenOver if another worker has taken the job over.

    Parameters
    ----------
    questions
        Judged questions; without any, they are derived from a sample of the records.
    tolerance
        Allowed loss of recall; by default that of the settings.
    """
    job = require(services.jobs, name, run)
    if job.status is not Status.RUNNING or job.phase is not Phase.VERIFY or not job.profile:
        return job
    services = services.moving(job.moves_tenant)
    left = _left(services, job)
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


def _left(services: Services, job: ReembeddingJob) -> int:
    spaces = spaces_to_fill(services, job)
    return sum(services.migration.count_pending(tenants, spaces) for tenants in tenant_pages(services))


def switch(services: Services, name: str, run: int) -> ReembeddingJob:
    """Atomically make a verified move's profile the active one; a sweep of records without its vectors follows.

    Raises TakenOver if another worker has taken the job over.
    """
    job = require(services.jobs, name, run)
    if job.status is not Status.RUNNING or job.phase is not Phase.SWITCH:
        return job
    services = services.moving(job.moves_tenant)
    if services.migration.serving().next == job.profile:  # else it happened before an interruption, and is only saved
        services.migration.switch()
    _outdate_answers(services)
    services.sleep(services.migration.grace_s)
    return save(services.jobs, job, now=services.now(), phase=Phase.SWEEP, tenant=None, cursor=None)


def _outdate_answers(services: Services) -> None:
    for tenants in tenant_pages(services):
        for tenant in tenants:
            services.advance(tenant)


def rollback(services: Services, tenant: str | None = None) -> MigrationState:
    """Return to the profile before the last switch; or, before the switch of a move, abandon the move.

    Of a tenant that is named, return to the index that it was in.

    After a roll-back the index that was active is kept and written to as the next one: returning to it needs another
    verification only, and rolling back once more removes it. An interrupted roll-back is completed by rolling back
    again.

    Raises InvalidRequest if there was no move.
    """
    services, name = services.moving(tenant), move_job(tenant)
    job = jobs.read(services.jobs, name)
    begun = job is not None and job.status is Status.ROLLING_BACK
    serving = services.migration.serving()
    giving_up = serving.next is not None and not begun
    if not giving_up and not begun:
        serving.rolled_back()  # raises where there is nothing to go back to
    # Saved first: workers on the move stop, and an interrupted roll-back is known as one.
    jobs.stop(services.jobs, name, Status.ROLLED_BACK if giving_up else Status.ROLLING_BACK, now=services.now())
    if giving_up:
        return _drop(services)
    if serving.next is None:  # else it happened before an interruption, and is only saved
        serving = services.migration.rollback()
    _outdate_answers(services)
    jobs.stop(services.jobs, name, Status.ROLLED_BACK, now=services.now())
    return serving


def drop_previous(services: Services, tenant: str | None = None) -> MigrationState:
    """Delete the index from before the last switch, and the vectors of its profile alone; it cannot be undone.

    Of a tenant that is named, its index or its records in the shared one; where that broke off, the rest of them.

    Raises InvalidRequest if there is none, or a roll-back to it is running.
    """
    services = services.moving(tenant)
    if tenant is None:
        services.migration.serving().rolled_back()  # raises where there is no previous one
    job = jobs.read(services.jobs, move_job(tenant))
    if job is not None and job.status is Status.ROLLING_BACK:
        raise InvalidRequest("rollback: a roll-back is under way; finish it by rolling back again", field="rollback")
    return _drop(services)


def _drop(services: Services) -> MigrationState:
    serving = services.migration.serving()
    kept = set(services.spaces_of(services.active_profile()))
    beside = services.spaces_of(serving.mirrored) if serving.mirrored else []
    return services.migration.drop([space for space in beside if space not in kept])


FIRST: Final = 10
_WORDS: Final = 12
_TENANTS: Final = 20
_LOOKED_AT: Final = 500


class RecallQuestion(Frozen):
    """A question and the ids of the records that answer it."""

    tenant_id: TenantId
    text: Text
    relevant: tuple[RecordId, ...]


def compare(services: Services, before: str, after: str, questions: Sequence[RecallQuestion] = ()) -> Check:
    """Ask both profiles, by vectors alone, and return the recall at ten of each and their overlap.

    Parameters
    ----------
    questions
        Judged questions; without any, a sample of the records is searched for, each by its first words.
    """
    judged = bool(questions)
    asked = list(questions) or sample(services)
    if not asked:
        return Check(asked=0, recall_before=1.0, recall_after=1.0, overlap=1.0)
    now = services.now()
    recalls: list[tuple[float, float]] = []
    overlaps: list[float] = []
    old, new = _vectors(services, before, asked), _vectors(services, after, asked)
    for question, old_vector, new_vector in zip(asked, old, new, strict=True):
        found_before = _ids(services.index.search(_request(question, old_vector, now)))
        found_after = _ids(services.migration.search_next(_request(question, new_vector, now)))
        relevant = set(question.relevant)
        recalls.append((len(relevant & found_before) / len(relevant), len(relevant & found_after) / len(relevant)))
        most = max(len(found_before), len(found_after))
        overlaps.append(len(found_before & found_after) / most if most else 1.0)
    return Check(
        asked=len(asked),
        recall_before=sum(recall for recall, _ in recalls) / len(asked),
        recall_after=sum(recall for _, recall in recalls) / len(asked),
        overlap=sum(overlaps) / len(asked),
        judged=judged,
    )


def sample(services: Services) -> list[RecallQuestion]:
    """Return questions derived from the records; deterministic for the same records.

    They are spread over the tenants; from each, the first records by the hash of their ids are taken.
    """
    tenants = services.migration.tenants(limit=_LOOKED_AT)
    tenants = tenants[:: max(1, len(tenants) // _TENANTS)][:_TENANTS]
    if not tenants:
        return []
    each = -(-services.limits.sample // len(tenants))
    now = services.now()
    questions: list[RecallQuestion] = []
    for tenant in tenants:
        records = [
            record for record in services.index.scan(tenant, limit=_LOOKED_AT).records if _can_be_found(record, now)
        ]
        records.sort(key=lambda record: hashlib.sha256(record.id.encode()).digest())
        questions += [
            RecallQuestion(tenant_id=tenant, text=_question_for(record), relevant=(record.id,))
            for record in records[:each]
        ]
    return questions[: services.limits.sample]


def _can_be_found(record: Record, now: datetime) -> bool:
    """Whether a search could find the record: it is currently valid and has text."""
    begun = record.valid_at is None or record.valid_at <= now
    return begun and (record.invalid_at is None or now < record.invalid_at) and bool(_question_for(record))


def _question_for(record: Record) -> str:
    """Return the first words of its content, or of its text if it has none."""
    return " ".join((record.content or record.text()).split()[:_WORDS])


def _vectors(services: Services, profile: str, questions: Sequence[RecallQuestion]) -> list[Embedding]:
    model = resolve(services.profiles, profile, EmbeddingType.GENERAL)
    encoder = services.encoder_for(model)
    vectors = encoder.encode(
        [question.text for question in questions], instruction=model.instruction(EmbeddingType.GENERAL)
    )
    return [Embedding(space=encoder.space, model_id=encoder.model_id, vector=vector) for vector in vectors]


def _request(question: RecallQuestion, embedding: Embedding, now: datetime) -> SearchRequest:
    return SearchRequest(tenant_id=question.tenant_id, embedding=embedding, k=FIRST, as_of=now)


def _ids(hits: SearchHits) -> set[str]:
    return {hit.id for hit in hits.vector}
