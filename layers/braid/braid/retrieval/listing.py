"""Lists what is stored, a page at a time: documents by the records that they were cut into, and named entities."""

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
"""Records that are read together: those written by older versions may have megabytes."""
_IDLE_READS: Final = 50
"""Reads without a document after which a page ends, as where nothing but messages is stored."""
_LAST: Final = "#\U0010ffff"
"""Appended to a document's id, it sorts behind the ids of all its chunks."""


class DocumentsPage(NamedTuple):
    """The first record of each of some documents, in the order of their ids."""

    first_records: list[Record]
    cursor: str | None
    """What the next page is asked with; None when there is none."""


def documents(
    index: SearchIndex, tenant_id: str, *, after: str | None, limit: int, read: int = READ_AT_ONCE
) -> DocumentsPage:
    """Return the next documents; only the first chunks of long ones are read.

    A document is all records of kind ``chunk`` whose ids are the same up to a ``#``, as those of ingested files are.
    The record that stands for it is the first by id.

    Parameters
    ----------
    after
        Cursor of the page before; None begins.
    limit
        Most documents of the page.
    read
        Records that are read at once.
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
            # An id may lie behind even that, and no page begins before its last one ended.
            after = encode(tenant_id, max(last.id, last.document_id + _LAST))
    return DocumentsPage([*found.values()], after)


class NamesPage(NamedTuple):
    """Some named vertices of the graph, each with its number of edges in the page, those with most first."""

    vertices: list[tuple[Vertex, int]]
    cursor: str | None


def names(graph: WritableGraph, tenant_id: str, *, after: str | None, limit: int) -> NamesPage:
    """Return the named vertices among the next ``limit`` of the graph in the order of their ids, best connected first.

    Edges that lead to a vertex from another page are not counted.
    """
    page = graph.scan(tenant_id, after=after, limit=limit, hubs=False)
    edges = Counter(end for edge in page.relationships for end in (edge.source, edge.target))
    named = [(vertex, edges[vertex.id] + page.unread) for vertex in page.vertices if vertex.name]
    return NamesPage(sorted(named, key=lambda one: (-one[1], one[0].name or "", one[0].id)), page.cursor)
