"""What is noted of an object while it is written: where batches lie, which edges it ends, what became of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, cast

from pydantic import TypeAdapter

from braid.errors import ObjectMissing
from braid.file_jobs import BatchOut, BatchPlace, Noted
from braid.object_content import read_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from tempfile import SpooledTemporaryFile

    from braid.engines.ports_state import ObjectStore
    from braid.file_jobs import Job, Phase

PAGE_BATCHES = 100
"""Batches that one step hands out: their places take 20 KB of a state's 256."""
_PLACES = TypeAdapter(tuple[BatchPlace, ...])


def folder(job: Job) -> str:
    """Return where all the notes are."""
    return f"ingest/{job.name}"


def forget(job: Job, objects: ObjectStore) -> None:
    """Remove what nobody needs once there is a report."""
    for part in ("pages", "results"):
        for info in list(objects.list(job.tenant_id, f"{folder(job)}/{part}/")):
            objects.delete(job.tenant_id, info.key)


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


def all_places(job: Job, objects: ObjectStore) -> Iterator[tuple[Phase, BatchPlace]]:
    """Yield every batch of every phase."""
    for page in range(pages(job)):
        for place in places(job, page, objects):
            yield from ((phase, place) for phase in place.phases)


def _put_page(job: Job, page: int, places: list[BatchPlace], objects: ObjectStore) -> None:
    objects.put(job.tenant_id, _page_key(job, page), _PLACES.dump_json(tuple(places)))


def _page_key(job: Job, page: int) -> str:
    return f"{folder(job)}/pages/{page:06}.json"


# --- which edges it ends ----------------------------------------------------------------------------------------------


def put_ended(job: Job, ended: SpooledTemporaryFile[bytes], objects: ObjectStore) -> None:
    """Note the edges that the object ends, as :func:`braid.file_phases.ended_by` has them, one a line."""
    ended.seek(0)
    objects.put(job.tenant_id, f"{folder(job)}/pages/ended", cast("BinaryIO", ended))


def ended(job: Job, objects: ObjectStore) -> bytes:
    """Return the edges that the object ends, one after the other."""
    return read_object(objects, job.tenant_id, f"{folder(job)}/pages/ended")


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


def _result_key(job: Job, phase: Phase, place: BatchPlace) -> str:
    return f"{folder(job)}/results/{place.number:08}-{phase.value}.json"
