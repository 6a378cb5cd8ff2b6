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
"""Of a message as it is sent. A batch to SQS has never had less than 256 KiB."""
DEDUPLICATION_S = 300
"""For how long a queue remembers what was sent."""
MAX_VISIBILITY_S = 43_200
"""SQS hands a message to one receiver for 12 hours at most."""


class QueueMessage(Frozen):
    """One task of one tenant."""

    tenant_id: TenantId
    deduplication_id: Annotated[str, StringConstraints(pattern=r"^[!-~]{1,128}$")]
    """Names the work *and* the state that it is for. The same id again within :data:`DEDUPLICATION_S` seconds is
    dropped, whichever tenant sent it, so it holds the tenant too."""
    body: Text = ""


class Delivery(Frozen):
    """A message that is this receiver's until its visibility time-out."""

    message: QueueMessage
    receipt: str
    receives: int = Field(ge=1)
    """How often the message was handed out, this time included."""


@runtime_checkable
class Queue(Protocol):
    """Work that is done at least once, in no certain order.

    A message that was handed out several times and never deleted is set aside, and so is one that cannot be read; they
    are kept for a person to look at.
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
        """Return up to ``max_messages`` that nobody else gets for ``visibility_s`` seconds; empty when there are none.

        What is not deleted within that time is handed out again.
        """

    def delete(self, receipts: Sequence[str]) -> None:
        """Remove messages that are done.

        A receipt that no longer counts is passed over: its message was handed out again, and will be done again.
        """

    def depth(self) -> int:
        """Return how many messages wait or are being worked on; a deployed queue counts approximately."""

    def forget(self, tenant_id: str) -> int | None:
        """Remove a tenant's messages, those set aside among them, and return how many there were.

        None, and nothing removed, where messages cannot be chosen: they go when they are worked off, or expire.
        """


def check_receive(max_messages: int, visibility_s: int) -> None:
    """Check how much is asked of a queue. Raises InvalidRequest if it is nothing, or for too long."""
    if max_messages < 1:
        raise InvalidRequest(f"max_messages: {max_messages} is below 1", field="max_messages")
    if not 1 <= visibility_s <= MAX_VISIBILITY_S:
        raise InvalidRequest(
            f"visibility_s: {visibility_s} is not between 1 and {MAX_VISIBILITY_S}", field="visibility_s"
        )


def encode_messages(messages: Sequence[QueueMessage]) -> list[str]:
    """Return messages as they are sent: JSON in ASCII, because SQS refuses some characters that text may hold.

    Raises InvalidRequest if one is too long.
    """
    encoded = [json.dumps(message.model_dump()) for message in messages]
    for message, text in zip(messages, encoded, strict=True):
        if len(text) > MAX_MESSAGE_BYTES:
            raise InvalidRequest(
                f"body: message {message.deduplication_id} takes {len(text)} bytes, at most {MAX_MESSAGE_BYTES}",
                field="body",
            )
    return encoded


def decode_message(text: str) -> QueueMessage | None:
    """Read what :func:`encode_messages` wrote; None when it is something else."""
    try:
        return QueueMessage.model_validate_json(text)
    except ValidationError:
        return None
