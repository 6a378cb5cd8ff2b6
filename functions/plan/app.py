"""Lambda: the plan stage of the retrieval workflow."""

from braid.observability import stage_handler
from braid.stages.states import PlanRequest
from braid.wiring import wired

handler = stage_handler("plan", PlanRequest, wired().plan, count=wired().cache_counts)
