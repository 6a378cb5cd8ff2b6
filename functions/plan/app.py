"""Lambda function: the plan stage of the retrieval workflow."""

from braid.app import application
from braid.lambda_runtime.stage_handlers import stage_handler
from braid.lambda_runtime.warm_up import open_beforehand
from braid.retrieval.stages.stage_messages import PlanRequest

open_beforehand(lambda: application().migration, lambda: application().graph, lambda: application().cache)
handler = stage_handler("plan", PlanRequest, application().plan, count=application().cache_counts)
