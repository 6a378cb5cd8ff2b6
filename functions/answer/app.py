"""Lambda function: runs all stages of a question in one process, in place of the workflow (``AnswerMode=function``)."""

from importlib import import_module

from braid.app import application
from braid.lambda_runtime.stage_handlers import answer_metrics, stage_handler
from braid.lambda_runtime.warm_up import load_beforehand, open_beforehand, run_after_restore
from braid.retrieval.stages.stage_messages import AnswerRequest

open_beforehand(
    lambda: application().index,
    lambda: application().graph,
    lambda: application().cache,
    lambda: application().schemas,
    lambda: application().queue,
    lambda: import_module("braid.engines.onnx.encoders"),
    lambda: import_module("braid.ranking.pagerank_and_paths"),
    lambda: import_module("braid.retrieval.pipeline"),
)
load_beforehand(
    lambda: [application().encoder_for(model) for model in application().models()], application().open_reranker
)
run_after_restore(application().reopen)
handler = stage_handler(
    "answer",
    AnswerRequest,
    application().answer_in_this_process,
    measure=answer_metrics,
    count=lambda: application().cache_counts() | application().outdated_counts(),
)
