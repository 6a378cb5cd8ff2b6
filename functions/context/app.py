"""Lambda function: builds the context of the next answer from the conversation, stored records and past answers."""

from braid.app import application
from braid.lambda_runtime.stage_handlers import stage_handler
from braid.lambda_runtime.warm_up import open_beforehand
from braid.retrieval.context.building import measures
from braid.retrieval.context.message_selection import ContextRequest

open_beforehand(lambda: application().index, lambda: application().cache)
handler = stage_handler(
    "context", ContextRequest, application().context, measure=measures, count=application().cache_counts
)
