"""Deleting, for good and in both stores: records, and documents with their chunks.

A page of records goes in one transaction: out of the notes of unfinished writes first, so that no repair brings it
back, then out of the graph, then out of the index. Whoever is stopped between two of these, where stores cannot commit
together, finds what is left by the records that are still there, and repeats the delete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from braid.ingestion.unfinished_writes import forget
from braid.models import Frozen, TenantId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from braid.ports.knowledge_graph import WritableGraph
    from braid.ports.object_store import ObjectStore
    from braid.ports.search_index import SearchIndex

_PAGE = 500


class DeleteReport(Frozen):
    """How much there was of what was deleted."""

    tenant_id: TenantId
    records: int = 0
    vertices: int = 0
    relationships: int = 0


class DeleteStore(Protocol):
    """What is deleted from, such as :func:`braid.app.wired` returns."""

    @property
    def index(self) -> SearchIndex:
        """Where records are."""

    @property
    def graph(self) -> WritableGraph:
        """Where vertices and edges are."""

    @property
    def notes(self) -> ObjectStore | None:
        """Where writes are noted while they are done; None of stores that commit together, or without a bucket."""

    def transaction(self, tenant_id: str) -> AbstractContextManager[None]:
        """Commit what is deleted inside and a new write generation: together, where the stores can."""


def delete_records(tenant_id: str, ids: Sequence[str], store: DeleteStore) -> DeleteReport:
    """Delete records with their vertices, those vertices' edges, and the edges that the records are evidence of.

    Parameters
    ----------
    tenant_id
        Whose.
    ids
        Of records, or of vertices without one. What is not there is no error.
    store
        Where from.

    Raises
    ------
    StoreError
        As the engines; repeating the delete completes it.
    """
    return delete_pages(tenant_id, [list(dict.fromkeys(ids))], store)


def delete_document(tenant_id: str, document: str, store: DeleteStore) -> DeleteReport:
    """Delete every record of a document as :func:`delete_records` does.

    Parameters
    ----------
    document
        A record's id, what stands before the ``#`` in the ids of chunks, or the title of their source.

    Raises
    ------
    StoreError
        As the engines; repeating the delete completes it.
    """
    return delete_pages(tenant_id, record_pages(tenant_id, store, document), store)


def delete_pages(tenant_id: str, pages: Iterable[list[str]], store: DeleteStore) -> DeleteReport:
    """Delete pages of records as :func:`delete_records` does."""
    records = vertices = relationships = 0
    for ids in pages:
        with store.transaction(tenant_id):
            forget(tenant_id, store.notes, ids=ids)
            relationships += store.graph.delete_relationships_of(tenant_id, ids)
            vertices += store.graph.delete(tenant_id, ids)
            records += store.index.delete(tenant_id, ids)
    return DeleteReport(tenant_id=tenant_id, records=records, vertices=vertices, relationships=relationships)


def record_pages(tenant_id: str, store: DeleteStore, document: str | None) -> Iterator[list[str]]:
    """Yield the ids of a document's records, or of all of a tenant, page by page."""
    cursor: str | None = None
    while True:
        page = store.index.scan(tenant_id, document=document, after=cursor, limit=_PAGE)
        if page.records:
            yield [record.id for record in page.records]
        cursor = page.cursor
        if cursor is None:
            return
