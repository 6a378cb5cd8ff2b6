"""Message schema of the re-embedding queue."""

from __future__ import annotations

import pytest
from braid.errors import InvalidRequest
from braid.models import MAX_ID_BYTES
from braid.ports.message_queue import MAX_MESSAGE_BYTES, QueueMessage
from braid.reembedding.queue_from_answers import MAX_RECORDS, Reason, ReembedMessage

ASKED = ReembedMessage(tenant_id="acme", record_ids=("a", "b"), reason=Reason.SCHEMA, target_schema_version=5)


def test_a_message_is_read_back_as_it_was_written() -> None:
    assert ReembedMessage.read(ASKED.message()) == ASKED


def test_the_same_work_has_one_deduplication_id_in_whatever_order() -> None:
    same = ASKED.model_copy(update={"record_ids": ("b", "a")})

    assert same.message().deduplication_id == ASKED.message().deduplication_id


@pytest.mark.parametrize(
    "changes",
    [
        {"tenant_id": "globex"},
        {"record_ids": ("a",)},
        {"record_ids": ("a", "b", "c")},
        {"reason": Reason.MODEL},
        {"target_schema_version": 6},
    ],
)
def test_other_work_and_another_state_have_another_deduplication_id(changes: dict[str, object]) -> None:
    other = ASKED.model_copy(update=changes)

    assert other.message().deduplication_id != ASKED.message().deduplication_id


def test_the_longest_message_fits_into_the_queue() -> None:
    ids = tuple(f"{number:03d}" + "\N{EURO SIGN}" * ((MAX_ID_BYTES - 3) // 3) for number in range(MAX_RECORDS))
    longest = ReembedMessage(
        tenant_id="t" * 64, record_ids=ids, reason=Reason.SCHEMA, target_schema_version=5
    ).message()

    assert len(longest.model_dump_json().encode()) < MAX_MESSAGE_BYTES // 4


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ("{}", "record_ids"),
        ('{"record_ids": [], "reason": "schema", "target_schema_version": 2}', "record_ids"),
        ('{"record_ids": ["a"], "reason": "whim", "target_schema_version": 2}', "reason"),
        ('{"record_ids": ["a"], "reason": "schema", "target_schema_version": 0}', "target_schema_version"),
        ('{"tenant_id": "globex", "record_ids": ["a"], "reason": "schema", "target_schema_version": 2}', "tenant_id"),
    ],
)
def test_a_body_that_is_no_such_work_is_refused_by_field(body: str, field: str) -> None:
    message = QueueMessage(tenant_id="acme", deduplication_id="x", body=body)

    with pytest.raises(InvalidRequest) as refused:
        ReembedMessage.read(message)

    assert field in str(refused.value)
