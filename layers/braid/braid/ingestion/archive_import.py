"""Imports archives of tenants (:mod:`braid.ingestion.archive_export`), and verifies the stored items against them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from braid.errors import DatasetError, InvalidRequest
from braid.ingestion.archive_export import MANIFEST, PAGE, PartKind, verify
from braid.ingestion.bulk.fingerprints import Fingerprints, contains, fingerprint_of
from braid.ingestion.deleting import delete_records
from braid.ingestion.entities_found_in_texts import delete_mentions
from braid.ingestion.item_refusals import (
    OWN_ENTITY_TYPES,
    OWN_RELATIONSHIP_TYPES,
    Types,
    no_room,
    vector_problem,
    what_is_wrong,
)
from braid.ingestion.regular_files import open_regular
from braid.models import EdgeId, Frozen, Record, Relationship, Vertex
from braid.ports.batches import batches
from braid.ports.deletion_marks import refuse_if_deleted_since, refuse_while_deleted, undone, was_deleted_since
from braid.ports.knowledge_graph import GraphTypes
from braid.ports.schema_registry import check_next
from braid.strict_json import NotJson, read_json
from braid.understanding.encoder_windows import embed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from braid.ingestion.archive_export import Item, Manifest, OnProgress
    from braid.models import Embedding
    from braid.ports.ingestion import WriteStore
    from braid.ports.schema_registry import SchemaVersion

_MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""A text of a megabyte may have the vectors of 2,048 parts in each embedding space."""
_PAGE_BYTES: Final = 16 * 1024 * 1024
_SHOWN: Final = 5
_MODELS: Final[Mapping[PartKind, type[Item]]] = {
    PartKind.RECORDS: Record,
    PartKind.VERTICES: Vertex,
    PartKind.RELATIONSHIPS: Relationship,
}


class Imported(Frozen):
    """Report of an import: its counts, and the hashes by which it was verified."""

    tenant_id: str
    counts: dict[PartKind, int]
    hashes: dict[PartKind, str]
    """Hash of all stored items of a kind, which does not depend on their order and equals the archive's."""
    embedded: int = 0
    """Records that were embedded here, as the archive lacks their vectors of a served model."""
    unchanged: int = 0
    """Records that were stored already."""
    left_out: int = 0
    """Relationships that were left out for lack of an endpoint, as the tenant was written to during the export."""
    records_before: int = 0
    """Records that the tenant had when the import began."""


def import_tenant(
    folder: Path,
    store: WriteStore,
    *,
    tenant_id: str | None = None,
    threads: int | None = None,
    on_progress: OnProgress | None = None,
) -> Imported:
    """Write an archive into a tenant, and compare the stored items with it, one by one.

    Other items of the tenant stay. Repeating an interrupted import completes it.

    Parameters
    ----------
    tenant_id
        Tenant to import into; that of the archive when None.
    threads
        Threads of the encoders, which make the vectors that the archive lacks.

    Raises
    ------
    DatasetError
        If the archive is damaged, and then nothing is written; or if the stored items differ from it in the end.
    StoreError, ModelError, TenantBeingDeleted
        As the engines and the encoders, and while the tenant is deleted.
    """
    manifest = verify(folder)
    into = _Import(folder, manifest, store, tenant_id or manifest.tenant_id, threads)
    of, done = 3 * sum(manifest.counts().values()), 0

    def go_through(work: Callable[[PartKind, Sequence[Item]], None]) -> None:
        nonlocal done
        for kind in PartKind:
            for items in into.pages(kind):
                work(kind, items)
                done += len(items)
                if on_progress:
                    on_progress(done, of)

    go_through(into.check)
    into.refuse_differing()
    into.register_schemas()
    go_through(into.write)
    go_through(into.compare)
    return into.report()


class _Import:
    """One import."""

    def __init__(
        self, folder: Path, manifest: Manifest, store: WriteStore, tenant_id: str, threads: int | None
    ) -> None:
        self.folder, self.manifest, self.store, self.tenant_id = folder, manifest, store, tenant_id
        self.threads = threads
        self.embedded = self.unchanged = 0
        self.stored = dict.fromkeys(PartKind, 0)
        """Sums of the items' hashes."""
        self.counts = dict.fromkeys(PartKind, 0)
        self.left_out = 0
        self._mark = refuse_while_deleted(tenant_id, store.cache)
        self._records_before = store.index.stats(tenant_id).records
        self._places: list[str] = []
        """File and line of each item of the current page."""
        self._replaced: list[str] = []
        """Ids of the current page's records that are stored otherwise."""
        self._seen = {kind: Fingerprints() for kind in PartKind}
        self._vertices = b""
        """The sorted fingerprints of the archive's vertices."""
        self._schemas = self._new_schemas()
        self._newest = max([store.schemas.current(tenant_id), *(schema.version for schema in self._schemas)])
        self._entity_types, self._relationship_types = Types(OWN_ENTITY_TYPES), Types(OWN_RELATIONSHIP_TYPES)

    def pages(self, kind: PartKind) -> Iterator[list[Item]]:
        """Yield the archive's items of a kind, page by page."""
        for at, part in enumerate(self.manifest.parts):
            if part.kind is not kind:
                continue
            number = 0
            with open_regular(self.folder / part.name) as file:
                lines = enumerate(iter(lambda: file.readline(_MAX_LINE_BYTES), b""), start=1)
                for some in batches(lines, PAGE, size=_PAGE_BYTES, size_of=lambda numbered: len(numbered[1])):
                    self._places = [f"{self.folder}: {part.name}, line {number}" for number, _ in some]
                    number, _ = some[-1]
                    yield [self._read(kind, line, place) for (_, line), place in zip(some, self._places, strict=True)]
            if number != part.items:
                raise DatasetError(
                    f"{self.folder / MANIFEST}: parts.{at}.items: is {part.items:,}, and {part.name} has {number:,} "
                    "lines; nothing was imported"
                )

    def _read(self, kind: PartKind, line: bytes, place: str) -> Item:
        try:
            given = read_json(line.decode())
            if not isinstance(given, dict):
                raise NotJson("is no object")
            return _MODELS[kind].model_validate(given | {"tenant_id": self.tenant_id})
        except ValidationError as error:
            first = error.errors()[0]
            wrong = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
        except ValueError as error:
            wrong = str(error)
        raise DatasetError(f"{place}: {wrong}")

    def check(self, kind: PartKind, items: Sequence[Item]) -> None:
        """Check a page's items. Raises DatasetError, with file and line, for one that a write would refuse.

        Relationships whose endpoints are neither in the archive nor stored are refused too.
        """
        for item in items:
            self._seen[kind].add(_fingerprint(_identity(item)))
        if kind is PartKind.RELATIONSHIPS:
            problems = self._problems_of_edges([item for item in items if isinstance(item, Relationship)])
        else:
            problems = self._problems([item for item in items if not isinstance(item, Relationship)])
        for place, problem in zip(self._places, problems, strict=True):
            if problem:
                raise DatasetError(f"{place}: {problem}; nothing was imported")

    def _problems(self, items: Sequence[Record | Vertex]) -> Iterator[str | None]:
        """Yield the error of each record or vertex, None for a valid one."""
        wanted = {item.entity_type for item in items if isinstance(item, Vertex)}
        self._entity_types.add(self.store.graph.types(self.tenant_id, GraphTypes(entities=frozenset(wanted))).entities)
        for item in items:
            if wrong := what_is_wrong(item):
                yield f"{wrong.field}: {wrong.message}"
            elif isinstance(item, Vertex):
                room = self._entity_types.admit(item.entity_type)
                yield None if room else f"entity_type: {no_room('entity')}"
            elif item.schema_version > self._newest:
                yield f"schema_version: {item.schema_version} is newer than {self._newest}, the newest version"
            else:
                text = item.text()
                problems = (_problem(each, len(text)) for each in self._served(item).embeddings)
                yield next((f"embeddings: {problem}" for problem in problems if problem), None)

    def _problems_of_edges(self, edges: Sequence[Relationship]) -> Iterator[str | None]:
        """Yield the error of each relationship, None for a valid one; all vertices must have been checked before."""
        wanted = GraphTypes(relationships=frozenset(edge.type for edge in edges))
        self._relationship_types.add(self.store.graph.types(self.tenant_id, wanted).relationships)
        self._vertices = self._vertices or self._seen[PartKind.VERTICES].in_order()
        endpoints = sorted({endpoint for edge in edges for endpoint in (edge.source, edge.target)})
        elsewhere = [endpoint for endpoint in endpoints if not contains(self._vertices, _fingerprint(_of_id(endpoint)))]
        missing = set(elsewhere) - {vertex.id for vertex in self.store.graph.get_many(self.tenant_id, elsewhere)}
        for edge in edges:
            absent = [endpoint for endpoint in (edge.source, edge.target) if endpoint in missing]
            if absent and not self.manifest.changed:  # else it is left out
                yield f"{absent[0]!r} is no vertex of the archive"
            else:
                room = self._relationship_types.admit(edge.type)
                yield None if room else f"type: {no_room('relationship')}"

    def refuse_differing(self) -> None:
        """Raise DatasetError for an item that the archive has twice and not the same: one of both would be lost."""
        for kind, seen in self._seen.items():
            repeated, known = seen.repeated(), dict[EdgeId, str]()
            for items in self.pages(kind) if repeated else ():
                for place, item in zip(self._places, items, strict=True):
                    if _fingerprint(identity := _identity(item)) not in repeated:
                        continue
                    own = _hash(item)
                    if known.setdefault(identity, own) != own:
                        message = f"{_name(item)!r} is in the archive already, and not the same; nothing was imported"
                        raise DatasetError(f"{place}: {message}")

    def _new_schemas(self) -> list[SchemaVersion]:
        """Return the archive's schema versions that are newer than the tenant's current one, oldest first.

        Raises DatasetError if the tenant cannot have them: else some would be registered before one is refused.
        """
        known, current = self.store.schemas.versions(self.tenant_id), self.store.schemas.current(self.tenant_id)
        new: list[SchemaVersion] = []
        for schema in sorted(self.manifest.schemas, key=lambda schema: schema.version):
            own = schema.altered(tenant_id=self.tenant_id)
            try:
                if own.version > current and check_next(own, [*known, *new]):
                    new.append(own)
            except InvalidRequest as error:
                raise DatasetError(f"{self.folder / MANIFEST}: schemas: {error}; nothing was imported") from None
        return new

    def register_schemas(self) -> None:
        """Register the archive's schema versions that are newer than the tenant's current one.

        Raises TenantBeingDeleted as :meth:`write`.
        """
        if not self._schemas:
            return  # cached answers stay valid
        with self.store.transaction(self.tenant_id):
            refuse_if_deleted_since(self.tenant_id, self.store.cache, self._mark)
            for schema in self._schemas:
                self.store.schemas.register(schema)

    def write(self, kind: PartKind, items: Sequence[Item]) -> None:
        """Write a page's items, in one transaction; records are embedded first where the archive lacks vectors.

        Raises TenantBeingDeleted if the tenant is being deleted, or was deleted since the import began; the page is not
        kept then.
        """
        records = self._new([item for item in items if isinstance(item, Record)])
        vertices = [item for item in items if isinstance(item, Vertex)]
        edges = self._whole([item for item in items if isinstance(item, Relationship)])
        if records or vertices or edges:
            with self.store.transaction(self.tenant_id):
                refuse_if_deleted_since(self.tenant_id, self.store.cache, self._mark)
                if kind is PartKind.RECORDS:
                    self._delete_mentions()
                    self.store.index.upsert(records)
                else:
                    self.store.graph.upsert(vertices, edges)
            undoes = self.store.write_generation(self.tenant_id) is None  # else the transaction saw every deletion
            if undoes and was_deleted_since(self.tenant_id, self.store.cache, self._mark):
                ids = [record.id for record in records] + [vertex.id for vertex in vertices]
                delete_records(self.tenant_id, ids, self.store)
                raise undone(self.tenant_id)

    def _delete_mentions(self) -> None:
        """Delete what was found in the texts that the page replaces; the archive has what was found in its own."""
        graph = self.store.graph
        mentions = graph.found_mentions(self.tenant_id, self._replaced) if self._replaced else []
        if mentions:
            delete_mentions(self.tenant_id, mentions, graph)
            graph.distrust_unmentioned(self.tenant_id, {edge.source for edge in mentions})

    def _new(self, records: Sequence[Record]) -> list[Record]:
        """Return the records that are new or changed, each with a vector of every served model."""
        if not records:
            return []
        ids = [record.id for record in records]
        models = {model.id: model for model in self.store.models()}
        stored = {record.id: _hash(record) for record in self.store.index.get_many(self.tenant_id, ids)}
        vectors = self.store.index.written(self.tenant_id, list(stored)) if stored else {}
        self._replaced = [record.id for record in records if stored.get(record.id, _hash(record)) != _hash(record)]
        new = [
            self._served(record)
            for record in records
            if stored.get(record.id) != _hash(record) or not models.keys() <= vectors[record.id].model_ids
        ]
        self.unchanged += len(records) - len(new)
        made = {record.id: list(record.embeddings) for record in new}
        lacking: set[str] = set()
        for name, model in models.items():
            without = [record for record in new if name not in {each.model_id for each in record.embeddings}]
            for record, vector in zip(
                without,
                embed(without, self.store.encoder_for(model, threads=self.threads)) if without else (),
                strict=True,
            ):
                made[record.id].append(vector)
                lacking.add(record.id)
        self.embedded += len(lacking)
        return [record.altered(embeddings=tuple(made[record.id])) for record in new]

    def _served(self, record: Record) -> Record:
        """Return a record without vectors of spaces not configured here, nor supplied ones if these are not allowed."""
        refused = () if self.store.allow_supplied_vectors else record.supplied_spaces
        kept = tuple(each for each in record.embeddings if each.space not in refused and self._is_configured(each))
        supplied = tuple(space for space in record.supplied_spaces if space in {each.space for each in kept})
        return record.altered(embeddings=kept, supplied_spaces=supplied)

    def _is_configured(self, embedding: Embedding) -> bool:
        model = self.store.spaces.get(embedding.space)
        return model is not None and (model.id, model.dimension) == (embedding.model_id, embedding.dimension)

    def _whole(self, edges: list[Relationship]) -> list[Relationship]:
        """Return the relationships whose endpoints are stored: an export of a changing tenant may lack some."""
        if not edges or not self.manifest.changed:
            return edges
        endpoints = {endpoint for edge in edges for endpoint in (edge.source, edge.target)}
        there = {vertex.id for vertex in self.store.graph.get_many(self.tenant_id, sorted(endpoints))}
        return [edge for edge in edges if {edge.source, edge.target} <= there]

    def compare(self, kind: PartKind, items: Sequence[Item]) -> None:
        """Compare a page's items with the stored ones, and count them. Raises DatasetError if they differ."""
        stored: Sequence[Item]
        edges = [item for item in items if isinstance(item, Relationship)]
        if edges:
            items = whole = self._whole(edges)
            self.left_out += len(edges) - len(whole)
            stored = self.store.graph.as_stored(self.tenant_id, whole)
        elif kind is PartKind.VERTICES:
            stored = self.store.graph.get_many(self.tenant_id, [item.id for item in items if isinstance(item, Vertex)])
        else:
            stored = self.store.index.get_many(self.tenant_id, [item.id for item in items if isinstance(item, Record)])
        given, found = ({_name(item): _hash(item) for item in each} for each in (items, stored))
        if wrong := sorted(name for name, value in given.items() if found.get(name) != value):
            raise DatasetError(
                f"{self.tenant_id}: {len(wrong)} of {kind.value} are not stored as the archive has them, such as "
                f"{', '.join(wrong[:_SHOWN])}; somebody writes to the tenant, or the store shows writes late: "
                "run the import again"
            )
        self.counts[kind] += len(given)
        self.stored[kind] = (self.stored[kind] + sum(int(value, 16) for value in found.values())) % 2**256

    def report(self) -> Imported:
        """Return the report of the import."""
        return Imported(
            tenant_id=self.tenant_id,
            counts=self.counts,
            hashes={kind: f"{value:064x}" for kind, value in self.stored.items()},
            embedded=self.embedded,
            unchanged=self.unchanged,
            left_out=self.left_out,
            records_before=self._records_before,
        )


def _problem(embedding: Embedding, characters: int) -> str | None:
    """Return the problem of a text's vectors, given its length in characters; None if there is none."""
    starts = [part.start for part in embedding.further]
    if starts != sorted({start for start in starts if start < characters}):
        return f"the parts of space {embedding.space} do not begin one after another within the text"
    return vector_problem(embedding)


def _of_id(identity: str) -> EdgeId:
    return (identity, "", "", "")


def _identity(item: Item) -> EdgeId:
    return item.identity() if isinstance(item, Relationship) else _of_id(item.id)


def _fingerprint(identity: EdgeId) -> bytes:
    return fingerprint_of("item", identity)


def _name(item: Item) -> str:
    return " ".join(item.identity()) if isinstance(item, Relationship) else item.id


def _hash(item: Item) -> str:
    """Return the SHA-256 of an item without its tenant and vectors.

    Its keys are sorted: OpenSearch returns the fields of metadata in another order than they were written in.
    """
    fields = item.model_dump(mode="json", exclude={"tenant_id", "embeddings", "supplied_spaces"})
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
