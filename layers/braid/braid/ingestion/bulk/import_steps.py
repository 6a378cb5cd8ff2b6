"""Steps of the import workflow, each of which may be repeated, and the deployed write of one request (``InlineWrite``).

``split`` reads the object once and stores the offsets of its batches; ``page`` lists the next of them; ``batch``
writes one; ``lost`` records one that failed; ``finish`` gathers the results into a report. All steps read the version
of the object that ``split`` saw.

The lines are written in the phases of :mod:`braid.ingestion.bulk.batch_phases`, so that their order does not matter.
"""

from __future__ import annotations

from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, cast

from braid.errors import InvalidRequest, ObjectChanged, ObjectMissing, as_invalid_request
from braid.ingestion.bulk import manifest
from braid.ingestion.bulk.batch_phases import (
    distrust_edges_of,
    fingerprints_of,
    has_fingerprints,
    part_of,
    phases_of,
    refused_records,
    with_entities,
)
from braid.ingestion.bulk.fingerprints import Fingerprints
from braid.ingestion.bulk.step_messages import (
    Batch,
    BatchCounts,
    BatchRange,
    BatchResult,
    Cursor,
    Finish,
    InlineWrite,
    Lost,
    PageRequest,
    PageResult,
    Phase,
    Split,
)
from braid.ingestion.documents import uploads
from braid.ingestion.documents.ingesting import DocumentStore
from braid.ingestion.inline_writes import read_missing, write_body
from braid.ingestion.item_parsing import read_lines
from braid.ingestion.writer_slots import writing_for_request, writing_in_bulk
from braid.ingestion.writing import ItemError, MissingEnds, write
from braid.ports.batches import batches
from braid.ports.ingestion import ImportJob, JobReport, JobStatus
from braid.ports.keys import check_tenant

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from braid.ingestion.bulk.step_messages import Task, TaskResult
    from braid.ingestion.item_parsing import Items
    from braid.ports.object_store import ObjectLines
    from braid.settings import Settings

BATCH_LINES = 250
"""Most lines of a batch."""
BATCH_BYTES = 2_000_000
"""Most bytes of a batch, as of a request: other tenants of an embedded store wait for the batch's one transaction."""
_IN_MEMORY = 8 * 1024 * 1024


class FileStore(DocumentStore, Protocol):
    """The stores that documents are written to, with the settings."""

    @property
    def settings(self) -> Settings:
        """The settings."""


def split(task: Split, store: FileStore, *, batch_lines: int | None = None) -> ImportJob:
    """Read an object once, and store the offsets of its batches. A document is converted to lines first.

    Memory holds the lines of one batch, and eight bytes for each edge that another edge ends or that ends a record. No
    batch has more than ``batch_lines`` lines, :data:`BATCH_LINES` when None.

    Raises
    ------
    InvalidRequest
        If the event names no object.
    ObjectMissing
        If it does not exist.
    ObjectChanged
        If it is not the version that the event names, or is replaced while it is read.
    StoreError
        If a line is longer than 10 MB; the message has its number.
    QueueFull
        If all slots of bulk writes are taken: an object may take as long to read as a batch to write.
    """
    tenant_id, key, etag, missing = _parse_event(task.event)
    check_tenant(tenant_id)
    # Before the object is opened, so that a deletion of the tenant either sees the job or removes its object first.
    with _slot(tenant_id, store), manifest.mark_begun(tenant_id, task.job, store.objects):
        lines = store.objects.open(tenant_id, key)
        if etag is not None and lines.info.version.strip('"') != etag:
            raise ObjectChanged(f"object {key!r} was replaced; the new version has an import of its own")
        document, refused = None, ""
        if uploads.path_of(key) is not None:
            lines_key = manifest.lines_key(task.job)
            document, lines, refused = uploads.as_lines(tenant_id, key, lines.info, store, lines_key=lines_key)
        with as_invalid_request():
            job = ImportJob(
                name=task.job,
                tenant_id=tenant_id,
                object=lines.info,
                missing=missing,
                document=document,
                refused=refused,
            )
        return _split(job, lines, store, batch_lines)


def _split(job: ImportJob, lines: ObjectLines, store: FileStore, batch_lines: int | None) -> ImportJob:
    fingerprints = Fingerprints()
    read = _collecting_fingerprints(iter(lines), job.tenant_id, fingerprints)
    job = manifest.put_ranges(job, _ranges(read, lines.info.size_bytes, batch_lines), store.objects)
    found = fingerprints.in_order()
    return manifest.put_fingerprints(job, found, store.objects) if found else job


def page(task: PageRequest, store: FileStore) -> PageResult:
    """List the next batches in a separate object, without batches that have nothing to write in the phase."""
    phases, number = list(Phase), task.cursor.page
    for phase in phases[phases.index(task.cursor.phase) :]:
        for page_number in range(number, manifest.pages(task.job)):
            ranges = manifest.ranges(task.job, page_number, store.objects)
            if found := tuple(one for one in ranges if phase in one.phases):
                items = manifest.put_items(task.job, page_number, phase, found, store.objects)
                return PageResult(phase=phase, items=items, next=Cursor(phase=phase, page=page_number + 1))
        number = 0
    return PageResult()


def batch(task: Batch, store: FileStore) -> BatchCounts:
    """Write the valid lines of one batch, and store its result with the errors of the rest.

    Raises
    ------
    ObjectChanged
        If the object is no longer the version that was split, or a newer version of the document is being written.
    StoreError, ModelError
        As :func:`braid.ingestion.writing.write`; no result is stored then, and the step is to be repeated.
    QueueFull
        If all slots of bulk writes are taken, by any imports; the step is to be repeated.
    """
    with _slot(task.job.tenant_id, store):
        return _write_batch(task, store)


def _slot(tenant_id: str, store: FileStore) -> AbstractContextManager[None]:
    """Hold one of the slots of bulk writes: the function has further executions, for requests and the queue."""
    return writing_in_bulk(store.cache, store.settings.ingest_writers, tenant_id=tenant_id)


def _write_batch(task: Batch, store: FileStore) -> BatchCounts:
    batch_range = task.batch
    if task.job.document is not None:  # of other objects, to read them is enough
        _require_newest(task.job, store)
    items = _items_of(task.job, batch_range, store)
    request = items.request(partial=True, missing=task.job.missing)
    earlier_phases = [phase for phase in list(Phase)[: list(Phase).index(task.phase)] if phase in batch_range.phases]
    earlier = [manifest.result(task.job, phase, batch_range, store.objects) for phase in earlier_phases]
    refused = {error.place for result in earlier for error in result.errors}
    fingerprints = manifest.fingerprints(task.job, store.objects) if task.phase in (Phase.EDGES, Phase.LINKS) else b""
    # Again when the texts are embedded: a newer version may have been written whole meanwhile.
    part = part_of(request, task.phase, refused, fingerprints)
    if task.phase is Phase.EDGES:
        part = with_entities(part, request, refused, store)
    report = write(part, store, require=lambda: _require_newest(task.job, store))
    errors = (*items.errors, *report.errors) if task.phase is Phase.ITEMS else report.errors
    result = BatchResult(
        written=report.written,
        unchanged=report.unchanged,
        embedded=report.embedded,
        relationships=0 if task.phase is Phase.ENDS else report.relationships,  # they were counted before
        superseded=report.superseded,
        errors=tuple(errors),
        refused=refused_records(request, errors, items.unread) if task.phase is Phase.ITEMS else (),
    )
    return manifest.put_result(task.job, task.phase, batch_range, result, store.objects)


def _items_of(job: ImportJob, batch_range: BatchRange, store: FileStore) -> Items:
    """Read and parse the lines of a batch. Raises ObjectChanged if the object is no longer the version of the job."""
    content = store.objects.read(job.tenant_id, job.object, batch_range.start, batch_range.end)
    lines = content.removesuffix(b"\n").split(b"\n")
    numbered = [(f"line {number}", line) for number, line in enumerate(lines, start=batch_range.line)]
    return read_lines(numbered, job.tenant_id)


def _require_newest(job: ImportJob, store: FileStore) -> None:
    """Raise ObjectChanged if a newer version of the object exists."""
    if job.document is not None:
        lines_key = manifest.lines_key(job.name)
        uploads.require_newest(job.tenant_id, job.document, store, lines_key=lines_key)
    else:
        store.objects.read(job.tenant_id, job.object, 0, min(1, job.object.size_bytes))


def lost(task: Lost, store: FileStore) -> BatchCounts:
    """Store that a batch could not be written at all."""
    return manifest.put_result(task.job, task.phase, task.batch, BatchResult(lost=task.error), store.objects)


def finish(task: Finish, store: FileStore) -> JobReport:
    """Gather the results of all batches, store the report, begin a new write generation, and clean up.

    A batch without a result counts as lost. Repeating the step returns the stored report. Raises QueueFull as
    :func:`batch`: a document may have thousands of old chunks to delete.
    """
    with _slot(task.job.tenant_id, store):
        return _finish(task, store)


def _finish(task: Finish, store: FileStore) -> JobReport:
    report = manifest.report(task.job.tenant_id, task.job.name, store.objects)
    if report is None:
        gathered_report = _gather_report(task.job, store)
        # A step that timed out may have finished meanwhile and deleted results that were still to be read here.
        report = manifest.report(task.job.tenant_id, task.job.name, store.objects)
        if report is None:
            if task.job.document is not None:
                lines_key, whole = manifest.lines_key(task.job.name), not gathered_report.lost_batches
                uploads.settle(task.job.tenant_id, task.job.document, store, lines_key=lines_key, whole=whole)
            store.cache.advance(task.job.tenant_id)
            manifest.put_report(gathered_report, store.objects)
            report = gathered_report
    manifest.forget(task.job, store.objects)
    return report


def run(request: Task, store: FileStore) -> TaskResult:
    """Run one step."""
    match request.task:
        case Split() as task:
            return split(task, store)
        case PageRequest() as task:
            return page(task, store)
        case Batch() as task:
            return batch(task, store)
        case Lost() as task:
            return lost(task, store)
        case Finish() as task:
            return finish(task, store)
        case InlineWrite() as task:
            limit = store.settings.quota_requests_at_once
            with writing_for_request(store.cache, limit, tenant_id=task.tenant_id):
                return write_body(task.body, task.tenant_id, store)


def _parse_event(event: dict[str, Any]) -> tuple[str, str, str | None, MissingEnds]:
    """Return tenant, key, version if the event names one, and the handling of edges with missing endpoints."""
    detail = event.get("detail")
    if isinstance(detail, dict):
        event_object = detail.get("object")
        name = event_object.get("key") if isinstance(event_object, dict) else None
        if not isinstance(name, str) or "/" not in name:
            raise InvalidRequest.of("detail.object.key", "must be TENANT/inbox/… or TENANT/documents/…")
        tenant_id, _, key = name.partition("/")
        return tenant_id, key, event_object.get("etag") if isinstance(event_object, dict) else None, MissingEnds.REFUSE
    for field in ("tenant_id", "key"):
        if not isinstance(event.get(field), str):
            raise InvalidRequest.of(field, "missing")
    return event["tenant_id"], event["key"], None, read_missing(event)


def _collecting_fingerprints(lines: Iterator[bytes], tenant_id: str, fingerprints: Fingerprints) -> Iterator[bytes]:
    """Yield lines, and collect the fingerprints of their edges."""
    for line in lines:
        if has_fingerprints(line):
            for fingerprint in fingerprints_of(read_lines([("", line)], tenant_id).request(partial=True)):
                fingerprints.add(fingerprint)
        yield line


def in_batches(lines: Iterable[bytes], most: int | None = None) -> Iterator[list[bytes]]:
    """Yield the lines of each batch: as many as fit into :data:`BATCH_BYTES`, and at least one.

    None has more than ``most`` or :data:`BATCH_LINES` lines.
    """
    most = min(most or BATCH_LINES, BATCH_LINES)
    return batches(lines, most, size=BATCH_BYTES, size_of=lambda line: len(line) + 1)


def _ranges(lines: Iterable[bytes], total: int, batch_lines: int | None) -> Iterator[BatchRange]:
    start, first = 0, 1
    for number, held in enumerate(in_batches(lines, batch_lines)):
        end = min(start + sum(len(line) + 1 for line in held), total)  # the last line may have no line feed
        phases = set[Phase]().union(*map(phases_of, held))
        own = tuple(phase for phase in Phase if phase in phases)
        yield BatchRange(number=number, start=start, end=end, line=first, lines=len(held), phases=own)
        start, first = end, first + len(held)


def _gather_report(job: ImportJob, store: FileStore) -> JobReport:
    """Write the object of errors, settle the trust of edges whose evidence is not written, and return the report."""
    totals = dict.fromkeys(("written", "unchanged", "embedded", "relationships", "superseded"), 0)
    errors, causes = 0, list[str]()
    lines_key = manifest.lines_key(job.name)
    continued = job.document is not None and uploads.is_continued(job.tenant_id, store, lines_key=lines_key)
    report_key = f"{manifest.folder(job)}/errors.jsonl"
    with SpooledTemporaryFile(max_size=_IN_MEMORY) as lines:
        if job.refused:
            errors += 1
            lines.write(ItemError(place=job.document or "", message=job.refused).model_dump_json().encode() + b"\n")
        for batch_range, result in manifest.results(job, store.objects):
            for name in totals:
                totals[name] += getattr(result, name)
            found = result.errors
            distrust_edges_of(_unwritten(job, batch_range, result, store), job.tenant_id, store)
            if result.lost is not None and not continued:
                causes.append(result.lost)
                found = (_lost_lines(batch_range, result.lost),)
            errors += len(found)
            for error in found:
                lines.write(error.model_dump_json().encode() + b"\n")
        lines.seek(0)
        store.objects.put(job.tenant_id, report_key, cast("BinaryIO", lines))
    status = JobStatus.WITH_ERRORS if errors else JobStatus.WRITTEN
    if causes:
        status = JobStatus.CHANGED if ObjectChanged.__name__ in causes else JobStatus.INCOMPLETE
    return JobReport(job=job, status=status, errors=errors, lost_batches=len(causes), report_key=report_key, **totals)


def _unwritten(job: ImportJob, batch_range: BatchRange, result: BatchResult, store: FileStore) -> Sequence[str]:
    """Return the ids of a batch's records that were refused, or of all if it was lost, unless they are trusted."""
    if result.lost is None:
        return result.refused
    try:
        items = _items_of(job, batch_range, store)
    except (ObjectChanged, ObjectMissing):
        return ()
    request = items.request(partial=True)
    untrusted = (record.id for record in request.records if not record.trusted)
    return (*untrusted, *refused_records(request, items.errors, items.unread))


def _lost_lines(batch_range: BatchRange, cause: str) -> ItemError:
    last = batch_range.line + batch_range.lines - 1
    return ItemError(place=f"lines {batch_range.line} to {last}", message=f"the batch could not be written: {cause}")
