"""What the stores tell those who write: what is stored already, and page by page all of a graph."""

from __future__ import annotations

from braid.models import Frozen, RecordId, Relationship, Vertex


class Written(Frozen):
    """What a writer has to know of a stored record."""

    id: RecordId
    content_hash: str | None = None
    """Of the record as it was given; None of one that was not written by :mod:`braid.writes`."""
    model_ids: frozenset[str] = frozenset()
    """Models of which it has a vector."""


class GraphPage(Frozen):
    """Some of a tenant's vertices in the order of their ids, and the edges that lead out of them."""

    vertices: tuple[Vertex, ...] = ()
    relationships: tuple[Relationship, ...] = ()
    cursor: str | None = None
    """What the next page is asked with; None when there is none."""
