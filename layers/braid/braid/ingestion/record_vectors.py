"""Computes the vectors of records to write, once each; optionally ahead of the write, on a separate thread."""

from __future__ import annotations

import hashlib
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from typing import TYPE_CHECKING, NamedTuple

from braid.errors import StoreTooSlow
from braid.ingestion.tenant_locks import embedding_turn
from braid.ports.batches import batches
from braid.understanding.encoder_windows import embed, has_all_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from concurrent.futures import Future
    from typing import Self

    from braid.models import Embedding, Record
    from braid.ports.encoder import Encoder
    from braid.ports.ingestion import WriteStore
    from braid.ports.search_index import WrittenRecord

_FORMAT = "2"
"""Version of the stored form, part of the content hash: after a change of it unchanged records are written again.
Before 2 a long text had one vector."""
_NOT_GIVEN = {"embeddings", "content_hash", "access_count", "supplied_spaces"}
"""Fields that the content hash leaves out: they are computed here, or counted later."""


_AT_ONCE = 64
"""Records that are embedded between two checks whether embedding ahead is still needed."""


def content_hash(record: Record) -> str:
    """Return the SHA-256, in hexadecimal, of a record as given by the caller."""
    given = record.model_dump_json(exclude=_NOT_GIVEN if not record.embeddings else _NOT_GIVEN - {"embeddings"})
    return hashlib.sha256(f"{_FORMAT}\n{given}".encode()).hexdigest()


class _Prepared(NamedTuple):
    record: Record
    kept: dict[str, Embedding]
    """Vectors that need no computing, by the id of their model."""


class RecordVectors:
    """Computes the vectors of the records of one write, or of a few writes, each once.

    Attributes
    ----------
    asked
        Ids of the records that a model embedded.
    waits
        Whether running a model waits for the tenant's turn; False while other writes wait for this one.
    """

    def __init__(self, store: WriteStore, threads: int | None) -> None:
        self.asked: set[str] = set()
        self.waits = True
        self._store, self._threads = store, threads
        self._seconds = 0.0
        self._made: dict[tuple[str, str], Embedding] = {}
        self._ahead: Future[list[Record]] | None = None
        self._go_on: Callable[[], None] = _nothing

    def begin(self, given: Sequence[Record], pool: ThreadPoolExecutor, go_on: Callable[[], None]) -> None:
        """Begin to compute the vectors of some records on a pool's thread; :meth:`records` waits for it.

        ``go_on`` is called repeatedly meanwhile, and stops the work by raising.
        """
        self._go_on = go_on
        self._ahead = pool.submit(copy_context().run, self._records, given, len(given))

    def seconds(self) -> float:
        """Return the time spent in the models since this was last asked."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def records(
        self,
        given: Sequence[Record],
        batch: int,
        on_progress: Callable[[int, int], None] | None = None,
        *,
        again: Collection[str] = (),
    ) -> list[Record]:
        """Return the records that are new, have changed or lack a vector, with their hashes and vectors.

        Those with the ids ``again`` are returned in any case.

        Raises ModelError and StoreError as the encoders and the index, also for vectors computed ahead.
        """
        if self._ahead is not None:
            self._ahead.result()
            self._ahead, self._go_on = None, _nothing
        return self._records(given, batch, on_progress, again=again)

    def _records(
        self,
        given: Sequence[Record],
        batch: int,
        on_progress: Callable[[int, int], None] | None = None,
        *,
        again: Collection[str] = (),
    ) -> list[Record]:
        if not given:
            return []
        models = self._store.models()
        stored = self._store.index.written(given[0].tenant_id, [record.id for record in given])
        changed = _changed(given, stored, frozenset(model.id for model in models), again)
        # All encoders are opened before the first write, so that a missing model is found early.
        encoders = [self._store.encoder_for(model, threads=self._threads) for model in models] if changed else []
        # Similar lengths together: padding is the cost of a batch.
        changed.sort(key=lambda record: (len(record.text()), record.id))
        done: list[Record] = []
        for some in batches(changed, batch):
            done += self._batch(some, stored, encoders)
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
        lacking = [(encoder, one) for encoder in encoders for one in prepared if not _is_embedded(one, encoder)]
        new = [(encoder, one.record) for encoder, one in lacking if (encoder.model_id, one.record.id) not in self._made]
        if new:
            with embedding_turn(records[0].tenant_id) if self.waits else nullcontext():
                for encoder in encoders:
                    self._encode(encoder, [record for of, record in new if of is encoder])
        for encoder, one in lacking:
            one.kept[encoder.model_id] = self._made[encoder.model_id, one.record.id]
        return [
            one.record.altered(
                embeddings=tuple(one.kept.values()),
                supplied_spaces=tuple(sorted(embedding.space for embedding in one.record.embeddings)),
            )
            for one in prepared
        ]

    def _encode(self, encoder: Encoder, new: Sequence[Record]) -> None:
        """Compute the encoder's vectors of some records."""
        began = time.perf_counter()
        for part in batches(new, _AT_ONCE):
            self._go_on()
            for record, made in zip(part, embed(part, encoder), strict=True):
                self._made[encoder.model_id, record.id] = made
                self.asked.add(record.id)
        self._seconds += time.perf_counter() - began


class EmbeddingAhead:
    """Embeds the records of the next writes on a thread of its own while others are checked and written.

    A context manager: on exit, embedding that is still running is stopped.

    Parameters
    ----------
    threads
        Threads of the encoder.
    """

    def __init__(self, store: WriteStore, threads: int | None) -> None:
        self._store, self._threads = store, threads
        self._pool = ThreadPoolExecutor(1, "braid-embedding")
        self._left = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._left = True
        self._pool.shutdown(cancel_futures=True)

    def begin(self, records: Sequence[Record]) -> RecordVectors:
        """Begin to embed some records, after those begun before, and return the vectors to pass to their write."""
        vectors = RecordVectors(self._store, self._threads)
        vectors.begin(records, self._pool, self._go_on)
        return vectors

    def _go_on(self) -> None:
        if self._left:
            raise StoreTooSlow("what is embedded ahead is no longer needed")


def _nothing() -> None:
    """Do nothing, so that the work continues."""


def _is_embedded(prepared: _Prepared, encoder: Encoder) -> bool:
    """Return whether a record needs no vectors of an encoder; a supplied vector represents the whole text."""
    kept = prepared.kept.get(encoder.model_id)
    supplied = any(embedding is kept for embedding in prepared.record.embeddings)
    return kept is not None and (supplied or has_all_parts(prepared.record, kept, encoder))


def _changed(
    records: Sequence[Record], stored: Mapping[str, WrittenRecord], models: frozenset[str], again: Collection[str]
) -> list[Record]:
    """Return the records that are new, have changed, lack a vector or have an id in ``again``, each with its hash."""
    changed: list[Record] = []
    for record in records:
        given = content_hash(record)
        known = stored.get(record.id)
        if known is None or known.content_hash != given or not models <= known.model_ids or record.id in again:
            changed.append(record.altered(content_hash=given))
    return changed
