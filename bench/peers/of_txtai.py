"""txtai: dense and hybrid indexes, in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asked import TOP, Given, measure
from txtai import Embeddings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def build(given: Given) -> Mapping[str, Callable[[int], Sequence[str]]]:
    """Index the passages twice."""
    rows = list(zip(given.ids, given.texts, [None] * len(given.ids), strict=True))

    def transform(texts: Sequence[str]) -> Any:  # noqa: ANN401 - an array; txtai takes no bound method
        return given.encode(texts)

    def way(*, hybrid: bool) -> Callable[[int], Sequence[str]]:
        index = Embeddings(method="external", transform=transform, hybrid=hybrid, content=False)
        index.index(rows)
        return lambda number: [str(found) for found, _ in index.search(given.questions[number], TOP)]

    return {"vectors": way(hybrid=False), "vectors and words": way(hybrid=True)}


if __name__ == "__main__":
    measure("txtai", build)
