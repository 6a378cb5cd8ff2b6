"""Message queue in SQS: a FIFO queue, because only those drop duplicates."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, Protocol

from opentelemetry.trace import SpanKind

from braid.engines.aws.clients import TRANSIENT_CODES, as_braid_errors, open_client
from braid.errors import ConfigurationError, StoreError, TransientStoreError
from braid.ports.batches import batches
from braid.ports.message_queue import Delivery, check_receive, decode_message, encode_messages
from braid.telemetry import names
from braid.telemetry.recording import operation, trace_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from braid.ports.message_queue import QueueMessage
    from braid.settings import Settings

BATCH = 10
"""Most entries of one request."""
BATCH_BYTES = 255 * 1024
"""Most bytes of the messages of one request together; SQS counts their attributes too, for which 1 KiB is left."""
_SENDING: Final = {names.MESSAGING_SYSTEM: "aws_sqs", names.MESSAGING_OPERATION: "send"}
_OLD_RECEIPT = frozenset({"InvalidParameterValue", "ReceiptHandleIsInvalid"})

_LOG = logging.getLogger(__name__)


class _Client(Protocol):
    """The calls of an SQS client that are made here."""

    send_message_batch: Callable[..., dict[str, Any]]
    receive_message: Callable[..., dict[str, Any]]
    delete_message_batch: Callable[..., dict[str, Any]]
    get_queue_attributes: Callable[..., dict[str, Any]]


class SqsQueue:
    """Messages in SQS; implements :class:`braid.ports.message_queue.Queue`.

    The queue's redrive policy moves messages that were received too often to the dead-letter queue. A message that
    cannot be decoded is left to it.
    """

    def __init__(self, client: _Client, url: str) -> None:
        self._client = client
        self._url = url
        self._name = f"queue {url.rsplit('/', 1)[-1]}"

    @classmethod
    def connect(cls, settings: Settings) -> SqsQueue:
        """Return the queue that the settings name. No request is sent yet.

        Raises ConfigurationError if the settings name no queue, or one that is not FIFO.
        """
        url = settings.reembed_queue_url
        if not url.endswith(".fifo"):
            raise ConfigurationError("BRAID_REEMBED_QUEUE_URL: must be the URL of a FIFO queue, which ends in .fifo")
        return cls(open_client("sqs", timeout_s=settings.sqs_timeout_s, attempts=settings.sqs_attempts), url)

    def send(self, messages: Sequence[QueueMessage]) -> None:
        """Send messages; they are durable when this returns."""
        sent = zip(messages, encode_messages(messages), strict=True)
        for batch in batches(sent, BATCH, size=BATCH_BYTES, size_of=lambda pair: len(pair[1])):
            with operation(f"send {self._name}", _SENDING, kind=SpanKind.PRODUCER):
                self._send(batch)

    def _send(self, batch: Sequence[tuple[QueueMessage, str]]) -> None:
        attributes = {name: {"DataType": "String", "StringValue": value} for name, value in trace_headers().items()}
        entries = [
            {
                "Id": str(number),
                "MessageBody": body,
                "MessageDeduplicationId": message.deduplication_id,
                # A group of its own: the other messages of a group wait for the one in flight.
                "MessageGroupId": message.deduplication_id,
                "MessageAttributes": attributes,
            }
            for number, (message, body) in enumerate(batch)
        ]
        with as_braid_errors(self._name):
            answer = self._client.send_message_batch(QueueUrl=self._url, Entries=entries)
        self._check(answer.get("Failed", []), f"of {len(entries)} messages were not accepted")

    def receive(self, max_messages: int, visibility_s: int) -> list[Delivery]:
        """Return up to ``max_messages``, which are invisible to other consumers for ``visibility_s`` seconds.

        If the queue fails after some were received, these are returned.
        """
        check_receive(max_messages, visibility_s)
        deliveries: list[Delivery] = []
        while len(deliveries) < max_messages:
            try:
                with as_braid_errors(self._name):
                    answer = self._client.receive_message(
                        QueueUrl=self._url,
                        MaxNumberOfMessages=min(BATCH, max_messages - len(deliveries)),
                        VisibilityTimeout=visibility_s,
                        WaitTimeSeconds=0,
                        MessageSystemAttributeNames=["ApproximateReceiveCount"],
                    )
            except StoreError:
                if deliveries:
                    return deliveries
                raise
            received = answer.get("Messages", [])
            if not received:
                break
            deliveries.extend(delivery for delivery in map(self._delivery, received) if delivery)
        return deliveries

    def delete(self, receipts: Sequence[str]) -> None:
        """Remove processed messages; an expired receipt is ignored."""
        for batch in batches(receipts, BATCH):
            entries = [{"Id": str(number), "ReceiptHandle": receipt} for number, receipt in enumerate(batch)]
            with as_braid_errors(self._name):
                answer = self._client.delete_message_batch(QueueUrl=self._url, Entries=entries)
            failed = [failure for failure in answer.get("Failed", []) if failure["Code"] not in _OLD_RECEIPT]
            self._check(failed, f"of {len(entries)} messages were not removed")

    def depth(self) -> int:
        """Return the approximate number of messages that are waiting or in flight."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        with as_braid_errors(self._name):
            answer = self._client.get_queue_attributes(QueueUrl=self._url, AttributeNames=names)
        return sum(int(answer["Attributes"][name]) for name in names)

    def forget(self, tenant_id: str) -> None:  # noqa: ARG002 - the port's signature
        """Return None: SQS cannot select the messages of one tenant."""
        return

    def _delivery(self, received: dict[str, Any]) -> Delivery | None:
        message = decode_message(received["Body"])
        if message is None:
            _LOG.warning("%s: message %s cannot be read", self._name, received["MessageId"])
            return None
        receives = int(received["Attributes"]["ApproximateReceiveCount"])
        return Delivery(message=message, receipt=received["ReceiptHandle"], receives=receives)

    def _check(self, failed: Sequence[dict[str, Any]], what: str) -> None:
        """Raise for the failed entries of a batch: the request as a whole succeeds without them."""
        if not failed:
            return
        codes = sorted({failure["Code"] for failure in failed})
        passing = all(not failure["SenderFault"] or failure["Code"] in TRANSIENT_CODES for failure in failed)
        kind = TransientStoreError if passing else StoreError
        raise kind(f"{self._name}: {len(failed)} {what}: {', '.join(codes)}")
