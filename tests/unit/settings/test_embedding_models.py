"""Which model embeds which question, from the shipped configuration and from malformed ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from braid.errors import ConfigurationError
from braid.models import EmbeddingType, TemporalContext, TimeRange
from braid.models.embedding_models import Profiles, embedded_text, models_of, resolve, space_of
from braid.settings.configuration_files import load_profiles

SHARED = Path(__file__).parents[3] / "shared"
ENTITY = "Represent the search query for retrieving relevant entities:"
TEMPORAL = "Represent the temporal query for retrieving time-relevant events:"
DOCUMENT = "Represent the query for retrieving relevant documents:"


@pytest.fixture(scope="module")
def profiles() -> Profiles:
    return load_profiles(SHARED)


@pytest.mark.parametrize("kind", list(EmbeddingType))
def test_minilm_serves_every_type_without_instructions(profiles: Profiles, kind: EmbeddingType) -> None:
    model = resolve(profiles, "minilm", kind)
    assert (model.id, model.dimension, model.max_tokens) == ("all-minilm-l6-v2", 384, 256)
    assert model.instruction(kind) == ""


def test_multilingual_is_the_one_profile_that_is_not_for_english_alone(profiles: Profiles) -> None:
    found = {name for name in profiles.profiles if not any(one.english_only for one in models_of(profiles, name))}
    assert found == {"multilingual"}
    assert {(one.dimension, one.max_tokens) for one in models_of(profiles, "multilingual")} == {(384, 128)}


@pytest.mark.parametrize(
    ("kind", "identity", "max_tokens", "memory", "latency", "instruction"),
    [
        (EmbeddingType.GENERAL, "instructor-large-entity", 512, 800, 150, ENTITY),
        (EmbeddingType.TEMPORAL, "instructor-temporal-event", 512, 800, 150, TEMPORAL),
        (EmbeddingType.CAUSAL, "instructor-temporal-event", 512, 800, 150, TEMPORAL),
        (EmbeddingType.CODE, "codebert-code", 512, 600, 120, ""),
        (EmbeddingType.DOCUMENT, "instructor-document", 2048, 1200, 300, DOCUMENT),
    ],
)
def test_instructor_has_a_model_for_each_type(
    profiles: Profiles,
    *,
    kind: EmbeddingType,
    identity: str,
    max_tokens: int,
    memory: int,
    latency: int,
    instruction: str,
) -> None:
    model = resolve(profiles, "instructor", kind)
    assert (model.id, model.dimension, model.max_tokens) == (identity, 768, max_tokens)
    assert (model.memory_mb, model.latency_ms, model.pooling) == (memory, latency, "mean")
    assert model.instruction(kind) == instruction


def test_a_forced_model_serves_every_type(profiles: Profiles) -> None:
    found = {resolve(profiles, "instructor", kind, "all-minilm-l6-v2").id for kind in EmbeddingType}
    assert found == {"all-minilm-l6-v2"}


def test_a_profile_lists_each_of_its_models_once(profiles: Profiles) -> None:
    assert [model.id for model in models_of(profiles, "instructor")] == [
        "instructor-large-entity",
        "instructor-temporal-event",
        "codebert-code",
        "instructor-document",
    ]
    assert [model.id for model in models_of(profiles, "instructor", "codebert-code")] == ["codebert-code"]


def test_an_unknown_model_or_profile_is_answered_with_the_known_ones(profiles: Profiles) -> None:
    with pytest.raises(ConfigurationError, match=r"BRAID_EMBEDDING_MODEL: unknown model 'gpt'.*auto.*codebert-code"):
        resolve(profiles, "minilm", EmbeddingType.GENERAL, "gpt")
    told = r"BRAID_MODEL_PROFILE: unknown profile 'big'.*moved to.*BRAID_SHARED_DIR.*instructor, minilm, multilingual"
    with pytest.raises(ConfigurationError, match=told):
        resolve(profiles, "big", EmbeddingType.GENERAL)


def test_every_model_has_a_space_of_its_own_that_is_a_field_name(profiles: Profiles) -> None:
    spaces = [space_of(model) for model in profiles.models]
    assert len(set(spaces)) == len(profiles.models)
    assert all(space.isidentifier() for space in spaces)
    assert space_of("all-minilm-l6-v2") == "all_minilm_l6_v2"


CONTEXT = TemporalContext(time_range=TimeRange(start="2024-01-01", end="2024-04-01"), relation="BEFORE")


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (CONTEXT, "deploys [Time: 2024-01-01 to 2024-04-01] [Relation: BEFORE]"),
        (TemporalContext(relation="AFTER"), "deploys [Relation: AFTER]"),
        (TemporalContext(time_range=TimeRange(start="2024-03-01T12:30")), "deploys [Time: since 2024-03-01T12:30:00Z]"),
        (TemporalContext(time_range=TimeRange(end="2024-03-01")), "deploys [Time: before 2024-03-01]"),
        (TemporalContext(time_range=TimeRange()), "deploys"),
        (None, "deploys"),
    ],
)
def test_a_temporal_question_is_embedded_with_what_is_known_of_its_time(
    profiles: Profiles, context: TemporalContext | None, expected: str
) -> None:
    model = resolve(profiles, "instructor", EmbeddingType.TEMPORAL)
    assert embedded_text("deploys", EmbeddingType.TEMPORAL, context, model) == expected


def test_another_question_is_embedded_as_it_is(profiles: Profiles) -> None:
    model = resolve(profiles, "instructor", EmbeddingType.GENERAL)
    assert embedded_text("deploys", EmbeddingType.GENERAL, CONTEXT, model) == "deploys"


def test_a_model_without_time_context_reads_the_question_alone(profiles: Profiles) -> None:
    assert embedded_text("deploys", EmbeddingType.TEMPORAL, CONTEXT, profiles.model("codebert-code")) == "deploys"


def write(folder: Path, **changes: Any) -> Path:
    content = json.loads((SHARED / "models" / "profiles.json").read_text(encoding="utf-8")) | changes
    (folder / "models").mkdir()
    (folder / "models" / "profiles.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


MODEL = {
    "id": "one",
    "base": "b",
    "dimension": 8,
    "max_tokens": 8,
    "quantised": False,
    "memory_mb": 1,
    "latency_ms": 1,
    "pooling": "mean",
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"profiles": {"p": {"general": "all-minilm-l6-v2"}}}, r"profiles\.p: no model for temporal, causal"),
        ({"profiles": {"p": dict.fromkeys(EmbeddingType, "absent")}}, r"profiles\.p: unknown model absent"),
        ({"models": [MODEL, MODEL], "profiles": {}}, "two have the same id"),
        ({"models": [MODEL | {"id": "a_b"}], "profiles": {}}, r"models\.0\.id"),
        ({"models": [MODEL | {"dimension": 0}], "profiles": {}}, r"models\.0\.dimension"),
        ({"extra": 1}, "extra"),
    ],
)
def test_malformed_configuration_names_its_field(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"profiles\.json: .*{message}"):
        load_profiles(write(tmp_path, **changes))


def test_missing_and_unreadable_configuration_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"profiles\.json: cannot be read .*BRAID_SHARED_DIR"):
        load_profiles(tmp_path)
    write(tmp_path)
    (tmp_path / "models" / "profiles.json").write_text("{", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"profiles\.json: not JSON"):
        load_profiles(tmp_path)
