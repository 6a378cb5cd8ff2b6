"""The composition root: the application, with the five stages over the engines that the settings choose."""

from __future__ import annotations

import json
import logging
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING

from braid import deadline
from braid.deadline import CircuitBreaker
from braid.errors import StoreError, StoreTooSlow
from braid.models import EmbeddingType
from braid.models.embedding_models import AUTO, resolve
from braid.models.query import check_reranker
from braid.opened_engines import opened_once
from braid.opened_models import OpenedModels
from braid.ranking import scoring
from braid.retrieval.stages import fuse_rerank, graph_expand, plan_and_search
from braid.retrieval.stages.walk_seeds_and_scores import GraphLimits
from braid.settings import EngineKind, load_settings
from braid.settings.configuration_files import load_fitted
from braid.settings.folders import in_lambda
from braid.telemetry import names, recording
from braid.understanding.graph_constraint_cost import MAX_COUNTED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from braid.api.quotas import Quotas
    from braid.engines.aws.lambda_invocation import AnswerFunction, IngestFunction
    from braid.engines.aws.step_functions import ReembedWorkflow, RetrieveWorkflow
    from braid.ingestion.deleting import DeleteReport
    from braid.models import Answer, FusionParameters, Query
    from braid.models.embedding_models import ModelConfig
    from braid.ports.ingestion import Imports, WriteReport, WriteRequest
    from braid.reembedding import ReembeddingJob
    from braid.reembedding.queue_from_answers import OutdatedRecordSender
    from braid.retrieval.caches.answers import Caches, ContextCache
    from braid.retrieval.context.building import ContextLimits
    from braid.retrieval.context.message_selection import Context, ContextRequest
    from braid.retrieval.stages.stage_messages import (
        AnswerRequest,
        Embedded,
        EmbedRequest,
        FuseRequest,
        GraphFound,
        GraphRequest,
        Planned,
        PlanRequest,
        Searched,
        SearchStageRequest,
    )
    from braid.retrieval.use_counts import UseCounts
    from braid.settings import Settings


_LOG = logging.getLogger(__name__)
PLAN_S, EMBED_S, SEARCH_S, GRAPH_S, FUSE_S = 5.0, 10.0, 5.0, 5.0, 10.0
"""Time limits of the stages in seconds; the workflow's tasks have the same, but its last one 5 without a reranker."""
SHARE = 0.6
"""Largest share of a request's remaining time that one stage may take, so that time is left to answer without it."""


class Application(OpenedModels):
    """The five stages and the library's services: answers, contexts, writes, imports, deletes and re-embedding.

    Attributes
    ----------
    fitted
        The fusion parameters; read at cold start, which an invalid file fails.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.fitted = load_fitted(settings)
        self._schema_breaker = CircuitBreaker(settings.cache_rest_s)

    @opened_once
    def caches(self) -> Caches:
        """The caches that the settings enable."""
        from braid.retrieval.caches.answers import Caches

        return Caches(self)

    def cache_counts(self) -> dict[str, int]:
        """Return the numbers of hits and misses of each cache since the last call, by metric name."""
        return self.caches.counts.drain()

    def now(self) -> datetime:
        """Return the present moment, in UTC."""
        return datetime.now(UTC)

    def _schema_version(self, tenant_id: str) -> int | None:
        """Return the tenant's current schema version; None, which disables drift, if the registry does not answer."""
        if self._schema_breaker.is_open():
            return None
        try:
            return self.schemas.current(tenant_id)
        except StoreTooSlow:  # the question's time is over, which says nothing of the registry
            return None
        except StoreError:
            self._schema_breaker.open()
            return None

    @deadline.within(PLAN_S, share=SHARE)
    def plan(self, request: PlanRequest) -> Planned:
        """Run the plan stage."""
        profile = self.active_profile()
        forced = self.settings.embedding_model
        model_ids = {kind: resolve(self.profiles, profile, kind, forced).id for kind in EmbeddingType}
        return plan_and_search.run_plan(
            request,
            graph=self.caches.graph(request.query.tenant_id),
            model_ids=model_ids,
            candidates=self.settings.candidates,
            # The index is opened only if the plan needs one of these.
            count_records=lambda tenant_id, trusted_only: self.index.count(
                tenant_id, at_most=MAX_COUNTED, trusted_only=trusted_only
            ),
            field_kinds=lambda tenant_id, fields, trusted_only: self.index.field_kinds(
                tenant_id, fields, trusted_only=trusted_only
            ),
        )

    @deadline.within(EMBED_S, share=SHARE)
    def embed(self, request: EmbedRequest) -> Embedded:
        """Run the embed stage."""
        return plan_and_search.run_embed(
            request,
            model=self.model_for(request.plan.embedding_type, request.plan.model_id),
            default=self._default_model(request.plan.model_id),
            encoder_for=self.encoder_for,
            kept=self.caches.embeddings,
        )

    def _default_model(self, model_id: str | None) -> ModelConfig:
        """Return the general model of the profile that the plan's model is of, without reading the active profile."""
        if model_id is not None and self.settings.embedding_model == AUTO:
            for name, chosen in self.profiles.profiles.items():
                if model_id in chosen.values():
                    return resolve(self.profiles, name, EmbeddingType.GENERAL)
        return self.model_for(EmbeddingType.GENERAL)

    @deadline.within(SEARCH_S, share=SHARE)
    def vector_search(self, request: SearchStageRequest) -> Searched:
        """Run the vector_search stage."""
        return plan_and_search.run_vector_search(
            request,
            index=self.index,
            now=self.now(),
            schema_version=self._schema_version(request.query.tenant_id),
            max_versions_behind=self._max_versions_behind,
        )

    @deadline.within(GRAPH_S, share=SHARE)
    def graph_expand(self, request: GraphRequest) -> GraphFound:
        """Run the graph_expand stage."""
        # The cache holds results for the current time; a question with as_of bypasses it.
        graph = self.graph if request.query.as_of else self.caches.graph(request.query.tenant_id)
        return graph_expand.run(
            request,
            graph=graph,
            now=self.now(),
            limits=self.graph_limits(self.fitted.parameters),
            unknown_words=partial(self._unknown_words, trusted_only=request.query.filters.trusted_only),
        )

    def _unknown_words(self, tenant_id: str, words: Sequence[str], *, trusted_only: bool) -> frozenset[str]:
        """Return the words that are in no text of the tenant, or no trusted one; none if the index does not answer."""
        try:
            return self.index.unknown_words(tenant_id, words, trusted_only=trusted_only)
        except StoreError:
            return frozenset()

    def graph_limits(self, parameters: FusionParameters) -> GraphLimits:
        """Return the limits of walks and propagation, with these fusion parameters."""
        return GraphLimits(
            seeds=self.settings.seeds,
            limit=self.settings.expansion_limit,
            fan_out=self.settings.fan_out,
            hub=self.settings.hub,
            parameters=parameters,
        )

    @deadline.within(FUSE_S)
    def fuse_rerank(self, request: FuseRequest) -> Answer:
        """Run the fuse_rerank stage."""
        schema_version = self._schema_version(request.query.tenant_id)
        return fuse_rerank.run(
            request,
            index=self.index,
            reranker=self.reranker_for(request.query.reranker),
            now=self.now(),
            schema_version=schema_version,
            limits=fuse_rerank.FusionLimits(
                parameters=self.fitted.parameters,
                drift_threshold=self.settings.schema_drift_threshold,
                max_versions_behind=self._max_versions_behind,
                rerank_timeout_s=self.settings.rerank_timeout_s,
                reranked=self.settings.rerank_candidates,
            ),
            # With a single schema version no record is outdated, and re-embedding need not be imported.
            outdated_sender=self._outdated_sender if schema_version and schema_version > 1 else None,
            uses=self.uses.of,
        )

    @property
    def _max_versions_behind(self) -> int:
        return scoring.max_versions_behind(self.settings.schema_drift_threshold, self.settings.schema_window)

    def outdated_counts(self) -> dict[str, int]:
        """Return the numbers of outdated records queued and not queued since the last call, by metric name."""
        return self._outdated_sender.take_counts() if self._outdated_sender else {}

    @opened_once
    def _outdated_sender(self) -> OutdatedRecordSender | None:
        """Sends outdated records that questions found to the re-embedding queue; None where no queue is deployed."""
        if self.settings.engine is EngineKind.AWS and not self.settings.reembed_queue_url:
            return None
        from braid.reembedding.queue_from_answers import OutdatedRecordSender

        return OutdatedRecordSender(lambda: self.queue)

    @opened_once
    def _answered_elsewhere(self) -> AnswerFunction | RetrieveWorkflow | None:
        """The deployed function or workflow that answers questions; None if the settings name none."""
        if self.settings.engine is not EngineKind.AWS:
            return None
        if self.settings.answer_function:
            from braid.engines.aws.lambda_invocation import AnswerFunction

            return AnswerFunction.connect(self.settings)
        if self.settings.retrieve_state_machine_arn:
            from braid.engines.aws.step_functions import RetrieveWorkflow

            return RetrieveWorkflow.connect(self.settings)
        return None

    def answer(self, query: Query) -> Answer:
        """Answer a question from the cache, else by :meth:`retrieve`."""
        answers = self.caches.answers
        answer = answers.answer(query, self.retrieve) if answers else self.retrieve(query)
        self.uses.note(query.tenant_id, (result.id for result in answer.results if result.facts is None))
        return answer

    @opened_once
    def uses(self) -> UseCounts:
        """Counts of how often records were recently returned or opened."""
        from braid.retrieval.use_counts import UseCounts

        def stored(tenant_id: str, ids: Sequence[str]) -> Collection[str]:
            return self.index.written(tenant_id, ids)  # the index is opened only when uses are added

        return UseCounts(lambda: self.cache, stored, self.now)

    @opened_once
    def quotas(self) -> Quotas:
        """The tenants' quotas and their use."""
        from braid.api.quotas import Quotas

        return Quotas(self.settings, self.cache)

    def retrieve(self, query: Query) -> Answer:
        """Answer a question without the answer cache, within the tenant's budget for hosted rerankers."""
        check_reranker(query.reranker, self.settings.hosted_rerankers)
        answered = partial(self.traced, answered_by=self._answer_here_or_deployed)
        return (
            self.quotas.within_rerank_budget(query, answered)
            if self.settings.quota_rerank_usd_per_day
            else answered(query)
        )

    def traced(self, query: Query, answered_by: Callable[[Query], Answer]) -> Answer:
        """Answer a question by ``answered_by``, recorded as one span of a retrieval."""
        asked = {names.OPERATION: names.RETRIEVAL, names.PROVIDER: "braid", names.TENANT: query.tenant_id}
        if self.settings.log_queries:
            asked[names.QUERY_TEXT] = query.text
        with recording.operation(names.RETRIEVAL, asked, duration=names.OPERATION_DURATION) as running:
            answer = answered_by(query)
            running.set(
                {
                    names.TOP_K: query.top_k,
                    names.ANSWER: answer.trace_id,
                    names.STRATEGY: answer.plan.strategy,
                    names.MODE: answer.plan.mode,
                    names.INTENT: answer.plan.intent,
                    names.RESULTS: len(answer.results),
                    names.DEGRADED: answer.degraded,
                }
            )
            return answer

    def _answer_here_or_deployed(self, query: Query) -> Answer:
        """Answer by the deployed function or workflow if the settings name one, else by the stages in this process."""
        if self._answered_elsewhere:
            return self._answered_elsewhere.answer(query)
        from braid.retrieval import pipeline
        from braid.retrieval.stages import results_and_citations

        answer = pipeline.answer(query, self)
        if why := results_and_citations.slow_answer_fields(
            answer, self.settings.slow_total_ms, with_text=self.settings.log_queries
        ):
            _LOG.warning(
                "slow answer: %s", json.dumps(why | ({"query": query.text} if self.settings.log_queries else {}))
            )
        return answer

    def answer_in_this_process(self, request: AnswerRequest) -> Answer:
        """Answer by the stages in this process, within ``retrieve_timeout_s``; the deployed answer function runs it."""
        from braid.retrieval import pipeline

        with deadline.within(self.settings.retrieve_timeout_s):
            return pipeline.answer(request.query, self)

    @opened_once
    def _ingest_function(self) -> IngestFunction:
        from braid.engines.aws.lambda_invocation import IngestFunction

        return IngestFunction.connect(self.settings)

    def write(self, request: WriteRequest, *, require: Callable[[], None] | None = None) -> WriteReport:
        """Check and write: by the deployed ingest function if the settings name one, else in this process.

        ``require`` is as in :func:`braid.ingestion.writing.write`; the ingest function takes none.
        """
        if self.settings.engine is EngineKind.AWS and self.settings.ingest_function:
            return self._ingest_function.write(request)
        from braid.ingestion import writing

        deadline.check()
        with recording.operation(
            names.WRITE,
            {names.OPERATION: names.WRITE, names.TENANT: request.tenant_id, names.RECORDS: len(request.records)},
            duration=names.OPERATION_DURATION,
        ):
            return writing.write(request, self, require=require or writing.nothing)

    @opened_once
    def imports(self) -> Imports:
        """Runs imports of objects: by the deployed workflow if the settings name one, else on threads of this process.

        A Lambda function is frozen once it has answered, and so runs an import within its request.
        """
        if self.settings.engine is EngineKind.AWS and self.settings.ingest_state_machine_arn:
            from braid.engines.aws.step_functions import IngestWorkflow

            return IngestWorkflow.connect(self.settings)
        from braid.ingestion.bulk.import_queue import ImportQueue, ImportsAtOnce

        kind = ImportsAtOnce if in_lambda() else ImportQueue
        # Not the error's text: it may quote the object's content.
        return kind(self, lambda name, error: _LOG.error("import %s failed: %s", name, type(error).__name__))

    def reembed(self, tenant_id: str) -> ReembeddingJob:
        """Start re-embedding a tenant's outdated records.

        The deployed workflow is started if the settings name one; elsewhere ``braid reembed`` does the work. Raises
        QuotaExceeded if the workflow was started for the tenant in this minute.
        """
        from braid import reembedding

        deployed = self.settings.engine is EngineKind.AWS and self.settings.reembed_state_machine_arn
        if deployed:
            self.quotas.take_reembedding(tenant_id)
        job = reembedding.plan(self.reembedding, tenant=tenant_id)
        if deployed:
            self._reembed_workflow.start(tenant_id)
        return job

    @opened_once
    def _reembed_workflow(self) -> ReembedWorkflow:
        from braid.engines.aws.step_functions import ReembedWorkflow

        return ReembedWorkflow.connect(self.settings)

    def delete(self, tenant_id: str, ids: Sequence[str]) -> DeleteReport:
        """Delete records with their vertices and edges, permanently.

        One that has begun is completed, as a write is, but not in a deployment: its stores may take longer than the
        function has, and a function that is killed answers nothing. Repeating the delete completes it.
        """
        from braid.ingestion import deleting

        deadline.check()
        with nullcontext() if self.settings.engine is EngineKind.AWS else deadline.suspended():
            return deleting.delete_records(tenant_id, ids, self)

    @property
    def context_limits(self) -> ContextLimits:
        """Limits of contexts, from the settings."""
        from braid.retrieval.context.building import ContextLimits

        return ContextLimits.of(self.settings)

    @property
    def context_cache(self) -> ContextCache | None:
        """The cache of retrievals for contexts; None if it is disabled."""
        return self.caches.contexts

    def context(self, request: ContextRequest) -> Context:
        """Build the context of a model's next answer."""
        from braid.retrieval.context import building

        return building.run(request, self)


@cache
def application() -> Application:
    """Return this process's application, with the settings of the environment.

    Raises ConfigurationError if a setting is missing or malformed.
    """
    return Application(load_settings())
