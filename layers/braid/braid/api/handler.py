"""Handles one HTTP request: authentication, body, route, response, and its log lines."""

from __future__ import annotations

import hashlib
import json
import threading
import time
import traceback
from contextlib import nullcontext
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError
from opentelemetry.trace import SpanKind

from braid.api.audit import AuditEntry, audited, open_audit_log
from braid.api.authorisation import (
    ACCESS_PATH,
    TENANT_HEADER,
    Refused,
    authorise,
    check_firewall_key,
    identify,
    is_open,
)
from braid.api.health_and_explorer_routes import add_service_routes
from braid.api.json_bodies import check_body
from braid.api.problems import Problem, from_error, from_validation, internal, not_found
from braid.api.question_routes import add_question_routes
from braid.api.record_routes import add_import_routes, add_record_routes
from braid.api.router import Api
from braid.deadline import within
from braid.errors import BraidError
from braid.lambda_runtime.stage_handlers import RequestLog, send_recorded
from braid.lambda_runtime.warm_up import open_beforehand
from braid.settings import Membership
from braid.telemetry import exporting, names
from braid.telemetry.recording import TRACEPARENT, invocation_trace_headers, operation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aws_lambda_powertools.utilities.typing import LambdaContext

    from braid.api.authorisation import Caller
    from braid.api.router import Library
    from braid.lambda_runtime.stage_handlers import Handler

SERVICE = "search_api"
WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
MAX_RESPONSE_BYTES = 6_000_000
"""Size limit of a body encoded as a JSON string, as Lambda returns it; Lambda's own limit is 6,291,556 bytes."""
ANSWERING_S = 2.0
"""Seconds of a function's remaining time that no request uses, so that it is answered and logged before Lambda ends it.
Of a new container that time also has the start."""


def make_handler(library: Library) -> Handler:
    """Make the Lambda handler of the whole interface; safe to call from several threads.

    Parameters
    ----------
    library
        The services that the routes call.

    Returns
    -------
    Callable
        ``handler(event, context)`` for events of API Gateway's HTTP API, format 2.0. It never raises: errors are
        answered as RFC 9457 problem details.
    """
    exporting.start(SERVICE)
    log = RequestLog(SERVICE)
    audit = open_audit_log(library.settings)
    routers = threading.local()

    def router() -> Api:
        if not hasattr(routers, "api"):
            routers.api = make_api(library)
        api: Api = routers.api
        return api

    # The router of this thread, which in Lambda handles all requests.
    open_beforehand(router)

    def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
        api, request = router(), _Request(event)
        route = api.route_of(request.path)
        parent = invocation_trace_headers(request.event["headers"].get(TRACEPARENT))
        # Method and path of a request that matches no route are arbitrary text, and not put into telemetry.
        method = request.method if request.method in api.methods(request.path) else "_OTHER"
        asked = {names.HTTP_METHOD: method, names.HTTP_ROUTE: route or "unknown"}
        with operation(
            f"{method} {route or 'unknown'}",
            asked,
            duration=names.REQUEST_DURATION,
            kind=SpanKind.SERVER,
            parent=parent,
        ) as running:
            answer = answered(api, request, route, context)
            running.set({names.HTTP_STATUS: answer["statusCode"]})
            if answer["statusCode"] >= HTTPStatus.INTERNAL_SERVER_ERROR:
                running.fail(str(answer["statusCode"]))
        send_recorded()
        return answer

    def answered(api: Api, request: _Request, route: str | None, context: LambdaContext) -> dict[str, Any]:
        started = time.perf_counter()
        request_id = getattr(context, "aws_request_id", None)
        refused: dict[str, str | None] = {}
        try:
            left_s = context.get_remaining_time_in_millis() / 1000 - ANSWERING_S
            with within(min(library.settings.request_timeout_s, left_s)):
                answer = request.respond(api, context)
        except Exception as error:  # noqa: BLE001 - internal errors are answered without details, and logged
            answer = _problem(error, log, request_id).response()
            refused = error.audit if isinstance(error, Refused) else {}
        answer["headers"] = {**answer["headers"], "X-Content-Type-Options": "nosniff", **request.security_headers()}
        if about := audited(request.method, route, answer["statusCode"]):
            caller = request.caller
            who = refused or ({"subject": caller.subject, "tenant_id": caller.tenant_id} if caller else {})
            audit.add(
                AuditEntry(
                    event=about,
                    status=answer["statusCode"],
                    method=request.method,
                    route=route,
                    count=api.counted,
                    source_ip=request.source_ip,
                    request_id=request_id,
                    **who,
                )
            )
        log.done(
            route=route,
            method=request.method,
            status=answer["statusCode"],
            tenant_id=request.caller.tenant_id if request.caller else None,
            request_id=request_id,
            elapsed_ms=(time.perf_counter() - started) * 1000,
            counts=library.cache_counts(),
        )
        return answer

    return handler


def make_api(library: Library) -> Api:
    """Return a router with all routes."""
    api = Api(library)
    add_question_routes(api)
    add_record_routes(api)
    add_import_routes(api)
    add_service_routes(api)
    return api


class _Request:
    """One request, and its caller once authenticated."""

    def __init__(self, event: Mapping[str, Any]) -> None:
        http = event["requestContext"]["http"]
        # API Gateway writes names in lower case; other invokers of the function may not.
        headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
        self.event = {**event, "headers": headers}
        self.method = str(http["method"]).upper()
        self.path = str(event["rawPath"])
        stage = event["requestContext"].get("stage")
        if stage and stage != "$default":
            self.path = self.path.removeprefix(f"/{stage}") or "/"
        self.source_ip = http.get("sourceIp")
        self.caller: Caller | None = None

    def security_headers(self) -> dict[str, str]:
        """Return the security headers of a response over HTTPS; over HTTP they have no effect."""
        if self.event["headers"].get("x-forwarded-proto") != "https":
            return {}
        return {"Strict-Transport-Security": "max-age=31536000"}

    def respond(self, api: Api, context: LambdaContext) -> dict[str, Any]:
        """Return the response."""
        api.counted = None
        check_firewall_key(self.event, api.library.front_key)
        if not is_open(self.path):
            self.caller = self._authorised(api)
        allowed = api.methods(self.path)
        if not allowed:
            raise not_found("no such path")
        if self.method not in allowed:
            raise Problem(
                HTTPStatus.METHOD_NOT_ALLOWED,
                "method-not-allowed",
                f"this path answers {', '.join(allowed)}",
                headers={"Allow": ", ".join(allowed)},
            )
        known = api.parameters(self.method, self.path)
        if unknown := sorted(set(self.event.get("queryStringParameters") or {}) - known):
            errors = [{"loc": ("query", name), "type": "extra_forbidden", "msg": ""} for name in unknown]
            raise from_validation(errors, known)
        if self.caller and api.is_for_writers(self.method, self.path):
            # Before the body is read, so that no time is spent on validating it.
            self.caller.must_write()
        event = {**self.event, "isBase64Encoded": False, "body": None}
        if self.method in WITH_BODY:
            event["body"] = check_body(self.event, limit_bytes=api.library.settings.api_max_body_bytes)
            # Powertools accepts the media type in this spelling only.
            event["headers"] = {**self.event["headers"], "content-type": "application/json"}
        with api.library.quotas.place(self.caller.tenant_id) if self.caller else nullcontext():
            try:
                answer = api.respond(event, context, self.caller)
            except RequestValidationError as error:
                raise from_validation(error.errors(), api.body_fields(self.method, self.path)) from error
        return self._with_tag(_limited(answer))

    def _authorised(self, api: Api) -> Caller:
        settings = api.library.settings
        identity = identify(self.event, tenant_claim=settings.tenant_claim)
        asked = self.event["headers"].get(TENANT_HEADER)
        members = api.library.members if settings.membership is Membership.STORE else None
        return authorise(identity, asked, members, any_tenant=self.path == ACCESS_PATH)

    def _with_tag(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Add an ETag to a successful GET, and answer 304 if the caller has the same response."""
        if self.method != "GET" or answer["statusCode"] != HTTPStatus.OK:
            return answer
        tag = f'"{hashlib.sha256(answer["body"].encode()).hexdigest()[:32]}"'
        headers = {"Cache-Control": "private, no-cache", **answer["headers"], "ETag": tag}
        known = self.event["headers"].get("if-none-match", "")
        if tag in {part.strip().removeprefix("W/") for part in known.split(",")}:
            return {
                "statusCode": HTTPStatus.NOT_MODIFIED.value,
                "headers": headers,
                "body": "",
                "isBase64Encoded": False,
            }
        return {**answer, "headers": headers}


def _limited(answer: dict[str, Any]) -> dict[str, Any]:
    body = answer["body"]
    # A character takes at most twelve bytes, so that the exact size of short bodies need not be computed.
    if len(body) * 12 > MAX_RESPONSE_BYTES and len(json.dumps(body)) > MAX_RESPONSE_BYTES:
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY, "answer-too-large", "the answer is too long to be sent; ask for less"
        )
    return answer


def _problem(error: Exception, log: RequestLog, request_id: str | None) -> Problem:
    """Return the problem of an error, and log internal ones."""
    match error:
        case Problem():
            return error
        case NotFoundError():
            return not_found("no such path")
        case BraidError():
            problem = from_error(error)
            if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                log.failed(type(error).__name__, request_id, reason=str(error))
            return problem
        case _:
            # The place of the error, without its message, which may quote the request.
            log.failed(type(error).__name__, request_id, where=traceback.format_tb(error.__traceback__)[-3:])
            return internal()
