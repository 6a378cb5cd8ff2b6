"""Errors as RFC 9457 problem details, without internal details."""

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
    QueueFull,
    QuotaExceeded,
    StoresUnavailable,
    StoreTooSlow,
    TenantBeingDeleted,
    TransientStoreError,
    UnknownTenant,
    near_field,
    plainly,
)
from braid.models import Frozen

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

MEDIA_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:braid:problem:"
RETRY_AFTER_S: Final = 1
"""Default of the Retry-After header."""
MAX_PART: Final = 256
"""Limit of each part of a field's path, in characters; the caller may have chosen its name."""
MAX_SHOWN: Final = 100
"""Limit of fields that one problem names; a body may have 100,000 invalid ones."""


class FieldProblem(Frozen):
    """An error of one field of a request."""

    field: str
    """Path of the field, such as ``filters.time_range.start``."""
    detail: str


class ProblemDetails(Frozen):
    """Problem details of RFC 9457, with the invalid fields."""

    type: str = Field(description="Stable name of the kind of problem.")
    title: str
    status: int
    detail: str | None = None
    errors: tuple[FieldProblem, ...] = Field(default=(), description="The invalid fields, if there are any.")


class Problem(Exception):
    """An error response.

    Parameters
    ----------
    kind
        Name of the problem, which follows ``urn:braid:problem:`` in its type.
    headers
        Further headers of the response.
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
        """Return the response in API Gateway's format."""
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
    """Return the problem of a malformed body."""
    return Problem(HTTPStatus.BAD_REQUEST, "malformed-body", detail)


def unauthenticated() -> Problem:
    """Return the problem of a request without a valid token; it does not say why the token is invalid."""
    return Problem(
        HTTPStatus.UNAUTHORIZED,
        "unauthenticated",
        "a valid token is needed: Authorization: Bearer TOKEN",
        headers={"WWW-Authenticate": "Bearer"},
    )


def not_found(what: str) -> Problem:
    """Return the problem of an item that does not exist or is another tenant's; the caller cannot tell which."""
    return Problem(HTTPStatus.NOT_FOUND, "not-found", what)


def too_large(limit_bytes: int) -> Problem:
    """Return the problem of a body above the size limit."""
    return Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", f"the body may be {limit_bytes:,} bytes long")


def too_many(detail: str, *, retry_after_s: int | None = RETRY_AFTER_S) -> Problem:
    """Return the problem of an exceeded quota; ``retry_after_s`` is None if waiting does not help."""
    return Problem(HTTPStatus.TOO_MANY_REQUESTS, "too-many-requests", detail, headers=_retry_after(retry_after_s))


def unavailable(detail: str, *, retry_after_s: int | None = RETRY_AFTER_S) -> Problem:
    """Return the problem of an unavailable service; ``retry_after_s`` is None if waiting does not help."""
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", detail, headers=_retry_after(retry_after_s))


def _retry_after(seconds: int | None) -> dict[str, str]:
    return {} if seconds is None else {"Retry-After": str(seconds)}


def internal() -> Problem:
    """Return the problem of an internal error, whose details are in the log only."""
    return Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", "the request failed; it has been logged")


def first_of_many(errors: int) -> str:
    """Return the end of a problem's detail if it does not name all of its errors; empty if it does."""
    return f"; the first {MAX_SHOWN} of {errors:,} are named" if errors > MAX_SHOWN else ""


def from_validation(errors: Sequence[Mapping[str, Any]], known: Collection[str] = ()) -> Problem:
    """Return the problem of pydantic's validation errors, without echoing the input.

    Parameters
    ----------
    known
        Names of the fields that the body or the query may have, as of :func:`braid.errors.near_field`, which suggests
        one for the first field if that is unknown: one only, as a body may have a thousand.
    """
    shown = errors[:MAX_SHOWN]
    suggested = ""
    if shown and shown[0]["type"] == "extra_forbidden":
        suggested = near_field(_within_request(shown[0]["loc"]), known)
    fields = tuple(
        FieldProblem(field=_place(error["loc"]), detail=f"{plainly(error)}{'' if number else suggested}")
        for number, error in enumerate(shown)
    )
    detail = f"fields of the request are wrong{first_of_many(len(errors))}"
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", detail, errors=fields)


def from_error(error: BraidError) -> Problem:  # noqa: PLR0911 - one return for each kind of error
    """Return the problem of an error of the library.

    For an invalid request it names the field; for a failed store it tells only whether a retry may help.
    """
    match error:
        case InvalidRequest():
            told, field = str(error), error.field
            fields = [FieldProblem(field=field, detail=told.removeprefix(f"{field}: "))] if field else []
            return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", told, errors=fields)
        case UnknownTenant():
            return not_found("nothing is stored for this tenant")
        case TenantBeingDeleted():
            return Problem(HTTPStatus.CONFLICT, "tenant-being-deleted", str(error))
        case ObjectMissing():
            return not_found("there is no such object")
        case ObjectChanged():
            return Problem(HTTPStatus.CONFLICT, "conflict", "the object was changed while it was read")
        case QuotaExceeded() | QueueFull():
            refused = too_many if isinstance(error, QuotaExceeded) else unavailable
            return refused(str(error), retry_after_s=error.retry_after_s)
        case StoresUnavailable():
            detail = "neither the search index nor the knowledge graph answered"
            return unavailable(detail, retry_after_s=None if error.permanent else RETRY_AFTER_S)
        case StoreTooSlow():
            detail = "the request took longer than one may; ask for less, or write less at a time"
            return Problem(HTTPStatus.GATEWAY_TIMEOUT, "timeout", detail)
        case TransientStoreError():
            return unavailable("a store or model did not answer in time")
        case _:
            # Read-only, full, damaged or misconfigured: the log has the cause, for the operator.
            return unavailable("a store or model cannot be used", retry_after_s=None)


def _place(location: Sequence[str | int]) -> str:
    """Return the path of a field, without ``body``, ``query``, ``path`` or ``header`` in front."""
    return ".".join(str(part)[:MAX_PART] for part in _within_request(location)) or "body"


def _within_request(location: Sequence[str | int]) -> Sequence[str | int]:
    return location[1:] if location[0] in {"body", "query", "path", "header"} else location
