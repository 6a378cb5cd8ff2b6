"""Search index on OpenSearch: a managed domain, a serverless collection, or a local server.

Reads and writes go through an alias, so that an index migration switches in one step. A question is one ``_msearch``.
"""

from __future__ import annotations

import json
import threading
import time
from functools import partial, wraps
from itertools import groupby
from typing import TYPE_CHECKING, Any, Concatenate, Final, TypeVar

from braid import deadline
from braid.engines.opensearch import mapping
from braid.engines.opensearch import queries as query
from braid.engines.opensearch.aliases import alias_of, aliases_of, indexes_by_alias
from braid.engines.opensearch.bulk import write_items
from braid.engines.opensearch.client import (
    IndexMissing,
    P,
    R,
    call,
    call_until,
    change_timeout_s,
    complete,
    open_client,
    question_deadline,
    refusal,
)
from braid.engines.opensearch.dual_write import dual_write
from braid.engines.opensearch.embedding_spaces import EmbeddingSpaces
from braid.engines.opensearch.multi_search import conditions_clause, filter_clause, strands
from braid.errors import StoreError
from braid.ports.keys import check_limit, decode, encode
from braid.ports.search_index import IndexStats, ScanPage, SearchHits, SearchRequest, WrittenRecord
from braid.telemetry.recording import store_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Unpack

    from opensearchpy import OpenSearch

    from braid.engines.retrying import Deadline
    from braid.models import FacetValue, Record, StoredRecord, ValueKind
    from braid.ports.search_index import ScanConditions
    from braid.settings import Settings

_READ_AT_ONCE = 500
ALIASES_KEPT_S: Final = 60.0
"""For how many seconds a reader goes by the aliases that it read: a tenant's old index is kept longer."""
_Asked = TypeVar("_Asked", str, SearchRequest)


def _in_its_index(
    read: Callable[Concatenate[OpenSearchIndex, _Asked, P], R],
) -> Callable[Concatenate[OpenSearchIndex, _Asked, P], R]:
    """Have a method, whose first argument is a tenant or a request of one, read the index that has its records."""

    @wraps(read)
    def of_tenant(self: OpenSearchIndex, asked: _Asked, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return read(self._holding(_tenant_asked(asked)), asked, *args, **kwargs)

    return of_tenant


def _within_a_question(
    ask: Callable[Concatenate[OpenSearchIndex, _Asked, Deadline, P], R],
) -> Callable[Concatenate[OpenSearchIndex, _Asked, P], R]:
    """Have a method ask the index that has the tenant's records, within a question's deadline, which finding it is in.

    The method gets the deadline as its second argument.
    """

    @wraps(ask)
    def of_question(self: OpenSearchIndex, asked: _Asked, /, *args: P.args, **kwargs: P.kwargs) -> R:
        until = question_deadline(self._settings)
        return ask(self._holding(_tenant_asked(asked), until), asked, until, *args, **kwargs)

    return of_question


def _tenant_asked(asked: str | SearchRequest) -> str:
    return asked if isinstance(asked, str) else asked.tenant_id


@store_calls("opensearch")
class OpenSearchIndex:
    """Records in OpenSearch; implements :class:`braid.ports.search_index.SearchIndex`.

    Parameters
    ----------
    settings
        Those that begin with ``opensearch_``, and ``shared_dir`` for the index template.
    alias
        An existing alias to use instead of the settings'; its writes are not dual writes.
    """

    def __init__(
        self, client: OpenSearch, settings: Settings, spaces: Mapping[str, int], *, alias: str | None = None
    ) -> None:
        self._client = client
        self._settings = settings
        self._dimensions = spaces
        self._alias = alias or settings.opensearch_index
        self._single = alias is not None
        self._others: dict[str, OpenSearchIndex] = {}
        self._aliases: dict[str, str] = {}
        self._aliases_until = 0.0
        self._attempts = settings.opensearch_attempts
        self._spaces = EmbeddingSpaces(client, settings, spaces, alias=self._alias, create=self.create)
        self._creating = threading.Lock()

    @classmethod
    def connect(cls, settings: Settings, spaces: Mapping[str, int]) -> OpenSearchIndex:
        """Return the index that the settings name; no request is sent yet.

        Raises ConfigurationError if requests must be signed and credentials or the region are missing.
        """
        return cls(open_client(settings), settings, spaces)

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()

    def create(self) -> None:
        """Create the first index and its alias, unless the alias exists."""
        with self._creating:
            if self._call(self._client.indices.exists_alias, name=self._alias):
                return
            body = mapping.index_body(self._settings)
            body["aliases"] = {self._alias: {"is_write_index": True}}
            try:
                self._call(
                    self._client.indices.create,
                    index=f"{self._alias}-000001",
                    body=body,
                    request_timeout=change_timeout_s(self._settings),
                )
            except StoreError as error:
                # Another process may have created it first.
                if "resource_already_exists_exception" not in str(error):
                    raise

    def upsert(self, records: Sequence[Record]) -> None:
        """Write records; when it returns they are durable, and searchable unless ``opensearch_refresh`` is false.

        Unchanged records are not written again: indexing their vectors is most of the cost of a write, and a replaced
        version counts in BM25 until OpenSearch merges its segments.

        Raises
        ------
        InvalidRequest
            If a vector's space is unknown; nothing is written.
        DimensionMismatch
            If a vector's length is not that of its space; nothing is written.
        TransientStoreError
            If some records were still throttled after the last attempt; the message counts them.
        """
        self._dual_write(records, lambda index, own: index.upsert_here(own))

    def _at(self, alias: str) -> OpenSearchIndex:
        """Return the index behind another alias."""
        if alias == self._alias:
            return self
        if alias not in self._others:
            self._others[alias] = OpenSearchIndex(self._client, self._settings, self._dimensions, alias=alias)
        return self._others[alias]

    def _holding(self, tenant_id: str, until: Deadline | None = None) -> OpenSearchIndex:
        """Return the index that has a tenant's records: the shared one, unless it was moved to one of its own."""
        if self._single:
            return self
        if time.monotonic() >= self._aliases_until:
            self._read_aliases(until)
        return self._at(alias_of(self._aliases, self._alias, tenant_id))

    def _read_aliases(self, until: Deadline | None = None) -> dict[str, str]:
        kept_until = time.monotonic() + ALIASES_KEPT_S
        read = partial(indexes_by_alias, self._client, self._alias)
        if until is not None:
            self._aliases = call_until(until, self._settings, read)
        else:
            timeout_s = min(self._settings.opensearch_timeout_s, deadline.left())
            self._aliases = call(self._attempts, read, request_timeout=timeout_s)
        self._aliases_until = kept_until
        return self._aliases

    def _dual_write(self, records: Sequence[Record], write: Callable[[OpenSearchIndex, list[Record]], object]) -> None:
        """Write the records of each tenant to the index that has them and, during a migration, to the other one."""
        for tenant_id, found in groupby(sorted(records, key=_tenant_of), key=_tenant_of):
            self._in_each(tenant_id, partial(lambda own, index: write(index, own), list(found)))

    def _in_each(self, tenant_id: str, write: Callable[[OpenSearchIndex], R]) -> list[R]:
        if self._single:
            return [write(self)]
        return dual_write(
            lambda: aliases_of(self._read_aliases(), self._alias, tenant_id), lambda alias: write(self._at(alias))
        )

    def upsert_here(self, records: Sequence[Record]) -> None:
        """Write records to this index alone."""
        try:
            self._upsert(records)
        except IndexMissing:
            if self._single:
                raise
            # The index was removed since its mapping was read: create it again.
            self._spaces.forget()
            self._upsert(records)

    def _upsert(self, records: Sequence[Record]) -> None:
        self.prepare_spaces(records)
        last = {mapping.document_id(record.tenant_id, record.id): mapping.document(record) for record in records}
        stored = self._fields(list(last), [mapping.DIGEST])
        self._write(
            [
                ({"index": {"_id": key}}, body)
                for key, body in last.items()
                if stored.get(key, {}).get(mapping.DIGEST) != body[mapping.DIGEST]
            ]
        )

    def end(self, records: Sequence[Record]) -> None:
        """Write when stored records cease to be valid, and nothing else of them.

        By the store itself: a record that was read, and written back whole, may be an older version of what is stored,
        and one that is deleted would come back.
        """
        self._dual_write(records, lambda index, own: index.end_here(own))

    def end_here(self, records: Sequence[Record]) -> None:
        """Write the ends of records to this index alone."""
        keys = {mapping.document_id(record.tenant_id, record.id): mapping.end_of(record) for record in records}
        self._write([({"update": {"_id": key, "retry_on_conflict": 10}}, {"doc": end}) for key, end in keys.items()])

    def prepare_spaces(self, records: Sequence[Record]) -> None:
        """Create the missing vector fields of the records' embedding spaces.

        Raises DimensionMismatch if a vector's length is not that of its space.
        """
        self._spaces.prepare(records, create=not self._single)

    def delete(self, tenant_id: str, ids: Sequence[str]) -> int:
        """Remove records and return how many existed."""
        if not ids:
            return 0
        keys = dict.fromkeys(mapping.document_id(tenant_id, record_id) for record_id in ids)

        def remove(index: OpenSearchIndex) -> set[str]:
            return index.delete_here(list(keys))

        return len(set[str]().union(*self._in_each(tenant_id, remove)))

    def delete_here(self, keys: Sequence[str]) -> set[str]:
        """Remove documents from this index alone and return the ids of those that existed."""
        results = self._write([({"delete": {"_id": key}}, None) for key in keys])
        return {key for key, result in zip(keys, results, strict=True) if result == "deleted"}

    @_within_a_question
    def search(self, request: SearchRequest, until: Deadline) -> SearchHits:
        """Search both strands, and the superseded and outdated records of each, in one round trip.

        Only when no vector is found, a second request asks whether the tenant has any in that space.
        """
        with_vector = request.embedding is not None and self._spaces.has(request.embedding, until)
        asked = strands(request, with_vector=with_vector, with_pairs=self._spaces.has_pairs)
        if request.ids == ():
            return SearchHits()
        bodies = asked.bodies()
        if not bodies:
            return SearchHits(space_empty=self._space_empty(request, until))
        answers = self._ask(request.tenant_id, bodies, until)
        hits = asked.hits(answers)
        if asked.any_near(answers):
            return hits
        return hits.model_copy(update={"space_empty": self._space_empty(request, until)})

    def _space_empty(self, request: SearchRequest, until: Deadline) -> bool:
        """Return whether the tenant has vectors, but none in the question's space."""
        embedding = request.embedding
        if embedding is None:
            return False
        asked = [query.any_vector(request.tenant_id, space) for space in (embedding.space, None)]
        here, anywhere = (
            bool(answer["hits"]["total"]["value"]) for answer in self._ask(request.tenant_id, asked, until)
        )
        return anywhere and not here

    @_in_its_index
    def get_many(self, tenant_id: str, ids: Sequence[str], *, with_vectors: bool = False) -> list[Record]:
        """Return the records that exist, in the order of ``ids``, without their vectors unless asked."""
        records = map(mapping.record_of, self._sources(tenant_id, ids, with_vectors=with_vectors))
        found = {record.id: record for record in records}
        return [found[record_id] for record_id in ids if record_id in found]

    @_in_its_index
    def candidates(self, tenant_id: str, ids: Sequence[str]) -> dict[str, StoredRecord]:
        """Return the records that exist by their ids, each made when it is asked for."""
        stored = map(mapping.stored_record_of, self._sources(tenant_id, ids))
        return {one.id: one for one in stored}

    def _sources(self, tenant_id: str, ids: Sequence[str], *, with_vectors: bool = False) -> Iterator[dict[str, Any]]:
        """Yield the documents that exist."""
        keys = list(dict.fromkeys(mapping.document_id(tenant_id, record_id) for record_id in ids))
        bodies = [
            query.by_keys(tenant_id, keys[start : start + _READ_AT_ONCE], with_vectors=with_vectors)
            for start in range(0, len(keys), _READ_AT_ONCE)
        ]
        for answer in self._msearch(tenant_id, bodies) if bodies else ():
            yield from (hit["_source"] for hit in answer["hits"]["hits"])

    @_in_its_index
    def written(self, tenant_id: str, ids: Sequence[str]) -> dict[str, WrittenRecord]:
        """Return content hash, models and trust of the records that exist, including those not yet searchable."""
        keys = {mapping.document_id(tenant_id, record_id): record_id for record_id in ids}
        try:
            found = self._fields(list(keys), [mapping.CONTENT_HASH, mapping.MODEL_IDS, mapping.TRUSTED])
        except IndexMissing:
            return {}
        return {
            keys[key]: WrittenRecord(
                id=keys[key],
                content_hash=source.get(mapping.CONTENT_HASH),
                model_ids=source.get(mapping.MODEL_IDS, ()),
                trusted=source.get(mapping.TRUSTED, True),
            )
            for key, source in found.items()
        }

    def characters(self, tenant_id: str, ids: Sequence[str]) -> dict[str, int]:  # noqa: ARG002 - the port's
        """Return nothing: no other tenant waits for a write."""
        return {}

    def finish_removals(self, tenant_id: str) -> None:
        """Do nothing: what is deleted is not stored any more."""

    @_in_its_index
    def scan(
        self,
        tenant_id: str,
        *,
        after: str | None = None,
        limit: int = 500,
        with_vectors: bool = False,
        **conditions: Unpack[ScanConditions],
    ) -> ScanPage:
        """Return the next page of records in the order of their ids, without a snapshot."""
        clause = query.outdated_clause(tenant_id, **conditions)
        body = query.scan_page(
            clause, limit=check_limit(limit), after=decode(tenant_id, after), with_vectors=with_vectors
        )
        routing = mapping.routing(tenant_id, self._settings)
        answer = call(self._attempts, lambda: complete(self._client.search(index=self._alias, body=body, **routing)))
        records = tuple(mapping.record_of(hit["_source"]) for hit in answer["hits"]["hits"])
        more = len(records) > limit
        return ScanPage(records=records[:limit], cursor=encode(tenant_id, records[limit - 1].id) if more else None)

    @_in_its_index
    def count(self, tenant_id: str, *, at_most: int) -> int:
        """Return the number of a tenant's records, at most ``at_most``."""
        (answer,) = self._msearch(tenant_id, [query.count(tenant_id, at_most)])
        return min(at_most, int(answer["hits"]["total"]["value"]))

    @_in_its_index
    def stats(self, tenant_id: str) -> IndexStats:
        """Return stored counts."""
        (answer,) = self._msearch(tenant_id, [query.stats(tenant_id)])
        return query.stats_of(answer)

    @_within_a_question
    def unknown_words(self, tenant_id: str, until: Deadline, words: Sequence[str]) -> frozenset[str]:
        """Return which of some words no record of the tenant has."""
        if not words:
            return frozenset()
        asked = [query.any_with(tenant_id, word) for word in words]
        answers = self._ask(tenant_id, asked, until)
        found = (bool(answer["hits"]["total"]["value"]) for answer in answers)
        return frozenset(word for word, known in zip(words, found, strict=True) if not known)

    @_within_a_question
    def passing(self, request: SearchRequest, until: Deadline) -> frozenset[str]:
        """Return which of the request's ids are records that meet its filters."""
        if not request.ids:
            return frozenset()
        body = query.ids_of(conditions_clause(request), most=len(request.ids))
        (answer,) = self._ask(request.tenant_id, [body], until)
        return frozenset(str(hit["sort"][0]) for hit in answer["hits"]["hits"])

    @_within_a_question
    def field_kinds(self, tenant_id: str, until: Deadline, fields: Sequence[str]) -> dict[str, frozenset[ValueKind]]:
        """Return the kinds of values that the tenant's records have in each field that any has."""
        if not fields:
            return {}
        (answer,) = self._ask(tenant_id, [query.field_kinds(tenant_id, fields)], until)
        return query.field_kinds_of(answer, fields)

    @_within_a_question
    def count_values(
        self, request: SearchRequest, until: Deadline, fields: Sequence[str]
    ) -> dict[str, tuple[FacetValue, ...]]:
        """Return the most frequent values of each field among the records that a search is among."""
        if not fields or request.ids == ():
            return {}
        body = query.count_values(filter_clause(request, valid=True), fields, tenant_id=request.tenant_id)
        (answer,) = self._ask(request.tenant_id, [body], until)
        return query.values_of(answer, fields)

    def _call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        with self._spaces.forgotten_on_failure():
            return call(self._attempts, function, *args, **kwargs)

    def _msearch(self, tenant_id: str, bodies: Sequence[dict[str, Any]]) -> list[Mapping[str, Any]]:
        timeout_s = min(self._settings.opensearch_timeout_s, deadline.left())
        return self._call(self._answers, tenant_id, bodies, request_timeout=timeout_s)

    def _ask(self, tenant_id: str, bodies: Sequence[dict[str, Any]], until: Deadline) -> list[Mapping[str, Any]]:
        with self._spaces.forgotten_on_failure():
            return call_until(until, self._settings, self._answers, tenant_id=tenant_id, bodies=bodies)

    def _answers(
        self, tenant_id: str, bodies: Sequence[dict[str, Any]], *, request_timeout: float
    ) -> list[Mapping[str, Any]]:
        how = dict(mapping.routing(tenant_id, self._settings))
        if self._single or self._settings.opensearch_tenant_shards > 1:
            # Words are weighed by how often they are in all of the tenant's shards, not in each one's own.
            how["search_type"] = "dfs_query_then_fetch"
        header = json.dumps(how)
        lines = [line for body in bodies for line in (header, json.dumps(body))]
        body = "\n".join(lines) + "\n"
        answer = self._client.msearch(body=body, index=self._alias, request_timeout=request_timeout)
        return [complete(response) for response in answer["responses"]]

    def _entries(self, keys: Sequence[str], fields: Sequence[str]) -> list[dict[str, Any]]:
        answer = self._client.mget(
            index=self._alias, body=mapping.all_of(keys, self._settings), _source_includes=list(fields)
        )
        entries: list[dict[str, Any]] = answer["docs"]
        for entry in entries:
            if "error" in entry:
                raise refusal(int(entry["error"].get("status", 0)), entry["error"])
        return entries

    def _fields(self, keys: Sequence[str], fields: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return fields of the documents that exist, including those not yet searchable."""
        sources: dict[str, dict[str, Any]] = {}
        for start in range(0, len(keys), _READ_AT_ONCE):
            for entry in self._call(self._entries, keys[start : start + _READ_AT_ONCE], fields):
                if entry["found"]:
                    sources[entry["_id"]] = entry["_source"]
        return sources

    def _write(self, operations: Sequence[tuple[dict[str, Any], dict[str, Any] | None]]) -> list[str]:
        return [outcome.result for outcome in write_items(self._client, self._alias, operations, self._settings)]


def _tenant_of(record: Record) -> str:
    return record.tenant_id
