"""Lambda function: writes a batch of queue messages, or runs one step of the import workflow."""

from typing import TYPE_CHECKING, Any

from braid.app import application
from braid.ingestion.bulk import import_steps
from braid.ingestion.bulk.step_messages import Task, TaskResult
from braid.ingestion.inline_writes import write_message
from braid.lambda_runtime.fifo_batches import batch_handler, log_refused
from braid.lambda_runtime.stage_handlers import stage_handler

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


def _run(request: Task) -> TaskResult:
    return import_steps.run(request, application())


_run_task = stage_handler("ingest", Task, _run)
_write_messages = batch_handler(lambda body: write_message(body, application()), log_refused("ingest"))


def handler(event: dict[str, Any], context: "LambdaContext") -> Any:  # noqa: ANN401 - of both handlers
    """Handle a batch of queue messages, or a step of the import workflow."""
    return _write_messages(event, context) if "Records" in event else _run_task(event, context)
