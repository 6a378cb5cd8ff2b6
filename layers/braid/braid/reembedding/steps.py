"""Steps of a re-embedding job: one page of records at a time, persisted after each, so that any process can resume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from braid.errors import TakenOver
from braid.ports.scan_cursor import decode_phase, encode_phase
from braid.ports.search_index import ScanPage
from braid.reembedding import writing
from braid.reembedding.jobs import Job, JobKind, Phase, Status, require, save
from braid.reembedding.planning import tenants_of
from braid.reembedding.services import Budget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from braid.models import Record
    from braid.models.model_profiles import ModelConfig
    from braid.reembedding.services import Services

_CHARACTERS_A_TOKEN: Final = 4


def batch(services: Services, name: str, run: int, budget: Budget | None = None) -> Job:
    """Work on a job until the budget is spent or its phase is over, saving its progress after every page.

    Raises
    ------
    TakenOver
        If another worker has taken the job over.
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


def _page(services: Services, job: Job) -> tuple[Job, Sequence[Record]]:
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
        page = _pending(services, job, tenant)
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


def _pending(services: Services, job: Job, tenant: str) -> ScanPage:
    """Return the next page of records to embed."""
    limit = services.limits.page
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
    if page.cursor is not None:
        return ScanPage(records=page.records, cursor=encode_phase(number, page.cursor))
    return ScanPage(records=page.records, cursor=encode_phase(number + 1, None) if number < len(models) else None)


def _lacking(services: Services, job: Job) -> Sequence[ModelConfig] | None:
    """Return the model whose vectors the records of the next page lack; None for records of an old schema version."""
    number, _ = decode_phase(job.cursor)
    return None if number == 0 else [services.active_models()[number - 1]]


def _phase_over(services: Services, job: Job) -> Job:
    """Save that the phase has finished for every tenant, and the phase that follows."""
    following = {
        (JobKind.MOVE, Phase.FILL): Phase.RECONCILE,
        (JobKind.MOVE, Phase.RECONCILE): Phase.VERIFY,
    }.get((job.kind, job.phase), Phase.DONE)
    done = {"status": Status.FINISHED} if following is Phase.DONE else {}
    return save(services.jobs, job, now=services.now(), phase=following, tenant=None, cursor=None, **done)
