"""Removing a tenant: all that any store holds of it, and a word on what no store lets be removed.

Members first, so that nobody writes any more; then what would write again, such as jobs and messages; then what there
is. Whoever is stopped on the way repeats it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from braid.deletes import DeleteReport, DeleteStore, delete_pages, record_pages
from braid.errors import ConfigurationError
from braid.reembedding.planning import REFRESH

if TYPE_CHECKING:
    from braid.engines.ports import SchemaRegistry
    from braid.engines.ports_members import Members
    from braid.engines.ports_moves import JobStore
    from braid.engines.ports_state import ObjectStore, Queue

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
    """Everything that holds anything of a tenant, such as :func:`braid.wiring.wired` returns."""

    @property
    def schemas(self) -> SchemaRegistry:
        """Where schema versions are."""

    @property
    def members(self) -> Members:
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
    members = store.members.forget(tenant_id)
    jobs = int(store.jobs.remove(f"{REFRESH}:{tenant_id}"))
    messages = _messages(tenant_id, store, left)
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
        objects, schemas = _objects(tenant_id, store, left), store.schemas.forget(tenant_id)
    finally:
        store.cache.advance(tenant_id)
    # Last: an answer that was on its way may have been kept until now.
    cached = store.cache.forget(tenant_id)
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


def _messages(tenant_id: str, store: TenantStore, left: list[str]) -> int:
    try:
        removed = store.queue.forget(tenant_id)
    except ConfigurationError as error:
        left.append(f"messages, if there are any: {error}")
        return 0
    if removed is None:
        left.append(_MESSAGES)
    return removed or 0


def _objects(tenant_id: str, store: TenantStore, left: list[str]) -> int:
    try:
        objects = store.objects
    except ConfigurationError as error:
        left.append(f"files, if there are any: {error}")
        return 0
    keys = [info.key for info in objects.list(tenant_id)]
    for key in keys:
        objects.delete(tenant_id, key)
    return len(keys)
