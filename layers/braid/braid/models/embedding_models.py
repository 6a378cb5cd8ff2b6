"""Model configurations, and the model profiles that choose one for each type of question.

They are configured in ``models/profiles.json`` of the shared folder, which :mod:`braid.settings.configuration_files`
reads. Nothing here loads a model. :mod:`braid.opened_models` finds the active profile, and the model that a request or
the settings force; :mod:`braid.understanding.intent` detects questions about code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field, StringConstraints, model_validator

from braid.errors import ConfigurationError
from braid.models.enums_and_scalars import EmbeddingType, Frozen

if TYPE_CHECKING:
    from datetime import datetime

    from braid.models.query import TemporalContext, TimeRange

AUTO = "auto"
"""Value of ``BRAID_EMBEDDING_MODEL`` with which the type of a question selects the model."""

ModelId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64)]
"""Lower-case words joined by single hyphens, so that an id is a folder name and, with underscores, a field name."""


class ModelConfig(Frozen):
    """Configuration of one embedding model: its weights, budgets, and instructions that precede a question."""

    id: ModelId
    base: str
    """Hub id of the weights."""
    revision: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")] | None = None
    """Commit on the hub that the weights are taken from, so that an export is of the same weights each time."""
    checkpoint: bool = False
    """Whether its weights are published as a PyTorch checkpoint only, which an image's build then reads."""
    weights_mb: Annotated[int, Field(ge=1)] | None = None
    """Size of its weights at full precision, from which a function's memory is derived."""
    dimension: Annotated[int, Field(ge=1)]
    max_tokens: Annotated[int, Field(ge=8)]
    quantised: bool
    memory_mb: Annotated[int, Field(ge=1)]
    """Memory budget of the process that holds it."""
    latency_ms: Annotated[int, Field(ge=1)]
    """Latency budget of one short question, once the model is loaded."""
    pooling: str
    english_only: bool = False
    """Whether it was trained on English texts alone, so that its recall is low in other languages."""
    time_context: bool = True
    """Whether a temporal question's time and relation are part of the embedded text."""
    instructions: dict[EmbeddingType, str] = Field(default_factory=dict)

    def instruction(self, embedding_type: EmbeddingType) -> str:
        """Return the instruction for a question of this type, empty for a model without instructions."""
        return self.instructions.get(embedding_type, "")


class Profiles(Frozen):
    """Every configured model, and the profiles: for each embedding type, the id of its model."""

    models: tuple[ModelConfig, ...]
    profiles: dict[str, dict[EmbeddingType, ModelId]]

    @model_validator(mode="after")
    def _profiles_name_known_models(self) -> Profiles:
        known = [model.id for model in self.models]
        if len(set(known)) != len(known):
            raise ValueError("models: two have the same id")
        for name, chosen in self.profiles.items():
            if missing := [str(kind) for kind in EmbeddingType if kind not in chosen]:
                raise ValueError(f"profiles.{name}: no model for {', '.join(missing)}")
            if unknown := sorted(set(chosen.values()) - set(known)):
                raise ValueError(f"profiles.{name}: unknown model {', '.join(unknown)}")
        return self

    def spaces(self) -> dict[str, ModelConfig]:
        """Return every embedding space that may have vectors, with its model."""
        return {space_of(model): model for model in self.models}

    def dimensions(self) -> dict[str, int]:
        """Return the length of the vectors of every embedding space."""
        return {space: model.dimension for space, model in self.spaces().items()}

    def model(self, model_id: str) -> ModelConfig:
        """Return the configuration of a model.

        Raises ConfigurationError if there is no such model; the message names the known ones.
        """
        for model in self.models:
            if model.id == model_id:
                return model
        known = ", ".join(sorted(model.id for model in self.models))
        raise ConfigurationError(f"BRAID_EMBEDDING_MODEL: unknown model {model_id!r}; known are {AUTO}, {known}")


def resolve(profiles: Profiles, profile: str, embedding_type: EmbeddingType, forced_model: str = AUTO) -> ModelConfig:
    """Choose the model that embeds a question: the forced one, or where that is ``auto`` the profile's for its type.

    Raises ConfigurationError if the profile or the model is unknown; the message names the known ones.
    """
    if forced_model != AUTO:
        return profiles.model(forced_model)
    chosen = profiles.profiles.get(profile)
    if chosen is None:
        known = ", ".join(sorted(profiles.profiles))
        raise ConfigurationError(
            f"BRAID_MODEL_PROFILE: unknown profile {profile!r}, of this setting or that the index was moved to; "
            f"the file models/profiles.json of BRAID_SHARED_DIR has {known}"
        )
    return profiles.model(chosen[embedding_type])


def models_of(profiles: Profiles, profile: str, forced_model: str = AUTO) -> tuple[ModelConfig, ...]:
    """Return the distinct models that serve a profile, in the order of the embedding types.

    Raises ConfigurationError as :func:`resolve`.
    """
    chosen = [resolve(profiles, profile, kind, forced_model) for kind in EmbeddingType]
    return tuple({model.id: model for model in chosen}.values())


def space_of(model: ModelConfig | str) -> str:
    """Return the embedding space of a model or model id: its id as a field name. Two ids never share a space."""
    model_id = model if isinstance(model, str) else model.id
    return model_id.replace("-", "_")


def embedded_text(
    query_text: str, embedding_type: EmbeddingType, temporal_context: TemporalContext | None, model: ModelConfig
) -> str:
    """Return the text to embed for a question: with its time and relation, if it is temporal and the model takes them.

    The form is ``{query} [Time: {time_range}] [Relation: {relation}]``; a part that is not known is left out.
    """
    if embedding_type is not EmbeddingType.TEMPORAL or temporal_context is None or not model.time_context:
        return query_text
    parts = [query_text]
    if temporal_context.time_range is not None and (described := _describe(temporal_context.time_range)):
        parts.append(f"[Time: {described}]")
    if temporal_context.relation is not None:
        parts.append(f"[Relation: {temporal_context.relation}]")
    return " ".join(parts)


def _describe(time_range: TimeRange) -> str:
    """Return an interval in words; the end is exclusive."""
    if time_range.start and time_range.end:
        return f"{_moment(time_range.start)} to {_moment(time_range.end)}"
    if time_range.start:
        return f"since {_moment(time_range.start)}"
    return f"before {_moment(time_range.end)}" if time_range.end else ""


def _moment(value: datetime) -> str:
    midnight = not (value.hour or value.minute or value.second or value.microsecond)
    return value.strftime("%Y-%m-%d") if midnight else value.strftime("%Y-%m-%dT%H:%M:%SZ")
