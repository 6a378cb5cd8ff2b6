"""Ports of the models: encoders and rerankers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence


@runtime_checkable
class Encoder(Protocol):
    """A model that makes vectors."""

    model_id: str
    space: str
    dimension: int
    max_tokens: int
    """Tokens of a text that it reads, those that it adds itself left out."""

    def encode(self, texts: Sequence[str], *, instruction: str = "") -> list[bytes]:
        """Return one L2-normalised vector a text, as little-endian float32 bytes, in the order of ``texts``."""

    def token_ends(self, text: str) -> Sequence[int]:
        """Return the character at which each token of a text ends, without those that the encoder adds itself."""


@runtime_checkable
class Reranker(Protocol):
    """A model that reads question and text together."""

    name: str

    def cost_usd(self, query: str, texts: Sequence[str]) -> float:
        """Return the estimated price in US dollars of one such call; 0 for a model of one's own."""

    def rerank(self, query: str, texts: Sequence[str], *, timeout_s: float) -> list[float]:
        """Return one score in [0, 1] a text, in the order of ``texts``.

        Raises RerankFailed if it fails or needs more than ``timeout_s`` seconds.
        """
