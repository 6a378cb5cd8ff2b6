"""Pages through stored documents, by their records, and through named entities."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from braid.models import Kind
from braid.ports.keys import MAX_PAGE, encode

if TYPE_CHECKING:
    from braid.models import Record, Vertex
    from braid.ports.knowledge_graph import GraphPage, WritableGraph
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

    A document is all records of kind ``chunk`` whose ids are equal up to a ``#``, as in ingested files. It is
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
    """A page of named entities, each with its number of edges in the page, those with most edges first."""

    vertices: list[tuple[Vertex, int]]
    cursor: str | None


def names(graph: WritableGraph, tenant_id: str, *, after: str | None, limit: int) -> NamesPage:
    """Return the named entities among the graph's next ``limit`` vertices, by their ids, those with most edges first.

    Vertices of texts, whose names are titles, are left out. If none of the next vertices is an entity, further ones are
    read. An edge from a vertex of another page is not counted.
    """
    found = _EdgeCounts()
    for _ in range(_IDLE_READS):
        found.add(page := graph.scan(tenant_id, after=after, limit=limit, hubs=False))
        after = page.cursor
        if found.entities or after is None:
            break
    return NamesPage(found.best_first(), after)


def best_connected(graph: WritableGraph, tenant_id: str, *, read: int) -> NamesPage:
    """Return the named entities among the first vertices of a graph, those with most edges first.

    Parameters
    ----------
    read
        Maximum of vertices that are read; edges between them are counted.
    """
    found, after, left = _EdgeCounts(), None, read
    while left > 0:
        found.add(page := graph.scan(tenant_id, after=after, limit=min(left, MAX_PAGE), hubs=False))
        after, left = page.cursor, left - len(page.vertices)
        if after is None:
            break
    return NamesPage(found.best_first(), after)


class _EdgeCounts:
    """Named entities of some pages of a graph, and their numbers of edges in these pages."""

    def __init__(self) -> None:
        self.entities: list[Vertex] = []
        self._edges = Counter[str]()

    def add(self, page: GraphPage) -> None:
        """Add a page."""
        self.entities += [one for one in page.vertices if one.name and not one.is_text]
        self._edges.update(end for edge in page.relationships for end in (edge.source, edge.target))
        if page.unread:  # of its only vertex
            self._edges[page.vertices[0].id] += page.unread

    def best_first(self) -> list[tuple[Vertex, int]]:
        """Return the entities with their edges, those with most first."""
        counted = [(one, self._edges[one.id]) for one in self.entities]
        return sorted(counted, key=lambda one: (-one[1], one[0].name or "", one[0].id))
