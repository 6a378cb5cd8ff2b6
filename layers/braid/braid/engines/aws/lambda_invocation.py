"""Clients of the Lambda functions that are invoked synchronously: the one that writes and the one that answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import SpanKind

from braid import errors
from braid.engines.aws.clients import as_braid_errors, open_client
from braid.errors import BraidError, InvalidRequest, QueueFull, QuotaExceeded, StoreError
from braid.models import Answer
from braid.ports.ingestion import WriteReport
from braid.telemetry.recording import operation, trace_headers

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

    from braid.models import Query
    from braid.ports.ingestion import ItemError, WriteRequest
    from braid.settings import Settings

_ENTITIES, _VERTICES = "entities", "vertices"
"""The function's name of each list, with the name that callers use."""
_RETRY_AFTER_S = 10
"""Seconds after which to retry errors with such a hint: a function's error has only its name and message."""
_NOT_SENT = {"tenant_id", "content_hash", "access_count", "has_record", "supplied_spaces"}


def refused_request(message: str) -> InvalidRequest:
    """Return the error of a function that refused a request; its message begins with the field."""
    return InvalidRequest(message, field=message.partition(":")[0])


class _Function:
    """A Lambda function; during an upgrade it may be of a newer version, whose answers have more fields."""

    def __init__(self, client: LambdaClient, name: str) -> None:
        self._client = client
        self._name = name

    def _invoke(self, event: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever it answers, as JSON
        """Invoke the function and return its response.

        Raises
        ------
        TransientStoreError
            If it was throttled, unreachable or took too long.
        BraidError
            The error that it raised.
        """
        with operation(f"invoke {self._name}", {}, kind=SpanKind.CLIENT):
            with as_braid_errors(f"function {self._name}"):
                payload = json.dumps({**event, **trace_headers()}).encode()
                answer = self._client.invoke(FunctionName=self._name, Payload=payload)
                text = answer["Payload"].read()
            said = json.loads(text)
            if "FunctionError" in answer:
                raise self._error(str(said.get("errorType")), str(said.get("errorMessage")))
            return said

    def _error(self, kind: str, message: str) -> BraidError:
        """Return the error that the function raised, by its name."""
        found = getattr(errors, kind, None)
        if kind == "InvalidRequest":
            return refused_request(message)
        if not (isinstance(found, type) and issubclass(found, BraidError)):
            return StoreError(f"function {self._name} failed: {kind}")
        if issubclass(found, (QuotaExceeded, QueueFull)):
            return found(message, retry_after_s=_RETRY_AFTER_S)
        return found(message)


class IngestFunction(_Function):
    """The function that embeds and writes."""

    @classmethod
    def connect(cls, settings: Settings) -> IngestFunction:
        """Return the function that the settings name. No request is sent yet."""
        # One attempt: the caller may repeat the write, and would wait twice as long for two.
        client = open_client("lambda", timeout_s=settings.ingest_timeout_s, attempts=1)
        return cls(client, settings.ingest_function)

    def write(self, request: WriteRequest) -> WriteReport:
        """Validate and write a request.

        Raises
        ------
        InvalidRequest
            If the request as a whole is invalid; errors of single items are in the report.
        TransientStoreError, BraidError
            As :meth:`_invoke`.
        """
        task = {"name": "write", "tenant_id": request.tenant_id, "body": _body(request)}
        report = WriteReport.model_validate(self._invoke({"task": task}), extra="ignore")
        return report.altered(errors=tuple(map(_as_asked, report.errors)))

    def _error(self, kind: str, message: str) -> BraidError:
        """Return the error that the function raised, with the request's names."""
        if message.startswith(_ENTITIES):
            message = _VERTICES + message.removeprefix(_ENTITIES)
        return super()._error(kind, message)


class AnswerFunction(_Function):
    """The function that runs every stage of a question in its own process."""

    @classmethod
    def connect(cls, settings: Settings) -> AnswerFunction:
        """Return the function that the settings name. No request is sent yet."""
        # One attempt: the function retries its own stages.
        client = open_client("lambda", timeout_s=settings.retrieve_timeout_s, attempts=1)
        return cls(client, settings.answer_function)

    def answer(self, query: Query) -> Answer:
        """Answer one question.

        Raises
        ------
        InvalidRequest, StoresUnavailable
            If the function failed with that error.
        TransientStoreError, BraidError
            As :meth:`_invoke`.
        """
        return Answer.model_validate(self._invoke({"query": query.model_dump(mode="json")}), extra="ignore")


def _body(request: WriteRequest) -> dict[str, Any]:
    """Return a request in the function's format; vertices are its ``entities``, whose type it calls ``type``."""
    shown: dict[str, list[dict[str, Any]]] = {}
    for kind, items in (
        ("records", request.records),
        (_ENTITIES, request.vertices),
        ("relationships", request.relationships),
    ):
        shown[kind] = [
            item.model_dump(mode="json", exclude=_NOT_SENT, exclude_unset=True, exclude_none=True) for item in items
        ]
    for entity in shown[_ENTITIES]:
        entity["type"] = entity.pop("entity_type", "Concept")
    return {**shown, "missing": request.missing.value, "partial": request.partial}


def _as_asked(error: ItemError) -> ItemError:
    """Return the error of an item with the request's names instead of the function's."""
    if not error.place.startswith(_ENTITIES):
        return error
    place = _VERTICES + error.place.removeprefix(_ENTITIES)
    return error.altered(place=place, field="entity_type" if error.field == "type" else error.field)
