"""What the OpenAPI document promises, tried out over HTTP: requests made from it, right ones and wrong ones."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)

from braid_cli.openapi import TARGET, generated
from tests.served import served, token
from tests.stages import demo_stages

if TYPE_CHECKING:
    from collections.abc import Iterator

LONG = "EXAMPLES" in os.environ
"""`make test-hostile` asks for more examples, and for every boundary of every field: some hundred requests a route."""
EXAMPLES = min(int(os.environ.get("EXAMPLES", "5")), 100)
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
CONFIG = schemathesis.Config.from_dict({"phases": {"coverage": {"enabled": LONG}}})
SCHEMA = schemathesis.openapi.from_path(str(TARGET), config=CONFIG)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    stages = demo_stages(tmp_path_factory.mktemp("openapi"))
    with served(stages) as address:
        yield address
    stages.close()


@SCHEMA.parametrize()
@settings(
    max_examples=EXAMPLES,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_operation_answers_as_the_document_says(case: Any, address: str) -> None:
    headers = {"Authorization": f"Bearer {token('saltmarrow')}"}
    case.call_and_validate(base_url=address, headers=headers, checks=CHECKS)


def test_the_document_that_is_kept_is_that_of_the_routes() -> None:
    assert TARGET.read_text(encoding="utf-8") == generated(), "make openapi writes it anew"


def test_each_operation_of_the_document_says_how_it_may_refuse() -> None:
    document = json.loads(TARGET.read_text(encoding="utf-8"))
    for path, operations in document["paths"].items():
        for operation in operations.values():
            codes = set(operation["responses"])
            assert operation["operationId"]
            if path != "/health":
                assert {"401", "403", "404", "422", "429", "503"} <= codes, path
            if "requestBody" in operation:
                assert {"400", "413", "415"} <= codes, path
