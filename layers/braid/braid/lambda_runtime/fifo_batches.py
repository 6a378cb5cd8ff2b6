"""Handlers of FIFO queue batches that report each failed message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aws_lambda_powertools.utilities.batch import SqsFifoPartialProcessor, process_partial_response
from opentelemetry.trace import SpanKind

from braid.lambda_runtime.stage_handlers import send_recorded, stage_logger
from braid.telemetry import names
from braid.telemetry.recording import TRACEPARENT, invocation_trace_headers, operation

if TYPE_CHECKING:
    from collections.abc import Callable

    from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
    from aws_lambda_powertools.utilities.typing import LambdaContext


_PROCESSING: Final = {names.MESSAGING_SYSTEM: "aws_sqs", names.MESSAGING_OPERATION: "process"}


def batch_handler(
    work_off: Callable[[str], object], on_failure: Callable[[str, Exception], None]
) -> Callable[[dict[str, Any], LambdaContext], PartialItemFailureResponse]:
    """Return the handler of a batch of messages.

    After a failure the later messages of the same message group are not processed, so that order is kept; other groups
    are.

    Parameters
    ----------
    work_off
        Processes the body of one message.
    on_failure
        Called with the id of a failed message and the error, whose text may quote the message.

    Returns
    -------
    Callable
        ``handler(event, context)``, which returns the failed messages: they stay in the queue until its redrive policy
        moves them to the dead-letter queue.
    """

    def one(record: SQSRecord) -> None:
        try:
            sent_by = record.raw_event.get("messageAttributes", {}).get(TRACEPARENT, {})
            parent = invocation_trace_headers(sent_by.get("stringValue"))
            with operation("process message", _PROCESSING, kind=SpanKind.CONSUMER, parent=parent):
                work_off(record.body)
        except Exception as error:
            on_failure(record.message_id, error)
            raise

    def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
        processor = SqsFifoPartialProcessor(skip_group_on_error=True)
        processor.raise_on_entire_batch_failure = False
        try:
            return process_partial_response(event=event, record_handler=one, processor=processor, context=context)
        finally:
            send_recorded()

    return handler


def log_refused(stage: str) -> Callable[[str, Exception], None]:
    """Return a function that logs a failed message without its content."""

    def log(message_id: str, error: Exception) -> None:
        # Without the error's text, which may quote the message.
        fields = {"message_id": message_id, "error": type(error).__name__, "field": getattr(error, "field", None)}
        stage_logger(stage).warning("message refused", extra=fields)

    return log
