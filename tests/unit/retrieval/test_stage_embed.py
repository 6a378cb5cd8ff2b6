"""The embed stage makes one vector with the model of the plan, or with the default model and says so."""

from __future__ import annotations

from typing import Any

import pytest
from braid.errors import ModelMissing, TransientStoreError
from braid.models import EmbeddingType, Plan, Query, TemporalContext, TimeRange
from braid.models.embedding_models import ModelConfig
from braid.retrieval.stages import plan_and_search
from braid.retrieval.stages.stage_messages import Embedded, EmbedRequest

from tests.fakes import FakeEncoder, plan, query

TELL = "Represent the temporal query:"


def model(identity: str, **fields: Any) -> ModelConfig:
    defaults: dict[str, Any] = {
        "id": identity,
        "base": "maker/model",
        "dimension": 2,
        "max_tokens": 256,
        "quantised": False,
        "memory_mb": 100,
        "latency_ms": 10,
        "pooling": "mean",
    }
    return ModelConfig(**defaults | fields)


CHOSEN = model("chosen-model", instructions={EmbeddingType.TEMPORAL: TELL})
DEFAULT = model("default-model")


class Models:
    """Encoders by model, of which some are missing; keeps which were loaded."""

    def __init__(self, **missing: Exception) -> None:
        self.missing = missing
        self.loaded: list[str] = []
        self.encoders: dict[str, FakeEncoder] = {}

    def __call__(self, wanted: ModelConfig) -> FakeEncoder:
        self.loaded.append(wanted.id)
        if error := self.missing.get(wanted.id.removesuffix("-model")):
            raise error
        return self.encoders.setdefault(wanted.id, FakeEncoder(wanted.id))


def run(models: Models, asked: Query | None = None, made: Plan | None = None, chosen: ModelConfig = CHOSEN) -> Embedded:
    request = EmbedRequest(query=asked or query(), plan=made or plan())
    return plan_and_search.run_embed(request, model=chosen, default=DEFAULT, encoder_for=models)


def test_the_vector_is_of_the_plans_model_and_its_space() -> None:
    models = Models()
    embedded = run(models)
    assert (embedded.embedding.model_id, embedded.embedding.space) == ("chosen-model", "chosen_model")
    assert embedded.embedding.dimension == 2
    assert embedded.fallback is False
    assert embedded.took_ms >= 0
    assert models.loaded == ["chosen-model"]
    assert models.encoders["chosen-model"].encoded == [(("scanner lockout",), "")]


def test_a_model_that_cannot_be_loaded_falls_back_to_the_default_and_says_so() -> None:
    models = Models(chosen=ModelMissing("no such folder"))
    embedded = run(models)
    assert embedded.fallback is True
    assert (embedded.embedding.model_id, embedded.embedding.space) == ("default-model", "default_model")


def test_without_any_model_the_error_says_which_is_missing() -> None:
    with pytest.raises(ModelMissing, match="the default"):
        run(Models(chosen=ModelMissing("the chosen"), default=ModelMissing("the default")))


def test_a_default_model_that_is_missing_is_not_tried_twice() -> None:
    models = Models(default=ModelMissing("gone"))
    with pytest.raises(ModelMissing, match="gone"):
        run(models, chosen=DEFAULT)
    assert models.loaded == ["default-model"]


def test_a_service_that_is_slow_is_tried_again_and_not_replaced() -> None:
    models = Models(chosen=TransientStoreError("slow"))
    with pytest.raises(TransientStoreError):
        run(models)
    assert models.loaded == ["chosen-model"]


def test_a_temporal_question_is_embedded_with_its_time_relation_and_instruction() -> None:
    models = Models()
    context = TemporalContext(time_range=TimeRange(start="2024-01-01", end="2024-02-01"), relation="BEFORE")
    run(models, query(temporal_context=context), plan(embedding_type=EmbeddingType.TEMPORAL))
    text = "scanner lockout [Time: 2024-01-01 to 2024-02-01] [Relation: BEFORE]"
    assert models.encoders["chosen-model"].encoded == [((text,), TELL)]


def test_the_instruction_is_that_of_the_model_that_embeds() -> None:
    models = Models(chosen=ModelMissing("gone"))
    run(models, made=plan(embedding_type=EmbeddingType.TEMPORAL))
    assert models.encoders["default-model"].encoded == [(("scanner lockout",), "")]
