"""Ingests a dataset: writes new and changed items, and deletes those that the dataset no longer has."""

from __future__ import annotations

import hashlib
import time
from collections import deque
from dataclasses import dataclass
from itertools import chain, groupby, islice, repeat
from typing import TYPE_CHECKING

from braid.errors import DatasetError
from braid.ingestion.deleting import delete_records, delete_texts
from braid.ingestion.intent_log import forget
from braid.ingestion.record_vectors import EmbeddingAhead
from braid.ingestion.writing import Places, WriteRequest, write
from braid.models import SUPERSEDES, Kind, Relationship
from braid.ports.batches import batches

from braid_cli.datasets.checks_against_stores import refuse_contradictions, require_accepted
from braid_cli.datasets.manifest import (
    FOLDER,
    UNFINISHED,
    Header,
    is_replaced,
    manifests,
    read_header,
    read_manifest,
    read_others,
    write_manifest,
)
from braid_cli.datasets.staging import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from braid.app import Application
    from braid.ingestion.record_vectors import RecordVectors
    from braid.ingestion.writing import WriteReport

    from braid_cli.datasets.dataset import Dataset
    from braid_cli.datasets.staging import Item, Staging
    from braid_cli.datasets.streaming import DatasetFiles

    DatasetSource: TypeAlias = Dataset | DatasetFiles
    """A dataset to ingest. It is iterated more than once, and may not be in memory."""

STORED_FORM = "long texts in parts"
"""Version of the stored form of content; a dataset that was written in another form is written again."""
RECORDS_AT_ONCE, ENTITIES_AT_ONCE, EDGES_AT_ONCE = 256, 2_048, 4_096
"""Page sizes: items that are checked together and written in one commit."""
_PAGES_TOGETHER = (1, 2, 4)
"""Numbers of pages whose records are sorted by length for embedding, which saves padding: fewer at first, for an early
first commit; the last number applies to all further ones."""
_MAX_AHEAD = 8_000_000
"""Approximate limit of characters that are embedded but not yet written."""
_SIZE_WITHOUT_TEXT = 1_000
"""Characters that a record counts for besides its text."""


@dataclass(frozen=True)
class IngestReport:
    """Counts and timings of one ingest."""

    records: int
    """Records of the dataset."""
    vertices: int
    relationships: int
    embed_seconds: float
    write_seconds: float
    unchanged: bool = False
    written: int = 0
    """Number of new or changed records."""
    removed: int = 0
    """Number of deleted records: the previous ingest wrote them, and the dataset no longer has them."""
    names: int = 0
    """Number of new names that were found in the texts."""
    mentions: int = 0
    """Number of mentions of names that were found in the texts."""
    unmentioned: int = 0
    """Number of deleted mentions, which were found by an earlier ingest."""


def ingest(
    dataset: DatasetSource,
    application: Application,
    *,
    threads: int | None = None,
    prune: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
) -> IngestReport:
    """Write a dataset with :func:`braid.ingestion.writing.write`, which skips unchanged items.

    Running it again resumes an interrupted ingest. Memory use does not grow with the dataset.

    Parameters
    ----------
    dataset
        The dataset, already checked.
    application
        Engines and models.
    threads
        Threads of the encoder.
    prune
        Whether to delete items that the previous ingest wrote and the dataset no longer has. This needs a manifest, and
        so an object store, which in AWS requires ``BRAID_OBJECTS_BUCKET``.
    on_progress
        Called with the number of records done and of all records.

    Raises
    ------
    NewerSchema
        If a record's schema is newer than the tenant's current one; nothing is written.
    DatasetError
        If the dataset otherwise contradicts the stored data; nothing is written. Or if it changes while it is read, the
        tenant is deleted meanwhile, or another process ingests other content under the same name; items written until
        then stay, and ingesting it again continues.
    StoreError, ModelError
        As the engines and the encoder.
    """
    tenant_id, key, objects = dataset.tenant_id, f"{FOLDER}{dataset.name}.jsonl", manifests(application)
    models = application.models()
    fingerprint = _fingerprint(dataset, [*(model.id for model in models), application.settings.graph])
    before = read_header(objects, tenant_id, key) if objects else Header()
    generation = application.cache.generation(tenant_id)
    newest = max((schema.version for schema in dataset.schemas), default=1)
    # If the tenant was deleted during an ingest, its records may be back while its schema versions are not.
    registered = application.schemas.current(tenant_id) >= newest
    if registered and before.fingerprint == fingerprint and generation and generation == before.generation:
        return IngestReport(0, 0, 0, 0.0, 0.0, unchanged=True)
    # A model that is missing or broken fails here, before the first write.
    for model in models:
        application.encoder_for(model, threads=threads)
    began = time.perf_counter()
    with dataset.staged() as staging:
        staging.snapshot_current()
        if objects:
            read_manifest(objects, tenant_id, key, staging, Snapshot.PREVIOUS)
            if prune and any(staging.superseded_but_removed()):
                read_others(objects, tenant_id, key, staging)
        gone = staging.superseded_but_removed() if prune else ()
        refuse_contradictions(tenant_id, dataset.schemas, staging, application, gone)
        if objects:
            # Until the end the stores have items of both versions; after an interruption, the next ingest needs both.
            begun = write_manifest(objects, tenant_id, key, Header(), staging, Snapshot.CURRENT, Snapshot.PREVIOUS)
        for schema in sorted(dataset.schemas, key=lambda schema: schema.version):
            application.schemas.register(schema)
        # Before their vertices are written: those were as trusted and valid as their records.
        removed = _delete_texts_of_entities(staging, tenant_id, key, application) if prune else 0
        # If the stored form has changed, unchanged vertices are written again too.
        rewrite = before.fingerprint != UNFINISHED and not before.fingerprint.startswith(_form_prefix())
        done = _Totals()
        edges = _Edges(dataset, staging, application, done, rewrite=rewrite)
        _write_items(
            dataset, staging, application, done, edges, threads=threads, rewrite=rewrite, on_progress=on_progress
        )
        edges.write_rest()
        if objects and prune:
            # Items that another dataset of the tenant also has are kept.
            read_others(objects, tenant_id, key, staging)
            removed += _prune(staging, tenant_id, application)
        if objects and is_replaced(objects, begun, tenant_id, fingerprint):
            # Either ingest may have removed items of the other: all items of both are listed, and checked by the next
            # ingest.
            read_manifest(objects, tenant_id, key, staging, Snapshot.PREVIOUS)
            write_manifest(objects, tenant_id, key, Header(), staging, Snapshot.CURRENT, Snapshot.PREVIOUS)
            raise DatasetError(
                f"{dataset.name}: while it was ingested, its tenant was deleted, or another ingest of this name wrote "
                "other content; what of either is stored is not certain: ingest it again"
            )
        if objects:
            header = Header(fingerprint, application.cache.generation(tenant_id) or 0)
            write_manifest(
                objects, tenant_id, key, header, staging, Snapshot.CURRENT, *(() if prune else (Snapshot.PREVIOUS,))
            )
        application.graph.prepare_walks(tenant_id)
        same = before.fingerprint != UNFINISHED and staging.edges_unchanged()
        return IngestReport(
            records=staging.record_count,
            vertices=staging.vertex_count(),
            relationships=staging.relationship_count,
            embed_seconds=done.embed_seconds,
            write_seconds=time.perf_counter() - began - done.embed_seconds,
            unchanged=same and not (done.written or done.vertices or done.names or done.unmentioned or removed),
            written=done.written,
            removed=removed,
            names=done.names,
            mentions=done.mentions,
            unmentioned=done.unmentioned,
        )


class _Totals:
    """Totals of the writes so far."""

    def __init__(self) -> None:
        self.written = self.vertices = self.names = self.mentions = self.unmentioned = 0
        self.embed_seconds = 0.0

    def add(self, report: WriteReport) -> None:
        require_accepted(report)
        self.written += report.written
        self.vertices += report.vertices
        self.names += report.names
        self.mentions += report.mentions
        self.unmentioned += report.unmentioned
        self.embed_seconds += report.embed_seconds


def _write_items(
    dataset: DatasetSource,
    staging: Staging,
    application: Application,
    done: _Totals,
    edges: _Edges,
    *,
    threads: int | None,
    rewrite: bool,
    on_progress: Callable[[int, int], None] | None,
) -> None:
    """Write entities, then records, so that names in texts can be linked to entities; supersessions follow with edges.

    Records are embedded on a thread of their own, the first of them while entities are written. Edges are written as
    soon as their ends are.
    """
    earlier = 0

    def tell(written: int, of: int) -> None:
        if on_progress:
            on_progress(earlier - of + written, staging.record_count)

    with EmbeddingAhead(application, threads) as ahead:
        pages = _Embedded(dataset.record_items(), ahead)
        for items in batches(dataset.entity_items(), ENTITIES_AT_ONCE):
            request = _request(dataset, staging, items, rewrite=rewrite)
            done.add(write(request, application, threads=threads))
        edges.write_ready()
        for items, vectors in pages:
            request = _request(dataset, staging, items, rewrite=rewrite)
            earlier += len(request.records)
            report = write(request, application, threads=threads, on_progress=tell, ahead=vectors)
            done.add(report)
            if not report.written:
                tell(0, 0)
            staging.note_written(record.id for record in request.records)
            edges.write_ready()


def _request(dataset: DatasetSource, staging: Staging, items: Sequence[Item], *, rewrite: bool) -> WriteRequest:
    records = {item.record.id: item.record for item in items if item.record is not None}
    beside = staging.vertices_with_a_record([item.vertex.id for item in items if item.vertex and not item.record])
    vertices = {item.vertex.id: item.vertex for item in items if item.vertex and item.vertex.id not in beside}
    vertices |= staging.vertices_with_a_record(records)
    return WriteRequest(
        tenant_id=dataset.tenant_id,
        records=tuple(records.values()),
        vertices=tuple(vertices.values()),
        places=Places(
            records=tuple(item.place for item in items if item.record is not None),
            vertices=tuple(f"{dataset.name}: {name}" for name in vertices),
        ),
        supersede_later=True,
        rewrite=rewrite,
    )


class _Embedded:
    """Iterates over pages of records, of entities or of texts, with their vectors; embedding runs ahead."""

    def __init__(self, items: Iterator[Item], ahead: EmbeddingAhead) -> None:
        of_a_kind = groupby(items, key=lambda item: item.record is not None and item.record.kind is Kind.ENTITY)
        self._pages = chain.from_iterable(batches(some, RECORDS_AT_ONCE) for _, some in of_a_kind)
        self._ahead = ahead
        self._begun: deque[tuple[list[list[Item]], RecordVectors]] = deque()
        self._sizes = chain(_PAGES_TOGETHER, repeat(_PAGES_TOGETHER[-1]))
        self._begin()

    def __iter__(self) -> Iterator[tuple[list[Item], RecordVectors]]:
        while self._begun:
            pages, vectors = self._begun.popleft()
            self._begin()
            for page in pages:
                yield page, vectors

    def _begin(self) -> None:
        """Start embedding further pages, up to :data:`_MAX_AHEAD`."""
        size = sum(_size(page) for pages, _ in self._begun for page in pages)
        while size < _MAX_AHEAD and (pages := list(islice(self._pages, next(self._sizes)))):
            records = [item.record for page in pages for item in page if item.record is not None]
            self._begun.append((pages, self._ahead.begin(records)))
            size += sum(map(_size, pages))


def _size(page: Sequence[Item]) -> int:
    return sum(_SIZE_WITHOUT_TEXT + len(item.record.content) for item in page if item.record is not None)


class _Edges:
    """Writes edges in their order, each page once its ends are written, and then supersessions.

    First all plain edges, then supersessions by records, then supersessions by edges: the order of
    :mod:`braid.ingestion.bulk.batch_phases`, as an edge and the one that supersedes it may be on different pages.
    """

    def __init__(
        self, dataset: DatasetSource, staging: Staging, application: Application, done: _Totals, *, rewrite: bool
    ) -> None:
        self._dataset, self._staging, self._application = dataset, staging, application
        self._done, self._rewrite = done, rewrite
        stated = staging.last_of_each_edge(dataset.edges())
        self._plain = batches(((place, edge) for place, edge in stated if edge.type != SUPERSEDES), EDGES_AT_ONCE)
        self._next: list[tuple[str, Relationship]] = []

    def write_ready(self) -> None:
        """Write the next pages of plain edges, up to the first one that waits for a record."""
        while self._peek() and not self._staging.wait_for_records(edge for _, edge in self._next):
            self._write_next()

    def write_rest(self) -> None:
        """Write all remaining edges, after all records are written."""
        while self._peek():
            self._write_next()
        for edges, ending in ((self._staging.supersedes_edges(), False), (self._staging.ending_edges(), True)):
            for page in batches(edges, EDGES_AT_ONCE):
                self._write(page, ending=ending)

    def _peek(self) -> bool:
        """Return whether there is a next page of plain edges; read it if that has not been done."""
        self._next = self._next or next(self._plain, [])
        return bool(self._next)

    def _write_next(self) -> None:
        self._write(self._next, ending=False)
        self._next = []

    def _write(self, page: Sequence[tuple[str, Relationship]], *, ending: bool) -> None:
        stated = [edge.altered(supersedes=()) if edge.supersedes and not ending else edge for _, edge in page]
        request = WriteRequest(
            tenant_id=self._dataset.tenant_id,
            relationships=tuple(stated),
            places=Places(relationships=tuple(place for place, _ in page)),
            supersede_only=ending,
            ended_apart=self._staging.ended_identities(stated),
            rewrite=self._rewrite and not ending,
        )
        self._done.add(write(request, self._application))


def _delete_texts_of_entities(staging: Staging, tenant_id: str, key: str, application: Application) -> int:
    """Delete the records of entities that lost their text; return the number of deleted records."""
    objects, removed = manifests(application), 0
    if objects and any(staging.demoted_ids()):
        read_others(objects, tenant_id, key, staging)
        for ids in staging.demoted_ids():
            removed += delete_texts(tenant_id, ids, application)
    return removed


def _prune(staging: Staging, tenant_id: str, application: Application) -> int:
    """Delete items that the dataset no longer has; return the number of deleted records."""
    removed = 0
    for identities in staging.removed_edges():
        edges = [
            Relationship(tenant_id=tenant_id, source=source, type=kind, target=target, predicate=predicate or None)
            for source, kind, target, predicate in identities
        ]
        with application.transaction(tenant_id):  # begins a new write generation
            forget(tenant_id, application.intent_log, edges=edges)
            application.graph.delete_relationships(tenant_id, edges)
    for ids in staging.removed_ids():
        removed += delete_records(tenant_id, ids, application).records
    for ids in staging.demoted_ids(by_others=True):
        removed += delete_texts(tenant_id, ids, application)
    return removed


def _fingerprint(dataset: DatasetSource, settings: Sequence[str]) -> str:
    return _form_prefix() + hashlib.sha256("\n".join([dataset.content_hash, *settings]).encode()).hexdigest()


def _form_prefix() -> str:
    return hashlib.sha256(STORED_FORM.encode()).hexdigest()[:8] + "-"
