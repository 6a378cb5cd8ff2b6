"""Writing an object of many lines, in steps that a workflow calls and that each may be repeated.

``split`` reads the object once and notes where its batches lie; ``page`` hands out some of them; ``batch`` writes one;
``lost`` notes one that failed; ``finish`` gathers what they noted into a report. Everything is of the one version
of the object that ``split`` saw.

It is written in the phases of :mod:`braid.ingestion.bulk.phases`, so that the order of the lines does not matter.
"""

from __future__ import annotations

from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, cast

from pydantic import ValidationError

from braid.errors import InvalidRequest, ObjectChanged
from braid.ingestion.bulk import manifest
from braid.ingestion.bulk.fingerprints import Marks
from braid.ingestion.bulk.jobs import (
    Batch,
    BatchOut,
    BatchPlace,
    Cursor,
    Finish,
    Inline,
    Lost,
    Noted,
    Page,
    PageOut,
    Phase,
    Split,
)
from braid.ingestion.bulk.phases import marked_by, marks_of, part_of, phases_of
from braid.ingestion.items import read_lines, write_body
from braid.ingestion.writing import ItemError, MissingEnds, WriteStore, write
from braid.ports.imports import Job, JobReport, JobStatus
from braid.ports.keys import check_tenant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from braid.ingestion.bulk.jobs import Task, TaskOut
    from braid.ports.cache import ResilientCache
    from braid.ports.object_store import ObjectLines, ObjectStore

BATCH_LINES = 500
BATCH_BYTES = 4 * 1024 * 1024
INBOX = "inbox/"
"""Where a file is put that is to be written as it arrives, behind the tenant."""
_IN_MEMORY = 8 * 1024 * 1024


class FileStore(WriteStore, Protocol):
    """What is written to, with the files."""

    @property
    def cache(self) -> ResilientCache:
        """What has to learn of the end of an import."""

    @property
    def objects(self) -> ObjectStore:
        """Where the object is, and what is noted of its batches."""


def split(task: Split, store: FileStore) -> Job:
    """Read an object once, and note where its batches lie.

    No more than a line of it is held, beside eight bytes for each edge that another ends, or that ends a record.

    Raises
    ------
    InvalidRequest
        If the event names no object.
    ObjectMissing
        If there is none.
    ObjectChanged
        If it is not, or while it is read is no longer, the version that the event tells of.
    StoreError
        If a line is longer than 10 MB; the message has its number.
    """
    tenant_id, key, etag, missing = _asked(task.event)
    check_tenant(tenant_id)
    # Before the object is opened: whoever then removes the tenant knows of the job, or its object is missing here.
    with manifest.begun(tenant_id, task.job, store.objects):
        lines = store.objects.open(tenant_id, key)
        if etag is not None and lines.info.version.strip('"') != etag:
            raise ObjectChanged(f"object {key!r} is no longer the version that was announced; it is announced anew")
        try:
            job = Job(name=task.job, tenant_id=tenant_id, object=lines.info, missing=missing)
        except ValidationError as error:
            raise InvalidRequest.from_validation(error) from None
        return _split(job, lines, store)


def _split(job: Job, lines: ObjectLines, store: FileStore) -> Job:
    marks = Marks()
    read = _each_marked(iter(lines), job.tenant_id, marks)
    job = manifest.put_places(job, _places(read, lines.info.size_bytes), store.objects)
    found = marks.in_order()
    return manifest.put_marks(job, found, store.objects) if found else job


def page(task: Page, store: FileStore) -> PageOut:
    """Return where the next batches lie, without those that hold nothing of the phase, and pages of such alone."""
    phase, number = task.cursor.phase, task.cursor.page
    pages = manifest.pages(task.job)
    batches: tuple[BatchPlace, ...] = ()
    while number < pages and not batches:
        places = manifest.places(task.job, number, store.objects)
        batches, number = tuple(place for place in places if phase in place.phases), number + 1
    following = Cursor(phase=phase, page=number)
    last = following.page >= pages
    phases = list(Phase)
    if last and phase is not phases[-1]:
        following = Cursor(phase=phases[phases.index(phase) + 1])
    return PageOut(
        phase=phase,
        batches=batches,
        next=following,
        done=phase is phases[-1] and last,
    )


def batch(task: Batch, store: FileStore) -> Noted:
    """Write what is right of one batch, and note the rest.

    Raises
    ------
    ObjectChanged
        If the object is no longer the version that was split.
    StoreError, ModelError
        As :func:`braid.ingestion.writing.write`; nothing is noted then, and the step is to be repeated.
    """
    place = task.batch
    content = store.objects.read(task.job.tenant_id, task.job.object, place.start, place.end)
    lines = content.removesuffix(b"\n").split(b"\n")
    numbered = [(f"line {number}", line) for number, line in enumerate(lines, start=place.line)]
    items = read_lines(numbered, task.job.tenant_id)
    request = items.request(partial=True, missing=task.job.missing)
    before = [phase for phase in list(Phase)[: list(Phase).index(task.phase)] if phase in place.phases]
    noted = [manifest.noted(task.job, phase, place, store.objects) for phase in before]
    refused = {error.place for out in noted for error in out.errors}
    marks = manifest.marks(task.job, store.objects) if task.phase in (Phase.EDGES, Phase.LINKS) else b""
    report = write(part_of(request, task.phase, refused, marks), store)
    out = BatchOut(
        written=report.written,
        unchanged=report.unchanged,
        embedded=report.embedded,
        relationships=0 if task.phase is Phase.ENDS else report.relationships,  # they were counted before
        superseded=report.superseded,
        errors=(*(items.errors if task.phase is Phase.ITEMS else ()), *report.errors),
    )
    return manifest.note(task.job, task.phase, place, out, store.objects)


def lost(task: Lost, store: FileStore) -> Noted:
    """Note a batch that could not be written at all."""
    return manifest.note(task.job, task.phase, task.batch, BatchOut(lost=task.error), store.objects)


def finish(task: Finish, store: FileStore) -> JobReport:
    """Gather what became of every batch, write the report, begin a new generation, and tidy up.

    A batch of which nothing is noted counts as lost. Repeating it returns the report that is there.
    """
    report = manifest.report(task.job, store.objects)
    if report is None:
        gathered = _gathered(task.job, store)
        # Whoever was given up may have finished meanwhile, and then notes were removed that were still to be read.
        report = manifest.report(task.job, store.objects)
        if report is None:
            store.cache.advance(task.job.tenant_id)
            manifest.put_report(gathered, store.objects)
            report = gathered
    manifest.forget(task.job, store.objects)
    return report


def run(request: Task, store: FileStore) -> TaskOut:
    """Run one step, whichever it is."""
    match request.task:
        case Split() as task:
            return split(task, store)
        case Page() as task:
            return page(task, store)
        case Batch() as task:
            return batch(task, store)
        case Lost() as task:
            return lost(task, store)
        case Finish() as task:
            return finish(task, store)
        case Inline() as task:
            return write_body(task.body, task.tenant_id, store)


# --- the object -------------------------------------------------------------------------------------------------------


def _asked(event: dict[str, Any]) -> tuple[str, str, str | None, MissingEnds]:
    """Return tenant, key, version if it is told, and what becomes of edges that lead nowhere."""
    detail = event.get("detail")
    if isinstance(detail, dict):
        told = detail.get("object")
        name = told.get("key") if isinstance(told, dict) else None
        if not isinstance(name, str) or "/" not in name:
            raise InvalidRequest("detail.object.key: must be TENANT/inbox/…", field="detail.object.key")
        tenant_id, _, key = name.partition("/")
        return tenant_id, key, told.get("etag") if isinstance(told, dict) else None, MissingEnds.REFUSE
    for field in ("tenant_id", "key"):
        if not isinstance(event.get(field), str):
            raise InvalidRequest(f"{field}: missing", field=field)
    missing = event.get("missing", MissingEnds.REFUSE.value)
    if not isinstance(missing, str) or missing not in set(MissingEnds):
        raise InvalidRequest("missing: must be refuse or stub", field="missing")
    return event["tenant_id"], event["key"], None, MissingEnds(missing)


def _each_marked(lines: Iterator[bytes], tenant_id: str, marks: Marks) -> Iterator[bytes]:
    """Yield lines, and take their marks."""
    for line in lines:
        if marked_by(line):
            for mark in marks_of(read_lines([("", line)], tenant_id).request(partial=True)):
                marks.add(mark)
        yield line


def _places(lines: Iterator[bytes], total: int) -> Iterator[BatchPlace]:
    """Yield where batches lie: whole lines, as many as fit into both bounds and at least one."""
    number = start = end = 0
    first, size = 1, 0
    phases = set[Phase]()

    def place() -> BatchPlace:
        held = tuple(phase for phase in Phase if phase in phases)
        return BatchPlace(number=number, start=start, end=end, line=first, lines=size, phases=held)

    for line in lines:
        length = len(line) + 1
        if size and (size == BATCH_LINES or end - start + length > BATCH_BYTES):
            yield place()
            number, start, first, size, phases = number + 1, end, first + size, 0, set()
        end, size = min(end + length, total), size + 1  # the last line may have no line feed
        phases |= phases_of(line)
    if size:
        yield place()


# --- the report -------------------------------------------------------------------------------------------------------


def _gathered(job: Job, store: FileStore) -> JobReport:
    """Write the object of errors, and return what became of all batches."""
    totals = dict.fromkeys(("written", "unchanged", "embedded", "relationships", "superseded"), 0)
    errors, causes = 0, list[str]()
    report_key = f"{manifest.folder(job)}/errors.jsonl"
    with SpooledTemporaryFile(max_size=_IN_MEMORY) as lines:
        for place, out in manifest.all_noted(job, store.objects):
            for name in totals:
                totals[name] += getattr(out, name)
            found = out.errors
            if out.lost is not None:
                causes.append(out.lost)
                found = (_lost_lines(place, out.lost),)
            errors += len(found)
            for error in found:
                lines.write(error.model_dump_json().encode() + b"\n")
        lines.seek(0)
        store.objects.put(job.tenant_id, report_key, cast("BinaryIO", lines))
    status = JobStatus.WITH_ERRORS if errors else JobStatus.WRITTEN
    if causes:
        status = JobStatus.CHANGED if ObjectChanged.__name__ in causes else JobStatus.INCOMPLETE
    return JobReport(job=job, status=status, errors=errors, lost_batches=len(causes), report_key=report_key, **totals)


def _lost_lines(place: BatchPlace, cause: str) -> ItemError:
    last = place.line + place.lines - 1
    return ItemError(place=f"lines {place.line} to {last}", message=f"the batch could not be written: {cause}")
