"""Pages of a re-embedding job: lists them by ranges of ids, and processes one.

Pages are independent of each other, so that many workers embed them at once. A job saves the position of its listing
only when all listed pages are done. The next worker lists the others again, and skips what is embedded already.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from braid.errors import InvalidRequest, ModelError, StoreError, TransientStoreError
from braid.models import Frozen, Record, RecordId, TenantId, Timestamp
from braid.ports.batches import batches
from braid.ports.keys import decode_scan_cursor, encode_scan_cursor
from braid.ports.reembedding import MAX_IDS, WriteBackResult
from braid.reembedding import embed_and_write_back
from braid.reembedding.job_services import READ_AT_ONCE
from braid.reembedding.jobs import JobKind, Phase, ReembeddingJob, SetAside, Status, require_job, save
from braid.reembedding.outdated_conditions import outdated_conditions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from braid.reembedding.job_services import Services

_LOG = logging.getLogger(__name__)
PAGED: Final = frozenset({Phase.FILL, Phase.RECONCILE, Phase.SWEEP})
"""Phases that go through records page by page; the others are one step each."""
_CAUSE: Final = 300
"""Most characters of an error's message in a job."""
MAX_SET_ASIDE: Final = 100
"""Most records that a run sets aside; if more fail, the fault is not in the records."""
_MAX_BYTES: Final = 120_000
"""Most bytes of the list of a step's pages in JSON; a workflow's state has at most 256 KiB."""
_EMBEDDED_CHARACTERS: Final = 1_000_000
"""Characters of text after which a part of a page is written: a few long texts take as long as many short ones."""


class IdRange(Frozen):
    """Some of a tenant's records, by the range of their ids: ``after < id <= until``."""

    tenant: TenantId
    scan: str
    """Name of the phase's scan that lists them, such as the reason for which they are outdated."""
    after: RecordId | None = None
    until: RecordId


class Position(Frozen):
    """Position up to which pages were listed."""

    phase: Phase
    tenant: TenantId | None = None
    cursor: str | None = None
    """The same as ``cursor`` of :class:`~braid.reembedding.jobs.ReembeddingJob`."""
    began: Timestamp


class Listed(Frozen):
    """The next pages of a job."""

    pages: tuple[IdRange, ...] = ()
    position: Position | None = None
    """Position that the job saves once they are done; None if its phase has no pages."""
    writers: int = 0
    """Most pages that are processed at once; 0 sets no limit."""


class Done(NamedTuple):
    """Counts of a page's records, by outcome."""

    seen: int = 0
    written: int = 0
    lost: int = 0
    repaired: int = 0
    set_aside: tuple[SetAside, ...] = ()

    def added_to(self, job: ReembeddingJob) -> dict[str, object]:
        """Return the job's counts with these added, as changes of the job.

        Pages that are processed at the same time may set aside more records together than a job lists.
        """
        counts = {name: getattr(job, name) + getattr(self, name) for name in ("seen", "written", "lost", "repaired")}
        others = {(one.tenant, one.record_id): one for one in (*job.set_aside, *self.set_aside)}
        return {**counts, "set_aside": tuple(others.values())[:MAX_SET_ASIDE]}


def list_pages(services: Services, job: ReembeddingJob, *, most: int, seconds: float | None = None) -> Listed:
    """Return the next pages of a job that is in one of the :data:`PAGED` phases; none if its last ones are done.

    Tenants are listed one after another, and each by the scans of the phase (:func:`_scans`) in turn. The cursor has
    the number of the scan and the last id that was listed. The job's own position stays until the pages are done.

    Parameters
    ----------
    most
        Most pages.
    seconds
        Seconds after which no more are listed.
    """
    services = services.moving(job.moves_tenant)
    began, at = services.seconds(), services.now()
    pages: list[IdRange] = []
    size = 0
    tenant = job.tenant or _next_tenant(services, job, None)
    cursor = job.cursor
    while tenant is not None and len(pages) < most and size < _MAX_BYTES:
        scan_number, after = decode_scan_cursor(cursor)
        scans = list(_scans(services, job, tenant).items())
        if scan_number >= len(scans):
            tenant, cursor = _next_tenant(services, job, tenant), None
            continue
        wanted = min(MAX_IDS, (most - len(pages)) * services.limits.page)
        name, conditions = scans[scan_number]
        found = [] if conditions is None else services.migration.ids(tenant, after=after, limit=wanted, **conditions)
        for last in _last_of_each_page(found, services.limits.page):
            pages.append(IdRange(tenant=tenant, scan=name, after=after, until=last))
            after = last
            size += len(json.dumps(pages[-1].model_dump()))
            if size >= _MAX_BYTES:
                break
        is_last = len(found) < wanted and (not found or after == found[-1])  # all that was found is in the pages
        cursor = encode_scan_cursor(scan_number + 1, None) if is_last else encode_scan_cursor(scan_number, after)
        if seconds is not None and services.seconds() - began > seconds:
            break
    position = Position(phase=job.phase, tenant=tenant, cursor=cursor, began=at)
    limits = services.limits
    writers = limits.writers_of_a_tenant if job.only_tenant else limits.writers
    return Listed(pages=tuple(pages), position=position, writers=writers)


def spaces_to_fill(services: Services, job: ReembeddingJob) -> list[str]:
    """Return the spaces in which each record of the next index needs a vector; none if vectors move unchanged."""
    return [] if job.moves_tenant or not job.profile else services.spaces_of(job.profile)


def _last_of_each_page(ids: Sequence[str], size: int) -> list[str]:
    """Return the last id of each page."""
    return [ids[min(start + size, len(ids)) - 1] for start in range(0, len(ids), size)]


def _next_tenant(services: Services, job: ReembeddingJob, tenant: str | None) -> str | None:
    if job.only_tenant is not None:
        return job.only_tenant if tenant is None else None
    return next(iter(services.migration.tenants(after=tenant, limit=1)), None)


def _scans(services: Services, job: ReembeddingJob, tenant: str) -> Mapping[str, Mapping[str, Any] | None]:
    """Return the scans that list a tenant's records in this phase: conditions by name; None if no record meets them."""
    if job.phase is Phase.RECONCILE:
        return {"served": {}, "following": {"following": True}}
    if job.phase is Phase.FILL and job.kind is JobKind.MOVE:
        return {"all": {}}
    conditions = outdated_conditions(services, tenant)
    if job.phase is Phase.SWEEP:  # it follows a switch, and concerns vectors only
        conditions["schema"] = None
    return conditions


def process_page(services: Services, job: ReembeddingJob, page: IdRange) -> Done:
    """Process a page as the job's phase requires: reconcile its records, or embed and write them.

    :mod:`braid.reembedding.embed_and_write_back` embeds a record, and writes it only if it has not changed meanwhile.

    A record that fails alone, while the stores answer, is set aside.

    Raises
    ------
    TakenOver
        If another worker took the job over.
    TransientStoreError
        If a store did not answer; records that are written stay, and a repetition embeds the rest.
    BraidError
        If more records fail than are set aside.
    """
    services = services.moving(job.moves_tenant)
    conditions = _scans(services, job, page.tenant).get(page.scan)  # missing if its model is not active any more
    # More may have been written into the range since it was listed: they are left for the next run.
    limit = services.limits.page
    if conditions is None:
        return Done()
    found = services.migration.ids(page.tenant, after=page.after, limit=limit, **conditions)
    ids = [record_id for record_id in found if record_id <= page.until]
    if job.phase is Phase.RECONCILE:
        repaired = (services.migration.reconcile(page.tenant, some) for some in batches(ids, READ_AT_ONCE))
        return Done(repaired=sum(repaired))
    if job.phase is Phase.FILL and job.profile:
        ids = services.migration.pending(page.tenant, ids, spaces_to_fill(services, job))
    done = Done()
    for part in _parts(services.read(page.tenant, ids), limit):
        if done.seen:
            require_job(services.jobs, job.name, job.run)
        began = services.seconds()
        done = _added(
            done,
            part,
            *_write_each(part, _write(services, job, page.tenant, page.scan), len(job.set_aside) + len(done.set_aside)),
        )
        _throttle(services, len(part), services.seconds() - began)
    return done


def _added(done: Done, part: Sequence[Record], settled: WriteBackResult, aside: Sequence[SetAside]) -> Done:
    return done._replace(
        seen=done.seen + len(part),
        written=done.written + settled.written,
        lost=done.lost + len(settled.lost),
        set_aside=(*done.set_aside, *aside),
    )


def _write(
    services: Services, job: ReembeddingJob, tenant: str, reason: str
) -> Callable[[Sequence[Record]], WriteBackResult]:
    """Return the function that writes records listed for a reason: ``schema``, or the model whose vector they lack."""
    if job.phase is Phase.FILL and job.profile:
        profile = None if job.moves_tenant else job.profile
        return lambda records: embed_and_write_back.fill(services, tenant, records, profile)
    models = [model for model in services.active_models() if model.id == reason]
    return lambda records: embed_and_write_back.refresh(services, tenant, records, models or None)


def _write_each(
    records: Sequence[Record], write: Callable[[Sequence[Record]], WriteBackResult], aside: int
) -> tuple[WriteBackResult, list[SetAside]]:
    """Write records together or, if that fails, one by one; return the written ones, and those that failed alone."""
    try:
        return write(records), []
    except TransientStoreError:
        raise
    except (ModelError, StoreError, InvalidRequest) as error:
        if len(records) > 1:
            settled, failed = WriteBackResult(written=0), list[SetAside]()
            for record in records:
                alone, wrong = _write_each([record], write, aside + len(failed))
                settled = WriteBackResult(written=settled.written + alone.written, lost=(*settled.lost, *alone.lost))
                failed += wrong
            return settled, failed
        if aside >= MAX_SET_ASIDE:
            raise
        (record,) = records
        _LOG.error("record %s of %s is set aside: %s: %s", record.id, record.tenant_id, type(error).__name__, error)
        cause = f"{type(error).__name__}: {error}"[:_CAUSE]
        return WriteBackResult(written=0), [SetAside(tenant=record.tenant_id, record_id=record.id, error=cause)]


def _parts(records: Iterable[Record], most: int) -> Iterator[list[Record]]:
    """Yield records in parts that are embedded together, of one record at least."""
    return batches(records, most, size=_EMBEDDED_CHARACTERS, size_of=lambda record: len(record.text()))


def _throttle(services: Services, texts: int, elapsed: float) -> None:
    if services.limits.texts_per_s and texts:
        services.sleep(max(0.0, texts / services.limits.texts_per_s - elapsed))


def settle(
    services: Services, job: ReembeddingJob, position: Position, *, busy_s: float, done: Done | None = None
) -> ReembeddingJob:
    """Save the position up to which all pages are done; after the last pages, the next phase.

    Raises TakenOver if another worker saved the job since it was read.
    """
    if position.phase is not job.phase:  # a step that is repeated
        return job
    changes = {**(done or Done()).added_to(job), "busy_s": job.busy_s + busy_s}
    if position.tenant is not None:
        changes |= {"tenant": position.tenant, "cursor": position.cursor}
        return save(services.jobs, job, now=services.now(), **changes)
    following = {
        (JobKind.MOVE, Phase.FILL): Phase.RECONCILE,
        (JobKind.MOVE, Phase.RECONCILE): Phase.VERIFY,
    }.get((job.kind, job.phase), Phase.DONE)
    if following is Phase.DONE:
        changes["status"] = Status.FINISHED
    return save(services.jobs, job, now=services.now(), phase=following, tenant=None, cursor=None, **changes)
