"""What a process imports before it does what it was started for: counted in modules, as times differ by machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

QUESTION = """
from braid.app import application
from braid.models import Query
from braid.retrieval import pipeline
pipeline.answer(Query(text="Who owns Keelson?", tenant_id="acme"), application())
"""
HELP = """
import sys
from braid_cli.main import main
sys.argv = ["braid", "--help"]
try:
    main()
except SystemExit:
    pass
"""
DEPLOYED = {
    "aws_lambda_powertools",
    "boto3",
    "botocore",
    "gremlin_python",
    "moto",
    "opensearchpy",
    "urllib3",
    "uvicorn",
}
NOT_ASKING = {"braid.api", "braid.ingestion", "braid.reembedding", "braid_cli", "typer", "rich", "tenacity", "onnx"}


@pytest.mark.parametrize(
    ("script", "most_of_braid", "left_out"),
    [
        (HELP, 6, DEPLOYED | {"braid.models", "braid.settings", "pydantic", "numpy", "onnxruntime"}),
        ("from braid import Braid; Braid()", 70, DEPLOYED | NOT_ASKING | {"numpy", "onnxruntime", "sqlite3"}),
        (QUESTION, 103, DEPLOYED | NOT_ASKING),
    ],
    ids=["the help", "a library that is ready", "a question"],
)
def test_a_process_imports_what_it_needs(script: str, most_of_braid: int, left_out: set[str], tmp_path: Path) -> None:
    done = subprocess.run(  # noqa: S603 - our own interpreter and script
        [sys.executable, "-c", f"{script}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "BRAID_HOME": str(tmp_path / "home"), "BRAID_ENGINE": "embedded"},
    )
    imported = json.loads(done.stdout.splitlines()[-1])
    assert {name for name in left_out if any(f"{each}.".startswith(f"{name}.") for each in imported)} == set()
    own = [name for name in imported if name.split(".")[0] in {"braid", "braid_cli"}]
    assert len(own) <= most_of_braid, own


def test_a_process_that_searches_vectors_before_it_embeds_a_text_survives() -> None:
    """As a server does whose first question's vector is cached: usearch first and ONNX Runtime then is a crash."""
    script = "from braid.engines.embedded.search.hnsw_segments import _index; _index(8)\nimport onnxruntime"
    subprocess.run([sys.executable, "-c", script], check=True)  # noqa: S603 - our own interpreter and script


def test_a_laptop_signs_cursors_and_takes_a_key_of_a_reranker_without_packages_of_aws(tmp_path: Path) -> None:
    """They come with an extra of the wheel, so lists of several pages must not need them."""
    script = """
import sys
sys.modules.update(dict.fromkeys(("boto3", "botocore"), None))
from braid.app import application
from braid.engines.rerankers.voyage import VoyageReranker
assert application().cursor_key()
VoyageReranker.connect(application().settings)
"""
    done = subprocess.run(  # noqa: S603 - our own interpreter and script
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "BRAID_HOME": str(tmp_path), "BRAID_ENGINE": "embedded", "BRAID_VOYAGE_API_KEY": "pa-1"},
    )
    assert done.returncode == 0, done.stderr


def test_measurements_start_with_what_make_setup_installs() -> None:
    """Packages of the groups that it leaves out are imported, at most, by the measurement that needs them."""
    script = """
import sys
from importlib import import_module
for name in ("ir_measures", "locust", "matplotlib", "psutil", "pytest", "ranx", "scipy"):
    sys.modules[name] = None
from bench.__main__ import MEASUREMENTS
for name in MEASUREMENTS:
    import_module(f"bench.{name}")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)  # noqa: S603 - our own interpreter and script
    assert done.returncode == 0, done.stderr
