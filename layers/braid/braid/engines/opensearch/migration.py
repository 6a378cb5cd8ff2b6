"""Index migration on OpenSearch: fills a second index for the next profile and switches the alias to it.

The aliases are the only state of a migration, so that a switch is one atomic request. An index's profile is in the
``_meta`` of its mappings, so that the profile changes with the alias.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from braid.engines.opensearch import mapping
from braid.engines.opensearch import queries as query
from braid.engines.opensearch.client import IndexMissing, P, R, call, change_timeout_s, complete, open_client
from braid.engines.opensearch.dual_write import ConditionalWriter, next_alias, previous_alias
from braid.engines.opensearch.embedding_spaces import properties_of
from braid.engines.opensearch.index import OpenSearchIndex
from braid.errors import StoreError
from braid.ports.reembedding import MigrationState, WriteBackResult
from braid.settings import OpenSearchService

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Unpack

    from opensearchpy import OpenSearch

    from braid.ports.reembedding import ReembeddedRecord
    from braid.ports.search_index import ScanConditions, SearchHits, SearchRequest
    from braid.settings import Settings

_META = "braid"
_PROFILE, _SPACES = "profile", "spaces"


class _AliasedIndex(NamedTuple):
    """The index behind an alias."""

    name: str
    mappings: dict[str, Any]

    @property
    def meta(self) -> dict[str, Any]:
        return dict(self.mappings.get("_meta", {}).get(_META, {}))

    @property
    def profile(self) -> str | None:
        return self.meta.get(_PROFILE)


class OpenSearchMigration:
    """Migrates the index between profiles; implements :class:`braid.ports.reembedding.IndexMigration`."""

    def __init__(self, client: OpenSearch, settings: Settings, spaces: Mapping[str, int]) -> None:
        self._client = client
        self._settings = settings
        self._attempts = settings.opensearch_attempts
        self._alias = settings.opensearch_index
        self._next, self._previous = next_alias(self._alias), previous_alias(self._alias)
        self._serverless = settings.opensearch_service is OpenSearchService.SERVERLESS
        self._index = OpenSearchIndex(client, settings, spaces)
        self._others = {
            alias: OpenSearchIndex(client, settings, spaces, alias=alias) for alias in (self._next, self._previous)
        }
        self._writer = ConditionalWriter(client, settings)
        self.grace_s = settings.profile_cache_s

    @classmethod
    def connect(cls, settings: Settings, spaces: Mapping[str, int]) -> OpenSearchMigration:
        """Return the migration of the index that the settings name; no request is sent yet.

        Raises ConfigurationError if requests must be signed and credentials or the region are missing.
        """
        return cls(open_client(settings), settings, spaces)

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()

    def serving(self) -> MigrationState:
        """Return which profiles are served, from one request with a short timeout: questions wait for it."""
        return _serving(self._indexes(attempts=1, timeout_s=self._settings.profile_timeout_s))

    def tenants(self, *, after: str | None = None, limit: int = 500) -> list[str]:
        """Return the next page of tenants that have records, in order."""
        pages: dict[str, Any] = {"size": limit, "sources": [{"tenant": {"terms": {"field": "tenant_id"}}}]}
        if after is not None:
            pages["after"] = {"tenant": after}
        body = {"size": 0, "track_total_hits": False, "aggs": {"tenants": {"composite": pages}}}
        try:
            answer = self._call(self._client.search, index=self._alias, body=body)
        except IndexMissing:
            return []
        return [str(bucket["key"]["tenant"]) for bucket in answer["aggregations"]["tenants"]["buckets"]]

    def count(self, tenant_id: str, **conditions: Unpack[ScanConditions]) -> int:
        """Return how many records of the active index meet every condition given."""
        clause = query.outdated_clause(tenant_id, **conditions)
        try:
            return int(self._call(self._client.count, index=self._alias, body={"query": clause})["count"])
        except IndexMissing:
            return 0

    def ids(
        self,
        tenant_id: str,
        *,
        after: str | None = None,
        limit: int = 500,
        following: bool = False,
        **conditions: Unpack[ScanConditions],
    ) -> list[str]:
        """Return the next ids of the records that meet every condition given, of the active or the next index."""
        if after is None:
            self._refresh()
        body = query.ids_page(query.outdated_clause(tenant_id, **conditions), after=after or "", limit=limit)
        routing = mapping.routing(tenant_id, self._settings)
        alias = self._next if following else self._alias
        try:
            answer = self._call(lambda: complete(self._client.search(index=alias, body=body, **routing)))
        except IndexMissing:
            return []
        return [str(hit["sort"][0]) for hit in answer["hits"]["hits"]]

    def write_back(self, tenant_id: str, changes: Sequence[ReembeddedRecord]) -> WriteBackResult:
        """Write each record that is unchanged since it was read, to the active index and then to the other one."""
        if not changes:
            return WriteBackResult(written=0)
        self._index.prepare_spaces([change.write for change in changes])
        settled = self._writer.update(self._alias, tenant_id, changes)
        for alias in self._indexes():
            if alias != self._alias:
                self._others[alias].prepare_spaces([change.write for change in changes])
                self._writer.update(alias, tenant_id, changes)
        return settled

    def begin(self, active: str, target: str, spaces: Mapping[str, int]) -> MigrationState:
        """Begin a migration, or resume the one to the same profile."""
        self._index.create()
        indexes = self._indexes()
        now = _serving(indexes)
        if now.next == target:
            return now
        following = now.begun(active, target)
        if indexes[self._alias].profile is None:
            self._set_meta(indexes[self._alias], {_PROFILE: active})
        body = mapping.index_body(self._settings)
        body["mappings"]["properties"] |= properties_of(spaces, self._settings)
        body["mappings"]["_meta"] = {_META: {_PROFILE: target, _SPACES: sorted(spaces)}}
        body["aliases"] = {self._next: {"is_write_index": True}}
        try:
            self._change(self._client.indices.create, index=self._next_index_name(), body=body)
        except StoreError as error:
            # Another process may have created it first.
            if "resource_already_exists_exception" not in str(error):
                raise
            return _serving(self._indexes())
        return following

    def pending(self, tenant_id: str, ids: Sequence[str], spaces: Sequence[str]) -> list[str]:
        """Return which of some records the next index lacks or has without a vector in one of these spaces."""
        there = self._writer.existing(self._next, tenant_id, ids, spaces=spaces)
        return [record_id for record_id in ids if record_id not in there]

    def fill(self, tenant_id: str, changes: Sequence[ReembeddedRecord]) -> WriteBackResult:
        """Write records to the next index, with the new vectors and the active index's vectors of its spaces."""
        if not changes:
            return WriteBackResult(written=0)
        target = self._index_of(self._next)
        return self._writer.copy(
            self._alias, self._next, tenant_id, changes, spaces=frozenset(target.meta.get(_SPACES, ()))
        )

    def reconcile(self, tenant_id: str, ids: Sequence[str]) -> int:
        """Remove records from the next index that differ from the active one; filling again then repairs it."""
        return self._writer.remove_different(self._alias, self._next, tenant_id, ids)

    def count_pending(self, tenant_ids: Sequence[str], spaces: Sequence[str]) -> int:
        """Return how many records the two indexes differ by plus how many lack a vector, from two requests."""
        if not tenant_ids:
            return 0
        self._refresh()
        active, following = (self._by_tenant(alias, tenant_ids, spaces) for alias in (self._alias, self._next))
        none = query.TenantCounts(records=0, missing=0)
        return sum(
            abs(active.get(tenant, none).records - following.get(tenant, none).records)
            + following.get(tenant, none).missing
            for tenant in tenant_ids
        )

    def search_next(self, request: SearchRequest) -> SearchHits:
        """Search the next index."""
        return self._others[self._next].search(request)

    def prepare(self) -> None:
        """Make all writes searchable."""
        self._refresh()

    def switch(self) -> MigrationState:
        """Make the next index the active one, in one request."""
        indexes = self._indexes()
        following = _serving(indexes).switched()
        self._refresh()
        self._swap(indexes[self._next].name, indexes[self._alias].name, self._next, self._previous)
        return following

    def rollback(self) -> MigrationState:
        """Make the previous index the active one again, in one request."""
        indexes = self._indexes()
        back = _serving(indexes).rolled_back()
        self._swap(indexes[self._previous].name, indexes[self._alias].name, self._previous, self._next)
        return back

    def drop(self, spaces: Sequence[str]) -> MigrationState:  # noqa: ARG002 - vectors go with their index
        """Remove the index that is not active, if there is one."""
        for alias, index in self._indexes().items():
            if alias != self._alias:
                self._change(self._client.indices.delete, index=index.name, ignore_unavailable=True)
        return self.serving()

    def _call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return call(self._attempts, function, *args, **kwargs)

    def _change(self, function: Callable[..., object], **kwargs: object) -> None:
        self._call(function, **kwargs, request_timeout=change_timeout_s(self._settings))

    def _indexes(self, *, attempts: int | None = None, timeout_s: float | None = None) -> dict[str, _AliasedIndex]:
        """Return the active, the next and the previous index, as far as they exist, by alias."""
        wanted = (self._alias, self._next, self._previous)
        found = call(
            attempts or self._attempts,
            self._client.indices.get,
            index=",".join(wanted),
            ignore_unavailable=True,
            request_timeout=timeout_s or self._settings.opensearch_timeout_s,
        )
        return {
            alias: _AliasedIndex(name, body.get("mappings", {}))
            for name, body in found.items()
            for alias in body.get("aliases", {})
            if alias in wanted
        }

    def _index_of(self, alias: str) -> _AliasedIndex:
        indexes = self._indexes()
        if alias not in indexes:
            raise IndexMissing(f"the search index has no alias {alias}")
        return indexes[alias]

    def _set_meta(self, index: _AliasedIndex, changes: Mapping[str, Any]) -> None:
        meta = {name: value for name, value in {**index.meta, **changes}.items() if value is not None}
        others = {name: value for name, value in index.mappings.get("_meta", {}).items() if name != _META}
        self._change(self._client.indices.put_mapping, index=index.name, body={"_meta": {**others, _META: meta}})

    def _swap(self, activated: str, deactivated: str, old_alias: str, new_alias: str) -> None:
        """Make one index the active one and give the other one its new role, in one request."""
        actions = [
            {"remove": {"index": deactivated, "alias": self._alias}},
            {"add": {"index": activated, "alias": self._alias, "is_write_index": True}},
            {"remove": {"index": activated, "alias": old_alias}},
            {"add": {"index": deactivated, "alias": new_alias, "is_write_index": True}},
        ]
        self._change(self._client.indices.update_aliases, body={"actions": actions})

    def _next_index_name(self) -> str:
        """Return the name of an index that does not exist yet."""
        existing = self._call(self._client.indices.get, index=f"{self._alias}-*", allow_no_indices=True)
        numbered = (re.fullmatch(rf"{re.escape(self._alias)}-(\d{{6}})", name) for name in existing)
        return f"{self._alias}-{max((int(match[1]) for match in numbered if match), default=0) + 1:06d}"

    def _by_tenant(self, alias: str, tenant_ids: Sequence[str], spaces: Sequence[str]) -> dict[str, query.TenantCounts]:
        answer = self._call(self._client.search, index=alias, body=query.by_tenant(tenant_ids, spaces))
        return query.tenant_counts(answer)

    def _refresh(self) -> None:
        """Make all writes searchable; a serverless collection refreshes itself, a little later."""
        if not self._serverless:
            self._call(self._client.indices.refresh, index=f"{self._alias},{self._next}", ignore_unavailable=True)


def _serving(indexes: Mapping[str, _AliasedIndex]) -> MigrationState:
    roles: dict[str, str | None] = {}
    for alias, index in indexes.items():
        role = alias.rpartition("_")[2]
        roles[role if role in {"next", "previous"} else "active"] = index.profile
    return MigrationState(**roles)
