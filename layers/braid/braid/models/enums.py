"""Enumerations: modes, intents, strategies, sources, kinds of record, rerankers."""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    """What kind of answer the question asks for."""

    DOCUMENT = "document"
    ENTITY = "entity"
    HYBRID = "hybrid"


class Intent(StrEnum):
    """What the question wants to know; it decides how the graph is walked."""

    LOOKUP = "lookup"
    EXPLORATORY = "exploratory"
    TEMPORAL = "temporal"
    CAUSAL = "causal"


class EmbeddingType(StrEnum):
    """Which kind of model embeds the question."""

    GENERAL = "general"
    TEMPORAL = "temporal"
    CAUSAL = "causal"
    CODE = "code"
    DOCUMENT = "document"


class Strategy(StrEnum):
    """In which order the search index and the graph are asked."""

    SEMANTIC = "semantic"
    GRAPH_ONLY = "graph_only"
    GRAPH_FIRST = "graph_first"
    VECTOR_FIRST = "vector_first"
    HYBRID = "hybrid"
    MULTI_HOP = "multi_hop"


class Ranking(StrEnum):
    """How relevance, recency and use make the final score."""

    RELEVANCE = "relevance"
    MEMORY = "memory"
    RECENCY = "recency"


class ContextRole(StrEnum):
    """Whose words a chat message with retrieved text is said to be."""

    ASSISTANT = "assistant"
    USER = "user"
    TOOL = "tool"


class GraphSource(StrEnum):
    """Where the graph comes from: what is given, names found in the texts, or both."""

    GIVEN = "given"
    FOUND = "found"
    """Vertices and relationships that are given are left out."""
    BOTH = "both"


class Fusion(StrEnum):
    """How ranked lists become one."""

    WEIGHTED = "weighted"
    RRF = "rrf"
    PROPAGATE = "propagate"


class Source(StrEnum):
    """Which strand found a candidate."""

    VECTOR = "vector"
    LEXICAL = "lexical"
    KNOWLEDGE = "knowledge"
    GRAPH = "graph"


class Kind(StrEnum):
    """What a record is."""

    CHUNK = "chunk"
    ENTITY = "entity"
    FACT = "fact"
    DECISION = "decision"
    TOOL_CALL = "tool_call"
    MESSAGE = "message"


class Direction(StrEnum):
    """Which way an edge is walked."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


class SchemaWindow(StrEnum):
    """How far back questions find records of older schema versions."""

    THRESHOLD = "threshold"
    """As far as the drift threshold: moderate drift is found, at a discount."""
    STRICT = "strict"
    """To the version before the current one."""


class RerankerKind(StrEnum):
    """Which kind of reranker rescores the first candidates."""

    NONE = "none"
    ONNX = "onnx"
    BEDROCK = "bedrock"
    VOYAGE = "voyage"

    @property
    def is_hosted(self) -> bool:
        """Whether somebody else runs it and is paid for each question."""
        return self in {RerankerKind.BEDROCK, RerankerKind.VOYAGE}
