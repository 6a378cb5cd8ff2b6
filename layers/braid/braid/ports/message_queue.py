"""Port of the queue: messages of a tenant, delivered at least once, and their JSON form."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Protocol, runtime_checkable

from pydantic import Field, StringConstraints, ValidationError

from braid.errors import InvalidRequest
from braid.models import Frozen, TenantId, Text

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_MESSAGE_BYTES = 240 * 1024
"""Most bytes of an encoded message. SQS has always allowed at least 256 KiB per batch."""
DEDUPLICATION_S = 300
"""Seconds for which a queue remembers the ids of sent messages."""
MAX_VISIBILITY_S = 43_200
"""Longest visibility time-out: SQS allows 12 hours."""


class QueueMessage(Frozen):
    """One task of one tenant."""

    tenant_id: TenantId
    deduplication_id: Annotated[str, StringConstraints(pattern=r"^[!-~]{1,128}$")]
    """Identifies the task *and* the state that it applies to. A message with the same id within
    :data:`DEDUPLICATION_S` seconds is dropped, whichever tenant sent it, so the id contains the tenant too."""
    body: Text = ""


class Delivery(Frozen):
    """A received message, invisible to other receivers until its visibility time-out."""

    message: QueueMessage
    receipt: str
    receives: int = Field(ge=1)
    """How often the message was received, this time included."""


@runtime_checkable
class Queue(Protocol):
    """A queue with at-least-once delivery, in no particular order.

    A message that was received several times and never deleted becomes a dead letter, and so does one that cannot be
    read; dead letters are kept for inspection.
    """

    def send(self, messages: Sequence[QueueMessage]) -> None:
        """Add messages; when it returns they are durable.

        Raises
        ------
        InvalidRequest
            If a message is longer than :data:`MAX_MESSAGE_BYTES`; nothing is sent.
        TransientStoreError
            If some or all were not accepted; sending all of them again adds none twice.
        """

    def receive(self, max_messages: int, visibility_s: int) -> list[Delivery]:
        """Return up to ``max_messages``, invisible to other receivers for ``visibility_s`` seconds; maybe none.

        Messages that are not deleted within that time are delivered again.
        """

    def delete(self, receipts: Sequence[str]) -> None:
        """Remove processed messages.

        An expired receipt is ignored: its message was delivered again, and will be processed again.
        """

    def depth(self) -> int:
        """Return how many messages are waiting or being processed; approximate for a deployed queue."""

    def forget(self, tenant_id: str) -> int | None:
        """Remove a tenant's messages, dead letters included, and return how many there were.

        None, and nothing is removed, if messages cannot be selected by tenant: they are processed, or expire.
        """


def check_receive(max_messages: int, visibility_s: int) -> None:
    """Check the arguments of :meth:`Queue.receive`. Raises InvalidRequest if one is out of bounds."""
    if max_messages < 1:
        raise InvalidRequest.of("max_messages", f"{max_messages} is below 1")
    if not 1 <= visibility_s <= MAX_VISIBILITY_S:
        raise InvalidRequest.of("visibility_s", f"{visibility_s} is not between 1 and {MAX_VISIBILITY_S}")


def encode_messages(messages: Sequence[QueueMessage]) -> list[str]:
    """Return messages encoded for sending: JSON in ASCII, because SQS refuses some characters.

    Raises InvalidRequest if one is too long.
    """
    encoded = [json.dumps(message.model_dump()) for message in messages]
    for message, text in zip(messages, encoded, strict=True):
        if len(text) > MAX_MESSAGE_BYTES:
            raise InvalidRequest.of(
                "body", f"message {message.deduplication_id} takes {len(text)} bytes, at most {MAX_MESSAGE_BYTES}"
            )
    return encoded


def decode_message(text: str) -> QueueMessage | None:
    """Decode a message of :func:`encode_messages`; None when it is no such message."""
    try:
        return QueueMessage.model_validate_json(text)
    except ValidationError:
        return None
