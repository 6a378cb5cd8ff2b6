"""Makes vertices and edges of the names in the texts of a write, and finds the stored mentions that no longer hold.

The names themselves are found by :mod:`braid.understanding.name_finding`, behind :mod:`braid.ports.name_finder`.
A name that is given, in this write or stored, is not made again: its entity gets the found mentions. All others become
vertices whose id is a hash of the name, so that all texts with a name share one vertex. The same texts give the same
vertices and edges, so that repeating an interrupted write completes it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from braid.models import MENTIONS, Kind, Relationship, Vertex
from braid.models.records import FOUND_PREFIX
from braid.ports.name_finder import FoundName, SourceText

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from braid.ingestion.given_entity_linking import NamedEntities
    from braid.models import EdgeId, Record
    from braid.ports.ingestion import WriteStore
    from braid.ports.knowledge_graph import WritableGraph
    from braid.ports.name_finder import FoundMention

_READ = frozenset({Kind.CHUNK, Kind.ENTITY, Kind.FACT, Kind.DECISION})
"""Kinds of record in whose texts names are looked for."""
_MAX_NAMES = 3_000
"""Most names of one write, the first ones: they occupy the embedded store's writer for half a second."""
NAMES_AT_ONCE = 1_000
"""Names that are removed in one transaction."""


class FoundNames(NamedTuple):
    """Names that were found in the records of a write, as vertices and edges."""

    vertices: dict[str, Vertex]
    edges: dict[EdgeId, Relationship]
    stale: list[Relationship]
    """Stored mentions that the records no longer have."""
    stored: dict[str, Vertex]
    """The stored versions of these vertices, by id."""


def found_id(key: str) -> str:
    """Return the id of the vertex of a found name, by the key of its spellings."""
    return FOUND_PREFIX + hashlib.sha256(key.encode()).hexdigest()[:20]


def find_names(
    records: Mapping[str, Record], named: NamedEntities, in_graph: Mapping[str, Vertex], store: WriteStore
) -> FoundNames:
    """Find the names in some records, and the stored mentions that these no longer have.

    A record of a kind that is not read for names has none.

    Parameters
    ----------
    records
        The records of a write, changed or not, by id.
    named
        Resolves names to given entities.
    in_graph
        Stored vertices that have the ids of these records.
    store
        Both stores, and the finder.
    """
    if not records:
        return FoundNames({}, {}, [], {})
    tenant_id = next(iter(records.values())).tenant_id
    found = _names_in([record for record in records.values() if record.kind in _READ], named, store)
    known = named.meant([name.meaning for name in found if name.entity_id is None])
    edges: dict[EdgeId, Relationship] = {}
    vertices: dict[str, Vertex] = {}
    for name in found:
        entity = name.entity_id or known.get(name.meaning) or found_id(name.meaning)
        mentions = [_mention(tenant_id, entity, each, records) for each in name.mentions if each.text_id != entity]
        for edge in mentions:
            key = edge.identity()
            if key not in edges or edges[key].confidence < edge.confidence:
                edges[key] = edge
        if mentions and entity.startswith(FOUND_PREFIX):
            vertices[entity] = Vertex(
                id=entity,
                tenant_id=tenant_id,
                entity_type=name.entity_type,
                name=name.name,
                found=True,
                trusted=any(edge.trusted for edge in mentions),
            )
    stored = {vertex.id: vertex for vertex in store.graph.get_many(tenant_id, sorted(vertices))}
    for identity, vertex in stored.items():
        # The first spelling stays when later texts have another; but a trusted text's replaces an untrusted one's.
        if vertex.trusted or not vertex.found or not vertices[identity].trusted:
            vertices[identity] = vertex
    return FoundNames(vertices, edges, stale_mentions(tenant_id, in_graph, records, edges, store), stored)


def delete_mentions(tenant_id: str, mentions: Sequence[Relationship], graph: WritableGraph) -> None:
    """Remove the mentions of one part of a change, and the found names that have no other edge.

    Names that only these mentions hold go with them, so that a call that breaks off is completed by repeating it.
    """
    graph.delete_only_mentioned(tenant_id, mentions)
    graph.delete_relationships(tenant_id, mentions)
    graph.delete_unmentioned(tenant_id, {edge.source for edge in mentions})


def _names_in(records: Sequence[Record], named: NamedEntities, store: WriteStore) -> list[FoundName]:
    """Return the names in some records, names in trusted texts first, at most :data:`_MAX_NAMES`.

    Trusted and untrusted texts are read separately, because the recognition, spelling and selection of names depend on
    all texts that are read together.
    """
    found: dict[str, FoundName] = {}
    for is_trusted in (True, False):
        if texts := _texts([record for record in records if record.trusted is is_trusted]):
            for name in store.name_finder.find(texts, named.in_texts(text.content for text in texts)):
                known = found.get(name.meaning)
                found[name.meaning] = name if known is None else known._replace(mentions=known.mentions + name.mentions)
    return list(found.values())[:_MAX_NAMES]


def _mention(tenant_id: str, entity: str, found: FoundMention, records: Mapping[str, Record]) -> Relationship:
    """Return the edge of a found mention: its text is its target and its evidence, and it is as trusted as that."""
    return Relationship.unchecked(
        tenant_id=tenant_id,
        source=entity,
        type=MENTIONS,
        target=found.text_id,
        confidence=found.confidence,
        evidence=found.text_id,
        position=found.position,
        trusted=records[found.text_id].trusted,
    )


def _texts(records: Sequence[Record]) -> list[SourceText]:
    """Return the records' texts, those of a document adjacent and in order."""
    documents: dict[str, list[Record]] = {}
    for record in records:
        documents.setdefault(record.document_id, []).append(record)
    return [
        SourceText(record.id, record.heading(), record.content, document)
        for document, parts in documents.items()
        for record in sorted(parts, key=lambda part: part.source.chunk_index or 0)
    ]


def stale_mentions(
    tenant_id: str,
    in_graph: Mapping[str, Vertex],
    records: Mapping[str, Record],
    edges: Collection[EdgeId],
    store: WriteStore,
) -> list[Relationship]:
    """Return the stored found mentions of some records that are not among ``edges``."""
    written = [identity for identity in in_graph if identity in records]
    if not written:
        return []
    return [edge for edge in store.graph.found_mentions(tenant_id, written) if edge.identity() not in edges]


def successors_of_names(tenant_id: str, named: NamedEntities, store: WriteStore) -> dict[str, str]:
    """Return the given entities that take over the mentions of stored found names, by the names' ids."""
    keys = {found_id(key): key for key in named.own_keys() if key}
    stored = [vertex.id for vertex in store.graph.get_many(tenant_id, sorted(keys))] if keys else []
    meant = named.meant([keys[name] for name in stored]) if stored else {}
    return {name: meant[keys[name]] for name in stored if keys[name] in meant and meant[keys[name]] != name}
