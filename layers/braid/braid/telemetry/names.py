"""Names of spans, metrics and attributes, after OpenTelemetry's conventions of GenAI, databases, HTTP and messaging.

Stated here rather than imported: the conventions' package renames the constants of a convention in development, such as
GenAI's. Names that no convention has begin with ``braid.``.
"""

from __future__ import annotations

from typing import Final

RETRIEVAL: Final = "retrieval"
EMBEDDINGS: Final = "embeddings"
RERANK: Final = "rerank"
WRITE: Final = "write"
"""Names of operations, with which the names of their spans begin. GenAI's conventions have the first two."""

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
MODEL: Final = "gen_ai.request.model"
TOP_K: Final = "gen_ai.request.top_k"
DIMENSIONS_OF_VECTORS: Final = "gen_ai.embeddings.dimension.count"
QUERY_TEXT: Final = "gen_ai.retrieval.query.text"

DB_SYSTEM: Final = "db.system.name"
DB_OPERATION: Final = "db.operation.name"

HTTP_METHOD: Final = "http.request.method"
HTTP_ROUTE: Final = "http.route"
HTTP_STATUS: Final = "http.response.status_code"
SERVER_ADDRESS: Final = "server.address"

MESSAGING_SYSTEM: Final = "messaging.system"
MESSAGING_OPERATION: Final = "messaging.operation.name"

ERROR_TYPE: Final = "error.type"

STAGE: Final = "braid.stage"
STRATEGY: Final = "braid.strategy"
MODE: Final = "braid.mode"
INTENT: Final = "braid.intent"
TENANT: Final = "braid.tenant.id"
ANSWER: Final = "braid.answer.trace_id"
"""The answer's own ``trace_id``, by which ``GET /traces/{id}`` finds it."""
RESULTS: Final = "braid.results"
DEGRADED: Final = "braid.degraded"
TEXTS: Final = "braid.texts"
RECORDS: Final = "braid.records"

OPERATION_DURATION: Final = "gen_ai.client.operation.duration"
STORE_DURATION: Final = "db.client.operation.duration"
REQUEST_DURATION: Final = "http.server.request.duration"
STAGE_DURATION: Final = "braid.stage.duration"
DURATIONS: Final = (OPERATION_DURATION, STORE_DURATION, REQUEST_DURATION, STAGE_DURATION)
"""Histograms, in seconds."""

DIMENSIONS: Final = frozenset(
    {
        OPERATION,
        PROVIDER,
        MODEL,
        DB_SYSTEM,
        DB_OPERATION,
        HTTP_METHOD,
        HTTP_ROUTE,
        HTTP_STATUS,
        MESSAGING_SYSTEM,
        MESSAGING_OPERATION,
        ERROR_TYPE,
        STAGE,
    }
)
"""Attributes of the histograms: of low cardinality, and with no value that a tenant or caller chooses."""
