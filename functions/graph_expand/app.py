"""Lambda function: the graph_expand stage of the retrieval workflow."""

from importlib import import_module

from braid.app import application
from braid.lambda_runtime.stage_handlers import stage_handler
from braid.lambda_runtime.warm_up import open_beforehand
from braid.retrieval.stages.stage_messages import GraphRequest

open_beforehand(
    lambda: application().graph,
    lambda: application().cache,
    lambda: import_module("braid.ranking.pagerank_and_paths"),
)
handler = stage_handler("graph_expand", GraphRequest, application().graph_expand, count=application().cache_counts)
