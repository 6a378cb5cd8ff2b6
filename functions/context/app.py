"""Lambda function: builds the context of the next answer from the conversation, stored records and past answers."""

from braid.app import wired
from braid.lambda_runtime.observability import stage_handler
from braid.lambda_runtime.warm_up import open_beforehand
from braid.retrieval.context.building import measures
from braid.retrieval.context.selection import ContextRequest

open_beforehand(lambda: wired().index, lambda: wired().cache)
handler = stage_handler("context", ContextRequest, wired().context, measure=measures, count=wired().cache_counts)
