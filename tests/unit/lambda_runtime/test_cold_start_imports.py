"""What a cold start pays for: imports of the stages and of the functions stay light."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
HEAVY = frozenset(
    {
        "aiohttp",
        "boto3",
        "botocore.client",
        "gremlin_python",
        "numpy",
        "onnx",
        "onnxruntime",
        "opensearchpy",
        "sqlite3",
        "tokenizers",
        "torch",
        "usearch",
    }
)
STAGES = sorted(path.stem for path in (ROOT / "layers/braid/braid/retrieval/stages").glob("[a-z]*.py"))
FUNCTIONS = sorted(path.parent.name for path in (ROOT / "functions").glob("*/app.py"))


def modules_after(script: str) -> set[str]:
    """Return what a fresh interpreter has imported after a script."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("BRAID_", "AWS_", "COV_"))}
    environment |= {
        "BRAID_ENGINE": "aws",
        "BRAID_OPENSEARCH_ENDPOINT": "https://127.0.0.1:9",
        "BRAID_NEPTUNE_ENDPOINT": "wss://127.0.0.1:9/gremlin",
        "BRAID_SCHEMA_TABLE": "braid-schemas",
    }
    done = subprocess.run(  # noqa: S603 - our own interpreter and script
        [sys.executable, "-c", f"{script}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_stages_and_functions_are_found() -> None:
    assert {"plan_and_search", "graph_expand", "fuse_rerank"} <= set(STAGES)
    assert {"plan", "embed", "vector_search", "graph_expand", "fuse_rerank"} <= set(FUNCTIONS)


def test_the_stages_import_no_client_no_array_library_and_no_database() -> None:
    imported = modules_after(
        "".join(f"import braid.retrieval.stages.{stage}\n" for stage in STAGES) + "import braid.retrieval.pipeline"
    )
    assert HEAVY & imported == set()
    assert {name for name in imported if name.startswith("braid.engines")} == set()


@pytest.mark.parametrize("engine", ["graph", "index"])
def test_an_embedded_engine_imports_numpy_when_it_is_opened_not_on_the_threads_that_use_it(
    engine: str, tmp_path: Path
) -> None:
    settings = f"Settings(engine='embedded', home={str(tmp_path)!r})"
    imports = "from braid.app import Application\nfrom braid.settings import Settings\n"
    script = f"{imports}application = Application({settings})\n"
    assert "numpy" not in modules_after(script)
    assert "numpy" in modules_after(f"{script}application.{engine}")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_imports_what_is_heavy_only_when_it_is_called(function: str) -> None:
    folder = str(ROOT / "functions" / function)
    imported = modules_after(f"import sys\nsys.path.insert(0, {folder!r})\nimport app")
    assert HEAVY & imported == set()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_is_short(function: str) -> None:
    assert len((ROOT / "functions" / function / "app.py").read_text(encoding="utf-8").splitlines()) <= 60


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_with_a_wrong_setting_fails_its_cold_start(function: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import app"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"BRAID_ENGINE": "aws", "BRAID_OPENSEARCH_ENDPOINT": "", "BRAID_NEPTUNE_ENDPOINT": ""},
        cwd=ROOT / "functions" / function,
    )
    assert done.returncode == 1
    assert "ConfigurationError: " in done.stderr
    assert "BRAID_OPENSEARCH_ENDPOINT and BRAID_NEPTUNE_ENDPOINT" in done.stderr
