"""Layout of vertices and edges in the property graph, and the traversals that write and fetch them.

Every property is always written, a missing value as a sentinel, so that a new version replaces the old one completely.
Times are microseconds since 1970. All vertices have the same label and their type is a property, so that an entity may
change its type; an edge's label is its relationship type, a part of its identity.
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from gremlin_python.process.graph_traversal import __
from gremlin_python.process.traversal import Cardinality, Direction, Merge, P, T, TextP
from gremlin_python.statics import long

from braid.models import MENTIONS, Relationship, Vertex
from braid.models.enums_and_scalars import microseconds, moment_of
from braid.ports.knowledge_graph import MAX_TRUST_EDGES
from braid.ranking.graph_queries_and_facts import Node
from braid.understanding.name_keys import stored_forms
from braid.understanding.tokens import normalise

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from gremlin_python.process.graph_traversal import GraphTraversal, GraphTraversalSource

LABEL = "Entity"
TENANT = "tenant_id"
ENTITY_TYPE = "entity_type"
NAME = "name"
ALIASES = "aliases"
"""As JSON text: multi-valued properties are unordered."""
HAS_RECORD = "has_record"
UNTRUSTED = "untrusted"
"""Whether a vertex or edge is untrusted; elements of an older Braid lack the property and are trusted."""
FOUND = "found"
"""Mark in the row of an element that was found in a text; in an edge's row its position follows."""
TIMESTAMP = "timestamp"
VALID_FROM = "valid_from"
VALID_UNTIL = "valid_until"
LINK_NAME = "link_name"
"""Normalised name of a vertex, prefixed with its tenant."""
LINK_KEY = "link_key"
"""Normalised names, aliases and their forms, prefixed with the tenant: the only property of cardinality set."""
CONFIDENCE = "confidence"
EVIDENCE = "evidence"
IDENTITY = "identity"
"""Source, type, target and predicate of an edge in one string, which sorts like the four."""
ROW = "row"
"""All values of a vertex or edge that a walk reads, in one string: fetching five properties is five times as slow."""

SINCE = "since"
"""Mark of the field of an edge's row with the beginning of its validity; a row of an older Braid lacks it."""

EDGES_AT_ONCE = 1_000
"""Most edges that are fetched together to be changed."""
UNKNOWN_TIME = -(2**62)
FIRST_MOMENT = -(2**62)
LAST_MOMENT = 2**62
CHARACTERS_AT_ONCE = 200_000
"""Most characters of names that one traversal writes: some 4 MB of bytecode, of the 10 MB that a server reads."""
_SEPARATOR = "\x01"  # ids hold no control characters
_ROWS_KEPT = 8_192
"""Parsed rows that are kept of vertices and of edges, some 6 MB each: hops of one question bring the same ones."""


def characters_of_names(vertex: Vertex) -> int:
    """Return the length of a vertex's names, which most of its bytecode consists of."""
    return sum(map(len, (vertex.name or "", *vertex.aliases)))


def vertex_id(tenant_id: str, record_id: str) -> str:
    """Return the vertex id of a record, prefixed with the tenant, whose name contains no bar."""
    return f"{tenant_id}|{record_id}"


def vertex_ids(tenant_id: str, record_ids: Iterable[str]) -> list[str]:
    """Return the distinct vertex ids of several records."""
    return [vertex_id(tenant_id, record) for record in dict.fromkeys(record_ids)]


def record_id(stored: str) -> str:
    """Return the record id of a vertex id."""
    return stored.partition("|")[2]


def link_key(tenant_id: str, name: str) -> str:
    """Return the lookup key of a normalised name, prefixed with the tenant, so that it matches only the tenant's."""
    return f"{tenant_id}|{name}"


def edge_id(edge: Relationship) -> str:
    """Return the edge's id, a hash of tenant, endpoints, type and predicate, so that every write is an upsert."""
    return f"{edge.tenant_id}|{hashlib.sha256(_identity(edge).encode()).hexdigest()[:40]}"


def stored(moment: datetime | None, missing: int) -> long:
    """Return a moment in microseconds since 1970, or ``missing``, as the graph's 64-bit type."""
    return long(missing if moment is None else microseconds(moment))


def valid(steps: GraphTraversal, as_of: datetime) -> GraphTraversal:
    """Keep the elements that are valid at a moment."""
    now = stored(as_of, 0)
    return steps.has(VALID_FROM, P.lte(now)).has(VALID_UNTIL, P.gt(now))


def walkable(steps: GraphTraversal, as_of: datetime, *, trusted_only: bool) -> GraphTraversal:
    """Keep the elements that are valid at a moment and, if required, trusted."""
    steps = valid(steps, as_of)
    return steps.not_(__.has(UNTRUSTED, True)) if trusted_only else steps


def write_vertices(
    source: GraphTraversalSource, vertices: Sequence[Vertex], stubs: Collection[str] = ()
) -> GraphTraversal:
    """Write vertices in one traversal. Merge maps are constants, which Neptune executes natively.

    Vertices whose ids are among ``stubs`` are created, but never overwritten.
    """
    steps: Any = source
    for vertex in vertices:
        steps = steps.merge_v({T.id: vertex_id(vertex.tenant_id, vertex.id), T.label: LABEL})
        name = normalise(vertex.name) if vertex.name else ""
        properties = {
            TENANT: vertex.tenant_id,
            ENTITY_TYPE: vertex.entity_type,
            NAME: vertex.name or "",
            ALIASES: json.dumps(vertex.aliases, ensure_ascii=False),
            HAS_RECORD: vertex.has_record,
            UNTRUSTED: not vertex.trusted,
            ROW: _vertex_row(vertex),
            LINK_NAME: link_key(vertex.tenant_id, name) if name else "",
            TIMESTAMP: stored(vertex.timestamp, UNKNOWN_TIME),
            VALID_FROM: stored(vertex.valid_at, FIRST_MOMENT),
            VALID_UNTIL: stored(vertex.invalid_at, LAST_MOMENT),
        }
        if vertex.id in stubs:
            steps = steps.option(Merge.on_create, properties)
            continue
        steps = steps.side_effect(__.properties(LINK_KEY).drop())
        for key, value in properties.items():
            # Without ``single`` Neptune would add the new value to the old one.
            steps = steps.property(Cardinality.single, key, value)
        forms = stored_forms(*filter(None, (vertex.name, *vertex.aliases)), is_text=vertex.is_text)
        for phrase in sorted({name, *map(normalise, vertex.aliases), *forms} - {""}):
            steps = steps.property(Cardinality.set_, LINK_KEY, link_key(vertex.tenant_id, phrase))
    return steps.id_()


def change(source: GraphTraversalSource, items: Sequence[Vertex | Relationship]) -> GraphTraversal:
    """Update validity and trust of stored vertices and edges, in one traversal.

    Unlike a merge, this does not create elements that were removed meanwhile.
    """
    steps: Any = source.inject(0)
    for item in items:
        one: Any
        single: tuple[Cardinality, ...] = ()
        if isinstance(item, Relationship):
            one, row = __.E(edge_id(item)), _edge_row(item)
        else:
            one, row, single = __.V(vertex_id(item.tenant_id, item.id)), _vertex_row(item), (Cardinality.single,)
        for key, value in (
            (ROW, row),
            (UNTRUSTED, not item.trusted),
            (VALID_FROM, stored(item.valid_at, FIRST_MOMENT)),
            (VALID_UNTIL, stored(item.invalid_at, LAST_MOMENT)),
        ):
            one = one.property(*single, key, value)
        steps = steps.side_effect(one)
    return steps


def write_edges(source: GraphTraversalSource, edges: Sequence[Relationship]) -> GraphTraversal:
    """Write edges, whose endpoints must exist, in one traversal.

    Edge properties have no cardinality: each has one value.
    """
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
            (ROW, _edge_row(edge)),
            (UNTRUSTED, not edge.trusted),
            (CONFIDENCE, float(edge.confidence)),
            (TIMESTAMP, stored(edge.timestamp, UNKNOWN_TIME)),
            (VALID_FROM, stored(edge.valid_at, FIRST_MOMENT)),
            (VALID_UNTIL, stored(edge.invalid_at, LAST_MOMENT)),
            (EVIDENCE, edge.evidence or ""),
            ("predicate", edge.predicate or ""),
        ):
            steps = steps.property(key, value)
    return steps.id_()


class Reached(NamedTuple):
    """The values of a vertex that a walk reads."""

    id: str
    entity_type: str
    has_record: bool
    timestamp: datetime | None
    name: str
    trusted: bool
    invalid_at: datetime | None
    found: bool


class Step(NamedTuple):
    """The values of an edge that a walk reads."""

    source: str
    type: str
    target: str
    predicate: str
    confidence: float
    evidence: str
    trusted: bool
    invalid_at: datetime | None
    position: int | None
    valid_at: datetime | None


@lru_cache(_ROWS_KEPT)
def read_vertex(row: str) -> Reached:
    """Parse the ``row`` of a vertex that :func:`write_vertices` wrote."""
    record, entity_type, has_record, time, name, *rest = row.split(_SEPARATOR)
    trusted, invalid_at, found = _read_rest(rest)
    moment = _read_moment(time)
    return Reached(record, entity_type, has_record == "1", moment, name, trusted, invalid_at, found is not None)


@lru_cache(_ROWS_KEPT)
def read_edge(row: str) -> Step:
    """Parse the ``row`` of an edge that :func:`write_edges` wrote."""
    source, kind, target, predicate, confidence, evidence, *rest = row.split(_SEPARATOR)
    since = next((field.removeprefix(SINCE) for field in rest if field.startswith(SINCE)), "")
    trusted, invalid_at, found = _read_rest([field for field in rest if not field.startswith(SINCE)])
    position = int(found) if found else None
    valid_at = _read_moment(since)
    return Step(source, kind, target, predicate, float(confidence), evidence, trusted, invalid_at, position, valid_at)


def node_of(vertex: Reached) -> Node:
    """Return a vertex in the form that graph queries and PageRank use."""
    name = vertex.name or None
    return Node(
        vertex.id, vertex.entity_type, vertex.has_record, vertex.timestamp, name, vertex.trusted, vertex.invalid_at
    )


def _vertex_row(vertex: Vertex) -> str:
    time = _row_moment(vertex.timestamp)
    fields = (vertex.id, vertex.entity_type, "1" if vertex.has_record else "0", time, vertex.name or "")
    return _SEPARATOR.join((*fields, *_rest(vertex), *((FOUND,) if vertex.found else ())))


def _edge_row(edge: Relationship) -> str:
    fields = (_identity(edge), repr(float(edge.confidence)), edge.evidence or "")
    found = () if edge.position is None else (f"{FOUND}{edge.position}",)
    since = () if edge.valid_at is None else (f"{SINCE}{_row_moment(edge.valid_at)}",)
    return _SEPARATOR.join((*fields, *_rest(edge), *found, *since))


def _rest(element: Vertex | Relationship) -> tuple[str, ...]:
    """Return the last fields of a row: a mark if the element is untrusted, and the end of its validity, if any."""
    mark = () if element.trusted else (UNTRUSTED,)
    return mark if element.invalid_at is None else (*mark, _row_moment(element.invalid_at))


def _read_rest(fields: Sequence[str]) -> tuple[bool, datetime | None, str | None]:
    """Return whether an element is trusted, the end of its validity, and the text after the mark of a found one.

    The text is None for one that was not found. A row of an older Braid lacks the end.
    """
    found = next((field.removeprefix(FOUND) for field in fields if field.startswith(FOUND)), None)
    ends = [field for field in fields if field != UNTRUSTED and not field.startswith(FOUND)]
    return UNTRUSTED not in fields, _read_moment(*ends), found


def _row_moment(moment: datetime | None) -> str:
    return "" if moment is None else str(microseconds(moment))


def _read_moment(text: str = "") -> datetime | None:
    return moment_of(int(text)) if text else None


def _identity(edge: Relationship) -> str:
    return _SEPARATOR.join((edge.source, edge.type, edge.target, edge.predicate or ""))


def fetch_vertices(source: GraphTraversalSource, tenant_id: str, keys: Sequence[str]) -> GraphTraversal:
    """Fetch vertices by their stored ids."""
    return _whole_vertices(source.V(*keys).has(TENANT, tenant_id))


def fetch_unmentioned(
    source: GraphTraversalSource, tenant_id: str, keys: Sequence[str], leaving: Sequence[str] = ()
) -> GraphTraversal:
    """Fetch the vertices without edges besides those of the stored ids ``leaving``, by their stored ids."""
    return _whole_vertices(source.V(*keys).has(TENANT, tenant_id).not_(edges_besides(leaving)))


def fetch_to_distrust(
    source: GraphTraversalSource, tenant_id: str, keys: Sequence[str], leaving: Sequence[str] = (), *, lone: bool = True
) -> GraphTraversal:
    """Fetch the trusted vertices without trusted edges besides those of the stored ids ``leaving``.

    Without ``lone`` only those that keep another edge.
    """
    trusted = source.V(*keys).has(TENANT, tenant_id).not_(__.has(UNTRUSTED, True))
    return _whole_vertices(
        _without_trusted_edges(trusted if lone else trusted.filter_(edges_besides(leaving)), leaving)
    )


def distrust(
    source: GraphTraversalSource, vertices: Sequence[Vertex], leaving: Mapping[str, Sequence[str]]
) -> GraphTraversal:
    """Mark vertices as untrusted in one traversal, unless another write has given them a trusted edge meanwhile.

    ``leaving`` has the stored ids of edges that do not count, by the vertex's id.
    """
    steps: Any = source.inject(0)
    for vertex in vertices:
        own = leaving.get(vertex.id, ())
        one: Any = _without_trusted_edges(__.V(vertex_id(vertex.tenant_id, vertex.id)), own)
        for key, value in ((ROW, _vertex_row(vertex.altered(trusted=False))), (UNTRUSTED, True)):
            one = one.property(Cardinality.single, key, value)
        steps = steps.side_effect(one)
    return steps


def _without_trusted_edges(vertices: GraphTraversal, leaving: Sequence[str]) -> GraphTraversal:
    """Keep the vertices with at most :data:`MAX_TRUST_EDGES` edges besides those leaving, of which none is trusted."""
    edges = edges_besides(leaving).limit(MAX_TRUST_EDGES + 1)
    are_few = vertices.filter_(edges.clone().count().is_(P.lte(MAX_TRUST_EDGES)))
    return are_few.not_(edges.not_(__.has(UNTRUSTED, True)))


def edges_besides(leaving: Sequence[str]) -> GraphTraversal:
    """Return the steps to a vertex's edges besides those of these stored ids."""
    return __.both_e().not_(__.has_id(P.within(list(leaving)))) if leaving else __.both_e()


def fetch_vertices_after(source: GraphTraversalSource, tenant_id: str, *, after: str, limit: int) -> GraphTraversal:
    """Fetch a tenant's next vertices in the order of their stored ids."""
    own = source.V().has(TENANT, tenant_id).has_id(P.gt(vertex_id(tenant_id, after)))
    return _whole_vertices(own.order().by(T.id).limit(limit))


def fetch_edges(source: GraphTraversalSource, tenant_id: str, keys: Sequence[str]) -> GraphTraversal:
    """Fetch edges by their stored ids."""
    return _whole_edges(source.E(*keys).has(TENANT, tenant_id))


def fetch_edges_at(
    source: GraphTraversalSource, tenant_id: str, keys: Sequence[str], types: Collection[str] = ()
) -> GraphTraversal:
    """Fetch the edges of vertices, given by their stored ids, in both directions."""
    return _whole_edges(source.V(*keys).has(TENANT, tenant_id).both_e(*sorted(types)).dedup())


def fetch_found_mentions(source: GraphTraversalSource, tenant_id: str, keys: Sequence[str]) -> GraphTraversal:
    """Fetch the mentions that were found in texts and lead to these vertices, given by their stored ids."""
    into = source.V(*keys).has(TENANT, tenant_id).in_e(MENTIONS)
    return _whole_edges(into.has(ROW, TextP.containing(f"{_SEPARATOR}{FOUND}")))


def fetch_mentions_out_of(source: GraphTraversalSource, key: str, tenant_id: str) -> GraphTraversal:
    """Fetch up to :data:`EDGES_AT_ONCE` mentions that lead out of a vertex."""
    return _whole_edges(source.V(key).has(TENANT, tenant_id).out_e(MENTIONS).limit(EDGES_AT_ONCE))


def count_edges_out_of(source: GraphTraversalSource, tenant_id: str, keys: Sequence[str]) -> GraphTraversal:
    """Count the outgoing edges of each vertex, given by stored ids."""
    counted = source.V(*keys).has(TENANT, tenant_id).project("id", "edges")
    return counted.by(__.id_()).by(__.out_e().count())


def fetch_edges_out_of(
    source: GraphTraversalSource, tenant_id: str, keys: Sequence[str], *, after: str | None = None, limit: int = 0
) -> GraphTraversal:
    """Fetch the outgoing edges of vertices: all, or with ``after`` the next ``limit`` ones by stored id."""
    out = source.V(*keys).has(TENANT, tenant_id).out_e()
    return _whole_edges(out if after is None else out.has_id(P.gt(after)).order().by(T.id).limit(limit))


def fetch_edges_of_evidence(source: GraphTraversalSource, tenant_id: str, keys: Sequence[str]) -> GraphTraversal:
    """Fetch the edges whose evidence is one of these records."""
    return _whole_edges(source.E().has(TENANT, tenant_id).has(EVIDENCE, P.within(list(keys))))


def fetch_edges_to_end(source: GraphTraversalSource, tenant_id: str, until: Mapping[str, datetime]) -> GraphTraversal:
    """Fetch edges whose evidence is one of these records and that end later than its time in ``until``.

    Edges that end when they begin cannot end sooner, and are left out.
    """
    of_these = source.E().has(TENANT, tenant_id).has(EVIDENCE, P.within(list(until)))
    late = (__.has(EVIDENCE, record).has(VALID_UNTIL, P.gt(stored(at, 0))) for record, at in until.items())
    lasting = of_these.or_(*late).as_("edge").where(P.gt("edge")).by(VALID_UNTIL).by(VALID_FROM)
    return _whole_edges(lasting.limit(EDGES_AT_ONCE))


def fetch_edges_to_distrust(source: GraphTraversalSource, tenant_id: str, evidence: Sequence[str]) -> GraphTraversal:
    """Fetch trusted edges whose evidence is one of these records."""
    of_these = source.E().has(TENANT, tenant_id).has(EVIDENCE, P.within(list(evidence)))
    return _whole_edges(of_these.not_(__.has(UNTRUSTED, True)).limit(EDGES_AT_ONCE))


def _whole_vertices(steps: GraphTraversal) -> GraphTraversal:
    return steps.value_map(ROW, ALIASES, VALID_FROM, VALID_UNTIL, UNTRUSTED)


def _whole_edges(steps: GraphTraversal) -> GraphTraversal:
    return steps.project("row", "time", "from", "until").by(ROW).by(TIMESTAMP).by(VALID_FROM).by(VALID_UNTIL)


def vertex_of(tenant_id: str, row: Mapping[str, Sequence[Any]]) -> Vertex:
    """Return the vertex of one result of :func:`fetch_vertices` or :func:`fetch_vertices_after`.

    One of an older Braid may lack aliases or trust.
    """
    reached = read_vertex(row[ROW][0])
    return Vertex(
        id=reached.id,
        tenant_id=tenant_id,
        entity_type=reached.entity_type,
        name=reached.name or None,
        aliases=json.loads(row.get(ALIASES, ["[]"])[0]),
        has_record=reached.has_record,
        timestamp=reached.timestamp,
        valid_at=_moment(row[VALID_FROM][0], FIRST_MOMENT),
        invalid_at=_moment(row[VALID_UNTIL][0], LAST_MOMENT),
        trusted=not row.get(UNTRUSTED, [False])[0],
        found=reached.found,
    )


def edge_of(tenant_id: str, row: Mapping[str, Any]) -> Relationship:
    """Return the edge of one result of a ``fetch_edges`` traversal."""
    step = read_edge(row["row"])
    return Relationship(
        tenant_id=tenant_id,
        source=step.source,
        type=step.type,
        target=step.target,
        predicate=step.predicate or None,
        confidence=step.confidence,
        timestamp=_moment(row["time"], UNKNOWN_TIME),
        valid_at=_moment(row["from"], FIRST_MOMENT),
        invalid_at=_moment(row["until"], LAST_MOMENT),
        evidence=step.evidence or None,
        trusted=step.trusted,
        position=step.position,
    )


def _moment(value: int, missing: int) -> datetime | None:
    return None if value == missing else moment_of(int(value))
