"""Neighbourhood of a question's seeds as NumPy arrays: engines gather it, and propagation ranks it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from braid.models import MENTIONS
from braid.models.records import DOCUMENT_TYPE
from braid.ranking.graph_queries_and_facts import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from braid.ranking.graph_queries_and_facts import StoredEdge

    Numbers = NDArray[np.int64]
    Scores = NDArray[np.float64]
    Mask = NDArray[np.bool_]


def group_begins(groups: Numbers) -> Numbers:
    """Return the index of the first element of each run of equal values."""
    begins = np.ones(len(groups), dtype=np.bool_)
    np.not_equal(groups[1:], groups[:-1], out=begins[1:])
    return np.flatnonzero(begins)


def distinct(numbers: Numbers) -> Numbers:
    """Return the sorted distinct values, as ``np.unique`` does, but without its import of masked arrays."""
    ordered = np.sort(numbers)
    return ordered[group_begins(ordered)]


def are_among(numbers: Numbers, ordered: Numbers) -> Mask:
    """Return a mask of the numbers that are in a sorted array; faster than ``np.isin`` where that is short."""
    if not len(ordered):
        return np.zeros(len(numbers), dtype=np.bool_)
    places = np.minimum(np.searchsorted(ordered, numbers), len(ordered) - 1)
    among: Mask = ordered[places] == numbers
    return among


class Neighbourhood(NamedTuple):
    """The vertices and edges around a request's seeds, as arrays with one value a vertex, or an edge.

    Vertices are numbered in the order of their ids, edges in the order of their identities, so that equal
    neighbourhoods give equal answers on every engine.
    """

    ids: Sequence[str]
    """Sorted."""
    place: Callable[[str], int | None]
    """Returns a vertex's index in ``ids``; None if it is not among them."""
    has_record: Mask
    is_page: Mask
    """Whether each vertex is a document's text, and not the description of an entity."""
    sources: Numbers
    """Indices in ``ids``."""
    targets: Numbers
    confidence: Scores
    mentions: Mask
    """Whether each edge is a mention."""
    found: Mask
    """Whether each edge was found in a text, and not given."""
    same_name: Mask
    """Whether both endpoints of each edge have the same name, apart from case."""
    nodes: Callable[[Sequence[int]], Sequence[Node]]
    """Returns vertices by their indices."""
    edges: Callable[[Sequence[int]], Sequence[StoredEdge]]
    """Returns edges by their indices."""
    truncated: bool
    """Whether a seed had more edges than the budget."""

    @classmethod
    def of(cls, nodes: Mapping[str, Node], edges: Sequence[StoredEdge], *, truncated: bool) -> Neighbourhood:
        """Return the neighbourhood of some vertices by id, and edges between them in the order of their identities."""
        ids = sorted(nodes)
        place = {identity: number for number, identity in enumerate(ids)}
        return cls(
            ids=ids,
            place=place.get,
            has_record=np.array([nodes[identity].has_record for identity in ids], dtype=np.bool_),
            is_page=np.array([_is_page(nodes[identity]) for identity in ids], dtype=np.bool_),
            sources=np.array([place[edge.source] for edge in edges], dtype=np.int64),
            targets=np.array([place[edge.target] for edge in edges], dtype=np.int64),
            confidence=np.array([edge.confidence for edge in edges], dtype=np.float64),
            mentions=np.array([edge.type == MENTIONS for edge in edges], dtype=np.bool_),
            found=np.array([edge.found for edge in edges], dtype=np.bool_),
            same_name=np.array([_is_same(nodes[edge.source], nodes[edge.target]) for edge in edges], dtype=np.bool_),
            nodes=lambda places: [nodes[ids[vertex]] for vertex in places],
            edges=lambda places: [edges[edge] for edge in places],
            truncated=truncated,
        )

    def with_records(self, identities: Iterable[str]) -> Neighbourhood:
        """Return the neighbourhood with the records that it lacks added, as vertices without edges."""
        alone = {identity for identity in identities if self.place(identity) is None}
        if not alone:
            return self
        ids = sorted([*self.ids, *alone])
        known = np.array([identity not in alone for identity in ids], dtype=np.bool_)
        moved, before = np.flatnonzero(known), np.cumsum(known) - 1
        has_record, is_page = np.ones(len(ids), dtype=np.bool_), np.zeros(len(ids), dtype=np.bool_)
        has_record[moved], is_page[moved] = self.has_record, self.is_page

        def nodes(places: Sequence[int]) -> list[Node]:
            read = iter(self.nodes([before.item(vertex) for vertex in places if known[vertex]]))
            return [next(read) if known[vertex] else _without_vertex(ids[vertex]) for vertex in places]

        return self._replace(
            ids=ids,
            place={identity: place for place, identity in enumerate(ids)}.get,
            has_record=has_record,
            is_page=is_page,
            sources=moved[self.sources],
            targets=moved[self.targets],
            nodes=nodes,
        )


def _without_vertex(record_id: str) -> Node:
    return Node(record_id, "Concept", has_record=True, timestamp=None, name=None)


def _is_page(node: Node) -> bool:
    return node.has_record and node.entity_type == DOCUMENT_TYPE


def _is_same(one: Node, other: Node) -> bool:
    return one.name is not None and other.name is not None and one.name.casefold() == other.name.casefold() != ""
