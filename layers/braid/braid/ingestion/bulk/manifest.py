"""Manifest of an import in the object store: batch offsets, fingerprints, results of batches, and the report."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from braid.errors import ObjectMissing
from braid.ingestion.bulk.jobs import BatchOut, BatchPlace, Noted
from braid.ingestion.bulk.small_objects import read_object
from braid.ports.imports import JobReport

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from braid.ingestion.bulk.jobs import Phase
    from braid.ports.imports import Job
    from braid.ports.object_store import ObjectStore

PAGE_BATCHES = 400
"""Batches that one step hands out: their places take 50 KB of a state's 256, and each page 14 of the 25,000 events that
an execution may have."""
NOTES_AT_ONCE = 10
"""Notes that are read at the same time: as many as a client of AWS keeps connections."""
_PLACES = TypeAdapter(tuple[BatchPlace, ...])


def folder(job: Job) -> str:
    """Return where all the notes are."""
    return _folder(job.name)


def report(job: Job, objects: ObjectStore) -> JobReport | None:
    """Return the report of a job, None before there is one."""
    try:
        return JobReport.model_validate_json(read_object(objects, job.tenant_id, _report_key(job)))
    except ObjectMissing:
        return None


def put_report(found: JobReport, objects: ObjectStore) -> None:
    """Keep the report: whoever finishes the job again is given it."""
    objects.put(found.job.tenant_id, _report_key(found.job), found.model_dump_json().encode())


def unfinished(keys: Iterable[str]) -> list[str]:
    """Return, of the keys of a tenant's objects, the names of jobs that have begun and have no report yet."""
    parts = [key.split("/") for key in keys if key.startswith("ingest/")]
    begun = {part[1] for part in parts if part[2:3] == ["pages"]}
    return sorted(begun - {part[1] for part in parts if part[2:] == ["report.json"]})


@contextmanager
def begun(tenant_id: str, name: str, objects: ObjectStore) -> Iterator[None]:
    """Note that a job has begun; where it cannot, remove what is noted of it."""
    objects.put(tenant_id, f"{_folder(name)}/pages/begun", b"")
    try:
        yield
    except Exception:
        _forget(tenant_id, name, "pages", objects)
        raise


def forget(job: Job, objects: ObjectStore) -> None:
    """Remove what nobody needs once there is a report."""
    for part in ("pages", "results"):
        _forget(job.tenant_id, job.name, part, objects)


def _forget(tenant_id: str, name: str, part: str, objects: ObjectStore) -> None:
    objects.delete_many(tenant_id, [info.key for info in objects.list(tenant_id, f"{_folder(name)}/{part}/")])


def _folder(name: str) -> str:
    return f"ingest/{name}"


def _report_key(job: Job) -> str:
    return f"{folder(job)}/report.json"


# --- where batches lie ------------------------------------------------------------------------------------------------


def put_places(job: Job, places: Iterable[BatchPlace], objects: ObjectStore) -> Job:
    """Note where batches lie, holding no more than a page of them; return the job with their number and its lines."""
    batches = lines = 0
    page: list[BatchPlace] = []
    for place in places:
        page.append(place)
        batches, lines = batches + 1, lines + place.lines
        if len(page) == PAGE_BATCHES:
            _put_page(job, (batches - 1) // PAGE_BATCHES, page, objects)
            page = []
    if page:
        _put_page(job, (batches - 1) // PAGE_BATCHES, page, objects)
    return job.model_copy(update={"lines": lines, "batches": batches})


def pages(job: Job) -> int:
    """Return how many pages of places there are."""
    return -(-job.batches // PAGE_BATCHES)


def places(job: Job, page: int, objects: ObjectStore) -> tuple[BatchPlace, ...]:
    """Return a page of places."""
    return _PLACES.validate_json(read_object(objects, job.tenant_id, _page_key(job, page)))


def _put_page(job: Job, page: int, places: list[BatchPlace], objects: ObjectStore) -> None:
    objects.put(job.tenant_id, _page_key(job, page), _PLACES.dump_json(tuple(places)))


def _page_key(job: Job, page: int) -> str:
    return f"{folder(job)}/pages/{page:06}.json"


# --- which edges it ends ----------------------------------------------------------------------------------------------


def put_marks(job: Job, marks: bytes, objects: ObjectStore) -> Job:
    """Store what :func:`~braid.ingestion.bulk.phases.marks_of` returned; return the job with its place."""
    return job.model_copy(update={"marks": objects.put(job.tenant_id, f"{folder(job)}/pages/marks", marks)})


def marks(job: Job, objects: ObjectStore) -> bytes:
    """Return the marks of the object, in order.

    Raises
    ------
    ObjectChanged
        If they are gone.
    """
    if job.marks is None:
        return b""
    return objects.read(job.tenant_id, job.marks, 0, job.marks.size_bytes)


# --- what became of a batch -------------------------------------------------------------------------------------------


def note(job: Job, phase: Phase, place: BatchPlace, out: BatchOut, objects: ObjectStore) -> Noted:
    """Note what became of a batch in a phase."""
    objects.put(job.tenant_id, _result_key(job, phase, place), out.model_dump_json().encode())
    return Noted(written=out.written, errors=len(out.errors))


def noted(job: Job, phase: Phase, place: BatchPlace, objects: ObjectStore) -> BatchOut:
    """Return what became of a batch in a phase; one of which nothing is noted is lost."""
    try:
        # A step that is done twice may note its result again at this very moment.
        text = read_object(objects, job.tenant_id, _result_key(job, phase, place))
    except ObjectMissing:
        return BatchOut(lost="nothing is noted of it")
    return BatchOut.model_validate_json(text)


def all_noted(job: Job, objects: ObjectStore) -> Iterator[tuple[BatchPlace, BatchOut]]:
    """Yield what became of every batch in every phase, in order; no more than a page of it is held.

    Raises
    ------
    ObjectMissing
        If a page of places is gone.
    """

    def read(task: tuple[Phase, BatchPlace]) -> BatchOut:
        phase, place = task
        return noted(job, phase, place, objects)

    with ThreadPoolExecutor(NOTES_AT_ONCE, thread_name_prefix="braid-notes") as pool:
        for page in range(pages(job)):
            tasks = [(phase, place) for place in places(job, page, objects) for phase in place.phases]
            yield from ((place, out) for (_, place), out in zip(tasks, pool.map(read, tasks), strict=True))


def _result_key(job: Job, phase: Phase, place: BatchPlace) -> str:
    return f"{folder(job)}/results/{place.number:08}-{phase.value}.json"
