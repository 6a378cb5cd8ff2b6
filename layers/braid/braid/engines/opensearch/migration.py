"""Index migration on OpenSearch: fills a second index and switches the alias to it.

It migrates all tenants to another model profile, or one tenant to its own index, and back. A migration to another
profile migrates the shared index and all tenants' own ones, and switches them together; the migration of a tenant
changes only the tenant's alias. Records are copied, and written to both indexes meanwhile, by ``dual_write``.

The aliases (:mod:`braid.engines.opensearch.index_placement`) are the only state of a migration, so that a switch or a
roll-back is one atomic request:

=========  ==========================================================================================
begin      a new index gets the alias ``next``; in a move back, the shared index gets it
switch     the index of ``next`` becomes the active one, and the active one gets the alias ``previous``
rollback   the index of ``previous`` becomes the active one again, and the active one gets the alias ``next``
drop       the index of ``next`` or ``previous`` is removed, unless it is the shared one
=========  ==========================================================================================

An index's profile is in the ``_meta`` of its mappings, so that the profile changes with the alias.
"""

from __future__ import annotations

import heapq
import re
import time
from contextlib import suppress
from functools import partial
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from braid.engines.opensearch import mapping
from braid.engines.opensearch import reads_and_counts as query
from braid.engines.opensearch.client import (
    IndexMissing,
    P,
    R,
    call,
    change_timeout_s,
    open_client,
    question_time,
    require_complete,
)
from braid.engines.opensearch.dual_write import ConditionalWriter
from braid.engines.opensearch.embedding_spaces import properties_of
from braid.engines.opensearch.index_placement import (
    ALIASES_KEPT_S,
    alias_of,
    aliases_of,
    all_aliases,
    indexes_by_alias,
    next_alias,
    own_aliases,
    previous_alias,
    sharing_aliases,
    tenant_alias,
)
from braid.engines.opensearch.one_index import SingleIndex
from braid.errors import InvalidRequest, StoreError
from braid.ports.reembedding import MAX_IDS, MigrationState, WriteBackResult
from braid.settings import OpenSearchService
from braid.telemetry.recording import store_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
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


@store_calls("opensearch")
class OpenSearchMigration:
    """Migrates the index between profiles; implements :class:`braid.ports.reembedding.IndexMigration`.

    Parameters
    ----------
    tenant_id
        The tenant that is moved to an index of its own; None for a migration of all to another profile.
    back
        Whether the tenant is moved back to the shared index.
    """

    def __init__(
        self,
        client: OpenSearch,
        settings: Settings,
        spaces: Mapping[str, int],
        *,
        tenant_id: str | None = None,
        back: bool = False,
    ) -> None:
        self._client = client
        self._settings = settings
        self._dimensions = spaces
        self._attempts = settings.opensearch_attempts
        self._tenant_id, self._back = tenant_id, back
        self._shared = settings.opensearch_index
        self._alias = self._shared if tenant_id is None else tenant_alias(self._shared, tenant_id)
        self._serverless = settings.opensearch_service is OpenSearchService.SERVERLESS
        self._opened: dict[tuple[str, str], SingleIndex] = {}
        self._writer = ConditionalWriter(client, settings)
        self._sleep = time.sleep
        self.grace_s = settings.profile_cache_s if tenant_id is None else ALIASES_KEPT_S

    @classmethod
    def connect(cls, settings: Settings, spaces: Mapping[str, int]) -> OpenSearchMigration:
        """Return the migration of the index that the settings name; no request is sent yet.

        Raises ConfigurationError if requests must be signed and credentials or the region are missing.
        """
        return cls(open_client(settings), settings, spaces)

    def of_tenant(self, tenant_id: str, *, back: bool = False) -> OpenSearchMigration:
        """Return the migration of one tenant to an index of its own, or back to the shared one."""
        return OpenSearchMigration(self._client, self._settings, self._dimensions, tenant_id=tenant_id, back=back)

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()

    def serving(self) -> MigrationState:
        """Return which profiles are served, from one request with a short timeout: questions wait for it."""
        names = f"{self._alias},{next_alias(self._alias)},{previous_alias(self._alias)}"
        return self._serving(self._indexes(names, attempts=1, timeout_s=self._settings.profile_timeout_s))

    def tenants(self, *, after: str | None = None, limit: int = 500) -> list[str]:
        """Return the next page of tenants that have records, in order; of the migration of one, that one."""
        if self._tenant_id is not None:
            return [self._tenant_id] if after is None else []
        pages: dict[str, Any] = {"size": limit, "sources": [{"tenant": {"terms": {"field": "tenant_id"}}}]}
        if after is not None:
            pages["after"] = {"tenant": after}
        body = {"size": 0, "track_total_hits": False, "aggs": {"tenants": {"composite": pages}}}
        try:
            answer = self._whole(self._client.search, index=all_aliases(self._shared), body=body)
        except IndexMissing:
            return []
        return [str(bucket["key"]["tenant"]) for bucket in answer["aggregations"]["tenants"]["buckets"]]

    def count(self, tenant_id: str, **conditions: Unpack[ScanConditions]) -> int:
        """Return how many records of the active index meet every condition given."""
        clause = query.scan_clause(tenant_id, **conditions)
        try:
            alias = self._alias_of(tenant_id)
            return int(self._whole(self._client.count, index=alias, body={"query": clause})["count"])
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
        body = query.ids_page(query.scan_clause(tenant_id, **conditions), after=after or "", limit=limit)
        routing = mapping.routing(tenant_id, self._settings)
        alias = self._alias_of(tenant_id)
        alias = next_alias(alias) if following else alias
        try:
            answer = self._whole(self._client.search, index=alias, body=body, **routing)
        except IndexMissing:
            return []
        return [str(hit["sort"][0]) for hit in answer["hits"]["hits"]]

    def write_back(self, tenant_id: str, changes: Sequence[ReembeddedRecord]) -> WriteBackResult:
        """Write each record that is unchanged since it was read, to the active index after the other one, if any."""
        if not changes:
            return WriteBackResult(written=0)
        settled: list[WriteBackResult] = []
        for alias, index in reversed(aliases_of(self._aliases(), self._shared, tenant_id).items()):
            self._at(alias, index).prepare_spaces([change.write for change in changes])
            settled.append(self._writer.update(alias, tenant_id, changes))
        return settled[-1]

    def begin(self, active: str, target: str, spaces: Mapping[str, int]) -> MigrationState:
        """Begin a migration, or resume the one to the same profile."""
        self._at(self._shared).create()
        now = self._serving(self._indexes())
        if now.next == target:
            return now
        now.begun(active, target)
        self._refuse_others(target)
        aliases = self._aliases()
        if self._back and self._alias not in own_aliases(aliases, self._shared):
            raise InvalidRequest("tenant: it has no index of its own", field="tenant_id")
        if self._alias not in aliases:
            self._move_aliases([_added(aliases[self._shared], self._alias)])
        indexes = self._indexes()
        following = self._serving(indexes).begun(active, target)
        # The alias of the next profile is set last, so that an interrupted begin is repeated.
        for alias in self._moved(self._aliases()):
            if self._back:
                self._move_aliases([_added(aliases[self._shared], next_alias(alias))])
            elif next_alias(alias) not in aliases:
                self._begin(alias, indexes[alias], active, target, spaces)
        try:
            self._refuse_others(target)  # again: of two that begin at the same time, at least one sees the other
        except InvalidRequest:
            self.drop(())
            raise
        return following

    def _refuse_others(self, target: str) -> None:
        """Refuse to begin while another migration is open, or can still be undone."""
        mine = {next_alias(self._alias), previous_alias(self._alias)}
        for name, index in self._indexes().items():
            # An index that an interrupted begin of this migration made; it has the target profile.
            begun = self._tenant_id is None and name.endswith(next_alias("")) and index.profile == target
            if name.endswith((next_alias(""), previous_alias(""))) and name not in mine and not begun:
                message = "profile: another index migration is open, or kept for a roll-back: end it, or drop that"
                raise InvalidRequest(message, field="profile")

    def _begin(self, alias: str, index: _AliasedIndex, active: str, target: str, spaces: Mapping[str, int]) -> None:
        """Make the next index of an alias."""
        own = alias != self._shared
        if index.profile is None:
            self._set_meta(index, {_PROFILE: active})
        if self._tenant_id is not None:  # all vectors are copied
            known = mapping.dimensions_of(index.mappings)
            spaces = {space: size for space, size in self._dimensions.items() if mapping.vector_field(space) in known}
        body = mapping.index_body(self._settings, own=own)
        body["mappings"]["properties"] |= properties_of(spaces, self._settings)
        body["mappings"]["_meta"] = {_META: {_PROFILE: target, _SPACES: sorted(spaces)}}
        body["aliases"] = {next_alias(alias): {"is_write_index": True}}
        try:
            self._change(self._client.indices.create, index=self._next_index_name(), body=body)
        except StoreError as error:
            # Another process may have created it first.
            if "resource_already_exists_exception" not in str(error):
                raise

    def pending(self, tenant_id: str, ids: Sequence[str], spaces: Sequence[str]) -> list[str]:
        """Return which of some records the next index lacks or has without a vector in one of these spaces."""
        there = self._writer.existing(next_alias(self._alias_of(tenant_id)), tenant_id, ids, spaces=spaces)
        return [record_id for record_id in ids if record_id not in there]

    def fill(self, tenant_id: str, changes: Sequence[ReembeddedRecord]) -> WriteBackResult:
        """Write records to the next index, with the new vectors and the active index's vectors of its spaces."""
        if not changes:
            return WriteBackResult(written=0)
        alias = self._alias_of(tenant_id)
        held = self._index_of(next_alias(alias)).meta.get(_SPACES, self._dimensions)
        return self._writer.copy(alias, next_alias(alias), tenant_id, changes, spaces=frozenset(held))

    def reconcile(self, tenant_id: str, ids: Sequence[str]) -> int:
        """Remove records from the next index that differ from the active one; filling again then repairs it."""
        alias = self._alias_of(tenant_id)
        return self._writer.remove_different(alias, next_alias(alias), tenant_id, ids)

    def count_pending(self, tenant_ids: Sequence[str], spaces: Sequence[str]) -> int:
        """Return how many records the two indexes differ by plus how many lack a vector, from two requests an alias."""
        if not tenant_ids:
            return 0
        self._refresh()
        aliases = self._aliases()
        active, following = dict[str, query.TenantCounts](), dict[str, query.TenantCounts]()
        by_alias = partial(alias_of, aliases, self._shared)
        for alias, found in groupby(sorted(tenant_ids, key=by_alias), key=by_alias):
            own = list(found)
            active |= self._by_tenant(alias, own, spaces)
            following |= self._by_tenant(next_alias(alias), own, spaces)
        none = query.TenantCounts(records=0, missing=0)
        return sum(
            abs(active.get(tenant, none).records - following.get(tenant, none).records)
            + following.get(tenant, none).missing
            for tenant in tenant_ids
        )

    def differing(self, tenant_id: str, spaces: Sequence[str], ids: Sequence[str] | None = None) -> list[str]:
        """Return ids that only one index has, or the next one without a vector in one of these spaces."""
        if ids is None:
            both = heapq.merge(self._all_ids(tenant_id), self._all_ids(tenant_id, following=True))
            in_one = (record_id for record_id, found in groupby(both) if len(list(found)) == 1)
            lacking = (self._all_ids(tenant_id, following=True, space_missing=space) for space in spaces)
            return list(dict.fromkeys(islice(chain(in_one, *lacking), MAX_IDS)))
        active = self._alias_of(tenant_id)
        following = next_alias(active)
        there = self._writer.existing(following, tenant_id, ids)
        whole = self._writer.existing(following, tenant_id, ids, spaces=spaces)
        here = self._writer.existing(active, tenant_id, ids)
        return [record_id for record_id in ids if record_id in (here - whole) | (there - here)]

    def _all_ids(self, tenant_id: str, **which: Any) -> Iterator[str]:  # noqa: ANN401 - as of :meth:`ids`
        """Yield the ids of :meth:`ids`, page by page."""
        after: str | None = None
        while page := self.ids(tenant_id, after=after, limit=MAX_IDS, **which):
            yield from page
            after = page[-1]

    def search_next(self, request: SearchRequest) -> SearchHits:
        """Search the next index."""
        index = self._at(next_alias(self._alias_of(request.tenant_id)))
        with question_time(self._settings):
            return index.search(request)

    def prepare(self) -> None:
        """Make all writes searchable."""
        self._refresh()

    def switch(self) -> MigrationState:
        """Make the next index the active one, in one request."""
        indexes = self._indexes()
        following = self._serving(indexes).switched()
        self._refresh()
        self._swap(indexes, next_alias, previous_alias)
        return following

    def rollback(self) -> MigrationState:
        """Make the previous index the active one again, in one request."""
        indexes = self._indexes()
        back = self._serving(indexes).rolled_back()
        self._swap(indexes, previous_alias, next_alias)
        return back

    def drop(self, spaces: Sequence[str]) -> MigrationState:  # noqa: ARG002 - vectors go with their index
        """Remove the index that is not active, if there is one; if that is the shared one, the tenant's records in it.

        Raises StoreError, and removes nothing, if a switch or a roll-back has made it the active one meanwhile.
        """
        aliases = self._aliases()
        for active in self._moved(aliases):
            for alias in aliases.keys() & {next_alias(active), previous_alias(active)}:
                if aliases[alias] == aliases[self._shared]:
                    self._move_aliases([self._removed(aliases[alias], alias)])
                    self._sleep(change_timeout_s(self._settings))  # for a write through the alias that is on its way
                else:
                    self._remove_index(aliases[alias], active, aliases[active])
        if self._tenant_id is not None and self._alias in own_aliases(self._aliases(), self._shared):
            self._empty_shared(self._tenant_id)
        return self.serving()

    def _remove_index(self, index: str, active: str, behind: str) -> None:
        """Remove an index if an alias still leads to another one, in one request: nothing can switch in between."""
        if self._serverless:  # a collection documents neither action
            self._change(self._client.indices.delete, index=index, ignore_unavailable=True)
            return
        still = self._removed(behind, active)
        with suppress(IndexMissing):  # it was removed before
            self._move_aliases([{"remove_index": {"index": index}}, still, _added(behind, active)])

    def _empty_shared(self, tenant_id: str) -> None:
        """Remove the records of a tenant with its own index from the shared index.

        Stops if a move back begins meanwhile: it fills the shared index, and removes different records itself.
        """
        shared, after = self._at(self._shared), ""
        routing = mapping.routing(tenant_id, self._settings)
        if self._serverless:  # for the last writes to be shown
            self._sleep(self._settings.settle_s())
        while True:
            self._refresh()
            body = query.ids_page(query.scan_clause(tenant_id), after=after, limit=MAX_IDS)
            answer = self._whole(self._client.search, index=self._shared, body=body, **routing)
            ids = [str(hit["sort"][0]) for hit in answer["hits"]["hits"]]
            aliases = self._aliases()
            if not ids or self._alias not in own_aliases(aliases, self._shared) or next_alias(self._alias) in aliases:
                return
            shared.delete(tenant_id, ids)
            if self._serverless:  # what is deleted is still shown for a while
                after = ids[-1]

    def _call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return call(self._attempts, function, *args, **kwargs)

    def _whole(self, search: Callable[..., dict[str, Any]], **asked: object) -> Mapping[str, Any]:
        """Search or count in every shard: tenants of one that did not answer would be left behind by a move."""
        return self._call(lambda: require_complete(search(**asked)))

    def _change(self, function: Callable[..., object], **kwargs: object) -> None:
        self._call(function, **kwargs, request_timeout=change_timeout_s(self._settings))

    def _at(self, alias: str, index: str = "") -> SingleIndex:
        if (alias, index) not in self._opened:
            opened = SingleIndex(self._client, self._settings, self._dimensions, alias, index=index)
            self._opened[alias, index] = opened
        return self._opened[alias, index]

    def _aliases(self) -> dict[str, str]:
        return self._call(indexes_by_alias, self._client, self._shared)

    def _alias_of(self, tenant_id: str) -> str:
        return self._alias if self._tenant_id is not None else alias_of(self._aliases(), self._shared, tenant_id)

    def _moved(self, aliases: Mapping[str, str]) -> list[str]:
        """Return the aliases that this migration moves; last the one that :meth:`serving` reads."""
        return [*([] if self._tenant_id is not None else own_aliases(aliases, self._shared)), self._alias]

    def _indexes(
        self, names: str | None = None, *, attempts: int | None = None, timeout_s: float | None = None
    ) -> dict[str, _AliasedIndex]:
        """Return indexes by alias: all, or only those behind some names."""
        found = call(
            attempts or self._attempts,
            self._client.indices.get,
            index=names or all_aliases(self._shared),
            ignore_unavailable=True,
            request_timeout=timeout_s or self._settings.opensearch_timeout_s,
        )
        return {
            alias: _AliasedIndex(name, body.get("mappings", {}))
            for name, body in found.items()
            for alias in body.get("aliases", {})
            if alias == self._shared or alias.startswith(f"{self._shared}_")
        }

    def _serving(self, indexes: Mapping[str, _AliasedIndex]) -> MigrationState:
        roles = {"active": self._alias, "next": next_alias(self._alias), "previous": previous_alias(self._alias)}
        return MigrationState(**{role: indexes[alias].profile for role, alias in roles.items() if alias in indexes})

    def _index_of(self, alias: str) -> _AliasedIndex:
        indexes = self._indexes()
        if alias not in indexes:
            raise IndexMissing(f"the search index has no alias {alias}")
        return indexes[alias]

    def _set_meta(self, index: _AliasedIndex, changes: Mapping[str, Any]) -> None:
        meta = {name: value for name, value in {**index.meta, **changes}.items() if value is not None}
        others = {name: value for name, value in index.mappings.get("_meta", {}).items() if name != _META}
        self._change(self._client.indices.put_mapping, index=index.name, body={"_meta": {**others, _META: meta}})

    def _move_aliases(self, actions: Sequence[dict[str, Any]]) -> None:
        self._change(self._client.indices.update_aliases, body={"actions": actions})

    def _removed(self, index: str, alias: str) -> dict[str, Any]:
        """Return the action that removes an alias, and fails if another process has removed or moved it."""
        condition = {} if self._serverless else {"must_exist": True}  # which a collection does not document
        return {"remove": {"index": index, "alias": alias, **condition}}

    def _swap(
        self, indexes: Mapping[str, _AliasedIndex], activated: Callable[[str], str], kept: Callable[[str], str]
    ) -> None:
        """Make the index with the role ``activated`` of each alias its active one, in one request.

        The index that was active gets the role ``kept``.
        """
        aliases = {alias: index.name for alias, index in indexes.items()}
        actions: list[dict[str, Any]] = []
        for alias in self._moved(aliases):
            old, new = aliases[alias], aliases[activated(alias)]
            # The aliases of tenants that lead to the shared index move with its own.
            going = [alias, *(sharing_aliases(aliases, alias) if alias == self._shared else ())]
            actions += [{"remove": {"index": old, "alias": name}} for name in going]
            actions += [_added(new, name) for name in going]
            actions += [self._removed(new, activated(alias)), _added(old, kept(alias))]
        try:
            self._move_aliases(actions)
        except StoreError:
            found = self._aliases()
            # Sent again as its answer was lost, the request fails: it has removed the alias already.
            if any(found.get(alias) != aliases[activated(alias)] for alias in self._moved(aliases)):
                raise

    def _next_index_name(self) -> str:
        """Return the name of an index that does not exist yet."""
        existing = self._call(self._client.indices.get, index=f"{self._shared}-*", allow_no_indices=True)
        numbered = (re.fullmatch(rf"{re.escape(self._shared)}-(\d{{6}})", name) for name in existing)
        return f"{self._shared}-{max((int(match[1]) for match in numbered if match), default=0) + 1:06d}"

    def _by_tenant(self, alias: str, tenant_ids: Sequence[str], spaces: Sequence[str]) -> dict[str, query.TenantCounts]:
        answer = self._whole(self._client.search, index=alias, body=query.by_tenant(tenant_ids, spaces))
        return query.tenant_counts(answer)

    def _refresh(self) -> None:
        """Make all writes searchable; a serverless collection refreshes itself, a little later."""
        if not self._serverless:
            self._call(self._client.indices.refresh, index=all_aliases(self._shared), ignore_unavailable=True)


def _added(index: str, alias: str) -> dict[str, Any]:
    return {"add": {"index": index, "alias": alias, "is_write_index": True}}
