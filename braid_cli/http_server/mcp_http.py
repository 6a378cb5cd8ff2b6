"""The tools for agents over HTTP: who is let in, and whose store answers them."""

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
"""Connections to a deployed Braid that are kept, one a token."""
MAX_BYTES: Final = 2_000_000
"""Of a request's body."""


class OneToken:
    """Lets in whoever has one token."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return who has the token; None of any other."""
        return _holder(token) if secrets.compare_digest(token.encode(), self._token) else None


class AnyToken:
    """Lets in whoever has a token, as the deployed Braid that is asked with it verifies it."""

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return who has the token."""
        return _holder(token) if token else None


def _holder(token: str) -> AccessToken:
    return AccessToken(token=token, client_id=hashlib.sha256(token.encode()).hexdigest(), scopes=[])


def of_callers(url: str, tenant: str | None) -> Callable[[], Braid]:
    """Return what finds the deployed Braid as whoever asks may use it: by the token that came with the request."""
    deployed = lru_cache(MAX_CALLERS)(lambda token: Braid.deployed(url, token, tenant=tenant))

    def store() -> Braid:
        caller = get_access_token()
        return deployed(caller.token if caller else "")

    return store


def mcp_over_http(
    store: Callable[[], Braid], verifier: OneToken | AnyToken, *, may_add: bool = False
) -> uvicorn.Config:
    """Return how the tools are served at ``/mcp``, to programs on this machine.

    No request depends on an earlier one, so that none holds a session, and nobody listens for what no request asked:
    such a connection would stay open with nothing to say. A request by another name of this machine, as pages of the
    web make them by rebinding a name of theirs, is refused.
    """
    server = make_server(store, may_add=may_add, verifier=verifier)
    application = server.streamable_http_app(stateless_http=True, json_response=True, max_request_body_size=MAX_BYTES)
    for route in application.routes:
        if isinstance(route, Route):
            route.methods = {"POST"}
    return configured(application, lifespan="on")
