"""Routes that start imports and report their progress."""

from __future__ import annotations

import secrets
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Path as InPath

from braid.api.idempotency import IdempotencyKey, run_once
from braid.api.problems import not_found
from braid.api.schemas import DocumentRequest, ImportRequest, ImportSummary
from braid.ports.imports import POSTED, ImportAsked, ImportStatus
from braid.ports.keys import check_object_key

if TYPE_CHECKING:
    from braid.api.router import Api

WRITE = ["write"]
ImportId = Annotated[str, InPath(pattern=r"^[A-Za-z0-9_-]{1,80}$", description="As the request for it was answered.")]


def add_import_routes(api: Api) -> None:
    """Add the routes of imports."""
    library = api.library

    @api.post(
        "/records:import",
        operation_id="importRecords",
        summary="Have an object of many lines written",
        tags=WRITE,
        status_code=HTTPStatus.ACCEPTED.value,
    )
    def import_records(asked: ImportRequest, key: IdempotencyKey = None) -> Response[ImportSummary]:
        api.caller.must_write()
        check_object_key(asked.key)
        api.counted = 1

        def begin() -> ImportSummary:
            library.quotas.take_writes(api.tenant_id, 1)
            import_id = secrets.token_hex(16)
            library.imports.start(api.tenant_id, import_id, asked.asked())
            return ImportSummary(id=import_id, status=ImportStatus.RUNNING)

        begun = run_once(library.cache, api.tenant_id, key, asked=asked, do=begin, shape=ImportSummary)
        headers = {"Location": f"/imports/{begun.id}"}
        return Response(HTTPStatus.ACCEPTED.value, "application/json", begun, headers=headers)

    @api.post(
        "/documents",
        operation_id="addDocument",
        summary="Have a document read, cut into chunks and written",
        tags=WRITE,
        status_code=HTTPStatus.ACCEPTED.value,
    )
    def add_document(document: DocumentRequest, key: IdempotencyKey = None) -> Response[ImportSummary]:
        api.caller.must_write()
        object_key = check_object_key(f"{POSTED}{document.name}")
        api.counted = 1

        def begin() -> ImportSummary:
            library.quotas.take_writes(api.tenant_id, 1)
            import_id = secrets.token_hex(16)
            library.objects.put(api.tenant_id, object_key, document.content)
            library.imports.start(api.tenant_id, import_id, ImportAsked(key=object_key))
            return ImportSummary(id=import_id, status=ImportStatus.RUNNING)

        begun = run_once(library.cache, api.tenant_id, key, asked=document, do=begin, shape=ImportSummary)
        headers = {"Location": f"/imports/{begun.id}"}
        return Response(HTTPStatus.ACCEPTED.value, "application/json", begun, headers=headers)

    @api.get("/imports/<import_id>", operation_id="getImport", summary="How far an import is", tags=WRITE)
    def get_import(import_id: ImportId) -> ImportSummary:
        found = library.imports.find(api.tenant_id, import_id)
        if found is None:
            detail = "no import of this id"
            raise not_found(detail)
        return ImportSummary.of(found)
