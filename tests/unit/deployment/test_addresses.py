"""Where a deployed stack's stores are, as variables for a machine that reaches them."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from make import addresses
from tests.unit.deployment.test_template import TEMPLATE

if TYPE_CHECKING:
    import pytest

VARIABLES = {
    "IngestFunction": {
        "BRAID_ENGINE": "aws",
        "BRAID_OPENSEARCH_ENDPOINT": "https://search",
        "BRAID_OPENSEARCH_TIMEOUT_S": "20",
        "BRAID_NEPTUNE_READER_ENDPOINT": "",
        "BRAID_OPENSEARCH_INDEX_SETTINGS": '{"number_of_replicas": 2}',
        "BRAID_OBJECTS_BUCKET": "files",
        "BRAID_MODELS": "/opt/models",
    },
    "ReembedFunction": {"BRAID_REEMBED_TABLE": "jobs", "POWERTOOLS_SERVICE_NAME": "reembed"},
    "FuseRerankFunction": {"BRAID_REEMBED_QUEUE_URL": "https://queue"},
    "SearchApiFunction": {"BRAID_MEMBERS_TABLE": "members", "BRAID_INGEST_FUNCTION": "arn:aws:lambda:x"},
}


def aws(arguments: list[str]) -> str:
    if arguments[0] == "cloudformation":
        assert arguments[arguments.index("--stack-name") + 1] == "braid-dev"
        return f"braid-dev-{arguments[arguments.index('--logical-resource-id') + 1]}-1AB\n"
    function = arguments[arguments.index("--function-name") + 1].split("-")[2]
    return json.dumps(VARIABLES[function])


def test_they_are_the_functions_own_without_what_only_a_function_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert addresses.main(["dev"], aws) == 0
    assert capsys.readouterr().out.splitlines() == [
        "export BRAID_ENGINE=aws",
        "export BRAID_MEMBERS_TABLE=members",
        "export BRAID_OBJECTS_BUCKET=files",
        """export BRAID_OPENSEARCH_ENDPOINT=https://search""",
        """export BRAID_OPENSEARCH_INDEX_SETTINGS='{"number_of_replicas": 2}'""",
        "export BRAID_REEMBED_QUEUE_URL=https://queue",
        "export BRAID_REEMBED_TABLE=jobs",
    ]


def test_the_functions_asked_are_the_templates_and_know_every_table_bucket_and_store() -> None:
    known: dict[str, Any] = dict(TEMPLATE["Globals"]["Function"]["Environment"]["Variables"])
    for function in addresses.FUNCTIONS:
        known |= TEMPLATE["Resources"][function]["Properties"]["Environment"]["Variables"]
    for name in (
        "SCHEMA_TABLE",
        "CACHE_TABLE",
        "MEMBERS_TABLE",
        "REEMBED_TABLE",
        "OBJECTS_BUCKET",
        "NEPTUNE_ENDPOINT",
        "REEMBED_QUEUE_URL",
    ):
        assert f"BRAID_{name}" in known
        assert addresses.ADDRESSES.fullmatch(f"BRAID_{name}")


def test_what_fails_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    def refused(arguments: list[str]) -> str:
        raise subprocess.CalledProcessError(254, arguments)

    assert addresses.main(["nowhere"], aws) == 1
    assert "no section nowhere" in capsys.readouterr().err
    assert addresses.main(["dev"], refused) == 1
    assert "exit status 254" in capsys.readouterr().err
