"""Embed: turn the question into a vector of the model that the plan names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.errors import ModelError
from braid.models import Embedding
from braid.profiles import embedded_text
from braid.stages.states import Embedded, EmbedRequest
from braid.stages.timing import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from braid.engines.ports import Encoder
    from braid.profiles import ModelConfig


def run(
    request: EmbedRequest, *, model: ModelConfig, default: ModelConfig, encoder_for: Callable[[ModelConfig], Encoder]
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

    Raises
    ------
    ModelError
        If neither model can be loaded; the question is then answered by words alone.
    """
    watch = Stopwatch()
    plan, query = request.plan, request.query
    encoder, loaded = _first_that_loads([model, default], encoder_for)
    text = embedded_text(query.text, plan.embedding_type, query.temporal_context, loaded)
    (vector,) = encoder.encode([text], instruction=loaded.instruction(plan.embedding_type))
    embedding = Embedding(space=encoder.space, model_id=encoder.model_id, vector=vector)
    return Embedded(embedding=embedding, fallback=loaded.id != model.id, took_ms=watch.ms())


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
