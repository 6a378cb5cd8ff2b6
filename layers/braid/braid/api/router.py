"""Powertools' router for API Gateway's HTTP API, made safe for several threads: one router per thread.

Powertools keeps the current request in attributes of a class, as a Lambda function answers one at a time. A server on a
laptop answers several, so here each router keeps its own. The routes are in ``question_routes.py``,
``record_routes.py`` and ``health_and_explorer_routes.py``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEventV2

from braid.retrieval import tenant_search

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from re import Pattern

    from aws_lambda_powertools.event_handler.api_gateway import Route
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from braid.api.authorisation import Caller
    from braid.api.quotas import Quotas
    from braid.ingestion.deleting import DeleteReport
    from braid.ports.cache import ResilientCache
    from braid.ports.ingestion import Imports, WriteReport, WriteRequest
    from braid.ports.members import MembershipStore
    from braid.ports.object_store import ObjectStore
    from braid.ports.schema_registry import SchemaRegistry
    from braid.reembedding import ReembeddingJob
    from braid.retrieval.context.message_selection import Context, ContextRequest
    from braid.retrieval.use_counts import UseCounts
    from braid.settings import Settings

_Function = TypeVar("_Function", bound="Callable[..., Any]")


class Library(tenant_search.Library, Protocol):
    """The services that the routes call; implemented by :class:`braid.app.Application`."""

    @property
    def settings(self) -> Settings:
        """The settings."""

    @property
    def schemas(self) -> SchemaRegistry:
        """The schema versions of each tenant."""

    @property
    def cache(self) -> ResilientCache:
        """The cache; failures count as misses."""

    @property
    def members(self) -> MembershipStore:
        """The memberships of callers in tenants."""

    @property
    def objects(self) -> ObjectStore:
        """The files of each tenant."""

    @property
    def quotas(self) -> Quotas:
        """The quotas of tenants."""

    @property
    def uses(self) -> UseCounts:
        """Counts of how often records were recently returned or opened."""

    def write(self, request: WriteRequest) -> WriteReport:
        """Write records, vertices and relationships."""

    def delete(self, tenant_id: str, ids: Sequence[str]) -> DeleteReport:
        """Delete records permanently."""

    def reembed(self, tenant_id: str) -> ReembeddingJob:
        """Begin or resume re-embedding of a tenant's outdated records."""

    @property
    def imports(self) -> Imports:
        """Asynchronous imports of objects."""

    def cursor_key(self) -> bytes:
        """Return the key that signs cursors."""

    @property
    def front_key(self) -> Callable[[], bytes] | None:
        """Function that returns the key which the firewall adds to requests; None without a firewall."""

    def context(self, request: ContextRequest) -> Context:
        """Build the context of the next answer."""

    def cache_counts(self) -> dict[str, int]:
        """Return the hits and misses of each cache since the last call, by metric name."""


class Api(APIGatewayHttpResolver):
    """The router, with the current request of its thread."""

    def __init__(self, library: Library) -> None:
        super().__init__(enable_validation=True)
        self.library = library
        self._caller: Caller | None = None
        self._for_writers: set[Callable[..., Any]] = set()
        self.counted: int | None = None
        """Number of items that the request writes, deletes or lists, for the audit log; None until a route sets it."""
        self.exception_handler(Exception)(_raise)

    @property
    def caller(self) -> Caller:
        """The caller, on a route with authentication."""
        if self._caller is None:
            raise LookupError("this route needs no authentication, and so has no caller")
        return self._caller

    @property
    def tenant_id(self) -> str:
        """The caller's tenant."""
        return self.caller.tenant_id

    def respond(self, event: Mapping[str, Any], context: LambdaContext, caller: Caller | None) -> dict[str, Any]:
        """Route one request and return its response in API Gateway's format.

        Raises
        ------
        Exception
            Any error of a route; :class:`NotFoundError` and :class:`RequestValidationError` by Powertools.
        """
        # Attributes of the instance shadow those of the class, which another thread may overwrite.
        self.current_event = APIGatewayProxyEventV2(dict(event))
        self.lambda_context = context
        self._caller = caller
        try:
            return self.resolve(event, context)
        finally:
            self._caller = None

    def route_of(self, path: str) -> str | None:
        """Return the route that a path matches, such as ``/traces/<trace_id>``; None if there is none."""
        return next((route.path for route in self._routes() if route.rule.match(path)), None)

    def methods(self, path: str) -> tuple[str, ...]:
        """Return the HTTP methods of a path."""
        return tuple(sorted({route.method for route in self._routes() if route.rule.match(path)}))

    def parameters(self, method: str, path: str) -> frozenset[str]:
        """Return the names of a route's query parameters."""
        return frozenset(field.alias for field in self._route(method, path).dependant.query_params)

    def body_fields(self, method: str, path: str) -> Mapping[str, Any]:
        """Return pydantic's description of the fields of a route's body, by name; empty for a route without one."""
        body = self._route(method, path).dependant.body_params
        return getattr(body[0].type_, "model_fields", {}) if body else {}

    def is_for_writers(self, method: str, path: str) -> bool:
        """Return whether a route requires the writer role."""
        return self._route(method, path).func in self._for_writers

    def writers_only(self, route: _Function) -> _Function:
        """Mark a route as one that requires the writer role; a decorator."""
        self._for_writers.add(route)
        return route

    def _route(self, method: str, path: str) -> Route:
        return next(route for route in self._routes() if route.method == method and route.rule.match(path))

    def _routes(self) -> list[Route]:
        return self._static_routes + self._dynamic_routes

    @staticmethod
    def _compile_regex(rule: str, base_regex: str = "^{}$") -> Pattern[str]:  # noqa: ARG004 - the base class's
        """Compile a path rule whose parameters match any character; Powertools' own end at ``#``, ``?`` and ``/``.

        API Gateway decodes the path before the function sees it, so that an id with a slash spans several of its
        segments.
        """
        return re.compile(re.sub(r"<(\w+)>", r"(?P<\1>.+)", re.escape(rule)) + r"\Z", re.DOTALL)


def _raise(error: Exception) -> NoReturn:
    """Pass every error on to the handler: Powertools would log its message, which may quote the question."""
    raise error
