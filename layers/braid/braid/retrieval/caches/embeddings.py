"""Vectors of questions that were asked before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from braid.models import Embedding
from braid.models.model_profiles import space_of
from braid.retrieval.caches.namespace import KEY_DIGITS, key_of

if TYPE_CHECKING:
    from braid.models.model_profiles import ModelConfig
    from braid.retrieval.caches.namespace import Shelf


class EmbeddingCache:
    """A tenant's embedded questions, by model, instruction and text. They do not depend on what is stored."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def find(self, tenant_id: str, model: ModelConfig, *, instruction: str, text: str) -> Embedding | None:
        """Return the vector that this model made of the text, None when it is not kept."""

        def read(value: bytes) -> Embedding | None:
            try:
                kept = Embedding.model_validate_json(value)
            except ValidationError:
                return None
            own = (kept.model_id, kept.space, kept.dimension) == (model.id, space_of(model), model.dimension)
            return kept if own else None

        return self._shelf.find(tenant_id, embedding_key(model.id, instruction, text), read)

    def keep(self, tenant_id: str, embedding: Embedding, *, instruction: str, text: str) -> None:
        """Keep a vector."""
        key = embedding_key(embedding.model_id, instruction, text)
        self._shelf.keep(tenant_id, key, embedding.model_dump_json().encode())


def embedding_key(model_id: str, instruction: str, text: str) -> str:
    """Return the first 16 hexadecimal digits of SHA-256 over model, instruction and text."""
    return key_of(model_id, instruction, text, digits=KEY_DIGITS)
