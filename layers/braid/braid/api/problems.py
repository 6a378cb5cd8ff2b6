"""Errors as RFC 9457 problem details: what went wrong, in one format, and never more than the caller may know."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from braid.errors import (
    BraidError,
    InvalidRequest,
    ObjectChanged,
    ObjectMissing,
    StoresUnavailable,
    StoreTooSlow,
    TransientStoreError,
    UnknownTenant,
    plainly,
)
from braid.models import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MEDIA_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:braid:problem:"
RETRY_AFTER_S: Final = 1
"""What a caller is asked to wait when trying again may help."""


class FieldProblem(Frozen):
    """What is wrong with one field."""

    field: str
    """Its place, such as ``filters.time_range.start``."""
    detail: str


class ProblemDetails(Frozen):
    """RFC 9457, with the fields that are wrong."""

    type: str = Field(description="What kind of problem it is; a stable name.")
    title: str
    status: int
    detail: str | None = None
    errors: tuple[FieldProblem, ...] = Field(default=(), description="The fields that are wrong, where any are.")


class Problem(Exception):
    """An answer that is an error.

    Parameters
    ----------
    status
        HTTP status.
    kind
        What follows ``urn:braid:problem:``.
    detail
        One sentence for whoever reads it.
    errors
        Fields that are wrong.
    headers
        Headers of the answer, beside its type.
    """

    def __init__(
        self,
        status: HTTPStatus,
        kind: str,
        detail: str | None = None,
        *,
        errors: Iterable[FieldProblem] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(kind)
        self.status = status
        self.kind = kind
        self.headers = dict(headers or {})
        self.details = ProblemDetails(
            type=f"{TYPE_PREFIX}{kind}",
            title=kind.replace("-", " ").capitalize(),
            status=status.value,
            detail=detail,
            errors=tuple(errors),
        )

    def response(self) -> dict[str, Any]:
        """Return the answer in API Gateway's format."""
        body = self.details.model_dump(mode="json", exclude_none=True, exclude={"errors"})
        if self.details.errors:
            body["errors"] = [error.model_dump() for error in self.details.errors]
        headers = {"Content-Type": MEDIA_TYPE, "Cache-Control": "no-store", **self.headers}
        return {
            "statusCode": self.status.value,
            "headers": headers,
            "body": json.dumps(body),
            "isBase64Encoded": False,
        }


def malformed(detail: str) -> Problem:
    """Return the problem of a body that cannot be read."""
    return Problem(HTTPStatus.BAD_REQUEST, "malformed-body", detail)


def unauthenticated() -> Problem:
    """Return the problem of a request without a valid token; which of them it is, is not said."""
    return Problem(
        HTTPStatus.UNAUTHORIZED,
        "unauthenticated",
        "a valid token is needed: Authorization: Bearer TOKEN",
        headers={"WWW-Authenticate": "Bearer"},
    )


def not_found(what: str) -> Problem:
    """Return the problem of something that is not there, or not this tenant's: nobody can tell which."""
    return Problem(HTTPStatus.NOT_FOUND, "not-found", what)


def too_large(limit_bytes: int) -> Problem:
    """Return the problem of a body that is longer than is read."""
    return Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", f"the body may be {limit_bytes:,} bytes long")


def too_many(detail: str) -> Problem:
    """Return the problem of a caller who asks more at once than is allowed."""
    return Problem(
        HTTPStatus.TOO_MANY_REQUESTS, "too-many-requests", detail, headers={"Retry-After": str(RETRY_AFTER_S)}
    )


def unavailable(detail: str) -> Problem:
    """Return the problem of a request that may be answered later."""
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", detail, headers={"Retry-After": str(RETRY_AFTER_S)})


def internal() -> Problem:
    """Return the problem of a fault that is ours; the log says more."""
    return Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", "the request failed; it has been logged")


def from_validation(errors: Sequence[Mapping[str, Any]]) -> Problem:
    """Return the problem of fields that are wrong, as pydantic reports them; what was sent is not echoed."""
    fields = tuple(FieldProblem(field=_place(error["loc"]), detail=plainly(error)) for error in errors)
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", "fields of the request are wrong", errors=fields)


def from_error(error: BraidError) -> Problem:
    """Return how an error of Braid's is answered.

    A wrong request says which field; of a store's own trouble the caller learns only whether trying again may help.
    """
    match error:
        case InvalidRequest():
            fields = [FieldProblem(field=error.field, detail=_without(error.field, str(error)))] if error.field else []
            return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", str(error), errors=fields)
        case UnknownTenant():
            return not_found("nothing is stored for this tenant")
        case ObjectMissing():
            return not_found("there is no such object")
        case ObjectChanged():
            return Problem(HTTPStatus.CONFLICT, "conflict", "the object was changed while it was read")
        case StoresUnavailable():
            return unavailable("neither the search index nor the knowledge graph answered")
        case StoreTooSlow() | TransientStoreError():
            return unavailable("a store or model did not answer in time")
        case _:
            # Read-only, full, damaged, misconfigured: an operator's to mend, and the log says which.
            return unavailable("a store or model cannot be used")


def _place(location: Sequence[str | int]) -> str:
    """Return where a field stands, without ``body``, ``query`` or ``path`` in front of it."""
    parts = [str(part) for part in location]
    return ".".join(parts[1:] if parts[0] in {"body", "query", "path", "header"} else parts) or "body"


def _without(field: str, message: str) -> str:
    """Return what a message says of its one field."""
    return message.removeprefix(f"{field}: ")
