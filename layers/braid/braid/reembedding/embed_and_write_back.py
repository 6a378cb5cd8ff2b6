"""Embeds records and writes them back unless they changed since they were read: a page of a job, or of the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from braid.errors import BraidError
from braid.models.embedding_models import models_of
from braid.ports.reembedding import ReembeddedRecord, WriteBackResult
from braid.reembedding.job_services import RunBudget
from braid.reembedding.queue_from_answers import Reason, ReembedMessage
from braid.understanding.encoder_windows import embed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from braid.models import Embedding, Record
    from braid.models.embedding_models import ModelConfig
    from braid.ports.encoder import Encoder
    from braid.ports.message_queue import Queue
    from braid.reembedding.job_services import Services


_VISIBILITY_S: Final = 900
"""Seconds for which a received message is invisible to other consumers."""


def _embed(
    records: Sequence[Record], models: Sequence[ModelConfig], encoder_for: Callable[[ModelConfig], Encoder]
) -> list[Record]:
    """Return records with their vectors of each model."""
    vectors: list[list[Embedding]] = [[] for _ in records]
    for model in models:
        for held, embedding in zip(vectors, embed(records, encoder_for(model)), strict=True):
            held.append(embedding)
    made = {embedding.space for held in vectors for embedding in held}
    return [
        record.altered(
            embeddings=tuple(held),
            supplied_spaces=tuple(space for space in record.supplied_spaces if space not in made),
        )
        for record, held in zip(records, vectors, strict=True)
    ]


def _by_length(records: Sequence[Record]) -> list[Record]:
    """Return records ordered by text length, which saves padding in a batch."""
    return sorted(records, key=lambda record: (len(record.text()), record.id))


def fill(services: Services, tenant: str, records: Sequence[Record], profile: str | None) -> WriteBackResult:
    """Embed records with a profile's models, or keep their vectors for None, and copy them to the next index."""
    ordered = _by_length(records)
    embedded = _embed(ordered, models_of(services.profiles, profile) if profile else (), services.encoder_for)
    return services.migration.fill(
        tenant, [ReembeddedRecord(read=old, write=new) for old, new in zip(ordered, embedded, strict=True)]
    )


def refresh(
    services: Services, tenant: str, records: Sequence[Record], models: Sequence[ModelConfig] | None = None
) -> WriteBackResult:
    """Convert records to the tenant's current schema version, embed them, and write unchanged ones back.

    Parameters
    ----------
    records
        Records of one tenant as read; their vectors are not used.
    models
        Models whose vectors the records lack, if nothing else is outdated; by default every served model.

    Raises
    ------
    ModelError
        If a model cannot be used; nothing is written.
    StoreError
        If the stores fail; records that were written stay, and repeating is safe.
    """
    if not records:
        return WriteBackResult(written=0)
    current = services.schemas.current(tenant)
    ordered = _by_length(records)
    wanted = [services.transform(record, current) for record in ordered]
    if models is None or any(old.text() != new.text() for old, new in zip(ordered, wanted, strict=True)):
        models = services.models()
    embedded = _embed(wanted, models, services.encoder_for)
    changes = [ReembeddedRecord(read=old, write=new) for old, new in zip(ordered, embedded, strict=True)]
    settled = services.migration.write_back(tenant, changes)
    if settled.written:
        services.advance(tenant)
    return settled


def reembed(services: Services, asked: ReembedMessage) -> WriteBackResult:
    """Re-embed the records of a message.

    Records that were deleted, or have reached the target schema version, are skipped: a message that is delivered twice
    costs nothing.
    """
    records = services.index.get_many(asked.tenant_id, asked.record_ids)
    if asked.reason is Reason.SCHEMA:
        records = [record for record in records if record.schema_version < asked.target_schema_version]
    return refresh(services, asked.tenant_id, records)


def drain(services: Services, queue: Queue, *, budget: RunBudget | None = None) -> WriteBackResult:
    """Consume the queue until it is empty or the budget is spent; a message that fails stays queued.

    Raises
    ------
    StoreError, ModelError
        The first failure, after every other message was tried.
    """
    budget = budget or RunBudget()
    began, written = services.seconds(), 0
    lost: list[str] = []
    failed: BraidError | None = None
    while deliveries := queue.receive(10, _VISIBILITY_S):
        for delivery in deliveries:
            try:
                settled = reembed(services, ReembedMessage.read(delivery.message))
            except BraidError as error:
                failed = failed or error
                continue
            queue.delete([delivery.receipt])
            written += settled.written
            lost += settled.lost
        if budget.spent(texts=written, seconds=services.seconds() - began):
            break
    if failed is not None:
        raise failed
    return WriteBackResult(written=written, lost=tuple(lost))
