"""Port of a reranker: a model that scores a question and each candidate's text together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence


@runtime_checkable
class Reranker(Protocol):
    """A model that reads question and text together."""

    name: str

    def cost_usd(self, query: str, texts: Sequence[str]) -> float:
        """Return the estimated price in US dollars of one such call; 0 for a model of one's own."""

    def rerank(self, query: str, texts: Sequence[str], *, timeout_s: float) -> list[float]:
        """Return one score in [0, 1] a text, in the order of ``texts``.

        Raises
        ------
        RerankFailed
            If it fails or needs more than ``timeout_s`` seconds.
        """
