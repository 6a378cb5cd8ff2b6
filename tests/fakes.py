"""Ports that answer what a test says and keep what they were asked; a record, hit or question in one line."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from braid.models import (
    Embedding,
    EmbeddingType,
    EntityLink,
    GraphHit,
    Hit,
    Intent,
    Mode,
    Path,
    Plan,
    Query,
    Record,
    Source,
    StoredRecord,
    Strategy,
)
from braid.ports.graph_query import GraphResult
from braid.ports.knowledge_graph import Expansion, GraphStats
from braid.ports.search_index import IndexStats, ScanPage, SearchHits
from braid.retrieval.stages import fuse_rerank
from braid.retrieval.stages.candidates import meets
from braid.retrieval.stages.fuse_rerank import FusionLimits
from braid.retrieval.stages.stage_messages import FuseRequest, GraphFound, Searched

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from braid.models import Answer, FacetValue, Relationship, ValueKind, Vertex
    from braid.ports.graph_query import GraphQuery
    from braid.ports.knowledge_graph import ExpandRequest, PropagateRequest
    from braid.ports.search_index import SearchRequest
    from braid.reembedding.queue_from_answers import OutdatedRecordSender

TENANT = "acme"
NOW = datetime(2026, 1, 15, 9, 30, tzinfo=UTC)


class FakeIndex:
    """A search index of given records and given hits, which keeps every call.

    Attributes
    ----------
    searches, reads
        What ``search`` and ``get_many`` were asked, in order.
    """

    def __init__(
        self, records: Sequence[Record] = (), *, hits: SearchHits | None = None, error: Exception | None = None
    ) -> None:
        self.records, self.hits, self.error = records, hits or SearchHits(), error
        self.searches: list[SearchRequest] = []
        self.reads: list[tuple[str, tuple[str, ...]]] = []

    def search(self, request: SearchRequest) -> SearchHits:
        self.searches.append(request)
        if self.error:
            raise self.error
        return self.hits

    def candidates(self, tenant_id: str, ids: Sequence[str]) -> dict[str, StoredRecord]:
        """Return every record that has one of the ids, whoever owns it: as an index that forgets tenants."""
        self.reads.append((tenant_id, tuple(ids)))
        if self.error:
            raise self.error
        return {record.id: StoredRecord.of(record) for record in self.records if record.id in set(ids)}

    def upsert(self, records: Sequence[Record]) -> None:
        raise NotImplementedError

    def delete(self, tenant_id: str, ids: Sequence[str]) -> int:
        raise NotImplementedError

    def scan(self, tenant_id: str, **conditions: Any) -> ScanPage:
        raise NotImplementedError

    def stats(self, tenant_id: str) -> IndexStats:
        raise NotImplementedError

    def field_kinds(
        self, tenant_id: str, fields: Sequence[str], trusted_only: bool = False
    ) -> dict[str, frozenset[ValueKind]]:
        raise NotImplementedError

    def unknown_words(self, tenant_id: str, words: Sequence[str]) -> frozenset[str]:
        raise NotImplementedError

    def passing(self, request: SearchRequest) -> frozenset[str]:
        """Return the records of the request that meet its filters, and keep the call as a search."""
        self.searches.append(request)
        if self.error:
            raise self.error
        asked = set(request.ids or ())
        return frozenset(one.id for one in self.records if one.id in asked and meets(one, request.filters))

    def count_values(self, request: SearchRequest, fields: Sequence[str]) -> dict[str, tuple[FacetValue, ...]]:
        raise NotImplementedError


class FakeGraph:
    """A graph of given links and walks, which keeps every call.

    Attributes
    ----------
    linked, expanded, propagated
        What ``link``, ``expand`` and ``propagate`` were asked, in order.
    """

    def __init__(
        self,
        *,
        links: Sequence[EntityLink] = (),
        walk: Callable[[ExpandRequest], Expansion] | None = None,
        spread: Callable[[PropagateRequest], Expansion] | None = None,
        stats: GraphStats | None = None,
        known: Sequence[str] = (),
        error: Exception | None = None,
    ) -> None:
        self.known = known
        self.links, self.walk, self.spread, self.counts, self.error = links, walk, spread, stats or GraphStats(), error
        self.linked: list[tuple[str, tuple[str, ...], datetime]] = []
        self.linked_trusted: list[bool] = []
        self.expanded: list[ExpandRequest] = []
        self.propagated: list[PropagateRequest] = []
        self.queries: list[GraphQuery] = []

    def link(
        self,
        tenant_id: str,
        names: Sequence[str],
        *,
        as_of: datetime,
        limit: int = 50,
        trusted_only: bool = False,
    ) -> list[EntityLink]:
        self.linked.append((tenant_id, tuple(names), as_of))
        self.linked_trusted.append(trusted_only)
        return [link for link in self.links if link.phrase in names][:limit]

    def expand(self, request: ExpandRequest) -> Expansion:
        self.expanded.append(request)
        return self.walk(request) if self.walk else Expansion()

    def propagate(self, request: PropagateRequest) -> Expansion:
        self.propagated.append(request)
        return self.spread(request) if self.spread else Expansion()

    def query(self, query: GraphQuery) -> GraphResult:
        """Return those of the ``known`` ids that the query begins at."""
        self.queries.append(query)
        hits = [walked(identity, score=1.0, types=()) for identity in query.start.ids if identity in self.known]
        return GraphResult(hits=tuple(hits))

    def stats(self, tenant_id: str) -> GraphStats:  # noqa: ARG002 - the port's
        if self.error:
            raise self.error
        return self.counts

    def upsert(self, vertices: Sequence[Vertex], relationships: Sequence[Relationship]) -> None:
        raise NotImplementedError

    def delete(self, tenant_id: str, ids: Sequence[str]) -> int:
        raise NotImplementedError


class FakeReranker:
    """A reranker that scores by text, by a given function, or raises."""

    name = "fake"

    def __init__(
        self, score: Callable[[str], float] | None = None, *, error: Exception | None = None, cost_usd: float = 0.0
    ) -> None:
        self.score, self.error, self.price = score, error, cost_usd
        self.asked: list[tuple[str, tuple[str, ...], float]] = []

    def cost_usd(self, query: str, texts: Sequence[str]) -> float:  # noqa: ARG002 - the port's
        return self.price

    def rerank(self, query: str, texts: Sequence[str], *, timeout_s: float) -> list[float]:
        self.asked.append((query, tuple(texts), timeout_s))
        if self.error:
            raise self.error
        return [self.score(text) if self.score else 0.5 for text in texts]


class FakeEncoder:
    """An encoder that keeps what it was given."""

    def __init__(self, model_id: str = "fake-model") -> None:
        self.model_id, self.space, self.dimension = model_id, model_id.replace("-", "_"), 2
        self.max_tokens = 256
        self.encoded: list[tuple[tuple[str, ...], str]] = []

    def encode(self, texts: Sequence[str], *, instruction: str = "") -> list[bytes]:
        self.encoded.append((tuple(texts), instruction))
        return [struct.pack("<2f", 1.0, 0.0) for _ in texts]

    def token_ends(self, text: str) -> list[int]:
        return list(range(1, len(text) + 1))


def query(text: str = "scanner lockout", **fields: Any) -> Query:
    return Query(**{"text": text, "tenant_id": TENANT} | fields)


def plan(intent: Intent = Intent.EXPLORATORY, **fields: Any) -> Plan:
    defaults: dict[str, Any] = {
        "strategy": Strategy.HYBRID,
        "mode": Mode.HYBRID,
        "intent": intent,
        "embedding_type": EmbeddingType.GENERAL,
    }
    return Plan(**defaults | fields)


def record(identity: str, **fields: Any) -> Record:
    return Record(**{"id": identity, "tenant_id": TENANT, "content": f"text of {identity}"} | fields)


def hits(*scored: tuple[str, float]) -> tuple[Hit, ...]:
    """Return ranked hits from ids and scores, best first."""
    return tuple(Hit(id=identity, score=score, rank=rank) for rank, (identity, score) in enumerate(scored, start=1))


def walked(
    *ids: str,
    score: float = 0.5,
    types: tuple[str, ...] | None = None,
    evidence: tuple[str | None, ...] = (),
    **fields: Any,
) -> GraphHit:
    """Return what a walk along ``ids`` reached: the last of them."""
    path = Path(ids=ids, types=types or ("RELATED_TO",) * (len(ids) - 1), evidence=evidence)
    return GraphHit(**{"id": ids[-1], "score": score, "rank": 1, "path": path, "source": Source.GRAPH} | fields)


def link(identity: str, name: str, *, phrase: str | None = None, score: float = 1.0, **fields: Any) -> EntityLink:
    return EntityLink(
        entity_id=identity, name=name, entity_type="Service", phrase=phrase or name.lower(), score=score, **fields
    )


def embedding(*values: float, space: str = "fake_model") -> Embedding:
    return Embedding(space=space, model_id=space.replace("_", "-"), vector=struct.pack(f"<{len(values)}f", *values))


def searched(*scored: tuple[str, float], **fields: Any) -> Searched:
    return Searched(vector=hits(*scored), took_ms=2, **fields)


def found(*graph_hits: GraphHit, **fields: Any) -> GraphFound:
    return GraphFound(hits=graph_hits, took_ms=3, **fields)


def fused(
    records: Sequence[Record] = (),
    *,
    index: FakeIndex | None = None,
    reranker: FakeReranker | None = None,
    schema_version: int = 1,
    limits: FusionLimits | None = None,
    outdated_sender: OutdatedRecordSender | None = None,
    uses: Callable[[str], Mapping[str, float]] | None = None,
    **pieces: Any,
) -> Answer:
    """Run the fuse_rerank stage over the given pieces, with what is not given left at its default."""
    defaults = {"query": query(), "plan": plan(), "trace_id": "t-1", "started_at": NOW, "plan_ms": 1.0}
    return fuse_rerank.run(
        FuseRequest(**defaults | pieces),
        index=index or FakeIndex(records),
        reranker=reranker,
        now=NOW,
        schema_version=schema_version,
        limits=limits or FusionLimits(),
        outdated_sender=outdated_sender,
        uses=uses,
    )
