"""Putting a dataset into the engines: embed, then write records, vertices and edges."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from braid.errors import NewerSchema
from braid.models import Embedding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from braid.engines.ports import Encoder
    from braid.models import Record
    from braid.wiring import Wired

    from local.dataset import Dataset

BATCH = 512
MARKER = "dataset"
UNFINISHED = "unfinished"
FORMAT = "1"
"""Changes when what is written for the same input changes, so that it is written anew."""


@dataclass(frozen=True)
class Ingested:
    """What one ingest did."""

    records: int
    vertices: int
    relationships: int
    embed_seconds: float
    write_seconds: float
    unchanged: bool = False


def ingest(
    dataset: Dataset,
    wired: Wired,
    *,
    threads: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Ingested:
    """Write a dataset; the same content twice is written once.

    Records are written in batches, each durable when the next begins, and every write is an upsert: an ingest that
    was cut off is finished by running it again.

    Parameters
    ----------
    dataset
        What to write, checked already.
    wired
        Engines and models.
    threads
        Threads of the encoder.
    on_progress
        Called with the number of records embedded and the number of all.

    Raises
    ------
    NewerSchema
        If a record's schema is newer than the tenant's current one; nothing is written.
    StoreError, ModelError
        As the engines and the encoder.
    """
    models = wired.models()
    fingerprint = _fingerprint(dataset, [model.id for model in models])
    marker = f"{MARKER}:{dataset.name}"
    if _marked(wired, dataset.tenant_id, marker) == fingerprint:
        return Ingested(0, 0, 0, 0.0, 0.0, unchanged=True)
    _refuse_newer(dataset, wired)
    # Whatever may be missing is looked for before the first write.
    encoders = [wired.encoder_for(model, threads=threads) for model in models]
    # From here to the end the store holds neither the content before nor this one.
    _mark(wired, dataset.tenant_id, marker, UNFINISHED)
    embedding, writing = 0.0, 0.0
    try:
        for schema in sorted(dataset.schemas, key=lambda schema: schema.version):
            wired.schemas.register(schema)
        # Similar lengths together: padding is the cost of a batch.
        ordered = sorted(dataset.records, key=lambda record: (len(record.text()), record.id))
        for start in range(0, len(ordered), BATCH):
            began = time.perf_counter()
            batch = _embed(ordered[start : start + BATCH], encoders)
            embedded = time.perf_counter()
            wired.index.upsert(batch)
            embedding, writing = embedding + embedded - began, writing + time.perf_counter() - embedded
            if on_progress:
                on_progress(start + len(batch), len(ordered))
        began = time.perf_counter()
        wired.graph.upsert(dataset.vertices, dataset.relationships)
        _mark(wired, dataset.tenant_id, marker, fingerprint)
        writing += time.perf_counter() - began
    finally:
        # Also of a write that broke off: what it did write is found, and answers from before it are old.
        wired.cache.advance(dataset.tenant_id)
    return Ingested(
        records=len(dataset.records),
        vertices=len(dataset.vertices),
        relationships=len(dataset.relationships),
        embed_seconds=embedding,
        write_seconds=writing,
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


def _embed(records: Sequence[Record], encoders: Sequence[Encoder]) -> list[Record]:
    texts = [record.text() for record in records]
    spaces = [(encoder, encoder.encode(texts)) for encoder in encoders]
    return [
        record.model_copy(
            update={
                "embeddings": tuple(
                    Embedding(space=encoder.space, model_id=encoder.model_id, vector=vectors[position])
                    for encoder, vectors in spaces
                )
            }
        )
        for position, record in enumerate(records)
    ]


def _refuse_newer(dataset: Dataset, wired: Wired) -> None:
    stated = [schema.version for schema in dataset.schemas]
    if not stated and not any(record.schema_version > 1 for record in dataset.records):
        return
    current = max([*stated, wired.schemas.current(dataset.tenant_id)])
    for record in dataset.records:
        if record.schema_version > current:
            raise NewerSchema(
                f"{dataset.places[record.id]}: schema_version: {record.schema_version} is newer than the current "
                f"version {current} of tenant {dataset.tenant_id!r}; state it in schemas.jsonl",
                field="schema_version",
            )


def _fingerprint(dataset: Dataset, model_ids: Sequence[str]) -> str:
    parts = [FORMAT, dataset.content_hash, *model_ids]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _marked(wired: Wired, tenant_id: str, key: str) -> str | None:
    """Return what was written last; only the embedded engine remembers, the deployed one always writes."""
    from braid.settings import EngineKind

    return wired.store.get_marker(tenant_id, key) if wired.settings.engine is EngineKind.EMBEDDED else None


def _mark(wired: Wired, tenant_id: str, key: str, value: str) -> None:
    from braid.settings import EngineKind

    if wired.settings.engine is EngineKind.EMBEDDED:
        wired.store.put_marker(tenant_id, key, value)
