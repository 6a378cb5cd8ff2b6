"""Ports of re-embedding: jobs, the queue of outdated records, and the migration of an index to another profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Protocol, runtime_checkable

from pydantic import Field, StringConstraints

from braid.errors import InvalidRequest
from braid.models import Frozen, Record, RecordId, TenantId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Unpack

    from braid.models import Embedding
    from braid.ports.search_index import ScanConditions, SearchHits, SearchRequest


MAX_IDS = 10_000
"""Most ids that one request lists; OpenSearch returns no more."""
ProfileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]


class MigrationState(Frozen):
    """Which profiles' vectors the index holds. At most one of ``next`` and ``previous`` is set."""

    active: ProfileName | None = None
    """Profile whose models embed questions; None before any migration, when the settings name it."""
    next: ProfileName | None = None
    """Profile of the next index, which a migration is filling."""
    previous: ProfileName | None = None
    """Profile that was active before the last migration and can be rolled back to."""

    @property
    def mirrored(self) -> ProfileName | None:
        """The other profile, next or previous, whose index writes must update too."""
        return self.next or self.previous

    def served(self, default: str) -> tuple[str, ...]:
        """Return the profiles that records are embedded for, the active one first: ``default`` before any migration."""
        profiles = (self.active or default, self.mirrored)
        return tuple(dict.fromkeys(name for name in profiles if name is not None))

    def begun(self, active: str, target: str) -> MigrationState:
        """Return the state after a migration has begun.

        Raises InvalidRequest if there is already a next or previous index.
        """
        if self.next is not None:
            raise InvalidRequest.of(
                "profile", f"a move to profile {self.next} is open; finish it or roll it back first"
            )
        if self.previous is not None:
            raise InvalidRequest.of("profile", f"profile {self.previous} is still kept for a roll-back; drop it first")
        return MigrationState(active=self.active or active, next=target)

    def switched(self) -> MigrationState:
        """Return the state after the switch. Raises InvalidRequest if there is no next index."""
        if self.next is None:
            raise InvalidRequest.of("profile", "no move is open; begin one first")
        return MigrationState(active=self.next, previous=self.active)

    def rolled_back(self) -> MigrationState:
        """Return the state after a roll-back. Raises InvalidRequest if there is no previous index."""
        return MigrationState(active=self.require_previous(), next=self.active)

    def require_previous(self) -> str:
        """Return the profile that can be rolled back to. Raises InvalidRequest if there is no previous index."""
        if self.previous is None:
            raise InvalidRequest.of("rollback", "there is no previous index to go back to")
        return self.previous


class ReembeddedRecord(Frozen):
    """A record with new vectors, to be written back if it was not changed meanwhile."""

    read: Record
    """The record as it was read; its vectors do not matter."""
    write: Record
    """The record to write. Its vectors replace the stored ones of their spaces; vectors of other spaces are kept."""

    def is_as_read(self, now: Record) -> bool:
        """Return whether the record as stored now equals the one that was read, vectors aside."""
        return without_vectors(now) == without_vectors(self.read)


def without_vectors(record: Record) -> Record:
    """Return a record without its vectors and the list of spaces whose vectors were supplied."""
    return record.altered(embeddings=(), supplied_spaces=())


def merged(stored: Iterable[Embedding], new: Sequence[Embedding]) -> tuple[Embedding, ...]:
    """Return the stored vectors, replaced by the new ones in their spaces."""
    replaced = {embedding.space for embedding in new}
    return (*(embedding for embedding in stored if embedding.space not in replaced), *new)


class WriteBackResult(Frozen):
    """How many records were written back, and which were not because they had changed."""

    written: int = Field(ge=0)
    lost: tuple[RecordId, ...] = ()
    """Records that were changed or removed since they were read, left for the next pass."""


@runtime_checkable
class IndexMigration(Protocol):
    """The re-embedding of an index; used beside a :class:`~braid.ports.search_index.SearchIndex` of the same store."""

    grace_s: float
    """Seconds for which other processes may still use an earlier result of :meth:`serving`; 0 if it is not cached."""

    def of_tenant(self, tenant_id: str, *, back: bool = False) -> IndexMigration:
        """Return the migration of one tenant to an index of its own, or back to the shared one; its profile stays.

        Raises InvalidRequest if the store has no index that tenants share.
        """

    def serving(self) -> MigrationState:
        """Return which profiles are served."""

    def tenants(self, *, after: str | None = None, limit: int = 500) -> list[TenantId]:
        """Return the next tenants that have records, in order."""

    def count(self, tenant_id: str, **conditions: Unpack[ScanConditions]) -> int:
        """Return the number of records of the active index that meet the conditions, as of ``SearchIndex.scan``."""

    def ids(
        self,
        tenant_id: str,
        *,
        after: str | None = None,
        limit: int = 500,
        following: bool = False,
        **conditions: Unpack[ScanConditions],
    ) -> list[RecordId]:
        """Return the ids greater than ``after``, in order, of the records that meet every condition given.

        Parameters
        ----------
        limit
            Most ids, up to :data:`MAX_IDS`.
        following
            Whether to read the next index instead of the active one.
        """

    def write_back(self, tenant_id: str, changes: Sequence[ReembeddedRecord]) -> WriteBackResult:
        """Write each record that is unchanged since it was read, to the active index and to the other one.

        Raises DimensionMismatch if a vector's length is not that of its space; nothing is written.
        """

    def begin(self, active: str, target: str, spaces: Mapping[str, int]) -> MigrationState:
        """Begin a migration, or continue the one to the same profile.

        Raises InvalidRequest if another migration is open, or the previous index was not dropped.

        Parameters
        ----------
        active
            Profile of the stored vectors, recorded if none was.
        spaces
            Embedding spaces of the next index, of both profiles, with the length of their vectors.
        """

    def pending(self, tenant_id: str, ids: Sequence[str], spaces: Sequence[str]) -> list[RecordId]:
        """Return the ids that the next index lacks, or has without a vector in one of these spaces."""

    def fill(self, tenant_id: str, changes: Sequence[ReembeddedRecord]) -> WriteBackResult:
        """Copy records to the next index, with the active index's vectors of its spaces and with the new vectors.

        A record there that differs from the one that was read is not overwritten, and one that is removed from the
        active index meanwhile does not remain in the next one.
        """

    def reconcile(self, tenant_id: str, ids: Sequence[str]) -> int:
        """Compare records of both indexes, vectors aside, and remove those that differ from the next one.

        Returns how many were missing, superfluous or different; :meth:`fill` then adds the active index's again.
        """

    def count_pending(self, tenant_ids: Sequence[str], spaces: Sequence[str]) -> int:
        """Return how many records of these tenants, up to 1,000, :meth:`pending` would return.

        0 means that the next index is complete for these tenants. Many tenants take no more requests than one.
        """

    def differing(self, tenant_id: str, spaces: Sequence[str], ids: Sequence[str] | None = None) -> list[RecordId]:
        """Return the ids that only one of the two indexes has, or the next one without a vector in one of these spaces.

        Records that are being written are among them until their write, which is to one index after the other, ends.

        Parameters
        ----------
        ids
            Ids to compare, as they are now, searchable or not; all of the tenant's for None, and then up to
            :data:`MAX_IDS` are returned.
        """

    def search_next(self, request: SearchRequest) -> SearchHits:
        """Search the next index, as ``SearchIndex.search`` does the active one."""

    def prepare(self) -> None:
        """Build the structures that the first question after the switch would otherwise wait for."""

    def switch(self) -> MigrationState:
        """Make the next index and its profile the active ones, atomically; the other becomes the previous one.

        Raises InvalidRequest if there is no next index.
        """

    def rollback(self) -> MigrationState:
        """Make the previous index and its profile the active ones again, atomically; the other becomes the next one.

        Raises InvalidRequest if there is no previous index.
        """

    def drop(self, spaces: Sequence[str]) -> MigrationState:
        """Remove the index that is not active, if any, and these spaces, which only its profile has."""


JobName = Annotated[str, StringConstraints(pattern=r"^[!-~]{1,128}$")]


class JobRecord(Frozen):
    """Progress of a job, from which any worker can resume it."""

    name: JobName
    revision: int = Field(ge=1)
    body: str


@runtime_checkable
class JobStore(Protocol):
    """Durable job records."""

    def get(self, name: str) -> JobRecord | None:
        """Return a job as last written; None when there is none."""

    def put(self, record: JobRecord) -> bool:
        """Write a job if its revision is the next one; return False, without writing, if another worker was first."""

    def names(self) -> list[str]:
        """Return the names of all jobs, in order."""

    def remove(self, name: str) -> bool:
        """Remove a job and return whether there was one; a worker that runs it fails at its next write."""


def refresh_job(tenant_id: str | None) -> str:
    """Return the name of the job that re-embeds outdated records, of one tenant or, for None, of all."""
    return f"refresh:{tenant_id}" if tenant_id else "refresh"


def move_job(tenant: str | None) -> str:
    """Return the name of the job that migrates all tenants to another profile, or one tenant to another index."""
    return "move" if tenant is None else f"move:{tenant}"


class OutdatedRecords(Protocol):
    """Sends records of an older schema, met while answering, to the re-embedding queue."""

    def send(self, tenant_id: str, record_ids: Sequence[str], target_schema_version: int) -> Callable[[], bool] | None:
        """Queue the records without holding up the answer; None when there was nothing to send.

        What it returns waits for the queue, at most as long as an answer may, and returns whether the call ended.
        """
