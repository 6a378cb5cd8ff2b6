"""How vertices and edges lie in the property graph, and the steps that write them.

Every property is always written, so that a new version replaces the old whole: what is missing is written as a value
that no real one has. Times are microseconds since 1970. Every vertex has the one label below and its type is a
property, so that an entity may change its type; an edge's label is its relationship type, a part of its identity.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from gremlin_python.process.graph_traversal import __
from gremlin_python.process.traversal import Cardinality, Direction, P, T
from gremlin_python.statics import long

from braid.understanding.name_forms import stored_forms
from braid.understanding.tokens import normalise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gremlin_python.process.graph_traversal import GraphTraversal, GraphTraversalSource

    from braid.models import Relationship, Vertex

LABEL = "Entity"
TENANT = "tenant_id"
ENTITY_TYPE = "entity_type"
NAME = "name"
ALIASES = "aliases"
"""As a JSON text: a property of many values keeps no order."""
SHOWN_NAME = "shown_name"
"""The name, or the first alias of what has none."""
HAS_RECORD = "has_record"
UNTRUSTED = "untrusted"
"""Whether a vertex is not trusted; one that an older Braid wrote says nothing, and so is."""
TIMESTAMP = "timestamp"
VALID_FROM = "valid_from"
VALID_UNTIL = "valid_until"
LINK_NAME = "link_name"
"""Normalised name of a vertex, behind its tenant."""
LINK_KEY = "link_key"
"""Normalised names, aliases and forms of both behind the tenant: the only property of cardinality set, in one index."""
CONFIDENCE = "confidence"
EVIDENCE = "evidence"
IDENTITY = "identity"
"""Source, type, target and predicate of an edge, in an order that compares like the four themselves."""
ROW = "row"
"""All that a walk reads of a vertex or an edge, in one text: five values cost five times as much to fetch."""

UNKNOWN_TIME = -(2**62)
FIRST_MOMENT = -(2**62)
LAST_MOMENT = 2**62
_SEPARATOR = "\x01"  # ids hold no control characters
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def vertex_id(tenant_id: str, record_id: str) -> str:
    """Return the vertex's id, which carries the tenant; a tenant's name holds no bar."""
    return f"{tenant_id}|{record_id}"


def record_id(stored: str) -> str:
    """Return the part of a vertex's id behind the tenant."""
    return stored.partition("|")[2]


def link_key(tenant_id: str, name: str) -> str:
    """Return what a normalised name is looked up by: with the tenant inside, one index finds only the tenant's."""
    return f"{tenant_id}|{name}"


def edge_id(edge: Relationship) -> str:
    """Return the edge's id: one for the same tenant, ends, type and predicate, so that every write is an upsert."""
    return f"{edge.tenant_id}|{hashlib.sha256(_identity(edge).encode()).hexdigest()[:40]}"


def microseconds(moment: datetime | None, missing: int) -> long:
    """Return a moment as whole microseconds, of the graph's 64-bit type whatever its size."""
    return long(missing if moment is None else (moment - _EPOCH) // _MICROSECOND)


def valid(steps: GraphTraversal, as_of: datetime) -> GraphTraversal:
    """Keep what is valid at a moment."""
    now = microseconds(as_of, 0)
    return steps.has(VALID_FROM, P.lte(now)).has(VALID_UNTIL, P.gt(now))


def open_vertices(steps: GraphTraversal, as_of: datetime, *, trusted_only: bool) -> GraphTraversal:
    """Keep the vertices that may be walked at a moment."""
    steps = valid(steps, as_of)
    return steps.not_(__.has(UNTRUSTED, True)) if trusted_only else steps


def moment_of(stored: int) -> datetime:
    """Read what :func:`microseconds` wrote."""
    return _EPOCH + stored * _MICROSECOND


def next_change(steps: GraphTraversal, tenant_id: str, after: datetime) -> GraphTraversal:
    """Return the first moment after another when one of these elements becomes or ceases to be valid; or nothing."""
    # Two conditions, each a plain comparison, which an index may answer.
    moment, never = microseconds(after, 0), long(LAST_MOMENT)
    firsts = [__.has(key, P.gt(moment)).has(key, P.lt(never)).values(key) for key in (VALID_FROM, VALID_UNTIL)]
    return steps.has(TENANT, tenant_id).union(*firsts).min_()


def write_vertices(source: GraphTraversalSource, vertices: Sequence[Vertex]) -> GraphTraversal:
    """Write vertices in one traversal. Merge maps are constants, which Neptune runs natively."""
    steps: Any = source
    for vertex in vertices:
        steps = steps.merge_v({T.id: vertex_id(vertex.tenant_id, vertex.id), T.label: LABEL})
        steps = steps.side_effect(__.properties(LINK_KEY).drop())
        name = normalise(vertex.name) if vertex.name else ""
        for key, value in (
            (TENANT, vertex.tenant_id),
            (ENTITY_TYPE, vertex.entity_type),
            (NAME, vertex.name or ""),
            (ALIASES, json.dumps(vertex.aliases, ensure_ascii=False)),
            (SHOWN_NAME, vertex.name or next(iter(vertex.aliases), "")),
            (HAS_RECORD, vertex.has_record),
            (UNTRUSTED, not vertex.trusted),
            (ROW, _vertex_row(vertex)),
            (LINK_NAME, link_key(vertex.tenant_id, name) if name else ""),
            (TIMESTAMP, microseconds(vertex.timestamp, UNKNOWN_TIME)),
            (VALID_FROM, microseconds(vertex.valid_at, FIRST_MOMENT)),
            (VALID_UNTIL, microseconds(vertex.invalid_at, LAST_MOMENT)),
        ):
            # Without ``single`` Neptune would add the new value beside the old.
            steps = steps.property(Cardinality.single, key, value)
        forms = [form for each in (vertex.name or "", *vertex.aliases) for form in stored_forms(each)]
        for phrase in sorted({name, *map(normalise, vertex.aliases), *forms} - {""}):
            steps = steps.property(Cardinality.set_, LINK_KEY, link_key(vertex.tenant_id, phrase))
    return steps.id_()


def write_edges(source: GraphTraversalSource, edges: Sequence[Relationship]) -> GraphTraversal:
    """Write edges, whose ends exist, in one traversal. An edge's properties have no cardinality: each has one value."""
    steps: Any = source
    for edge in edges:
        steps = steps.merge_e(
            {
                T.id: edge_id(edge),
                T.label: edge.type,
                Direction.OUT: vertex_id(edge.tenant_id, edge.source),
                Direction.IN: vertex_id(edge.tenant_id, edge.target),
            }
        )
        for key, value in (
            (TENANT, edge.tenant_id),
            (IDENTITY, _identity(edge)),
            (ROW, _SEPARATOR.join((_identity(edge), repr(float(edge.confidence)), edge.evidence or ""))),
            (CONFIDENCE, float(edge.confidence)),
            (TIMESTAMP, microseconds(edge.timestamp, UNKNOWN_TIME)),
            (VALID_FROM, microseconds(edge.valid_at, FIRST_MOMENT)),
            (VALID_UNTIL, microseconds(edge.invalid_at, LAST_MOMENT)),
            (EVIDENCE, edge.evidence or ""),
            ("predicate", edge.predicate or ""),
        ):
            steps = steps.property(key, value)
    return steps.id_()


class Reached(NamedTuple):
    """What a walk reads of a vertex."""

    id: str
    entity_type: str
    has_record: bool
    timestamp: datetime | None
    name: str


class Step(NamedTuple):
    """What a walk reads of an edge."""

    source: str
    type: str
    target: str
    predicate: str
    confidence: float
    evidence: str


def read_vertex(row: str) -> Reached:
    """Read what :func:`write_vertices` wrote as ``row``."""
    record, entity_type, has_record, time, name = row.split(_SEPARATOR)
    return Reached(record, entity_type, has_record == "1", _EPOCH + int(time) * _MICROSECOND if time else None, name)


def read_edge(row: str) -> Step:
    """Read what :func:`write_edges` wrote as ``row``."""
    source, kind, target, predicate, confidence, evidence = row.split(_SEPARATOR)
    return Step(source, kind, target, predicate, float(confidence), evidence)


def _vertex_row(vertex: Vertex) -> str:
    time = (vertex.timestamp - _EPOCH) // _MICROSECOND if vertex.timestamp else ""
    fields = (vertex.id, vertex.entity_type, "1" if vertex.has_record else "0", str(time), vertex.name or "")
    return _SEPARATOR.join(fields)


def _identity(edge: Relationship) -> str:
    return _SEPARATOR.join((edge.source, edge.type, edge.target, edge.predicate or ""))
