"""Settings, read once from environment variables ``BRAID_*`` and checked at cold start.

``configuration_files`` reads files of configuration, such as ``fitted.json`` and the model profiles; ``folders`` finds
the folders of the user's data and of the files that come with Braid.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from braid.errors import ConfigurationError, plainly
from braid.models import ContextRole, GraphSource, RerankerKind, SchemaWindow
from braid.models.enums_and_scalars import HOSTED_RERANKERS, MAX_WALK_SEEDS
from braid.settings.folders import shared_folder, user_folder

StateMachineArn = Annotated[str, Field(pattern=r"^(arn:aws[a-z-]*:states:[^:]+:[0-9]*:stateMachine:.+)?$")]
SecretArn = Annotated[
    str, Field(pattern=r"^(arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]+)?$")
]
TableName = Annotated[str, Field(pattern=r"^([A-Za-z0-9_.-]{3,255})?$")]
"""Name of a DynamoDB table; empty if there is none, as the ARNs above."""
DEFAULT_TENANT = "default"
"""Tenant when none is named, in process and on the command line."""
DEPLOYED_RERANK_LIMIT_S = 8.0
"""Most seconds for reranking in the workflow, whose task has 10 for the whole stage."""


class EngineKind(StrEnum):
    """The engines behind the ports: embedded (SQLite), or those of AWS (OpenSearch, Neptune and others)."""

    EMBEDDED = "embedded"
    AWS = "aws"


class Journal(StrEnum):
    """Journal mode of the embedded engine's file, by SQLite's name."""

    WAL = "wal"
    """Write-ahead log: readers do not wait for a writer. Needs a local disk, as it uses shared memory."""
    PERSIST = "persist"
    """Rollback journal: works on a network file system too. Readers and a writer wait for one another."""


class OpenSearchService(StrEnum):
    """AWS service that requests are signed for. Requests to an ``http://`` endpoint (a local server) are not signed."""

    DOMAIN = "es"
    SERVERLESS = "aoss"


class VectorEngine(StrEnum):
    """OpenSearch's k-NN engine."""

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


class Membership(StrEnum):
    """Source of the memberships of callers in tenants."""

    CLAIMS = "claims"
    """The verified token alone."""
    STORE = "store"
    """The stored memberships, and the token if it names tenants."""


class Settings(BaseSettings):
    """All settings; the defaults run everything on a laptop."""

    model_config = SettingsConfigDict(env_prefix="BRAID_", frozen=True, extra="ignore", validate_by_name=True)

    engine: EngineKind = EngineKind.EMBEDDED
    home: Path = Field(default_factory=user_folder)
    """Folder of the embedded engine; the user's own when not set."""
    store_journal: Journal = Journal.WAL
    """``persist`` where ``home`` is on a network file system, such as EFS."""
    shared_dir: Path = Field(default_factory=shared_folder)
    models_dir: Path | None = Field(default=None, validation_alias=AliasChoices("BRAID_MODELS", "BRAID_MODELS_DIR"))
    """Folder with a folder for each model; when not set ``home``/models if it exists, else the user's."""

    graph: GraphSource = GraphSource.BOTH
    """Whether writes find names in texts, in addition to given vertices and relationships or instead of them."""

    model_profile: str = "minilm"
    """Profile of the models that embed records and questions, until the first move to another one; then the profile
    is read from the index.

    If it is changed without a move, questions are answered without vectors until everything is embedded again.
    """
    embedding_model: str = "auto"
    """``auto``: the model that the profile has for the question's type; a model id forces that model."""
    encoder_threads: Annotated[int, Field(ge=1, le=64)] = 1
    """Threads of an encoder that embeds questions."""
    allow_supplied_vectors: bool = False
    """Whether records may come with vectors, in the spaces of configured models; these rank behind Braid's own."""

    candidates: Annotated[int, Field(ge=10, le=200)] = 50
    """Most hits of a question by vectors, and most by words."""
    seeds: Annotated[int, Field(ge=1, le=MAX_WALK_SEEDS)] = 10
    """Most text hits that are seeds of a walk or of propagation."""
    expansion_limit: Annotated[int, Field(ge=1, le=200)] = 50
    """Most vertices that a walk returns."""
    fan_out: Annotated[int, Field(ge=1, le=10_000)] = 200
    """Most edges of a vertex that a walk follows, the surest ones."""
    hub: Annotated[int, Field(ge=1, le=10_000)] = 20
    """Degree of a hub: propagation reaches a vertex with more edges, but does not continue from it."""
    fitted_weights: Path | None = None
    """File that `braid tune` wrote; when not set ``home``/fitted.json, else models/fitted.json in ``shared_dir``, if
    either is there."""
    lexical_share: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of the words (BM25) in the text strand, the vectors having the rest; the fitted one when not set."""
    rank_constant: Annotated[int, Field(ge=1)] | None = None
    """Constant of reciprocal rank fusion; the fitted one when not set."""
    schema_drift_threshold: Annotated[int, Field(ge=0)] = 3
    """Most schema versions that a record may be behind the current one; drift above it is severe."""
    schema_window: SchemaWindow = SchemaWindow.THRESHOLD
    """How far back questions find records: to the drift threshold, or ``strict``: to the version before the current."""

    reranker: RerankerKind = RerankerKind.NONE
    reranker_model: str = ""
    """Folder of the cross-encoder; needed with the reranker onnx."""
    rerank_candidates: Annotated[int, Field(ge=1, le=200)] = 50
    """How many of the fused candidates are rescored; the answer has the question's ``top_k`` of them."""
    rerank_timeout_s: Annotated[float, Field(gt=0, le=30)] = 1.5
    """Bound on reranking for one question, retries and pauses included; at most 8 with the engine aws."""
    rerank_attempts: Annotated[int, Field(ge=1, le=5)] = 2
    """Most calls of a hosted reranker for one question, within that time."""
    rerank_window: Annotated[int, Field(ge=64, le=8_000)] | None = None
    """Most (estimated) tokens of the question and one text together that a hosted reranker reads; when not set, 512
    for Bedrock and 1,000 for Voyage, for which their prices hold."""
    bedrock_rerank_model: Annotated[str, Field(min_length=1, max_length=2048)] = "amazon.rerank-v1:0"
    """Id or ARN of a rerank model."""
    bedrock_region: Annotated[str, Field(pattern=r"^([a-z]{2}(-[a-z]+)+-[0-9])?$")] = ""
    """Region of the rerank model; when not set, the ARN's, else the client's own."""
    bedrock_usd_per_1000_queries: Annotated[float, Field(ge=0)] | None = None
    """Price of 1,000 queries of up to 100 texts; an assumed price of the model when not set."""
    voyage_api_key: SecretStr = SecretStr("")
    voyage_api_key_secret: SecretArn = ""
    """ARN of a secret whose string is the key, instead of the key."""
    voyage_rerank_model: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")] = "rerank-2.5"
    voyage_url: Annotated[str, Field(pattern=r"^(https://|http://(127\.0\.0\.1|localhost)(:[0-9]+)?/)[^\s@]+$")] = (
        "https://api.voyageai.com/v1/rerank"
    )
    """Endpoint of Voyage. ``http://`` is for a server on this machine only, as each request carries the key."""
    voyage_usd_per_1000_documents: Annotated[float, Field(ge=0)] = 0.05

    context_enabled: bool = True
    """Whether contexts are built; if not, a conversation is returned unchanged."""
    context_working_state: bool = True
    context_semantic: bool = True
    context_episodic: bool = True
    context_window: Annotated[int, Field(ge=1, le=1_000)] = 10
    """Newest messages that are considered."""
    context_semantic_limit: Annotated[int, Field(ge=1, le=50)] = 5
    context_episodic_limit: Annotated[int, Field(ge=1, le=50)] = 5
    context_min_final: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Final score below which nothing is shown."""
    context_limit: Annotated[int, Field(ge=1, le=200)] = 10
    context_fence: bool = True
    """Whether retrieved text is fenced: enclosed in lines with a key that its author cannot know, after a line that
    says not to obey it."""
    context_role: ContextRole = ContextRole.ASSISTANT
    """Role of the messages with retrieved text, unless a request names another."""

    slow_total_ms: Annotated[float, Field(gt=0)] = 3_000
    slow_stage_ms: dict[str, float] = {"embed": 500, "vector_search": 500, "graph_expand": 200, "fuse_rerank": 2_000}

    log_queries: bool = False
    """Whether logs may hold the text of questions."""

    request_timeout_s: Annotated[float, Field(gt=0, le=300)] = 22.0
    """Time limit of one HTTP request: a question is then answered without its unfinished stages, and any other
    request with 504. Below the time-out of the function."""
    embedded_question_s: Annotated[float, Field(gt=0, le=60)] = 4.0
    """Bound on one search, or one walk of the graph, of the embedded engine."""

    opensearch_endpoint: str = ""
    opensearch_service: OpenSearchService = OpenSearchService.DOMAIN
    opensearch_index: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,99}$")] = "braid-records"
    """Alias that is read and written; the index behind it has a number appended."""
    opensearch_engine: VectorEngine = VectorEngine.LUCENE
    opensearch_compression: Literal["", "2x", "4x", "8x", "16x", "32x"] = ""
    """Compression of the vectors in memory, with full ones on disk to rescore the hits; no compression when empty. Like
    the next three, applied when an index is created: the first one, and in a move to another profile."""
    opensearch_shards: Annotated[int, Field(ge=1, le=1024)] = 1
    """Shards of the index; ``make scale`` computes how many a number of records needs. A tenant's records are kept
    together."""
    opensearch_tenant_shards: Annotated[int, Field(ge=1, le=1023)] = 1
    """Shards over which each tenant is spread, fewer than all; more than one where a tenant is larger than a shard."""
    opensearch_index_settings: dict[Annotated[str, Field(pattern=r"^[a-z_.]{1,100}$")], str | int] = {}
    """Further settings of the index, by their names without ``index.``, such as ``number_of_replicas``."""
    opensearch_refresh: Refresh = Refresh.WAIT
    opensearch_timeout_s: Annotated[float, Field(gt=0, le=60)] = 3.0
    """Bound on one attempt of one request; bulk writes have five times as long."""
    opensearch_attempts: Annotated[int, Field(ge=1, le=10)] = 3
    opensearch_question_s: Annotated[float, Field(gt=0, le=60)] = 4.0
    """Bound on all attempts of a search together: below the workflow's limit of the stage."""

    neptune_endpoint: str = ""
    """``wss://`` address with its path, signed with IAM; a ``ws://`` address, which is a local server, is not."""
    neptune_reader_endpoint: str = ""
    """Address of the read replicas, which answer questions of tenants without a write in the last ``cache_settle_s``;
    when not set, ``neptune_endpoint`` answers all. Never used without a cache, which counts the writes."""
    neptune_iam: bool = True
    neptune_connect_timeout_s: Annotated[float, Field(gt=0, le=30)] = 2.0
    neptune_evaluation_timeout_s: Annotated[float, Field(gt=0, le=600)] = 3.0
    """Time after which the server ends a query; below the read time-out."""
    neptune_read_timeout_s: Annotated[float, Field(gt=0, le=600)] = 4.0
    neptune_attempts: Annotated[int, Field(ge=1, le=10)] = 3
    neptune_question_s: Annotated[float, Field(gt=0, le=60)] = 4.0
    """Bound on all attempts of a call for a question together: below the workflow's limit of a stage."""

    retrieve_state_machine_arn: StateMachineArn = ""
    """Workflow that answers questions, also of contexts; when not set, the stages run in this process."""
    retrieve_timeout_s: Annotated[float, Field(gt=0, le=300)] = 15.0

    answer_function: Annotated[str, Field(pattern=r"^([A-Za-z0-9:_-]{1,170})?$")] = ""
    """Lambda function that answers questions in one process, instead of the workflow."""
    ingest_function: Annotated[str, Field(pattern=r"^([A-Za-z0-9:_-]{1,170})?$")] = ""
    """Lambda function that writes for functions without a model; if not set, this process writes itself."""
    ingest_writers: Annotated[int, Field(ge=0)] = 0
    """Most bulk batches (imports and re-embedding) that are written at once, of one tenant at most two thirds of them;
    0 sets no limit."""
    ingest_timeout_s: Annotated[float, Field(gt=0, le=900)] = 20.0
    ingest_state_machine_arn: StateMachineArn = ""
    """Workflow that runs imports of objects; a thread of this process when not set."""
    reembed_state_machine_arn: StateMachineArn = ""
    """Workflow that runs requested re-embedding jobs; the schedule does when not set."""
    states_timeout_s: Annotated[float, Field(gt=0, le=60)] = 3.0
    """Bound on connecting to Step Functions and on each wait, where a workflow is started and not waited for."""
    states_attempts: Annotated[int, Field(ge=1, le=10)] = 2

    schema_table: TableName = ""
    """DynamoDB table of schema versions; ``home`` keeps them when not set, which only local stores allow."""
    dynamodb_timeout_s: Annotated[float, Field(gt=0, le=60)] = 1.0
    """Bound on connecting, and on each wait for an answer."""
    dynamodb_attempts: Annotated[int, Field(ge=1, le=10)] = 2

    cache_table: TableName = ""
    """DynamoDB table of cached values; nothing is cached when not set."""
    cache_timeout_s: Annotated[float, Field(gt=0, le=60)] = 0.3
    """Bound on one attempt of one request to the cache: waiting longer costs more than a miss."""
    cache_attempts: Annotated[int, Field(ge=1, le=10)] = 1
    cache_rest_s: Annotated[float, Field(ge=0, le=3600)] = 5.0
    """Seconds for which a cache, or a registry of schemas, that failed is not asked again."""
    cache_embedding_s: Annotated[int, Field(ge=0, le=604_800)] = 86_400
    """Seconds for which the vector of a question is cached; 0 disables it, here and below."""
    cache_result_s: Annotated[int, Field(ge=0, le=86_400)] = 300
    """Most seconds for which an answer is cached; a write, or the end of something's validity, ends it sooner."""
    cache_context_s: Annotated[int, Field(ge=0, le=86_400)] = 3_600
    """The same for the retrieval of a context."""
    cache_graph_entries: Annotated[int, Field(ge=0, le=100_000)] = 256
    """Look-ups and walks of the graph that one process caches, some tens of KB each."""
    cache_settle_s: Annotated[float, Field(ge=0, le=3600)] | None = None
    """Seconds after a tenant's last write in which reads are not cached, as a store may show a write late. When not
    set: 0 with the engine embedded, 5 with aws, 90 if writes to the search index return before they are searchable."""
    profile_cache_s: Annotated[float, Field(ge=0, le=60)] = 5.0
    """Seconds for which a function caches the active model profile; a switch waits as long before its sweep."""
    profile_timeout_s: Annotated[float, Field(gt=0, le=10)] = 0.5
    """Bound on reading the active model profile; if it fails, the last known one or ``model_profile`` is used."""
    reembed_page: Annotated[int, Field(ge=1, le=1_000)] = 100
    """Records that re-embedding reads, embeds and writes together."""
    reembed_texts_per_s: Annotated[float, Field(ge=0)] = 0.0
    """Most records re-embedded per second, to leave room for questions; 0 sets no limit."""
    reembed_min_drift: Annotated[int, Field(ge=1)] = 2
    """Records at least this many schema versions behind are re-embedded."""
    reembed_sample: Annotated[int, Field(ge=0, le=1_000)] = 100
    """Number of questions that verify a move to another profile before the switch."""
    reembed_tolerance: Annotated[float, Field(ge=0, le=1)] = 0.01
    """Allowed loss of recall with the new profile."""
    reembed_step_s: Annotated[float, Field(gt=0, le=800)] = 480.0
    """Seconds after which a step of the deployed workflow lists no more pages."""
    reembed_table: TableName = ""
    """DynamoDB table of re-embedding jobs; ``home`` keeps them when not set, which only local stores allow."""
    reembed_queue_url: str = ""
    """SQS FIFO queue of records to re-embed."""
    sqs_timeout_s: Annotated[float, Field(gt=0, le=60)] = 3.0
    sqs_attempts: Annotated[int, Field(ge=1, le=10)] = 3
    objects_bucket: Annotated[str, Field(pattern=r"^([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])?$")] = ""
    """S3 bucket of each tenant's files."""
    s3_timeout_s: Annotated[float, Field(gt=0, le=60)] = 5.0
    s3_attempts: Annotated[int, Field(ge=1, le=10)] = 3

    tenant_claim: Annotated[str, Field(pattern=r"^[A-Za-z0-9_:./-]{1,128}$")] = "tenant_id"
    """Claim of a verified token that names the caller's tenant, or several."""
    membership: Membership = Membership.CLAIMS
    members_table: TableName = ""
    """DynamoDB table of memberships; ``home`` keeps them when not set."""
    api_max_body_bytes: Annotated[int, Field(ge=1_024, le=6_000_000)] = 2_000_000
    """Most bytes of a request's body; Lambda takes no more than 6 MB."""
    cursor_key: SecretStr = SecretStr("")
    """Key that signs pagination cursors; without it or its secret, a key of this process alone does."""
    cursor_key_secret: SecretArn = ""
    """ARN of a secret whose string is the key, instead of the key."""
    front_key: SecretStr = SecretStr("")
    """Value that each HTTP request needs in the header ``Braid-Front``, which the firewall adds; empty: none."""
    front_key_secret: SecretArn = ""
    """ARN of a secret whose string is the key, instead of the key."""
    quota_requests_at_once: Annotated[int, Field(ge=0)] = 0
    """Most requests of one tenant over HTTP that are answered at once, by all processes together, and, in a deployment,
    most of its writes that run at once, those of broken-off requests included; 0 sets no limit, here and below."""
    quota_questions_per_minute: Annotated[int, Field(ge=0)] = 0
    """Most questions of one tenant over HTTP in a minute."""
    quota_writes_per_minute: Annotated[int, Field(ge=0)] = 0
    """Most records, vertices and relationships that one tenant writes or removes over HTTP in a minute."""
    quota_rerank_usd_per_day: Annotated[float, Field(ge=0)] = 0.0
    """Most US dollars, as estimated, for hosted rerankers of one tenant in a day in UTC."""
    hosted_rerankers: tuple[RerankerKind, ...] = HOSTED_RERANKERS
    """Hosted rerankers that questions may ask for."""
    trace_ttl_s: Annotated[int, Field(ge=0, le=604_800)] = 3_600
    """Seconds for which the trace of an answer is kept; 0 keeps none."""

    @field_validator("home")
    @classmethod
    def _home_is_a_folder(cls, home: Path) -> Path:
        if home.exists() and not home.is_dir():
            raise ValueError(f"{home} is not a folder")
        return home.absolute()  # the working folder may change

    @model_validator(mode="after")
    def _aws_needs_endpoints(self) -> Self:
        if self.engine is EngineKind.AWS:
            needed = ["opensearch_endpoint", "neptune_endpoint"]
            if self.shared_stores():
                # Other writers to these stores must see the same schema versions.
                needed.append("schema_table")
            missing = [name for name in needed if not getattr(self, name)]
            if missing:
                raise ValueError(f"engine aws needs {' and '.join(f'BRAID_{name.upper()}' for name in missing)}")
        return self

    @model_validator(mode="after")
    def _limits_fit_each_other(self) -> Self:
        if self.opensearch_tenant_shards > 1 and self.opensearch_tenant_shards >= self.opensearch_shards:
            raise ValueError("opensearch_tenant_shards must be below opensearch_shards")
        if self.neptune_reader_endpoint and not self.settle_s():
            raise ValueError("neptune_reader_endpoint needs cache_settle_s above 0: a reader shows a write late")
        if self.neptune_evaluation_timeout_s >= self.neptune_read_timeout_s:
            raise ValueError("neptune_evaluation_timeout_s must be below neptune_read_timeout_s")
        return self

    @model_validator(mode="after")
    def _quotas_can_be_counted(self) -> Self:
        counted = (name for name in type(self).model_fields if name.startswith("quota_"))
        named = [f"BRAID_{name.upper()}" for name in counted if getattr(self, name)]
        if named and self.engine is EngineKind.AWS and not self.cache_table:
            raise ValueError(f"{' and '.join(named)} needs BRAID_CACHE_TABLE, where it is counted")
        return self

    @model_validator(mode="after")
    def _reranker_is_whole(self) -> Self:
        if self.reranker is RerankerKind.ONNX and not self.reranker_model:
            raise ValueError("reranker onnx needs BRAID_RERANKER_MODEL")
        if self.reranker.is_hosted and self.reranker not in self.hosted_rerankers:
            raise ValueError(f"reranker {self.reranker.value} is not among BRAID_HOSTED_RERANKERS")
        if self.reranker is RerankerKind.VOYAGE and not self.voyage_is_set_up():
            raise ValueError("reranker voyage needs BRAID_VOYAGE_API_KEY or BRAID_VOYAGE_API_KEY_SECRET")
        if self.voyage_api_key.get_secret_value().strip() and self.voyage_api_key_secret:
            raise ValueError("BRAID_VOYAGE_API_KEY and BRAID_VOYAGE_API_KEY_SECRET are both set; one of them is enough")
        if self.engine is EngineKind.AWS and self.rerank_timeout_s > DEPLOYED_RERANK_LIMIT_S:
            raise ValueError(
                f"BRAID_RERANK_TIMEOUT_S must be at most {DEPLOYED_RERANK_LIMIT_S:g} with the engine aws: "
                "the workflow gives up on the stage soon after"
            )
        return self

    def shared_stores(self) -> bool:
        """Return whether the stores are remote, so that no data about them may be kept on this machine alone."""
        return self.engine is EngineKind.AWS and self.opensearch_endpoint.startswith("https://")

    def voyage_is_set_up(self) -> bool:
        """Return whether Voyage's key is set, or a secret that holds it."""
        return bool(self.voyage_api_key.get_secret_value().strip() or self.voyage_api_key_secret)

    def settle_s(self) -> float:
        """Return the seconds after which every read sees a write."""
        if self.cache_settle_s is not None:
            return self.cache_settle_s
        if self.engine is EngineKind.EMBEDDED:
            return 0.0
        late = self.opensearch_service is OpenSearchService.SERVERLESS or self.opensearch_refresh is Refresh.NONE
        return 90.0 if late else 5.0

    def uncached(self) -> Self:
        """Return these settings with every cache disabled, for measurements."""
        off = dict.fromkeys(("cache_embedding_s", "cache_result_s", "cache_context_s", "cache_graph_entries"), 0)
        return self.model_copy(update=off)

    def models_path(self) -> Path:
        """Return the folder that has a folder for each model."""
        if self.models_dir is not None:
            return self.models_dir
        own = self.home / "models"
        return own if own.is_dir() else user_folder() / "models"


@cache
def load_settings() -> Settings:
    """Return the settings of the environment, read once per process. Raises as :func:`read_settings`."""
    return read_settings()


def read_settings(**given: Any) -> Settings:  # noqa: ANN401 - any of the settings
    """Read the settings from the environment; ``given`` takes precedence.

    Raises ConfigurationError if a variable is missing or malformed; the message names it.
    """
    try:
        return Settings(**given)
    except ValidationError as error:
        clauses = []
        for detail in error.errors(include_url=False):
            name = f"BRAID_{'_'.join(map(str, detail['loc'])).upper()}: " if detail["loc"] else ""
            clauses.append(name + plainly(detail))
        raise ConfigurationError("; ".join(clauses)) from error
    except SettingsError as error:
        # A setting of several values, such as slow_stage_ms; the message quotes the field's name.
        name = str(error).partition('"')[2].partition('"')[0]
        raise ConfigurationError(f"BRAID_{name.upper()}: is not JSON") from error
