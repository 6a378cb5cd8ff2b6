"""Vertices and edges read back whole, and the traversals that fetch them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from gremlin_python.process.graph_traversal import __
from gremlin_python.process.traversal import P, T

from braid.engines.neptune import elements
from braid.models import Relationship, Vertex

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from gremlin_python.process.graph_traversal import GraphTraversal, GraphTraversalSource

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def vertices(source: GraphTraversalSource, tenant_id: str, keys: Sequence[str]) -> GraphTraversal:
    """Fetch vertices by their stored ids."""
    return _vertices(source.V(*keys).has(elements.TENANT, tenant_id))


def vertices_after(source: GraphTraversalSource, tenant_id: str, *, after: str, limit: int) -> GraphTraversal:
    """Fetch a tenant's next vertices in the order of their stored ids."""
    own = source.V().has(elements.TENANT, tenant_id).has_id(P.gt(elements.vertex_id(tenant_id, after)))
    return _vertices(own.order().by(T.id).limit(limit))


def edges(source: GraphTraversalSource, tenant_id: str, keys: Sequence[str]) -> GraphTraversal:
    """Fetch edges by their stored ids."""
    return _edges(source.E(*keys).has(elements.TENANT, tenant_id))


def edges_at(
    source: GraphTraversalSource, tenant_id: str, keys: Sequence[str], types: Collection[str]
) -> GraphTraversal:
    """Fetch the edges that touch some vertices."""
    return _edges(source.V(*keys).has(elements.TENANT, tenant_id).both_e(*sorted(types)).dedup())


def edges_out_of(source: GraphTraversalSource, tenant_id: str, keys: Sequence[str]) -> GraphTraversal:
    """Fetch the edges that lead out of some vertices."""
    return _edges(source.V(*keys).has(elements.TENANT, tenant_id).out_e())


def edges_of_evidence(
    source: GraphTraversalSource, tenant_id: str, evidence: Sequence[str], types: Collection[str]
) -> GraphTraversal:
    """Fetch the edges that some records are the evidence of."""
    found = source.E().has(elements.TENANT, tenant_id).has(elements.EVIDENCE, P.within(list(evidence)))
    return _edges(found.has_label(*sorted(types)) if types else found)


def _vertices(steps: GraphTraversal) -> GraphTraversal:
    return (
        steps.project("row", "aliases", "from", "until", "untrusted")
        .by(elements.ROW)
        .by(__.coalesce(__.values(elements.ALIASES), __.constant("[]")))
        .by(elements.VALID_FROM)
        .by(elements.VALID_UNTIL)
        .by(__.has(elements.UNTRUSTED, True).count())
    )


def _edges(steps: GraphTraversal) -> GraphTraversal:
    return (
        steps.project("row", "time", "from", "until")
        .by(elements.ROW)
        .by(elements.TIMESTAMP)
        .by(elements.VALID_FROM)
        .by(elements.VALID_UNTIL)
    )


def vertex_of(tenant_id: str, row: Mapping[str, Any]) -> Vertex:
    """Read one row of a traversal that fetches vertices."""
    reached = elements.read_vertex(row["row"])
    return Vertex(
        id=reached.id,
        tenant_id=tenant_id,
        entity_type=reached.entity_type,
        name=reached.name or None,
        aliases=json.loads(row["aliases"]),
        has_record=reached.has_record,
        timestamp=reached.timestamp,
        valid_at=_moment(row["from"], elements.FIRST_MOMENT),
        invalid_at=_moment(row["until"], elements.LAST_MOMENT),
        trusted=not row["untrusted"],
    )


def edge_of(tenant_id: str, row: Mapping[str, Any]) -> Relationship:
    """Read one row of a traversal that fetches edges."""
    step = elements.read_edge(row["row"])
    return Relationship(
        tenant_id=tenant_id,
        source=step.source,
        type=step.type,
        target=step.target,
        predicate=step.predicate or None,
        confidence=step.confidence,
        timestamp=_moment(row["time"], elements.UNKNOWN_TIME),
        valid_at=_moment(row["from"], elements.FIRST_MOMENT),
        invalid_at=_moment(row["until"], elements.LAST_MOMENT),
        evidence=step.evidence or None,
    )


def _moment(stored: int, missing: int) -> datetime | None:
    return None if stored == missing else _EPOCH + timedelta(microseconds=int(stored))
