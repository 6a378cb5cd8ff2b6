"""Single late writes from a queue: each message is the body of one call, with its tenant.

A message that fails stays in the queue and, after as many tries as the queue's redrive policy allows, is set aside; the
others of its batch are done. A message that is delivered twice writes once: what it writes is found unchanged.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.utilities.batch import SqsFifoPartialProcessor, process_partial_response

from braid.errors import InvalidRequest
from braid.write_items import write_body
from braid.writes import require_written

if TYPE_CHECKING:
    from collections.abc import Callable

    from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from braid.writes import WriteReport, WriteStore


def write_message(text: str, store: WriteStore) -> WriteReport:
    """Write what one message holds.

    Parameters
    ----------
    text
        JSON: the body of :func:`braid.write_items.write_body`, and ``tenant_id``. Whoever may send to the queue is
        trusted with every tenant.

    Raises
    ------
    InvalidRequest
        If anything in it is wrong; nothing of it is written.
    StoreError, ModelError
        As :func:`braid.writes.write`.
    """
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidRequest("body: not JSON", field="body") from None
    if not isinstance(body, dict) or not isinstance(body.get("tenant_id"), str):
        raise InvalidRequest("tenant_id: missing", field="tenant_id")
    tenant_id = body.pop("tenant_id")
    return require_written(write_body(body, tenant_id, store))


def queue_handler(
    store: Callable[[], WriteStore], on_failure: Callable[[str, Exception], None]
) -> Callable[[dict[str, Any], LambdaContext], PartialItemFailureResponse]:
    """Make the handler of a batch of messages from a FIFO queue.

    Parameters
    ----------
    store
        Returns where to write.
    on_failure
        Called with the id of a message and why it failed; the error's text may quote what was sent.

    Returns
    -------
    Callable
        ``handler(event, context)``, which returns the messages that are to stay in the queue.
    """

    def write_record(record: SQSRecord) -> None:
        try:
            write_message(record.body, store())
        except Exception as error:
            on_failure(record.message_id, error)
            raise

    def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
        # Groups are what must stay in order: one group's failure does not hold up the others.
        processor = SqsFifoPartialProcessor(skip_group_on_error=True)
        processor.raise_on_entire_batch_failure = False
        return process_partial_response(event=event, record_handler=write_record, processor=processor, context=context)

    return handler
