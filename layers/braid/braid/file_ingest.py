"""Writing an object of many lines, in steps that a workflow calls and that each may be repeated.

``split`` reads the object once and notes where its batches lie; ``page`` hands out some of them; ``batch`` writes one;
``lost`` notes one that failed; ``finish`` gathers what they noted into a report. Everything is of the one version
of the object that ``split`` saw.

It is written in the phases of :mod:`braid.file_phases`, so that the order of the lines does not matter.
"""

from __future__ import annotations

from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, cast

from pydantic import TypeAdapter, ValidationError

from braid.errors import InvalidRequest, ObjectChanged, ObjectMissing
from braid.file_jobs import (
    Batch,
    BatchOut,
    BatchPlace,
    Cursor,
    Finish,
    Inline,
    Job,
    JobReport,
    JobStatus,
    Lost,
    Noted,
    Page,
    PageOut,
    Phase,
    Split,
)
from braid.file_phases import part_of, phases_of
from braid.object_content import read_object
from braid.write_items import read_lines, write_body
from braid.writes import ItemError, MissingEnds, WriteStore, write

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from braid.engines.ports_state import ObjectStore
    from braid.file_jobs import Task, TaskOut

BATCH_LINES = 500
BATCH_BYTES = 4 * 1024 * 1024
PAGE_BATCHES = 100
"""Batches that one step hands out: their places take 15 KB of a state's 256."""
INBOX = "inbox/"
"""Where a file is put that is to be written as it arrives, behind the tenant."""
_PLACES = TypeAdapter(tuple[BatchPlace, ...])
_IN_MEMORY = 8 * 1024 * 1024


class FileStore(WriteStore, Protocol):
    """What is written to, with the files."""

    @property
    def objects(self) -> ObjectStore:
        """Where the object is, and what is noted of its batches."""


def split(task: Split, store: FileStore) -> Job:
    """Read an object once, without holding more than a line of it, and note where its batches lie.

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
    lines = store.objects.open(tenant_id, key)
    if etag is not None and lines.info.version.strip('"') != etag:
        raise ObjectChanged(f"object {key!r} is no longer the version that was announced; it is announced anew")
    try:
        job = Job(name=task.job, tenant_id=tenant_id, object=lines.info, missing=missing)
    except ValidationError as error:
        raise InvalidRequest.from_validation(error) from None
    batches = total = 0
    page: list[BatchPlace] = []
    for place in _places(iter(lines), lines.info.size_bytes):
        page.append(place)
        batches, total = batches + 1, total + place.lines
        if len(page) == PAGE_BATCHES:
            _put_page(job, (batches - 1) // PAGE_BATCHES, page, store)
            page = []
    if page:
        _put_page(job, (batches - 1) // PAGE_BATCHES, page, store)
    return job.model_copy(update={"lines": total, "batches": batches})


def page(task: Page, store: FileStore) -> PageOut:
    """Return where the next batches lie, but for those that hold nothing of the phase."""
    phase, number = task.cursor.phase, task.cursor.page
    pages = -(-task.job.batches // PAGE_BATCHES)
    places = _page(task.job, number, store) if number < pages else ()
    following = Cursor(phase=phase, page=number + 1)
    last = following.page >= pages
    phases = list(Phase)
    if last and phase is not phases[-1]:
        following = Cursor(phase=phases[phases.index(phase) + 1])
    return PageOut(
        phase=phase,
        batches=tuple(place for place in places if phase in place.phases),
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
        As :func:`braid.writes.write`; nothing is noted then, and the step is to be repeated.
    """
    place = task.batch
    content = store.objects.read(task.job.tenant_id, task.job.object, place.start, place.end)
    lines = content.removesuffix(b"\n").split(b"\n")
    numbered = [(f"line {number}", line) for number, line in enumerate(lines, start=place.line)]
    items = read_lines(numbered, task.job.tenant_id)
    request = items.request(partial=True, missing=task.job.missing)
    before = [phase for phase in list(Phase)[: list(Phase).index(task.phase)] if phase in place.phases]
    refused = {error.place for phase in before for error in _noted(task.job, phase, place, store).errors}
    report = write(part_of(request, task.phase, refused), store)
    out = BatchOut(
        written=report.written,
        unchanged=report.unchanged,
        embedded=report.embedded,
        relationships=0 if task.phase is Phase.ENDS else report.relationships,  # they were counted before
        superseded=report.superseded,
        errors=(*(items.errors if task.phase is Phase.ITEMS else ()), *report.errors),
    )
    return _note(task.job, task.phase, place, out, store)


def lost(task: Lost, store: FileStore) -> Noted:
    """Note a batch that could not be written at all."""
    return _note(task.job, task.phase, task.batch, BatchOut(lost=task.error), store)


def finish(task: Finish, store: FileStore) -> JobReport:
    """Gather what became of every batch, write the report, begin a new generation, and tidy up.

    A batch of which nothing is noted counts as lost. Repeating it returns the report that is there.
    """
    job = task.job
    done = f"{_folder(job)}/report.json"
    try:
        return JobReport.model_validate_json(read_object(store.objects, job.tenant_id, done))
    except ObjectMissing:
        pass
    totals = dict.fromkeys(("written", "unchanged", "embedded", "relationships", "superseded"), 0)
    errors, causes = 0, list[str]()
    report_key = f"{_folder(job)}/errors.jsonl"
    with SpooledTemporaryFile(max_size=_IN_MEMORY) as lines:
        for phase, place in _all_places(job, store):
            out = _noted(job, phase, place, store)
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
    store.cache.advance(job.tenant_id)
    status = JobStatus.WITH_ERRORS if errors else JobStatus.WRITTEN
    if causes:
        status = JobStatus.CHANGED if ObjectChanged.__name__ in causes else JobStatus.INCOMPLETE
    report = JobReport(job=job, status=status, errors=errors, lost_batches=len(causes), report_key=report_key, **totals)
    store.objects.put(job.tenant_id, done, report.model_dump_json().encode())
    for folder in ("pages", "results"):
        for info in list(store.objects.list(job.tenant_id, f"{_folder(job)}/{folder}/")):
            store.objects.delete(job.tenant_id, info.key)
    return report


def unfinished(keys: Iterable[str]) -> list[str]:
    """Return, of the keys of a tenant's objects, the names of jobs that have begun and not gathered a report."""
    parts = [key.split("/") for key in keys if key.startswith("ingest/")]
    begun = {part[1] for part in parts if part[2:3] == ["pages"]}
    return sorted(begun - {part[1] for part in parts if part[2:] == ["report.json"]})


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
    if missing not in set(MissingEnds):
        raise InvalidRequest("missing: must be refuse or stub", field="missing")
    return event["tenant_id"], event["key"], None, MissingEnds(missing)


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


# --- what is noted ----------------------------------------------------------------------------------------------------


def _folder(job: Job) -> str:
    return f"ingest/{job.name}"


def _put_page(job: Job, number: int, places: list[BatchPlace], store: FileStore) -> None:
    store.objects.put(job.tenant_id, f"{_folder(job)}/pages/{number:06}.json", _PLACES.dump_json(tuple(places)))


def _page(job: Job, number: int, store: FileStore) -> tuple[BatchPlace, ...]:
    return _PLACES.validate_json(read_object(store.objects, job.tenant_id, f"{_folder(job)}/pages/{number:06}.json"))


def _all_places(job: Job, store: FileStore) -> Iterator[tuple[Phase, BatchPlace]]:
    for number in range(-(-job.batches // PAGE_BATCHES)):
        for place in _page(job, number, store):
            yield from ((phase, place) for phase in place.phases)


def _result_key(job: Job, phase: Phase, place: BatchPlace) -> str:
    return f"{_folder(job)}/results/{place.number:08}-{phase.value}.json"


def _note(job: Job, phase: Phase, place: BatchPlace, out: BatchOut, store: FileStore) -> Noted:
    store.objects.put(job.tenant_id, _result_key(job, phase, place), out.model_dump_json().encode())
    return Noted(written=out.written, errors=len(out.errors))


def _noted(job: Job, phase: Phase, place: BatchPlace, store: FileStore) -> BatchOut:
    try:
        # A step that is done twice may note its result again at this very moment.
        text = read_object(store.objects, job.tenant_id, _result_key(job, phase, place))
    except ObjectMissing:
        return BatchOut(lost="nothing is noted of it")
    return BatchOut.model_validate_json(text)


def _lost_lines(place: BatchPlace, cause: str) -> ItemError:
    last = place.line + place.lines - 1
    return ItemError(place=f"lines {place.line} to {last}", message=f"the batch could not be written: {cause}")
