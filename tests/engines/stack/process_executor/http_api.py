"""HTTP APIs of API Gateway, which LocalStack's free edition lacks: CloudFormation makes them, and requests go by them.

The stack's resources say which route a request takes, whose tokens are let in, and which function is asked, if the
function's policy lets this API do so. Events are those that LocalStack makes for function URLs: the format is one.
"""

from __future__ import annotations

import fnmatch
import json
import re
from typing import TYPE_CHECKING, Any, ClassVar

import requests
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from localstack.aws.connect import connect_to
from localstack.http import Response
from localstack.services.cloudformation.resource_provider import (
    CloudFormationResourceProviderPlugin,
    OperationStatus,
    ProgressEvent,
    ResourceProvider,
)
from localstack.services.edge import ROUTER
from localstack.services.lambda_.invocation.lambda_models import InvocationResult
from localstack.services.lambda_.urlrouter import event_for_lambda_url, lambda_result_to_response
from localstack.utils.aws.arns import parse_arn
from localstack.utils.strings import short_uid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from localstack.http import Request
    from localstack.services.cloudformation.resource_provider import ResourceRequest

HOST = "<api_id>.execute-api.localhost<regex('(:[0-9]+)?'):port>"
FETCH_SECONDS = 10
_made: dict[str, dict[str, Any]] = {}
"""The properties of every resource, by its id."""


class ResourceOfApi(ResourceProvider[dict[str, Any]]):
    """Makes a resource by keeping its properties."""

    SCHEMA: ClassVar = {"primaryIdentifier": ["/properties/Id"]}

    def create(self, request: ResourceRequest[dict[str, Any]]) -> ProgressEvent[dict[str, Any]]:
        """Keep the properties, and take requests from now on."""
        if not _made:
            ROUTER.add("/", _answer, host=HOST, defaults={"path": ""})
            ROUTER.add("/<path:path>", _answer, host=HOST)
        identity = short_uid()
        kind = request.resource_type.rpartition(":")[2]
        # CloudFormation here knows routes and authorizers by ids that are named after them.
        made_here = {"Id": identity, f"{kind}Id": identity, "ApiEndpoint": f"http://{identity}.execute-api.localhost"}
        model = made_here | request.desired_state
        _made[identity] = {"Type": request.resource_type, **model}
        return ProgressEvent(status=OperationStatus.SUCCESS, resource_model=model)

    def delete(self, request: ResourceRequest[dict[str, Any]]) -> ProgressEvent[dict[str, Any]]:
        """Forget the properties."""
        _made.pop(request.previous_state["Id"], None)
        return ProgressEvent(status=OperationStatus.SUCCESS, resource_model={})


class ResourceOfApiPlugin(CloudFormationResourceProviderPlugin):
    """What an entry point names, each for one type of resource."""

    factory = ResourceOfApi

    def load(self, *_args: object, **_kwargs: object) -> None:
        """Do nothing: the class is there."""


class Api(ResourceOfApiPlugin):
    """The API itself."""

    name = "AWS::ApiGatewayV2::Api"


class Authorizer(ResourceOfApiPlugin):
    """Whose tokens are let in."""

    name = "AWS::ApiGatewayV2::Authorizer"


class Integration(ResourceOfApiPlugin):
    """The function that is asked."""

    name = "AWS::ApiGatewayV2::Integration"


class Route(ResourceOfApiPlugin):
    """Which requests go where."""

    name = "AWS::ApiGatewayV2::Route"


class Stage(ResourceOfApiPlugin):
    """Under which name the API is reached; the template's has none."""

    name = "AWS::ApiGatewayV2::Stage"


def _answer(request: Request, api_id: str, **_url: str) -> Response:
    route = _route(api_id, f"{request.method} /{request.path.strip('/')}")
    event = event_for_lambda_url(api_id, request)
    event["routeKey"] = event["requestContext"]["routeKey"] = route["RouteKey"]
    if route["AuthorizationType"] == "JWT":
        claims = _claims(_made[route["AuthorizerId"]]["JwtConfiguration"], request)
        if claims is None:
            return _refused(401, "Unauthorized")
        event["requestContext"]["authorizer"] = {"jwt": {"claims": claims, "scopes": None}}
    elif route["AuthorizationType"] != "NONE":
        return _refused(403, "Forbidden")
    integration = _made[route["Target"].removeprefix("integrations/")]
    assert integration["PayloadFormatVersion"] == event["version"]
    function = integration["IntegrationUri"]
    arn = parse_arn(function)
    client = connect_to(aws_access_key_id=arn["account"], region_name=arn["region"]).lambda_
    policy = json.loads(client.get_policy(FunctionName=function)["Policy"])
    asked_from = f"arn:aws:execute-api:{arn['region']}:{arn['account']}:{api_id}/$default/{route['RouteKey']}"
    if not any(fnmatch.fnmatchcase(asked_from, source) for source in _sources(policy)):
        return _refused(500, "Internal Server Error")
    answer = client.invoke(FunctionName=function, Payload=json.dumps(event))
    if "FunctionError" in answer:
        return _refused(500, "Internal Server Error")
    result = InvocationResult(event["requestContext"]["requestId"], answer["Payload"].read(), False, "")
    return lambda_result_to_response(result)


def _route(api_id: str, asked: str) -> Mapping[str, Any]:
    """Return the route of a request: of this path, of one with a part left open, or of all others."""
    of_api = (each for each in _made.values() if each["Type"] == Route.name and each["ApiId"] == api_id)
    routes = {each["RouteKey"]: each for each in of_api}
    open_parts = (key for key in routes if re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(key)), asked))
    return routes.get(asked) or routes[next(open_parts, "$default")]


def _claims(trusted: Mapping[str, Any], request: Request) -> dict[str, str] | None:
    """Return the claims of a request's token as API Gateway writes them, None if it is not to be trusted."""
    issuer = trusted["Issuer"]
    described = requests.get(f"{issuer}/.well-known/openid-configuration", timeout=FETCH_SECONDS).json()
    keys = KeySet.import_key_set(requests.get(described["jwks_uri"], timeout=FETCH_SECONDS).json())
    try:
        claims = jwt.decode(request.headers.get("Authorization", "").removeprefix("Bearer "), keys).claims
        of_issuer = {"essential": True, "value": issuer}
        for_us = {"essential": True, "values": trusted["Audience"]}
        jwt.JWTClaimsRegistry(iss=of_issuer, aud=for_us, exp={"essential": True}).validate(claims)
    except (JoseError, ValueError):
        return None
    return {name: f"[{' '.join(value)}]" if isinstance(value, list) else str(value) for name, value in claims.items()}


def _sources(policy: Mapping[str, Any]) -> Iterator[str]:
    """Yield from which APIs a function may be asked."""
    for statement in policy["Statement"]:
        if statement["Principal"].get("Service") == "apigateway.amazonaws.com" and statement["Effect"] == "Allow":
            yield statement["Condition"]["ArnLike"]["AWS:SourceArn"]


def _refused(status: int, message: str) -> Response:
    return Response(json.dumps({"message": message}), status=status, mimetype="application/json")
