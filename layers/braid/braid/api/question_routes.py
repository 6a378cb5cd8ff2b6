"""Routes that answer questions: searches, graph queries, entities, contexts, traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from aws_lambda_powertools.event_handler.openapi.params import Path as InPath
from aws_lambda_powertools.event_handler.openapi.params import Query as InQuery

from braid.api import answer_traces
from braid.api.problems import not_found
from braid.api.schemas import Entity, EntityId, GraphRequest, Related, SemanticQuestion, Trace
from braid.models import Answer, Direction, Label, Query, Question, RecordId
from braid.models.enums_and_scalars import AskedTime, NameOrId  # noqa: TC001 - Powertools reads annotations
from braid.ports.graph_query import GraphResult  # noqa: TC001 - Powertools reads annotations
from braid.retrieval.context.message_selection import Context, ContextQuestion, ContextRequest
from braid.retrieval.stages.results_and_citations import cite
from braid.retrieval.tenant_search import TenantQuestions, UnknownEntity, did_you_mean

if TYPE_CHECKING:
    from braid.api.router import Api

ASK = ["ask"]
TraceId = Annotated[str, InPath(pattern=r"^[A-Za-z0-9:_-]{1,128}$")]


def add_question_routes(api: Api) -> None:
    """Add the routes that answer questions."""
    _add_searches(api)
    _add_entities(api)


def _add_searches(api: Api) -> None:
    library = api.library

    @api.post("/search", operation_id="search", summary="Answer a question", tags=ASK)
    def search(question: Question) -> Answer:
        library.quotas.take_question(api.tenant_id)
        answer = library.answer(Query(tenant_id=api.tenant_id, **dict(question)))
        answer_traces.keep(library, api.tenant_id, question.text, answer)
        return answer

    @api.post(
        "/search/semantic",
        operation_id="searchSemantic",
        summary="Search without the graph",
        tags=ASK,
    )
    def search_semantic(question: SemanticQuestion) -> Answer:
        library.quotas.take_question(api.tenant_id)
        answer = TenantQuestions(library, api.tenant_id).semantic_search(
            question.text,
            question.entity_types,
            question.time_range,
            question.limit,
            question.min_similarity,
            as_of=question.as_of,
            metadata=question.metadata,
        )
        answer_traces.keep(library, api.tenant_id, question.text, answer)
        return answer

    @api.post("/graph/query", operation_id="queryGraph", summary="Run a graph query", tags=ASK)
    def graph_query(question: GraphRequest) -> GraphResult:
        library.quotas.take_question(api.tenant_id)
        asked = {name: value for name, value in question if name != "as_of"}
        return TenantQuestions(library, api.tenant_id).graph_query(asked, as_of=question.as_of)

    @api.post("/context", operation_id="buildContext", summary="Build the context of a model's next answer", tags=ASK)
    def context(question: ContextQuestion) -> Context:
        library.quotas.take_question(api.tenant_id)
        return library.context(ContextRequest(tenant_id=api.tenant_id, **dict(question)))

    @api.get("/traces/<trace_id>", operation_id="getTrace", summary="Get the trace of an answer", tags=ASK)
    def trace(trace_id: TraceId) -> Trace:
        kept = answer_traces.find(library, api.tenant_id, trace_id)
        if kept is None:
            raise not_found("there is no trace of this id, or it has expired")
        return kept


def _add_entities(api: Api) -> None:
    library = api.library

    # Before the route of the entity itself, whose pattern matches any character.
    @api.get(
        "/entities/<entity_id>/related",
        operation_id="getRelated",
        summary="List the entities related to one",
        tags=ASK,
    )
    def related(
        entity_id: Annotated[NameOrId, InPath(description="Id of the entity, or its name.")],
        *,
        types: Annotated[list[Label] | None, InQuery(max_length=32)] = None,
        direction: Annotated[Direction, InQuery()] = Direction.BOTH,
        depth: Annotated[int, InQuery(ge=1, le=3)] = 1,
        limit: Annotated[int, InQuery(ge=1, le=200)] = 50,
        as_of: Annotated[AskedTime | None, InQuery()] = None,
        trusted_only: Annotated[bool, InQuery()] = False,
    ) -> Related:
        library.quotas.take_question(api.tenant_id)
        try:
            found = TenantQuestions(library, api.tenant_id).related(
                entity_id,
                types or (),
                direction,
                depth,
                limit=limit,
                as_of=as_of,
                fan_out=library.settings.fan_out,
                trusted_only=trusted_only,
            )
        except UnknownEntity as error:
            raise not_found(f"no entity of this id or name{did_you_mean(error.similar)}") from error
        return Related(hits=found.hits, truncated=found.truncated)

    @api.get("/entities/<entity_id>", operation_id="getEntity", summary="Read an entity or record", tags=ASK)
    def entity(
        entity_id: Annotated[RecordId, InPath(description="Its id; one that ends in `/related` must be read by POST.")],
    ) -> Entity:
        return _read_entity(api, entity_id)

    # API Gateway decodes paths, so no encoding distinguishes the id x/related from the relations of x. In a body an id
    # may have any character.
    @api.post("/entities:read", operation_id="readEntity", summary="Read an entity or record of any id", tags=ASK)
    def read_entity(asked: EntityId) -> Entity:
        return _read_entity(api, asked.id)


def _read_entity(api: Api, entity_id: str) -> Entity:
    """Return an entity or record, and count its use. Raises Problem 404 if there is none."""
    found = _find_entity(api, entity_id)
    if found is None:
        similar = TenantQuestions(api.library, api.tenant_id).similar_entities(entity_id)
        ids = [f"{link.entity_id!r}, which is called {link.name}" for link in similar]
        raise not_found(f"no entity of this id{did_you_mean(ids)}")
    if found.kind is not None:
        api.library.uses.note(api.tenant_id, [found.id])
    return found.fitting()


def _find_entity(api: Api, entity_id: str) -> Entity | None:
    """Return an entity from its record, or from its vertex if it has no record; None if there is neither."""
    library = api.library
    for record in library.index.get_many(api.tenant_id, [entity_id]):
        if record.tenant_id == api.tenant_id:
            return Entity.taken_from(record, citation=cite(record))
    for vertex in library.graph.get_many(api.tenant_id, [entity_id]):
        return Entity.taken_from(vertex, kind=None)
    return None
