"""Links names in the texts of a write to given entities, whether the text or the entity was written first.

Found names become vertices, one for each name, in :mod:`braid.ingestion.entities_found_in_texts`. Names in a question
are linked to entities by :mod:`braid.retrieval.stages.name_linking`.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from braid.models import GraphSource, Kind
from braid.models.records import DOCUMENT_TYPE
from braid.ports.batches import batches
from braid.ports.name_finder import GIVEN
from braid.understanding.given_names_in_texts import phrases_in
from braid.understanding.name_patterns import name_key, without_article
from braid.understanding.tokens import normalise

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from braid.models import Record, Vertex
    from braid.ports.ingestion import WriteStore
    from braid.ports.knowledge_graph import GivenName

MAX_PHRASES = 100_000
"""Phrases of the texts of one write that are looked up among given names."""
_AT_ONCE = 4_000
"""Phrases that are looked up together."""
_ARTICLES = ("", "the ", "a ", "an ")
"""Articles that a name may begin with, but its key does not."""
_NAME, _NAME_WITH_ARTICLE, _ALIAS = range(3)
"""Ranks of the match between a name and an entity, the best first."""


class NamedEntity(NamedTuple):
    """A trusted entity that was given, with its names."""

    id: str
    name: str | None
    aliases: Sequence[str]

    def ranks(self) -> Iterator[tuple[str, int]]:
        """Yield the key of each of its names, with the rank of a match by it."""
        if self.name:
            yield _ranked(normalise(self.name), is_alias=False)
        for alias in self.aliases:
            yield _ranked(normalise(alias), is_alias=True)


def _ranked(name: str, *, is_alias: bool) -> tuple[str, int]:
    """Return the key of a normalised name, with the rank of a match by it."""
    key = without_article(name)
    return key, _ALIAS if is_alias else _NAME if name == key else _NAME_WITH_ARTICLE


class NamedEntities:
    """Resolves names to entities: a name means the only entity that has it.

    Matches are ranked: a name first, then a name with an article, then an alias. If several entities share the best
    rank, the name is linked to none. Untrusted entities and the vertices of texts are never linked, and no entity is if
    given entities are left out of the graph.

    Parameters
    ----------
    written
        Trusted entities of the write.
    ids
        All ids of the write: stored vertices with these are replaced.
    store
        Both stores.
    """

    def __init__(self, tenant_id: str, written: Sequence[NamedEntity], ids: Collection[str], store: WriteStore) -> None:
        self._tenant_id, self._ids, self._store = tenant_id, ids, store
        self._written = () if store.graph_source is GraphSource.FOUND else written

    def own_keys(self) -> list[str]:
        """Return the keys of the names that the write gives."""
        return [key for one in self._written for key, _ in one.ranks()]

    def in_texts(self, texts: Iterable[str]) -> dict[str, str]:
        """Return the given names to find in some texts, however they are spelt there, with their meanings.

        These are all names of the write's entities, and the stored entities' names of several words or without case.
        Keys of the result are normalised names; values are meanings as in :class:`~braid.ports.name_finder.FoundName`.
        """
        written = [name for one in self._written for name in (one.name, *one.aliases) if name]
        names = {normal: name_key(name) for name in written if (normal := normalise(name))}
        if self._store.graph_source is not GraphSource.FOUND:
            phrases = dict.fromkeys(islice(chain.from_iterable(map(phrases_in, texts)), MAX_PHRASES))
            names |= {one.name: without_article(one.name) for one in self._stored(list(phrases))}
        meant = self.meant(set(names.values()))
        return {name: GIVEN + meant[key] if key in meant else key for name, key in names.items()}

    def meant(self, keys: Collection[str]) -> dict[str, str]:
        """Return the ids of the entities that names mean, by the keys of these names."""
        if self._store.graph_source is GraphSource.FOUND:
            return {}
        called: dict[str, dict[str, int]] = {key: {} for key in keys if key}
        asked = [article + key for key in sorted(called) for article in _ARTICLES]
        written = ((one.id, *ranked) for one in self._written for ranked in one.ranks())
        stored = ((one.entity_id, *_ranked(one.name, is_alias=one.is_alias)) for one in self._stored(asked))
        for identity, key, rank in chain(written, stored):
            if key in called:
                called[key][identity] = min(rank, called[key].get(identity, rank))
        meant: dict[str, str] = {}
        for key, ranks in called.items():
            best = min(ranks.values(), default=None)
            bearers = [identity for identity, rank in ranks.items() if rank == best]
            if len(bearers) == 1:
                meant[key] = bearers[0]
        return meant

    def _stored(self, names: Sequence[str]) -> Iterator[GivenName]:
        """Yield those of these normalised names that stored entities have, except those of the write."""
        for asked in batches(names, _AT_ONCE):
            found = self._store.graph.given_names(self._tenant_id, asked, as_of=self._store.now(), limit=2 * _AT_ONCE)
            yield from (one for one in found if one.entity_id not in self._ids)


def named_entities(
    vertices: Iterable[Vertex], records: Mapping[str, Record], in_graph: Mapping[str, Vertex]
) -> list[NamedEntity]:
    """Return the trusted entities of a write: its vertices, and its records of entities; not the vertices of texts.

    ==============================  =========================================================================
    A record of an entity           with its name and aliases, or those of its stored vertex if it is trusted
    A vertex                        with its own name and aliases, also if it has such a record
    A vertex of a text's record     is no entity
    ==============================  =========================================================================

    Parameters
    ----------
    vertices, records
        The write's vertices and records.
    in_graph
        Stored vertices by id. A vertex is as trusted as its record, in the write or stored.
    """
    found: dict[str, NamedEntity] = {}
    for record in records.values():
        if record.kind is Kind.ENTITY and record.trusted and record.entity_type != DOCUMENT_TYPE:
            stored = in_graph.get(record.id)  # a name or aliases that only a trusted stored vertex has are kept
            stored = stored if stored and stored.trusted else None
            name = record.heading() or (stored.name if stored else None)
            found[record.id] = NamedEntity(record.id, name, record.aliases or (stored.aliases if stored else ()))
    for vertex in vertices:
        stored = in_graph.get(vertex.id)
        described = records.get(vertex.id) or (stored if stored is not None and stored.has_record else None)
        is_title = described is not None and vertex.entity_type == DOCUMENT_TYPE
        if (described or vertex).trusted and not is_title:
            found[vertex.id] = NamedEntity(vertex.id, vertex.name, vertex.aliases)
        else:
            found.pop(vertex.id, None)
    return list(found.values())


def stored_entities(ids: Iterable[str], in_graph: Mapping[str, Vertex]) -> list[NamedEntity]:
    """Return those of some entities that are stored and trusted."""
    stored = (in_graph[name] for name in ids if name in in_graph)
    return [NamedEntity(one.id, one.name, one.aliases) for one in stored if one.trusted and not one.found]
