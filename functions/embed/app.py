"""Lambda function: the embed stage of the retrieval workflow."""

from importlib import import_module

from braid.app import application
from braid.lambda_runtime.stage_handlers import stage_handler
from braid.lambda_runtime.warm_up import load_beforehand, open_beforehand
from braid.retrieval.stages.stage_messages import EmbedRequest

open_beforehand(
    lambda: application().migration, lambda: application().cache, lambda: import_module("braid.engines.onnx.encoders")
)
load_beforehand(lambda: [application().encoder_for(model) for model in application().models()])
handler = stage_handler("embed", EmbedRequest, application().embed, count=application().cache_counts)
