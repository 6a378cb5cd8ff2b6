"""Lambda function: the fuse_rerank stage of the retrieval workflow."""

from braid.app import application
from braid.lambda_runtime.stage_handlers import answer_metrics, stage_handler
from braid.lambda_runtime.warm_up import load_beforehand, open_beforehand
from braid.retrieval.stages.stage_messages import FuseRequest

open_beforehand(lambda: application().index, lambda: application().schemas, lambda: application().queue)
load_beforehand(application().open_reranker)
handler = stage_handler(
    "fuse_rerank", FuseRequest, application().fuse_rerank, measure=answer_metrics, count=application().outdated_counts
)
