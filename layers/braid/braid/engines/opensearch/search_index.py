"""Search index on OpenSearch: a managed domain, a serverless collection, or a local server.

Each call goes to the index with the tenant's records, and a write during a migration also to the other one. Aliases
select the index, so that a migration switches in one step.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from braid import deadline
from braid.engines.opensearch.client import R, call, call_in_time, open_client, question_time
from braid.engines.opensearch.dual_write import dual_write, settle
from braid.engines.opensearch.index_placement import (
    ALIASES_KEPT_S,
    alias_of,
    aliases_of,
    all_aliases,
    indexes_by_alias,
    previous_alias,
)
from braid.engines.opensearch.one_index import SingleIndex
from braid.settings import OpenSearchService
from braid.telemetry.recording import store_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Unpack

    from opensearchpy import OpenSearch

    from braid.models import FacetValue, Record, StoredRecord, ValueKind
    from braid.ports.search_index import (
        IndexStats,
        ScanConditions,
        ScanPage,
        SearchHits,
        SearchRequest,
        WrittenRecord,
    )
    from braid.settings import Settings

_TENANT_OF = attrgetter("tenant_id")


@store_calls("opensearch")
class OpenSearchIndex:
    """Records in OpenSearch: a tenant's are in the shared index or in the tenant's own.

    Implements :class:`braid.ports.search_index.SearchIndex`.

    Parameters
    ----------
    settings
        The settings ``opensearch_…``, and ``shared_dir`` for the index template.
    """

    def __init__(self, client: OpenSearch, settings: Settings, spaces: Mapping[str, int]) -> None:
        self._client = client
        self._settings = settings
        self._dimensions = spaces
        self._shared = settings.opensearch_index
        self._opened: dict[tuple[str, str], SingleIndex] = {}
        self._aliases: dict[str, str] = {}
        self._aliases_until = 0.0
        self._sleep: Callable[[float], None] = time.sleep

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
        """Create the first shared index and its alias, unless the alias exists."""
        self._at(self._shared).create()

    def upsert(self, records: Sequence[Record]) -> None:
        """Write records; when it returns they are durable, and searchable unless ``opensearch_refresh`` is false.

        Unchanged records are not written again: indexing their vectors is most of the cost of a write, and a replaced
        version counts in BM25 until OpenSearch merges its segments.

        Raises TransientStoreError if some records were still throttled after the last attempt; the message counts them.
        """
        self._write_by_tenant(records, SingleIndex.upsert)

    def set_validity(self, records: Sequence[Record]) -> None:
        """Update only the validity of stored records.

        It is a partial update: writing back whole records that were read before might overwrite a newer version or
        restore a deleted one.
        """
        self._write_by_tenant(records, SingleIndex.set_validity)

    def delete(self, tenant_id: str, ids: Sequence[str]) -> int:
        """Remove records and return how many existed."""
        if not ids:
            return 0
        return len(set[str]().union(*self._write(tenant_id, ids, lambda index: index.delete(tenant_id, ids))))

    def characters(self, tenant_id: str, ids: Sequence[str]) -> dict[str, int]:  # noqa: ARG002 - the port's
        """Return nothing: no other tenant waits for a write."""
        return {}

    def finish_removals(self, tenant_id: str) -> None:
        """Do nothing: deletes are complete already."""

    def show_writes(self) -> None:
        """Refresh all indexes; where that cannot be asked for, as of a serverless collection, wait for it."""
        if self._settings.opensearch_service is OpenSearchService.SERVERLESS:
            self._sleep(self._settings.settle_s())
            return
        refresh = partial(self._client.indices.refresh, index=all_aliases(self._shared), ignore_unavailable=True)
        call(self._settings.opensearch_attempts, refresh)

    def search(self, request: SearchRequest) -> SearchHits:
        """Search both strands, and the superseded and outdated records of each, in one round trip.

        Only if no vector is found, a second request checks whether the tenant has any in that space.
        """
        with self._of_question(request.tenant_id) as index:
            return index.search(request)

    def get_many(self, tenant_id: str, ids: Sequence[str], *, with_vectors: bool = False) -> list[Record]:
        """Return the records that exist, in the order of ``ids``, without their vectors unless asked."""
        return self._of(tenant_id).get_many(tenant_id, ids, with_vectors=with_vectors)

    def candidates(self, tenant_id: str, ids: Sequence[str]) -> dict[str, StoredRecord]:
        """Return the existing records by their ids, each parsed on access."""
        with question_time(self._settings):
            index = self._of(tenant_id, in_time=True)
        # Not within it: many texts take longer, once they begin to come.
        return index.candidates(tenant_id, ids)

    def written(self, tenant_id: str, ids: Sequence[str]) -> dict[str, WrittenRecord]:
        """Return content hash, models and trust of the records that exist, including those not yet searchable.

        The content hash is None of a record that an interrupted write left otherwise in the index to roll back to, so
        that repeating the write completes it.
        """
        self._read_aliases()  # a switch just now made the index to compare with
        found = self._of(tenant_id).written(tenant_id, ids)
        previous = previous_alias(alias_of(self._aliases, self._shared, tenant_id))
        if found and previous in self._aliases:
            there = self._at(previous).written(tenant_id, list(found))
            for name, one in found.items():
                if name not in there or there[name].content_hash != one.content_hash:
                    found[name] = one.altered(content_hash=None)
        return found

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
        return self._of(tenant_id).scan(tenant_id, after=after, limit=limit, with_vectors=with_vectors, **conditions)

    def count(self, tenant_id: str, *, at_most: int, trusted_only: bool = False) -> int:
        """Return the number of a tenant's records, or of the trusted ones, at most ``at_most``."""
        return self._of(tenant_id).count(tenant_id, at_most=at_most, trusted_only=trusted_only)

    def stats(self, tenant_id: str) -> IndexStats:
        """Return stored counts."""
        return self._of(tenant_id).stats(tenant_id)

    def unknown_words(self, tenant_id: str, words: Sequence[str], *, trusted_only: bool = False) -> frozenset[str]:
        """Return which of some words no record of the tenant, or no trusted one, has."""
        with self._of_question(tenant_id) as index:
            return index.unknown_words(tenant_id, words, trusted_only=trusted_only)

    def passing(self, request: SearchRequest) -> frozenset[str]:
        """Return which of the request's ids are records that meet its filters."""
        with self._of_question(request.tenant_id) as index:
            return index.passing(request)

    def field_kinds(
        self, tenant_id: str, fields: Sequence[str], *, trusted_only: bool = False
    ) -> dict[str, frozenset[ValueKind]]:
        """Return the kinds of values that the tenant's records, or trusted ones, have in each field that any has."""
        with self._of_question(tenant_id) as index:
            return index.field_kinds(tenant_id, fields, trusted_only=trusted_only)

    def count_values(self, request: SearchRequest, fields: Sequence[str]) -> dict[str, tuple[FacetValue, ...]]:
        """Return the most frequent values of each field among the records that a search is among."""
        with self._of_question(request.tenant_id) as index:
            return index.count_values(request, fields)

    def _at(self, alias: str) -> SingleIndex:
        """Return the index behind an alias; the one that it led to before has other vector fields."""
        name = self._aliases.get(alias, "")
        if (alias, name) not in self._opened:
            self._opened[alias, name] = SingleIndex(self._client, self._settings, self._dimensions, alias, index=name)
        return self._opened[alias, name]

    def _of(self, tenant_id: str, *, in_time: bool = False) -> SingleIndex:
        """Return the index that has a tenant's records: the shared one, unless it was moved to one of its own."""
        if time.monotonic() >= self._aliases_until:
            self._read_aliases(in_time=in_time)
        return self._at(alias_of(self._aliases, self._shared, tenant_id))

    @contextmanager
    def _of_question(self, tenant_id: str) -> Iterator[SingleIndex]:
        """Provide the index that has a tenant's records, in the time of a question, which finding it is in."""
        with question_time(self._settings):
            yield self._of(tenant_id, in_time=True)

    def _read_aliases(self, *, in_time: bool = False) -> dict[str, str]:
        kept_until = time.monotonic() + ALIASES_KEPT_S
        read = partial(indexes_by_alias, self._client, self._shared)
        if in_time:
            self._aliases = call_in_time(self._settings, read)
        else:
            timeout_s = min(self._settings.opensearch_timeout_s, deadline.left())
            self._aliases = call(self._settings.opensearch_attempts, read, request_timeout=timeout_s)
        self._aliases_until = kept_until
        return self._aliases

    def _write_by_tenant(self, records: Sequence[Record], write: Callable[[SingleIndex, list[Record]], None]) -> None:
        """Write the records of each tenant where they belong."""
        for tenant_id, found in groupby(sorted(records, key=_TENANT_OF), key=_TENANT_OF):
            own = list(found)
            ids = [record.id for record in own]
            self._write(tenant_id, ids, partial(lambda own, index: write(index, own), own))

    def _write(self, tenant_id: str, ids: Sequence[str], write: Callable[[SingleIndex], R]) -> list[R]:
        """Write records to the index that has the tenant's and, during a migration, to the other one."""
        results = dual_write(
            lambda: aliases_of(self._read_aliases(), self._shared, tenant_id), lambda alias: write(self._at(alias))
        )
        active, *others = aliases_of(self._aliases, self._shared, tenant_id)
        for other in others:
            settle(self._at(active), self._at(other), tenant_id, ids)
        return results
