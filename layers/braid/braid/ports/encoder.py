"""Ports of the models: encoders and rerankers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence


@runtime_checkable
class Encoder(Protocol):
    """An embedding model: texts to vectors."""

    model_id: str
    space: str
    dimension: int
    max_tokens: int
    """Most tokens of a text that it reads, not counting its special tokens."""

    def encode(self, texts: Sequence[str], *, instruction: str = "") -> list[bytes]:
        """Return one L2-normalised vector per text, as little-endian float32 bytes, in the order of ``texts``."""

    def token_ends(self, text: str) -> Sequence[int]:
        """Return the character offset at which each token of a text ends, without special tokens."""


@runtime_checkable
class Reranker(Protocol):
    """A model that scores a question and a text together, such as a cross-encoder."""

    name: str

    def cost_usd(self, query: str, texts: Sequence[str]) -> float:
        """Return the estimated price in US dollars of one :meth:`rerank` call; 0 for a local model."""

    def rerank(self, query: str, texts: Sequence[str], *, timeout_s: float) -> list[float]:
        """Return one score in [0, 1] per text, in the order of ``texts``.

        Raises RerankFailed if it fails or needs more than ``timeout_s`` seconds.
        """
