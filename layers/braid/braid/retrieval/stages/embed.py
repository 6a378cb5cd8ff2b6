"""Embed stage: the question's vector, from the cache or the model that the plan names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.errors import ModelError
from braid.models import Embedding
from braid.models.model_profiles import embedded_text
from braid.retrieval.stages.states import Embedded, EmbedRequest, Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from braid.models.model_profiles import ModelConfig
    from braid.ports.encoder import Encoder
    from braid.retrieval.caches.namespace import EmbeddingCache


def run(
    request: EmbedRequest,
    *,
    model: ModelConfig,
    default: ModelConfig,
    encoder_for: Callable[[ModelConfig], Encoder],
    kept: EmbeddingCache | None = None,
) -> Embedded:
    """Return the question's vector.

    Parameters
    ----------
    request
        The question and its plan.
    model
        The model that the plan chose.
    default
        The model that stands in when that one cannot be loaded.
    encoder_for
        Loads a model.
    kept
        Cache of question vectors; with one by the chosen model, no model is loaded.

    Raises
    ------
    ModelError
        If neither model can be loaded; the question is then answered by words alone.
    """
    watch = Stopwatch()
    query = request.query
    text, instruction = _embedded(request, model)
    if kept and (found := kept.find(query.tenant_id, model, instruction=instruction, text=text)):
        return Embedded(embedding=found, took_ms=watch.ms())
    encoder, loaded = _first_that_loads([model, default], encoder_for)
    text, instruction = _embedded(request, loaded)
    (vector,) = encoder.encode([text], instruction=instruction)
    embedding = Embedding(space=encoder.space, model_id=encoder.model_id, vector=vector)
    if kept:
        kept.keep(query.tenant_id, embedding, instruction=instruction, text=text)
    return Embedded(embedding=embedding, fallback=loaded.id != model.id, took_ms=watch.ms())


def _embedded(request: EmbedRequest, model: ModelConfig) -> tuple[str, str]:
    """Return the text that a model embeds, and its instruction."""
    kind = request.plan.embedding_type
    text = embedded_text(request.query.text, kind, request.query.temporal_context, model)
    return text, model.instruction(kind)


def _first_that_loads(
    models: list[ModelConfig], encoder_for: Callable[[ModelConfig], Encoder]
) -> tuple[Encoder, ModelConfig]:
    chosen, standby = models
    try:
        return encoder_for(chosen), chosen
    except ModelError:
        if standby.id == chosen.id:
            raise
        return encoder_for(standby), standby
