"""Lambda: writes. A batch of messages from the queue, or one step of the workflow that writes an object."""

from typing import TYPE_CHECKING, Any

from braid import file_ingest
from braid.file_jobs import Task, TaskOut
from braid.observability import stage_handler, stage_logger
from braid.queued_writes import queue_handler
from braid.wiring import wired

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


def _run(request: Task) -> TaskOut:
    return file_ingest.run(request, wired())


def _log(message_id: str, error: Exception) -> None:
    # Not the error's text: it may quote what was sent.
    fields = {"message_id": message_id, "error": type(error).__name__, "field": getattr(error, "field", None)}
    stage_logger("ingest").warning("message refused", extra=fields)


_run_task = stage_handler("ingest", Task, _run)
_write_messages = queue_handler(wired, _log)


def handler(event: dict[str, Any], context: "LambdaContext") -> Any:  # noqa: ANN401 - what each of the two returns
    """Write what the event brings."""
    return _write_messages(event, context) if "Records" in event else _run_task(event, context)
