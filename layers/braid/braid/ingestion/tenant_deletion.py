"""Deletes all data of a tenant from every store, and reports what could not be deleted.

Meanwhile the tenant's writes are refused (:mod:`braid.ports.deletion_marks`). Memberships are deleted first, then
sources of later writes (jobs, messages, objects that are being imported), then the data. An interrupted deletion is
completed by repeating it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from braid.errors import ConfigurationError
from braid.ingestion.bulk.manifest import unfinished
from braid.ingestion.deleting import DeleteReport, delete_pages, record_pages
from braid.ingestion.intent_log import entries
from braid.models import Frozen, TenantId
from braid.ports.deletion_marks import HELD_S, are_kept_with, marked_as_deleted
from braid.ports.ingestion import WriteStore
from braid.ports.keys import pages
from braid.ports.reembedding import move_job, refresh_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from braid.ports.deletion_marks import DeletionMark
    from braid.ports.members import MembershipStore
    from braid.ports.message_queue import Queue
    from braid.ports.object_store import ObjectStore
    from braid.ports.reembedding import JobStore

_PAGE = 500
_Page = TypeVar("_Page")
_MESSAGES = "messages that ask for records to be embedded again: they find none, and go when they are worked off"
_WRITES = (
    "writes that had not ended, {}: what one of them writes after this stays if its process is killed; delete once "
    f"more when they have ended. Until then, or for {HELD_S // 60} minutes, the tenant takes no writes"
)
_CACHED = (
    "cached answers: no question finds them any more, and they expire. They are not removed, as the marks of all "
    "tenants' deletions are stored under the same name"
)
_INDEX = (
    "an index of its own, without records, or one that a move began: until that has ended no other begins; end it "
    "with `braid reembed --rollback` or `--drop-previous`, which also removes what was left of it in the shared index, "
    "and an index of its own with `--index shared`"
)


class Deletion(Frozen):
    """Event of an operator to a function: delete all data of a tenant; sent again if the function timed out."""

    delete_tenant: TenantId


class TenantReport(DeleteReport):
    """Numbers of deleted items of a tenant, and the items that could not be deleted."""

    schemas: int = 0
    objects: int = 0
    members: int = 0
    """Memberships in the tenant."""
    jobs: int = 0
    """Jobs that concern this tenant alone."""
    messages: int = 0
    cached: int = 0
    """Cached answers, contexts, vectors of questions, and answers under idempotency keys."""
    left: tuple[str, ...] = ()
    """Data that could not be deleted or searched for, with the reason, for people."""


class TenantStore(WriteStore, Protocol):
    """All stores with data of a tenant, such as :func:`braid.app.application` returns."""

    @property
    def members(self) -> MembershipStore:
        """The memberships of callers in tenants."""

    @property
    def jobs(self) -> JobStore:
        """Re-embedding jobs."""

    @property
    def objects(self) -> ObjectStore:
        """The object store."""

    @property
    def queue(self) -> Queue:
        """The re-embedding queue."""


def delete_tenant(tenant_id: str, store: TenantStore) -> TenantReport:
    """Delete all stored data of a tenant.

    That is its members, jobs, messages, records, graph, files, schema versions and cached values. Only the number of
    its write generation stays, so that a new tenant of the same name finds no earlier answer.

    Writes are refused meanwhile, and a running import finds its object gone and ends.

    Raises StoreError as the engines do; repeating the delete completes it.

    Parameters
    ----------
    store
        All stores. A store that the settings do not name is listed in the report, under ``left``.
    """
    with marked_as_deleted(tenant_id, store.cache) as mark:
        return _delete(tenant_id, store, mark)


def _delete(tenant_id: str, store: TenantStore, mark: DeletionMark) -> TenantReport:
    """Delete all stored data of a tenant that is marked."""
    left: list[str] = []
    members = _delete_if_configured("members", left, lambda: store.members.forget(tenant_id))
    jobs = _delete_if_configured("jobs", left, lambda: _jobs(tenant_id, store, left))
    messages = _messages(tenant_id, store, left)
    broken_off = _unfinished_writes(tenant_id, store)
    objects = _objects(tenant_id, store, left)
    store.index.show_writes()  # else records that were written just before would not be listed, and stay
    removed = delete_pages(tenant_id, _renewing(record_pages(tenant_id, store, None), mark), store)
    store.index.delete(tenant_id, ())  # removes files that a deletion which was killed has left
    vertices = relationships = 0
    try:
        for page in _renewing(pages(store.graph.scan, tenant_id, limit=_PAGE, hubs=False), mark):
            relationships += len(page.relationships) + page.unread
            store.graph.remove_most_relationships_of(tenant_id, ids := [vertex.id for vertex in page.vertices])
            vertices += store.graph.delete(tenant_id, ids)
        schemas = store.schemas.forget(tenant_id)
    finally:
        store.cache.advance(tenant_id)
    # Again, as a write that had begun before the mark was set may have logged itself after the first look.
    late = _unfinished_writes(tenant_id, store)
    if begun := len({*broken_off, *late}):
        left.append(_WRITES.format(begun))
        mark.stay()  # such a write deletes its ids when it ends, and would delete others' new items of these ids too
        objects += len(late)
        store.objects.delete_many(tenant_id, late)
    # Last, as an answer that was being made may have been cached until now.
    cached = _delete_if_configured("cached answers", left, lambda: _forget_cached(tenant_id, store, left))
    return TenantReport(
        tenant_id=tenant_id,
        records=removed.records,
        vertices=removed.vertices + vertices,
        relationships=removed.relationships + relationships,
        schemas=schemas,
        objects=objects,
        members=members,
        jobs=jobs,
        messages=messages,
        cached=cached,
        left=tuple(left),
    )


def _renewing(pages: Iterable[_Page], mark: DeletionMark) -> Iterator[_Page]:
    for page in pages:
        mark.renew()
        yield page


def _delete_if_configured(what: str, left: list[str], remove: Callable[[], int]) -> int:
    """Delete from a store; if the settings name no such store, report that in ``left`` and return 0."""
    try:
        return remove()
    except ConfigurationError as error:
        left.append(f"{what}, if there are any: {error}")
        return 0


def _jobs(tenant_id: str, store: TenantStore, left: list[str]) -> int:
    """Delete the tenant's jobs, and report one that moves it to another index: its workers stop, the index stays."""
    moved = store.jobs.remove(move_job(tenant_id))
    if moved:
        left.append(_INDEX)
    return moved + store.jobs.remove(refresh_job(tenant_id))


def _messages(tenant_id: str, store: TenantStore, left: list[str]) -> int:
    def remove() -> int:
        removed = store.queue.forget(tenant_id)
        if removed is None:
            left.append(_MESSAGES)
        return removed or 0

    return _delete_if_configured("messages", left, remove)


def _forget_cached(tenant_id: str, store: TenantStore, left: list[str]) -> int:
    if are_kept_with(tenant_id):  # else another tenant would take writes while it is being deleted
        left.append(_CACHED)
        return 0
    return store.cache.forget(tenant_id)


def _unfinished_writes(tenant_id: str, store: TenantStore) -> list[str]:
    """Return the keys of the intent log's entries; none where writes are one transaction, and so not logged."""
    return entries(tenant_id, store.intent_log) if store.intent_log else []


def _objects(tenant_id: str, store: TenantStore, left: list[str]) -> int:
    """Delete the files, and report unfinished imports: every batch of theirs that starts after this fails."""

    def remove() -> int:
        objects = store.objects
        keys = [info.key for info in objects.list(tenant_id)]
        objects.delete_many(tenant_id, keys)
        if names := unfinished(keys):
            left.append(
                f"imports that had not ended ({', '.join(names)}): what they were writing at that moment may come "
                "back; delete once more when they have"
            )
        return len(keys)

    return _delete_if_configured("files", left, remove)
