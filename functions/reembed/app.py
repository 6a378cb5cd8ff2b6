"""Lambda: embedding again. Messages of the low-priority queue, or one step of the workflow."""

from typing import TYPE_CHECKING, Any

from braid.observability import stage_handler, stage_logger
from braid.reembedding.workflow import Progress, Step, queue_handler, take
from braid.wiring import wired

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


def _take(step: Step) -> Progress:
    stages = wired()
    return take(step, stages.reembedding, step_s=stages.settings.reembed_step_s)


def _log(message_id: str, error: Exception) -> None:
    # Not the error's text: it may quote what was sent.
    fields = {"message_id": message_id, "error": type(error).__name__, "field": getattr(error, "field", None)}
    stage_logger("reembed").warning("message refused", extra=fields)


_take_step = stage_handler("reembed", Step, _take)
_work_off = queue_handler(lambda: wired().reembedding, _log)


def handler(event: dict[str, Any], context: "LambdaContext") -> Any:  # noqa: ANN401 - what each of the two returns
    """Embed what the event asks for."""
    return _work_off(event, context) if "Records" in event else _take_step(event, context)
