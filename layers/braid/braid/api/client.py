"""A client of the HTTP interface: the library's own shapes over the wire.

>>> from braid.api.client import Client
>>> with Client("http://127.0.0.1:8700", token="…") as client:  # doctest: +SKIP
...     answer = client.search("Who owns the ledger?", top_k=3)
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import quote, urlencode

import urllib3
from pydantic import ValidationError

from braid.api.problems import MEDIA_TYPE, ProblemDetails
from braid.api.schemas import (
    Deletes,
    Entity,
    EntityId,
    GraphRequest,
    ImportRequest,
    ImportSummary,
    NewSchema,
    RecordPage,
    RecordSummary,
    Related,
    Schemas,
    SemanticQuestion,
    Trace,
    Writes,
    WriteSummary,
)
from braid.errors import BraidError
from braid.ingestion.deleting import DeleteReport
from braid.models import Answer, Direction, Frozen, Question
from braid.ports.graph_query import GraphResult
from braid.ports.schema_registry import SchemaVersion
from braid.retrieval.context.selection import Context, ContextQuestion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

ATTEMPTS: Final = 3
TIMEOUT_S: Final = 30.0
_BUSY: Final = (429, 503)
_Shape = TypeVar("_Shape", bound=Frozen)


class ApiError(BraidError):
    """The server refused, or could not be reached.

    Attributes
    ----------
    status
        HTTP status; 0 when there was no answer.
    problem
        What the server said, where it said so as problem details.
    """

    def __init__(self, message: str, *, status: int = 0, problem: ProblemDetails | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.problem = problem


class _Retry(urllib3.Retry):
    """Retries that also send again what is refused with 409 and ``Retry-After``: an equal request is being done."""

    RETRY_AFTER_STATUS_CODES = frozenset({*_BUSY, 409})


class Client:
    """Asks one server with one token.

    Parameters
    ----------
    url
        Address of the server, without a path or with a stage's.
    token
        Bearer token.
    tenant_id
        Tenant that is meant, where the token belongs to several.
    timeout_s
        Bound on connecting, and on each wait for an answer.
    attempts
        How often a request is sent at most. Every request may be sent again: a write of the same record is the same.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str,
        tenant_id: str | None = None,
        timeout_s: float = TIMEOUT_S,
        attempts: int = ATTEMPTS,
    ) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} | ({"Braid-Tenant": tenant_id} if tenant_id else {})
        # Waits as long as the server asks, or 0, 0.4, 0.8 s; its last answer is returned and not raised.
        retries = _Retry(
            total=attempts - 1,
            status_forcelist=_BUSY,
            allowed_methods=None,
            backoff_factor=0.2,
            backoff_jitter=0.1,
            raise_on_status=False,
        )
        self._pool = urllib3.PoolManager(timeout=urllib3.Timeout(timeout_s), retries=retries, maxsize=4)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    def search(self, question: str | Question, **fields: Any) -> Answer:  # noqa: ANN401 - the fields of a question
        """Ask one question: a :class:`~braid.models.Question`, or its text and other fields by name."""
        asked = question if isinstance(question, Question) else Question(text=question, **fields)
        return self._post("/search", asked, Answer)

    def semantic_search(self, text: str, **fields: Any) -> Answer:  # noqa: ANN401 - the fields of the question
        """Search by meaning and words, without the graph; fields are those of ``SemanticQuestion``."""
        return self._post("/search/semantic", SemanticQuestion(text=text, **fields), Answer)

    def graph_query(self, query: GraphRequest) -> GraphResult:
        """Walk the graph step by step."""
        return self._post("/graph/query", query, GraphResult)

    def context(self, question: ContextQuestion) -> Context:
        """Choose what to show a model next."""
        return self._post("/context", question, Context)

    def entity(self, entity_id: str) -> Entity:
        """Return one entity or record."""
        return self._post("/entities:read", EntityId(id=entity_id), Entity)

    def related(
        self,
        entity: str,
        *,
        types: Sequence[str] = (),
        direction: Direction = Direction.BOTH,
        depth: int = 1,
        limit: int = 50,
        trusted_only: bool = False,
    ) -> Related:
        """Return what stands in relation to an entity, by its id or name, the nearest first."""
        parameters = {"types": list(types), "direction": direction.value, "depth": depth, "limit": limit}
        if trusted_only:
            parameters["trusted_only"] = "true"
        return self._ask("GET", f"/entities/{_quoted(entity)}/related?{urlencode(parameters, doseq=True)}", Related)

    def write(self, writes: Writes, *, key: str | None = None) -> WriteSummary:
        """Write records and what relates them; with a key, the same request sent twice is done once."""
        body = writes.model_dump_json(exclude_unset=True).encode()
        return self._ask("POST", "/records", WriteSummary, body, {"Idempotency-Key": key} if key else None)

    def import_object(self, request: ImportRequest, *, key: str | None = None) -> ImportSummary:
        """Have an object of the tenant's written; ask :meth:`imported` how far that is."""
        body = request.model_dump_json(exclude_unset=True).encode()
        return self._ask("POST", "/records:import", ImportSummary, body, {"Idempotency-Key": key} if key else None)

    def imported(self, import_id: str) -> ImportSummary:
        """Return how far writing an object is."""
        return self._ask("GET", f"/imports/{_quoted(import_id)}", ImportSummary)

    def records(self, *, page_size: int = 100) -> Iterator[RecordSummary]:
        """Yield every record, in the order of their ids."""
        after = ""
        while True:
            page = self._ask("GET", f"/records?{urlencode({'limit': page_size})}{after}", RecordPage)
            yield from page.records
            if not page.next:
                return
            after = f"&{urlencode({'after': page.next})}"

    def delete(self, record_id: str) -> DeleteReport:
        """Remove a record for good, or a vertex without one; what is not there is no error."""
        return self._post("/records:delete", Deletes(ids=(record_id,)), DeleteReport)

    def schemas(self) -> Schemas:
        """Return the versions of the schema."""
        return self._ask("GET", "/schemas", Schemas)

    def register_schema(self, schema: NewSchema) -> SchemaVersion:
        """Register the next version."""
        return self._post("/schemas", schema, SchemaVersion)

    def trace(self, trace_id: str) -> Trace:
        """Return how an answer came about, while it is kept."""
        return self._ask("GET", f"/traces/{_quoted(trace_id)}", Trace)

    def _post(self, path: str, body: Frozen, shape: type[_Shape]) -> _Shape:
        return self._ask("POST", path, shape, body.model_dump_json(exclude_unset=True).encode())

    def _ask(
        self,
        method: str,
        path: str,
        shape: type[_Shape],
        body: bytes | None = None,
        more: Mapping[str, str] | None = None,
    ) -> _Shape:
        """Send one request and read its answer.

        Raises
        ------
        ApiError
            If it was refused, or there was no answer that could be read.
        """
        headers = {**self._headers, **(more or {}), **({} if body is None else {"Content-Type": "application/json"})}
        try:
            answer = self._pool.request(method, f"{self._url}{path}", headers=headers, body=body)
        except urllib3.exceptions.HTTPError as error:
            raise ApiError(f"{self._url}: {type(error).__name__}") from error
        if answer.status >= 400:  # noqa: PLR2004 - where HTTP's errors begin
            raise _refusal(answer)
        try:
            return shape.model_validate_json(answer.data)
        except ValidationError as error:
            raise ApiError(f"{self._url}: the answer is no {shape.__name__}", status=answer.status) from error


def _quoted(part: str) -> str:
    return quote(part, safe="")


def _refusal(answer: urllib3.BaseHTTPResponse) -> ApiError:
    """Return what a server said in refusing, in its own words where they are problem details."""
    try:
        if answer.headers.get("Content-Type", "").startswith(MEDIA_TYPE):
            problem = ProblemDetails.model_validate_json(answer.data)
            fields = "; ".join(f"{error.field}: {error.detail}" for error in problem.errors)
            message = fields or problem.detail or problem.title
            return ApiError(message, status=answer.status, problem=problem)
        said = json.loads(answer.data).get("message")
    except (ValidationError, ValueError, AttributeError):
        said = None
    return ApiError(f"HTTP {answer.status}{f': {said}' if said else ''}", status=answer.status)
