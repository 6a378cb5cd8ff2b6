"""Lambda: the fuse_rerank stage of the retrieval workflow."""

from braid.app import wired
from braid.lambda_runtime.answer_metrics import figures
from braid.lambda_runtime.observability import stage_handler
from braid.lambda_runtime.warm_up import load_beforehand, open_beforehand
from braid.retrieval.stages.states import FuseRequest

open_beforehand(lambda: wired().index, lambda: wired().schemas, lambda: wired().queue)
load_beforehand(wired().open_reranker)
handler = stage_handler("fuse_rerank", FuseRequest, wired().fuse_rerank, measure=figures, count=wired().outdated_counts)
