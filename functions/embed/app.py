"""Lambda: the embed stage of the retrieval workflow."""

from importlib import import_module

from braid.app import wired
from braid.lambda_runtime.observability import stage_handler
from braid.lambda_runtime.warm_up import load_beforehand, open_beforehand
from braid.retrieval.stages.states import EmbedRequest

open_beforehand(lambda: wired().moves, lambda: wired().cache, lambda: import_module("braid.engines.onnx.encoder"))
load_beforehand(lambda: [wired().encoder_for(model) for model in wired().models()])
handler = stage_handler("embed", EmbedRequest, wired().embed, count=wired().cache_counts)
