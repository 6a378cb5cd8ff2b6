"""Writes records, vertices and relationships of one tenant to the search index and the knowledge graph.

The request is validated as a whole, then embedded, then written in one transaction: index, graph, supersession, and the
tenant's write generation. Embedded stores commit all of it or nothing. Deployed stores cannot commit together and are
written in that order: a write that was interrupted, or failed because a store is down, is completed by repeating it,
which skips items that are already stored, or by ``braid repair`` from the
:mod:`intent log <braid.ingestion.intent_log>`.
A record is identified by its id and its content hash; a record that is stored with the same hash and a vector of each
model is neither embedded nor written again.

Of concurrent writes of one item the last commit wins. Validity and supersession also depend on stored items, so writes
use optimistic concurrency control: a request is checked and embedded before its transaction, against a version of the
tenant, and the transaction compares that version. If another write was committed since, the transaction is rolled back,
the request is checked again and changed texts are embedded. Deployed stores have no such transaction: the check is
repeated once if another write completed while the models ran.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from braid import deadline
from braid.errors import InvalidRequest, TenantBeingDeleted, TransientStoreError
from braid.ingestion.deleting import delete_pages
from braid.ingestion.entities_found_in_texts import NAMES_AT_ONCE, delete_mentions
from braid.ingestion.intent_log import UnfinishedWrite, logged
from braid.ingestion.record_vectors import RecordVectors, content_hash
from braid.ingestion.request_checks import check
from braid.ingestion.supersession.ending_validity import end_again
from braid.ingestion.tenant_locks import writing_turn
from braid.models import GraphSource
from braid.ports.batches import batches
from braid.ports.deletion_marks import refuse_if_deleted_since, refuse_while_deleted, undone, was_deleted_since
from braid.ports.ingestion import ItemError, MissingEnds, Places, WriteReport, WriteRequest, WriteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from braid.ingestion.request_checks import Accepted
    from braid.models import Record

__all__ = [
    "BATCH",
    "ItemError",
    "MissingEnds",
    "Places",
    "WriteReport",
    "WriteRequest",
    "WriteStore",
    "content_hash",
    "require_written",
    "write",
]

BATCH = 512
"""Records that are embedded and sent to the index together."""
MENTIONS_AT_ONCE = 10_000
"""Most stale mentions whose rows are deleted in the transaction of a write; the rows of more are deleted after it."""
STORES_S = 300.0
"""Time limit of the stores for one write, in seconds; past it the write is undone, or completed by repeating it."""
MAX_OVERTAKEN = 5
"""Most times that a write is rolled back as another was committed first; then it is prepared in its transaction."""


class _Overtaken(Exception):
    """Another write was committed between the check of a write and its transaction."""


class _Version(NamedTuple):
    """The version of a tenant that a request is checked and embedded against; both are repeated if it changes."""

    generation: int | None
    """Write generation of the tenant; None where stores do not commit in one transaction."""
    models: tuple[str, ...]
    """Ids of the models that embed records: a move to others begins no generation of a tenant without records."""


def nothing() -> None:
    """Require nothing more of a write."""


def write(
    request: WriteRequest,
    store: WriteStore,
    *,
    threads: int | None = None,
    batch: int = BATCH,
    on_progress: Callable[[int, int], None] | None = None,
    ahead: RecordVectors | None = None,
    require: Callable[[], None] = nothing,
) -> WriteReport:
    """Validate and write; once it returns, the items that it counts are durable and older cached answers are invalid.

    Parameters
    ----------
    request
        The items to write.
    store
        Both stores, such as :func:`braid.app.application` returns.
    threads
        Threads of the encoder.
    batch
        Records that are embedded and sent to the index together.
    on_progress
        Called with the number of records embedded so far and in total.
    ahead
        The vectors of the records, if their computation was begun before.
    require
        Called before each attempt to commit: after the texts are embedded, which may take minutes, and again if another
        write was committed first. If it raises an error, nothing is written and the error is raised.

    Returns
    -------
    WriteReport
        With one error for each invalid item. If there is any, nothing is written, unless the request is ``partial``.

    Raises
    ------
    InvalidRequest
        If an item belongs to another tenant.
    TenantBeingDeleted
        If the tenant is being deleted, or was deleted during the write; nothing of the write is kept.
    StoreError, ModelError
        As the engines and the encoder. Embedded stores are then unchanged; repeating the write completes it. If the
        deadline of the request passes while the texts are embedded, StoreTooSlow; no store is then changed.
    """
    if store.graph_source is GraphSource.FOUND:
        left_out = {"vertices": (), "relationships": (), "places": request.places.records_only()}
        request = request.altered(**left_out)
    tenant_id, vectors = request.tenant_id, ahead or RecordVectors(store, threads)
    mark = refuse_while_deleted(tenant_id, store.cache)
    prepare = partial(_prepare, request, store, vectors, batch)
    prepared = prepare(on_progress)  # before the transaction, so that others can write while the models run
    if prepared.records is None:
        return WriteReport(tenant_id=tenant_id, errors=tuple(prepared.accepted.errors))
    vectors.waits = False
    began = time.perf_counter()
    # A write that has begun is completed.
    with (
        deadline.suspended(),
        # Where stores do not commit together, a write is prepared once: these are all of its items.
        _undone_if_deleted(tenant_id, prepared.accepted, store, mark),
        writing_turn(tenant_id, store.graph, store.index),
    ):
        prepared, superseded = _commit(prepared, prepare, store, batch=batch, mark=mark, require=require)
    accepted, embedded = prepared.accepted, prepared.records
    if embedded is None:
        return WriteReport(tenant_id=tenant_id, errors=tuple(accepted.errors))
    return WriteReport(
        tenant_id=tenant_id,
        written=len(embedded),
        unchanged=len(accepted.records) - len(embedded),
        embedded=sum(record.id in vectors.asked for record in accepted.records),
        vertices=accepted.given_vertices,
        relationships=len(accepted.stated),
        unchanged_relationships=len(accepted.stated) - sum(not edge.found for edge in accepted.edges),
        superseded=superseded,
        stubs=len(accepted.stubs),
        names=accepted.names,
        mentions=accepted.mentions,
        unmentioned=len(accepted.stale),
        errors=tuple(accepted.errors),
        embed_seconds=vectors.seconds(),
        write_seconds=time.perf_counter() - began,
    )


class _Prepared(NamedTuple):
    """A request that is checked and embedded."""

    request: WriteRequest
    version: _Version
    """The version that it was checked and embedded against."""
    accepted: Accepted
    records: list[Record] | None
    """The records to write, with their vectors; None if items are invalid, so that nothing is written."""

    def is_overtaken(self, store: WriteStore) -> bool:
        """Return whether the tenant has another version by now; never where stores have no transaction."""
        return _version(self.request, store) != self.version


def _prepare(
    request: WriteRequest,
    store: WriteStore,
    vectors: RecordVectors,
    batch: int,
    on_progress: Callable[[int, int], None] | None = None,
) -> _Prepared:
    """Check a request and embed its records, again if the result may be due to another write.

    ==========================================  ========================================================
    Invalid items, so that nothing is written   again while other writes are committed during the check
    Valid, stores commit in one transaction     not again: :func:`_commit` compares the version
    Valid, stores do not                        once again, if another write ended while the models ran
    ==========================================  ========================================================
    """
    tenant_id, is_second_time = request.tenant_id, False
    while True:
        version, generation = _version(request, store), store.cache.generation(tenant_id)
        accepted = check(request, store)
        prepared = _Prepared(request, version, accepted, None)
        if accepted.errors and not request.partial:
            if not prepared.is_overtaken(store):
                return prepared
        else:
            records = vectors.records(
                accepted.records, batch, None if is_second_time else on_progress, again=accepted.to_widen
            )
            # No transaction will detect that another write ended, named or removed something meanwhile.
            is_outdated = version.generation is None and store.cache.generation(tenant_id) != generation
            if is_second_time or not (is_outdated and records):
                return prepared._replace(records=records)
            is_second_time = True
        deadline.check()


def _version(request: WriteRequest, store: WriteStore) -> _Version:
    generation = store.write_generation(request.tenant_id)
    is_known = generation is not None and request.records
    return _Version(generation, tuple(model.id for model in store.models()) if is_known else ())


@contextmanager
def _undone_if_deleted(tenant_id: str, accepted: Accepted, store: WriteStore, mark: bytes | None) -> Iterator[None]:
    """Delete the block's writes if the tenant was deleted meanwhile; for stores that do not commit together.

    Not after a refusal, which precedes all writing: the stored items may be a later write's.
    """
    refused = False
    try:
        yield
    except TenantBeingDeleted:
        refused = True
        raise
    finally:
        if (
            not refused
            and store.write_generation(tenant_id) is None
            and was_deleted_since(tenant_id, store.cache, mark)
        ):
            ids = dict.fromkeys([one.id for one in accepted.records] + [one.id for one in accepted.vertices])
            delete_pages(tenant_id, [list(ids)], store)
            raise undone(tenant_id)


def _commit(
    prepared: _Prepared,
    prepare: Callable[[], _Prepared],
    store: WriteStore,
    *,
    batch: int,
    mark: bytes | None,
    require: Callable[[], None],
) -> tuple[_Prepared, int]:
    """Write a prepared request in one transaction; return the written items, and the number of items ended.

    If another write commits first, it is prepared again: outside the transaction, where others can write, and the last
    time inside it, where they cannot. If items are then invalid, nothing is written.
    """
    tenant_id, superseded = prepared.request.tenant_id, 0
    for times_overtaken in range(MAX_OVERTAKEN + 1):
        if prepared.is_overtaken(store):
            prepared = prepare()
        if prepared.records is None:
            break
        require()
        store.graph.distrust_most_relationships(tenant_id, _doubted(tenant_id, prepared.accepted, store))
        with suppress(_Overtaken), store.transaction(tenant_id):
            if prepared.is_overtaken(store):
                if times_overtaken < MAX_OVERTAKEN:
                    raise _Overtaken  # rolls the transaction back
                prepared = prepare()
                require()
            refuse_if_deleted_since(tenant_id, store.cache, mark)
            superseded = _put_logged(prepared, store, batch)
            break
    return prepared, superseded


def _put_logged(prepared: _Prepared, store: WriteStore, batch: int) -> int:
    """Write a prepared request, logged where stores do not commit together; return the number of items ended."""
    if prepared.records is None:
        return 0
    request, accepted = prepared.request, prepared.accepted
    whole = UnfinishedWrite(
        tenant_id=request.tenant_id,
        records={record.id: content_hash(record) for record in accepted.records} if store.intent_log else {},
        vertices=tuple(accepted.vertices),
        relationships=tuple(accepted.edges),
        stale=tuple(accepted.stale),
    )
    with logged(whole, request, store.intent_log), deadline.within(STORES_S):
        return _put(request.tenant_id, accepted, prepared.records, store, batch)


def _put(tenant_id: str, accepted: Accepted, embedded: Sequence[Record], store: WriteStore, batch: int) -> int:
    """Write to the index, then to the graph, then apply supersession; return the number of items ended."""
    supersession = accepted.supersession
    doubted = _doubted(tenant_id, accepted, store)
    records = [supersession.with_validity(record) for record in embedded]
    if accepted.without_old_names and store.write_generation(tenant_id) is None:
        # First: once the records are stored, a repeated write takes these names for ones that were given apart.
        keys = store.graph.name_keys(accepted.without_old_names)
        store.graph.upsert(accepted.without_old_names, [], keys)
    for each in batches(records, batch):
        deadline.check()
        store.index.upsert(each)
    deadline.check()
    if accepted.void_links:
        store.graph.delete_relationships(tenant_id, accepted.void_links)
    if accepted.vertices or accepted.edges:
        with _endpoints_are_there():
            store.graph.upsert(accepted.vertices, accepted.edges, accepted.name_keys, accepted.stubs)
    if accepted.successors:
        # Before the other mentions are reassigned, which changes their identities.
        store.graph.delete_relationships(
            tenant_id, [edge for edge in accepted.stale if edge.source in accepted.successors]
        )
        # By the store itself, as very many texts may have a name.
        with _endpoints_are_there():
            store.graph.reassign_mentions(tenant_id, accepted.successors)
        store.graph.delete(tenant_id, list(accepted.successors))
    names = {edge.source for edge in accepted.stale}
    are_few = len(accepted.stale) <= MENTIONS_AT_ONCE and len(names) <= NAMES_AT_ONCE
    if names and are_few:
        delete_mentions(tenant_id, accepted.stale, store.graph)
    # By the store itself, as a record may be the evidence of very many edges.
    store.graph.distrust_relationships(tenant_id, [*doubted, *_distrusted_since(tenant_id, accepted, store)])
    if doubtful := accepted.doubtful | (names if are_few else set()):
        store.graph.distrust_unmentioned(tenant_id, doubtful)
    ended = sum(after.invalid_at != before.invalid_at for after, before in zip(records, embedded, strict=True))
    written = {record.id for record in embedded}
    ended += supersession.apply(store, tenant_id, records=written, edges=accepted.stated)
    if store.write_generation(tenant_id) is None and (rewritten := written | _named_evidence(accepted)):
        end_again(store, tenant_id, rewritten)
    if not are_few:
        store.graph.remove_mentions(tenant_id, accepted.stale)
    return ended


def _doubted(tenant_id: str, accepted: Accepted, store: WriteStore) -> list[str]:
    """Return the untrusted records of a write that may be the evidence of trusted edges; called before they are stored.

    Where a write is one transaction, a record that is already stored as untrusted is left out: its edges were marked
    with it, and to look for them again among very many edges would hold up other tenants.
    """
    untrusted = [record.id for record in accepted.records if not record.trusted]
    if not untrusted or store.write_generation(tenant_id) is None:
        return untrusted
    stored = store.index.written(tenant_id, untrusted)
    return [name for name in untrusted if name not in stored or stored[name].trusted]


def _distrusted_since(tenant_id: str, accepted: Accepted, store: WriteStore) -> list[str]:
    """Return the evidence of written edges that another write has marked as untrusted since they were checked.

    That write may have read the edges of its evidence before these were stored. None if a write is one transaction.
    """
    named = {edge.evidence for edge in accepted.edges if edge.trusted and edge.evidence}
    others = sorted(named - {record.id for record in accepted.records})
    if not others or store.write_generation(tenant_id) is not None:
        return []
    return [one.id for one in store.index.written(tenant_id, others).values() if not one.trusted]


def _named_evidence(accepted: Accepted) -> set[str]:
    return {edge.evidence for edge in accepted.edges if edge.evidence}


@contextmanager
def _endpoints_are_there() -> Iterator[None]:
    """Have a write tried again where an endpoint of its edges is missing: when it was checked, all of them were there.

    Where stores have no transaction, another write or a delete may have removed one since.
    """
    try:
        yield
    except InvalidRequest as error:
        message = "another write removed meanwhile what this one relates; write it again"
        raise TransientStoreError(message) from error


def require_written(report: WriteReport) -> WriteReport:
    """Return a report without errors.

    Raises InvalidRequest if it has any; names the first ten items and their fields.
    """
    if not report.errors:
        return report
    shown = [str(error) for error in report.errors[:10]]
    more = len(report.errors) - len(shown)
    raise InvalidRequest("\n".join([*shown, *([f"and {more} more"] if more else [])]), field=report.errors[0].field)
