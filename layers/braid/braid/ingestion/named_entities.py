"""Which given entity a name in a text means: the same one whatever was written first, the text or the entity."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from braid.models import GraphSource, Kind
from braid.models.records import DOCUMENT_TYPE
from braid.understanding.name_finding import name_key
from braid.understanding.tokens import normalise

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from braid.models import Record, Vertex
    from braid.ports.ingestion import WriteStore

NAMES_AT_ONCE = 1_000
"""Names that are looked up, or removed in one transaction, together."""
_ARTICLES = ("", "the ", "a ", "an ")
"""What a name may begin with that its key does not."""
_NAME, _NAME_WITH_ARTICLE, _ALIAS = range(3)
"""How an entity is called by a name, the best first."""


class NamedEntity(NamedTuple):
    """A trusted entity that was given, with its names."""

    id: str
    name: str | None
    aliases: Sequence[str]

    def ranks(self) -> Iterator[tuple[str, int]]:
        """Yield the key of each of its names, and how it is called by it."""
        if self.name:
            key = name_key(self.name)
            yield key, _NAME if normalise(self.name) == key else _NAME_WITH_ARTICLE
        for alias in self.aliases:
            yield name_key(alias), _ALIAS


class NamedEntities:
    """Tells which entity a name means: the only one that is called so.

    A name counts before a name with an article, and that before an alias. What several are called alike means none of
    them. Neither an entity that is not trusted nor the vertex of a text is meant, and none where what is given is left
    out.

    Parameters
    ----------
    written
        Trusted entities of the write.
    ids
        All ids of the write: what is stored under these is replaced.
    store
        Both stores.
    """

    def __init__(self, tenant_id: str, written: Sequence[NamedEntity], ids: Collection[str], store: WriteStore) -> None:
        self._tenant_id, self._ids, self._store = tenant_id, ids, store
        self._written = () if store.graph_source is GraphSource.FOUND else written
        self.own = self.meant([key for one in self._written for key, _ in one.ranks()])
        """Ids of entities by the keys of the names that the write gives, where these mean one."""

    def names(self) -> dict[str, str]:
        """Return the keys of the names that the write gives, by these names in the form in which they are looked up."""
        given = [name for one in self._written for name in (one.name, *one.aliases) if name]
        return {normal: name_key(name) for name in given if (normal := normalise(name))}

    def meant(self, keys: Collection[str]) -> dict[str, str]:
        """Return the ids of the entities that names mean, by the keys of these names."""
        if self._store.graph_source is GraphSource.FOUND:
            return {}
        called: dict[str, dict[str, int]] = {key: {} for key in keys if key}
        for one in (*self._written, *self._stored(sorted(called))):
            for key, rank in one.ranks():
                if key in called:
                    called[key][one.id] = min(rank, called[key].get(one.id, rank))
        meant: dict[str, str] = {}
        for key, ranks in called.items():
            best = min(ranks.values(), default=None)
            bearers = [identity for identity, rank in ranks.items() if rank == best]
            if len(bearers) == 1:
                meant[key] = bearers[0]
        return meant

    def _stored(self, keys: Sequence[str]) -> Iterator[NamedEntity]:
        """Yield the stored entities, apart from those of the write, that have one of these names."""
        for start in range(0, len(keys), NAMES_AT_ONCE):
            phrases = [article + key for key in keys[start : start + NAMES_AT_ONCE] for article in _ARTICLES]
            links = self._store.graph.link(
                self._tenant_id, phrases, as_of=self._store.now(), limit=4 * NAMES_AT_ONCE, trusted_only=True
            )
            linked = [link.entity_id for link in links if link.entity_id not in self._ids]
            for vertex in self._store.graph.get_many(self._tenant_id, linked):
                if not vertex.found and not (vertex.has_record and vertex.entity_type == DOCUMENT_TYPE):
                    yield NamedEntity(vertex.id, vertex.name, vertex.aliases)


def named_entities(
    vertices: Iterable[Vertex], records: Mapping[str, Record], in_graph: Mapping[str, Vertex]
) -> list[NamedEntity]:
    """Return the trusted entities of a write: its vertices, and its records of entities; not the vertices of texts.

    Parameters
    ----------
    vertices, records
        Those of the write.
    in_graph
        Stored vertices by id: the record of one that has one decides whether it is trusted.
    """
    found: dict[str, NamedEntity] = {}
    for record in records.values():
        if record.kind is Kind.ENTITY and record.trusted and record.entity_type != DOCUMENT_TYPE:
            found[record.id] = NamedEntity(record.id, record.heading() or None, record.aliases)
    for vertex in vertices:
        stored = in_graph.get(vertex.id)
        record = records.get(vertex.id) or (stored if stored is not None and stored.has_record else None)
        is_title = record is not None and vertex.entity_type == DOCUMENT_TYPE
        if (record or vertex).trusted and not is_title:
            found[vertex.id] = NamedEntity(vertex.id, vertex.name, vertex.aliases)
        else:
            found.pop(vertex.id, None)
    return list(found.values())
