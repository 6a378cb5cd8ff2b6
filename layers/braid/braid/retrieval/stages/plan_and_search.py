"""Plan, embed and vector search stages: a question's plan, its vector, and the hits of the search index.

:mod:`braid.retrieval.pipeline` handles their failures. Vectors of questions are kept by the ``EmbeddingCache`` of
:mod:`braid.retrieval.caches.keys_and_generations`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from braid.deadline import Stopwatch
from braid.errors import ModelError, StoreError
from braid.models import Embedding
from braid.models.embedding_models import embedded_text
from braid.models.enums_and_scalars import MAX_WALK_SEEDS
from braid.models.metadata_filters import typed
from braid.ports.search_index import SearchRequest
from braid.ranking import scoring
from braid.ranking.fusion import in_order, reciprocal_rank_fusion
from braid.retrieval.stages.stage_messages import (
    Embedded,
    EmbedRequest,
    Planned,
    PlanRequest,
    Searched,
    SearchStageRequest,
)
from braid.understanding.planning import make_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from typing import TypeAlias

    from braid.models import EmbeddingType, Filters, Hit, Plan, PlanStep, Query, ValueKind
    from braid.models.embedding_models import ModelConfig
    from braid.ports.encoder import Encoder
    from braid.ports.knowledge_graph import GraphStats, KnowledgeGraph
    from braid.ports.search_index import SearchIndex
    from braid.retrieval.caches.keys_and_generations import EmbeddingCache

    FieldKinds: TypeAlias = Callable[[str, Sequence[str], bool], dict[str, frozenset[ValueKind]]]


def run_plan(
    request: PlanRequest,
    *,
    graph: KnowledgeGraph,
    model_ids: dict[EmbeddingType, str],
    candidates: int,
    count_records: Callable[[str, bool], int],
    field_kinds: FieldKinds,
) -> Planned:
    """Return the question with its plan. If a store does not answer, the plan is made without its counts.

    Raises InvalidRequest if the value of a condition on the metadata is not of its field's type.

    Parameters
    ----------
    model_ids
        Ids of the models by the embedding type of the question.
    candidates
        Least number of candidates fetched from a store.
    count_records
        Returns the number of a tenant's records in the search index, of all or only of the trusted ones (True), counted
        up to the bound that matters to a plan; called only for a question with a graph constraint.
    field_kinds
        Returns the types of the values in fields of a tenant's metadata, of all its records or only of the trusted ones
        (True); called only for a question that names fields.
    """
    watch = Stopwatch()
    stats: GraphStats | None
    try:
        stats = graph.stats(request.query.tenant_id)
        stats = stats.trusted_part() if request.query.filters.trusted_only else stats
    except StoreError:
        stats = None
    records: int | None = None
    if request.query.graph_constraint:
        with suppress(StoreError):
            records = count_records(request.query.tenant_id, request.query.filters.trusted_only)
    plan = make_plan(request.query, model_ids=model_ids, candidates=candidates, stats=stats, records=records)
    query, plan = _with_known_fields(request.query, plan, field_kinds)
    return Planned(
        query=query,
        plan=plan,
        trace_id=request.trace_id,
        started_at=request.started_at,
        plan_ms=watch.ms(),
    )


def _with_known_fields(query: Query, plan: Plan, field_kinds: FieldKinds) -> tuple[Query, Plan]:
    """Return the question with its filters' values as their fields' types, and the plan with its unknown fields."""
    conditions = query.filters.metadata
    fields = list(dict.fromkeys((*(condition.field for condition in conditions), *query.facets)))
    if not fields:
        return query, plan
    try:
        kinds = field_kinds(query.tenant_id, fields, query.filters.trusted_only)
    except StoreError:
        return query, plan.altered(reasons=(*plan.reasons, "the fields' kinds could not be read"))
    filters = query.filters.altered(metadata=typed(conditions, kinds))
    unknown = tuple(field for field in fields if field not in kinds)
    if unknown:
        why = f"no record has the field{'' if len(unknown) == 1 else 's'} {', '.join(map(repr, unknown))}"
        plan = plan.altered(reasons=(*plan.reasons, why), unknown_fields=unknown)
    return query.altered(filters=filters), plan


def run_embed(
    request: EmbedRequest,
    *,
    model: ModelConfig,
    default: ModelConfig,
    encoder_for: Callable[[ModelConfig], Encoder],
    kept: EmbeddingCache | None = None,
) -> Embedded:
    """Return the question's vector, by the model that the plan chose, or ``default`` where that cannot be loaded.

    A vector in the cache ``kept`` needs no model. Raises ModelError if neither model can be loaded; the question is
    then answered by words alone.
    """
    watch = Stopwatch()
    query = request.query
    text, instruction = _embedded(request, model)
    if kept and (found := kept.find(query.tenant_id, model, instruction=instruction, text=text)):
        return Embedded(embedding=found, took_ms=watch.ms())
    encoder, loaded = _first_that_loads([model, default], encoder_for)
    text, instruction = _embedded(request, loaded)
    (vector,) = encoder.encode([text], instruction=instruction)
    embedding = Embedding(space=encoder.space, model_id=encoder.model_id, vector=vector)
    if kept:
        kept.keep(query.tenant_id, embedding, instruction=instruction, text=text)
    return Embedded(embedding=embedding, fallback=loaded.id != model.id, took_ms=watch.ms())


def _embedded(request: EmbedRequest, model: ModelConfig) -> tuple[str, str]:
    """Return the text that a model embeds for the question, and its instruction."""
    kind = request.plan.embedding_type
    text = embedded_text(request.query.text, kind, request.query.temporal_context, model)
    return text, model.instruction(kind)


def _first_that_loads(
    models: list[ModelConfig], encoder_for: Callable[[ModelConfig], Encoder]
) -> tuple[Encoder, ModelConfig]:
    chosen, standby = models
    try:
        return encoder_for(chosen), chosen
    except ModelError:
        if standby.id == chosen.id:
            raise
        return encoder_for(standby), standby


def run_vector_search(
    request: SearchStageRequest,
    *,
    index: SearchIndex,
    now: datetime,
    schema_version: int | None,
    max_versions_behind: int,
) -> Searched:
    """Return the vector and lexical hits of a question, within tenant, filters, schema window and validity.

    Parameters
    ----------
    now
        The date of validity if the question has no ``as_of``.
    schema_version
        The tenant's current schema version; None, for no schema window, if it is not known.
    max_versions_behind
        Most schema versions behind the current one that are inside the window.
    """
    watch = Stopwatch()
    query, plan, step = request.query, request.plan, request.step
    found = index.search(
        SearchRequest(
            tenant_id=query.tenant_id,
            text=query.text,
            embedding=request.embedded.embedding if request.embedded else None,
            k=plan.candidates,
            filters=_filters(query.filters, step),
            ids=request.frontier,
            as_of=query.as_of or now,
            min_schema_version=scoring.oldest_searched(schema_version, max_versions_behind),
        )
    )
    least = query.hints.min_similarity
    near = found.vector if least is None else (hit for hit in found.vector if hit.score >= least)
    vector = scoring.weigh_parts(tuple(near))
    lexical = found.lexical if least is None else ()
    return Searched.unchecked(
        vector=vector,
        lexical=lexical,
        superseded=found.superseded,
        begins_at=found.begins_at,
        outdated=found.outdated,
        space_empty=found.space_empty,
        frontier=best_ids(vector, lexical, limit=step.limit if step else MAX_WALK_SEEDS),
        took_ms=watch.ms(),
    )


def best_ids(vector: tuple[Hit, ...], lexical: tuple[Hit, ...], *, limit: int) -> tuple[str, ...]:
    """Return the best ids by reciprocal rank fusion of both text strands, ties by id."""
    runs = [(1.0, {hit.id: hit.rank for hit in hits}) for hits in (vector, lexical)]
    return tuple(in_order(reciprocal_rank_fusion(runs))[:limit])


def _filters(filters: Filters, step: PlanStep | None) -> Filters:
    if step is None or not step.entity_types:
        return filters
    return filters.altered(entity_types=step.entity_types)
