"""Pages through stored documents, by the records that they were split into, and through named entities."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from braid.models import Kind
from braid.ports.keys import encode

if TYPE_CHECKING:
    from braid.models import Record, Vertex
    from braid.ports.knowledge_graph import WritableGraph
    from braid.ports.search_index import SearchIndex

READ_AT_ONCE: Final = 20
"""Number of records that are read at once: few, since records of older versions may have megabytes."""
_IDLE_READS: Final = 50
"""Reads without a new document after which a page ends, as where only messages are stored."""
_LAST: Final = "#\U0010ffff"
"""Suffix of a document's id that sorts after the ids of all its chunks."""


class DocumentsPage(NamedTuple):
    """A page of documents, each as its first record, in the order of their ids."""

    first_records: list[Record]
    cursor: str | None
    """Cursor of the next page; None on the last."""


def documents(
    index: SearchIndex, tenant_id: str, *, after: str | None, limit: int, read: int = READ_AT_ONCE
) -> DocumentsPage:
    """Return the next page of documents; only the first chunks of long ones are read.

    A document is all records of kind ``chunk`` whose ids are equal up to a ``#``, as those of ingested files are. It is
    represented by its first record by id.

    Parameters
    ----------
    after
        Cursor of the page before; None for the first page.
    limit
        Most documents of the page.
    read
        Number of records that are read at once.
    """
    found: dict[str, Record] = {}
    idle = 0
    while idle < _IDLE_READS:
        page = index.scan(tenant_id, after=after, limit=read)
        known = len(found)
        for record in page.records:
            if record.kind is Kind.CHUNK:
                document = record.document_id
                if document not in found and len(found) == limit:
                    return DocumentsPage([*found.values()], after)
                found.setdefault(document, record)
            after = encode(tenant_id, record.id)
        idle = idle + 1 if len(found) == known else 0
        after = page.cursor
        if after is None:
            break
        last = page.records[-1]
        if last.kind is Kind.CHUNK and "#" in last.id:
            # An id may sort after even that suffix, and a page must not begin before the end of the last one.
            after = encode(tenant_id, max(last.id, last.document_id + _LAST))
    return DocumentsPage([*found.values()], after)


class NamesPage(NamedTuple):
    """A page of named vertices, each with its number of edges in the page, those with most edges first."""

    vertices: list[tuple[Vertex, int]]
    cursor: str | None


def names(graph: WritableGraph, tenant_id: str, *, after: str | None, limit: int) -> NamesPage:
    """Return the named vertices among the graph's next ``limit`` in the order of ids, those with most edges first.

    An edge from a vertex of another page is not counted.
    """
    page = graph.scan(tenant_id, after=after, limit=limit, hubs=False)
    edges = Counter(end for edge in page.relationships for end in (edge.source, edge.target))
    named = [(vertex, edges[vertex.id] + page.unread) for vertex in page.vertices if vertex.name]
    return NamesPage(sorted(named, key=lambda one: (-one[1], one[0].name or "", one[0].id)), page.cursor)
