"""Every number and address that an operator may change, read once from ``BRAID_*`` and checked at cold start."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from braid.errors import ConfigurationError
from braid.models import RerankerKind

_HERE = Path(__file__).resolve()


class EngineKind(StrEnum):
    """Which stores are asked."""

    EMBEDDED = "embedded"
    AWS = "aws"


class OpenSearchService(StrEnum):
    """Which AWS service requests are signed for. An ``http://`` endpoint, which is a local server, is never signed."""

    DOMAIN = "es"
    SERVERLESS = "aoss"


class VectorEngine(StrEnum):
    """Which library holds the vectors inside OpenSearch."""

    LUCENE = "lucene"
    FAISS = "faiss"


class Refresh(StrEnum):
    """When a write to the search index returns."""

    WAIT = "wait_for"
    """Once the next periodic refresh has made it searchable."""
    NOW = "true"
    """After a refresh made for it alone: sooner, and dearer under many writes."""
    NONE = "false"
    """At once; it is searchable a little later. The only choice of a serverless collection."""


def _shared_dir() -> Path:
    """Find ``shared/``: beside the layer in a checkout, in ``/opt`` where a layer carries it."""
    checkout = _HERE.parents[3] / "shared" if len(_HERE.parents) > 3 else None  # noqa: PLR2004 - depth of the layout
    return checkout if checkout and checkout.is_dir() else Path("/opt")


class Settings(BaseSettings):
    """All settings; the defaults run everything on a laptop."""

    model_config = SettingsConfigDict(env_prefix="BRAID_", frozen=True, extra="ignore")

    engine: EngineKind = EngineKind.EMBEDDED
    home: Path = Path(".braid")
    """Folder of the embedded engine and of models made here."""
    shared_dir: Path = Field(default_factory=_shared_dir)
    models_dir: Path | None = None
    """Folder with one folder a model; ``home``/models when not set."""

    model_profile: str = "minilm"
    embedding_model: str = "auto"
    """``auto`` lets the question choose; a model id forces that model."""
    encoder_threads: Annotated[int, Field(ge=1, le=64)] = 1

    candidates: Annotated[int, Field(ge=10, le=200)] = 50
    seeds: Annotated[int, Field(ge=1, le=50)] = 10
    expansion_limit: Annotated[int, Field(ge=1, le=200)] = 50
    fan_out: Annotated[int, Field(ge=1, le=10_000)] = 200
    lexical_share: Annotated[float, Field(ge=0, le=1)] = 0.3
    """Share of the words in the text strand; the vectors have the rest."""
    rank_constant: Annotated[int, Field(ge=1)] = 60
    schema_drift_threshold: Annotated[int, Field(ge=0)] = 3

    reranker: RerankerKind = RerankerKind.NONE
    reranker_model: str = ""
    rerank_timeout_s: Annotated[float, Field(gt=0, le=30)] = 1.5

    slow_total_ms: Annotated[float, Field(gt=0)] = 3_000
    slow_stage_ms: dict[str, float] = {"embed": 500, "vector_search": 500, "graph_expand": 200, "fuse_rerank": 2_000}

    log_queries: bool = False
    """Whether logs may hold the text of questions."""

    opensearch_endpoint: str = ""
    opensearch_service: OpenSearchService = OpenSearchService.DOMAIN
    opensearch_index: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,99}$")] = "braid-records"
    """Alias that is read and written; the index behind it has a number appended."""
    opensearch_engine: VectorEngine = VectorEngine.LUCENE
    opensearch_on_disk: bool = False
    """Keep full vectors on disk and compressed ones in memory, where the service offers it."""
    opensearch_refresh: Refresh = Refresh.WAIT
    opensearch_timeout_s: Annotated[float, Field(gt=0, le=60)] = 3.0
    """Bound on one attempt of one request; bulk writes have five times as long."""
    opensearch_attempts: Annotated[int, Field(ge=1, le=10)] = 3

    neptune_endpoint: str = ""
    """``wss://`` address with its path, signed with IAM; a ``ws://`` address, which is a local server, is not."""
    neptune_iam: bool = True
    neptune_connect_timeout_s: Annotated[float, Field(gt=0, le=30)] = 2.0
    neptune_evaluation_timeout_s: Annotated[float, Field(gt=0, le=600)] = 3.0
    """After which the server gives up; below the read time-out."""
    neptune_read_timeout_s: Annotated[float, Field(gt=0, le=600)] = 4.0
    neptune_attempts: Annotated[int, Field(ge=1, le=10)] = 3

    schema_table: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{3,255}$")] = "braid-schemas"
    """DynamoDB table of schema versions."""
    dynamodb_timeout_s: Annotated[float, Field(gt=0, le=60)] = 1.0
    """Bound on connecting, and on each wait for an answer."""
    dynamodb_attempts: Annotated[int, Field(ge=1, le=10)] = 2

    cache_table: Annotated[str, Field(pattern=r"^([A-Za-z0-9_.-]{3,255})?$")] = ""
    """DynamoDB table of cached values; nothing is cached when not set."""
    cache_timeout_s: Annotated[float, Field(gt=0, le=60)] = 0.3
    """Bound on one attempt of one request to the cache: waiting longer costs more than a miss."""
    cache_attempts: Annotated[int, Field(ge=1, le=10)] = 1
    cache_rest_s: Annotated[float, Field(ge=0, le=3600)] = 5.0
    """For how long a cache that failed is not asked again."""
    reembed_queue_url: str = ""
    """SQS FIFO queue of what is to be embedded again."""
    sqs_timeout_s: Annotated[float, Field(gt=0, le=60)] = 3.0
    sqs_attempts: Annotated[int, Field(ge=1, le=10)] = 3
    objects_bucket: Annotated[str, Field(pattern=r"^([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])?$")] = ""
    """S3 bucket of each tenant's files."""
    s3_timeout_s: Annotated[float, Field(gt=0, le=60)] = 5.0
    s3_attempts: Annotated[int, Field(ge=1, le=10)] = 3

    @model_validator(mode="after")
    def _aws_needs_endpoints(self) -> Self:
        if self.engine is EngineKind.AWS:
            missing = [name for name in ("opensearch_endpoint", "neptune_endpoint") if not getattr(self, name)]
            if missing:
                message = f"engine aws needs {' and '.join(f'BRAID_{name.upper()}' for name in missing)}"
                raise ValueError(message)
        if self.neptune_evaluation_timeout_s >= self.neptune_read_timeout_s:
            message = "neptune_evaluation_timeout_s must be below neptune_read_timeout_s"
            raise ValueError(message)
        if self.reranker is RerankerKind.ONNX and not self.reranker_model:
            message = "reranker onnx needs BRAID_RERANKER_MODEL"
            raise ValueError(message)
        return self

    def models_path(self) -> Path:
        """Return the folder that holds one folder a model."""
        return self.models_dir or self.home / "models"


@cache
def load_settings() -> Settings:
    """Read the environment once a process.

    Raises
    ------
    ConfigurationError
        If a variable is missing or malformed; the message names it.
    """
    try:
        return Settings()
    except ValidationError as error:
        clauses = [
            f"BRAID_{'_'.join(str(part) for part in detail['loc']).upper()}: {detail['msg']}"
            if detail["loc"]
            else detail["msg"]
            for detail in error.errors(include_url=False)
        ]
        raise ConfigurationError("; ".join(clauses)) from error
    except SettingsError as error:
        # A setting of several values, such as slow_stage_ms; the message quotes the field's name.
        name = str(error).partition('"')[2].partition('"')[0]
        raise ConfigurationError(f"BRAID_{name.upper()}: is not JSON") from error
