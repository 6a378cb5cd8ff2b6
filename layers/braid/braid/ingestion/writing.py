"""Writing: records, vertices and relationships of one tenant into the search index and the knowledge graph.

Checked as a whole first. Then the index, then the graph, then what is superseded, then the tenant's generation: whoever
is stopped between two of these repeats the write, and what was done already is found unchanged. A record is identified
by its id and by the hash of what was given; one that is stored just so is neither embedded nor written again.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, NamedTuple

from braid.errors import InvalidRequest
from braid.ingestion.checks import check
from braid.ingestion.requests import ItemError, MissingEnds, Places, WriteReport, WriteRequest, WriteStore
from braid.models import Embedding, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from braid.ports.encoder import Encoder
    from braid.ports.search_index import SearchIndex, WrittenRecord

__all__ = [
    "BATCH",
    "ItemError",
    "MissingEnds",
    "Places",
    "WriteReport",
    "WriteRequest",
    "WriteStore",
    "content_hash",
    "require_written",
    "write",
]

BATCH = 512
"""Records that are embedded and written at once, and so durable before the next begin."""
_FORMAT = "1"
"""Changes when what is written for the same input changes, so that it is written anew."""
_NOT_GIVEN = {"embeddings", "content_hash", "access_count"}
"""What is not part of a record as it was given: made here, or counted later."""


def content_hash(record: Record) -> str:
    """Return SHA-256, in hexadecimal, of a record as it is given to be written."""
    given = record.model_dump_json(exclude=_NOT_GIVEN if not record.embeddings else _NOT_GIVEN - {"embeddings"})
    return hashlib.sha256(f"{_FORMAT}\n{given}".encode()).hexdigest()


def write(
    request: WriteRequest,
    store: WriteStore,
    *,
    threads: int | None = None,
    batch: int = BATCH,
    on_progress: Callable[[int, int], None] | None = None,
) -> WriteReport:
    """Check and write; when it returns without raising, what it counts is durable and no older answer is kept.

    Parameters
    ----------
    request
        What to write.
    store
        Where to, such as :func:`braid.app.wired` returns.
    threads
        Threads of the encoder.
    batch
        Records that are embedded and written at once.
    on_progress
        Called with the number of records written and the number of all that have to be.

    Returns
    -------
    WriteReport
        With one error for each item that is wrong. Unless the request is ``partial``, nothing is written then.

    Raises
    ------
    InvalidRequest
        If an item is another tenant's.
    StoreError, ModelError
        As the engines and the encoder; repeating the write completes it.
    """
    accepted = check(request, store)
    if accepted.errors and not request.partial:
        return WriteReport(tenant_id=request.tenant_id, errors=tuple(accepted.errors))
    tenant_id = request.tenant_id
    models = store.models()
    stored = store.index.written(tenant_id, [record.id for record in accepted.records])
    changed = _changed(accepted.records, stored, frozenset(model.id for model in models))
    # Whatever model may be missing is looked for before the first write.
    encoders = [store.encoder_for(model, threads=threads) for model in models] if changed else []
    timing, supersession, superseded = _Timing(), accepted.supersession, 0
    # Similar lengths together: padding is the cost of a batch.
    ordered = sorted(changed, key=lambda record: (len(record.text()), record.id))
    try:
        for start in range(0, len(ordered), batch):
            part = ordered[start : start + batch]
            with_vectors = _embedded(part, stored, encoders, store.index, timing)
            began = time.perf_counter()
            ended = [supersession.record(record) for record in with_vectors]
            store.index.upsert(ended)
            superseded += sum(after is not before for after, before in zip(ended, with_vectors, strict=True))
            timing.write_s += time.perf_counter() - began
            if on_progress:
                on_progress(start + len(part), len(ordered))
        began = time.perf_counter()
        if accepted.vertices or accepted.edges:
            store.graph.upsert(accepted.vertices, accepted.edges)
        superseded += supersession.apply(
            store,
            tenant_id,
            records={record.id for record in changed},
            edges=accepted.stated,
        )
        timing.write_s += time.perf_counter() - began
    finally:
        # Also of a write that broke off: what it did write is found, and answers from before it are old.
        store.cache.advance(tenant_id)
    return WriteReport(
        tenant_id=tenant_id,
        written=len(changed),
        unchanged=len(accepted.records) - len(changed),
        embedded=timing.embedded,
        vertices=len(accepted.vertices),
        relationships=len(accepted.stated),
        unchanged_relationships=len(accepted.stated) - len(accepted.edges),
        superseded=superseded,
        stubs=accepted.stubs,
        errors=tuple(accepted.errors),
        embed_seconds=timing.embed_s,
        write_seconds=timing.write_s,
    )


def require_written(report: WriteReport) -> WriteReport:
    """Return a report without errors.

    Raises
    ------
    InvalidRequest
        If it has any; names the first few items and their fields.
    """
    if not report.errors:
        return report
    shown = [str(error) for error in report.errors[:10]]
    more = len(report.errors) - len(shown)
    raise InvalidRequest("\n".join([*shown, *([f"and {more} more"] if more else [])]), field=report.errors[0].field)


class _Timing:
    """What was spent on embedding and on writing."""

    def __init__(self) -> None:
        self.embed_s, self.write_s, self.embedded = 0.0, 0.0, 0


class _Prepared(NamedTuple):
    record: Record
    kept: dict[str, Embedding]
    """Vectors that need not be made, by the id of their model."""


def _changed(records: Sequence[Record], stored: Mapping[str, WrittenRecord], models: frozenset[str]) -> list[Record]:
    """Return the records that are new, have changed or lack a vector, each with its hash."""
    changed: list[Record] = []
    for record in records:
        given = content_hash(record)
        known = stored.get(record.id)
        if known is None or known.content_hash != given or not models <= known.model_ids:
            changed.append(record.model_copy(update={"content_hash": given}))
    return changed


def _embedded(
    records: Sequence[Record],
    stored: Mapping[str, WrittenRecord],
    encoders: Sequence[Encoder],
    index: SearchIndex,
    timing: _Timing,
) -> list[Record]:
    """Return records with a vector of each model: the one given, the stored one while the text is the same, or new."""
    old = {}
    if known := [record.id for record in records if record.id in stored and stored[record.id].model_ids]:
        old = {record.id: record for record in index.get_many(records[0].tenant_id, known, with_vectors=True)}
    prepared: list[_Prepared] = []
    for record in records:
        before = old.get(record.id)
        same = before.embeddings if before is not None and before.text() == record.text() else ()
        kept = {embedding.model_id: embedding for embedding in (*same, *record.embeddings)}
        prepared.append(_Prepared(record, kept))
    began = time.perf_counter()
    asked: set[str] = set()
    for encoder in encoders:
        missing = [one for one in prepared if encoder.model_id not in one.kept]
        vectors = encoder.encode([one.record.text() for one in missing]) if missing else []
        for one, vector in zip(missing, vectors, strict=True):
            one.kept[encoder.model_id] = Embedding(space=encoder.space, model_id=encoder.model_id, vector=vector)
            asked.add(one.record.id)
    timing.embed_s += time.perf_counter() - began
    timing.embedded += len(asked)
    return [one.record.model_copy(update={"embeddings": tuple(one.kept.values())}) for one in prepared]
