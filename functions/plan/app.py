"""Lambda: the plan stage of the retrieval workflow."""

from braid.observability import stage_handler
from braid.readiness import open_beforehand
from braid.stages.states import PlanRequest
from braid.wiring import wired

open_beforehand(lambda: wired().moves, lambda: wired().graph, lambda: wired().cache)
handler = stage_handler("plan", PlanRequest, wired().plan, count=wired().cache_counts)
