"""Deletes records, and documents with their chunks, from both stores.

A few records at a time are deleted in one transaction: from the intent log of unfinished writes first, so that no
repair restores them, then from the graph, then from the index. If the stores cannot commit together, an interrupted
delete is completed by repeating it: the records are still in the index. The same holds for a record with tens of
thousands of edges: most are removed before the transaction, because other tenants wait for its end.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from braid.ingestion.entities_found_in_texts import NAMES_AT_ONCE, delete_mentions
from braid.ingestion.intent_log import forget
from braid.ingestion.tenant_locks import writing_turn
from braid.models import Frozen, TenantId
from braid.ports.batches import batches
from braid.ports.keys import pages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from braid.ports.ingestion import DeleteStore

_PAGE = 500
_AT_ONCE = 100
"""Most records that one transaction deletes."""
_CHARACTERS_AT_ONCE = 4_000_000
"""Most characters of their texts, if it is more than one record: tokenising them takes half a second."""


class DeleteReport(Frozen):
    """Numbers of deleted items."""

    tenant_id: TenantId
    records: int = 0
    entities: int = 0
    """Entities without a record that were deleted by their ids."""
    vertices: int = 0
    """All vertices: of records, entities, and found names that no text mentions any more."""
    relationships: int = 0


def delete_records(tenant_id: str, ids: Sequence[str], store: DeleteStore) -> DeleteReport:
    """Delete records with their vertices, the vertices' edges, and the edges whose evidence the records are.

    ``ids`` are of records, or of vertices without one; an unknown id is no error. Raises StoreError as the engines do;
    repeating the delete completes it.
    """
    return delete_pages(tenant_id, [list(dict.fromkeys(ids))], store)


def delete_document(tenant_id: str, document: str, store: DeleteStore) -> DeleteReport:
    """Delete every record of a document as :func:`delete_records` does.

    A document is a record's id, the part before the ``#`` in the ids of its chunks, or the title of their source.
    """
    report = delete_pages(tenant_id, record_pages(tenant_id, store, document), store)
    if not report.records:
        with store.transaction(tenant_id):
            pass  # an interrupted delete may have removed all of it without invalidating earlier answers
    return report


def delete_pages(tenant_id: str, pages: Iterable[list[str]], store: DeleteStore) -> DeleteReport:
    """Delete pages of records as :func:`delete_records` does."""
    records = entities = vertices = relationships = 0
    for ids in (some for page in pages for some in batches(page, _AT_ONCE)):
        for some in _in_parts(tenant_id, ids, store):
            with ExitStack() as held:
                held.enter_context(writing_turn(tenant_id, store.graph, store.index))
                relationships += store.graph.remove_most_relationships_of(tenant_id, some)
                held.enter_context(store.transaction(tenant_id))
                forget(tenant_id, store.intent_log, ids=some)
                mentions = store.graph.found_mentions(tenant_id, some)
                named = {edge.source for edge in mentions}
                names, gone = store.graph.delete_only_mentioned(tenant_id, mentions)
                vertices += names
                relationships += gone + store.graph.delete_relationships_of(tenant_id, some)
                with_record = store.index.written(tenant_id, some)
                entities_deleted = store.graph.delete(tenant_id, [one for one in some if one not in with_record])
                vertices += entities_deleted + store.graph.delete(tenant_id, list(with_record))
                vertices += store.graph.delete_unmentioned(tenant_id, sorted(named))
                entities += entities_deleted
                if named:
                    store.graph.distrust_unmentioned(tenant_id, sorted(named))
                records += store.index.delete(tenant_id, some)
    return DeleteReport(
        tenant_id=tenant_id, records=records, entities=entities, vertices=vertices, relationships=relationships
    )


def delete_texts(tenant_id: str, ids: Sequence[str], store: DeleteStore) -> int:
    """Delete records whose vertices stay, with the names that were found in their texts; return how many there were.

    The vertices keep their edges, and are to be written as entities without a record. Raises StoreError as the engines
    do; repeating the call completes it.
    """
    records = 0
    for some in (part for ids_at_once in batches(ids, _AT_ONCE) for part in _in_parts(tenant_id, ids_at_once, store)):
        with writing_turn(tenant_id, store.graph, store.index), store.transaction(tenant_id):
            mentions = store.graph.found_mentions(tenant_id, some)
            forget(tenant_id, store.intent_log, edges=mentions)
            delete_mentions(tenant_id, mentions, store.graph)
            store.graph.distrust_unmentioned(tenant_id, {edge.source for edge in mentions})
            vertices = store.graph.get_many(tenant_id, some)
            store.graph.upsert([vertex.altered(has_record=False) for vertex in vertices], [])
            records += store.index.delete(tenant_id, some)
    return records


def _in_parts(tenant_id: str, ids: list[str], store: DeleteStore) -> Iterator[list[str]]:
    """Yield the ids in parts that are bounded in mentioned names and in characters of text, of one record at least.

    A part and its names are deleted in one transaction, short enough for other tenants to wait for. Names that were
    left for a later one would stay if the process ended before it, and no repeated delete would find them.
    """
    mentioned: dict[str, set[str]] = {}
    for edge in store.graph.found_mentions(tenant_id, ids):
        mentioned.setdefault(edge.target, set()).add(edge.source)
    lengths = store.index.characters(tenant_id, ids)
    part: list[str] = []
    names: set[str] = set()
    length = 0
    for one in ids:
        own, characters = mentioned.get(one, set()), lengths.get(one, 0)
        if part and (len(names | own) > NAMES_AT_ONCE or length + characters > _CHARACTERS_AT_ONCE):
            yield part
            part, names, length = [], set(), 0
        part.append(one)
        names |= own
        length += characters
    if part:
        yield part


def record_pages(tenant_id: str, store: DeleteStore, document: str | None) -> Iterator[list[str]]:
    """Yield the ids of a document's records, or of all records of a tenant, page by page."""
    for page in pages(store.index.scan, tenant_id, document=document, limit=_PAGE):
        if page.records:
            yield [record.id for record in page.records]
