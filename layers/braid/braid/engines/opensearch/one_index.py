"""One index of OpenSearch behind an alias: its writes, searches, reads by id and scans."""

from __future__ import annotations

import json
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from braid import deadline
from braid.engines.opensearch import mapping
from braid.engines.opensearch import reads_and_counts as query
from braid.engines.opensearch.bulk import write_items
from braid.engines.opensearch.client import (
    IndexMissing,
    P,
    R,
    ShardUnavailable,
    call,
    call_in_time,
    change_timeout_s,
    error_of_status,
    items_of,
    require_complete,
)
from braid.engines.opensearch.embedding_spaces import EmbeddingSpaces
from braid.engines.opensearch.filters import conditions_clause, filter_clause
from braid.engines.opensearch.question_searches import strands
from braid.errors import StoreError
from braid.ports.batches import batches
from braid.ports.keys import check_limit, decode, encode
from braid.ports.search_index import IndexStats, ScanPage, SearchHits, WrittenRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import Unpack

    from opensearchpy import OpenSearch

    from braid.models import FacetValue, Record, StoredRecord, ValueKind
    from braid.ports.search_index import ScanConditions, SearchRequest
    from braid.settings import Settings

_READ_AT_ONCE = 500


class SingleIndex:
    """The records behind one alias; methods that a question calls are called in its time.

    The shared index is created when it is missing. A tenant's own index, or one that a migration fills, is not.

    Parameters
    ----------
    settings
        The settings ``opensearch_…``, and ``shared_dir`` for the index template.
    index
        Name of the index, of which vector fields are cached; empty for whatever the alias leads to.
    """

    def __init__(
        self, client: OpenSearch, settings: Settings, spaces: Mapping[str, int], alias: str, *, index: str = ""
    ) -> None:
        self._client = client
        self._settings = settings
        self._alias = alias
        self._is_shared = alias == settings.opensearch_index
        self._attempts = settings.opensearch_attempts
        self._spaces = EmbeddingSpaces(
            client, settings, spaces, alias=alias, index=index, create=self.create if self._is_shared else None
        )
        self._creating = threading.Lock()

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
        """Write records, except unchanged ones."""
        try:
            self._upsert(records)
        except IndexMissing:
            if not self._is_shared:
                raise
            # The index was removed since its mapping was read: create it again.
            self._spaces.forget()
            self._upsert(records)

    def _upsert(self, records: Sequence[Record]) -> None:
        self.prepare_spaces(records)
        last = {mapping.document_id(record.tenant_id, record.id): mapping.document(record) for record in records}
        try:
            stored = self._fields(list(last), [mapping.DIGEST])
        except ShardUnavailable:
            stored = {}  # it only saves writes, which wait for shards: a new index's take a while to start
        self._write(
            [
                ({"index": {"_id": key}}, body)
                for key, body in last.items()
                if stored.get(key, {}).get(mapping.DIGEST) != body[mapping.DIGEST]
            ]
        )

    def set_validity(self, records: Sequence[Record]) -> None:
        """Write when stored records are valid."""
        changes = {mapping.document_id(record.tenant_id, record.id): mapping.validity_of(record) for record in records}
        self._write(
            [({"update": {"_id": key, "retry_on_conflict": 10}}, {"doc": fields}) for key, fields in changes.items()]
        )

    def prepare_spaces(self, records: Sequence[Record]) -> None:
        """Create the missing vector fields of the records' embedding spaces.

        Raises DimensionMismatch if a vector's length is not that of its space.
        """
        self._spaces.prepare(records)

    def delete(self, tenant_id: str, ids: Sequence[str]) -> set[str]:
        """Remove records and return the ids of existing ones."""
        keys = {mapping.document_id(tenant_id, record_id): record_id for record_id in ids}
        results = self._write([({"delete": {"_id": key}}, None) for key in keys])
        return {keys[key] for key, result in zip(keys, results, strict=True) if result == "deleted"}

    def search(self, request: SearchRequest) -> SearchHits:
        """Search both strands in one round trip."""
        with_vector = request.embedding is not None and self._spaces.has(request.embedding)
        asked = strands(request, with_vector=with_vector, with_pairs=self._spaces.has_pairs)
        if request.ids == ():
            return SearchHits()
        bodies = asked.bodies()
        if not bodies:
            return SearchHits(space_empty=self._space_empty(request))
        answers = self._ask(request.tenant_id, bodies)
        hits = asked.hits(answers)
        if asked.any_near(answers):
            return hits
        return hits.altered(space_empty=self._space_empty(request))

    def _space_empty(self, request: SearchRequest) -> bool:
        """Return whether the tenant has vectors, but none in the question's space."""
        embedding = request.embedding
        if embedding is None:
            return False
        asked = [query.any_vector(request.tenant_id, space) for space in (embedding.space, None)]
        here, anywhere = (bool(answer["hits"]["total"]["value"]) for answer in self._ask(request.tenant_id, asked))
        return anywhere and not here

    def get_many(self, tenant_id: str, ids: Sequence[str], *, with_vectors: bool = False) -> list[Record]:
        """Return the records that exist, in the order of ``ids``, without their vectors unless asked."""
        records = map(mapping.record_of, self._sources(tenant_id, ids, with_vectors=with_vectors))
        found = {record.id: record for record in records}
        return [found[record_id] for record_id in ids if record_id in found]

    def candidates(self, tenant_id: str, ids: Sequence[str]) -> dict[str, StoredRecord]:
        """Return the existing records by their ids, each parsed on access."""
        stored = map(mapping.stored_record_of, self._sources(tenant_id, ids, in_time=True))
        return {one.id: one for one in stored}

    def _sources(
        self, tenant_id: str, ids: Sequence[str], *, with_vectors: bool = False, in_time: bool = False
    ) -> Iterator[dict[str, Any]]:
        """Yield the documents that exist; ``in_time`` for a question."""
        keys = dict.fromkeys(mapping.document_id(tenant_id, record_id) for record_id in ids)
        bodies = [query.by_keys(tenant_id, some, with_vectors=with_vectors) for some in batches(keys, _READ_AT_ONCE)]
        ask = partial(self._ask, long_answer=True) if in_time else self._msearch
        for answer in ask(tenant_id, bodies) if bodies else ():
            yield from (hit["_source"] for hit in answer["hits"]["hits"])

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

    def versions(self, tenant_id: str, ids: Sequence[str]) -> dict[str, tuple[object, ...]]:
        """Return content hash and validity, which differ between versions, of existing records, searchable or not."""
        keys = {mapping.document_id(tenant_id, record_id): record_id for record_id in ids}
        fields = (mapping.DIGEST, mapping.VALID_FROM, mapping.VALID_UNTIL)
        found = self._fields(list(keys), fields)
        return {keys[key]: tuple(source.get(name) for name in fields) for key, source in found.items()}

    def copy_from(self, other: SingleIndex, tenant_id: str, ids: Sequence[str]) -> None:
        """Copy these records from another index, and delete those that it does not have."""
        keys = [mapping.document_id(tenant_id, record_id) for record_id in ids]
        documents = other._fields(keys, ["*"])
        self.prepare_spaces(list(map(mapping.record_of, documents.values())))
        self._write(
            [
                ({"index": {"_id": key}}, documents[key]) if key in documents else ({"delete": {"_id": key}}, None)
                for key in keys
            ]
        )

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
        clause = query.scan_clause(tenant_id, **conditions)
        body = query.scan_page(
            clause, limit=check_limit(limit), after=decode(tenant_id, after), with_vectors=with_vectors
        )
        routing = mapping.routing(tenant_id, self._settings)
        answer = call(
            self._attempts, lambda: require_complete(self._client.search(index=self._alias, body=body, **routing))
        )
        records = tuple(mapping.record_of(hit["_source"]) for hit in answer["hits"]["hits"])
        more = len(records) > limit
        return ScanPage(records=records[:limit], cursor=encode(tenant_id, records[limit - 1].id) if more else None)

    def count(self, tenant_id: str, *, at_most: int, trusted_only: bool = False) -> int:
        """Return the number of a tenant's records, or of the trusted ones, at most ``at_most``."""
        (answer,) = self._msearch(tenant_id, [query.count(tenant_id, at_most, trusted_only=trusted_only)])
        return min(at_most, int(answer["hits"]["total"]["value"]))

    def stats(self, tenant_id: str) -> IndexStats:
        """Return stored counts."""
        (answer,) = self._msearch(tenant_id, [query.stats(tenant_id)])
        return query.stats_of(answer)

    def unknown_words(self, tenant_id: str, words: Sequence[str], *, trusted_only: bool) -> frozenset[str]:
        """Return which of some words no record of the tenant, or no trusted one, has."""
        if not words:
            return frozenset()
        asked = [query.any_with(tenant_id, word, trusted_only=trusted_only) for word in words]
        answers = self._ask(tenant_id, asked)
        found = (bool(answer["hits"]["total"]["value"]) for answer in answers)
        return frozenset(word for word, known in zip(words, found, strict=True) if not known)

    def passing(self, request: SearchRequest) -> frozenset[str]:
        """Return which of the request's ids are records that meet its filters."""
        if not request.ids:
            return frozenset()
        body = query.ids_of(conditions_clause(request), most=len(request.ids))
        (answer,) = self._ask(request.tenant_id, [body])
        return frozenset(str(hit["sort"][0]) for hit in answer["hits"]["hits"])

    def field_kinds(
        self, tenant_id: str, fields: Sequence[str], *, trusted_only: bool
    ) -> dict[str, frozenset[ValueKind]]:
        """Return the kinds of values that the tenant's records, or trusted ones, have in each field that any has."""
        if not fields:
            return {}
        (answer,) = self._ask(tenant_id, [query.field_kinds(tenant_id, fields, trusted_only=trusted_only)])
        return query.field_kinds_of(answer, fields)

    def count_values(self, request: SearchRequest, fields: Sequence[str]) -> dict[str, tuple[FacetValue, ...]]:
        """Return the most frequent values of each field among the records that a search is among."""
        if not fields or request.ids == ():
            return {}
        tenant_id, clause, few = request.tenant_id, filter_clause(request, valid=True), False
        if self._is_shared:  # else all terms are the tenant's own
            (answer,) = self._ask(tenant_id, [query.number_of_values(clause)])
            few = query.are_few_values(answer, fields)
        body = query.count_values(clause, fields, tenant_id=tenant_id, one_by_one=few)
        (answer,) = self._ask(tenant_id, [body])
        return query.values_of(answer, fields)

    def _call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        with self._spaces.forgotten_on_failure():
            return call(self._attempts, function, *args, **kwargs)

    def _msearch(self, tenant_id: str, bodies: Sequence[dict[str, Any]]) -> list[Mapping[str, Any]]:
        timeout_s = min(self._settings.opensearch_timeout_s, deadline.left())
        return self._call(self._answers, tenant_id, bodies, request_timeout=timeout_s)

    def _ask(
        self, tenant_id: str, bodies: Sequence[dict[str, Any]], *, long_answer: bool = False
    ) -> list[Mapping[str, Any]]:
        with self._spaces.forgotten_on_failure():
            return call_in_time(
                self._settings, self._answers, long_answer=long_answer, tenant_id=tenant_id, bodies=bodies
            )

    def _answers(
        self, tenant_id: str, bodies: Sequence[dict[str, Any]], *, request_timeout: float
    ) -> list[Mapping[str, Any]]:
        how = dict(mapping.routing(tenant_id, self._settings))
        if not self._is_shared or self._settings.opensearch_tenant_shards > 1:
            # Words are weighed by how often they are in all of the tenant's shards, not in each one's own.
            how["search_type"] = "dfs_query_then_fetch"
        header = json.dumps(how)
        lines = [line for body in bodies for line in (header, json.dumps(body))]
        body = "\n".join(lines) + "\n"
        answer = self._client.msearch(body=body, index=self._alias, request_timeout=request_timeout)
        return [require_complete(response) for response in items_of(answer, "responses", len(bodies))]

    def _fields(self, keys: Sequence[str], fields: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return fields of the documents that exist, including those not yet searchable."""
        sources: dict[str, dict[str, Any]] = {}
        for some in batches(keys, _READ_AT_ONCE):
            found = self._call(
                stored_entries, self._client, self._alias, some, self._settings, _source_includes=list(fields)
            )
            sources |= {entry["_id"]: entry["_source"] for entry in found}
        return sources

    def _write(self, operations: Sequence[tuple[dict[str, Any], dict[str, Any] | None]]) -> list[str]:
        return [outcome.result for outcome in write_items(self._client, self._alias, operations, self._settings)]


def stored_entries(
    client: OpenSearch, alias: str, keys: Collection[str], settings: Settings, **fields: list[str]
) -> list[dict[str, Any]]:
    """Return those of some documents that exist, searchable or not, from one request."""
    answer = client.mget(index=alias, body=mapping.all_of(keys, settings), **fields)
    entries: list[dict[str, Any]] = items_of(answer, "docs", len(keys))
    for entry in entries:
        if "error" in entry:
            raise error_of_status(int(entry["error"].get("status", 0)), entry["error"])
    return [entry for entry in entries if entry["found"]]
