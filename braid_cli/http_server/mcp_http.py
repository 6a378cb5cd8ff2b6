"""The MCP tools over HTTP: token verification, and the store of each caller."""

from __future__ import annotations

import hashlib
import secrets
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from braid import Braid
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from starlette.routing import Route

from braid_cli.http_server.connections import configured
from braid_cli.mcp_server import make_server

if TYPE_CHECKING:
    from collections.abc import Callable

    import uvicorn

MAX_CALLERS: Final = 64
"""Limit of cached clients of a deployed Braid, one for each token."""
MAX_BYTES: Final = 2_000_000
"""Size limit of a request's body."""


class OneToken:
    """Token verifier that accepts one token."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the access of the token; None if it is not the accepted one."""
        return _holder(token) if secrets.compare_digest(token.encode(), self._token) else None


class AnyToken:
    """Token verifier that accepts any token, because the deployed Braid verifies it."""

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the access of the token; None if it is empty. Blanks around it make no other caller of its holder."""
        return _holder(own) if (own := token.strip()) else None


def _holder(token: str) -> AccessToken:
    return AccessToken(token=token, client_id=hashlib.sha256(token.encode()).hexdigest(), scopes=[])


def of_callers(url: str, tenant: str | None) -> Callable[[], Braid]:
    """Return a function that returns the current caller's client of a deployed Braid, with the caller's own token."""
    deployed = lru_cache(MAX_CALLERS)(lambda token: Braid.deployed(url, token, tenant=tenant))

    def store() -> Braid:
        caller = get_access_token()
        return deployed(caller.token if caller else "")

    return store


def mcp_over_http(
    store: Callable[[], Braid], verifier: OneToken | AnyToken, *, may_add: bool = False
) -> uvicorn.Config:
    """Return uvicorn's configuration for serving the tools at ``/mcp``, on this machine only.

    The server is stateless: there are no sessions, and only POST is allowed, as there is nothing to stream over the
    connection that a GET would keep open. Requests with a Host header that is not a loopback name are refused, against
    DNS rebinding by web pages.
    """
    server = make_server(store, may_add=may_add, verifier=verifier)
    application = server.streamable_http_app(stateless_http=True, json_response=True, max_request_body_size=MAX_BYTES)
    for route in application.routes:
        if isinstance(route, Route):
            route.methods = {"POST"}
    return configured(application, lifespan="on")
