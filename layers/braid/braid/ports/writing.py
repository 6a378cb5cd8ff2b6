"""What whoever writes asks of the stores beside writing: what is stored already, and page by page all of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from braid.models import Frozen, RecordId, Relationship, Vertex
from braid.ports.retrieval import KnowledgeGraph

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from braid.models import Label, TenantId


class Written(Frozen):
    """What a writer has to know of a stored record."""

    id: RecordId
    content_hash: str | None = None
    """Of the record as it was given; None of one that was not written by :mod:`braid.ingestion.writing`."""
    model_ids: frozenset[str] = frozenset()
    """Models of which it has a vector."""


class GraphPage(Frozen):
    """Some of a tenant's vertices in the order of their ids, and the edges that lead out of them."""

    vertices: tuple[Vertex, ...] = ()
    relationships: tuple[Relationship, ...] = ()
    cursor: str | None = None
    """What the next page is asked with; None when there is none."""


@runtime_checkable
class WritableGraph(KnowledgeGraph, Protocol):
    """The graph as it is seen by those who keep it: whole vertices and edges, whatever their validity."""

    def delete_relationships(self, tenant_id: TenantId, relationships: Sequence[Relationship]) -> int:
        """Remove edges by their identity and return how many there were."""

    def get_many(self, tenant_id: TenantId, ids: Sequence[RecordId]) -> list[Vertex]:
        """Return the vertices that exist, whole, in the order of ``ids``."""

    def as_stored(self, tenant_id: TenantId, relationships: Sequence[Relationship]) -> list[Relationship]:
        """Return what is stored under the identities of these edges, whole, in the order of their identity."""

    def relationships(
        self,
        tenant_id: TenantId,
        *,
        ids: Collection[RecordId] = (),
        evidence: Collection[RecordId] = (),
        types: Collection[Label] = (),
    ) -> list[Relationship]:
        """Return edges whole, in the order of their identity, whatever their validity.

        Parameters
        ----------
        ids
            Those with an end among these vertices.
        evidence
            Those, as well, of which the evidence is among these records.
        types
            Of all those only these types; empty means any.
        """

    def scan(self, tenant_id: TenantId, *, after: str | None = None, limit: int = 500) -> GraphPage:
        """Return the next vertices in the order of their ids, with the edges that lead out of them.

        Each vertex that is there from the first page to the last comes exactly once, and so does each edge.

        Parameters
        ----------
        after
            Cursor of the page before, of any process and age; None begins.
        limit
            Most vertices of the page, 1 to 1,000.

        Raises
        ------
        InvalidRequest
            If ``limit`` is out of bounds, or ``after`` is no cursor of this tenant.
        """
