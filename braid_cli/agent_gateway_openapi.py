"""OpenAPI document of a deployed Braid for gateways that offer its operations to agents as tools, such as AgentCore.

Such a gateway makes a tool of each operation, whose arguments a model fills in. It requires an address, and an id and a
description of each operation, authenticates by itself, and rejects schemas that combine others (anyOf and the like).
This document therefore differs from the HTTP API's own: it has only the operations and fields that are useful to a
model. Only the texts of contexts are fenced, so untrusted records are left out: ``trusted_only`` has ``true`` as its
only value.
"""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import urlsplit

from braid import InvalidRequest, __version__

_JSON: Final = "application/json"
_TRUSTED: Final = {"type": "boolean", "enum": [True], "description": "Always true."}
_WHERE: Final = {
    "type": "array",
    "items": {"type": "string"},
    "description": "Conditions on metadata, which must all hold: team=payments, floor>=2, day<2024-05-01, team!=gates.",
}
_QUESTION: Final = {"type": "string", "description": "The question, in plain words."}
_AS_OF: Final = {"type": "string", "description": "Answer with what held then, such as 2024-05-01."}
_TYPES: Final = {"type": "array", "items": {"type": "string"}}
_FILTERS: Final = {
    "type": "object",
    "required": ["trusted_only"],
    "properties": {
        "trusted_only": _TRUSTED,
        "metadata": _WHERE,
        "entity_types": {**_TYPES, "description": "Only records of these entity types."},
    },
}


def gateway_document(url: str) -> str:
    """Return the document for a Braid that is deployed at a URL.

    Raises InvalidRequest if the URL does not begin with ``https://``, which gateways require.
    """
    if urlsplit(url).scheme != "https" or not urlsplit(url).hostname:
        raise InvalidRequest.of("url", "must begin with https:// and name a host, for a gateway to reach it")
    paths = {
        "/search": _asked(
            "search",
            "Answer a question with ranked, cited passages, found by meaning, by words and along the knowledge graph. "
            "Each result has its text (content), its id to cite it by, and the path that led to it. A low confidence "
            "means that the answer may not be stored.",
            {
                "text": _QUESTION,
                "filters": _FILTERS,
                "top_k": {"type": "integer", "minimum": 1, "maximum": 50, "description": "Most results."},
                "as_of": _AS_OF,
            },
            required=["text", "filters"],
        ),
        "/context": _asked(
            "buildContext",
            "Choose what is worth reading before answering: passages, earlier decisions and tool calls, in fences "
            "that tell them from instructions.",
            {"query": _QUESTION, "metadata": _WHERE, "as_of": _AS_OF},
            required=["query"],
        ),
        "/entities/{entity_id}/related": {
            "get": {
                "operationId": "getRelated",
                "description": "List the entities that stand in relation to one, the nearest first, and the paths.",
                "parameters": [
                    _parameter("entity_id", "path", {"type": "string"}, "Name, alias or id of an entity."),
                    _parameter("trusted_only", "query", _TRUSTED, "Always true.", required=True),
                    _parameter("depth", "query", {"type": "integer", "minimum": 1, "maximum": 3}, "Most steps away."),
                    _parameter("limit", "query", {"type": "integer", "minimum": 1, "maximum": 200}, "Most entities."),
                ],
                "responses": _ANSWERED,
            }
        },
    }
    info = {"title": "Braid", "version": __version__, "description": "Questions to documents and a knowledge graph."}
    document = {"openapi": "3.0.3", "info": info, "servers": [{"url": url.rstrip("/")}], "paths": paths}
    return json.dumps(document, indent=1)


_ANSWERED: Final = {"200": {"description": "The answer.", "content": {_JSON: {"schema": {"type": "object"}}}}}


def _asked(name: str, description: str, fields: dict[str, Any], *, required: list[str]) -> dict[str, Any]:
    """Return a POST operation with a JSON body of these fields."""
    schema = {"type": "object", "required": required, "properties": fields}
    return {
        "post": {
            "operationId": name,
            "description": description,
            "requestBody": {"required": True, "content": {_JSON: {"schema": schema}}},
            "responses": _ANSWERED,
        }
    }


def _parameter(
    name: str, place: str, schema: dict[str, Any], description: str, *, required: bool = False
) -> dict[str, Any]:
    given = required or place == "path"
    return {"name": name, "in": place, "required": given, "schema": schema, "description": description}
