"""Removing a tenant: all that any store holds of it, and a word on what no store lets be removed.

Members first, so that nobody writes any more; then what would write again, such as jobs, messages and files that are
being imported; then what there is. Whoever is stopped on the way repeats it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from braid.errors import ConfigurationError
from braid.ingestion.bulk.manifest import unfinished
from braid.ingestion.deleting import DeleteReport, DeleteStore, delete_pages, record_pages
from braid.ports.job_store import refresh_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from braid.ports.cache import ResilientCache
    from braid.ports.job_store import JobStore
    from braid.ports.members import MembershipStore
    from braid.ports.message_queue import Queue
    from braid.ports.object_store import ObjectStore
    from braid.ports.schema_registry import SchemaRegistry

_PAGE = 500
_MESSAGES = "messages that ask for records to be embedded again: they find none, and go when they are worked off"


class TenantReport(DeleteReport):
    """How much there was of a tenant, and what is left."""

    schemas: int = 0
    objects: int = 0
    members: int = 0
    """Memberships in the tenant."""
    jobs: int = 0
    """Jobs of this tenant alone."""
    messages: int = 0
    cached: int = 0
    """Answers, contexts, vectors of questions, and answers to requests with an idempotency key."""
    left: tuple[str, ...] = ()
    """What could not be removed, or not be looked for, and why."""


class TenantStore(DeleteStore, Protocol):
    """Everything that holds anything of a tenant, such as :func:`braid.app.application` returns."""

    @property
    def cache(self) -> ResilientCache:
        """What is kept of the tenant's answers."""

    @property
    def schemas(self) -> SchemaRegistry:
        """Where schema versions are."""

    @property
    def members(self) -> MembershipStore:
        """Who may ask for which tenant."""

    @property
    def jobs(self) -> JobStore:
        """Re-embedding jobs."""

    @property
    def objects(self) -> ObjectStore:
        """Where files are."""

    @property
    def queue(self) -> Queue:
        """What is to be embedded again."""


def delete_tenant(tenant_id: str, store: TenantStore) -> TenantReport:
    """Delete all that is stored of a tenant.

    That is its members, jobs, messages, records, graph, files, schema versions and cached values. What stays is the
    number of its write generation: no answer from before may be found by a tenant that is given the name anew.

    An import that is running finds its object gone and ends; a batch that it has begun to write is written to its end,
    and may be so after this.

    Parameters
    ----------
    tenant_id
        Whose.
    store
        Where from. A store that the settings do not name is named in the report.

    Raises
    ------
    StoreError
        As the engines; repeating the delete completes it.
    """
    left: list[str] = []
    members = _named("members", left, lambda: store.members.forget(tenant_id))
    jobs = _named("jobs", left, lambda: int(store.jobs.remove(refresh_job(tenant_id))))
    messages = _messages(tenant_id, store, left)
    objects = _objects(tenant_id, store, left)
    removed = delete_pages(tenant_id, record_pages(tenant_id, store, None), store)
    vertices = relationships = cached = 0
    cursor: str | None = None
    try:
        while True:
            page = store.graph.scan(tenant_id, after=cursor, limit=_PAGE)
            relationships += len(page.relationships)
            vertices += store.graph.delete(tenant_id, [vertex.id for vertex in page.vertices])
            cursor = page.cursor
            if cursor is None:
                break
        schemas = store.schemas.forget(tenant_id)
    finally:
        store.cache.advance(tenant_id)
    # Last: an answer that was on its way may have been kept until now.
    cached = _named("cached answers", left, lambda: store.cache.forget(tenant_id))
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


def _named(what: str, left: list[str], remove: Callable[[], int]) -> int:
    """Remove from a store, or note that the settings do not name it: that of this machine is another's."""
    try:
        return remove()
    except ConfigurationError as error:
        left.append(f"{what}, if there are any: {error}")
        return 0


def _messages(tenant_id: str, store: TenantStore, left: list[str]) -> int:
    def remove() -> int:
        removed = store.queue.forget(tenant_id)
        if removed is None:
            left.append(_MESSAGES)
        return removed or 0

    return _named("messages", left, remove)


def _objects(tenant_id: str, store: TenantStore, left: list[str]) -> int:
    """Remove the files, and say which imports had not ended: each batch of theirs that begins after this fails."""

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

    return _named("files", left, remove)
