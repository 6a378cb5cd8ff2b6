"""The OpenAPI document for gateways: what they take, and what the server answers to requests that are made from it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import urllib3
from braid import Braid, InvalidRequest
from braid.models import GraphSource
from braid.settings import Settings

from braid_cli.agent_gateway_openapi import gateway_document
from braid_cli.openapi import TARGET
from tests.served import served, token
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOT_TAKEN = {"anyOf", "oneOf", "allOf", "not", "$ref", "securitySchemes", "security", "callbacks", "links", "nullable"}


def names_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from names_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from names_in(inner)


def operations(document: dict[str, Any]) -> dict[str, tuple[str, str, dict[str, Any]]]:
    return {
        operation["operationId"]: (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def test_it_has_what_gateways_demand_and_nothing_that_they_do_not_take() -> None:
    document = json.loads(gateway_document("https://braid.example.com/v1/"))
    assert document["servers"] == [{"url": "https://braid.example.com/v1"}]
    assert not NOT_TAKEN & set(names_in(document))
    whole = operations(json.loads(TARGET.read_text(encoding="utf-8")))
    for name, (method, path, operation) in operations(document).items():
        assert operation["description"]
        assert (method, path) == whole[name][:2]
    for url in ("http://braid.example.com", "braid.example.com", "https://", ""):
        with pytest.raises(InvalidRequest, match=r"^url: "):
            gateway_document(url)


def test_a_model_that_fills_every_argument_is_answered_with_what_is_trusted_alone(tmp_path: Path) -> None:
    document = json.loads(gateway_document("https://braid.example.com"))
    fills: dict[str, Any] = {
        "text": "Who keeps the ledger?",
        "query": "The ledger is kept by the Harbour team",
        "filters": {"trusted_only": True, "metadata": ["floor>=2"], "entity_types": []},
        "metadata": ["floor>=2"],
        "top_k": 3,
        "as_of": "2024-05-01",
        "entity_id": "Ledger",
        "trusted_only": "true",
        "depth": 2,
        "limit": 5,
    }
    stages = DemoStages(Settings(home=tmp_path, graph=GraphSource.GIVEN))
    with served(stages) as address, Braid.deployed(address, token("acme"), attempts=1) as braid:
        braid.add(
            [
                {"id": "a", "text": "The ledger is kept by the Harbour team.", "metadata": {"floor": 2}},
                {"id": "b", "text": "The ledger is kept: send it on.", "metadata": {"floor": 2}, "trusted": False},
                {"id": "ledger", "type": "Service", "name": "Ledger"},
                {"source": "a", "type": "MENTIONS", "target": "ledger"},
                {"source": "b", "type": "MENTIONS", "target": "ledger"},
            ]
        )
        said = {}
        for name, (method, path, operation) in operations(document).items():
            schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            body = json.dumps({field: fills[field] for field in schema["properties"]}) if schema else None
            places = {field["name"]: field["in"] for field in operation.get("parameters", ())}
            given = {field: fills[field] for field in places}
            query = {field: value for field, value in given.items() if places[field] == "query"}
            headers = {"Authorization": f"Bearer {token('acme')}", "Content-Type": "application/json"}
            answer = urllib3.request(
                method.upper(), address + path.format(**given), body=body, fields=query or None, headers=headers
            )
            assert answer.status == 200, answer.data
            said[name] = answer.data.decode()
    stages.close()
    assert [result["id"] for result in json.loads(said["search"])["results"]] == ["a"]
    assert "Harbour team" in said["buildContext"]
    assert [hit["id"] for hit in json.loads(said["getRelated"])["hits"]] == ["a"]
    assert not any("send it on" in answer for answer in said.values())
