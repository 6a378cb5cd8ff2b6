"""Manifest of an import in the object store: batch offsets, fingerprints, results of batches, and the report."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from braid.errors import ObjectMissing
from braid.ingestion.bulk.step_messages import BatchCounts, BatchRange, BatchResult
from braid.ports.batches import batches
from braid.ports.ingestion import BY_API, JobReport
from braid.ports.object_store import delete_older, read_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from braid.ingestion.bulk.step_messages import Phase
    from braid.ports.ingestion import ImportJob
    from braid.ports.object_store import ObjectStore

PAGE_BATCHES = 8_000
"""Batches of a page, which one step lists in an object of 1 MB: the results of a page share a workflow state of 256 KB,
and each page takes 14 of the 25,000 events that an execution may have."""
READS_AT_ONCE = 10
"""Results that are read in parallel: as many as an AWS client keeps connections."""
REPORTED_NS = 90 * 24 * 3_600 * 1_000_000_000
"""Nanoseconds for which the report and the errors of an import by the API are kept, as histories of workflows are."""
_RANGES = TypeAdapter(tuple[BatchRange, ...])


def folder(job: ImportJob) -> str:
    """Return the folder of a job's objects."""
    return _folder(job.name)


def lines_key(name: str) -> str:
    """Return the key of the lines that a job makes of a document; they are deleted with the offsets."""
    return f"{_folder(name)}/pages/lines.jsonl"


def report(tenant_id: str, name: str, objects: ObjectStore) -> JobReport | None:
    """Return the report of a job; None if it has not finished."""
    try:
        return JobReport.model_validate_json(read_object(objects, tenant_id, _report_key(name)))
    except ObjectMissing:
        return None


def put_report(found: JobReport, objects: ObjectStore) -> None:
    """Store the report, which repeated ``finish`` steps return."""
    objects.put(found.job.tenant_id, _report_key(found.job.name), found.model_dump_json().encode())


def unfinished(keys: Iterable[str]) -> list[str]:
    """Return the names of the jobs among a tenant's object keys that have begun and have no report."""
    parts = [key.split("/") for key in keys if key.startswith("ingest/")]
    begun = {part[1] for part in parts if part[2:3] == ["pages"]}
    return sorted(begun - {part[1] for part in parts if part[2:] == ["report.json"]})


@contextmanager
def mark_begun(tenant_id: str, name: str, objects: ObjectStore) -> Iterator[None]:
    """Mark a job as begun; if the block raises, delete the job's objects."""
    objects.put(tenant_id, f"{_folder(name)}/pages/begun", b"")
    try:
        yield
    except Exception:
        _forget(tenant_id, name, "pages", objects)
        raise


def forget(job: ImportJob, objects: ObjectStore) -> None:
    """Delete everything but the report and the errors, and those of the API's imports that were long ago."""
    for part in ("pages", "results"):
        _forget(job.tenant_id, job.name, part, objects)
    delete_older(objects, job.tenant_id, _folder(BY_API), REPORTED_NS)


def _forget(tenant_id: str, name: str, part: str, objects: ObjectStore) -> None:
    objects.delete_many(tenant_id, [info.key for info in objects.list(tenant_id, f"{_folder(name)}/{part}/")])


def _folder(name: str) -> str:
    return f"ingest/{name}"


def _report_key(name: str) -> str:
    return f"{_folder(name)}/report.json"


def put_ranges(job: ImportJob, ranges: Iterable[BatchRange], objects: ObjectStore) -> ImportJob:
    """Store batch offsets, holding one page of them in memory; return the job with its numbers of batches and lines."""
    count = lines = 0
    for number, page in enumerate(batches(ranges, PAGE_BATCHES)):
        _put_page(job, number, page, objects)
        count, lines = count + len(page), lines + sum(one.lines for one in page)
    return job.altered(lines=lines, batches=count)


def pages(job: ImportJob) -> int:
    """Return the number of pages of batch offsets."""
    return -(-job.batches // PAGE_BATCHES)


def ranges(job: ImportJob, page: int, objects: ObjectStore) -> tuple[BatchRange, ...]:
    """Return a page of batch offsets."""
    return _RANGES.validate_json(read_object(objects, job.tenant_id, _page_key(job, page)))


def put_items(job: ImportJob, page: int, phase: Phase, ranges: tuple[BatchRange, ...], objects: ObjectStore) -> str:
    """Store the batches of a page that a phase writes, as input of the workflow's map; return the key."""
    key = f"{folder(job)}/pages/{page:06}-{phase.value}.json"
    objects.put(job.tenant_id, key, _RANGES.dump_json(ranges))
    return key


def items(job: ImportJob, key: str, objects: ObjectStore) -> tuple[BatchRange, ...]:
    """Return the batches that :func:`put_items` stored under a key."""
    return _RANGES.validate_json(read_object(objects, job.tenant_id, key))


def _put_page(job: ImportJob, page: int, ranges: list[BatchRange], objects: ObjectStore) -> None:
    objects.put(job.tenant_id, _page_key(job, page), _RANGES.dump_json(tuple(ranges)))


def _page_key(job: ImportJob, page: int) -> str:
    return f"{folder(job)}/pages/{page:06}.json"


def put_fingerprints(job: ImportJob, fingerprints: bytes, objects: ObjectStore) -> ImportJob:
    """Store the sorted fingerprints of a job's edges; return the job with their object."""
    stored = objects.put(job.tenant_id, f"{folder(job)}/pages/fingerprints", fingerprints)
    return job.altered(fingerprints=stored)


def fingerprints(job: ImportJob, objects: ObjectStore) -> bytes:
    """Return the sorted fingerprints of the object's edges. Raises ObjectChanged if they were deleted."""
    if job.fingerprints is None:
        return b""
    return objects.read(job.tenant_id, job.fingerprints, 0, job.fingerprints.size_bytes)


def put_result(
    job: ImportJob, phase: Phase, batch_range: BatchRange, outcome: BatchResult, objects: ObjectStore
) -> BatchCounts:
    """Store the result of a batch in a phase."""
    objects.put(job.tenant_id, _result_key(job, phase, batch_range), outcome.model_dump_json().encode())
    return BatchCounts(written=outcome.written, errors=len(outcome.errors))


def result(job: ImportJob, phase: Phase, batch_range: BatchRange, objects: ObjectStore) -> BatchResult:
    """Return the result of a batch in a phase; a batch without one is lost."""
    try:
        # A repeated step may store its result again at this very moment.
        text = read_object(objects, job.tenant_id, _result_key(job, phase, batch_range))
    except ObjectMissing:
        return BatchResult(lost="nothing is noted of it")
    return BatchResult.model_validate_json(text)


def results(job: ImportJob, objects: ObjectStore) -> Iterator[tuple[BatchRange, BatchResult]]:
    """Yield the result of every batch in every phase, in order, holding one page of them in memory.

    Raises ObjectMissing if a page of batch offsets is gone.
    """

    def read(task: tuple[Phase, BatchRange]) -> BatchResult:
        phase, batch_range = task
        return result(job, phase, batch_range, objects)

    with ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="braid-results") as pool:
        for page in range(pages(job)):
            tasks = [(phase, batch_range) for batch_range in ranges(job, page, objects) for phase in batch_range.phases]
            yield from (
                (batch_range, outcome) for (_, batch_range), outcome in zip(tasks, pool.map(read, tasks), strict=True)
            )


def _result_key(job: ImportJob, phase: Phase, batch_range: BatchRange) -> str:
    return f"{folder(job)}/results/{batch_range.number:08}-{phase.value}.json"
