"""Routes about the API itself: the caller's access, health, the OpenAPI document, the explorer page."""

from __future__ import annotations

import threading
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Final

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Path as InPath

from braid.api.authorisation import ACCESS_PATH, HEALTH_PATH, roles
from braid.api.openapi import document
from braid.api.problems import not_found
from braid.api.schemas import Access, Health, TenantAccess
from braid.settings import Membership
from braid.version import __version__

if TYPE_CHECKING:
    from braid.api.router import Api

MEDIA_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
PAGE_HEADERS: Final = {
    "Cache-Control": "no-cache",
    # The page connects to this server only, and runs no inline scripts.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
_DOCUMENT: Final[list[str]] = []
"""The OpenAPI document, once it has been generated."""
_GENERATING: Final = threading.Lock()


def add_service_routes(api: Api) -> None:
    """Add the routes; all except ``/access`` need no authentication."""
    library = api.library

    @api.get(ACCESS_PATH, operation_id="getAccess", summary="List the caller's tenants and roles", tags=["about"])
    def access() -> Access:
        members = library.members if library.settings.membership is Membership.STORE else None
        return Access(
            tenant_id=api.tenant_id,
            role=api.caller.role,
            tenants=tuple(TenantAccess(tenant_id=name, role=role) for name, role in roles(api.caller, members).items()),
            max_body_bytes=library.settings.api_max_body_bytes,
        )

    @api.get(HEALTH_PATH, operation_id="getHealth", summary="Check health", tags=["about"], security=[])
    def health() -> Health:
        return Health(status="ok", version=__version__)

    @api.get("/openapi.json", summary="The OpenAPI document", tags=["about"], include_in_schema=False)
    def openapi() -> Response[str]:
        return Response(200, "application/json", _document(api))

    @api.get("/", summary="Redirect to the explorer page", tags=["about"], include_in_schema=False)
    def root() -> Response[str]:
        return Response(302, "text/plain", "", headers={"Location": "/explorer", **PAGE_HEADERS})

    @api.get("/explorer", summary="The explorer page", tags=["about"], include_in_schema=False)
    def page() -> Response[str]:
        return _file("index.html")

    @api.get("/explorer/<name>", summary="A file of the explorer page", tags=["about"], include_in_schema=False)
    def page_file(name: Annotated[str, InPath()]) -> Response[str]:
        return _file(name)


def _document(api: Api) -> str:
    """Return the OpenAPI document. It is slow to generate, so each process does it once; all its routers are equal."""
    with _GENERATING:
        if not _DOCUMENT:
            _DOCUMENT.append(document(api))
    return _DOCUMENT[0]


def _file(name: str) -> Response[str]:
    text = page_files().get(name)
    if text is None:
        raise not_found("no such file")
    return Response(200, MEDIA_TYPES[name.rpartition(".")[2]], text, headers=dict(PAGE_HEADERS))


@cache
def page_files() -> dict[str, str]:
    """Return the files of the explorer page by name; no others are served."""
    folder = resources.files("braid.api").joinpath("page")
    return {
        entry.name: entry.read_text(encoding="utf-8")
        for entry in folder.iterdir()
        if entry.name.rpartition(".")[2] in MEDIA_TYPES
    }
