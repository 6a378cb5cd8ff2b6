"""Lambda: the graph_expand stage of the retrieval workflow."""

from braid.observability import stage_handler
from braid.stages.states import GraphRequest
from braid.wiring import wired

handler = stage_handler("graph_expand", GraphRequest, wired().graph_expand, count=wired().cache_counts)
