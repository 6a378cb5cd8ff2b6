"""Lambda: the graph_expand stage of the retrieval workflow."""

from importlib import import_module

from braid.observability import stage_handler
from braid.readiness import open_beforehand
from braid.stages.states import GraphRequest
from braid.wiring import wired

open_beforehand(lambda: wired().graph, lambda: wired().cache, lambda: import_module("braid.engines.propagation"))
handler = stage_handler("graph_expand", GraphRequest, wired().graph_expand, count=wired().cache_counts)
