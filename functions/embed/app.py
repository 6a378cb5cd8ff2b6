"""Lambda: the embed stage of the retrieval workflow."""

from importlib import import_module

from braid.observability import stage_handler
from braid.readiness import load_beforehand, open_beforehand
from braid.stages.states import EmbedRequest
from braid.wiring import wired

open_beforehand(lambda: wired().moves, lambda: wired().cache, lambda: import_module("braid.engines.onnx"))
load_beforehand(lambda: [wired().encoder_for(model) for model in wired().models()])
handler = stage_handler("embed", EmbedRequest, wired().embed, count=wired().cache_counts)
