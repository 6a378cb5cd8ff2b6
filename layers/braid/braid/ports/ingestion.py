"""Ports of ingestion: requests and reports of writes, the stores that they need, and imports of objects."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, Protocol

from pydantic import AliasChoices, Field, StringConstraints

from braid.models import EdgeId, Frozen, Record, RecordId, Relationship, TenantId, Text, Vertex
from braid.ports.object_store import ObjectInfo

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from datetime import datetime

    from braid.models import GraphSource
    from braid.models.embedding_models import ModelConfig
    from braid.ports.cache import ResilientCache
    from braid.ports.encoder import Encoder
    from braid.ports.knowledge_graph import WritableGraph
    from braid.ports.name_finder import NameFinder
    from braid.ports.object_store import ObjectStore
    from braid.ports.schema_registry import SchemaRegistry
    from braid.ports.search_index import SearchIndex


class MissingEnds(StrEnum):
    """What to do with an edge with an endpoint that is not stored."""

    REFUSE = "refuse"
    STUB = "stub"
    """Create a vertex without a name, which a later write completes."""


class Places(Frozen):
    """The source location of each item for error messages, such as ``corpus.jsonl:12``; its position when not given."""

    records: tuple[str, ...] = ()
    vertices: tuple[str, ...] = ()
    relationships: tuple[str, ...] = ()

    def records_only(self) -> Places:
        """Return only the places of the records."""
        return Places(records=self.records)


class WriteRequest(Frozen):
    """Records, vertices and edges that one tenant writes. Writing them again changes nothing."""

    tenant_id: TenantId
    records: tuple[Record, ...] = ()
    vertices: tuple[Vertex, ...] = ()
    """Vertices with a record need not be given: they are made of the record when an edge leads there."""
    relationships: tuple[Relationship, ...] = ()
    places: Places = Places()
    missing: MissingEnds = MissingEnds.REFUSE
    partial: bool = False
    """Whether valid items are written when others are invalid; otherwise nothing is."""
    supersede_later: bool = False
    """Whether supersession by records is left to a later request with ``supersede_only``."""
    supersede_only: bool = False
    """Whether an earlier request has written the records, and the edges that supersede others. This one only ends the
    superseded items, and writes the ``SUPERSEDES`` edges."""
    ended_apart: frozenset[EdgeId] = frozenset()
    """Identities of edges that were ended outside of this request: their stored ends of validity are kept."""
    entities: tuple[RecordId, ...] = ()
    """Entities that earlier requests have written: texts that were written at the same moment are linked to them."""
    rewrite: bool = False
    """Whether vertices and edges that are stored unchanged are written again, as a store now derives more of them."""

    def place(self, what: str, position: int) -> str:
        """Return the source location of an item; ``what`` is ``records``, ``vertices`` or ``relationships``."""
        given: tuple[str, ...] = getattr(self.places, what)
        return given[position] if given else f"{what}[{position}]"


class ItemError(Frozen):
    """Why one item is not written."""

    place: str
    id: str | None = None
    field: str | None = None
    message: str

    def __str__(self) -> str:
        """Return one line: place, field and problem."""
        return f"{self.place}: {self.field}: {self.message}" if self.field else f"{self.place}: {self.message}"


class WriteReport(Frozen):
    """Report of one write."""

    tenant_id: TenantId
    written: int = 0
    """Records that are new or have changed."""
    unchanged: int = 0
    """Records that were stored already, with the same content."""
    embedded: int = 0
    """Records that a model embedded; a record whose text has not changed keeps its vectors."""
    vertices: int = 0
    """Vertices that are new or have changed."""
    relationships: int = 0
    """Edges of the request that are stored now, unchanged ones included."""
    unchanged_relationships: int = 0
    """Edges that were stored already, with the same content, and are not written again."""
    superseded: int = 0
    """Records and edges that this write superseded."""
    stubs: int = 0
    names: int = 0
    """Names that were found in the texts and are new in the graph."""
    mentions: int = 0
    """Mentions that were found in the request's texts, unchanged ones included."""
    unmentioned: int = 0
    """Found mentions that were stored and are removed: the texts no longer have them, or names are no longer found."""
    errors: tuple[ItemError, ...] = ()
    embed_seconds: float = 0.0
    write_seconds: float = 0.0


class DeleteStore(Protocol):
    """The stores that records are deleted from, such as :func:`braid.app.application` returns."""

    @property
    def index(self) -> SearchIndex:
        """The search index."""

    @property
    def graph(self) -> WritableGraph:
        """The knowledge graph."""

    @property
    def intent_log(self) -> ObjectStore | None:
        """The store of the intent log; None for stores that commit together, or where there is no bucket."""

    def transaction(self, tenant_id: str) -> AbstractContextManager[None]:
        """Commit the block's writes and a new write generation of the tenant, atomically where the stores can.

        Stores that cannot commit together are written one after the other, and the generation begins in any case.
        """


class WriteStore(DeleteStore, Protocol):
    """The stores that are written to, with the models that embed, such as :func:`braid.app.application` returns."""

    @property
    def schemas(self) -> SchemaRegistry:
        """The tenants' schema versions."""

    @property
    def cache(self) -> ResilientCache:
        """The cache, which holds the marks of tenants that are being deleted."""

    def write_generation(self, tenant_id: str) -> int | None:
        """Return a number that every write to the tenant increases; None for stores that cannot commit together."""

    @property
    def spaces(self) -> Mapping[str, ModelConfig]:
        """Every embedding space that may have vectors, with its model."""

    @property
    def allow_supplied_vectors(self) -> bool:
        """Whether records may come with vectors of their own."""

    @property
    def graph_source(self) -> GraphSource:
        """Where the graph of a write comes from: given, found in texts, or both."""

    @property
    def name_finder(self) -> NameFinder:
        """Finds names in texts."""

    def models(self) -> tuple[ModelConfig, ...]:
        """Return the models in whose spaces a record is embedded."""

    def encoder_for(self, model: ModelConfig, *, threads: int | None = None) -> Encoder:
        """Return the encoder of one of :meth:`models`, loaded if it is not yet."""

    def now(self) -> datetime:
        """Return the present moment, in UTC."""


ARRIVING: Final = "documents/"
"""Key prefix, after the tenant, of documents that are imported on arrival."""
POSTED: Final = "posted/"
"""Key prefix of posted documents until they are written; a folder for each follows it."""
POSTED_PART: Final = "="
"""Prefix of each part of such a document's name in its key. Bucket notifications match any part of a key, so that a
document called ``documents/gates.pdf`` would be imported a second time."""
BY_API: Final = "api-"
"""Prefix of the names of imports that the API starts. Others have UUIDs, of which some sort before any time."""
INCOMPLETE: Final = "IngestIncomplete"
"""Error name of an import of which whole batches failed; the workflow uses it too."""
INTERRUPTED: Final = "Interrupted"
"""Error name of an import whose process ended before it was done."""

ImportName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,80}$")]


class ImportJob(Frozen):
    """The import of one object, as passed between its steps."""

    name: ImportName
    tenant_id: TenantId
    object: ObjectInfo
    missing: MissingEnds = MissingEnds.REFUSE
    lines: int = 0
    batches: int = 0
    fingerprints: ObjectInfo | None = Field(default=None, validation_alias=AliasChoices("fingerprints", "marks"))
    """The object with fingerprints of its edges that other edges in it supersede, and of its edges that supersede
    records; None without such edges. Jobs that an earlier version stored call them ``marks``."""
    document: Text | None = None
    """Key of the document that the object's lines were made from; None if they were not."""
    refused: str = ""
    """Why that document cannot be read, and has no lines; empty if it can."""


class JobStatus(StrEnum):
    """How the import of an object ended."""

    WRITTEN = "written"
    """Every line."""
    WITH_ERRORS = "with_errors"
    """Every line but those in the report."""
    INCOMPLETE = "incomplete"
    """Some batches failed as a whole: start again."""
    CHANGED = "changed"
    """The object was replaced meanwhile: start again with the new version."""


class JobReport(Frozen):
    """Result of the import of an object."""

    job: ImportJob
    status: JobStatus
    written: int = 0
    unchanged: int = 0
    embedded: int = 0
    relationships: int = 0
    superseded: int = 0
    errors: int = 0
    lost_batches: int = 0
    report_key: str
    """The object with one line of JSON for each error."""


class ImportStatus(StrEnum):
    """Progress of an import."""

    RUNNING = "running"
    """Started, or waiting in the queue."""
    WRITTEN = "written"
    """Every line."""
    WITH_ERRORS = "with_errors"
    """Every line but those that the report names."""
    FAILED = "failed"
    """Not every valid line was written; start again."""


class ImportAsked(Frozen):
    """The object to import."""

    key: Text
    """Its key, without the tenant's prefix."""
    missing: MissingEnds = MissingEnds.REFUSE


class Import(Frozen):
    """An import, running or ended."""

    id: ImportName
    status: ImportStatus
    error: str | None = None
    """Name of the error with which it failed, such as ``ObjectMissing``."""
    report: JobReport | None = None
    """Its result, if it ended and did not fail."""


class Imports(Protocol):
    """Runs imports of objects asynchronously."""

    def start(self, tenant_id: str, import_id: str, asked: ImportAsked) -> None:
        """Start an import; ``import_id`` must be new, or that of the same request, repeated.

        Raises
        ------
        StoreError, TransientStoreError
            If it cannot be started.
        QuotaExceeded, QueueFull
            If too many imports of this tenant, or of all, wait in this process's queue. A workflow has no such limit;
            the number that a tenant starts in a minute is limited before.
        """

    def find(self, tenant_id: str, import_id: str) -> Import | None:
        """Return the status of an import; None if there is none of this id, or it is another tenant's."""


WAITED: Final = "steps of imports that found no slot"
"""Counter, of each tenant and minute, of the steps that were refused as the tenant had all of its slots already."""
WAITED_S: Final = 60
"""Window of that counter, in seconds."""
