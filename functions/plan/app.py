"""Lambda: the plan stage of the retrieval workflow."""

from braid.app import wired
from braid.lambda_runtime.observability import stage_handler
from braid.lambda_runtime.warm_up import open_beforehand
from braid.retrieval.stages.states import PlanRequest

open_beforehand(lambda: wired().moves, lambda: wired().graph, lambda: wired().cache)
handler = stage_handler("plan", PlanRequest, wired().plan, count=wired().cache_counts)
