"""Generates the OpenAPI document from the routes; ``braid_cli.openapi`` writes it to ``shared/openapi.json``.

``braid_cli.agent_gateway_openapi`` makes another one of it, for gateways of agents.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.event_handler.openapi.models import HTTPBearer

from braid.api.authorisation import is_open
from braid.api.problems import MEDIA_TYPE, ProblemDetails
from braid.version import __version__

if TYPE_CHECKING:
    from braid.api.router import Api

PROBLEMS = {
    "400": "The request is malformed: its headers or its query are too long, or its body is not JSON.",
    "401": "No valid token.",
    "403": "The caller is not a member of the tenant, or may only read.",
    "404": "Not found.",
    "409": "Conflict with an existing item, an equal request is in progress, or the tenant is being deleted.",
    "413": "The body is too long.",
    "415": "The body is not application/json.",
    "422": "Fields are invalid; the response names them.",
    "429": "Too many concurrent requests, or the tenant's quota is exceeded.",
    "503": "A store did not answer, or the server is busy.",
    "504": "The request exceeded its time limit.",
}
_MAY_CONFLICT = frozenset({"registerSchema", "writeRecords", "importRecords", "addDocument"})
_WITH_BODY = frozenset({"413", "415"})
_WITHOUT_AUTHENTICATION = frozenset({"400", "422", "429", "503"})
_DESCRIPTION = (
    "Hybrid retrieval: answers a question with one ranked and cited list, from vectors, words and a knowledge graph. "
    "The tenant comes from the verified token; a caller who belongs to several selects one by the header Braid-Tenant."
)


_TENANT_HEADER = {
    "name": "Braid-Tenant",
    "in": "header",
    "required": False,
    "description": "Tenant of the request; required if the caller belongs to several.",
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},
}


def document(api: Api) -> str:
    """Return the OpenAPI document as JSON with sorted keys."""
    schema = json.loads(
        api.get_openapi_json_schema(
            title="Braid",
            version=__version__,
            description=_DESCRIPTION,
            security_schemes={"bearer": HTTPBearer(bearerFormat="JWT")},
            security=[{"bearer": []}],
        )
    )
    schema.pop("servers", None)
    for unused in ("HTTPValidationError", "ResponseValidationError", "ValidationError"):
        schema["components"]["schemas"].pop(unused, None)
    schema["components"]["schemas"]["ProblemDetails"] = _problem_schema(schema)
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            if is_open(path):
                # Powertools leaves an empty list out, and the default of the whole document would apply.
                operation["security"] = []
            else:
                operation.setdefault("parameters", []).append(_TENANT_HEADER)
            _describe_problems(operation)
    return json.dumps(schema, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _problem_schema(schema: dict[str, Any]) -> dict[str, Any]:
    problem = ProblemDetails.model_json_schema(ref_template="#/components/schemas/{model}")
    schema["components"]["schemas"].update(problem.pop("$defs"))
    return problem


def _describe_problems(operation: dict[str, Any]) -> None:
    """Set the error responses of a route, in place of the defaults of Powertools."""
    is_public = operation.get("security") == []
    responses = {code: answer for code, answer in operation["responses"].items() if code != "422"}
    for code, description in PROBLEMS.items():
        if code == "409" and operation["operationId"] not in _MAY_CONFLICT:
            continue
        if (is_public and code not in _WITHOUT_AUTHENTICATION) or (
            code in _WITH_BODY and "requestBody" not in operation
        ):
            continue
        content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
        responses[code] = {"description": description, "content": content}
    operation["responses"] = responses
