"""Writes records, vertices and relationships of one tenant to the search index and the knowledge graph.

The request is validated as a whole, then embedded, then written in one transaction: index, graph, supersession, and the
tenant's write generation. Embedded stores commit all of it or nothing. Deployed stores cannot commit together and are
written in that order: an interrupted write is completed by repeating it, and finds what was written already unchanged.
A record is identified by its id and its content hash; a record that is stored with the same hash is neither embedded
nor written again.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, NamedTuple

from braid import deadline
from braid.errors import InvalidRequest
from braid.ingestion.checks import check
from braid.ingestion.found_names import NAMES_AT_ONCE
from braid.ingestion.intent_log import UnfinishedWrite, logged
from braid.ingestion.tenant_locks import embedding_turn, writing_turn
from braid.models import GraphSource
from braid.ports.ingestion import ItemError, MissingEnds, Places, WriteReport, WriteRequest, WriteStore
from braid.understanding.text_parts import embed, has_all_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from braid.ingestion.checks import Accepted
    from braid.models import Embedding, Record
    from braid.ports.encoder import Encoder
    from braid.ports.search_index import WrittenRecord

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
"""Mentions that texts no longer have, whose rows leave in the transaction of the write; of more they leave after it."""
STORES_S = 300.0
"""Longest that the stores may take for one write, in seconds: it is undone then, or completed by repeating it."""
MOST_OVERTAKEN = 5
"""How often a write that another process overtook is prepared while others can write; then it is in its transaction."""
_FORMAT = "2"
"""Version of the stored form; a new one makes unchanged input be written again. Before 2 a long text had one vector."""
_NOT_GIVEN = {"embeddings", "content_hash", "access_count", "supplied_spaces"}
"""Fields that are not input: computed here, or counted later."""


class _Overtaken(Exception):
    """Another process wrote to the tenant between the check of a write and its transaction."""


def content_hash(record: Record) -> str:
    """Return the SHA-256, in hexadecimal, of a record as given by the caller."""
    given = record.model_dump_json(exclude=_NOT_GIVEN if not record.embeddings else _NOT_GIVEN - {"embeddings"})
    return hashlib.sha256(f"{_FORMAT}\n{given}".encode()).hexdigest()


def write(
    request: WriteRequest,
    store: WriteStore,
    *,
    threads: int | None = None,
    batch: int = BATCH,
    on_progress: Callable[[int, int], None] | None = None,
) -> WriteReport:
    """Validate and write; once it returns, what it counts is durable and older cached answers are invalid.

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

    Returns
    -------
    WriteReport
        With one error for each invalid item. Unless the request is ``partial``, nothing is written then.

    Raises
    ------
    InvalidRequest
        If an item belongs to another tenant.
    StoreError, ModelError
        As the engines and the encoder. Embedded stores are unchanged then; repeating the write completes it. If the
        deadline of the request passes while the texts are embedded, StoreTooSlow, and no store is changed.
    """
    if store.graph_source is GraphSource.FOUND:
        left_out = {"vertices": (), "relationships": (), "places": request.places.records_only()}
        request = request.model_copy(update=left_out)
    tenant_id, encoding = request.tenant_id, _Encoding(store, threads)
    # Before the transaction, so that others can write while the models run.
    generation, accepted, embedded = _prepared(request, store, encoding, batch, on_progress)
    if embedded is None:
        return WriteReport(tenant_id=tenant_id, errors=tuple(accepted.errors))
    encoding.waits, superseded = False, 0
    began = time.perf_counter()
    # A write that has begun is completed.
    with deadline.suspended(), writing_turn(tenant_id, store.graph, store.index):
        # Again where another process wrote to the tenant meanwhile: others can write while this one is prepared.
        for is_last in (False,) * MOST_OVERTAKEN + (True,):
            if store.write_generation(tenant_id) != generation:  # on what was written meanwhile this write may depend
                generation, accepted, embedded = _prepared(request, store, encoding, batch)
            if embedded is None:
                break
            with suppress(_Overtaken), store.transaction(tenant_id):
                if store.write_generation(tenant_id) != generation:
                    if not is_last:
                        raise _Overtaken
                    generation, accepted, embedded = _prepared(request, store, encoding, batch)
                if embedded is not None:
                    superseded = _commit(request, accepted, embedded, store, batch)
                break
    if embedded is None:
        return WriteReport(tenant_id=tenant_id, errors=tuple(accepted.errors))
    return WriteReport(
        tenant_id=tenant_id,
        written=len(embedded),
        unchanged=len(accepted.records) - len(embedded),
        embedded=len(encoding.asked),
        vertices=accepted.given_vertices,
        relationships=len(accepted.stated),
        unchanged_relationships=len(accepted.stated) - sum(not edge.found for edge in accepted.edges),
        superseded=superseded,
        stubs=accepted.stubs,
        names=accepted.names,
        mentions=accepted.mentions,
        unmentioned=len(accepted.stale),
        errors=tuple(accepted.errors),
        embed_seconds=encoding.seconds,
        write_seconds=time.perf_counter() - began,
    )


def _prepared(
    request: WriteRequest,
    store: WriteStore,
    encoding: _Encoding,
    batch: int,
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[int | None, Accepted, list[Record] | None]:
    """Return the write generation, what the request means under it, and the records to be written with their vectors.

    The records are None if items are wrong and nothing is to be written then.
    """
    while True:
        generation, accepted = store.write_generation(request.tenant_id), check(request, store)
        if not accepted.errors or request.partial:
            return generation, accepted, encoding.records(accepted.records, batch, on_progress)
        if store.write_generation(request.tenant_id) == generation:
            return generation, accepted, None
        deadline.check()  # what another write changed while this one was checked may be all that is wrong with it


def _commit(
    request: WriteRequest, accepted: Accepted, embedded: Sequence[Record], store: WriteStore, batch: int
) -> int:
    """Write what was prepared, logged where stores do not commit together; return the number of items ended."""
    whole = UnfinishedWrite(
        tenant_id=request.tenant_id,
        records={record.id: content_hash(record) for record in accepted.records} if store.intent_log else {},
        vertices=tuple(accepted.vertices),
        relationships=tuple(accepted.edges),
    )
    with logged(whole, request, store.intent_log), deadline.within(STORES_S):
        return _put(request.tenant_id, accepted, embedded, store, batch)


def _put(tenant_id: str, accepted: Accepted, embedded: Sequence[Record], store: WriteStore, batch: int) -> int:
    """Write to the index, then to the graph, then apply supersession; return the number of items ended."""
    supersession = accepted.supersession
    records = [supersession.record(record) for record in embedded]
    for start in range(0, len(records), batch):
        deadline.check()
        store.index.upsert(records[start : start + batch])
    deadline.check()
    if accepted.vertices or accepted.edges:
        store.graph.upsert(accepted.vertices, accepted.edges, accepted.name_keys)
    if accepted.heirs:
        # Before the others are passed on: a heir's own mentions are not known by these identities.
        store.graph.delete_relationships(tenant_id, [edge for edge in accepted.stale if edge.source in accepted.heirs])
        # By the store itself, as very many texts may have a name.
        store.graph.pass_mentions(tenant_id, accepted.heirs)
        store.graph.delete(tenant_id, list(accepted.heirs))
    names = {edge.source for edge in accepted.stale}
    are_few = len(accepted.stale) <= MENTIONS_AT_ONCE and len(names) <= NAMES_AT_ONCE
    if names and are_few:
        store.graph.delete_relationships(tenant_id, accepted.stale)
        store.graph.delete_unmentioned(tenant_id, names)
    # By the store itself, as a record may be the evidence of very many edges.
    store.graph.distrust_relationships(tenant_id, [record.id for record in accepted.records if not record.trusted])
    ended = sum(after is not before for after, before in zip(records, embedded, strict=True))
    written = {record.id for record in embedded}
    ended += supersession.apply(store, tenant_id, records=written, edges=accepted.stated)
    if not are_few:
        store.graph.remove_mentions(tenant_id, accepted.stale)
    return ended


def require_written(report: WriteReport) -> WriteReport:
    """Return a report without errors.

    Raises InvalidRequest if it has any; names the first ten items and their fields.
    """
    if not report.errors:
        return report
    shown = [str(error) for error in report.errors[:10]]
    more = len(report.errors) - len(shown)
    raise InvalidRequest("\n".join([*shown, *([f"and {more} more"] if more else [])]), field=report.errors[0].field)


class _Prepared(NamedTuple):
    record: Record
    kept: dict[str, Embedding]
    """Vectors that need no computing, by the id of their model."""


class _Encoding:
    """Computes the vectors of the records of one write, each once.

    Attributes
    ----------
    asked
        Ids of the records that a model embedded.
    seconds
        Time spent in the models.
    waits
        Whether a model is run in the tenant's turn. Not while other writes wait for this one.
    """

    def __init__(self, store: WriteStore, threads: int | None) -> None:
        self.asked: set[str] = set()
        self.seconds = 0.0
        self.waits = True
        self._store, self._threads = store, threads
        self._made: dict[tuple[str, str], Embedding] = {}

    def records(
        self, given: Sequence[Record], batch: int, on_progress: Callable[[int, int], None] | None = None
    ) -> list[Record]:
        """Return the records that are new, have changed or lack a vector, with their hashes and vectors."""
        if not given:
            return []
        models = self._store.models()
        stored = self._store.index.written(given[0].tenant_id, [record.id for record in given])
        changed = _changed(given, stored, frozenset(model.id for model in models))
        # All encoders are opened before the first write, so that a missing model is found early.
        encoders = [self._store.encoder_for(model, threads=self._threads) for model in models] if changed else []
        # Similar lengths together: padding is the cost of a batch.
        changed.sort(key=lambda record: (len(record.text()), record.id))
        done: list[Record] = []
        for start in range(0, len(changed), batch):
            done += self._batch(changed[start : start + batch], stored, encoders)
            if on_progress:
                on_progress(len(done), len(changed))
        return done

    def _batch(
        self, records: Sequence[Record], stored: Mapping[str, WrittenRecord], encoders: Sequence[Encoder]
    ) -> list[Record]:
        """Return records with a vector of each model: the supplied one, the stored one of the same text, or a new one.

        A stored vector is not reused if it was supplied, or if its space is no longer configured.
        """
        old = {}
        if known := [record.id for record in records if record.id in stored and stored[record.id].model_ids]:
            found = self._store.index.get_many(records[0].tenant_id, known, with_vectors=True)
            old = {record.id: record for record in found}
        prepared: list[_Prepared] = []
        for record in records:
            before = old.get(record.id)
            same: list[Embedding] = []
            if before is not None and before.text() == record.text():
                made = self._store.spaces.keys() - set(before.supplied_spaces)
                same = [embedding for embedding in before.embeddings if embedding.space in made]
            kept = {embedding.model_id: embedding for embedding in (*same, *record.embeddings)}
            prepared.append(_Prepared(record, kept))
        with embedding_turn(records[0].tenant_id) if self.waits else nullcontext():
            began = time.perf_counter()
            for encoder in encoders:
                self._encode(encoder, [one for one in prepared if not _is_embedded(one, encoder)])
            self.seconds += time.perf_counter() - began
        return [
            one.record.model_copy(
                update={
                    "embeddings": tuple(one.kept.values()),
                    "supplied_spaces": tuple(sorted(embedding.space for embedding in one.record.embeddings)),
                }
            )
            for one in prepared
        ]

    def _encode(self, encoder: Encoder, lacking: Sequence[_Prepared]) -> None:
        """Add the encoder's vectors to the records that lack them."""
        new = [one for one in lacking if (encoder.model_id, one.record.id) not in self._made]
        for one, made in zip(new, embed([one.record for one in new], encoder) if new else [], strict=True):
            self._made[encoder.model_id, one.record.id] = made
            self.asked.add(one.record.id)
        for one in lacking:
            one.kept[encoder.model_id] = self._made[encoder.model_id, one.record.id]


def _is_embedded(prepared: _Prepared, encoder: Encoder) -> bool:
    """Return whether the encoder has nothing to do: a supplied vector stands for the whole text."""
    kept = prepared.kept.get(encoder.model_id)
    supplied = any(embedding is kept for embedding in prepared.record.embeddings)
    return kept is not None and (supplied or has_all_parts(prepared.record, kept, encoder))


def _changed(records: Sequence[Record], stored: Mapping[str, WrittenRecord], models: frozenset[str]) -> list[Record]:
    """Return the records that are new, have changed or lack a vector, each with its hash."""
    changed: list[Record] = []
    for record in records:
        given = content_hash(record)
        known = stored.get(record.id)
        if known is None or known.content_hash != given or not models <= known.model_ids:
            changed.append(record.model_copy(update={"content_hash": given}))
    return changed
