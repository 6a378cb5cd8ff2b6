"""Backend of :class:`braid.client.Braid`: the HTTP API of a deployed Braid, or of `braid serve`."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import urllib3
from opentelemetry.trace import SpanKind
from pydantic import ValidationError

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
from braid.client.api_errors import ApiError, RefusedFields, error_of_answer, unreachable
from braid.client.bounded_responses import MAX_READ_BYTES, AnswerUnbounded, bounded_pool
from braid.errors import as_invalid_request
from braid.ingestion.deleting import DeleteReport
from braid.ingestion.inline_writes import MAX_INLINE
from braid.models import Answer, Frozen, NewRecord, NewRelationship, NewVertex
from braid.ports.graph_query import GraphResult
from braid.ports.ingestion import MissingEnds
from braid.retrieval.context.message_selection import Context
from braid.retrieval.tenant_search import UnknownEntity
from braid.telemetry import names
from braid.telemetry.recording import operation, trace_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from braid.api.schemas import RecordSummary
    from braid.client.documents_in_process import Added
    from braid.models import Question
    from braid.ports.ingestion import WriteRequest
    from braid.retrieval.context.message_selection import ContextQuestion

ATTEMPTS: Final = 3
TIMEOUT_S: Final = 30.0
MAX_WAIT_S: Final = 60.0
"""Upper bound on the Retry-After delay that is honoured; the windows of most quotas are a minute."""
_PART_BYTES: Final = 1 << 16
_BUSY: Final = (429, 503)
_Shape = TypeVar("_Shape", bound=Frozen)


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
        Time limit of connecting and of each read, in seconds; a whole response may take ten times as long.
    attempts
        Maximum of attempts of a request. All requests may be retried: writing the same record again changes nothing.
    """

    items_at_once = MAX_INLINE
    bytes_at_once = 1_000_000
    """A server reads at most two million bytes."""

    def __init__(self, url: str, token: str, *, timeout_s: float = TIMEOUT_S, attempts: int = ATTEMPTS) -> None:
        self._url = url.rstrip("/")
        self._token = token
        # Waits as long as the server asks, up to a minute, or 0, 0.4, 0.8 s.
        self._retries = _Retry(
            total=attempts - 1, status_forcelist=_BUSY, allowed_methods=None, backoff_factor=0.2, backoff_jitter=0.1
        )
        self._pool = bounded_pool(timeout_s)

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
                raise UnknownEntity(entity, [similar.rstrip("?")] if similar.endswith("?") else ()) from error
            raise

    def graph_query(self, tenant: str | None, question: Mapping[str, Any]) -> GraphResult:
        """Run a graph query."""
        with as_invalid_request(known=GraphRequest.model_fields):
            asked = GraphRequest.model_validate(question)
        return self._post(tenant, "/graph/query", asked, GraphResult)

    def read(self, tenant: str | None, ids: Sequence[str]) -> Sequence[RecordSummary]:
        """Return the records with these ids; unknown ids are left out."""
        return self._post(tenant, "/records:read", RecordIds(ids=tuple(ids)), RecordPage).records

    def records(self, tenant: str | None) -> Iterator[RecordSummary]:
        """Yield every record, in the order of their ids."""
        for page in self._pages(tenant):
            yield from page.records

    def _pages(self, tenant: str | None, **conditions: str) -> Iterator[RecordPage]:
        """Yield the pages of the records that meet the route's conditions."""
        asked = {"limit": str(MAX_INLINE), **conditions}
        while True:
            page = self._ask(tenant, "GET", f"/records?{urlencode(asked)}", RecordPage)
            yield page
            if not page.next:
                return
            asked["after"] = page.next

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

    def update(
        self,
        tenant: str | None,
        record_id: str,
        change: Callable[[RecordSummary | None], WriteRequest],
    ) -> WriteSummary:
        """Write what a function makes of the record with an id; of two updates at once the last wins."""
        return self.write(tenant, change(next(iter(self.read(tenant, (record_id,))), None)))

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

    def delete_document(self, tenant: str | None, document: str) -> int:
        """Delete a document's records permanently, page by page; return how many there were."""
        pages = self._pages(tenant, document=document)
        return sum(self.delete(tenant, [one.id for one in page.records]).records for page in pages if page.records)

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
                headers |= trace_headers()
                answer, content = self._send(method, path, headers, body)
                running.set({names.HTTP_STATUS: answer.status})
        except urllib3.exceptions.HTTPError as error:
            raise ApiError(f"{self._url}: {unreachable(error)}") from error
        except AnswerUnbounded as error:
            raise ApiError(f"{self._url}: the answer {error}") from error
        if 300 <= answer.status < 400:  # noqa: PLR2004 - HTTP's redirections
            # Redirections are not followed: questions and records go only to the server that the caller named.
            to = answer.headers.get("Location", "")
            raise ApiError(f"{self._url}: redirects to {to[:200]!r}; give the address itself", status=answer.status)
        if answer.status >= 400:  # noqa: PLR2004 - where HTTP's errors begin
            raise error_of_answer(answer, content)
        try:
            # A newer server may add fields.
            return shape.model_validate_json(content, extra="ignore")
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
        """Return the body of an answer. Raises AnswerUnbounded if it is longer than any of Braid's."""
        content = bytearray()
        try:
            while part := answer.read1(_PART_BYTES):
                content += part
                if len(content) > MAX_READ_BYTES:
                    raise AnswerUnbounded("is longer than Braid's are")
            answer.release_conn()
        finally:
            answer.close()  # no effect after release_conn
        return bytes(content)


def _in_path(name: str) -> str:
    """Return a name encoded as a path segment, dots included: ``.`` and ``..`` would be resolved as relative paths."""
    return quote(name, safe="").replace(".", "%2E")


def _as_given(item: Frozen, shape: type[_Shape]) -> _Shape:
    """Return an item as its request schema, without the fields of a stored one, such as the tenant."""
    return shape(**{name: getattr(item, name) for name in item.model_fields_set & shape.model_fields.keys()})
