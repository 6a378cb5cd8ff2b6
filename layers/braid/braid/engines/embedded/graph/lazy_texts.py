"""Texts of a graph that are read on access: from a mapped file, or from a loaded graph and its overlay.

A question needs the texts of few of the vertices and edges that it walks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from braid.engines.embedded.graph.adjacency import Numbers

_T = TypeVar("_T")
_EVERY: Final = 64
"""Distance between the ids that are kept in memory as an index for the binary search."""


class MappedTexts(Sequence[str]):
    """A sequence of texts in one UTF-8 buffer, decoded on access."""

    def __init__(self, begins: NDArray[np.int64], content: NDArray[np.uint8], count: int) -> None:
        self._begins, self._content, self._count = begins.data, content.data, count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(self._count))

    def __getitem__(self, place: Any) -> Any:  # noqa: ANN401 - of a place a text; nobody asks for a slice
        return str(self._content[self._begins[place] : self._begins[place + 1]], "utf-8")


class CodedTexts(Sequence[Any]):
    """A sequence of texts, given as indexes into :class:`MappedTexts`; a negative index is None."""

    def __init__(self, texts: MappedTexts, codes: NDArray[np.int32]) -> None:
        self._texts, self._codes = texts, codes.data

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, place: Any) -> Any:  # noqa: ANN401 - as of texts
        code = self._codes[place]
        return None if code < 0 else self._texts[code]


class SortedIndices(Mapping[str, int]):
    """The index of each id in a sorted sequence of ids, found by binary search."""

    def __init__(self, ids: MappedTexts) -> None:
        self._ids = ids
        self._some = [ids[place] for place in range(0, len(ids), _EVERY)]

    def __getitem__(self, identity: str) -> int:
        after = bisect_right(self._some, identity) * _EVERY
        end = min(after, len(self._ids))
        place = bisect_left(self._ids, identity, max(0, after - _EVERY), end)
        if place == end or self._ids[place] != identity:
            raise KeyError(identity)
        return place

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)


class OverlaidTexts(Sequence[_T]):
    """Texts of vertices or edges of a graph and its overlay, read on access.

    Parameters
    ----------
    places
        The index of each among the loaded graph's texts followed by the overlay's.
    """

    def __init__(self, loaded: Sequence[_T], overlay: Sequence[_T], places: Numbers) -> None:
        self._loaded, self._overlay, self._places = loaded, overlay, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401 - of an index a text; nobody asks for a slice
        place, size = self._places.item(index), len(self._loaded)
        return self._loaded[place] if place < size else self._overlay[place - size]


class SubgraphIndices(Mapping[str, int]):
    """The index of each id in a subgraph.

    Parameters
    ----------
    number_of
        Returns the number that a vertex has in the followed graph; None if it is not there.
    numbers
        Numbers of the subgraph's vertices in the followed graph, sorted.
    indices
        Their indices in the subgraph.
    """

    def __init__(
        self, ids: Sequence[str], number_of: Callable[[str], int | None], numbers: Numbers, indices: Numbers
    ) -> None:
        self._ids, self._number_of, self._numbers, self._indices = ids, number_of, numbers, indices

    def __getitem__(self, identity: str) -> int:
        number = self._number_of(identity)
        at = len(self) if number is None else int(self._numbers.searchsorted(number))
        if at == len(self) or self._numbers[at] != number:
            raise KeyError(identity)
        return self._indices.item(at)

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)
