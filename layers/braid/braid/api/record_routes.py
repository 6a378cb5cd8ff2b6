"""Routes that write, import, list and delete records, register schema versions, and re-embed."""

from __future__ import annotations

import json
from contextlib import suppress
from http import HTTPStatus
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Path as InPath
from aws_lambda_powertools.event_handler.openapi.params import Query as InQuery

from braid.api.idempotency import IdempotencyKey, run_once
from braid.api.problems import MAX_SHOWN, FieldProblem, Problem, first_of_many, not_found
from braid.api.schemas import (
    MAX_RECORD_BYTES,
    MAX_RECORDS_BYTES,
    Deletes,
    DocumentPage,
    DocumentRequest,
    DocumentSummary,
    EntityPage,
    EntitySummary,
    ImportRequest,
    ImportSummary,
    NewSchema,
    RecordIds,
    RecordPage,
    RecordSummary,
    Reembed,
    ReembedJob,
    Schemas,
    Stats,
    Writes,
    WriteSummary,
    sent_bytes,
)
from braid.api.signed_tokens import MAX_TOKEN_CHARACTERS, InvalidToken, sign, verify
from braid.errors import BraidError, InvalidRequest, StoreError
from braid.ingestion.deleting import DeleteReport  # noqa: TC001 - Powertools reads annotations
from braid.ingestion.documents.metadata_files import SUFFIX, document_of
from braid.models import Frozen, Record, RecordId, Relationship, Vertex
from braid.ports.deletion_marks import refuse_while_deleted
from braid.ports.ingestion import (
    BY_API,
    POSTED,
    POSTED_PART,
    ImportAsked,
    ImportStatus,
    ItemError,
    MissingEnds,
    WriteReport,
    WriteRequest,
)
from braid.ports.keys import check_object_key, encode
from braid.ports.object_store import timed_name
from braid.ports.schema_registry import SchemaVersion
from braid.retrieval.listing import READ_AT_ONCE, documents, names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from braid.api.router import Api
    from braid.ports.ingestion import Import
    from braid.ports.search_index import SearchIndex


WRITE = ["write"]
RECORDS: Final = "records"
DOCUMENTS: Final = "documents"
ENTITIES: Final = "entities"
CURSOR_HOURS: Final = 24
REASONS: Final = 5
"""Number of invalid lines of an import whose errors the response has; the import's report has all."""
After = Annotated[
    str | None, InQuery(max_length=MAX_TOKEN_CHARACTERS, description="Cursor: ``next`` of the previous page.")
]
STUB_BYTES: Final = 20_000
"""Upper bound of the size of :meth:`RecordSummary.stub`, in bytes."""


def add_record_routes(api: Api) -> None:
    """Add the routes of records, schema versions and re-embedding."""
    _add_writes(api)
    _add_lists(api)
    _add_deletion(api)
    _add_schemas(api)
    _add_reembedding(api)


def _add_writes(api: Api) -> None:
    library = api.library

    @api.post("/records", operation_id="writeRecords", summary="Write records, vertices and relationships", tags=WRITE)
    @api.writers_only
    def write_records(writes: Writes, key: IdempotencyKey = None) -> WriteSummary:
        api.counted = writes.size()
        request = _request(api.tenant_id, writes)

        def write() -> WriteSummary:
            library.quotas.take_writes(api.tenant_id, writes.size())
            return _written(library.write(request))

        return run_once(
            library.cache,
            api.tenant_id,
            key,
            asked=writes,
            do=write,
            shape=WriteSummary,
        )

    @api.get("/records", operation_id="listRecords", summary="List records, by pages", tags=WRITE)
    def list_records(
        limit: Annotated[int, InQuery(ge=1, le=100)] = 50,
        after: After = None,
        document: Annotated[RecordId | None, InQuery(description="Only records of the document of this id.")] = None,
    ) -> RecordPage:
        records, cursor = _page(library.index, api.tenant_id, _cursor_of(api, after, RECORDS), limit, document)
        api.counted = len(records)
        return RecordPage(records=tuple(records), next=_token_of(api, cursor, RECORDS))

    # By POST: ids in a body may have any character, and the path cannot be mistaken for that of a record's id.
    @api.post("/records:read", operation_id="readRecords", summary="Read records by their ids", tags=WRITE)
    def read_records(asked: RecordIds) -> RecordPage:
        api.counted = len(asked.ids)
        ids = list(dict.fromkeys(asked.ids))
        most = MAX_RECORD_BYTES if len(ids) == 1 else MAX_RECORDS_BYTES
        found = library.index.get_many(api.tenant_id, ids)
        return RecordPage(records=tuple(_bounded(api.tenant_id, found, most)))

    @api.get("/stats", operation_id="getStats", summary="Count stored records, vertices and relationships", tags=WRITE)
    def stats() -> Stats:
        library.quotas.take_question(api.tenant_id)
        return Stats.of(library.index.stats(api.tenant_id), library.graph.stats(api.tenant_id))


def _add_lists(api: Api) -> None:
    library = api.library

    @api.get("/documents", operation_id="listDocuments", summary="List documents, by pages", tags=WRITE)
    def list_documents(limit: Annotated[int, InQuery(ge=1, le=100)] = 50, after: After = None) -> DocumentPage:
        library.quotas.take_question(api.tenant_id)
        page = documents(library.index, api.tenant_id, after=_cursor_of(api, after, DOCUMENTS), limit=limit)
        api.counted = len(page.first_records)
        listed = tuple(map(DocumentSummary.of, page.first_records))
        return DocumentPage(documents=listed, next=_token_of(api, page.cursor, DOCUMENTS))

    @api.get("/entities", operation_id="listEntities", summary="List named entities, by pages", tags=WRITE)
    def list_entities(
        limit: Annotated[int, InQuery(ge=1, le=500, description="Number of graph vertices to read.")] = 200,
        after: After = None,
    ) -> EntityPage:
        library.quotas.take_question(api.tenant_id)
        page = names(library.graph, api.tenant_id, after=_cursor_of(api, after, ENTITIES), limit=limit)
        api.counted = len(page.vertices)
        listed = tuple(EntitySummary.taken_from(vertex, relations=edges) for vertex, edges in page.vertices)
        return EntityPage(entities=listed, next=_token_of(api, page.cursor, ENTITIES))


def _bounded(tenant_id: str, records: Iterable[Record], most_bytes: int) -> Iterator[RecordSummary]:
    """Yield summaries of records; after ``most_bytes`` of them, the rest as stubs."""
    size = 0
    for record in records:
        if record.tenant_id == tenant_id:
            summary = RecordSummary.of(record)
            if size <= most_bytes:
                size += sent_bytes(summary)
            yield summary if size <= most_bytes else summary.stub()


def _add_deletion(api: Api) -> None:
    library = api.library

    @api.delete("/records/<record_id>", operation_id="deleteRecord", summary="Delete a record permanently", tags=WRITE)
    @api.writers_only
    def delete_record(record_id: Annotated[RecordId, InPath(description="Its id, or a vertex's.")]) -> DeleteReport:
        api.counted = 1
        library.quotas.take_writes(api.tenant_id, 1)
        # Deleting an unknown record is no error, so that a delete can be repeated.
        return library.delete(api.tenant_id, (record_id,))

    # By POST, as an id in a body may have any character. API Gateway decodes a path, and is reported to cut it at a
    # question mark in an id; of two parameters of the same name it makes one, joined by a comma, which ids may have.
    @api.post("/records:delete", operation_id="deleteRecords", summary="Delete records permanently", tags=WRITE)
    @api.writers_only
    def delete_records(asked: Deletes) -> DeleteReport:
        api.counted = len(asked.ids)
        library.quotas.take_writes(api.tenant_id, len(asked.ids))
        return library.delete(api.tenant_id, asked.ids)


def _add_schemas(api: Api) -> None:
    library = api.library

    @api.get("/schemas", operation_id="listSchemas", summary="List the schema versions", tags=WRITE)
    def schemas() -> Schemas:
        versions = library.schemas.versions(api.tenant_id)
        return Schemas(current=library.schemas.current(api.tenant_id), versions=tuple(versions))

    @api.post("/schemas", operation_id="registerSchema", summary="Register the next schema version", tags=WRITE)
    @api.writers_only
    def register(proposed: NewSchema) -> SchemaVersion:
        library.quotas.take_writes(api.tenant_id, 1)
        refuse_while_deleted(api.tenant_id, library.cache)
        for known in library.schemas.versions(api.tenant_id):
            if known.version == proposed.version and proposed.same_as(known):
                return known
        schema = SchemaVersion(tenant_id=api.tenant_id, created_at=library.now(), **dict(proposed))
        try:
            library.schemas.register(schema)
        except InvalidRequest as error:
            if error.field != "version":
                raise
            field = FieldProblem(field="version", detail=str(error).removeprefix("version: "))
            raise Problem(HTTPStatus.CONFLICT, "conflict", str(error), errors=[field]) from error
        return schema


def _add_reembedding(api: Api) -> None:
    library = api.library

    @api.post(
        "/reembed", operation_id="reembed", summary="Start or resume re-embedding of outdated records", tags=WRITE
    )
    @api.writers_only
    def reembed(_request: Reembed) -> ReembedJob:
        library.quotas.take_writes(api.tenant_id, 1)
        refuse_while_deleted(api.tenant_id, library.cache)
        return ReembedJob.of(library.reembed(api.tenant_id))


def _request(tenant_id: str, writes: Writes) -> WriteRequest:
    return WriteRequest(
        tenant_id=tenant_id,
        records=tuple(Record(tenant_id=tenant_id, **dict(given)) for given in writes.records),
        vertices=tuple(Vertex(tenant_id=tenant_id, **dict(given)) for given in writes.vertices),
        relationships=tuple(Relationship(tenant_id=tenant_id, **dict(given)) for given in writes.relationships),
        missing=MissingEnds.STUB if writes.stub_missing_ends else MissingEnds.REFUSE,
    )


def _written(report: WriteReport) -> WriteSummary:
    """Return the summary of a write. Raises Problem 422 if items were invalid, and nothing was written."""
    if report.errors:
        fields = [
            FieldProblem(field=".".join(filter(None, (_dotted(error.place), error.field))), detail=error.message)
            for error in report.errors[:MAX_SHOWN]
        ]
        detail = f"items of the request are wrong; nothing was written{first_of_many(len(report.errors))}"
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", detail, errors=fields)
    return WriteSummary.taken_from(report)


def _page(
    index: SearchIndex, tenant_id: str, after: str | None, limit: int, document: str | None
) -> tuple[list[RecordSummary], str | None]:
    """Return the next records, at most ``limit`` and as many as fit into a response, and the cursor after the last."""
    kept: list[RecordSummary] = []
    size = 0
    while True:
        page = index.scan(tenant_id, document=document, after=after, limit=min(READ_AT_ONCE, limit - len(kept)))
        for record in page.records:
            if record.tenant_id != tenant_id:
                continue
            summary = RecordSummary.of(record)
            length = sent_bytes(summary)
            if length > MAX_RECORD_BYTES:
                summary, length = summary.stub(), STUB_BYTES
            if kept and size + length > MAX_RECORDS_BYTES:
                return kept, encode(tenant_id, kept[-1].id)
            kept.append(summary)
            size += length
        after = page.cursor
        if after is None or len(kept) >= limit:
            return kept, after


def _dotted(place: str) -> str:
    """Return a place such as ``records[0]`` as a field path, ``records.0``."""
    return place.replace("[", ".").removesuffix("]")


def _cursor_of(api: Api, after: str | None, of: str) -> str | None:
    """Return the cursor of a token; None, for the first page, if there is no token.

    Raises InvalidRequest if the token is not one of this tenant and list, or has expired.
    """
    if after is None:
        return None
    try:
        content = verify(after, purpose=of, key=api.library.cursor_key(), now=api.library.now().timestamp())
    except InvalidToken:
        content = {}
    if content.get("tenant_id") != api.tenant_id:
        raise InvalidRequest.of("after", "not what a page gave as its next, or too old")
    return content["after"]


def _token_of(api: Api, cursor: str | None, of: str) -> str | None:
    """Return a cursor of a list as a signed token; None after the last page."""
    if cursor is None:
        return None
    until = api.library.now().timestamp() + CURSOR_HOURS * 3_600
    content = {"tenant_id": api.tenant_id, "after": cursor}
    return sign(content, purpose=of, key=api.library.cursor_key(), expires_at=until)


ImportId = Annotated[
    str, InPath(pattern=r"^[A-Za-z0-9_-]{1,80}$", description="Id of the import, as returned when it started.")
]


def add_import_routes(api: Api) -> None:
    """Add the routes of imports."""
    library = api.library

    def begin_once(asked: Frozen, key: str | None, start: Callable[[str], None]) -> Response[ImportSummary]:
        """Start an import, once for each idempotency key; ``start`` is called with the new import's id."""
        api.counted = 1

        def begin() -> ImportSummary:
            library.quotas.take_import(api.tenant_id)
            library.quotas.take_writes(api.tenant_id, 1)
            refuse_while_deleted(api.tenant_id, library.cache)
            import_id = BY_API + timed_name()
            start(import_id)
            return ImportSummary(id=import_id, status=ImportStatus.RUNNING)

        begun = run_once(library.cache, api.tenant_id, key, asked=asked, do=begin, shape=ImportSummary)
        headers = {"Location": f"/imports/{begun.id}"}
        return Response(HTTPStatus.ACCEPTED.value, "application/json", begun, headers=headers)

    @api.post(
        "/records:import",
        operation_id="importRecords",
        summary="Import a JSON Lines object asynchronously",
        tags=WRITE,
        status_code=HTTPStatus.ACCEPTED.value,
    )
    @api.writers_only
    def import_records(asked: ImportRequest, key: IdempotencyKey = None) -> Response[ImportSummary]:
        check_object_key(asked.key)
        return begin_once(asked, key, lambda name: library.imports.start(api.tenant_id, name, asked.asked()))

    @api.post(
        "/documents",
        operation_id="addDocument",
        summary="Import a document asynchronously",
        tags=WRITE,
        status_code=HTTPStatus.ACCEPTED.value,
    )
    @api.writers_only
    def add_document(document: DocumentRequest, key: IdempotencyKey = None) -> Response[ImportSummary]:
        object_key = _posted_key(document.name)

        def start(import_id: str) -> None:
            if document.metadata is not None:
                stated = json.dumps(document.metadata, ensure_ascii=False, separators=(",", ":")).encode()
                library.objects.put(api.tenant_id, object_key + SUFFIX, stated)
            library.objects.put(api.tenant_id, object_key, document.content)
            try:
                library.imports.start(api.tenant_id, import_id, ImportAsked(key=object_key))
            except BraidError:  # no import will remove the object
                with suppress(StoreError):
                    library.objects.delete_many(api.tenant_id, [object_key, object_key + SUFFIX])
                raise

        return begin_once(document, key, start)

    @api.get("/imports/<import_id>", operation_id="getImport", summary="Get the status of an import", tags=WRITE)
    def get_import(import_id: ImportId) -> ImportSummary:
        found = library.imports.find(api.tenant_id, import_id)
        if found is None:
            raise not_found("no import of this id")
        return ImportSummary.of(found, _reasons(api, found))


def _posted_key(name: str) -> str:
    """Return a key for a document that is posted now. Raises InvalidRequest, of the field ``name``, if it has none.

    It is a separate key, so that removing it does not remove a document posted under the same name meanwhile. It has
    the time of the post, as imports run concurrently, and an older version may take longer to read.
    """
    if document_of(name) is not None:
        raise InvalidRequest.of("name", f"ends with {SUFFIX}; post its content as the metadata of the document")
    try:
        parts = (POSTED_PART + part for part in check_object_key(name).split("/"))
        key = "/".join((f"{POSTED}{timed_name()}", *parts))
        return check_object_key(key + SUFFIX).removesuffix(SUFFIX)
    except InvalidRequest as error:
        raise InvalidRequest.of("name", str(error).removeprefix("key: ")) from None


def _reasons(api: Api, found: Import) -> list[str]:
    """Return the error messages of an import's first invalid lines, from its report."""
    if not (found.report and found.report.errors):
        return []
    try:
        lines = api.library.objects.open(api.tenant_id, found.report.report_key)
        return [ItemError.model_validate_json(line).message[:1_000] for line in islice(lines, REASONS)]
    except StoreError:  # the tenant may have removed the report; the response is useful without it
        return []
