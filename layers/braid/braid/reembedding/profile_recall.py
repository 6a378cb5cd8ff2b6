"""Measures the recall of two model profiles on one set of questions."""

from __future__ import annotations

import hashlib
from itertools import islice
from typing import TYPE_CHECKING, Final

from braid.models import Embedding, EmbeddingType, Frozen, RecordId, TenantId, Text
from braid.models.embedding_models import resolve
from braid.ports.search_index import SearchRequest
from braid.reembedding.jobs import Check

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from braid.models import Record
    from braid.ports.search_index import SearchHits
    from braid.reembedding.job_services import Services

FIRST: Final = 10
"""k of recall@k."""
_WORDS: Final = 12
"""Words of a record that make a question of it."""
_TENANTS: Final = 20
"""Most tenants of a sample."""
_LOOKED_AT: Final = 500
"""Most tenants, and most records of each, among which a sample is taken."""


class RecallQuestion(Frozen):
    """A question and the ids of the records that answer it."""

    tenant_id: TenantId
    text: Text
    relevant: tuple[RecordId, ...]


def compare(services: Services, before: str, after: str, questions: Sequence[RecallQuestion] = ()) -> Check:
    """Search with both profiles, by vectors alone, and return the recall at ten of each and their overlap.

    Parameters
    ----------
    questions
        Judged questions; without any, a sample of the records is searched for, each by its first words.
    """
    judged = bool(questions)
    asked = list(questions) or sample(services)
    if not asked:
        return Check(asked=0, recall_before=1.0, recall_after=1.0, overlap=1.0)
    now = services.now()
    recalls: list[tuple[float, float]] = []
    overlaps: list[float] = []
    old, new = _vectors(services, before, asked), _vectors(services, after, asked)
    for question, old_vector, new_vector in zip(asked, old, new, strict=True):
        found_before = _ids(services.index.search(_request(question, old_vector, now)))
        found_after = _ids(services.migration.search_next(_request(question, new_vector, now)))
        relevant = set(question.relevant)
        recalls.append((len(relevant & found_before) / len(relevant), len(relevant & found_after) / len(relevant)))
        most = max(len(found_before), len(found_after))
        overlaps.append(len(found_before & found_after) / most if most else 1.0)
    return Check(
        asked=len(asked),
        recall_before=sum(recall for recall, _ in recalls) / len(asked),
        recall_after=sum(recall for _, recall in recalls) / len(asked),
        overlap=sum(overlaps) / len(asked),
        judged=judged,
    )


def sample(services: Services) -> list[RecallQuestion]:
    """Return questions derived from the records; deterministic for the same records.

    They are spread over the tenants; from each, the first records by the hash of their ids are taken.
    """
    tenants = services.migration.tenants(limit=_LOOKED_AT)
    tenants = tenants[:: max(1, len(tenants) // _TENANTS)][:_TENANTS]
    if not tenants:
        return []
    each = -(-services.limits.sample // len(tenants))
    now = services.now()
    questions: list[RecallQuestion] = []
    for tenant in tenants:
        ids = services.migration.ids(tenant, limit=_LOOKED_AT)
        ids.sort(key=lambda record_id: hashlib.sha256(record_id.encode()).digest())
        records = (record for record in services.read(tenant, ids) if _can_be_found(record, now))
        questions += [
            RecallQuestion(tenant_id=tenant, text=_question_for(record), relevant=(record.id,))
            for record in islice(records, each)
        ]
    return questions[: services.limits.sample]


def _can_be_found(record: Record, now: datetime) -> bool:
    """Whether a search could find the record: it is currently valid and has text."""
    begun = record.valid_at is None or record.valid_at <= now
    return begun and (record.invalid_at is None or now < record.invalid_at) and bool(_question_for(record))


def _question_for(record: Record) -> str:
    """Return the first words of its content, or of its text if it has none."""
    return " ".join((record.content or record.text()).split()[:_WORDS])


def _vectors(services: Services, profile: str, questions: Sequence[RecallQuestion]) -> list[Embedding]:
    model = resolve(services.profiles, profile, EmbeddingType.GENERAL)
    encoder = services.encoder_for(model)
    vectors = encoder.encode(
        [question.text for question in questions], instruction=model.instruction(EmbeddingType.GENERAL)
    )
    return [Embedding(space=encoder.space, model_id=encoder.model_id, vector=vector) for vector in vectors]


def _request(question: RecallQuestion, embedding: Embedding, now: datetime) -> SearchRequest:
    return SearchRequest(tenant_id=question.tenant_id, embedding=embedding, k=FIRST, as_of=now)


def _ids(hits: SearchHits) -> set[str]:
    return {hit.id for hit in hits.vector}
