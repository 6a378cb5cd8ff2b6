"""Port of the search index: writes, k-NN and BM25 search, reads by id and scans.

Every request carries its tenant; an implementation filters by it inside the query itself. Implementations raise
:class:`~braid.errors.TransientStoreError` for errors that may pass if retried, else another
:class:`~braid.errors.StoreError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypedDict, runtime_checkable

from pydantic import Field

from braid.errors import DimensionMismatch, InvalidRequest
from braid.models import Embedding, Filters, Frozen, Hit, Kind, Label, Record, RecordId, TenantId, Timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Unpack

    from braid.models import FacetValue, StoredRecord, ValueKind

_FLOAT_BYTES: Final = 4

MAX_OUTDATED = 10
"""Most records outside the schema window that one search reports."""


class SearchRequest(Frozen):
    """Vector and word search of one tenant, answered in one round trip."""

    tenant_id: TenantId
    text: str | None = None
    """Words for BM25; None leaves the lexical strand out."""
    embedding: Embedding | None = None
    """Vector for k-NN in its own space; None leaves the vector strand out."""
    k: int = Field(ge=1, le=200)
    filters: Filters = Filters()
    ids: tuple[RecordId, ...] | None = None
    """Only these records; None means no such condition, empty means no records."""
    as_of: Timestamp
    """Only records valid at this moment: ``valid_at <= as_of < invalid_at``, where a missing bound is open."""
    min_schema_version: int = 1
    """Beginning of the schema window: records of an older schema are no hits."""
    newest_first: bool = False
    """Order of the lexical strand: True, the newest ``timestamp`` first (missing last), ties by id; False, by score."""


class SearchHits(Frozen):
    """Up to ``k`` hits of each strand, best first unless the request asks for another order, ties by id."""

    vector: tuple[Hit, ...] = ()
    """Score: ``max(0, cosine)``."""
    lexical: tuple[Hit, ...] = ()
    """Score: ``scoring.from_bm25`` of the engine's BM25."""
    superseded: int = 0
    """Distinct records, outside their validity at ``as_of``, that would have been among the first ``k`` of a strand."""
    begins_at: Timestamp | None = None
    """The earliest moment at which one of them becomes valid; None when none will."""
    outdated: tuple[RecordId, ...] = ()
    """The best records that only the schema window excluded, at most :data:`MAX_OUTDATED` per strand, each id once."""
    space_empty: bool = False
    """Whether the tenant has vectors but none in the question's space, so that the vector strand finds nothing."""


class IndexStats(Frozen):
    """Counts of one tenant's records."""

    records: int = 0
    by_kind: dict[Kind, int] = Field(default_factory=dict)
    by_entity_type: dict[Label, int] = Field(default_factory=dict)


class ScanConditions(TypedDict, total=False):
    """Conditions on the records of a scan or count, all of which must hold; None means no such condition."""

    schema_below: int | None
    """Written with an older schema than this version."""
    space_missing: str | None
    """Without a vector in this embedding space."""
    model_missing: str | None
    """Without a vector of this model."""
    document: str | None
    """Belonging to this document: it is the record's id, the id up to a ``#``, or the source's title."""


class ScanPage(Frozen):
    """A page of a scan: records in the order of their ids."""

    records: tuple[Record, ...] = ()
    cursor: str | None = None
    """Cursor of the next page; None when there is none."""


class WrittenRecord(Frozen):
    """The fields of a stored record that a write needs, such as the hash that tells whether it has changed."""

    id: RecordId
    content_hash: str | None = None
    """Hash of the record as it was given; None for one that was not written by :mod:`braid.ingestion.writing`."""
    model_ids: frozenset[str] = frozenset()
    """Models of its vectors."""
    trusted: bool = True


@runtime_checkable
class SearchIndex(Protocol):
    """Records with their vectors and words."""

    def upsert(self, records: Sequence[Record]) -> None:
        """Insert or replace records; when it returns they are durable and searchable.

        Raises as :func:`check_vectors`; nothing is written then.
        """

    def set_validity(self, records: Sequence[Record]) -> None:
        """Update only the validity of stored records; records removed meanwhile are not restored."""

    def delete(self, tenant_id: TenantId, ids: Sequence[RecordId]) -> int:
        """Remove records and return how many there were."""

    def finish_removals(self, tenant_id: TenantId) -> None:
        """Remove the remaining rows of a tenant's deleted records, in batches; called outside a transaction.

        No search finds them any more.
        """

    def show_writes(self) -> None:
        """Return once scans and counts find every write that was acknowledged before; it may take some minutes."""

    def search(self, request: SearchRequest) -> SearchHits:
        """Search both strands in one round trip.

        Raises DimensionMismatch if the question's vector does not have the dimension of its space.
        """

    def get_many(self, tenant_id: TenantId, ids: Sequence[RecordId], *, with_vectors: bool = False) -> list[Record]:
        """Return the records that exist, in the order of ``ids``, without their vectors unless asked."""

    def candidates(self, tenant_id: TenantId, ids: Sequence[RecordId]) -> dict[RecordId, StoredRecord]:
        """Return the records that exist, by id, read in one round trip."""

    def written(self, tenant_id: TenantId, ids: Sequence[RecordId]) -> dict[RecordId, WrittenRecord]:
        """Return the fields that a write needs of the records that exist, including records not yet searchable."""

    def characters(self, tenant_id: TenantId, ids: Sequence[RecordId]) -> dict[RecordId, int]:
        """Return the text length in characters of the records that exist; empty where a write blocks no other one.

        It bounds a write's transaction, which reads the words of each text that it deletes or replaces.
        """

    def scan(
        self,
        tenant_id: TenantId,
        *,
        after: str | None = None,
        limit: int = 500,
        with_vectors: bool = False,
        **conditions: Unpack[ScanConditions],
    ) -> ScanPage:
        """Return the next page of the records that meet every condition given; without any, of all records.

        Each record that exists throughout the scan is returned exactly once, whatever else is written or removed
        meanwhile; each page has the state at its own time. A caller that writes a record back must check that it was
        not changed since.

        Raises InvalidRequest if ``limit`` is out of bounds, or ``after`` is no cursor of this tenant.

        Parameters
        ----------
        after
            Cursor of the previous page, of any process and age; None begins. The same conditions must be given again;
            the limit may differ.
        limit
            Most records of the page, 1 to 1,000.
        with_vectors
            Whether records come with their vectors; re-embedding needs their text only.
        """

    def count(self, tenant_id: TenantId, *, at_most: int, trusted_only: bool = False) -> int:
        """Return the number of a tenant's records, or of the trusted ones, counting no further than ``at_most``."""

    def stats(self, tenant_id: TenantId) -> IndexStats:
        """Count a tenant's records by kind and type. May read all of them, so no question calls it."""

    def unknown_words(self, tenant_id: TenantId, words: Sequence[str], *, trusted_only: bool = False) -> frozenset[str]:
        """Return the normalised words that no text, or no trusted text, contains with this or another ending."""

    def passing(self, request: SearchRequest) -> frozenset[RecordId]:
        """Return which of the request's ``ids`` are records that meet its filters, valid or not."""

    def field_kinds(
        self, tenant_id: TenantId, fields: Sequence[str], *, trusted_only: bool = False
    ) -> dict[str, frozenset[ValueKind]]:
        """Return the kinds of values of each metadata field that any of the tenant's records, or trusted ones, has."""

    def count_values(self, request: SearchRequest, fields: Sequence[str]) -> dict[str, tuple[FacetValue, ...]]:
        """Return the most frequent values of each field, with counts, among the records that a search considers.

        These are the tenant's records that meet the filters and are valid and inside the schema window, whatever their
        text. At most :data:`~braid.models.metadata_filters.FACET_VALUES` values per field, most frequent first, ties
        by term; a long text is cut to its beginning.
        """


def check_vectors(records: Iterable[Record], spaces: Mapping[str, int]) -> None:
    """Require that every vector is of a configured space and has that space's dimension.

    Only the configuration counts, not stored vectors, so that no tenant determines what another one can write. Raises
    InvalidRequest if a space is not configured, and DimensionMismatch if a vector has another dimension.
    """
    for record in records:
        for embedding in record.embeddings:
            dimension = spaces.get(embedding.space)
            if dimension is None:
                known = ", ".join(sorted(spaces))
                raise InvalidRequest.of(
                    "embeddings",
                    f"record {record.id} has a vector of the unknown space {embedding.space!r};"
                    f" the configured models have {known}",
                )
            for vector in (embedding.vector, *(part.vector for part in embedding.further)):
                if len(vector) != _FLOAT_BYTES * dimension:
                    raise DimensionMismatch.of(
                        "embeddings",
                        f"space {embedding.space} holds vectors of {dimension} values, record {record.id}"
                        f" has one of {len(vector) // _FLOAT_BYTES}; embed with the model of that space",
                    )
