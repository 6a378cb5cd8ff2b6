"""Settings come from ``BRAID_*``, are checked once at cold start, and a wrong one is named."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from braid.errors import ConfigurationError
from braid.models import RerankerKind
from braid.settings import EngineKind, Settings, load_settings
from braid.settings.folders import shared_folder, user_folder
from pydantic import SecretStr, ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _only_our_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import os

    for name in [name for name in os.environ if name.upper().startswith("BRAID_")]:
        monkeypatch.delenv(name)
    load_settings.cache_clear()
    yield
    load_settings.cache_clear()


def test_without_any_variable_everything_runs_on_a_laptop() -> None:
    settings = load_settings()
    assert settings.engine is EngineKind.EMBEDDED
    assert (settings.candidates, settings.seeds, settings.expansion_limit) == (50, 10, 50)
    assert (settings.rank_constant, settings.lexical_share, settings.schema_drift_threshold) == (None, None, 3)
    assert (settings.model_profile, settings.embedding_model) == ("minilm", "auto")
    assert settings.slow_total_ms == 3_000
    assert settings.reranker is RerankerKind.NONE
    assert (settings.shared_dir / "models" / "profiles.json").is_file()
    assert not settings.log_queries


def test_a_variable_changes_its_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAID_CANDIDATES", "80")
    monkeypatch.setenv("BRAID_SCHEMA_DRIFT_THRESHOLD", "1")
    monkeypatch.setenv("BRAID_SLOW_STAGE_MS", '{"embed": 9}')
    monkeypatch.setenv("UNRELATED", "x")
    settings = load_settings()
    assert (settings.candidates, settings.schema_drift_threshold) == (80, 1)
    assert settings.slow_stage_ms == {"embed": 9}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BRAID_ENGINE", "postgres"),
        ("BRAID_CANDIDATES", "many"),
        ("BRAID_CANDIDATES", "9"),
        ("BRAID_CANDIDATES", "201"),
        ("BRAID_LEXICAL_SHARE", "nan"),
        ("BRAID_LEXICAL_SHARE", "1.5"),
        ("BRAID_RERANK_TIMEOUT_S", "0"),
        ("BRAID_RERANK_ATTEMPTS", "0"),
        ("BRAID_RERANK_WINDOW", "9"),
        ("BRAID_RERANK_CANDIDATES", "0"),
        ("BRAID_BEDROCK_REGION", "here"),
        ("BRAID_BEDROCK_USD_PER_1000_QUERIES", "-1"),
        ("BRAID_VOYAGE_API_KEY_SECRET", "my-secret"),
        ("BRAID_VOYAGE_URL", "http://api.voyageai.com/v1/rerank"),
        ("BRAID_VOYAGE_URL", "http://localhost.example/v1/rerank"),
        ("BRAID_RANK_CONSTANT", "0"),
        ("BRAID_SCHEMA_DRIFT_THRESHOLD", "-1"),
        ("BRAID_RERANKER", "best"),
        ("BRAID_OPENSEARCH_INDEX", "Not-An-Index"),
        ("BRAID_SLOW_STAGE_MS", "fast"),
        ("BRAID_SLOW_STAGE_MS", '{"embed": "fast"}'),
    ],
)
def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=name):
        load_settings()


def test_the_deployed_engines_need_their_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAID_ENGINE", "aws")
    with pytest.raises(ConfigurationError, match="BRAID_OPENSEARCH_ENDPOINT and BRAID_NEPTUNE_ENDPOINT"):
        load_settings()
    monkeypatch.setenv("BRAID_OPENSEARCH_ENDPOINT", "https://search.example")
    with pytest.raises(ConfigurationError, match="needs BRAID_NEPTUNE_ENDPOINT and BRAID_SCHEMA_TABLE"):
        load_settings()
    monkeypatch.setenv("BRAID_NEPTUNE_ENDPOINT", "wss://graph.example:8182/gremlin")
    with pytest.raises(ConfigurationError, match="needs BRAID_SCHEMA_TABLE"):
        load_settings()
    monkeypatch.setenv("BRAID_SCHEMA_TABLE", "braid-schemas")
    assert load_settings().engine is EngineKind.AWS


def test_stores_on_this_machine_need_no_table_of_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAID_ENGINE", "aws")
    monkeypatch.setenv("BRAID_OPENSEARCH_ENDPOINT", "http://127.0.0.1:9200")
    monkeypatch.setenv("BRAID_NEPTUNE_ENDPOINT", "ws://127.0.0.1:8182/gremlin")
    assert load_settings().schema_table == ""


def test_a_reranker_needs_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAID_RERANKER", "onnx")
    with pytest.raises(ConfigurationError, match="BRAID_RERANKER_MODEL"):
        load_settings()


SECRET_ARN = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:voyage-AbCdEf"  # noqa: S105 - the name of a secret
KEY = "pa-0123456789"


def test_voyage_needs_its_key_or_the_secret_that_holds_it_and_not_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAID_RERANKER", "voyage")
    with pytest.raises(ConfigurationError, match="BRAID_VOYAGE_API_KEY or BRAID_VOYAGE_API_KEY_SECRET"):
        load_settings()
    monkeypatch.setenv("BRAID_VOYAGE_API_KEY", KEY)
    assert load_settings().reranker is RerankerKind.VOYAGE
    load_settings.cache_clear()
    monkeypatch.setenv("BRAID_VOYAGE_API_KEY_SECRET", SECRET_ARN)
    with pytest.raises(ConfigurationError, match="both set") as refused:
        load_settings()
    assert KEY not in str(refused.value)
    monkeypatch.delenv("BRAID_VOYAGE_API_KEY")
    assert load_settings().voyage_api_key_secret == SECRET_ARN


def test_bedrock_needs_nothing_but_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAID_RERANKER", "bedrock")
    assert load_settings().bedrock_rerank_model == "amazon.rerank-v1:0"
    load_settings.cache_clear()
    monkeypatch.setenv("BRAID_BEDROCK_RERANK_MODEL", "")
    with pytest.raises(ConfigurationError, match="BRAID_BEDROCK_RERANK_MODEL"):
        load_settings()


def test_a_key_is_not_shown_with_the_settings() -> None:
    settings = Settings(voyage_api_key=SecretStr(KEY))
    assert KEY not in f"{settings!r} {settings} {settings.model_dump(mode='json')}"


def test_a_deployed_reranker_leaves_its_stage_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAID_RERANK_TIMEOUT_S", "9")
    assert load_settings().rerank_timeout_s == 9
    load_settings.cache_clear()
    monkeypatch.setenv("BRAID_ENGINE", "aws")
    monkeypatch.setenv("BRAID_OPENSEARCH_ENDPOINT", "http://127.0.0.1:9200")
    monkeypatch.setenv("BRAID_NEPTUNE_ENDPOINT", "wss://graph.example:8182/gremlin")
    with pytest.raises(ConfigurationError, match="BRAID_RERANK_TIMEOUT_S must be at most 8"):
        load_settings()


def test_the_graph_gives_up_before_its_caller_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAID_NEPTUNE_EVALUATION_TIMEOUT_S", "4")
    with pytest.raises(ConfigurationError, match="below neptune_read_timeout_s"):
        load_settings()


def test_the_environment_is_read_once_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_settings()
    monkeypatch.setenv("BRAID_CANDIDATES", "80")
    assert load_settings() is first


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().candidates = 80  # type: ignore[misc]


def test_models_are_the_users_unless_a_store_has_its_own_or_a_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    shared, home = user_folder() / "models", tmp_path / "store"
    assert Settings(home=home).models_path() == shared == Settings().home / "models"
    (home / "models").mkdir(parents=True)
    assert Settings(home=home).models_path() == home / "models"
    for name in ("BRAID_MODELS", "BRAID_MODELS_DIR"):
        with monkeypatch.context() as named:
            named.setenv(name, "m")
            assert Settings(home=home).models_path() == Path("m")
    assert Settings(home=home, models_dir=Path("m")).models_path() == Path("m")


def test_a_function_has_no_users_folder_and_needs_no_package_to_find_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "plan")
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    assert Settings().home == Path(tempfile.gettempdir()) / "braid"


def test_what_is_shared_is_found_in_a_clone_and_is_what_a_wheel_carries() -> None:
    assert shared_folder() == Path(__file__).parents[3] / "shared"
    assert Settings().shared_dir == shared_folder()
