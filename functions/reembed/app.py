"""Lambda function: consumes messages of the re-embedding queue, or runs one step of its workflow."""

from typing import TYPE_CHECKING, Any

from braid.app import application
from braid.lambda_runtime.fifo_batches import batch_handler, log_refused
from braid.lambda_runtime.stage_handlers import stage_handler
from braid.reembedding.running_jobs import Progress, Step, run_step, work_off

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


def _run_step(step: Step) -> Progress:
    stages = application()
    return run_step(step, stages.reembedding, step_s=stages.settings.reembed_step_s)


_step_handler = stage_handler("reembed", Step, _run_step)
_work_off = batch_handler(lambda body: work_off(body, application().reembedding), log_refused("reembed"))


def handler(event: dict[str, Any], context: "LambdaContext") -> Any:  # noqa: ANN401 - of both handlers
    """Handle a batch of queue messages, or a step of the re-embedding workflow."""
    return _work_off(event, context) if "Records" in event else _step_handler(event, context)
