"""Putting a dataset folder into the stores, and taking out of them what the folder no longer holds."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from braid.deletes import delete_records
from braid.errors import DatasetError, NewerSchema
from braid.models import Relationship
from braid.write_items import printable
from braid.writes import Places, WriteRequest, write

from local.manifest import (
    FOLDER,
    UNFINISHED,
    Manifest,
    manifest_of,
    manifests,
    others,
    read_manifest,
    write_manifest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from braid.wiring import Wired
    from braid.writes import WriteReport

    from local.dataset import Dataset

WRITTEN_AS = "names with their forms"
"""What a store holds of equal content: a folder that was written otherwise is written again."""
BATCH = 512


@dataclass(frozen=True)
class Ingested:
    """What one ingest did."""

    records: int
    """Of the dataset."""
    vertices: int
    relationships: int
    embed_seconds: float
    write_seconds: float
    unchanged: bool = False
    written: int = 0
    """Records that were new or had changed."""
    removed: int = 0
    """Records that the folder held when it was last ingested, and no longer."""


def ingest(
    dataset: Dataset,
    wired: Wired,
    *,
    threads: int | None = None,
    prune: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
) -> Ingested:
    """Write a dataset as :func:`braid.writes.write` does; what is stored just so is not written again.

    An ingest that was cut off is finished by running it again.

    Parameters
    ----------
    dataset
        What to write, checked already.
    wired
        Engines and models.
    threads
        Threads of the encoder.
    prune
        Whether what the folder held when it was last ingested, and no longer, is removed. That is known wherever files
        can be kept: always on the laptop, and with ``BRAID_OBJECTS_BUCKET`` in AWS.
    on_progress
        Called with the number of records written and the number of all that have to be.

    Raises
    ------
    NewerSchema
        If a record's schema is newer than the tenant's current one; nothing is written.
    DatasetError
        If something else contradicts what is stored; nothing is written.
    StoreError, ModelError
        As the engines and the encoder.
    """
    tenant_id, key, objects = dataset.tenant_id, f"{FOLDER}{dataset.name}.jsonl", manifests(wired)
    models = wired.models()
    now = manifest_of(dataset)
    now.fingerprint = _fingerprint(dataset, [model.id for model in models])
    before = (read_manifest(objects, tenant_id, key) if objects else None) or Manifest()
    generation = wired.cache.generation(tenant_id)
    if before.fingerprint == now.fingerprint and generation and generation == before.generation:
        return Ingested(0, 0, 0, 0.0, 0.0, unchanged=True)
    # Whatever may be missing is looked for before the first write.
    for model in models:
        wired.encoder_for(model, threads=threads)
    began = time.perf_counter()
    if objects:
        # From here to the end the stores hold some of both.
        write_manifest(objects, tenant_id, key, before.joined(now))
    for schema in sorted(dataset.schemas, key=lambda schema: schema.version):
        wired.schemas.register(schema)
    # A folder that was written otherwise has its vertices written again, though none of them has changed.
    rewrite = before.fingerprint != UNFINISHED and not before.fingerprint.startswith(_written_as())
    report = write(_request(dataset, rewrite=rewrite), wired, threads=threads, batch=BATCH, on_progress=on_progress)
    if report.errors:
        if objects:
            write_manifest(objects, tenant_id, key, before)
        _refuse(report)
    removed = 0
    if objects and prune:
        # What another dataset of the tenant holds as well stays.
        gone = before.without(now).without(others(objects, tenant_id, key))
        removed = _prune(gone, now, tenant_id, wired)
    if objects:
        now = now if prune else before.joined(now)
        now.fingerprint = _fingerprint(dataset, [model.id for model in models])
        now.generation = wired.cache.generation(tenant_id) or 0
        write_manifest(objects, tenant_id, key, now)
    return Ingested(
        records=len(dataset.records),
        vertices=len(dataset.vertices),
        relationships=len(dataset.relationships),
        embed_seconds=report.embed_seconds,
        write_seconds=time.perf_counter() - began - report.embed_seconds,
        unchanged=_same(before, now) and not (report.written or report.vertices or removed),
        written=report.written,
        removed=removed,
    )


def ensure_models(wired: Wired, *, on_progress: Callable[[int, int], None] | None = None) -> None:
    """Make the default model's folder when the profile wants it and it is not there yet; seconds, no network.

    Parameters
    ----------
    wired
        Knows the profile and the models' folder.
    on_progress
        Called with (0, 1) before and with (1, 1) after.

    Raises
    ------
    ModelError, StoreError
        If a model that is there does not verify, or none can be written.
    """
    from local.export.default_model import DEFAULT_MODEL, ensure_default_model

    if DEFAULT_MODEL not in {model.id for model in wired.models()}:
        return
    if on_progress:
        on_progress(0, 1)
    ensure_default_model(wired.settings.models_path())
    if on_progress:
        on_progress(1, 1)


def _request(dataset: Dataset, *, rewrite: bool) -> WriteRequest:
    return WriteRequest(
        tenant_id=dataset.tenant_id,
        records=dataset.records,
        vertices=dataset.vertices,
        relationships=dataset.relationships,
        places=Places(records=tuple(dataset.places[record.id] for record in dataset.records)),
        rewrite=rewrite,
    )


def _refuse(report: WriteReport) -> None:
    shown = [printable(str(error)) for error in report.errors[:10]]
    more = len(report.errors) - len(shown)
    message = "\n".join([*shown, *([f"and {more} more"] if more else [])])
    if report.errors[0].field == "schema_version":
        raise NewerSchema(f"{message}; state it in schemas.jsonl", field="schema_version")
    raise DatasetError(message)


def _same(before: Manifest, now: Manifest) -> bool:
    """Whether an ingest that ended wrote the same."""
    return before.fingerprint != UNFINISHED and before.edges == now.edges


def _prune(gone: Manifest, now: Manifest, tenant_id: str, wired: Wired) -> int:
    """Remove what the folder no longer holds; return how many records that were."""
    if not (gone.records or gone.vertices or gone.edges):
        return 0
    edges = [
        Relationship(tenant_id=tenant_id, source=source, type=kind, target=target, predicate=predicate or None)
        for source, kind, target, predicate in sorted(gone.edges)
    ]
    wired.graph.delete_relationships(tenant_id, edges)
    kept = now.records | now.vertices
    removed = delete_records(tenant_id, sorted((gone.records | gone.vertices) - kept), wired).records
    if demoted := sorted(gone.records & now.vertices):
        removed += wired.index.delete(tenant_id, demoted)
        vertices = wired.graph.get_many(tenant_id, demoted)
        wired.graph.upsert([vertex.model_copy(update={"has_record": False}) for vertex in vertices], [])
        wired.cache.advance(tenant_id)
    return removed


def _fingerprint(dataset: Dataset, model_ids: Sequence[str]) -> str:
    return _written_as() + hashlib.sha256("\n".join([dataset.content_hash, *model_ids]).encode()).hexdigest()


def _written_as() -> str:
    return hashlib.sha256(WRITTEN_AS.encode()).hexdigest()[:8] + "-"
