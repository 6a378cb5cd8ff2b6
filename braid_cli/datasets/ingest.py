"""Putting a dataset folder into the stores, and taking out of them what the folder no longer holds."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from braid.ingestion.deleting import delete_records
from braid.ingestion.supersession import SUPERSEDES
from braid.ingestion.writing import Places, WriteRequest, write
from braid.models import Relationship

from braid_cli.datasets.contradictions import refuse_contradictions, require_accepted
from braid_cli.datasets.manifest import (
    FOLDER,
    UNFINISHED,
    Heading,
    manifests,
    read_heading,
    read_manifest,
    read_others,
    write_manifest,
)
from braid_cli.datasets.staging import Whose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from braid.app import Wired
    from braid.ingestion.writing import WriteReport
    from braid.ports.schema_registry import SchemaVersion

    from braid_cli.datasets.staging import Item, Ledger

WRITTEN_AS = "names with their forms"
"""What a store holds of equal content: a folder that was written otherwise is written again."""
BATCH = 512
ITEMS_AT_ONCE = 1_024
"""Records and entities that are checked together and embedded in the order of their lengths."""
EDGES_AT_ONCE = 1_024
_T = TypeVar("_T")


class Source(Protocol):
    """What is ingested. It is gone through more than once, and need not be in memory."""

    @property
    def tenant_id(self) -> str:
        """Whose data it becomes."""

    @property
    def name(self) -> str:
        """By which it is known again."""

    @property
    def content_hash(self) -> str:
        """Which is equal for equal content."""

    @property
    def schemas(self) -> tuple[SchemaVersion, ...]:
        """The schema versions that come with it."""

    def items(self) -> Iterator[Item]:
        """Yield records and entities."""

    def edges(self) -> Iterator[tuple[str, Relationship]]:
        """Yield relationships with their places."""

    def noted(self) -> AbstractContextManager[Ledger]:
        """Lend the notes of all items and edges, which were checked."""


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
    dataset: Source,
    wired: Wired,
    *,
    threads: int | None = None,
    prune: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
) -> Ingested:
    """Write a dataset as :func:`braid.ingestion.writing.write` does; what is stored just so is not written again.

    An ingest that was cut off is finished by running it again. Memory does not grow with the dataset.

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
        Called with the number of records done and the number of all.

    Raises
    ------
    NewerSchema
        If a record's schema is newer than the tenant's current one; nothing is written.
    DatasetError
        If something else contradicts what is stored; nothing is written. Or if the dataset changes while it is read;
        what was written until then stays, and ingesting it again goes on.
    StoreError, ModelError
        As the engines and the encoder.
    """
    tenant_id, key, objects = dataset.tenant_id, f"{FOLDER}{dataset.name}.jsonl", manifests(wired)
    models = wired.models()
    fingerprint = _fingerprint(dataset, [model.id for model in models])
    before = read_heading(objects, tenant_id, key) if objects else Heading()
    generation = wired.cache.generation(tenant_id)
    newest = max((schema.version for schema in dataset.schemas), default=1)
    # A tenant that was deleted while this was written has its records again, and its schemas not.
    registered = wired.schemas.current(tenant_id) >= newest
    if registered and before.fingerprint == fingerprint and generation and generation == before.generation:
        return Ingested(0, 0, 0, 0.0, 0.0, unchanged=True)
    # Whatever may be missing is looked for before the first write.
    for model in models:
        wired.encoder_for(model, threads=threads)
    began = time.perf_counter()
    with dataset.noted() as ledger:
        ledger.hold_now()
        if objects:
            read_manifest(objects, tenant_id, key, ledger, Whose.BEFORE)
            if prune and any(ledger.leaving()):
                read_others(objects, tenant_id, key, ledger)
        refuse_contradictions(dataset, ledger, wired, ledger.leaving() if prune else ())
        if objects:
            # From here to the end the stores hold some of both.
            write_manifest(objects, tenant_id, key, Heading(), ledger, Whose.NOW, Whose.BEFORE)
        for schema in sorted(dataset.schemas, key=lambda schema: schema.version):
            wired.schemas.register(schema)
        # A folder that was written otherwise has its vertices written again, though none of them has changed.
        rewrite = before.fingerprint != UNFINISHED and not before.fingerprint.startswith(_written_as())
        done = _Done()
        _write_items(dataset, ledger, wired, done, threads=threads, rewrite=rewrite, on_progress=on_progress)
        _write_edges(dataset, ledger, wired, done, rewrite=rewrite)
        removed = 0
        if objects and prune:
            # What another dataset of the tenant holds as well stays.
            read_others(objects, tenant_id, key, ledger)
            removed = _prune(ledger, tenant_id, wired)
        if objects:
            heading = Heading(fingerprint, wired.cache.generation(tenant_id) or 0)
            write_manifest(objects, tenant_id, key, heading, ledger, Whose.NOW, *(() if prune else (Whose.BEFORE,)))
        same = before.fingerprint != UNFINISHED and ledger.same_edges()
        return Ingested(
            records=ledger.records,
            vertices=ledger.vertices(),
            relationships=ledger.relationships,
            embed_seconds=done.embed_seconds,
            write_seconds=time.perf_counter() - began - done.embed_seconds,
            unchanged=same and not (done.written or done.vertices or removed),
            written=done.written,
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
    from braid_cli.export.default_model import DEFAULT_MODEL, ensure_default_model

    if DEFAULT_MODEL not in {model.id for model in wired.models()}:
        return
    if on_progress:
        on_progress(0, 1)
    ensure_default_model(wired.settings.models_path())
    if on_progress:
        on_progress(1, 1)


# --- writing ----------------------------------------------------------------------------------------------------------


class _Done:
    """What was done so far."""

    def __init__(self) -> None:
        self.written = self.vertices = 0
        self.embed_seconds = 0.0

    def add(self, report: WriteReport) -> None:
        require_accepted(report)
        self.written += report.written
        self.vertices += report.vertices
        self.embed_seconds += report.embed_seconds


def _write_items(
    dataset: Source,
    ledger: Ledger,
    wired: Wired,
    done: _Done,
    *,
    threads: int | None,
    rewrite: bool,
    on_progress: Callable[[int, int], None] | None,
) -> None:
    """Write records and entities; what they supersede ends with the edges."""
    earlier = 0
    for items in _pages(dataset.items(), ITEMS_AT_ONCE):
        records = {item.record.id: item.record for item in items if item.record is not None}
        beside = ledger.vertices_beside([item.vertex.id for item in items if item.vertex and not item.record])
        vertices = {item.vertex.id: item.vertex for item in items if item.vertex and item.vertex.id not in beside}
        vertices |= ledger.vertices_beside(records)
        request = WriteRequest(
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

        def tell(written: int, of: int, before: int = earlier + len(records)) -> None:
            if on_progress:
                on_progress(before - of + written, ledger.records)

        report = write(request, wired, threads=threads, batch=BATCH, on_progress=tell)
        done.add(report)
        if not report.written:
            tell(0, 0)
        earlier += len(records)


def _write_edges(dataset: Source, ledger: Ledger, wired: Wired, done: _Done, *, rewrite: bool) -> None:
    """Write edges, then what records supersede, then what edges supersede, as files of lines are written.

    See :mod:`braid.ingestion.bulk.phases`: an edge and what ends it may stand on pages far apart.
    """
    plain = ((place, edge) for place, edge in ledger.standing(dataset.edges()) if edge.type != SUPERSEDES)
    for edges, ending in ((plain, False), (ledger.links(), False), (ledger.ends(), True)):
        for page in _pages(edges, EDGES_AT_ONCE):
            stated = [edge if ending else edge.model_copy(update={"supersedes": ()}) for _, edge in page]
            request = WriteRequest(
                tenant_id=dataset.tenant_id,
                relationships=tuple(stated),
                places=Places(relationships=tuple(place for place, _ in page)),
                supersede_only=ending,
                ended_apart=ledger.ended(stated),
                rewrite=rewrite and not ending,
            )
            done.add(write(request, wired))


def _pages(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    page: list[_T] = []
    for item in items:
        page.append(item)
        if len(page) == size:
            yield page
            page = []
    if page:
        yield page


def _prune(ledger: Ledger, tenant_id: str, wired: Wired) -> int:
    """Remove what the dataset no longer holds; return how many records that were."""
    removed = 0
    for identities in ledger.gone_edges():
        edges = [
            Relationship(tenant_id=tenant_id, source=source, type=kind, target=target, predicate=predicate or None)
            for source, kind, target, predicate in identities
        ]
        wired.graph.delete_relationships(tenant_id, edges)
    for ids in ledger.gone_ids():
        removed += delete_records(tenant_id, ids, wired).records
    for demoted in ledger.demoted():
        removed += wired.index.delete(tenant_id, demoted)
        vertices = wired.graph.get_many(tenant_id, demoted)
        wired.graph.upsert([vertex.model_copy(update={"has_record": False}) for vertex in vertices], [])
        wired.cache.advance(tenant_id)
    return removed


def _fingerprint(dataset: Source, model_ids: Sequence[str]) -> str:
    return _written_as() + hashlib.sha256("\n".join([dataset.content_hash, *model_ids]).encode()).hexdigest()


def _written_as() -> str:
    return hashlib.sha256(WRITTEN_AS.encode()).hexdigest()[:8] + "-"
