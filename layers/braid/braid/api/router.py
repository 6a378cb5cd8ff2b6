"""Powertools' router for API Gateway's HTTP API, as several threads may use it: one each.

Powertools keeps the request that it is routing in attributes of a class, as a Lambda function answers one at a time. A
server on a laptop answers several, so here each router keeps its own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEventV2

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from re import Pattern

    from aws_lambda_powertools.event_handler.api_gateway import Route
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from braid.api.auth import Caller
    from braid.api.quotas import Quotas
    from braid.ingestion.deleting import DeleteReport
    from braid.models import Answer, Query
    from braid.ports.cache import ResilientCache
    from braid.ports.imports import Imports
    from braid.ports.ingestion import WriteReport, WriteRequest
    from braid.ports.knowledge_graph import KnowledgeGraph
    from braid.ports.members import MembershipStore
    from braid.ports.schema_registry import SchemaRegistry
    from braid.ports.search_index import SearchIndex
    from braid.reembedding import Job
    from braid.retrieval.context.selection import Context, ContextRequest
    from braid.settings import Settings


class Library(Protocol):
    """What the routes ask; :class:`braid.app.Wired` is one."""

    @property
    def settings(self) -> Settings:
        """Every number and address."""

    @property
    def index(self) -> SearchIndex:
        """The search index."""

    @property
    def graph(self) -> KnowledgeGraph:
        """The knowledge graph."""

    @property
    def schemas(self) -> SchemaRegistry:
        """The schema versions of each tenant."""

    @property
    def cache(self) -> ResilientCache:
        """The cache; a lost one is a miss."""

    @property
    def members(self) -> MembershipStore:
        """Who may ask for which tenant."""

    @property
    def quotas(self) -> Quotas:
        """What tenants have used of their quotas."""

    def answer(self, query: Query) -> Answer:
        """Answer a question."""

    def write(self, request: WriteRequest) -> WriteReport:
        """Write records and what relates them."""

    def delete(self, tenant_id: str, ids: Sequence[str]) -> DeleteReport:
        """Remove records for good."""

    def reembed(self, tenant_id: str) -> Job:
        """Begin to embed again what is outdated, or go on."""

    @property
    def imports(self) -> Imports:
        """What writes objects while nobody waits."""

    def cursor_key(self) -> bytes:
        """Return the key that cursors are signed with."""

    @property
    def front_key(self) -> Callable[[], bytes] | None:
        """What returns the key that a firewall in front adds to requests; None where they may come by any way."""

    def context(self, request: ContextRequest) -> Context:
        """Build the context of the next answer."""

    def cache_counts(self) -> dict[str, int]:
        """Return how often each cache was hit and missed since this was last asked, by the names of the metrics."""

    def now(self) -> datetime:
        """Return the present moment, in UTC."""


class Api(APIGatewayHttpResolver):
    """The routes, and the one request that this thread is answering."""

    def __init__(self, library: Library) -> None:
        super().__init__(enable_validation=True)
        self.library = library
        self._caller: Caller | None = None
        self.counted: int | None = None
        """Items or ids that the request sends or lists, once a route knows; for the audit log."""
        self.exception_handler(Exception)(_raise)

    @property
    def caller(self) -> Caller:
        """Who asks, on a route that nobody may use unknown."""
        if self._caller is None:
            message = "this route answers anyone, and has no caller"
            raise LookupError(message)
        return self._caller

    @property
    def tenant_id(self) -> str:
        """The caller's tenant."""
        return self.caller.tenant_id

    def respond(self, event: Mapping[str, Any], context: LambdaContext, caller: Caller | None) -> dict[str, Any]:
        """Route one request and return its answer in API Gateway's format.

        Raises
        ------
        Exception
            Whatever a route raises; :class:`NotFoundError` and :class:`RequestValidationError` of Powertools' own.
        """
        # Set on the instance they hide the class's, which another thread may overwrite.
        self.current_event = APIGatewayProxyEventV2(dict(event))
        self.lambda_context = context
        self._caller = caller
        try:
            return self.resolve(event, context)
        finally:
            self._caller = None

    def place(self, path: str) -> str | None:
        """Return the rule that a path belongs to, such as ``/traces/<trace_id>``; None when it is of none."""
        return next((route.path for route in self._routes() if route.rule.match(path)), None)

    def methods(self, path: str) -> tuple[str, ...]:
        """Return the methods that a path answers."""
        return tuple(sorted({route.method for route in self._routes() if route.rule.match(path)}))

    def parameters(self, method: str, path: str) -> frozenset[str]:
        """Return the names of the query parameters that a path reads."""
        return frozenset(field.alias for field in self._route(method, path).dependant.query_params)

    def writes(self, method: str, path: str) -> bool:
        """Whether a path changes what is stored."""
        return method != "GET" and "write" in (self._route(method, path).tags or ())

    def _route(self, method: str, path: str) -> Route:
        return next(route for route in self._routes() if route.method == method and route.rule.match(path))

    def _routes(self) -> list[Route]:
        return self._static_routes + self._dynamic_routes

    @staticmethod
    def _compile_regex(rule: str, base_regex: str = "^{}$") -> Pattern[str]:  # noqa: ARG004 - the base class's
        """Compile a rule whose ids may hold any character: Powertools' own stops at ``#``, ``?`` and ``/``.

        API Gateway decodes a path before the function sees it, so that an id with a slash in it is several parts of
        the path by then.
        """
        return re.compile(re.sub(r"<(\w+)>", r"(?P<\1>.+)", re.escape(rule)) + r"\Z", re.DOTALL)


def _raise(error: Exception) -> NoReturn:
    """Leave every error to the handler: Powertools would log it with its message, which may quote what was asked."""
    raise error
