"""The embedded search index: records in SQLite, words in FTS5, vectors in HNSW graphs."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final

from braid.deadline import Locks, holding, suspended, within
from braid.engines.embedded.search import row_reads, row_writes
from braid.engines.embedded.search.filters import to_sql
from braid.engines.embedded.sqlite_files import interrupted_in_time, remove_files
from braid.engines.embedded.store import VECTORS
from braid.engines.embedded.write_generations import Generation, GenerationCache, change
from braid.errors import DimensionMismatch
from braid.models import Hit, Kind
from braid.ports.keys import check_limit, decode, encode
from braid.ports.search_index import MAX_OUTDATED, IndexStats, ScanPage, SearchHits, check_vectors
from braid.telemetry.recording import store_calls

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Unpack

    from braid.engines.embedded.search.bm25 import WordCache
    from braid.engines.embedded.search.filters import RowFilter
    from braid.engines.embedded.search.hnsw_graph import HnswGraph
    from braid.engines.embedded.search.knn import NearRecord
    from braid.engines.embedded.sqlite_files import Connection
    from braid.engines.embedded.store import EmbeddedStore
    from braid.models import Embedding, FacetValue, Record, StoredRecord, ValueKind
    from braid.ports.search_index import ScanConditions, SearchRequest, WrittenRecord

EXACT_ROWS: Final = 1_000
"""Most vectors of a tenant and space that a search compares all, rather than through the HNSW graph."""
_GRAPHS_IN_MEMORY = 32


@store_calls("sqlite")
class EmbeddedSearchIndex:
    """Records in SQLite, words in FTS5, vectors in HNSW; implements :class:`braid.ports.search_index.SearchIndex`.

    Parameters
    ----------
    exact_rows
        Most rows that are all scored; more are searched through the HNSW graph.
    question_s
        Time limit of one search in seconds.
    """

    def __init__(
        self,
        store: EmbeddedStore,
        spaces: Mapping[str, int],
        *,
        exact_rows: int = EXACT_ROWS,
        question_s: float = math.inf,
    ) -> None:
        self._store = store
        self.dimensions = spaces
        self._question_s = question_s
        self._exact_rows = exact_rows
        self._lock = threading.Lock()
        self._graphs: OrderedDict[tuple[int, str], HnswGraph] = OrderedDict()
        self._counting = Locks(threading.Lock)
        self._words: WordCache | None = None
        self._stats: GenerationCache[IndexStats] = GenerationCache(store, Generation.RECORDS)

    def set_validity(self, records: Sequence[Record]) -> None:
        """Update the validity of records, in the transaction in which they were read; their vectors are not needed."""
        for tenant_id, some in groupby(sorted(records, key=_tenant_of), key=_tenant_of):
            change(self._store, Generation.RECORDS, tenant_id, list(some), row_writes.set_validity)

    def upsert(self, records: Sequence[Record]) -> None:
        """Insert or replace records; of several with the same id the last one counts.

        Raises InvalidRequest also if a vector is zero or not finite; nothing is written.
        """
        check_vectors(records, self.dimensions)
        last = {(record.tenant_id, record.id): record for record in records}
        ordered = sorted(last.values(), key=_tenant_of)
        if not ordered:
            return
        with self._store.transaction() as connection:
            for tenant_id, batch in groupby(ordered, key=_tenant_of):
                tenant = self._store.ensure_tenant_number(connection, tenant_id)
                row_writes.upsert(connection, tenant, batch)
                Generation.RECORDS.advance(connection, tenant)
                self._store.after_commit(partial(self._keep_up, tenant_id))

    def delete(self, tenant_id: str, ids: Sequence[str]) -> int:
        """Remove records and return how many there were; with a tenant's last record its graph files are removed too.

        Their remaining words are removed by :meth:`finish_removals`.
        """
        removed = change(self._store, Generation.RECORDS, tenant_id, ids, row_writes.delete)
        # Even if none were: a process that removed the last one may have been killed before it removed the files.
        self._store.after_commit(lambda: self._remove_graphs_if_empty(tenant_id))
        if removed:
            self._store.after_commit(partial(self._keep_up, tenant_id))
        return removed

    def _keep_up(self, tenant_id: str) -> None:
        """Add written vectors to large vector graphs, so that no search has to."""
        with suspended(), self._store.read_tenant(tenant_id) as (connection, tenant):
            for space, dimension in self.dimensions.items():
                if tenant is not None and row_reads.has_more_vectors(connection, tenant, space, than=self._exact_rows):
                    self._hnsw_graph(tenant, space).keep_up(connection, dimension)

    def show_writes(self) -> None:
        """Do nothing: a committed write is found at once."""

    def finish_removals(self, tenant_id: str) -> None:
        """Remove the remaining words of a tenant without records, in short transactions."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            more = tenant is not None and row_writes.words_are_left(connection, tenant)
        while more and tenant is not None:
            with self._store.transaction() as connection:
                more = row_writes.words_are_left(connection, tenant)  # another process may have written a record
                if more:
                    row_writes.remove_some_words(connection, tenant)

    def _remove_graphs_if_empty(self, tenant_id: str) -> None:
        """Remove the vector graphs of a tenant without records: they contain deleted vectors."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            if tenant is None or row_reads.has_any(connection, tenant):
                return
        with self._lock:
            for key in [key for key in self._graphs if key[0] == tenant]:
                del self._graphs[key]
        remove_files(self._store.folder / VECTORS, f"{tenant}-*")

    def search(self, request: SearchRequest) -> SearchHits:
        """Run the vector and the lexical search on one snapshot of the store.

        Raises StoreTooSlow if it takes longer than ``question_s``.
        """
        with within(self._question_s), self._store.read_tenant(request.tenant_id) as (connection, tenant):
            if tenant is None or request.ids == ():
                return SearchHits()
            vector, lexical, superseded = self._strands(connection, tenant, request, request.k)
            begins_at = row_reads.first_to_begin(connection, tenant, superseded, request.as_of) if superseded else None
            outdated: dict[str, None] = {}
            if request.min_schema_version > 1:
                for strand in self._strands(connection, tenant, request, MAX_OUTDATED, outdated=True)[:2]:
                    outdated |= dict.fromkeys(found[1] for found in strand)
            embedding = request.embedding
            space_empty = embedding is not None and not vector and _only_elsewhere(connection, tenant, embedding.space)
        return SearchHits.unchecked(
            vector=tuple(
                Hit.unchecked(id=near.id, score=near.score, rank=rank, part_start=near.part_start)
                for rank, near in enumerate(vector, start=1)
            ),
            lexical=tuple(
                Hit.unchecked(id=record_id, score=score, rank=rank)
                for rank, (score, record_id) in enumerate(lexical, start=1)
            ),
            superseded=len(superseded),
            begins_at=begins_at,
            outdated=tuple(outdated),
            space_empty=space_empty,
        )

    @contextmanager
    def _question(self, tenant_id: str) -> Iterator[tuple[sqlite3.Connection, int | None]]:
        """Lend a connection whose statements are interrupted after ``question_s``, with the tenant's number."""
        with within(self._question_s), self._store.read_tenant(tenant_id) as lent, interrupted_in_time(lent[0]):
            yield lent

    def _strands(
        self, connection: Connection, tenant: int, request: SearchRequest, k: int, *, outdated: bool = False
    ) -> tuple[list[NearRecord], list[tuple[float, str]], set[str]]:
        """Return the vector hits, the lexical hits, and the ids that validity excluded from either."""
        row_filter = to_sql(request, tenant, outdated=outdated).with_few(connection, self._exact_rows)
        vector: list[NearRecord] = []
        lexical: list[tuple[float, str]] = []
        superseded: set[str] = set()
        if request.embedding is not None:
            vector, superseded = self._nearest(connection, tenant, row_filter, request.embedding, k)
        if request.text and row_reads.has_any(connection, tenant):
            from braid.engines.embedded.search import bm25

            if self._words is None:
                self._words = bm25.WordCache(self._store)
            lexical, superseded_too = bm25.search(
                connection,
                self._words,
                tenant,
                request.text,
                row_filter,
                k=k,
                newest_first=request.newest_first,
            )
            superseded = superseded | superseded_too
        return vector, lexical, superseded

    def get_many(self, tenant_id: str, ids: Sequence[str], *, with_vectors: bool = False) -> list[Record]:
        """Return the records that exist, in the order of ``ids``, with their vectors only if requested."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            if tenant is None:
                return []
            return row_reads.read_many(connection, tenant, tenant_id, ids, with_vectors=with_vectors)

    def candidates(self, tenant_id: str, ids: Sequence[str]) -> dict[str, StoredRecord]:
        """Return the records that exist, by id, each parsed on access."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            return {} if tenant is None else row_reads.read_candidates(connection, tenant, tenant_id, ids)

    def written(self, tenant_id: str, ids: Sequence[str]) -> dict[str, WrittenRecord]:
        """Return content hash, models and trust of the records that exist, by id."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            return {} if tenant is None else row_reads.written(connection, tenant, ids)

    def characters(self, tenant_id: str, ids: Sequence[str]) -> dict[str, int]:
        """Return the text length in characters of the records that exist, by id."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            return {} if tenant is None else row_writes.characters(connection, tenant, ids)

    def scan(
        self,
        tenant_id: str,
        *,
        after: str | None = None,
        limit: int = 500,
        with_vectors: bool = False,
        **conditions: Unpack[ScanConditions],
    ) -> ScanPage:
        """Return the next page of records in the order of their ids; each page has the store's current state."""
        begin = decode(tenant_id, after)
        check_limit(limit)
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            if tenant is None:
                return ScanPage()
            found = row_reads.page(
                connection, tenant, tenant_id, conditions, after=begin, limit=limit + 1, with_vectors=with_vectors
            )
        records = tuple(found[:limit])
        more = len(found) > limit
        return ScanPage(records=records, cursor=encode(tenant_id, records[-1].id) if more else None)

    def count(self, tenant_id: str, *, at_most: int, trusted_only: bool = False) -> int:
        """Return the number of a tenant's records, or of the trusted ones, at most ``at_most``."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            return (
                0 if tenant is None else row_reads.count_up_to(connection, tenant, at_most, trusted_only=trusted_only)
            )

    def stats(self, tenant_id: str) -> IndexStats:
        """Return counts of a tenant's records, cached until the next write."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            return IndexStats() if tenant is None else self._stats.get(connection, tenant, _count)

    def unknown_words(self, tenant_id: str, words: Sequence[str], *, trusted_only: bool = False) -> frozenset[str]:
        """Return the words that no record of the tenant, or no trusted record, contains."""
        from braid.engines.embedded.search import bm25

        with self._question(tenant_id) as (connection, tenant):
            if tenant is None or not row_reads.has_any(connection, tenant):
                return frozenset(words)
            known = partial(bm25.is_known, connection, tenant, trusted_only=trusted_only)
            return frozenset(word for word in words if not known(word))

    def passing(self, request: SearchRequest) -> frozenset[str]:
        """Return which of the request's ids are records that meet its filters."""
        with self._question(request.tenant_id) as (connection, tenant):
            if tenant is None or not request.ids:
                return frozenset()
            return row_reads.passing(connection, to_sql(request, tenant))

    def field_kinds(
        self, tenant_id: str, fields: Sequence[str], *, trusted_only: bool = False
    ) -> dict[str, frozenset[ValueKind]]:
        """Return the kinds of values of each metadata field that any of the tenant's records, or trusted ones, has."""
        with self._question(tenant_id) as (connection, tenant):
            if tenant is None:
                return {}
            kinds = {
                field: row_reads.field_kinds(connection, tenant, field, trusted_only=trusted_only) for field in fields
            }
        return {field: found for field, found in kinds.items() if found}

    def count_values(self, request: SearchRequest, fields: Sequence[str]) -> dict[str, tuple[FacetValue, ...]]:
        """Return the most frequent values of each field among the records that a search considers.

        One call per tenant runs at a time, as it may read all of the tenant's records, which occupies a core.
        """
        counting = holding(self._counting.of(request.tenant_id))
        with within(self._question_s), counting, self._question(request.tenant_id) as (connection, tenant):
            if tenant is None or not fields or request.ids == ():
                return {}
            row_filter = to_sql(request, tenant).with_few(connection, self._exact_rows)
            return row_reads.count_values(connection, row_filter, list(dict.fromkeys(fields)))

    def optimise(self, tenant_id: str) -> None:
        """Build and save a tenant's vector graphs, so that the next process need not. Optional."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            if tenant is None or self._store.in_transaction:
                return
            for space, dimension in self.dimensions.items():
                if row_reads.has_more_vectors(connection, tenant, space):
                    row_reads.check_stored_length(connection, tenant, space, dimension)
                    self._hnsw_graph(tenant, space).bring_up_to_date(connection, dimension)

    def _nearest(
        self,
        connection: sqlite3.Connection,
        tenant: int,
        row_filter: RowFilter,
        embedding: Embedding,
        k: int,
    ) -> tuple[list[NearRecord], set[str]]:
        expected = self.dimensions.get(embedding.space)
        if expected is None:
            return [], set()
        if embedding.dimension != expected:
            raise DimensionMismatch.of(
                "embedding",
                f"space {embedding.space} holds vectors of {expected} values,"
                f" the question has one of {embedding.dimension}; embed with the model of that space",
            )
        row_reads.check_stored_length(connection, tenant, embedding.space, expected)
        import numpy as np

        from braid.engines.embedded.search import knn

        # Uncommitted vectors must not enter a graph that other threads use: they may be rolled back.
        hnsw = None if self._store.in_transaction else partial(self._hnsw_graph, tenant, embedding.space)
        return knn.search(
            connection,
            hnsw,
            np.frombuffer(row_reads.unit(embedding.vector, embedding.space), dtype="<f4"),
            row_filter,
            tenant=tenant,
            space=embedding.space,
            k=k,
            exact_rows=self._exact_rows,
        )

    def _hnsw_graph(self, tenant: int, space: str) -> HnswGraph:
        from braid.engines.embedded.search.hnsw_graph import HnswGraph

        with self._lock:
            graph = self._graphs.get((tenant, space))
            if graph is None:
                graph = self._graphs[tenant, space] = HnswGraph(self._store, tenant, space)
            self._graphs.move_to_end((tenant, space))
            while len(self._graphs) > _GRAPHS_IN_MEMORY:
                self._graphs.popitem(last=False)
            return graph


def _tenant_of(record: Record) -> str:
    return record.tenant_id


def _only_elsewhere(connection: sqlite3.Connection, tenant: int, space: str) -> bool:
    """Return whether a tenant has vectors, but none in this space."""
    spaces = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM vectors WHERE space = :space AND tenant = :tenant),"
        " EXISTS (SELECT 1 FROM vectors WHERE tenant = :tenant)",
        {"space": space, "tenant": tenant},
    ).fetchone()
    return tuple(spaces) == (0, 1)


def _count(connection: sqlite3.Connection, tenant: int) -> IndexStats:
    by_kind: dict[Kind, int] = {}
    by_type: dict[str, int] = {}
    for kind, entity_type, count in connection.execute(
        "SELECT kind, entity_type, count(*) FROM records WHERE tenant = ? GROUP BY kind, entity_type", (tenant,)
    ):
        by_kind[Kind(kind)] = by_kind.get(Kind(kind), 0) + count
        if entity_type is not None:
            by_type[entity_type] = by_type.get(entity_type, 0) + count
    return IndexStats(records=sum(by_kind.values()), by_kind=by_kind, by_entity_type=by_type)
