"""The front door over the demo corpus: requests as API Gateway sends them, without a server."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from braid.api.handler import make_handler

from braid_cli.state_machine.invoke_endpoint import LocalContext

if TYPE_CHECKING:
    from collections.abc import Mapping

    from braid.api.router import Library

WRITER = "saltmarrow"
SAMPLE: dict[str, Any] = json.loads(Path(__file__).with_name("http_api_event.json").read_text(encoding="utf-8"))
"""As ``sam local generate-event apigateway http-api-proxy`` writes it."""
_OF_SOME = frozenset(
    {"authentication", "authorizer", "body", "cookies", "pathParameters", "queryStringParameters", "stageVariables"}
)
"""What only some requests have."""


@dataclass(frozen=True)
class Answered:
    """What the function answered."""

    status: int
    headers: dict[str, str]
    text: str

    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def problem(self) -> str:
        """The kind of problem, without its prefix."""
        assert self.headers["Content-Type"] == "application/problem+json"
        body = self.json()
        assert body["status"] == self.status
        return str(body["type"]).removeprefix("urn:braid:problem:")

    @property
    def fields(self) -> list[str]:
        """The fields that a problem names."""
        return [error["field"] for error in self.json().get("errors", [])]


def claims(tenant: object = WRITER, sub: str = "ada") -> dict[str, Any]:
    """Return what API Gateway's authorizer adds for a verified token."""
    return {"jwt": {"claims": {"sub": sub, "tenant_id": tenant}, "scopes": None}}


def jwt(tenants: object, sub: str = "ada") -> str:
    """Return a token as an identity provider makes it, whose signature somebody else has verified."""
    parts = ({"alg": "RS256"}, {"sub": sub, "tenant_id": tenants})
    return ".".join([*(base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts), "c2ln"])


def event(
    method: str,
    path: str,
    body: Any = None,
    *,
    raw: str | bytes | None = None,
    query: Mapping[str, Any] | str = "",
    headers: Mapping[str, str] | None = None,
    authorizer: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return an event of API Gateway's HTTP API, format 2.0: AWS's own sample, with what this request is instead."""
    query = query if isinstance(query, str) else urlencode(query, doseq=True)
    parameters: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        parameters[name] = f"{parameters[name]},{value}" if name in parameters else value
    text = json.dumps(body) if raw is None and body is not None else raw
    has_body = text is not None
    encoded = isinstance(text, bytes)
    context = {name: value for name, value in SAMPLE["requestContext"].items() if name not in _OF_SOME}
    return {
        **{name: value for name, value in SAMPLE.items() if name not in _OF_SOME},
        "rawPath": path,
        "rawQueryString": query,
        "headers": {**({"content-type": "application/json"} if has_body else {}), **(headers or {})},
        **({"queryStringParameters": parameters} if parameters else {}),
        "requestContext": {
            **context,
            "http": {**context["http"], "method": method, "path": path, "sourceIp": "192.0.2.1"},
            "requestId": "request-1",
            **({} if authorizer is None else {"authorizer": dict(authorizer)}),
        },
        **({"body": base64.b64encode(text).decode() if isinstance(text, bytes) else text} if has_body else {}),
        "isBase64Encoded": encoded,
    }


class FrontDoor:
    """Asks the function itself."""

    def __init__(self, library: Library) -> None:
        self.handler = make_handler(library)

    def ask(self, method: str, path: str, body: Any = None, **options: Any) -> Answered:
        """Send one request, as a writer of the demo's tenant unless it says otherwise."""
        options.setdefault("authorizer", claims())
        return self.send(event(method, path, body, **options))

    def send(self, event: dict[str, Any]) -> Answered:
        answer = self.handler(event, LocalContext("search_api"))  # type: ignore[arg-type]
        assert not answer.get("isBase64Encoded")
        return Answered(answer["statusCode"], dict(answer["headers"]), answer["body"])
