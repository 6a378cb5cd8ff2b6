"""The embedded index migration: the next model profile's vectors are written to the same rows.

During a migration records have vectors of both profiles, each in its own space: backfilling only writes vectors,
switching writes one value, and nothing has to be copied or reconciled.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from braid.engines.embedded.search import removed_vectors_log, row_reads, row_writes
from braid.engines.embedded.tables import read_global, write_global
from braid.engines.embedded.write_generations import Generation
from braid.errors import InvalidRequest
from braid.ports.reembedding import MAX_IDS, MigrationState, WriteBackResult, merged
from braid.ports.search_index import check_vectors
from braid.telemetry.recording import store_calls

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from braid.engines.embedded.search.index import EmbeddedSearchIndex
    from braid.engines.embedded.store import EmbeddedStore
    from braid.ports.reembedding import ReembeddedRecord
    from braid.ports.search_index import ScanConditions, SearchHits, SearchRequest

_SERVING = "serving"


@store_calls("sqlite")
class EmbeddedIndexMigration:
    """Migration between model profiles in SQLite; implements :class:`braid.ports.reembedding.IndexMigration`."""

    grace_s: float = 0.0

    def __init__(self, store: EmbeddedStore, index: EmbeddedSearchIndex) -> None:
        self._store = store
        self._index = index

    def of_tenant(self, tenant_id: str, *, back: bool = False) -> EmbeddedIndexMigration:  # noqa: ARG002 - the port's signature
        """Raise InvalidRequest: in this store every tenant has an index of its own already."""
        raise InvalidRequest("tenant: in the embedded store every tenant has an index of its own", field="tenant_id")

    def serving(self) -> MigrationState:
        """Return which profiles are served."""
        with self._store.read() as connection:
            return _serving(connection)

    def tenants(self, *, after: str | None = None, limit: int = 500) -> list[str]:
        """Return the next tenants that have records, in order."""
        with self._store.read() as connection:
            found = connection.execute(
                "SELECT tenant FROM tenants WHERE tenant > ? AND EXISTS"
                " (SELECT 1 FROM records WHERE records.tenant = tenants.number) ORDER BY tenant LIMIT ?",
                (after or "", limit),
            )
            return [str(row[0]) for row in found]

    def count(self, tenant_id: str, **conditions: Unpack[ScanConditions]) -> int:
        """Return how many records meet every condition given."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            return 0 if tenant is None else row_reads.count(connection, tenant, conditions)

    def ids(
        self,
        tenant_id: str,
        *,
        after: str | None = None,
        limit: int = 500,
        following: bool = False,
        **conditions: Unpack[ScanConditions],
    ) -> list[str]:
        """Return the next ids of the records that meet every condition; none of the next index, as there is none."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            if tenant is None or following:
                return []
            return row_reads.ids(connection, tenant, conditions, after=after or "", limit=limit)

    def write_back(self, tenant_id: str, changes: Sequence[ReembeddedRecord]) -> WriteBackResult:
        """Write each record that has not changed since it was read, all in one transaction."""
        check_vectors((change.write for change in changes), self._index.dimensions)
        ids = [change.read.id for change in changes]
        with self._store.transaction() as connection:
            tenant = self._store.tenant_number(connection, tenant_id)
            if tenant is None:
                return WriteBackResult(written=0, lost=tuple(ids))
            found = row_reads.read_many(connection, tenant, tenant_id, ids, with_vectors=True)
            now = {record.id: record for record in found}
            same = [change for change in changes if change.read.id in now and change.is_as_read(now[change.read.id])]
            vectors = (merged(now[change.read.id].embeddings, change.write.embeddings) for change in same)
            written = zip(same, vectors, strict=True)
            row_writes.upsert(connection, tenant, (change.write.altered(embeddings=found) for change, found in written))
            if same:
                Generation.RECORDS.advance(connection, tenant)
        kept = {change.read.id for change in same}
        return WriteBackResult(written=len(same), lost=tuple(record_id for record_id in ids if record_id not in kept))

    def begin(self, active: str, target: str, spaces: Mapping[str, int]) -> MigrationState:  # noqa: ARG002 - rows need no declaring
        """Begin a migration, or continue the one to the same profile."""
        with self._store.transaction() as connection:
            now = _serving(connection)
            if now.next == target:
                return now
            return _serve(connection, now.begun(active, target))

    def pending(self, tenant_id: str, ids: Sequence[str], spaces: Sequence[str]) -> list[str]:
        """Return the ids of the records that lack a vector in any of these spaces."""
        with self._store.read_tenant(tenant_id) as (connection, tenant):
            return [] if tenant is None else row_reads.lacking(connection, tenant, ids, spaces)

    def fill(self, tenant_id: str, changes: Sequence[ReembeddedRecord]) -> WriteBackResult:
        """Add the new vectors to the stored ones; a record that changed since it was read is skipped."""
        return self.write_back(tenant_id, changes)

    def reconcile(self, tenant_id: str, ids: Sequence[str]) -> int:  # noqa: ARG002 - the port's signature
        """Return 0: both profiles' vectors belong to the same rows, so nothing can differ."""
        return 0

    def count_pending(self, tenant_ids: Sequence[str], spaces: Sequence[str]) -> int:
        """Return how many vectors are missing: the number of records without one, summed over the spaces."""
        return sum(self.count(tenant_id, space_missing=space) for tenant_id in tenant_ids for space in spaces)

    def differing(self, tenant_id: str, spaces: Sequence[str], ids: Sequence[str] | None = None) -> list[str]:
        """Return the ids of records that lack a vector in any of these spaces: nothing else can differ."""
        if ids is not None:
            return self.pending(tenant_id, ids, spaces)
        lacking = (self.ids(tenant_id, limit=MAX_IDS, space_missing=space) for space in spaces)
        return sorted(set[str]().union(*lacking))[:MAX_IDS]

    def search_next(self, request: SearchRequest) -> SearchHits:
        """Search the same rows, which have the vectors of both profiles."""
        return self._index.search(request)

    def prepare(self) -> None:
        """Build the vector graphs of the new spaces, for which the first search would otherwise wait."""
        after: str | None = None
        while tenants := self.tenants(after=after):
            for tenant in tenants:
                self._index.optimise(tenant)
            after = tenants[-1]

    def switch(self) -> MigrationState:
        """Make the next profile the active one, in one transaction, which also invalidates cached answers."""
        with self._store.transaction() as connection:
            return _serve(connection, _serving(connection).switched())

    def rollback(self) -> MigrationState:
        """Make the previous profile the active one again, in one transaction."""
        with self._store.transaction() as connection:
            return _serve(connection, _serving(connection).rolled_back())

    def drop(self, spaces: Sequence[str]) -> MigrationState:
        """Remove the profile that is not active, and the vectors of its own spaces."""
        with self._store.transaction() as connection:
            now = _serving(connection)
            if now.mirrored is None:
                return now
            connection.execute(
                "DELETE FROM vectors WHERE space IN (SELECT value FROM json_each(?))", (json.dumps(list(spaces)),)
            )
            removed_vectors_log.forget(connection)
            return _serve(connection, MigrationState(active=now.active))


def _serving(connection: sqlite3.Connection) -> MigrationState:
    found = read_global(connection, _SERVING)
    return MigrationState() if found is None else MigrationState.model_validate_json(found[1])


def _serve(connection: sqlite3.Connection, serving: MigrationState) -> MigrationState:
    write_global(connection, _SERVING, 1, serving.model_dump_json())
    connection.execute("UPDATE tenants SET record_generation = record_generation + 1")
    return serving
