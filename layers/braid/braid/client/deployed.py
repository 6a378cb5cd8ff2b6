"""Backend of :class:`braid.client.Braid`: the HTTP API of a deployed Braid, or of `braid serve`."""

from __future__ import annotations

import json
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import urllib3
from opentelemetry.trace import SpanKind
from pydantic import ValidationError

from braid.api.problems import MEDIA_TYPE, ProblemDetails
from braid.api.schemas import (
    Deletes,
    GraphRequest,
    ImportSummary,
    RecordIds,
    RecordPage,
    Reembed,
    ReembedJob,
    Related,
    Stats,
    Writes,
    WriteSummary,
)
from braid.errors import BraidError, InvalidRequest
from braid.ingestion.deleting import DeleteReport
from braid.ingestion.inline_writes import MAX_INLINE
from braid.models import Answer, Frozen, NewRecord, NewRelationship, NewVertex
from braid.ports.graph_query import GraphResult
from braid.ports.ingestion import MissingEnds
from braid.retrieval.context.selection import Context
from braid.retrieval.tenant_questions import nothing_called
from braid.telemetry import names
from braid.telemetry.recording import carried, operation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from braid.api.schemas import RecordSummary
    from braid.client.documents import Added
    from braid.models import Question
    from braid.ports.ingestion import WriteRequest
    from braid.retrieval.context.selection import ContextQuestion

ATTEMPTS: Final = 3
TIMEOUT_S: Final = 30.0
MAX_WAIT_S: Final = 60.0
"""Upper bound on the Retry-After delay that is honoured; the windows of most quotas are a minute."""
MAX_READ_BYTES: Final = 8 << 20
"""Size limit of a decompressed response; servers send at most 6 million bytes."""
_TIMES: Final = 10
"""Time limit of reading a response's body, in multiples of ``timeout_s``."""
_PART_BYTES: Final = 1 << 16
_BUSY: Final = (429, 503)
_Shape = TypeVar("_Shape", bound=Frozen)


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


class _Retry(urllib3.Retry):
    """Retry policy that also retries 409 with ``Retry-After``: an equal request is in progress."""

    RETRY_AFTER_STATUS_CODES = frozenset({*_BUSY, 409})

    def parse_retry_after(self, retry_after: str) -> float:
        return min(super().parse_retry_after(retry_after), MAX_WAIT_S)


class Deployed:
    """Client of one server with one token.

    Parameters
    ----------
    url
        Address of the server, with the path of its stage if it has one.
    token
        Bearer token.
    timeout_s
        Time limit of connecting and of each read, in seconds; a whole response body may take ten times as long.
    attempts
        Maximum of attempts of a request. All requests may be retried: writing the same record again changes nothing.
    """

    items_at_once = MAX_INLINE
    bytes_at_once = 1_000_000
    """A server reads at most two million bytes."""

    def __init__(self, url: str, token: str, *, timeout_s: float = TIMEOUT_S, attempts: int = ATTEMPTS) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s
        # Waits as long as the server asks, up to a minute, or 0, 0.4, 0.8 s.
        self._retries = _Retry(
            total=attempts - 1, status_forcelist=_BUSY, allowed_methods=None, backoff_factor=0.2, backoff_jitter=0.1
        )
        self._pool = urllib3.PoolManager(timeout=urllib3.Timeout(timeout_s), retries=False, maxsize=4)

    def __repr__(self) -> str:
        """Return the server's address, quoted."""
        return repr(self._url)

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    def answer(self, tenant: str | None, question: Question) -> Answer:
        """Answer a question."""
        return self._post(tenant, "/search", question, Answer)

    def context(self, tenant: str | None, question: ContextQuestion) -> Context:
        """Build the context of a model's next answer."""
        return self._post(tenant, "/context", question, Context)

    def related(self, tenant: str | None, entity: str, **how: Any) -> Related:  # noqa: ANN401 - of the route
        """Return the entities related to one."""
        given = {name: str(value).lower() if isinstance(value, bool) else value for name, value in how.items()}
        parameters = urlencode({name: value for name, value in given.items() if value is not None}, doseq=True)
        try:
            return self._ask(tenant, "GET", f"/entities/{_in_path(entity)}/related?{parameters}", Related)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                _, _, similar = ((error.problem and error.problem.detail) or "").rpartition("did you mean ")
                raise nothing_called(entity, [similar.rstrip("?")] if similar.endswith("?") else ()) from error
            raise

    def graph_query(self, tenant: str | None, question: Mapping[str, Any]) -> GraphResult:
        """Run a graph query."""
        try:
            asked = GraphRequest.model_validate(question)
        except ValidationError as error:
            raise InvalidRequest.from_validation(error) from error
        return self._post(tenant, "/graph/query", asked, GraphResult)

    def read(self, tenant: str | None, ids: Sequence[str]) -> Sequence[RecordSummary]:
        """Return the records with these ids; unknown ids are left out."""
        return self._post(tenant, "/records:read", RecordIds(ids=tuple(ids)), RecordPage).records

    def records(self, tenant: str | None) -> Iterator[RecordSummary]:
        """Yield every record, in the order of their ids."""
        after = ""
        while True:
            page = self._ask(tenant, "GET", f"/records?limit={MAX_INLINE}{after}", RecordPage)
            yield from page.records
            if not page.next:
                return
            after = f"&{urlencode({'after': page.next})}"

    def write(self, tenant: str | None, request: WriteRequest) -> WriteSummary:
        """Write all items of a request, or none if one is invalid."""
        writes = Writes(
            records=tuple(_as_given(record, NewRecord) for record in request.records),
            vertices=tuple(_as_given(vertex, NewVertex) for vertex in request.vertices),
            relationships=tuple(_as_given(edge, NewRelationship) for edge in request.relationships),
            stub_missing_ends=request.missing is MissingEnds.STUB,
        )
        try:
            return self._post(tenant, "/records", writes, WriteSummary)
        except RefusedFields as error:
            raise error.at(request) from error

    def add_documents(self, tenant: str | None, path: Path) -> Added:
        """Post a file, or each file of a folder, and wait until all are imported."""
        from braid.client.posted_documents import post_documents

        return post_documents(
            path,
            start=lambda document: self._post(tenant, "/documents", document, ImportSummary),
            find=lambda import_id: self._ask(tenant, "GET", f"/imports/{import_id}", ImportSummary),
        )

    def delete(self, tenant: str | None, ids: Sequence[str]) -> DeleteReport:
        """Delete records permanently."""
        return self._post(tenant, "/records:delete", Deletes(ids=tuple(ids)), DeleteReport)

    def stats(self, tenant: str | None) -> Stats:
        """Return the counts of stored records, vertices and relationships."""
        return self._ask(tenant, "GET", "/stats", Stats)

    def reembed(self, tenant: str | None) -> ReembedJob:
        """Start or resume a job that re-embeds outdated records."""
        return self._post(tenant, "/reembed", Reembed(), ReembedJob)

    def _post(self, tenant: str | None, path: str, body: Frozen, shape: type[_Shape]) -> _Shape:
        return self._ask(tenant, "POST", path, shape, body.model_dump_json(exclude_unset=True).encode())

    def _ask(
        self, tenant: str | None, method: str, path: str, shape: type[_Shape], body: bytes | None = None
    ) -> _Shape:
        """Send one request and parse its response.

        Raises
        ------
        InvalidRequest
            If the server refused fields of it.
        ApiError
            If it failed otherwise, or the response cannot be read.
        """
        headers = {"Authorization": f"Bearer {self._token}"}
        headers |= {"Braid-Tenant": tenant} if tenant else {}
        headers |= {} if body is None else {"Content-Type": "application/json"}
        asked = {names.HTTP_METHOD: method, names.SERVER_ADDRESS: urlsplit(self._url).hostname or ""}
        try:
            with operation(method, asked, kind=SpanKind.CLIENT) as running:
                headers |= carried()
                answer, content = self._send(method, path, headers, body)
                running.set({names.HTTP_STATUS: answer.status})
        except urllib3.exceptions.HTTPError as error:
            raise ApiError(f"{self._url}: {_unreachable(error)}") from error
        if 300 <= answer.status < 400:  # noqa: PLR2004 - HTTP's redirections
            # Redirections are not followed: questions and records go only to the server that the caller named.
            to = answer.headers.get("Location", "")
            raise ApiError(f"{self._url}: redirects to {to[:200]!r}; give the address itself", status=answer.status)
        if answer.status >= 400:  # noqa: PLR2004 - where HTTP's errors begin
            raise _refusal(answer, content)
        try:
            return shape.model_validate_json(content)
        except ValidationError as error:
            raise ApiError(f"{self._url}: the answer is no {shape.__name__}", status=answer.status) from error

    def _send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> tuple[urllib3.BaseHTTPResponse, bytes]:
        """Send a request, with retries, and return the last response with its body.

        The retries of urllib3 itself would read bodies of any length.
        """
        url, retries = f"{self._url}{path}", self._retries
        while True:
            try:
                answer = self._pool.request(
                    method, url, headers=headers, body=body, redirect=False, preload_content=False
                )
                content = self._content(answer)
            except urllib3.exceptions.HTTPError as error:
                retries = retries.increment(method, url, error=error)
                retries.sleep()
                continue
            if not retries.is_retry(method, answer.status, "Retry-After" in answer.headers):
                return answer, content
            try:
                retries = retries.increment(method, url, response=answer)
            except urllib3.exceptions.MaxRetryError:
                return answer, content
            retries.sleep(answer)

    def _content(self, answer: urllib3.BaseHTTPResponse) -> bytes:
        """Return the body of a response. Raises ApiError if it exceeds the size limit or the time limit."""
        content, until = bytearray(), time.monotonic() + _TIMES * self._timeout_s
        try:
            while part := answer.read1(_PART_BYTES):
                content += part
                if len(content) > MAX_READ_BYTES:
                    raise ApiError(f"{self._url}: the answer is longer than Braid's are", status=answer.status)
                if time.monotonic() > until:
                    raise ApiError(f"{self._url}: the answer does not end", status=answer.status)
            answer.release_conn()
        finally:
            answer.close()  # no effect after release_conn
        return bytes(content)


def _in_path(name: str) -> str:
    """Return a name encoded as a path segment, dots included: ``.`` and ``..`` would be resolved as relative paths."""
    return quote(name, safe="").replace(".", "%2E")


def _unreachable(error: urllib3.exceptions.HTTPError) -> str:
    """Return a short message of a connection error; those of urllib3 contain addresses and object names."""
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


def _as_given(item: Frozen, shape: type[_Shape]) -> _Shape:
    """Return an item as its request schema, without the fields of a stored one, such as the tenant."""
    return shape(**{name: getattr(item, name) for name in item.model_fields_set & shape.model_fields.keys()})


def _refusal(answer: urllib3.BaseHTTPResponse, content: bytes) -> ApiError | InvalidRequest:
    """Return the error of a response, with the message of its problem details if it has any."""
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
