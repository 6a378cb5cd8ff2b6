"""Ports of re-embedding: jobs, the queue of outdated records, and the migration of an index to another profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Protocol, runtime_checkable

from pydantic import Field, StringConstraints

from braid.errors import InvalidRequest
from braid.models import Frozen, Record, RecordId, TenantId

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Unpack

    from braid.models import Embedding
    from braid.ports.search_index import ScanConditions, SearchHits, SearchRequest


MAX_IDS = 10_000
"""Most ids that one request lists; OpenSearch returns no more."""
ProfileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]


class MigrationState(Frozen):
    """Which profiles' vectors the index holds. At most one of ``next`` and ``previous`` is set."""

    active: ProfileName | None = None
    """Profile whose models embed questions; None where no move ever was, and the settings tell."""
    next: ProfileName | None = None
    """Profile that a move fills an index for."""
    previous: ProfileName | None = None
    """Profile that was active before the last move and can be again."""

    @property
    def mirrored(self) -> ProfileName | None:
        """The other profile, that writes have to serve as well."""
        return self.next or self.previous

    def served(self, default: str) -> tuple[str, ...]:
        """Return the profiles that records are embedded for, the active one first: before any move the default."""
        profiles = (self.active or default, self.mirrored)
        return tuple(dict.fromkeys(name for name in profiles if name is not None))

    def begun(self, active: str, target: str) -> MigrationState:
        """Return what is served once a move has begun.

        Raises InvalidRequest if another index stands beside the active one already.
        """
        if self.next is not None:
            raise InvalidRequest(
                f"profile: a move to profile {self.next} is open; finish it or roll it back first", field="profile"
            )
        if self.previous is not None:
            raise InvalidRequest(
                f"profile: profile {self.previous} is still kept for a roll-back; drop it first", field="profile"
            )
        return MigrationState(active=self.active or active, next=target)

    def switched(self) -> MigrationState:
        """Return what is served after the switch. Raises InvalidRequest if there is no next index."""
        if self.next is None:
            raise InvalidRequest("profile: no move is open; begin one first", field="profile")
        return MigrationState(active=self.next, previous=self.active)

    def rolled_back(self) -> MigrationState:
        """Return what is served after going back. Raises InvalidRequest if there is no previous index."""
        if self.previous is None:
            raise InvalidRequest("rollback: there is no previous index to go back to", field="rollback")
        return MigrationState(active=self.previous, next=self.active)


class ReembeddedRecord(Frozen):
    """A record with new vectors, to be written back if nobody changed it meanwhile."""

    read: Record
    """As it was when it was read; its vectors do not matter."""
    write: Record
    """As it is to be. Its vectors replace those of their spaces, and those of other spaces stay as they are."""

    def is_as_read(self, now: Record) -> bool:
        """Return whether what is stored now is what was read, vectors aside."""
        return without_vectors(now) == without_vectors(self.read)


def without_vectors(record: Record) -> Record:
    """Return a record without its vectors and what is said of them."""
    return record.model_copy(update={"embeddings": (), "supplied_spaces": ()})


def merged(stored: Iterable[Embedding], new: Sequence[Embedding]) -> tuple[Embedding, ...]:
    """Return the stored vectors, with the new ones instead of those of their spaces."""
    replaced = {embedding.space for embedding in new}
    return (*(embedding for embedding in stored if embedding.space not in replaced), *new)


class WriteBackResult(Frozen):
    """Which records were written back, and which were not because they had changed."""

    written: int = Field(ge=0)
    lost: tuple[RecordId, ...] = ()
    """Changed or removed since they were read, and so left for the next pass."""


@runtime_checkable
class IndexMigration(Protocol):
    """The index as re-embedding sees it; beside a :class:`~braid.ports.search_index.SearchIndex` of the same store."""

    grace_s: float
    """For how many seconds others may still act on an earlier answer of :meth:`serving`; 0 where nobody keeps it."""

    def of_tenant(self, tenant_id: str, *, back: bool = False) -> IndexMigration:
        """Return the migration of one tenant to an index of its own, or back to the shared one; its profile stays.

        Raises InvalidRequest if the store has no index that tenants share.
        """

    def serving(self) -> MigrationState:
        """Return which profiles are served."""

    def tenants(self, *, after: str | None = None, limit: int = 500) -> list[TenantId]:
        """Return the next tenants that have records, in order."""

    def count(self, tenant_id: str, **conditions: Unpack[ScanConditions]) -> int:
        """Return how many records of the active index meet every condition given, as those of ``SearchIndex.scan``."""

    def ids(
        self,
        tenant_id: str,
        *,
        after: str | None = None,
        limit: int = 500,
        following: bool = False,
        **conditions: Unpack[ScanConditions],
    ) -> list[RecordId]:
        """Return the next ids, in order, of the records that meet every condition given: those greater than ``after``.

        Parameters
        ----------
        limit
            Most ids, up to :data:`MAX_IDS`.
        following
            Whether of the next index instead of the active one.
        """

    def write_back(self, tenant_id: str, changes: Sequence[ReembeddedRecord]) -> WriteBackResult:
        """Write each record that is still as it was read, in the active index and in the one beside it.

        Raises DimensionMismatch if a vector's length is not that of its space; nothing is written.
        """

    def begin(self, active: str, target: str, spaces: Mapping[str, int]) -> MigrationState:
        """Begin a move; one that goes there already goes on.

        Raises InvalidRequest if another move is open, or the index before the last one was not dropped.

        Parameters
        ----------
        active
            Profile of what is there, noted if none was.
        spaces
            Embedding spaces that the next index holds, and the length of their vectors: those of both profiles.
        """

    def pending(self, tenant_id: str, ids: Sequence[str], spaces: Sequence[str]) -> list[RecordId]:
        """Return which of some records the next index lacks, or has without a vector in one of these spaces."""

    def fill(self, tenant_id: str, changes: Sequence[ReembeddedRecord]) -> WriteBackResult:
        """Write records to the next index, with what the active one has of its spaces and with the new vectors.

        What is there already and differs from what was read is not written over, and what is removed from the active
        index meanwhile does not stay in the next one.
        """

    def reconcile(self, tenant_id: str, ids: Sequence[str]) -> int:
        """Compare some records of both indexes, vectors aside, and remove from the next one what differs.

        Returns how many were missing, superfluous or different; filling again brings those of the active index back.
        """

    def count_pending(self, tenant_ids: Sequence[str], spaces: Sequence[str]) -> int:
        """Return how many records of these tenants, up to 1,000, :meth:`pending` would return.

        0 says that the next index is whole, as far as they go. It takes no more requests for many than for one.
        """

    def search_next(self, request: SearchRequest) -> SearchHits:
        """Answer from the next index, as ``SearchIndex.search`` from the active one."""

    def prepare(self) -> None:
        """Build what the first question after the switch would otherwise wait for."""

    def switch(self) -> MigrationState:
        """Make the next index and its profile the active ones, in one act; keep the other as the previous one.

        Raises InvalidRequest if there is no next index.
        """

    def rollback(self) -> MigrationState:
        """Make the previous index and its profile the active ones again, in one act; keep the other as the next one.

        Raises InvalidRequest if there is no previous index.
        """

    def drop(self, spaces: Sequence[str]) -> MigrationState:
        """Remove the index that is not active, and these spaces, which only its profile has, if there is one."""


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
        """Return a job as last written, None when there is none."""

    def put(self, record: JobRecord) -> bool:
        """Write a job if its revision is the next one; False, and nothing written, if another worker was first."""

    def names(self) -> list[str]:
        """Return the names of all jobs, in order."""

    def remove(self, name: str) -> bool:
        """Remove a job and return whether there was one; a worker on it fails at its next write."""


def refresh_job(tenant_id: str | None) -> str:
    """Return the name of the job that re-embeds one tenant's outdated records, or every tenant's."""
    return f"refresh:{tenant_id}" if tenant_id else "refresh"


def move_job(tenant: str | None) -> str:
    """Return the name of the job that moves all to another profile, or one tenant to another index."""
    return "move" if tenant is None else f"move:{tenant}"


class PendingSend(Protocol):
    """A call to the re-embedding queue that may still be under way."""

    def wait(self) -> bool:
        """Wait for the call, for as long as an answer may, and return whether it is over."""


class OutdatedRecords(Protocol):
    """Records of an older schema that answers found, on their way to the re-embedding queue."""

    def send(self, tenant_id: str, record_ids: Sequence[str], target_schema_version: int) -> PendingSend | None:
        """Queue the records without holding up the answer; None when there was nothing to send."""
