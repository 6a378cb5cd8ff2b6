"""Errors of a deployed Braid's client: refusals of the server, and failed connections."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING

import urllib3
from pydantic import ValidationError

from braid.api.problems import MEDIA_TYPE, ProblemDetails
from braid.errors import BraidError, InvalidRequest

if TYPE_CHECKING:
    from braid.ports.ingestion import WriteRequest


class ApiError(BraidError):
    """The server refused the request, failed, or could not be reached.

    Attributes
    ----------
    status
        HTTP status; 0 if there was no response.
    problem
        The response's problem details; None if it has none.
    """

    def __init__(self, message: str, *, status: int = 0, problem: ProblemDetails | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.problem = problem


class RefusedFields(InvalidRequest):
    """The server refused fields of a request; ``problem`` names each."""

    def __init__(self, message: str, problem: ProblemDetails) -> None:
        super().__init__(message, field=problem.errors[0].field)
        self.problem = problem

    def at(self, request: WriteRequest) -> InvalidRequest:
        """Return the error with each item's place in the caller's content, instead of its number in the request."""
        clauses, first = [], None
        for error in self.problem.errors:
            what, _, rest = error.field.partition(".")
            number, _, field = rest.partition(".")
            place = request.place(what, int(number)) if number.isdigit() else error.field
            clauses.append(": ".join(filter(None, (place, field, error.detail))))
            first = first or field or error.field
        return InvalidRequest("\n".join(clauses), field=first)


def unreachable(error: urllib3.exceptions.HTTPError) -> str:
    """Return why there was no answer, in words; urllib3's own name many addresses and objects."""
    match reason := getattr(error, "reason", None) or error:
        case urllib3.exceptions.NameResolutionError():
            return "no such host; is the address right?"
        case urllib3.exceptions.SSLError():
            return "its certificate cannot be verified"
        case urllib3.exceptions.NewConnectionError():
            return "nothing answers there; is it running, and the address right?"
        case urllib3.exceptions.TimeoutError():
            return "no answer in time; `timeout_s` may be longer"
    return type(reason).__name__


def error_of_answer(answer: urllib3.BaseHTTPResponse, content: bytes) -> ApiError | InvalidRequest:
    """Return the error of an answer that reports one, in the server's words where they are problem details."""
    try:
        if answer.headers.get("Content-Type", "").startswith(MEDIA_TYPE):
            problem = ProblemDetails.model_validate_json(content)
            fields = "; ".join(f"{error.field}: {error.detail}" for error in problem.errors)
            message = fields or problem.detail or problem.title
            if problem.errors and answer.status == HTTPStatus.UNPROCESSABLE_ENTITY:
                return RefusedFields(message, problem)
            return ApiError(message, status=answer.status, problem=problem)
        said = json.loads(content).get("message")
    except (ValidationError, ValueError, AttributeError, RecursionError):
        said = None
    return ApiError(f"HTTP {answer.status}{f': {said}' if said else ''}", status=answer.status)
